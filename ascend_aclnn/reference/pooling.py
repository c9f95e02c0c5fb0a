"""References of ops-nn/pooling: maxima and averages over windows, fixed or adaptive, and their gradients.

A window is described axis by axis. For each of its places along an axis there is a pair of indices: which outputs have
an element there that is not padding, and which elements those are. So loops run over the places of a window, each step
on whole arrays, and padding never has to exist. Of equal maxima the first counts.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import (
    BLOCK,
    SMALL,
    Array,
    along,
    codes,
    for_blocks,
    round_into,
    rows_per_block,
    sum_over,
    where,
    widen,
)
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference

Index = Union[slice, Array]
Ints = Sequence[int]

# ------------------------------------------------------------------------------------------------- windows


class PoolingAxis(NamedTuple):
    """How windows lie on one axis, and how many there are."""

    size: int  # of the axis
    number: int  # of windows
    kernel: int
    stride: int
    before: int  # padding in front
    dilation: int = 1

    def places(self) -> list[tuple[Index, Index]]:
        """For each place in the window: which outputs have an element there, and which."""
        pairs: list[tuple[Index, Index]] = []
        for k in range(self.kernel):
            first = k * self.dilation - self.before
            low = max(0, -(first // self.stride))
            high = min(self.number, (self.size - 1 - first) // self.stride + 1)
            if low < high:
                last = first + (high - 1) * self.stride
                pairs.append((slice(low, high), slice(first + low * self.stride, last + 1, self.stride)))
        return pairs

    def elements(self, padded: bool) -> Array:
        """How many elements each window has, those in the padding included or not."""
        start = np.arange(self.number) * self.stride - self.before
        end = np.minimum(start + self.kernel, self.size + self.before)
        return end - start if padded else np.minimum(end, self.size) - np.maximum(start, 0)


class Adaptive(NamedTuple):
    """Windows that cover an axis evenly; they overlap where it does not divide the size."""

    size: int
    number: int  # of windows

    def _bounds(self) -> tuple[Array, Array]:
        outputs = np.arange(self.number)
        return outputs * self.size // self.number, -(-(outputs + 1) * self.size // self.number)

    def places(self) -> list[tuple[Index, Index]]:
        """As of PoolingAxis."""
        start, end = self._bounds()
        pairs: list[tuple[Index, Index]] = []
        for k in range(int(np.max(end - start, initial=0))):
            (outputs,) = np.nonzero(start + k < end)
            pairs.append((outputs, start[outputs] + k))
        return pairs

    def elements(self) -> Array:
        start, end = self._bounds()
        return end - start


def _each(values: Optional[Ints], axes: int, default: Ints = ()) -> list[int]:
    """One number for each axis: an empty or absent array is the default, a single number stands for all."""
    chosen = list(values or default)
    return chosen * axes if len(chosen) == 1 else chosen


def _windows(
    plane: Ints, counts: Ints, kernel: Ints, stride: Optional[Ints], padding: Ints, dilation: Ints = (1,)
) -> list[PoolingAxis]:
    axes = len(plane)
    kernels = _each(kernel, axes)
    rest = (_each(stride, axes, kernels), _each(padding, axes, (0,)), _each(dilation, axes, (1,)))
    return [PoolingAxis(*items) for items in zip(plane, counts, kernels, *rest)]


def _adaptive(plane: Ints, counts: Ints) -> list[Adaptive]:
    return [Adaptive(size, count) for size, count in zip(plane, counts)]


def _select(indices: Sequence[Index]) -> tuple[Any, ...]:
    """An index of the last axes."""
    if all(isinstance(index, slice) for index in indices):
        return (..., *indices)
    return (..., *np.ix_(*(np.asarray(index) for index in indices)))


def _on_axis(index: Index, axis: int) -> tuple[Any, ...]:
    """An index of an axis, counted from the end."""
    return (..., index, *(slice(None),) * (-axis - 1))


# ------------------------------------------------------------------------------------------------- maxima


def _first(windows: Sequence[Union[PoolingAxis, Adaptive]]) -> list[Array]:
    """The first element of each window on each axis, -1 where it has none."""
    firsts = []
    for window in windows:
        first = np.full(window.number, -1, np.int64)
        for outputs, elements in reversed(window.places()):
            first[outputs] = np.arange(window.size)[elements]
        firsts.append(first)
    return firsts


def _are_planes(windows: Sequence[Union[PoolingAxis, Adaptive]]) -> bool:
    """Whether the compiled helper takes such windows."""
    return len(windows) == 2 and all(isinstance(window, PoolingAxis) for window in windows)


def _maxima(x: Array, windows: Sequence[Union[PoolingAxis, Adaptive]]) -> tuple[Array, Array]:
    """The largest element of each window, the first NaN if there is one, and its position in the plane."""
    shape = x.shape[: x.ndim - len(windows)] + tuple(w.number for w in windows)
    size = math.prod(w.size for w in windows)
    if _are_planes(windows) and size < 2**31:
        best, position = np.empty(shape, np.float32), np.empty(shape, np.int32)
        planes = x.reshape(-1, *x.shape[-2:])
        if native.window_maxima(planes, np.array(windows, np.int64), best, position):
            return best, position
    numbers = np.arange(size, dtype=np.int32 if size < 2**31 else np.int64).reshape([w.size for w in windows])
    best, position = np.zeros(shape, x.dtype), np.full(shape, -1, numbers.dtype)
    firsts = _first(windows)
    outputs = _select([np.flatnonzero(first >= 0) for first in firsts])
    elements = _select([first[first >= 0] for first in firsts])
    best[outputs], position[outputs] = x[elements], numbers[elements]
    for place in itertools.product(*(w.places() for w in windows)):
        outputs = _select([pair[0] for pair in place])
        elements = _select([pair[1] for pair in place])
        value, high, where_from = x[elements], best[outputs], position[outputs]
        better = ~(value <= high)  # larger, or NaN
        better &= high == high
        best[outputs] = where(better, value, high)
        position[outputs] = where(better, np.broadcast_to(numbers[elements], value.shape), where_from)
    return best, position


def _of_planes(function: Callable[[Array], Any], axes: int, x: Array, out: Sequence[Array]) -> None:
    """A function of the last axes into outputs, in blocks of planes."""
    if along(function, lambda x: range(x.ndim - axes, x.ndim), [x], out):
        return
    results = function(widen(x))
    for value, target in zip(results if isinstance(results, tuple) else (results,), out):
        round_into(target, value)


def _scattered(argument: str, grad: Array, positions: Array, shape: Ints, axes: int) -> Array:
    """Each gradient added to the element of its plane that was chosen."""
    planes, size = math.prod(shape[:-axes]), math.prod(shape[-axes:])
    check_range(argument, positions, 0, size)
    first = np.arange(planes)[:, None] * size
    chosen = positions.reshape(planes, -1).astype(np.int64) + first if positions.size else positions.astype(np.int64)
    return np.bincount(chosen.reshape(-1), grad.reshape(-1), planes * size).reshape(tuple(shape))


@reference("aclnnMaxPool", raw=True, channels_first=True)
def max_pool(
    x: Array,
    kernel: Ints,
    strides: Ints,
    auto_pad: int,
    pads: Ints,
    dilations: Ints,
    ceil_mode: int,
    *,
    out: tuple[Array],
) -> None:
    """Of pads, the first two are in front: (both), (height, width) or (top, left, bottom, right)."""
    (result,) = out
    windows = _windows(x.shape[-2:], result.shape[-2:], kernel, strides or (1,), pads[:2])
    _of_planes(lambda x: _maxima(x, windows)[0], 2, x, (result,))


def _max_pool_with_indices(axes: int, *arguments: Any, out: tuple[Array, Array]) -> None:
    """With the position of each maximum in its plane."""
    x, kernel, stride, padding, dilation, _ = arguments
    result, indices = out
    windows = _windows(x.shape[-axes:], result.shape[-axes:], kernel, stride, padding, dilation)
    _of_planes(lambda x: _maxima(x, windows), axes, x, (result, indices))


reference("aclnnMaxPoolWithArgmaxV3", raw=True)(functools.partial(_max_pool_with_indices, 2))


def _scattered_by_helper(grad: Array, positions: Array, axes: int, out: Array) -> bool:
    """``_scattered`` into the output, in blocks of planes; False where the helper cannot, or where a position is wrong."""
    size = math.prod(out.shape[-axes:])
    if not native.runs_programs() or out.size <= SMALL or size >= 2**31 or not out.flags.c_contiguous:
        return False
    values, target = grad.reshape(out.size // size, -1), out.reshape(-1, size)
    places = positions.reshape(values.shape)
    done = []

    def scatter(low: int, high: int) -> None:
        part = np.ascontiguousarray(widen(values[low:high]))
        some = places[low:high]
        known = some.dtype == np.int32 or (some.size and codes(some).max() < size)
        done.append(known and native.scatter(part, np.ascontiguousarray(some, np.int32), target[low:high]))

    for_blocks(len(target), rows_per_block(size, BLOCK), scatter)
    return all(done)


def _max_pool_backward(axes: int, *arguments: Any, out: tuple[Array]) -> None:
    grad, x, indices = arguments[:3]
    if _scattered_by_helper(grad, indices, axes, out[0]):
        return
    round_into(out[0], _scattered("indices", widen(grad), indices, x.shape, axes))


def maxima(x: Array, counts: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Array:
    """The largest elements of so many windows along the last axes."""
    return _maxima(widen(x), _windows(x.shape[-len(kernel) :], counts, kernel, stride, padding, dilation))[0]


def gradient_at_maxima(x: Array, grad: Array, kernel: Ints, stride: Ints, padding: Ints) -> Array:
    """Each gradient added to the element of x that is the first maximum of its window."""
    axes = len(kernel)
    windows = _windows(x.shape[-axes:], grad.shape[-axes:], kernel, stride, padding, (1,) * axes)
    return _scattered("orig_x", widen(grad), _maxima(widen(x), windows)[1], x.shape, axes)


def _adaptive_max_pool(axes: int, x: Array, sizes: Ints, *, out: tuple[Array, Array]) -> None:
    result, indices = out
    windows = _adaptive(x.shape[-axes:], result.shape[-axes:])
    _of_planes(lambda x: _maxima(x, windows), axes, x, (result, indices))


_function: Callable[..., None]
for _axes, _last in ((2, "2dWithIndices"), (3, "3dWithArgmax")):
    for _name, _function in (
        (f"aclnnMaxPool{_last}", _max_pool_with_indices),
        (f"aclnnMaxPool{_last}Backward", _max_pool_backward),
    ):
        reference(_name, raw=True, channels_first=True)(functools.partial(_function, _axes))
    reference(f"aclnnAdaptiveMaxPool{_axes}d", raw=True)(functools.partial(_adaptive_max_pool, _axes))
    reference(f"aclnnAdaptiveMaxPool{_axes}dBackward", raw=True)(functools.partial(_max_pool_backward, _axes))


def _is_single(kernel: Ints) -> bool:
    return all(k == 1 for k in kernel)


@reference("aclnnMaxPool2dWithMask", raw=True)
def max_pool_with_mask(
    x: Array,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    *,
    out: tuple[Array, Array],
) -> None:
    """What Atlas A2 and A3 call a mask holds positions as INT32 in front, and nothing after them (here zeros).

    For a kernel of one element, where nothing is to choose, it is a mask of ones.
    """
    result, mask = out
    windows = _windows(x.shape[-2:], result.shape[-2:], kernel, stride, padding, dilation)
    values, positions = _maxima(widen(x), windows)
    round_into(result, values)
    if _is_single(kernel):
        mask[...] = -1
        return
    stored = np.zeros(mask.size, np.int8)
    stored[: 4 * positions.size] = positions.astype(np.int32).reshape(-1).view(np.int8)
    mask[...] = stored.reshape(mask.shape)


@reference("aclnnMaxPool2dWithMaskBackward", raw=True)
def max_pool_with_mask_backward(
    grad: Array,
    x: Array,
    mask: Array,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    *,
    out: tuple[Array],
) -> None:
    if _is_single(kernel):
        numbers = np.arange(math.prod(x.shape[-2:])).reshape(x.shape[-2:])
        steps = _each(stride, 2, (1,))
        positions: Array = np.broadcast_to(numbers[:: steps[0], :: steps[1]], grad.shape)
    else:
        stored = np.ascontiguousarray(mask).reshape(-1)[: 4 * grad.size]
        positions = stored.view(np.int32).reshape(grad.shape)
    round_into(out[0], _scattered("indices", widen(grad), positions, x.shape, 2))


# ------------------------------------------------------------------------------------------------- averages


def _along(values: Array, axis: int, axes: int) -> Array:
    """Numbers of one of the last axes, to multiply arrays with."""
    return values.reshape([-1 if i == axis else 1 for i in range(axes)])


def _sums(x: Array, windows: Sequence[Union[PoolingAxis, Adaptive]]) -> Array:
    """Sums over windows, axis by axis."""
    if all(isinstance(window, Adaptive) and window.number == 1 for window in windows):
        return np.asarray(sum_over(x, tuple(range(x.ndim - len(windows), x.ndim)), True))
    if _are_planes(windows):
        sums = np.empty(x.shape[: x.ndim - 2] + tuple(w.number for w in windows))
        if native.window_sums(x.reshape(-1, *x.shape[-2:]), np.array(windows, np.int64), sums):
            return sums
    total = np.asarray(x, np.float64)
    for axis, window in enumerate(windows, -len(windows)):
        sums = np.zeros([window.number if i == axis else n for i, n in enumerate(total.shape, -total.ndim)])
        for outputs, elements in window.places():
            sums[_on_axis(outputs, axis)] += total[_on_axis(elements, axis)]
        total = sums
    return total


def _spread(grad: Array, windows: Sequence[PoolingAxis]) -> Array:
    """Each number added to all elements of its window: what ``_sums`` does, the other way."""
    total = grad
    for axis, window in enumerate(windows, -len(windows)):
        sums = np.zeros([window.size if i == axis else n for i, n in enumerate(total.shape, -total.ndim)])
        for outputs, elements in window.places():
            sums[_on_axis(elements, axis)] += total[_on_axis(outputs, axis)]
        total = sums
    return total


def _divisor(windows: Sequence[PoolingAxis], padded: bool, override: int) -> Any:
    """By how much the sum over each window is divided."""
    if override:
        return override
    total: Any = 1
    for axis, window in enumerate(windows):
        total = total * _along(window.elements(padded), axis, len(windows))
    return total


def _avg_pool(axes: int, *arguments: Any, out: tuple[Array]) -> None:
    x, kernel, stride, padding, _, padded, override = arguments[:7]
    windows = _windows(x.shape[-axes:], out[0].shape[-axes:], kernel, stride, padding)
    divisor = _divisor(windows, padded, override)
    _of_planes(lambda x: _sums(x, windows) / divisor, axes, x, out)


def _avg_pool_backward(axes: int, *arguments: Any, out: tuple[Array]) -> None:
    grad, x, kernel, stride, padding, _, padded, override = arguments[:8]
    windows = _windows(x.shape[-axes:], grad.shape[-axes:], kernel, stride, padding)
    divisor = _divisor(windows, padded, override)
    _of_planes(lambda grad: _spread(grad / divisor, windows), axes, grad, out)


def _means_of_planes(x: Array, sizes: tuple[int, ...]) -> Any:
    """The mean over the last axes, divided by one of their sizes after the other."""
    total = sum_over(x, tuple(range(x.ndim - len(sizes), x.ndim)), True)
    for size in sizes:
        total = total / float(size)
    return total


def _adaptive_avg_pool(axes: int, x: Array, _: Ints, *, out: tuple[Array]) -> None:
    windows = _adaptive(x.shape[-axes:], out[0].shape[-axes:])
    last, sizes = tuple(range(x.ndim - axes, x.ndim)), x.shape[-axes:]
    if all(w.number == 1 for w in windows):
        if x.dtype == np.float32 and x.flags.c_contiguous and native.runs_programs():  # a short call
            round_into(out[0], _means_of_planes(x, sizes))
            return
        if along(_means_of_planes, lambda *_: last, [x, sizes], out):
            return
    total = _sums(widen(x), windows)
    for axis, window in enumerate(windows):
        total = total / _along(window.elements(), axis, axes)
    round_into(out[0], total)


def _adaptive_avg_pool_backward(axes: int, grad: Array, x: Array, *, out: tuple[Array]) -> None:
    """The windows that an element lies in are those of adaptive pooling from the outputs to the elements."""
    shared = np.asarray(widen(grad), np.float64)
    for axis, window in enumerate(_adaptive(x.shape[-axes:], grad.shape[-axes:])):
        shared = shared / _along(window.elements(), axis, axes)
    round_into(out[0], _sums(shared, _adaptive(grad.shape[-axes:], x.shape[-axes:])))


for _axes in (2, 3):
    for _name, _function in (
        (f"aclnnAvgPool{_axes}d", _avg_pool),
        (f"aclnnAvgPool{_axes}dBackward", _avg_pool_backward),
        (f"aclnnAdaptiveAvgPool{_axes}d", _adaptive_avg_pool),
        (f"aclnnAdaptiveAvgPool{_axes}dBackward", _adaptive_avg_pool_backward),
    ):
        reference(_name, raw=True)(functools.partial(_function, _axes))


# ------------------------------------------------------------------------------------------------- experimental


@reference("aclnnMaxPoolingGrad")
def max_pooling_grad(grad: Array, x: Array, y: Array) -> Any:
    """Of windows side by side, whose maxima lie spread out to the shape of x: to each element that is its maximum."""
    return np.where(x == y, grad, 0)


@reference("aclnnAveragePoolingGrad")
def average_pooling_grad(
    shape: Ints,
    grad: Array,
    kernel_h: int,
    kernel_w: int,
    stride_h: int,
    stride_w: int,
    top: int,
    bottom: int,
    left: int,
    right: int,
    ceil_mode: bool,
    padded: bool,
    override: int,
) -> Any:
    """Each gradient over its divisor, to what its window covers; with padding counted the divisor is the whole window."""
    result = np.zeros(tuple(shape), np.float32)
    for i, j in itertools.product(*map(range, grad.shape[2:])):
        rows = slice(max(i * stride_h - top, 0), min(i * stride_h - top + kernel_h, shape[2]))
        columns = slice(max(j * stride_w - left, 0), min(j * stride_w - left + kernel_w, shape[3]))
        seen = (rows.stop - rows.start) * (columns.stop - columns.start)
        divisor = override or (kernel_h * kernel_w if padded else seen)
        if divisor > 0 and rows.stop > rows.start and columns.stop > columns.start:
            result[:, :, rows, columns] += (grad[:, :, i, j] / np.float32(divisor))[:, :, None, None]
    return result


def _maxima_or_lowest(x: Array, windows: Sequence[PoolingAxis]) -> Array:
    """The largest elements of windows along the last axes; -inf where a window has only padding."""
    result = np.full(x.shape[: x.ndim - len(windows)] + tuple(w.number for w in windows), -np.inf, np.float32)
    for place in itertools.product(*(w.places() for w in windows)):
        outputs = _select([pair[0] for pair in place])
        result[outputs] = np.maximum(result[outputs], x[_select([pair[1] for pair in place])])
    return result


@reference("aclnnMaxPoolV3", raw=True)
def max_pool_v3(
    x: Array, kernel: Ints, strides: Ints, pads: Optional[Ints], ceil_mode: Optional[int], *, out: tuple[Array]
) -> None:
    """Of pads the first two are above and below, the others left and right."""
    margins = (pads or (0,) * 4)[::2]
    sizes = zip(x.shape[2:], out[0].shape[2:], kernel[2:], strides[2:], margins)
    round_into(out[0], _maxima_or_lowest(widen(x), [PoolingAxis(*items) for items in sizes]))


@reference("aclnnMaxPool3D", raw=True)
def max_pool_3d(
    x: Array,
    kernel: Ints,
    strides: Ints,
    padding: str,
    pads: Optional[Ints],
    dilation: Optional[Ints],
    ceil_mode: int,
    layout: Optional[str],
    *,
    out: tuple[Array],
) -> None:
    """SAME has as many windows as strides fit, and shares the padding that they need between both ends, more behind."""
    first = 2 if layout == "NCDHW" else 1

    def spatial(values: Ints) -> Ints:
        return list(values) * 3 if len(values) == 1 else values if len(values) == 3 else values[first : first + 3]

    windows = []
    for n, count, k, s, before, d in zip(
        x.shape[first:],
        out[0].shape[first:],
        spatial(kernel),
        spatial(strides),
        (pads or (0,) * 6)[::2] if padding == "CALCULATED" else (0,) * 3,
        spatial(dilation or (1,)),
    ):
        needed = max((count - 1) * s + (k - 1) * d + 1 - n, 0)
        windows.append(PoolingAxis(n, count, k, s, needed // 2 if padding == "SAME" else before, d))
    wide = widen(x)
    maxima = _maxima_or_lowest(wide if first == 2 else np.moveaxis(wide, -1, 1), windows)
    round_into(out[0], maxima if first == 2 else np.moveaxis(maxima, 1, -1))
