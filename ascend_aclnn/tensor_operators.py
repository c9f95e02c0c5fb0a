"""Python's operators on Tensors, by the corresponding aclnn operators.

Each is asynchronous on the current stream, and CANN's promotion holds: ``t + 1`` is aclnnAdds, ``t + u`` aclnnAdd.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ascend_aclnn import creation, ops
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.core import tensor as core_tensor
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.tensor import Tensor


class Binary(NamedTuple):
    """The aclnn operators of a Python one, as functions of ``ops``: with a tensor, with a scalar, and further arguments."""

    with_tensor: str
    with_scalar: str
    rest: tuple[Any, ...] = ()
    scalar_first: str = ""  # "" where a scalar on the left becomes a tensor


BINARY = {
    "+": Binary("add", "adds", (1,)),
    "-": Binary("sub", "subs", (1,), scalar_first="rsubs"),
    "*": Binary("mul", "muls"),
    "/": Binary("div", "divs"),
    "//": Binary("floor_divide", "floor_divides"),
    "%": Binary("remainder_tensor_tensor", "remainder_tensor_scalar", scalar_first="remainder_scalar_tensor"),
    "**": Binary("pow_tensor_tensor", "pow_tensor_scalar", scalar_first="pow_scalar_tensor"),
    "&": Binary("bitwise_and_tensor", "bitwise_and_scalar"),
    "|": Binary("bitwise_or_tensor", "bitwise_or_scalar"),
    "^": Binary("bitwise_xor_tensor", "bitwise_xor_scalar"),
    "==": Binary("eq_tensor", "eq_scalar"),
    "!=": Binary("ne_tensor", "ne_scalar"),
    "<": Binary("lt_tensor", "lt_scalar"),
    "<=": Binary("le_tensor", "le_scalar"),
    ">": Binary("gt_tensor", "gt_scalar"),
    ">=": Binary("ge_tensor", "ge_scalar"),
}
COMMUTATIVE = "+*&|^"


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (numbers.Number, np.generic)) or (isinstance(value, np.ndarray) and value.ndim == 0)


def _call(name: str, *arguments: Any) -> Any:
    return getattr(ops, name)(*arguments)


class _AclnnOperators(core_tensor.Operators):
    def binary(self, symbol: str, tensor: Tensor, other: Any, reflected: bool) -> Any:
        row = BINARY[symbol]
        if _is_scalar(other):
            if not reflected or symbol in COMMUTATIVE:
                return _call(row.with_scalar, tensor, other, *row.rest)
            if row.scalar_first in ("remainder_scalar_tensor", "pow_scalar_tensor"):
                return _call(row.scalar_first, other, tensor)
            if row.scalar_first:
                return _call(row.scalar_first, tensor, other, *row.rest)
            other = creation.asarray(other, _scalar_dtype(other, tensor.dtype))
        if isinstance(other, (np.ndarray, list, tuple)):
            other = creation.asarray(other)
        if not isinstance(other, Tensor):
            return NotImplemented
        left, right = (other, tensor) if reflected else (tensor, other)
        return _call(row.with_tensor, left, right, *row.rest)

    def unary(self, symbol: str, tensor: Tensor) -> Any:
        return _call({"-": "neg", "abs": "abs", "~": "bitwise_not"}[symbol], tensor)

    def matmul(self, left: Any, right: Any) -> Any:
        return _call("matmul", left, right, 0)

    def cast(self, tensor: Tensor, dtype: DataType) -> Tensor:
        result: Tensor = _call("cast", tensor, dtype)
        return result

    def to_format(self, tensor: Tensor, format: Format) -> Tensor:
        assert isinstance(tensor.backend, Backend)
        return tensor.backend.convert_format(tensor, format)

    def copy(self, tensor: Tensor) -> Tensor:
        result = creation.empty_like(tensor)
        if tensor.format.private or tensor.dtype.packed:
            result.assign(tensor.numpy())
            return result
        if tensor.size:
            _call("inplace_copy", result, tensor)
        return result

    def index(self, tensor: Tensor, keys: Sequence[Any]) -> Tensor:
        """Boolean and integer indexing: a mask of the tensor's shape, or integer arrays for the leading axes."""
        arrays = [key if isinstance(key, Tensor) else creation.asarray(_index_array(key)) for key in keys]
        mask = arrays[0]
        if mask.dtype is DataType.BOOL:
            if len(arrays) > 1 or mask.shape != tensor.shape:
                raise IndexError(
                    f"a boolean index must be one mask of the tensor's shape {tensor.shape}; it is {mask.shape}"
                )
            return _call("masked_select", tensor, mask)  # type: ignore[no-any-return]
        for array in arrays:
            if array.dtype not in (DataType.INT64, DataType.INT32):
                raise IndexError(f"an index tensor must be BOOL, INT64 or INT32; it is {array.dtype.name}")
        return _call("index", tensor, arrays)  # type: ignore[no-any-return]


def _scalar_dtype(value: Any, dtype: DataType) -> DataType:
    """The data type of a scalar beside a tensor: the tensor's, unless only the scalar is fractional."""
    integer = isinstance(value, (numbers.Integral, np.bool_))
    host = dtype.numpy
    return DataType.FLOAT if not integer and host is not None and host.kind in "biu" else dtype


def _index_array(key: Any) -> Any:
    array = np.asarray(key)
    return array.astype(np.int64) if array.dtype.kind in "iu" or array.size == 0 else array


core_tensor.set_operators(_AclnnOperators())
