"""Rules of quantising with scales that the operator finds itself."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_ERROR, PARAM_INVALID
from ascend_aclnn.rules.language import *

_BY_MODE = "aclnnDynamicQuantV3 aclnnDynamicQuantV4"
rule(
    f"aclnnDynamicQuant aclnnDynamicQuantV2 {_BY_MODE}",
    on_operators(_BY_MODE, with_status(INNER_ERROR, only_products("950"))),
    required("x", "quantMode", "yOut", "scaleOut"),
    when("isSymmetrical", absent("offsetOut", why="as is_symmetrical is True")),
    when("not isSymmetrical", required("offsetOut", status=PARAM_INVALID)),
    one_of("quantMode", "pertensor", "pertoken", "perchannel"),
    when("quantMode == 'perchannel'", absent("groupIndexOptional", why="with perchannel")),
    dtypes({"A2 A3 950": HALVES, "310P 910": "FLOAT16"}, "x", "smoothScalesOptional"),
    same_dtype("x", "smoothScalesOptional"),
    when("smoothScalesOptional is not None", dtypes(INDICES, "groupIndexOptional")),
    dtypes({"A2 A3": "INT4 INT8 INT32", "310P 910": "INT8", "950": f"INT4 INT8 INT32 {FLOAT8S}"}, "yOut"),
    dtypes("FLOAT", "scaleOut", "offsetOut"),
    rank(2, 8, "x"),
    # One factor for each item of the last axis; with groups CANN looks at the rank of groupIndex alone.
    define(mode="'pertoken' if quantMode is None else quantMode"),
    when("smoothScalesOptional is not None", rank(1, "groupIndexOptional")),
    when("groupIndexOptional is None", has_shape(smoothScalesOptional="(x[-2 if mode == 'perchannel' else -1],)")),
    # One scale for each row, for each item of the last axis, or for the tensor.
    define(
        scales="x[:-1] if mode == 'pertoken' else (*x[:-2], x[-1]) if mode == 'perchannel' else (1,)",
        stored="yOut.dtype if yOut is not None else dstType if dstType is not None else INT8",
    ),
    output_shape(
        yOut="packed_shape(x, stored)",
        scaleOut="scales",
        offsetOut="None if isSymmetrical is not None and isSymmetrical else scales",
    ),
    output_dtype(yOut="stored"),
    nullable="x quantMode yOut scaleOut offsetOut",
)

# --------------------------------------------------------------------------------------------------- behind a gate

# x with half of the gated axis, the last one unless activateDim says otherwise.
_GATED = (
    rank(2, 8, "x"),
    define(gated="-1 if activateDim is None else activateDim", half="with_size(x, gated, exact_div(x[gated], 2))"),
)
_GROUPS = define(groups="1 if groupIndexOptional is None else groupIndexOptional[0]")


def _by_group(columns: str, *names: str, each: bool) -> Check:
    """A row of parameters for each group (of one group also without its axis), with ``each`` also one number for each."""
    one = f"({columns},) if groups == 1 else (groups, {columns})"
    allowed = f"(groups, {columns}), {one}" + (", (groups,)" if each else "")
    return require(*(f"{name} in ({allowed})" for name in names))


rule(
    "aclnnDequantSwigluQuant aclnnDequantSwigluQuantV2",
    documented_products,
    documented_dtypes(),
    tiling(
        *_GATED,
        output_shape(yOut="half", scaleOut="half[:-1]"),
        one_of("quantModeOptional", "static", "dynamic"),
        one_of("swigluMode", 0, 1),
        on_products("950", require("all(n > 0 for n in x)")),
        # Scales and bias of the columns of x, scales of its rows, scales and offsets of the columns of y.
        require("groupIndexOptional[0] > 0", "groupIndexOptional[1:] in ((), (2,))"),
        _GROUPS,
        _by_group("x[-1]", "weightScaleOptional", "biasOptional", each=False),
        require("activationScaleOptional.size == prod(x[:-1])"),
        _by_group("half[-1]", "quantScaleOptional", "quantOffsetOptional", each=True),
    ),
    on_operators("aclnnDequantSwigluQuant", output_dtype(yOut="INT8")),
    on_operators("aclnnDequantSwigluQuantV2", output_dtype(yOut="dstType")),
    output_dtype(scaleOut="FLOAT"),
)
# INT8 x is scaled by columns, INT32 x by columns (of each group) and rows, 16-bit x not at all.
rule(
    "aclnnDequantSituQuant",
    documented_products,
    documented_dtypes(),
    tiling(
        rank(2, 8, "x"),
        define(half="with_size(x, -1, exact_div(x[-1], 2))"),
        output_shape(yOut="half", yScaleOut="x[:-1] if x.dtype == INT8 else x[:1]"),
        one_of("quantTypeOptional", "static", "dynamic"),
        require("beta != 0", "x.size > 0"),
        when(
            "x.dtype == INT8",
            required("weightScaleOptional", status=PARAM_INVALID),
            absent("activationScaleOptional", "groupIndexOptional", why="with INT8 x"),
            require("weightScaleOptional in (x[-1:], (1,))", "biasOptional in (x[-1:], (1,))"),
            require("quantScaleOptional in (half[-1:], (1,))", "quantOffsetOptional in (half[-1:], (1,))"),
            when("quantTypeOptional == 'static'", required("quantScaleOptional", status=PARAM_INVALID)),
        ),
        when("x.dtype != INT8", rank(2, "x")),
        when(
            "x.dtype == INT32",
            required("weightScaleOptional", "activationScaleOptional", status=PARAM_INVALID),
            absent("quantScaleOptional", "quantOffsetOptional", why="with INT32 x"),
            one_of("quantTypeOptional", "dynamic"),
            require("len(groupIndexOptional) == 1", "groupIndexOptional[0] > 0"),
            define(
                columns="(1, x[-1]) if groupIndexOptional is None else (groupIndexOptional[0], x[-1])",
                or_columns="x[-1:] if groupIndexOptional is None else columns",
            ),
            require("weightScaleOptional in (columns, or_columns)", "biasOptional in (columns, or_columns)"),
            require("activationScaleOptional in ((x[0],), (x[0], 1))"),
        ),
    ),
    output_dtype(yOut="INT8", yScaleOut="FLOAT"),
)
rule(
    "aclnnSwiGluQuant aclnnSwiGluQuantV2",
    documented_products,
    documented_dtypes(),
    tiling(
        rank(2, 8, "x"),
        define(half="with_size(x, -1, exact_div(x[-1], 2))"),
        output_shape(yOut="half", scaleOut="x[:-1]"),
        require("x[-1] > 0"),
        one_of("quantModeOptional", "static", "dynamic", "dynamic_msd"),
        require("len(groupIndexOptional) == 1", "groupIndexOptional[0] > 0"),
        _GROUPS,
        _by_group("half[-1]", "smoothScalesOptional", "offsetsOptional", each=True),
    ),
    on_operators("aclnnSwiGluQuant", output_dtype(yOut="INT8")),
    on_operators("aclnnSwiGluQuantV2", output_dtype(yOut="dstType")),
    output_dtype(scaleOut="FLOAT"),
)
rule(
    "aclnnSwigluGroupGrad",
    when("weightOptional is not None", required("gradWeightOutOptional")),
    together("yOriginOptional", "weightOptional"),
    not_negative("clampLimit"),
    dtypes(FLOATS, "gradY", "x"),
    same_dtype("gradY", "x", "gradXOut", "yOriginOptional"),
    dtypes("FLOAT", "weightOptional", "gradWeightOutOptional"),
    dtypes("INT64", "groupIndexOptional"),
    rank(2, 3, "gradY"),
    has_shape(x="(*gradY[:-1], gradY[-1] * 2)"),
    require("gradY[-1] > 0"),
    same_shape("x", "gradXOut"),
    require("weightOptional.size == prod(gradY[:-1])"),
    when("weightOptional is not None", same_shape("weightOptional", "gradWeightOutOptional")),
    same_shape("gradY", "yOriginOptional"),
    require("len(groupIndexOptional) == 1", "groupIndexOptional[0] > 0"),
    infer_shape(gradXOut="x", gradWeightOutOptional="weightOptional"),
)
