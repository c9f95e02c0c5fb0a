"""Rules of quantising with scales that the operator finds itself."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_ERROR, PARAM_INVALID
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.quant.static import packed

# --------------------------------------------------------------------------------------------------- DynamicQuant


def _mode(call: Call) -> str:
    return str(call["quantMode"]) if "quantMode" in call.operator.positions else "pertoken"


def _scale_shape(call: Call) -> Shape:
    """One scale for each row, for each item of the last axis, or for the tensor."""
    rank(2, 8, "x")(call)
    sizes = call.shape("x")
    return {"pertoken": sizes[:-1], "perchannel": (*sizes[:-2], sizes[-1])}.get(_mode(call), (1,))


_X = {"A2 A3 950": "FLOAT16 BF16", "310P 910": "FLOAT16"}
_Y = {"A2 A3": "INT4 INT8 INT32", "310P 910": "INT8", "950": "INT4 INT8 INT32 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN"}
_BEFORE: tuple[Check, ...] = (
    dtypes(_X, "x", "smoothScalesOptional"),
    same_dtype("x", "smoothScalesOptional"),
)
# One factor for each item of the last axis; with groups CANN looks at the rank of groupIndex alone.
_FACTORS = has_shape(smoothScalesOptional="x[-1:]")
_FACTORS_BY_MODE = when(
    "smoothScalesOptional is not None",
    when("groupIndexOptional is not None", rank(1, 1, "groupIndexOptional")),
    when(
        "groupIndexOptional is None",
        has_shape(smoothScalesOptional="(x[-2],) if quantMode == 'perchannel' else (x[-1],)"),
    ),
)
_FACTORS_OR_GROUPS = when(
    "smoothScalesOptional is not None",
    when("groupIndexOptional is not None", rank(1, 1, "groupIndexOptional")),
    when("groupIndexOptional is None", _FACTORS),
)
_GROUP_DTYPES = when("smoothScalesOptional is not None", dtypes("INT32 INT64", "groupIndexOptional"))

rule(
    "aclnnDynamicQuant",
    *_BEFORE,
    dtypes(_Y, "yOut"),
    dtypes("FLOAT", "scaleOut"),
    rank(2, 8, "x"),
    _FACTORS,
    output_shape(yOut=lambda call: packed("x", "yOut", "yOut")(call) if call.is_present("yOut") else call.shape("x")),
    output_shape(scaleOut=_scale_shape),
    output_dtype(yOut="INT8", scaleOut="FLOAT"),
)
rule(
    "aclnnDynamicQuantV2",
    *_BEFORE,
    _GROUP_DTYPES,
    dtypes(_Y, "yOut"),
    dtypes("FLOAT", "scaleOut", "offsetOut"),
    rank(2, 8, "x"),
    _FACTORS_OR_GROUPS,
    output_shape(yOut=packed("x", "yOut"), scaleOut=_scale_shape, offsetOut=_scale_shape),
    output_dtype(yOut=dtype_attribute("dstType"), scaleOut="FLOAT", offsetOut="FLOAT"),
    nullable="offsetOut",
)
rule(
    "aclnnDynamicQuantV3 aclnnDynamicQuantV4",
    with_status(INNER_ERROR, only_products("950")),
    required("x", "quantMode", "yOut", "scaleOut"),
    when("isSymmetrical", absent("offsetOut", why="as isSymmetrical is True")),
    when("not isSymmetrical", required("offsetOut", status=PARAM_INVALID)),
    one_of("quantMode", "pertensor", "pertoken", "perchannel"),
    when("quantMode == 'perchannel'", absent("groupIndexOptional", why="with perchannel")),
    *_BEFORE,
    _GROUP_DTYPES,
    dtypes(_Y, "yOut"),
    dtypes("FLOAT", "scaleOut", "offsetOut"),
    rank(2, 8, "x"),
    _FACTORS_BY_MODE,
    output_shape(
        yOut=packed("x", "yOut"),
        scaleOut=_scale_shape,
        offsetOut=lambda call: None if call["isSymmetrical"] else _scale_shape(call),
    ),
    output_dtype(yOut=dtype_attribute("dstType"), scaleOut="FLOAT", offsetOut="FLOAT"),
    nullable="x quantMode yOut scaleOut offsetOut",
)

# --------------------------------------------------------------------------------------------------- behind a gate


def _halved(call: Call) -> Shape:
    """x with half of the gated axis, the last one unless ``activateDim`` says otherwise."""
    rank(2, 8, "x")(call)
    sizes = list(call.shape("x"))
    axis = call["activateDim"] if "activateDim" in call.operator.positions else -1
    call.require(-len(sizes) <= axis < len(sizes), "activateDim", f"is {axis}; it must be an axis of x")
    even = sizes[axis] % 2 == 0
    call.require(even, "x", f"has shape {tuple(sizes)}; its axis {axis} must be even")
    sizes[axis] //= 2
    return tuple(sizes)


def _rows(call: Call) -> Shape:
    rank(2, 8, "x")(call)
    return call.shape("x")[:-1]


def _one_of_shapes(call: Call, name: str, *allowed: Shape) -> None:
    if call.is_present(name) and call.shape(name) not in allowed:
        wanted = " or ".join(map(str, dict.fromkeys(allowed)))
        call.refuse(name, f"has shape {call.shape(name)}; it must be {wanted}")


def _by_group(call: Call, name: str, groups: int, columns: int, each: bool) -> None:
    """A row of parameters for each group (of one group also without its axis), with ``each`` also one number for each."""
    one: tuple[Shape, ...] = ((columns,),) if groups == 1 else ()
    _one_of_shapes(call, name, *(((groups,),) if each else ()), *one, (groups, columns))


def _group_count(call: Call, *ranks: int) -> int:
    """How many groups groupIndex lists, 1 without it."""
    if not call.is_present("groupIndexOptional"):
        return 1
    sizes = call.shape("groupIndexOptional")
    text = f"has shape {sizes}; it must be {' or '.join('(n,)' if n == 1 else '(n, 2)' for n in ranks)} with n > 0"
    fits = len(sizes) in ranks and sizes[0] > 0 and sizes[1:] in ((), (2,))
    call.require(fits, "groupIndexOptional", text)
    return sizes[0]


def _dequant_parameters(call: Call) -> None:
    """Scales and bias of the columns of x, scales of its rows, scales and offsets of the columns of y."""
    groups = _group_count(call, 1, 2)
    x, y = call.shape("x"), _halved(call)
    for name in ("weightScaleOptional", "biasOptional"):
        _by_group(call, name, groups, x[-1], each=False)
    rows = math.prod(x[:-1])
    if call.is_present("activationScaleOptional"):
        size = call["activationScaleOptional"].size
        text = f"has {size} elements; it must have {rows}, one for each row of x"
        call.require(size == rows, "activationScaleOptional", text)
    for name in ("quantScaleOptional", "quantOffsetOptional"):
        _by_group(call, name, groups, y[-1], each=True)


def _gate_parameters(call: Call) -> None:
    groups, y = _group_count(call, 1), _halved(call)
    for name in ("smoothScalesOptional", "offsetsOptional"):
        _by_group(call, name, groups, y[-1], each=True)


rule(
    "aclnnDequantSwigluQuant",
    documented_products,
    documented_dtypes(),
    tiling(
        output_shape(yOut=_halved, scaleOut=_rows),
        one_of("quantModeOptional", "static", "dynamic"),
        _dequant_parameters,
    ),
    output_dtype(yOut="INT8", scaleOut="FLOAT"),
)
rule(
    "aclnnDequantSwigluQuantV2",
    documented_products,
    documented_dtypes(),
    tiling(
        output_shape(yOut=_halved, scaleOut=lambda call: _halved(call)[:-1]),
        one_of("quantModeOptional", "static", "dynamic"),
        one_of("swigluMode", 0, 1),
        _dequant_parameters,
    ),
    output_dtype(yOut=dtype_attribute("dstType"), scaleOut="FLOAT"),
)


# INT8 x is scaled by columns, INT32 x by columns (of each group) and rows, 16-bit x not at all.
_SITU_PARAMETERS = (
    require("beta != 0", "x.size > 0"),
    when(
        "x.dtype == INT8",
        required("weightScaleOptional", status=PARAM_INVALID),
        absent("activationScaleOptional", "groupIndexOptional", why="with INT8 x"),
        require("weightScaleOptional in (x[-1:], (1,))", "biasOptional in (x[-1:], (1,))"),
        require("quantScaleOptional in (y[-1:], (1,))", "quantOffsetOptional in (y[-1:], (1,))"),
        when("quantTypeOptional == 'static'", required("quantScaleOptional", status=PARAM_INVALID)),
    ),
    when("x.dtype != INT8", rank(2, 2, "x")),
    when(
        "x.dtype == INT32",
        required("weightScaleOptional", "activationScaleOptional", status=PARAM_INVALID),
        absent("quantScaleOptional", "quantOffsetOptional", why="with INT32 x"),
        one_of("quantTypeOptional", "dynamic"),
        when(
            "groupIndexOptional is None",
            require("weightScaleOptional in (x[-1:], (1, x[-1]))", "biasOptional in (x[-1:], (1, x[-1]))"),
        ),
        when(
            "groupIndexOptional is not None",
            require("len(groupIndexOptional) == 1", "groupIndexOptional[0] > 0"),
            has_shape(
                weightScaleOptional="(groupIndexOptional[0], x[-1])", biasOptional="(groupIndexOptional[0], x[-1])"
            ),
        ),
        require("activationScaleOptional in ((x[0],), (x[0], 1))"),
    ),
)

rule(
    "aclnnDequantSituQuant",
    documented_products,
    documented_dtypes(),
    tiling(
        output_shape(
            yOut=_halved,
            yScaleOut=lambda call: _rows(call) if call.dtype("x") is DataType.INT8 else call.shape("x")[:1],
        ),
        one_of("quantTypeOptional", "static", "dynamic"),
        define(y="yOut"),
        *_SITU_PARAMETERS,
    ),
    output_dtype(yOut="INT8", yScaleOut="FLOAT"),
)
rule(
    "aclnnSwiGluQuant aclnnSwiGluQuantV2",
    documented_products,
    documented_dtypes(),
    tiling(
        output_shape(yOut=_halved, scaleOut=_rows),
        one_of("quantModeOptional", "static", "dynamic", "dynamic_msd"),
        _gate_parameters,
    ),
    on_operators("aclnnSwiGluQuant", output_dtype(yOut="INT8")),
    on_operators("aclnnSwiGluQuantV2", output_dtype(yOut=dtype_attribute("dstType"))),
    output_dtype(scaleOut="FLOAT"),
)

rule(
    "aclnnSwigluGroupGrad",
    when("weightOptional is not None", required("gradWeightOutOptional")),
    together("yOriginOptional", "weightOptional"),
    not_negative("clampLimit"),
    dtypes("FLOAT16 FLOAT BF16", "gradY", "x"),
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
    output_dtype(gradWeightOutOptional="FLOAT"),
)
