"""What the rules of grouped products share."""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.rules.language import Call, Shape

NZ = (Format.FRACTAL_NZ, Format.FRACTAL_NZ_C0_16, Format.FRACTAL_NZ_C0_32)


def transposed(tensor: TensorSpec) -> bool:
    """The last two axes are stored in the other order (and are not both of size 1)."""
    if tensor.ndim < 2:
        return False
    m, n = tensor.shape[-2:]
    if (tensor.strides[-2], tensor.strides[-1]) != (1, m) or (m, n) == (1, 1):
        return False
    step = m * n
    for size, stride in zip(tensor.shape[-3::-1], tensor.strides[-3::-1]):
        if stride != step:
            return False
        step *= size
    return True


class Operand(NamedTuple):
    """A tensor with its shape and dtype in elements: an INT32 may hold eight INT4."""

    tensor: TensorSpec
    shape: Shape
    dtype: DataType

    @property
    def transposed(self) -> bool:
        return transposed(self.tensor)


def operand(tensor: TensorSpec, unpack: bool) -> Operand:
    """``unpack``: whether the operator takes INT32 as packed INT4."""
    if unpack and tensor.dtype is DataType.INT32 and tensor.ndim:
        axis = tensor.ndim - (2 if transposed(tensor) else 1)
        shape = tuple(n * 8 if i == axis else n for i, n in enumerate(tensor.shape))
        return Operand(tensor, shape, DataType.INT4)
    return Operand(tensor, tensor.shape, tensor.dtype)


def optional_list(call: Call, name: str) -> Optional[list[TensorSpec]]:
    """An optional list; one that is empty, starts with a null, or has one tensor of no elements counts as none."""
    if name not in call.operator.positions or not call[name]:
        return None
    tensors: list[TensorSpec] = call[name]
    if tensors[0] is None or (len(tensors) == 1 and tensors[0].shape == (0,)):
        return None
    return call.items(name)


def nz_storage(call: Call, name: str, k: int, n: int, *, transpose: bool, k0: int, n0: int) -> None:
    """The storage of a FRACTAL_NZ weight has as many elements as its tiles (of packed INT4: eight to an INT32)."""
    tensor = call[name]
    tiles = math.prod(tensor.shape[:-2]) * -(-k // k0) * -(-n // n0)
    wanted = tiles * 16 * (k0 if transpose else n0)
    got = math.prod(tensor.storage_shape) * (8 if tensor.dtype is DataType.INT32 else 1)
    call.require(got == wanted, name, f"has storage {tensor.storage_shape} of {got} elements; it must have {wanted}")
