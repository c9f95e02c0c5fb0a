"""Writing at indices: elements along an axis, slices, coordinates, masks.

Values for one place are combined in their order; where they replace each other the last one stays. CANN leaves both open.
Sums and products of floats are float64, rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, add_rows, is_integer, round_into, rounded_to, sum_type, widen
from ascend_aclnn.numerics import along as run_along
from ascend_aclnn.reference._arrays import cast_into, converted
from ascend_aclnn.reference._pointwise import number, trunc_quotient
from ascend_aclnn.reference._quantise import by_scale, largest
from ascend_aclnn.reference._rows import check_range, codes, stable_order
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.index._places import along, combine, coordinates, flat, places, rows_of, vectors
from ascend_aclnn.reference.index.gather import subscripts

# ------------------------------------------------------------------------------------------------- along an axis

ADD, MUL, MAX, MIN, MEAN = range(1, 6)  # the numbers that name reductions; all others stand for none
_FUNCTIONS = {ADD: np.add, MUL: np.multiply, MAX: np.maximum, MIN: np.minimum, MEAN: np.add}


def _reduced(x: Array, rows: Array, values: Array, reduce: int, fresh: bool = False) -> Array:
    """A vector, or rows, with values combined into those that ``rows`` names; NaN is both largest and smallest."""
    total: Array = x.astype(sum_type(x.dtype))
    combine(_FUNCTIONS[reduce], total, rows, values, fresh)
    if reduce == MEAN:
        hits = np.bincount(rows, minlength=len(x)) + (not fresh)
        hits = np.maximum(hits, 1)
        total = np.asarray(total / hits if total.dtype.kind in "fc" else np.floor_divide(total, hits))
    return total


def _scattered(x: Array, dim: int, index: Array, values: Array, reduce: int, fresh: bool = False) -> Array:
    """x with values at the places that ``index`` names on an axis."""
    if index.size == 0:
        return x
    (vector, axis), (index, _) = vectors(x, dim), vectors(index, dim)
    values = values.reshape(1) if values.ndim == 0 else values
    values = np.broadcast_to(values, index.shape) if values.size == 1 else values[tuple(map(slice, index.shape))]
    at = along(places("index", index, vector.shape[axis]), axis)
    if reduce not in _FUNCTIONS:
        result: Array = vector.copy()
        codes(result)[at] = codes(values)
        return result.reshape(x.shape)
    rows = flat(at, vector.shape).reshape(-1)
    return _reduced(vector.reshape(-1), rows, values.reshape(-1), reduce, fresh).reshape(x.shape)


def _same_beside(x: Array, dim: int, index: Array, source: Array, *_: Any) -> Optional[tuple[int]]:
    """The axis, where index and source have the tensor's size on all others."""
    if not x.ndim == index.ndim == source.ndim:
        return None
    others = [axis for axis in range(x.ndim) if axis != dim % x.ndim]
    fits = all(x.shape[axis] == index.shape[axis] == source.shape[axis] for axis in others)
    return (dim,) if fits else None


def _same_rows(x: Array, dim: int, index: Array, source: Array, *_: Any) -> Optional[tuple[int]]:
    """The axis, where source has the tensor's size on all others."""
    if x.ndim != source.ndim:
        return None
    return (dim,) if all(x.shape[a] == source.shape[a] for a in range(x.ndim) if a != dim % x.ndim) else None


@reference("aclnnScatter", "aclnnInplaceScatter", along=_same_beside)
def scatter(x: Array, dim: int, index: Array, source: Array, reduce: int) -> Any:
    """x[index[i][j]][j] = source[i][j] for dim 0; or added to, multiplied with it."""
    return _scattered(x, dim, index, source, reduce)


@reference("aclnnScatterValue", "aclnnInplaceScatterValue")
def scatter_value(x: Array, dim: int, index: Array, value: Any, reduce: int) -> Any:
    """One number for all places; it is cast to the data type of the tensor."""
    return _scattered(x, dim, index, converted(value, x.dtype), reduce)


@reference("aclnnScatterAdd", along=_same_beside)
def scatter_add(x: Array, dim: int, index: Array, source: Array) -> Any:
    return _scattered(x, dim, index, source, ADD)


@reference("aclnnScatterReduce", "aclnnInplaceScatterReduce", along=_same_beside)
def scatter_reduce(x: Array, dim: int, index: Array, source: Array, reduce: int, include_self: bool) -> Any:
    """Unless ``include_self``, the old values of the places that get some do not count."""
    return _scattered(x, dim, index, source, reduce, not include_self)


# ------------------------------------------------------------------------------------------------- entries of an axis


def _entries(values: Array, like: Array, axis: int) -> Array:
    """Values for entries of an axis of a tensor, the entries first; a 0-d tensor is one entry."""
    return np.moveaxis(values.reshape((*like.shape[:axis], -1, *like.shape[axis + 1 :])), axis, 0)


def _into_axis(
    x: Array, dim: int, index: Array, values: Array, change: Callable[[Array, Array, Array], Array]
) -> Array:
    """x with the entries of an axis that ``index`` names changed: change(rows of x, their numbers, rows of values)."""
    vector, axis = vectors(x, dim)
    lines = np.moveaxis(vector, axis, 0)
    wanted = _entries(values, vector, axis)
    changed = change(rows_of(lines, 1), places("index", index.reshape(-1), len(lines)), rows_of(wanted, 1))
    return np.moveaxis(changed.reshape(lines.shape), 0, axis).reshape(x.shape)


def _whole_rows(x: Array, dim: int, source: Array, out: Array) -> bool:
    """True where the entries of an axis are rows of a contiguous matrix of floats, and the output is other memory."""
    arrays = (x, source, out)
    if (
        x.ndim == 0
        or math.prod(x.shape[: dim % x.ndim]) != 1
        or x.ndim != source.ndim
        or widen(x[:0]).dtype != np.float32
    ):
        return False
    if any(array.dtype != x.dtype or not array.flags.c_contiguous or array.itemsize == 1 for array in arrays):
        return False
    return not np.may_share_memory(out, x) and not np.may_share_memory(out, source)


@reference("aclnnIndexAdd", raw=True)
def index_add(x: Array, dim: int, index: Array, source: Array, alpha: Any, *, out: tuple[Array]) -> None:
    """Adds alpha * source to entries of an axis."""
    one = alpha == 1 and not isinstance(alpha, bool)
    if one and x.size and index.size and _whole_rows(x, dim, source, out[0]):
        size = x.shape[dim]
        rows = places("index", index.reshape(-1), size)
        order = stable_order(rows).astype(np.int64, copy=False)
        add_rows(out[0].reshape(size, -1), x.reshape(size, -1), order, rows[order], source.reshape(len(rows), -1))
    elif not run_along(_index_added, _same_rows, (x, dim, index, source, alpha), out):
        round_into(out[0], np.asarray(_index_added(widen(x), dim, index, widen(source), alpha)))


def _index_added(x: Array, dim: int, index: Array, source: Array, alpha: Any) -> Any:
    if x.size == 0 or index.size == 0:
        return x
    scaled = source
    if alpha != 1 or isinstance(alpha, bool):
        scaled = (source.astype(sum_type(x.dtype)) * number(alpha, x)).astype(sum_type(x.dtype))
    return _into_axis(x, dim, index, scaled, lambda x, rows, v: _reduced(x, rows, v, ADD))


@reference("aclnnIndexAddV2", raw=True)
def index_add_v2(x: Array, dim: int, index: Array, source: Array, alpha: Any, mode: int, *, out: tuple[Array]) -> None:
    """As IndexAdd; in mode 0, the fast one, alpha is not used."""
    index_add(x, dim, index, source, 1 if mode == 0 else alpha, out=out)


@reference("aclnnInplaceIndexCopy", raw=True)
def index_copy_in_place(x: Array, dim: int, index: Array, source: Array, *, out: tuple[Array]) -> None:
    """Replaces entries of an axis."""
    if x.size and index.size:
        target, axis = vectors(out[0], dim)
        rows = places("index", index.reshape(-1), target.shape[axis])
        np.moveaxis(codes(target), axis, 0)[rows] = _entries(codes(source), target, axis)


@reference("aclnnIndexCopy", raw=True)
def index_copy(x: Array, dim: int, index: Array, source: Array, _: Array, *, out: tuple[Array, Array]) -> None:
    """The same into a copy of the tensor, which is not made if there is nothing to replace."""
    if x.size and index.size:
        cast_into(out[1], x)
        index_copy_in_place(x, dim, index, source, out=out[1:])


def _filled(x: Array, dim: int, index: Array, value: Any) -> Array:
    vector, axis = vectors(x, dim)
    result: Array = vector.copy()
    np.moveaxis(result, axis, 0)[index] = converted(value, x.dtype)
    return result.reshape(x.shape)


@reference("aclnnIndexFill", "aclnnInplaceIndexFill")
def index_fill(x: Array, dim: int, index: Array, value: Any) -> Any:
    """One number for entries of an axis; negative indices count from the end, those beyond it are passed over."""
    size = x.shape[dim] if x.ndim else 1
    wide = index.reshape(-1).astype(np.int64)
    return _filled(x, dim, wide[(wide >= -size) & (wide < size)], value)


@reference("aclnnIndexFillTensor", "aclnnInplaceIndexFillTensor")
def index_fill_array(x: Array, dim: int, index: Sequence[int], value: Any) -> Any:
    """As IndexFill, with indices that phase one has checked."""
    return _filled(x, dim, np.array(index, np.int64), value)


# ------------------------------------------------------------------------------------------------- x[i, j] = values


@reference("aclnnIndexPutImpl", raw=True)
def index_put(
    x: Array, indices: Sequence[Array], values: Array, accumulate: bool, unsafe: bool, *, out: tuple[Array]
) -> None:
    """x[i, j, ...] = values, or += values where all of several values for one element count."""
    # An empty index stands for a full slice beside others; alone it is what a mask without a single True has become.
    if x.size == 0 or values.size == 0 or not any(index.size for index in indices):
        return
    target, _ = vectors(out[0], 0)
    at = subscripts(target, indices)
    if accumulate:
        _add_at(target, np.arange(target.size).reshape(target.shape)[at], values, "values")
    else:
        codes(target)[at] = _fitting(codes(values), codes(target)[at].shape, "values")


def _fitting(values: Array, shape: tuple[int, ...], argument: str) -> Array:
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise DataError(argument, f"has shape {values.shape}; the indices name {shape}") from None


def _add_at(target: Array, rows: Array, values: Array, argument: str) -> None:
    """Adds values to elements of the flattened tensor."""
    flattened = widen(np.ascontiguousarray(target).reshape(-1))
    wanted = widen(_fitting(values, rows.shape, argument)).reshape(-1)
    round_into(target, _reduced(flattened, rows.reshape(-1), wanted, ADD).reshape(target.shape))


@reference("aclnnInplacePut", raw=True)
def put(x: Array, index: Array, source: Array, accumulate: bool, *, out: tuple[Array]) -> None:
    """Writes into, or adds to, elements of the flattened tensor."""
    if index.size == 0:
        return
    target, _ = vectors(out[0], 0)
    rows = places("index", index.reshape(-1), x.size)
    if accumulate:
        _add_at(target, rows, source.reshape(-1), "source")
    else:
        codes(target)[np.unravel_index(rows, target.shape)] = codes(source).reshape(-1)


@reference("aclnnInplaceMaskedScatter", raw=True)
def masked_scatter(x: Array, mask: Array, source: Array, *, out: tuple[Array]) -> None:
    """The elements where the mask is not 0 get the first ones of ``source``."""
    chosen = np.broadcast_to(mask != 0, x.shape)
    count = np.count_nonzero(chosen)
    if count > source.size:
        raise DataError("source", f"has {source.size} elements; the mask chooses {count}")
    codes(out[0])[chosen] = codes(source).reshape(-1)[:count]


# ------------------------------------------------------------------------------------------------- coordinates, slices


@reference("aclnnScatterNdUpdate", raw=True)
def scatter_nd_update(x: Array, indices: Array, updates: Array, *, out: tuple[Array]) -> None:
    """x[coordinates] = updates; the coordinates are on the last axis of ``indices``."""
    codes(out[0])[coordinates("indices", x.shape, indices)] = codes(updates)


@reference("aclnnScatterNd", raw=True)
def scatter_nd(x: Array, indices: Array, updates: Array, *, out: tuple[Array]) -> None:
    """The same in a copy."""
    cast_into(out[0], x)
    scatter_nd_update(x, indices, updates, out=out)


def _at_coordinates(x: Array, indices: Array, updates: Array, change: Callable[..., Array]) -> Array:
    """x with the elements or slices changed whose coordinates ``indices`` holds."""
    depth = indices.shape[-1]
    rows = flat(coordinates("indices", x.shape, indices), x.shape).reshape(-1) if depth else np.zeros(1, np.int64)
    slices = rows_of(x, depth)
    return change(slices, rows, updates.reshape(len(rows), slices.shape[1])).reshape(x.shape)


def _in_rows(x: Array, indices: Array, updates: Array, change: Callable[..., Array]) -> Array:
    """x with the slices of its first axis changed that ``indices`` names."""
    rows = places("indices", indices.reshape(-1), len(x))
    slices = rows_of(x, 1)
    return change(slices, rows, updates.reshape(len(rows), slices.shape[1])).reshape(x.shape)


@reference("aclnnTfScatterAdd")
def tf_scatter_add(x: Array, indices: Array, updates: Array) -> Any:
    """Adds to slices: of the first axis where the shapes fit that, else to those at coordinates."""
    where = _in_rows if updates.shape == indices.shape + x.shape[1:] else _at_coordinates
    return where(x, indices, updates, lambda x, rows, values: _reduced(x, rows, values, ADD))


def _tf_scatter(name: str, reduce: int) -> None:
    """ScatterMul, ScatterMax, ScatterMin: into slices of the first axis. Locking is a matter of threads."""

    def function(x: Array, indices: Array, updates: Array, use_locking: bool) -> Any:
        return _in_rows(x, indices, updates, lambda x, rows, values: _reduced(x, rows, values, reduce))

    reference(name)(function)


_tf_scatter("aclnnScatterMul", MUL)
_tf_scatter("aclnnScatterMax", MAX)
_tf_scatter("aclnnScatterMin", MIN)


@reference("aclnnScatterDiv")
def scatter_div(x: Array, indices: Array, updates: Array, use_locking: bool) -> Any:
    """Divides slices of the first axis, one update after the other; integers towards zero."""
    if updates.dtype.kind in "iu" and not updates.all():
        raise DataError("updates", "holds a 0; integers are not divided by it")
    return _in_rows(x, indices, updates, _divided)


def _divided(x: Array, rows: Array, values: Array) -> Array:
    result = x.astype(sum_type(x.dtype))
    order = stable_order(rows)
    ordered = rows[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(rows) else np.zeros(0, np.int64)
    turn = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
    for i in range(int(turn.max(initial=-1)) + 1):  # the i-th update of every row
        now = order[turn == i]
        result[rows[now]] = (
            trunc_quotient(result[rows[now]], values[now]) if x.dtype.kind in "iu" else result[rows[now]] / values[now]
        )
    return result


# ------------------------------------------------------------------------------------------------- updates at offsets


def _at_offsets(x: Array, indices: Array, updates: Array, axis: int) -> None:
    """Writes updates[i] into x[i] (x[indices[i][0]] if they are pairs) from an offset of an axis on."""
    if axis % x.ndim == 0:
        raise DataError("axis", f"is {axis}; allowed: every axis but the first")
    pairs = indices.ndim == 2
    batches = places("indices", indices[:, 0], len(x)) if pairs else np.arange(len(updates))
    offsets = indices[:, 1] if pairs else indices.reshape(-1)
    lines, news = np.moveaxis(x, axis, 1), np.moveaxis(updates, axis, 1)
    check_range("indices", offsets, 0, max(lines.shape[1] - news.shape[1] + 1, 0))
    lines[batches[:, None], offsets.astype(np.int64)[:, None] + np.arange(news.shape[1])] = news


@reference("aclnnInplaceScatterUpdate", raw=True)
def scatter_update(x: Array, indices: Array, updates: Array, axis: int, *, out: tuple[Array]) -> None:
    """Replaces a stretch of an axis, at another offset for each entry of the first axis."""
    _at_offsets(codes(out[0]), indices, codes(updates), axis)


@reference("aclnnInplaceQuantScatter", raw=True)
def quant_scatter(
    x: Array,
    indices: Array,
    updates: Array,
    scales: Array,
    zero_points: Optional[Array],
    axis: int,
    quant_axis: int,
    reduction: int,
    *,
    out: tuple[Array],
) -> None:
    """ScatterUpdate of updates / scales + zero points, rounded half to even and saturated.

    The scales are for the entries of the last axis, the only one that CANN quantises along.
    """
    offset = None if zero_points is None else widen(zero_points).reshape(-1).astype(np.float32)
    most = largest(x.dtype)
    quantised = np.clip(
        by_scale(widen(updates), widen(scales).reshape(-1), offset, True), -most - is_integer(x.dtype), most
    )
    _at_offsets(codes(out[0]), indices, codes(rounded_to(quantised, x.dtype)), axis)


@reference("aclnnInplaceQuantScatterV2", raw=True)
def quant_scatter_v2(*arguments: Any, out: tuple[Array]) -> None:
    """The same for other data types too; each has one round mode."""
    quant_scatter(*arguments[:-1], out=out)


@reference("aclnnScatterList", raw=True)
def scatter_list(
    variables: Sequence[Array],
    indices: Array,
    updates: Array,
    mask: Any,
    reduce: str,
    axis: int,
    *,
    out: tuple[Sequence[Array]],
) -> None:
    """Replaces a stretch of an axis in each tensor of a list: from an offset on, pairs say how many entries."""
    axis = axis % updates.ndim - 1
    for i, variable in enumerate(out[0]):
        if mask is not None and mask[i] != 1:
            continue
        line, news = np.moveaxis(codes(variable), axis, 0), np.moveaxis(codes(updates[i]), axis, 0)
        start, count = (int(indices[i]), len(news)) if indices.ndim == 1 else map(int, indices[i])
        if not 0 <= start <= start + count <= len(line) or count > len(news):
            raise DataError("indice", f"element [{i}] names {count} entries from {start} on; there are {len(line)}")
        line[start : start + count] = news[:count]
