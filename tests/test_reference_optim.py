"""References of optimizers through the public functions, against torch's own optimizers and plain formulas."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as acl
from ascend_aclnn import AclError, catalog, ops, reference

torch = pytest.importorskip("torch", reason="torch's optimizers are the oracle; without them AdamW and SGD are not tested")
from torch_tools import FLOATS, check, tensor  # noqa: E402 (it imports torch)

ASCEND_950 = "Ascend950PR_9599"
RATES = {"lr": 0.1, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0.02, "eps": 1e-6}


def some(shape: Any, seed: int, dtype: Any = np.float32, low: float = -2.0) -> Any:
    return np.random.default_rng(seed).uniform(low, 2, shape).astype(dtype)


def torch_adamw(params: list[Any], grads: list[list[Any]], amsgrad: bool, maximize: bool) -> tuple[list[Any], Any]:
    """Parameters after steps with these gradients, and the optimizer's state."""
    leaves = [torch.nn.Parameter(tensor(p)) for p in params]
    betas = (RATES["beta1"], RATES["beta2"])
    made = torch.optim.AdamW(
        leaves, RATES["lr"], betas, RATES["eps"], RATES["weight_decay"], amsgrad, maximize=maximize
    )
    for step in grads:
        for leaf, grad in zip(leaves, step):
            leaf.grad = tensor(grad)
        made.step()
    return [leaf.detach().numpy() for leaf in leaves], [made.state[leaf] for leaf in leaves]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_adamw(dtype: Any, amsgrad: bool, maximize: bool) -> None:
    grads = [some((3, 5), i, dtype) for i in range(1 if dtype != np.float32 else 4)]
    var, m, v, most = some((3, 5), 9, dtype), *(np.zeros((3, 5), dtype) for _ in range(3))
    wanted, state = torch_adamw([var], [[g] for g in grads], amsgrad, maximize)
    for t, grad in enumerate(grads):
        step = np.array([t], np.float32)  # steps made so far
        ops.apply_adam_wv2(var, m, v, most if amsgrad else None, grad, step, *RATES.values(), amsgrad, maximize)
    check(var, wanted[0], 4)
    check(m, state[0]["exp_avg"].numpy(), 4)
    check(v, state[0]["exp_avg_sq"].numpy(), 4)
    if amsgrad:
        check(most, state[0]["max_exp_avg_sq"].numpy(), 4)


@pytest.mark.parametrize("scaled", [False, True])
def test_fused_adamw(scaled: bool) -> None:
    params, grads = [some((3,), 1), some((2, 4), 2)], [some((3,), 3), some((2, 4), 4)]
    wanted, state = torch_adamw(params, [grads], False, False)
    m, v = ([np.zeros_like(p) for p in params] for _ in range(2))
    steps = [np.zeros(1, np.float32) for _ in params]
    scale = np.array([8], np.float32) if scaled else None
    given = [g * np.float32(8) for g in grads] if scaled else grads
    rates = tuple(RATES.values())
    with acl.use_backend("numpy", soc=ASCEND_950):
        ops.fused_adamw(params, given, m, v, None, steps, scale, None, *rates, False, False)
        for made, expected in zip(params, wanted):
            check(made, expected, 4)
        for made, kept in zip(m, state):
            check(made, kept["exp_avg"].numpy(), 4)
        before = [p.copy() for p in params]
        found = np.ones(1, np.float32)
        ops.fused_adamw(params, given, m, v, None, steps, scale, found, *rates, False, False)
    for made, old in zip(params, before):
        np.testing.assert_array_equal(made, old)


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
@pytest.mark.parametrize("maximize", [False, True])
def test_fused_sgd(momentum: float, nesterov: bool, maximize: bool) -> None:
    params, grads = [some((3,), 1), some((2, 4), 2)], [[some((3,), 3 + i), some((2, 4), 8 + i)] for i in range(3)]
    leaves = [torch.nn.Parameter(tensor(p)) for p in params]
    wanted = torch.optim.SGD(leaves, 0.1, momentum, 0.0, 0.02, nesterov, maximize=maximize)
    buffers = [np.zeros_like(p) for p in params] if momentum else None
    with acl.use_backend("numpy", soc=ASCEND_950):
        for i, step in enumerate(grads):
            for leaf, grad in zip(leaves, step):
                leaf.grad = tensor(grad)
            wanted.step()
            ops.fused_sgd(params, step, buffers, None, 0.02, momentum, 0.1, 0.0, nesterov, maximize, i == 0)
    for made, leaf in zip(params, leaves):
        check(made, leaf.detach().numpy(), 4)


def test_fused_sgd_stores_gradients_over_their_scale() -> None:
    param, grad = some((4,), 1), some((4,), 2)
    wanted = grad / 4
    with acl.use_backend("numpy", soc=ASCEND_950):
        ops.fused_sgd([param], [grad], None, np.array([4], np.float32), 0.0, 0.0, 0.1, 0.0, False, False, True)
    np.testing.assert_array_equal(grad, wanted)


def direct(name: str, *values: Any) -> Any:
    found = reference.find(catalog.get(f"aclnn{name}"))
    assert found is not None
    return found.function(*values)


def test_adam_with_powers_of_the_betas() -> None:
    """ApplyAdamW takes the powers before the step, ApplyAdam those of the step."""
    var, grads = some((5,), 1), [some((5,), 2), some((5,), 3)]
    wanted, state = torch_adamw([var], [[g] for g in grads], False, False)
    one = [np.array([value], np.float32) for value in RATES.values()]
    lr, beta1, beta2, decay, eps = one
    m = v = np.zeros(5, np.float32)
    powers = [np.ones(1, np.float32), np.ones(1, np.float32)]
    for grad in grads:
        var, m, v = direct("ApplyAdamW", var, m, v, *powers, lr, decay, beta1, beta2, eps, grad, None, False, False)
        powers = [powers[0] * beta1, powers[1] * beta2]
    check(var, wanted[0], 10)
    check(v, state[0]["exp_avg_sq"].numpy(), 10)

    start, zero = some((5,), 4), np.zeros(5, np.float32)
    leaf = torch.nn.Parameter(tensor(start))
    adam = torch.optim.Adam([leaf], 0.1, (0.9, 0.95), 0)
    leaf.grad = tensor(grads[0])
    adam.step()
    tiny = np.array([1e-30], np.float32)
    made = direct("ApplyAdam", start, zero, zero, beta1, beta2, lr, beta1, beta2, tiny, grads[0], False, False)
    check(made, leaf.detach().numpy(), 10)


@pytest.mark.parametrize("mode", [0, 1])
def test_adam_with_moving_average(mode: int) -> None:
    grad, var, ema = some((7,), 1), some((7,), 2), some((7,), 3)
    m, v = np.zeros(7, np.float32), np.zeros(7, np.float32)
    leaf = torch.nn.Parameter(tensor(var))
    kind = torch.optim.AdamW if mode else torch.optim.Adam
    wanted = kind([leaf], 0.1, (0.9, 0.95), 1e-6, 0.02)
    leaf.grad = tensor(grad)
    wanted.step()
    old = ema.astype(np.float64)
    step = np.array([1], np.int64)
    ops.apply_fused_ema_adam(grad, var, m, v, ema, step, 0.1, 0.99, 0.9, 0.95, 1e-6, mode, True, 0.02)
    check(var, leaf.detach().numpy(), 4)
    check(ema, 0.99 * old + 0.01 * leaf.detach().numpy(), 4)


def test_adamw_with_quantised_state() -> None:
    """With a table that holds every state exactly the step is AdamW's."""
    rng = np.random.default_rng(1)
    table = np.linspace(-1, 1, 256, dtype=np.float32)
    var, grad = some((600,), 1), some((600,), 2)
    m, v = rng.integers(0, 256, 600, np.uint8), rng.integers(128, 256, 600, np.uint8)
    most = [np.array([0.5, 1.0, 2.0], np.float32), np.array([1.0, 0.25, 3.0], np.float32)]
    spread = np.repeat(np.arange(3), 256)[:600]
    first, second = table[m] * most[0][spread], np.abs(table[v]) * most[1][spread]
    t, beta1, beta2, lr, eps = 5, 0.9, 0.95, 0.1, 1e-6
    first = first.astype(np.float64) * beta1 + grad * (1 - beta1)
    second = second.astype(np.float64) * beta2 + grad.astype(np.float64) ** 2 * (1 - beta2)
    wanted = var - lr * first / (1 - beta1**t) / (np.sqrt(second / (1 - beta2**t)) + eps)
    wanted *= 1 - lr * 0.02
    made = direct(
        "ApplyAdamWQuant", var, grad, m, v, table, np.abs(table), *most, np.array([t]), lr, beta1, beta2, 0.02, eps, 1.0,
        "BLOCKWISE", 256,
    )
    check(made[0].astype(np.float32), wanted, 20)
    blocks = [slice(0, 256), slice(256, 512), slice(512, 600)]
    for i, part in enumerate(blocks):
        check(made[3][i : i + 1].astype(np.float32), np.abs(first[part]).max(keepdims=True), 4)
    restored = table[made[1]] * made[3][spread]
    assert np.abs(restored - first).max() <= 2 / 255 * made[3].max()


def test_keras_momentum() -> None:
    var, accum, grad = some((5,), 1), some((5,), 2), some((5,), 3)
    lr, momentum = np.array([0.1], np.float32), np.array([0.9], np.float32)
    held = accum * 0.9 - grad * 0.1
    check(direct("ApplyKerasMomentum", var, accum, lr, grad, momentum, False, False), var + held, 4)
    check(direct("ApplyKerasMomentum", var, accum, lr, grad, momentum, False, True), var + held * 0.9 - grad * 0.1, 4)


def test_low_precision_state_is_rounded_once() -> None:
    bf16 = ml_dtypes.bfloat16
    m = np.array([1.0], bf16)
    ops.apply_adam_wv2(
        np.array([1.0], bf16), m, np.array([1.0], bf16), None, np.array([2.0], bf16), np.array([0], np.float32),
        *RATES.values(), False, False,
    )
    assert m[0] == bf16(np.float32(1 * 0.9 + 2 * (1 - 0.9)))


def test_decoding_advances() -> None:
    ints = np.int64
    tokens, positions, slots = np.full(4, 7, ints), np.full(4, 7, ints), np.full(4, 7, ints)
    lengths = np.array([3, 8, 5, 5], ints)
    tables = np.array([[10, 11, 12], [20, 21, 22], [30, 31, 32], [40, 41, 42]], ints)
    ops.advance_step(tokens, np.array([[1], [2]], ints), positions, lengths, slots, tables, 4, 2, 4)
    np.testing.assert_array_equal(tokens, [1, 2, 0, 0])
    np.testing.assert_array_equal(positions, [3, 8, 0, 0])
    np.testing.assert_array_equal(lengths, [4, 9, 5, 5])
    np.testing.assert_array_equal(slots, [10 * 4 + 3, (12 + 3) * 4, -1, -1])
    with pytest.raises(AclError, match="seq_lens"):
        ops.advance_step(tokens, np.zeros((2, 1), ints), positions, lengths + 1000, slots, tables, 4, 2, 4)


def test_decoding_advances_with_speculation() -> None:
    ints = np.int64
    tables = np.array([[10, 11, 12], [20, 21, 22]], ints)
    sampled = np.array([[5, 6, -1], [7, -1, -1]], ints)
    positions = np.array([3, 4, 5, 1, 2, 3], ints)
    made = direct(
        "AdvanceStepV2", np.zeros(6, ints), sampled, positions, positions + 1, np.zeros(6, ints), tables,
        np.array([[1, 2], [3, 4]], ints), np.array([1, 0], ints), 2, 2, 4,
    )
    tokens, at, lengths, slots = made
    np.testing.assert_array_equal(tokens, [6, 1, 2, 7, 3, 4])
    np.testing.assert_array_equal(at, [5, 6, 7, 2, 3, 4])
    np.testing.assert_array_equal(lengths, at + 1)
    np.testing.assert_array_equal(slots, [11 * 4 + 1, 11 * 4 + 2, 11 * 4 + 3, 20 * 4 + 2, 20 * 4 + 3, 21 * 4])
