"""acl.util: addresses of host memory, and host memory at addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def bytes_to_ptr(data: bytes) -> int:
    """The address of bytes; the caller keeps them alive."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def ptr_to_bytes(pointer: int, size: int) -> bytes:
    """A copy of host memory."""
    return ctypes.string_at(pointer, size)


def numpy_to_ptr(array: npt.NDArray[Any]) -> int:
    """The address of a contiguous ndarray; the caller keeps it alive. ValueError for another one."""
    if not array.flags.c_contiguous:
        raise ValueError("the array is not contiguous; numpy.ascontiguousarray makes a copy that is")
    return array.ctypes.data


numpy_contiguous_to_ptr = numpy_to_ptr


def ptr_to_numpy(pointer: int, shape: Sequence[int], dtype: Any) -> npt.NDArray[Any]:
    """Host memory as an ndarray, without a copy. ``dtype`` is a NumPy dtype or its number (``numpy.dtype.num``)."""
    numpy_dtype: np.dtype[Any] = _BY_NUMBER[dtype] if isinstance(dtype, int) else np.dtype(dtype)
    size = int(np.prod(shape)) * numpy_dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(pointer)
    return np.frombuffer(memory, numpy_dtype).reshape(shape)


_BY_NUMBER: dict[int, np.dtype[Any]] = {np.dtype(letter).num: np.dtype(letter) for letter in "?bBhHiIlLqQefdFD"}
