"""Single operators that reduce, sort or measure distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference.declare import reference

_INFINITE = 2.0**31 - 128  # p of this size, rounded to float32, stands for infinity


@reference("aclnnSingleArgWithValue")
def arg_with_value(x: Array, dimension: int, keep_dims: bool, largest: bool) -> tuple[Array, Array]:
    """The largest, or the smallest, elements along an axis and their first positions."""
    indices = (np.argmax if largest else np.argmin)(x, dimension, keepdims=True)
    values = np.take_along_axis(x, indices, dimension)
    return (indices, values) if keep_dims else (indices.squeeze(dimension), values.squeeze(dimension))


@reference("aclnnSingleSort")
def sort(x: Array, axis: int, descending: bool) -> Array:
    found = np.sort(x, axis)
    return np.flip(found, axis) if descending else found


@reference("aclnnSingleCdist")
def cdist(x1: Array, x2: Array, p: float) -> Array:
    """Distances of rows that have been broadcast against each other; p -1 is the largest difference."""
    difference = np.abs(x1.astype(np.float64) - x2)
    if p == -1:
        return np.asarray(np.max(difference, -1, initial=0))
    if p == 0:
        return np.asarray(np.count_nonzero(difference, -1), np.float64)
    return np.asarray(np.sum(difference**p, -1) ** (1 / p))


@reference("aclnnSingleCdistGrad")
def cdist_grad(grad: Array, x1: Array, x2: Array, distance: Array, p: float) -> Array:
    """With respect to x1, summed over the rows of x2; all inputs are broadcast to (..., rows, other rows, features)."""
    difference = x1.astype(np.float64) - x2
    size = np.abs(difference)
    if p == 0:
        slope = np.zeros_like(size)
    elif p == 1:
        slope = np.sign(difference)
    elif p == -1:
        slope = np.sign(difference) * (size == distance)
    else:
        share = np.divide(size, distance, out=np.zeros_like(size), where=distance != 0)
        slope = np.sign(difference) * np.where(size == 0, 0, share ** (p - 1))
    return np.asarray(np.sum(slope * grad, -2))


@reference("aclnnSingleLpNormReduce")
def lp_norm_reduce(x: Array, p: float, axes: Sequence[int], keep_dims: bool) -> Array:
    """What LpNormUpdateV2 takes the root of: the sum of powers, or, for infinity, the largest or smallest size."""
    size, over = np.abs(x.astype(np.float64)), tuple(axes) or None
    if abs(p) >= _INFINITE:
        return np.asarray((np.max if p > 0 else np.min)(size, over, keepdims=keep_dims))
    power: Any = size != 0 if p == 0 else size**p
    return np.asarray(np.sum(power, over, dtype=np.float64, keepdims=keep_dims))


@reference("aclnnSingleLpNormUpdate")
def lp_norm_update(x: Array, p: float) -> Array:
    return x if p in (0, 1) or abs(p) >= _INFINITE else np.asarray(x.astype(np.float64) ** (1 / p))
