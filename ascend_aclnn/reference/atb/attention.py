"""ATB's attention: tokens over caches of pages, and sequences of packed tokens.

Every sequence is computed by itself, in float32 from its keys on; the device multiplies probabilities that were rounded to the
input's type, and its kernels for halves also round the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, widen
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.atb._operations import Arguments, operation_reference
from ascend_aclnn.reference.attention._dense import attention_of, forward

_WIDE = 2**31 - 1
_BF16_MASK = np.float32(-3e38)  # what a mask of ones is multiplied by
_NORM, _ALIBI, _PER_TOKEN = 1, 2, 3  # masks of a cache of pages
_MASK_FREE, _PAGED_COMPRESS = 4, 5  # of 310P: part of a triangle, and the whole


def attend(query: Array, key: Array, value: Array, scale: float, mask: Optional[Array]) -> tuple[Array, Array]:
    """Attention of one sequence: (tokens, heads, width) over (keys, key heads, width). ``mask`` is added to the scores.

    Returns the result (tokens, heads, width of the values), and the logarithm of the sum of exponentials (tokens, heads).
    """
    heads = query.shape[1]
    bias = None
    if mask is not None:
        bias = np.broadcast_to(mask, (1, heads, len(query), len(key)))
    q, k, v = (x.swapaxes(0, 1)[None] for x in (query, key, value))
    starts = (None, None)
    attention = attention_of(q, k, v, bias, None, None, None, starts, scale, 1.0, _WIDE, _WIDE, heads, "BNSD", 0, 0)
    row_max, row_sum, _, output = forward(attention, "BNSD")
    total = row_sum[0, ..., 0]
    with np.errstate(divide="ignore"):
        lse = np.where(total > 0, row_max[0, ..., 0] + np.log(total), -np.inf)
    return output[0].swapaxes(0, 1), lse.T


def pages_of(cache: Array, table: Array, length: int, name: str = "blockTables") -> Array:
    """The first tokens of one sequence: (tokens, heads, width) of pages (pages, tokens, heads, width)."""
    size = cache.shape[1]
    count = -(-length // size)
    if count > len(table):
        raise DataError(name, f"has {len(table)} pages for a sequence of {length} tokens of {size} a page")
    check_range(name, table[:count], 0, len(cache))
    return np.asarray(cache[table[:count]].reshape(count * size, *cache.shape[2:])[:length])


def causal(queries: int, keys: int) -> Array:
    """Hides the keys behind each query, where the last query sees the last key."""
    hidden = np.arange(keys) > np.arange(queries)[:, None] + (keys - queries)
    return np.where(hidden, np.float32(-np.inf), np.float32(0))


def lengths_of_both(lengths: Sequence[int], queries: int, keys: int) -> tuple[Sequence[int], Sequence[int]]:
    """Of the queries and the keys of each sequence: one length for both, or all of the queries and then all of the keys."""
    if sum(lengths) <= min(queries, keys):
        return lengths, lengths
    half = len(lengths) // 2
    if len(lengths) != 2 * half or sum(lengths[:half]) > queries or sum(lengths[half:]) > keys:
        raise DataError("seqLen", f"is {list(lengths)}; there are {queries} queries and {keys} keys")
    return lengths[:half], lengths[half:]


def _of_fractals(mask: Optional[Array]) -> Optional[Array]:
    """A mask of 310P: (rows, keys), or several, of fractals (count, keys / 16, rows, 16)."""
    if mask is None or mask.ndim != 4 or mask.shape[3] != 16:
        return mask
    unfolded = mask.swapaxes(1, 2).reshape(len(mask), mask.shape[2], -1)
    return unfolded[0] if len(mask) == 1 else unfolded


def _check_triangle(mask: Array) -> None:
    if not np.array_equal(mask != 0, np.triu(np.ones(mask.shape[-2:], bool), 1)):
        raise DataError("mask", "must be 0 on the diagonal and below, and not 0 above")


def _of_sequence(mask: Array, number: int) -> Array:
    """The mask of one sequence, of one for each; of four axes also of one for all."""
    if mask.ndim == 4 and len(mask) == 1:
        number = 0
    if number >= len(mask):
        raise DataError("mask", f"has shape {mask.shape}; there are more than {number} sequences")
    return np.asarray(mask[number])


def _fitted(mask: Array, part: Array, heads: int, queries: int, keys: int) -> Array:
    """What one sequence needs of its part (heads or 1, rows, columns) of a mask."""
    if part.ndim != 3 or len(part) not in (1, heads) or part.shape[1] < queries or part.shape[2] < keys:
        raise DataError("mask", f"has shape {mask.shape}; {heads} heads, {queries} queries and {keys} keys are needed")
    return part[:, :queries, :keys]


def _restored(x: Array, scale: Optional[Array], offset: Optional[Array]) -> Array:
    """(x + offset) * scale of INT8 (tokens, heads, width): a number for each head and element, or for each head."""
    if scale is None:
        return x
    if scale.dtype == np.int64:  # the bits of a float in the low half
        scale = np.ascontiguousarray(scale).view(np.float32)[::2]
    restored: Array = x.astype(np.float32)
    for values, add in ((offset, True), (scale, False)):
        if values is None:
            continue
        heads, width = x.shape[1:]
        if values.size not in (heads, heads * width):
            raise DataError("keyDescale", f"has {values.size} items; there are {heads} heads of {width} elements")
        fitted = values.reshape(heads, -1)
        restored = restored + fitted if add else restored * fitted
    return restored


# --------------------------------------------------------------------------------------------------- caches of pages


def _paged_mask(args: Arguments, number: int, tokens: slice, keys: int) -> Optional[Array]:
    """The part of one sequence: (heads or 1, tokens, keys)."""
    mask, count = args["mask"], tokens.stop - tokens.start
    if mask is None:
        return None
    mask = widen(mask)
    if args["maskType"] in (_MASK_FREE, _PAGED_COMPRESS):
        _check_triangle(mask.reshape(mask.shape[-2:]))
        return causal(count, keys)[None]
    sequences = len(args["contextLens"])
    if mask.ndim == 4:
        part = _of_sequence(mask, number)
    elif mask.ndim == 3:
        part = mask if args["maskType"] == _ALIBI else mask[number if len(mask) == sequences else 0][None]
    else:
        part = mask[None, tokens.start :] if args["maskType"] == _PER_TOKEN else mask[None]
    return _fitted(mask, part, args["query"].shape[1], count, keys)


def _attend_paged(args: Arguments, key_pages: Array, value_pages: Optional[Array]) -> Array:
    query, lengths = args["query"], args["contextLens"]
    counts = args["qSeqLen"] if args["calcType"] == 1 else (1,) * len(lengths)
    if len(counts) != len(lengths) or len(args["blockTables"]) < len(lengths) or sum(counts) > len(query):
        text = f"are {list(lengths)}, for {len(query)} tokens and {len(args['blockTables'])} rows of blockTables"
        raise DataError("contextLens", text)
    heads, width = query.shape[1], args["mlaVHeadSize"]
    output = np.zeros((len(query), heads, width or value_pages.shape[3]), np.float32)  # type: ignore[union-attr]
    start = 0
    for number, (count, length) in enumerate(zip(counts, lengths)):
        tokens = slice(start, start + count)
        start += count
        if count == 0 or length == 0:
            continue
        table = args["blockTables"][number]
        keys = pages_of(key_pages, table, length)
        values = keys[..., :width] if value_pages is None else pages_of(value_pages, table, length)
        keys = _restored(keys, args["keyDescale"], args["keyOffset"])
        values = _restored(values, args["valueDescale"], args["valueOffset"])
        mask = _paged_mask(args, number, tokens, length)
        output[tokens], _ = attend(query[tokens], keys, values, args["qkScale"], mask)
    return output


_STORED = ("keyCache", "valueCache", "mask", "keyDescale", "valueDescale")


@operation_reference("PagedAttention", stored=_STORED)
def paged_attention(args: Arguments) -> Array:
    """The mask is added to the scores as it is; with ``mlaVHeadSize`` values are the first elements of the keys."""
    return _attend_paged(args, args["keyCache"], args["valueCache"])


@operation_reference("PagedAttention", stored=_STORED, product="310P")
def paged_attention_310p(args: Arguments) -> Array:
    """Fractal pages (heads * width / 16, tokens, 16), and fractal masks. With a compressed mask the last token sees all keys."""
    heads = args["kvHeadNum"] or args["headNum"]
    pages = (x.swapaxes(1, 2).reshape(len(x), x.shape[2], heads, -1) for x in (args["keyCache"], args["valueCache"]))
    return _attend_paged({**args, "mask": _of_fractals(args["mask"])}, *pages)


# ------------------------------------------------------------------------------------------------------ packed tokens

_NORM_COMPRESS, _CAUSAL = 3, 9


def _packed_mask(args: Arguments, number: int, queries: int, keys: int) -> Optional[Array]:
    """What is added to the scores of one sequence: (heads or 1, queries, keys)."""
    kind, mask = args["maskType"], args["mask"]
    if kind == _CAUSAL:
        return causal(queries, keys)[None]
    if mask is None:
        return None
    factors = mask.dtype != np.float16 or args["kernelType"] == 1  # a mask of ones
    mask = widen(mask)
    if kind == _NORM_COMPRESS:
        _check_triangle(mask)
        return causal(queries, keys)[None]
    if mask.ndim == 2:
        part = mask[None]
    elif mask.ndim == 3:
        part = mask if kind == _ALIBI else _of_sequence(mask, number)[None]
    else:
        part = _of_sequence(mask, number)
    part = _fitted(mask, part, args["headNum"], queries, keys)
    return np.asarray(part * _BF16_MASK if factors and kind == _NORM else part)


@operation_reference("SelfAttention", stored=("key", "value", "mask"))
def self_attention(args: Arguments) -> Array:
    """A mask of FLOAT16 is added to the scores; one of BF16, or of a kernel of high precision, is multiplied by -3e38 before."""
    heads, key_heads = args["headNum"], args["kvHeadNum"] or args["headNum"]
    query = args["query"].reshape(len(args["query"]), heads, -1)
    paged = args["calcType"] == 4
    if paged:
        queries, keys = args["seqLen"], args["kvSeqLen"]
        if len(queries) != len(keys) or sum(queries) > len(query) or len(args["blockTables"]) < len(keys):
            raise DataError("seqLen", f"is {list(queries)}, of keys {list(keys)}; there are {len(query)} queries")
    else:
        queries, keys = lengths_of_both(args["seqLen"], len(query), len(args["key"]))
    key, value = (x.reshape(*x.shape[: 2 if paged else 1], key_heads, -1) for x in (args["key"], args["value"]))
    output = np.zeros((len(query), heads, value.shape[-1]), np.float32)
    start = key_start = 0
    for number, (count, length) in enumerate(zip(queries, keys)):
        rows, columns = slice(start, start + count), slice(key_start, key_start + length)
        start, key_start = rows.stop, columns.stop
        if count == 0 or length == 0:
            continue
        if paged:
            k, v = (pages_of(x, args["blockTables"][number], length) for x in (key, value))
        else:
            k, v = key[columns], value[columns]
        mask = _packed_mask(args, number, count, length)
        output[rows], _ = attend(query[rows], k, v, args["qkScale"] * args["qScale"], mask)
    return output.reshape(*args["query"].shape[:1], -1) if args["query"].ndim == 2 else output


@operation_reference("SelfAttention", stored=("key", "value", "mask"), product="310P")
def self_attention_310p(args: Arguments) -> Array:
    """The same with fractal masks."""
    return np.asarray(self_attention({**args, "mask": _of_fractals(args["mask"])}))
