"""What the tests of the references share: outputs full of garbage, strided copies, dtypes and their tolerances."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32 = np.dtype(np.float16), np.dtype(np.float32)
FLOATS = [F32, F16, BF16]

# Half a unit in the last place, relative, and what a float32 sum in another order may differ by.
EPSILON = {F32: 2.0**-24, F16: 2.0**-11, BF16: 2.0**-8}


def run(function: Any, *inputs: Any, out: list[Any], strided: bool = False) -> list[Any]:
    """Calls a raw reference as the backend does: read-only inputs, outputs of given (shape, dtype) full of garbage.

    ``strided`` lays every array out with gaps between its elements. None among ``out`` skips an output.
    """
    arrays = [_laid_out(value, strided) if isinstance(value, np.ndarray) else value for value in inputs]
    for value in arrays:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    results = [None if spec is None else _laid_out(garbage(*spec), strided) for spec in out]
    assert function(*arrays, out=tuple(results)) is None
    return results


def garbage(shape: Any, dtype: Any) -> Any:
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = 0x5A
    return array


def _laid_out(array: Any, strided: bool) -> Any:
    if not strided or array.ndim == 0:
        return array.copy()
    wide = np.empty([2 * n + 1 for n in array.shape], array.dtype)
    view = wide[tuple(slice(1, 2 * n + 1, 2) for n in array.shape)]
    view[...] = array
    return view


def bits(array: Any) -> Any:
    """An array's bit patterns, to compare -0 and NaN too."""
    return array.copy().view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize])


def same(a: Any, b: Any) -> None:
    """Bit for bit, except that any NaN is as good as any other."""
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    differ = bits(a) != bits(b)
    if a.dtype.kind not in "iub":
        differ &= ~(np.isnan(a.astype(np.float32)) & np.isnan(b.astype(np.float32)))
    if differ.any():
        first = tuple(np.argwhere(differ)[0])
        raise AssertionError(f"{differ.sum()} of {differ.size} differ, first at {first}: {a[first]} is not {b[first]}")


def close(actual: Any, expected: Any, terms: int = 1, scale: Any = None) -> None:
    """One rounding to the actual dtype away from the float64 truth, and float32 sums of so many terms of some scale."""
    expected = np.asarray(expected, np.float64)
    size = np.abs(expected) if scale is None else np.asarray(scale, np.float64)
    slack = EPSILON[actual.dtype] * np.abs(expected) * 1.01 + (terms + 4) * 2.0**-24 * size
    if actual.dtype == F16:
        slack += 2.0**-24  # subnormals are this far apart
    error = np.abs(actual.astype(np.float64) - expected)
    assert (error <= slack).all(), f"error {error.max()}, at most {slack.flat[np.argmax(error - slack)]} allowed there"


def floats(rng: Any, shape: Any, dtype: Any) -> Any:
    return rng.standard_normal(shape, dtype=np.float32).astype(dtype)
