"""Rules of reductions, sorting, linear algebra, creation, counting: axes, products, empty inputs, statuses, inference."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD, OLD_310P, detail, each_case, inferred, s, status, t

OK, NULL, INVALID, INNER_NULL, TILING = 0, 161001, 161002, 561103, 561002
FLOAT, FLOAT16, INT32, INT64, BOOL = 0, 1, 3, 9, 12

_LORA = (*[t([2, 16], "FLOAT16")] * 2, t([1, 1, 16, 16], "FLOAT16"), t([2], "INT32"), None)

CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    # reductions: axes, keepdim, one element in any shape, what an empty input skips
    ("aclnnReduceSum", OK, (t([2, 3]), (1,), False, FLOAT, t([2])), A2),
    ("aclnnReduceSum", OK, (t([2, 3]), (), False, FLOAT, t([1, 1])), A2),
    ("aclnnReduceSum", INVALID, (t([2, 3]), (1,), True, FLOAT, t([2])), A2),
    ("aclnnReduceSum", INVALID, (t([2, 3]), (1, -1), False, FLOAT, t([2])), A2),
    ("aclnnReduceSum", INVALID, (t([2, 3]), (2,), False, FLOAT, t([2])), A2),
    ("aclnnReduceSum", INVALID, (t([2, 3]), (1,), False, FLOAT16, t([2])), A2),
    ("aclnnReduceSum", OK, (t([2, 0]), (1,), False, FLOAT, t([5])), A2),
    ("aclnnReduceSum", INVALID, (t([2, 0], "COMPLEX64"), (1,), False, 16, t([2], "COMPLEX64")), A2),
    ("aclnnReduceSum", INVALID, (t([2], "BF16"), (), False, 27, t([], "BF16")), OLD),
    ("aclnnReduceSum", NULL, (t([2]), None, False, FLOAT, t([])), A2),
    ("aclnnMean", INVALID, (t([2], "FLOAT"), (), False, INT32, t([], "INT32")), A2),
    ("aclnnMean", OK, (t([2], "INT32"), (), False, FLOAT, t([])), A2),
    ("aclnnMeanV2", OK, (t([2, 3]), (), False, True, t([2, 3])), A2),
    ("aclnnMeanV2", INVALID, (t([2, 3]), (), False, False, t([2, 3])), A2),
    ("aclnnProdDim", INVALID, (t([2, 3]), 1, False, FLOAT, t([3])), A2),
    ("aclnnProd", OK, (t([2, 3], "INT8"), INT64, t([], "INT64")), A2),
    ("aclnnAll", INVALID, (t([2, 3]), (0, 0), False, t([3], "BOOL")), A2),
    ("aclnnAny", OK, (t([0, 3]), (0,), False, t([7], "UINT8")), A2),
    ("aclnnAll", INVALID, (t([2, 3], "FLOAT", "FRACTAL_NZ"), (0,), False, t([3], "BOOL")), A2),
    ("aclnnAmax", INVALID, (t([2, 0]), (1,), False, t([2])), A2),
    ("aclnnAmax", OK, (t([2, 0]), (0,), True, t([1, 0])), A2),
    ("aclnnMax", OK, (t([2, 3]), t([1, 1])), A2),
    ("aclnnMax", INVALID, (t([2, 3]), t([2])), A2),
    ("aclnnAminmaxDim", OK, (t([0, 3]), -2, False, t([3]), t([3])), A2),
    ("aclnnAminmaxDim", INVALID, (t([0, 3]), 0, False, t([3]), t([3])), A2),
    ("aclnnMaxDim", INVALID, (t([2, 3], "INT32"), 1, False, t([2], "INT32"), t([2], "INT32")), A2),
    ("aclnnMaxDim", OK, (t([2, 3], "INT32"), 1, False, t([2], "INT32"), t([2], "INT64")), NEW_950),
    ("aclnnArgMax", INVALID, (t([2, 3]), 2, False, t([2], "INT64")), A2),
    ("aclnnArgMax", INVALID, (t([2, 3]), 1, False, t([2], "INT64")), "Ascend310"),
    ("aclnnArgMin", INVALID, (t([2, 0]), 1, False, t([2], "INT64")), A2),
    ("aclnnVar", OK, (t([2, 3]), None, True, True, t([1, 1])), A2),
    ("aclnnVar", INVALID, (t([2, 3]), (1,), True, False, t([2, 1])), A2),
    ("aclnnStd", OK, (t([2, 3]), (), 1, False, t([9])), A2),
    ("aclnnVarMean", INVALID, (t([2], "BF16"), None, 1, False, t([], "BF16"), t([], "BF16")), A2),
    ("aclnnVarMean", OK, (t([2], "BF16"), None, 1, False, t([], "BF16"), t([], "BF16")), NEW_950),
    ("aclnnLogSumExp", INVALID, (t([2, 3]), (1,), False, t([2], "INT32")), A2),
    ("aclnnReduceNansum", INVALID, (t([2]), (), False, FLOAT, t([])), OLD_310P),
    ("aclnnGlobalMaxPool", INVALID, (t([2, 3, 4]), t([2, 3, 1])), A2),
    ("aclnnGlobalAveragePool", OK, (t([2, 3, 4, 5]), t([2, 3, 1, 1])), A2),
    ("aclnnKlDiv", INVALID, (t([2, 3]), t([3]), 0, False, t([])), A2),
    ("aclnnKlDiv", OK, (t([2, 3]), t([3]), 2, False, t([])), A2),
    ("aclnnKlDiv", INVALID, (t([2, 3]), t([3]), 4, False, t([])), A2),
    ("aclnnEqual", OK, (t([2, 3], "INT8"), t([4]), t([1], "BOOL")), A2),
    ("aclnnEqual", INVALID, (t([2], "INT8"), t([2], "COMPLEX64"), t([1], "BOOL")), A2),
    # order
    ("aclnnSort", OK, (t([2, 3]), True, -1, False, t([2, 3]), t([2, 3], "INT64")), A2),
    ("aclnnSort", INVALID, (t([2, 3]), True, -1, False, t([2, 3]), t([2, 3], "INT32")), A2),
    ("aclnnSort", INVALID, (t([2, 3]), True, -1, False, t([2, 3]), t([2, 3], "INT64")), "Ascend310"),
    ("aclnnArgsort", INVALID, (t([2, 1], "BF16"), 1, False, t([2, 1], "INT64")), A2),
    ("aclnnArgsort", OK, (t([2, 1], "BF16"), 1, False, t([2, 1], "INT64")), NEW_950),
    ("aclnnCummax", INVALID, (t([]), 0, t([]), t([], "INT64")), A2),
    ("aclnnCummin", OK, (t([]), 0, t([]), t([], "INT64")), A2),
    ("aclnnCumsum", INVALID, (t([2, 3]), 1, FLOAT16, t([2, 3])), A2),
    ("aclnnCumsumV2", INVALID, (t([2, 3], "INT8"), 1, False, False, t([2, 3])), A2),
    ("aclnnCumprod", INVALID, (t([2, 3]), s(2, "INT64"), FLOAT, t([2, 3])), A2),
    ("aclnnCumprod", OK, (t([2, 3], "INT8"), s(-1, "INT32"), FLOAT, t([2, 3])), A2),
    ("aclnnSearchSorted", INVALID, (t([2, 3]), t([3, 4]), True, False, None, t([3, 4], "INT32")), A2),
    ("aclnnSearchSorted", OK, (t([3]), t([3, 4], "INT8"), False, False, None, t([3, 4], "INT64")), A2),
    # linear algebra
    ("aclnnDot", INVALID, (t([3]), t([4]), t([])), A2),
    ("aclnnDot", INVALID, (t([3], "INT64"), t([3], "INT64"), t([], "INT64")), A2),
    ("aclnnAddr", OK, (t([3]), t([2], "INT32"), t([3]), None, s(1, "INT64"), t([2, 3])), A2),
    ("aclnnAddr", INVALID, (*[t([3], "INT8")] * 3, s(1.5, "FLOAT"), None, t([3, 3], "INT8")), A2),
    ("aclnnInplaceAddr", INVALID, (t([3]), t([2]), t([3]), None, None), A2),
    ("aclnnTrace", OK, (t([2, 3], "UINT8"), t([], "INT64")), A2),
    ("aclnnTrace", INVALID, (t([2, 3], "UINT8"), t([], "UINT8")), A2),
    ("aclnnLinalgCross", INVALID, (t([2, 4]), t([2, 4]), 1, t([2, 4])), A2),
    ("aclnnLinalgCross", OK, (t([3]), t([2, 3]), -1, t([2, 3])), A2),
    ("aclnnLinalgCholesky", INVALID, (t([2, 3]), False, t([2, 3])), A2),
    ("aclnnLinalgCholesky", INVALID, (t([3, 3]), False, t([3, 3])), OLD),
    ("aclnnLinalgQr", INNER_NULL, (t([3, 2]), 0, None, t([2, 2])), A2),
    ("aclnnLinalgQr", OK, (t([3, 2]), 2, t([0]), t([2, 2])), A2),
    ("aclnnSvd", INVALID, (t([3, 2]), True, True, t([2]), t([3, 2]), t([2, 2])), A2),
    ("aclnnSvd", OK, (t([3, 2]), True, False, t([2]), t([1]), t([1])), A2),
    ("aclnnTriangularSolve", OK, (t([5, 3, 2]), t([3, 3]), True, False, False, t([5, 3, 2]), t([5, 3, 3])), A2),
    ("aclnnTriangularSolve", INVALID, (t([3, 2]), t([2, 2]), True, False, False, t([3, 2]), None), A2),
    ("aclnnLogdet", INVALID, (t([2, 2], "COMPLEX64"), t([])), A2),
    ("aclnnCdist", INVALID, (t([3, 2]), t([4, 2]), 2.0, 1, t([3, 4])), A2),
    ("aclnnCdist", OK, (t([5, 3, 2]), t([4, 2]), 1.0, 0, t([5, 3, 4])), A2),
    ("aclnnCdist", INVALID, (t([3, 2]), t([4, 2]), 2.0, 2, t([3, 4])), OLD_310P),
    ("aclnnCdist", INVALID, (t([2, 3, 2]), t([3, 4, 2]), 2.0, 2, t([2, 3, 4])), A2),  # batches do not broadcast
    ("aclnnCdist", INNER_NULL, (t([3, 2]), t([4, 2]), 2.0, 2, t([3, 5])), A2),  # the copy into out fails
    ("aclnnCdist", INNER_NULL, (t([3, 0]), t([4, 0]), 2.0, 2, t([3, 5])), A2),
    ("aclnnCdist", OK, (t([0, 2]), t([4, 2]), 2.0, 2, t([3, 5])), A2),
    ("aclnnPdist", INVALID, (t([4, 2]), -1.0, t([6])), A2),
    ("aclnnPdistForward", INNER_NULL, (t([4, 2]), None, t([6])), A2),
    ("aclRfft1D", OK, (t([2, 8]), 6, 1, 1, t([2, 4, 2])), A2),
    ("aclRfft1D", INVALID, (t([2, 8]), 6, 1, 4, t([2, 4, 2])), A2),
    ("aclStft", INVALID, (t([16], "COMPLEX64"), None, t([5, 3], "COMPLEX64"), 8, 4, 8, False, True, True), A2),
    # creation
    ("aclnnArange", OK, (s(0, "INT64"), s(5, "INT64"), s(2, "INT64"), t([3], "INT64")), A2),
    ("aclnnArange", INVALID, (s(0, "INT64"), s(5, "INT64"), s(0.5, "DOUBLE"), t([3], "INT64")), A2),
    ("aclnnArange", INVALID, (s(0, "INT64"), s(-5, "INT64"), s(1, "INT64"), t([3])), A2),
    ("aclnnRange", INNER_NULL, (None, s(5, "INT64"), s(2, "INT64"), t([3])), A2),
    ("aclnnLinspace", INVALID, (s(0, "INT64"), s(5, "INT64"), 4, t([3])), A2),
    ("aclnnLinspace", INVALID, (s(0, "COMPLEX64"), s(5, "INT64"), 3, t([3])), A2),
    ("aclnnLogSpace", INNER_NULL, (s(0, "FLOAT"), s(5, "FLOAT"), 4, 10.0, t([3])), A2),
    ("aclnnEye", INVALID, (2, -1, t([2, 1])), A2),
    ("aclnnEye", INVALID, (2, 2, t([2, 2], "BF16")), OLD_310P),
    ("aclnnOneHot", OK, (t([4], "INT64"), 5, t([1]), t([1]), 0, t([5, 4])), A2),
    ("aclnnOneHot", INVALID, (t([0], "INT64"), 0, t([1]), t([1]), -1, t([0, 0])), A2),
    ("aclnnExpand", INVALID, (t([2, 1]), (2, -1), t([2, 1])), A2),
    ("aclnnExpand", OK, (t([2, 1]), (4, 2, 3), t([4, 2, 3])), A2),
    ("aclnnRepeat", INVALID, (t([2, 1]), (4,), t([8])), A2),
    ("aclnnRepeat", OK, (t([2, 1]), (0, 4), t([5])), A2),
    ("aclnnAffineGrid", INVALID, (t([2, 2, 3]), (2, 1, 4), False, t([2, 4, 4, 2])), A2),
    ("aclnnHistc", INVALID, (t([5], "INT32"), 4, s(0, "INT64"), s(1, "INT64"), t([4])), A2),
    ("aclnnHistc", INVALID, (t([5]), 4, s(1.0, "FLOAT"), s(0.0, "FLOAT"), t([4])), A2),
    ("aclnnBincount", INNER_NULL, (t([5], "INT32"), None, 9, t([4], "INT64")), A2),
    ("aclnnSignBitsPack", INVALID, (t([20]), 2, t([2, 1], "UINT8")), A2),
    ("aclnnSignBitsUnpack", OK, (t([3], "UINT8"), 2, FLOAT, t([2, 12])), A2),
    ("aclnnIsInScalarTensor", INVALID, (s(1.5, "FLOAT"), t([3], "INT32"), False, False, t([1], "BOOL")), A2),
    # generated wrappers: dtypes before tiling
    ("aclnnTransformBiasRescaleQkv", INVALID, (t([2, 4, 12]), t([12], "FLOAT16"), 2, *[t([2, 2, 4, 2])] * 3), A2),
    ("aclnnTransformBiasRescaleQkv", TILING, (t([2, 4, 12]), t([12]), 5, *[t([2, 2, 4, 2])] * 3), A2),
    ("aclnnAddLora", INVALID, (*_LORA, 0, 1.0, 0, -1, t([2, 16], "FLOAT16")), OLD),
    ("aclnnAddLora", TILING, (*_LORA, 1, 1.0, 0, -1, t([2, 16], "FLOAT16")), A2),
    ("aclnnAddLora", OK, (*_LORA, 0, 1.0, 0, -1, t([2, 16], "FLOAT16")), A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


INFERRED: list[tuple[str, tuple[Any, ...], list[tuple[Any, str]]]] = [
    ("aclnnReduceSum", (t([2, 3]), (0,), True, FLOAT16), [((1, 3), "FLOAT16")]),
    ("aclnnMean", (t([2, 3], "INT32"), (), False, FLOAT), [((), "FLOAT")]),
    ("aclnnAny", (t([2, 3]), (-1,), False), [((2,), "BOOL")]),
    ("aclnnMaxDim", (t([2, 3], "BF16"), 0, True), [((1, 3), "BF16"), ((1, 3), "INT32")]),
    ("aclnnArgMax", (t([2, 3]), 0, False), [((3,), "INT64")]),
    ("aclnnMaxV2", (t([2, 3]), (), True, True), [((2, 3), "FLOAT")]),
    ("aclnnStdMeanCorrection", (t([2, 3]), (), 1, True), [((1, 1), "FLOAT"), ((1, 1), "FLOAT")]),
    ("aclnnLogSumExp", (t([2, 3], "INT8"), (1,), False), [((2,), "FLOAT")]),
    ("aclnnKlDiv", (t([2, 3]), t([3], "FLOAT16"), 0, False), [((2, 3), "FLOAT")]),
    ("aclnnSort", (t([2, 3], "INT8"), True, -1, False), [((2, 3), "INT8"), ((2, 3), "INT64")]),
    ("aclnnSearchSorted", (t([3]), t([2, 3]), True, False, None), [((2, 3), "INT32")]),
    ("aclnnCumsum", (t([2], "INT8"), 0, INT64), [((2,), "INT64")]),
    ("aclnnGer", (t([2], "INT8"), t([3])), [((2, 3), "FLOAT")]),
    ("aclnnTrace", (t([2, 3], "BOOL"),), [((), "INT64")]),
    ("aclnnQr", (t([4, 3, 2]), False), [((4, 3, 3), "FLOAT"), ((4, 3, 2), "FLOAT")]),
    ("aclnnSvd", (t([3, 2]), False, True), [((2,), "FLOAT"), ((3, 2), "FLOAT"), ((2, 2), "FLOAT")]),
    ("aclnnCdist", (t([5, 3, 2]), t([4, 2]), 1.0, 0), [((5, 3, 4), "FLOAT")]),
    ("aclnnPdist", (t([4, 2], "FLOAT16"), 1.0), [((6,), "FLOAT16")]),
    ("aclRfft1D", (t([8, 2]), -1, 0, 1), [((5, 2, 2), "FLOAT")]),
    ("aclStft", (t([3, 16]), None, 8, 4, 8, False, True, False), [((3, 5, 3, 2), "FLOAT")]),
    ("aclnnArange", (s(0, "INT64"), s(7, "INT64"), s(3, "INT64")), [((3,), "INT64")]),
    ("aclnnArange", (s(1, "INT64"), s(0, "INT64"), s(-0.25, "DOUBLE")), [((4,), "FLOAT")]),
    ("aclnnRange", (s(0, "INT64"), s(6, "INT64"), s(3, "INT64")), [((3,), "INT64")]),
    ("aclnnOneHot", (t([4], "INT64"), 5, t([1], "FLOAT16"), t([1], "FLOAT16"), -1), [((4, 5), "FLOAT16")]),
    ("aclnnRepeat", (t([2, 1]), (2, 1, 3)), [((2, 2, 3), "FLOAT")]),
    ("aclnnAffineGrid", (t([2, 3, 4]), (2, 1, 5, 6, 7), True), [((2, 5, 6, 7, 3), "FLOAT")]),
    ("aclnnHistc", (t([5]), 4, s(0, "INT64"), s(1, "INT64")), [((4,), "FLOAT")]),
    ("aclnnExpSegsum", (t([2, 3, 4]),), [((2, 3, 4, 4), "FLOAT")]),
    ("aclnnSignBitsPack", (t([20]), 1), [((1, 3), "UINT8")]),
    ("aclnnGroupedBiasAddGrad", (t([8, 4]), t([3], "INT32")), [((3, 4), "FLOAT")]),
]


@pytest.mark.parametrize(("name", "values", "expected"), INFERRED, ids=[f"{i}-{c[0]}" for i, c in enumerate(INFERRED)])
def test_what_is_allocated(name: str, values: tuple[Any, ...], expected: list[tuple[Any, str]]) -> None:
    assert inferred(name, *values) == expected


def test_a_refusal_names_the_axis() -> None:
    assert "axis" in detail("aclnnReduceSum", t([2, 3]), (1, 1), False, FLOAT, t([2]))
    assert "[-2, 1]" in detail("aclnnCumsum", t([2, 3]), 2, FLOAT, t([2, 3]))
