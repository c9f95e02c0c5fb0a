"""Tensor: what users work with: views, Python's operators and other packages' protocols on a StoredTensor."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core import dlpack, torch_interop
from ascend_aclnn.core.array_methods import ArrayMethods, axes_of, get_operators
from ascend_aclnn.core.current import current_backend
from ascend_aclnn.core.dtypes import DataType, DTypeLike, Format, as_format
from ascend_aclnn.core.spec import FormatLike, TensorSpec, contiguous_strides
from ascend_aclnn.core.streams import Stream


class Tensor(ArrayMethods):
    """Device memory with shape, dtype, strides and offset (in elements) and format.

    Slicing, transposing and reshaping of contiguous tensors give views that share memory. ``numpy()`` waits for the
    stream that wrote last, and only for it; before another stream reads the memory, order the streams with an Event,
    and before dropping the tensor call ``record_stream``.
    """

    __slots__ = ()

    # ---------------------------------------------------------------------------------------- metadata
    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a 0-d tensor")
        return self._shape[0]

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth of a tensor of {self.size} elements is not defined")
        return bool(self.item())

    # -------------------------------------------------------------------------------------------- views
    def view(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        offset: int,
        format: Optional[Format] = None,
    ) -> Tensor:
        """A view of the same memory; strides and offset count elements from the start of the storage.

        ValueError where it would reach outside the storage.
        """
        if format is None:
            self._check_in_rows("view")
        spec = TensorSpec.of(shape, self._dtype, strides=strides, offset=offset)
        spec.check_within(self.storage.nbytes)
        return self._view(spec.shape, spec.strides, spec.offset, format)

    def _view(
        self, shape: Sequence[int], strides: Sequence[int], offset: int, format: Optional[Format] = None
    ) -> Tensor:
        """A view that lies in the storage by construction."""
        return Tensor(self.storage, tuple(shape), self._dtype, tuple(strides), offset, format)

    def with_format(self, format: FormatLike, storage_shape: Optional[Sequence[int]] = None) -> Tensor:
        """The same memory under another format; no data moves."""
        shape = self._storage_shape if storage_shape is None else tuple(storage_shape)
        return Tensor(self.storage, self._shape, self._dtype, self._strides, self._offset, as_format(format), shape)

    def __getitem__(self, index: Any) -> Tensor:
        """Integers, slices with positive steps, ``...`` and None give a view; a boolean mask or integer arrays a copy."""
        items = index if isinstance(index, tuple) else (index,)
        arrays = _index_arrays(items)
        if arrays:
            result: Tensor = get_operators().index(self, arrays)
            return result
        self._check_in_rows("index")
        indexed_axes = sum(1 for item in items if item is not None and item is not Ellipsis)
        if indexed_axes > self.ndim:
            raise IndexError(f"{indexed_axes} indices for a tensor of rank {self.ndim}")
        if Ellipsis not in [i for i in items if i is Ellipsis]:
            items = (*items, Ellipsis)
        shape: list[int] = []
        strides: list[int] = []
        offset, axis = self._offset, 0
        for item in items:
            if item is Ellipsis:
                rest = self.ndim - indexed_axes
                shape += self._shape[axis : axis + rest]
                strides += self._strides[axis : axis + rest]
                axis += rest
                continue
            if item is None:
                shape.append(1)
                strides.append(0)
                continue
            n, step = self._shape[axis], self._strides[axis]
            if isinstance(item, slice):
                start, stop, stride = item.indices(n)
                if stride < 1:
                    raise ValueError(
                        "a tensor slice needs a positive step: CANN has no negative strides; ops.flip(x, [axis]) copies"
                    )
                count = max(0, -(-(stop - start) // stride))
                shape.append(count)
                strides.append(step * stride)
                offset += start * step if count else 0
            else:
                at = _index(item)
                if not -n <= at < n:
                    raise IndexError(f"index {at} is out of bounds for axis {axis} with size {n}")
                offset += (at + n if at < 0 else at) * step
            axis += 1
        return self._view(shape, strides, offset)

    def _check_in_rows(self, wish: str) -> None:
        """ValueError for a format whose strides do not locate elements."""
        if self.format.private:
            raise ValueError(
                f"a tensor in {self.format.name} keeps its elements in blocks; {wish} its copy in ND, asarray(tensor.numpy())"
            )

    def transpose(self, *axes: Union[int, Sequence[int]]) -> Tensor:
        """Axes in another order (all reversed by default), as separate arguments or one sequence; a view."""
        numbers = [operator.index(a) for a in _flat(axes)]
        order = tuple(a + self.ndim if a < 0 else a for a in numbers) or tuple(reversed(range(self.ndim)))
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"axes {axes} are not a permutation of the {self.ndim} axes")
        shape, strides = tuple(self._shape[a] for a in order), tuple(self._strides[a] for a in order)
        if not self.format.private:
            return self._view(shape, strides, self._offset)
        if order[:-2] != tuple(range(self.ndim - 2)):
            raise ValueError(f"of a tensor in {self.format.name} only the last two axes can be transposed")
        return Tensor(self.storage, shape, self._dtype, strides, self._offset, self.format, self.storage_shape)

    @property
    def T(self) -> Tensor:
        """All axes in the reverse order; a view."""
        return self.transpose()

    @property
    def mT(self) -> Tensor:
        """The last two axes swapped; a view."""
        if self.ndim < 2:
            raise ValueError(f"mT needs a rank of at least 2; the shape is {self.shape}")
        return self.transpose(*range(self.ndim - 2), -1, -2)

    def squeeze(self, axis: Union[int, Sequence[int], None] = None) -> Tensor:
        """Without the axes of size 1: all of them, or those that are named; a view."""
        named = [i for i, n in enumerate(self.shape) if n == 1] if axis is None else axes_of(axis, self.ndim)
        if any(self.shape[i] != 1 for i in named):
            raise ValueError(f"axis {axis} of shape {self.shape} is not of size 1")
        rest = [i for i in range(self.ndim) if i not in named]
        return self._view([self.shape[i] for i in rest], [self.strides[i] for i in rest], self.offset)

    def reshape(self, *shape: Union[int, Sequence[int]]) -> Tensor:
        """Another shape over the same memory, as separate sizes or one sequence; one size may be -1.

        ValueError for a tensor that is not contiguous: ``copy()`` makes it so.
        """
        dims = [operator.index(n) for n in _flat(shape)]
        if dims.count(-1) == 1:
            product = math.prod(n for n in dims if n != -1)
            if product == 0 or self.size % product:
                raise ValueError(f"cannot reshape {self._shape} to {shape}")
            dims[dims.index(-1)] = self.size // product
        if math.prod(dims) != self.size:
            raise ValueError(f"cannot reshape {self._shape} to {shape}")
        self._check_in_rows("reshape")
        if not self.is_contiguous:
            raise ValueError(
                f"a tensor of shape {self._shape} with strides {self._strides} is not contiguous; reshape its copy()"
            )
        return self._view(dims, contiguous_strides(tuple(dims)), self._offset)

    def to_device(self, device: int, *, stream: Optional[Stream] = None) -> Tensor:
        """A copy on another device, with the same layout; what wrote this tensor, and ``stream``, are waited for."""
        if stream is not None:
            stream.synchronize()
        if not 0 <= device < self.backend.device_count():
            raise ValueError(f"device {device}: this host has {self.backend.device_count()} device(s)")
        return Tensor.on(self.backend.copy_storage(self.storage, device), self)

    def __setitem__(self, index: Any, values: npt.ArrayLike) -> None:
        arrays = _index_arrays(index if isinstance(index, tuple) else (index,))
        if arrays:
            get_operators().set_index(self, arrays, values)
        else:
            self[index].assign(values)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __reduce__(self) -> tuple[Any, ...]:
        """Values, dtype and format; a tensor is made anew on the backend in use where it is unpickled."""
        return _unpickle, (type(self), self.numpy(), self._dtype, self._format, self._storage_shape)

    # ---------------------------------------------------------------------------------------- streams and other packages
    def __dlpack__(
        self,
        *,
        stream: Optional[int] = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        """A capsule over the tensor's memory for other packages' ``from_dlpack``; see ``core.dlpack.export``."""
        return dlpack.export(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def torch(self) -> Any:
        """A torch tensor over this tensor's memory: on the host from the NumPy backend, on the NPU from the npu backend.

        Nothing is copied, and torch's current stream is made to wait for what wrote the tensor last. TypeError where torch
        lacks the dtype, BufferError for a tensor in a blocked format.
        """
        return torch_interop.to_torch(self)

    def __dlpack_device__(self) -> tuple[int, int]:
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
        result: Tensor = get_operators().to_format(self, wanted)
        return result

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
        """A tensor over memory with another owner (torch_npu: ``t.untyped_storage().data_ptr()``).

        ``ptr`` is the start of the storage; ``owner`` is kept alive as long as the tensor or a view of it.
        """
        spec = TensorSpec.of(shape, dtype, strides=strides, offset=offset, format=format, storage_shape=storage_shape)
        if spec.size and ptr <= 0:
            raise ValueError(f"ptr is {ptr}; it must be the address of memory that holds {spec!r}")
        spec.check_within(spec.storage_nbytes)
        if ptr + spec.storage_nbytes > sys.maxsize:
            raise ValueError(
                f"ptr is {ptr}; {spec!r} needs {spec.storage_nbytes} bytes there, more than there are addresses"
            )
        backend = current_backend()
        index = backend.current_device() if device is None else device
        return cls.on(backend.borrow(ptr, spec.storage_nbytes, index, owner), spec)


def _flat(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """(2, 3) of f(2, 3) as of f((2, 3))."""
    if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)):
        return tuple(arguments[0])
    return arguments


def _index_arrays(items: tuple[Any, ...]) -> list[Any]:
    """The masks and integer arrays of an index, which with integers must be all of it; [] where there is no array."""
    arrays = [item for item in items if isinstance(item, (Tensor, np.ndarray, list)) and not _is_index(item)]
    if not arrays or len(arrays) == len(items):
        return arrays
    if any(item is None or item is Ellipsis or isinstance(item, slice) for item in items):
        raise IndexError("index arrays cannot stand beside slices, None or ...; index in two steps")
    shape = np.broadcast_shapes(*(np.shape(a) if isinstance(a, list) else a.shape for a in arrays))
    return [item if any(item is a for a in arrays) else np.full(shape, _index(item)) for item in items]


def _is_index(item: Any) -> bool:
    """A 0-d integer array is an index like a number."""
    return isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu"


def _index(item: Any) -> int:
    try:
        return operator.index(item)
    except TypeError:
        raise IndexError(
            f"an index is {item!r}; it must be an integer, a slice, ..., None, a boolean mask or an integer array"
        ) from None


def _unpickle(
    kind: type[Tensor],
    values: npt.NDArray[Any],
    dtype: DataType,
    format: Optional[Format],
    storage_shape: Optional[tuple[int, ...]],
) -> Tensor:
    backend = current_backend()
    spec = TensorSpec(values.shape, dtype, None, 0, format, storage_shape)
    tensor = kind.on(backend.allocate(spec.storage_nbytes, backend.current_device()), spec)
    tensor.assign(values)
    return tensor


def share_torch(x: Any, stream: Optional[Stream], owner: object) -> Tensor:
    """A tensor over a torch tensor's memory, which torch itself uses on a stream (see Backend.borrow). Orders nothing."""
    m = torch_interop.describe(x)
    spec = TensorSpec.of(
        m.shape,
        m.dtype,
        strides=m.strides,
        offset=m.offset,
        format="auto" if m.format is None else m.format,
        storage_shape=m.storage_shape,
    )
    spec.check_within(m.nbytes)
    return Tensor.on(current_backend().borrow(m.address, m.nbytes, m.device, owner, stream), spec)
