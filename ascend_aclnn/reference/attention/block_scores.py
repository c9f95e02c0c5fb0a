"""What block-sparse attention chooses its blocks by: scores of blocks of keys, and what they are made from."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array, DataError, widen
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference.attention._blocks import paged, side, spans

_BLOCK = 128
_INIT, _LOCAL = np.float32(1e30), np.float32(1e29)  # stand for scores of the first blocks, and of those near the query
_EPSILON = np.float32(1e-6)


def _wide(x: Array) -> Array:
    return widen(x).astype(np.float32)


@reference_by_name("aclnnMsaIndexScore", raw=True)
def msa_index_score(args: NamedArguments) -> dict[str, Any]:
    """The largest q @ k^T (times the keys' scales) that a query sees in each block of 128 keys; -inf where it sees none."""
    layout, scale = args["layoutKey"] or "BBND", args["scale"]
    query, key = _wide(args["query"]), _wide(args["key"])
    if scale is not None:
        key = key * scale.reshape(key.shape[:-1])[..., None]
    if layout == "BNBD":
        key = key.swapaxes(1, 2)
    ends, table = args["actualSeqQlen"], args["blockTable"]
    queries = spans(None if ends is None else ends[1:], "actualSeqQlenOptional", len(query))
    names = "actualSeqKlenOptional", "actualSeqKlenOptional"
    if layout == "TND":
        keys = side(key, "TND", names, args["actualSeqKlen"])
    else:
        keys = side(key, "PA_BSND", names, None, args["actualSeqKlen"], table)
    if not len(queries) == len(keys) == len(args["startLoc"]):
        raise DataError("startLoc", f"has {len(args['startLoc'])} items; there are {len(queries)} sequences of queries")
    heads, group = query.shape[1], query.shape[1] // key.shape[-2]
    columns = table.shape[1] if layout != "TND" else -(-len(key) // _BLOCK)
    score = np.full((heads, len(query), -(-columns // 16) * 16), -np.inf, np.float32)
    for number, rows in enumerate(queries):
        own_keys = np.repeat(keys.take(key, number), group, 1)
        length, count = len(own_keys), rows.stop - rows.start
        products = np.einsum("qhd,khd->hqk", query[rows], own_keys)
        if args["sparseMode"] == 3:
            seen = length - count + np.arange(count) + 1
            products = np.where(np.arange(length) >= seen[:, None], -np.inf, products)
        blocks = -(-length // _BLOCK)
        products = np.pad(products, ((0, 0), (0, 0), (0, blocks * _BLOCK - length)), constant_values=-np.inf)
        block_max = products.reshape(heads, count, blocks, _BLOCK).max(-1, initial=-np.inf)
        start, block = int(args["startLoc"][number]), np.arange(blocks)
        block_max[..., block < args["initBlocks"]] = _INIT
        block_max[..., (block >= max(0, start + 1 - args["localBlocks"])) & (block <= start)] = _LOCAL
        score[:, rows, :blocks] = block_max
    return {"score": score}


# --------------------------------------------------------------------------------------------------- sums of groups


def _sums(x: Array, blocks: int, size: int, stride: int) -> Array:
    """Of each block's tokens (heads, width) the sums of those ``stride`` apart: heads, blocks, stride, width."""
    padded = np.zeros((blocks * size, *x.shape[1:]), np.float32)
    padded[: len(x)] = x
    parts = padded.reshape(blocks, size // stride, stride, *x.shape[1:]).sum(1)
    return np.asarray(parts.transpose(2, 0, 1, 3))


@reference_by_name("aclnnStemOamPrepVarlenQ", raw=True)
def stem_oam_prep_varlen_q(args: NamedArguments) -> dict[str, Any]:
    """Sums of a block's queries (times their scales), one for each place of a stride, side by side."""
    size, stride = args["stemBlockSize"], args["stemStride"]
    q = _wide(args["q"]) * args["qScale"][..., None]
    lengths, ends = args["qSeqLens"], args["cuSeqLensQ"]
    most = -(-max(lengths, default=0) // size)
    flat = np.zeros((len(lengths), q.shape[1], most, stride, q.shape[2]), np.float32)
    for number, length in enumerate(lengths):
        start, blocks = ends[number], -(-length // size)
        if length < 0 or start + length > len(q):
            raise DataError("qSeqLens", f"is {tuple(lengths)}; sequence {number} reaches beyond the {len(q)} tokens")
        flat[number, :, :blocks] = _sums(q[start : start + length], blocks, size, stride)
    return {"qFlat": flat.reshape(*flat.shape[:3], -1)}


def _bias(values: Array, blocks: int, size: int, stride: int, magnitude: float) -> Array:
    """Of the values (tokens, heads, width) of a sequence, by block: how far the norms of its groups are above the mean."""
    norms = np.zeros((blocks * size, values.shape[1]), np.float32)
    norms[: len(values)] = np.sqrt(np.square(values).sum(-1))
    logs = np.log(norms.reshape(-1, stride, values.shape[1]).max(1) + _EPSILON)
    spread = logs.std(0, ddof=1) if len(logs) > 1 else np.zeros(values.shape[1], np.float32)
    normalised = (logs - logs.mean(0)) / (spread + _EPSILON)
    above = np.float32(magnitude) * np.maximum(normalised, 0)
    return np.asarray(above.reshape(blocks, size // stride, -1).mean(1).T)


@reference_by_name("aclnnStemOamPrepPagedKv", raw=True)
def stem_oam_prep_paged_kv(args: NamedArguments) -> dict[str, Any]:
    """Of paged keys the sums as of queries, in reverse order; of paged values a bias of each block."""
    size, stride, lengths = args["stemBlockSize"], args["stemStride"], args["kvSeqLens"]
    caches = [args[name] for name in ("kCache", "vCache", "kScaleCache")]
    keys, values, scales = (_wide(c.swapaxes(1, 2) if args["kvLayout"] == "BNBD" else c) for c in caches)
    heads, most = keys.shape[2], -(-max(lengths, default=0) // size)
    flat = np.zeros((len(lengths), heads, most, stride, keys.shape[3]), np.float32)
    bias = np.zeros((len(lengths), heads, most), np.float32)
    for number, (length, table) in enumerate(zip(lengths, args["kvIndices"])):
        if length <= 0:
            continue
        blocks = -(-length // size)
        k, v, s = (paged(cache, table, length, "kvIndices") for cache in (keys, values, scales))
        flat[number, :, :blocks] = _sums(k * s, blocks, size, stride)[:, :, ::-1]
        bias[number, :, :blocks] = _bias(v * args["vScale"][:, None], blocks, size, stride, args["lambdaMag"])
    return {"kFlat": flat.reshape(*flat.shape[:3], -1), "vBias": bias}
