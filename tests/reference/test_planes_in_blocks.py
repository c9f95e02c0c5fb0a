"""Operators on the planes of images, and on caches of keys, large enough to be computed block by block."""

from __future__ import annotations

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ascend_aclnn import ops


def image(dtype: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((5, 40, 23, 31)).astype(dtype)


def windows(x: Any, kernel: int, stride: int, fill: float) -> Any:
    """The elements of each window of a square kernel, padded by one with a number."""
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
    return seen.reshape(*seen.shape[:4], -1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_maxima_of_many_planes_and_where_the_first_of_them_lies(dtype: Any) -> None:
    x = image(dtype)
    x[0, 0] = -np.inf
    x[:, 1, 4:7, 4:7] = np.nan
    x[:, 2] = np.rint(x[:, 2].astype(np.float32)).astype(dtype)  # with equal ones
    values, places = ops.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1], [1, 1], False)
    seen = windows(x, 3, 2, -np.inf)
    numbers = windows(np.broadcast_to(np.arange(23 * 31).reshape(23, 31), x.shape), 3, 2, -1)
    ranked = np.where(np.isnan(seen), np.inf, seen)
    ranked = np.where(numbers < 0, -np.inf, ranked)
    best = ranked == ranked.max(-1, keepdims=True)
    best &= numbers >= 0  # a window of -infinity has the first that is no padding
    chosen = best.argmax(-1)[..., None]
    assert np.array_equal(places, np.take_along_axis(numbers, chosen, -1)[..., 0].astype(np.int64))
    wanted = np.take_along_axis(seen, chosen, -1)[..., 0]
    assert np.array_equal(values.astype(np.float64), wanted, equal_nan=True)


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-6), (np.float16, 1e-3), (ml_dtypes.bfloat16, 8e-3)])
def test_averages_of_many_planes_beside_float64(dtype: Any, tolerance: float) -> None:
    x = image(dtype)
    actual = ops.avg_pool2d(x, [3, 3], [2, 2], [1, 1], False, True, 0)
    np.testing.assert_allclose(actual.astype(np.float64), windows(x, 3, 2, 0).mean(-1), tolerance, tolerance)
    grad = np.random.default_rng(1).standard_normal(actual.shape).astype(dtype)
    back = ops.avg_pool2d_backward(grad, x, [3, 3], [2, 2], [1, 1], False, True, 0)
    # the gradient is what the sum of all outputs times grad grows by
    direction = np.random.default_rng(2).standard_normal(x.shape)
    growth = (windows(direction, 3, 2, 0).mean(-1) * grad.astype(np.float64)).sum()
    scale = np.sqrt((back.astype(np.float64) ** 2).sum())
    assert abs((back.astype(np.float64) * direction).sum() - growth) < 4 * tolerance * scale


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 2e-3), (ml_dtypes.bfloat16, 1.6e-2)])
def test_many_planes_are_resampled_as_by_matrices(dtype: Any, tolerance: float) -> None:
    x = image(dtype)
    actual = ops.upsample_bilinear2d(x, [50, 47], False, 0.0, 0.0)

    def matrix(size: int, wanted: int) -> Any:
        where = np.clip((np.arange(wanted) + 0.5) * size / wanted - 0.5, 0, size - 1)
        return np.maximum(0, 1 - np.abs(where[:, None] - np.arange(size)))

    wanted = matrix(23, 50) @ x.astype(np.float64) @ matrix(31, 47).T
    np.testing.assert_allclose(actual.astype(np.float64), wanted, tolerance, tolerance)
    near = ops.upsample_nearest2d(x, [50, 47])
    rows, columns = np.arange(50) * 23 // 50, np.arange(47) * 31 // 47
    assert near.tobytes() == x[:, :, rows][:, :, :, columns].tobytes()


@pytest.mark.parametrize("dtype, tolerance", [(np.float16, 2e-3), (ml_dtypes.bfloat16, 1.6e-2)])
def test_a_cache_of_keys_and_values_is_not_widened_whole(dtype: Any, tolerance: float) -> None:
    rng = np.random.default_rng(3)
    query = rng.standard_normal((4, 8, 1, 64)).astype(dtype)
    keys, values = (rng.standard_normal((4, 8, 8192, 64), np.float32).astype(dtype) for _ in range(2))

    def attend() -> Any:
        return ops.incre_flash_attention(query, [keys], [values], None, None, None, 8, 0.125, "BNSD")

    made = attend()
    scores = np.einsum("bhqd,bhkd->bhqk", query.astype(np.float64), keys.astype(np.float64)) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), values.astype(np.float64))
    np.testing.assert_allclose(made.astype(np.float64), wanted, tolerance, tolerance)
    tracemalloc.start()
    attend()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < keys.nbytes + values.nbytes  # widened they have twice that
