"""Embedding and its gradient against plain loops, float64 sums and torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from reference_tools import BF16, F16, F32, FLOATS, close, floats, run, same
from row_tools import in_one_test

from ascend_aclnn.numerics import DataError
from ascend_aclnn.reference import _rows
from ascend_aclnn.reference.index import embedding as index

NO_PADDING = 2**64 - 1


@pytest.fixture(params=[None, 1, 3], ids=["usual blocks", "1-row blocks", "3-row blocks"], autouse=True)
def blocks(request: Any, monkeypatch: Any) -> None:
    if request.param:
        for module in (index, _rows):
            monkeypatch.setattr(module, "rows_per_block", lambda width, elements=0: request.param)


def backward(
    grad: Any,
    indices: Any,
    num_weights: Any,
    padding: Any = NO_PADDING,
    scale: Any = False,
    dtype: Any = None,
    strided: Any = False,
) -> Any:
    out = [((num_weights, grad.shape[-1]), dtype or grad.dtype)]
    return run(index.embedding_dense_backward, grad, indices, num_weights, padding, scale, out=out, strided=strided)[0]


def draw(rng: Any, rows: Any, names: Any, how: Any) -> Any:
    """Indices: all different, drawn evenly, nearly all the same, or all the same."""
    if how == "distinct":
        return rng.permutation(names)[:rows]
    if how == "even":
        return rng.integers(0, names, rows)
    if how == "skewed":
        return np.minimum(rng.geometric(0.5, rows) - 1, names - 1)
    return np.full(rows, names // 2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@in_one_test("how", ["distinct", "even", "skewed", "same"])
@in_one_test("rows,names,width", [(1, 1, 1), (10, 10, 3), (67, 80, 5), (50, 60, 5000)])
@in_one_test("scale", [False, True])
def test_backward(dtype: Any, how: Any, rows: Any, names: Any, width: Any, scale: Any) -> None:
    rng = np.random.default_rng(rows)
    grad, indices = floats(rng, (rows, width), dtype), draw(rng, rows, names, how)
    padding = int(indices[0])
    for pad in (NO_PADDING, padding):
        expected, size = np.zeros((names, width)), np.zeros((names, width))
        times = np.bincount(indices, minlength=names)
        for row, name in zip(grad.astype(np.float64), indices):
            if name != pad:
                expected[name] += row
                size[name] += np.abs(row)
        if scale:
            expected, size = (values / np.maximum(times, 1)[:, None] for values in (expected, size))
        result = backward(grad, indices, names, pad, scale)
        close(result, expected, rows, size)
        assert not np.signbit(result.astype(np.float32)[result == 0]).any()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("grad_shape", [(2, 3, 4), (6, 4)])
@pytest.mark.parametrize("indices_shape", [(6,), (2, 3), (1, 6, 1)])
def test_backward_of_any_shape_and_strides(dtype: Any, grad_shape: Any, indices_shape: Any) -> None:
    rng = np.random.default_rng(1)
    grad, indices = floats(rng, grad_shape, dtype), rng.integers(0, 3, indices_shape)
    plain = backward(grad, indices, 4)
    same(backward(grad, indices, 4, strided=True), plain)
    same(backward(grad.reshape(6, 4), indices.reshape(6), 4), plain)


@pytest.mark.parametrize("out", FLOATS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_backward_into_another_dtype(dtype: Any, out: Any) -> None:
    grad = np.array([[1 + 2.0**-7, 3], [2.0**-9, 5], [7, -0.0]]).astype(dtype)
    expected = np.stack([grad[:2].astype(np.float32).sum(0), grad[2].astype(np.float32) + 0]).astype(out)
    same(backward(grad, np.array([0, 0, 1]), 2, dtype=out), expected)


INDICES = [np.float32, np.float16, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64]


@pytest.mark.parametrize("dtype", INDICES, ids=lambda dtype: np.dtype(dtype).name)
def test_backward_with_indices_of_any_dtype(dtype: Any) -> None:
    grad = np.arange(8, dtype=np.float32).reshape(4, 2)
    same(backward(grad, np.array([2, 0, 2, 1], dtype), 3), np.array([[2, 3], [6, 7], [4, 6]], np.float32))


def test_backward_truncates_fractions_and_counts_truth() -> None:
    grad = np.arange(8, dtype=np.float32).reshape(4, 2)
    expected = np.array([[2, 4], [10, 12]], np.float32)
    same(backward(grad, np.array([0.99, -0.99, 1.5, 1.0]), 2), expected)
    same(backward(grad, np.array([False, False, True, True]), 2), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_backward_of_minus_zero_is_plus_zero(dtype: Any) -> None:
    grad = np.array([[-0.0, 1], [-0.0, -1], [-0.0, 2]], np.float32).astype(dtype)
    same(backward(grad, np.array([0, 1, 1]), 2), np.array([[0, 1], [0, 1]], np.float32).astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_backward_of_special_values(dtype: Any) -> None:
    grad = np.array([[np.inf, np.nan], [-np.inf, 1]], np.float32).astype(dtype)
    same(backward(grad, np.array([0, 1]), 2), grad)
    same(backward(grad, np.array([0, 0]), 1), np.full((1, 2), np.nan, np.float32).astype(dtype))


@pytest.mark.parametrize("grad_shape", [(0, 4), (2, 0, 4), (3, 0)])
def test_backward_of_nothing_is_zero(grad_shape: Any) -> None:
    rows = int(np.prod(grad_shape[:-1]))
    result = backward(np.zeros(grad_shape, F32), np.zeros(rows, np.int64), 5)
    same(result, np.zeros((5, grad_shape[-1]), np.float32))


def test_backward_scales_by_the_reciprocal() -> None:
    """Ten thirds of one: the product with the rounded reciprocal, not the quotient."""
    grad = np.full((3, 1), 10 / 3, np.float32)
    total = np.float32(grad[0, 0] + grad[0, 0]) + grad[0, 0]
    same(backward(grad, np.zeros(3, np.int64), 1, scale=True), np.array([[total * (np.float32(1) / np.float32(3))]]))


def test_backward_sums_a_long_run_accurately() -> None:
    grad = np.full((100_000, 1), 0.1, np.float32)
    result = backward(grad[:3000], np.zeros(3000, np.int64), 1)
    assert abs(result[0, 0] / (3000 * float(np.float32(0.1))) - 1) < 1e-6


def test_backward_agrees_with_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is absent: its embedding gradient is not compared with ours")
    rng = np.random.default_rng(4)
    grad, indices = floats(rng, (50, 6), F32), rng.integers(0, 20, 50)
    for scale in (False, True):
        theirs = torch.ops.aten.embedding_dense_backward(torch.tensor(grad), torch.tensor(indices), 20, 3, scale)
        np.testing.assert_allclose(backward(grad, indices, 20, 3, scale), theirs.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.array([[0, 4]]), r"element \[0, 1\] is 4; allowed: 0 to 3"),
        (np.array([-1, 0]), r"element \[0\] is -1; allowed: 0 to 3"),
        (np.array([0, 1e30]), r"element \[1\] is 4611686018427387904; allowed: 0 to 3"),
        (np.array([0, np.inf]), "infinity or NaN"),
    ],
)
def test_backward_refuses_indices_out_of_range(bad: Any, message: Any) -> None:
    with pytest.raises(DataError, match=message) as caught:
        backward(np.ones((2, 3), F32), bad, 4)
    assert caught.value.argument == "indices"


# ----------------------------------------------------------------------------------------------------- forward

WEIGHTS = [*FLOATS, np.float64, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_, np.complex64, np.complex128]


@pytest.mark.parametrize("dtype", WEIGHTS, ids=lambda dtype: np.dtype(dtype).name)
@in_one_test("shape", [(), (4,), (2, 3), (0,), (3, 1, 2)])
@in_one_test("strided", [False, True])
def test_embedding(dtype: Any, shape: Any, strided: Any) -> None:
    rng = np.random.default_rng(5)
    weight = (rng.standard_normal((7, 3)) * 5).astype(dtype)
    indices = np.asarray(rng.integers(0, 7, shape))
    (result,) = run(index.embedding, weight, indices, out=[((*shape, 3), dtype)], strided=strided)
    assert result.dtype == weight.dtype
    np.testing.assert_array_equal(result, weight[indices])


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_embedding_copies_bits(dtype: Any) -> None:
    weight = np.arange(65536, dtype=np.uint16).view(dtype)[:, None]
    (result,) = run(index.embedding, weight, np.arange(65535, -1, -1), out=[((65536, 1), dtype)])
    assert result.tobytes() == weight[::-1].tobytes()


@pytest.mark.parametrize("bad", [-1, 7])
def test_embedding_refuses_indices_out_of_range(bad: Any) -> None:
    with pytest.raises(DataError, match=rf"indices: element \[1\] is {bad}; allowed: 0 to 6"):
        run(index.embedding, np.ones((7, 3), ml_dtypes.bfloat16), np.array([0, bad], np.int32), out=[((2, 3), BF16)])


def test_embedding_of_an_empty_table() -> None:
    (result,) = run(index.embedding, np.ones((0, 3), F32), np.zeros((0,), np.int32), out=[((0, 3), F32)])
    assert result.shape == (0, 3)
    with pytest.raises(DataError, match="there are no rows"):
        run(index.embedding, np.ones((0, 3), F32), np.zeros((1,), np.int32), out=[((1, 3), F32)])
