"""Rules of pooling: windows, padding, ceil mode, formats, products, statuses, what is allocated."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD, detail, each_case, inferred, status, t

OK, NULL, INVALID = 0, 161001, 161002


def nchw(*shape: int, dtype: str = "FLOAT") -> Any:
    return t(shape, dtype, {3: "NCL", 4: "NCHW", 5: "NCDHW"}.get(len(shape), "ND"))


_X = nchw(1, 2, 7, 7)
_AVG = ((3,), (2,), (0,), False, True, 0, 1)
_MAX = ((3, 3), (2, 2), (0, 0), (1, 1), False)

CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    ("aclnnAvgPool2d", OK, (_X, *_AVG, nchw(1, 2, 3, 3)), A2),
    ("aclnnAvgPool2d", INVALID, (_X, *_AVG, nchw(1, 2, 4, 4)), A2),
    ("aclnnAvgPool2d", INVALID, (_X, (0,), (2,), (0,), False, True, 0, 1, nchw(1, 2, 3, 3)), A2),
    ("aclnnAvgPool2d", INVALID, (_X, (3,), (2,), (2,), False, True, 0, 1, nchw(1, 2, 5, 5)), A2),
    ("aclnnAvgPool2d", INVALID, (_X, (3, 3, 3), (2,), (0,), False, True, 0, 1, nchw(1, 2, 3, 3)), A2),
    ("aclnnAvgPool2d", INVALID, (nchw(7, 7), *_AVG, nchw(3, 3)), A2),
    ("aclnnAvgPool2d", NULL, (_X, None, (2,), (0,), False, True, 0, 1, nchw(1, 2, 3, 3)), A2),
    ("aclnnMaxPool", OK, (_X, (3, 3), (2, 2), 0, (0, 0, 0, 0), (1,), 0, nchw(1, 2, 3, 3)), A2),
    ("aclnnMaxPool", INVALID, (_X, (3, 3), (2, 2), 1, (0, 0, 0, 0), (1,), 0, nchw(1, 2, 3, 3)), A2),
    ("aclnnMaxPool", INVALID, (_X, (3, 3), (2, 2), 0, (2, 2, 2, 2), (1,), 0, nchw(1, 2, 5, 5)), A2),
    ("aclnnMaxPool", INVALID, (_X, (3, 3), (2, 2), 0, (0, 0, 0), (1,), 0, nchw(1, 2, 3, 3)), A2),
    (
        "aclnnMaxPool2dWithMask",
        INVALID,
        (_X, (3, 3, 3), *_MAX[1:], nchw(1, 2, 3, 3), nchw(1, 2, 9, 64, dtype="INT8")),
        A2,
    ),
    ("aclnnAdaptiveAvgPool2d", OK, (_X, (2, 5), nchw(1, 2, 2, 5)), A2),
    ("aclnnAdaptiveAvgPool2d", INVALID, (_X, (2,), nchw(1, 2, 2, 5)), A2),
    ("aclnnAdaptiveAvgPool2d", INVALID, (_X, (2, 5), nchw(1, 2, 5, 2)), A2),
    ("aclnnAdaptiveMaxPool2d", INVALID, (_X, (2, 2), nchw(1, 2, 2, 2), nchw(1, 2, 2, 3, dtype="INT64")), A2),
    ("aclnnAdaptiveAvgPool3d", INVALID, (_X, (2, 2, 2), _X), A2),
    ("aclnnAdaptiveAvgPool2dBackward", INVALID, (nchw(1, 3, 2, 2), _X, _X), A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


INFERRED: list[tuple[str, tuple[Any, ...], list[tuple[Any, str]]]] = [
    ("aclnnAvgPool2d", (t([2, 7, 7], "FLOAT16"), *_AVG), [((2, 3, 3), "FLOAT16")]),
    ("aclnnAvgPool2d", (t([1, 2, 8, 8]), (3,), (), (1,), True, True, 0, 1), [((1, 2, 3, 3), "FLOAT")]),
    ("aclnnAvgPool2d", (t([1, 2, 8, 8]), (3, 2), (2, 1), (0, 0), True, True, 0, 1), [((1, 2, 4, 7), "FLOAT")]),
    ("aclnnAvgPool2dBackward", (t([1, 2, 3, 3]), t([1, 2, 7, 7]), *_AVG), [((1, 2, 7, 7), "FLOAT")]),
    ("aclnnAvgPool3d", (t([2, 7, 7, 7]), (3,), (2,), (0,), False, True, 0), [((2, 3, 3, 3), "FLOAT")]),
    ("aclnnMaxPool", (t([1, 2, 7, 8]), (3, 3), (2, 2), 0, (0, 0, 0, 1), (1,), 0), [((1, 2, 3, 4), "FLOAT")]),
    (
        "aclnnMaxPool2dWithIndices",
        (t([1, 2, 7, 7]), *_MAX),
        [((1, 2, 3, 3), "FLOAT"), ((1, 2, 3, 3), "INT32")],
    ),
    (
        "aclnnMaxPool2dWithMask",
        (t([1, 2, 7, 7], "FLOAT16"), *_MAX),
        [((1, 2, 3, 3), "FLOAT16"), ((1, 2, 9, 64), "INT8")],  # bits of 9 windows: one block, and one after it
    ),
    (
        "aclnnMaxPool3dWithArgmax",
        (t([1, 2, 7, 7, 7]), (3,), (2,), (0,), (1,), True),
        [((1, 2, 3, 3, 3), "FLOAT"), ((1, 2, 3, 3, 3), "INT32")],
    ),
    ("aclnnAdaptiveAvgPool2d", (t([2, 7, 7]), (2, 5)), [((2, 2, 5), "FLOAT")]),
    ("aclnnAdaptiveAvgPool3d", (t([1, 2, 7, 7, 7]), (1, 2, 3)), [((1, 2, 1, 2, 3), "FLOAT")]),
    ("aclnnAdaptiveMaxPool2d", (t([1, 2, 7, 7]), (2, 5)), [((1, 2, 2, 5), "FLOAT"), ((1, 2, 2, 5), "INT64")]),
    ("aclnnAdaptiveAvgPool2dBackward", (t([1, 2, 3, 3]), t([1, 2, 7, 7])), [((1, 2, 7, 7), "FLOAT")]),
]


@pytest.mark.parametrize(("name", "values", "expected"), INFERRED, ids=[f"{i}-{c[0]}" for i, c in enumerate(INFERRED)])
def test_what_is_allocated(name: str, values: tuple[Any, ...], expected: list[tuple[Any, str]]) -> None:
    assert inferred(name, *values) == expected


@pytest.mark.parametrize("rank", [3, 4])
def test_planes_with_and_without_a_batch(rank: int) -> None:
    planes = nchw(*(1, 2, 7, 7)[4 - rank :])
    pooled = nchw(*(1, 2, 3, 3)[4 - rank :])
    assert status("aclnnAvgPool2d", planes, *_AVG, pooled) == OK


def test_chips_differ() -> None:
    values = (nchw(1, 2, 7, 7, dtype="BF16"), *_AVG, nchw(1, 2, 3, 3, dtype="BF16"))
    assert [status("aclnnAvgPool2d", *values, soc=soc) for soc in (A2, NEW_950, OLD)] == [OK, OK, INVALID]


def test_a_refusal_names_the_attribute() -> None:
    wrong = (_X, (3,), (-1,), (0,), False, True, 0, 1, nchw(1, 2, 3, 3))
    assert detail("aclnnAvgPool2d", *wrong).startswith("strides is (-1,)")
