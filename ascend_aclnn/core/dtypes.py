"""The one table that relates CANN's data types and formats to NumPy's."""

from __future__ import annotations

import enum
import functools
from collections.abc import Hashable
from typing import Any, Optional, Union, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ascend_aclnn.core import hifloat8


class DataType(enum.IntEnum):
    """aclDataType: CANN's values and names, less the ``ACL_`` prefix."""

    DT_UNDEFINED = -1
    FLOAT = 0
    FLOAT16 = 1
    INT8 = 2
    INT32 = 3
    UINT8 = 4
    INT16 = 6
    UINT16 = 7
    UINT32 = 8
    INT64 = 9
    UINT64 = 10
    DOUBLE = 11
    BOOL = 12
    STRING = 13
    COMPLEX64 = 16
    COMPLEX128 = 17
    BF16 = 27
    INT4 = 29
    UINT1 = 30
    COMPLEX32 = 33
    HIFLOAT8 = 34
    FLOAT8_E5M2 = 35
    FLOAT8_E4M3FN = 36
    FLOAT8_E8M0 = 37
    FLOAT6_E3M2 = 38
    FLOAT6_E2M3 = 39
    FLOAT4_E2M1 = 40
    FLOAT4_E1M2 = 41

    __hash__ = int.__hash__  # Enum's own runs in Python, and these are the keys of every call

    def __eq__(self, other: object) -> bool:
        """Equal to itself, its number, its name ("FLOAT16", "float16"), and the NumPy dtype (or type) of its host arrays."""
        if self is other:
            return True
        if isinstance(other, int):
            return int(self) == int(other)
        if isinstance(other, (np.dtype, type)):
            try:
                return self.numpy == np.dtype(other)
            except TypeError:
                return False
        if isinstance(other, str):
            return other == self.name or (self.numpy is not None and other == self.numpy.name)
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __str__(self) -> str:
        return f"DataType.{self.name}"  # as repr-like on every Python: IntEnum's differs

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    @property
    def dtype(self) -> np.dtype[Any]:
        """What ``np.dtype(member)`` gives: the dtype of host arrays; TypeError where there is none."""
        if self.numpy is None:
            raise TypeError(f"{self.name} has no NumPy dtype")
        return self.numpy

    @property
    def bits(self) -> int:
        """Bits per element in device memory; 0 where CANN gives none (undefined, string)."""
        return _BITS.get(self, 0)

    @property
    def numpy(self) -> Optional[np.dtype[Any]]:
        """The NumPy (or ml_dtypes) dtype of host arrays, None where there is none."""
        return _NUMPY.get(self)

    @property
    def packed(self) -> bool:
        """True where device memory packs several elements into a byte and host arrays do not."""
        return 0 < self.bits < 8


class Format(enum.IntEnum):
    """aclFormat: CANN's values and names, less the ``ACL_FORMAT_`` / ``ACL_`` prefix."""

    UNDEFINED = -1
    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    NC1HWC0_C04 = 12
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33
    NC = 35
    NCL = 47
    FRACTAL_NZ_C0_16 = 50
    FRACTAL_NZ_C0_32 = 51
    FRACTAL_NZ_C0_2 = 52
    FRACTAL_NZ_C0_4 = 53
    FRACTAL_NZ_C0_8 = 54

    __hash__ = int.__hash__

    @property
    def private(self) -> bool:
        """True for blocked layouts whose storage shape differs from the view shape."""
        return self in _PRIVATE


# FRACTAL_NZ and its kin: blocks of 16 rows, as wide as the storage shape says.
NZ_FORMATS = frozenset(
    {
        Format.FRACTAL_NZ,
        Format.FRACTAL_NZ_C0_16,
        Format.FRACTAL_NZ_C0_32,
        Format.FRACTAL_NZ_C0_2,
        Format.FRACTAL_NZ_C0_4,
        Format.FRACTAL_NZ_C0_8,
    }
)
KERNEL_FORMATS = frozenset({Format.FRACTAL_Z, Format.FRACTAL_Z_3D})  # blocks of kernels by channels

_PRIVATE = (
    NZ_FORMATS
    | KERNEL_FORMATS
    | {
        Format.NC1HWC0,
        Format.NC1HWC0_C04,
        Format.NDC1HWC0,
    }
)

# Host dtypes. COMPLEX32 and FLOAT4_E1M2 have none; HIFLOAT8 has a dtype of this package for its codes.
_NUMPY: dict[DataType, np.dtype[Any]] = {
    DataType.FLOAT: np.dtype(np.float32),
    DataType.FLOAT16: np.dtype(np.float16),
    DataType.INT8: np.dtype(np.int8),
    DataType.INT32: np.dtype(np.int32),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.INT16: np.dtype(np.int16),
    DataType.UINT16: np.dtype(np.uint16),
    DataType.UINT32: np.dtype(np.uint32),
    DataType.INT64: np.dtype(np.int64),
    DataType.UINT64: np.dtype(np.uint64),
    DataType.DOUBLE: np.dtype(np.float64),
    DataType.BOOL: np.dtype(np.bool_),
    DataType.COMPLEX64: np.dtype(np.complex64),
    DataType.COMPLEX128: np.dtype(np.complex128),
    DataType.BF16: np.dtype(ml_dtypes.bfloat16),
    DataType.INT4: np.dtype(ml_dtypes.int4),
    DataType.HIFLOAT8: hifloat8.DTYPE,
    DataType.FLOAT8_E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DataType.FLOAT8_E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
}
# Names that older ml_dtypes releases lack.
for _member, _name in (
    (DataType.UINT1, "uint1"),
    (DataType.FLOAT8_E8M0, "float8_e8m0fnu"),
    (DataType.FLOAT6_E3M2, "float6_e3m2fn"),
    (DataType.FLOAT6_E2M3, "float6_e2m3fn"),
    (DataType.FLOAT4_E2M1, "float4_e2m1fn"),
):
    if hasattr(ml_dtypes, _name):
        _NUMPY[_member] = np.dtype(getattr(ml_dtypes, _name))

_FROM_NUMPY = {dtype: member for member, dtype in _NUMPY.items()}

_BITS = {member: 8 * dtype.itemsize for member, dtype in _NUMPY.items()}
_BITS.update(
    {
        DataType.INT4: 4,
        DataType.UINT1: 1,
        DataType.COMPLEX32: 32,
        DataType.FLOAT8_E8M0: 8,
        DataType.FLOAT6_E3M2: 6,
        DataType.FLOAT6_E2M3: 6,
        DataType.FLOAT4_E2M1: 4,
        DataType.FLOAT4_E1M2: 4,
    }
)

# Their names in other packages, for the hint of an error.
_ALIASES = {
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "bf16": "bfloat16",
    "long": "int64",
}

DTypeLike = Union[DataType, npt.DTypeLike]


def as_datatype(dtype: DTypeLike) -> DataType:
    """The DataType that a NumPy / ml_dtypes dtype (or a DataType) stands for; TypeError where there is none."""
    if isinstance(dtype, DataType):
        return dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "V":  # the most frequent case; bytes may equal HIFLOAT8's dtype
        known = _FROM_NUMPY.get(dtype)
        if known is not None:
            return known
    if isinstance(dtype, str) and dtype in DataType.__members__:
        return DataType[dtype]
    if type(dtype).__module__ == "torch":
        return _of_torch(cast(Hashable, dtype))
    try:
        numpy_dtype = np.dtype(dtype)
    except TypeError:
        raise TypeError(_unknown_dtype(dtype)) from None
    if numpy_dtype.type is np.void:  # bytes, which equal the dtype of HIFLOAT8 where they come one by one
        raise TypeError(
            f"CANN has no data type for NumPy's {numpy_dtype}, which np.load makes of bfloat16 and the like; name the data "
            'type: asarray(x, "bfloat16"), or keep tensors by aclnn.save and aclnn.load'
        )
    member = _FROM_NUMPY.get(numpy_dtype)
    if member is None:
        member = _FROM_NUMPY.get(numpy_dtype.newbyteorder("="))  # of a foreign byte order: its values are copied
    if member is None:
        raise TypeError(f"CANN has no data type for NumPy's {numpy_dtype}")
    return member


@functools.cache
def _of_torch(dtype: Hashable) -> DataType:
    """The DataType of a torch.dtype, whose names are NumPy's and ml_dtypes'."""
    name = str(dtype)[len("torch.") :]
    if name == "complex32":
        return DataType.COMPLEX32
    datatype = next((member for member, numpy_dtype in _NUMPY.items() if numpy_dtype.name == name), None)
    if datatype is None:
        raise TypeError(f"CANN has no data type for {dtype}")
    return datatype


def _unknown_dtype(dtype: object) -> str:
    names = [*DataType.__members__, *(d.name for d in _NUMPY.values())]
    import difflib  # for errors only

    close = difflib.get_close_matches(_ALIASES.get(str(dtype).lower(), str(dtype)), names, 1, 0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"dtype is {dtype!r}; it must be a NumPy or ml_dtypes dtype, or a DataType{hint}"


def as_format(format: Union[Format, str, int]) -> Format:
    """A Format from a member, its name or its value."""
    if isinstance(format, str):
        try:
            return Format[format]
        except KeyError:
            raise ValueError(f"unknown format {format!r}; known: {', '.join(Format.__members__)}") from None
    return Format(format)
