"""Copies of the tokens in the order of their experts, with counts and (optionally) quantised."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR, TILING_ERROR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------ V2

_COUNTS = "expertTokensCountOrCumsumOutOptional"
_BEFORE_CAPACITY = "expertTokensBeforeCapacityOutOptional"
# The attributes of QuantV2 have no "Optional" in their names.
_ATTRIBUTES = {
    name: f"{name}Optional"
    for name in (
        "activeNum",
        "dropPadMode",
        "expertCapacity",
        "expertNum",
        "expertTokensBeforeCapacityFlag",
        "expertTokensCountOrCumsumFlag",
    )
}
_V2_INDEXES = dtypes("INT32", "expandedRowIdxOut", _COUNTS, _BEFORE_CAPACITY)
_V2_DEFINITIONS = define(
    copies="expertIdx.size",
    counts="(expertNum,) if expertTokensCountOrCumsumFlag > 0 and dropPadMode == 0 else None",
    before_capacity="(expertNum,) if expertTokensBeforeCapacityFlag and dropPadMode == 1 else None",
    # All copies, or the first activeNum; on Ascend 950 a negative number drops that many.
    active="max(copies + activeNum, 0) if activeNum < 0 and product == '950' else min(copies, activeNum)",
    rows="active if activeNum > 0 or activeNum < 0 and product == '950' else copies",
    expanded="(expertNum, expertCapacity, x[1]) if dropPadMode == 1 else (rows, x[1])",
)
_V2_INPUTS = (
    rank(2, "x"),
    on_products("950", rank(1, 2, "expertIdx")),
    when("product != '950'", rank(2, "expertIdx")),
    require("expertIdx[0] == x[0]", "activeNum >= 0 or product == '950'"),
    not_negative("expertCapacity", "expertNum"),
    one_of("dropPadMode", 0, 1),
    one_of("expertTokensCountOrCumsumFlag", 0, 1, 2),
    when("dropPadMode == 1 or expertTokensCountOrCumsumFlag > 0", positive("expertNum")),
    when("dropPadMode == 1", require("0 < expertCapacity <= x[0]")),
    when("counts is not None", required(_COUNTS, status=TILING_ERROR)),
    when("before_capacity is not None", required(_BEFORE_CAPACITY, status=TILING_ERROR)),
)
_V2_SHAPES = output_shape(
    expandedXOut="expanded", expandedRowIdxOut="(copies,)", **{_COUNTS: "counts", _BEFORE_CAPACITY: "before_capacity"}
)

rule(
    "aclnnMoeInitRoutingV2",
    dtypes({"310P": "FLOAT16 FLOAT", "": FLOATS}, "x", "expandedXOut"),
    dtypes({"950": INDICES, "": "INT32"}, "expertIdx"),
    same_dtype("x", "expandedXOut"),
    _V2_INDEXES,
    documented_products,
    _V2_DEFINITIONS,
    tiling(*_V2_INPUTS, _V2_SHAPES),
    aliases=_ATTRIBUTES,
)
rule(
    "aclnnMoeInitRoutingQuantV2",
    dtypes(FLOATS, "x"),
    dtypes("INT32", "expertIdx"),
    dtypes("FLOAT", "scaleOptional", "offsetOptional", "dynamicQuantScaleOutOptional"),
    dtypes({"950": "INT8 INT4", "": "INT8"}, "expandedXOut"),
    _V2_INDEXES,
    documented_products,
    _V2_DEFINITIONS,
    tiling(
        *_V2_INPUTS,
        one_of("quantMode", 0, 1),  # static, dynamic
        when(
            "quantMode == 0",
            require("scaleOptional is not None", "offsetOptional is not None"),
            has_shape(scaleOptional="(1,)", offsetOptional="(1,)"),
        ),
        when(
            "quantMode == 1",
            require("dynamicQuantScaleOutOptional is not None"),
            rank(2, "scaleOptional"),
            require("scaleOptional[0] in (1, expertNum)", "scaleOptional[1] == x[1]"),
        ),
        _V2_SHAPES,
        output_shape(dynamicQuantScaleOutOptional="None if quantMode != 1 else (prod(expanded[:-1]),)"),
    ),
    output_dtype(expandedXOut="INT8"),
    aliases=_ATTRIBUTES,
)
rule(
    "aclnnMoeInitRoutingV2Grad",
    dtypes(FLOATS, "gradExpandedX", "out"),
    dtypes("INT32", "expandedRowIdx"),
    same_dtype("gradExpandedX", "out"),
    documented_products,
    # The kernel cannot be launched, so the graph holds a null pointer: 561103.
    unless_empty(
        "out",
        with_status(
            INNER_NULLPTR,
            one_of("dropPadMode", 0, 1),
            positive("topK"),
            not_negative("activeNum"),
            require("len(gradExpandedX) == 3 or dropPadMode == 0", "len(gradExpandedX) in (2, 3)"),
            rank(1, "expandedRowIdx"),
            require("expandedRowIdx[0] % topK == 0"),
            when("dropPadMode == 0", require("gradExpandedX[0] == (activeNum or expandedRowIdx[0])")),
            has_shape(out="(expandedRowIdx[0] // topK, gradExpandedX[-1])"),
        ),
    ),
    infer_shape(out="(expandedRowIdx[0] // max(topK, 1), gradExpandedX[-1])"),
)

# ------------------------------------------------------------------------------------------------ V3, V4

_SMALL = f"{FLOAT8S} FLOAT4_E2M1"
_SCALE = {"950": "FLOAT FLOAT8_E8M0", "": "FLOAT"}

rule(
    "aclnnMoeInitRoutingV3 aclnnMoeInitRoutingV4",
    require("(topkWeightOptional is None) == (expandedTopkWeightOut is None)", argument="expandedTopkWeightOut"),
    dtypes({"950": f"{FLOATS} INT8 {_SMALL}", "": f"{FLOATS} INT8"}, "x"),
    dtypes("INT32", "expertIdx"),
    dtypes(_SCALE, "scaleOptional"),
    dtypes("FLOAT", "offsetOptional"),
    dtypes({"950": f"{FLOATS} INT8 INT4 {_SMALL}", "": f"{FLOATS} INT8"}, "expandedXOut"),
    dtypes("INT32", "expandedRowIdxOut"),
    dtypes("INT64", "expertTokensCountOrCumsumOut"),
    dtypes(_SCALE, "expandedScaleOut"),
    dtypes("INT64", "activeNumOptional"),
    dtypes("FLOAT", "topkWeightOptional", "expandedTopkWeightOut"),
    documented_products,
    define(
        copies="expertIdx.size",
        start="0 if activeExpertRangeOptional is None else activeExpertRangeOptional[0]",
        end="expertNum if activeExpertRangeOptional is None else activeExpertRangeOptional[1]",
        # V4's number of active rows is a tensor, whose value tiling leaves alone.
        active="copies if activeNum is None or activeNum <= 0 else min(activeNum, copies)",
        rows="expertNum * expertCapacity if dropPadMode == 1 else active",
        # How many values share a scale; 0: a whole row does.
        block=(
            "32 if quantMode in (2, 3, 16, 17) else 128 if quantMode in (4, 5, 14, 15) else 64 if quantMode == 9 "
            "else 256 if quantMode in (11, 12) else 0"
        ),
        blocks="ceil_div(x[1], block)",
        copied="quantMode == -1 and scaleOptional is not None and len(scaleOptional) == 3",
    ),
    tiling(
        rank(2, "x", "expertIdx"),
        require("expertIdx[0] == x[0]"),
        array_length("activeExpertRangeOptional", 2),
        require("expertNum > 0"),
        require("0 <= start", "start < end", "end <= expertNum", argument="activeExpertRangeOptional"),
        when("quantMode == -1 and scaleOptional.dtype == FLOAT", has_shape(scaleOptional="(x[0],)")),
        when("quantMode == 0", require("scaleOptional is not None", "offsetOptional is not None")),
        when(
            "quantMode == 1",
            rank(2, "scaleOptional"),
            require("scaleOptional[0] in (1, end - start)", "scaleOptional[1] == x[1]"),
        ),
        one_of("dropPadMode", 0, 1),
        one_of("expertTokensNumType", 0, 1, 2),
        output_shape(
            expandedXOut="(expertNum, expertCapacity, x[1]) if dropPadMode == 1 else (active, x[1])",
            expandedRowIdxOut="(copies,)",
            expertTokensCountOrCumsumOut="(expertNum, 2) if expertTokensNumType == 2 else (max(end - start, 0),)",
        ),
    ),
    # Scales of modes 9, 11 and 12, and copied ones of rank 3, lie in pairs in an axis of their own.
    infer_shape(
        expandedScaleOut=(
            "(rows, ceil_div(x[1], 64), 2) if copied else (rows,) if block == 0 else (rows, blocks, 2) "
            "if quantMode in (9, 11, 12) else (rows, blocks + blocks % 2) if block == 32 else (rows, blocks)"
        ),
        expandedTopkWeightOut="None if topkWeightOptional is None else (rows, 1)",
    ),
    output_dtype(
        expandedXOut=(
            "INT8 if quantMode in (0, 1) else FLOAT8_E5M2 if quantMode in (2, 4, 11, 14, 16) else FLOAT8_E4M3FN "
            "if quantMode in (3, 5, 12, 15, 17) else HIFLOAT8 if quantMode in (6, 7, 8) else FLOAT4_E2M1 "
            "if quantMode == 9 else INT4 if quantMode == 13 else x.dtype"
        ),
        expandedScaleOut=(
            "FLOAT8_E8M0 if quantMode in (2, 3, 9, 16, 17) or scaleOptional is not None "
            "and scaleOptional.dtype == FLOAT8_E8M0 else FLOAT"
        ),
    ),
)

# ------------------------------------------------------------------------------------------------ counts, re-routing

rule(
    "aclnnMoeComputeExpertTokens",
    dtypes("INT32", "sortedExperts", "out"),
    documented_products,
    tiling(rank(1, "sortedExperts"), in_range("numExperts", 1, 2048), output_shape(out="(numExperts,)")),
)

_RE_ROUTING = (
    dtypes({"950": f"{HALVES} INT8 {FLOAT8S} {FLOAT4S}", "": f"{HALVES} INT8"}, "tokens"),
    same_dtype("tokens", "permuteTokensOut"),
    dtypes(INDICES, "expertTokenNumPerRank"),
    same_dtype("expertTokenNumPerRank", "expertTokenNumOut"),
    dtypes(_SCALE, "perTokenScalesOptional", "permutePerTokenScalesOut"),
    same_dtype("perTokenScalesOptional", "permutePerTokenScalesOut"),
    dtypes("INT32", "permuteTokenIdxOut"),
    tiling(
        rank(2, "tokens", "expertTokenNumPerRank"),
        not_empty("expertTokenNumPerRank"),
        rank(1, 3, "perTokenScalesOptional"),
        require("perTokenScalesOptional[0] == tokens[0]"),
        one_of("expertTokenNumType", 1),
        one_of("idxType", 0, 1),
        output_shape(
            permuteTokensOut="tokens",
            permuteTokenIdxOut="(tokens[0],)",
            expertTokenNumOut="(expertTokenNumPerRank[1],)",
        ),
        has_shape(permutePerTokenScalesOut="perTokenScalesOptional"),
    ),
    infer_shape(permutePerTokenScalesOut="(tokens[0],) if perTokenScalesOptional is None else perTokenScalesOptional"),
    output_dtype(permutePerTokenScalesOut="FLOAT if perTokenScalesOptional is None else perTokenScalesOptional.dtype"),
)
rule("aclnnMoeReRouting", only_products("A2 A3 950"), *_RE_ROUTING)
rule(
    "aclnnMoeReRoutingV2",
    only_products("950"),
    *_RE_ROUTING,
    dtypes("FLOAT", "expertTopkWeightOptional", "permuteTopkWeightOutOptional"),
    tiling(output_shape(permuteTopkWeightOutOptional="expertTopkWeightOptional")),
)
