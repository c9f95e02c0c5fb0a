"""Widening of low-precision floats to float32, and rounding, once and half to even, to the data type of an output."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Callable, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn import native
from ascend_aclnn.core import hifloat8
from ascend_aclnn.numerics.floating_errors import ignored
from ascend_aclnn.numerics.threads import Array, for_blocks, scratch, share

# Elements in one block: 512 KB of float32. Several such arrays fit a core's second-level cache, and one NumPy call on a
# block lasts long enough (tens of microseconds) that handing the interpreter lock between threads does not show.
BLOCK = 1 << 17

_FEW = 1 << 11  # elements up to which one conversion of NumPy's own is the fastest


def rows_per_block(width: int, elements: int = 2 * BLOCK) -> int:
    """Rows of a given width that make a block of about so many elements.

    The default is for references that cut their work themselves: they keep few arrays, and longer calls let two threads
    meet less often at the interpreter lock.
    """
    return max(1, elements // max(1, width))


def widened(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype to compute values of a dtype in: float32 for the low-precision floats, else the dtype itself."""
    return np.dtype(np.float32) if is_low_precision(dtype) else dtype


@functools.cache
def is_low_precision(dtype: np.dtype[Any]) -> bool:
    """True for float16, bfloat16 and the floats of 8 bits and less."""
    if dtype in (np.float16, hifloat8.DTYPE):
        return True
    return _is_ml_dtype(dtype) and dtype.name.startswith(("bfloat", "float"))


@functools.cache
def is_integer(dtype: np.dtype[Any]) -> bool:
    """True for the integers, those of 4 bits and less included."""
    return dtype.kind in "iu" or (_is_ml_dtype(dtype) and not is_low_precision(dtype))


def _is_ml_dtype(dtype: np.dtype[Any]) -> bool:
    return bool(dtype.type.__module__ == ml_dtypes.bfloat16.__module__)


def widen(array: Array, out: Optional[Array] = None) -> Array:
    """An array in the precision to compute in: low-precision floats as float32, everything else as it is, uncopied.

    ``out`` is float32 memory of the array's shape to widen into; it is left alone where nothing needs widening.
    """
    if not is_low_precision(array.dtype):
        return array
    if out is None:
        if array.size <= _FEW and array.dtype is _FLOAT16:  # the shortest call
            return array.astype(_FLOAT32, "C")
        out = np.empty(array.shape, np.float32)
    if array.size <= _FEW and array.dtype != hifloat8.DTYPE:
        np.copyto(out, array, casting="unsafe")
    elif array.size <= 2 * BLOCK:  # blocks cut by ``rows_per_block`` stay one piece
        widen_block(out, array)
    else:
        in_parts(widen_block, out, array, BLOCK if native.runs_programs() else 4 * BLOCK)
    return out


def in_parts(function: Callable[[Array, Array], None], out: Array, source: Array, block: Optional[int] = None) -> None:
    """``function`` on pieces of two arrays of one shape, on all cores."""
    pieces = parts(source.shape, block)

    def work(lo: int, hi: int) -> None:
        for piece in pieces[lo:hi]:
            function(out[piece], source[piece])

    for_blocks(len(pieces), 1, work)


_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_largest: Any = np.maximum.reduce  # the method max calls it through Python


def _constant(value: float, dtype: Any) -> Array:
    """A number as an array without axes, of which NumPy takes half the time that a Python number takes."""
    return np.array(value, dtype)


_HALF_STEP = _constant(13, np.int32)  # bits of float32's fraction beyond those of float16
_HALF_BITS = _constant(-0x70000001, np.int32)  # without the sign's extension below bit 31
_HALF_UP, _HALF_DOWN = _constant(2.0**112, np.float32), _constant(2.0**-112, np.float32)
_EXPONENT = _constant(0x7F800000, np.int32)
_LEAST_EXPONENT, _MOST_EXPONENT = np.int32((127 - 14) << 23), np.int32((127 + 100) << 23)
_SHIFT = _constant((13 << 23) | (1 << 22), np.int32)
_SIGN = _constant(-0x8000, np.int16)


def _by_helper(source: Array, target: Array) -> bool:
    """Converts with the compiled helper; False, with nothing written, where it does not support the data types."""
    if source.shape != target.shape or not native.converts(source.dtype, target.dtype):
        return False
    if native.convert(source, target):
        return True
    if not source.flags.c_contiguous or not source.flags.aligned:
        packed = scratch("packed.source", source.shape, source.dtype)
        np.copyto(codes(packed), codes(source))
        source = packed
    if target.flags.c_contiguous and target.flags.aligned:
        return native.convert(source, target)
    packed = scratch("packed.target", target.shape, target.dtype)
    native.convert(source, packed)
    np.copyto(codes(target), codes(packed))
    return True


_CODES = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def codes(array: Array) -> Array:
    """The same memory as unsigned integers where an element has at most 8 bytes: to move data, not to compute."""
    kind = _CODES.get(array.dtype.itemsize)
    return array if kind is None else array.view(kind)


_PLAIN = 1 << 21  # bytes
_SIDE = 256  # rows and columns from which a transposed copy is worth cutting
_STRIP = 16  # columns of the target that it writes at a time: a line of the cache
_ALIASED = 2048  # bytes: source rows whose stride is a multiple of this share few cache sets


def move(out: Array, source: Array) -> None:
    """Copies the bits of an array of the same shape and data type, on all cores; a transposed one strip by strip.

    A strip reads few rows of the source, each from start to end, and writes whole cache lines. Square tiles take three
    times as long where rows are a power of two apart: they read more lines than fit their sets of the first-level cache.
    """
    out, source = codes(out), codes(source)
    # A small contiguous copy is done before other threads would have started.
    plain = out.nbytes <= _PLAIN and out.flags.c_contiguous and source.flags.c_contiguous
    if plain or out.size <= _FEW or np.may_share_memory(out, source):
        np.copyto(out, source)
        return
    flat = out.ndim < 2 or out.size < _SIDE * _SIDE or source.strides[-1] == source.itemsize
    if flat or source.strides[-2] != source.itemsize:
        in_parts(np.copyto, out, source, max(BLOCK, share(out.size)))
    elif out.ndim > 2:
        for inner, part in zip(out, source):
            move(inner, part)
    else:
        width = _STRIP if source.strides[-1] % _ALIASED == 0 else 4 * _STRIP

        def copy(lo: int, hi: int) -> None:
            for start in range(lo, hi, width):
                strip = slice(start, min(start + width, hi))
                np.copyto(out[:, strip], source[:, strip])

        for_blocks(out.shape[1], width * max(1, BLOCK // (width * out.shape[0])), copy)


def set_all(out: Array, code: Any) -> None:
    """Every element becomes one number of the array's data type, on all cores."""
    out = codes(out)
    if out.nbytes <= _PLAIN:
        out[...] = code
    else:
        # copying one number to all takes three times as long on bytes
        in_parts(lambda part, _: part.fill(code), out, out, max(BLOCK, share(out.size)))


def widen_block(out: Array, array: Array) -> None:
    if _by_helper(array, out):
        return
    if array.dtype == np.float16:
        _decode_half(array, out)
    elif array.dtype == hifloat8.DTYPE:
        np.take(hifloat8.values(), array.view(np.uint8), out=out, mode="clip")
    else:
        np.copyto(out, array, casting="unsafe")


def parts(shape: Sequence[int], block: Optional[int] = None) -> list[tuple[Any, ...]]:
    """Slices that cut an array into pieces of about so many elements, BLOCK if nothing else is asked for."""
    size, block = math.prod(shape), BLOCK if block is None else block
    if size <= block:
        return [(...,)]
    if size // shape[0] > block:
        return [(slice(i, i + 1), *rest) for i in range(shape[0]) for rest in parts(shape[1:], block)]
    step = rows_per_block(size // shape[0], block)
    return [(slice(i, i + step),) for i in range(0, shape[0], step)]


def _decode_half(source: Array, out: Array) -> None:
    """float16 -> float32: the bits moved to float32's places are the value times 2^-112, subnormals included.

    Several times as fast as NumPy's own conversion, which takes one element at a time.
    """
    bits = source.view(np.int16)
    # Infinity and NaN are the largest codes of either sign. They are rare: leave such a piece to NumPy.
    if bits.size == 0:
        return
    special = _largest(bits, None) >= 0x7C00 or _largest(source.view(np.uint16), None) >= 0xFC00
    if special or not out.flags.c_contiguous:
        with np.errstate(all="ignore"):
            np.copyto(out, source)
        return
    moved = out.view(np.int32)
    np.copyto(moved, bits)
    np.left_shift(moved, _HALF_STEP, moved)
    np.bitwise_and(moved, _HALF_BITS, moved)
    np.multiply(out, _HALF_UP, out)


# ------------------------------------------------------------------------------------------------------- rounding


def workplace(dst: Array, name: str) -> Array:
    """Where to compute what ``round_into`` then stores in dst: float32 scratch, or dst itself if that is float32."""
    return dst if dst.dtype == np.float32 else scratch(name, dst.shape, np.float32)


def round_into(dst: Array, src: Array, *spare: Array) -> None:
    """Stores computed values, rounded once, half to even; to an integer dst also saturated, with NaN as 0.

    To HIFLOAT8 halves are rounded away from zero, as Cast and the operators that quantise do (CAST_ROUND).

    ``spare``: up to two contiguous float32 arrays of the same shape that the caller no longer needs, ``src`` perhaps the first
    of them. Rounding to float16 uses their memory, which is in the caches, instead of more.
    """
    if src is dst:
        return
    if dst.size <= 2 * BLOCK or src.shape != dst.shape or np.may_share_memory(dst, src):
        round_block(dst, src, [memory for memory in spare if memory.shape == src.shape])
    else:
        in_parts(round_block, dst, src, BLOCK if native.runs_programs() else 2 * BLOCK)


def rounded_to(values: Any, dtype: Any) -> Array:
    """Computed values, rounded once to a data type (``round_into``), as an array of it."""
    values = np.asarray(values)
    result = np.empty(values.shape, dtype)
    round_into(result, values)
    return result


def round_block(dst: Array, src: Array, spare: Sequence[Array] = ()) -> None:
    if dst.dtype == src.dtype:
        np.copyto(dst, src)
        return
    if dst.dtype.char in "fd" and src.dtype.char in "fd":
        with ignored():
            np.copyto(dst, src, casting="unsafe")
        return
    few = dst.size <= _FEW
    if hifloat8.DTYPE in (dst.dtype, src.dtype):  # NumPy casts neither way
        src = widen(src)
        if dst.dtype == hifloat8.DTYPE:
            np.copyto(dst, hifloat8.encode(src))
        else:
            round_block(dst, src)
        return
    double_to_bf16 = src.dtype == np.float64 and dst.dtype == _BFLOAT16  # NumPy takes ten steps
    if (double_to_bf16 or not few) and _by_helper(src, dst):
        return
    with ignored():
        if dst.dtype == np.float16 and src.dtype == np.float32 and not (few and _no_nan(src)):
            _encode_half(dst, src, spare)
        elif double_to_bf16 and not few:
            _round_double(dst, src)
        elif is_low_precision(dst.dtype) and src.dtype == np.float64 and dst.dtype != np.float16:
            np.copyto(dst, _round_to_odd(src), casting="unsafe")
        elif dst.dtype == np.float16 and src.dtype == np.float64:
            np.copyto(dst, src, casting="unsafe")
            nan = np.isnan(src)
            if nan.any():  # which bits NumPy keeps of it differs between processors
                np.copyto(dst, np.copysign(np.float16("nan"), src, dtype=np.float16, casting="unsafe"), where=nan)
        elif is_integer(dst.dtype) and not is_integer(src.dtype) and src.dtype.kind not in "bc":
            _round_to_integer(dst, widen(src))
        else:
            np.copyto(dst, src, casting="unsafe")


def _no_nan(values: Array) -> bool:
    """True where no value is NaN, whose bits NumPy keeps and the longer way does not."""
    return not np.count_nonzero(np.isnan(values))  # any() takes three times as long


def _encode_half(dst: Array, src: Array, spare: Sequence[Array]) -> None:
    """float32 -> float16, exact for every input; faster than NumPy's conversion, also for subnormals and overflow.

    Adding and subtracting 1.5 * 2^(e + 13), e the value's exponent, leaves the bits that float16 has; e stops at -14,
    below which float16 is spaced evenly. Times 2^-112 the result has them in float32's places, 13 bits up. The sign, lost
    where the value becomes zero, is added in 16 bits, which are half the bytes.
    """
    if src.size == 0:
        return
    if not src.flags.c_contiguous:
        packed = scratch("half.source", src.shape, np.float32)
        np.copyto(packed, src)
        src, spare = packed, (packed, *spare)
    memory = [*spare[:2], *(scratch(f"half.{n}", src.shape, np.float32) for n in range(2 - len(spare)))]
    value, shift = memory  # value may be src
    sign = scratch("half.sign", src.shape, np.int16)
    exponent, code = shift.view(np.int32), value.view(np.int32)
    result = dst.view(np.int16)

    np.copyto(sign, np.signbit(src, scratch("half.negative", src.shape, np.bool_)))
    np.multiply(sign, _SIGN, sign)
    np.bitwise_and(src.view(np.int32), _EXPONENT, exponent)
    # clip, because maximum with a scalar is not vectorised; the upper end keeps the shift finite
    exponent.clip(_LEAST_EXPONENT, _MOST_EXPONENT, exponent)
    special = _largest(exponent, None) >= (127 + 16) << 23  # overflow, infinity or NaN, which are rare
    large = (np.abs(src) >= 65520, np.isnan(src)) if special else ()
    np.add(exponent, _SHIFT, exponent)
    np.add(src, shift, value)
    np.subtract(value, shift, value)

    np.multiply(value, _HALF_DOWN, value)
    np.right_shift(code, _HALF_STEP, code)
    for places, bits in zip(large, (0x7C00, 0x7E00)):
        np.copyto(code, bits, where=places)
    np.copyto(result, code, casting="unsafe")
    np.bitwise_or(result, sign, result)


def _round_double(dst: Array, src: Array) -> None:
    """float64 -> bfloat16 through float32, which differs from rounding once only where float32 lies half way: few places."""
    near = src.astype(np.float32)
    half_way = np.bitwise_and(near.view(np.uint32), 0xFFFF) == 0x8000
    np.copyto(dst, near, casting="unsafe")
    places = np.nonzero(half_way)
    if len(places[0]):
        rounded = _round_to_odd(src[places]).astype(dst.dtype)
        codes(dst)[places] = codes(rounded)


def _round_to_odd(values: Array) -> Array:
    """float64 -> float32, inexact values to their neighbour with an odd last bit: rounding that again is like once."""
    near = values.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.int32)
    bits -= (np.abs(back) > np.abs(values)) & np.isfinite(values)  # towards zero
    bits |= (back != values) & np.isfinite(values)
    return near


def _round_to_integer(dst: Array, values: Array) -> None:
    iinfo: Any = np.iinfo if dst.dtype.kind in "iu" else ml_dtypes.iinfo
    limits = iinfo(dst.dtype)
    rounded = np.rint(values)
    if rounded.size and rounded.min() > float(limits.min) and rounded.max() < float(limits.max):  # without NaN
        np.copyto(dst, rounded, casting="unsafe")
        return
    rounded = rounded.astype(np.float64, copy=False)
    above, below = rounded >= float(limits.max), rounded <= float(limits.min)
    # Compared rather than clipped: the largest int64 is no float64.
    np.copyto(dst, np.where(above | below | np.isnan(rounded), 0.0, rounded), casting="unsafe")
    np.copyto(dst, np.array(limits.max, dst.dtype), where=above)
    np.copyto(dst, np.array(limits.min, dst.dtype), where=below)
