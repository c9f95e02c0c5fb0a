"""Normalisation of each row by its mean and variance, with a scale and a shift of every sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, round_into
from ascend_aclnn.reference._moments import affine, sum_over
from ascend_aclnn.reference._quantise import by_row, largest
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.norm.layer import first_axes, gradients, normalised


def _over_tokens(values: Array, x: Array) -> Array:
    """Values (..., H) or (..., 1, H) of a sequence, to be broadcast over its tokens (..., S, H)."""
    return values if values.ndim == x.ndim else np.expand_dims(values, -2)


def _adapted(y: Array, scale: Array, shift: Array) -> Array:
    y *= 1 + _over_tokens(scale, y)
    y += _over_tokens(shift, y)
    return y


@reference("aclnnAdaLayerNormV2")
def ada_layer_norm_v2(
    x: Array, scale: Array, shift: Array, weight: Optional[Array], bias: Optional[Array], epsilon: float
) -> Any:
    """norm(x) * (1 + scale) + shift, the mean and the inverse deviation."""
    y, mean, rstd = normalised(x, weight, bias, 1, epsilon)
    return _adapted(y, scale, shift), mean, rstd


@reference("aclnnAdaLayerNorm")
def ada_layer_norm(*arguments: Any) -> Any:
    return ada_layer_norm_v2(*arguments)[0]


@reference("aclnnAdaLayerNormQuant", raw=True)
def ada_layer_norm_quant(
    x: Array,
    scale: Array,
    shift: Array,
    weight: Optional[Array],
    bias: Optional[Array],
    smooth_scales: Optional[Array],
    epsilon: float,
    quant_mode: str,
    *,
    out: tuple[Array, Array, Optional[Array]],
) -> None:
    wide = [None if a is None else a.astype(np.float32) for a in (x, scale, shift, weight, bias, smooth_scales)]
    y = ada_layer_norm(*wide[:5], epsilon)
    values, scales = by_row(y if wide[5] is None else y * wide[5], largest(out[0].dtype))
    round_into(out[0], values)
    round_into(out[1], scales)


@reference("aclnnAdaLayerNormBackward")
def ada_layer_norm_backward(
    grad: Array,
    x: Array,
    normalized_shape: Sequence[int],
    rstd: Array,
    mean: Array,
    scale: Array,
    shift: Array,
    weight: Optional[Array],
    bias: Optional[Array],
) -> Any:
    """Gradients of input, scale, shift, weight and bias."""
    scaled = grad * (1 + _over_tokens(scale, x))
    dx, dweight_terms = gradients(scaled, x, mean, rstd, weight, 1)
    normed = affine(np.asarray((x - mean) * rstd, np.float32), weight, bias)
    d_scale = np.sum(grad * normed, -2, np.float64, keepdims=True).reshape(scale.shape)
    d_shift = np.sum(grad, -2, np.float64, keepdims=True).reshape(shift.shape)
    rows = first_axes(x, 1)
    return dx, d_scale, d_shift, sum_over(dweight_terms, rows), sum_over(scaled, rows)
