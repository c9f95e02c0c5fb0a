"""Scalar: a host value with a CANN data type, for aclScalar parameters."""

from __future__ import annotations

import numbers
from typing import Any, Optional, Union

import numpy as np

from ascend_aclnn.dtypes import DataType, DTypeLike, as_datatype

Number = Union[numbers.Number, bool, int, float, complex, np.generic]


class Scalar:
    """A value and its aclDataType. Without ``dtype``: bool -> BOOL, int -> INT64, float -> DOUBLE, complex -> COMPLEX128."""

    __slots__ = ("dtype", "value")

    def __init__(self, value: Number, dtype: Optional[DTypeLike] = None) -> None:
        self.dtype = _default_dtype(value) if dtype is None else as_datatype(dtype)
        self.value = value

    def tobytes(self) -> bytes:
        """The value as aclCreateScalar reads it; ValueError where the data type has no NumPy counterpart."""
        if self.dtype.numpy is None:
            raise ValueError(f"no host representation of a {self.dtype.name} scalar")
        return bytes(np.array(self.value).astype(self.dtype.numpy).tobytes())

    def __repr__(self) -> str:
        return f"Scalar({self.value!r}, {self.dtype.name})"


def _default_dtype(value: Any) -> DataType:
    if isinstance(value, np.generic):
        return as_datatype(value.dtype)
    if isinstance(value, bool):
        return DataType.BOOL
    if isinstance(value, int):
        return DataType.INT64
    return DataType.COMPLEX128 if isinstance(value, complex) else DataType.DOUBLE
