"""Rules of ops-math/conversion: operators that write values into a tensor, limit them, or keep a part of them."""

from __future__ import annotations

import math

import numpy as np

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- limits

_LIMITED = plus_bf16("FLOAT16 FLOAT INT32 INT64 INT16 INT8 UINT8 DOUBLE")


def _one_limit(*names: str) -> Check:
    def check(call: Call) -> None:
        if not any(call.is_present(name) for name in names):
            call.refuse(names[0], "is None, and so is the other limit; one must be given", PARAM_NULLPTR)

    return check


def _limited_by(tensor: str, *limits: str) -> DtypeRule:
    """The data type in which a tensor is compared with scalar limits on Ascend 950."""

    def dtype(call: Call) -> DataType:
        given = [scalar_default(call.dtype(name)) for name in limits if call.is_present(name)]
        scalar = given[0] if len(given) == 1 else promote(*given)
        return combine(call.dtype(tensor), scalar)

    return dtype


def _clamp(names: str, tensor: str, out: str, *limits: str) -> None:
    """Limits that are scalars: elsewhere than on Ascend 950 they take the output's data type."""
    common = _limited_by(tensor, *limits)
    rule(
        names,
        _one_limit(*limits),
        dtypes(_LIMITED, tensor, out),
        *((output_shape(out=shape_of(tensor)),) if out == "out" else ()),
        max_rank(8, tensor),
        unless_empty(
            tensor,
            on_products("950", castable(common, out), dtype_in(common, _LIMITED, limits[0])),
            when("product != '950'", castable(tensor, out)),
        ),
        output_dtype(out=dtype_of(tensor)),
        nullable=" ".join(limits) if len(limits) > 1 else "",
    )


_clamp("aclnnClamp", "self", "out", "clipValueMin", "clipValueMax")
_clamp("aclnnClampMin", "self", "out", "clipValueMin")
_clamp("aclnnClampMax", "self", "out", "clipValueMax")
_clamp("aclnnInplaceClampMax", "selfRef", "selfRef", "clipValueMax")


def _clamp_tensor(names: str, tensor: str, out: str, *limits: str) -> None:
    """Limits that are tensors: all promote, and broadcast, together."""
    common, together = promoted(tensor, *limits), broadcast_shape(tensor, *limits)
    fitting = output_shape(out=together) if out == "out" else output_shape(selfRef=together)
    rule(
        names,
        _one_limit(*limits),
        dtypes(_LIMITED, tensor, out),
        max_rank(8, tensor, out, *limits),
        unless_empty(
            " ".join((tensor, *limits)), castable(common, out), dtype_in(common, _LIMITED, limits[-1]), fitting
        ),
        output_dtype(out=common),
        nullable=" ".join(limits) if len(limits) > 1 else "",
    )


_clamp_tensor("aclnnClampTensor", "self", "out", "clipValueMin", "clipValueMax")
_clamp_tensor("aclnnClampMinTensor", "self", "out", "clipValueMin")
_clamp_tensor("aclnnClampMaxTensor", "self", "out", "max")
_clamp_tensor("aclnnInplaceClampMinTensor", "selfRef", "selfRef", "clipValueMin")
_clamp_tensor("aclnnInplaceClampMaxTensor", "selfRef", "selfRef", "max")


def _ordered_limits(call: Call) -> None:
    whole = is_integral(call.dtype("clipValueMin"))
    low, high = (call[name].value for name in ("clipValueMin", "clipValueMax"))
    if whole:
        low, high = (math.trunc(n) if math.isfinite(n) else n for n in (low, high))
    call.require(not low > high, "clipValueMax", f"is {high}; it must be at least clip_value_min, {low}")


rule(
    "aclnnHardtanh",
    dtypes(_LIMITED, "self", "clipValueMin", "clipValueMax"),
    same_dtype("self", "out"),
    max_rank(8, "self"),
    output_shape(out=shape_of("self")),
    _ordered_limits,
)
rule(
    "aclnnInplaceHardtanh",
    dtypes(_LIMITED, "selfRef", "clipValueMin", "clipValueMax"),
    max_rank(8, "selfRef"),
    _ordered_limits,
)

# ------------------------------------------------------------------------------------------------- values

_FILLED = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE BOOL COMPLEX64 COMPLEX128"


def _value_promotes(call: Call) -> None:
    dtype = call.dtype("value")
    text = f"has dtype {dtype.name}, which does not promote with {call.dtype('selfRef').name}"
    call.require(promote(call.dtype("selfRef"), dtype) is not DataType.DT_UNDEFINED, "value", text)


rule(
    "aclnnInplaceFillScalar",
    dtypes({"A2 A3 950": _FILLED + " BF16 UINT16 UINT32 UINT64", "": _FILLED}, "selfRef"),
    _value_promotes,
    max_rank(8, "selfRef"),
)


rule(
    "aclnnInplaceFillTensor",
    dtypes(plus_bf16(_FILLED), "selfRef"),
    max_rank(8, "selfRef"),
    require("value in ((), (1,))"),
)

_MASKED = plus_bf16("FLOAT INT32 INT64 FLOAT16 INT8 BOOL")
rule(
    "aclnnInplaceMaskedFillScalar",
    dtypes(_MASKED, "selfRef"),
    dtypes("BOOL", "mask"),
    max_rank(8, "selfRef", "mask"),
    broadcastable("mask", "selfRef"),
)
rule(
    "aclnnInplaceMaskedFillTensor",
    dtypes(_MASKED, "selfRef"),
    dtypes("FLOAT INT32 INT64 FLOAT16 INT8 BOOL BF16", "value"),
    dtypes("BOOL", "mask"),
    max_rank(8, "selfRef", "mask"),
    rank(0, 0, "value"),
    broadcastable("mask", "selfRef"),
)
rule(
    "aclnnInplaceCopy",
    dtypes(_FILLED + " UINT16 UINT32 UINT64 BF16 FLOAT8_E5M2 FLOAT8_E4M3FN HIFLOAT8 FLOAT8_E8M0", "selfRef", "src"),
    max_rank(8, "selfRef", "src"),
    broadcastable("src", "selfRef"),
)


def _value_fits(call: Call) -> None:
    value, dtype = call["fillValue"], call.dtype("selfRef")
    text = f"has dtype {value.dtype.name}; it must be real"
    call.require(can_cast(value.dtype, DataType.FLOAT), "fillValue", text)
    if dtype in (DataType.BF16, DataType.BOOL):
        return  # CANN looks at no limits for these
    number = value.value
    if is_integral(dtype):
        limits = np.iinfo(dtype.numpy)
        inside = math.isfinite(number) and limits.min <= int(number) <= limits.max
    else:
        inside = not math.isfinite(number) or abs(number) <= float(np.finfo(dtype.numpy).max)
    call.require(inside, "fillValue", f"is {number}, which {dtype.name} cannot hold")


rule(
    "aclnnInplaceFillDiagonal",
    dtypes(plus_bf16("FLOAT16 FLOAT DOUBLE INT8 INT16 INT32 INT64 UINT8 BOOL"), "selfRef"),
    rank(2, 8, "selfRef"),
    require("len(selfRef) == 2 or min(selfRef) == max(selfRef)", why="beyond two axes all sizes must be equal"),
    _value_fits,
)

# ------------------------------------------------------------------------------------------------- triangles

_TRIANGLE = "UINT8 INT8 INT16 INT32 INT64 FLOAT16 FLOAT DOUBLE BOOL UINT16 UINT32 UINT64"
_TRIANGLES = {"A2 A3": _TRIANGLE + " BF16", "950": _TRIANGLE + " BF16 COMPLEX64 COMPLEX32", "": _TRIANGLE}


def _rank_unless_empty(name: str) -> tuple[Check, ...]:
    """Triu takes any rank of empty tensors."""
    return max_rank(8, name), unless_empty(name, rank(2, 8, name))


rule(
    "aclnnTril",
    dtypes(_TRIANGLES, "self", "out"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    rank(2, 8, "self"),
    output_shape(out=shape_of("self")),
)
rule("aclnnInplaceTril", dtypes(_TRIANGLES, "selfRef"), rank(2, 8, "selfRef"))
rule(
    "aclnnTriu",
    dtypes(_TRIANGLES, "self"),
    same_dtype("self", "out"),
    no_private_format("self"),
    same_format("self", "out"),
    *_rank_unless_empty("self"),
    output_shape(out=shape_of("self")),
)
rule("aclnnInplaceTriu", dtypes(_TRIANGLES, "selfRef"), no_private_format("selfRef"), *_rank_unless_empty("selfRef"))

# ------------------------------------------------------------------------------------------------- diagonals

_DIAGONAL = plus_bf16("FLOAT16 FLOAT INT64 INT32 INT16 INT8 UINT8 DOUBLE BOOL COMPLEX64")


# A vector becomes the diagonal of a square matrix; a matrix gives its diagonal.
_SIDE = define(side="self.size + abs(diagonal)")
_DIAGONAL_SHAPE = (
    "(side, side) if len(self) < 2 else (max(0, min(self[0] + min(diagonal, 0), self[1] - max(diagonal, 0))),)"
)
# CANN does nothing for the diagonal just outside a matrix.
_BEYOND_LAST = "(len(self) == 2 and (diagonal > 0 and self[1] == diagonal or diagonal < 0 and self[0] == -diagonal))"


rule(
    "aclnnDiag",
    dtypes(_DIAGONAL, "self"),
    same_dtype("self", "out"),
    max_rank(2, "self"),
    when(
        f"self.size == 0 and diagonal != 0 and not {_BEYOND_LAST}",
        dtypes("FLOAT16 FLOAT INT64 INT32 INT16 INT8 UINT8 DOUBLE BOOL BF16", "out"),
    ),
    _SIDE,
    when(f"self.size > 0 and not {_BEYOND_LAST}", output_shape_relaxed(out=_DIAGONAL_SHAPE)),
    infer_shape(out=_DIAGONAL_SHAPE),
)
rule(
    "aclnnDiagFlat",
    dtypes(_DIAGONAL, "self", "out"),
    max_rank(8, "self", "out"),
    _SIDE,
    copied_output_shape(out="(side, side)"),
    output_dtype(out=dtype_of("self")),
    null_status=INNER_NULLPTR,
)
