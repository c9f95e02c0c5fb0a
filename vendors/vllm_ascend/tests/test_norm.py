"""Normalisations against formulas in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops


@pytest.mark.parametrize(
    ("dtype", "allowed"), [(np.float32, 1e-5), (np.float16, 4e-3), (ml_dtypes.bfloat16, 3e-2)], ids=str
)
@pytest.mark.parametrize("shifted", [False, True])
def test_add_rms_norm_bias(aclnn_backend, dtype, allowed, shifted):
    random = np.random.default_rng(3)
    x1, x2 = (random.normal(size=(3, 5, 64)).astype(dtype) for _ in range(2))
    gamma, beta = (random.normal(size=64).astype(dtype) for _ in range(2))
    total = (x1.astype(np.float32) + x2.astype(np.float32)).astype(dtype).astype(np.float64)
    rstd = 1 / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5)
    golden = total * rstd * gamma.astype(np.float64) + (beta.astype(np.float64) if shifted else 0)
    y, inverse, x = ops.add_rms_norm_bias(x1, x2, gamma, beta if shifted else None, 1e-5)
    assert y.dtype == dtype and inverse.dtype == np.float32 and inverse.shape == (3, 5, 1)
    assert (x == total.astype(dtype)).all() and np.allclose(inverse, rstd, rtol=1e-5)
    assert np.abs(y.astype(np.float64) - golden).max() < allowed * np.abs(golden).max()


def test_gamma_has_the_last_axes_of_x(aclnn_backend):
    x = np.ones((3, 64), np.float16)
    with pytest.raises(aclnn.AclError) as refused:
        ops.add_rms_norm_bias(x, x, x[0, :8], None, 1e-5)
    assert (refused.value.status, refused.value.argument) == (561002, "gamma")


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("two", [False, True])
def test_rms_norm_dynamic_quant(aclnn_backend, dtype, two):
    """vllm-ascend's form: two quantisations, each with smoothing factors of its own."""
    random = np.random.default_rng(6)
    x, gamma, beta, smooth1, smooth2 = (random.normal(size=size).astype(dtype) for size in ((3, 64), 64, 64, 64, 64))
    y1, y2, scale1, scale2 = ops.rms_norm_dynamic_quant(
        x, gamma, smooth1, smooth2 if two else None, beta, 1e-6, None, 0
    )
    wide = x.astype(np.float64)
    normed = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * gamma.astype(np.float64) + beta.astype(
        np.float64
    )
    for smooth, codes, scales in ((smooth1, y1, scale1), (smooth2, y2, scale2))[: 1 + two]:
        golden = normed * smooth.astype(np.float64)
        assert np.allclose(scales, np.abs(golden).max(1) / 127, rtol=1e-4)
        assert np.abs(codes - golden / scales[:, None]).max() < 0.52
