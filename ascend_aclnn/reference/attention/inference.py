"""Attention for inference: prompts, single tokens, and both (FusedInferAttentionScore).

Every sequence is computed by itself: its queries and keys are cut out of their tensors (padded batches, packed
tokens, caches of pages), keys and values of 8 and 4 bits are restored to float32, and what follows is flash attention.
Queries of 8 bits have no reference.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, is_integer, widen
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._quantise import unpacked
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.attention._dense import LEAST, attention_of, forward

_WIDE = 2**31 - 1
_RIGHT_DOWN = 3  # the sparse mode in which the last query sees all keys
_COMPRESSED = (2, _RIGHT_DOWN, 4)  # sparse modes whose mask is the same for all
_OF_TOKENS, _OF_HEADS, _OF_BOTH = 1, 2, 3  # what the scales of keys (or values) belong to; 0: heads and width


class _Paged(NamedTuple):
    """A cache of pages: (pages, tokens, H), (pages, heads, tokens, width) or (pages, heads, width / 16, tokens, 16)."""

    pages: Array
    table: Array

    def of(self, batch: int, length: int, heads: int) -> Array:
        """One sequence: heads, tokens, width."""
        pages = self.pages
        if self.table.ndim != 2 or batch >= len(self.table):
            raise DataError("blockTableOptional", f"has shape {self.table.shape}; it must have a row for each sequence")
        if pages.ndim == 5:
            pages = pages.swapaxes(2, 3)
            pages = pages.reshape(*pages.shape[:3], -1)
        elif pages.ndim == 3:
            pages = pages.reshape(*pages.shape[:2], heads, -1).swapaxes(1, 2)
        tokens = pages.shape[2]
        if -(-length // max(tokens, 1)) > self.table.shape[1]:
            raise DataError("blockTableOptional", f"has {self.table.shape[1]} pages for a sequence of {length} tokens")
        own = self.table[batch, : -(-length // tokens)]
        check_range("blockTableOptional", own, 0, len(pages))
        chosen = pages[own].swapaxes(0, 1)
        return np.asarray(chosen.reshape(chosen.shape[0], -1, chosen.shape[3])[:, :length])


def _whole(x: Array) -> Array:
    """Elements of 4 bits unpacked: an INT32 holds eight INT4."""
    return unpacked(np.ascontiguousarray(x)) if x.dtype == np.int32 else x


def _heads_of(x: Array, layout: str, batch: int, heads: int) -> Array:
    """One sequence of a padded batch: heads, tokens, width."""
    sequence = x if layout in ("SH", "NSD") else x[batch if len(x) > 1 else 0]
    if layout in ("BNSD", "NSD"):
        return np.asarray(sequence)
    return np.asarray(sequence.reshape(len(sequence), heads, -1).swapaxes(0, 1))


def _packed(x: Array, layout: str, start: int, end: int) -> Array:
    """One sequence of packed tokens."""
    return x[start:end].swapaxes(0, 1) if layout == "TND" else x[:, start:end]


def _restored(x: Array, scale: Optional[Array], offset: Optional[Array], mode: int, batch: int, start: int) -> Array:
    """(x + offset) * scale of one sequence (heads, tokens, width)."""
    if not is_integer(x.dtype) and scale is None:
        return x
    restored: Array = widen(x).astype(np.float32)
    for values, add in ((offset, True), (scale, False)):
        if values is None:
            continue
        fitted = _fitted(values, restored.shape, mode, batch, start)
        restored = restored + fitted if add else restored * fitted
    return restored


def _fitted(values: Array, shape: tuple[int, ...], mode: int, batch: int, start: int) -> Array:
    heads, tokens, _ = shape
    if values.size == 1:
        return values.reshape(())
    if mode == _OF_TOKENS:
        rows = values.reshape(-1, values.shape[-1])
        return rows[batch if len(rows) > 1 else 0, start : start + tokens, None]
    if mode == _OF_BOTH:
        return values.reshape(-1, heads, values.shape[-1])[batch, :, start : start + tokens, None]
    wanted = heads * (1 if mode == _OF_HEADS else shape[2])
    if values.size != wanted:
        raise DataError("antiquantScale", f"has {values.size} items for keys or values; it must have {wanted}")
    return values.reshape(heads, 1, -1)


class _Scales(NamedTuple):
    scale: Optional[Array]
    offset: Optional[Array]
    mode: int

    def restore(self, x: Array, batch: int, start: int) -> Array:
        return _restored(x, self.scale, self.offset, self.mode, batch, start)


def _scales(args: NamedArguments, side: int) -> _Scales:
    """The scales of the keys (0) or values (1): separate arguments, or the halves of a shared one."""
    name = ("key", "value")[side]
    own_scale = args[f"{name}AntiquantScale"]
    if own_scale is not None:
        return _Scales(own_scale, args[f"{name}AntiquantOffset"], args[f"{name}AntiquantMode"] or 0)
    scale, offset = args["antiquantScale"], args["antiquantOffset"]
    for values in (scale, offset):
        if values is not None and (values.ndim == 0 or len(values) != 2):
            raise DataError("antiquantScale", f"has shape {values.shape}; its first axis must be 2, keys and values")
    halves = (None if x is None else x[side] for x in (scale, offset))
    return _Scales(next(halves), next(halves), args["antiquantMode"] or 0)


def _lengths(values: Optional[Sequence[int]], count: int, whole: int) -> list[int]:
    """Lengths of the sequences: one for each, one for all, or the whole axis."""
    if not values:
        return [whole] * count
    return list(values) * count if len(values) == 1 else list(values)


def _mask(mask: Optional[Array], mode: int, batch: int, rows: slice, keys: slice, queries: int) -> Optional[Array]:
    """The rows and keys of one sequence: (batch or 1, queries, keys), also with one head, without batch or queries."""
    if mask is None or mask.size == 0 or mode in _COMPRESSED:
        return mask
    if mask.ndim == 2 and queries > 1:
        mask = mask[None]
    mask = mask.reshape(len(mask), -1, mask.shape[-1])
    rows_of_batch: Array = mask[batch if len(mask) > 1 else 0]
    return rows_of_batch[rows if len(rows_of_batch) > 1 else slice(None), keys]


def _bias(args: NamedArguments, batch: int, rows: slice, keys: slice) -> Optional[Array]:
    values: Optional[Array] = args["pseShift"]
    if values is None or values.size == 0:
        return None
    matrix: Array = values[batch if len(values) > 1 else 0]
    return matrix[None, :, rows if matrix.shape[1] > 1 else slice(None), keys]


class _Sequence(NamedTuple):
    """What belongs to one sequence: queries and keys with heads first, and where they lie in mask and bias."""

    number: int
    rows: slice
    keys: slice
    query: Array
    key: Array
    value: Array


def _attend(args: NamedArguments, part: _Sequence, queries: int) -> tuple[Array, Array]:
    """Result and logarithm of the sum of exponentials: heads, queries, width (1)."""
    mode = args["sparseMode"] or 0
    attention = attention_of(
        part.query[None],
        part.key[None],
        part.value[None],
        _bias(args, part.number, part.rows, part.keys),
        None,
        _mask(args["attenMask"], mode, part.number, part.rows, part.keys, queries),
        None,
        (None, None),
        args["scaleValue"],
        1.0,
        _WIDE if args["preTokens"] is None else args["preTokens"],
        _WIDE if args["nextTokens"] is None else args["nextTokens"],
        part.query.shape[0],
        "BNSD",
        mode,
        0,
    )
    row_max, row_sum, _, output = forward(attention._replace(halves=bool(args.get("halves"))), "BNSD")
    row_max, row_sum = row_max[0, ..., :1], row_sum[0, ..., :1]
    attended = output[0]
    sink = args["learnableSink"]
    if sink is not None:
        score = sink[:, None, None]
        new_max = np.maximum(row_max, score)
        seen = row_sum * np.exp(row_max - new_max)
        row_max, row_sum, attended = (
            new_max,
            seen + np.exp(score - new_max),
            attended * seen / (seen + np.exp(score - new_max)),
        )
    return attended, np.where(row_sum > 0, row_max + np.log(row_sum), np.inf)


class _SequenceCutter(NamedTuple):
    """Cuts the sequences out of their tensors."""

    args: NamedArguments
    layout: str
    many: int

    @classmethod
    def of(cls, args: NamedArguments, layout: str) -> _SequenceCutter:
        ends = args["actualSeqLengths"]
        if "T" in layout and not ends:
            raise DataError("actualSeqLengthsOptional", "is None; in layouts with T it is required")
        return cls(args, layout, len(ends) if "T" in layout else len(args["query"]) if "B" in layout else 1)

    def queries(self, number: int) -> tuple[slice, list[Array]]:
        """Where a sequence's queries lie in its axis; they, and their rotated parts if there are some."""
        args, layout = self.args, self.layout
        both = [x for x in (args["query"], args["queryRope"]) if x is not None]
        ends = args["actualSeqLengths"]
        if "T" in layout:
            start, end = (ends[number - 1] if number else 0), ends[number]
            return slice(0, end - start), [_packed(x, layout, start, end) for x in both]
        whole = args["query"].shape[layout.index("S")]
        rows = _placed(whole, _lengths(ends, self.many, whole)[number], args["queryPaddingSize"])
        return rows, [_heads_of(x, layout, number, args["numHeads"])[:, rows] for x in both]

    def keys(self, number: int) -> tuple[slice, list[Array]]:
        """Where a sequence's keys lie in its axis; they, their values, and their rotated parts if there are some."""
        args, layout = self.args, self.layout
        heads = args["numKeyValueHeads"] or args["numHeads"]
        lengths = args["actualSeqLengthsKv"]
        row = number if len(args["key"]) > 1 else 0
        all_of = [_whole(args["key"][row]), _whole(args["value"][row])]
        all_of += [] if args["keyRope"] is None else [args["keyRope"]]
        if args["blockTable"] is not None:
            if number >= len(lengths or ()):
                raise DataError(
                    "actualSeqLengthsKvOptional", f"is {lengths}; paged keys need a length for each sequence"
                )
            length = lengths[number]
            return slice(0, length), [_Paged(x, args["blockTable"]).of(number, length, heads) for x in all_of]
        if "T" in layout:
            start, end = (lengths[number - 1] if number else 0), lengths[number]
            return slice(0, end - start), [_packed(x, layout, start, end) for x in all_of]
        within = [_heads_of(x, layout, 0 if row else number, heads) for x in all_of]
        there = within[0].shape[1]
        where = _placed(there, _lengths(lengths, self.many, there)[number], args["kvPaddingSize"])
        return where, [x[:, where] for x in within]

    def sequence(self, number: int, scales: Sequence[_Scales]) -> _Sequence:
        heads = self.args["numKeyValueHeads"] or self.args["numHeads"]
        rows, query = self.queries(number)
        where, (key, value, *rope) = self.keys(number)
        key, value = (s.restore(x, number, where.start) for s, x in zip(scales, (key, value)))
        key, value, where = _with_prefix(self.args, self.layout, key, value, heads, where)
        if len(query) > 1 and rope:
            key = np.concatenate([widen(key), *rope], -1)
        return _Sequence(number, rows, where, np.concatenate(query, -1) if len(query) > 1 else query[0], key, value)


def _placed(whole: int, length: int, padding: Optional[Array]) -> slice:
    """Where a sequence lies in its padded axis: at the front, or so far from the end."""
    length = min(length, whole)
    if padding is None:
        return slice(0, length)
    end = whole - max(int(padding.reshape(-1)[0]), 0)
    return slice(end - length, end)


def _with_prefix(
    args: NamedArguments, layout: str, key: Array, value: Array, heads: int, where: slice
) -> tuple[Array, Array, slice]:
    """Prepends the keys and values of the shared prefix."""
    shared = [args[f"{n}SharedPrefix"] for n in ("key", "value")]
    if all(x is None for x in shared):
        return key, value, where
    if any(x is None for x in shared):
        raise DataError("keySharedPrefixOptional", "and value_shared_prefix are given both, or neither")
    both = [_heads_of(_whole(x), layout, 0, heads) for x in shared]
    length = (args["actualSharedPrefixLen"] or (both[0].shape[1],))[0]
    joined = [np.concatenate([x[:, :length], widen(y)], 1) for x, y in zip(both, (key, value))]
    return joined[0], joined[1], slice(where.start, where.stop + length)


def _not_computed(call: Any) -> Optional[str]:
    if call["query"] is not None and call["query"].dtype.bits == 8:
        return "the NumPy backend has no reference for queries of 8 bits"
    modes = [call.get(f"{side}AntiquantMode") or 0 for side in ("key", "value")]
    scaled = call.get("keyAntiquantScaleOptional") is not None
    if scaled and max(modes) > _OF_BOTH:
        return f"the NumPy backend has no reference for scales in pages or for groups (key_antiquant_mode {modes[0]})"
    return None


_STORED = ("key", "value")  # caches, of which one block at a time is widened


def _fused(args: NamedArguments, layouts: str) -> dict[str, Any]:
    query = args["query"]
    layout, _, out = layouts.partition("_")
    out = out or layout
    heads = args["numHeads"]
    packed = "T" in layout
    tokens = query.shape[layout.index("T" if packed else "S")]
    if not all(any(x.size for x in args[name]) for name in ("key", "value")):  # zeros, of no weight
        batch = query.shape[layout.index("B")] if "B" in layout else 1
        lse = np.full((tokens, heads, 1) if packed else (batch, heads, tokens, 1), np.inf, np.float32)
        return {"attentionOut": None, "softmaxLse": lse if args["softmaxLseFlag"] else None}
    if layout == "TND" and out == layout:
        attended = _decoded(args)
        if attended is not None:
            return attended
    reader, scales = _SequenceCutter.of(args, layout), [_scales(args, side) for side in (0, 1)]
    parts = [reader.sequence(number, scales) for number in range(reader.many)]
    width = parts[0].value.shape[2] if parts else 0
    shape = (heads, tokens) if packed else (max(len(parts), 1), heads, tokens)
    result, sums = np.zeros((*shape, width), np.float32), np.full((*shape, 1), np.inf, np.float32)
    start = 0
    for part in parts:
        rows = slice(start, start + part.query.shape[1]) if packed else part.rows
        start += part.query.shape[1]
        where: Any = (slice(None), rows) if packed else (part.number, slice(None), rows)
        result[where], sums[where] = _attend(args, part, tokens)
    result = _quantised(args, result)
    if packed:
        arranged = result if out == "NTD" else result.swapaxes(0, 1)
        return {"attentionOut": arranged, "softmaxLse": sums.swapaxes(0, 1) if args["softmaxLseFlag"] else None}
    return {"attentionOut": _arranged(result, out), "softmaxLse": sums if args["softmaxLseFlag"] else None}


# What a step of decoding has none of, as ``_decoded`` computes it.
_MORE = (
    *("queryRope", "keyRope", "pseShift", "learnableSink", "quantScale2", "keySharedPrefix", "valueSharedPrefix"),
    *("antiquantScale", "keyAntiquantScale", "valueAntiquantScale"),
)
_AT_ONCE = 1 << 20  # elements of the keys: with more of them other threads are worth their wake-up


class _Places(NamedTuple):
    """Where the keys of all sequences lie, one after the other: of each its sequence, the page of it and the place there."""

    sequence: Array
    page: Array
    token: Array
    parts: list[tuple[int, slice]]  # of each sequence that has keys


@functools.lru_cache(8)  # the layers of a model ask for the same ones
def _kept_places(lengths: tuple[int, ...], size: int) -> _Places:
    ends = np.cumsum(lengths)
    page, token = np.divmod(np.arange(ends[-1]) - np.repeat(ends - lengths, lengths), size)
    parts = [(i, slice(end - length, end)) for i, (length, end) in enumerate(zip(lengths, ends.tolist())) if length]
    return _Places(np.repeat(np.arange(len(lengths)), lengths), page, token, parts)


def _decoded(args: NamedArguments) -> Optional[dict[str, Any]]:
    """A step of decoding, one query for each sequence of a cache of pages, with few calls of NumPy for each; else None.

    Each product and each sum is that of the sequence by itself, so it has the same bits.
    """
    query, table, lengths = args["query"], args["blockTable"], args["actualSeqLengthsKv"]
    (key, *more), (value, *_) = args["key"], args["value"]
    count, most = len(query), max(lengths or (0,))
    masked = args["attenMask"] is not None and args["sparseMode"] != _RIGHT_DOWN
    if masked or more or table is None or not lengths or any(args[name] is not None for name in _MORE):
        return None
    if not (key.ndim == 3 and key.shape == value.shape and key.flags.c_contiguous and value.flags.c_contiguous):
        return None
    if is_integer(key.dtype) or key.dtype != value.dtype or args.get("halves"):
        return None
    if len(lengths) != count or table.ndim != 2 or len(table) < count or min(lengths) < 0 or most == 0:
        return None
    if tuple(args["actualSeqLengths"] or ()) != tuple(range(1, count + 1)):
        return None
    pages, size, elements = key.shape
    heads, shared = args["numHeads"], args["numKeyValueHeads"] or args["numHeads"]
    width = query.shape[2]
    if query.shape[1] != heads or heads % shared or elements != shared * width:
        return None
    if -(-most // size) > table.shape[1] or sum(lengths) * elements > _AT_ONCE:
        return None
    where = _kept_places(tuple(lengths), size)
    total = len(where.page)
    own = table[where.sequence, where.page]
    if own.min() < 0 or own.max() >= pages:
        return None
    rows = own.astype(np.int64) * size + where.token
    keys, values = (
        widen(x.reshape(-1, elements).take(rows, 0, mode="clip")).reshape(total, shared, width) for x in (key, value)
    )
    keys, values = keys.transpose(1, 2, 0)[:, None], values.swapaxes(0, 1)[:, None]
    queries = query.reshape(count, shared, heads // shared, 1, width)
    scores = np.empty((*queries.shape[1:4], total), np.float32)
    largest, sums = np.zeros((2, count, *queries.shape[1:4], 1), np.float32)
    for number, part in where.parts:
        np.matmul(queries[number], keys[..., part], out=scores[..., part])
    scores *= np.float32(args["scaleValue"])
    for number, part in where.parts:
        own_scores = scores[..., part]
        np.maximum.reduce(own_scores, axis=-1, keepdims=True, out=largest[number])
        own_scores -= np.maximum(largest[number], LEAST, out=largest[number])
    np.exp(scores, out=scores)
    result = np.zeros(queries.shape, np.float32)  # of a query that sees no key, too: graphs fill up with such ones
    for number, part in where.parts:
        np.add.reduce(scores[..., part], axis=-1, keepdims=True, out=sums[number])
        np.matmul(scores[..., part], values[..., part, :], out=result[number])
    result /= np.where(sums == 0, np.float32(1), sums)
    lse = None
    if args["softmaxLseFlag"]:
        lse = np.where(sums > 0, largest + np.log(sums), np.inf).reshape(count, heads, 1)
    return {"attentionOut": result.reshape(count, heads, width), "softmaxLse": lse}


def _quantised(args: NamedArguments, result: Array) -> Array:
    """By one scale, or by those of heads and width."""
    scale, offset = args["quantScale2"], args["quantOffset2"]
    if scale is None or scale.size == 0:
        return result
    heads, width = result.shape[-3], result.shape[-1]

    def fit(name: str, x: Array) -> Array:
        if x.size not in (1, heads * width):
            raise DataError(name, f"has shape {x.shape}; it must have one element, or {heads * width}: heads * width")
        return x.reshape(()) if x.size == 1 else x.reshape(heads, 1, width)

    scaled = result * fit("quantScale2", scale)
    return np.asarray(scaled if offset is None else scaled + fit("quantOffset2", offset))


def _arranged(result: Array, layout: str) -> Array:
    """(batch, heads, queries, width) in a layout."""
    batch, heads, queries, width = result.shape
    rows = result.swapaxes(1, 2)
    flat = rows.reshape(batch, queries, heads * width)
    by_layout = {
        "BNSD": result,
        "BSND": rows,
        "BSH": flat,
        "NBSD": result.swapaxes(0, 1),
        "NSD": result[0],
        "SH": flat[0],
    }
    return np.asarray(by_layout[layout])


@reference_by_name(
    "aclnnFusedInferAttentionScore",
    "aclnnFusedInferAttentionScoreV2",
    "aclnnFusedInferAttentionScoreV3",
    "aclnnFusedInferAttentionScoreV4",
    "aclnnFusedInferAttentionScoreV5",
    stored=_STORED,
    unsupported=_not_computed,
)
def fused_infer_attention_score(args: NamedArguments) -> dict[str, Any]:
    """softmax(mask(query key^T scale + bias)) value, for each sequence."""
    return _fused(args, args["inputLayout"] or "BSH")


@reference_by_name(
    "aclnnPromptFlashAttention",
    "aclnnPromptFlashAttentionV2",
    "aclnnPromptFlashAttentionV3",
    stored=_STORED,
    unsupported=_not_computed,
)
def prompt_flash_attention(args: NamedArguments) -> dict[str, Any]:
    """The first version does not look at the bias.

    In FLOAT16 without a bias the kernels have their scores in FLOAT16 too, unless innerPrecise asks for high precision
    (prompt_flash_attention_base.h: mmOutputType); the first two versions have 1 there.
    """
    precision, key = args["innerPrecise"], args["key"]
    args |= {"key": [key], "value": [args["value"]]}
    if args.operator == "aclnnPromptFlashAttention":
        args["pseShift"] = None
    fast = args["pseShift"] is None and (precision is None or precision & 1 == 1)
    args["halves"] = fast and key.dtype == np.float16
    return _fused(args, args["inputLayout"])


@reference_by_name(
    "aclnnIncreFlashAttention",
    "aclnnIncreFlashAttentionV2",
    "aclnnIncreFlashAttentionV3",
    "aclnnIncreFlashAttentionV4",
    stored=_STORED,
    unsupported=_not_computed,
)
def incre_flash_attention(args: NamedArguments) -> dict[str, Any]:
    """One query for each sequence; the lengths are those of the keys."""
    args |= {"actualSeqLengthsKv": args["actualSeqLengths"], "blockTable": args["blocktable"]}
    args["actualSeqLengths"] = None
    return _fused(args, args["inputLayout"])
