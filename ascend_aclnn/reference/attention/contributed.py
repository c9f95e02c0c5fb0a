"""Contributed attention over blocks of keys that are chosen beforehand, and what chooses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.attention._blocks import HIDDEN, Softmax, largest, paged, softmax_or_zero, spans
from ascend_aclnn.reference.attention._dense import attention_of, heads_first, in_layout

_ALL_TOKENS = 2**31 - 1
_CAUSAL = 3
_NO_BLOCK = 0xFFFF


@reference_by_name("aclnnBlitzSparseAttention")
def blitz_sparse_attention(args: NamedArguments) -> dict[str, Any]:
    """softmax(mask(query key^T scale + bias)) value, over the blocks of keys that ``sabi`` names for blocks of queries."""
    layout, heads = args["inputLayout"], args["numHeads"]
    shared = args["numKeyValueHeads"] or heads
    query, key, value = (
        heads_first(args[name], layout, count) for name, count in (("query", heads), ("key", shared), ("value", shared))
    )
    rows, columns = args["blockShape"] or (128, 128)
    batches, _, queries, _ = query.shape
    keys = key.shape[2]
    output, lse = np.zeros((*query.shape[:3], value.shape[3]), np.float32), np.zeros(query.shape[:3], np.float32)
    attention = attention_of(
        query,
        key,
        value,
        args["pseShift"],
        None,
        args["attenMask"],
        None,
        (None, None),
        args["scaleValue"],
        1.0,
        args["preTokens"],
        args["nextTokens"],
        heads,
        "BNSD",
        args["sparseMode"],
        0,
    )
    lengths, key_lengths = (
        list(args[name] or [most] * batches)
        for name, most in (("actualSeqLengths", queries), ("actualSeqLengthsKv", keys))
    )
    for block in (block for blocks in attention.blocks() for block in blocks):
        scores, hidden = attention.scores(block)  # batch, key head, share, query, key
        unseen = np.zeros(scores.shape, bool) if hidden is None else np.broadcast_to(hidden, scores.shape).copy()
        share = heads // shared
        for place, batch in enumerate(range(batches)[block.batches]):
            unseen[place][..., key_lengths[batch % len(key_lengths)] :] = True
            if args["sabi"] is not None:
                chosen = args["sabi"][batch].reshape(shared, share, *args["sabi"].shape[2:])[block.heads]
                unseen[place] |= ~_seen_blocks(chosen, rows, columns, queries, keys)[:, :, block.rows]
        attended = softmax_or_zero(scores, unseen)
        result = attended.probabilities @ value[block.batches, block.heads][:, :, None]
        for whole, part in ((output, result), (lse, attended.log_sum_exp[..., 0])):
            grouped = whole.reshape(batches, shared, share, *whole.shape[2:])
            grouped[block.batches, block.heads, :, block.rows] = part
    for batch, length in enumerate(lengths):
        output[batch, :, length:] = 0
    return {
        "attentionOut": in_layout(output, layout),
        "softmaxLse": lse if args["softmaxLseFlag"] else None,
    }


def _seen_blocks(chosen: Array, rows: int, columns: int, queries: int, keys: int) -> Array:
    """For each query and key whether the key's block is among those of the query's; (..., queries, keys)."""
    many = -(-keys // columns)
    valid = chosen != _NO_BLOCK
    check_range("sabi", chosen[valid], 0, many)
    seen = np.zeros((*chosen.shape[:-1], many), bool)
    places = np.nonzero(valid)
    seen[(*places[:-1], chosen[valid])] = True
    return np.repeat(np.repeat(seen, rows, -2)[..., :queries, :], columns, -1)[..., :keys]


@reference_by_name("aclnnMinimaxSparseAttentionSplitKv")
def minimax_sparse_attention_split_kv(args: NamedArguments) -> dict[str, Array]:
    """Causal attention over the blocks of pages whose lists name the query; what each has found is merged.

    Lists are of heads of keys and of blocks: the first blocks of all sequences, the second ones of those that have them, ...
    """
    query, table = args["query"], args["blockTable"]
    size, heads = args["key"].shape[1:3]
    share, scale = query.shape[1] // heads, np.float32(args["scaleValue"])
    lengths, key_lengths = (args[name].astype(np.int64) for name in ("actualSeqLengths", "actualSeqLengthsKv"))
    ends = np.cumsum(lengths)
    if ends[-1:].tolist() != [len(query)]:
        raise DataError("actualSeqLengths", f"adds up to {int(ends[-1])}; it must be {len(query)}, the tokens of query")
    blocks = [
        (batch, block)
        for block in range(int(-(-key_lengths.max(initial=0) // size)))
        for batch in np.flatnonzero(key_lengths > block * size).tolist()
    ]
    if args["k2qRowPtr"].shape[1] != len(blocks) + 1:
        raise DataError("k2qRowPtr", f"has {args['k2qRowPtr'].shape[1]} columns; it must have {len(blocks) + 1}")
    if blocks and blocks[-1][1] >= table.shape[1]:
        raise DataError("blockTable", f"has {table.shape[1]} columns; it must have {blocks[-1][1] + 1} at least")
    of_token = np.searchsorted(ends, np.arange(len(query)), "right")
    position = (key_lengths - lengths)[of_token] + np.arange(len(query)) - (ends - lengths)[of_token]
    row_max = np.full(query.shape[:2], HIDDEN, np.float32)
    row_sum, output = np.zeros(query.shape[:2], np.float32), np.zeros(query.shape, np.float32)
    for head, starts in enumerate(args["k2qRowPtr"]):
        of_head = slice(head * share, (head + 1) * share)
        for row, (batch, block) in enumerate(blocks):
            tokens = args["k2qQIndices"][head, starts[row] : starts[row + 1]]
            check_range("k2qQIndices", tokens, 0, len(query))
            tokens = tokens[position[tokens] >= block * size]
            if not len(tokens):
                continue
            page = int(table[batch, block])
            check_range("blockTable", np.array([page]), 0, len(args["key"]))
            there = min(size, int(key_lengths[batch]) - block * size)
            keys, values = (args[name][page, :there, head] for name in ("key", "value"))
            scores = (query[tokens, of_head] @ keys.T) * scale
            seen = np.arange(there) + block * size <= position[tokens, None, None]
            part = softmax_or_zero(scores, ~np.broadcast_to(seen, scores.shape))
            _merge(row_max, row_sum, output, tokens, of_head, part, values)
    return {"attentionOut": output / np.where(row_sum == 0, np.float32(1), row_sum)[..., None]}


def _merge(
    row_max: Array, row_sum: Array, output: Array, tokens: Array, heads: slice, part: Softmax, values: Array
) -> None:
    """Adds what some tokens have found in a block to what they had; the output is not divided by the sum yet."""
    new_max = np.maximum(row_max[tokens, heads], part.row_max[..., 0])
    before, after = np.exp(row_max[tokens, heads] - new_max), np.exp(part.row_max[..., 0] - new_max)
    sums = part.row_sum[..., 0] * after
    row_sum[tokens, heads] = row_sum[tokens, heads] * before + sums
    output[tokens, heads] = output[tokens, heads] * before[..., None] + (part.probabilities @ values) * sums[..., None]
    row_max[tokens, heads] = new_max


@reference_by_name("aclnnStemIndexer")
def stem_indexer(args: NamedArguments) -> dict[str, Array]:
    """The first four and the last four blocks of keys that a block of queries sees, and of the others the best.

    How many those are falls from the sequence's begin to its end. Scores have BFLOAT16 with topkScorePrecision 2.
    """
    query, key, bias = args["qflat"], args["kflat"], args["vbias"]
    batches, heads, most, _ = query.shape
    indices = np.full((batches, heads, most, key.shape[2]), -1, np.int32)
    counts = np.zeros((batches, heads, most), np.int32)
    share = heads // key.shape[1]
    prompts = args["kvSeqLens"] if args["numPromptTokens"] is None else args["numPromptTokens"]
    for batch in range(batches):
        own, keys, prompt = (-(-int(x[batch]) // 128) for x in (args["qSeqLens"], args["kvSeqLens"], prompts))
        for name, blocks, room in (("qSeqLens", own, most), ("kvSeqLens", keys, key.shape[2])):
            if not 0 <= blocks <= room:
                raise DataError(name, f"element [{batch}] means {blocks} blocks of 128 tokens; allowed: 0 to {room}")
        scores = query[batch, :, :own] @ np.repeat(key[batch, :, :keys], share, 0).swapaxes(-1, -2)
        scores = scores * np.float32(1 / 64) + np.repeat(bias[batch, :, :keys], share, 0)[:, None]
        if args["topkScorePrecision"] == 2:
            scores = scores.astype(ml_dtypes.bfloat16).astype(np.float32)
        for row in range(own):
            position = row + keys - own
            seen = min(keys, position + 1) if args["causal"] else keys
            if seen <= 0:
                continue
            first, last = min(4, seen), max(seen - 4, min(4, seen))
            many = min(_stem_budget(prompt, position, args["alpha"]), 256, last - first)
            best = first + largest(scores[:, row, first:last], many)
            fixed = [np.broadcast_to(part, (heads, len(part))) for part in (np.arange(first), np.arange(last, seen))]
            chosen = np.concatenate([fixed[0], best, fixed[1]], -1)
            indices[batch, :, row, : chosen.shape[1]], counts[batch, :, row] = chosen, chosen.shape[1]
    return {"sparseIndicesOut": indices, "sparseSeqLenOut": counts}


def _stem_budget(prompt: int, position: int, alpha: float) -> int:
    """How many blocks a block of queries at a position may choose."""
    start = prompt if prompt < 56 else prompt // 5 + 30 if prompt < 160 else prompt // 10 + 30
    length = prompt - start
    if position < start or length <= 1:
        return start
    step = np.float32(position - start) / np.float32(length - 1)
    budget = np.float32(start) + step * (np.float32(start) * np.float32(alpha) - np.float32(start))
    return int(np.clip(np.floor(budget), 1, start))


class _Queries(NamedTuple):
    """Some queries of a head, and the tokens of keys that they may see."""

    batch: int
    tokens: slice
    head: int
    keys: Array
    hidden: Array


def _blocks_of_queries(args: NamedArguments, heads: int, tokens: int) -> Iterator[_Queries]:
    size, key_size = args["sparseQBlockSize"], args["sparseKvBlockSize"]
    indices, counts = args["sparseIndices"], args["sparseSeqLen"]
    used = args["sequsedKv"]
    for batch, where in enumerate(spans(args["cuSeqlensQ"][1:], "cuSeqlensQOptional", tokens)):
        there, queries = int(used[batch]), where.stop - where.start
        if -(-queries // size) > indices.shape[2]:
            text = f"has {indices.shape[2]} blocks of queries; it must have {-(-queries // size)} at least"
            raise DataError("sparseIndices", text)
        for block in range(-(-queries // size)):
            rows = np.arange(block * size, min((block + 1) * size, queries))
            for head in range(heads):
                chosen = indices[batch, head, block, : counts[batch, head, block]].astype(np.int64)
                check_range("sparseIndices", chosen, 0, max(1, -(-there // key_size)))
                keys = (chosen[:, None] * key_size + np.arange(key_size)).reshape(-1)
                keys = keys[keys < there]
                hidden = np.zeros((len(rows), len(keys)), bool)
                if args["maskMode"] == _CAUSAL:
                    hidden |= keys > (rows + there - queries)[:, None]
                yield _Queries(batch, slice(where.start + rows[0], where.start + rows[-1] + 1), head, keys, hidden)


def _spread(scale: Array) -> Array:
    """Scales of 32 elements of the last axis, in pairs."""
    return np.repeat(scale.reshape(*scale.shape[:-2], -1), 32, -1)


@reference_by_name("aclnnQuantBlockSparseAttn")
def quant_block_sparse_attn(args: NamedArguments) -> dict[str, Any]:
    """Operands of FLOAT8_E4M3FN; exp(score - maximum) times p_scale becomes that too before it meets the values.

    Mode 1 has a scale for each token and head of queries and keys and for each head of values, mode 2 one for 32
    elements of a row of queries and keys, and for 32 tokens of a column of values.
    """
    query, key, value = args["query"], args["key"], args["value"]
    if args["quantMode"] == 2:
        query, key = query * _spread(args["qDescale"]), key * _spread(args["kDescale"])
        by_token = args["vDescale"].swapaxes(-1, -2)  # pages, heads, pairs of groups, group, width
        value = value * np.repeat(by_token.reshape(*value.shape[:2], -1, value.shape[3]), 32, 2)
    else:
        query, key = query * args["qDescale"][..., None], key * args["kDescale"]
        value = value * args["vDescale"][:, None, None]
    query = query.swapaxes(0, 1) if args["layoutQ"] == "NTD" else query
    tokens, heads, _ = query.shape
    share, scale = heads // key.shape[1], np.float32(args["softmaxScale"])
    p_scale = np.float32(1) if args["pScale"] is None or not args["pScale"].size else args["pScale"].reshape(())
    output = np.zeros((tokens, heads, value.shape[3]), np.float32)
    lse = np.full((tokens, heads), HIDDEN, np.float32)
    table, pages = args["blockTable"], (key.swapaxes(1, 2), value.swapaxes(1, 2))
    current: tuple[int, Array, Array] = (-1, key, value)
    for part in _blocks_of_queries(args, heads, tokens):
        if current[0] != part.batch:
            length = int(args["sequsedKv"][part.batch])
            own = [paged(x, table[part.batch], length, "blockTableOptional") for x in pages]
            current = (part.batch, own[0], own[1])
        if not len(part.keys):
            continue
        keys, values = (x[part.keys, part.head // share] for x in current[1:])
        attended = softmax_or_zero((query[part.tokens, part.head] @ keys.T) * scale, part.hidden)
        weights = _to_float8(attended.probabilities * attended.row_sum * p_scale)
        divisor = np.where(attended.row_sum == 0, np.float32(1), attended.row_sum) * p_scale
        output[part.tokens, part.head] = weights @ values / divisor
        seen = attended.row_sum[:, 0] > 0
        lse[part.tokens, part.head] = np.where(seen, attended.log_sum_exp[:, 0], HIDDEN)
    wanted: Optional[Array] = lse if args["returnSoftmaxLse"] else None
    if wanted is not None and args["quantMode"] == 1:
        wanted = wanted.T
    return {"attentionOutOut": output, "softmaxLseOut": wanted}


def _to_float8(x: Array) -> Array:
    return np.asarray(np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32))
