"""Memory and events that processes share: each test has two of them, and either may be killed."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from emulator_client import D2H, H2D, NEWEST, Cann, Location, Property, client, environment

from ascend_aclnn.emulator.build import build

MIB = 1 << 20
ANYBODY = 1
IPC_EVENT = 64
KEY_BYTES = 65
NOT_SHARED = "EMULATOR_NOT_SHARED"


class EventHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


class Other:
    """Another process that runs a function of this file, and talks with this one in lines."""

    def __init__(self, function: Callable[..., None], *arguments: object) -> None:
        code = (
            "import importlib.util, json, os, sys, emulator_client\n"
            f"spec = importlib.util.spec_from_file_location('test_sharing', {__file__!r})\n"
            "module = importlib.util.module_from_spec(spec)\n"
            "spec.loader.exec_module(module)\n"
            "cann = emulator_client.Cann()\n"
            f"getattr(module, {function.__name__!r})(cann, *json.loads(sys.argv[1]))\n"
            "cann.finish()\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the other process has ended: {self.process.wait()}"
        return json.loads(line)

    def say(self, value: object) -> None:
        assert self.process.stdin is not None
        print(json.dumps(value), file=self.process.stdin, flush=True)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        out, _ = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, out


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


def hear() -> Any:
    return json.loads(sys.stdin.readline())


def export(cann: Cann, address: int, nbytes: int, flags: int = ANYBODY) -> str:
    key = ctypes.create_string_buffer(KEY_BYTES)
    cann.aclrtIpcMemGetExportKey(address, nbytes, key, KEY_BYTES, flags)
    return key.value.decode()


def import_key(cann: Cann, key: str) -> int:
    return cann.create("aclrtIpcMemImportByKey", key.encode(), 1)


def write(cann: Cann, address: int, values: np.ndarray) -> None:
    cann.aclrtMemcpy(address, values.nbytes, values.ctypes.data, values.nbytes, H2D)


def read(cann: Cann, address: int, count: int) -> list[float]:
    out = np.zeros(count, np.float32)
    cann.aclrtMemcpy(out.ctypes.data, out.nbytes, address, out.nbytes, D2H)
    return out.tolist()


def negate(cann: Cann, address: int, count: int) -> None:
    """In place, by an operator of this process's own device process."""
    handle = cann.describe((count,), np.float32, address)
    cann.run("aclnnNeg", handle, handle)
    cann.aclDestroyTensor(handle)


def used(cann: Cann) -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cann.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value


# --------------------------------------------------------------------------------------------------------------- by a key


def negates(cann: Cann, key: str, count: int) -> None:
    before = used(cann)
    address = import_key(cann, key)
    assert import_key(cann, key) == address  # the same memory at one address; closed as often
    cann.aclrtIpcMemClose(key.encode())
    assert used(cann) == before  # it is the other process's
    assert read(cann, address, count) == list(range(count))
    negate(cann, address, count)
    values = np.zeros(count + 1, np.float32)
    error = cann.failure("aclrtMemcpy", address, values.nbytes, values.ctypes.data, values.nbytes, H2D)
    assert error.error == "EMULATOR_OUT_OF_BOUNDS"
    assert cann.failure("aclrtFree", address).error == "EMULATOR_INVALID_ADDRESS"
    say("done")
    assert hear() == "close"
    cann.aclrtIpcMemClose(key.encode())
    assert cann.failure("aclrtMemcpy", address, 4, values.ctypes.data, 4, H2D).error == "EMULATOR_USE_AFTER_FREE"
    assert cann.failure("aclrtIpcMemClose", key.encode()).error == NOT_SHARED
    say("closed")


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_operators_of_another_process_work_on_shared_memory(cann: Cann) -> None:
    first, block = cann.malloc(512), cann.malloc(4000)  # it begins within a page
    values = np.arange(1000, dtype=np.float32)
    write(cann, first, np.ones(4, np.float32))
    write(cann, block, values)
    key = export(cann, block, values.nbytes)
    other = Other(negates, key, values.size)
    assert other.hear() == "done"
    assert read(cann, block, values.size) == (-values).tolist()
    assert read(cann, first, 4) == [1.0] * 4
    for name, argument in (("aclrtIpcMemClose", key.encode()), ("aclrtFree", block)):
        error = cann.failure(name, argument)
        assert error.error == "EMULATOR_FREE_IN_USE"
        assert "another process still uses" in error.message
    other.say("close")
    assert other.hear() == "closed"
    other.end()
    cann.aclrtIpcMemClose(key.encode())
    cann.aclrtFree(block)
    cann.aclrtFree(first)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_a_killed_importer_holds_nothing(cann: Cann) -> None:
    block = cann.malloc(4000)
    values = np.arange(1000, dtype=np.float32)
    write(cann, block, values)
    key = export(cann, block, values.nbytes)
    other = Other(negates, key, values.size)
    other.hear()
    other.kill()
    cann.aclrtIpcMemClose(key.encode())
    cann.aclrtFree(block)


def exports(cann: Cann, how: str) -> None:
    block = cann.malloc(4 * MIB)
    write(cann, block, np.arange(8, dtype=np.float32))
    say(export(cann, block, 4 * MIB))
    if hear() == "reset":
        cann.aclrtResetDevice(0)
        cann.aclrtSetDevice(0)
        again = cann.malloc(4 * MIB)
        write(cann, again, np.full(MIB, 7, np.float32))  # the same place, another file
        negate(cann, again, 8)
        assert read(cann, again, 8) == [-7.0] * 8
        cann.aclrtFree(again)
        say("reset")
        hear()
    else:
        cann.aclrtFree(block)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_memory_of_a_killed_exporter_stays_until_it_is_closed(cann: Cann) -> None:
    other = Other(exports, "")
    key = other.hear()
    address = import_key(cann, key)
    other.kill()
    negate(cann, address, 8)
    assert read(cann, address, 8) == [-float(i) for i in range(8)]
    cann.aclrtIpcMemClose(key.encode())
    error = cann.failure("aclrtIpcMemImportByKey", ctypes.byref(ctypes.c_void_p()), key.encode(), 1)
    assert error.error == NOT_SHARED
    assert "has ended" in error.message


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_what_others_use_outlives_a_reset_of_the_exporter(cann: Cann) -> None:
    other = Other(exports, "")
    key = other.hear()
    address = import_key(cann, key)
    other.say("reset")
    assert other.hear() == "reset"
    assert read(cann, address, 8) == [float(i) for i in range(8)]
    name, number = key[:-16], key[-16:]
    # Another number, and the same number written otherwise.
    for forged in (f"{key[:-1]}z", f"{name}0x{number[2:]}", f"{name}+{number[1:]}", f"{name} {number[1:]}", f"{key}z"):
        failure = cann.failure("aclrtIpcMemImportByKey", ctypes.byref(ctypes.c_void_p()), forged.encode(), 1)
        assert failure.error == NOT_SHARED, forged
    cann.aclrtIpcMemClose(key.encode())
    assert cann.failure("aclrtIpcMemImportByKey", ctypes.byref(ctypes.c_void_p()), key.encode(), 1).error == NOT_SHARED
    other.say("end")
    other.end()


@client(ASCEND_EMULATOR_CANN=NEWEST, ASCEND_EMULATOR_FILL="0")
def test_a_reset_of_the_importer_lets_the_memory_go(cann: Cann) -> None:
    other = Other(exports, "")
    address = import_key(cann, other.hear())
    assert read(cann, address, 2) == [0.0, 1.0]
    pid = cann.device_pid()
    cann.aclrtResetDevice(0)
    for process in (os.getpid(), pid):
        maps = Path(f"/proc/{process}/maps").read_text()
        files = {line.split()[4] for line in maps.splitlines() if "ascend-device-memory" in line}
        assert len(files) == 1  # its own
    cann.aclrtSetDevice(0)
    block = cann.malloc(4 * MIB)
    negate(cann, block, 8)  # where the other's memory was: its own again
    assert read(cann, block, 8) == [-0.0] * 8
    cann.aclrtFree(block)
    other.say("end")
    other.end()


def tries(cann: Cann, key: str) -> None:
    say(os.getpid())
    hear()
    error = cann.failure("aclrtIpcMemImportByKey", ctypes.byref(ctypes.c_void_p()), key.encode(), 0)
    say([error.status, error.error, error.message])
    if hear() == "again":
        import_key(cann, key)
        cann.aclrtIpcMemClose(key.encode())
        say("imported")


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_only_processes_that_are_allowed_import(cann: Cann) -> None:
    block = cann.malloc(4096)
    key = export(cann, block, 4096, 0)
    other = Other(tries, key)
    pid = other.hear()
    other.say("go")
    status, name, text = other.hear()
    assert (status, name) == (207006, NOT_SHARED)
    assert "has not allowed" in text
    cann.aclrtIpcMemSetImportPid(key.encode(), (ctypes.c_int32 * 2)(1, pid), 2)
    other.say("again")
    assert other.hear() == "imported"
    other.end()
    cann.aclrtIpcMemClose(key.encode())
    cann.aclrtFree(block)


def asks_as_another_user(ready: int) -> None:
    """In a child that was forked before a device was used: it opens no file of its own, which other users may not."""
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    key = os.read(ready, KEY_BYTES)
    cann = Cann()
    error = cann.failure("aclrtIpcMemImportByKey", ctypes.byref(ctypes.c_void_p()), key, 1)
    os._exit(0 if (error.status, error.error) == (207006, NOT_SHARED) and "another user's" in error.message else 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_import(emulator_home: Path) -> None:
    code = (
        "import os, importlib.util, emulator_client\n"
        f"spec = importlib.util.spec_from_file_location('test_sharing', {__file__!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "emulator_client.Cann(False)\n"
        "ready, writer = os.pipe()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    module.asks_as_another_user(ready)\n"
        "cann = emulator_client.Cann()\n"
        "block = cann.malloc(4096)\n"
        "os.write(writer, module.export(cann, block, 4096).encode())\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "cann.aclrtFree(block)\n"
        "cann.finish()\n"
    )
    home = build(cann=NEWEST)
    environment_ = environment(home, ASCEND_EMULATOR_CANN=NEWEST)
    done = subprocess.run([sys.executable, "-c", code], env=environment_, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_what_cannot_be_exported_is_refused(cann: Cann) -> None:
    key = ctypes.create_string_buffer(KEY_BYTES)
    block = cann.malloc(4096)
    host = np.zeros(4096, np.uint8)
    for arguments, error in (
        ((host.ctypes.data, 4096, key, KEY_BYTES, 0), "EMULATOR_INVALID_ADDRESS"),
        ((block, 8192, key, KEY_BYTES, 0), "EMULATOR_OUT_OF_BOUNDS"),
        ((block, 4096, key, 64, 0), ""),
        ((block, 0, key, KEY_BYTES, 0), ""),
        ((block, 4096, key, KEY_BYTES, 2), ""),
    ):
        failure = cann.failure("aclrtIpcMemGetExportKey", *arguments)
        assert (failure.status, failure.error) == (107000, error)
    # Freed memory is not shared any more.
    name = export(cann, block, 4096)
    cann.aclrtFree(block)
    assert cann.failure("aclrtIpcMemClose", name.encode()).error == NOT_SHARED
    for wrong in (b"", b"ascend-emulator-", b"x" * 64):
        assert cann.failure("aclrtIpcMemClose", wrong).error == NOT_SHARED


# -------------------------------------------------------------------------------------------------------- physical memory


def physical(cann: Cann, size: int) -> int:
    return cann.create("aclrtMallocPhysical", size, ctypes.byref(Property(0, 0, 4, Location(0, 1), 0)), 0)


def maps_physical(cann: Cann, shareable: int) -> None:
    handle = ctypes.c_void_p()
    cann.aclrtMemImportFromShareableHandle(shareable, 0, ctypes.byref(handle))
    base = cann.create("aclrtReserveMemAddress", 8 * MIB, 0, None, 0)
    cann.aclrtMapMem(base + 2 * MIB, 2 * MIB, 0, handle, 0)
    assert read(cann, base + 2 * MIB, 4) == [0.0, 1.0, 2.0, 3.0]
    negate(cann, base + 2 * MIB, 4)
    say("done")
    assert hear() == "end"
    assert read(cann, base + 2 * MIB, 4) == [0.0, -1.0, -2.0, -3.0]
    assert (
        cann.failure("aclrtMemExportToShareableHandle", handle, 0, 1, ctypes.byref(ctypes.c_uint64())).status == 107000
    )
    cann.aclrtUnmapMem(base + 2 * MIB)
    cann.aclrtFreePhysical(handle)
    cann.aclrtReleaseMemAddress(base)


@client()
def test_physical_memory_is_mapped_in_another_process(cann: Cann) -> None:
    handle, shareable = physical(cann, 2 * MIB), ctypes.c_uint64()
    base = cann.create("aclrtReserveMemAddress", 2 * MIB, 0, None, 0)
    cann.aclrtMapMem(base, 2 * MIB, 0, handle, 0)
    write(cann, base, np.arange(4, dtype=np.float32))
    cann.aclrtMemExportToShareableHandle(handle, 0, ANYBODY, ctypes.byref(shareable))
    assert cann.failure("aclrtMemExportToShareableHandle", handle, 0, ANYBODY, ctypes.byref(shareable)).status == 107000
    assert (
        cann.failure("aclrtMemImportFromShareableHandle", shareable, 0, ctypes.byref(ctypes.c_void_p())).status
        == 107000
    )
    other = Other(maps_physical, shareable.value)
    assert other.hear() == "done"
    assert read(cann, base, 4) == [0.0, -1.0, -2.0, -3.0]
    # The memory is there until the last of both has freed it.
    cann.aclrtUnmapMem(base)
    cann.aclrtFreePhysical(handle)
    assert used(cann) == 2 * MIB
    other.say("end")
    other.end()
    handle = physical(cann, 2 * MIB)
    assert used(cann) == 2 * MIB
    cann.aclrtFreePhysical(handle)
    assert used(cann) == 0
    cann.aclrtReleaseMemAddress(base)


@client()
def test_physical_memory_can_be_mapped_twice_and_on_another_device(cann: Cann) -> None:
    handle = physical(cann, 2 * MIB)
    first, second = (cann.create("aclrtReserveMemAddress", 2 * MIB, 0, None, 0) for _ in range(2))
    cann.aclrtSetDevice(1)
    third = cann.create("aclrtReserveMemAddress", 2 * MIB, 0, None, 0)
    cann.aclrtSetDevice(0)
    for address in (first, second, third):
        cann.aclrtMapMem(address, 2 * MIB, 0, handle, 0)
    write(cann, first, np.arange(4, dtype=np.float32))
    negate(cann, second, 4)
    assert read(cann, third, 4) == [0.0, -1.0, -2.0, -3.0]
    cann.aclrtFreePhysical(handle)
    for address in (first, second, third):
        cann.aclrtUnmapMem(address)
        cann.aclrtReleaseMemAddress(address)
    assert used(cann) == 0
    cann.aclrtResetDevice(1)


@client()
def test_where_physical_memory_has_its_bytes_nothing_is_mapped_or_released(cann: Cann) -> None:
    """Its own addresses lie beside those that are reserved, and no function gives them."""
    base = cann.create("aclrtReserveMemAddress", 2 * MIB, 0, None, 0)
    handles = [physical(cann, 2 * MIB) for _ in range(3)]
    for place in range(-8, 9):
        if place:
            cann.failure("aclrtMapMem", base + place * 2 * MIB, 2 * MIB, 0, handles[0], 0)
            cann.failure("aclrtReleaseMemAddress", base + place * 2 * MIB)
    for handle in handles:
        cann.aclrtFreePhysical(handle)
    cann.aclrtReleaseMemAddress(base)
    assert used(cann) == 0


# ----------------------------------------------------------------------------------------------------------------- events


def waits(cann: Cann, name: str, key: str) -> None:
    """Queues a wait for the event and an operator behind it, on memory that the other process writes."""
    address = import_key(cann, key)
    event = ctypes.c_void_p()
    open_event(cann, bytes.fromhex(name), event)
    say("open")
    assert hear() == "recorded"
    cann.aclrtStreamWaitEvent(None, event)
    status = ctypes.c_int32()
    cann.aclrtQueryEventStatus(event, ctypes.byref(status))
    out = cann.tensor(np.zeros(4, np.float32))
    x = cann.describe((4,), np.float32, address)
    executor, size = cann.prepare("aclnnNeg", x, out)
    workspace = cann.malloc(max(size, 1))
    cann.aclnnNeg(workspace, size, executor, None)
    say(status.value)
    error = None
    try:
        cann.aclrtSynchronizeStream(None)
    except RuntimeError as failure:
        error = str(failure)
    say([error, cann.read(out).tolist()])
    cann.aclrtFree(workspace)
    cann.aclDestroyTensor(x)
    cann.aclrtDestroyEvent(event)
    cann.aclrtIpcMemClose(key.encode())


def open_event(cann: Cann, handle: bytes, event: ctypes.c_void_p) -> None:
    """The handle is passed by value, which the helper's argument types do not know."""
    function = cann.libraries[0].aclrtIpcOpenEventHandle
    function.argtypes, function.restype = [EventHandle, ctypes.c_void_p], ctypes.c_int
    assert function(EventHandle.from_buffer_copy(handle), ctypes.byref(event)) == 0, cann.message()


def event_handle(cann: Cann, event: int) -> str:
    handle = EventHandle()
    cann.aclrtIpcGetEventHandle(event, ctypes.byref(handle))
    return bytes(handle).hex()


def records_behind_a_gate(cann: Cann) -> None:
    """Its stream waits for a callback before it writes and the event passes."""
    import threading

    gate, block = threading.Event(), cann.malloc(16)
    event = cann.create("aclrtCreateEventExWithFlag", IPC_EVENT)
    say([event_handle(cann, event), export(cann, block, 16)])
    assert hear() == "record"
    stream = cann.create("aclrtCreateStream")
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gate.wait() and None)
    cann.libraries[0].aclrtLaunchHostFunc.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    assert cann.libraries[0].aclrtLaunchHostFunc(stream, ctypes.cast(call, ctypes.c_void_p), None) == 0
    values = np.arange(4, dtype=np.float32)
    cann.aclrtMemcpyAsync(block, 16, values.ctypes.data, 16, H2D, stream)
    cann.aclrtRecordEvent(event, stream)
    say("recorded")
    assert hear() == "go"
    gate.set()
    cann.aclrtSynchronizeStream(stream)
    hear()
    cann.aclrtDestroyStream(stream)
    cann.aclrtDestroyEvent(event)
    cann.aclrtFree(block)


def a_waiter_and_a_recorder() -> tuple[Other, Other]:
    recorder = Other(records_behind_a_gate)
    waiter = Other(waits, *recorder.hear())
    assert waiter.hear() == "open"
    recorder.say("record")
    assert recorder.hear() == "recorded"
    waiter.say("recorded")
    assert waiter.hear() == 0  # the event has not passed
    time.sleep(0.1)
    return waiter, recorder


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_a_stream_waits_for_another_process_s_event(cann: Cann) -> None:
    waiter, recorder = a_waiter_and_a_recorder()
    recorder.say("go")
    assert waiter.hear() == [None, [0.0, -1.0, -2.0, -3.0]]
    waiter.end()
    recorder.say("end")
    recorder.end()


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_a_wait_for_a_killed_process_s_event_fails_and_does_not_hang(cann: Cann) -> None:
    waiter, recorder = a_waiter_and_a_recorder()
    recorder.kill()
    error, _ = waiter.hear()
    assert "507022" in error
    assert NOT_SHARED in error
    assert "has ended" in error
    waiter.end()


@client(ASCEND_EMULATOR_CANN=NEWEST, ASCEND_EMULATOR_STREAMS="deferred")
def test_a_shared_event_passes_though_nobody_synchronizes(cann: Cann) -> None:
    block = cann.tensor(np.arange(4, dtype=np.float32))
    event = cann.create("aclrtCreateEventExWithFlag", IPC_EVENT)
    waiter = Other(waits, event_handle(cann, event), export(cann, block.address, 16))
    assert waiter.hear() == "open"
    cann.aclrtRecordEvent(event, None)
    waiter.say("recorded")
    waiter.hear()
    assert waiter.hear() == [None, [0.0, -1.0, -2.0, -3.0]]
    waiter.end()
    cann.aclrtDestroyEvent(event)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_events_are_recorded_again_on_both_sides(cann: Cann) -> None:
    event, opened = cann.create("aclrtCreateEventExWithFlag", IPC_EVENT), ctypes.c_void_p()
    open_event(cann, bytes.fromhex(event_handle(cann, event)), opened)  # in the same process
    status = ctypes.c_int32()
    for _ in range(200):
        cann.aclrtRecordEvent(event, None)
        cann.aclrtStreamWaitEvent(None, opened)
        cann.aclrtRecordEvent(opened, None)
        cann.aclrtSynchronizeEvent(event)
        cann.aclrtQueryEventStatus(event, ctypes.byref(status))
        assert status.value == 1
    cann.aclrtSynchronizeStream(None)
    plain = cann.create("aclrtCreateEventExWithFlag", 1)
    assert cann.failure("aclrtIpcGetEventHandle", plain, ctypes.byref(EventHandle())).status == 107000
    for made in (plain, event, opened):
        cann.aclrtDestroyEvent(made)
