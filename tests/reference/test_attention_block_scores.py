"""Scores of blocks, element by element in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from attention_tools import close, numbers, wide

import ascend_aclnn as aclnn
from ascend_aclnn import ops

RNG = np.random.default_rng(29)
F32 = np.float32
FP8 = np.dtype(ml_dtypes.float8_e4m3fn)


def i32(*values: Any) -> Any:
    return np.array(values, np.int32)


@pytest.mark.parametrize("layout", ["TND", "BBND", "BNBD"])
@pytest.mark.parametrize("mode", [0, 3])
def test_msa_index_score(layout: str, mode: int) -> None:
    heads, width, lengths, counts = 2, 16, [300, 130], [3, 2]
    query = numbers(RNG, 5, heads, width)
    tokens = [numbers(RNG, n, 1, width) for n in lengths]
    table, ends = None, i32(0, *np.cumsum(lengths))
    if layout == "TND":
        key: Any = np.concatenate(tokens)
    else:
        key, table, ends = numbers(RNG, 6, 128, 1, width), i32([4, 0, 2], [1, 5, -1]), i32(*lengths)
        for row, part in zip(table, tokens):
            for place in range(len(part)):
                key[row[place // 128], place % 128] = part[place]
        key = key if layout == "BBND" else np.ascontiguousarray(key.swapaxes(1, 2))
    mask = np.triu(np.ones((2048, 2048), np.int8), 1) if mode == 3 else None
    score = ops.msa_index_score(query, key, table, None, mask, i32(0, 3, 5), ends, i32(2, 1), layout, mode, 1, 1)
    row = 0
    for number, count in enumerate(counts):
        for place in range(count):
            seen = lengths[number] - count + place + 1 if mode == 3 else lengths[number]
            for head in range(heads):
                expected = np.full(score.shape[-1], -np.inf)
                dots = [float(wide(query[row, head]) @ wide(k[0])) for k in tokens[number][:seen]]
                for block in range(-(-len(dots) // 128)):
                    expected[block] = max(dots[block * 128 : block * 128 + 128])
                expected[0], expected[[2, 1][number]] = 1e30, 1e29
                np.testing.assert_allclose(score[head, row], expected, rtol=1e-5, atol=1e-5)
            row += 1


def test_stem_queries() -> None:
    lengths, heads = [200, 0, 60], 2
    q = numbers(RNG, 260, heads, 128, dtype=F32).astype(FP8)
    scale = np.abs(numbers(RNG, 260, heads, dtype=F32)) + F32(0.5)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        actual = ops.stem_oam_prep_varlen_q(q, lengths, [0, 200, 200, 260], scale, 128, 16)
    expected = np.zeros((3, heads, 2, 16, 128))
    for batch, start in ((0, 0), (2, 200)):
        for place in range(lengths[batch]):
            row = wide(q[start + place]) * scale[start + place][:, None]
            expected[batch, :, place // 128, place % 16] += row
    close(actual, expected.reshape(actual.shape))


@pytest.mark.parametrize("layout", ["BBND", "BNBD"])
def test_stem_keys_and_values(layout: str) -> None:
    lengths, heads, size = [150, 64], 2, 64
    k, v = (numbers(RNG, 6, size, heads, 128, dtype=F32).astype(FP8) for _ in range(2))
    scale = np.abs(numbers(RNG, 6, size, heads, 1, dtype=F32)) + F32(0.5)
    table, by_head = i32([3, 1, 5], [0, 0, 0]), np.array([0.5, 2.0], F32)
    given = (k, v, scale) if layout == "BBND" else tuple(np.ascontiguousarray(x.swapaxes(1, 2)) for x in (k, v, scale))
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        flat, bias = ops.stem_oam_prep_paged_kv(
            given[0], given[1], table, lengths, given[2], by_head, 0.3, layout, 128, 16
        )
    for batch, length in enumerate(lengths):
        blocks = -(-length // 128)
        for head in range(heads):
            sums, norms = np.zeros((2, 16, 128)), np.zeros(blocks * 8)
            for place in range(length):
                page, row = table[batch][place // size], place % size
                sums[place // 128, 15 - place % 16] += wide(k[page, row, head]) * float(scale[page, row, head, 0])
                norm = np.linalg.norm(wide(v[page, row, head]) * float(by_head[head]))
                norms[place // 16] = max(norms[place // 16], norm)
            close(flat[batch, head], sums.reshape(2, -1))
            logs = np.log(norms + 1e-6)
            z = np.maximum((logs - np.mean(logs)) / (np.std(logs, ddof=1) + 1e-6), 0) * 0.3
            expected = np.zeros(2)
            expected[:blocks] = z.reshape(blocks, 8).mean(1)
            np.testing.assert_allclose(bias[batch, head], expected, rtol=1e-4, atol=1e-5)


def test_swin_attention() -> None:
    q, k, v = (RNG.integers(-10, 10, (2, 3, 16, 32)).astype(np.int8) for _ in range(3))
    scales = [np.full((1, n), np.float32(s)).view(np.uint32).astype(np.uint64) for n, s in ((16, 0.01), (32, 0.02))]
    bias = RNG.integers(-50, 50, (1, 16)).astype(np.int32)
    mask = np.where(RNG.random((1, 3, 16, 16)) < 0.2, np.float16(-100), np.float16(0))
    factor, offset = np.full((1, 16), np.float16(100)), np.full((1, 16), np.float16(-3))
    with aclnn.use_backend("numpy", soc="Ascend310P3"):
        out = ops.swin_attention_score_quant(
            q, k, v, factor, *scales, offset, bias, None, mask, None, False, False, False, -1
        )
    scores = (np.einsum("ncqd,nckd->ncqk", wide(q), wide(k)) + bias) * 0.01 + wide(mask)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True) * 100 - 3
    exact = np.einsum("ncqk,nckd->ncqd", weights, wide(v)) * 0.02
    assert np.abs(wide(out) - exact).max() < 0.02 * (0.6 * np.abs(wide(v)).sum(2).max())
    assert out.dtype == np.float16


def test_swin_layer_norm() -> None:
    heads, width, high, wide_, window = 2, 32, 14, 7, 7
    x = numbers(RNG, 1, high * wide_, heads * width, dtype=F32).astype(np.float16)
    gamma, beta = (numbers(RNG, heads * width, dtype=F32).astype(np.float16) for _ in range(2))
    weight = RNG.integers(-5, 6, (3 * heads * width, heads * width)).astype(np.int8)
    bias = RNG.integers(-50, 50, 3 * heads * width).astype(np.int32)
    scale, offset = (np.full(heads * width, np.float16(n)) for n in (30, 2))
    back = np.full(3 * heads * width, F32(0.001)).view(np.uint32).astype(np.uint64)
    with aclnn.use_backend("numpy", soc="Ascend310P3"):
        results = ops.swin_transformer_ln_qkv_quant(
            x, gamma, beta, weight, bias, scale, offset, back, heads, width, 1e-5, high, wide_, window, window, True
        )
    exact = wide(x[0])
    exact = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5) * wide(gamma) + wide(
        beta
    )
    whole = np.clip(np.rint(exact * 30 + 2), -128, 127)
    for number, result in enumerate(results):
        for row, column in ((0, 0), (6, 6), (9, 3), (13, 5)):
            out = (wide(weight) @ whole[row * wide_ + column] + bias) * 0.001
            part = out[number * heads * width : (number + 1) * heads * width].reshape(heads, width)
            close(result[row // 7, :, row % 7 * 7 + column], part, 2.0**-9)
