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
