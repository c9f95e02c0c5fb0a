"""Grouped products around an exchange of rows between the ranks of experts.

Counts are by rank, then by that rank's expert: ``counts[rank * experts + expert]``. Rows that are sent or received lie in
that order; rows that are multiplied lie by expert, then by the rank that they come from or go to.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.collectives.groups import Ranks
from ascend_aclnn.numerics import Array, rounded_to
from ascend_aclnn.reference.declare import DataError
from ascend_aclnn.reference.mc2._local import E8M0, product
from ascend_aclnn.reference.mc2.common import Arguments, communicating


def _counts(args: Arguments, name: str, experts: int, rows: Optional[int] = None) -> Array:
    """(ranks, experts)."""
    counts = np.asarray(args[name], np.int64)
    size = args["epWorldSize"]
    if counts.size != size * experts or (counts < 0).any():
        raise DataError(name, f"is {counts.tolist()}; it must have {size * experts} counts, {experts} for each rank")
    if rows is not None and counts.sum() != rows:
        raise DataError(name, f"adds up to {counts.sum()}; there are {rows} rows")
    return counts.reshape(size, experts)


def _split(x: Array, sizes: Any) -> list[Array]:
    return np.split(x, np.cumsum(sizes)[:-1])


def _by_expert(parts: list[Array], received: Array) -> Array:
    """Rows by rank and expert, put in the order of expert and rank."""
    blocks = [_split(part, received[rank]) for rank, part in enumerate(parts)]
    return np.concatenate([blocks[rank][expert] for expert in range(received.shape[1]) for rank in range(len(parts))])


def _exchange(ranks: Ranks, x: Array, sent: Array, received: Array, name: str) -> list[Array]:
    """Rows by rank, from rows by rank; DataError where a rank sends another number than is expected of it."""
    parts = ranks.all_to_all(_split(x, sent.sum(axis=1)))
    for rank, part in enumerate(parts):
        if len(part) != received[rank].sum():
            raise DataError(name, f"expects {received[rank].sum()} rows of rank {rank}, which sends {len(part)}")
    return parts


def _products(args: Arguments, x: Array, scales: Optional[Array], counts: Array) -> Array:
    """The rows of each expert by its weight."""
    weight, scale, transposed = args["gmmWeight"], args["gmmWeightScale"], args["transGmmWeight"]
    of_blocks = scale is not None and scale.dtype == E8M0  # (n, k / 64, 2) or, as the weight, (k / 64, n, 2)
    parts, scale_parts = _split(x, counts), [scales] * len(counts)
    if scales is not None and scales.dtype == E8M0:
        scale_parts = list(_split(scales, counts))
    products = []
    for expert, (rows, row_scales) in enumerate(zip(parts, scale_parts)):
        matrix = weight[expert].T if transposed else weight[expert]
        products.append(product(rows, matrix, None, row_scales, scale[expert] if of_blocks else scale))
    return np.concatenate(products)


def _shared_expert(args: Arguments) -> None:
    """Beside it, the product of the shared expert, which does not communicate."""
    x, weight = args["mmX"], args["mmWeight"]
    if x is not None and weight is not None:
        matrix = weight.T if args["transMmWeight"] else weight
        args.store("mmY", product(x, matrix, None, args["mmXScale"], args["mmWeightScale"]))


@communicating(
    "aclnnAlltoAllvGroupedMatMul",
    "aclnnAlltoAllvGroupedMatMulV2",
    "aclnnAlltoAllvQuantGroupedMatMul",
    "aclnnAlltoAllvQuantGroupedMatMulV2",
)
def all_to_all_v_grouped_matmul(args: Arguments) -> None:
    """Rows go to the ranks of their experts and are multiplied there."""
    ranks, x, scales, experts = (
        args.ranks(size="epWorldSize"),
        args["gmmX"],
        args["gmmXScale"],
        len(args["gmmWeight"]),
    )
    sent, received = _counts(args, "sendCounts", experts, len(x)), _counts(args, "recvCounts", experts)
    rows = _by_expert(_exchange(ranks, x, sent, received, "recvCounts"), received)
    if scales is not None and scales.dtype == E8M0:
        scales = _by_expert(_exchange(ranks, scales, sent, received, "recvCounts"), received)
    args.store("gmmY", _products(args, rows, scales, received.sum(axis=0)))
    args.store("permute", rows)
    _shared_expert(args)


@communicating(
    "aclnnGroupedMatMulAlltoAllv",
    "aclnnGroupedMatMulAlltoAllvV2",
    "aclnnQuantGroupedMatMulAlltoAllv",
    "aclnnQuantGroupedMatMulAlltoAllvV2",
)
def grouped_matmul_all_to_all_v(args: Arguments) -> None:
    """The way back: each expert's rows are multiplied and sent to the ranks that they came from."""
    ranks, x, experts = args.ranks(size="epWorldSize"), args["gmmX"], len(args["gmmWeight"])
    sent, received = _counts(args, "sendCounts", experts, len(x)), _counts(args, "recvCounts", experts)
    y = rounded_to(_products(args, x, args["gmmXScale"], sent.sum(axis=0)), args.out["y"].dtype)
    blocks = _split(y, sent.T.reshape(-1))  # by expert, then by rank
    by_rank = np.concatenate([blocks[e * ranks.size + rank] for rank in range(ranks.size) for e in range(experts)])
    args.store("y", np.concatenate(_exchange(ranks, by_rank, sent, received, "recvCounts")))
    _shared_expert(args)
