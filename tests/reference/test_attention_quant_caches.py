"""Rows quantised into caches, row by row."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from attention_tools import numbers, wide

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

RNG = np.random.default_rng(23)
E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
A5 = "Ascend950PR_9599"
SLOTS = np.array([3, -1, 9, 0], np.int32)


@pytest.mark.parametrize("mode", [0, 1])
def test_kv_compress_epilog(mode: int) -> None:
    x = numbers(RNG, 4, 256)
    cache = np.full((3, 4, 1, 384), 7, np.uint8)
    with aclnn.use_backend("numpy", soc=A5):
        ops.kv_compress_epilog(cache, x, SLOTS, 64, mode, mode == 1, 1.0)
    rows = cache.reshape(12, 384)
    for number, slot in enumerate(SLOTS):
        if slot < 0:
            continue
        row = rows[slot]
        assert (row[:128].view(ml_dtypes.bfloat16) == x[number, 192:]).all()
        kept = wide(row[128:320].view(FP8)).reshape(3, 64)
        scale = wide(row[320:326].view(ml_dtypes.bfloat16) if mode == 0 else row[320:323].view(E8M0))
        plain = wide(x[number, :192]).reshape(3, 64)
        most = np.abs(plain).max(1) / 448
        if mode == 1:
            np.testing.assert_array_equal(scale, 2.0 ** np.ceil(np.log2(most)))
            assert (row[323:] == 7).all()
        else:
            np.testing.assert_allclose(scale, most, rtol=2**-8)
            assert not row[326:352].any() and (row[352:] == 7).all()
        np.testing.assert_allclose(kept * scale[:, None], plain, rtol=2**-4 + 2**-8, atol=float(scale.max()) * 2**-9)
    untouched = np.delete(rows, SLOTS[SLOTS >= 0], 0)
    assert (untouched == 7).all()


@pytest.mark.parametrize("group", [16, 32, 64])
def test_kv_compress_epilog_of_hifloat8(group: int) -> None:
    """64 columns in HIFLOAT8, 128 of four bits in pairs, a scale of BF16 for each group, filled up to 32 bytes."""
    x = numbers(RNG, 4, 192)
    x[0, :group] = 0
    x[0, -1] = 1e6
    cache = np.full((3, 4, 1, 192), 7, np.uint8)
    with aclnn.use_backend("numpy", soc=A5):
        ops.kv_compress_epilog(cache, x, SLOTS, group, 2, True, 0.5)
    rows = cache.reshape(12, 192)
    scales = 128 // group
    for number in (0, 2, 3):
        row = rows[SLOTS[number]]
        rope = wide(row[:64].view(aclnn.DataType.HIFLOAT8.numpy))
        np.testing.assert_array_equal(rope, hifloat8_of(np.minimum(wide(x[number, 128:]) * 0.5, 32768)))
        pairs = np.stack([row[64:128] & 15, row[64:128] >> 4], -1).reshape(scales, group)
        kept = wide(pairs.view(ml_dtypes.float4_e2m1fn))
        scale = wide(row[128 : 128 + 2 * scales].view(ml_dtypes.bfloat16))
        plain = wide(x[number, :128]).reshape(scales, group)
        np.testing.assert_allclose(scale, np.abs(plain).max(1) / 6, rtol=2**-8)
        assert (
            np.abs(kept * scale[:, None] - plain) <= scale[:, None] * (np.maximum(0.25, np.abs(kept) / 4) + 0.05)
        ).all()
        end = 128 + 2 * scales
        filled = -(-end // 32) * 32
        assert not row[end:filled].any() and (row[filled:] == 7).all()
    assert (np.delete(rows, SLOTS[SLOTS >= 0], 0) == 7).all()


def hifloat8_of(values: Any) -> Any:
    return wide(aclnn.asarray(values, "HIFLOAT8").numpy())


@pytest.mark.parametrize("dtype", [np.uint8, FP8])
def test_indexer_quant_cache_of_hifloat8(dtype: Any) -> None:
    x = numbers(RNG, 4, 64)
    cache, scales = np.zeros((3, 4, 1, 64), dtype), np.ones((3, 4, 1, 1), np.float32)
    with aclnn.use_backend("numpy", soc=A5):
        ops.indexer_quant_cache(cache, scales, x, SLOTS, 2, False, 1.5)
    rows = wide(cache.reshape(12, 64).view(aclnn.DataType.HIFLOAT8.numpy))
    for number in (0, 2, 3):
        np.testing.assert_array_equal(rows[SLOTS[number]], hifloat8_of(wide(x[number]) * 1.5))
    assert not np.delete(rows, SLOTS[SLOTS >= 0], 0).any()


@pytest.mark.parametrize("mode", [0, 1])
def test_indexer_quant_cache(mode: int) -> None:
    x: Any = numbers(RNG, 4, 64)
    x[0] = 0
    cache = np.zeros((3, 4, 1, 64), FP8)
    scales = np.zeros((3, 4, 1, 2), E8M0 if mode == 0 else np.float32)
    with aclnn.use_backend("numpy", soc=A5):
        ops.indexer_quant_cache(cache, scales, x, SLOTS, mode, False, 1.0)
    for number, slot in enumerate(SLOTS):
        if slot < 0:
            continue
        kept, scale = wide(cache.reshape(12, 64)[slot]), wide(scales.reshape(12, 2)[slot])
        plain = wide(x[number])
        if mode == 0:
            blocks = np.maximum(np.abs(plain.reshape(2, 32)).max(1), 1e-4) / 448
            np.testing.assert_array_equal(scale, 2.0 ** np.ceil(np.log2(blocks)))
            factor = np.repeat(scale, 32)
        else:
            np.testing.assert_allclose(scale, [np.abs(plain).max() / 448, 0], rtol=1e-6)
            factor = scale[0]
        np.testing.assert_allclose(kept * factor, plain, rtol=2**-4, atol=float(np.max(factor)) * 2**-9)


def test_indexer_quant_cache_of_four_bits() -> None:
    x = numbers(RNG, 4, 96)
    cache, scales = np.zeros((3, 4, 1, 96), ml_dtypes.float4_e2m1fn), np.zeros((3, 4, 1, 3), E8M0)
    with aclnn.use_backend("numpy", soc=A5):
        ops.indexer_quant_cache(cache, scales, x, SLOTS, 3, True, 1.0)
    kept, scale, plain = wide(cache.reshape(12, 3, 32)[3]), wide(scales.reshape(12, 3)[3]), wide(x[0]).reshape(3, 32)
    np.testing.assert_array_equal(scale, 2.0 ** (np.floor(np.log2(np.abs(plain).max(1))) - 2))
    limit = np.clip(plain / scale[:, None], -6, 6)
    assert (np.abs(kept - limit) <= np.maximum(np.abs(limit) / 4, 0.25)).all()


def test_rows_must_fit() -> None:
    with aclnn.use_backend("numpy", soc=A5), pytest.raises(AclError):
        ops.kv_compress_epilog(np.zeros((3, 4, 1, 256), np.uint8), numbers(RNG, 4, 256), SLOTS, 64, 1, True, 1.0)
