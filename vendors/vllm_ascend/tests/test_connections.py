"""Hyper-connections, in float64 and token by token."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops

H, D, EPS, NORM_EPS = 4, 32, 1e-3, 1e-6


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gates(mix, scale, base, iterations):
    """The gates of one token before and behind its layer, and the matrix, from its (h + 2) * h numbers."""
    before = sigmoid(mix[:H] * scale[0] + base[:H]) + EPS
    behind = 2 * sigmoid(mix[H : 2 * H] * scale[1] + base[H : 2 * H])
    matrix = np.exp((mix[2 * H :] * scale[2] + base[2 * H :]).reshape(H, H))
    matrix = matrix / matrix.sum(1, keepdims=True) + EPS
    for step in range(2 * iterations - 1):
        matrix = matrix / (matrix.sum(step % 2, keepdims=True) + EPS)
    return before, behind, matrix


@pytest.mark.parametrize("lead", [(5,), (2, 3)])
def test_hc_pre(aclnn_backend, lead):
    """The operator of one call, and of two and a product between them."""
    random = np.random.default_rng(7)
    x = random.normal(size=(*lead, H, D)).astype(ml_dtypes.bfloat16)
    weight = random.normal(size=((H + 2) * H, H * D), scale=0.1).astype(np.float32)
    scale, base = random.normal(size=3).astype(np.float32), random.normal(size=(H + 2) * H).astype(np.float32)
    y, post, comb = ops.hc_pre(x, weight, scale, base, H, 3, EPS, NORM_EPS)
    assert y.dtype == ml_dtypes.bfloat16 and post.dtype == comb.dtype == np.float32

    inverse = ops.hc_pre_inv_rms(x, NORM_EPS)
    mixes = x.reshape(*lead, -1).astype(np.float32) @ weight.T
    parts = ops.hc_pre_sinkhorn(mixes, inverse, scale, base, x, H, 3, EPS)

    wide = x.astype(np.float64).reshape(-1, H, D)
    for token, streams in enumerate(wide):
        rms = np.sqrt((streams**2).mean() + NORM_EPS)
        before, behind, matrix = gates(weight.astype(np.float64) @ streams.ravel() / rms, scale, base, 3)
        assert np.isclose(inverse.reshape(-1)[token], 1 / rms, rtol=1e-5)
        for result in ((y, post, comb), parts):
            got = [part.reshape(-1, *part.shape[len(lead) :])[token].astype(np.float64) for part in result]
            assert np.allclose(got[0], before @ streams, rtol=1e-2, atol=1e-2)
            assert np.allclose(got[1], behind, rtol=1e-4) and np.allclose(got[2], matrix, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
def test_hc_post(aclnn_backend, dtype):
    random = np.random.default_rng(8)
    x, residual = (random.normal(size=(2, 3, *rest)).astype(dtype) for rest in ((D,), (H, D)))
    post, comb = (random.normal(size=(2, 3, *rest)).astype(np.float32) for rest in ((H,), (H, H)))
    out = ops.hc_post(x, residual, post, comb)
    golden = np.einsum("bskm,bskd->bsmd", comb, residual.astype(np.float64))
    golden += np.einsum("bsm,bsd->bsmd", post, x.astype(np.float64))
    assert out.dtype == dtype and np.allclose(out.astype(np.float64), golden, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("change", "argument"), [({"scale": 2}, "hc_scale"), ({"weight": 3 * D}, "hc_fn"), ({"base": 5}, "hc_base")]
)
def test_hc_pre_refuses_other_sizes(aclnn_backend, change, argument):
    sizes = {"weight": H * D, "scale": 3, "base": 24, **change}
    x, weight = np.ones((5, H, D), ml_dtypes.bfloat16), np.ones((24, sizes["weight"]), np.float32)
    with pytest.raises(aclnn.AclError) as refused:
        ops.hc_pre(x, weight, np.ones(sizes["scale"], np.float32), np.ones(sizes["base"], np.float32), H, 2, EPS, EPS)
    assert (refused.value.status, refused.value.argument) == (561002, argument)
