"""Norms, rotations, quantisation and caches in one, token by token in float64; joined streams against torch."""

from __future__ import annotations

from typing import Any, Optional

import ml_dtypes
import numpy as np
import pytest
from attention_tools import BF16, close, numbers, wide

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

RNG = np.random.default_rng(15)
F32, F16, I8 = np.float32, np.float16, np.dtype(np.int8)
FP8 = np.dtype(ml_dtypes.float8_e4m3fn)


def norm(x: Any, gamma: Any, epsilon: float = 1e-5) -> Any:
    return wide(gamma) * wide(x) / np.sqrt((wide(x) ** 2).mean() + epsilon)


def halves(x: Any, cos: Any, sin: Any) -> Any:
    """y[j] = x[j] cos[j] -+ x[the other half] sin[j]."""
    n = len(x) // 2
    return np.array([x[j] * cos[j] + (-x[j + n] if j < n else x[j - n]) * sin[j] for j in range(2 * n)])


def interleaved(x: Any, cos: Any, sin: Any) -> Any:
    order = [*range(0, len(x), 2), *range(1, len(x), 2)]
    return halves(np.asarray(x)[order], cos, sin)


def fractal_row(cache: Any, page: int, place: int, width: int) -> Any:
    """A token's row in a page whose memory is (width / c, tokens, c)."""
    part = 32 // cache.itemsize
    return cache[page].reshape(-1).reshape(width // part, -1, part)[:, place].reshape(-1)


@pytest.mark.parametrize("mode", ["Norm", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"])
def test_joined_keys_and_values(mode: str) -> None:
    batch, tokens, dv, dk = 2, 3, 64, 32
    kv, gamma = numbers(RNG, batch, 1, tokens, dv + dk), numbers(RNG, dv)
    cos, sin = numbers(RNG, batch, 1, tokens, dk), numbers(RNG, batch, 1, tokens, dk)
    quant = mode in ("PA_NZ",)
    dtype = I8 if quant else BF16
    scales = (np.full(dk, 20, F32), np.full((1, dv), 30, F32)) if quant else (None, None)
    if mode == "Norm":
        caches = np.full((2, 1, 5, dk), 9, dtype), np.full((2, 1, 5, dv), 9, dtype)
        index = np.array([[1, -1, 4], [0, 2, 3]])
        where = {(b, s): (b, 0, index[b, s]) for b in range(2) for s in range(3)}
    else:
        caches = np.full((4, 32, 1, dk), 9, dtype), np.full((4, 32, 1, dv), 9, dtype)
        if "BLK" in mode:
            index, where = np.array([64, 0]), {(b, s): ((2, 0)[b], s, 0) for b in range(2) for s in range(3)}
        else:
            index = np.array([70, -1, 2, 33, 127, 0])
            where = {(i // 3, i % 3): (*divmod(int(n), 32), 0) for i, n in enumerate(index)}
    k_cache, v_cache, rope, latent = ops.kv_rms_norm_rope_cache(
        kv, gamma, cos, sin, index, *caches, *scales, epsilon=1e-5, cache_mode=mode, is_output_kv=mode != "Norm"
    )
    assert k_cache is caches[0]
    for (b, s), place in where.items():
        value = norm(kv[b, 0, s, :dv], gamma)
        key = interleaved(wide(kv[b, 0, s, dv:]), wide(cos[b, 0, s]), wide(sin[b, 0, s]))
        if mode != "Norm":
            close(rope[b, 0, s], key)
            close(latent[b, 0, s], value)
        if min(place) < 0:
            continue
        for cache, wanted, width in zip(caches, (key, value), (dk, dv)):
            found = fractal_row(cache, place[0], place[1], width) if mode.endswith("NZ") else cache[place]
            if quant:
                expected = np.clip(np.rint(wanted * (20 if width == dk else 30)), -128, 127)
                assert np.abs(found - expected).max() <= 1
            else:
                close(found, wanted)
    written = 5 if mode in ("Norm", "PA_BNSD", "PA_NZ") else 6
    assert (wide(v_cache) == 9).sum() >= v_cache.size - written * dv


def test_a_cache_whose_batches_and_heads_are_cut_otherwise() -> None:
    kv, gamma, cos = numbers(RNG, 2, 1, 3, 96), numbers(RNG, 64), numbers(RNG, 2, 1, 3, 32)
    index = np.array([[0, 4, 2], [3, 1, 0]])
    caches = []
    for lead in ((2, 1), (1, 2)):
        keys, latent = np.zeros((*lead, 5, 32), BF16), np.zeros((*lead, 5, 64), BF16)
        ops.kv_rms_norm_rope_cache(kv, gamma, cos, cos, index, keys, latent)
        caches.append((keys.reshape(2, 5, 32), latent.reshape(2, 5, 64)))
    assert np.any(caches[0][0]) and all(np.array_equal(a, b) for a, b in zip(*caches))
    with pytest.raises(AclError, match=r"k_cache has shape \(1, 1, 5, 32\)") as error:
        ops.kv_rms_norm_rope_cache(kv, gamma, cos, cos, index, keys[:, :1], latent)
    assert error.value.status == 561002


def test_keys_and_values_of_their_own() -> None:
    batch, heads, tokens, dk, dv, rope = 1, 2, 3, 96, 64, 32
    kv, value, gamma = numbers(RNG, batch, heads, tokens, dk), numbers(RNG, batch, heads, tokens, dv), numbers(RNG, dk)
    cos, sin = numbers(RNG, batch, heads, tokens, rope), numbers(RNG, batch, heads, tokens, rope)
    caches = np.zeros((2, 32, heads, dk), I8), np.zeros((2, 32, heads, dv), I8)
    scale_k, scale_v = (np.abs(numbers(RNG, heads, n, dtype=F32)) * 30 for n in (dk, dv))
    offset = np.full((heads, dk), 4, F32)
    index = np.array([40, 2, 11])
    ops.kv_rms_norm_rope_cache_v2(
        kv, gamma, cos, sin, index, *caches, scale_k, scale_v, offset, None, value, 1e-5, "PA_BNSD", False
    )
    for s, slot in enumerate(index):
        for head in range(heads):
            normed = norm(kv[0, head, s], gamma)
            key = np.concatenate(
                [interleaved(normed[:rope], wide(cos[0, head, s]), wide(sin[0, head, s])), normed[rope:]]
            )
            expected = np.clip(np.rint(key * scale_k[head] + 4), -128, 127)
            assert np.abs(caches[0][slot // 32, slot % 32, head] - expected).max() <= 1
            expected = np.clip(np.rint(wide(value[0, head, s]) * scale_v[head]), -128, 127)
            assert np.abs(caches[1][slot // 32, slot % 32, head] - expected).max() <= 1


def test_an_offset_that_the_kernel_ignores() -> None:
    kv, cache = numbers(RNG, 1, 1, 1, 96), np.zeros((2, 32, 1, 32), I8)
    table, scale = numbers(RNG, 1, 1, 1, 32), np.ones(32, F32)
    arguments = (
        kv,
        numbers(RNG, 64),
        table,
        table,
        np.zeros(1, np.int64),
        cache,
        np.zeros((2, 32, 1, 64), BF16),
        scale,
    )
    with pytest.raises(aclnn.UnsupportedOperator, match="the kernel ignores offsets"):
        ops.kv_rms_norm_rope_cache(*arguments, None, scale, cache_mode="PA_BNSD")


@pytest.mark.parametrize("quant", [False, True])
def test_queries_keys_and_values_in_one(quant: bool) -> None:
    tokens, nq, nk, width = 3, 4, 2, 128
    qkv, gq, gk = numbers(RNG, tokens, (nq + 2 * nk) * width), numbers(RNG, width), numbers(RNG, width)
    cos, sin = numbers(RNG, tokens, width), numbers(RNG, tokens, width)
    part = 32 if quant else 16
    caches = [np.zeros((2, nk * width // part, 32, part), I8 if quant else BF16) for _ in range(2)]
    scales = [np.full((nk, width), n, F32) for n in (0.03, 0.04)] if quant else [None, None]
    offsets = [np.full((nk, width), n, F32) for n in (2, -3)] if quant else [None, None]
    index = np.array([33, -1, 5])
    out = np.zeros((tokens, nq * width), BF16)
    ops.qkv_rms_norm_rope_cache(
        qkv, gq, gk, cos, sin, index, out, *caches, *scales, *offsets, [1, tokens, nq + 2 * nk, width], [nq, nk, nk],
        1e-5, "PA_NZ",
    )  # fmt: skip
    for t, slot in enumerate(index):
        heads = wide(qkv[t]).reshape(-1, width)
        for head in range(nq):
            expected = halves(norm(heads[head], gq), wide(cos[t]), wide(sin[t]))
            close(out[t, head * width : (head + 1) * width], expected)
        if slot < 0:
            continue
        keys = [halves(norm(heads[nq + h], gk), wide(cos[t]), wide(sin[t])) for h in range(nk)]
        for cache, wanted, step, offset in zip(caches, (keys, heads[nq + nk :]), (0.03, 0.04), (2, -3)):
            found = fractal_row(cache, slot // 32, slot % 32, nk * width)
            flat = np.concatenate(list(wanted))
            if quant:
                assert np.abs(found - np.clip(np.rint(flat / step + offset), -128, 127)).max() <= 1
            else:
                close(found, flat)


def column_kind(column: int, sections: Any) -> int:
    """Which of three positions a column of cosines is of."""
    for kind in (1, 2):
        if column % 3 == kind and column < 3 * sections[kind]:
            return kind
    return 0


@pytest.mark.parametrize("by_three", [False, True])
def test_queries_keys_and_values_with_scales_of_keys(by_three: bool) -> None:
    tokens, nq, nk, width = 4, 8, 1, 128
    qkv, gq, gk = (
        numbers(RNG, tokens, nq + 2 * nk, width),
        numbers(RNG, width, dtype=F32),
        numbers(RNG, width, dtype=F32),
    )
    table, rotation = numbers(RNG, 20, width, dtype=F32), (numbers(RNG, width, width, dtype=F32) / 8).astype(BF16)
    key = np.zeros((2, nk, 8, width), I8 if by_three else FP8)
    value, scale = np.zeros((2, nk, 8, width), FP8), np.zeros((2, nk, 8, 1), F32)
    factor = np.full((nk, width) if by_three else (nk,), 2, F32)
    slots = np.array([9, 0, 3, 15], np.int32)
    sections, positions = (24, 20, 20), RNG.integers(0, 20, (tokens, 3)).astype(np.int32)
    starts, lengths = np.array([0, 1, 4], np.int32), np.array([7, 12], np.int32)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        *_, out, q_scale = ops.qkv_rms_norm_rope_cache_with_k_scale(
            qkv, gq, gk, table, slots, key, value, scale, *((None, None) if by_three else (starts, lengths)), rotation,
            factor, positions if by_three else None, [nq, nk, nk], "TND", "TND" if by_three else "NTD", 1e-5,
            list(sections) if by_three else None, "NoQuant" if by_three else "PerTokenPerHead",
        )  # fmt: skip
    for t, slot in enumerate(slots):
        if by_three:
            kinds = [column_kind(j, sections) for j in range(64)]
            cos = np.array([table[positions[t, kind], j] for j, kind in enumerate(kinds)])
            sin = np.array([table[positions[t, kind], 64 + j] for j, kind in enumerate(kinds)])
        else:
            position = 6 if t == 0 else 9 + t - 1  # one token ends a sequence of 7, three one of 12
            cos, sin = table[position, :64], table[position, 64:]
        cos, sin = np.tile(wide(cos), 2), np.tile(wide(sin), 2)

        def turned(row: Any, gamma: Any, cos: Any = cos, sin: Any = sin) -> Any:
            return wide(halves(norm(row, gamma), cos, sin).astype(BF16)) @ wide(rotation)

        for head in range(nq):
            expected = turned(qkv[t, head], gq)
            if by_three:
                close(out[t, head], expected, 2.0**-6)
            else:
                step = np.abs(expected).max() / 448
                assert q_scale[head, t] == pytest.approx(step, rel=0.02)
                assert np.abs(wide(out[head, t]) * q_scale[head, t] - expected).max() <= 20 * step
        expected, place = turned(qkv[t, nq], gk), (slot // 8, 0, slot % 8)
        most = 127 if by_three else 448
        assert scale[place][0] == pytest.approx(np.abs(expected).max() / most, rel=0.02)
        assert np.abs(wide(key[place]) * scale[place][0] - expected).max() <= np.abs(expected).max() / (
            100 if by_three else 20
        )
        close(value[place], wide(qkv[t, nq + 1]) * 2, 2.0**-3)


def test_two_kinds_of_tokens() -> None:
    und, gen, hq, hk, width = 2, 3, 8, 1, 128
    tokens = und + gen
    und_qkv, gen_qkv = numbers(RNG, und, hq + 2 * hk, width), numbers(RNG, gen, hq + 2 * hk, width)
    weights = [numbers(RNG, width) for _ in range(4)]
    table, positions = numbers(RNG, 30, width, dtype=F32), RNG.integers(0, 30, (3, tokens))
    caches = [np.zeros((2, 4, hk, width), BF16) for _ in range(2)]
    slots, order, sections = np.array([7, 1, 0, 3, 5]), RNG.permutation(tokens), (24, 20, 20)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        *_, out = ops.und_gen_qkv_rms_norm_rope_cache(
            und_qkv, *weights[:2], table, *caches, slots, positions, gen_qkv, *weights[2:], order, hq, hk, hk, 1e-6,
            list(sections),
        )  # fmt: skip
    for t in range(tokens):
        source = order[t]
        row = und_qkv[source] if source < und else gen_qkv[source - und]
        gq, gk = weights[:2] if source < und else weights[2:]
        kinds = [column_kind(j, sections) for j in range(64)]
        cos = np.tile([wide(table[positions[kind, t], j]) for j, kind in enumerate(kinds)], 2)
        sin = np.tile([wide(table[positions[kind, t], 64 + j]) for j, kind in enumerate(kinds)], 2)
        for head in range(hq):
            close(out[t, head], halves(norm(row[head], gq, 1e-6), cos, sin))
        place = divmod(int(slots[t]), 4)
        close(caches[0][place][0], halves(norm(row[hq], gk, 1e-6), cos, sin))
        np.testing.assert_array_equal(caches[1][place][0], row[hq + 1])


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("mode", ["contiguous", "page"])
def test_dequantised_rotated_quantised(integers: bool, mode: str) -> None:
    batch, tokens, nq, nkv, width = 2, 3, 2, 1, 16
    sizes = [nq * width, nkv * width, nkv * width]
    total = sum(sizes)
    x = (
        RNG.integers(-5000, 5000, (batch, tokens, total)).astype(np.int32)
        if integers
        else numbers(RNG, batch, tokens, total, dtype=F16)
    )
    cos, sin = numbers(RNG, batch, tokens, 1, width, dtype=F16), numbers(RNG, batch, tokens, 1, width, dtype=F16)
    caches = np.full((3, 8, nkv, width), 77, I8), np.full((3, 8, nkv, width), 77, I8)
    indices = np.array([2, 5] if mode == "contiguous" else [3, 9, 0, 23, 12, 7], np.int32)
    scale_k, scale_v, offset_k = (np.abs(numbers(RNG, nkv, width, dtype=F32)) / 20 + 0.02 for _ in range(3))
    extra: dict[str, Any] = {}
    ws, acts, bias = np.full(total, 1e-3, F32), np.array([1, 2, 0.5, 1, 1, 3], F32), numbers(RNG, total, dtype=F16)
    if integers:
        extra = {"weight_scale": ws, "activation_scale": acts, "bias": bias}
    _, _, q, k, v = ops.dequant_rope_quant_kvcache(
        x, cos, sin, *caches, indices, scale_k, scale_v, offset_k * 100, None, size_splits=sizes, quant_mode="static",
        layout="BSND", kv_output=True, cache_mode=mode, **extra,
    )  # fmt: skip
    touched = set()
    for b in range(batch):
        for s in range(tokens):
            row = wide(x[b, s])
            if integers:
                row = row * ws * acts[b * tokens + s] + wide(bias)
            parts = row.reshape(-1, width)
            for head in range(nq):
                close(q[b, s, head], halves(parts[head], wide(cos[b, s, 0]), wide(sin[b, s, 0])), 2.0**-9)
            key = halves(parts[nq], wide(cos[b, s, 0]), wide(sin[b, s, 0]))
            close(k[b, s, 0], key, 2.0**-9)
            close(v[b, s, 0], parts[nq + 1], 2.0**-9)
            place = (b, indices[b] + s) if mode == "contiguous" else divmod(int(indices[b * tokens + s]), 8)
            touched.add(place)
            expected = np.clip(np.rint(key / scale_k[0] + offset_k[0] * 100), -128, 127)
            assert np.abs(caches[0][place][0] - expected).max() <= 1
            expected = np.clip(np.rint(parts[nq + 1] / scale_v[0]), -128, 127)
            assert np.abs(caches[1][place][0] - expected).max() <= 1
    assert all((caches[0][p, i] == 77).all() for p in range(3) for i in range(8) if (p, i) not in touched)


def test_a_slot_that_is_not_there() -> None:
    kv, cache = numbers(RNG, 1, 1, 2, 96), np.zeros((2, 32, 1, 32), BF16)
    table = numbers(RNG, 1, 1, 2, 32)
    with pytest.raises(AclError, match=r"index element \[1\] is 64; allowed: -1 to 63"):
        ops.kv_rms_norm_rope_cache(
            kv,
            numbers(RNG, 64),
            table,
            table,
            np.array([3, 64]),
            cache,
            np.zeros((2, 32, 1, 64), BF16),
            cache_mode="PA",
        )


# --------------------------------------------------------------------------------------------------- joined streams


def streams(kind: int, added: int, rope: int, order: int, own: list[Any], table: Any, eps: float) -> Any:
    """query, encoder query and their weights, in torch."""
    import torch

    query, encoder, weight, bias, weight2, bias2 = own
    cos, sin = table

    def normed(x: Any, k: int, w: Any, b: Any) -> Any:
        if k in (1, 2):
            return torch.nn.functional.layer_norm(x, x.shape[-1:], w if k == 2 else None, b if k == 2 else None, eps)
        if k in (3, 4):
            made = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
            return made * w if k == 4 else made
        return x

    parts = [normed(query, kind, weight, bias), normed(encoder, added, weight2, bias2)]
    x = torch.cat(parts[::-1] if order else parts, 1).transpose(1, 2)
    if rope == 0:
        return x
    head, tail = x[:, :, : len(cos)], x[:, :, len(cos) :]
    if rope == 1:
        turned = torch.stack([-head[..., 1::2], head[..., ::2]], -1).flatten(-2)
    else:
        a, b = head.chunk(2, -1)
        turned = torch.cat([-b, a], -1)
    return torch.cat([head * cos + turned * sin, tail], 2)


@pytest.mark.parametrize(
    "kind,added,rope,order", [(2, 1, 1, 0), (1, 2, 2, 1), (4, 3, 2, 0), (0, 0, 1, 1), (2, 2, 0, 0)]
)
def test_joined_streams(kind: int, added: int, rope: int, order: int) -> None:
    torch = pytest.importorskip("torch", reason="the joined streams are checked against torch")
    batch, own, other, heads, width, eps = 2, 5, 3, 2, 16, 1e-5
    tensors = [numbers(RNG, batch, n, heads, width, dtype=F32) for n in (own, own, own, other, other, other)]
    weights = [numbers(RNG, width, dtype=F32) for _ in range(8)]
    sin, cos = numbers(RNG, 6, width, dtype=F32), numbers(RNG, 6, width, dtype=F32)
    training = kind in (0, 1, 2)
    out = ops.norm_rope_concat(*tensors, *weights, sin, cos, kind, added, rope, order, eps, training)
    doubled = [torch.tensor(wide(t), requires_grad=True) for t in (*tensors, *weights)]
    table = torch.tensor(wide(cos)), torch.tensor(wide(sin))
    query = streams(kind, added, rope, order, [doubled[0], doubled[3], *doubled[6:8], *doubled[10:12]], table, eps)
    key = streams(kind, added, rope, order, [doubled[1], doubled[4], *doubled[8:10], *doubled[12:14]], table, eps)
    values = [doubled[2], doubled[5]]
    value = torch.cat(values[::-1] if order else values, 1).transpose(1, 2)
    for found, wanted in zip(out[:3], (query, key, value)):
        np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
    if not training:
        return
    if kind:
        mean = wide(tensors[0]).mean(-1, keepdims=True)
        np.testing.assert_allclose(out[3], mean, rtol=1e-3, atol=1e-5)
    grads = [numbers(RNG, *t.shape, dtype=F32) for t in (query, key, value)]
    torch.autograd.backward([query, key, value], [torch.tensor(wide(g)) for g in grads])
    statistics: list[Optional[Any]] = list(out[3:])
    order_of = [(6, 0, 1), (8, 2, 3), (10, 4, 5), (12, 6, 7)]
    passed = []
    for position, mean_at, rstd_at in order_of:
        level = kind if position < 10 else added
        passed += [weights[position - 6] if level == 2 else None]
        passed += [statistics[mean_at], statistics[rstd_at]] if level else [None, None]
    actual = ops.norm_rope_concat_backward(
        *grads, tensors[0], tensors[1], tensors[3], tensors[4], *passed, sin, cos, kind, added, rope, order
    )
    wanted = [doubled[n].grad for n in (0, 1, 2, 3, 4, 5)]
    for found, gradient in zip(actual[:6], wanted):
        np.testing.assert_allclose(found, gradient.numpy(), rtol=1e-3, atol=1e-5)
    for found, position in zip(actual[6:], range(6, 14)):
        level = kind if position < 10 else added
        if level == 2:
            np.testing.assert_allclose(found, doubled[position].grad.numpy(), rtol=1e-3, atol=1e-4)
