"""Quantisation behind other computations: by given scales, or by the largest value of each row."""

from __future__ import annotations

from typing import Any, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, is_integer

INT8_MAX = 127


def largest(dtype: np.dtype[Any]) -> float:
    """The largest value of a data type to quantise to."""
    limits: Any = ml_dtypes.iinfo if is_integer(dtype) else ml_dtypes.finfo
    return float(limits(dtype).max)


def by_scale(y: Array, scale: Array, offset: Optional[Array], divide: bool) -> Array:
    """y / scale (or y * scale) + offset; storing it rounds and saturates."""
    scaled = np.asarray(y / scale if divide else y * scale)
    return scaled if offset is None else scaled + offset


def by_row(y: Array, most: float = INT8_MAX) -> tuple[Array, Array]:
    """Each row over its scale, and the scales: such that a row's largest magnitude becomes ``most``. Zeros stay zero."""
    scales = np.max(np.abs(y), -1, keepdims=True, initial=0) / np.float32(most)
    return np.where(scales == 0, 0, y / np.where(scales == 0, 1, scales)), scales[..., 0]
