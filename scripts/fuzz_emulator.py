#!/usr/bin/env python3
"""Calls the emulated runtime's functions with arguments that nobody should give, and expects answers.

    ascend-aclnn emulator run --sanitize address,undefined -- python scripts/fuzz_emulator.py --seconds 60

Sizes near 0, 2^31, 2^32, 2^63 and 2^64, addresses inside, after and outside of allocations, handles that are alive, destroyed
or never were, shapes, strides and offsets that wrap. A call may succeed or fail; it must come back, memory that it was not
given must not change, and the sanitizers must be silent. The last line on standard output is "ok" and the number of calls.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests" / "helpers")]

import numpy as np  # noqa: E402
from emulator_client import Cann, int64s  # noqa: E402

BLOCK = 4096
EDGES = (0, 1, 15, 16, 32, 63, 64, BLOCK - 1, BLOCK, BLOCK + 1, 1 << 31, 1 << 32, 1 << 33, (1 << 62) + 1, (1 << 63) - 1)
WRAPPING = (1 << 63, (1 << 64) - 1, (1 << 64) - 32, (1 << 64) - BLOCK)
KINDS = (0, 1, 2, 3, 4, 5, 99)


class Fuzzer:
    """One thread's calls, on blocks of its own between guards."""

    def __init__(self, cann: Cann, seed: int) -> None:
        self.cann, self.random = cann, random.Random(seed)
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
        self.calls = 0

    # -- arguments
    def size(self) -> int:
        return self.random.choice(EDGES + WRAPPING)

    def fitting(self) -> int:
        return self.random.randrange(0, 65)

    def device(self) -> int:
        """In the block that calls may write to, or an address that is nobody's."""
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
        made = ctypes.c_void_p()
        name = self.random.choice(("aclrtMalloc", "aclrtMallocAlign32", "aclrtMallocHost"))
        size = self.random.choice((self.fitting(), *WRAPPING, 1 << 40))
        policy = () if name == "aclrtMallocHost" else (self.random.randrange(12),)
        if self.call(name, ctypes.byref(made), size, *policy) == 0:
            free = "aclrtFreeHost" if name == "aclrtMallocHost" else "aclrtFree"
            self.call(free, made)
            self.call(free, made)  # again

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
        made = ctypes.c_void_p()
        if self.call("aclrtReserveMemAddress", ctypes.byref(made), self.size(), 0, None, 0) == 0:
            self.call("aclrtMapMem", made, self.size(), self.size(), self.dead, 0)
            self.call("aclrtUnmapMem", made)
            self.call("aclrtReleaseMemAddress", made)

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

    def check(self) -> None:
        """What nobody was to write is as it was."""
        self.cann._function("aclrtSynchronizeDevice")()
        self.cann.message()
        found = np.zeros(BLOCK, np.uint8)
        for block in (self.blocks[0], self.blocks[2]):
            self.cann.aclrtMemcpy(found.ctypes.data, BLOCK, block, BLOCK, 2)
            assert (found == self.guard).all(), "a guard in device memory has changed"
        assert (self.host[:BLOCK] == 0xA5).all(), "the host memory before a buffer has changed"
        assert (self.host[-BLOCK:] == 0xA5).all(), "the host memory after a buffer has changed"

    def run(self, seconds: float) -> None:
        choices: list[Callable[[], None]] = [
            *(self.copy, self.copy_rows, self.fill, self.flush, self.allocate, self.release, self.order, self.wait),
            *(self.destroy, self.reserve, self.operate),
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
    failures: list[BaseException] = []
    fuzzers = [Fuzzer(cann, options.seed * 1000 + number) for number in range(options.threads)]

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
