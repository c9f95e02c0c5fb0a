"""Scalar: a host value with a CANN data type, for aclScalar parameters."""

from __future__ import annotations

import functools
import numbers
from typing import Any, Optional, Union

import ml_dtypes
import numpy as np

from ascend_aclnn.core import hifloat8
from ascend_aclnn.core.dtypes import DataType, DTypeLike, as_datatype

Number = Union[numbers.Number, bool, int, float, complex, np.generic]


class Scalar:
    """A value and its aclDataType. Without ``dtype``: bool -> BOOL, int -> INT64, float -> DOUBLE, complex -> COMPLEX128.

    ``value`` is the argument rounded to the data type, as CANN reads it: ``Scalar(0.1, np.float32).value`` is
    0.10000000149011612. A value outside an integer type, or a complex one for a real type, is a ValueError.
    """

    __slots__ = ("dtype", "value")

    dtype: DataType
    value: Any

    def __init__(self, value: Number, dtype: Optional[DTypeLike] = None) -> None:
        if dtype is None and type(value) is int and -(2**63) <= value < 2**63:  # the most frequent case
            self.dtype, self.value = DataType.INT64, value
            return
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if not isinstance(value, (numbers.Number, np.generic)) or isinstance(value, np.character):
            raise TypeError(f"{value!r} is not a number")
        self.dtype = _default_dtype(value) if dtype is None else as_datatype(dtype)
        self.value = value if _PYTHON.get(type(value)) is self.dtype else _held(value, self.dtype)

    def tobytes(self) -> bytes:
        """The value as aclCreateScalar reads it; ValueError where the data type has no NumPy counterpart."""
        if self.dtype.numpy is None:
            raise ValueError(f"no host representation of a {self.dtype.name} scalar")
        return bytes(hifloat8.convert(np.array(self.value), self.dtype.numpy).tobytes())

    def __repr__(self) -> str:
        return f"Scalar({self.value!r}, {self.dtype.name})"


# Python types whose every value a data type holds.
_PYTHON = {bool: DataType.BOOL, float: DataType.DOUBLE, complex: DataType.COMPLEX128}


def _held(value: Any, dtype: DataType) -> Any:
    """A value as its data type holds it; unchanged where the type has no NumPy counterpart."""
    wanted = dtype.numpy
    if isinstance(value, (complex, np.complexfloating)) and not dtype.name.startswith("COMPLEX"):
        raise ValueError(f"{value} is complex; a {dtype.name} scalar is real")
    if wanted is None:
        return value
    if wanted.kind == "c":
        with np.errstate(over="ignore"):
            return complex(wanted.type(value))
    if wanted.kind == "b":
        return bool(value)
    limits = _limits(dtype)
    if limits is None:
        with np.errstate(over="ignore"):
            return float(hifloat8.convert(np.array(value, np.float64), wanted)[()])
    if not limits[0] <= value <= limits[1]:
        raise ValueError(f"{value} is outside {dtype.name}: [{limits[0]}, {limits[1]}]")
    return int(value)


@functools.cache
def _limits(dtype: DataType) -> Optional[tuple[int, int]]:
    """Least and greatest value of an integer type; None for the others."""
    try:
        info = ml_dtypes.iinfo(dtype.numpy)  # type: ignore[no-untyped-call]
    except ValueError:
        return None
    return int(info.min), int(info.max)


def _default_dtype(value: Any) -> DataType:
    if isinstance(value, np.generic):
        return as_datatype(value.dtype)
    if isinstance(value, bool):
        return DataType.BOOL
    if isinstance(value, int):
        return DataType.INT64
    return DataType.COMPLEX128 if isinstance(value, complex) else DataType.DOUBLE
