"""Matrix products whose results do not depend on how their operands lie in memory."""

from __future__ import annotations

from typing import Optional

import numpy as np

from ascend_aclnn.numerics.threads import Array

# Multiplications from which a product's matrices go to BLAS as they lie. It packs their blocks, transposed or not, into
# the same order, and then sums in one; but OpenBLAS multiplies up to 10^6 on AVX-512, and vectors, without packing.
_PACKED = 1 << 20


def matmul(a: Array, b: Array, out: Optional[Array] = None) -> Array:
    """np.matmul whose result does not depend on strides: operands that BLAS does not pack are made contiguous first.

    The number of BLAS threads may still change a large product's last bits. ``out`` is contiguous and shares no memory
    with the operands.
    """
    packed = a.ndim > 1 and b.ndim > 1 and a.dtype == b.dtype and a.dtype.char in "fd"
    if packed and min(a.shape[-2], b.shape[-1]) > 1 and a.shape[-2] * a.shape[-1] * b.shape[-1] >= _PACKED:
        a = a if _is_matrix(a) else np.ascontiguousarray(a)
        # Operands that share memory may be transposes of each other, which NumPy multiplies differently.
        b = b if _is_matrix(b) and not np.may_share_memory(a, b) else np.array(b, order="C")
    else:
        a, b = np.asarray(a, order="C"), np.asarray(b, order="C")
    return np.asarray(np.matmul(a, b, out=out))


def _is_matrix(x: Array) -> bool:
    """Whether BLAS can take its matrices as they lie: the rows or the columns are contiguous and do not overlap."""
    (rows, columns), (down, across), size = x.shape[-2:], x.strides[-2:], x.itemsize
    if down % size or across % size or not x.flags.aligned:
        return False
    return (across == size and down >= columns * size) or (down == size and across >= rows * size)


__all__ = ["matmul"]
