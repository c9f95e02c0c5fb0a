"""Inverse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array, DataError, sum_type
from ascend_aclnn.reference.declare import reference


@reference("aclnnInverse")
def inverse(x: Array) -> Any:
    """The inverse of each matrix, computed in double precision."""
    if x.size == 0:
        return x
    try:
        return np.linalg.inv(x.astype(sum_type(x.dtype)))
    except np.linalg.LinAlgError:
        raise DataError("self", "holds a singular matrix, which has no inverse") from None
