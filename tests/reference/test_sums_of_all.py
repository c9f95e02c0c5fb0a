"""Sums and means of whole tensors, which go by rows, and over their first axes: against float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ascend_aclnn import DataType, ops, use_backend


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dims", [(0, 1, 2), ()])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_sum_and_mean_of_everything(dtype: Any, dims: tuple[int, ...], keep: bool) -> None:
    x = np.random.default_rng(0).standard_normal((7, 200, 300)).astype(dtype)
    code = DataType.FLOAT if dtype == np.float32 else DataType.FLOAT16 if dtype == np.float16 else DataType.BF16
    exact = x.astype(np.float64)
    shape = (1, 1, 1) if keep else ()
    with use_backend("numpy"):
        for found, want in (
            (ops.reduce_sum(x, dims, keep, code), exact.sum()),
            (ops.mean(x, dims, keep, code), exact.mean()),
        ):
            assert found.shape == shape and found.dtype == dtype
            assert found.reshape(()) == want.astype(np.float32).astype(dtype)
        wide = ops.reduce_sum(x, dims, keep, DataType.FLOAT)
        assert wide.dtype == np.float32 and wide.reshape(()) == exact.sum().astype(np.float32)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dims", [(0,), (1, 0), (-3,), (0, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_sum_and_mean_over_the_first_axes(dtype: Any, dims: tuple[int, ...], keep: bool) -> None:
    x = np.random.default_rng(1).standard_normal((7, 200, 301)).astype(dtype)
    code = DataType.FLOAT if dtype == np.float32 else DataType.FLOAT16 if dtype == np.float16 else DataType.BF16
    with use_backend("numpy"):
        for operator, function in ((ops.reduce_sum, np.sum), (ops.mean, np.mean)):
            want = function(x.astype(np.float64), axis=dims, keepdims=keep)
            found = operator(x, dims, keep, code)
            assert found.shape == want.shape and found.dtype == dtype
            assert np.array_equal(found, want.astype(np.float32).astype(dtype))
            wide = operator(x, dims, keep, DataType.FLOAT)
            assert wide.dtype == np.float32 and np.array_equal(wide, want.astype(np.float32))
