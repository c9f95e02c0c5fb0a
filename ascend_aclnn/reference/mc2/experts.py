"""Sending tokens to the ranks of their experts and bringing the results back.

The ranks of shared experts come first, those of the others behind them, each with as many experts. Rows arrive sorted by
local expert, then by the rank that sent them, then as they lie there, as the kernels of Atlas A3 and Ascend 950 put
them. ``epRecvCounts`` are the ends of the rows of each (local expert, rank). What a dispatch leaves for the combine is
internal to CANN; here it is what those kernels write:

- ``assistInfoForCombine``: three numbers for each row: rank, token, and which of its experts (shared ones behind the
  others). On Atlas A2 the kernel writes what version 1 does. Unused places are -1 here: the combine of the
  Setup / Teardown pair gets no counts and finds the end of the rows by them.
- ``expandIdx`` (version 1): for each token and expert, how many rows of this rank go to that expert before.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.collectives.groups import Ranks
from ascend_aclnn.numerics import Array, round_into, rounded_to, widen
from ascend_aclnn.reference import _mx as mx
from ascend_aclnn.reference._moments import inverse_deviation, mean_over
from ascend_aclnn.reference._quantise import by_factor, largest, store
from ascend_aclnn.reference.declare import DataError
from ascend_aclnn.reference.mc2._local import E8M0
from ascend_aclnn.reference.mc2.common import Arguments, communicating, remaining

STATIC, BY_TOKEN, BY_TILE, SHARED_EXPONENTS = 1, 2, 3, 4  # quantMode
_TILE = 128
_COMMUNICATION_BLOCK = 8  # commQuantMode 2


class ExpertLayout(NamedTuple):
    """Which experts lie where."""

    size: int
    rank: int
    experts: int  # those that are not shared
    shared: int
    shared_ranks: int
    special: int  # zero, copy and constant experts, which no rank has

    @classmethod
    def place(cls, args: Arguments) -> tuple[Ranks, ExpertLayout]:
        """The ranks that take part and where their experts lie: those of the group, or those that elasticInfo leaves."""
        ranks = args.ranks("groupEp", "epWorldSize", "epRankId")
        shared_ranks, experts, elastic = args["sharedExpertRankNum"] or 0, args["moeExpertNum"], args["elasticInfo"]
        if elastic is not None and elastic.reshape(-1)[:1].any():
            ranks, shared_ranks, experts = remaining(args, ranks, elastic.reshape(-1))
        return ranks, cls.of(args, ranks, shared_ranks, experts)

    @classmethod
    def of(cls, args: Arguments, ranks: Ranks, shared_ranks: int, experts: int) -> ExpertLayout:
        special = sum(args[f"{kind}ExpertNum"] or 0 for kind in ("zero", "copy", "const"))
        shared = (args["sharedExpertNum"] or 0) if shared_ranks else 0
        if not 0 <= shared_ranks < ranks.size or (shared and shared_ranks % shared):
            raise DataError(
                "sharedExpertRankNum", f"is {shared_ranks}; it must be a multiple of sharedExpertNum below {ranks.size}"
            )
        if experts % (ranks.size - shared_ranks):
            text = (
                f"is {experts}; it must be a multiple of {ranks.size - shared_ranks}, the ranks without shared experts"
            )
            raise DataError("moeExpertNum", text)
        return cls(ranks.size, ranks.rank, experts, shared, shared_ranks, special)

    @property
    def per_rank(self) -> int:
        return self.experts // (self.size - self.shared_ranks)

    @property
    def local(self) -> int:
        """Experts of this rank."""
        return 1 if self.rank < self.shared_ranks else self.per_rank

    def home(self, expert: Array) -> Array:
        """The ranks of experts that are not shared."""
        return expert // self.per_rank + self.shared_ranks

    def home_of_shared(self, number: Array) -> Array:
        """The ranks that have copies of the shared experts are divided between the ranks that send."""
        copies = self.shared_ranks // self.shared
        return self.rank % copies + number * copies


class Rows(NamedTuple):
    """Rows that a rank sends, sorted by the rank that gets them and by its expert."""

    token: Array
    slot: Array  # which of the token's experts; shared ones behind the others
    target: Array  # rank
    expert: Array  # of that rank
    scale: Array  # the row of smoothing factors


def _active(args: Arguments, layout: ExpertLayout) -> Array:
    """(tokens, experts of each) that are sent; the special ones are not."""
    ids = args["expertIds"]
    last = layout.experts + layout.special - 1
    if ids.size and (ids.min() < 0 or ids.max() > last):
        raise DataError("expertIds", f"has values from {ids.min()} to {ids.max()}; they must be in [0, {last}]")
    return np.asarray(_masked(args["xActiveMask"], ids.shape) & (ids < layout.experts))


def _masked(mask: Optional[Array], shape: tuple[int, ...]) -> Array:
    if mask is None:
        return np.ones(shape, bool)
    return np.broadcast_to(mask[:, None] if mask.ndim == 1 else mask, shape).astype(bool)


def _outgoing(args: Arguments, layout: ExpertLayout) -> Rows:
    ids = args["expertIds"]
    token, slot = np.nonzero(_active(args, layout))
    expert = ids[token, slot].astype(np.int64)
    target, local, scale = layout.home(expert), expert % layout.per_rank, expert + layout.shared
    if layout.shared:
        tokens = np.nonzero(_masked(args["xActiveMask"], ids.shape).any(axis=1))[0]
        number = np.repeat(np.arange(layout.shared), len(tokens))
        token, slot = np.append(token, np.tile(tokens, layout.shared)), np.append(slot, ids.shape[1] + number)
        target = np.append(target, layout.home_of_shared(number))
        local, scale = np.append(local, np.zeros_like(number)), np.append(scale, number)
    order = np.lexsort((local, target))
    return Rows(token[order], slot[order], target[order], local[order], scale[order])


def _split(x: Array, target: Array, size: int) -> list[Array]:
    """Rows that are sorted by the rank that gets them, by rank."""
    return np.split(x, np.searchsorted(target, np.arange(1, size)))


# --------------------------------------------------------------------------------------------------- quantisation


def _quantised(
    x: Array, scales: Optional[Array], rows: Rows, mode: int, dtype: np.dtype[Any]
) -> tuple[Array, Optional[Array]]:
    """The rows as they are sent, and their scales; ``scales`` smooths, or goes along with rows that are quantised already."""
    if not mode:
        return x[rows.token], None if scales is None else scales[rows.token]
    wide = widen(x)[rows.token]
    if mode == SHARED_EXPONENTS:
        return _with_shared_exponents(wide, dtype)
    if scales is not None:
        wide = wide * (scales.reshape(1, -1) if scales.ndim < 2 else scales[rows.scale])
    codes = np.empty(wide.shape, dtype)
    if mode == STATIC:
        store(codes, wide)
        return codes, None
    scaled, restore_scales = by_factor(_tiles(wide) if mode == BY_TILE else wide, largest(dtype))
    store(codes, scaled.reshape(len(wide), -1)[:, : wide.shape[1]])
    return codes, restore_scales


def _with_shared_exponents(wide: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    quantised, exponents = mx.quantised(wide, dtype)
    return rounded_to(quantised, dtype), exponents.view(E8M0)


def _tiles(wide: Array) -> Array:
    """(rows, tiles, 128), filled up with zeros."""
    count = -(-wide.shape[1] // _TILE)
    padded = np.zeros((len(wide), count * _TILE), wide.dtype)
    padded[:, : wide.shape[1]] = wide
    return padded.reshape(len(wide), count, _TILE)


# --------------------------------------------------------------------------------------------------- dispatch


class Received(NamedTuple):
    """Rows as they arrive, sorted by local expert and by the rank that sent them."""

    order: Array
    counts: Array  # (local experts, ranks)

    def sorted(self, parts: list[Array]) -> Array:
        return np.concatenate(parts)[self.order]


def _receive(ranks: Ranks, layout: ExpertLayout, rows: Rows) -> tuple[Received, Array]:
    """What comes, and (rank, token, slot) of each row."""
    info = np.stack([np.full_like(rows.token, layout.rank), rows.token, rows.slot, rows.expert], 1).astype(np.int32)
    received = np.concatenate(ranks.all_to_all(_split(info, rows.target, layout.size)))
    counts = np.zeros((layout.local, layout.size), np.int64)
    np.add.at(counts, (received[:, 3], received[:, 0]), 1)
    order = np.argsort(received[:, 3], kind="stable")
    return Received(order, counts), received[order, :3]


def _write_counts(args: Arguments, counts: Array) -> None:
    """The ends of the rows of each expert and rank, and the rows of each expert."""
    args.store_front("epRecvCounts", np.cumsum(counts))
    by_expert = counts.sum(axis=1)
    args.store_front("expertTokenNums", np.cumsum(by_expert) if args["expertTokenNumsType"] == 0 else by_expert)


def _write_info(args: Arguments, info: Array) -> None:
    target = args.out.get("assistInfoForCombine")
    if target is not None:
        target[...] = -1
        args.store_front("assistInfoForCombine", info.reshape(-1))


def _exchange(args: Arguments, ranks: Ranks, layout: ExpertLayout, rows: Rows) -> tuple[Received, Array]:
    """Sends the rows with their scales and weights, and stores what comes; then as ``_receive``."""
    codes, scales = _quantised(args["x"], args["scales"], rows, args["quantMode"], args.out["expandX"].dtype)
    received, info = _receive(ranks, layout, rows)

    def bring(x: Array) -> Array:
        return received.sorted(ranks.all_to_all(_split(x, rows.target, layout.size)))

    args.store_front("expandX", bring(codes))
    if scales is not None:
        args.store_front("dynamicScales", _like(bring(scales), args, "dynamicScales"))
    if args["expertScales"] is not None:
        ones = np.ones((len(args["x"]), max(layout.shared, 1)), np.float32)
        weights = np.append(args["expertScales"], ones, axis=1)
        args.store_front("expandScales", bring(weights[rows.token, rows.slot]))
    return received, info


def _like(scales: Array, args: Arguments, name: str) -> Array:
    """Scales of rows in the shape in which the output has them, one or several for each row."""
    target = args.out.get(name)
    return scales if target is None else scales.reshape(len(scales), *target.shape[1:])


@communicating(
    "aclnnMoeDistributeDispatchV2",
    "aclnnMoeDistributeDispatchV3",
    "aclnnMoeDistributeDispatchV4",
)
def moe_distribute_dispatch(args: Arguments) -> None:
    """Each token to the ranks of its experts, quantised if asked. performanceInfo is not written."""
    ranks, layout = ExpertLayout.place(args)
    received, info = _exchange(args, ranks, layout, _outgoing(args, layout))
    _write_info(args, info)
    _write_counts(args, received.counts)
    tensor_group = _tensor_group(args, layout)
    if tensor_group is not None:
        _gather_rows(args, tensor_group, received.counts)


# ---------------------------------------------------------------------------------------------------- tensor groups


def _tensor_group(args: Arguments, layout: ExpertLayout) -> Optional[Ranks]:
    """The two ranks that hold the same expert in parts; None where each is held by one."""
    if (args["tpWorldSize"] or 0) < 2:
        return None
    if args["tpWorldSize"] != 2 or layout.per_rank > 1:
        text = (
            f"is {args['tpWorldSize']} with {layout.per_rank} experts on a rank; it must be 2 at most, and then with 1"
        )
        raise DataError("tpWorldSize", text)
    if args["commQuantMode"]:
        raise DataError("commQuantMode", f"is {args['commQuantMode']}; it must be 0 if tpWorldSize is 2")
    return args.ranks("groupTp", "tpWorldSize", "tpRankId")


def _swap(ranks: Ranks, x: Array) -> Array:
    """What the other one of two ranks has in this place."""
    parts = [x[:0], x[:0]]
    parts[1 - ranks.rank] = x
    return ranks.all_to_all(parts)[1 - ranks.rank]


def _gather_rows(args: Arguments, ranks: Ranks, counts: Array) -> None:
    """The other rank's rows and their ends behind this one's; each multiplies all of them by its part of the expert."""
    row_count = int(counts.sum())
    for name in ("expandX", "dynamicScales"):
        if args.wants(name):
            target = args.out[name]
            other = _swap(ranks, target[:row_count])
            if row_count + len(other) > len(target):
                raise DataError(
                    name, f"has {len(target)} rows; {row_count} and the {len(other)} of the other rank are there"
                )
            target[row_count : row_count + len(other)] = other
    ends = np.cumsum(counts)
    other_ends = _swap(ranks, ends)
    args.store_front("epRecvCounts", np.append(ends, other_ends))
    totals = [row_count, int(other_ends[-1])]
    args.store_front("expertTokenNums", np.array([sum(totals)]))
    args.store_front("tpRecvCounts", np.array(totals if ranks.rank == 0 else totals[::-1]))


def _sum_of_parts(
    args: Arguments, ranks: Optional[Ranks], rows: int, store: Callable[[Array, np.dtype[Any]], Array] = rounded_to
) -> Array:
    """This rank's rows, with what the other rank of its tensor group has made of them added and rounded."""
    x = args["expandX"]
    if ranks is None:
        return np.asarray(x[:rows])
    others = int(args["tpSendCounts"][1 - ranks.rank])
    if rows + others > len(x):
        raise DataError("tpSendCounts", f"has {others} rows of the other rank behind {rows}; expandX has {len(x)}")
    part = _swap(ranks, x[rows : rows + others])
    if len(part) != rows:
        raise DataError("tpSendCounts", f"of the other rank has {len(part)} rows of this one, which has {rows}")
    return store(widen(x[:rows]) + widen(part), x.dtype)


# ---------------------------------------------------------------------------------------------------- version 1


def _halves_away(x: Array, dtype: np.dtype[Any]) -> Array:
    """Rounded as the kernel of version 1 rounds sums of parts: BF16 halves away from zero (CAST_ROUND), FP16 to even."""
    if dtype != ml_dtypes.bfloat16:
        return rounded_to(x, dtype)
    codes = ((x.view(np.uint32) + np.uint32(0x8000)) >> 16).astype(np.uint16).view(dtype)
    return np.where(np.isnan(x), np.nan, codes.astype(np.float32)).astype(dtype)


def _shared_bounds(rank: int, tokens: int, shared_ranks: int) -> Array:
    """Where the tokens of a rank are divided between the ranks of the shared expert."""
    return (np.arange(shared_ranks + 1) + rank) * tokens // shared_ranks - rank * tokens // shared_ranks


def _outgoing_v1(args: Arguments, layout: ExpertLayout) -> Rows:
    """The shared expert of version 1: ranks that have it keep their own tokens, the others divide theirs between them."""
    rows = _outgoing(args, layout._replace(shared=0))
    if not layout.shared_ranks:
        return rows
    tokens = np.arange(len(args["x"]))
    if layout.rank < layout.shared_ranks:
        homes = np.full_like(tokens, layout.rank)
    else:
        homes = np.searchsorted(_shared_bounds(layout.rank, len(tokens), layout.shared_ranks), tokens, "right") - 1
    zero = np.zeros_like(tokens)
    target = np.append(rows.target, homes)
    order = np.argsort(target, kind="stable")
    return Rows(
        np.append(rows.token, tokens)[order],
        np.append(rows.slot, zero + args["expertIds"].shape[1])[order],
        target[order],
        np.append(rows.expert, zero)[order],
        np.append(rows.scale + 1, zero)[order],
    )


@communicating("aclnnMoeDistributeDispatch")
def moe_distribute_dispatch_v1(args: Arguments) -> None:
    """As version 2; the combine finds a token's rows by expandIdx."""
    ranks, layout = ExpertLayout.place(args)
    rows = _outgoing_v1(args, layout)
    received, _ = _exchange(args, ranks, layout, rows)
    args.store_front("expandIdx", _places(args["expertIds"]))
    counts = received.counts
    if layout.rank < layout.shared_ranks:  # its own tokens count as if all ranks of the shared expert had sent them
        counts[0, : layout.shared_ranks] = np.diff(_shared_bounds(layout.rank, len(args["x"]), layout.shared_ranks))
    _write_counts(args, counts)
    tensor_group = _tensor_group(args, layout)
    if tensor_group is not None:
        _gather_rows(args, tensor_group, counts)


def _places(ids: Array) -> Array:
    """How many of the experts before are the same, for each token and expert."""
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    places = np.empty(flat.size, np.int64)
    places[order] = np.arange(flat.size) - np.searchsorted(ordered, ordered)
    return places


# --------------------------------------------------------------------------------------------------- combine


def _sent_back(x: Array, mode: int) -> Array:
    """Rows as they arrive with what commQuantMode takes from them: eight bits, or FLOAT8 with shared exponents (3, 4)."""
    if not mode or not x.size:
        return x
    wide = widen(x)
    if mode in (3, 4):
        dtype = np.dtype(ml_dtypes.float8_e5m2 if mode == 3 else ml_dtypes.float8_e4m3fn)
        codes, scales = _with_shared_exponents(wide, dtype)
        return rounded_to(mx.restored(codes, scales.reshape(len(codes), -1, 2), -1), x.dtype)
    blocks = -(-wide.shape[1] // _COMMUNICATION_BLOCK)
    padded = np.zeros((len(wide), blocks * _COMMUNICATION_BLOCK), np.float32)
    padded[:, : wide.shape[1]] = wide
    parts = padded.reshape(len(wide), blocks, _COMMUNICATION_BLOCK)
    scale = np.abs(parts).max(axis=-1, keepdims=True) * np.float32(1 / 127)
    quotients = np.where(scale == 0, 0, parts / np.where(scale == 0, 1, scale))
    codes = np.rint(np.rint(quotients.astype(np.float16).astype(np.float32)))
    back = codes * widen(rounded_to(scale, x.dtype))
    return rounded_to(back.reshape(len(wide), -1)[:, : wide.shape[1]], x.dtype)


def _window(ranks: Ranks, args: Arguments, x: Array, info: Array, slots: int) -> Array:
    """(tokens, slots, columns): the rows x that belong to this rank's tokens, from the ranks that have computed them."""
    tokens, size = len(args["expertIds"]), ranks.size
    if len(info) and (info.min() < 0 or info[:, 0].max() >= size):
        raise DataError("assistInfoForCombine", "is not what a dispatch of this group has written")
    order = np.argsort(info[:, 0], kind="stable")
    target = info[order, 0]
    places = np.concatenate(ranks.all_to_all(_split(info[order, 1:], target, size)))
    rows = np.concatenate(ranks.all_to_all(_split(_sent_back(x[order], args["commQuantMode"] or 0), target, size)))
    window = np.zeros((tokens, slots, x.shape[1]), x.dtype)
    if len(places) and (places[:, 0].max() >= tokens or places[:, 1].max() >= slots):
        raise DataError("expertIds", f"has shape {args['expertIds'].shape}; rows came for other tokens than these")
    window[places[:, 0], places[:, 1]] = rows
    return window


def _special(args: Arguments, layout: ExpertLayout, slot: int) -> Optional[Array]:
    """What zero, copy and constant experts give for the tokens that ask for them at this place; None without any."""
    if not layout.special:
        return None
    ids = args["expertIds"][:, slot].astype(np.int64) - layout.experts
    zero, copy = args["zeroExpertNum"] or 0, args["copyExpertNum"] or 0
    x = args["oriX"]
    result = np.zeros((len(ids), args["expandX"].shape[1]), np.float32)
    if x is None:
        return result
    wide, copies = widen(x).reshape(result.shape), (ids >= zero) & (ids < zero + copy)
    result[copies] = wide[copies]
    constants = np.nonzero(ids >= zero + copy)[0]
    if len(constants):
        number = ids[constants] - zero - copy
        alpha1, alpha2, v = (widen(args[f"constExpert{part}"])[number] for part in ("Alpha1", "Alpha2", "V"))
        result[constants] = alpha1 * wide[constants] + alpha2 * v
    return result


def _combined(args: Arguments, layout: ExpertLayout, window: Array) -> Array:
    """The weighted sum over each token's experts in their order, then the shared ones, in float32."""
    ids, weights = args["expertIds"], args["expertScales"]
    active = _masked(args["xActiveMask"], ids.shape)
    total = np.zeros((len(ids), window.shape[2]), np.float32)
    for slot in range(window.shape[1]):
        part = widen(window[:, slot])
        if slot < ids.shape[1]:
            special = _special(args, layout, slot)
            if special is not None:
                part = np.where((ids[:, slot] < layout.experts)[:, None], part, special)
            if weights is not None and weights.size:
                part = part * weights[:, slot, None]
            part = np.where(active[:, slot, None], part, 0)
        total += part
    shared = args["sharedExpertX"]
    return total if shared is None else total + widen(shared).reshape(total.shape)


def _finish(args: Arguments, total: Array) -> None:
    """Tokens that are masked are not written."""
    ids, mask = args["expertIds"], args["xActiveMask"]
    unmasked = np.ones(len(ids), bool) if mask is None else _masked(mask, ids.shape).any(axis=1)
    results: dict[str, Array] = {"x": total}
    if args["residualX"] is not None:
        sums = total + widen(args["residualX"]).reshape(total.shape)
        rstd = inverse_deviation(mean_over(np.square(sums), (1,)), args["normEps"])
        results = {"x": sums, "rstd": rstd, "y": sums * rstd * widen(args["gamma"])}
    for name, values in results.items():
        target = args.out.get(name)
        if target is None:
            continue
        if target.size != values.size:
            raise DataError(name, f"has shape {target.shape}; it must be {values.shape}")
        rows = target.reshape(len(ids), -1)
        if unmasked.all():
            round_into(rows, values.reshape(rows.shape))
        else:
            rows[unmasked] = rounded_to(values.reshape(rows.shape)[unmasked], rows.dtype)


@communicating(
    "aclnnMoeDistributeCombineV2",
    "aclnnMoeDistributeCombineV3",
    "aclnnMoeDistributeCombineV4",
    "aclnnMoeDistributeCombineAddRmsNorm",
    "aclnnMoeDistributeCombineAddRmsNormV2",
)
def moe_distribute_combine(args: Arguments) -> None:
    """The rows back to their tokens' ranks, added up by expertScales; then the residual and the norm, where there are."""
    ranks, layout = ExpertLayout.place(args)
    rows = int(args["epSendCounts"][layout.local * layout.size - 1])
    if not 0 <= rows <= len(args["expandX"]):
        raise DataError("epSendCounts", f"has {rows} rows; expandX has {len(args['expandX'])}")
    info = args["assistInfoForCombine"][: 3 * rows].reshape(-1, 3)
    x = _sum_of_parts(args, _tensor_group(args, layout), rows)
    window = _window(ranks, args, x, info, args["expertIds"].shape[1] + layout.shared)
    _finish(args, _combined(args, layout, window))


@communicating("aclnnMoeDistributeCombine")
def moe_distribute_combine_v1(args: Arguments) -> None:
    """As version 2; rows are found by expandIdx behind those of this rank's experts before."""
    ranks, layout = ExpertLayout.place(args)
    ids, ends = args["expertIds"], args["epSendCounts"][: layout.local * layout.size].astype(np.int64)
    if not 0 <= ends[-1] <= len(args["expandX"]):
        raise DataError("epSendCounts", f"has {ends[-1]} rows; expandX has {len(args['expandX'])}")
    x = _sum_of_parts(args, _tensor_group(args, layout), int(ends[-1]), _halves_away)
    x = _sent_back(x, args["commQuantMode"] or 0)
    counts = np.diff(ends, prepend=0).reshape(layout.local, layout.size)
    shared_rows = 0
    if layout.rank < layout.shared_ranks:
        shared_rows = int(ends[layout.shared_ranks - 1])  # this rank's tokens lie in front
        counts[0, : layout.shared_ranks] = 0
    blocks = np.split(x[shared_rows : int(ends[-1])], np.cumsum(counts.reshape(-1))[:-1])
    parts = [
        np.concatenate([blocks[expert * layout.size + rank] for expert in range(layout.local)])
        for rank in range(layout.size)
    ]
    returned = ranks.all_to_all(parts)
    flat, starts = np.concatenate(returned), np.cumsum([0, *map(len, returned)])
    asked = np.bincount(ids.reshape(-1), minlength=layout.experts)
    before = (np.cumsum(asked) - asked).reshape(-1, layout.per_rank)
    within = (before - before[:, :1]).reshape(-1)
    place = starts[layout.home(ids)] + within[ids] + args["expandIdx"][: ids.size].reshape(ids.shape)
    if place.size and (place.min() < 0 or place.max() >= len(flat)):
        raise DataError("expandIdx", "is not what a dispatch of this group has written")
    window = flat[place]
    if layout.shared_ranks:
        if layout.rank < layout.shared_ranks:
            shared = x[:shared_rows]
        else:
            bounds = np.diff(_shared_bounds(layout.rank, len(ids), layout.shared_ranks))
            shared = np.concatenate([flat[s : s + n] for s, n in zip(starts, bounds)])
        window = np.append(window, shared[:, None], axis=1)
    _finish(args, _combined(args, layout, window))


# --------------------------------------------------------------------------------------------------- in two halves

_COMMAND = 16  # numbers for each row


@communicating("aclnnMoeDistributeDispatchSetup")
def moe_distribute_dispatch_setup(args: Arguments) -> None:
    """The tokens as they are to be sent, in the order of token and expert; the Teardown half exchanges them.

    A row of yOut has the elements, then at the next multiple of 128 (of 32 with quantMode 2) the bytes of its scales; a
    row of commCmdInfo has rank, expert of that rank, token and place: CANN's are different and not documented.
    """
    _, layout = ExpertLayout.place(args)
    rows = _outgoing(args, layout)
    y, commands = args.out["y"], args.out["commCmdInfo"]
    codes, scales = _quantised(args["x"], args["scales"], rows, args["quantMode"], y.dtype)
    y[...] = np.zeros((), y.dtype)
    args.store_front("y", _message(codes, scales, y.shape[1]))
    commands[...] = -1
    table = np.stack([rows.target, rows.expert, rows.token, rows.slot], axis=1)
    commands[: len(table) * _COMMAND].reshape(-1, _COMMAND)[:, :4] = table
    args.store_front("expandIdx", _places(args["expertIds"]))


def _message(codes: Array, scales: Optional[Array], width: int) -> Array:
    """Rows of elements with the bytes of their scales behind."""
    rows = np.zeros((len(codes), width), codes.dtype)
    rows[:, : codes.shape[1]] = codes
    if scales is not None:
        rows.view(np.uint8)[:, _scales_at(codes.shape[1]) :][:, : scales[:1].nbytes] = _bytes(scales)
    return rows


def _scales_at(columns: int) -> int:
    return -(-columns // 128) * 128


def _bytes(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(len(x), -1).view(np.uint8)


@communicating("aclnnMoeDistributeDispatchTeardown")
def moe_distribute_dispatch_teardown(args: Arguments) -> None:
    """Receives what the Setup half of all ranks has prepared."""
    ranks, layout = ExpertLayout.place(args)
    table = args["commCmdInfo"][: len(args["commCmdInfo"]) // _COMMAND * _COMMAND].reshape(-1, _COMMAND)
    table = table[table[:, 0] >= 0][:, :4].astype(np.int64)
    rows = Rows(table[:, 2], table[:, 3], table[:, 0], table[:, 1], table[:, 1])
    received, info = _receive(ranks, layout, rows)
    messages = received.sorted(ranks.all_to_all(_split(args["y"][: len(table)], rows.target, layout.size)))
    columns = args.out["expandX"].shape[1]
    args.store_front("expandX", messages[:, :columns])
    target = args.out["dynamicScales"]
    if args["quantMode"] in (BY_TOKEN, BY_TILE, SHARED_EXPONENTS) and target is not None:
        width = target[:1].nbytes
        raw = np.ascontiguousarray(messages.view(np.uint8)[:, _scales_at(columns) :][:, :width])
        args.store_front("dynamicScales", raw.view(target.dtype).reshape(len(messages), *target.shape[1:]))
    _write_info(args, info)
    _write_counts(args, received.counts)


@communicating("aclnnMoeDistributeCombineSetup")
def moe_distribute_combine_setup(args: Arguments) -> None:
    """Notes where each row is to go; the Teardown half sends it. quantExpandX is not written (commQuantMode 0)."""
    info = args["assistInfoForCombine"]
    info = info[: len(info) // 3 * 3].reshape(-1, 3)
    count = int(np.argmax(info[:, 0] < 0)) if (info[:, 0] < 0).any() else len(info)
    commands = args.out["commCmdInfo"]
    commands[...] = -1
    if count * _COMMAND > commands.size:
        raise DataError(
            "commCmdInfoOut", f"has {commands.size} numbers; it must have {_COMMAND} for each of {count} rows"
        )
    commands[: count * _COMMAND].reshape(-1, _COMMAND)[:, :3] = info[:count]
    if args.out["quantExpandX"] is not None:
        args.out["quantExpandX"][...] = 0


@communicating("aclnnMoeDistributeCombineTeardown")
def moe_distribute_combine_teardown(args: Arguments) -> None:
    """Brings the rows back and adds them up."""
    ranks, layout = ExpertLayout.place(args)
    table = args["commCmdInfo"][: len(args["commCmdInfo"]) // _COMMAND * _COMMAND].reshape(-1, _COMMAND)
    info = table[table[:, 0] >= 0][:, :3]
    window = _window(ranks, args, args["expandX"], info, args["expertIds"].shape[1] + layout.shared)
    _finish(args, _combined(args, layout, window))
