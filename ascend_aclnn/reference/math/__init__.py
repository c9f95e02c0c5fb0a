"""References of ops-math/math, by kind of operator."""

from ascend_aclnn.reference.math import (
    arithmetic,
    comparison,
    creation,
    elementwise,
    linalg,
    reduction,
    sorting,
    special,
)

__all__ = ["arithmetic", "comparison", "creation", "elementwise", "linalg", "reduction", "sorting", "special"]
