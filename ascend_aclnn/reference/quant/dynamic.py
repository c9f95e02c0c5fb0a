"""Quantising with scales that are found from the values (ops-nn/quant), also after a gate.

Quotients are divided as the documents have it. Where a kernel multiplies by a reciprocal instead, a value half-way
between two steps may come out one step away on the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import SMALL, Array, along, is_integer, round_into, widen
from ascend_aclnn.reference._gates import clamped_gate, situ, swiglu
from ascend_aclnn.reference._quantise import INT8_MAX, by_row, by_scale, group_rows, largest, store, target
from ascend_aclnn.reference._special import sigmoid
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.quant.static import dequantised


def _smoothed(x: Array, smooth: Optional[Array], group_index: Optional[Array], channels: bool = False) -> Array:
    """x times factors of its columns (``channels``: of its rows, the axis before the last), by groups of rows."""
    if smooth is None:
        return x
    smooth = widen(smooth)
    if group_index is None:
        return x * (smooth[..., None] if channels else smooth)
    group, _ = group_rows(group_index, int(np.prod(x.shape[:-1])))
    return x * smooth[group].reshape(x.shape)


def dynamic_quant(
    x: Array, axes: Optional[tuple[int, ...]], most: float, least: Optional[float]
) -> tuple[Array, Array, Array]:
    """x over scales that the axes share, the scales, and offsets; ``least`` None: symmetric, without offsets."""
    if least is None:
        scales = np.max(np.abs(x), axes, keepdims=True, initial=0) / np.float32(most)
        return np.where(scales == 0, 0, x / np.where(scales == 0, 1, scales)), scales, np.zeros_like(scales)
    if not x.size:
        scales = np.ones(np.max(x, axes, keepdims=True, initial=0).shape, np.float32)
        return x, scales, np.zeros_like(scales)
    top, bottom = np.max(x, axes, keepdims=True), np.min(x, axes, keepdims=True)
    scales = np.maximum((top - bottom) / np.float32(most - least), np.float32(1e-12))
    offsets = np.float32(most) - top / scales
    return x / scales + offsets, scales, offsets


def _token(x: Array, smooth: Optional[Array], most: float) -> tuple[Array, Array]:
    """Rows to be rounded to integers over their scales, and the scales; of zeros only these stay."""
    x = x if smooth is None else x * smooth
    scales = np.max(np.abs(x), -1, keepdims=True) / np.float32(most)
    return x / np.where(scales == 0, np.float32(1), scales), np.squeeze(scales, -1)


def _dynamic(
    x: Array,
    smooth: Optional[Array],
    group_index: Optional[Array],
    mode: str,
    symmetric: bool,
    type_max: float,
    out: Sequence[Any],
) -> None:
    if mode == "pertoken" and symmetric and group_index is None and out[0].dtype == np.int8 and x.size > SMALL:
        rows = [x, None if smooth is None else smooth.reshape((1,) * (x.ndim - 1) + (-1,)), type_max or INT8_MAX]
        if along(_token, lambda x, *_: (x.ndim - 1,), rows, out[:2]):
            for offset in out[2:]:
                if offset is not None:
                    offset[...] = 0
            return
    wide = _smoothed(widen(x), smooth, group_index, mode == "perchannel")
    axes = {"pertoken": (-1,), "perchannel": (-2,)}.get(mode)
    kind = target(out[0])
    most = type_max or largest(kind)
    least = -most - (1 if is_integer(kind) else 0)
    y, scales, offsets = dynamic_quant(wide, axes, most, None if symmetric else least)
    store(out[0], y)
    round_into(out[1], scales.reshape(out[1].shape))
    if len(out) > 2 and out[2] is not None:
        round_into(out[2], offsets.reshape(out[2].shape))


@reference("aclnnDynamicQuant", raw=True)
def dynamic_quant_rows(x: Array, smooth: Optional[Array], *, out: tuple[Array, Array]) -> None:
    """Each row over its scale, such that its largest magnitude becomes the largest of the data type."""
    _dynamic(x, smooth, None, "pertoken", True, 0, out)


@reference("aclnnDynamicQuantV2", raw=True)
def dynamic_quant_v2(
    x: Array,
    smooth: Optional[Array],
    group_index: Optional[Array],
    dst_type: int,
    *,
    out: tuple[Array, Array, Optional[Array]],
) -> None:
    """As aclnnDynamicQuant, with factors by groups of rows; asymmetric where offsets are asked for."""
    _dynamic(x, smooth, group_index, "pertoken", out[2] is None, 0, out)


@reference("aclnnDynamicQuantV3", "aclnnDynamicQuantV4", raw=True)
def dynamic_quant_v4(
    x: Array,
    smooth: Optional[Array],
    group_index: Optional[Array],
    dst_type: int,
    symmetric: bool,
    mode: str,
    type_max: float = 0.0,
    *,
    out: tuple[Array, Array, Optional[Array]],
) -> None:
    """By rows ("pertoken"), by columns ("perchannel") or as a whole ("pertensor"); dstTypeMax is for HIFLOAT8."""
    _dynamic(x, smooth, group_index, mode, symmetric, 0, out)


# ------------------------------------------------------------------------------------------------------- gates


def _by_group(values: Optional[Array], group: Array, groups: int, column: bool = False) -> Any:
    """Parameters for each row: those of its group where there is a row of them for each group."""
    if values is None or groups == 0:
        return values
    if values.ndim == 1 and values.size == groups and (column or groups > 1):
        return values[group][:, None]
    return values[group] if values.ndim == 2 and len(values) == groups else values


def swi_glu_quant(
    x: Array,
    smooth: Optional[Array],
    offsets: Optional[Array],
    group_index: Optional[Array],
    activate_left: bool,
    mode: Optional[str],
    group_list_type: int = 0,
    dst_type: int = 2,
    *,
    out: tuple[Array, Optional[Array]],
) -> None:
    """swiglu times smoothScales, then by offsets (static) or over the largest magnitude of rows; scaleOut is 127 / it.

    groupIndex has the groups' ends, or with groupListType 1 their sizes; rows after them are not smoothed.
    """
    y = swiglu(widen(x), activate_left)
    rows = y.reshape(-1, y.shape[-1])
    ends = np.full(1, len(rows)) if group_index is None else group_index
    group, inside = group_rows(np.cumsum(ends) if group_list_type == 1 else ends, len(rows))
    if smooth is not None:
        factors = _by_group(smooth, group, len(ends), True)
        rows = np.where(inside[:, None], rows * factors, rows)
    if mode == "static":
        moved = (
            rows if offsets is None else rows + np.where(inside[:, None], _by_group(offsets, group, len(ends), True), 0)
        )
        store(out[0], moved.reshape(y.shape))
        return
    most = np.float32(largest(out[0].dtype))
    scales = most / np.max(np.abs(rows), 1, keepdims=True, initial=0)
    store(out[0], np.nan_to_num(rows * scales, nan=0.0).reshape(y.shape))
    if out[1] is not None:
        round_into(out[1], scales.reshape(out[1].shape))


reference("aclnnSwiGluQuant", "aclnnSwiGluQuantV2", raw=True)(swi_glu_quant)


@reference("aclnnDequantSwigluQuant", "aclnnDequantSwigluQuantV2", raw=True)
def dequant_swiglu_quant(
    x: Array,
    weight_scale: Optional[Array],
    row_scale: Optional[Array],
    bias: Optional[Array],
    quant_scale: Optional[Array],
    quant_offset: Optional[Array],
    group_index: Optional[Array],
    activate_left: bool,
    mode: Optional[str],
    dst_type: int = 2,
    round_mode: Optional[str] = None,
    axis: int = -1,
    swiglu_mode: int = 0,
    limit: float = 7.0,
    alpha: float = 1.702,
    glu_bias: float = 1.0,
    *,
    out: tuple[Array, Optional[Array]],
) -> list[Optional[Array]]:
    """Dequantised, gated, quantised again: by given scales ("static") or by the largest magnitude of rows.

    groupIndex has the sizes of groups of rows. Rows after them, which the device leaves as they were, become zero.
    """
    rows = int(np.prod(x.shape[:-1]))
    counts = np.zeros(0, np.int64) if group_index is None else group_index
    if counts.ndim == 2:  # pairs of a group's number and its size
        order, counts = counts[:, 0], counts[:, 1]
        group, inside = group_rows(np.cumsum(counts), rows)
        group = order[group]
    else:
        group, inside = group_rows(np.cumsum(counts), rows)
    groups = len(counts)

    def parameter(values: Optional[Array], column: bool = False) -> Any:
        return None if values is None else _by_group(widen(values), group, groups, column)

    flat = widen(x).reshape(rows, x.shape[-1])
    scales_of_rows = None if row_scale is None else row_scale.reshape(rows, 1)
    wide = dequantised(flat, parameter(weight_scale), scales_of_rows, parameter(bias)).reshape(x.shape)
    y = clamped_gate(wide, swiglu_mode, limit, alpha, glu_bias, activate_left, axis)
    if axis % x.ndim != x.ndim - 1:
        groups, inside = 0, np.ones(1, bool)
    result = y.reshape(math.prod(y.shape[:-1]), y.shape[-1])
    factors = parameter(quant_scale, True)
    if mode == "dynamic":
        result, scales = by_row(result if factors is None else result * factors, largest(out[0].dtype))
        if out[1] is not None:
            round_into(out[1], np.where(inside if groups else True, scales, 0).reshape(out[1].shape))
    elif factors is not None:
        result = by_scale(result, factors, parameter(quant_offset, True), divide=True)
    blanked = np.where(inside[:, None], result, 0) if groups else result
    store(out[0], blanked.reshape(y.shape), round_mode or "rint")
    return [] if mode == "dynamic" else [out[1]]


@reference("aclnnDequantSituQuant", raw=True)
def dequant_situ_quant(
    x: Array,
    weight_scale: Optional[Array],
    activation_scale: Optional[Array],
    bias: Optional[Array],
    quant_scale: Optional[Array],
    quant_offset: Optional[Array],
    group_index: Optional[Array],
    beta: float,
    linear_beta: float,
    activate_left: bool,
    mode: Optional[str],
    *,
    out: tuple[Array, Array],
) -> None:
    """Dequantised, gated by ``situ``, quantised to INT8, half to even (where the document says truncated).

    With INT32 x, groupIndex has the sizes of groups of rows, and the parameters a row for each; rows after them become zero.
    16-bit x is quantised by its rows always, whatever parameters come.
    """
    rows = int(np.prod(x.shape[:-1]))
    wide = widen(x).reshape(rows, x.shape[-1]).astype(np.float32)
    inside = np.ones((rows, 1), bool)
    if is_integer(x.dtype):
        parameters = [weight_scale, bias]
        if x.dtype == np.int32 and group_index is not None:
            group, member = group_rows(np.cumsum(np.maximum(group_index, 0)), rows)
            parameters, inside = [None if p is None else p[group] for p in parameters], member[:, None]
        wide = wide if parameters[0] is None else wide * parameters[0]
        wide = wide if activation_scale is None else wide * activation_scale.reshape(rows, 1)
        wide = wide if parameters[1] is None else wide + parameters[1]
    y = situ(wide, beta, linear_beta, activate_left)
    if x.dtype == np.int8 and mode == "static" and quant_scale is not None:
        if quant_scale.size == 1:
            y = y * (1 if quant_scale[0] == 0 else np.float32(1) / quant_scale)
        else:
            y = y / quant_scale
        y, scales = y if quant_offset is None else y + quant_offset, np.zeros((rows, 1), np.float32)
    else:
        y = y if quant_scale is None or x.dtype != np.int8 else y * quant_scale
        scales = np.max(np.abs(y), -1, keepdims=True, initial=0) * np.float32(1 / INT8_MAX)
        divisors = np.where(scales == 0, np.float32(1), scales)
        y = y * (np.float32(1) / divisors)
        if x.dtype != np.int8:
            scales = divisors
    store(out[0], np.where(inside, y, 0).reshape(out[0].shape))
    round_into(out[1], np.where(inside, scales, 0).reshape(out[1].shape))


@reference("aclnnSwigluGroupGrad")
def swiglu_group_grad(
    dy: Array,
    x: Array,
    weight: Optional[Array],
    y: Optional[Array],
    group_index: Optional[Array],
    limit: float,
) -> tuple[Array, Optional[Array]]:
    """The gradient of weight * swiglu(x), clamped if the limit is positive; rows after the groups have none."""
    gate, linear = np.split(x, 2, -1)
    a, b = (np.minimum(gate, limit), np.clip(linear, -limit, limit)) if limit > 0 else (gate, linear)
    s = sigmoid(a)
    grad = dy if weight is None else dy * weight.reshape(*dy.shape[:-1], 1)
    da, db = grad * b * s * (1 + a * (1 - s)), grad * a * s
    if limit > 0:
        da, db = da * (gate < limit), db * (np.abs(linear) < limit)
    dx = np.concatenate((da, db), -1)
    if group_index is not None:
        flat = dx.reshape(-1, dx.shape[-1])
        flat[int(group_index.sum()) :] = 0
        dx = flat.reshape(dx.shape)
    if weight is None or y is None:
        return dx, None
    return dx, np.asarray(np.sum(dy * y, -1, np.float64), np.float32).reshape(weight.shape)
