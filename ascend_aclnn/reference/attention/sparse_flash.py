"""Sparse flash attention: every query attends to the blocks of keys that an indexer chose for it (MLA, one head of keys)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, widen
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.attention._blocks import (
    Side,
    from_zero,
    joined,
    packed_parts,
    seen_keys,
    side,
    softmax_derivative,
    softmax_or_zero,
    tokens_of_blocks,
)

_CAUSAL = 3


class _Row(NamedTuple):
    """One query: where it lies, and the keys of its sequence that it attends to."""

    where: Any  # of its sequence
    row: int
    number: int
    tokens: Array


class _Sides(NamedTuple):
    queries: Side
    keys: Side


def _sides(args: NamedArguments, layout_q: str, layout_k: str) -> _Sides:
    names = "actualSeqLengthsQuery", "actualSeqLengthsKv"
    sides = []
    for x, name, layout, table in (
        (args["query"], names[0], layout_q, None),
        (args["key"], names[1], layout_k, args["blockTable"]),
    ):
        totals, used = (from_zero(args[name]), None) if layout == "TND" else (None, args[name])
        sides.append(side(x, layout, (name + "Optional",) * 2, totals, used, table))
    return _Sides(*sides)


def _rows(args: NamedArguments, sides: _Sides, block: int) -> Iterator[_Row]:
    for number in range(len(sides.queries)):
        many, there = sides.queries.lengths[number], sides.keys.lengths[number]
        seen = seen_keys(many, there, causal=args["sparseMode"] == _CAUSAL)
        where = sides.queries.at(number)
        for row in range(many):
            blocks = args["sparseIndices"][where][row, 0]
            check_range("sparseIndices", blocks[blocks >= 0], 0, max(1, -(-there // block)))
            yield _Row(where, row, number, tokens_of_blocks(blocks, block, int(seen[row])))


def _statistics(values: Array) -> Array:
    """(batch, tokens, heads) as (batch, 1, tokens, heads), (tokens, heads) as (1, tokens, heads)."""
    return np.expand_dims(values, -3)


def _attend(
    args: NamedArguments, query: Array, key: Array, value: Array, sides: _Sides, block: int
) -> tuple[Array, ...]:
    """Results, largest scores and sums; a query that sees nothing gives zeros."""
    output = np.zeros((*query.shape[:-1], value.shape[-1]), np.float32)
    row_max, row_sum = (np.zeros(query.shape[:-1], np.float32) for _ in range(2))
    sinks, scale = args["sinks"], np.float32(args["scaleValue"])
    current: tuple[int, Array, Array] = (-1, key, value)
    for part in _rows(args, sides, block):
        if current[0] != part.number:
            keys, values = (sides.keys.take(x, part.number)[:, 0] for x in (key, value))
            current = (part.number, keys, values)
        scores = (query[part.where][part.row] @ current[1][part.tokens].T) * scale
        hidden = np.zeros(scores.shape, bool)
        attended = softmax_or_zero(scores, hidden, None if sinks is None else sinks[:, None])
        output[part.where][part.row] = attended.probabilities @ current[2][part.tokens]
        row_max[part.where][part.row], row_sum[part.where][part.row] = attended.row_max[:, 0], attended.row_sum[:, 0]
    return output, _statistics(row_max), _statistics(row_sum)


@reference_by_name("aclnnSparseFlashAttention", "aclnnSparseFlashAttentionV2")
def sparse_flash_attention(args: NamedArguments) -> dict[str, Any]:
    """softmax(query @ key~^T scale) @ value~, both of the chosen blocks; without values the keys are the values."""
    value = args["key"] if args["value"] is None else args["value"]
    query, key = joined(args["query"], args["queryRope"]), joined(args["key"], args["keyRope"])
    sides = _sides(args, args["layoutQuery"] or "BSND", args["layoutKv"] or "BSND")
    output, row_max, row_sum = _attend(args, query, key, value, sides, args["sparseBlockSize"])
    wanted = args["returnSoftmaxLse"]
    return {
        "attentionOut": output,
        "softmaxMax": row_max if wanted else None,
        "softmaxSum": row_sum if wanted else None,
    }


@reference_by_name("aclnnKvQuantSparseFlashAttention", "aclnnKvQuantSparseFlashAttentionV2", raw=True)
def kv_quant_sparse_flash_attention(args: NamedArguments) -> dict[str, Array]:
    """The same with keys of 8 bits in one tensor: elements, then the rotated part, then a float32 scale for each tile."""
    query, rope = args["query"], args["ropeHeadDim"]
    width = query.shape[-1] - rope
    parts = packed_parts(args["key"], (width, args["key"].dtype), (rope, args["query"].dtype), (-1, np.float32))
    nope, rotated, scale = (widen(part).astype(np.float32) for part in parts)
    tiles = -(-width // args["tileSize"])
    whole = nope * np.repeat(scale[..., :tiles], args["tileSize"], -1)[..., :width]
    sides = _sides(args, args["layoutQuery"] or "BSND", args["layoutKv"] or "BSND")
    key = np.concatenate([whole, rotated], -1)
    return {"out": _attend(args, widen(query), key, whole, sides, args["sparseBlockSize"])[0]}


@reference_by_name("aclnnSparseFlashAttentionGrad", "aclnnSparseFlashAttentionGradV2")
def sparse_flash_attention_grad(args: NamedArguments) -> dict[str, Any]:
    """Without values the keys are the values, and their gradient is the sum of both.

    A sink is one more key of each head, whose value is 0: the statistics of the softmax have it.
    """
    merged = args["value"] is None
    value = args["key"] if merged else args["value"]
    query, key = joined(args["query"], args["queryRope"]), joined(args["key"], args["keyRope"])
    dq, dk, dv = (np.zeros(x.shape, np.float32) for x in (query, key, value))
    scale = np.float32(args["scaleValue"])
    layout = args["layout"] or "BSND"
    sides = _sides(args, layout, layout)
    row_max, row_sum = (args[name].squeeze(-3) for name in ("softmaxMax", "softmaxSum"))
    sinks = args["sinks"]
    dsinks = None if sinks is None else np.zeros(sinks.shape, np.float32)
    for where, row, number, tokens in _rows(args, sides, args["sparseBlockSize"]):
        at = sides.keys.at(number)
        keys, values, q = key[at][tokens, 0], value[at][tokens, 0], query[where][row]
        weights = np.exp((q @ keys.T) * scale - row_max[where][row][:, None])
        probabilities = weights / row_sum[where][row][:, None]
        dy = args["dOut"][where][row]
        derivative = softmax_derivative(probabilities, dy @ values.T) * scale
        if dsinks is not None:
            of_sinks = np.exp(sinks - row_max[where][row]) / row_sum[where][row]
            dsinks -= of_sinks * (probabilities * (dy @ values.T)).sum(-1)
        dq[where][row] = derivative @ keys
        dk[at][tokens, 0] += derivative.T @ q  # a token is chosen once
        dv[at][tokens, 0] += probabilities.T @ dy
    width = args["query"].shape[-1]
    results = {"dQueryOut": dq[..., :width], "dKeyOut": dk[..., :width] + (dv if merged else 0)}
    if args["queryRope"] is not None:
        results |= {"dQueryRopeOut": dq[..., width:], "dKeyRopeOut": dk[..., width:]}
    return results | {"dValueOut": None if merged else dv, "dSinks": dsinks}


# The values of the codes of 4 bits (turbo_quant_sparse_flash_attention_service_vector_mla.h).
_CENTROIDS = np.array(
    [
        *(-0.12091285, -0.09111122, -0.07112455, -0.05513602, -0.04132067, -0.02874970, -0.01700489, -0.00568677),
        *(0.00547294, 0.01680406, 0.02857605, 0.04108622, 0.05492980, 0.07101817, 0.09115373, 0.12037795),
    ],
    ml_dtypes.bfloat16,
).astype(np.float32)


@reference_by_name("aclnnTurboQuantSparseFlashAttention", raw=True)
def turbo_quant_sparse_flash_attention(args: NamedArguments) -> dict[str, Any]:
    """Keys that are values too: codes of a book, two in a byte, the rotated part, and one factor of all that."""
    width, rope = args["query"].shape[-1] - args["ropeHeadDim"], args["ropeHeadDim"]
    parts = packed_parts(args["key"], (width // 2, np.uint8), (rope, ml_dtypes.bfloat16), (1, np.float16))
    pairs, rotated, factor = parts[0], widen(parts[1]), widen(parts[2])
    codes = np.stack([pairs & 15, pairs >> 4], -1).reshape(*pairs.shape[:-1], width)
    value = _CENTROIDS[codes] * factor
    key = np.concatenate([value, rotated * factor], -1)
    sides = _sides(args, args["layoutQuery"] or "TND", args["layoutKv"] or "PA_BSND")
    output, row_max, row_sum = _attend(args, widen(args["query"]), key, value, sides, args["sparseBlockSize"])
    wanted = args["returnSoftmaxLse"]
    return {
        "attentionOutOut": output,
        "softmaxMaxOut": row_max if wanted else None,
        "softmaxSumOut": row_sum if wanted else None,
    }
