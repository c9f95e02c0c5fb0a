"""Weighted sums of the experts' rows, per token, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference

_BY_COLUMN = (0, 1)  # drop modes in which copy (i, k) has the index i + k * tokens, else i * K + k
_DROPS = (1, 3)  # drop modes in which experts have a block of rows each, and index -1 is a copy that was dropped


def _picks(row_idx: Array, top_k: int, mode: int) -> Array:
    """The row of each token's copies (tokens, K)."""
    flat = row_idx.reshape(-1)
    return flat.reshape(top_k, -1).T if mode in _BY_COLUMN else flat.reshape(-1, top_k)


def _in_range(experts: Array, limits: Optional[Sequence[int]]) -> Array:
    if not limits:
        return np.zeros(experts.shape, bool)
    return (experts >= limits[0]) & (experts < limits[1])


@reference("aclnnMoeFinalizeRoutingV4")
def finalize_routing_v4(
    expanded: Array,
    row_idx: Array,
    x1: Optional[Array],
    x2: Optional[Array],
    bias: Optional[Array],
    scales: Optional[Array],
    experts: Optional[Array],
    x: Optional[Array],
    a1: Optional[Array],
    a2: Optional[Array],
    v: Optional[Array],
    mode: int,
    zero_range: Optional[Sequence[int]],
    copy_range: Optional[Sequence[int]],
    constant_range: Optional[Sequence[int]],
    k: int,
) -> Any:
    """x1 + x2 + sum over k of scale * (row + bias), where some experts add nothing, x itself, or a1 * x + a2 * v.

    Ranges of experts count where x is given, the first that holds; a dropped copy adds nothing whatever its expert. Rows
    may end before the last copies, which then add nothing either (activeNum of Ascend950's kernel).
    """
    top_k = k if scales is None else scales.shape[1]
    picks = _picks(row_idx, max(top_k, 1), mode)
    rows = expanded.reshape(-1, expanded.shape[-1])
    check_range("expandedRowIdx", picks, -1 if mode in _DROPS else 0, len(rows) if mode in _DROPS else picks.size)
    total = np.zeros((len(picks), rows.shape[1]), np.float32)
    for part in (x1, x2):
        if part is not None:
            total += part
    if bias is not None and experts is not None:
        check_range("expertIdxOptional", experts, 0, len(bias))
    for j in range(picks.shape[1]):
        present = (picks[:, j] >= 0) & (picks[:, j] < len(rows))
        term = rows[np.where(present, picks[:, j], 0)] if present.any() else np.zeros_like(total)
        if experts is not None:
            expert = experts[:, j]
            if x is not None:
                if a1 is not None and a2 is not None and v is not None and constant_range:
                    constant = _in_range(expert, constant_range)
                    which = expert[constant] - constant_range[0]
                    term[constant] = a1[which] * x[constant] + a2[which] * v[which]
                term = np.where(_in_range(expert, copy_range)[:, None], x, term)
                present = present & ~_in_range(expert, zero_range)
            if bias is not None:
                term = term + bias[expert]
        if scales is not None:
            term = term * scales[:, j, None]
        total += np.where(present[:, None], term, 0)
    return total


@reference("aclnnMoeFinalizeRoutingV3")
def finalize_routing_v3(*arguments: Any) -> Any:
    return finalize_routing_v4(*arguments, 1)


@reference("aclnnMoeFinalizeRoutingV2")
def finalize_routing_v2(
    expanded: Array,
    row_idx: Array,
    x1: Optional[Array],
    x2: Optional[Array],
    bias: Optional[Array],
    scales: Optional[Array],
    experts: Optional[Array],
    mode: int,
) -> Any:
    nothing = (None,) * 4
    return finalize_routing_v4(expanded, row_idx, x1, x2, bias, scales, experts, *nothing, mode, None, None, None, 1)


@reference("aclnnMoeFinalizeRouting")
def finalize_routing(
    expanded: Array,
    x1: Array,
    x2: Optional[Array],
    bias: Array,
    scales: Array,
    row_idx: Array,
    experts: Array,
) -> Any:
    return finalize_routing_v2(expanded, row_idx, x1, x2, bias, scales, experts, 0)


@reference("aclnnMoeFinalizeRoutingV2Grad")
def finalize_routing_v2_grad(
    grad: Array,
    row_idx: Array,
    expanded: Optional[Array],
    scales: Optional[Array],
    experts: Optional[Array],
    bias: Optional[Array],
    mode: int,
    active: int,
    expert_num: int,
    capacity: int,
) -> Any:
    """Gradients of the experts' rows and of the scales. Copy (i, k) has the index i * K + k; -1 was dropped."""
    top_k = 1 if scales is None else scales.shape[1]
    picks = row_idx.reshape(-1, top_k)
    hidden = grad.shape[1]
    copies = row_idx.size
    count = expert_num * capacity if mode == 1 else (min(copies, active) if active > 0 else copies)
    check_range("expandedRowIdx", picks, -1, None)
    d_rows = np.zeros((count, hidden), np.float32)
    d_scales = None if scales is None else np.zeros(scales.shape, np.float32)
    rows = None if expanded is None else expanded.reshape(math.prod(expanded.shape[:-1]), hidden)
    for j in range(top_k):
        there = (picks[:, j] >= 0) & (picks[:, j] < count)
        at = picks[there, j]
        if d_scales is not None and rows is not None:
            check_range("expandedRowIdx", at, 0, len(rows))
        d_rows[at] = grad[there] if scales is None else grad[there] * scales[there, j, None]
        if d_scales is not None and rows is not None:
            match = rows[at] if bias is None or experts is None else rows[at] + bias[experts[there, j]]
            d_scales[there, j] = np.einsum("ij,ij->i", match, grad[there])
    shaped = d_rows.reshape(expert_num, capacity, hidden) if mode == 1 else d_rows
    return shaped, d_scales
