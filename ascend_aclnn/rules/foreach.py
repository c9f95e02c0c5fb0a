"""Rules of ops-nn/foreach: lists of tensors that are computed one by one."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.rules.language import *

SMALL = "INT16 INT8 UINT8"


def _shapes_of(name: str) -> ShapeRule:
    return lambda call: [tensor.shape for tensor in call.tensors(name)]


def _one_dtype(first: str, *others: str) -> Check:
    """Every tensor of the lists has the data type of the first list's first tensor."""

    def check(call: Call) -> None:
        wanted = call.dtype(first)
        for name in (first, *others):
            for tensor in call.tensors(name):
                text = f"has a tensor of dtype {tensor.dtype.name}; it must be {wanted.name}, as the first of {first}"
                call.require(tensor.dtype is wanted, name, text)

    return check


def _lists(takes: DtypeSet, names: str, out: str = "out", products: str = PRODUCTS_WITH_BF16) -> tuple[Check, ...]:
    """Lists of one data type whose tensors have the same shapes, and an output list like them (none: in place)."""
    first, *others = names.split()
    outputs = [out] if out else []
    return (
        no_null_item(*names.split(), *outputs),
        only_products(products),
        dtypes(takes, first),
        _one_dtype(first, *others, *outputs),
        max_rank(8, first),
        output_shape(**{name: _shapes_of(first) for name in (*others, *outputs)}),
        *((output_dtype(**{out: dtype_of(first)}),) if out else ()),
    )


def _factor(name: str, floats: str, halves: DtypeSet, integers: str, first: str = "x") -> Check:
    """The data type of a scalar by that of the tensors: FLOAT and BF16, FLOAT16, integers."""

    def check(call: Call) -> None:
        came, scalar = call.dtype(first), call[name]
        if isinstance(scalar, TensorSpec):
            call.require(scalar.size > 0, name, f"has shape {scalar.shape}; it must hold one number")
        if came in (DataType.FLOAT, DataType.BF16):
            dtypes(floats, name)(call)
        elif came is DataType.FLOAT16:
            dtypes(halves, name)(call)
        elif integers:
            dtypes(integers, name)(call)

    return when(lambda call: bool(call.tensors(first)), check)


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
    ("Exp Expm1", {"A2 A3": f"{FLOATS} {SMALL}", "": FLOATS}),
    ("Neg", {"A2 A3": f"{FLOATS} INT32 {SMALL}", "": f"{FLOATS} INT32"}),
    ("Sign", f"{FLOATS} INT8 INT32 INT64"),
):
    rule(
        " ".join(f"aclnnForeach{name}" for name in _names.split()), *_lists(_takes, "x"), no_private_format("x", "out")
    )
rule("aclnnForeachACosInplace aclnnForeachLogInplace", *_lists(FLOATS, "x", "", "950"))
rule("aclnnForeachZeroInplace", *_lists(f"{FLOATS} INT32 INT16", "x", ""))

_COPY = f"{FLOATS} INT32 {SMALL} UINT16 UINT32 INT64 DOUBLE BOOL"


def _copied_dtypes(call: Call) -> None:
    source, target = call.dtype("x"), call.dtype("out")
    half = parse_dtypes("FLOAT16 BF16")
    fits = (
        source is target
        or (source is DataType.FLOAT and target in half)
        or (source in half and target is DataType.FLOAT)
        or not call.tensors("x")
        or not call.tensors("out")
    )
    call.require(fits, "out", f"has dtype {target.name}; {source.name} is not copied to it")


rule(
    "aclnnForeachCopy",
    no_null_item("x", "out"),
    only_products(PRODUCTS_WITH_BF16),
    dtypes(_COPY, "x"),
    _one_dtype("x"),
    _one_dtype("out"),
    _copied_dtypes,
    max_rank(8, "x", "out"),
    output_shape(out=_shapes_of("x")),
    no_private_format("x", "out"),
    output_dtype(out="x"),
)

_ROUND: DtypeSet = {"A2 A3": f"{FLOATS} INT16", "": FLOATS}
rule("aclnnForeachRoundOffNumber", *_lists(_ROUND, "x"), dtypes("INT8", "roundMode"))
rule(
    "aclnnForeachRoundOffNumberV2",
    *_lists({"A2 A3": f"{FLOATS} INT32 INT16", "": f"{FLOATS} INT32"}, "x"),
    dtypes("INT8 INT64", "roundMode"),
    no_private_format("x", "out"),
)


def _one_element(call: Call) -> None:
    sizes = [tensor.size for tensor in call.tensors("out")]
    fits = len(sizes) == len(call.tensors("x")) and all(size == 1 for size in sizes)
    call.require(fits, "out", "must have one tensor with one element for each tensor of x")


def _numbers(call: Call) -> list[Shape]:
    """A 0-d tensor for each; other shapes of one element are taken too."""
    return [() for _ in call.tensors("x")]


rule(
    "aclnnForeachNorm",
    no_null_item("x", "out"),
    only_products(PRODUCTS_WITH_BF16),
    dtypes(FLOATS, "x"),
    _one_dtype("x", "out"),
    dtypes("FLOAT DOUBLE INT64", "scalar"),
    tiling(max_rank(8, "x"), _one_element),
    infer_shape(out=_numbers),
    output_dtype(out="x"),
)
rule(
    "aclnnForeachNonFiniteCheckAndUnscale",
    no_null_item("scaledGrads"),
    only_products(f"{PRODUCTS_WITH_BF16} 310P"),
    dtypes({"310P": "FLOAT16 FLOAT", "": FLOATS}, "scaledGrads"),
    _one_dtype("scaledGrads"),
    dtypes("FLOAT", "foundInf", "invScale"),
)

# ------------------------------------------------------------------------------------------------------ two, three lists

_WITH_INT = f"{FLOATS} INT32"
_PLAIN = ("x1", "x2", "out")

rule("aclnnForeachDivList", *_lists(FLOATS, "x1 x2"), no_private_format(*_PLAIN))
rule("aclnnForeachMulList", *_lists(f"{_WITH_INT} {SMALL}", "x1 x2"), no_private_format(*_PLAIN))
rule("aclnnForeachMaximumList aclnnForeachMinimumList aclnnForeachPowList", *_lists(_WITH_INT, "x1 x2"))
rule("aclnnForeachDivListInplace", *_lists(FLOATS, "x1 x2", "", "950"))
rule("aclnnForeachMulListInplace", *_lists(_WITH_INT, "x1 x2", "", "950"))
rule("aclnnForeachBinaryOp", *_lists(_WITH_INT, "x1 x2", products="950"), tiling(one_of("opCode", 0, 1, 2, 3)))

rule("aclnnForeachAddList", *_lists(_WITH_INT, "x1 x2"), _number_like("alpha", "x1"), no_private_format(*_PLAIN))
rule(
    "aclnnForeachAddListV2 aclnnForeachSubListV2",
    *_lists(f"{_WITH_INT} {SMALL}", "x1 x2"),
    _number_like("alpha", "x1"),
    no_private_format(*_PLAIN),
)
rule(
    "aclnnForeachSubList",
    *_lists({"A2 A3": f"{_WITH_INT} {SMALL}", "": _WITH_INT}, "x1 x2"),
    _registered("alpha", "x1"),
)
rule(
    "aclnnForeachAddListInplace aclnnForeachSubListInplace",
    *_lists(_WITH_INT, "x1 x2", "", "950"),
    _registered("alpha", "x1"),
)
rule("aclnnForeachLerpList", *_lists(FLOATS, "x1 x2 weight"), no_private_format(*_PLAIN, "weight"))
rule(
    "aclnnForeachLerpScalar",
    *_lists(FLOATS, "x1 x2"),
    when(lambda call: bool(call.tensors("x1")), dtypes("FLOAT DOUBLE", "weight")),
    no_private_format(*_PLAIN),
)

_FUSED = "x1 x2 x3"
rule(
    "aclnnForeachAddcdivScalar", *_lists(FLOATS, _FUSED), _number_like("scalar", "x1"), no_private_format("x3", *_PLAIN)
)
rule(
    "aclnnForeachAddcdivScalarV2",
    *_lists(FLOATS, _FUSED),
    _number_like("scalar", "x1"),
    no_private_format("x3", *_PLAIN),
)


def _one_scalar_each(call: Call) -> None:
    scalars, ours = call["scalars"], len(call["x1"])
    theirs = scalars.size if isinstance(scalars, TensorSpec) else len(scalars)
    call.require(theirs == ours, "scalars", f"has {theirs} items; it must have {ours}, one for each tensor of x1")


rule("aclnnForeachAddcdivScalarList", *_lists(FLOATS, _FUSED), _one_scalar_each, no_private_format("x3", *_PLAIN))
rule(
    "aclnnForeachAddcdivList",
    *_lists(FLOATS, _FUSED),
    dtype_table("x1 scalars", *(f"{n} {n}" for n in FLOATS.split())),
    _one_scalar_each,
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
    dtype_table("x1 scalars", *(f"{n} {n}" for n in _WITH_INT.split())),
    _one_scalar_each,
)

# ------------------------------------------------------------------------------------------------------ a list and numbers


# CANN answers lists of unequal length as a null pointer here.
_SIZES_FIRST = (with_status(PARAM_NULLPTR, require("len(x) == len(out)", argument="out")),)


_SCALAR_950: DtypeSet = {"950": "FLOAT16 FLOAT", "": "FLOAT16"}
rule(
    "aclnnForeachAddScalar",
    *_lists({"A2 A3": f"{_WITH_INT} {SMALL}", "": _WITH_INT}, "x"),
    _registered("scalar", "x", _SCALAR_950),
)
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
rule("aclnnForeachDivScalar", *_lists(FLOATS, "x"), _number_like("scalar"), no_private_format("x", "out"))
rule("aclnnForeachDivScalarV2", *_lists(FLOATS, "x"), _number_like("scalar"), no_private_format("x", "out"))
rule(
    "aclnnForeachAddScalarV2",
    *_SIZES_FIRST,
    *_lists({"A2 A3": f"{_WITH_INT} {SMALL}", "": _WITH_INT}, "x"),
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


def _formats_of_list(call: Call) -> None:
    for source, target in zip(call.tensors("x"), call.tensors("out")):
        text = f"has a tensor of format {target.format.name}; it must be {source.format.name}, as in x"
        call.require(source.format is target.format, "out", text)


rule(
    "aclnnForeachSubScalarV2",
    *_lists(_WITH_INT, "x"),
    _number_like("scalar"),
    _formats_of_list,
    no_private_format("x"),
)

_RANGES = {
    DataType.INT32: (-(2**31), 2**31 - 1),
    DataType.FLOAT: (-3.4028235e38, 3.4028235e38),
    DataType.FLOAT16: (-65504.0, 65504.0),
    DataType.BF16: (-3.3895314e38, 3.3895314e38),
}


def _in_range(call: Call) -> None:
    """A scalar of another data type than the tensors' must not overflow theirs."""
    target, value = call.dtype("x"), number(call, "scalar")
    if target is call.dtype("scalar") or target not in _RANGES or isinstance(value, complex):
        return
    low, high = _RANGES[target]
    call.require(not (value < low or value > high), "scalar", f"is {value}; {target.name} cannot hold it")


rule(
    "aclnnForeachMaximumScalarV2 aclnnForeachMinimumScalarV2",
    *_lists(_WITH_INT, "x"),
    _number_like("scalar"),
    no_private_format("x", "out"),
    _in_range,
)
rule(
    "aclnnForeachPowScalarAndTensor",
    *_lists(_WITH_INT, "x"),
    dtypes("FLOAT DOUBLE INT64", "scalar"),
)


_AS_MANY = (require("len(x) == len(scalars)", argument="scalars"),)


for _names, _takes, _scalars in (
    ("DivScalarList", FLOATS, "FLOAT DOUBLE"),
    ("AddScalarList SubScalarList PowScalarList", _WITH_INT, "FLOAT DOUBLE INT64"),
    ("MaximumScalarList MinimumScalarList MulScalarList", _WITH_INT, "FLOAT DOUBLE INT64"),
):
    rule(
        " ".join(f"aclnnForeach{name}" for name in _names.split()),
        *_lists(_takes, "x"),
        dtypes(_scalars, "scalars"),
        tiling(*_AS_MANY),
    )
