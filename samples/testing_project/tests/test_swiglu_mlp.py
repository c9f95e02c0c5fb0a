from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from swiglu_mlp import swiglu_mlp

import ascend_aclnn as aclnn
from ascend_aclnn.testing import assert_accurate


def golden(*arrays: Any) -> Any:
    x, gate, up, down = (a.astype(np.float64) for a in arrays)
    inner = x @ gate
    return (inner / (1 + np.exp(-inner)) * (x @ up)) @ down


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
def test_against_float64(aclnn_backend: Any, dtype: Any) -> None:
    random = np.random.default_rng(0)
    arrays = [random.uniform(0.1, 1, shape).astype(dtype) for shape in ((16, 64), (64, 128), (64, 128), (128, 64))]
    y = swiglu_mlp(*map(aclnn.asarray, arrays))
    # Three products round to the 16-bit types in between: judged by the mixed tolerance of the data type.
    assert_accurate(y, golden(*arrays), standard="mixed")


@pytest.mark.npu(min_cann="8.1")
def test_on_a_device(aclnn_backend: Any, aclnn_stream: Any) -> None:
    x = aclnn.ones((4, 8), np.float16)
    assert swiglu_mlp(x, *(aclnn.ones((8, 8), np.float16) for _ in range(3))).shape == (4, 8)
