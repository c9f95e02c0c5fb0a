"""Means and variances, and what normalisations share: scale and shift, the gradient through mean and variance."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn import numerics
from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._arrays import count

Axes = tuple[int, ...]


def mean_over(x: Array, axes: Axes) -> Any:
    """The mean in float64, with axes of size 1 where they were reduced."""
    return np.true_divide(numerics.sum_over(x, axes, True), count(x, axes))


def sum_over(x: Array, axes: Axes) -> Any:
    """The sum, added up in float64 and returned in float32."""
    return numerics.sum_over(x, axes).astype(np.float32)


def centred(x: Array, axes: Axes) -> tuple[Array, Array, Array]:
    """x without its mean, the mean and the variance (of all elements, not of a sample); reduced axes have size 1."""
    exact = mean_over(x, axes)
    mean = exact.astype(np.float32)
    apart = x - mean
    variance = mean_over(np.square(apart), axes) - np.square(exact - mean)
    return apart, mean, np.maximum(variance, 0).astype(np.float32)


def inverse_deviation(variance: Array, epsilon: float) -> Array:
    rstd: Array = 1 / np.sqrt(variance + np.float32(epsilon))
    return rstd


def affine(x: Array, weight: Optional[Array], bias: Optional[Array]) -> Array:
    """x * weight + bias, in x's memory; either may be absent."""
    if weight is not None:
        x *= weight
    if bias is not None:
        x += bias
    return x


def through_moments(grad: Array, normed: Array, axes: Axes) -> Array:
    """The gradient of a normalisation by mean and variance, but for the factor 1 / deviation.

    ``grad``: the gradient of the normed values (which are the input without its mean, over the deviation).
    """
    projection = mean_over(grad * normed, axes).astype(np.float32)
    dx: Array = grad - mean_over(grad, axes).astype(np.float32) - normed * projection
    return dx


def channels(values: Optional[Array], ndim: int, axis: int = 1) -> Any:
    """One value for every channel, to be broadcast over a tensor whose channels lie in an axis; None for None."""
    if values is None:
        return None
    return values.reshape([values.size if i == axis % ndim else 1 for i in range(ndim)])
