"""Results that are rounded wrongly, which no tolerance shows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_ROUNDED = ("float16", "bfloat16")  # results that are rounded once, from wider numbers
_ROUNDED_ALWAYS = re.compile("aclnn(Inplace)?(Add|Sub|Mul)s?")  # operators whose float32 results are, too

# Of results that differ from the golden within the standard: how many must, and how many to one side, for it to be a fault.
_DIFFERING, _FEWEST, _SIDE = 0.25, 16, 0.97
ENOUGH = 64  # elements of which a wrong rounding, by which half of them differ, is seen for certain


class Sides:
    """Counts to which side results are off that are within every tolerance: of one result, or of many of an operator."""

    def __init__(self, operator: str) -> None:
        self._operator = operator  # its C name
        self._count = dict.fromkeys(("size", "differing", "smaller"), 0)

    def add(self, result: Array, wanted: Array) -> None:
        """Counts the elements of a result; ``wanted`` is the golden in its dtype."""
        always = result.dtype == np.float32 and _ROUNDED_ALWAYS.fullmatch(self._operator)
        if result.dtype.name not in _ROUNDED and not always and result.dtype.kind not in "iu":
            return
        one, other = (np.abs(x.astype(np.float64)).ravel() for x in (result, wanted))
        rounded = np.isfinite(one) & np.isfinite(other) & ((one != 0) | (other != 0))  # zeros are exact
        differing = rounded & (one != other)
        self._count["size"] += int(np.count_nonzero(rounded))
        self._count["differing"] += int(np.count_nonzero(differing))
        self._count["smaller"] += int(np.count_nonzero(one[differing] < other[differing]))

    @property
    def size(self) -> int:
        """How many elements that may have been rounded were counted."""
        return self._count["size"]

    @property
    def fault(self) -> str:
        """What is wrong with the rounding; "" where nothing is."""
        size, differing, smaller = self._count.values()
        if differing < max(_FEWEST, _DIFFERING * size) or max(smaller, differing - smaller) < _SIDE * differing:
            return ""
        side = "smaller" if smaller > differing - smaller else "larger"
        return f"rounded wrongly: {differing} of {size} elements differ, nearly all are {side}"


def one_sided(operator: str, result: Array, wanted: Array) -> str:
    """What is wrong with a result that is within every tolerance and yet rounded wrongly: all its errors are to one side.

    "" where nothing is. ``operator`` is the C name; ``wanted`` the golden in the result's dtype.
    """
    sides = Sides(operator)
    sides.add(result, wanted)
    return f"{result.dtype} {result.shape}: {sides.fault}" if sides.fault else ""
