"""What references of ops-math share: casts, reduced axes and sums that do not depend on the order of their terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.numerics import Array, is_integer, is_low_precision, round_into, widen
from ascend_aclnn.reference._pointwise import is_whole
from ascend_aclnn.reference._rows import codes


def cast(x: Array, dtype: int) -> Array:
    """What CANN's Cast makes of values, widened: floats are cut off and saturated, to BOOL all but 0 becomes True."""
    wanted = DataType(dtype).numpy
    return x if wanted is None or wanted == x.dtype else widen(converted(x, wanted))


def converted(value: Any, dtype: np.dtype[Any]) -> Array:
    """An array or a number as CANN's Cast gives it in a data type."""
    x = np.asarray(value)
    made = np.empty(x.shape, dtype)
    cast_into(made, x)
    return made


def cast_into(out: Array, x: Array) -> None:
    """Stores values as CANN's Cast does; within one data type bit by bit. Two single elements may differ in rank."""
    if x.shape != out.shape and x.size == out.size == 1:
        x = x.reshape(out.shape)
    if x.dtype == out.dtype:
        np.copyto(codes(out), codes(x))
        return
    if out.dtype == np.float32 and is_low_precision(x.dtype):
        widen(x, out)
        return
    if x.dtype.kind == "c" and out.dtype.kind != "c":
        x = x != 0 if out.dtype.kind == "b" else x.real
    x = widen(x)
    round_into(out, np.trunc(x) if is_integer(out.dtype) and not is_whole(x) else x)


def reduced_axes(named: Optional[Sequence[int]], ndim: int) -> tuple[int, ...]:
    """The axes to reduce: all of them where none are named, and none of a 0-d tensor."""
    return tuple(named) if named and ndim else tuple(range(ndim))


def sum_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The data type to add in: sums of floats are good to one rounding in any order, those of integers wrap around."""
    return np.dtype({"f": np.float64, "c": np.complex128}.get(dtype.kind, dtype))


def total(x: Array, axes: Optional[tuple[int, ...]] = None, keepdims: bool = False) -> Any:
    """The sum over axes, all if none are given."""
    return np.sum(x, axes, sum_type(x.dtype), keepdims=keepdims)


def count(x: Array, axes: tuple[int, ...]) -> int:
    """How many elements a reduction over axes takes together."""
    return int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
