"""Rules of ops-transformer/mc2: communicators' names, modes by product, products around collectives, inference."""

from __future__ import annotations

from typing import Any

from rule_tools import A2, A3, NEW_950, each_case, inferred, status, t

OK, NULL, INVALID, INNER = 0, 161001, 161002, 561000


def half(*shape: int) -> Any:
    return t(shape, "FLOAT16")


X1, X2, OUT = half(16, 256), half(256, 32), half(16, 32)
I8, W8 = t([16, 64], "INT8"), t([64, 32], "INT8")
CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    ("aclnnAllGatherMatmul", OK, (X1, X2, None, "g", 0, 0, 1, half(32, 32), half(32, 256)), A2),
    ("aclnnAllGatherMatmul", INVALID, (X1, X2, None, "g", 0, 0, 0, half(32, 32), half(32, 256)), A2),
    ("aclnnAllGatherMatmul", INVALID, (X1, X2, None, "g", 0, 0, 1, half(32, 32), half(32, 255)), A2),
    ("aclnnAllGatherMatmul", INVALID, (half(16, 16), half(16, 32), None, "g", 0, 0, 1, half(32, 32), half(0)), A2),
    ("aclnnMatmulReduceScatter", OK, (X1, X2, None, "g", "sum", 0, 1, half(8, 32)), A2),
    ("aclnnMatmulReduceScatter", INVALID, (X1, t([256, 32], "BF16"), None, "g", "sum", 0, 1, half(8, 32)), A2),
    ("aclnnMatmulAllReduce", OK, (X1, X2, None, "g", "sum", 0, 1, OUT), A2),
    ("aclnnMatmulAllReduce", INVALID, (X1, X2, None, "g", "max", 0, 1, OUT), A2),
    ("aclnnMatmulAllReduce", INVALID, (X1, X2, half(16), "g", "sum", 0, 1, OUT), A2),
    ("aclnnMatmulAllReduceV3", INVALID, (X1, X2, None, None, "g", "sum", "ccu", 0, 1, OUT), A2),
    ("aclnnMatmulAllReduceV3", OK, (X1, X2, None, None, "g", "sum", "ccu", 0, 1, OUT), NEW_950),
    ("aclnnQuantMatmulAllReduce", OK, (I8, W8, None, None, t([32], "UINT64"), "g", "sum", 0, 1, OUT), A2),
    ("aclnnQuantMatmulAllReduce", INVALID, (I8, W8, None, None, t([31], "UINT64"), "g", "sum", 0, 1, OUT), A2),
    (
        "aclnnWeightQuantMatmulAllReduce",
        OK,
        (X1, t([256, 32], "INT8"), None, half(32), None, None, "g", "sum", 0, 1, 0, OUT),
        A2,
    ),
    (
        "aclnnWeightQuantMatmulAllReduce",
        INVALID,
        (X1, t([256, 32], "INT8"), None, half(32), None, None, "g", "sum", 0, 1, 33, OUT),
        A2,
    ),
    (
        "aclnnQuantMatmulAllReduceAddRmsNorm",
        INNER,
        (I8, W8, None, None, half(1, 16, 32), half(32), 0.0, "g", "sum", 0, 1, OUT, OUT),
        A2,
    ),
    ("aclnnMatmulAlltoAll", OK, (X1, X2, None, (-1, -2), "g", False, False, half(32, 16)), A2),
    ("aclnnMatmulAlltoAll", INVALID, (X1, X2, None, (-2, -1), "g", False, False, half(32, 16)), A2),
    ("aclnnMatmulAlltoAll", INVALID, (X1, X2, None, None, "", False, False, half(32, 16)), A2),
    ("aclnnMatmulAlltoAll", OK, (X1, half(32, 256), None, None, "g", False, True, half(32, 16)), A2),
    ("aclnnMatmulAlltoAllV2", INVALID, (X1, X2, None, None, "g", "aiv", False, False, half(32, 16)), A3),
    ("aclnnMatmulAlltoAllV2", OK, (X1, X2, None, None, "g", "ai_cpu", False, False, half(32, 16)), A3),
    ("aclnnAlltoAllMatmul", NULL, (X1, None, None, None, "g", False, False, OUT, None), A2),
    ("aclnnQuantAllReduce", OK, (t([4, 128], "INT8"), t([4, 1]), "g", "sum", half(4, 128)), NEW_950),
    (
        "aclnnQuantAllReduce",
        INVALID,
        (t([4, 128], "INT8"), t([4, 1], "FLOAT8_E8M0"), "g", "sum", half(4, 128)),
        NEW_950,
    ),
    ("aclnnDistributeBarrier", NULL, (half(2), None, 2), A3),
    ("aclnnMoeUpdateExpert", NULL, (None,) * 10, A3),
    (
        "aclnnGroupedMatMulAlltoAllv",
        NULL,
        (half(4, 8), half(2, 8, 4), half(1), None, None, None, "g", 2, (1,), (1,), False, False, half(4, 4), None),
        A3,
    ),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected


def scattered(ep: Any, tp: Any) -> tuple[Any, ...]:
    return half(2, 16, 8), half(2, 8, 32), None, ep, tp, 2, 2, 1, half(4, 4, 32)


def test_names_of_communicators() -> None:
    name = "aclnnBatchMatMulReduceScatterAlltoAll"
    assert status(name, *scattered("a", "b")) == OK
    assert status(name, *scattered("", "b")) == NULL
    assert status(name, *scattered("a", None)) == NULL
    assert status(name, *scattered("a", "b" * 127)) == OK
    assert status(name, *scattered("a", "b" * 128)) == INVALID


def test_inferred() -> None:
    assert inferred("aclnnMatmulAllReduce", half(2, 3, 256), X2, None, "g", "sum", 0, 1) == [((2, 3, 32), "FLOAT16")]
    made = inferred("aclnnAlltoAllMatmul", half(16, 64), half(256, 32), None, None, "g", False, False)
    assert made == [((4, 32), "FLOAT16"), (None, "")]
    assert inferred("aclnnBatchMatMulReduceScatterAlltoAll", *scattered("a", "b")[:-1]) == [((4, 4, 32), "FLOAT16")]
    lists = [half(3, 8), half(2, 8)], [half(8, 4), half(8, 4)], None, None
    assert inferred("aclnnGroupedMatMulAllReduce", *lists, 0, "g", "sum", 0, 1)[0][0] == [(3, 4), (2, 4)]
    assert inferred("aclnnGroupedMatMulAllReduce", *lists, 2, "g", "sum", 0, 1)[0][0] == [(5, 4)]
