"""Tensors in files, in the format of safetensors: 8 bytes with the header's length, a JSON header, the elements.

https://github.com/huggingface/safetensors describes it. Data types that it has no name for (HIFLOAT8, INT4, ...) are
stored as U8, with their name in the file's ``__metadata__`` under ``ascend_aclnn.dtypes``; other programs read the codes.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn import creation
from ascend_aclnn.core import files, torch_interop
from ascend_aclnn.core.dtypes import DataType, as_datatype
from ascend_aclnn.core.stored import host_dtype
from ascend_aclnn.core.tensor import Tensor

NAMES = {
    DataType.BOOL: "BOOL",
    DataType.UINT8: "U8",
    DataType.INT8: "I8",
    DataType.UINT16: "U16",
    DataType.INT16: "I16",
    DataType.UINT32: "U32",
    DataType.INT32: "I32",
    DataType.UINT64: "U64",
    DataType.INT64: "I64",
    DataType.FLOAT16: "F16",
    DataType.BF16: "BF16",
    DataType.FLOAT: "F32",
    DataType.DOUBLE: "F64",
    DataType.COMPLEX64: "C64",
    DataType.FLOAT8_E4M3FN: "F8_E4M3",
    DataType.FLOAT8_E5M2: "F8_E5M2",
    DataType.FLOAT8_E8M0: "F8_E8M0",
}
_DATA_TYPES = {name: dtype for dtype, name in NAMES.items()}
_DTYPES = "ascend_aclnn.dtypes"
_SINGLE = "ascend_aclnn.single"  # the name under which a tensor without one is stored
_LONGEST_HEADER = 100_000_000  # what safetensors itself accepts

Array = npt.NDArray[Any]


def save(file: Union[str, os.PathLike[str]], tensors: Any) -> None:
    """Writes Tensors, ndarrays or host torch tensors: a mapping by name, or a single one.

    What was there before is replaced when all is written. TypeError for what is neither.
    """
    header: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    if not isinstance(tensors, Mapping):
        if not (isinstance(tensors, (Tensor, np.ndarray)) or torch_interop.is_torch_tensor(tensors)):
            kind = type(tensors).__name__
            raise TypeError(f"tensors is a {kind}; it must be a Tensor, or a mapping of names to Tensors")
        metadata[_SINGLE] = "tensor"
        tensors = {"tensor": tensors}
    codes: dict[str, str] = {}
    arrays: list[Array] = []
    end = 0
    for name, value in tensors.items():
        array = _host(name, value)
        dtype = value.dtype if isinstance(value, Tensor) else as_datatype(array.dtype)
        if dtype not in NAMES:
            if array.itemsize != 1:
                raise TypeError(f"{name} is {dtype.name}, which a file of safetensors cannot hold")
            codes[name] = dtype.name
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": NAMES.get(dtype, "U8"), "shape": list(array.shape), "data_offsets": [begin, end]}
        arrays.append(array)
    if codes:
        metadata[_DTYPES] = json.dumps(codes)
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    part = Path(f"{os.fspath(file)}.{os.getpid()}.part")
    try:
        with open(part, "wb") as stream:
            stream.write(struct.pack("<Q", len(text)) + text)
            for array in arrays:
                stream.write(array.reshape(-1).view(np.uint8).data)
        files.move(part, Path(file))
    finally:
        files.discard(part)


def load(file: Union[str, os.PathLike[str]]) -> Any:
    """Reads a file onto the current device: a dict of Tensors by name, or the Tensor that was saved alone.

    ValueError for a file that is not safetensors'.
    """
    with open(file, "rb") as stream:
        data = stream.read()
    header, start = _header(file, data)
    metadata = header.pop("__metadata__", {})
    codes = json.loads(metadata.get(_DTYPES, "{}"))
    tensors: dict[str, Tensor] = {}
    for name, row in header.items():
        try:
            dtype = DataType[codes[name]] if name in codes else _DATA_TYPES[row["dtype"]]
            shape, (begin, end) = tuple(row["shape"]), row["data_offsets"]
            kind = host_dtype(dtype)
            whole = 0 <= begin <= end <= len(data) - start and end - begin == math.prod(shape) * kind.itemsize
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(file)}: the entry of {name!r} is {row!r} ({error!r})") from None
        if not whole:
            raise ValueError(
                f"{os.fspath(file)}: {name!r} is {shape} of {dtype.name} at bytes {begin} to {end}; that does not fit"
            )
        values = np.frombuffer(data, kind, math.prod(shape), start + begin).reshape(shape)
        tensors[name] = creation.asarray(values, dtype)
    return tensors[metadata[_SINGLE]] if metadata.get(_SINGLE) in tensors else tensors


def _host(name: str, value: Any) -> Array:
    if torch_interop.is_torch_tensor(value):
        value = torch_interop.host_array(value)
    array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"{name} is a {type(value).__name__}; it must be a Tensor, an ndarray or a torch tensor")
    return np.ascontiguousarray(array).reshape(array.shape)


def _header(file: Union[str, os.PathLike[str]], data: bytes) -> tuple[dict[str, Any], int]:
    """The JSON header, and where the elements begin."""
    length = struct.unpack_from("<Q", data)[0] if len(data) >= 8 else -1
    if not 0 <= length <= min(len(data) - 8, _LONGEST_HEADER):
        raise ValueError(f"{os.fspath(file)} is no file of safetensors: its first 8 bytes are no header's length")
    try:
        header = json.loads(data[8 : 8 + length])
    except ValueError as error:
        raise ValueError(f"{os.fspath(file)} is no file of safetensors: its header is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise ValueError(f"{os.fspath(file)} is no file of safetensors: its header is a {type(header).__name__}")
    return header, 8 + length
