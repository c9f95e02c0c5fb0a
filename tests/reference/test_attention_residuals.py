"""Attention to the residuals of earlier blocks: both phases together are one softmax over all blocks, in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

RNG = np.random.default_rng(26)
F32, BF16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
EPS = 1e-6


@pytest.fixture(autouse=True)
def ascend950() -> Any:
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        yield


def score(x: Any, query: Any) -> Any:
    return (x @ query) / np.sqrt(np.mean(x * x, -1) + EPS)


@pytest.mark.parametrize("valid", [3, 1, 9])
def test_both_phases_are_one_softmax(valid: int) -> None:
    blocks = RNG.normal(size=(5, 4, 64)).astype(F32)
    queries = RNG.normal(size=(2, 64)).astype(F32)
    partial, delta = RNG.normal(size=(5, 64)).astype(F32), RNG.normal(size=(5, 64)).astype(BF16)
    numerator, highest, total = ops.block_attn_res_prepare(blocks, np.array([valid], np.uint64), queries, EPS)
    new = partial.astype(float) + delta.astype(float)
    for slot, query in enumerate(queries.astype(float)):
        changed = partial.copy()
        _, h = ops.block_attn_res_update(
            changed, delta, queries[slot], numerator[slot], highest[slot], total[slot], EPS
        )
        whole = np.concatenate((blocks[:, : min(valid, 4)].astype(float), new[:, None]), 1)
        z = score(whole, query)
        weights = np.exp(z - z.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        np.testing.assert_allclose(changed, new, rtol=1e-6)
        assert h.dtype == BF16
        np.testing.assert_allclose(h.astype(float), (weights[..., None] * whole).sum(1), rtol=8e-3, atol=1e-2)


def test_the_documents_state_without_blocks() -> None:
    numerator, highest, total = ops.block_attn_res_prepare(
        np.ones((2, 3, 4), F32), np.array([0], np.uint64), np.ones((5, 4), F32), EPS
    )
    assert not numerator.any() and not total.any() and numerator.shape == (5, 2, 4)
    assert (highest == np.finfo(F32).min).all()


def test_refusals() -> None:
    blocks, query = np.ones((2, 3, 4), F32), np.ones((5, 4), F32)
    one = np.array([1], np.uint64)
    for arguments, word in (
        ((blocks, one, query[:, :3], EPS), "pseudo_query"),
        ((np.ones((2, 65, 4), F32), one, query, EPS), "block_res"),
        ((blocks, one.astype(np.int64), query, EPS), "valid_blocks"),
        ((blocks, one, query, 0.0), "eps"),
    ):
        with pytest.raises(AclError, match=word) as refused:
            ops.block_attn_res_prepare(*arguments)
        assert refused.value.status == 161002
    with aclnn.use_backend("numpy", soc="Ascend910B1"), pytest.raises(AclError) as refused:
        ops.block_attn_res_prepare(blocks, one, query, EPS)
    assert refused.value.status == 361001
