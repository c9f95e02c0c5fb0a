"""The collectives between processes of one host and over the network, against NumPy; and ranks that misbehave."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import ml_dtypes
import numpy as np
import pytest
from comparisons import equal_bits
from ports import free_port

from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.collectives.algorithms import REDUCTIONS, Buffer, Collectives
from ascend_aclnn.collectives.interface import GRACE_SECONDS, CommunicationError, RootInfo, TimedOut
from ascend_aclnn.collectives.shared_memory import HostGroup
from ascend_aclnn.core.dtypes import DataType, as_datatype

FORK = multiprocessing.get_context("fork")
DTYPES: list[Any] = [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.int8, np.float64]


def _child(
    body: Callable[..., Any], info: bytes, rank: int, size: int, results: Any, arguments: tuple[Any, ...]
) -> None:
    try:
        if RootInfo.parse(info).address:
            os.memfd_create = None  # type: ignore[assignment]  # ranks on several hosts share no memory
        collectives = Collectives.join(info, rank, size)
        collectives.timeout = 60  # half of what the tests wait
        try:
            results.put((rank, body(collectives, *arguments)))
        finally:
            collectives.group.close()
    except BaseException as error:
        results.put((rank, error))


NETWORK = pytest.param(
    "network",
    marks=pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch, which brings gloo, is not installed: ranks on several hosts are not tested",
    ),
)
each_transport = pytest.mark.parametrize("transport", ["host", NETWORK])


def new_root_info(transport: str = "host") -> bytes:
    if transport == "network":
        import torch.distributed  # once, and not in each of the processes that are forked

        assert torch.distributed.is_gloo_available()
    address = "" if transport == "host" else f"127.0.0.1:{free_port()}"
    return RootInfo(os.urandom(32), address).pack()


def on_ranks(size: int, body: Callable[..., Any], *arguments: Any, transport: str = "host") -> list[Any]:
    """What a body returns on each rank, in processes of their own; an exception is returned."""
    info, results = new_root_info(transport), FORK.Queue()
    children = [FORK.Process(target=_child, args=(body, info, r, size, results, arguments)) for r in range(size)]
    for child in children:
        child.start()
    found = dict(results.get(timeout=120) for _ in children)
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    return [found[rank] for rank in range(size)]


def values(rank: int, count: int, dtype: Any, seed: int = 0) -> Any:
    generator = np.random.default_rng(1000 * seed + rank)
    if np.dtype(dtype).kind == "i":
        return generator.integers(-3, 4, count).astype(dtype)
    return generator.normal(0, 1, count).astype(dtype)


def reduced(arrays: list[Any], reduction: str) -> Any:
    """In rank order, in float32 for the 16-bit types, rounded once."""
    function = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
    wide = [a.astype(np.float32) if a.dtype in (np.float16, ml_dtypes.bfloat16) else a for a in arrays]
    total = wide[0]
    for array in wide[1:]:
        total = function(total, array)
    return total.astype(arrays[0].dtype)


OPERATIONS = "all_reduce reduce reduce_scatter all_gather broadcast scatter all_to_all ring barrier".split()  # noqa: SIM905


def random_program(collectives: Collectives, seed: int) -> int:
    """Some collectives with random sizes, data types and roots, each checked against NumPy; the same on all ranks."""
    rank, size = collectives.group.rank, collectives.group.size
    choice = random.Random(seed)
    for number in range(12):
        operation = choice.choice(OPERATIONS)
        dtype = choice.choice(DTYPES)
        data_type = as_datatype(np.dtype(dtype))
        count = choice.choice((0, 1, 3, 64, 1000, 70_000))
        root, reduction = choice.randrange(size), choice.choice(REDUCTIONS)
        everyone = [values(r, count, dtype, seed + number) for r in range(size)]
        mine = everyone[rank].copy()
        counts = [choice.randrange(0, 50) for _ in range(size)]
        if operation == "all_reduce":
            target = mine if choice.random() < 0.5 else np.empty_like(mine)
            collectives.all_reduce(Buffer(mine), target, data_type, reduction)
            assert equal_bits(target, reduced(everyone, reduction))
        elif operation == "reduce":
            target = np.full_like(mine, 5)
            collectives.reduce(Buffer(mine), target, data_type, root, reduction)
            assert equal_bits(target, reduced(everyone, reduction) if rank == root else np.full_like(mine, 5))
        elif operation == "reduce_scatter":
            everyone = [values(r, sum(counts), dtype, seed + number) for r in range(size)]
            target = np.empty(counts[rank], dtype)
            collectives.reduce_scatter(Buffer(everyone[rank]), target, data_type, counts, reduction)
            start = sum(counts[:rank])
            assert equal_bits(target, reduced(everyone, reduction)[start : start + counts[rank]])
        elif operation == "all_gather":
            parts = [values(r, counts[r], dtype, seed + number) for r in range(size)]
            targets = [np.empty(n, dtype) for n in counts]
            collectives.all_gather(Buffer(parts[rank]), targets, data_type, counts)
            for target, part in zip(targets, parts):
                assert equal_bits(target, part)
        elif operation == "broadcast":
            collectives.broadcast(Buffer(mine), data_type, root)
            assert equal_bits(mine, everyone[root])
        elif operation == "scatter":
            whole = values(root, count * size, dtype, seed + number)
            target = np.empty(count, dtype)
            collectives.scatter(Buffer(whole) if rank == root else None, target, data_type, root)
            assert equal_bits(target, whole[rank * count : (rank + 1) * count])
        elif operation == "all_to_all":
            matrix = [[choice.randrange(0, 20) for _ in range(size)] for _ in range(size)]
            sent = [values(r, sum(matrix[r]), dtype, seed + number) for r in range(size)]
            starts = [sum(matrix[rank][:r]) for r in range(size)]
            targets = [np.empty(matrix[r][rank], dtype) for r in range(size)]
            collectives.all_to_all(Buffer(sent[rank]), starts, matrix[rank], targets, data_type)
            for r, target in enumerate(targets):
                start = sum(matrix[r][:rank])
                assert equal_bits(target, sent[r][start : start + matrix[r][rank]])
        elif operation == "ring" and size > 1:
            target = np.empty_like(mine)
            to, source = (rank + 1) % size, (rank - 1) % size
            collectives.send_receive([(to, Buffer(mine))], [(source, target)])
            assert equal_bits(target, everyone[source])
        else:
            collectives.barrier()
    return seed


@each_transport
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_random_programs_agree_with_numpy(size: int, transport: str) -> None:
    for seed in range(6 if transport == "host" else 1):
        assert on_ranks(size, random_program, seed, transport=transport) == [seed] * size


def _different(collectives: Collectives) -> None:
    rank = collectives.group.rank
    data = np.ones(4 if rank != 1 else 5, np.float32)
    collectives.all_reduce(Buffer(data), data, DataType.FLOAT, "sum")


def _other_operation(collectives: Collectives) -> None:
    data = np.ones(4, np.float32)
    if collectives.group.rank == 2:
        collectives.broadcast(Buffer(data), DataType.FLOAT, 0)
    else:
        collectives.all_reduce(Buffer(data), data, DataType.FLOAT, "max")


@each_transport
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (_different, "all_reduce: the ranks differ in the counts: (4,) on ranks 0, 2; (5,) on rank 1"),
        (_other_operation, "the ranks differ in the operation: all_reduce on ranks 0, 1; broadcast on rank 2"),
    ],
)
def test_ranks_that_do_different_things_learn_it(body: Callable[..., None], text: str, transport: str) -> None:
    errors = on_ranks(3, body, transport=transport)
    assert all(isinstance(error, CommunicationError) for error in errors)
    assert all(text in str(error) for error in errors), errors


def _send_to_itself(collectives: Collectives) -> Any:
    """In one batch with sends to the next rank; those to itself are matched by their sizes."""
    rank, size = collectives.group.rank, collectives.group.size
    mine, short = values(rank, 1000, np.float32), values(rank, 3, np.float32, 1)
    got, other, third = np.empty_like(mine), np.empty_like(mine), np.empty_like(short)
    to, source = (rank + 1) % size, (rank - 1) % size
    sends = [(rank, Buffer(mine)), (to, Buffer(mine)), (rank, Buffer(short))]
    collectives.send_receive(sends, [(rank, third), (source, other), (rank, got)])
    assert equal_bits(got, mine)
    assert equal_bits(third, short)
    assert equal_bits(other, values(source, 1000, np.float32))
    for batch in (([(rank, Buffer(mine))], []), ([], [(rank, got)]), ([(rank, Buffer(mine))], [(rank, third)])):
        with pytest.raises(
            ValueError, match=rf"with rank {rank}, this rank itself, and no (receive from|send to) itself"
        ):
            collectives.send_receive(*batch)
    collectives.barrier()
    return "ok"


@each_transport
def test_a_rank_sends_to_itself_in_a_batch(transport: str) -> None:
    assert on_ranks(2, _send_to_itself, transport=transport) == ["ok", "ok"]


def _send_other_sizes(collectives: Collectives, mutual: bool) -> None:
    """Rank 0 sends more than rank 1 receives, and goes on to send."""
    data, rest = np.ones(5, np.float32), np.ones(1 << 16, np.float32)
    peer = 1 - collectives.group.rank
    if collectives.group.rank == 0:
        more = [(peer, Buffer(rest))] * 40
        collectives.send_receive([(peer, Buffer(data)), *more], [(peer, rest)] if mutual else [])
    else:
        collectives.send_receive([(peer, Buffer(rest))] if mutual else [], [(peer, data[:4])])


@each_transport
@pytest.mark.parametrize("mutual", [False, True])
def test_sender_and_receiver_hear_the_same_when_sizes_differ(mutual: bool, transport: str) -> None:
    errors = on_ranks(2, _send_other_sizes, mutual, transport=transport)
    assert all(isinstance(error, CommunicationError) for error in errors), errors
    text = "rank 0 sends 5 elements of FLOAT; rank 1 receives 4 of FLOAT"
    assert [str(error) for error in errors] == [text, text]


def _closed_under_way(collectives: Collectives, moment: str) -> list[str]:
    """The errors of rank 0, which another thread of it closes; of rank 1, whose peer has closed."""
    group, count = collectives.group, 100_000  # more than KEPT_BYTES
    x, closers = np.ones(count, np.float32), [threading.Thread(target=collectives.group.close)]
    errors = []

    def close_now() -> None:
        closers[0].start()
        while group.failure is None:
            time.sleep(1e-3)

    original = getattr(group, moment)

    def closing(*arguments: Any) -> Any:
        if not closers[0].ident:
            close_now()
        return original(*arguments)

    if group.rank == 0:
        setattr(group, moment, closing)
    for _ in range(2):
        try:
            collectives.all_reduce(Buffer(x), np.empty_like(x), DataType.FLOAT)
        except CommunicationError as error:
            errors.append(str(error))
    if group.rank == 0:
        closers[0].join(60)
        assert not closers[0].is_alive()
    return errors


@each_transport
@pytest.mark.parametrize("moment", ["publish", "exchange", "fetch", "results"])
def test_a_communicator_is_closed_while_its_collective_runs(moment: str, transport: str) -> None:
    this_side, other = on_ranks(2, _closed_under_way, moment, transport=transport)
    assert this_side == ["the communicator is closed"] * 2
    assert other == ["rank 0 is lost"] * 2


def _waits_while_it_is_closed(collectives: Collectives) -> str:
    """Rank 0's batch waits for rank 1, which sends nothing, when another thread closes the communicator."""
    group, target = collectives.group, np.empty(1, np.float32)
    collectives.timeout = 1000  # more than on_ranks waits
    if group.rank == 1:
        with contextlib.suppress(CommunicationError):
            group.receive(0, 0, time.monotonic() + collectives.timeout)  # until rank 0 is gone
        return ""

    def close() -> None:
        while not group.peer_locks[1].locked():
            time.sleep(1e-3)
        time.sleep(0.05)  # in most runs it waits by then
        group.close()

    threading.Thread(target=close).start()
    with pytest.raises(CommunicationError) as error:
        collectives.send_receive([], [(1, target)])
    return str(error.value)


def test_a_communicator_is_closed_while_it_waits_for_a_message() -> None:
    assert on_ranks(2, _waits_while_it_is_closed)[0] == "the communicator is closed"


def _die(collectives: Collectives) -> None:
    collectives.barrier()
    if collectives.group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    collectives.barrier()
    collectives.barrier()


@each_transport
def test_a_killed_rank_is_an_error_on_the_others(transport: str) -> None:
    info, results = new_root_info(transport), FORK.Queue()
    children = [FORK.Process(target=_child, args=(_die, info, r, 3, results, ())) for r in range(3)]
    for child in children:
        child.start()
    found = dict(results.get(timeout=120) for _ in range(2))
    assert set(found) == {0, 2}
    for error in found.values():
        assert isinstance(error, CommunicationError) and not isinstance(error, TimedOut), error
    for child in children:
        child.join(60)
        assert not child.is_alive()


def _fail_before_the_others(collectives: Collectives) -> None:
    """Rank 1 has lost another rank, in another group perhaps, before the others wait for it."""
    collectives.barrier()
    if collectives.group.rank == 1:
        raise collectives.group.fail("rank 7 is lost")
    collectives.barrier()
    collectives.barrier()


def test_the_others_hear_why_a_rank_fails() -> None:
    """And name the rank that is lost rather than one that has noticed it."""
    errors = on_ranks(3, _fail_before_the_others)
    assert [str(error) for error in errors] == ["rank 7 is lost"] * 3


def _meet_and_die(info: bytes, rank: int, size: int, dying: int, after: int, connected: Any, results: Any) -> None:
    """One rank is killed when it has met so many others, while they wait for all.

    By then all are connected to rank 0, who tells them: ``connected`` counts them.
    """
    connect = HostGroup._connect

    def tell(self: Any, other: int, *arguments: Any) -> Any:
        connection = connect(self, other, *arguments)
        if other == 0 and not any(peer == 0 for peer, _ in self._peers):
            connected.release()
        return connection

    HostGroup._connect = tell  # type: ignore[method-assign]
    if rank == dying:
        greet = HostGroup._greet

        def last_greeting(self: Any, *arguments: Any, **options: Any) -> bool:
            if sum((other, 1) in self._peers and (other, 0) in self._peers for other in range(size)) == after:
                for _ in range(size - 1):
                    assert connected.acquire(timeout=60)
                os.kill(os.getpid(), signal.SIGKILL)
            return greet(self, *arguments, **options)

        HostGroup._greet = last_greeting  # type: ignore[method-assign]
    try:
        HostGroup(RootInfo.parse(info), rank, size).close()
        results.put((rank, None))
    except BaseException as error:
        results.put((rank, error))


@pytest.mark.parametrize(("dying", "after"), [(0, 2), (1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)])
def test_a_rank_that_dies_while_all_meet(dying: int, after: int) -> None:
    """The others do not wait for HCCL_CONNECT_TIMEOUT (120 s): those that had met it tell those that had not."""
    info, results, connected = new_root_info(), FORK.Queue(), FORK.Semaphore(0)
    arguments = [(info, rank, 4, dying, after, connected, results) for rank in range(4)]
    children = [FORK.Process(target=_meet_and_die, args=row) for row in arguments]
    for child in children:
        child.start()
    found = dict(results.get(timeout=120) for _ in range(3))
    for child in children:
        child.join(60)
        assert not child.is_alive()
    assert set(found) == set(range(4)) - {dying}
    for rank, error in found.items():
        assert isinstance(error, CommunicationError) and not isinstance(error, TimedOut), (rank, error)
        assert re.search(rf"rank {dying} is lost|rank \d is lost|has lost another rank", str(error)), (rank, error)


def _divide(collectives: Collectives, dying: int) -> Any:
    collectives.barrier()
    if collectives.group.rank == dying:
        os.kill(os.getpid(), signal.SIGKILL)
    return collectives.among(range(collectives.group.size))


def _come_and_die(info: bytes, rank: int, dying: int, results: Any) -> None:
    """One rank is killed when all have come to the meeting, before it is connected to the others."""
    from ascend_aclnn.collectives import network

    if rank == dying:
        connect_once = network._connect

        def connect(address: str, hosts: bool, timeout: Any) -> Any:
            if address in network._places:  # what waits for the others
                name = network._name(RootInfo.parse(info))
                while not network._places[address].store.check([f"{name}/process {other}" for other in range(3)]):
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
            return connect_once(address, hosts, timeout)

        network._connect = connect
    try:
        Collectives.join(info, rank, 3).group.close()
        results.put((rank, None))
    except BaseException as error:
        results.put((rank, error))


@pytest.mark.parametrize("transport", [NETWORK])
@pytest.mark.parametrize("dying", [0, 1])
def test_a_rank_that_dies_while_all_meet_on_a_network(dying: int, transport: str) -> None:
    info, results = new_root_info(transport), FORK.Queue()
    children = [FORK.Process(target=_come_and_die, args=(info, rank, dying, results)) for rank in range(3)]
    for child in children:
        child.start()
    found = dict(results.get(timeout=120) for _ in range(2))
    for child in children:
        child.join(60)
        assert not child.is_alive()
    assert set(found) == set(range(3)) - {dying}
    for rank, error in found.items():
        assert isinstance(error, CommunicationError) and not isinstance(error, TimedOut), (rank, error)
        assert "is lost" in str(error), (rank, error)


@each_transport
@pytest.mark.parametrize("dying", [0, 1, 2])
def test_a_rank_that_dies_before_it_meets_those_it_knows(dying: int, transport: str) -> None:
    info, results = new_root_info(transport), FORK.Queue()
    children = [FORK.Process(target=_child, args=(_divide, info, r, 3, results, (dying,))) for r in range(3)]
    for child in children:
        child.start()
    found = dict(results.get(timeout=120) for _ in range(2))
    for child in children:
        child.join(60)
    for rank, error in found.items():
        assert isinstance(error, CommunicationError) and not isinstance(error, TimedOut), (rank, error)


def _die_soon(*arguments: Any) -> None:
    """In the place of a receive: what was sent is on its way by then, and nothing is received."""
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def _wait_in_vain(collectives: Collectives, sends: bool, done: Any) -> None:
    """Rank 2 is killed in a collective that rank 0 never comes to; rank 1 is there."""
    group = collectives.group
    collectives.barrier()
    if group.rank == 0:
        assert done.wait(90)
    elif group.rank == 1:
        try:
            collectives.barrier()
        finally:
            done.set()
    else:
        if sends:  # what rank 1 has received when it waits for rank 0 alone
            group.receive = group._receive_all = _die_soon  # type: ignore[attr-defined,method-assign]
            collectives.barrier()
        os.kill(os.getpid(), signal.SIGKILL)


@each_transport
@pytest.mark.parametrize("sends", [False, True])
def test_a_lost_rank_is_noticed_by_who_waits_for_another_one(sends: bool, transport: str) -> None:
    info, results, done = new_root_info(transport), FORK.Queue(), FORK.Event()
    children = [FORK.Process(target=_child, args=(_wait_in_vain, info, r, 3, results, (sends, done))) for r in range(3)]
    for child in children:
        child.start()
    found = dict(results.get(timeout=120) for _ in range(2))
    for child in children:
        child.join(60)
    assert found[0] is None
    assert isinstance(found[1], CommunicationError) and str(found[1]) == "rank 2 is lost"


def _without_rank_0(collectives: Collectives, sends: bool, done: Any) -> None:
    """Rank 0, which keeps the store over the network, is killed; rank 1 lives and never comes to where rank 2 waits."""
    from ascend_aclnn.collectives import network

    group = collectives.group
    collectives.barrier()
    if group.rank == 0:
        if sends:  # what rank 2 has received when it waits for rank 1 alone
            group.receive = group._receive_all = _die_soon  # type: ignore[attr-defined,method-assign]
            collectives.barrier()
        os.kill(os.getpid(), signal.SIGKILL)
    elif group.rank == 1:
        network.GRACE_SECONDS /= 2  # it gives up first, and rank 2 sees it leave
        assert done.wait(90)
    else:
        try:
            collectives.barrier()
        finally:
            done.set()


@each_transport
@pytest.mark.parametrize("sends", [False, True])
def test_a_rank_that_lives_is_not_waited_for_once_rank_0_is_lost(sends: bool, transport: str) -> None:
    info, results, done = new_root_info(transport), FORK.Queue(), FORK.Event()
    children = [
        FORK.Process(target=_child, args=(_without_rank_0, info, r, 3, results, (sends, done))) for r in range(3)
    ]
    for child in children:
        child.start()
    found = dict(results.get(timeout=120) for _ in range(2))
    for child in children:
        child.join(60)
    assert found[1] is None
    assert isinstance(found[2], CommunicationError) and str(found[2]) == "rank 0 is lost", found


def _left_by_rank_0(collectives: Collectives, seen: Any) -> None:
    """Rank 2 stops between what it sends to rank 0, which is done then and leaves, and to rank 1, which sees that."""
    from ascend_aclnn.collectives import shared_memory

    group: Any = collectives.group
    send, wait = group.send, group._wait

    def send_late(peer: int, channel: int, message: bytes) -> None:
        if peer == 1:
            assert seen.wait(90)
        send(peer, channel, message)

    ended = []

    def wait_and_tell(*arguments: Any) -> Any:
        if 0 in ended:
            seen.set()
        ended.append(wait(*arguments))
        return ended[-1]

    collectives.barrier()
    if group.rank == 2:
        group.send = send_late
    elif group.rank == 1:
        shared_memory.GRACE_SECONDS, group._wait = 0.0, wait_and_tell
    collectives.barrier()


def test_a_rank_is_waited_for_after_another_one_has_left_in_order() -> None:
    assert on_ranks(3, _left_by_rank_0, FORK.Event()) == [None] * 3


def _others_after_rank_0(collectives: Collectives, killed: int, done: Any) -> Any:
    """Rank 0 leaves in order or is killed; the others' own group goes on, until one of them is killed, too."""
    rest = collectives.among([1, 2]) if collectives.group.rank else None
    collectives.barrier()
    if rest is None:
        if killed == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        collectives.group.close()
        return None
    if not isinstance(collectives.group, HostGroup):
        time.sleep(GRACE_SECONDS + 0.5)  # when who is told by nobody would end what it is in
    for _ in range(3):
        rest.barrier()
    if killed and collectives.group.rank == killed:
        os.kill(os.getpid(), signal.SIGKILL)
    if killed:
        rest.barrier()
    return collectives.group.failure


@each_transport
@pytest.mark.parametrize("killed", [None, 0, 1])
def test_a_group_goes_on_without_rank_0(killed: int | None, transport: str) -> None:
    info, results, done = new_root_info(transport), FORK.Queue(), FORK.Event()
    arguments = (killed, done)
    children = [
        FORK.Process(target=_child, args=(_others_after_rank_0, info, r, 3, results, arguments)) for r in range(3)
    ]
    for child in children:
        child.start()
    expected = {0, 1, 2} - ({killed} if killed is not None else set())
    found = dict(results.get(timeout=120) for _ in expected)
    for child in children:
        child.join(60)
    assert set(found) == expected
    if killed is None:
        assert found == {0: None, 1: None, 2: None}
    elif killed == 0:
        assert not any(isinstance(error, BaseException) for error in found.values())
    else:
        assert isinstance(found[2], CommunicationError) and "rank 0 is lost" in str(found[2])  # of the two


def test_a_missing_rank_is_a_timeout() -> None:
    with pytest.raises(TimedOut, match=r"rank 0 waited in vain for the ranks \[1\] to connect"):
        HostGroup(RootInfo.new(), 0, 2, timeout=0.3)
    with pytest.raises(TimedOut, match="rank 1 waited in vain for rank 0"):
        HostGroup(RootInfo.new(), 1, 2, timeout=0.3)


def test_jobs_do_not_meet() -> None:
    """Two jobs with ranks of the same numbers at the same time."""
    first = on_ranks(2, random_program, 3)
    second = on_ranks(2, random_program, 4)
    assert (first, second) == ([3, 3], [4, 4])


def _stranger(address: bytes) -> None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    while True:  # until rank 0 listens
        try:
            connection.connect(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    connection.sendall(b"\0" * 64)


def test_an_unrelated_process_is_refused() -> None:
    """One that finds the address but does not know the secret: the job goes on without it."""
    info, results = new_root_info(), FORK.Queue()
    probe = object.__new__(HostGroup)
    probe._secret, probe.size = info[8:40], 2
    first = FORK.Process(target=_child, args=(random_program, info, 0, 2, results, (1,)))
    first.start()
    stranger = FORK.Process(target=_stranger, args=(probe._address(0),))
    stranger.start()
    stranger.join(60)
    assert stranger.exitcode == 0
    second = FORK.Process(target=_child, args=(random_program, info, 1, 2, results, (1,)))
    second.start()
    assert dict(results.get(timeout=120) for _ in range(2)) == {0: 1, 1: 1}


def _join(info: bytes, rank: int, size: int, results: Any) -> None:
    try:
        if RootInfo.parse(info).address:
            os.memfd_create = None  # type: ignore[assignment]
        Collectives.join(info, rank, size).barrier(60)
        results.put("met")
    except BaseException as error:
        results.put(f"{type(error).__name__}: {error}")


@each_transport
def test_ranks_of_different_sizes_are_named(transport: str) -> None:
    info, results = new_root_info(transport), FORK.Queue()
    children = [FORK.Process(target=_join, args=(info, rank, 2 + rank, results)) for rank in range(2)]
    for child in children:
        child.start()
    for _ in children:
        assert re.search(r"rank (1 is of 3 ranks, rank 0 of 2|0 is of 2 ranks, rank 1 of 3)", results.get(timeout=120))
    for child in children:
        child.join(60)


@each_transport
def test_a_rank_that_comes_twice_is_named(transport: str) -> None:
    """While the others wait for a third one, which then comes."""
    info, results = new_root_info(transport), FORK.Queue()
    children = [FORK.Process(target=_join, args=(info, rank, 3, results)) for rank in (0, 2, 2, 1)]
    for child in children[:3]:
        child.start()
    assert re.search("rank 2 of this job (exists already|has come twice)", results.get(timeout=120))
    children[3].start()
    assert [results.get(timeout=120) for _ in range(3)] == ["met"] * 3
    for child in children:
        child.join(60)


def _lobby_with_few_descriptors(info: bytes, rank: int, go: Any, results: Any) -> None:
    from ascend_aclnn.collectives import network

    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    if rank == 0:
        serve = network._serve_lobby

        def serve_lobby(listener: socket.socket, key: bytes) -> None:
            results.put(listener.getsockname()[1])
            serve(listener, key)

        network._serve_lobby = serve_lobby
    os.memfd_create = None  # type: ignore[assignment]
    go.wait(60)
    try:
        collectives = Collectives.join(info, rank, 2)
        collectives.barrier(60)
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        collectives.barrier(60)
    except BaseException as error:
        results.put(f"{type(error).__name__}: {error}")


@pytest.mark.parametrize("transport", [NETWORK])
def test_a_thousand_strangers_do_not_end_the_notice_of_lost_ranks(transport: str) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < 1400:
        pytest.skip(f"a thousand connections need 1400 descriptors, of which there are {hard}")
    info, results, go = new_root_info(transport), FORK.Queue(), [FORK.Event(), FORK.Event()]
    children = [FORK.Process(target=_lobby_with_few_descriptors, args=(info, r, go[r], results)) for r in range(2)]
    for child in children:
        child.start()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 1400), limits[1]))
    try:
        go[0].set()
        address = "127.0.0.1", results.get(timeout=120)
        with contextlib.ExitStack() as strangers:
            for _ in range(1000):
                strangers.enter_context(socket.create_connection(address, 60))
            go[1].set()
            assert "rank 1 is lost" in results.get(timeout=120)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    for child in children:
        child.join(60)


def test_groups_leave_no_descriptors() -> None:
    gc.collect()  # what other tests have left is not closed meanwhile
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        group = HostGroup(RootInfo.new(), 0, 1)
        Collectives(group).barrier()
        group.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_root_infos_of_others_are_refused() -> None:
    with pytest.raises(ValueError, match="root info is not one"):
        Collectives.join(b"\0" * 4108, 0, 1)
    with pytest.raises(ValueError, match="rank is 2"):
        Collectives.join(new_root_info(), 2, 2)


# ------------------------------------------------------------------------------------------------- two hosts

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
import ascend_aclnn as aclnn
aclnn.use_backend(sys.argv[1])
rank, file = int(sys.argv[2]), Path(sys.argv[3])
if rank == 0:
    info = aclnn.Communicator.root_info()
    file.with_suffix(".new").write_bytes(info)
    file.with_suffix(".new").rename(file)
while not file.exists():
    pass
with aclnn.Communicator.from_root_info(file.read_bytes(), rank, 2) as comm:
    x = aclnn.asarray(np.full(1000, rank + 1, np.float32))
    comm.all_reduce(x)
    turned = comm.split([1, 0])
    y = turned.all_gather(aclnn.asarray(np.full(2, rank, np.float32)))
    if rank == 0:
        comm.send(x, 1)
    else:
        comm.recv(x, 0)
    print(x.numpy()[0], y.numpy().tolist())
    turned.close()
"""


@pytest.fixture
def two_hosts() -> Any:
    """Two network namespaces with a cable between them: (name, address) of each."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and the ip command: two hosts are not tested")
    names = [f"aclnn{os.getpid()}{side}" for side in "ab"]
    addresses = ["10.231.7.1", "10.231.7.2"]

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    made = []
    try:
        try:
            for name in names:
                ip("netns", "add", name)
                made.append(name)
            ip("link", "add", "cable0", "netns", names[0], "type", "veth", "peer", "name", "cable0", "netns", names[1])
            for name, address in zip(names, addresses):
                ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable0")
                ip("-n", name, "link", "set", "cable0", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces cannot be made here: {error.stderr.decode().strip()}")
        yield list(zip(names, addresses))
    finally:
        for name in made:
            ip("netns", "del", name)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch, which brings gloo, is not installed")
@pytest.mark.parametrize("backend", ["numpy", "npu"])
def test_ranks_on_two_hosts(
    two_hosts: list[tuple[str, str]], tmp_path: Path, backend: str, request: pytest.FixtureRequest
) -> None:
    ranks, settings = [], dict(os.environ)
    if backend == "npu":
        settings = environment(request.getfixturevalue("emulator_home"))
    for rank, (name, address) in enumerate(two_hosts):
        command = ["ip", "netns", "exec", name, sys.executable, "-c", PROGRAM, backend, str(rank)]
        command.append(str(tmp_path / "info"))
        variables = {**settings, "HCCL_IF_IP": address}
        ranks.append(
            subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    outputs = [process.communicate(timeout=600) for process in ranks]
    for rank, (out, error) in enumerate(outputs):
        assert out == "3.0 [1.0, 1.0, 0.0, 0.0]\n", (rank, out, error)


RESERVED = """
import socket, sys
import ascend_aclnn as aclnn
from ascend_aclnn.collectives.interface import RootInfo
with aclnn.use_backend(sys.argv[1]):
    ip, port = RootInfo.parse(aclnn.Communicator.root_info()).address.split(":")
with socket.socket() as stranger:
    try:
        stranger.bind((ip, int(port)))
        print("taken")
    except OSError:
        print("kept")
with socket.socket() as store:
    store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    store.bind((ip, int(port)))
    store.listen()
"""


@pytest.mark.parametrize("backend", ["numpy", "npu"])
def test_the_port_of_a_root_info_is_kept_for_rank_0(backend: str, request: pytest.FixtureRequest) -> None:
    settings = dict(os.environ)
    if backend == "npu":
        settings = environment(request.getfixturevalue("emulator_home"))
    settings.pop("HCCL_IF_BASE_PORT", None)
    command = [sys.executable, "-c", RESERVED, backend]
    variables = {**settings, "HCCL_IF_IP": "127.0.0.1"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr
