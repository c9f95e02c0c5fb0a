"""The NumPy backend: checks as CANN's phase one does, then answers with a reference, rounding once at the end.

Memory is host memory and streams run at once, so everything is done when a call returns; the rules are those of the
chip that the backend was made for.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import numerics, reference, rules
from ascend_aclnn.backends import Backend, MemoryInfo, Prepared, Storage
from ascend_aclnn.catalog import Operator
from ascend_aclnn.dtypes import Format
from ascend_aclnn.errors import PARAM_INVALID, AclError, Problem, UnsupportedOperator
from ascend_aclnn.layouts import nz_shape
from ascend_aclnn.scalar import Scalar
from ascend_aclnn.socs import soc as find_soc
from ascend_aclnn.streams import Stream
from ascend_aclnn.tensor import Tensor, contiguous_strides, empty

OUT_OF_MEMORY = 207001


class HostStorage(Storage):
    """Host memory, reserved at the first touch, or memory that was given."""

    array: Optional[npt.NDArray[Any]]  # the ndarray that the storage stands for as a whole, strides and all

    def __init__(self, backend: NumpyBackend, nbytes: int, buffer: Optional[npt.NDArray[np.uint8]] = None) -> None:
        self.backend = backend
        self.device = 0
        self.nbytes = nbytes
        self.array = None
        self._buffer = buffer
        self._owner: object = None

    @classmethod
    def over(cls, backend: NumpyBackend, buffer: npt.NDArray[np.uint8], owner: object = None) -> HostStorage:
        """A storage over existing bytes; ``owner`` is kept alive with it."""
        storage = cls(backend, buffer.nbytes, buffer)
        storage._owner = owner
        return storage

    @property
    def buffer(self) -> npt.NDArray[np.uint8]:
        if self._buffer is None:
            assert isinstance(self.backend, NumpyBackend)
            self._buffer = self.backend.reserve(self)
        return self._buffer

    @property
    def address(self) -> int:
        return self.buffer.ctypes.data if self.array is None else self.array.ctypes.data

    def read(self, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
        return self.buffer[offset : offset + nbytes]

    def write(self, offset: int, data: npt.NDArray[np.uint8]) -> None:
        self.buffer[offset : offset + data.nbytes] = data

    def record_stream(self, stream: Stream) -> None:
        return None  # streams run at once: nothing can still use the memory


def wrap(backend: NumpyBackend, array: npt.NDArray[Any], dtype: Any) -> Tensor:
    """A tensor over an ndarray's own memory. It is for one call: views of it are not made."""
    storage = HostStorage(backend, array.nbytes)
    storage.array = array
    size = array.itemsize
    return Tensor(storage, array.shape, dtype, tuple(s // size for s in array.strides))


class NumpyBackend(Backend):
    """See ascend_aclnn.backends.Backend."""

    name = "numpy"
    emulated = False

    def __init__(self, soc: str) -> None:
        self.chip = find_soc(soc)
        self.soc = self.chip.name
        self._limit: Optional[int] = None
        self._used = 0
        self._lock = threading.RLock()
        self._handles = itertools.count(1)
        self._recorded: dict[int, float] = {}

    # operators
    def check(self, operator: Operator, values: Sequence[Any]) -> Optional[Problem]:
        """What CANN's phase one would refuse on this chip; None if nothing."""
        return rules.check(operator, values, self.chip)

    def has_reference(self, operator: Operator) -> bool:
        return reference.find(operator) is not None

    def execute(self, operator: Operator, values: Sequence[Any]) -> None:
        """Runs the reference on values that ``check`` has passed; the results are in the output tensors."""
        found = reference.find(operator)
        if found is None:
            raise UnsupportedOperator(operator.name, "the NumPy backend has no reference for this operator")
        held = [_held(operator, p.name, v, p.direction) for p, v in zip(operator.parameters, values)]
        if found.channels_first is True or self.chip.product in (found.channels_first or "").split():
            _turn_channels_first(held)
        directions = [p.direction for p in operator.parameters]
        inputs = [h for h, direction in zip(held, directions) if direction != "out"]
        outputs = [h for h, direction in zip(held, directions) if direction != "in"]
        try:
            with np.errstate(all="ignore"):
                if found.raw:
                    written = [_arrays(h) for h, direction in zip(held, directions) if direction == "out"]
                    arguments = (_apart(_arrays(h), written) for h in inputs)
                    found.function(*arguments, out=tuple(map(_arrays, outputs)))
                else:
                    results = found.function(*(_widened(_arrays(h)) for h in inputs))
                    _store(operator, results, outputs)
        except numerics.DataError as error:
            position = operator.positions.get(error.argument)
            argument = None if position is None else operator.parameters[position].python_name
            detail = f"{argument or error.argument} {error.detail}"
            raise AclError(PARAM_INVALID, operator.name, detail, operator=operator.name, argument=argument) from None
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            # Some arguments that do not go together pass phase one, as they pass CANN's.
            detail = f"the arguments do not go together, which hardware leaves undefined: {error} ({_shapes(operator, values)})"
            raise AclError(PARAM_INVALID, operator.name, detail, operator=operator.name) from error
        for output in outputs:
            for item in output if isinstance(output, list) else (output,):
                if isinstance(item, _Held):
                    item.commit()

    def prepare(self, operator: Operator, values: Sequence[Any], repeatable: bool) -> Prepared:
        problem = self.check(operator, values)
        if problem is not None:
            raise refusal(operator, problem)
        return _NumpyPrepared(self, operator, values, repeatable)

    def run(self, operator: Operator, values: Sequence[Any], stream: Optional[Stream]) -> None:
        problem = self.check(operator, values)
        if problem is not None:
            raise refusal(operator, problem)
        self.execute(operator, values)

    def view_shape(self, tensor: Tensor) -> tuple[int, ...]:
        return tensor.shape

    def convert_format(self, tensor: Tensor, format: Format) -> Tensor:
        made = empty(tensor.shape, tensor.dtype, format=format)
        if format is Format.FRACTAL_NZ:
            physical = nz_shape(tensor.shape, tensor.dtype)
            made = empty(tensor.shape, tensor.dtype, format=format, storage_shape=physical)
        made.assign(tensor.numpy())
        return made

    # memory
    def allocate(self, nbytes: int, device: int) -> HostStorage:
        return HostStorage(self, nbytes)

    def borrow(self, address: int, nbytes: int, device: int, owner: object) -> HostStorage:
        import ctypes

        raw = (ctypes.c_uint8 * nbytes).from_address(address)
        return HostStorage.over(self, np.frombuffer(raw, np.uint8), owner)  # type: ignore[call-overload]

    def reserve(self, storage: HostStorage) -> npt.NDArray[np.uint8]:
        """Memory for a storage, counted until the storage dies."""
        with self._lock:
            if self._limit is not None and self._used + storage.nbytes > self._limit:
                detail = f"{storage.nbytes} bytes asked for, {self._used} in use, limit {self._limit}"
                raise AclError(OUT_OF_MEMORY, "aclrtMalloc", detail)
            self._used += storage.nbytes
        weakref.finalize(storage, self._released, storage.nbytes)
        return host_memory((storage.nbytes,), np.dtype(np.uint8))

    def _released(self, nbytes: int) -> None:
        with self._lock:
            self._used -= nbytes

    def memory_info(self, device: int) -> MemoryInfo:
        page = os.sysconf("SC_PAGE_SIZE")
        total, free = os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page
        if self._limit is not None:
            free = min(free, max(0, self._limit - self._used))
        return MemoryInfo(free, total, self._used, 0)

    def empty_cache(self) -> None:
        return None

    def set_memory_limit(self, nbytes: Optional[int]) -> None:
        self._limit = nbytes

    def set_deterministic(self, enabled: bool) -> None:
        return None  # the references sum in a fixed order

    # devices, streams, events: one device, streams that run at once
    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def set_device(self, device: int) -> None:
        if device != 0:
            raise ValueError(f"device {device}: the NumPy backend has one device, 0")

    def synchronize(self, device: int, timeout: Optional[float]) -> None:
        return None

    def create_stream(self, device: int) -> int:
        self.set_device(device)
        return next(self._handles)

    def destroy_stream(self, device: int, stream: int) -> None:
        return None

    def stream_synchronize(self, stream: Stream, timeout: Optional[float]) -> None:
        return None

    def stream_done(self, stream: Stream) -> bool:
        return True

    def stream_wait_event(self, stream: Stream, event: int) -> None:
        return None

    def create_event(self, device: int) -> int:
        self.set_device(device)
        return next(self._handles)

    def destroy_event(self, device: int, event: int) -> None:
        self._recorded.pop(event, None)

    def event_record(self, event: int, stream: Stream) -> None:
        self._recorded[event] = time.perf_counter()

    def event_synchronize(self, event: int, timeout: Optional[float]) -> None:
        return None

    def event_done(self, event: int) -> bool:
        return True

    def event_elapsed(self, start: int, end: int) -> float:
        missing = [e for e in (start, end) if e not in self._recorded]
        if missing:
            raise ValueError("elapsed_ms needs two recorded events")
        return (self._recorded[end] - self._recorded[start]) * 1e3


class _NumpyPrepared(Prepared):
    def __init__(self, backend: NumpyBackend, operator: Operator, values: Sequence[Any], repeatable: bool) -> None:
        self.workspace_size = 0
        self.repeatable = repeatable
        self._backend, self._operator, self._values = backend, operator, values

    def run(self, stream: Optional[Stream]) -> None:
        self._backend.execute(self._operator, self._values)

    def close(self) -> None:
        return None


def host_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An uninitialised array; AclError where the host has not so much memory, as on a full device."""
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError):  # more than there is, more than NumPy can count
        detail = (
            f"{math.prod(shape) * dtype.itemsize} bytes asked for (shape {shape}, {dtype}): more than this host has"
        )
        raise AclError(OUT_OF_MEMORY, "aclrtMalloc", detail) from None


def refusal(operator: Operator, problem: Problem) -> AclError:
    """The error of a failed phase one."""
    position = operator.positions.get(problem.argument or "")
    argument = None if position is None else operator.parameters[position].python_name
    return AclError(problem.status, operator.phase_one, problem.detail, operator=operator.name, argument=argument)


@functools.cache
def numpy_backend(soc: str) -> NumpyBackend:
    """The NumPy backend with the rules of a chip."""
    return NumpyBackend(soc)


def host_view(tensor: Tensor) -> npt.NDArray[Any]:
    """The elements of a NumPy-backend tensor as an ndarray over its own memory."""
    storage = tensor.storage
    assert isinstance(storage, HostStorage)
    if storage.array is not None:
        return storage.array
    dtype = tensor.dtype.numpy
    if dtype is None:
        raise TypeError(f"{tensor.dtype.name} has no host type")
    if tensor.size == 0:
        return np.empty(tensor.shape, dtype)
    size = dtype.itemsize
    strides = [s * size for s in tensor.strides]
    view: npt.NDArray[Any] = np.ndarray(tensor.shape, dtype, storage.buffer.data, tensor.offset * size, strides)
    return view


class _Held:
    """A tensor's elements as an ndarray: over its own memory, or decoded (packed and blocked storage) and put back."""

    __slots__ = ("array", "decoded", "tensor")

    def __init__(self, tensor: Tensor, direction: str) -> None:
        self.tensor = tensor
        self.decoded = _encoded(tensor)
        if not self.decoded:
            self.array = host_view(tensor)
        elif direction == "out":
            self.array = np.empty(tensor.shape, tensor.dtype.numpy)
        else:
            self.array = tensor.numpy()

    def commit(self) -> None:
        if self.decoded:
            self.tensor.assign(self.array)


def _encoded(tensor: Tensor) -> bool:
    storage = tensor.storage
    assert isinstance(storage, HostStorage)
    return storage.array is None and (tensor.dtype.packed or tensor.format.private)


def _held(operator: Operator, name: str, value: Any, direction: str) -> Any:
    """One value as a reference takes it, tensors still with what is needed to write them."""
    if isinstance(value, Tensor):
        try:
            return _Held(value, direction)
        except (TypeError, ValueError) as error:
            raise UnsupportedOperator(operator.name, f"{name}: the NumPy backend cannot use it: {error}") from None
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, list):
        return [_held(operator, name, item, direction) for item in value]
    return value


def _turn_channels_first(held: Sequence[Any]) -> None:
    """Views with the channels in axis 1 of tensors that have them last."""
    for item in held:
        if isinstance(item, _Held) and item.tensor.format in (Format.NHWC, Format.NDHWC):
            item.array = np.moveaxis(item.array, -1, 1)


def _arrays(held: Any) -> Any:
    if isinstance(held, list):
        return [_arrays(item) for item in held]
    return held.array if isinstance(held, _Held) else held


def _apart(value: Any, written: Sequence[Any]) -> Any:
    """An input that no destination overlaps: the input itself, or a copy."""
    if isinstance(value, list):
        return [_apart(item, written) for item in value]
    if isinstance(value, np.ndarray):
        for target in written:
            for array in target if isinstance(target, list) else (target,):
                if array is not None and np.may_share_memory(value, array):
                    return value.copy()
    return value


def _widened(value: Any) -> Any:
    if isinstance(value, list):
        return [_widened(item) for item in value]
    return numerics.widen(value) if isinstance(value, np.ndarray) else value


def _store(operator: Operator, results: Any, outputs: Sequence[Any]) -> None:
    """Rounds what a reference returned into the outputs."""
    several = results if isinstance(results, tuple) else (results,)
    if len(several) != len(outputs):
        raise RuntimeError(f"{operator.name}: the reference gave {len(several)} results for {len(outputs)} outputs")
    for value, target, parameter in zip(several, outputs, operator.outputs):
        if target is None:
            continue
        targets: list[_Held] = target if isinstance(target, list) else [target]
        if value is None:  # CANN does not write it either; rubbish would be another one each time
            for destination in targets if parameter.direction == "out" else ():
                destination.array[...] = 0
            continue
        sources = list(value) if isinstance(target, list) else [value]
        if len(sources) != len(targets):
            raise ValueError(f"{parameter.python_name} has {len(targets)} tensors for {len(sources)} results")
        for source, destination in zip(sources, targets):
            source = np.asarray(source)
            if source.shape != destination.array.shape:
                _shrink(operator, destination, source.shape)
            numerics.round_into(destination.array, source)


def _shrink(operator: Operator, output: _Held, shape: tuple[int, ...]) -> None:
    """An output whose shape depends on data takes the front of what was allocated, as aclGetViewShape then tells."""
    tensor, whole = output.tensor, output.array
    fits = math.prod(shape) <= whole.size and whole.flags.c_contiguous and not output.decoded
    if operator.name not in rules.DATA_DEPENDENT or not fits:
        raise ValueError(f"an output of shape {whole.shape} gets a result of shape {shape}")
    output.array = whole.reshape(-1)[: math.prod(shape)].reshape(shape)
    tensor.shape, tensor.strides = shape, contiguous_strides(shape)
    assert isinstance(tensor.storage, HostStorage)
    if tensor.storage.array is not None:
        tensor.storage.array = output.array


def _shapes(operator: Operator, values: Sequence[Any]) -> str:
    """What tensors came, for a message: "x (2, 3), gamma (3,)"."""
    words = []
    for parameter, value in zip(operator.parameters, values):
        tensors = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, Tensor)]
        if tensors:
            words.append(f"{parameter.python_name} {', '.join(str(tensor.shape) for tensor in tensors)}")
    return "; ".join(words)


__all__ = ["HostStorage", "NumpyBackend", "host_memory", "host_view", "numpy_backend", "refusal", "wrap"]
