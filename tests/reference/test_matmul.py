"""Mm against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference_tools import BF16, F16, F32, FLOATS, close, floats, run, same

from ascend_aclnn import ops
from ascend_aclnn.reference.matmul.core import plain_product as mm

SHAPES = [(1, 1, 1), (3, 4, 5), (17, 33, 9), (64, 200, 64), (1, 500, 1), (0, 3, 2), (2, 3, 0)]


@pytest.mark.parametrize("a_dtype", FLOATS, ids=str)
@pytest.mark.parametrize("b_dtype", FLOATS, ids=str)
@pytest.mark.parametrize("out_dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_product(a_dtype: Any, b_dtype: Any, out_dtype: Any, m: Any, k: Any, n: Any) -> None:
    rng = np.random.default_rng(k)
    a, b = floats(rng, (m, k), a_dtype), floats(rng, (k, n), b_dtype)
    (result,) = run(mm, a, b, 0, out=[((m, n), out_dtype)])
    wide, other = a.astype(np.float64), b.astype(np.float64)
    close(result, wide @ other, k, np.abs(wide) @ np.abs(other))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_strides_and_transposed_operands(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (6, 5)).astype(dtype), rng.integers(-9, 9, (5, 7)).astype(dtype)
    (plain,) = run(mm, a, b, 0, out=[((6, 7), dtype)])
    (strided,) = run(mm, a, b, 0, out=[((6, 7), dtype)], strided=True)
    same(strided, plain)
    result = np.empty((6, 7), dtype)
    mm(np.asfortranarray(a), np.asfortranarray(b), 0, out=(result,))
    same(result, plain)


def test_a_sum_without_terms_is_zero() -> None:
    (result,) = run(mm, np.ones((2, 0), F16), np.ones((0, 3), F16), 0, out=[((2, 3), F16)])
    same(result, np.zeros((2, 3), F16))


@pytest.mark.parametrize(("dtype", "first"), [(BF16, 256), (F16, 2048)], ids=str)
def test_sums_are_float32(dtype: Any, first: Any) -> None:
    a = np.array([[first, 1, 1, 1]], dtype)
    (result,) = run(mm, a, np.ones((4, 1), dtype), 0, out=[((1, 1), dtype)])
    same(result, np.array([[first + 4]], dtype))  # 259 and 2051, half to even


@pytest.mark.parametrize("cube_math_type", [0, 1, 3, 4])
def test_cube_math_types_change_nothing(cube_math_type: Any) -> None:
    a, b = np.array([[1 + 2.0**-20]], F32), np.array([[1e30]], F32)
    (result,) = run(mm, a, b, cube_math_type, out=[((1, 1), F32)])
    same(result, a * b)


def test_use_fp16_rounds_the_operands() -> None:
    a, b = np.array([[1 + 2.0**-20, 1e30]], F32), np.array([[3], [0.5]], F32)
    (result,) = run(mm, a[:, :1], b[:1], 2, out=[((1, 1), F32)])
    same(result, np.array([[3]], F32))
    (result,) = run(mm, a, b, 2, out=[((1, 1), F32)])
    same(result, np.array([[np.inf]], F32))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_batches_that_are_widened_some_at_a_time_are_products_of_their_matrices(dtype: Any, transposed: bool) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((2, 9, 256, 128), np.float32).astype(dtype)
    b = rng.standard_normal((2, 9, *((256, 128) if transposed else (128, 256))), np.float32).astype(dtype)
    b = b.swapaxes(-1, -2) if transposed else b
    product = ops.matmul(a, b)
    for one, left, right in zip(product.reshape(18, 256, 256), a.reshape(18, 256, 128), b.reshape(18, 128, 256)):
        assert np.array_equal(one.view(np.uint16), ops.mm(left, right).view(np.uint16))
