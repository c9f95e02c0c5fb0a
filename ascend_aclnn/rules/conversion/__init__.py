"""Rules of ops-math/conversion, by what an operator does with the elements it is given."""

from ascend_aclnn.rules.conversion import filling, joining, layout, padding, slicing

__all__ = ["filling", "joining", "layout", "padding", "slicing"]
