"""Calls on tensors at given places: whether written memory may overlap what is read."""

from __future__ import annotations

import itertools

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
    operator = catalog.get("aclnnForeachMulScalarV2")
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
