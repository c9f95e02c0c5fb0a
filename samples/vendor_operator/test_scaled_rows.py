"""The operator on every backend that pytest is told: pytest --aclnn-backend=numpy, emulator or npu."""

import numpy as np
import pytest
import scaled_rows  # noqa: F401 - declares the operator

import ascend_aclnn as aclnn
from ascend_aclnn import ops

X = np.arange(6, dtype=np.float16).reshape(3, 2)


def test_values(aclnn_backend):
    out = ops.scaled_rows(aclnn.asarray(X), aclnn.asarray(np.array([2, 0])), 2.0)
    assert out.numpy().tolist() == [[8, 10], [0, 2]]


def test_refusals(aclnn_backend):
    with pytest.raises(aclnn.AclError, match="rows has dtype FLOAT16") as refused:
        ops.scaled_rows(aclnn.asarray(X), aclnn.asarray(X[0]), 2.0)
    assert refused.value.status == 161002
