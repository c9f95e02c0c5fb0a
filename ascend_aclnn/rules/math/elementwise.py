"""Rules of ops-math/math: operators of one operand, of three, and of lists, whose output has their (broadcast) shape."""

from __future__ import annotations

from typing import Callable

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# ----------------------------------------------------------------------------------------------------------------- unary


def _no_private(*names: str) -> tuple[Check, ...]:
    return (no_private_format(*names),)


def _no_private_950(*names: str) -> tuple[Check, ...]:
    return (on_products("950", no_private_format(*names)),)


def _one_format(source: str, target: str) -> tuple[Check, ...]:
    return (same_format(source, target),)


def _one_plain_format(source: str, target: str) -> tuple[Check, ...]:
    return same_format(source, target), no_private_format(source)


def _abs(source: str, target: str) -> tuple[Check, ...]:
    takes = {"A2 A3": f"{REAL} BF16 COMPLEX64", "950": f"{REAL} BF16 COMPLEX32 COMPLEX64", "": REAL}
    checks = unary(takes, cast=real_of, extra=_one_plain_format)(source, target)
    return (*checks, has_dtype(target, real_of(source)))


_TRIG = (plus_bf16(REAL_AND_COMPLEX), f"{FLOATS_AND_DOUBLE} {COMPLEX} BF16")

forms("Abs", _abs)
forms("Acos", unary(plus_bf16(REAL), f"{FLOATS_AND_DOUBLE} BF16"), "input out", "inputRef inputRef")
forms("Acosh", unary(*_TRIG, cast=floated, extra=_no_private_950), inplace="selfRef selfRef")
forms("Asin", unary(plus_bf16(REAL), plus_bf16(FLOATS_AND_DOUBLE)), inplace="selfRef selfRef")
forms(
    "Asinh",
    unary(*_TRIG, changes=plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"), extra=_no_private_950),
    "input out",
    "inputRef inputRef",
)
forms(
    "Atan",
    unary(plus_bf16(REAL), f"{FLOATS_AND_DOUBLE} BF16", changes=plus_bf16(FLOATS_AND_DOUBLE)),
    "input out",
    "inputRef inputRef",
)
forms("Atanh", unary(*_TRIG, changes=plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}")), "input out", "inputRef inputRef")
forms("Ceil", unary(plus_bf16(FLOATS_AND_DOUBLE)), inplace="selfRef selfRef")
forms(
    "Cos",
    unary(plus_bf16(REAL_AND_COMPLEX), plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}")),
    "input out",
    "inputRef inputRef",
)
forms(
    "Cosh",
    unary(*_TRIG, changes=plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"), extra=_no_private_950),
    inplace="selfRef selfRef",
)
forms("Digamma", unary(FLOATS_AND_DOUBLE, extra=_one_format))
forms("Lgamma", unary(FLOATS_AND_DOUBLE, extra=_one_format))
for _name in ("Erf", "Erfc"):
    forms(
        _name,
        unary(plus_bf16(f"{FLOATS_AND_DOUBLE} BOOL INT64"), cast=floated, changes=plus_bf16(FLOATS_AND_DOUBLE)),
        inplace="selfRef selfRef",
    )
forms(
    "Exp",
    unary(
        plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX} BOOL INT64"),
        cast=floated,
        changes=plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"),
    ),
    inplace="selfRef selfRef",
)
forms("Exp2", unary(plus_bf16(REAL), cast=floated, changes=plus_bf16(FLOATS_AND_DOUBLE)), inplace="selfRef selfRef")
forms(
    "Expm1",
    unary(plus_bf16("FLOAT FLOAT16 INT64 BOOL"), cast=floated, changes=FLOATS_OF_PRODUCT),
    inplace="selfRef selfRef",
)
forms(
    "Floor",
    unary(plus_bf16(f"{FLOATS_AND_DOUBLE} {INTEGERS} {UNSIGNED}"), extra=_no_private),
    inplace="selfRef selfRef",
)
forms("Frac", unary(plus_bf16(f"FLOAT FLOAT16 {INTEGERS}")), "input out", "inputRef inputRef")
forms(
    "Log",
    unary(plus_bf16(REAL_AND_COMPLEX), plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"), cast=floated),
    inplace="selfRef selfRef",
)
forms(
    "Log2",
    unary(plus_bf16(REAL_AND_COMPLEX), plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"), cast=floated),
    inplace="selfRef selfRef",
)
forms(
    "Log10",
    lambda source, target: (
        *unary(f"{REAL_AND_COMPLEX} BF16", cast=floated, changes=plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"))(
            source, target
        ),
        has_dtype(target, floated(source)),
    ),
    inplace="selfRef selfRef",
)
forms("Log1p", unary(plus_bf16(REAL), plus_bf16(FLOATS_AND_DOUBLE)), inplace="selfRef selfRef")
forms(
    "Neg", unary(plus_bf16(f"INT8 INT32 INT64 {FLOATS_AND_DOUBLE} {COMPLEX}"), cast=dtype_of), inplace="selfRef selfRef"
)
forms(
    "Reciprocal",
    unary(plus_bf16(REAL_AND_COMPLEX), plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"), extra=_one_format),
    inplace="selfRef selfRef",
)
_ROUND = unary(
    {"910": f"{FLOATS_AND_DOUBLE} INT32 INT64", "": f"{FLOATS_AND_DOUBLE} INT32 INT64 BF16"}, extra=_no_private
)
forms("Round", _ROUND, inplace="selfRef selfRef")
forms("RoundDecimals", _ROUND, inplace="selfRef selfRef")
forms("Rsqrt", unary(*_TRIG, changes=plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}")), inplace="selfRef selfRef")
forms("Sin", unary(*_TRIG, changes=plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}")), inplace="selfRef selfRef")
forms(
    "Sinc",
    unary(plus_bf16(REAL), f"{FLOATS_AND_DOUBLE} BF16"),
    inplace="selfRef selfRef",
    null_status=INNER_NULLPTR,
)
forms(
    "Sinh", unary(plus_bf16(REAL_AND_COMPLEX), plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}")), inplace="selfRef selfRef"
)
forms(
    "Sqrt",
    unary(
        {"910": REAL_AND_COMPLEX, "": f"{REAL_AND_COMPLEX} BF16"},
        cast=floated,
        changes=plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"),
    ),
    inplace="self self",
)
forms(
    "Square", unary("INT64 FLOAT FLOAT16 INT32 BF16", extra=lambda *n: (only_products("950"), *_one_plain_format(*n)))
)
forms("Tan", unary(plus_bf16(REAL_AND_COMPLEX), cast=floated), inplace="selfRef selfRef")
_TANH = plus_bf16(f"FLOAT FLOAT16 BOOL {INTEGERS}")
forms(
    "Tanh",
    unary(_TANH, _TANH, cast=floated, changes=FLOATS_OF_PRODUCT, extra=_one_plain_format),
    inplace="selfRef selfRef",
)
forms(
    "Trunc",
    unary({"A2 A3": "FLOAT FLOAT16 BF16", "950": "FLOAT FLOAT16 BF16 INT8 UINT8 INT32", "": "FLOAT FLOAT16"}),
    inplace="selfRef selfRef",
)
forms(
    "NanToNum",
    lambda source, target, *_: (
        only_products(PRODUCTS_WITH_BF16),
        *unary(f"FLOAT FLOAT16 BF16 {INTEGERS} BOOL")(source, target),
    ),
    inplace="selfRef selfRef",
)
rule("aclnnInplaceOne", dtypes(plus_bf16(REAL), "selfRef"), max_rank(8, "selfRef"))
_ZERO = f"{REAL_AND_COMPLEX} UINT16 BF16"
_ZERO_950 = f"{_ZERO} FLOAT8_E5M2 FLOAT8_E4M3FN HIFLOAT8 FLOAT4_E1M2 FLOAT4_E2M1"
rule("aclnnInplaceZero", dtypes({"950": _ZERO_950, "": _ZERO}, "selfRef"))
forms(
    "BitwiseNot",
    unary({"950": f"{INTEGERS} {UNSIGNED} BOOL", "": f"{INTEGERS} BOOL"}, extra=_no_private),
    null_status=INNER_NULLPTR,
)

# Kernels of these three names take a dtype that only the operator's document or registry tells.
rule(
    "aclnnIsInf",
    only_products(f"{PRODUCTS_WITH_BF16} 310P"),
    dtype_table("x out", "FLOAT16 BOOL", "FLOAT BOOL", "BF16 BOOL", products=PRODUCTS_WITH_BF16),
    dtype_table("x out", "FLOAT16 BOOL", "FLOAT BOOL", products="310P"),
    output_shape(out=shape_of("x")),
    output_dtype(out="BOOL"),
)
_ANGLE = [f"{name} FLOAT" for name in ["FLOAT", "COMPLEX64", "BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64"]]


def _angle(call: Call) -> DataType:
    came = call.dtype("x")
    return came if came in (DataType.FLOAT16, DataType.BF16) else DataType.FLOAT


rule(
    "aclnnAngleV2",
    dtype_table("x out", "FLOAT16 FLOAT16", "BF16 BF16", *_ANGLE, products=PRODUCTS_WITH_BF16),
    dtype_table("x out", "FLOAT16 FLOAT16", *_ANGLE, products="910"),
    tiling(on_products("950", max_rank(8, "x"))),
    output_shape(out=shape_of("x")),
    output_dtype(out=_angle),
)

# What has no infinity gives false everywhere, so every dtype passes.
_FINITE = unary(plus_bf16(REAL), "BOOL", makes=fixed_dtype("BOOL"))
forms("IsFinite", _FINITE)
_INFINITE = f"FLOAT FLOAT16 BOOL {INTEGERS}"
for _name in ("IsNegInf", "IsPosInf"):
    forms(
        _name,
        lambda source, target: (
            only_products(f"{PRODUCTS_WITH_BF16} 310P"),
            *unary(plus_bf16(_INFINITE), "BOOL", makes=fixed_dtype("BOOL"))(source, target),
        ),
    )

_LOGIC = f"{REAL} BF16"
forms(
    "LogicalNot",
    unary(
        _LOGIC,
        _LOGIC,
        makes=fixed_dtype("BOOL"),
        extra=lambda *names: (max_rank_if_strided(*names),),
        most=None,
    ),
    inplace="selfRef selfRef",
)
_SIGNBIT = plus_bf16(f"{REAL} {UNSIGNED}")
forms("Signbit", unary(_SIGNBIT, _SIGNBIT, makes=fixed_dtype("BOOL")))

forms(
    "Real",
    lambda source, target: (
        *unary(
            {
                "950": "FLOAT FLOAT16 COMPLEX32 COMPLEX64",
                "A2 A3": f"FLOAT FLOAT16 COMPLEX32 {COMPLEX}",
                "": COMPLEX,
            },
            cast=real_of,
            extra=_no_private_950,
        )(source, target),
        has_dtype(target, real_of(source)),
    ),
)

_SIGN = f"{FLOATS_AND_DOUBLE} INT32 INT64 BOOL {COMPLEX}"


def _sign(call: Call) -> None:
    # CANN compares the two dtypes only for those it lists, and lists none for the products that are not named here.
    if call.dtype("self") in parse_dtypes(_SIGN):
        same_dtype("self", "result")(call)
    elif call.product == "910":
        dtypes(_SIGN, "self")(call)
    elif call.product in PRODUCTS_WITH_BF16.split():
        dtypes(f"{_SIGN} BF16", "self")(call)


rule("aclnnSign", _sign, output_shape(result=shape_of("self")), output_dtype(result=dtype_of("self")))

_CAST_950 = f"{REAL_AND_COMPLEX} {UNSIGNED} BF16 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN COMPLEX32 FLOAT4_E1M2 FLOAT4_E2M1"


def _packs_contiguous(call: Call) -> None:
    strided = call.dtype("out") is DataType.INT4 and not call["self"].is_contiguous
    call.require(not strided, "self", "is not contiguous; a cast to INT4 needs a contiguous tensor")


rule(
    "aclnnCast",
    dtypes(
        {"A2 A3": f"{REAL_AND_COMPLEX} {UNSIGNED} BF16", "950": _CAST_950, "": f"{REAL_AND_COMPLEX} {UNSIGNED}"}, "self"
    ),
    dtype_in(
        dtype_attribute("dtype"),
        {
            "A2 A3": f"{REAL_AND_COMPLEX} {UNSIGNED} BF16",
            "950": f"{_CAST_950} INT4",
            "": f"{REAL_AND_COMPLEX} {UNSIGNED}",
        },
        "dtype",
    ),
    max_rank(8, "self"),
    output_shape(out=shape_of("self")),
    _packs_contiguous,
    output_dtype(out=dtype_attribute("dtype")),
)

# -------------------------------------------------------------------------------------------------------- three operands


def _fused(takes: DtypeSet, formats: bool) -> Callable[..., tuple[Check, ...]]:
    def make(a: str, out: str) -> tuple[Check, ...]:
        common = promoted("tensor1", "tensor2", a)
        return (
            dtypes(takes, a, "tensor1", "tensor2"),
            castable(common, out),
            *((no_private_format(a, "tensor1", "tensor2", out),) if formats else ()),
            *pair(a, "tensor1", "tensor2", out=out),
            output_dtype(**{out: common}),
        )

    return make


forms("Addcdiv", _fused(plus_bf16(f"{FLOATS_AND_DOUBLE} INT64"), False), "self out", "selfRef selfRef")
forms("Addcmul", _fused(plus_bf16(f"{FLOATS_AND_DOUBLE} INT32 INT64 INT8 UINT8"), True), "self out", "selfRef selfRef")


def _lerp(a: str, out: str) -> tuple[Check, ...]:
    return (
        dtypes(FLOATS_OF_PRODUCT, a),
        same_dtype(a, "end", "weight", out),
        output_shape(**{out: broadcast_shape(a, "end", "weight")}),
        max_rank_if_strided(a, "end", "weight", out),
        output_dtype(**{out: dtype_of(a)}),
    )


def _lerps(a: str, out: str) -> tuple[Check, ...]:
    return (
        dtypes(FLOATS_OF_PRODUCT, a, "end"),
        same_dtype(a, "end"),
        dtypes(plus_bf16(FLOATS_AND_DOUBLE), out),
        output_shape(**{out: broadcast_shape(a, "end")}),
        max_rank_if_strided(a, "end", out),
        output_dtype(**{out: dtype_of(a)}),
    )


forms("Lerp", _lerp, "self out", "selfRef selfRef")
forms("Lerps", _lerps, "self out", "selfRef selfRef")

_WHERE: DtypeSet = {"910": f"{REAL_AND_COMPLEX} {UNSIGNED}", "": f"{REAL_AND_COMPLEX} {UNSIGNED} BF16"}
rule(
    "aclnnSWhere",
    dtypes(_WHERE, "self", "other", "out"),
    dtypes("BOOL UINT8", "condition"),
    *pair("self", "other", "condition", out="out"),
    output_dtype(out=promoted("self", "other")),
)


def _blob(call: Call) -> None:
    """The shape of a scale: the axes of x from ``axis`` on, ``numAxes`` of them or as many as it has."""
    x, scale, axes = call.shape("x"), call.shape("scale"), call["numAxes"]
    start = call["axis"] % len(x)
    if not call["scaleFromBlob"]:
        fits = start + len(scale) <= len(x) and (scale in ((), (1,)) or x[start : start + len(scale)] == scale)
        return call.require(fits, "scale", f"has shape {scale}; it must be the axes of x {x} from axis {start} on")
    if axes == 0:
        return call.require(call["scale"].size == 1, "scale", f"has shape {scale}; it must have one element")
    count = len(x) - start if axes == -1 else axes
    fits = start + count <= len(x) and x[start : start + count] == scale
    return call.require(fits, "scale", f"has shape {scale}; it must be {x[start : start + count]}, axes of x")


def _scale_axes(call: Call) -> None:
    n = len(call.shape("x"))
    call.require(-n <= call["axis"] < n, "axis", f"is {call['axis']}; it must be in [{-n}, {n - 1}]")
    call.require(call["numAxes"] >= -1, "numAxes", f"is {call['numAxes']}; it must be -1 or more")


rule(
    "aclnnScale",
    only_products(f"{PRODUCTS_WITH_BF16} 310P"),
    dtypes(FLOATS_OF_PRODUCT, "x"),
    same_dtype("scale", "bias"),
    same_dtype("x", "scale", "y"),
    output_shape(y=shape_of("x")),
    same_shape("scale", "bias"),
    max_rank(8, "x", "scale"),
    _scale_axes,
    _blob,
    output_dtype(y=dtype_of("x")),
)
rule(
    "aclnnMaskedScale",
    only_products("950"),
    same_dtype("self", "out"),
    dtypes("FLOAT FLOAT16 BF16", "self"),
    dtypes("FLOAT FLOAT16 UINT8 INT8", "mask"),
    same_shape("self", "mask"),
    output_shape(out=shape_of("self")),
    max_rank(8, "self"),
    same_format("self", "out"),
    output_dtype(out=dtype_of("self")),
)


def _one_element_each(call: Call) -> None:
    for name in ("currentScale", "growthTracker", "foundInf"):
        sizes = call.shape(name)
        call.require(sizes in ((), (1,)), name, f"has shape {sizes}; it must have one element")


rule(
    "aclnnAmpUpdateScale",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table(
        "currentScale growthTracker foundInf updatedScale updatedGrowthTracker",
        "FLOAT INT32 FLOAT FLOAT INT32",
        "FLOAT16 INT32 FLOAT16 FLOAT16 INT32",
        "BF16 INT32 BF16 BF16 INT32",
    ),
    tiling(in_range("growthInterval", 1, 2**31 - 1), _one_element_each),
    output_shape(updatedScale=shape_of("currentScale"), updatedGrowthTracker=shape_of("growthTracker")),
    output_dtype(updatedScale=dtype_of("currentScale"), updatedGrowthTracker="INT32"),
)

# ----------------------------------------------------------------------------------------------------------------- lists


_MAX_N = "FLOAT16 FLOAT INT8 INT32 INT64"


def _some_tensors(call: Call) -> None:
    call.require(len(call["tensors"]) > 0, "tensors", "is an empty list")


def _first_shape(call: Call) -> Shape:
    _some_tensors(call)
    tensors = call.items("tensors")
    for tensor in tensors:
        text = f"has tensors of shapes {tensors[0].shape} and {tensor.shape}; they must be the same"
        call.require(tensor.shape == tensors[0].shape, "tensors", text)
    return tensors[0].shape


rule(
    "aclnnSum",
    no_null_item("tensors"),
    _some_tensors,
    dtypes("FLOAT16 FLOAT INT8 INT32 UINT8", "tensors", "out"),
    max_rank(8, "tensors", "out"),
    output_shape(out=broadcast_of_list("tensors")),
    output_dtype(out=dtype_of("tensors")),
)
rule(
    "aclnnAddN",
    no_null_item("tensors"),
    _some_tensors,
    only_products(PRODUCTS_WITH_BF16),
    dtypes("INT32 INT64 FLOAT16 BF16 FLOAT", "tensors", "out"),
    has_dtype("out", dtype_of("tensors")),
    max_rank(8, "tensors", "out"),
    output_shape(out=_first_shape),
    output_dtype(out=dtype_of("tensors")),
)
rule(
    "aclnnMaxN aclnnMinN",
    no_null_item("tensors"),
    dtypes({"A2 A3": f"{_MAX_N} BF16", "950": f"{_MAX_N} BF16 UINT8", "": _MAX_N}, "tensors", "out"),
    same_dtype("out", "tensors"),
    max_rank(8, "tensors", "out"),
    _some_tensors,
    output_shape(out=broadcast_of_list("tensors")),
    output_dtype(out=dtype_of("tensors")),
)
