"""Attention over all keys, and over the blocks of keys that a mask of blocks chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.numerics import Array, DataError, round_into, widen
from ascend_aclnn.reference import reference
from ascend_aclnn.rules.language import *


def _softmax(scores: Array) -> Array:
    """Of the last axis."""
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True))


# ------------------------------------------------------------------------------------------------- all keys

aclnn.register_operator("""
aclnnStatus aclnnLaserAttentionGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *value, const aclTensor *attenMaskOptional,
    const aclTensor *alibiMaskOptional, const aclTensor *dropMaskOptional, double scaleValue, int64_t headNum,
    char *inputLayout, double keepProb, int64_t preTokens, int64_t nextTokens, bool isHighPrecision,
    const aclTensor *softmaxLogMaxSumOut, const aclTensor *attentionOutOut, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnLaserAttention",
    only_products("A2 A3"),
    dtypes(HALVES, "query"),
    same_dtype("query", "key", "value", "attenMaskOptional", "alibiMaskOptional"),
    dtypes("UINT8", "dropMaskOptional"),
    dtypes("FLOAT", "softmaxLogMaxSumOut", "attentionOutOut"),
    tiling(
        rank(4, "query", "key", "value"),
        require("headNum > 0", "query[0] > 0", "query[2] > 0", "key[2] > 0"),
        require("headNum == query[1]", argument="headNum"),
        require("key[0] == query[0]", "key[3] == query[3]", "key[1] > 0", "query[1] % key[1] == 0"),
        require("value == key"),
        output_shape(softmaxLogMaxSumOut="query[:3]", attentionOutOut="query"),
    ),
)


def _more_than_its_kernel(call: Call) -> Optional[str]:
    if call["query"].dtype.name != "FLOAT16":
        return "its kernel is built for FLOAT16 alone"
    if any(call.is_present(name) for name in ("attenMaskOptional", "alibiMaskOptional", "dropMaskOptional")):
        return "its kernel reads no masks"
    return None


@reference("aclnnLaserAttention", raw=True, unsupported=_more_than_its_kernel)
def laser_attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Any,
    alibi: Any,
    drop: Any,
    scale: float,
    heads: int,
    layout: str,
    keep: float,
    pre_tokens: int,
    next_tokens: int,
    precise: bool,
    *,
    out: Sequence[Array],
) -> list[Array]:
    """softmax(scale * query @ key.T) @ value for (batch, heads, tokens, width); the kernel leaves its first output unwritten."""
    share = query.shape[1] // key.shape[1]
    keys, values = (np.repeat(widen(x), share, 1) for x in (key, value))
    probabilities = _softmax((widen(query) @ keys.swapaxes(2, 3)) * np.float32(scale))
    out[1][...] = probabilities @ values
    return [out[0]]


# ------------------------------------------------------------------------------------------------- chosen blocks

aclnn.register_operator("""
aclnnStatus aclnnAdaBlockSparseAttentionGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *value, const aclTensor *pseShiftOptional,
    const aclTensor *attenMaskOptional, const aclIntArray *actualSeqLengthsOptional,
    const aclIntArray *actualSeqLengthsKvOptional, const aclTensor *deqScale1Optional, const aclTensor *quantScale1Optional,
    const aclTensor *deqScale2Optional, const aclTensor *quantScale2Optional, const aclTensor *quantOffset2Optional,
    const aclTensor *sparseMaskOptional, const aclTensor *sparseCountTableOptional, int64_t numHeads, double scaleValue,
    int64_t preTokens, int64_t nextTokens, char *inputLayout, int64_t numKeyValueHeads, int64_t sparseMode,
    int64_t innerPrecise, int64_t sparseSize, bool causal, const aclTensor *attentionOutOut, uint64_t *workspaceSize,
    aclOpExecutor **executor);
""")

rule(
    "aclnnAdaBlockSparseAttention",
    only_products("A2 A3"),
    dtypes(HALVES, "query"),
    same_dtype("query", "key", "value", "attentionOutOut"),
    dtypes("INT8", "sparseMaskOptional"),
    dtypes("INT32", "sparseCountTableOptional"),
    tiling(
        one_of("inputLayout", "BNSD", "BSND", "BSH"),
        positive("numHeads", "sparseSize"),
        define(
            heads="numKeyValueHeads if numKeyValueHeads > 0 else numHeads",
            tokens="query[2] if inputLayout == 'BNSD' else query[1]",
            blocks="ceil_div(tokens, sparseSize)",
        ),
        when("inputLayout == 'BSH'", rank(3, "query", "key", "value")),
        when("inputLayout != 'BSH'", rank(4, "query", "key", "value")),
        require("numHeads % heads == 0", argument="numKeyValueHeads"),
        require("key[0] == query[0]"),
        require("value == key"),
        rank(4, "sparseMaskOptional"),
        require(
            "sparseMaskOptional[0] == query[0]", "sparseMaskOptional[1] == numHeads", "sparseMaskOptional[2] >= blocks"
        ),
        require(
            "sparseCountTableOptional == sparseMaskOptional[:3]",
            argument="sparseCountTableOptional",
        ),
        output_shape(attentionOutOut="query"),
    ),
)


def _not_by_blocks(call: Call) -> Optional[str]:
    others = ("pseShift", "attenMask", "deqScale1", "quantScale1", "deqScale2", "quantScale2", "quantOffset2")
    if any(call.is_present(f"{name}Optional") for name in others):
        return "its kernel reads no shift, mask of tokens or scales"
    if not (call.is_present("sparseMaskOptional") and call.is_present("sparseCountTableOptional")):
        return "the reference needs sparse_mask and sparse_count_table"
    return None


def _heads_first(x: Array, layout: str, heads: int) -> Array:
    """(batch, heads, tokens, width) of a layout, as a view."""
    if layout == "BSH":
        x = x.reshape(*x.shape[:2], heads, -1)
    return x if layout == "BNSD" else x.swapaxes(1, 2)


def _lengths(name: str, lengths: Optional[Sequence[int]], count: int, most: int) -> list[int]:
    """The tokens of each sequence: one number stands for all."""
    known = list(lengths or [most])
    known = known * count if len(known) == 1 else known
    if len(known) < count or not all(0 <= length <= most for length in known):
        raise DataError(name, f"is {known}; {count} lengths of at most {most} are needed")
    return known[:count]


@reference("aclnnAdaBlockSparseAttention", raw=True, unsupported=_not_by_blocks)
def ada_block_sparse_attention(
    query: Array,
    key: Array,
    value: Array,
    shift: Any,
    mask: Any,
    lengths: Optional[Sequence[int]],
    key_lengths: Optional[Sequence[int]],
    scale_1: Any,
    quant_1: Any,
    scale_2: Any,
    quant_2: Any,
    offset_2: Any,
    block_mask: Array,
    counts: Array,
    heads: int,
    scale: float,
    pre_tokens: int,
    next_tokens: int,
    layout: str,
    key_heads: int,
    sparse_mode: int,
    precise: int,
    size: int,
    causal: bool,
    *,
    out: Sequence[Array],
) -> None:
    """A block of queries attends to the first ``counts`` blocks of keys in its row of the mask; without any it gives 0.

    With ``causal`` a query leaves out later tokens of the last chosen block, where that is the block of the queries themselves.
    """
    key_heads = key_heads or heads
    q, target = (_heads_first(x, layout, heads) for x in (query, out[0]))
    k, v = (_heads_first(x, layout, key_heads) for x in (key, value))
    many = _lengths("actualSeqLengths", lengths, len(q), q.shape[2])
    there = _lengths("actualSeqLengthsKv", key_lengths, len(q), k.shape[2])
    if counts.min(initial=0) < 0 or counts.max(initial=0) > block_mask.shape[3]:
        raise DataError(
            "sparseCountTable",
            f"lies between {counts.min()} and {counts.max()}; rows have {block_mask.shape[3]} blocks",
        )
    target[...] = 0
    for batch, head in np.ndindex(*q.shape[:2]):
        keys, values = (widen(x[batch, head * key_heads // heads, : there[batch]]) for x in (k, v))
        for block in range(-(-many[batch] // size)):
            rows = slice(block * size, min((block + 1) * size, many[batch]))
            order = np.argsort(-block_mask[batch, head, block].astype(np.int32), kind="stable")
            chosen = order[: counts[batch, head, block]]
            tokens = (chosen[:, None] * size + np.arange(size)).reshape(-1)
            tokens = tokens[tokens < len(keys)]
            if not tokens.size:
                continue
            scores = (widen(q[batch, head, rows]) @ keys[tokens].T) * np.float32(scale)
            if causal and chosen[-1] == block:
                last = tokens >= block * size
                scores[last & (tokens > np.arange(rows.start, rows.stop)[:, None])] = -np.inf
            round_into(target[batch, head, rows], _softmax(scores) @ values[tokens])
