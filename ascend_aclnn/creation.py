"""Making tensors: empty, zeros, and from host values or another package's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.backends.interface import current_backend
from ascend_aclnn.core import dlpack, torch_interop
from ascend_aclnn.core.dtypes import DataType, DTypeLike, as_datatype
from ascend_aclnn.core.spec import FormatLike, TensorSpec
from ascend_aclnn.core.streams import current_stream
from ascend_aclnn.core.tensor import Tensor, share_torch


def empty(
    shape: Union[int, Sequence[int]],
    dtype: DTypeLike,
    *,
    format: FormatLike = "auto",
    strides: Optional[Sequence[int]] = None,
    offset: int = 0,
    storage_shape: Optional[Sequence[int]] = None,
) -> Tensor:
    """An uninitialised tensor on the current device. Memory is reserved when data is first touched.

    Every DataType and Format and any dims are accepted: checking them is the operator's work.
    """
    spec = TensorSpec.of(shape, dtype, strides=strides, offset=offset, format=format, storage_shape=storage_shape)
    backend = current_backend()
    return Tensor.on(backend.allocate(spec.storage_nbytes, backend.current_device()), spec)


def zeros(
    shape: Union[int, Sequence[int]], dtype: DTypeLike = DataType.FLOAT, *, format: FormatLike = "auto"
) -> Tensor:
    """A tensor filled with zeros."""
    return full(shape, 0, dtype, format=format)


def ones(shape: Union[int, Sequence[int]], dtype: DTypeLike = DataType.FLOAT, *, format: FormatLike = "auto") -> Tensor:
    """A tensor filled with ones."""
    return full(shape, 1, dtype, format=format)


def full(
    shape: Union[int, Sequence[int]], fill_value: Any, dtype: Optional[DTypeLike] = None, *, format: FormatLike = "auto"
) -> Tensor:
    """A tensor filled with one value; without ``dtype`` BOOL, INT64, FLOAT or COMPLEX64, as the value is."""
    tensor = _sized(shape, _dtype_of(np.asarray(fill_value).dtype) if dtype is None else dtype, format)
    tensor.assign(fill_value)
    return tensor


def _dtype_of(dtype: np.dtype[Any]) -> DTypeLike:
    """What values of a NumPy dtype become where no data type is named: the precision that an NPU has."""
    return {"i": np.int64, "f": np.float32, "c": np.complex64}.get(dtype.kind, dtype)


def _sized(shape: Union[int, Sequence[int]], dtype: DTypeLike, format: FormatLike) -> Tensor:
    """An empty tensor whose sizes are not negative: values are going to be written."""
    tensor = empty(shape, dtype, format=format)
    if any(n < 0 for n in tensor.shape):
        raise ValueError(f"shape is {tensor.shape}; its sizes must not be negative")
    return tensor


def arange(start: float, stop: Optional[float] = None, step: float = 1, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Evenly spaced values in [start, stop), or [0, start) without ``stop``; INT64 or FLOAT unless ``dtype`` says else."""
    values = np.arange(start, stop, step) if stop is not None else np.arange(0, start, step)
    return asarray(values, dtype or _dtype_of(values.dtype))


def linspace(
    start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: Optional[DTypeLike] = None
) -> Tensor:
    """``num`` evenly spaced values from ``start`` to ``stop``, which is left out without ``endpoint``; FLOAT by default."""
    values = np.linspace(start, stop, num, endpoint=endpoint)
    return asarray(values, dtype or _dtype_of(values.dtype))


def empty_like(x: Tensor, dtype: Optional[DTypeLike] = None) -> Tensor:
    """An uninitialised contiguous tensor with another's shape, dtype and format."""
    return empty(x.shape, x.dtype if dtype is None else dtype, format="auto" if x.has_auto_format else x.format)


def zeros_like(x: Tensor, dtype: Optional[DTypeLike] = None) -> Tensor:
    """A tensor of zeros with another's shape, dtype and format."""
    tensor = empty_like(x, dtype)
    tensor.assign(0)
    return tensor


def ones_like(x: Tensor, dtype: Optional[DTypeLike] = None) -> Tensor:
    """A tensor of ones with another's shape, dtype and format."""
    return full_like(x, 1, dtype)


def full_like(x: Tensor, fill_value: Any, dtype: Optional[DTypeLike] = None) -> Tensor:
    """A tensor filled with one value, with another's shape, dtype and format."""
    tensor = empty_like(x, dtype)
    tensor.assign(fill_value)
    return tensor


def asarray(x: npt.ArrayLike, dtype: Optional[DTypeLike] = None, format: FormatLike = "auto") -> Tensor:
    """A tensor on the current device with the values of an array-like. A Tensor is returned unchanged.

    Values are rounded to ``dtype``, also to those that NumPy lacks: ``asarray(x, "HIFLOAT8")``.
    """
    if isinstance(x, Tensor):
        if dtype is not None and as_datatype(dtype) is not x.dtype:
            raise TypeError(f"the tensor is {x.dtype.name}, not {as_datatype(dtype).name}; convert it with ops.cast")
        return x
    if torch_interop.is_torch_tensor(x):
        x = torch_interop.host_array(x)
    try:
        array = np.asarray(x)
    except ValueError as error:  # NumPy's text names neither the argument nor what is allowed
        raise ValueError(f"x is a ragged sequence; its parts must have equal lengths ({error})") from None
    if array.dtype == object:
        raise TypeError(f"x is a {type(x).__name__} that NumPy makes no array of numbers from")
    tensor = empty(array.shape, array.dtype if dtype is None else dtype, format=format)
    tensor.assign(array)
    return tensor


def from_dlpack(x: Any) -> Tensor:
    """A tensor that shares the memory of an object with ``__dlpack__`` (host memory: NumPy backend; Ascend: npu).

    The current stream is made to wait for what the producer has queued, as far as its ``__dlpack__(stream=)`` does.
    """
    if torch_interop.is_torch_tensor(x):
        return from_torch(x)
    backend = current_backend()
    handle = None if backend.wraps_host_memory else current_stream().handle
    memory = dlpack.import_memory(x, backend, handle)
    return Tensor.from_pointer(
        memory.address, memory.shape, memory.dtype, strides=memory.strides, device=memory.device, owner=memory.owner
    )


def from_torch(x: Any) -> Tensor:
    """A tensor that shares the memory of a torch tensor: on the host for the NumPy backend, on the NPU for the npu backend.

    The current stream is made to wait for what torch has queued on its own current stream; what torch writes later is not
    waited for, unless the tensor is used on ``torch_stream()``. Reading on the host waits for both. BufferError where the
    backend cannot share the memory: for a host tensor on the npu backend, ``asarray`` copies.
    """
    if not torch_interop.is_torch_tensor(x):
        raise TypeError(f"x is a {type(x).__name__}; it must be a torch.Tensor")
    backend = current_backend()
    where = "cpu" if backend.wraps_host_memory else "npu"
    if x.device.type != where:
        hint = "asarray() copies" if where == "npu" else 'use_backend("npu") works on it in place'
        raise BufferError(
            f"the torch tensor is on {x.device}; the {backend.name} backend shares {where} memory; {hint}"
        )
    if backend.wraps_host_memory:
        return share_torch(x, None, x)
    torch_stream = torch_interop.TorchStream(x.device.index)
    tensor = share_torch(x, torch_stream, x)
    stream = current_stream()
    if stream.device == torch_stream.device:
        stream.wait_stream(torch_stream)
    return tensor
