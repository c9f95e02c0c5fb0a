"""Rules of ops-math/math: arithmetic of two operands, tensors or a tensor and a scalar."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

_ARITHMETIC = plus_bf16(REAL_AND_COMPLEX)
_COMMON = promoted("self", "other")
_COMMON_950 = with_scalar("self", "other")  # of a tensor and a scalar
_WITH_SCALAR = by_product("950", _COMMON_950, joined_by_scalar("self", "other"))
_BROADCAST = pair("self", "other", out="out")
_LIKE_SELF = (max_rank(8, "self"), output_shape(out="self"))
_LIKE_OTHER = (max_rank(8, "other"), output_shape(out="other"))


# ------------------------------------------------------------------------------------------------- sums


def _alpha(source: DtypeRule) -> Check:
    """A factor of dtype that suits the result: castable to it, and integral for BOOL."""

    @refuses("dtype/cast", "alpha", carry=[source])
    def check(call: Call) -> None:
        target, came = source(call), call.dtype("alpha")
        fits = is_integral(came, with_bool=True) if target is DataType.BOOL else can_cast(came, target)
        call.require(
            fits, "alpha", f"has dtype {came.name}, which does not suit a {target.name} result", check="dtype/cast"
        )

    return check


in_both_forms(
    "Add Sub",
    dtypes(_ARITHMETIC, "self", "other"),
    _alpha(_COMMON),
    castable(_COMMON, "out"),
    *_BROADCAST,
    output_dtype(out=_COMMON),
)
in_both_forms(
    "Adds Subs",
    dtypes(_ARITHMETIC, "self"),
    has_common(_WITH_SCALAR, "other"),
    _alpha(_WITH_SCALAR),
    castable(_WITH_SCALAR, "out"),
    *_LIKE_SELF,
    output_dtype(out=_COMMON_950),
)
# The tensor is added to the scalar.
_ADDED_V3 = joined_by_scalar("other", "self")
rule(
    "aclnnAddV3 aclnnInplaceAddV3",
    dtypes("FLOAT INT32 FLOAT16 BF16 INT8", "other"),
    has_common(_ADDED_V3, "other"),
    _alpha(_ADDED_V3),
    castable(_ADDED_V3, "out"),
    *_LIKE_OTHER,
    output_dtype(out=with_scalar("other", "self")),
    aliases={"self": "selfRef", "out": "other"},
)

_RSUB = plus_bf16(f"{NUMBERS} {COMPLEX}")


def _rsub_scalar(call: Call) -> DataType:
    a, b = call.dtype("self"), call.dtype("other")
    return promote(a, b) if is_floating(b) and not is_floating(a) else a


def _rsub_checks(common: DtypeRule) -> tuple[Check, ...]:
    return (
        dtypes(_RSUB, "self", "other"),
        has_common(common, "other"),
        takes_dtype(common, "alpha"),
        castable(common, "out"),
    )


rule("aclnnRsub", *_rsub_checks(_COMMON), *_BROADCAST, output_dtype(out=_COMMON))
rule(
    "aclnnRsubs",
    *_rsub_checks(by_product("950", _COMMON_950, _rsub_scalar)),
    *_LIKE_SELF,
    output_dtype(out=_COMMON_950),
)

# ------------------------------------------------------------------------------------------------- products, quotients

in_both_forms(
    "Mul",
    dtypes(_ARITHMETIC, "self", "other", "out"),
    has_common(_COMMON, "other"),
    on_products(PRODUCTS_BEFORE_950, castable(checked(_COMMON), "out")),
    *_BROADCAST,
    output_dtype(out=_COMMON),
)
in_both_forms(
    "Muls",
    dtypes(_ARITHMETIC, "self", "out"),
    on_products("950", castable(_COMMON_950, "out")),
    output_shape(out="self"),
    output_dtype(out=_COMMON_950),
)

_REAL_DIV, _TRUNC_DIV, _FLOOR_DIV = 0, 1, 2


def _quotient(common: DtypeRule) -> DtypeRule:
    """The data type of a quotient on Ascend 950, and what binding allocates: exact division makes FLOAT of integers."""

    def dtype(call: Call) -> DataType:
        came, mode = common(call), call.get("mode") or _REAL_DIV
        is_float = mode == _REAL_DIV or (mode == _FLOOR_DIV and came is DataType.BOOL)
        return floated(common)(call) if is_float else came

    return dtype


def _modes(names: str) -> tuple[Check, ...]:
    """Complex operands have no whole quotient."""
    real_only = when(f"mode in ({_TRUNC_DIV}, {_FLOOR_DIV})", dtype_in(checked(_COMMON), plus_bf16(REAL), "mode"))
    return one_of("mode", _REAL_DIV, _TRUNC_DIV, _FLOOR_DIV), unless_empty(names, real_only)


in_both_forms(
    "Div DivMod",
    *_BROADCAST,
    dtypes(_ARITHMETIC, "self", "other"),
    has_common(_COMMON, "other"),
    when("product != '950'", castable(checked(_COMMON), "out")),
    when(f"product == '950' and (mode is None or mode != {_TRUNC_DIV})", castable(_quotient(_COMMON), "out")),
    no_private_format("self", "other", "out"),
    output_dtype(out=_quotient(_COMMON)),
    *_modes("self other"),
)
in_both_forms(
    "Divs DivMods",
    no_private_format("self", "out"),
    dtypes(_ARITHMETIC, "self", "other"),
    *_LIKE_SELF,
    when("product != '950'", castable("self", "out")),
    when(f"product == '950' and (mode is None or mode != {_TRUNC_DIV})", castable(_quotient(_COMMON_950), "out")),
    output_dtype(out=_quotient(_COMMON_950)),
    *_modes("self"),
)

for _name, _common, _shapes in (("FloorDivide", _COMMON, _BROADCAST), ("FloorDivides", _COMMON_950, _LIKE_SELF)):
    in_both_forms(
        _name,
        dtypes(plus_bf16(REAL), "self", "other"),
        has_common(_COMMON, "other"),
        on_products("950", castable(checked(_common), "out")),
        *_shapes,
        output_dtype(out=no_bool(_common, "FLOAT")),
    )

# ------------------------------------------------------------------------------------------------- remainders

_FMOD = plus_bf16("FLOAT INT32 INT8 FLOAT16 UINT8 DOUBLE INT64")
in_both_forms(
    "FmodTensor",
    dtypes(_FMOD, "self", "other", "out"),
    dtype_in(_COMMON, _FMOD, "other"),
    *_BROADCAST,
    output_dtype(out=_COMMON),
)
in_both_forms(
    "FmodScalar",
    required("other", status=INNER_NULLPTR),
    dtypes(_FMOD, "self", "other", "out"),
    dtype_in(by_product("950", _COMMON_950, _COMMON), _FMOD, "other"),
    *_LIKE_SELF,
    output_dtype(out=_COMMON_950),
    nullable="other",
)

_REMAINDER: DtypeSet = {
    PRODUCTS_WITH_BF16: f"INT32 INT64 {FLOATS_AND_DOUBLE} BF16",
    "910 310P": f"INT32 INT64 {FLOATS_AND_DOUBLE}",
    "": "",
}
rule(
    "aclnnRemainderTensorTensor",
    castable(_COMMON, "out"),
    dtype_in(_COMMON, _REMAINDER, "other"),
    infer_shape(out="broadcast(self, other)"),
    # Elsewhere than on Ascend 950 () and (1,) are as good as each other.
    when(
        "product == '950' or out not in ((), (1,)) or broadcast(self, other) not in ((), (1,))",
        output_shape(out="broadcast(self, other)"),
    ),
    max_rank(8, "self", "other", "out"),
    output_dtype(out=_COMMON),
)
rule(
    "aclnnInplaceRemainderTensorTensor",
    castable(_COMMON, "out"),
    dtype_in(_COMMON, _REMAINDER, "other"),
    *_BROADCAST,
    aliases=INPLACE,
)
in_both_forms(
    "RemainderTensorScalar",
    output_shape(out="self"),
    not_complex("self", "other"),
    dtype_in(_WITH_SCALAR, _REMAINDER, "other"),
    castable(_WITH_SCALAR, "out"),
    max_rank(8, "self"),
    output_dtype(out=_COMMON_950),
)
rule(
    "aclnnRemainderScalarTensor",
    output_shape(out="other"),
    not_complex("self", "other"),
    castable(by_product("950", with_scalar("other", "self"), dtype_of("other")), "out"),
    dtypes(_REMAINDER, "out"),
    max_rank(8, "other"),
    output_dtype(out=with_scalar("other", "self")),
    null_status=INNER_NULLPTR,
)

# ------------------------------------------------------------------------------------------------- powers

_LIMITS = {
    DataType.INT8: (-(2**7), 2**7 - 1),
    DataType.UINT8: (0, 2**8 - 1),
    DataType.INT16: (-(2**15), 2**15 - 1),
    DataType.INT32: (-(2**31), 2**31 - 1),
    DataType.INT64: (-(2**63), 2**63 - 1),
    DataType.FLOAT16: (-65504, 65504),
    DataType.BF16: (-3.3895313892515355e38, 3.3895313892515355e38),
    DataType.FLOAT: (-3.4028234663852886e38, 3.4028234663852886e38),
}


@refuses("range", "exponent")
def _exponent_fits(call: Call) -> None:
    """Ascend 950 refuses exponents that the computed data type cannot hold, and negative ones of integers."""
    target, value = with_scalar("self", "exponent")(call), number(call, "exponent")
    if isinstance(value, complex) or not math.isfinite(value):
        return
    call.require(
        not is_integral(target) or value >= 0, "exponent", f"is {value}; integers have no negative power", check="range"
    )
    low, high = _LIMITS.get(target, (value, value))
    call.require(low <= value <= high, "exponent", f"is {value}; {target.name} cannot hold it", check="range")


_POWER = promoted("self", "exponent")
_POWER_DTYPES = (
    dtypes(_ARITHMETIC, "self", "exponent"),
    # One of the two must not be BOOL.
    dtype_in(_POWER, plus_bf16(f"{NUMBERS} {COMPLEX}"), "exponent"),
    castable(_POWER, "out"),
)
in_both_forms(
    "PowTensorTensor",
    *_POWER_DTYPES,
    *pair("self", "exponent", out="out"),
    output_dtype(out=_POWER),
)
in_both_forms(
    "PowTensorScalar",
    *_POWER_DTYPES,
    *_LIKE_SELF,
    on_products("950", unless_empty("self", _exponent_fits)),
    output_dtype(out=with_scalar("self", "exponent")),
)
rule(
    "aclnnPowScalarTensor",
    *_POWER_DTYPES,
    max_rank(8, "exponent"),
    output_shape(out="exponent"),
    output_dtype(out=with_scalar("exponent", "self")),
)

# ------------------------------------------------------------------------------------------------- floating functions

rule(
    "aclnnMaximum aclnnMinimum",
    dtypes(plus_bf16(REAL), "self", "other", "out"),
    castable(binary_promoted("self", "other"), "out"),
    *_BROADCAST,
    output_dtype(out=binary_promoted("self", "other")),
)
in_both_forms("Atan2", dtypes(plus_bf16(REAL), "self", "other"), *_BROADCAST, output_dtype(out=floated(_COMMON)))

_XLOGY = plus_bf16(f"FLOAT FLOAT16 {INTEGERS} BOOL")


def _single(source: DtypeRule) -> DtypeRule:
    """FLOAT for integers and DOUBLE."""
    inner = floated(source)

    def dtype(call: Call) -> DataType:
        came = inner(call)
        return DataType.FLOAT if came is DataType.DOUBLE else came

    return dtype


in_both_forms(
    "XLogYTensor",
    dtypes(_XLOGY, "self", "other"),
    has_common(_COMMON, "other"),
    *_BROADCAST,
    output_dtype(out=floated(_COMMON)),
)
in_both_forms(
    "XLogYScalarOther",
    dtypes(_XLOGY, "self"),
    dtypes(plus_bf16(REAL), "other"),
    castable(_single(_COMMON), "out"),
    *_LIKE_SELF,
    output_dtype(out=_single(_COMMON_950)),
)
rule(
    "aclnnXLogYScalarSelf",
    dtypes(_XLOGY, "other"),
    dtypes(plus_bf16(REAL), "self"),
    castable(_single(_COMMON), "out"),
    *_LIKE_OTHER,
    output_dtype(out=_single(with_scalar("other", "self"))),
)
rule(
    "aclnnXlog1py",
    same_dtype("x", "y", "z", among=FLOATS),
    no_private_format("x", "y", "z"),
    max_rank(8, "x", "y", "z"),
    output_shape(z=broadcast_shape("x", "y")),
)
rule(
    "aclnnLogAddExp aclnnLogAddExp2",
    dtypes(plus_bf16(f"{REAL} {UNSIGNED}"), "self", "other"),
    dtypes(FLOATS_OF_PRODUCT, "out"),
    castable("self", "out"),
    castable("other", "out"),
    *_BROADCAST,
    on_products("950", same_format("out", "self", "other"), no_private_format("self")),
    output_dtype(out=_single(_COMMON)),  # the output is never DOUBLE
)
rule(
    "aclnnTanhBackward",
    dtypes(plus_bf16(FLOATS_AND_DOUBLE), "gradOutput", "output", "gradInput"),
    same_dtype("gradOutput", "output", "gradInput"),
    *pair("gradOutput", "output", out="gradInput"),
)

# ------------------------------------------------------------------------------------------------- others

rule(
    "aclnnGcd",
    dtypes(f"{INTEGERS} {UNSIGNED}", "out"),
    dtype_in(_COMMON, {"910": "INT32", "950": INTEGERS, "": "INT32 INT16 INT64"}, "other"),
    castable(_COMMON, "out"),
    *_BROADCAST,
    output_dtype(out=_COMMON),
)
rule(
    "aclnnComplex",
    unless_empty(
        "real imag",
        dtypes(FLOATS_AND_DOUBLE, "real", "imag"),
        dtypes(f"COMPLEX32 {COMPLEX}", "out"),
        same_dtype("real", "imag"),
        dtype_table("real out", "FLOAT16 COMPLEX32", "FLOAT COMPLEX64", "DOUBLE COMPLEX128"),
        *pair("real", "imag", out="out"),
        on_products("950", same_format("real", "imag", "out"), no_private_format("real")),
    ),
)
rule(
    "aclnnPolar",
    dtypes("FLOAT", "input", "angle"),
    dtypes("COMPLEX64", "out"),
    *pair("input", "angle", out="out"),
    on_products("950", same_format("out", "input", "angle"), no_private_format("input")),
)
