"""Native sparse attention (arXiv 2502.11089): compressed keys, the choice of blocks, attention to the chosen blocks."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.attention._blocks import (
    largest,
    paged,
    paired,
    softmax,
    spans,
    tokens_of_blocks,
)
from ascend_aclnn.reference.attention._dense import COPIES
from ascend_aclnn.reference.declare import reference

# --------------------------------------------------------------------------------------------------- compression


def _windows(x: Array, size: int, stride: int) -> Array:
    """Windows of tokens, those that are whole: (windows, heads, width, size), a view."""
    if len(x) < size:
        return np.empty((0, *x.shape[1:], size), x.dtype)
    return np.lib.stride_tricks.sliding_window_view(x, size, axis=0)[::stride]


@reference("aclnnNsaCompress")
def nsa_compress(
    x: Array, weight: Array, ends: tuple[int, ...], layout: str, size: int, stride: int, kind: int
) -> Array:
    """Each window of tokens becomes its weighted sum; one weight for each of its tokens and each head."""
    parts = [
        np.einsum("bndl,ln->bnd", _windows(x[s], size, stride), weight)
        for s in spans(ends, "actSeqLenOptional", len(x))
    ]
    return np.concatenate(parts)


@reference("aclnnNsaCompressGrad")
def nsa_compress_grad(
    grad: Array, x: Array, weight: Array, ends: tuple[int, ...], size: int, stride: int, kind: int, layout: str
) -> tuple[Array, Array]:
    dx, dweight, start = np.zeros(x.shape, np.float32), np.zeros(weight.shape, np.float32), 0
    for span in spans(ends, "actSeqLenOptionalOptional", len(x)):
        windows = _windows(x[span], size, stride)
        dy = grad[start : start + len(windows)]
        if len(dy) != len(windows):
            raise DataError("outputGrad", f"has {len(grad)} rows; the sequences have more windows")
        start += len(windows)
        dweight += np.einsum("bnd,bndl->ln", dy, windows)
        for place in range(size):  # one token of all windows at a time
            dx[span][place : place + len(dy) * stride : stride] += dy * weight[place, :, None]
    return dx, dweight


@reference("aclnnNsaCompressWithCache", raw=True)
def nsa_compress_with_cache(
    x: Array,
    weight: Array,
    slots: Array,
    lengths: tuple[int, ...],
    table: Optional[Array],
    layout: Optional[str],
    size: int,
    stride: int,
    kind: int,
    page_size: int,
    *,
    out: tuple[Array],
) -> None:
    """Sequences whose last token completes a window have its weighted sum written to their slot of the cache."""
    starts = np.cumsum((0, *lengths))
    if len(slots) != len(lengths):
        raise DataError("slotMapping", f"has {len(slots)} items; it must have {len(lengths)}, as act_seq_len")
    for number, length in enumerate(lengths):
        if length < size or (length - size) % stride:
            continue
        check_range("slotMapping", slots[number : number + 1], 0, len(out[0]))
        if table is not None:
            whole = paged(x, table[number], length)
        else:
            whole = x[starts[number] : starts[number + 1]]
            if len(whole) < length:
                raise DataError("actSeqLenOptional", f"is {lengths}; input has {len(x)} tokens")
        window = whole[length - size :].astype(np.float32)
        out[0][slots[number]] = np.einsum("lnd,ln->nd", window, weight.astype(np.float32))


# --------------------------------------------------------------------------------------------------- choice of blocks


def _importance(probabilities: Array, per_block: int, per_window: int, blocks: int, shift: int) -> Array:
    """Of each block to choose from: the probabilities (..., windows) of the windows that touch it, each as often as
    strides of both meet."""
    windows = probabilities.shape[-1]
    result = np.zeros((*probabilities.shape[:-1], blocks), np.float32)
    for m in range(per_block):
        for n in range(per_window):
            places = per_block * np.arange(1, blocks + 1) - m - n - shift
            inside = (places >= 0) & (places < windows)
            result[..., inside] += probabilities[..., places[inside]]
    return result


def _sizes(args: NamedArguments, stride: str) -> tuple[int, int]:
    """How many strides a block to choose, and a compressed window, are long."""
    return args["selectBlockSize"] // args[stride], args["compressBlockSize"] // args[stride]


def _copies(x: Array) -> Array:
    return np.repeat(x, COPIES, -1)


@reference_by_name("aclnnNsaCompressAttention", "aclnnNsaCompressAttentionVarLenScore")
def nsa_compress_attention(args: NamedArguments) -> dict[str, Array]:
    """Attention to the compressed keys, and the blocks whose windows have most of its weight, by head of keys."""
    query, key, value = args["query"], args["key"], args["value"]
    heads, width = key.shape[1], value.shape[2]
    share, count = query.shape[1] // heads, args["selectBlockCount"]
    per_block, per_window = _sizes(args, "compressStride")
    output = np.zeros((*query.shape[:2], width), np.float32)
    row_max, row_sum = (np.zeros((*query.shape[:2], COPIES), np.float32) for _ in range(2))
    chosen = np.zeros((len(query), heads, count), np.int32)
    queries = spans(args["actualSeqQLen"], "actualSeqQLenOptional", len(query))
    keys = spans(args["actualCmpSeqKvLen"], "actualCmpSeqKvLenOptional", len(key))
    mask, forced = args["attenMask"], args["topkMask"]
    for rows, columns in paired(queries, keys, "actualCmpSeqKvLenOptional"):
        many, there = rows.stop - rows.start, columns.stop - columns.start
        blocks = -(-there // per_block)
        if blocks < count:
            raise DataError("selectBlockCount", f"is {count}; a sequence has {blocks} blocks only")
        for head in range(heads):
            group = slice(head * share, (head + 1) * share)
            scores = np.einsum("tgd,sd->tgs", query[rows, group], key[columns, head]) * np.float32(args["scaleValue"])
            attended = softmax(scores, None if mask is None else mask[:many, None, :there] != 0)
            output[rows, group] = attended.probabilities @ value[columns, head]
            row_max[rows, group], row_sum[rows, group] = _copies(attended.row_max), _copies(attended.row_sum)
            # The kernel counts windows from one more than the document, but for windows of one stride.
            score = _importance(attended.probabilities, per_block, per_window, blocks, int(per_window == 1)).sum(1)
            if forced is not None:
                score = np.where(forced[:many, :blocks] != 0, np.finfo(np.float32).max, score)
            chosen[rows, head] = largest(score, count)
    return {"softmaxMaxOut": row_max, "softmaxSumOut": row_sum, "attentionOutOut": output, "topkIndicesOut": chosen}


def _rows_of(args: NamedArguments) -> list[slice]:
    """Rows of the flattened query of each sequence: packed by their lengths, or a batch's."""
    query, lengths = args["query"], args["actualQSeqLen"]
    if args["layout"] == "TND":
        batch = len(args["blockTable"])
        many = list(lengths) if lengths is not None and len(lengths) == batch else [1] * batch
        starts = np.cumsum([0, *many])
        if starts[-1] > len(query):
            raise DataError("actualQSeqLenOptional", f"is {tuple(many)}; query has {len(query)} tokens")
        return [slice(int(a), int(b)) for a, b in zip(starts, starts[1:])]
    batch, long = query.shape[:2]
    many = list(lengths) if lengths is not None and len(lengths) == batch else [long] * batch
    return [slice(b * long, b * long + min(many[b], long)) for b in range(batch)]


@reference_by_name("aclnnNsaCompressAttentionInfer")
def nsa_compress_attention_infer(args: NamedArguments) -> dict[str, Array]:
    """The same with pages. The first and the last two blocks are always chosen, a window after the query is hidden."""
    query, lead = args["query"], args["query"].shape[:-2]
    heads, count = args["numKeyValueHeads"], args["selectBlockCount"]
    flat = query.reshape(-1, *query.shape[-2:])
    share = flat.shape[1] // heads
    key, value = (args[n].reshape(*args[n].shape[:2], heads, -1) for n in ("key", "value"))
    stride, size = args["compressBlockStride"], args["compressBlockSize"]
    per_block, per_window = _sizes(args, "compressBlockStride")
    output = np.zeros((*flat.shape[:2], value.shape[3]), np.float32)
    chosen = np.zeros((len(flat), heads, count), np.int32)
    lengths, selected = args["actualCmpKvSeqLen"], args["actualSelKvSeqLen"]
    for number, (rows, there) in enumerate(paired(_rows_of(args), lengths, "actualCmpKvSeqLenOptional")):
        keys, values = (paged(x, args["blockTable"][number], there) for x in (key, value))
        tokens = (there - 1) * stride + size
        blocks, many = -(-tokens // args["selectBlockSize"]), rows.stop - rows.start
        if there < 1 or blocks < count:
            raise DataError("selectBlockCount", f"is {count}; a sequence of {there} compressed tokens has fewer blocks")
        hidden = np.zeros((many, 1, there), bool)
        if args["attentionMask"] is not None and selected is not None:
            after = np.arange(many)[::-1]  # tokens after each query
            hidden[after > selected[number] - tokens, :, -1] = True
        for head in range(heads):
            group = slice(head * share, (head + 1) * share)
            scores = np.einsum("tgd,sd->tgs", flat[rows, group], keys[:, head]) * np.float32(args["scaleValue"])
            attended = softmax(scores, hidden)
            output[rows, group] = attended.probabilities @ values[:, head]
            score = _importance(attended.probabilities, per_block, per_window, blocks, 0).sum(1)
            score[:, [0, max(blocks - 2, 0), blocks - 1]] = np.inf
            chosen[rows, head] = largest(score, count)
    return {
        "output": output.reshape(*lead, flat.shape[1], -1),
        "topKOutput": chosen.reshape(*lead, heads, count),
    }


# --------------------------------------------------------------------------------------------------- chosen blocks


def _chosen_tokens(args: NamedArguments, row: int, head: int, columns: slice) -> Array:
    """The keys of the blocks that one query chose, block by block."""
    size, blocks = args["selectedBlockSize"], args["topkIndices"][row, head]
    there = columns.stop - columns.start
    check_range("topkIndices", blocks, 0, -(-there // size))
    tokens = tokens_of_blocks(blocks, size, there)
    return np.asarray(tokens + columns.start)


def _later(args: NamedArguments, tokens: Array, place: int, first: int) -> Optional[Array]:
    """Keys after the query, where the mask is asked for; queries and keys are counted from the front."""
    if args["attenMask"] is None or args["sparseMode"] != 2:
        return None
    return np.asarray(tokens - first > place)


def _selected(args: NamedArguments) -> Any:
    """Each query of each head of keys: rows, heads that share it, keys, what is hidden."""
    query, key = args["query"], args["key"]
    share = query.shape[1] // key.shape[1]
    queries = spans(args["actualSeqQLen"], "actualSeqQLenOptional", len(query))
    keys = spans(args["actualSeqKvLen"], "actualSeqKvLenOptional", len(key))
    for rows, columns in paired(queries, keys, "actualSeqKvLenOptional"):
        for row in range(rows.start, rows.stop):
            for head in range(key.shape[1]):
                tokens = _chosen_tokens(args, row, head, columns)
                later = _later(args, tokens, row - rows.start, columns.start)
                yield row, head, slice(head * share, (head + 1) * share), tokens, later


@reference_by_name("aclnnNsaSelectedAttention")
def nsa_selected_attention(args: NamedArguments) -> dict[str, Array]:
    """Softmax(mask(scale * query @ selected_key^T)) @ selected_value, the keys chosen by query and head of keys."""
    query, key, value = args["query"], args["key"], args["value"]
    output = np.zeros((*query.shape[:2], value.shape[2]), np.float32)
    row_max, row_sum = (np.zeros((*query.shape[:2], COPIES), np.float32) for _ in range(2))
    for row, head, group, tokens, later in _selected(args):
        scores = (query[row, group] @ key[tokens, head].T) * np.float32(args["scaleValue"])
        attended = softmax(scores, later)
        output[row, group] = attended.probabilities @ value[tokens, head]
        row_max[row, group], row_sum[row, group] = _copies(attended.row_max), _copies(attended.row_sum)
    return {"softmaxMaxOut": row_max, "softmaxSumOut": row_sum, "attentionOut": output}


@reference_by_name("aclnnNsaSelectedAttentionGrad")
def nsa_selected_attention_grad(args: NamedArguments) -> dict[str, Array]:
    query, key, value, grad = args["query"], args["key"], args["value"], args["attentionOutGrad"]
    dq, dk, dv = (np.zeros(x.shape, np.float32) for x in (query, key, value))
    scale = np.float32(args["scaleValue"])
    for row, head, group, tokens, later in _selected(args):
        scores = (query[row, group] @ key[tokens, head].T) * scale
        weights = np.exp(scores - args["softmaxMax"][row, group, :1]) / args["softmaxSum"][row, group, :1]
        probabilities = weights if later is None else np.where(later, 0, weights)
        dy = grad[row, group]
        # Of the output as it comes: it may be one of more keys than there are here.
        delta = (dy * args["attentionOut"][row, group]).sum(-1, keepdims=True)
        derivative = probabilities * (dy @ value[tokens, head].T - delta) * scale
        dq[row, group] = derivative @ key[tokens, head]
        np.add.at(dk, (tokens, head), derivative.T @ query[row, group])
        np.add.at(dv, (tokens, head), probabilities.T @ dy)
    return {"dqOut": dq, "dkOut": dk, "dvOut": dv}


@reference_by_name("aclnnNsaSelectedAttentionInfer")
def nsa_selected_attention_infer(args: NamedArguments) -> dict[str, Array]:
    """The same with pages; the query's tokens are the last of its sequence, a block below 0 is none."""
    query, many, heads = args["query"], args["numHeads"], args["numKeyValueHeads"]
    layout = args["layout"] or "BSND"
    lead = query.shape[:-1] if layout == "BSH" else query.shape[:-2]
    flat = query.reshape(*lead, many, -1)
    rows_of = NamedArguments(
        query=flat, layout=layout, actualQSeqLen=args["actualQSeqLen"], blockTable=args["blockTable"]
    )
    rows_of.operator = args.operator
    parts = _rows_of(rows_of)
    flat = flat.reshape(-1, *flat.shape[-2:])
    key, value = (args[n].reshape(*args[n].shape[:2], heads, -1) for n in ("key", "value"))
    blocks, share = args["topkIndices"].reshape(len(flat), heads, -1), many // heads
    output = np.zeros((*flat.shape[:2], value.shape[3]), np.float32)
    for number, (rows, length) in enumerate(paired(parts, args["actualKvSeqLen"], "actualKvSeqLenOptional")):
        keys, values = (paged(x, args["blockTable"][number], length) for x in (key, value))
        for row in range(rows.start, rows.stop):
            seen = length - (rows.stop - 1 - row)
            for head in range(heads):
                group = slice(head * share, (head + 1) * share)
                tokens = tokens_of_blocks(blocks[row, head], args["selectBlockSize"], seen)
                scores = (flat[row, group] @ keys[tokens, head].T) * np.float32(args["scaleValue"])
                output[row, group] = softmax(scores).probabilities @ values[tokens, head]
    return {"output": output.reshape(*lead, -1) if layout == "BSH" else output.reshape(*lead, many, -1)}
