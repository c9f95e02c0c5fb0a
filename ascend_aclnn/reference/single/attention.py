"""Single operators that attention and its neighbours are fused into, and the masks of their dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.single.norms import layer_norm


def _turned(x: Array, turn: bool) -> Array:
    return x.swapaxes(-1, -2) if turn else x


def _softmax(x: Array, axes: Sequence[int] = (-1,)) -> Array:
    grown = np.exp(x - x.max(tuple(axes), keepdims=True))
    return np.asarray(grown / grown.sum(tuple(axes), keepdims=True))


def _softmax_slope(dy: Array, y: Array, axes: Sequence[int] = (-1,)) -> Array:
    return np.asarray(y * (dy - (dy * y).sum(tuple(axes), keepdims=True)))


def _dropped(x: Array, mask: Optional[Array], keep: float) -> Array:
    """A mask has a byte for each element."""
    if mask is None or keep >= 1:
        return x
    return np.asarray(x * (mask.reshape(-1)[: x.size].reshape(x.shape) != 0) / np.float32(keep))


# ----------------------------------------------------------------------------------------------------------------- dropout


@reference("DropOutGenMaskV3")
def drop_out_gen_mask_v3(shape: Sequence[int], dropped: float, seed: int, seed2: int, length: int) -> Array:
    """A byte for each element: 1 where it stays. The device draws from a unit without public description."""
    drawn = np.random.Generator(np.random.Philox(key=[seed % 2**64, seed2 % 2**64])).random(length, np.float32)
    return (drawn >= np.float32(dropped)).astype(np.uint8)


@reference("DropOutDoMaskV3")
def drop_out_do_mask_v3(x: Array, mask: Array, dropped: float) -> Array:
    return _dropped(x, mask, 1 - dropped)


@reference("AxpyWithSoftmaxAndDropOutDoMask")
def axpy_with_softmax_and_drop_out_do_mask(
    x1: Array, x2: Array, mask: Array, alpha: float, keep: float, axes: Sequence[int]
) -> tuple[Array, Array]:
    """softmax(x1 + alpha x2), and the same with dropout."""
    y = _softmax(x1 + np.float32(alpha) * x2, axes)
    return y, _dropped(y, mask, keep)


@reference("DropoutWithMulsAndSoftmaxGrad")
def dropout_with_muls_and_softmax_grad(
    dy: Array, mask: Array, y: Array, alpha: float, keep: float, axes: Sequence[int]
) -> Array:
    return np.asarray(_softmax_slope(_dropped(dy, mask, keep), y, axes) * np.float32(alpha))


# --------------------------------------------------------------------------------------------------------------- attention


@reference("AttentionScore")
def attention_score(
    query: Array,
    key: Array,
    value: Array,
    bias: Array,
    scale: Array,
    mask: Optional[Array],
    keep: float,
    turn_query: bool,
    turn_key: bool,
    turn_score: bool,
    turn_value: bool,
) -> tuple[Array, Array]:
    """Scores of (batch, heads, steps, features) with all heads beside each other, and the softmax."""
    product = _turned(query, turn_query) @ _turned(key, not turn_key)
    weights = _softmax(product * scale.reshape(-1)[0] + bias)
    score = _turned(_dropped(weights, mask, keep), turn_score) @ _turned(value, turn_value)
    batch, heads, steps, features = score.shape
    return score.transpose(0, 2, 1, 3).reshape(batch * steps, heads * features), weights


@reference("AttentionScoreGrad")
def attention_score_grad(
    weights: Array, dy: Array, value: Array, key: Array, query: Array, scale: Array, mask: Optional[Array], keep: float
) -> tuple[Array, ...]:
    """Of value, query and key, all heads beside each other."""
    d_value = _dropped(weights, mask, keep).swapaxes(-1, -2) @ dy
    d_product = _softmax_slope(_dropped(dy @ value.swapaxes(-1, -2), mask, keep), weights) * scale.reshape(-1)[0]
    gradients = d_value, d_product @ key, d_product.swapaxes(-1, -2) @ query
    batch, heads, steps, features = dy.shape
    return tuple(x.transpose(0, 2, 1, 3).reshape(batch * steps, heads * features) for x in gradients)


def _split(x: Array, heads: int, steps: int) -> Array:
    """(batch * steps, heads * features) as (batch, heads, steps, features)."""
    return x.reshape(-1, steps, heads, x.shape[1] // heads).transpose(0, 2, 1, 3)


def _joined(x: Array) -> Array:
    batch, heads, steps, features = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch * steps, heads * features)


@reference("AttentionLnQKV")
def attention_ln_qkv(
    x: Array,
    query: Array,
    key: Array,
    value: Array,
    gamma: Array,
    beta: Array,
    query_bias: Optional[Array],
    key_bias: Optional[Array],
    value_bias: Optional[Array],
    epsilon: float,
    shape: Sequence[int],
) -> tuple[Any, ...]:
    """LayerNorm of the rows, and its products with three weights, split into heads; beside them mean and variance."""
    norm, mean, variance = layer_norm(x, gamma.reshape(-1), beta.reshape(-1), 1, epsilon)
    projections = []
    for weight, bias in ((query, query_bias), (key, key_bias), (value, value_bias)):
        product = norm.astype(np.float32) @ weight
        projections.append(_split(product if bias is None else product + bias.reshape(-1), shape[1], shape[2]))
    return (norm, *projections, mean.reshape(-1), variance.reshape(-1))


@reference("AttentionQKVGradX")
def attention_qkv_grad_x(norm: Array, q: Array, k: Array, v: Array, query: Array, key: Array, value: Array) -> Array:
    """The gradient of LayerNorm's result: the one passed in plus those through the three products."""
    return np.asarray(norm + q @ query.T + k @ key.T + v @ value.T)


@reference("AttentionQKVGradW")
def attention_qkv_grad_w(x: Array, q: Array, k: Array, v: Array) -> tuple[Array, ...]:
    """Of the three weights, and of their biases."""
    return (*(x.T @ slope for slope in (q, k, v)), *(slope.sum(0) for slope in (q, k, v)))
