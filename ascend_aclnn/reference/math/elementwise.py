"""Functions of one operand, of three, and of lists, element by element."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, set_all, where
from ascend_aclnn.reference import _special as special
from ascend_aclnn.reference._arrays import cast_into, converted
from ascend_aclnn.reference._pointwise import extreme, floats, is_whole, keep_whole, number, on_floats, rows, sign
from ascend_aclnn.reference._rows import codes
from ascend_aclnn.reference.declare import reference

# ------------------------------------------------------------------------------------------------------ functions of reals

for _names, _function in (
    ("Acos*", np.arccos),
    ("Acosh*", np.arccosh),
    ("Asin*", np.arcsin),
    ("Asinh*", np.arcsinh),
    ("Atan*", np.arctan),
    ("Atanh*", np.arctanh),
    ("Cos*", np.cos),
    ("Cosh*", np.cosh),
    ("Digamma", special.digamma),
    ("Erf*", special.erf),
    ("Erfc*", special.erfc),
    ("Exp*", np.exp),
    ("Exp2*", np.exp2),
    ("Expm1*", np.expm1),
    ("Lgamma", special.lgamma),
    ("Log*", np.log),
    ("Log10*", np.log10),
    ("Log1p*", np.log1p),
    ("Log2*", np.log2),
    ("Reciprocal*", np.reciprocal),
    ("Rsqrt*", lambda x: 1 / np.sqrt(x)),
    ("Sin*", np.sin),
    ("Sinc*", np.sinc),
    ("Sinh*", np.sinh),
    ("Sqrt*", np.sqrt),
    ("Tan*", np.tan),
    ("Tanh*", np.tanh),
):
    rows(_names, on_floats(_function))

# ------------------------------------------------------------------------------------------------------ exact functions


def _angle(x: Array) -> Array:
    return np.angle(x) if x.dtype.kind == "c" else where(np.isnan(x), x, where(x < 0, np.pi, 0)).astype(floats(x).dtype)


def _nowhere(x: Array) -> Array:
    return np.zeros(x.shape, bool)


for _names, _function in (
    ("Abs", np.abs),
    ("AngleV2", _angle),
    ("BitwiseNot", np.invert),
    ("Ceil*", keep_whole(np.ceil)),
    ("Floor*", keep_whole(np.floor)),
    ("Frac*", lambda x: np.zeros_like(x) if is_whole(x) else x - np.trunc(x)),
    ("IsFinite", np.isfinite),
    ("IsInf", np.isinf),
    ("IsNegInf", lambda x: _nowhere(x) if is_whole(x) else np.isneginf(x)),
    ("IsPosInf", lambda x: _nowhere(x) if is_whole(x) else np.isposinf(x)),
    ("LogicalNot*", lambda x: x == 0),
    ("Neg*", np.negative),
    ("Real", np.real),
    ("Round*", keep_whole(np.rint)),
    ("Sign", sign),
    # The document counts -0 as negative. That is so on Ascend 950; earlier kernels compare with zero.
    ("Signbit", lambda x: x < 0 if is_whole(x) else np.signbit(x)),
    ("Square", np.square),
    ("Trunc*", keep_whole(np.trunc)),
):
    rows(_names, _function)


@reference("aclnnInplaceOne", raw=True)
def ones(x: Array, *, out: tuple[Array]) -> None:
    set_all(out[0], codes(converted(1, x.dtype)).reshape(-1)[0])


@reference("aclnnInplaceZero", raw=True)
def zeros(x: Array, *, out: tuple[Array]) -> None:
    set_all(out[0], codes(converted(0, x.dtype)).reshape(-1)[0])


def _round_decimals(x: Array, decimals: int) -> Any:
    """Half to even at a decimal place; integers too, where it lies left of the point."""
    if is_whole(x) and decimals >= 0:
        return x
    scale = np.power(10.0, float(abs(decimals))).astype(floats(x).dtype)
    return np.rint(x * scale) / scale if decimals >= 0 else np.rint(x / scale) * scale


rows("RoundDecimals*", _round_decimals)


def _nan_to_num(x: Array, nan: float, posinf: float, neginf: float) -> Array:
    if is_whole(x):
        return x
    return where(np.isnan(x), nan, where(np.isposinf(x), posinf, where(np.isneginf(x), neginf, x)))


rows("NanToNum*", _nan_to_num)


@reference("aclnnCast", raw=True)
def cast(x: Array, dtype: int, *, out: tuple[Array]) -> None:
    """Floats to integers are cut off, to those of 32 and 64 bits also saturated; integers and narrower results wrap around.

    NaN becomes 0; to BOOL everything but zero is True.
    """
    cast_into(out[0], x)


# ------------------------------------------------------------------------------------------------------ three operands


def _addcmul(x: Array, a: Array, b: Array, value: Any) -> Any:
    return x + number(value, a) * a * b


def _addcdiv(x: Array, a: Array, b: Array, value: Any) -> Any:
    return x + value * (a / b)


def between(start: Array, end: Array, weight: Any, from_start: Any) -> Any:
    """end weighted with ``weight`` and start with the rest; which of them the sum begins with decides about infinities."""
    step = end - start
    if isinstance(from_start, (bool, np.bool_)):  # of one weight for all
        return start + weight * step if from_start else end + (weight - 1) * step
    return where(from_start, start + weight * step, end + (weight - 1) * step)


def _lerp(start: Array, end: Array, weight: Any) -> Any:
    """From start for weights below a half, as the public kernel (of Ascend 950) does."""
    return between(start, end, weight, np.less(weight, 0.5))


rows("Addcmul*", _addcmul)
rows("Addcdiv*", _addcdiv)
rows("Lerp* Lerps*", _lerp)
rows("SWhere", lambda condition, x, y: where(condition, x, y))
rows("MaskedScale", lambda x, mask, scale: x * mask * np.float32(scale))


@reference("aclnnScale")
def scaled(x: Array, scale: Array, bias: Optional[Array], axis: int, num_axes: int, scale_from_blob: bool) -> Any:
    """x * scale + bias, with scale along the axes of x from ``axis`` on."""
    if scale.size == 1:
        shape: tuple[int, ...] = (1,)
    else:
        shape = scale.shape + (1,) * (x.ndim - axis % x.ndim - scale.ndim)
    product = x * scale.reshape(shape)
    return product if bias is None else product + bias.reshape(shape)


@reference("aclnnAmpUpdateScale")
def amp_update_scale(
    current: Array, tracker: Array, found_inf: Array, growth: float, backoff: float, interval: int
) -> tuple[Array, Array]:
    """Shrinks the loss scale after an overflow, and grows it after ``interval`` steps without one unless it would overflow."""
    bad = found_inf.reshape(current.shape) != 0
    due = tracker.reshape(current.shape) + 1 == interval
    grown = current * np.float32(growth)
    calm = where(due & np.isfinite(grown), grown, current)
    count = where(bad | due, 0, tracker.reshape(current.shape) + 1)
    return where(bad, current * np.float32(backoff), calm), count.reshape(tracker.shape)


# ------------------------------------------------------------------------------------------------------ lists

rows("Sum AddN", lambda tensors: extreme(np.add, tensors))
rows("MaxN", lambda tensors: extreme(np.maximum, tensors))
rows("MinN", lambda tensors: extreme(np.minimum, tensors))
