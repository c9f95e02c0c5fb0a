"""Attention for inference: layouts, lengths, pages, prefixes and quantised caches, against float64 written out."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import pytest
from attention_tools import call
from comparisons import assert_near

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.core.errors import DataError, UnsupportedOperator

BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, WIDTH = 2, 4, 2, 5, 7, 8
SCALE = 0.4


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def attention(q: Any, k: Any, v: Any, hidden: Any = False, bias: Any = 0.0) -> tuple[Any, Any]:
    """Result and logarithm of sums for heads-first operands of one sequence."""
    share = q.shape[0] // k.shape[0]
    scores = q.astype(np.float64) @ k.repeat(share, 0).swapaxes(1, 2) * SCALE + bias
    scores = np.where(hidden, -np.inf, scores)
    most = scores.max(-1, keepdims=True)
    chances = np.exp(scores - most)
    total = chances.sum(-1, keepdims=True)
    return chances / total @ v.repeat(share, 0), most + np.log(total)


Q = numbers(BATCH, HEADS, QUERIES, WIDTH)
K, V = numbers(BATCH, KEY_HEADS, KEYS, WIDTH, seed=1), numbers(BATCH, KEY_HEADS, KEYS, WIDTH, seed=2)


def lay_out(x: Any, layout: str) -> Any:
    rows = x.swapaxes(1, 2)
    return {
        "BNSD": x,
        "BSND": rows,
        "BSH": rows.reshape(*rows.shape[:2], -1),
        "NBSD": x.swapaxes(0, 1),
        "NSD": x[0],
        "SH": rows.reshape(*rows.shape[:2], -1)[0],
    }[layout]


ATTRIBUTES: dict[str, Any] = {
    "numHeads": HEADS,
    "numKeyValueHeads": KEY_HEADS,
    "scaleValue": SCALE,
    "preTokens": 2147483647,
    "nextTokens": 2147483647,
}


def fused(
    layout: str, query: Any = Q, key: Any = K, value: Any = V, version: str = "V4", **more: Any
) -> dict[str, Any]:
    inner = layout.partition("_")[0]
    lists = {"key": [lay_out(key, inner)], "value": [lay_out(value, inner)]}
    arguments = {**ATTRIBUTES, **lists, "query": lay_out(query, inner), "inputLayout": layout, "softmaxLseFlag": True}
    return call("aclnnFusedInferAttentionScore" + version, **{**arguments, **more})


def expected_of(hidden: Any = False, bias: Any = 0.0) -> tuple[Any, Any]:
    made = [attention(Q[b], K[b], V[b], hidden, bias) for b in range(BATCH)]
    return np.stack([m[0] for m in made]), np.stack([m[1] for m in made])


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "BNSD_BSND", "BSH_NBSD", "BSND_BNSD"])
def test_layouts(layout: str) -> None:
    found, (result, sums) = fused(layout), expected_of()
    assert_near(found["attentionOut"], lay_out(result, layout.rpartition("_")[2]))
    assert_near(found["softmaxLse"], sums)


@pytest.mark.parametrize("layout", ["SH", "NSD", "BSH", "BNSD"])
def test_prompts(layout: str) -> None:
    query, key, value = (lay_out(x[:1], layout) for x in (Q, K, V))
    mask = np.random.default_rng(3).random((QUERIES, KEYS)) < 0.3
    bias = numbers(1, HEADS, QUERIES, KEYS, seed=4)
    arguments = {**ATTRIBUTES, "query": query, "key": key, "value": value, "inputLayout": layout, "attenMask": mask}
    actual = call("aclnnPromptFlashAttentionV3", **arguments, pseShift=bias)["attentionOut"]
    expected = attention(Q[0], K[0], V[0], mask, bias[0])[0]
    assert_near(actual, lay_out(expected[None], layout))
    first = call("aclnnPromptFlashAttention", **arguments, pseShift=bias)["attentionOut"]  # looks at no bias
    assert_near(first, lay_out(attention(Q[0], K[0], V[0], mask)[0][None], layout))


def test_lengths_at_the_front_and_at_the_end() -> None:
    found = fused("BNSD", actualSeqLengthsOptional=(3, 5), actualSeqLengthsKvOptional=(7, 4))["attentionOut"]
    assert_near(found[0, :, :3], attention(Q[0, :, :3], K[0], V[0])[0])
    assert not found[0, :, 3:].any()
    assert_near(found[1], attention(Q[1], K[1, :, :4], V[1, :, :4])[0])
    padding: dict[str, Any] = {"kvPaddingSizeOptional": np.array([1]), "queryPaddingSizeOptional": np.array([0])}
    found = fused("BNSD", actualSeqLengthsOptional=(3, 5), actualSeqLengthsKvOptional=(6, 4), **padding)["attentionOut"]
    assert_near(found[0, :, 2:], attention(Q[0, :, 2:], K[0, :, :6], V[0, :, :6])[0])
    assert_near(found[1], attention(Q[1], K[1, :, 2:6], V[1, :, 2:6])[0])


def test_causal_masks() -> None:
    i, j = np.indices((QUERIES, KEYS))
    triangle = np.triu(np.ones((2048, 2048), bool), 1)
    for mode, hidden in ((2, j > i), (3, j > i + KEYS - QUERIES)):
        assert_near(fused("BNSD", sparseMode=mode, attenMaskOptional=triangle)["attentionOut"], expected_of(hidden)[0])
    band = fused("BNSD", sparseMode=4, attenMaskOptional=triangle, preTokens=2, nextTokens=1)["attentionOut"]
    assert_near(band, expected_of((j > i + KEYS - QUERIES + 1) | (j < i + KEYS - QUERIES - 2))[0])


def test_packed_tokens() -> None:
    ends, key_ends = (2, 5), (3, 7)
    query, key, value = numbers(5, HEADS, WIDTH), numbers(7, KEY_HEADS, WIDTH, seed=1), numbers(7, KEY_HEADS, 6, seed=2)
    arguments = {
        **ATTRIBUTES,
        "actualSeqLengthsOptional": ends,
        "actualSeqLengthsKvOptional": key_ends,
        "softmaxLseFlag": True,
    }
    actual = call(
        "aclnnFusedInferAttentionScoreV3", query=query, key=[key], value=[value], inputLayout="TND", **arguments
    )
    start, first = 0, 0
    for end, last in zip(ends, key_ends):
        operands = (x.swapaxes(0, 1) for x in (query[start:end], key[first:last], value[first:last]))
        result, sums = attention(*operands)
        assert_near(actual["attentionOut"][start:end], result.swapaxes(0, 1))
        assert_near(actual["softmaxLse"][start:end], sums.swapaxes(0, 1))
        start, first = end, last
    turned = call(
        "aclnnFusedInferAttentionScoreV3", query=query, key=[key], value=[value], inputLayout="TND_NTD", **arguments
    )
    assert_near(turned["attentionOut"], actual["attentionOut"].swapaxes(0, 1))


@pytest.mark.parametrize("kind", ["tokens first", "heads first", "fractal"])
def test_pages(kind: str) -> None:
    tokens, width = 4, 32
    table, lengths = np.array([[3, 0], [1, 2]], np.int32), (6, 8)
    query = numbers(BATCH, HEADS, 1, width)
    pages = [numbers(4, KEY_HEADS, tokens, width, seed=s) for s in (1, 2)]

    def stored(x: Any) -> Any:
        if kind == "tokens first":
            return x.swapaxes(1, 2).reshape(4, tokens, -1)
        return x if kind == "heads first" else x.reshape(4, KEY_HEADS, tokens, width // 16, 16).swapaxes(2, 3)

    keys, values = (stored(x) for x in pages)
    actual = call(
        "aclnnFusedInferAttentionScoreV2",
        query=query,
        key=[keys],
        value=[values],
        blockTableOptional=table,
        actualSeqLengthsKvOptional=lengths,
        inputLayout="BNSD",
        blockSize=tokens,
        **ATTRIBUTES,
    )
    for number, length in enumerate(lengths):
        k, v = (np.concatenate(list(x[table[number]]), 1)[:, :length] for x in pages)
        assert_near(actual["attentionOut"][number], attention(query[number], k, v)[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_steps_of_decoding(dtype: Any) -> None:
    """One query for each sequence: near the formula, with the bits that the sequences have beside one of two queries."""
    tokens, width, lengths, ends = 16, 64, (1, 16, 41, 0, 23), (1, 2, 3, 4, 6)
    table = np.random.default_rng(0).permutation(15).astype(np.int32).reshape(5, 3)
    query = numbers(6, HEADS, width).astype(dtype)
    pages = [numbers(15, tokens, KEY_HEADS * width, seed=s).astype(dtype) for s in (1, 2)]

    def answer(count: int, **more: Any) -> dict[str, Any]:
        arguments = {
            **ATTRIBUTES,
            "query": query[: ends[count - 1]],
            "key": pages[:1],
            "value": pages[1:],
            "blockTableOptional": table[:count],
            "actualSeqLengthsOptional": ends[:count],
            "actualSeqLengthsKvOptional": lengths[:count],
            "inputLayout": "TND",
            "blockSize": tokens,
            "softmaxLseFlag": True,
        }
        with np.errstate(divide="ignore"):  # as backends do: the logarithm of no sum
            return call("aclnnFusedInferAttentionScoreV3", **{**arguments, **more})

    found, beside = answer(4), answer(5)
    for name in ("attentionOut", "softmaxLse"):
        assert found[name].tobytes() == beside[name][:4].tobytes()
    masked = answer(4, sparseMode=3, attenMaskOptional=np.triu(np.ones((2048, 2048), bool), 1))
    assert masked["attentionOut"].tobytes() == found["attentionOut"].tobytes()
    for number, length in enumerate(lengths[:3]):
        k, v = (x[table[number]].reshape(-1, KEY_HEADS, width)[:length].swapaxes(0, 1) for x in pages)
        result, sums = attention(query[number][:, None], k, v)
        near = {"rtol": 2e-3, "atol": 2e-3} if dtype is np.float16 else {}
        np.testing.assert_allclose(
            found["attentionOut"][number][:, None], result, **{"rtol": 1e-5, "atol": 1e-5, **near}
        )
        assert_near(found["softmaxLse"][number][:, None], sums)
    assert not found["attentionOut"][3].any() and np.isposinf(found["softmaxLse"][3]).all()
    table[1, 0] = 15
    with pytest.raises(DataError, match=r"blockTable.* is 15; allowed: 0 to 14"):
        answer(3)


def test_a_prefix_that_all_sequences_share() -> None:
    prefix = numbers(1, KEY_HEADS, 3, WIDTH, seed=5), numbers(1, KEY_HEADS, 3, WIDTH, seed=6)
    shared = {"keySharedPrefixOptional": prefix[0], "valueSharedPrefixOptional": prefix[1]}
    found = fused("BNSD", actualSharedPrefixLenOptional=(2,), **shared)["attentionOut"]
    for number in range(BATCH):
        k, v = (np.concatenate([p[0, :, :2], x[number]], 1) for p, x in zip(prefix, (K, V)))
        assert_near(found[number], attention(Q[number], k, v)[0])


def test_rotated_parts_and_sinks() -> None:
    rope, key_rope, sink = numbers(BATCH, HEADS, QUERIES, 4), numbers(BATCH, KEY_HEADS, KEYS, 4), numbers(HEADS, seed=7)
    found = fused("BNSD", queryRopeOptional=rope, keyRopeOptional=key_rope, learnableSinkOptional=sink)
    for number in range(BATCH):
        q, k = np.concatenate([Q[number], rope[number]], -1), np.concatenate([K[number], key_rope[number]], -1)
        result, sums = attention(q, k, V[number])
        taken = 1 / (1 + np.exp(sink[:, None, None] - sums))
        assert_near(found["attentionOut"][number], result * taken)
        assert_near(found["softmaxLse"][number], np.logaddexp(sums, sink[:, None, None]))


def quantised(x: Any, scale: Any, offset: Any = 0.0) -> Any:
    return np.clip(np.rint(x / scale - offset), -128, 127).astype(np.int8)


def test_a_cache_of_eight_bits() -> None:
    query = Q[:, :, :1]
    scales = np.abs(numbers(2, KEY_HEADS, 1, WIDTH, seed=8)) * 0.01 + 0.01
    offsets = np.rint(numbers(2, KEY_HEADS, 1, WIDTH, seed=9) * 3)
    cache = [quantised(x, s, o) for x, s, o in zip((K, V), scales, offsets)]
    restored = [(c + o) * s for c, s, o in zip(cache, scales, offsets)]
    actual = call(
        "aclnnIncreFlashAttentionV3",
        query=query,
        key=[cache[0][:1], cache[0][1:]],  # one tensor for each sequence
        value=[cache[1][:1], cache[1][1:]],
        antiquantScale=scales,
        antiquantOffset=offsets,
        actualSeqLengths=(7, 4),
        inputLayout="BNSD",
        **{k: v for k, v in ATTRIBUTES.items() if "Tokens" not in k},
    )["attentionOut"]
    for number, length in enumerate((7, 4)):
        k, v = (x[number, :, :length] for x in restored)
        assert_near(actual[number], attention(query[number], k, v)[0], 1e-4)


def test_scales_of_tokens() -> None:
    scales = np.abs(numbers(2, BATCH, KEYS, seed=8)) * 0.01 + 0.01
    cache = [quantised(x, s[:, None, :, None]) for x, s in zip((K, V), scales)]
    found = fused("BNSD", key=cache[0], value=cache[1], antiquantScaleOptional=scales, antiquantMode=1)["attentionOut"]
    for number in range(BATCH):
        k, v = (c[number] * s[number, None, :, None] for c, s in zip(cache, scales))
        assert_near(found[number], attention(Q[number], k, v)[0], 1e-4)


def test_a_scaled_result() -> None:
    scale, offset = np.abs(numbers(HEADS, WIDTH, seed=8)) * 30, numbers(HEADS, WIDTH, seed=9)
    found = fused("BSH", quantScale2Optional=scale, quantOffset2Optional=offset)["attentionOut"]
    assert_near(found, lay_out(expected_of()[0] * scale[:, None] + offset[:, None], "BSH"), 1e-4)


def mask_of(shape: tuple[int, ...], full: Any, number: Optional[int]) -> Any:
    return full[number if shape[0] > 1 else 0]


@pytest.mark.parametrize("shape", [(BATCH, KEYS), (BATCH, 1, KEYS), (BATCH, 1, 1, KEYS), (1, 1, KEYS)])
def test_masks_of_single_tokens(shape: tuple[int, ...]) -> None:
    mask = np.random.default_rng(5).random(shape) < 0.4
    mask[..., 0] = False
    found = fused("BNSD", query=Q[:, :, :1], attenMaskOptional=mask)["attentionOut"]
    rows = mask.reshape(len(mask), KEYS)
    for number in range(BATCH):
        expected = attention(Q[number, :, :1], K[number], V[number], mask_of(shape, rows, number))[0]
        assert_near(found[number], expected)


def v5(*operands: Any, **more: Any) -> Any:
    arguments = {
        "num_heads": HEADS, "scale_value": ATTRIBUTES["scaleValue"], "pre_tokens": 2**31 - 1, "next_tokens": 2**31 - 1,
        "input_layout": "BNSD", "num_key_value_heads": KEY_HEADS, "sparse_mode": 0, "inner_precise": 0, "block_size": 0,
        "antiquant_mode": 0, "softmax_lse_flag": True, "key_antiquant_mode": 0, "value_antiquant_mode": 0,
        "query_quant_mode": 0, "pse_type": 0,
    }  # fmt: skip
    query, key, value = operands
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        return ops.fused_infer_attention_score_v5(query, [key], [value], **{**arguments, **more})


def test_version_5() -> None:
    """Bias, mask and sink together, of several heads to a head of keys; and a cache of 8 bits."""
    query, key, value = (x.astype(np.float16) for x in (Q, K, V))
    bias = numbers(1, HEADS, QUERIES, KEYS, seed=4).astype(np.float16)
    mask = np.random.default_rng(3).random((BATCH, 1, QUERIES, KEYS)) < 0.3
    mask[..., 0] = False
    sink = numbers(HEADS, seed=7).astype(np.float16)
    out, lse = v5(query, key, value, pse_shift=bias, atten_mask=mask, learnable_sink=sink)
    wide = [x.astype(np.float64) for x in (query, key, value, bias, sink)]
    for number in range(BATCH):
        result, sums = attention(*(x[number] for x in wide[:3]), mask[number], wide[3][0])
        column = wide[4][:, None, None]
        assert_near(out[number], result / (1 + np.exp(column - sums)), 2.0**-9)
        assert_near(lse[number], np.logaddexp(sums, column), 1e-4)
    scales = [
        np.abs(numbers(KEY_HEADS, 1, WIDTH, seed=seed)).astype(np.float16) * 0.01 + np.float16(0.01) for seed in (8, 9)
    ]
    for dtype in ("INT8", "HIFLOAT8"):
        cache = [
            quantised(x, s.astype(np.float64)) if dtype == "INT8" else aclnn.asarray(x / s, dtype).numpy()
            for x, s in zip((K, V), scales)
        ]
        out, _ = v5(query, *cache, key_antiquant_scale=scales[0], value_antiquant_scale=scales[1])
        for number in range(BATCH):
            k, v = (c[number].astype(np.float64) * s.astype(np.float64) for c, s in zip(cache, scales))
            assert_near(out[number], attention(wide[0][number], k, v)[0], 2.0**-8)


def test_what_has_no_reference_is_said_in_phase_one() -> None:
    key, value = (x.astype(np.float16) for x in (K, V))
    for dtype in ("HIFLOAT8", "FLOAT8_E4M3FN", "INT8"):
        low = [aclnn.asarray(x, dtype).numpy() for x in (Q, K, V)]
        with pytest.raises(UnsupportedOperator, match="8 bits"):
            v5(*low)
    with pytest.raises(UnsupportedOperator, match="in pages or for groups"):
        scale = np.ones((BATCH, KEYS), np.float32)
        v5(
            Q.astype(np.float16), K.astype(np.int8), V.astype(np.int8), key_antiquant_scale=scale,
            value_antiquant_scale=scale, key_antiquant_mode=4, value_antiquant_mode=4,
        )  # fmt: skip
    with pytest.raises(aclnn.AclError) as caught:
        v5(Q.astype(np.float16), key, value, pse_type=2)
    assert caught.value.status == 561002


@pytest.mark.parametrize(("precision", "halves"), [(1, True), (0, False)])
def test_scores_in_halves(precision: int, halves: bool) -> None:
    """High performance (1) of FLOAT16 has the products in FLOAT16, saturated: keys beyond its range weigh the same."""
    q = np.full((1, 1, 1, 64), 40, np.float16)
    k = np.stack([np.full(64, 30), np.full(64, 40), np.zeros(64)]).astype(np.float16)[None, None]
    v = np.repeat(np.array([1, 3, 9], np.float16)[:, None], 64, 1)[None, None]
    out = ops.prompt_flash_attention_v3(
        q,
        k,
        v,
        num_heads=1,
        scale_value=1.0,
        input_layout="BNSD",
        num_key_value_heads=1,
        sparse_mode=0,
        inner_precise=precision,
    )
    assert np.asarray(out).reshape(-1)[0] == (2 if halves else 3)
