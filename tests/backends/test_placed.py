"""Calls on tensors at given places: whether written memory may overlap what is read, and calls without binding."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ascend_aclnn import catalog
from ascend_aclnn.backends.numpy.placed import PlacedCall, Tensors, layout_of
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import DEFAULT_SOC, soc
from ascend_aclnn.core.spec import TensorSpec


@pytest.mark.parametrize("count", [2, 9])  # compared one by one, and sorted
def test_overlapping_lists_are_seen(count: int) -> None:
    rng = np.random.default_rng(count)
    specs = [TensorSpec.of((int(size),), DataType.FLOAT) for size in rng.integers(1, 9, 2 * count)]
    read, written = [*range(count)], [*range(count, 2 * count)]
    values = [Tensors(read, True), Scalar(2.0, DataType.FLOAT), Tensors(written, True)]
    operator = catalog.get("aclnnForeachNorm")  # a raw reference: only these ask
    call = PlacedCall(operator, values, [layout_of(spec) for spec in specs], soc(DEFAULT_SOC))
    outcomes = set()
    for _ in range(400):
        places = [int(place) for place in 4 * rng.integers(0, 60 * count * count, 2 * count)]
        spans = [(place, place + spec.nbytes) for place, spec in zip(places, specs)]
        overlaps = any(
            spans[a][0] < spans[b][1] and spans[b][0] < spans[a][1] for a, b in itertools.product(read, written)
        )
        assert call._overlap(places) == overlaps, places
        outcomes.add(overlaps)
    assert outcomes == {False, True}


FLOAT, FLOAT16 = DataType.FLOAT, DataType.FLOAT16
SIZES = (64, 1, 1000, 33, 5000)


class Call:
    """A call on float32 tensors in one memory of random numbers; a tensor is a shape, a list of them a list."""

    def __init__(self, name: str, arguments: Sequence[Any], dtype: DataType = FLOAT) -> None:
        values: list[Any] = []
        specs: list[TensorSpec] = []
        for argument in arguments:
            if not isinstance(argument, (tuple, list)):
                values.append(argument)
                continue
            shapes = argument if isinstance(argument, list) else [argument]
            values.append(Tensors([*range(len(specs), len(specs) + len(shapes))], isinstance(argument, list)))
            specs += [TensorSpec.of(shape, dtype) for shape in shapes]
        self.specs = specs
        self.places = np.cumsum([16, *(spec.nbytes + 20 for spec in specs)])[:-1].tolist()
        size = self.places[-1] + specs[-1].nbytes + 44
        numbers = np.random.default_rng(0).standard_normal(size // 4 + 1).astype(np.float32)
        self.before = numbers.view(np.uint8)
        self.memory = self.before.copy()
        self.placed = PlacedCall(catalog.get(name), values, [layout_of(spec) for spec in specs], soc(DEFAULT_SOC))
        self.direct = self.placed.direct(self.memory)

    def bound(self, places: Sequence[int]) -> Any:
        self.memory[:] = self.before
        with np.errstate(all="ignore"):
            self.placed.place(self.memory, places)()
        return self.memory.copy()

    def without_binding(self, places: Sequence[int]) -> Any:
        """The memory after it, or None where it has to be bound."""
        assert self.direct is not None
        self.memory[:] = self.before
        done = self.direct(struct.pack(f"{len(places)}q", *places))
        if not done:
            assert np.array_equal(self.memory, self.before)
        return self.memory.copy() if done else None


SHAPES = [(size,) for size in SIZES]
NUMBER = Scalar(0.3, FLOAT)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("aclnnForeachMulScalarV2", [SHAPES, NUMBER, SHAPES]),
        ("aclnnForeachSqrt", [SHAPES, SHAPES]),
        ("aclnnForeachLerpScalar", [SHAPES, SHAPES, 0.1, SHAPES]),
        ("aclnnForeachAddcmulScalarV2", [SHAPES, SHAPES, SHAPES, NUMBER, SHAPES]),
        ("aclnnInplaceMul", [(40, 6), ()]),
        ("aclnnInplaceAddcdiv", [(7, 30), (7, 30), (7, 30), NUMBER]),
        ("aclnnAdd", [(3, 5, 70), (3, 5, 70), NUMBER, (3, 5, 70)]),
        ("aclnnMul", [(2, 3), (1,), (2, 3)]),
        ("aclnnReciprocal", [(), ()]),
    ],
)
def test_small_calls_without_binding_have_the_same_bits(helper: str, name: str, arguments: Sequence[Any]) -> None:
    call = Call(name, arguments)
    found, expected = call.without_binding(call.places), call.bound(call.places)
    assert found is not None and np.array_equal(found, expected)
    assert not np.array_equal(found, call.before)
    moved = [place + 8 for place in call.places]
    found, expected = call.without_binding(moved), call.bound(moved)
    assert found is not None and np.array_equal(found, expected)


def test_lists_whose_order_shows_are_bound(helper: str) -> None:
    """Each item over its own input is fine; an item over part of it or over another's is not."""
    call = Call("aclnnForeachMulScalarV2", [SHAPES, NUMBER, SHAPES])
    count, alone = len(SIZES), call.places
    in_place = [*alone[:count], *alone[:count]]
    found = call.without_binding(in_place)
    assert found is not None and np.array_equal(found, call.bound(in_place))
    rng, outcomes = np.random.default_rng(1), set()
    for _ in range(300):
        places = [*alone]
        which, other, shift = int(rng.integers(count, 2 * count)), int(rng.integers(count)), int(rng.integers(-3, 4))
        places[which] = max(0, places[other] + 4 * shift)
        found, expected = call.without_binding(places), call.bound(places)
        outcomes.add(found is None)
        assert found is None or np.array_equal(found, expected), places
    assert outcomes == {False, True}
    assert call.without_binding([*alone[:-1], alone[-1] + 1]) is None  # no address of a float


@pytest.mark.parametrize(
    ("name", "arguments", "dtype"),
    [
        ("aclnnAdd", [(3, 4), (1, 4), NUMBER, (3, 4)], FLOAT),  # broadcast along an axis
        ("aclnnAdd", [(3, 4), (3, 4), NUMBER, (3, 4)], FLOAT16),
        ("aclnnAdd", [(200, 200), (200, 200), NUMBER, (200, 200)], FLOAT),  # for all cores
        ("aclnnTanh", [(3, 4), (3, 4)], FLOAT),  # a function that NumPy has alone
        ("aclnnMm", [(3, 3), (3, 3), (3, 3), 0], FLOAT),  # not element by element
    ],
)
def test_other_calls_are_bound(helper: str, name: str, arguments: Sequence[Any], dtype: DataType) -> None:
    assert Call(name, arguments, dtype).direct is None
