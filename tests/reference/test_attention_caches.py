"""Results put together against softmax over everything; caches written and read token by token."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.core.errors import UnsupportedOperator

RNG = np.random.default_rng(3)


def numbers(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def part(scores: Any, values: Any) -> tuple[Any, Any, Any]:
    """Largest score, sum of exponentials, result."""
    most = scores.max(-1)
    chances = np.exp(scores - most[..., None])
    total = chances.sum(-1)
    return most, total, (chances @ values / total[..., None]).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_attention_update(dtype: Any) -> None:
    scores, values = numbers(10, 12), numbers(12, 16)
    parts = [part(scores[:, s], values[s]) for s in (slice(0, 4), slice(4, 6), slice(6, 12))]
    lse = [(m + np.log(t)).astype(np.float32) for m, t, _ in parts]
    out, total = ops.attention_update(lse, [p[2].astype(dtype) for p in parts], 1)
    most, whole, result = part(scores, values)
    np.testing.assert_allclose(out, result, rtol=2e-3 if dtype is np.float16 else 1e-5, atol=1e-3)
    np.testing.assert_allclose(total, most + np.log(whole), rtol=1e-5)
    assert out.dtype == dtype
    assert ops.attention_update(lse, [p[2] for p in parts], 0)[1] is None


def test_part_without_keys_has_no_weight() -> None:
    """Chunked prefill joins what a batch's queries find in the cache; a prompt that just begins has nothing there."""
    query, key, value = (numbers(tokens, 2, 128).astype(np.float16) for tokens in (6, 4, 4))
    found, lse = ops.fused_infer_attention_score_v3(  # the four queries of the second sequence see no key
        query, [key], [value], actual_seq_lengths=[2, 6], actual_seq_lengths_kv=[4, 4], num_heads=2,
        num_key_value_heads=2, input_layout="TND", sparse_mode=0, inner_precise=0, block_size=0, antiquant_mode=0,
        softmax_lse_flag=True, key_antiquant_mode=0, value_antiquant_mode=0,
    )  # fmt: skip
    own, own_lse = numbers(12, 128), numbers(12)
    joined = [own_lse, lse.reshape(-1)], [own, found.reshape(12, 128).astype(np.float32)], 1
    out, total = ops.attention_update(*joined)
    np.testing.assert_array_equal(out[4:], own[4:])
    np.testing.assert_array_equal(total[4:], own_lse[4:])
    assert (total[:4] > own_lse[:4]).all()
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        new = ops.attention_update(*joined)
    np.testing.assert_array_equal(new[0][:4], out[:4])
    assert np.isnan(new[0][4:]).all() and np.isnan(new[1][4:]).all()


def eight_times(x: Any) -> Any:
    return np.repeat(x[..., None], 8, -1).astype(np.float32)


@pytest.mark.parametrize("layout", ["TND", "SBH"])
def test_ring_attention_update(layout: str) -> None:
    batch, heads, tokens, width = 2, 3, 4, 8
    scores, values = numbers(batch, heads, tokens, 9), numbers(batch, heads, 9, width)
    halves = [part(scores[..., s], values[..., s, :]) for s in (slice(0, 5), slice(5, 9))]
    whole = part(scores, values)

    def lay_out(most: Any, total: Any, result: Any) -> tuple[Any, Any, Any]:
        if layout == "SBH":
            flat = result.transpose(2, 0, 1, 3).reshape(tokens, batch, -1)
            return flat, eight_times(most), eight_times(total)
        turned = (x.swapaxes(1, 2).reshape(batch * tokens, heads, *x.shape[3:]) for x in (result, most, total))
        result, most, total = turned
        return result, eight_times(most), eight_times(total)

    lengths = np.array([tokens, 2 * tokens])
    found = ops.ring_attention_update(*lay_out(*halves[0]), *lay_out(*halves[1]), lengths, layout)
    for actual, expected in zip(found, lay_out(*whole)):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


SLOTS = np.array([5, 0, -1, 14], np.int32)


def filled(*shape: int) -> Any:
    return np.full(shape, 9, np.float16)


def rows(*shape: int) -> Any:
    return RNG.integers(-50, 50, shape).astype(np.float16)


def test_pages_of_tokens() -> None:
    key, value = rows(4, 2, 8), rows(4, 2, 6)
    caches = filled(3, 5, 2, 8), filled(3, 5, 2, 6)
    expected = [c.copy() for c in caches]
    for number, slot in enumerate(SLOTS):
        if slot >= 0:
            for cache, given in zip(expected, (key, value)):
                cache[slot // 5, slot % 5] = given[number]
    ops.scatter_pa_kv_cache(key, caches[0], SLOTS, value, caches[1], cache_mode="Norm")
    for cache, wanted in zip(caches, expected):
        np.testing.assert_array_equal(cache, wanted)
    ops.scatter_pa_kv_cache(np.zeros_like(key), caches[0], SLOTS, None, filled(0))  # keys alone
    assert not caches[0][1, 0].any()
    assert caches[1].any()


@pytest.mark.parametrize("joined", [False, True])
def test_fractal_pages(joined: bool) -> None:
    key = rows(4, 2, 32)
    cache = filled(3, 4, 5, 16) if joined else filled(3, 2, 2, 5, 16)
    ops.scatter_pa_kv_cache(key, cache, SLOTS, None, filled(0), cache_mode="PA_NZ")
    view = cache.reshape(3, 2, 2, 5, 16)
    for number, slot in enumerate(SLOTS):
        if slot >= 0:
            np.testing.assert_array_equal(view[slot // 5, :, :, slot % 5].reshape(2, 32), key[number])
    assert (view[1, :, :, 1:] == 9).all()


def test_pages_with_heads_first() -> None:
    key, cache = rows(4, 2, 8), filled(3, 2, 5, 8)
    ops.scatter_pa_kv_cache(key, cache, SLOTS, None, filled(0), scatter_mode="NHSD")
    np.testing.assert_array_equal(cache[2, :, 4], key[3])
    with pytest.raises(UnsupportedOperator, match="compressed"):
        ops.scatter_pa_kv_cache(key, cache, SLOTS, None, filled(0), scatter_mode="Omni")


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_pages_with_scales_of_keys(dtype: Any, index: Any) -> None:
    """Token by token and head by head; slots below 0 and behind the cache take nothing."""
    rng = np.random.default_rng(5)
    tokens, heads, blocks, size = 6, 3, 4, 8
    key, value = (rng.standard_normal((tokens, heads, width)).astype(dtype) for width in (32, 16))
    scale = rng.standard_normal((heads, tokens)).astype(np.float32).T
    slots = np.array([5, -1, 31, 8, 32, 17], index)
    caches = [np.ones((blocks, heads, size, width), dtype) for width in (32, 16)]
    caches.append(np.ones((blocks, heads, size, 1), np.float32))
    expected = [cache.copy() for cache in caches]
    for i, slot in enumerate(slots):
        if 0 <= slot < blocks * size:
            for head in range(heads):
                for cache, rows in zip(expected, (key, value, scale[..., None])):
                    cache[slot // size, head, slot % size] = rows[i, head]
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        ops.scatter_pa_kv_cache_with_k_scale(key, value, caches[0], caches[1], slots, scale, caches[2], "BNBD")
    for made, wanted in zip(caches, expected):
        np.testing.assert_array_equal(made.astype(np.float32), wanted.astype(np.float32))


def test_a_slot_behind_the_cache_is_refused() -> None:
    key, cache = np.ones((1, 2, 32), np.float16), np.zeros((2, 4, 2, 32), np.float16)
    with pytest.raises(aclnn.AclError, match="slot_mapping element"):
        ops.scatter_pa_kv_cache(key, cache, np.array([8], np.int32), None, np.zeros_like(cache), cache_mode="Norm")


@pytest.mark.parametrize("cumulative", [False, True])
def test_gather(cumulative: bool) -> None:
    keys, values = rows(6, 4, 2, 8), rows(6, 4, 2, 6)
    table, lengths = np.array([[3, 1, 5], [0, 2, 4]], np.int32), np.array([6, 3], np.int32)
    offsets = np.array([4, 0], np.int32)
    given = np.array([0, 6, 9], np.int32) if cumulative else lengths
    made = filled(9, 2, 8), filled(9, 2, 6)
    ops.gather_pa_kv_cache(
        keys, values, table, given, *made, seq_offset=offsets, cache_mode="Norm", is_seq_lens_cumsum=cumulative
    )
    for cache, result in zip((keys, values), made):
        first = np.concatenate([cache[1], cache[5]])[:6]  # one page is skipped
        np.testing.assert_array_equal(result, np.concatenate([first, cache[0][:3]]))
