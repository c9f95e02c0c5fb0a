"""torch_npu.profiler: its own trace of the host, and the emulated device's trace of operators beside it."""

import json
import pathlib
import tempfile

import torch
import torch_npu


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        profiler = torch_npu.profiler
        with profiler.profile(
            activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
            on_trace_ready=profiler.tensorboard_trace_handler(place),
        ):
            x = torch.ones(4, 4, device="npu")
            for _ in range(3):
                x = x @ x
            torch.npu.synchronize()
        (host,) = pathlib.Path(place).rglob("trace_view.json")
        assert "aten::matmul" in {event["name"] for event in json.loads(host.read_text())}
        (device,) = pathlib.Path(place).rglob("ascend_emulator_trace_*.json")
        events = json.loads(device.read_text())["traceEvents"]
        names = [event["name"] for event in events if event["pid"] != "host"]
        assert sum("Matmul" in name or "Mm" in name for name in names) == 3, names
    print("profiled")


if __name__ == "__main__":
    main()
