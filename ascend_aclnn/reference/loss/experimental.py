"""References of the experimental losses."""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, sum_over
from ascend_aclnn.reference._arrays import total
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.loss._reduction import MEAN, NONE, SUM, reduced, sum_to

_NAMES = {"none": NONE, "mean": MEAN, "sum": SUM, None: MEAN}

reference("aclnnBinaryCrossEntropyV2")(lambda x, y: -(y * np.log(x) + (1 - y) * np.log(1 - x)))
reference("aclnnHingeLoss")(lambda x, target: np.maximum(0, 1 - target * x))
reference("aclnnHingeLossGrad")(lambda x, target, grad: np.where(1 - target * x > 0, -target * grad, 0))
reference("aclnnSoftmaxGrad")(lambda y, grad: y * (grad - sum_over(grad * y, (-1,), True)))


@reference("aclnnHuberLoss")
def huber_loss(x: Array, target: Array, delta: float) -> Any:
    """A parabola up to delta, a line beyond."""
    distance = np.abs(x - target)
    return np.where(distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))


@reference("aclnnHuberLossGrad")
def huber_loss_grad(x: Array, target: Array, delta: float) -> Any:
    return np.clip(x - target, -delta, delta)


@reference("aclnnLpLoss")
def lp_loss(x: Array, label: Array, p: int, reduction: str) -> Any:
    return reduced(np.abs(x - label) ** p, _NAMES[reduction])


@reference("aclnnHingeEmbeddingLoss")
def hinge_embedding_loss(x: Array, target: Array, margin: float, reduction: Optional[str]) -> Any:
    """x for the label 1, what it lacks to the margin for the label -1."""
    return reduced(np.where(target == 1, x, np.maximum(0, margin - x)), _NAMES[reduction])


@reference("aclnnMseLossGrad")
def mse_loss_grad(grad: Array, x: Array, target: Array, reduction: Optional[str]) -> Any:
    grad = grad.reshape(()) if grad.size == 1 else grad.reshape(x.shape)
    return grad * (x - target) * (2 / x.size if _NAMES[reduction] == MEAN and x.size else 2)


@reference("aclnnBinaryCrossEntropyGradV2")
def binary_cross_entropy_grad(grad: Array, x: Array, labels: Array, weight: Array, reduction: int) -> Any:
    """weight * grad * (x - labels); reduction 2 averages, as the kernel has it, though the document does not say so."""
    factor = grad if reduction == 0 else grad.reshape(-1)[0]
    if reduction == 2:
        factor = (factor / np.float32(x.size)).astype(x.dtype)
    return (x - labels) * factor * weight


@reference("aclnnCrossEntropyGrad")
def cross_entropy_grad(logits: Array, target: Array) -> Any:
    """softmax of each row, less 1 at its class."""
    check_range("target", target, 0, logits.shape[-1])
    grown = np.exp(logits - logits.max(-1, keepdims=True, initial=-np.inf))
    result = grown / sum_over(grown, (-1,), True)
    np.put_along_axis(
        result, target[..., None].astype(np.int64), np.take_along_axis(result, target[..., None], -1) - 1, -1
    )
    return result


def _variance(x: Array, var: Array, eps: float) -> Array:
    """At least eps; without the last axis, or as one number, it serves the whole of it."""
    if var.ndim == x.ndim - 1 and var.size != 1:
        var = var[..., None]
    bounded: Array = np.maximum(var.reshape(()) if var.size == 1 else var, np.float32(eps))
    return bounded


@reference("aclnnGaussianNllLoss")
def gaussian_nll_loss(x: Array, target: Array, var: Array, full: bool, eps: float, reduction: Optional[str]) -> Any:
    v = _variance(x, var, eps)
    loss = 0.5 * (np.log(v) + np.square(x - target) / v)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, _NAMES[reduction])


@reference("aclnnGaussianNllLossGrad")
def gaussian_nll_loss_grad(
    grad: Array, x: Array, target: Array, var: Array, full: bool, eps: float, reduction: Optional[str]
) -> Any:
    """The gradients for x and for the variance, the latter summed over the axes along which it was broadcast.

    A variance below eps gets its gradient too.
    """
    v, distance = _variance(x, var, eps), x - target
    grad = grad if _NAMES[reduction] == NONE else grad.reshape(())
    if _NAMES[reduction] == MEAN and x.size:
        grad = grad / x.size
    d_var = np.broadcast_to(grad * 0.5 * (1 / v - np.square(distance / v)), x.shape)
    if var.size == 1:
        return grad * distance / v, np.reshape(total(d_var), var.shape)
    return grad * distance / v, sum_to(d_var, v.shape).reshape(var.shape)


@reference("aclnnL2Loss")
def l2_loss(x: Array) -> Any:
    return sum_over(x * x, None, False) / 2
