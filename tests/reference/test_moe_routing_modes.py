"""The quantModes of MoeInitRoutingV3 that Ascend 950 has, number by number as its kernels (op_kernel/arch35) go."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.core import hifloat8

N, H, K, E = 5, 300, 2, 4
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
EXPERTS = np.array([[3, 1], [0, 2], [1, 0], [2, 3], [0, 1]], np.int32)
ORDER = np.argsort(EXPERTS.reshape(-1), kind="stable") // K  # the token of each row


def tokens(dtype: Any = np.float16) -> Any:
    x = (np.random.default_rng(7).uniform(-1, 1, (N, H)) * 10.0 ** np.arange(-3, 2)[:, None]).astype(dtype)
    x[2, :128] = 0
    x[3, 0] = 1.75  # the top of the range of both FLOAT8, times a power of two
    return x


def routed(x: Any, mode: int, scale: Any = None) -> tuple[Any, Any]:
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        expanded, _, _, scales = ops.moe_init_routing_v3(x, EXPERTS, scale, None, 0, 0, E, 0, 1, True, mode, (0, E), 0)
        return np.asarray(expanded), np.asarray(scales)


def least_power(magnitude: float, most: float) -> float:
    """The least power of two that brings a magnitude to at most ``most``."""
    power = 2.0 ** math.floor(math.log2(magnitude / most))
    return power if magnitude <= most * power else power * 2


@pytest.mark.parametrize(("mode", "dtype"), [(2, E5M2), (3, E4M3), (16, E5M2), (17, E4M3)])
def test_blocks_of_32_share_a_power_of_two(mode: int, dtype: Any) -> None:
    x = tokens(ml_dtypes.bfloat16)
    q, scales = routed(x, mode)
    assert q.dtype == dtype and scales.shape == (N * K, 10)
    most = float(ml_dtypes.finfo(dtype).max)
    for row, token in enumerate(ORDER):
        for block in range(10):
            part = x[token, block * 32 : block * 32 + 32].astype(np.float64)
            largest = np.abs(part).max()
            if mode in (16, 17):
                largest = max(largest, float(ml_dtypes.bfloat16(1e-4)))
            found = q[row, block * 32 : block * 32 + 32]
            if largest == 0:
                assert scales[row, block].view(np.uint8) == 0 and not found.astype(np.float32).any()
                continue
            power = least_power(largest, most)
            assert float(scales[row, block]) == power
            np.testing.assert_array_equal(found, (part / power).astype(np.float32).astype(dtype))


@pytest.mark.parametrize(("mode", "dtype"), [(4, E5M2), (5, E4M3), (14, E5M2), (15, E4M3)])
def test_groups_of_128_share_a_power_of_two(mode: int, dtype: Any) -> None:
    x = tokens()
    q, scales = routed(x, mode)
    assert q.dtype == dtype and scales.shape == (N * K, 3) and scales.dtype == np.float32
    most = float(ml_dtypes.finfo(dtype).max)
    for row, token in enumerate(ORDER):
        for group in range(3):
            part = x[token, group * 128 : group * 128 + 128].astype(np.float64)
            largest = max(np.abs(part).max(), np.float32(1e-4) if mode > 9 else 0)
            power = least_power(largest, most) if largest else 2.0**-126
            assert scales[row, group] == power
            found = q[row, group * 128 : group * 128 + 128]
            np.testing.assert_array_equal(found, (part / power).astype(np.float32).astype(dtype))


@pytest.mark.parametrize(("mode", "dtype"), [(11, E5M2), (12, E4M3)])
def test_blocks_of_128_have_scales_in_pairs(mode: int, dtype: Any) -> None:
    x = tokens()
    q, scales = routed(x, mode)
    assert scales.shape == (N * K, 2, 2)
    for row, token in enumerate(ORDER):
        for block in range(3):
            part = x[token, block * 128 : block * 128 + 128].astype(np.float32)
            scale = np.abs(part).max() / np.float32(ml_dtypes.finfo(dtype).max)
            assert scales[row, block // 2, block % 2] == scale
            found = q[row, block * 128 : block * 128 + 128]
            np.testing.assert_array_equal(found, (part / (scale or np.float32(1))).astype(dtype))


def decoded(codes: Any) -> Any:
    return hifloat8.values()[codes.view(np.uint8)]


def test_hifloat8_directly_by_tensor_and_by_token() -> None:
    """Mode 6 casts, 7 multiplies by the scale, 8 makes each row's largest magnitude 32768."""
    x = tokens()
    rows = x[ORDER].astype(np.float32)
    np.testing.assert_array_equal(decoded(routed(x, 6)[0]), decoded(hifloat8.encode(rows)))
    q, _ = routed(x, 7, np.array([3], np.float32))
    np.testing.assert_array_equal(decoded(q), decoded(hifloat8.encode(rows * np.float32(3))))
    q, scales = routed(x, 8)
    assert scales.shape[0] == N * K and scales.size == N * K
    np.testing.assert_array_equal(scales.reshape(-1), np.abs(rows).max(1) / np.float32(32768))
    np.testing.assert_array_equal(decoded(q), decoded(hifloat8.encode(rows / scales.reshape(-1, 1))))
    assert np.abs(decoded(q)).max() == 32768


def test_float4_in_pairs_of_blocks() -> None:
    x = tokens(ml_dtypes.bfloat16)
    q, scales = routed(x, 9)
    assert scales.shape == (N * K, 5, 2)
    for row, token in enumerate(ORDER):
        for block in range(10):
            part = x[token, block * 32 : block * 32 + 32].astype(np.float32)
            found = q[row, block * 32 : block * 32 + 32].astype(np.float32)
            if not part.any():
                assert not found.any()
                continue
            power = np.float32(2.0 ** (math.floor(math.log2(np.abs(part).max())) - 2))
            assert float(scales[row, block // 2, block % 2]) == power
            np.testing.assert_array_equal(found, np.clip(part / power, -6, 6).astype(q.dtype).astype(np.float32))


@pytest.mark.parametrize("smooth", [None, np.linspace(0.5, 2, H, dtype=np.float32)[None]])
def test_int4_by_token(smooth: Any) -> None:
    x = tokens()
    q, scales = routed(x, 13, smooth)
    rows = x[ORDER].astype(np.float32) * (1 if smooth is None else smooth)
    scale = np.abs(rows).max(1) / np.float32(7)
    np.testing.assert_allclose(scales.reshape(-1), scale, rtol=1e-6)
    assert np.abs(np.asarray(q).astype(np.float32) - rows / scale[:, None]).max() <= 0.501
