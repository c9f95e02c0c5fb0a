"""Quantisation: rounding into small data types, scales given or found by rows, and scales as the fixpipe takes them."""

from __future__ import annotations

from typing import Any, Callable, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.core import hifloat8
from ascend_aclnn.numerics import Array, is_integer, is_low_precision, round_into, widen

INT8_MAX = 127
INT4 = np.dtype(ml_dtypes.int4)

# Rounding to whole numbers; "rint" is left to the store, which also rounds half to even.
_ROUND: dict[str, Callable[[Array], Array]] = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}


def largest(dtype: np.dtype[Any]) -> float:
    """The largest value of a data type to quantise to."""
    if dtype == hifloat8.DTYPE:
        return hifloat8.LARGEST
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


def by_factor(y: Array, most: float = INT8_MAX) -> tuple[Array, Array]:
    """Like ``by_row`` as kernels do it that multiply by ``most`` / magnitude; the scales are one over these factors."""
    magnitude = np.abs(y).max(axis=-1, keepdims=True, initial=0)
    factor = np.float32(most) / np.where(magnitude == 0, 1, magnitude)
    return y * factor, np.where(magnitude == 0, np.float32(0), np.float32(1) / factor)[..., 0]


# ------------------------------------------------------------------------------------------------------- stores


def packed(y: Array) -> Array:
    """Values as 4-bit integers, eight to an int32, the first one in the lowest bits."""
    codes = np.clip(np.rint(np.nan_to_num(y, nan=0.0)), -8, 7).astype(np.int32).reshape(*y.shape[:-1], -1, 8) & 15
    words = np.bitwise_or.reduce(codes.astype(np.uint32) << (4 * np.arange(8, dtype=np.uint32)), axis=-1)
    return np.asarray(words.view(np.int32))


def unpacked(x: Array) -> Array:
    """The eight 4-bit integers of each int32."""
    codes = (x[..., None].view(np.uint32) >> (4 * np.arange(8, dtype=np.uint32))) & 15
    signed = (codes.astype(np.int8) ^ 8) - 8
    return signed.reshape(*x.shape[:-1], -1) if x.ndim else signed


def target(out: Array) -> np.dtype[Any]:
    """The data type that is quantised to; an INT32 stands for eight INT4."""
    return INT4 if out.dtype == np.int32 else out.dtype


def saturated_at(dtype: np.dtype[Any]) -> Optional[float]:
    """The limit of small floats; that of integers is ``round_into``'s."""
    return largest(dtype) if is_low_precision(dtype) else None


def rounded(y: Any, round_mode: str, most: Optional[float]) -> Any:
    """What comes before ``round_into``: whole numbers of the mode, within limits."""
    y = _ROUND[round_mode](y) if round_mode in _ROUND else y
    return y if most is None else np.clip(y, -np.float32(most), np.float32(most))


def store(out: Array, y: Array, round_mode: str = "rint") -> None:
    """Rounds and saturates into an output."""
    y = rounded(np.asarray(y), round_mode, saturated_at(out.dtype))
    if out.dtype == np.int32:
        np.copyto(out, packed(y))
    else:
        round_into(out, y)


def along(values: Optional[Array], axis: int, ndim: int) -> Any:
    """One value, or one for each item of an axis, shaped to meet an array of so many axes."""
    if values is None or values.ndim == ndim or values.size == 1:
        return values if values is None or values.ndim == ndim else values.reshape(())
    return values.reshape([-1 if a == axis % ndim else 1 for a in range(ndim)])


def group_rows(ends: Array, rows: int) -> tuple[Array, Array]:
    """The group of each row, groups ending at rising rows, and which rows belong to one at all."""
    group = np.searchsorted(ends, np.arange(rows), side="right")
    return np.minimum(group, max(len(ends) - 1, 0)), group < len(ends)


# ------------------------------------------------------------------------------------------------------- the fixpipe


def fixpipe_parameters(scale: Array, offset: Optional[Array], round_mode: int = 0) -> Array:
    """Scales as the fixpipe takes them: a float of 19 bits, a flag, and 9 bits of offset.

    roundMode 0 cuts the scale's last 13 bits off, 1 rounds them half to even.
    """
    bits = np.ascontiguousarray(scale).view(np.uint32)
    if round_mode == 1:
        finite = np.isfinite(scale)
        bits = np.where(finite, bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1)), bits)
    encoded: Array = (bits & np.uint32(0xFFFFE000)).astype(np.uint64) | np.uint64(1 << 46)
    if offset is None:
        return encoded
    offsets = (np.clip(np.rint(offset), -256, 255).astype(np.int64) & 0x1FF).astype(np.uint64)
    return np.asarray(encoded.reshape(-1) | offsets.reshape(-1) << np.uint64(37))


def scale_of(parameters: Array) -> Array:
    """The scales in fixpipe parameters (or plain float scales)."""
    if parameters.dtype.kind != "u" and parameters.dtype != np.int64:
        return widen(parameters)
    return np.asarray((parameters.astype(np.uint64) & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32))


def offset_of(parameters: Array) -> Array:
    """The offsets in fixpipe parameters."""
    bits = (parameters.astype(np.uint64) >> np.uint64(37)).astype(np.int64) & 0x1FF
    return np.asarray(np.where(bits >= 256, bits - 512, bits), np.float32)
