"""What references of ops-math share: casts, reduced axes and sums that do not depend on the order of their terms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.numerics import (
    BLOCK,
    Array,
    codes,
    for_blocks,
    in_parts,
    is_integer,
    is_low_precision,
    move,
    round_into,
    scratch,
    share,
    sum_over,
    sum_type,
    widen,
    widened,
)
from ascend_aclnn.reference._pointwise import is_whole


def cast(x: Array, dtype: int) -> Array:
    """What CANN's Cast makes of values, widened; to BOOL all but 0 becomes True."""
    wanted = DataType(dtype).numpy
    return x if wanted is None or wanted == x.dtype else widen(converted(x, wanted))


def converted(value: Any, dtype: np.dtype[Any]) -> Array:
    """An array as CANN's Cast gives it in a data type; a number, which the host converts, saturates."""
    x = np.asarray(value)
    result = np.empty(x.shape, dtype)
    if x is not value and x.dtype.kind == "f" and is_integer(result.dtype):
        round_into(result, np.trunc(x))
    else:
        cast_into(result, x)
    return result


# Through which integers CANN casts floats to narrower ones: cut off, saturated to these, of which the low bits stay, so
# that values out of range wrap around. From float32, and what is widened to it, as the kernel of Ascend 950 has it
# (ops-math math/cast/op_kernel/arch35/cast_struct.h); to UINT16, and from float64, which AI CPUs cast, as the conversion
# instructions of ARM do. Wider integers saturate; NaN becomes 0 everywhere (aclnnCast.md).
_THROUGH = {
    ("float32", "int8"): np.int32,
    ("float32", "int16"): np.int32,
    ("float32", "uint8"): np.int64,
    ("float32", "uint16"): np.uint32,
    ("float64", "int8"): np.int32,
    ("float64", "int16"): np.int32,
    ("float64", "uint8"): np.uint32,
    ("float64", "uint16"): np.uint32,
}


_FEW = 1 << 12  # elements up to which two more passes cost more than they save


def cast_into(out: Array, x: Array) -> None:
    """Stores values as CANN's Cast does; within one data type bit by bit. Two single elements may differ in rank."""
    if x.shape != out.shape and x.size == out.size == 1:
        x = x.reshape(out.shape)
    if x.dtype == out.dtype and x.shape == out.shape:
        move(out, x)
        return
    block = BLOCK if native.runs_programs() else 2 * BLOCK
    if native.cuts_off(x, out):
        block = max(block, share(x.size))  # such a cast needs no scratch memory
    if x.size > block and x.shape == out.shape and not np.may_share_memory(x, out):
        in_parts(cast_into, out, x, block)
        return
    if x.dtype == out.dtype:
        np.copyto(codes(out), codes(x))
        return
    if out.dtype == np.float32 and is_low_precision(x.dtype):
        widen(x, out)
        return
    if x.dtype.kind == "c" and out.dtype.kind != "c":
        x = x != 0 if out.dtype.kind == "b" else x.real
    if not is_integer(out.dtype) or is_whole(x):
        round_into(out, widen(x))
        return
    through = _THROUGH.get((widened(x.dtype).name, out.dtype.name))
    wide = out if through is None else np.empty(out.shape, through)
    _cut_off(wide, x)
    if wide is not out:
        np.copyto(out, wide, casting="unsafe")


def _cut_off(out: Array, x: Array) -> None:
    """Floats to integers, towards zero and saturated, NaN as 0."""
    if native.cuts_off(x, out):
        native.cut_off(x, out)
        return
    memory = scratch("cast", x.shape, np.float32)  # the caches have it from the block before
    x = widen(x, memory)
    own = out.dtype.kind in "iu" and x.size > _FEW and not native.converts(x.dtype, out.dtype)
    if own and x.min() > np.iinfo(out.dtype).min and x.max() < np.iinfo(out.dtype).max:
        np.copyto(out, x, casting="unsafe")  # without NaN and what has to be bounded, a conversion cuts off
    else:
        round_into(out, np.trunc(x, memory) if x.dtype == np.float32 else np.trunc(x))


def reduced_axes(named: Optional[Sequence[int]], ndim: int) -> tuple[int, ...]:
    """The axes to reduce: all of them where none are named, and none of a 0-d tensor."""
    return tuple(named) if named and ndim else tuple(range(ndim))


def total(x: Array, axes: Optional[tuple[int, ...]] = None, keepdims: bool = False) -> Any:
    """The sum over axes, over all if none are named."""
    if (
        isinstance(x, np.ndarray)
        and x.size > BLOCK
        and x.flags.c_contiguous
        and not keepdims
        and (axes is None or len(axes) == x.ndim)
    ):
        sums = np.zeros(-(-x.size // BLOCK), sum_type(x.dtype))
        flat = x.reshape(-1)

        def add(lo: int, hi: int) -> None:
            sums[lo // BLOCK] = sum_over(flat[lo:hi])

        for_blocks(x.size, BLOCK, add)
        x = sums
        axes = None
    return sum_over(x, axes, keepdims)


def count(x: Array, axes: tuple[int, ...]) -> int:
    """How many elements a reduction over axes takes together."""
    return x.shape[axes[0]] if len(axes) == 1 else math.prod([x.shape[axis] for axis in axes])
