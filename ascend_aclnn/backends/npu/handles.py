"""aclTensor, aclScalar, arrays and lists: made from Python values, owned by exactly one place, destroyed once.

A plain ND tensor's aclTensor is kept with the Tensor and shared by the calls of operators whose source is known to leave
its description alone (``Operator.keeps_arguments``). All others get fresh ones. A list owns its members, so they are made
afresh too.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

from ascend_aclnn.backends.npu.library import Libraries
from ascend_aclnn.backends.npu.memory import NpuStorage
from ascend_aclnn.backends.npu.runtime import Runtime
from ascend_aclnn.catalog import Kind
from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.spec import contiguous_strides
from ascend_aclnn.core.tensor import Tensor

Undo = tuple[Callable[[int], int], int]  # what destroys a handle, and the handle


class _Numbers(NamedTuple):
    """Numbers as int64_t[]: where, how many (0 where they are none), and the array that lives there."""

    address: int
    length: int
    array: Any


@functools.lru_cache(maxsize=8192)
def _int64s(values: tuple[int, ...]) -> _Numbers:
    array = (ctypes.c_int64 * len(values))(*values)
    return _Numbers(ctypes.addressof(array) if values else 0, len(values), array)


@functools.lru_cache(maxsize=8192)
def _layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[_Numbers, _Numbers, bool]:
    """Dimensions and strides for C, and whether the strides are row-major."""
    return _int64s(shape), _int64s(strides), strides == contiguous_strides(shape)


class TensorDescription(NamedTuple):
    """An aclTensor but for its address: what aclCreateTensor and aclInitTensor take, and what lives at the addresses there."""

    arguments: tuple[int, ...]
    numbers: tuple[_Numbers, ...]


class TensorHandle:
    """An aclTensor that lives as long as its Tensor (or until another one is needed)."""

    __slots__ = ("format", "handles", "pointer")

    def __init__(self, handles: Handles, pointer: int, format: Optional[Format]) -> None:
        self.handles = handles
        self.pointer = pointer
        self.format = format  # the tensor's own when this was made; "auto" may be settled later

    def __del__(self) -> None:
        self.handles.destroy_tensor(self.pointer)


class Handles:
    """Makes and destroys nnopbase's objects."""

    def __init__(self, runtime: Runtime) -> None:
        libraries: Libraries = runtime.libraries
        self.runtime = runtime
        self.live: set[int] = set()  # the aclTensors that Tensors own
        self._keeping = threading.Lock()
        get = libraries.function
        self._create_tensor = get("aclCreateTensor")
        self._destroy_tensor = get("aclDestroyTensor")
        self.initialize = get("aclInitTensor")
        self.set_address = get("aclSetRawTensorAddr")
        self._create_list = get("aclCreateTensorList")
        self._destroy_list = get("aclDestroyTensorList")
        self._create_scalar = get("aclCreateScalar")
        self._destroy_scalar = get("aclDestroyScalar")
        self._create_scalars = get("aclCreateScalarList")
        self._destroy_scalars = get("aclDestroyScalarList")
        # kind -> element type, create, destroy
        self._arrays: dict[Kind, tuple[Any, Any, Any]] = {
            Kind.INT_ARRAY: (ctypes.c_int64, get("aclCreateIntArray"), get("aclDestroyIntArray")),
            Kind.FLOAT_ARRAY: (ctypes.c_float, get("aclCreateFloatArray"), get("aclDestroyFloatArray")),
            Kind.BOOL_ARRAY: (ctypes.c_bool, get("aclCreateBoolArray"), get("aclDestroyBoolArray")),
        }
        self._cplusplus: Any = None

    # ---------------------------------------------------------------------------------------- tensors
    def shared(self, tensor: Tensor, undo: list[Undo]) -> int:
        """The aclTensor that the Tensor keeps, or a fresh one where it must not be shared."""
        format = tensor._format
        if format is not None and format is not Format.ND:
            return self.tensor(tensor, undo)
        with self._keeping:
            handle = tensor.handle
            # Another thread was faster: two would destroy each other's.
            if handle is not None and handle.format is format:
                return int(handle.pointer)
            pointer = self._tensor(tensor)
            self.live.add(pointer)
            tensor.handle = TensorHandle(self, pointer, format)
        return pointer

    def tensor(self, tensor: Tensor, undo: list[Undo]) -> int:
        """An aclTensor of the caller's own."""
        pointer = self._tensor(tensor)
        undo.append((self._destroy_tensor, pointer))
        return pointer

    def _tensor(self, tensor: Tensor) -> int:
        """aclCreateTensor; the storage knows of its use, so its memory is there. Without elements it is null, as torch_npu's."""
        storage: NpuStorage = tensor.storage  # type: ignore[assignment]  # a tensor of this backend
        pointer: Optional[int] = self._create_tensor(*self.description(tensor).arguments, storage.base)
        return pointer or self._non_null("aclCreateTensor", pointer)

    def description(self, tensor: Tensor) -> TensorDescription:
        dims, strides, row_major = _layout(tensor.shape, tensor.strides)
        if tensor._storage_shape is not None:
            physical = _int64s(tensor._storage_shape)
        elif row_major and tensor.offset == 0 and dims.length:
            physical = dims
        else:  # the storage as a row of elements, which torch_npu makes of each ND tensor
            bits = tensor.dtype.bits
            physical = _int64s((tensor.storage.nbytes * 8 // bits,) if bits else ())
        arguments = (
            dims.address,
            dims.length,
            tensor.dtype,
            strides.address,
            tensor.offset,
            tensor.format,
            physical.address,
            physical.length,
        )
        return TensorDescription(arguments, (dims, strides, physical))

    def described(self, description: TensorDescription, address: int, undo: list[Undo]) -> int:
        """An aclTensor of the caller's own, by its description."""
        pointer = self._non_null("aclCreateTensor", self._create_tensor(*description.arguments, address))
        undo.append((self._destroy_tensor, pointer))
        return pointer

    def destroy_tensor(self, pointer: int) -> None:
        """For finalizers: once for each kept aclTensor, never after the end, never raising."""
        if not self.runtime.closed:
            self.live.discard(pointer)
            self._destroy_tensor(pointer)

    def tensor_list(self, tensors: Sequence[Optional[Tensor]], undo: list[Undo]) -> int:
        members: list[Undo] = []
        try:
            pointers = [None if tensor is None else self.tensor(tensor, members) for tensor in tensors]
            pointer = self._non_null("aclCreateTensorList", self._create_list(_pointers(pointers), len(pointers)))
        except BaseException:
            destroy(members)
            raise
        undo.append((self._destroy_list, pointer))  # and with it its members
        return pointer

    # ---------------------------------------------------------------------------------------- host values
    def scalar(self, scalar: Scalar, undo: list[Undo]) -> int:
        pointer = self._non_null("aclCreateScalar", self._create_scalar(scalar.tobytes(), scalar.dtype))
        undo.append((self._destroy_scalar, pointer))
        return pointer

    def scalar_list(self, scalars: Sequence[Scalar], undo: list[Undo]) -> int:
        members: list[Undo] = []
        try:
            pointers = [self.scalar(scalar, members) for scalar in scalars]
            pointer = self._non_null("aclCreateScalarList", self._create_scalars(_pointers(pointers), len(pointers)))
        except BaseException:
            destroy(members)
            raise
        undo.append((self._destroy_scalars, pointer))
        return pointer

    def array(self, kind: Kind, values: Sequence[Any], undo: list[Undo]) -> int:
        element, create, release = self._arrays[kind]
        data = (element * len(values))(*values) if values else None
        pointer = self._non_null("aclCreate" + kind.value[3:-1], create(data, len(values)))
        undo.append((release, pointer))
        return pointer

    def _non_null(self, routine: str, pointer: Optional[int]) -> int:
        if not pointer:
            raise self.runtime.error(routine, INNER_NULLPTR)
        return pointer

    # ---------------------------------------------------------------------------------------- reading back
    def view_shape(self, pointer: int) -> tuple[int, ...]:
        """The view shape of an aclTensor, which operators with data-dependent outputs rewrite."""
        dims, rank = ctypes.c_void_p(), ctypes.c_uint64()
        self.runtime.call("aclGetViewShape", pointer, ctypes.byref(dims), ctypes.byref(rank))
        if not dims.value:
            return ()
        try:
            return tuple((ctypes.c_int64 * rank.value).from_address(dims.value))
        finally:
            self._delete_array(dims)

    def _delete_array(self, pointer: ctypes.c_void_p) -> None:
        """C++'s delete[], which memory of aclGetViewShape wants; free() would be another allocator's."""
        if self._cplusplus is None:
            self._cplusplus = ctypes.CDLL("libstdc++.so.6")._ZdaPv
            self._cplusplus.argtypes = [ctypes.c_void_p]
            self._cplusplus.restype = None
        self._cplusplus(pointer)

    def close(self) -> None:
        """At exit: destroys what Tensors still hold."""
        while self.live:
            self._destroy_tensor(self.live.pop())


def destroy(undo: list[Undo]) -> None:
    """Destroys what was made, last first. Never raises; a destroyed handle's status says nothing one could act on."""
    while undo:
        function, pointer = undo.pop()
        function(pointer)


def _pointers(values: Sequence[Optional[int]]) -> Any:
    return (ctypes.c_void_p * len(values))(*values) if values else None
