"""Weights that are restored once: any write counts, and memory has a bound."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ascend_aclnn import native, ops
from ascend_aclnn.numerics import Array
from ascend_aclnn.reference import _unchanged


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_unchanged, "_results", {})
    monkeypatch.setattr(_unchanged, "_used", {})


class Doubled:
    """A function that counts its calls."""

    calls = 0

    def __call__(self, weight: Array, scale: Array | None = None) -> Array:
        self.calls += 1
        return weight.astype(np.float32) * (2 if scale is None else scale)


def test_a_single_element_that_changes_is_seen() -> None:
    function, weight = Doubled(), np.arange(300 * 300, dtype=np.int32).reshape(300, 300).T
    for place in range(3):
        for _ in range(3):
            assert (_unchanged.of_unchanged(function, [weight, None]) == weight * 2.0).all()
        assert function.calls == place + 1
        weight[place, 117] -= 1  # not among those that the description samples


def test_values_are_compared_by_their_bytes() -> None:
    function, weight = Doubled(), np.zeros(_unchanged.LEAST, np.float32)
    weight[5] = np.nan
    assert np.isnan(_unchanged.of_unchanged(function, [weight])[5])
    _unchanged.of_unchanged(function, [weight])
    assert function.calls == 1
    weight[7] = -0.0
    assert np.signbit(_unchanged.of_unchanged(function, [weight])[7]) and function.calls == 2


def test_small_weights_and_other_scales() -> None:
    function, weight = Doubled(), np.ones(_unchanged.LEAST, np.int8)
    one, two = np.ones(1, np.float32), np.full(1, 2, np.float32)
    assert [_unchanged.of_unchanged(function, [weight, s])[0] for s in (one, two, one, two)] == [1, 2, 1, 2]
    assert function.calls == 2
    small = weight[:-1]
    assert [_unchanged.of_unchanged(function, [small])[0] for _ in range(2)] == [2, 2] and function.calls == 4


def test_a_result_is_read_only() -> None:
    result = _unchanged.of_unchanged(Doubled(), [np.ones(_unchanged.LEAST, np.int8)])
    with pytest.raises(ValueError, match="read-only"):
        result[0] = 1


def test_the_bound_holds_and_idle_results_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [np.full(_unchanged.LEAST, n, np.int8) for n in range(4)]
    size = weights[0].nbytes * 5  # a copy and four times as much
    monkeypatch.setattr(_unchanged, "LIMIT", 2 * size)
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    function = Doubled()
    for _ in range(2):  # in turn: the first two stay, the others are computed each time
        for weight in weights:
            assert _unchanged.of_unchanged(function, [weight])[0] == 2 * weight[0]
    assert function.calls == 6 and len(_unchanged._results) == 2
    clock[0] += _unchanged.IDLE + 1
    _unchanged.of_unchanged(function, [weights[1]])
    _unchanged.of_unchanged(function, [weights[3]])  # in place of the first one
    assert function.calls == 7 and len(_unchanged._results) == 2
    _unchanged.of_unchanged(function, [weights[3]])
    _unchanged.of_unchanged(function, [weights[1]])
    assert function.calls == 7
    assert sum(result.nbytes for result in _unchanged._results.values()) == 2 * size
    assert set(_unchanged._used) == set(_unchanged._results)


def test_a_product_follows_its_weight(each_backend: object) -> None:
    random = np.random.default_rng(2)
    x = random.normal(size=(2, 256)).astype(np.float16)
    scale = random.uniform(0.1, 1, (8, 256)).astype(np.float16)
    weight = random.integers(-8, 8, (256, 256)).astype(np.int8)
    for _ in range(2):
        golden = x.astype(np.float64) @ (weight * np.repeat(scale.astype(np.float64), 32, 0))
        for _ in range(2):
            y = ops.weight_quant_batch_matmul_v2(x, weight.astype(ml_dtypes.int4), scale, antiquant_group_size=32)
            assert np.allclose(y.astype(np.float64), golden, rtol=5e-3, atol=5e-2)
        weight[100, 31] = -weight[100, 31] ^ 1


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_products_of_few_rows_widen_a_weight_once(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "multiplies_few_rows", lambda: False)  # the helper widens as it reads
    generator = np.random.default_rng(1)
    x, many = (generator.standard_normal((rows, 256)).astype(dtype) for rows in (3, 17))
    weight = generator.standard_normal((320, 256)).astype(dtype).T
    for place in range(3):
        for _ in range(2):
            expected = (np.float32(x) @ np.ascontiguousarray(np.float32(weight))).astype(dtype)
            assert ops.mm(x, weight).tobytes() == ops.matmul(x, weight).tobytes() == expected.tobytes()
        (widened,) = _unchanged._results.values()
        assert (widened.value == np.float32(weight)).all()
        weight[3, 5 * place] += 1  # not among those that the description samples
    ops.mm(many, weight)
    assert next(iter(_unchanged._results.values())) is widened
    assert len(_unchanged._results) == 1


def test_weights_that_are_written_while_they_are_computed_with_are_computed_with_again() -> None:
    weight = np.ones(_unchanged.LEAST, np.float32)

    def doubled(x: Array) -> Array:
        result = x * np.float32(2)
        weight[5] = 7  # as another thread may
        return result

    assert _unchanged.of_unchanged(doubled, [weight])[5] == 2
    assert _unchanged.of_unchanged(doubled, [weight])[5] == 14
