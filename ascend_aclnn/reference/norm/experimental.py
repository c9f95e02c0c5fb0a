"""References of the experimental norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference.declare import reference


def _sum(x: Array, axes: Any, keepdims: bool = True) -> Any:
    return np.sum(x, axes, np.float64, keepdims=keepdims)


@reference("aclnnBatchNormalizationGrad")
def batch_normalization_grad(
    grad: Array, x: Array, weight: Array, bias: Array, mean: Array, invstd: Array, epsilon: float
) -> Any:
    """The gradients for x, the weight and the bias. The document divides by the root of the count, the kernel by it."""
    axes = (0, *range(2, x.ndim))
    weight, mean, invstd = (v.reshape(-1, *(1,) * (x.ndim - 2)) for v in (weight, mean, invstd))
    normal = (x - mean) * invstd
    count = max(x.size // x.shape[1], 1) if x.shape[1] else 1
    sums, products = _sum(grad, axes), _sum(grad * normal, axes)
    dx = weight * invstd * (grad - sums / count - normal * products / count)
    return dx, products.reshape(-1), sums.reshape(-1)


@reference("aclnnBnInferGrad")
def bn_infer_grad(grads: Array, scale: Array, variance: Array, epsilon: float, channels_last: int) -> Any:
    factor = scale / np.sqrt(variance + np.float32(epsilon))
    return grads * (factor if channels_last else factor[:, None, None])


@reference("aclnnFusedAddRmsNorm")
def fused_add_rms_norm(x1: Array, x2: Array, gamma: Array, epsilon: float, scale: float) -> Any:
    """y, the reciprocal root mean square, and the sum x1 * scale + x2 that was normalised."""
    x = x1 * np.float32(scale) + x2
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    rstd = 1 / np.sqrt(_sum(np.square(x), axes) / max(gamma.size, 1) + epsilon)
    return x * rstd * gamma, rstd, x


@reference("aclnnGroupNormalizationGrad")
def group_normalization_grad(x: Array, grad: Array, gamma: Array, mean: Array, rstd: Array) -> Any:
    """The gradient for x of (batch, group, elements); as in the document, gamma multiplies again what it has weighed."""
    normal = (x - mean[..., None]) * rstd[..., None]
    count = max(x.shape[-1], 1)
    weighed = grad * gamma
    sums, products = _sum(weighed, -1), _sum(weighed * normal, -1)
    return rstd[..., None] / count * gamma * (count * grad - sums - normal * products)


@reference("aclnnLayerNormalizationGrad")
def layer_normalization_grad(grad: Array, x: Array, gamma: Array, mean: Array, rstd: Array) -> Any:
    """The gradients for x, gamma and beta."""
    rows = tuple(range(x.ndim - 1))
    normal = (x - mean[..., None]) * rstd[..., None]
    weighed = grad * gamma
    count = max(x.shape[-1], 1)
    sums, products = _sum(weighed, -1), _sum(weighed * normal, -1)
    dx = rstd[..., None] * (weighed - (sums + products * normal) / count)
    return dx, _sum(grad * normal, rows, False), _sum(grad, rows, False)


@reference("aclnnLpNormV3")
def lp_norm(x: Array, p: float, axis: int) -> Any:
    """x over its norm, to whose sum of powers 1e-6 is added: of everything (0), of each column (1) or each row (2)."""
    powers = _sum(np.power(np.abs(x), np.float32(p)), {0: None, 1: 0, 2: 1}[axis])
    return x / np.power(powers + 1e-6, 1 / p)


@reference("aclnnSyncBnTrainingUpdateV2")
def sync_bn_training_update(x: Array, mean: Array, variance: Array, momentum: float) -> Any:
    """x over the deviation of its channels; of the running statistics ``momentum`` stays, the rest is this batch's."""
    axes = (0, 2, 3)
    count = max(x.size // max(x.shape[1], 1), 1)
    own_mean = _sum(x, axes) / count
    own_variance = _sum(np.square(x - own_mean), axes) / count
    y = (x - own_mean) / np.sqrt(own_variance + 1e-6)
    rest = 1 - momentum
    return y, momentum * mean + rest * own_mean.reshape(-1), momentum * variance + rest * own_variance.reshape(-1)
