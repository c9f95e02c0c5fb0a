"""Rules of quantising in blocks with shared exponents, on Ascend 950.

The MX formats have an 8-bit exponent for each 32 items of an axis; exponents lie in pairs, so an axis of n items has
ceil(n / 64) pairs.
"""

from __future__ import annotations

from typing import Callable

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import *

OneShape = Callable[[Call], Shape]  # of one tensor
_FP4 = (DataType.FLOAT4_E2M1, DataType.FLOAT4_E1M2)


def _pairs(count: int, block: int = 32) -> int:
    return -(-count // (2 * block))


def mx_scale(x: str | OneShape, axis: int | str, ranks: tuple[int, int] = (1, 7), block: str = "") -> OneShape:
    """The shape of the exponents of x's blocks along an axis (a number, or an attribute's name)."""

    def rule_(call: Call) -> Shape:
        sizes = list(call.shape(x) if isinstance(x, str) else x(call))
        low, high = ranks
        call.require(low <= len(sizes) <= high, "x", f"has rank {len(sizes)}; it must be between {low} and {high}")
        where = call[axis] if isinstance(axis, str) else axis
        name = axis if isinstance(axis, str) else "x"
        call.require(-len(sizes) <= where < len(sizes), name, f"is {where}; it must be an axis of x")
        size = call[block] if block else 32
        text = f"is {size}; it must be a multiple of 32 from 32 to 1024"
        call.require(0 < size <= 1024 and size % 32 == 0, block or "x", text)
        sizes[where] = _pairs(sizes[where], size)
        return (*sizes, 2)

    return rule_


def _mx_modes(dst: str = "dstType", allowed: tuple[int, ...] = (35, 36, 40, 41)) -> Check:
    """Rounding to 8 bits is to nearest even; to 4 bits also away from zero, or down."""

    def check(call: Call) -> None:
        one_of(dst, *allowed)(call)
        name = next((n for n in ("roundModeOptional", "roundMode") if n in call.operator.positions), "")
        if name:
            modes = ("rint", "round", "floor") if dtype_attribute(dst)(call) in _FP4 else ("rint",)
            one_of(name, *modes)(call)

    return check


def _algorithms(
    float8: tuple[int, ...], e2m1: tuple[int, ...], e1m2: tuple[int, ...] = (0,), dst: str = "dstType"
) -> Check:
    """scaleAlg fits the data type of elements: 0 takes the exponent of the largest, 1 and 2 round it up."""

    def check(call: Call) -> None:
        kind = dtype_attribute(dst)(call)
        allowed = {DataType.FLOAT4_E2M1: e2m1, DataType.FLOAT4_E1M2: e1m2}.get(kind, float8)
        text = f"is {call['scaleAlg']}; for {kind.name} it must be {' or '.join(map(str, allowed))}"
        call.require(call["scaleAlg"] in allowed, "scaleAlg", text)

    return check


def _type_max(call: Call) -> None:
    """What stands for the largest FLOAT4_E2M1: 0 (6 itself), or a number from 6 to 12."""
    most = call["dstTypeMax"]
    call.require(most == 0 or 6 <= most <= 12, "dstTypeMax", f"is {most}; it must be 0, or in [6, 12]")


def _low_bound(call: Call) -> None:
    bound = call["maxLowBound"]
    call.require(bound >= 0, "maxLowBound", f"is {bound}; it must not be negative")
    text = f"is {bound}; with scale_alg {call['scaleAlg']} it must be 0"
    call.require(bound == 0 or call["scaleAlg"] == 1, "maxLowBound", text)


def _even(name: str) -> Check:
    """The last axis of a tensor is even where two elements share a byte."""

    def check(call: Call) -> None:
        sizes = call.shape(name)
        if call.dtype(name) in _FP4:
            text = f"has shape {sizes}; with {call.dtype(name).name} its last axis must be even"
            call.require(len(sizes) > 0 and sizes[-1] % 2 == 0, name, text)

    return check


def _float_blocks(call: Call) -> None:
    """FLOAT comes in blocks of 32, at least one; scaleAlg 2 knows blocks of 32 only."""
    if call.dtype("x") is DataType.FLOAT:
        count = call.shape("x")[call["axis"]]
        call.require(count >= 32, "x", f"has {count} elements along axis {call['axis']}; with FLOAT it must have 32")
    if call.dtype("x") is DataType.FLOAT or call["scaleAlg"] == 2:
        one_of("blocksize", 32)(call)


def _filled(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            call.require(not call.is_empty(name), name, f"is empty (shape {call.shape(name)})")

    return check


def _groups(call: Call) -> None:
    """With groups of rows, x is a matrix."""
    if call.is_present("groupIndexOptional"):
        rank(1, 1, "groupIndexOptional")(call)
        rank(2, 2, "x")(call)
        _filled("groupIndexOptional")(call)


def _mx(
    name: str,
    *checks: Check,
    dst: str = "dstType",
    ys: str = "yOut",
    scales: str = "mxscaleOut",
    dtypes_to: tuple[int, ...] = (35, 36, 40, 41),
) -> None:
    """An operator of Ascend 950 whose outputs are quantised values and exponents."""
    exponents = dict.fromkeys(scales.split(), "FLOAT8_E8M0")
    values = {y: dtype_attribute(dst) for y in ys.split()}
    rule(
        name,
        documented_products,
        documented_dtypes(),
        tiling(*checks, _mx_modes(dst, dtypes_to), *(has_dtype(y, dtype_attribute(dst)) for y in values)),
        output_dtype(**values),
        output_dtype(**exponents),
    )


for _name, _more in (
    ("aclnnDynamicMxQuant", (_algorithms((0, 1), (0,)),)),
    ("aclnnDynamicMxQuantV2", (_algorithms((0, 1), (0, 2)), _type_max)),
    ("aclnnDynamicMxQuantV3", (_algorithms((0, 1), (0, 2)), _type_max, _low_bound)),
):
    _mx(
        _name,
        output_shape(yOut=shape_of("x"), mxscaleOut=mx_scale("x", "axis", block="blocksize")),
        *_more,
        _even("yOut"),
        _float_blocks,
    )
for _name, _more in (
    ("aclnnDynamicMxQuantWithDualAxis", (_algorithms((0, 1), (0,)),)),
    ("aclnnDynamicMxQuantWithDualAxisV2", (_algorithms((0, 1), (0, 2)), _type_max)),
):
    _mx(
        _name,
        *_more,
        output_shape(
            y1Out=shape_of("x"),
            mxscale1Out=mx_scale("x", -1, (2, 7)),
            y2Out=shape_of("x"),
            mxscale2Out=mx_scale("x", -2, (2, 7)),
        ),
        _even("y1Out"),
        ys="y1Out y2Out",
        scales="mxscale1Out mxscale2Out",
    )
_mx(
    "aclnnDynamicBlockMxQuant",
    output_shape(yOut=shape_of("x"), scale1Out=mx_scale("x", -1, (2, 3)), scale2Out=mx_scale("x", -2, (2, 3))),
    _algorithms((0,), (0, 2)),
    one_of("dstTypeMax", 0, 6, 7),
    _filled("x"),
    _even("yOut"),
    scales="scale1Out scale2Out",
)


def _mx_input(call: Call) -> None:
    """Elements of 4 bits in whole pairs of blocks of rows, with a scale for each 32 of a row."""
    wanted, sizes = mx_scale("x", -1, (2, 3))(call), call.shape("x")
    call.require(call.shape("mxscale") == wanted, "mxscale", f"has shape {call.shape('mxscale')}; it must be {wanted}")
    fits = sizes[-2] % 64 == 0 and sizes[-1] % 2 == 0 and 0 not in sizes
    text = f"has shape {sizes}; its axis -2 must be a multiple of 64 and its last one even, and it must not be empty"
    call.require(fits, "x", text)
    contiguous("x")(call)


_mx(
    "aclnnMxToBlockMxQuant",
    _mx_input,
    output_shape(y=shape_of("x"), scale1=mx_scale("x", -1, (2, 3)), scale2=mx_scale("x", -2, (2, 3))),
    ys="y",
    scales="scale1 scale2",
    dtypes_to=(35, 36),
)


def _level0(call: Call) -> Shape:
    rank(1, 7, "x")(call)
    one_of("level0BlockSize", 512)(call)
    sizes = call.shape("x")
    return (*sizes[:-1], -(-sizes[-1] // 512))


def _smooth_columns(call: Call) -> None:
    same_dtype("x", "smoothScaleOptional")(call)
    if call.is_present("smoothScaleOptional"):
        got, wanted = call.shape("smoothScaleOptional"), call.shape("x")[-1:]
        call.require(got == wanted, "smoothScaleOptional", f"has shape {got}; it must be {wanted}")


rule(
    "aclnnDynamicDualLevelMxQuant",
    documented_products,
    documented_dtypes(),
    tiling(
        one_of("level1BlockSize", 32),
        output_shape(yOut=shape_of("x"), level0ScaleOut=_level0, level1ScaleOut=mx_scale("x", -1)),
        _smooth_columns,
        _even("yOut"),
        one_of("roundModeOptional", "rint", "round", "floor"),
    ),
    output_dtype(yOut="FLOAT4_E2M1", level0ScaleOut="FLOAT", level1ScaleOut="FLOAT8_E8M0"),
)

# --------------------------------------------------------------------------------------------------- groups of rows


def _on_950(call: Call) -> None:
    call.require(call.product == "950", None, f"the operator is not supported on {call.soc.name}; it is on 950")


def _row_groups(call: Call) -> Shape:
    """Exponents along the rows: each group may leave a part of a pair."""
    rank(2, 2, "x")(call)
    rank(1, 1, "groupIndex")(call)
    rows, columns_ = call.shape("x")
    return rows // 64 + call.shape("groupIndex")[0], columns_, 2


def _groups_there(call: Call) -> None:
    call.require(call["groupIndex"].size > 0, "groupIndex", "is empty")


def _whole(call: Call) -> None:
    """4-bit values, and exponents, are stored in order."""
    if call["x"].size:
        contiguous("mxscale", *(("y",) if call.dtype("y") in _FP4 else ()))(call)


def _group_type_max(call: Call) -> None:
    most, least = call["dstTypeMax"], {DataType.FLOAT4_E2M1: 6.0, DataType.FLOAT4_E1M2: 1.75}.get(call.dtype("y"), 0.0)
    text = f"is {most}; for {call.dtype('y').name} it must be 0" + (f", or in [{least}, {2 * least}]" if least else "")
    call.require(most == 0 or least <= most <= 2 * least, "dstTypeMax", text)


_grouped: tuple[tuple[str, str, tuple[str, ...], tuple[Check, ...]], ...] = (
    ("aclnnGroupedDynamicMxQuant", "FLOAT8_E4M3FN FLOAT8_E5M2", ("rint",), ()),
    (
        "aclnnGroupedDynamicMxQuantV2",
        "FLOAT8_E4M3FN FLOAT8_E5M2 FLOAT4_E2M1 FLOAT4_E1M2",
        ("rint", "round", "floor"),
        (_algorithms((0, 1), (0, 2), (0, 2)), _group_type_max),
    ),
)
for _name, _small, _modes, _checks in _grouped:
    rule(
        _name,
        _on_950,
        dtypes("FLOAT16 BF16", "x"),
        dtypes("INT32", "groupIndex"),
        dtypes(_small, "y"),
        dtypes("FLOAT8_E8M0", "mxscale"),
        one_of("roundMode", *_modes),
        one_of("blocksize", 32),
        *_checks,
        has_dtype("y", dtype_attribute("dstType")),
        output_shape(y=shape_of("x"), mxscale=_row_groups),
        _groups_there,
        _whole,
        output_dtype(y=dtype_attribute("dstType"), mxscale="FLOAT8_E8M0"),
    )


def _sixty_fours(call: Call) -> None:
    """The columns of x are whole pairs of blocks."""
    last = call.size("x", -1)
    call.require(last > 0 and last % 64 == 0, "x", f"has {last} columns; they must be a positive multiple of 64")


_mx(
    "aclnnGroupedDynamicMxQuantWithDualAxis",
    one_of("scaleAlg", 1),
    one_of("maxDtypeValue", 0),
    _sixty_fours,
    output_shape(
        y1Out=shape_of("x"), y1ScaleOut=mx_scale("x", -1, (2, 2)), y2Out=shape_of("x"), y2ScaleOut=_row_groups
    ),
    dst="dstDtype",
    ys="y1Out y2Out",
    scales="y1ScaleOut y2ScaleOut",
    dtypes_to=(35, 36),
)

# --------------------------------------------------------------------------------------------------- back


def _anti_mx_shapes(call: Call) -> None:
    ndim = len(call.shape("x"))
    rank(ndim, ndim, "y")(call)
    rank(0, 7, "x")(call)
    rank(max(2, ndim + 1), ndim + 1, "mxscale")(call)
    call.require(-ndim <= call["axis"] < ndim, "axis", f"is {call['axis']}; it must be an axis of x, of rank {ndim}")
    wanted = mx_scale("x", "axis")(call)
    call.require(call.shape("mxscale") == wanted, "mxscale", f"has shape {call.shape('mxscale')}; it must be {wanted}")


rule(
    "aclnnAntiMxQuant",
    dtypes("FLOAT4_E2M1 FLOAT4_E1M2 FLOAT8_E5M2 FLOAT8_E4M3FN", "x"),
    dtypes("FLOAT8_E8M0", "mxscale"),
    dtypes("FLOAT16 BF16 FLOAT", "y"),
    has_dtype("y", dtype_attribute("dstType")),
    _anti_mx_shapes,
    infer_shape(y=shape_of("x")),
    when(lambda call: call["x"].size > 0 and call.dtype("x") in _FP4, contiguous("x")),
    documented_products,
    output_dtype(y=dtype_attribute("dstType")),
)

# --------------------------------------------------------------------------------------------------- behind a gate


def _half(axis: int | str) -> OneShape:
    """x with half of an axis."""

    def rule_(call: Call) -> Shape:
        sizes = list(call.shape("x"))
        where = call[axis] if isinstance(axis, str) else axis
        name = axis if isinstance(axis, str) else "x"
        call.require(-len(sizes) <= where < len(sizes), name, f"has no axis {where} (shape {tuple(sizes)})")
        call.require(sizes[where] % 2 == 0, "x", f"has shape {tuple(sizes)}; its axis {where} must be even")
        sizes[where] //= 2
        return tuple(sizes)

    return rule_


def _grouped_rows(y: OneShape) -> OneShape:
    """Exponents along the rows of y: with groups, each of them may leave a part of a pair."""

    def rule_(call: Call) -> Shape:
        sizes = list(y(call))
        call.require(len(sizes) >= 2, "x", f"has rank {len(sizes)}; it must be at least 2")
        if call.is_present("groupIndexOptional"):
            sizes[-2] = sizes[-2] // 64 + call.size("groupIndexOptional", 0)
        else:
            sizes[-2] = _pairs(sizes[-2])
        return (*sizes, 2)

    return rule_


def _gated_scale(call: Call) -> Shape:
    y = _half("activateDim")
    if call["axis"] == len(call.shape("x")) - 2 or call["axis"] == -2:
        return _grouped_rows(y)(call)
    return mx_scale(y, "axis")(call)


def _beta(call: Call) -> None:
    call.require(call["beta"] != 0, "beta", "is 0; it must be another number")


def _gate(call: Call) -> None:
    """A gate along one of the last two axes; the clamped one (swigluMode 1) along the last."""
    ndim = len(call.shape("x"))
    for name in ("activateDim", "axis"):
        one_of(name, -1, -2, ndim - 1, ndim - 2)(call)
    one_of("swigluMode", 0, 1)(call)
    if call["swigluMode"] == 1:
        one_of("activateDim", -1, ndim - 1)(call)
        call.require(call["clampLimit"] > 0, "clampLimit", f"is {call['clampLimit']}; it must be positive")
    if call.is_present("groupIndexOptional"):
        rank(1, 1, "groupIndexOptional")(call)
        count = call.shape("groupIndexOptional")[0]
        call.require(0 < count <= 256, "groupIndexOptional", f"has {count} groups; it must have from 1 to 256")
        if {call["activateDim"], call["axis"]} - {-1, ndim - 1}:
            rank(2, 2, "x")(call)


_mx(
    "aclnnSituMxQuant",
    _beta,
    rank(1, 8, "x"),
    one_of("axis", -1),
    _filled("x"),
    output_shape(yOut=_half(-1), yScaleOut=mx_scale(_half(-1), "axis", (1, 8))),
    scales="yScaleOut",
    dtypes_to=(35, 36),
)
_mx(
    "aclnnSwigluMxQuant",
    rank(2, 7, "x"),
    _gate,
    _algorithms((0, 1), (0,)),
    output_shape(yOut=_half("activateDim"), mxscaleOut=_gated_scale),
    _even("yOut"),
)
_mx(
    "aclnnSwigluMxQuantWithDualAxis",
    rank(2, 2, "x"),
    _filled("x"),
    _groups,
    _algorithms((0, 1), (0,)),
    one_of("maxDtypeValue", 0),
    output_shape(
        y1Out=_half(-1),
        mxscale1Out=mx_scale(_half(-1), -1),
        y2Out=_half(-1),
        mxscale2Out=_grouped_rows(_half(-1)),
    ),
    _even("y1Out"),
    ys="y1Out y2Out",
    scales="mxscale1Out mxscale2Out",
)


def _gradient_of_half(call: Call) -> None:
    got, wanted = call.shape("yGrad"), _half(-1)(call)
    call.require(got == wanted, "yGrad", f"has shape {got}; it must be {wanted}")


_mx(
    "aclnnSwigluBackwardMxQuantWithDualAxis",
    same_dtype("x", "yGrad"),
    rank(2, 6, "x"),
    _filled("x"),
    _groups,
    _sixty_fours,
    one_of("scaleAlg", 1),
    one_of("activateLeft", True),
    one_of("maxDtypeValue", 0),
    _gradient_of_half,
    output_shape(
        y1Out=shape_of("x"),
        mxscale1Out=mx_scale("x", -1),
        y2Out=shape_of("x"),
        mxscale2Out=_grouped_rows(shape_of("x")),
    ),
    dst="dstDtype",
    ys="y1Out y2Out",
    scales="mxscale1Out mxscale2Out",
    dtypes_to=(36,),
)
