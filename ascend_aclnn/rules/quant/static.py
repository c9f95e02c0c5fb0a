"""Rules of quantising with given scales, and back."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID
from ascend_aclnn.rules.language import *

_FLOATS: DtypeSet = {"A2 A3 950": FLOATS, "310P": FLOATS_WITHOUT_BF16}


def _round_mode(small_float: str) -> tuple[Check, ...]:
    """How results are rounded; a null pointer is refused as a value."""
    return (
        required("roundMode", status=PARAM_INVALID),
        when("dstType == HIFLOAT8", one_of("roundMode", "round", "hybrid")),
        when("dstType in (FLOAT8_E5M2, FLOAT8_E4M3FN)", one_of("roundMode", small_float)),
        when("dstType not in FLOAT8S", one_of("roundMode", "round", "floor", "ceil", "trunc")),
    )


# --------------------------------------------------------------------------------------------------- AscendQuant

_QUANT = (
    dtypes({"310P": "INT8", "950": f"INT8 INT32 INT4 {FLOAT8S}", "": "INT8 INT32 INT4"}, "y"),
    dtypes(_FLOATS, "scale", "offset"),
    same_dtype("scale", "offset"),
    require("x.dtype in (FLOAT, scale.dtype)", argument="scale", why="scales of a 16-bit x have its dtype"),
    has_dtype("y", "dstType"),
)
rule(
    "aclnnAscendQuant",
    dtypes({"A2 A3": FLOATS, "310P": FLOATS_WITHOUT_BF16}, "x"),
    *_QUANT,
    output_shape(y="packed_shape(x, dstType)"),
    max_rank(8, "x"),
    # One element, or one for each item of the last axis.
    require("len(scale) > 0", "scale[-1] in (1, x[-1] if len(x) else 1)", "prod(scale[:-1]) == 1"),
    broadcastable("scale", "x"),
    require("len(offset) > 0", "offset[-1] == scale[-1]", "prod(offset[:-1]) == 1"),
    broadcastable("offset", "x"),
    *_round_mode("round"),
    nullable="roundMode",
)
rule(
    "aclnnAscendQuantV3",
    rank(1, 99, "x"),
    dtypes(_FLOATS, "x"),
    *_QUANT,
    valid_axis("axis", "x"),
    # One of the last two axes; on 310P the last one.
    require("axis % len(x) >= len(x) - (1 if product == '310P' else 2)"),
    output_shape(y="packed_shape(x, dstType)"),
    max_rank(8, "x"),
    same_shape("scale", "offset"),
    # One element, or one for each item of the axis; of one axis, or of those of x.
    define(count="scale[0 if len(scale) == 1 else axis]"),
    require("len(scale) in (1, len(x))", "count in (1, x[axis])", "prod(scale) == count", argument="scale"),
    *_round_mode("round"),
    nullable="roundMode",
)
rule(
    "aclnnAscendAntiQuant",
    dtypes({"A2 A3": "INT4 INT8 INT32", "950": f"INT4 INT8 INT32 {FLOAT8S}", "310P": "INT8"}, "x"),
    dtypes({"A2 A3 950": HALVES, "310P": "FLOAT16"}, "y"),
    dtypes({"A2 A3 950": "FLOAT BF16", "310P": "FLOAT"}, "scale", "offset"),
    same_dtype("scale", "offset"),
    has_dtype("y", "dstType"),
    when("x.dtype in FLOAT8S", dtypes("FLOAT", "scale"), one_of("sqrtMode", False)),
    # Eight 4-bit numbers stand in an INT32.
    output_shape(y="(*x[:-1], prod(x[-1:]) * 8) if x.dtype == INT32 else packed_shape(x, x.dtype)"),
    max_rank(8, "x"),
    same_shape("scale", "offset"),
    when("product != '950'", rank(1, "scale", "offset"), require("scale[0] == 1 or scale == y[-1:]")),
    # Ascend 950 also takes scales of blocks (of an INT32 x of rows).
    when(
        "product == '950'",
        require("len(y) > 0", argument="x"),
        require("prod(scale) > 0"),
        when(
            "x.dtype == INT32 and len(x) > 0",
            require("len(scale) > 0", "scale[-1] in (1, y[-1]) or (len(scale) == 1 < len(x) and scale[-1] == x[-2])"),
        ),
    ),
    when("x.dtype == INT4 and x.size > 0", contiguous("x")),
)

# --------------------------------------------------------------------------------------------------- other forms

rule(
    "aclnnQuantize",
    max_rank(8, "x"),
    output_shape(out="x"),
    rank(1, "scales", "zeroPoints"),
    same_shape("scales", "zeroPoints"),
    when("scales[0] != 1", valid_axis("axis", "x"), require("scales[0] == x[axis]")),
    dtypes({"A2 A3 950": FLOATS, "310P 910": FLOATS_WITHOUT_BF16}, "x", "scales"),
    dtypes(
        {"A2 A3": "INT8 UINT8 INT32 BF16", "950": "INT8 UINT8 INT32 FLOAT BF16", "310P 910": "INT8 UINT8 INT32"},
        "zeroPoints",
    ),
    dtypes({"A2 A3 310P 910": "INT8 UINT8 INT32", "950": f"INT8 UINT8 INT32 {FLOAT8S}"}, "out"),
    has_dtype("out", "dtype"),
    # BF16 scales or zero points come with all of them BF16.
    when("BF16 in (scales.dtype, zeroPoints.dtype)", dtypes("BF16", "x", "scales", "zeroPoints")),
    no_private_format("x", "scales", "zeroPoints", "out"),
)
rule(
    "aclnnGroupQuant",
    dtypes({"A2 A3 950": FLOATS}, "x", "scale", "offsetOptional"),
    dtypes(INDICES, "groupIndex"),
    dtypes("INT8 INT32 INT4", "y"),
    same_dtype("scale", "offsetOptional"),
    has_dtype("y", "dstType"),
    rank(2, "x", "scale"),
    rank(1, "groupIndex"),
    has_shape(scale="(groupIndex[0], x[1])"),
    require("offsetOptional.size == 1"),
    output_shape(y="packed_shape(x, dstType)"),
)

_BY_CHANNEL, _BY_TENSOR = "aclnnFakeQuantPerChannelAffineCachemask", "aclnnFakeQuantPerTensorAffineCachemask"
rule(
    f"{_BY_CHANNEL} {_BY_TENSOR}",
    dtypes(FLOATS_WITHOUT_BF16, "self", "scale"),
    on_operators(_BY_CHANNEL, dtypes("INT32 FLOAT16 FLOAT", "zeroPoint")),
    on_operators(_BY_TENSOR, dtypes("INT32", "zeroPoint")),
    castable(checked(promoted("self", "scale")), "out"),
    dtypes("BOOL", "mask"),
    output_shape(out="self", mask="self"),
    on_operators(
        _BY_CHANNEL,
        rank(1, "scale", "zeroPoint"),
        valid_axis("axis", "self"),
        require("len(self) > 0"),
        has_shape(scale="(self[axis],)", zeroPoint="(self[axis],)"),
    ),
    on_operators(_BY_TENSOR, require("scale.size == 1", "zeroPoint.size == 1")),
    require("quantMin <= quantMax"),
    null_status=INNER_NULLPTR,
)

rule(
    "aclnnFlatQuant aclnnFlatQuantV2 aclnnFlatQuantV3",
    dtypes({"A2 A3 950": HALVES}, "x", "kroneckerP1", "kroneckerP2"),
    dtypes({"A2 A3": "INT32 INT4", "950": "INT32 INT4 FLOAT4_E2M1"}, "out"),
    dtypes({"A2 A3": "FLOAT", "950": "FLOAT FLOAT8_E8M0"}, "quantScale"),
    same_dtype("x", "kroneckerP1", "kroneckerP2"),
    rank(3, "x"),
    rank(2, "kroneckerP1"),
    require("0 < x[0] <= 262144", "0 < x[1] <= 256", "0 < x[2] <= 256"),
    has_shape(kroneckerP1="(x[1], x[1])"),
    # Ascend 950's blocks of FLOAT4_E2M1 have one row for each of x.
    define(fp4="out is not None and out.dtype == FLOAT4_E2M1"),
    when("not fp4", has_shape(kroneckerP2="(x[2], x[2])")),
    require("x[2] % (8 if out.dtype == INT32 else 2) == 0"),
    when("fp4", rank(2, "out"), rank(3, "quantScale"), require("quantScale[0] == x[0]")),
    when("not fp4", has_shape(out="packed_shape(x, out.dtype)", quantScale="x[:1]")),
    not_nz("x", "out", "quantScale"),
    require("0 < clipRatio <= 1", "dstTypeMax == 0 or 6 <= dstTypeMax <= 12"),
    when(
        "groupListOptional is not None",
        on_products("950", absent("groupListOptional")),
        one_of("groupListType", 0, 1, 2),
        dtypes("INT64", "groupListOptional"),
        when("groupListType == 2", rank(2, "groupListOptional"), require("groupListOptional[1] == 2")),
        when("groupListType != 2", rank(1, "groupListOptional")),
        require("groupListOptional[0] <= 1024"),
    ),
    infer_shape(out="x", quantScale="x[:1]"),
    output_dtype(out="INT4", quantScale="FLOAT"),
)

# Parameters of the fixpipe.
rule(
    "aclnnTransQuantParamV2 aclnnTransQuantParamV3",
    dtypes("FLOAT", "scale", "offset"),
    dtypes("UINT64 INT64", "out"),
    formats("ND", "scale", "offset", "out"),
    rank(1, 2, "scale", "offset"),
    # A vector or one row (on Ascend 950 scale may have several).
    require("scale.size > 0", "len(scale) == 1 or scale[0] == 1 or product == '950'"),
    require("offset.size > 0", "len(offset) == 1 or offset[0] == 1"),
    require("offset.size in (1, scale[-1]) or scale[-1] == 1"),
    one_of("roundMode", 0, 1),
    infer_shape(out="offset if offset is not None and offset.size > scale.size else scale"),
    output_dtype(out="UINT64"),
)

rule(
    "aclnnQuantMax aclnnGroupedQuantMax",
    dtypes(FLOATS, "x"),
    on_operators("aclnnQuantMax", rank(1, 8, "x")),
    on_operators(
        "aclnnGroupedQuantMax",
        rank(2, 8, "x"),
        dtypes("INT64", "groupList"),
        rank(1, "groupList"),
    ),
    dtypes("FLOAT", "scale"),
    on_operators("aclnnQuantMax", has_shape(scale="(1,)"), output_shape(amax="(1,)")),
    on_operators(
        "aclnnGroupedQuantMax",
        not_empty("scale", "groupList"),
        has_shape(scale="groupList"),
        infer_shape(amax="groupList"),
    ),
    require("dstType in FLOAT8S"),
    *_round_mode("rint"),
    has_dtype("y", "dstType"),
    output_shape(y="x"),
    same_dtype("x", "amax"),
    when("x.size > 0", documented_products),
    nullable="roundMode",
)
rule(
    "aclnnDequantBias",
    documented_products,
    documented_dtypes(),
    tiling(
        rank(2, "x"),
        output_shape(out="x"),
        has_shape(weightScale="(x[1],)", activateScaleOptional="(x[0],)", biasOptional="(x[1],)"),
        require("outputDtype in HALVES"),
        has_dtype("out", "outputDtype"),
    ),
)
