"""The two backends and how one is chosen: "npu" drives libascendcl and libopapi, "numpy" answers the same calls on the host.

A backend is chosen once, at first use, and is always visible (``backend().name``); there is no silent change for a single
call. Everything above this package talks to the ``Backend`` and ``Storage`` below and to nothing behind them.
"""

from __future__ import annotations

import abc
import contextlib
import contextvars
import os
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ascend_aclnn.catalog import Operator
    from ascend_aclnn.dtypes import Format
    from ascend_aclnn.streams import Stream
    from ascend_aclnn.tensor import Tensor


class MemoryInfo(NamedTuple):
    """Bytes: free and total of the device, and what this process holds (in use by tensors, kept for reuse)."""

    free: int
    total: int
    used: int
    cached: int


class Storage(abc.ABC):
    """One allocation of a backend's memory, shared by a tensor and its views and released exactly once."""

    backend: Backend
    device: int
    nbytes: int

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

    @abc.abstractmethod
    def record_stream(self, stream: Stream) -> None:
        """Keeps the memory from being reused before what is now queued on another stream has run."""


class Prepared(abc.ABC):
    """Phase one's result: an executor with its arguments, workspace and lifetime."""

    workspace_size: int
    repeatable: bool

    @abc.abstractmethod
    def run(self, stream: Optional[Stream]) -> None:
        """Phase two on a stream (None: the current one)."""

    @abc.abstractmethod
    def close(self) -> None:
        """Releases the executor and the handles; idempotent, never raises."""


class Backend(abc.ABC):
    """What binding, tensors and streams need of a backend.

    ``values`` always has one item for each C parameter of phase one, in C order: Tensor (or None for a null pointer),
    list of Tensors, Scalar, list of Scalars, tuple of int / float / bool for aclXxxArray, str for char*, int / float / bool
    for by-value attributes (enums as ints). Binding has already made them so; outputs are among them.
    """

    name: str
    soc: str
    emulated: bool

    # operators
    @abc.abstractmethod
    def prepare(self, operator: Operator, values: Sequence[Any], repeatable: bool) -> Prepared:
        """Phase one. Raises AclError with CANN's status."""

    @abc.abstractmethod
    def run(self, operator: Operator, values: Sequence[Any], stream: Optional[Stream]) -> None:
        """Both phases, once, asynchronously on a stream (None: the current one)."""

    @abc.abstractmethod
    def view_shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape that an operator with a data-dependent output has given a tensor; waits for the operator."""

    @abc.abstractmethod
    def convert_format(self, tensor: Tensor, format: Format) -> Tensor:
        """A new tensor with the same values in ND or FRACTAL_NZ."""

    # memory
    @abc.abstractmethod
    def allocate(self, nbytes: int, device: int) -> Storage:
        """A Storage whose memory is reserved at its first touch."""

    @abc.abstractmethod
    def borrow(self, address: int, nbytes: int, device: int, owner: object) -> Storage:
        """A Storage over memory that somebody else owns; ``owner`` is kept alive with it."""

    @abc.abstractmethod
    def memory_info(self, device: int) -> MemoryInfo: ...

    @abc.abstractmethod
    def empty_cache(self) -> None: ...

    @abc.abstractmethod
    def set_memory_limit(self, nbytes: Optional[int]) -> None: ...

    @abc.abstractmethod
    def set_deterministic(self, enabled: bool) -> None: ...

    # devices, streams, events: raw handles, owned by the classes of ascend_aclnn.streams
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
    def create_stream(self, device: int) -> int: ...

    @abc.abstractmethod
    def destroy_stream(self, device: int, stream: int) -> None:
        """Synchronises and destroys; called once for each created stream. Never raises."""

    @abc.abstractmethod
    def stream_synchronize(self, stream: Stream, timeout: Optional[float]) -> None: ...

    @abc.abstractmethod
    def stream_done(self, stream: Stream) -> bool: ...

    @abc.abstractmethod
    def stream_wait_event(self, stream: Stream, event: int) -> None: ...

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


# ---------------------------------------------------------------------------------------------------- selection

_chosen: contextvars.ContextVar[Optional[Backend]] = contextvars.ContextVar("ascend_aclnn_backend", default=None)
_default: Optional[Backend] = None

DEFAULT_SOC = "Ascend910B1"


def backend() -> Backend:
    """The backend in use; the first call chooses it (``ASCEND_ACLNN_BACKEND``: numpy, npu or auto, the default)."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    global _default
    if _default is None:
        _default = _make(os.environ.get("ASCEND_ACLNN_BACKEND", "auto"), None)
    return _default


class use_backend(contextlib.AbstractContextManager["Backend"]):
    """Chooses the backend for this thread (or asyncio task) from now on, or as a context manager for a block.

    ``soc`` names the chip whose rules the NumPy backend applies ("Ascend910B1", "Ascend310P3", ...); the npu backend
    takes it from the device.
    """

    def __init__(self, name: str = "auto", soc: Optional[str] = None) -> None:
        self._backend = _make(name, soc)
        self._token = _chosen.set(self._backend)

    def __enter__(self) -> Backend:
        return self._backend

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        _chosen.reset(self._token)


def _make(name: str, soc: Optional[str]) -> Backend:
    if name == "numpy":
        return _numpy(soc)
    if name in ("npu", "auto"):
        from ascend_aclnn.errors import LibraryNotFound

        try:
            return _npu()
        except LibraryNotFound:
            if name == "npu":
                raise
            return _numpy(soc)
    raise ValueError(f"backend is {name!r}; allowed: 'numpy', 'npu', 'auto'")


def _numpy(soc: Optional[str]) -> Backend:
    from ascend_aclnn.backends.numpy import numpy_backend

    return numpy_backend(soc or os.environ.get("ASCEND_ACLNN_SOC", DEFAULT_SOC))


def _npu() -> Backend:
    from ascend_aclnn.backends.npu import npu_backend

    return npu_backend()
