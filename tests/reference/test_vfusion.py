"""References of the vector fusions against torch: modulation, masked softmax, attention to sampled places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_aclnn import catalog, ops, reference

torch = pytest.importorskip("torch", reason="torch is the oracle of the vector fusions; without it they are not tested")
from torch_tools import FLOATS, check, tensor  # noqa: E402 (it imports torch)

F = torch.nn.functional


def some(shape: Any, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng([seed, *shape]).uniform(-2, 2, shape).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_modulate(dtype: Any) -> None:
    x, scale, shift = some((2, 5, 8), 0, dtype), some((2, 8), 1, dtype), some((2, 1, 8), 2, dtype)
    wide = [a.astype(np.float64) for a in (x, scale, shift)]
    check(ops.modulate(x, scale, shift), wide[0] * (1 + wide[1][:, None]) + wide[2])


def test_modulate_backward() -> None:
    """Its scale is that of y = x * scale + shift."""
    grad, x, scale, shift = some((2, 5, 8)), some((2, 5, 8), 1), some((2, 8), 2), some((2, 8), 3)
    leaves = [tensor(a).requires_grad_() for a in (x, scale, shift)]
    (leaves[0] * leaves[1][:, None] + leaves[2][:, None]).backward(tensor(grad))
    for made, leaf in zip(ops.modulate_backward(grad, x, scale, shift), leaves):
        check(made, leaf.grad.numpy(), 2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_scaled_masked_softmax(dtype: Any) -> None:
    x = some((2, 3, 32, 32), 0, dtype)
    mask = np.random.default_rng(1).random((2, 1, 32, 32)) < 0.3
    mask[0, 0, 5] = True  # a row without anything left
    leaf = tensor(x).requires_grad_()
    wanted = torch.softmax((leaf * 0.5).masked_fill(torch.from_numpy(mask), -10000.0), -1)
    y = ops.scaled_masked_softmax(x, mask, 0.5, False)
    check(y, wanted.detach().numpy())
    np.testing.assert_allclose(y[0, 0, 5].astype(np.float32), 1 / 32)
    grad = some(x.shape, 2, dtype)
    wanted.backward(tensor(grad))
    found = reference.find(catalog.get("aclnnScaledMaskedSoftmaxBackward"))
    assert found is not None
    exact = wanted.detach().numpy().astype(np.float32)
    made = found.function(grad.astype(np.float32), exact, mask, 0.5, False)
    check(made, leaf.grad.numpy(), 2)


def sampled(value: Any, shapes: Any, location: Any, weight: Any) -> Any:
    """The sum by torch's own sampling of each level's map."""
    batch, _, heads, channels = value.shape
    total: Any = 0
    start = 0
    for level, (height, width) in enumerate(shapes.tolist()):
        part = value[:, start : start + height * width].permute(0, 2, 3, 1)
        start += height * width
        grid = 2 * location[:, :, :, level].transpose(1, 2) - 1
        made = F.grid_sample(
            part.reshape(batch * heads, channels, height, width), grid.flatten(0, 1), align_corners=False
        )
        made = made.reshape(batch, heads, channels, *made.shape[-2:])
        total = total + torch.einsum("bhcqp,bqhp->bqhc", made, weight[:, :, :, level])
    return total.flatten(2)


def test_deformable_attention() -> None:
    shapes, starts = np.array([[6, 4], [3, 5]], np.int32), np.array([0, 24], np.int32)
    rng = np.random.default_rng(3)
    value, weight, grad = some((2, 39, 2, 8)), some((2, 32, 2, 2, 4), 1), some((2, 32, 16), 2)
    location = rng.uniform(-0.2, 1.2, (2, 32, 2, 2, 4, 2)).astype(np.float32)  # some places lie outside
    leaves = [tensor(a).requires_grad_() for a in (value, location, weight)]
    wanted = sampled(leaves[0], shapes, leaves[1], leaves[2])
    check(
        ops.multi_scale_deformable_attn_function(value, shapes, starts, location, weight), wanted.detach().numpy(), 10
    )
    wanted.backward(tensor(grad))
    actual = ops.multi_scale_deformable_attention_grad(value, shapes, starts, location, weight, grad)
    for result, leaf in zip(actual, leaves):
        check(result, leaf.grad.numpy(), 100)
