"""aclnn.torch_function on NPU tensors: values, gradients, graphs and shapes."""

from __future__ import annotations

from typing import Any

import torch
from comparing import numbers
from torch._subclasses import FakeTensorMode

import ascend_aclnn as aclnn

rms_norm, mm = aclnn.torch_function("aclnnRmsNorm"), aclnn.torch_function("aclnnMm")


def layer(x: Any, gamma: Any, weight: Any) -> Any:
    return mm(rms_norm(x, gamma).y, weight)


def arguments(device: str) -> list[Any]:
    shapes = ((4, 8), (8,), (8, 3))
    return [numbers(*shape, seed=i).to(device).requires_grad_() for i, shape in enumerate(shapes)]


def test_values_and_gradients_are_those_of_torch_on_the_cpu() -> None:
    x, gamma, weight = there = arguments("npu")
    y = layer(*there)
    assert y.device.type == "npu"
    gradients = torch.autograd.grad(y.square().sum(), there)
    x, gamma, weight = here = arguments("cpu")
    expected = torch.nn.functional.rms_norm(x, (8,), gamma, 1e-6) @ weight
    torch.testing.assert_close(y.cpu(), expected, rtol=1e-3, atol=1e-4)
    for actual, wanted in zip(gradients, torch.autograd.grad(expected.square().sum(), here)):
        torch.testing.assert_close(actual.cpu(), wanted, rtol=1e-3, atol=1e-3)


def test_one_graph_with_its_backward() -> None:
    there = arguments("npu")
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(*there), layer(*there))
    actual = torch.autograd.grad(compiled(*there).sum(), there)
    assert all(torch.equal(a, b) for a, b in zip(actual, torch.autograd.grad(layer(*there).sum(), there)))


def test_fake_tensors_of_the_npu() -> None:
    with FakeTensorMode():
        y = layer(*(torch.empty(shape, device="npu") for shape in ((4096, 7168), (7168,), (7168, 128))))
    assert y.shape == (4096, 128) and y.device.type == "npu"


def test_in_place() -> None:
    x = numbers(3, 4).npu()
    twice = (x * 2).cpu()
    assert aclnn.torch_function("aclnnInplaceAdd")(x, x.clone()) is x
    torch.testing.assert_close(x.cpu(), twice)
