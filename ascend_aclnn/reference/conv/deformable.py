"""Deformable convolutions (part of ops-nn/conv): each tap of each window is read at its own place.

offset holds, for each of the deformable groups of channels and each tap of the kernel, how far the place lies to the right,
how far below, and a factor: (N, 3 * groups * kh * kw, oh, ow). Between pixels values are interpolated bilinearly; outside
of the image they are 0. deformOut has a tile of kh * kw pixels for each window.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._rows import whole_within
from ascend_aclnn.reference.conv.core import Window, convolve, spread, weight_gradient
from ascend_aclnn.reference.declare import reference

Ints = Sequence[int]


class _TapPlaces(NamedTuple):
    """Where the taps are read, (N, groups, kh, kw, oh, ow), and by what they are multiplied."""

    x: Array
    y: Array
    factor: Array

    def corners(self, height: int, width: int) -> Iterator[tuple[Array, Array, Array, Array, Array]]:
        """The four pixels around each place: index, inside the image or not, share, and its derivatives for x and y."""
        left, top = np.floor(self.x), np.floor(self.y)
        right_share, lower_share = self.x - left, self.y - top
        for lower, right in itertools.product((0, 1), repeat=2):
            column, row = left + right, top + lower
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            pixel = whole_within(row, height - 1) * width + whole_within(column, width - 1)
            index = np.where(inside, pixel, 0)
            across = right_share if right else 1 - right_share
            along = lower_share if lower else 1 - lower_share
            yield index, inside, across * along, (2 * right - 1) * along, (2 * lower - 1) * across


def _places(
    offset: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, deformable_groups: int
) -> _TapPlaces:
    n, _, rows, columns = offset.shape
    parts = offset.reshape(n, 3, deformable_groups, *kernel, rows, columns)
    y = np.arange(rows) * stride[2] - padding[0] + np.arange(kernel[0])[:, None] * dilation[2]
    x = np.arange(columns) * stride[3] - padding[2] + np.arange(kernel[1])[:, None] * dilation[3]
    return _TapPlaces(parts[:, 0] + x[:, None, :].astype(np.float32), parts[:, 1] + _rows(y), parts[:, 2])


def _rows(y: Array) -> Array:
    """(kh, oh) to where it belongs in (kh, kw, oh, ow)."""
    return y[:, None, :, None].astype(np.float32)


def _pixels(x: Array, index: Array) -> Array:
    """Pixels of the channels of each deformable group: (N, groups, channels, kh, kw, oh, ow)."""
    n, groups = index.shape[:2]
    flat = x.reshape(n, groups, x.shape[1] // groups, -1)
    pixels = np.take_along_axis(flat, index.reshape(n, groups, 1, -1), axis=-1)
    return np.asarray(pixels.reshape(*flat.shape[:3], *index.shape[2:]))


def _tiles(taps: Array) -> Array:
    """(N, groups, channels, kh, kw, oh, ow) to (N, C, oh * kh, ow * kw)."""
    n, groups, channels, kh, kw, rows, columns = taps.shape
    return np.asarray(taps.transpose(0, 1, 2, 5, 3, 6, 4).reshape(n, groups * channels, rows * kh, columns * kw))


def _taps(tiles: Array, groups: int, kernel: Ints) -> Array:
    """The inverse of ``_tiles``."""
    n, channels, rows, columns = tiles.shape
    shape = (n, groups, channels // groups, rows // kernel[0], kernel[0], columns // kernel[1], kernel[1])
    return np.asarray(tiles.reshape(shape).transpose(0, 1, 2, 4, 6, 3, 5))


def _sampled(x: Array, places: _TapPlaces) -> Array:
    total: Array = np.zeros((), np.float32)
    for index, inside, share, _, _ in places.corners(*x.shape[2:]):
        total = total + _pixels(x, index) * (np.where(inside, share, 0) * places.factor)[:, :, None]
    return _tiles(total)


def _tiled_window(kernel: Ints, groups: int) -> Window:
    """The convolution over the tiles: each is a window."""
    return Window.of(2, tuple(kernel), (0, 0), (1, 1), groups)


@reference("aclnnDeformableConv2d")
def deformable_conv2d(
    x: Array,
    weight: Array,
    offset: Array,
    bias: Optional[Array],
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    deformable_groups: int,
    modulated: bool,
) -> tuple[Array, Array]:
    """The convolution, and the image of all taps."""
    deformed = _sampled(x, _places(offset, kernel, stride, padding, dilation, deformable_groups))
    y = convolve(deformed, weight, _tiled_window(kernel, groups))
    return (y if bias is None else y + bias[:, None, None]), deformed


@reference("aclnnDeformableConv2dBackward")
def deformable_conv2d_backward(
    x: Array,
    dy: Array,
    deformed: Array,
    weight: Array,
    offset: Array,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    deformable_groups: int,
    modulated: bool,
) -> tuple[Array, Array, Array, Array]:
    """The gradients for input, weight, offset and bias."""
    window = _tiled_window(kernel, groups)
    ddeformed = spread(dy, weight, window, deformed.shape[2:])
    places = _places(offset, kernel, stride, padding, dilation, deformable_groups)
    dx, doffset = _sampled_backward(ddeformed, x, places, kernel)
    return dx, weight_gradient(deformed, dy, kernel, window), doffset, dy.sum(axis=(0, 2, 3))


def _sampled_backward(ddeformed: Array, x: Array, places: _TapPlaces, kernel: Ints) -> tuple[Array, Array]:
    """The gradients for the image and the offsets that ``_sampled`` had."""
    deformable_groups = places.x.shape[1]
    taps = _taps(ddeformed, deformable_groups, kernel)
    n, height, width = x.shape[0], *x.shape[2:]
    dx = np.zeros((*taps.shape[:3], height * width), np.float32)
    gradients = [np.zeros(places.x.shape, np.float32) for _ in range(3)]  # x, y, factor
    image, group, channel = np.ogrid[: taps.shape[0], : taps.shape[1], : taps.shape[2]]
    for index, inside, share, by_x, by_y in places.corners(height, width):
        shares = np.where(inside, share * places.factor, 0)[:, :, None] * taps
        flat = index.reshape(n, deformable_groups, 1, -1)
        np.add.at(dx, (image[..., None], group[..., None], channel[..., None], flat), shares.reshape(*dx.shape[:3], -1))
        met = np.where(inside, (_pixels(x, index) * taps).sum(2), 0)
        for total, derivative in zip(gradients, (by_x * places.factor, by_y * places.factor, share)):
            total += met * derivative
    offsets = np.stack(gradients, 1)
    rows, columns = offsets.shape[-2:]
    return dx.reshape(x.shape), offsets.reshape(n, -1, rows, columns)


# -------------------------------------------------------------------------------------- the sampling by itself


def deformable_offsets(
    x: Array, offset: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    """The image of all taps; stride and dilation are those of aclnnDeformableConv2d, for four axes."""
    return _sampled(x, _places(offset, kernel, stride, padding, dilation, groups))


def deformable_offsets_backward(
    dy: Array, x: Array, offset: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> tuple[Array, Array]:
    """Its gradients for the image and the offsets."""
    return _sampled_backward(dy, x, _places(offset, kernel, stride, padding, dilation, groups), kernel)
