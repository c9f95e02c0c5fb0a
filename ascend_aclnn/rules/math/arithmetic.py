"""Rules of ops-math/math: arithmetic of two operands, tensors or a tensor and a scalar."""

from __future__ import annotations

from typing import Callable

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

_ARITHMETIC = plus_bf16(REAL_AND_COMPLEX)


def _alpha(source: DtypeRule) -> Check:
    """A factor of dtype that suits the result: castable to it, and integral for BOOL."""

    def check(call: Call) -> None:
        target, came = source(call), call.dtype("alpha")
        fits = is_integral(came, with_bool=True) if target is DataType.BOOL else can_cast(came, target)
        call.require(fits, "alpha", f"has dtype {came.name}, which does not suit a {target.name} result")

    return check


def _add(a: str, b: str, out: str) -> tuple[Check, ...]:
    common = promoted(a, b)
    return (
        dtypes(_ARITHMETIC, a, b),
        _alpha(common),
        on_products("950", takes_dtype(common, a, b), dtype_in(common, _ARITHMETIC, b)),
        castable(common, out),
        *pair(a, b, out=out),
        output_dtype(**{out: common}),
    )


def _old_scalar(call: Call, tensor: str, scalar: str, out: str) -> DataType:
    """How the products before Ascend 950 compute a tensor and a scalar."""
    a, b = call.dtype(tensor), call.dtype(scalar)
    if is_complex(a) or is_complex(b):
        return promote(a, b)
    if is_floating(a):
        return a
    if b is DataType.DOUBLE and call.dtype(out) is DataType.FLOAT:
        return DataType.FLOAT
    return promote(a, b) if is_floating(b) or a is DataType.BOOL else a


def _scalar_sum(tensor: str, scalar: str, out: str) -> DtypeRule:
    def old(call: Call) -> DataType:
        return _old_scalar(call, tensor, scalar, out)

    return by_product("950", with_scalar(tensor, scalar), old)


def _adds(a: str, b: str, out: str) -> tuple[Check, ...]:
    computed = _scalar_sum(a, b, out)
    return (
        dtypes(_ARITHMETIC, a),
        has_common(computed, b),
        _alpha(computed),
        on_products("950", takes_dtype(computed, a, b), dtype_in(computed, _ARITHMETIC, b)),
        castable(computed, out),
        max_rank(8, a),
        output_shape(**{out: shape_of(a)}),
        output_dtype(**{out: with_scalar(a, b)}),
    )


for _name in ("Add", "Sub"):
    forms(_name, _add, *PAIR)
    forms(f"{_name}s", _adds, *PAIR)

_RSUB = plus_bf16(f"{FLOATS_AND_DOUBLE} {INTEGERS} {COMPLEX}")


def _rsub_scalar(call: Call) -> DataType:
    a, b = call.dtype("self"), call.dtype("other")
    return promote(a, b) if is_floating(b) and not is_floating(a) else a


def _rsub_checks(common: DtypeRule) -> tuple[Check, ...]:
    return (
        dtypes(_RSUB, "self", "other"),
        has_common(common, "other"),
        takes_dtype(common, "alpha"),
        on_products("950", takes_dtype(common, "self", "other"), dtype_in(common, _RSUB, "other")),
        castable(common, "out"),
    )


rule(
    "aclnnRsub",
    *_rsub_checks(promoted("self", "other")),
    *pair("self", "other", out="out"),
    output_dtype(out=promoted("self", "other")),
)
rule(
    "aclnnRsubs",
    *_rsub_checks(by_product("950", with_scalar("self", "other"), _rsub_scalar)),
    max_rank(8, "self"),
    output_shape(out=shape_of("self")),
    output_dtype(out=with_scalar("self", "other")),
)


def _add_v3(call: Call) -> DataType:
    a, b = call.dtype("other"), call.dtype(_scalar_name(call))
    if is_complex(a) or is_complex(b):
        return promote(a, b)
    if is_floating(a):
        return DataType.FLOAT
    if b is DataType.DOUBLE and call.dtype(_out_name(call)) is DataType.FLOAT:
        return DataType.FLOAT
    return promote(a, b) if is_floating(b) or a is DataType.BOOL else a


def _scalar_name(call: Call) -> str:
    return "self" if "self" in call.operator.positions else "selfRef"


def _out_name(call: Call) -> str:
    return "out" if "out" in call.operator.positions else "other"


_ADD_V3: tuple[Check, ...] = (
    dtypes("FLOAT INT32 FLOAT16 BF16 INT8", "other"),
    has_common(_add_v3, "other"),
    _alpha(_add_v3),
    lambda call: castable(_add_v3, _out_name(call))(call),
    max_rank(8, "other"),
)
rule("aclnnAddV3", *_ADD_V3, output_shape(out=shape_of("other")), output_dtype(out=with_scalar("other", "self")))
rule("aclnnInplaceAddV3", *_ADD_V3)


def _mul(a: str, b: str, out: str) -> tuple[Check, ...]:
    common = promoted(a, b)
    return (
        dtypes(_ARITHMETIC, a, b, out),
        has_common(common, b),
        on_products(PRODUCTS_BEFORE_950, castable(common, out)),
        *pair(a, b, out=out),
        output_dtype(**{out: common}),
    )


def _muls(a: str, b: str, out: str) -> tuple[Check, ...]:
    computed = with_scalar(a, b)
    return (
        dtypes(_ARITHMETIC, a, out),
        on_products("950", dtype_in(computed, _ARITHMETIC, b), takes_dtype(computed, a, b), castable(computed, out)),
        output_shape(**{out: shape_of(a)}),
        output_dtype(**{out: computed}),
    )


forms("Mul", _mul, *PAIR)
forms("Muls", _muls, *PAIR)

_REAL_DIV, _TRUNC_DIV, _FLOOR_DIV = 0, 1, 2


def _mode(call: Call) -> int:
    return int(call["mode"]) if "mode" in call.operator.positions else _REAL_DIV


def _divided(common: DtypeRule) -> DtypeRule:
    """The data type of a quotient on Ascend 950, and what binding allocates: exact division makes FLOAT of integers."""

    def dtype(call: Call) -> DataType:
        came = common(call)
        if _mode(call) == _TRUNC_DIV:
            return came
        return floated(common)(call) if _mode(call) == _REAL_DIV or came is DataType.BOOL else came

    return dtype


def _whole_quotients_are_real(common: DtypeRule) -> Check:
    def check(call: Call) -> None:
        refused = _mode(call) in (_TRUNC_DIV, _FLOOR_DIV) and common(call) in (DataType.COMPLEX64, DataType.COMPLEX128)
        call.require(not refused, "mode", "must be 0 for complex operands: they have no whole quotient")

    return check


def _div(a: str, b: str, out: str) -> tuple[Check, ...]:
    common = promoted(a, b)
    quotient = by_product("950", _divided(common), common)
    return (
        *pair(a, b, out=out),
        dtypes(_ARITHMETIC, a, b),
        has_common(common, b),
        when(lambda call: call.product != "950" or _mode(call) != _TRUNC_DIV, castable(quotient, out)),
        no_private_format(a, b, out),
        output_dtype(**{out: _divided(common)}),
    )


def _divs(a: str, b: str, out: str) -> tuple[Check, ...]:
    computed = _divided(with_scalar(a, b))
    return (
        no_private_format(a, out),
        dtypes(_ARITHMETIC, a, b),
        max_rank(8, a),
        output_shape(**{out: shape_of(a)}),
        otherwise("950", when(lambda call: _mode(call) != _TRUNC_DIV, castable(computed, out)), castable(a, out)),
        output_dtype(**{out: computed}),
    )


def _with_mode(make: Callable[..., tuple[Check, ...]]) -> Callable[..., tuple[Check, ...]]:
    def checks(a: str, b: str, out: str) -> tuple[Check, ...]:
        return (
            *make(a, b, out),
            one_of("mode", _REAL_DIV, _TRUNC_DIV, _FLOOR_DIV),
            unless_empty(f"{a}" if make is _divs else f"{a} {b}", _whole_quotients_are_real(promoted(a, b))),
        )

    return checks


forms("Div", _div, *PAIR)
forms("Divs", _divs, *PAIR)
forms("DivMod", _with_mode(_div), *PAIR)
forms("DivMods", _with_mode(_divs), *PAIR)


def _floor_divide(common_of: Callable[[str, str], DtypeRule]) -> Callable[..., tuple[Check, ...]]:
    def make(a: str, b: str, out: str) -> tuple[Check, ...]:
        common = common_of(a, b)
        return (
            dtypes(plus_bf16(REAL), a, b),
            has_common(promoted(a, b), b),
            on_products("950", dtype_in(common, plus_bf16(REAL), b), takes_dtype(common, a, b), castable(common, out)),
            *(pair(a, b, out=out) if common_of is promoted else (max_rank(8, a), output_shape(**{out: shape_of(a)}))),
            output_dtype(**{out: no_bool(common, "FLOAT")}),
        )

    return make


forms("FloorDivide", _floor_divide(promoted), *PAIR)
forms("FloorDivides", _floor_divide(with_scalar), *PAIR)

_FMOD = plus_bf16("FLOAT INT32 INT8 FLOAT16 UINT8 DOUBLE INT64")


def _fmod(a: str, b: str, out: str) -> tuple[Check, ...]:
    common = promoted(a, b)
    return (
        dtypes(_FMOD, a, b, out),
        dtype_in(common, _FMOD, b),
        *pair(a, b, out=out),
        output_dtype(**{out: common}),
    )


def _fmods(a: str, b: str, out: str) -> tuple[Check, ...]:
    return (
        present(INNER_NULLPTR, b),
        dtypes(_FMOD, a, b, out),
        dtype_in(by_product("950", with_scalar(a, b), promoted(a, b)), _FMOD, b),
        max_rank(8, a),
        output_shape(**{out: shape_of(a)}),
        output_dtype(**{out: with_scalar(a, b)}),
    )


forms("FmodTensor", _fmod, *PAIR)
forms("FmodScalar", _fmods, *PAIR, nullable="other")

_REMAINDER: DtypeSet = {
    PRODUCTS_WITH_BF16: f"INT32 INT64 {FLOATS_AND_DOUBLE} BF16",
    "910 310P": f"INT32 INT64 {FLOATS_AND_DOUBLE}",
    "": "",
}


def _one_element(call: Call) -> bool:
    both = broadcast_shapes(call.shape("self"), call.shape("other"))
    return call.product != "950" and both in ((), (1,)) and call.shape("out") in ((), (1,))


rule(
    "aclnnRemainderTensorTensor",
    castable(promoted("self", "other"), "out"),
    dtype_in(promoted("self", "other"), _REMAINDER, "other"),
    when(lambda call: not _one_element(call), output_shape(out=broadcast_shape("self", "other"))),
    infer_shape(out=broadcast_shape("self", "other")),
    max_rank(8, "self", "other", "out"),
    output_dtype(out=promoted("self", "other")),
)
rule(
    "aclnnInplaceRemainderTensorTensor",
    castable(promoted("selfRef", "other"), "selfRef"),
    dtype_in(promoted("selfRef", "other"), _REMAINDER, "other"),
    *pair("selfRef", "other", out="selfRef"),
)


def _no_complex(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            complex_ = call.dtype(name) in (DataType.COMPLEX64, DataType.COMPLEX128)
            call.require(not complex_, name, f"has dtype {call.dtype(name).name}; complex remainders do not exist")

    return check


def _remainder_scalar(a: str, b: str, out: str) -> tuple[Check, ...]:
    def old(call: Call) -> DataType:
        first, second = call.dtype(a), call.dtype(b)
        mixed = not is_floating(first) and (is_floating(second) or first is DataType.BOOL)
        return promote(first, second) if mixed else first

    computed = by_product("950", with_scalar(a, b), old)
    return (
        output_shape(**{out: shape_of(a)}),
        _no_complex(a, b),
        takes_dtype(computed, a),
        dtype_in(computed, _REMAINDER, b),
        castable(computed, out),
        max_rank(8, a),
        output_dtype(**{out: with_scalar(a, b)}),
    )


forms("RemainderTensorScalar", _remainder_scalar, *PAIR)
rule(
    "aclnnRemainderScalarTensor",
    output_shape(out=shape_of("other")),
    _no_complex("self", "other"),
    castable(by_product("950", with_scalar("other", "self"), dtype_of("other")), "out"),
    dtypes(_REMAINDER, "out"),
    max_rank(8, "other"),
    output_dtype(out=with_scalar("other", "self")),
    null_status=INNER_NULLPTR,
)

_POW = plus_bf16(f"{REAL} {COMPLEX}")


def _not_both_bool(a: str, b: str) -> Check:
    def check(call: Call) -> None:
        both = call.dtype(a) is call.dtype(b) is DataType.BOOL
        call.require(not both, b, "has dtype BOOL like the base; one of them must have another dtype")

    return check


def _pow(a: str, b: str, out: str) -> tuple[Check, ...]:
    common = promoted(a, b)
    return (
        dtypes(_POW, a, b),
        _not_both_bool(a, b),
        castable(common, out),
        *pair(a, b, out=out),
        output_dtype(**{out: common}),
    )


def _pow_scalar(tensor: str, scalar: str, double: str, out: str) -> DtypeRule:
    """The data type of a power with one scalar; ``double`` names the exponent, whose DOUBLE gives way to a FLOAT output."""

    def old(call: Call) -> DataType:
        a, b = call.dtype(tensor), call.dtype(scalar)
        if call.dtype(double) is DataType.DOUBLE and call.dtype(out) is DataType.FLOAT:
            return DataType.FLOAT
        if is_complex(b):
            return promote(a, b)
        return promote(a, b) if not is_floating(a) and (is_floating(b) or a is DataType.BOOL) else a

    return by_product("950", with_scalar(tensor, scalar), old)


_RANGES = {
    DataType.INT8: (-(2**7), 2**7 - 1),
    DataType.UINT8: (0, 2**8 - 1),
    DataType.INT16: (-(2**15), 2**15 - 1),
    DataType.INT32: (-(2**31), 2**31 - 1),
    DataType.INT64: (-(2**63), 2**63 - 1),
    DataType.FLOAT16: (-65504, 65504),
    DataType.BF16: (-3.3895313892515355e38, 3.3895313892515355e38),
    DataType.FLOAT: (-3.4028234663852886e38, 3.4028234663852886e38),
}


def _exponent_fits(base: str, out: str) -> Check:
    """Ascend 950 refuses exponents that the computed data type cannot hold, and negative ones of integers."""
    computed = _pow_scalar(base, "exponent", "exponent", out)

    def check(call: Call) -> None:
        target, value = computed(call), number(call, "exponent")
        if isinstance(value, complex):
            return
        negative = is_integral(target) and value < 0
        call.require(not negative, "exponent", f"is {value}; integers have no negative power")
        low, high = _RANGES.get(target, (value, value))
        finite = value == value and abs(value) != float("inf")
        call.require(not finite or low <= value <= high, "exponent", f"is {value}; {target.name} cannot hold it")

    return on_products("950", unless_empty(base, check))


def _pow_tensor_scalar(a: str, out: str) -> tuple[Check, ...]:
    return (
        dtypes(_POW, a, "exponent"),
        castable(promoted(a, "exponent"), out),
        _not_both_bool(a, "exponent"),
        castable(_pow_scalar(a, "exponent", "exponent", out), out),
        max_rank(8, a),
        output_shape(**{out: shape_of(a)}),
        _exponent_fits(a, out),
        output_dtype(**{out: with_scalar(a, "exponent")}),
    )


forms("PowTensorTensor", _pow, "self exponent out", "self exponent self")
forms("PowTensorScalar", _pow_tensor_scalar, "self out", "self self")
rule(
    "aclnnPowScalarTensor",
    dtypes(_POW, "self", "exponent"),
    castable(promoted("self", "exponent"), "out"),
    _not_both_bool("self", "exponent"),
    castable(_pow_scalar("exponent", "self", "exponent", "out"), "out"),
    max_rank(8, "exponent"),
    output_shape(out=shape_of("exponent")),
    output_dtype(out=with_scalar("exponent", "self")),
)


def _extremum(takes: DtypeSet) -> tuple[Check, ...]:
    common = binary_promoted("self", "other")
    return (
        dtypes(takes, "self", "other", "out"),
        castable(common, "out"),
        *pair("self", "other", out="out"),
        output_dtype(out=common),
    )


rule("aclnnMaximum aclnnMinimum", *_extremum(plus_bf16(REAL)))


def _atan2(a: str, b: str, out: str) -> tuple[Check, ...]:
    return dtypes(plus_bf16(REAL), a, b), *pair(a, b, out=out), output_dtype(**{out: floated(promoted(a, b))})


forms("Atan2", _atan2, *PAIR)

_XLOGY = plus_bf16(f"FLOAT FLOAT16 {INTEGERS} BOOL")
_XLOGY_SCALAR = plus_bf16(f"{FLOATS_AND_DOUBLE} {INTEGERS} BOOL")


def _single(source: DtypeRule) -> DtypeRule:
    """FLOAT for integers and DOUBLE."""
    inner = floated(source)

    def dtype(call: Call) -> DataType:
        came = inner(call)
        return DataType.FLOAT if came is DataType.DOUBLE else came

    return dtype


def _xlogy(a: str, b: str, out: str) -> tuple[Check, ...]:
    common = promoted(a, b)
    return (
        dtypes(_XLOGY, a, b),
        has_common(common, b),
        *pair(a, b, out=out),
        output_dtype(**{out: floated(common)}),
    )


def _xlogy_scalar(tensor: str, scalar: str, out: str) -> tuple[Check, ...]:
    computed = _single(promoted(tensor, scalar))
    return (
        dtypes(_XLOGY, tensor),
        dtypes(_XLOGY_SCALAR, scalar),
        castable(computed, out),
        max_rank(8, tensor),
        output_shape(**{out: shape_of(tensor)}),
        output_dtype(**{out: _single(with_scalar(tensor, scalar))}),
    )


forms("XLogYTensor", _xlogy, *PAIR)
forms("XLogYScalarOther", _xlogy_scalar, *PAIR)
forms("XLogYScalarSelf", _xlogy_scalar, "other self out")
rule(
    "aclnnXlog1py",
    same_dtype("x", "y", "z"),
    dtypes("FLOAT FLOAT16 BF16", "x"),
    no_private_format("x", "y", "z"),
    max_rank(8, "x", "y", "z"),
    output_shape(z=broadcast_shape("x", "y")),
    output_dtype(z=dtype_of("x")),
)

_LOG_ADD = plus_bf16(f"{REAL} {UNSIGNED}")


def _log_add(call: Call) -> DataType:
    common = floated(promoted("self", "other"))(call)
    return DataType.FLOAT if common is DataType.DOUBLE else common  # the output is never DOUBLE


rule(
    "aclnnLogAddExp aclnnLogAddExp2",
    dtypes(_LOG_ADD, "self", "other"),
    dtypes(FLOATS_OF_PRODUCT, "out"),
    castable("self", "out"),
    castable("other", "out"),
    *pair("self", "other", out="out"),
    on_products("950", same_format("out", "self", "other"), no_private_format("self")),
    output_dtype(out=_log_add),
)

rule(
    "aclnnTanhBackward",
    dtypes(plus_bf16(FLOATS_AND_DOUBLE), "gradOutput", "output", "gradInput"),
    same_dtype("gradOutput", "output", "gradInput"),
    *pair("gradOutput", "output", out="gradInput"),
    output_dtype(gradInput=dtype_of("gradOutput")),
)

_GCD: DtypeSet = {"910": "INT32", "950": INTEGERS, "": "INT32 INT16 INT64"}


def _gcd(call: Call) -> None:
    both_bool = call.dtype("self") is call.dtype("other") is DataType.BOOL
    call.require(not both_bool, "other", "has dtype BOOL like self; one of them must be an integer")
    out = call.dtype("out")
    call.require(is_integral(out), "out", f"has dtype {out.name}; it must be an integer")


rule(
    "aclnnGcd",
    _gcd,
    dtype_in(promoted("self", "other"), _GCD, "other"),
    castable(promoted("self", "other"), "out"),
    *pair("self", "other", out="out"),
    output_dtype(out=promoted("self", "other")),
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
    output_dtype(
        out=lambda call: {DataType.FLOAT: DataType.COMPLEX64, DataType.DOUBLE: DataType.COMPLEX128}.get(
            call.dtype("real"), DataType.COMPLEX32
        )
    ),
)
rule(
    "aclnnPolar",
    dtypes("FLOAT", "input", "angle"),
    dtypes("COMPLEX64", "out"),
    *pair("input", "angle", out="out"),
    on_products("950", same_format("out", "input", "angle"), no_private_format("input")),
    output_dtype(out="COMPLEX64"),
)
rule(
    "aclnnIsClose",
    dtypes(plus_bf16(REAL), "self", "other"),
    same_dtype("self", "other"),
    *pair("self", "other", out="out"),
    output_dtype(out="BOOL"),
)
