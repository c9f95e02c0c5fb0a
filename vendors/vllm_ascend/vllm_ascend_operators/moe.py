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
