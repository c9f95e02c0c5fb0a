"""Microscaling: blocks of values that share a power of two as their scale (FLOAT8_E8M0), with elements of 8 or 4 bits."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array

BLOCK = 32
_BIAS = 127  # of exponents, in float32 as in FLOAT8_E8M0
_INVALID = 255  # the scale of a block that holds an infinity or NaN
OCP, CUBLAS = 0, 1  # scaleAlg


class _Element(NamedTuple):
    """A data type of elements: the exponent of its largest number, and the number."""

    exponent: int
    largest: float


_ELEMENTS = {
    np.dtype(ml_dtypes.float8_e4m3fn): _Element(8, 448.0),
    np.dtype(ml_dtypes.float8_e5m2): _Element(15, 57344.0),
    np.dtype(ml_dtypes.float4_e2m1fn): _Element(2, 6.0),
}


def known(dtype: np.dtype[Any]) -> bool:
    """True for the data types of elements that there are on the host."""
    return dtype in _ELEMENTS


def _parts(values: Array) -> tuple[Array, Array]:
    """The exponent fields and fractions of float32 numbers of either sign."""
    bits = np.ascontiguousarray(values, np.float32).view(np.int32)
    return (bits >> 23) & 0xFF, bits & 0x7FFFFF


def _scales(largest: Array, element: _Element, algorithm: int) -> Array:
    """The scale of each block, as an exponent field, from its largest magnitude."""
    broken = _parts(largest)[0] == 0xFF
    if algorithm == OCP:
        scale = np.maximum(_parts(largest)[0] - element.exponent, 0)
    else:
        exponent, fraction = _parts(largest * np.float32(1 / element.largest))
        normal = (exponent > 0) & (exponent < 254)
        scale = exponent + np.where(normal, fraction > 0, (exponent == 0) & (fraction > 0x400000))
    return np.where(broken, _INVALID, scale).astype(np.uint8)


def _rounded(values: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Values that FLOAT4_E2M1 holds, by "round" (halves away from zero) or "floor"; "rint" is left to the store."""
    if mode == "rint" or dtype != ml_dtypes.float4_e2m1fn:
        return values
    exponent = np.clip(_parts(values)[0] - _BIAS, 0, 2)
    step = np.ldexp(np.float32(0.5), exponent)
    steps = values / step
    whole = np.floor(steps) if mode == "floor" else np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    return np.asarray(whole * step, np.float32)


def quantised(values: Array, dtype: np.dtype[Any], algorithm: int = OCP, mode: str = "rint") -> tuple[Array, Array]:
    """Elements in float32, to be stored, and the scales of blocks along the last axis, an even number of them.

    A block with an infinity or NaN has elements 0 and the scale 255, one of numbers too small for any scale elements 0
    and the scale 0, as padding has.
    """
    element = _ELEMENTS[dtype]
    columns = values.shape[-1]
    blocks = -(-columns // BLOCK)
    padded = np.zeros((*values.shape[:-1], blocks * BLOCK), np.float32)
    padded[..., :columns] = values
    parts = padded.reshape(*values.shape[:-1], blocks, BLOCK)
    scale = _scales(np.max(np.abs(parts), -1), element, algorithm)
    none = (scale == 0) | (scale == _INVALID)
    factor = np.ldexp(np.float32(1), np.where(none, 0, _BIAS - scale.astype(np.int32)))
    elements = np.where(none[..., None], 0, parts * factor[..., None])
    elements = np.clip(_rounded(elements, dtype, mode), -element.largest, element.largest)
    even = np.zeros((*scale.shape[:-1], blocks + blocks % 2), np.uint8)
    even[..., :blocks] = scale
    return np.asarray(elements.reshape(padded.shape)[..., :columns], np.float32), even
