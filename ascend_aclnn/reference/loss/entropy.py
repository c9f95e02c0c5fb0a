"""Cross entropies of classes, whole and in the parts that devices with a share of the vocabulary compute.

CANN ignores what z-loss needs, so its outputs are zeros and its inputs change nothing.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, along, codes, round_into, row_maximum, sum_over, widen
from ascend_aclnn.reference._arrays import total
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.loss._reduction import store
from ascend_aclnn.reference.loss.labels import checked_classes


def _log_softmax(x: Array) -> tuple[Any, Any, Any]:
    """Along the last axis; and what is taken off each row, its largest value and then the logarithm of its sum."""
    most = row_maximum(x, -1)
    shifted = x - most
    log_sum = np.log(sum_over(np.exp(shifted), (-1,), True)).astype(x.dtype)
    return shifted - log_sum, most, log_sum


def _cross_entropy(
    x: Array,
    target: Array,
    weight: Optional[Array],
    reduction: Optional[str],
    ignore: int,
    smoothing: float,
    z_scale: float,
    with_z: bool,
    *,
    out: tuple[Optional[Array], ...],
) -> None:
    """The loss of each row's class, a share ``smoothing`` of it spread over all classes; and the log probabilities."""
    loss_out, log_prob_out, *unused = out
    classes, counted = checked_classes("target", target, ignore, x.shape[1])
    weights = np.ones(x.shape[1], np.float32) if weight is None else widen(weight)
    row_weights = np.where(counted, weights[classes], 0)
    each, most, log_sum = np.arange(len(x)), *np.empty((2, len(x), 1), np.float32)
    if (
        log_prob_out is not None
        and smoothing == 0
        and along(_log_softmax, _last_axis, [x], [log_prob_out, most, log_sum])
    ):
        chosen = widen(codes(x)[each, classes].view(x.dtype)) - most[:, 0] - log_sum[:, 0]
        loss = -row_weights * chosen
    else:
        log_prob = _log_softmax(widen(x))[0]
        loss = -row_weights * log_prob[each, classes]
        if smoothing > 0:
            spread = -total(log_prob * weights, (1,)) * (smoothing / x.shape[1])
            loss = (1 - smoothing) * loss + np.where(counted, spread, 0)
        if log_prob_out is not None:
            store(log_prob_out, log_prob)
    loss = np.where(counted, loss, 0)
    if reduction == "sum":
        loss = total(loss)
    elif reduction != "none":
        loss = total(loss) / total(row_weights)
    for destination, value in ((loss_out, loss), *((z, 0) for z in unused)):
        if destination is not None:
            store(destination, value)


def _last_axis(x: Array) -> tuple[int]:
    return (x.ndim - 1,)


reference("aclnnCrossEntropyLoss", raw=True)(_cross_entropy)


@reference("aclnnCrossEntropyLossGrad")
def cross_entropy_loss_grad(
    grad: Array,
    log_prob: Array,
    target: Array,
    weight: Optional[Array],
    grad_z: Optional[Array],
    lse_for_z: Optional[Array],
    reduction: Optional[str],
    ignore: int,
    smoothing: float,
    z_scale: float,
) -> Any:
    rows, columns = log_prob.shape
    classes, counted = checked_classes("target", target, ignore, columns)
    weights = np.ones(columns, np.float32) if weight is None else weight
    row_weights = np.where(counted, weights[classes], 0)
    grad = np.broadcast_to(grad.reshape(-1), (rows,))
    if reduction not in ("sum", "none"):
        grad = (grad / total(row_weights)).astype(np.float32)
    grad = np.where(counted, grad, 0)
    probability = np.exp(log_prob)
    target_grad = (1 - smoothing) * grad * row_weights
    result = probability * target_grad[:, None]
    result[np.arange(rows), classes] -= target_grad
    if smoothing > 0:
        share = (grad * (smoothing / columns))[:, None]
        result += share * (probability * total(weights) - weights)
    return result


# ------------------------------------------------------------------------------------------------- of a vocabulary's shard


@reference("aclnnCrossEntropySumExpAndIndexLogit")
def cross_entropy_sum_exp_and_index_logit(logits: Array, target: Array, row_max: Array, start: int, end: int) -> Any:
    """Exponentials and their sums, and the logits of those targets that lie in [start, end); 0 and a mask for others."""
    masked = (target < start) | (target >= end)
    offset = np.where(masked, 0, target - start)
    shifted = logits - row_max[..., None]
    target_logits = np.take_along_axis(shifted, offset[..., None].astype(np.int64), -1)[..., 0]
    e = np.exp(shifted)
    return np.where(masked, 0, target_logits), total(e, (-1,)), e, offset, masked


@reference("aclnnFusedCrossEntropyLossWithMaxSum", raw=True)
def fused_cross_entropy_loss_with_max_sum(
    row_max: Array,
    sums: Array,
    predicted: Array,
    smoothing: float,
    unused_input: Optional[Array],
    unused_weight: Optional[Array],
    *,
    out: tuple[Optional[Array], Array, Optional[Array]],
) -> None:
    """The loss and the softmax of logits, which CANN reads although it declares them an output."""
    logits, loss, probability = out
    round_into(loss, np.log(sums) - predicted)
    if logits is not None and probability is not None:
        round_into(probability, np.exp(widen(logits) - row_max[:, None]) / sums[:, None])
