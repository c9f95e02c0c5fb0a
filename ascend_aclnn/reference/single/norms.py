"""Single operators that normalise, and the sums and deviations that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference.declare import reference


def _others(x: Array) -> tuple[int, ...]:
    """All axes but the channels."""
    return (0, *range(2, x.ndim))


def _channels(values: Array, x: Array) -> Array:
    """One value for each channel, in x's rank."""
    return values.reshape(1, -1, *[1] * (x.ndim - 2))


# ------------------------------------------------------------------------------------------------------------- BatchNorm


@reference("BNInfer")
def bn_infer(x: Array, scale: Array, offset: Array, mean: Array, variance: Array, epsilon: float) -> Array:
    factor = scale / np.sqrt(variance + np.float32(epsilon))
    return np.asarray((x - _channels(mean, x)) * _channels(factor, x) + _channels(offset, x))


@reference("BNInferGrad")
def bn_infer_grad(dy: Array, scale: Array, variance: Array, epsilon: float) -> Array:
    return np.asarray(dy * _channels(scale / np.sqrt(variance + np.float32(epsilon)), dy))


@reference("BN3DTrainingReduce", "BNTrainingReduce")
def bn_training_reduce(x: Array) -> tuple[Any, Any]:
    """Of each channel, the sum and the sum of the squares."""
    return x.sum(_others(x), dtype=np.float64), np.square(x.astype(np.float64)).sum(_others(x))


@reference("BN3DTrainingUpdate", "BNTrainingUpdate")
def bn_training_update(
    x: Array,
    total: Array,
    squares: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
    factor: float,
    epsilon: float,
) -> tuple[Any, ...]:
    """The normalised x, both moving averages, and the batch's mean and variance."""
    count = x.size // x.shape[1]
    batch_mean = total.reshape(-1).astype(np.float64) / count
    spread = squares.reshape(-1) / count - batch_mean**2
    y = bn_infer(x, scale.reshape(-1), offset.reshape(-1), batch_mean, spread, epsilon)
    unbiased = spread * count / max(count - 1, 1)
    moved = (
        mean + (batch_mean.reshape(mean.shape) - mean) * factor,
        variance + (unbiased.reshape(mean.shape) - variance) * factor,
    )
    return (y, *moved, batch_mean.reshape(mean.shape), spread.reshape(mean.shape))


@reference("BN3DTrainingUpdateGrad", "BNTrainingUpdateGrad")
def bn_training_update_grad(dy: Array, x: Array, mean: Array, variance: Array, epsilon: float) -> tuple[Any, Any]:
    """Of the scale and of the offset."""
    inverse = 1 / np.sqrt(variance.reshape(-1) + np.float32(epsilon))
    normal = (x - _channels(mean, x)) * _channels(inverse, x)
    shape = mean.shape
    return (dy * normal).sum(_others(x), dtype=np.float64).reshape(shape), dy.sum(_others(x), dtype=np.float64).reshape(
        shape
    )


@reference("BN3DTrainingReduceGrad", "BNTrainingReduceGrad")
def bn_training_reduce_grad(
    dy: Array, x: Array, d_scale: Array, d_offset: Array, scale: Array, mean: Array, variance: Array, epsilon: float
) -> Array:
    """Of x, from the gradients of scale and offset."""
    count = x.size // x.shape[1]
    inverse = 1 / np.sqrt(variance.reshape(-1) + np.float32(epsilon))
    normal = (x - _channels(mean, x)) * _channels(inverse, x)
    centred = dy - (normal * _channels(d_scale, x) + _channels(d_offset, x)) / count
    return np.asarray(centred * _channels(scale.reshape(-1) * inverse, x))


# ------------------------------------------------------------------------------------------- BatchNorm of several devices


@reference("ReduceMeanWithCount")
def reduce_mean_with_count(x: Array, count: Array, total: Array, axes: Sequence[int], keep_dims: bool) -> Array:
    """The mean of means that stand for several elements each."""
    return np.asarray((x * (count / total)).sum(tuple(axes), keepdims=keep_dims))


@reference("SyncBNTrainingUpdate")
def sync_bn_training_update(mean: Array, running: Array, momentum: float) -> Array:
    return np.asarray(running * (1 - momentum) + mean * momentum)


@reference("SyncBatchNormGatherStatsWithCounts")
def sync_batch_norm_gather_stats_with_counts(
    mean: Array,
    inverse: Array,
    count: Array,
    whole_mean: Array,
    total: Array,
    running: Array,
    momentum: float,
    epsilon: float,
) -> tuple[Any, Any]:
    """1 / deviation of all rows together, and the moving variance."""
    spread = ((1 / inverse**2 - epsilon + (mean - whole_mean) ** 2) * count).sum(0, keepdims=True)
    moved = running * (1 - momentum) + spread / (total - 1) * momentum
    return 1 / np.sqrt(spread / total + epsilon), moved.reshape(running.shape)


@reference("SyncBatchNormGatherStats")
def sync_batch_norm_gather_stats(
    total: Array, squares: Array, count: Array, mean: Array, variance: Array, momentum: float, epsilon: float
) -> tuple[Any, ...]:
    """Of sums of several devices: mean, 1 / deviation, and both moving averages."""
    whole = count.sum()
    batch_mean = total.sum(0) / whole
    spread = squares.sum(0) / whole - batch_mean**2
    moved_variance = variance * (1 - momentum) + spread * whole / (whole - 1) * momentum
    return batch_mean, 1 / np.sqrt(spread + epsilon), mean * (1 - momentum) + batch_mean * momentum, moved_variance


@reference("SyncBatchNormBackwardReduce")
def sync_batch_norm_backward_reduce(sum_dy: Array, sum_dy_x: Array, mean: Array, inverse: Array) -> tuple[Any, Any]:
    centred = sum_dy_x - sum_dy * mean
    return centred, centred * inverse


@reference("SyncBatchNormBackwardElemt")
def sync_batch_norm_backward_elemt(
    dy: Array, x: Array, mean: Array, inverse: Array, weight: Array, mean_dy: Array, mean_dy_centred: Array
) -> Array:
    return np.asarray((dy - mean_dy - (x - mean) * inverse**2 * mean_dy_centred) * inverse * weight)


# --------------------------------------------------------------------------------------------------- LayerNorm, GroupNorm


@reference("LayerNorm")
def layer_norm(x: Array, scale: Array, offset: Array, first: int, epsilon: float) -> tuple[Any, ...]:
    """From an axis on; beside it mean and variance."""
    axes = tuple(range(first % x.ndim, x.ndim))
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    return (wide - mean) / np.sqrt(variance + epsilon) * scale + offset, mean, variance


@reference("LayerNormGrad")
def layer_norm_grad(dy: Array, x: Array, variance: Array, mean: Array, scale: Array) -> tuple[Any, ...]:
    """The kernel knows the variance, not the epsilon that was added to it."""
    axes = tuple(range(x.ndim - scale.ndim, x.ndim))
    before = tuple(range(x.ndim - scale.ndim))
    inverse = 1 / np.sqrt(variance.astype(np.float64) + 1e-12)
    normal = (x - mean) * inverse
    slope = dy * scale
    dx = (slope - slope.mean(axes, keepdims=True) - normal * (slope * normal).mean(axes, keepdims=True)) * inverse
    return dx, (dy * normal).sum(before), dy.sum(before, dtype=np.float64)


@reference("GroupNorm")
def group_norm(x: Array, scale: Array, offset: Array, groups: int, epsilon: float) -> tuple[Any, ...]:
    """Beside it, mean and variance of each group."""
    parts = x.reshape(len(x) * groups, -1).astype(np.float64)
    mean, variance = parts.mean(1), parts.var(1)
    y = ((parts - mean[:, None]) / np.sqrt(variance + epsilon)[:, None]).reshape(x.shape)
    return y * _channels(scale, x) + _channels(offset, x), mean, variance


@reference("NormalizeBatch")
def normalize_batch(x: Array, lengths: Array, kind: str, epsilon: float) -> Array:
    """(batch, features, steps) by mean and deviation of the first steps of each sample, for each feature or for all together.

    The kernel moves and scales the steps behind them too.
    """
    present = np.arange(x.shape[2]) < lengths[:, None, None]
    axes: tuple[int, ...] = (2,) if kind == "per_feature" else (1, 2)
    count = lengths[:, None, None] * (1 if kind == "per_feature" else x.shape[1])
    mean = (x * present).sum(axes, keepdims=True) / count
    centred = x - mean
    deviation = np.sqrt(np.square(centred * present).sum(axes, keepdims=True) / np.maximum(count - 1, 1))
    return np.asarray(centred / (deviation + np.float32(epsilon)))


# -------------------------------------------------------------------------------------------------------------- deviations


def _spread(x: Array, mean: Array, axes: Sequence[int], keep_dims: bool, correction: int) -> Array:
    """The variance, with the mean given in x's shape."""
    over = tuple(axis % x.ndim for axis in axes) or tuple(range(x.ndim))
    count = int(np.prod([x.shape[axis] for axis in over]))
    squares = np.square(x.astype(np.float64) - mean).sum(over, keepdims=keep_dims)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(squares / np.float64(max(count - correction, 0)))


@reference("ReduceStdV2Update")
def reduce_std_v2_update(
    x: Array, mean: Array, axes: Sequence[int], root: bool, unbiased: bool, keep_dims: bool, correction: int
) -> Array:
    variance = _spread(x, mean, axes, keep_dims, correction if unbiased else 0)
    return np.asarray(np.sqrt(variance) if root else variance)


@reference("ReduceStdWithMean")
def reduce_std_with_mean(
    x: Array,
    mean: Array,
    axes: Sequence[int],
    unbiased: bool,
    keep_dims: bool,
    invert: bool,
    epsilon: float,
    correction: int,
) -> Array:
    """The deviation, or 1 / it with the epsilon."""
    variance = _spread(x, mean, axes, keep_dims, correction if unbiased else 0)
    return np.asarray(1 / np.sqrt(variance + epsilon) if invert else np.sqrt(variance))


@reference("Renorm")
def renorm(x: Array, p: float, dimension: int, most: float) -> Array:
    """The factors by which the parts along an axis are scaled down to a norm."""
    axes = tuple(axis for axis in range(x.ndim) if axis != dimension % x.ndim)
    size = np.abs(x.astype(np.float64))
    if np.isinf(p):
        norm: Any = size.max(axes, keepdims=True)
    else:
        norm = np.count_nonzero(size, axes, keepdims=True) if p == 0 else (size**p).sum(axes, keepdims=True) ** (1 / p)
    return np.asarray(np.where(norm > most, most / (norm + 1e-7), 1))
