"""Rules of ops-math/math, by kind of operator."""

from ascend_aclnn.rules.math import linalg, reduction, sorting

__all__ = ["linalg", "reduction", "sorting"]
