"""Formulas as programs of the compiled helper: NumPy's bits (NaN is NaN) for any formula, data type and layout."""

from __future__ import annotations

import shutil
from typing import Any, Callable

import numpy as np
import pytest
from formulas import DTYPES, ELEMENTWISE, bits, check_same, values
from row_tools import in_one_test

from ascend_aclnn import native, ops
from ascend_aclnn.numerics import (
    BLOCK,
    add_columns,
    add_rows,
    convert,
    programs,
    running_sum,
    sum_of_squares,
    sum_over,
    where,
)
from ascend_aclnn.numerics.blocks import along, elementwise
from ascend_aclnn.numerics.programs import program, trace
from ascend_aclnn.numerics.tracing import Untraceable
from ascend_aclnn.reference._special import normal_distribution
from ascend_aclnn.reference.loss._reduction import block_sums

pytestmark = [
    pytest.mark.skipif(
        not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler to build the helper with"
    ),
    pytest.mark.usefixtures("helper"),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@in_one_test("name", ELEMENTWISE)
def test_elementwise_formulas(name: str, dtype: np.dtype[Any]) -> None:
    shape = (300, 257)
    x, y = values(shape, dtype, 0), values(shape, dtype, 1)
    check_same("program", ELEMENTWISE[name], [x, y], [np.zeros(shape, dtype)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_normal_distribution(dtype: np.dtype[Any]) -> None:
    edges = [0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 14.85, -14.85, 15, -15, 16, -16, 6e4]
    x = np.concatenate([np.linspace(-20, 20, 50_000), edges]).astype(dtype)
    check_same("program", normal_distribution, [x], [np.empty_like(x)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_that_are_conditions_and_several_results(dtype: np.dtype[Any]) -> None:
    shape = (300, 257)
    x, y = values(shape, dtype, 0), values(shape, dtype, 1)
    check_same("program", lambda x, y: x >= y, [x, y], [np.zeros(shape, bool)])
    mask = np.random.default_rng(0).random(shape) < 0.5
    check_same(
        "program",
        lambda m, x, y: (where(m, x, y), ~m & (x != y)),
        [mask, x, y],
        [np.zeros(shape, dtype), np.zeros(shape, bool)],
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["rows", "columns", "number", "transposed", "sliced", "reversed", "blocks"])
def test_layouts(layout: str, dtype: np.dtype[Any]) -> None:
    x = values((400, 300), dtype, 0)
    y = {
        "rows": x[:1],
        "columns": x[:, :1],
        "number": x[:1, :1],
        "transposed": np.ascontiguousarray(x.T).T,
        "sliced": np.repeat(x, 2, 1)[:, ::2],
        "reversed": x[:, ::-1],
        "blocks": np.broadcast_to(x.reshape(20, 20, 300)[:, :1], (20, 20, 300)),
    }[layout]
    x = x.reshape(y.shape if layout == "blocks" else x.shape)
    check_same("program", lambda x, y: np.exp(x * 2 - y) + y, [x, y], [np.zeros(x.shape, dtype)])
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype)
    check_same("program", lambda x, y: x * 2 - y, [x, y], [wide[..., ::2]])
    check_same("program", lambda x, y: x - y, [x, y], [np.zeros(x.shape, dtype)])
    check_same("program", lambda x, y: x - y, [x, y], [wide[..., : x.shape[-1]]])
    check_same("program", lambda x, y: x * 0.3, [x, y], [wide[..., ::2]])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("steps", [1, 3])
def test_in_place(steps: int, dtype: np.dtype[Any]) -> None:
    x, y = values((300, 257), dtype, 0), values((300, 257), dtype, 1)
    formula = {1: lambda x, y: x * y, 3: lambda x, y: np.maximum(x, y) * x + np.exp(y)}[steps]
    wanted = np.zeros_like(x)
    check_same("program", formula, [x, y], [wanted])
    assert elementwise(formula, [x, y], [x])
    assert np.array_equal(bits(x)[~np.isnan(x)], bits(wanted)[~np.isnan(x)])
    assert np.array_equal(np.isnan(x), np.isnan(wanted))


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_every_number_of_16_bits_through_one_operation(dtype: np.dtype[Any]) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    for formula in (np.negative, np.abs, np.rint, np.floor, np.sqrt, np.square, np.reciprocal, lambda x: x + 0.0):
        check_same("program", formula, [x], [np.zeros_like(x)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["add", "product and sum"])
def test_large_results_go_past_the_caches(name: str, dtype: np.dtype[Any]) -> None:
    """At addresses that begin and end within a line of the cache."""
    size = 2_100_001 if dtype.itemsize == 4 else 7_000_003
    x, y = (np.resize(values((5000,), dtype, seed), size + seed)[seed:] for seed in (1, 2))
    check_same("program", ELEMENTWISE[name], [x, y], [np.zeros(size + 3, dtype)[3:]])


def _softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True, initial=-np.inf))
    return e / sum_over(e, (-1,), True).astype(x.dtype)


def _norm(x: Any, weight: Any, eps: float) -> Any:
    mean = (sum_over(x, (-1,), True) / x.shape[-1]).astype(np.float32)
    apart = x - mean
    rstd = 1 / np.sqrt((sum_over(np.square(apart), (-1,), True) / x.shape[-1]).astype(np.float32) + np.float32(eps))
    return apart * rstd * weight, mean, rstd


@pytest.mark.parametrize("width", [64, 127, 1000, 1024, 1025, 5000])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows(width: int, dtype: np.dtype[Any]) -> None:
    shape = (70000 // width + 1, width)
    x = np.random.default_rng(width).standard_normal(shape).astype(dtype)
    x[0], x[1, 3], x[2, 5:9] = 0, np.nan, -np.inf
    check_same("program", _softmax, [x], [np.zeros(shape, dtype)], 1)
    check_same("program", lambda x: sum_over(x, (-1,)), [x], [np.zeros(shape[0], np.float32)], 1)
    weight = values((width,), dtype, 1)
    rows = np.zeros((shape[0], 1), np.float32)
    check_same("program", _norm, [x, weight, 1e-5], [np.zeros(shape, dtype), rows, rows.copy()], 1)
    scale = values((shape[0], 1), np.dtype(np.float32), 1)
    check_same(
        "program",
        lambda x, s: x * s - sum_over(x * s, (-1,), True).astype(np.float32) * x,
        [x, scale],
        [np.zeros(shape, dtype)],
        1,
    )


def _numbers(x: Any, s: Any) -> Any:
    """All that is computed with numbers of rows, in float32 and float64."""
    most, whole = np.max(x, axis=-1, keepdims=True), sum_over(x, (-1,), True)
    single = whole.astype(np.float32)
    finite = np.where(np.isfinite(most), most, np.float32(0))
    first = np.maximum(single, 0.1) / np.sqrt(np.abs(most)) - np.minimum(most, s) * 3
    second = (np.square(whole) + 1 / (whole - 0.1)).astype(np.float32) * np.reciprocal(single)
    third = np.where(single < most, -single, np.where(single >= s, s, np.where(single == most, 0.5, most)))
    return (x - finite) * first + second, third, np.squeeze(whole != 0, -1), np.squeeze(np.log(np.abs(single)) + s, -1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_of_rows(dtype: np.dtype[Any]) -> None:
    rows, width = 900, 65
    x, s = values((rows, width), dtype, 0), values((rows, 1), dtype, 1)
    outputs: list[Any] = [np.zeros((rows, width), dtype), np.zeros((rows, 1), np.float32)]
    check_same("program", _numbers, [x, s], [*outputs, np.zeros(rows, bool), np.zeros(rows, np.float32)], 1)


@pytest.mark.skipif(
    not native.adds_long_rows(), reason="this NumPy adds up long rows in parts, and programs leave them to it"
)
@pytest.mark.parametrize("width", [136, 256, 264, 288, 480, 512, 544, 1032, 8200, 20000, 33333])
def test_long_rows(width: int) -> None:
    """Sums that depend on their order: numbers of many sizes, in rows that NumPy's own sums would cut at 8,192.

    Of the shorter ones some are halves of halves, of equal size or not.
    """
    rng = np.random.default_rng(width)
    shape = (80_000 // width + 2, width)
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-15, 15, shape)).astype(np.float32)
    check_same("program", lambda x: sum_over(x, (-1,)), [x], [np.zeros(shape[0])], 1)
    check_same("program", lambda x: sum_of_squares(x, (-1,), True), [x], [np.zeros((shape[0], 1))], 1)
    check_same("program", _norm, [x, x[0], 1e-5], [np.zeros_like(x), *np.zeros((2, shape[0], 1), np.float32)], 1)


@pytest.mark.parametrize("width", [200, 3000])
def test_several_sums_of_one_phase(width: int) -> None:
    x, y = (values((100_000 // width, width), DTYPES[0], seed)[3:] for seed in (0, 1))
    x, y = np.clip(np.nan_to_num(x), -99, 99), np.clip(np.nan_to_num(y), -99, 99)

    def formula(x: Any, y: Any) -> Any:
        first, second, third = (sum_over(v, (-1,), True).astype(np.float32) for v in (x * y, x - y, y))
        return x * first - y * second + third * np.max(y * 2, axis=-1, keepdims=True)

    check_same("program", formula, [x, y], [np.zeros(x.shape, np.float32)], 1)


def test_halves_of_rows_and_several_axes() -> None:
    x = values((50, 1600), DTYPES[1], 0)
    check_same("program", lambda x: x[..., :800] / (1 + np.exp(-x[..., 800:])), [x], [np.zeros((50, 800), x.dtype)], 1)
    x = x.reshape(50, 40, 40)
    check_same("program", lambda x: x - np.max(x, (1, 2), keepdims=True), [x], [np.zeros(x.shape, x.dtype)], 2)


@pytest.mark.parametrize(
    "formula",
    [
        lambda x: x if x.max() > 0 else -x,
        lambda x: x.astype(np.float64) * 2,
        lambda x: np.where(x > 0, 1, 0),
        lambda x: x[::2],
        lambda x: np.sort(x),
        lambda x: x * np.float64(0.1),
        lambda x: x.T,
        lambda x: x * x.size,
        lambda x: x + np.arange(4),
        lambda x: 1.0,
        lambda x: np.asarray(x) * 2,
        lambda x: list(x),
        lambda x: np.sum(x, -1, np.float64),  # in another order than sum_over
    ],
)
def test_what_is_no_program_is_left_to_numpy(formula: Any) -> None:
    x = np.ones(4, np.float32)
    with pytest.raises((Untraceable, AttributeError, TypeError)):
        trace(formula, [x], [x])
    assert program(formula, [x], [x]) is None


def test_other_data_types_have_no_program() -> None:
    for dtype in (np.int32, np.float64, np.complex64):
        x = np.ones(4, dtype)
        assert program(np.negative, [x], [x]) is None


def test_programs_are_kept_and_told_apart() -> None:
    def formula(x: Any, factor: float) -> Any:
        return x * factor

    x, out = np.ones(4, np.float32), np.empty(4, np.float32)
    first = program(formula, [x, 2.0], [out])
    assert first is not None and program(formula, [x, 2.0], [out]) is first
    assert program(formula, [x, 3.0], [out]) is not first
    assert program(formula, [x, 0.0], [out]) is not program(formula, [x, -0.0], [out])
    for n in range(200):
        program(formula, [x, float(n)], [out])
    assert len(programs._programs[formula]) <= programs._MOST_PROGRAMS


@pytest.mark.parametrize("shape", [(3, 5), (7, 129), (2, 4096), (1, 100_003), (3000, 77), (4100, 2)])
def test_sums_are_the_same_with_the_helper_and_without(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = values(shape, np.dtype(np.float32), 3)
    x[~(np.abs(x) < 1e6)] = 1
    found = [sum_over(x, axes, keep) for axes in ((0,), (1,), (0, 1), None) for keep in (False, True)]
    monkeypatch.setattr(native, "runs_programs", lambda: False)
    wanted = [sum_over(x, axes, keep) for axes in ((0,), (1,), (0, 1), None) for keep in (False, True)]
    for a, b in zip(found, wanted):
        assert a.shape == b.shape and np.array_equal(bits(np.asarray(a)), bits(np.asarray(b)))
    exact = x.astype(np.longdouble).sum(1)
    np.testing.assert_allclose(sum_over(x, (1,)), exact.astype(np.float64), rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("part", [(3, 4), (3, 5), (0, 77), (100, 356), (7, 1500)])
@pytest.mark.parametrize("rows", [1, 3, 801, 2050])
def test_sums_of_some_columns_are_the_same_with_the_helper_and_without(
    rows: int, part: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of many sizes, so that the order of the rows shows."""
    rng = np.random.default_rng(rows)
    matrix = (rng.standard_normal((rows, 1600)) * 10.0 ** rng.integers(-15, 15, (rows, 1600))).astype(np.float32)
    x = matrix[:, slice(*part)]
    views = [x, x[::2], x[::-1], np.broadcast_to(x[:1], x.shape)]
    found = [sum_over(view, (0,), keep) for view in views for keep in (False, True)]
    monkeypatch.setattr(native, "runs_programs", lambda: False)
    wanted = [sum_over(view, (0,), keep) for view in views for keep in (False, True)]
    for a, b in zip(found, wanted):
        assert a.shape == b.shape and np.array_equal(bits(a), bits(b))


def test_columns_added_in_parts_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    x = values((700, 90), np.dtype(np.float32), 2)
    x[:, 3], x[:, 5] = -0.0, 1e-30
    with np.errstate(all="ignore"):
        whole = sum_over(x, (0,))
        for helper in (True, False):
            if not helper:
                monkeypatch.setattr(native, "runs_programs", lambda: False)
            sums = np.zeros(90)
            for low in range(0, 700, 123):
                add_columns(sums, x[low : low + 123])
            assert np.array_equal(sums, whole, equal_nan=True) and np.array_equal(sums == 0, whole == 0)
            numbers = ~np.isnan(whole)
            assert np.array_equal(bits(sums[numbers]), bits(whole[numbers]))


@pytest.mark.parametrize("name", ["exp", "log"])
def test_exp_and_log_are_the_same_on_all_instruction_sets(name: str) -> None:
    """And NumPy's, where programs use it: a sample of all float32, all near its limits, NaN."""
    sample = np.arange(0, 1 << 32, 4001, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = [0, 87.3, 88.02969, 88.72284, -87.33655, -103.27893, -103.97208, -104, 0.5, 0.70710678, 1, 1.4142135, 2e-38]
    limits = np.array(edges, np.float32).view(np.uint32)
    near = (limits[:, None] + np.arange(-3000, 3000, dtype=np.int64)).astype(np.uint32).view(np.float32)
    x = np.concatenate([sample, near.reshape(-1), np.array([np.inf, -np.inf, np.nan, -np.nan], np.float32)])
    used = native.has(name)
    found, plain = np.empty_like(x), np.empty_like(x)
    native.apply(name, x, found)
    for size in range(70):  # the last elements of a row, and nothing behind them
        some, target = x[5000 : 5000 + size], np.full(size + 1, 7, np.float32)
        native.apply(name, some, target)
        assert np.array_equal(bits(target[:size]), bits(found[5000 : 5000 + size])) and target[size] == 7
    native.use_instructions("plain")
    native.apply(name, x, plain)
    assert np.array_equal(bits(found), bits(plain))
    if used:
        with np.errstate(all="ignore"):
            assert np.array_equal(bits(found), bits(getattr(np, name)(x)))


@pytest.mark.parametrize("shape", [(1, 5000), (7, 129), (64, 100), (2000, 1), (3, 5, 200)])
def test_running_sums_are_the_same_with_the_helper_and_without(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = values(shape, np.dtype(np.float32), 3)
    with np.errstate(all="ignore"):
        found = [running_sum(x, axis) for axis in range(-1, len(shape))]
    monkeypatch.setattr(native, "runs_programs", lambda: False)
    for axis, sums in zip(range(-1, len(shape)), found):
        with np.errstate(all="ignore"):
            wanted = np.cumsum(x.astype(np.float64), axis)
            assert np.array_equal(running_sum(x, axis), wanted, equal_nan=True)
        assert np.array_equal(sums, wanted, equal_nan=True)
        numbers = ~np.isnan(wanted)  # the sign of NaN is left to the processor and the compiler
        assert np.array_equal(np.signbit(sums[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_added_rows(dtype: np.dtype[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row by itself, in Python; the same bits with the helper and without."""
    rng = np.random.default_rng(0)
    x, terms = values((40, 1500), dtype, 0), values((300, 1500), dtype, 1)
    rows = np.sort(rng.integers(0, 30, 300))
    order = rng.permutation(300)
    found, other = np.empty_like(x), np.empty_like(x)
    monkeypatch.setattr(convert, "BLOCK", 1 << 12)  # runs that are longer than a block
    with np.errstate(all="ignore"):
        add_rows(found, x, order, rows, terms)
        monkeypatch.setattr(native, "runs_programs", lambda: False)
        monkeypatch.setattr(native, "converts", lambda *_: False)
        add_rows(other, x, order, rows, terms)
        for row in range(40):
            wanted = x[row].astype(np.float64)
            if (rows == row).any():
                sums = np.cumsum(terms[order[rows == row]].astype(np.float64), 0)[-1]
                wanted = wanted + sums
                # of bfloat16 by way of float32 with an odd last bit
                wanted = wanted if dtype != DTYPES[2] else convert._round_to_odd(wanted)
            wanted = wanted.astype(dtype)
            assert np.array_equal(found[row], wanted, equal_nan=True), row
    assert np.array_equal(bits(found)[~(found != found)], bits(other)[~(found != found)])
    assert np.array_equal(found != found, other != other)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_combined_rows(dtype: np.dtype[Any], weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row by row in Python; indices past the end and weights of zero add nothing, not even of an infinity or NaN."""
    rng = np.random.default_rng(0)
    source = values((120, 1500), dtype, 0)
    picks = rng.permutation(120).astype(np.int32)
    picks[:6], picks[20:40] = 125, 130  # some tokens without any row
    weights = rng.choice([0.0, -0.5, 0.3, 2.0], 120).astype(np.float32).reshape(40, 3) if weighted else None
    if weights is not None:
        weights[3:6] = 0.0

    def combined() -> Any:
        if weights is None:
            return ops.moe_token_permute_grad(source, picks, 3)
        return ops.moe_token_unpermute(source, picks, weights.astype(dtype))

    found = combined()
    monkeypatch.setattr(native, "runs_programs", lambda: False)
    other = combined()
    for token, row in enumerate(picks.reshape(40, 3)):
        wanted = np.zeros(1500, np.float32)
        for j, pick in enumerate(row):
            weight = np.float32(1) if weights is None else weights.astype(dtype).astype(np.float32)[token, j]
            if pick < 120 and weight != 0:
                with np.errstate(all="ignore"):
                    term = source[pick].astype(np.float32) * weight
                    wanted = wanted + term if j else term
        with np.errstate(all="ignore"):
            assert np.array_equal(found[token], wanted.astype(dtype), equal_nan=True), token
    good = ~(found != found)
    assert np.array_equal(bits(found)[good], bits(other)[good]) and np.array_equal(good, ~(other != other))


REMEMBERED: dict[str, Callable[[Any, Any], Any]] = {
    "flat": lambda x, y: ops.add(x, y, 2),
    "a row for all": lambda x, y: ops.mul(x, y[:1]),
    "a number for each row": lambda x, y: ops.sub(x, y[:, :1], 1),
    "columns apart": lambda x, y: ops.add(x[:, 5:-4], y[:, 5:-4], 1),
    "transposed": lambda x, y: ops.maximum(x.T, y.T),
    "sums of rows": lambda x, y: ops.softmax(x, 1),
    "numbers of rows as results": lambda x, y: ops.layer_norm(x, [x.shape[1]], y[0], y[1], 1e-5),
    "rows of one number": lambda x, y: ops.linalg_vector_norm(x, 2.0, [1], False, {4: 0, 2: 1}[x.itemsize]),
}


@pytest.mark.parametrize("shape", [(140, 7001), (7001, 150)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("name", REMEMBERED)
def test_remembered_calls(
    name: str, dtype: np.dtype[Any], shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third call with other data, by threads that share pieces, gives the bits of NumPy alone."""
    monkeypatch.setenv("ASCEND_ACLNN_THREADS", "2")
    call = REMEMBERED[name]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(dtype) for _ in range(4)]
    call(*arrays[:2])
    call(*arrays[:2])
    counters: dict[int, Any] = {}  # kept, so that no other gets its address
    run = native.run_program

    def noted(*work: Any) -> None:
        counters[id(work[-1])] = work[-1]
        run(*work)

    monkeypatch.setattr(native, "run_program", noted)
    actual = call(*arrays[2:])
    if name != "sums of rows" or native.has("exp"):  # where exp is NumPy's, there are two phases, and blocks of them
        assert len(counters) == 1, "one counter of pieces for all threads"
    monkeypatch.setattr(native, "runs_programs", lambda: False)
    wanted = call(*arrays[2:])
    for one, other in zip(actual, wanted) if isinstance(actual, (list, tuple)) else [(actual, wanted)]:
        assert np.array_equal(bits(np.asarray(one)), bits(np.asarray(other)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_quantised_rows(dtype: np.dtype[Any], weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows over their largest magnitude, to INT8; rows of zeros, infinities and NaN among them."""
    x = values((300, 400), dtype, 0)
    x[5], x[6, :] = 0.0, -0.0
    smooth = np.linspace(0.5, 2, 400, dtype=np.float32).astype(dtype) if weighted else None
    found, scales = ops.dynamic_quant(x, smooth)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float32) * (1 if smooth is None else smooth.astype(np.float32))
        most = np.max(np.abs(wide), 1) / np.float32(127)
        quotients = np.where(most[:, None] == 0, 0, wide / most[:, None])
    np.testing.assert_array_equal(scales, most)
    np.testing.assert_array_equal(found, np.nan_to_num(np.rint(quotients), nan=0.0).astype(np.int8))
    monkeypatch.setattr(native, "runs_programs", lambda: False)
    again, others = ops.dynamic_quant(x, smooth)
    assert np.array_equal(found, again) and np.array_equal(scales, others, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_numbers_that_come_as_tensors(dtype: np.dtype[Any]) -> None:
    """Two factors for the same lists, one after the other; rounded once."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 300, 200), np.float32).astype(dtype)
    for factor in (0.5, -4.0, 0.5):
        (found,) = ops.foreach_add_list([x], [y], np.full(1, factor, dtype))
        wanted = x.astype(np.float64) + factor * y.astype(np.float64)
        np.testing.assert_array_equal(found, wanted.astype(np.float32).astype(dtype))


@pytest.mark.parametrize("name", ["exp", "log"])
def test_exp_and_log_are_numpys(name: str) -> None:
    """All of 2^32 patterns by sampling, and every one around the ends of the range."""
    if native.status().instructions in ("plain", "neon"):
        pytest.skip("programs leave both to NumPy, without FMA instructions and where NumPy takes the C library's")
    assert native.has(name), f"NumPy computes {name} otherwise here"
    samples = np.arange(0, 1 << 32, 1009, dtype=np.uint64).astype(np.uint32)
    edges = [
        np.arange(n - 3000, n + 3000).astype(np.uint32)
        for n in np.array([88.722839, -103.97208, -87.33655], np.float32).view(np.uint32).astype(np.int64)
    ]
    x = np.concatenate([samples, *edges]).view(np.float32)
    found = np.empty_like(x)
    native.apply(name, x, found)
    with np.errstate(all="ignore"):
        assert np.array_equal(bits(found), bits(getattr(np, name)(x)))


def test_no_helper_no_programs() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "runs_programs", lambda: False)
        assert program(np.exp, [np.ones(4, np.float32)], [np.ones(4, np.float32)]) is None


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_array_that_repeats_is_cut_until_a_program_fits(
    dtype: np.dtype[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mask for all heads: each piece has one head."""
    x = np.random.default_rng(0).standard_normal((3, 4, 300, 128)).astype(dtype)
    mask = x[:, :1] > 0
    formula = lambda x, m: _softmax(where(m, -10000, x))  # noqa: E731
    outputs, used = [np.zeros_like(x), np.zeros_like(x)], []
    run = native.run_program

    def counted(*arguments: Any) -> None:
        used.append(1)
        run(*arguments)

    monkeypatch.setattr(native, "run_program", counted)
    assert along(formula, lambda *_: (-1,), [x, mask], outputs[:1])
    assert len(used) >= 4, "no program"
    monkeypatch.setattr(programs, "program", lambda *_: None)
    assert along(formula, lambda *_: (-1,), [x, mask], outputs[1:])
    assert np.array_equal(bits(outputs[0]), bits(outputs[1]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [2 * BLOCK, 3 * BLOCK + 77, BLOCK + 1])
def test_losses_are_summed_block_by_block(size: int, dtype: np.dtype[Any]) -> None:
    """One sum of each whole block and of the rest, then the sum of these sums, as NumPy adds them up."""
    rng = np.random.default_rng(0)
    x, y = ((rng.standard_normal(size) * 10.0 ** rng.integers(-3, 3, size)).astype(dtype) for _ in range(2))

    def squares(x: Any, y: Any, factor: Any) -> Any:
        return np.square(x - y) * factor

    losses = squares(x.astype(np.float32), y.astype(np.float32), np.float32(0.7)).astype(np.float64)
    sums = [np.add.reduce(losses[start : start + BLOCK]) for start in range(0, size, BLOCK)]
    assert block_sums(squares, [x, y, 0.7]) == np.add.reduce(sums)
