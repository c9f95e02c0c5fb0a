"""Random programs of collectives, each of which looks at its own results: see tests/collectives/test_random_programs.py."""

from __future__ import annotations

import contextlib
import random
from typing import Any, Callable

import ml_dtypes
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, ops

DTYPES: list[Any] = [
    *(np.float32, np.float16, ml_dtypes.bfloat16, np.float64),
    *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
]
REDUCED = [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.int16, np.int32, np.int64]  # on Atlas A2
REDUCTIONS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
COUNTS = (0, 1, 2, 7, 64, 1000, 5000, 70_000)

Check = Callable[[], None]


def values(rank: int, count: int, dtype: Any, seed: int) -> Any:
    """Small whole numbers, of which every reduction is exact in every data type."""
    least = 0 if np.dtype(dtype).kind == "u" else -2
    return np.random.default_rng([seed, rank]).integers(least, 3, count).astype(dtype)


def reduced(arrays: list[Any], op: str) -> Any:
    total = (
        arrays[0].astype(np.float32)
        if arrays[0].dtype.itemsize == 2 and arrays[0].dtype.kind not in "iu"
        else arrays[0]
    )
    for array in arrays[1:]:
        total = REDUCTIONS[op](total, array.astype(total.dtype))
    return total.astype(arrays[0].dtype)


class Member:
    """A communicator of a program, as one of its ranks sees it."""

    def __init__(self, comm: Communicator, ranks: list[int], stream: Any) -> None:
        self.comm, self.ranks, self.stream = comm, ranks, stream

    def step(self, choice: random.Random, seed: int) -> Check:
        """Queues one collective; what it returns looks at the results once the stream has passed."""
        comm, n, r = self.comm, len(self.ranks), self.comm.rank
        dtype, count, op = choice.choice(DTYPES), choice.choice(COUNTS), choice.choice(list(REDUCTIONS))
        root, in_place = choice.randrange(n), choice.random() < 0.5
        counts = [choice.randrange(40) for _ in range(n)]
        matrix = [[choice.randrange(20) for _ in range(n)] for _ in range(n)]
        kind = choice.choice(KINDS)
        if "reduce" in kind:
            refused = (np.int16, ml_dtypes.bfloat16) if op == "prod" else ()
            dtype = choice.choice([reduced for reduced in REDUCED if reduced not in refused])
        if comm.backend.wraps_host_memory is False:
            count = min(count, 5000)

        def of(length: int, source: int) -> Any:
            return values(self.ranks[source], length, dtype, seed)

        def tensor(array: Any) -> Any:
            return aclnn.asarray(array)

        def expects(found: Any, wanted: Any) -> Check:
            def check() -> None:
                got = np.asarray(found)
                what = f"{kind} of {count} {np.dtype(dtype)} {op} on {n} ranks, in place {in_place}"
                assert got.dtype == wanted.dtype and got.tobytes() == wanted.tobytes(), what

            return check

        on = {"stream": self.stream}
        if kind == "all_reduce":
            x = tensor(of(count, r))
            out = x if in_place else aclnn.empty(x.shape, x.dtype)
            comm.all_reduce(x, op, out=None if in_place else out, **on)
            return expects(out, reduced([of(count, s) for s in range(n)], op))
        if kind == "reduce":
            x = comm.reduce(tensor(of(count, r)), root, op, **on)
            return expects(x, reduced([of(count, s) for s in range(n)], op) if r == root else of(count, r))
        if kind == "broadcast":
            return expects(comm.broadcast(tensor(of(count, r)), root, **on), of(count, root))
        if kind == "all_gather":
            return expects(
                comm.all_gather(tensor(of(count, r)), **on), np.concatenate([of(count, s) for s in range(n)])
            )
        if kind == "all_gather_v":
            got = comm.all_gather_v(tensor(of(counts[r], r)), counts, **on)
            return expects(got, np.concatenate([of(counts[s], s) for s in range(n)]))
        if kind == "reduce_scatter":
            got = comm.reduce_scatter(tensor(of(count * n, r)), op, **on)
            return expects(got, reduced([of(count * n, s) for s in range(n)], op)[count * r : count * (r + 1)])
        if kind == "reduce_scatter_v":
            whole, start = sum(counts), sum(counts[:r])
            got = comm.reduce_scatter_v(tensor(of(whole, r)), counts, op, **on)
            return expects(got, reduced([of(whole, s) for s in range(n)], op)[start : start + counts[r]])
        if kind == "scatter":
            out = aclnn.empty((count,), dtype)
            comm.scatter(tensor(of(count * n, root)) if r == root else None, root, out=out, **on)
            return expects(out, of(count * n, root)[count * r : count * (r + 1)])
        if kind == "all_to_all":
            got = comm.all_to_all(tensor(of(count * n, r)), **on)
            return expects(got, np.concatenate([of(count * n, s)[count * r : count * (r + 1)] for s in range(n)]))
        if kind == "all_to_all_v":
            got = comm.all_to_all_v(tensor(of(sum(matrix[r]), r)), matrix[r], [matrix[s][r] for s in range(n)], **on)
            parts = [of(sum(matrix[s]), s)[sum(matrix[s][:r]) :][: matrix[s][r]] for s in range(n)]
            return expects(got, np.concatenate(parts))
        if kind == "ring" and n > 1:
            out = aclnn.empty((count,), dtype)
            items = [("send", tensor(of(count, r)), (r + 1) % n), ("recv", out, (r - 1) % n)]
            comm.batch_send_recv(items, **on)
            return expects(out, of(count, (r - 1) % n))
        if kind == "operator":
            x = values(self.ranks[r], 6, np.float16, seed).reshape(2, 3)
            weight = values(99, 12, np.float16, seed).reshape(3, 4)
            got = ops.matmul_all_reduce(tensor(x), tensor(weight), None, comm.name, "sum", 0, 1, **on)
            everyone = [values(s, 6, np.float16, seed).reshape(2, 3).astype(np.float32) @ weight for s in self.ranks]
            return expects(got, np.sum(everyone, axis=0).astype(np.float16))
        comm.barrier(**on)
        return lambda: None


KINDS = [
    *("all_reduce", "reduce", "broadcast", "all_gather", "all_gather_v", "reduce_scatter", "reduce_scatter_v"),
    *("scatter", "all_to_all", "all_to_all_v", "ring", "operator", "barrier"),
]


def random_program(world: Communicator, seed: int) -> int:
    """One program; every rank makes the same choices and runs its own part."""
    choice = random.Random(seed)
    with contextlib.ExitStack() as made:
        members = [Member(world, list(range(world.size)), choice.choice((None, aclnn.Stream())))]
        for _ in range(choice.randrange(4)):
            if choice.random() < 0.3:  # another one of all ranks, by a root info that rank 0 makes
                info = np.zeros(4108, np.uint8)
                if world.rank == 0:
                    info[:] = np.frombuffer(Communicator.root_info(), np.uint8)
                given = np.asarray(world.broadcast(aclnn.asarray(info), 0)).tobytes()
                comm = made.enter_context(Communicator.from_root_info(given, world.rank, world.size))
                members.append(Member(comm, list(range(world.size)), aclnn.Stream()))
                continue
            ranks = choice.sample(range(world.size), choice.randrange(1, world.size + 1))
            part = world.split(ranks)
            if part is not None:
                members.append(Member(made.enter_context(part), ranks, aclnn.Stream()))
            else:
                members.append(Member(world, [], None))  # not ours: its choices are made all the same
        checks: list[Check] = []
        for _ in range(choice.randrange(3, 14)):
            which, step_seed = choice.randrange(len(members)), choice.randrange(1 << 30)
            member = members[which]
            if member.ranks:
                checks.append(member.step(random.Random(step_seed), step_seed))
        aclnn.synchronize()
        for check in checks:
            check()
    return seed


def programs(world: Communicator, seeds: list[int]) -> list[int]:
    done = []
    for seed in seeds:
        try:
            done.append(random_program(world, seed))
        except BaseException as error:
            raise AssertionError(f"seed {seed} on rank {world.rank} of {world.size}: {error!r}") from error
    return done
