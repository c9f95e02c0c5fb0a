"""Attention to chosen tokens, and the choice: vllm-ascend's forms of operators of CANN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.core.errors import TILING_ERROR
from ascend_aclnn.numerics import Array
from ascend_aclnn.reference import function_of, reference
from ascend_aclnn.rules import words_of
from ascend_aclnn.rules.language import *

_EVERYTHING = (1 << 63) - 1  # preTokens and nextTokens that leave out no token

_quant_lightning_indexer = function_of("aclnnQuantLightningIndexer")

aclnn.register_operator("""
aclnnStatus aclnnLightningIndexerQuantGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *weights, const aclTensor *queryDequantScale,
    const aclTensor *keyDequantScale, const aclTensor *actualSeqLengthsQueryOptional,
    const aclTensor *actualSeqLengthsKeyOptional, const aclTensor *blockTableOptional, int64_t queryQuantMode,
    int64_t keyQuantMode, char *layoutQueryOptional, char *layoutKeyOptional, int64_t sparseCount, int64_t sparseMode,
    const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnLightningIndexerQuant",
    only_products("A2 A3"),
    dtypes("INT8", "query", "key"),
    dtypes("FLOAT16", "weights", "queryDequantScale", "keyDequantScale"),
    dtypes("INT32", "actualSeqLengthsQueryOptional", "actualSeqLengthsKeyOptional", "blockTableOptional", "out"),
    words_of("aclnnQuantLightningIndexer"),
)


@reference("aclnnLightningIndexerQuant")
def lightning_indexer_quant(*arguments: Any) -> Any:
    """QuantLightningIndexer, which can also leave out tokens that are far away."""
    return _quant_lightning_indexer(*arguments, _EVERYTHING, _EVERYTHING)


_sparse_flash = function_of("aclnnKvQuantSparseFlashAttention")
_words = words_of("aclnnKvQuantSparseFlashAttention")

aclnn.register_operator("""
aclnnStatus aclnnKvQuantSparseFlashAttentionGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *value, const aclTensor *sparseIndices,
    const aclTensor *keyDequantScaleOptional, const aclTensor *valueDequantScaleOptional, const aclTensor *blockTableOptional,
    const aclTensor *actualSeqLengthsQueryOptional, const aclTensor *actualSeqLengthsKvOptional, double scaleValue,
    int64_t keyQuantMode, int64_t valueQuantMode, int64_t sparseBlockSize, char *layoutQueryOptional, char *layoutKvOptional,
    int64_t sparseMode, int64_t preTokens, int64_t nextTokens, int64_t attentionMode, int64_t quantScaleRepoMode,
    int64_t tileSize, int64_t ropeHeadDim, bool returnSoftmaxLse, const aclTensor *attentionOutOut,
    const aclTensor *softmaxMaxOut, const aclTensor *softmaxSumOut, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnKvQuantSparseFlashAttention",
    dtypes(HALVES, "query"),
    same_dtype("query", "out"),
    dtypes("FLOAT", "softmaxMaxOut", "softmaxSumOut"),
    _words,
    infer_shape(softmaxMaxOut="(1,)", softmaxSumOut="(1,)"),
    aliases={"out": "attentionOutOut"},
    replaces=True,
)


def _with_statistics(call: Call) -> Optional[str]:
    return "the reference gives no statistics of the softmax (return_softmax_lse)" if call["returnSoftmaxLse"] else None


@reference("aclnnKvQuantSparseFlashAttention", raw=True, unsupported=_with_statistics, replaces=True)
def kv_quant_sparse_flash_attention(*arguments: Any, out: Sequence[Any]) -> list[Any]:
    """CANN's operator of this name, which has no statistics of the softmax."""
    _sparse_flash(*arguments[:-1], out=out[:1])
    return list(out[1:])


# ------------------------------------------------------------------------------------------------- compressed keys

_choice = function_of("aclnnQuantLightningIndexerV2")

aclnn.register_operator("""
aclnnStatus aclnnVllmQuantLightningIndexerGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *weights, const aclTensor *queryDequantScale,
    const aclTensor *keyDequantScale, const aclTensor *actualSeqLengthsQueryOptional,
    const aclTensor *actualSeqLengthsKeyOptional, const aclTensor *blockTableOptional, const aclTensor *metadataOptional,
    int64_t queryQuantMode, int64_t keyQuantMode, char *layoutQueryOptional, char *layoutKeyOptional, int64_t sparseCount,
    int64_t sparseMode, int64_t preTokens, int64_t nextTokens, int64_t cmpRatio, bool returnValues, int64_t stride,
    int64_t scaleStride, const aclTensor *sparseIndicesOut, const aclTensor *sparseValuesOut, uint64_t *workspaceSize,
    aclOpExecutor **executor);
""")

rule(
    "aclnnVllmQuantLightningIndexer",
    only_products("A2 A3"),
    dtypes("INT8", "query", "key"),
    dtypes("FLOAT16", "weights", "queryDequantScale", "keyDequantScale"),
    dtypes("INT32", "actualSeqLengthsQueryOptional", "actualSeqLengthsKeyOptional", "blockTableOptional"),
    dtypes("INT32", "metadataOptional", "sparseIndicesOut"),
    dtypes("FLOAT", "sparseValuesOut"),
    tiling(
        one_of("layoutQueryOptional", "BSND", "TND"),
        one_of("layoutKeyOptional", "BSND", "TND", "PA_BSND"),
        rank(3, 4, "query", "key"),
        require("len(query) == (3 if layoutQueryOptional == 'TND' else 4)", word="layout"),
        require("len(key) == (3 if layoutKeyOptional == 'TND' else 4)", word="layout"),
        require("key[-1] == query[-1]", "key[-2] == 1", "sparseCount > 0", "cmpRatio > 0"),
        has_shape(weights="query[:-1]", queryDequantScale="query[:-1]", keyDequantScale="key[:-1]"),
        one_of("sparseMode", 0, 3),
        rank(1, "actualSeqLengthsQueryOptional", "actualSeqLengthsKeyOptional"),
        rank(2, "blockTableOptional"),
        when(
            "layoutKeyOptional == 'PA_BSND'",
            required("blockTableOptional", "actualSeqLengthsKeyOptional", status=TILING_ERROR),
        ),
        when("layoutQueryOptional == 'TND'", required("actualSeqLengthsQueryOptional", status=TILING_ERROR)),
        when("layoutKeyOptional == 'TND'", required("actualSeqLengthsKeyOptional", status=TILING_ERROR)),
    ),
    infer_shape(
        sparseIndicesOut="(*query[:-2], 1, sparseCount)",
        sparseValuesOut="(*query[:-2], 1, sparseCount) if returnValues else (1,)",
    ),
)


def _packed_compressed_keys(call: Call) -> Optional[str]:
    if call["layoutKeyOptional"] == "TND" and call["cmpRatio"] > 1:
        return "the reference takes keys in layout TND as they are (cmp_ratio 1)"
    return None


@reference("aclnnVllmQuantLightningIndexer", unsupported=_packed_compressed_keys)
def vllm_quant_lightning_indexer(
    query: Array,
    key: Array,
    weights: Array,
    query_scale: Array,
    key_scale: Array,
    queries: Optional[Array],
    keys: Optional[Array],
    table: Optional[Array],
    metadata: Optional[Array],
    query_mode: int,
    key_mode: int,
    layout_q: str,
    layout_k: str,
    count: int,
    mode: int,
    before: int,
    behind: int,
    ratio: int,
    wanted: bool,
    stride: int,
    scale_stride: int,
) -> Any:
    """QuantLightningIndexerV2 of CANN, with lengths of keys as they were before ``ratio`` of them became one.

    Metadata shares out the work and changes nothing; pages lie as the tensors say, whose strides are given once more.
    """
    ends_q, used_q = (_from_zero(queries), None) if layout_q == "TND" else (None, queries)
    ends_k, used_k, left = None, None, None
    if layout_k == "TND":
        ends_k = _from_zero(keys)
    elif keys is not None:
        used_k, left = keys // ratio, keys % ratio
    lengths = ends_q, ends_k, used_q, used_k, left
    return _choice(
        query,
        key,
        weights,
        query_scale,
        key_scale,
        *lengths,
        table,
        None,
        None,
        count,
        0,
        0,
        layout_q,
        layout_k,
        mode,
        ratio,
        wanted,
    )


def _from_zero(totals: Optional[Array]) -> Array:
    assert totals is not None  # which the rule has seen to
    return np.concatenate([np.zeros(1, totals.dtype), totals])


aclnn.register_operator(
    """
aclnnStatus aclnnVllmQuantLightningIndexerMetadataGetWorkspaceSize(
    const aclTensor *actualSeqLengthsQueryOptional, const aclTensor *actualSeqLengthsKeyOptional, int64_t numHeadsQ,
    int64_t numHeadsK, int64_t headDim, int64_t queryQuantMode, int64_t keyQuantMode, int64_t batchSizeOptional,
    int64_t maxSeqlenQOptional, int64_t maxSeqlenKOptional, char *layoutQueryOptional, char *layoutKeyOptional,
    int64_t sparseCountOptional, int64_t sparseModeOptional, int64_t preTokensOptional, int64_t nextTokensOptional,
    int64_t cmpRatioOptional, const aclTensor *metaData, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"metaData": "out"},
)

rule(
    "aclnnVllmQuantLightningIndexerMetadata",
    only_products("A2 A3"),
    dtypes("INT32", "actualSeqLengthsQueryOptional", "actualSeqLengthsKeyOptional", "metaData"),
    infer_shape(metaData="(1024,)"),
    output_dtype(metaData="INT32"),
)


@reference("aclnnVllmQuantLightningIndexerMetadata", raw=True)
def vllm_quant_lightning_indexer_metadata(*_: Any, out: Sequence[Array]) -> None:
    """0: which core of a card takes which part of VllmQuantLightningIndexer's work, which is not shared out here."""
    out[0][...] = 0
