"""Permute and unpermute on one rank of several: it keeps the sorted copies [start, end) that its experts get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.core.errors import UnsupportedOperator
from ascend_aclnn.numerics import Array, round_into, widen
from ascend_aclnn.reference._rows import check_range, codes, inverse, stable_order
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.moe.tokens import moe_token_permute


def _limits(limits: Optional[Sequence[int]], otherwise: int) -> tuple[int, int]:
    return (0, otherwise) if limits is None else (int(limits[0]), int(limits[1]))


@reference("aclnnMoeTokenPermuteV2", raw=True)
def moe_token_permute_v2(
    tokens: Array,
    indices: Array,
    num_out_tokens: int,
    padded_mode: bool,
    quant_mode: int,
    *,
    out: tuple[Array, Array, Array],
) -> None:
    """MoeTokenPermute; the quantisations of Ascend 950 have no reference."""
    if out[0].dtype != tokens.dtype:
        raise UnsupportedOperator("aclnnMoeTokenPermuteV2", f"no reference for quant_mode {quant_mode}")
    moe_token_permute(tokens, indices, num_out_tokens, padded_mode, out=out[:2])


@reference("aclnnMoeTokenPermuteWithEp", raw=True)
def moe_token_permute_with_ep(
    tokens: Array,
    indices: Array,
    probs: Optional[Array],
    limits: Optional[Sequence[int]],
    num_out_tokens: int,
    padded_mode: bool,
    *,
    out: tuple[Array, Array, Optional[Array]],
) -> None:
    """Rows start to end of the copies sorted by expert; probabilities go with them. sortedIndices names all copies."""
    permuted, sorted_indices, permuted_probs = out
    start = _limits(limits, num_out_tokens)[0]
    order = stable_order(indices.reshape(-1))
    sorted_indices[...] = inverse(order)
    copies = order[start : start + len(permuted)]
    top_k = indices.size // max(len(tokens), 1)
    np.copyto(codes(permuted)[: len(copies)], codes(tokens)[copies // max(top_k, 1)])
    if probs is not None and permuted_probs is not None:
        np.copyto(codes(permuted_probs)[: len(copies)], codes(np.ascontiguousarray(probs).reshape(-1))[copies])


def _copies(rows: Array, sorted_indices: Array, start: int) -> tuple[Array, Array]:
    """The row of each copy, zeros for a copy of another rank; and which copies are this one's."""
    at = sorted_indices.astype(np.int64) - start
    there = (at >= 0) & (at < len(rows))
    copied = np.zeros((len(at), *rows.shape[1:]), np.float32)
    copied[there] = rows[at[there]]
    return copied, there


@reference("aclnnMoeTokenPermuteWithEpGrad")
def moe_token_permute_with_ep_grad(
    grad: Array,
    sorted_indices: Array,
    probs_grad: Optional[Array],
    top_k: int,
    limits: Optional[Sequence[int]],
    padded_mode: bool,
) -> Any:
    """Sums of the gradients of each token's copies on this rank."""
    start = _limits(limits, len(grad))[0]
    check_range("sortedIndices", sorted_indices, 0, None)
    total = _copies(grad, sorted_indices, start)[0].reshape(-1, top_k, grad.shape[1]).sum(1)
    if probs_grad is None:
        return total, None
    return total, _copies(probs_grad, sorted_indices, start)[0].reshape(-1, top_k)


@reference("aclnnMoeTokenUnpermuteWithEp")
def moe_token_unpermute_with_ep(
    permuted: Array,
    sorted_indices: Array,
    probs: Optional[Array],
    top_k: int,
    limits: Optional[Sequence[int]],
    padded_mode: bool,
    restore_shape: Optional[Sequence[int]],
) -> Any:
    """Weighted sums of each token's copies on this rank."""
    start = _limits(limits, len(permuted))[0]
    check_range("sortedIndices", sorted_indices, 0, None)
    wide = max(top_k, 1) if probs is None else probs.shape[1]
    rows = _copies(permuted, sorted_indices, start)[0].reshape(-1, wide, permuted.shape[1])
    return (rows if probs is None else rows * probs[..., None]).sum(1)


@reference("aclnnMoeTokenUnpermuteWithEpGrad", raw=True)
def moe_token_unpermute_with_ep_grad(
    grad: Array,
    sorted_indices: Array,
    permuted: Optional[Array],
    probs: Optional[Array],
    padded_mode: bool,
    restore_shape: Optional[Sequence[int]],
    limits: Optional[Sequence[int]],
    topk_num: int,
    *,
    out: tuple[Array, Optional[Array]],
) -> None:
    """Gradients of this rank's rows, and of all probabilities (0 for copies of another rank)."""
    check_range("sortedIndices", sorted_indices, 0, None)
    d_permuted, d_probs = out
    start = max(_limits(limits, len(d_permuted))[0], 0)
    top_k = topk_num if probs is None else probs.shape[1]
    wide = widen(grad)
    at = sorted_indices.astype(np.int64) - start
    there = np.flatnonzero((at >= 0) & (at < len(d_permuted)))
    values = wide[there // max(top_k, 1)]
    if probs is not None:
        values = values * widen(probs).reshape(-1)[there, None]
    d_rows = np.zeros(d_permuted.shape, np.float32)
    d_rows[at[there]] = values
    round_into(d_permuted, d_rows)
    if probs is None or permuted is None or d_probs is None:
        return
    rows = _copies(widen(permuted), sorted_indices, start)[0].reshape(-1, top_k, grad.shape[1])
    round_into(d_probs, np.einsum("tkh,th->tk", rows, wide))
