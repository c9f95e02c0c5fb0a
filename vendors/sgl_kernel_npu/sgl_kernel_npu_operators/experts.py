"""DeepEP's tokens on their way to experts on other ranks, and back.

Tokens go in rounds of ``perRoundTokens``. A rank has experts of successive numbers; -1 stands for no expert. What
NotifyDispatch finds out is where the rows of (expert of this rank, source rank, round) begin, which DispatchNormal fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.collectives import groups
from ascend_aclnn.collectives.groups import Ranks
from ascend_aclnn.numerics import Array, DataError, round_into, rounded_to, widen
from ascend_aclnn.reference import function_of, reference
from ascend_aclnn.reference.matmul.quant import exact_product, fixed_scale
from ascend_aclnn.rules import words_of
from ascend_aclnn.rules.language import *

_DYNAMIC = 2  # of quantMode: each row by its largest magnitude; 0 leaves rows as they are


def _ranks(group: str, size: int, rank_id: int) -> Ranks:
    """The ranks of a group, whose size and own number must be what the arguments say."""
    ranks = groups.find(group)
    if (size, rank_id) != (ranks.size, ranks.rank):
        raise DataError(
            "epWorldSize", f"and epRankId are {size} and {rank_id}; {ranks.name} has {ranks.size}, {ranks.rank}"
        )
    return ranks


def _before(counts: Array, axis: int = -1) -> Array:
    """The sum of all earlier counts along an axis."""
    return np.cumsum(counts, axis) - counts


# ------------------------------------------------------------------------------------------------- where tokens go

aclnn.register_operator(
    """
aclnnStatus aclnnDispatchLayoutGetWorkspaceSize(
    const aclTensor *topkIdx, int64_t numTokens, int64_t numRanks, int64_t numExperts, int64_t numTopk,
    int64_t localRankSize, int32_t perRoundTokens, int32_t rankId, const aclTensor *numTokensPerRank,
    const aclTensor *numTokensPerExpert, const aclTensor *isTokenInRank, const aclTensor *notifySendData,
    const aclTensor *sendTokenIdxSmall, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions=dict.fromkeys(
        ("numTokensPerRank", "numTokensPerExpert", "isTokenInRank", "notifySendData", "sendTokenIdxSmall"), "out"
    ),
)

rule(
    "aclnnDispatchLayout",
    only_products("A3"),
    dtypes("INT64", "topkIdx"),
    dtypes("INT32", "numTokensPerRank", "numTokensPerExpert", "isTokenInRank", "notifySendData", "sendTokenIdxSmall"),
    tiling(
        require("0 < numRanks <= 384", "0 < numExperts <= 1024", "numExperts % numRanks == 0", "0 < numTopk <= 16"),
        positive("perRoundTokens"),
        rank(2, "topkIdx"),
        require("topkIdx == (numTokens, numTopk)"),
        define(rounds="max(ceil_div(numTokens, perRoundTokens), 1)"),
        require("numTokensPerExpert.size >= rounds * numExperts", argument="numTokensPerExpert"),
        has_shape(numTokensPerRank="(numRanks,)", isTokenInRank="(numTokens, numRanks)", sendTokenIdxSmall="topkIdx"),
    ),
    infer_shape(
        numTokensPerRank="(numRanks,)",
        numTokensPerExpert="(rounds, numExperts)",
        isTokenInRank="(numTokens, numRanks)",
        notifySendData="(48 * numExperts,)",  # scratch of the 48 vector cores
        sendTokenIdxSmall="topkIdx",
    ),
)


def _rounds(tokens: int, each: int) -> Array:
    """The round of each token."""
    return np.arange(tokens) // each


def _places(experts: Array, rounds: Array, count: int) -> Array:
    """How many copies before each one, in token order, go to the same expert in the same round."""
    keys = rounds * count + experts
    order = np.argsort(keys, kind="stable")
    found = np.empty_like(keys)
    starts = np.searchsorted(keys[order], keys[order])
    found[order] = np.arange(keys.size) - starts
    return found


@reference("aclnnDispatchLayout", raw=True)
def dispatch_layout(
    topk_idx: Array,
    tokens: int,
    size: int,
    experts: int,
    top_k: int,
    local_size: int,
    each: int,
    rank_id: int,
    *,
    out: Sequence[Array],
) -> list[Array]:
    """How many tokens go to each rank, and in each round to each expert; to which ranks each token goes; its place there."""
    per_rank, per_expert, in_rank, scratch, places = out
    flat = topk_idx.reshape(-1)
    valid = np.flatnonzero((flat >= 0) & (flat < experts))
    token, expert = valid // max(top_k, 1), flat[valid]
    rounds = _rounds(tokens, each)[token]
    in_rank[...] = 0
    in_rank[token, expert // (experts // size)] = 1
    per_rank[...] = in_rank.sum(0)
    per_expert[...] = 0
    np.add.at(per_expert.reshape(-1), rounds * experts + expert, 1)
    places[...] = 0
    places.reshape(-1)[valid] = _places(expert, rounds, experts)
    return [scratch]


_NOTIFIED = (
    "sendDataOffset",
    "recvData",
    "recvCount",
    "recvOffset",
    "expertGlobalOffset",
    "srcrankInExpertOffset",
    "rInSrcrankOffset",
    "totalRecvTokens",
    "maxBs",
    "recvTokensPerExpert",
)

aclnn.register_operator(
    """
aclnnStatus aclnnNotifyDispatchGetWorkspaceSize(
    const aclTensor *sendData, const aclTensor *tokenPerExpertData, int32_t sendCount, int32_t numTokens,
    char *commGroup, int32_t rankSize, int32_t rankId, int32_t localRankSize, int32_t localRankId, int32_t round,
    int32_t perRoundTokens, const aclTensor *sendDataOffset, const aclTensor *recvData, const aclTensor *recvCount,
    const aclTensor *recvOffset, const aclTensor *expertGlobalOffset, const aclTensor *srcrankInExpertOffset,
    const aclTensor *rInSrcrankOffset, const aclTensor *totalRecvTokens, const aclTensor *maxBs,
    const aclTensor *recvTokensPerExpert, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions=dict.fromkeys(_NOTIFIED, "out"),
)

rule(
    "aclnnNotifyDispatch",
    only_products("A3"),
    dtypes("INT32", "sendData", "tokenPerExpertData", *_NOTIFIED),
    tiling(
        require("0 < rankSize <= 384", "0 <= rankId < rankSize", "sendCount > 0", "numTokens >= 0"),
        positive("round", "perRoundTokens"),
        define(experts="tokenPerExpertData.size // round", local="experts // rankSize"),
        require("tokenPerExpertData.size == round * experts", "experts % rankSize == 0", argument="tokenPerExpertData"),
        require("numTokens <= round * perRoundTokens"),
        require("sendDataOffset.size == round * experts", argument="sendDataOffset"),
        require("recvCount.size == round * experts", argument="recvCount"),
        require("recvOffset.size == round * experts", argument="recvOffset"),
        require("expertGlobalOffset.size == local", argument="expertGlobalOffset"),
        require("srcrankInExpertOffset.size == experts", argument="srcrankInExpertOffset"),
        require("rInSrcrankOffset.size == round * experts", argument="rInSrcrankOffset"),
        require("recvTokensPerExpert.size == round * local", argument="recvTokensPerExpert"),
    ),
    infer_shape(
        sendDataOffset="(round, experts)",
        recvData="sendData",
        recvCount="(round, experts)",
        recvOffset="(round, experts)",
        expertGlobalOffset="(local,)",
        srcrankInExpertOffset="(experts,)",
        rInSrcrankOffset="(round * experts,)",
        totalRecvTokens="(1,)",
        maxBs="(1,)",
        recvTokensPerExpert="(round * local,)",
    ),
)


@reference("aclnnNotifyDispatch", raw=True, communicates=True)
def notify_dispatch(
    scratch: Array,
    per_expert: Array,
    send_count: int,
    tokens: int,
    group: str,
    size: int,
    rank_id: int,
    local_size: int,
    local_id: int,
    rounds: int,
    each: int,
    *,
    out: Sequence[Array],
) -> list[Array]:
    """The counts of all ranks, as sums that say where rows begin.

    ``recvCount`` is the running sum within a round by (expert, source rank), ``recvOffset`` where the source has these rows.
    """
    ranks = _ranks(group, size, rank_id)
    counts = per_expert.reshape(rounds, -1).astype(np.int32)
    counts[-(-tokens // each) :] = 0  # rounds that have no token
    everyone = ranks.all_gather(counts)  # (source, round, expert)
    local = counts.shape[1] // size
    mine = slice(rank_id * local, (rank_id + 1) * local)
    received = everyone[:, :, mine].transpose(1, 2, 0)  # (round, expert, source)
    of_rank = received.sum(0)
    results = (
        _before(counts),
        None,  # what ranks have sent to each other
        np.cumsum(received.reshape(rounds, -1), 1),
        _before(everyone)[:, :, mine].transpose(1, 2, 0),
        _before(of_rank.sum(1)),
        _before(of_rank),
        _before(received, 0).transpose(1, 2, 0),
        received.sum(),
        ranks.all_gather(np.array([tokens], np.int32)).max(),
        received.sum(2),
    )
    for target, values in zip(out, results):
        if values is not None:
            target[...] = np.reshape(values, target.shape)
    return [out[1]]


# ------------------------------------------------------------------------------------------------- there and back

aclnn.register_operator(
    """
aclnnStatus aclnnCamMoeDispatchNormalGetWorkspaceSize(
    const aclTensor *x, const aclTensor *topkIdx, const aclTensor *sendOffset, const aclTensor *sendTokenIdx,
    const aclTensor *recvOffset, const aclTensor *recvCount, const aclTensor *expert_global_offset,
    const aclTensor *srcrank_in_expert_offset, const aclTensor *r_in_srcrank_offset, char *groupEp, int64_t epWorldSize,
    int64_t epRankId, char *groupTpOptional, int64_t tpWorldSize, int64_t tpRankId, int64_t moeExpertNum,
    int64_t quantMode, int64_t realMaxBs, int64_t globalBs, int32_t round, int32_t perRoundTokens,
    const aclTensor *recvX, const aclTensor *recvXScales, const aclTensor *assistInfoForCombine,
    const aclTensor *waitRecvCostStats, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions=dict.fromkeys(("recvX", "recvXScales", "assistInfoForCombine", "waitRecvCostStats"), "out"),
    optional=("waitRecvCostStats",),
)

rule(
    "aclnnCamMoeDispatchNormal",
    only_products("A3"),
    dtypes(HALVES, "x"),
    dtypes("INT32", "topkIdx", "sendOffset", "sendTokenIdx", "recvOffset", "recvCount"),
    dtypes("INT32", "expert_global_offset", "srcrank_in_expert_offset", "r_in_srcrank_offset"),
    dtypes("FLOAT", "recvXScales"),
    dtypes("INT32", "assistInfoForCombine", "waitRecvCostStats"),
    tiling(
        rank(2, "x", "topkIdx", "recvX"),
        rank(1, "recvXScales", "assistInfoForCombine", "waitRecvCostStats"),
        one_of("quantMode", 0, _DYNAMIC),
        when("quantMode == 0", same_dtype("x", "recvX")),
        when(f"quantMode == {_DYNAMIC}", dtypes("INT8", "recvX")),
        require("0 < epWorldSize <= 384", "0 <= epRankId < epWorldSize", "0 < moeExpertNum <= 1024"),
        require("moeExpertNum % epWorldSize == 0", argument="moeExpertNum"),
        positive("round", "perRoundTokens"),
        require("topkIdx[0] == x[0]", "0 < topkIdx[1] <= 16"),
        require("sendTokenIdx == topkIdx"),
        require("recvX[1] == x[1]"),
        require("assistInfoForCombine[0] >= 3 * recvX[0]", "recvXScales[0] >= recvX[0]"),
        require("expert_global_offset.size == moeExpertNum // epWorldSize", argument="expert_global_offset"),
        require("srcrank_in_expert_offset.size == moeExpertNum", argument="srcrank_in_expert_offset"),
        require("r_in_srcrank_offset.size == round * moeExpertNum", argument="r_in_srcrank_offset"),
    ),
    infer_shape(waitRecvCostStats="None"),
)


@reference("aclnnCamMoeDispatchNormal", raw=True, communicates=True)
def cam_moe_dispatch_normal(
    x: Array,
    topk_idx: Array,
    send_offset: Array,
    send_place: Array,
    recv_offset: Array,
    recv_count: Array,
    expert_offset: Array,
    source_offset: Array,
    round_offset: Array,
    group: str,
    size: int,
    rank_id: int,
    tp_group: Optional[str],
    tp_size: int,
    tp_rank: int,
    experts: int,
    quant_mode: int,
    most: int,
    global_most: int,
    rounds: int,
    each: int,
    *,
    out: Sequence[Any],
) -> list[Any]:
    """Rows by expert, source rank and round; of each, which rank, token and choice it is, and its scale where quantised."""
    ranks = _ranks(group, size, rank_id)
    recv_x, scales, sources, statistics = out
    local = experts // size
    valid, expert = _chosen(topk_idx, experts)
    token, choice = np.divmod(valid, topk_idx.shape[1])
    notes = np.stack([expert % local, _rounds(len(x), each)[token], send_place.reshape(-1)[valid], token, choice], 1)
    rows, row_scales = x[token], np.zeros((token.size, 1), np.float32)
    if quant_mode == _DYNAMIC:
        wide = widen(rows)
        factor = np.float32(127) / (np.abs(wide).max(1, keepdims=True, initial=0) + np.float32(1e-12))
        rows, row_scales = np.rint(wide * factor).astype(np.int8), 1 / factor
    ends = np.searchsorted(expert, np.arange(1, size) * local)
    arrived = [ranks.all_to_all(np.split(part, ends)) for part in (notes, rows, row_scales)]
    recv_x[...], scales[...], sources[...] = 0, 0, 0
    for source, (note, row, scale) in enumerate(zip(*arrived)):
        at, turn, within, token, choice = note.T
        pair = at * size + source
        place = expert_offset.reshape(-1)[at] + source_offset.reshape(-1)[pair]
        place = place + round_offset.reshape(-1)[pair * rounds + turn] + within
        if place.size and place.max() >= len(recv_x):
            raise DataError("recvX", f"has {len(recv_x)} rows; row {place.max()} is written")
        recv_x[place], scales[place] = row, scale[:, 0]
        sources[: 3 * len(recv_x)].reshape(-1, 3)[place] = np.stack([np.full_like(token, source), token, choice], 1)
    return [statistics]


def _chosen(topk_idx: Array, experts: int) -> tuple[Array, Array]:
    """The copies of tokens that have an expert, by expert, and their experts."""
    flat = topk_idx.reshape(-1).astype(np.int64)
    if flat.size and flat.max() >= experts:
        raise DataError("topkIdx", f"has expert {flat.max()}; allowed: 0 to {experts - 1}, and below 0 for none")
    order = np.argsort(flat, kind="stable")
    valid = order[flat[order] >= 0]
    return valid, flat[valid]


aclnn.register_operator(
    """
aclnnStatus aclnnCamMoeCombineNormalGetWorkspaceSize(
    const aclTensor *recvX, const aclTensor *tokenSrcInfo, const aclTensor *epRecvCounts,
    const aclTensor *recvTopkWeights, const aclTensor *tokenIdx, const aclTensor *tpRecvCountsOptional,
    char *epGroupName, int64_t epWorldSize, int64_t epRankId, char *tpGroupNameOptional, int64_t tpWorldSize,
    int64_t tpRankId, int64_t moeExpertNum, int64_t realMaxBs, int32_t round, int32_t per_round_tokens,
    const aclTensor *out, const aclTensor *sendCostStats, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"sendCostStats": "out"},
    optional=("sendCostStats",),
)

rule(
    "aclnnCamMoeCombineNormal",
    only_products("A3"),
    dtypes(HALVES, "recvX"),
    same_dtype("recvX", "out"),
    dtypes("INT32", "tokenSrcInfo", "epRecvCounts", "tokenIdx", "tpRecvCountsOptional", "sendCostStats"),
    dtypes("FLOAT", "recvTopkWeights"),
    tiling(
        rank(2, "recvX", "recvTopkWeights", "tokenIdx"),
        rank(1, "tokenSrcInfo"),
        require("tokenSrcInfo[0] >= 3 * recvX[0]"),
        require("0 < epWorldSize <= 384", "0 <= epRankId < epWorldSize", "0 < moeExpertNum <= 1024"),
        require("epRecvCounts.size == moeExpertNum", argument="epRecvCounts"),
        require("tokenIdx == recvTopkWeights"),
        output_shape(out="(recvTopkWeights[0], recvX[1])"),
    ),
    infer_shape(sendCostStats="None"),
)


@reference("aclnnCamMoeCombineNormal", raw=True, communicates=True)
def cam_moe_combine_normal(
    recv_x: Array,
    sources: Array,
    recv_counts: Array,
    weights: Array,
    topk_idx: Array,
    tp_counts: Any,
    group: str,
    size: int,
    rank_id: int,
    tp_group: Optional[str],
    tp_size: int,
    tp_rank: int,
    experts: int,
    most: int,
    rounds: int,
    each: int,
    *,
    out: Sequence[Any],
) -> list[Any]:
    """The weighted sums of the rows that a dispatch has sent away, in the order of each token's experts."""
    ranks = _ranks(group, size, rank_id)
    total = int(recv_counts.reshape(-1)[-1])
    if not 0 <= total <= len(recv_x):
        raise DataError("epRecvCounts", f"ends with {total}; recv_x has {len(recv_x)} rows")
    notes = sources[: 3 * total].reshape(-1, 3)
    order = np.argsort(notes[:, 0], kind="stable")
    ends = np.searchsorted(notes[order, 0], np.arange(1, size))
    places = np.concatenate(ranks.all_to_all(np.split(notes[order, 1:], ends)))
    rows = np.concatenate(ranks.all_to_all(np.split(recv_x[:total][order], ends)))
    copies = np.zeros((*topk_idx.shape, recv_x.shape[1]), np.float32)
    if places.size and not ((places >= 0) & (places < topk_idx.shape)).all():
        raise DataError("tokenSrcInfo", "is not what a dispatch of this group has written")
    copies[tuple(places.T)] = widen(rows)
    present = (topk_idx >= 0) & (topk_idx < experts)
    round_into(out[0], (copies * np.where(present, weights, 0)[..., None]).sum(1))
    return [out[1]]


# ------------------------------------------------------------------------------------------------- low latency

_dispatch_v2, _combine_v2 = function_of("aclnnMoeDistributeDispatchV2"), function_of("aclnnMoeDistributeCombineV2")

aclnn.register_operator(
    """
aclnnStatus aclnnMoeLowLatencyDispatchV2GetWorkspaceSize(
    const aclTensor *x, const aclTensor *expertIds, const aclTensor *scalesOptional, const aclTensor *xActiveMaskOptional,
    char *groupEp, int64_t epWorldSize, int64_t epRankId, int64_t moeExpertNum, char *groupTp, int64_t tpWorldSize,
    int64_t tpRankId, int64_t expertShardType, int64_t sharedExpertNum, int64_t sharedExpertRankNum, int64_t quantMode,
    int64_t globalBs, int64_t expertTokenNumsType, char *commAlg, const aclTensor *expandXOut, const aclTensor *dynamicScalesOut,
    const aclTensor *assistInfoForCombineOut, const aclTensor *expertTokenNumsOut, const aclTensor *epRecvCountsOut,
    const aclTensor *tpRecvCountsOut, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    optional=("groupTp", "commAlg"),
)
rule(
    "aclnnMoeLowLatencyDispatchV2",
    words_of("aclnnMoeDistributeDispatchV2"),
    dtypes(HALVES, "x"),
    nullable="groupEp groupTp dynamicScalesOut tpRecvCountsOut",
)


@reference("aclnnMoeLowLatencyDispatchV2", raw=True, communicates=True)
def moe_low_latency_dispatch_v2(*arguments: Any, out: Sequence[Any]) -> Any:
    """MoeDistributeDispatchV2 without its scales of experts."""
    return _dispatch_v2(*arguments[:4], None, *arguments[4:], out=(*out, None))


aclnn.register_operator(
    """
aclnnStatus aclnnMoeLowLatencyCombineV2GetWorkspaceSize(
    const aclTensor *expandX, const aclTensor *expertIds, const aclTensor *assistInfoForCombine, const aclTensor *epSendCounts,
    const aclTensor *expertScales, const aclTensor *tpSendCountsOptional, const aclTensor *xActiveMaskOptional,
    const aclTensor *activationScaleOptional, const aclTensor *weightScaleOptional, const aclTensor *groupListOptional,
    const aclTensor *expandScalesOptional, const aclTensor *sharedExpertXOptional, char *groupEp, int64_t epWorldSize,
    int64_t epRankId, int64_t moeExpertNum, char *groupTp, int64_t tpWorldSize, int64_t tpRankId, int64_t expertShardType,
    int64_t sharedExpertNum, int64_t sharedExpertRankNum, int64_t globalBs, int64_t outDtype, int64_t commQuantMode,
    int64_t groupListType, char *commAlg, const aclTensor *xOut, const aclTensor *sendCostStats, uint64_t *workspaceSize,
    aclOpExecutor **executor);
""",
    directions={"sendCostStats": "out"},
    optional=("groupTp", "commAlg", "sendCostStats"),
)
rule(
    "aclnnMoeLowLatencyCombineV2",
    words_of("aclnnMoeDistributeCombineV2"),
    dtypes("INT32", "sendCostStats"),
    infer_shape(sendCostStats="None"),
    nullable="groupEp groupTp",
)


@reference("aclnnMoeLowLatencyCombineV2", raw=True, communicates=True)
def moe_low_latency_combine_v2(*arguments: Any, out: Sequence[Any]) -> list[Any]:
    """MoeDistributeCombineV2; how long ranks have waited for each other is not known here."""
    _combine_v2(*arguments, out=out[:1])
    return [out[1]]


# ------------------------------------------------------------------------------------------------- experts included

aclnn.register_operator(
    """
aclnnStatus aclnnDispatchFFNCombineGetWorkspaceSize(
    const aclTensor *x, const aclTensor *weight1, const aclTensor *weight2, const aclTensor *expertId,
    const aclTensor *scale1, const aclTensor *scale2, const aclTensor *probs, const char *group, int64_t epRankSize,
    int64_t epRankId, int64_t maxOutputSize, const aclTensor *out, const aclTensor *expertTokenNums, uint64_t *workspaceSize,
    aclOpExecutor **executor);
""",
    directions={"expertTokenNums": "out"},
)

rule(
    "aclnnDispatchFFNCombine",
    only_products("A3"),
    dtypes(HALVES, "x"),
    same_dtype("x", "out"),
    dtypes("INT8", "weight1", "weight2"),
    dtypes("INT32", "expertId", "expertTokenNums"),
    dtypes("INT64", "scale1", "scale2"),
    dtypes("FLOAT", "probs"),
    tiling(
        rank(2, "x", "expertId", "probs", "out"),
        rank(3, "weight1", "weight2"),
        require("0 <= epRankId < epRankSize", "maxOutputSize > 0"),
        require("expertId[0] == x[0]"),
        require("probs == expertId"),
        require("weight1[1] == x[1]", "weight1[2] == 2 * weight2[1]", argument="weight1"),
        require("weight2[0] == weight1[0]", "weight2[2] == x[1]", argument="weight2"),
        require("scale1.size == weight1[0] * weight1[2]", argument="scale1"),
        require("scale2.size == weight2[0] * weight2[2]", argument="scale2"),
        rank(1, "expertTokenNums"),
        require("expertTokenNums[0] >= weight1[0]"),
        like(out="x"),
    ),
    infer_shape(expertTokenNums="weight1[:1]"),
)


def _quantised(rows: Array) -> tuple[Array, Array]:
    """Rows as INT8, and what each row was divided by."""
    scales = np.abs(rows).max(-1, keepdims=True, initial=0) / np.float32(127)
    return rounded_to(rows / np.where(scales == 0, 1, scales), np.int8), scales


def _half_product(codes: Array, weight: Array, scale: Array) -> Array:
    """A product of integers by the columns' scales, in FLOAT16, as the cube unit hands it over."""
    return widen(rounded_to(exact_product(codes, weight).astype(np.float32) * fixed_scale(scale), np.float16))


@reference("aclnnDispatchFFNCombine", raw=True, communicates=True)
def dispatch_ffn_combine(
    x: Array,
    weight1: Array,
    weight2: Array,
    expert_ids: Array,
    scale1: Array,
    scale2: Array,
    probs: Array,
    group: str,
    size: int,
    rank_id: int,
    most: int,
    *,
    out: Sequence[Array],
) -> None:
    """Each token through its experts, wherever these are: two products of INT8 with SwiGLU between; then their weighted sum.

    Scales have a row for each expert of the rank. Rows are quantised by their largest magnitude in front of both products.
    """
    ranks, local = _ranks(group, size, rank_id), len(weight1)
    if expert_ids.size and expert_ids.min() < 0:
        raise DataError("expertId", f"has expert {expert_ids.min()}; allowed: 0 to {local * size - 1}")
    valid, expert = _chosen(expert_ids, local * size)
    codes, scales = _quantised(widen(x)[valid // expert_ids.shape[1]])
    ends = np.searchsorted(expert, np.arange(1, size) * local)
    arrived = [ranks.all_to_all(np.split(part, ends)) for part in (expert % local, codes, scales)]
    numbers, codes, scales = (np.concatenate(parts) for parts in arrived)
    if numbers.size > most:
        raise DataError("maxOutputSize", f"is {most}; {numbers.size} tokens have come to the experts of this rank")
    rows = np.empty((len(codes), x.shape[1]), x.dtype)
    for number, (first, second) in enumerate(zip(scale1.reshape(local, -1), scale2.reshape(local, -1))):
        mine = numbers == number
        left, right = np.split(_half_product(codes[mine], weight1[number], first) * scales[mine], 2, axis=1)
        inner, inner_scales = _quantised(left / (1 + np.exp(-left)) * right)
        rows[mine] = rounded_to(_half_product(inner, weight2[number], second) * inner_scales, x.dtype)
    sizes = [len(part) for part in arrived[0]]
    back = np.concatenate(ranks.all_to_all(np.split(rows, np.cumsum(sizes)[:-1])))
    copies = np.empty((valid.size, x.shape[1]), np.float32)
    copies[valid] = widen(back)
    round_into(out[0], (copies.reshape(*probs.shape, -1) * probs[..., None]).sum(1))
    out[1][...] = 0
    out[1][:local] = np.bincount(numbers, minlength=local)
