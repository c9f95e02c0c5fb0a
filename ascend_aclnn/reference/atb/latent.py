"""ATB's attention with latent keys (MLA): over caches, and in rings."""

from __future__ import annotations

from typing import Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, widen
from ascend_aclnn.reference.atb._operations import Arguments, operation_reference
from ascend_aclnn.reference.atb.attention import attend, causal, lengths_of_both, pages_of

_NZ = 3  # cacheMode: fractal caches (heads * width / 16, tokens, 16)


def _plain_pages(cache: Array, mode: int) -> Array:
    """Pages (tokens, 1, width)."""
    return cache.swapaxes(1, 2).reshape(len(cache), cache.shape[2], 1, -1) if mode == _NZ else cache


@operation_reference("MultiLatentAttention", stored=("ctKV", "kRope", "mask"))
def multi_latent_attention(args: Arguments) -> tuple[Array, Optional[Array]]:
    """Keys are ctKV and kRope beside each other, values ctKV; the mask, a row for each token, is added to the scores."""
    query = np.concatenate([args["qNope"], args["qRope"]], axis=-1)
    lengths = args["contextLens"]
    counts = args["qSeqLen"] if args["calcType"] in (1, 3) else (1,) * len(lengths)
    if len(counts) != len(lengths) or len(args["blockTables"]) < len(lengths) or sum(counts) > len(query):
        text = f"are {list(lengths)}, for {len(query)} tokens and {len(args['blockTables'])} rows of blockTables"
        raise DataError("contextLens", text)
    latent, rope = (_plain_pages(args[name], args["cacheMode"]) for name in ("ctKV", "kRope"))
    output = np.zeros((*query.shape[:2], latent.shape[3]), np.float32)
    lse = np.full((*query.shape[:2], 1), -np.inf, np.float32)
    mask = None if args["mask"] is None else widen(args["mask"])
    start = 0
    for number, (count, length) in enumerate(zip(counts, lengths)):
        tokens = slice(start, start + count)
        start += count
        if count == 0 or length == 0:
            continue
        table = args["blockTables"][number]
        values = pages_of(latent, table, length)
        keys = np.concatenate([values, pages_of(rope, table, length)], axis=-1)
        part = causal(count, length) if args["maskType"] == 3 else None if mask is None else mask[tokens, :length]
        output[tokens], sums = attend(query[tokens], keys, values, args["qkScale"], part)
        lse[tokens, :, 0] = sums
    return output, lse if args["calcType"] in (2, 3) else None


@operation_reference("RingMLA", stored=("mask",))
def ring_mla(args: Arguments) -> tuple[Array, Array]:
    """Sequences of packed tokens, and what the blocks of keys before gave: results weighted by their sums of exponentials.

    With a mask the last query sees the last key. seqLen has the lengths of the queries, and those of the keys behind them
    where they differ.
    """
    query = np.concatenate([args["querySplit1"], args["querySplit2"]], axis=-1)
    key = np.concatenate([args["keySplit1"], args["keySplit2"]], axis=-1)
    value = args["value"]
    queries, keys = lengths_of_both(args["seqLen"], len(query), len(key))
    output = np.zeros((*query.shape[:2], value.shape[2]), np.float32)
    lse = np.full((query.shape[1], len(query)), -np.inf, np.float32)
    start = key_start = 0
    for count, length in zip(queries, keys):
        rows, columns = slice(start, start + count), slice(key_start, key_start + length)
        start, key_start = rows.stop, columns.stop
        if count == 0 or length == 0:
            continue
        mask = causal(count, length) if args["maskType"] == 1 else None
        output[rows], sums = attend(query[rows], key[columns], value[columns], args["qkScale"], mask)
        lse[:, rows] = sums.T
    if args["prevLse"] is None:
        return output, lse
    before = args["prevLse"]
    total = np.logaddexp(before, lse)
    with np.errstate(invalid="ignore"):
        shares = [np.where(np.isneginf(part), 0, np.exp(part - total)).T[..., None] for part in (before, lse)]
    return args["prevOut"] * shares[0] + output * shares[1], total
