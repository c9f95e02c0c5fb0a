"""Keys of indexers: each row's values and scales, worked out one by one; the last group of a row is not full."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops

SLOTS = np.array([5, -1, 0, 11, 6], np.int32)
E8M0 = ml_dtypes.float8_e8m0fnu


@pytest.fixture(autouse=True)
def ascend_950():
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        yield


def rows(width):
    x = np.random.default_rng(7).normal(size=(len(SLOTS), width)).astype(np.float16)
    x[2, :128] = 0
    return x


def golden(group, dtype, mode, round_scale=True):
    """A group's values and its scale."""
    largest = float(ml_dtypes.finfo(dtype).max)
    scale = max(abs(float(value)) for value in group) / largest
    if mode == 1:
        return [np.dtype(dtype).type(float(value) / scale if scale else 0) for value in group], scale
    scale = max(scale, 1e-4 / largest)
    power = 2.0 ** math.ceil(math.log2(scale))
    divisor = power if round_scale else scale
    return [np.dtype(dtype).type(float(value) / divisor) for value in group], power if round_scale else power / 2


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("mode,round_scale", [(1, True), (0, True), (0, False)])
def test_values_and_scales_apart(dtype, mode, round_scale):
    x, scale_type = rows(192), np.float32 if mode == 1 else E8M0
    cache = aclnn.asarray(np.full((3, 4, 1, 192), 7, dtype))
    scales = aclnn.asarray(np.full((3, 4, 1, 2), 4, scale_type))
    ops.indexer_compress_epilog(cache, scales, x, SLOTS, mode, round_scale)
    values, factors = cache.numpy().reshape(12, 192), scales.numpy().reshape(12, 2).astype(np.float64)
    for row, slot in zip(x, SLOTS):
        if slot < 0:
            continue
        for number, start in enumerate((0, 128)):
            expected, scale = golden(row[start : start + 128], dtype, mode, round_scale)
            got = values[slot, start : start + 128].astype(np.float64)
            assert factors[slot, number] == pytest.approx(scale, rel=1e-6, abs=0)
            # Quotients are float32's: at the middle between two values either may come.
            step = float(ml_dtypes.finfo(dtype).eps) * np.abs(np.array(expected, np.float64)) + 2**-9
            assert (np.abs(got - np.array(expected, np.float64)) <= step).all()
            assert np.mean(got == np.array(expected, np.float64)) > 0.97
    untouched = np.setdiff1d(np.arange(12), SLOTS)
    assert (values[untouched].astype(np.float64) == 7).all() and (factors[untouched] == 4).all()


@pytest.mark.parametrize("gap", [0, 40])
def test_scales_behind_the_values_of_a_block_and_back(gap):
    """Blocks of four tokens, side by side or with a gap: 4 x 128 values, then 4 scales."""
    x, width = rows(128), 132
    memory = aclnn.asarray(np.full(3 * (4 * width + gap), 9, np.uint8))
    stride = 4 * width + gap
    layout = (3, 4, 1, width), (stride, width, width, 1), 0
    cache = memory.view(*layout)
    ops.indexer_compress_epilog_v2(cache, x, SLOTS, 2, stride)
    stored = memory.numpy().reshape(3, stride)
    for row, slot in zip(x, SLOTS):
        if slot >= 0:
            block, place = divmod(int(slot), 4)
            expected, scale = golden(row, ml_dtypes.float8_e4m3fn, 1)
            got = stored[block, place * 128 : place * 128 + 128].view(ml_dtypes.float8_e4m3fn)
            assert np.mean(got == np.array(expected)) > 0.97
            assert stored[block, 512 + place * 4 : 516 + place * 4].view(np.float32)[0] == pytest.approx(scale)
    assert (stored[:, 528:] == 9).all() and (stored[0, 128:512] == 9).all()
    keys = aclnn.asarray(memory.numpy().view(ml_dtypes.float8_e4m3fn)).view(*layout)
    values, scales = ops.load_index_kv_cache(keys, SLOTS, stride)
    again = np.asarray(values).astype(np.float32) * np.asarray(scales)[:, None]
    assert not again[1].any() and not again[2].any()
    kept = [0, 3, 4]
    assert np.abs(again[kept] - x[kept]).max() <= np.abs(x[kept]).max() / 16
    with pytest.raises(aclnn.AclError, match="blocks lie elsewhere"):
        ops.load_index_kv_cache(keys, SLOTS, stride + 4)


def test_slots_and_rooms_are_checked():
    cache = aclnn.asarray(np.zeros((3, 4, 1, 130), np.uint8))
    with pytest.raises(aclnn.AclError, match="has 130 bytes for a token; 128 values and their scales are 132"):
        ops.indexer_compress_epilog_v2(cache, rows(128), SLOTS, 2, 0)
    cache = aclnn.asarray(np.zeros((2, 4, 1, 132), np.uint8))
    with pytest.raises(aclnn.AclError, match="lies between -1 and 11; allowed: -1 to 7"):
        ops.indexer_compress_epilog_v2(cache, rows(128), SLOTS, 2, 0)
    with aclnn.use_backend("numpy", soc="Ascend910B1"), pytest.raises(aclnn.AclError, match="it is on 950"):
        ops.indexer_compress_epilog_v2(np.zeros((3, 4, 1, 132), np.uint8), rows(128), SLOTS, 2, 0)
