"""References of ops-nn/foreach through the public functions, tensor by tensor against torch in float64."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from ascend_aclnn import Scalar, catalog, ops, reference, use_backend

torch = pytest.importorskip("torch", reason="torch is the oracle of lists of tensors; without it they are not tested")
from torch_tools import FLOATS, check, oracle, sample  # noqa: E402 (it imports torch)

SHAPES: list[tuple[int, ...]] = [(3, 4), (5,), (), (2, 0), (1,)]
INT32 = np.dtype(np.int32)


def lists(dtype: Any = np.float32, low: float = 0.25, high: float = 0.95, seed: int = 0) -> list[np.ndarray]:
    """Tensors of several shapes, one of them empty."""
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(low, high, shape)).astype(dtype) for shape in SHAPES]


def integers(dtype: Any = np.int32, low: int = -5, high: int = 6, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.integers(low, high, shape)).astype(dtype) for shape in SHAPES]


def check_lists(actual: Any, function: Callable[..., Any], *given: list[Any], slack: float = 2.0) -> None:
    """A function of torch tensors, applied to the tensors of each place in the lists."""
    assert len(actual) == len(given[0])
    for got, *values in zip(actual, *given):
        wanted = oracle(function, *values)
        assert got.shape == values[0].shape and got.dtype == values[0].dtype
        check(got, wanted, slack)


def of_each(value: Any) -> list[Any]:
    return [value] * len(SHAPES)


def as_tensor(value: Any, dtype: Any = np.float32) -> np.ndarray:
    return np.array([value], dtype)


def direct(name: str) -> Any:
    """The function of an operator that only Ascend 950 has, which the public functions refuse by default."""
    found = reference.find(catalog.get(f"aclnnForeach{name}"))
    assert found is not None
    return found.function


UNARY = "abs acos asin atan cos cosh erf erfc exp expm1 log log10 log1p log2 neg reciprocal sigmoid sign sin sinh sqrt tan tanh"


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY.split())
def test_unary(name: str, dtype: Any) -> None:
    x = lists(dtype)
    check_lists(getattr(ops, f"foreach_{name}")(x), getattr(torch, name), x)


def test_integers() -> None:
    x = [np.array([-128, -1, 0, 1, 3], np.int8)]
    np.testing.assert_array_equal(ops.foreach_neg(x)[0], [-128, 1, 0, -1, -3])
    np.testing.assert_array_equal(ops.foreach_sign(x)[0], [-1, -1, 0, 1, 1])
    np.testing.assert_array_equal(ops.foreach_exp(x)[0], [0, 0, 1, 3, 20])
    np.testing.assert_array_equal(ops.foreach_add_scalar_v2(x, 127)[0], [-1, 126, 127, -128, -126])
    np.testing.assert_array_equal(ops.foreach_neg([np.array([1], np.uint8)])[0], [255])


def test_in_place() -> None:
    x, y = lists(), lists(seed=1)
    wanted = [a + 0.5 * b for a, b in zip(x, y)]
    result = direct("AddListInplace")(x, y, as_tensor(0.5))
    for got, expected in zip(result, wanted):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    zeroed = ops.foreach_zero_inplace(x)
    assert all(a is b for a, b in zip(zeroed, x)) and not any(a.any() for a in x)


def test_copy() -> None:
    x = lists()
    out = [np.empty(a.shape, np.float16) for a in x]
    result = ops.foreach_copy(x, out=out)
    for a, b, c in zip(x, out, result):
        assert b is c
        np.testing.assert_array_equal(a.astype(np.float16), b)
    np.testing.assert_array_equal(ops.foreach_copy([np.array([True, False])])[0], [True, False])


BINARY = {"div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum, "mul": torch.mul, "pow": torch.pow}


@pytest.mark.parametrize("dtype", [*FLOATS, INT32], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_two_lists(name: str, dtype: Any) -> None:
    if dtype == INT32 and name == "div":
        return
    x, y = (integers(), integers(low=0, seed=1)) if dtype == INT32 else (lists(dtype), lists(dtype, seed=1))
    check_lists(getattr(ops, f"foreach_{name}_list")(x, y), BINARY[name], x, y)


@pytest.mark.parametrize("dtype", [*FLOATS, INT32], ids=str)
def test_scaled_lists(dtype: Any) -> None:
    whole = dtype == INT32
    x, y = (integers(), integers(seed=1)) if whole else (lists(dtype), lists(dtype, seed=1))
    alpha = 3 if whole else 0.75
    number = as_tensor(alpha, np.int32 if whole else np.float16 if dtype == np.float16 else np.float32)
    for name, function in (("add", torch.add), ("sub", torch.sub)):

        def scaled(a: Any, b: Any, f: Any = function) -> Any:
            return f(a, b, alpha=alpha)

        v2 = getattr(ops, f"foreach_{name}_list_v2")(x, y, alpha)
        check_lists(v2, scaled, x, y)
        for a, b in zip(v2, getattr(ops, f"foreach_{name}_list")(x, y, number)):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_lerp(dtype: Any) -> None:
    x, y, w = lists(dtype), lists(dtype, seed=1), lists(dtype, seed=2)
    check_lists(ops.foreach_lerp_list(x, y, w), torch.lerp, x, y, w)
    check_lists(ops.foreach_lerp_scalar(x, y, 0.75), lambda a, b: torch.lerp(a, b, 0.75), x, y)


def test_addcmul_of_lists_rounds_products_of_halves() -> None:
    """The kernel's steps on FLOAT16: Mul as it is, then Axpy. 3 * 1365 takes 12 bits."""
    x, a, b = (np.array([v], np.float16) for v in (-4096, 3, 1365))
    rounded = np.float16(3 * 1365)
    assert float(rounded) == 4096
    assert ops.foreach_addcmul_list([x], [a], [b], np.array([1], np.float16))[0].tolist() == [0]
    assert ops.foreach_addcmul_scalar_v2([x], [a], [b], 1.0)[0].tolist() == [-1]
    wide = [v.astype(np.float32) for v in (x, a, b)]
    assert ops.foreach_addcmul_list(*([v] for v in wide), np.array([1], np.float32))[0].tolist() == [-1]
    with use_backend("numpy", soc="Ascend950PR_9599"):  # its kernel works in float32
        assert ops.foreach_addcmul_list([x], [a], [b], np.array([1], np.float16))[0].tolist() == [-1]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["addcdiv", "addcmul"])
def test_fused(name: str, dtype: Any) -> None:
    given = [lists(dtype, seed=seed) for seed in range(3)]
    factors = [0.5, -1.0, 2.0, 3.0, 0.25]

    def fused(a: Any, b: Any, c: Any, value: Any) -> Any:
        return getattr(torch, name)(a, b, c, value=float(value))

    half = dtype == np.float16
    check_lists(getattr(ops, f"foreach_{name}_scalar_v2")(*given, 0.75), fused, *given, of_each(0.75))
    number = as_tensor(0.75, np.float16 if half else np.float32)
    check_lists(getattr(ops, f"foreach_{name}_scalar")(*given, number), fused, *given, of_each(0.75))
    each = np.array(factors).astype(dtype)
    for form in ("list", "scalar_list"):
        check_lists(getattr(ops, f"foreach_{name}_{form}")(*given, each), fused, *given, factors)


def test_fused_integers() -> None:
    given = [integers(seed=seed) for seed in range(3)]
    check_lists(ops.foreach_addcmul_scalar_v2(*given, -2), lambda a, b, c: a - 2 * b * c, *given)


SCALAR = {**BINARY, "add": torch.add, "sub": torch.sub}


@pytest.mark.parametrize("dtype", [*FLOATS, INT32], ids=str)
@pytest.mark.parametrize("name", SCALAR)
def test_scalars(name: str, dtype: Any) -> None:
    whole, half = dtype == INT32, dtype == np.float16
    if whole and name == "div":
        return
    x = integers() if whole else lists(dtype)

    def with_scalar(a: Any, value: Any) -> Any:
        return SCALAR[name](a, torch.tensor(value).to(a.dtype))

    value: Any = 2 if whole else 0.75
    check_lists(getattr(ops, f"foreach_{name}_scalar_v2")(x, Scalar(value)), with_scalar, x, of_each(value))
    number = as_tensor(value, np.int32 if whole else np.float16 if half else np.float32)
    check_lists(getattr(ops, f"foreach_{name}_scalar")(x, number), with_scalar, x, of_each(value))
    values: Any = [1, 2, 3, 0, 2] if whole else [0.5, 2.0, 3.0, 1.0, 4.0]
    check_lists(getattr(ops, f"foreach_{name}_scalar_list")(x, values), with_scalar, x, values)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_lists_of_numbers_beside_large_tensors(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = [rng.uniform(0.5, 2, shape).astype(dtype) for shape in ((300, 500), (3,), (150_000,))]
    values = [0.75, 3.0, 1.5]
    wanted = [np.true_divide(a.astype(np.float32), np.float32(v)).astype(dtype) for a, v in zip(x, values)]
    result = ops.foreach_div_scalar_list(x, values)
    assert [got.tobytes() for got in result] == [a.tobytes() for a in wanted]
    assert ops.foreach_div_scalar_list(x, values, out=x)[0] is x[0]  # in place
    assert [a.tobytes() for a in x] == [a.tobytes() for a in wanted]


def test_pow_scalar_and_tensor() -> None:
    x = lists()
    check_lists(ops.foreach_pow_scalar_and_tensor(1.5, x), lambda a: torch.pow(1.5, a), x)


ROUNDED = {
    1: [-2, -2, -1, 0, 2, 2, 3],
    2: [-3, -2, -1, 0, 1, 2, 3],
    3: [-2, -1, 0, 1, 2, 3, 3],
    4: [-3, -2, -1, 1, 2, 3, 3],
    5: [-2, -1, 0, 0, 1, 2, 3],
    6: [-3, -1, -1, 1, 1, 3, 3],
    7: [-0.5, -0.5, -0.75, 0.5, 0.5, 0.5, 0],
    0: [-2.5, -1.5, -0.75, 0.5, 1.5, 2.5, 3],
}


@pytest.mark.parametrize("mode", ROUNDED)
def test_round_off_number(mode: int) -> None:
    x = np.array(ROUNDED[0])
    for dtype in FLOATS:
        result = ops.foreach_round_off_number_v2([x.astype(dtype)], mode)[0]
        np.testing.assert_array_equal(result.astype(np.float64), ROUNDED[mode])
    narrow = ops.foreach_round_off_number([x.astype(np.float32)], np.array([mode], np.int8))[0]
    np.testing.assert_array_equal(narrow, ROUNDED[mode])
    whole = ops.foreach_round_off_number([np.array([5], np.int16)], np.array([mode], np.int8))[0]
    assert whole == (0 if mode == 7 else 5)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("order", [1, 2, 3.0, np.inf])
def test_norm(order: float, dtype: Any) -> None:
    x = [sample(dtype, special=False).reshape(20, 15), np.ones((), dtype), np.empty((0,), dtype)]
    result = ops.foreach_norm(x, order)
    wanted = [np.linalg.norm(x[0].astype(np.float64).ravel(), order), 1, 0]
    for got, expected in zip(result, wanted):
        assert got.shape == () and got.dtype == dtype
        check(got, np.asarray(expected))
    out = [np.empty(1, dtype) for _ in x]
    assert ops.foreach_norm(x, order, out=out)[0] is out[0]
    assert [o.item() for o in out] == [r.item() for r in result]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_norm_of_a_large_tensor(dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal((400, 300)).astype(dtype)
    squares = np.square(x.astype(np.float64))
    wanted = np.sqrt(np.add.reduce(squares.reshape(-1)))
    got, transposed = ops.foreach_norm([x, x.T], 2.0)
    assert got == wanted.astype(np.float32).astype(dtype)
    check(transposed, np.asarray(wanted))


@pytest.mark.parametrize("bad", [None, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_non_finite_check_and_unscale(dtype: Any, bad: Any) -> None:
    grads = lists(dtype)
    if bad is not None:
        grads[1][2] = bad
    wanted = [a.astype(np.float32) * 0.125 for a in grads]
    for before in (0.0, 1.0):
        found, copies = as_tensor(before), [a.copy() for a in grads]
        result = ops.foreach_non_finite_check_and_unscale(copies, found, as_tensor(0.125))
        assert result[0][0] is copies[0] and result[1] is found
        assert found == (1 if bad is not None else before)
        for got, expected in zip(copies, wanted):
            np.testing.assert_array_equal(got.astype(np.float32), expected.astype(dtype).astype(np.float32))


def test_binary_op() -> None:
    operator = direct("BinaryOp")
    x, y = lists(), lists(seed=1)
    for code, function in enumerate((torch.add, torch.sub, torch.mul, torch.div)):
        check_lists(operator(x, y, code), function, x, y)
    a, b = [np.array([7, -7, 7, 3], np.int32)], [np.array([2, 2, -2, 0], np.int32)]
    np.testing.assert_array_equal(operator(a, b, 3)[0], [3, -3, -3, 0])
