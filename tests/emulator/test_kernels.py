"""Kernels that a client launches as binaries and that have a reference: names, arguments, order, graphs, errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KERNELS = """
import numpy as np
from ascend_aclnn.reference.kernels import DataError, kernel

@kernel("void scale_custom(GM_ADDR x, GM_ADDR y, uint32_t count, float factor)")
def scale_custom(x, y, count, factor):
    if factor < 0:
        raise DataError("factor", f"is {factor}; it must not be negative")
    y.array(count, np.float16)[...] = x.array(count, np.float16) * np.float16(factor)
"""

PROGRAM = '''
import ctypes, struct
import numpy as np

cann = ctypes.CDLL("libascendcl.so")
cann.aclGetRecentErrMsg.restype = ctypes.c_char_p
VOID, SIZE = ctypes.c_void_p, ctypes.c_size_t

def check(status):
    assert status == 0, (status, cann.aclGetRecentErrMsg())

def message(status):
    return status, (cann.aclGetRecentErrMsg() or b"").decode().splitlines()[0]

def elf(*symbols):
    """An object file with these functions."""
    names = b"\\0" + b"".join(name.encode() + b"\\0" for name in symbols)
    table, at = bytes(24), 1
    for name in symbols:
        table += struct.pack("<IBBHQQ", at, 0x12, 0, 1, 0, 4)
        at += len(name) + 1
    head = b"\\x7fELF\\2\\1\\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 0x1029, 1, 0, 0, 64, 0, 64, 0, 0, 64, 3, 0)
    begin = 64 + 3 * 64
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, begin, len(table), 2, 1, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, begin + len(table), len(names), 0, 0, 1, 0)
    return head + sections + table + names

# Code of tilings in extensions asks for the SoC this way.
name = ctypes.create_string_buffer(50)
check(ctypes.CDLL("libruntime.so").rtGetSocVersion(name, 50))
print(name.value.decode())

check(cann.aclInit(None))
if hasattr(cann, "aclrtGetHardwareSyncAddr"):  # launchers of kernels of cube and vector cores ask for it first
    address = VOID()
    check(cann.aclrtGetHardwareSyncAddr(ctypes.byref(address)))
    assert address.value
check(cann.aclrtSetDevice(0))

def stream():
    made = VOID()
    check(cann.aclrtCreateStream(ctypes.byref(made)))
    return made

def device(array):
    address = VOID()
    check(cann.aclrtMalloc(ctypes.byref(address), SIZE(max(array.nbytes, 32)), 0))
    check(cann.aclrtMemcpy(address, SIZE(array.nbytes), VOID(array.ctypes.data), SIZE(array.nbytes), 1))
    return address

def host(address):
    array = np.empty(4, np.float16)
    check(cann.aclrtMemcpy(VOID(array.ctypes.data), SIZE(8), address, SIZE(8), 2))
    return array.tolist()

data = elf("rope_custom_0_mix_aic", "rope_custom_0_mix_aiv", "scale_custom_1", "g_vecTPipePtr", "with_tail_12x")
binary, function, other, unknown = VOID(), VOID(), VOID(), VOID()
check(cann.aclrtBinaryLoadFromData(data, SIZE(len(data)), None, ctypes.byref(binary)))
for entry, handle in ((1, function), (0, other), (12, unknown)):
    check(cann.aclrtBinaryGetFunctionByEntry(binary, ctypes.c_uint64(entry), ctypes.byref(handle)))

x, y = device(np.array([1, 2, 3, 4], np.float16)), device(np.zeros(4, np.float16))
first = stream()

def launch_bytes(function, arguments, stream):
    """By the function that compilers' launchers call, where the release has it."""
    if hasattr(cann, "aclrtLaunchKernelWithHostArgs"):
        return cann.aclrtLaunchKernelWithHostArgs(function, 8, stream, None, arguments, SIZE(len(arguments)), None, SIZE(0))
    return cann.rtKernelLaunch(function, 8, arguments, len(arguments), None, stream)

def launch(function, source, target, factor, stream, extra=b""):
    return launch_bytes(function, struct.pack("<QQIf", source.value or 0, target.value or 0, 3, factor) + extra, stream)

check(launch(function, x, y, 2.0, first, bytes(8)))
check(launch(function, y, y, 4.0, first))
check(cann.aclrtSynchronizeStream(first))
print(host(y))

# By a stub, and by a number of the binary.
class Extended(ctypes.Structure):
    _fields_ = [("args", VOID), ("inputs", VOID), ("size", ctypes.c_uint32), ("tiling", ctypes.c_uint32 * 2),
                ("count", ctypes.c_uint16), ("flags", ctypes.c_uint8 * 6)]

stub, registered = ctypes.create_string_buffer(1), VOID()
class Registered(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_uint32), ("version", ctypes.c_uint32), ("data", ctypes.c_char_p), ("length", ctypes.c_uint64)]
check(cann.rtDevBinaryRegister(ctypes.byref(Registered(0, 0, data, len(data))), ctypes.byref(registered)))
check(cann.rtFunctionRegister(registered, stub, b"scale_custom", None, 0))
packed = ctypes.create_string_buffer(struct.pack("<QQIf", x.value, y.value, 3, 5.0), 24)
check(cann.rtKernelLaunch(stub, 8, packed, 24, None, first))
check(cann.aclrtSynchronizeStream(first))
print(host(y))
packed = ctypes.create_string_buffer(struct.pack("<QQIf", x.value, y.value, 3, 6.0), 24)
extended = Extended(ctypes.cast(packed, VOID), None, 24)
check(cann.rtKernelLaunchWithHandleV2(registered, ctypes.c_uint64(1), 8, ctypes.byref(extended), None, first, None))
check(cann.aclrtSynchronizeStream(first))
print(host(y))

# Arguments in device memory, read when the kernel runs: here behind a kernel that writes one of them.
packed = device(np.frombuffer(struct.pack("<QQIf", x.value, y.value, 3, 3.0), np.uint8))
check(cann.aclrtLaunchKernel(function, 8, packed, SIZE(24), first))
check(cann.aclrtSynchronizeStream(first))
print(host(y))
factors = device(np.frombuffer(np.float32([8, 0]), np.float16))
check(launch(function, factors, VOID(packed.value + 20), 1.0, first))  # its third element lies behind the arguments
check(cann.aclrtLaunchKernel(function, 8, packed, SIZE(24), first))
check(cann.aclrtSynchronizeStream(first))
print(host(y))

# Captured: each execution computes again.
graph, captured = VOID(), stream()
check(cann.aclmdlRICaptureBegin(captured, 0))
check(launch(function, y, y, 2.0, captured))
check(cann.aclmdlRICaptureEnd(captured, ctypes.byref(graph)))
print(host(y))
for _ in range(2):
    check(cann.aclmdlRIExecuteAsync(graph, captured))
check(cann.aclrtSynchronizeStream(captured))
print(host(y))
check(cann.aclmdlRIDestroy(graph))

# Bad data are an error of the stream, which goes on.
check(launch(function, x, y, -1.0, first))
print(*message(cann.aclrtSynchronizeStream(first)))
check(launch(function, x, y, 7.0, first))
check(cann.aclrtSynchronizeStream(first))
print(host(y))

# What cannot be launched breaks its stream.
def broken(status, stream):
    print(*message(status))
    again = [cann.aclrtSynchronizeStream(stream) for _ in range(2)]
    print(again[0] == again[1] == status)
    cann.aclrtDestroyStream(stream)

for attempt in (
    lambda s: launch(other, x, y, 2.0, s),
    lambda s: launch(unknown, x, y, 2.0, s),
    lambda s: launch(function, VOID(12345), y, 2.0, s),
    lambda s: launch_bytes(function, b"12345678", s),
    lambda s: cann.aclrtLaunchKernel(function, 8, packed, SIZE(8), s),
    lambda s: cann.aclrtLaunchKernelWithConfig(function, 8, s, None, None, None),
):
    own = stream()
    broken(attempt(own), own)

for made in (first, captured):
    check(cann.aclrtDestroyStream(made))
for address in (x, y, packed, factors):
    check(cann.aclrtFree(address))
for loaded in (binary, registered):
    check(cann.aclrtBinaryUnLoad(loaded))
'''


def run(folder: Path, program: str, *options: str) -> list[str]:
    """What a program prints on an emulated device that knows the kernels."""
    file = folder / "my_kernels.py"
    file.write_text(KERNELS)
    plain = {
        k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "LD_")) or k == "ASCEND_EMULATOR_CACHE"
    }
    plain["PYTHONPATH"] = os.pathsep.join(sys.path)
    emulator = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--operators", str(file), *options, "--"]
    command = [*emulator, sys.executable, "-c", program]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_faults_on_purpose_reach_kernels(emulator_home: Path, tmp_path: Path) -> None:
    """The last element that a launch changes, a launch that does nothing, two faults of one launch, one that fails."""
    begin = PROGRAM.partition("# By a stub")[0].partition("check(launch(function, x, y, 2.0")[0]
    program = f"""{begin}
for factor in (2.0, 3.0, 4.0, 5.0):
    check(launch(function, x, y, factor, first))
    check(cann.aclrtSynchronizeStream(first))
    print(host(y))
check(launch(function, x, y, 6.0, first))
print(*message(cann.aclrtSynchronizeStream(first)))
"""
    rules = (
        "after=1:times=1:tail",
        "after=2:times=1:stale",
        "after=3:times=1:nan",
        "after=3:times=1:tail",
        "after=4:fail",
    )
    _, *lines = run(tmp_path, program, *(f"--fault=scale_*:{rule}" for rule in rules))
    assert lines[:4] == [
        "[2.0, 4.0, 6.0, 0.0]",
        "[3.0, 6.0, 6.0, 0.0]",
        "[3.0, 6.0, 6.0, 0.0]",
        "[5.0, nan, 6.0, 0.0]",
    ]
    assert lines[4].startswith("507015 ") and "the kernel was made to fail with 507015" in lines[4]


def test_a_kernel_with_a_reference_is_computed(emulator_home: Path, tmp_path: Path) -> None:
    soc, *lines = run(tmp_path, PROGRAM)
    assert soc == "Ascend910B1"
    assert lines[:7] == [
        "[8.0, 16.0, 24.0, 0.0]",
        "[5.0, 10.0, 15.0, 0.0]",
        "[6.0, 12.0, 18.0, 0.0]",
        "[3.0, 6.0, 9.0, 0.0]",
        "[8.0, 16.0, 24.0, 0.0]",
        "[8.0, 16.0, 24.0, 0.0]",
        "[32.0, 64.0, 96.0, 0.0]",
    ]
    lines = lines[2:]
    assert lines[5].startswith("161002 ") and lines[5].endswith(
        "scale_custom: factor: is -1.0; it must not be negative"
    )
    assert lines[6] == "[7.0, 14.0, 21.0, 0.0]"
    refusals, stay_broken = lines[7::2], lines[8::2]
    assert stay_broken == ["True"] * 6
    assert "EMULATOR_KERNEL_BINARY" in refusals[0] and "the kernel rope_custom was launched as a binary" in refusals[0]
    assert "no reference is registered for it" in refusals[0] and "the kernel (entry 12) was launched" in refusals[1]
    assert "an argument of a kernel" in refusals[2]
    assert "scale_custom: arguments: have 8 bytes; the registered prototype needs 24" in refusals[3]
    assert "scale_custom: arguments: have 8 bytes" in refusals[4]
    assert "launched as a binary; its arguments are not plain bytes" in refusals[5]
