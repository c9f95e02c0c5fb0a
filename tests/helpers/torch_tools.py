"""torch in double precision as the oracle of elementwise references; import after pytest.importorskip("torch")."""

from __future__ import annotations

from typing import Any, Callable

import ml_dtypes
import numpy as np
import torch

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float32), np.dtype(np.float16), BF16]
EPS = {np.dtype(np.float64): 2e-12, np.dtype(np.float32): 6e-7, np.dtype(np.float16): 1.1e-3, BF16: 8e-3}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]


def oracle(function: Callable[..., Any], *values: Any) -> np.ndarray:
    """torch in float64 (complex128, or the integers that came)."""
    return np.asarray(function(*map(tensor, values)).numpy())


def tensor(value: Any) -> Any:
    """An ndarray as a torch tensor in double precision; anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind in "iub":
        return torch.from_numpy(value.copy())
    return torch.from_numpy(value.astype(np.complex128 if value.dtype.kind == "c" else np.float64))


def check(actual: np.ndarray, expected: np.ndarray, slack: float = 1.0) -> None:
    """Equal but for rounding to the actual data type; NaN and infinities in the same places."""
    if actual.dtype.kind in "iub" and actual.dtype != BF16:
        np.testing.assert_array_equal(actual, expected.astype(actual.dtype))
        return
    with np.errstate(all="ignore"):
        rounded = expected.astype(actual.dtype)  # overflow to infinity as the data type has it
        wide = np.complex128 if actual.dtype.kind == "c" else np.float64
        eps = EPS.get(actual.dtype, 2e-6) * slack
        np.testing.assert_allclose(actual.astype(wide), rounded.astype(wide), rtol=eps, atol=eps)


def sample(dtype: Any, low: float = -4.0, high: float = 4.0, special: bool = True, n: int = 300) -> np.ndarray:
    """Values in a range, zeros of both signs, infinities and NaN, not contiguous."""
    rng = np.random.default_rng(5)
    values = rng.uniform(low, high, n)
    if special:
        values[: len(SPECIAL)] = SPECIAL
    return values.astype(dtype)[::-1]
