"""What experts with 8-bit weights share: rows quantised by their largest magnitude, exact products, and SwiGLU between two."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import Array, rounded_to
from ascend_aclnn.reference.matmul.quant import integers


def quantised(rows: Array) -> tuple[Array, Array]:
    """Rows as INT8, and what each row was divided by, (rows, 1)."""
    scales = np.abs(rows).max(-1, keepdims=True, initial=0) / np.float32(127)
    return rounded_to(rows / np.where(scales == 0, 1, scales), np.int8), scales


def matrix(weight: Array, plain: int) -> Array:
    """A weight, unpacked; a view of its tiles, (..., n / inner, k / 16, 16, inner), as (..., k, n)."""
    weight = integers(weight)
    if weight.ndim == plain:
        return weight
    tiles = np.moveaxis(weight, -4, -2)
    return tiles.reshape(*weight.shape[:-4], weight.shape[-3] * 16, -1)


def product(rows: Array, weight: Array) -> Array:
    """A product of 8-bit integers, whose sums are exact in float64, in float32."""
    return np.asarray(np.matmul(rows.astype(np.float64), weight.astype(np.float64)), np.float32)


def swiglu(rows: Array, limit: float = 0.0) -> Array:
    """The right half times the left one, which is activated.

    A ``limit`` above 0 clips the left half from above, and the right one on both sides.
    """
    left, right = np.split(rows, 2, axis=-1)
    if limit > 0:
        left, right = np.minimum(left, np.float32(limit)), np.clip(right, np.float32(-limit), np.float32(limit))
    return np.asarray(left / (1 + np.exp(-left)) * right)
