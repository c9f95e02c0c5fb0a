"""Attention and FFN ranks that are apart: each writes tokens and flags into the windows of the other side.

The rank that is written to takes no part in the call; its scheduler waits for the flags. A window begins with a table of
flags; the tokens follow at the next multiple of 512 bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_aclnn.collectives.groups import Ranks
from ascend_aclnn.numerics import Array, widen
from ascend_aclnn.reference._quantise import by_factor, store
from ascend_aclnn.reference._schedule import READY, fence, wait
from ascend_aclnn.reference.declare import DataError
from ascend_aclnn.reference.mc2.common import Arguments, communicating

_DYNAMIC = 2  # quantMode
_ALIGNED = 512


def _parts(
    ranks: Ranks, rank: int, table: Sequence[int], data: Sequence[int], dtype: np.dtype[Any]
) -> tuple[Array, Array]:
    """The table of flags in a rank's window, and the tokens behind it."""
    window = ranks.window(rank)
    flags, tokens = 4 * int(np.prod(table)), dtype.itemsize * int(np.prod(data))
    start = -(-flags // _ALIGNED) * _ALIGNED
    if start + tokens > len(window):
        text = f"is {list(data)}; with its table that is {start + tokens} bytes, and the window of rank {rank} has {len(window)}"
        raise DataError("ffnTokenDataShape" if len(data) == 5 else "tokenDataShape", text)
    return window[:flags].view(np.int32).reshape(table), window[start : start + tokens].view(dtype).reshape(data)


def _within(name: str, values: Array, end: int) -> None:
    if values.size and (values.min() < 0 or values.max() >= end):
        raise DataError(name, f"has values from {values.min()} to {values.max()}; they must be in [0, {end - 1}]")


@communicating("aclnnAttentionToFFN")
def attention_to_ffn(args: Arguments) -> None:
    """Each token to the ranks of its experts, with the expert's number there; then flag and layer to the ranks.

    An expert that lies on several ranks is asked on number session modulo their number. A rank that has not taken the last
    tokens of this session and micro batch is waited for. With syncFlag 1 only ranks that got tokens get the flag. What
    activeMask leaves out counts as done in this rank's own window.
    """
    ranks = args.ranks(size="worldSize")
    x, chosen, table = args["x"][0], args["expertIds"][0], args["expertRankTable"][0]
    session, batch, layer = (int(args[name][0]) for name in ("sessionId", "microBatchId", "layerId"))
    info_shape, data_shape = args["ffnTokenInfoTableShape"], args["ffnTokenDataShape"]
    quantised, first, routed = args["quantMode"] == _DYNAMIC, args["ffnStartRankId"], args["moeExpertNum"]
    _within("sessionId", np.array(session), info_shape[0])
    _within("microBatchId", np.array(batch), info_shape[1])
    _within("expertIds", chosen, routed)
    mask = args["activeMask"]
    tokens = len(x) if mask is None else int(mask.sum())
    shared = np.broadcast_to(np.arange(routed, len(table)), (tokens, len(table) - routed))
    experts = np.concatenate([chosen[:tokens], shared], 1)  # (tokens, experts of a token)
    if experts.shape[1] != data_shape[3] or info_shape[2] < 2 + len(x) * data_shape[3]:
        text = f"is {list(data_shape)}, the table {list(info_shape)}; a token has {experts.shape[1]} experts"
        raise DataError("ffnTokenDataShape", text)
    _within("expertRankTable", table[experts, 0] - 1, table.shape[1] // 2)
    places = 1 + 2 * (session % table[experts, 0])
    to, local = table[experts, places], table[experts, places + 1]
    count = ranks.size - info_shape[0]
    _within("expertRankTable", to - first, count)
    dtype = np.dtype(np.int8) if quantised else x.dtype
    least = -(-x.shape[1] // 32) * 32 + 4 if quantised else x.shape[1]
    if data_shape[4] < least:
        raise DataError("ffnTokenDataShape", f"is {list(data_shape)}; a token takes {least} elements")
    receivers = range(first, first + count) if not args["syncFlag"] else np.unique(to).tolist()
    for rank in receivers:
        flags, data = _parts(ranks, rank, info_shape, data_shape, dtype)
        if (to == rank).any():
            wait(functools.partial(_is_taken, ranks, rank, flags[session, batch]), f"rank {rank}")
        token, place = np.nonzero(to == rank)
        _send(args, x, token, experts[token, place], data[session, batch], place)
        flags[session, batch, 2 + token * experts.shape[1] + place] = local[token, place]
    for rank in receivers:  # when all tokens are there
        flags, _ = _parts(ranks, rank, info_shape, data_shape, dtype)
        flags[session, batch, 1] = layer
        fence()
        flags[session, batch, 0] = READY
    if tokens < len(x):
        own_window = ranks.window(ranks.rank)[: 4 * int(np.prod(args["attnTokenInfoTableShape"]))].view(np.int32)
        own_window.reshape(args["attnTokenInfoTableShape"])[batch, tokens:] = READY


def _is_taken(ranks: Ranks, rank: int, row: Array) -> bool:
    """Whether a rank has taken what was sent to it last; AclError once it is lost."""
    ranks.window(rank)
    return bool(row[0] != READY)


def _send(args: Arguments, x: Array, token: Array, expert: Array, data: Array, place: Array) -> None:
    """Tokens to their places; quantised ones with their scale, at the next multiple of 32 bytes."""
    width = x.shape[1]
    if data.dtype != np.int8:
        data[token, place, :width] = x[token]
        return
    wide = widen(x)[token]
    if args["scales"] is not None:
        wide = wide * args["scales"][0][expert]
    scaled, scales = by_factor(wide)
    codes = np.empty(scaled.shape, np.int8)
    store(codes, scaled)
    end = -(-width // 32) * 32
    data[token, place, :width] = codes
    data[token, place, end : end + 4] = np.asarray(scales, np.float32)[:, None].view(np.int8)


@communicating("aclnnFFNToAttention")
def ffn_to_attention(args: Arguments) -> None:
    """The first actualTokenNum rows of x to the places in the windows of the ranks that asked, each with its flag."""
    ranks = args.ranks(size="worldSize")
    rows = int(args["actualTokenNum"].reshape(-1)[0])
    x, info_shape, data_shape = args["x"], args["tokenInfoTableShape"], args["tokenDataShape"]
    _within("actualTokenNum", np.array(rows), len(x) + 1)
    session, batch, token, place = (
        args[name][:rows] for name in ("sessionIds", "microBatchIds", "tokenIds", "expertOffsets")
    )
    for name, values, end in zip(("microBatchIds", "tokenIds", "expertOffsets"), (batch, token, place), info_shape):
        _within(name, values, end)
    to = session
    if args["attnRankTable"] is not None:
        _within("sessionIds", session, len(args["attnRankTable"]))
        to = args["attnRankTable"][session]
    _within("sessionIds", to, ranks.size)
    for rank in np.unique(to).tolist():
        flags, data = _parts(ranks, rank, info_shape, data_shape, x.dtype)
        which = np.nonzero(to == rank)[0]
        where = batch[which], token[which], place[which]
        data[(*where, slice(0, x.shape[1]))] = x[which]
        fence()
        flags[where] = READY
