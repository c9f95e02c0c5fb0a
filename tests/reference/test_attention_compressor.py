"""Compression of keys, position by position in float64; its gradient against torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attention_tools import BF16, close, hifloat8_numbers, numbers, wide

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

RNG = np.random.default_rng(17)
F32 = np.float32


def i32(*values: Any) -> Any:
    return np.array(values, np.int32)


def formula(x: Any, wkv: Any, wgate: Any, ape: Any, ratio: int, coff: int) -> Any:
    """Of a whole sequence, channel by channel."""
    keys, scores = wide(x) @ wide(wkv).T, wide(x) @ wide(wgate).T
    width = keys.shape[1] // coff
    rows = []
    for group in range(len(x) // ratio):
        row = []
        for channel in range(width):
            terms = []
            if coff == 2 and group:
                terms += [(p, channel) for p in range((group - 1) * ratio, group * ratio)]
            terms += [(p, channel + (coff - 1) * width) for p in range(group * ratio, (group + 1) * ratio)]
            weights = np.exp([scores[p, c] + float(ape[p % ratio, c]) for p, c in terms])
            row.append(sum(w * keys[p, c] for w, (p, c) in zip(weights, terms)) / weights.sum())
        rows.append(row)
    return np.array(rows).reshape(-1, width)


def operands(ratio: int, coff: int, width: int = 8, hidden: int = 16) -> Any:
    weights = [(numbers(RNG, coff * width, hidden, dtype=F32) / 4).astype(BF16) for _ in range(2)]
    return (*weights, numbers(RNG, ratio, coff * width, dtype=F32))


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("coff", [1, 2])
def test_sequence_in_two_calls(coff: int, mode: int) -> None:
    ratio, tokens = 4, [11, 14]
    wkv, wgate, ape = operands(ratio, coff)
    x = [numbers(RNG, n, 16) for n in tokens]
    expected = [formula(part, wkv, wgate, ape, ratio, coff) for part in x]
    table = i32([1, 2, 3, 4], [5, 6, 7, 8]) if mode == 1 else i32(1, 2)
    cache = np.zeros((9, 4 if mode == 1 else 16, 2 * coff * 8), F32)
    made: list[Any] = [[], []]
    for first, last in ((0, 6), (6, 14)):
        parts = [part[first:last] for part in x]
        ends = i32(0, len(parts[0]), len(parts[0]) + len(parts[1]))
        starts = i32(first, first)
        with aclnn.use_backend("numpy", soc="Ascend910_9391"):
            _, result, _, _ = ops.compressor(
                np.concatenate(parts),
                wkv,
                wgate,
                cache,
                ape,
                table,
                ends,
                None,
                starts,
                ratio,
                coff,
                mode,
                cache[0].size,
                False,
            )
        done = 0
        for number, part in enumerate(parts):
            groups = (first + len(part)) // ratio - first // ratio
            made[number].append(wide(result[done : done + groups]))
            done += groups
        assert not wide(result[done:]).any()
    for own, wanted in zip(made, expected):
        close(np.concatenate(own), wanted)


@pytest.mark.parametrize("coff", [1, 2])
def test_operands_of_hifloat8(coff: int) -> None:
    """x is codes times one scale, the weights are codes times a scale for each row."""
    ratio, width, hidden = 4, 128, 1024
    codes = [hifloat8_numbers(RNG, *s) for s in ((2, 9, hidden), (coff * width, hidden), (coff * width, hidden))]
    scales = [np.array([0.75], F32), *(np.exp2(RNG.normal(-6, 0.5, coff * width)).astype(F32) for _ in range(2))]
    x, wkv, wgate = (wide(c) * (s if s.size == 1 else s[:, None]) for c, s in zip(codes, scales))
    ape = numbers(RNG, ratio, coff * width, dtype=F32)
    cache = np.zeros((7, 4, 2 * coff * width), F32)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        state, out = ops.quant_compressor(
            *codes,
            cache,
            ape,
            *scales,
            i32([1, 2, 3], [4, 5, 6]),
            None,
            None,
            None,
            1,
            ratio,
            coff,
            1,
            cache[0].size,
        )
    for number in range(2):
        expected = formula(x[number], wkv, wgate, ape, ratio, coff)
        close(out[number, :2], expected)
        assert not wide(out[number, 2:]).any()
        kept = np.concatenate([x[number] @ wkv.T, x[number] @ wgate.T + ape[np.arange(9) % ratio]], 1)
        pages = state[1 + 3 * number : 4 + 3 * number].reshape(12, -1)
        close(pages[:9], kept, 2.0**-16)
        assert not pages[9:].any()


@pytest.mark.parametrize("coff", [1, 2])
def test_gradient(coff: int) -> None:
    torch = pytest.importorskip("torch", reason="the gradient of compression is checked against torch")
    ratio, width = 4, 8
    wkv, wgate, ape = operands(ratio, coff, width)
    x = numbers(RNG, 2, 9, 16)
    cache = np.zeros((7, 4, 2 * coff * width), F32)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        _, out, scores, keys = ops.compressor(
            x, wkv, wgate, cache, ape, i32([1, 2, 3], [4, 5, 6]), None, None, None, ratio, coff, 1, cache[0].size, True
        )
        by = numbers(RNG, *out.shape)
        by[:, 2:] = 0
        results = ops.compressor_grad(x, wkv, wgate, by, scores, keys, None, None, None, ratio, coff)
    given = [torch.tensor(wide(part), requires_grad=True) for part in (x, wkv, wgate, ape)]
    tx, tkv, tgate, tape = given
    total: Any = 0
    for number in range(2):
        kv, score = tx[number, :8] @ tkv.T, tx[number, :8] @ tgate.T
        for group in range(2):
            own = slice(4 * group, 4 * group + 4)
            k, s = kv[own, (coff - 1) * width :], (score[own] + tape)[:, (coff - 1) * width :]
            if coff == 2 and group:
                k = torch.cat([kv[:4, :width], k])
                s = torch.cat([(score[:4] + tape)[:, :width], s])
            row = (torch.softmax(s, 0) * k).sum(0)
            total = total + (row * torch.tensor(wide(by[number, group]))).sum()
            close(out[number, group], row.detach().numpy())
    total.backward()
    for result, tensor in zip(results, given):
        close(result, tensor.grad.numpy())


def test_packed_tokens_need_their_ends() -> None:
    wkv, wgate, ape = operands(4, 1)
    cache = np.zeros((3, 4, 16), F32)
    with aclnn.use_backend("numpy", soc="Ascend910_9391"), pytest.raises(AclError):
        ops.compressor(numbers(RNG, 5, 16), wkv, wgate, cache, ape, i32([1, 2]), None, None, None, 4, 1, 1, 64, False)
