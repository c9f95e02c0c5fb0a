"""Mixed streams against torch, with its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from comparisons import assert_near

from ascend_aclnn import catalog
from ascend_aclnn.reference import find

torch = pytest.importorskip("torch", reason="torch is not installed: mixed streams are not checked")

LEAD, N, D = (2, 3), 4, 6
EPS, LEAST = 1e-5, 1e-6  # the documents' gradients hold for a small one


def numbers(*shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(np.float32)


def function(name: str) -> Any:
    found = find(catalog.get(name))
    assert found is not None
    return found.function


def leaf(x: Any) -> Any:
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


X = numbers(*LEAD, N, D)
PHI, BIAS = numbers(N * N + 2 * N, N * D, scale=0.3), numbers(N * N + 2 * N, seed=1)
ALPHA, GAMMA = np.array([0.5, 0.7, 0.9], np.float32), numbers(N, D, seed=2) + 1


@pytest.mark.parametrize("mixed", [False, True])
def test_after_the_layer(mixed: bool) -> None:
    given = [X, numbers(*LEAD, N, N), numbers(*LEAD, D), numbers(*LEAD, N)]
    x, mixing, made, gate = map(leaf, given)
    streams = mixing.swapaxes(-1, -2) @ x if mixed else x
    result = streams + made[..., None, :] * gate[..., None]
    if not mixed:
        given[1] = None
    assert_near(function("aclnnMhcPost")(*given), result, 2e-4)
    grad = numbers(*LEAD, N, D, seed=5)
    result.backward(torch.tensor(grad, dtype=torch.float64))
    found = function("aclnnMhcPostBackward")(grad, *given)
    assert_near(found[0], x.grad, 2e-4)
    assert_near(found[2], made.grad, 2e-4)
    assert_near(found[3], gate.grad, 2e-4)
    if mixed:
        assert_near(found[1], mixing.grad, 2e-4)


def gates(leaves: Any, gamma: Any) -> tuple[Any, Any, Any]:
    x, phi, alpha, bias = leaves
    flat = x.reshape(*LEAD, N * D)
    inverse = (flat.square().mean(-1, keepdim=True) + EPS).rsqrt()
    scaled = (flat if gamma is None else flat * gamma.reshape(-1)) @ phi.T * inverse
    before = (scaled[..., :N] * alpha[0] + bias[:N]).sigmoid() + LEAST
    after = 2 * (scaled[..., N : 2 * N] * alpha[1] + bias[N : 2 * N]).sigmoid()
    mixing = (scaled[..., 2 * N :] * alpha[2] + bias[2 * N :]).reshape(*LEAD, N, N)
    return (x * before[..., None]).sum(-2), after, mixing


@pytest.mark.parametrize("with_gamma", [False, True])
def test_before_the_layer(with_gamma: bool) -> None:
    gamma = GAMMA if with_gamma else None
    leaves = [leaf(v) for v in (X, PHI, ALPHA, BIAS)]
    weight = leaf(GAMMA) if with_gamma else None
    expected = gates(leaves, weight)
    found = function("aclnnMhcPre")(X, PHI, ALPHA, BIAS, gamma, EPS, LEAST)
    for actual, wanted in zip(found, expected):
        assert_near(actual, wanted, 2e-4)
    grads = [numbers(*e.shape, seed=7) for e in expected]
    torch.autograd.backward(expected, [torch.tensor(g, dtype=torch.float64) for g in grads])
    _, after, _, inverse, products, before = found
    more = numbers(*X.shape, seed=8)
    back = function("aclnnMhcPreBackward")(X, PHI, ALPHA, *grads, inverse, products, before, after, gamma, more, LEAST)
    assert_near(back[0], leaves[0].grad.numpy() + more, 2e-4)
    for actual, wanted in zip(back[1:4], leaves[1:]):
        assert_near(actual, wanted.grad, 2e-4)
    if weight is not None:
        assert_near(back[4], weight.grad, 2e-4)


def test_streams_that_are_not_mixed() -> None:
    found = function("aclnnMhcPreV2")(X, PHI[: 2 * N], ALPHA[:2], BIAS[: 2 * N], None, EPS, LEAST, 0)
    whole = function("aclnnMhcPre")(X, PHI, ALPHA, BIAS, None, EPS, LEAST)
    assert_near(found[0], whole[0], 2e-4)
    assert_near(found[1], whole[1] + LEAST, 2e-4)
    assert found[2] is None


def sinkhorn(x: Any, iterations: int, eps: float) -> Any:
    made = x.softmax(-1) + eps
    made = made / (made.sum(-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        made = made / (made.sum(-1, keepdim=True) + eps)
        made = made / (made.sum(-2, keepdim=True) + eps)
    return made


def test_doubly_stochastic() -> None:
    x = leaf(numbers(5, N, N))
    expected = sinkhorn(x, 3, EPS)
    found, norms, sums = function("aclnnMhcSinkhorn")(x.detach().numpy().astype(np.float32), EPS, 3)
    assert_near(found, expected, 2e-4)
    assert (norms.shape, sums.shape) == ((6 * 5 * N * 8,), (6 * 5 * 8,))
    grad = numbers(5, N, N, seed=3)
    expected.backward(torch.tensor(grad, dtype=torch.float64))
    assert_near(function("aclnnMhcSinkhornBackward")(grad, norms, sums), x.grad, 2e-4)


def test_both_together() -> None:
    leaves = [leaf(v) for v in (X, PHI, ALPHA, BIAS)]
    taken, after, mixing = gates(leaves, None)
    expected = (taken, after, sinkhorn(mixing, 20, LEAST).reshape(*LEAD, N * N))
    found = function("aclnnMhcPreSinkhorn")(X, PHI, ALPHA, BIAS, N, 20, LEAST, EPS, True)
    for actual, wanted in zip(found, expected):
        assert_near(actual, wanted, 2e-4)
    grads = [numbers(*e.shape, seed=7) for e in expected]
    torch.autograd.backward(expected, [torch.tensor(g, dtype=torch.float64) for g in grads])
    before, products, inverse, sums, norms = found[3:]
    back = function("aclnnMhcPreSinkhornBackward")(
        *grads, X, PHI, ALPHA, BIAS, before, products, inverse, sums, norms, LEAST
    )
    for actual, leaf_ in zip(back, leaves):
        assert_near(actual, leaf_.grad, 2e-4)
    nothing = function("aclnnMhcPreSinkhorn")(X, PHI, ALPHA, BIAS, N, 20, LEAST, EPS, False)
    assert all(x.size == 0 for x in nothing[3:])
