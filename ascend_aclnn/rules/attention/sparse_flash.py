"""Rules of attention to chosen blocks of keys, the heads of queries grouped by those of keys (absorbed latent attention)."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.attention._layouts import by_tokens
from ascend_aclnn.rules.language import *

# By head of keys: (heads, tokens, group), with the batch before.
_STATISTICS = "(*query[:-3], key[-2], query[-3], query[-2] // key[-2])"
_LENGTHS = (rank(1, "actualSeqLengthsQueryOptional", "actualSeqLengthsKvOptional"), rank(2, "blockTableOptional"))
_SAME_COUNT = when(
    "layoutQueryOptional == 'TND'", has_shape(actualSeqLengthsKvOptional="actualSeqLengthsQueryOptional")
)
_GROUPED = (
    require("key[-2] > 0", "query[-2] % key[-2] == 0"),
    require("len(sparseIndices) == len(query)", "sparseIndices[:-2] == query[:-2]", "sparseIndices[-2] == key[-2]"),
)
_ROPES = (
    together("queryRopeOptional", "keyRopeOptional"),
    require(
        "queryRopeOptional[:-1] == query[:-1]",
        "keyRopeOptional[:-1] == key[:-1]",
        "keyRopeOptional[-1] == queryRopeOptional[-1]",
    ),
)

rule(
    "aclnnSparseFlashAttention aclnnSparseFlashAttentionV2",
    documented_products,
    documented_dtypes(),
    tiling(
        by_tokens("layoutQueryOptional", "query"),
        by_tokens("layoutKvOptional", "key"),
        *_GROUPED,
        require("key[-1] == query[-1]", "value[:] == key[:]", "sparseBlockSizeOptional > 0"),
        *_ROPES,
        *_LENGTHS,
        _SAME_COUNT,
        has_shape(sinksOptional="(query[-2],)"),
    ),
    infer_shape(
        attentionOut="query",
        softmaxMax=f"{_STATISTICS} if returnSoftmaxLse else None",
        softmaxSum=f"{_STATISTICS} if returnSoftmaxLse else None",
    ),
)
rule(
    "aclnnSparseFlashAttentionGrad aclnnSparseFlashAttentionGradV2",
    on_operators(
        "aclnnSparseFlashAttentionGradV2",
        when("sinks is not None", required("dSinksOptional", status=PARAM_INVALID), only_products("950")),
    ),
    documented_products,
    documented_dtypes(),
    tiling(
        by_tokens("layoutOptional", "query", "key"),
        *_GROUPED,
        require("key[-1] == query[-1]", "sparseBlockSize > 0"),
        has_shape(sinks="(query[-2],)"),
        has_shape(value="key", dOut="query", out="query", softmaxMax=_STATISTICS, softmaxSum=_STATISTICS),
        *_ROPES,
        *_LENGTHS,
        when("layoutOptional == 'TND'", has_shape(actualSeqLengthsKvOptional="actualSeqLengthsQueryOptional")),
    ),
    infer_shape(
        dQueryOut="query",
        dKeyOut="key",
        dValueOut="value",
        dQueryRopeOutOptional="queryRopeOptional",
        dKeyRopeOutOptional="keyRopeOptional",
        dSinksOptional="None if sinks is None else (query[-2],)",
    ),
    output_dtype(dSinksOptional="FLOAT"),
)
rule(
    "aclnnKvQuantSparseFlashAttention aclnnKvQuantSparseFlashAttentionV2",
    documented_products,
    documented_dtypes(),
    tiling(
        by_tokens("layoutQueryOptional", "query"),
        by_tokens("layoutKvOptional", "key"),
        *_GROUPED,
        require("sparseBlockSize > 0", "tileSize > 0", "0 <= ropeHeadDim < query[-1]"),
        # Elements, the rotated part of two bytes each, and a scale of four bytes for each tile.
        require(
            "key[-1] == query[-1] - ropeHeadDim + 2 * ropeHeadDim + 4 * ceil_div(query[-1] - ropeHeadDim, tileSize)"
        ),
        *_LENGTHS,
    ),
    infer_shape(out="(*query[:-1], query[-1] - ropeHeadDim)"),
    output_dtype(out="query"),
)

rule(
    "aclnnTurboQuantSparseFlashAttention",
    only_products("A2 A3"),
    dtypes("BF16", "query", "attentionOutOut"),
    dtypes("INT8", "key", "value"),
    dtypes("INT32", "sparseIndices", "blockTable", "actualSeqLengthsQuery", "actualSeqLengthsKv"),
    dtypes("FLOAT", "softmaxMaxOut", "softmaxSumOut"),
    tiling(
        require("layoutQueryOptional == 'TND'", "layoutKvOptional == 'PA_BSND'"),
        rank(3, "query", "sparseIndices"),
        rank(4, "key"),
        same_shape("key", "value"),
        rank(2, "blockTable"),
        rank(1, "actualSeqLengthsQuery", "actualSeqLengthsKv"),
        one_of("sparseMode", 0, 3),
        one_of("sparseBlockSize", 1, 2, 4, 8, 16),
        require("keyQuantMode == 3", "valueQuantMode == 3", "attentionMode == 2", "quantScaleRepoMode == 1"),
        require("tileSize == 128", "ropeHeadDim == 64", "query[-1] == 576"),
        # Codes of 512 elements, the rotated part of two bytes each, and the factor.
        require("key[2] == 1", "key[3] == 386"),
        require("sparseIndices[0] == query[0]", "sparseIndices[1] == key[2]"),
        require("blockTable[0] == actualSeqLengthsKv.size", "actualSeqLengthsQuery.size == actualSeqLengthsKv.size"),
    ),
    define(statistics="(key[2], query[0], query[1] // key[2]) if returnSoftmaxLse else (0,)"),
    output_shape(attentionOutOut="(*query[:2], query[2] - ropeHeadDim)"),
    infer_shape(softmaxMaxOut="statistics", softmaxSumOut="statistics"),
    output_dtype(attentionOutOut="BF16", softmaxMaxOut="FLOAT", softmaxSumOut="FLOAT"),
)
