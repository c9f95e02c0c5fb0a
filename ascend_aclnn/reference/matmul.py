"""Matrix products."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import Array, round_into, widen
from ascend_aclnn.reference import reference

_USE_FP16 = 2  # cubeMathType


@reference("aclnnMm", raw=True)
def mm(a: Array, b: Array, cube_math_type: int, *, out: tuple[Array]) -> None:
    """a @ b, accumulated in float32 and rounded once.

    cubeMathType only allows the hardware to be less exact (HFLOAT32); here it changes nothing, except that USE_FP16
    rounds the operands to float16, whose range is smaller. The order of summation is BLAS's, not the cube unit's.
    """
    with np.errstate(all="ignore"):
        if cube_math_type == _USE_FP16:
            a, b = a.astype(np.float16), b.astype(np.float16)
        product = np.matmul(widen(a), widen(b))
    round_into(out[0], product)
