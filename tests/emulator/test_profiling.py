"""aclprof: what is recorded between start and stop, and in which order the functions are called."""

from __future__ import annotations

import csv
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from emulator_client import Cann, client


def functions(cann: Cann) -> Any:
    """The library, with the types of the functions that return or take handles."""
    library = cann.libraries[0]
    library.aclprofCreateConfig.restype = ctypes.c_void_p
    library.aclprofCreateConfig.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_uint64,
    ]
    library.aclprofCreateStepInfo.restype = ctypes.c_void_p
    library.aclprofGetStepTimestamp.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p]
    library.aclprofInit.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    for name in ("aclprofStart", "aclprofStop", "aclprofDestroyConfig", "aclprofDestroyStepInfo"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    return library


def check_export(profile: Path, launched: list[str]) -> None:
    """The emulated msprof exports a directory as CANN's does."""
    msprof = [sys.executable, "-m", "ascend_aclnn.emulator.msprof", "--export=on", f"--output={profile}"]
    assert subprocess.run(msprof).returncode == 0
    output = profile / "mindstudio_profiler_output"
    (summary,) = output.glob("op_summary_*.csv")
    with summary.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["Op Name"] for row in rows] == launched
    assert all(abs(float(row["Task Start Time(us)"]) / 1e6 - time.time()) < 600 for row in rows)
    (timeline,) = output.glob("msprof_*.json")
    events = json.loads(timeline.read_text())
    flows = {kind: {e["id"]: e for e in events if e["ph"] == kind} for kind in "sf"}
    assert len(flows["s"]) == len(launched) and flows["s"].keys() == flows["f"].keys()
    spans = {(e["pid"], e["tid"], e["ts"]): e["name"] for e in events if e["ph"] == "X"}
    for number, start in flows["s"].items():
        end = flows["f"][number]
        assert spans[start["pid"], start["tid"], start["ts"]] == spans[end["pid"], end["tid"], end["ts"]]
    done = subprocess.run([*msprof, "--type=db"], capture_output=True, text=True)
    assert done.returncode == 1 and "--type=db is not emulated" in done.stderr


@client()
def test_a_trace_has_the_operators_of_host_and_device(cann: Cann) -> None:
    library = functions(cann)
    x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
    cann.run("aclnnNeg", x, out)  # before it begins
    with tempfile.TemporaryDirectory() as place:
        path = f"{place}/new".encode()
        config = library.aclprofCreateConfig((ctypes.c_uint32 * 1)(0), 1, 0xFF, None, 2)
        assert library.aclprofStart(config) == 100043  # not initialised
        assert library.aclprofInit(path, len(path) - 1) == 100000
        assert library.aclprofInit(path, len(path)) == 0
        assert library.aclprofInit(path, len(path)) == 100002
        assert library.aclprofStop(config) == 100043
        assert library.aclprofStart(config) == 0
        assert library.aclprofStart(config) == 100042
        step = library.aclprofCreateStepInfo()
        assert library.aclprofGetStepTimestamp(step, 0, None) == 0
        for _ in range(3):
            cann.run("aclnnMm", x, x, out, 0)
        cann.run("aclnnAbs", x, out)
        assert library.aclprofGetStepTimestamp(step, 1, None) == 0
        library.aclprofDestroyStepInfo(step)
        assert library.aclprofStop(config) == 0
        cann.run("aclnnNeg", x, out)  # after it has ended
        (profile,) = Path(place, "new").iterdir()
        assert profile.name.startswith("PROF_000001_") and (profile / "device_0").is_dir()
        (file,) = (profile / "host" / "data").iterdir()
        events = json.loads(file.read_text())["traceEvents"]
        of = {side: [e for e in events if e["pid"].startswith(side)] for side in ("host", "device")}
        launched = ["aclnnMm"] * 3 + ["aclnnAbs"]
        assert [e["name"] for e in of["host"] if e["name"].startswith("aclnn")] == launched
        assert [e["name"] for e in of["device"]] == launched
        assert {e["pid"] for e in of["device"]} == {"device 0"}
        (whole,) = [e for e in of["host"] if e["name"] == "step"]
        calls = {e["args"]["correlation"]: e for e in of["host"]}
        for device in of["device"]:
            host = calls[device["args"]["correlation"]]
            assert host["name"] == device["name"] and host["ts"] <= device["ts"]  # one clock
            assert whole["ts"] <= device["ts"] <= device["ts"] + device["dur"] <= whole["ts"] + whole["dur"]
        check_export(profile, launched)
        assert library.aclprofStart(config) == 0  # again: another directory
        assert library.aclprofFinalize() == 100042
        assert library.aclprofStop(config) == 0
        files = sorted(Path(place, "new").glob("PROF_*/host/data/*"))
        assert [json.loads(f.read_text())["traceEvents"] == [] for f in files] == [False, True]
        assert library.aclprofDestroyConfig(config) == 0
        assert library.aclprofDestroyConfig(config) != 0
        assert library.aclprofFinalize() == 0
        assert library.aclprofFinalize() == 100043


@client()
def test_a_place_that_cannot_be_written_is_told(cann: Cann) -> None:
    library = functions(cann)
    assert library.aclprofInit(b"/proc/nothing", 13) == 100003
    assert "/proc/nothing" in cann.message()
    assert library.aclprofCreateConfig((ctypes.c_uint32 * 1)(99), 1, 0xFF, None, 2) is None
