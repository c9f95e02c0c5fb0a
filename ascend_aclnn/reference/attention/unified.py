"""Flash attention for training and inference alike: packed, padded and paged sequences, queries and keys of 16 or 8 bits."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference.attention._blocks import Side, side, softmax_or_zero

_NO_MASK, _CAUSAL, _BAND = 0, 3, 4
_TENSOR_HIF8, _MXFP8, _TOKEN_FP8 = 0, 1, 6  # quantMode
_ELEMENTS = 1 << 22  # of a block of scores


def _tokens_first(x: Array, layout: str) -> Array:
    """(..., tokens, heads, width); pages (pages, tokens, heads, width)."""
    if layout == "PA_NZ":  # (pages, heads, width / c, tokens, c)
        x = x.swapaxes(2, 3)
        return np.asarray(x.reshape(*x.shape[:3], -1).swapaxes(1, 2))
    return x.swapaxes(-3, -2) if layout in ("BNSD", "NTD", "PA_BNBD") else x


def _plain(layout: str) -> str:
    return {"BNSD": "BSND", "NTD": "TND"}.get(layout, layout)


def _hidden(args: NamedArguments, rows: Array, queries: int, keys: int) -> Array:
    """Keys that the queries do not see; the last query's own key is the last one."""
    diagonal = (keys - queries + rows)[:, None]
    key, mode = np.arange(keys), args["maskMode"]
    hidden = np.zeros((len(rows), keys), bool)
    if mode == _CAUSAL:
        return np.asarray(key > diagonal)
    if mode == _BAND:
        if args["winLeft"] >= 0:
            hidden |= key < diagonal - args["winLeft"]
        if args["winRight"] >= 0:
            hidden |= key > diagonal + args["winRight"]
    return hidden


def _attend(
    args: NamedArguments, query: Array, key: Array, value: Array, queries: Side, keys: Side
) -> tuple[Array, Array]:
    """Results (..., tokens, heads, width) and log(sum(exp)) (..., tokens, heads); infinity where nothing is seen."""
    output = np.zeros((*query.shape[:-1], value.shape[-1]), np.float32)
    lse = np.full(query.shape[:-1], np.inf, np.float32)
    if len(queries) != len(keys):
        raise DataError(
            "sequsedKvOptional", f"and cu_seqlens_kv give {len(keys)} sequences; there are {len(queries)} of q"
        )
    scale, share = np.float32(args["softmaxScale"]), query.shape[-2] // max(1, key.shape[-2])
    for number in range(len(queries)):
        where, many = queries.at(number), queries.lengths[number]
        own_keys, own_values = keys.take(key, number), keys.take(value, number)
        step = max(1, _ELEMENTS // max(1, share * len(own_keys)))
        for first in range(0, many, step):
            rows = np.arange(first, min(first + step, many))
            hidden = _hidden(args, rows, many, len(own_keys))
            for head in range(own_keys.shape[1]):
                part = slice(head * share, (head + 1) * share)
                scores = np.einsum("tnd,sd->nts", query[where][rows, part], own_keys[:, head], optimize=True) * scale
                attended = softmax_or_zero(scores, np.broadcast_to(hidden, scores.shape))
                output[where][rows, part] = (attended.probabilities @ own_values[:, head]).swapaxes(0, 1)
                sums = np.where(attended.row_sum > 0, attended.log_sum_exp, np.inf)
                lse[where][rows, part] = sums[..., 0].T
    return output, lse


def _sides(args: NamedArguments, query: Array, key: Array) -> tuple[Side, Side]:
    names = ("cuSeqlensQOptional", "sequsedQOptional"), ("cuSeqlensKvOptional", "sequsedKvOptional")
    layout_q, layout_kv = (args[name] or "BSND" for name in ("layoutQ", "layoutKv"))
    return (
        side(query, _plain(layout_q), names[0], args["cuSeqlensQ"], args["sequsedQ"]),
        side(key, _plain(layout_kv), names[1], args["cuSeqlensKv"], args["sequsedKv"], args["blockTable"]),
    )


def _results(args: NamedArguments, query: Array, key: Array, value: Array, heads_first: bool) -> dict[str, Any]:
    output, lse = _attend(args, query, key, value, *_sides(args, query, key))
    out = args["layoutOut"] or "BSND"
    turned = output.swapaxes(-3, -2) if out in ("BNSD", "NTD") else output
    wanted = args["returnSoftmaxLse"]
    lse = lse.swapaxes(-1, -2) if lse.ndim == 3 or heads_first else lse
    return {"attnOut": turned, "softmaxLse": lse if wanted else None}


@reference_by_name("aclnnFlashAttn")
def flash_attn(args: NamedArguments) -> dict[str, Any]:
    """softmax(softmaxScale q k^T) v; metadata, which shares out the work, changes nothing."""
    layout_kv = args["layoutKv"] or "BSND"
    query = _tokens_first(args["q"], args["layoutQ"] or "BSND")
    key, value = (_tokens_first(args[name], layout_kv) for name in "kv")
    return _results(args, query, key, value, heads_first=False)


def _spread(scale: Array, x: Array) -> Array:
    """One scale for each 32 elements of the last axis, two of them together."""
    flat = scale.astype(np.float32).reshape(*x.shape[:-1], -1)
    return np.asarray(np.repeat(flat, 32, -1)[..., : x.shape[-1]])


def _spread_tokens(scale: Array, tokens: int, axis: int) -> Array:
    """One scale for each 32 tokens of each column: (..., tokens / 64, ..., width, 2), the pair last."""
    moved = np.moveaxis(scale.astype(np.float32), -1, axis + 1)
    merged = moved.reshape(*moved.shape[:axis], -1, *moved.shape[axis + 2 :])
    return np.take(np.repeat(merged, 32, axis), np.arange(tokens), axis)


def _quant_unsupported(call: Any) -> Optional[str]:
    mode, layout = call["quantMode"], call["layoutKv"]
    if mode not in (_TENSOR_HIF8, _MXFP8, _TOKEN_FP8):
        return f"the NumPy backend has no reference for quant_mode {mode}"
    layouts = {_MXFP8: ("TND", "PA_BNBD"), _TOKEN_FP8: ("PA_BNBD",), _TENSOR_HIF8: ("TND", "PA_BNBD")}[mode]
    if layout not in layouts or call["layoutQ"] != "TND":
        return f"the NumPy backend has no reference for quant_mode {mode} with layouts {call['layoutQ']} and {layout}"
    if mode == _MXFP8 and len(call.shape("qDescale")) != 4:
        return "the NumPy backend has no reference for scales of queries by groups of heads"
    return None


@reference_by_name("aclnnQuantFlashAttn", unsupported=_quant_unsupported)
def quant_flash_attn(args: NamedArguments) -> dict[str, Any]:
    """The same with operands of 8 bits, dequantised first; the device quantises the probabilities between its products."""
    mode, paged = args["quantMode"], args["layoutKv"] == "PA_BNBD"
    query, key, value = (args[name].astype(np.float32) for name in "qkv")
    scales = [args[f"{name}Descale"].astype(np.float32) for name in "qkv"]
    if mode == _MXFP8:
        query, key = query * _spread(scales[0], query), key * _spread(scales[1], key)
        axis = 2 if paged else 0
        value = value * _spread_tokens(scales[2], value.shape[axis], axis)
    elif mode == _TOKEN_FP8:
        query, key = query * scales[0].T[..., None], key * scales[1][..., None]
        value = value * scales[2].reshape(-1, 1, 1)
    else:
        query, key, value = (x * s.reshape(-1)[0] for x, s in zip((query, key, value), scales))
    layout = args["layoutKv"]
    return _results(args, query, _tokens_first(key, layout), _tokens_first(value, layout), heads_first=True)
