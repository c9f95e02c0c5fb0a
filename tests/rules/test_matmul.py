"""Rules of ops-nn/matmul: operands, cubes of old products, results that are copied, quantised operands, inference."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD, OLD_310P, by_name, each_case, made, s, status, t

OK, NULL, INVALID, TILING, INNER_NULL = 0, 161001, 161002, 561002, 561103
ONE, TWO = s(1.0, "FLOAT"), s(2.0, "FLOAT")


def half(*shape: int) -> Any:
    return t(shape, "FLOAT16")


def int8(*shape: int) -> Any:
    return t(shape, "INT8")


PLAIN: dict[str, Any] = {"self": t([3, 5]), "mat2": t([5, 4]), "out": t([3, 4])}
HALF: dict[str, Any] = {"self": half(3, 5), "mat2": half(5, 4), "out": half(3, 4)}
ADDED: dict[str, Any] = {
    "self": t([3, 4]),
    "mat1": t([3, 5]),
    "mat2": t([5, 4]),
    "beta": ONE,
    "alpha": TWO,
    "out": t([3, 4]),
}
BATCHED: dict[str, Any] = {
    "self": t([4]),
    "batch1": t([2, 3, 5]),
    "batch2": t([2, 5, 4]),
    "beta": ONE,
    "alpha": TWO,
    "out": t([2, 3, 4]),
}
GEMM: dict[str, Any] = {"A": t([3, 5]), "B": t([5, 4]), "C": t([3, 4]), "alpha": 1.0, "beta": 1.0, "out": t([3, 4])}
V3: dict[str, Any] = {"x1": int8(16, 32), "x2": int8(32, 64), "scale": t([64], "UINT64"), "out": half(16, 64)}
WEIGHT: dict[str, Any] = {
    "x": half(16, 64),
    "weight": int8(64, 32),
    "antiquantScale": half(32),
    "y": half(16, 32),
}
TURNED: dict[str, Any] = {
    "x1": half(4, 16, 64),
    "x2": half(4, 64, 32),
    "permX1": (0, 1, 2),
    "permX2": (0, 1, 2),
    "permY": (1, 0, 2),
    "batchSplitFactor": 1,
    "out": half(16, 4, 32),
}

CASES: list[tuple[str, int, dict[str, Any], str]] = [
    ("aclnnMatmul", OK, PLAIN, A2),
    ("aclnnMatmul", NULL, {**PLAIN, "mat2": None}, A2),
    ("aclnnMatmul", INVALID, {**PLAIN, "mat2": t([4, 4])}, A2),
    ("aclnnMatmul", INVALID, {**PLAIN, "self": t([3, 5], "INT32")}, A2),
    ("aclnnMatmul", INVALID, {**PLAIN, "cubeMathType": 5}, A2),
    ("aclnnMatmul", INVALID, PLAIN, OLD),  # float32 only as FLOAT16
    ("aclnnMatmul", OK, {**PLAIN, "cubeMathType": 1}, OLD),
    ("aclnnMatmul", OK, HALF, OLD),
    ("aclnnMatmul", OK, {"self": t([2, 1, 3, 5]), "mat2": t([7, 5, 4]), "out": t([2, 7, 3, 4])}, A2),
    ("aclnnMatmul", INVALID, {"self": t([2, 3, 5]), "mat2": t([3, 5, 4]), "out": t([3, 3, 4])}, A2),
    ("aclnnMm", INVALID, {**PLAIN, "self": t([1, 3, 5])}, A2),
    ("aclnnMm", INVALID, {**PLAIN, "out": t([4, 3])}, A2),
    ("aclnnBatchMatMul", OK, {"self": t([2, 3, 5]), "mat2": t([2, 5, 4]), "out": t([2, 3, 4])}, A2),
    ("aclnnBatchMatMul", INVALID, {"self": t([2, 3, 5]), "mat2": t([3, 5, 4]), "out": t([2, 3, 4])}, A2),
    ("aclnnAddmm", OK, ADDED, A2),
    ("aclnnAddmm", OK, {**ADDED, "self": t([4])}, A2),
    ("aclnnAddmm", INVALID, {**ADDED, "self": t([5])}, A2),
    ("aclnnAddmm", NULL, {**ADDED, "beta": None}, A2),
    ("aclnnBaddbmm", OK, BATCHED, A2),
    ("aclnnBaddbmm", INVALID, {**BATCHED, "batch2": t([3, 5, 4])}, A2),
    ("aclnnAddbmm", OK, {**BATCHED, "out": t([3, 4])}, A2),
    ("aclnnDot", OK, {"self": t([5]), "tensor": t([5]), "out": t([])}, A2),
    ("aclnnDot", INVALID, {"self": t([5]), "tensor": t([4]), "out": t([])}, A2),
    ("aclnnGemm", OK, GEMM, A2),
    ("aclnnGemm", INVALID, {**GEMM, "transA": 1}, A2),
    ("aclnnQuantMatmulV3", OK, V3, A2),
    ("aclnnQuantMatmulV3", NULL, {**V3, "scale": None}, A2),
    ("aclnnQuantMatmulV3", INVALID, {**V3, "x2": int8(16, 64)}, A2),
    ("aclnnQuantMatmulV3", INVALID, {**V3, "scale": t([63], "UINT64")}, A2),
    ("aclnnQuantMatmulV3", INVALID, {**V3, "out": t([16, 64])}, A2),
    ("aclnnQuantMatmulV3", OK, {**V3, "scale": t([64], "BF16"), "out": t([16, 64], "BF16")}, A2),
    ("aclnnQuantMatmulV3", INVALID, {**V3, "scale": t([64], "BF16"), "out": t([16, 64], "BF16")}, OLD_310P),
    ("aclnnWeightQuantBatchMatmulV2", OK, WEIGHT, A2),
    ("aclnnWeightQuantBatchMatmulV2", INVALID, {**WEIGHT, "antiquantScale": half(31)}, A2),
    ("aclnnWeightQuantBatchMatmulV2", INVALID, {**WEIGHT, "weight": half(64, 32)}, A2),
    ("aclnnTransposeBatchMatMul", OK, TURNED, A2),
    ("aclnnTransposeBatchMatMul", INVALID, {**TURNED, "permX1": (2, 1, 0)}, A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: dict[str, Any], soc: str) -> None:
    assert status(name, *by_name(name, **values), soc=soc) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((3, 5), (5, 4), (3, 4)),
        ((5,), (5, 4), (4,)),
        ((3, 5), (5,), (3,)),
        ((5,), (5,), ()),
        ((2, 1, 3, 5), (7, 5, 4), (2, 7, 3, 4)),
        ((3, 5), (2, 5, 4), (2, 3, 4)),
    ],
)
def test_vectors_and_batches(left: Any, right: Any, expected: Any) -> None:
    found = made("aclnnMatmul", self=t(left, "BF16"), mat2=t(right, "BF16"))
    assert found == {"out": (expected, "BF16")}


def test_inference() -> None:
    assert made("aclnnAddbmm", **BATCHED)["out"] == ((3, 4), "FLOAT")
    assert made("aclnnAddmv", self=t([3]), mat=t([3, 5]), vec=t([5]), alpha=ONE, beta=ONE)["out"] == ((3,), "FLOAT")
    assert made("aclnnGemm", **{**GEMM, "transA": 1, "A": t([5, 3])})["out"] == ((3, 4), "FLOAT")
    assert made("aclnnEinsum", tensors=[t([3]), t([4])], equation="a,b->ab")["output"] == ((3, 4), "FLOAT")
    assert made("aclnnQuantMatmulV3", NEW_950, **V3)["out"][0] == (16, 64)
    assert made("aclnnTransposeBatchMatMul", **TURNED)["out"] == ((16, 4, 32), "FLOAT16")
