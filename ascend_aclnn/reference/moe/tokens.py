"""Mixture of experts: sending tokens to experts and summing up what comes back."""

from __future__ import annotations

from typing import Optional

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import (
    Array,
    DataError,
    for_blocks,
    round_into,
    rounded_to,
    rows_per_block,
    scratch,
    widen,
    workplace,
)
from ascend_aclnn.reference._rows import (
    as_matrix,
    check_range,
    codes,
    gather,
    inverse,
    stable_order,
    take_wide,
)
from ascend_aclnn.reference.declare import reference

_EXPERTS = (1 << 24) - 1  # MoeTokenPermute's ids are sorted as float32


# ------------------------------------------------------------------------------------------ permute and unpermute


@reference("aclnnMoeTokenPermute", raw=True)
def moe_token_permute(
    tokens: Array, indices: Array, num_out_tokens: int, padded_mode: bool, *, out: tuple[Array, Array]
) -> None:
    """first = stable argsort of the flattened ids; permuted[i] = tokens[first[i] // K]; sortedIndices inverts first."""
    check_range("indices", indices, 0, _EXPERTS)
    permuted, sorted_indices = out
    count, width = len(tokens), int(np.prod(tokens.shape[1:], dtype=np.int64))
    top_k = indices.size // max(1, count)
    first = stable_order(indices.reshape(-1))
    sorted_indices[...] = inverse(first)
    with as_matrix(permuted, len(permuted), width) as rows:
        gather(tokens.reshape(count, width), first[: len(rows)] // max(1, top_k), rows)


@reference("aclnnMoeTokenPermuteGrad", raw=True)
def moe_token_permute_grad(
    grad: Array, sorted_indices: Array, num_topk: int, padded_mode: bool, *, out: tuple[Array]
) -> None:
    """out[t] = sum over j of permutedOutputGrad[sortedIndices[t * topK + j]], in the order of j.

    An index past the end adds nothing.
    """
    check_range("sortedIndices", sorted_indices, 0, None)
    _combine(grad, sorted_indices.reshape(-1, num_topk), None, out[0])


@reference("aclnnMoeTokenUnpermute", raw=True)
def moe_token_unpermute(
    permuted_tokens: Array,
    sorted_indices: Array,
    probs: Optional[Array],
    padded_mode: bool,
    restore_shape: Optional[tuple[int, ...]],
    *,
    out: tuple[Array],
) -> None:
    """out[t] = sum over j of permutedTokens[sortedIndices[t * K + j]] * probs[t, j], in the order of j.

    Without probs K = 1. An index past the end adds nothing, and nor does a row whose probability is zero, even if it
    holds an infinity or NaN.
    """
    check_range("sortedIndices", sorted_indices, 0, None)
    _combine(permuted_tokens, sorted_indices.reshape(-1, 1 if probs is None else probs.shape[1]), probs, out[0])


def _combine(source: Array, picks: Array, weights: Optional[Array], out: Array) -> None:
    """out[t] = sum over j of source[picks[t, j]] * weights[t, j] in float32, j by j, rounded once."""
    picked = picks < len(source)
    if weights is not None:
        weights = np.ascontiguousarray(widen(weights))
        picked &= weights != 0
    complete = bool(picked.all())

    places = np.ascontiguousarray(picks, np.int64)

    def block(lo: int, hi: int) -> None:
        dst = out[lo:hi]
        if native.combine_rows(dst, source, places[lo:hi], None if weights is None else weights[lo:hi]):
            return
        total, other = workplace(dst, "total"), scratch("term", dst.shape, np.float32)
        for j in range(picks.shape[1]):
            term = other if j else total
            take_wide(source, picks[lo:hi, j], term)
            if weights is not None:
                term *= weights[lo:hi, j, None]
            if not complete:
                # The device skips such a row. Adding -0 does too: it changes nothing, not even a -0.
                term[~picked[lo:hi, j]] = -0.0 if j else 0.0
            if j:
                total += term
        round_into(dst, total, total, other)

    for_blocks(len(out), rows_per_block(out.shape[1]), block)


@reference("aclnnMoeTokenUnpermuteGrad", raw=True)
def moe_token_unpermute_grad(
    permuted_tokens: Array,
    grad: Array,
    sorted_indices: Array,
    probs: Optional[Array],
    padded_mode: bool,
    restore_shape: Optional[tuple[int, ...]],
    *,
    out: tuple[Array, Optional[Array]],
) -> None:
    """permutedTokensGrad[i] = grad[t] * probs[t, j], probsGrad[t, j] = sum over columns of permutedTokens[i] * grad[t].

    Here i = sortedIndices[t * K + j], and without probs K = 1. An i past the end counts as a row of zeros. What the
    device leaves unwritten is zero: rows of permutedTokensGrad that no index names, and probsGrad without probs. If two
    indices name a row, the later one has it. The order of the sum is not the hardware's.
    """
    check_range("sortedIndices", sorted_indices, 0, None)
    permuted_grad, probs_grad = out
    rows, width = permuted_tokens.shape
    top_k = 1 if probs is None else probs.shape[1]
    picks = sorted_indices.reshape(-1, top_k) if top_k else sorted_indices.reshape(len(grad), 0)

    copy = np.full(rows, -1, np.int64)  # the copy t * K + j that went to each permuted row
    named = np.flatnonzero(sorted_indices < rows)
    copy[sorted_indices[named]] = named
    scale = None if probs is None else widen(probs).reshape(-1)

    def tokens_block(lo: int, hi: int) -> None:
        dst, copies = permuted_grad[lo:hi], copy[lo:hi]
        values = workplace(dst, "total")
        take_wide(grad, copies // top_k, values)
        if scale is not None:
            values *= scale[copies, None]
        values[copies < 0] = 0
        round_into(dst, values, values)

    if len(named):
        for_blocks(rows, rows_per_block(width), tokens_block)
    else:
        permuted_grad[...] = 0

    if probs_grad is None:
        return
    if probs is None:
        probs_grad[...] = 0
        return

    def probs_block(lo: int, hi: int) -> None:
        shape = (hi - lo, width)
        g, term = widen(grad[lo:hi], scratch("grad", shape, np.float32)), scratch("term", shape, np.float32)
        sums = np.empty((hi - lo, top_k), np.float32)
        for j in range(top_k):
            take_wide(permuted_tokens, picks[lo:hi, j], term)
            term[picks[lo:hi, j] >= rows] = 0
            np.einsum("ij,ij->i", term, g, out=sums[:, j])
        round_into(probs_grad[lo:hi], sums)

    for_blocks(len(grad), rows_per_block(width), probs_block)


# ------------------------------------------------------------------------------------------------------- routing


@reference("aclnnMoeInitRouting", raw=True)
def moe_init_routing(
    x: Array, row_idx: Array, expert_idx: Array, active_num: int, *, out: tuple[Array, Array, Array]
) -> None:
    """Copies sorted by expert: expandedX[i] = x[r[i] mod N], expandedRowIdx[r[i]] = i, for i-th in order r = rowIdx."""
    expanded_x, expanded_row_idx, expanded_expert_idx = out
    source = _route(x, row_idx, expert_idx, expanded_row_idx, expanded_expert_idx)
    gather(x, source[: len(expanded_x)], expanded_x)


@reference("aclnnMoeInitRoutingQuant", raw=True)
def moe_init_routing_quant(
    x: Array,
    row_idx: Array,
    expert_idx: Array,
    active_num: int,
    scale: float,
    offset: float,
    *,
    out: tuple[Array, Array, Array],
) -> None:
    """MoeInitRouting with expandedX quantised to int8 on the way, in half precision whatever x is.

    h = half(x); h = half(h * half(scale)); h = half(h + half(offset)); then to the nearest integer, halves to even,
    saturated; an overflowing half is infinite, and NaN gives 0. scale and offset reach half by way of float32.
    """
    expanded_x, expanded_row_idx, expanded_expert_idx = out
    source = _route(x, row_idx, expert_idx, expanded_row_idx, expanded_expert_idx)
    # Each token once, then copies of int8 rows: K times less arithmetic than the other way round.
    quantised = np.empty(x.shape, np.int8)
    with np.errstate(all="ignore"):
        _quantise(x, np.float16(np.float32(scale)), np.float16(np.float32(offset)), quantised)
    gather(quantised, source[: len(expanded_x)], expanded_x)


def _route(x: Array, row_idx: Array, expert_idx: Array, expanded_row_idx: Array, expanded_expert_idx: Array) -> Array:
    """Fills the two index outputs; the token of each expanded row."""
    keys = expert_idx.reshape(-1)
    if keys.size and (keys.min() <= -(1 << 24) or keys.max() >= 1 << 24):
        keys = keys.astype(np.float32)  # the device sorts float32 keys; smaller ids are exact in it anyway
    order = stable_order(keys)
    expanded_expert_idx[...] = np.clip(keys[order].astype(np.float64), -(2.0**31), 2.0**31 - 1)
    r = row_idx.reshape(-1)
    check_range("rowIdx", r, 0, len(r))
    if np.bincount(r, minlength=len(r)).max(initial=0) > 1:
        raise DataError("rowIdx", f"some number is repeated; allowed: a permutation of 0 to {len(r) - 1}")
    r = r[order]
    expanded_row_idx[...] = inverse(r)
    return r % max(1, len(x))


def _quantise(x: Array, scale: np.float16, offset: np.float16, out: Array) -> None:
    """x -> int8. Above a few values it is a table of what becomes of each of the 65,536 codes of a 16-bit x."""

    def formula(values: Array) -> Array:
        h = values.astype(np.float16)
        h = h * scale
        h = h + offset
        return rounded_to(h, np.int8)

    every_code = np.arange(1 << 16, dtype=np.uint16)
    if x.size < len(every_code):
        out[...] = formula(x)
        return
    dtype = np.dtype(np.float16) if x.dtype == np.float32 else x.dtype
    table = formula(every_code.view(dtype))

    def block(lo: int, hi: int) -> None:
        shape = (hi - lo, x.shape[1])
        values = x[lo:hi]
        if x.dtype != dtype:
            values = scratch("half", shape, dtype)
            round_into(values, x[lo:hi])
        index = scratch("index", shape, np.intp)
        np.copyto(index, codes(values))
        np.take(table, index, out=out[lo:hi], mode="wrap")  # nothing to wrap, but the fastest mode

    for_blocks(len(x), rows_per_block(x.shape[1]), block)
