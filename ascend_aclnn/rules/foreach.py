"""Rules of ops-nn/foreach: lists of tensors that are computed one by one."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *

_SMALL = "INT16 INT8 UINT8"
_WITH_INT = f"{FLOATS} INT32"
_WITH_SMALL_BEFORE_950: DtypeSet = {"A2 A3": f"{_WITH_INT} {_SMALL}", "": _WITH_INT}


def _lists(takes: DtypeSet, names: str, out: str = "out", products: str = PRODUCTS_WITH_BF16) -> tuple[Check, ...]:
    """Lists of one data type whose tensors have the same shapes, and an output list like them (none: in place)."""
    first, *others = [*names.split(), *out.split()]
    return (
        no_null_item(first, *others),
        only_products(products),
        dtypes(takes, first),
        same_dtype(first, first, *others),
        max_rank(8, first),
        output_shape(**dict.fromkeys(others, first)),
    )


def _factor(name: str, floats: str, halves: DtypeSet, integers: str, first: str) -> Check:
    """The data type of a scalar, or a tensor of one number, by that of the tensors: FLOAT and BF16, FLOAT16, integers."""
    return when(
        f"len({first}) > 0",
        when(f"is_tensor({name})", require(f"{name}.size > 0")),
        when(f"{first}[0].dtype in (FLOAT, BF16)", dtypes(floats, name)),
        when(f"{first}[0].dtype == FLOAT16", dtypes(halves, name)),
        when(f"{first}[0].dtype not in FLOATS", dtypes(integers, name)),
    )


def _number_like(name: str, first: str = "x", half_of_float: bool = False) -> Check:
    """How CANN takes a scalar, or a tensor of one number, beside tensors."""
    halves: DtypeSet = {"950": "FLOAT16 FLOAT DOUBLE", "": "FLOAT16 DOUBLE"} if half_of_float else "FLOAT16 DOUBLE"
    return _factor(name, "FLOAT DOUBLE", halves, "INT32 INT64", first)


def _registered(name: str, first: str, halves: DtypeSet = "FLOAT16") -> Check:
    """How the registry pairs a tensor of one number with tensors."""
    return _factor(name, "FLOAT", halves, "INT32", first)


# ------------------------------------------------------------------------------------------------------ one list

for _names, _takes in (
    (
        "Abs Acos Asin Atan Cos Cosh Erf Erfc Log Log10 Log1p Log2 Reciprocal Sigmoid Sin Sinh Sqrt Tan Tanh",
        FLOATS,
    ),
    ("Exp Expm1", {"A2 A3": f"{FLOATS} {_SMALL}", "": FLOATS}),
    ("Neg", _WITH_SMALL_BEFORE_950),
    ("Sign", f"{FLOATS} INT8 INT32 INT64"),
):
    rule(
        " ".join(f"aclnnForeach{name}" for name in _names.split()), *_lists(_takes, "x"), no_private_format("x", "out")
    )
rule("aclnnForeachACosInplace aclnnForeachLogInplace", *_lists(FLOATS, "x", "", "950"))
rule("aclnnForeachZeroInplace", *_lists(f"{_WITH_INT} INT16", "x", ""))

_COPY = f"{_WITH_INT} {_SMALL} UINT16 UINT32 INT64 DOUBLE BOOL"
rule(
    "aclnnForeachCopy",
    no_null_item("x", "out"),
    only_products(PRODUCTS_WITH_BF16),
    dtypes(_COPY, "x"),
    same_dtype("x", "x"),
    same_dtype("out", "out"),
    when("len(x) > 0 and len(out) > 0", dtype_table("x out", "T T", "FLOAT H", "H FLOAT", T=_COPY, H=HALVES)),
    max_rank(8, "x", "out"),
    like(out="x"),
    no_private_format("x", "out"),
)
rule(
    "aclnnForeachRoundOffNumber",
    *_lists({"A2 A3": f"{FLOATS} INT16", "": FLOATS}, "x"),
    dtypes("INT8", "roundMode"),
)
rule(
    "aclnnForeachRoundOffNumberV2",
    *_lists({"A2 A3": f"{_WITH_INT} INT16", "": _WITH_INT}, "x"),
    dtypes("INT8 INT64", "roundMode"),
    no_private_format("x", "out"),
)
rule(
    "aclnnForeachNorm",
    no_null_item("x", "out"),
    only_products(PRODUCTS_WITH_BF16),
    dtypes(FLOATS, "x"),
    same_dtype("x", "x", "out"),
    dtypes("FLOAT DOUBLE INT64", "scalar"),
    # A 0-d tensor for each; other shapes of one element are taken too.
    tiling(max_rank(8, "x"), require("len(out) == len(x)", "all(number.size == 1 for number in out)")),
    infer_shape(out="[() for t in x]"),
)
rule(
    "aclnnForeachNonFiniteCheckAndUnscale",
    no_null_item("scaledGrads"),
    only_products(f"{PRODUCTS_WITH_BF16} 310P"),
    dtypes(FLOATS_OF_PRODUCT, "scaledGrads"),
    same_dtype("scaledGrads", "scaledGrads"),
    dtypes("FLOAT", "foundInf", "invScale"),
)

# ------------------------------------------------------------------------------------------------------ two, three lists

_PLAIN = ("x1", "x2", "out")

rule("aclnnForeachDivList", *_lists(FLOATS, "x1 x2"), no_private_format(*_PLAIN))
rule("aclnnForeachMulList", *_lists(f"{_WITH_INT} {_SMALL}", "x1 x2"), no_private_format(*_PLAIN))
rule("aclnnForeachMaximumList aclnnForeachMinimumList aclnnForeachPowList", *_lists(_WITH_INT, "x1 x2"))
rule("aclnnForeachDivListInplace", *_lists(FLOATS, "x1 x2", "", "950"))
rule("aclnnForeachMulListInplace", *_lists(_WITH_INT, "x1 x2", "", "950"))
rule("aclnnForeachBinaryOp", *_lists(_WITH_INT, "x1 x2", products="950"), tiling(one_of("opCode", 0, 1, 2, 3)))

rule("aclnnForeachAddList", *_lists(_WITH_INT, "x1 x2"), _number_like("alpha", "x1"), no_private_format(*_PLAIN))
rule(
    "aclnnForeachAddListV2 aclnnForeachSubListV2",
    *_lists(f"{_WITH_INT} {_SMALL}", "x1 x2"),
    _number_like("alpha", "x1"),
    no_private_format(*_PLAIN),
)
rule("aclnnForeachSubList", *_lists(_WITH_SMALL_BEFORE_950, "x1 x2"), _registered("alpha", "x1"))
rule(
    "aclnnForeachAddListInplace aclnnForeachSubListInplace",
    *_lists(_WITH_INT, "x1 x2", "", "950"),
    _registered("alpha", "x1"),
)
rule("aclnnForeachLerpList", *_lists(FLOATS, "x1 x2 weight"), no_private_format(*_PLAIN, "weight"))
rule(
    "aclnnForeachLerpScalar",
    *_lists(FLOATS, "x1 x2"),
    when("len(x1) > 0", dtypes("FLOAT DOUBLE", "weight")),
    no_private_format(*_PLAIN),
)

_FUSED = "x1 x2 x3"
_ONE_SCALAR_EACH = require("(scalars.size if is_tensor(scalars) else len(scalars)) == len(x1)", argument="scalars")
rule(
    "aclnnForeachAddcdivScalar aclnnForeachAddcdivScalarV2",
    *_lists(FLOATS, _FUSED),
    _number_like("scalar", "x1"),
    no_private_format("x3", *_PLAIN),
)
rule("aclnnForeachAddcdivScalarList", *_lists(FLOATS, _FUSED), _ONE_SCALAR_EACH, no_private_format("x3", *_PLAIN))
rule(
    "aclnnForeachAddcdivList",
    *_lists(FLOATS, _FUSED),
    dtype_table("x1 scalars", "T T", T=FLOATS),
    _ONE_SCALAR_EACH,
)
rule(
    "aclnnForeachAddcmulScalar",
    *_lists(_WITH_INT, _FUSED),
    _registered("scalar", "x1", {"950": "FLOAT16 FLOAT", "": "FLOAT16"}),
)
rule(
    "aclnnForeachAddcmulScalarV2",
    *_lists(_WITH_INT, _FUSED),
    _number_like("scalar", "x1", half_of_float=True),
    no_private_format("x3", *_PLAIN),
)
rule(
    "aclnnForeachAddcmulList aclnnForeachAddcmulScalarList",
    *_lists(_WITH_INT, _FUSED),
    dtype_table("x1 scalars", "T T", T=_WITH_INT),
    _ONE_SCALAR_EACH,
)

# ------------------------------------------------------------------------------------------------------ a list and numbers

_SCALAR_950: DtypeSet = {"950": "FLOAT16 FLOAT", "": "FLOAT16"}
rule("aclnnForeachAddScalar", *_lists(_WITH_SMALL_BEFORE_950, "x"), _registered("scalar", "x", _SCALAR_950))
rule("aclnnForeachMulScalar", *_lists(_WITH_INT, "x"), _registered("scalar", "x", _SCALAR_950))
rule(
    "aclnnForeachMulScalarInplace aclnnForeachSubScalarInplace",
    *_lists(_WITH_INT, "x", "", "950"),
    _registered("scalar", "x", _SCALAR_950),
)
rule(
    "aclnnForeachMaximumScalar aclnnForeachMinimumScalar aclnnForeachPowScalar aclnnForeachSubScalar",
    *_lists(_WITH_INT, "x"),
    _registered("scalar", "x"),
)
rule(
    "aclnnForeachDivScalar aclnnForeachDivScalarV2",
    *_lists(FLOATS, "x"),
    _number_like("scalar"),
    no_private_format("x", "out"),
)
rule(
    "aclnnForeachAddScalarV2",
    # CANN answers lists of unequal length as a null pointer here.
    with_status(PARAM_NULLPTR, require("len(out) == len(x)")),
    *_lists(_WITH_SMALL_BEFORE_950, "x"),
    _number_like("scalar", half_of_float=True),
    no_private_format("x", "out"),
)
rule(
    "aclnnForeachMulScalarV2",
    *_lists(_WITH_INT, "x"),
    _number_like("scalar", half_of_float=True),
    no_private_format("x", "out"),
)
rule("aclnnForeachPowScalarV2", *_lists(_WITH_INT, "x"), _number_like("scalar"), no_private_format("x", "out"))
rule(
    "aclnnForeachSubScalarV2",
    *_lists(_WITH_INT, "x"),
    _number_like("scalar"),
    require("all(o.format == t.format for o, t in zip(out, x))"),
    no_private_format("x"),
)

_RANGES = {
    DataType.INT32: (-(2**31), 2**31 - 1),
    DataType.FLOAT: (-3.4028235e38, 3.4028235e38),
    DataType.FLOAT16: (-65504.0, 65504.0),
    DataType.BF16: (-3.3895314e38, 3.3895314e38),
}


@refuses("range", "scalar")
def _in_range(call: Call) -> None:
    """A scalar of another data type than the tensors' must not overflow theirs (words do not know a scalar's type)."""
    target, value = call.dtype("x"), number(call, "scalar")
    if target is call.dtype("scalar") or target not in _RANGES or isinstance(value, complex):
        return
    low, high = _RANGES[target]
    call.require(
        not (value < low or value > high),
        "scalar",
        f"is {value}; it must be in [{low}, {high}] ({target.name})",
        check="range",
    )


rule(
    "aclnnForeachMaximumScalarV2 aclnnForeachMinimumScalarV2",
    *_lists(_WITH_INT, "x"),
    _number_like("scalar"),
    no_private_format("x", "out"),
    _in_range,
)
rule("aclnnForeachPowScalarAndTensor", *_lists(_WITH_INT, "x"), dtypes("FLOAT DOUBLE INT64", "scalar"))

for _names, _takes, _scalars in (
    ("Div", FLOATS, "FLOAT DOUBLE"),
    ("Add Sub Pow Maximum Minimum Mul", _WITH_INT, "FLOAT DOUBLE INT64"),
):
    rule(
        " ".join(f"aclnnForeach{name}ScalarList" for name in _names.split()),
        *_lists(_takes, "x"),
        dtypes(_scalars, "scalars"),
        tiling(require("len(scalars) == len(x)")),
    )
