"""Element-wise functions in blocks: the same bits as all at once, for every layout, in bounded memory."""

from __future__ import annotations

import os
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from row_tools import in_one_test

from ascend_aclnn import numerics
from ascend_aclnn.numerics import blocks, elementwise, round_into, widen
from ascend_aclnn.reference import count
from ascend_aclnn.reference.declare import REFERENCES
from ascend_aclnn.reference.index import scatter
from ascend_aclnn.reference.math import sorting

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(np.float32), np.dtype(np.float16), BF16, np.dtype(np.int32), np.dtype(np.float64)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that every case has many."""
    monkeypatch.setattr(blocks, "SMALL", 16)
    monkeypatch.setattr("ascend_aclnn.numerics.convert.BLOCK", 64)


def values(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int = 0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * 50).astype(dtype)


def at_once(function: Callable[..., Any], inputs: list[Any], dtype: np.dtype[Any]) -> Any:
    result = np.asarray(function(*(widen(i) if isinstance(i, np.ndarray) else i for i in inputs)))
    out = np.empty(result.shape, dtype)
    round_into(out, result)
    return out


def formula(a: Any, b: Any, factor: Any) -> Any:
    return a + factor * b


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((40, 30), (40, 30)),
        ((40, 30), (30,)),
        ((40, 30), (40, 1)),
        ((40, 1), (1, 30)),
        ((2, 3, 1, 50), (3, 7, 1)),
        ((1000,), ()),
        ((1, 1000), (1, 1)),
        ((3, 5, 7, 11), (3, 5, 7, 11)),
    ],
)
def test_broadcasting(dtype: np.dtype[Any], first: tuple[int, ...], second: tuple[int, ...]) -> None:
    a, b = values(first, dtype), values(second, dtype, 1)
    want = at_once(formula, [a, b, 3], dtype)
    out = np.full(want.shape, 99, dtype)
    assert elementwise(formula, [a, b, 3], [out])
    assert out.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_strides(dtype: np.dtype[Any]) -> None:
    whole = values((64, 90), dtype)
    other = values((90, 64), dtype, 1)
    for a, b in (
        (whole.T, other),
        (whole[::2, ::3], values((32, 30), dtype)),
        (whole[:, 10:20], whole[:, 20:30]),
        (np.broadcast_to(whole[:1], whole.shape), whole),
        (np.moveaxis(values((4, 5, 6, 7), dtype), 1, -1), values((4, 6, 7, 5), dtype)),
    ):
        want = at_once(formula, [a, b, 1], dtype)
        for out in (
            np.empty(want.shape, dtype),
            np.empty(want.shape[::-1], dtype).transpose(),
            np.empty((*want.shape[:-1], 2 * want.shape[-1]), dtype)[..., ::2],
        ):
            assert elementwise(formula, [a, b, 1], [out])
            np.testing.assert_array_equal(out, want)


def test_in_place_and_overlap() -> None:
    x = values((300,), np.dtype(np.float32))
    want = x + 2 * x
    assert elementwise(formula, [x, x, 2], [x])
    assert x.tobytes() == want.tobytes()
    y = np.arange(300, dtype=np.float32)
    assert not elementwise(np.negative, [y[:-1]], [y[1:]]), "an output over a shifted input cannot go by blocks"
    assert y.tolist() == list(range(300))
    assert not elementwise(np.negative, [np.arange(300.0)], [np.broadcast_to(y[:1], (300,))])


def test_what_is_not_elementwise_is_left_alone() -> None:
    a = values((300,), np.dtype(np.float32))
    out = np.empty(300, np.float32)
    assert not elementwise(np.negative, [a], [np.empty(299, np.float32)])
    assert not elementwise(np.negative, [a[:1]], [out]), "the result would have another shape"
    assert not elementwise(lambda x: x, [[a]], [out])
    assert not elementwise(lambda x: x, [3.0], [out])
    assert not elementwise(np.negative, [a[:10]], [out[:10]]), "too small"


def test_what_a_function_or_its_caller_keeps_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding to float16 uses the memory of results, but not of those that someone still refers to."""
    monkeypatch.setattr("ascend_aclnn.numerics.convert.BLOCK", 1 << 12)
    monkeypatch.setattr(blocks.native, "runs_programs", lambda: False)
    monkeypatch.setattr(blocks.programs, "steps", lambda *_: None)
    a, single = (values((1 << 14,), np.dtype(kind)) for kind in (np.float16, np.float32))
    before = single.copy()
    kept: list[Any] = []

    def keeping(x: Any) -> Any:
        kept.append(x + 1)
        return kept[-1]

    out, wanted = np.empty(a.shape, np.float16), at_once(lambda x: x + 1, [a], a.dtype)
    assert elementwise(keeping, [a], [out]) and len(kept) > 1
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(np.sort(np.concatenate(kept)), np.sort(a.astype(np.float32) + 1))
    assert elementwise(lambda x: x, [single], [out])
    np.testing.assert_array_equal(out, before.astype(np.float16))
    np.testing.assert_array_equal(single, before)
    twice = np.empty_like(out)
    assert elementwise(lambda x: (lambda y: (y, y))(x * 2), [single], [out, twice])
    np.testing.assert_array_equal(out, (before * 2).astype(np.float16))
    np.testing.assert_array_equal(out, twice)


def test_several_results_and_skipped_ones() -> None:
    a = values((500,), np.dtype(np.float16))
    first, second = np.empty(500, np.float16), np.empty(500, np.int32)
    assert elementwise(lambda x: (x + 1, x * 2), [a], [first, second])
    np.testing.assert_array_equal(first, at_once(lambda x: x + 1, [a], first.dtype))
    np.testing.assert_array_equal(second, at_once(lambda x: x * 2, [a], second.dtype))
    assert elementwise(lambda x: (x + 1, None), [a], [None, second])
    assert not second.any()


@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype(np.complex128), np.dtype(np.bool_)], ids=str)
def test_moved_elements(dtype: np.dtype[Any]) -> None:
    x = np.random.default_rng(0).integers(0, 100, (3, 500, 301)).astype(dtype)
    for source in (x, x.swapaxes(1, 2), x[0].T, x[:, ::2, 5:], x.transpose(2, 0, 1), x.T, x[:, :, 0], x[0, 0]):
        out = np.zeros((*source.shape[:-1], source.shape[-1] + 3), dtype)[..., 3:]
        numerics.move(out, source)
        assert out.tobytes() == source.tobytes()


def test_lists() -> None:
    lists = [[values((n, 30), np.dtype(np.float16), seed) for n in (40, 1, 25)] for seed in (1, 2)]
    outs = [np.empty_like(item) for item in lists[0]]
    assert elementwise(lambda a, b, f: [formula(x, y, f) for x, y in zip(a, b)], [*lists, 2], [outs])
    for first, second, out in zip(*lists, outs):
        np.testing.assert_array_equal(out, at_once(formula, [first, second, 2], out.dtype))
    assert not elementwise(lambda a: a, [lists[0][:2]], [outs])


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_tables_of_all_results(dtype: np.dtype[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of one 16-bit array: every code, in place, to other data types, and what no table can be made of."""
    monkeypatch.setattr(blocks, "TABLED", 16)
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype).reshape(256, 256)
    with np.errstate(all="ignore"):
        for target in (dtype, np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.bool_), np.dtype(np.float64)):
            want = np.empty(every.shape, target)
            round_into(want, np.exp(widen(every)) if target != np.bool_ else widen(every) > 0.5)
            out = np.zeros(every.shape, target)
            function = (lambda x: x > 0.5) if target == np.bool_ else np.exp
            assert elementwise(function, [every], [out])
            assert out.tobytes() == want.tobytes()
        change = every.copy()
        assert elementwise(np.negative, [change], [change])
        assert change.tobytes() == at_once(np.negative, [every], dtype).tobytes()
        assert elementwise(formula, [every, every, 2], [change]), "the same array twice"
        assert change.tobytes() == at_once(formula, [every, every, 2], dtype).tobytes()

    def careful(x: Any) -> Any:
        if np.isnan(x).any():
            raise numerics.DataError("x", "is NaN")
        return x + 1

    ones = np.ones((256, 256), dtype)
    assert elementwise(careful, [ones], [change])
    assert (change == 2).all()


def test_the_first_failure_is_raised() -> None:
    def fails(x: Any) -> Any:
        raise numerics.DataError("x", "is bad")

    with pytest.raises(numerics.DataError, match="bad"):
        elementwise(fails, [values((500,), np.dtype(np.float32))], [np.empty(500, np.float32)])


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("ASCEND_ACLNN_THREADS", "2")
    function = REFERENCES_OF["aclnnGeluBackward"].function
    for dtype in (np.dtype(np.float16), BF16, np.dtype(np.float32)):
        grad, x = (values((4096, 2048), np.dtype(np.float32)).astype(dtype) for _ in range(2))
        peak = peak_bytes(function, [grad, x], np.empty_like(x))
        assert peak < 16e6, f"{dtype}: {peak} bytes"


def peak_bytes(function: Callable[..., Any], inputs: list[Any], out: Any) -> int:
    """What a call allocates at its peak, on a new thread, which has no scratch memory yet."""
    peaks = []

    def work() -> None:
        tracemalloc.start()
        assert elementwise(function, inputs, [out])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return peaks[0]


def _elementwise_references() -> dict[str, Any]:
    count()  # imports all
    return {name: found for name, found in REFERENCES.items() if found.elementwise}


REFERENCES_OF = _elementwise_references()


@in_one_test("name", sorted(REFERENCES_OF))
def test_references_declared_elementwise_are(name: str) -> None:
    """Each in blocks and at once: what looks at its neighbours, counts elements or knows the shape would differ."""

    from ascend_aclnn import catalog
    from ascend_aclnn.catalog import Kind

    operator = catalog.get(name)
    inputs: list[Any] = []
    for number, parameter in enumerate(operator.inputs):
        if parameter.kind is Kind.TENSOR:
            dtype = np.float32
            if parameter.dtypes and "FLOAT" not in parameter.dtypes:
                dtype = bool if "BOOL" in parameter.dtypes else np.int32
            inputs.append((np.abs(values((40, 25), np.dtype(np.float32), number)) / 100 + 0.1).astype(dtype))
        elif parameter.kind is Kind.TENSOR_LIST:
            return  # lists do not go by blocks
        elif parameter.kind is Kind.SCALAR:
            inputs.append(2)
        elif parameter.kind is Kind.STRING:
            inputs.append("none")
        elif parameter.kind.value in ("int64_t", "int32_t", "bool"):
            inputs.append(1)
        else:
            inputs.append(0.5)
    function = REFERENCES_OF[name].function
    with np.errstate(all="ignore"):
        try:
            results = function(*inputs)
        except TypeError:  # an operator of integers whose document names no data types
            inputs = [item.astype(np.int32) if isinstance(item, np.ndarray) else item for item in inputs]
            results = function(*inputs)
    several = results if isinstance(results, tuple) else (results,)
    outs = [None if r is None else np.empty((40, 25), np.asarray(r).dtype) for r in several]
    assert elementwise(function, inputs, outs)
    for result, out in zip(several, outs):
        if out is not None:
            np.testing.assert_array_equal(out, np.broadcast_to(result, out.shape))


def test_threads_do_not_change_results(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = values((50, 40), BF16), values((40,), BF16, 1)
    results = []
    for threads in ("1", str(len(os.sched_getaffinity(0)))):
        monkeypatch.setenv("ASCEND_ACLNN_THREADS", threads)
        out = np.empty((50, 40), BF16)
        assert elementwise(formula, [a, b, 2], [out])
        results.append(out.tobytes())
    assert results[0] == results[1]


# ------------------------------------------------------------------------------------------------- along axes

ALONG = {name: found for name, found in REFERENCES.items() if found.along is not None}


def run_both(name: str, x: Any, *attributes: Any) -> None:
    """The reference at once and cut, on float32: the same bits."""
    run_cut(ALONG[name].function, ALONG[name].along, name, x, *attributes)


def run_cut(function: Any, axes: Any, name: str, x: Any, *attributes: Any) -> None:
    with np.errstate(all="ignore"):
        results = function(x, *attributes)
    several = [np.asarray(r) for r in (results if isinstance(results, tuple) else (results,))]
    several = [r.astype(np.float32) if r.dtype == np.float64 else r for r in several]  # as the outputs are
    outs = [np.full(r.shape, 1, r.dtype) for r in several]
    assert numerics.along(function, axes, [x, *attributes], outs), name
    for result, out in zip(several, outs):
        np.testing.assert_array_equal(out, result, err_msg=name)


@pytest.mark.parametrize("shape", [(40, 30), (3, 5, 40), (2, 3, 4, 25)])
def test_references_that_work_along_axes(shape: tuple[int, ...]) -> None:
    x = values(shape, np.dtype(np.float32)) / 20
    last, first = len(shape) - 1, 0
    for dim in (last, first, -1):
        for name in ("Softmax", "LogSoftmax", "CumsumV2"):
            run_both(f"aclnn{name}", x, *((dim, False, True) if name == "CumsumV2" else (dim,)))
        run_both("aclnnSoftmaxBackward", x, x[::-1].copy(), dim)
        run_both("aclnnLogSoftmaxBackward", x, x[::-1].copy(), dim)
        run_cut(sorting._cumsum, sorting._given_dim, "aclnnCumsum", x, dim, 0)
        run_both("aclnnCumprod", x, dim, 0)
        run_both("aclnnCummax", x, dim)
        run_both("aclnnSort", x, True, dim, True)
        run_both("aclnnArgsort", x, dim, False)
        run_both("aclnnTopk", x, 2, dim, True, True)
        run_both("aclnnKthvalue", x, 2, dim, False)
        run_both("aclnnMedianDim", x, dim, True)
        for keep in (False, True):
            run_both("aclnnLogSumExp", x, (dim,), keep)
            run_both("aclnnVar", x, (dim,), 1, keep)
            run_both("aclnnVarMean", x, (dim,), 1, keep)
            run_both("aclnnAll", x > 0, (dim,), keep)
            run_both("aclnnNorm", x, 2.0, (dim,), keep)
            run_both("aclnnLinalgVectorNorm", x, 1.0, (dim,), keep, 0)
        index = np.random.default_rng(1).integers(0, shape[dim], shape)
        source = x[::-1].copy()
        for reduce in (0, 1, 2):
            run_both("aclnnScatter", x, dim, index, source, reduce)
        run_both("aclnnScatterAdd", x, dim, index, source)
        run_both("aclnnScatterReduce", x, dim, index, source, 3, True)
        entries = np.random.default_rng(2).integers(0, shape[dim], shape[dim])
        run_cut(scatter._index_added, scatter._same_rows, "aclnnIndexAdd", x, dim, entries, source, 2.0)
    half = np.concatenate([x, x * 2], -1)
    for name in ("Glu", "SwiGlu"):
        run_both(f"aclnn{name}", half, -1)
        run_both(f"aclnn{name}{'Backward' if name == 'Glu' else 'Grad'}", x, half, -1)
    row = values(shape[-1:], np.dtype(np.float32))
    run_both("aclnnLayerNorm", x, shape[-1:], row, row, 1e-5)
    mask = x[:, :1] > 0 if len(shape) > 2 else x > 0  # one for all heads
    run_both("aclnnScaledMaskedSoftmax", x, mask, 0.5, False)
    run_both("aclnnScaledMaskedSoftmaxBackward", x, x[::-1].copy(), mask, 0.5, False)


def test_every_reference_along_axes_is_tested() -> None:
    """A new one belongs into the test above, or here with its like."""
    like = [
        "FastLayerNorm",
        "InplaceCumprod",
        "Cummin",
        "NanMedianDim",
        "Std",
        "VarCorrection",
        "StdMeanCorrection",
        "InplaceScatter",
    ]
    like += ["InplaceScatterReduce", "GeGlu", "GeGluV3", "GeluMul", "SituGlu", "SituGluGrad"]
    import re

    text = test_references_that_work_along_axes.__code__.co_consts
    named = set(re.findall(r"aclnn\w+", repr(text)))
    named |= {f"aclnn{n}" for n in ("Softmax", "LogSoftmax", "CumsumV2", "Glu", "SwiGlu", "GluBackward", "SwiGluGrad")}
    left = set(ALONG) - named - {f"aclnn{name}" for name in like}
    assert not left


def test_what_cannot_be_cut_is_left_alone() -> None:
    x = values((40, 30), np.dtype(np.float32))
    function, axes = ALONG["aclnnSoftmax"].function, ALONG["aclnnSoftmax"].along
    assert axes is not None
    assert not numerics.along(function, axes, [x.reshape(-1), 0], [np.empty(1200, np.float32)]), "no other axis"
    assert not numerics.along(function, axes, [x, 1], [np.empty((40, 31), np.float32)[:30]])
    assert not numerics.along(function, axes, [x[1:], 1], [x[:-1]]), "overlap"
    assert not numerics.along(function, lambda *_: None, [x, 1], [np.empty_like(x)])


# ------------------------------------------------------------------------------------------------- where

SIDES = [0, 0.0, -0.0, np.nan, np.float32(3)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.float16, np.bool_, np.complex64])
def test_where_is_numpys(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    a, b = ((rng.standard_normal((50, 60)) * 9).astype(dtype) for _ in range(2))
    condition = rng.random((50, 60)) < 0.5
    pairs = [(a, b), (a, b[:1]), (a[:, :1], b), (a.T.copy().T, b), (a, b[::-1])]
    pairs += [(side, b) for side in SIDES] + [(a, side) for side in SIDES] + [(1.0, 0.0), (np.nan, -0.0)]
    for first, second in pairs:
        for mask in (condition, condition[:1], condition.T.copy().T):
            want, found = np.where(mask, first, second), numerics.where(mask, first, second)
            assert found.dtype == want.dtype and found.tobytes() == want.tobytes()


# ------------------------------------------------------------------------------------------------- ranks


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.uint8, np.bool_, np.uint32])
@pytest.mark.parametrize("descending", [False, True])
def test_an_order_by_ranks_is_stable(dtype: Any, descending: bool) -> None:
    from ascend_aclnn.reference.math.sorting import order

    rng = np.random.default_rng(4)
    x = rng.integers(-3, 4, (60, 50)).astype(dtype)
    if dtype == np.float32:
        x[rng.random(x.shape) < 0.1] = np.nan
        x[rng.random(x.shape) < 0.1] *= -0.0
        x[0, :3] = np.inf, -np.inf, -np.nan
    for dim in (0, 1):
        found = order(x, dim, descending)
        keys = np.where(np.isnan(x), np.inf, x).astype(np.float64)
        keys = keys * 2 + np.isnan(x) if dtype == np.float32 else keys
        want = np.argsort(-keys if descending else keys, dim, kind="stable")
        if dtype == np.float32:  # NaN above infinity
            finite = np.where(np.isnan(x), 1e9, np.clip(np.nan_to_num(x, nan=0), -1e6, 1e6))
            want = np.argsort(-finite if descending else finite, dim, kind="stable")
        np.testing.assert_array_equal(found, want)
