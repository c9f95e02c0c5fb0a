"""Rules of losses: reductions, targets, weights, products, statuses, what is allocated."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, OLD, OLD_310P, accepted, detail, each_case, inferred, status, t

OK, NULL, INVALID, INNER_NULL, TILING = 0, 161001, 161002, 561103, 561002
NONE, MEAN, SUM = 0, 1, 2

_X, _Y = t([2, 3]), t([2, 3])
_LABELS, _WEIGHT = t([2], "INT64"), t([3])

CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    # elementwise: broadcasting, what a reduction leaves
    ("aclnnMseLoss", OK, (_X, t([3]), NONE, t([2, 3])), A2),
    ("aclnnMseLoss", INVALID, (_X, t([3]), NONE, t([3])), A2),
    ("aclnnMseLoss", OK, (_X, _Y, MEAN, t([])), A2),
    ("aclnnMseLoss", INVALID, (_X, _Y, 3, t([])), A2),
    ("aclnnMseLoss", INVALID, (_X, t([4]), MEAN, t([])), A2),
    ("aclnnMseLoss", INVALID, (t([2], "BF16"), t([2], "BF16"), MEAN, t([], "BF16")), OLD),
    ("aclnnMseLoss", NULL, (_X, None, MEAN, t([])), A2),
    ("aclnnL1Loss", INVALID, (t([2], "INT32"), t([2]), NONE, t([2], "INT32")), A2),
    ("aclnnSmoothL1Loss", INVALID, (_X, _Y, SUM, -1.0, t([])), A2),
    ("aclnnBinaryCrossEntropy", INVALID, (_X, t([2, 4]), None, MEAN, t([])), A2),
    ("aclnnBinaryCrossEntropyWithLogits", INVALID, (_X, _Y, t([5]), None, MEAN, t([])), A2),
    ("aclnnBinaryCrossEntropyWithLogitsBackward", NULL, (None, _X, _Y, None, None, MEAN, _X), A2),
    # classes
    ("aclnnNLLLoss", OK, (_X, _LABELS, _WEIGHT, MEAN, -100, t([]), t([])), A2),
    ("aclnnNLLLoss", OK, (_X, _LABELS, _WEIGHT, NONE, -100, t([2]), t([])), A2),
    ("aclnnNLLLoss", INVALID, (_X, t([3], "INT64"), _WEIGHT, MEAN, -100, t([]), t([])), A2),
    ("aclnnNLLLoss", INVALID, (_X, _LABELS, t([2]), MEAN, -100, t([]), t([])), A2),
    ("aclnnNLLLoss", INVALID, (_X, t([2], "FLOAT"), _WEIGHT, MEAN, -100, t([]), t([])), A2),
    ("aclnnNLLLoss2d", INVALID, (_X, _LABELS, _WEIGHT, MEAN, -100, t([]), t([])), A2),
    ("aclnnCtcLoss", INVALID, (t([5, 2, 4]), t([2, 3], "INT64"), (5, 5), (3,), 0, False, t([2]), t([2, 5, 7])), A2),
    ("aclnnCtcLoss", INVALID, (t([5, 2, 4]), t([2, 3], "INT64"), (5, 5), (3, 3), 4, False, t([2]), t([2, 5, 7])), A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


INFERRED: list[tuple[str, tuple[Any, ...], list[tuple[Any, str]]]] = [
    ("aclnnMseLoss", (t([2, 3], "FLOAT16"), t([3]), NONE), [((2, 3), "FLOAT")]),
    ("aclnnMseLoss", (_X, _Y, SUM), [((), "FLOAT")]),
    ("aclnnMseLossBackward", (t([]), _X, t([3]), MEAN), [((2, 3), "FLOAT")]),
    ("aclnnL1Loss", (t([2, 3], "FLOAT16"), t([2, 3], "FLOAT16"), MEAN), [((), "FLOAT16")]),
    ("aclnnSmoothL1Loss", (_X, _Y, NONE, 1.0), [((2, 3), "FLOAT")]),
    ("aclnnBinaryCrossEntropyWithLogits", (_X, _Y, None, t([3]), NONE), [((2, 3), "FLOAT")]),
    ("aclnnNLLLoss", (_X, _LABELS, _WEIGHT, NONE, -100), [((2,), "FLOAT"), ((), "FLOAT")]),
    ("aclnnNLLLoss", (t([3]), t([], "INT64"), _WEIGHT, MEAN, -100), [((), "FLOAT"), ((), "FLOAT")]),
    (
        "aclnnNLLLoss2d",
        (t([2, 3, 4, 5]), t([2, 4, 5], "INT64"), _WEIGHT, NONE, -100),
        [((2, 4, 5), "FLOAT"), ((), "FLOAT")],
    ),
    ("aclnnNLLLossBackward", (t([]), _X, _LABELS, _WEIGHT, MEAN, -100, t([])), [((2, 3), "FLOAT")]),
    (
        "aclnnCrossEntropyLoss",
        (_X, _LABELS, None, "mean", -100, 0.0, 0.0, False),
        [((1,), "FLOAT"), ((2, 3), "FLOAT"), ((1,), "FLOAT"), ((2,), "FLOAT")],
    ),
    (
        "aclnnCtcLoss",
        (t([5, 2, 4]), t([2, 3], "INT64"), (5, 5), (3, 2), 0, False),  # 2 * 3 + 1 states, rounded up to blocks of 8
        [((2,), "FLOAT"), ((2, 5, 8), "FLOAT")],
    ),
    ("aclnnMultilabelMarginLoss", (_X, t([2, 3], "INT64"), MEAN), [((), "FLOAT"), ((2, 3), "FLOAT")]),
    ("aclnnLogit", (t([2], "BF16"), 0.1), [((2,), "BF16")]),
]


@pytest.mark.parametrize(("name", "values", "expected"), INFERRED, ids=[f"{i}-{c[0]}" for i, c in enumerate(INFERRED)])
def test_what_is_allocated(name: str, values: tuple[Any, ...], expected: list[tuple[Any, str]]) -> None:
    assert inferred(name, *values) == expected
    assert accepted(name, *values) == OK, "its own outputs are refused"


def test_graph_errors_of_missing_inputs() -> None:
    """Two operators look at their inputs only while they build the graph."""
    assert status("aclnnBinaryCrossEntropy", None, _Y, None, MEAN, t([])) == INNER_NULL


def test_chips_differ() -> None:
    values = (t([2], "BF16"), t([2], "BF16"), NONE, t([2], "BF16"))
    assert [status("aclnnL1Loss", *values, soc=soc) for soc in (A2, OLD, OLD_310P)] == [OK, INVALID, INVALID]


def test_a_refusal_names_the_reduction() -> None:
    assert detail("aclnnMseLoss", _X, _Y, 7, t([])).startswith("reduction is 7")
