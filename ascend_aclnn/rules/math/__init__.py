"""Rules of ops-math/math, by kind of operator."""

from ascend_aclnn.rules.math import arithmetic, comparison, elementwise, linalg, reduction, sorting

__all__ = ["arithmetic", "comparison", "elementwise", "linalg", "reduction", "sorting"]
