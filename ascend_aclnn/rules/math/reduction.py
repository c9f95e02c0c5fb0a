"""Rules of ops-math/math: operators that reduce axes to one value, and pooling over whole planes."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_REAL = plus_bf16(REAL)
_REAL_AND_COMPLEX = plus_bf16(REAL_AND_COMPLEX)
# CANN fills the output of an empty input with a number, which it can do for these.
_EMPTY_CAN_BE_FILLED = when("self.empty", dtypes(f"{REAL} BF16", "out"))
_DTYPE = dtype_attribute("dtype")
_TO_ONE_VALUE = output_shape_relaxed(out="()")


def _some_left(axes: str) -> Check:
    """The axes that are reduced have elements; a 0-d tensor has one."""
    return require(f"all((self or (1,))[i] != 0 for i in {axes})", argument=axes)


# ------------------------------------------------------------------------------------------------- logical

rule(
    "aclnnAll",
    dtypes(_REAL, "self"),
    dtypes("UINT8 BOOL", "out"),
    no_private_format("self"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    output_shape(out=reduced_shape("self", "dim", "keepdim")),
    output_dtype(out="BOOL"),
)
rule(
    "aclnnAny",
    dtypes(_REAL, "self"),
    dtypes("UINT8 BOOL", "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    unless_empty("self", output_shape_relaxed(out=reduced_shape("self", "dim", "keepdim"))),
    output_dtype(out="BOOL"),
)
rule(
    "aclnnEqual",
    dtype_in(promoted("self", "other"), plus_bf16(f"{REAL} {UNSIGNED}"), "other"),
    dtypes("BOOL", "out"),
    max_rank(8, "self", "other", "out"),
    output_shape(out="(1,)"),
)

# ------------------------------------------------------------------------------------------------- extremes

rule(
    "aclnnMax aclnnMin",
    dtypes(_REAL, "self", "out"),
    max_rank(8, "self", "out"),
    unless_empty("self out", _TO_ONE_VALUE),
)
_EXTREMES = (
    same_dtype("self", "out", among=_REAL),
    valid_axes("dims", "self"),
    _some_left("dims"),
    max_rank(8, "self", "out"),
)
rule(
    "aclnnAmax aclnnAmin",
    *_EXTREMES,
    output_shape(out=reduced_shape("self", "dims", "keepDim")),
    aliases={"dims": "dim"},
)
rule(
    "aclnnMaxV2",
    *_EXTREMES,
    when("dims or not noopWithEmptyDims", output_shape(out=reduced_shape("self", "dims", "keepDims"))),
    when("not dims and noopWithEmptyDims", output_shape(out="self")),
)

_AMINMAX = (dtypes(_REAL, "self"), same_dtype("self", "minOut", "maxOut"), max_rank(8, "self", "minOut", "maxOut"))
_AMINMAX_SHAPE = reduced_shape("self", "dim", "keepDim")
_AMINMAX_OUT = unless_empty("self", output_shape_relaxed(minOut=_AMINMAX_SHAPE, maxOut=_AMINMAX_SHAPE))
rule(
    "aclnnAminmax",
    *_AMINMAX,
    when("len(dim) != 1", require("not self.empty", why="unless dim names one axis")),
    # CANN does not look at the size of an axis that is counted from the end.
    when("len(dim) == 1", valid_axes("dim", "self"), require("dim[0] < 0 or (self or (1,))[dim[0]] != 0")),
    _AMINMAX_OUT,
)
rule(
    "aclnnAminmaxDim",
    *_AMINMAX,
    valid_axis("dim", "self"),
    require("dim < 0 or (self or (1,))[dim] != 0"),
    _AMINMAX_OUT,
)
rule("aclnnAminmaxAll", *_AMINMAX, unless_empty("self", output_shape_relaxed(minOut="()", maxOut="()")))

_ONE_AXIS = reduced_shape("self", "dim", "keepdim")
_ORDERED = "FLOAT FLOAT16 INT64 BOOL"
rule(
    "aclnnMaxDim aclnnMinDim",
    dtypes({"950": f"{_ORDERED} BF16 INT32", "A2 A3": f"{_ORDERED} BF16", "": _ORDERED}, "self"),
    same_dtype("self", "out"),
    max_rank(8, "self", "out", "indices"),
    valid_axis("dim", "self"),
    unless_empty("self", output_shape_relaxed(indices=_ONE_AXIS, out=_ONE_AXIS)),
    output_dtype(indices="INT32"),
)
rule(
    "aclnnArgMax",
    dtypes({"310P 910": NUMBERS, "A2 A3 310B": f"{NUMBERS} BF16", "950": f"{NUMBERS} UINT16 BF16", "": ""}, "self"),
    max_rank(8, "self", "out"),
    valid_axis("dim", "self"),
    unless_empty("self out", output_shape_relaxed(out=_ONE_AXIS)),
    output_dtype(out="INT64"),
)
rule(
    "aclnnArgMin",
    valid_axis("dim", "self"),
    dtypes({"310P 910": NUMBERS, "A2 A3 310B 950": f"{NUMBERS} BF16", "": ""}, "self"),
    dtypes(INDICES, "out"),
    no_private_format("self", "out"),
    max_rank(8, "self", "out"),
    require("(self or (1,))[dim] != 0", argument="dim"),
    unless_empty("self", output_shape_relaxed(out=_ONE_AXIS)),
    output_dtype(out="INT64"),
)

# ------------------------------------------------------------------------------------------------- sums and means

_SUMMED = reduced_shape("self", "dims", "keepDims")
rule(
    "aclnnReduceSum",
    dtypes(_REAL_AND_COMPLEX, "self", "out"),
    dtype_in(_DTYPE, _REAL_AND_COMPLEX, "dtype"),
    has_dtype("out", _DTYPE),
    max_rank(8, "self"),
    valid_axes("dims", "self"),
    _EMPTY_CAN_BE_FILLED,
    unless_empty("self", when("len(self) > 0", output_shape_relaxed(out=_SUMMED))),
    infer_shape(out=_SUMMED),
)
_NANSUMMED = {"950": FLOATS, "": "FLOAT16 FLOAT INT8 INT16 INT32 INT64 UINT8 BOOL BF16"}
_AVERAGE = reduced_shape("self", "dim", "keepDim")
rule(
    "aclnnReduceNansum",
    only_products(PRODUCTS_WITH_BF16),
    dtypes(_NANSUMMED, "self"),
    dtype_in(_DTYPE, _NANSUMMED, "dtype"),
    dtypes(_NANSUMMED, "out"),
    has_dtype("out", _DTYPE),
    castable("self", "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    unless_empty("self", output_shape_relaxed(out=_AVERAGE)),
)
rule(
    "aclnnReduceLogSum",
    dtypes({"950": FLOATS, "": FLOATS_WITHOUT_BF16}, "data", "reduce"),
    max_rank(8, "data"),
    valid_axes("axes", "data"),
    infer_shape(reduce="data"),
    when(
        "axes or not noopWithEmptyAxes",
        unless_empty("data", output_shape_relaxed(reduce=reduced_shape("data", "axes", "keepDims"))),
    ),
)
rule(
    "aclnnLogSumExp",
    dtypes(plus_bf16("FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 BOOL"), "self"),
    dtypes(FLOATS_OF_PRODUCT, "out"),
    castable("self", "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    output_shape(out=_AVERAGE),
    on_products("950", unless_empty("self", no_private_format("self"))),
    output_dtype(out="self.dtype if self.dtype in FLOATS else FLOAT"),
)
_AVERAGED = plus_bf16(f"{NUMBERS} {COMPLEX}")
rule(
    "aclnnMean",
    dtypes(_AVERAGED, "self"),
    dtype_in(_DTYPE, _AVERAGED, "dtype"),
    dtypes(_AVERAGED, "out"),
    takes_dtype(_DTYPE, "self"),
    castable(_DTYPE, "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    _EMPTY_CAN_BE_FILLED,
    unless_empty("self", output_shape_relaxed(out=_AVERAGE)),
    output_dtype(out=_DTYPE),
)
rule(
    "aclnnMeanV2",
    dtypes(_AVERAGED, "self", "out"),
    same_dtype("self", "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    _EMPTY_CAN_BE_FILLED,
    unless_empty(
        "self",
        when("dim or not noopWithEmptyAxes", output_shape_relaxed(out=_AVERAGE)),
        when("not dim and noopWithEmptyAxes", output_shape_relaxed(out="self")),
    ),
)
rule(
    "aclnnProd aclnnProdDim",
    dtypes(_REAL_AND_COMPLEX, "self"),
    has_dtype("out", _DTYPE),
    max_rank(8, "self", "out"),
    on_operators("aclnnProdDim", valid_axis("dim", "self")),
    _EMPTY_CAN_BE_FILLED,
    on_operators("aclnnProd", unless_empty("self", _TO_ONE_VALUE)),
    on_operators("aclnnProdDim", unless_empty("self", output_shape_relaxed(out=_AVERAGE))),
)

# ------------------------------------------------------------------------------------------------- moments

_SPREAD = reduced_shape("self", "dim", "keepdim")
rule(
    "aclnnVar aclnnVarCorrection",
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self"),
    output_shape(out=_SPREAD),
)
rule(
    "aclnnStd",
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    castable("self", "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    # CANN 8.1 and later compare the shape of Std's outputs only when axes are given.
    infer_shape(out=_SPREAD),
    when("len(dim) > 0", output_shape(out=_SPREAD)),
    nullable="dim",
)
rule(
    "aclnnVarMean",
    dtypes({"950": FLOATS, "": FLOATS_WITHOUT_BF16}, "self", "meanOut", "varOut"),
    valid_axes("dim", "self"),
    max_rank(8, "self"),
    output_shape(meanOut=_SPREAD, varOut=_SPREAD),
)
rule(
    "aclnnStdMeanCorrection",
    dtypes(FLOATS_OF_PRODUCT, "self", "stdOut", "meanOut"),
    on_products("950", same_dtype("self", "stdOut", "meanOut")),
    valid_axes("dim", "self"),
    max_rank(8, "self", "stdOut", "meanOut"),
    infer_shape(stdOut=_SPREAD, meanOut=_SPREAD),
    when("len(dim) > 0", output_shape(stdOut=_SPREAD, meanOut=_SPREAD)),
    nullable="dim",
)
rule(
    "aclnnBatchNormStats",
    dtypes({"950": FLOATS, "": FLOATS_WITHOUT_BF16}, "input"),
    dtypes("FLOAT", "mean", "invstd"),
    no_private_format("input", "mean", "invstd"),
    rank(2, 8, "input"),
    rank(1, "mean", "invstd"),
    require("input[1] > 0"),
    output_shape(mean="(input[1],)", invstd="(input[1],)"),
)

# ------------------------------------------------------------------------------------------------- whole planes

_PLANES = (same_dtype("self", "out"), same_format("self", "out"), formats("ND NCHW NCDHW", "self", "out"))
_ONE_EACH = "(*self[:2], *(1 for n in self[2:]))"
rule(
    "aclnnGlobalAveragePool",
    dtypes(plus_bf16(FLOATS_AND_DOUBLE), "self", "out"),
    *_PLANES,
    rank(4, 8, "self"),
    require("len(out) == len(self)"),
    output_shape_relaxed(out=_ONE_EACH),
)
rule(
    "aclnnGlobalMaxPool",
    dtypes(FLOATS_AND_DOUBLE, "self", "out"),
    *_PLANES,
    rank(4, 8, "self"),
    output_shape(out=_ONE_EACH),
)

# ------------------------------------------------------------------------------------------------- comparisons

rule(
    "aclnnKlDiv",
    dtypes(FLOATS_OF_PRODUCT, "self", "target", "out"),
    castable(promoted("self", "target"), "out"),
    max_rank(8, "self", "target"),
    one_of("reduction", 0, 1, 2, 3),
    infer_shape(out="broadcast(self, target) if reduction == 0 else ()"),
    unless_empty(
        "self target",
        require("broadcasts(target, self)"),
        when("reduction == 0", output_shape(out=broadcast_shape("self", "target"))),
        output_shape_relaxed(out="broadcast(self, target) if reduction == 0 else ()"),
    ),
    output_dtype(out=promoted("self", "target")),
)
rule(
    "aclnnPrecisionCompare",
    only_products(PRODUCTS_WITH_BF16),
    same_dtype("golden", "realdata", among=FLOATS),
    dtypes("UINT32", "out"),
    same_shape("golden", "realdata"),
    max_rank(8, "golden"),
    output_shape(out="()"),
)
