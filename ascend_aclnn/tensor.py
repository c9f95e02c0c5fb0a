"""Tensor: a strided view of backend memory with CANN's data type and format."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.backends import Backend, Storage, backend
from ascend_aclnn.dtypes import DataType, DTypeLike, Format, as_datatype, as_format
from ascend_aclnn.layouts import from_nz, nz_shape, pack_bits, to_nz, unpack_bits

if TYPE_CHECKING:
    from ascend_aclnn.streams import Stream

FormatLike = Union[Format, str, int]


class Tensor:
    """Device memory with shape, dtype, strides and offset (in elements) and format.

    Slicing, transposing and reshaping of contiguous tensors give views that share memory. ``numpy()`` waits for the
    stream that wrote last, and only for it; before another stream reads the memory, order the streams with an Event,
    and before dropping the tensor call ``record_stream``.
    """

    __slots__ = ("__weakref__", "_format", "_storage_shape", "dtype", "handle", "offset", "shape", "storage", "strides")

    shape: tuple[int, ...]
    dtype: DataType
    strides: tuple[int, ...]
    offset: int
    storage: Storage
    handle: Any  # the npu backend's aclTensor of this view, made on first use

    def __init__(
        self,
        storage: Storage,
        shape: tuple[int, ...],
        dtype: DataType,
        strides: tuple[int, ...],
        offset: int = 0,
        format: Optional[Format] = None,
        storage_shape: Optional[tuple[int, ...]] = None,
    ) -> None:
        self.storage = storage
        self.shape = shape
        self.dtype = dtype
        self.strides = strides
        self.offset = offset
        self._format = format
        self._storage_shape = storage_shape
        self.handle = None

    # -------------------------------------------------------------------------------------------- what it is
    @property
    def format(self) -> Format:
        """The format; ND while it is still "auto"."""
        return Format.ND if self._format is None else self._format

    @property
    def has_auto_format(self) -> bool:
        """True until a format was given or an operator that documents another one for this rank has bound the tensor."""
        return self._format is None

    @property
    def storage_shape(self) -> tuple[int, ...]:
        """Physical shape: the private format's shape, else as given, else the view's."""
        return self.shape if self._storage_shape is None else self._storage_shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements (not of the storage)."""
        return (max(self.size, 0) * self.dtype.bits + 7) // 8

    @property
    def backend(self) -> Backend:
        return self.storage.backend

    @property
    def device(self) -> int:
        return self.storage.device

    @property
    def data_ptr(self) -> int:
        """Address of the first element."""
        return self.storage.address + self.offset * self.dtype.bits // 8

    @property
    def is_contiguous(self) -> bool:
        return self.size == 0 or all(
            n == 1 or s == c for n, s, c in zip(self.shape, self.strides, contiguous_strides(self.shape))
        )

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth of a tensor of {self.size} elements is not defined")
        return bool(self.numpy().item())

    def __repr__(self) -> str:
        where = f"{self.backend.name}:{self.device}"
        layout = "" if self.is_contiguous else f", strides={self.strides}, offset={self.offset}"
        return f"Tensor(shape={self.shape}, {self.dtype.name}, {self.format.name}{layout}, {where})"

    # -------------------------------------------------------------------------------------------- views
    def view(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        offset: int,
        format: Optional[Format] = None,
    ) -> Tensor:
        """A view of the same memory; strides and offset count elements from the start of the storage."""
        return Tensor(self.storage, tuple(shape), self.dtype, tuple(strides), offset, format, None)

    def with_format(self, format: FormatLike, storage_shape: Optional[Sequence[int]] = None) -> Tensor:
        """The same memory under another format label; no data moves."""
        shape = self._storage_shape if storage_shape is None else tuple(storage_shape)
        return Tensor(self.storage, self.shape, self.dtype, self.strides, self.offset, as_format(format), shape)

    def __getitem__(self, index: Any) -> Tensor:
        """Basic indexing: integers, slices with positive steps, ``...`` and None; a view."""
        items = index if isinstance(index, tuple) else (index,)
        given = sum(1 for item in items if item is not None and item is not Ellipsis)
        if given > self.ndim:
            raise IndexError(f"{given} indices for a tensor of rank {self.ndim}")
        if Ellipsis not in [i for i in items if i is Ellipsis]:
            items = (*items, Ellipsis)
        shape: list[int] = []
        strides: list[int] = []
        offset, axis = self.offset, 0
        for item in items:
            if item is Ellipsis:
                rest = self.ndim - given
                shape += self.shape[axis : axis + rest]
                strides += self.strides[axis : axis + rest]
                axis += rest
                continue
            if item is None:
                shape.append(1)
                strides.append(0)
                continue
            n, step = self.shape[axis], self.strides[axis]
            if isinstance(item, slice):
                start, stop, stride = item.indices(n)
                if stride < 1:
                    raise ValueError("a tensor slice needs a positive step: CANN has no negative strides")
                count = max(0, -(-(stop - start) // stride))
                shape.append(count)
                strides.append(step * stride)
                offset += start * step if count else 0
            else:
                at = operator.index(item)
                if not -n <= at < n:
                    raise IndexError(f"index {at} is out of bounds for axis {axis} with size {n}")
                offset += (at + n if at < 0 else at) * step
            axis += 1
        return self.view(shape, strides, offset, None)

    def transpose(self, *axes: int) -> Tensor:
        """Axes in another order (all reversed when none are given); a view."""
        order = tuple(a % self.ndim for a in axes) if axes else tuple(reversed(range(self.ndim)))
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"axes {axes} are not a permutation of the {self.ndim} axes")
        return self.view([self.shape[a] for a in order], [self.strides[a] for a in order], self.offset)

    @property
    def T(self) -> Tensor:
        return self.transpose()

    def reshape(self, *shape: int) -> Tensor:
        """Another shape over the same memory; only for contiguous tensors. One size may be -1."""
        dims = list(shape)
        if dims.count(-1) == 1:
            known = math.prod(n for n in dims if n != -1)
            if known == 0 or self.size % known:
                raise ValueError(f"cannot reshape {self.shape} to {shape}")
            dims[dims.index(-1)] = self.size // known
        if math.prod(dims) != self.size:
            raise ValueError(f"cannot reshape {self.shape} to {shape}")
        if not self.is_contiguous:
            raise ValueError("reshape needs a contiguous tensor")
        return self.view(dims, contiguous_strides(tuple(dims)), self.offset)

    # -------------------------------------------------------------------------------------------- data
    def numpy(self) -> npt.NDArray[Any]:
        """The elements as a new ndarray; waits for the stream that wrote last."""
        dtype = _host_dtype(self.dtype)
        if self.size == 0:
            return np.empty(self.shape, dtype)
        if self.format.private:
            return self._from_private(dtype)
        if self.dtype.packed:
            return _unpacked(self)
        low, high = self._span()
        raw = self.storage.read(low * dtype.itemsize, (high - low) * dtype.itemsize)
        strides = [s * dtype.itemsize for s in self.strides]
        at = (self.offset - low) * dtype.itemsize
        view: npt.NDArray[Any] = np.ndarray(self.shape, dtype, raw.data, at, strides)
        return np.array(view)

    def __array__(self, dtype: Optional[npt.DTypeLike] = None, copy: Optional[bool] = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the data of a Tensor cannot be used as an ndarray without a copy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def assign(self, values: npt.ArrayLike) -> None:
        """Copies host values (broadcast, cast to dtype) into the tensor."""
        dtype = _host_dtype(self.dtype)
        array = np.asarray(values)
        if array.dtype != dtype:
            array = array.astype(dtype)
        if self.size == 0:
            return
        array = np.broadcast_to(array, self.shape)
        if self.format.private:
            array = to_nz(array, self._nz_storage())
        if self.dtype.packed:
            if not self.is_contiguous or self.offset:
                raise ValueError(f"a strided {self.dtype.name} tensor cannot be written from the host")
            self.storage.write(0, pack_bits(array, self.dtype.bits))
            return
        if self.is_contiguous or self.format.private:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self.storage.write(self.offset * dtype.itemsize, data)
            return
        low, high = self._span()
        raw = self.storage.read(low * dtype.itemsize, (high - low) * dtype.itemsize).copy()
        strides = [s * dtype.itemsize for s in self.strides]
        np.ndarray(self.shape, dtype, raw.data, (self.offset - low) * dtype.itemsize, strides)[...] = array
        self.storage.write(low * dtype.itemsize, raw)

    def __setitem__(self, index: Any, values: npt.ArrayLike) -> None:
        self[index].assign(values)

    def record_stream(self, stream: Stream) -> None:
        """Tells that work on another stream uses this memory: it is not reused before that work has run."""
        self.storage.record_stream(stream)

    def __dlpack__(self, **options: Any) -> Any:
        from ascend_aclnn import dlpack

        return dlpack.export(self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        from ascend_aclnn import dlpack

        return dlpack.device(self)

    def to_format(self, format: FormatLike) -> Tensor:
        """The same values stored in another format: "FRACTAL_NZ" (for the WeightNz operators) or "ND".

        On a device the conversion is an operator of the installed CANN; it is queued on the current stream.
        """
        wanted = as_format(format)
        if wanted is self.format:
            return self
        if wanted not in (Format.FRACTAL_NZ, Format.ND) or (
            self.format.private and self.format is not Format.FRACTAL_NZ
        ):
            raise ValueError(f"cannot convert {self.format.name} to {wanted.name}; only ND <-> FRACTAL_NZ")
        return self.backend.convert_format(self, wanted)

    def _nz_storage(self) -> tuple[int, ...]:
        """The storage shape of a FRACTAL_NZ tensor that can be read and written on the host."""
        wanted = nz_shape(self.shape, self.dtype) if self.format is Format.FRACTAL_NZ and self.ndim >= 2 else None
        if wanted is None or len(self.storage_shape) != len(wanted) or self.offset:
            text = f"{self.format.name} with storage shape {self.storage_shape}"
            raise ValueError(f"a tensor in {text} cannot be moved to or from the host")
        return self.storage_shape

    def _from_private(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        physical = self._nz_storage()
        flat = Tensor(self.storage, physical, self.dtype, contiguous_strides(physical))
        return np.array(from_nz(flat.numpy(), self.shape), dtype)

    def _span(self) -> tuple[int, int]:
        """First and one past the last element that the view touches, counted from the start of the storage."""
        if self.size <= 0:
            return self.offset, self.offset
        return self.offset, self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides)) + 1

    @classmethod
    def from_pointer(
        cls,
        ptr: int,
        shape: Sequence[int],
        dtype: DTypeLike,
        *,
        strides: Optional[Sequence[int]] = None,
        offset: int = 0,
        format: FormatLike = "auto",
        storage_shape: Optional[Sequence[int]] = None,
        device: Optional[int] = None,
        owner: object = None,
    ) -> Tensor:
        """A tensor over memory that somebody else owns (torch_npu: ``t.untyped_storage().data_ptr()``).

        ``ptr`` is the start of the storage; ``owner`` is kept alive as long as the tensor or a view of it.
        """
        engine = backend()
        where = engine.current_device() if device is None else device
        tensor = _describe(shape, dtype, strides, offset, format, storage_shape)
        tensor.storage = engine.borrow(ptr, _storage_bytes(tensor), where, owner)
        return tensor


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
    engine = backend()
    dims = (shape,) if isinstance(shape, (int, np.integer)) else shape
    tensor = _describe(dims, dtype, strides, offset, format, storage_shape)
    tensor.storage = engine.allocate(_storage_bytes(tensor), engine.current_device())
    return tensor


def zeros(shape: Union[int, Sequence[int]], dtype: DTypeLike, *, format: FormatLike = "auto") -> Tensor:
    """A tensor filled with zeros."""
    tensor = empty(shape, dtype, format=format)
    tensor.assign(0)
    return tensor


def asarray(x: npt.ArrayLike, dtype: Optional[DTypeLike] = None, format: FormatLike = "auto") -> Tensor:
    """A tensor on the current device with the values of an array-like. A Tensor comes back as it is."""
    if isinstance(x, Tensor):
        if dtype is not None and as_datatype(dtype) is not x.dtype:
            raise TypeError(f"the tensor is {x.dtype.name}, not {as_datatype(dtype).name}; convert it with ops.cast")
        return x
    array = np.asarray(x)
    wanted = as_datatype(array.dtype if dtype is None else dtype)
    tensor = empty(array.shape, wanted, format=format)
    tensor.assign(array)
    return tensor


def from_dlpack(x: Any) -> Tensor:
    """A tensor that shares the memory of an object with ``__dlpack__`` (host memory: NumPy backend; Ascend: npu)."""
    from ascend_aclnn import dlpack

    return dlpack.import_(x)


@functools.lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def _unpacked(tensor: Tensor) -> npt.NDArray[Any]:
    """The elements of a tensor with several elements to the byte."""
    low, high = tensor._span()
    bits = tensor.dtype.bits
    first = low * bits // 8
    skip = low - first * 8 // bits
    raw = tensor.storage.read(first, (high * bits + 7) // 8 - first)
    base = unpack_bits(raw, skip + high - low, tensor.dtype)
    return np.array(np.lib.stride_tricks.as_strided(base[skip:], tensor.shape, tensor.strides))


def _host_dtype(dtype: DataType) -> np.dtype[Any]:
    if dtype.numpy is None:
        raise TypeError(f"{dtype.name} has no NumPy counterpart: its values cannot be moved to or from the host")
    return dtype.numpy


def _storage_bytes(tensor: Tensor) -> int:
    """Bytes that a tensor's storage needs: what the view reaches, or the storage shape where that is larger."""
    if any(n < 0 for n in tensor.shape):
        return 0
    elements = max(tensor._span()[1], math.prod(tensor.storage_shape) if tensor.size else 0, 0)
    return (elements * tensor.dtype.bits + 7) // 8


_NO_STORAGE: Any = None


def _describe(
    shape: Sequence[int],
    dtype: DTypeLike,
    strides: Optional[Sequence[int]],
    offset: int,
    format: FormatLike,
    storage_shape: Optional[Sequence[int]],
) -> Tensor:
    """A tensor without storage yet."""
    dims = tuple(operator.index(n) for n in shape)
    steps = contiguous_strides(dims) if strides is None else tuple(operator.index(s) for s in strides)
    if len(steps) != len(dims):
        raise ValueError(f"{len(steps)} strides for a shape of rank {len(dims)}")
    label = None if format == "auto" else as_format(format)
    physical = None if storage_shape is None else tuple(operator.index(n) for n in storage_shape)
    return Tensor(_NO_STORAGE, dims, as_datatype(dtype), steps, offset, label, physical)
