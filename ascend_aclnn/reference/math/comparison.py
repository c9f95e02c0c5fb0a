"""Comparison, logic and bits of two operands."""

from __future__ import annotations

import operator
from typing import Any, Callable

import numpy as np

from ascend_aclnn.numerics import Array, elementwise, is_low_precision, round_into, widen
from ascend_aclnn.reference._pointwise import is_whole, number, rows
from ascend_aclnn.reference.declare import reference

# ------------------------------------------------------------------------------------------------------ comparison


def _with_scalar(compare: Callable[[Any, Any], Any], rounded: bool) -> Callable[..., None]:
    """A tensor compared with a number.

    A floating tensor meets the number ``rounded`` to the tensor's own data type; Gt and Ge round it to float32 only, so a
    float16 tensor holding 0.1 is not equal to 0.1 there but less.
    """

    def function(x: Array, value: Any, *, out: tuple[Array]) -> None:
        if is_low_precision(x.dtype) and rounded and not isinstance(value, complex):
            value = float(widen(np.array([value]).astype(x.dtype))[0])
        if not elementwise(compare, [x, value], out):
            round_into(out[0], compare(widen(x), value))

    return function


def _of_tensors(compare: Callable[..., Any]) -> Callable[..., Any]:
    """Beside a tensor without elements CANN leaves one that has some as it is."""
    return lambda x, y: x if isinstance(x, np.ndarray) and x.size and not y.size else compare(x, y)


for _name, _compare in (
    ("Eq", operator.eq),
    ("Ne", operator.ne),
    ("Lt", operator.lt),
    ("Le", operator.le),
    ("Gt", operator.gt),
    ("Ge", operator.ge),
):
    rows(f"{_name}Tensor*", _of_tensors(_compare))
    rows(f"{_name}Scalar*", _with_scalar(_compare, rounded=_name[0] != "G"), raw=True)


@reference("aclnnIsClose")
def is_close(x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Any:
    """|x - y| <= atol + rtol * |y|; infinities only equal themselves, and NaN itself with ``equal_nan``."""
    if is_whole(x):
        x, y = x.astype(np.float64), y.astype(np.float64)
    near = np.abs(x - y) <= np.float32(atol) + np.float32(rtol) * np.abs(y)
    close = (x == y) | (near & np.isfinite(x) & np.isfinite(y))
    return close | (np.isnan(x) & np.isnan(y)) if equal_nan else close


@reference("aclnnIsInTensorScalar")
def is_in_tensor_scalar(x: Array, value: Any, assume_unique: bool, invert: bool) -> Any:
    return (x == value) ^ bool(invert)


# ------------------------------------------------------------------------------------------------------ logic


def _truth(x: Array) -> Any:
    """True where not 0. NumPy would compare booleans as int64."""
    return x if x.dtype == np.bool_ else x != 0


def _logical(combine: Callable[..., Any], of_bools: np.ufunc) -> Callable[..., None]:
    """Of booleans NumPy's function writes into the output itself."""

    def of_truths(x: Array, y: Array) -> Any:
        return combine(_truth(x), _truth(y))

    def function(x: Array, y: Array, *, out: tuple[Array]) -> None:
        are_bools = x.dtype == y.dtype == out[0].dtype == np.bool_
        if not elementwise(of_bools if are_bools else of_truths, [x, y], out):
            round_into(out[0], of_truths(widen(x), widen(y)))

    return function


for _names, _combine, _of_bools in (
    ("LogicalAnd*", operator.and_, np.logical_and),
    ("LogicalOr*", operator.or_, np.logical_or),
    ("LogicalXor", operator.xor, np.logical_xor),
):
    rows(_names, _logical(_combine, _of_bools), raw=True)

# ------------------------------------------------------------------------------------------------------ bits

for _name, _combine in (("And", operator.and_), ("Or", operator.or_), ("Xor", operator.xor)):
    rows(f"Bitwise{_name}Tensor*", _combine)
    rows(f"Bitwise{_name}Scalar*", lambda x, y, combine=_combine: combine(x, number(y, x)))
rows("BitwiseAndTensorOut*", operator.and_)
rows("LeftShift", np.left_shift)
rows("RightShift", np.right_shift)
rows("LeftShifts", lambda x, bits: np.left_shift(x, number(bits, x)))
