"""StoredTensor: a TensorSpec on backend memory, and how its elements come from and go to the host."""

from __future__ import annotations

import math
from typing import Any, Optional, TypeVar

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core import hifloat8
from ascend_aclnn.core.dtypes import KERNEL_FORMATS, NZ_FORMATS, DataType, Format
from ascend_aclnn.core.errors import OUT_OF_MEMORY, AclError
from ascend_aclnn.core.interface import DeviceInterface, Storage
from ascend_aclnn.core.layouts import (
    BLOCK_BYTES,
    counts_bytes,
    from_kernel_blocks,
    from_nz,
    holds,
    kernel_blocks,
    nz_shape,
    pack_bits,
    to_kernel_blocks,
    to_nz,
    unpack_bits,
)
from ascend_aclnn.core.spec import PUBLIC_SLOTS, TensorSpec, contiguous_strides
from ascend_aclnn.core.streams import Stream

StoredType = TypeVar("StoredType", bound="StoredTensor")


def _fill_their_span(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements lie side by side, whatever the order of the axes."""
    filled = 1
    for step, count in sorted((abs(step), count) for step, count in zip(strides, shape) if count != 1):
        if step != filled:
            return False
        filled *= count
    return True


class StoredTensor(TensorSpec):
    """A TensorSpec on a Storage. ``Tensor`` adds views, Python's operators and other packages' protocols."""

    __slots__ = ("__weakref__", "handle", "storage")

    storage: Storage
    handle: Any  # the backend's handle of this view (an aclTensor, an ndarray), made at the first use

    def __init__(
        self,
        storage: Storage,
        shape: tuple[int, ...],
        dtype: DataType,
        strides: Optional[tuple[int, ...]] = None,
        offset: int = 0,
        format: Optional[Format] = None,
        storage_shape: Optional[tuple[int, ...]] = None,
    ) -> None:
        # TensorSpec.__init__, written out: this runs for every view and every result
        self.storage = storage
        self._shape = shape
        self._dtype = dtype
        self._strides = contiguous_strides(shape) if strides is None else strides
        self._offset = offset
        self._format = format
        self._storage_shape = storage_shape
        self._description = None
        self.handle = None

    @classmethod
    def on(cls: type[StoredType], storage: Storage, spec: TensorSpec) -> StoredType:
        """A tensor of a spec on a storage."""
        tensor = cls(storage, spec.shape, spec.dtype, spec.strides, spec.offset, spec._format, spec._storage_shape)
        tensor._description = spec._description
        return tensor

    @property
    def backend(self) -> DeviceInterface:
        return self.storage.backend

    @property
    def device(self) -> int:
        return self.storage.device

    @property
    def data_ptr(self) -> int:
        """Address of the first element."""
        return self.storage.address + self._offset * self._dtype.bits // 8

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self.backend.name}:{self.device})"

    # -------------------------------------------------------------------------------------------- data
    def numpy(self) -> npt.NDArray[Any]:
        """The elements as a new ndarray; waits for the stream that wrote last.

        Its dtype is ``tensor.dtype.numpy``. HIFLOAT8, which NumPy lacks, comes as codes of one byte (``.view(np.uint8)``)
        that ``.astype(np.float32)`` turns into values.
        """
        dtype = host_dtype(self._dtype)
        if self.size == 0:
            return np.empty(self._shape, dtype)
        if self.format.private:
            return self._from_private(dtype)
        if self._dtype.packed:
            return _unpacked(self)
        low, high = self.span
        raw = self.storage.read(low * dtype.itemsize, (high - low) * dtype.itemsize)
        strides = [s * dtype.itemsize for s in self._strides]
        at = (self._offset - low) * dtype.itemsize
        view: npt.NDArray[Any] = np.ndarray(self._shape, dtype, raw.data, at, strides)
        return np.array(view)

    def __array__(self, dtype: Optional[npt.DTypeLike] = None, copy: Optional[bool] = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the data of a Tensor cannot be used as an ndarray without a copy")
        array = self.numpy()
        return array if dtype is None else hifloat8.convert(array, np.dtype(dtype))

    def assign(self, values: npt.ArrayLike) -> None:
        """Copies host values (broadcast, cast to dtype) into the tensor."""
        dtype = host_dtype(self._dtype)
        array = hifloat8.convert(np.asarray(values), dtype)
        if self.size == 0:
            return
        array = np.broadcast_to(array, self._shape)
        blocked = self.format.private and self.storage_shape != self._shape
        if blocked and self.format in KERNEL_FORMATS:
            array = to_kernel_blocks(array, self._kernel_blocks())
        elif blocked:
            blocks, turned = self._nz_blocks()
            array = to_nz(np.swapaxes(array, -1, -2) if turned else array, blocks)
        if self._dtype.packed:
            if not blocked and (not self.is_contiguous or self._offset):
                raise ValueError(f"a strided {self._dtype.name} tensor cannot be written from the host")
            self.storage.write(0, pack_bits(array, self._dtype.bits))
            return
        if self.is_contiguous or self.format.private:
            try:
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            except MemoryError as error:
                raise AclError(OUT_OF_MEMORY, "aclrtMalloc", f"{self.nbytes} bytes of host memory: {error}") from None
            self.storage.write(self._offset * dtype.itemsize, data)
            return
        low, high = self.span
        if _fill_their_span(self._shape, self._strides):
            raw = np.empty((high - low) * dtype.itemsize, np.uint8)
        else:  # what lies between them stays
            raw = self.storage.read(low * dtype.itemsize, (high - low) * dtype.itemsize).copy()
        strides = [s * dtype.itemsize for s in self._strides]
        np.ndarray(self._shape, dtype, raw.data, (self._offset - low) * dtype.itemsize, strides)[...] = array
        self.storage.write(low * dtype.itemsize, raw)

    # ---------------------------------------------------------------------------------------- values on the host
    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number."""
        if self.size != 1:
            raise ValueError(f"item() needs a tensor of one element; the shape is {self._shape}")
        return self._values().item()

    def tolist(self) -> Any:
        """The elements as (nested) lists of Python numbers."""
        return self._values().tolist()

    def _values(self) -> npt.NDArray[Any]:
        """``numpy()``, of HIFLOAT8 as numbers."""
        array = self.numpy()
        return hifloat8.decode(array) if array.dtype == hifloat8.DTYPE else array

    def cpu(self) -> npt.NDArray[Any]:
        """The elements as a new ndarray, like ``numpy()``."""
        return self.numpy()

    def copy_from(self, source: npt.NDArray[Any], stream: Optional[Stream] = None) -> None:
        """Queues a copy of an ndarray of the same shape and dtype into the tensor, on a stream (None: the current one).

        From ``pinned()`` memory the host goes on at once, and must leave ``source`` alone until the stream has passed.
        """
        self.storage.write_async(*self._host_side(source, "source"), stream)

    def copy_to(self, target: npt.NDArray[Any], stream: Optional[Stream] = None) -> None:
        """Queues a copy of the tensor into an ndarray of the same shape and dtype, on a stream (None: the current one).

        ``target`` has the values once the stream has passed. ``numpy()`` is the copy that waits.
        """
        if not target.flags.writeable:
            raise ValueError("target is read-only")
        self.storage.read_async(*self._host_side(target, "target"), stream)

    def _host_side(self, array: npt.NDArray[Any], name: str) -> tuple[int, npt.NDArray[np.uint8]]:
        """Where the tensor begins in its storage, and the bytes of an ndarray that is laid out like it."""
        dtype = host_dtype(self._dtype)
        if array.shape != self._shape or array.dtype != dtype:
            raise ValueError(f"{name} is {array.dtype}{array.shape}; it must be {dtype}{self._shape}")
        if not array.flags.c_contiguous or not self.is_contiguous or self.format.private or self._dtype.packed:
            raise ValueError(
                "an asynchronous copy needs a contiguous ndarray and a contiguous tensor in a plain format"
            )
        return self._offset * dtype.itemsize, array.reshape(-1).view(np.uint8)

    def record_stream(self, stream: Stream) -> None:
        """Declares that work on another stream uses this memory: it is not reused before that work has run."""
        self.storage.record_stream(stream)

    def _nz_blocks(self) -> tuple[tuple[int, ...], bool]:
        """The blocks of a FRACTAL_NZ tensor that can be read and written on the host, and whether it is transposed.

        A transposed view of a blocked matrix keeps the matrix's blocks, as on the device; where strides do not say so,
        blocks that hold the other matrix only do. Blocks of FRACTAL_NZ itself may be flattened, or counted in bytes.
        """
        if self.format in NZ_FORMATS and self.ndim >= 2 and not self._offset:
            *lead, rows, columns = self._shape
            turned = not self.is_contiguous and self._strides[-2:] == (1, rows)
            if self.format is Format.FRACTAL_NZ and counts_bytes(self.storage_shape, self._dtype):
                return (*self.storage_shape[:-1], BLOCK_BYTES * 8 // self._dtype.bits), turned
            if len(self.storage_shape) == len(self._shape) + 2:
                there, other = (holds(self.storage_shape, *sizes) for sizes in ((rows, columns), (columns, rows)))
                return self.storage_shape, turned or (other and not there)
            wanted = nz_shape((*lead, columns, rows) if turned else self._shape, self._dtype)
            if self.format is Format.FRACTAL_NZ and math.prod(self.storage_shape) == math.prod(wanted):
                return wanted, turned
        raise self._unreadable()

    def _kernel_blocks(self) -> tuple[int, ...]:
        """The blocks of a FRACTAL_Z or FRACTAL_Z_3D tensor that can be read and written on the host."""
        whole = (
            self.ndim == (5 if self.format is Format.FRACTAL_Z_3D else 4) and self.is_contiguous and not self._offset
        )
        if whole and self.storage_shape == kernel_blocks(self._shape, self.storage_shape[-1] or 1):
            return self.storage_shape
        raise self._unreadable()

    def _unreadable(self) -> ValueError:
        text = f"{self.format.name} with storage shape {self.storage_shape}"
        return ValueError(f"a tensor in {text} cannot be moved to or from the host")

    def _from_private(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        if self.storage_shape == self._shape:  # the view is of the blocks themselves
            return StoredTensor(self.storage, self._shape, self._dtype, contiguous_strides(self._shape)).numpy()
        if self.format in KERNEL_FORMATS:
            blocks = self._kernel_blocks()
            stored = StoredTensor(self.storage, blocks, self._dtype, contiguous_strides(blocks)).numpy()
            return np.array(from_kernel_blocks(stored, self._shape), dtype)
        blocks, turned = self._nz_blocks()
        flat = StoredTensor(self.storage, blocks, self._dtype, contiguous_strides(blocks))
        *lead, rows, columns = self._shape
        matrix = from_nz(flat.numpy(), (*lead, columns, rows) if turned else self._shape)
        return np.array(np.swapaxes(matrix, -1, -2) if turned else matrix, dtype)


# Of a tensor they are read-only. A property around the slot costs nothing where tensors are made, unlike __setattr__.
for _name in PUBLIC_SLOTS:
    setattr(StoredTensor, _name, property(TensorSpec.__dict__[_name].__get__))


def _unpacked(tensor: StoredTensor) -> npt.NDArray[Any]:
    """The elements of a tensor that packs several into a byte."""
    low, high = tensor.span
    bits = tensor.dtype.bits
    first = low * bits // 8
    skip = low - first * 8 // bits
    raw = tensor.storage.read(first, (high * bits + 7) // 8 - first)
    base = unpack_bits(raw, skip + high - low, tensor.dtype)
    return np.array(np.lib.stride_tricks.as_strided(base[skip:], tensor.shape, tensor.strides))


def host_dtype(dtype: DataType) -> np.dtype[Any]:
    if dtype.numpy is None:
        raise TypeError(f"{dtype.name} has no NumPy counterpart: its values cannot be moved to or from the host")
    return dtype.numpy
