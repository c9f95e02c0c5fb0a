"""Virtual memory in every order, and keys of memory that other processes share."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import random
import signal
from typing import Any, Optional

import numpy as np
from emulator_client import NEWEST, Cann, CannError, Location, Property
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from attacks.scenario import Run, patience, scenario, wait_for

MIB = 1 << 20
GRANULE = 2 * MIB
KEY_BYTES = 65
FORK = multiprocessing.get_context("fork")


def used(cann: Cann) -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cann.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value


def read_byte(cann: Cann, address: int) -> int:
    found = np.zeros(1, np.uint8)
    cann.aclrtMemcpy(found.ctypes.data, 1, address, 1, 2)
    return int(found[0])


class Physical:
    """Physical memory as the model has it: its byte, whether its handle lives, where it is mapped."""

    def __init__(self, handle: int, size: int) -> None:
        self.handle, self.size, self.byte, self.freed = handle, size, 0, False
        self.maps: list[int] = []
        self.name: Optional[int] = None  # once it is exported


USED: list[tuple[Cann, Run]] = []  # not attributes of the class, which Hypothesis looks at


class Model(RuleBasedStateMachine):
    """Reserved addresses, physical memory and mappings, beside what the device says of them."""

    def __init__(self) -> None:
        super().__init__()
        self.cann, self.run = USED[-1]
        self.reserved: dict[int, int] = {}
        self.physicals: list[Physical] = []
        self.mapped: dict[int, Physical] = {}
        self.tag = 0

    def refused(self, name: str, *arguments: Any) -> None:
        assert self.cann.failure(name, *arguments).status != 0
        self.run.count("refused")

    def done(self) -> None:
        self.run.count("done")

    def pick(self, items: list[Any], number: int) -> Any:
        return items[number % len(items)]

    @rule(granules=st.integers(1, 4))
    def reserve(self, granules: int) -> None:
        base = self.cann.create("aclrtReserveMemAddress", granules * GRANULE, 0, None, 0)
        assert not any(
            base < start + size and start < base + granules * GRANULE for start, size in self.reserved.items()
        )
        self.reserved[base] = granules * GRANULE
        self.done()

    @rule(granules=st.integers(1, 2))
    def allocate(self, granules: int) -> None:
        place = Property(0, 0, 4, Location(0, 1), 0)
        handle = self.cann.create("aclrtMallocPhysical", granules * GRANULE, ctypes.byref(place), 0)
        self.physicals.append(Physical(handle, granules * GRANULE))
        self.done()

    @precondition(lambda self: self.reserved and self.physicals)
    @rule(which=st.integers(0, 99), at=st.integers(0, 99), offset=st.integers(-2, 5))
    def map(self, which: int, at: int, offset: int) -> None:
        memory, base = self.pick(self.physicals, which), self.pick(sorted(self.reserved), at)
        address = base + offset * GRANULE
        taken = any(address < start + m.size and start < address + memory.size for start, m in self.mapped.items())
        fits = any(start <= address and address + memory.size <= start + size for start, size in self.reserved.items())
        if memory.freed or taken or not fits:
            self.refused("aclrtMapMem", address, memory.size, 0, memory.handle, 0)
            return
        self.cann.aclrtMapMem(address, memory.size, 0, memory.handle, 0)
        self.mapped[address] = memory
        memory.maps.append(address)
        if len(memory.maps) == 1:  # nothing says what fresh memory holds
            self.write(len(self.mapped) - 1, address)
        self.done()

    @precondition(lambda self: self.mapped)
    @rule(which=st.integers(0, 99))
    def write(self, which: int, address: Optional[int] = None) -> None:
        address = self.pick(sorted(self.mapped), which) if address is None else address
        memory = self.mapped[address]
        self.tag = self.tag % 255 + 1
        memory.byte = self.tag
        self.cann.aclrtMemset(address, memory.size, self.tag, memory.size)
        self.done()

    @precondition(lambda self: self.mapped)
    @rule(which=st.integers(0, 99))
    def unmap(self, which: int) -> None:
        address = self.pick(sorted(self.mapped), which)
        self.cann.aclrtUnmapMem(address)
        self.mapped.pop(address).maps.remove(address)
        self.refused("aclrtUnmapMem", address)
        assert self.cann.failure("aclrtMemset", address, 1, 0, 1).error.startswith("EMULATOR_")

    @precondition(lambda self: self.physicals)
    @rule(which=st.integers(0, 99))
    def free(self, which: int) -> None:
        memory = self.pick(self.physicals, which)
        if memory.freed:
            self.refused("aclrtFreePhysical", memory.handle)
            return
        self.cann.aclrtFreePhysical(memory.handle)
        memory.freed = True
        self.done()

    @precondition(lambda self: self.reserved)
    @rule(which=st.integers(0, 99))
    def release(self, which: int) -> None:
        base = self.pick(sorted(self.reserved), which)
        if any(base <= address < base + self.reserved[base] for address in self.mapped):
            self.refused("aclrtReleaseMemAddress", base)
            return
        self.cann.aclrtReleaseMemAddress(base)
        del self.reserved[base]
        self.refused("aclrtReleaseMemAddress", base)

    @precondition(lambda self: self.physicals)
    @rule(which=st.integers(0, 99), flags=st.sampled_from((0, 1, 1, 2)))
    def export(self, which: int, flags: int) -> None:
        memory, name = self.pick(self.physicals, which), ctypes.c_uint64()
        if memory.freed or memory.name is not None or flags == 2:
            self.refused("aclrtMemExportToShareableHandle", memory.handle, 0, flags, ctypes.byref(name))
            return
        self.cann.aclrtMemExportToShareableHandle(memory.handle, 0, flags, ctypes.byref(name))
        memory.name = name.value
        self.done()

    @rule(which=st.integers(0, 99), change=st.integers(0, 1 << 40))
    def import_(self, which: int, change: int) -> None:
        """A name that was never given out, or, unchanged, this process's own: neither can be imported here."""
        names = [memory.name for memory in self.physicals if memory.name is not None] or [1]
        self.refused(
            "aclrtMemImportFromShareableHandle", self.pick(names, which) ^ change, 0, ctypes.byref(ctypes.c_void_p())
        )

    def teardown(self) -> None:
        """What is mapped holds the last byte written; in the end the device has all of its memory again."""
        for address, memory in self.mapped.items():
            assert read_byte(self.cann, address) == memory.byte
            assert read_byte(self.cann, address + memory.size - 1) == memory.byte
        for address in self.mapped:
            self.cann.aclrtUnmapMem(address)
        for memory in self.physicals:
            if not memory.freed:
                self.cann.aclrtFreePhysical(memory.handle)
        for base in self.reserved:
            self.cann.aclrtReleaseMemAddress(base)
        assert used(self.cann) == 0


@scenario(emulator=("--cann", NEWEST))
def virtual_memory(run: Run) -> None:
    """Reserve, map, unmap, write, free, export, import in any order, beside a model of what each must answer."""
    cann = Cann()
    USED.append((cann, run))
    for choice in run.rounds():
        number = choice.randrange(1 << 32)
        chosen = settings(
            max_examples=25, stateful_step_count=40, deadline=None, database=None, print_blob=False,
            phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        seed(number)(Model)
        run_state_machine_as_test(Model, settings=chosen)
    cann.finish()


# ------------------------------------------------------------------------------------------------------------- IPC keys


def exporter(pipe: Any, flags: int, allowed: list[int]) -> None:
    """Another process: exports memory with a byte in it and, when it is asked to, tells the byte, or ends."""
    cann = Cann()
    address, key = cann.malloc(4096), ctypes.create_string_buffer(KEY_BYTES)
    cann.aclrtMemset(address, 4096, 7, 4096)
    cann.aclrtIpcMemGetExportKey(address, 4096, key, KEY_BYTES, flags)
    if allowed:
        pids = (ctypes.c_int32 * len(allowed))(*allowed)
        cann.aclrtIpcMemSetImportPid(key, pids, len(allowed))
    pipe.send(key.raw)
    for asked in iter(pipe.recv, "close"):
        pipe.send(read_byte(cann, address) if asked == "read" else cann.failure("aclrtIpcMemClose", key).error)
    cann.aclrtIpcMemClose(key)
    cann.aclrtFree(address)
    pipe.send("closed")
    pipe.recv()


def forged(key: bytes, choice: random.Random) -> bytes:
    """A key with other characters, cut, or of nothing but noise."""
    text = bytearray(key)
    kind = choice.randrange(4)
    if kind == 0:
        at = choice.randrange(len(key.rstrip(b"\0")))
        text[at] = (text[at] + choice.randrange(1, 256)) % 256
    elif kind == 1:
        text[choice.randrange(len(key.rstrip(b"\0"))) :] = b""
    elif kind == 2:
        text = bytearray(choice.randbytes(KEY_BYTES - 1))
    else:
        at = choice.randrange(8, len(key.rstrip(b"\0")))
        text[at:] = text[at:][::-1]
    return bytes(text[: KEY_BYTES - 1]).ljust(KEY_BYTES, b"\0")


@scenario(emulator=("--cann", NEWEST))
def memory_keys(run: Run) -> None:
    """Keys that are forged, of ended processes, closed, or of processes that do not allow this one: all refused."""
    for choice in run.rounds():
        everybody = choice.random() < 0.6
        allowed = [] if everybody or choice.random() < 0.5 else [1, os.getpid() + 100_000]
        ours, theirs = FORK.Pipe()
        # Forked before this process has used a device: the importer is a child, too.
        other = FORK.Process(target=exporter, args=(theirs, int(everybody), allowed), daemon=True)
        other.start()
        theirs.close()
        run.step(f"another process exports 4096 bytes, {'for everybody' if everybody else f'for {allowed}'}")
        run.expect(ours.poll(patience(20)), "the exporter does not answer")
        key: bytes = ours.recv()
        importer = FORK.Process(target=imports, args=(run, choice, key, everybody, ours, other.pid), daemon=True)
        importer.start()
        importer.join(patience(30))
        run.expect(importer.exitcode is not None, "the importer hangs")
        run.expect(importer.exitcode == 0, f"the importer ended with {importer.exitcode}, see output.txt")
        other.kill()
        other.join()
        run.count("keys of everybody's memory" if everybody else "keys of others' memory")


def imports(run: Run, choice: random.Random, key: bytes, everybody: bool, exporter: Any, pid: int) -> None:
    cann = Cann()
    import_name = "aclrtIpcMemImportByKey"
    for _ in range(20):
        wrong = forged(key, choice)
        run.step(f"import of {wrong!r}")
        if wrong.rstrip(b"\0").split(b"\0")[0] != key.rstrip(b"\0"):
            cann.failure(import_name, ctypes.byref(ctypes.c_void_p()), wrong, choice.choice((0, 1)))
    if not everybody:
        run.step("import of a key that is not for this process")
        cann.failure(import_name, ctypes.byref(ctypes.c_void_p()), key, 1)
        exporter.send("read")
        assert exporter.recv() == 7, "the exporter's memory has changed"
    else:
        address = cann.create(import_name, key, 1)
        assert read_byte(cann, address) == 7
        way = choice.choice(("closed", "killed", "close here"))
        run.step(f"the exporter is {way}")
        if way == "killed":
            os.kill(pid, signal.SIGKILL)
            assert read_byte(cann, address) == 7, "memory of an ended process stays until it is closed"
        elif way == "closed":
            exporter.send("close too early")
            assert exporter.recv() == "EMULATOR_FREE_IN_USE"
            assert read_byte(cann, address) == 7
        cann.aclrtIpcMemClose(key)
        if way == "closed":
            exporter.send("close")
            assert exporter.recv() == "closed"
        for name, arguments in (("aclrtMemset", (address, 1, 1, 1)), ("aclrtIpcMemClose", (key,))):
            cann.failure(name, *arguments)
        if way != "close here":
            gone = wait_for(lambda: is_refused(cann, import_name, key), patience(5))
            assert gone, f"the key of a process that has {way} is still good"
    cann.finish()


def is_refused(cann: Cann, name: str, key: bytes) -> bool:
    try:
        cann.create(name, key, 1)
    except CannError:
        return True
    cann.aclrtIpcMemClose(key)
    return False
