"""Kernels that vllm-ascend launches as binaries, on the host, against float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ascend_aclnn.reference import kernels
from ascend_aclnn.reference.kernels import DataError

TYPES = {"half": np.dtype(np.float16), "bfloat16_t": np.dtype(ml_dtypes.bfloat16)}
ADAPTERS = np.array([0, -1, 2, 2, 1, 0])
HIDDEN, RANK = 48, 16

each_type = pytest.mark.parametrize("name", TYPES)


def drawn(seed: int, shape: tuple[int, ...], dtype: Any) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@each_type
@pytest.mark.parametrize("by_length", [False, True])
def test_shrink(name: str, by_length: bool) -> None:
    """Tokens without an adapter keep what y has; so do those behind the last sequence."""
    x, weight = drawn(0, (6, HIDDEN), TYPES[name]), drawn(1, (3, RANK, HIDDEN), TYPES[name])
    y = np.full((6, RANK), 7, np.float32)
    adapters = np.array([1, 1, -1, 2, -1, -1]) if by_length else ADAPTERS
    sizes = (y, 6, 1, HIDDEN, RANK, 0.25)
    if by_length:
        kernels.run(f"sgmv_shrink_{name}", x, weight, np.array([1, -1, 2]), 3, np.array([2, 1, 1]), 3, *sizes)
    else:
        kernels.run(f"bgmv_shrink_{name}", x, weight, adapters, 6, *sizes)
    wide = 0.25 * np.einsum("th,trh->tr", x.astype(np.float64), weight[adapters].astype(np.float64))
    expected = np.where(adapters[:, None] < 0, 7, wide)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@each_type
@pytest.mark.parametrize("by_length", [False, True])
def test_expand(name: str, by_length: bool) -> None:
    """A slice of y gets the product added, rounded once; all else stays."""
    dtype = TYPES[name]
    x, weight, before = drawn(2, (6, RANK), np.float32), drawn(3, (3, 20, RANK), dtype), drawn(4, (6, 64), dtype)
    adapters = np.array([1, 1, -1, 2, -1, -1]) if by_length else ADAPTERS
    y = before.copy()
    sizes = (y, y, 6, 1, RANK, 20, 32, 64)
    if by_length:
        kernels.run(f"sgmv_expand_{name}", x, weight, np.array([1, -1, 2]), 3, np.array([2, 1, 1]), 3, *sizes)
    else:
        kernels.run(f"bgmv_expand_{name}", x, weight, adapters, 6, *sizes)
    expected = before.astype(np.float64)
    wide = np.einsum("tr,tcr->tc", x.astype(np.float64), weight[adapters].astype(np.float64))
    expected[:, 32:52] += np.where(adapters[:, None] < 0, 0, wide)
    step = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=step, atol=step)
    assert (
        (y[:, :32] == before[:, :32]).all()
        and (y[:, 52:] == before[:, 52:]).all()
        and (y[1] == before[1]).all() != by_length
    )


def test_ranks_that_the_kernel_cannot_sum() -> None:
    y = np.zeros((1, 8), np.float16)
    with pytest.raises(DataError, match="maxLoRARank: is 4; the kernel sums 8, 16, 32, 64"):
        kernels.run(
            "bgmv_expand_half",
            np.zeros((1, 4), np.float32),
            np.zeros((1, 8, 4), np.float16),
            np.zeros(1, np.int64),
            1,
            y,
            y,
            1,
            1,
            4,
            8,
            0,
            8,
        )


def test_masked_input_and_mask() -> None:
    """A part of the vocabulary: ids 10 to 19, padded by 4 rows, and 30 to 31 behind them."""
    ids = np.array([9, 10, 19, 20, 29, 30, 31, 32], np.int32)
    rows, mask = np.full(8, -5, np.int32), np.zeros(8, np.bool_)
    kernels.run("get_masked_input_and_mask_kernel", ids, rows, mask, 10, 20, 4, 30, 32, 8, 1, 48)
    table = {**{10 + row: row for row in range(10)}, 30: 14, 31: 15}
    assert rows.tolist() == [table.get(int(i), 0) for i in ids]
    assert mask.tolist() == [int(i) not in table for i in ids]


@each_type
@pytest.mark.parametrize("blocked", [False, True])
def test_batch_matmul_transpose(name: str, blocked: bool) -> None:
    dtype = TYPES[name]
    a, b, c = drawn(5, (3, 2, 32), dtype), drawn(6, (2, 32, 48), dtype), np.zeros((3, 2, 48), dtype)
    tiling = np.zeros(18, np.uint32)
    code = 1 if name == "half" else 2
    tiling[:4], tiling[12] = (2, 3, 32, 48), code << 10 | code << 7 | code << 4 | blocked << 2
    right = np.ascontiguousarray(b.reshape(2, 32, 3, 16).transpose(0, 2, 1, 3)) if blocked else b
    kernels.run("batch_matmul_transpose", a, right, c, tiling)
    expected = np.einsum("mbk,bkn->mbn", a.astype(np.float64), b.astype(np.float64))
    step = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(c.astype(np.float64), expected, rtol=step, atol=step)
