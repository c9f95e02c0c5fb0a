"""Attention to chosen tokens, and the choice: vllm-ascend's forms of operators of CANN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import ascend_aclnn as aclnn
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
