"""HIFLOAT8, which neither NumPy nor ml_dtypes has: its codes, their values, and the rounding of values to codes.

Sign, dot, exponent and mantissa share 8 bits. The dot is a prefix of 2 to 4 bits that says how many bits the exponent
takes: 11 four, 10 three, 01 two, 001 one, 0001 none, and 0000 that there is no exponent field. An exponent is its sign
and its magnitude, whose highest bit is always 1 and is not stored. The mantissa has what is left, 3 bits to 1 bit. After
the dot 0000 stand 3 bits n: 2^(n - 23), and zero for n = 0. 0x6F is infinity, 0x80 NaN; there is no negative zero.
(opbase: include/nnopbase/opdev/hifloat8.h; the format is described in "Ascend HiFloat8 Format for Deep Learning".)
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

_NAN, _INFINITY = 0x80, 0x6F
LARGEST = 2.0**15
_DOTS = ((2, 0b11, 4), (2, 0b10, 3), (2, 0b01, 2), (3, 0b001, 1), (4, 0b0001, 0))  # width, prefix, bits of the exponent
_TOP_BITS = 13  # sign, exponent and 4 bits of mantissa of a float32: what its rounding depends on


class hifloat8(np.void):  # type: ignore[misc]  # named as the scalar types of NumPy and ml_dtypes are; its stubs say final
    """One element of a host array of HIFLOAT8: its code, which converts to a Python float.

    NumPy casts an array of them to a floating-point type by its elements, so ``array.astype(np.float32)`` are the values.
    It cannot cast to them: ``asarray(values, "HIFLOAT8")`` does.
    """

    def __float__(self) -> float:
        return float(values()[self.view(np.uint8)])

    def __repr__(self) -> str:
        return str(float(self))

    __str__ = __repr__


DTYPE: np.dtype[Any] = np.dtype((hifloat8, 1))


def _value(code: int) -> float:
    """The value of a code, by the definition."""
    if code == _NAN:
        return float("nan")
    sign, rest = (-1.0 if code & 0x80 else 1.0), code & 0x7F
    if rest == _INFINITY:
        return sign * float("inf")
    if rest < 8:
        return sign * 2.0 ** (rest - 23) if rest else 0.0
    dot_bits, exponent_bits = next((width, bits) for width, prefix, bits in _DOTS if rest >> (7 - width) == prefix)
    mantissa_bits = 7 - dot_bits - exponent_bits
    mantissa = 1 + (rest & (1 << mantissa_bits) - 1) / (1 << mantissa_bits)
    if not exponent_bits:
        return sign * mantissa
    field = rest >> mantissa_bits & (1 << exponent_bits) - 1
    leading_bit = 1 << exponent_bits - 1
    magnitude = field | leading_bit
    return sign * 2.0 ** (-magnitude if field & leading_bit else magnitude) * mantissa


@functools.cache
def values() -> npt.NDArray[np.float32]:
    """The value of each of the 256 codes."""
    return np.array([_value(code) for code in range(256)], np.float32)


@functools.cache
def _codes() -> npt.NDArray[np.uint8]:
    """The code for each combination of a float32's highest bits: the nearest value, halves away from zero.

    The further bits change nothing: a tie has none of them, and the mantissa has at most 3 bits.
    """
    order = np.argsort(values()[:_NAN], kind="stable")  # the codes without sign, from zero to infinity
    rising = values()[order]
    rising[-1] = 1.5 * LARGEST  # what infinity's code would be
    limits = (rising[1:] + rising[:-1]) / 2
    codes: npt.NDArray[np.uint8] = np.zeros(1 << _TOP_BITS, np.uint8)
    numbers = np.arange(len(codes), dtype=np.uint32) << np.uint32(32 - _TOP_BITS)
    codes[:] = order[np.searchsorted(limits, np.abs(numbers.view(np.float32)), side="right")]
    codes[(numbers >> 31 != 0) & (codes != 0)] |= 0x80
    return codes


def decode(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The values of an array of HIFLOAT8."""
    return values()[array.view(np.uint8)]


def encode(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values rounded to HIFLOAT8: to the nearest, halves away from zero; from 40960 on to infinity."""
    if array.dtype == np.float64:  # cut to float32's highest bits at once: rounding in between could make a tie
        near = array.astype(np.float32)
        near = np.where(np.abs(near) > np.abs(array), np.nextafter(near, np.float32(0)), near)
    else:
        near = array.astype(np.float32)
    codes = _codes()[near.view(np.uint32) >> np.uint32(32 - _TOP_BITS)]
    return np.where(np.isnan(near), np.uint8(_NAN), codes).view(DTYPE)


def convert(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """``array.astype(dtype)``, from and to HIFLOAT8 too; bytes are the elements themselves."""
    if array.dtype == dtype:
        return array
    if array.dtype.type is np.void and array.dtype.names is None and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)  # as np.load gives the types that NumPy lacks
    if array.dtype == DTYPE:
        array = decode(array)
    return encode(array) if dtype == DTYPE else array.astype(dtype)
