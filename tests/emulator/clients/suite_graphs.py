"""Captured graphs of torch_npu: capture, replay, private pools, callables and task groups."""

from __future__ import annotations

import os

import pytest
import torch
import torch_npu  # noqa: F401  registers the device
from comparing import numbers

pytestmark = pytest.mark.skipif(
    os.environ.get("TASK_QUEUE_ENABLE") == "2", reason="TASK_QUEUE_ENABLE=2: torch_npu captures no graphs in this mode"
)


def test_a_graph_reads_its_inputs_at_each_replay() -> None:
    x, weight, graph = torch.ones(4).npu(), torch.full((4,), 2.0).npu(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = (x * weight + 1) * 3
    for value in (5.0, 7.0):
        x.fill_(value)
        graph.replay()
        assert y.cpu().tolist() == [(value * 2 + 1) * 3] * 4


def test_random_numbers_are_new_at_each_replay() -> None:
    graph, drawn = torch.npu.NPUGraph(), []
    with torch.npu.graph(graph, pool=torch.npu.graph_pool_handle()):
        sample = torch.randn(16, device="npu")
    for _ in range(2):
        graph.replay()
        drawn.append(sample.cpu())
    assert not torch.equal(*drawn)


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


def test_graphed_callables_have_gradients() -> None:
    layer = torch.nn.Linear(4, 3).npu()
    graphed = torch.npu.make_graphed_callables(layer, (numbers(2, 4).npu().requires_grad_(),))
    host = numbers(2, 4).requires_grad_()
    x = host.detach().npu().requires_grad_()
    graphed(x).sum().backward()
    weight, bias = layer.weight.detach().cpu(), layer.bias.detach().cpu()
    torch.nn.functional.linear(host, weight, bias).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), host.grad)


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
