"""NumPy references: for each operator one pure function on arrays, found by the operator's family.

``reference/<family>.py``, or a package of that name, holds the operators of a family ("ops-nn/norm" -> ``norm``). A module
registers its functions with

    @reference("aclnnRmsNorm")
    def rms_norm(x, gamma, epsilon): ...
        return y, rstd

The function takes the in and inout parameters in C order and returns the inout and out values in C order (one bare,
several as a tuple, None for one that is not wanted). Low-precision floats arrive widened to float32, aclScalars as
Python numbers, absent optional tensors as None; what is returned is rounded once to the declared output dtype. With
``raw=True`` the function gets arrays as they are stored and a tuple ``out`` of destination arrays to fill (None where
an optional output is skipped): for operators whose speed or memory needs work in blocks. A destination never overlaps
an input unless the parameter is inout. With ``channels_first=True`` tensors whose format is NHWC or NDHWC arrive, and are
returned, with their channels in axis 1; with product names ("950") on these products only.

Bad data (an index out of range) is refused with ``DataError``; any other exception is a fault of the reference and
reaches the caller as it is.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from ascend_aclnn import catalog, registry
from ascend_aclnn.catalog import Operator
from ascend_aclnn.reference.declare import REFERENCES, DataError, Reference, reference


def find(operator: Operator) -> Optional[Reference]:
    """The reference of an operator, None where there is none."""
    return registry.find(__name__, operator, REFERENCES)


def function_of(name: str) -> Callable[..., Any]:
    """The function of an operator's reference by C name ("aclnnMoeInitRoutingV3"), for one that does the same and more.

    It takes what the decorated function takes. ValueError where the operator has no reference.
    """
    declared = find(catalog.get(name))
    if declared is None:
        raise ValueError(f"{name} has no reference")
    return declared.function


def count() -> int:
    """How many aclnn operators have a reference."""
    registry.load_all(__name__)
    return sum(name.startswith("acl") for name in REFERENCES)


__all__ = ["DataError", "Reference", "count", "find", "function_of", "reference"]
