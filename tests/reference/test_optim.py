"""References of ops-nn/optim through the public functions, against torch's optimisers and loops in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

torch = pytest.importorskip("torch", reason="torch is the oracle of optimisers; without it they are not tested")
from torch_tools import FLOATS, check, tensor  # noqa: E402 (it imports torch)

F32 = np.dtype(np.float32)


def normal(*shape: int, dtype: Any = np.float32, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def one(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array([value], dtype)


# ------------------------------------------------------------------------------------------------- AdamW

LR, BETA1, BETA2, DECAY, EPS = 0.0625, 0.875, 0.96875, 0.125, 2.0**-20  # exact in every data type


def torch_adam_w(var: Any, m: Any, v: Any, highest: Any, grad: Any, step: int, maximize: bool) -> list[np.ndarray]:
    """torch's AdamW after so many steps: parameter, both moments and, with AMSGrad, the largest second one."""
    leaf = torch.nn.Parameter(tensor(var))
    leaf.grad = tensor(grad)
    optimizer = torch.optim.AdamW(
        [leaf],
        lr=LR,
        betas=(BETA1, BETA2),
        eps=EPS,
        weight_decay=DECAY,
        amsgrad=highest is not None,
        maximize=maximize,
        foreach=False,
    )
    state = optimizer.state[leaf]
    state.update(step=torch.tensor(float(step)), exp_avg=tensor(m), exp_avg_sq=tensor(v))
    if highest is not None:
        state["max_exp_avg_sq"] = tensor(highest)
    optimizer.step()
    names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if highest is not None else [])]
    return [leaf.detach().numpy(), *(state[name].numpy() for name in names)]


def adam_state(dtype: Any, seed: int = 3, shape: Any = (5, 7)) -> list[np.ndarray]:
    """Parameter, moments, largest second moment, gradient."""
    var, m, v, highest, grad = (normal(*shape, dtype=dtype, seed=seed + i) for i in range(5))
    return [var, m, np.abs(v), np.abs(highest), grad]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_apply_adam_w(amsgrad: bool, maximize: bool, dtype: Any) -> None:
    var, m, v, highest, grad = adam_state(dtype)
    wanted = torch_adam_w(var, m, v, highest if amsgrad else None, grad, 2, maximize)
    numbers = (LR, BETA1, BETA2, DECAY, EPS, amsgrad, maximize)
    for step in (one(2), one(2, np.int64)):
        given = [a.copy() for a in (var, m, v, highest)]
        ops.apply_adam_wv2(*given[:3], given[3] if amsgrad else None, grad, step, *numbers)
        for actual, expected in zip(given, wanted):
            check(actual, expected, 8)
        if not amsgrad:
            np.testing.assert_array_equal(given[3], highest)
    given = [a.copy() for a in (var, m, v)]
    scalars = [one(a, dtype) for a in (BETA1**2, BETA2**2, LR, DECAY, BETA1, BETA2, EPS)]
    ops.apply_adam_w(*given, *scalars, grad, highest if amsgrad else None, amsgrad, maximize)
    for actual, expected in zip(given, wanted):
        check(actual, expected, 40 if dtype == F32 else 3)  # the powers of the betas are rounded here


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_fused_adamw(amsgrad: bool, maximize: bool, dtype: Any) -> None:
    states = [adam_state(dtype, 3, (4, 6)), adam_state(dtype, 20, (9,))]
    numbers = (LR, BETA1, BETA2, DECAY, EPS, amsgrad, maximize)

    def run(found_inf: Any) -> list[list[np.ndarray]]:
        var, m, v, highest, grad = ([a.copy() for a in column] for column in zip(*states))
        steps = [one(2), one(5)]
        ops.fused_adamw(var, grad, m, v, highest if amsgrad else None, steps, one(4), found_inf, *numbers)
        return [var, m, v, highest]

    made = run(one(0))
    for place, step in enumerate((2, 5)):
        var, m, v, highest, grad = states[place]
        most = highest if amsgrad else None
        wanted = torch_adam_w(var, m, v, most, (grad.astype(np.float64) / 4), step, maximize)
        for column, expected in zip(made, wanted):
            check(column[place], expected, 8)
    for column, before in zip(run(one(1)), zip(*states)):
        for actual, expected in zip(column, before):
            np.testing.assert_array_equal(actual, expected)


# ------------------------------------------------------------------------------------------------- other Adams


@pytest.mark.parametrize("nesterov", [False, True])
def test_apply_adam(nesterov: bool) -> None:
    var, m, v, _, grad = adam_state(F32)
    wide = [a.astype(np.float64) for a in (var, m, v, grad)]
    average = BETA1 * wide[1] + (1 - BETA1) * wide[3]
    square = BETA2 * wide[2] + (1 - BETA2) * wide[3] ** 2
    slope = BETA1 * average + (1 - BETA1) * wide[3] if nesterov else average
    rate = LR * np.sqrt(1 - BETA2**3) / (1 - BETA1**3)
    scalars = [one(a) for a in (BETA1**3, BETA2**3, LR, BETA1, BETA2, EPS)]
    with aclnn.use_backend("numpy", soc="Ascend950"):
        assert ops.apply_adam(var, m, v, *scalars, grad, False, nesterov) is var
        check(var, wide[0] - rate * slope / (np.sqrt(square) + EPS), 4)
        check(m, average)
        check(v, square)
        m.flags.writeable = False
        with pytest.raises(AclError, match="m is read-only"):
            ops.apply_adam(var, m, v, *scalars, grad, False, nesterov)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("mode", [0, 1])
def test_apply_fused_ema_adam(mode: int, corrected: bool) -> None:
    var, m, v, s, grad = adam_state(F32)
    wide = [a.astype(np.float64) for a in (var, m, v, s, grad)]
    slope = wide[4] + DECAY * wide[0] if mode == 0 else wide[4]
    average, square = BETA1 * wide[1] + (1 - BETA1) * slope, BETA2 * wide[2] + (1 - BETA2) * slope**2
    first, second = (1 - BETA1**3, 1 - BETA2**3) if corrected else (1, 1)
    update = (average / first) / (np.sqrt(square / second) + EPS) + (DECAY * wide[0] if mode == 1 else 0)
    result = wide[0] - LR * update
    ops.apply_fused_ema_adam(grad, var, m, v, s, one(3, np.int64), LR, 0.75, BETA1, BETA2, EPS, mode, corrected, DECAY)
    for actual, expected in zip((var, m, v, s), (result, average, square, 0.75 * wide[3] + 0.25 * result)):
        check(actual, expected, 4)
    state, steps = adam_state(F32), np.array([3, 900], np.int64)  # the first counts
    ops.apply_fused_ema_adam(state[4], *state[:4], steps, LR, 0.75, BETA1, BETA2, EPS, mode, corrected, DECAY)
    for again, actual in zip(state, (var, m, v, s)):
        np.testing.assert_array_equal(again, actual)


def test_apply_adam_w_quant() -> None:
    size, blocks = 600, 3  # the last block is not full
    rng = np.random.default_rng(2)
    book_m = np.linspace(-1, 1, 256, dtype=np.float32)
    book_m[128] = 0
    book_v = np.linspace(0, 1, 256, dtype=np.float32) ** 2
    var, grad = normal(size), normal(size, seed=4)
    m, v = rng.integers(0, 256, size).astype(np.uint8), rng.integers(0, 256, size).astype(np.uint8)
    most_m, most_v = np.array([0.5, 1, 2], np.float32), np.array([1, 0.25, 3], np.float32)
    wide = var.astype(np.float64)
    scale = np.repeat(np.arange(blocks), 256)[:size]
    old_m, old_v = (
        book.astype(np.float64)[q] * most[scale] for book, q, most in ((book_m, m, most_m), (book_v, v, most_v))
    )
    wanted, average, square, _ = torch_adam_w_parts(wide, old_m, old_v, grad.astype(np.float64) * 0.5, 3)
    books = (book_m, book_v)
    ops.apply_adam_w_quant(
        var, grad, m, v, *books, most_m, most_v, one(3, np.int64), LR, BETA1, BETA2, DECAY, EPS, 0.5, "blockwise", 256
    )
    check(var, wanted, 8)
    for codes, book, highest, exact in ((m, book_m, most_m, average), (v, book_v, most_v, square)):
        check(highest, np.array([np.abs(exact[scale == i]).max() for i in range(blocks)]))
        scaled = exact / highest[scale]
        nearest = np.abs(scaled[:, None] - book).min(1)
        distance = np.abs(scaled - book[codes])
        if book is book_m:  # entries of another sign than the value's are left for their neighbours
            agree = np.sign(book[codes]) == np.sign(scaled)
            assert agree.mean() > 0.9
            np.testing.assert_allclose(distance[agree], nearest[agree], atol=1e-6)
        else:
            np.testing.assert_allclose(distance, nearest, atol=1e-6)


def torch_adam_w_parts(var: Any, m: Any, v: Any, grad: Any, step: int) -> tuple[np.ndarray, ...]:
    """AdamW whose decay comes after the step."""
    m, v = BETA1 * m + (1 - BETA1) * grad, BETA2 * v + (1 - BETA2) * grad**2
    spread = np.sqrt(v / (1 - BETA2 ** (step + 1))) + EPS
    return (var - LR / (1 - BETA1 ** (step + 1)) * m / spread) * (1 - LR * DECAY), m, v, spread


def test_quantised_zeros() -> None:
    book = np.linspace(-1, 1, 256, dtype=np.float32)
    zeros, codes = np.zeros(256, np.float32), np.full(256, 9, np.uint8)
    m, v, most = codes.copy(), codes.copy(), [np.zeros(1, np.float32) for _ in range(2)]
    ops.apply_adam_w_quant(
        zeros, zeros.copy(), m, v, book, book, *most, one(0, np.int64), LR, BETA1, BETA2, 0, EPS, 1, "blockwise", 256
    )
    assert not m.any() and not v.any() and not zeros.any() and most == [0, 0]


# ------------------------------------------------------------------------------------------------- momentum


@pytest.mark.parametrize("nesterov", [False, True])
def test_apply_keras_momentum(nesterov: bool) -> None:
    var, accum, _, _, grad = adam_state(F32)
    speed = 0.75 * accum.astype(np.float64) - LR * grad
    wanted = var + (0.75 * speed - LR * grad if nesterov else speed)
    with aclnn.use_backend("numpy", soc="Ascend950"):
        ops.apply_keras_momentum(var, accum, one(LR), grad, one(0.75), False, nesterov)
    check(var, wanted)
    check(accum, speed)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("momentum", "dampening", "nesterov"), [(0.0, 0.0, False), (0.75, 0.5, False), (0.75, 0.0, True)]
)
@pytest.mark.parametrize("maximize", [False, True])
def test_fused_sgd(maximize: bool, momentum: float, dampening: float, nesterov: bool, first: bool, dtype: Any) -> None:
    shapes = [(4, 6), (9,)]
    params, grads, buffers = ([normal(*s, dtype=dtype, seed=seed) for s in shapes] for seed in (3, 4, 5))
    scaled = [grad.astype(np.float64) / 4 for grad in grads]
    wanted = []
    for param, grad, buffer in zip(params, scaled, buffers):
        leaf = torch.nn.Parameter(tensor(param))
        leaf.grad = tensor(grad)
        options = {"momentum": momentum, "dampening": dampening, "nesterov": nesterov, "maximize": maximize}
        optimizer = torch.optim.SGD([leaf], lr=LR, weight_decay=DECAY, foreach=False, **options)
        if momentum and not first:
            optimizer.state[leaf]["momentum_buffer"] = tensor(buffer)
        optimizer.step()
        kept = optimizer.state[leaf]["momentum_buffer"].numpy() if momentum else None
        wanted.append((leaf.detach().numpy(), grad, kept))
    made = [[a.copy() for a in arrays] for arrays in (params, grads, buffers)]
    numbers = (DECAY, momentum, LR, dampening, nesterov, maximize, first)
    ops.fused_sgd(made[0], made[1], made[2] if momentum else None, one(4), *numbers)
    for place, expected in enumerate(wanted):
        for column, exact in zip(made, expected):
            if exact is not None:
                check(column[place], exact, 2)


# ------------------------------------------------------------------------------------------------- language models


def test_advance_step() -> None:
    tokens, positions = np.full(5, 7), np.full(5, 7)
    lengths, slots = np.array([4, 9, 16, 3, 3]), np.full(5, 7)
    sampled, tables = np.array([[11], [12], [13]]), np.arange(100, 120).reshape(5, 4)
    ops.advance_step(tokens, sampled, positions, lengths, slots, tables, 5, 3, 8)
    np.testing.assert_array_equal(tokens, [11, 12, 13, 0, 0])
    np.testing.assert_array_equal(positions, [4, 9, 16, 0, 0])
    np.testing.assert_array_equal(lengths, [5, 10, 17, 3, 3])
    np.testing.assert_array_equal(slots, [100 * 8 + 4, (101 + 4) * 8 + 1, (102 + 8) * 8, -1, -1])
    with pytest.raises(AclError, match="block_tables element"):
        ops.advance_step(tokens, sampled, positions, np.full(5, 160), slots, tables, 5, 3, 8)


def test_advance_step_with_guesses() -> None:
    tokens, slots = np.zeros(6, np.int64), np.zeros(6, np.int64)
    positions, lengths = np.array([3, 4, 5, 8, 9, 10]), np.zeros(6, np.int64)
    sampled, spec, accepted = np.array([[5, -1, -1], [6, 7, 8]]), np.array([[1, 2], [3, 4]]), np.array([0, 2])
    tables = np.array([[10, 11], [20, 21]])
    ops.advance_step_v2(tokens, sampled, positions, lengths, slots, tables, spec, accepted, 2, 1, 8)
    np.testing.assert_array_equal(tokens, [5, 1, 2, 8, 3, 4])
    np.testing.assert_array_equal(positions, [4, 5, 6, 11, 12, 13])
    np.testing.assert_array_equal(lengths, [5, 6, 7, 12, 13, 14])
    np.testing.assert_array_equal(slots, [84, 85, 86, 21 * 8 + 3, 21 * 8 + 4, 21 * 8 + 5])
