"""What the rules of grouped products share."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.rules.language import *


class Operand(NamedTuple):
    """A tensor with its shape and dtype in elements: an INT32 may hold eight INT4."""

    tensor: TensorSpec
    shape: Shape
    dtype: DataType

    @property
    def transposed(self) -> bool:
        return is_transposed(self.tensor)


def operand(tensor: TensorSpec, unpack: bool) -> Operand:
    """``unpack``: whether the operator takes INT32 as packed INT4."""
    if unpack and tensor.dtype is DataType.INT32 and tensor.ndim:
        axis = tensor.ndim - (2 if is_transposed(tensor) else 1)
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
