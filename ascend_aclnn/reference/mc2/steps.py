"""What keeps ranks in step, and tests and tables beside dispatch and combine."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import Array, widen
from ascend_aclnn.reference._named import Given, reference_by_name
from ascend_aclnn.reference.declare import DataError
from ascend_aclnn.reference.mc2.common import Arguments, communicating, remaining

_LINKS = "links that were tested"


@communicating("aclnnDistributeBarrier", "aclnnDistributeBarrierV2")
def distribute_barrier(given: Arguments) -> None:
    """Returns when all ranks have come, those that elasticInfo leaves; x is left as it is.

    A rank that waits longer than timeOut (microseconds, if above 0) stops, as the kernel's assertion does; then the group
    has failed for all.
    """
    ranks, elastic, limit = given.ranks(size="worldSize"), given["elasticInfo"], given["timeOut"]
    if elastic is not None and elastic.reshape(-1)[:1].any():
        ranks, _, _ = remaining(given, ranks, elastic.reshape(-1))
    microseconds = 0 if limit is None else int(limit.reshape(-1)[0])
    ranks.barrier(microseconds / 1e6 if microseconds > 0 else None)


@communicating("aclnnMoeDistributeBufferReset")
def moe_distribute_buffer_reset(given: Arguments) -> None:
    """The ranks wait for each other if needSync; no buffer outlives an operator here, so there is none to clear."""
    ranks = given.ranks("groupEp", "epWorldSize")
    ranks.kept.pop(_LINKS, None)
    if given["needSync"]:
        ranks.barrier()


@communicating("aclnnElasticReceivableTest")
def elastic_receivable_test(given: Arguments) -> None:
    """Tells all ranks whom this one has sent to: the server of rank_num ranks that dstRank[0] is in.

    On cards the ranks write to each other and need not all take part; here all ranks of the group do.
    """
    ranks, count = given.ranks(size="worldSize"), given["rank_num"]
    first = int(given["dstRank"].reshape(-1)[0]) // count * count
    sent = np.zeros(ranks.size, np.int32)
    sent[first : first + count] = 1
    ranks.kept[_LINKS] = ranks.kept.get(_LINKS, 0) | ranks.all_gather(sent)


@communicating("aclnnElasticReceivableInfoCollect")
def elastic_receivable_info_collect(given: Arguments) -> None:
    """y[i, j] is j + 1 where rank i has received from rank j; row i is 0 where this rank has not received from rank i."""
    ranks = given.ranks(size="worldSize")
    links = ranks.kept.pop(_LINKS, np.zeros((ranks.size, ranks.size), np.int32))  # from, to
    heard = links.T * np.arange(1, ranks.size + 1)
    given.store("y", heard * (links[:, ranks.rank] > 0)[:, None])


@communicating("aclnnBandwidthTest")
def bandwidth_test(given: Arguments) -> None:
    """Each row to its rank; rows arrive by the rank that sent them. In mode 1 nothing is received."""
    ranks, x, target = given.ranks(size="worldSize"), given["x"], given["dstRankId"].reshape(-1)
    if target.size and (target.min() < 0 or target.max() >= ranks.size):
        raise DataError("dstRankId", f"has values up to {target.max()}; they must be in [0, {ranks.size - 1}]")
    parts = ranks.all_to_all([x[target == rank] for rank in range(ranks.size)])
    if given["mode"] == 0:
        given.store_front("y", np.concatenate(parts))
        given.store_front("receiveCnt", np.array([len(part) for part in parts]))


@reference_by_name("aclnnMoeUpdateExpert", raw=True)
def moe_update_expert(given: Given) -> dict[str, Array]:
    """The copy of each expert that this rank (balanceMode 0) or the token's number chooses, and who is kept.

    A row of eplbTable has the number of copies, then their places. A token's expert is kept whose weight reaches its
    threshold times the sum of the token's weights: so the kernel; the document says the contrary.
    """
    ids, table = given["expertIds"].astype(np.int64), given["eplbTable"]
    if ids.size and (ids.min() < 0 or ids.max() >= len(table)):
        raise DataError(
            "expertIds", f"has values from {ids.min()} to {ids.max()}; they must be in [0, {len(table) - 1}]"
        )
    copies = table[ids, 0].astype(np.int64)
    if copies.size and (copies.min() < 1 or copies.max() >= table.shape[1]):
        raise DataError(
            "eplbTable", f"has {copies.min()} to {copies.max()} copies; it must be 1 to {table.shape[1] - 1}"
        )
    if given["balanceMode"] == 0:
        chosen = given["localRankId"] // -(-given["worldSize"] // copies)
    else:
        chosen = np.arange(len(ids))[:, None] % copies
    chosen = np.where(copies == 1, 0, chosen)
    if chosen.size and (chosen.min() < 0 or (chosen >= copies).any()):
        raise DataError("localRankId", f"is {given['localRankId']}; it must be in [0, {given['worldSize'] - 1}]")
    made = {
        "balancedExpertIds": np.take_along_axis(table[ids.reshape(-1)], chosen.reshape(-1, 1) + 1, 1).reshape(ids.shape)
    }
    scales, threshold = given["expertScales"], given["pruningThreshold"]
    if scales is not None and threshold is not None:
        wide = widen(scales)
        kept = wide >= threshold.reshape(-1) * wide.sum(axis=1, keepdims=True, dtype=np.float32)
        mask = given["activeMask"]
        made["balancedActiveMask"] = kept if mask is None else kept & mask.astype(bool)[:, None]
    return made
