"""Matrix products whose results do not depend on how their operands lie in memory."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics.threads import Array


def matmul(a: Array, b: Array) -> Array:
    """np.matmul of operands that are first made contiguous.

    BLAS sums in another order for other strides, and a result must not depend on how its operands lie in memory. The
    number of BLAS threads may still change a large product's last bits.
    """
    return np.asarray(np.matmul(np.asarray(a, order="C"), np.asarray(b, order="C")))


__all__ = ["matmul"]
