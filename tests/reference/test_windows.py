"""Attention and FFN ranks that are apart: tokens there and results back, against one formula over all experts."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any, Optional

import ml_dtypes
import numpy as np
import pytest
from rank_tools import Crew

import ascend_aclnn as aclnn
from ascend_aclnn import SCHEDULE_CONTEXT, Communicator, ops
from ascend_aclnn.collectives import groups
from ascend_aclnn.emulator.build import build
from ascend_aclnn.reference import _schedule

A3 = "Ascend910_9391"
BF16 = ml_dtypes.bfloat16
SESSIONS, FFN_RANKS = 2, 2
TOKENS, CHOICES, HIDDEN = 5, 2, 1024
PLACES = CHOICES + 1  # with the shared expert
# Of each expert: how many ranks have it, and of these the rank and the expert's number there. The last one is shared.
TABLE = np.array([[[1, 2, 0, 0, 0], [2, 2, 1, 3, 0], [1, 3, 1, 0, 0], [2, 2, 2, 3, 2]]], np.int32)
ROUTED = 3
# What the experts multiply by: powers of two, so that their results are exact.
FACTORS = np.array([2.0, 0.5, -4.0, 0.25])
LAYERS = 3


@pytest.fixture(scope="module")
def crews() -> Iterator[dict[str, Crew]]:
    made: dict[str, Crew] = {}
    yield made
    for crew in made.values():
        crew.close()


@pytest.fixture(params=["numpy", "emulator"])
def crew(request: pytest.FixtureRequest, crews: dict[str, Crew]) -> Crew:
    """Sessions 0 and 1, FFN on ranks 2 and 3."""
    name = request.param
    if name not in crews:
        if name == "numpy":
            crews[name] = Crew(SESSIONS + FFN_RANKS, "numpy", A3)
        else:
            request.getfixturevalue("emulator_home")  # skips where there is no compiler
            home = str(build(cann="8.5.0"))  # whose HCCL has windows
            crews[name] = Crew(SESSIONS + FFN_RANKS, "npu", "", home, ASCEND_ACLNN_SOC=A3)
    return crews[name]


class Job:
    """The tokens and choices of all sessions."""

    def __init__(self, seed: int, quantised: bool = False, dtype: Any = np.float16, mask: Optional[int] = None) -> None:
        generator = np.random.default_rng(seed)
        self.x = generator.normal(0, 1, (SESSIONS, TOKENS, HIDDEN)).astype(dtype)
        self.ids = generator.permuted(np.tile(np.arange(ROUTED), (SESSIONS, TOKENS, 1)), axis=-1)[..., :CHOICES].astype(
            np.int32
        )
        self.weights = generator.random((SESSIONS, TOKENS, CHOICES)).astype(np.float32)
        self.scales = generator.random((1, ROUTED + 1, HIDDEN)).astype(np.float32) + 0.5 if quantised else None
        self.quantised, self.dtype, self.active = quantised, np.dtype(dtype), TOKENS if mask is None else mask
        self.masked = mask is not None
        # Bytes of a token on its way to FFN, in elements: quantised ones have their scale behind them.
        self.elements = HIDDEN + 128 if quantised else HIDDEN

    @property
    def to_ffn(self) -> tuple[list[int], list[int]]:
        """The shapes of the table and of the tokens in the windows of FFN."""
        return [SESSIONS, 1, 2 + TOKENS * PLACES], [SESSIONS, 1, TOKENS, PLACES, self.elements]

    def bytes_of_ffn(self) -> int:
        table, tokens = self.to_ffn
        return 512 * -(-4 * int(np.prod(table)) // 512) + int(np.prod(tokens)) * (1 if self.quantised else 2)

    def expected(self, session: int) -> Any:
        """After all layers, float64 but for the rounding of each layer's result."""
        x = self.x[session]
        for _ in range(LAYERS):
            wide = x.astype(np.float64)
            factor = (self.weights[session] * FACTORS[self.ids[session]]).sum(axis=1) + FACTORS[-1]
            x = (wide * factor[:, None]).astype(self.dtype)
        return x


INFO_OF_ATTENTION, DATA_OF_ATTENTION = [1, TOKENS, PLACES], [1, TOKENS, PLACES, HIDDEN]
DATA_START = 512  # the table has 60 bytes


def _attend(comm: Any, job: Job, window: Any, scheduled: bool) -> Any:
    """An attention rank: y of each layer is x of the next."""
    context = np.zeros(1, SCHEDULE_CONTEXT)
    for name, value in {
        "session_num": SESSIONS,
        "micro_batch_num": 1,
        "micro_batch_size": TOKENS,
        "selected_expert_num": PLACES,
        "ffn_to_attn_token_size": 2 * HIDDEN,
        "schedule_mode": 1,
        "run_flag": 1,
        "attention_token_info_buf": window.data_ptr,
        "attention_token_info_buf_size": 4 * TOKENS * PLACES,
        "attention_token_data_buf": window.data_ptr + DATA_START,
        "attention_token_data_buf_size": window.nbytes - DATA_START,
    }.items():
        context[name] = value
    schedule = aclnn.asarray(context.view(np.int8))
    x, session, mask = job.x[comm.rank], np.array([comm.rank], np.int32), None
    if job.masked:
        mask = (np.arange(TOKENS) < job.active)[None]
    for layer in range(LAYERS):
        ops.attention_to_ffn(
            x[None],
            session,
            np.zeros(1, np.int32),
            np.array([layer], np.int32),
            job.ids[comm.rank][None],
            TABLE,
            job.scales,
            mask,
            group=comm.name,
            world_size=comm.size,
            ffn_token_info_table_shape=job.to_ffn[0],
            ffn_token_data_shape=job.to_ffn[1],
            attn_token_info_table_shape=INFO_OF_ATTENTION,
            moe_expert_num=ROUTED,
            quant_mode=2 if job.quantised else 0,
            sync_flag=0,
            ffn_start_rank_id=SESSIONS,
        )
        if scheduled:
            ops.inplace_attention_worker_scheduler(schedule)
        y, following = ops.attention_worker_combine(
            schedule,
            job.weights[comm.rank],
            np.array([layer], np.int32),
            HIDDEN,
            int(job.dtype == BF16),
            int(not scheduled),
        )
        assert np.asarray(following).tolist() == [layer + 1]
        x = np.array(y)
    aclnn.synchronize()
    left = window.numpy()[: 4 * TOKENS * PLACES].view(np.int32)
    assert not left.any(), "a flag was not taken back"
    return x


def _feed(comm: Any, job: Job, window: Any, scheduled: bool) -> Any:
    """A rank of FFN: its experts multiply by their factors."""
    table, tokens = job.to_ffn
    room = TOKENS * PLACES
    start = window.nbytes - int(np.prod(tokens)) * (1 if job.quantised else 2)
    notes = aclnn.zeros((SESSIONS, 3 + room), "INT32")  # layers, sessions, micro batches, and experts
    context = np.zeros(1, SCHEDULE_CONTEXT)
    for name, value in {
        "session_num": SESSIONS,
        "micro_batch_num": 1,
        "micro_batch_size": TOKENS,
        "selected_expert_num": PLACES,
        "attn_to_ffn_token_size": job.elements * (1 if job.quantised else 2),
        "run_flag": 1,
        "ffn_token_info_buf": window.data_ptr,
        "ffn_token_info_buf_size": 4 * int(np.prod(table)),
        "ffn_token_data_buf": window.data_ptr + start,
        "ffn_token_data_buf_size": window.nbytes - start,
        **{
            f"ffn_{name}_buf{end}": notes.data_ptr + 4 * SESSIONS * place if not end else 4 * SESSIONS * width
            for place, (name, width) in enumerate(
                {"layer_ids": 1, "session_ids": 1, "micro_batch_ids": 1, "expert_ids": room}.items()
            )
            for end in ("", "_size")
        },
    }.items():
        context[name] = value
    schedule = aclnn.asarray(context.view(np.int8))
    kind = 2 if job.quantised else int(job.dtype == BF16)
    numbers = {(rank, local): expert for expert, row in enumerate(TABLE[0]) for rank, local in _pairs(row)}
    seen = []
    for layer in range(LAYERS):
        if scheduled:
            ops.inplace_ffn_worker_scheduler(schedule, SESSIONS, 0)
            aclnn.synchronize()  # who writes by address is not known to the tensor
            assert notes.numpy()[0, :SESSIONS].tolist() == [layer] * SESSIONS
        actual = ops.ffn_worker_batching(schedule, 16, (SESSIONS, TOKENS, PLACES, HIDDEN), kind, int(not scheduled), 0)
        y, groups, sessions, batches, tokens_, places, scales, total = (np.asarray(part) for part in actual)
        count = int(total[0])
        seen.append((groups[: (groups[:, 1] > 0).sum()].tolist(), sessions[:count].tolist()))
        wide = y[:count].astype(np.float64)
        experts = np.repeat([numbers[comm.rank, local] for local, n in groups if n], [n for _, n in groups if n])
        if job.quantised:
            wide = wide * scales[:count, None] / job.scales[0, experts]  # type: ignore[index]
        rows = np.zeros(y.shape, job.dtype)
        rows[:count] = (wide * FACTORS[experts][:, None]).astype(job.dtype)
        ops.ffn_to_attention(
            rows,
            sessions,
            batches,
            tokens_,
            places,
            total,
            None,
            group=comm.name,
            world_size=comm.size,
            token_info_table_shape=INFO_OF_ATTENTION,
            token_data_shape=DATA_OF_ATTENTION,
        )
    aclnn.synchronize()  # the communicator is closed now
    return seen


def _pairs(row: Any) -> list[tuple[int, int]]:
    return [(int(row[1 + 2 * n]), int(row[2 + 2 * n])) for n in range(row[0])]


def _work(comm: Any, job: Job, scheduled: bool) -> Any:
    sessions, others = list(range(SESSIONS)), list(range(SESSIONS, comm.size))
    with comm.split(list(range(comm.size))) as own:
        if comm.rank < SESSIONS:
            window = own.window(DATA_START + 2 * int(np.prod(DATA_OF_ATTENTION)), others)
        else:
            window = own.window(job.bytes_of_ffn(), sessions)
            table = np.full(job.to_ffn[0], np.iinfo(np.int32).max, np.int32)  # no experts,
            table[:, :, :2] = 0  # no flags
            aclnn.Tensor.from_pointer(window.data_ptr, table.shape, "INT32").assign(table)
        own.barrier()
        aclnn.synchronize()
        return _attend(own, job, window, scheduled) if own.rank < SESSIONS else _feed(own, job, window, scheduled)


def _results(crew: Crew, *arguments: Any) -> list[Any]:
    answers = crew.run(_work, *arguments)
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    assert not failed, failed
    return answers


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("scheduled", [True, False])
def test_tokens_go_to_their_experts_and_come_back(crew: Crew, scheduled: bool, dtype: Any) -> None:
    """With schedulers, or with operators that wait by themselves."""
    job = Job(7, dtype=dtype)
    answers = _results(crew, job, scheduled)
    for session in range(SESSIONS):
        found, expected = answers[session].astype(np.float64), job.expected(session).astype(np.float64)
        np.testing.assert_allclose(found, expected, rtol=(2**-7 if dtype is BF16 else 2**-10) * LAYERS, atol=1e-6)
    # Who has got what: brute force. Session s asks an expert that lies on two ranks on the one of number s modulo 2.
    for rank in range(SESSIONS, SESSIONS + FFN_RANKS):
        rows: list[tuple[int, int]] = []
        for session in range(SESSIONS):
            for token in range(TOKENS):
                for expert in (*job.ids[session, token], ROUTED):
                    pairs = _pairs(TABLE[0, expert])
                    to, local = pairs[session % len(pairs)]
                    rows += [(local, session)] * (to == rank)
        rows.sort(key=lambda row: row[0])
        locals_ = [local for local, _ in rows]
        groups = [[local, locals_.count(local)] for local in sorted(set(locals_))]
        assert answers[rank] == [(groups, [session for _, session in rows])] * LAYERS


def test_quantised_tokens(crew: Crew) -> None:
    """INT8 and a scale, smoothed by the experts' factors, which FFN takes back."""
    job = Job(8, quantised=True)
    answers = _results(crew, job, True)
    for session in range(SESSIONS):
        found, expected = answers[session].astype(np.float64), job.expected(session).astype(np.float64)
        assert np.abs(found - expected).max() < 0.02 * LAYERS * np.abs(expected).max()
        assert np.abs(found - expected).max() > 0


def test_tokens_that_are_masked_are_not_sent_and_not_waited_for(crew: Crew) -> None:
    job = Job(9, mask=3)
    answers = _results(crew, job, True)
    for session in range(SESSIONS):
        np.testing.assert_allclose(
            answers[session][:3].astype(np.float64), job.expected(session)[:3].astype(np.float64), rtol=3 * 2**-10
        )
    assert sum(len(sessions) for rank in (2, 3) for _, sessions in answers[rank][:1]) == SESSIONS * 3 * PLACES


def _without_windows(comm: Any) -> Any:
    """Rank 2 writes to rank 0: into HCCL's own buffer, as nobody has a window; then more than that has room for."""
    with comm.split(list(range(comm.size))) as own:
        found: Any = None
        if own.rank == 2:
            ids, one, x = np.zeros(1, np.int32), np.ones(1, np.int64), np.full((1, HIDDEN), 3, np.float16)
            given = (x, ids, ids, ids, ids, one, None, own.name, own.size)
            ops.ffn_to_attention(*given, INFO_OF_ATTENTION, DATA_OF_ATTENTION)
            try:
                ops.ffn_to_attention(*given, [1, 512, 100], [1, 512, 100, 8192])
                aclnn.synchronize()
            except aclnn.AclError as error:
                found = str(error)
        aclnn.synchronize()
        own.barrier()
        aclnn.synchronize()
        if own.rank == 0 and own.backend.name == "numpy":
            buffer = groups.find(own.name).window(0)
            found = [buffer[:8].view(np.int32).tolist(), buffer[DATA_START:][: 2 * HIDDEN].view(np.float16).tolist()]
        own.barrier()
        aclnn.synchronize()
        return found


def _wrong(comm: Any) -> list[str]:
    """The messages of calls that must fail, each on a context of its own."""
    found, memory = [], aclnn.zeros(4, "INT32")
    good = dict.fromkeys(("session_num", "micro_batch_num", "micro_batch_size", "selected_expert_num"), 1)
    good.update(schedule_mode=1, run_flag=1, attention_token_data_buf=memory.data_ptr)
    info = {"attention_token_info_buf": memory.data_ptr, "attention_token_info_buf_size": 4}
    for changed in (
        {"schedule_mode": 0},
        {"micro_batch_num": 0},
        {"attention_token_info_buf": 0x10, "attention_token_info_buf_size": 4},
        {**info, "attention_token_info_buf_size": 3},
        {**info, "attention_micro_batch_id": 1},
    ):
        context = np.zeros(1, SCHEDULE_CONTEXT)
        for name, value in {**good, **changed}.items():
            context[name] = value
        try:
            ops.inplace_attention_worker_scheduler(aclnn.asarray(context.view(np.int8)))
            aclnn.synchronize()
            found.append("passed")
        except aclnn.AclError as error:
            found.append(str(error))
    return found


def test_what_a_schedule_context_must_have(crew: Crew) -> None:
    found = crew.run(_wrong)[0]
    assert not isinstance(found, BaseException), found
    for message, text in zip(
        found,
        (
            "has schedule_mode 0; it must be 1 (attention)",
            "has micro_batch_num 0; it must be above 0",
            "has attention_token_info_buf 0x10; it must be the address of 4 bytes of memory",
            "has attention_token_info_buf_size 3; it must be at least 4",
            "has attention_micro_batch_id 1; it must be below 1",
        ),
    ):
        assert text in message


def test_without_windows_it_is_hccls_own_buffer(crew: Crew) -> None:
    found = crew.run(_without_windows)
    assert "the window of rank 0 has 209715200" in found[2], found
    assert found[0] in (None, [[1, 0], [3.0] * HIDDEN])  # None on the emulated device


# --------------------------------------------------------------------------------------------------- windows


def _refused(comm: Any) -> list[str]:
    """What a window must have, and that none is left of one that could not be shared."""
    found = []
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    with comm.split(list(range(comm.size))) as own:
        for nbytes, peers in ((0, others), (8, [own.rank]), (8, [9]), (8, [others[0]] * 2)):
            with pytest.raises(ValueError) as error:
                own.window(nbytes, peers)
            found.append(str(error.value))
        first, second = own.window(8), None
        assert first.nbytes == 8 and not first.numpy().any()
        with pytest.raises(ValueError, match="the communicator has a window already"):
            second = own.window(8)
        assert second is None
        if own.rank == 0:
            own.abort()
        with pytest.raises(aclnn.AclError):
            own.barrier()
            aclnn.synchronize()
            own.check()
            raise AssertionError("the communicator was aborted")
        own.resume()
        assert own.window(16).nbytes == 16
        own.barrier()
        aclnn.synchronize()
    return found


def test_what_a_window_must_have(crew: Crew) -> None:
    for rank, found in enumerate(crew.run(_refused)):
        assert not isinstance(found, BaseException), found
        assert "nbytes is 0" in found[0] and f"not {rank}, this rank itself" in found[1]
        assert "the other rank is 9" in found[2] and "the peers different" in found[3]


def _statuses(comm: Any) -> list[int]:
    """What HCCL answers to wrong pointers and numbers."""
    hccl, handle = comm._endpoint._hccl, comm._endpoint.handle
    register, deregister, exchange = (
        hccl.function(f"HcclComm{name}") for name in ("Register", "Deregister", "ExchangeMem")
    )
    memory, made, ranks = aclnn.zeros(8, "INT32"), ctypes.c_void_p(), (ctypes.c_uint32 * 1)(9)
    to, host = ctypes.addressof(made), np.zeros(8, np.int32)
    found = [
        register(handle, None, 32, to, 0),
        register(handle, memory.data_ptr, 32, None, 0),
        register(handle, memory.data_ptr, 32, to, 1),
        register(handle, memory.data_ptr, 0, to, 0),
        register(handle, memory.data_ptr, 1 << 40, to, 0),
        register(handle, host.ctypes.data, 32, to, 0),
        exchange(handle, made, None, 0),
        register(handle, memory.data_ptr, 32, to, 0),
        register(handle, memory.data_ptr, 32, to, 0),
        exchange(handle, made, None, 1),
        exchange(handle, made, ctypes.addressof(ranks), 1),
        exchange(handle, made, None, 0),
        deregister(handle, None),
        deregister(handle, made),
        deregister(handle, made),
    ]
    aclnn.synchronize()
    return found


@pytest.mark.parametrize("crew", ["emulator"], indirect=True)
def test_statuses_of_wrong_arguments(crew: Crew) -> None:
    assert crew.run(_statuses) == [[2, 2, 1, 1, 1, 1, 1, 0, 1, 2, 1, 0, 1, 0, 1]] * crew.size


def _send_to_who_is_killed(comm: Any) -> Any:
    """The second call waits until the first one's tokens have been taken."""
    job = Job(1)
    comm.window(job.bytes_of_ffn())
    if comm.rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    table = np.array([[[1, 1, expert] for expert in range(ROUTED + 1)]], np.int32)
    first = np.zeros(1, np.int32)
    for _ in range(2):
        ops.attention_to_ffn(
            job.x[0][None], first, first, first, job.ids[0][None], table, None, None, comm.name, 2,
            [1, *job.to_ffn[0][1:]], [1, *job.to_ffn[1][1:]], INFO_OF_ATTENTION, ROUTED, 0, 0, 1,
        )  # fmt: skip
    aclnn.synchronize()


@pytest.mark.parametrize("backend", ["numpy", "emulator"])
def test_a_rank_that_is_lost_is_not_waited_for(backend: str, request: pytest.FixtureRequest) -> None:
    if backend == "numpy":
        ranks = Crew(2, "numpy", A3)
    else:
        request.getfixturevalue("emulator_home")
        ranks = Crew(2, "npu", "", str(build(cann="8.5.0")), ASCEND_ACLNN_SOC=A3)
    try:
        with ranks.answers(_send_to_who_is_killed) as answer, pytest.raises(AssertionError, match="rank 1 is lost"):
            answer(0, 60)
    finally:
        ranks.close()


# --------------------------------------------------------------------------------------------------- arguments


def _sent(**changed: Any) -> dict[str, Any]:
    """Arguments that AttentionToFFN's phase one accepts, but for the changed ones."""
    first = np.zeros(1, np.int32)
    return {
        "x": np.zeros((1, TOKENS, HIDDEN), np.float16),
        **dict.fromkeys(("session_id", "micro_batch_id", "layer_id"), first),
        "expert_ids": np.zeros((1, TOKENS, CHOICES), np.int32),
        "expert_rank_table": TABLE,
        "world_size": 4,
        "ffn_token_info_table_shape": [2, 1, 2 + TOKENS * PLACES],
        "ffn_token_data_shape": [2, 1, TOKENS, PLACES, HIDDEN],
        "attn_token_info_table_shape": INFO_OF_ATTENTION,
        "moe_expert_num": ROUTED,
        "quant_mode": 0,
        "sync_flag": 0,
        "ffn_start_rank_id": 2,
        **changed,
    }


def _returned(**changed: Any) -> dict[str, Any]:
    ids = np.zeros(3, np.int32)
    return {
        "x": np.zeros((3, HIDDEN), np.float16),
        **dict.fromkeys(("session_ids", "micro_batch_ids", "token_ids", "expert_offsets"), ids),
        "actual_token_num": np.zeros(1, np.int64),
        "world_size": 4,
        "token_info_table_shape": INFO_OF_ATTENTION,
        "token_data_shape": DATA_OF_ATTENTION,
        **changed,
    }


WRONG = [
    ("attention_to_ffn", _sent(x=np.zeros((1, TOKENS, 512), np.float16)), "x"),
    ("attention_to_ffn", _sent(x=np.zeros((2, TOKENS, HIDDEN), np.float16)), "x"),
    ("attention_to_ffn", _sent(world_size=1), "world_size"),
    ("attention_to_ffn", _sent(quant_mode=1), "quant_mode"),
    ("attention_to_ffn", _sent(scales=np.zeros((1, 4, HIDDEN), np.float32)), "scales"),
    ("attention_to_ffn", _sent(sync_flag=2), "sync_flag"),
    ("attention_to_ffn", _sent(ffn_start_rank_id=4), "ffn_start_rank_id"),
    ("attention_to_ffn", _sent(moe_expert_num=5), "expert_rank_table"),
    ("attention_to_ffn", _sent(ffn_token_info_table_shape=[2, 1]), "ffn_token_info_table_shape"),
    ("attention_to_ffn", _sent(ffn_token_data_shape=[1, 1, TOKENS, PLACES, HIDDEN]), "ffn_token_data_shape"),
    ("attention_to_ffn", _sent(attn_token_info_table_shape=[2, TOKENS, PLACES]), "attn_token_info_table_shape"),
    ("attention_to_ffn", _sent(active_mask=np.ones((1, 2), bool)), "active_mask"),
    ("ffn_to_attention", _returned(x=np.zeros((3, 512), np.float16)), "x"),
    ("ffn_to_attention", _returned(session_ids=np.zeros(2, np.int32)), "session_ids"),
    ("ffn_to_attention", _returned(actual_token_num=np.zeros(2, np.int64)), "actual_token_num"),
    ("ffn_to_attention", _returned(attn_rank_table=np.zeros(4, np.int32)), "attn_rank_table"),
    ("ffn_to_attention", _returned(token_info_table_shape=[2, TOKENS, PLACES]), "token_data_shape"),
]


@pytest.mark.parametrize("name, arguments, argument", WRONG)
def test_what_tiling_refuses(name: str, arguments: dict[str, Any], argument: str) -> None:
    with aclnn.use_backend("numpy", soc=A3), Communicator.from_root_info(Communicator.root_info(), 0, 1) as comm:
        with pytest.raises(aclnn.AclError) as error:
            getattr(ops, name)(group=comm.name, **arguments)
        assert (error.value.status, error.value.argument) == (561002, argument), error.value
        good = _sent() if name == "attention_to_ffn" else _returned()
        with pytest.raises(aclnn.AclError, match=r"there are 1|has 1 ranks"):  # phase one has passed
            getattr(ops, name)(group=comm.name, **good)


def test_tiling_refuses_a_type_of_tokens_that_it_does_not_know() -> None:
    """0 is FLOAT16, 1 BF16; a program that passes torch's number of a dtype gets a status."""
    context, scales = np.zeros(SCHEDULE_CONTEXT.itemsize, np.int8), np.ones((TOKENS, CHOICES), np.float32)
    with aclnn.use_backend("numpy", soc=A3), pytest.raises(aclnn.AclError, match=r"(?s)token_dtype.*561002"):
        ops.attention_worker_combine(context, scales, np.zeros(1, np.int32), HIDDEN, 5, 0)


def test_sessions_in_groups() -> None:
    """Four sessions in two groups, two micro batches: what is whole is taken, the rest stays."""
    with aclnn.use_backend("numpy", soc=A3):
        sessions, batches, size = 4, 2, 3
        info = np.full((sessions, batches, 2 + size), np.iinfo(np.int32).max, np.int32)
        info[:, :, :2] = 0
        for session, batch in ((0, 1), (1, 1), (2, 0)):  # group 0 has all of batch 1, group 1 half of batch 0
            info[session, batch] = 1, 10 + session, *(100 * session + np.arange(size))
        table = aclnn.asarray(info)
        notes = aclnn.zeros((sessions, 3 + size), "INT32")
        context = np.zeros(1, SCHEDULE_CONTEXT)
        context["session_num"], context["micro_batch_num"], context["micro_batch_size"] = sessions, batches, 1
        context["selected_expert_num"], context["run_flag"], context["ffn_token_data_buf"] = size, 1, table.data_ptr
        context["ffn_token_info_buf"], context["ffn_token_info_buf_size"] = table.data_ptr, info.nbytes
        start = notes.data_ptr
        for field, width in {"layer_ids": 1, "session_ids": 1, "micro_batch_ids": 1, "expert_ids": size}.items():
            context[f"ffn_{field}_buf"], context[f"ffn_{field}_buf_size"] = start, 4 * sessions * width
            start += 4 * sessions * width
        ops.inplace_ffn_worker_scheduler(context.view(np.int8), 2, 0)
        assert context["ffn_out_num"] == 2
        found = notes.numpy().reshape(-1)
        assert found[:2].tolist() == [10, 11] and found[4:6].tolist() == [0, 1] and found[8:10].tolist() == [1, 1]
        assert found[12:18].tolist() == [0, 1, 2, 100, 101, 102] and not found[18:].any()
        left = table.numpy()
        assert (left[:2, 1, 0] == 0).all() and (left[:2, 1, 2:] == 0x7F7F7F7F).all()
        assert (left[2, 0] == info[2, 0]).all()
        with pytest.raises(aclnn.AclError, match="is 3; it must divide the 4 sessions"):
            ops.inplace_ffn_worker_scheduler(context.view(np.int8), 3, 0)


def _one_flag(address: int) -> Any:
    """The context of an attention rank that waits for one flag."""
    context = np.zeros(1, SCHEDULE_CONTEXT)
    for name in ("micro_batch_num", "micro_batch_size", "selected_expert_num", "schedule_mode", "run_flag"):
        context[name] = 1
    context["attention_token_info_buf"] = context["attention_token_data_buf"] = address
    context["attention_token_info_buf_size"] = 4
    return context


def _stop(comm: Any) -> list[int]:
    """Ends a scheduler on another thread, or, where streams run by themselves, behind it."""
    flags = aclnn.zeros(1, "INT32")
    schedule = aclnn.asarray(_one_flag(flags.data_ptr).view(np.int8))
    run_flag = aclnn.Tensor.from_pointer(schedule.data_ptr + 128, (1,), "INT32")

    def stop() -> None:
        time.sleep(0.05)
        with aclnn.Device(run_flag.device):
            run_flag.assign(0)

    stopper = threading.Thread(target=stop)
    stopper.start()
    ops.inplace_attention_worker_scheduler(schedule)
    aclnn.synchronize()
    stopper.join()
    context = schedule.numpy().view(SCHEDULE_CONTEXT)
    return [int(context[name][0]) for name in ("run_flag", "attention_micro_batch_id")] + flags.tolist()


def test_tokens_lie_as_far_apart_as_the_context_says() -> None:
    """Closer than they are wide, as in the document's example, they overlap; and where none have come, nothing is read."""
    with aclnn.use_backend("numpy", soc=A3):
        data, notes = (
            aclnn.asarray(np.arange(64, dtype=np.float16)),
            aclnn.asarray(np.array([[0, 0], [2, 1]], np.int32)),
        )
        context = np.zeros(1, SCHEDULE_CONTEXT)
        for name in ("session_num", "micro_batch_num", "micro_batch_size", "run_flag"):
            context[name] = 1
        context["selected_expert_num"], context["attn_to_ffn_token_size"] = 2, 6
        empty = ops.ffn_worker_batching(context.view(np.int8), 4, (1, 1, 2, 8), 0, 0, 1)
        assert empty[-1].tolist() == [0] and not empty[1].any()
        context["ffn_out_num"], context["ffn_token_data_buf"] = 1, data.data_ptr
        context["ffn_session_ids_buf"] = context["ffn_micro_batch_ids_buf"] = notes.data_ptr
        context["ffn_expert_ids_buf"] = notes.data_ptr + 8
        y, groups_, _, _, _, places, _, total = ops.ffn_worker_batching(context.view(np.int8), 4, (1, 1, 2, 8), 0, 0, 1)
        assert y.tolist() == [list(range(3, 11)), list(range(8))] and places.tolist() == [1, 0]
        assert groups_.tolist() == [[1, 1], [2, 1], [0, 0], [0, 0]] and total.tolist() == [2]


def test_run_flag_ends_a_scheduler_that_waits(crew: Crew) -> None:
    assert crew.run(_stop) == [[0, 0, 0]] * crew.size


def test_who_waits_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_schedule, "execute_timeout", lambda: 0.05)
    with aclnn.use_backend("numpy", soc=A3):
        flags = aclnn.zeros(1, "INT32")
        with pytest.raises(aclnn.AclError, match=r"what is waited for did not come in 0\.05 s") as error:
            ops.inplace_attention_worker_scheduler(_one_flag(flags.data_ptr).view(np.int8))
        assert error.value.status == 507017


def test_memory_that_is_gone_is_not_found() -> None:
    with aclnn.use_backend("numpy", soc=A3):
        address = aclnn.zeros(1, "INT32").data_ptr
        with pytest.raises(aclnn.AclError, match="it must be the address of 4 bytes of memory"):
            ops.inplace_attention_worker_scheduler(_one_flag(address).view(np.int8))
