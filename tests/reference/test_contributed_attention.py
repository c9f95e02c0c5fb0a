"""Contributed attention, what chooses its blocks, and its plans, against loops over queries and keys."""

from __future__ import annotations

import math
from typing import Any, Optional

import ml_dtypes
import numpy as np
import pytest
from rule_tools import A2, A3, NEW_950

import ascend_aclnn as aclnn
from ascend_aclnn import ops

RNG = np.random.default_rng(11)
BF16, E4M3, E8M0 = (np.dtype(t) for t in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu))
PLAN = np.zeros(1024, np.int32)


@pytest.fixture(autouse=True)
def _fresh_numbers() -> None:
    """Each test has the same numbers in any order of tests."""
    global RNG
    RNG = np.random.default_rng(11)


def run(soc: str, name: str, *arguments: Any, **named: Any) -> Any:
    with aclnn.use_backend("numpy", soc=soc):
        return getattr(ops, name)(*arguments, **named)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.normal(size=shape).astype(dtype)


def int32(values: Any) -> Any:
    return np.array(values, np.int32)


def softmax_of(scores: Any, sink: Optional[float] = None) -> Any:
    weights = np.exp(np.array(scores, np.float64))
    return weights / (weights.sum() + (0 if sink is None else math.exp(sink)))


def attended(query: Any, keys: Any, values: Any, scale: float, sink: Optional[float] = None) -> Any:
    """Of one query, in float64."""
    query, keys, values = (np.asarray(x, np.float64) for x in (query, keys, values))
    return softmax_of(keys @ query * scale, sink) @ values


def close(found: Any, wanted: Any, tolerance: float) -> None:
    np.testing.assert_allclose(np.asarray(found).astype(float), np.asarray(wanted), rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------------------- shared keys and values


def window_and_compressed(
    q: Any, original: Any, compressed: Any, used: int, sinks: Any, chosen: Any, ratio: int, scale: float
) -> Any:
    """Of one sequence: (queries, heads, width), (tokens, width), (tokens, width)."""
    out = np.zeros(q.shape)
    for row, head in np.ndindex(*q.shape[:2]):
        position = used - len(q) + row
        keys = [original[t] for t in range(used) if position - 127 <= t <= position]
        visible = (position + 1) // ratio
        numbers = range(visible) if chosen is None else [c for c in chosen[row] if 0 <= c < visible]
        keys += [compressed[c] for c in numbers]
        out[row, head] = attended(q[row, head], keys, keys, scale, sinks[head])
    return out


@pytest.mark.parametrize("with_indices", [False, True])
def test_shared_keys_and_values(with_indices: bool) -> None:
    used, width = [150, 9], 8
    q, sinks = normal(2, 3, 2, width, dtype=np.float16), normal(2)
    original, compressed = normal(2, 150, 1, width, dtype=np.float16), normal(2, 37, 1, width, dtype=np.float16)
    indices = None
    if with_indices:
        indices = int32([RNG.permutation(37)[:5] for _ in range(6)]).reshape(2, 3, 1, 5)
        indices[:, :, :, 4] = -1
    found = run(
        A3,
        "sparse_attn_sharedkv",
        *(q, original, compressed),
        cmp_sparse_indices=indices,
        seqused_kv=int32(used),
        sinks=sinks,
        metadata=PLAN,
        softmax_scale=0.3,
        cmp_ratio=4,
        ori_mask_mode=4,
        cmp_mask_mode=3,
        ori_kv_stride=0,
        cmp_kv_stride=0,
        layout_kv="BSND",
    )
    for batch in range(2):
        chosen = None if indices is None else indices[batch, :, 0]
        parts = q[batch], original[batch, :, 0], compressed[batch, :, 0]
        close(found.attn_out[batch], window_and_compressed(*parts, used[batch], sinks, chosen, 4, 0.3), 2e-3)
    assert found.softmax_lse.shape == (0,)


def test_shared_keys_of_8_bits_in_pages() -> None:
    """The rotated part of 64, 448 elements, a BF16 scale for each 64 of them, in slots of 640 bytes."""
    used, heads = 21, 64
    tokens = [32, 16]  # the sequence's own and the compressed keys' pages
    caches, plain = [], []
    for count in tokens:
        rope, nope = normal(count, 64, dtype=BF16), normal(count, 448).astype(E4M3)
        scales = RNG.uniform(0.5, 2, (count, 7)).astype(BF16)
        slot = np.zeros((count, 640), np.uint8)
        slot[:, :128], slot[:, 128:576] = rope.view(np.uint8), nope.view(np.uint8)
        slot[:, 576:590] = scales.view(np.uint8)
        caches.append(slot.view(E4M3).reshape(-1, 16, 1, 640))
        whole = (nope.astype(np.float32) * scales.astype(np.float32).repeat(64, 1)).astype(BF16)
        plain.append(np.concatenate([whole.astype(float), rope.astype(float)], 1))
    q, sinks = normal(2, heads, 512, dtype=BF16), normal(heads)
    found = run(
        NEW_950,
        "kv_quant_sparse_attn_sharedkv",
        *(q, *caches),
        ori_block_table=int32([[1, 0]]),
        cmp_block_table=int32([[0]]),
        cu_seqlens_q=int32([0, 2]),
        seqused_kv=int32([used]),
        sinks=sinks,
        metadata=PLAN,
        kv_quant_mode=1,
        softmax_scale=0.04,
        cmp_ratio=4,
        ori_mask_mode=4,
        cmp_mask_mode=3,
        layout_q="TND",
    )
    original = np.concatenate([plain[0][16:], plain[0][:16]])
    close(found.attn_out, window_and_compressed(q, original, plain[1], used, sinks, None, 4, 0.04), 1e-2)


# ------------------------------------------------------------------------------------------------- codes of 4 bits


def test_compressed_latents_are_attended_to() -> None:
    """What TurboQuantCompressLatent packs has the nearest centroids; attention restores them from slots of 386 bytes."""
    book = np.array(
        [
            *(-0.12091285, -0.09111122, -0.07112455, -0.05513602, -0.04132067, -0.02874970, -0.01700489, -0.00568677),
            *(0.00547294, 0.01680406, 0.02857605, 0.04108622, 0.05492980, 0.07101817, 0.09115373, 0.12037795),
        ],
        np.float32,
    )
    latent = normal(16, 512)
    slots = run(A2, "turbo_quant_compress_latent", latent, book)
    norms = np.sqrt((latent.astype(np.float64) ** 2).sum(1))
    nearest = np.abs(latent[..., None] / norms[:, None, None] - book).argmin(-1)
    codes = np.stack([slots[:, :256] & 15, slots[:, :256] >> 4], -1).reshape(16, 512)
    assert (codes == nearest).mean() > 0.999  # but for elements between two
    assert slots.shape == (16, 320) and not slots[:, 258:].any()
    np.testing.assert_array_equal(slots[:, 256:258].copy().view(np.float16)[:, 0], norms.astype(np.float16))

    rope, factor = normal(16, 64, dtype=BF16), RNG.uniform(0.5, 2, 16).astype(np.float16)
    packed = np.concatenate([slots[:, :256], rope.view(np.uint8), factor[:, None].view(np.uint8)], 1)
    cache = packed.view(np.int8).reshape(1, 16, 1, 386)
    query, indices = normal(2, 3, 576, dtype=BF16), int32([[[4, 9, 2, -1]], [[10, 0, 9, 1]]])
    found = run(
        A2,
        "turbo_quant_sparse_flash_attention",
        *(query, cache, cache, indices),
        block_table=int32([[0]]),
        actual_seq_lengths_query=int32([2]),
        actual_seq_lengths_kv=int32([11]),
        scale_value=0.2,
        key_quant_mode=3,
        value_quant_mode=3,
        return_softmax_lse=True,
    )
    values = book.astype(BF16).astype(float)[codes]
    for token, chosen in enumerate(([4, 9, 2], [10, 0, 9, 1])):
        value = values[chosen] * factor[chosen, None]
        keys = np.concatenate([value, rope[chosen].astype(float) * factor[chosen, None]], 1)
        for head in range(3):
            close(found.attention_out[token, head], attended(query[token, head], keys, value, 0.2), 5e-3)
            scores = keys @ query[token, head].astype(float) * 0.2
            close(found.softmax_max[0, token, head], scores.max(), 1e-5)
            close(found.softmax_sum[0, token, head], np.exp(scores - scores.max()).sum(), 1e-5)


# ------------------------------------------------------------------------------------------------- blocks


@pytest.mark.parametrize("layout", ["BNSD", "BSH"])
def test_named_blocks_of_keys(layout: str) -> None:
    q, k, v = normal(1, 4, 200, 8), normal(1, 2, 300, 8), normal(1, 2, 300, 8)
    q, k, v = (x.astype(np.float16) for x in (q, k, v))
    sabi = np.full((1, 4, 2, 3), 0xFFFF, np.uint16)
    sabi[0, :, 0, 0], sabi[0, :, 1, :2], sabi[0, 3, 1, 1] = [0, 1, 2, 0], [2, 0], 1
    tensors = (
        (q, k, v)
        if layout == "BNSD"
        else [np.ascontiguousarray(x.swapaxes(1, 2)).reshape(1, x.shape[2], -1) for x in (q, k, v)]
    )
    found = run(
        A2,
        "blitz_sparse_attention",
        *tensors,
        sabi=sabi,
        num_heads=4,
        num_key_value_heads=2,
        scale_value=0.3,
        next_tokens=2**31 - 1,
        input_layout=layout,
        softmax_lse_flag=True,
    )
    result = found.attention
    if layout == "BSH":
        result = result.reshape(1, 200, 4, 8).swapaxes(1, 2)
    for head, row in ((0, 0), (1, 127), (2, 128), (3, 199)):
        blocks = [b for b in sabi[0, head, row // 128].tolist() if b != 0xFFFF]
        keys = [t for b in blocks for t in range(b * 128, min(b * 128 + 128, 300))]
        parts = q[0, head, row], k[0, head // 2, keys], v[0, head // 2, keys]
        close(result[0, head, row], attended(*parts, 0.3), 2e-3)
        scores = k[0, head // 2, keys].astype(float) @ q[0, head, row].astype(float) * 0.3
        close(found.softmax_lse[0, head, row], np.log(np.exp(scores).sum()), 1e-5)


def test_lists_of_queries_for_blocks_of_keys() -> None:
    """Two sequences of 20 and 9 keys in pages of 8: first blocks 0 of both, then 1 of both, then block 2 of the first."""
    lengths, key_lengths, topk = [3, 2], [20, 9], 2
    query = normal(5, 4, 16, dtype=BF16)
    key, value = (normal(6, 8, 2, 16, dtype=BF16) for _ in range(2))
    table, rows = int32([[5, 0, 3], [2, 4, 0]]), [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    chosen = {
        (head, token): RNG.permutation(3 if token < 3 else 2)[:topk].tolist() for head in range(2) for token in range(5)
    }
    starts, tokens, slots = np.zeros((2, 6), np.int32), np.zeros((2, 10), np.int32), np.zeros((2, 10), np.int32)
    for head in range(2):
        edges = [
            (token, slot)
            for batch, block in rows
            for token in range(5)
            for slot, own in enumerate(chosen[head, token])
            if (0 if token < 3 else 1) == batch and own == block
        ]
        counts = [sum((t < 3) == (batch == 0) and block in chosen[head, t] for t in range(5)) for batch, block in rows]
        starts[head, 1:] = np.cumsum(counts)
        tokens[head], slots[head] = zip(*edges)
    found = run(
        NEW_950,
        "minimax_sparse_attention_split_kv",
        *(query, key, value, table, starts, tokens, slots, int32(lengths), int32(key_lengths)),
        num_key_value_heads=2,
        scale_value=0.25,
        block_size=8,
        top_k=topk,
    )
    for token, head in np.ndindex(5, 4):
        batch, own = (0, token) if token < 3 else (1, token - 3)
        position = key_lengths[batch] - lengths[batch] + own
        places = [t for b in chosen[head // 2, token] for t in range(b * 8, b * 8 + 8) if t <= position]
        keys, values = ([x[table[batch, t // 8], t % 8, head // 2] for t in places] for x in (key, value))
        close(found[token, head], attended(query[token, head], keys, values, 0.25), 1e-2)


@pytest.mark.parametrize("precision", [1, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_chosen_blocks(causal: bool, precision: int) -> None:
    own, keys, prompt = 3, 70, 80  # blocks; 46 may be chosen at the begin, and fewer later
    q, k = normal(1, 32, 4, 2048, dtype=BF16), normal(1, 2, 72, 2048, dtype=BF16)
    bias = normal(1, 2, 72)
    found = run(
        NEW_950,
        "stem_indexer",
        *(q, k, bias, int32([own * 128 - 5]), int32([keys * 128])),
        num_prompt_tokens=int32([prompt * 128]),
        metadata=np.zeros(8192, np.int32),
        causal=causal,
        alpha=0.5,
        topk_score_precision=precision,
    )
    for head, row in ((0, 0), (31, 2), (17, 1)):
        position = row + keys - own
        seen = position + 1 if causal else keys
        scores = k[0, head // 16, :seen].astype(float) @ q[0, head, row].astype(float) / 64 + bias[0, head // 16, :seen]
        start = math.floor(0.2 * prompt + 30)
        many = math.floor(start + (position - start) / (prompt - start - 1) * (0.5 * start - start))
        order = sorted(range(4, seen - 4), key=lambda block: -scores[block])
        count = found.sparse_seq_len[0, head, row]
        chosen = found.sparse_indices[0, head, row]
        assert count == 8 + many and (chosen[count:] == -1).all()
        assert chosen[:4].tolist() == [0, 1, 2, 3] and chosen[count - 4 : count].tolist() == list(range(seen - 4, seen))
        # The last may differ where scores are nearly the same.
        assert len(set(chosen[4 : count - 4].tolist()) ^ set(order[:many])) <= (2 if precision == 1 else 4)
    assert not found.sparse_seq_len[0, :, own].any()


@pytest.mark.parametrize("mode", [1, 2])
def test_quantised_blocks(mode: int) -> None:
    """One sequence of 130 queries and 200 keys in pages of 128, causal; the second block of queries sees nothing."""
    tokens, used, heads = 130, 200, 2
    query, key, value = (normal(*s).astype(E4M3) for s in ((tokens, heads, 128), (2, 1, 128, 128), (2, 1, 128, 128)))
    q, k, v = (x.astype(float) for x in (query, key, value))
    if mode == 1:
        scales = [RNG.uniform(0.5, 2, s).astype(np.float32) for s in ((tokens, heads), (2, 1, 128, 1), (1,))]
        q, k, v = q * scales[0][..., None], k * scales[1], v * scales[2][:, None, None]
    else:
        shapes = (tokens, heads, 2, 2), (2, 1, 128, 2, 2), (2, 1, 2, 128, 2)
        scales = [(2.0 ** RNG.integers(-2, 2, s)).astype(E8M0) for s in shapes]
        for index in np.ndindex(tokens, heads, 128):
            q[index] *= float(scales[0][(*index[:2], index[2] // 64, index[2] % 64 // 32)])
        for index in np.ndindex(2, 1, 128, 128):
            page, head, token, column = index
            k[index] *= float(scales[1][page, head, token, column // 64, column % 64 // 32])
            v[index] *= float(scales[2][page, head, token // 64, column, token % 64 // 32])
    table = int32([[1, 0]])
    found = run(
        NEW_950,
        "quant_block_sparse_attn",
        *(query, key, value, *scales),
        p_scale=np.array([64], np.float32 if mode == 1 else E8M0),
        cu_seqlens_q=int32([0, tokens]),
        seqused_kv=int32([used]),
        sparse_indices=int32([[[[0, 1], [0, 0]], [[1, 0], [0, 0]]]]),
        sparse_seq_len=int32([[[2, 0], [1, 0]]]),
        block_table=table,
        atten_mask=np.zeros((2048, 2048), np.uint8),
        metadata=np.zeros(4096, np.int32),
        softmax_scale=0.02,
        sparse_q_block_size=128,
        sparse_kv_block_size=128,
        layout_kv="PA_BNBD",
        layout_q="TND",
        layout_sparse_indices="B_N_Qb_Kb",
        layout_out="TND",
        quant_mode=mode,
        return_softmax_lse=True,
    )
    keys, values = (np.concatenate([x[1, 0], x[0, 0]])[:used] for x in (k, v))
    lse = found.softmax_lse.T if mode == 1 else found.softmax_lse
    for token, head in ((0, 0), (100, 0), (127, 1), (80, 1)):
        first = 0 if head == 0 else 128
        places = [t for t in range(first, used) if t <= token + used - tokens]
        scores = keys[places] @ q[token, head] * 0.02
        # The probabilities have 4 bits when they meet the values.
        close(found.attention_out[token, head], softmax_of(scores) @ values[places], 6e-2)
        close(lse[token, head], np.log(np.exp(scores).sum()), 1e-4)
    assert not found.attention_out[128:].any() and (lse[128:] == np.finfo(np.float32).min).all()


# ------------------------------------------------------------------------------------------------- gradient of 8 bits


def test_gradient_of_operands_of_8_bits() -> None:
    """The document's formulas in float64, with HIFLOAT8 between the products."""
    half = aclnn.DataType.HIFLOAT8

    def through_8_bits(x: Any) -> Any:
        return np.asarray(ops.cast(ops.cast(x.astype(np.float32), half), aclnn.DataType.FLOAT), np.float64)

    def sums_of_pairs(x: Any) -> Any:
        return x.reshape(1, 2, 2, *x.shape[2:]).sum(2)

    with aclnn.use_backend("numpy", soc=NEW_950):
        eights = [ops.cast(normal(1, 6, n, 16), half) for n in (4, 2, 2, 4)]
        scales = [RNG.uniform(0.5, 2, (1, n, 1, 1)).astype(np.float32) for n in (4, 2, 2, 4)]
        plain = [np.asarray(ops.cast(x, aclnn.DataType.FLOAT), np.float64).swapaxes(1, 2) for x in eights]
        q, k, v, dy = (x * s for x, s in zip(plain, scales))
        k, v = k.repeat(2, 1), v.repeat(2, 1)
        scores = q @ k.swapaxes(2, 3) * 0.25
        largest = scores.max(-1, keepdims=True)
        weights = np.exp(scores - largest)
        total = weights.sum(-1, keepdims=True)
        weights /= total
        y = (weights @ v).astype(BF16)
        slopes = weights * (dy @ v.swapaxes(2, 3) - (dy * y.astype(float)).sum(-1, keepdims=True))
        p8, ds8 = through_8_bits(weights * 64), through_8_bits(slopes * 16)
        found = ops.quant_flash_attention_score_grad(
            *eights,
            softmax_max=largest.astype(np.float32),
            softmax_sum=total.astype(np.float32),
            attention_in=y.swapaxes(1, 2),
            d_scale_q=scales[0],
            d_scale_k=scales[1],
            d_scale_v=scales[2],
            d_scale_dy=scales[3],
            ds_scale=np.array([16], np.float32),
            p_scale=np.array([64], np.float32),
            scale_value=0.25,
            pre_tokens=0,
            next_tokens=0,
            head_num=4,
            input_layout="BSND",
            sparse_mode=0,
            out_dtype=1,
        )
    close(found.dq, (ds8 @ k * 0.25 / 16).swapaxes(1, 2), 2e-2)
    close(found.dk, sums_of_pairs(ds8.swapaxes(2, 3) @ q * 0.25 / 16).swapaxes(1, 2), 2e-2)
    close(found.dv, sums_of_pairs(p8.swapaxes(2, 3) @ dy / 64).swapaxes(1, 2), 2e-2)


# ------------------------------------------------------------------------------------------------- plans


def test_plans_give_the_first_core_everything() -> None:
    packed = {"layout_q": "TND", "layout_kv": "PA_ND", "has_ori_kv": True, "has_cmp_kv": True}
    masks = {"ori_mask_mode": 4, "cmp_mask_mode": 3, "ori_win_left": 127, "ori_win_right": 0}
    shared = (
        {"num_heads_q": 64, "num_heads_kv": 1, "head_dim": 512, "batch_size": 0, "max_seqlen_q": 0} | packed | masks
    )
    shared |= {"max_seqlen_kv": 9, "ori_top_k": 0, "cmp_top_k": 512, "cmp_ratio": 4}
    lengths = {"cu_seq_lens_q": int32([0, 2, 5, 6]), "seqused_kv": int32([9, 8, 7])}
    plan = run(A3, "sparse_attn_sharedkv_metadata", **lengths, **shared)
    assert plan.shape == (1024,) and plan[:5].tolist() == [1, 0, 0, 0, 3] and not plan[5:].any()
    quantised = {"kv_quant_mode": 1, "tile_size": 64, "rope_head_dim": 64}
    plan = run(NEW_950, "kv_quant_sparse_attn_sharedkv_metadata", **lengths, **shared, **quantised)
    assert plan[:5].tolist() == [1, 0, 0, 0, 3]
    modes = {"query_quant_mode": 0, "key_quant_mode": 0, "sparse_count": 512, "sparse_mode": 3, "pre_tokens": 0}
    sizes = {
        "num_heads_q": 64,
        "num_heads_k": 2,
        "head_dim": 128,
        "batch_size": 5,
        "max_seqlen_q": 1,
        "max_seqlen_k": 9,
    }
    plan = run(A2, "quant_lightning_indexer_metadata", **modes, **sizes, next_tokens=0, cmp_ratio=1)
    assert plan[:5].tolist() == [1, 0, 0, 0, 10]
    plan = run(
        A2,
        "quant_sals_indexer_metadata",
        batch_size=3,
        key_seq_size=99,
        key_head_num=4,
        head_dim=128,
        sparse_block_size=16,
        sparse_ratio=0.5,
        fixed_tail_count=2,
    )
    assert plan[0] == 12 and plan[72] == 1 and plan.sum() == 13
    plan = run(
        A2,
        "kv_quant_sparse_flash_attention_metadata",
        batch_size=3,
        query_seq_size=1,
        query_head_num=64,
        kv_seq_size=99,
        kv_head_num=2,
        head_dim=512,
        topk_size=16,
        sparse_block_size=1,
        layout_query="BSND",
        layout_kv="PA_BSND",
        sparse_mode=3,
        attention_mode=2,
        rope_head_dim=64,
        sparse_shard_size=2,
    )
    assert plan[0] == 6 and plan[72:78].tolist() == [1, 0, 0, 64, 1024, 8]
    plan = run(NEW_950, "stem_indexer_metadata", int32([5, 6]), int32([50, 60]), 32, 4, True, 128, 2048, 4)
    assert plan.shape == (16384,) and plan[0] == 1 and plan[16:22].tolist() == [0, 0, 0, 8, 0, 0]
    plan = run(
        NEW_950,
        "quant_block_sparse_attn_metadata",
        int32(np.ones((2, 4, 1))),
        batch_size=2,
        num_heads_q=4,
        num_heads_kv=2,
        head_dim=128,
        sparse_block_size_q=128,
        sparse_block_size_k=128,
        quant_mode=1,
        mask_mode=3,
        layout_sparse_indices="B_N_Qb_Kb",
    )
    assert plan.shape == (8 + 8 * 36 * 8 + 72 * 8,) and plan[0] == 1 and plan[8:13].tolist() == [1, 0, 0, 0, 8]
