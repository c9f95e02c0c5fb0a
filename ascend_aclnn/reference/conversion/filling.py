"""References of ops-math/conversion: operators that write values into a tensor, limit them, or keep a part of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array, is_integer, round_into, widen
from ascend_aclnn.reference._arrays import cast_into, converted
from ascend_aclnn.reference._pointwise import rows
from ascend_aclnn.reference._rows import codes
from ascend_aclnn.reference.declare import reference

# ------------------------------------------------------------------------------------------------- limits


def _limits(x: Array, low: Any, high: Any) -> Array:
    """x within limits; the upper one wins, and NaN stays."""
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
    return np.float32(value) if dst.itemsize < 8 else value


def _within(x: Array, low: Any, high: Any, *, out: tuple[Array]) -> None:
    """x within numbers."""
    (dst,) = out
    round_into(dst, _limits(widen(x), _limit(low, dst), _limit(high, dst)))


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
    codes(out[0])[...] = codes(converted(value, x.dtype)).reshape(-1)[0]


@reference("aclnnInplaceMaskedFillScalar", "aclnnInplaceMaskedFillTensor", raw=True)
def masked_fill(x: Array, mask: Array, value: Any, *, out: tuple[Array]) -> None:
    np.copyto(codes(out[0]), codes(converted(value, x.dtype)), where=mask)


@reference("aclnnInplaceCopy", raw=True)
def copy(x: Array, source: Array, *, out: tuple[Array]) -> None:
    """What is broadcast to the tensor, and cast to its data type."""
    cast_into(out[0], np.broadcast_to(source, x.shape))


@reference("aclnnInplaceFillDiagonal", raw=True)
def fill_diagonal(x: Array, value: Any, wrap: bool, *, out: tuple[Array]) -> None:
    """The elements whose indices are equal; a tall matrix gets further diagonals, a row apart, with ``wrap``."""
    if x.size:
        np.fill_diagonal(codes(out[0]), codes(converted(value, x.dtype)), wrap)


# ------------------------------------------------------------------------------------------------- triangles


def _lower(shape: tuple[int, ...], diagonal: int) -> Any:
    """True on and below a diagonal."""
    height, width = shape[-2:]
    return np.tri(height, width, max(-height, min(diagonal, width)), bool)


def _keep(x: Array, dst: Array, kept: Any) -> None:
    if dst is not x:
        cast_into(dst, x)
    np.copyto(codes(dst), 0, where=~kept)


@reference("aclnnTril", "aclnnInplaceTril", raw=True)
def tril(x: Array, diagonal: int, *, out: tuple[Array]) -> None:
    """What lies on and below a diagonal; zeros above."""
    _keep(x, out[0], _lower(x.shape, diagonal))


@reference("aclnnTriu", "aclnnInplaceTriu", raw=True)
def triu(x: Array, diagonal: int, *, out: tuple[Array]) -> None:
    """What lies on and above a diagonal; zeros below."""
    if x.size:
        _keep(x, out[0], ~_lower(x.shape, diagonal - 1))


# ------------------------------------------------------------------------------------------------- diagonals


def _matrix(x: Array, diagonal: int) -> Array:
    """Elements along a diagonal, zeros elsewhere."""
    side = x.size + abs(diagonal)
    made = np.zeros((side, side), x.dtype)
    index = np.arange(x.size)
    made[index + max(-diagonal, 0), index + max(diagonal, 0)] = x.reshape(-1)
    return made


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
