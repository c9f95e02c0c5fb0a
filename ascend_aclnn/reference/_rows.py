"""What the references share that move rows about: checked indices, gathered rows, orders and their inverses."""

from __future__ import annotations

from typing import Optional

import numpy as np

from ascend_aclnn.numerics import BLOCK, Array, DataError, for_blocks, rows_per_block, scratch, widen
from ascend_aclnn.numerics import codes as codes


def check_range(argument: str, indices: Array, low: int, high: Optional[int]) -> None:
    """Raises DataError for the first index outside [low, high) (``high`` None: no upper bound)."""
    if indices.size == 0 or _in_range(indices, low, high):
        return
    flat = indices.ravel()
    within = flat >= low  # not a NaN
    if high is not None:
        within &= flat < high
    position = int(np.argmin(within))
    allowed = f"{low} or more" if high is None else f"{low} to {high - 1}" if high > low else "none, there are no rows"
    at = ", ".join(str(int(i)) for i in np.unravel_index(position, indices.shape))
    raise DataError(argument, f"element [{at}] is {flat[position]}; allowed: {allowed}")


def _in_range(indices: Array, low: int, high: Optional[int]) -> bool:
    if low == 0 and high is not None and indices.dtype.kind == "i":
        return bool(codes(indices).max() < high)  # read as unsigned, negative numbers are the largest
    return bool(indices.min() >= low and (high is None or indices.max() < high))


def whole_within(x: Array, most: int) -> Array:
    """Floats cut off to whole numbers from 0 to ``most``, in int64; NaN becomes 0.

    NumPy leaves NaN, and what int64 does not hold, to the processor's conversion: x86 has its least number for them.
    """
    return np.minimum(np.fmin(np.fmax(x, 0), 2.0**62).astype(np.int64), most)


def take_rows(source: Array, rows: Array, out: Array) -> None:
    """out[i] = source[rows[i]]; a row out of range gives the first or last, or zeros if there are none."""
    source, out = codes(source), codes(out)
    if len(source) == 0:
        out[...] = 0
    elif source.flags.c_contiguous:
        np.take(source, rows, axis=0, out=out, mode="clip")  # clip, because "raise" buffers the whole result
    else:
        np.copyto(out, source[np.clip(rows, 0, len(source) - 1)])  # take would first copy all of the source


def take_wide(source: Array, rows: Array, out: Array) -> None:
    """take_rows of low-precision rows into float32, or of float32 rows."""
    if source.dtype == out.dtype:
        take_rows(source, rows, out)
    else:
        gathered = scratch("taken", out.shape, source.dtype)
        take_rows(source, rows, gathered)
        widen(gathered, out)


def gather(source: Array, rows: Array, out: Array) -> None:
    """take_rows in blocks, on several threads."""
    step = rows_per_block(source.shape[1], 8 * BLOCK)
    for_blocks(len(rows), step, lambda lo, hi: take_rows(source, rows[lo:hi], out[lo:hi]))


class as_matrix:  # a block, like contextlib's, without a generator
    """A destination as (rows, columns): a view where its strides allow one, else a copy that is written back."""

    __slots__ = ("_matrix", "_out")

    def __init__(self, out: Array, rows: int, columns: int) -> None:
        self._out, self._matrix = out, out.reshape(rows, columns)

    def __enter__(self) -> Array:
        return self._matrix

    def __exit__(self, kind: object, *_: object) -> None:
        out, matrix = self._out, self._matrix
        if kind is None and not (out.flags.c_contiguous or np.may_share_memory(matrix, out)):
            np.copyto(out, matrix.reshape(out.shape))


def stable_order(keys: Array) -> Array:
    """Stable argsort; integers that fit 8 or 16 bits are narrowed first, which makes NumPy use its radix sort."""
    if keys.size and keys.dtype.kind in "iu":
        low, high = int(keys.min()), int(keys.max())
        for dtype in (np.uint8, np.uint16):
            if high - low <= np.iinfo(dtype).max:
                keys = (keys - low).astype(dtype)
                break
    return np.argsort(keys, kind="stable")


def inverse(order: Array) -> Array:
    """The permutation that undoes a permutation."""
    places = np.empty(len(order), np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    return places
