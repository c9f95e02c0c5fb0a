"""What goes wrong around the device: files that cannot be read, Ctrl-C, stale messages, names that nobody knows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ascend_aclnn as aclnn
from ascend_aclnn.backends.npu import library
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
        timeout=600,
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
    [
        *("aclnn.synchronize()", "stream.synchronize()", "event.synchronize()", "y.numpy()"),
        *("aclnn.synchronize(60)", "stream.synchronize(60)", "event.synchronize(60)"),
    ],
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
    print(time.monotonic() - pressed[0] < 30)  # of 60, or for ever; on an idle machine 0.1 s
else:
    raise AssertionError("not interrupted")
finally:
    os.kill(pid, signal.SIGCONT)
assert y.numpy().tolist() == [1] * 4
"""
    assert run(emulator_home, program) == "True\n"


STOPPED = """
aclnn.use_backend("npu")
emulated = ctypes.CDLL(str(aclnn.backend().library_path))
x = aclnn.asarray(np.ones(4, np.float32))
ops.abs(x).numpy()
pid = emulated.aclemuDevicePid(0)
def stop():
    os.kill(pid, signal.SIGSTOP)
    while open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
        time.sleep(0.01)
def go_on():
    os.kill(pid, signal.SIGCONT)
def press():
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started without it
"""


@pytest.mark.parametrize("wait", ["aclnn.synchronize", "stream.synchronize", "event.synchronize"])
def test_no_native_wait_times_out(emulator_home: Path, wait: str) -> None:
    program = f"""{STOPPED}
stream, event = aclnn.Stream(), aclnn.Event()
stop()
y = ops.abs(x, stream=stream)
event.record(stream)
try:
    {wait}(0.3)
except TimeoutError:
    print("gave up")
threading.Timer(0.5, go_on).start()
{wait}()
stop()
ops.abs(x, out=y, stream=stream)
event.record(stream)
threading.Timer(0.5, go_on).start()
{wait}(60)
stop()
y = ops.abs(x)
threading.Timer(0.5, go_on).start()
y.numpy()
print(emulated.aclemuTimedOutWaits())
"""
    assert run(emulator_home, program).splitlines() == ["gave up", "0"]


def test_what_ctrl_c_leaves_behind(emulator_home: Path) -> None:
    """An event that is still waited for natively lives until the wait has ended; there is one wait for each."""
    program = f"""{STOPPED}
stream, event = aclnn.Stream(), aclnn.Event()
stop()
y = ops.abs(x, stream=stream)
event.record(stream)
pending = aclnn.backend().runtime.waits._pending
def press_when(waits):
    while len(pending) < waits:
        time.sleep(0.01)
    time.sleep(0.1)
    press()
native = (1, event.synchronize), (1, event.synchronize), (2, stream.synchronize), (3, aclnn.synchronize), (3, y.numpy)
for waits, wait in native:
    try:
        threading.Thread(target=press_when, args=(waits,)).start()
        wait()
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("not interrupted")
print(sum(thread.name == "ascend-aclnn-wait" for thread in threading.enumerate()))
event.close()
emulated.aclemuLiveCount.restype = ctypes.c_int64
print(emulated.aclemuLiveCount(b"event"))
go_on()
stream.close()
print(y.numpy().tolist())
deadline = time.monotonic() + 60
while emulated.aclemuLiveCount(b"event") and time.monotonic() < deadline:
    aclnn.empty_cache()
print(emulated.aclemuLiveCount(b"event"))
"""
    assert run(emulator_home, program).splitlines() == ["3", "1", "[1.0, 1.0, 1.0, 1.0]", "0"]


def test_a_signal_handler_may_wait_during_a_wait(emulator_home: Path) -> None:
    program = f"""{STOPPED}
stop()
y = ops.abs(x)
def handler(number, frame):
    go_on()
    print(y.numpy().tolist())
signal.signal(signal.SIGUSR1, handler)
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
aclnn.synchronize()
print(y.numpy().tolist())
"""
    assert run(emulator_home, program).splitlines() == ["[1.0, 1.0, 1.0, 1.0]"] * 2


def test_a_fault_that_a_helper_meets_has_its_text(emulator_home: Path) -> None:
    program = f"""{STOPPED}
table, rows = aclnn.asarray(np.ones((2, 2), np.float32)), aclnn.asarray(np.array([1]))
ops.embedding(table, rows).numpy()
rows.assign(5)
aclnn.synchronize()
stop()
y = ops.embedding(table, rows)
threading.Timer(0.3, go_on).start()
try:
    y.numpy()
except aclnn.AclError as error:
    print(error.status, error)
"""
    text = run(emulator_home, program)
    assert "aclnnEmbedding" in text and "launched since" in text and "indices element [0] is 5" in text, text


def test_exit_while_a_wait_is_under_way(emulator_home: Path) -> None:
    """The wait that Ctrl-C left ends before streams and the device are given back."""
    program = f"""{STOPPED}
stop()
y = ops.abs(x)
threading.Timer(0.1, press).start()
try:
    aclnn.synchronize()
except KeyboardInterrupt:
    print("interrupted", flush=True)
threading.Timer(0.3, go_on).start()
"""
    assert run(emulator_home, program, ASCEND_EMULATOR_STRICT="1").splitlines() == ["interrupted"]


def test_exit_waits_without_a_native_wait_that_times_out(emulator_home: Path) -> None:
    """At exit there may be no new thread (Python 3.12)."""
    program = f"""{STOPPED}
import atexit
stop()
y = ops.abs(x)
runtime = aclnn.backend().runtime
atexit.unregister(runtime.close)
def end():
    runtime.close()
    print(emulated.aclemuTimedOutWaits(), emulated.aclemuLiveCount(None))
atexit.register(end)
later = threading.Timer(0.5, go_on)
later.daemon = True
later.start()
"""
    assert run(emulator_home, program, ASCEND_EMULATOR_STRICT="1").splitlines() == ["0 0"]


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
