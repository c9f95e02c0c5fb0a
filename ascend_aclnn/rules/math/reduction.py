"""Rules of ops-math/math: operators that reduce axes to one value, and pooling over whole planes."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import *

_REAL = plus_bf16("FLOAT FLOAT16 UINT8 INT8 INT16 INT32 INT64 DOUBLE BOOL")
# What CANN can fill a tensor with: the output of an empty input.
_FILLED = "FLOAT FLOAT16 DOUBLE INT8 UINT8 INT16 INT32 INT64 BOOL BF16"


def scalar(call: Call) -> Shape:
    """The shape of a result that has no axes."""
    return ()


def if_empty(name: str, *checks: Check) -> Check:
    """Checks that CANN makes for an empty tensor only."""
    return when(lambda call: call[name].size == 0, *checks)


def _axes_not_empty(name: str, tensor: str) -> Check:
    """The axes that are reduced have elements."""

    def check(call: Call) -> None:
        sizes, axes = call.shape(tensor), call[name]
        for axis in normalise_axes(call, name, (axes,) if isinstance(axes, int) else axes, len(sizes)):
            call.require(not sizes or sizes[axis] != 0, name, f"names axis {axis} of {sizes}, which is empty")

    return check


def _unless_noop(shape_: ShapeRule, axes: str, noop: str, tensor: str) -> ShapeRule:
    """The shape of a reduction that does nothing when it is given no axes and told so."""
    return lambda call: call.shape(tensor) if call[noop] and not call[axes] else shape_(call)


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
    dtype_in(
        promoted("self", "other"),
        plus_bf16("FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 BOOL DOUBLE UINT16 UINT32 UINT64"),
        "other",
    ),
    dtypes("BOOL", "out"),
    max_rank(8, "self", "other", "out"),
    output_shape(out=shape_from(1)),
    output_dtype(out="BOOL"),
)

# ------------------------------------------------------------------------------------------------- extremes

rule(
    "aclnnMax aclnnMin",
    dtypes(_REAL, "self", "out"),
    max_rank(8, "self", "out"),
    unless_empty("self out", output_shape_relaxed(out=scalar)),
    output_dtype(out=dtype_of("self")),
)
rule(
    "aclnnAmax aclnnAmin",
    same_dtype("self", "out"),
    dtypes(_REAL, "self"),
    _axes_not_empty("dim", "self"),
    max_rank(8, "self", "out"),
    output_shape(out=reduced_shape("self", "dim", "keepDim")),
)
rule(
    "aclnnMaxV2",
    same_dtype("self", "out"),
    dtypes(_REAL, "self"),
    _axes_not_empty("dims", "self"),
    max_rank(8, "self", "out"),
    output_shape(out=_unless_noop(reduced_shape("self", "dims", "keepDims"), "dims", "noopWithEmptyDims", "self")),
)
_AMINMAX = (dtypes(_REAL, "self"), same_dtype("self", "minOut", "maxOut"), max_rank(8, "self", "minOut", "maxOut"))


def _aminmax_axes(call: Call) -> None:
    axes, sizes = call["dim"], call.shape("self")
    if len(axes) != 1:
        text = "must name one axis of an empty self"
        call.require(call["self"].size > 0, "dim", text)
        return
    normalise_axes(call, "dim", axes, len(sizes))
    if sizes and axes[0] >= 0:  # CANN does not look at the size of an axis that is counted from the end
        call.require(sizes[axes[0]] != 0, "dim", f"names axis {axes[0]} of {sizes}, which is empty")


def _aminmax_axis(call: Call) -> None:
    axis, sizes = call["dim"], call.shape("self")
    normalise_axes(call, "dim", (axis,), len(sizes))
    if sizes and axis >= 0:
        call.require(sizes[axis] != 0, "dim", f"is {axis}; that axis of {sizes} is empty")


_AMINMAX_OUT = reduced_shape("self", "dim", "keepDim")
rule(
    "aclnnAminmax",
    *_AMINMAX,
    _aminmax_axes,
    unless_empty("self", output_shape_relaxed(minOut=_AMINMAX_OUT, maxOut=_AMINMAX_OUT)),
)
rule(
    "aclnnAminmaxDim",
    *_AMINMAX,
    _aminmax_axis,
    unless_empty("self", output_shape_relaxed(minOut=_AMINMAX_OUT, maxOut=_AMINMAX_OUT)),
)
rule("aclnnAminmaxAll", *_AMINMAX, unless_empty("self", output_shape_relaxed(minOut=scalar, maxOut=scalar)))

_ONE_AXIS = reduced_shape("self", "dim", "keepdim")
rule(
    "aclnnMaxDim aclnnMinDim",
    dtypes(
        {
            "950": "FLOAT FLOAT16 INT64 BOOL BF16 INT32",
            "A2 A3": "FLOAT FLOAT16 INT64 BOOL BF16",
            "": "FLOAT FLOAT16 INT64 BOOL",
        },
        "self",
    ),
    same_dtype("self", "out"),
    max_rank(8, "self", "out", "indices"),
    valid_axis("dim", "self"),
    unless_empty("self", output_shape_relaxed(indices=_ONE_AXIS, out=_ONE_AXIS)),
    output_dtype(out=dtype_of("self"), indices="INT32"),
)
_ARG = "FLOAT FLOAT16 DOUBLE INT8 INT16 INT32 INT64 UINT8"
rule(
    "aclnnArgMax",
    dtypes({"310P 910": _ARG, "A2 A3 310B": _ARG + " BF16", "950": _ARG + " UINT16 BF16", "": ""}, "self"),
    max_rank(8, "self", "out"),
    valid_axis("dim", "self"),
    unless_empty("self out", output_shape_relaxed(out=_ONE_AXIS)),
    output_dtype(out="INT64"),
)


def _arg_axis_not_empty(call: Call) -> None:
    sizes, axis = call.shape("self"), call["dim"]
    call.require(not sizes or sizes[axis] != 0, "dim", f"is {axis}; that axis of {sizes} is empty")


rule(
    "aclnnArgMin",
    valid_axis("dim", "self"),
    dtypes({"310P 910": _ARG, "A2 A3 310B 950": _ARG + " BF16", "": ""}, "self"),
    dtypes("INT32 INT64", "out"),
    no_private_format("self", "out"),
    max_rank(8, "self", "out"),
    _arg_axis_not_empty,
    unless_empty("self", output_shape_relaxed(out=_ONE_AXIS)),
    output_dtype(out="INT64"),
)

# ------------------------------------------------------------------------------------------------- sums and means

_SUMMED = plus_bf16("FLOAT16 FLOAT INT8 INT16 INT32 INT64 UINT8 BOOL DOUBLE COMPLEX64 COMPLEX128")
rule(
    "aclnnReduceSum",
    dtypes(_SUMMED, "self", "out"),
    dtype_in(dtype_attribute("dtype"), _SUMMED, "dtype"),
    has_dtype("out", dtype_attribute("dtype")),
    max_rank(8, "self"),
    valid_axes("dims", "self"),
    if_empty("self", dtypes(_FILLED, "out")),
    unless_empty(
        "self",
        when(
            lambda call: bool(call.shape("self")), output_shape_relaxed(out=reduced_shape("self", "dims", "keepDims"))
        ),
    ),
    infer_shape(out=reduced_shape("self", "dims", "keepDims")),
    output_dtype(out=dtype_attribute("dtype")),
)
_NANSUMMED = {"950": "FLOAT FLOAT16 BF16", "": "FLOAT16 FLOAT INT8 INT16 INT32 INT64 UINT8 BOOL BF16"}
rule(
    "aclnnReduceNansum",
    only_products("A2 A3 950"),
    dtypes(_NANSUMMED, "self"),
    dtype_in(dtype_attribute("dtype"), _NANSUMMED, "dtype"),
    dtypes(_NANSUMMED, "out"),
    has_dtype("out", dtype_attribute("dtype")),
    castable("self", "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    unless_empty("self", output_shape_relaxed(out=reduced_shape("self", "dim", "keepDim"))),
    output_dtype(out=dtype_attribute("dtype")),
)
_LOG_SUMMED = {"950": "FLOAT16 FLOAT BF16", "": "FLOAT16 FLOAT"}
rule(
    "aclnnReduceLogSum",
    dtypes(_LOG_SUMMED, "data", "reduce"),
    max_rank(8, "data"),
    valid_axes("axes", "data"),
    when(
        lambda call: bool(call["axes"]) or not call["noopWithEmptyAxes"],
        unless_empty("data", output_shape_relaxed(reduce=reduced_shape("data", "axes", "keepDims"))),
    ),
    infer_shape(reduce=_unless_noop(reduced_shape("data", "axes", "keepDims"), "axes", "noopWithEmptyAxes", "data")),
    output_dtype(reduce=dtype_of("data")),
)


def _logsumexp_dtype(call: Call) -> DataType:
    dtype = call.dtype("self")
    return dtype if dtype in (DataType.FLOAT, DataType.FLOAT16, DataType.BF16) else DataType.FLOAT


rule(
    "aclnnLogSumExp",
    dtypes(plus_bf16("FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 BOOL"), "self"),
    dtypes(FLOATS_OF_PRODUCT, "out"),
    castable("self", "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    output_shape(out=reduced_shape("self", "dim", "keepDim")),
    on_products("950", unless_empty("self", no_private_format("self"))),
    output_dtype(out=_logsumexp_dtype),
)
_AVERAGED = plus_bf16("FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE COMPLEX64 COMPLEX128")


def _mean_casts(call: Call) -> None:
    computed = dtype_attribute("dtype")(call)
    text = f"is {computed.name}; {call.dtype('self').name} cannot be cast to it"
    call.require(can_cast(call.dtype("self"), computed), "dtype", text)


rule(
    "aclnnMean",
    dtypes(_AVERAGED, "self"),
    dtype_in(dtype_attribute("dtype"), _AVERAGED, "dtype"),
    dtypes(_AVERAGED, "out"),
    _mean_casts,
    castable(dtype_attribute("dtype"), "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    if_empty("self", dtypes(_FILLED, "out")),
    unless_empty("self", output_shape_relaxed(out=reduced_shape("self", "dim", "keepDim"))),
    output_dtype(out=dtype_attribute("dtype")),
)
rule(
    "aclnnMeanV2",
    dtypes(_AVERAGED, "self", "out"),
    same_dtype("self", "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    if_empty("self", dtypes(_FILLED, "out")),
    unless_empty(
        "self",
        output_shape_relaxed(
            out=_unless_noop(reduced_shape("self", "dim", "keepDim"), "dim", "noopWithEmptyAxes", "self")
        ),
    ),
)
_MULTIPLIED = plus_bf16("FLOAT FLOAT16 DOUBLE INT8 UINT8 INT16 INT32 INT64 BOOL COMPLEX64 COMPLEX128")
_PROD = (dtypes(_MULTIPLIED, "self"), has_dtype("out", dtype_attribute("dtype")), max_rank(8, "self", "out"))
rule(
    "aclnnProd",
    *_PROD,
    if_empty("self", dtypes(_FILLED, "out")),
    unless_empty("self", output_shape_relaxed(out=scalar)),
    output_dtype(out=dtype_attribute("dtype")),
)
rule(
    "aclnnProdDim",
    *_PROD,
    valid_axis("dim", "self"),
    if_empty("self", dtypes(_FILLED, "out")),
    unless_empty("self", output_shape_relaxed(out=reduced_shape("self", "dim", "keepDim"))),
    output_dtype(out=dtype_attribute("dtype")),
)

# ------------------------------------------------------------------------------------------------- moments

_SPREAD = reduced_shape("self", "dim", "keepdim")
# CANN 8.1 and later compare the shape of Std's outputs only when axes are given.
_AXES_GIVEN = when(lambda call: bool(call["dim"]), output_shape(out=_SPREAD))
rule(
    "aclnnVar aclnnVarCorrection",
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self"),
    output_shape(out=_SPREAD),
    output_dtype(out=dtype_of("self")),
)
rule(
    "aclnnStd",
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    castable("self", "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    _AXES_GIVEN,
    infer_shape(out=_SPREAD),
    output_dtype(out=dtype_of("self")),
    nullable="dim",
)
rule(
    "aclnnVarMean",
    dtypes({"950": "FLOAT FLOAT16 BF16", "": "FLOAT FLOAT16"}, "self", "meanOut", "varOut"),
    valid_axes("dim", "self"),
    max_rank(8, "self"),
    output_shape(meanOut=_SPREAD, varOut=_SPREAD),
    output_dtype(varOut=dtype_of("self"), meanOut=dtype_of("self")),
)
rule(
    "aclnnStdMeanCorrection",
    dtypes(FLOATS_OF_PRODUCT, "self", "stdOut", "meanOut"),
    on_products("950", same_dtype("self", "stdOut", "meanOut")),
    valid_axes("dim", "self"),
    max_rank(8, "self", "stdOut", "meanOut"),
    when(lambda call: bool(call["dim"]), output_shape(stdOut=_SPREAD, meanOut=_SPREAD)),
    infer_shape(stdOut=_SPREAD, meanOut=_SPREAD),
    output_dtype(stdOut=dtype_of("self"), meanOut=dtype_of("self")),
    nullable="dim",
)


def _channels_not_empty(call: Call) -> None:
    sizes = call.shape("input")
    call.require(sizes[1] != 0, "input", f"has shape {sizes}; its axis 1 must not be empty")


rule(
    "aclnnBatchNormStats",
    dtypes({"950": "FLOAT FLOAT16 BF16", "": "FLOAT FLOAT16"}, "input"),
    dtypes("FLOAT", "mean", "invstd"),
    no_private_format("input", "mean", "invstd"),
    rank(2, 8, "input"),
    rank(1, 1, "mean", "invstd"),
    _channels_not_empty,
    output_shape(mean=shape_from(("input", 1)), invstd=shape_from(("input", 1))),
    output_dtype(mean="FLOAT", invstd="FLOAT"),
)

# ------------------------------------------------------------------------------------------------- whole planes


def _plane(call: Call) -> Shape:
    sizes = call.shape("self")
    return sizes[:2] + (1,) * len(sizes[2:])


def _same_format(call: Call) -> None:
    text = f"has format {call['out'].format.name}; it must be {call['self'].format.name}, as self"
    call.require(call["self"].format is call["out"].format, "out", text)


def _same_rank(call: Call) -> None:
    ndim, out = len(call.shape("self")), call.shape("out")
    call.require(len(out) == ndim, "out", f"has shape {out}; it must have rank {ndim}, as self")


rule(
    "aclnnGlobalAveragePool",
    dtypes(plus_bf16("FLOAT FLOAT16 DOUBLE"), "self", "out"),
    same_dtype("self", "out"),
    _same_format,
    formats("ND NCHW NCDHW", "self", "out"),
    rank(4, 8, "self"),
    _same_rank,
    output_shape_relaxed(out=_plane),
)
rule(
    "aclnnGlobalMaxPool",
    dtypes("FLOAT FLOAT16 DOUBLE", "self", "out"),
    same_dtype("self", "out"),
    _same_format,
    formats("ND NCHW NCDHW", "self", "out"),
    rank(4, 8, "self"),
    output_shape(out=_plane),
)

# ------------------------------------------------------------------------------------------------- comparisons


def _kl_div_shape(call: Call) -> Shape:
    both = broadcast_shape("self", "target")(call)
    return both if call["reduction"] == 0 else ()


rule(
    "aclnnKlDiv",
    dtypes(FLOATS_OF_PRODUCT, "self", "target", "out"),
    castable(promoted("self", "target"), "out"),
    max_rank(8, "self", "target"),
    one_of("reduction", 0, 1, 2, 3),
    unless_empty(
        "self target",
        when(lambda call: call["reduction"] == 0, output_shape(out=_kl_div_shape)),
        output_shape_relaxed(out=_kl_div_shape),
    ),
    infer_shape(out=_kl_div_shape),
    output_dtype(out=promoted("self", "target")),
)
rule(
    "aclnnPrecisionCompare",
    only_products("A2 A3 950"),
    same_dtype("golden", "realdata"),
    dtypes("FLOAT FLOAT16 BF16", "golden"),
    dtypes("UINT32", "out"),
    same_shape("golden", "realdata"),
    max_rank(8, "golden"),
    output_shape(out=scalar),
)
