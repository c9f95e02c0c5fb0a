"""Rules of ops-transformer/gmm: lists, splits along M and K, quantised operands, products, inference."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from rule_tools import A2, NEW_950, OLD_310P, each_case, inferred, status, t

OK, NULL, INVALID = 0, 161001, 161002


def v1(x: Any, weight: Any, groups: Any, split: int, y: Any, bias: Any = None, **given: Any) -> tuple[Any, ...]:
    names = ("scale", "offset", "antiquant_scale", "antiquant_offset")
    return (x, weight, bias, *(given.get(n) for n in names), groups, split, y)


def v5(
    x: Any, weight: Any, groups: Any, split: int, kind: int, y: Any, act: int = 0, bias: Any = None, **given: Any
) -> tuple[Any, ...]:
    names = ("scale", "offset", "antiquant_scale", "antiquant_offset", "token")
    optional = (given.get(n) for n in names)
    return (
        x,
        weight,
        bias,
        *optional,
        groups,
        None,
        None,
        None,
        split,
        kind,
        1,
        act,
        given.get("tuning"),
        y,
        None,
        None,
    )


def half(*shape: int, strides: Optional[tuple[int, ...]] = None) -> Any:
    return t(shape, "FLOAT16", strides=strides)


def int8(*shape: int) -> Any:
    return t(shape, "INT8")


ENDS, X, W, Y = t([2], "INT64"), [half(5, 16)], [half(2, 16, 32)], [half(5, 32)]
X8, W8 = [int8(5, 16)], [int8(2, 16, 32)]
W4, SCALE4 = [t([2, 16, 32], "INT4")], [t([2, 1, 32], "UINT64")]
PAIR = [half(16, 32), half(16, 32)]
CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    ("aclnnGroupedMatmul", OK, v1([half(3, 16), half(2, 16)], PAIR, None, 0, [half(3, 32), half(2, 32)]), A2),
    ("aclnnGroupedMatmul", OK, v1(X, PAIR, (3, 5), 3, Y), A2),
    ("aclnnGroupedMatmul", INVALID, v1(X, PAIR, (3, 4), 3, Y), A2),
    ("aclnnGroupedMatmul", INVALID, v1(X, PAIR, None, 3, Y), A2),
    ("aclnnGroupedMatmul", INVALID, v1(X, PAIR, (3, 5), 3, Y), OLD_310P),
    ("aclnnGroupedMatmul", NULL, v1([], PAIR, None, 3, Y), A2),
    ("aclnnGroupedMatmulV5", OK, v5(X, W, ENDS, 3, 0, Y), A2),
    ("aclnnGroupedMatmulV5", OK, v5(X, W, ENDS, 3, 0, Y), OLD_310P),
    ("aclnnGroupedMatmulV5", NULL, v5(X, [None], ENDS, 3, 0, Y), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5(X, W, None, 3, 0, Y), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5(X, W, ENDS, 0, 0, Y), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5(X, W, ENDS, 3, 1, Y), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5(X, W, ENDS, 3, 0, [half(5, 31)]), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5(X, W, ENDS, 3, 0, Y, act=1), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5(X, W, ENDS, 3, 0, [t([5, 32], "BF16")]), A2),
    ("aclnnGroupedMatmulV5", OK, v5(X, W, ENDS, 3, 0, Y, bias=[half(2, 32)]), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5(X, W, ENDS, 3, 0, Y, bias=[half(3, 32)]), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5(X, W, ENDS, 3, 0, Y, tuning=(6,)), A2),
    ("aclnnGroupedMatmulV5", OK, v5([half(16, 5, strides=(1, 16))], [half(5, 8)], ENDS, 3, 2, [half(2, 16, 8)]), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5([half(16, 5)], [half(5, 8)], ENDS, 3, 2, [half(2, 16, 8)]), A2),
    ("aclnnGroupedMatmulV5", OK, v5(X8, W8, ENDS, 3, 0, Y, act=1, scale=[t([2, 32])], token=[t([5])]), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5(X8, W8, ENDS, 3, 0, Y, token=[t([5])]), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5(X8, W8, ENDS, 3, 0, [t([5, 32], "BF16")], scale=[t([2, 32])]), A2),
    ("aclnnGroupedMatmulV5", OK, v5(X8, W8, ENDS, 3, 0, [t([5, 32], "INT32")]), A2),
    ("aclnnGroupedMatmulV5", INVALID, v5(X, W8, ENDS, 3, 0, Y), A2),
    (
        "aclnnGroupedMatmulV5",
        OK,
        v5(X, W8, ENDS, 3, 0, Y, antiquant_scale=[half(2, 32)], antiquant_offset=[half(2, 32)]),
        A2,
    ),
    (
        "aclnnGroupedMatmulV5",
        OK,
        v5(X8, W4, ENDS, 3, 0, Y, bias=[t([2, 32])], scale=SCALE4, offset=[t([2, 1, 32])], token=[t([5, 1])]),
        A2,
    ),
    ("aclnnGroupedMatmulV5", INVALID, v5(X8, W4, ENDS, 3, 0, Y, scale=SCALE4, offset=[t([2, 1, 32])]), A2),
    ("aclnnGroupedMatmulAdd", OK, (half(16, 5), half(16, 8), ENDS, t([2, 5, 8]), True, False, 2), A2),
    ("aclnnGroupedMatmulAdd", INVALID, (half(16, 5), half(16, 8), ENDS, t([2, 5, 8]), False, False, 2), A2),
    ("aclnnGroupedMatmulAdd", OK, (half(16, 5), half(16, 8), ENDS, t([10, 8]), True, False, 2), A2),
    ("aclnnGroupedMatmulAdd", INVALID, (half(16, 5), half(16, 8), ENDS, t([10, 8]), True, False, 2), NEW_950),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected


def routing(x: Any, w: Any, scale: Any, bias: Any, token: Any, rows: int, out: Any) -> tuple[Any, ...]:
    logit, row = t([rows]), t([rows], "INT64")
    return x, w, scale, bias, token, ENDS, None, logit, row, 0, 1.0, 0, False, False, 1, out


def test_finalize_routing_takes_packed_weights() -> None:
    x, w, out = int8(6, 192), t([2, 192, 16], "INT32"), t([4, 128])
    scale, bias, token = t([2, 1, 128], "INT64"), t([2, 128]), t([6])
    name = "aclnnGroupedMatmulFinalizeRouting"
    assert status(name, *routing(x, w, scale, bias, token, 6, out)) == OK
    assert status(name, *routing(x, w, scale, None, token, 6, out)) == NULL
    assert status(name, *routing(x, int8(2, 192, 128), scale, bias, token, 6, out)) == INVALID
    assert status(name, *routing(x, w, scale, bias, token, 6, t([7, 128]))) == INVALID
    assert inferred(name, *routing(x, w, scale, bias, token, 6, None)[:-1]) == [((6, 128), "FLOAT")]


INFERRED: list[tuple[str, tuple[Any, ...], list[tuple[int, ...]], str]] = [
    ("aclnnGroupedMatmul", v1([half(3, 16), half(2, 16)], PAIR, None, 0, None), [(3, 32), (2, 32)], "FLOAT16"),
    ("aclnnGroupedMatmul", v1(X, PAIR, (3, 5), 0, None), [(3, 32), (2, 32)], "FLOAT16"),
    ("aclnnGroupedMatmulV5", v5(X, W, ENDS, 3, 0, None)[:-3], [(5, 32)], "FLOAT16"),
    ("aclnnGroupedMatmulV5", v5(X8, W8, ENDS, 3, 0, None)[:-3], [(5, 32)], "INT32"),
    ("aclnnGroupedMatmulV5", v5(X8, W8, ENDS, 3, 0, None, scale=[t([2, 32], "BF16")])[:-3], [(5, 32)], "BF16"),
    ("aclnnGroupedMatmulV5", v5([half(16, 5)], [half(5, 8)], ENDS, 3, 2, None)[:-3], [(2, 16, 8)], "FLOAT16"),
]


@pytest.mark.parametrize(("name", "values", "shapes", "dtype"), INFERRED)
def test_inferred(name: str, values: tuple[Any, ...], shapes: list[tuple[int, ...]], dtype: str) -> None:
    values = values[:-1] if name == "aclnnGroupedMatmul" else values
    assert inferred(name, *values)[0] == (shapes, dtype)
