"""Rules of lightning indexers, their gradients and losses.

Tensors are (batch, tokens, heads, width), or (tokens, heads, width) in layout TND; keys may lie in pages. Phase one looks
for the chip, then at the documented data types; CANN's tiling looks at the shapes.
"""

from __future__ import annotations

from ascend_aclnn.core.errors import RUNTIME_ERROR
from ascend_aclnn.rules.attention._layouts import by_tokens
from ascend_aclnn.rules.language import *

# --------------------------------------------------------------------------------------------------- choice of keys

# The chosen tokens of each head of keys, for each query.
_OF_V1 = "(*query[:-2], key[-2], sparseCount)"
_V1 = tiling(
    by_tokens("layoutQueryOptional", "query"),
    by_tokens("layoutKeyOptional", "key"),
    has_shape(weights="query[:-1]"),
    require("key[-1] == query[-1]", "key[-2] == 1", "sparseCount > 0"),
    rank(1, "actualSeqLengthsQueryOptional", "actualSeqLengthsKeyOptional"),
    rank(2, "blockTableOptional"),
)
rule(
    "aclnnLightningIndexer",
    documented_products,
    documented_dtypes(),
    _V1,
    infer_shape(sparseIndicesOut=_OF_V1, sparseValuesOut=f"{_OF_V1} if returnValues else None"),
    output_dtype(sparseValuesOut="query"),
    nullable="sparseValuesOut",
)
rule(
    "aclnnQuantLightningIndexer",
    documented_products,
    documented_dtypes(),
    _V1,
    tiling(has_shape(queryDequantScale="query[:-1]", keyDequantScale="key[:-1]")),
    infer_shape(out=_OF_V1),
)
rule(
    "aclnnLightningIndexerV2",
    documented_products,
    documented_dtypes(),
    tiling(
        by_tokens("layoutQ", "q"),
        by_tokens("layoutK", "k"),
        has_shape(w="q[:-1]"),
        require("k[-1] == q[-1]", "k[-2] == 1", "topk > 0", "cmpRatio > 0"),
        rank(1, "cuSeqlensQOptional", "cuSeqlensKOptional", "sequsedQOptional", "sequsedKOptional"),
        rank(1, "cmpResidualKOptional", "outputIdxOffsetOptional"),
        require("outputIdxOffsetOptional[0] == (q[0] if len(q) == 4 else cuSeqlensQOptional[0] - 1)"),
        rank(2, "blockTableOptional"),
    ),
    infer_shape(sparseIndices="(*q[:-2], k[-2], topk)", sparseValues="(*q[:-2], k[-2], topk) if returnValue else None"),
    nullable="sparseValues",
)
rule(
    "aclnnQuantLightningIndexerV2",
    documented_products,
    documented_dtypes(),
    tiling(
        by_tokens("layoutQOptional", "query"),
        by_tokens("layoutKOptional", "key"),
        has_shape(weights="query[:-1]"),
        require("key[-1] == query[-1]", "key[-2] == 1", "topk > 0", "cmpRatioOptional > 0"),
        # One scale for each head, or one for each 32 elements.
        require("queryDequantScale[:len(query) - 1] == query[:-1]", "keyDequantScale[:len(key) - 1] == key[:-1]"),
        *(
            require(
                f"{name}DequantScale.size * {name}[-1] in ({name}.size, {name}.size * {name}[-1] // 32)",
                argument=f"{name}DequantScale",
                why="a scale for each head, or for each 32 elements",
                word="size",
            )
            for name in ("query", "key")
        ),
        rank(1, "cuSeqLensQOptional", "cuSeqLensKOptional", "sequsedQOptional", "sequsedKOptional"),
        rank(1, "cmpResidualKOptional", "outputIdxOffsetOptional"),
        rank(2, "blockTableOptional"),
    ),
    infer_shape(
        sparseIndicesOut="(*query[:-2], key[-2], topk)",
        sparseValuesOut="(*query[:-2], key[-2], topk) if returnValueOptional else None",
    ),
    nullable="sparseValuesOut",
)

# --------------------------------------------------------------------------------------------------- gradients

rule(
    "aclnnLightningIndexerGrad",
    same_dtype("query", "key", "dy", "weights", among=HALVES),
    unless_empty(
        "query",
        documented_products,
        documented_dtypes(),
        tiling(
            by_tokens("inputLayout", "query", "key"),
            require(
                "key[-1] == query[-1]", "key[-2] == 1", "dy[:-1] == sparseIndices[:-1]", "dy[-1] == sparseIndices[-1]"
            ),
            require("weights[:len(query) - 1] == query[:-1]", "sparseIndices[:len(query) - 2] == query[:-2]"),
            rank(1, "actualSeqQLenOptional", "actualSeqKvLenOptional"),
            has_shape(actualSeqKvLenOptional="actualSeqQLenOptional"),
        ),
    ),
    infer_shape(dqOut="query", dkOut="key", dweightsOut="weights"),
)
rule(
    "aclnnLightningIndexerKLLoss",
    require(
        "len(targetScore) in (2, 3)",
        "0 < targetScore[-1] <= 8192",
        "len(targetScore) == 2 or 1 <= targetScore[0] <= 512",
    ),
    same_dtype("targetScore", "indexProbs"),
    same_shape("targetScore", "indexProbs"),
    one_of("weightType", "logits", "probs"),
    unless_empty("targetScore", documented_products, documented_dtypes()),
    infer_shape(loss="(1,)"),
)

# Statistics by head of keys: (heads, tokens, group), with the batch before.
_STATISTICS = "(*query[:-3], key[-2], query[-3], query[-2] // key[-2])"
_OLD_LOSS = tiling(
    by_tokens("layout", "query", "key", "queryIndex", "keyIndex"),
    require("key[-2] > 0", "query[-2] % key[-2] == 0", "key[-1] == query[-1]"),
    require("queryIndex[:-2] == query[:-2]", "keyIndex[:-2] == key[:-2]", "keyIndex[-1] == queryIndex[-1]"),
    has_shape(weights="queryIndex[:-1]", softmaxMax=_STATISTICS, softmaxSum=_STATISTICS),
    require("queryRope[:-1] == query[:-1]", "keyRope[:-1] == key[:-1]", "keyRope[-1] == queryRope[-1]"),
)
_OLD_RESULTS = (
    infer_shape(dQueryIndex="queryIndex", dKeyIndex="keyIndex", dWeights="weights", loss="(1,)"),
    output_dtype(dWeights="weights"),
)
rule(
    "aclnnDenseLightningIndexerGradKLLoss",
    documented_products,
    documented_dtypes(),
    _OLD_LOSS,
    tiling(
        has_shape(
            softmaxMaxIndex="(*query[:-3], keyIndex[-2], query[-3])",
            softmaxSumIndex="(*query[:-3], keyIndex[-2], query[-3])",
        ),
        require("queryRope[-1] > 0"),
        require("keyRope[-1] == queryRope[-1]", word="kernel"),
    ),
    *_OLD_RESULTS,
)
rule(
    "aclnnSparseLightningIndexerGradKLLoss aclnnSparseLightningIndexerGradKLLossV2",
    on_operators(
        "aclnnSparseLightningIndexerGradKLLossV2",
        when("sinks is not None", with_status(RUNTIME_ERROR, only_products("950"))),
    ),
    documented_products,
    documented_dtypes(),
    _OLD_LOSS,
    tiling(
        require(
            "len(sparseIndices) == len(query)", "sparseIndices[:-2] == query[:-2]", "sparseIndices[-2] == keyIndex[-2]"
        ),
        require("keyIndex[-2] > 0", "queryRope[-1] > 0"),
        require("keyRope[-1] == queryRope[-1]", word="kernel"),
        has_shape(sinks="(query[-2],)"),
    ),
    *_OLD_RESULTS,
)

_OF_SEQUENCES = require("cmpResidualKOptional[0] == (q[0] if len(q) == 4 else cuSeqLensQOptional[0] - 1)")
_NEW_LOSS = (
    _OF_SEQUENCES,
    by_tokens("layoutQ", "q"),
    by_tokens("layoutK", "k"),
    has_shape(w="q[:-1]"),
    require("k[-1] == q[-1]", "k[-2] == 1", "cmpRatio > 0"),
    require("len(attnSoftmaxL1Norm) == len(q)", "attnSoftmaxL1Norm[:-2] == q[:-2]", "attnSoftmaxL1Norm[-2] == k[-2]"),
    rank(1, "cuSeqLensQOptional", "cuSeqLensKOptional", "seqUsedQOptional", "seqUsedKOptional", "cmpResidualKOptional"),
)
rule(
    "aclnnDenseLightningIndexerKLLossGrad aclnnSparseLightningIndexerKLLossGrad",
    documented_products,
    documented_dtypes(),
    tiling(*_NEW_LOSS, has_shape(sparseIndices="attnSoftmaxL1Norm", softmaxLse="(*q[:-3], k[-2], q[-3])")),
    infer_shape(dq="q", dk="k", dw="w", softmaxOut="attnSoftmaxL1Norm"),
)

# --------------------------------------------------------------------------------------------------- sums of scores

_SUMS = "(*queryIndex[:-3], keyIndex[-2], queryIndex[-3])"
_SCORES = (has_shape(weight="queryIndex[:-1]"), require("keyIndex[-1] == queryIndex[-1]", "keyIndex[-2] == 1"))
rule(
    "aclnnDenseLightningIndexerSoftmaxLse",
    documented_products,
    documented_dtypes(),
    tiling(by_tokens("layoutOptional", "queryIndex", "keyIndex"), *_SCORES),
    infer_shape(softmaxMaxOut=_SUMS, softmaxSumOut=_SUMS),
)
rule(
    "aclnnDenseLightningIndexerSoftmaxLseV2",
    documented_products,
    documented_dtypes(),
    tiling(
        by_tokens("layoutQ", "queryIndex"),
        by_tokens("layoutK", "keyIndex"),
        *_SCORES,
        require("len(queryIndex) == 3 or len(keyIndex) == 3 or keyIndex[0] == queryIndex[0]", argument="keyIndex"),
        require("cmpRatio > 0"),
        rank(
            1,
            "cuSeqLensQOptional",
            "cuSeqLensKOptional",
            "seqUsedQOptional",
            "seqUsedKOptional",
            "cmpResidualKOptional",
        ),
    ),
    infer_shape(softmaxLseOut=_SUMS),
)
