"""Python's operators on Tensors and their methods, by the corresponding aclnn operators.

Each is asynchronous on the current stream, and CANN's promotion holds: ``t + 1`` is aclnnAdds, ``t + u`` aclnnAdd.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn import catalog, creation, ops
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.core import array_methods
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
    "<<": Binary("left_shift", ""),
    ">>": Binary("right_shift", ""),
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


class _AclnnOperators(array_methods.Operators):
    def binary(self, symbol: str, tensor: Tensor, other: Any, reflected: bool) -> Any:
        row = BINARY[symbol]
        if _is_scalar(other):
            if not row.with_scalar:
                other = creation.asarray(other, tensor.dtype)
            elif not reflected or symbol in COMMUTATIVE:
                return _call(row.with_scalar, tensor, other, *row.rest)
            elif row.scalar_first in ("remainder_scalar_tensor", "pow_scalar_tensor"):
                return _call(row.scalar_first, other, tensor)
            elif row.scalar_first:
                return _call(row.scalar_first, tensor, other, *row.rest)
            else:
                other = creation.asarray(other, _scalar_dtype(other, tensor.dtype))
        if isinstance(other, (np.ndarray, list, tuple)):
            other = creation.asarray(other)
        if not isinstance(other, Tensor):
            return NotImplemented
        left, right = (other, tensor) if reflected else (tensor, other)
        return _call(row.with_tensor, left, right, *row.rest)

    def unary(self, symbol: str, tensor: Tensor) -> Any:
        if symbol == "-" and tensor.dtype is DataType.UINT8:
            return ~tensor + 1  # modulo 256, as NumPy's, which aclnnNeg does not do
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
        arrays = _index_tensors(tensor, keys)
        if arrays[0].dtype is DataType.BOOL:
            return _call("masked_select", tensor, arrays[0])  # type: ignore[no-any-return]
        return _call("index", tensor, arrays)  # type: ignore[no-any-return]

    def set_index(self, tensor: Tensor, keys: Sequence[Any], values: Any) -> None:
        arrays = _index_tensors(tensor, keys)
        if arrays[0].dtype is DataType.BOOL and _is_scalar(values):
            _call("inplace_masked_fill_scalar", tensor, arrays[0], values)
            return
        if not isinstance(values, Tensor):
            values = creation.asarray(values, tensor.dtype)
        _call("index_put_impl", tensor, arrays, values if values.dtype is tensor.dtype else values.astype(tensor.dtype))

    def reduce(self, name: str, tensor: Tensor, axes: Optional[tuple[int, ...]], keepdims: bool, option: Any) -> Tensor:
        if name in ("argmax", "argmin"):
            return _position(f"arg_{name[3:]}", tensor, axes, keepdims)
        if name in ("any", "all") and tensor.dtype is not DataType.BOOL:
            tensor = tensor != 0
        if name == "mean" and _is_integral(tensor.dtype):
            tensor = tensor.astype(DataType.FLOAT)
        if name in ("sum", "prod") and option is not None:
            tensor = tensor.astype(option)
        along = list(range(tensor.ndim) if axes is None else axes)
        if name == "prod":
            return _product(tensor, along, keepdims, option)
        if not along:  # no axis is reduced; operators take that for all
            lone = tensor.reshape(*tensor.shape, 1) if tensor.is_contiguous else tensor.copy().reshape(*tensor.shape, 1)
            return self.reduce(name, lone, (tensor.ndim,), False, option)
        if name == "sum":
            return _call("reduce_sum", tensor, along, keepdims, option)  # type: ignore[no-any-return]
        if name in ("std", "var") and tensor.dtype is DataType.DOUBLE:  # which aclnnStd and aclnnVar do not take
            centred = tensor - tensor.mean(tuple(along), keepdims=True)
            count = math.prod(tensor.shape[axis] for axis in along) - option
            variance = (centred * centred).sum(tuple(along), keepdims=keepdims) / (count if count > 0 else math.nan)
            return _call("sqrt", variance) if name == "std" else variance
        if name in ("std", "var"):
            function = "std" if name == "std" else "var_correction"
            return _call(function, tensor, along, option, keepdims)  # type: ignore[no-any-return]
        if name in ("max", "min"):
            return _call(f"a{name}", tensor, along, keepdims)  # type: ignore[no-any-return]
        return _call(name, tensor, along, keepdims)  # type: ignore[no-any-return]

    def in_place_of(self, function: str) -> str:
        names = catalog.other_names().get(function, "").split() or ([function] if function in dir(ops) else [])
        return " or ".join(f"ops.{name}(x)" for name in names)

    def namespace(self, api_version: Optional[str]) -> Any:
        from ascend_aclnn import array_api

        if api_version not in (None, *array_api.VERSIONS):
            raise ValueError(f"api_version is {api_version!r}; it must be one of {', '.join(array_api.VERSIONS)}")
        return array_api


def _is_integral(dtype: DataType) -> bool:
    return dtype.numpy is not None and dtype.numpy.kind in "biu"


def _position(name: str, tensor: Tensor, axes: Optional[tuple[int, ...]], keepdims: bool) -> Tensor:
    """The index of the largest or smallest element, along an axis or in the flattened tensor."""
    if tensor.dtype is DataType.BOOL:
        tensor = tensor.astype(DataType.INT32)
    if axes is not None:
        return _call(name, tensor, axes[0], keepdims)  # type: ignore[no-any-return]
    result: Tensor = _call(name, tensor.flatten(), 0, False)
    return result.reshape([1] * tensor.ndim) if keepdims else result


def _product(tensor: Tensor, along: list[int], keepdims: bool, dtype: Any) -> Tensor:
    if len(along) == tensor.ndim and not keepdims:
        return _call("prod", tensor, dtype)  # type: ignore[no-any-return]
    if not along and _is_integral(tensor.dtype) and dtype is None:
        return tensor.astype(DataType.INT64)
    for axis in sorted(along, reverse=True):
        tensor = _call("prod_dim", tensor, axis, keepdims, dtype)
    return tensor if along else tensor.copy()


def _scalar_dtype(value: Any, dtype: DataType) -> DataType:
    """The data type of a scalar beside a tensor: the tensor's, unless only the scalar is fractional."""
    integer = isinstance(value, (numbers.Integral, np.bool_))
    host = dtype.numpy
    return DataType.FLOAT if not integer and host is not None and host.kind in "biu" else dtype


def _index_tensors(tensor: Tensor, keys: Sequence[Any]) -> list[Tensor]:
    """The arrays of an index as Tensors; IndexError for what is no mask of the whole tensor and no array of integers."""
    arrays = [key if isinstance(key, Tensor) else creation.asarray(_index_array(key)) for key in keys]
    mask = arrays[0]
    if mask.dtype is DataType.BOOL:
        if len(arrays) > 1 or mask.shape != tensor.shape:
            raise IndexError(
                f"a boolean index must be one mask of the tensor's shape {tensor.shape}; it is {mask.shape}"
            )
        return arrays
    for array in arrays:
        if array.dtype not in (DataType.INT64, DataType.INT32):
            raise IndexError(f"an index tensor must be BOOL, INT64 or INT32; it is {array.dtype.name}")
    return arrays


def _index_array(key: Any) -> Any:
    array = np.asarray(key)
    return array.astype(np.int64) if array.dtype.kind in "iu" or array.size == 0 else array


array_methods.set_operators(_AclnnOperators())
