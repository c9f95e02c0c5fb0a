"""Quantising to 8 and 4 bits and back (ops-nn/quant).

Quotients are divided as the documents have it. Where a kernel multiplies by a reciprocal instead, a value half-way
between two steps may come out one step away on the chip. Blocks with shared exponents (MX) have no reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.core.errors import UnsupportedOperator
from ascend_aclnn.numerics import Array, is_integer, is_low_precision, matmul, round_into, widen
from ascend_aclnn.reference._quantise import by_row, by_scale, largest
from ascend_aclnn.reference._special import sigmoid
from ascend_aclnn.reference.declare import reference

INT4 = np.dtype(ml_dtypes.int4)

# Rounding to whole numbers; "rint" is left to the store, which also rounds half to even.
_ROUND: dict[str, Callable[[Array], Array]] = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}

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


def store(out: Array, y: Array, round_mode: str = "rint") -> None:
    """Rounds and saturates into an output; small floats saturate too."""
    y = _ROUND.get(round_mode, np.asarray)(y)
    if out.dtype == np.int32:
        np.copyto(out, packed(y))
    elif is_low_precision(out.dtype):
        most = np.float32(largest(out.dtype))
        round_into(out, np.clip(y, -most, most))
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


# ------------------------------------------------------------------------------------------------------- given scales


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
    scales = along(widen(scale), axis, x.ndim)
    y = widen(x) * scales
    y = y * scales if sqrt_mode else y
    store(out[0], y if offset is None else y + along(widen(offset), axis, x.ndim), round_mode)


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


# ------------------------------------------------------------------------------------------------------- found scales


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


def _dynamic(
    x: Array,
    smooth: Optional[Array],
    group_index: Optional[Array],
    mode: str,
    symmetric: bool,
    type_max: float,
    out: Sequence[Any],
) -> None:
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


@reference("aclnnDynamicBlockQuant", "aclnnDynamicBlockQuantV2", raw=True)
def dynamic_block_quant(
    x: Array,
    min_scale: float,
    round_mode: Optional[str],
    dst_type: int,
    row_block: int,
    col_block: int,
    type_max: float = 0.0,
    *,
    out: tuple[Array, Array],
) -> None:
    """Blocks of the last two axes over their scales; 1 / minScale is the largest scale."""
    wide = widen(x)
    rows, columns = x.shape[-2:]
    blocks = [-(-rows // row_block), -(-columns // col_block)]
    padding = [(0, 0)] * (x.ndim - 2) + [(0, blocks[0] * row_block - rows), (0, blocks[1] * col_block - columns)]
    cut = np.pad(np.abs(wide), padding).reshape(*x.shape[:-2], blocks[0], row_block, blocks[1], col_block)
    scales = cut.max(axis=(-3, -1), initial=0) / np.float32(type_max or largest(out[0].dtype))
    if min_scale > 0:
        scales = np.minimum(scales, np.float32(1 / min_scale))
    spread = scales.repeat(row_block, axis=-2)[..., :rows, :].repeat(col_block, axis=-1)[..., :columns]
    store(out[0], np.where(spread == 0, 0, wide / np.where(spread == 0, 1, spread)), round_mode or "rint")
    round_into(out[1], scales)


@reference("aclnnFlatQuant", "aclnnFlatQuantV2", "aclnnFlatQuantV3", raw=True)
def flat_quant(x: Array, left: Array, right: Array, *attributes: Any, out: tuple[Array, Array]) -> None:
    """P1 @ x @ P2, each matrix quantised to 4 bits by its largest magnitude."""
    if is_low_precision(out[0].dtype) or isinstance(attributes[0], np.ndarray):
        raise UnsupportedOperator("aclnnFlatQuant", "the NumPy backend quantises whole matrices to INT4, no groups")
    clip_ratio = next(value for value in attributes if isinstance(value, float))
    y = matmul(widen(left), matmul(widen(x), widen(right)))
    flat, scales = by_row(y.reshape(len(y), -1), np.float32(7 / clip_ratio).item())
    store(out[0], flat.reshape(y.shape))
    round_into(out[1], scales.reshape(out[1].shape))


# ------------------------------------------------------------------------------------------------------- gates


def swiglu(x: Array, activate_left: bool, axis: int = -1) -> Array:
    """silu(A) * B, A and B being the halves of an axis, A the left one if ``activate_left``."""
    halves = np.split(x, 2, axis)
    a, b = halves if activate_left else reversed(halves)
    return np.asarray(a * sigmoid(a) * b)


def clamped_gate(x: Array, mode: int, limit: float, alpha: float, bias: float, left: bool, axis: int) -> Array:
    """The gates of swigluMode: 0 plain, 1 (even and odd elements) and 2 clamped before, 3 clamped behind."""
    if mode == 0:
        return swiglu(x, left, axis)
    gate, linear = (x[..., ::2], x[..., 1::2]) if mode == 1 else np.split(x, 2, axis)
    linear = np.clip(linear, -limit, limit)
    if mode == 3:
        return np.asarray(np.minimum(gate * sigmoid(gate), limit) * linear)
    gate = np.minimum(gate, limit)
    return np.asarray(gate * sigmoid(np.float32(alpha) * gate) * (linear + np.float32(bias)))


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

    groupIndex has the groups' ends, or with groupListType 1 their sizes; rows behind them are not smoothed.
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
) -> None:
    """Dequantised, gated, quantised again: by given scales ("static") or by the largest magnitude of rows.

    groupIndex has the sizes of groups of rows. Rows behind them, which the chip leaves as they were, become zero.
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
    result = y.reshape(-1, y.shape[-1])
    factors = parameter(quant_scale, True)
    if mode == "dynamic":
        result, scales = by_row(result if factors is None else result * factors, largest(out[0].dtype))
        if out[1] is not None:
            round_into(out[1], np.where(inside if groups else True, scales, 0).reshape(out[1].shape))
    elif factors is not None:
        result = by_scale(result, factors, parameter(quant_offset, True), divide=True)
    kept = np.where(inside[:, None], result, 0) if groups else result
    store(out[0], kept.reshape(y.shape), round_mode or "rint")


@reference("aclnnSwigluGroupGrad")
def swiglu_group_grad(
    dy: Array,
    x: Array,
    weight: Optional[Array],
    y: Optional[Array],
    group_index: Optional[Array],
    limit: float,
) -> tuple[Array, Optional[Array]]:
    """The gradient of weight * swiglu(x), clamped if the limit is positive; rows behind the groups have none."""
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
    return dx, np.sum(dy * y, -1, np.float64).astype(np.float32).reshape(weight.shape)


# ------------------------------------------------------------------------------------------------------- parameters


def fixpipe_parameters(scale: Array, offset: Optional[Array], round_mode: int = 0) -> Array:
    """Scales as the fixpipe takes them: a float of 19 bits, a flag, and 9 bits of offset.

    roundMode 0 cuts the scale's last 13 bits off, 1 rounds them half to even.
    """
    bits = np.ascontiguousarray(scale).view(np.uint32)
    if round_mode == 1:
        finite = np.isfinite(scale)
        bits = np.where(finite, bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1)), bits)
    made: Array = (bits & np.uint32(0xFFFFE000)).astype(np.uint64) | np.uint64(1 << 46)
    if offset is None:
        return made
    whole = (np.clip(np.rint(offset), -256, 255).astype(np.int64) & 0x1FF).astype(np.uint64)
    return np.asarray(made.reshape(-1) | whole.reshape(-1) << np.uint64(37))


def scale_of(parameters: Array) -> Array:
    """The scales in fixpipe parameters (or plain float scales)."""
    if parameters.dtype.kind != "u" and parameters.dtype != np.int64:
        return widen(parameters)
    return np.asarray((parameters.astype(np.uint64) & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32))


def offset_of(parameters: Array) -> Array:
    """The offsets in fixpipe parameters."""
    bits = (parameters.astype(np.uint64) >> np.uint64(37)).astype(np.int64) & 0x1FF
    return np.asarray(np.where(bits >= 256, bits - 512, bits), np.float32)


@reference("aclnnTransQuantParamV2", "aclnnTransQuantParamV3", raw=True)
def trans_quant_param(scale: Array, offset: Optional[Array], round_mode: int = 0, *, out: tuple[Array]) -> None:
    """``fixpipe_parameters`` of scales and offsets."""
    np.copyto(out[0], fixpipe_parameters(scale, offset, round_mode).reshape(out[0].shape).astype(out[0].dtype))
