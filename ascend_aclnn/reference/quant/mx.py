"""Quantising in blocks with shared exponents, on Ascend 950 (part of ops-nn/quant): OCP Microscaling and its variants.

Scales are powers of two, so quotients are exact and elements are rounded once. What an operator computes before it
quantises (a gate, a gradient) is rounded to the data type of its input first, as the kernels do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, round_into, rounded_to, widen
from ascend_aclnn.reference import _mx as mx
from ascend_aclnn.reference._gates import clamped_gate, situ, swiglu
from ascend_aclnn.reference._mx import Scaling
from ascend_aclnn.reference._quantise import largest
from ascend_aclnn.reference._special import sigmoid
from ascend_aclnn.reference.declare import DataError, reference


def _as_stored(y: Array, dtype: np.dtype[Any]) -> Array:
    """Computed values, rounded to a data type, in float32."""
    return widen(rounded_to(np.asarray(y, np.float32), dtype))


def _store_along(values: Array, axis: int, how: Scaling, source: np.dtype[Any], y: Array, scales: Array) -> None:
    mx.store(y, scales, *mx.along(values, axis, y.dtype, how, source))


def _store_groups(values: Array, ends: Array, how: Scaling, source: np.dtype[Any], y: Array, scales: Array) -> None:
    """Groups of rows that end at rising rows; the scales of each begin at pair start // 64 + its number."""
    stops = [int(end) for end in ends]
    starts = [0, *stops[:-1]]
    if any(stop < start for start, stop in zip(starts, stops)) or stops[-1] != len(values):
        raise DataError("groupIndex", f"is {stops}; it must not fall, and must end with {len(values)}, the rows of x")
    places = [start // 64 + number for number, start in enumerate(starts)]
    quantised = mx.by_groups(values, starts, stops, places, len(scales), y.dtype, how, source)
    mx.store(y, scales, *quantised)


def dynamic_mx_quant(
    x: Array,
    axis: int,
    round_mode: Optional[str],
    dst_type: int,
    block_size: int,
    algorithm: int,
    type_max: float = 0.0,
    low_bound: float = 0.0,
    *,
    out: tuple[Array, Array],
) -> None:
    """Blocks along an axis over their scales; scaleAlg chooses how a scale follows from the largest magnitude."""
    how = Scaling(algorithm, round_mode or "rint", block_size, type_max, low_bound)
    _store_along(widen(x), axis, how, x.dtype, *out)


reference("aclnnDynamicMxQuant", "aclnnDynamicMxQuantV2", "aclnnDynamicMxQuantV3", raw=True)(dynamic_mx_quant)


@reference("aclnnDynamicMxQuantWithDualAxis", "aclnnDynamicMxQuantWithDualAxisV2", raw=True)
def dynamic_mx_quant_with_dual_axis(
    x: Array,
    round_mode: Optional[str],
    dst_type: int,
    algorithm: int,
    type_max: float = 0.0,
    *,
    out: tuple[Array, Array, Array, Array],
) -> None:
    """``dynamic_mx_quant`` along the last axis, and along the one before it."""
    how = Scaling(algorithm, round_mode or "rint", type_max=type_max)
    _store_along(widen(x), -1, how, x.dtype, out[0], out[1])
    _store_along(widen(x), -2, how, x.dtype, out[2], out[3])


def _square_blocks(x: Array) -> Array:
    """The largest of each 32 by 32 block of the last two axes."""
    rows, columns = (-(-n // mx.BLOCK) for n in x.shape[-2:])
    padded = np.zeros((*x.shape[:-2], rows * mx.BLOCK, columns * mx.BLOCK), x.dtype)
    padded[..., : x.shape[-2], : x.shape[-1]] = x
    return np.asarray(padded.reshape(*x.shape[:-2], rows, mx.BLOCK, columns, mx.BLOCK).max(axis=(-3, -1)))


def _spread(blocks: Array, rows: int, columns: int) -> Array:
    """Values of 32 by 32 blocks, for each element."""
    return blocks.repeat(mx.BLOCK, -2)[..., :rows, :].repeat(mx.BLOCK, -1)[..., :columns]


def _store_square_scales(blocks: Array, shape: tuple[int, ...], scale1: Array, scale2: Array) -> None:
    """Scales of 32 by 32 blocks in pairs along the last axis for each row, and along the rows for each column."""
    by_row = np.zeros((*scale1.shape[:-2], scale1.shape[-2] * 2), np.uint8)
    by_row[..., : blocks.shape[-1]] = blocks.repeat(mx.BLOCK, -2)[..., : shape[-2], :]
    np.copyto(scale1.view(np.uint8), by_row.reshape(scale1.shape))
    by_column = np.zeros((*scale2.shape[:-3], scale2.shape[-3] * 2, shape[-1]), np.uint8)
    by_column[..., : blocks.shape[-2], :] = blocks.repeat(mx.BLOCK, -1)[..., : shape[-1]]
    pairs = by_column.reshape(*scale2.shape[:-3], scale2.shape[-3], 2, shape[-1])
    np.copyto(scale2.view(np.uint8), np.moveaxis(pairs, -2, -1))


@reference("aclnnDynamicBlockMxQuant", raw=True)
def dynamic_block_mx_quant(
    x: Array,
    round_mode: Optional[str],
    dst_type: int,
    algorithm: int,
    type_max: float,
    *,
    out: tuple[Array, Array, Array],
) -> None:
    """Blocks of 32 by 32 over one scale each, which is given out for every row, and for every column."""
    how = Scaling(algorithm, round_mode or "rint", type_max=type_max)
    wide, dtype = widen(x), out[0].dtype
    scale, zero = mx.block_scales(_square_blocks(np.abs(wide)), dtype, how, x.dtype)
    each, none = (_spread(blocks, *x.shape[-2:]) for blocks in (scale, zero))
    round_into(out[0], mx.elements(wide, each, none, dtype, how.mode))
    _store_square_scales(scale, x.shape, out[1], out[2])


# By the data types of elements before and after: how far the largest exponent goes down with the common scale.
_MAX_OFFSET = {
    np.dtype(ml_dtypes.float8_e5m2): 13,
    np.dtype(ml_dtypes.float8_e4m3fn): 6,
}


@reference("aclnnMxToBlockMxQuant", raw=True)
def mx_to_block_mx_quant(x: Array, scales: Array, dst_type: int, *, out: tuple[Array, Array, Array]) -> None:
    """FLOAT4 elements with scales of rows as FLOAT8 elements with a scale for each 32 by 32 block."""
    offset = _MAX_OFFSET[out[0].dtype]
    before = scales.view(np.uint8).reshape(*scales.shape[:-2], -1)
    rows = -(-before.shape[-2] // mx.BLOCK)
    padded = np.zeros((*before.shape[:-2], rows * mx.BLOCK, before.shape[-1]), np.uint8)
    padded[..., : before.shape[-2], :] = before
    top = padded.reshape(*before.shape[:-2], rows, mx.BLOCK, before.shape[-1]).max(-2).astype(np.int32)
    common = np.maximum(top - offset, 0)[..., : -(-x.shape[-1] // mx.BLOCK)]
    each = _spread(common, *x.shape[-2:])
    exponent = before.repeat(mx.BLOCK, -1)[..., : x.shape[-1]].astype(np.int32) - each
    factor = np.where(exponent <= -127, 0, np.ldexp(np.float32(1), exponent))
    most = np.float32(largest(out[0].dtype))
    round_into(out[0], np.clip(x.astype(np.float32) * factor, -most, most))
    _store_square_scales(common.astype(np.uint8), x.shape, out[1], out[2])


_LEVEL0_BLOCK = 512
_SIXTH = np.uint32(0x3E2AAAAB).view(np.float32)  # 1 / 6, the largest FLOAT4_E2M1


@reference("aclnnDynamicDualLevelMxQuant", raw=True)
def dynamic_dual_level_mx_quant(
    x: Array,
    smooth: Optional[Array],
    round_mode: Optional[str],
    level0_block: int,
    level1_block: int,
    *,
    out: tuple[Array, Array, Array],
) -> None:
    """Blocks of 512 over float scales, rounded to the data type of x, then blocks of 32 of them with shared exponents.

    A scale takes no notice of infinities and NaN, and a subnormal one is 0.
    """
    wide = widen(x) if smooth is None else _as_stored(widen(x) * widen(smooth), x.dtype)
    columns = x.shape[-1]
    blocks = -(-columns // _LEVEL0_BLOCK)
    padded = np.zeros((*x.shape[:-1], blocks * _LEVEL0_BLOCK), np.float32)
    padded[..., :columns] = np.where(np.isfinite(wide), np.abs(wide), 0)
    scales = padded.reshape(*x.shape[:-1], blocks, _LEVEL0_BLOCK).max(-1) * _SIXTH
    scales = np.where(scales < np.float32(2.0**-126), np.float32(0), scales)
    each = scales.repeat(_LEVEL0_BLOCK, -1)[..., :columns]
    inner = _as_stored(np.where(wide == 0, wide, wide / each), x.dtype)
    round_into(out[1], scales)
    _store_along(inner, -1, Scaling(mode=round_mode or "rint"), x.dtype, out[0], out[2])


# ------------------------------------------------------------------------------------------------------- groups of rows


@reference("aclnnGroupedDynamicMxQuant", "aclnnGroupedDynamicMxQuantV2", raw=True)
def grouped_dynamic_mx_quant(
    x: Array,
    group_index: Array,
    round_mode: str,
    dst_type: int,
    block_size: int,
    algorithm: int = mx.OCP,
    type_max: float = 0.0,
    *,
    out: tuple[Array, Array],
) -> None:
    """Blocks along the rows, each group of rows by itself; groupIndex has the groups' ends."""
    how = Scaling(algorithm, round_mode, block_size, type_max)
    _store_groups(widen(x), group_index, how, x.dtype, *out)


@reference("aclnnGroupedDynamicMxQuantWithDualAxis", raw=True)
def grouped_dynamic_mx_quant_with_dual_axis(
    x: Array,
    group_index: Array,
    round_mode: Optional[str],
    algorithm: int,
    dst_type: int,
    type_max: float,
    *,
    out: tuple[Array, Array, Array, Array],
) -> None:
    """Blocks along the columns, and along the rows of each group."""
    how = Scaling(algorithm, round_mode or "rint")
    _store_along(widen(x), -1, how, x.dtype, out[0], out[1])
    _store_groups(widen(x), group_index, how, x.dtype, out[2], out[3])


# ------------------------------------------------------------------------------------------------------- back


@reference("aclnnAntiMxQuant", raw=True)
def anti_mx_quant(x: Array, scales: Array, axis: int, dst_type: int, *, out: tuple[Array]) -> None:
    """Elements times their scales; to FLOAT16 and BF16 the device's cast saturates, with NaN as 0."""
    y = mx.restored(x, scales, axis)
    if out[0].dtype != np.float32:
        most = np.float32(largest(out[0].dtype))
        y = np.clip(np.nan_to_num(y, nan=0.0), -most, most)
    round_into(out[0], y)


# ------------------------------------------------------------------------------------------------------- after a gate


@reference("aclnnSituMxQuant", raw=True)
def situ_mx_quant(
    x: Array,
    beta: float,
    linear_beta: float,
    activate_left: bool,
    axis: int,
    dst_type: int,
    round_mode: Optional[str],
    *,
    out: tuple[Array, Array],
) -> None:
    y = _as_stored(situ(widen(x), beta, linear_beta, activate_left), x.dtype)
    _store_along(y, axis, Scaling(mode=round_mode or "rint"), x.dtype, *out)


def _bounds(sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Where parts of given sizes start and end."""
    ends = list(itertools.accumulate(sizes))
    return [end - size for end, size in zip(ends, sizes)], ends


def _unsupported_groups(call: Any) -> Optional[str]:
    if call["groupIndexOptional"] is None:
        return None
    if call["activateDim"] not in (-1, len(call.shape("x")) - 1):
        return "the NumPy backend takes groups with a gate along the last axis only"
    return None


@reference("aclnnSwigluMxQuant", raw=True, unsupported=_unsupported_groups)
def swiglu_mx_quant(
    x: Array,
    group_index: Optional[Array],
    activate_dim: int,
    activate_left: bool,
    swiglu_mode: int,
    limit: float,
    alpha: float,
    glu_bias: float,
    group_mode: int,
    axis: int,
    dst_type: int,
    round_mode: Optional[str],
    algorithm: int,
    type_max: float,
    *,
    out: tuple[Array, Array],
) -> None:
    """A gate, then blocks along an axis. groupIndex has sizes of groups, or their ends (mode 1); rows after them become zero.

    Along the rows, the scales of a group follow those of the one before. The kernel of 2026-08 does not read the mode: it takes
    ends for sizes.
    """
    y = clamped_gate(widen(x), swiglu_mode, limit, alpha, glu_bias, activate_left, activate_dim)
    y = _as_stored(y, x.dtype)
    how = Scaling(algorithm, round_mode or "rint", type_max=type_max)
    if group_index is None:
        _store_along(y, axis, how, x.dtype, *out)
        return
    sizes = [int(size) for size in (np.diff(group_index, prepend=0) if group_mode == 1 else group_index)]
    rows = math.prod(y.shape[:-1])
    if min(sizes) < 0 or sum(sizes) > rows:
        raise DataError(
            "groupIndexOptional", f"is {sizes}; sizes must not be negative, nor more than {rows} rows together"
        )
    if axis % x.ndim == x.ndim - 1:
        inside = (np.arange(rows) < sum(sizes)).reshape(*y.shape[:-1], 1)
        quantised, scales = mx.along(y, -1, out[0].dtype, how, x.dtype)
        mx.store(*out, np.where(inside, quantised, np.float32(0)), np.where(inside[..., None], scales, np.uint8(0)))
        return
    starts, ends = _bounds(sizes)
    places, _ = _bounds([-(-size // 64) for size in sizes])
    mx.store(*out, *mx.by_groups(y, starts, ends, places, len(out[1]), out[0].dtype, how, x.dtype))


def _store_dual_axis(
    y: Array, ends: Optional[Array], how: Scaling, source: np.dtype[Any], out: tuple[Array, ...]
) -> None:
    _store_along(y, -1, how, source, out[0], out[1])
    if ends is None:
        _store_along(y, -2, how, source, out[2], out[3])
    else:
        _store_groups(y, ends, how, source, out[2], out[3])


@reference("aclnnSwigluMxQuantWithDualAxis", raw=True)
def swiglu_mx_quant_with_dual_axis(
    x: Array,
    group_index: Optional[Array],
    activate_left: bool,
    round_mode: Optional[str],
    algorithm: int,
    dst_type: int,
    type_max: float,
    *,
    out: tuple[Array, Array, Array, Array],
) -> None:
    """swiglu, then blocks along the columns, and along the rows (of each group; groupIndex has the groups' ends)."""
    y = _as_stored(swiglu(widen(x), activate_left), x.dtype)
    _store_dual_axis(y, group_index, Scaling(algorithm, round_mode or "rint"), x.dtype, out)


@reference("aclnnSwigluBackwardMxQuantWithDualAxis", raw=True)
def swiglu_backward_mx_quant_with_dual_axis(
    x: Array,
    y_grad: Array,
    group_index: Optional[Array],
    activate_left: bool,
    round_mode: Optional[str],
    algorithm: int,
    dst_type: int,
    type_max: float,
    *,
    out: tuple[Array, Array, Array, Array],
) -> None:
    """The gradient of swiglu, then blocks as for ``swiglu_mx_quant_with_dual_axis``."""
    halves = np.split(widen(x), 2, -1)
    a, b = halves if activate_left else halves[::-1]
    s, dy = sigmoid(a), widen(y_grad)
    gradients = dy * b * s * (1 + a - a * s), dy * a * s
    dx = np.concatenate(gradients if activate_left else gradients[::-1], -1)
    _store_dual_axis(_as_stored(dx, x.dtype), group_index, Scaling(algorithm, round_mode or "rint"), x.dtype, out)
