"""Rules of ops-nn/quant: scales, modes and packed 4-bit results by product; blocks of Ascend 950; inference."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD, OLD_310P, each_case, inferred, status, t

OK, NULL, INVALID, INNER, NO_KERNEL, TILING = 0, 161001, 161002, 561000, 361001, 561002
INT8, INT32, INT4, E8M0 = 2, 3, 29, 37


def quant(x: Any, scale: Any, offset: Any, mode: Any, dst: int, y: Any, *axis: int) -> tuple[Any, ...]:
    return (x, scale, offset, False, mode, dst, *axis, y)


def dynamic(x: Any, smooth: Any, groups: Any, y: Any, scale: Any, offset: Any) -> tuple[Any, ...]:
    return x, smooth, groups, INT8, y, scale, offset


def flat(x: Any, n: int, clip: float, out: Any, scale: Any) -> tuple[Any, ...]:
    return x, t([4, 4], "BF16"), t([n, n], "BF16"), clip, out, scale


X, ROW = t([3, 8]), t([8])
CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    ("aclnnAscendQuant", OK, quant(X, ROW, ROW, "round", INT8, t([3, 8], "INT8")), A2),
    ("aclnnAscendQuant", INVALID, quant(X, t([3]), None, "round", INT8, t([3, 8], "INT8")), A2),
    ("aclnnAscendQuant", INVALID, quant(X, ROW, None, None, INT8, t([3, 8], "INT8")), A2),
    ("aclnnAscendQuant", INVALID, quant(X, ROW, None, "rint", INT8, t([3, 8], "INT8")), A2),
    ("aclnnAscendQuant", OK, quant(X, ROW, None, "round", INT32, t([3, 1], "INT32")), A2),
    ("aclnnAscendQuant", INVALID, quant(X, ROW, None, "round", INT32, t([3, 1], "INT32")), OLD_310P),
    ("aclnnAscendQuant", INVALID, quant(X, ROW, None, "round", INT8, t([3, 8], "INT8")), NEW_950),
    ("aclnnAscendQuantV3", OK, quant(X, t([3, 1]), None, "round", INT8, t([3, 8], "INT8"), -2), A2),
    ("aclnnAscendQuantV3", INVALID, quant(X, t([3, 1]), None, "round", INT8, t([3, 8], "INT8"), 0), OLD_310P),
    ("aclnnAscendQuantV3", INVALID, quant(t([2, 3, 8]), t([2]), None, "round", INT8, t([2, 3, 8], "INT8"), 0), A2),
    ("aclnnAscendAntiQuant", OK, (t([3, 8], "INT8"), ROW, None, 1, False, t([3, 8], "FLOAT16")), A2),
    ("aclnnAscendAntiQuant", OK, (t([3, 1], "INT32"), ROW, None, 1, False, t([3, 8], "FLOAT16")), A2),
    ("aclnnAscendAntiQuant", INVALID, (t([3, 8], "INT8"), t([1, 8]), None, 1, False, t([3, 8], "FLOAT16")), A2),
    ("aclnnAscendAntiQuant", INVALID, (t([3, 8], "INT8"), ROW, None, 27, False, t([3, 8], "FLOAT16")), A2),
    ("aclnnQuantize", OK, (X, t([3]), t([3], "INT8"), INT8, 0, t([3, 8], "INT8")), A2),
    ("aclnnQuantize", INVALID, (X, t([3]), t([3], "FLOAT"), INT8, 0, t([3, 8], "INT8")), A2),
    ("aclnnQuantize", OK, (X, t([3]), t([3], "FLOAT"), INT8, 0, t([3, 8], "INT8")), NEW_950),
    ("aclnnQuantize", INVALID, (t([3, 8], "BF16"), t([1], "BF16"), t([1], "INT8"), INT8, 0, t([3, 8], "INT8")), A2),
    ("aclnnDynamicQuant", OK, (t([3, 8], "BF16"), None, t([3, 8], "INT8"), t([3])), A2),
    ("aclnnDynamicQuant", INVALID, (t([3, 8], "BF16"), None, t([3, 8], "INT8"), t([3])), OLD),
    ("aclnnDynamicQuant", INVALID, (t([8], "BF16"), None, t([8], "INT8"), t([])), A2),
    (
        "aclnnDynamicQuantV2",
        OK,
        dynamic(t([3, 8], "BF16"), t([8], "BF16"), None, t([3, 8], "INT8"), t([3]), None),
        A2,
    ),
    (
        "aclnnDynamicQuantV2",
        INVALID,
        dynamic(t([3, 8], "BF16"), t([3], "BF16"), None, t([3, 8], "INT8"), t([3]), None),
        A2,
    ),
    ("aclnnDynamicQuantV3", INNER, (None, None, None, INT8, True, None, None, None, None), A2),
    ("aclnnDynamicQuantV3", NULL, (None, None, None, INT8, True, "pertoken", None, None, None), NEW_950),
    (
        "aclnnDynamicQuantV3",
        OK,
        (t([2, 3, 8], "BF16"), None, None, INT8, False, "perchannel", t([2, 3, 8], "INT8"), t([2, 8]), t([2, 8])),
        NEW_950,
    ),
    ("aclnnFlatQuant", OK, flat(t([5, 4, 8], "BF16"), 8, 1.0, t([5, 4, 1], "INT32"), t([5])), A2),
    ("aclnnFlatQuant", INVALID, flat(t([5, 4, 8], "BF16"), 8, 0.0, t([5, 4, 1], "INT32"), t([5])), A2),
    ("aclnnFlatQuant", INVALID, flat(t([5, 4, 7], "BF16"), 7, 1.0, t([5, 4, 7], "INT4"), t([5])), A2),
    ("aclnnFakeQuantPerTensorAffineCachemask", 561103, (None,) * 8, A2),
    ("aclnnTransQuantParamV2", OK, (t([1, 8]), None, t([1, 8], "UINT64")), A2),
    ("aclnnTransQuantParamV2", INVALID, (t([2, 8]), None, t([2, 8], "UINT64")), A2),
    ("aclnnTransQuantParamV2", OK, (t([2, 8]), None, t([2, 8], "UINT64")), NEW_950),
    (
        "aclnnSwigluGroupGrad",
        INVALID,
        (X, t([3, 16]), t([3]), None, None, 0.0, t([3, 16]), t([3])),
        NEW_950,
    ),
    ("aclnnDynamicMxQuant", NO_KERNEL, (X, -1, None, 40, 32, 0, t([3, 8], "FLOAT4_E2M1"), t([3, 1, 2])), A2),
    (
        "aclnnDynamicMxQuant",
        TILING,
        (X, -1, None, 40, 32, 0, t([3, 8], "FLOAT4_E2M1"), t([3, 2, 2], "FLOAT8_E8M0")),
        NEW_950,
    ),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected


INFERRED: list[tuple[str, tuple[Any, ...], str, list[tuple[Any, str]]]] = [
    ("aclnnAscendQuant", (X, ROW, None, False, "round", INT32), A2, [((3, 1), "INT32")]),
    ("aclnnAscendAntiQuant", (t([3, 1], "INT32"), ROW, None, 27, False), A2, [((3, 8), "BF16")]),
    ("aclnnDynamicQuant", (t([2, 3, 8], "BF16"), None), A2, [((2, 3, 8), "INT8"), ((2, 3), "FLOAT")]),
    (
        "aclnnDynamicQuantV3",
        (t([2, 3, 8], "BF16"), None, None, INT8, True, "pertensor"),
        NEW_950,
        [((2, 3, 8), "INT8"), ((1,), "FLOAT"), (None, "")],
    ),
    (
        "aclnnDynamicMxQuant",
        (t([3, 100]), -1, None, 36, 32, 0),
        NEW_950,
        [((3, 100), "FLOAT8_E4M3FN"), ((3, 2, 2), "FLOAT8_E8M0")],
    ),
    (
        "aclnnDynamicBlockQuant",
        (t([130, 200], "BF16"), 0.0, None, INT8, 1, 128),
        A2,
        [((130, 200), "INT8"), ((130, 2), "FLOAT")],
    ),
    ("aclnnSwiGluQuant", (t([4, 16]), None, None, None, True, None), A2, [((4, 8), "INT8"), ((4,), "FLOAT")]),
]


@pytest.mark.parametrize(("name", "values", "soc", "expected"), INFERRED)
def test_inferred(name: str, values: tuple[Any, ...], soc: str, expected: list[tuple[Any, str]]) -> None:
    assert inferred(name, *values, soc=soc) == expected
