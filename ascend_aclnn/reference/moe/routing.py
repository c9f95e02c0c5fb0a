"""Copies of the tokens in the order of their experts, with counts and (optionally) quantised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.core.errors import UnsupportedOperator
from ascend_aclnn.numerics import Array, round_into, rounded_to, widen
from ascend_aclnn.reference._quantise import INT8_MAX, by_row
from ascend_aclnn.reference._rows import check_range, codes, inverse, stable_order
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.moe._modes import MODES, quantised


class _Route(NamedTuple):
    """Where the copies go: copy c is token c // K for its c % K-th expert."""

    order: Array  # copies sorted by expert
    experts: Array  # the expert of each sorted copy
    tokens: Array  # the token of each sorted copy
    counts: Array  # copies of each expert


def _route(experts: Array, count: int) -> _Route:
    keys = experts.reshape(-1)
    order = stable_order(keys)
    top_k = keys.size // max(len(experts), 1)
    in_range = keys[(keys >= 0) & (keys < count)]
    return _Route(order, keys[order], order // max(top_k, 1), np.bincount(in_range, minlength=count)[:count])


class _Places(NamedTuple):
    """Which sorted copies are kept, the row that each goes to, and what every copy's row is (-1: dropped)."""

    copies: Array
    rows: Array
    of_copies: Array


def _front(route: _Route, rows: int) -> _Places:
    """The first copies in order."""
    return _Places(np.arange(min(rows, route.order.size)), np.arange(min(rows, route.order.size)), inverse(route.order))


def _blocks(route: _Route, count: int, capacity: int) -> _Places:
    """Each expert's first copies, in its own block of rows."""
    check_range("expertIdx", route.experts, 0, count)
    starts = np.cumsum(route.counts) - route.counts
    within = np.arange(route.order.size) - starts[route.experts]
    copies = np.flatnonzero(within < capacity)
    rows = route.experts[copies] * capacity + within[copies]
    of_copies = np.full(route.order.size, -1, np.int32)
    of_copies[route.order[copies]] = rows
    return _Places(copies, rows, of_copies)


def _fill(out: Array, values: Array, places: _Places, source: Array) -> None:
    """Rows of values, each where it goes; zeros elsewhere. Moves bits, does not compute."""
    flat = codes(out.reshape(math.prod(out.shape[:-1]), out.shape[-1]))
    flat[...] = 0
    flat[places.rows] = codes(values)[source[places.copies]]
    if not np.may_share_memory(flat, out):
        np.copyto(codes(out), flat.reshape(out.shape))


def _expanded(
    x: Array, experts: Array, active: int, capacity: int, count: int, mode: int, out: Array
) -> tuple[_Route, _Places]:
    route = _route(experts, count)
    if mode == 1:
        return route, _blocks(route, count, capacity)
    return route, _front(route, len(out))


def _write_counts(route: _Route, counts: Optional[Array], flag: int, before: Optional[Array], mode: int) -> None:
    """Counts of copies (flag 2), added up (flag 1), and those before anything was dropped."""
    if counts is not None and flag and mode == 0:
        counts[...] = np.cumsum(route.counts) if flag == 1 else route.counts
    if before is not None and mode == 1:
        before[...] = route.counts


@reference("aclnnMoeInitRoutingV2", raw=True)
def init_routing_v2(
    x: Array,
    experts: Array,
    active: int,
    capacity: int,
    count: int,
    mode: int,
    counts_flag: int,
    before_flag: bool,
    *,
    out: Sequence[Any],
) -> None:
    """``mode`` 1 gives each expert a block of ``capacity`` rows and drops what does not fit (row -1)."""
    expanded, row_idx, counts, before = out
    route, places = _expanded(x, experts, active, capacity, count, mode, expanded)
    row_idx[...] = places.of_copies
    _fill(expanded, x, places, route.tokens)
    _write_counts(route, counts, counts_flag, before if before_flag else None, mode)


def _quantise_copies(
    expanded: Array,
    x: Array,
    smooth: Optional[Array],
    route: _Route,
    places: _Places,
    first: int = 0,
    most: float = INT8_MAX,
) -> Array:
    """Kept copies over their row's scale, which is returned for every expanded row.

    ``smooth``: factors for all tokens (1, H), or one row for each expert from ``first`` on.
    """
    rows = widen(x)[route.tokens[places.copies]]
    if smooth is not None:
        rows = rows * (smooth if len(smooth) == 1 else smooth[route.experts[places.copies] - first])
    values, scales = by_row(rows, most)
    flat = expanded.reshape(math.prod(expanded.shape[:-1]), expanded.shape[-1])
    scaled = np.zeros(flat.shape, np.float32)
    scaled[places.rows] = values
    round_into(expanded, scaled.reshape(expanded.shape))
    all_scales = np.zeros(len(flat), np.float32)
    all_scales[places.rows] = scales
    return all_scales


def _quantise_statically(
    expanded: Array, x: Array, scale: Array, offset: Array, route: _Route, places: _Places
) -> None:
    y = np.asarray(widen(x) * scale.reshape(-1)[0] + offset.reshape(-1)[0], np.float32)
    _fill(expanded, rounded_to(y, np.int8), places, route.tokens)


@reference("aclnnMoeInitRoutingQuantV2", raw=True)
def init_routing_quant_v2(
    x: Array,
    experts: Array,
    scale: Optional[Array],
    offset: Optional[Array],
    active: int,
    capacity: int,
    count: int,
    mode: int,
    counts_flag: int,
    before_flag: bool,
    quant_mode: int,
    *,
    out: Sequence[Any],
) -> None:
    """InitRoutingV2 of tokens quantised by one scale (mode 0), or each copy by its largest value (mode 1)."""
    expanded, row_idx, counts, before, row_scales = out
    if expanded.dtype != np.int8:
        raise UnsupportedOperator("aclnnMoeInitRoutingQuantV2", f"no reference for {expanded.dtype} outputs")
    route, places = _expanded(x, experts, active, capacity, count, mode, expanded)
    row_idx[...] = places.of_copies
    if quant_mode == 0:
        assert scale is not None and offset is not None  # phase one saw to it
        _quantise_statically(expanded, x, scale, offset, route, places)
    else:
        scales = _quantise_copies(expanded, x, scale, route, places)
        if row_scales is not None:
            row_scales[...] = scales
    _write_counts(route, counts, counts_flag, before if before_flag else None, mode)


@reference("aclnnMoeInitRoutingV2Grad", raw=True)
def init_routing_v2_grad(grad: Array, row_idx: Array, top_k: int, mode: int, active: int, *, out: tuple[Array]) -> None:
    """Sums of the gradients of each token's copies; copies that were dropped add nothing."""
    check_range("expandedRowIdx", row_idx, -1, None)
    rows = widen(grad.reshape(-1, grad.shape[-1]))
    picks = row_idx.reshape(-1, top_k)
    total = np.zeros(out[0].shape, np.float32)
    for j in range(top_k):
        there = (picks[:, j] >= 0) & (picks[:, j] < len(rows))
        total[there] += rows[picks[there, j]]
    round_into(out[0], total)


# ------------------------------------------------------------------------------------------------- V3

_PLAIN, _STATIC, _DYNAMIC, _DYNAMIC_INT4 = -1, 0, 1, 13
_CUMSUM, _COUNT, _PAIRS = range(3)


def _within(experts: Array, first: int, last: int) -> Array:
    """Experts, with those outside of [first, last) sent to the end."""
    return np.where((experts >= first) & (experts < last), experts, np.iinfo(np.int32).max)


def _v3_counts(route: _Route, kind: int, first: int, last: int, out: Array) -> None:
    counts = route.counts[first:last]
    if kind == _PAIRS:
        out[...] = 0
        named = np.flatnonzero(counts)
        out[: len(named), 0], out[: len(named), 1] = named + first, counts[named]
    else:
        out[...] = np.cumsum(counts) if kind == _CUMSUM else counts


def _fill_scales(out: Array, scales: Array, places: _Places, source: Array) -> None:
    """``_fill`` for the scales of tokens, whatever axes they have after the first."""
    values = scales.reshape(len(scales), math.prod(scales.shape[1:]))
    flat = codes(out).reshape(len(out), values.shape[1])
    _fill(flat, codes(values), places, source)
    np.copyto(codes(out), flat.reshape(out.shape))


def init_routing_v3(
    x: Array,
    experts: Array,
    scale: Optional[Array],
    offset: Optional[Array],
    active: int,
    capacity: int,
    count: int,
    mode: int,
    counts_kind: int,
    counts_flag: bool,
    quant_mode: int,
    expert_range: Optional[Sequence[int]],
    row_idx_type: int,
    *,
    out: Sequence[Array],
) -> tuple[_Places, list[Array]]:
    """InitRoutingV2 of a range of experts; the places of copies, and the outputs that are left unwritten.

    In the others, elements that the kernel leaves unwritten are 0, and -1 among the rows of copies.
    """
    if quant_mode not in (_PLAIN, _STATIC, _DYNAMIC, _DYNAMIC_INT4, *MODES):
        raise UnsupportedOperator("aclnnMoeInitRoutingV3", f"quantMode {quant_mode}, which its document does not name")
    expanded, row_idx, counts, row_scales = out
    first, last = (0, count) if expert_range is None else expert_range
    route = _route(_within(experts, first, last), count)
    present = int(route.counts.sum())
    present_route = _Route(route.order[:present], route.experts[:present], route.tokens[:present], route.counts)
    if mode == 1:
        places = _blocks(present_route, count, capacity)
        of_copies = np.full(route.order.size, -1, np.int32)
        of_copies[present_route.order[places.copies]] = places.rows
    else:
        copies = np.arange(min(present, len(expanded)))
        of_copies = np.full(route.order.size, -1, np.int32)
        of_copies[present_route.order] = np.arange(present)
        places = _Places(copies, copies, of_copies)
    if row_idx_type == 1:
        row_idx[...] = 0
        row_idx[:present] = present_route.order
    else:
        row_idx[...] = of_copies
    unwritten = [] if counts_flag else [counts]
    if counts_flag:
        _v3_counts(route, counts_kind, first, last, counts)
    if quant_mode == _STATIC:
        assert scale is not None and offset is not None  # phase one saw to it
        _quantise_statically(expanded, x, scale, offset, present_route, places)
        return places, [*unwritten, row_scales]
    if quant_mode in (_DYNAMIC, _DYNAMIC_INT4):
        most = INT8_MAX if quant_mode == _DYNAMIC else 7
        row_scales.reshape(-1)[...] = _quantise_copies(expanded, x, scale, present_route, places, first, most)
        return places, unwritten
    if quant_mode in MODES:
        tokens = quantised(x, quant_mode, scale, expanded.dtype)
        _fill(expanded, rounded_to(tokens.values, expanded.dtype), places, present_route.tokens)
        if tokens.scales is None:
            return places, [*unwritten, row_scales]
        _fill_scales(row_scales, tokens.scales, places, present_route.tokens)
        return places, unwritten
    _fill(expanded, x, places, present_route.tokens)
    if scale is None:
        return places, [*unwritten, row_scales]
    _fill_scales(row_scales, scale, places, present_route.tokens)
    return places, unwritten


@reference("aclnnMoeInitRoutingV3", raw=True)
def moe_init_routing_v3(*arguments: Any, out: Sequence[Array]) -> list[Array]:
    return init_routing_v3(*arguments, out=out)[1]


@reference("aclnnMoeInitRoutingV4", raw=True)
def moe_init_routing_v4(
    x: Array,
    experts: Array,
    scale: Optional[Array],
    offset: Optional[Array],
    active: Optional[Array],
    weights: Optional[Array],
    *rest: Any,
    out: Sequence[Array],
) -> list[Array]:
    """V3 with the weights of the copies in the order of the rows.

    The number of active rows is a tensor, of which tiling takes shape and dtype only: all rows are filled.
    """
    places, unwritten = init_routing_v3(x, experts, scale, offset, 0, *rest, out=out[:4])
    if weights is None:
        unwritten.append(out[4])
    elif out[4] is not None:
        out[4][...] = 0
        copies = np.flatnonzero(places.of_copies >= 0)
        flat = out[4].reshape(-1)
        rows = places.of_copies[copies]
        flat[rows[rows < flat.size]] = weights.reshape(-1)[copies[rows < flat.size]]
    return unwritten


# ------------------------------------------------------------------------------------------------- counts, re-routing


@reference("aclnnMoeComputeExpertTokens")
def compute_expert_tokens(sorted_experts: Array, num_experts: int) -> Any:
    """The row after each expert's last one."""
    return np.searchsorted(sorted_experts, np.arange(num_experts), "right")


@reference("aclnnMoeReRoutingV2", raw=True)
def re_routing_v2(
    tokens: Array,
    per_rank: Array,
    scales: Optional[Array],
    weights: Optional[Array],
    counts_type: int,
    idx_type: int,
    *,
    out: Sequence[Any],
) -> list[Any]:
    """Rows that lie rank by rank, and within a rank expert by expert, in the order of experts and then of ranks.

    ``idx_type`` 0 says where each row came from, 1 where each row goes.
    """
    sizes = per_rank.astype(np.int64)
    check_range("expertTokenNumPerRank", sizes, 0, len(tokens) + 1)
    starts = (np.cumsum(sizes.reshape(-1)) - sizes.reshape(-1)).reshape(sizes.shape)
    lengths = sizes.T.reshape(-1)
    total = int(lengths.sum())
    check_range("expertTokenNumPerRank", np.array([total]), 0, len(tokens) + 1)
    within = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    source = np.repeat(starts.T.reshape(-1), lengths) + within
    order = np.concatenate((source, np.arange(total, len(tokens))))
    permuted, permuted_scales, idx, counts, permuted_weights = out
    np.copyto(codes(permuted), codes(tokens)[order])
    if scales is not None and permuted_scales is not None:
        np.copyto(codes(permuted_scales), codes(scales)[order])
    if weights is not None and permuted_weights is not None:
        np.copyto(permuted_weights, weights[order])
    idx[...] = order if idx_type == 0 else inverse(order)
    counts[...] = sizes.sum(0)
    optional = ((scales, permuted_scales), (weights, permuted_weights))
    return [target for rows, target in optional if rows is None]


@reference("aclnnMoeReRouting", raw=True)
def re_routing(
    tokens: Array, per_rank: Array, scales: Optional[Array], counts_type: int, idx_type: int, *, out: Sequence[Any]
) -> list[Any]:
    unwritten: list[Any] = re_routing_v2(tokens, per_rank, scales, None, counts_type, idx_type, out=(*out, None))
    return unwritten
