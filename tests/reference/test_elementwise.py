"""References of the elementwise operators of ops-math/math through the public functions, against torch in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_aclnn import ops

torch = pytest.importorskip(
    "torch", reason="torch is the oracle of elementwise functions; without it they are not tested"
)

from torch_tools import BF16, FLOATS, SPECIAL, check, oracle, sample  # noqa: E402 (it imports torch)

UNARY: dict[str, tuple[Any, float, float]] = {
    "acos": (torch.acos, -1, 1),
    "acosh": (torch.acosh, 1, 9),
    "asin": (torch.asin, -1, 1),
    "asinh": (torch.asinh, -9, 9),
    "atan": (torch.atan, -9, 9),
    "atanh": (torch.atanh, -1, 1),
    "cos": (torch.cos, -9, 9),
    "cosh": (torch.cosh, -5, 5),
    "erf": (torch.erf, -4, 4),
    "erfc": (torch.erfc, -4, 6),
    "exp": (torch.exp, -9, 9),
    "exp2": (torch.exp2, -9, 9),
    "expm1": (torch.expm1, -2, 2),
    "log": (torch.log, 0, 9),
    "log10": (torch.log10, 0, 9),
    "log1p": (torch.log1p, -1, 9),
    "log2": (torch.log2, 0, 9),
    "reciprocal": (torch.reciprocal, -3, 3),
    "rsqrt": (torch.rsqrt, 0, 9),
    "sin": (torch.sin, -9, 9),
    "sinc": (torch.sinc, -3, 3),
    "sinh": (torch.sinh, -5, 5),
    "sqrt": (torch.sqrt, 0, 9),
    "tan": (torch.tan, -1, 1),
    "tanh": (torch.tanh, -4, 4),
    "abs": (torch.abs, -4, 4),
    "ceil": (torch.ceil, -4, 4),
    "floor": (torch.floor, -4, 4),
    "frac": (torch.frac, -4, 4),
    "neg": (torch.neg, -4, 4),
    "round": (torch.round, -4, 4),
    "trunc": (torch.trunc, -4, 4),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: Any) -> None:
    function, low, high = UNARY[name]
    x = sample(dtype, low, high)
    result = getattr(ops, name)(x)
    assert result.dtype == dtype
    check(result, oracle(function, x))
    assert getattr(ops, name)(x[:0]).shape == (0,)
    assert getattr(ops, name)(x[3:4].reshape(())).shape == ()


@pytest.mark.parametrize("name", ["acos", "exp", "sin", "sqrt", "log", "tanh", "rsqrt", "sinc", "erf", "reciprocal"])
def test_integers_are_computed_in_float32(name: str) -> None:
    """NumPy alone would compute small integers and booleans in half precision."""
    kinds = [bool, np.int64] if name in ("exp", "erf") else [bool, np.int8, np.uint8, np.int32]
    for kind in kinds:
        x = np.array([0, 1, 1, 0], kind)
        result = getattr(ops, name)(x)
        assert result.dtype == np.float32
        check(result, oracle(UNARY[name][0], x.astype(np.float64)))


@pytest.mark.parametrize("name", ["exp", "sin", "sqrt", "acosh", "reciprocal"])
def test_complex(name: str) -> None:
    rng = np.random.default_rng(2)
    x = (rng.standard_normal(50) + 1j * rng.standard_normal(50)).astype(np.complex64)
    check(getattr(ops, name)(x), oracle(UNARY[name][0], x), 10)


@pytest.mark.parametrize(
    ("name", "function"),
    [("erf", torch.erf), ("erfc", torch.erfc), ("lgamma", torch.lgamma), ("digamma", torch.digamma)],
)
def test_special_functions_in_double(name: str, function: Any) -> None:
    x = np.concatenate([np.linspace(-9.7, 30, 2001), SPECIAL, [-2.0, 27.0, 28.0, 1e-300, 1e10]])
    actual, expected = getattr(ops, name)(x), oracle(function, x)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(actual), np.isinf(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(actual[finite], expected[finite], rtol=1e-11, atol=1e-13)


def test_inplace_writes_the_argument() -> None:
    x = sample(np.float32, 0.1, 3, special=False)
    wanted = np.exp(x)
    assert ops.inplace_exp(x) is x
    np.testing.assert_allclose(x, wanted, rtol=1e-6)


@pytest.mark.parametrize("stride", [2, -1, -3])
def test_inplace_writes_strided_arrays(stride: int) -> None:
    whole = np.arange(300, dtype=np.float32)
    wanted = whole.copy()
    wanted[::stride] = -wanted[::stride]
    view = whole[::stride]
    assert ops.inplace_neg(view) is view
    np.testing.assert_array_equal(whole, wanted)


def test_exact_functions() -> None:
    x = sample(np.float32)
    np.testing.assert_array_equal(ops.is_finite(x), np.isfinite(x))
    np.testing.assert_array_equal(ops.is_neg_inf(x), x == -np.inf)
    np.testing.assert_array_equal(ops.is_pos_inf(x), x == np.inf)
    np.testing.assert_array_equal(ops.is_inf(x), np.isinf(x))
    np.testing.assert_array_equal(ops.signbit(x, out=np.empty(x.shape, bool)), oracle(torch.signbit, x))
    np.testing.assert_array_equal(ops.sign(x), oracle(torch.sign, x))
    np.testing.assert_array_equal(ops.logical_not(x), oracle(torch.logical_not, x))
    np.testing.assert_array_equal(ops.angle_v2(x), oracle(torch.angle, x).astype(np.float32))
    np.testing.assert_array_equal(ops.bitwise_not(np.array([0, -5, 7], np.int8)), [-1, 4, -8])
    np.testing.assert_array_equal(ops.bitwise_not(np.array([True, False])), [False, True])
    np.testing.assert_array_equal(ops.is_neg_inf(np.array([1, 2], np.int32)), [False, False])
    np.testing.assert_array_equal(ops.inplace_zero(x.copy()), np.zeros_like(x))
    np.testing.assert_array_equal(ops.inplace_one(np.zeros(3, np.int8)), np.ones(3, np.int8))
    z = np.array([3 + 4j, 0, -1j], np.complex64)
    np.testing.assert_allclose(ops.sign(z), [0.6 + 0.8j, 0, -1j], rtol=1e-6)
    np.testing.assert_allclose(ops.abs(z), [5, 0, 1], rtol=1e-6)
    np.testing.assert_allclose(ops.real(z), [3, 0, 0])
    np.testing.assert_allclose(ops.angle_v2(z), np.angle(z), rtol=1e-6)


def test_round_decimals() -> None:
    x = np.array([0.125, 2.5, -1.005, 1234.5678], np.float32)
    check(ops.round_decimals(x, 2), oracle(lambda t: torch.round(t, decimals=2), x))
    check(ops.round_decimals(x, -2), oracle(lambda t: torch.round(t, decimals=-2), x))
    np.testing.assert_array_equal(ops.round_decimals(np.array([15, 149, 150], np.int32), -2), [0, 100, 200])


def test_nan_to_num() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 2], np.float16)
    np.testing.assert_array_equal(ops.nan_to_num(x, 1.0, 5.0, -5.0), np.array([1, 5, -5, 2], np.float16))


CASTS = [np.float32, np.float16, BF16, np.int8, np.uint8, np.int32, np.int64, np.bool_, np.float64]


@pytest.mark.parametrize("source", CASTS, ids=str)
@pytest.mark.parametrize("target", CASTS, ids=str)
def test_cast(source: Any, target: Any) -> None:
    from ascend_aclnn.core.dtypes import as_datatype

    values = [0, 1, 2.5, 3.75, 100] + ([] if np.dtype(source).kind in "ub" else [-1, -2.5])
    if (source, target) == (np.float64, np.uint8):
        values = values[:5]  # the document promises no more than non-negative numbers
    x = np.array(values).astype(source)
    actual = ops.cast(x, int(as_datatype(target)))
    wide = x.astype(np.float64)
    if np.dtype(target).kind == "b":
        wide = wide != 0
    elif np.dtype(target).kind in "iu":
        wide = np.trunc(wide)
        wide = wide.astype(np.int64)  # then the low bits
    np.testing.assert_array_equal(actual.astype(np.float64), wide.astype(target).astype(np.float64))


@pytest.mark.parametrize("target", [torch.int8, torch.uint8, torch.int16], ids=str)
def test_floats_out_of_range_of_narrow_integers_wrap_around(target: Any) -> None:
    from ascend_aclnn.core.dtypes import as_datatype

    x = np.array([127.5, 128, 255, 256, 300, -129, -300, 32768, 40000.7, -70000, 1e9], np.float32)
    wanted = torch.from_numpy(x).to(torch.int64).to(target).numpy()
    np.testing.assert_array_equal(ops.cast(x, int(as_datatype(wanted.dtype))), wanted)


def test_floats_beyond_the_widest_integers_saturate_and_nan_is_0() -> None:
    from ascend_aclnn.core.dtypes import DataType

    x = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30], np.float32)
    limits = np.iinfo(np.int64)
    assert ops.cast(x, DataType.INT64).tolist() == [limits.max, limits.min, 0, limits.max, limits.min]
    assert ops.cast(x.astype(np.float64), DataType.INT32).tolist() == [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31)]
    assert ops.cast(x, DataType.INT8).tolist() == [-1, 0, 0, -1, 0]  # the low bits of saturated INT32
    assert ops.cast(x, DataType.UINT8).tolist() == [255, 0, 0, 255, 0]


# ------------------------------------------------------------------------------------------------------ two operands

BINARY: dict[str, Any] = {
    "mul": torch.mul,
    "div": torch.div,
    "floor_divide": torch.floor_divide,
    "fmod_tensor": torch.fmod,
    "remainder_tensor_tensor": torch.remainder,
    "pow_tensor_tensor": torch.pow,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "atan2": torch.atan2,
    "log_add_exp": torch.logaddexp,
    "log_add_exp2": torch.logaddexp2,
    "x_log_y_tensor": torch.xlogy,
    "eq_tensor": torch.eq,
    "ne_tensor": torch.ne,
    "lt_tensor": torch.lt,
    "le_tensor": torch.le,
    "gt_tensor": torch.gt,
    "ge_tensor": torch.ge,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: Any) -> None:
    x = sample(dtype).reshape(1, 300)
    y = np.concatenate([sample(dtype, n=4, special=False), np.array(SPECIAL).astype(dtype)]).reshape(11, 1)
    if name == "pow_tensor_tensor":
        x, y = np.abs(x), np.clip(y, -3, 3)
    with np.errstate(all="ignore"):
        check(getattr(ops, name)(x, y), oracle(BINARY[name], x, y), 3)
    assert getattr(ops, name)(x[:, :0], y).shape == (11, 0)


INTEGER_BINARY: dict[str, Any] = {
    "mul": torch.mul,
    "floor_divide": torch.floor_divide,
    "fmod_tensor": torch.fmod,
    "remainder_tensor_tensor": torch.remainder,
    "maximum": torch.maximum,
    "bitwise_and_tensor": torch.bitwise_and,
    "bitwise_or_tensor": torch.bitwise_or,
    "bitwise_xor_tensor": torch.bitwise_xor,
    "gcd": torch.gcd,
    "lt_tensor": torch.lt,
}


@pytest.mark.parametrize("kinds", [(np.int32, np.int32), (np.int32, np.int64), (np.int64, np.int64)], ids=str)
@pytest.mark.parametrize("name", INTEGER_BINARY)
def test_integers(name: str, kinds: tuple[Any, Any]) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-100, 100, (20, 1)).astype(kinds[0])
    y = rng.integers(1, 20, 30).astype(kinds[1]) * np.array([1, -1] * 15, kinds[1])
    check(getattr(ops, name)(x, y), oracle(INTEGER_BINARY[name], x, y))


def test_sums_and_factors() -> None:
    x, y = sample(np.float32), sample(np.float32, 1, 2, special=False)
    check(ops.add(x, y, 2), oracle(lambda a, b: torch.add(a, b, alpha=2), x, y))
    check(ops.sub(x, y, 0.5), oracle(lambda a, b: torch.sub(a, b, alpha=0.5), x, y))
    check(ops.rsub(x, y, 3), oracle(lambda a, b: torch.rsub(a, b, alpha=3), x, y))
    check(ops.adds(x, 2.5, 2), oracle(lambda a: torch.add(a, 2.5, alpha=2), x))
    check(ops.subs(x, 2, 1.5), oracle(lambda a: torch.sub(a, 2, alpha=1.5), x))
    check(ops.rsubs(x, 2, 2), oracle(lambda a: torch.rsub(a, 2, alpha=2), x))
    check(ops.muls(x, 1.5), oracle(lambda a: a * 1.5, x))
    check(ops.divs(x, 3), oracle(lambda a: a / 3, x))
    true, false = np.array([True]), np.array([False])
    np.testing.assert_array_equal(ops.add(true, true, True), [True])
    np.testing.assert_array_equal(ops.mul(true, false), [False])


def test_integer_arithmetic_wraps_around() -> None:
    x = np.array([250, 3], np.uint8)
    np.testing.assert_array_equal(ops.adds(x, 10, 1), [4, 13])
    np.testing.assert_array_equal(ops.muls(x, 300), (x.astype(int) * 300 % 256))
    np.testing.assert_array_equal(ops.sub(np.array([-128], np.int8), np.array([1], np.int8), 1), [127])
    big = np.array([2**62], np.int64)
    np.testing.assert_array_equal(ops.add(big, big, 1), [-(2**63)])


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("kind", [np.int32, np.float32, np.int64])
def test_div_mod(mode: int, kind: Any) -> None:
    x = np.arange(-7, 8, dtype=kind).reshape(-1, 1)
    y = np.array([-3, -2, 2, 5], kind)
    how = (None, "trunc", "floor")[mode]
    check(ops.div_mod(x, y, mode), oracle(lambda a, b: torch.div(a, b, rounding_mode=how), x, y))
    check(ops.div_mods(x, 2, mode), oracle(lambda a: torch.div(a, 2, rounding_mode=how), x))


def test_powers_of_integers() -> None:
    x = np.array([-3, -1, 0, 1, 2], np.int32)
    for exponent in (0, 1, 3, 5):
        check(ops.pow_tensor_scalar(x, exponent), oracle(lambda a, e=exponent: torch.pow(a, e), x))
    np.testing.assert_array_equal(ops.pow_tensor_tensor(x, np.array(-1, np.int32)), [0, -1, 0, 1, 0])
    np.testing.assert_array_equal(ops.pow_scalar_tensor(2, np.array([0, 3], np.int32)), [1, 8])
    check(ops.pow_tensor_scalar(x, 0.5), oracle(lambda a: torch.pow(a.double(), 0.5), x))


def test_scalars_beside_tensors() -> None:
    x = sample(np.float32)
    check(ops.fmod_scalar(x, 1.5), oracle(lambda a: torch.fmod(a, 1.5), x))
    check(ops.remainder_tensor_scalar(x, -1.5), oracle(lambda a: torch.remainder(a, -1.5), x))
    y = sample(np.float32, 1, 3, special=False)
    check(ops.remainder_scalar_tensor(7.5, y), oracle(lambda a: torch.remainder(torch.tensor(7.5).double(), a), y))
    check(ops.floor_divides(x, 2), oracle(lambda a: torch.floor_divide(a, 2), x))
    check(ops.x_log_y_scalar_self(2, y), oracle(lambda a: torch.xlogy(2, a), y))
    check(ops.x_log_y_scalar_other(y, 3), oracle(lambda a: torch.xlogy(a, 3), y))
    i = np.array([1, 2, 4], np.int32)
    np.testing.assert_array_equal(ops.bitwise_and_scalar(i, 6), [0, 2, 4])
    np.testing.assert_array_equal(ops.bitwise_xor_scalar(i, 1), [0, 3, 5])


def test_numbers_meet_a_tensor_in_its_own_precision() -> None:
    """A float16 tensor that holds 0.1 equals 0.1; only Gt and Ge compare what float16 made of it."""
    x = np.array([0.1, 0.2], np.float16)
    np.testing.assert_array_equal(ops.eq_scalar(x, 0.1), [True, False])
    np.testing.assert_array_equal(ops.ne_scalar(x, 0.1), [False, True])
    np.testing.assert_array_equal(ops.le_scalar(x, 0.1), [True, False])
    np.testing.assert_array_equal(ops.lt_scalar(x, 0.1), [False, False])
    np.testing.assert_array_equal(ops.ge_scalar(x, 0.1), [False, True])
    np.testing.assert_array_equal(ops.eq_scalar(np.array([1, 2], np.int8), 2), [False, True])


def test_is_close() -> None:
    x = np.array([1.0, 1.0001, np.inf, np.nan, -np.inf], np.float32)
    y = np.array([1.0, 1.0, np.inf, np.nan, np.inf], np.float32)
    for equal_nan in (False, True):
        wanted = oracle(lambda a, b, e=equal_nan: torch.isclose(a, b, 1e-3, 1e-8, e), x, y)
        np.testing.assert_array_equal(ops.is_close(x, y, 1e-3, 1e-8, equal_nan), wanted)


def test_complex_numbers_from_parts() -> None:
    re, im = np.array([1, np.inf], np.float32), np.array([np.inf, 2], np.float32)
    made = ops.complex(re, im)
    np.testing.assert_array_equal(made.real, re)
    np.testing.assert_array_equal(made.imag, im)
    check(ops.polar(np.array([2], np.float32), np.array([0.5], np.float32)), np.array([2 * np.exp(0.5j)]), 3)


def test_shifts() -> None:
    x = np.array([1, -8, 100], np.int32)
    np.testing.assert_array_equal(ops.left_shift(x, np.array([1, 2, 3], np.int32)), [2, -32, 800])
    np.testing.assert_array_equal(ops.right_shift(x, np.array([1, 2, 3], np.int32)), [0, -2, 12])
    np.testing.assert_array_equal(ops.left_shifts(x, 2), [4, -32, 400])


# ------------------------------------------------------------------------------------------------------ three operands


def test_three_operands() -> None:
    x, a = sample(np.float32).reshape(20, 15), sample(np.float32, 1, 2, special=False)[:15]
    b = sample(np.float32, 1, 3, special=False)[:20].reshape(20, 1)
    check(ops.addcmul(x, a, b, 0.5), oracle(lambda x, a, b: torch.addcmul(x, a, b, value=0.5), x, a, b))
    check(ops.addcdiv(x, a, b, 0.5), oracle(lambda x, a, b: torch.addcdiv(x, a, b, value=0.5), x, a, b))
    check(ops.lerp(x, a, b), oracle(torch.lerp, *np.broadcast_arrays(x, a, b)), 4)
    check(ops.lerps(x, a, 0.3), oracle(lambda x, a: torch.lerp(x, a, 0.3), x, a))
    condition = (x > 0).astype(np.uint8)
    check(ops.s_where(condition, x, a), oracle(lambda c, x, a: torch.where(c != 0, x, a), condition, x, a))
    i = np.array([100, 2], np.int8)
    np.testing.assert_array_equal(ops.addcmul(i, i, i, 3), (i.astype(int) + 3 * i.astype(int) ** 2).astype(np.int8))


@pytest.mark.parametrize(
    ("axis", "axes", "blob", "shape"),
    [(1, 1, True, (3,)), (1, -1, True, (3, 4)), (0, 0, True, (1,)), (-2, 0, False, (3,))],
)
def test_scale(axis: int, axes: int, blob: bool, shape: tuple[int, ...]) -> None:
    x = sample(np.float32, special=False)[:24].reshape(2, 3, 4)
    factor = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    wide = factor.reshape(shape + (1,) * (3 - axis % 3 - len(shape))) if factor.size > 1 else factor
    np.testing.assert_allclose(ops.scale(x, factor, None, axis, axes, blob), x * wide, rtol=1e-6)
    np.testing.assert_allclose(ops.scale(x, factor, factor, axis, axes, blob), x * wide + wide, rtol=1e-6)


@pytest.mark.parametrize(
    ("inf", "tracker", "scale", "count"), [(1, 3, 4.0, 0), (0, 2, 8.0, 3), (0, 3, 16.0, 0)], ids=["bad", "calm", "due"]
)
def test_amp_update_scale(inf: float, tracker: int, scale: float, count: int) -> None:
    f, i = (lambda v: np.array([v], np.float32)), (lambda v: np.array([v], np.int32))
    result = ops.amp_update_scale(f(8), i(tracker), f(inf), 2.0, 0.5, 4)
    assert result.updated_scale == scale and result.updated_growth_tracker == count
    kept = ops.amp_update_scale(f(3e38), i(3), f(0), 2.0, 0.5, 4)
    assert kept.updated_scale == np.float32(3e38) and kept.updated_growth_tracker == 0


def test_lists() -> None:
    a, b = sample(np.float32).reshape(20, 15), sample(np.float32, special=False)[:15]
    np.testing.assert_array_equal(ops.sum([a, b, a]), a + b + a)
    np.testing.assert_array_equal(ops.add_n([a, a]), a + a)
    np.testing.assert_array_equal(ops.max_n([a, b]), np.maximum(a, b))
    np.testing.assert_array_equal(ops.min_n([a, b, b]), np.minimum(a, b))
