#!/usr/bin/env python
"""Programs from which one wait is taken away, and what emulator run --validate says: a table; exit status 1 where it is wrong.

    scripts/race_table.py                      a few deletions of each program
    scripts/race_table.py --long               every deletion of each program
    scripts/race_table.py --program graphs     one program; may be repeated
    scripts/race_table.py --cann 9.0.0         another release; may be repeated
    scripts/race_table.py --long --cann 8.1.RC1 --cann 9.0.0 --write       also docs/results/races.md

Each wait of a program, that is each call of aclrtStreamWaitEvent, aclrtSynchronize..., and each query that says "complete", is
taken away in a run of its own. The call still waits, so the program goes on as it did, but it counts for nothing
(ASCEND_EMULATOR_VALIDATE_DELETE). Which launches have lost their order is found out beside that, from what the run has queued
and waited for (ASCEND_EMULATOR_VALIDATE_TRACE): by reachability in a graph of all tasks and waits, and by comparing all pairs
of accesses. A deletion is found where all launches that are named are among these pairs, and at least one is named if there is
any. Many deletions leave all in order, because something else waits too: nothing may be named then, nor in the unchanged
program.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests" / "helpers")]

from ports import free_port  # noqa: E402

from ascend_aclnn.emulator import validation  # noqa: E402
from ascend_aclnn.emulator.order import COMMUNICATOR  # noqa: E402

# ----------------------------------------------------------------------------------------------------------------- programs
# Each is run in a process that has loaded the libraries and not used a device yet. Ranks: RANK and WORLD_SIZE are set.


def streams() -> None:
    """This package's streams: an event, a wait for a stream, a query, a synchronisation."""
    import ascend_aclnn as aclnn
    from ascend_aclnn import ops

    x = aclnn.asarray(np.ones((4, 1024), np.float32))
    first, second = aclnn.Stream(), aclnn.Stream()
    aclnn.synchronize()
    with first:
        y = ops.mul(x, x)
    second.wait_event(first.record_event())
    with second:
        z = ops.add(y, x, 1)
    first.wait_stream(second)
    with first:
        ops.mul(x, x, out=y)
        ops.mul(z, z, out=y)
    event = first.record_event()
    event.synchronize()
    assert (y.numpy() == 4).all()
    with second:
        ops.inplace_zero(y)
    second.synchronize()
    assert (y.numpy() == 0).all()


def pinned() -> None:
    """Copies from and to pinned memory on a stream of their own, through ctypes."""
    import ctypes

    import emulator_client

    cann = emulator_client.Cann()
    copies, work = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    there, done = cann.create("aclrtCreateEvent"), cann.create("aclrtCreateEvent")
    host = cann.create("aclrtMallocHost", 4096)
    x, y = (cann.tensor(np.ones(1024, np.float32)) for _ in range(2))
    array = np.ctypeslib.as_array((ctypes.c_float * 1024).from_address(host))
    for step in range(3):
        array[:] = step
        if step:
            cann.aclrtStreamWaitEvent(copies, done)
        cann.aclrtMemcpyAsync(x.address, 4096, host, 4096, 1, copies)
        cann.aclrtRecordEvent(there, copies)
        cann.aclrtStreamWaitEvent(work, there)
        executor, _ = cann.prepare("aclnnMul", x, x, y)
        cann.aclnnMul(None, 0, executor, work)
        cann.aclrtRecordEvent(done, work)
        cann.aclrtSynchronizeEvent(there)
    cann.aclrtStreamWaitEvent(copies, done)
    cann.aclrtMemcpyAsync(host, 4096, y.address, 4096, 2, copies)
    cann.aclrtSynchronizeStream(copies)
    assert (array == 4).all()
    cann.aclrtMemcpy(host, 4096, x.address, 4096, 2)
    cann.aclrtSynchronizeDevice()


def graphs() -> None:
    """A graph of two streams that is replayed between other launches."""
    import ctypes

    import emulator_client

    cann = emulator_client.Cann()
    first, second, third = (cann.create("aclrtCreateStream") for _ in range(3))
    fork, joined, event = (cann.create("aclrtCreateEventExWithFlag", 1) for _ in range(3))
    w, x, y, z = (cann.tensor(np.ones((4, 8), np.float32)) for _ in range(4))

    def multiply(source: Any, out: Any, stream: int) -> None:
        executor, _ = cann.prepare("aclnnMul", source, source, out)
        cann.aclnnMul(None, 0, executor, stream)

    cann.aclmdlRICaptureBegin(first, 0)
    multiply(x, y, first)
    cann.aclrtRecordEvent(fork, first)
    cann.aclrtStreamWaitEvent(second, fork)
    multiply(y, z, second)
    cann.aclrtRecordEvent(joined, second)
    cann.aclrtStreamWaitEvent(first, joined)
    multiply(z, w, first)
    model = ctypes.c_void_p()
    cann.aclmdlRICaptureEnd(first, ctypes.byref(model))
    for _ in range(2):
        multiply(w, x, third)
        cann.aclrtRecordEvent(event, third)
        cann.aclrtStreamWaitEvent(first, event)
        cann.aclmdlRIExecuteAsync(model, first)
        cann.aclrtRecordEvent(event, first)
        cann.aclrtStreamWaitEvent(third, event)
        multiply(z, y, third)
    cann.aclrtSynchronizeStream(third)
    cann.read(y)
    cann.aclrtSynchronizeDevice()
    cann.aclmdlRIDestroy(model)


def signals() -> None:
    """A graph that waits for a stream by an external event, and tells two streams by a notify and a value."""
    import ctypes

    import emulator_client

    cann = emulator_client.Cann()
    work, before, notified, told = (cann.create("aclrtCreateStream") for _ in range(4))
    given = cann.create("aclrtCreateEventWithFlag", 32)
    notify, flag = cann.create("aclrtCreateNotify", 0), cann.tensor(np.zeros(1, np.int64)).address
    w, x, y, z, u = (cann.tensor(np.ones((4, 8), np.float32)) for _ in range(5))

    def multiply(source: Any, out: Any, stream: int) -> None:
        executor, _ = cann.prepare("aclnnMul", source, source, out)
        cann.aclnnMul(None, 0, executor, stream)

    cann.aclmdlRICaptureBegin(work, 0)
    cann.aclrtStreamWaitEvent(work, given)
    cann.aclrtResetEvent(given, work)
    multiply(x, y, work)
    cann.aclrtRecordNotify(notify, work)
    cann.aclrtValueWrite(flag, 1, 0, work)
    model = ctypes.c_void_p()
    cann.aclmdlRICaptureEnd(work, ctypes.byref(model))
    for _ in range(2):
        multiply(w, x, before)
        cann.aclrtRecordEvent(given, before)
        cann.aclmdlRIExecuteAsync(model, work)
        cann.aclrtWaitAndResetNotify(notify, notified, 0)
        multiply(y, z, notified)
        cann.aclrtValueWait(flag, 1, 1, told)
        cann.aclrtValueWrite(flag, 0, 0, told)
        multiply(y, u, told)
        for stream in (notified, told):
            cann.aclrtSynchronizeStream(stream)
    cann.read(z)
    cann.aclrtSynchronizeDevice()
    cann.aclmdlRIDestroy(model)


def shared() -> None:
    """Two processes that write and read the same memory in turns, by events that they share."""
    import ctypes
    import socket

    import emulator_client

    class Handle(ctypes.Structure):
        _fields_ = [("reserved", ctypes.c_char * 64)]

    cann, rank = emulator_client.Cann(), int(os.environ["RANK"])
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank == 0:
        with socket.create_server(place) as server:
            other, _ = server.accept()
    else:
        other = _connected(place)
    talk = other.makefile("rw")

    def say(*words: str) -> None:
        print(*words, file=talk, flush=True)

    work = cann.create("aclrtCreateStream")
    own = cann.tensor(np.ones(16, np.float32))
    ready = cann.create("aclrtCreateEventExWithFlag", 64)
    handle = Handle()
    cann.aclrtIpcGetEventHandle(ready, ctypes.byref(handle))
    key = ctypes.create_string_buffer(65)
    if rank == 0:
        address = cann.malloc(64)
        cann.aclrtIpcMemGetExportKey(address, 64, key, 65, 1)
        say(key.value.decode(), bytes(handle).hex())
        (event,) = talk.readline().split()
    else:
        name, event = talk.readline().split()
        say(bytes(handle).hex())
        address = cann.create("aclrtIpcMemImportByKey", name.encode(), 1)
    open_handle, done = cann.libraries[0].aclrtIpcOpenEventHandle, ctypes.c_void_p()
    open_handle.argtypes = [Handle, ctypes.c_void_p]
    assert open_handle(Handle.from_buffer_copy(bytes.fromhex(event)), ctypes.byref(done)) == 0
    both = cann.describe((16,), np.float32, address)

    def multiply(source: Any, out: Any) -> None:
        executor, _ = cann.prepare("aclnnMul", source, source, out)
        cann.aclnnMul(None, 0, executor, work)

    for step in range(3):  # neither host waits before both have queued all
        if rank == 0:
            if step:
                cann.aclrtStreamWaitEvent(work, done)
            multiply(own, both)
            cann.aclrtRecordEvent(ready, work)
            say("written")
            talk.readline()
        else:
            talk.readline()
            cann.aclrtStreamWaitEvent(work, done)
            multiply(both, own)
            cann.aclrtRecordEvent(ready, work)
            say("read")
    if rank == 0:
        cann.aclrtSynchronizeEvent(done)
        cann.aclrtMemset(address, 64, 0, 64)
        cann.aclrtSynchronizeStream(work)
        say("end")
    else:
        talk.readline()
        cann.aclrtSynchronizeStream(work)
        cann.read(own)


def _connected(place: tuple[str, int]) -> Any:
    """A connection to a server that may not listen yet."""
    import socket

    ends = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(place)
        except ConnectionRefusedError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.01)


def training() -> None:
    """Two steps of torch_npu, with copies and a part of the work on a side stream."""
    import torch
    import torch_npu

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).npu()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    side, main = torch.npu.Stream(), torch.npu.current_stream()
    source, target = torch.randn(2, 16, 32).pin_memory(), torch.randint(0, 8, (2, 16)).npu()
    torch.npu.synchronize()
    for step in range(2):
        with torch.npu.stream(side):
            x = source[step].to("npu", non_blocking=True)
        main.wait_stream(side)
        loss = torch.nn.functional.cross_entropy(net(x), target[step])
        optimizer.zero_grad()
        loss.backward()
        side.wait_stream(main)
        with torch.npu.stream(side):
            norms = [p.grad.norm() for p in net.parameters()]
            loss.record_stream(side)
        main.wait_stream(side)
        optimizer.step()
        assert loss.item() > 0 and torch_npu is not None and norms[0].item() >= 0
    torch.npu.synchronize()


def _ranks(work: Callable[[Any, Any], None]) -> None:
    import torch
    import torch.distributed as dist
    import torch_npu

    assert torch_npu is not None
    torch.npu.set_device(int(os.environ["RANK"]))
    dist.init_process_group("hccl")
    work(torch, dist)
    torch.npu.synchronize()
    dist.barrier()
    os._exit(0)  # without what torch does at the end


def ddp() -> None:
    """A step of DistributedDataParallel with two buckets, and an all-reduce without waiting."""

    def work(torch: Any, dist: Any) -> None:
        torch.manual_seed(0)
        device = torch.device("npu", dist.get_rank())
        net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to(device)
        net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[device.index], bucket_cap_mb=0.01)
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
        net(torch.randn(16, 64, device=device)).square().mean().backward()
        optimizer.step()
        y = torch.ones(1024, device=device)
        handle = dist.all_reduce(y, async_op=True)
        handle.wait()
        assert y.mul(2)[0].item() == 4

    _ranks(work)


def pipeline() -> None:
    """Two micro-batches through two ranks, forwards and backwards."""

    def work(torch: Any, dist: Any) -> None:
        rank = dist.get_rank()
        torch.manual_seed(rank)
        device = torch.device("npu", rank)
        net, shape = torch.nn.Linear(32, 32).to(device), (4, 32)
        kept = []
        for _ in range(2):
            x = torch.randn(shape, device=device)
            if rank == 0:
                y = net(x)
                dist.send(y.detach(), 1)
            else:
                dist.recv(x, 0)
                x.requires_grad_()
                y = net(x).square().sum()
            kept.append((x, y))
        for x, y in kept:
            gradient = torch.empty(shape, device=device)
            if rank == 0:
                dist.recv(gradient, 1)
                y.backward(gradient)
            else:
                y.backward()
                dist.send(x.grad, 0)
        assert net.weight.grad.abs().sum().item() > 0

    _ranks(work)


def attention_ffn() -> None:
    """An attention rank and an FFN rank over windows (clients/attention_ffn.py of the tests)."""
    import runpy

    os.environ["LOCAL_RANK"] = os.environ["RANK"]
    runpy.run_path(str(ROOT / "tests" / "emulator" / "clients" / "attention_ffn.py"), run_name="__main__")
    os._exit(0)


class Program(NamedTuple):
    run: Callable[[], None]
    torch: bool = False
    ranks: int = 1
    queue: str = "1"  # TASK_QUEUE_ENABLE
    least: str = "8.1.RC1"  # the first release that has its functions
    options: tuple[str, ...] = ()

    def on(self, release: str) -> str:
        """The release that it runs on where one is asked for."""
        return max(release, self.least, key=lambda text: [int(number) for number in re.findall(r"\d+", text)])


PROGRAMS = {
    # Deferred: a query that finds the work at its end orders the host after it, and a deletion changes nothing then.
    "streams": Program(streams, options=("--streams", "deferred")),
    "pinned": Program(pinned),
    "graphs": Program(graphs),
    "signals": Program(signals, least="8.5.0"),
    "shared memory": Program(shared, ranks=2, least="9.0.0"),
    **{f"training, queue {mode}": Program(training, True, queue=mode) for mode in "012"},
    "ddp": Program(ddp, True, 2),
    "pipeline": Program(pipeline, True, 2),
    "attention-ffn": Program(attention_ffn, True, 2, least="8.5.0", options=("--soc", "Ascend910_9391")),
}

# --------------------------------------------------------------------------------------------------------- what is expected


class Access(NamedTuple):
    task: int  # its node
    kind: int  # 0 read, 1 update, 2 write
    name: str  # "aclnnMul out (1 of 2 in 1234)": the number, the stream and the process


Pair = tuple[str, str]  # of the later and the earlier access


class _Memory:
    """The accesses to one process's memory, or to a file that processes share."""

    def __init__(self) -> None:
        self.rows = np.zeros((0, 3), np.int64)  # start, end, the number of the access; -1: it counts no more
        self.count = 0

    def overlapping(self, start: int, end: int) -> Any:
        old = self.rows[: self.count]
        return old[(old[:, 0] < end) & (old[:, 1] > start) & (old[:, 2] >= 0)]

    def add(self, start: int, end: int, number: int) -> None:
        if self.count == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros((self.count + 1024, 3), np.int64)])
        self.rows[self.count] = start, end, number
        self.count += 1

    def forget(self, start: int, end: int) -> None:
        old = self.rows[: self.count]
        old[(old[:, 0] < end) & (old[:, 1] > start), 2] = -1


class Order:
    """The order of a run: which tasks come before which, whatever the emulated device's clocks say of it.

    Sets of tasks are the bits of a number. A wait for other processes is a task, too, of which it is known at the end what
    comes before it.
    """

    def __init__(self, trace: Path) -> None:
        self.before: list[int] = []  # of each node the nodes before it in its process,
        self.hosts: list[int] = []  # and what hosts had waited for
        self.waits: dict[int, set[int]] = {}  # of each process the numbers of the calls that waited
        self.pairs: list[tuple[Access, Access]] = []  # that have bytes in common of which one is written
        self._process = 0
        self._last: dict[tuple[int, int], int] = {}  # of each timeline the nodes that its next one comes after
        self._clocks: dict[tuple[int, int], int] = {}
        self._own: dict[int, int] = {}  # all nodes of a process
        self._published: dict[str, int] = {}
        self._hosts_published: dict[str, int] = {}  # what hosts had waited for then
        self._received: dict[int, str] = {}  # by node
        self._memories: dict[tuple[str, int], _Memory] = {}
        self._shared: dict[int, list[tuple[int, int, int, int]]] = {}  # of each process: start, end, file, offset
        self._accesses: list[Access] = []
        self._of: list[int] = []  # the process of each access
        self._tasks: dict[int, tuple[int, str]] = {}  # of each process the latest one
        for line in trace.read_text().splitlines():
            process, word, *rest = line.split(" ")
            self._process = int(process)
            self.waits.setdefault(self._process, set())
            if word == "task":
                timeline, number, stream = int(rest[0]), rest[1], rest[2]
                name = f"{rest[3]} {{}} ({number} of {stream} in {process})"
                self._tasks[self._process] = self._node(timeline), name
            elif word == "access":
                self._access(rest)
            elif word == "clock":
                self._clocks[self._process, int(rest[0])] = self._past(int(rest[1]))
            elif word == "wait":
                timeline, clock, call = map(int, rest)
                self._join(timeline, self._clock(clock), call)
            elif word == "host":
                timeline, call = map(int, rest)
                self._join(0, self._past(timeline), call)
            elif word == "passed":
                clock, call = map(int, rest)
                self._join(0, self._clock(clock), call)
            elif word == "publish":
                key = " ".join(rest[1:])
                self._published[key] = self._published.get(key, 0) | self._past(int(rest[0]))
                self._hosts_published[key] = self._hosts_published.get(key, 0) | self._all_hosts()
            elif word == "receive":
                self._received[self._node(int(rest[0]))] = " ".join(rest[2:])
                self._join(int(rest[0]), 1 << len(self.before) - 1, int(rest[1]))
            elif word == "shared":
                self._share(*map(int, rest))
            elif word == "forget":
                start, size = map(int, rest)
                self._memory("process", self._process).forget(start, start + size)
                ranges = self._shared.get(self._process, [])
                self._shared[self._process] = [r for r in ranges if r[0] >= start + size or r[1] <= start]

    def _memory(self, kind: str, number: int) -> _Memory:
        return self._memories.setdefault((kind, number), _Memory())

    def _clock(self, number: int) -> int:
        return self._clocks[self._process, number] if number else self._own.get(self._process, 0)

    def _past(self, timeline: int) -> int:
        return self._last.get((self._process, timeline), 0) | self._last.get((self._process, 0), 0)

    def _all_hosts(self) -> int:
        hosts = 0
        for (_, timeline), nodes in self._last.items():
            hosts |= nodes if timeline == 0 else 0
        return hosts

    def _node(self, timeline: int) -> int:
        past, node = self._past(timeline), len(self.before)
        self.hosts.append(self._all_hosts())
        self._last[self._process, timeline] = past | 1 << node
        self._own[self._process] = self._own.get(self._process, 0) | 1 << node
        self.before.append(past)
        return node

    def _join(self, timeline: int, past: int, call: int) -> None:
        if call:
            self.waits[self._process].add(call)
        key = self._process, timeline
        self._last[key] = self._last.get(key, 0) | (self._all_before(past) if timeline == 0 else past)

    def _share(self, start: int, size: int, file: int, offset: int) -> None:
        """From now on the memory is a part of a file; what was done to it counts."""
        self._shared.setdefault(self._process, []).append((start, start + size, file, offset))
        memory = self._memory("file", file)
        for first, last, number in self._memory("process", self._process).overlapping(start, start + size).tolist():
            memory.add(max(first, start) - start + offset, min(last, start + size) - start + offset, number)

    def _access(self, words: list[str]) -> None:
        kind, address, size, rows, pitch, vague, member = map(int, words[:7])
        argument = words[7] + (f"[{member}]" if member >= 0 else "")
        if vague or not size:
            return
        node, task = self._tasks[self._process]
        access, number = Access(node, kind, task.format(argument)), len(self._accesses)
        self._accesses.append(access)
        self._of.append(self._process)
        for row in range(rows):
            start = address + row * pitch
            self._compare(self._memory("process", self._process), start, start + size, number)
            for first, last, file, offset in self._shared.get(self._process, []):
                if max(start, first) < min(start + size, last):
                    inside = max(start, first) - first + offset, min(start + size, last) - first + offset
                    self._compare(self._memory("file", file), *inside, number, elsewhere=True)

    def _compare(self, memory: _Memory, start: int, end: int, number: int, elsewhere: bool = False) -> None:
        access = self._accesses[number]
        for other in set(memory.overlapping(start, end)[:, 2].tolist()):
            earlier = self._accesses[other]
            apart = self._of[other] != self._of[number]
            if apart == elsewhere and earlier.task != access.task and (access.kind or earlier.kind):
                self.pairs.append((access, earlier))
        memory.add(start, end, number)

    def _all_before(self, nodes: int, by_hosts: bool = False) -> int:
        """With what waits for other processes bring."""
        todo = nodes
        for node, key in reversed(self._received.items()):
            if todo >> node & 1:
                todo |= self._published.get(key, 0) | (self._hosts_published.get(key, 0) if by_hosts else 0)
        return todo if todo == nodes else self._all_before(todo, by_hosts)

    def unordered(self, by_hosts: bool) -> set[Pair]:
        """Pairs without an order; ``by_hosts``: what the host of another process has waited for comes before, too."""
        found = set()
        for later, earlier in self.pairs:
            before = self.before[later.task] | (self.hosts[later.task] if by_hosts else 0)
            if self._all_before(before, by_hosts) >> earlier.task & 1:
                continue
            if not self._all_before(self.before[earlier.task], by_hosts) >> later.task & 1:
                found.add((later.name, earlier.name))
        return found


# ------------------------------------------------------------------------------------------------------------------- a run


def _side(side: dict[str, Any], process: int) -> str:
    argument = side["argument"] + (f"[{side['member']}]" if side["member"] >= 0 else "")
    return f"{side['operator']} {argument} ({side['number']} of {side['stream']} in {side.get('process', process)})"


class Result(NamedTuple):
    waits: list[int]  # of each rank, calls that wait
    named: set[Pair]
    others: list[str]  # findings of other kinds
    unordered: set[Pair]
    possible: set[Pair]  # also those that have an order by chance, because the other rank's host had waited
    failed: str


def _read(folder: Path, ranks: list[int], failed: str) -> Result:
    """What one run has left; the ranks by their processes."""
    named, others = set(), []
    found = validation.Reader(folder / "report")
    found.update()
    for finding in (*found.printed, *found.compared):
        if finding["severity"] != "error":
            continue
        if finding["identifier"].startswith("sync/") and finding["identifier"] != COMMUNICATOR:
            process = finding["process"]
            named.add((_side(finding["later"], process), _side(finding["earlier"], process)))
        else:
            others.append(finding["text"])
    order = Order(folder / "trace")
    waits = [len(order.waits.get(process, ())) for process in ranks]
    return Result(waits, named, others, order.unordered(True), order.unordered(False), failed)


def _run_one(program: Program, folder: Path, rank: int, deleted: int, deleted_rank: int, port: int) -> int:
    """Runs a program in a forked process; its number."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with open(folder / f"output{rank}", "w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        os.environ.update(
            ASCEND_EMULATOR_VALIDATE_REPORT=str(folder / "report"),
            ASCEND_EMULATOR_VALIDATE_TRACE=str(folder / "trace"),
            ASCEND_EMULATOR_VALIDATE_DELETE=str(deleted if rank == deleted_rank else 0),
            RANK=str(rank),
            WORLD_SIZE=str(program.ranks),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
        )
        program.run()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run(program: Program, deleted: int = 0, deleted_rank: int = 0, patience: int = 300) -> Result:
    """Runs a program without one of its waits (0: unchanged)."""
    with tempfile.TemporaryDirectory(prefix="race-") as name:
        folder = Path(name)
        for file in ("report", "trace"):
            (folder / file).touch()
        port = free_port()
        processes = [_run_one(program, folder, rank, deleted, deleted_rank, port) for rank in range(program.ranks)]
        ends, failed = time.monotonic() + patience, ""
        for rank, process in enumerate(processes):
            pid = 0
            while pid == 0 and time.monotonic() < ends:
                pid, status = os.waitpid(process, os.WNOHANG)
                if pid == 0:
                    time.sleep(0.02)
            if pid == 0:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                failed = failed or f"rank {rank} did not end"
            elif status != 0:
                failed = failed or (folder / f"output{rank}").read_text()[-1500:] or f"rank {rank}: status {status}"
        return _read(folder, processes, failed)


def _judge(result: Result) -> str:
    """ "": right; else what is wrong."""
    if result.failed:
        return f"failed: {result.failed}"
    if not result.named <= result.possible:
        return f"named, though in order: {sorted(result.named - result.possible)[:2]}"
    if result.unordered and not result.named:
        return f"not found: {sorted(result.unordered)[:2]}"
    return ""


class Row(NamedTuple):
    program: str
    tried: int
    in_order: int  # deletions after which everything is still in order
    found: int
    missed: int
    false_alarms: int
    wrong: list[str]


def measure(name: str, most: Optional[int]) -> Row:
    """Every deletion of a program, or some that are spread evenly."""
    program = PROGRAMS[name]
    wrong, tried, in_order, found, missed = [], 0, 0, 0, 0
    unchanged, alarms = run(program), 0
    bad = _judge(unchanged) or "; ".join(map(str, [*unchanged.named, *unchanged.others]))
    if bad:
        alarms += 1
        wrong.append(f"{name}, unchanged: {bad}")
    deletions = [(rank, n) for rank, waits in enumerate(unchanged.waits) for n in range(1, waits + 1)]
    if most is not None and len(deletions) > most:
        deletions = [deletions[i * len(deletions) // most] for i in range(most)]
    for rank, number in deletions:
        result = run(program, number, rank)
        tried += 1
        bad = _judge(result)
        if bad:
            absent = bad.startswith(("not found", "failed"))
            missed += absent
            alarms += not absent
            wrong.append(f"{name}, rank {rank}, wait {number}: {bad}")
        elif result.unordered:
            found += 1
        else:
            in_order += 1
    return Row(name, tried, in_order, found, missed, alarms, wrong)


HEAD = ("program", "deletions tried", "still in order", "found, both launches named", "missed", "false alarms")


def table(rows: list[Row]) -> Iterator[str]:
    yield f"| {' | '.join(HEAD)} |"
    yield "|---|" + "--:|" * (len(HEAD) - 1)
    for row in rows:
        yield f"| {' | '.join(map(str, row[:6]))} |"


def child(names: list[str], most: Optional[int]) -> None:
    """In a process under the emulated libraries: measures some programs and prints rows as JSON."""
    if any(PROGRAMS[name].torch for name in names):
        import torch
        import torch_npu

        torch.set_num_threads(1)
        assert torch_npu is not None
    else:
        import emulator_client

        assert emulator_client
    for name in names:
        print(json.dumps(measure(name, most)), flush=True)


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="every deletion of all programs")
    parser.add_argument("--most", type=int, metavar="N", help="at most so many deletions of each program")
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="only this one; may be repeated")
    parser.add_argument("--cann", metavar="RELEASE", action="append", help="a release (8.1.RC1); may be repeated")
    parser.add_argument("--write", action="store_true", help="also write docs/results/races.md")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    names = options.program or list(PROGRAMS)
    most = options.most if options.most is not None else None if options.long else 6
    if options.child:
        child(names, most)
        return 0
    tables = {release: [of_release(release, name, most) for name in names] for release in options.cann or ["8.1.RC1"]}
    for release, rows in tables.items():
        print(f"CANN {release}", *table(rows), *(text for row in rows for text in row.wrong), sep="\n")
    if options.write:
        write(tables, most)
    return int(any(row.missed or row.false_alarms or row.tried == 0 for rows in tables.values() for row in rows))


def of_release(release: str, name: str, most: Optional[int]) -> Row:
    """A program's row, measured in a process under the libraries of a release."""
    program = PROGRAMS[name]
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--cann", program.on(release), *program.options]
    command += ["--", sys.executable, __file__, "--child", "--program", name]
    command += ["--long"] if most is None else ["--most", str(most)]
    variables = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TASK_QUEUE_ENABLE": program.queue}
    variables["ASCEND_EMULATOR_VALIDATE"] = "memory,sync"
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    found = re.findall(r"^\[.*\]$", done.stdout, re.M)
    row = Row(*json.loads(found[-1])) if found else Row(name, 0, 0, 0, 1, 0, [f"{name}: {done.stdout[-500:]}"])
    print(f"{row.program}: {dict(zip(HEAD[1:], row[1:6]))}", file=sys.stderr, flush=True)
    return row


def write(tables: dict[str, list[Row]], most: Optional[int]) -> None:
    import bench_results

    chosen = "--long" if most is None else f"--most {most}"
    text = (
        "Each wait of a program (a wait for an event, a synchronisation, a query) is taken away in a run of its own, and "
        "`emulator run --validate` must name launches that have lost their order by it, and no others. Which those are is found "
        "out beside it, by reachability in a graph of all that was queued. Many waits can go and leave all in order, because "
        "something else waits too. A false alarm is a finding about launches that are in order, in the unchanged program or "
        "without one of its waits. Where a program needs a later release than the default one, it has that."
    )
    rows = [[PROGRAMS[row.program].on(release), *map(str, row[:6])] for release, each in tables.items() for row in each]
    releases = " ".join(f"--cann {release}" for release in tables)
    bench_results.write(
        "races",
        "Deleted waits",
        f"scripts/race_table.py {chosen} {releases} --write",
        text,
        [bench_results.Table(("CANN", *HEAD), rows)],
    )


if __name__ == "__main__":
    sys.exit(main())
