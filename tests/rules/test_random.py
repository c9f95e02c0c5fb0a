"""Rules of ops-math/random: masks of dropout, products, seeds on the device, orders of checks, inference."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD, OLD_310P, detail, each_case, inferred, s, status, t

OK, NULL, INVALID, INNER_NULL, TILING = 0, 161001, 161002, 561103, 561002
FLOAT, INT8 = 0, 2
SEED = t([1], "INT64")

CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    ("aclnnDropout", OK, (t([129]), 0.5, True, 0, 0, t([129]), t([32], "UINT8")), A2),
    ("aclnnDropout", INVALID, (t([129]), 0.5, True, 0, 0, t([129]), t([48], "UINT8")), A2),
    ("aclnnDropout", INVALID, (t([129]), 1.5, True, 0, 0, t([129]), t([32], "UINT8")), A2),
    ("aclnnDropout", INVALID, (t([9], "BF16"), 0.5, True, 0, 0, t([9]), t([16], "UINT8")), NEW_950),
    ("aclnnDropoutV3", INVALID, (t([9]), t([1]), 0.5, 0, 0, t([9]), t([16], "UINT8")), A2),
    ("aclnnDropoutV3Grad", INVALID, (None, None, 2.0, None), A2),
    ("aclnnDropoutV3Grad", NULL, (None, None, 2.0, None), NEW_950),
    ("aclnnDropoutV3Grad", OK, (t([9]), t([16], "UINT8"), 2.0, t([9])), NEW_950),
    ("aclnnDropoutV3Grad", OK, (t([4, 64]), t([2, 16], "UINT8"), -3.0, t([4, 64], "BF16")), NEW_950),
    ("aclnnDropoutV3Grad", INVALID, (t([9]), t([32], "UINT8"), 2.0, t([9])), NEW_950),
    ("aclnnDropoutV3Grad", NULL, (t([9]), None, 2.0, t([9], "INT8")), NEW_950),  # presence before types
    ("aclnnDropoutBackward", INVALID, (t([9]), t([16], "UINT8"), 0.5, t([9])), A2),
    ("aclnnDropoutBackward", OK, (t([9]), t([16], "UINT8"), 0.0, t([9])), A2),
    ("aclnnDropoutDoMask", OK, (t([9]), t([48], "UINT8"), 0.5, t([9])), A2),
    ("aclnnDropoutGenMaskV2", INNER_NULL, ((3, 3), 0.5, 0, 0, INT8, t([16], "UINT8")), A2),
    ("aclnnDropoutGenMaskV2", OK, ((3, 3), 1.0, 0, 0, INT8, t([16], "UINT8")), A2),
    ("aclnnBernoulli", INVALID, (t([9]), s(1.5, "DOUBLE"), 0, 0, t([9])), A2),
    ("aclnnBernoulli", INVALID, (t([9]), s(0.5, "DOUBLE"), 0, 0, t([9])), OLD_310P),
    ("aclnnBernoulli", INVALID, (t([9]), s(1, "INT64"), 0, 0, t([9])), A2),
    ("aclnnInplaceBernoulliTensor", INVALID, (t([9]), t([9], "INT32"), 0, 0), A2),
    ("aclnnInplaceNormal", INVALID, (t([9]), 0.0, -1.0, 0, 0), A2),
    ("aclnnInplaceNormal", INVALID, (t([9], "BF16"), 0.0, 1.0, 0, 0), OLD),
    ("aclnnInplaceNormalTensor", INVALID, (t([9]), 0.0, 1.0, t([], "INT64"), SEED, 0), A2),
    ("aclnnInplaceRandom", INVALID, (t([9]), 5, 5, 0, 0), A2),
    ("aclnnInplaceRandomTensor", OK, (t([9]), 0, 5, t([1]), SEED, 0), A2),
    ("aclnnInplaceRandomTensor", INNER_NULL, (t([9]), 0, 5, t([1]), SEED, 0), NEW_950),
    ("aclnnInplaceRandomWithoutFromToTensor", INVALID, (t([9]), t([1]), SEED, 0), A2),
    ("aclnnInplaceUniform", OK, (t([9]), 1.0, 1.0, 0, 0), A2),
    ("aclnnInplaceUniform", INVALID, (t([9], "BOOL"), 0.0, 1.0, 0, 0), A2),
    ("aclnnSimThreadExponential", TILING, (t([9]), 8, 1.0, 0, 0), A2),
    ("aclnnNormalTensorTensor", INVALID, (t([3]), t([2]), 0, 0, t([3])), A2),
    ("aclnnNormalFloatTensor", INVALID, (0.0, t([0]), 0, 0, t([0])), A2),
    ("aclnnNormalTensorFloat", OK, (t([3]), 1.0, 0, 0, t([2, 3])), A2),
    ("aclnnRandperm", INNER_NULL, (3, 0, 0, None), A2),
    ("aclnnRandperm", INVALID, (3, 0, 0, t([4])), A2),
    ("aclnnMultinomial", INVALID, (t([5]), 6, False, 0, 0, t([6], "INT64")), A2),
    ("aclnnMultinomial", OK, (t([2, 5]), 6, True, 0, 0, t([2, 6], "INT64")), A2),
    ("aclnnMultinomialTensor", INVALID, (t([5]), 2, True, t([1]), SEED, 0, t([2], "INT64")), A2),
    ("aclnnMultinomialTensor", OK, (t([6000]), 2, True, t([1]), SEED, 0, t([2], "INT64")), A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


INFERRED: list[tuple[str, tuple[Any, ...], list[tuple[Any, str]]]] = [
    ("aclnnDropout", (t([129], "BF16"), 0.5, True, 0, 0), [((129,), "BF16"), ((32,), "UINT8")]),
    ("aclnnDropoutGenMask", ((3, 3), 0.5, 0, 0), [((16,), "UINT8")]),
    ("aclnnBernoulli", (t([9], "INT8"), s(0.5, "DOUBLE"), 0, 0), [((9,), "INT8")]),
    ("aclnnNormalTensorTensor", (t([3], "FLOAT16"), t([2, 1]), 0, 0), [((2, 3), "FLOAT")]),
    ("aclnnRandperm", (7, 0, 0), [((7,), "INT64")]),
    ("aclnnMultinomial", (t([2, 5]), 6, True, 0, 0), [((2, 6), "INT64")]),
]


@pytest.mark.parametrize(("name", "values", "expected"), INFERRED, ids=[f"{i}-{c[0]}" for i, c in enumerate(INFERRED)])
def test_what_is_allocated(name: str, values: tuple[Any, ...], expected: list[tuple[Any, str]]) -> None:
    assert inferred(name, *values) == expected
