"""TensorSpec: everything about a tensor but its memory."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, Optional, Union

from ascend_aclnn.core.dtypes import DataType, DTypeLike, Format, as_datatype, as_format
from ascend_aclnn.core.layouts import nz_shape

FormatLike = Union[Format, str, int]


class Description:
    """What follows from a spec, worked out once for all specs that are alike, which share it.

    Compared by identity: two specs with one Description are alike.
    """

    __slots__ = ("at_start", "is_contiguous", "nbytes", "size", "span", "storage_nbytes")

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DataType,
        strides: tuple[int, ...],
        offset: int,
        storage_shape: Optional[tuple[int, ...]],
    ) -> None:
        bits = dtype.bits
        expected = _row_major(shape)
        size = math.prod(shape)
        self.size = size
        self.nbytes = (max(size, 0) * bits + 7) // 8
        row_major = strides == expected
        self.at_start = row_major and offset == 0 and bool(shape)  # so the storage's size says nothing more
        self.is_contiguous = (
            row_major or size == 0 or all(n == 1 or s == c for n, s, c in zip(shape, strides, expected))
        )
        self.span = (offset, offset)
        self.storage_nbytes = 0
        if size > 0:
            reach = [(n - 1) * s for n, s in zip(shape, strides)]
            self.span = offset + sum(r for r in reach if r < 0), offset + sum(r for r in reach if r > 0) + 1
        if size > 0 and all(n >= 0 for n in shape):
            physical = size if storage_shape is None else math.prod(storage_shape)
            self.storage_nbytes = (max(self.span[1], physical, 0) * bits + 7) // 8


@functools.lru_cache(maxsize=8192)
def _describe(
    shape: tuple[int, ...],
    dtype: DataType,
    strides: tuple[int, ...],
    offset: int,
    format: Optional[Format],
    storage_shape: Optional[tuple[int, ...]],
) -> Description:
    return Description(shape, dtype, strides, offset, storage_shape)


class TensorSpec:
    """Shape, dtype, strides and offset (both in elements), format and storage shape of a tensor.

    Rules check specs and infer the specs of outputs; a ``Tensor`` is a spec on a ``Storage``.
    """

    __slots__ = ("_description", "_dtype", "_format", "_offset", "_shape", "_storage_shape", "_strides")

    # Other names of four of the slots, see below; assigning to them leaves a description that no longer holds.
    shape: tuple[int, ...]
    dtype: DataType
    strides: tuple[int, ...]
    offset: int

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DataType,
        strides: Optional[tuple[int, ...]] = None,
        offset: int = 0,
        format: Optional[Format] = None,
        storage_shape: Optional[tuple[int, ...]] = None,
    ) -> None:
        """``strides`` None: row-major; ``format`` None: "auto"; ``storage_shape`` None: the view's shape."""
        self._shape = shape
        self._dtype = dtype
        self._strides = _row_major(shape) if strides is None else strides
        self._offset = offset
        self._format = format
        self._storage_shape = storage_shape
        self._description: Optional[Description] = None

    @classmethod
    def of(
        cls,
        shape: Union[int, Sequence[int]],
        dtype: DTypeLike,
        *,
        strides: Optional[Sequence[int]] = None,
        offset: int = 0,
        format: FormatLike = "auto",
        storage_shape: Optional[Sequence[int]] = None,
    ) -> TensorSpec:
        """The spec that a user's arguments describe. FRACTAL_NZ without a storage shape gets the format's default."""
        dims = _integers("shape", (shape,) if hasattr(shape, "__index__") else shape)
        steps = contiguous_strides(dims) if strides is None else _integers("strides", strides)
        if len(steps) != len(dims):
            raise ValueError(f"strides {steps} have {len(steps)} items; shape {dims} needs {len(dims)}")
        data_type = as_datatype(dtype)
        resolved_format = None if isinstance(format, str) and format == "auto" else as_format(format)
        physical = None if storage_shape is None else _integers("storage_shape", storage_shape)
        if (
            physical is None
            and resolved_format is Format.FRACTAL_NZ
            and len(dims) >= 2
            and data_type.bits
            and strides is None
        ):
            physical = nz_shape(dims, data_type)
        return TensorSpec(dims, data_type, steps, operator.index(offset), resolved_format, physical)

    @property
    def description(self) -> Description:
        """What follows from the spec; the same object for specs that are alike."""
        description = self._description
        if description is None:
            details = (self._shape, self._dtype, self._strides, self._offset)
            try:
                description = _describe(*details, self._format, self._storage_shape)
            except TypeError:  # torch's symbolic sizes have no hash
                description = Description(*details, self._storage_shape)
            self._description = description
        return description

    def set_shape(self, shape: tuple[int, ...]) -> None:
        """Another shape for the same offset, in row-major order."""
        self._shape, self._strides, self._description = shape, contiguous_strides(shape), None

    @property
    def format(self) -> Format:
        """The format; ND while it is still "auto"."""
        return Format.ND if self._format is None else self._format

    @property
    def has_auto_format(self) -> bool:
        """True until a format is chosen: by an argument, or by an operator that documents another format for this rank."""
        return self._format is None

    @property
    def storage_shape(self) -> tuple[int, ...]:
        """Physical shape: the private format's, else the ``storage_shape`` argument, else the view's."""
        return self._shape if self._storage_shape is None else self._storage_shape

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self._shape)  # for most specs nothing else is asked that a description has

    @property
    def nbytes(self) -> int:
        """Bytes of the elements (not of the storage)."""
        return self.description.nbytes

    @property
    def is_contiguous(self) -> bool:
        """True when the elements lie in row-major order without gaps; the offset does not matter."""
        return self.description.is_contiguous

    @property
    def span(self) -> tuple[int, int]:
        """First, and one past the last, element that is touched, counted from the start of the storage."""
        return self.description.span

    @property
    def storage_nbytes(self) -> int:
        """Bytes that a storage needs: what the elements reach, or the storage shape where that is larger."""
        return self.description.storage_nbytes

    def check_within(self, nbytes: int) -> None:
        """ValueError where an element lies outside a storage of this many bytes."""
        low, high = self.span
        if low == high:
            if self._offset < 0:
                raise ValueError(f"offset is {self._offset}; it must not be negative")
            return
        if low < 0 or high * self._dtype.bits > nbytes * 8:
            raise ValueError(
                f"shape {self._shape} with strides {self._strides} and offset {self._offset} reaches elements {low} to "
                f"{high - 1} of {self._dtype.name}; the storage has {nbytes * 8 // (self._dtype.bits or 8)}"
            )

    def __repr__(self) -> str:
        layout = "" if self.is_contiguous and not self._offset else f", strides={self._strides}, offset={self._offset}"
        return f"{type(self).__name__}(shape={self._shape}, {self._dtype.name}, {self.format.name}{layout})"


PUBLIC_SLOTS = ("shape", "dtype", "strides", "offset")
for _name in PUBLIC_SLOTS:
    setattr(TensorSpec, _name, TensorSpec.__dict__[f"_{_name}"])


@functools.lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def as_size(value: Any) -> int:
    """A size as an int; a symbolic one of torch's, which has a node, stays what it is."""
    size: int = value if hasattr(value, "node") else int(value)
    return size


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return contiguous_strides(shape)
    except TypeError:  # torch's symbolic sizes have no hash
        return contiguous_strides.__wrapped__(shape)


def _integers(what: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(operator.index(n) for n in values)
    except TypeError:
        raise TypeError(f"{what} is {values!r}; it must be a sequence of integers") from None


__all__ = ["Description", "FormatLike", "TensorSpec", "as_size", "contiguous_strides"]
