"""Rotary embeddings against a rotation matrix for each pair of elements, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, catalog, ops
from ascend_aclnn.reference import find

MODES = ["half", "interleave", "quarter", "interleave-half"]


def function(name: str) -> Any:
    found = find(catalog.get(name))
    assert found is not None
    return found.function


def embedded(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, mode: int) -> np.ndarray:
    out = np.empty_like(x)
    function("aclnnRotaryPositionEmbedding")(x, cos, sin, mode, out=(out,))
    return out


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def matrices(mode: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The order of the elements, and what multiplies sin, as matrices: y = (x order) cos + (x rotation) sin."""
    order, rotation = np.zeros((width, width)), np.zeros((width, width))
    if mode == 0:
        pairs = [(i, i + width // 2) for i in range(width // 2)]
    elif mode == 1:
        pairs = [(i, i + 1) for i in range(0, width, 2)]
    elif mode == 2:
        quarter = width // 4
        pairs = [(i + base, i + base + quarter) for base in (0, 2 * quarter) for i in range(quarter)]
    else:
        pairs = []
        for i in range(width // 2):
            order[2 * i, i] = order[2 * i + 1, i + width // 2] = 1
            rotation[2 * i + 1, i], rotation[2 * i, i + width // 2] = -1, 1
    for a, b in pairs:
        order[a, a] = order[b, b] = 1
        rotation[b, a], rotation[a, b] = -1, 1
    return order, rotation


@pytest.mark.parametrize("mode", range(4), ids=MODES)
def test_forward_and_backward(mode: int) -> None:
    x, grad = numbers(2, 5, 3, 8), numbers(2, 5, 3, 8, seed=1)
    cos, sin = numbers(1, 5, 1, 8, seed=2), numbers(1, 5, 1, 8, seed=3)
    order, rotation = matrices(mode, 8)
    actual = embedded(x, cos, sin, mode)
    np.testing.assert_allclose(actual, (x @ order) * cos + (x @ rotation) * sin, rtol=1e-5, atol=1e-6)

    dx, dcos, dsin = function("aclnnRotaryPositionEmbeddingGrad")(grad, cos, sin, x, mode)
    np.testing.assert_allclose(dx, (grad * cos) @ order.T + (grad * sin) @ rotation.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dcos, (grad * (x @ order)).sum((0, 2), keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dsin, (grad * (x @ rotation)).sum((0, 2), keepdims=True), rtol=1e-5, atol=1e-5)
    assert function("aclnnRotaryPositionEmbeddingGrad")(grad, cos, sin, None, mode)[1:] == (None, None)


def test_a_matrix_instead_of_the_mode() -> None:
    x, cos, sin = numbers(1, 2, 3, 8), numbers(1, 2, 1, 8, seed=1), numbers(1, 2, 1, 8, seed=2)
    rotation = matrices(1, 8)[1].astype(np.float32)
    actual = function("aclnnRotaryPositionEmbeddingV2")(x, cos, sin, 0, rotation)
    np.testing.assert_allclose(actual, embedded(x, cos, sin, 1), rtol=1e-6)


@pytest.mark.parametrize("mode", range(4), ids=MODES)
def test_query_and_key(mode: int) -> None:
    query, key = numbers(2, 5, 4, 8), numbers(2, 5, 2, 8, seed=1)
    cos, sin = numbers(2, 5, 1, 8, seed=2), numbers(2, 5, 1, 8, seed=3)
    order, rotation = matrices(mode, 8)
    actual = function("aclnnApplyRotaryPosEmbV2")(query, key, cos, sin, 1, MODES[mode])
    for ours, given in zip(actual, (query, key)):
        np.testing.assert_allclose(ours, (given @ order) * cos + (given @ rotation) * sin, rtol=1e-5, atol=1e-6)


def test_in_place_and_in_half_precision() -> None:
    query, key = numbers(1, 3, 2, 128).astype(np.float16), numbers(1, 3, 1, 128, seed=1).astype(np.float16)
    cos, sin = numbers(1, 3, 1, 128, seed=2).astype(np.float16), numbers(1, 3, 1, 128, seed=3).astype(np.float16)
    wanted = function("aclnnApplyRotaryPosEmb")(*(x.astype(np.float32) for x in (query, key, cos, sin)), 1)
    held = query.copy(), key.copy()
    ops.apply_rotary_pos_emb(*held, cos, sin, 1)
    for ours, theirs in zip(held, wanted):
        np.testing.assert_array_equal(ours, theirs.astype(np.float16))


def test_interleave_rope() -> None:
    x, cos, sin = numbers(2, 3, 4, 64), numbers(2, 1, 4, 64, seed=1), numbers(2, 1, 4, 64, seed=2)
    order, rotation = matrices(3, 64)
    expected = x @ order * cos + x @ rotation * sin
    with aclnn.use_backend("numpy", soc="Ascend950"):
        np.testing.assert_allclose(ops.interleave_rope(x, cos, sin), expected, rtol=1e-5, atol=1e-5)
    halves = [a.astype(np.float16) for a in (x, cos, sin)]
    x, cos, sin = (a.astype(np.float64) for a in halves)
    for soc in ("Ascend910B1", "Ascend910_9391"):  # kernels for half precision, D = 64 and one head of cos and sin
        with aclnn.use_backend("numpy", soc=soc):
            expected = x @ order * cos + x @ rotation * sin
            np.testing.assert_allclose(ops.interleave_rope(*halves), expected, rtol=1e-3, atol=2e-3)
            with pytest.raises(AclError, match="x has dtype FLOAT") as caught:
                ops.interleave_rope(*(a.astype(np.float32) for a in halves))
            assert caught.value.status == 161002
            with pytest.raises(AclError, match="cos has shape") as caught:
                ops.interleave_rope(halves[0], *(np.repeat(a, 3, 1) for a in halves[1:]))
            assert caught.value.status == 561002


def test_part_of_the_axis() -> None:
    x, cos, sin = numbers(2, 3, 4, 16), numbers(2, 1, 1, 8, seed=1), numbers(2, 1, 1, 8, seed=2)
    _, rotation = matrices(1, 8)
    expected = x.astype(np.float64)
    expected[..., 4:12] = x[..., 4:12] * cos + x[..., 4:12] @ rotation * sin
    y = x.copy()
    ops.inplace_partial_rotary_mul(y, cos, sin, 1, [4, 12])
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    dy = numbers(2, 3, 4, 16, seed=3)
    with aclnn.use_backend("numpy", soc="Ascend950"):
        dx = dy.copy()
        ops.inplace_partial_rotary_mul_grad(dx, cos, sin, 1, [4, 12])
    # The map is linear in x, so <dy, y> is <dx, x>.
    np.testing.assert_allclose((dy * expected).sum(), (dx.astype(np.float64) * x).sum(), rtol=1e-4)


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("sections", [None, [16, 24, 24]])
@pytest.mark.parametrize("cache_mode", [0, 1])
def test_cached_angles(neox: bool, sections: Any, cache_mode: int) -> None:
    tokens, heads, size, width = 5, 3, 160, 128
    rng = np.random.default_rng(4)
    positions = rng.integers(0, 9, (3, tokens) if sections else tokens)
    query, key, cache = numbers(tokens, heads * size), numbers(tokens, size, seed=1), numbers(9, width, seed=2)
    actual = ops.rope_with_sin_cos_cache_v2(positions, query, key, cache, sections, size, neox, cache_mode)
    for x, y in zip((query, key), actual):
        expected = x.astype(np.float64).reshape(tokens, -1, size)
        for token, head, i in np.ndindex(tokens, expected.shape[1], width // 2):
            row = positions
            if sections and cache_mode == 0:
                row = positions[0 if i < 16 else 1 if i < 40 else 2]
            elif sections:
                row = positions[i % 3 if i < 3 * 24 else 0]
            cos, sin = cache[row[token], i], cache[row[token], i + width // 2]
            first, second = (i, i + width // 2) if neox else (2 * i, 2 * i + 1)
            a, b = x.reshape(expected.shape)[token, head, [first, second]]
            expected[token, head, [first, second]] = a * cos - b * sin, b * cos + a * sin
        np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", [1, 2, 4])
def test_gradient_of_both_rotations(layout: int) -> None:
    """Against differences of the forward pass: its results are linear in query, key, cos and sin."""
    lead = (2, 3) if layout == 1 else (3, 2) if layout == 2 else (3,)
    query, key, dq, dk = (numbers(*lead, heads, 8, seed=seed) for seed, heads in enumerate((4, 2, 4, 2)))
    table = (1, 3, 1, 8) if layout == 1 else (3, 1, 1, 8) if layout == 2 else (3, 1, 8)
    cos, sin = numbers(*table, seed=5), numbers(*table, seed=6)

    def forward(query: Any, key: Any, cos: Any, sin: Any) -> Any:
        rotated = (np.concatenate((-x[..., 4:], x[..., :4]), -1) for x in (query, key))
        return sum((g * (x * cos + r * sin)).sum() for g, x, r in zip((dq, dk), (query, key), rotated))

    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        made = ops.apply_rotary_pos_emb_grad(dq, dk, cos, sin, query, key, "half", layout)
        alone = ops.apply_rotary_pos_emb_grad(dq, dk, cos, sin, None, None, "half", layout)
        with pytest.raises(AclError, match="query"):
            ops.apply_rotary_pos_emb_grad(dq, dk, cos, sin, query, None, "half", layout)
    assert alone.grad_cos is None and alone.grad_sin is None
    np.testing.assert_array_equal(alone.grad_query, made[0])
    inputs = [x.astype(np.float64) for x in (query, key, cos, sin)]
    for number, gradient in enumerate(made):
        assert gradient.shape == inputs[number].shape
        for place in ((0,) * gradient.ndim, tuple(n - 1 for n in gradient.shape)):
            moved = [x.copy() for x in inputs]
            moved[number][place] += 1
            assert gradient[place] == pytest.approx(forward(*moved) - forward(*inputs), rel=1e-4, abs=1e-5)
