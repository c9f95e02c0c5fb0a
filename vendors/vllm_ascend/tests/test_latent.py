"""mla_preprocess, launched on the host, against its formula in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401

from ascend_aclnn.reference import kernels
from ascend_aclnn.reference.kernels import DataError

TOKENS, HEADS, HIDDEN, QUERIES, LATENTS, ROPE, NOPE = 3, 2, 64, 32, 48, 16, 32
DOWN, UP = LATENTS + ROPE + QUERIES, HEADS * (NOPE + ROPE)
SLOTS = np.array([130, -1, 2], np.int32)


def drawn(seed: int, *shape: int, scale: float = 1.0) -> Any:
    return np.random.default_rng(seed).normal(size=shape, scale=scale)


def fractals(matrix: Any) -> Any:
    """(rows, columns) as blocks of 32 bytes of columns."""
    width = 32 // matrix.dtype.itemsize
    return np.ascontiguousarray(matrix.reshape(len(matrix), -1, width).transpose(1, 0, 2))


def tiling(key: int) -> Any:
    words = np.zeros(114, np.uint32)
    words[[0, 15, 78, 102, 106, 107, 108, 112]] = key, TOKENS, HEADS, HIDDEN, QUERIES, LATENTS, ROPE, NOPE
    return words


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], -1) * sin


def norm(x: Any, gamma: Any) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gamma


@pytest.mark.parametrize("key", [1, 257, 259, 281, 769, 771])
def test_mla_preprocess(key: int) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if key >> 8 else np.float16)
    quantised = key != 281
    tokens, gamma_2, beta_2, gamma_3 = (
        drawn(seed, *shape).astype(dtype)
        for seed, shape in enumerate([(TOKENS, HIDDEN), (QUERIES,), (QUERIES,), (LATENTS,)])
    )
    cos, sin = drawn(4, TOKENS, ROPE).astype(dtype), drawn(5, TOKENS, ROPE).astype(dtype)
    of_keys = drawn(6, HEADS, NOPE, LATENTS, scale=0.1).astype(dtype)
    scale, offset = np.array([0.03125, 0], dtype), np.array([3], np.int8)
    random = np.random.default_rng(7)
    weights, descales, biases, stored = [], [], [], []
    for rows, columns in ((DOWN, HIDDEN), (UP, QUERIES)):
        if quantised:
            weights.append(random.integers(-128, 128, (rows, columns), dtype=np.int8))
        else:
            weights.append(random.normal(size=(rows, columns), scale=0.1).astype(dtype))
        biases.append(random.integers(-500, 500, rows, dtype=np.int32))
        descales.append((random.integers(1, 16, rows) * 2.0**-14).astype(np.float32))
        stored.append(descales[-1].view(np.uint32).astype(np.uint64) if dtype == np.float16 else descales[-1])

    def projected(x: Any, at: int) -> Any:
        if not quantised:
            return x @ weights[at].astype(np.float64).T
        codes = np.clip(np.rint(x / 0.03125 + 3), -128, 127)
        return (codes @ weights[at].astype(np.float64).T + biases[at]) * descales[at]

    in_blocks = key & 7 == 3
    caches = [np.full((2, n // 16, 128, 16) if in_blocks else (256, n), 9, dtype) for n in (LATENTS, ROPE)]
    nope, rope, inner = (
        np.zeros(shape, dtype) for shape in ((TOKENS, HEADS, LATENTS), (TOKENS, HEADS, ROPE), (TOKENS, QUERIES))
    )
    kernels.run(
        "mla_preprocess", 1, tokens, scale, offset, fractals(weights[0]), biases[0], gamma_2, beta_2, scale, offset, gamma_3, sin,
        cos, sin, cos, caches[0], SLOTS, fractals(weights[1]), biases[1], of_keys, stored[0], stored[1], scale, scale, nope,
        caches[0], rope, caches[1], inner, np.zeros(8, np.uint8), tiling(key),
    )  # fmt: skip

    def rounded(x: Any) -> Any:
        return x.astype(dtype).astype(np.float64)

    wide = {
        name: array.astype(np.float64) for name, array in (("cos", cos), ("sin", sin), ("g2", gamma_2), ("g3", gamma_3))
    }
    x = rounded(projected(tokens.astype(np.float64), 0))
    latents, pe, queries = np.split(x, [LATENTS, LATENTS + ROPE], -1)
    queries = norm(queries, wide["g2"]) + beta_2.astype(np.float64)
    heads = rounded(projected(queries if quantised else rounded(queries), 1)).reshape(TOKENS, HEADS, -1)
    step = 4 * float(ml_dtypes.finfo(dtype).eps)

    def same(got: Any, expected: Any, largest: float = 1.0) -> None:
        np.testing.assert_allclose(got.astype(np.float64), expected, rtol=step, atol=step * largest)

    # A query that lies between two codes may get the neighbour: one code of a weight of at most 128.
    same(nope, np.einsum("thn,hnl->thl", heads[..., :NOPE], of_keys.astype(np.float64)), 4)
    same(rope, rotated(heads[..., NOPE:], wide["cos"][:, None], wide["sin"][:, None]), 4)
    expected = [np.full((256, n), 9.0) for n in (LATENTS, ROPE)]
    for slot, token in ((130, 0), (2, 2)):
        expected[0][slot] = norm(latents[token], wide["g3"])
        expected[1][slot] = rotated(pe[token], wide["cos"][token], wide["sin"][token])
    for cache, rows in zip(caches, expected):
        got = cache.transpose(0, 2, 1, 3).reshape(256, -1) if in_blocks else cache
        same(got, rows, 4)
    if key >> 9:
        same(inner, queries)
    else:
        assert not inner.any()


def test_a_tiling_that_the_kernel_does_not_know() -> None:
    empty = np.zeros(1, np.float16)
    with pytest.raises(DataError, match="tiling: has the key 258; the kernel knows 1, 257"):
        kernels.run("mla_preprocess", 1, *[empty] * 29, tiling(258))
