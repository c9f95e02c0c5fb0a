"""References of ops-nn/vfusion: modulation, masked softmax, attention to sampled places of feature maps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, sum_over, where
from ascend_aclnn.reference._rows import check_range, whole_within
from ascend_aclnn.reference.declare import reference

# ------------------------------------------------------------------------------------------------- modulation


def _over_length(values: Array) -> Array:
    """One row (B, D) or (B, 1, D) for every sample, to be broadcast over (B, L, D)."""
    return values.reshape(values.shape[0], 1, values.shape[-1])


@reference("aclnnModulate")
def modulate(x: Array, scale: Optional[Array], shift: Optional[Array]) -> Any:
    if scale is not None:
        x = x * (1 + _over_length(scale))
    return x if shift is None else x + _over_length(shift)


@reference("aclnnModulateBackward")
def modulate_backward(grad: Array, x: Array, scale: Optional[Array], shift: Optional[Array]) -> Any:
    """As document and kernel have it, the input's gradient is grad * scale: their scale is the forward's plus 1."""
    d_x = grad if scale is None else grad * _over_length(scale)
    d_scale = None if scale is None else np.sum(grad * x, 1, np.float64).reshape(scale.shape)
    d_shift = None if shift is None else np.sum(grad, 1, np.float64).reshape(shift.shape)
    return d_x, d_scale, d_shift


# ------------------------------------------------------------------------------------------------- masked softmax

_MASKED = -10000.0  # a score, not infinity: a row that is masked as a whole becomes uniform


def _sum(x: Any) -> Any:
    return sum_over(x, (-1,), True).astype(np.float32)


@reference("aclnnScaledMaskedSoftmax", along=lambda *_: (-1,))
def scaled_masked_softmax(x: Any, mask: Any, scale: float, fixed_triu_mask: bool) -> Any:
    """softmax(scale * x), with scores that are masked (True) set to -10000."""
    scores = where(mask, _MASKED, x * np.float32(scale))
    powers = np.exp(scores - np.max(scores, axis=-1, keepdims=True, initial=-np.inf))
    return powers / _sum(powers)


@reference("aclnnScaledMaskedSoftmaxBackward", along=lambda *_: (-1,))
def scaled_masked_softmax_backward(grad: Any, y: Any, mask: Any, scale: float, fixed_triu_mask: bool) -> Any:
    weighted = grad * y
    return where(mask, 0, (weighted - y * _sum(weighted)) * np.float32(scale))


# ------------------------------------------------------------------------------------------------- sampled attention


class _Corner:
    """One of the four grid points around each sampled place of a level, for one sample: (queries, heads, points)."""

    def __init__(self, x: Array, y: Array, dx: int, dy: int, width: int, height: int, start: int) -> None:
        left, top = np.floor(x), np.floor(y)
        column, row = left + dx, top + dy
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        # Weights fall off linearly; what lies outside of the map counts as zero.
        self.along_x = np.where(inside, x - left if dx else 1 - (x - left), 0)
        self.along_y = np.where(inside, y - top if dy else 1 - (y - top), 0)
        self.d_along_x = np.where(inside, 2 * dx - 1, 0)  # how along_x grows with x
        self.d_along_y = np.where(inside, 2 * dy - 1, 0)
        key = whole_within(row, height - 1) * width + whole_within(column, width - 1)
        self.key = start + np.where(inside, key, 0)


def _corners(location: Array, level: int, shapes: Array, starts: Array) -> Iterator[_Corner]:
    """The corners of a level's places. Places are (x, y) in units of the map's width and height."""
    height, width = (int(n) for n in shapes[level])
    x = location[:, :, level, :, 0] * np.float32(width) - np.float32(0.5)
    y = location[:, :, level, :, 1] * np.float32(height) - np.float32(0.5)
    for dy in (0, 1):
        for dx in (0, 1):
            yield _Corner(x, y, dx, dy, width, height, int(starts[level]))


def _check_maps(value: Array, shapes: Array, starts: Array) -> None:
    """The maps lie within the keys of ``value``."""
    check_range("levelStartIndex", starts, 0, None)
    check_range("levelStartIndex", starts + shapes.prod(1), 0, value.shape[1] + 1)


def _values(value: Array, keys: Array) -> Array:
    """Rows of one sample's (keys, heads, channels) for (queries, heads, points)."""
    return value[keys, np.arange(value.shape[1])[:, None]]


@reference("aclnnMultiScaleDeformableAttnFunction")
def multi_scale_deformable_attn_function(
    value: Array, shapes: Array, starts: Array, location: Array, weight: Array
) -> Any:
    """Weighted sums of bilinear samples of feature maps of several sizes."""
    _check_maps(value, shapes, starts)
    batch, _, heads, channels = value.shape
    queries, levels = location.shape[1], location.shape[3]
    output = np.zeros((batch, queries, heads, channels), np.float32)
    for sample in range(batch):
        for level in range(levels):
            for corner in _corners(location[sample], level, shapes, starts):
                share = weight[sample, :, :, level] * corner.along_x * corner.along_y
                output[sample] += np.einsum("qhp,qhpc->qhc", share, _values(value[sample], corner.key))
    return output.reshape(batch, queries, heads * channels)


@reference("aclnnMultiScaleDeformableAttentionGrad")
def multi_scale_deformable_attention_grad(
    value: Array, shapes: Array, starts: Array, location: Array, weight: Array, grad: Array
) -> Any:
    """Gradients of the values, the places and the weights."""
    _check_maps(value, shapes, starts)
    batch, keys, heads, channels = value.shape
    queries, levels = location.shape[1], location.shape[3]
    grad = grad.reshape(batch, queries, heads, channels)
    d_value = np.zeros((batch, keys * heads, channels), np.float32)
    d_location, d_weight = np.zeros(location.shape, np.float32), np.zeros(weight.shape, np.float32)
    of_head = np.arange(heads)[:, None]
    for sample in range(batch):
        for level in range(levels):
            level_weight = weight[sample, :, :, level]
            height, width = (np.float32(n) for n in shapes[level])
            for corner in _corners(location[sample], level, shapes, starts):
                both = corner.along_x * corner.along_y
                match = np.einsum("qhc,qhpc->qhp", grad[sample], _values(value[sample], corner.key))
                d_weight[sample, :, :, level] += match * both
                d_location[sample, :, :, level, :, 0] += (
                    match * level_weight * corner.along_y * corner.d_along_x * width
                )
                d_location[sample, :, :, level, :, 1] += (
                    match * level_weight * corner.along_x * corner.d_along_y * height
                )
                rows = (corner.key * heads + of_head).reshape(-1)
                shares = (level_weight * both)[..., None] * grad[sample][:, :, None]
                np.add.at(d_value[sample], rows, shares.reshape(-1, channels))
    return d_value.reshape(value.shape), d_location, d_weight
