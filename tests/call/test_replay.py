"""Calls of a signature that has succeeded before: the same results and the same refusals as a first call."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, call, catalog, ops
from ascend_aclnn.call.replay import REMEMBERED, signature
from ascend_aclnn.reference import find
from ascend_aclnn.reference.declare import REFERENCES, Reference


@pytest.fixture(autouse=True)
def numpy_backend() -> Iterator[None]:
    with aclnn.use_backend("numpy"):
        yield


def entry(name: str) -> Reference:
    reference = find(catalog.get(name))
    assert reference is not None
    return reference


def remembered(name: str) -> int:
    return len(call.plan(catalog.get(name)).replays)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32])
def test_other_data_and_memory_give_their_own_results(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        a, b = (rng.integers(-9, 9, (3, 5)).astype(dtype) for _ in range(2))
        result = ops.add(a, b, 2)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.astype(np.float64), a.astype(np.float64) + 2 * b.astype(np.float64))


def test_results_are_new_memory_each_time() -> None:
    a = np.ones(4, np.float32)
    first = ops.neg(a)
    second = ops.neg(a)
    first[...] = 7
    assert second.tolist() == [-1] * 4 and a.tolist() == [1] * 4


def test_attributes_that_are_equal_and_not_the_same_are_apart() -> None:
    a = np.array([5, -5], np.int32)
    assert ops.muls(a, 2).dtype == np.int32
    assert ops.muls(a, 2.0).dtype == np.float32
    assert ops.muls(a, True).dtype == np.int32
    assert ops.muls(a, 2).dtype == np.int32


@pytest.mark.parametrize(
    ("one", "other"),
    [((1,), (1.0,)), ((1,), (True,)), ((0.0,), (-0.0,)), (([1],), ((1,),)), (([True],), ([1],)), (("1",), (1,))],
)
def test_signatures_tell_values_apart(one: Any, other: Any) -> None:
    assert signature(one) != signature(other)


def test_signatures_tell_layouts_apart() -> None:
    a = np.zeros((4, 4), np.float32)
    keys = {
        signature(items)
        for items in ((a,), (a.T,), (a[:, :2],), (a[:2],), (a.astype(">f4"),), ((4, 4),), (aclnn.asarray(a),))
    }
    assert len(keys) == 7
    assert signature((math.nan,)) == signature((float("nan"),))
    assert signature((object(),)) is None


def test_a_refused_call_is_refused_again() -> None:
    for _ in range(3):
        with pytest.raises(AclError) as caught:
            ops.add(np.ones(3, np.float32), np.ones(4, np.float32), 1)
        assert caught.value.status == 161002


def test_bad_data_is_refused_after_good_data() -> None:
    table = np.eye(3, dtype=np.float32)
    for _ in range(2):
        assert ops.embedding(table, np.array([2, 0])).tolist() == table[[2, 0]].tolist()
        with pytest.raises(AclError) as caught:
            ops.embedding(table, np.array([2, 9]))
        assert caught.value.argument == "indices"


def test_a_read_only_array_is_refused_after_a_writable_one() -> None:
    a, b = np.ones(3, np.float32), np.ones(3, np.float32)
    for _ in range(2):
        assert ops.inplace_add(a, b, 1) is a
        frozen = a.copy()
        frozen.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            ops.inplace_add(frozen, b, 1)
        out = np.empty(3, np.float32)
        assert ops.add(a, b, 1, out=out) is out
        with pytest.raises(ValueError, match="read-only"):
            ops.add(a, b, 1, out=frozen)


def test_tensors_and_out() -> None:
    a, b = (aclnn.asarray(np.arange(4, dtype=np.float32)) for _ in range(2))
    for n in range(3):
        a.assign(np.full(4, n))
        actual = ops.add(a, b, 1)
        assert isinstance(actual, aclnn.Tensor)
        assert actual.numpy().tolist() == [n, n + 1, n + 2, n + 3]
        assert ops.add(actual, b, 1, out=actual) is actual
        assert actual.numpy().tolist() == [n, n + 2, n + 4, n + 6]


def test_lists_and_several_results() -> None:
    parts = [np.full((1, 2), n, np.float32) for n in range(3)]
    for shift in range(2):
        assert ops.cat([part + shift for part in parts], 0).tolist() == [[n + shift] * 2 for n in range(3)]
    for _ in range(2):
        y, rstd = ops.rms_norm(np.full((2, 4), 3, np.float32), np.ones(4, np.float32))
        np.testing.assert_allclose(y, np.ones((2, 4)), rtol=1e-5)
        np.testing.assert_allclose(rstd, np.full((2, 1), 1 / 3), rtol=1e-5)


def test_a_value_that_is_data_is_not_remembered() -> None:
    before = remembered("aclnnMuls")
    for factor in (2.0, 3.0):
        x = np.ones(7, np.float32)
        assert ops.muls(x, np.array(factor, np.float32)).tolist() == [factor] * 7
    assert remembered("aclnnMuls") == before


def test_a_shape_that_depends_on_data() -> None:
    for data in ([0, 1, 1], [0, 0, 1], [1, 1, 1]):
        assert len(ops.nonzero(np.array(data, np.float32))) == sum(data)


def test_each_soc_has_its_own_rules() -> None:
    x = np.ones((2, 2), ml_dtypes.bfloat16)
    for _ in range(2):
        with aclnn.use_backend("numpy", soc="Ascend910B1"):
            assert ops.abs(x).dtype == x.dtype
        with aclnn.use_backend("numpy", soc="Ascend310P3"), pytest.raises(AclError):
            ops.abs(x)


def test_another_reference_is_used_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(3, np.float32)
    assert ops.neg(x).tolist() == [-1] * 3
    assert ops.neg(x).tolist() == [-1] * 3
    other = entry("aclnnNeg")._replace(function=lambda x: x + 1)
    monkeypatch.setitem(REFERENCES, "aclnnNeg", other)
    assert ops.neg(x).tolist() == [2] * 3


_CACHED = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x: x.T.copy().T,
        lambda x: x[::1],
        lambda x: np.broadcast_to(np.float32(3), x.shape),
        lambda x: x.astype(np.float64) / 3,
        lambda x: _CACHED,
        lambda x: np.add(x, 1),
        lambda x: np.add(x, 1).reshape(4, 3).T,
    ],
    ids=["input", "transposed", "view", "broadcast", "double", "cached", "new", "view of a new one"],
)
def test_results_are_new_contiguous_arrays_whatever_the_reference_returns(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REFERENCES, "aclnnNeg", entry("aclnnNeg")._replace(function=function, elementwise=False))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    expected = function(x).astype(np.float32)
    results = [ops.neg(x) for _ in range(4)]
    for i, result in enumerate(results):
        assert result.dtype == np.float32 and result.base is None
        assert result.flags.c_contiguous and result.flags.writeable
        np.testing.assert_array_equal(result, expected)
        result[...] = -i  # is nobody else's
    assert x.reshape(-1).tolist() == _CACHED.reshape(-1).tolist() == list(range(12))
    assert [result[0, 0] for result in results] == [0, -1, -2, -3]


def test_two_results_of_one_array_are_two_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([1, 2], np.int64)

    def same(x: Any, *_: Any) -> Any:
        result = x + 1
        return result, result

    monkeypatch.setitem(REFERENCES, "aclnnSort", entry("aclnnSort")._replace(function=same, raw=False, along=None))
    for _ in range(4):
        values, indices = ops.sort(x, False, 0, False)
        assert values.tolist() == indices.tolist() == [2, 3]
        values[0] = 9
        assert indices.tolist() == [2, 3]


def test_a_named_tuple_has_one_result_for_each_output(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sorted(NamedTuple):
        values: Any
        indices: Any

    def function(x: Any, *_: Any) -> Sorted:
        return Sorted(x + 1, np.zeros(x.shape, np.int64))

    monkeypatch.setitem(REFERENCES, "aclnnSort", entry("aclnnSort")._replace(function=function, raw=False, along=None))
    for _ in range(4):
        values, indices = ops.sort(np.array([1, 2], np.float32), False, 0, False)
        assert values.tolist() == [2, 3] and indices.tolist() == [0, 0]


def test_a_fault_of_a_reference_names_the_shapes_of_a_remembered_call(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[Exception] = []

    def fail(x: Any) -> Any:
        if faults:
            raise faults[0]
        return -x

    monkeypatch.setitem(REFERENCES, "aclnnNeg", entry("aclnnNeg")._replace(function=fail, elementwise=False))
    for _ in range(3):
        ops.neg(np.ones((5, 7), np.float32))
    faults.append(ArithmeticError("not today"))
    with pytest.raises(ArithmeticError) as caught:
        ops.neg(np.ones((5, 7), np.float32))
    notes = getattr(caught.value, "__notes__", [str(caught.value.__cause__)])
    assert "in the NumPy reference of aclnnNeg (self (5, 7); out (5, 7))" in notes


def test_what_is_remembered_is_bounded() -> None:
    for n in range(1, REMEMBERED + 20):
        ops.neg(np.ones(n, np.float32))
    assert remembered("aclnnNeg") <= REMEMBERED


def test_an_executor_sees_new_data() -> None:
    a, b, out = (aclnn.asarray(np.ones(3, np.float32)) for _ in range(3))
    with aclnn.Executor("aclnnAdd", a, b, aclnn.Scalar(1.0), out, repeatable=True) as executor:
        for n in range(3):
            a.assign(np.full(3, n))
            executor.run()
            assert out.numpy().tolist() == [n + 1] * 3


def test_threads_share_what_is_remembered() -> None:
    failures: list[int] = []

    def work(seed: int) -> None:
        x = np.full(16, seed, np.float32)
        for _ in range(300):
            if ops.adds(x, 1, 1).tolist() != [seed + 1] * 16:
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_dropping_a_tensor_gives_its_memory_back() -> None:
    before = aclnn.memory_info().used
    tensors = [ops.neg(aclnn.asarray(np.ones(1000, np.float32))) for _ in range(3)]
    assert aclnn.memory_info().used > before
    del tensors
    assert aclnn.memory_info().used == before


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_large_results_may_lie_over_inputs(dtype: Any) -> None:
    """A remembered call looks again where its outputs lie: apart from the inputs, on one, or half over one."""
    n = 1 << 18
    memory = np.random.default_rng(0).standard_normal(2 * n).astype(dtype)
    other = memory[n:].copy()
    with aclnn.use_backend("numpy"):
        for start in (0, 0, 5, n, 0, 1, n - 1):
            x, out = memory[:n], memory[start : start + n]
            expected = (x.astype(np.float32) + other.astype(np.float32)).astype(dtype)
            assert ops.add(x, other, 1, out=out) is out
            assert np.array_equal(out, expected), start


def test_a_product_may_lie_over_its_operands() -> None:
    memory = np.arange(12, dtype=np.float32)
    b = np.array([[1, 2], [3, 4]], np.float32)
    for start in (8, 2, 0, 8, 2):
        memory[:4] = range(4)
        a, out = memory[:4].reshape(2, 2), memory[start : start + 4].reshape(2, 2)
        expected = a.copy() @ b
        assert ops.mm(a, b, out=out) is out
        assert np.array_equal(out, expected), start
