"""What a backend must provide: operators, memory, devices, streams and events.

Everything above the backends talks to the ``Backend`` and ``Storage`` below and to nothing behind them.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ascend_aclnn.catalog import Operator
    from ascend_aclnn.core.dtypes import DataType, Format
    from ascend_aclnn.core.hccl import CommunicatorConfig
    from ascend_aclnn.core.spec import TensorSpec
    from ascend_aclnn.core.streams import Stream
    from ascend_aclnn.core.tensor import Tensor


class MemoryInfo(NamedTuple):
    """Bytes: free and total of the device, and what this process holds (in use by tensors, kept for reuse)."""

    free: int
    total: int
    used: int
    cached: int


class MemoryStatistics(NamedTuple):
    """Counters of a device's memory pool: bytes, and requests to the device and to the pool."""

    used: int  # in use by tensors
    peak_used: int
    reserved: int  # taken from the device
    peak_reserved: int
    segments: int  # pieces taken from the device
    allocations: int  # of tensors and workspaces, ever
    from_cache: int  # of these, served without the device


class MemoryBlock(NamedTuple):
    """A piece of device memory in use, and the line of the program that allocated it, where that was recorded."""

    address: int
    nbytes: int
    stream: int
    origin: str


class DeviceProperties(NamedTuple):
    """Properties of a device; 0 where the backend does not know."""

    soc: str
    product: str
    cube_cores: int
    vector_cores: int
    l2_cache: int  # bytes
    total_memory: int  # bytes


class Storage(abc.ABC):
    """One allocation of a backend's memory, shared by a tensor and its views and released exactly once."""

    backend: Backend
    device: int
    nbytes: int
    array: Optional[npt.NDArray[Any]] = None  # the ndarray that the storage stands for as a whole, strides and all

    @property
    @abc.abstractmethod
    def address(self) -> int:
        """Address of the first byte; the memory is reserved when this is first asked for."""

    @abc.abstractmethod
    def read(self, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """A host copy (or, on the NumPy backend, a view) of some bytes, after the last writer's stream has passed."""

    @abc.abstractmethod
    def write(self, offset: int, data: npt.NDArray[np.uint8]) -> None:
        """Copies host bytes into the storage; ordered after the work that uses it, done when this returns."""

    owner: object = None  # the owner of borrowed memory

    def wait(self) -> None:
        """Waits for the stream that wrote last."""
        return

    def make_wait(self, stream: Stream) -> None:
        """Makes what is queued on a stream from now on run after what wrote last."""
        return

    def write_async(self, offset: int, data: npt.NDArray[np.uint8], stream: Optional[Stream]) -> None:
        """Queues a copy of contiguous host bytes into the storage; ``data`` is kept until it has run."""
        self.write(offset, data)

    def read_async(self, offset: int, data: npt.NDArray[np.uint8], stream: Optional[Stream]) -> None:
        """Queues a copy of bytes of the storage into contiguous host memory, which is kept until it has run."""
        data[...] = self.read(offset, data.nbytes)

    @abc.abstractmethod
    def record_stream(self, stream: Stream) -> None:
        """Keeps the memory from being reused before what is now queued on another stream has run."""


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


class RememberedCall(abc.ABC):
    """An operator with all that its arguments have beside memory. See ``Backend.remember``."""

    @abc.abstractmethod
    def run(
        self, items: Sequence[Any], stream: Optional[Stream], allocate: Optional[Callable[[TensorSpec], Tensor]] = None
    ) -> list[Any]:
        """Runs the operator on other tensors of the same descriptions; its results. ``allocate`` makes the new outputs."""


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


class Backend(abc.ABC):
    """What binding, tensors and streams need of a backend.

    ``values`` always has one item for each C parameter of phase one, in C order: Tensor (or None for a null pointer),
    list of Tensors, Scalar, list of Scalars, tuple of int / float / bool for aclXxxArray, str for char*, int / float / bool
    for by-value attributes (enums as ints). Binding has already made them so; outputs are among them.
    """

    name: str
    soc: str
    emulated: bool
    wraps_host_memory: bool  # an ndarray can be an operator's argument as it is

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
        """A block whose collectives may wait for each other: they are called at its end at the latest."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def communicator_of_cluster(self, path: str, rank: int, config: CommunicatorConfig) -> CommunicatorEndpoint:
        """Meets the ranks of a rank table."""

    # memory
    @abc.abstractmethod
    def from_host(self, array: npt.NDArray[Any], dtype: DataType) -> Tensor:
        """A tensor with an ndarray's values, for one call: over its own memory (``storage.array``) or a copy."""

    @abc.abstractmethod
    def allocate_output(self, spec: TensorSpec, for_host: bool) -> Tensor:
        """A tensor for an operator to write. ``for_host``: the caller wants its values as an ndarray."""

    @abc.abstractmethod
    def allocate(self, nbytes: int, device: int) -> Storage:
        """A Storage whose memory is reserved at its first touch."""

    @abc.abstractmethod
    def borrow(self, address: int, nbytes: int, device: int, owner: object, stream: Optional[Stream] = None) -> Storage:
        """A Storage over memory with another owner; ``owner`` is kept alive with it.

        ``stream`` is the stream on which the owner uses the memory, also after its release. With a stream and no owner
        the memory is used on that stream alone, as the owner would, and only while the owner lives.
        """

    @abc.abstractmethod
    def memory_info(self, device: int) -> MemoryInfo: ...

    @abc.abstractmethod
    def empty_cache(self) -> None: ...

    @abc.abstractmethod
    def set_memory_limit(self, nbytes: Optional[int]) -> None: ...

    @abc.abstractmethod
    def set_deterministic(self, level: int) -> None:
        """0: off, 1: on; newer CANNs know 2 and 3."""

    @abc.abstractmethod
    def memory_statistics(self, device: int) -> MemoryStatistics: ...

    @abc.abstractmethod
    def memory_snapshot(self, device: int) -> list[MemoryBlock]: ...

    @abc.abstractmethod
    def record_origins(self, enabled: bool) -> None:
        """Whether the program's lines that ask for memory are recorded from now on."""

    @abc.abstractmethod
    def pinned(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Host memory that the device copies from and to asynchronously, as bytes."""

    @abc.abstractmethod
    def device_properties(self, device: int) -> DeviceProperties: ...

    @abc.abstractmethod
    def overflow_mode(self) -> str:
        """ "inf_nan" or "saturation": what becomes of results beyond a type's range, on the current device."""

    @abc.abstractmethod
    def set_overflow_mode(self, mode: str) -> None: ...

    @abc.abstractmethod
    def set_operator_timeout(self, seconds: float) -> None: ...

    @abc.abstractmethod
    def copy_to_device(self, tensor: Tensor, device: int) -> Tensor:
        """A tensor with the same values and layout on another device; done when this returns."""

    def start_range(self, message: str, stream: Optional[Stream]) -> Optional[int]:
        """Begins a named range in a profile; None without a profiler's library."""
        return None

    def end_range(self, number: int) -> None:
        return None

    # devices, streams, events: raw handles, owned by the classes of ascend_aclnn.core.streams
    @abc.abstractmethod
    def device_count(self) -> int: ...

    @abc.abstractmethod
    def current_device(self) -> int: ...

    @abc.abstractmethod
    def set_device(self, device: int) -> None: ...

    @abc.abstractmethod
    def synchronize(self, device: int, timeout: Optional[float]) -> None:
        """Waits for everything on a device; TimeoutError after ``timeout`` seconds."""

    @abc.abstractmethod
    def create_stream(self, device: int, priority: int) -> int: ...

    @abc.abstractmethod
    def destroy_stream(self, device: int, stream: int) -> None:
        """Synchronises and destroys; called once for each created stream. Never raises."""

    @abc.abstractmethod
    def stream_synchronize(self, stream: Stream, timeout: Optional[float]) -> None: ...

    @abc.abstractmethod
    def stream_done(self, stream: Stream) -> bool: ...

    @abc.abstractmethod
    def stream_wait_event(self, stream: Stream, event: int) -> None: ...

    def keep_until_passed(self, owner: object, stream: Stream) -> None:
        """Keeps an object alive until what is queued on a stream has run."""
        return

    @abc.abstractmethod
    def create_event(self, device: int) -> int: ...

    @abc.abstractmethod
    def destroy_event(self, device: int, event: int) -> None:
        """Called once for each created event. Never raises."""

    @abc.abstractmethod
    def event_record(self, event: int, stream: Stream) -> None: ...

    @abc.abstractmethod
    def event_synchronize(self, event: int, timeout: Optional[float]) -> None: ...

    @abc.abstractmethod
    def event_done(self, event: int) -> bool: ...

    @abc.abstractmethod
    def event_elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two recorded events."""
