"""Experts against plain loops over tokens."""

from __future__ import annotations

import numpy as np
import vllm_ascend_operators  # noqa: F401 - declares the operators

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
