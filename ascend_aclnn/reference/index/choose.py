"""Choosing items: the largest, the k-th, medians, those that are not zero, those that differ."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import BLOCK, Array, for_blocks, rows_per_block
from ascend_aclnn.reference._pointwise import is_whole
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.index._places import vectors
from ascend_aclnn.reference.math.sorting import has_ranks, keys_of, order, positions_of, ranked, search_sorted

# ------------------------------------------------------------------------------------------------- by rank


def _front(positions: Array, count: int, axis: int) -> Array:
    return positions[(slice(None),) * axis + (slice(0, count),)]


@reference("aclnnTopk", along=lambda x, k, dim, *_: (dim,))
def topk(x: Array, k: int, dim: int, largest: bool, is_sorted: bool) -> Any:
    """The k largest or smallest in order, of equals the first ones; NaN counts as the largest."""
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    axis = dim % x.ndim
    lines = np.moveaxis(x, axis, -1)
    first = native.choose(lines.reshape(-1, lines.shape[-1]), k, largest) if lines.flags.c_contiguous else None
    first = _candidates(lines, k, largest) if first is None else first.reshape(*lines.shape[:-1], k)
    if first is not None:
        positions = np.moveaxis(first, -1, axis)
        return np.take_along_axis(x, positions, axis), positions
    keys = ranked(x, axis, largest) if 0 < k < x.shape[axis] // 4 else None
    if keys is None:
        positions = _front(order(x, axis, largest), k, axis)
    else:
        keys.partition(k - 1, -1)
        positions = np.moveaxis(positions_of(np.sort(keys[..., :k], -1)), -1, axis)
    return np.take_along_axis(x, positions, axis), positions


_COLUMNS = 256  # into which a row is folded: enough for NumPy's vectors, and few to choose from


def _candidates(x: Array, k: int, largest: bool) -> Optional[Array]:
    """Where the first k along the last axis are, chosen among few elements; None where there are not few, or NaN.

    A row is folded into columns. The k-th of the columns' largest elements is exceeded or equalled by k elements, so that
    only those elements of the row that do so can be among its k largest, which are as a rule little more than k.
    """
    n = x.shape[-1]
    columns = max(_COLUMNS, 4 * k)
    folds = n // columns
    if k < 1 or folds < 4 or not has_ranks(x.dtype) or x.dtype == np.bool_:
        return None
    rows, folded = x.reshape(-1, n), folds * columns
    extreme = np.maximum if largest else np.minimum
    extremes = extreme.reduce(rows[:, :folded].reshape(len(rows), folds, columns), 1)
    if np.isnan(extremes).any() or np.isnan(rows[:, folded:]).any():
        return None
    rank = columns - k if largest else k - 1
    limits = np.partition(extremes, rank, -1)[:, rank, None]
    places = np.flatnonzero(rows >= limits if largest else rows <= limits)
    if len(places) > rows.size // 16:
        return None
    row, column = np.divmod(places, n)
    starts = np.searchsorted(row, np.arange(len(rows)))
    most = int(np.diff(starts, append=len(places)).max())
    if most > n // 16:
        return None
    keys = np.full((len(rows), most), np.iinfo(np.int64).max)  # behind every key
    keys[row, np.arange(len(places)) - starts[row]] = keys_of(rows[row, column], column, largest)
    keys.sort(-1)
    return positions_of(keys[:, :k]).reshape(*x.shape[:-1], k)


def _at_rank(x: Array, ranks: Any, axis: int, keepdim: bool) -> tuple[Array, Array]:
    """The items of given ranks (an array that broadcasts to x, with one entry on the axis) and where they are."""
    positions = order(x, axis, False)
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    places = np.take_along_axis(positions, np.broadcast_to(ranks, shape), axis)
    values = np.take_along_axis(x, places, axis)
    return (values, places) if keepdim else (values.squeeze(axis), places.squeeze(axis))


def _along(x: Array, dim: int, keepdim: bool, ranks: Any) -> Any:
    """The item that ``ranks`` (a function of the tensor and the axis) chooses along an axis; a 0-d tensor has one."""
    vector, axis = vectors(x, dim)
    if x.size == 0:
        shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape) if i != axis or keepdim)
        return (np.full(shape, no_items(x.dtype), x.dtype), np.zeros(shape, np.int64))
    values, places = _at_rank(vector, ranks(vector, axis), axis, keepdim)
    return values.reshape(() if x.ndim == 0 else values.shape), places.reshape(() if x.ndim == 0 else places.shape)


@reference("aclnnKthvalue", along=lambda x, k, dim, keepdim: (dim,))
def kthvalue(x: Array, k: int, dim: int, keepdim: bool) -> Any:
    """The k-th smallest and where it is; NaN counts as the largest."""
    return _along(x, dim, keepdim, lambda x, axis: np.int64(k - 1))


def no_items(dtype: np.dtype[Any]) -> Any:
    """What CANN gives as the median of nothing."""
    least = {"int32": np.iinfo(np.int32).min, "int64": np.iinfo(np.int64).min}
    return np.nan if dtype.kind == "f" else least.get(dtype.name, 0)


def _median_rank(x: Array, axis: int) -> Any:
    """The lower of two middle ones; the first NaN where there is one."""
    middle = (x.shape[axis] - 1) // 2
    numbers = np.sum(x == x, axis, keepdims=True)
    return np.where(numbers < x.shape[axis], numbers, middle)


def _nan_median_rank(x: Array, axis: int) -> Any:
    """The median of what is not NaN."""
    numbers = np.sum(x == x, axis, keepdims=True)
    return np.maximum(numbers - 1, 0) // 2


def _median(ranks: Any) -> Any:
    def of_all(x: Array) -> Any:
        return _along(x.reshape(-1), 0, False, ranks)[0]

    return of_all


def _given_dim(x: Array, dim: int, *_: Any) -> tuple[int]:
    return (dim,)


reference("aclnnMedian")(_median(_median_rank))
reference("aclnnNanMedian")(_median(_nan_median_rank))
reference("aclnnMedianDim", along=_given_dim)(lambda x, dim, keepdim: _along(x, dim, keepdim, _median_rank))
reference("aclnnNanMedianDim", along=_given_dim)(lambda x, dim, keepdim: _along(x, dim, keepdim, _nan_median_rank))


# ------------------------------------------------------------------------------------------------- not zero


@reference("aclnnNonzero")
def nonzero(x: Array) -> Any:
    """The coordinates of all elements that are not 0, one row each."""
    if x.size <= BLOCK:
        return np.argwhere(x)
    step = rows_per_block(x.size // len(x))
    counts = [np.count_nonzero(x[low : low + step]) for low in range(0, len(x), step)]
    ends = np.cumsum([0, *counts])
    result = np.empty((ends[-1], x.ndim), np.int64)

    def find(low: int, high: int) -> None:
        block = low // step
        rows = result[ends[block] : ends[block + 1]]
        for axis, places in enumerate(np.nonzero(x[low:high])):
            np.add(places, 0 if axis else low, out=rows[:, axis])

    for_blocks(len(x), step, find)
    return result


@reference("aclnnNonzeroV2")
def nonzero_v2(x: Array) -> Any:
    """The coordinates of all elements that are not 0, one column each."""
    return nonzero(x).T


# ------------------------------------------------------------------------------------------------- different ones

_NONE = np.zeros(0, np.int64)  # an optional output that the caller left out
_FLATTENED = 1000  # UniqueConsecutive's dim that means none


def _starts(items: Array) -> Array:
    """Where an element, or a row, begins a run of equal ones; NaN equals nothing."""
    rows = items if items.ndim == 2 else items[:, None]
    return np.concatenate([np.ones(min(len(rows), 1), np.bool_), (rows[1:] != rows[:-1]).any(1)])


def _runs(x: Array, positions: Optional[Array]) -> tuple[Array, Array, Array]:
    """The different elements or rows in the order of ``positions`` (as they are if None), the number of each, and counts."""
    ordered = x if positions is None else x[positions]
    starts = _starts(ordered)
    numbers = np.cumsum(starts) - 1
    inverse = numbers
    if positions is not None:
        inverse = np.empty(len(x), np.int64)
        inverse[positions] = numbers
    return ordered[starts], inverse, np.diff(np.flatnonzero(np.append(starts, True)))


@reference("aclnnUnique2")
def unique2(x: Array, is_sorted: bool, inverse: bool, counts: bool) -> Any:
    """The different elements, always sorted; -0 and 0 are one, each NaN is another.

    Outputs that are not requested are empty tensors.
    """
    flattened = x.reshape(-1)
    values, numbers, repeats = _runs(flattened, order(flattened, 0, False))
    return values, numbers.reshape(x.shape) if inverse else _NONE, repeats if counts else _NONE


@reference("aclnnUnique")
def unique(x: Array, is_sorted: bool, inverse: bool) -> Any:
    return unique2(x, is_sorted, inverse, False)[:2]


def on_axis(x: Array, dim: int, is_sorted: bool) -> tuple[Array, Array, Array]:
    """The different slices of an axis; sorted by their elements, the first ones first."""
    vector, axis = vectors(x, dim)
    lines = np.moveaxis(vector, axis, 0)
    rows = lines.reshape(len(lines), -1) if lines.size else np.zeros((len(lines), 0), x.dtype)
    positions = None
    if is_sorted:
        positions = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    unique, inverse, counts = _runs(rows, positions)
    return np.moveaxis(unique.reshape(len(unique), *lines.shape[1:]), 0, axis), inverse, counts


@reference("aclnnUniqueConsecutive")
def unique_consecutive(x: Array, inverse: bool, counts: bool, dim: int) -> Any:
    """Drops elements, or slices of an axis, that equal the one before them."""
    if dim == _FLATTENED:
        values, numbers, repeats = _runs(x.reshape(-1), None)
        numbers = numbers.reshape(x.shape)
    else:
        values, numbers, repeats = on_axis(x, dim, False)
    return values, numbers if inverse else _NONE, repeats if counts else _NONE


@reference("aclnnUniqueDim")
def unique_dim(x: Array, is_sorted: bool, inverse: bool, dim: int) -> Any:
    """The different slices of an axis, always sorted."""
    values, numbers, repeats = on_axis(x, dim, True)
    return values, numbers if inverse else _NONE, repeats


# ------------------------------------------------------------------------------------------------- intervals


@reference("aclnnBucketize")
def bucketize(x: Array, boundaries: Array, out_int32: bool, right: bool) -> Any:
    """Between which boundaries an element lies: before the first that is not below it (``right``: that is above it)."""
    dtype = np.result_type(x.dtype, boundaries.dtype)
    if is_whole(x) != is_whole(boundaries):
        dtype = np.dtype(np.float64) if np.dtype(np.int64) in (x.dtype, boundaries.dtype) else dtype
    return search_sorted(boundaries.astype(dtype), x.astype(dtype).reshape(-1), out_int32, right, None).reshape(x.shape)
