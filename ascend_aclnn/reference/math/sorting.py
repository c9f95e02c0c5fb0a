"""References of ops-math/math: sorting, searching, and running sums, products and extremes."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.numerics import Array, along, round_into, running_sum, running_sum_into, sum_type, widen
from ascend_aclnn.reference._arrays import cast
from ascend_aclnn.reference._rows import check_range, stable_order
from ascend_aclnn.reference.declare import reference

# ------------------------------------------------------------------------------------------------- order


def ranked(x: Array, dim: int, descending: bool) -> Optional[Array]:
    """Integers of 64 bits that sort as the elements of an axis do, equal ones by their places; the axis is the last one.

    The upper half ranks the value, the lower half is the place. So any sort of these is stable, which NumPy does with
    vector instructions. None for data types of more than 32 bits, and for few elements.
    """
    if x.size < 1 << 10 or not has_ranks(x.dtype):
        return None
    values = np.moveaxis(x, dim, -1)
    return keys_of(values, np.arange(values.shape[-1]), descending)


def has_ranks(dtype: np.dtype[Any]) -> bool:
    """Whether ``keys_of`` takes values of a data type."""
    return (dtype.kind in "iub" and dtype.itemsize <= 4) or dtype == np.float32


def keys_of(values: Array, places: Array, descending: bool) -> Array:
    """Values and their places as the integers of ``ranked``; NaN ranks above all other values, -0 as 0."""
    if values.dtype == np.float32:
        values = np.add(values, np.float32(0))  # -0 becomes 0
        wrong = np.isnan(values)
        if wrong.any():
            values[wrong] = np.nan  # of one kind
        codes = values.view(np.int32)
        codes ^= (codes >> 31) & np.int32(0x7FFFFFFF)
        keys = codes.astype(np.int64)
    else:
        keys = values.astype(np.int64) - (1 << 31 if values.dtype == np.uint32 else 0)
    if descending:
        np.invert(keys, out=keys)
    keys <<= 32
    keys |= places
    return np.asarray(keys)


def positions_of(keys: Array) -> Array:
    """Where the elements were whose ``ranked`` integers these are."""
    return np.bitwise_and(keys, 0xFFFFFFFF)


def order(x: Array, dim: int, descending: bool) -> Any:
    """A stable order along an axis; NaN counts as the largest value."""
    if x.ndim == 0:
        return np.zeros((), np.int64)
    keys = ranked(x, dim, descending)
    if keys is not None:
        keys.sort(-1)
        return np.moveaxis(positions_of(keys), -1, dim)
    if not descending:
        return stable_order(x) if x.ndim == 1 else np.argsort(x, dim, kind="stable")
    turned = order(np.flip(x, dim), dim, False)  # the last of equals comes first here, and last when turned back
    return np.subtract(x.shape[dim] - 1, np.flip(turned, dim))


@reference("aclnnSort", along=lambda x, stable, dim, descending: (dim,))
def sort(x: Array, stable: bool, dim: int, descending: bool) -> Any:
    """Sorted values and where they were; always stable."""
    positions = order(x, dim, descending)
    return (np.take_along_axis(x, positions, dim) if x.ndim else x), positions


reference("aclnnArgsort", along=lambda x, dim, descending: (dim,))(order)

# ------------------------------------------------------------------------------------------------- search


@reference("aclnnSearchSorted")
def search_sorted(sequence: Array, values: Array, out_int32: bool, right: bool, sorter: Optional[Array]) -> Any:
    """Where values fit into a sorted sequence, or each row of values into a row of sequences."""
    if sorter is not None:
        check_range("sorter", sorter, 0, sequence.shape[-1])
        sequence = np.take_along_axis(sequence, sorter, -1)
    rows = sequence.reshape(math.prod(sequence.shape[:-1]), sequence.shape[-1])
    wanted = values.reshape(len(rows), values.shape[-1] if sequence.ndim > 1 else values.size)
    low = np.zeros(wanted.shape, np.int64)
    high = np.full(wanted.shape, rows.shape[1], np.int64)
    # Bisection of all at once. What is not below (or not above) the value bounds its place; so NaN goes to the end.
    for _ in range(rows.shape[1].bit_length()):
        middle = (low + high) // 2
        at = np.take_along_axis(rows, np.minimum(middle, rows.shape[1] - 1), 1)
        bounds = (at > wanted) if right else (at >= wanted)
        low, high = np.where(bounds | (low >= high), low, middle + 1), np.where(bounds, middle, high)
    return low.reshape(values.shape)


@reference("aclnnSearchSorteds")
def search_sorted_number(sequence: Array, value: Any, out_int32: bool, right: bool, sorter: Optional[Array]) -> Any:
    return search_sorted(sequence, np.array([value]), out_int32, right, sorter)


# ------------------------------------------------------------------------------------------------- running


def _running(function: Any, x: Array, dim: int) -> Any:
    """A running sum or product, added up as ``total`` does."""
    if function is np.add and x.ndim:
        return running_sum(x, dim)
    return function.accumulate(x, dim, sum_type(x.dtype)) if x.ndim else x


def _given_dim(x: Array, dim: Any, *_: Any) -> tuple[int]:
    return (int(dim),)


def _cumsum(x: Array, dim: int, dtype: int) -> Any:
    return _running(np.add, cast(x, dtype), dim)


@reference("aclnnCumsum", raw=True)
def cumsum(x: Array, dim: int, dtype: int, *, out: tuple[Array]) -> None:
    """Running sums of the elements after a cast to the data type."""
    if x.ndim and DataType(dtype).numpy == x.dtype == out[0].dtype and running_sum_into(out[0], x, dim):
        return
    if not along(_cumsum, _given_dim, [x, dim, dtype], out):
        round_into(out[0], np.asarray(_cumsum(widen(x), dim, dtype)))


@reference("aclnnCumsumV2", along=_given_dim)
def cumsum_v2(x: Array, dim: int, exclusive: bool, reverse: bool) -> Any:
    """``exclusive`` leaves each element out of its own sum; ``reverse`` adds up from the end."""
    if x.ndim == 0:
        return np.zeros_like(x) if exclusive else x
    sums = _running(np.add, np.flip(x, dim) if reverse else x, dim)
    if exclusive:
        sums = np.roll(sums, 1, dim)
        sums[(slice(None),) * (dim % x.ndim) + (slice(0, 1),)] = 0
    return np.flip(sums, dim) if reverse else sums


@reference("aclnnCumprod", along=_given_dim)
def cumprod(x: Array, dim: Any, dtype: int) -> Any:
    """Running products of the elements after a cast to the data type, where one is named."""
    return _running(np.multiply, x if dtype == DataType.DT_UNDEFINED else cast(x, dtype), int(dim))


@reference("aclnnInplaceCumprod", along=_given_dim)
def cumprod_in_place(x: Array, dim: Any) -> Any:
    return _running(np.multiply, x, int(dim))


def _running_extreme(function: Any) -> Callable[[Array, int], Any]:
    """Running extremes and where they are: of equal ones the last so far. After a NaN there are only NaN."""

    def running(x: Array, dim: int) -> Any:
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        values = function.accumulate(x, dim)
        here = (x == values) | (x != x)
        places = np.arange(x.shape[dim]).reshape([-1 if axis == dim % x.ndim else 1 for axis in range(x.ndim)])
        return values, np.maximum.accumulate(np.where(here, places, 0), dim)

    return running


reference("aclnnCummax", along=_given_dim)(_running_extreme(np.maximum))
reference("aclnnCummin", along=_given_dim)(_running_extreme(np.minimum))
