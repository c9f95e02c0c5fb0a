"""Communicators of the NumPy backend: between processes of one host, by ``ascend_aclnn.collectives``."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.backends.numpy.storage import host_view
from ascend_aclnn.collectives import groups
from ascend_aclnn.collectives.algorithms import REDUCTIONS, Buffer, Collectives
from ascend_aclnn.collectives.interface import CommunicationError, RootInfo, TimedOut, rank_table_info
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.core.interface import Collective, CommunicatorEndpoint
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor

TIMEOUT, REMOTE = 9, 21  # of HcclResult

Array = npt.NDArray[Any]


def root_info() -> bytes:
    return RootInfo.new().pack()


def cluster(path: str, rank: int) -> HostCommunicator:
    info, ranks = rank_table_info(Path(path))
    return HostCommunicator(info.pack(), rank, ranks, None)


class HostCommunicator(CommunicatorEndpoint):
    """Collectives on host memory; everything is done when a call returns."""

    def __init__(self, info: bytes, rank: int, size: int, name: Optional[str]) -> None:
        self.rank, self.size = rank, size
        self.name = name or "hccl_" + hashlib.sha256(b"name" + info).hexdigest()[:16]
        self._info = info
        self._collectives: Collectives = self._reporting(
            "HcclCommInitRootInfo", lambda: Collectives.join(info, rank, size)
        )
        self._ranks = groups.enter(self.name, self._collectives)

    def split(self, ranks: Sequence[int], number: int) -> HostCommunicator:
        seed = hmac.digest(self._info, repr((number, list(ranks))).encode(), "sha256")
        info = RootInfo.of(seed, RootInfo.parse(self._info).address)
        return HostCommunicator(info.pack(), list(ranks).index(self.rank), len(ranks), None)

    def collective(self, call: Collective) -> None:
        self._reporting(f"Hccl{call.operation.title().replace('_', '')}", lambda: self._run(call))

    def _run(self, call: Collective) -> None:
        collectives = self._collectives
        if call.operation == "barrier" or call.receive is None:
            collectives.barrier()
            return
        operation, root, reduction = call.operation, call.root, REDUCTIONS[call.reduction]
        receive, dtype = _flat(call.receive), call.receive.dtype
        buffer = Buffer(receive if call.send is None else _flat(call.send))
        if operation == "all_reduce":
            collectives.all_reduce(buffer, receive, dtype, reduction)
        elif operation == "reduce":
            collectives.reduce(buffer, receive if self.rank == root else None, dtype, root, reduction)
        elif operation == "broadcast":
            collectives.broadcast(buffer, dtype, root)
        elif operation == "scatter":
            collectives.scatter(buffer if call.send is not None else None, receive, dtype, root)
        elif operation == "reduce_scatter":
            counts = list(call.send_counts) or [receive.size] * self.size
            collectives.reduce_scatter(buffer, receive, dtype, counts, reduction)
        elif operation == "all_gather":
            counts = list(call.receive_counts) or [buffer.array.size] * self.size
            collectives.all_gather(buffer, _split(receive, counts), dtype, counts)
        else:
            counts = list(call.send_counts) or [buffer.array.size // self.size] * self.size
            parts = list(call.receive_counts) or [receive.size // self.size] * self.size
            starts = [sum(counts[:rank]) for rank in range(self.size)]
            collectives.all_to_all(buffer, starts, counts, _split(receive, parts), dtype)

    def exchange(self, items: Sequence[tuple[bool, Tensor, int]], stream: Optional[Stream]) -> None:
        sends = [(peer, Buffer(_flat(tensor))) for is_send, tensor, peer in items if is_send]
        receives = [(peer, _flat(tensor)) for is_send, tensor, peer in items if not is_send]
        self._reporting("HcclBatchSendRecv", lambda: self._collectives.send_receive(sends, receives))

    def abort(self) -> None:
        self._collectives.group.fail("the communicator was aborted")

    def resume(self) -> None:
        self._reporting("HcclCommResume", self._collectives.resume)

    def check(self) -> None:
        failure = self._collectives.group.failure
        if failure is not None:
            raise self._error("HcclGetCommAsyncError", REMOTE, failure)

    def close(self) -> None:
        groups.leave(self._ranks)
        self._collectives.group.close()

    def _reporting(self, routine: str, run: Callable[[], Any]) -> Any:
        """Runs, with failures as HCCL's own."""
        try:
            return run()
        except TimedOut as error:
            raise self._error(routine, TIMEOUT, str(error)) from None
        except CommunicationError as error:
            raise self._error(routine, REMOTE, str(error)) from None

    def _error(self, routine: str, status: int, text: str) -> AclError:
        return AclError(status, routine, f"rank {self.rank} of {self.size}: {text}")


def _flat(tensor: Tensor) -> Array:
    return host_view(tensor).reshape(-1)


def _split(array: Array, counts: Sequence[int]) -> list[Array]:
    return np.split(array, np.cumsum(counts)[:-1])
