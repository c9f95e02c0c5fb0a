"""Largest numbers and sums; the sums are in float64, each in one order.

They have the same bits with the compiled helper and without, whatever is cut into blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import convert
from ascend_aclnn.numerics.threads import Array, for_blocks, scratch, thread_count
from ascend_aclnn.numerics.tracing import Traced

try:  # what np.einsum calls, whose search for other packages' arrays takes twice as long as a few rows
    from numpy._core.multiarray import c_einsum as _einsum
except ImportError:
    _einsum = np.einsum
_reduce: Any = np.add.reduce  # np.sum takes twice as long on a few elements
_maximum: Any = np.maximum.reduce
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_KINDS = {"f": _FLOAT64, "c": np.dtype(np.complex128)}


def sum_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The data type to add in: sums of floats are good to one rounding in any order, those of integers wrap around."""
    return _KINDS.get(dtype.kind, dtype)


def sum_over(x: Any, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Any:
    """The sum over axes, all if none are given, in ``sum_type``.

    Rows of contiguous float32 (or, where they are many, bfloat16) are added up pairwise as NumPy adds up contiguous float64,
    columns from the first row on.
    """
    if type(x) is not np.ndarray:
        if isinstance(x, Traced):
            return x.row_sum(axes, keepdims)
        x = np.asarray(x)
    if x.size <= _FEW and x.ndim:
        dtype = _FLOAT64 if x.dtype is _FLOAT32 else sum_type(x.dtype)
        # One axis as a number: NumPy takes half as long as for a tuple.
        places = axes[0] if axes is not None and len(axes) == 1 else None if axes is None else tuple(axes)
        return _reduce(x, places, dtype, None, keepdims)
    every = tuple(range(x.ndim)) if axes is None else tuple([axis % x.ndim for axis in axes]) if x.ndim else ()
    if x.dtype in (_FLOAT32, _BFLOAT16) and every and x.size and x.flags.c_contiguous:
        count = len(every)
        first = x.ndim - count
        if every == tuple(range(first, x.ndim)):
            shape = x.shape[:first] + (1,) * count if keepdims else x.shape[:first]
            return _of_rows(x.reshape(-1, math.prod(x.shape[first:]))).reshape(shape)
        if every == tuple(range(count)) and x.dtype == _FLOAT32:
            shape = (1,) * count + x.shape[count:] if keepdims else x.shape[count:]
            return _of_columns(x.reshape(math.prod(x.shape[:count]), -1)).reshape(shape)
    if (
        x.dtype == _FLOAT32
        and every == (0,)
        and x.ndim == 2
        and x.strides[1] == 4
        and x.strides[0] >= 4 * x.shape[1] > 4
    ):
        return _of_columns(x).reshape((1, -1) if keepdims else -1)  # some columns of a matrix
    return _reduce(x, every, sum_type(x.dtype), None, keepdims)


def row_products(x: Array, y: Array) -> Array:
    """The sums of products of two matrices' rows, in float32 where both are."""
    products: Array = _einsum("ij,ij->i", x, y)
    return products


def sum_of_squares(x: Array, axes: Sequence[int], keepdims: bool = False) -> Any:
    """The sum of squares in ``sum_type``; those of float32 are exact."""
    if isinstance(x, Traced):
        return x.row_sum(axes, keepdims, squared=True)
    wide = np.array(x, sum_type(x.dtype))  # a copy, of which the squares take the memory
    np.square(wide, wide)
    return _reduce(wide, tuple(axes), None, None, keepdims)


def running_sum(x: Array, axis: int) -> Array:
    """The sums of all elements up to each one along an axis, in ``sum_type``, from the first on."""
    if x.dtype == _FLOAT32:
        sums = np.empty(x.shape)
        if running_sum_into(sums, x, axis):
            return sums
    return np.asarray(np.add.accumulate(x, axis, sum_type(x.dtype)))


def running_sum_into(out: Array, x: Array, axis: int) -> bool:
    """``running_sum``, each rounded once, by the compiled helper on all cores, or for a large matrix by NumPy in blocks.

    False, with nothing written, where neither can.
    """
    return _running_sum_by_helper(out, x, axis) or _running_sum_by_numpy(out, x, axis)


def _running_sum_by_helper(out: Array, x: Array, axis: int) -> bool:
    contiguous = x.flags.c_contiguous and out.flags.c_contiguous
    if x.size <= _FEW or not contiguous or x.shape != out.shape or np.may_share_memory(out, x):
        return False
    axis %= x.ndim
    before, size = math.prod(x.shape[:axis]), x.shape[axis]
    behind = x.size // (before * size)
    of_columns = behind > 1
    shape = (before, size, behind) if of_columns else (1, before, size)
    source, target = x.reshape(shape), out.reshape(shape)
    if not native.running_sum(source[0, :1], target[0, :1], of_columns):  # the first sums, to find out
        return False
    lines = behind if of_columns else before
    step = max(_COLUMNS if of_columns else _ROWS, convert.BLOCK // size)

    def add(low: int, high: int) -> None:
        for number in range(low, high):
            plane, start = divmod(number, -(-lines // step))
            some = slice(start * step, (start + 1) * step)
            part = (plane, slice(None), some) if of_columns else (0, some)
            native.running_sum(source[part], target[part], of_columns)

    for_blocks(shape[0] * -(-lines // step), 1, add)
    return True


def _running_sum_by_numpy(out: Array, x: Array, axis: int) -> bool:
    if native.runs_programs() or x.ndim != 2 or x.size <= 2 * convert.BLOCK or x.shape != out.shape:
        return False
    if x.dtype.kind in "iuc" or np.may_share_memory(out, x):
        return False
    return _running_sum_of_rows(out, x) if axis % 2 else _running_sum_of_columns(out, x)


def _running_sum_of_rows(out: Array, x: Array) -> bool:
    """On all cores; False where rows are few.

    NumPy holds the interpreter lock while it accumulates fewer rows than five hundred, so some columns of many are done at
    a time, from the sums so far on.
    """
    rows, columns = x.shape
    if rows < 2 * _MANY_ROWS:
        return False
    width = min(columns, convert.BLOCK // _MANY_ROWS)

    def add(low: int, high: int) -> None:
        shape = (high - low, width + 1)
        single = scratch("sums.single", (high - low, width), _FLOAT32)
        wide, sums = scratch("sums.wide", shape, _FLOAT64), scratch("sums.running", shape, _FLOAT64)
        for start in range(0, columns, width):
            n = min(width, columns - start)
            part, first = x[low:high, start : start + n], int(start == 0)
            if convert.is_low_precision(x.dtype):
                target = single if n == width else np.empty((high - low, n), np.float32)
                convert.widen_block(target, part)
                part = target
            wide[:, 0] = sums[:, -1]
            np.copyto(wide[:, 1 : n + 1], part)
            np.add.accumulate(wide[:, first : n + 1], 1, None, sums[:, first : n + 1])
            convert.round_block(out[low:high, start : start + n], sums[:, 1 : n + 1])

    for_blocks(rows, _MANY_ROWS, add)
    return True


def _running_sum_of_columns(out: Array, x: Array) -> bool:
    """Row by row; False where rows are short."""
    rows, columns = x.shape
    if columns < _COLUMNS:
        return False
    step = convert.rows_per_block(columns)
    sums = np.zeros((min(step, rows) + 1, columns))
    with np.errstate(all="ignore"):
        for low in range(0, rows, step):
            part = convert.widen(x[low : low + step])
            n = len(part)
            np.copyto(sums[1 : n + 1], part)
            for row in range(1 if low else 2, n + 1):
                np.add(sums[row - 1], sums[row], sums[row])
            convert.round_into(out[low : low + n], sums[1 : n + 1])
            sums[0] = sums[n]
    return True


def row_maximum(x: Any, axis: int) -> Any:
    """The largest along an axis, which stays with size 1; -infinity of nothing."""
    return _maximum(x, axis, None, None, True, -np.inf)


def _of_rows(x: Array) -> Array:
    rows, columns = x.shape
    sums = np.empty(rows)
    same = columns <= native.LONG_ROW or native.adds_long_rows()
    if x.size > _FEW and same and x.dtype == _FLOAT32 and native.runs_programs() and native.add_up(x[:0], sums[:0]):

        def add(low: int, high: int) -> None:
            native.add_up(x[low:high], sums[low:high])

        for_blocks(rows, convert.rows_per_block(columns), add)
        return sums
    step = convert.rows_per_block(columns)
    for lo in range(0, rows, step):
        part = x[lo : lo + step]
        wide = scratch("sums.wide", part.shape, _FLOAT64)
        np.copyto(wide, part)
        _reduce(wide, 1, None, sums[lo : lo + step])
    sums += 0.0  # no negative zeros
    return sums


def _of_columns(x: Array) -> Array:
    sums = np.zeros(x.shape[1])
    if x.size > _FEW and native.runs_programs() and _add_by_helper(sums, x):
        return sums
    return np.asarray(_reduce(x, 0, np.float64))


def _add_by_helper(sums: Array, x: Array) -> bool:
    """The rows of a matrix of floats added to sums, some columns on each core; False, with nothing done, where it cannot be."""
    if x.size <= 2 * convert.BLOCK:
        return native.add_columns(x, sums)
    if not (x.flags.aligned and native.add_columns(x[:0], sums)):
        return False

    def add(low: int, high: int) -> None:
        native.add_columns(x[:, low:high], sums[low:high])

    share = -(-x.shape[1] // (8 * thread_count())) * 8  # whole vectors
    for_blocks(x.shape[1], max(_FEW_COLUMNS, min(2 * _COLUMNS, share)), add)
    return True


def column_sums(x: Array) -> Optional[Array]:
    """``sum_over`` of the columns of a matrix of float32 or 16-bit floats, which are not widened in memory.

    None where the compiled helper cannot.
    """
    sums = np.zeros(x.shape[1])
    return sums if native.runs_programs() and _add_by_helper(sums, x) else None


def add_columns(sums: Array, x: Array) -> None:
    """Adds the rows of a float32 matrix to float64 sums, which are zeros at first, one after the other.

    All rows of a long matrix so give what ``sum_over`` gives for its columns.
    """
    if native.runs_programs() and _add_by_helper(sums, x):
        return
    step = convert.rows_per_block(x.shape[1], convert.BLOCK)
    for low in range(0, len(x), step):
        sums[...] = _reduce(np.concatenate((sums[None], x[low : low + step])), 0)


_FEW = 1 << 10  # elements up to which NumPy is as fast
_MANY_ROWS = 512
_ROWS, _COLUMNS = 16, 512  # that a running sum does at a time at least
_FEW_COLUMNS = 64  # which one thread adds up

__all__ = [
    "add_columns",
    "column_sums",
    "row_maximum",
    "running_sum",
    "running_sum_into",
    "sum_of_squares",
    "sum_over",
    "sum_type",
]
