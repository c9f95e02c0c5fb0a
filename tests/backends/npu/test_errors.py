"""What goes wrong around the device: files that cannot be read, Ctrl-C, stale messages, names that nobody knows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ascend_aclnn as aclnn
from ascend_aclnn.backends.npu import library
from ascend_aclnn.backends.npu.runtime import STREAM_TIMEOUT, Runtime
from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.core import socs
from ascend_aclnn.core.errors import LibraryNotFound


def run(home: Path, program: str, **options: str) -> str:
    head = "import ctypes, os, signal, sys, threading, time\nimport numpy as np\nimport ascend_aclnn as aclnn\n"
    head += "from ascend_aclnn import ops\n"
    done = subprocess.run(
        [sys.executable, "-c", head + program],
        env=environment(home, **options),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ------------------------------------------------------------------------------------------ files that cannot be read


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CANN whose lib64 this user may not enter; by patches, because the tests may run as root."""
    home = tmp_path / "cann"
    (home / "lib64").mkdir(parents=True)
    real_stat, real_access = Path.stat, os.access

    def stat(path: Path, **options: Any) -> os.stat_result:
        if home / "lib64" in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        return real_stat(path, **options)

    def access(path: Any, mode: int) -> bool:
        return Path(path) != home / "lib64" and real_access(path, mode)

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(os, "access", access)
    return home


def test_a_cann_of_another_group_is_named_with_its_owner_and_the_remedy(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "already_loaded", lambda name: None)  # by an earlier test of this process
    found = library.search({"ASCEND_HOME_PATH": str(closed)}, ())
    assert found.runtime is None
    reason = found.refused[0].reason
    assert "Permission denied" in reason and f"{closed}/lib64 belongs to" in reason and "mode 0" in reason
    assert "--install-for-all" in found.remedy() and "usermod" in found.remedy()
    with pytest.raises(LibraryNotFound, match="--install-for-all"):
        library.Libraries.open({"ASCEND_HOME_PATH": str(closed)}, ())


def test_a_prefix_that_cannot_be_looked_at(closed: Path) -> None:
    found = library.search({}, (closed / "lib64" / "latest",))
    assert any("Permission denied" in place for place in found.looked_in)


# ------------------------------------------------------------------------------------------ waiting


@pytest.mark.parametrize(
    "wait",
    ["aclnn.synchronize()", "stream.synchronize()", "event.synchronize()", "y.numpy()", "stream.synchronize(60)"],
)
def test_ctrl_c_ends_a_wait_and_the_process_goes_on(emulator_home: Path, wait: str) -> None:
    program = f"""
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started without it
aclnn.use_backend("npu")
x = aclnn.asarray(np.ones(4, np.float32))
stream, event = aclnn.Stream(), aclnn.Event()
ops.abs(x, stream=stream).numpy()
pid = ctypes.CDLL(str(aclnn.backend().library_path)).aclemuDevicePid(0)
os.kill(pid, signal.SIGSTOP)
while open(f"/proc/{{pid}}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
    time.sleep(0.01)
y = ops.abs(x, stream=stream)
event.record(stream)
pressed = []
def press():
    time.sleep(0.3)
    pressed.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
try:
    threading.Thread(target=press).start()
    {wait}
except KeyboardInterrupt:
    print(time.monotonic() - pressed[0])
else:
    raise AssertionError("not interrupted")
finally:
    os.kill(pid, signal.SIGCONT)
assert y.numpy().tolist() == [1] * 4
"""
    assert float(run(emulator_home, program)) < 1  # 0.1 s on an idle machine


def test_a_wait_hears_ctrl_c_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []

    def wait(stream: int, milliseconds: int) -> int:
        waits.append(milliseconds)
        return STREAM_TIMEOUT if len(waits) < 5 else 0

    device = Runtime.__new__(Runtime)
    monkeypatch.setattr(device, "libraries", SimpleNamespace(optional=lambda name: wait), raising=False)
    monkeypatch.setattr(device, "recent_error", lambda: "")
    assert device._wait("aclrtSynchronizeStream", STREAM_TIMEOUT, 7) == 0
    assert waits == [100] * 5


# ------------------------------------------------------------------------------------------ messages


def test_the_text_of_an_earlier_error_is_not_repeated(emulator_home: Path) -> None:
    # CANN clears its message only while the device is well; the emulated one does the same
    program = """
aclnn.use_backend("npu")
runtime = aclnn.backend().runtime
x = aclnn.asarray(np.ones(4, np.float32))
ops.abs(x).numpy()
os.kill(ctypes.CDLL(str(aclnn.backend().library_path)).aclemuDevicePid(0), signal.SIGKILL)
try:
    ops.abs(x).numpy()
except aclnn.AclError as error:
    first = error.detail
assert "EMULATOR_DEVICE_LOST" in first, first
texts = []
for name in ("aclrtSetDevice", "aclrtSetDevice"):
    try:
        runtime.call(name, 99 + len(texts))
    except aclnn.AclError as error:
        texts.append(error.detail)
assert "EMULATOR_DEVICE_LOST" not in texts[0] and "99" in texts[0], texts
assert "device 99" not in texts[1] and "100" in texts[1], texts
os._exit(0)
"""
    run(emulator_home, program)


# ------------------------------------------------------------------------------------------ names of SoCs


def test_a_name_that_the_device_reports_falls_back_to_its_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socs, "_reported", {})
    socs.soc.cache_clear()
    for name, product in (("Ascend910_9589", "950"), ("Ascend910_93A2", "A3"), ("Ascend310P9x", "310P"), ("Foo", "A2")):
        if name != "Ascend910_93A2":  # fits the pattern of its line
            with pytest.warns(RuntimeWarning, match=name):
                socs.accept_reported(name)
        else:
            socs.accept_reported(name)
        found = socs.soc(name)
        assert found.name == name and found.product == product
    socs.soc.cache_clear()


def test_a_name_that_the_user_gives_must_be_known() -> None:
    with pytest.raises(ValueError, match="Ascend910_9589"):
        aclnn.use_backend("numpy", soc="Ascend910_9589")


# ------------------------------------------------------------------------------------------ NumPy and device memory


def test_numpy_refuses_to_share_device_memory_and_leaks_nothing(emulator_home: Path) -> None:
    program = """
from ascend_aclnn.core import dlpack
aclnn.use_backend("npu")
x = aclnn.asarray(np.ones(4, np.float32))
for _ in range(3):
    try:
        np.from_dlpack(x)
    except (BufferError, RuntimeError) as error:
        print(type(error).__name__, error)
    else:
        raise AssertionError("shared")
kept = x.__dlpack__()
dlpack.release_unused()
assert len(dlpack._exported) == 1
del kept
dlpack.release_unused()
assert not dlpack._exported and not dlpack._waiting
"""
    assert run(emulator_home, program).lower().count("device") == 3
