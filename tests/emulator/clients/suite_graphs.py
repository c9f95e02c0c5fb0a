"""Captured graphs of torch_npu: capture, replay, private pools, callables and task groups."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
import torch_npu  # noqa: F401  registers the device
from comparing import numbers

SECOND_QUEUE = os.environ.get("TASK_QUEUE_ENABLE") == "2"
captures = pytest.mark.skipif(SECOND_QUEUE, reason="TASK_QUEUE_ENABLE=2: torch_npu captures no graphs in this mode")


@pytest.mark.skipif(not SECOND_QUEUE, reason="torch_npu captures graphs in this mode")
def test_torch_npu_refuses_graphs_with_its_second_queue() -> None:
    graph, x = torch.npu.NPUGraph(), torch.ones(4).npu()
    stream = torch.npu.Stream()
    with torch.npu.stream(stream), pytest.raises(RuntimeError, match="Do not support TASK_QUEUE_ENABLE = 2"):
        graph.capture_begin()
    assert (x + 1).cpu().tolist() == [2.0] * 4


@captures
def test_a_graph_reads_its_inputs_at_each_replay() -> None:
    x, weight, graph = torch.ones(4).npu(), torch.full((4,), 2.0).npu(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = (x * weight + 1) * 3
    for value in (5.0, 7.0):
        x.fill_(value)
        graph.replay()
        assert y.cpu().tolist() == [(value * 2 + 1) * 3] * 4


@captures
def test_random_numbers_are_new_at_each_replay() -> None:
    graph, drawn = torch.npu.NPUGraph(), []
    with torch.npu.graph(graph, pool=torch.npu.graph_pool_handle()):
        sample = torch.randn(16, device="npu")
    for _ in range(2):
        graph.replay()
        drawn.append(sample.cpu())
    assert not torch.equal(*drawn)


@captures
def test_streams_fork_and_join_in_a_graph() -> None:
    x, graph, side = torch.ones(4).npu(), torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.graph(graph):
        main = torch.npu.current_stream()
        side.wait_stream(main)
        with torch.npu.stream(side):
            left = x + 1
        right = x * 10
        main.wait_stream(side)
        y = left + right
    x.fill_(2)
    graph.replay()
    assert y.cpu().tolist() == [23.0] * 4


@captures
def test_graphed_callables_have_gradients() -> None:
    layer = torch.nn.Linear(4, 3).npu()
    graphed = torch.npu.make_graphed_callables(layer, (numbers(2, 4).npu().requires_grad_(),))
    host = numbers(2, 4).requires_grad_()
    x = host.detach().npu().requires_grad_()
    graphed(x).sum().backward()
    weight, bias = layer.weight.detach().cpu(), layer.bias.detach().cpu()
    torch.nn.functional.linear(host, weight, bias).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), host.grad)


@captures
def test_a_task_group_is_updated() -> None:
    graph, update = torch.npu.NPUGraph(), torch.npu.Stream()
    x, left, right = (torch.full((4,), value).npu() for value in (2.0, 3.0, 5.0))
    y = torch.empty(4).npu()
    with torch.npu.graph(graph):
        stream = torch.npu.current_stream()
        torch.npu.graph_task_group_begin(stream)
        torch.mul(x, left, out=y)
        handle = torch.npu.graph_task_group_end(stream)
        z = y + 1
    for factor in (right, left):
        with torch.npu.stream(update):
            torch.npu.graph_task_update_begin(update, handle)
            torch.mul(x, factor, out=y)
            torch.npu.graph_task_update_end(update)
        update.synchronize()
        graph.replay()
        assert torch.equal(z.cpu(), (x * factor + 1).cpu())


@captures
@pytest.mark.filterwarnings("ignore")
def test_torch_compile_captures_graphs() -> None:
    """backend="npugraphs": dynamo and graph trees, which need no compiler of kernels."""
    layer = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).npu()
    compiled = torch.compile(layer, backend="npugraphs")
    with torch.no_grad():
        for value in (1.0, 2.0, 3.0, 4.0):
            x = torch.full((3, 8), value).npu()
            torch.testing.assert_close(compiled(x).cpu(), layer(x).cpu())
    gradients = []
    for step in (compiled, layer):
        for _ in range(3):
            torch.compiler.npugraph_mark_step_begin()
            layer.zero_grad()
            step(numbers(3, 8).npu()).square().sum().backward()
        gradients.append(layer[0].weight.grad.cpu().clone())
    torch.testing.assert_close(*gradients)


def unjoined(x: torch.Tensor) -> None:
    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        x.add_(1)


@captures
@pytest.mark.parametrize(
    "misuse, text",
    [
        (lambda x: x.cpu(), "107030[^]*aclrtMemcpy: a synchronous copy"),
        (lambda x: x.sum().item(), "107027[^]*not while stream"),
        (lambda x: torch.ones(4).npu(), "107030[^]*aclrtMemcpy: a synchronous copy"),
        (lambda x: torch.npu.synchronize(), "107027[^]*not while stream"),
        (lambda x: torch.npu.current_stream().synchronize(), "107027[^]*not while stream"),
        (lambda x: torch.npu.empty_cache(), "107027[^]*not while stream"),
        (lambda x: torch.npu.NPUGraph().capture_begin(), "captur"),
        (unjoined, "107025[^]*not aclrtRecordEvent"),
    ],
    ids=["cpu", "item", "pageable", "device", "stream", "cache", "nested", "unjoined"],
)
def test_misuse_is_told_and_torch_goes_on(misuse: Any, text: str) -> None:
    x, graph = torch.ones(4).npu(), torch.npu.NPUGraph()
    pattern = text.replace("[^]", r"[\s\S]")
    with pytest.raises(RuntimeError, match=pattern), torch.npu.graph(graph):
        misuse(x)
    again = torch.npu.NPUGraph()
    with torch.npu.graph(again):
        y = x * 3
    x.fill_(2)
    again.replay()
    assert y.cpu().tolist() == [6.0] * 4
