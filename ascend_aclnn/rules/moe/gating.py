"""The choice of experts from gating scores."""

from __future__ import annotations

from ascend_aclnn.core.errors import TILING_ERROR
from ascend_aclnn.rules.language import *

_TOPK = "(*x[:-1], k)"

# ------------------------------------------------------------------------------------------------ grouped top k

_GATED = (
    dtypes(FLOATS, "x", "biasOptional", "yOut"),
    same_dtype("x", "biasOptional", "yOut"),
    dtypes("INT32", "expertIdxOut"),
    dtypes(FLOATS, "outOut"),
    dtypes(INDICES, "inputIdsOptional", "tid2eidOptional"),
    documented_products,
    tiling(
        rank(2, "x"),
        rank(1, "biasOptional"),
        require("biasOptional[0] == x[1]"),
        one_of("normType", 0, 1),
        one_of("groupSelectMode", 0, 1),
        one_of("renorm", 0, 1),
        require(
            "0 < k <= x[1]",
            "x[1] <= 2048",  # the scores of one token lie in one buffer
            "groupCount > 0",
            "0 < kGroup <= groupCount",
        ),
        require("x[1] % groupCount == 0", argument="groupCount"),
        # The second mode ranks groups by the sum of their two best.
        when("groupSelectMode == 1", require("x[1] // groupCount >= 2", argument="groupCount")),
        require("k <= kGroup * (x[1] // groupCount)"),
        output_shape(yOut=_TOPK, expertIdxOut=_TOPK),
        when("outFlag", dtypes("FLOAT", "outOut"), has_shape(outOut="x")),
        infer_shape(outOut="x"),
        rank(1, "inputIdsOptional"),
        rank(2, "tid2eidOptional"),
    ),
    output_dtype(outOut="FLOAT"),
)
rule("aclnnMoeGatingTopK aclnnMoeGatingTopKV2", *_GATED)

rule(
    "aclnnMoeGatingTopKBackward",
    dtypes("FLOAT", "xNorm"),
    dtypes(FLOATS, "gradY", "out"),
    same_dtype("gradY", "out"),
    dtypes("INT32", "expertIdx"),
    documented_products,
    rank(2, "xNorm", "gradY", "expertIdx", "out"),
    same_shape("gradY", "expertIdx"),
    require("gradY[0] == xNorm[0]"),
    tiling(one_of("normType", 0, 1), one_of("renorm", 0, 1)),
    output_shape(out="xNorm"),
)

# ------------------------------------------------------------------------------------------------ softmax top k

_SOFTMAX = (
    documented_products,
    tiling(
        rank(2, 3, "x"),
        one_of("renorm", 0, 1),
        require("0 < k <= min(x[-1], 1024)"),
        not_empty("x"),
        has_shape(finishedOptional="x[:-1]"),
        output_shape(yOut=_TOPK, expertIdxOut=_TOPK, rowIdxOut=_TOPK),
    ),
)
_PAIR = "x finishedOptional yOut expertIdxOut"
rule(
    "aclnnMoeGatingTopKSoftmax",
    dtype_table(f"{_PAIR} rowIdxOut", "FLOAT16 BOOL FLOAT16 INT32 INT32", products="310P"),
    dtype_table(f"{_PAIR} rowIdxOut", "T BOOL T INT32 INT32", T=FLOATS, products="A2 A3 950"),
    *_SOFTMAX,
)
rule(
    "aclnnMoeGatingTopKSoftmaxV2",
    dtype_table(f"{_PAIR} softmaxResultOutOptional", "T BOOL T INT32 FLOAT", T=FLOATS),
    *_SOFTMAX,
    # The softmax is written only where no second normalisation follows.
    when(
        "renorm == 0",
        tiling(
            when("outputSoftmaxResultFlag", required("softmaxResultOutOptional", status=TILING_ERROR)),
            output_shape(softmaxResultOutOptional="x if outputSoftmaxResultFlag else None"),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------ fused top k

rule(
    "aclnnMoeFusedTopk",
    when("enableExpertMapping", required("mappingNum", "mappingTable")),
    dtypes(FLOATS, "x"),
    same_dtype("x", "addNum"),
    when("enableExpertMapping", dtypes("INT32", "mappingNum", "mappingTable")),
    dtypes("INT32", "indices"),
    dtypes("FLOAT", "y"),
    unless_empty(
        "x",
        positive("groupNum", "groupTopk", "topN", "topK"),
        require("groupNum <= 256"),
        rank(2, "x"),
        rank(1, "addNum"),
        require("addNum[0] == x[1]"),
        rank(2, "y", "indices"),
        same_shape("y", "indices"),
        has_shape(y="(x[0], topK)"),
        require("x[1] % groupNum == 0", argument="groupNum"),
        require("groupTopk <= groupNum", "topK <= x[1]", "topN <= x[1] // groupNum", "x[1] <= 1024"),
        when(
            "enableExpertMapping",
            rank(2, "mappingTable"),
            rank(1, "mappingNum"),
            require("mappingTable[0] == x[1]", "mappingNum[0] == x[1]", "mappingTable[1] <= 128"),
        ),
    ),
    infer_shape(y="(x[0], topK)", indices="(x[0], topK)"),
    nullable="mappingNum mappingTable",
)
