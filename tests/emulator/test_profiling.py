"""aclprof: what is recorded between start and stop, and in which order the functions are called."""

from __future__ import annotations

import ctypes
import json
import tempfile
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
        (file,) = Path(place, "new").iterdir()
        events = json.loads(file.read_text())["traceEvents"]
        of = {side: [e for e in events if e["pid"].startswith(side)] for side in ("host", "device")}
        launched = ["aclnnMm"] * 3 + ["aclnnAbs"]
        assert [e["name"] for e in of["host"]] == [*launched, "step"]
        assert [e["name"] for e in of["device"]] == launched
        assert of["device"][0]["pid"] == f"device process {cann.device_pid()}"
        whole = of["host"][-1]
        for host, device in zip(of["host"], of["device"]):
            assert host["ts"] <= device["ts"]  # one clock
            assert whole["ts"] <= device["ts"] <= device["ts"] + device["dur"] <= whole["ts"] + whole["dur"]
        assert library.aclprofStart(config) == 0  # again: another file
        assert library.aclprofFinalize() == 100042
        assert library.aclprofStop(config) == 0
        files = sorted(Path(place, "new").iterdir())
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
