"""Losses of each element and their gradients.

Self, target and the gradient broadcast; means divide by the number of elements of what they broadcast to. At the borders
of ranges the kernels are followed, which do what torch does.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn.numerics import Array, elementwise, round_into, where, widen
from ascend_aclnn.reference import _special as special
from ascend_aclnn.reference._arrays import total
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference._special import sigmoid
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.loss._reduction import MEAN, NONE, share, store_loss, sum_to

_LEAST_LOG = -100.0  # of a probability, as torch has it too
_LEAST_VARIANCE = 1e-12  # x * (1 - x) in a denominator

# ------------------------------------------------------------------------------------------------- distances


def _squares(x: Array, target: Array) -> Any:
    return np.square(x - target)


def _smooth_l1(x: Array, target: Array, beta: float) -> Any:
    """A parabola below beta, a line above."""
    distance = np.abs(x - target)
    return where(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta)


def _smooth_l1_derivative(x: Array, target: Array, beta: float) -> Any:
    difference = x - target
    return where(np.abs(difference) < beta, difference / beta, np.sign(difference))


def _soft_margin(x: Array, target: Array) -> Any:
    return special.softplus(-target * x)


def _loss(name: str, function: Callable[..., Any]) -> None:
    """Registers a loss of self, target and perhaps a number after the reduction."""

    def loss(x: Array, target: Array, reduction: int, *rest: Any, out: tuple[Array]) -> None:
        store_loss(function, [x, target, *rest], reduction, out[0])

    reference(name, raw=True)(loss)


def _gradient(name: str, derivative: Callable[..., Any]) -> None:
    """Registers the gradient of such a loss."""

    def gradient(grad: Array, x: Array, target: Array, reduction: int, *rest: Any, out: tuple[Array]) -> None:
        factor = share(reduction, grad.shape, x.shape, target.shape)

        def part(grad: Array, x: Array, target: Array, *rest: Any) -> Any:
            return grad * derivative(x, target, *rest) * factor

        if not elementwise(part, [grad, x, target, *rest], out):
            round_into(out[0], np.asarray(part(widen(grad), widen(x), widen(target), *rest)))

    reference(name, raw=True)(gradient)


_loss("aclnnL1Loss", lambda x, target: np.abs(x - target))
_loss("aclnnMseLoss", _squares)
_loss("aclnnSmoothL1Loss", _smooth_l1)
_loss("aclnnSoftMarginLoss", _soft_margin)
_gradient("aclnnL1LossBackward", lambda x, target: np.sign(x - target))
_gradient("aclnnMseLossBackward", lambda x, target: 2 * (x - target))
_gradient("aclnnSmoothL1LossBackward", _smooth_l1_derivative)
_gradient("aclnnSoftMarginLossBackward", lambda x, target: -target * sigmoid(-target * x))


@reference("aclnnMseLossOut")
def mse_loss_out(x: Array, target: Array, reduction: int) -> Any:
    """The squares, summed or averaged over the first axis only. CANN does nothing for a result without elements."""
    loss = _squares(x, target)
    if reduction == NONE or loss.size == 0:
        return loss if reduction == NONE else None
    if loss.ndim == 0:
        return loss
    sums = total(loss, (0,))
    return sums / loss.shape[0] if reduction == MEAN else sums


# ------------------------------------------------------------------------------------------------- binary cross entropy


def _log(x: Array) -> Any:
    return np.maximum(np.log(x), _LEAST_LOG)


def _weighted(loss: Any, *weights: Optional[Array]) -> Any:
    for weight in weights:
        if weight is not None:
            loss = loss * weight
    return loss


def _binary_cross_entropy(x: Array, target: Array, weight: Optional[Array]) -> Any:
    """Of probabilities; their logarithms stop at -100."""
    return _weighted(-(target * _log(x) + (1 - target) * _log(1 - x)), weight)


def _binary_cross_entropy_with_logits(
    x: Array, target: Array, weight: Optional[Array], positive: Optional[Array]
) -> Any:
    """``positive`` weighs the first of the two terms, ``weight`` their sum."""
    scale = 1 if positive is None else (positive - 1) * target + 1
    return _weighted((1 - target) * x - scale * special.log_sigmoid(x), weight)


@reference("aclnnBinaryCrossEntropy", raw=True)
def binary_cross_entropy(
    x: Array, target: Array, weight: Optional[Array], reduction: int, *, out: tuple[Array]
) -> None:
    store_loss(_binary_cross_entropy, [x, target, weight], reduction, out[0])


@reference("aclnnBinaryCrossEntropyWithLogits", raw=True)
def binary_cross_entropy_with_logits(
    x: Array,
    target: Array,
    weight: Optional[Array],
    positive: Optional[Array],
    reduction: int,
    *,
    out: tuple[Array],
) -> None:
    store_loss(_binary_cross_entropy_with_logits, [x, target, weight, positive], reduction, out[0])


@reference("aclnnBinaryCrossEntropyBackward")
def binary_cross_entropy_backward(grad: Array, x: Array, target: Array, weight: Optional[Array], reduction: int) -> Any:
    derivative = (x - target) / np.maximum((1 - x) * x, _LEAST_VARIANCE)
    return _weighted(grad * derivative, weight) * share(reduction, x.shape)


@reference("aclnnBinaryCrossEntropyWithLogitsBackward")
def binary_cross_entropy_with_logits_backward(
    grad: Array, x: Array, target: Array, weight: Optional[Array], positive: Optional[Array], reduction: int
) -> Any:
    ones = target if positive is None else target * positive
    derivative = (ones + 1 - target) * sigmoid(x) - ones
    return _weighted(grad * derivative, weight) * share(reduction, x.shape)


# ------------------------------------------------------------------------------------------------- KL divergence


@reference("aclnnKlDivBackward")
def kl_div_backward(grad: Array, x: Array, target: Array, reduction: int, log_target: bool) -> Any:
    """The gradient for self, summed over the axes along which self was broadcast."""
    derivative = -np.exp(target) if log_target else -target
    whole = np.broadcast_to(grad * derivative, np.broadcast_shapes(x.shape, target.shape))
    return sum_to(whole * share(reduction, whole.shape), x.shape)


@reference("aclnnKlDivTargetBackward")
def kl_div_target_backward(grad: Array, x: Array, target: Array, reduction: int, log_target: bool) -> Any:
    """The gradient for target, summed likewise; for a target of 0 it is NaN, as grad * target / target in the kernel."""
    grad = grad * share(reduction, x.shape, target.shape)
    if log_target:
        derivative = grad * np.exp(target) * (target - x + 1)
    else:
        derivative = grad * np.log(target) - grad * x + grad * target / target
    return sum_to(derivative, target.shape)


# ------------------------------------------------------------------------------------------------- log odds


@reference("aclnnLogit")
def logit(x: Array, eps: float) -> Any:
    """log(x / (1 - x)); with eps from 0 on, x is first moved into [eps, 1 - eps]."""
    if eps >= 0:
        low = x.dtype.type(eps)
        high = 1 - low
        # where these cross, the lower bound is applied last, as in the kernel
        x = where(np.isnan(x), x, where(x < low, low, where(x > high, high, x)))
    return np.log(x / (1 - x))


@reference("aclnnLogitGrad")
def logit_grad(x: Array, grad: Array, eps: float) -> Any:
    """0 outside [eps, 1 - eps]; with a negative eps NaN outside [0, 1]."""
    low = x.dtype.type(max(eps, 0))
    inside = (x >= low) & (x <= 1 - low)
    return where(inside, grad / (x * (1 - x)), where(np.isnan(x) | (eps < 0), np.nan, 0))


# ------------------------------------------------------------------------------------------------- sets of points


@reference("aclnnChamferDistanceBackward")
def chamfer_distance_backward(
    first: Array, second: Array, nearest_to_first: Array, nearest_to_second: Array, grad1: Array, grad2: Array
) -> Any:
    """Each squared distance pulls its point and the nearest one of the other set, which its index names."""
    gradients = np.zeros(first.shape, np.float64), np.zeros(second.shape, np.float64)
    if not all(x.size for x in (first, second, nearest_to_first, nearest_to_second, grad1, grad2)):
        return gradients
    check_range("idx1", nearest_to_first, 0, second.shape[1])
    check_range("idx2", nearest_to_second, 0, first.shape[1])
    batch = np.arange(first.shape[0])[:, None]
    for this, other, sets, nearest, grad in (
        (0, 1, (first, second), nearest_to_first, grad1),
        (1, 0, (second, first), nearest_to_second, grad2),
    ):
        pull = 2 * grad[..., None] * (sets[0] - sets[1][batch, nearest])
        gradients[this][...] += pull
        np.subtract.at(gradients[other], (batch, nearest), pull)
    return gradients
