"""Quantising with given scales, and back (ops-nn/quant).

Quotients are divided as the documents have it. Where a kernel multiplies by a reciprocal instead, a value half-way
between two steps may come out one step away on the device.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, elementwise, is_integer, matmul, round_into, widen
from ascend_aclnn.reference import _mx as mx
from ascend_aclnn.reference._quantise import (
    along,
    by_row,
    by_scale,
    fixpipe_parameters,
    group_rows,
    rounded,
    saturated_at,
    store,
    unpacked,
)
from ascend_aclnn.reference.declare import reference


@reference("aclnnAscendQuantV3", raw=True)
def ascend_quant(
    x: Array,
    scale: Array,
    offset: Optional[Array],
    sqrt_mode: bool,
    round_mode: str,
    dst_type: int,
    axis: int,
    *,
    out: tuple[Array],
) -> None:
    """round(x * scale + offset), with sqrtMode x * scale * scale."""
    scale, offset = along(scale, axis, x.ndim), along(offset, axis, x.ndim)
    how = sqrt_mode, round_mode, saturated_at(out[0].dtype)
    if out[0].dtype == np.int32 or not elementwise(_scaled, [x, scale, offset, *how], out):
        store(out[0], _scaled(widen(x), widen(scale), None if offset is None else widen(offset), *how))


def _scaled(x: Any, scale: Any, offset: Any, sqrt_mode: bool, round_mode: str, most: Optional[float]) -> Any:
    y = x * scale
    y = y * scale if sqrt_mode else y
    return rounded(y if offset is None else y + offset, round_mode, most)


@reference("aclnnAscendQuant", raw=True)
def ascend_quant_last_axis(
    x: Array,
    scale: Array,
    offset: Optional[Array],
    sqrt_mode: bool,
    round_mode: str,
    dst_type: int,
    *,
    out: tuple[Array],
) -> None:
    """``ascend_quant`` along the last axis."""
    scale, offset = scale.reshape(-1), None if offset is None else offset.reshape(-1)
    ascend_quant(x, scale, offset, sqrt_mode, round_mode, dst_type, -1, out=out)


@reference("aclnnAscendAntiQuant")
def ascend_anti_quant(x: Array, scale: Array, offset: Optional[Array], dst_type: int, sqrt_mode: bool) -> Any:
    """(x + offset) * scale, with sqrtMode times scale once more."""
    y = (unpacked(x) if x.dtype == np.int32 else x).astype(np.float32)
    y = y if offset is None else y + along(offset, -1, y.ndim)
    scales = along(scale, -1, y.ndim)
    return y * scales * scales if sqrt_mode else y * scales


@reference("aclnnQuantize", raw=True)
def quantize(
    x: Array, scales: Array, zero_points: Optional[Array], dtype: int, axis: int, *, out: tuple[Array]
) -> None:
    """round(x / scales) + zeroPoints, along an axis; INT32 is not packed here."""
    zero = None if zero_points is None else along(widen(zero_points).astype(np.float32), axis, x.ndim)
    y = by_scale(widen(x), along(widen(scales), axis, x.ndim), zero, divide=True)
    if out[0].dtype == np.int32:
        round_into(out[0], y)
    else:
        store(out[0], y)


@reference("aclnnGroupQuant", raw=True)
def group_quant(
    x: Array, scale: Array, group_index: Array, offset: Optional[Array], dst_type: int, *, out: tuple[Array]
) -> None:
    """round(x * scale + offset), rows by the scales of their group; groupIndex has the groups' ends."""
    group, _ = group_rows(group_index, len(x))
    store(out[0], by_scale(widen(x), widen(scale)[group], None if offset is None else widen(offset).reshape(()), False))


@reference("aclnnQuantMax", raw=True)
def quant_max(x: Array, scale: Array, round_mode: str, dst_type: int, *, out: tuple[Array, Array]) -> None:
    """x * scale, and the largest magnitude of x."""
    x = widen(x)
    store(out[0], x * scale)
    round_into(out[1], np.max(np.abs(x), keepdims=True, initial=0).reshape(1))


@reference("aclnnGroupedQuantMax", raw=True)
def grouped_quant_max(
    x: Array, scale: Array, group_list: Array, round_mode: str, dst_type: int, *, out: tuple[Array, Array]
) -> None:
    """``quant_max`` for groups of rows, groupList having their ends."""
    x = widen(x)
    group, inside = group_rows(group_list, len(x))
    column = (-1, *(1,) * (x.ndim - 1))
    store(out[0], x * scale[group].reshape(column))
    rows = np.where(inside, np.abs(x).reshape(len(x), -1).max(axis=1, initial=0), 0)
    most = np.zeros(len(group_list), np.float32)
    np.maximum.at(most, group, rows)
    round_into(out[1], most)


# ------------------------------------------------------------------------------------------------------- fake quantising


def _fake_quantised(x: Array, scale: Array, zero_point: Array, quant_min: int, quant_max: int) -> tuple[Array, Array]:
    inverse = np.float32(1) / scale
    zero = widen(zero_point)
    if is_integer(zero.dtype):
        whole = np.rint(x * inverse) + zero.astype(np.float32)
    else:
        whole = np.rint(x * inverse + zero)
    inside = (whole >= quant_min) & (whole <= quant_max)
    return (np.clip(whole, quant_min, quant_max).astype(np.float32) - zero.astype(np.float32)) * scale, inside


@reference("aclnnFakeQuantPerChannelAffineCachemask")
def fake_quant_per_channel(
    x: Array, scale: Array, zero_point: Array, axis: int, quant_min: int, quant_max: int
) -> tuple[Array, Array]:
    """x as it comes back from quantising along an axis, and where it was not clipped."""
    scales, zero_points = along(scale, axis, x.ndim), along(zero_point, axis, x.ndim)
    return _fake_quantised(x, scales, zero_points, quant_min, quant_max)


@reference("aclnnFakeQuantPerTensorAffineCachemask")
def fake_quant_per_tensor(
    x: Array, scale: Array, zero_point: Array, enabled: float, quant_min: int, quant_max: int
) -> tuple[Array, Array]:
    """x as it comes back from quantising (unchanged unless enabled), and where it was not clipped."""
    if enabled < 1:
        return x, np.ones(x.shape, bool)
    return _fake_quantised(x, scale.reshape(()), zero_point.reshape(()), quant_min, quant_max)


# ------------------------------------------------------------------------------------------------------- after a product


@reference("aclnnFlatQuant", raw=True)
def flat_quant(
    x: Array, left: Array, right: Array, clip_ratio: float, *, out: tuple[Array, Array], type_max: float = 0.0
) -> None:
    """P1 @ x @ P2: each matrix quantised to INT4 by its largest magnitude, or to FLOAT4 in blocks of 32 elements.

    A largest element other than 0 is that of DynamicMxQuantV2's third algorithm.
    """
    y = matmul(widen(left), matmul(widen(x), widen(right))).reshape(len(x), -1)
    if mx.is_supported(out[0].dtype):
        how = mx.Scaling(mx.DYNAMIC_RANGE if type_max else mx.OCP, type_max=type_max)
        mx.store(*out, *mx.along(y.reshape(out[0].shape), -1, out[0].dtype, how))
        return
    flat, scales = by_row(y, np.float32(7 / clip_ratio).item())
    store(out[0], flat.reshape(x.shape))
    round_into(out[1], scales.reshape(out[1].shape))


@reference("aclnnFlatQuantV2", raw=True)
def flat_quant_v2(
    x: Array, left: Array, right: Array, clip_ratio: float, type_max: float, *, out: tuple[Array, Array]
) -> None:
    flat_quant(x, left, right, clip_ratio, out=out, type_max=type_max)


@reference("aclnnFlatQuantV3", raw=True)
def flat_quant_v3(
    x: Array,
    left: Array,
    right: Array,
    groups: Optional[Array],
    clip_ratio: float,
    type_max: float,
    group_type: int,
    *,
    out: tuple[Array, Array],
) -> None:
    """Groups tell how many matrices count: by ends (0), sizes (1), or numbers and sizes (2). The others become 0.

    As in the kernel, all count where the groups have none or more than there are.
    """
    count = len(x)
    if groups is not None and groups.size:
        sizes = groups.reshape(-1, 2)[:, 1] if group_type == 2 else groups
        total = int(sizes[-1] if group_type == 0 else sizes.sum())
        count = total if 0 < total < count else count
    for target in out:
        target[count:] = np.zeros((), target.dtype)
    # An output of eight numbers in 32 bits has the rows of x, as all others have.
    flat_quant(x[:count], left, right, clip_ratio, out=(out[0][:count], out[1][:count]), type_max=type_max)


def dequantised(x: Array, weight_scale: Optional[Array], row_scale: Optional[Array], bias: Optional[Array]) -> Array:
    """x * weightScale * rowScale + bias; an integer bias is added to x instead."""
    if bias is not None and is_integer(bias.dtype):
        x, bias = x + bias, None
    y = x.astype(np.float32)
    if weight_scale is not None:
        y = y * weight_scale
    if row_scale is not None:
        y = y * row_scale
    return y if bias is None else y + bias


@reference("aclnnDequantBias")
def dequant_bias(x: Array, weight_scale: Array, row_scale: Optional[Array], bias: Optional[Array], dtype: int) -> Array:
    return dequantised(x, weight_scale, None if row_scale is None else row_scale[:, None], bias)


# ------------------------------------------------------------------------------------------------------- parameters


@reference("aclnnTransQuantParamV2", "aclnnTransQuantParamV3", raw=True)
def trans_quant_param(scale: Array, offset: Optional[Array], round_mode: int = 0, *, out: tuple[Array]) -> None:
    """``fixpipe_parameters`` of scales and offsets."""
    np.copyto(out[0], fixpipe_parameters(scale, offset, round_mode).reshape(out[0].shape).astype(out[0].dtype))
