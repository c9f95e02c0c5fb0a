#!/usr/bin/env python3
"""Calls the emulated runtime's functions with arguments that no program should pass, and expects answers.

    ascend-aclnn emulator run --cann 9.2.0-beta.2 --sanitize address,undefined -- python scripts/fuzz_emulator.py --seconds 60

Sizes near 0, 2^31, 2^32, 2^63 and 2^64, addresses inside, after and outside of allocations, handles that are alive, destroyed
or never were, shapes, strides and offsets that wrap, keys that were never given out, text without an end. A call may succeed or
fail; it must come back, memory that it was not given must not change, and the sanitizers must be silent. The last line on
standard output is "ok" and the number of calls.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests" / "helpers")]

import numpy as np  # noqa: E402
from emulator_client import Cann, Location, Property, int64s  # noqa: E402

BLOCK = 4096
EDGES = (0, 1, 15, 16, 32, 63, 64, BLOCK - 1, BLOCK, BLOCK + 1, 1 << 31, 1 << 32, 1 << 33, (1 << 62) + 1, (1 << 63) - 1)
WRAPPING = (1 << 63, (1 << 64) - 1, (1 << 64) - 32, (1 << 64) - BLOCK)
KINDS = (0, 1, 2, 3, 4, 5, 99)


class Fuzzer:
    """One thread's calls, on blocks of its own between guards."""

    def __init__(self, cann: Cann, seed: int, folder: Path) -> None:
        self.cann, self.random, self.folder = cann, random.Random(seed), folder
        self.secure = ctypes.CDLL("libc_sec.so")
        self.host = np.zeros(3 * BLOCK, np.uint8)
        self.host[:BLOCK] = self.host[-BLOCK:] = 0xA5
        self.blocks = [cann.malloc(BLOCK) for _ in range(3)]
        self.guard = np.full(BLOCK, 0x5A, np.uint8)
        for block in (self.blocks[0], self.blocks[2]):
            cann.aclrtMemcpy(block, BLOCK, self.guard.ctypes.data, BLOCK, 1)
        self.streams = [cann.create("aclrtCreateStream") for _ in range(2)]
        self.events = [cann.create("aclrtCreateEvent") for _ in range(2)]
        self.dead = cann.create("aclrtCreateEvent")
        cann.aclrtDestroyEvent(self.dead)
        self.values = cann.malloc(64)
        self.pinned = cann.create("aclrtMallocHost", 3 * BLOCK)
        self.calls = 0

    # -- arguments
    def size(self) -> int:
        return self.random.choice(EDGES + WRAPPING)

    def fitting(self) -> int:
        return self.random.randrange(0, 65)

    def device(self) -> int:
        """In the block that calls may write to, or an address outside all memory."""
        inside = self.blocks[1] + self.random.choice((0, 1, 16, BLOCK - 64, BLOCK - 1, BLOCK))
        return self.random.choice((inside, inside, inside, 0, 8, (1 << 63) + 5, (1 << 64) - 64))

    def writable(self) -> int:
        return self.host.ctypes.data + BLOCK

    def stream(self) -> int | None:
        return self.random.choice((None, *self.streams, self.dead, 0x1000, self.blocks[1]))

    def event(self) -> int | None:
        return self.random.choice((None, *self.events, self.dead, 0x1000, self.streams[0]))

    def call(self, name: str, *arguments: object) -> int:
        self.calls += 1
        status: int = self.cann._function(name)(*arguments)
        self.cann.message()
        return status

    # -- calls
    def copy(self) -> None:
        """Host addresses are true ones: no library could know how much is after them. Sizes are small, or wrap."""
        count = self.random.choice((self.fitting(), (1 << 64) - 1, (1 << 64) - 64))
        name = self.random.choice(("aclrtMemcpy", "aclrtMemcpyAsync"))
        stream = (self.stream(),) if name.endswith("Async") else ()
        there = self.random.random() < 0.5
        ends = (self.device(), self.writable()) if there else (self.writable(), self.device())
        if self.is_device(ends[0]) or self.is_device(ends[1]):
            kind = self.random.choice(KINDS) if count <= 64 else 1 if there else 2
            self.call(name, ends[0], self.size() if count <= 64 else count, ends[1], count, kind, *stream)

    def is_device(self, address: int) -> bool:
        return self.blocks[1] <= address <= self.blocks[1] + BLOCK

    def copy_rows(self) -> None:
        device = self.blocks[1] + self.random.choice((0, 64, BLOCK))
        pitch, width, height = (
            self.size(),
            self.random.choice((16, self.size())),
            self.random.choice((1, 3, self.size())),
        )
        if pitch * max(height - 1, 0) + width <= BLOCK:
            width = min(width, 16)
        name = self.random.choice(("aclrtMemcpy2d", "aclrtMemcpy2dAsync"))
        stream = (None,) if name.endswith("Async") else ()
        self.call(name, device, pitch, self.writable(), min(pitch, 64), width, height, 1, *stream)

    def fill(self) -> None:
        name = self.random.choice(("aclrtMemset", "aclrtMemsetAsync"))
        stream = (self.stream(),) if name.endswith("Async") else ()
        self.call(name, self.device(), self.size(), self.random.randrange(256), self.size(), *stream)

    def flush(self) -> None:
        self.call(self.random.choice(("aclrtMemFlush", "aclrtMemInvalidate")), self.device(), self.size())

    def allocate(self) -> None:
        memory = ctypes.c_void_p()
        name = self.random.choice(("aclrtMalloc", "aclrtMallocAlign32", "aclrtMallocHost"))
        size = self.random.choice((self.fitting(), *WRAPPING, 1 << 40))
        policy = () if name == "aclrtMallocHost" else (self.random.randrange(12),)
        if self.call(name, ctypes.byref(memory), size, *policy) == 0:
            free = "aclrtFreeHost" if name == "aclrtMallocHost" else "aclrtFree"
            self.call(free, memory)
            self.call(free, memory)  # again

    def release(self) -> None:
        self.call("aclrtFree", self.random.choice((None, self.blocks[1] + 1, self.blocks[1] + BLOCK, 0x1000)))

    def order(self) -> None:
        name = self.random.choice(("aclrtRecordEvent", "aclrtStreamWaitEvent"))
        first, second = self.event(), self.stream()
        self.call(name, *((first, second) if name == "aclrtRecordEvent" else (second, first)))

    def wait(self) -> None:
        self.call("aclrtSynchronizeStreamWithTimeout", self.stream(), self.random.choice((1, 10, 0, -5)))

    def destroy(self) -> None:
        name = self.random.choice(("aclrtDestroyEvent", "aclrtDestroyStream", "aclDestroyTensor", "aclDestroyIntArray"))
        self.call(name, self.random.choice((self.dead, 0x1000, self.blocks[1])))

    def reserve(self) -> None:
        reserved = ctypes.c_void_p()
        if self.call("aclrtReserveMemAddress", ctypes.byref(reserved), self.size(), 0, None, 0) == 0:
            self.call("aclrtMapMem", reserved, self.size(), self.size(), self.dead, 0)
            self.call("aclrtUnmapMem", reserved)
            self.call("aclrtReleaseMemAddress", reserved)

    def operate(self) -> None:
        """Both phases of an operator on a description that may be anything."""
        rank = self.random.randrange(0, 4)
        dims = int64s([self.random.choice((0, 1, 2, 3, -1, 1 << 31, 1 << 62)) for _ in range(rank)])
        strides = int64s([self.random.choice((1, 0, -1, 4, 1 << 62, (1 << 63) - 1, -(1 << 63))) for _ in range(rank)])
        offset = self.random.choice((0, 0, 1, -1, 1 << 62, (1 << 63) - 1, -(1 << 63)))
        dtype, format = self.random.choice((0, 0, 1, 3, 9, 12, 27, 29, 77)), self.random.choice((2, 2, 0, 29, 3, 99))
        tensor = self.cann._function("aclCreateTensor")(
            dims, rank, dtype, strides, offset, format, dims, rank, self.device()
        )
        self.cann.message()
        if not tensor:
            return
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        out = self.random.choice((tensor, self.dead))
        results = ctypes.byref(size), ctypes.byref(executor)
        if self.call("aclnnAbsGetWorkspaceSize", tensor, out, *results) == 0:
            self.call("aclnnAbs", None, 0, executor, self.random.choice(self.streams))
        self.call("aclDestroyTensor", tensor)
        self.call("aclDestroyTensor", tensor)

    def register(self) -> None:
        """Host memory that is mapped, in part, twice, and freed meanwhile."""
        pinned, device_address = self.pinned, ctypes.c_void_p()
        address = self.random.choice((pinned, pinned, pinned + BLOCK, pinned + 2 * BLOCK, pinned + 16, self.writable()))
        address = self.random.choice((address, address, address, self.blocks[1], 0, 8, (1 << 64) - 64))
        inside = pinned + 3 * BLOCK - address if pinned <= address < pinned + 3 * BLOCK else 0
        size = self.random.choice((0, min(inside, 16), min(inside, BLOCK), inside, *WRAPPING))
        self.call("aclrtHostRegister", address, size, self.random.choice((0, 1, 99)), ctypes.byref(device_address))
        self.call("aclrtHostGetDevicePointer", address + self.fitting(), ctypes.byref(device_address), 0)
        if device_address.value:
            self.call("aclrtMemset", device_address, self.size(), 7, self.random.choice((self.fitting(), *WRAPPING)))
        if self.call("aclrtHostUnregister", self.random.choice((address, pinned, pinned + BLOCK))) == 0:
            return
        for start in (pinned, pinned + 16, pinned + BLOCK, pinned + 2 * BLOCK):
            if self.random.random() < 0.5:
                self.call("aclrtHostUnregister", start)

    def map_physical(self) -> None:
        """Memory that is mapped, exported and freed in the wrong order."""
        physical, base, name = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(self.size())
        place = Property(0, 0, self.random.choice((4, 4, 0, 99)), Location(0, self.random.choice((1, 1, 0, 7))), 0)
        size = self.random.choice((2 << 20, 2 << 20, 4 << 20, *EDGES, *WRAPPING))
        if self.call("aclrtMallocPhysical", ctypes.byref(physical), min(size, 1 << 62), ctypes.byref(place), 0) != 0:
            physical.value = self.random.choice((None, self.dead, self.streams[0]))
        if self.call("aclrtReserveMemAddress", ctypes.byref(base), 4 << 20, 0, None, 0) != 0:
            base.value = self.random.choice((0, 8, self.blocks[1]))
        steps: list[tuple[str, tuple[object, ...]]] = [
            ("aclrtMapMem", (base, self.random.choice((2 << 20, size)), self.random.choice((0, 0, size)), physical, 0)),
            ("aclrtUnmapMem", (base,)),
            ("aclrtFreePhysical", (physical,)),
            ("aclrtMemExportToShareableHandle", (physical, 0, self.random.choice((0, 1, 2)), ctypes.byref(name))),
            ("aclrtMemSetPidToShareableHandle", (name, (ctypes.c_int32 * 2)(1, 2), self.random.choice((0, 2)))),
            (
                "aclrtMemImportFromShareableHandle",
                (name, self.random.choice((0, -1, 99)), ctypes.byref(ctypes.c_void_p())),
            ),
        ]
        self.random.shuffle(steps)
        for step, arguments in (*steps, steps[0], steps[1]):
            self.call(step, *arguments)
        for step in ("aclrtUnmapMem", "aclrtReleaseMemAddress"):
            self.call(step, base)
        self.call("aclrtFreePhysical", physical)

    def share(self) -> None:
        key = ctypes.create_string_buffer(b"ascend-emulator-" + self.random.choice((b"", b"f" * 48, b"0" * 49)), 65)
        address, flags = self.device(), self.random.choice((0, 1, 2, (1 << 64) - 1))
        key_size = self.random.choice((65, 65, 65, 64, 0, 1 << 63))
        exported = self.call("aclrtIpcMemGetExportKey", address, self.size(), key, key_size, flags) == 0
        pids = (ctypes.c_int32 * 4)(0, -1, 1 << 30, self.random.randrange(1 << 15))
        self.call("aclrtIpcMemSetImportPid", key, pids, self.random.choice((0, 4, 4, 1 << 60)) if not exported else 4)
        mapped = ctypes.c_void_p()
        self.call("aclrtIpcMemImportByKey", ctypes.byref(mapped), key, self.random.choice((0, 1, 2)))
        for _ in range(3):
            self.call("aclrtIpcMemClose", key)
        event, handle = ctypes.c_void_p(), (ctypes.c_char * 64).from_buffer_copy(self.random.randbytes(64))
        if self.call("aclrtCreateEventExWithFlag", ctypes.byref(event), self.random.choice((64, 8, 64 | 8))) == 0:
            self.call("aclrtIpcGetEventHandle", event, handle)
            self.call("aclrtDestroyEvent", event)
            self.call("aclrtIpcGetEventHandle", event, handle)

    def wait_for_values(self) -> None:
        """Written first on the same stream, and by no other thread, so that the wait ends."""
        address, value, flag = self.values + self.random.choice((0, 8, 56)), self.size(), self.random.randrange(2)
        stream = self.streams[0]
        if self.call("aclrtValueWrite", address, value, 0, stream) == 0:
            self.call("aclrtValueWait", address, value, flag, stream)
        wrong = self.random.choice(
            (0, 1, self.values + 4, self.values + 60, self.values + 64, (1 << 64) - 8, self.dead)
        )
        self.call("aclrtValueWrite", wrong, value, self.random.choice((0, 1)), self.stream())
        self.call("aclrtValueWait", wrong, value, self.random.choice((0, 4, 1 << 31)), self.stream())
        self.call("aclrtCmoAsync", self.device(), self.size(), self.random.choice((0, 1)), self.stream())

    def profile(self) -> None:
        """On every thread at once: one's configuration is destroyed while another one's is in use."""
        devices = (ctypes.c_uint32 * 3)(0, self.random.choice((0, 1, 1 << 31)), 1)
        count = self.random.choice((1, 2, 3, 0, 17, 1 << 31))
        config = self.cann._function("aclprofCreateConfig")(devices, count, 0, None, 0)
        self.cann.message()
        step = self.cann._function("aclprofCreateStepInfo")()
        path = str(self.folder).encode()
        length = self.random.choice((len(path), len(path), 0, 1 << 31, (1 << 64) - 1))
        self.call("aclprofInit", path, length)
        self.call("aclprofStart", config)
        for tag in (0, 1, 9):
            self.call("aclprofGetStepTimestamp", self.random.choice((step, step, self.dead)), tag, self.stream())
        if self.random.random() < 0.5:
            self.call("aclprofDestroyConfig", config)
        for name in ("aclprofStop", "aclprofStop", "aclprofDestroyConfig"):
            self.call(name, self.random.choice((config, config, self.dead, 0)))
        self.call("aclprofFinalize")
        for handle in (step, step, self.dead):
            self.cann._function("aclprofDestroyStepInfo")(handle)
            self.cann.message()
        self.call("aclprofDestroyConfig", config)

    def text(self) -> None:
        """libc_sec between guards, the destination with an end and without, sources that overlap it."""
        room = self.random.choice((1, 2, 15, 16, 64))
        memory = ctypes.create_string_buffer(b"\xa5" * 64 + b"x" * room + b"\xa5" * 192, 64 + room + 192)
        start = ctypes.addressof(memory) + 64
        for at in (0, self.random.randrange(room)):
            if self.random.random() < 0.7:
                memory[64 + at] = b"\0"
        most = self.random.choice((room, room, 0, 1 << 31, (1 << 64) - 1))
        text = ctypes.create_string_buffer(b"s" * self.random.choice((0, 1, 14, 15, 16, 70)))
        source = self.random.choice(
            (ctypes.addressof(text), ctypes.addressof(text), start + self.random.randrange(room), 0)
        )
        count = self.random.choice((0, 1, 15, 16, (1 << 31) - 1, (1 << 64) - 1))
        moved = min(count, len(text)) if source == ctypes.addressof(text) else min(count, 16)
        c, size = self.secure, ctypes.c_size_t
        self.calls += 1
        choice = self.random.randrange(7)
        if choice < 2:
            getattr(c, ("strncpy_s", "strncat_s")[choice])(size(start), size(most), size(source), size(count))
        elif choice < 4:
            getattr(c, ("strcpy_s", "strcat_s")[choice - 2])(size(start), size(most), size(source))
        elif choice < 6:
            getattr(c, ("memcpy_s", "memmove_s")[choice - 4])(size(start), size(most), size(source), size(moved))
        else:
            c.snprintf_s(size(start), size(most), size(count), b"%s", text)
        assert memory.raw[:64] == b"\xa5" * 64, "the bytes before a string have changed"
        assert memory.raw[64 + room :] == b"\xa5" * 192, "the bytes after a string have changed"

    def check(self) -> None:
        """Memory that no call may write is unchanged."""
        self.cann._function("aclrtSynchronizeDevice")()
        self.cann.message()
        guard = np.zeros(BLOCK, np.uint8)
        for block in (self.blocks[0], self.blocks[2]):
            self.cann.aclrtMemcpy(guard.ctypes.data, BLOCK, block, BLOCK, 2)
            assert (guard == self.guard).all(), "a guard in device memory has changed"
        assert (self.host[:BLOCK] == 0xA5).all(), "the host memory before a buffer has changed"
        assert (self.host[-BLOCK:] == 0xA5).all(), "the host memory after a buffer has changed"

    def run(self, seconds: float) -> None:
        choices: list[Callable[[], None]] = [
            *(self.copy, self.copy_rows, self.fill, self.flush, self.allocate, self.release, self.order, self.wait),
            *(
                self.destroy,
                self.reserve,
                self.operate,
                self.register,
                self.map_physical,
                self.wait_for_values,
                self.text,
            ),
            *(self.share, self.profile),
        ]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(100):
                self.random.choice(choices)()
            self.check()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    cann = Cann()
    profiler = ctypes.CDLL("libmsprofiler.so")
    size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint32
    for name, result, arguments in (
        ("aclprofInit", ctypes.c_int, [pointer, size]),
        ("aclprofFinalize", ctypes.c_int, []),
        ("aclprofCreateConfig", pointer, [pointer, number, ctypes.c_int, pointer, ctypes.c_uint64]),
        ("aclprofStart", ctypes.c_int, [pointer]),
        ("aclprofStop", ctypes.c_int, [pointer]),
        ("aclprofDestroyConfig", ctypes.c_int, [pointer]),
        ("aclprofCreateStepInfo", pointer, []),
        ("aclprofGetStepTimestamp", ctypes.c_int, [pointer, ctypes.c_int, pointer]),
        ("aclprofDestroyStepInfo", None, [pointer]),
    ):
        function = getattr(profiler, name)
        function.restype, function.argtypes = result, arguments
        cann._functions[name] = function
    with tempfile.TemporaryDirectory() as folder:
        return run(cann, options, Path(folder))


def run(cann: Cann, options: argparse.Namespace, folder: Path) -> int:
    failures: list[BaseException] = []
    fuzzers = [Fuzzer(cann, options.seed * 1000 + number, folder) for number in range(options.threads)]

    def work(fuzzer: Fuzzer) -> None:
        try:
            cann.aclrtSetDevice(0)
            fuzzer.run(options.seconds)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(fuzzer,)) for fuzzer in fuzzers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in failures:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    print("ok" if not failures else "failed", sum(fuzzer.calls for fuzzer in fuzzers))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
