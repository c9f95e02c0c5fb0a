"""Random programs of collectives agree with NumPy, on both backends; ranks that are killed, communicators by the hundred.

A program makes communicators (of all ranks, of some, several at a time), each with a stream of its own, and queues
collectives of random kinds, sizes, data types and reductions on them, in place or not; only at its end it waits and looks
at the results. ``ASCEND_ACLNN_PROGRAMS`` says how many run in all (``./scripts/test --all``: 1000); fewer crews, and fewer
programs, run where long tests are left out.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Callable

import numpy as np
import pytest
from collective_programs import programs, random_program
from long_tests import LONG
from process_tools import shared_files, wait_until
from rank_tools import MARK, Crew, processes

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, Communicator

PROGRAMS = int(os.environ.get("ASCEND_ACLNN_PROGRAMS", "40" if LONG else "8"))
BATCH = 10  # programs that a crew runs without a word in between
SIZES = (2, 3, 4, 5, 6) if LONG else (2, 5)
BACKENDS = ("numpy", "emulator")
# A rank that is lost before anyone has met it in a communicator by a root info is missed after so many seconds only. On a busy
# machine one rank may start so much later than another.
MEETING = "10"


def start(size: int, backend: str, request: pytest.FixtureRequest, **variables: str) -> Crew:
    home = str(request.getfixturevalue("emulator_home")) if backend == "emulator" else ""
    return Crew(size, "npu" if home else "numpy", home=home, **variables)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", SIZES)
def test_random_programs_agree_with_numpy(size: int, backend: str, request: pytest.FixtureRequest) -> None:
    crew = start(size, backend, request)
    try:
        each = max(PROGRAMS // (len(SIZES) * len(BACKENDS)), 1)
        first = 10_000 * size + (5000 if backend == "emulator" else 0)
        for low in range(0, each, BATCH):
            seeds = list(range(first + low, first + min(low + BATCH, each)))
            for found in crew.run(programs, seeds):
                assert found == seeds, found
    finally:
        crew.close()


# --------------------------------------------------------------------------------------------------- lost ranks


def until_it_fails(world: Communicator, seed: int) -> tuple[str, str]:
    """Programs until a rank is lost; the error that this one gets."""
    try:
        for number in range(10_000):
            random_program(world, seed + number)
    except AclError as error:
        return "lost", str(error)
    return "finished", ""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(max(PROGRAMS // 100, 2)))
def test_a_rank_killed_at_any_moment(seed: int, backend: str, request: pytest.FixtureRequest) -> None:
    choice = random.Random(seed)
    size = choice.randrange(2, 5)
    crew, lost = start(size, backend, request, HCCL_CONNECT_TIMEOUT=MEETING), choice.randrange(size)
    try:
        crew.run(programs, [])  # all have met
        assert len(processes(crew.mark)) == size * (2 if backend == "emulator" else 1)
        with crew.answers(until_it_fails, 1000 * seed) as answers:
            time.sleep(choice.random() * 0.6)
            os.kill(crew.children[lost].pid, signal.SIGKILL)
            for rank in range(size):
                if rank != lost:
                    kind, text = answers(rank, 100)
                    assert kind == "lost", text
    finally:
        crew.close()
    wait_until(lambda: not processes(crew.mark), "processes are left")


def make(world: Communicator) -> None:
    info = np.zeros(4108, np.uint8)
    if world.rank == 0:
        info[:] = np.frombuffer(Communicator.root_info(), np.uint8)
    given = np.asarray(world.broadcast(aclnn.asarray(info), 0)).tobytes()
    aclnn.synchronize()
    Communicator.from_root_info(given, world.rank, world.size).close()


def divide(world: Communicator) -> None:
    part = world.split(list(range(world.size)))
    assert part is not None
    part.close()


def destroy(world: Communicator) -> None:
    """Mostly spends its time with leaving."""
    parts = [world.split(list(range(world.size))) for _ in range(3)]
    for number, part in enumerate(parts):
        assert part is not None
        part.barrier()
        aclnn.synchronize()
        time.sleep(0.01 * ((world.rank + number) % 3))
        part.close()


def again_until_it_fails(world: Communicator, body: Callable[[Communicator], None]) -> tuple[str, str]:
    try:
        for _ in range(10_000):
            body(world)
    except AclError as error:
        return "lost", str(error)
    return "finished", ""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("body", [make, divide, pytest.param(destroy, marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", range(max(PROGRAMS // 200, 1)))
def test_a_rank_killed_while_communicators_come_and_go(
    seed: int, body: Callable[[Communicator], None], backend: str, request: pytest.FixtureRequest
) -> None:
    """Ranks that know each other do not wait for HCCL_CONNECT_TIMEOUT, which is 120 s where it is not set."""
    choice = random.Random(f"{seed} {body.__name__} {backend}")
    size = choice.randrange(2, 7)
    lost, settings = choice.randrange(size), {"HCCL_CONNECT_TIMEOUT": MEETING} if body is make else {}
    crew = start(size, backend, request, **settings)
    try:
        crew.run(programs, [])  # all have met
        shared = set().union(*map(shared_files, processes(crew.mark)))
        with crew.answers(again_until_it_fails, body) as answers:
            time.sleep(0.2 + choice.random() * 0.6)
            os.kill(crew.children[lost].pid, signal.SIGKILL)
            for rank in range(size):
                if rank != lost:
                    kind, text = answers(rank, 100)
                    assert kind == "lost", text
    finally:
        crew.close()
    wait_until(lambda: not processes(crew.mark), "processes are left")
    assert not [path for path in shared if path.exists()]


# --------------------------------------------------------------------------------------------------- many of them


def by_the_hundred(world: Communicator, count: int) -> tuple[int, int]:
    """The open descriptors of all ranks' processes before and after making so many communicators."""

    mine = processes(os.environ[MARK])  # of all ranks

    def descriptors() -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in mine)

    def make() -> None:
        part = world.split(list(range(world.size)))
        assert part is not None
        with part:
            assert np.asarray(part.all_reduce(aclnn.asarray(np.ones(3, np.float32)))).tolist() == [world.size] * 3

    for _ in range(5):
        make()
    world.barrier()
    aclnn.synchronize()
    before = descriptors()
    for _ in range(count):
        make()
    world.barrier()
    aclnn.synchronize()
    world.barrier()
    aclnn.synchronize()
    return before, descriptors()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hundred_communicators_leave_nothing(backend: str, request: pytest.FixtureRequest) -> None:
    crew = start(2, backend, request)
    try:
        for before, after in crew.run(by_the_hundred, 100):
            assert after <= before + 8  # of 200 communicators of two ranks
    finally:
        crew.close()


def test_a_rank_costs_little_memory(request: pytest.FixtureRequest) -> None:
    """Before its first operator a rank's device process takes less than 60 MB."""
    crew = start(2, "emulator", request)
    try:
        crew.run(programs, [])
        devices = [pid for pid, command in processes(crew.mark).items() if "emulator.process.device" in command]
        assert len(devices) == 2
        for pid in devices:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            megabytes = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))
            assert 5 < megabytes < 60
    finally:
        crew.close()
