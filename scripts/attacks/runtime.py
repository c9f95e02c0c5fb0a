"""Streams, events, memory and operators in numbers and for long; arguments that make no sense."""

from __future__ import annotations

import ctypes
import inspect
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from emulator_client import NEWEST, Cann

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, ops
from attacks.scenario import Run, patience, scenario

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 1983  # of a device of Ascend910B1, beside its default stream
STREAMS, EVENTS = 10_000, 1_000_000  # after which a turn ends


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid: int) -> int:
    """Megabytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20


@scenario(emulator=())
def streams_and_events(run: Run) -> None:
    """10,000 streams, 1983 at a time, and a million events: recorded, awaited, queried, destroyed; nothing is left."""
    cann = Cann()
    streams: list[int] = []
    made = count = 0
    for choice in run.rounds():
        if not streams:
            target = min(choice.choice((10, 1000, LIMIT)), max(STREAMS - made, 1))
            run.step(f"{target} streams")
            while not streams or (len(streams) < target and run.left() > 0):
                streams.append(cann.create("aclrtCreateStream"))
                run.count("streams")
            if len(streams) == LIMIT:
                error = cann.failure("aclrtCreateStream", ctypes.byref(ctypes.c_void_p()))
                run.expect(error.status == 207008, f"a stream beyond the limit: {error}")
            made += len(streams)
        run.step("a thousand events")
        events = []
        for _ in range(1000):
            events.append(cann.create("aclrtCreateEvent"))
            cann.aclrtRecordEvent(events[-1], choice.choice(streams))
            cann.aclrtStreamWaitEvent(choice.choice(streams), choice.choice(events))
            if choice.random() < 0.1:
                cann.aclrtDestroyEvent(events.pop(choice.randrange(len(events))))
        choice.shuffle(events)
        for number, event in enumerate(events):
            if number % 100 == 0:
                cann.aclrtSynchronizeEvent(event)
                status = ctypes.c_int32()
                cann.aclrtQueryEventStatus(event, ctypes.byref(status))
                run.expect(status.value == 1, "an event that was awaited has not passed")
            cann.aclrtDestroyEvent(event)
        count += 1000
        run.count("events", 1000)
        if choice.random() < 0.05 or run.left() == 0:
            run.step(f"{len(streams)} streams are destroyed")
            choice.shuffle(streams)
            for stream in streams:
                cann.aclrtDestroyStream(stream)
            streams = []
            run.expect(cann.live() == 0, f"handles are left: {cann.dump()}")
            if made >= STREAMS and count >= EVENTS:
                break
    for stream in streams:
        cann.aclrtDestroyStream(stream)
    cann.finish()


@scenario(emulator=(), seconds=40)
def soak(run: Run) -> None:
    """Operators, views, streams, events, copies and communicators again and again: memory and descriptors stay as they are."""
    aclnn.use_backend("npu")
    library = ctypes.CDLL("libascendcl.so")
    seen: list[tuple[int, int, int, int]] = []
    begin, seconds, next_look = time.monotonic(), run.left(), 0.5  # when what is kept has been made
    for choice in run.rounds():
        x = aclnn.asarray(np.ones((choice.choice((1, 64, 513)), 32), np.float32))
        with aclnn.Stream() as stream:
            y = ops.add(x, x, 1)
            y = ops.mul(y, y) if choice.random() < 0.5 else ops.exp(y)
            event = aclnn.Event()
            event.record(stream)
        event.synchronize()
        run.expect(np.isfinite(y.numpy()).all(), "numbers are not finite")
        stream.close()
        if choice.random() < 0.05:
            with Communicator.from_root_info(Communicator.root_info(), 0, 1) as comm:
                run.expect(np.array_equal(np.asarray(comm.all_reduce(x)), x.numpy()), "all_reduce of one rank")
        if run.round % 50 == 0:
            aclnn.empty_cache()
        run.count("programs")
        if seconds > 5 and time.monotonic() - begin > seconds * next_look:
            device = int(library.aclemuDevicePid(0))
            seen.append((resident(os.getpid()), resident(device), descriptors(os.getpid()), descriptors(device)))
            next_look += 0.1
    run.step(f"megabytes and descriptors of both processes from the middle on: {seen}")
    if len(seen) > 2:
        first, last = seen[0], seen[-1]
        for what, before, after, most in zip(
            ("megabytes", "megabytes of the device process", "descriptors", "descriptors of the device process"),
            first, last, (24, 24, 8, 8),
        ):  # fmt: skip
            run.expect(after - before <= most, f"{what} grow: {before}, then {after}; {seen}")
        run.count("soaks")


def call_program(run: Run, command: list[str], seconds: float, good: str) -> str:
    """A program that attacks by itself: it must end with 0; what it says of it is the outcome."""
    run.step(" ".join(command))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        run.fail(f"hangs: {command}; {str(error.stdout)[-2000:]}")
    said = (done.stdout + done.stderr)[-4000:]
    run.expect(done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}: {said}")
    run.count(good)
    return (done.stdout.strip().splitlines() or [""])[-1]


@scenario(emulator=("--cann", NEWEST), seconds=30)
def nonsense_arguments(run: Run) -> None:
    """scripts/fuzz_emulator.py: invalid sizes, addresses, handles and texts."""
    for choice in run.rounds():
        seconds = min(max(run.left(), 1), 10)
        threads = choice.choice((1, 1, 2, 4))
        options = [f"--seconds={seconds:.1f}", f"--threads={threads}", f"--seed={choice.randrange(1 << 31)}"]
        command = [sys.executable, str(ROOT / "scripts/fuzz_emulator.py"), *options]
        said = call_program(run, command, seconds + patience(60), "programs")
        run.count("calls", int("".join(filter(str.isdigit, said)) or 0))


JUNK: list[Any] = [
    *(
        None,
        True,
        -1,
        0,
        7,
        1 << 63,
        -(1 << 63),
        1e308,
        float("nan"),
        float("inf"),
        "",
        "x" * 300,
        "\u4e2d",
        b"\0",
        object(),
    ),
    *([], [[]], [1, "a"], (), {}, [None], np.zeros(0), np.zeros((2, 3), np.float32), np.ones((3, 2), np.int64)),
    *(
        np.array("text"),
        np.array([object()]),
        np.zeros((0, 5), np.float16),
        np.ones((1,) * 9, np.float32),
        1j,
        range(3),
    ),
    *(
        np.ones((2, 3), np.float32)[:, ::-1],
        np.ones((4, 4), np.complex64),
        np.zeros((), np.bool_),
        [np.ones(3, np.float32)] * 2,
    ),
]


@scenario(emulator=(), seconds=30)
def nonsense_operators(run: Run) -> None:
    """Every operator with arguments that make no sense, on both backends: an AclError, a TypeError or a ValueError."""
    from ascend_aclnn import AclError

    names = sorted(name for name in dir(ops) if not name.startswith("_") and callable(getattr(ops, name)))
    for choice in run.rounds():
        name, backend = choice.choice(names), choice.choice(("numpy", "npu"))
        parameters = inspect.signature(getattr(ops, name)).parameters.values()
        count = sum(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters)
        arguments = [choice.choice(JUNK) for _ in range(count + choice.choice((0, 0, 0, 1, -1)))]
        named = {"out": choice.choice(JUNK)} if choice.random() < 0.1 else {}
        run.step(f"{name} on {backend}: {arguments!r:.1500} {named!r:.200}")
        try:
            with aclnn.use_backend(backend):
                getattr(ops, name)(*arguments, **named)
            run.count("accepted")
        except (AclError, TypeError, ValueError, NotImplementedError) as error:
            run.count(type(error).__name__)
            run.expect(str(error), f"{name}: {type(error).__name__} without a text")
        except Exception as error:
            run.fail(
                f"{name} on {backend}: {type(error).__name__}: {error}; arguments {arguments!r:.1500} {named!r:.200}"
            )
