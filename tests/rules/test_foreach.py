"""Rules of ops-nn/foreach: lists of equal length, shape and data type; what a scalar's data type may be; inference."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD, detail, each_case, inferred, s, status, t

from ascend_aclnn import catalog, rules

OK, NULL, INVALID, TILING = 0, 161001, 161002, 561002


def two(dtype: str = "FLOAT") -> list[Any]:
    return [t([2, 3], dtype), t([4], dtype)]


CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    ("aclnnForeachSqrt", OK, (two(), two()), A2),
    ("aclnnForeachSqrt", OK, ([], []), A2),
    ("aclnnForeachSqrt", INVALID, (two(), two()), OLD),
    ("aclnnForeachSqrt", INVALID, (two(), two()[:1]), A2),
    ("aclnnForeachSqrt", INVALID, (two(), two()[::-1]), A2),
    ("aclnnForeachSqrt", INVALID, ([t([2]), t([2], "FLOAT16")], [t([2]), t([2])]), A2),
    ("aclnnForeachSqrt", INVALID, ([t([1] * 9)], [t([1] * 9)]), A2),
    ("aclnnForeachSqrt", NULL, (None, two()), A2),
    ("aclnnForeachSqrt", NULL, ([t([2]), None], [t([2]), t([2])]), A2),
    ("aclnnForeachExp", OK, (two("INT16"), two("INT16")), A2),
    ("aclnnForeachExp", INVALID, (two("INT16"), two("INT16")), NEW_950),
    ("aclnnForeachLogInplace", INVALID, (two(),), A2),
    ("aclnnForeachLogInplace", OK, (two(),), NEW_950),
    ("aclnnForeachCopy", OK, (two(), two("BF16")), A2),
    ("aclnnForeachCopy", INVALID, (two("FLOAT16"), two("BF16")), A2),
    ("aclnnForeachAddListV2", OK, (two("INT8"), two("INT8"), s(2, "INT64"), two("INT8")), A2),
    ("aclnnForeachAddListV2", INVALID, (two("INT8"), two("INT8"), s(2.0, "DOUBLE"), two("INT8")), A2),
    ("aclnnForeachAddScalarV2", INVALID, (two("FLOAT16"), s(2.0, "FLOAT"), two("FLOAT16")), A2),
    ("aclnnForeachAddScalarV2", OK, (two("FLOAT16"), s(2.0, "FLOAT"), two("FLOAT16")), NEW_950),
    ("aclnnForeachAddScalarV2", NULL, (two(), s(2.0, "FLOAT"), two()[:1]), A2),
    ("aclnnForeachMulScalarV2", INVALID, (two(), s(2.0, "FLOAT"), two()[:1]), A2),
    ("aclnnForeachAddcmulScalarV2", OK, (two(), two(), two(), s(2.0, "DOUBLE"), two()), A2),
    ("aclnnForeachMaximumScalarV2", INVALID, (two("FLOAT16"), s(1e6, "DOUBLE"), two("FLOAT16")), A2),
    ("aclnnForeachMaximumScalarV2", OK, (two("FLOAT16"), s(1e6, "FLOAT16"), two("FLOAT16")), A2),
    ("aclnnForeachDivScalarList", TILING, (two(), [s(2.0, "FLOAT")], two()), A2),
    ("aclnnForeachDivScalarList", OK, (two(), [s(2.0, "FLOAT")] * 2, two()), A2),
    ("aclnnForeachNorm", OK, (two(), s(2, "INT64"), [t([1]), t([])]), A2),
    ("aclnnForeachNorm", TILING, (two(), s(2, "INT64"), two()), A2),
    ("aclnnForeachNonFiniteCheckAndUnscale", INVALID, (two(), t([1], "FLOAT16"), t([1])), A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


@pytest.mark.parametrize(
    ("name", "values", "outputs"),
    [
        ("aclnnForeachSqrt", (two("BF16"),), [([(2, 3), (4,)], "BF16")]),
        ("aclnnForeachAddListV2", (two(), two(), s(1, "INT64")), [([(2, 3), (4,)], "FLOAT")]),
        ("aclnnForeachNorm", (two(), s(2, "INT64")), [([(), ()], "FLOAT")]),
    ],
)
def test_inference(name: str, values: tuple[Any, ...], outputs: list[Any]) -> None:
    assert inferred(name, *values) == outputs


def test_every_output_is_inferred() -> None:
    for name in catalog.names():
        operator = catalog.get(name)
        if operator.family == "ops-nn/foreach" and not operator.experimental:
            found = rules.find(operator)
            assert found is not None, name
            outputs = {p.name for p in operator.parameters if p.direction == "out"}
            assert outputs <= set(found.shapes), name
