"""Images (ops-cv/image): resampled to other sizes, sampled at the points of a grid, and put together from windows.

Resampling is separable: along each spatial axis an output position is a weighted sum of few input positions, its taps.
Positions are computed in float32, as the kernels do (float64 for DOUBLE); the order of the sums is not the device's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import Array, along, codes, for_blocks, round_into, rows_per_block, widen, widened
from ascend_aclnn.reference._rows import check_range, whole_within
from ascend_aclnn.reference.declare import DataError, reference

Ints = Sequence[int]

_CUBIC = -0.75  # the constant of the cubic kernel; with antialiasing -0.5
_CUBIC_ANTIALIASED = -0.5


class Taps(NamedTuple):
    """Which input positions each position of an output axis is made of, and with what weights (None: copied)."""

    source: Array  # (output positions, taps)
    weight: Optional[Array]

    def apply(self, x: Array, axis: int) -> Array:
        """The resampled axis of x."""
        if self.weight is None:
            return np.take(x, self.source[:, 0], axis)
        if isinstance(x, np.ndarray):  # no stand-in
            taps = np.ascontiguousarray(self.source.T, np.int64), np.ascontiguousarray(self.weight.T)
            resampled = native.resample(x, axis, *taps)
            if resampled is not None:
                return resampled
        column = (-1, *(1,) * (x.ndim - axis - 1))
        total = np.take(x, self.source[:, 0], axis) * self.weight[:, 0].reshape(column)
        for tap in range(1, self.source.shape[1]):
            total += np.take(x, self.source[:, tap], axis) * self.weight[:, tap].reshape(column)
        return total

    def spread(self, dy: Array, axis: int, size: int) -> Array:
        """The gradient of ``apply`` for an axis of so many positions."""
        target, tap = np.nonzero(np.ones_like(self.source) if self.weight is None else self.weight)
        source = self.source[target, tap]
        order = np.argsort(source, kind="stable")
        gradient = np.zeros((*dy.shape[:axis], size, *dy.shape[axis + 1 :]), dy.dtype)
        if not order.size or not dy.size:
            return gradient
        terms = np.take(dy, target[order], axis)
        if self.weight is not None:
            terms *= self.weight[target, tap][order].reshape(-1, *(1,) * (dy.ndim - axis - 1))
        reached, starts = np.unique(source[order], return_index=True)
        sums = np.add.reduceat(terms, starts, axis, np.float64)
        gradient[(slice(None),) * axis + (reached,)] = sums
        return gradient


def step_of(size: int, out_size: int, scale: float, align_corners: bool = False) -> float:
    """How far the next output position is on the input: an unchanged size is copied, whatever the scale says."""
    if size == out_size:
        return 1.0
    if align_corners:
        return (size - 1) / (out_size - 1) if out_size > 1 else 0.0
    return 1 / scale if scale > 0 else size / out_size


def positions(size: int, out_size: int, scale: float, align_corners: bool, dtype: Any) -> Array:
    """The input coordinate of each output position."""
    target = np.arange(out_size, dtype=dtype)
    step = dtype.type(step_of(size, out_size, scale, align_corners))
    half = dtype.type(0.5)
    return np.asarray(target * step if align_corners else (target + half) * step - half)


def nearest(size: int, out_size: int, step: float, exact: bool) -> Taps:
    """The position whose cell (``exact``: whose centre) is the nearest."""
    target = np.arange(out_size, dtype=np.float32)
    if exact:
        target += np.float32(0.5)
    return Taps(whole_within(target * np.float32(step), size - 1)[:, None], None)


def nearest_backward(size: int, out_size: int, scale: float, exact: bool) -> Taps:
    """``nearest`` as its gradient sees it: each input position has the outputs from one bound to the next."""
    growth = (
        np.float32(1)
        if size == out_size
        else np.float32(scale)
        if scale > 0
        else np.float32(out_size) / np.float32(size)
    )
    bounds = np.arange(size + 1, dtype=np.float32) * growth - np.float32(0.5 if exact else 0)
    ends = np.minimum(np.ceil(bounds), out_size)
    source = np.searchsorted(ends[1:], np.arange(out_size), side="right")
    weight = (source < size).astype(np.float32)  # outputs after the last bound have no source
    return Taps(np.minimum(source, size - 1)[:, None], weight[:, None])


def linear(size: int, out_size: int, scale: float, align_corners: bool, dtype: Any) -> Taps:
    where = np.maximum(positions(size, out_size, scale, align_corners, dtype), 0)
    first = whole_within(where, size - 1)
    share = np.clip(where - first.astype(dtype), 0, 1)
    return Taps(np.stack((first, np.minimum(first + 1, size - 1)), 1), np.stack((1 - share, share), 1))


def cubic(size: int, out_size: int, scale: float, align_corners: bool, dtype: Any) -> Taps:
    where = positions(size, out_size, scale, align_corners, dtype)
    first = np.floor(where)
    start = np.clip(np.nan_to_num(first), -2, size).astype(np.int64)  # further outside the taps are the same
    source = np.clip(start[:, None] + np.arange(-1, 3), 0, size - 1)
    return Taps(source, np.stack(cubic_weights(where - first), 1))


def cubic_kernel(distance: Array, a: float) -> Array:
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0)).astype(d.dtype)


def cubic_weights(t: Array) -> list[Array]:
    """Weights of the positions -1, 0, 1, 2 beside a point at t between 0 and 1."""
    return [cubic_kernel(t - tap, _CUBIC) for tap in range(-1, 3)]


def cubic_derivatives(t: Array) -> list[Array]:
    """Derivatives of ``cubic_weights`` for t."""
    derivatives = []
    for tap in range(-1, 3):
        d = np.abs(t - tap)
        near = (3 * (_CUBIC + 2) * d - 2 * (_CUBIC + 3)) * d
        far = ((3 * d - 10) * d + 8) * _CUBIC
        derivatives.append(np.where(d <= 1, near, far) * (1 if tap < 1 else -1))
    return derivatives


def antialiased(
    size: int, out_size: int, scale: float, align_corners: bool, reach: float, kernel: Callable[[Array], Array]
) -> Taps:
    """A kernel that reaches so many steps to both sides, widened where the image shrinks, weights adding up to 1."""
    step = np.float32(step_of(size, out_size, scale, align_corners))
    wide = max(step, np.float32(1))
    support = np.float32(reach) * wide
    centre = step * (np.arange(out_size, dtype=np.float32) + np.float32(0.5))
    first = whole_within(centre - support + np.float32(0.5), size)
    end = whole_within(centre + support + np.float32(0.5), size)
    source = first[:, None] + np.arange(max(1, int((end - first).max())))
    distance = (source.astype(np.float32) - centre[:, None] + np.float32(0.5)) / wide
    weight = np.where(source < end[:, None], kernel(distance), 0)
    total = weight.sum(axis=1, keepdims=True)
    weight = weight / np.where(total == 0, 1, total)
    return Taps(np.minimum(source, size - 1), weight.astype(np.float32))


def antialiased_linear(size: int, out_size: int, scale: float, align_corners: bool, dtype: Any) -> Taps:
    return antialiased(size, out_size, scale, align_corners, 1, lambda d: np.maximum(1 - np.abs(d), 0))


def antialiased_cubic(size: int, out_size: int, scale: float, align_corners: bool, dtype: Any) -> Taps:
    return antialiased(size, out_size, scale, align_corners, 2, lambda d: cubic_kernel(d, _CUBIC_ANTIALIASED))


# ------------------------------------------------------------------------------------------------------- resampling


def resampled(x: Array, axes: Sequence[Optional[Taps]]) -> Array:
    """x (N, C, *sizes) with each spatial axis resampled, the last one first; None leaves an axis as it is."""
    for axis, taps in reversed(list(enumerate(axes, 2))):
        if taps is not None:
            x = taps.apply(x, axis)
    return x


def _resample(x: Array, axes: Sequence[Taps], out: Array) -> None:
    """``resampled`` into an output, in blocks of planes."""

    def planes(part: Array) -> Array:
        return resampled(part, axes)

    if not along(planes, lambda x: range(2, x.ndim), [x], [out]):
        round_into(out, planes(widen(x)))


def _pick(x: Array, axes: Sequence[Taps], out: Array) -> None:
    """``resampled`` where positions are copied: nothing is computed, and every data type stays as it is."""
    x, target = codes(x), codes(out)
    sizes = out.shape[2:]
    if not target.flags.c_contiguous or not target.size:
        np.copyto(target, resampled(x, axes))
        return
    x, target = x.reshape(1, -1, *x.shape[2:]), target.reshape(1, -1, *sizes)

    def planes(lo: int, hi: int) -> None:
        others = resampled(x[:, lo:hi], [None, *axes[1:]])
        np.take(others, axes[0].source[:, 0], 2, target[:, lo:hi], "clip")

    for_blocks(target.shape[1], rows_per_block(math.prod(sizes)), planes)


def spread(dy: Array, axes: Sequence[Taps], sizes: Ints) -> Array:
    """The gradient of ``resampled`` for an image of so many pixels."""
    for axis, size in enumerate(sizes):
        dy = axes[axis].spread(dy, axis + 2, size)
    return dy


def _nearest_rows(exact: bool, *names: str) -> None:
    """Operators (self, outputSize, scales...)."""

    @reference(*names, raw=True, channels_first=True)
    def forward(x: Array, output_size: Ints, *scales: float, out: tuple[Array]) -> None:
        sizes, out_sizes = x.shape[2:], out[0].shape[2:]
        steps = [step_of(n, m, s) for n, m, s in zip(sizes, out_sizes, scales or (0.0,) * len(sizes))]
        axes = [nearest(n, m, step, exact) for n, m, step in zip(sizes, out_sizes, steps)]
        _pick(x, axes, out[0])


_nearest_rows(
    False, "aclnnUpsampleNearest1d", "aclnnUpsampleNearest1dV2", "aclnnUpsampleNearest2d", "aclnnUpsampleNearest3d"
)
_nearest_rows(True, "aclnnUpsampleNearestExact1d", "aclnnUpsampleNearestExact2d", "aclnnUpsampleNearestExact3d")


@reference("aclnnUpsampleNearest2dV2", raw=True, channels_first=True)
def upsample_nearest_2d_v2(x: Array, output_size: Ints, *scales: float, out: tuple[Array]) -> None:
    """As aclnnUpsampleNearest2d with scales; doubling a small image ignores them, as on the host CPU."""
    sizes, out_sizes = x.shape[2:], out[0].shape[2:]
    used = [0.0 if m == 2 * n and sum(out_sizes) <= 128 else s for n, m, s in zip(sizes, out_sizes, scales)]
    if not all(scale > 0 for scale in scales):
        used = [0.0, 0.0]
    axes = [nearest(n, m, step_of(n, m, s), False) for n, m, s in zip(sizes, out_sizes, used)]
    _pick(x, axes, out[0])


def _nearest_backward_rows(exact: bool, *names: str) -> None:
    """Operators (gradOut, outputSize, inputSize, scales...)."""

    @reference(*names, raw=True, channels_first=True)
    def backward(dy: Array, output_size: Ints, input_size: Ints, *scales: float, out: tuple[Array]) -> None:
        sizes, out_sizes = out[0].shape[2:], dy.shape[2:]
        axes = [nearest_backward(n, m, s, exact) for n, m, s in zip(sizes, out_sizes, scales)]
        round_into(out[0], spread(widen(dy), axes, sizes))


_nearest_backward_rows(
    False, "aclnnUpsampleNearest1dBackward", "aclnnUpsampleNearest2dBackward", "aclnnUpsampleNearest3dBackward"
)
_nearest_backward_rows(
    True,
    "aclnnUpsampleNearestExact1dBackward",
    "aclnnUpsampleNearestExact2dBackward",
    "aclnnUpsampleNearestExact3dBackward",
)

# A kernel that takes (size, made, scale, align corners, data type), its operators and their gradients.
_KERNELS: list[tuple[Callable[..., Taps], str, str]] = [
    (
        linear,
        "UpsampleLinear1d UpsampleBilinear2d UpsampleTrilinear3d",
        "UpsampleLinear1dBackward UpsampleBilinear2dBackward UpsampleBilinear2dBackwardV2 UpsampleTrilinear3dBackward",
    ),
    (cubic, "UpsampleBicubic2d", "UpsampleBicubic2dBackward"),
    (antialiased_linear, "UpsampleBilinear2dAA", "UpsampleBilinear2dAABackward"),
    (antialiased_cubic, "UpsampleBicubic2dAA", "UpsampleBicubic2dAAGrad"),
]


def _kernel_rows(kernel: Callable[..., Taps], forwards: str, backwards: str) -> None:
    """Operators (self, outputSize, alignCorners, scales...) and (gradOut, outputSize, inputSize, the same)."""

    def axes_of(sizes: Ints, out_sizes: Ints, align_corners: bool, scales: Sequence[float], dtype: Any) -> list[Taps]:
        return [kernel(n, m, s, align_corners, dtype) for n, m, s in zip(sizes, out_sizes, scales)]

    @reference(*(f"aclnn{name}" for name in forwards.split()), raw=True, channels_first=True)
    def forward(x: Array, output_size: Ints, align_corners: bool, *scales: float, out: tuple[Array]) -> None:
        out_sizes = out[0].shape[2:]
        if x.size and out[0].size:
            _resample(x, axes_of(x.shape[2:], out_sizes, align_corners, scales, widened(x.dtype)), out[0])

    @reference(*(f"aclnn{name}" for name in backwards.split()), raw=True, channels_first=True)
    def backward(
        dy: Array, output_size: Ints, input_size: Ints, align_corners: bool, *scales: float, out: tuple[Array]
    ) -> None:
        dy = widen(dy)
        sizes = out[0].shape[2:]
        if dy.size and out[0].size:
            axes = axes_of(sizes, dy.shape[2:], align_corners, scales, dy.dtype)
            round_into(out[0], spread(dy, axes, sizes))


for _row in _KERNELS:
    _kernel_rows(*_row)


@reference("aclnnResize", raw=True, channels_first=True)
def resize(x: Array, scales: Sequence[float], mode: str, *, out: tuple[Array]) -> None:
    """To the size of out, which is that of the image times the scales; edges are aligned."""
    pairs = list(zip(x.shape[2:], out[0].shape[2:]))
    if mode.startswith("nearest"):
        round_into(out[0], resampled(x, [nearest(n, m, step_of(n, m, 0), False) for n, m in pairs]))
    else:
        x = widen(x)
        round_into(out[0], resampled(x, [linear(n, m, 0, False, x.dtype) for n, m in pairs]))


# ------------------------------------------------------------------------------------------------------- grid sampling

_LINEAR, _NEAREST, _BICUBIC = range(3)  # interpolationMode
_ZEROS, _BORDER, _REFLECTION = range(3)  # paddingMode


class _Tap(NamedTuple):
    """For each point one position on an axis, whether it is on the image, its weight and the weight's derivative."""

    place: Array
    inside: Array
    weight: Array
    derivative: Array


def _clipped(where: Array, size: int) -> tuple[Array, Array]:
    """Coordinates moved onto the image, and the derivative."""
    moved = np.minimum(np.fmax(where, 0), size - 1)  # fmax: NaN becomes 0
    return moved, ((where > 0) & (where < size - 1)).astype(where.dtype)


def _reflected(where: Array, size: int, align_corners: bool) -> tuple[Array, Array]:
    """Coordinates mirrored at the borders (the outer pixels' centres or edges), and the derivative."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return np.zeros_like(where), np.zeros_like(where)
    distance = np.abs(where - low)
    extra = np.fmod(distance, span)
    even = np.floor(distance / span) % 2 == 0
    mirrored = np.where(even, extra, span - extra) + low
    turned = np.where(even, 1, -1) * np.where(where < low, -1, 1)
    moved, derivative = _clipped(mirrored.astype(where.dtype), size)
    return moved, derivative * turned.astype(where.dtype)


def _padded(where: Array, size: int, padding: int, align_corners: bool) -> tuple[Array, Array]:
    if padding == _BORDER:
        return _clipped(where, size)
    if padding == _REFLECTION:
        return _reflected(where, size, align_corners)
    return where, np.ones_like(where)


def _axis_taps(grid: Array, size: int, mode: int, padding: int, align_corners: bool) -> list[_Tap]:
    """The positions on one axis that the points' coordinates (-1 to 1) stand for."""
    half = grid.dtype.type(0.5)
    where = (grid + 1) * half * (size - 1) if align_corners else ((grid + 1) * size - 1) * half
    derivative = np.full_like(where, (size - 1 if align_corners else size) / 2)
    if mode != _BICUBIC:
        where, factor = _padded(where, size, padding, align_corners)
        derivative = derivative * factor
    where = np.where(np.abs(where) < 2**31, where, -100)  # NaN and numbers beyond integers lie off the image

    def tap(at: Array, weight: Array, weight_derivative: Array) -> _Tap:
        if mode == _BICUBIC:
            at, _ = _padded(at, size, padding, align_corners)
        inside = (at >= 0) & (at <= size - 1)
        return _Tap(np.clip(at, 0, size - 1).astype(np.int64), inside, weight, weight_derivative * derivative)

    if mode == _NEAREST:
        return [tap(np.rint(where), np.ones_like(where), np.zeros_like(where))]
    first = np.floor(where)
    share = where - first
    if mode == _LINEAR:
        one = np.ones_like(share)
        return [tap(first, 1 - share, -one), tap(first + 1, share, one)]
    weights, derivatives = cubic_weights(share), cubic_derivatives(share)
    return [tap(first + n, weights[n + 1], derivatives[n + 1]) for n in range(-1, 3)]


class _Points(NamedTuple):
    """Points of a grid on an image (N, C, *sizes): taps of each spatial axis, each (N, points)."""

    axes: list[list[_Tap]]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, grid: Array, sizes: tuple[int, ...], mode: int, padding: int, align_corners: bool) -> _Points:
        # The grid's coordinates are (x, y, z): that of the last axis comes first.
        flat = grid.reshape(grid.shape[0], -1, len(sizes))
        axes = (
            _axis_taps(flat[..., len(sizes) - 1 - axis], size, mode, padding, align_corners)
            for axis, size in enumerate(sizes)
        )
        return cls(list(axes), sizes)

    def pixels(self) -> Iterator[tuple[Array, Array, tuple[_Tap, ...]]]:
        """Each pixel that points take part of: its index, whether it is on the image, and its taps on the axes."""
        for taps in itertools.product(*self.axes):
            index = np.ravel_multi_index([tap.place for tap in taps], self.sizes)
            yield np.asarray(index), np.logical_and.reduce([tap.inside for tap in taps]), taps


def _values(image: Array, index: Array) -> Array:
    """(N, C, pixels) at (N, points): (N, C, points)."""
    return np.take_along_axis(image, index[:, None, :], axis=2)


def _weight(taps: Sequence[_Tap], inside: Array, change: Optional[int] = None) -> Array:
    """The product of the taps' weights (one of them, if named, replaced by its derivative), 0 off the image."""
    total = np.ones_like(taps[0].weight)
    for axis, tap in enumerate(taps):
        total = total * (tap.derivative if axis == change else tap.weight)
    return np.where(inside, total, 0)


def _sampled(x: Array, grid: Array, mode: int, padding: int, align_corners: bool) -> Array:
    image = x.reshape(*x.shape[:2], -1)
    points = _Points.of(grid, x.shape[2:], mode, padding, align_corners)
    total = np.zeros((*x.shape[:2], int(np.prod(grid.shape[1:-1]))), x.dtype)
    for index, inside, taps in points.pixels():
        weight = _weight(taps, inside)[:, None]
        total += np.where(weight == 0, 0, _values(image, index) * weight)  # what is not used may be infinite
    return total.reshape(*x.shape[:2], *grid.shape[1:-1])


def _sampled_backward(
    dy: Array, x: Array, grid: Array, mode: int, padding: int, align_corners: bool, mask: Optional[Sequence[bool]]
) -> tuple[Any, Any]:
    if mask is None:
        return None, None
    n, c = x.shape[:2]
    image, dy = x.reshape(n, c, -1), dy.reshape(n, c, -1)
    points = _Points.of(grid, x.shape[2:], mode, padding, align_corners)
    dx = np.zeros(image.size) if mask[0] else None
    dgrid = np.zeros((n, dy.shape[2], len(x.shape) - 2)) if mask[1] else None
    rows = (np.arange(n * c) * image.shape[2]).reshape(n, c, 1)
    for index, inside, taps in points.pixels():
        if dx is not None:
            part = dy * _weight(taps, inside)[:, None]
            dx += np.bincount((rows + index[:, None]).ravel(), part.ravel(), dx.size)
        if dgrid is not None and mode != _NEAREST:
            along = np.sum(dy * _values(image, index), axis=1, dtype=np.float64)
            for axis in range(len(taps)):
                dgrid[..., len(taps) - 1 - axis] += np.where(inside, along * _weight(taps, inside, axis), 0)
    return (
        None if dx is None else dx.reshape(x.shape).astype(x.dtype),
        None if dgrid is None else dgrid.reshape(grid.shape).astype(x.dtype),
    )


# Two spatial axes are the last ones whatever the format says; three are laid out as the format says.
reference("aclnnGridSampler2D")(_sampled)
reference("aclnnGridSampler3D", channels_first=True)(_sampled)
reference("aclnnGridSampler2DBackward")(_sampled_backward)
reference("aclnnGridSampler3DBackward", channels_first=True)(_sampled_backward)

# ------------------------------------------------------------------------------------------------------- others


@reference("aclnnIm2colBackward")
def im2col_backward(dy: Array, input_size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Array:
    """Columns of windows, (N, C * kernel, positions), added up into the image that they were cut from."""
    height, width = input_size
    batched = dy.reshape(-1, *dy.shape[-2:])
    channels = batched.shape[1] // (kernel[0] * kernel[1])
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(input_size, padding, dilation, kernel, stride)
    ]
    columns = batched.reshape(batched.shape[0], channels, *kernel, *counts)
    whole = np.zeros((batched.shape[0], channels, height + 2 * padding[0], width + 2 * padding[1]), dy.dtype)
    for row, column in itertools.product(range(kernel[0]), range(kernel[1])):
        at = [tap * d for tap, d in zip((row, column), dilation)]
        ends = [first + (n - 1) * s + 1 for first, n, s in zip(at, counts, stride)]
        whole[:, :, at[0] : ends[0] : stride[0], at[1] : ends[1] : stride[1]] += columns[:, :, row, column]
    inner = whole[:, :, padding[0] : padding[0] + height, padding[1] : padding[1] + width]
    return inner.reshape(*dy.shape[:-2], channels, height, width)


@reference("aclnnThreeInterpolateBackward", raw=True)
def three_interpolate_backward(dy: Array, index: Array, weight: Array, m: int, *, out: tuple[Array]) -> None:
    """Each value's gradient goes to its three features by their weights: (B, C, N) to (B, C, m), both perhaps with a 1."""
    check_range("idx", index, 0, m)
    b, c = dy.shape[:2]
    image = widen(dy).reshape(b, c, -1)
    terms = image[..., None] * widen(weight).reshape(b, 1, -1, 3)
    rows = (np.arange(b * c) * m).reshape(b, c, 1, 1)
    places = rows + index.reshape(b, 1, -1, 3).astype(np.int64)
    total = np.bincount(places.ravel(), terms.ravel(), b * c * m)
    round_into(out[0], total.reshape(out[0].shape).astype(np.float32))


# --------------------------------------------------------------------------------------------------- triangles


def _shares(corners: Array, x: Array, y: Array) -> Array:
    """The barycentric coordinates of points for the triangle of three corners (x, y)."""
    (x0, y0), (x1, y1), (x2, y2) = corners
    area = (x2 - x0) * (y1 - y0) - (x1 - x0) * (y2 - y0)
    beta = ((y - y0) * (x2 - x0) - (x - x0) * (y2 - y0)) / area
    gamma = ((x - x0) * (y1 - y0) - (y - y0) * (x1 - x0)) / area
    return np.stack([1 - beta - gamma, beta, gamma])


@reference("aclnnRasterizer")
def rasterizer(
    v: Array, f: Array, depth_map: Optional[Array], width: int, height: int, truncation: float, use_depth: int
) -> tuple[Array, Array]:
    """For each pixel the number (from 1) of the nearest triangle over its centre, and its shares of the corners.

    Depths are compared as whole multiples of 2**-18; of equal ones the first triangle is taken. Pixels without a triangle
    have 0.
    """
    check_range("f", f, 0, len(v))
    half, most = np.float32(0.5), np.array([width - 1, height - 1], np.float32)
    w = v[:, 3:]
    with np.errstate(all="ignore"):
        screen = (v[:, :2] / w * half + half) * most + half
        z = v[:, 2] / w[:, 0] * np.float32(0.49999) + half
    if not np.isfinite(screen).all() or not np.isfinite(z).all():
        raise DataError("v", "has a vertex that lies nowhere on the screen (its w is 0, or it is not finite)")
    nearest = np.full((height, width), np.finfo(np.float32).max, np.float32)
    faces, barycentric = np.zeros((height, width), np.int32), np.zeros((height, width, 3), np.float32)
    for number, face in enumerate(f.tolist(), 1):
        corners = screen[face]
        first = np.clip(corners.min(0), 0, most + 1).astype(int)
        stop = np.clip(corners.max(0), -1, most).astype(int) + 1
        (x0, y0), (x1, y1), (x2, y2) = corners
        if (stop <= first).any() or (x2 - x0) * (y1 - y0) == (x1 - x0) * (y2 - y0):
            continue
        x = np.arange(first[0], stop[0], dtype=np.float32) + half
        y = np.arange(first[1], stop[1], dtype=np.float32)[:, None] + half
        shares = _shares(corners, x, y)
        depth = np.trunc((shares * z[face][:, None, None]).sum(0) * np.float32(2**18))
        box = (slice(first[1], stop[1]), slice(first[0], stop[0]))
        nearer = ((shares >= 0) & (shares <= 1)).all(0) & (depth < nearest[box])
        corrected = shares / v[face, 3][:, None, None]
        corrected = corrected / corrected.sum(0)
        nearest[box][nearer], faces[box][nearer] = depth[nearer], number
        barycentric[box][nearer] = np.moveaxis(corrected, 0, -1)[nearer]
    return faces, barycentric


@reference("aclnnBlendFaceBgPartTwo")
def blend_face(face: Array, mask: Array, largest: Array, background: Array, epsilon: float) -> Any:
    """The mean of what was laid over each place, where the largest mask is 1; the background where it is 0."""
    return face / (mask + np.float32(epsilon)) * largest + background * (1 - largest)


@reference("aclnnNMSWithMask")
def nms_with_mask(boxes: Array, scores: Array, overlap: float, least: float) -> Any:
    """1 for boxes that no better box overlaps by so much; scores fall, so all that follow a low one are left out."""
    x1, y1, x2, y2 = boxes.reshape(-1, 4).T
    area, kept = (x2 - x1) * (y2 - y1), scores.reshape(-1) >= np.float32(least)
    kept = np.logical_and.accumulate(kept)
    for number in np.flatnonzero(kept):
        if kept[number]:
            width = np.minimum(x2, x2[number]) - np.maximum(x1, x1[number])
            height = np.minimum(y2, y2[number]) - np.maximum(y1, y1[number])
            common = np.maximum(width, 0) * np.maximum(height, 0)
            with np.errstate(all="ignore"):
                close = common / (area + area[number] - common) >= np.float32(overlap)
            kept[number + 1 :] &= ~close[number + 1 :]
    return kept.reshape(scores.shape).astype(np.uint8)


# ------------------------------------------------------------------------------------------------- experimental

_LUMA, _BLUE_LESS, _RED_LESS = (0.299, 0.587, 0.114), (-0.16874, -0.33126, 0.5), (0.5, -0.41869, -0.08131)


@reference("aclnnRgb2yuv422")
def rgb_to_yuv422(x: Array, layout: Optional[str]) -> Any:
    """Y of each pixel beside U (even columns) or V (odd ones) of the left pixel of its pair; bytes have 128 added to U and V."""
    axis = -3 if layout == "NCHW" else -1
    red, green, blue = np.moveaxis(x, axis, 0).astype(np.float32)
    y, u, v = (
        np.float32(a) * red + np.float32(b) * green + np.float32(c) * blue for a, b, c in (_LUMA, _BLUE_LESS, _RED_LESS)
    )
    colour = u + (128 if x.dtype == np.uint8 else 0)
    colour[..., 1::2] = (v + (128 if x.dtype == np.uint8 else 0))[..., : 2 * (v.shape[-1] // 2) : 2]
    return np.stack([y, colour], axis)


@reference("aclnnYuv444ToYuv422")
def yuv444_to_yuv422(x: Array) -> Any:
    """Pixels (Y, U, Y', V): Y and the mean of the pair's U in even columns, Y' of the even one and the mean of V in odd ones."""
    paired = x.shape[1] // 2 * 2
    even, odd = x[:, 0:paired:2], x[:, 1:paired:2]
    y = np.empty((*x.shape[:2], 2), np.float32)
    y[:, 0:paired:2, 0], y[:, 0:paired:2, 1] = even[..., 0], (even[..., 1] + odd[..., 1]) / 2
    y[:, 1:paired:2, 0], y[:, 1:paired:2, 1] = even[..., 2], (even[..., 3] + odd[..., 3]) / 2
    y[:, paired:] = x[:, paired:, :2]
    return np.clip(np.copysign(np.floor(np.abs(y) + 0.5), y), 0, 255)


# Of sizes up to 9 without a sigma, as OpenCV has them; in parts of 256.
_BINOMIAL = {
    1: (256,),
    3: (64, 128, 64),
    5: (16, 64, 96, 64, 16),
    7: (8, 28, 56, 72, 56, 28, 8),
    9: (4, 13, 30, 51, 60, 51, 30, 13, 4),
}
_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 4: "reflect"}


def _gaussian(size: int, sigma: float) -> Array:
    """The weights of a window of a size (0: four sigma to each side)."""
    size = size or math.floor(sigma * 8 + 1.5) | 1
    if sigma <= 0 and size in _BINOMIAL:
        return np.array(_BINOMIAL[size], np.float32) / 256
    deviation = sigma if sigma > 0 else size * 0.15 + 0.35
    weights = np.exp(-0.5 * ((np.arange(size) - (size - 1) / 2) / deviation) ** 2)
    return np.asarray(weights / weights.sum(), np.float32)


@reference("aclnnGaussianBlur")
def gaussian_blur(x: Array, sizes: Sequence[int], sigma_x: float, sigma_y: float, border: int) -> Any:
    """Weighted sums along rows, then along columns; the image continues as ``borderType`` says."""
    blurred: Array = x
    for axis, size, sigma in ((1, sizes[0], sigma_x), (0, sizes[1], sigma_y if sigma_y > 0 else sigma_x)):
        weights = _gaussian(1 if x.shape[axis] == 1 and border != 0 else size, sigma)
        around = [(0, 0)] * x.ndim
        around[axis] = (len(weights) // 2, len(weights) // 2)
        mode: Any = _BORDERS[border]
        padded = np.moveaxis(np.pad(blurred, around, mode), axis, 0)
        total = np.zeros((x.shape[axis], *padded.shape[1:]), np.float32)
        for i, weight in enumerate(weights):
            total += weight * padded[i : i + len(total)]
        blurred = np.moveaxis(total, 0, axis)
    return blurred
