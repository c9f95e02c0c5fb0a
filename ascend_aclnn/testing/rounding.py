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


def one_sided(operator: str, result: Array, wanted: Array) -> str:
    """What is wrong with a result that is within every tolerance and yet rounded wrongly: all its errors are to one side.

    "" where nothing is. ``operator`` is the C name; ``wanted`` the golden in the result's dtype.
    """
    rounded = result.dtype.name in _ROUNDED or (result.dtype == np.float32 and _ROUNDED_ALWAYS.fullmatch(operator))
    if not rounded and result.dtype.kind not in "iu":
        return ""
    one, other = (np.abs(x.astype(np.float64)).ravel() for x in (result, wanted))
    differing = np.isfinite(one) & np.isfinite(other) & (one != other)
    count = int(np.count_nonzero(differing))
    if count < max(_FEWEST, _DIFFERING * result.size):
        return ""
    smaller = int(np.count_nonzero(one[differing] < other[differing]))
    if max(smaller, count - smaller) < _SIDE * count:
        return ""
    side = "smaller" if smaller > count - smaller else "larger"
    return f"{result.dtype} {result.shape}: rounded wrongly: {count} of {result.size} elements differ, nearly all are {side}"
