"""The emulated runtime: initialisation, devices and contexts, memory and copies, options, handles and their misuse."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
from emulator_client import D2D, D2H, H2D, NEWEST, Cann, client, environment, run_body

MIB = 1 << 20


# ------------------------------------------------------------------------------------------------------ initialisation


def body_initialise(cann: Cann) -> None:
    assert cann.failure("aclInit", None).status == 100002  # counts nevertheless
    count = ctypes.c_uint64(9)
    cann.aclFinalizeReference(ctypes.byref(count))
    assert count.value == 1
    cann.aclrtResetDevice(0)
    cann.aclFinalize()
    assert cann.failure("aclFinalize").status == 100037
    assert cann.failure("aclInit", b"/nonexistent/acl.json").status == 100003
    cann.aclInit(None)  # and again
    cann.aclrtSetDevice(0)


def test_init_counts_and_finalize_ends_it(emulator_home: Path) -> None:
    done = run_body(body_initialise, emulator_home, ASCEND_EMULATOR_CANN=NEWEST)
    assert done.returncode == 0, done.stderr


@client(ASCEND_ACLNN_SOC="Ascend310P3")
def test_the_chip_is_the_one_asked_for(cann: Cann) -> None:
    assert cann.aclrtGetSocName() == b"Ascend310P3"
    value = ctypes.c_int32(9)
    cann.aclGetCannAttribute(1, ctypes.byref(value))
    assert value.value == 0  # no bfloat16
    cores = ctypes.c_int64()
    cann.aclGetDeviceCapability(0, 0, ctypes.byref(cores))
    assert cores.value == 8
    assert cann.failure("aclrtSetDeviceSatMode", 1).status == 207000  # saturation only
    x = cann.tensor(np.ones((2, 2), np.float32))
    try:
        cann.prepare("aclnnMoeTokenPermuteGrad", x, x, 1, False, x)
    except RuntimeError as error:
        assert "161002" in str(error)
    else:
        raise AssertionError("Ascend310P3 has no MoeTokenPermuteGrad")


@client(ASCEND_EMULATOR_CANN="8.1.RC1")
def test_what_a_program_may_ask(cann: Cann) -> None:
    assert cann.aclrtGetSocName() == b"Ascend910B1"
    numbers = [ctypes.c_int32() for _ in range(3)]
    cann.aclrtGetVersion(*map(ctypes.byref, numbers))
    assert [n.value for n in numbers] == [1, 13, 0]
    version = ctypes.create_string_buffer(512)
    cann.aclsysGetCANNVersion(0, version)
    assert version.raw.split(b"\0")[0] == b"8.1.RC1"
    count = ctypes.c_uint32()
    cann.aclrtGetDeviceCount(ctypes.byref(count))
    assert count.value == 2
    mode = ctypes.c_int32(9)
    cann.aclrtGetRunMode(ctypes.byref(mode))
    assert mode.value == 1
    cann.aclrtGetDeviceSatMode(ctypes.byref(mode))
    assert mode.value == 1
    for number, wanted in ((1.5, 0x3E00), (-2.0, 0xC000), (float("inf"), 0x7BFF), (6e-8, 1)):
        assert cann.aclFloatToFloat16(number) == wanted
    assert [cann.aclFloat16ToFloat(h) for h in (0x3E00, 0xC000, 1, 0x7C00)] == [1.5, -2.0, 2.0**-24, 65536.0]


@client(ASCEND_EMULATOR_CANN="9.1.0")
def test_the_release_that_is_claimed(cann: Cann) -> None:
    text, number = ctypes.create_string_buffer(128), ctypes.c_int32()
    cann.aclsysGetVersionStr(b"runtime", text)
    cann.aclsysGetVersionNum(b"runtime", ctypes.byref(number))
    assert (text.value, number.value) == (b"9.1.0", 90100000)
    version = ctypes.create_string_buffer(512)
    cann.aclsysGetCANNVersion(0, version)
    assert [version.raw[at : at + 64].rstrip(b"\0") for at in (128, 192, 256)] == [b"9", b"1", b"0"]


@client()
def test_every_other_function_refuses_by_name(cann: Cann) -> None:
    error = cann.failure("aclrtMemUceRepair", 0, None, 0)
    assert (error.status, error.error) == (200006, "EMULATOR_NOT_SUPPORTED")
    assert "aclrtMemUceRepair" in error.message
    assert cann.message() == ""
    assert cann.aclrtCreateGroupInfo() is None
    assert "aclrtCreateGroupInfo" in cann.message()


@client()
def test_options_are_kept_by_process_and_by_context(cann: Cann) -> None:
    value = ctypes.c_int64(9)
    cann.aclrtGetSysParamOpt(0, ctypes.byref(value))
    assert value.value == 0
    assert cann.failure("aclrtCtxGetSysParamOpt", 0, ctypes.byref(value)).status == 107021
    cann.aclrtSetSysParamOpt(0, 1)
    cann.aclrtGetSysParamOpt(0, ctypes.byref(value))
    assert value.value == 1
    assert cann.failure("aclrtCtxGetSysParamOpt", 0, ctypes.byref(value)).status == 107021
    cann.aclrtCtxSetSysParamOpt(0, 0)
    cann.aclrtCtxGetSysParamOpt(0, ctypes.byref(value))
    assert value.value == 0
    assert cann.failure("aclrtSetSysParamOpt", 4, 1).status == 107000


# ------------------------------------------------------------------------------------------------- devices and contexts


@client()
def test_each_thread_chooses_its_device(cann: Cann) -> None:
    found: list[object] = []

    def other() -> None:
        error = cann.failure("aclrtMalloc", ctypes.byref(ctypes.c_void_p()), 64, 0)
        found.append((error.status, error.error))
        cann.aclrtSetDevice(1)
        found.append(current_device(cann))
        address = cann.malloc(64)
        cann.aclrtFree(address)
        cann.aclrtResetDevice(1)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [(107002, "EMULATOR_NO_DEVICE"), 1]
    assert current_device(cann) == 0
    assert cann.failure("aclrtSetDevice", 2).status == 107001
    assert cann.failure("aclrtResetDevice", 1).status == 107002


def current_device(cann: Cann) -> int:
    device = ctypes.c_int32(-1)
    cann.aclrtGetDevice(ctypes.byref(device))
    return device.value


@client()
def test_set_and_reset_are_counted(cann: Cann) -> None:
    cann.aclrtSetDevice(0)
    address = cann.malloc(64)
    cann.aclrtResetDevice(0)
    cann.aclrtMemset(address, 64, 0, 64)  # still there
    cann.aclrtSetDevice(0)
    cann.aclrtResetDeviceForce(0)  # all at once
    assert cann.failure("aclrtMemset", address, 64, 0, 64).status == 107002
    cann.aclrtSetDevice(0)
    error = cann.failure("aclrtMemset", address, 64, 0, 64)
    assert error.error == "EMULATOR_USE_AFTER_FREE"
    assert cann.live("allocation") == 0


@client()
def test_contexts_keep_their_streams_apart(cann: Cann) -> None:
    stream = cann.create("aclrtCreateStream")
    first = cann.create("aclrtGetCurrentContext")
    second = cann.create("aclrtCreateContext", 0)
    error = cann.failure("aclrtSynchronizeStream", stream)
    assert (error.status, error.error) == (107003, "EMULATOR_WRONG_CONTEXT")
    assert cann.failure("aclrtDestroyStream", stream).status == 107003
    cann.aclrtSetCurrentContext(first)
    cann.aclrtSynchronizeStream(stream)
    cann.aclrtDestroyStream(stream)
    cann.aclrtDestroyContext(second)
    assert cann.failure("aclrtSetCurrentContext", second).error == "EMULATOR_USE_AFTER_DESTROY"
    assert cann.failure("aclrtDestroyContext", first).status == 107000  # it ends with the device


@client()
def test_a_stream_of_another_device_is_refused(cann: Cann) -> None:
    cann.aclrtSetDevice(1)
    stream = cann.create("aclrtCreateStream")
    cann.aclrtSetDevice(0)
    x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.eye(2, dtype=np.float32))
    executor, size = cann.prepare("aclnnMm", x, x, out, 0)
    workspace = cann.malloc(max(size, 1))
    error = cann.failure("aclnnMm", workspace, size, executor, stream)
    assert (error.status, error.error) == (361001, "EMULATOR_WRONG_CONTEXT")
    cann.aclrtFree(workspace)
    cann.aclrtSetDevice(1)
    cann.aclrtDestroyStream(stream)
    cann.aclrtResetDevice(1)
    cann.aclrtSetDevice(0)
    cann.aclrtResetDevice(0)


@client()
def test_two_devices_compute_and_copy(cann: Cann) -> None:
    cann.aclrtSetDevice(1)
    x = cann.tensor(np.arange(4, dtype=np.float32).reshape(2, 2))
    identity, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
    cann.run("aclnnMm", x, identity, out, 0)
    cann.aclrtSetDevice(0)
    here = cann.malloc(16)
    error = cann.failure("aclrtMemcpy", here, 16, out.address, 16, D2D)
    assert error.error == "EMULATOR_WRONG_CONTEXT"
    executor, size = cann.prepare("aclnnMm", x, identity, out, 0)
    workspace = cann.malloc(max(size, 1))
    error = cann.failure("aclnnMm", workspace, size, executor, None)
    assert error.error == "EMULATOR_WRONG_CONTEXT"  # memory of the other device
    assert "aclrtDeviceEnablePeerAccess" in error.message
    can = ctypes.c_int32()
    cann.aclrtDeviceCanAccessPeer(ctypes.byref(can), 0, 1)
    assert can.value == 1
    cann.aclrtDeviceEnablePeerAccess(1, 0)
    cann.aclrtMemcpy(here, 16, out.address, 16, D2D)
    host = np.empty((2, 2), np.float32)
    cann.aclrtMemcpy(host.ctypes.data, 16, here, 16, D2H)
    assert host.tolist() == [[0, 1], [2, 3]]
    cann.aclrtFree(here)
    cann.aclrtFree(workspace)
    assert cann.device_pid(0) != cann.device_pid(1) != 0
    cann.aclrtSetDevice(1)
    for tensor in (x, identity, out):
        cann.drop(tensor)
    cann.aclrtResetDevice(1)
    cann.aclrtSetDevice(0)
    for _ in range(2):
        cann.aclrtResetDevice(0)


@client()
def test_an_operator_uses_memory_of_a_peer(cann: Cann) -> None:
    cann.aclrtSetDevice(1)
    first = cann.malloc(100)  # so that the next allocations do not begin where a page does
    there, result = cann.tensor(np.zeros((2, 2), np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
    cann.aclrtSetDevice(0)
    here = cann.tensor(np.array([[1, 2], [3, 4]], np.float32))
    cann.aclrtDeviceEnablePeerAccess(1, 0)

    def write(number: float) -> None:
        values = np.full((2, 2), number, np.float32)
        cann.aclrtMemcpy(there.address, 16, values.ctypes.data, 16, H2D)

    for number in (1, 2):  # the second time, the memory is mapped already
        write(number)
        cann.run("aclnnMm", here, there, result, 0)
        assert cann.read(result).tolist() == [[3 * number] * 2, [7 * number] * 2]
    beyond = cann.describe((2, 3000), np.float32, there.address)
    wide = cann.tensor(np.zeros((2, 3000), np.float32))
    executor, size = cann.prepare("aclnnMm", here, beyond, wide, 0)
    workspace = cann.malloc(max(size, 1))
    assert cann.failure("aclnnMm", workspace, size, executor, None).error == "EMULATOR_OUT_OF_BOUNDS"

    stream, model = cann.create("aclrtCreateStream"), ctypes.c_void_p()
    cann.aclmdlRICaptureBegin(stream, 0)
    executor, size = cann.prepare("aclnnMm", here, there, result, 0)
    cann.aclnnMm(workspace, size, executor, stream)
    cann.aclmdlRICaptureEnd(stream, ctypes.byref(model))
    write(5)
    cann.aclmdlRIExecuteAsync(model, stream)
    cann.aclrtSynchronizeStream(stream)
    assert cann.read(result).tolist() == [[15, 15], [35, 35]]

    cann.aclrtSetDevice(1)
    cann.drop(there)
    cann.aclrtSetDevice(0)
    error = cann.failure("aclmdlRIExecuteAsync", model, stream)
    assert error.error == "EMULATOR_USE_AFTER_FREE"
    assert "mat2" in error.message
    cann.aclmdlRIDestroy(model)
    cann.aclrtDestroyStream(stream)
    cann.aclDestroyTensor(beyond)
    cann.aclrtFree(workspace)
    cann.drop(wide)
    cann.aclrtSetDevice(1)
    cann.aclrtFree(first)
    cann.drop(result)
    cann.aclrtResetDevice(1)
    cann.aclrtSetDevice(0)
    cann.aclrtDeviceDisablePeerAccess(1)


@client()
def test_a_reset_device_is_seen_no_more_by_its_peers(cann: Cann) -> None:
    cann.aclrtSetDevice(1)
    there = cann.malloc(16)
    cann.aclrtSetDevice(0)
    here = cann.tensor(np.ones(4, np.float32))
    cann.aclrtDeviceEnablePeerAccess(1, 0)
    theirs = cann.describe((4,), np.float32, there)
    stream, model = cann.create("aclrtCreateStream"), ctypes.c_void_p()
    cann.aclmdlRICaptureBegin(stream, 0)
    executor, size = cann.prepare("aclnnMul", here, theirs, here)
    workspace = cann.malloc(max(size, 1))
    cann.aclnnMul(workspace, size, executor, stream)
    cann.aclmdlRICaptureEnd(stream, ctypes.byref(model))
    cann.aclrtSetDevice(1)
    cann.aclrtResetDeviceForce(1)
    cann.aclrtSetDevice(0)
    assert "aclrtResetDeviceForce" in cann.failure("aclmdlRIExecuteAsync", model, stream).message
    executor, size = cann.prepare("aclnnMul", here, theirs, here)
    assert cann.failure("aclnnMul", workspace, size, executor, stream).error == "EMULATOR_USE_AFTER_FREE"
    cann.aclmdlRIDestroy(model)
    cann.aclrtDestroyStream(stream)
    cann.aclDestroyTensor(theirs)
    cann.aclrtFree(workspace)


def test_devices_may_be_hidden(emulator_home: Path) -> None:
    code = "from emulator_client import Cann; import ctypes; c = Cann(False); n = ctypes.c_uint32()\n"
    code += "print(c._function('aclrtGetDeviceCount')(ctypes.byref(n)), n.value)"
    for devices, visible, wanted in (
        ("0", None, "207004 0"),
        ("4", None, "0 4"),
        ("4", "1,3", "0 2"),
        ("4", "2", "0 1"),
        ("4", "1,x,2", "0 1"),  # up to the first that is no number
        ("4", "0, 1", "0 1"),
        ("4", "1,1,2", "207004 0"),  # the whole list is invalid
        ("4", "2,1", "207004 0"),
        ("1", "0,0", "0 1"),  # no more are read than there are devices
        ("4", "0,7", "0 1"),
        ("4", "x", "207004 0"),
        ("4", "", "207004 0"),
    ):
        settings = {"ASCEND_EMULATOR_DEVICES": devices}
        if visible is not None:
            settings["ASCEND_RT_VISIBLE_DEVICES"] = visible
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(emulator_home, **settings), capture_output=True, text=True
        )
        assert done.stdout.strip() == wanted, (devices, visible, done.stderr)


def test_settings_that_cannot_be_are_named(emulator_home: Path) -> None:
    code = "from emulator_client import Cann; import ctypes; c = Cann(False); n = ctypes.c_uint32()\n"
    code += "print(c._function('aclrtGetDeviceCount')(ctypes.byref(n)), c._function('aclrtSetDevice')(0), c.message())"
    for variable, text, wanted in (
        ("DEVICES", "99", "must be a number from 0 to 16"),
        ("DEVICES", "2x", "must be a number from 0 to 16"),
        ("MEMORY", "99999999T", "must be a number of bytes up to 64T"),
        ("MEMORY", "16Q", "must be a number of bytes up to 64T"),
        ("WORKSPACE", "-1", "must be a number of bytes up to 64T"),
    ):
        name = f"ASCEND_EMULATOR_{variable}"
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(emulator_home, **{name: text}), capture_output=True, text=True
        )
        assert done.stdout.startswith("207004 207004"), done.stdout + done.stderr
        assert f"{name} is '{text}'; it {wanted}" in done.stdout


# -------------------------------------------------------------------------------------------------------------- memory


@client(ASCEND_EMULATOR_MEMORY="64M")
def test_memory_beyond_the_device_is_refused(cann: Cann) -> None:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cann.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total))
    assert total.value == free.value == 64 * MIB
    first = cann.malloc(40 * MIB)
    error = cann.failure("aclrtMalloc", ctypes.byref(ctypes.c_void_p()), 40 * MIB, 0)
    assert (error.status, error.error) == (207001, "EMULATOR_OUT_OF_MEMORY")
    cann.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total))
    assert 23 * MIB < free.value < 24 * MIB
    cann.aclrtFree(first)
    for _ in range(20):  # free memory is used again, and fragments do not add up
        blocks = [cann.malloc(MIB) for _ in range(50)]
        for block in blocks[::2]:
            cann.aclrtFree(block)
        large = cann.malloc(30 * MIB)
        for block in [*blocks[1::2], large]:
            cann.aclrtFree(block)
    assert cann.failure("aclrtMalloc", ctypes.byref(ctypes.c_void_p()), 0, 0).status == 107000
    assert cann.failure("aclrtMalloc", None, 64, 0).status == 107000


@client()
def test_freed_memory_goes_back_to_the_system(cann: Cann) -> None:
    data = np.ones(64 * MIB, np.uint8)
    for _ in range(8):
        address = cann.malloc(data.nbytes)
        cann.aclrtMemcpy(address, data.nbytes, data.ctypes.data, data.nbytes, H2D)
        cann.aclrtFree(address)
    small = [cann.malloc(MIB // 2) for _ in range(256)]
    for address in small:
        cann.aclrtMemset(address, MIB // 2, 1, MIB // 2)
    for address in small:
        cann.aclrtFree(address)
    assert shared_resident() < 64 * MIB


def shared_resident() -> int:
    """Bytes of shared memory that this process holds."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssShmem"))


@client(ASCEND_EMULATOR_FILL="0xA5")
def test_new_memory_can_be_filled(cann: Cann) -> None:
    block, host = cann.malloc(100), np.zeros(100, np.uint8)
    cann.aclrtMemcpy(host.ctypes.data, 100, block, 100, D2H)
    assert (host == 0xA5).all()
    cann.aclrtFree(block)


@client()
def test_allocations_are_aligned_and_apart(cann: Cann) -> None:
    blocks = [cann.malloc(size) for size in (1, 31, 32, 33, 512, 513)]
    assert all(address % 64 == 0 for address in blocks)
    assert all(b - a >= 64 for a, b in zip(sorted(blocks), sorted(blocks)[1:]))
    for block in blocks:
        cann.aclrtFree(block)


@client()
def test_misuse_of_memory_is_named(cann: Cann) -> None:
    host = np.zeros(256, np.uint8)
    block = cann.malloc(128)
    for name, arguments, error in (
        ("aclrtMemcpy", (block, 256, host.ctypes.data, 129, H2D), "EMULATOR_OUT_OF_BOUNDS"),
        ("aclrtMemcpy", (block + 64, 65, host.ctypes.data, 65, H2D), "EMULATOR_OUT_OF_BOUNDS"),
        ("aclrtMemcpy", (host.ctypes.data, 256, block - 64, 64, D2H), "EMULATOR_INVALID_ADDRESS"),
        ("aclrtMemcpy", (block, 128, host.ctypes.data, 128, D2H), "EMULATOR_COPY_DIRECTION"),
        ("aclrtMemcpy", (block, 128, host.ctypes.data, 128, D2D), "EMULATOR_COPY_DIRECTION"),
        ("aclrtMemcpy", (block, 100, host.ctypes.data, 101, H2D), ""),
        ("aclrtMemcpy", (None, 100, host.ctypes.data, 100, H2D), ""),
        ("aclrtMemset", (block, 256, 0, 129), "EMULATOR_OUT_OF_BOUNDS"),
        ("aclrtMemset", (host.ctypes.data, 256, 0, 16), "EMULATOR_INVALID_ADDRESS"),
        ("aclrtFree", (block + 8,), "EMULATOR_INVALID_ADDRESS"),
        ("aclrtFree", (host.ctypes.data,), "EMULATOR_INVALID_ADDRESS"),
        ("aclrtFree", (None,), ""),
        ("aclrtFreeHost", (host.ctypes.data,), "EMULATOR_INVALID_ADDRESS"),
    ):
        found = cann.failure(name, *arguments)
        assert (found.status, found.error) == (107000, error), (name, found)
    cann.aclrtFree(block)
    assert cann.failure("aclrtFree", block).error == "EMULATOR_DOUBLE_FREE"
    assert cann.failure("aclrtMemset", block, 128, 0, 128).error == "EMULATOR_USE_AFTER_FREE"
    pinned = cann.create("aclrtMallocHost", 64)
    cann.aclrtFreeHost(pinned)
    assert cann.failure("aclrtFreeHost", pinned).error == "EMULATOR_DOUBLE_FREE"


@client()
def test_copies_of_two_dimensions(cann: Cann) -> None:
    block = cann.malloc(64)
    source = np.arange(24, dtype=np.uint8).reshape(4, 6)
    cann.aclrtMemset(block, 64, 0xFF, 64)
    cann.aclrtMemcpy2d(block, 16, source.ctypes.data, 6, 3, 4, H2D)
    whole = np.empty((4, 16), np.uint8)
    cann.aclrtMemcpy(whole.ctypes.data, 64, block, 64, D2H)
    assert (whole[:, :3] == source[:, :3]).all()
    assert (whole[:, 3:] == 0xFF).all()
    assert cann.failure("aclrtMemcpy2d", block, 16, block, 16, 3, 4, D2D).status == 207000
    assert cann.failure("aclrtMemcpy2d", block, 16, source.ctypes.data, 6, 16, 5, H2D).error == ""
    cann.aclrtFree(block)


@client()
def test_host_and_device_pointers_are_distinguished(cann: Cann) -> None:
    attributes = (ctypes.c_uint32 * 7)()
    block, pinned, host = cann.malloc(64), cann.create("aclrtMallocHost", 64), np.zeros(64, np.uint8)
    kinds = []
    for address in (block + 5, pinned + 5, host.ctypes.data):
        cann.aclrtPointerGetAttributes(address, attributes)
        kinds.append(attributes[1])
        assert attributes[2] == mmap.PAGESIZE
    assert kinds == [1, 0, 2]  # device, host, unregistered
    cann.aclrtFree(block)
    cann.aclrtFreeHost(pinned)


# ------------------------------------------------------------------------------------------------------------- handles


@client()
def test_misuse_of_handles_is_named(cann: Cann) -> None:
    tensor = cann.describe((2,), np.float32, None)
    value = ctypes.c_float(1.5)
    scalar = cann.aclCreateScalar(ctypes.byref(value), 0)
    offset = ctypes.c_int64()
    for handle, status, error in (
        (None, 161001, "EMULATOR_NULL_HANDLE"),
        (0x1234, 161002, "EMULATOR_NOT_A_HANDLE"),
        (tensor + 1, 161002, "EMULATOR_NOT_A_HANDLE"),
        (scalar, 161002, "EMULATOR_WRONG_KIND"),
    ):
        found = cann.failure("aclGetViewOffset", handle, ctypes.byref(offset))
        assert (found.status, found.error) == (status, error)
    cann.aclDestroyTensor(tensor)
    found = cann.failure("aclGetViewOffset", tensor, ctypes.byref(offset))
    assert (found.status, found.error) == (161002, "EMULATOR_USE_AFTER_DESTROY")
    found = cann.failure("aclDestroyTensor", tensor)
    assert (found.status, found.error) == (161002, "EMULATOR_DOUBLE_DESTROY")
    assert cann.failure("aclDestroyTensor", scalar).error == "EMULATOR_WRONG_KIND"
    cann.aclDestroyTensor(None)  # nothing happens
    cann.aclDestroyScalar(scalar)
    stream = cann.create("aclrtCreateStream")
    event = cann.create("aclrtCreateEvent")
    for name, handle, error in (
        ("aclrtSynchronizeStream", event, "EMULATOR_WRONG_KIND"),
        ("aclrtDestroyEvent", stream, "EMULATOR_WRONG_KIND"),
        ("aclrtDestroyEvent", None, "EMULATOR_NULL_HANDLE"),
    ):
        assert cann.failure(name, handle).error == error
    cann.aclrtDestroyStream(stream)
    cann.aclrtDestroyEvent(event)
    assert cann.failure("aclrtDestroyStream", stream).error == "EMULATOR_DOUBLE_DESTROY"
    assert cann.failure("aclrtDestroyEvent", event).error == "EMULATOR_DOUBLE_DESTROY"
    assert cann.failure("aclrtSynchronizeStream", stream).error == "EMULATOR_USE_AFTER_DESTROY"
    assert cann.failure("aclrtDestroyStream", None).status == 107000  # the default stream


@client()
def test_a_destroyed_handle_is_recognised_for_long(cann: Cann) -> None:
    old = cann.describe((2,), np.float32, None)
    cann.aclDestroyTensor(old)
    for _ in range(10_000):
        cann.aclDestroyTensor(cann.aclCreateTensor(None, 0, 0, None, 0, 2, None, 0, None))
    assert cann.failure("aclDestroyTensor", old).error == "EMULATOR_DOUBLE_DESTROY"


@client()
def test_many_handles_may_be_alive(cann: Cann) -> None:
    values = (ctypes.c_int64 * 1)(5)
    arrays = [cann.aclCreateIntArray(values, 1) for _ in range(50_000)]
    assert len(set(arrays)) == 50_000
    assert cann.live("int_array") == 50_000
    for array in arrays:
        cann.aclDestroyIntArray(array)


@client()
def test_lists_own_their_members(cann: Cann) -> None:
    members = [cann.describe((2,), np.float32, None) for _ in range(3)]
    array = (ctypes.c_void_p * 3)(*members)
    made = cann.aclCreateTensorList(array, 3)
    size = ctypes.c_uint64()
    cann.aclGetTensorListSize(made, ctypes.byref(size))
    assert size.value == 3
    assert cann.failure("aclDestroyTensor", members[1]).error == "EMULATOR_LIST_MEMBER"
    assert cann.failure("aclCreateTensorList", array, 3).error == "EMULATOR_LIST_MEMBER"
    assert cann.live("tensor_list") == 1
    cann.aclDestroyTensorList(made)
    assert cann.failure("aclDestroyTensor", members[0]).error == "EMULATOR_DOUBLE_DESTROY"
    assert cann.live("tensor") == 0
    mixed = cann.describe((2,), np.float32, None)
    pair = (ctypes.c_void_p * 2)(mixed, members[0])
    assert cann.failure("aclCreateTensorList", pair, 2).error == "EMULATOR_USE_AFTER_DESTROY"
    cann.aclDestroyTensor(mixed)  # the failed list let it go


@client()
def test_what_makes_no_object(cann: Cann) -> None:
    dims = (ctypes.c_int64 * 2)(2, 2)
    value = ctypes.c_int64(1)
    for name, arguments in (
        ("aclCreateTensor", (None, 2, 0, None, 0, 2, dims, 2, None)),
        ("aclCreateTensor", (dims, 2, 0, None, 0, 2, None, 2, None)),
        ("aclCreateScalar", (None, 0)),
        ("aclCreateScalar", (ctypes.byref(value), 29)),  # int4
        ("aclCreateScalar", (ctypes.byref(value), 33)),  # complex32
    ):
        assert cann.failure(name, *arguments).status == -1
    empty = cann.aclCreateIntArray(None, 3)
    size = ctypes.c_uint64(9)
    cann.aclGetIntArraySize(empty, ctypes.byref(size))
    assert size.value == 0
    cann.aclDestroyIntArray(empty)


@client()
def test_live_objects_can_be_listed(cann: Cann) -> None:
    tensor = cann.describe((2,), np.float32, None)
    block = cann.malloc(100)
    stream = cann.create("aclrtCreateStream")
    listed = cann.dump()
    assert [(h["kind"], h["handle"]) for h in listed["handles"]] == [("tensor", tensor), ("stream", stream)]
    assert [(a["device"], a["address"], a["bytes"]) for a in listed["allocations"]] == [(0, block, 100)]
    assert (cann.live("tensor"), cann.live("stream"), cann.live("allocation"), cann.live()) == (1, 1, 1, 3)
    assert cann.live("nonsense") == -1
    cann.aclDestroyTensor(tensor)
    cann.aclrtFree(block)
    cann.aclrtDestroyStream(stream)


# --------------------------------------------------------------------------------------------- faults, leaks, processes


@client()
def test_a_call_can_be_made_to_fail(cann: Cann) -> None:
    cann.fail_at(2, 207001, "aclrtMalloc")
    first = cann.malloc(64)
    error = cann.failure("aclrtMalloc", ctypes.byref(ctypes.c_void_p()), 64, 0)
    assert (error.status, error.error) == (207001, "EMULATOR_INJECTED")
    assert cann.failed_call() == "aclrtMalloc"
    second = cann.malloc(64)
    cann.fail_at(1, 507899)
    assert cann.failure("aclrtFree", first).status == 507899  # it is freed all the same
    assert cann.failure("aclrtFree", first).error == "EMULATOR_DOUBLE_FREE"
    cann.aclrtFree(second)
    cann.fail_at(1, 561000, "aclCreateTensor")
    assert cann.failure("aclCreateTensor", None, 0, 0, None, 0, 2, None, 0, None).error == "EMULATOR_INJECTED"
    before = cann.calls()
    cann.aclrtSynchronizeDevice()
    assert cann.calls() == before + 1


@client()
def test_each_call_of_an_operator_can_fail_without_a_leak(cann: Cann) -> None:
    """A careful program: whatever fails, it releases what it has. The emulator then has nothing left."""
    nth = 0
    failed = []
    while True:
        nth += 1
        cann.fail_at(nth, 507899)
        try:
            careful(cann)
        except RuntimeError as error:
            assert "EMULATOR_INJECTED" in str(error)
        name = cann.failed_call()
        cann.fail_at(0, 0)
        cann.aclrtSynchronizeDevice()
        assert cann.live() == 0, (nth, name, cann.dump())
        if name is None:
            break
        failed.append(name)
    for name in ("aclrtMalloc", "aclCreateTensor", "aclnnMmGetWorkspaceSize", "aclnnMm", "aclrtFree", "aclrtMemcpy"):
        assert name in failed
    careful(cann)


def careful(cann: Cann) -> None:
    with contextlib.ExitStack() as stack:
        stream = cann.create("aclrtCreateStream")
        stack.callback(cann.aclrtDestroyStream, stream)
        tensors = []
        for array in (np.eye(2, dtype=np.float32), np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)):
            address = cann.malloc(16)
            stack.callback(cann.aclrtFree, address)
            cann.aclrtMemcpy(address, 16, array.ctypes.data, 16, H2D)
            dims = (ctypes.c_int64 * 2)(2, 2)
            handle = cann.aclCreateTensor(dims, 2, 0, None, 0, 2, dims, 2, address)
            if not handle:
                raise RuntimeError(cann.message())
            stack.callback(cann.aclDestroyTensor, handle)
            tensors.append(handle)
        executor, size = cann.prepare("aclnnMm", *tensors, 0)
        launched = False
        try:
            workspace = cann.malloc(max(size, 1))
            stack.callback(cann.aclrtFree, workspace)
            stack.callback(cann.aclrtSynchronizeStream, stream)
            launched = True
            cann.aclnnMm(workspace, size, executor, stream)
        finally:
            if not launched:
                cann.aclDestroyAclOpExecutor(executor)


def leaky(cann: Cann) -> None:
    cann.describe((2,), np.float32, None)
    cann.malloc(64)
    cann._owned.clear()
    cann.finish = lambda: cann.aclFinalize()  # type: ignore[method-assign]


def test_leaks_are_reported_and_can_fail_a_program(emulator_home: Path) -> None:
    code = (
        f"import sys; sys.path.append({str(Path(__file__).parent)!r})\n"
        "import emulator_client as c, test_runtime as t; cann = c.Cann(); t.leaky(cann); cann.finish()"
    )
    leak = "EMULATOR_LEAK: never released: 1 aclTensor, 1 blocks of device memory"
    for strict, status in (("0", 0), ("1", 86)):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment(emulator_home, ASCEND_EMULATOR_STRICT=strict),
            capture_output=True,
            text=True,
        )
        assert leak in done.stderr
        assert done.returncode == status


def test_a_clean_program_is_silent(emulator_home: Path) -> None:
    code = "import emulator_client as c; cann = c.Cann(); cann.drop(cann.tensor([1.0])); cann.finish()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(emulator_home, ASCEND_EMULATOR_STRICT="1"),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@client()
def test_a_forked_child_is_refused(cann: Cann) -> None:
    x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
    cann.run("aclnnMm", x, x, out, 0)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        error = cann.failure("aclrtMalloc", ctypes.byref(ctypes.c_void_p()), 64, 0)
        os.write(write, f"{error.status} {error.error}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"507899 EMULATOR_FORKED"
    cann.run("aclnnMm", x, x, out, 0)  # the parent is as it was
