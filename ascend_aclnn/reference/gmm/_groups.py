"""What grouped products share: where groups lie, and packed scales."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array

ENDS, SIZES, PAIRS = range(3)  # groupListType


def parts(groups: Any, kind: int = ENDS) -> Iterator[tuple[int, slice]]:
    """The number of each group, and where it lies: groups are given by ends, sizes, or pairs of number and size."""
    values = np.asarray(groups)
    start = 0
    for position, value in enumerate(values):
        number, size = (int(value[0]), int(value[1])) if kind == PAIRS else (position, int(value))
        end = size if kind == ENDS else start + size
        yield number, slice(start, end)
        start = end


def scale_bits(scale: Array) -> Array:
    """Floats in the lower halves of 64-bit integers."""
    return np.asarray(scale.astype(np.uint64).astype(np.uint32)).view(np.float32)
