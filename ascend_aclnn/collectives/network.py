"""Ranks on several hosts: messages and data over gloo, which PyTorch brings along.

gloo and not MPI or UCX: whoever runs torch_npu has it already, it needs no launcher of its own (mpiexec), and two-sided
messages are all that a collective wants here. Rank 0 keeps PyTorch's TCPStore at the root info's address, where the ranks
find each other under a name that only those who have the secret know. Nothing is encrypted, as with HCCL.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import hmac
import os
import threading
import time
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from ascend_aclnn.collectives.interface import (
    COLLECTIVE,
    CONNECT_TIMEOUT,
    EXECUTE_TIMEOUT,
    KEPT,
    POINTS,
    Array,
    CommunicationError,
    Group,
    Location,
    Reads,
    RootInfo,
    TimedOut,
)

_LENGTHS, _MESSAGES, _DATA, _GIVEN = range(4)  # kinds of gloo's tags
_KINDS = 4

_stores: dict[
    str, Any
] = {}  # of this process, by address: ranks that split off find each other in their parents' store
_lock = threading.Lock()


def _torch() -> Any:
    try:
        import torch
        import torch.distributed
    except ImportError:
        raise CommunicationError("ranks on several hosts (HCCL_IF_IP) need PyTorch, which brings gloo") from None
    return torch


def _store_at(address: str, hosts: bool, timeout: datetime.timedelta) -> Any:
    with _lock:
        if address not in _stores:
            ip, port = address.rsplit(":", 1)
            _stores[address] = _torch().distributed.TCPStore(
                ip, int(port), is_master=hosts, timeout=timeout, wait_for_workers=False
            )
        return _stores[address]


class NetworkGroup(Group):
    """The connections of one rank to all ranks of a communicator, by gloo."""

    def __init__(self, info: RootInfo, rank: int, size: int, timeout: float = CONNECT_TIMEOUT) -> None:
        """Meets the other ranks."""
        super().__init__(rank, size)
        self._torch = torch = _torch()
        patience = datetime.timedelta(seconds=timeout)
        name = hashlib.sha256(b"store" + info.secret).hexdigest()
        try:
            store = torch.distributed.PrefixStore(name, _store_at(info.address, rank == 0, patience))
            gloo = torch.distributed.ProcessGroupGloo
            options = gloo._Options()
            options._devices = [
                gloo.create_device(hostname=os.environ.get("HCCL_IF_IP") or info.address.rsplit(":", 1)[0])
            ]
            options._timeout = patience
            self._gloo: Any = gloo(store, rank, size, options)
        except RuntimeError as error:
            raise TimedOut(f"rank {rank} waited in vain for the others at {info.address}: {error}") from None
        self._results: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._given: dict[int, list[tuple[Any, Any]]] = {peer: [] for peer in range(size)}
        proofs = self.exchange(self._proof(info, rank), timeout)
        for peer, proof in enumerate(proofs):
            if not hmac.compare_digest(proof, self._proof(info, peer)):
                raise self.fail(f"what connected as rank {peer} does not have the root info")

    def _proof(self, info: RootInfo, rank: int) -> bytes:
        return hmac.digest(info.secret, b"rank %d of %d" % (rank, self.size), "sha256")

    # ---------------------------------------------------------------------------------------- messages
    def exchange(self, message: bytes, timeout: float = EXECUTE_TIMEOUT) -> list[bytes]:
        others = [peer for peer in range(self.size) if peer != self.rank]
        deadline = time.monotonic() + timeout
        sent = [self._send(peer, COLLECTIVE, message) for peer in others]
        got = {peer: self.receive(peer, COLLECTIVE, deadline) for peer in others}
        for peer, works in zip(others, sent):
            self._finish(peer, works, deadline)
        return [got.get(peer, message) for peer in range(self.size)]

    def send(self, peer: int, channel: int, message: bytes) -> None:
        under_way = [entry for entry in self._given[peer] if not entry[0].is_completed()]
        self._given[peer] = [*under_way, *self._send(peer, channel, message)]

    def receive(self, peer: int, channel: int, deadline: float) -> bytes:
        length = np.zeros(1, np.int64)
        self._receive_into(peer, channel * _KINDS + _LENGTHS, length, deadline)
        message = np.empty(int(length[0]), np.uint8)
        self._receive_into(peer, channel * _KINDS + _MESSAGES, message, deadline)
        return message.tobytes()

    def _send(self, peer: int, channel: int, message: bytes) -> list[tuple[Any, Any]]:
        length = np.array([len(message)], np.int64)
        tag = channel * _KINDS
        return [
            self._start(peer, tag + _LENGTHS, length),
            self._start(peer, tag + _MESSAGES, np.frombuffer(message, np.uint8).copy()),
        ]

    # ---------------------------------------------------------------------------------------- gloo
    def _start(self, peer: int, tag: int, array: Array) -> tuple[Any, Any]:
        """Sends bytes without waiting; the tensor is kept until ``_finish``."""
        tensor = self._torch.from_numpy(array.reshape(-1).view(np.uint8))
        return self._guarded(peer, lambda gloo: gloo.send([tensor], peer, tag)), tensor

    def _receive_into(self, peer: int, tag: int, array: Array, deadline: float) -> None:
        tensor = self._torch.from_numpy(array.reshape(-1).view(np.uint8))
        self._finish(peer, [(self._guarded(peer, lambda gloo: gloo.recv([tensor], peer, tag)), tensor)], deadline)

    def _finish(self, peer: int, works: Sequence[tuple[Any, Any]], deadline: float) -> None:
        for work, _ in works:
            left = datetime.timedelta(seconds=max(deadline - time.monotonic(), 0.001))
            self._guarded(peer, functools.partial(_wait, work, left))

    def _guarded(self, peer: int, run: Callable[[Any], Any]) -> Any:
        """What gloo answers; its errors are failures of the group."""
        self.check()
        try:
            return run(self._gloo)
        except RuntimeError as error:
            if "imed out" in str(error):
                raise self.fail(TimedOut(f"rank {peer} did not answer rank {self.rank} in time")) from None
            raise self.fail(CommunicationError(f"rank {peer} is lost")) from None

    # ---------------------------------------------------------------------------------------- data of collectives
    def publish(self, array: Array) -> Location:
        """Nothing to do: ``fetch`` sends it, and who has received it has a copy."""
        return Location(KEPT, 0)

    def results(self, nbytes: int) -> npt.NDArray[np.uint8]:
        self._results = np.empty(nbytes, np.uint8)
        return self._results

    def fetch(self, own: Array, places: Sequence[Location], dtype: np.dtype[Any], reads: Reads) -> list[Array]:
        deadline = time.monotonic() + EXECUTE_TIMEOUT
        sent, got = [], []
        for peer in range(self.size):
            start, count = reads(peer, self.rank)
            if peer != self.rank and count:
                sent.append((peer, self._start(peer, _DATA, np.ascontiguousarray(own[start : start + count]))))
        for peer in range(self.size):
            start, count = reads(self.rank, peer)
            if peer == self.rank:
                got.append(own[start : start + count].view(dtype))
                continue
            array = np.empty(count, dtype)
            if count:
                self._receive_into(peer, _DATA, array, deadline)
            got.append(array)
        for peer, work in sent:
            self._finish(peer, [work], deadline)
        return got

    # ---------------------------------------------------------------------------------------- data from rank to rank
    def place(self, array: Array) -> Location:
        return Location(POINTS, 0)

    def give(self, peer: int, array: Array) -> None:
        self._given[peer].append(self._start(peer, _GIVEN, array))

    def take(self, peer: int, place: Location, dtype: np.dtype[Any], count: int) -> Array:
        array = np.empty(count, dtype)
        self._receive_into(peer, _GIVEN, array, time.monotonic() + EXECUTE_TIMEOUT)
        return array

    # ---------------------------------------------------------------------------------------- the end
    def _disconnect(self) -> None:
        gloo, self._gloo = self._gloo, None
        if gloo is not None and hasattr(gloo, "abort"):
            gloo.abort()

    def _release(self) -> None:
        self._given.clear()
        self._gloo = None


def _wait(work: Any, left: datetime.timedelta, gloo: Any) -> None:
    work.wait(left)
