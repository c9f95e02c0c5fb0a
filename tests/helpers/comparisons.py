"""How tests compare a result with what is expected: exactly, bit by bit, or within a tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, Union

import numpy as np


def wide(array: Any) -> Any:
    """Values in float64; of a torch tensor, a Tensor or anything that NumPy takes."""
    array = array.detach() if hasattr(array, "detach") else array
    return np.asarray(array).astype(np.float64)


def assert_equal(actual: Any, expected: Any) -> None:
    """Equal shapes and values; data types may differ, NaN equals NaN."""
    actual, expected = wide(actual), wide(expected)
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


def equal_bits(actual: Any, expected: Any) -> bool:
    """True for arrays of one shape and data type whose elements have the same bits."""
    same_kind = actual.shape == expected.shape and actual.dtype == expected.dtype
    return same_kind and np.ascontiguousarray(actual).tobytes() == np.ascontiguousarray(expected).tobytes()


def assert_near(
    actual: Any,
    expected: Any,
    rtol: Union[float, Mapping[str, float]] = 1e-5,
    atol: Optional[float] = None,
    *,
    floor: Optional[float] = None,
    dtype: Any = None,
) -> None:
    """Equal shapes, and |actual - expected| <= atol + rtol * |expected|; atol is rtol unless stated.

    ``rtol`` may be a table by the name of actual's data type. With ``floor`` atol counts times the largest magnitude of
    expected, or times floor where that is larger. ``dtype``: the data type that actual must have.
    """
    name = np.asarray(actual.detach() if hasattr(actual, "detach") else actual).dtype.name
    assert dtype is None or name == np.dtype(dtype).name
    relative = rtol[name] if isinstance(rtol, Mapping) else rtol
    actual, expected = wide(actual), wide(expected)
    assert actual.shape == expected.shape
    scale = 1.0 if floor is None else max(floor, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(actual, expected, rtol=relative, atol=(relative if atol is None else atol) * scale)
