"""Rules of quantising in blocks with shared exponents, on Ascend 950.

The MX formats have an 8-bit exponent for each 32 items of an axis; exponents lie in pairs, so an axis of n items has
ceil(n / 64) pairs.
"""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_FLOAT8 = "FLOAT8_E4M3FN FLOAT8_E5M2"


def _exponents(x: str, axis: str = "-1", block: str = "32") -> str:
    """The shape of the exponents of a tensor's blocks along an axis."""
    return f"(*with_size({x}, {axis}, ceil_div({x}[{axis}], 2 * {block})), 2)"


def _exponents_of_rows(x: str, groups: str) -> str:
    """Exponents along the rows: with groups of rows, each of them may leave a part of a pair."""
    return f"(*with_size({x}, -2, ceil_div({x}[-2], 64) if {groups} is None else {x}[-2] // 64 + {groups}[0]), 2)"


def _modes(name: str, target: str) -> tuple[Check, ...]:
    """Rounding to 8 bits is to nearest even; to 4 bits also away from zero, or down."""
    return (
        when(f"{target} in FLOAT4S", one_of(name, "rint", "round", "floor")),
        when(f"{target} not in FLOAT4S", one_of(name, "rint")),
    )


def _algorithms(*e2m1: int, e1m2: tuple[int, ...] = (0,), float8: tuple[int, ...] = (0, 1)) -> tuple[Check, ...]:
    """scaleAlg fits the data type of elements: 0 takes the exponent of the largest, 1 and 2 round it up."""
    return (
        when("dstType == FLOAT4_E2M1", one_of("scaleAlg", *e2m1)),
        when("dstType == FLOAT4_E1M2", one_of("scaleAlg", *e1m2)),
        when("dstType not in FLOAT4S", one_of("scaleAlg", *float8)),
    )


def _even(name: str) -> Check:
    """The last axis of a tensor is even where two elements share a byte."""
    return when(f"{name}.dtype in FLOAT4S", require(f"len({name}) > 0", f"{name}[-1] % 2 == 0"))


def _mx(
    names: str,
    *checks: Check,
    dst: str = "dstType",
    ys: str = "yOut",
    scales: str = "mxscaleOut",
    targets: str = f"{_FLOAT8} {FLOAT4S}",
) -> None:
    """Operators of Ascend 950 whose outputs are quantised values and exponents."""
    rule(
        names,
        documented_products,
        documented_dtypes(),
        tiling(
            *checks,
            require(f"{dst} in ({', '.join(targets.split())},)"),
            *_modes("roundModeOptional", dst),
            *(has_dtype(y, dst) for y in ys.split()),
        ),
        output_dtype(**dict.fromkeys(scales.split(), "FLOAT8_E8M0")),
    )


# 0 stands for the largest FLOAT4_E2M1, 6.
_TYPE_MAX = require("dstTypeMax == 0 or 6 <= dstTypeMax <= 12")

_mx(
    "aclnnDynamicMxQuant aclnnDynamicMxQuantV2 aclnnDynamicMxQuantV3",
    rank(1, 7, "x"),
    require("0 < blocksize <= 1024", "blocksize % 32 == 0"),
    output_shape(yOut="x", mxscaleOut=_exponents("x", "axis", "blocksize")),
    on_operators("aclnnDynamicMxQuant", *_algorithms(0)),
    on_operators("aclnnDynamicMxQuantV2 aclnnDynamicMxQuantV3", *_algorithms(0, 2), _TYPE_MAX),
    not_negative("maxLowBound"),
    require("maxLowBound == 0 or scaleAlg == 1"),
    _even("yOut"),
    # FLOAT comes in blocks of 32, at least one; scaleAlg 2 knows blocks of 32 only.
    when("x.dtype == FLOAT", require("x[axis] >= 32")),
    when("x.dtype == FLOAT or scaleAlg == 2", one_of("blocksize", 32)),
)
_mx(
    "aclnnDynamicMxQuantWithDualAxis aclnnDynamicMxQuantWithDualAxisV2",
    on_operators("aclnnDynamicMxQuantWithDualAxis", *_algorithms(0)),
    on_operators("aclnnDynamicMxQuantWithDualAxisV2", *_algorithms(0, 2), _TYPE_MAX),
    rank(2, 7, "x"),
    output_shape(y1Out="x", mxscale1Out=_exponents("x"), y2Out="x", mxscale2Out=_exponents("x", "-2")),
    _even("y1Out"),
    ys="y1Out y2Out",
    scales="mxscale1Out mxscale2Out",
)
_mx(
    "aclnnDynamicBlockMxQuant",
    rank(2, 3, "x"),
    output_shape(yOut="x", scale1Out=_exponents("x"), scale2Out=_exponents("x", "-2")),
    *_algorithms(0, 2, float8=(0,)),
    one_of("dstTypeMax", 0, 6, 7),
    not_empty("x"),
    _even("yOut"),
    scales="scale1Out scale2Out",
)
_mx(
    "aclnnMxToBlockMxQuant",
    rank(2, 3, "x"),
    # Elements of 4 bits in whole pairs of blocks of rows, with a scale for each 32 of a row.
    has_shape(mxscale=_exponents("x")),
    require("x[-2] % 64 == 0", "x[-1] % 2 == 0"),
    not_empty("x"),
    contiguous("x"),
    output_shape(y="x", scale1=_exponents("x"), scale2=_exponents("x", "-2")),
    ys="y",
    scales="scale1 scale2",
    targets=_FLOAT8,
)
rule(
    "aclnnDynamicDualLevelMxQuant",
    documented_products,
    documented_dtypes(),
    tiling(
        one_of("level1BlockSize", 32),
        rank(1, 7, "x"),
        one_of("level0BlockSize", 512),
        output_shape(yOut="x", level0ScaleOut="with_size(x, -1, ceil_div(x[-1], 512))", level1ScaleOut=_exponents("x")),
        same_dtype("x", "smoothScaleOptional"),
        has_shape(smoothScaleOptional="x[-1:]"),
        _even("yOut"),
        one_of("roundModeOptional", "rint", "round", "floor"),
    ),
    output_dtype(yOut="FLOAT4_E2M1", level0ScaleOut="FLOAT", level1ScaleOut="FLOAT8_E8M0"),
)

# --------------------------------------------------------------------------------------------------- groups of rows

_V2 = "aclnnGroupedDynamicMxQuantV2"
rule(
    f"aclnnGroupedDynamicMxQuant {_V2}",
    only_products("950"),
    dtypes(HALVES, "x"),
    dtypes("INT32", "groupIndex"),
    on_operators("aclnnGroupedDynamicMxQuant", dtypes(_FLOAT8, "y")),
    on_operators(_V2, dtypes(f"{_FLOAT8} {FLOAT4S}", "y")),
    dtypes("FLOAT8_E8M0", "mxscale"),
    one_of("roundMode", "rint", "round", "floor"),
    on_operators("aclnnGroupedDynamicMxQuant", one_of("roundMode", "rint")),
    one_of("blocksize", 32),
    on_operators(
        _V2,
        *_algorithms(0, 2, e1m2=(0, 2)),
        # The largest number of the data type, and twice as much.
        define(least="6 if y.dtype == FLOAT4_E2M1 else 1.75 if y.dtype == FLOAT4_E1M2 else 0"),
        require("dstTypeMax == 0 or least <= dstTypeMax <= 2 * least"),
    ),
    has_dtype("y", "dstType"),
    rank(2, "x"),
    rank(1, "groupIndex"),
    output_shape(y="x", mxscale=_exponents_of_rows("x", "groupIndex")),
    not_empty("groupIndex"),
    # 4-bit values, and exponents, are stored in order.
    when("x.size > 0", contiguous("mxscale"), when("y.dtype in FLOAT4S", contiguous("y"))),
)
_mx(
    "aclnnGroupedDynamicMxQuantWithDualAxis",
    one_of("scaleAlg", 1),
    one_of("maxDtypeValue", 0),
    require("x[-1] > 0", "x[-1] % 64 == 0"),
    rank(2, "x"),
    rank(1, "groupIndex"),
    output_shape(y1Out="x", y1ScaleOut=_exponents("x"), y2Out="x", y2ScaleOut=_exponents_of_rows("x", "groupIndex")),
    dst="dstDtype",
    ys="y1Out y2Out",
    scales="y1ScaleOut y2ScaleOut",
    targets=_FLOAT8,
)

# --------------------------------------------------------------------------------------------------- back

rule(
    "aclnnAntiMxQuant",
    dtypes(f"{FLOAT4S} FLOAT8_E5M2 FLOAT8_E4M3FN", "x"),
    dtypes("FLOAT8_E8M0", "mxscale"),
    dtypes(FLOATS, "y"),
    has_dtype("y", "dstType"),
    require("len(y) == len(x)"),
    rank(1, 7, "x"),
    valid_axis("axis", "x"),
    has_shape(mxscale=_exponents("x", "axis")),
    infer_shape(y="x"),
    when("x.size > 0 and x.dtype in FLOAT4S", contiguous("x")),
    documented_products,
)

# --------------------------------------------------------------------------------------------------- behind a gate

_HALF = define(half="with_size(x, -1, exact_div(x[-1], 2))")
# With groups of rows, x is a matrix.
_GROUPS = when(
    "groupIndexOptional is not None",
    rank(1, "groupIndexOptional"),
    rank(2, "x"),
    not_empty("groupIndexOptional"),
    word="groups",
)

_mx(
    "aclnnSituMxQuant",
    require("beta != 0"),
    rank(1, 8, "x"),
    one_of("axis", -1),
    not_empty("x"),
    _HALF,
    output_shape(yOut="half", yScaleOut=_exponents("half")),
    scales="yScaleOut",
    targets=_FLOAT8,
)
_mx(
    "aclnnSwigluMxQuant",
    rank(2, 7, "x"),
    # A gate along one of the last two axes; the clamped one (swigluMode 1) along the last.
    require("activateDim in (-1, -2, len(x) - 1, len(x) - 2)", "axis in (-1, -2, len(x) - 1, len(x) - 2)"),
    one_of("swigluMode", 0, 1),
    when("swigluMode == 1", require("activateDim in (-1, len(x) - 1)", "clampLimit > 0")),
    when(
        "groupIndexOptional is not None",
        rank(1, "groupIndexOptional"),
        require("0 < groupIndexOptional[0] <= 256"),
        when("activateDim not in (-1, len(x) - 1) or axis not in (-1, len(x) - 1)", rank(2, "x")),
        word="groups",
    ),
    *_algorithms(0),
    define(
        half="with_size(x, activateDim, exact_div(x[activateDim], 2))",
        along_rows=_exponents_of_rows("half", "groupIndexOptional"),
        along_axis=_exponents("half", "axis"),
    ),
    output_shape(yOut="half", mxscaleOut="along_rows if axis in (-2, len(x) - 2) else along_axis"),
    _even("yOut"),
)
_mx(
    "aclnnSwigluMxQuantWithDualAxis",
    rank(2, "x"),
    not_empty("x"),
    _GROUPS,
    *_algorithms(0),
    one_of("maxDtypeValue", 0),
    _HALF,
    output_shape(
        y1Out="half",
        mxscale1Out=_exponents("half"),
        y2Out="half",
        mxscale2Out=_exponents_of_rows("half", "groupIndexOptional"),
    ),
    _even("y1Out"),
    ys="y1Out y2Out",
    scales="mxscale1Out mxscale2Out",
)
_mx(
    "aclnnSwigluBackwardMxQuantWithDualAxis",
    same_dtype("x", "yGrad"),
    rank(2, 6, "x"),
    not_empty("x"),
    _GROUPS,
    require("x[-1] > 0", "x[-1] % 64 == 0"),
    one_of("scaleAlg", 1),
    one_of("activateLeft", True),
    one_of("maxDtypeValue", 0),
    _HALF,
    has_shape(yGrad="half"),
    output_shape(
        y1Out="x",
        mxscale1Out=_exponents("x"),
        y2Out="x",
        mxscale2Out=_exponents_of_rows("x", "groupIndexOptional"),
    ),
    dst="dstDtype",
    ys="y1Out y2Out",
    scales="mxscale1Out mxscale2Out",
    targets="FLOAT8_E4M3FN",
)
