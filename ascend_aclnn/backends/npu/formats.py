"""FRACTAL_NZ on a device: by aclnnNpuFormatCast where the installed CANN has it, else by aclnnTransMatmulWeight."""

from __future__ import annotations

from ascend_aclnn import catalog
from ascend_aclnn.backends.npu.executor import Launcher
from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.core.errors import UnsupportedOperator
from ascend_aclnn.core.spec import TensorSpec, contiguous_strides
from ascend_aclnn.core.tensor import Tensor


def convert(launcher: Launcher, tensor: Tensor, format: Format) -> Tensor:
    """A new tensor with the same values in ND or FRACTAL_NZ, made on the current stream."""
    spec = TensorSpec.of(tensor.shape, tensor.dtype, format=format)
    session = launcher.session
    converted = Tensor.on(session.allocate(spec.storage_nbytes, session.runtime.current().index), spec)
    cast = catalog.get("aclnnNpuFormatCast")
    try:
        session.libraries.operator(cast)
    except UnsupportedOperator:
        if format is not Format.FRACTAL_NZ:
            raise
        _transform_weight(launcher, tensor, converted)
    else:
        launcher.run(cast, [tensor, converted], None)
    return converted


def _transform_weight(launcher: Launcher, tensor: Tensor, converted: Tensor) -> None:
    """CANN 8.1.RC1: the weight is copied to memory of the blocked size, whose contents the operator then rearranges."""
    plain = Tensor(converted.storage, tensor.shape, tensor.dtype, contiguous_strides(tensor.shape), 0, Format.ND)
    launcher.run(catalog.get("aclnnInplaceCopy"), [plain, tensor], None)
    launcher.run(catalog.get("aclnnTransMatmulWeight"), [plain], None)
