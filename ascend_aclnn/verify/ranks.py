"""Operators that several ranks call together: what each rank does, on a device and on the NumPy backend, and what comes out.

A job is a function that every rank runs with its communicator. It calls operators by ``launch``, which keeps their results: those
of a rank on the device are judged by those of the same rank on the NumPy backend. Ranks are threads of this process, each on
a device of its own. What an operator takes from an earlier one comes from the same backend, and so each operator of a job is
judged, the earlier ones first.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

import ml_dtypes
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, Device, ops
from ascend_aclnn.catalog import Operator, get
from ascend_aclnn.verify.calls import arrays, filled_array
from ascend_aclnn.verify.judge import Judgement, Output, compared
from ascend_aclnn.verify.samples import A3, NEW_950

WINDOWS = "8.5.0"  # the CANN whose HCCL lets ranks write to windows of others
HALF, BF16, E4M3 = np.float16, np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)
_LEFT = 10.0  # seconds that the other ranks have to end after one has failed


class Result(NamedTuple):
    """What an operator of a job gave on a rank, in the order of its outputs; or memory that it wrote to, with a name."""

    operator: str
    values: list[Any]
    memory: str = ""


class Launches:
    """The results of one rank's operators, and the numbers that they are of."""

    def __init__(self, seed: int) -> None:
        self.results: list[Result] = []
        self._seed = seed

    def random(self, *key: int) -> np.random.Generator:
        """Numbers, the same ones on each backend."""
        return np.random.default_rng([*key, self._seed])

    def __call__(self, name: str, *arguments: Any, out: Any = None, **options: Any) -> Any:
        """Calls an operator and keeps its results."""
        operator = get(name)
        returned = getattr(ops, operator.python_name)(*arguments, out=out, **options)
        if operator.outputs:
            values = [returned] if len(operator.outputs) == 1 else list(returned)
            self.results.append(Result(name, [None if x is None else np.array(x) for x in values]))
        return returned

    def memory(self, name: str, what: str, value: Any) -> None:
        """Keeps memory of this rank that an operator of another rank has written to."""
        self.results.append(Result(name, [np.array(value)], what))


Job = Callable[[Communicator, Launches], None]


class Work(NamedTuple):
    """A job, the ranks and the SoC that it needs, and the first CANN whose HCCL has what it calls."""

    job: Job
    ranks: int
    soc: str
    cann: Optional[str] = None


def run(work: Work, communicators: Sequence[Callable[[], Communicator]], backend: str, seed: int) -> list[list[Result]]:
    """The results of each rank; the exception of the first rank that failed."""
    ended: queue.Queue[tuple[int, Any]] = queue.Queue()

    def rank(number: int) -> None:
        launches = Launches(seed)
        try:
            with aclnn.use_backend(backend, soc=work.soc if backend == "numpy" else None):
                if backend != "numpy":
                    Device(number).use()
                with communicators[number]() as communicator:
                    try:
                        with np.errstate(all="ignore"):
                            work.job(communicator, launches)
                        aclnn.synchronize()
                    except BaseException:
                        communicator.abort()  # the others wait for this one
                        raise
            ended.put((number, launches.results))
        except BaseException as error:
            ended.put((number, error))

    for number in range(work.ranks):
        threading.Thread(target=rank, args=(number,), daemon=True).start()
    results: dict[int, list[Result]] = {}
    failed: Optional[BaseException] = None
    for _ in range(work.ranks):
        try:
            number, outcome = ended.get(timeout=None if failed is None else _LEFT)
        except queue.Empty:
            break
        if isinstance(outcome, BaseException):
            failed = failed or outcome
        else:
            results[number] = outcome
    if failed is not None:
        raise failed
    return [results[number] for number in range(work.ranks)]


def on_numpy(work: Work, seed: int) -> list[list[Result]]:
    """The results of each rank on the NumPy backend."""
    with aclnn.use_backend("numpy", soc=work.soc):
        info = Communicator.root_info()

    def join(rank: int) -> Callable[[], Communicator]:
        return lambda: Communicator.from_root_info(info, rank, work.ranks)

    return run(work, [join(rank) for rank in range(work.ranks)], "numpy", seed)


def on_devices(work: Work, seed: int) -> list[list[Result]]:
    """The results of each rank on a device of its own: the first devices of this process."""
    communicators = Communicator.of_devices(range(work.ranks))
    return run(work, [lambda communicator=c: communicator for c in communicators], "npu", seed)  # type: ignore[misc]


def judge(operator: Operator, actual: list[list[Result]], expected: list[list[Result]]) -> Judgement:
    """The ranks' results on a device by those on the NumPy backend."""
    judged: list[Output] = []
    for rank, pairs in enumerate(zip(actual, expected)):
        for one, other in zip(*pairs):
            of = get(one.operator)
            titles = [one.memory] if one.memory else [parameter.python_name for parameter in of.outputs]
            where = f"rank {rank}" if of.name == operator.name else f"rank {rank}, {of.name} before it"
            for title, value, wanted in zip(titles, one.values, other.values):
                judged.append(Output(f"{where}: {title}", *compared(of, value, wanted)))
    return Judgement(judged, values(operator, actual), values(operator, expected))


def values(operator: Operator, results: list[list[Result]]) -> list[Any]:
    """What the operator itself gave, on one rank after the other."""
    own = (result for of_rank in results for result in of_rank if result.operator == operator.name)
    return [value for result in own for value in arrays(result.values)]


# ------------------------------------------------------------------------------------------------------- jobs


def _out(shape: Any, dtype: Any) -> Any:
    """An output that is filled before, so that what is not written is seen."""
    return filled_array(np.zeros(shape, dtype))


def _normal(random: np.random.Generator, *shape: int, dtype: Any = HALF) -> Any:
    return random.normal(0, 1, shape).astype(dtype)


def _two_groups(comm: Communicator, launch: Launches) -> None:
    """Experts between a group of experts' ranks and one of parts of matrices, there and back: ranks are (rank // 2, rank % 2)."""
    names, split = [], []
    for members in ([0, 2], [1, 3], [0, 1], [2, 3]):
        part = comm.split(members)
        if part is not None:
            names.append(part.name)
            split.append(part)
    random = launch.random(1, comm.rank)
    experts, rows, hidden, middle = 4, 4, 8, 6  # of all ranks; of a rank are half of the experts
    x, up = _normal(random, experts, rows, hidden // 2), _normal(random, experts // 2, hidden, middle)
    down = _normal(random, experts // 2, middle, hidden)
    bias_up, bias_down = _normal(random, experts // 2, 1, middle), _normal(random, experts // 2, 1, hidden // 2)
    out = tuple(_out((experts // 2, 2 * rows, n), HALF) for n in (middle, hidden, middle))
    y, _, _ = launch("aclnnAlltoAllAllGatherBatchMatMul", x, up, bias_up, *names, 2, 2, 0, 3, out=out)
    launch(
        "aclnnBatchMatMulReduceScatterAlltoAll", y, down, bias_down, *names, 2, 2, 0,
        out=_out((experts, rows, hidden // 2), HALF),
    )  # fmt: skip
    aclnn.synchronize()
    for part in split:
        part.close()


_COUNTS = np.array(
    [[[2, 1], [0, 3]], [[1, 2], [3, 0]]]
)  # rows by the rank that sends, the one that receives, its expert
_HIDDEN, _COLUMNS = 64, 24


def _quantised_experts(version: str) -> Job:
    """Rows go to their experts and are multiplied; each side has one scale."""

    def job(comm: Communicator, launch: Launches) -> None:
        random = launch.random(2, comm.rank)
        sent, received = _COUNTS[comm.rank].reshape(-1), _COUNTS[:, comm.rank].reshape(-1)
        x = _normal(random, int(sent.sum()), _HIDDEN, dtype=E4M3)
        weight = _normal(random, 2, _COLUMNS, _HIDDEN, dtype=E4M3)  # transposed
        scales = np.array([0.5], np.float32), np.array([0.25], np.float32)
        engine = ("ai_cpu",) if version else ()
        launch(
            f"aclnnAlltoAllvQuantGroupedMatMul{version}", x, weight, *scales, *[None] * 6, 1, 1, 0, 0,
            comm.name, *engine, comm.size, sent.tolist(), received.tolist(), True, False, 0, False,
            out=(_out((int(received.sum()), _COLUMNS), HALF), None, None),
        )  # fmt: skip

    return job


def _quantised_experts_back(version: str) -> Job:
    """Rows are multiplied by their experts and go back to their ranks."""

    def job(comm: Communicator, launch: Launches) -> None:
        random = launch.random(3, comm.rank)
        here, back = _COUNTS[:, comm.rank].reshape(-1), _COUNTS[comm.rank].reshape(-1)
        x = _normal(random, int(here.sum()), _HIDDEN, dtype=E4M3)
        weight = _normal(random, 2, _COLUMNS, _HIDDEN, dtype=E4M3)  # transposed
        scales = np.array([0.5], np.float32), np.array([0.25], np.float32)
        engine = ("ai_cpu",) if version else ()
        launch(
            f"aclnnQuantGroupedMatMulAlltoAllv{version}", x, weight, *scales, *[None] * 7, 1, 1, 0, 0, 0, 0, 0,
            comm.name, *engine, comm.size, here.tolist(), back.tolist(), True, False,
            out=(_out((int(back.sum()), _COLUMNS), HALF), None),
        )  # fmt: skip

    return job


_TOKENS, _CHOICES, _EXPERTS, _WIDTH = 6, 3, 4, 32  # of each rank; experts of all of them


class _Tokens:
    """A rank's tokens, and the experts that they go to."""

    def __init__(self, comm: Communicator, launch: Launches) -> None:
        random = launch.random(4, comm.rank)
        self.x = _normal(random, _TOKENS, _WIDTH, dtype=BF16)
        choices = [random.permutation(_EXPERTS)[:_CHOICES] for _ in range(_TOKENS)]
        self.ids, self.weights = (
            np.stack(choices).astype(np.int32),
            random.random((_TOKENS, _CHOICES)).astype(np.float32),
        )
        self.residual, self.gamma = _normal(random, _TOKENS, 1, _WIDTH, dtype=BF16), _normal(random, _WIDTH, dtype=BF16)
        self.common = (comm.name, comm.size, comm.rank, _EXPERTS)
        self.rows = _TOKENS * comm.size * (_CHOICES + 1)  # room for those of all ranks
        self.local = _EXPERTS // comm.size


def _doubled(rows: Any) -> Any:
    """What the experts do: exact."""
    return (rows.astype(np.float32) * 2).astype(rows.dtype)


def _combine_and_norm(comm: Communicator, launch: Launches) -> None:
    tokens = _Tokens(comm, launch)
    a = tokens.rows
    out = (
        np.zeros((a, _WIDTH), BF16), np.zeros(a, np.float32), np.zeros(a * 128, np.int32), np.zeros(tokens.local, np.int64),
        np.zeros(comm.size * tokens.local, np.int32), np.zeros(1, np.int32), np.zeros(a, np.float32),
    )  # fmt: skip
    rows, _, assist, _, received, _, _ = launch(
        "aclnnMoeDistributeDispatchV2", tokens.x, tokens.ids, None, None, None, *tokens.common, out=out
    )
    launch(
        "aclnnMoeDistributeCombineAddRmsNormV2",
        _doubled(rows), tokens.ids, assist, received, tokens.weights, tokens.residual, tokens.gamma, *[None] * 12,
        *tokens.common, None, 0, 0, 0, 1, 0, 0, 0, 0, 0, None, 1e-6, 0, 0, 0,
        out=tuple(_out((_TOKENS, 1, n), dtype) for n, dtype in ((_WIDTH, BF16), (1, np.float32), (_WIDTH, BF16))),
    )  # fmt: skip


def _halves(comm: Communicator, launch: Launches) -> None:
    """Both ways, each in two halves, between which ranks may do other things."""
    tokens = _Tokens(comm, launch)
    a, kind = tokens.rows, {"comm_type": 2}
    pairs, commands = _TOKENS * _CHOICES, (_TOKENS * _CHOICES + comm.size * tokens.local) * 16
    y, places, info = launch(
        "aclnnMoeDistributeDispatchSetup", tokens.x, tokens.ids, None, None, *tokens.common, **kind,
        out=(_out((pairs, 256), BF16), _out(pairs, np.int32), _out(commands, np.int32)),
    )  # fmt: skip
    rows, _, assist, _ = launch(
        "aclnnMoeDistributeDispatchTeardown", tokens.x, y, tokens.ids, info, *tokens.common, **kind,
        out=(np.zeros((a, _WIDTH), BF16), _out(a, np.float32), _out(a * 128, np.int32), _out(tokens.local, np.int64)),
    )  # fmt: skip
    worked = _doubled(rows)
    quantised, back = launch(
        "aclnnMoeDistributeCombineSetup", worked, tokens.ids, assist, *tokens.common, expert_shared_type=0, **kind,
        out=(_out((a, 512), np.int8), _out((a + comm.size) * 16, np.int32)),
    )  # fmt: skip
    launch(
        "aclnnMoeDistributeCombineTeardown", worked, quantised, tokens.ids, places, tokens.weights, back, None, None,
        *tokens.common, **kind, out=_out((_TOKENS, _WIDTH), BF16),
    )  # fmt: skip


def _attention_and_ffn(comm: Communicator, launch: Launches) -> None:
    """Rank 0 attends, rank 1 has the experts, the last of which is shared: tokens there, and results back into its window."""
    places, hidden = _CHOICES + 1, 1024
    info, data = [1, _TOKENS, places], [1, _TOKENS, places, hidden]
    table, tokens = [1, 1, 2 + _TOKENS * places], [1, *data]
    start = -(-4 * int(np.prod(table if comm.rank else info)) // 512) * 512  # of the data, behind the flags
    window = comm.window(start + 2 * int(np.prod(tokens)))
    if comm.rank:
        flags = np.full(table, np.iinfo(np.int32).max, np.int32)
        flags[..., :2] = 0
        aclnn.Tensor.from_pointer(window.data_ptr, table, "INT32").assign(flags)
    comm.barrier()
    aclnn.synchronize()
    random, first = launch.random(5), np.zeros(1, np.int32)
    ids = np.stack([random.permutation(_EXPERTS)[:_CHOICES] for _ in range(_TOKENS)]).astype(np.int32)
    if comm.rank == 0:
        ranks_of_experts = np.array([[[1, 1, expert] for expert in range(_EXPERTS + 1)]], np.int32)
        x = _normal(random, 1, _TOKENS, hidden)
        launch(
            "aclnnAttentionToFFN", x, first, first, first, ids[None], ranks_of_experts, None, None, comm.name, comm.size,
            table, tokens, info, _EXPERTS, 0, 0, 1,
        )  # fmt: skip
    aclnn.synchronize()
    comm.barrier()
    aclnn.synchronize()
    if comm.rank:
        launch.memory("aclnnAttentionToFFN", "window", window.numpy())
        count = _TOKENS * places
        rows = _normal(launch.random(6), count, hidden)
        token, place = (part.reshape(-1).astype(np.int32) for part in np.indices((_TOKENS, places)))
        zeros, total = np.zeros(count, np.int32), np.array([count], np.int64)
        launch("aclnnFFNToAttention", rows, zeros, zeros, token, place, total, None, comm.name, comm.size, info, data)
    aclnn.synchronize()
    comm.barrier()
    aclnn.synchronize()
    if comm.rank == 0:
        launch.memory("aclnnFFNToAttention", "window", window.numpy())


_GROUPS, _HALVES = Work(_two_groups, 4, A3), Work(_halves, 2, NEW_950)
_WORKERS = Work(_attention_and_ffn, 2, A3, WINDOWS)
WORKS: dict[str, Work] = {
    "aclnnAlltoAllAllGatherBatchMatMul": _GROUPS,
    "aclnnBatchMatMulReduceScatterAlltoAll": _GROUPS,
    "aclnnAlltoAllvQuantGroupedMatMul": Work(_quantised_experts(""), 2, NEW_950),
    "aclnnAlltoAllvQuantGroupedMatMulV2": Work(_quantised_experts("V2"), 2, NEW_950),
    "aclnnQuantGroupedMatMulAlltoAllv": Work(_quantised_experts_back(""), 2, NEW_950),
    "aclnnQuantGroupedMatMulAlltoAllvV2": Work(_quantised_experts_back("V2"), 2, NEW_950),
    "aclnnMoeDistributeCombineAddRmsNormV2": Work(_combine_and_norm, 2, A3),
    "aclnnMoeDistributeDispatchSetup": _HALVES,
    "aclnnMoeDistributeDispatchTeardown": _HALVES,
    "aclnnMoeDistributeCombineSetup": _HALVES,
    "aclnnMoeDistributeCombineTeardown": _HALVES,
    "aclnnAttentionToFFN": _WORKERS,
    "aclnnFFNToAttention": _WORKERS,
}


__all__ = ["WORKS", "Result", "Work", "judge", "on_devices", "on_numpy", "values"]
