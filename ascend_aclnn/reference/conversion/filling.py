"""References of ops-math/conversion: operators that write values into a tensor, limit them, or keep a part of them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import (
    BLOCK,
    Array,
    elementwise,
    for_blocks,
    in_parts,
    is_integer,
    round_into,
    set_all,
    share,
    widen,
)
from ascend_aclnn.reference._arrays import cast_into, converted
from ascend_aclnn.reference._pointwise import rows
from ascend_aclnn.reference._rows import codes
from ascend_aclnn.reference.declare import reference

# ------------------------------------------------------------------------------------------------- limits


def _limits(x: Array, low: Any, high: Any) -> Array:
    """x within limits; the upper one wins, and NaN stays."""
    if np.size(low) == 0 or np.size(high) == 0:  # in place CANN does nothing then
        return x
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _limit(value: Any, dst: Array) -> Any:
    """A limit for results of a data type: for integers cut off and saturated."""
    if value is None:
        return None
    if is_integer(dst.dtype):
        ends = np.iinfo(dst.dtype)
        return converted(value if isinstance(value, float) else min(max(value, ends.min), ends.max), dst.dtype)
    return float(np.float32(value)) if dst.itemsize < 8 else value


def _within(x: Array, low: Any, high: Any, *, out: tuple[Array]) -> None:
    """x within numbers."""
    (dst,) = out
    low, high = _limit(low, dst), _limit(high, dst)
    if not elementwise(_limits, [x, low, high], out):
        round_into(dst, _limits(widen(x), low, high))


rows("Clamp Hardtanh*", _within, raw=True)
rows("ClampMin", lambda x, low, out: _within(x, low, None, out=out), raw=True)
rows("ClampMax*", lambda x, high, out: _within(x, None, high, out=out), raw=True)
rows("ClampTensor", _limits)
rows("ClampMinTensor*", lambda x, low: _limits(x, low, None))
rows("ClampMaxTensor*", lambda x, high: _limits(x, None, high))

# ------------------------------------------------------------------------------------------------- values


@reference("aclnnInplaceFillScalar", "aclnnInplaceFillTensor", raw=True)
def fill(x: Array, value: Any, *, out: tuple[Array]) -> None:
    """Every element becomes one number, cast to the tensor's data type."""
    set_all(out[0], codes(converted(value, x.dtype)).reshape(-1)[0])


@reference("aclnnInplaceMaskedFillScalar", "aclnnInplaceMaskedFillTensor", raw=True)
def masked_fill(x: Array, mask: Array, value: Any, *, out: tuple[Array]) -> None:
    target, code = codes(out[0]), codes(converted(value, x.dtype))

    def fill_part(part: Array, where: Array) -> None:
        if not native.fill_masked(part, where, code):
            np.copyto(part, code, where=where)

    if mask.shape == target.shape and code.size == 1:
        in_parts(fill_part, target, mask)
    else:
        np.copyto(target, code, where=mask)


@reference("aclnnInplaceCopy", raw=True)
def copy(x: Array, source: Array, *, out: tuple[Array]) -> None:
    """What is broadcast to the tensor, and cast to its data type."""
    # np.broadcast_to takes as long as a whole small copy, and lists of tensors make many small copies.
    cast_into(out[0], source if source.shape == x.shape else np.broadcast_to(source, x.shape))


@reference("aclnnInplaceFillDiagonal", raw=True)
def fill_diagonal(x: Array, value: Any, wrap: bool, *, out: tuple[Array]) -> None:
    """The elements whose indices are equal; a tall matrix gets further diagonals, a row apart, with ``wrap``."""
    if x.size:
        np.fill_diagonal(codes(out[0]), codes(converted(value, x.dtype)), wrap)


# ------------------------------------------------------------------------------------------------- triangles


_BAND = 128  # rows whose part of the diagonal is treated as one


@functools.lru_cache(16)
def _corner(height: int, width: int, diagonal: int, upper: bool, dtype: np.dtype[Any]) -> Array:
    """All bits of what is inside the triangle in a part of a band, none outside; the same for all bands but the outer ones."""
    lower = np.tri(height, width, diagonal, bool)
    corner: Array = np.where(lower if upper else ~lower, dtype.type(0), ~dtype.type(0))
    return corner


def _triangle(x: Array, dst: Array, diagonal: int, upper: bool) -> None:
    """What lies on and above (or below) a diagonal; zeros elsewhere.

    The helper does so row by row, NumPy by bands: a band of rows is copied on one side of its part of the diagonal and zeroed
    on the other; only between them is a mask.
    """
    height, width = x.shape[-2:]
    diagonal = max(-height, min(diagonal, width))
    zeros, values = codes(dst), codes(x)

    def some_rows(lo: int, hi: int) -> None:
        native.triangle(values, zeros, diagonal, upper, lo, hi)

    if native.triangle(values, zeros, diagonal, upper, 0, 0):
        rows = x.size // width
        for_blocks(rows, max(BLOCK // width, share(rows)), some_rows)
        return

    def band(lo: int, hi: int) -> None:
        for top in range(lo * _BAND, min(hi * _BAND, height), _BAND):
            rows_ = slice(top, min(top + _BAND, height))
            # upper: row i keeps columns from i + diagonal on; lower: up to i + diagonal
            first = min(max(top + diagonal + (not upper), 0), width)
            last = min(max(rows_.stop - 1 + diagonal + (not upper), first), width)
            copied, blank = (
                (slice(first, None), slice(None, first)) if upper else (slice(None, last), slice(last, None))
            )
            if x.dtype == dst.dtype and dst is not x:
                np.copyto(zeros[..., rows_, copied], values[..., rows_, copied])
            elif dst is not x:
                cast_into(dst[..., rows_, copied], x[..., rows_, copied])
            zeros[..., rows_, blank] = 0
            corner = _corner(rows_.stop - top, last - first, top + diagonal - first - upper, upper, zeros.dtype)
            zeros[..., rows_, first:last] &= corner  # faster than a copy under a mask

    bands = -(-height // _BAND)
    for_blocks(bands, max(1, BLOCK * bands // max(x.size, 1)), band)


@reference("aclnnTril", "aclnnInplaceTril", raw=True)
def tril(x: Array, diagonal: int, *, out: tuple[Array]) -> None:
    """What lies on and below a diagonal; zeros above."""
    if x.size:
        _triangle(x, out[0], diagonal, False)


@reference("aclnnTriu", "aclnnInplaceTriu", raw=True)
def triu(x: Array, diagonal: int, *, out: tuple[Array]) -> None:
    """What lies on and above a diagonal; zeros below."""
    if x.size:
        _triangle(x, out[0], diagonal, True)


# ------------------------------------------------------------------------------------------------- diagonals


def _matrix(x: Array, diagonal: int) -> Array:
    """Elements along a diagonal, zeros elsewhere."""
    side = x.size + abs(diagonal)
    matrix = np.zeros((side, side), x.dtype)
    index = np.arange(x.size)
    matrix[index + max(-diagonal, 0), index + max(diagonal, 0)] = x.reshape(-1)
    return matrix


@reference("aclnnDiag", raw=True)
def diag(x: Array, diagonal: int, *, out: tuple[Array]) -> None:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix."""
    (dst,) = out
    if dst.size:
        cast_into(dst, np.diagonal(x, diagonal) if x.ndim == 2 else _matrix(x, diagonal))


@reference("aclnnDiagFlat", raw=True)
def diag_flat(x: Array, diagonal: int, *, out: tuple[Array]) -> None:
    """All elements as the diagonal of a matrix."""
    cast_into(out[0], _matrix(x, diagonal))
