"""References of ops-nn/optim: optimiser steps, and the step of a language model from one token to the next.

Steps are counted from 0: where an operator takes a step, it is the number of steps before this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, round_into, widen
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference

Arrays = Sequence[Array]


def _number(x: Array) -> float:
    """The one element of a tensor."""
    return float(x.reshape(-1)[0])


def _rate(lr: Array, power1: Array, power2: Array) -> float:
    """Adam's corrected rate; NaN or infinite where a power is 1 or more, as on the device."""
    return float(_number(lr) * np.sqrt(np.float64(1 - _number(power2))) / np.float64(1 - _number(power1)))


def _moments(m: Array, v: Array, grad: Array, beta1: float, beta2: float) -> tuple[Array, Array]:
    """The moving averages of the gradient and of its square."""
    return beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad * grad


def _corrections(beta1: float, beta2: float, step: float) -> tuple[Any, Any]:
    """How much of the two averages the gradients so far make up; as NumPy numbers, which divide by zero as kernels do."""
    return np.float64(1 - beta1**step), np.float64(1 - beta2**step)


def _write(argument: str, tensor: Array, value: Array) -> None:
    """Changes what CANN declares an input."""
    if not tensor.flags.writeable:
        raise DataError(argument, "is read-only; the operator changes it")
    round_into(tensor, value)


# ------------------------------------------------------------------------------------------------- Adam


def _adam_w(
    var: Array,
    m: Array,
    v: Array,
    max_v: Optional[Array],
    lr: float,
    decay: float,
    eps: float,
    corrections: tuple[float, float],
) -> tuple[Array, Array, Array, Optional[Array]]:
    """A step of AdamW with the new moments. ``highest`` is the largest second one so far, for AMSGrad; it is updated."""
    max_v = None if max_v is None else np.maximum(max_v, v)
    spread = np.sqrt((v if max_v is None else max_v) / corrections[1]) + eps
    return var * (1 - lr * decay) - lr / corrections[0] * m / spread, m, v, max_v


@reference("aclnnApplyAdamW")
def apply_adam_w(
    var: Array,
    m: Array,
    v: Array,
    beta1_power: Array,
    beta2_power: Array,
    lr: Array,
    weight_decay: Array,
    beta1: Array,
    beta2: Array,
    eps: Array,
    grad: Array,
    max_grad_norm: Optional[Array],
    amsgrad: bool,
    maximize: bool,
) -> Any:
    """The powers of the betas are those of the step before. CANN does not write the largest second moment back."""
    b1, b2 = _number(beta1), _number(beta2)
    corrections = 1 - _number(beta1_power) * b1, 1 - _number(beta2_power) * b2
    max_v = max_grad_norm if amsgrad else None
    m, v = _moments(m, v, -grad if maximize else grad, b1, b2)
    return _adam_w(var, m, v, max_v, _number(lr), _number(weight_decay), _number(eps), corrections)[:3]


@reference("aclnnApplyAdamWV2")
def apply_adam_w_v2(
    var: Array,
    m: Array,
    v: Array,
    max_grad_norm: Optional[Array],
    grad: Array,
    step: Array,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
) -> Any:
    """AdamW. The first moment goes from the old one towards the gradient, as in the kernel: two equal infinities give NaN."""
    corrections = _corrections(beta1, beta2, _number(step) + 1)
    max_v = max_grad_norm if amsgrad else None
    grad = -grad if maximize else grad
    m, v = m + (1 - beta1) * (grad - m), _moments(m, v, grad, beta1, beta2)[1]
    return _adam_w(var, m, v, max_v, lr, weight_decay, eps, corrections)


@reference("aclnnFusedAdamw")
def fused_adamw(
    params: Arrays,
    grads: Arrays,
    averages: Arrays,
    squares: Arrays,
    max_squares: Optional[Arrays],
    steps: Arrays,
    grad_scale: Optional[Array],
    found_inf: Optional[Array],
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
) -> Any:
    """AdamW of each tensor with its gradient over ``grad_scale``; nothing where an infinity was found."""
    if found_inf is not None and found_inf.size and _number(found_inf) == 1:
        return None, None, None, None
    scale = 1 / _number(grad_scale) if grad_scale is not None and grad_scale.size else 1.0
    scale = -scale if maximize else scale
    used_max_squares = max_squares if amsgrad and max_squares else None
    most: Sequence[Optional[Array]] = used_max_squares or [None] * len(params)
    updated = []
    for var, m, v, high, grad, step in zip(params, averages, squares, most, grads, steps):
        corrections = _corrections(beta1, beta2, _number(step) + 1)
        m, v = _moments(m, v, grad * scale, beta1, beta2)
        updated.append(_adam_w(var, m, v, high, lr, weight_decay, eps, corrections))
    lists = [list(column) for column in zip(*updated)]
    return lists[0], lists[1], lists[2], lists[3] if used_max_squares else None


@reference("aclnnApplyAdam", raw=True)
def apply_adam(
    var: Array,
    m: Array,
    v: Array,
    beta1_power: Array,
    beta2_power: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    grad: Array,
    use_locking: bool,
    use_nesterov: bool,
    *,
    out: tuple[Array],
) -> None:
    """The powers of the betas are those of this step. The kernel changes both moments, which CANN declares inputs."""
    b1, b2 = _number(beta1), _number(beta2)
    rate = _rate(lr, beta1_power, beta2_power)
    wide = widen(grad)
    average, square = _moments(widen(m), widen(v), wide, b1, b2)
    direction = b1 * average + (1 - b1) * wide if use_nesterov else average
    result = widen(var) - rate * direction / (np.sqrt(square) + _number(epsilon))
    _write("m", m, average)
    _write("v", v, square)
    round_into(out[0], result)


@reference("aclnnApplyFusedEmaAdam")
def apply_fused_ema_adam(
    grad: Array,
    var: Array,
    m: Array,
    v: Array,
    s: Array,
    step: Array,
    lr: float,
    ema_decay: float,
    beta1: float,
    beta2: float,
    eps: float,
    mode: int,
    bias_correction: bool,
    weight_decay: float,
) -> Any:
    """Adam with the decay in the gradient (mode 0) or in the update (1), and the moving average of the result.

    Of a ``step`` of several elements the kernel (apply_fused_ema_adam_f32.h) reads the first.
    """
    first, second = _corrections(beta1, beta2, _number(step)) if bias_correction else (1.0, 1.0)
    if mode == 0:
        grad = grad + weight_decay * var
    m, v = _moments(m, v, grad, beta1, beta2)
    update = m / first / (np.sqrt(v / second) + eps)
    if mode == 1:
        update = update + weight_decay * var
    var = var - lr * update
    return var, m, v, ema_decay * s + (1 - ema_decay) * var


# ------------------------------------------------------------------------------------------------- quantised Adam


def _blocks(x: Array, size: int) -> Array:
    """Flat, in rows of a block, the last one filled up with zeros."""
    flat = np.zeros(-(-x.size // size) * size, x.dtype)
    flat[: x.size] = x.reshape(-1)
    return flat.reshape(-1, size)


def _decode(codes: Array, book: Array, block_max: Array, size: int) -> Array:
    """Entries of the code book, times what each block was divided by."""
    values = _blocks(book.reshape(-1)[codes], size) * block_max.reshape(-1, 1)
    return values.reshape(-1)[: codes.size].reshape(codes.shape)


def _encode(values: Array, book: Array, size: int, signed: bool) -> tuple[Array, Array]:
    """Codes of the nearest entries, of the lower for equal distances, and the largest magnitude of each block.

    With ``signed``, as in the kernel, an entry of another sign than its value's moves one on, away from zero. A block of
    zeros has the code 0.
    """
    book = book.reshape(-1)
    rows = _blocks(values, size)
    block_max = np.abs(rows).max(1)
    scaled = rows / block_max[:, None]
    upper = np.clip(np.searchsorted(book, scaled), 1, len(book) - 1)
    codes = np.where(scaled - book[upper - 1] <= book[upper] - scaled, upper - 1, upper)
    if signed:
        sign = np.sign(book[codes])
        codes = np.where(np.sign(scaled) != sign, codes + np.nan_to_num(sign).astype(np.int64), codes)
    codes = np.where(np.isnan(scaled), 0, np.clip(codes, 0, len(book) - 1))
    return codes.reshape(-1)[: values.size].reshape(values.shape), block_max


@reference("aclnnApplyAdamWQuant")
def apply_adam_w_quant(
    var: Array,
    grad: Array,
    m: Array,
    v: Array,
    book_m: Array,
    book_v: Array,
    highest_m: Array,
    highest_v: Array,
    step: Array,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    gnorm_scale: float,
    mode: Optional[str],
    block: int,
) -> Any:
    """AdamW whose moments are kept as codes; the weights decay after the step."""
    first, second = _corrections(beta1, beta2, _number(step) + 1)
    old_m, old_v = _decode(m, book_m, highest_m, block), _decode(v, book_v, highest_v, block)
    new_m, new_v = _moments(old_m, old_v, grad * gnorm_scale, beta1, beta2)
    var = var - lr / first * new_m / (np.sqrt(new_v / second) + eps)
    if weight_decay > 0:
        var = var * (1 - lr * weight_decay)
    codes_m, new_highest_m = _encode(new_m, book_m, block, True)
    codes_v, new_highest_v = _encode(new_v, book_v, block, False)
    return var, codes_m, codes_v, new_highest_m.reshape(highest_m.shape), new_highest_v.reshape(highest_v.shape)


# ------------------------------------------------------------------------------------------------- momentum


@reference("aclnnApplyKerasMomentum", raw=True)
def apply_keras_momentum(
    var: Array,
    accum: Array,
    lr: Array,
    grad: Array,
    momentum: Array,
    use_locking: bool,
    use_nesterov: bool,
    *,
    out: tuple[Array],
) -> None:
    """The kernel changes ``accum``, which CANN declares an input."""
    step = _number(lr) * widen(grad)
    speed = _number(momentum) * widen(accum) - step
    result = widen(var) + (_number(momentum) * speed - step if use_nesterov else speed)
    _write("accum", accum, speed)
    round_into(out[0], result)


@reference("aclnnFusedSgd")
def fused_sgd(
    params: Arrays,
    grads: Arrays,
    buffers: Optional[Arrays],
    grad_scale: Optional[Array],
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
) -> Any:
    """Stochastic gradient descent of each tensor; the gradients are given back over ``grad_scale``."""
    scale = 1.0 if grad_scale is None else 1 / _number(grad_scale)
    updated: list[tuple[Array, Array, Optional[Array]]] = []
    momenta: Sequence[Optional[Array]] = buffers or [None] * len(params)
    for param, grad, buffer in zip(params, grads, momenta):
        scaled = grad * scale
        direction = (-scaled if maximize else scaled) + weight_decay * param
        if buffer is not None:
            buffer = direction if is_first_step else momentum * buffer + (1 - dampening) * direction
            direction = direction + momentum * buffer if nesterov else buffer
        updated.append((param - lr * direction, scaled, buffer))
    lists = [list(column) for column in zip(*updated)]
    return lists[0], lists[1], lists[2] if buffers else None


# ------------------------------------------------------------------------------------------------- language models


def _advance(
    tokens: Array,
    sampled: Array,
    positions: Array,
    lengths: Array,
    slots: Array,
    tables: Array,
    sequences: int,
    queries: int,
    block: int,
) -> Any:
    """The first sequences go on by one token; the others, which only fill up, get token 0 at no slot.

    As the kernel and the document have it, the block is looked up in the first row of the tables, and a row's number
    times their width added. The kernel (advance_step.h) fills up from ``queries`` on with a stride of its number of
    cores, and all its cores advance the same rows, so that what a card does with the entries between depends on its
    cores; here every one is filled, as the loop of vLLM does that the operator replaces.
    """
    flat = [x.reshape(-1).copy() for x in (tokens, positions, lengths, slots)]
    new_tokens, new_positions, new_lengths, new_slots = flat
    position = new_lengths[:queries].copy()
    new_tokens[:queries] = sampled.reshape(-1)[:queries]
    new_positions[:queries] = position
    new_lengths[:queries] = position + 1
    place = position // block
    check_range("blockTables", place, 0, tables.size)
    width = tables.shape[-1]
    new_slots[:queries] = (tables.reshape(-1)[place] + width * np.arange(queries)) * block + position % block
    new_tokens[queries:sequences], new_positions[queries:sequences], new_slots[queries:sequences] = 0, 0, -1
    return tuple(new.reshape(old.shape) for new, old in zip(flat, (tokens, positions, lengths, slots)))


reference("aclnnAdvanceStep")(_advance)


@reference("aclnnAdvanceStepV2")
def advance_step_v2(
    tokens: Array,
    sampled: Array,
    positions: Array,
    lengths: Array,
    slots: Array,
    tables: Array,
    spec: Optional[Array],
    accepted: Optional[Array],
    sequences: int,
    queries: int,
    block: int,
) -> Any:
    """With guessed tokens, sequences go on after those that were accepted: the last token, then the next guesses."""
    if spec is None or accepted is None:
        return _advance(tokens, sampled, positions, lengths, slots, tables, sequences, queries, block)
    width = spec.shape[1] + 1
    position = positions.reshape(-1, width) + accepted.reshape(-1, 1) + 1
    place = position // block
    check_range("blockTables", place, 0, tables.shape[-1])
    slot = np.take_along_axis(tables, place, 1) * block + position % block
    rows = sampled.reshape(-1, width)
    ended = np.concatenate((rows, np.full((len(rows), 1), -1, rows.dtype)), 1)
    last = np.take_along_axis(rows, np.maximum(ended.argmin(1) - 1, 0)[:, None], 1)
    advanced = (np.concatenate((last, spec), 1), position, position + 1, slot)
    return tuple(new.reshape(old.shape) for new, old in zip(advanced, (tokens, positions, lengths, slots)))


# ------------------------------------------------------------------------------------------------- experimental


@reference("aclnnApplyAdadelta")
def apply_adadelta(
    var: Array, accum: Array, updates: Array, lr: float, rho: float, epsilon: float, grad: Array
) -> tuple[Array, Array, Array]:
    """The variable, the average of squared gradients and that of squared updates."""
    accum = rho * accum + (1 - rho) * grad * grad
    update = np.sqrt(updates + epsilon) / np.sqrt(accum + epsilon) * grad
    return var - lr * update, accum, rho * updates + (1 - rho) * update * update


@reference("aclnnApplyAdamax")
def apply_adamax(
    var: Array, m: Array, v: Array, power: float, lr: float, beta1: float, beta2: float, epsilon: float, grad: Array
) -> tuple[Array, Array, Array]:
    """Adam with the largest gradient so far in place of the average of squares."""
    m = beta1 * m + (1 - beta1) * grad
    v = np.maximum(beta2 * v, np.abs(grad))
    rate = float(np.float64(lr) / (1 - power))  # infinite where the power is 1, as on the device
    return var - rate * m / (v + epsilon), m, v


@reference("aclnnApplyRmsProp")
def apply_rms_prop(
    var: Array, ms: Array, mom: Array, grad: Array, lr: float, rho: float, momentum: float, epsilon: float
) -> tuple[Array, Array, Array]:
    ms = ms + (1 - rho) * (grad * grad - ms)
    mom = momentum * mom + lr * grad / np.sqrt(epsilon + ms)
    return var - mom, ms, mom


@reference("aclnnApplyAdamD")
def apply_adam_d(
    var: Array,
    m: Array,
    v: Array,
    power1: Array,
    power2: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    grad: Array,
    use_locking: bool,
    use_nesterov: bool,
) -> tuple[Array, Array, Array]:
    """A step of Adam, whose powers of the betas come as tensors."""
    b1, b2 = _number(beta1), _number(beta2)
    rate = _rate(lr, power1, power2)
    m, v = _moments(m, v, grad, b1, b2)
    ahead = b1 * m + (1 - b1) * grad if use_nesterov else m
    return var - rate * ahead / (_number(epsilon) + np.sqrt(v)), m, v


@reference("aclnnApplyFtrl")
def apply_ftrl(
    var: Array, accum: Array, linear: Array, grad: Array, lr: Array, l1: Array, l2: Array, power: Array, locking: bool
) -> tuple[Array, Array, Array]:
    """Follows the regularised leader: the variable is 0 where the linear term does not exceed l1."""
    rate, bound = _number(lr), _number(l1)
    grown = accum + grad * grad
    root = np.power(grown, -_number(power))
    linear = linear + grad - (root - np.power(accum, -_number(power))) / rate * var
    moved = (np.sign(linear) * bound - linear) / (root / rate + 2 * _number(l2))
    return np.where(np.abs(linear) > bound, moved, 0), grown, linear


@reference("aclnnApplyGradientDescent")
def apply_gradient_descent(var: Array, alpha: Array, delta: Array) -> Array:
    return var - _number(alpha) * delta


@reference("aclnnApplyCenteredRMSProp")
def apply_centered_rms_prop(
    var: Array, mg: Array, ms: Array, mom: Array, lr: Array, rho: Array, momentum: Array, epsilon: Array, grad: Array
) -> tuple[Array, Array, Array, Array]:
    """RMSProp that divides by the gradients' deviation instead of their size."""
    mg = _number(rho) * mg + (1 - _number(rho)) * grad
    ms = _number(rho) * ms + (1 - _number(rho)) * grad * grad
    mom = _number(momentum) * mom + _number(lr) * grad / np.sqrt(ms - mg * mg + _number(epsilon))
    return var - mom, mg, ms, mom


@reference("aclnnApplyProximalAdagrad")
def apply_proximal_adagrad(
    var: Array, accum: Array, lr: Array, l1: Array, l2: Array, grad: Array
) -> tuple[Array, Array]:
    """A step of Adagrad, then the variable is moved towards 0 by l1 and divided for l2."""
    accum = accum + grad * grad
    rate = _number(lr) / np.sqrt(accum)
    moved = var - rate * grad
    return np.sign(moved) * np.maximum(np.abs(moved) - rate * _number(l1), 0) / (1 + rate * _number(l2)), accum


@reference("aclnnAdamApplyOne")
def adam_apply_one(
    grad: Array, v: Array, m: Array, var: Array, lr: Array, b1: Array, c1: Array, b2: Array, c2: Array, epsilon: Array
) -> tuple[Array, Array, Array]:
    """The average of squared gradients, that of gradients, and the variable; all factors are tensors."""
    return _one_step_of_adam(grad, v, m, var, lr, (b1, c1, b2, c2), epsilon, np.zeros_like(var))


@reference("aclnnAdamApplyOneWithDecay", "aclnnAdamApplyOneWithDecayAssign")
def adam_apply_one_with_decay(
    grad: Array,
    v: Array,
    m: Array,
    var: Array,
    lr: Array,
    b1: Array,
    c1: Array,
    b2: Array,
    c2: Array,
    decay: Array,
    epsilon: Array,
) -> tuple[Array, Array, Array]:
    return _one_step_of_adam(grad, v, m, var, lr, (b1, c1, b2, c2), epsilon, var * decay)


def _one_step_of_adam(
    grad: Array,
    v: Array,
    m: Array,
    var: Array,
    lr: Array,
    factors: tuple[Array, Array, Array, Array],
    epsilon: Array,
    decayed: Array,
) -> tuple[Array, Array, Array]:
    b1, c1, b2, c2 = factors
    v, m = grad * grad * c2 + v * b2, m * b1 + grad * c1
    return v, m, var - (m / (np.sqrt(v) + epsilon) + decayed) * lr


@reference("aclnnApplyAdagradD")
def apply_adagrad_d(
    var: Array, accum: Array, lr: Array, grad: Array, update_slots: bool, use_locking: bool
) -> tuple[Array, Array]:
    accum = accum + grad * grad if update_slots else accum
    return var - _number(lr) * grad / np.sqrt(accum), accum


@reference("aclnnOptimizedTransducer")
def optimized_transducer(
    logits: Array,
    targets: Array,
    frames: Array,
    labels: Array,
    blank: int,
    clamp: float,
    fused_log_softmax: bool,
    requires_grad: bool,
) -> tuple[Array, Array]:
    """-log of the sum over all alignments of labels and blanks (RNN-T), and its gradient; 0 behind the lengths.

    ``fused_log_softmax``: the logits are not normalised yet, and the gradient is theirs.
    """
    _, most_frames, most_labels, classes = logits.shape
    for name, lengths, most in (("logitLengths", frames, most_frames), ("targetLengths", labels + 1, most_labels)):
        check_range(name, lengths, 1, most + 1)
    losses, gradient = np.zeros(len(logits), np.float32), np.zeros(logits.shape, np.float32)
    for number, (t, u) in enumerate(zip(frames.tolist(), (labels + 1).tolist())):
        own, wanted = logits[number, :t, :u].astype(np.float64), targets[number, : u - 1]
        check_range("targets", wanted, 0, classes)
        if fused_log_softmax:
            largest = own.max(-1, keepdims=True)
            own = own - largest - np.log(np.exp(own - largest).sum(-1, keepdims=True))
        stay, step = own[..., blank], own[:, np.arange(u - 1), wanted]
        before, after = _alignments(stay, step)
        total = after[0, 0]
        losses[number] = -total
        if requires_grad:
            left = np.concatenate([after[1:], np.full((1, u), -np.inf)])
            left[-1, -1] = 0  # the last blank ends everything
            own_gradient = (
                np.exp(own + (before + after - total)[..., None]) if fused_log_softmax else np.zeros_like(own)
            )
            own_gradient[..., blank] -= np.exp(before + stay + left - total)
            own_gradient[:, np.arange(u - 1), wanted] -= np.exp(before[:, :-1] + step + after[:, 1:] - total)
            if clamp > 0 or (clamp == 0 and not fused_log_softmax):
                own_gradient = np.clip(own_gradient, -clamp, clamp)
            gradient[number, :t, :u] = own_gradient
    return losses, gradient


def _alignments(stay: Array, step: Array) -> tuple[Array, Array]:
    """For each frame and label the log probability of all ways to it, and of all ways from it to the end."""
    t, u = stay.shape
    before, after = np.full((t, u), -np.inf), np.full((t, u), -np.inf)
    before[0, 0], after[-1, -1] = 0, stay[-1, -1]
    for diagonal in range(1, t + u - 1):
        rows = np.arange(max(diagonal - u + 1, 0), min(diagonal, t - 1) + 1)
        columns = diagonal - rows
        up, left = rows > 0, columns > 0
        ways = np.full((2, len(rows)), -np.inf)
        ways[0, up] = before[rows[up] - 1, columns[up]] + stay[rows[up] - 1, columns[up]]
        ways[1, left] = before[rows[left], columns[left] - 1] + step[rows[left], columns[left] - 1]
        before[rows, columns] = np.logaddexp(*ways)
        rows, columns = t - 1 - rows, u - 1 - columns  # the same diagonal from the end
        down, right = rows < t - 1, columns < u - 1
        ways = np.full((2, len(rows)), -np.inf)
        ways[0, down] = after[rows[down] + 1, columns[down]] + stay[rows[down], columns[down]]
        ways[1, right] = after[rows[right], columns[right] + 1] + step[rows[right], columns[right]]
        after[rows, columns] = np.logaddexp(*ways)
    return before, after
