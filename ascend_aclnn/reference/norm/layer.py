"""Normalisation of each row by its mean and variance, alone or between an addition and a quantisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn import native, numerics
from ascend_aclnn.numerics import Array, round_into
from ascend_aclnn.reference._moments import affine, centred, inverse_deviation, sum_over, through_moments
from ascend_aclnn.reference._quantise import by_row, by_scale
from ascend_aclnn.reference.declare import reference

# Elements from which the helper's gradient takes less time than NumPy's calls, and up to which its norm is not worth cutting.
_MANY, _ONE_PASS = 1 << 10, 1 << 18


def _last(x: Array, wanted: int) -> tuple[int, ...]:
    return tuple(range(x.ndim - wanted, x.ndim))


def first_axes(x: Array, wanted: int) -> tuple[int, ...]:
    return tuple(range(x.ndim - wanted))


def normalised(
    x: Array, weight: Optional[Array], bias: Optional[Array], axes: int, eps: float
) -> tuple[Array, Array, Array]:
    """The last axes normalised, the mean and the inverse deviation."""
    if type(x) is np.ndarray and x.size <= _ONE_PASS:
        done = native.layer_norm(x, weight, bias, axes, eps)
        if done is not None:
            return done
    apart, mean, variance = centred(x, _last(x, axes))
    rstd = inverse_deviation(variance, eps)
    apart *= rstd
    return affine(apart, weight, bias), mean, rstd


def _behind(x: Array, normalized_shape: Sequence[int], *_: Any) -> tuple[int, ...]:
    return _last(x, len(normalized_shape))


@reference("aclnnLayerNorm", "aclnnFastLayerNorm", along=_behind)
def layer_norm(
    x: Array, normalized_shape: Sequence[int], weight: Optional[Array], bias: Optional[Array], eps: float
) -> Any:
    return normalised(x, weight, bias, len(normalized_shape), eps)


@reference("aclnnLayerNormWithImplMode")
def layer_norm_with_impl_mode(
    x: Array,
    normalized_shape: Sequence[int],
    weight: Optional[Array],
    bias: Optional[Array],
    eps: float,
    impl_mode: int,
) -> Any:
    """The modes that are faster and less exact (1, and 2: all in FLOAT16) are computed like the exact one."""
    return normalised(x, weight, bias, len(normalized_shape), eps)


def gradients(
    grad: Array, x: Array, mean: Array, rstd: Array, weight: Optional[Array], axes: int
) -> tuple[Array, Array]:
    """The input's gradient, and what is to be summed over rows for the weight's."""
    row_shape = x.shape[: x.ndim - axes] + (1,) * axes
    rstd = rstd.reshape(row_shape)
    normed = (x - mean.reshape(row_shape)) * rstd
    dx = through_moments(grad if weight is None else grad * weight, normed, _last(x, axes))
    dx *= rstd
    return dx, grad * normed


def _through(grad: Array, x: Array, mean: Array, rstd: Array, weight: Optional[Array], axes: int) -> Array:
    normed = (x - mean) * rstd
    through: Array = through_moments(grad if weight is None else grad * weight, normed, _last(x, axes)) * rstd
    return through


def _dweight_terms(grad: Array, x: Array, mean: Array, rstd: Array) -> Array:
    terms: Array = grad * ((x - mean) * rstd)
    return terms


def _in_blocks(
    grad: Array, x: Array, mean: Array, rstd: Array, weight: Optional[Array], axes: int, out: Sequence[Optional[Array]]
) -> bool:
    """The gradients of contiguous rows, in blocks. False if blocks do not fit; the input's gradient may then be written."""
    row_shape = x.shape[: x.ndim - axes] + (1,) * axes
    operands = [grad, x, mean.reshape(row_shape), rstd.reshape(row_shape)]
    behind = _last(x, axes)
    if out[0] is not None and not numerics.along(_through, lambda *_: behind, [*operands, weight, axes], out[:1]):
        return False
    rows, width = math.prod(row_shape), math.prod(x.shape[x.ndim - axes :])
    matrices = [grad.reshape(rows, width), x.reshape(rows, width), mean.reshape(rows, 1), rstd.reshape(rows, 1)]
    step = numerics.rows_per_block(width, 8 * numerics.BLOCK)
    for target, by_norm in ((out[1], True), (out[2], False)):
        if target is None:
            continue
        sums, memory = np.zeros(width), np.empty((min(step, rows), width), np.float32)
        for low in range(0, rows, step):
            parts = [matrix[low : low + step] for matrix in matrices]
            terms = memory[: len(parts[0])]
            if not by_norm:
                terms = numerics.widen(parts[0], terms)
            elif not numerics.elementwise(_dweight_terms, parts, [terms]):
                terms[...] = _dweight_terms(*map(numerics.widen, parts))
            numerics.add_columns(sums, terms)
        round_into(target, sums.astype(np.float32).reshape(target.shape))
    return True


def _by_helper(
    grad: Array, x: Array, mean: Array, rstd: Array, weight: Optional[Array], axes: int, out: Sequence[Optional[Array]]
) -> bool:
    """The gradients by the compiled helper on all cores; False, with nothing written, where it cannot."""
    if x.size <= _MANY:
        return False
    width = math.prod(x.shape[x.ndim - axes :])
    sums = None if out[1] is None and out[2] is None else np.zeros((2, width))
    share = native.layer_norm_gradient(grad, x, mean, rstd, weight, width, out[0], sums)
    if share is None:
        return False
    numerics.side_by_side(share, min(numerics.thread_count(), -(-x.size // (2 * numerics.BLOCK))))
    for target, gradient in zip(out[1:], () if sums is None else sums.astype(np.float32)):
        if target is not None:
            round_into(target, gradient.reshape(target.shape))
    return True


@reference("aclnnLayerNormBackward", raw=True)
def layer_norm_backward(
    grad: Array,
    x: Array,
    normalized_shape: Sequence[int],
    mean: Array,
    rstd: Array,
    weight: Optional[Array],
    bias: Optional[Array],
    mask: Sequence[bool],
    *,
    out: Sequence[Optional[Array]],
) -> None:
    axes = len(normalized_shape)
    targets = [target if wanted else None for target, wanted in zip(out, mask)]
    for target, wanted in zip(out, mask):
        if target is not None and not wanted:
            target[...] = 0
    if _by_helper(grad, x, mean, rstd, weight, axes, targets):
        return
    if _in_blocks(grad, x, mean, rstd, weight, axes, targets):
        return
    wide, rows = numerics.widen(grad), first_axes(x, axes)
    scale = None if weight is None else numerics.widen(weight)
    dx, dweight_terms = gradients(wide, numerics.widen(x), numerics.widen(mean), numerics.widen(rstd), scale, axes)
    for target, gradient in zip(targets, (dx, sum_over(dweight_terms, rows), sum_over(wide, rows))):
        if target is not None:
            round_into(target, gradient)


# ------------------------------------------------------------------------------------------------- after an addition


def _added(x1: Array, x2: Array, bias: Optional[Array]) -> Array:
    x = np.asarray(x1 + x2)
    return x if bias is None else x + bias


@reference("aclnnAddLayerNorm")
def add_layer_norm(
    x1: Array,
    x2: Array,
    gamma: Array,
    beta: Array,
    bias: Optional[Array],
    epsilon: float,
    additional_output: bool,
) -> Any:
    """The norm of x1 + x2 + bias over gamma's axes, and (where asked for) the sum."""
    x = _added(x1, x2, bias)
    return (*normalised(x, gamma, beta, gamma.ndim, epsilon), x if additional_output else None)


@reference("aclnnAddLayerNormGrad")
def add_layer_norm_grad(
    dy: Array, x1: Array, x2: Array, rstd: Array, mean: Array, gamma: Array, dsum: Optional[Array]
) -> Any:
    dx, dgamma_terms = gradients(dy, x1 + x2, mean, rstd, gamma, gamma.ndim)
    rows = first_axes(dy, gamma.ndim)
    return dx if dsum is None else dx + dsum, sum_over(dgamma_terms, rows), sum_over(dy, rows)


@reference("aclnnDeepNorm")
def deep_norm(x: Array, gx: Array, beta: Array, gamma: Array, alpha: float, epsilon: float) -> Any:
    """The norm of alpha * x + gx."""
    y, mean, rstd = normalised(np.asarray(np.float32(alpha) * x + gx), gamma, beta, gamma.ndim, epsilon)
    return mean, rstd, y


@reference("aclnnDeepNormGrad")
def deep_norm_grad(dy: Array, x: Array, gx: Array, gamma: Array, mean: Array, rstd: Array, alpha: float) -> Any:
    dgx, dgamma_terms = gradients(dy, np.asarray(np.float32(alpha) * x + gx), mean, rstd, gamma, gamma.ndim)
    rows = first_axes(dy, gamma.ndim)
    return np.float32(alpha) * dgx, dgx, sum_over(dy, rows), sum_over(dgamma_terms, rows)


# ------------------------------------------------------------------------------------------------- with quantisation


@reference("aclnnLayerNormQuant")
def layer_norm_quant(
    x: Array,
    gamma: Array,
    beta: Array,
    scale: Array,
    zero_points: Optional[Array],
    quant_mode: int,
    epsilon: float,
) -> Any:
    """Mode 0 quantises by the scale argument, mode 1 by each row's largest value."""
    y = normalised(x, gamma.reshape(-1), beta.reshape(-1), 1, epsilon)[0]
    return (by_scale(y, scale, zero_points, True), None) if quant_mode == 0 else by_row(y * scale)


def _quantised(
    y: Array,
    scales1: Optional[Array],
    scales2: Optional[Array],
    zero_points1: Optional[Array],
    zero_points2: Optional[Array],
    dynamic: bool,
    divide: bool,
) -> tuple[Any, Any, Any, Any]:
    """Two quantised outputs and the scales of both; None for those that are not made."""
    if dynamic:
        first, scale1 = by_row(y if scales1 is None else y * scales1)
        second, scale2 = (None, None) if scales2 is None else by_row(y * scales2)
        return first, second, scale1, scale2
    first = by_scale(y, np.ones((), np.float32) if scales1 is None else scales1, zero_points1, divide)
    return first, None if scales2 is None else by_scale(y, scales2, zero_points2, divide), None, None


@reference("aclnnAddLayerNormQuant")
def add_layer_norm_quant(
    x1: Array,
    x2: Array,
    gamma: Array,
    beta: Array,
    bias: Optional[Array],
    scales1: Optional[Array],
    scales2: Optional[Array],
    zero_points1: Optional[Array],
    zero_points2: Optional[Array],
    quant_mode: str,
    epsilon: float,
    additional_output: bool,
    div_mode: bool,
) -> Any:
    """Two quantisations of one norm, "static" or "dynamic"."""
    x = _added(x1, x2, bias)
    y = normalised(x, gamma, beta, gamma.ndim, epsilon)[0]
    outputs = _quantised(y, scales1, scales2, zero_points1, zero_points2, quant_mode == "dynamic", div_mode)
    return (*outputs[:2], x if additional_output else None, *outputs[2:])


@reference("aclnnAddLayerNormQuantV2")
def add_layer_norm_quant_v2(x1: Array, x2: Array, gamma: Array, beta: Array, bias: Optional[Array], *rest: Any) -> Any:
    """The same, and the norm itself."""
    first, second, x, scale1, scale2 = add_layer_norm_quant(x1, x2, gamma, beta, bias, *rest)
    epsilon = rest[5]
    y = normalised(_added(x1, x2, bias), gamma, beta, gamma.ndim, epsilon)[0]
    return first, second, x, y, scale1, scale2
