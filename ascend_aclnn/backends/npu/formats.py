"""FRACTAL_NZ on a device: by aclnnNpuFormatCast where the installed CANN has it, else by aclnnTransMatmulWeight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_aclnn import catalog
from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.core.errors import UnsupportedOperator
from ascend_aclnn.core.spec import TensorSpec, contiguous_strides
from ascend_aclnn.core.tensor import Tensor

if TYPE_CHECKING:
    from ascend_aclnn.backends.npu.backend import NpuBackend


def convert(backend: NpuBackend, tensor: Tensor, format: Format) -> Tensor:
    """A new tensor with the same values in ND or FRACTAL_NZ, made on the current stream."""
    spec = TensorSpec.of(tensor.shape, tensor.dtype, format=format)
    made = Tensor.on(backend.allocate(spec.storage_nbytes, backend.current_device()), spec)
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
