"""Attention to chosen tokens and their choice, in float64, a token at a time."""

from __future__ import annotations

import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops

FAR = 2**63 - 1


def test_lightning_indexer_quant(aclnn_backend):
    """The six best of twenty keys in two pages; a key counts by the weighted sum of its positive products."""
    random = np.random.default_rng(1)
    q, k = (random.integers(-127, 128, size, np.int8) for size in ((1, 2, 8, 128), (3, 16, 1, 128)))
    w, q_scale, k_scale = (
        random.uniform(0.1, 1, size).astype(np.float16) for size in ((1, 2, 8), (1, 2, 8), (3, 16, 1))
    )
    pages, used = np.array([[2, 1]], np.int32), np.array([20], np.int32)
    scales = q_scale, k_scale, None, used, pages
    out = np.asarray(ops.lightning_indexer_quant(q, k, w, *scales, 0, 0, "BSND", "PA_BSND", 6, 0))
    keys = np.concatenate([k[page] * k_scale[page].astype(np.float64)[..., None] for page in (2, 1)])[:20, 0]
    for token in range(2):
        query = q[0, token] * q_scale[0, token].astype(np.float64)[:, None]
        scores = (np.maximum(query @ keys.T, 0) * w[0, token].astype(np.float64)[:, None]).sum(0)
        assert sorted(out[0, token, 0]) == sorted(np.argsort(-scores)[:6])


def sparse_arguments(dtype=np.float16):
    random = np.random.default_rng(2)
    q, rope = (random.normal(size=size).astype(dtype) for size in ((1, 2, 4, 576), (1, 12, 1, 64)))
    nope, scale = random.integers(-127, 128, (1, 12, 1, 512)).astype(np.int8), random.uniform(0, 0.02, (1, 12, 1, 4))
    parts = nope, rope, scale.astype(np.float32)
    key = np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts], -1).view(np.int8)
    indices = np.stack([random.permutation(10)[:6] for _ in range(2)]).astype(np.int32).reshape(1, 2, 1, 6)
    return q, key, indices, [part.astype(np.float64) for part in parts]


def sparse(q, key, indices, statistics):
    rest = None, None, None, None, None, 0.05, 2, 2, 1, "BSND", "BSND", 3, FAR, FAR, 2, 1, 128, 64, statistics
    return ops.kv_quant_sparse_flash_attention(q, key, key, indices, *rest)


def test_kv_quant_sparse_flash_attention(aclnn_backend):
    """vllm-ascend's form, which has statistics of the softmax too; keys are codes, a rotated part, and scales of tiles."""
    q, key, indices, (nope, rope, scale) = sparse_arguments()
    out = np.asarray(sparse(q, key, indices, False)[0]).astype(np.float64)
    values = nope[0, :, 0] * np.repeat(scale[0, :, 0], 128, -1)
    for token in range(2):
        tokens = [t for t in indices[0, token, 0] if t <= 10 + token]
        keys = np.concatenate([values[tokens], rope[0, tokens, 0]], -1)
        for head in range(4):
            scores = keys @ q[0, token, head].astype(np.float64) * 0.05
            weights = np.exp(scores - scores.max())
            golden = weights / weights.sum() @ values[tokens]
            assert np.abs(out[0, token, head] - golden).max() < 5e-3 * np.abs(golden).max()


def test_statistics_are_refused(aclnn_backend):
    with pytest.raises(aclnn.AclError, match="no statistics of the softmax") as refused:
        sparse(*sparse_arguments()[:3], True)
    assert refused.value.status == 561003


@pytest.mark.parametrize("layout", ["BSND", "TND"])
@pytest.mark.parametrize("ratio", [1, 4])
def test_vllm_quant_lightning_indexer(aclnn_backend, layout, ratio):
    """Two sequences in pages; a compressed key is seen with the last of its tokens."""
    random = np.random.default_rng(3)
    used, lengths = [2, 3], [20 * ratio + ratio // 2, 11 * ratio]  # queries; keys before they were compressed
    q, k = (random.integers(-127, 128, size, np.int8) for size in ((2, 3, 4, 64), (4, 16, 1, 64)))
    w, q_scale, k_scale = (
        random.uniform(0.1, 1, size).astype(np.float16) for size in ((2, 3, 4), (2, 3, 4), (4, 16, 1))
    )
    pages = np.array([[2, 1], [3, 0]], np.int32)
    parts = [q, w, q_scale]
    if layout == "TND":
        parts = [np.concatenate([part[0, :2], part[1]]) for part in parts]
    of_queries = np.array(np.cumsum(used) if layout == "TND" else used, np.int32)
    sizes = 4, 1, 64, 0, 0, 2, 3, 99, layout, "PA_BSND", 5, 3, FAR, FAR, ratio
    plan = ops.vllm_quant_lightning_indexer_metadata(of_queries, None, *sizes, out=np.full(1024, 7, np.int32))
    assert not np.asarray(plan).any()
    rest = 0, 0, layout, "PA_BSND", 5, 3, FAR, FAR, ratio, True, 16 * 64, 16
    arguments = parts[0], k, parts[1], parts[2], k_scale, of_queries, np.array(lengths, np.int32), pages, plan
    indices, values = map(np.asarray, ops.vllm_quant_lightning_indexer(*arguments, *rest))
    for number in range(2):
        keys = np.concatenate([k[page] * k_scale[page].astype(np.float64)[..., None] for page in pages[number]])[:, 0]
        for token in range(used[number]):
            seen = (lengths[number] - used[number] + token + 1) // ratio
            query = q[number, token] * q_scale[number, token].astype(np.float64)[:, None]
            scores = (np.maximum(query @ keys.T, 0) * w[number, token].astype(np.float64)[:, None]).sum(0)[:seen]
            row = (2 * number + token,) if layout == "TND" else (number, token)
            best = np.argsort(-scores)[:5]
            assert sorted(indices[row][0]) == sorted(best)
            assert np.allclose(values[row][0], scores[indices[row][0]], rtol=1e-3)
