"""Means and variances, and what normalisations share: scale and shift, the gradient through mean and variance."""

from __future__ import annotations

import functools
from typing import Any, Optional

import numpy as np

from ascend_aclnn import numerics
from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._arrays import count

Axes = tuple[int, ...]

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


@functools.lru_cache(256)
def _constant(value: float, kind: str) -> Array:
    """A number as an array without axes, of which NumPy takes half the time that a Python number takes."""
    constant = np.array(value, kind)
    constant.flags.writeable = False
    return constant


def constant(value: float, kind: str = "float32") -> Any:
    """A number beside arrays; 0 as a scalar, for 0.0 and -0.0 are the same to a cache."""
    return _constant(value, kind) if value else np.dtype(kind).type(value)


ONE, _ZERO = _constant(1.0, "float32"), _constant(0.0, "float64")


def mean_over(x: Array, axes: Axes) -> Any:
    """The mean in float64, with axes of size 1 where they were reduced."""
    return np.true_divide(numerics.sum_over(x, axes, True), constant(count(x, axes), "float64"))


def sum_over(x: Array, axes: Axes) -> Any:
    """The sum, added up in float64 and returned in float32."""
    return numerics.sum_over(x, axes).astype(np.float32)


def centred(x: Array, axes: Axes) -> tuple[Array, Array, Array]:
    """x without its mean, the mean and the variance (of all elements, not of a sample); reduced axes have size 1."""
    elements = constant(count(x, axes), "float64")
    exact = numerics.sum_over(x, axes, True)
    exact /= elements
    mean = exact.astype(_FLOAT32)
    apart = x - mean
    variance = numerics.sum_over(np.square(apart), axes, True)
    variance /= elements
    exact -= mean.astype(_FLOAT64)
    variance -= np.square(exact)
    return apart, mean, np.maximum(variance, _ZERO).astype(_FLOAT32)


def inverse_deviation(variance: Array, epsilon: float) -> Array:
    rstd: Array = np.divide(ONE, np.sqrt(variance + constant(epsilon)))
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
