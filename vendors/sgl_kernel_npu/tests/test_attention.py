"""Attention over all keys and over chosen blocks, against loops over queries in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import sgl_kernel_npu_operators  # noqa: F401

import ascend_aclnn as aclnn
from ascend_aclnn import ops

SIZE = 4


def drawn(seed, *shape, dtype=np.float16):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def attended(query, keys, values, scale):
    """Of one query (width), in float64."""
    scores = scale * (keys.astype(np.float64) @ query.astype(np.float64))
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values.astype(np.float64)


def laser(query, key, value, **masks):
    tokens, heads = query.shape[2], query.shape[1]
    return ops.laser_attention(query, key, value, None, None, None, 0.25, heads, "BNSD", 1.0, tokens, 1, True, **masks)


def test_laser_attention(aclnn_backend):
    q, k, v = drawn(0, 2, 4, 3, 16), drawn(1, 2, 2, 5, 16), drawn(2, 2, 2, 5, 16)
    result = np.asarray(laser(q, k, v)[1])
    assert result.dtype == np.float32
    for b, h, s in np.ndindex(2, 4, 3):
        np.testing.assert_allclose(
            result[b, h, s], attended(q[b, h, s], k[b, h // 2], v[b, h // 2], 0.25), rtol=2e-3, atol=2e-3
        )


def test_laser_attention_refuses_what_its_kernel_lacks(aclnn_backend):
    x = drawn(3, 1, 1, 2, 16, dtype=ml_dtypes.bfloat16)
    with pytest.raises(aclnn.AclError, match="its kernel is built for FLOAT16 alone"):
        laser(x, x, x)
    with pytest.raises(aclnn.AclError, match="key") as refused:
        laser(drawn(3, 1, 4, 2, 16), drawn(3, 1, 3, 2, 16), drawn(3, 1, 3, 2, 16))
    assert refused.value.status == 561002


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH"])
@pytest.mark.parametrize("causal", [False, True])
def test_ada_block_sparse_attention(aclnn_backend, layout, causal):
    heads, key_heads, tokens, there = 4, 2, 10, 11
    q, k, v = drawn(4, 2, heads, tokens, 8), drawn(5, 2, key_heads, there, 8), drawn(6, 2, key_heads, there, 8)
    mask = np.zeros((2, heads, 3, 32), np.int8)
    mask[..., :3] = np.random.default_rng(7).integers(0, 2, (2, heads, 3, 3))
    mask[:, :, range(3), range(3)] = 1
    if causal:  # no blocks behind that of the queries
        mask[..., :3] &= np.tril(np.ones((3, 3), np.int8))
    mask[0, 0, 1] = 0
    counts = mask.sum(-1).astype(np.int32)
    lengths = [tokens, 7]

    def laid(x):
        x = x if layout == "BNSD" else np.ascontiguousarray(x.swapaxes(1, 2))
        return x.reshape(*x.shape[:2], -1) if layout == "BSH" else x

    got = ops.ada_block_sparse_attention(
        laid(q), laid(k), laid(v), None, None, lengths, [there], None, None, None, None, None, mask, counts, heads, 0.5,
        2**31 - 1, 0, layout, key_heads, 0, 1, SIZE, causal,
    )  # fmt: skip
    expected = np.zeros(q.shape)
    for b, h, s in np.ndindex(2, heads, tokens):
        chosen = [t for t in range(there) if mask[b, h, s // SIZE, t // SIZE] and not (causal and t > s)]
        if chosen and s < lengths[b]:
            expected[b, h, s] = attended(q[b, h, s], k[b, h // 2][chosen], v[b, h // 2][chosen], 0.5)
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), laid(expected), rtol=2e-3, atol=2e-3)


def test_counts_that_a_row_does_not_have(aclnn_backend):
    x, mask = drawn(8, 1, 1, 4, 8), np.ones((1, 1, 1, 32), np.int8)
    with pytest.raises(aclnn.AclError, match="lies between 33 and 33; rows have 32 blocks"):
        ops.ada_block_sparse_attention(
            x, x, x, None, None, None, None, None, None, None, None, None, mask, np.full((1, 1, 1), 33, np.int32), 1, 0.5, 9, 0,
            "BNSD", 1, 0, 1, SIZE, False,
        )  # fmt: skip
