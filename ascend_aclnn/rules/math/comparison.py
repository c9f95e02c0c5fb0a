"""Rules of ops-math/math: comparison, logic and bits of two operands."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

_COMMON = promoted("self", "other")
_TENSORS = binary_promoted("self", "other")
_TENSOR_AND_SCALAR = with_scalar("self", "other")
_BROADCAST = pair("self", "other", out="out")
_LIKE_SELF = (max_rank(8, "self"), output_shape(out="self"))
_TO_BOOL = output_dtype(out="BOOL")

# ------------------------------------------------------------------------------------------------------------ comparison


def _compared(operands: DtypeSet, gives: DtypeSet, *, each: bool = True) -> tuple[Check, ...]:
    """Two tensors: ``each`` operand is checked, or (before Ascend 950) only what they promote to."""
    return (
        dtypes(operands, "self", "other") if each else on_products("950", dtypes(operands, "self", "other")),
        dtypes(gives, "out"),
        has_common(_TENSORS, "other"),
        dtype_in(_TENSORS, operands, "other"),
        *_BROADCAST,
    )


def _compared_scalar(operands: DtypeSet, gives: DtypeSet, old: DtypeRule = _COMMON) -> tuple[Check, ...]:
    """A tensor and a scalar; ``old`` is the data type in which products before Ascend 950 compare them."""
    return (
        dtypes(operands, "self", "other"),
        dtypes(gives, "out"),
        has_common(by_product("950", _TENSOR_AND_SCALAR, old), "other"),
        *_LIKE_SELF,
        _TO_BOOL,
    )


def _lt_common(call: Call) -> DataType:
    """A scalar takes a floating tensor's data type."""
    first, second = call.dtype("self"), call.dtype("other")
    return first if is_floating(first) else promote(first, second)


_LOGICAL = f"{REAL_AND_COMPLEX} BF16"
_ANY = f"{_LOGICAL} {UNSIGNED}"
_WITH_UINT64 = f"{_LOGICAL} UINT64"
_EQ_910 = f"{REAL_AND_COMPLEX} UINT64 UINT32"
_NE: DtypeSet = {"A2 A3": _LOGICAL, "950": _WITH_UINT64, "": REAL_AND_COMPLEX}
_NE_OUT: DtypeSet = {"A2 A3": _LOGICAL, "950": _ANY, "": REAL_AND_COMPLEX}
_ORDERED = plus_bf16(f"{REAL} {UNSIGNED}")
_ORDERED_OUT = plus_bf16(f"{REAL_AND_COMPLEX} {UNSIGNED}")
# Before Ascend 950 an output of Lt and Le must have a dtype that the operands may have.
_LT_OUT: DtypeSet = {"950": _ANY, "A2 A3": f"{REAL} {UNSIGNED} BF16", "": f"{REAL} {UNSIGNED}"}
_LE: DtypeSet = {"A2 A3": f"{REAL} UINT16 BF16", "950": f"{REAL} UINT16 BF16 UINT64", "": f"{REAL} UINT16"}
_LE_OUT: DtypeSet = {"A2 A3": f"{REAL} UINT16 BF16", "950": _ANY, "": f"{REAL} UINT16"}

in_both_forms(
    "EqTensor",
    *_compared(
        {"A2 A3": _LOGICAL, "950": _WITH_UINT64, "": _EQ_910},
        {"A2 A3": _LOGICAL, "950": _ANY, "": _EQ_910},
        each=False,
    ),
    _TO_BOOL,
)
in_both_forms(
    "EqScalar",
    *_compared_scalar({"910": _EQ_910, "950": _WITH_UINT64, "": _LOGICAL}, {"910": _EQ_910, "950": _ANY, "": _LOGICAL}),
)
in_both_forms("NeTensor", unless_empty("self other", *_compared(_NE, _NE_OUT)), _TO_BOOL)
in_both_forms("NeScalar", *_compared_scalar(_NE, _NE_OUT, joined_by_scalar("self", "other")))
in_both_forms("GtTensor", *_compared(_ORDERED, _ORDERED_OUT, each=False), _TO_BOOL)
in_both_forms("GtScalar", *_compared_scalar(_ORDERED, _ORDERED_OUT))
in_both_forms("LtTensor", *_compared(_ORDERED, _LT_OUT), _TO_BOOL)
in_both_forms(
    "LtScalar",
    on_products("950", required("other", "self")),
    on_products(PRODUCTS_BEFORE_950, required("other", "self", status=INNER_NULLPTR)),
    *_compared_scalar(_ORDERED, _LT_OUT, _lt_common),
    nullable="self selfRef other",
)
in_both_forms("LeTensor", unless_empty("self other", *_compared(_LE, _LE_OUT)), _TO_BOOL)
in_both_forms("LeScalar", *_compared_scalar(_LE, _LE_OUT, _lt_common))
in_both_forms(
    "GeTensor",
    dtypes(_ANY, "out"),
    dtype_in(no_bool(_TENSORS, "INT8"), _ORDERED, "other"),
    *_BROADCAST,
    _TO_BOOL,
)
in_both_forms(
    "GeScalar",
    on_products("950", dtypes(_ORDERED, "self")),
    dtypes(_ANY, "out"),
    dtype_in(no_bool(by_product("950", _TENSOR_AND_SCALAR, _COMMON), "INT8"), _ORDERED, "other"),
    *_LIKE_SELF,
    _TO_BOOL,
)
rule(
    "aclnnIsInTensorScalar",
    dtypes(plus_bf16(NUMBERS), "element", "testElement"),
    dtypes("BOOL", "out"),
    max_rank(8, "element"),
    output_shape(out="element"),
)

# ----------------------------------------------------------------------------------------------------------------- logic

# An output of any data type will do.
in_both_forms("LogicalAnd", dtypes(_LOGICAL, "self", "other"), *_BROADCAST, _TO_BOOL)
in_both_forms(
    "LogicalOr",
    dtypes(plus_bf16(REAL_AND_COMPLEX), "self", "other"),
    dtypes({"950": _ANY, "A2 A3": _LOGICAL, "": REAL_AND_COMPLEX}, "out"),
    *_BROADCAST,
    _TO_BOOL,
)
rule(
    "aclnnLogicalXor",
    dtypes(plus_bf16(REAL_AND_COMPLEX), "self", "other", "out"),
    *_BROADCAST,
    # Complex numbers are compared as pairs, which takes one more axis.
    unless_empty("self other", *(when(f"{n}.dtype in COMPLEX", require(f"len({n}) <= 7")) for n in ("self", "other"))),
    _TO_BOOL,
)

# ------------------------------------------------------------------------------------------------------------------ bits

_BITS = f"{INTEGERS} BOOL UINT16"
_BITS_ALL = f"{INTEGERS} {UNSIGNED} BOOL"
_SIGNED_OR_ALL: DtypeSet = {"950": _BITS_ALL, "": f"{INTEGERS} BOOL"}


@refuses("dtype/promotion", "other")
def _narrowed(call: Call) -> DataType:
    """An INT64 scalar counts as INT32 where its value fits."""
    came = call.dtype("other")
    if came is DataType.INT64 and -(2**31) <= int(number(call, "other").real) < 2**31:
        came = DataType.INT32
    both = promote(call.dtype("self"), came)
    if both is DataType.DT_UNDEFINED:
        call.refuse(
            "other",
            f"has dtype {came.name}, which does not promote with {call.dtype('self').name}",
            check="dtype/promotion",
        )
    return both


for _name, _dtypes, _formats in (
    ("BitwiseAndTensor", _BITS, (no_private_format("self", "other", "out"),)),
    ("BitwiseAndTensorOut", _BITS, (same_format("self", "other", "out"), no_private_format("self"))),
    ("BitwiseOrTensor", _BITS_ALL, ()),
    ("BitwiseXorTensor", _SIGNED_OR_ALL, ()),
):
    in_both_forms(
        _name,
        dtypes(_dtypes, "self", "other"),
        castable(_COMMON, "out"),
        *_formats,
        *_BROADCAST,
        output_dtype(out=_COMMON),
    )
for _name, _dtypes, _old, _formats in (
    ("BitwiseAndScalar", _BITS, _COMMON, (no_private_format("self", "out"),)),
    ("BitwiseOrScalar", {"950": _BITS_ALL, "": _BITS}, _narrowed, ()),
    ("BitwiseXorScalar", _SIGNED_OR_ALL, _narrowed, ()),
):
    in_both_forms(
        _name,
        dtypes(_dtypes, "self", "other"),
        castable(by_product("950", _TENSOR_AND_SCALAR, _old), "out"),
        *_formats,
        *_LIKE_SELF,
        output_dtype(out=_TENSOR_AND_SCALAR),
    )

_SHIFTED = promoted("self", "shiftBits")
rule(
    "aclnnLeftShift aclnnRightShift",
    dtypes(f"{INTEGERS} {UNSIGNED}", "self", "shiftBits", "out"),
    *pair("self", "shiftBits", out="out"),
    on_operators("aclnnLeftShift", no_private_format("self", "shiftBits", "out")),
    unless_empty("self shiftBits", castable(_SHIFTED, "out")),
    output_dtype(out=_SHIFTED),
    aliases={"self": "input"},
)
rule(
    "aclnnLeftShifts",
    dtypes(f"{INTEGERS} {UNSIGNED}", "self", "shiftBits", "out"),
    *_LIKE_SELF,
    no_private_format("self", "out"),
    unless_empty("self", castable(_SHIFTED, "out")),
)

rule(
    "aclnnIsClose",
    dtypes(plus_bf16(REAL), "self", "other"),
    same_dtype("self", "other"),
    *_BROADCAST,
    output_dtype(out="BOOL"),
)
