"""Experts against plain loops over tokens."""

from __future__ import annotations

import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops


def test_moe_init_routing_custom(aclnn_backend):
    """Copies of tokens by expert, of a range of experts, and quantised by row."""
    random = np.random.default_rng(5)
    x = random.normal(size=(6, 16)).astype(np.float16)
    experts = np.stack([random.permutation(4)[:2] for _ in range(6)]).astype(np.int32)
    order = np.argsort(experts.ravel(), kind="stable")

    def route(mode, experts_here):
        return ops.moe_init_routing_custom(x, experts, None, None, 12, -1, 4, 0, 1, True, mode, experts_here, 0)

    rows, places, counts, _ = route(-1, [0, 4])
    assert (rows == x[order // 2]).all() and (places == np.argsort(order)).all()
    assert (counts == np.bincount(experts.ravel(), minlength=4)).all()

    here = [copy for copy in order if 1 <= experts.ravel()[copy] < 3]
    rows, places, counts, _ = route(-1, [1, 3])
    assert (rows[: len(here)] == x[np.array(here) // 2]).all()
    assert (counts == np.bincount(experts.ravel(), minlength=4)[1:3]).all()

    codes, _, _, scales = route(1, [0, 4])
    wide = x[order // 2].astype(np.float64)
    assert codes.dtype == np.int8 and np.allclose(scales, np.abs(wide).max(1) / 127, rtol=1e-5)
    assert np.abs(codes - wide / scales[:, None]).max() < 0.51


GATES = {
    0: lambda x: np.exp(x) / np.exp(x).sum(),
    1: lambda x: 1 / (1 + np.exp(-x)),
    2: lambda x: np.sqrt(np.log1p(np.exp(x))),
}


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("hashed", [False, True])
def test_moe_gating_top_k_hash(aclnn_backend, gate, hashed):
    """The best experts by score and bias, or those of a table of token numbers."""
    random = np.random.default_rng(11)
    x, bias = random.normal(size=(5, 16)).astype(np.float32), random.normal(size=16).astype(np.float32)
    ids, table = (
        random.integers(0, 9, 5),
        random.permuted(np.tile(np.arange(16), (9, 1)), axis=1)[:, :4].astype(np.int32),
    )
    chosen = (ids, table) if hashed else (None, None)
    y, experts, scores = ops.moe_gating_top_k_hash(x, bias, *chosen, 4, 1, 1, 0, 0, gate, True, 2.5, 1e-20)
    for row in range(5):
        golden = GATES[gate](x[row].astype(np.float64))
        best = table[ids[row]] if hashed else np.argsort(-(golden + bias))[:4]
        weights = golden[best] / (1 if gate == 0 else golden[best].sum())
        assert experts[row].tolist() == best.tolist() and np.allclose(scores[row], golden, rtol=1e-5)
        assert np.allclose(y[row], weights * 2.5, rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "argument"), [({"k": 17}, "k"), ({"groups": 5}, "group_count"), ({"renorm": 1}, "renorm")]
)
def test_moe_gating_top_k_hash_refuses(aclnn_backend, change, argument):
    of = {"k": 4, "groups": 1, "renorm": 0, **change}
    x = np.ones((2, 16), np.float32)
    with pytest.raises(aclnn.AclError) as refused:
        ops.moe_gating_top_k_hash(x, None, None, None, of["k"], 1, of["groups"], 0, of["renorm"], 1, False, 1.0, 1e-20)
    assert (refused.value.status, refused.value.argument) == (561002, argument)
