"""Rotary position embeddings: y = x cos + rotated(x) sin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import BLOCK, Array, DataError, for_blocks, round_into, widen
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference

_HALF, _INTERLEAVE, _QUARTER, _INTERLEAVE_HALF = range(4)
_MODES = {"half": _HALF, "interleave": _INTERLEAVE, "quarter": _QUARTER, "interleave-half": _INTERLEAVE_HALF}


def rotated(x: Array, mode: int) -> Array:
    """Pairs (a, b) of the last axis as (-b, a); a pair is two neighbours, or lies half (or a quarter of) the axis apart."""
    turned = np.empty_like(x)
    if mode == _INTERLEAVE:
        turned[..., ::2], turned[..., 1::2] = -x[..., 1::2], x[..., ::2]
        return turned
    parts = 4 if mode == _QUARTER else 2
    for low in range(0, parts, 2):
        a, b = (slice(x.shape[-1] // parts * i, x.shape[-1] // parts * (i + 1)) for i in (low, low + 1))
        turned[..., a], turned[..., b] = -x[..., b], x[..., a]
    return turned


def _unrotated(x: Array, mode: int) -> Array:
    """The transpose of ``rotated``, which is its negative."""
    return np.negative(rotated(x, mode))


def _ordered(x: Array, mode: int) -> Array:
    """interleave-half first puts the elements with even numbers before the others."""
    return np.concatenate((x[..., ::2], x[..., 1::2]), -1) if mode == _INTERLEAVE_HALF else x


def _embed(x: Array, cos: Array, sin: Array, mode: int) -> Array:
    x = _ordered(x, mode)
    embedded: Array = x * cos + rotated(x, mode) * sin
    return embedded


def _by_helper(x: Array, cos: Array, sin: Array, out: Array) -> bool:
    """Halves of contiguous rows whose positions are those of cos and sin, one matrix after the other."""
    matrix = x.shape[-2:]
    if x.ndim < 2 or any(a.shape != (1,) * (x.ndim - 2) + matrix for a in (cos, sin)) or np.may_share_memory(x, out):
        return False
    rows, cosines, sines, target = (a.reshape(-1, matrix[1]) for a in (x, cos, sin, out))
    if not (out.flags.c_contiguous and native.rotary(rows[:0], cosines, sines, target[:0])):
        return False
    step = matrix[0] * max(1, BLOCK // max(1, matrix[0] * matrix[1]))

    def embed(low: int, high: int) -> None:
        native.rotary(rows[low:high], cosines, sines, target[low:high])

    for_blocks(len(rows), step, embed)
    return True


def rotary_position_embedding(x: Array, cos: Array, sin: Array, mode: int) -> Array:
    return _embed(x, cos, sin, mode)


@reference("aclnnRotaryPositionEmbedding", raw=True)
def _stored_embedding(x: Array, cos: Array, sin: Array, mode: int, *, out: tuple[Array]) -> None:
    if mode != _HALF or not _by_helper(x, cos, sin, out[0]):
        round_into(out[0], rotary_position_embedding(widen(x), widen(cos), widen(sin), mode))


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
    return dx, (grad * x).sum(axes, keepdims=True), (grad * rotated(x, mode)).sum(axes, keepdims=True)


@reference("aclnnApplyRotaryPosEmb", "aclnnApplyRotaryPosEmbV2")
def apply_rotary_pos_emb(
    query: Array, key: Array, cos: Array, sin: Array, layout: int, mode: Optional[str] = "half"
) -> tuple[Array, Array]:
    """Query and key, in place; cos and sin have one head. V1 only halves."""
    if mode is not None and mode not in ("", *_MODES):
        raise DataError("rotaryMode", f"is {mode!r}; allowed: {', '.join(_MODES)}")
    number = _MODES[mode or "half"]
    return _embed(query, cos, sin, number), _embed(key, cos, sin, number)


@reference("aclnnApplyRotaryPosEmbGrad")
def apply_rotary_pos_emb_grad(
    grad_query: Array,
    grad_key: Array,
    cos: Array,
    sin: Array,
    query: Optional[Array],
    key: Optional[Array],
    mode: Optional[str],
    layout: int,
) -> tuple[Array, Array, Optional[Array], Optional[Array]]:
    """Gradients of query and key, and of cos and sin where both are given: sums of what the two contribute."""
    dq, *of_query = rotary_position_embedding_grad(grad_query, cos, sin, query, _MODES["half"])
    dk, *of_key = rotary_position_embedding_grad(grad_key, cos, sin, key, _MODES["half"])
    dcos, dsin = (None if a is None or b is None else a + b for a, b in zip(of_query, of_key))
    return dq, dk, dcos, dsin


@reference("aclnnInterleaveRope")
def interleave_rope(x: Array, cos: Array, sin: Array) -> Array:
    return _embed(x, cos, sin, _INTERLEAVE_HALF)


def _cut(x: Array, ends: Optional[Sequence[int]]) -> tuple[Array, slice]:
    """A copy of x, and the part of its last axis that is rotated (all of it where none is named)."""
    return x.copy(), slice(*ends) if ends else slice(None)


@reference("aclnnInplacePartialRotaryMul")
def partial_rotary_mul(x: Array, cos: Array, sin: Array, mode: int, ends: Optional[Sequence[int]]) -> Array:
    """A part of the last axis rotated, in place."""
    y, part = _cut(x, ends)
    y[..., part] = _embed(x[..., part], cos, sin, mode)
    return y


@reference("aclnnInplacePartialRotaryMulGrad")
def partial_rotary_mul_grad(dy: Array, cos: Array, sin: Array, mode: int, ends: Optional[Sequence[int]]) -> Array:
    dx, part = _cut(dy, ends)
    dx[..., part] = rotary_position_embedding_grad(dy[..., part], cos, sin, None, mode)[0]
    return dx


def _sectioned(table: Array, sections: Optional[Sequence[int]], interleaved: bool) -> Array:
    """Cosines (or sines) of several kinds of position, (kinds, tokens, width): each column takes one kind's.

    The sections lie one after the other, or alternate: columns 1 and 2 of each three, as far as the second section
    reaches, are those of the second and third kind.
    """
    if table.ndim == 2:
        return table
    kind = np.zeros(table.shape[-1], np.int64)
    if not sections or sections[0] == 0:
        return np.asarray(table[0])
    if interleaved:
        reach = 3 * sections[1]
        kind[1:reach:3], kind[2:reach:3] = 1, 2
    else:
        kind = np.repeat(np.arange(len(sections)), sections)
    return np.asarray(table[kind, :, np.arange(len(kind))].T)


@reference("aclnnRopeWithSinCosCache", "aclnnRopeWithSinCosCacheV2")
def rope_with_sin_cos_cache(
    positions: Array,
    query: Array,
    key: Array,
    cache: Array,
    sections: Optional[Sequence[int]],
    head_size: int,
    neox: bool,
    cache_mode: int = 0,
) -> tuple[Array, Array]:
    """Each head's first elements rotated by the cosines and sines (side by side in the cache) of its position."""
    check_range("positions", positions, 0, len(cache))
    cos, sin = np.split(cache[positions], 2, -1)
    mode = _HALF if neox else _INTERLEAVE
    cos, sin = (_sectioned(table, sections, cache_mode == 1)[:, None] for table in (cos, sin))
    cos, sin = (np.tile(t, 2) if neox else np.repeat(t, 2, -1) for t in (cos, sin))

    def turned(x: Array) -> Array:
        heads = x.reshape(len(x), -1, head_size).copy()
        heads[..., : cache.shape[1]] = _embed(heads[..., : cache.shape[1]], cos, sin, mode)
        return np.asarray(heads.reshape(x.shape))

    return turned(query), turned(key)
