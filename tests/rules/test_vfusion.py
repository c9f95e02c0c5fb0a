"""Rules of the vector fusions: what broadcasts, masks, deformable attention, statuses, what is allocated."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, OLD, accepted, detail, each_case, inferred, status, t

OK, NULL, INVALID, INNER_NULL = 0, 161001, 161002, 561103

_X, _ROW = t([2, 3, 4]), t([2, 4])
_SCORES, _MASK = t([1, 2, 32, 32]), t([1, 1, 32, 32], "BOOL")
_LEVELS = (t([1, 40, 8, 32]), t([2, 2], "INT32"), t([2], "INT32"), t([1, 500, 8, 2, 4, 2]), t([1, 500, 8, 2, 4]))

CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    ("aclnnModulate", OK, (_X, _ROW, _ROW, _X), A2),
    ("aclnnModulate", INVALID, (_X, None, _ROW, _X), A2),
    ("aclnnModulate", INVALID, (_X, t([2, 5]), None, _X), A2),
    ("aclnnModulate", INVALID, (_X, t([2, 4], "BF16"), None, _X), A2),
    ("aclnnModulate", NULL, (None, _ROW, _ROW, _X), A2),
    ("aclnnScaledMaskedSoftmax", OK, (_SCORES, _MASK, 1.0, False, _SCORES), A2),
    ("aclnnScaledMaskedSoftmax", INVALID, (_SCORES, t([1, 1, 32, 16], "BOOL"), 1.0, False, _SCORES), A2),
    ("aclnnScaledMaskedSoftmax", INVALID, (t([2, 32, 32]), _MASK, 1.0, False, t([2, 32, 32])), A2),
    ("aclnnScaledMaskedSoftmax", INVALID, (_SCORES, t([1, 1, 32, 32], "INT8"), 1.0, False, _SCORES), A2),
    ("aclnnScaledMaskedSoftmax", INNER_NULL, (None, _MASK, 1.0, False, _SCORES), A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


INFERRED: list[tuple[str, tuple[Any, ...], list[tuple[Any, str]]]] = [
    ("aclnnModulate", (t([2, 3, 4], "BF16"), t([2, 1, 4], "BF16"), t([2, 4], "BF16")), [((2, 3, 4), "BF16")]),
    ("aclnnModulateBackward", (_X, _X, _ROW, _ROW), [((2, 3, 4), "FLOAT"), ((2, 4), "FLOAT"), ((2, 4), "FLOAT")]),
    ("aclnnScaledMaskedSoftmax", (_SCORES, _MASK, 1.0, False), [((1, 2, 32, 32), "FLOAT")]),
    ("aclnnMultiScaleDeformableAttnFunction", _LEVELS, [((1, 500, 8 * 32), "FLOAT")]),
]


@pytest.mark.parametrize(("name", "values", "expected"), INFERRED, ids=[f"{i}-{c[0]}" for i, c in enumerate(INFERRED)])
def test_what_is_allocated(name: str, values: tuple[Any, ...], expected: list[tuple[Any, str]]) -> None:
    assert inferred(name, *values) == expected
    assert accepted(name, *values) == OK, "its own outputs are refused"


def test_chips_differ() -> None:
    assert status("aclnnModulate", _X, _ROW, _ROW, _X, soc=OLD) != OK
