"""sgl-kernel-npu's own operators: prototypes, rules and references, by what its headers and kernels say.

Importing the package declares all of them: ``ascend_aclnn.ops`` has their functions then.

ascend-aclnn emulator run --soc Ascend910_9391 --operators sgl_kernel_npu_operators -- PROGRAM
"""

from __future__ import annotations

from sgl_kernel_npu_operators import attention, experts

__all__ = ["attention", "experts"]
