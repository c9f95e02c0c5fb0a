"""Normalisation of channels over the batch, over several processes, and over one sample.

Statistics are summed in float64; the rest is float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._arrays import count
from ascend_aclnn.reference._moments import (
    affine,
    centred,
    channels,
    inverse_deviation,
    sum_over,
    through_moments,
)
from ascend_aclnn.reference.declare import reference


def _others(x: Array) -> tuple[int, ...]:
    """All axes but that of the channels."""
    return (0, *range(2, x.ndim))


def _normed(x: Array, mean: Array, factor: Array, weight: Optional[Array], bias: Optional[Array]) -> Array:
    """(x - mean) * factor * weight + bias, each with one value for every channel."""
    apart = np.asarray(x - channels(mean, x.ndim), np.float32)
    apart *= channels(factor, x.ndim)
    return affine(apart, channels(weight, x.ndim), channels(bias, x.ndim))


def _blend(old: Optional[Array], new: Array, momentum: float) -> Optional[Array]:
    return None if old is None else old * np.float32(1 - momentum) + new * np.float32(momentum)


@reference("aclnnBatchNorm", channels_first="950")
def batch_norm(
    x: Array,
    weight: Optional[Array],
    bias: Optional[Array],
    running_mean: Optional[Array],
    running_var: Optional[Array],
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Training normalises by the batch's moments, keeps them and blends them (the variance as a sample's) into the
    running ones; inference normalises by the running ones, 0 and 1 where there are none, and keeps nothing."""
    if x.size == 0:
        nothing = np.zeros(x.shape[1], np.float32)
        return running_mean, running_var, x, nothing, np.full_like(nothing, np.nan)
    if not training:
        mean = np.zeros(x.shape[1], np.float32) if running_mean is None else running_mean
        variance = np.ones(x.shape[1], np.float32) if running_var is None else running_var
        output = _normed(x, mean, inverse_deviation(variance, eps), weight, bias)
        return running_mean, running_var, output, None, None
    axes = _others(x)
    n = count(x, axes)
    apart, wide_mean, wide_variance = centred(x, axes)
    mean, variance = wide_mean.reshape(-1), wide_variance.reshape(-1)
    factor = inverse_deviation(variance, eps)
    apart *= channels(factor, x.ndim)
    output = affine(apart, channels(weight, x.ndim), channels(bias, x.ndim))
    running_mean = _blend(running_mean, mean, momentum)
    running_var = _blend(running_var, variance * np.float32(n / max(n - 1, 1)), momentum)
    return running_mean, running_var, output, mean, factor


def _backward(
    grad: Array,
    x: Array,
    weight: Optional[Array],
    running_mean: Optional[Array],
    running_var: Optional[Array],
    save_mean: Optional[Array],
    save_invstd: Optional[Array],
    training: bool,
    eps: float,
    mask: Sequence[bool],
) -> Any:
    """Gradients of input, weight and bias: through the batch's moments in training, else with constant moments."""
    size, axes = x.shape[1], _others(x)
    if training:
        mean = np.zeros(size, np.float32) if save_mean is None else save_mean
        factor = np.ones(size, np.float32) if save_invstd is None else save_invstd
    else:
        mean = np.zeros(size, np.float32) if running_mean is None else running_mean
        factor = inverse_deviation(np.ones(size, np.float32) if running_var is None else running_var, eps)
    normed = _normed(x, mean, factor, None, None)
    wanted: list[Optional[Array]] = [None, None, None]
    mask = [*mask, False, False, False]  # a shorter one asks for the first outputs
    if mask[0]:
        scaled = factor if weight is None else factor * weight
        through = through_moments(grad, normed, axes) if training and x.size else grad
        wanted[0] = through * channels(scaled, x.ndim)
    if mask[1]:
        wanted[1] = sum_over(grad * normed, axes)
    if mask[2]:
        wanted[2] = sum_over(grad, axes)
    return tuple(wanted)


reference("aclnnBatchNormBackward", channels_first="950")(_backward)


@reference("aclnnFastBatchNormBackward", channels_first="950")
def fast_batch_norm_backward(*arguments: Any) -> Any:
    """The same by another algorithm, whose number is the last argument."""
    return _backward(*arguments[:-1])


@reference("aclnnBatchNormElemt")
def batch_norm_elemt(
    x: Array, weight: Optional[Array], bias: Optional[Array], mean: Array, invstd: Array, eps: float
) -> Any:
    return _normed(x, mean, invstd, weight, bias)


@reference("aclnnBatchNormElemtBackward")
def batch_norm_elemt_backward(
    grad: Array,
    x: Array,
    mean: Array,
    invstd: Array,
    weight: Optional[Array],
    sum_dy: Array,
    sum_dy_xmu: Array,
    counter: Array,
) -> Any:
    """The input's gradient from sums over all processes, which saw ``counter`` elements of each channel."""
    n = np.float32(np.sum(counter, dtype=np.float64))
    projection = np.square(invstd) * (sum_dy_xmu / n)
    factor = invstd if weight is None else invstd * weight
    centred = x - channels(mean, x.ndim)
    return (grad - channels(sum_dy / n, x.ndim) - centred * channels(projection, x.ndim)) * channels(factor, x.ndim)


@reference("aclnnBatchNormReduce")
def batch_norm_reduce(x: Array) -> Any:
    """Sums of each channel's elements and of their squares."""
    return sum_over(x, _others(x)), sum_over(np.square(x), _others(x))


@reference("aclnnBatchNormReduceBackward")
def batch_norm_reduce_backward(
    grad: Array,
    x: Array,
    mean: Array,
    invstd: Array,
    weight: Optional[Array],
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> Any:
    """Sums of gradients and of gradients times the distance to the mean, and the gradients of weight and bias."""
    sum_dy = sum_over(grad, _others(x))
    sum_dy_xmu = sum_over(grad * (x - channels(mean, x.ndim)), _others(x))
    sums = (sum_dy, sum_dy_xmu) if input_g else (None, None)
    return (*sums, sum_dy_xmu * invstd if weight_g else None, sum_dy if bias_g else None)


@reference("aclnnBatchNormGatherStatsWithCounts")
def batch_norm_gather_stats_with_counts(
    x: Array,
    mean: Array,
    invstd: Array,
    running_mean: Optional[Array],
    running_var: Optional[Array],
    momentum: float,
    eps: float,
    counts: Array,
) -> Any:
    """The moments of all processes' elements from those of each process and their numbers."""
    share = counts.astype(np.float64).reshape(-1, 1)
    n = share.sum()
    mean_all = (mean * share).sum(0) / n
    spread = np.square(1 / invstd.astype(np.float64)) - eps
    variance = ((spread + np.square(mean - mean_all)) * share).sum(0) / n
    running_mean = _blend(running_mean, np.asarray(mean_all), momentum)
    running_var = _blend(running_var, np.asarray(variance * (n / max(n - 1, 1))), momentum)
    return running_mean, running_var, mean_all, 1 / np.sqrt(variance + eps)


@reference("aclnnSyncBatchNormGatherStats")
def sync_batch_norm_gather_stats(
    total: Array, squares: Array, counts: Array, mean: Array, variance: Array, momentum: float, eps: float
) -> Any:
    """The moments of all processes' elements from their sums, sums of squares and numbers."""
    n = np.sum(counts, dtype=np.float64)
    batch_mean = np.sum(total, 0, np.float64) / n
    batch_var = np.sum(squares, 0, np.float64) / n - np.square(batch_mean)
    running_mean = _blend(mean, np.asarray(batch_mean), momentum)
    running_var = _blend(variance, np.asarray(batch_var * (n / (n - 1))), momentum)
    return running_mean, running_var, batch_mean, 1 / np.sqrt(batch_var + eps)


@reference("aclnnInstanceNorm")
def instance_norm(x: Array, gamma: Array, beta: Array, data_format: str, eps: float) -> Any:
    """Each channel of each sample by its own moments, which are outputs too."""
    axis = 1 if data_format == "NCHW" else 3
    apart, mean, variance = centred(x, (2, 3) if axis == 1 else (1, 2))
    apart *= inverse_deviation(variance, eps)
    return affine(apart, channels(gamma, 4, axis), channels(beta, 4, axis)), mean, variance


@reference("aclnnQuantizedBatchNorm")
def quantized_batch_norm(
    x: Array,
    mean: Array,
    var: Array,
    input_scale: float,
    input_zero_point: int,
    output_scale: float,
    output_zero_point: int,
    weight: Optional[Array],
    bias: Optional[Array],
    epsilon: float,
) -> Any:
    """Inference on quantised values, which are quantised again."""
    values = (x.astype(np.float32) - np.float32(input_zero_point)) * np.float32(input_scale)
    y = _normed(values, mean, inverse_deviation(var, epsilon), weight, bias)
    return y / np.float32(output_scale) + np.float32(output_zero_point)
