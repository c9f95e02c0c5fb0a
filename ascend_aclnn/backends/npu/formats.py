"""FRACTAL_NZ on a device: by aclnnNpuFormatCast where the installed CANN has it, else by aclnnTransMatmulWeight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_aclnn import catalog
from ascend_aclnn.dtypes import Format
from ascend_aclnn.errors import UnsupportedOperator
from ascend_aclnn.layouts import nz_shape
from ascend_aclnn.tensor import Tensor, contiguous_strides, empty

if TYPE_CHECKING:
    from ascend_aclnn.backends.npu.backend import NpuBackend


def convert(backend: NpuBackend, tensor: Tensor, format: Format) -> Tensor:
    """A new tensor with the same values in ND or FRACTAL_NZ, made on the current stream."""
    physical = nz_shape(tensor.shape, tensor.dtype) if format is Format.FRACTAL_NZ else None
    made = empty(tensor.shape, tensor.dtype, format=format, storage_shape=physical)
    cast = catalog.get("aclnnNpuFormatCast")
    try:
        backend.operator_library(cast)
    except UnsupportedOperator:
        if format is not Format.FRACTAL_NZ:
            raise
        _transform_weight(backend, tensor, made)
    else:
        backend.run(cast, [tensor, made], None)
    return made


def _transform_weight(backend: NpuBackend, tensor: Tensor, made: Tensor) -> None:
    """CANN 8.1.RC1: the weight is copied to memory of the blocked size, whose contents the operator then rearranges."""
    plain = Tensor(made.storage, tensor.shape, tensor.dtype, contiguous_strides(tensor.shape), 0, Format.ND)
    backend.run(catalog.get("aclnnInplaceCopy"), [plain, tensor], None)
    backend.run(catalog.get("aclnnTransMatmulWeight"), [plain], None)
