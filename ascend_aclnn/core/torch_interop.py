"""Interoperation with torch: its tensors as memory, its dtypes, and the stream that torch_npu works on.

torch is imported only where the caller asks for a torch object. torch_npu keeps a queue on the host, whose work may not
be on the device's stream yet. Reading the raw handle of its current stream drains that queue, so the handle is read at
each use and never kept.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core import dlpack
from ascend_aclnn.core.current import current_backend
from ascend_aclnn.core.dtypes import DataType, Format, as_datatype
from ascend_aclnn.core.layouts import nz_shape
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.stored import StoredTensor
from ascend_aclnn.core.streams import Stream

# Bits of these torch dtypes as an integer type that both torch and NumPy have.
_CARRIERS = {1: "uint8", 2: "int16"}
_NAMES = {
    DataType.FLOAT: "float32",
    DataType.DOUBLE: "float64",
    DataType.BF16: "bfloat16",
    DataType.COMPLEX32: "complex32",
    DataType.FLOAT8_E8M0: "float8_e8m0fnu",
}


def is_torch_tensor(value: object) -> bool:
    """True for a torch.Tensor; False at once where the process has not imported torch."""
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return kind is not None and isinstance(value, kind)


def why_not_differentiated(tensor: Any, name: str, known: bool) -> str:
    """What is wrong with a torch tensor whose gradient would be lost; "" where none is recorded.

    ``known``: the catalog has the gradient of the operator of this name.
    """
    if not (tensor.requires_grad and sys.modules["torch"].is_grad_enabled()):
        return ""
    text = "a torch tensor requires grad, which ops does not record; "
    if known:
        return (
            text + f'aclnn.torch_function("{name}") records it; or call this under torch.no_grad(), or pass x.detach()'
        )
    return (
        text + "call it under torch.no_grad(), pass x.detach(), or write a torch.autograd.Function whose backward "
        "calls the operator of the gradient"
    )


@functools.cache
def torch_dtype(dtype: DataType) -> Any:
    """torch's dtype of a DataType; TypeError where torch has none."""
    torch = importlib.import_module("torch")
    torch_type = getattr(torch, _NAMES.get(dtype, dtype.name.lower()), None)
    if not isinstance(torch_type, torch.dtype) or dtype.packed:
        raise TypeError(f"torch {torch.__version__} has no dtype for {dtype.name}")
    return torch_type


# ------------------------------------------------------------------------------------------------------- host memory


def host_array(tensor: Any) -> npt.NDArray[Any]:
    """An ndarray over the memory of a torch tensor on the host (a copy from elsewhere), of any dtype that CANN has."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    dtype = as_datatype(tensor.dtype)
    if dtype.numpy is None:
        raise TypeError(f"{tensor.dtype} has no NumPy counterpart")
    try:
        array: npt.NDArray[Any] = tensor.numpy()
    except TypeError:  # bfloat16 and other types that NumPy lacks
        array = tensor.view(getattr(sys.modules["torch"], _CARRIERS[dtype.numpy.itemsize])).numpy()
    return array if array.dtype == dtype.numpy else array.view(dtype.numpy)


def from_array(array: npt.NDArray[Any]) -> Any:
    """A torch tensor over the memory of an ndarray of any dtype that both have."""
    kind = as_datatype(array.dtype)
    dtype = torch_dtype(kind)
    torch = sys.modules["torch"]
    if not _needs_carrier(kind):
        return torch.from_numpy(array)
    carrier = np.dtype(_CARRIERS[array.dtype.itemsize])
    return torch.from_numpy(array.view(carrier)).view(dtype)


def _needs_carrier(dtype: DataType) -> bool:
    """True for dtypes that are not NumPy's own: torch takes no such ndarray, so its bits are passed as integers."""
    return dtype.numpy is None or dtype.numpy.isbuiltin != 1


# ------------------------------------------------------------------------------------------------------- tensors


class TorchMemory(NamedTuple):
    """The storage of a torch tensor, and the tensor's place in it."""

    address: int
    nbytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: DataType
    format: Optional[Format]  # None: ND
    storage_shape: Optional[tuple[int, ...]]
    device: int


@functools.cache
def format_question() -> Callable[[Any], int]:
    """torch_npu's operator for the format of an NPU tensor; its Python function would convert the number to an enum."""
    question: Callable[[Any], int] = sys.modules["torch"].ops.npu.get_npu_format.default
    # without the Python function around it, which takes half of the time
    return getattr(question, "_op", question)


def describe(tensor: Any) -> TorchMemory:
    """Where a torch tensor's elements are. BufferError for tensors without plain memory (sparse, lazily conjugated)."""
    if tensor.layout is not sys.modules["torch"].strided:
        raise BufferError(f"the torch tensor has layout {tensor.layout}; it must be strided")
    if tensor.is_conj() or tensor.is_neg():
        raise BufferError("the torch tensor is a lazy conjugate; make it real memory with resolve_conj().resolve_neg()")
    storage = tensor.untyped_storage()
    dtype = as_datatype(tensor.dtype)
    shape = tensor.shape
    device = tensor.device
    on_npu = device.type == "npu"
    format, storage_shape = _private_format(format_question()(tensor), shape, dtype) if on_npu else (None, None)
    return TorchMemory(
        storage.data_ptr(),
        storage.nbytes(),
        shape,
        tensor.stride(),
        tensor.storage_offset(),
        dtype,
        format,
        storage_shape,
        device.index or 0,
    )


def spec_of(tensor: Any) -> TensorSpec:
    """A torch tensor's description, for tensors without memory too; symbolic sizes become numbers."""
    numbers = [tuple(map(int, sizes)) for sizes in (tensor.shape, tensor.stride())]
    return TensorSpec(numbers[0], as_datatype(tensor.dtype), numbers[1], int(tensor.storage_offset()))


def _private_format(
    number: int, shape: tuple[int, ...], dtype: DataType
) -> tuple[Optional[Format], Optional[tuple[int, ...]]]:
    """The blocked format of torch_npu's number, and a tensor's storage shape in it; (None, None) for plain memory."""
    format = Format(number)
    if not format.private:
        return None, None
    if format is not Format.FRACTAL_NZ:
        raise BufferError(f"torch_npu keeps the tensor in {format.name}; convert it with torch_npu.npu_format_cast")
    return format, nz_shape(shape, dtype)


def to_torch(tensor: StoredTensor) -> Any:
    """A torch tensor over a Tensor's memory: on the host from the NumPy backend, on "npu" from the device.

    torch's current stream is made to wait for what wrote the tensor last.
    """
    dtype = torch_dtype(tensor.dtype)
    if tensor.format.private:
        raise BufferError(f"a tensor in format {tensor.format.name} has no strides that torch could use")
    if tensor.backend.wraps_host_memory:
        torch = importlib.import_module("torch")
        numpy_dtype = tensor.dtype.numpy
        carrier = (
            np.dtype(_CARRIERS[tensor.dtype.bits // 8])
            if numpy_dtype is None or numpy_dtype.isbuiltin != 1
            else numpy_dtype
        )
        return torch.from_numpy(dlpack.shared_array(tensor, carrier)).view(dtype)
    owner: Any = tensor.storage.owner
    if is_torch_tensor(owner):
        return owner.as_strided(tensor.shape, tensor.strides, tensor.offset)
    if "torch_npu" not in sys.modules:
        raise RuntimeError("torch_npu is not imported; it makes torch's tensors on an NPU. numpy() copies to the host")
    module = importlib.import_module("torch_npu.utils.dlpack")
    tensor.storage.make_wait(TorchStream(tensor.device))
    return module._from_dlpack(dlpack.export(tensor, stream=-1))


def torch_device(device: Any) -> contextlib.AbstractContextManager[None]:
    """Makes a device torch's current one for a block."""
    context: contextlib.AbstractContextManager[None] = sys.modules["torch"].npu.device(device)
    return context


def empty_like_spec(spec: TensorSpec, device: Any) -> Any:
    """An uninitialised torch tensor of a contiguous spec on a torch.device."""
    return sys.modules["torch"].empty(spec.shape, dtype=torch_dtype(spec.dtype), device=device)


# ------------------------------------------------------------------------------------------------------- the stream


def drain_queue(device: int) -> None:
    """Makes torch_npu launch its queued work, if it is in use in this process; RuntimeError if its queue has failed."""
    torch_npu = sys.modules.get("torch_npu")
    if torch_npu is not None and torch_npu.npu.is_initialized():
        torch_npu._C._npu_getCurrentRawStream(device)


def empty_torch_cache() -> bool:
    """Makes torch_npu return its cached memory to the devices; False if it is not in use in this process."""
    torch_npu = sys.modules.get("torch_npu")
    if torch_npu is None or not torch_npu.npu.is_initialized():
        return False
    torch_npu.npu.empty_cache()
    return True


class TorchStream(Stream):
    """The stream that torch_npu works on: read at each use, after draining torch's queue."""

    def __init__(self, device: Optional[int] = None) -> None:
        backend = current_backend()
        index = backend.current_device() if device is None else device
        self._adopt(backend, index, 0, None)
        torch_npu = importlib.import_module("torch_npu")
        importlib.import_module("torch").npu.current_stream(index)  # torch_npu makes its streams at the first query
        self._raw_handle = torch_npu._C._npu_getCurrentRawStream

    @property
    def handle(self) -> int:
        handle: int = self._raw_handle(self.device) or 0
        if not handle:
            raise RuntimeError("torch_npu's queue has failed; torch.npu.synchronize() raises what happened")
        return handle

    def __repr__(self) -> str:
        return f"TorchStream(device {self.device})"


def torch_stream(device: Optional[int] = None) -> Stream:
    """The stream that torch_npu works on at each moment, for ``stream=`` and ``with``.

    A launch on it runs after all work that torch has queued before, and before all that it queues afterwards. On the NumPy
    backend, which computes at once as torch on the host does, it is the default stream.
    """
    if current_backend().name != "npu":
        return Stream.from_handle(0, device)
    return TorchStream(device)


__all__ = ["TorchStream", "torch_stream"]
