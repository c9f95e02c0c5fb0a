"""Experts: routing of tokens."""

from __future__ import annotations

import ascend_aclnn as aclnn
from ascend_aclnn.reference import function_of, reference
from ascend_aclnn.rules.language import *

aclnn.register_operator("""
aclnnStatus aclnnMoeInitRoutingCustomGetWorkspaceSize(
    const aclTensor *x, const aclTensor *expertIdx, const aclTensor *scaleOptional, const aclTensor *offsetOptional,
    int64_t activeNum, int64_t expertCapacity, int64_t expertNum, int64_t dropPadMode, int64_t expertTokensNumType,
    bool expertTokensNumFlag, int64_t quantMode, const aclIntArray *activeExpertRangeOptional, int64_t rowIdxType,
    const aclTensor *expandedXOut, const aclTensor *expandedRowIdxOut, const aclTensor *expertTokensCountOrCumsumOut,
    const aclTensor *expandedScaleOut, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnMoeInitRoutingCustom",
    only_products("A2 A3"),
    dtypes(f"{FLOATS} INT8", "x", "expandedXOut"),
    dtypes("INT32", "expertIdx", "expandedRowIdxOut"),
    dtypes("FLOAT", "scaleOptional", "offsetOptional", "expandedScaleOut"),
    dtypes("INT64", "expertTokensCountOrCumsumOut"),
    define(
        copies="expertIdx.size",
        start="0 if activeExpertRangeOptional is None else activeExpertRangeOptional[0]",
        end="expertNum if activeExpertRangeOptional is None else activeExpertRangeOptional[1]",
        active="copies if activeNum <= 0 else min(activeNum, copies)",
        rows="expertNum * expertCapacity if dropPadMode == 1 else active",
    ),
    tiling(
        rank(2, "x", "expertIdx"),
        require("expertIdx[0] == x[0]"),
        array_length("activeExpertRangeOptional", 2),
        require("expertNum > 0"),
        require("0 <= start", "start < end", "end <= expertNum", argument="activeExpertRangeOptional"),
        one_of("quantMode", -1, 0, 1),
        one_of("dropPadMode", 0, 1),
        one_of("expertTokensNumType", 0, 1, 2),
        when("quantMode == 0", require("scaleOptional is not None", "offsetOptional is not None")),
        output_shape(
            expandedXOut="(expertNum, expertCapacity, x[1]) if dropPadMode == 1 else (active, x[1])",
            expandedRowIdxOut="(copies,)",
            expertTokensCountOrCumsumOut="(expertNum, 2) if expertTokensNumType == 2 else (max(end - start, 0),)",
        ),
    ),
    infer_shape(expandedScaleOut="(rows,)"),
    output_dtype(expandedXOut="x.dtype if quantMode == -1 else INT8"),
)


# The sources are a copy of that operator's kernels with other sorts.
reference("aclnnMoeInitRoutingCustom", raw=True)(function_of("aclnnMoeInitRoutingV3"))

# ------------------------------------------------------------------------------------------------- the choice of experts

aclnn.register_operator("""
aclnnStatus aclnnMoeGatingTopKHashGetWorkspaceSize(
    const aclTensor *x, const aclTensor *biasOptional, const aclTensor *inputIdsOptional, const aclTensor *tid2eidOptional,
    int64_t k, int64_t kGroup, int64_t groupCount, int64_t groupSelectMode, int64_t renorm, int64_t normType, bool outFlag,
    double routedScalingFactor, double eps, const aclTensor *yOut, const aclTensor *expertIdxOut, const aclTensor *outOut,
    uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnMoeGatingTopKHash",
    only_products("A2 A3"),
    dtypes(FLOATS, "x"),
    same_dtype("x", "biasOptional", "yOut"),
    dtypes(INDICES, "inputIdsOptional", "tid2eidOptional"),
    dtypes("INT32", "expertIdxOut"),
    dtypes("FLOAT", "outOut"),
    tiling(
        rank(2, "x"),
        define(experts="x[1]", each="x[1] // groupCount"),
        has_shape(biasOptional="(experts,)"),
        together("inputIdsOptional", "tid2eidOptional"),
        require("inputIdsOptional.size == x[0]", argument="inputIdsOptional"),
        require("tid2eidOptional[-1] == k", argument="tid2eidOptional"),
        require("0 < k <= experts", "experts <= 2048", "groupCount > 0", "0 < kGroup <= groupCount"),
        one_of("normType", 0, 1, 2),
        when("normType == 2", one_of("groupCount", 1)),
        one_of("groupSelectMode", 0, 1),
        one_of("renorm", 0),
        require("experts % groupCount == 0", argument="groupCount"),
        when("groupSelectMode == 1", require("each >= 2", argument="groupCount")),
        require("k <= kGroup * each"),
        output_shape(yOut="(x[0], k)", expertIdxOut="(x[0], k)", outOut="x"),
    ),
)

# CANN's later operator has the same parameters.
reference("aclnnMoeGatingTopKHash")(function_of("aclnnMoeGatingTopKV2"))
