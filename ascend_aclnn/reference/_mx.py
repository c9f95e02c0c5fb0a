"""Microscaling: blocks of values that share a power of two as their scale (FLOAT8_E8M0), with elements of 8 or 4 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, round_into

BLOCK = 32
_FLOAT = np.dtype(np.float32)
_BIAS = 127  # of exponents, in float32 as in FLOAT8_E8M0
_INVALID = 255  # the scale of a block that holds an infinity or NaN
OCP, CUBLAS, DYNAMIC_RANGE = 0, 1, 2  # scaleAlg


class _Element(NamedTuple):
    """A data type of elements: the exponent of its largest number, and the number."""

    exponent: int
    largest: float


_ELEMENTS = {
    np.dtype(ml_dtypes.float8_e4m3fn): _Element(8, 448.0),
    np.dtype(ml_dtypes.float8_e5m2): _Element(15, 57344.0),
    np.dtype(ml_dtypes.float4_e2m1fn): _Element(2, 6.0),
}


class Scaling(NamedTuple):
    """How blocks get their scales and elements: scaleAlg, the rounding of FLOAT4 elements, and what the algorithms take.

    ``type_max`` stands for the largest element in ``DYNAMIC_RANGE`` (0: 6), ``low_bound`` is the least magnitude that
    ``CUBLAS`` takes for the largest of a block.
    """

    algorithm: int = OCP
    mode: str = "rint"
    size: int = BLOCK
    type_max: float = 0.0
    low_bound: float = 0.0


def is_supported(dtype: np.dtype[Any]) -> bool:
    """True for the data types of elements that there are on the host."""
    return dtype in _ELEMENTS


def _parts(values: Array) -> tuple[Array, Array]:
    """The exponent fields and fractions of float32 numbers of either sign."""
    bits = np.ascontiguousarray(values, np.float32).view(np.int32)
    return ((bits >> 23) & 0xFF).reshape(values.shape), (bits & 0x7FFFFF).reshape(values.shape)


def _scales(largest: Array, element: _Element, how: Scaling) -> tuple[Array, Array]:
    """The scale of each block, as an exponent field, from its largest magnitude; and where elements are zero."""
    top, fraction = _parts(largest)
    if how.algorithm == OCP:
        scale = np.maximum(top - element.exponent, 0)
        zero = scale == 0
    elif how.algorithm == DYNAMIC_RANGE and how.type_max in (0, 6, 7):
        # The exponent goes up where the largest magnitude, as BFLOAT16, would exceed 6 or 7 times the scale.
        limit = 0x60 if how.type_max == 7 else 0x40
        scale = np.where(top < element.exponent, 0, top + ((fraction >> 16) > limit) - element.exponent)
        zero = scale == 0
    else:
        most = how.type_max or element.largest
        bounded = np.maximum(largest, np.float32(how.low_bound))
        exponent, fraction = _parts(bounded * np.float32(1 / most))
        up = (exponent > 0) & (exponent < 254) & (fraction > 0)
        if how.algorithm == CUBLAS:
            up |= (exponent == 0) & (fraction > 0x400000)
        scale = exponent + up
        zero = bounded == 0
    broken = top == 0xFF
    return np.where(broken, _INVALID, scale).astype(np.uint8), zero | broken


def _rounded(values: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Values that FLOAT4_E2M1 holds, by "round" (halves away from zero) or "floor"; "rint" is left to the store."""
    if mode == "rint" or dtype != ml_dtypes.float4_e2m1fn:
        return values
    exponent = np.clip(_parts(values)[0] - _BIAS, 0, 2)
    step = np.ldexp(np.float32(0.5), exponent)
    steps = values / step
    whole = np.floor(steps) if mode == "floor" else np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    return np.asarray(whole * step, np.float32)


def elements(values: Array, scale: Array, zero: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Values over their scales as float32, to be stored as a data type; all of it broadcasts."""
    factor = np.ldexp(np.float32(1), np.where(zero, 0, _BIAS - scale.astype(np.int32)))
    most = _ELEMENTS[dtype].largest
    scaled = np.where(zero, np.float32(0), values * factor)
    return np.asarray(np.clip(_rounded(scaled, dtype, mode), -most, most), np.float32)


def block_scales(largest: Array, dtype: np.dtype[Any], how: Scaling, source: np.dtype[Any]) -> tuple[Array, Array]:
    """``_scales`` of the largest magnitudes of blocks; ``source`` is the data type that the values were stored in."""
    if how.algorithm == DYNAMIC_RANGE and source == np.float16:
        largest = largest.astype(ml_dtypes.bfloat16).astype(np.float32)
    return _scales(largest, _ELEMENTS[dtype], how)


def _quantised(
    values: Array, dtype: np.dtype[Any], how: Scaling, source: np.dtype[Any] = _FLOAT
) -> tuple[Array, Array]:
    columns, size = values.shape[-1], how.size
    blocks = -(-columns // size)
    padded = np.zeros((*values.shape[:-1], blocks * size), np.float32)
    padded[..., :columns] = values
    parts = padded.reshape(*values.shape[:-1], blocks, size)
    scale, zero = block_scales(np.max(np.abs(parts), -1), dtype, how, source)
    quantised = elements(parts, scale[..., None], zero[..., None], dtype, how.mode)
    even = np.zeros((*scale.shape[:-1], blocks + blocks % 2), np.uint8)
    even[..., :blocks] = scale
    return quantised.reshape(padded.shape)[..., :columns], even


def quantised(values: Array, dtype: np.dtype[Any], algorithm: int = OCP, mode: str = "rint") -> tuple[Array, Array]:
    """Elements in float32, to be stored, and the scales of blocks along the last axis, an even number of them.

    A block with an infinity or NaN has elements 0 and the scale 255, one of numbers too small for any scale elements 0
    and the scale 0, as padding has.
    """
    return _quantised(values, dtype, Scaling(algorithm, mode))


def along(
    values: Array, axis: int, dtype: np.dtype[Any], how: Scaling, source: np.dtype[Any] = _FLOAT
) -> tuple[Array, Array]:
    """``quantised`` in blocks along an axis, with scales in pairs: the axis has the pairs, a last axis of 2 the two."""
    quantised, scales = _quantised(np.moveaxis(values, axis, -1), dtype, how, source)
    pairs = scales.reshape(*scales.shape[:-1], scales.shape[-1] // 2, 2)
    return np.moveaxis(quantised, -1, axis), np.moveaxis(pairs, -2, axis % values.ndim)


def by_groups(
    values: Array,
    starts: Sequence[int],
    ends: Sequence[int],
    places: Sequence[int],
    count: int,
    dtype: np.dtype[Any],
    how: Scaling,
    source: np.dtype[Any],
) -> tuple[Array, Array]:
    """``along`` axis 0 of a matrix, each group of rows by itself, its pairs of scales from its place on; else zeros."""
    quantised = np.zeros(values.shape, np.float32)
    scales = np.zeros((count, values.shape[1], 2), np.uint8)
    for start, end, place in zip(starts, ends, places):
        if end > start:
            quantised[start:end], pairs = along(values[start:end], 0, dtype, how, source)
            scales[place : place + len(pairs)] = pairs
    return quantised, scales


def store(target: Array, scales: Array, values: Array, exponents: Array) -> None:
    """Stores elements, rounded half to even, and scales given as exponent fields."""
    round_into(target, values)
    np.copyto(scales.view(np.uint8), exponents)


def restored(values: Array, scales: Array, axis: int, size: int = BLOCK) -> Array:
    """Elements times the scales of their blocks along an axis, in float32: the inverse of ``along``.

    Scales may lack leading axes of the elements; they are the same for all of them.
    """
    moved = np.moveaxis(values.astype(np.float32), axis, -1)
    of_axis = axis % values.ndim - (values.ndim + 1 - scales.ndim)
    flat = np.moveaxis(scales.astype(np.float32), of_axis, -2)
    flat = flat.reshape(*flat.shape[:-2], flat.shape[-2] * 2)
    spread = np.take(flat, np.arange(moved.shape[-1]) // size, -1)
    return np.moveaxis(moved * spread, -1, axis)
