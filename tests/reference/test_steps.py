"""Formulas in kept memory, without the compiled helper: the bits of the same formula on whole arrays."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
from formulas import DTYPES, ELEMENTWISE, assert_same, bits, check_same, values, without_helper
from row_tools import in_one_test

from ascend_aclnn.core.dtypes import as_datatype
from ascend_aclnn.numerics import programs, round_into, row_maximum, sum_of_squares, sum_over, where
from ascend_aclnn.numerics.blocks import elementwise
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference.math.sorting import cumsum


@pytest.fixture(autouse=True)
def numpy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    without_helper(monkeypatch)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@in_one_test("name", ELEMENTWISE)
def test_elementwise_formulas(name: str, dtype: np.dtype[Any]) -> None:
    shape = (300, 257)
    x, y = values(shape, dtype, 0), values(shape, dtype, 1)
    for out in (np.zeros(shape, dtype), np.zeros((300, 514), dtype)[:, ::2], np.zeros(shape, np.float32)):
        check_same("steps", ELEMENTWISE[name], [x, y], [out])
    check_same("steps", ELEMENTWISE[name], [x, y[:1]], [np.zeros(shape, dtype)])
    check_same("steps", ELEMENTWISE[name], [x[:, ::-1], y.T.copy().T], [np.zeros(shape, dtype)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@in_one_test("name", ELEMENTWISE)
def test_in_place(name: str, dtype: np.dtype[Any]) -> None:
    x, y = values((300, 257), dtype, 0), values((300, 257), dtype, 1)
    wanted = np.zeros_like(x)
    check_same("steps", ELEMENTWISE[name], [x, y], [wanted])
    for place in (0, 1):
        arrays = [x.copy(), y.copy()]
        assert elementwise(ELEMENTWISE[name], arrays, [arrays[place]])
        assert_same(arrays[place], wanted)


CHOICES: dict[str, Callable[..., Any]] = {
    "of arrays": lambda m, x, y: where(m, x, y),
    "of results": lambda m, x, y: where(m, x + 1, y * 2),
    "of one result": lambda m, x, y: where(m, (z := x * 2), z),
    "of 0 and an array": lambda m, x, y: where(m, 0, x),
    "of 0 and a result": lambda m, x, y: where(x > y, 0, x - y),
    "of an array and 0": lambda m, x, y: where(~m, x, 0) + y,
    "of -0 and an array": lambda m, x, y: where(m, -0.0, x),
    "of a number and an array": lambda m, x, y: where(m, 1.5, x),
    "twice": lambda m, x, y: where(m, where(x > 0, x, y), where(x > 0, y, 3)),
    "by a condition that is kept": lambda m, x, y: where(c := x > 0, where(c & m, x, y), y),
    "of what is used again": lambda m, x, y: where(m, (z := x * y), y) + z,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CHOICES)
def test_choices(name: str, dtype: np.dtype[Any]) -> None:
    shape = (300, 257)
    mask = np.random.default_rng(0).random(shape) < 0.5
    x, y = values(shape, dtype, 0), values(shape, dtype, 1)
    check_same("steps", CHOICES[name], [mask, x, y], [np.zeros(shape, dtype)])
    check_same("steps", CHOICES[name], [mask[:, :1], x, y[:1]], [np.zeros(shape, dtype)])
    arrays = [mask, x.copy(), y.copy()]
    wanted = np.zeros_like(x)
    check_same("steps", CHOICES[name], arrays, [wanted])
    assert elementwise(CHOICES[name], arrays, [arrays[1]])
    assert np.array_equal(bits(arrays[1])[~np.isnan(wanted)], bits(wanted)[~np.isnan(wanted)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_several_results(dtype: np.dtype[Any]) -> None:
    shape = (300, 257)
    x, y = values(shape, dtype, 0), values(shape, dtype, 1)
    outputs = [np.zeros(shape, kind) for kind in (dtype, dtype, bool, np.float32, dtype)]
    check_same("steps", lambda x, y: ((z := x + y), z * z, z > 0, z, y), [x, y], outputs)
    check_same(
        "steps", lambda x, y: (np.exp(z := x + y), z), [x, y], [np.zeros(shape, np.float32), np.zeros(shape, dtype)]
    )
    into = [x.copy(), y.copy()]
    assert elementwise(lambda x, y: (x + y, x - y), into, into)
    wanted = [np.zeros(shape, dtype), np.zeros(shape, dtype)]
    check_same("steps", lambda x, y: (x + y, x - y), [x, y], wanted)
    for found, array in zip(into, wanted):
        assert np.array_equal(bits(found)[~np.isnan(array)], bits(array)[~np.isnan(array)])


def _norm(x: Any, weight: Any, s: Any) -> Any:
    mean = (sum_over(x, (-1,), True) / 257).astype(np.float32)
    apart = x - mean
    variance = (sum_of_squares(apart, (-1,), True) / 257).astype(np.float32)
    rstd = 1 / np.sqrt(variance + np.array(1e-5, np.float32))  # an array as a number
    return apart * rstd * weight + s, mean, np.squeeze(rstd, -1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_formulas_along_rows(dtype: np.dtype[Any]) -> None:
    shape = (8, 40, 257)
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    outputs = [np.zeros(shape, dtype), np.zeros((8, 40, 1), np.float32), np.zeros((8, 40), dtype)]
    check_same("steps", _norm, [x, x[0, 0], x[..., :1]], outputs, 1)

    def softmax(x: Any) -> Any:
        e = np.exp(x - row_maximum(x, -1))
        return e / sum_over(e, (-1,), True).astype(x.dtype)

    check_same("steps", softmax, [values(shape, dtype, 0)], [np.zeros(shape, dtype)], 1)
    check_same("steps", softmax, [x[:, ::2]], [np.zeros((8, 80, 257), dtype)[:, ::4]], 1)
    halves = [np.zeros((8, 40, 128), dtype)]
    check_same("steps", lambda x: x[..., :128] * (1 / (1 + np.exp(-x[..., 128:256]))), [x], halves, 1)
    check_same("steps", lambda x: x - np.max(x, (1, 2), keepdims=True), [x], [np.zeros(shape, dtype)], 2)


@pytest.mark.parametrize("shape", [(40, 30, 257), (1201, 70), (33, 2, 4100)])
def test_sums_of_bfloat16_alone(shape: tuple[int, ...]) -> None:
    """It goes to float64 at once, in large blocks and in the small last one, contiguous or not."""
    x = np.random.default_rng(0).standard_normal(shape).astype(DTYPES[2])
    for source in (x, np.repeat(x, 2, 0)[::2]):
        out = np.zeros(shape[:-1], np.float32)
        check_same("steps", lambda x: sum_over(x, (-1,)), [source], [out], 1)
        assert np.array_equal(out, x.astype(np.float64).sum(-1).astype(np.float32))
    check_same("steps", lambda x: (sum_over(x, (-1,)), x * 2), [x], [np.zeros(shape[:-1]), np.zeros_like(x)], 1)


def test_what_cannot_be_traced_runs_as_it_is() -> None:
    x = values((300, 257), DTYPES[1], 0)
    out = np.zeros_like(x)
    assert programs.steps(lambda x: np.asarray(x) * 2, [x], [out]) is None
    assert elementwise(lambda x: np.asarray(x) * 2, [x], [out])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, x * np.float16(2))


@pytest.mark.parametrize("divisor", [0.7, 3.0, 1e-3, 65536.0, 7e33, 1e-45, -0.7, np.inf, 0.0])
def test_remainders_of_one_number(divisor: float) -> None:
    """Multiples of the divisor and what lies beside them, small and large ones, and special values in other blocks."""
    rng = np.random.default_rng(0)
    by = np.float32(divisor)
    with np.errstate(all="ignore"):
        near = rng.integers(-(2**27), 2**27, 1 << 14).astype(np.float32) * by
        small = (rng.standard_normal(1 << 14) * 10.0 ** rng.integers(-6, 6, 1 << 14)).astype(np.float32)
        x = np.concatenate(
            (near, np.nextafter(near, np.float32(0)), small, small * by, values((1 << 14,), DTYPES[0], 0))
        )
        wanted, out = np.remainder(x, by), np.zeros_like(x)
    assert elementwise(lambda x: np.remainder(x, divisor), [x], [out])
    assert np.array_equal(bits(out)[~np.isnan(wanted)], bits(wanted)[~np.isnan(wanted)])
    assert np.array_equal(np.isnan(out), np.isnan(wanted))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "axis"), [((1300, 701), 1), ((1300, 701), 0), ((1030, 255), 1), ((600, 517), -2)])
def test_running_sums(shape: tuple[int, int], axis: int, dtype: np.dtype[Any]) -> None:
    """Blocks of rows and of columns go on from the sums so far."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)).astype(dtype)
    x[0, 0] = x[0, 1] = -0.0
    out, wanted = np.zeros_like(x), np.zeros_like(x)
    cumsum(x, axis, int(as_datatype(dtype)), out=(out,))
    with np.errstate(all="ignore"):
        round_into(wanted, np.add.accumulate(x.astype(np.float64), axis))
    assert np.array_equal(bits(out), bits(wanted))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.int8, np.uint8])
def test_casts_to_integers(kind: Any, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-120, 120, (3, 1 << 18)).astype(dtype)
    x = np.abs(x) if kind is np.uint8 else x
    out = np.zeros(x.shape, kind)
    cast_into(out, x)
    assert np.array_equal(out, np.trunc(x.astype(np.float64)).astype(kind))
    x[1, 5], x[2, 7] = np.nan, -np.inf
    cast_into(out, x)
    least = (
        0 if kind in (np.int8, np.uint8) else np.iinfo(kind).min
    )  # of a narrow type the low bits of a saturated number
    assert out[1, 5] == 0 and out[2, 7] == least
    rest = np.isfinite(x)
    assert np.array_equal(out[rest], np.trunc(x[rest].astype(np.float64)).astype(kind))
