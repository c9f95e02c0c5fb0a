"""Widening and rounding against NumPy's, ml_dtypes' and torch's conversions; blocks, threads, scratch."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from reference_tools import BF16, F16, F32, bits, garbage, same

from ascend_aclnn.numerics import BLOCK, DataError, floating_errors, for_blocks, round_into, scratch, threads, widen
from ascend_aclnn.numerics.rows import sums_of_runs

EVERY_CODE = np.arange(1 << 16, dtype=np.uint16)


def stored(values: Any, dtype: Any) -> Any:
    out = garbage(values.shape, dtype)
    round_into(out, values)
    return out


def numpy_cast(values: Any, dtype: Any) -> Any:
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def edge_values() -> Any:
    """Every float16 and bfloat16, all midpoints between neighbours, the float32 next to each of these; both signs."""
    with np.errstate(all="ignore"):
        exact = np.concatenate([EVERY_CODE.view(dtype).astype(np.float32) for dtype in (F16, BF16)])
        finite = np.unique(exact[np.isfinite(exact)])
        half = np.unique(EVERY_CODE.view(F16).astype(np.float32))
        half = half[np.isfinite(half)]
        middles = np.concatenate([(finite[1:] / 2 + finite[:-1] / 2), (half[1:] + half[:-1]) / 2])
        seeds = np.concatenate([exact, middles, np.float32([65504, 65519.99, 65520, 65536, 3.4e38, 1e-45, 2.0**-25])])
        near = [np.nextafter(seeds, np.float32(side)) for side in (-np.inf, np.inf)]
    return np.concatenate([seeds, -seeds, *near])


# -------------------------------------------------------------------------------------------------------- widening


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_every_16_bit_float_widens_exactly(dtype: Any) -> None:
    values = EVERY_CODE.view(dtype)
    same(widen(values), numpy_cast(values, np.float32))
    finite = values[np.isfinite(values.astype(np.float32))]  # without infinities: the fast way of float16
    same(widen(finite), finite.astype(np.float32))
    same(widen(finite, garbage(finite.shape, F32)), finite.astype(np.float32))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (7, 5), (2, 3, 4), (3, BLOCK + 1), (BLOCK + 3, 2)], ids=str)
def test_widening_keeps_shapes_and_strides(dtype: Any, shape: Any) -> None:
    values = np.resize(EVERY_CODE[:0x7C00].view(dtype), shape)
    same(widen(values), values.astype(np.float32))
    turned = values.T
    same(widen(turned), turned.astype(np.float32))
    gaps = np.repeat(values[..., None], 2, axis=-1)[..., 1]
    same(widen(gaps), gaps.astype(np.float32))
    wide = np.zeros((*shape, 2), np.float32)
    widen(values, wide[..., 0])
    same(wide[..., 0].copy(), values.astype(np.float32))
    assert not wide[..., 1].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int8, np.bool_, np.complex64, ml_dtypes.int4])
def test_nothing_else_is_widened(dtype: Any) -> None:
    values = np.ones(3, dtype)
    out = np.zeros(3, np.float32)
    assert widen(values) is values
    assert widen(values, out) is values
    assert not out.any()


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_floats_widen_and_round(name: Any) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    values = np.arange(256, dtype=np.uint8).view(dtype)
    same(widen(values), numpy_cast(values, np.float32))
    same(stored(widen(values), dtype), values)


# -------------------------------------------------------------------------------------------------------- rounding


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_rounding_at_every_edge(dtype: Any) -> None:
    values = edge_values()
    same(stored(values, dtype), numpy_cast(values, dtype))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_rounding_random_bit_patterns(dtype: Any) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, dtype=np.uint32).view(np.float32)
    same(stored(values, dtype), numpy_cast(values, dtype))


@pytest.mark.parametrize("exponent", range(-30, 20))
def test_float16_at_every_magnitude(exponent: Any) -> None:
    """Blocks without any infinity, NaN or overflow, and with them."""
    values = np.random.default_rng(exponent + 99).uniform(-2, 2, 4096).astype(np.float32) * np.float32(2.0**exponent)
    same(stored(values, F16), numpy_cast(values, F16))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_rounding_agrees_with_torch(dtype: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch is absent: its conversions are not compared with ours")
    values = edge_values()
    theirs = torch.from_numpy(values).to({F16: torch.float16, BF16: torch.bfloat16}[dtype])
    same(stored(values, dtype), theirs.view(torch.int16).numpy().view(dtype))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (7, 5), (2, 3, 4), (3, BLOCK + 1), (BLOCK + 3, 2)], ids=str)
def test_rounding_keeps_shapes_and_strides(dtype: Any, shape: Any) -> None:
    values = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    values = np.asarray(values)
    expected = values.astype(dtype)
    same(stored(values, dtype), expected)
    same(stored(values.T, dtype), expected.T)
    gaps = np.repeat(values[..., None], 2, axis=-1)[..., 1]
    out = np.zeros((*shape, 3), dtype)
    round_into(out[..., 1], gaps)
    same(out[..., 1].copy(), expected)
    assert not bits(out[..., ::2]).any()


@pytest.mark.parametrize("own", [False, True], ids=["kept", "given"])
@pytest.mark.parametrize("others", [0, 1])
def test_memory_that_rounding_may_use_changes_no_bits(own: bool, others: int) -> None:
    for values in (edge_values(), np.linspace(-2, 2, 5001, dtype=np.float32)):
        source, out = values.copy(), np.empty(values.shape, F16)
        round_into(out, source, *[source] * own, *[np.full_like(values, np.nan) for _ in range(others)])
        same(out, numpy_cast(values, F16))
        if not own:
            same(source, values)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_float64_is_rounded_once(dtype: Any) -> None:
    """Just beside a midpoint, where a detour by float32 would lose the side."""
    grid = np.sort(EVERY_CODE[1:0x7B00].view(dtype).astype(np.float64))
    middles = (grid[1:] + grid[:-1]) / 2
    for side in (-1, 0, 1):
        values = middles * (1 + side * 2.0**-40)
        expected = {-1: grid[:-1], 1: grid[1:]}.get(side)
        if expected is None:
            even = bits(grid[1:].astype(dtype)) % 2 == 0
            expected = np.where(even, grid[1:], grid[:-1])
        same(stored(values, dtype), expected.astype(dtype))
        same(stored(-values, dtype), -expected.astype(dtype))
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e300, -1e300, 1e-300])
    same(stored(special, dtype), numpy_cast(numpy_cast(special, np.float32), dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, ml_dtypes.int4], ids=str)
@pytest.mark.parametrize("source", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16], ids=str)
def test_rounding_to_integers_saturates(dtype: Any, source: Any) -> None:
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.0, np.nan, np.inf, -np.inf, 6e4, -6e4]).astype(source)
    limits = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else ml_dtypes.iinfo(dtype)
    big = values[-2].astype(np.float64)
    wanted = [0, 2, 2, 0, -2, 3, 0, limits.max, limits.min, big, -big]
    expected = [int(min(max(value, int(limits.min)), int(limits.max))) for value in wanted]
    assert [int(value) for value in stored(values, np.dtype(dtype))] == expected


def test_other_conversions_are_numpys() -> None:
    same(stored(np.array([1, -2, 300], np.int64), np.dtype(np.int32)), np.array([1, -2, 300], np.int32))
    same(stored(np.array([1, 0], np.bool_), BF16), np.array([1, 0], BF16))
    same(stored(np.array([0.0, 0.5, np.nan], F32), np.dtype(np.bool_)), np.array([False, True, True]))
    same(stored(np.array([1.5], F16), BF16), np.array([1.5], BF16))


def test_no_warnings() -> None:
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        values = np.float32([0, 1, 1e38, -1e38, 1e-40, 65520, np.inf, -np.inf, np.nan])
        for dtype in (F16, BF16, np.dtype(np.int8), np.dtype(np.int64)):
            stored(values, dtype)
            stored(values.astype(np.float64) * 1e30, dtype)
        widen(EVERY_CODE.view(F16))
        for_blocks(4, 1, lambda lo, hi: np.divide(np.ones(1), np.zeros(1)))


# --------------------------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize("threads", ["1", "2", "64"])
@pytest.mark.parametrize(("n", "block"), [(0, 3), (1, 3), (3, 3), (4, 3), (100, 7), (5, 0)])
def test_every_block_is_called_once(monkeypatch: Any, threads: Any, n: Any, block: Any) -> None:
    monkeypatch.setenv("ASCEND_ACLNN_THREADS", threads)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)))
    seen = []
    for_blocks(n, block, lambda lo, hi: seen.append((lo, hi)))
    step = max(1, block)
    assert sorted(seen) == [(lo, min(lo + step, n)) for lo in range(0, n, step)]


@pytest.mark.parametrize("wanted", ["0", "-1", "two", "1.5"])
def test_a_bad_thread_count_is_refused(monkeypatch: Any, wanted: Any) -> None:
    monkeypatch.setenv("ASCEND_ACLNN_THREADS", wanted)
    with pytest.raises(ValueError, match="ASCEND_ACLNN_THREADS"):
        for_blocks(2, 1, lambda lo, hi: None)


def test_two_threads_work_at_once(monkeypatch: Any) -> None:
    monkeypatch.delenv("ASCEND_ACLNN_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    both = threading.Barrier(2, timeout=120)
    for_blocks(2, 1, lambda lo, hi: both.wait() and None)


def test_one_block_stays_on_the_calling_thread() -> None:
    seen = []
    for_blocks(5, 5, lambda lo, hi: seen.append(threading.current_thread()))
    assert seen == [threading.current_thread()]


def test_the_first_exception_arrives(monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})

    def fail(lo: Any, hi: Any) -> None:
        raise DataError("indices", f"wrong at {lo}")

    with pytest.raises(DataError, match="indices: wrong at"):
        for_blocks(1000, 1, fail)
    test_every_block_is_called_once(monkeypatch, "2", 100, 7)


def test_nested_and_concurrent_calls(monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    totals = np.zeros((8, 20), np.int64)

    def outer(number: Any) -> None:
        def block(lo: Any, hi: Any) -> None:
            for_blocks(hi - lo, 1, lambda a, b: totals[number].__setitem__(slice(lo + a, lo + b), 1))

        for_blocks(20, 3, block)

    callers = [threading.Thread(target=outer, args=(number,)) for number in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert totals.all()


def test_a_call_within_a_block_stays_on_its_thread(monkeypatch: Any) -> None:
    """Other threads would begin it only when they have done their blocks, and keep its arrays until then."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    offer, offered = threads._helpers.offer, []

    def counted(work: Any, count: int) -> Any:
        offered.append(count)
        return offer(work, count)

    monkeypatch.setattr(threads._helpers, "offer", counted)
    all_at_work = threading.Barrier(3)
    done: list[int] = []

    def block(lo: int, hi: int) -> None:
        all_at_work.wait(60)
        for_blocks(20, 1, lambda a, b: done.append(a))

    for_blocks(3, 1, block)
    assert offered == [2] and len(done) == 3 * 20


def test_what_nobody_has_begun_is_taken_back() -> None:
    """Nothing of it runs later, and what it uses is let go, though it may still be in a queue."""

    class Memory:
        pass

    memory, called = Memory(), []
    share = threads._Share(lambda memory=memory: called.append(memory))
    gone = weakref.ref(memory)
    assert share.finish() is None
    del memory
    share.take()
    assert not called and gone() is None


def test_an_exception_of_another_thread_arrives(monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    both = threading.Barrier(2, timeout=120)

    def work() -> None:
        both.wait()
        if threading.current_thread() is not caller:
            raise DataError("indices", "wrong")

    caller = threading.current_thread()
    with pytest.raises(DataError, match="indices: wrong"):
        threads.side_by_side(work, 2)
    test_two_threads_work_at_once(monkeypatch)


def test_an_interrupted_call_waits_for_the_others() -> None:
    """They use its arrays: it ends when they do."""
    begun, interrupted = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work() -> None:
        if threading.current_thread() is caller:
            begun.wait(120)
            signal.setitimer(signal.ITIMER_REAL, 0.05)  # in most runs while it waits
        else:
            begun.set()
            interrupted.wait(120)
            time.sleep(0.2)
            ended.append(True)

    def interrupt(*_: Any) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    caller, before = threading.current_thread(), signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            threads.side_by_side(work, 2)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ended == [True]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_computes_too(monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    for_blocks(4, 1, lambda lo, hi: None)  # the parent has threads, which the child does not inherit
    child = os.fork()
    if child == 0:
        done = []
        for_blocks(4, 1, lambda lo, hi: done.append(lo))
        os._exit(0 if sorted(done) == [0, 1, 2, 3] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_scratch_is_lent_again() -> None:
    first = scratch("test", (10, 3), np.float32)
    assert first.shape == (10, 3)
    assert first.dtype == np.float32
    assert np.shares_memory(scratch("test", (7,), np.int16), first)
    assert not np.shares_memory(scratch("other", (7,), np.int16), first)
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(scratch("test", (10, 3), np.float32)))
    thread.start()
    thread.join()
    assert not np.shares_memory(elsewhere[0], first)
    assert scratch("test", (0, 5), np.float32).shape == (0, 5)
    large = scratch("large", (threads.KEPT + 1,), np.uint8)
    assert not np.shares_memory(scratch("large", (8,), np.uint8), large)


def test_a_data_error_travels() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(DataError("indices", "element [3] is 9; allowed: 0 to 4")))
    assert (error.argument, error.detail) == ("indices", "element [3] is 9; allowed: 0 to 4")
    assert str(error) == "indices: element [3] is 9; allowed: 0 to 4"


@pytest.mark.parametrize("public", [False, True], ids=["by NumPy's variable", "by np.seterr"])
def test_warnings_are_off_in_a_block_and_as_before_behind_it(public: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if public:  # as where NumPy's variable is not to be had
        monkeypatch.setitem(sys.modules, "numpy._core.umath", None)
    silence, restore = floating_errors._switches()
    with np.errstate(divide="raise", over="warn"):
        before = np.geterr()
        state = silence()
        assert set(np.geterr().values()) == {"ignore"}
        inner = silence()
        restore(inner)
        assert set(np.geterr().values()) == {"ignore"}
        restore(state)
        assert np.geterr() == before


@pytest.mark.parametrize("columns", [1, 70])
def test_sums_of_runs_add_row_by_row(columns: int) -> None:
    """Short runs, runs of all lengths beside each other, one of everything; -0.0, NaN and infinities among the terms."""
    rng = np.random.default_rng(columns)
    terms = (rng.standard_normal((300, columns)) * 10.0 ** rng.integers(-9, 9, (300, columns))).astype(F32)
    terms[rng.random(terms.shape) < 0.2] = -0.0
    terms[17], terms[40] = np.nan, np.inf
    for starts in ([0], np.arange(0, 300, 2), np.unique(np.append(0, rng.integers(0, 300, 40)))):
        sums = sums_of_runs(terms, np.asarray(starts))
        runs = zip(starts, [*starts[1:], len(terms)])
        wanted = [np.add.accumulate(terms[first:end].astype(np.float64), 0)[-1] for first, end in runs]
        same(sums, np.array(wanted))


def test_doubles_are_rounded_once_to_bfloat16() -> None:
    """Also those that float32 would put half way between two."""
    codes = np.random.default_rng(0).integers(0, 0x7F00, 4000).astype(np.uint16)
    low = codes.view(BF16).astype(np.float64)
    high = (codes + 1).astype(np.uint16).view(BF16).astype(np.float64)
    half_way = (low + high) / 2
    for sign in (1, -1):
        assert np.array_equal(bits(stored(sign * np.nextafter(half_way, 0), BF16)), bits((sign * low).astype(BF16)))
        assert np.array_equal(
            bits(stored(sign * np.nextafter(half_way, np.inf), BF16)), bits((sign * high).astype(BF16))
        )
        even = np.where(codes % 2 == 0, low, high)
        assert np.array_equal(bits(stored(sign * half_way, BF16)), bits((sign * even).astype(BF16)))
