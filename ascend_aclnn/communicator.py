"""Communicator: collectives between ranks, on libhccl or, on a host without devices, between its processes.

    comm = Communicator.from_env()                      # under torchrun or mpirun
    comm.all_reduce(tensor)                             # in place, on the current stream
    ops.mat_mul_all_reduce(x1, x2, None, comm.name, ...)   # operators take the group's name

Collectives take Tensors (on the NumPy backend ndarrays too) that are contiguous, and are asynchronous on the given or the
current stream. All ranks call the same collectives in the same order.
"""

from __future__ import annotations

import dataclasses
import os
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.backends.interface import Backend, Collective, CommunicatorEndpoint, current_backend
from ascend_aclnn.collectives import meeting
from ascend_aclnn.collectives.meeting import Meeting
from ascend_aclnn.core.dtypes import as_datatype
from ascend_aclnn.core.hccl import DEFAULT_CONFIG, REDUCTIONS, CommunicatorConfig
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.streams import Device, Stream, check_stream
from ascend_aclnn.core.tensor import Tensor

Operand = Union[Tensor, npt.NDArray[Any]]


class Communicator:
    """The ranks that communicate, seen from one of them. Made by the class methods; ``close`` or ``with`` ends it."""

    def __init__(self, backend: Backend, endpoint: CommunicatorEndpoint) -> None:
        self.backend = backend
        self.rank = endpoint.rank
        self.size = endpoint.size
        self.name = endpoint.name
        self._endpoint = endpoint
        self._splits = 0
        self._has_window = False
        self._meeting: Optional[Meeting] = None  # of rank 0, which hears of other jobs
        self._leave: Optional[weakref.finalize[..., Communicator]] = None
        self._release = weakref.finalize(self, endpoint.let_go)
        self._release.atexit = not endpoint.ends_with_backend

    # ---------------------------------------------------------------------------------------- making one
    @staticmethod
    def root_info() -> bytes:
        """What identifies a new communicator: made on one rank, which passes it to the others. It is a secret of the ranks."""
        return current_backend().communicator_root_info()

    @classmethod
    def from_root_info(
        cls,
        info: bytes,
        rank: int,
        size: int,
        *,
        name: Optional[str] = None,
        config: CommunicatorConfig = DEFAULT_CONFIG,
    ) -> Communicator:
        """Meets the other ranks of a root info; returns when all have come. The current device is the rank's.

        ``name`` is short for ``config``'s; AclError 1 for a configuration that HCCL refuses.
        """
        _check_rank(rank, size)
        backend = current_backend()
        if name is not None:
            config = dataclasses.replace(config, name=name)
        return cls(backend, backend.communicator(info, rank, size, config))

    @classmethod
    def from_rank_table(cls, path: str, rank: int, *, config: CommunicatorConfig = DEFAULT_CONFIG) -> Communicator:
        """Meets the ranks of a rank table (HCCL's cluster information file)."""
        backend = current_backend()
        return cls(backend, backend.communicator_of_cluster(os.fspath(path), rank, config))

    @classmethod
    def of_devices(cls, devices: Sequence[int]) -> list[Communicator]:
        """Ranks that are devices of this process, rank r being ``devices[r]`` (HcclCommInitAll).

        A rank's collectives are called with its device current, and each rank's from a thread of its own, because HCCL
        waits for all ranks' calls; or one thread calls all of them in ``with Communicator.group():``.
        """
        numbers = [int(device) for device in devices]
        if not numbers or len(set(numbers)) != len(numbers):
            raise ValueError(f"devices are {numbers}; they must be different, and at least one")
        backend = current_backend()
        return [cls(backend, endpoint) for endpoint in backend.communicators_of_devices(numbers)]

    @staticmethod
    def group() -> AbstractContextManager[None]:
        """A block whose collectives, of several devices of this process, are called at its end and at the same time.

        One thread can call all ranks of ``of_devices`` so. Those of one device keep their order; consecutive sends and
        receives of a communicator become one batch. Results may be used after the block.
        """
        return current_backend().communicator_group()

    @classmethod
    def from_env(cls, *, timeout: float = 120, config: CommunicatorConfig = DEFAULT_CONFIG) -> Communicator:
        """Meets the ranks that a launcher has started (torchrun, mpirun, srun), on device ``LOCAL_RANK``.

        Rank 0 gives the others its root info, once each side has proved that it belongs to the job, and all have come. On
        several hosts that takes MASTER_ADDR and a key (docs/distributed.md). ``timeout``: seconds. ValueError for what the
        environment lacks, RuntimeError that names a rank which comes twice or does not belong to the job, TimeoutError.
        """
        job = meeting.Job.of_environment()
        backend = current_backend()
        Device(job.local_rank % backend.device_count()).use()
        if job.size == 1:
            return cls.from_root_info(cls.root_info(), 0, 1, config=config)
        if job.rank > 0:
            return cls.from_root_info(meeting.ask(job, timeout), job.rank, job.size, config=config)
        info = cls.root_info()
        ranks_meeting = meeting.serve(job, info, timeout)
        try:
            communicator = cls.from_root_info(info, 0, job.size, config=config)
        except BaseException:
            ranks_meeting.close()
            raise
        communicator._meeting = ranks_meeting
        communicator._leave = weakref.finalize(communicator, ranks_meeting.close)
        return communicator

    def split(self, ranks: Sequence[int], *, config: CommunicatorConfig = DEFAULT_CONFIG) -> Optional[Communicator]:
        """A communicator of some ranks; all ranks call this, and ranks not in ``ranks`` get None."""
        members = list(ranks)
        if len(set(members)) != len(members) or not all(0 <= r < self.size for r in members):
            raise ValueError(f"ranks are {members}; they must be different and in [0, {self.size - 1}]")
        self._splits += 1
        if self.rank not in members:
            return None
        part = Communicator(self.backend, self._endpoint.split(members, self._splits, config))
        part._meeting = self._meeting
        return part

    def close(self) -> None:
        """Leaves; idempotent. Streams with collectives on them should have passed."""
        if self._leave is not None:
            self._leave()
        if self._release.detach() is not None:
            self._endpoint.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Communicator({self.name!r}, rank {self.rank} of {self.size}, {self.backend.name})"

    # ---------------------------------------------------------------------------------------- state
    def abort(self) -> None:
        """Ends all collectives under way with an error, on this rank and, as they notice, on the others."""
        self._endpoint.abort()

    def resume(self) -> None:
        """Makes the communicator usable again after ``abort`` or an error: all ranks call this, and meet again."""
        self._endpoint.resume()
        self._has_window = False

    def check(self) -> None:
        """Raises the asynchronous error of the communicator, if it has one: a lost rank, a time-out, ranks of two jobs."""
        if self._meeting is not None:
            self._meeting.check()
        self._endpoint.check()

    # ---------------------------------------------------------------------------------------- collectives
    def all_reduce(
        self, tensor: Operand, op: str = "sum", *, out: Optional[Operand] = None, stream: Optional[Stream] = None
    ) -> Operand:
        """The reduction of all ranks' tensors, on all ranks: into ``out``, or in place."""
        target = tensor if out is None else out
        self._run(Collective("all_reduce", *self._pair(tensor, target), _reduction(op), stream=stream))
        return target

    def reduce(self, tensor: Operand, dst: int, op: str = "sum", *, stream: Optional[Stream] = None) -> Operand:
        """The reduction of all ranks' tensors, in place on rank ``dst``."""
        self._run(Collective("reduce", *self._pair(tensor, tensor), _reduction(op), dst, stream=stream))
        return tensor

    def broadcast(self, tensor: Operand, src: int, *, stream: Optional[Stream] = None) -> Operand:
        """Rank ``src``'s tensor into every rank's."""
        self._run(Collective("broadcast", *self._pair(None, tensor), root=src, stream=stream))
        return tensor

    def all_gather(self, tensor: Operand, *, out: Optional[Operand] = None, stream: Optional[Stream] = None) -> Operand:
        """All ranks' tensors one after another along axis 0: shape (size * n, ...)."""
        shape = (self.size * _rows(tensor), *tensor.shape[1:])
        target = self._output(tensor, shape, out)
        self._run(Collective("all_gather", *self._pair(tensor, target), stream=stream))
        return target

    def all_gather_v(
        self, tensor: Operand, counts: Sequence[int], *, out: Optional[Operand] = None, stream: Optional[Stream] = None
    ) -> Operand:
        """Like ``all_gather`` with ``counts[r]`` rows of rank r."""
        rows = self._counts("counts", counts)
        if _rows(tensor) != rows[self.rank]:
            raise ValueError(f"the tensor has {_rows(tensor)} rows; counts[{self.rank}] is {rows[self.rank]}")
        target = self._output(tensor, (sum(rows), *tensor.shape[1:]), out)
        counts = _elements(rows, tensor)
        self._run(Collective("all_gather", *self._pair(tensor, target), receive_counts=counts, stream=stream))
        return target

    def reduce_scatter(
        self, tensor: Operand, op: str = "sum", *, out: Optional[Operand] = None, stream: Optional[Stream] = None
    ) -> Operand:
        """This rank's part, along axis 0, of the reduction: shape (n / size, ...)."""
        if _rows(tensor) % self.size:
            raise ValueError(f"the tensor has {_rows(tensor)} rows; they must be a multiple of {self.size}, the ranks")
        target = self._output(tensor, (_rows(tensor) // self.size, *tensor.shape[1:]), out)
        self._run(Collective("reduce_scatter", *self._pair(tensor, target), _reduction(op), stream=stream))
        return target

    def reduce_scatter_v(
        self,
        tensor: Operand,
        counts: Sequence[int],
        op: str = "sum",
        *,
        out: Optional[Operand] = None,
        stream: Optional[Stream] = None,
    ) -> Operand:
        """Like ``reduce_scatter`` with ``counts[r]`` rows for rank r."""
        rows = self._counts("counts", counts)
        if sum(rows) != _rows(tensor):
            raise ValueError(f"the tensor has {_rows(tensor)} rows; the counts add up to {sum(rows)}")
        target = self._output(tensor, (rows[self.rank], *tensor.shape[1:]), out)
        call = Collective("reduce_scatter", *self._pair(tensor, target), _reduction(op), stream=stream)
        self._run(call._replace(send_counts=_elements(rows, tensor)))
        return target

    def scatter(self, tensor: Optional[Operand], src: int, *, out: Operand, stream: Optional[Stream] = None) -> Operand:
        """Into ``out``: this rank's part, along axis 0, of rank ``src``'s tensor (None on the others)."""
        if self.rank == src and (tensor is None or _size(tensor) != self.size * _size(out)):
            shape = None if tensor is None else tuple(tensor.shape)
            raise ValueError(
                f"the tensor has shape {shape}; on rank {src} it must have {self.size} times the elements of out"
            )
        send = tensor if self.rank == src else None
        self._run(Collective("scatter", *self._pair(send, out), root=src, stream=stream))
        return out

    def all_to_all(self, tensor: Operand, *, out: Optional[Operand] = None, stream: Optional[Stream] = None) -> Operand:
        """Part r of the tensor, along axis 0, to rank r; the parts from all ranks come back in their order."""
        if _rows(tensor) % self.size:
            raise ValueError(f"the tensor has {_rows(tensor)} rows; they must be a multiple of {self.size}, the ranks")
        target = self._output(tensor, tuple(tensor.shape), out)
        self._run(Collective("all_to_all", *self._pair(tensor, target), stream=stream))
        return target

    def all_to_all_v(
        self,
        tensor: Operand,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
        *,
        out: Optional[Operand] = None,
        stream: Optional[Stream] = None,
    ) -> Operand:
        """Like ``all_to_all`` with ``send_counts[r]`` rows to rank r and ``receive_counts[r]`` rows from it."""
        sends, receives = self._counts("send_counts", send_counts), self._counts("receive_counts", receive_counts)
        if sum(sends) != _rows(tensor):
            raise ValueError(f"the tensor has {_rows(tensor)} rows; send_counts add up to {sum(sends)}")
        target = self._output(tensor, (sum(receives), *tensor.shape[1:]), out)
        call = Collective("all_to_all", *self._pair(tensor, target), stream=stream)
        counts = _elements(sends, tensor), _elements(receives, tensor)
        self._run(call._replace(send_counts=counts[0], receive_counts=counts[1]))
        return target

    def barrier(self, *, stream: Optional[Stream] = None) -> None:
        """No rank's stream goes on before all ranks have reached the barrier."""
        self._stream(stream)
        self._endpoint.collective(Collective("barrier", stream=stream))

    # ---------------------------------------------------------------------------------------- two ranks
    def send(self, tensor: Operand, dst: int, *, stream: Optional[Stream] = None) -> None:
        """Sends the tensor to rank ``dst``."""
        self.batch_send_recv([("send", tensor, dst)], stream=stream)

    def recv(self, tensor: Operand, src: int, *, stream: Optional[Stream] = None) -> Operand:
        """Receives the tensor that rank ``src`` sends."""
        self.batch_send_recv([("recv", tensor, src)], stream=stream)
        return tensor

    def batch_send_recv(self, items: Sequence[tuple[str, Operand, int]], *, stream: Optional[Stream] = None) -> None:
        """Sends and receives that may wait for each other: ("send" or "recv", tensor, rank) each.

        A send to this rank itself needs a receive from it, of the same count and data type, in the batch.
        """
        self._stream(stream)
        placed: list[tuple[bool, Tensor, int]] = []
        for kind, tensor, peer in items:
            if kind not in ("send", "recv"):
                raise ValueError(f"an item is {kind!r}; it must be 'send' or 'recv'")
            if not 0 <= peer < self.size:
                raise ValueError(f"the other rank is {peer}; it must be in [0, {self.size - 1}]")
            placed.append((kind == "send", self._tensor(tensor, kind == "recv"), peer))
        self._endpoint.exchange(placed, stream)

    # ---------------------------------------------------------------------------------------- one-sided
    def window(self, nbytes: int, peers: Optional[Sequence[int]] = None) -> Tensor:
        """Memory of this rank, INT8 and 0, that operators of its peers write to: AttentionToFFN, FFNToAttention.

        All ``peers`` (None: all other ranks) call this and wait for each other. Operators that get the window's address
        (``data_ptr``) in a ``schedule_context`` read it. A communicator has one window, which ``resume`` removes. On cards:
        HcclCommRegister and HcclCommExchangeMem, of CANN 8.5.0 and later.
        """
        others = [rank for rank in range(self.size) if rank != self.rank] if peers is None else list(peers)
        for peer in others:
            _check_peer(peer, self.rank, self.size)
        if nbytes < 1 or len(set(others)) != len(others):
            raise ValueError(f"nbytes is {nbytes} and peers are {others}; nbytes must be above 0, the peers different")
        if self._has_window:
            raise ValueError("the communicator has a window already")
        tensor = self._endpoint.window(nbytes, others)
        self._has_window = True
        return tensor

    # ---------------------------------------------------------------------------------------- operands
    def _pair(self, send: Optional[Operand], receive: Operand) -> tuple[Optional[Tensor], Tensor]:
        """What is sent and where to receive, of one data type."""
        source, target = None if send is None else self._tensor(send, False), self._tensor(receive, True)
        if source is not None and source.dtype is not target.dtype:
            raise ValueError(f"out has dtype {target.dtype.name}; it must be {source.dtype.name}, as the tensor")
        return source, target

    def _run(self, call: Collective) -> None:
        if call.root != -1 and not 0 <= call.root < self.size:
            raise ValueError(f"the rank is {call.root}; it must be in [0, {self.size - 1}]")
        self._stream(call.stream)
        self._endpoint.collective(call)

    def _stream(self, stream: Optional[Stream]) -> None:
        if self._meeting is not None:
            self._meeting.check()
        if stream is not None:
            check_stream(stream, self.backend)

    def _tensor(self, value: Operand, written: bool) -> Tensor:
        if isinstance(value, np.ndarray):
            if not self.backend.wraps_host_memory:
                raise TypeError(f"an ndarray was given; collectives on the {self.backend.name} backend take Tensors")
            if not value.flags.c_contiguous or (written and not value.flags.writeable):
                raise ValueError("the ndarray must be contiguous, and writable where it receives")
            return self.backend.from_host(value, as_datatype(value.dtype))
        if not isinstance(value, Tensor):
            raise TypeError(f"a {type(value).__name__} was given; collectives take Tensors")
        if value.backend is not self.backend:
            raise TypeError(
                f"the tensor is of the {value.backend.name} backend; the communicator is of {self.backend.name}"
            )
        if not value.is_contiguous:
            raise ValueError(
                f"the tensor of shape {value.shape} with strides {value.strides} is not contiguous; copy() it"
            )
        return value

    def _output(self, like: Operand, shape: tuple[int, ...], out: Optional[Operand]) -> Operand:
        if out is not None:
            if tuple(out.shape) != shape:
                raise ValueError(f"out has shape {tuple(out.shape)}; it must be {shape}")
            return out
        if isinstance(like, np.ndarray):
            return np.empty(shape, like.dtype)
        return self.backend.allocate_output(TensorSpec(shape, like.dtype), False)

    def _counts(self, name: str, counts: Sequence[int]) -> list[int]:
        numbers = [int(count) for count in counts]
        if len(numbers) != self.size or min(numbers) < 0:
            raise ValueError(f"{name} is {numbers}; it must have {self.size} items, one for each rank, none negative")
        return numbers


def _check_rank(rank: int, size: int) -> None:
    if size < 1 or not 0 <= rank < size:
        raise ValueError(f"rank is {rank} of {size}; it must be in [0, size - 1]")


def _reduction(op: str) -> int:
    if op not in REDUCTIONS:
        raise ValueError(f"op is {op!r}; it must be one of {', '.join(REDUCTIONS)}")
    return REDUCTIONS.index(op)


def _check_peer(peer: int, rank: int, size: int) -> None:
    if not 0 <= peer < size or peer == rank:
        raise ValueError(f"the other rank is {peer}; it must be in [0, {size - 1}] and not {rank}, this rank itself")


def _rows(tensor: Operand) -> int:
    if not tensor.shape:
        raise ValueError("the tensor has rank 0; it must have an axis along which ranks share it")
    return int(tensor.shape[0])


def _size(tensor: Operand) -> int:
    return int(tensor.size)


def _elements(rows: Sequence[int], tensor: Operand) -> list[int]:
    width = 1
    for n in tensor.shape[1:]:
        width *= int(n)
    return [row * width for row in rows]


__all__ = ["Communicator", "CommunicatorConfig"]
