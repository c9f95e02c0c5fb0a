"""Arithmetic of two operands. Integers wrap around; CANN does not define division by an integer zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array, where
from ascend_aclnn.reference._pointwise import (
    floats,
    floor_quotient,
    number,
    on_floats,
    power,
    quotient,
    rows,
)


def _times(x: Any, factor: Any) -> Any:
    """A factor that is mostly 1."""
    return x if factor == 1 and not isinstance(factor, bool) else x * number(factor, x)


def _minus(x: Any, y: Any) -> Any:
    bools = all(isinstance(item, bool) or getattr(item, "dtype", None) == np.bool_ for item in (x, y))
    return np.logical_xor(x, y) if bools else np.subtract(x, y)


rows("Add*", lambda x, y, alpha: x + _times(y, alpha))
rows("Adds*", lambda x, y, alpha: x + number(_scaled(y, alpha), x))
rows("Sub*", lambda x, y, alpha: _minus(x, _times(y, alpha)))
rows("Subs*", lambda x, y, alpha: _minus(x, number(_scaled(y, alpha), x)))
rows("Rsub", lambda x, y, alpha: _minus(y, _times(x, alpha)))
rows("Rsubs", lambda x, y, alpha: _minus(number(y, x), _times(x, alpha)))
rows("Mul*", np.multiply)
rows("Muls*", lambda x, y: x * number(y, x))
rows("AddV3", lambda x, y, alpha: number(x, y) + _times(y, alpha))
rows("InplaceAddV3", lambda x, y, alpha: number(x, y) + _times(y, alpha))


def _scaled(value: Any, alpha: Any) -> Any:
    """alpha * value of two numbers; booleans stay what they are under a true factor."""
    if isinstance(value, bool) and alpha == 1:
        return value
    return value * alpha


rows("Div*", np.true_divide)
rows("Divs*", lambda x, y: np.true_divide(x, y))
rows("DivMod* DivMods*", lambda x, y, mode: quotient(mode, x, y if isinstance(y, np.ndarray) else number(y, x)))
rows("FloorDivide*", floor_quotient)
rows("FloorDivides*", lambda x, y: floor_quotient(x, number(y, x)))
rows("FmodTensor*", np.fmod)
rows("FmodScalar*", lambda x, y: np.fmod(x, number(y, x)))
rows("RemainderTensorTensor*", np.remainder)
rows("RemainderTensorScalar*", lambda x, y: np.remainder(x, number(y, x)))
rows("RemainderScalarTensor", lambda x, y: np.remainder(number(x, y), y))

rows("PowTensorTensor*", power)
rows("PowTensorScalar*", lambda x, exponent: power(x, number(exponent, x)))
rows("PowScalarTensor", lambda x, exponent: power(number(x, exponent), exponent))

rows("Maximum", np.maximum)
rows("Minimum", np.minimum)
rows("Gcd", np.gcd)
rows("Atan2*", on_floats(np.arctan2))
rows("LogAddExp", on_floats(np.logaddexp))
rows("LogAddExp2", on_floats(np.logaddexp2))


def _x_times(logarithm: Any) -> Any:
    """x * log(y), and 0 where x is 0 unless y is NaN."""

    def function(x: Any, y: Any) -> Array:
        x, y = floats(np.asarray(x)), floats(np.asarray(y))
        return where((x == 0) & ~np.isnan(y), 0, x * logarithm(y))

    return function


rows("XLogYTensor* XLogYScalarOther* XLogYScalarSelf", _x_times(np.log))
rows("Xlog1py", _x_times(np.log1p))
rows("TanhBackward", lambda gradient, y: gradient * (1 - y * y))


def _complex(real: Array, imaginary: Array) -> Array:
    """Built from its parts: real + 1j * imaginary would make NaN of infinities."""
    result = np.empty(np.broadcast_shapes(real.shape, imaginary.shape), np.result_type(real, np.complex64))
    result.real, result.imag = real, imaginary
    return result


rows("Complex", _complex)
rows("Polar", lambda length, angle: _complex(length * np.cos(angle), length * np.sin(angle)))
