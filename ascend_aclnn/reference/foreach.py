"""Operators on lists of tensors (ops-nn/foreach): elementwise functions of their first, second, ... tensors."""

from __future__ import annotations

import math
from typing import Any, Callable, Union

import numpy as np

from ascend_aclnn.numerics import Array, DataError, of_all, round_into, sum_of_squares, where, widen
from ascend_aclnn.reference import _special as special
from ascend_aclnn.reference._pointwise import (
    Number,
    floats,
    is_whole,
    keep_whole,
    number,
    on_floats,
    power,
    rows,
    sign,
    trunc_quotient,
)
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.math.elementwise import between

Arrays = list[Array]

# ------------------------------------------------------------------------------------------------------ how lists are walked


def _value(scalar: Union[Number, Array]) -> Number:
    """A number that comes as one or as a tensor of one element."""
    if isinstance(scalar, np.ndarray):
        if scalar.size == 0:
            raise DataError("scalar", f"has shape {scalar.shape}; it must hold one number")
        value: Number = scalar.reshape(-1)[0].item()
        return value
    return scalar


def _values(scalars: Any) -> list[Number]:
    """Numbers that come as a list or as the elements of a tensor."""
    return [_value(item) for item in (scalars.reshape(-1) if isinstance(scalars, np.ndarray) else scalars)]


def _one(function: Callable[..., Any]) -> Callable[..., Arrays]:
    return lambda x: [function(a) for a in x]


def _two(function: Callable[..., Any]) -> Callable[..., Arrays]:
    return lambda x1, x2: [function(a, b) for a, b in zip(x1, x2)]


def _three(function: Callable[..., Any]) -> Callable[..., Arrays]:
    return lambda x1, x2, x3: [function(a, b, c) for a, b, c in zip(x1, x2, x3)]


def _with_number(function: Callable[..., Any]) -> Callable[..., Arrays]:
    """Lists, then a number for all their tensors."""

    def walk(*arguments: Any) -> Arrays:
        *lists, scalar = arguments
        value = _value(scalar) if lists[0] else 0
        if type(value) is float:  # the same for all
            return [function(*tensors, value) for tensors in zip(*lists)]
        return [function(*tensors, number(value, tensors[0])) for tensors in zip(*lists)]

    return walk


def _with_numbers(function: Callable[..., Any]) -> Callable[..., Arrays]:
    """Lists, then a number for each of their tensors."""

    def walk(*arguments: Any) -> Arrays:
        *lists, scalars = arguments
        return [function(*tensors, number(value, tensors[0])) for *tensors, value in zip(*lists, _values(scalars))]

    return walk


def _add_scaled(a: Array, b: Array, alpha: Any) -> Any:
    return a + alpha * b


def _subtract_scaled(a: Array, b: Array, alpha: Any) -> Any:
    return a - alpha * b


def _addcmul(x: Array, a: Array, b: Array, value: Any) -> Any:
    return x + value * a * b


def _addcmul_in_halves(x: Array, a: Array, b: Array, value: Any) -> Any:
    """With the product of FLOAT16 rounded: unlike AddcmulScalar's, the kernel of A2 and A3 multiplies such lists as they are."""
    if a.dtype == np.float16:
        return x + value * widen(a * b)
    return _addcmul(x, widen(a), widen(b), value)


def _addcdiv(x: Array, a: Array, b: Array, value: Any) -> Any:
    return x + value * (a / b)


def _foreach(names: str) -> str:
    return " ".join(f"Foreach{name}" for name in names.split())


# ------------------------------------------------------------------------------------------------------ one list

for _names, _function in (
    ("Abs", np.abs),
    ("Acos ACosInplace", np.arccos),
    ("Asin", np.arcsin),
    ("Atan", np.arctan),
    ("Copy", lambda x: x),
    ("Cos", np.cos),
    ("Cosh", np.cosh),
    ("Erf", special.erf),
    ("Erfc", special.erfc),
    ("Exp", on_floats(np.exp)),
    ("Expm1", on_floats(np.expm1)),
    ("Log LogInplace", np.log),
    ("Log10", np.log10),
    ("Log1p", np.log1p),
    ("Log2", np.log2),
    ("Neg", np.negative),
    ("Reciprocal", np.reciprocal),
    ("Sigmoid", special.sigmoid),
    ("Sign", sign),
    ("Sin", np.sin),
    ("Sinh", np.sinh),
    ("Sqrt", np.sqrt),
    ("Tan", np.tan),
    ("Tanh", np.tanh),
    ("ZeroInplace", np.zeros_like),
):
    rows(_foreach(_names), _one(_function))


def _half_away(x: Array) -> Any:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _to_odd(x: Array) -> Any:
    """What is between two integers becomes the odd one."""
    below = np.floor(x)
    return where((below == x) | (below % 2 != 0), below, below + 1)


def _fraction(x: Array) -> Any:
    return np.zeros_like(x) if is_whole(x) else x - np.trunc(x)


_ROUND_MODES: dict[int, Callable[..., Any]] = {
    1: keep_whole(np.rint),
    2: keep_whole(np.floor),
    3: keep_whole(np.ceil),
    4: keep_whole(_half_away),
    5: keep_whole(np.trunc),
    6: keep_whole(_to_odd),
    7: _fraction,
}


@reference("aclnnForeachRoundOffNumber", "aclnnForeachRoundOffNumberV2")
def round_off_number(x: Arrays, round_mode: Union[int, Array]) -> Arrays:
    """Rounds to integers: to nearest even (1), down (2), up (3), to nearest away from zero (4), towards zero (5), to odd
    (6); 7 keeps the fraction instead, and other modes leave everything as it is."""
    function = _ROUND_MODES.get(int(_value(round_mode).real))
    return x if function is None else [function(a) for a in x]


def _sum_of_squares(row: Array) -> Any:
    return sum_of_squares(row, (1,), True)


def _norm(stored: Array, order: float) -> Any:
    """(sum of |x|^order)^(1 / order), summed in float64; the largest and smallest for the infinities."""
    if order == 2:
        squares = of_all(_sum_of_squares, stored)
        if squares is not None:
            return math.sqrt(squares)
    x = widen(stored)
    if order == 2 and x.dtype.kind == "f":
        return math.sqrt(np.add.reduce(np.square(x, dtype=np.float64), None))  # without further arrays of its size
    magnitudes = np.abs(x).astype(np.float64)
    if math.isinf(order):
        extreme = np.max if order > 0 else np.min
        return extreme(magnitudes, initial=0.0 if order > 0 else math.inf)
    if order == 0:
        return np.count_nonzero(magnitudes)
    if order == 1:
        return magnitudes.sum()
    if order == 2:
        return np.sqrt(np.square(magnitudes).sum())
    return np.power(np.power(magnitudes, order).sum(), 1 / order)


@reference("aclnnForeachNorm", raw=True)
def norms(x: Arrays, scalar: float, *, out: tuple[Arrays]) -> None:
    """The norm of each tensor, whatever the shape of the one element that takes it.

    Of any order, as the documents of A2 and A3 say; those of Ascend 950 know 1, 2 and infinity.
    """
    for tensor, destination in zip(x, out[0]):
        norm = _norm(tensor, float(scalar))
        if destination.dtype == np.float32:
            destination[...] = norm
        else:
            round_into(destination, np.full(destination.shape, norm))


@reference("aclnnForeachNonFiniteCheckAndUnscale")
def non_finite_check_and_unscale(grads: Arrays, found_inf: Array, inv_scale: Array) -> tuple[Arrays, Array]:
    """Gradients times a number, and 1 where any was infinite or NaN before."""
    finite = all(np.isfinite(grad).all() for grad in grads)
    scale = _value(inv_scale)
    return [grad * scale for grad in grads], found_inf if finite else np.ones_like(found_inf)


# ------------------------------------------------------------------------------------------------------ two, three lists

for _names, _binary in (
    ("DivList DivListInplace", np.true_divide),
    ("MaximumList", np.maximum),
    ("MinimumList", np.minimum),
    ("MulList MulListInplace", np.multiply),
    ("PowList", power),
):
    rows(_foreach(_names), _two(_binary))


def _lerp(start: Array, end: Array, weight: Any) -> Any:
    """From start for weights between -1/2 and 1/2, unlike aclnnLerp."""
    return between(start, end, weight, (abs(weight) if type(weight) is float else np.abs(weight)) < 0.5)


rows(_foreach("LerpList"), _three(_lerp))
rows(_foreach("LerpScalar"), _with_number(_lerp))
rows(_foreach("AddList AddListV2 AddListInplace"), _with_number(_add_scaled))
rows(_foreach("SubList SubListV2 SubListInplace"), _with_number(_subtract_scaled))
rows(_foreach("AddcdivScalar AddcdivScalarV2"), _with_number(_addcdiv))
rows(_foreach("AddcmulScalar AddcmulScalarV2"), _with_number(_addcmul))
rows(_foreach("AddcdivList AddcdivScalarList"), _with_numbers(_addcdiv), elementwise=False)
rows(_foreach("AddcmulScalarList"), _with_numbers(_addcmul), elementwise=False)
rows(_foreach("AddcmulList"), _with_numbers(_addcmul_in_halves), elementwise=False, stored=("x2", "x3"))
rows(_foreach("AddcmulList"), _with_numbers(_addcmul), elementwise=False, product="950")


def _quotient_or_zero(a: Array, b: Array) -> Any:
    """Integers are divided towards zero, and by zero to zero."""
    if not is_whole(a):
        return a / b
    return where(b == 0, 0, trunc_quotient(a, where(b == 0, 1, b).astype(b.dtype)))


_OPCODES: tuple[Callable[..., Any], ...] = (np.add, np.subtract, np.multiply, _quotient_or_zero)


@reference("aclnnForeachBinaryOp")
def binary_op(x1: Arrays, x2: Arrays, op_code: int) -> Arrays:
    """Sums (0), differences (1), products (2) or quotients (3)."""
    return _two(_OPCODES[op_code])(x1, x2)


# ------------------------------------------------------------------------------------------------------ a list and numbers

for _name, _scalar_function in (
    ("Add", np.add),
    ("Div", lambda x, value: floats(x) / value),
    ("Maximum", np.maximum),
    ("Minimum", np.minimum),
    ("Mul", np.multiply),
    ("Pow", power),
    ("Sub", np.subtract),
):
    rows(_foreach(f"{_name}Scalar {_name}ScalarV2"), _with_number(_scalar_function))
    rows(_foreach(f"{_name}ScalarList"), _with_numbers(_scalar_function))
rows(_foreach("MulScalarInplace"), _with_number(np.multiply))
rows(_foreach("SubScalarInplace"), _with_number(np.subtract))


@reference("aclnnForeachPowScalarAndTensor")
def pow_scalar_and_tensor(scalar: Number, x: Arrays) -> Arrays:
    """A number to the powers that the tensors hold."""
    return [power(number(scalar, a), a) for a in x]
