"""``layer run --report`` and ``--profile``: what a program used, where it would not run, and where its time went."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trace_format

from ascend_aclnn.cli.emulator import environment

PROGRAM = """
import ml_dtypes, numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops

x = aclnn.asarray(np.ones((64, 32), ml_dtypes.bfloat16))
with aclnn.Stream():
    for _ in range(3):
        y = ops.add(x, x)
z = ops.relu(aclnn.asarray(np.ones(8, np.float32)))
z.numpy(), y.numpy()
w = ops.grouped_matmul([np.ones((2, 4), np.float16)], [np.ones((4, 6), np.float16)])
try:
    ops.add(x, x, out=aclnn.zeros((5, 7), np.float32))
except aclnn.AclError:
    pass
graph = aclnn.Graph()
with graph.capture():
    target = ops.abs(x).copy()
    v = ops.exp(target)
for _ in range(2):
    graph.replay()
v.numpy()
"""
REPLAYED = ("aclnnAbs", "aclnnInplaceCopy", "aclnnExp")


@pytest.fixture(scope="module")
def survey(
    emulator_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any], list[dict[str, Any]], Path]:
    """What is printed, the report of the program's operators by name, the trace and its file."""
    folder = tmp_path_factory.mktemp("survey")
    command = [
        sys.executable,
        "-m",
        "ascend_aclnn",
        "layer",
        "run",
        "--report",
        "report.json",
        "--profile",
        "trace.json",
    ]
    done = subprocess.run(
        [*command, "--", sys.executable, "-c", PROGRAM],
        env={**environment(emulator_home), "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2])])},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads((folder / "report.json").read_text()).values()
    trace = json.loads((folder / "trace.json").read_text(), parse_constant=pytest.fail)
    assert sorted(path.name for path in folder.iterdir()) == ["report.json", "trace.json"]
    return (
        done.stdout,
        {use["operator"]: use for use in found["operators"]},
        trace["traceEvents"],
        folder / "trace.json",
    )


def test_the_report_counts_operators_and_their_data_types(survey: Any) -> None:
    printed, uses, *_ = survey
    counts = {name: (use["launches"], use["refused"]) for name, use in uses.items()}
    once = dict.fromkeys(("aclnnRelu", "aclnnGroupedMatmul", *REPLAYED), (1, 0))
    assert counts == {"aclnnAdd": (4, 1), **once}
    assert uses["aclnnAdd"]["forms"] == {"BF16": 4}
    assert all(use["reference"] and use["in_catalog"] for use in uses.values())
    assert "6 operators in 9 launches" in printed


def test_the_report_says_where_the_program_would_not_run(survey: Any) -> None:
    printed, uses, *_ = survey
    assert set(uses["aclnnAdd"]["breaks_on"]) == {"910", "310P"}  # which have no BF16
    assert "BF16" in uses["aclnnAdd"]["breaks_on"]["910"]
    assert uses["aclnnRelu"]["breaks_on"] == {}
    assert uses["aclnnGroupedMatmul"]["deprecated"] == "since CANN 8.5.0; use aclnnGroupedMatmulV5"
    assert "aclnnGroupedMatmul is deprecated since CANN 8.5.0" in printed


def test_the_profile_ties_each_launch_to_its_run(survey: Any) -> None:
    printed, _, events, _ = survey
    spans = {(e["pid"], e["tid"], e["ts"]): e["name"] for e in events if e["ph"] == "X"}
    flows = {kind: {e["id"]: e for e in events if e["ph"] == kind} for kind in "sf"}
    assert len(flows["s"]) == 11 and flows["s"].keys() == flows["f"].keys()  # the refused launch has no run
    streams, replayed = set(), []
    for number, start in flows["s"].items():
        end = flows["f"][number]
        name, ran = spans[start["pid"], start["tid"], start["ts"]], spans[end["pid"], end["tid"], end["ts"]]
        assert start["ts"] <= end["ts"]
        if name == "aclmdlRIExecuteAsync":
            replayed.append(ran)
        else:
            assert name == ran
        if name == "aclnnAdd":
            streams.add(end["tid"])
    assert replayed == [*REPLAYED] * 2
    assert len(streams) == 1 and len({end["tid"] for end in flows["f"].values()}) == 2
    assert len(trace_format.check(events)) == 11
    assert any(e["ph"] == "C" and e["args"]["bytes"] > 0 for e in events)
    table = [line for line in printed.splitlines() if len(line.split()) == 5]
    row = next(line.split() for line in table if line.startswith("aclnnAdd"))
    assert row[1] == "4" and float(row[2]) > 0 and float(row[3]) > 0
    assert "9 launches; " in printed and "11 tied to the call" in printed and "MB of the device at most" in printed
    first = next(i for i, line in enumerate(table) if line.startswith("aclmdlRIExecuteAsync"))
    inner = {name: (calls, device) for name, calls, _, device, _ in map(str.split, table[first + 1 : first + 4])}
    assert inner.keys() == {*REPLAYED}
    assert all(calls == "2" and float(device) > 0 for calls, device in inner.values())
    captured = [line.split() for line in table if line.startswith(REPLAYED)]
    assert all(row[1] == "1" and float(row[3]) == 0 for row in captured)  # a captured launch runs when it is replayed


@pytest.mark.long
def test_perfetto_reads_the_profile(survey: Any) -> None:
    *_, trace = survey
    read = trace_format.opened(trace)
    assert read.problems == {}
    runs = [arrow["run"] for arrow in read.arrows if arrow["launch"] == "aclmdlRIExecuteAsync"]
    assert runs == [*REPLAYED] * 2 and len(read.arrows) == 11
    assert all(arrow["launch"] in (arrow["run"], "aclmdlRIExecuteAsync") for arrow in read.arrows)
