"""Normalisation of groups of channels of each sample, alone or before Swish and quantisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import BLOCK, SMALL, Array, along, elementwise, round_into, side_by_side, thread_count, widen
from ascend_aclnn.reference._moments import affine, centred, channels, inverse_deviation, sum_over, through_moments
from ascend_aclnn.reference._quantise import by_scale
from ascend_aclnn.reference._special import sigmoid
from ascend_aclnn.reference.declare import reference


def _norm(
    x: Array, gamma: Optional[Array], beta: Optional[Array], groups: int, eps: float, count: int = -1
) -> tuple[Array, Array, Array]:
    """The norm, and mean and inverse deviation of each sample's groups (samples, groups)."""
    samples = x.shape[0] if count < 0 else count
    apart, mean, variance = centred(x.reshape(samples, groups, x.size // max(samples * groups, 1)), (2,))
    rstd = inverse_deviation(variance, eps)
    apart *= rstd
    y = affine(apart.reshape(x.shape), channels(gamma, x.ndim), channels(beta, x.ndim))
    return y, mean[..., 0], rstd[..., 0]


def _statistics(x: Array, eps: float) -> tuple[Array, Array]:
    """The mean and inverse deviation of each row."""
    _, mean, variance = centred(x, (x.ndim - 1,))
    return mean, inverse_deviation(variance, eps)


def _applied(x: Array, mean: Array, rstd: Array, gamma: Optional[Array], beta: Optional[Array]) -> Array:
    y = x - mean
    y *= rstd
    return affine(y, gamma, beta)


def _in_blocks(
    x: Array, gamma: Optional[Array], beta: Optional[Array], samples: int, groups: int, eps: float, out: Sequence[Array]
) -> bool:
    """The norm of contiguous arrays in blocks. False if blocks do not fit; the moments may then be written."""
    rows = samples * groups
    if (
        x.size <= SMALL
        or not rows
        or x.ndim < 2
        or x.shape[1] % groups
        or not all(a.flags.c_contiguous for a in (x, *out))
    ):
        return False
    mean, rstd = np.empty((2, rows, 1), np.float32)
    if not along(_statistics, lambda x, eps: (1,), [x.reshape(rows, -1), eps], [mean, rstd]):
        return False
    shape = (samples, groups, x.shape[1] // groups, x.size // max(1, samples * x.shape[1]))
    operands = [x.reshape(shape), mean.reshape(samples, groups, 1, 1), rstd.reshape(samples, groups, 1, 1)]
    each = [None if values is None else values.reshape(1, *shape[1:3], 1) for values in (gamma, beta)]
    if not elementwise(_applied, [*operands, *each], [out[0].reshape(shape)]):
        return False
    for target, moments in zip(out[1:], (mean, rstd)):
        round_into(target, moments.reshape(target.shape))
    return True


_MANY = 1 << 10  # elements from which the compiled helper takes less time than NumPy's calls


def _in_one_pass(
    x: Array, gamma: Optional[Array], beta: Optional[Array], samples: int, groups: int, eps: float, out: Sequence[Array]
) -> bool:
    """The norm by the compiled helper, each group on one core; False, with nothing written, where it cannot."""
    rows, threads = samples * groups, min(thread_count(), -(-x.size // (2 * BLOCK)))
    if x.size <= _MANY or x.ndim < 2 or len(x) != samples or x.shape[1] % groups or rows < threads:
        return False
    scale, shift = (None if values is None else widen(values) for values in (gamma, beta))
    moments = np.empty((2, rows), np.float32)
    share = native.group_norm(x, scale, shift, groups, eps, out[0], *moments)
    if share is None:
        return False
    side_by_side(share, threads)
    for target, values in zip(out[1:], moments):
        round_into(target, values.reshape(target.shape))
    return True


@reference("aclnnGroupNorm", raw=True)
def group_norm(
    x: Array,
    gamma: Optional[Array],
    beta: Optional[Array],
    n: int,
    c: int,
    hxw: int,
    group: int,
    eps: float,
    *,
    out: tuple[Array, Array, Array],
) -> None:
    """The sizes n, c and hxw repeat x's shape."""
    if _in_one_pass(x, gamma, beta, n, group, eps, out) or _in_blocks(x, gamma, beta, n, group, eps, out):
        return
    scale, shift = (None if values is None else widen(values) for values in (gamma, beta))
    results = _norm(widen(x), scale, shift, group, eps, n)
    for target, values in zip(out, results):
        round_into(target, values)


def _spread(values: Array, x: Array) -> Array:
    """One value for each sample's groups, for all elements of the groups."""
    samples, groups = values.shape
    wide = np.broadcast_to(values[..., None], (samples, groups, x.size // max(samples * groups, 1)))
    return wide.reshape(x.shape)


def _gradients(grad: Array, x: Array, mean: Array, rstd: Array, gamma: Optional[Array]) -> tuple[Array, Array]:
    """The input's gradient, and the normed values."""
    normed = np.asarray((x - _spread(mean, x)) * _spread(rstd, x), np.float32)
    scaled = grad if gamma is None else grad * channels(gamma, x.ndim)
    parts = (*mean.shape, x.size // max(mean.size, 1))
    through = through_moments(scaled.reshape(parts), normed.reshape(parts), (2,))
    return (through * rstd[..., None]).reshape(x.shape), normed


def _over_channels(x: Array) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


@reference("aclnnGroupNormBackward")
def group_norm_backward(
    grad: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    gamma: Optional[Array],
    n: int,
    c: int,
    hxw: int,
    group: int,
    mask: Sequence[bool],
) -> Any:
    shaped = x.reshape(n, c, hxw)
    grad = grad.reshape(shaped.shape)
    dx, normed = _gradients(grad, shaped, mean.reshape(n, group), rstd.reshape(n, group), gamma)
    return (
        dx.reshape(x.shape) if mask[0] else None,
        sum_over(grad * normed, (0, 2)) if mask[1] else None,
        sum_over(grad, (0, 2)) if mask[2] else None,
    )


def _swish(y: Array, scale: float = 1.0) -> Any:
    return y * sigmoid(np.float32(scale) * y)


@reference("aclnnGroupNormSiluV2")
def group_norm_silu(
    x: Array, gamma: Optional[Array], beta: Optional[Array], group: int, eps: float, activate_silu: bool = True
) -> Any:
    y, mean, rstd = _norm(x, gamma, beta, group, eps)
    return _swish(y) if activate_silu else y, mean, rstd


reference("aclnnGroupNormSilu")(group_norm_silu)


@reference("aclnnGroupNormSiluQuant")
def group_norm_silu_quant(
    x: Array,
    gamma: Optional[Array],
    beta: Optional[Array],
    quant_scale: Array,
    group: int,
    eps: float,
    activate_silu: bool,
) -> Any:
    """Over one scale, or one for every channel."""
    y, mean, rstd = group_norm_silu(x, gamma, beta, group, eps, activate_silu)
    scale = quant_scale if quant_scale.size == 1 else channels(quant_scale, x.ndim)
    return by_scale(y, scale, None, True), mean, rstd


@reference("aclnnGroupNormSwish")
def group_norm_swish(
    x: Array,
    gamma: Array,
    beta: Array,
    groups: int,
    data_format: str,
    eps: float,
    activate_swish: bool,
    swish_scale: float,
) -> Any:
    y, mean, rstd = _norm(x, gamma, beta, groups, eps)
    return _swish(y, swish_scale) if activate_swish else y, mean, rstd


@reference("aclnnGroupNormSwishGrad")
def group_norm_swish_grad(
    dy: Array,
    mean: Array,
    rstd: Array,
    x: Array,
    gamma: Array,
    beta: Array,
    groups: int,
    data_format: str,
    swish_scale: float,
    gamma_wanted: bool,
    beta_wanted: bool,
) -> Any:
    """The gradient through Swish, then through the norm."""
    shape = (x.shape[0], groups)
    mean, rstd = mean.reshape(shape), rstd.reshape(shape)
    normed = (x - _spread(mean, x)) * _spread(rstd, x)
    scaled = np.float32(swish_scale) * affine(normed, channels(gamma, x.ndim), channels(beta, x.ndim))
    s = sigmoid(scaled)
    grad = np.asarray(dy * (s * (1 + scaled * (1 - s))), np.float32)
    dx, normed = _gradients(grad, x, mean, rstd, gamma)
    axes = _over_channels(x)
    return (
        dx,
        sum_over(grad * normed, axes) if gamma_wanted else None,
        sum_over(grad, axes) if beta_wanted else None,
    )
