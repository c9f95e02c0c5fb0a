"""References of ops-math/random through the public functions: ranges, frequencies, moments, streams, exact masks."""

from __future__ import annotations

from typing import Any, Callable

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float32), np.dtype(np.float16), BF16]
MANY = 20_000


def drawn(function: Callable[..., None], dtype: Any, *arguments: Any, shape: Any = (MANY,)) -> Any:
    """What an in-place operator makes of zeros, in float64."""
    x = np.zeros(shape, dtype)
    function(x, *arguments)
    return x.astype(np.float64)


def test_dropout_and_its_two_steps_draw_the_same_mask_from_one_seed() -> None:
    x = np.ones((40, 50), np.float32)
    result, mask = ops.dropout(x, 0.3, True, 11, 4)
    generated = ops.dropout_gen_mask([40, 50], 0.3, 11, 4)
    np.testing.assert_array_equal(generated, mask)
    np.testing.assert_array_equal(ops.dropout_gen_mask_v2([40, 50], 0.3, 11, 4, 0), mask)
    np.testing.assert_array_equal(ops.dropout_do_mask(x, mask, 0.3), result)


def about(actual: Any, expected: float, error: float) -> None:
    """A mean of many draws: within six standard errors."""
    assert abs(float(actual) - expected) <= 6 * error / MANY**0.5


IN_PLACE: dict[str, tuple[Any, ...]] = {
    "inplace_normal": (0.0, 1.0),
    "inplace_uniform": (-1.0, 1.0),
    "inplace_random": (0, 100),
    "inplace_random_without_from_to": (),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_streams(name: str) -> None:
    """Same seed and offset, same numbers; another of either, others; seeds on the device mean the same."""
    function, arguments = getattr(ops, name), IN_PLACE[name]
    first = drawn(function, np.float32, *arguments, 3, 4, shape=(4, 9))
    assert (first == drawn(function, np.float32, *arguments, 3, 4, shape=(4, 9))).all()
    assert (first != drawn(function, np.float32, *arguments, 3, 8, shape=(4, 9))).any()
    assert (first != drawn(function, np.float32, *arguments, 4, 4, shape=(4, 9))).any()
    seeds = np.array([3], np.int64), np.array([1], np.int64)
    on_device = drawn(getattr(ops, f"{name}_tensor"), np.float32, *arguments, *seeds, 3, shape=(4, 9))
    assert (first == on_device).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normal(dtype: Any) -> None:
    x = drawn(ops.inplace_normal, dtype, 2.0, 3.0, 11, 0)
    about(x.mean(), 2, 3)
    about(((x - 2) ** 2).mean(), 9, 9 * 2**0.5)
    about((x < 2 + 3 * 1.2816).mean(), 0.9, 0.3)
    assert drawn(ops.inplace_normal, dtype, 2.0, 0.0, 11, 0).tolist() == [2.0] * MANY


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("limits", [(0.0, 1.0), (-3.0, 5.0)])
def test_uniform(dtype: Any, limits: tuple[float, float]) -> None:
    start, end = limits
    x = drawn(ops.inplace_uniform, dtype, start, end, 7, 9)
    assert start <= x.min() and x.max() < end
    about(x.mean(), (start + end) / 2, (end - start) / 12**0.5)
    about((x < start + (end - start) / 4).mean(), 0.25, 0.44)
    assert set(drawn(ops.inplace_uniform, dtype, 1.5, 1.5, 7, 9)) == {1.5}


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.int64)], ids=str)
def test_random_integers(dtype: Any) -> None:
    x = drawn(ops.inplace_random, dtype, -3, 4, 1, 2)
    assert set(x) == {-3, -2, -1, 0, 1, 2, 3}
    about(x.mean(), 0, 2)
    most = {"int8": 127, "int32": 2**31 - 1, "int64": 2.0**63, "float16": 2**11, "bfloat16": 2**8}.get(
        dtype.name, 2**24
    )
    y = drawn(ops.inplace_random_without_from_to, dtype, 1, 2)
    assert y.min() >= 0 and 0.98 * most < y.max() <= most
    about(y.mean() / most, 0.5, 12**-0.5)


def test_rounding_does_not_reach_the_end() -> None:
    assert drawn(ops.inplace_random, np.float16, 0, 4097, 1, 2).max() == 4096
    assert drawn(ops.inplace_random, BF16, 1000, 1003, 1, 2).max() <= 1002
    assert set(drawn(ops.inplace_random, np.bool_, 0, 2, 1, 2)) == {0, 1}


@pytest.mark.parametrize("prob", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.int32), np.dtype(np.bool_)], ids=str)
def test_bernoulli(prob: float, dtype: Any) -> None:
    x = np.zeros((4, MANY // 4), dtype)
    y = ops.bernoulli(x, prob, 5, 0).astype(np.float64)
    assert set(y.ravel()) <= {0, 1}
    about(y.mean(), prob, (prob * (1 - prob)) ** 0.5)
    ops.inplace_bernoulli(x, prob, 5, 0)
    assert (x == y).all()


def test_bernoulli_with_a_probability_for_each() -> None:
    x = np.zeros((MANY, 3), np.float32)
    y = ops.bernoulli_tensor(x, np.float32([0, 0.5, 1]), 5, 0)
    assert not y[:, 0].any() and y[:, 2].all()
    about(y[:, 1].mean(), 0.5, 0.5)
    ops.inplace_bernoulli_tensor(x, np.float32([[1.0]]), 5, 0)
    assert x.all()
    with pytest.raises(AclError, match=r"prob has shape \(2,\), which does not broadcast"):
        ops.bernoulli_tensor(x, np.float32([0, 1]), 5, 0)


def test_stateless_bernoulli() -> None:
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        y = ops.stateless_bernoulli([MANY], np.float32([0.25]), [1], [2], int(aclnn.DataType.INT8))
    assert y.dtype == np.int8 and set(y) == {0, 1}
    about(y.mean(), 0.25, 0.44)


# ------------------------------------------------------------------------------------------------- dropout


def bits(mask: Any, count: int) -> Any:
    return np.unpackbits(mask, bitorder="little")[:count].astype(bool)


@pytest.mark.parametrize("prob", [0.0, 0.25, 0.9, 1.0])
def test_gen_mask(prob: float) -> None:
    mask = ops.dropout_gen_mask([100, MANY // 100], prob, 3, 4)
    assert mask.dtype == np.uint8 and mask.size % 16 == 0 and mask.size * 8 >= MANY
    about(bits(mask, MANY).mean(), 1 - prob, (prob * (1 - prob)) ** 0.5)
    assert (ops.dropout_gen_mask_v2([MANY], prob, 3, 4, aclnn.DataType.FLOAT) == mask).all()
    seed, offset = np.array([3], np.int64), np.array([3], np.int64)
    on_device = ops.dropout_gen_mask_v2_tensor([MANY], prob, seed, offset, 1, aclnn.DataType.FLOAT)
    assert (on_device == mask).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_do_mask(dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 50)).astype(dtype)
    x[0, 0] = np.nan
    mask = ops.dropout_gen_mask([3, 50], 0.5, 3, 4)
    kept = bits(mask, 150).reshape(3, 50)
    doubled = np.where(kept, x.astype(np.float32) * 2, np.float32(0)).astype(dtype)
    np.testing.assert_array_equal(ops.dropout_do_mask(x, mask, 0.5).astype(np.float32), doubled.astype(np.float32))
    np.testing.assert_array_equal(ops.dropout_backward(x, mask, 2.0).astype(np.float32), doubled.astype(np.float32))
    np.testing.assert_array_equal(ops.dropout_do_mask(x, mask, 0.0).astype(np.float32), x.astype(np.float32))
    assert not ops.dropout_do_mask(x, mask, 1.0).any() and not ops.dropout_backward(x, mask, 0.0).any()
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        result = ops.dropout_v3_grad(x, mask, 2.0).astype(np.float32)
    np.testing.assert_array_equal(result[1:], doubled[1:].astype(np.float32))
    assert np.isnan(result[0, 0])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dropout(dtype: Any) -> None:
    x = np.ones((2, 1000), dtype)
    out, mask = ops.dropout(x, 0.2, True, 8, 0)
    kept = bits(mask, 2000).reshape(2, 1000)
    np.testing.assert_array_equal(out.astype(np.float32), np.where(kept, 1.25, 0).astype(np.float32))
    assert (ops.dropout_gen_mask([2000], 0.2, 8, 0) == mask).all()
    assert (ops.dropout(x, 0.2, False, 8, 0)[0] == x).all()
    assert not ops.dropout(x, 1.0, True, 8, 0)[0].any()
    again, other_mask = ops.dropout_v3(x, None, 0.2, 8, 0)
    kept = bits(other_mask, 2000).reshape(2, 1000)
    np.testing.assert_array_equal(again.astype(np.float32), np.where(kept, 1.25, 0).astype(dtype).astype(np.float32))
    assert abs(kept.mean() - 0.8) < 0.05 and not np.unpackbits(other_mask, bitorder="little")[2000:].any()
    assert ops.dropout_v3(x, None, 0.0, 8, 0)[1][:250].min() == 255


def test_dropout_zeroes_the_mask_where_nothing_is_random() -> None:
    """CANN leaves it unwritten."""
    mask = np.full(16, 0x5A, np.uint8)
    ops.dropout(np.ones(9, np.float32), 0.5, False, 8, 0, out=(np.empty(9, np.float32), mask))
    assert not mask.any()


# ------------------------------------------------------------------------------------------------- others


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.float64)], ids=str)
def test_normals(dtype: Any) -> None:
    wide = np.empty((MANY, 2), dtype)
    x = ops.normal_float_float(1.0, 2.0, 3, 4, out=wide).astype(np.float64)
    about(x.mean(), 1, 2)
    means, deviations = np.array([0, 10], dtype), np.array([[1], [0]] * 5, dtype)
    y = ops.normal_tensor_tensor(means, deviations, 3, 4).astype(np.float64)
    assert y.shape == (10, 2) and (y[1::2] == [0, 10]).all() and (y[::2] != [0, 10]).any()
    z = ops.normal_tensor_float(means, 0.5, 3, 4, out=np.empty((MANY, 2), dtype)).astype(np.float64)
    about(z[:, 1].mean(), 10, 0.5)
    assert (ops.normal_float_tensor(7.0, np.zeros(5, dtype), 3, 4) == 7).all()


def test_exponential() -> None:
    x = drawn(ops.sim_thread_exponential, np.float32, MANY, 4.0, 3, 4)
    assert x.min() >= 0
    about(x.mean(), 0.25, 0.25)
    about((x < 0.25).mean(), 1 - np.exp(-1), 0.5)


@pytest.mark.parametrize("dtype", [np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.float32)], ids=str)
def test_randperm(dtype: Any) -> None:
    x = ops.randperm(1000, 1, 2, out=np.empty(1000, dtype))
    assert sorted(x.tolist()) == list(range(1000)) and x.tolist() != list(range(1000))
    assert ops.randperm(0, 1, 2).shape == (0,)
    assert ops.randperm(5, 1, 2).dtype == np.int64


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_multinomial(dtype: Any) -> None:
    weights = np.array([[0, 1, 3, 0], [2, 0, 0, 2]], dtype)
    x = ops.multinomial(weights, MANY, True, 1, 2)
    assert x.shape == (2, MANY) and x.dtype == np.int64
    assert set(x[0]) == {1, 2} and set(x[1]) == {0, 3}
    about((x[0] == 2).mean(), 0.75, 0.44)
    about((x[1] == 3).mean(), 0.5, 0.5)
    seeds = np.array([1], np.int64), np.array([1], np.int64)
    assert (ops.multinomial_tensor(weights, MANY, True, *seeds, 1) == x).all()


def test_multinomial_without_replacement() -> None:
    weights = np.tile(np.float32([1, 2, 5, 0]), (MANY, 1))
    x = ops.multinomial(weights, 3, False, 1, 2)
    assert (np.sort(x, -1) == [0, 1, 2]).all()
    about((x[:, 0] == 2).mean(), 5 / 8, 0.5)
    for bad in ([0, 0], [1, -1], [1, np.nan]):
        with pytest.raises(AclError, match="weights that are negative or not finite, or a row of zeros"):
            ops.multinomial(np.float32(bad), 1, True, 1, 2)
