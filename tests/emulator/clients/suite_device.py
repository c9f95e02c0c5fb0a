"""The device, its memory, streams and events, copies, printing, saving."""

from __future__ import annotations

import ctypes
import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_npu
from comparing import integers, numbers

DTYPES = [
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32,
    torch.int64, torch.bool, torch.complex64,
]  # fmt: skip


def test_queries() -> None:
    assert torch.npu.is_available()
    assert torch.npu.device_count() == 2
    assert torch.npu.get_device_name(0) == os.environ.get("ASCEND_ACLNN_SOC", "Ascend910B1")
    properties = torch.npu.get_device_properties(0)
    assert properties.total_memory > 0
    assert torch.npu.current_device() == 0
    assert torch.npu.is_bf16_supported()
    assert torch_npu.__version__.startswith("2.13")
    assert torch.ones(1).npu().is_npu


def test_memory_information() -> None:
    free, total = torch.npu.mem_get_info()
    held = torch.empty(64 << 20, dtype=torch.uint8, device="npu")
    less, same = torch.npu.mem_get_info()
    assert total == same
    assert free - less >= 64 << 20
    before = torch.npu.memory_allocated()
    del held
    assert torch.npu.memory_allocated() <= before - (64 << 20)
    torch.npu.empty_cache()
    assert torch.npu.mem_get_info()[0] >= free
    assert "allocated" in torch.npu.memory_summary().lower()


def test_out_of_memory_is_an_error_and_the_program_goes_on() -> None:
    total = torch.npu.mem_get_info()[1]
    with pytest.raises(RuntimeError, match="out of memory"):
        torch.empty(total + (1 << 30), dtype=torch.uint8, device="npu")
    assert torch.ones(3, device="npu").sum().item() == 3


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies(dtype: torch.dtype) -> None:
    host = integers(5, 7, low=0, high=2 if dtype is torch.bool else 100).to(dtype)
    device = host.npu()
    assert device.dtype == dtype
    assert torch.equal(device.cpu(), host)
    early = device.to("cpu", non_blocking=True)
    torch.npu.synchronize()
    assert torch.equal(early, host)
    assert torch.equal(device.clone().cpu(), host)
    assert torch.equal(device.t().contiguous().cpu(), host.t())
    assert torch.equal(device[1:, ::2].cpu(), host[1:, ::2])
    target = torch.zeros(5, 7, dtype=dtype, device="npu")
    target.copy_(host)
    target[:2].copy_(device[3:])
    host_target = host.clone()
    host_target[:2] = host[3:]
    assert torch.equal(target.cpu(), host_target)


NUMBERS = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool, torch.uint8]


@pytest.mark.parametrize("source", NUMBERS, ids=str)
@pytest.mark.parametrize("target", NUMBERS, ids=str)
def test_conversions(source: torch.dtype, target: torch.dtype) -> None:
    host = (numbers(4, 6, low=0, high=100) * (numbers(4, 6, seed=1) > 0)).to(source)
    assert torch.equal(host.npu().to(target).cpu(), host.to(target))


def test_pinned_memory() -> None:
    host = numbers(1000).pin_memory()
    assert host.is_pinned()
    device = host.to("npu", non_blocking=True)
    torch.npu.synchronize()
    assert torch.equal(device.cpu(), host)
    back = torch.empty(1000).pin_memory()
    back.copy_(device, non_blocking=True)
    torch.npu.synchronize()
    assert torch.equal(back, host)


def test_numbers_leave_the_device() -> None:
    tensor = torch.tensor([1.5, -2.0, 4.0], device="npu")
    assert tensor[0].item() == 1.5
    assert tensor.tolist() == [1.5, -2.0, 4.0]
    assert float(tensor[2]) == 4.0
    assert bool(tensor[1] < 0)
    np.testing.assert_array_equal(tensor.cpu().numpy(), [1.5, -2.0, 4.0])
    assert int(torch.tensor(7, device="npu")) == 7


@pytest.mark.parametrize(
    "host",
    [
        torch.tensor([1.0, 2.5, -3.0]),
        torch.tensor([[1, 2], [3, 40]]),
        torch.tensor([1e-8, 1e8, float("nan"), float("inf")]),
        torch.tensor([True, False]),
        torch.arange(2000.0).reshape(40, 50),
        torch.tensor([]),
        torch.tensor(3.25),
        numbers(3, 4).half(),
        numbers(3, 4).bfloat16(),
    ],
    ids=lambda t: f"{t.dtype}-{tuple(t.shape)}",
)
def test_printing(host: torch.Tensor) -> None:
    printed = repr(host.npu())
    assert "device='npu:0'" in printed
    words = "".join(printed.replace("device='npu:0'", "").split()).rstrip(",)").replace(",,", ",")
    plain = "".join(repr(host).split()).rstrip(",)")
    assert words == plain


def test_streams_and_events() -> None:
    stream = torch.npu.Stream()
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    tensor = torch.ones(100, device="npu")
    ready = torch.npu.Event()
    ready.record()
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream
        stream.wait_event(ready)
        start.record()
        for _ in range(10):
            tensor = tensor * 2
        end.record()
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) > 0
    torch.npu.current_stream().wait_stream(stream)
    assert tensor.sum().item() == 100 * 1024
    stream.synchronize()
    assert stream.query()
    assert torch.npu.current_stream() == torch.npu.default_stream()


def test_work_on_two_streams_is_ordered_by_an_event() -> None:
    first, second = torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.stream(first):
        tensor = torch.zeros(1 << 16, device="npu")
        for step in range(20):
            tensor.add_(step)
    second.wait_stream(first)
    with torch.npu.stream(second):
        total = tensor * 2
    second.synchronize()
    assert torch.equal(total.cpu(), torch.full((1 << 16,), 380.0))


def test_two_devices() -> None:
    first = torch.arange(6.0, device="npu:0")
    second = first.to("npu:1")
    assert second.device == torch.device("npu:1")
    assert torch.equal((second + 1).cpu(), torch.arange(1.0, 7.0))
    with torch.npu.device(1):
        made = torch.ones(3, device="npu")
        assert made.device.index == 1
        assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0


def test_saving_and_loading() -> None:
    tensor = numbers(3, 4).npu()
    buffer = io.BytesIO()
    torch.save({"weight": tensor}, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer, map_location="cpu")["weight"], tensor.cpu())
    buffer.seek(0)
    assert torch.load(buffer)["weight"].device == tensor.device
    assert torch.equal(pickle.loads(pickle.dumps(tensor)).cpu(), tensor.cpu())


def test_random_state() -> None:
    torch.npu.manual_seed(5)
    state = torch.npu.get_rng_state()
    first = torch.rand(100, device="npu")
    torch.npu.set_rng_state(state)
    assert torch.equal(first.cpu(), torch.rand(100, device="npu").cpu())
    assert not torch.equal(first.cpu(), torch.rand(100, device="npu").cpu())
    torch.manual_seed(5)
    assert torch.equal(first.cpu(), torch.rand(100, device="npu").cpu())


def test_the_libraries_of_torchair_load() -> None:
    """What `import torch_npu.dynamo.torchair` loads; its Python part wants protobuf besides."""
    directory = Path(torch_npu.__file__).parent / "dynamo" / "torchair" / "core"
    for name in ("_torchair", "_npu_graph_executor", "_npu_utils"):
        ctypes.CDLL(str(directory / f"{name}.so"))
