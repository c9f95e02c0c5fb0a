"""DLPack: sharing memory with other array packages without copying it.

Host memory that NumPy can describe goes through NumPy's own protocol; other memory (bfloat16 and similar types, device
memory) is exported and imported here with ctypes. An exported tensor lives until the consumer releases it, an imported one
keeps the producer's object alive.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
from types import FrameType
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.dtypes import DataType, as_datatype
from ascend_aclnn.core.interface import DeviceInterface
from ascend_aclnn.core.stored import StoredTensor
from ascend_aclnn.core.streams import Stream

CPU = 1
EXT_DEV = 12  # kDLExtDev, which torch_npu uses for the NPU

_READ_ONLY = 1  # flag of versioned capsules
_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_USED = {_PLAIN: b"used_dltensor", _VERSIONED: b"used_dltensor_versioned"}

# aclDataType -> DLPack's type code and bits
_CODES = {
    DataType.INT8: (0, 8),
    DataType.INT16: (0, 16),
    DataType.INT32: (0, 32),
    DataType.INT64: (0, 64),
    DataType.UINT8: (1, 8),
    DataType.UINT16: (1, 16),
    DataType.UINT32: (1, 32),
    DataType.UINT64: (1, 64),
    DataType.FLOAT16: (2, 16),
    DataType.FLOAT: (2, 32),
    DataType.DOUBLE: (2, 64),
    DataType.BF16: (4, 16),
    DataType.COMPLEX32: (5, 32),
    DataType.COMPLEX64: (5, 64),
    DataType.COMPLEX128: (5, 128),
    DataType.BOOL: (6, 8),
    DataType.FLOAT8_E4M3FN: (10, 8),
    DataType.FLOAT8_E5M2: (12, 8),
    DataType.FLOAT8_E8M0: (14, 8),
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_BEYOND_NUMPY = (4, 10, 12, 14)  # codes that NumPy's protocol refuses


class _DLDevice(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


def _api(name: str, returns: Any, *parameters: Any) -> Any:
    # Separate prototypes: the attributes of ctypes.pythonapi are shared by all packages.
    return ctypes.PYFUNCTYPE(returns, *parameters)((name, ctypes.pythonapi))


_new = _api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_valid = _api("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# Address of each exported struct -> the struct and what it points to, until the consumer calls the deleter.
_exported: dict[int, tuple[Any, ...]] = {}


def _let_go(address: int) -> None:
    _exported.pop(address, None)


# Capsules that may not have been used yet, by the address of their struct. They have no destructor: NumPy drops a capsule
# that it refuses while its exception is set, and no Python code can run then. The next export checks them.
_waiting: dict[int, Any] = {}


def release_unused() -> None:
    """Releases the tensors of capsules that were never used and no longer can be."""
    for address, capsule in list(_waiting.items()):
        if not _is_valid(capsule, _PLAIN):
            _waiting.pop(address, None)  # used: the consumer calls the deleter
        elif sys.getrefcount(capsule) == _REFERENCES:
            _waiting.pop(address, None)
            _exported.pop(address, None)


_REFERENCES = (
    4  # of a capsule that only _waiting holds: the dict, the list, the loop variable and getrefcount's argument
)


def _outlive_python() -> None:
    """At exit: clears the deleters and keeps the structs, for consumers that release after the interpreter has ended."""
    for entry in list(_exported.values()):
        entry[0].deleter = _Deleter()
        _increase_references(entry)


_increase_references = _api("Py_IncRef", None, ctypes.py_object)
atexit.register(_outlive_python)

_release = _Deleter(_let_go)  # never freed: C may call it as long as a consumer lives


# ------------------------------------------------------------------------------------------------------- export


def device(tensor: StoredTensor) -> tuple[int, int]:
    """``__dlpack_device__``: (CPU, 0) on the NumPy backend, (kDLExtDev, index) on the npu backend."""
    return (CPU, 0) if tensor.backend.wraps_host_memory else (EXT_DEV, tensor.device)


def export(
    tensor: StoredTensor,
    *,
    stream: Optional[int] = None,
    max_version: Optional[tuple[int, int]] = None,
    dl_device: Optional[tuple[int, int]] = None,
    copy: Optional[bool] = None,
) -> Any:
    """``__dlpack__``: a capsule over the tensor's memory.

    The consumer's ``stream`` (its raw handle) is made to wait for what wrote the tensor last. Without it the host waits,
    because a consumer that names no stream may use any; -1 asks for neither.
    """
    if tensor.format.private:
        raise BufferError(f"a tensor in format {tensor.format.name} has no strides that DLPack could describe")
    if tensor.dtype not in _CODES:
        raise BufferError(f"DLPack cannot describe {tensor.dtype.name}")
    if dl_device is not None and dl_device != device(tensor):
        if dl_device[0] != CPU or copy is False:
            raise BufferError(f"the tensor is on device {device(tensor)}, not on {dl_device}")
        return _export_array(tensor.numpy(), tensor.dtype)
    if tensor.backend.wraps_host_memory:
        return _export_array(tensor.numpy(), tensor.dtype) if copy else _export_host(tensor)
    if copy:
        raise BufferError("the npu backend exports no copies: clone the tensor first")
    if _torch_without_npu_asks():
        # torch drops what it refuses while its exception is set, and no Python code can run then.
        text = "the tensor is on an NPU, which torch knows by torch_npu only, and that is not imported"
        raise BufferError(f"{text}; copy it: torch.from_numpy(x.numpy())")
    if stream is None:
        tensor.storage.wait()
    elif stream != -1:
        tensor.storage.make_wait(Stream.from_handle(stream, tensor.device))
    return _capsule_of(tensor, (EXT_DEV, tensor.device))


def _torch_without_npu_asks() -> bool:
    """Whether it is torch.from_dlpack that wants a capsule, in a process without torch_npu."""
    if "torch" not in sys.modules or "torch_npu" in sys.modules:
        return False
    frame: Optional[FrameType] = sys._getframe(2)  # of the caller of export(): Tensor.__dlpack__
    caller = None if frame is None else frame.f_back
    return caller is not None and caller.f_globals.get("__name__") == "torch.utils.dlpack"


def _export_array(array: npt.NDArray[Any], dtype: DataType) -> Any:
    """A capsule over an ndarray of any dtype that DLPack has."""
    if _CODES[dtype][0] not in _BEYOND_NUMPY:
        return array.__dlpack__()
    strides = tuple(step // array.itemsize for step in array.strides)
    return _capsule(array, array.ctypes.data, array.shape, strides, dtype, (CPU, 0))


class _Exposed:
    """An ``__array_interface__`` object through which an ndarray keeps the tensor alive that owns its memory."""

    def __init__(self, tensor: StoredTensor, dtype: np.dtype[Any]) -> None:
        self.tensor = tensor
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr, False),
            "shape": tensor.shape,
            "strides": tuple(step * dtype.itemsize for step in tensor.strides),
            "typestr": dtype.str,
        }


def _export_host(tensor: StoredTensor) -> Any:
    if _CODES[tensor.dtype][0] in _BEYOND_NUMPY or tensor.dtype.numpy is None:
        return _capsule_of(tensor, (CPU, 0))
    return shared_array(tensor, tensor.dtype.numpy).__dlpack__()


def shared_array(tensor: StoredTensor, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An ndarray over a tensor's host memory, which keeps the tensor; ``dtype`` has the size of the tensor's own."""
    return np.asarray(_Exposed(tensor, dtype)) if tensor.size else np.empty(tensor.shape, dtype)


def _capsule_of(tensor: StoredTensor, device: tuple[int, int]) -> Any:
    address = tensor.data_ptr if tensor.size else 0
    return _capsule(tensor, address, tensor.shape, tensor.strides, tensor.dtype, device)


def _capsule(
    owner: object,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: DataType,
    device: tuple[int, int],
) -> Any:
    """A capsule that keeps the memory's owner until the consumer, or the capsule's end, releases it."""
    rank = len(shape)
    dims, steps = (ctypes.c_int64 * rank)(*shape), (ctypes.c_int64 * rank)(*strides)
    description = _DLTensor(address, _DLDevice(*device), rank, _DLDataType(*_CODES[dtype], 1), dims, steps, 0)
    managed = _DLManagedTensor(description, None, _release)
    key = ctypes.addressof(managed)
    _exported[key] = (managed, dims, steps, owner)
    release_unused()
    capsule = _waiting[key] = _new(key, _PLAIN, None)
    return capsule


# ------------------------------------------------------------------------------------------------------- import


class _Owner:
    """The producer's struct; its deleter is called once, when the last tensor over the memory is gone."""

    def __init__(self, managed: Any) -> None:
        self.managed = managed

    def __del__(self) -> None:
        managed, self.managed = self.managed, None
        if managed is not None and managed.deleter and not sys.is_finalizing():
            managed.deleter(ctypes.addressof(managed))


class ImportedMemory(NamedTuple):
    """Memory of another package, and what keeps it alive."""

    address: int
    shape: tuple[int, ...]
    strides: Optional[tuple[int, ...]]  # in elements; None: row-major
    dtype: DataType
    device: int
    owner: object


def import_memory(obj: Any, backend: DeviceInterface, stream: Optional[int] = None) -> ImportedMemory:
    """The memory of an object with ``__dlpack__``; BufferError where the backend cannot share it.

    ``stream`` is the raw handle of the stream that will use it, which the producer makes wait for its own work.
    """
    wanted = CPU if backend.wraps_host_memory else EXT_DEV
    if isinstance(obj, np.ndarray) and wanted == CPU:
        return _memory_of_array(obj)
    kind, index = obj.__dlpack_device__()
    if kind != wanted:
        text = f"the {backend.name} backend shares memory of DLPack device type {wanted}; this is on ({kind}, {index})"
        raise BufferError(text + "; asarray() copies")
    managed, tensor = _take(obj, None if wanted == CPU else stream)
    owner = _Owner(managed)
    key = (tensor.dtype.code, tensor.dtype.bits)
    if tensor.dtype.lanes != 1 or key not in _DTYPES:
        raise BufferError(
            f"CANN has no data type for DLPack code {key[0]} with {key[1]} bits, {tensor.dtype.lanes} lanes"
        )
    if getattr(managed, "flags", 0) & _READ_ONLY:
        raise BufferError("the memory is read-only, and operators may write to a tensor; asarray() copies")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    if strides is not None and any(step < 0 for step in strides):
        raise BufferError("CANN has no negative strides; asarray() copies")
    address = (tensor.data or 0) + tensor.byte_offset
    return ImportedMemory(address, shape, strides, _DTYPES[key], index, owner)


def _memory_of_array(array: npt.NDArray[Any]) -> ImportedMemory:
    """An ndarray's memory, of any dtype that CANN has."""
    if not array.flags.writeable:
        raise BufferError("the array is read-only, and operators may write to a tensor; asarray() copies")
    if any(step < 0 or step % array.itemsize for step in array.strides) or not array.dtype.isnative:
        raise BufferError("CANN has no negative or fractional strides and no foreign byte order; asarray() copies")
    strides = tuple(step // array.itemsize for step in array.strides)
    return ImportedMemory(array.ctypes.data, array.shape, strides, as_datatype(array.dtype), 0, array)


def _take(obj: Any, stream: Optional[int]) -> tuple[Any, Any]:
    """The producer's struct and the description in it; the capsule is marked as used."""
    asked = {} if stream is None else {"stream": stream}
    try:
        capsule = obj.__dlpack__(max_version=(1, 0), **asked)
    except TypeError:  # an unversioned producer
        capsule = obj.__dlpack__(**asked)
    for name, kind in ((_VERSIONED, _DLManagedTensorVersioned), (_PLAIN, _DLManagedTensor)):
        if _is_valid(capsule, name):
            managed = kind.from_address(_pointer(capsule, name))
            _rename(capsule, _USED[name])
            return managed, managed.tensor
    raise BufferError(f"{type(obj).__name__}.__dlpack__() did not return a DLPack capsule that has not been used yet")
