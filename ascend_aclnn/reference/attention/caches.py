"""What stands around attention: results that are put together, and caches of pages that are written and read."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.core.errors import UnsupportedOperator
from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference


@reference("aclnnAttentionUpdate")
def attention_update(lse: list[Array], parts: list[Array], kind: int) -> tuple[Array, Optional[Array]]:
    """Results of parts of the keys, weighted by their sums of exponentials.

    A part that has no key for a query says so by infinity, as attention for inference does, and has no weight.
    """
    sums = np.stack(lse)
    sums[np.isposinf(sums)] = -np.inf
    return _joined(sums, parts, kind)


@reference("aclnnAttentionUpdate", product="950")
def _attention_update_950(lse: list[Array], parts: list[Array], kind: int) -> tuple[Array, Optional[Array]]:
    """As on the others, but its kernel computes with infinity: such a query's result is NaN."""
    return _joined(np.stack(lse), parts, kind)


def _joined(sums: Array, parts: list[Array], kind: int) -> tuple[Array, Optional[Array]]:
    most = sums.max(0)
    total = most + np.log(np.exp(sums - most).sum(0))
    weights = np.exp(sums - total)[..., None]
    return np.einsum("prd,prx->rd", np.stack(parts), weights), total if kind == 1 else None


@reference_by_name("aclnnRingAttentionUpdate", "aclnnRingAttentionUpdateV2")
def ring_attention_update(args: NamedArguments) -> dict[str, Array]:
    """Two results with their maxima and sums, put together; each number stands eight times."""
    before, after = args["prevSoftmaxMax"], args["curSoftmaxMax"]
    row_max = np.maximum(before, after)
    old, new = args["prevSoftmaxSum"] * np.exp(before - row_max), args["curSoftmaxSum"] * np.exp(after - row_max)
    row_sum = old + new
    layout = args["inputLayout"]
    output = _spread(old / row_sum, args["prevAttnOut"], layout) * args["prevAttnOut"]
    output = output + _spread(new / row_sum, args["curAttnOut"], layout) * args["curAttnOut"]
    return {"attnOutOut": output, "softmaxMaxOut": row_max, "softmaxSumOut": row_sum}


def _spread(share: Array, output: Array, layout: str) -> Array:
    """The share of each head of each token: (tokens, heads, 8) or, for (S, B, H), (batch, heads, tokens, 8)."""
    if layout == "TND":
        return share[..., :1]
    heads = share.shape[1]
    return np.repeat(share[..., 0].transpose(2, 0, 1), output.shape[-1] // heads, -1)


# --------------------------------------------------------------------------------------------------- writing pages


def _write(cache: Array, rows: Array, slots: Array, heads_first: bool = False) -> None:
    """Rows (tokens, heads, width) at slots, those below 0 nowhere.

    Pages are (tokens, heads, width), with ``heads_first`` (heads, tokens, width), or fractal: width in parts of the
    last axis, tokens before it.
    """
    slots = slots.reshape(-1)
    there = np.flatnonzero(slots >= 0)
    slots, rows = slots[there], rows[there]
    fractal = not heads_first and (cache.ndim == 5 or cache.shape[2:] != rows.shape[1:])
    axis = -2 if fractal or heads_first else 1
    check_range("slotMapping", slots, 0, len(cache) * cache.shape[axis])
    page, token = np.divmod(slots, cache.shape[axis])
    if axis == 1:
        cache[page, token] = rows
    else:
        where: Any = (page, *(slice(None),) * (cache.ndim - 3), token)
        cache[where] = rows.reshape(len(rows), *cache.shape[1:-2], cache.shape[-1])


@reference("aclnnScatterPaKvCache", raw=True)
def scatter_pa_kv_cache(
    key: Array,
    key_cache: Array,
    slots: Array,
    value: Optional[Array],
    value_cache: Optional[Array],
    compress_lengths: Optional[Array],
    compress_offsets: Optional[Array],
    lengths: Optional[Array],
    cache_mode: Optional[str],
    scatter_mode: Optional[str],
    strides: Optional[tuple[int, ...]],
    offsets: Optional[tuple[int, ...]],
    *,
    out: tuple[Array, Optional[Array]],
) -> None:
    """Keys and values at the slots of their caches."""
    if (scatter_mode or "None") not in ("None", "Nct", "NHSD") or compress_lengths is not None:
        raise UnsupportedOperator("aclnnScatterPaKvCache", "the NumPy backend has no reference for compressed caches")
    heads_first = scatter_mode == "NHSD"
    _write(out[0], key, slots, heads_first)
    if value is not None and value.size and out[1] is not None:
        _write(out[1], value, slots, heads_first)


@reference("aclnnScatterPaCache", raw=True)
def scatter_pa_cache(
    key: Array,
    cache: Array,
    slots: Array,
    compress_lengths: Optional[Array],
    compress_offsets: Optional[Array],
    lengths: Optional[Array],
    cache_mode: Optional[str],
    *,
    out: tuple[Array],
) -> None:
    """Keys at the slots of their cache; compressed, each head's own sequence from its slot on.

    With an offset the tokens from there on, so many, become their mean; without one the last so many are kept.
    """
    if compress_lengths is None:
        _write(out[0], key, slots)
        return
    heads = key.shape[2]
    flat, many = slots.reshape(-1), compress_lengths.reshape(-1)
    for number, (slot, length) in enumerate(zip(flat.tolist(), many.tolist())):
        batch, head = divmod(number, heads)
        rows = key[batch, : int(lengths[batch]) if lengths is not None else None, head]
        if compress_offsets is None:
            tokens = rows[len(rows) - length :]
        else:
            first = int(compress_offsets.reshape(-1)[number])
            mean = rows[first : first + length].astype(np.float32).mean(0, keepdims=True).astype(rows.dtype)
            tokens = np.concatenate([rows[:first], mean, rows[first + length :]])
        _write(out[0], tokens[:, None], slot + np.arange(len(tokens)))


@reference("aclnnScatterPaKvCacheWithKScale", raw=True)
def scatter_pa_kv_cache_with_k_scale(
    key: Array,
    value: Array,
    key_cache: Array,
    value_cache: Array,
    slots: Array,
    scale: Array,
    scale_cache: Array,
    layout: Optional[str],
    *,
    out: tuple[Array, Array, Array],
) -> None:
    """The keys' scales too; pages have their heads first. The kernel leaves out slots behind the cache."""
    slots = np.where(slots < len(key_cache) * key_cache.shape[2], slots, -1)
    for cache, rows in zip(out, (key, value, scale[..., None])):
        _write(cache, rows, slots, heads_first=True)


# --------------------------------------------------------------------------------------------------- reading pages


@reference("aclnnGatherPaKvCache", raw=True)
def gather_pa_kv_cache(
    key_cache: Array,
    value_cache: Array,
    table: Array,
    lengths: Array,
    keys: Array,
    values: Array,
    offsets: Optional[Array],
    cache_mode: Optional[str],
    cumulative: bool,
    *,
    out: tuple[Array, Array],
) -> None:
    """The tokens of all sequences one after the other; those of each begin so many tokens into its pages."""
    counts = np.diff(lengths.reshape(-1)) if cumulative else lengths.reshape(-1)
    if (counts < 0).any() or counts.sum() > min(len(part) for part in out) or len(counts) > len(table):
        raise DataError(
            "seqLens", f"is {lengths.tolist()}; {len(out[0])} rows and {len(table)} rows of the table hold less"
        )
    if 0 in key_cache.shape or 0 in value_cache.shape:
        return
    number = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts, counts)
    fractal = cache_mode == "PA_NZ"
    for cache, target in ((key_cache, out[0]), (value_cache, out[1])):
        size = cache.shape[2 if fractal else 1]
        page, token = np.divmod(place, size)
        first = 0 if offsets is None else offsets[number] // size
        check_range("blockTables", page + first, 0, table.shape[1])
        chosen = table[number, page + first]
        check_range("blockTables", chosen, 0, len(cache))
        rows = cache[chosen, :, token] if fractal else cache[chosen, token]
        if rows.size != len(rows) * int(np.prod(target.shape[1:])):
            raise DataError("keyRef", f"has rows of shape {target.shape[1:]}; the caches have {rows.shape[1:]}")
        target[: len(rows)] = rows.reshape(len(rows), *target.shape[1:])
