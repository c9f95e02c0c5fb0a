"""References of ops-transformer/experimental/svd, by LAPACK's factorisations."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference.declare import reference


@reference("aclnnTsqr")
def tsqr(a: Array, block_size: int) -> tuple[Array, Array]:
    """Q and R: blocks of rows are factored, then pairs of their R, up to one; signs are those of this tree of reflections."""
    *lead, m, n = a.shape
    rows = block_size or (1024 if m // 4 > 1024 else max(16, 2 * n))
    q, r = np.linalg.qr(a.reshape(*lead, m // rows, rows, n))
    q = q.reshape(*lead, m, n)
    while r.shape[-3] > 1:
        pairs, r = np.linalg.qr(r.reshape(*lead, r.shape[-3] // 2, 2 * n, n))
        factors = pairs.reshape(*lead, -1, n, n)  # of what each half of a pair stands for
        q = (q.reshape(*lead, factors.shape[-3], -1, n) @ factors).reshape(*lead, m, n)
    return q, r[..., 0, :, :]


@reference("aclnnJacobi")
def jacobi(a: Array, iterations: int) -> tuple[Array, Array, Array]:
    """Of a = U diag(s) V: U transposed, s in descending order, V.

    As rotations that have converged find them; what fewer iterations leave over, and which of two opposite vectors
    comes, depend on how many cores there are.
    """
    u, s, v = np.linalg.svd(a, full_matrices=False)
    return np.swapaxes(u, -1, -2), s, v
