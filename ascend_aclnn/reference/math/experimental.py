"""References of the experimental operators of ops-math/math, by the formulas of their documents and kernels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference import _special as special
from ascend_aclnn.reference._arrays import cast_into, total
from ascend_aclnn.reference._pointwise import (
    extreme,
    floats,
    is_whole,
    number,
    on_floats,
    power,
    quotient,
    rows,
    trunc_quotient,
)
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.math.sorting import order

# ------------------------------------------------------------------------------------------------- one operand

for _names, _function in (
    ("AcosV2", np.arccos),
    ("AsinWithAgent", on_floats(np.arcsin)),
    ("AsinhV2 AsinhWithAgent", on_floats(np.arcsinh)),
    ("CeilV2", np.ceil),
    ("CoshV2", np.cosh),
    ("ErfInv", special.erfinv),
    ("FresnelCos", lambda x: special.fresnel(x)[0]),
    ("FresnelSin", lambda x: special.fresnel(x)[1]),
    ("Log1pV2", np.log1p),
    ("Ndtri", special.normal_quantile),
    ("RealV2", np.real),
    ("SinhV2", np.sinh),
    ("SquareV2", np.square),
    ("TanV2 TanV3", np.tan),
    ("TruncV2", np.trunc),
):
    rows(_names, _function)

reference("aclnnInvertV2")(np.invert)
reference("aclnnCastV2", raw=True)(lambda x, out: cast_into(out[0], x))
reference("aclnnCastV3", raw=True)(lambda x, dtype, out: cast_into(out[0], x))

# ------------------------------------------------------------------------------------------------- two operands


def _div(x: Array, y: Array) -> Any:
    """Integers are divided as float32 and cut off."""
    return np.trunc(floats(x) / floats(y)) if is_whole(x) else x / y


def _div_mode(x: Array, y: Array, mode: int) -> Any:
    return _div(x, y) if mode == 0 else quotient(mode, x, y)


def _sqrt_backward(y: Array, grad: Array) -> Any:
    """0 where the gradient is 0, whatever y."""
    half = 0.5 * grad
    return np.where(half != 0, half / y, 0)


for _names, _binary in (
    ("AcosGrad", lambda grad, x: -grad / np.sqrt(1 - x * x)),
    ("AcosGradV2", lambda x, grad: -grad / np.sqrt(1 - x * x)),
    ("AcoshGrad", lambda y, grad: grad / np.sinh(y)),
    ("AsinGrad", lambda x, grad: grad / np.sqrt(1 - x * x)),
    ("AsinhGrad", lambda y, grad: grad / np.cosh(y)),
    ("AtanGrad", lambda x, grad: grad / (1 + x * x)),
    ("SqrtBackward", _sqrt_backward),
    ("AddV2", np.add),
    ("AssignSub SubV2", np.subtract),
    ("DivV2", _div),
    ("DivV3", _div_mode),
    ("FloorDiv", lambda x, y: np.floor(floats(x) / floats(y))),
    ("MaximumV2", np.maximum),
    ("MulNoNan", lambda x, y: np.where(y == 0, 0, x * y)),
    ("MulV2", np.multiply),
    ("Pow Pow2", power),
    ("RealDiv", _div),
    ("TruncateDiv", trunc_quotient),
    ("TruncateMod", np.fmod),
    ("ApproximateEqual", lambda x, y, tolerance: np.abs(x - y) < np.float32(tolerance)),
):
    rows(_names, _binary)


@reference("aclnnComplexV2")
def complex_v2(real: Array, imaginary: Array) -> Any:
    """Pairs of real and imaginary parts, flattened into twice as many rows."""
    return np.stack((real.reshape(-1), imaginary.reshape(-1)), 1).reshape(2 * real.shape[0], *real.shape[1:])


@reference("aclnnComplexV3")
def complex_v3(real: Array, imaginary: Array) -> Any:
    result = np.empty(np.broadcast_shapes(real.shape, imaginary.shape), np.complex64)
    result.real, result.imag = real, imaginary
    return result


# ------------------------------------------------------------------------------------------------- with factors


def _first(x: Array) -> Any:
    return x.reshape(-1)[0]


rows("AddMatMatElements", lambda a, b, c, alpha, beta: c * np.float32(beta) + np.float32(alpha) * a * b)
reference("aclnnAddMatMatElementsPlus")(lambda c, a, b, beta, alpha: c * _first(beta) + _first(alpha) * a * b)
reference("aclnnAxpyV2")(lambda x, y, alpha: x + _first(alpha) * y)
rows("AxpyV3", lambda x, y, a: np.float32(a) * x + y)
reference("aclnnFusedMulAddN")(lambda x, y, factor: x * _first(factor) + y)
reference("aclnnGerV2")(lambda x, y, a, alpha: a + x.dtype.type(alpha) * np.outer(x, y))
rows("SelectV3", lambda x, y, chosen: np.where(chosen != 0, x, y))
reference("aclnnSumV2")(lambda tensors: extreme(np.add, tensors))


@reference("aclnnAddrV2", "aclnnInplaceAddrV2")
def addr(x: Array, left: Array, right: Array, beta: Any, alpha: Any) -> Any:
    """beta * x + alpha * (left outer right); both factors are 1 by default."""
    product = np.outer(left, right)
    scaled = product if alpha is None else product * number(alpha, product)
    return scaled + (x if beta is None else x * number(beta, x))


@reference("aclnnBiasAdd")
def bias_add(x: Array, bias: Array, layout: Optional[str]) -> Any:
    """One number for each channel, which is axis 1 or the last one."""
    after = x.ndim - 2 if (layout or "NHWC")[1:2] == "C" else 0
    return x + bias.reshape(-1, *(1,) * after)


# ------------------------------------------------------------------------------------------------- matrices, vectors

reference("aclnnDotV2")(lambda x, y: total(x * y))
reference("aclnnTraceV2")(lambda x: total(np.diagonal(x)))
reference("aclnnDiagPart")(np.diagonal)
reference("aclnnEyeV2")(lambda x, rows, columns: np.eye(rows, columns))
reference("aclnnExpandv")(np.broadcast_to)


@reference("aclnnLinSpaceD")
def lin_space(start: Array, end: Array, count: Sequence[int]) -> Any:
    return np.linspace(np.float64(_first(start)), np.float64(_first(end)), count[0])


@reference("aclnnReflectionPad1dV2")
def reflection_pad(x: Array, padding: Sequence[int]) -> Any:
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [tuple(padding)], "reflect")


def _mean(x: Array, axes: Any, keepdims: bool) -> Any:
    count = x.size if axes is None else x.shape[axes]
    return np.true_divide(np.sum(x, axes, np.float64, keepdims=keepdims), count)


# ReduceMaxV2 ReduceMeanV2 ReduceMinV2 ReduceProdV2 ReduceSumV2
for _name, _reduce in (
    ("Max", lambda x, axis, keepdims: np.max(x, axis, keepdims=keepdims)),
    ("Mean", _mean),
    ("Min", lambda x, axis, keepdims: np.min(x, axis, keepdims=keepdims)),
    ("Prod", lambda x, axis, keepdims: np.prod(x, axis, np.float64, keepdims=keepdims)),
    ("Sum", lambda x, axis, keepdims: np.sum(x, axis, np.float64, keepdims=keepdims)),
):

    def _reduced(x: Array, axes: int, keepdims: int, reduce: Any = _reduce) -> Any:
        """Over axis 0 or 1 of a matrix, or (-1) both."""
        return reduce(x, None if axes == -1 else axes, bool(keepdims))

    reference(f"aclnnReduce{_name}V2")(_reduced)

# ------------------------------------------------------------------------------------------------- order


@reference("aclnnSortWithIndex")
def sort_with_index(x: Array, index: Array, axis: int, descending: bool, stable: bool) -> Any:
    """Values in order and the indices that came with them; NaN comes first either way, as measured on Atlas A2."""
    if x.ndim == 0:
        return x, index
    missing = np.isnan(x) if not is_whole(x) else np.zeros(x.shape, bool)
    places = order(np.where(missing, 0, x), axis, descending)
    first = np.argsort(~np.take_along_axis(missing, places, axis), axis, kind="stable")
    places = np.take_along_axis(places, first, axis)
    return np.take_along_axis(x, places, axis), np.take_along_axis(index, places, axis)


@reference("aclnnIsinPartV1", raw=True)
def isin_part(values: Array, index: Array, count: Array, *, out: tuple[Array]) -> None:
    """Of elements and test elements, joined and sorted: which elements equal a test element.

    ``index`` is where each value was before; those from ``count`` on are test elements.
    """
    (result,) = out
    elements = int(_first(count))
    if result.shape != (elements,):
        raise DataError("out", f"has shape {result.shape}; elements_num is {elements}")
    check_range("index", index, 0, index.size)
    group = np.cumsum(np.append(True, values[1:] != values[:-1])[: values.size]) - 1
    tested = np.bincount(group, index >= elements) > 0
    is_element = index < elements
    result[index[is_element]] = tested[group[is_element]]


rows("Inv", lambda x: 1 / x)
rows("InvGrad", lambda y, grad: -grad * y * y)


def _no_int8(call: Any) -> Optional[str]:
    text = "the contributed kernel does not convert to INT8 as its document says"
    return text if call["y"].dtype == DataType.INT8 else None


@reference("aclnnRsqrtGrad", unsupported=_no_int8)
def rsqrt_grad(y: Array, grad: Array) -> Any:
    """-0.5 * y^3 * grad. Of INT32 the kernel makes zeros: -0.5 without its fraction."""
    return np.zeros_like(y) if is_whole(y) else -np.float32(0.5) * y * y * y * grad


@reference("aclnnEltwise")
def eltwise(inputs: Sequence[Array], mode: int, factors: Optional[Sequence[float]]) -> Any:
    """Products (0), weighted sums (1) or maxima (2) of the elements at each place."""
    if mode == 1:
        inputs = [np.float32(factor) * x for factor, x in zip(factors or [1] * len(inputs), inputs)]
    function = (np.multiply, np.add, np.maximum)[mode]
    return functools.reduce(function, inputs)


@reference("aclnnMaskedFill", raw=True)
def masked_fill(x: Array, mask: Array, value: float, *, out: tuple[Array]) -> None:
    cast_into(out[0], np.where(mask, np.asarray(value).astype(x.dtype), x))


@reference("aclnnSortV2", raw=True)
def sort_v2(x: Array, index: Array, axis: int, descending: bool, *, out: tuple[Array, Array]) -> None:
    """Values sorted along an axis, and what ``index`` has at their places; equal values keep their order."""
    ranks = order(x, axis, descending)
    cast_into(out[0], np.take_along_axis(index, ranks, axis))
    cast_into(out[1], np.take_along_axis(x, ranks, axis))
