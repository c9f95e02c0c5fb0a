"""Attention to the residuals of earlier blocks, whose softmax is merged with that of the block being computed."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference.declare import reference


def _scores(x: Array, query: Array, eps: float) -> Array:
    """The product of each row with a query, after the row's RMS normalisation."""
    return np.asarray((x @ query) / np.sqrt(np.mean(x * x, -1) + np.float32(eps)))


@reference("aclnnBlockAttnResPrepare")
def block_attn_res_prepare(blocks: Array, valid: Array, queries: Array, eps: float) -> tuple[Array, Array, Array]:
    """Weighted sums of the first ``valid`` blocks, the largest scores and the sums of weights, for each slot and token.

    Without a valid block the sums are 0 and the largest score is the lowest float32.
    """
    blocks = blocks[:, : min(int(valid[0]), blocks.shape[1])]
    scores = np.stack([_scores(blocks, query, eps) for query in queries]) if len(queries) else None
    if scores is None or not scores.size:
        shape = (len(queries), len(blocks))
        lowest = np.full(shape, np.finfo(np.float32).min, np.float32)
        return np.zeros((*shape, blocks.shape[2]), np.float32), lowest, np.zeros(shape, np.float32)
    highest = scores.max(-1)
    weights = np.exp(scores - highest[..., None])
    return np.einsum("stn,tnd->std", weights, blocks), highest, weights.sum(-1)


@reference("aclnnBlockAttnResUpdate")
def block_attn_res_update(
    partial: Array, delta: Array, query: Array, numerator: Array, highest: Array, total: Array, eps: float
) -> tuple[Array, Array]:
    """The block's residual with delta added, and the mean over it and the earlier blocks by their weights."""
    partial = partial + delta
    score = _scores(partial, query, eps)
    top = np.maximum(highest, score)
    old, new = np.exp(highest - top), np.exp(score - top)
    mean = (numerator * old[:, None] + partial * new[:, None]) / (total * old + new)[:, None]
    return partial, mean
