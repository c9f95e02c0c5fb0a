"""Single operators on images: crops, normalisation, deformed sampling, pooling by maxima and its gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference import pooling
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.conv import deformable
from ascend_aclnn.reference.declare import reference

Ints = Sequence[int]


@reference("ImgToTensor")
def img_to_tensor(x: Array) -> Array:
    """Bytes from 0 to 1, as torchvision's ToTensor."""
    return x.astype(np.float32) / np.float32(255)


@reference("NormalizeV2")
def normalize_v2(x: Array, mean: Array, variance: Array) -> Array:
    """As torchvision's Normalize, where the parameter named variance here is the standard deviation."""
    each = (1, -1, 1, 1)
    return np.asarray((x.astype(np.float32) - mean.reshape(each)) / variance.reshape(each))


def _line(first: Array, last: Array, count: int, size: int) -> Array:
    """Where each box, from first to last of 0 to 1, is read along an axis: (boxes, count)."""
    whole = np.float32(size - 1)
    if count == 1:
        return np.asarray((np.float32(0.5) * (first + last) * whole)[:, None])
    step = (last - first) * whole / np.float32(count - 1)
    return np.asarray((first * whole)[:, None] + np.arange(count, dtype=np.float32) * step[:, None])


@reference("CropAndResizeV2")
def crop_and_resize(x: Array, boxes: Array, images: Array, size: Ints, outside: float, nearest: int) -> Array:
    """Boxes (top, left, bottom, right) of images, as parts of their height and width less one, read at size places."""
    check_range("box_index", images, 0, len(x))
    height, width = x.shape[2:]
    y = _line(boxes[:, 0], boxes[:, 2], size[0], height)
    column = _line(boxes[:, 1], boxes[:, 3], size[1], width)
    within = ((y >= 0) & (y <= height - 1))[:, :, None] & ((column >= 0) & (column <= width - 1))[:, None]
    y, column = np.clip(np.nan_to_num(y), 0, height - 1), np.clip(np.nan_to_num(column), 0, width - 1)
    source = x.transpose(0, 2, 3, 1).astype(np.float32)
    image = images.reshape(-1, 1, 1)

    def read(rows: Array, columns: Array) -> Array:
        return np.asarray(source[image, rows.astype(np.int64)[:, :, None], columns.astype(np.int64)[:, None]])

    if nearest:  # halves away from zero
        pixels = read(np.floor(y + np.float32(0.5)), np.floor(column + np.float32(0.5)))
    else:
        down, across = (y - np.floor(y))[:, :, None, None], (column - np.floor(column))[:, None, :, None]
        top, bottom = (
            read(rows, np.floor(column)) * (1 - across) + read(rows, np.ceil(column)) * across
            for rows in (np.floor(y), np.ceil(y))
        )
        pixels = top * (1 - down) + bottom * down
    return np.where(within[..., None], pixels, np.float32(outside)).transpose(0, 3, 1, 2)


@reference("DeformableOffsets")
def deformable_offsets(
    x: Array, offsets: Array, kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, groups: int
) -> Array:
    """The image of all taps of aclnnDeformableConv2d."""
    return deformable.deformable_offsets(x, offsets, kernel, (1, 1, *strides), pads, (1, 1, *dilations), groups)


@reference("DeformableOffsetsGrad")
def deformable_offsets_grad(
    dy: Array, x: Array, offsets: Array, kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, groups: int
) -> tuple[Array, Array]:
    settings = (kernel, (1, 1, *strides), pads, (1, 1, *dilations), groups)
    return deformable.deformable_offsets_backward(dy, x, offsets, *settings)


@reference("MaxPool3D")
def max_pool_3d(x: Array, sizes: Ints, strides: Ints, pads: Ints, dilation: Ints, out_shape: Ints) -> Array:
    return pooling.maxima(x, out_shape[-3:], sizes[2:], strides[2:], pads[::2], dilation)


@reference("MaxPool3DGrad")
def max_pool_3d_grad(x: Array, dy: Array, sizes: Ints, strides: Ints, pads: Ints) -> Array:
    """Each gradient goes to the place of its window's maximum, the first one, which is looked for in x again."""
    return pooling.gradient_at_maxima(x, dy, sizes[2:], strides[2:], pads[::2])
