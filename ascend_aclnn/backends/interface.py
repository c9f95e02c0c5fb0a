"""What a backend must provide: operators and communication on tensors, beside the memory, devices and streams below them.

Everything above the backends talks to the ``Backend`` below and to nothing behind it.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Protocol, cast

import numpy.typing as npt

from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core import current
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.graph_record import GraphRecord
from ascend_aclnn.core.interface import DeviceInterface, GraphState
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor

if TYPE_CHECKING:  # imported on use: most programs do not communicate
    from ascend_aclnn.core.hccl import CommunicatorConfig


def operands(operator: Operator, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """What a call reads, and what it writes: its values that are tensors, or lists of them."""
    read, written = [], []
    for parameter, value in zip(operator.parameters, values):
        if parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST) and value is not None:
            if parameter.direction != "out":
                read.append(value)
            if parameter.direction != "in":
                written.append(value)
    return read, written


class PreparedCall(abc.ABC):
    """Phase one's result: an executor with its arguments, workspace and lifetime."""

    workspace_size: int
    repeatable: bool

    @abc.abstractmethod
    def run(self, stream: Optional[Stream]) -> None:
        """Phase two on a stream (None: the current one)."""

    @abc.abstractmethod
    def close(self) -> None:
        """Releases the executor and the handles; idempotent, never raises."""


class HostRunner(Protocol):
    """An operator on host arrays. See ``Backend.run``."""

    @property
    def valid(self) -> bool:
        """False once the operator is registered anew."""

    def run(self, arguments: Sequence[Any]) -> None:
        """One argument for each C parameter: ndarrays for tensors, lists of them, Python values for the rest."""

    def prepare(self, arguments: Sequence[Any], new: bool) -> Callable[[Sequence[Any]], None]:
        """``run`` for arguments that differ from these in data only; ``new``: the outputs share no memory with inputs."""

    def returning(self, arguments: Sequence[Any]) -> Optional[Callable[[list[Any]], list[Any]]]:
        """A function that takes the inputs, in a list that it may change, and returns new ndarrays as outputs.

        None if ``prepare`` is as fast.
        """


class RememberedCall(abc.ABC):
    """An operator with all that its arguments have beside memory. See ``Backend.remember``."""

    inputs: Sequence[int]  # the indices of the items that are Tensors
    outputs: Sequence[TensorSpec]  # that each call makes
    # of each result the index of its item, or -1 - n for output n; None: a null pointer
    results: Sequence[Optional[int]]

    @abc.abstractmethod
    def run(self, items: Sequence[Any], stream: Optional[Stream]) -> list[Any]:
        """Runs the operator on other tensors of the same descriptions; its results."""

    @abc.abstractmethod
    def run_at(self, addresses: Sequence[int], stream: Stream) -> bool:
        """Runs it on storages at addresses, of ``inputs`` and then of ``outputs``, whose owner orders their reuse.

        False, and nothing done, where the stream is not of the current device.
        """


class CapturedGraph(GraphState, abc.ABC):
    """A graph of a backend. ``Graph`` owns it, and sees to it that it is captured before it is replayed."""

    record: GraphRecord

    @property
    @abc.abstractmethod
    def memory(self) -> int:
        """Bytes that the graph holds for tensors and workspaces made in its capture."""

    @abc.abstractmethod
    def begin(self, stream: Stream, mode: int) -> None:
        """Begins the capture of a stream; ``mode`` is a aclmdlRICaptureMode."""

    @abc.abstractmethod
    def end(self) -> None:
        """Ends the capture. Where that fails, nothing is left of it, and its streams run again."""

    @abc.abstractmethod
    def abandon(self) -> None:
        """Ends the capture and drops what it recorded; never raises."""

    @abc.abstractmethod
    def replay(self, stream: Optional[Stream]) -> None:
        """Queues a replay on a stream (None: the current one)."""

    @abc.abstractmethod
    def begin_group(self, stream: Stream) -> None:
        """Begins a task group on a captured stream."""

    @abc.abstractmethod
    def end_group(self, stream: Stream) -> int:
        """Ends it: its number."""

    @abc.abstractmethod
    def begin_update(self, stream: Stream, group: int) -> None:
        """What is queued on the stream from now on replaces the tasks of a group."""

    @abc.abstractmethod
    def end_update(self, stream: Stream) -> None:
        """Replaces them, when the stream comes to it."""

    @abc.abstractmethod
    def close(self) -> None:
        """Waits for replays and releases the graph; idempotent."""

    @abc.abstractmethod
    def let_go(self) -> None:
        """As ``close``, by a finalizer: on any thread, at any moment, without waiting."""


class Collective(NamedTuple):
    """A collective as one rank calls it, by its name in ``Communicator``.

    Tensors are contiguous; counts are of elements, one for each rank, () for equal parts.
    """

    operation: str
    send: Optional[Tensor] = None
    receive: Optional[Tensor] = None
    reduction: int = 0  # HcclReduceOp
    root: int = -1
    send_counts: Sequence[int] = ()
    receive_counts: Sequence[int] = ()
    stream: Optional[Stream] = None


class CommunicatorEndpoint(abc.ABC):
    """One rank of a communicator."""

    rank: int
    size: int
    name: str  # what the operators' group arguments want

    @abc.abstractmethod
    def split(self, ranks: Sequence[int], number: int, config: CommunicatorConfig) -> CommunicatorEndpoint:
        """An endpoint of some ranks, this one among them; ``number`` is the same on all and new."""

    @abc.abstractmethod
    def collective(self, call: Collective) -> None:
        """Queues a collective."""

    @abc.abstractmethod
    def exchange(self, items: Sequence[tuple[bool, Tensor, int]], stream: Optional[Stream]) -> None:
        """Sends (True) and receives with other ranks."""

    @abc.abstractmethod
    def window(self, nbytes: int, peers: Sequence[int]) -> Tensor:
        """Memory of this rank, INT8 and 0, that peers can write to, and theirs for this rank; waits for them."""

    @abc.abstractmethod
    def abort(self) -> None: ...

    @abc.abstractmethod
    def resume(self) -> None: ...

    @abc.abstractmethod
    def check(self) -> None:
        """Raises the asynchronous error, if there is one."""

    @abc.abstractmethod
    def close(self) -> None:
        """Leaves the communicator; idempotent, never raises."""

    ends_with_backend = False  # the backend closes at exit what is open

    def let_go(self) -> None:
        """As ``close``, by a finalizer: on any thread, at any moment."""
        self.close()


class Backend(DeviceInterface):
    """What binding needs of a backend.

    ``values`` always has one item for each C parameter of phase one, in C order: Tensor (or None for a null pointer),
    list of Tensors, Scalar, list of Scalars, tuple of int / float / bool for aclXxxArray, str for char*, int / float / bool
    for by-value attributes (enums as ints). Binding has already made them so; outputs are among them.
    """

    def __repr__(self) -> str:
        return f"Backend({self.name!r}, {self.soc}{', emulated' if self.emulated else ''})"

    # operators
    @abc.abstractmethod
    def prepare(self, operator: Operator, values: Sequence[Any], repeatable: bool) -> PreparedCall:
        """Phase one. Raises AclError with CANN's status."""

    @abc.abstractmethod
    def run(self, operator: Operator, values: Sequence[Any], stream: Optional[Stream]) -> Optional[HostRunner]:
        """Both phases, once, asynchronously on a stream (None: the current one).

        Returns a HostRunner, which runs the operator without phase one on host arrays in place of these tensors, for all
        values of the same specs and attributes. None where the backend has none.
        """

    def remember(
        self, operator: Operator, values: Sequence[Any], sources: Sequence[int], results: Sequence[int]
    ) -> Optional[RememberedCall]:
        """What runs the operator again on other tensors of the same descriptions, and the same values of the rest.

        ``sources`` has, for each value that is a Tensor, its index among the items of later calls, or -1 for an output that
        each call makes; ``results`` the positions of what each call returns. None where there is no such thing.
        """
        return None

    @abc.abstractmethod
    def graph(self) -> CapturedGraph:
        """A graph, not captured yet."""

    @abc.abstractmethod
    def view_shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape that an operator with a data-dependent output has given a tensor; waits for the operator."""

    @abc.abstractmethod
    def convert_format(self, tensor: Tensor, format: Format) -> Tensor:
        """A new tensor with the same values in ND or FRACTAL_NZ."""

    def copy_in(self, arrays: Sequence[npt.NDArray[Any]], specs: Sequence[TensorSpec]) -> list[Tensor]:
        """New tensors of specs with ndarrays' elements: row-major from the start of their storages, of bytes or more."""
        raise NotImplementedError

    def copy_out(self, tensors: Sequence[Optional[Tensor]]) -> list[Optional[npt.NDArray[Any]]]:
        """The elements of such tensors as new ndarrays; waits for what wrote them."""
        raise NotImplementedError

    def host_array(self, tensor: Tensor) -> npt.NDArray[Any]:
        """A tensor's elements in place, for a HostRunner."""
        raise NotImplementedError

    @abc.abstractmethod
    def from_host(self, array: npt.NDArray[Any], dtype: DataType) -> Tensor:
        """A tensor with an ndarray's values, for one call: over its own memory (``storage.array``) or a copy."""

    @abc.abstractmethod
    def allocate_output(self, spec: TensorSpec, for_host: bool) -> Tensor:
        """A tensor for an operator to write. ``for_host``: the caller wants its values as an ndarray."""

    # communication
    @abc.abstractmethod
    def communicator_root_info(self) -> bytes:
        """What identifies a new communicator."""

    @abc.abstractmethod
    def communicator(self, info: bytes, rank: int, size: int, config: CommunicatorConfig) -> CommunicatorEndpoint:
        """Meets the other ranks of a root info."""

    @abc.abstractmethod
    def communicators_of_devices(self, devices: Sequence[int]) -> list[CommunicatorEndpoint]:
        """Ranks that are devices of this process."""

    def communicator_group(self) -> AbstractContextManager[None]:
        """A block whose collectives may wait for each other: they are called no later than at its end."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def communicator_of_cluster(self, path: str, rank: int, config: CommunicatorConfig) -> CommunicatorEndpoint:
        """Meets the ranks of a rank table."""


_find_shapes: Optional[Callable[[Backend], Backend]] = None


def set_shapes_finder(find: Callable[[Backend], Backend]) -> None:
    """Registers the function that finds the shapes backend with the rules of another backend."""
    global _find_shapes
    _find_shapes = find


def without_values(backend: Backend) -> Backend:
    """The backend that infers what another one would compute; itself where it has no values."""
    if not backend.has_values:
        return backend
    assert _find_shapes is not None, "set by ascend_aclnn.selection"
    return _find_shapes(backend)


# A process can only choose a whole Backend (``selection``), though ``core`` needs no more of it than a DeviceInterface.
current_backend = cast(Callable[[], Backend], current.current_backend)
