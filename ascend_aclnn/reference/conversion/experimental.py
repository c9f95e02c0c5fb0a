"""References of the experimental operators of ops-math/conversion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference._rows import check_range, codes
from ascend_aclnn.reference.declare import reference


@reference("aclnnAsStrided", raw=True)
def as_strided(
    x: Array, size: Sequence[int], stride: Sequence[int], offset: Sequence[int], *, out: tuple[Array]
) -> None:
    """Elements of x, counted as they lie in memory without gaps, at an offset and strides."""
    if out[0].size:
        flat = np.ascontiguousarray(x).reshape(-1)[offset[0] :]
        steps = [step * flat.itemsize for step in stride]
        cast_into(out[0], np.lib.stride_tricks.as_strided(flat, size, steps))


@reference("aclnnTensorMove", raw=True)
def tensor_move(x: Array, *, out: tuple[Array]) -> None:
    cast_into(out[0], x)


@reference("aclnnFillV2")
def fill_v2(x: Array, value: Array) -> Any:
    return np.broadcast_to(value.reshape(()), x.shape)


@reference("aclnnOnehot")
def one_hot(x: Array, depth: int) -> Any:
    """1 at the number of each element, 0 elsewhere; numbers outside of the range give zeros."""
    return (x[..., None] == np.arange(depth)).astype(np.int32)


@reference("aclnnPackV2")
def pack_v2(x: Array, y: Array, axis: int) -> Any:
    return np.stack((x, y), axis)


@reference("aclnnSliceV3", raw=True)
def slice_v3(x: Array, begin: Sequence[int], size: Sequence[int], *, out: tuple[Array]) -> None:
    cast_into(out[0], x[tuple(slice(b, b + n) for b, n in zip(begin, size))])


@reference("aclnnTransposev", raw=True)
def transpose_v(x: Array, perm: Array, *, out: tuple[Array]) -> None:
    axes = [int(axis) for axis in perm]
    if sorted(axes) != list(range(x.ndim)):
        raise DataError("perm", f"is {axes}; it must name every axis of x once")
    transposed = np.transpose(x, axes)
    if transposed.shape != out[0].shape:
        raise DataError("out", f"has shape {out[0].shape}; it must be {transposed.shape}")
    cast_into(codes(out[0]), codes(transposed) if transposed.dtype == out[0].dtype else transposed)


def _taps(kernel: tuple[int, int], dilation: tuple[int, int]) -> Any:
    """Where each element of a window lies in it, row by row."""
    return ((i * dilation[0], j * dilation[1]) for i in range(kernel[0]) for j in range(kernel[1]))


@reference("aclnnIm2Col")
def im2col(
    x: Array, kernel_h: int, kernel_w: int, stride_h: int, stride_w: int, pad_h: int, pad_w: int, dil_h: int, dil_w: int
) -> Any:
    """The windows of an image as columns, the channels slowest."""
    padded = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(pad_h, pad_h), (pad_w, pad_w)])
    rows = (padded.shape[-2] - dil_h * (kernel_h - 1) - 1) // stride_h + 1
    columns = (padded.shape[-1] - dil_w * (kernel_w - 1) - 1) // stride_w + 1
    taps = [
        padded[..., i : i + stride_h * rows : stride_h, j : j + stride_w * columns : stride_w]
        for i, j in _taps((kernel_h, kernel_w), (dil_h, dil_w))
    ]
    windows = np.stack(taps, -3)
    return windows.reshape(*x.shape[:-3], x.shape[-3] * kernel_h * kernel_w, rows * columns)


@reference("aclnnCol2Im")
def col2im(
    col: Array, height: int, width: int, kernel_h: int, kernel_w: int, stride: int, padding: int, dilation: int
) -> Any:
    """Adds columns up again to the image whose windows they were."""
    rows = (height + 2 * padding - dilation * (kernel_h - 1) - 1) // stride + 1
    columns = (width + 2 * padding - dilation * (kernel_w - 1) - 1) // stride + 1
    batch = col.shape[:-2]
    windows = col.reshape(*batch, -1, kernel_h * kernel_w, rows, columns)
    image = np.zeros((*batch, windows.shape[-4], height + 2 * padding, width + 2 * padding), np.float64)
    for tap, (i, j) in enumerate(_taps((kernel_h, kernel_w), (dilation, dilation))):
        image[..., i : i + stride * rows : stride, j : j + stride * columns : stride] += windows[..., tap, :, :]
    return image[..., padding : padding + height, padding : padding + width]


@reference("aclnnConcatV2")
def concat_v2(x: Array, y: Array, axis: int) -> Any:
    return np.concatenate((x, y), axis)


@reference("aclnnPadV2", raw=True)
def pad_v2(x: Array, mode: int, value: int, *pads: int, out: tuple[Array]) -> None:
    """A whole number around the tensor; the kernel has one mode only."""
    out[0][...] = value
    out[0][tuple(slice(before, before + n) for before, n in zip(pads[::2], x.shape))] = x


@reference("aclnnSplit", raw=True)
def split(x: Array, ends: Sequence[int], axis: int, *, out: tuple[Sequence[Array]]) -> None:
    for part, target in zip(np.split(x, ends if len(ends) > 1 else ends[0], axis), out[0]):
        cast_into(target, part)


def _more_than_broadcast(call: Any) -> Optional[str]:
    axis, shape = call["axis"], call.shape("x")
    if shape[axis] == 1:
        return None
    return (
        f"x has {shape[axis]} elements on axis {axis}; the kernel repeats what each core holds, so for other lengths than 1 "
        "the order of the result depends on the number of cores"
    )


@reference("aclnnBroadcastV2", raw=True, unsupported=_more_than_broadcast)
def broadcast_v2(x: Array, buffer_mode: int, dim: int, reuse: int, axis: int, count: int, *, out: tuple[Array]) -> None:
    """The one element of an axis, ``count`` times."""
    cast_into(out[0], np.broadcast_to(x, out[0].shape))


@reference("aclnnViewCopy", raw=True)
def view_copy(dst: Array, *arguments: Array, out: tuple[Array]) -> None:
    """dst, with the elements of a view of src in a view of it; where elements of the view coincide the last one counts."""
    size, stride, offset, src, src_size, src_stride, src_offset = arguments
    if not np.array_equal(size.reshape(-1), src_size.reshape(-1)):
        raise DataError("src_size", f"is {src_size.reshape(-1)}; it must be dst_size, {size.reshape(-1)}")
    cast_into(out[0], dst)
    if dst.size and src.size:
        flat = np.ascontiguousarray(out[0]).reshape(-1)
        to = _of_view("dst", size, stride, offset, flat.size)
        flat[to] = np.ascontiguousarray(src).reshape(-1)[_of_view("src", src_size, src_stride, src_offset, src.size)]
        cast_into(out[0], flat.reshape(dst.shape))


def _of_view(side: str, size: Array, stride: Array, offset: Array, elements: int) -> Array:
    """The places of a view's elements in memory; all sizes and strides are positive."""
    for name, values in (("size", size), ("stride", stride)):
        check_range(f"{side}_{name}", values, 1, None)
    check_range(f"{side}_storage_offset", offset, 0, None)
    lengths, steps = ([int(value) for value in array.reshape(-1)] for array in (size, stride))
    start = int(offset.reshape(-1)[0])
    last = start + sum((n - 1) * step for n, step in zip(lengths, steps))
    if last >= elements:
        raise DataError(f"{side}_stride", f"leads to element {last}; {side} has {elements}")
    places = np.full((1,) * len(lengths), start, np.int64)
    for axis, (n, step) in enumerate(zip(lengths, steps)):
        places = places + (np.arange(n) * step).reshape([-1 if axis == i else 1 for i in range(len(lengths))])
    return places.reshape(-1)
