"""References of ops-math/conversion: slices, windows and selections."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, sum_type
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.rules.conversion.slicing import strided_index

# ------------------------------------------------------------------------------------------------- slices


def _bounds(size: int, start: int, end: int, step: int) -> slice:
    """start:end:step on an axis; negative bounds count from the end and all bounds are clipped."""
    start = min(max(start + size if start < 0 else start, 0), size)
    return slice(start, min(max(end + size if end < 0 else end, start), size), step)


def _slices(
    shape: tuple[int, ...], starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> tuple[slice, ...]:
    """One slice for each axis; an axis for which there is no step is left whole, as CANN does."""
    index = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps):
        index[axis] = _bounds(shape[axis], start, end, step)
    return tuple(index)


@reference("aclnnSlice", raw=True)
def slice_(x: Array, dim: int, start: int, end: int, step: int, *, out: tuple[Array]) -> None:
    cast_into(out[0], x[_slices(x.shape, [start], [end], [dim], [step])])


@reference("aclnnSliceV2", raw=True)
def slice_v2(
    x: Array,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
    *,
    out: tuple[Array],
) -> None:
    """Slices of several axes."""
    cast_into(out[0], x[_slices(x.shape, starts, ends, axes, steps)])


@reference("aclnnStridedSlice", raw=True)
def strided_slice(
    x: Array,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
    *,
    out: tuple[Array],
) -> None:
    """TensorFlow's strided slice."""
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    index: Any = strided_index(x.ndim, tuple(begin), tuple(end), tuple(strides), *masks)
    for i, item in enumerate(index):
        if isinstance(item, int):
            check_range("begin", np.asarray(begin)[i : i + 1], *_axis_limits(x, index[:i]))
    cast_into(out[0], np.asarray(x[tuple(index)]))


def _axis_limits(x: Array, before: Sequence[Any]) -> tuple[int, int]:
    """Where an index on the axis after others may lie."""
    size = x.shape[sum(item is not None for item in before)]
    return -size, size


@reference("aclnnStridedSliceAssignV2", raw=True)
def strided_slice_assign(
    variable: Array,
    value: Array,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    axes: Optional[Sequence[int]],
    *,
    out: tuple[Array],
) -> None:
    """Replaces a part of a tensor."""
    chosen = range(variable.ndim) if axes is None else axes
    cast_into(out[0][_slices(variable.shape, begin, end, chosen, strides)], value)


# ------------------------------------------------------------------------------------------------- windows


@reference("aclnnIm2col", raw=True)
def im2col(
    x: Array,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
    *,
    out: tuple[Array],
) -> None:
    """Every window of an image as a column, zeros around the image."""
    *batch, channels, height, width = x.shape
    size = [height + 2 * padding[0], width + 2 * padding[1]]
    image = np.zeros((*batch, channels, *size), x.dtype)
    image[..., padding[0] : padding[0] + height, padding[1] : padding[1] + width] = x
    spots = [(n - gap * (k - 1) - 1) // step + 1 for n, k, gap, step in zip(size, kernel, dilation, stride)]
    columns = np.empty((*batch, channels, *kernel, *spots), x.dtype)
    for i, j in itertools.product(*map(range, kernel)):
        top, left = i * dilation[0], j * dilation[1]
        rows = slice(top, top + stride[0] * spots[0], stride[0])
        columns[..., i, j, :, :] = image[..., rows, left : left + stride[1] * spots[1] : stride[1]]
    cast_into(out[0], columns.reshape(out[0].shape))


@reference("aclnnUnfoldGrad")
def unfold_grad(grad: Array, sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    """Adds the windows along an axis, which overlap where ``step`` is smaller than ``size``, up again."""
    total = np.zeros(tuple(sizes), sum_type(grad.dtype))
    windows, lines = np.moveaxis(total, dim, 0), np.moveaxis(grad, dim, 0)
    for i in range(size):
        windows[i : i + step * len(lines) : step][: len(lines)] += lines[..., i]
    return total


# ------------------------------------------------------------------------------------------------- selection


@reference("aclnnMaskedSelect", stored=("self",))
def masked_select(x: Array, mask: Array) -> Any:
    """The elements where the mask is not 0, in their order."""
    x, mask = np.broadcast_arrays(x, mask)
    return x[mask if mask.dtype == np.bool_ else mask != 0]


@reference("aclnnCoalesceSparse")
def coalesce_sparse(unique_len: Array, places: Array, indices: Array, values: Array) -> Any:
    """Adds up the values that belong to the same place, and keeps the index of each place."""
    count = len(unique_len)
    check_range("uniqueIndices", places, 0, count)
    coalesced = np.zeros((count, indices.shape[1]), indices.dtype)
    coalesced[places] = indices
    total = np.zeros((count, *values.shape[1:]), sum_type(values.dtype))
    np.add.at(total, places, values)
    return coalesced, total
