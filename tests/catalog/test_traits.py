"""Traits of operators: about operators that exist, and what the accuracy standards derived from them accept."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ascend_aclnn import catalog, ops, reference
from ascend_aclnn.catalog import single
from ascend_aclnn.cli.coverage import coverage
from ascend_aclnn.testing import compare
from ascend_aclnn.testing.standards import STANDARDS

TRAITS = json.loads((catalog.FOLDER / "traits.json").read_text(encoding="utf-8"))
NAMES = set(catalog.names())


def test_traits_are_about_operators_and_give_a_reason() -> None:
    families = {catalog.get(name).family for name in NAMES} | {"hccl"}  # collectives, which no header of aclnn has
    for trait, row in TRAITS.items():
        assert row["why"], trait
        assert set(row.get("operators", ())) <= NAMES | set(single.names()), trait
        assert set(row.get("families", ())) <= families, trait
        assert len(set(row.get("operators", ()))) == len(row.get("operators", ())), trait


def test_every_operator_has_one_standard() -> None:
    standards = [row["operators"] for trait, row in TRAITS.items() if trait.startswith("accuracy_")]
    listed = [name for names in standards for name in names]
    assert len(listed) == len(set(listed))
    assert {catalog.get(name).accuracy_standard for name in NAMES} <= STANDARDS.keys()
    assert catalog.get("aclnnRmsNorm").accuracy_standard == "default"
    assert catalog.get("aclnnIndexSelect").accuracy_standard == "bit_equal"
    assert catalog.get("aclnnAscendQuant").accuracy_standard == "off_by_one"
    assert catalog.get("aclnnInplaceNormal").accuracy_standard == "unspecified"


@pytest.mark.parametrize(
    ("operator", "dtype", "error", "accurate"),
    [
        ("aclnnIndexSelect", np.float32, 1e-7, False),  # a copy that is not one
        ("aclnnAdd", np.float32, 1e-7, True),
        ("aclnnAdd", np.int32, 1, False),
        ("aclnnDynamicQuant", np.int8, 1, True),
        ("aclnnDynamicQuant", np.int8, 2, False),
        ("aclnnDynamicQuant", np.float32, 0.5, False),  # its scale is a float: one is far too much
        ("aclnnInplaceNormal", np.float32, 1.0, True),
    ],
)
def test_the_standard_of_an_operator_decides(operator: str, dtype: type, error: float, accurate: bool) -> None:
    golden: Any = np.arange(1, 13).astype(dtype)
    assert compare((golden + error).astype(dtype), golden, operator=operator).accurate is accurate


def test_the_outputs_of_every_computed_operator_are_told_or_there_is_a_reason() -> None:
    """Experimental operators may have outputs to pass; of the others, only those of the trait do."""
    untold = {
        name
        for name in catalog.names()
        if not (operator := catalog.get(name)).experimental
        and reference.find(operator) is not None
        and not coverage(operator).outputs
    }
    assert untold == set(TRAITS["chosen_outputs"]["operators"])


def test_an_output_that_is_the_callers_choice_says_why() -> None:
    with pytest.raises(TypeError, match=r"does not follow from the inputs \(as many counts as the largest number asks"):
        ops.bincount(np.array([1, 2], np.int32), minlength=0)
