"""References of ops-math/math: tensors made from numbers, repeated, expanded, counted and packed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, move, round_into, widen
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference._pointwise import is_whole
from ascend_aclnn.reference._rows import check_range, whole_within
from ascend_aclnn.reference.declare import reference

# ------------------------------------------------------------------------------------------------- sequences


@reference("aclnnArange", "aclnnRange", raw=True)
def arange(start: Any, end: Any, step: Any, *, out: tuple[Array]) -> None:
    """start + i * step for as many elements as out has, in integers for INT64 and else in float64."""
    (dst,) = out
    kind: Any = np.int64 if dst.dtype == np.int64 else np.float64
    first, distance = (np.array(int(n) if kind is np.int64 else n, kind) for n in (start, step))
    cast_into(dst, (first + np.arange(dst.size, dtype=kind) * distance).reshape(dst.shape))


def _evenly(start: Any, end: Any, steps: int) -> Any:
    """Numbers at equal distances, both ends included. The second half is counted from the end, so that the end is exact."""
    places = np.arange(steps, dtype=np.float64)
    distance = (end - start) / max(steps - 1, 1)
    from_start = (places < steps // 2) | (steps == 1)
    return np.where(from_start, start + places * distance, end - (steps - 1 - places) * distance)


@reference("aclnnLinspace", raw=True)
def linspace(start: Any, end: Any, steps: int, *, out: tuple[Array]) -> None:
    """Numbers at equal distances; ends of integers, and integers, are cut off."""
    (dst,) = out
    if is_whole(dst) and dst.dtype != np.int64:
        start, end = int(start), int(end)
    cast_into(dst, _evenly(float(start), float(end), steps).reshape(dst.shape))


@reference("aclnnLogSpace", raw=True)
def logspace(start: Any, end: Any, steps: int, base: float, *, out: tuple[Array]) -> None:
    """Powers of base at equal distances."""
    (dst,) = out
    if steps:
        round_into(dst, np.power(np.float64(base), _evenly(float(start), float(end), steps)).reshape(dst.shape))


@reference("aclnnEye")
def eye(n: int, m: int) -> Any:
    return np.eye(n, m, dtype=bool)


# ------------------------------------------------------------------------------------------------- repetition


@reference("aclnnOneHot", raw=True)
def one_hot(indices: Array, classes: int, on: Array, off: Array, axis: int, *, out: tuple[Array]) -> None:
    """``on`` at each index along a new axis, ``off`` elsewhere; an index outside the classes has no ``on``."""
    dst, position = out[0], indices.ndim if axis == -1 else axis
    values = np.empty(2, dst.dtype)
    round_into(values, np.append(widen(off.reshape(-1)[:1]), widen(on.reshape(-1)[:1])))
    dst.fill(values[0])
    if indices.ndim == 0:
        indices, dst, position = indices[None], dst[None], 1
    inside = (indices >= 0) & (indices < classes)
    places = np.nonzero(inside)
    dst[(*places[:position], indices[inside], *places[position:])] = values[1]


@reference("aclnnExpand")
def expand(x: Array, size: Sequence[int]) -> Any:
    return np.broadcast_to(x, size)


@reference("aclnnRepeat", raw=True)
def repeat(x: Array, repeats: Sequence[int], *, out: tuple[Array]) -> None:
    """x so many times along each axis. CANN does nothing for a result without elements."""
    sizes = (1,) * (len(repeats) - x.ndim) + x.shape
    copies = out[0].reshape([n for pair in zip(repeats, sizes) for n in pair])  # a view: axes are only split
    once = x.reshape([n for size in sizes for n in (1, size)])
    move(copies, np.broadcast_to(once, copies.shape))


def _centres(n: int, align_corners: bool) -> Array:
    """Coordinates of n pixels between -1 and 1: from centre to centre, or from edge to edge."""
    if align_corners:
        return np.linspace(-1, 1, n) if n > 1 else np.zeros(n)
    return (2 * np.arange(n) + 1) / max(n, 1) - 1


@reference("aclnnAffineGrid")
def affine_grid(theta: Array, size: Sequence[int], align_corners: bool) -> Any:
    """Where each pixel of an image lies after the map theta: coordinates x, y (, z)."""
    axes = np.meshgrid(*(_centres(n, align_corners) for n in size[2:]), indexing="ij")
    pixels = np.stack([*axes[::-1], np.ones(tuple(size[2:]))], -1)
    return np.einsum("...j,nij->n...i", pixels, theta.astype(np.float64))


# ------------------------------------------------------------------------------------------------- counts


@reference("aclnnHistc")
def histc(x: Array, bins: int, least: Any, most: Any) -> Any:
    """How many elements lie in each of ``bins`` equal parts of [min, max], or of x's range where these are equal."""
    if is_whole(x):
        x, low, high = x.astype(np.int64), int(least), int(most)
    else:
        low, high = x.dtype.type(least), x.dtype.type(most)
    if low == high and x.size:
        low, high = x.min(), x.max()
    if low == high:
        low, high = low - 1, high + 1
    inside = x[(x >= low) & (x <= high)]
    scaled = (inside - low) * x.dtype.type(bins)
    part = scaled // (high - low) if is_whole(x) else whole_within(scaled / (high - low), bins - 1)
    return np.bincount(np.minimum(part, bins - 1), minlength=bins)


@reference("aclnnBincount", raw=True)
def bincount(x: Array, weights: Optional[Array], minlength: int, *, out: tuple[Array]) -> None:
    """How often each number occurs, or the sum of its weights, for as many numbers as out has room."""
    (dst,) = out
    check_range("self", x, 0, dst.size)
    cast_into(dst, np.bincount(x, None if weights is None else weights.astype(np.float64), dst.size))


@reference("aclnnIsInScalarTensor")
def is_in_scalar_tensor(element: Any, elements: Array, assume_unique: bool, invert: bool) -> Any:
    return bool(np.any(elements == element)) != invert


# ------------------------------------------------------------------------------------------------- sign bits


@reference("aclnnSignBitsPack")
def sign_bits_pack(x: Array, size: int) -> Any:
    """A bit for each element, 1 unless it is negative, the first in the lowest place; missing ones are 0."""
    return np.packbits(x >= 0, bitorder="little").reshape(size, -1)


@reference("aclnnSignBitsUnpack")
def sign_bits_unpack(x: Array, size: int, dtype: int) -> Any:
    """1 for a bit of 1, -1 for a bit of 0."""
    bits = np.unpackbits(x, bitorder="little")
    return np.where(bits, np.float32(1), np.float32(-1)).reshape(size, -1)
