"""Rotary position embeddings: y = x cos + rotated(x) sin."""

from __future__ import annotations

from typing import Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference import reference

_HALF, _INTERLEAVE, _QUARTER, _INTERLEAVE_HALF = range(4)
_MODES = {"half": _HALF, "interleave": _INTERLEAVE, "quarter": _QUARTER, "interleave-half": _INTERLEAVE_HALF}


def _rotated(x: Array, mode: int) -> Array:
    """Pairs (a, b) of the last axis as (-b, a); a pair is two neighbours, or lies half (or a quarter of) the axis apart."""
    made = np.empty_like(x)
    if mode == _INTERLEAVE:
        made[..., ::2], made[..., 1::2] = -x[..., 1::2], x[..., ::2]
        return made
    parts = 4 if mode == _QUARTER else 2
    for low in range(0, parts, 2):
        a, b = (slice(x.shape[-1] // parts * i, x.shape[-1] // parts * (i + 1)) for i in (low, low + 1))
        made[..., a], made[..., b] = -x[..., b], x[..., a]
    return made


def _unrotated(x: Array, mode: int) -> Array:
    """The transpose of ``_rotated``, which is its negative."""
    return np.negative(_rotated(x, mode))


def _ordered(x: Array, mode: int) -> Array:
    """interleave-half first puts the elements with even numbers before the others."""
    return np.concatenate((x[..., ::2], x[..., 1::2]), -1) if mode == _INTERLEAVE_HALF else x


def _embed(x: Array, cos: Array, sin: Array, mode: int) -> Array:
    x = _ordered(x, mode)
    embedded: Array = x * cos + _rotated(x, mode) * sin
    return embedded


@reference("aclnnRotaryPositionEmbedding")
def rotary_position_embedding(x: Array, cos: Array, sin: Array, mode: int) -> Array:
    return _embed(x, cos, sin, mode)


@reference("aclnnRotaryPositionEmbeddingV2")
def rotary_position_embedding_v2(x: Array, cos: Array, sin: Array, mode: int, rotate: Optional[Array]) -> Array:
    """A matrix may say what the rotated x is."""
    return _embed(x, cos, sin, mode) if rotate is None else x * cos + np.matmul(x, rotate) * sin


@reference("aclnnRotaryPositionEmbeddingGrad")
def rotary_position_embedding_grad(
    grad: Array, cos: Array, sin: Array, x: Optional[Array], mode: int
) -> tuple[Array, Optional[Array], Optional[Array]]:
    """Gradients of x, and of cos and sin where x is given: summed over the axes that they were broadcast along."""
    dx = grad * cos + _unrotated(grad * sin, mode)
    if mode == _INTERLEAVE_HALF:
        mixed, dx = dx, np.empty_like(dx)
        half = dx.shape[-1] // 2
        dx[..., ::2], dx[..., 1::2] = mixed[..., :half], mixed[..., half:]
    if x is None:
        return dx, None, None
    axes = tuple(axis for axis, size in enumerate(cos.shape) if size == 1 and grad.shape[axis] != 1)
    x = _ordered(x, mode)
    return dx, (grad * x).sum(axes, keepdims=True), (grad * _rotated(x, mode)).sum(axes, keepdims=True)


@reference("aclnnApplyRotaryPosEmb", "aclnnApplyRotaryPosEmbV2")
def apply_rotary_pos_emb(
    query: Array, key: Array, cos: Array, sin: Array, layout: int, mode: Optional[str] = "half"
) -> tuple[Array, Array]:
    """Query and key, in place; cos and sin have one head. V1 only halves."""
    if mode is not None and mode not in ("", *_MODES):
        raise DataError("rotaryMode", f"is {mode!r}; allowed: {', '.join(_MODES)}")
    number = _MODES[mode or "half"]
    return _embed(query, cos, sin, number), _embed(key, cos, sin, number)
