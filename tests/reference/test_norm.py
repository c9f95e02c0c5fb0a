"""RmsNorm and its gradient against float64 and torch's autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference_tools import BF16, F16, F32, FLOATS, close, floats, run, same
from row_tools import in_one_test

from ascend_aclnn import ops
from ascend_aclnn.reference.norm import rms as norm

SHAPES = [  # x, gamma
    ((1, 1), (1,)),
    ((3,), (3,)),
    ((5, 8), (8,)),
    ((2, 3, 7), (7,)),
    ((2, 3, 7), (3, 7)),
    ((40, 33), (33,)),
    ((4, 1, 5, 6), (5, 6)),
]
TYPES = [(F32, F32), (F16, F16), (F16, F32), (BF16, BF16), (BF16, F32)]


@pytest.fixture(params=[None, 1, 3], ids=["usual blocks", "1-row blocks", "3-row blocks"], autouse=True)
def blocks(request: Any, monkeypatch: Any) -> None:
    if request.param:
        monkeypatch.setattr(norm, "rows_per_block", lambda width, elements=0: request.param)


def sizes(x_shape: Any, gamma_shape: Any) -> Any:
    lead = x_shape[: len(x_shape) - len(gamma_shape)]
    return lead + (1,) * len(gamma_shape), int(np.prod(gamma_shape)), tuple(range(len(lead), len(x_shape)))


@pytest.mark.parametrize(("dtype", "gamma_dtype"), TYPES, ids=str)
@in_one_test("x_shape,gamma_shape", SHAPES)
@in_one_test("strided", [False, True])
def test_forward(dtype: Any, gamma_dtype: Any, x_shape: Any, gamma_shape: Any, strided: Any) -> None:
    rng = np.random.default_rng(0)
    rstd_shape, width, axes = sizes(x_shape, gamma_shape)
    x, gamma = floats(rng, x_shape, dtype), floats(rng, gamma_shape, gamma_dtype)
    y, rstd = run(norm.rms_norm, x, gamma, 1e-3, out=[(x_shape, dtype), (rstd_shape, F32)], strided=strided)
    wide = x.astype(np.float64)
    expected = 1 / np.sqrt((wide**2).mean(axes, keepdims=True) + 1e-3)
    close(rstd, expected, width)
    close(y, wide * expected * gamma.astype(np.float64), width)


@pytest.mark.parametrize(("dtype", "gamma_dtype"), TYPES, ids=str)
@in_one_test("x_shape,gamma_shape", SHAPES)
@in_one_test("strided", [False, True])
def test_gradient(dtype: Any, gamma_dtype: Any, x_shape: Any, gamma_shape: Any, strided: Any) -> None:
    rng = np.random.default_rng(1)
    rstd_shape, width, axes = sizes(x_shape, gamma_shape)
    rows = int(np.prod(rstd_shape))
    dy, x, gamma = floats(rng, x_shape, dtype), floats(rng, x_shape, dtype), floats(rng, gamma_shape, gamma_dtype)
    rstd = floats(rng, rstd_shape, F32)  # any number, it is not recomputed
    out = [(x_shape, dtype), (gamma_shape, F32)]
    dx, dgamma = run(norm.rms_norm_grad, dy, x, rstd, gamma, out=out, strided=strided)

    xh, t, wide = x.astype(np.float64) * rstd, dy.astype(np.float64) * gamma.astype(np.float64), rstd.astype(np.float64)
    mean, mean_scale = (t * xh).mean(axes, keepdims=True), np.abs(t * xh).mean(axes, keepdims=True)
    close(dx, (t - xh * mean) * wide, width, (np.abs(t) + np.abs(xh) * mean_scale) * np.abs(wide))
    terms = (dy.astype(np.float64) * xh).reshape(rows, *gamma_shape)
    close(dgamma, terms.sum(0), rows, np.abs(terms).sum(0))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradient_agrees_with_torchs_derivative(dtype: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch is absent: gradients are not compared with its autograd")
    rng = np.random.default_rng(2)
    dy, x, gamma = floats(rng, (9, 64), dtype), floats(rng, (9, 64), dtype), floats(rng, (64,), dtype)
    y, rstd = run(norm.rms_norm, x, gamma, 1e-6, out=[((9, 64), dtype), ((9, 1), F32)])
    dx, dgamma = run(norm.rms_norm_grad, dy, x, rstd, gamma, out=[((9, 64), dtype), ((64,), F32)])
    a, g = (torch.tensor(value.astype(np.float64), requires_grad=True) for value in (x, gamma))
    b = a * torch.rsqrt((a * a).mean(-1, keepdim=True) + 1e-6) * g
    b.backward(torch.tensor(dy.astype(np.float64)))
    close(y, b.detach().numpy(), 64)
    close(dx, a.grad.numpy(), 64, np.full(dx.shape, 8.0))
    close(dgamma, g.grad.numpy(), 9, np.full(64, 16.0))


def test_gradient_without_rows() -> None:
    _, dgamma = run(
        norm.rms_norm_grad, *(np.ones(s, F32) for s in [(0, 4), (0, 4), (0, 1), (4,)]), out=[((0, 4), F32), ((4,), F32)]
    )
    same(dgamma, np.zeros(4, np.float32))
    run(norm.rms_norm, np.ones((0, 4), F32), np.ones(4, F32), 1e-6, out=[((0, 4), F32), ((0, 1), F32)])


@pytest.mark.parametrize("threads", ["1", "2"])
def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: Any, threads: Any) -> None:
    monkeypatch.setenv("ASCEND_ACLNN_THREADS", threads)
    rng = np.random.default_rng(3)
    dy, x, gamma, rstd = (floats(rng, s, F32) for s in [(200, 24), (200, 24), (24,), (200, 1)])
    out = [((200, 24), F32), ((24,), F32)]
    first = run(norm.rms_norm_grad, dy, x, rstd, gamma, out=out)
    monkeypatch.setenv("ASCEND_ACLNN_THREADS", "1")
    for a, b in zip(first, run(norm.rms_norm_grad, dy, x, rstd, gamma, out=out)):
        same(a, b)


def test_infinities_and_nan_go_through_quietly() -> None:
    x = np.array([[np.inf, 1], [np.nan, 1], [1, 1]], np.float32)
    y, rstd = ops.rms_norm(x, np.ones(2, F32), 0.0)  # not the reference alone: what runs it turns warnings off
    same(rstd, np.array([[0], [np.nan], [1]], np.float32))
    same(y, np.array([[np.nan, 0], [np.nan, np.nan], [1, 1]], np.float32))
    dx, _ = ops.rms_norm_grad(x, x, rstd, np.ones(2, F32))
    assert np.isnan(dx[:2]).all()
    y, _ = ops.rms_norm(np.zeros((1, 2), F32), np.ones(2, F32), 0.0)
    assert np.isnan(y).all()  # 0 * infinity, as the formula has it
