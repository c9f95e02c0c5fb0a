"""Rules of quantising with scales that the operator finds itself."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_ERROR, PARAM_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    documented_dtypes,
    documented_products,
    dtype_attribute,
    dtypes,
    infer_shape,
    one_of,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    same_shape,
    shape_of,
    tiling,
)
from ascend_aclnn.rules.quant.static import packed

# --------------------------------------------------------------------------------------------------- DynamicQuant


def _mode(call: Call) -> str:
    return str(call["quantMode"]) if "quantMode" in call.operator.positions else "pertoken"


def _scale_shape(call: Call) -> Shape:
    """One scale for each row, for each item of the last axis, or for the tensor."""
    rank(2, 8, "x")(call)
    sizes = call.shape("x")
    return {"pertoken": sizes[:-1], "perchannel": (*sizes[:-2], sizes[-1])}.get(_mode(call), (1,))


def _smooth(call: Call) -> None:
    """One factor for each item of the last axis (or of the groups' rows)."""
    if not call.is_present("smoothScalesOptional"):
        return
    name = "smoothScalesOptional"
    if "groupIndexOptional" in call.operator.positions and call.is_present("groupIndexOptional"):
        rank(1, 1, "groupIndexOptional")(call)
        return
    wanted = (call.shape("x")[-2 if _mode(call) == "perchannel" else -1],)
    call.require(call.shape(name) == wanted, name, f"has shape {call.shape(name)}; it must be {wanted}")


def _quant_mode(call: Call) -> None:
    symmetric = bool(call["isSymmetrical"])
    wanted = "must be None" if symmetric else "is None; it is required"
    call.require(
        call.is_present("offsetOut") is not symmetric, "offsetOut", f"{wanted} where is_symmetrical is {symmetric}"
    )
    one_of("quantMode", "pertensor", "pertoken", "perchannel")(call)
    if call["quantMode"] == "perchannel":
        call.require(not call.is_present("groupIndexOptional"), "groupIndexOptional", "must be None with perchannel")


def _only_950(call: Call) -> None:
    """Looked at before null pointers are."""
    call.require(call.product == "950", None, f"the operator is not implemented on {call.soc.name}", INNER_ERROR)
    for name in ("x", "quantMode", "yOut", "scaleOut"):
        call.require(call.is_present(name), name, "is None (a null pointer); it is required", PARAM_NULLPTR)


def _group_dtypes(call: Call) -> None:
    if call.is_present("smoothScalesOptional"):
        dtypes("INT32 INT64", "groupIndexOptional")(call)


_X = {"A2 A3 950": "FLOAT16 BF16", "310P 910": "FLOAT16"}
_Y = {"A2 A3": "INT4 INT8 INT32", "310P 910": "INT8", "950": "INT4 INT8 INT32 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN"}
_BEFORE: tuple[Check, ...] = (
    dtypes(_X, "x", "smoothScalesOptional"),
    same_dtype("x", "smoothScalesOptional"),
)
_AFTER: tuple[Check, ...] = (
    rank(2, 8, "x"),
    _smooth,
)

rule(
    "aclnnDynamicQuant",
    *_BEFORE,
    dtypes(_Y, "yOut"),
    dtypes("FLOAT", "scaleOut"),
    *_AFTER,
    output_shape(yOut=lambda call: packed("x", "yOut", "yOut")(call) if call.is_present("yOut") else call.shape("x")),
    output_shape(scaleOut=_scale_shape),
    output_dtype(yOut="INT8", scaleOut="FLOAT"),
)
rule(
    "aclnnDynamicQuantV2",
    *_BEFORE,
    _group_dtypes,
    dtypes(_Y, "yOut"),
    dtypes("FLOAT", "scaleOut", "offsetOut"),
    *_AFTER,
    output_shape(yOut=packed("x", "yOut"), scaleOut=_scale_shape, offsetOut=_scale_shape),
    output_dtype(yOut=dtype_attribute("dstType"), scaleOut="FLOAT", offsetOut="FLOAT"),
    nullable="offsetOut",
)
for _name in ("aclnnDynamicQuantV3", "aclnnDynamicQuantV4"):
    rule(
        _name,
        _only_950,
        _quant_mode,
        *_BEFORE,
        _group_dtypes,
        dtypes(_Y, "yOut"),
        dtypes("FLOAT", "scaleOut", "offsetOut"),
        *_AFTER,
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


def _situ_parameters(call: Call) -> None:
    """INT8 x is scaled by columns, INT32 x by columns (of each group) and rows, 16-bit x not at all."""
    kind, x, y = call.dtype("x"), call.shape("x"), _halved(call)
    call.require(call["beta"] != 0, "beta", "is 0; it must be another number")
    call.require(not call.is_empty("x"), "x", f"is empty (shape {x})")
    if kind is DataType.INT8:
        _given(call, "weightScaleOptional")
        for name in ("activationScaleOptional", "groupIndexOptional"):
            _absent(call, name, kind)
        for name, count in (
            ("weightScaleOptional", x[-1]),
            ("biasOptional", x[-1]),
            ("quantScaleOptional", y[-1]),
            ("quantOffsetOptional", y[-1]),
        ):
            _one_of_shapes(call, name, (count,), (1,))
        if call["quantTypeOptional"] == "static":
            _given(call, "quantScaleOptional")
        return
    rank(2, 2, "x")(call)
    if kind is DataType.INT32:
        for name in ("weightScaleOptional", "activationScaleOptional"):
            _given(call, name)
        for name in ("quantScaleOptional", "quantOffsetOptional"):
            _absent(call, name, kind)
        one_of("quantTypeOptional", "dynamic")(call)
        groups = _group_count(call, 1)
        single = () if call.is_present("groupIndexOptional") else ((x[-1],),)
        for name in ("weightScaleOptional", "biasOptional"):
            _one_of_shapes(call, name, *single, (groups, x[-1]))
        _one_of_shapes(call, "activationScaleOptional", (x[0],), (x[0], 1))


def _given(call: Call, name: str) -> None:
    call.require(call.is_present(name), name, f"is None; with {call.dtype('x').name} x it is required")


def _absent(call: Call, name: str, kind: DataType) -> None:
    call.require(not call.is_present(name), name, f"is given; with {kind.name} x it must be None")


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
        _situ_parameters,
    ),
    output_dtype(yOut="INT8", yScaleOut="FLOAT"),
)
for _name in ("aclnnSwiGluQuant", "aclnnSwiGluQuantV2"):
    rule(
        _name,
        documented_products,
        documented_dtypes(),
        tiling(
            output_shape(yOut=_halved, scaleOut=_rows),
            one_of("quantModeOptional", "static", "dynamic", "dynamic_msd"),
            _gate_parameters,
        ),
        output_dtype(
            yOut=dtype_attribute("dstType") if _name.endswith("V2") else "INT8",
            scaleOut="FLOAT",
        ),
    )


def _both_or_none(call: Call) -> None:
    both = call.is_present("weightOptional") is call.is_present("yOriginOptional")
    call.require(both, "yOriginOptional", "and weight_optional must both be given, or neither")
    call.require(call["clampLimit"] >= 0, "clampLimit", f"is {call['clampLimit']}; it must not be negative")


def _gate_gradient(call: Call) -> None:
    rank(2, 3, "gradY")(call)
    sizes = call.shape("gradY")
    wanted = (*sizes[:-1], sizes[-1] * 2)
    call.require(call.shape("x") == wanted, "x", f"has shape {call.shape('x')}; it must be {wanted}")
    call.require(sizes[-1] > 0, "gradY", f"has shape {sizes}; its last axis must not be empty")
    same_shape("x", "gradXOut")(call)
    if call.is_present("weightOptional"):
        rows = math.prod(sizes[:-1])
        got = call["weightOptional"].size
        call.require(got == rows, "weightOptional", f"has {got} elements; it must have {rows}, one for each row")
        same_shape("weightOptional", "gradWeightOutOptional")(call)
    same_shape("gradY", "yOriginOptional")(call)
    if call.is_present("groupIndexOptional"):
        groups = call.shape("groupIndexOptional")
        call.require(len(groups) == 1 and groups[0] > 0, "groupIndexOptional", f"has shape {groups}; it must be (n,)")


def _weight_gradient(call: Call) -> None:
    missing = call.is_present("weightOptional") and not call.is_present("gradWeightOutOptional")
    call.require(not missing, "gradWeightOutOptional", "is None (a null pointer); it is required", PARAM_NULLPTR)


rule(
    "aclnnSwigluGroupGrad",
    _weight_gradient,
    _both_or_none,
    dtypes("FLOAT16 FLOAT BF16", "gradY", "x"),
    same_dtype("gradY", "x", "gradXOut", "yOriginOptional"),
    dtypes("FLOAT", "weightOptional", "gradWeightOutOptional"),
    dtypes("INT64", "groupIndexOptional"),
    _gate_gradient,
    infer_shape(
        gradXOut=shape_of("x"),
        gradWeightOutOptional=lambda call: call.shape("weightOptional") if call.is_present("weightOptional") else None,
    ),
    output_dtype(gradWeightOutOptional="FLOAT"),
)
