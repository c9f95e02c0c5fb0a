"""Resampling of images, and sums of their patches.

Every resampling works on one spatial axis after the other: an element of the result is a weighted sum of a few elements
of its line. The gradient sums the other way. Positions and weights are float32, as the kernels (and torch) have them.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference import reference


class _Taps(NamedTuple):
    """For each element of the result, along one axis: which elements count (axis 1), and with which weight."""

    taken: Array
    weight: Optional[Array]  # None: one element each, as it is


_Sampling = Callable[[int, int, bool, float], _Taps]


def _step(size: int, wanted: int, align: bool, scale: float) -> Any:
    """How far apart in the source two neighbours of the result lie."""
    if align:
        return np.float32((size - 1) / (wanted - 1) if wanted > 1 else 0.0)
    return np.float32(1.0 / scale if scale > 0 else size / wanted)


def _positions(size: int, wanted: int, align: bool, scale: float) -> Array:
    """Where in the source the elements of the result lie: their centres, or (align) the ends on the ends."""
    step, at = _step(size, wanted, align, scale), np.arange(wanted, dtype=np.float32)
    positions: Array = at * step if align else (at + np.float32(0.5)) * step - np.float32(0.5)
    return positions


def _nearest(size: int, wanted: int, align: bool, scale: float, shift: float = 0.0) -> _Taps:
    at = (np.arange(wanted, dtype=np.float32) + np.float32(shift)) * _step(size, wanted, False, scale)
    return _Taps(np.minimum(np.floor(at).astype(np.int64), size - 1)[:, None], None)


def _exact(size: int, wanted: int, align: bool, scale: float) -> _Taps:
    return _nearest(size, wanted, align, scale, 0.5)


def _linear(size: int, wanted: int, align: bool, scale: float) -> _Taps:
    at = np.maximum(_positions(size, wanted, align, scale), np.float32(0))
    low = np.minimum(at.astype(np.int64), size - 1)
    part = np.clip(at - low, 0, 1).astype(np.float32)
    return _Taps(np.stack((low, np.minimum(low + 1, size - 1)), 1), np.stack((1 - part, part), 1))


def _cubic(size: int, wanted: int, align: bool, scale: float) -> _Taps:
    at = _positions(size, wanted, align, scale)
    low = np.floor(at)
    distance = np.abs((at - low)[:, None] - np.arange(-1, 3, dtype=np.float32))
    index = np.clip(low.astype(np.int64)[:, None] + np.arange(-1, 3), 0, size - 1)
    return _Taps(index, _convolution(distance, -0.75))


def _convolution(distance: Array, slope: float) -> Array:
    """Keys' cubic kernel."""
    near = ((slope + 2) * distance - (slope + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * slope - 4 * slope
    weight: Array = np.where(distance < 1, near, np.where(distance < 2, far, 0)).astype(np.float32)
    return weight


def _triangle(distance: Array) -> Array:
    weight: Array = np.clip(1 - distance, 0, None)
    return weight


def _antialiased(kernel: Callable[[Array], Array], reach: int) -> _Sampling:
    """A kernel that is as wide as an element of the result, where that is wider than one of the source."""

    def taps(size: int, wanted: int, align: bool, scale: float) -> _Taps:
        step = _step(size, wanted, align, scale)
        wide = max(float(step), 1.0)
        centre = step * (np.arange(wanted, dtype=np.float32) + np.float32(0.5))
        support = np.float32(reach * wide)
        first = np.maximum((centre - support + np.float32(0.5)).astype(np.int64), 0)
        last = np.minimum((centre + support + np.float32(0.5)).astype(np.int64), size)
        index = first[:, None] + np.arange(max(1, int((last - first).max(initial=1))))
        weight = kernel(np.abs(index + np.float32(0.5) - centre[:, None]) / np.float32(wide))
        weight = np.where(index < last[:, None], weight, 0)
        total = weight.sum(1, keepdims=True)
        return _Taps(np.minimum(index, size - 1), (weight / np.where(total == 0, 1, total)).astype(np.float32))

    return taps


_LINEAR_AA = _antialiased(_triangle, 1)
_CUBIC_AA = _antialiased(functools.partial(_convolution, slope=-0.5), 2)

# Operators: how they sample, the number of spatial axes, whether alignCorners comes before the scales, and how the
# gradient's operator is named.
_OPERATORS: tuple[tuple[str, _Sampling, int, bool, tuple[str, ...]], ...] = (
    ("Nearest1d", _nearest, 1, False, ("Nearest1dBackward",)),
    ("Nearest1dV2", _nearest, 1, False, ()),
    ("Nearest2d", _nearest, 2, False, ("Nearest2dBackward",)),
    ("Nearest2dV2", _nearest, 2, False, ()),
    ("Nearest3d", _nearest, 3, False, ("Nearest3dBackward",)),
    ("NearestExact1d", _exact, 1, False, ("NearestExact1dBackward",)),
    ("NearestExact2d", _exact, 2, False, ("NearestExact2dBackward",)),
    ("NearestExact3d", _exact, 3, False, ("NearestExact3dBackward",)),
    ("Linear1d", _linear, 1, True, ("Linear1dBackward",)),
    ("Bilinear2d", _linear, 2, True, ("Bilinear2dBackward", "Bilinear2dBackwardV2")),
    ("Trilinear3d", _linear, 3, True, ("Trilinear3dBackward",)),
    ("Bicubic2d", _cubic, 2, True, ("Bicubic2dBackward",)),
    ("Bilinear2dAA", _LINEAR_AA, 2, True, ("Bilinear2dAABackward",)),
    ("Bicubic2dAA", _CUBIC_AA, 2, True, ("Bicubic2dAAGrad",)),
)


def _options(rest: tuple[Any, ...], axes: int, aligned: bool) -> tuple[bool, tuple[float, ...]]:
    """alignCorners and a scale for each axis, 0 where an operator takes none."""
    align = bool(rest[0]) if aligned else False
    scales = tuple(rest[1:] if aligned else rest)
    return align, scales or (0.0,) * axes


def _resample(sampling: _Sampling, x: Array, sizes: tuple[int, ...], align: bool, scales: tuple[float, ...]) -> Array:
    for axis, (wanted, scale) in enumerate(zip(sizes, scales), 2):
        if x.size == 0:
            return np.zeros((*x.shape[:2], *sizes), x.dtype)
        taps = sampling(x.shape[axis], wanted, align, scale)
        if taps.weight is None:
            x = np.take(x, taps.taken[:, 0], axis)
            continue
        weight = taps.weight.astype(x.dtype).reshape(wanted, -1, *(1,) * (x.ndim - 1 - axis))
        parts = (np.take(x, taps.taken[:, k], axis) * weight[:, k] for k in range(weight.shape[1]))
        x = functools.reduce(np.add, parts)
    return x


def _spread(sampling: _Sampling, grad: Array, sizes: tuple[int, ...], align: bool, scales: tuple[float, ...]) -> Array:
    for axis, (size, scale) in enumerate(zip(sizes, scales), 2):
        if grad.size == 0:
            return np.zeros((*grad.shape[:2], *sizes), grad.dtype)
        wanted = grad.shape[axis]
        taps = sampling(size, wanted, align, scale)
        share = np.zeros((size, wanted), grad.dtype)
        weight = np.ones(taps.taken.shape, grad.dtype) if taps.weight is None else taps.weight.astype(grad.dtype)
        np.add.at(share, (taps.taken, np.arange(wanted)[:, None]), weight)
        grad = np.moveaxis(np.tensordot(share, grad, (1, axis)), 0, axis)
    return grad


def _register(name: str, sampling: _Sampling, axes: int, aligned: bool, backward: tuple[str, ...]) -> None:
    @reference(f"aclnnUpsample{name}", channels_first=True)
    def forward(x: Array, output_size: tuple[int, ...], *rest: Any) -> Array:
        return _resample(sampling, x, output_size, *_options(rest, axes, aligned))

    if backward:

        @reference(*(f"aclnnUpsample{name}" for name in backward), channels_first=True)
        def gradient(grad: Array, output_size: tuple[int, ...], input_size: tuple[int, ...], *rest: Any) -> Array:
            sizes = input_size[2:]
            return _spread(sampling, grad, sizes, *_options(rest, axes, aligned))


for _row in _OPERATORS:
    _register(*_row)


@reference("aclnnIm2colBackward")
def im2col_backward(
    grad: Array,
    input_size: tuple[int, ...],
    kernel: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: tuple[int, ...],
    stride: tuple[int, ...],
) -> Array:
    """Patches, as columns, added up where they lie in the image (torch's fold)."""
    kernel, dilation, padding, stride = (t * 2 if len(t) == 1 else t for t in (kernel, dilation, padding, stride))
    batched = grad if grad.ndim == 3 else grad[None]
    size = [n + 2 * p for n, p in zip(input_size, padding)]
    count = [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(size, kernel, dilation, stride)]
    channels = batched.shape[1] // math.prod(kernel)
    columns = batched.reshape(len(batched), channels, *kernel, *count)
    image = np.zeros((len(batched), channels, *size), grad.dtype)
    for i, j in np.ndindex(*kernel):
        rows, across = (
            slice(at * d, at * d + (n - 1) * s + 1, s) for at, d, n, s in zip((i, j), dilation, count, stride)
        )
        image[:, :, rows, across] += columns[:, :, i, j]
    inner = image[:, :, padding[0] : padding[0] + input_size[0], padding[1] : padding[1] + input_size[1]]
    return inner if grad.ndim == 3 else inner[0]
