"""Profilers of a training step: torch's, with its default activities, and torch_npu's; each run of a kernel has its launch.

TRACES names a directory in which the traces are left.
"""

import collections
import csv
import json
import os
import pathlib
import sys
import tempfile

import torch
import torch_npu

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "helpers"))
import trace_format


def step(net, optimizer, x):
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    torch.npu.synchronize()


def traced_step(place, *training):
    """A step under torch.profiler, the events of its trace, and the kernels among them."""
    with torch.profiler.profile() as profile:
        step(*training)
    path = place / "torch.json"
    profile.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    return profile, events, [event for event in events if event.get("cat") == "kernel"]


def torch_profiler(place, net, optimizer, x):
    """torch.profiler: the device's rows are MSPTI's kernels."""
    profile, events, kernels = traced_step(place, net, optimizer, x)
    names = collections.Counter(event["name"] for event in kernels)
    assert names["aclnnRelu"] == 1 or any("Relu" in name for name in names), names
    assert len(kernels) > 10 and {event["args"]["streamId"] for event in kernels}
    arrows = trace_format.check(events, lambda event: event.get("cat") == "ac2g")
    assert len(arrows) == len(kernels), (len(arrows), len(kernels))
    assert any(row.key == "aten::addmm" for row in profile.key_averages())
    with torch.autograd.profiler.profile() as old:
        step(net, optimizer, x)
    assert any("mm" in row.key for row in old.key_averages())


def torch_profiler_with_queue(place, net, optimizer, x):
    """With a task queue a thread launches that has none of torch's operators: kernels have rows, and no arrows."""
    _, events, kernels = traced_step(place, net, optimizer, x)
    assert len(kernels) > 10 and any("Relu" in event["name"] for event in kernels), kernels
    assert all(event["dur"] >= 0 and event["args"]["streamId"] for event in kernels)
    assert trace_format.check(events, lambda event: event.get("cat") == "fwdbwd")
    assert {"aten::addmm", "aten::relu"} <= {event["name"] for event in events if event.get("cat") == "cpu_op"}


def torch_npu_profiler(place, net, optimizer, x):
    """torch_npu.profiler: it finds CANN's directory, and msprof exports it."""
    profiler = torch_npu.profiler
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
        on_trace_ready=profiler.tensorboard_trace_handler(str(place)),
    ):
        step(net, optimizer, x)
    (table,) = place.rglob("kernel_details.csv")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 10 and any("Relu" in row["Name"] for row in rows), rows
    assert all(float(row["Duration(us)"]) >= 0 for row in rows)
    (trace,) = place.rglob("trace_view.json")
    events = json.loads(trace.read_text())
    assert "aten::addmm" in {event["name"] for event in events}
    arrows = trace_format.check(events, lambda event: event.get("cat") == "HostToDevice")
    runs = [event for event in events if event["ph"] == "X" and "Task Type" in event.get("args", {})]
    assert len(arrows) == len(runs) >= len(rows)
    assert any(event.get("cat") == "async_npu" for event in events)  # from torch's operators to kernels


def main() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).npu()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.ones(4, 8).npu()
    step(net, optimizer, x)
    with tempfile.TemporaryDirectory() as place:
        kept = pathlib.Path(os.environ.get("TRACES", place))
        for name in sys.argv[1:] or ("torch_profiler", "torch_npu_profiler"):
            globals()[name](kept, net, optimizer, x)
    print("profiled")


if __name__ == "__main__":
    main()
