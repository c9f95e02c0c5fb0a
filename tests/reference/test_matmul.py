"""Mm against float64."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference_tools import BF16, F16, F32, FLOATS, close, floats, run, same

from ascend_aclnn import native, ops
from ascend_aclnn.native import library
from ascend_aclnn.numerics import multiply_bf16
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


# ------------------------------------------------------------------------------------- products of bfloat16 in the helper

NARROW = [(1, 64, 128, 130), (1, 17, 4000, 33), (1, 507, 769, 65), (3, 40, 1001, 40), (1, 1020, 130, 515)]


@pytest.fixture
def narrow_products(built_helper: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled helper, on a processor that has instructions for products of bfloat16."""
    monkeypatch.setattr(library, "PACKAGED", built_helper)
    monkeypatch.setenv("ASCEND_ACLNN_NATIVE", "auto")
    monkeypatch.delenv(native.BF16_PRODUCTS, raising=False)
    monkeypatch.setattr(native, "_status", None)
    monkeypatch.setattr(native, "_library", None)
    if not native.multiplies_bf16():
        pytest.skip(f"no instructions for products of bfloat16 with {native.status().instructions}")


def turned(x: Any) -> Any:
    """The same values, the columns of each matrix contiguous."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler to build the helper with")
@pytest.mark.parametrize(("batch", "m", "k", "n"), NARROW)
def test_products_of_bfloat16_by_the_processor(narrow_products: None, batch: int, m: int, k: int, n: int) -> None:
    """No less exact than sums in float32, at any size, and of the same bits from any strides and in any data type."""
    rng = np.random.default_rng(n)
    a, b = floats(rng, (batch, m, k), BF16), floats(rng, (batch, k, n), BF16)
    wide, other = a.astype(np.float64), b.astype(np.float64)
    result = multiply_bf16(a, b)
    assert result is not None
    close(result, wide @ other, k, np.abs(wide) @ np.abs(other))
    for left, right in ((turned(a), b), (a, turned(b)), (turned(a), turned(b))):
        same(multiply_bf16(left, right), result)
    spread = np.zeros((batch, 2 * m, 3 * k), BF16)[:, ::2, ::3]
    spread[...] = a
    same(multiply_bf16(spread, b), result)
    rounded = np.zeros((batch, m + 1, n + 3), BF16)
    assert multiply_bf16(a, b, rounded[:, 1:, 2:-1]) is not None
    same(rounded[:, 1:, 2:-1], result.astype(BF16))
    assert not rounded[:, 0].any() and not rounded[..., :2].any() and not rounded[..., -1].any()


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler to build the helper with")
def test_special_values_in_products_of_bfloat16(narrow_products: None) -> None:
    """Infinities and NaN stay where they are; denormals count as 0."""
    a, b = np.ones((32, 256), BF16), np.ones((256, 256), BF16)
    a[0, 3], a[1, 5], a[2, 7], b[9, 4] = np.inf, np.nan, -np.inf, np.inf
    a[3], a[2, 9] = 0, 0
    result = multiply_bf16(a, b)
    assert result is not None
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(result, a.astype(F32) @ b.astype(F32))
    tiny = np.full((32, 256), 1e-39).astype(BF16)
    same(multiply_bf16(tiny, np.ones((256, 256), BF16)), np.zeros((32, 256), F32))


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler to build the helper with")
def test_products_of_bfloat16_are_switched_off(narrow_products: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch gives the bits of NumPy's path, in whole calls too."""
    rng = np.random.default_rng(0)
    a, b, c = (floats(rng, shape, BF16) for shape in ((3, 65, 700), (3, 700, 66), (66,)))
    calls = [lambda: ops.batch_mat_mul(a, b), lambda: ops.mm(a[0], b[0]), lambda: ops.addmm(c, a[0], b[0], 1.0, 1.0)]
    fast = [call() for call in calls]
    same(fast[0][0], fast[1])
    monkeypatch.setenv(native.BF16_PRODUCTS, "0")
    assert multiply_bf16(a[0], b[0]) is None
    switched_off = [call() for call in calls]
    monkeypatch.setattr(native, "_library", None)
    for one, other in zip(switched_off, [call() for call in calls]):
        same(one, other)
    for one, other in zip(fast, switched_off):
        np.testing.assert_allclose(one.astype(F32), other.astype(F32), rtol=0.01, atol=1e-2)
    monkeypatch.setenv(native.BF16_PRODUCTS, "yes")
    with pytest.raises(ValueError, match="ASCEND_ACLNN_BF16_PRODUCTS"):
        native.multiplies_bf16()


def test_what_blas_multiplies_as_fast_is_left_to_it() -> None:
    narrow = np.ones((64, 64), BF16)
    assert multiply_bf16(narrow, narrow) is None  # small
    assert multiply_bf16(np.ones((16, 512), BF16), np.ones((512, 512), BF16)) is None  # few rows
    assert multiply_bf16(np.ones((64, 512), F16), np.ones((512, 512), F16)) is None
    assert multiply_bf16(np.ones((2, 64, 512), BF16), np.ones((512, 512), BF16)) is None
