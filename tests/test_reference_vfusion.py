"""References of ops-nn/vfusion through the public functions, against torch in float64 and torch's own gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_aclnn import ops

torch = pytest.importorskip(
    "torch", reason="torch is the oracle of the fused operators; without it they are not tested"
)
from torch_tools import FLOATS, check, oracle, tensor  # noqa: E402 (it imports torch)

F = torch.nn.functional


def normal(*shape: int, dtype: Any = np.float32, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def gradients(function: Any, grad: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
    tensors = [tensor(value).requires_grad_() for value in values]
    function(*tensors).backward(tensor(grad))
    return [np.asarray(t.grad.numpy()) for t in tensors]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("middle", [(), (1,)])
def test_modulate(middle: Any, dtype: Any) -> None:
    x, scale, shift = (
        normal(3, 5, 8, dtype=dtype),
        normal(3, *middle, 8, dtype=dtype),
        normal(3, *middle, 8, dtype=dtype),
    )
    wide = [tensor(a).reshape(3, 1, 8) for a in (scale, shift)]
    check(ops.modulate(x, scale, shift), oracle(lambda a: a * (1 + wide[0]) + wide[1], x), 2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_modulate_backward(dtype: Any) -> None:
    grad, x, scale, shift = (normal(*s, dtype=dtype, seed=i) for i, s in enumerate([(3, 5, 8)] * 2 + [(3, 8)] * 2))
    wanted = gradients(lambda a, b, c: a * b[:, None] + c[:, None], grad, x, scale, shift)
    for actual, expected in zip(ops.modulate_backward(grad, x, scale, shift), wanted):
        check(actual, expected, 2)
    np.testing.assert_array_equal(ops.modulate_backward(grad, x).grad_input, grad)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("lead", [(2, 3), (1, 3), (1, 1)])
def test_scaled_masked_softmax(lead: Any, dtype: Any) -> None:
    x, grad = normal(2, 3, 4, 33, dtype=dtype), normal(2, 3, 4, 33, dtype=dtype, seed=4)
    mask = np.random.default_rng(5).random((*lead, 4, 33)) < 0.3
    mask[:, :, 0] = True

    def masked(a: Any) -> Any:
        return torch.softmax((a * 0.5).masked_fill(tensor(mask), -10000), -1)

    y = ops.scaled_masked_softmax(x, mask, 0.5, False)
    check(y, oracle(masked, x), 2)
    exact = oracle(masked, x).astype(dtype)
    backward = ops.scaled_masked_softmax_backward(grad, exact, mask, 0.5, False)
    check(backward, gradients(masked, grad, x)[0], 4)


def attention(value: Any, shapes: Any, location: Any, weights: Any) -> Any:
    """Deformable attention by grid_sample, level for level."""
    batches, _, heads, channels = value.shape
    queries, points = location.shape[1], location.shape[4]
    whole, start = 0, 0
    for level, (height, width) in enumerate(shapes.tolist()):
        plane = value[:, start : start + height * width].permute(0, 2, 3, 1).reshape(-1, channels, height, width)
        grid = (2 * location[:, :, :, level] - 1).transpose(1, 2).reshape(-1, queries, points, 2)
        samples = F.grid_sample(plane, grid, align_corners=False).reshape(batches, heads, channels, queries, points)
        whole = whole + (samples * weights[:, :, :, level].transpose(1, 2)[:, :, None]).sum(-1)
        start += height * width
    return whole.permute(0, 3, 1, 2).reshape(batches, queries, -1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_deformable_attention(dtype: Any) -> None:
    shapes = np.array([[5, 7], [3, 4]])
    starts = np.array([0, 35])
    rng = np.random.default_rng(6)
    value = normal(2, 47, 3, 8, dtype=dtype)
    location = rng.uniform(-0.2, 1.2, (2, 32, 3, 2, 4, 2)).astype(dtype)  # some of it outside
    weights = rng.random((2, 32, 3, 2, 4)).astype(dtype)
    grad = normal(2, 32, 24, dtype=dtype, seed=4)
    result = ops.multi_scale_deformable_attn_function(value, shapes, starts, location, weights)
    check(result, oracle(lambda a, b, c: attention(a, shapes, b, c), value, location, weights), 4)
    made = ops.multi_scale_deformable_attention_grad(value, shapes, starts, location, weights, grad)
    wanted = gradients(lambda a, b, c: attention(a, shapes, b, c), grad, value, location, weights)
    for actual, expected in zip(made, wanted):
        check(actual, expected, 40 if dtype == np.float32 else 2)
