"""torch_npu's own functions, against the same formula in CPU torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from comparing import assert_same, integers, numbers

Function = Callable[..., Any]


def compare(ours: Function, theirs: Function, *inputs: torch.Tensor, gradients: bool = True) -> None:
    """Results and gradients (for a fixed gradient of the first result) of two functions, one for each device."""
    results = []
    for device, function in (("cpu", theirs), ("npu", ours)):
        held = [t.detach().to(device) for t in inputs]
        leaves = [t.requires_grad_() for t in held if gradients and t.is_floating_point()]
        output = function(*held)
        first = output[0] if isinstance(output, tuple) else output
        grads: tuple[Any, ...] = ()
        if leaves:
            weight = torch.linspace(-1, 1, first.numel()).reshape(first.shape).to(first.dtype).to(device)
            grads = torch.autograd.grad(first, leaves, weight)
        results.append((output, grads))
    (wanted, wanted_grads), (found, found_grads) = results
    assert_same(found, wanted)
    assert_same(found_grads, wanted_grads, "gradient")


def rms_norm(x: torch.Tensor, gamma: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    wide = x.float()
    rstd = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * rstd * gamma.float()).to(x.dtype), rstd


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_npu_rms_norm(dtype: torch.dtype) -> None:
    compare(
        lambda x, g: torch_npu.npu_rms_norm(x, g, 1e-6),
        rms_norm,
        numbers(4, 6, 16).to(dtype),
        numbers(16, seed=1).to(dtype),
    )


def permute(tokens: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    flat = indices.flatten()
    order = torch.sort(flat, stable=True).indices
    return tokens[order // indices.shape[1]], torch.argsort(order).int()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_npu_moe_token_permute(dtype: torch.dtype) -> None:
    compare(torch_npu.npu_moe_token_permute, permute, numbers(6, 32).to(dtype), integers(6, 2, low=0, high=4).int())


def unpermute(tokens: torch.Tensor, positions: torch.Tensor, probabilities: torch.Tensor) -> torch.Tensor:
    gathered = tokens[positions.long()].reshape(probabilities.shape[0], -1, tokens.shape[1])
    return (gathered * probabilities[..., None]).sum(1)


def test_npu_moe_token_unpermute() -> None:
    _, positions = permute(numbers(6, 8), integers(6, 2, low=0, high=4))
    compare(
        lambda t, s, p: torch_npu.npu_moe_token_unpermute(t, s, p),
        unpermute,
        numbers(12, 32),
        positions,
        numbers(6, 2, low=0),
    )


def test_npu_swiglu() -> None:
    compare(lambda x: torch_npu.npu_swiglu(x, dim=-1), lambda x: F.silu(x[..., :8]) * x[..., 8:], numbers(3, 4, 16))


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, -1)
    return x * cosine + torch.cat((-high, low), -1) * sine


def test_npu_rotary_mul() -> None:
    angles = numbers(1, 6, 1, 16, seed=1)
    compare(torch_npu.npu_rotary_mul, rotate, numbers(2, 6, 4, 16), angles.cos(), angles.sin(), gradients=False)


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(query, key, value, scale=0.25)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_npu_fusion_attention(dtype: torch.dtype) -> None:
    inputs = [numbers(2, 2, 5, 16, seed=s).to(dtype) for s in range(3)]
    compare(
        lambda q, k, v: torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", scale=0.25)[0],
        lambda q, k, v: attention(q.float(), k.float(), v.float()).to(dtype),
        *inputs,
    )


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_npu_gelu(approximate: str) -> None:
    compare(
        lambda x: torch_npu.npu_gelu(x, approximate=approximate),
        lambda x: F.gelu(x, approximate=approximate),
        numbers(3, 5),
    )


def test_npu_add_rms_norm() -> None:
    def added(a: torch.Tensor, b: torch.Tensor, gamma: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (*rms_norm(a + b, gamma), a + b)

    compare(
        lambda a, b, g: torch_npu.npu_add_rms_norm(a, b, g, 1e-6), added, numbers(3, 16), numbers(3, 16, seed=1), numbers(16),
        gradients=False,
    )  # fmt: skip


def test_npu_moe_init_routing() -> None:
    tokens, experts = numbers(5, 8), integers(5, 2, low=0, high=4).int()
    rows = torch.arange(10, dtype=torch.int32).reshape(2, 5).t().contiguous()
    found = torch_npu.npu_moe_init_routing(tokens.npu(), rows.npu(), experts.npu(), 5)
    order = torch.sort(experts.flatten(), stable=True).indices
    assert_same(found[2], experts.flatten()[order])
    assert_same(found[0], tokens[rows.flatten()[order] % 5])


def test_npu_dtype_cast() -> None:
    compare(
        lambda x: torch_npu.npu_dtype_cast(x, torch.float16),
        lambda x: x.to(torch.float16),
        numbers(3, 5),
        gradients=False,
    )


def test_npu_format_cast_to_nd_keeps_the_values() -> None:
    x = numbers(4, 6).npu()
    assert torch_npu.get_npu_format(x) == 2
    assert_same(torch_npu.npu_format_cast(x, 2), x.cpu())
