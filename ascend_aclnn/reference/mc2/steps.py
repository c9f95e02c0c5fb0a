"""What keeps ranks in step, and tests and tables beside dispatch and combine."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import Array, widen
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference.declare import DataError
from ascend_aclnn.reference.mc2.common import Arguments, communicating, remaining

_LINKS = "links that were tested"


@communicating("aclnnDistributeBarrier", "aclnnDistributeBarrierV2")
def distribute_barrier(args: Arguments) -> None:
    """Returns when all ranks have come, those that elasticInfo leaves; x is left as it is.

    A rank that waits longer than timeOut (microseconds, if above 0) stops, as the kernel's assertion does; then the group
    has failed for all.
    """
    ranks, elastic, limit = args.ranks(size="worldSize"), args["elasticInfo"], args["timeOut"]
    if elastic is not None and elastic.reshape(-1)[:1].any():
        ranks, _, _ = remaining(args, ranks, elastic.reshape(-1))
    microseconds = 0 if limit is None else int(limit.reshape(-1)[0])
    ranks.barrier(microseconds / 1e6 if microseconds > 0 else None)


@communicating("aclnnMoeDistributeBufferReset")
def moe_distribute_buffer_reset(args: Arguments) -> None:
    """The ranks wait for each other if needSync; no buffer outlives an operator here, so there is none to clear."""
    ranks = args.ranks("groupEp", "epWorldSize")
    ranks.state.pop(_LINKS, None)
    if args["needSync"]:
        ranks.barrier()


@communicating("aclnnElasticReceivableTest")
def elastic_receivable_test(args: Arguments) -> None:
    """Tells all ranks the receivers of this one: the server of rank_num ranks that dstRank[0] is in.

    On cards the ranks write to each other and need not all take part; here all ranks of the group do.
    """
    ranks, count = args.ranks(size="worldSize"), args["rank_num"]
    first = int(args["dstRank"].reshape(-1)[0]) // count * count
    sent = np.zeros(ranks.size, np.int32)
    sent[first : first + count] = 1
    ranks.state[_LINKS] = ranks.state.get(_LINKS, 0) | ranks.all_gather(sent)


@communicating("aclnnElasticReceivableInfoCollect")
def elastic_receivable_info_collect(args: Arguments) -> None:
    """y[i, j] is j + 1 where rank i has received from rank j; row i is 0 where this rank has not received from rank i."""
    ranks = args.ranks(size="worldSize")
    links = ranks.state.pop(_LINKS, np.zeros((ranks.size, ranks.size), np.int32))  # from, to
    heard = links.T * np.arange(1, ranks.size + 1)
    args.store("y", heard * (links[:, ranks.rank] > 0)[:, None])


@communicating("aclnnBandwidthTest")
def bandwidth_test(args: Arguments) -> None:
    """Each row to its rank; rows arrive by the rank that sent them. In mode 1 nothing is received."""
    ranks, x, target = args.ranks(size="worldSize"), args["x"], args["dstRankId"].reshape(-1)
    if target.size and (target.min() < 0 or target.max() >= ranks.size):
        raise DataError("dstRankId", f"has values up to {target.max()}; they must be in [0, {ranks.size - 1}]")
    parts = ranks.all_to_all([x[target == rank] for rank in range(ranks.size)])
    if args["mode"] == 0:
        args.store_front("y", np.concatenate(parts))
        args.store_front("receiveCnt", np.array([len(part) for part in parts]))


@reference_by_name("aclnnMoeUpdateExpert", raw=True)
def moe_update_expert(args: NamedArguments) -> dict[str, Array]:
    """The copy of each expert that this rank (balanceMode 0) or the token's number chooses, and which experts are kept.

    A row of eplbTable has the number of copies, then their places. A token's expert is kept whose weight reaches its
    threshold times the sum of the token's weights: so does the kernel; the document says the contrary.
    """
    ids, table = args["expertIds"].astype(np.int64), args["eplbTable"]
    if ids.size and (ids.min() < 0 or ids.max() >= len(table)):
        raise DataError(
            "expertIds", f"has values from {ids.min()} to {ids.max()}; they must be in [0, {len(table) - 1}]"
        )
    copies = table[ids, 0].astype(np.int64)
    if copies.size and (copies.min() < 1 or copies.max() >= table.shape[1]):
        raise DataError(
            "eplbTable", f"has {copies.min()} to {copies.max()} copies; it must be 1 to {table.shape[1] - 1}"
        )
    if args["balanceMode"] == 0:
        chosen = args["localRankId"] // -(-args["worldSize"] // copies)
    else:
        chosen = np.arange(len(ids))[:, None] % copies
    chosen = np.where(copies == 1, 0, chosen)
    if chosen.size and (chosen.min() < 0 or (chosen >= copies).any()):
        raise DataError("localRankId", f"is {args['localRankId']}; it must be in [0, {args['worldSize'] - 1}]")
    results = {
        "balancedExpertIds": np.take_along_axis(table[ids.reshape(-1)], chosen.reshape(-1, 1) + 1, 1).reshape(ids.shape)
    }
    scales, threshold = args["expertScales"], args["pruningThreshold"]
    if scales is not None and threshold is not None:
        wide = widen(scales)
        active = wide >= threshold.reshape(-1) * wide.sum(axis=1, keepdims=True, dtype=np.float32)
        mask = args["activeMask"]
        results["balancedActiveMask"] = active if mask is None else active & mask.astype(bool)[:, None]
    return results
