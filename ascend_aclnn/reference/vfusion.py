"""References of ops-nn/vfusion: modulation, masked softmax, deformable attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference import reference
from ascend_aclnn.reference._arrays import total
from ascend_aclnn.reference.activation import softmax

# ------------------------------------------------------------------------------------------------- modulation


def _per_sample(x: Optional[Array]) -> Any:
    """(B, D) or (B, 1, D) beside (B, L, D)."""
    return 0 if x is None else x.reshape(x.shape[0], 1, x.shape[-1])


@reference("aclnnModulate")
def modulate(x: Array, scale: Optional[Array], shift: Optional[Array]) -> Any:
    return x * (1 + _per_sample(scale)) + _per_sample(shift)


@reference("aclnnModulateBackward")
def modulate_backward(grad: Array, x: Array, scale: Optional[Array], shift: Optional[Array]) -> Any:
    """The gradient for x is that of x * scale + shift, so the caller adds the 1 of aclnnModulate to the scale."""
    grad_x = grad if scale is None else grad * _per_sample(scale)
    grad_scale = None if scale is None else total(grad * x, (1,)).reshape(scale.shape)
    return grad_x, grad_scale, None if shift is None else total(grad, (1,)).reshape(shift.shape)


# ------------------------------------------------------------------------------------------------- masked softmax

_MASKED = -10000  # what the kernel puts where the mask is true: rows that are masked as a whole become uniform


@reference("aclnnScaledMaskedSoftmax")
def scaled_masked_softmax(x: Array, mask: Array, scale: float, fixed_triu_mask: bool) -> Any:
    return softmax(np.where(mask, np.float32(_MASKED), x * scale), -1)


@reference("aclnnScaledMaskedSoftmaxBackward")
def scaled_masked_softmax_backward(grad: Array, y: Array, mask: Array, scale: float, fix_triu_mask: bool) -> Any:
    product = grad * y
    return np.where(mask, 0, (product - total(product, (-1,), True) * y) * scale)


# ------------------------------------------------------------------------------------------------- deformable attention


class _Corner(NamedTuple):
    """One of the four pixels around the sampling points of a level, for each batch, query and head (B, Q, H)."""

    level: int
    point: int
    weight: Array  # its share of the bilinear sample, 0 where it lies outside
    slope_x: Array  # the share's derivatives
    slope_y: Array
    pixel: Array  # its row in value
    size: tuple[int, int]  # height and width of the level


def _corners(value: Array, shapes: Array, starts: Array, location: Array) -> Iterator[_Corner]:
    """All corners. Locations are (x, y) in units of the level's width and height; pixels have their centre at 0.5."""
    keys = value.shape[1]
    for level, ((height, width), start) in enumerate(zip(shapes.tolist(), starts.reshape(-1).tolist())):
        for point in range(location.shape[4]):
            place = location[:, :, :, level, point].astype(np.float64)
            x, y = place[..., 0] * width - 0.5, place[..., 1] * height - 0.5
            left, top = np.floor(x), np.floor(y)
            for column, share_x, sign_x in ((left, 1 - (x - left), -1), (left + 1, x - left, 1)):
                for row, share_y, sign_y in ((top, 1 - (y - top), -1), (top + 1, y - top, 1)):
                    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
                    pixel = np.where(inside, start + row * width + column, 0).astype(np.int64)
                    inside &= (pixel >= 0) & (pixel < keys)
                    yield _Corner(
                        level,
                        point,
                        np.where(inside, share_x * share_y, 0),
                        np.where(inside, sign_x * share_y, 0),
                        np.where(inside, share_x * sign_y, 0),
                        np.where(inside, pixel, 0),
                        (height, width),
                    )


def _beside(pixel: Array) -> tuple[Array, Array]:
    """Batches and heads to go with (B, Q, H) pixels in an index of value (B, keys, H, D)."""
    batches, _, heads = pixel.shape
    return np.arange(batches)[:, None, None], np.arange(heads)[None, None, :]


@reference("aclnnMultiScaleDeformableAttnFunction")
def multi_scale_deformable_attn_function(
    value: Array, shapes: Array, starts: Array, location: Array, weights: Array
) -> Any:
    """For each query and head, the weighted sum of bilinear samples; pixels outside of a level count as zeros."""
    batches, queries, heads = location.shape[:3]
    result = np.zeros((batches, queries, heads, value.shape[3]))
    for corner in _corners(value, shapes, starts, location):
        batch, head = _beside(corner.pixel)
        share = corner.weight * weights[:, :, :, corner.level, corner.point]
        result += share[..., None] * value[batch, corner.pixel, head]
    return result.reshape(batches, queries, -1)


@reference("aclnnMultiScaleDeformableAttentionGrad")
def multi_scale_deformable_attention_grad(
    value: Array, shapes: Array, starts: Array, location: Array, weights: Array, grad: Array
) -> Any:
    """The gradients for value, location and weights."""
    batches, queries, heads = location.shape[:3]
    grad = grad.reshape(batches, queries, heads, -1).astype(np.float64)
    made = tuple(np.zeros(x.shape) for x in (value, location, weights))
    for corner in _corners(value, shapes, starts, location):
        batch, head = _beside(corner.pixel)
        weight = weights[:, :, :, corner.level, corner.point]
        np.add.at(made[0], (batch, corner.pixel, head), (corner.weight * weight)[..., None] * grad)
        along = (grad * value[batch, corner.pixel, head]).sum(-1)
        height, width = corner.size
        made[1][:, :, :, corner.level, corner.point, 0] += corner.slope_x * along * weight * width
        made[1][:, :, :, corner.level, corner.point, 1] += corner.slope_y * along * weight * height
        made[2][:, :, :, corner.level, corner.point] += corner.weight * along
    return made
