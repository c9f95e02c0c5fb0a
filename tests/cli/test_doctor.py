"""``ascend-aclnn doctor`` on hosts of every kind: with nothing, with stubs only, with a broken install, with a device."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_aclnn.backends.npu import library


def examine(tmp_path: Path, **environ: str) -> tuple[str, dict[str, Any]]:
    """Text and data that the doctor gives in a process of its own, where CANN's default prefix is empty."""
    program = f"""
import json, pathlib
from ascend_aclnn.cli import doctor
from ascend_aclnn.backends.npu import library
library.DEFAULT_PREFIXES = (pathlib.Path({str(tmp_path / "prefix")!r}),)
found = doctor.report()
print(json.dumps(found), flush=True)
print(doctor.render(found), flush=True)
"""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ASCEND_", "LD_LIBRARY_PATH"))}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**kept, **environ}, capture_output=True, text=True, check=True
    )
    data, _, text = done.stdout.partition("\n")
    return text, json.loads(data)


def file_of(path: Path, machine: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF\x02\x01" + bytes(10) + struct.pack("<HH", 3, machine) + bytes(44))
    return path


def test_a_host_with_nothing(tmp_path: Path) -> None:
    text, data = examine(tmp_path)
    assert data["backend"] == "numpy" and data["soc"] == "Ascend910B1"
    first, *_ = text.splitlines()
    assert first.split(maxsplit=1)[1].startswith("numpy (no Ascend device")
    assert f"{tmp_path}/prefix (absent)" in text and "LD_LIBRARY_PATH (not set)" in text
    assert "install CANN 8.1.RC1 or later" in text and "set_env.sh" in text
    assert "Ascend910B1 (Atlas A2)" in text and f"{data['operators']} in the catalog" in text
    assert data["references"] > 0


def test_a_stub_only_cann(tmp_path: Path) -> None:
    machine = next(n for n, name in library._MACHINES.items() if name == os.uname().machine)
    stub = file_of(tmp_path / "cann" / "devlib" / "libascendcl.so", machine)
    text, data = examine(tmp_path, LD_LIBRARY_PATH=str(stub.parent))
    assert data["refused"][0]["path"] == str(stub)
    assert "stub" in text and "take devlib out of LD_LIBRARY_PATH" in text


def test_an_install_for_another_machine(tmp_path: Path) -> None:
    other = next(n for n, name in library._MACHINES.items() if name != os.uname().machine)
    file_of(tmp_path / "lib64" / "libascendcl.so", other)
    text, _ = examine(tmp_path, ASCEND_HOME_PATH=str(tmp_path))
    assert f"built for {library._MACHINES[other]}" in text
    assert f"install the CANN package for {os.uname().machine}" in text


def test_a_broken_install(tmp_path: Path) -> None:
    machine = next(n for n, name in library._MACHINES.items() if name == os.uname().machine)
    path = file_of(tmp_path / "lib64" / "libascendcl.so", machine)  # begins like a library and goes no further
    text, data = examine(tmp_path, ASCEND_HOME_PATH=str(tmp_path))
    assert data["library"] == str(path) and "cannot be loaded" in data["problem"]
    assert "problem" in text and "reinstall the CANN package" in text


def test_a_device(tmp_path: Path, emulator_home: Path) -> None:
    text, data = examine(tmp_path, ASCEND_HOME_PATH=str(emulator_home))
    assert data["backend"] == "npu" and data["emulated"] and data["soc"] == "Ascend910B1"
    assert data["devices"][0]["total"] >= data["devices"][0]["free"] > 0
    assert data["exported"] > 0 and "libopapi.so" in text and "npu (emulated device)" in text


def test_a_device_that_is_not_asked_for(tmp_path: Path, emulator_home: Path) -> None:
    text, data = examine(tmp_path, ASCEND_HOME_PATH=str(emulator_home), ASCEND_ACLNN_BACKEND="numpy")
    assert data["backend"] == "numpy" and data["devices"]
    assert "numpy (ASCEND_ACLNN_BACKEND=numpy" in text


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_the_command(flag: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from ascend_aclnn.backends import npu
    from ascend_aclnn.cli import main

    monkeypatch.setattr(npu, "_failure", npu._failure)  # what is not found here may be found by later tests
    assert main(["doctor", *flag]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["operators"] if flag else printed.startswith("backend")


def test_each_device_is_tried_and_one_fault_ends_one_check_only(emulator_home: Path) -> None:
    program = """
import ctypes, json, os, signal
import ascend_aclnn as aclnn
from ascend_aclnn.cli import doctor
with aclnn.use_backend("npu") as npu:
    with aclnn.Device(1):
        aclnn.ops.abs(aclnn.asarray([1.0])).numpy()
    os.kill(ctypes.CDLL(str(npu.library_path)).aclemuDevicePid(1), signal.SIGKILL)
    found = doctor.report()
print(json.dumps(found), flush=True)
print(doctor.render(found), flush=True)
os._exit(0)
"""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, "ASCEND_HOME_PATH": str(emulator_home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    data, _, text = done.stdout.partition("\n")
    (finding,) = json.loads(data)["findings"]
    assert finding["check"] == "device 1" and "adds nothing" in finding["text"] and finding["remedy"]
    assert "device 1" in text and "to do" in text


def test_a_device_in_order_has_its_addition_checked(tmp_path: Path, emulator_home: Path) -> None:
    text, data = examine(tmp_path, ASCEND_HOME_PATH=str(emulator_home))
    assert data["findings"] == [] and "one addition on each device" in text
