"""Permute and unpermute by a routing map, a table of tokens by experts.

Without padding, the copies lie expert by expert, each expert's in the order of tokens, and ``sortedIndices`` says token
by token where its copies are. With ``dropAndPad`` each expert has ``capacity`` rows (first its own tokens, then others),
and ``sortedIndices`` holds the token of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference


def _by_expert(routing_map: Array) -> tuple[Array, Array]:
    """Expert and token of each copy, expert by expert."""
    experts, tokens = np.nonzero(routing_map.T)
    return experts, tokens


def _marked(routing_map: Array, values: Array, rows: int) -> Array:
    """Values (tokens, experts) of the copies, expert by expert; zeros after the last copy."""
    experts, tokens = _by_expert(routing_map)
    rows_values = np.zeros(rows, np.float32)
    count = min(rows, len(tokens))
    rows_values[:count] = values[tokens[:count], experts[:count]]
    return rows_values


def _unmarked(routing_map: Array, values: Array) -> Array:
    """The other way: a table (tokens, experts) with the values of the copies."""
    experts, tokens = _by_expert(routing_map)
    table = np.zeros(routing_map.shape, np.float32)
    count = min(len(values), len(tokens))
    table[tokens[:count], experts[:count]] = values[:count]
    return table


def _rows_of_experts(rows: int, experts: int) -> Array:
    """The expert of each padded row."""
    return np.arange(rows) // max(rows // max(experts, 1), 1)


@reference("aclnnMoeTokenPermuteWithRoutingMap")
def permute_with_routing_map(
    tokens: Array, routing_map: Array, probs: Optional[Array], num_out_tokens: int, drop_and_pad: bool
) -> Any:
    count, experts = routing_map.shape
    unit = max(experts if drop_and_pad else count, 1)
    rows = num_out_tokens // unit * unit
    chosen = routing_map != 0
    if drop_and_pad:
        order = np.argsort(~chosen.T, 1, kind="stable")[:, : rows // unit].reshape(-1)
        of_rows = None if probs is None else probs[order, _rows_of_experts(rows, experts)]
        return tokens[order], of_rows, order
    first = _by_expert(chosen)[1]
    if len(first) < rows:
        text = f"marks {len(first)} copies; num_out_tokens asks for {rows}"
        raise DataError("routingMap", text)
    first = first[:rows]
    return tokens[first], None if probs is None else _marked(chosen, probs, rows), np.argsort(first, kind="stable")


@reference("aclnnMoeTokenPermuteWithRoutingMapGrad")
def permute_with_routing_map_grad(
    grad: Array,
    probs_grad: Optional[Array],
    sorted_indices: Array,
    routing_map: Optional[Array],
    num_experts: int,
    tokens_num: int,
    drop_and_pad: bool,
) -> Any:
    """Sums of the gradients of each token's copies; gradients of the probabilities where the map marks them."""
    total = np.zeros((tokens_num, grad.shape[1]), np.float32)
    d_probs = None
    if not grad.size:  # phase one compares no shapes then
        return total, None if probs_grad is None else np.zeros((tokens_num, num_experts), np.float32)
    if drop_and_pad:
        check_range("sortedIndices", sorted_indices, 0, tokens_num)
        np.add.at(total, sorted_indices, grad)
        if probs_grad is not None:
            d_probs = np.zeros((tokens_num, num_experts), np.float32)
            d_probs[sorted_indices, _rows_of_experts(len(grad), num_experts)] = probs_grad
    else:
        check_range("sortedIndices", sorted_indices, 0, len(grad))
        total = grad[sorted_indices].reshape(tokens_num, -1, grad.shape[1]).sum(1)
        if probs_grad is not None and routing_map is not None:
            d_probs = _unmarked(routing_map != 0, probs_grad)
    return total, d_probs


@reference("aclnnMoeTokenUnpermuteWithRoutingMap")
def unpermute_with_routing_map(
    permuted: Array,
    sorted_indices: Array,
    routing_map: Optional[Array],
    probs: Optional[Array],
    padded_mode: bool,
    restore_shape: Optional[Sequence[int]],
) -> Any:
    """Weighted sums of the copies of each token; also which row (outIndex) went to which token, for the gradient.

    A place of -1 in sortedIndices stands for no copy.
    """
    count = int(restore_shape[0]) if restore_shape else len(probs)  # type: ignore[arg-type]
    rows, hidden = permuted.shape
    shares: Optional[Array] = None
    if not permuted.size or not sorted_indices.size:  # phase one compares no shapes then
        places = np.zeros(len(sorted_indices), np.int32)
        none_left = np.zeros(tuple(restore_shape) if restore_shape else (count, hidden), np.float32)
        return none_left, places, places, None if probs is None else places.astype(np.float32)
    total = np.zeros((count, hidden), np.float32)
    if padded_mode:
        check_range("sortedIndices", sorted_indices, 0, count)
        if probs is not None:
            shares = probs[sorted_indices, _rows_of_experts(len(sorted_indices), probs.shape[1])]
        out_index = np.argsort(sorted_indices, kind="stable")
        token = sorted_indices[out_index]
        np.add.at(total, sorted_indices, permuted if shares is None else permuted * shares[:, None])
        return total, out_index, token, shares
    check_range("sortedIndices", sorted_indices, -1, rows)
    token = np.arange(len(sorted_indices)) // max(len(sorted_indices) // max(count, 1), 1)
    scaled = permuted
    if probs is not None and routing_map is not None:
        shares = _marked(routing_map != 0, probs, rows)
        scaled = permuted * shares[:, None]
    there = sorted_indices >= 0
    np.add.at(total, token[there], scaled[sorted_indices[there]])
    return total, sorted_indices, token, shares


@reference("aclnnMoeTokenUnpermuteWithRoutingMapGrad")
def unpermute_with_routing_map_grad(
    grad: Array,
    out_index: Array,
    token: Array,
    routing_map: Optional[Array],
    permuted: Optional[Array],
    probs: Optional[Array],
    drop_and_pad: bool,
    restore_shape: Optional[Sequence[int]],
) -> Any:
    """Gradients of the rows, each that of its token times its share, and of the shares."""
    check_range("permuteTokenId", token, 0, len(grad))
    check_range("outIndex", out_index, -1, len(out_index))
    there = out_index >= 0
    d_rows = np.zeros((len(out_index), grad.shape[1]), np.float32)
    d_rows[out_index[there]] = grad[token[there]]
    if probs is None or permuted is None or routing_map is None:
        return d_rows, None
    match = np.einsum("ij,ij->i", d_rows[: len(permuted)], permuted)
    if not drop_and_pad:
        chosen = routing_map != 0
        return d_rows * _marked(chosen, probs, len(d_rows))[:, None], _unmarked(chosen, match)
    of_rows = np.empty(len(out_index), np.int64)
    of_rows[out_index] = token
    experts = _rows_of_experts(len(out_index), probs.shape[1])
    d_probs = np.zeros(probs.shape, np.float32)
    d_probs[of_rows, experts] = match
    return d_rows * probs[of_rows, experts][:, None], d_probs
