"""Filtering logits by rank and by probability, and choosing tokens from what remains."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.math.sorting import order

_MOST = 1024  # the largest k that the sampling kernels take


def _softmax(x: Array) -> Array:
    """Of each row; float32, as the kernels have it."""
    powers = np.exp(x - np.max(x, -1, keepdims=True))
    return np.asarray(powers / np.sum(powers, -1, keepdims=True))


@reference("aclnnApplyTopKTopP")
def apply_top_k_top_p(logits: Array, p: Optional[Array], k: Optional[Array]) -> Any:
    """Minus infinity for all logits of a row but the k largest, and then for those that come last.

    The last are those whose probabilities, added up from the smallest on, are at most 1 - p; the largest always stays.
    """
    if logits.size == 0:
        return logits
    positions = order(logits, -1, False)
    ordered = np.take_along_axis(logits, positions, -1)
    width = logits.shape[1]
    if k is not None:
        check_range("k", k, 1, width + 1)
        least = np.take_along_axis(ordered, width - k[:, None].astype(np.int64), -1)
        ordered = np.where(ordered < least, np.float32(-np.inf), ordered)
    if p is not None:
        dropped = np.cumsum(_softmax(ordered), -1) <= np.float32(1) - p[:, None]
        dropped[:, -1] = False
        ordered = np.where(dropped, np.float32(-np.inf), ordered)
    filtered = np.empty_like(ordered)
    np.put_along_axis(filtered, positions, ordered, -1)
    return filtered


def _first(condition: Array) -> Array:
    """How many entries each row has up to its first True; all if there is none."""
    width = condition.shape[1]
    return np.asarray(np.where(condition.any(1), np.argmax(condition, 1) + 1, width))


def _chosen(probabilities: Array, positions: Array, candidates: Array, q: Optional[Array], eps: float) -> Array:
    """The position of the most probable of the kept entries, or of the largest quotient with q, taken in their order."""
    weights = probabilities if q is None else probabilities / (np.abs(q) + np.float32(eps))
    best = np.argmax(np.where(candidates, weights, -np.inf), -1)
    return np.asarray(positions[np.arange(len(best)), best])


def _at_home(logits: Array, positions: Array, candidates: Array, other: float) -> Array:
    """The logits of kept entries in their old places."""
    selected = np.full(logits.shape, other, np.float32)
    rows, ranks = np.nonzero(candidates)
    places = positions[rows, ranks]
    selected[rows, places] = logits[rows, places]
    return selected


@reference("aclnnTopKTopPSample")
def top_k_top_p_sample(
    logits: Array, top_k: Array, top_p: Array, q: Optional[Array], eps: float, need_logits: bool, guess: int
) -> Any:
    """The most probable token of each row: among the k most probable, of those the ones whose sum first exceeds p.

    A k above 1024 or the row, or a p outside (0, 1), chooses all. With ``q`` the probabilities are divided by it first,
    in the order of ranks (of places where neither k nor p chooses). Logits are zeros unless requested.
    """
    check_range("topK", top_k, 1, None)
    width = logits.shape[1]
    by_rank, by_sum = top_k <= min(width, _MOST), (top_p > 0) & (top_p < 1)
    positions, probabilities, candidates = _ranked(logits, by_rank | by_sum, np.where(by_rank, top_k, width))
    count = np.where(by_sum, _first(np.cumsum(probabilities, -1) > top_p[:, None]), width)
    candidates &= np.arange(width) < count[:, None]
    token = _chosen(probabilities, positions, candidates, q, eps)
    return token, _at_home(logits, positions, candidates, -np.inf) if need_logits else np.zeros(
        logits.shape, np.float32
    )


def _ranked(logits: Array, by_rank: Array, count: Array, normalise: bool = True) -> tuple[Array, Array, Array]:
    """Each row in descending order (as it is unless ``by_rank``): positions, probabilities, which are the first."""
    width = logits.shape[1]
    positions = np.where(by_rank[:, None], order(logits, -1, True), np.arange(width))
    candidates = np.arange(width) < count[:, None]
    ordered = np.take_along_axis(logits, positions, -1)
    if normalise:
        return positions, _softmax(np.where(candidates, ordered, np.float32(-np.inf))), candidates
    return positions, np.where(candidates, ordered, np.float32(0)), candidates


@reference("aclnnTopKTopPSampleV2")
def top_k_top_p_sample_v2(
    logits: Array,
    top_k: Array,
    top_p: Array,
    q: Optional[Array],
    min_p: Optional[Array],
    eps: float,
    need_logits: bool,
    guess: int,
    most: int,
    are_logits: bool,
    need_result: bool,
) -> Any:
    """As TopKTopPSample, and then only tokens at least ``min_p`` times as probable as the first.

    Here a k of 0 and below chooses all too, a p of 0 and below the first alone, and p is reached rather than exceeded.
    ``need_result`` asks for the kept probabilities and their positions instead of a token. Outputs that are not requested are 0.
    """
    width = logits.shape[1]
    only_first = top_p <= 0
    by_rank = ((top_k > 0) & (top_k <= min(width, -(-most // 8) * 8, _MOST))) | only_first
    by_sum = (top_p > 0) & (top_p < 1)
    count = np.where(only_first, 1, np.where(by_rank, top_k, width))
    positions, probabilities, candidates = _ranked(logits, by_rank | by_sum, count, are_logits)
    reached = np.where(by_sum, _first(np.cumsum(probabilities, -1) >= top_p[:, None]), width)
    candidates &= np.arange(width) < reached[:, None]
    if min_p is not None:
        share = min_p.reshape(-1, 1)
        largest = np.max(np.where(candidates, probabilities, 0), -1, keepdims=True)
        enough = np.where(share >= 1, probabilities == largest, probabilities >= share * largest) | (share <= 0)
        candidates &= enough
        candidates &= (np.cumsum(candidates, -1) == 1) | (share < 1)  # of equal ones the first
    # What is kept moves to the front, as the kernels have it.
    front = np.argsort(~candidates, -1, kind="stable")
    positions, probabilities, candidates = (
        np.take_along_axis(x, front, -1) for x in (positions, probabilities, candidates)
    )

    selected = np.zeros(logits.shape, np.float32)
    if need_logits:
        selected = _at_home(logits, positions, candidates, -np.inf if are_logits else 0.0)
    if need_result:
        token = np.zeros(len(logits), np.int64)
        return token, selected, np.where(candidates, positions, 0), np.where(candidates, probabilities, 0)
    nothing = np.zeros(logits.shape, np.int64)
    return _chosen(probabilities, positions, candidates, q, eps), selected, nothing, nothing
