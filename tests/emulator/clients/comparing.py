"""Running the same function on the CPU and on the emulated NPU, and comparing what comes out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch_npu  # noqa: F401  (makes the device "npu")

if os.environ.get("SINGLE_OPERATORS"):  # run by type names what would be an aclnn operator otherwise
    torch.npu.set_compile_mode(jit_compile=True)

# Both sides round once to low precision; sums may run in another order.
TOLERANCE = {
    torch.float64: (1e-6, 1e-7),
    torch.float32: (2e-5, 2e-6),
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 8e-3),
    torch.complex64: (2e-5, 2e-6),
}


def numbers(
    *shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Uniform random numbers, the same ones for the same arguments."""
    generator = torch.Generator().manual_seed(seed * 1000 + len(shape) + sum(shape))
    return (torch.rand(shape, generator=generator) * (high - low) + low).to(dtype)


def integers(
    *shape: int, seed: int = 0, low: int = -5, high: int = 6, dtype: torch.dtype = torch.int64
) -> torch.Tensor:
    """Random integers in [low, high)."""
    generator = torch.Generator().manual_seed(seed * 1000 + len(shape) + sum(shape))
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def on(device: str, value: Any) -> Any:
    """Tensors on a device, in lists and tuples too; a view stays a view of its own base."""
    if isinstance(value, torch.Tensor):
        base = value._base
        if base is not None and device != "cpu":
            return on(device, base).as_strided(value.shape, value.stride(), value.storage_offset())
        made = value.detach().to(device) if device != "cpu" else value.detach().clone()
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(on(device, item) for item in value)
    return value


def tensors_of(value: Any) -> list[torch.Tensor]:
    """All tensors in nested results, and numbers as tensors."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_of(item)]
    return [] if value is None else [torch.tensor(value)]


def assert_same(found: Any, wanted: Any, what: str = "result") -> None:
    """Results of the NPU (moved to the CPU) equal those of the CPU: number, dtype, shape, values."""
    ours, theirs = tensors_of(found), tensors_of(wanted)
    assert len(ours) == len(theirs), f"{what}: {len(ours)} results, {len(theirs)} on the CPU"
    for number, (our, their) in enumerate(zip(ours, theirs)):
        name = f"{what} {number}"
        assert our.dtype == their.dtype, f"{name}: {our.dtype}, on the CPU {their.dtype}"
        assert our.shape == their.shape, f"{name}: {tuple(our.shape)}, on the CPU {tuple(their.shape)}"
        relative, absolute = TOLERANCE.get(their.dtype, (0.0, 0.0))
        torch.testing.assert_close(
            our.detach().cpu(), their.detach(), rtol=relative, atol=absolute, equal_nan=True, msg=None
        )


def compare(function: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """The function gives the same on both devices, and leaves the inputs the same (in-place functions change them)."""
    cpu, npu = on("cpu", list(inputs)), on("npu", list(inputs))
    wanted, found = function(*cpu), function(*npu)
    for tensor in tensors_of(found):
        assert tensor.device.type == "npu" or tensor.ndim == 0, f"the result is on {tensor.device}"
    assert_same(found, wanted)
    assert_same(
        [t for t in npu if isinstance(t, torch.Tensor)], [t for t in cpu if isinstance(t, torch.Tensor)], "input"
    )


def compare_gradients(function: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """As ``compare``, with the gradients of every floating-point input for a fixed gradient of the result."""
    grads = []
    for device in ("cpu", "npu"):
        held = on(device, list(inputs))
        leaves = [t.requires_grad_() for t in tensors_of(held) if t.is_floating_point()]
        outputs = [t for t in tensors_of(function(*held)) if t.requires_grad]
        weights = [torch.linspace(-1, 1, t.numel()).reshape(t.shape).to(t.dtype).to(device) for t in outputs]
        grads.append((outputs, torch.autograd.grad(outputs, leaves, weights, allow_unused=True)))
    (wanted, wanted_grads), (found, found_grads) = grads
    assert_same(found, wanted)
    assert_same(found_grads, wanted_grads, "gradient")
