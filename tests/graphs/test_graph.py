"""Graph: capture, replay and update, with the same results as the same calls made eagerly, on all backends."""

from __future__ import annotations

import gc
import json
import os
import runpy
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import Executor, Graph, Stream, Tensor, ops
from ascend_aclnn.backends.interface import Backend

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def layer(x: Tensor, weight: Tensor, gamma: Tensor) -> Tensor:
    normed, _ = ops.rms_norm(x, gamma)
    return ops.add(ops.silu(ops.mm(normed, weight)), x, 1)


def test_a_replay_computes_from_what_the_inputs_hold_now(each_backend: Backend) -> None:
    x, weight, gamma = (aclnn.asarray(normal(*shape)) for shape in ((6, 8), (8, 8), (8,)))
    stream, graph = Stream(), Graph()
    with graph.capture(stream):
        y = layer(x, weight, gamma)
    place = y.data_ptr
    for _ in range(3):
        batch = normal(6, 8)
        x.assign(batch)
        graph.replay(stream)
        assert np.array_equal(y.numpy(), layer(aclnn.asarray(batch), weight, gamma).numpy())
        assert y.data_ptr == place


def test_nothing_runs_while_a_stream_is_captured(each_backend: Backend) -> None:
    x, total = aclnn.asarray(normal(4)), aclnn.zeros(4)
    graph = Graph()
    with graph.capture() as captured:
        assert captured is graph
        ops.add(total, x, 1, out=total)
        y = ops.relu(x)
        assert repr(y) == f"Tensor(<captured, not run yet>, FLOAT, {each_backend.name}:0)"
        assert "<not read while a stream is captured>" in repr(x)
        assert "not run yet" in str(y)
        assert "not run yet" in y._repr_html_()
    assert total.numpy().tolist() == [0.0] * 4
    assert "not run yet" in repr(y)
    for n in (1, 2, 3):
        graph.replay()
        assert np.allclose(total.numpy(), n * x.numpy())
    assert "Tensor([" in repr(y)


def test_calls_that_are_remembered_are_captured_too(each_backend: Backend) -> None:
    x, y = aclnn.asarray(normal(3, 3)), aclnn.zeros((3, 3))
    stream, graph = Stream(), Graph()
    for _ in range(3):
        ops.add(x, x, 1, out=y, stream=stream)
    stream.synchronize()
    y.assign(0)
    with graph.capture(stream):
        ops.add(x, x, 1, out=y)
    assert not y.numpy().any()
    graph.replay()
    assert np.array_equal(y.numpy(), 2 * x.numpy())


def test_streams_join_by_events_and_a_replay_keeps_their_order(each_backend: Backend) -> None:
    x = aclnn.asarray(normal(5, 5))
    first, second, third, graph = Stream(), Stream(), Stream(), Graph()
    with graph.capture(first):
        y = ops.mm(x, x)
        second.wait_stream(first)
        u = ops.mm(y, x, stream=second)
        third.wait_event(second.record_event())
        v = ops.relu(u, stream=third)
        w = ops.neg(y)
        first.wait_stream(third)
        z = ops.add(v, w, 1)
        del u, v, w  # used on several streams: their memory is used by nothing else
    graph.replay(third)
    product = x.numpy() @ x.numpy()
    assert np.allclose(z.numpy(), np.maximum(product @ x.numpy(), 0) - product, rtol=1e-4, atol=1e-4)
    assert [node.stream for node in graph.nodes if node.kind == "operator"] == [0, 1, 2, 0, 0]
    waits = [node for node in graph.nodes if node.kind == "wait"]
    assert [(n.stream, graph.nodes[n.after or 0].stream) for n in waits] == [(1, 0), (2, 1), (0, 2)]
    ops.relu(x, stream=second).numpy()  # the streams run again


def test_inputs_are_kept_and_intermediates_are_not(each_backend: Backend) -> None:
    graph, stream = Graph(), Stream()
    x = aclnn.asarray(normal(300, 300))
    with graph.capture(stream):
        y = x
        for _ in range(40):
            y = ops.adds(y, 1, 1)
    before = x.numpy()
    del x
    gc.collect()
    noise = [aclnn.asarray(np.full((300, 300), np.nan, np.float32)) for _ in range(4)]  # takes memory that is free
    graph.replay(stream)
    assert np.allclose(y.numpy(), before + 40, atol=1e-3)
    if each_backend.name == "npu":  # two buffers that take turns, in whole pages
        assert graph.memory <= 4 << 20
    assert graph.memory >= y.nbytes
    del noise


def test_memory_of_a_graph_goes_with_it_and_its_tensors(each_backend: Backend) -> None:
    def used() -> int:
        gc.collect()  # what earlier tests have left in cycles is not this test's
        aclnn.synchronize()
        aclnn.empty_cache()
        return aclnn.memory_info().used

    x = aclnn.zeros((256, 1024), "FLOAT")
    before = used()
    graph = Graph()
    with graph.capture():
        y = ops.relu(x)
    graph.replay()
    assert used() >= before + y.nbytes
    graph.close()
    graph.close()
    value = y.numpy()  # a Tensor keeps its own memory
    assert value.shape == (256, 1024)
    del y
    assert used() == before

    with Graph() as graph, graph.capture():
        ops.relu(x)
    assert used() == before

    graph = Graph()
    with graph.capture():
        ops.relu(x)
    graph.replay()
    del graph  # by its finalizer, once the replay has passed
    gc.collect()
    assert used() == before


def test_a_host_that_reads_waits_for_the_replay(each_backend: Backend) -> None:
    """Whatever stream it runs on, and whoever wrote the tensor before."""
    x, out = aclnn.asarray(normal(700, 700)), aclnn.zeros((700, 700))
    first, second, graph = Stream(), Stream(), Graph()
    with graph.capture(first):
        ops.mm(x, x, out=out)
    expected = x.numpy() @ x.numpy()
    for stream in (first, second, None):
        ops.inplace_zero(out, stream=second)
        second.synchronize()
        graph.replay(stream)
        assert np.allclose(out.numpy(), expected, rtol=1e-3, atol=1e-2)
    graph.replay(second)
    x.assign(0)  # waits for the replay, which reads it
    assert np.allclose(out.numpy(), expected, rtol=1e-3, atol=1e-2)


def test_a_graph_that_is_closed_while_it_runs_has_run(each_backend: Backend) -> None:
    x, stream, graph = aclnn.asarray(normal(500, 500)), Stream(), Graph()
    with graph.capture(stream):
        y = ops.mm(x, x)
    for _ in range(20):
        graph.replay(stream)
    graph.close()
    assert np.allclose(y.numpy(), x.numpy() @ x.numpy(), rtol=1e-3, atol=1e-2)


def test_a_task_group_is_updated(each_backend: Backend) -> None:
    x, out = aclnn.asarray(normal(4, 4)), aclnn.zeros((4, 4))
    stream, updates, graph = Stream(), Stream(), Graph()
    with graph.capture(stream):
        y = ops.neg(x)
        with graph.group() as group:
            ops.muls(y, 2, out=out)
        z = ops.adds(out, 1, 1)
    assert repr(group) == "TaskGroup(1)"
    for factor, where in ((3.0, None), (5.0, updates), (7.0, stream)):
        graph.replay()
        with graph.update(group, where):
            made = aclnn.empty((4, 4), "FLOAT")
            ops.muls(y, factor, out=out)
            del made
        graph.replay(updates)
        assert np.allclose(z.numpy(), 1 - factor * x.numpy(), atol=1e-5)
    assert [node.group for node in graph.nodes] == [None, 1, None]
    other = aclnn.asarray(normal(4, 4))
    with graph.update(group):
        ops.muls(other, 2.0, out=out)
    expected = 1 + 2 * other.numpy()
    del other  # the graph keeps it
    gc.collect()
    aclnn.empty_cache()
    graph.replay(stream)
    assert np.allclose(z.numpy(), expected, atol=1e-5)
    assert ops.relu(out, stream=updates).shape == (4, 4)  # it runs again


def test_updates_let_go_of_what_they_replace(each_backend: Backend) -> None:
    out, stream, graph = aclnn.zeros((64, 1024)), Stream(), Graph()
    with graph.capture(stream), graph.group() as group:
        ops.relu(aclnn.empty((64, 1024), "FLOAT"), out=out)
    used = []
    for turn in range(12):
        x = aclnn.asarray(np.full((64, 1024), turn, np.float32))
        with graph.update(group):
            ops.relu(x, out=out)
        del x
        graph.replay()
        assert out.numpy()[0, 0] == turn
        aclnn.empty_cache()
        used.append(aclnn.memory_info().used)
    assert used[-1] <= used[2]


def test_the_sample(
    each_backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "moe.svg"
    monkeypatch.setattr("sys.argv", ["moe_graph.py", "--times", "1", "--batches", "2", "--draw", str(picture)])
    runpy.run_path(str(Path(__file__).parents[2] / "samples" / "moe_graph.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "2 batches: eager and replayed results are equal bit for bit" in printed
    assert f"backend {each_backend.name}" in printed
    assert xml.etree.ElementTree.parse(picture).getroot().tag.endswith("svg")


def on_the_emulated_device(home: Path, program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ASCEND_HOME_PATH": str(home), "ASCEND_ACLNN_BACKEND": "npu"}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def test_a_graph_at_the_end_of_the_program(emulator_home: Path) -> None:
    """It is released before its streams and memory, and the program ends without a word."""
    program = """if True:
        import numpy as np
        from ascend_aclnn import Graph, Stream, asarray, ops
        x, stream, graph = asarray(np.ones((4, 4), np.float32)), Stream(), Graph()
        with graph.capture(stream), graph.group() as group:
            y = ops.relu(x)
        for _ in range(50):
            graph.replay(stream)
        with graph.update(group):
            ops.relu(x, out=y)
    """
    done = on_the_emulated_device(emulator_home, program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_memory_that_a_graph_of_another_component_uses_is_not_used_again(emulator_home: Path) -> None:
    """torch_npu captures its own streams; what is made on them then belongs to its graph, whose end is not known."""
    program = """if True:
        import ctypes
        import numpy as np
        import ascend_aclnn as aclnn
        from ascend_aclnn import Stream, ops
        runtime = aclnn.backend().runtime
        aclnn.synchronize()
        handle, model = runtime.create("aclrtCreateStream"), ctypes.c_void_p()
        stream = Stream.from_handle(handle)
        x, out = aclnn.asarray(np.full((64, 64), 3, np.float32)), aclnn.zeros((64, 64))
        ops.muls(x, 2, stream=stream)
        aclnn.synchronize()
        runtime.call("aclmdlRICaptureBegin", handle, 0)
        y = ops.muls(x, 2, stream=stream)
        ops.adds(y, 1, 1, out=out, stream=stream)
        runtime.call("aclmdlRICaptureEnd", handle, ctypes.byref(model))
        place = y.data_ptr
        del y
        others = [ops.relu(x, stream=stream) for _ in range(4)]
        runtime.call("aclmdlRIExecuteAsync", model.value, handle)
        stream.synchronize()
        print(place in [other.data_ptr for other in others], set(out.numpy().ravel().tolist()))
        runtime.call("aclmdlRIDestroy", model.value)
        runtime.call("aclrtDestroyStream", handle)
    """
    done = on_the_emulated_device(emulator_home, program)
    assert (done.returncode, done.stdout) == (0, "False {7.0}\n"), done.stderr


def test_copies_of_pinned_memory_read_and_write_at_each_replay(each_backend: Backend) -> None:
    source, target = aclnn.pinned(4, np.float32), aclnn.pinned(4, np.float32)
    x, stream, graph = aclnn.zeros(4), Stream(), Graph()
    source[:], target[:] = 1, 0
    with graph.capture(stream):
        x.copy_from(source)
        y = ops.muls(x, 10)
        y.copy_to(target)
    for value in (2, 3):
        source[:] = value
        graph.replay(stream)
        stream.synchronize()
        assert target.tolist() == [10.0 * value] * 4
    assert [(node.kind, node.nbytes) for node in graph.nodes] == [("copy", 16), ("operator", 32), ("copy", 16)]


def test_executors_are_captured(each_backend: Backend) -> None:
    x, y, z = aclnn.asarray(normal(3, 3)), aclnn.zeros((3, 3)), aclnn.zeros((3, 3))
    once, often = Executor("aclnnRelu", x, y), Executor("aclnnNeg", y, z, repeatable=True)
    stream, graph = Stream(), Graph()
    with graph.capture(stream):
        once.run()
        often.run(stream)
    once.close()
    often.run()  # before the replay: of zeros
    assert not z.numpy().any()
    often.close()
    graph.replay()
    assert np.array_equal(z.numpy(), -np.maximum(x.numpy(), 0))


def test_blocked_and_packed_tensors(each_backend: Backend) -> None:
    x, weight = (aclnn.asarray(normal(32, 32).astype(ml_dtypes.bfloat16)) for _ in range(2))
    stream, graph = Stream(), Graph()
    with graph.capture(stream):
        blocked = weight.to_format("FRACTAL_NZ")
        y = ops.matmul_weight_nz(x, blocked, cube_math_type=0)
    for _ in range(2):
        new = normal(32, 32).astype(ml_dtypes.bfloat16)
        weight.assign(new)
        graph.replay(stream)
        product = x.numpy().astype(np.float32) @ new.astype(np.float32)
        assert np.allclose(y.numpy().astype(np.float32), product, rtol=0.02, atol=0.1)


def test_random_operators_take_new_numbers_from_tensors_and_the_same_from_scalars(each_backend: Backend) -> None:
    seed, offset = aclnn.asarray(np.array([7], np.int64)), aclnn.asarray(np.array([0], np.int64))
    by_scalar, by_tensor = aclnn.zeros(64), aclnn.zeros(64)
    graph = Graph()
    with graph.capture():
        ops.inplace_uniform(by_scalar, 0.0, 1.0, 7, 0)
        ops.inplace_uniform_tensor(by_tensor, 0.0, 1.0, seed, offset, 0)
        ops.adds(offset, 16, 1, out=offset)  # the graph itself goes on to other numbers
    drawn = []
    for _ in range(3):
        graph.replay()
        drawn.append((by_scalar.numpy(), by_tensor.numpy()))
    assert all(np.array_equal(drawn[0][0], scalar) for scalar, _ in drawn)
    assert not any(np.array_equal(drawn[i][1], drawn[i + 1][1]) for i in range(2))
    eager = aclnn.zeros(64)
    for n, (_, numbers) in enumerate(drawn):
        ops.inplace_uniform(eager, 0.0, 1.0, 7, 16 * n)
        assert np.array_equal(eager.numpy(), numbers)


def test_graphs_are_independent(each_backend: Backend) -> None:
    x, streams, graphs = aclnn.asarray(normal(8)), [Stream() for _ in range(3)], [Graph() for _ in range(3)]
    results = []
    for n, (graph, stream) in enumerate(zip(graphs, streams)):
        with graph.capture(stream):
            y = ops.adds(x, n, 1)
            results.append(ops.muls(y, 2))
    graphs[1].close()
    for graph in (graphs[0], graphs[2]):
        graph.replay()
    assert np.allclose(results[2].numpy(), 2 * (x.numpy() + 2))
    assert np.allclose(results[0].numpy(), 2 * x.numpy())


def test_a_stream_may_end_while_it_is_captured(each_backend: Backend) -> None:
    x, stream, graph = aclnn.asarray(normal(8)), Stream(), Graph()
    with graph.capture(stream):
        side = Stream()
        side.wait_stream(stream)
        y = ops.relu(x, stream=side)
        stream.wait_stream(side)
        del side
        gc.collect()
    stream.close()
    graph.replay()
    assert np.array_equal(y.numpy(), np.maximum(x.numpy(), 0))


def captured_graph() -> tuple[Graph, Any]:
    x, first, second, graph = aclnn.asarray(normal(16, 16)), Stream(), Stream(), Graph()
    with graph.capture(first):
        y = ops.mm(x, x)
        second.wait_stream(first)
        z = ops.relu(y, stream=second)
        first.wait_stream(second)
        with graph.group():
            u = ops.add(y, z, 1)
    return graph, u


def test_a_graph_as_json(each_backend: Backend) -> None:
    graph, _ = captured_graph()
    described = json.loads(graph.to_json())
    assert (described["backend"], described["streams"]) == (each_backend.name, 2)
    assert described["memory"] >= 3 * 1024
    assert [(n["node"], n["kind"], n["name"], n["stream"], n["bytes"]) for n in described["nodes"]] == [
        (0, "operator", "aclnnMm", 0, 3 * 1024),
        (1, "record", "aclrtRecordEvent", 0, 0),
        (2, "wait", "aclrtStreamWaitEvent", 1, 0),
        (3, "operator", "aclnnRelu", 1, 2 * 1024),
        (4, "record", "aclrtRecordEvent", 1, 0),
        (5, "wait", "aclrtStreamWaitEvent", 0, 0),
        (6, "operator", "aclnnAdd", 0, 3 * 1024),
    ]
    assert [(n["event"], n["after"]) for n in described["nodes"] if n["kind"] == "wait"] == [(0, 1), (1, 4)]
    assert described["nodes"][0]["arguments"] == "FLOAT(16, 16), FLOAT(16, 16) -> FLOAT(16, 16)"
    assert described["nodes"][6]["group"] == 1


def test_a_graph_as_a_picture_and_a_table(each_backend: Backend) -> None:
    graph, _ = captured_graph()
    picture = xml.etree.ElementTree.fromstring(graph.draw())
    name = "{http://www.w3.org/2000/svg}"
    texts = [item.text for item in picture.iter(f"{name}text")]
    assert picture.tag == f"{name}svg"
    assert {"stream 0", "stream 1", "aclnnMm", "aclnnAdd [group 1]", "record event 0"} <= set(texts)
    arrows = [line for line in picture.iter(f"{name}line") if line.get("marker-end")]
    assert len(arrows) == 2
    assert all(int(line.get("y1", 0)) < int(line.get("y2", 0)) for line in arrows)
    width, height = int(picture.get("width", 0)), int(picture.get("height", 0))
    for box in picture.iter(f"{name}rect"):
        assert int(box.get("x", 0)) + int(box.get("width", 0)) <= width
        assert int(box.get("y", 0)) + int(box.get("height", 0)) <= height
    lines = str(graph).splitlines()
    assert lines[0].startswith(f"Graph(7 nodes, 2 streams, {each_backend.name})")
    assert lines[1].split() == ["node", "stream", "task", "bytes", "arguments"]
    assert lines[2].split()[:5] == ["0", "*|", "aclnnMm", "3.0", "KB"]
    assert lines[5].split()[:3] == ["3", "|*", "aclnnRelu"]
    page = graph._repr_html_()
    assert ("<svg" in page, "<table>" in page, "aclnnRelu" in page) == (True, True, True)
    assert repr(Graph()) == f"Graph(new, {each_backend.name})"
    assert "0 nodes" not in repr(graph)


def test_an_empty_graph(each_backend: Backend) -> None:
    graph = Graph()
    with graph.capture():
        pass
    graph.replay()
    assert (graph.nodes, repr(graph)) == ([], f"Graph(0 nodes, 1 stream, {each_backend.name})")
    xml.etree.ElementTree.fromstring(graph.draw())


def test_operators_that_python_writes(each_backend: Backend) -> None:
    x, graph = aclnn.asarray(normal(4, 4)), Graph()
    with graph.capture():
        y = (x + 1) * x[1] - x.T.copy()
    graph.replay()
    values = x.numpy()
    assert np.allclose(y.numpy(), (values + 1) * values[1] - values.T, atol=1e-6)


@pytest.mark.parametrize("times", [2])
def test_a_refused_operator_leaves_the_capture_as_it_was(each_backend: Backend, times: int) -> None:
    x, graph = aclnn.asarray(normal(4, 4)), Graph()
    with graph.capture():
        for _ in range(times):
            with pytest.raises(aclnn.AclError) as refused:
                ops.mm(x, aclnn.empty((3, 3), "FLOAT"))
            assert refused.value.status == 161002
        y = ops.relu(x)
    graph.replay()
    assert np.array_equal(y.numpy(), np.maximum(x.numpy(), 0))
    assert [node.name for node in graph.nodes] == ["aclnnRelu"]


def test_a_thread_replays_without_a_context_and_not_on_another_device(emulator_home: Path) -> None:
    program = """if True:
        import threading
        import numpy as np
        import ascend_aclnn as aclnn
        from ascend_aclnn import Graph, Stream, ops
        x, out, stream, graph = aclnn.asarray(np.ones(4, np.float32)), aclnn.zeros(4), Stream(), Graph()
        with graph.capture(stream):
            ops.adds(x, 1, 1, out=out)
        def replay():
            graph.replay()
            print(out.numpy().tolist())
            with aclnn.Device(1):
                try:
                    graph.replay()
                except aclnn.AclError as error:
                    print(error.status)
            x.assign(np.full(4, 5, np.float32))
            graph.replay()
        thread = threading.Thread(target=replay)
        thread.start()
        thread.join()
        aclnn.synchronize()
        print(out.numpy().tolist())
    """
    done = on_the_emulated_device(emulator_home, program)
    assert (done.returncode, done.stdout) == (0, "[2.0, 2.0, 2.0, 2.0]\n107004\n[6.0, 6.0, 6.0, 6.0]\n"), done.stderr
