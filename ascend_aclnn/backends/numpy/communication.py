"""Communicators of the NumPy backend: between processes of one host, by ``ascend_aclnn.collectives``."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

import numpy.typing as npt

from ascend_aclnn.backends.interface import Collective, CommunicatorEndpoint
from ascend_aclnn.backends.numpy.storage import HostBackend, HostStorage, host_view
from ascend_aclnn.collectives import groups
from ascend_aclnn.collectives.algorithms import Buffer, CollectiveCall, Collectives, parts_of
from ascend_aclnn.collectives.interface import (
    DEVICE,
    CommunicationError,
    Location,
    RootInfo,
    TimedOut,
    execute_timeout,
    rank_table_info,
)
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.core.hccl import DEFAULT_CONFIG, NOT_SUPPORTED, REDUCTIONS, CommunicatorConfig, hccl_type, supports
from ascend_aclnn.core.socs import soc as find_soc
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor

TIMEOUT, REMOTE = 9, 21  # of HcclResult

Array = npt.NDArray[Any]


def root_info() -> bytes:
    return RootInfo.new().pack()


def cluster(backend: HostBackend, path: str, rank: int, config: CommunicatorConfig) -> HostCommunicator:
    info, ranks = rank_table_info(Path(path))
    return HostCommunicator(backend, info.pack(), rank, ranks, config)


class HostCommunicator(CommunicatorEndpoint):
    """Collectives on host memory; everything is done when a call returns."""

    def __init__(
        self,
        backend: HostBackend,
        info: bytes,
        rank: int,
        size: int,
        config: CommunicatorConfig = DEFAULT_CONFIG,
        processes: Optional[dict[int, int]] = None,
    ) -> None:
        config.pack()  # ValueError for values that do not fit
        self._backend, self._product = backend, find_soc(backend.soc).product
        config.check(self._product)
        self.rank, self.size = rank, size
        self.name = config.name or "hccl_" + hashlib.sha256(b"name" + info).hexdigest()[:16]
        self._info = info
        timeout = config.timeout(execute_timeout())
        self._collectives: Collectives = self._reporting(
            "HcclCommInitRootInfo", lambda: Collectives.join(info, rank, size, timeout=timeout, processes=processes)
        )
        self._ranks = groups.enter(self.name, self._collectives)

    def split(self, ranks: Sequence[int], number: int, config: CommunicatorConfig) -> HostCommunicator:
        seed = hmac.digest(self._info, repr((number, list(ranks))).encode(), "sha256")
        info = RootInfo.of(seed, RootInfo.parse(self._info).address)
        config = dataclasses.replace(config, name=config.name or f"{self.name}_sub_{number}")
        processes = self._collectives.processes(ranks)
        return HostCommunicator(self._backend, info.pack(), list(ranks).index(self.rank), len(ranks), config, processes)

    def collective(self, call: Collective) -> None:
        routine = f"Hccl{call.operation.title().replace('_', '')}"
        if call.receive is not None:
            reduction = REDUCTIONS[call.reduction] if "reduce" in call.operation else None
            self._check(routine, call.receive, reduction)
        read, written = [call.send], [call.receive]
        self._queue(routine, call.stream, lambda: self._reporting(routine, lambda: self._run(call)), read, written)

    def _queue(
        self,
        routine: str,
        stream: Optional[Stream],
        run: Callable[[], Any],
        read: Sequence[Any],
        written: Sequence[Any],
    ) -> None:
        """Runs at once, or at each replay of the graph that captures the stream."""
        recorder = self._backend.recorder(stream) if self._backend.captures else None
        if recorder is None:
            run()
            return
        for tensor in written:
            if tensor is not None and not tensor.storage.has_memory:
                recorder.graph.adopt(tensor.storage)
        recorder.add("collective", routine, run, read, written)

    def _check(self, routine: str, tensor: Tensor, reduction: Optional[str] = None) -> None:
        if not supports(self._product, hccl_type(tensor.dtype), reduction):
            text = f"{tensor.dtype.name} cannot be {'sent' if reduction is None else 'reduced by ' + reduction}"
            raise self._error(routine, NOT_SUPPORTED, f"{text} on {self._product}")

    def _run(self, call: Collective) -> None:
        if call.receive is None:
            self._collectives.barrier()
            return
        receive = _flat(call.receive)
        send = Buffer(receive if call.send is None else _flat(call.send))
        parts = parts_of(call.send_counts), parts_of(call.receive_counts)
        reduction = REDUCTIONS[call.reduction]
        self._collectives.run(
            CollectiveCall(call.operation, call.receive.dtype, send, receive, reduction, call.root, *parts)
        )

    def exchange(self, items: Sequence[tuple[bool, Tensor, int]], stream: Optional[Stream]) -> None:
        for _, tensor, _ in items:
            self._check("HcclBatchSendRecv", tensor)
        routine = "HcclBatchSendRecv"
        read, written = ([tensor for is_send, tensor, _ in items if is_send is side] for side in (True, False))

        def run() -> None:
            sends = [(peer, Buffer(_flat(tensor))) for is_send, tensor, peer in items if is_send]
            receives = [(peer, _flat(tensor)) for is_send, tensor, peer in items if not is_send]
            self._reporting(routine, lambda: self._collectives.send_receive(sends, receives))

        self._queue(routine, stream, run, read, written)

    def window(self, nbytes: int, peers: Sequence[int]) -> Tensor:
        return self._reporting("HcclCommExchangeMem", lambda: self._window(nbytes, peers))  # type: ignore[no-any-return]

    def _window(self, nbytes: int, peers: Sequence[int]) -> Tensor:
        room = self._collectives.group.room(nbytes)
        tensor = Tensor.on(HostStorage.over(self._backend, room), TensorSpec((nbytes,), DataType.INT8))
        self._collectives.share_window(Location(DEVICE, 0), nbytes, peers)
        return tensor

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
        """Runs ``work`` and reports its failures as HCCL does."""
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
