"""References of ops-math/math, by kind of operator."""

from ascend_aclnn.reference.math import arithmetic, comparison, elementwise

__all__ = ["arithmetic", "comparison", "elementwise"]
