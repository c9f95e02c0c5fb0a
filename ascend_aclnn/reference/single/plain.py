"""Single operators that reduce, sort or measure distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference import optim
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.loss import labels

_INFINITE = 2.0**31 - 128  # p of this size, rounded to float32, stands for infinity


@reference("ArgMaxWithValue", "ArgMinWithValue")
def arg_with_value(x: Array, dimension: int, keep_dims: bool, largest: bool) -> tuple[Array, Array]:
    """The largest, or the smallest, elements along an axis and their first positions."""
    indices = (np.argmax if largest else np.argmin)(x, dimension, keepdims=True)
    values = np.take_along_axis(x, indices, dimension)
    return (indices, values) if keep_dims else (indices.squeeze(dimension), values.squeeze(dimension))


@reference("SortV2")
def sort(x: Array, axis: int, descending: bool) -> Array:
    ascending = np.sort(x, axis)
    return np.flip(ascending, axis) if descending else ascending


@reference("Cdist")
def cdist(x1: Array, x2: Array, p: float) -> Array:
    """Distances of rows that have been broadcast against each other; p -1 is the largest difference."""
    difference = np.abs(x1.astype(np.float64) - x2)
    if p == -1:
        return np.asarray(np.max(difference, -1, initial=0))
    if p == 0:
        return np.asarray(np.count_nonzero(difference, -1), np.float64)
    return np.asarray(np.sum(difference**p, -1) ** (1 / p))


@reference("CdistGrad")
def cdist_grad(grad: Array, x1: Array, x2: Array, distance: Array, p: float) -> Array:
    """With respect to x1, summed over the rows of x2; all inputs are broadcast to (..., rows, other rows, features)."""
    difference = x1.astype(np.float64) - x2
    size = np.abs(difference)
    if p == 0:
        slope = np.zeros_like(size)
    elif p == 1:
        slope = np.sign(difference)
    elif p == -1:
        slope = np.sign(difference) * (size >= distance)  # a distance of FLOAT16 may have been rounded down
    else:
        share = np.divide(size, distance, out=np.zeros_like(size), where=distance != 0)
        slope = np.sign(difference) * np.where(size == 0, 0, share ** (p - 1))
    return np.asarray(np.sum(slope * grad, -2))


@reference("LpNormReduceV2")
def lp_norm_reduce(x: Array, p: float, axes: Sequence[int], keep_dims: bool) -> Array:
    """The value before LpNormUpdateV2's root: the sum of powers, or, for infinity, the largest or smallest size."""
    size, over = np.abs(x.astype(np.float64)), tuple(axes) if x.ndim and axes else None
    if abs(p) >= _INFINITE:
        return np.asarray((np.max if p > 0 else np.min)(size, over, keepdims=keep_dims))
    power: Any = size != 0 if p == 0 else size**p
    return np.asarray(np.sum(power, over, dtype=np.float64, keepdims=keep_dims))


@reference("LpNormUpdateV2")
def lp_norm_update(x: Array, p: float) -> Array:
    return x if p in (0, 1) or abs(p) >= _INFINITE else np.asarray(x.astype(np.float64) ** (1 / p))


@reference("ReduceProd")
def reduce_prod(x: Array, axes: Sequence[int], keep_dims: bool) -> Array:
    kind = np.float64 if x.dtype.kind == "f" else np.int64
    return np.asarray(np.prod(x, tuple(axes) or None, kind, keepdims=keep_dims))


@reference("RangeD")
def range_d(places: Array, start: float, step: float) -> Array:
    return np.asarray(start + places.astype(np.float64) * step)


@reference("BiasAddGrad")
def bias_add_grad(dy: Array, layout: str) -> Array:
    channels = dy.ndim - 1 if layout == "NHWC" else 1
    return np.asarray(dy.sum(tuple(axis for axis in range(dy.ndim) if axis != channels), dtype=np.float64))


@reference("FillDiagonal")
def fill_diagonal(x: Array, value: float, wrap: bool) -> Array:
    filled = x.copy()
    np.fill_diagonal(filled, value, wrap)
    return filled


@reference("ConfusionTransposeD")
def confusion_transpose(x: Array, order: Sequence[int], shape: Sequence[int], transpose_first: bool) -> Array:
    return x.transpose(order).reshape(shape) if transpose_first else x.reshape(shape).transpose(order)


@reference("StrideAdd")
def stride_add(x1: Array, x2: Array, offset1: int, offset2: int, length: int) -> Array:
    """Sums of blocks of 16 channels, from an offset in blocks on; channels that an input lacks are 0."""
    count = 16 * length
    sums = np.zeros((x1.shape[0], count, *x1.shape[2:]), np.float32)
    for x, offset in ((x1, offset1), (x2, offset2)):
        part = x[:, 16 * offset : 16 * offset + count]
        sums[:, : part.shape[1]] += part
    return sums


@reference("LogMatrixDeterminant")
def slogdet(x: Array) -> tuple[Any, Any]:
    return np.linalg.slogdet(x.astype(np.float64))


@reference("Qr")
def qr(x: Array, full: bool) -> tuple[Any, Any]:
    return np.linalg.qr(x.astype(np.float64), "complete" if full else "reduced")


@reference("MatrixTriangularSolve")
def matrix_triangular_solve(a: Array, b: Array, lower: bool, adjoint: bool) -> Array:
    triangle = (np.tril if lower else np.triu)(a.astype(np.float64))
    return np.linalg.solve(triangle.swapaxes(-1, -2) if adjoint else triangle, b.astype(np.float64))


def _one(x: Array) -> float:
    return float(x.reshape(-1)[0])


@reference("ApplyAdamV2")
def apply_adam_v2(
    var: Array,
    m: Array,
    v: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    grad: Array,
    most: Array,
    norm: Array,
    decay: Array,
    step_size: Any,
    mode: str,
) -> tuple[Any, ...]:
    """BertAdam: without correction of the moments; the gradient is divided by its norm where that is above 1."""
    if mode != "mbart_adam" and _one(most) > 0 and np.ceil(_one(norm)) > 1:
        grad = grad / _one(norm)
    m = m * _one(beta1) + grad * (1 - _one(beta1))
    v = v * _one(beta2) + grad * grad * (1 - _one(beta2))
    update = m / (np.sqrt(v) + _one(epsilon))
    if mode == "mbart_adam":
        update = update * _one(step_size) + (_one(decay) * _one(lr) * var if _one(decay) > 0 else 0)
        return var - update, m, v
    if _one(decay) > 0:
        update = update + _one(decay) * var
    return var - _one(lr) * update, m, v


@reference("ApplyAdamW")
def apply_adam_w(*arguments: Any) -> Any:
    return optim.apply_adam_w(*arguments)


@reference("Log")
def log(x: Array, base: float, scale: float, shift: float) -> Array:
    """Of scale x + shift, to a base; -1 is e."""
    return np.asarray(np.log(x * np.float32(scale) + np.float32(shift)) / (1 if base == -1 else np.log(base)))


@reference("Exp")
def exp(x: Array, base: float, scale: float, shift: float) -> Array:
    """The base, -1 for e, to the power of scale x + shift."""
    return np.asarray(np.exp((x * np.float32(scale) + np.float32(shift)) * (1 if base == -1 else np.log(base))))


@reference("Im2col")
def im2col(
    x: Array, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
) -> Array:
    """The elements of each window, window after window, as aclnnIm2col: (batch, channels * places in a window, windows)."""
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[1]), (pads[2], pads[3])))
    spans = [d * (n - 1) + 1 for n, d in zip(sizes, dilations)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, spans, (2, 3))
    seen = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    return seen.transpose(0, 1, 4, 5, 2, 3).reshape(x.shape[0], x.shape[1] * sizes[0] * sizes[1], -1)


@reference("CTCLossV2Grad", raw=True)
def ctc_loss_v2_grad(
    grad: Array,
    log_probs: Array,
    targets: Array,
    steps: Array,
    lengths: Array,
    loss: Array,
    log_alpha: Array,
    blank: int,
    zero_infinity: bool,
    *,
    out: tuple[Array],
) -> None:
    """As aclnnCtcLossBackward, with the lengths in tensors."""
    sizes = [tuple(array.reshape(-1).tolist()) for array in (steps, lengths)]
    blank %= log_probs.shape[-1]
    labels.ctc_loss_backward(grad, log_probs, targets, *sizes, loss, log_alpha, blank, zero_infinity, out=out)


# ------------------------------------------------------------------------------------------------------- maxima with masks


def _windows(
    x: Array,
    sizes: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    shape: Sequence[int],
) -> Array:
    """The elements of each window of an image: (batch, channels, rows, columns, window rows, window columns)."""
    spans = [d * (n - 1) + 1 for n, d in zip(sizes, dilations)]
    after = [
        max((n - 1) * s + span - size - pad, 0)
        for n, s, span, size, pad in zip(shape, strides, spans, x.shape[2:], pads)
    ]
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], after[0]), (pads[1], after[1])), constant_values=-np.inf)
    seen = np.lib.stride_tricks.sliding_window_view(padded, spans, (2, 3))[:, :, :: strides[0], :: strides[1]]
    return seen[:, :, : shape[0], : shape[1], :: dilations[0], :: dilations[1]]


@reference("MaxPoolWithArgmaxV1")
def max_pool_with_argmax_v1(
    x: Array,
    sizes: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    shape: Sequence[int],
    words: int,
) -> tuple[Array, Array]:
    """The largest of each window; and, of 16 channels in the bits of a word, whether a place in the window holds it."""
    seen = _windows(x.astype(np.float32), sizes, strides, pads, dilations, shape[2:])
    batch, channels, rows, columns = seen.shape[:4]
    seen = seen.reshape(batch, channels, rows * columns, -1)
    best, blocks = seen.argmax(-1), -(-channels // 16)
    is_best = np.zeros((batch, blocks * 16, seen.shape[-1], rows * columns), np.uint16)
    is_best[:, :channels] = best[:, :, None] == np.arange(seen.shape[-1])[:, None]
    bits = (
        is_best.reshape(batch, blocks, 16, seen.shape[-1], rows * columns)
        << np.arange(16, dtype=np.uint16)[:, None, None]
    )
    mask = np.zeros((batch, blocks, seen.shape[-1], words // (batch * blocks * seen.shape[-1])), np.uint16)
    mask[..., : rows * columns] = bits.sum(2, dtype=np.uint16)
    return np.take_along_axis(seen, best[..., None], -1).reshape(batch, channels, rows, columns), mask.reshape(-1)


@reference("MaxPoolGradWithArgmaxV1")
def max_pool_grad_with_argmax_v1(
    x: Array,
    dy: Array,
    mask: Array,
    sizes: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> Array:
    """Each gradient goes to the place that the mask names."""
    batch, channels, rows, columns = dy.shape
    blocks, places = -(-channels // 16), sizes[0] * sizes[1]
    words = mask.reshape(batch, blocks, 1, places, -1)[..., : rows * columns]
    held = (words >> np.arange(16, dtype=np.uint16)[:, None, None]) & 1
    held = held.reshape(batch, blocks * 16, places, rows, columns)[:, :channels]
    ends = [p + (n - 1) * s + d * (k - 1) + 1 for n, s, d, k, p in zip(dy.shape[2:], strides, dilations, sizes, pads)]
    wide = np.zeros((batch, channels, *(max(e, n + 2 * p) for e, n, p in zip(ends, x.shape[2:], pads))), np.float32)
    for place in range(places):
        top, left = (place // sizes[1]) * dilations[0], (place % sizes[1]) * dilations[1]
        part = wide[
            :,
            :,
            top : top + (rows - 1) * strides[0] + 1 : strides[0],
            left : left + (columns - 1) * strides[1] + 1 : strides[1],
        ]
        part += dy * held[:, :, place]
    return wide[:, :, pads[0] : pads[0] + x.shape[2], pads[1] : pads[1] + x.shape[3]]
