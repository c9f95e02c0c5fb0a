"""Losses of labels: negative log likelihood, multi-label margin, CTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import Array, codes, round_into, widen
from ascend_aclnn.reference._arrays import total
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.loss._reduction import MEAN, NONE, any_rank, reduced

# ------------------------------------------------------------------------------------------------- negative log likelihood


def checked_classes(argument: str, target: Array, ignore: int, classes: int) -> tuple[Array, Array]:
    """The class of each item, 0 for ignored ones, and which are not ignored. Other numbers are no classes."""
    counted = target != ignore
    every = counted.all()
    safe = target if every else np.where(counted, target, 0)
    if safe.dtype != np.int64:
        safe = safe.astype(np.int64)
    if every or counted.any():
        check_range(argument, safe, 0, classes)
    return safe, counted


def _rows(x: Array, target: Array) -> tuple[Array, Array]:
    """self with its classes on axis 1, and target without that axis."""
    return (x[None], target.reshape(-1)[:1]) if x.ndim == 1 else (x, target.reshape(x.shape[0], *x.shape[2:]))


def _nll(x: Array, target: Array, weight: Array, reduction: int, ignore: int) -> Any:
    """-weight[class] * x[class], and the sum of the weights, by which a mean divides; 0 where nothing is reduced."""
    x, target = _rows(x, target)
    classes, counted = checked_classes("target", target, ignore, x.shape[1])
    weights = widen(codes(weight).reshape(-1).take(classes).view(weight.dtype))
    if x.ndim == 2 and x.size and x.flags.c_contiguous:
        places = np.arange(0, x.size, x.shape[1])
        places += classes
        chosen = widen(codes(x).reshape(-1).take(places).view(x.dtype))
    else:
        grid = [np.arange(n).reshape(-1, *(1,) * (target.ndim - axis - 1)) for axis, n in enumerate(target.shape)]
        chosen = widen(codes(x)[(grid[0], classes, *grid[1:])].view(x.dtype))
    loss = -weights * chosen
    if classes is not target and not counted.all():
        weights, loss = np.where(counted, weights, 0), np.where(counted, loss, 0)
    if reduction == NONE:
        return loss, 0
    whole = total(weights)
    return total(loss) / whole if reduction == MEAN else total(loss), whole


_any_rank_nll = any_rank(_nll, wide=False)


@reference("aclnnNLLLoss", "aclnnNLLLoss2d", raw=True)
def nll_loss(x: Array, target: Array, weight: Array, reduction: int, ignore: int, *, out: tuple[Array, Array]) -> None:
    plain = x.ndim == 2 and x.shape[1] == weight.size
    if not plain or not native.nll(x, weight, target.astype(np.int64, copy=False), ignore, reduction, *out):
        _any_rank_nll(x, target, weight, reduction, ignore, out=out)


@reference("aclnnNLLLossBackward", "aclnnNLLLoss2dBackward")
def nll_loss_backward(
    grad: Array, x: Array, target: Array, weight: Array, reduction: int, ignore: int, total_weight: Array
) -> Any:
    """-weight[class] of each item at its class, 0 elsewhere."""
    shape = x.shape
    x, target = _rows(x, target)
    classes, counted = checked_classes("target", target, ignore, x.shape[1])
    grad = grad.reshape(target.shape if grad.size == target.size else ())
    d_chosen = -weight.reshape(-1)[classes] * grad
    if reduction == MEAN:
        d_chosen = d_chosen / total_weight.reshape(())
    dx = np.zeros(x.shape, np.float32)
    np.put_along_axis(dx, classes[:, None], np.where(counted, d_chosen, 0)[:, None], 1)
    return dx.reshape(shape)


# ------------------------------------------------------------------------------------------------- margins


def _multilabel_margin(x: Array, target: Array, reduction: int) -> Any:
    """How far the classes that are named before the first -1 are not above the others; and which are named.

    The document writes 1 - x[j] - x[i]; its kernel and torch have 1 - x[j] + x[i]. Nothing is computed for no rows.
    """
    shape = target.shape
    x, target = np.atleast_2d(x), target.reshape(np.atleast_2d(x).shape)
    if x.size == 0:
        return (np.zeros(len(x)) if reduction == NONE else reduced(x, reduction)), np.zeros(shape)
    used = np.logical_and.accumulate(target >= 0, axis=1)
    names = np.where(used, target, -1).astype(np.int64)
    check_range("target", names, -1, x.shape[1])
    row = np.broadcast_to(np.arange(len(x))[:, None], names.shape)
    is_target = np.zeros(x.shape, bool)
    is_target[row[used], names[used]] = True
    loss = np.zeros(len(x))
    for place in range(x.shape[1]):
        here = used[:, place]
        if not here.any():
            break
        target_scores = x[here, names[here, place]][:, None]
        margins = np.where(is_target[here], 0, np.maximum(1 - target_scores + x[here], 0))
        loss[here] += total(margins, (1,)) / x.shape[1]
    return reduced(loss, reduction), is_target.reshape(shape)


reference("aclnnMultilabelMarginLoss", raw=True)(any_rank(_multilabel_margin))

# ------------------------------------------------------------------------------------------------- CTC


def _log_sum(*terms: Array) -> Array:
    """log of the sum of the exponentials; -inf where all terms are."""
    result: Array = np.logaddexp.reduce(np.stack(terms))
    return result


def _labels(targets: Array, lengths: Sequence[int], blank: int, symbols: int) -> tuple[Array, Array, Array]:
    """The states of each sample (blank, label, blank, ...), how many it has, and where a step of two is possible."""
    longest = max(lengths, default=0)
    labels = np.full((len(lengths), longest), blank, np.int64)
    if targets.ndim == 2:
        labels[...] = targets[:, :longest]
    else:
        ends = np.cumsum(lengths)
        for row, end, length in zip(labels, ends, lengths):
            row[:length] = targets[end - length : end]
    count = np.asarray(lengths, np.int64)
    labels[np.arange(longest) >= count[:, None]] = blank
    check_range("targets", labels, 0, symbols)
    states = np.full((len(lengths), 2 * longest + 1), blank, np.int64)
    states[:, 1::2] = labels
    skips = np.zeros(states.shape, bool)
    skips[:, 2:] = states[:, 2:] != states[:, :-2]
    return states, 2 * count + 1, skips


def _shifted(alpha: Array, by: int) -> Array:
    """State s gets what state s - by has."""
    moved = np.full(alpha.shape, -np.inf)
    if by > 0:
        moved[:, by:] = alpha[:, :-by]
    else:
        moved[:, :by] = alpha[:, -by:]
    return moved


def _three_axes(log_probs: Array) -> Array:
    """(steps, samples, symbols) in double precision."""
    return np.asarray(log_probs if log_probs.ndim == 3 else log_probs[:, None], np.float64)


@reference("aclnnCtcLoss", raw=True)
def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int,
    zero_infinity: bool,
    *,
    out: tuple[Array, Array],
) -> None:
    """-log of the probability of all paths that give the labels, and the log probabilities of being in each state.

    What a sample does not use of log_alpha is -inf.
    """
    loss, log_alpha = out
    probs = _three_axes(widen(log_probs))
    steps, samples, symbols = probs.shape
    states, count, skips = _labels(targets, target_lengths, blank, symbols)
    row, places = np.arange(samples)[:, None], np.arange(states.shape[1])
    alphas = np.full((samples, steps, log_alpha.shape[2]), -np.inf)
    used = places < count[:, None]
    alpha = np.where(used & (places < 2), probs[0][row, states], -np.inf)
    for step in range(steps):
        if step:
            skipped = np.where(skips, _shifted(alpha, 2), -np.inf)
            alpha = np.where(used, _log_sum(alpha, _shifted(alpha, 1), skipped) + probs[step][row, states], -np.inf)
        alphas[:, step, : alpha.shape[1]] = alpha
    lengths = np.asarray(input_lengths, np.int64)
    alphas[np.arange(steps) >= lengths[:, None]] = -np.inf
    last = alphas[np.arange(samples), np.maximum(lengths, 1) - 1]
    before = np.where(count > 1, last[np.arange(samples), count - 2], -np.inf)
    result = -_log_sum(last[np.arange(samples), count - 1], before)
    result[lengths == 0] = np.where(count == 1, 0, np.inf)[lengths == 0]  # no steps give no labels
    if zero_infinity:
        result[result == np.inf] = 0
    round_into(loss, result.reshape(loss.shape))
    round_into(log_alpha, alphas)


@reference("aclnnCtcLossBackward", raw=True)
def ctc_loss_backward(
    grad: Array,
    log_probs: Array,
    targets: Array,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    negative_log_likelihood: Array,
    log_alpha: Array,
    blank: int,
    zero_infinity: bool,
    *,
    out: tuple[Array],
) -> None:
    """The gradient of what a log softmax was taken of, as in torch: exp(log_probs) less each symbol's share of paths.

    With zero_infinity it is 0 where no path gives the labels, as the document says. The kernels (ctc_loss_v3_grad and
    ctc_loss_v2_grad) look for an infinite negative_log_likelihood, which CtcLoss has replaced by 0 by then, and leave
    exp(log_probs); here the last states of log_alpha, which are -inf, are checked too.
    """
    probs = _three_axes(widen(log_probs))
    steps, samples, symbols = probs.shape
    states, count, skips = _labels(targets, target_lengths, blank, symbols)
    row, places = np.arange(samples)[:, None], np.arange(states.shape[1])
    lengths = np.asarray(input_lengths, np.int64)
    onward = np.zeros(skips.shape, bool)  # a step of two from here
    onward[:, :-2] = skips[:, 2:]
    loss = np.asarray(widen(negative_log_likelihood), np.float64).reshape(-1, 1)
    weight = np.asarray(widen(grad), np.float64).reshape(-1, 1)
    alphas = np.asarray(widen(log_alpha), np.float64)[:, :, : states.shape[1]]
    ends = (places == count[:, None] - 1) | (places == count[:, None] - 2)
    used = places < count[:, None]
    last = alphas[np.arange(samples), np.maximum(lengths, 1) - 1]
    impossible = (loss == np.inf) | (np.where(ends, last, -np.inf).max(1, keepdims=True) == -np.inf)
    beta = np.full(states.shape, -np.inf)
    result = np.zeros(probs.shape)
    for step in range(steps - 1, -1, -1):
        state_probs = probs[step][row, states]
        skipped = np.where(onward, _shifted(beta, -2), -np.inf)
        further = _log_sum(beta, _shifted(beta, -1), skipped) + state_probs
        starts = lengths[:, None] == step + 1
        beta = np.where(used, np.where(starts, np.where(ends, state_probs, -np.inf), further), -np.inf)
        paths = np.full((samples, symbols), -np.inf)
        np.logaddexp.at(paths, (row, states), alphas[:, step] + beta)
        gradient = (np.exp(probs[step]) - np.exp(paths + loss - probs[step])) * weight
        counts = step < lengths[:, None]
        if zero_infinity:
            counts = counts & ~impossible
        result[step] = np.where(counts, gradient, 0)
    round_into(out[0], result.reshape(out[0].shape))
