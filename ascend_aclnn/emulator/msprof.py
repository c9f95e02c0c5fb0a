"""The emulated ``msprof``: exports what aclprofStop left in a PROF_ directory as CANN's tool does.

    msprof --export=on --output=PROF_...        writes PROF_.../mindstudio_profiler_output/{msprof,op_summary,...}_*

What it writes follows CANN's documents of the files: the timeline (msprof_*.json), op_summary, op_statistic, api_statistic and
task_time. Databases (``--type=db``) and what needs an AI core's counters are refused: neither has a public format, or a source
here.
"""

from __future__ import annotations

import argparse
import collections
import csv
import json
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

OUTPUT = "mindstudio_profiler_output"
_HOST, _DEVICE = 1, 100  # process numbers of the timeline: the host, and behind the second one the devices
_LINGER = 0.5  # seconds that the export goes on behind its tables
_TASKS = {"kernel": "AI_CORE", "collective": "COMMUNICATION", "copy": "MEMCPY_ASYNC", "set": "MEMSET_ASYNC"}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="msprof", description="Exports the emulated device's profiles.", allow_abbrev=False
    )
    parser.add_argument("--export", choices=("on", "off"), default="off")
    parser.add_argument("--analyze", choices=("on", "off"), default="off")
    parser.add_argument("--type", choices=("text", "db"), default="text")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    if options.type == "db":
        print("msprof: --type=db is not emulated: the tables of CANN's database are not public", file=sys.stderr)
        return 1
    if options.export == "on":
        return export(options.output)
    if options.analyze == "on":
        return 0  # statistics of links, which are not emulated
    print(
        "msprof: the emulated device is profiled by aclprofStart or torch_npu.profiler, not by msprof itself",
        file=sys.stderr,
    )
    return 1


def export(directory: Path) -> int:
    """Writes the files of one PROF_ directory."""
    sources = sorted((directory / "host" / "data").glob("ascend_emulator_trace_*.json"))
    if not sources:
        print(f"msprof: {directory} holds no profile of the emulated device", file=sys.stderr)
        return 1
    begin = json.loads((directory / "host" / "start_info").read_text(encoding="utf-8"))
    offset = (
        int(begin["collectionTimeBegin"]) - int(begin["clockMonotonic"]) / 1000
    )  # from monotonic to the time of day, in us
    events: list[dict[str, Any]] = []
    for source in sources:
        events += json.loads(source.read_text(encoding="utf-8"))["traceEvents"]
    calls = [event for event in events if event["pid"] == "host"]
    tasks = [event for event in events if event["pid"] != "host"]
    output = directory / OUTPUT
    output.mkdir(exist_ok=True)
    stamp = begin["collectionTimeBegin"]
    timeline = json.dumps(list(_timeline(calls, tasks, offset)))
    (output / f"msprof_{stamp}.json").write_text(timeline, encoding="utf-8")
    _table(output / f"op_summary_{stamp}.csv", _op_summary(tasks, offset))
    _table(output / f"task_time_{stamp}.csv", _task_time(tasks, offset))
    _table(output / f"op_statistic_{stamp}.csv", _op_statistic(tasks))
    _table(output / f"api_statistic_{stamp}.csv", _api_statistic(calls))
    # torch_npu polls for a table ten times a second, and drops its analysis if the export ends before a poll has seen one. CANN's
    # export goes on for seconds after its first table.
    time.sleep(_LINGER)
    return 0


def _device(event: dict[str, Any]) -> int:
    return int(event["pid"].rpartition(" ")[2])


def _timeline(calls: list[dict[str, Any]], tasks: list[dict[str, Any]], offset: float) -> Iterable[dict[str, Any]]:
    """The host's calls, the devices' tasks, and an arrow from each call to its task."""
    yield from _process(_HOST, "CANN", "CPU", 0)
    for thread in dict.fromkeys(call["tid"] for call in calls):
        yield {"name": "thread_name", "pid": _HOST, "tid": thread, "ph": "M", "args": {"name": f"Thread {thread}"}}
    for device in dict.fromkeys(map(_device, tasks)):
        yield from _process(_DEVICE + device, "Ascend Hardware", f"NPU {device}", 1 + device)
    for device, stream in dict.fromkeys((_device(task), task["tid"]) for task in tasks):
        name = {"name": f"Stream {stream}"}
        yield {"name": "thread_name", "pid": _DEVICE + device, "tid": stream, "ph": "M", "args": name}
    by_number = {call["args"]["correlation"]: call for call in calls}
    for call in calls:
        yield _span(
            call, _HOST, offset, {"Mode": "launch", "level": "acl", "connection_id": call["args"]["correlation"]}
        )
    seen: set[int] = set()
    for number, task in enumerate(tasks):
        correlation, place = task["args"]["correlation"], _DEVICE + _device(task)
        facts = {"Task Type": _TASKS[task["args"]["kind"]], "Stream Id": task["tid"], "Task Id": number, "Batch Id": 0}
        yield _span(task, place, offset, {**facts, "connection_id": correlation})
        if correlation in by_number:
            call = by_number[correlation]
            # A graph has several tasks. Perfetto drops arrows whose names are not numbers.
            arrow = str(correlation + (number << 32 if correlation in seen else 0))
            seen.add(correlation)
            flow = {"cat": "HostToDevice", "name": "HostToDevice", "id": arrow}
            yield {**flow, "ph": "s", "pid": _HOST, "tid": call["tid"], "ts": _time(call["ts"] + offset)}
            yield {**flow, "ph": "f", "bp": "e", "pid": place, "tid": task["tid"], "ts": _time(task["ts"] + offset)}


def _process(number: int, name: str, label: str, place: int) -> Iterable[dict[str, Any]]:
    for kind, facts in (("name", {"name": name}), ("labels", {"labels": label}), ("sort_index", {"sort_index": place})):
        yield {"name": f"process_{kind}", "pid": number, "tid": 0, "ph": "M", "args": facts}


def _span(event: dict[str, Any], place: int, offset: float, facts: dict[str, Any]) -> dict[str, Any]:
    span = {"name": event["name"], "pid": place, "tid": event["tid"], "ph": "X"}
    return {**span, "ts": _time(event["ts"] + offset), "dur": event["dur"], "args": facts}


def _time(microseconds: float) -> str:
    return f"{microseconds:.3f}"


Row = dict[str, Any]


def _op_summary(tasks: list[dict[str, Any]], offset: float) -> Iterable[Row]:
    """Operators and collectives by the time of their begin. Waits are the stream's, since the task before."""
    ends: dict[tuple[str, int], float] = {}
    for number, task in enumerate(sorted(tasks, key=lambda task: task["ts"])):
        place = task["pid"], task["tid"]
        wait = max(0.0, task["ts"] - ends.get(place, task["ts"]))
        ends[place] = task["ts"] + task["dur"]
        if task["args"]["kind"] in ("kernel", "collective"):
            yield {
                "Device_id": _device(task),
                "Model ID": 4294967295,  # no model
                "Task ID": number,
                "Stream ID": task["tid"],
                "Op Name": task["name"],
                "OP Type": task["name"].removeprefix("aclnn"),
                "Task Type": _TASKS[task["args"]["kind"]],
                "Task Start Time(us)": _time(task["ts"] + offset),
                "Task Duration(us)": _time(task["dur"]),
                "Task Wait Time(us)": _time(wait),
                "Block Num": 1,
            }


def _task_time(tasks: list[dict[str, Any]], offset: float) -> Iterable[Row]:
    for number, task in enumerate(tasks):
        start, stop = task["ts"] + offset, task["ts"] + task["dur"] + offset
        yield {
            "Device_id": _device(task),
            "kernel_name": task["name"],
            "kernel_type": _TASKS[task["args"]["kind"]],
            "stream_id": task["tid"],
            "task_id": number,
            "task_time(us)": _time(task["dur"]),
            "task_start(us)": _time(start),
            "task_stop(us)": _time(stop),
        }


def _op_statistic(tasks: list[dict[str, Any]]) -> Iterable[Row]:
    times: dict[tuple[int, str], list[float]] = collections.defaultdict(list)
    for task in tasks:
        if task["args"]["kind"] == "kernel":
            times[_device(task), task["name"]].append(task["dur"])
    total = sum(sum(each) for each in times.values()) or 1.0
    for (device, name), each in times.items():
        yield {
            "Device_id": device,
            "OP Type": name,
            "Core Type": _TASKS["kernel"],
            "Count": len(each),
            **_summed(each),
            "Ratio(%)": f"{100 * sum(each) / total:.3f}",
        }


def _api_statistic(calls: list[dict[str, Any]]) -> Iterable[Row]:
    times: dict[str, list[float]] = collections.defaultdict(list)
    for call in calls:
        times[call["name"]].append(call["dur"])
    for name, each in times.items():
        yield {
            "Device_id": "host",
            "Level": "acl",
            "API Name": name,
            "Time(us)": _time(sum(each)),
            "Count": len(each),
            "Avg(us)": _time(statistics.mean(each)),
            "Min(us)": _time(min(each)),
            "Max(us)": _time(max(each)),
            "Variance": _time(statistics.pvariance(each)),
        }


def _summed(times: list[float]) -> Row:
    return {
        "Total Time(us)": _time(sum(times)),
        "Min Time(us)": _time(min(times)),
        "Avg Time(us)": _time(statistics.mean(times)),
        "Max Time(us)": _time(max(times)),
    }


def _table(path: Path, rows: Iterable[Row]) -> None:
    found = list(rows)
    if not found:
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
