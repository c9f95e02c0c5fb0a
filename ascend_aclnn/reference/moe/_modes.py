"""The quantModes of MoeInitRoutingV3 and V4 that only Ascend 950 has: small floats, and blocks of a row with a scale each."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.core import hifloat8
from ascend_aclnn.numerics import Array, widen
from ascend_aclnn.reference import _mx
from ascend_aclnn.reference._quantise import largest

_GROUP = 128
_LEAST = np.float32(1e-4)  # what modes 14 to 17 take for the largest magnitude of smaller blocks
_HIFLOAT8_LARGEST = np.float32(32768)
_FIRST_BITS = 0x60  # of the fraction of 1.75, with which the largest numbers of both FLOAT8 begin
_EXPONENTS = {np.dtype(ml_dtypes.float8_e4m3fn): 8, np.dtype(ml_dtypes.float8_e5m2): 15}

_CAST, _BY_TENSOR, _BY_TOKEN = 6, 7, 8
_GROUPS, _MX_FLOAT4, _BLOCKS, _MX_FLOAT8, _CLAMPED = (4, 5, 14, 15), 9, (11, 12), (2, 3, 16, 17), (14, 15, 16, 17)
MODES = frozenset((_CAST, _BY_TENSOR, _BY_TOKEN, _MX_FLOAT4, *_GROUPS, *_BLOCKS, *_MX_FLOAT8))


class Quantised(NamedTuple):
    """Values in float32, to be stored saturated, and the scales of rows, where the mode returns any."""

    values: Array
    scales: Optional[Array] = None


def _blocks(values: Array, size: int) -> Array:
    rows, columns = values.shape
    padded = np.zeros((rows, -(-columns // size) * size), np.float32)
    padded[:, :columns] = values
    return padded.reshape(rows, -1, size)


def _powers(magnitudes: Array, dtype: np.dtype[Any], bits: int) -> Array:
    """Exponent fields of the least powers of two that bring magnitudes into range, seen by their fraction's first bits.

    Those too small for a normal number get the least, as the kernels give them.
    """
    codes = np.ascontiguousarray(magnitudes, np.float32).view(np.int32).reshape(magnitudes.shape)
    fraction = (codes & 0x7FFFFF) >> (23 - bits)
    fields = (codes >> 23) - _EXPONENTS[dtype] + (fraction > _FIRST_BITS << (bits - 7))
    return np.asarray(np.maximum(fields, 1))


def _in_groups(values: Array, dtype: np.dtype[Any], clamped: bool) -> Quantised:
    """Groups of 128 over powers of two, which are stored as FLOAT."""
    parts = _blocks(values, _GROUP)
    magnitudes = np.max(np.abs(parts), -1)
    scales = np.ldexp(np.float32(1), _powers(np.maximum(magnitudes, _LEAST if clamped else 0), dtype, 23) - 127)
    spread = (parts / scales[..., None]).reshape(len(values), -1)
    return Quantised(spread[:, : values.shape[1]], scales)


def _in_blocks(values: Array, dtype: np.dtype[Any]) -> Quantised:
    """Blocks of 128 over their largest magnitude's share of the largest number, in pairs; zeros stay zero."""
    parts = _blocks(values, _GROUP)
    scales = np.max(np.abs(parts), -1) / np.float32(largest(dtype))
    spread = (parts / np.where(scales == 0, 1, scales)[..., None]).reshape(len(values), -1)
    pairs = np.zeros((len(values), -(-scales.shape[1] // 2) * 2), np.float32)
    pairs[:, : scales.shape[1]] = scales
    return Quantised(spread[:, : values.shape[1]], pairs.reshape(len(values), -1, 2))


def _microscaled(x: Array, dtype: np.dtype[Any], clamped: bool) -> Quantised:
    """Blocks of 32 over powers of two (FLOAT8_E8M0) from the largest magnitude as BFLOAT16, cut off."""
    parts = _blocks(widen(x), _mx.BLOCK)
    magnitudes = np.max(np.abs(parts), -1)
    if clamped:  # the kernel's 0x38d2 is 1e-4 in BFLOAT16
        magnitudes = np.maximum(magnitudes, _LEAST.astype(ml_dtypes.bfloat16).astype(np.float32))
    fields = np.where(magnitudes == 0, 0, _powers(magnitudes, dtype, 7))
    broken = ~np.isfinite(magnitudes)
    zero = (magnitudes == 0) | broken
    spread = _mx.elements(parts, fields[..., None], zero[..., None], dtype, "rint").reshape(len(x), -1)
    scales = np.zeros((len(x), fields.shape[1] + fields.shape[1] % 2), np.uint8)
    scales[:, : fields.shape[1]] = np.where(broken, 255, fields)
    return Quantised(spread[:, : x.shape[1]], scales)


def quantised(x: Array, mode: int, scale: Optional[Array], dtype: np.dtype[Any]) -> Quantised:
    """Tokens as a mode of ``MODES`` quantises them; scales of FLOAT8_E8M0 are exponent fields."""
    if mode in _MX_FLOAT8:
        return _microscaled(x, dtype, mode in _CLAMPED)
    values = widen(x)
    if mode == _MX_FLOAT4:
        elements, scales = _mx.quantised(values, dtype)
        return Quantised(elements, scales.reshape(len(x), -1, 2))
    if mode in _GROUPS:
        return _in_groups(values, dtype, mode in _CLAMPED)
    if mode in _BLOCKS:
        return _in_blocks(values, dtype)
    if mode == _BY_TOKEN:
        magnitudes = np.max(np.abs(values), -1, keepdims=True, initial=0) / _HIFLOAT8_LARGEST
        return Quantised(values / np.where(magnitudes == 0, 1, magnitudes), magnitudes)
    if mode == _BY_TENSOR:
        assert scale is not None  # phase one saw to it
        values = values * scale.reshape(-1)[0]
    return Quantised(np.clip(values, -np.float32(hifloat8.LARGEST), np.float32(hifloat8.LARGEST)))
