"""Normalisation of rows by their root mean square, between an addition and a quantisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.core.errors import UnsupportedOperator
from ascend_aclnn.numerics import Array, along, round_into, rounded_to, widen
from ascend_aclnn.reference import _mx as mx
from ascend_aclnn.reference._moments import affine, inverse_deviation, mean_over, sum_over
from ascend_aclnn.reference._quantise import by_row, by_scale, largest, store
from ascend_aclnn.reference.declare import reference


def _norm(x: Array, gamma: Array, epsilon: float, beta: Optional[Array] = None) -> tuple[Array, Array]:
    """x / rms(x) * gamma + beta over gamma's axes, and 1 / rms(x)."""
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    rstd = inverse_deviation(mean_over(np.square(x), axes), epsilon)
    return affine(x * rstd, gamma, beta), rstd


def _row(values: Array, x: Array) -> Array:
    """gamma of shape (H,) or (1, H): one value for every column of x."""
    return values.reshape(x.shape[-1:]) if values.size == x.shape[-1] else values


@reference("aclnnGemmaRmsNorm")
def gemma_rms_norm(x: Array, gamma: Array, epsilon: float) -> Any:
    return _norm(x, 1 + gamma, epsilon)


def _of_sum(
    x1: Array, x2: Array, gamma: Array, epsilon: float, rounded: Optional[np.dtype[Any]]
) -> tuple[Array, Array, Array]:
    """The norm of x1 + x2, 1 / rms and the sum, which is first rounded to a dtype if there is one."""
    x = x1 + x2
    if rounded is not None:
        x = x.astype(rounded)
        x = widen(x)
    return (*_norm(x, gamma, epsilon), x)


def add_norm(x1: Array, x2: Array, gamma: Array, epsilon: float) -> tuple[Array, Array, Array]:
    """The norm of x1 + x2, 1 / rms and the sum. The kernel adds float16 in half precision, and norms the rounded sum."""
    return _of_sum(widen(x1), widen(x2), widen(gamma), epsilon, _rounded_to(x1.dtype))


def _rounded_to(dtype: np.dtype[Any]) -> Optional[np.dtype[Any]]:
    return dtype if dtype == np.float16 else None


_VECTOR_CORES = 48  # of Ascend910B1 and B2; B3 and B4 have 40
_FEW_COLUMNS = 2000  # of gamma, in whole blocks of 16: several rows are normed at once
_ONE_TILE = 12288  # of gamma


def _norms_rounded_bf16(x: Array, gamma: Array) -> bool:
    """Whether AddRmsNorm's kernel on A2 and A3 norms the sum that was rounded to BF16.

    It does with few columns (kernel merge_n), and where each core has one row that fits (single_n). Longer rows, several
    for a core, and rows in pieces (the base kernel and split_d) are normed before rounding.
    """
    columns = gamma.size
    one_row = x.size <= columns * _VECTOR_CORES and columns <= _ONE_TILE
    return one_row or -(-columns // 16) * 16 <= _FEW_COLUMNS


def _axes_of_gamma(x1: Array, x2: Array, gamma: Array, *_: Any) -> range:
    return range(x1.ndim - gamma.ndim, x1.ndim)


def _cast_of_sum(*arguments: Any) -> tuple[Array, ...]:
    y, rstd, x = _of_sum(*arguments)
    return y, y, rstd, x


def _in_place_of_sum(*arguments: Any) -> tuple[Array, ...]:
    y, rstd, x = _of_sum(*arguments)
    return y, x, rstd


def _share_memory(arrays: Sequence[Optional[Array]]) -> bool:
    present = [array for array in arrays if array is not None]
    return any(np.may_share_memory(a, b) for i, a in enumerate(present) for b in present[:i])


def _added(name: str, function: Callable[..., tuple[Array, ...]], product: str = "") -> None:
    """Registers a norm of a sum, in blocks of rows. AddRmsNorm launches no kernel where gamma is empty.

    The kernel writes the sum of a row before its norm: ggml has both in the same memory, and wants the norm.
    """

    @reference(name, raw=True, product=product)
    def add_rms_norm(x1: Array, x2: Array, gamma: Array, epsilon: float, *, out: Sequence[Optional[Array]]) -> None:
        if not gamma.size and function is _of_sum:
            return
        rounded = None if product == "950" else _rounded_to(x1.dtype)
        if (
            not product
            and x1.dtype == ml_dtypes.bfloat16
            and function is not _cast_of_sum
            and _norms_rounded_bf16(x1, gamma)
        ):
            rounded = x1.dtype
        alone = not _share_memory(out)
        if alone and x1.shape == x2.shape and along(function, _axes_of_gamma, (x1, x2, gamma, epsilon, rounded), out):
            return
        results = function(widen(x1), widen(x2), widen(gamma), epsilon, rounded)
        for target, value in zip(reversed(out), reversed(results)):
            if target is not None:
                round_into(target, np.asarray(value).reshape(target.shape))


for _product in ("", "950"):  # whose kernels keep the sum in float32
    _added("aclnnAddRmsNorm", _of_sum, _product)
    _added("aclnnInplaceAddRmsNorm", _in_place_of_sum, _product)  # x1 becomes the norm, x2 the sum
    _added("aclnnAddRmsNormCast", _cast_of_sum, _product)  # the norm twice: once in float32, once as the inputs are

# ------------------------------------------------------------------------------------------------- given scales


@reference("aclnnAddRmsNormQuantV2", raw=True)
def add_rms_norm_quant_v2(
    x1: Array,
    x2: Array,
    gamma: Array,
    scales1: Array,
    scales2: Optional[Array],
    zero_points1: Optional[Array],
    zero_points2: Optional[Array],
    beta: Optional[Array],
    axis: int,
    epsilon: float,
    div_mode: bool,
    *,
    out: Sequence[Optional[Array]],
) -> list[Optional[Array]]:
    """The norm of x1 + x2, plus beta and quantised by one or two scales; also the sum and the norm."""
    x = np.asarray(widen(x1) + widen(x2))
    normed = _norm(x, _row(widen(gamma), x), epsilon)[0]
    y = normed if beta is None else normed + _row(widen(beta), x)
    quantised = []
    for scales, points in ((scales1, zero_points1), (scales2, zero_points2)):
        wide = None if points is None else widen(points)
        quantised.append(None if scales is None else by_scale(y, widen(scales), wide, div_mode))
    for value, target in zip(quantised, out):
        if value is not None and target is not None:
            store(target, value)
    for value, target in zip((x, normed), out[2:]):
        if target is not None:
            round_into(target, value)
    return [target for value, target in zip(quantised, out) if value is None]


@reference("aclnnAddRmsNormQuant", raw=True)
def add_rms_norm_quant(*arguments: Any, out: Sequence[Optional[Array]]) -> list[Optional[Array]]:
    unwritten: list[Optional[Array]] = add_rms_norm_quant_v2(*arguments[:7], None, *arguments[7:], out=(*out, None))
    return unwritten


@reference("aclnnRmsNormQuant")
def rms_norm_quant(x: Array, gamma: Array, beta: Array, scale: Array, offset: Array, epsilon: float) -> Any:
    return by_scale(_norm(x, _row(gamma, x), epsilon, _row(beta, x))[0], scale, offset, True)


@reference("aclnnRmsNormQuantV3", raw=True)
def rms_norm_quant_v3(
    x: Array,
    gamma: Array,
    scale: Array,
    offset: Optional[Array],
    beta: Optional[Array],
    epsilon: float,
    div_mode: bool,
    output_rstd: bool,
    *,
    out: Sequence[Optional[Array]],
) -> Optional[list[Optional[Array]]]:
    x, target = widen(x), out[0]
    y, rstd = _norm(x, _row(widen(gamma), x), epsilon, None if beta is None else _row(widen(beta), x))
    assert target is not None
    store(target, by_scale(y, widen(scale), None if offset is None else widen(offset), div_mode))
    if not output_rstd:
        return [out[1]]
    if out[1] is not None:
        round_into(out[1], rstd)
    return None


@reference("aclnnRmsNormGradQuant", raw=True)
def rms_norm_grad_quant(
    dy: Array,
    x: Array,
    rstd: Array,
    gamma: Array,
    scales: Array,
    offset: Optional[Array],
    quant_mode: str,
    div_mode: bool,
    *,
    out: tuple[Array, Array],
) -> None:
    """The gradient through the norm, quantised (which saturates HIFLOAT8 too), and gamma's gradient."""
    dy, x, gamma, scales = widen(dy), widen(x), widen(gamma), widen(scales)
    width = gamma.size
    normed = x.reshape(-1, width) * rstd.reshape(-1, 1)
    grad = dy.reshape(-1, width)
    scaled = grad * gamma.reshape(width)
    projection = mean_over(scaled * normed, (1,)).astype(np.float32)
    dx = ((scaled - normed * projection) * rstd.reshape(-1, 1)).reshape(x.shape)
    store(out[0], by_scale(dx, scales, offset, div_mode))
    round_into(out[1], sum_over(grad * normed, (0,)).reshape(gamma.shape))


# ------------------------------------------------------------------------------------------------- each row's scale


@reference("aclnnAddRmsNormDynamicQuantV2", raw=True)
def add_rms_norm_dynamic_quant_v2(
    x1: Array,
    x2: Array,
    gamma: Array,
    smooth1: Optional[Array],
    smooth2: Optional[Array],
    beta: Optional[Array],
    epsilon: float,
    mask: Optional[Sequence[bool]],
    *,
    out: Sequence[Optional[Array]],
) -> list[Optional[Array]]:
    """Two quantisations of the norm of x1 + x2 (plus beta), each with its own smoothing factors; the mask chooses."""
    y1, y2, x_out, scale1, scale2 = out
    x = np.asarray(widen(x1) + widen(x2))
    y = _norm(x, widen(gamma), epsilon, None if beta is None else widen(beta))[0]
    wanted = (True, smooth1 is not None and smooth2 is not None) if mask is None else mask
    unwritten = []
    for is_wanted, smooth, target, scales in ((wanted[0], smooth1, y1, scale1), (wanted[1], smooth2, y2, scale2)):
        if not is_wanted:
            unwritten += [target, scales]
        elif target is not None and scales is not None:
            values, row_scales = by_row(y if smooth is None else y * widen(smooth), largest(target.dtype))
            round_into(target, values)
            round_into(scales, row_scales.reshape(scales.shape))
    if x_out is not None:
        round_into(x_out, x)
    return unwritten


@reference("aclnnAddRmsNormDynamicQuant", raw=True)
def add_rms_norm_dynamic_quant(
    x1: Array,
    x2: Array,
    gamma: Array,
    smooth1: Optional[Array],
    smooth2: Optional[Array],
    epsilon: float,
    *,
    out: Sequence[Optional[Array]],
) -> list[Optional[Array]]:
    unwritten: list[Optional[Array]] = add_rms_norm_dynamic_quant_v2(
        x1, x2, gamma, smooth1, smooth2, None, epsilon, None, out=out
    )
    return unwritten


@reference("aclnnRmsNormDynamicQuant", raw=True)
def rms_norm_dynamic_quant(
    x: Array,
    gamma: Array,
    smooth: Optional[Array],
    beta: Optional[Array],
    epsilon: float,
    dst_type: int,
    *,
    out: tuple[Array, Array],
) -> None:
    wide = widen(x)
    y = _norm(wide, widen(gamma), epsilon, None if beta is None else widen(beta))[0]
    values, scales = by_row(y if smooth is None else y * widen(smooth), largest(out[0].dtype))
    round_into(out[0], values)
    round_into(out[1], scales.reshape(out[1].shape))


# ------------------------------------------------------------------------------------------------- shared exponents


def _store_mx(
    name: str, y: Array, like: Array, algorithm: int, mode: Optional[str], target: Array, scales: Array
) -> None:
    """y, rounded to the input's data type first, in blocks that share an exponent."""
    if not mx.is_supported(target.dtype):
        raise UnsupportedOperator(name, "the NumPy backend has no such dst_type")
    rounded = widen(rounded_to(y, like.dtype))
    values, exponents = mx.quantised(rounded, target.dtype, algorithm, mode or "rint")
    round_into(target, values)
    np.copyto(scales.view(np.uint8), exponents.reshape(scales.shape))


@reference("aclnnRmsNormDynamicMxQuant", raw=True)
def rms_norm_dynamic_mx_quant(
    x: Array,
    gamma: Array,
    beta: Optional[Array],
    epsilon: float,
    scale_alg: int,
    round_mode: Optional[str],
    dst_type: int,
    output_rstd: bool,
    *,
    out: tuple[Array, Array, Optional[Array]],
) -> None:
    y, rstd = _norm(widen(x), widen(gamma), epsilon, None if beta is None else widen(beta))
    _store_mx("aclnnRmsNormDynamicMxQuant", y, x, scale_alg, round_mode, out[0], out[1])
    if output_rstd and out[2] is not None:
        round_into(out[2], rstd)


@reference("aclnnAddRmsNormDynamicMxQuant", raw=True)
def add_rms_norm_dynamic_mx_quant(
    x1: Array,
    x2: Array,
    gamma: Array,
    beta: Optional[Array],
    epsilon: float,
    scale_alg: int,
    round_mode: Optional[str],
    dst_type: int,
    output_rstd: bool,
    *,
    out: tuple[Array, Array, Array, Optional[Array]],
) -> None:
    x = np.asarray(widen(x1) + widen(x2))
    y, rstd = _norm(x, widen(gamma), epsilon, None if beta is None else widen(beta))
    _store_mx("aclnnAddRmsNormDynamicMxQuant", y, x1, scale_alg, round_mode, out[0], out[2])
    round_into(out[1], x)
    if output_rstd and out[3] is not None:
        round_into(out[3], rstd)
