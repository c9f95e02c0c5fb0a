"""Sparse flash attention and sparse latent attention, query by query in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from attention_tools import BF16, attend, close, hifloat8_numbers, numbers, wide

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

RNG = np.random.default_rng(13)
F32 = np.float32
FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
FAR = 2**63 - 1


def i32(*values: Any) -> Any:
    return np.array(values, np.int32)


def chosen_blocks(count: int, of: int, rows: tuple[int, ...]) -> Any:
    """Blocks, none twice, the last place empty."""
    made = np.full((*rows, 1, count + 1), -1, np.int32)
    for place in np.ndindex(*rows):
        made[place][0, :count] = RNG.permutation(of)[:count]
    return made


@pytest.mark.parametrize("layout", ["TND", "BSND", "PA_BSND"])
@pytest.mark.parametrize("block", [1, 4])
def test_sparse_flash_attention(layout: str, block: int) -> None:
    heads, keys, used = 4, [16, 11], [3, 2]
    q, qr = numbers(RNG, 2, 3, heads, 512), numbers(RNG, 2, 3, heads, 64)
    k, kr = numbers(RNG, 2, 16, 1, 512), numbers(RNG, 2, 16, 1, 64)
    indices = chosen_blocks(2 if block == 4 else 5, 2 if block == 4 else 11, (2, 3))
    sinks = numbers(RNG, heads, dtype=F32) if layout == "TND" else None
    table = None
    if layout == "TND":
        pick = [(0, 3), (1, 2)]
        flat = [np.concatenate([x[b, :n] for b, n in pick]) for x in (q, qr, indices)]
        own = [np.concatenate([x[0], x[1, :11]]) for x in (k, kr)]
        arguments: Any = (flat[0], own[0], own[0], flat[2], None, i32(3, 5), i32(16, 27), flat[1], own[1])
    else:
        own = [k, kr]
        if layout == "PA_BSND":
            table = i32([2], [0])
            own = [np.zeros((3, *x.shape[1:]), BF16) for x in own]
            for pages, x in zip(own, (k, kr)):
                pages[2], pages[0] = x[0], x[1]
        arguments = (q, own[0], own[0], indices, table, i32(*used), i32(*keys), qr, own[1])
    rest = (0.05, block, "TND" if layout == "TND" else "BSND", layout, 3, FAR, FAR, 2, layout != "PA_BSND")
    if sinks is None:
        out, row_max, row_sum = ops.sparse_flash_attention(*arguments, *rest)
    else:
        out, row_max, row_sum = ops.sparse_flash_attention_v2(*arguments, sinks, *rest)
    for b in range(2):
        for i in range(used[b]):
            tokens = [t * block + j for t in indices[b, i, 0] if t >= 0 for j in range(block)]
            tokens = [t for t in tokens if t <= keys[b] - used[b] + i]
            row = (b * 3 + i,) if layout == "TND" else (b, i)
            for head in range(heads):
                query = np.concatenate([q[b, i, head], qr[b, i, head]])
                whole = np.concatenate([k[b, tokens, 0], kr[b, tokens, 0]], -1)
                sink = None if sinks is None else sinks[head]
                result, _ = attend(query, whole, k[b, tokens, 0], 0.05, sink)
                close(out[row][head], result)
                if row_max is not None:
                    s = wide(whole) @ wide(query) * 0.05
                    s = s if sink is None else np.append(s, sink)
                    at = (0, row[0], head) if layout == "TND" else (b, 0, i, head)
                    assert row_max[at] == pytest.approx(s.max(), rel=1e-4)
                    assert row_sum[at] == pytest.approx(np.exp(s - s.max()).sum(), rel=1e-4)
    if layout != "TND":
        assert not out[1, 2].any()


def packed(*parts: Any) -> Any:
    """Arrays side by side, byte by byte, in the last axis."""
    return np.concatenate([np.ascontiguousarray(p).view(np.uint8) for p in parts], -1)


def test_sparse_flash_attention_with_keys_of_8_bits() -> None:
    q = numbers(RNG, 1, 2, 4, 576)
    nope, rope = RNG.integers(-127, 128, (1, 12, 1, 512)).astype(np.int8), numbers(RNG, 1, 12, 1, 64)
    scale = (RNG.random((1, 12, 1, 4)) / 50).astype(F32)
    key = packed(nope, rope, scale).view(np.int8)
    indices = chosen_blocks(6, 10, (1, 2))
    out = ops.kv_quant_sparse_flash_attention(
        q, key, key, indices, None, None, None, None, None, 0.05, 2, 2, 1, "BSND", "BSND", 3, FAR, FAR, 2, 1, 128, 64
    )
    whole = wide(nope)[0, :, 0] * np.repeat(wide(scale)[0, :, 0], 128, -1)
    for i in range(2):
        tokens = [t for t in indices[0, i, 0] if t >= 0 and t <= 10 + i]
        for head in range(4):
            keys = np.concatenate([whole[tokens], wide(rope)[0, tokens, 0]], -1)
            close(out[0, i, head], attend(q[0, i, head], keys, whole[tokens], 0.05)[0])


@pytest.mark.parametrize("merged", [False, True])
def test_sparse_flash_attention_grad(merged: bool) -> None:
    heads, rows, tokens, scale = 4, 3, 9, 0.05
    q, qr = numbers(RNG, rows, heads, 512), numbers(RNG, rows, heads, 64)
    k, kr = numbers(RNG, tokens, 1, 512), numbers(RNG, tokens, 1, 64)
    indices = chosen_blocks(4, 7, (rows,))
    lengths = i32(rows), i32(tokens)
    value = None if merged else k
    out, row_max, row_sum = ops.sparse_flash_attention(
        q, k, value, indices, None, *lengths, qr, kr, scale, 1, "TND", "TND", 3, FAR, FAR, 2, True
    )
    grad = numbers(RNG, *out.shape)
    made = ops.sparse_flash_attention_grad(
        q, k, value, indices, grad, out, row_max, row_sum, *lengths, qr, kr, scale, 1, "TND", 3, FAR, FAR, True
    )
    want = [np.zeros(x.shape) for x in (q, k, k, qr, kr)]
    for i in range(rows):
        own = [t for t in indices[i, 0] if t >= 0 and t <= tokens - rows + i]
        for head in range(heads):
            query = np.concatenate([wide(q[i, head]), wide(qr[i, head])])
            whole = np.concatenate([wide(k[own, 0]), wide(kr[own, 0])], -1)
            _, p = attend(query, whole, k[own, 0], scale)
            dy = wide(grad[i, head])
            dp = wide(k[own, 0]) @ dy
            ds = p * (dp - p @ dp) * scale
            both = ds @ whole
            want[0][i, head], want[3][i, head] = both[:512], both[512:]
            want[1][own, 0] += np.outer(ds, query[:512])
            want[4][own, 0] += np.outer(ds, query[512:])
            want[2][own, 0] += np.outer(p, dy)
    dq, dk, dv, dqr, dkr = made
    if merged:
        assert dv is None
        want[1] += want[2]
    for actual, expected in zip((dq, dk, dv, dqr, dkr), want):
        if actual is not None:
            close(actual, expected, 2.0**-6)


def latent_case(layout: str, ratio: int) -> Any:
    """Two sequences of queries, keys of their own, compressed keys, residuals."""
    used, own, compressed = [3, 2], [20, 13], [20 // ratio, 13 // ratio]
    q, ori, cmp = numbers(RNG, 2, 3, 4, 512), numbers(RNG, 2, 20, 1, 512), numbers(RNG, 2, 20 // ratio, 1, 512)
    return q, ori, cmp, used, own, compressed, [20 % ratio, 13 % ratio]


@pytest.mark.parametrize("layout", ["TND", "BSND", "PA_BBND"])
@pytest.mark.parametrize("kind", ["window", "chosen", "all"])
def test_sparse_flash_mla(layout: str, kind: str) -> None:
    ratio, left, scale = 4, 5, 0.04
    q, ori, cmp, used, own, compressed, residual = latent_case(layout, ratio)
    sinks = numbers(RNG, 4, dtype=F32)
    indices = chosen_blocks(3, 3, (2, 3)) if kind == "chosen" else None
    keywords: dict[str, Any] = {}

    def flat(x: Any, lengths: list[int]) -> Any:
        return np.concatenate([x[b, :n] for b, n in enumerate(lengths)])

    def pages(x: Any) -> Any:
        made = np.zeros((4, *x.shape[1:]), BF16)
        made[3], made[1] = x[0], x[1]
        return made

    if layout == "TND":
        query, keys, small = flat(q, used), flat(ori, own), flat(cmp, compressed)
        keywords = {"cu_seqlens_q": i32(0, 3, 5), "cu_seqlens_ori_kv": i32(0, 20, 33)}
        if kind != "window":
            keywords["cu_seqlens_cmp_kv"] = i32(0, *np.cumsum(compressed))
        indices = None if indices is None else flat(indices, used)
    else:
        query, keys, small = q, ori, cmp
        keywords = {"seqused_q": i32(*used), "seqused_ori_kv": i32(*own)}
        if layout == "PA_BBND":
            keys, small = pages(ori), pages(cmp)
            keywords["ori_block_table"] = i32([3], [1])
        if kind != "window":
            keywords["seqused_cmp_kv"] = i32(*compressed)
            if layout == "PA_BBND":
                keywords["cmp_block_table"] = i32([3], [1])
    if kind != "window":
        keywords |= {"cmp_kv": small, "cmp_residual_kv": i32(*residual), "cmp_sparse_indices": indices}
    out, lse = ops.sparse_flash_mla(
        query,
        keys,
        sinks=sinks,
        metadata=np.zeros(1024, np.int32),
        softmax_scale=scale,
        cmp_ratio=ratio,
        ori_mask_mode=4,
        cmp_mask_mode=3,
        ori_win_left=left,
        ori_win_right=0,
        layout_q="TND" if layout == "TND" else "BSND",
        layout_kv=layout,
        return_softmax_lse=True,
        **keywords,
    )
    for b in range(2):
        for i in range(used[b]):
            position = own[b] - used[b] + i
            seen = [ori[b, j, 0] for j in range(own[b]) if position - left <= j <= position]
            if kind != "window":
                row = b * 3 + i
                some = (
                    range(compressed[b]) if kind == "all" else (indices[row] if layout == "TND" else indices[b, i])[0]
                )
                seen += [cmp[b, j, 0] for j in some if j >= 0 and (j + 1) * ratio - 1 <= position]
            for head in range(4):
                result, _ = attend(q[b, i, head], np.stack(seen), np.stack(seen), scale, sinks[head])
                at = (b * 3 + i, head) if layout == "TND" else (b, i, head)
                close(out[at], result)
                s = np.append([wide(q[b, i, head]) @ wide(k) * scale for k in seen], sinks[head])
                found = lse[0, b * 3 + i, head] if layout == "TND" else lse[b, 0, i, head]
                assert found == pytest.approx(np.log(np.exp(s - s.max()).sum()) + s.max(), rel=1e-4)


def test_sparse_flash_mla_grad_and_norms() -> None:
    ratio, left, scale, rows = 4, 5, 0.04, 3
    q, ori, cmp = numbers(RNG, 1, rows, 4, 512), numbers(RNG, 1, 18, 1, 512), numbers(RNG, 1, 4, 1, 512)
    sinks, indices = numbers(RNG, 4, dtype=F32), chosen_blocks(3, 4, (1, rows))
    modes: dict[str, Any] = {
        "cmp_residual_kv": i32(2),
        "cmp_ratio": ratio,
        "ori_mask_mode": 4,
        "cmp_mask_mode": 3,
        "ori_win_left": left,
        "ori_win_right": 0,
        "sinks": sinks,
        "layout_q": "BSND",
        "layout_kv": "BSND",
        "cmp_sparse_indices": indices,
    }
    out, lse = ops.sparse_flash_mla(
        q, ori, cmp, metadata=np.zeros(1024, np.int32), softmax_scale=scale, return_softmax_lse=True, **modes
    )
    grad = numbers(RNG, *out.shape)
    dq, dori, dcmp, dsinks, _, norms = ops.sparse_flash_mla_grad(
        q, grad, out, lse, ori, cmp, scale_value=scale, **modes
    )
    want = np.zeros(q.shape[1:]), np.zeros((18, 512)), np.zeros((4, 512)), np.zeros(4)
    for i in range(rows):
        position = 18 - rows + i
        own = list(range(position - left, position + 1))
        small = [j for j in indices[0, i, 0] if j >= 0 and (j + 1) * ratio - 1 <= position]
        keys = np.concatenate([wide(ori[0, own, 0]), wide(cmp[0, small, 0])])
        shares = []
        for head in range(4):
            _, p = attend(q[0, i, head], keys, keys, scale, sinks[head])
            shares.append(p[len(own) :])
            dy = wide(grad[0, i, head])
            dp = keys @ dy
            ds = p * (dp - p @ dp)
            want[0][i, head] = ds @ keys * scale
            both = np.outer(ds, wide(q[0, i, head])) * scale + np.outer(p, dy)
            want[1][own] += both[: len(own)]
            want[2][small] += both[len(own) :]
            want[3][head] += -(1 - p.sum()) * (p @ dp)
        places = [list(indices[0, i, 0]).index(j) for j in small]
        np.testing.assert_allclose(norms[0, i, 0, places], np.mean(shares, 0), rtol=1e-3)
    for actual, expected in ((dq[0], want[0]), (dori[0, :, 0], want[1]), (dcmp[0, :, 0], want[2])):
        close(actual, expected, 2.0**-6)
    np.testing.assert_allclose(dsinks, want[3], rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("chosen", [False, True])
def test_softmax_l1_norm(chosen: bool) -> None:
    q, k, ratio, scale = numbers(RNG, 1, 3, 4, 512), numbers(RNG, 1, 6, 1, 512), 2, 0.04
    indices = chosen_blocks(3, 6, (1, 3)) if chosen else None
    lse = np.full((1, 1, 3, 4), 2.5, F32)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        out = ops.sparse_flash_mla_softmax_l1_norm(
            q, k, lse, indices, cmp_residual_k=i32(1), softmax_scale=scale, max_seqlen_k=6, cmp_ratio=ratio, mask_mode=3
        )
    for i in range(3):
        for place, j in enumerate(indices[0, i, 0] if chosen else range(6)):
            seen = j >= 0 and (j + 1) * ratio - 1 <= 13 - 3 + i
            expected = (
                np.mean([np.exp(wide(q[0, i, h]) @ wide(k[0, j, 0]) * scale - 2.5) for h in range(4)]) if seen else 0
            )
            assert out[0, i, 0, place] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("mode", [1, 2])
def test_sparse_flash_mla_with_keys_of_8_bits(mode: int) -> None:
    q, nope, rope = numbers(RNG, 1, 2, 4, 512), numbers(RNG, 2, 16, 1, 448, dtype=FP8), numbers(RNG, 2, 16, 1, 64)
    if mode == 1:
        scale = numbers(RNG, 2, 16, 1, 7)
        key = packed(rope, nope, scale, np.zeros((2, 16, 1, 18), np.uint8))
    else:
        scale = np.exp2(RNG.integers(-2, 3, (2, 16, 1, 7))).astype(F32).astype(ml_dtypes.float8_e8m0fnu)
        key = packed(nope, rope, scale, np.zeros((2, 16, 1, 1), np.uint8))
    whole = np.concatenate([wide(nope) * np.repeat(wide(scale), 64, -1), wide(rope)], -1)
    sinks = numbers(RNG, 4, dtype=F32)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        out, _ = ops.mixed_quant_sparse_flash_mla(
            q,
            key.view(FP8),
            ori_block_table=i32([1, 0]),
            seqused_ori_kv=i32(20),
            sinks=sinks,
            metadata=np.zeros(1024, np.int32),
            quant_mode=mode,
            rope_head_dim=64,
            softmax_scale=0.02,
            ori_mask_mode=4,
            cmp_mask_mode=3,
            ori_win_left=127,
            ori_win_right=0,
            layout_kv="PA_BBND",
        )
    keys = np.concatenate([whole[1, :, 0], whole[0, :4, 0]])
    for i in range(2):
        for head in range(4):
            close(out[0, i, head], attend(q[0, i, head], keys[: 19 + i], keys[: 19 + i], 0.02, sinks[head])[0])


@pytest.mark.parametrize("chosen", [False, True])
def test_sparse_flash_mla_of_hifloat8(chosen: bool) -> None:
    """Queries, keys and compressed keys are codes times one scale each."""
    ratio, left, scale, residual, position = 4, 3, 0.03, 2, 16  # of the first of two queries
    shapes = (1, 2, 4, 512), (1, 18, 1, 512), (1, 4, 1, 512)
    codes, scales = [hifloat8_numbers(RNG, *shape) for shape in shapes], [0.5, 1.5, 0.75]
    q, ori, cmp = (wide(x) * s for x, s in zip(codes, scales))
    indices = np.array([[[[2, 0, -1]], [[3, 1, -1]]]], np.int32) if chosen else None
    sinks = numbers(RNG, 4, dtype=F32)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        out, lse = ops.quant_sparse_flash_mla(
            *codes,
            *(np.array([s], F32) for s in scales),
            cmp_sparse_indices=indices,
            cmp_residual_kv=i32(residual),
            sinks=sinks,
            metadata=np.zeros(1024, np.int32),
            quant_mode=1,
            softmax_scale=scale,
            cmp_ratio=ratio,
            ori_mask_mode=4,
            cmp_mask_mode=3,
            ori_win_left=left,
            ori_win_right=0,
            layout_q="BSND",
            layout_kv="BSND",
            topk_value_mode=1,
            return_softmax_lse=True,
        )
    for i in range(2):
        seen = [ori[0, j, 0] for j in range(position + i - left, position + i + 1)]
        some = range(4) if indices is None else indices[0, i, 0]
        seen += [cmp[0, j, 0] for j in some if j >= 0 and (j + 1) * ratio - 1 <= position + i]
        for head in range(4):
            result, _ = attend(q[0, i, head], np.stack(seen), np.stack(seen), scale, sinks[head])
            close(out[0, i, head], result)
            s = np.append([q[0, i, head] @ k * scale for k in seen], sinks[head])
            assert lse[0, 0, i, head] == pytest.approx(np.log(np.exp(s - s.max()).sum()) + s.max(), rel=1e-4)


def test_a_block_that_is_not_there() -> None:
    q, k = numbers(RNG, 1, 1, 4, 512), numbers(RNG, 1, 8, 1, 512)
    indices = np.array([[[[3, 9]]]], np.int32)
    with pytest.raises(AclError, match=r"sparse_indices element \[1\] is 9; allowed: 0 to 7"):
        ops.sparse_flash_attention(q, k, k, indices, scale_value=1.0)


def test_the_gradient_of_sinks() -> None:
    """The derivative of sum(out * grad), by differences; a sink is a key whose value is 0."""
    heads, rows, tokens, scale = 2, 3, 5, 0.05
    q, k = numbers(RNG, rows, heads, 512), numbers(RNG, tokens, 1, 512)
    qr, kr = numbers(RNG, rows, heads, 64), numbers(RNG, tokens, 1, 64)
    sinks, grad = RNG.normal(size=heads).astype(F32), numbers(RNG, rows, heads, 512)
    indices = np.tile(np.arange(tokens, dtype=np.int32), (rows, 1, 1))
    indices = np.concatenate([indices, np.full((rows, 1, 1024 - tokens), -1, np.int32)], -1)
    scores = np.einsum(
        "rhd,td->rht", np.concatenate([wide(q), wide(qr)], -1), np.concatenate([wide(k), wide(kr)], -1)[:, 0]
    )
    scores = scores * scale
    seen = np.arange(tokens) <= np.arange(rows)[:, None, None] + tokens - rows

    def loss(sinks: Any) -> Any:
        powers = np.where(seen, np.exp(scores), 0)
        p = powers / (powers.sum(-1) + np.exp(sinks))[..., None]
        return (np.einsum("rht,td->rhd", p, wide(k)[:, 0]) * wide(grad)).sum()

    with_sink = np.concatenate([np.where(seen, scores, -np.inf), np.broadcast_to(sinks[:, None], (rows, heads, 1))], -1)
    row_max = with_sink.max(-1).astype(F32)[None]
    row_sum = np.exp(with_sink - with_sink.max(-1, keepdims=True)).sum(-1).astype(F32)[None]
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        made = ops.sparse_flash_attention_grad_v2(
            q, k, k, indices, grad, grad, row_max, row_sum, sinks, i32(rows), i32(tokens), qr, kr, scale, 1, "TND", 3,
            FAR, FAR, True,
        )  # fmt: skip
        plain = ops.sparse_flash_attention_grad(
            q, k, k, indices, grad, grad, row_max, row_sum, i32(rows), i32(tokens), qr, kr, scale, 1, "TND", 3,
            FAR, FAR, True,
        )  # fmt: skip
    for head in range(heads):
        step = np.zeros(heads)
        step[head] = 1e-4
        wanted = (loss(sinks + step) - loss(sinks - step)) / 2e-4
        assert made.d_sinks[head] == pytest.approx(wanted, rel=2e-2, abs=1e-3)
    for one, other in zip(made, plain):
        np.testing.assert_array_equal(one, other)
