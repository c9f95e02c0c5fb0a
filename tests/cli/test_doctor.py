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
from ascend_aclnn.cli import variables


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


def run(tmp_path: Path, patch: str = "", **environ: str) -> tuple[int, str]:
    """Exit status and text of `ascend-aclnn doctor`, where CANN's default prefix is empty."""
    program = f"""
import pathlib, sys
from ascend_aclnn.cli import doctor, main
from ascend_aclnn.backends.npu import library
library.DEFAULT_PREFIXES = (pathlib.Path({str(tmp_path / "prefix")!r}),)
{patch}
sys.exit(main(["doctor"]))
"""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ASCEND_", "LD_LIBRARY_PATH"))}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**kept, **environ}, capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, done.stdout


def test_a_host_with_nothing(tmp_path: Path) -> None:
    text, data = examine(tmp_path)
    assert data["backend"] == "numpy" and data["soc"] == "Ascend910B1"
    first, *_ = text.splitlines()
    assert first.split(maxsplit=1)[1].startswith("numpy (no Ascend device")
    assert f"{tmp_path}/prefix (absent)" in text and "LD_LIBRARY_PATH (not set)" in text
    assert "install CANN 8.1.RC1 or later" in text and "set_env.sh" in text
    assert "Ascend910B1 (Atlas A2)" in text and f"{data['operators']} in the catalog" in text
    assert data["references"] > 0
    assert data["stops"] == [] and "stops work" not in text


def test_a_stub_only_cann(tmp_path: Path) -> None:
    machine = next(n for n, name in library._MACHINES.items() if name == os.uname().machine)
    stub = file_of(tmp_path / "cann" / "devlib" / "libascendcl.so", machine)
    text, data = examine(tmp_path, LD_LIBRARY_PATH=str(stub.parent))
    assert data["refused"][0]["path"] == str(stub)
    assert "stub" in text and "take devlib out of LD_LIBRARY_PATH" in text
    assert data["stops"] == ["a CANN was found and cannot be used"] and data["stops"][0] in text


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
    assert data["findings"] == [] and "one addition on each device" in text
    assert data["stops"] == []


def test_a_device_that_is_not_asked_for(tmp_path: Path, emulator_home: Path) -> None:
    text, data = examine(tmp_path, ASCEND_HOME_PATH=str(emulator_home), ASCEND_ACLNN_BACKEND="numpy")
    assert data["backend"] == "numpy" and data["devices"] and data["stops"] == []
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
    assert json.loads(data)["stops"] == [finding["text"].splitlines()[0]]
    assert finding["check"] == "device 1" and "does not answer" in finding["text"] and finding["remedy"]
    assert "device 1" in text and "to do" in text


# ------------------------------------------------------------------------------------------------ the exit status


def test_a_device_that_is_asked_for_and_not_there(tmp_path: Path) -> None:
    status, text = run(tmp_path, ASCEND_ACLNN_BACKEND="npu")
    assert status == 1 and "ASCEND_ACLNN_BACKEND=npu asks for a device, and none can be used" in text
    status, text = run(tmp_path, ASCEND_ACLNN_BACKEND="shapes")
    assert status == 0 and "backend          shapes (ASCEND_ACLNN_BACKEND=shapes; no operator computes)" in text
    assert "rules of         Ascend910B1" in text
    status, text = run(tmp_path, ASCEND_ACLNN_BACKEND="gpu")
    assert status == 1 and "ASCEND_ACLNN_BACKEND is 'gpu'; it must be numpy, npu, shapes or auto" in text


def test_what_is_broken_stops_nothing_where_no_device_is_asked_for(tmp_path: Path) -> None:
    machine = next(n for n, name in library._MACHINES.items() if name == os.uname().machine)
    file_of(tmp_path / "lib64" / "libascendcl.so", machine)
    assert run(tmp_path, ASCEND_HOME_PATH=str(tmp_path))[0] == 1
    assert run(tmp_path, ASCEND_HOME_PATH=str(tmp_path), ASCEND_ACLNN_BACKEND="numpy")[0] == 0


def test_a_device_that_computes_wrongly(tmp_path: Path, emulator_home: Path) -> None:
    assert run(tmp_path, ASCEND_HOME_PATH=str(emulator_home))[0] == 0
    patch = "doctor.ops.add = lambda x, y, alpha: x"
    status, text = run(tmp_path, patch, ASCEND_HOME_PATH=str(emulator_home))
    assert status == 1 and "stops work" in text and "device 1 adds wrongly" in text


@pytest.mark.parametrize(
    ("routine", "status", "remedy"),
    [
        ("aclnnAddGetWorkspaceSize", 561112, "install the kernels (ops) package"),  # missing kernels
        ("aclrtSetDevice", 507033, "reinstall the kernels (ops) package"),  # packages of another release
        ("aclrtSetDevice", 207006, "usermod -a -G HwHiAiUser"),  # device files of another group
    ],
)
def test_what_a_device_answers_has_its_remedy(
    tmp_path: Path, emulator_home: Path, routine: str, status: int, remedy: str
) -> None:
    patch = f"""
import ctypes
from ascend_aclnn.backends.npu import find_backend
ctypes.CDLL(str(find_backend().library_path)).aclemuFailAt(b{routine!r}, ctypes.c_uint64(1), {status})
"""
    code, text = run(tmp_path, patch, ASCEND_HOME_PATH=str(emulator_home))
    assert code == 1 and remedy in text and "one addition on each device" not in text


# --------------------------------------------------------------------------------------------------- no device


def test_a_host_with_cann_and_no_device(tmp_path: Path, emulator_home: Path) -> None:
    _, data = examine(tmp_path, ASCEND_HOME_PATH=str(emulator_home), ASCEND_EMULATOR_DEVICES="0")
    assert data["stops"] and "207004 ACL_ERROR_RT_NO_DEVICE" in data["problem"]
    assert "check ASCEND_RT_VISIBLE_DEVICES" in data["advice"]


def test_a_count_of_zero_is_no_success(tmp_path: Path, emulator_home: Path) -> None:
    """Some drivers report success and count 0."""
    program = """
from ascend_aclnn.backends.npu import runtime
from ascend_aclnn.core.errors import LibraryNotFound
class Libraries:
    class search_result: runtime = "libascendcl.so"
    def function(self, name): return lambda *arguments: 0
    def optional(self, name): return None
try:
    runtime.Runtime.start(Libraries(), None)
except LibraryNotFound as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "aclrtGetDeviceCount finds 0 devices" in done.stdout and "SUCCESS" not in done.stdout
    assert done.stdout.splitlines()[-1].strip().startswith("check ASCEND_RT_VISIBLE_DEVICES")


@pytest.mark.parametrize("release", ["8.1.RC1", "9.0.0"])
def test_visible_devices_that_cann_refuses_have_one_remedy(tmp_path: Path, emulator_home: Path, release: str) -> None:
    text, data = examine(
        tmp_path,
        ASCEND_HOME_PATH=str(emulator_home),
        ASCEND_RT_VISIBLE_DEVICES="1,1",
        ASCEND_EMULATOR_CANN=release,
    )
    assert "EE2002" in data["problem"] and data["stops"]
    assert data["advice"].startswith("set the variable that the text names")
    (finding,) = data["findings"]
    assert finding["remedy"] == data["advice"]
    assert "npu-smi" not in text and "another process or container" not in text
    assert text.count(data["advice"]) == 1


# --------------------------------------------------------------------------------------- variables, the emulator


def test_each_variable_is_printed_where_it_is_set(tmp_path: Path) -> None:
    names = [variable.name for variable in variables.known()]
    assert len(names) > 25 and all(variable.meaning for variable in variables.known())
    plain = {"ASCEND_ACLNN_BACKEND": "numpy", "ASCEND_ACLNN_SOC": "Ascend910B1"}
    environ = {**{name: str(100 + index) for index, name in enumerate(names)}, **plain}
    text, data = examine(tmp_path, **environ)
    assert data["environment"] == environ
    rows = [line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith("variable ")]
    assert rows == [f"{name}={environ[name]}   ({variables.meaning(name)})" for name in names]


def test_variables_that_are_not_set(tmp_path: Path) -> None:
    text, data = examine(tmp_path, ASCEND_OPP_PATH="")
    assert data["environment"]["ASCEND_RT_VISIBLE_DEVICES"] is None and data["environment"]["ASCEND_OPP_PATH"] == ""
    assert "HCCL_CONNECT_TIMEOUT" not in data["environment"]
    assert "ASCEND_RT_VISIBLE_DEVICES=" not in text and "ASCEND_OPP_PATH=   (" in text


@pytest.mark.parametrize(
    ("compiler", "carried", "built", "text"),
    [
        (True, False, False, "can be built (cc 1.0)"),
        (False, True, False, "ready: the package carries its libraries"),
        (False, False, True, "ready: it has been built"),
        (False, False, False, "cannot be built: no C compiler (cc, gcc or clang) found"),
    ],
)
def test_the_emulator_as_emulator_doctor_sees_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiler: bool, carried: bool, built: bool, text: str
) -> None:
    from ascend_aclnn.cli import doctor

    monkeypatch.setattr(doctor, "_compiler", lambda: "cc 1.0" if compiler else None)
    monkeypatch.setattr(doctor, "prebuilt", lambda options: tmp_path if carried else None)
    monkeypatch.setattr(doctor.cache, "is_complete", lambda directory: built)
    assert doctor._emulator() == text
    monkeypatch.setenv("ASCEND_EMULATOR_CANN", "0.1")
    assert doctor._emulator().startswith("cannot be used: ")
