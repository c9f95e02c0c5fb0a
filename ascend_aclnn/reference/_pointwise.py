"""What elementwise references share: registering rows of a table, numbers beside arrays, whole quotients and powers."""

from __future__ import annotations

from typing import Any, Callable, Union

import numpy as np

from ascend_aclnn.numerics import Array, is_integer, where
from ascend_aclnn.reference.declare import reference

Number = Union[bool, int, float, complex]


def rows(names: str, function: Callable[..., Any], **options: Any) -> None:
    """Registers a function for operators: "Add*" stands for aclnnAdd and aclnnInplaceAdd, "Abs" for aclnnAbs alone.

    It is element-wise (``declare.reference``) unless the options say otherwise.
    """
    options.setdefault("elementwise", not options.get("raw", False) and "along" not in options)
    for name in names.split():
        bare = name.rstrip("*")
        reference(f"aclnn{bare}", **options)(function)
        if name != bare:
            reference(f"aclnnInplace{bare}", **options)(function)


def is_whole(x: Array) -> bool:
    """True for integers and booleans."""
    return x.dtype.kind == "b" or is_integer(x.dtype)


def floats(x: Array) -> Array:
    """Integers and booleans as float32, as CANN casts them for functions of real numbers."""
    return x.astype(np.float32) if is_whole(x) else x


def on_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of real (or complex) arrays that also takes integers."""
    return lambda *arrays: function(*map(floats, arrays))


def keep_whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """A rounding function, which leaves integers as they are."""
    return lambda x: x if is_whole(x) else function(x)


def sign(x: Array) -> Array:
    """-1, 0 or 1, and 0 for NaN; x / |x| of complex numbers."""
    if x.dtype.kind == "c":
        return where(x == 0, 0, x / np.abs(x))
    return x if x.dtype.kind == "b" else where(np.isnan(x), 0, np.sign(x)).astype(x.dtype)


def number(value: Number, like: Array) -> Any:
    """A number beside an array: an integer beside integers takes their data type and wraps around, as a cast does."""
    if isinstance(value, (bool, np.bool_, float, complex, np.inexact)):
        return value
    if like.dtype.kind in "iu":
        bits = 8 * like.dtype.itemsize
        return np.array(int(value) & (2**bits - 1), f"u{like.dtype.itemsize}").view(like.dtype)[()]
    return int(value)


def common(a: Any, b: Any) -> tuple[Array, Array]:
    """Two operands in NumPy's common data type."""
    dtype = np.result_type(a, b)
    return np.asarray(a, dtype), np.asarray(b, dtype)


def floor_quotient(a: Any, b: Any) -> Any:
    """Rounded towards minus infinity."""
    a, b = common(a, b)
    if a.dtype.kind == "b":
        a, b = a.astype(np.float32), b.astype(np.float32)
    return np.floor_divide(a, b)


def trunc_quotient(a: Any, b: Any) -> Any:
    """Rounded towards zero."""
    a, b = common(a, b)
    if a.dtype.kind == "b":
        a, b = a.astype(np.float32), b.astype(np.float32)
    if a.dtype.kind not in "iu":
        return np.trunc(a / b)
    quotient = np.floor_divide(a, b)
    below = (quotient < 0) & (quotient * b != a)  # for negative quotients, floor is one less
    return quotient + below.astype(quotient.dtype)


def quotient(mode: int, a: Any, b: Any) -> Any:
    """CANN's DivMod: 0 exact, 1 towards zero, 2 towards minus infinity."""
    return (np.true_divide, trunc_quotient, floor_quotient)[mode](a, b)


def power(base: Any, exponent: Any) -> Any:
    """base ** exponent; integers wrap around, and have no negative powers but those of 1 and -1."""
    if type(exponent) in (int, float) and exponent == 2 and base.dtype.kind == "f":
        return base * base
    base, exponent = common(base, exponent)
    if base.dtype.kind != "i":
        return np.power(base, exponent)
    raised = np.power(base, np.maximum(exponent, 0))
    parity = where(exponent % 2 == 0, 1, -1)
    inverse = where(base == 1, 1, where(base == -1, parity, 0))
    return where(exponent < 0, inverse, raised).astype(base.dtype)


def extreme(function: Any, arrays: list[Array]) -> Array:
    """The largest or smallest element of several arrays, elementwise."""
    total = arrays[0]
    for array in arrays[1:]:
        total = function(total, array)
    return total
