"""Profiles of operators and benchmarks of functions, on every backend."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trace_format

import ascend_aclnn as aclnn
from ascend_aclnn import call, ops, profiling
from ascend_aclnn.backends.interface import Backend

X = np.ones((64, 32), np.float16)


def step() -> Any:
    x = aclnn.asarray(X)
    return ops.add(ops.rms_norm(x, aclnn.asarray(X[0]))[0], x)


def test_a_profile_counts_calls_times_and_bytes(each_backend: Backend) -> None:
    begin = time.perf_counter()
    with aclnn.profile() as profile:
        for _ in range(4):  # the later ones are remembered calls
            step()
    wall = (time.perf_counter() - begin) * 1e6
    rows = {row.operator: row for row in profile.operators}
    assert {name: row.calls for name, row in rows.items()} == {"aclnnRmsNorm": 4, "aclnnAdd": 4}
    assert rows["aclnnAdd"].nbytes == 4 * 3 * X.nbytes
    assert rows["aclnnRmsNorm"].nbytes == 4 * (2 * X.nbytes + 2 * 32 + 4 * 64)  # x, y, gamma, rstd
    for row in rows.values():
        assert 0 < row.host < wall and 0 <= row.device < wall
    assert [launch.operator for launch in profile.launches] == ["aclnnRmsNorm", "aclnnAdd"] * 4
    assert profile.launches[1].shapes == "float16[64,32] float16[64,32] float16[64,32]"
    assert "aclnnRmsNorm" in str(profile) and "8 calls in" in str(profile)
    assert call.observer is None


def test_what_is_outside_of_the_block_is_not_seen(each_backend: Backend) -> None:
    step()
    with aclnn.profile(device_time=False) as profile:
        pass
    step()
    assert profile.launches == [] and profile.operators == []


def test_without_device_time_streams_are_left_alone(each_backend: Backend) -> None:
    with aclnn.profile(device_time=False) as profile:
        step()
    assert all(math.isnan(launch.device) for launch in profile.launches)
    assert [row.operator for row in profile.operators] != [] and " - " in str(profile)


def test_replays_of_graphs_are_seen(each_backend: Backend, tmp_path: Path) -> None:
    stream, x = aclnn.Stream(), aclnn.asarray(X)
    with aclnn.Graph() as graph:
        with graph.capture(stream):
            y = ops.add(x, x)
        with aclnn.profile() as profile:
            ops.add(x, x)
            for _ in range(3):
                graph.replay(stream)
        assert np.array_equal(y.numpy(), 2 * X)
    calls = {(row.operator, row.replayed): row.calls for row in profile.operators}
    assert calls == {("aclnnAdd", False): 1, ("Graph.replay", False): 3, ("aclnnAdd", True): 3}
    rows = {(row.operator, row.replayed): row.nbytes for row in profile.operators}
    assert rows["Graph.replay", False] == rows["aclnnAdd", True] == 3 * rows["aclnnAdd", False]
    names = [row.operator for row in profile.operators]
    assert names[names.index("Graph.replay") + 1] == "aclnnAdd" and "\n  aclnnAdd " in str(profile)
    assert json.loads(profile.to_json())["launches"][-1]["replayed"] == ["aclnnAdd"]
    assert all(launch.device >= 0 and launch.host > 0 for launch in profile.launches)
    profile.save_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text(), parse_constant=pytest.fail)["traceEvents"]
    assert sum(event["ph"] == "f" for event in events) == 4


def test_executors_and_other_threads_are_seen(each_backend: Backend) -> None:
    x, out = aclnn.asarray(X), aclnn.zeros(X.shape, "float16")
    with aclnn.profile() as profile:
        with aclnn.Executor("aclnnAbs", x, out) as executor:
            executor.run()
        thread = threading.Thread(target=lambda: ops.exp(X))
        thread.start()
        thread.join()
    assert [launch.operator for launch in profile.launches] == ["aclnnAbs", "aclnnExp"]
    assert profile.launches[0].nbytes == 2 * X.nbytes
    assert len({launch.thread for launch in profile.launches}) == 2


def test_a_call_that_fails_is_not_counted_and_leaves_no_profile(each_backend: Backend) -> None:
    with pytest.raises(aclnn.AclError), aclnn.profile() as profile:
        ops.add(aclnn.asarray(X), aclnn.zeros((3, 3), "float16"))
    assert profile.launches == [] and call.observer is None
    with aclnn.profile(), pytest.raises(RuntimeError, match="do not nest"), aclnn.profile():
        pass
    assert call.observer is None


def test_the_trace_ties_each_call_to_its_run(each_backend: Backend, tmp_path: Path) -> None:
    with aclnn.profile(memory=True) as profile:
        step()
        step()
    profile.save_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text(), parse_constant=pytest.fail)["traceEvents"]
    assert len(trace_format.check(events)) == 4
    assert {event["ph"] for event in events} >= {"M", "X", "C", "s", "f"}
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == 8
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys() == {0, 1, 2, 3}
    for number, end in ends.items():
        place = (end["pid"], end["tid"], end["ts"])
        (run,) = [e for e in spans if (e["pid"], e["tid"], e["ts"]) == place]
        (origin,) = [e for e in spans if (e["pid"], e["ts"]) == (starts[number]["pid"], starts[number]["ts"])]
        assert run["name"] == origin["name"]
    if each_backend.name == "npu":
        (peak,) = [event for event in events if event["ph"] == "i"]
        assert any("test_profiling.py" in name for name in peak["args"])
    whole = json.loads(profile.to_json())
    assert [launch["operator"] for launch in whole["launches"]] == ["aclnnRmsNorm", "aclnnAdd"] * 2


def test_calls_that_threads_queue_into_each_other_do_not_overlap(tmp_path: Path) -> None:
    """A stream does one thing after the other; what the second call took until the first had passed is not drawn twice."""
    found = profiling.Profile()
    common: dict[str, Any] = {"host": 1.0, "nbytes": 0, "shapes": "", "stream": 0, "memory": 0}
    for number, (begin, took) in enumerate([(5.0, 5.0), (6.0, 7.0), (2.0, 4.0), (20.0, 1.0)]):
        found.launches.append(
            profiling.Launch("aclnnAbs", float(number), device_begin=begin, device=took, thread=number, **common)
        )
    found.save_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(trace_format.check(events)) == 4
    assert sum(event["dur"] for event in events if event["ph"] == "X" and event["pid"] == 0) == 9.0  # 5 to 13, and 1


SPAN = {"ph": "X", "name": "call", "pid": 1, "tid": 1, "ts": 0, "dur": 10}
ARROW = {"name": "launch", "cat": "launch", "id": 1, "pid": 1, "tid": 1}
BROKEN: dict[str, list[dict[str, Any]]] = {
    "no duration": [{name: SPAN[name] for name in SPAN if name != "dur"}],
    "a time before the begin": [{**SPAN, "ts": -1}],
    "spans overlap": [SPAN, {**SPAN, "ts": 5, "dur": 6}],
    "an arrow's id is no number": [SPAN, {"ph": "s", **ARROW, "ts": 0, "id": "1.1"}],
    "an arrow has no end": [SPAN, {"ph": "s", **ARROW, "ts": 0}],
    "an arrow ends before its begin": [SPAN, {"ph": "s", **ARROW, "ts": 5}, {"ph": "f", "bp": "e", **ARROW, "ts": 1}],
    "an arrow ends nowhere": [SPAN, {"ph": "s", **ARROW, "ts": 5}, {"ph": "f", "bp": "e", **ARROW, "ts": 20}],
}


@pytest.mark.parametrize("fault", BROKEN)
def test_the_rules_of_the_format_are_checked(fault: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        trace_format.check(BROKEN[fault])


@pytest.mark.long
def test_perfetto_reads_the_trace(each_backend: Backend, tmp_path: Path) -> None:
    with aclnn.profile(memory=True) as profile:
        step()
        step()
    profile.save_trace(str(tmp_path / "trace.json"))
    read = trace_format.opened(tmp_path / "trace.json")
    assert read.problems == {} and read.slices >= 8
    assert [(arrow["launch"], arrow["run"]) for arrow in read.arrows] == [
        (n, n) for n in ("aclnnRmsNorm", "aclnnAdd")
    ] * 2


def test_owners_of_the_peak_are_lines_of_the_program(each_backend: Backend) -> None:
    with aclnn.profile(memory=True) as profile:
        kept = [ops.exp(aclnn.asarray(X)) for _ in range(3)]
        temporary = aclnn.zeros((1 << 20,), np.int8)
        del temporary
    assert profile.peak_memory >= len(kept) * X.nbytes + (1 << 20)  # between two calls, too
    assert [point.operator for point in profile.memory] == ["aclnnExp"] * 3
    assert profile.memory[0].nbytes < profile.memory[2].nbytes < profile.peak_memory
    assert profile.memory[0].time < profile.memory[2].time
    if each_backend.name == "npu":  # the NumPy backend knows no origins
        assert any("test_profiling.py" in block.origin for block in profile.peak_owners)


def test_a_profile_records_no_events_in_a_capture(each_backend: Backend) -> None:
    x, stream = aclnn.asarray(X), aclnn.Stream()
    aclnn.synchronize()
    graph = aclnn.Graph()
    with aclnn.profile() as profile:
        with graph.capture(stream):
            y = ops.add(x, x)
        graph.replay(stream)
        stream.synchronize()
    assert [launch.operator for launch in profile.launches] == ["aclnnAdd", "Graph.replay"]
    assert math.isnan(profile.launches[0].device) and profile.launches[1].device >= 0
    np.testing.assert_array_equal(y.numpy(), X + X)
    graph.close()


def test_a_benchmark_measures_the_host_and_the_work(each_backend: Backend) -> None:
    x = aclnn.asarray(X)
    result = aclnn.benchmark(ops.add, x, x, seconds=0.02, rounds=3)
    assert result.name == "add" and result.calls >= 3
    assert result.host > 0 and result.total > 0 and result.host_spread >= 0
    assert "us" in str(result)
    slow = aclnn.benchmark(lambda: time.sleep(0.002), seconds=0.01, rounds=2, warm_up=1)
    assert slow.host >= 2000
    for wrong in ({"seconds": 0}, {"rounds": 0}, {"warm_up": 0}):
        with pytest.raises(ValueError, match="must be positive"):
            aclnn.benchmark(ops.add, x, x, **wrong)  # type: ignore[arg-type]
