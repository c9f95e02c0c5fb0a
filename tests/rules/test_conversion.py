"""Rules of ops-math/conversion: padding, joining, splitting, slicing, filling, layouts; products and empty inputs."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD, OLD_310P, detail, each_case, inferred, s, status, t

OK, NULL, INVALID, INNER_NULL, TILING, RUNTIME = 0, 161001, 161002, 561103, 561002, 361001
_PLANE, _IMAGE = t([1, 9, 9], "BF16"), t([2, 3, 4, 4], "FLOAT16", "NCHW")

CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    # padding
    ("aclnnReflectionPad1d", OK, (t([2, 4]), (1, 3), t([2, 8])), A2),
    ("aclnnReflectionPad1d", INVALID, (t([2, 4]), (1, 4), t([2, 9])), A2),
    ("aclnnReflectionPad1d", INVALID, (t([2, 4]), (1, 3), t([3, 8])), A2),
    ("aclnnReflectionPad1d", INVALID, (t([2, 4], "BF16"), (1, 3), t([2, 8], "BF16")), OLD),
    ("aclnnReflectionPad2d", INVALID, (t([0, 4, 4]), (1, 1, 1, 1), t([0, 6, 6])), A2),
    ("aclnnReflectionPad2d", OK, (t([0, 2, 4, 4]), (1, 1, 1, 1), t([0, 2, 6, 6])), A2),
    ("aclnnReplicationPad2d", OK, (t([2, 4, 4]), (5, 0, -1, 0), t([2, 3, 9])), A2),
    ("aclnnReplicationPad2d", INVALID, (t([2, 4, 4], format="NCHW"), (5, 0, -1, 0), t([2, 3, 9])), A2),
    ("aclnnReplicationPad1d", INVALID, (t([2, 4], "BOOL"), (1, 1), t([2, 6], "BOOL")), A2),
    ("aclnnCircularPad3d", INVALID, (t([1, 1, 2, 2], "DOUBLE"), (0,) * 6, t([1, 1, 2, 2], "DOUBLE")), A2),
    ("aclnnCircularPad3dBackward", INNER_NULL, (None, t([1, 2, 2, 2]), (0,) * 6, t([1, 2, 2, 2])), A2),
    ("aclnnReflectionPad2dBackward", INVALID, (_PLANE, _PLANE, (8, 0, 0, 1), _PLANE), A2),
    ("aclnnReflectionPad2dBackward", OK, (t([1, 9, 17], "BF16"), _PLANE, (8, 0, 0, 0), _PLANE), A2),
    ("aclnnReplicationPad1dBackward", INNER_NULL, (t([3, 6]), t([2, 4]), (1, 1), t([2, 4])), A2),
    ("aclnnConstantPadNd", INVALID, (t([2, 3]), (1, -1, 2), s(0, "INT64"), t([2, 3])), A2),
    ("aclnnConstantPadNd", OK, (t([2, 3]), (1, -1), s(0, "INT64"), t([2, 3])), A2),
    ("aclnnConstantPadNd", INVALID, (t([2, 3]), (-2, -2), s(0, "INT64"), t([2, 0])), A2),
    ("aclnnConstantPadNd", INVALID, (t([2, 3]), (-3, 0, 1, 0), s(0, "INT64"), t([3, 0])), A2),
    # joining
    ("aclnnCat", OK, ([t([2, 3], "INT32"), t([2, 1], "FLOAT16")], 1, t([2, 4])), A2),
    ("aclnnCat", INVALID, ([t([2, 3]), t([2, 1])], 1, t([2, 4], "INT32")), A2),
    ("aclnnCat", INVALID, ([t([2, 3]), t([3, 1])], 1, t([2, 4])), A2),
    ("aclnnCat", INVALID, ([t([2, 3]), t([2, 1])], 1, t([2, 5])), A2),
    ("aclnnCat", OK, ([t([0]), t([0])], 5, t([9])), A2),
    ("aclnnCat", INNER_NULL, ([t([0]), t([2, 3])], 0, t([3, 3])), A2),
    ("aclnnCat", INVALID, ([t([2, 3], format="NCHW"), t([2, 1])], 1, t([2, 4])), A2),
    ("aclnnCat", NULL, ([t([2]), None], 0, t([4])), A2),
    ("aclnnCat", INVALID, ([t([2])], 0, t([2])), "Ascend310"),
    ("aclnnStack", INNER_NULL, (None, 0, t([2])), A2),
    ("aclnnStack", OK, ([t([2]), t([2])], -1, t([2, 2])), A2),
    ("aclnnStack", INVALID, ([t([2]), t([3])], 0, t([2, 2])), A2),
    ("aclnnChunkCat", INVALID, (None, 1, 2, None), A2),
    ("aclnnChunkCat", NULL, (None, 0, 2, None), A2),
    ("aclnnChunkCat", OK, ([t([5, 2]), t([4])], 0, 2, t([2, 8])), A2),
    ("aclnnSplitTensor", OK, (t([5, 2]), 2, 0, [t([2, 2]), t([2, 2]), t([1, 2])]), A2),
    ("aclnnSplitTensor", INVALID, (t([5, 2]), 2, 0, [t([2, 2]), t([2, 2])]), A2),
    ("aclnnSplitTensor", INVALID, (t([5, 2]), 0, 0, [t([5, 2])]), A2),
    ("aclnnSplitTensor", INNER_NULL, (t([5, 2]), 2, 1, [t([5, 1])]), A2),
    ("aclnnSplitWithSize", INVALID, (t([5, 2]), (2, 2), 0, [t([2, 2]), t([2, 2])]), A2),
    ("aclnnSplitWithSize", INVALID, (t([5, 2]), (2, 3), 0, [t([2, 2]), t([2, 2])]), A2),
    # slicing
    ("aclnnSlice", OK, (t([5, 2]), 0, -4, 100, 2, t([2, 2])), A2),
    ("aclnnSlice", INVALID, (t([5, 2]), 0, 0, 2, 0, t([2, 2])), A2),
    ("aclnnSliceV2", INVALID, (t([5, 2]), (0, 0), (1, 1), (0, -2), (1, 1), t([1, 2])), A2),
    ("aclnnStridedSlice", INVALID, (t([5]), (0,), (2,), (1,), 0, 0, 0, 0, 0, t([2])), A2),
    ("aclnnStridedSlice", OK, (t([5, 4]), (0, 1), (2, 0), (1, 1), 0, 0, 0, 0, 2, t([2])), NEW_950),
    ("aclnnStridedSliceAssignV2", TILING, (t([5]), t([3]), (0,), (2,), (1,), None), A2),
    ("aclnnIm2col", INVALID, (t([1, 3, 3]), (4, 4), (1, 1), (0, 0), (1, 1), t([16, 1])), A2),
    ("aclnnUnfoldGrad", INNER_NULL, (None, (4,), 0, 2, 1, t([4])), A2),
    ("aclnnMaskedSelect", INVALID, (t([2, 3]), t([3], "BOOL"), t([5])), A2),
    ("aclnnMaskedSelect", INVALID, (t([2, 3]), t([3], "INT32"), t([6])), A2),
    # filling
    ("aclnnClamp", NULL, (t([2]), None, None, t([2])), A2),
    ("aclnnClamp", OK, (t([2], "INT8"), s(1.5, "DOUBLE"), None, t([2], "INT8")), A2),
    ("aclnnClamp", INVALID, (t([2], "INT8"), s(1.5, "DOUBLE"), None, t([2], "INT8")), NEW_950),
    ("aclnnClampTensor", INVALID, (t([2]), t([2, 3]), t([2]), t([2])), A2),
    ("aclnnClampMinTensor", OK, (t([3], "INT8"), t([2, 3]), t([2, 3])), A2),
    ("aclnnHardtanh", INVALID, (t([2]), s(1, "INT64"), s(0, "INT64"), t([2])), A2),
    ("aclnnInplaceFillScalar", OK, (t([2], "UINT16"), s(1, "UINT16")), A2),
    ("aclnnInplaceFillScalar", INVALID, (t([2], "UINT16"), s(1, "UINT16")), OLD),
    ("aclnnInplaceFillTensor", INVALID, (t([2]), t([2])), A2),
    ("aclnnInplaceMaskedFillScalar", INVALID, (t([3]), t([2, 3], "BOOL"), s(1, "INT64")), A2),
    ("aclnnInplaceCopy", OK, (t([2, 3], "COMPLEX64"), t([3])), A2),
    ("aclnnInplaceCopy", INVALID, (t([3]), t([2, 3])), A2),
    ("aclnnInplaceFillDiagonal", INVALID, (t([3, 3], "INT8"), s(300, "INT64"), False), A2),
    ("aclnnInplaceFillDiagonal", INVALID, (t([3, 3, 2]), s(1, "INT64"), False), A2),
    ("aclnnTril", INVALID, (t([0]), 0, t([0])), A2),
    ("aclnnTriu", OK, (t([0]), 0, t([0])), A2),
    ("aclnnTril", INVALID, (t([2, 2], format="NCHW"), 0, t([2, 2])), A2),
    ("aclnnDiag", OK, (t([3]), -1, t([4, 4])), A2),
    ("aclnnDiag", INVALID, (t([3, 2]), 1, t([2])), A2),
    ("aclnnDiag", OK, (t([3, 2]), 2, t([7])), A2),
    ("aclnnDiagFlat", INNER_NULL, (None, 0, t([3, 3])), A2),
    # layouts
    ("aclnnPermute", OK, (t([2, 3]), (1, -2), t([3, 2])), A2),
    ("aclnnPermute", INVALID, (t([2, 3]), (1, -1), t([3, 2])), A2),
    ("aclnnPermute", INVALID, (t([2, 3], "BF16"), (1, 0), t([3, 2], "BF16")), OLD_310P),
    ("aclnnRoll", OK, (t([2, 3]), (5,), (), t([2, 3])), A2),
    ("aclnnRoll", INVALID, (t([2, 3]), (5, 1), (1,), t([2, 3])), A2),
    ("aclnnFlatten", INVALID, (t([2, 3, 4]), 3, t([24, 1])), A2),
    ("aclnnChannelShuffle", INVALID, (t([2, 3, 4]), 2, t([2, 3, 4])), A2),
    ("aclnnTransConvolutionWeight", INVALID, (_IMAGE, False, 1, _IMAGE), A2),
    ("aclnnTransConvolutionWeight", OK, (_IMAGE, False, 1, _IMAGE), OLD_310P),
    ("aclnnTransMatmulWeight", INVALID, (t([2, 3, 4], "FLOAT16"),), OLD_310P),
    ("aclnnTransMatmulWeight", OK, (t([2, 3, 4], "BF16"),), A2),
    ("aclnnNpuFormatCast", OK, (t([32, 32]), t([2, 4, 16, 8], "FLOAT", "FRACTAL_NZ")), A2),
    ("aclnnNpuFormatCast", INVALID, (t([32, 32]), t([2, 4, 16, 8], "FLOAT", "FRACTAL_Z")), A2),
    ("aclnnNpuFormatCast", INVALID, (t([32, 32]), t([2, 4, 16, 8], "FLOAT", "FRACTAL_NZ")), OLD_310P),
    ("aclnnWeightQuantPreprocess", RUNTIME, (None,) * 4 + (0, 0, 32) + (None,) * 4, A2),
    ("aclnnWeightQuantPreprocess", NULL, (None,) * 4 + (0, 0, 32) + (None,) * 4, NEW_950),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


INFERRED: list[tuple[str, tuple[Any, ...], list[tuple[Any, str]]]] = [
    ("aclnnReflectionPad2d", (t([2, 4, 4], "INT8"), (1, 2, 0, 3)), [((2, 7, 7), "INT8")]),
    ("aclnnReplicationPad3dBackward", (t([2, 4, 4, 3]), t([2, 4, 4, 2]), (1,) + 5 * (0,)), [((2, 4, 4, 2), "FLOAT")]),
    ("aclnnConstantPadNd", (t([2, 3]), (1, 1, 0, 2), s(0, "INT64")), [((4, 5), "FLOAT")]),
    ("aclnnCat", ([t([2, 3], "INT8"), t([0]), t([2, 1], "FLOAT16")], -1), [((2, 4), "FLOAT16")]),
    ("aclnnStack", ([t([2, 3]), t([2, 3], "INT8")], 1), [((2, 2, 3), "FLOAT")]),
    ("aclnnSplitTensor", (t([5, 2], "INT8"), 2, 0), [([(2, 2), (2, 2), (1, 2)], "INT8")]),
    ("aclnnSplitWithSize", (t([5, 2]), (0, 5), 0), [([(0, 2), (5, 2)], "FLOAT")]),
    ("aclnnSlice", (t([5, 2]), 0, 1, -1, 2), [((2, 2), "FLOAT")]),
    ("aclnnSliceV2", (t([5, 4]), (1, 0), (5, 9), (0, -1), (2, 3)), [((2, 2), "FLOAT")]),
    ("aclnnIm2col", (t([2, 3, 5, 4]), (3, 2), (1, 1), (1, 0), (2, 1)), [((2, 18, 9), "FLOAT")]),
    ("aclnnMaskedSelect", (t([2, 3], "INT8"), t([3], "BOOL")), [((6,), "INT8")]),
    ("aclnnClampTensor", (t([3], "INT8"), t([2, 1]), None), [((2, 3), "FLOAT")]),
    ("aclnnDiag", (t([3, 5], "INT8"), -1), [((2,), "INT8")]),
    ("aclnnDiagFlat", (t([2, 3]), 1), [((7, 7), "FLOAT")]),
    ("aclnnPermute", (t([2, 3, 4]), (2, 0, 1)), [((4, 2, 3), "FLOAT")]),
    ("aclnnFlatten", (t([2, 3, 4]), -1), [((6, 4), "FLOAT")]),
    ("aclnnConfusionTranspose", (t([6, 4]), (1, 0, 2), (2, 3, 4), False), [((3, 2, 4), "FLOAT")]),
]


@pytest.mark.parametrize(("name", "values", "expected"), INFERRED, ids=[f"{i}-{c[0]}" for i, c in enumerate(INFERRED)])
def test_what_is_allocated(name: str, values: tuple[Any, ...], expected: list[tuple[Any, str]]) -> None:
    assert inferred(name, *values) == expected
