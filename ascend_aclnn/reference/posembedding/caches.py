"""Rotary embeddings between a norm (or dequantisation) and the caches of keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, is_integer, round_into, widen
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.attention._pages import slots_of_blocks, write_rows
from ascend_aclnn.reference.attention.mla import by_row, rms_norm, rotate


def _wide(x: Array) -> Array:
    return widen(x).astype(np.float32)


def _scaled(x: Array, scale: Optional[Array], offset: Optional[Array], divide: bool = False) -> Array:
    """x (..., heads, width) * scale + offset, or / scale; both are of heads and width, of width, or one number."""
    if scale is None:
        return x
    y = x / scale if divide else x * scale
    return np.asarray(y if offset is None else y + offset)


def _write_heads_first(cache: Array, rows: Array, slots: Array, name: str) -> None:
    """Rows (tokens, heads, width) at their slots of a cache (pages, heads, tokens, width), rounded."""
    slots = slots.reshape(-1)
    check_range(name, slots, -1, len(cache) * cache.shape[2])
    there = np.flatnonzero(slots >= 0)
    page, place = np.divmod(slots[there], cache.shape[2])
    stored = np.empty((len(there), *rows.shape[1:]), cache.dtype)
    round_into(stored, np.ascontiguousarray(rows[there]))
    cache[page, :, place] = stored


# --------------------------------------------------------------------------------------------------- one head of keys


def _into_cache(args: NamedArguments, cache: Array, x: Array) -> None:
    """x (batch, heads, tokens, width) at the slots that index names."""
    mode, index = args["cacheMode"] or "Norm", args["index"]
    batch, heads, tokens, width = x.shape
    if mode == "Norm":
        check_range("index", index, -1, cache.shape[2])
        view = cache.reshape(-1, *cache.shape[2:])  # heads of all batches
        for number in range(batch):
            slots = index.reshape(batch, tokens)[number]
            there = np.flatnonzero(slots >= 0)
            stored = np.empty((heads, len(there), width), cache.dtype)
            round_into(stored, np.ascontiguousarray(x[number][:, there]))
            view[number * heads : (number + 1) * heads, slots[there]] = stored
        if not np.may_share_memory(view, cache):
            cache[...] = view.reshape(cache.shape)
        return
    size = cache.shape[1]
    if "BLK" in mode:  # where each block of a sequence begins
        index = slots_of_blocks(np.floor_divide(index, size), [tokens] * batch, size, "index")
    rows = x.swapaxes(1, 2).reshape(batch * tokens, heads, width)
    write_rows(cache, rows, index, "index", mode.endswith("NZ"))


def _offsets_ignored(call: Any) -> Optional[str]:
    offsets = any(call[name] is not None for name in ("kRopeOffsetOptional", "cKvOffsetOptional"))
    split = "vOptional" in call.operator.positions and call["vOptional"] is not None
    if offsets and not split and call.product in ("A2", "A3"):
        return f"on {call.soc.name} the kernel ignores offsets of a joined kv; the NumPy backend does not"
    return None


@reference_by_name("aclnnKvRmsNormRopeCache", "aclnnKvRmsNormRopeCacheV2", raw=True, unsupported=_offsets_ignored)
def kv_rms_norm_rope_cache(args: NamedArguments) -> dict[str, Any]:
    """The latent (normalised) and the rotated part of the keys, quantised if there are scales, into their caches.

    With values of their own all of kv is the key: normalised, its first elements rotated.
    """
    kv, gamma, cos, sin = (_wide(args[name]) for name in ("kv", "gamma", "cos", "sin"))
    value, width = args["v"], len(gamma)
    normed = rms_norm(kv[..., :width], gamma, args["epsilon"])
    if value is None:
        key, latent = rotate(kv[..., width:], cos, sin), normed
    else:
        turned = rotate(normed[..., : cos.shape[-1]], cos, sin)
        key, latent = np.concatenate([turned, normed[..., cos.shape[-1] :]], -1), _wide(value)
    for cache, x, name in (("kCacheRef", key, "kRope"), ("ckvCacheRef", latent, "cKv")):
        scale, offset = (args[f"{name}{part}"] for part in ("Scale", "Offset"))
        scale, offset = (
            None if p is None else p[:, None] if p.ndim == 2 and len(p) > 1 else p for p in (scale, offset)
        )
        _into_cache(args, args[cache], _scaled(x, scale, offset))
    wanted = args["isOutputKv"]
    return {
        "kCacheRef": args["kCacheRef"],
        "ckvCacheRef": args["ckvCacheRef"],
        "kRopeOut": key if wanted else None,
        "cKvOut": latent if wanted else None,
    }


# --------------------------------------------------------------------------------------------------- joined operands


@reference_by_name("aclnnQkvRmsNormRopeCache", raw=True)
def qkv_rms_norm_rope_cache(args: NamedArguments) -> dict[str, Any]:
    """Queries and keys normalised and rotated in halves; keys and values (over their scales) into fractal caches."""
    cos, sin = (_wide(args[name])[:, None] for name in ("cos", "sin"))
    heads = args["headNums"]
    x = _wide(args["qkv"]).reshape(len(args["qkv"]), sum(heads), -1)
    q, k, v = np.split(x, np.cumsum(heads)[:2], 1)
    q, k = (
        rotate(rms_norm(part, _wide(args[gamma]), args["epsilon"]), cos, sin, False)
        for part, gamma in ((q, "qGamma"), (k, "kGamma"))
    )
    for name, part in (("k", k), ("v", v)):
        cache = args[f"{name}Cache"]
        pages, parts, size, inner = cache.shape
        rows = _scaled(part, args[f"{name}Scale"], args[f"{name}Offset"], divide=True)
        view = cache.reshape(pages, size, 1, parts * inner)
        write_rows(view, rows, args["index"], "index", nz=True)
        if not np.may_share_memory(view, cache):
            cache[...] = view.reshape(cache.shape)
    flat = [part.reshape(len(x), -1) for part in (q, k, v)]
    return {
        "qOut": flat[0],
        "kCache": args["kCache"],
        "vCache": args["vCache"],
        "qOutBeforeQuant": flat[0],
        "kOutBeforeQuant": flat[1],
        "vOutBeforeQuant": flat[2],
    }


def _positions(args: NamedArguments, tokens: int) -> Array:
    """Of tokens that are the last of their sequences."""
    ends, lengths = args["queryStartLoc"], args["seqLens"]
    if ends is None or lengths is None:
        raise DataError("queryStartLocOptional", "and seq_lens are None; without mrope_position both are required")
    counts = np.diff(ends)
    if ends[0] != 0 or ends[-1] != tokens or (counts < 0).any() or len(counts) != len(lengths):
        raise DataError("queryStartLocOptional", f"is {ends}; it must rise from 0 to {tokens}, once for each sequence")
    first = np.repeat(lengths - counts - ends[:-1], counts)
    return np.asarray(first + np.arange(tokens))


def _sectioned(table: Array, positions: Array, sections: Sequence[int], name: str) -> tuple[Array, Array]:
    """Cosines and sines of three kinds of position (tokens, kinds): column by column the kinds alternate.

    Of each three columns the second and the third are those of the second and third kind, as far as their sections reach.
    """
    check_range(name, positions, 0, len(table))
    half = table.shape[1] // 2
    column = np.arange(half)
    kind = np.zeros(half, np.int64)
    for number in (1, 2):
        kind[(column % 3 == number) & (column < 3 * sections[number])] = number
    chosen = positions[:, kind]
    return table[chosen, column], table[chosen, column + half]


def _twice(x: Array) -> Array:
    """For both halves of each head: tokens, 1, width."""
    return np.concatenate([x, x], -1)[:, None]


@reference_by_name("aclnnQkvRmsNormRopeCacheWithKScale", raw=True)
def qkv_rms_norm_rope_cache_with_k_scale(args: NamedArguments) -> dict[str, Any]:
    """Queries and keys normalised, rotated by their positions and by a matrix, and quantised for each token and head."""
    x, heads = args["qkv"], args["headNums"]
    x = _wide(x.swapaxes(0, 1) if args["layoutQkv"] == "NTD" else x)
    q, k, v = np.split(x.reshape(len(x), sum(heads), -1), np.cumsum(heads)[:2], 1)
    table, half = _wide(args["cosSin"]), args["cosSin"].shape[1] // 2
    if args["mropePosition"] is None:
        positions = _positions(args, len(x))
        check_range("seqLensOptional", positions, 0, len(table))
        cos, sin = table[positions, :half], table[positions, half:]
    else:
        sections = args["mropeSection"] or (half, 0, 0)
        cos, sin = _sectioned(table, args["mropePosition"], sections, "mropePositionOptional")
    cos, sin = _twice(cos), _twice(sin)

    def turned(part: Array, gamma: str) -> Array:
        rotated_part = rotate(rms_norm(part, _wide(args[gamma]), args["epsilon"]), cos, sin, False)
        if args["rotation"] is None:
            return rotated_part
        rotated_part = rotated_part.astype(args["rotation"].dtype).astype(np.float32)  # the product's operands are BF16
        return np.asarray(rotated_part @ _wide(args["rotation"]))

    query, key = turned(q, "qGamma"), turned(k, "kGamma")
    q_scale: Optional[Array] = None
    if args["qQuantMode"] != "NoQuant":
        query, q_scale = by_row(query, v.dtype)
        q_scale = q_scale[..., 0]
    key, k_scale = by_row(key, args["kCacheRef"].dtype)
    factor = 1 if args["vScale"] is None else args["vScale"].reshape(v.shape[1], -1)
    caches = ("kCacheRef", key), ("vCacheRef", np.clip(v * factor, -448, 448)), ("kScaleCacheRef", k_scale)
    for name, rows in caches:
        _write_heads_first(args[name], rows, args["slotMapping"], "slotMapping")
    if args["layoutQOut"] != "TND":
        query = query.swapaxes(0, 1)
        q_scale = None if q_scale is None else q_scale.swapaxes(0, 1)
    return {name: args[name] for name, _ in caches} | {"qOut": query, "qScale": q_scale}


@reference_by_name("aclnnUndGenQkvRmsNormRopeCache", raw=True)
def und_gen_qkv_rms_norm_rope_cache(args: NamedArguments) -> dict[str, Any]:
    """Tokens of two kinds in the order that is asked for: normalised by weights of their own, rotated, into caches."""
    parts = [args["undQkv"]] + ([] if args["genQkv"] is None else [args["genQkv"]])
    x, first = _wide(np.concatenate(parts)), len(parts[0])
    order = np.arange(len(x)) if args["catIndices"] is None else args["catIndices"]
    check_range("catIndicesOptional", order, 0, len(x))
    heads = [args[f"numHeads{name}"] for name in "QKV"]
    q, k, v = np.split(x[order].reshape(len(order), sum(heads), -1), np.cumsum(heads)[:2], 1)
    table = _wide(args["cosSinCache"])
    sections = args["mropeSection"] or (table.shape[1] // 2, 0, 0)
    cos, sin = (_twice(t) for t in _sectioned(table, args["positions"].T, sections, "positions"))
    is_und = (order < first)[:, None, None]

    def turned(part: Array, name: str) -> Array:
        weight = _wide(args[f"undWeights{name}"])
        other = args[f"genWeights{name}"]
        gamma = np.where(is_und, weight, weight if other is None else _wide(other))
        return rotate(rms_norm(part, gamma, args["normEps"]), cos, sin, False)

    for name, rows in (("k", turned(k, "K")), ("v", v)):
        write_rows(args[f"{name}CacheRef"], rows, args["slotMapping"], "slotMapping")
    return {"kCacheRef": args["kCacheRef"], "vCacheRef": args["vCacheRef"], "qOut": turned(q, "Q")}


# --------------------------------------------------------------------------------------------------- after a product of integers


@reference_by_name("aclnnDequantRopeQuantKvcache", raw=True)
def dequant_rope_quant_kvcache(args: NamedArguments) -> dict[str, Any]:
    """x (dequantised) split into queries, keys and values; rotated; keys and values quantised into their caches."""
    x, cos, sin = args["x"], _wide(args["cos"]), _wide(args["sin"])
    bias, lead = args["bias"], x.shape[:-1]
    if is_integer(x.dtype):
        if bias is not None and is_integer(bias.dtype):
            x, bias = x + bias, None
        rows = x.astype(np.float32) * args["weightScale"]
        if args["activationScale"] is not None:
            rows = rows * args["activationScale"].reshape(*lead, 1)
        x = rows if bias is None else rows + _wide(bias)
    kv_heads, width = args["kCacheRef"].shape[2:]
    split = np.split(_wide(x), np.cumsum(args["sizeSplits"])[:2], -1)
    q, k, v = (part.reshape(*lead, part.shape[-1] // width, width) for part in split)
    if len(lead) == 1:
        cos, sin = cos[:, None], sin[:, None]
    q, k = rotate(q, cos, sin, False), rotate(k, cos, sin, False)
    for name, part in (("K", k), ("V", v)):
        cache = args[f"{name.lower()}CacheRef"]
        scale, offset = args[f"scale{name}"], args[f"offset{name}"]
        scale, offset = (None if p is None else p.reshape(kv_heads, width) for p in (scale, offset))
        rows = _scaled(part, scale, offset, divide=True)
        rows = rows.reshape(rows.size // (kv_heads * width), kv_heads, width)
        if (args["cacheMode"] or "contiguous") == "page":
            write_rows(cache, rows, args["indices"], "indices", skip=False)
            continue
        tokens = lead[1] if len(lead) == 2 else 1
        check_range("indices", args["indices"], 0, cache.shape[1] - tokens + 1)
        slots = np.arange(len(x))[:, None] * cache.shape[1] + args["indices"].reshape(-1, 1) + np.arange(tokens)
        write_rows(cache, rows, slots, "indices", skip=False)
    wanted = args["kvOutput"]
    return {
        "kCacheRef": args["kCacheRef"],
        "vCacheRef": args["vCacheRef"],
        "qOut": q,
        "kOut": k if wanted else None,
        "vOut": v if wanted else None,
    }
