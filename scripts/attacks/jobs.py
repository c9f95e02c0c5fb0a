"""Ranks on one host: many of them, some that die, and ranks that do not agree on what to do."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import time
from typing import Any

import numpy as np
from rank_tools import Crew

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator
from attacks.scenario import DIED, Run, patience, scenario

FORK = multiprocessing.get_context("fork")

Call = tuple[str, int, str, str, int]  # operation, count, data type, reduction, root
OPERATIONS = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")
REDUCTIONS = ("sum", "max", "min")
DTYPES = ("float32", "float16", "int32", "int8")
TYPE_NAMES = {"float32": "FLOAT", "float16": "FLOAT16", "int32": "INT32", "int8": "INT8"}


def perform(comm: Communicator, call: Call) -> None:
    operation, count, dtype, reduction, root = call
    x = aclnn.asarray(np.ones(count * comm.size, dtype))
    if operation in ("all_reduce", "reduce_scatter"):
        getattr(comm, operation)(x, reduction)
    elif operation == "reduce":
        comm.reduce(x, root, reduction)
    elif operation == "broadcast":
        comm.broadcast(x, root)
    else:
        getattr(comm, operation)(x)


def perform_all(world: Communicator, info: bytes, calls: list[list[Call]]) -> str:
    """On a communicator of its own, because a disagreement ends it; the text of the error."""
    with Communicator.from_root_info(info, world.rank, world.size) as comm:
        try:
            for call in calls[world.rank]:
                perform(comm, call)
            aclnn.synchronize()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return ""


def another(call: Call, what: str, size: int, choice: random.Random) -> Call:
    """A call that differs in one respect."""
    operation, count, dtype, reduction, root = call
    if what == "operation":
        operation = choice.choice([name for name in OPERATIONS if name != operation])
    elif what == "counts":
        count += choice.choice((1, 3, 1000))
    elif what == "data type":
        dtype = choice.choice([name for name in DTYPES if name != dtype])
    elif what == "reduction":
        reduction = choice.choice([name for name in REDUCTIONS if name != reduction])
    else:
        root = (root + choice.randrange(1, size)) % size
    return operation, count, dtype, reduction, root


RESPECTS = {  # what a call has, so that ranks may differ in it
    "all_reduce": ("operation", "counts", "data type", "reduction"),
    "reduce": ("operation", "counts", "data type", "reduction", "root"),
    "broadcast": ("operation", "counts", "data type", "root"),
    "all_gather": ("operation", "counts", "data type"),
    "reduce_scatter": ("operation", "counts", "data type", "reduction"),
    "all_to_all": ("operation", "counts", "data type"),
}


def word(call: Call, what: str, size: int) -> str:
    """How an error names this side."""
    operation, count, dtype, reduction, root = call
    parts = operation in ("reduce_scatter", "all_to_all")
    counts = str(count if parts else count * size)
    return {
        "operation": operation,
        "counts": counts,
        "data type": TYPE_NAMES[dtype],
        "reduction": reduction,
        "root": str(root),
    }[what]


@scenario(emulator=(), seconds=30)
def disagreeing_ranks(run: Run) -> None:
    """Ranks that differ in operation, order, counts, data type, reduction or root: every one hears what both sides called."""
    crews = {"numpy": Crew(3), "npu": Crew(2, "npu", home=os.environ["ASCEND_HOME_PATH"])}
    try:
        for choice in run.rounds():
            disagree(run, choice, *choice.choice(list(crews.items())))
    finally:
        for crew in crews.values():
            crew.close()


def disagree(run: Run, choice: random.Random, backend: str, crew: Crew) -> None:
    size, operation = crew.size, choice.choice(OPERATIONS)
    call: Call = (
        operation,
        choice.choice((1, 5, 3000)),
        choice.choice(DTYPES),
        choice.choice(REDUCTIONS),
        choice.randrange(size),
    )
    what, odd = choice.choice(("order", *RESPECTS[operation])), choice.randrange(size)
    calls = [[call] for _ in range(size)]
    if what == "order":
        other = another(call, "operation", size, choice)
        calls = [[call, other] for _ in range(size)]
        calls[odd] = [other, call]
        sides = (call[0], other[0])
    else:
        calls[odd] = [another(call, what, size, choice)]
        sides = (word(call, what, size), word(calls[odd][0], what, size))
    run.step(f"{backend}: rank {odd} differs in {what}: {calls}")
    with aclnn.use_backend("numpy"):
        info = Communicator.root_info()
    for rank, text in enumerate(crew.run(perform_all, info, calls)):
        run.expect(not isinstance(text, BaseException), f"rank {rank}: {text!r}")
        run.expect(text, f"{backend}: rank {odd} differs in {what}, and rank {rank} has no error: {calls}")
        left_out = [side for side in sides if side not in text]
        run.expect(
            not left_out, f"{backend}: rank {odd} differs in {what}; rank {rank} hears nothing of {left_out}: {text}"
        )
    run.count(f"{what} on {backend}")


# ------------------------------------------------------------------------------------------------------- many ranks


def take_part(rank: int, size: int, info: bytes, pipe: Any, deadly: bool) -> None:
    try:
        with aclnn.use_backend("numpy"), Communicator.from_root_info(info, rank, size) as comm:
            for _ in range(5):
                total = np.asarray(comm.all_reduce(np.full(100, rank, np.float32)))
                assert (total == size * (size - 1) / 2).all(), "a wrong sum"
                gathered = np.asarray(comm.all_gather(np.array([rank], np.int32)))
                assert gathered.tolist() == list(range(size)), "wrong parts"
            pipe.send("met")
            while deadly:
                comm.barrier()
            pipe.send("done")
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {error}")
    os._exit(0)


@scenario(seconds=60)
def many_ranks(run: Run) -> None:
    """Up to 64 ranks on one host, one of which may be killed: right numbers, and every survivor names the lost one."""
    for choice in run.rounds():
        size, deadly = choice.choice((8, 33, 64)), choice.random() < 0.7
        with aclnn.use_backend("numpy"):
            info = Communicator.root_info()
        run.step(f"{size} ranks, {'one is killed' if deadly else 'all live'}")
        pipes, ranks = [], []
        for rank in range(size):
            ours, theirs = FORK.Pipe(duplex=False)
            ranks.append(FORK.Process(target=take_part, args=(rank, size, info, theirs, deadly), daemon=True))
            ranks[-1].start()
            theirs.close()
            pipes.append(ours)
        try:
            answers = hear(pipes, range(size), patience(60))
            run.expect(set(answers.values()) == {"met"} and len(answers) == size, f"ranks do not meet: {answers}")
            victim = choice.randrange(size)
            if deadly:
                pid = ranks[victim].pid
                assert pid is not None
                time.sleep(choice.random() * 0.05)
                os.kill(pid, signal.SIGKILL)
            others = [rank for rank in range(size) if rank != victim or not deadly]
            limit = patience(DIED) * max(1, size / 8)
            answers = hear(pipes, others, limit)
            run.expect(
                len(answers) == len(others),
                f"{sorted(set(others) - set(answers))} have no answer after {limit:.0f} seconds",
            )
            for rank, text in answers.items():
                good = f"rank {victim} is lost" in text if deadly else text == "done"
                run.expect(good, f"rank {victim} was killed; rank {rank}: {text}" if deadly else f"rank {rank}: {text}")
            run.count(f"jobs of {size} ranks{', one killed' if deadly else ''}")
        finally:
            for process in ranks:
                process.kill()
                process.join()
            for pipe in pipes:
                pipe.close()


def hear(pipes: list[Any], ranks: Any, seconds: float) -> dict[int, str]:
    """The next word of each of some ranks."""
    answers: dict[int, str] = {}
    end = time.monotonic() + seconds
    while len(answers) < len(ranks) and time.monotonic() < end:
        waiting: dict[Any, int] = {pipes[rank]: rank for rank in ranks if rank not in answers}
        for ready in multiprocessing.connection.wait(list(waiting), 0.1):
            pipe: Any = ready
            try:
                answers[waiting[pipe]] = pipe.recv()
            except EOFError:
                answers[waiting[pipe]] = "it has ended"
    return answers
