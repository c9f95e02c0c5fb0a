"""Rules of ops-math/math: comparison, logic and bits of two operands."""

from __future__ import annotations

from typing import Callable

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

_LOGICAL = f"{REAL_AND_COMPLEX} BF16"
_BOOL_OUT = f"{_LOGICAL} {UNSIGNED}"

# ------------------------------------------------------------------------------------------------------------ comparison


def _compared(
    takes: DtypeSet,
    gives: DtypeSet,
    computes: DtypeSet,
    *,
    each: bool = True,
    empty_first: bool = False,
) -> Callable[..., tuple[Check, ...]]:
    """Two tensors: ``each`` operand is checked, or (before Ascend 950) only what they promote to."""

    def make(a: str, b: str, out: str) -> tuple[Check, ...]:
        common = binary_promoted(a, b)
        checks: tuple[Check, ...] = (
            dtypes(takes, a, b) if each else on_products("950", dtypes(takes, a, b)),
            dtypes(gives, out),
            has_common(common, b),
            dtype_in(common, computes, b),
            on_products("950", takes_dtype(common, a, b)),
            *pair(a, b, out=out),
        )
        if empty_first:
            checks = (unless_empty(f"{a} {b}", *checks),)
        return (*checks, output_dtype(**{out: "BOOL"}))

    return make


def _compared_scalar(
    takes: DtypeSet,
    gives: DtypeSet,
    computes: DtypeSet,
    old: Callable[[str, str], DtypeRule] = promoted,
    *,
    checks_scalar: bool = True,
) -> Callable[..., tuple[Check, ...]]:
    def make(a: str, b: str, out: str) -> tuple[Check, ...]:
        computed = with_scalar(a, b)
        return (
            dtypes(takes, a, *((b,) if checks_scalar else ())),
            dtypes(gives, out),
            otherwise("950", dtype_in(no_bool(computed, "INT8"), computes, b), has_common(old(a, b), b)),
            on_products("950", takes_dtype(no_bool(computed, "INT8"), a, b)),
            max_rank(8, a),
            output_shape(**{out: shape_of(a)}),
            output_dtype(**{out: "BOOL"}),
        )

    return make


_EQ_A2 = f"{REAL_AND_COMPLEX} BF16"
_EQ_910 = f"{REAL_AND_COMPLEX} UINT64 UINT32"
_EQ: DtypeSet = {"A2 A3": _EQ_A2, "950": f"{_EQ_A2} UINT64", "": _EQ_910}
_EQ_OUT: DtypeSet = {"A2 A3": _EQ_A2, "950": _BOOL_OUT, "": _EQ_910}
_EQ_S: DtypeSet = {"910": _EQ_910, "950": f"{_EQ_A2} UINT64", "": _EQ_A2}
_EQ_S_OUT: DtypeSet = {"910": _EQ_910, "950": _BOOL_OUT, "": _EQ_A2}
forms("EqTensor", _compared(_EQ, _EQ_OUT, _EQ, each=False), *PAIR)
forms("EqScalar", _compared_scalar(_EQ_S, _EQ_S_OUT, _EQ_S), *PAIR)
_NE: DtypeSet = {"A2 A3": _EQ_A2, "950": f"{_EQ_A2} UINT64", "": REAL_AND_COMPLEX}
_NE_OUT: DtypeSet = {"A2 A3": _EQ_A2, "950": _BOOL_OUT, "": REAL_AND_COMPLEX}
forms("NeTensor", _compared(_NE, _NE_OUT, _NE, empty_first=True), *PAIR)

_ORDERED = plus_bf16(f"{REAL} {UNSIGNED}")
_ORDERED_OUT = plus_bf16(f"{REAL_AND_COMPLEX} {UNSIGNED}")
# Before Ascend 950 an output of Lt and Le must have a dtype that the operands may have.
_LT_OUT: DtypeSet = {"950": _BOOL_OUT, "A2 A3": f"{REAL} {UNSIGNED} BF16", "": f"{REAL} {UNSIGNED}"}
_LE: DtypeSet = {"A2 A3": f"{REAL} UINT16 BF16", "950": f"{REAL} UINT16 BF16 UINT64", "": f"{REAL} UINT16"}
_LE_OUT: DtypeSet = {"A2 A3": f"{REAL} UINT16 BF16", "950": _BOOL_OUT, "": f"{REAL} UINT16"}


def _ne_common(a: str, b: str) -> DtypeRule:
    def dtype(call: Call) -> DataType:
        first, second = call.dtype(a), call.dtype(b)
        if is_complex(first) or (is_floating(first) and not is_complex(second)):
            return first
        mixed = first is DataType.BOOL or is_floating(second) or is_complex(second)
        return promote(first, second) if mixed else first

    return dtype


def _lt_common(a: str, b: str) -> DtypeRule:
    """A scalar takes a floating tensor's data type, and DOUBLE counts as FLOAT."""

    def dtype(call: Call) -> DataType:
        first, second = call.dtype(a), call.dtype(b)
        if is_floating(first):
            return first
        return promote(first, DataType.FLOAT if second is DataType.DOUBLE else second)

    return dtype


forms("NeScalar", _compared_scalar(_NE, _NE_OUT, _NE, _ne_common), *PAIR)
forms("GtTensor", _compared(_ORDERED, _ORDERED_OUT, _ORDERED, each=False), *PAIR)
forms("GtScalar", _compared_scalar(_ORDERED, _ORDERED_OUT, _ORDERED), *PAIR)
forms("LtTensor", _compared(_ORDERED, _LT_OUT, _ORDERED), *PAIR)
forms("LeTensor", _compared(_LE, _LE_OUT, _LE, empty_first=True), *PAIR)


def _le_scalar(a: str, b: str, out: str) -> tuple[Check, ...]:
    return (
        *_compared_scalar(_LE, _LE_OUT, _LE, _lt_common)(a, b, out),
        on_products(PRODUCTS_BEFORE_950, takes_dtype(_lt_common(a, b), a, b)),
    )


forms("LeScalar", _le_scalar, *PAIR)


def _ge(a: str, b: str, out: str) -> tuple[Check, ...]:
    common = no_bool(binary_promoted(a, b), "INT8")
    return (
        dtypes(f"{REAL_AND_COMPLEX} {UNSIGNED} BF16", out),
        dtype_in(common, _ORDERED, b),
        on_products("950", takes_dtype(common, a, b)),
        *pair(a, b, out=out),
        output_dtype(**{out: "BOOL"}),
    )


def _ge_scalar(a: str, b: str, out: str) -> tuple[Check, ...]:
    computed = by_product("950", with_scalar(a, b), promoted(a, b))
    return (
        on_products("950", dtypes(_ORDERED, a)),
        dtypes(f"{REAL_AND_COMPLEX} {UNSIGNED} BF16", out),
        dtype_in(no_bool(computed, "INT8"), _ORDERED, b),
        on_products("950", takes_dtype(no_bool(computed, "INT8"), a, b)),
        max_rank(8, a),
        output_shape(**{out: shape_of(a)}),
        output_dtype(**{out: "BOOL"}),
    )


forms("GeTensor", _ge, *PAIR)
forms("GeScalar", _ge_scalar, *PAIR)


def _lt_scalar(a: str, b: str, out: str) -> tuple[Check, ...]:
    def nulls(call: Call) -> None:
        if call.product == "950":
            return present(PARAM_NULLPTR, b, a)(call)
        return present(INNER_NULLPTR, b, a)(call)

    return nulls, *_compared_scalar(_ORDERED, _LT_OUT, _ORDERED, _lt_common)(a, b, out)


forms("LtScalar", _lt_scalar, *PAIR, nullable="self selfRef other")

rule(
    "aclnnIsInTensorScalar",
    dtypes(plus_bf16(f"{FLOATS_AND_DOUBLE} {INTEGERS}"), "element", "testElement"),
    dtypes("BOOL", "out"),
    max_rank(8, "element"),
    output_shape(out=shape_of("element")),
    output_dtype(out="BOOL"),
)

# ----------------------------------------------------------------------------------------------------------------- logic


def _logical(takes: DtypeSet, gives: DtypeSet) -> Callable[..., tuple[Check, ...]]:
    def make(a: str, b: str, out: str) -> tuple[Check, ...]:
        return dtypes(takes, a, b), dtypes(gives, out), *pair(a, b, out=out), output_dtype(**{out: "BOOL"})

    return make


# LogicalAnd accepts an output of any data type.
forms(
    "LogicalAnd",
    lambda a, b, out: (dtypes(_LOGICAL, a, b), *pair(a, b, out=out), output_dtype(**{out: "BOOL"})),
    *PAIR,
)
forms(
    "LogicalOr",
    _logical(plus_bf16(REAL_AND_COMPLEX), {"950": _BOOL_OUT, "A2 A3": _LOGICAL, "": REAL_AND_COMPLEX}),
    *PAIR,
)


def _complex_rank(name: str) -> Check:
    """Complex numbers are compared as pairs, which takes one more axis."""
    limited = max_rank(7, name)
    return when(lambda call: call.dtype(name) in (DataType.COMPLEX64, DataType.COMPLEX128), limited)


rule(
    "aclnnLogicalXor",
    *_logical(plus_bf16(REAL_AND_COMPLEX), plus_bf16(REAL_AND_COMPLEX))("self", "other", "out"),
    unless_empty("self other", _complex_rank("self"), _complex_rank("other")),
)

# ------------------------------------------------------------------------------------------------------------------ bits

_BITS = f"{INTEGERS} BOOL UINT16"
_BITS_ALL = f"{INTEGERS} {UNSIGNED} BOOL"


def _bits(takes: DtypeSet, formats: Callable[..., tuple[Check, ...]]) -> Callable[..., tuple[Check, ...]]:
    def make(a: str, b: str, out: str) -> tuple[Check, ...]:
        common = promoted(a, b)
        return (
            dtypes(takes, a, b),
            castable(common, out),
            *formats(a, b, out),
            *pair(a, b, out=out),
            output_dtype(**{out: common}),
        )

    return make


def _bits_scalar(takes: DtypeSet, computed_of: Callable[[str, str], DtypeRule]) -> Callable[..., tuple[Check, ...]]:
    def make(a: str, b: str, out: str) -> tuple[Check, ...]:
        return (
            dtypes(takes, a, b),
            castable(by_product("950", with_scalar(a, b), computed_of(a, b)), out),
            *((no_private_format(a, out),) if computed_of is promoted else ()),
            max_rank(8, a),
            output_shape(**{out: shape_of(a)}),
            output_dtype(**{out: with_scalar(a, b)}),
        )

    return make


def _narrowed(tensor: str, scalar: str) -> DtypeRule:
    """An INT64 scalar counts as INT32 where its value fits."""

    def dtype(call: Call) -> DataType:
        came = call.dtype(scalar)
        if came is DataType.INT64 and -(2**31) <= int(number(call, scalar).real) < 2**31:
            came = DataType.INT32
        both = promote(call.dtype(tensor), came)
        if both is DataType.DT_UNDEFINED:
            call.refuse(scalar, f"has dtype {came.name}, which does not promote with {call.dtype(tensor).name}")
        return both

    return dtype


def _no_formats(*names: str) -> tuple[Check, ...]:
    return ()


forms("BitwiseAndTensor", _bits(_BITS, lambda *n: (no_private_format(*n),)), *PAIR)
forms(
    "BitwiseAndTensorOut",
    _bits(_BITS, lambda *n: (same_format(*n), no_private_format(n[0]))),
    PAIR[0],
    "self other self",
)
forms("BitwiseOrTensor", _bits(_BITS_ALL, _no_formats), *PAIR)
forms("BitwiseXorTensor", _bits({"950": _BITS_ALL, "": f"{INTEGERS} BOOL"}, _no_formats), *PAIR)
forms("BitwiseAndScalar", _bits_scalar(_BITS, promoted), *PAIR)
forms("BitwiseOrScalar", _bits_scalar({"950": _BITS_ALL, "": _BITS}, _narrowed), *PAIR)
forms(
    "BitwiseXorScalar",
    _bits_scalar({"950": _BITS_ALL, "": f"{INTEGERS} BOOL"}, _narrowed),
    *PAIR,
)


def _shift(a: str, b: str, out: str, formats: str = "") -> tuple[Check, ...]:
    return (
        dtypes(f"{INTEGERS} {UNSIGNED}", a, b, out),
        *pair(a, b, out=out),
        no_private_format(*formats.split()),
        unless_empty(f"{a} {b}", castable(promoted(a, b), out)),
        output_dtype(**{out: promoted(a, b)}),
    )


rule("aclnnLeftShift", *_shift("self", "shiftBits", "out", "self shiftBits out"))
rule("aclnnRightShift", *_shift("input", "shiftBits", "out"))
rule(
    "aclnnLeftShifts",
    dtypes(f"{INTEGERS} {UNSIGNED}", "self", "shiftBits", "out"),
    max_rank(8, "self"),
    output_shape(out=shape_of("self")),
    no_private_format("self", "out"),
    unless_empty("self", castable(promoted("self", "shiftBits"), "out")),
    output_dtype(out=dtype_of("self")),
)
