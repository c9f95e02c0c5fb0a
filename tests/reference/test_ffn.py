"""Feed-forward layers in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_aclnn import ops

RNG = np.random.default_rng(9)


def numbers(*shape: int, scale: float = 1.0, dtype: Any = np.float16) -> Any:
    return (RNG.standard_normal(shape) * scale).astype(dtype)


def act(y: Any, name: str) -> Any:
    if name in ("geglu", "swiglu", "reglu"):
        first, second = np.split(y, 2, -1)
        return first * act(second, {"geglu": "gelu", "swiglu": "silu", "reglu": "relu"}[name])
    return {
        "relu": lambda: np.maximum(y, 0),
        "silu": lambda: y / (1 + np.exp(-y)),
        "fastgelu": lambda: y / (1 + np.exp(-1.702 * y)),
        "gelu": lambda: 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3))),
    }[name]()


def wide(*arrays: Any) -> Any:
    return [a.astype(np.float64) for a in arrays]


@pytest.mark.parametrize("activation", ["gelu", "fastgelu", "relu", "silu", "geglu", "swiglu", "reglu"])
def test_one_expert(activation: str) -> None:
    x, w2 = numbers(3, 5, 8), numbers(16, 8, scale=0.2)
    w1 = numbers(8, 32 if "glu" in activation else 16, scale=0.2)
    b1, b2 = numbers(w1.shape[1]), numbers(8)
    actual = ops.ffn(x, w1, w2, None, b1, b2, activation=activation, inner_precise=1)
    a, c, d, e, f = wide(x, w1, w2, b1, b2)
    np.testing.assert_allclose(actual, act(a @ c + e, activation) @ d + f, rtol=5e-3, atol=5e-3)
    assert actual.dtype == np.float16


@pytest.mark.parametrize("ends", [False, True])
def test_experts_take_their_rows(ends: bool) -> None:
    x, w1, w2 = numbers(7, 8), numbers(3, 8, 16, scale=0.2), numbers(3, 16, 8, scale=0.2)
    tokens = (2, 2, 7) if ends else (2, 0, 5)
    actual = ops.ffnv2(x, w1, w2, tokens, activation="relu", inner_precise=1, tokens_index_flag=ends)
    a, c, d = wide(x, w1, w2)
    expected = [act(a[:2] @ c[0], "relu") @ d[0], act(a[2:] @ c[2], "relu") @ d[2]]
    np.testing.assert_allclose(actual, np.concatenate(expected), rtol=5e-3, atol=5e-3)


def test_weights_of_eight_bits() -> None:
    x = numbers(5, 8)
    w1, w2 = (RNG.integers(-128, 128, s).astype(np.int8) for s in ((8, 16), (16, 8)))
    scales = [numbers(n, scale=0.002) for n in (16, 8)]
    offsets = [np.rint(numbers(n, scale=3)).astype(np.float16) for n in (16, 8)]
    actual = ops.ffn(
        x,
        w1,
        w2,
        antiquant_scale1=scales[0],
        antiquant_scale2=scales[1],
        antiquant_offset1=offsets[0],
        antiquant_offset2=offsets[1],
        activation="silu",
        inner_precise=1,
    )
    a, c, d = wide(x, w1, w2)
    c, d = ((w + o.astype(float)) * s.astype(float) for w, o, s in zip((c, d), offsets, scales))
    np.testing.assert_allclose(actual, act(a @ c, "silu") @ d, rtol=1e-2, atol=1e-2)


def test_everything_of_eight_bits() -> None:
    x, w1, w2 = (RNG.integers(-128, 128, s).astype(np.int8) for s in ((5, 8), (8, 16), (16, 8)))
    b1, b2 = (RNG.integers(-999, 999, n).astype(np.int32) for n in (16, 8))
    deq1, deq2 = (np.abs(numbers(n, scale=1e-3, dtype=np.float32)) + np.float32(1e-4) for n in (16, 8))
    scale, offset = np.array([8.0], np.float32), np.array([3.0], np.float32)
    actual = ops.ffn(
        x,
        w1,
        w2,
        bias1=b1,
        bias2=b2,
        scale=scale,
        offset=offset,
        deq_scale1=deq1,
        deq_scale2=deq2,
        activation="relu",
        inner_precise=1,
    )
    a, c, d = wide(x, w1, w2)
    inner = np.clip(np.rint(act((a @ c + b1) * deq1, "relu") * 8 + 3), -128, 127)
    np.testing.assert_allclose(actual, (inner @ d + b2) * deq2, rtol=5e-3, atol=0.05)
