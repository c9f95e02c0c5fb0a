"""Rules of ops-math/math: operators of one operand, of three, and of lists, whose output has their (broadcast) shape."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

_ALL = plus_bf16(REAL_AND_COMPLEX)
_REAL = plus_bf16(REAL)
_FLOATS = plus_bf16(FLOATS_AND_DOUBLE)
_ANALYTIC = plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}")
_ANY_FLOATS = f"{FLOATS_AND_DOUBLE} BF16"
_ANY_ANALYTIC = f"{FLOATS_AND_DOUBLE} {COMPLEX} BF16"
_PLAIN = no_private_format("self", "out")
_PLAIN_ON_950 = on_products("950", _PLAIN)
_ONE_FORMAT = same_format("self", "out")
_ONE_PLAIN_FORMAT = (_ONE_FORMAT, no_private_format("self"))
_WITH_310P = f"{PRODUCTS_WITH_BF16} 310P"

# ----------------------------------------------------------------------------------------------------------------- unary

in_both_forms("Acos", *one_operand(_REAL, _ANY_FLOATS))
in_both_forms("Acosh", *one_operand(_ALL, _ANY_ANALYTIC, result_dtype=floated), _PLAIN_ON_950)
in_both_forms("Asin Log1p", *one_operand(_REAL, _FLOATS))
in_both_forms("Asinh Cosh", *one_operand(_ALL, _ANY_ANALYTIC, inplace_dtypes=_ANALYTIC), _PLAIN_ON_950)
in_both_forms("Atan", *one_operand(_REAL, _ANY_FLOATS, inplace_dtypes=_FLOATS))
in_both_forms("Atanh Rsqrt Sin", *one_operand(_ALL, _ANY_ANALYTIC, inplace_dtypes=_ANALYTIC))
in_both_forms("Ceil", *one_operand(_FLOATS))
in_both_forms("Cos Sinh", *one_operand(_ALL, _ANALYTIC))
in_both_forms(
    "Erf Erfc", *one_operand(plus_bf16(f"{FLOATS_AND_DOUBLE} BOOL INT64"), result_dtype=floated, inplace_dtypes=_FLOATS)
)
in_both_forms(
    "Exp",
    *one_operand(
        plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX} BOOL INT64"), result_dtype=floated, inplace_dtypes=_ANALYTIC
    ),
)
in_both_forms("Exp2", *one_operand(_REAL, result_dtype=floated, inplace_dtypes=_FLOATS))
in_both_forms(
    "Expm1", *one_operand(plus_bf16("FLOAT FLOAT16 INT64 BOOL"), result_dtype=floated, inplace_dtypes=FLOATS_OF_PRODUCT)
)
in_both_forms("Floor", *one_operand(plus_bf16(f"{NUMBERS} {UNSIGNED}")), _PLAIN)
in_both_forms("Frac", *one_operand(plus_bf16(f"{FLOATS_WITHOUT_BF16} {INTEGERS}")))
in_both_forms("Log Log2", *one_operand(_ALL, _ANALYTIC, result_dtype=floated))
in_both_forms(
    "Log10",
    *one_operand(f"{REAL_AND_COMPLEX} BF16", result_dtype=floated, inplace_dtypes=_ANALYTIC),
    has_dtype("out", floated("self")),
)
in_both_forms("Neg", *one_operand(plus_bf16(f"INT8 INT32 INT64 {FLOATS_AND_DOUBLE} {COMPLEX}"), result_dtype=dtype_of))
in_both_forms("Reciprocal", *one_operand(_ALL, _ANALYTIC), _ONE_FORMAT)
_ROUNDED = f"{FLOATS_AND_DOUBLE} INT32 INT64"
in_both_forms("Round RoundDecimals", *one_operand({"910": _ROUNDED, "": f"{_ROUNDED} BF16"}), _PLAIN)
in_both_forms("Sinc", *one_operand(_REAL, _ANY_FLOATS), null_status=INNER_NULLPTR)
in_both_forms(
    "Sqrt",
    *one_operand(
        {"910": REAL_AND_COMPLEX, "": f"{REAL_AND_COMPLEX} BF16"}, result_dtype=floated, inplace_dtypes=_ANALYTIC
    ),
)
in_both_forms("Tan", *one_operand(_ALL, result_dtype=floated))
_TANH = plus_bf16(f"{FLOATS_WITHOUT_BF16} BOOL {INTEGERS}")
in_both_forms(
    "Tanh", *one_operand(_TANH, _TANH, result_dtype=floated, inplace_dtypes=FLOATS_OF_PRODUCT), *_ONE_PLAIN_FORMAT
)
in_both_forms("Trunc", *one_operand({"A2 A3": FLOATS, "950": f"{FLOATS} INT8 UINT8 INT32", "": FLOATS_WITHOUT_BF16}))
in_both_forms("NanToNum", only_products(PRODUCTS_WITH_BF16), *one_operand(f"{FLOATS} {INTEGERS} BOOL"))

rule("aclnnDigamma aclnnLgamma", *one_operand(FLOATS_AND_DOUBLE), _ONE_FORMAT)
rule(
    "aclnnSquare",
    only_products("950"),
    *one_operand(f"{FLOATS} INT32 INT64"),
    *_ONE_PLAIN_FORMAT,
)
rule(
    "aclnnBitwiseNot",
    *one_operand({"950": f"{INTEGERS} {UNSIGNED} BOOL", "": f"{INTEGERS} BOOL"}),
    _PLAIN,
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnAbs",
    *one_operand(
        {"A2 A3": f"{REAL} BF16 COMPLEX64", "950": f"{REAL} BF16 COMPLEX32 COMPLEX64", "": REAL}, result_dtype=real_of
    ),
    *_ONE_PLAIN_FORMAT,
    has_dtype("out", real_of("self")),
)
rule(
    "aclnnReal",
    *one_operand(
        {"950": "FLOAT FLOAT16 COMPLEX32 COMPLEX64", "A2 A3": f"FLOAT FLOAT16 COMPLEX32 {COMPLEX}", "": COMPLEX},
        result_dtype=real_of,
    ),
    _PLAIN_ON_950,
    has_dtype("out", real_of("self")),
)
rule("aclnnInplaceOne", dtypes(_REAL, "selfRef"), max_rank(8, "selfRef"))
_ZERO = f"{REAL_AND_COMPLEX} UINT16 BF16"
rule("aclnnInplaceZero", dtypes({"950": f"{_ZERO} {FLOAT8S} {FLOAT4S}", "": _ZERO}, "selfRef"))

# Of these two only the document or the registry says which dtypes their kernels take.
rule(
    "aclnnIsInf",
    only_products(_WITH_310P),
    dtype_table("x out", "T BOOL", T={PRODUCTS_WITH_BF16: FLOATS, "": FLOATS_WITHOUT_BF16}),
    output_shape(out="x"),
    output_dtype(out="BOOL"),
)
_ANGLE = "FLOAT/COMPLEX64/BOOL/UINT8/INT8/INT16/INT32/INT64 FLOAT"
rule(
    "aclnnAngleV2",
    dtype_table("x out", "T T", _ANGLE, T=HALVES, products=PRODUCTS_WITH_BF16),
    dtype_table("x out", "FLOAT16 FLOAT16", _ANGLE, products="910"),
    tiling(on_products("950", max_rank(8, "x"))),
    output_shape(out="x"),
    output_dtype(out="x.dtype if x.dtype in HALVES else FLOAT"),
)

# ------------------------------------------------------------------------------------------------------------ to booleans

# A dtype without infinities gives false everywhere, so every dtype passes.
rule("aclnnIsFinite", *one_operand(_REAL, "BOOL", allocated_dtype=fixed_dtype("BOOL")))
rule(
    "aclnnIsNegInf aclnnIsPosInf",
    only_products(_WITH_310P),
    *one_operand(_TANH, "BOOL", allocated_dtype=fixed_dtype("BOOL")),
)
_LOGIC = f"{REAL} BF16"
in_both_forms(
    "LogicalNot",
    *one_operand(_LOGIC, _LOGIC, allocated_dtype=fixed_dtype("BOOL"), most_axes=None),
    max_rank_if_strided("self", "out"),
)
_SIGNBIT = plus_bf16(f"{REAL} {UNSIGNED}")
rule("aclnnSignbit", *one_operand(_SIGNBIT, _SIGNBIT, allocated_dtype=fixed_dtype("BOOL")))

# ----------------------------------------------------------------------------------------------------------- other dtypes

_SIGN = f"{FLOATS_AND_DOUBLE} INT32 INT64 BOOL {COMPLEX}"
_SIGN_LISTED = "self.dtype in (FLOAT, FLOAT16, DOUBLE, INT32, INT64, BOOL, COMPLEX64, COMPLEX128)"
rule(
    "aclnnSign",
    # CANN compares the two dtypes only for those it lists, and lists none for the products that are not named here.
    when(_SIGN_LISTED, same_dtype("self", "result")),
    on_products("910", dtypes(_SIGN, "self")),
    on_products(PRODUCTS_WITH_BF16, dtypes(f"{_SIGN} BF16", "self")),
    output_shape(result="self"),
)

_CAST = f"{REAL_AND_COMPLEX} {UNSIGNED}"
_CAST_950 = f"{_CAST} BF16 {FLOAT8S} COMPLEX32 {FLOAT4S}"
_CAST_DTYPE = dtype_attribute("dtype")
rule(
    "aclnnCast",
    dtypes({"A2 A3": f"{_CAST} BF16", "950": _CAST_950, "": _CAST}, "self"),
    dtype_in(_CAST_DTYPE, {"A2 A3": f"{_CAST} BF16", "950": f"{_CAST_950} INT4", "": _CAST}, "dtype"),
    max_rank(8, "self"),
    output_shape(out="self"),
    when("out.dtype == INT4", contiguous("self")),
    output_dtype(out=_CAST_DTYPE),
)

# -------------------------------------------------------------------------------------------------------- three operands

_FUSED = promoted("tensor1", "tensor2", "self")
for _name, _dtypes in (("Addcdiv", "INT64"), ("Addcmul", "INT32 INT64 INT8 UINT8")):
    in_both_forms(
        _name,
        dtypes(plus_bf16(f"{FLOATS_AND_DOUBLE} {_dtypes}"), "self", "tensor1", "tensor2"),
        castable(_FUSED, "out"),
        *((no_private_format("self", "tensor1", "tensor2", "out"),) if _name == "Addcmul" else ()),
        *pair("self", "tensor1", "tensor2", out="out"),
        output_dtype(out=_FUSED),
    )

in_both_forms(
    "Lerp",
    same_dtype("self", "end", "weight", "out", among=FLOATS_OF_PRODUCT),
    output_shape(out=broadcast_shape("self", "end", "weight")),
    max_rank_if_strided("self", "end", "weight", "out"),
)
in_both_forms(
    "Lerps",
    dtypes(FLOATS_OF_PRODUCT, "self", "end"),
    same_dtype("self", "end"),
    dtypes(_FLOATS, "out"),
    output_shape(out=broadcast_shape("self", "end")),
    max_rank_if_strided("self", "end", "out"),
)

rule(
    "aclnnSWhere",
    dtypes({"910": _CAST, "": f"{_CAST} BF16"}, "self", "other", "out"),
    dtypes("BOOL UINT8", "condition"),
    *pair("self", "other", "condition", out="out"),
    output_dtype(out=promoted("self", "other")),
)
rule(
    "aclnnScale",
    only_products(_WITH_310P),
    dtypes(FLOATS_OF_PRODUCT, "x"),
    same_dtype("scale", "bias"),
    same_dtype("x", "scale", "y"),
    output_shape(y="x"),
    same_shape("scale", "bias"),
    max_rank(8, "x", "scale"),
    require("-len(x) <= axis < len(x)", argument="axis"),
    require("numAxes >= -1"),
    # scale has the axes of x from ``axis`` on, ``numAxes`` of them or (-1) the rest.
    define(
        start="axis % len(x)", count="len(scale) if not scaleFromBlob else len(x) - start if numAxes == -1 else numAxes"
    ),
    when("not scaleFromBlob", require("start + len(scale) <= len(x)", argument="scale")),
    when("not scaleFromBlob and len(scale) > 0 and scale != (1,)", require("scale == x[start : start + count]")),
    when("scaleFromBlob and numAxes == 0", require("scale.size == 1")),
    when(
        "scaleFromBlob and numAxes != 0",
        require("start + count <= len(x)", argument="scale"),
        require("scale == x[start : start + count]"),
    ),
)
rule(
    "aclnnMaskedScale",
    only_products("950"),
    same_dtype("self", "out", among=FLOATS),
    dtypes("FLOAT FLOAT16 UINT8 INT8", "mask"),
    same_shape("self", "mask"),
    output_shape(out="self"),
    max_rank(8, "self"),
    same_format("self", "out"),
)
rule(
    "aclnnAmpUpdateScale",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table("currentScale growthTracker foundInf updatedScale updatedGrowthTracker", "T INT32 T T INT32", T=FLOATS),
    tiling(
        in_range("growthInterval", 1, 2**31 - 1),
        require(*(f"{name} in ((), (1,))" for name in ("currentScale", "growthTracker", "foundInf"))),
    ),
    output_shape(updatedScale="currentScale", updatedGrowthTracker="growthTracker"),
)

# ----------------------------------------------------------------------------------------------------------------- lists

rule(
    "aclnnSum",
    no_null_item("tensors"),
    require("len(tensors) > 0"),
    dtypes("FLOAT16 FLOAT INT8 INT32 UINT8", "tensors", "out"),
    max_rank(8, "tensors", "out"),
    output_shape(out=broadcast_of_list("tensors")),
)
rule(
    "aclnnAddN",
    no_null_item("tensors"),
    require("len(tensors) > 0"),
    only_products(PRODUCTS_WITH_BF16),
    dtypes(f"{FLOATS} INT32 INT64", "tensors", "out"),
    same_dtype("tensors", "out"),
    max_rank(8, "tensors", "out"),
    require("all(item == tensors[0] for item in tensors)"),
    output_shape(out="tensors[0]"),
)
_MAX_N = "FLOAT16 FLOAT INT8 INT32 INT64"
rule(
    "aclnnMaxN aclnnMinN",
    no_null_item("tensors"),
    dtypes({"A2 A3": f"{_MAX_N} BF16", "950": f"{_MAX_N} BF16 UINT8", "": _MAX_N}, "tensors", "out"),
    same_dtype("out", "tensors"),
    max_rank(8, "tensors", "out"),
    require("len(tensors) > 0"),
    output_shape(out=broadcast_of_list("tensors")),
)
