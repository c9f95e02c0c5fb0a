"""Drafts of speculative decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference import reference
from ascend_aclnn.rules.language import *

_MOST_TOKENS, _MOST_SLOTS = 4096, 64  # of a request: the kernel's buffers

aclnn.register_operator("""
aclnnStatus aclnnCopyAndExpandEagleInputsGetWorkspaceSize(
    const aclTensor *targetTokenIds, const aclTensor *targetPositions, const aclTensor *nextTokenIds,
    const aclTensor *queryStartLoc, const aclTensor *queryEndLoc, int64_t paddingTokenId, int64_t parallelDraftingTokenId,
    int64_t numPaddingSlotsPerRequest, bool shiftInputIds, int64_t totalInputTokens, const aclTensor *outInputIdsOut,
    const aclTensor *outPositionsOut, const aclTensor *outIsRejectedTokenMaskOut, const aclTensor *outIsMaskedTokenMaskOut,
    const aclTensor *outNewTokenIndicesOut, const aclTensor *outHiddenStateMappingOut,
    uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnCopyAndExpandEagleInputs",
    only_products("A2 A3"),
    dtypes("INT32", "targetTokenIds", "targetPositions", "nextTokenIds", "queryStartLoc", "queryEndLoc"),
    dtypes("INT32", "outInputIdsOut", "outPositionsOut", "outNewTokenIndicesOut", "outHiddenStateMappingOut"),
    dtypes("INT8", "outIsRejectedTokenMaskOut", "outIsMaskedTokenMaskOut"),
    tiling(
        rank(1, "targetTokenIds", "targetPositions", "nextTokenIds", "queryStartLoc", "queryEndLoc"),
        require("queryStartLoc[0] > 0"),
        define(
            requests="queryStartLoc[0] - 1",
            slots="numPaddingSlotsPerRequest",
            drafted="targetTokenIds[0] + (slots - int(shiftInputIds)) * requests",
        ),
        in_range("numPaddingSlotsPerRequest", 0, _MOST_SLOTS),
        require("nextTokenIds[0] >= requests", "queryEndLoc[0] >= requests"),
        has_shape(outHiddenStateMappingOut="targetTokenIds", outNewTokenIndicesOut="(requests * slots,)"),
        same_shape("outInputIdsOut", "outPositionsOut", "outIsRejectedTokenMaskOut", "outIsMaskedTokenMaskOut"),
    ),
    # Callers may pass longer outputs, whose ends stay 0.
    infer_shape(
        outInputIdsOut="(drafted,)",
        outPositionsOut="(drafted,)",
        outIsRejectedTokenMaskOut="(drafted,)",
        outIsMaskedTokenMaskOut="(drafted,)",
        outNewTokenIndicesOut="(requests * slots,)",
        outHiddenStateMappingOut="targetTokenIds",
    ),
)


@reference("aclnnCopyAndExpandEagleInputs", raw=True)
def copy_and_expand_eagle_inputs(
    tokens: Array,
    positions: Array,
    next_tokens: Array,
    start_loc: Array,
    end_loc: Array,
    padding: int,
    drafting: int,
    slots: int,
    shift: bool,
    total: int,
    *,
    out: Sequence[Array],
) -> None:
    """Room for drafts behind the accepted tokens of each request.

    A request becomes its accepted tokens (all but the first with ``shift``), the token that was sampled next, slots - 1
    times ``drafting``, and ``padding`` for each rejected token. ``end_loc`` is the last accepted token of a request.
    """
    count = len(start_loc) - 1
    starts, following, ends = (loc.astype(np.int64) for loc in (start_loc[:-1], start_loc[1:], end_loc[:count]))
    if count and not (starts.min() >= 0 and following.max() <= len(tokens) and (starts <= following).all()):
        raise DataError("queryStartLoc", f"is {start_loc.tolist()}; it must rise from 0 to at most {len(tokens)}")
    accepted = np.maximum(ends - starts + (0 if shift else 1), 0)
    lengths = accepted + slots + np.maximum(following - ends - 1, 0)
    begins = starts + np.arange(count) * (slots - int(shift))
    # The last token of a request without a rejected one lies where the next request begins.
    written = lengths - (shift & (following == ends) & (np.arange(count) < count - 1))
    if count and (lengths.max() > _MOST_TOKENS or (begins + written).max() > out[0].size):
        raise DataError("queryEndLoc", f"leads to requests of {lengths.tolist()} tokens; {out[0].size} are there")
    for array in out:
        array[...] = 0

    request = np.repeat(np.arange(count), written)
    place = np.arange(written.sum()) - np.repeat(np.cumsum(written) - written, written)  # within the request
    first = starts + int(shift)
    readable = np.clip(total - first, 0, accepted) if shift else following - starts
    source = first[request] + np.minimum(place, readable[request] - 1)
    behind = place - accepted[request]
    is_draft, is_rejected = (behind > 0) & (behind < slots), behind >= slots
    ids = np.where(readable[request] > 0, tokens[np.clip(source, 0, len(tokens) - 1)], 0)
    ids = np.where(behind < 0, ids, next_tokens[request])
    to = begins[request] + place
    out[0][to] = np.where(is_rejected, padding, np.where(is_draft, drafting, ids))
    out[1][to] = np.where(is_rejected, 0, positions[np.minimum(starts, len(tokens) - 1)][request] + place)
    out[2][to] = is_rejected
    out[3][to] = is_draft
    out[4].reshape(count, slots)[...] = (begins + accepted)[:, None] + np.arange(slots)
    if shift:
        held = following - starts
        out[5][: held.sum()] = np.repeat(begins - starts, held) + np.arange(held.sum())


aclnn.register_operator(
    """
aclnnStatus aclnnNgramSpecDecodeGetWorkspaceSize(
    const aclTensor *tokenIds, const aclTensor *numTokensNoSpec, const aclTensor *sampledTokenIds,
    const aclTensor *discardRequestMask, int64_t vocabSize, int64_t minN, int64_t maxN, int64_t k, const aclTensor *nextTokenIds,
    const aclTensor *draftTokenIds, const aclTensor *numValidDraftTokens, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={
        "tokenIds": "inout",
        "nextTokenIds": "out",
        "draftTokenIds": "out",
        "numValidDraftTokens": "out",
    },
)

rule(
    "aclnnNgramSpecDecode",
    only_products("A2 A3"),
    dtypes("INT32", "tokenIds", "numTokensNoSpec", "sampledTokenIds", "discardRequestMask"),
    dtypes("INT32", "nextTokenIds", "draftTokenIds", "numValidDraftTokens"),
    tiling(
        shape_patterns(
            tokenIds="b most",
            numTokensNoSpec="b",
            sampledTokenIds="b news",
            discardRequestMask="b",
            nextTokenIds="b",
            draftTokenIds="b k",
            numValidDraftTokens="b",
        ),
        positive("minN", "k"),
        require("minN <= maxN", argument="maxN"),
    ),
)


@reference("aclnnNgramSpecDecode")
def ngram_spec_decode(
    tokens: Array,
    lengths: Array,
    sampled: Array,
    discard: Array,
    vocabulary: int,
    least: int,
    most: int,
    k: int,
) -> tuple[Any, ...]:
    """Appends sampled tokens to their requests, and drafts what followed an earlier occurrence of a request's end.

    Of all ends of ``least`` to ``most`` tokens the longest that occurs before counts, and its first occurrence.
    """
    tokens = tokens.copy()
    rows, capacity = tokens.shape
    if rows and not (lengths.min() >= 0 and lengths.max() <= capacity):
        raise DataError("numTokensNoSpec", f"is {lengths.tolist()}; allowed: 0 to {capacity}")
    valid = (sampled != -1) & (sampled < vocabulary) & (discard == 0)[:, None]
    news = np.minimum(valid.sum(1), capacity - lengths)
    kept = np.where(valid, sampled, -1)
    row = np.arange(rows)
    backup = tokens[row, np.maximum(lengths - 1, 0)]
    following = np.where(news > 0, kept[row, np.maximum(news - 1, 0)], backup)
    drafts = np.full((rows, k), -1, np.int32)
    for i in np.flatnonzero(news):
        end = lengths[i] + news[i]
        tokens[i, lengths[i] : end] = kept[i, : news[i]]
        request = tokens[i, :end]
        for size in range(min(most, end - 1), least - 1, -1):
            windows = np.lib.stride_tricks.sliding_window_view(request[:-1], size)
            matches = np.flatnonzero((windows == request[end - size :]).all(1))
            if matches.size:
                draft = request[matches[0] + size :][:k]
                drafts[i, : draft.size] = draft
                break
    return tokens, following, drafts, np.cumprod(drafts != -1, 1).sum(1)
