"""Rules of quantising in blocks that share a scale, most of them on Ascend 950 only.

The MX formats have an 8-bit exponent for each 32 items of an axis; exponents lie in pairs, so an axis of n items has
ceil(n / 64) pairs.
"""

from __future__ import annotations

from typing import Callable

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    contiguous,
    documented_dtypes,
    documented_products,
    dtype_attribute,
    dtypes,
    has_dtype,
    infer_shape,
    one_of,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    shape_of,
    tiling,
    when,
)

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
        sizes[where] = _pairs(sizes[where], call[block] if block else 32)
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


def _mx(name: str, *checks: Check, dst: str = "dstType", ys: str = "yOut", scales: str = "mxscaleOut") -> None:
    """An operator of Ascend 950 whose outputs are quantised values and exponents."""
    exponents = dict.fromkeys(scales.split(), "FLOAT8_E8M0")
    values = {y: dtype_attribute(dst) for y in ys.split()}
    rule(
        name,
        documented_products,
        documented_dtypes(),
        tiling(*checks, _mx_modes(dst), *(has_dtype(y, dtype_attribute(dst)) for y in values)),
        output_dtype(**values),
        output_dtype(**exponents),
    )


for _name in ("aclnnDynamicMxQuant", "aclnnDynamicMxQuantV2", "aclnnDynamicMxQuantV3"):
    _mx(_name, output_shape(yOut=shape_of("x"), mxscaleOut=mx_scale("x", "axis", block="blocksize")))
for _name in ("aclnnDynamicMxQuantWithDualAxis", "aclnnDynamicMxQuantWithDualAxisV2"):
    _mx(
        _name,
        output_shape(
            y1Out=shape_of("x"),
            mxscale1Out=mx_scale("x", -1, (2, 7)),
            y2Out=shape_of("x"),
            mxscale2Out=mx_scale("x", -2, (2, 7)),
        ),
        ys="y1Out y2Out",
        scales="mxscale1Out mxscale2Out",
    )
_mx(
    "aclnnDynamicBlockMxQuant",
    output_shape(yOut=shape_of("x"), scale1Out=mx_scale("x", -1, (2, 3)), scale2Out=mx_scale("x", -2, (2, 3))),
    scales="scale1Out scale2Out",
)
_mx(
    "aclnnMxToBlockMxQuant",
    output_shape(y=shape_of("x"), scale1=mx_scale("x", -1, (2, 3)), scale2=mx_scale("x", -2, (2, 3))),
    ys="y",
    scales="scale1 scale2",
)


def _level0(call: Call) -> Shape:
    rank(1, 7, "x")(call)
    one_of("level0BlockSize", 512)(call)
    sizes = call.shape("x")
    return (*sizes[:-1], -(-sizes[-1] // 512))


rule(
    "aclnnDynamicDualLevelMxQuant",
    documented_products,
    documented_dtypes(),
    tiling(
        one_of("level1BlockSize", 32),
        output_shape(yOut=shape_of("x"), level0ScaleOut=_level0, level1ScaleOut=mx_scale("x", -1)),
        one_of("roundModeOptional", "rint", "round", "floor"),
    ),
    output_dtype(yOut="FLOAT4_E2M1", level0ScaleOut="FLOAT", level1ScaleOut="FLOAT8_E8M0"),
)

# --------------------------------------------------------------------------------------------------- blocks of rows and columns


def _block_scale(call: Call) -> Shape:
    """One scale for each block of rows and columns; with a list of groups, each of them may leave a part of a block."""
    rank(2, 3, "x")(call)
    rows, columns_ = call["rowBlockSize"], call["colBlockSize"]
    for name, size in (("rowBlockSize", rows), ("colBlockSize", columns_)):
        call.require(size > 0, name, f"is {size}; it must be positive")
    *batch, m, n = call.shape("x", least=2)
    if "groupList" in call.operator.positions:
        return (*batch, m // rows + call.size("groupList", 0), -(-n // columns_))
    return (*batch, -(-m // rows), -(-n // columns_))


for _name in (
    "aclnnDynamicBlockQuant",
    "aclnnDynamicBlockQuantV2",
    "aclnnGroupedDynamicBlockQuant",
    "aclnnGroupedDynamicBlockQuantV2",
):
    rule(
        _name,
        documented_products,
        documented_dtypes(),
        tiling(output_shape(yOut=shape_of("x"), scaleOut=_block_scale), has_dtype("yOut", dtype_attribute("dstType"))),
        output_dtype(yOut=dtype_attribute("dstType"), scaleOut="FLOAT"),
    )

# --------------------------------------------------------------------------------------------------- groups of rows


def _on_950(call: Call) -> None:
    call.require(call.product == "950", None, f"the operator is not supported on {call.soc.name}; it is on 950")


def _row_groups(call: Call) -> Shape:
    """Exponents along the rows: each group may leave a part of a pair."""
    rank(2, 2, "x")(call)
    rank(1, 1, "groupIndex")(call)
    rows, columns_ = call.sizes("x", 2)
    return rows // 64 + call.shape("groupIndex")[0], columns_, 2


def _groups_there(call: Call) -> None:
    call.require(call["groupIndex"].size > 0, "groupIndex", "is empty")


def _whole(call: Call) -> None:
    """4-bit values, and exponents, are stored in order."""
    if call["x"].size:
        contiguous("mxscale", *(("y",) if call.dtype("y") in _FP4 else ()))(call)


for _name, _small, _modes, _algorithms in (
    ("aclnnGroupedDynamicMxQuant", "FLOAT8_E4M3FN FLOAT8_E5M2", ("rint",), ()),
    (
        "aclnnGroupedDynamicMxQuantV2",
        "FLOAT8_E4M3FN FLOAT8_E5M2 FLOAT4_E2M1 FLOAT4_E1M2",
        ("rint", "round", "floor"),
        (one_of("scaleAlg", 0, 1, 2),),
    ),
):
    rule(
        _name,
        _on_950,
        dtypes("FLOAT16 BF16", "x"),
        dtypes("INT32", "groupIndex"),
        dtypes(_small, "y"),
        dtypes("FLOAT8_E8M0", "mxscale"),
        one_of("roundMode", *_modes),
        one_of("blocksize", 32),
        *_algorithms,
        has_dtype("y", dtype_attribute("dstType")),
        output_shape(y=shape_of("x"), mxscale=_row_groups),
        _groups_there,
        _whole,
        output_dtype(y=dtype_attribute("dstType"), mxscale="FLOAT8_E8M0"),
    )

_mx(
    "aclnnGroupedDynamicMxQuantWithDualAxis",
    output_shape(
        y1Out=shape_of("x"), y1ScaleOut=mx_scale("x", -1, (2, 2)), y2Out=shape_of("x"), y2ScaleOut=_row_groups
    ),
    dst="dstDtype",
    ys="y1Out y2Out",
    scales="y1ScaleOut y2ScaleOut",
)

# --------------------------------------------------------------------------------------------------- back


def _anti_mx_shapes(call: Call) -> None:
    ndim = len(call.shape("x"))
    rank(ndim, ndim, "y")(call)
    rank(0, 7, "x")(call)
    rank(max(2, ndim + 1), ndim + 1, "mxscale")(call)
    call.require(-ndim <= call["axis"] < ndim, "axis", f"is {call['axis']}; it must be an axis of x, of rank {ndim}")


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


_mx("aclnnSituMxQuant", output_shape(yOut=_half(-1), yScaleOut=mx_scale(_half(-1), "axis")), scales="yScaleOut")
_mx("aclnnSwigluMxQuant", output_shape(yOut=_half("activateDim"), mxscaleOut=_gated_scale))
_mx(
    "aclnnSwigluMxQuantWithDualAxis",
    output_shape(
        y1Out=_half(-1),
        mxscale1Out=mx_scale(_half(-1), -1),
        y2Out=_half(-1),
        mxscale2Out=_grouped_rows(_half(-1)),
    ),
    ys="y1Out y2Out",
    scales="mxscale1Out mxscale2Out",
)
_mx(
    "aclnnSwigluBackwardMxQuantWithDualAxis",
    same_dtype("x", "yGrad"),
    output_shape(
        y1Out=shape_of("x"),
        mxscale1Out=mx_scale("x", -1),
        y2Out=shape_of("x"),
        mxscale2Out=_grouped_rows(shape_of("x")),
    ),
    dst="dstDtype",
    ys="y1Out y2Out",
    scales="mxscale1Out mxscale2Out",
)
