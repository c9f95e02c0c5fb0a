"""Rules of gathering, scattering, sorting and counting: axes, ranks, products, statuses, what is allocated."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD, OLD_310P, accepted, detail, each_case, inferred, s, status, t

OK, NULL, INVALID, INNER_NULL, TILING = 0, 161001, 161002, 561103, 561002

_IDS = t([5], "INT64")
_VALUE = s(1.0, "FLOAT")

CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    # sampling: op_api logs that both are null, the tiling refuses it; rows of one number are copied
    ("aclnnApplyTopKTopP", TILING, (t([2, 8]), None, None, t([2, 8])), A2),
    ("aclnnApplyTopKTopP", OK, (t([2, 1]), None, None, t([2, 1])), A2),
    ("aclnnApplyTopKTopP", OK, (t([0, 8]), None, None, t([0, 8])), A2),
    ("aclnnApplyTopKTopP", OK, (t([2, 8]), t([2]), None, t([2, 8])), A2),
    # embedding
    ("aclnnEmbedding", OK, (t([9, 4]), t([2, 3], "INT64"), t([2, 3, 4])), A2),
    ("aclnnEmbedding", INVALID, (t([9, 4]), t([2, 3], "INT64"), t([2, 4, 4])), A2),
    ("aclnnEmbedding", INNER_NULL, (t([9, 4]), t([2, 3], "INT64"), t([2, 3, 5])), A2),  # the copy into out fails
    ("aclnnEmbedding", INVALID, (t([9, 4, 1]), t([2], "INT64"), t([2, 4, 1])), A2),
    ("aclnnEmbedding", INVALID, (t([9, 4], "BF16"), _IDS, t([5, 4], "BF16")), OLD),
    ("aclnnEmbedding", NULL, (t([9, 4]), None, t([2, 3, 4])), A2),
    ("aclnnEmbeddingDenseBackward", OK, (t([5, 4]), _IDS, 7, 0, False, t([7, 4])), A2),
    ("aclnnEmbeddingDenseBackward", INVALID, (t([5, 4]), _IDS, 7, 0, False, t([8, 4])), A2),
    # gather: axis, indices not larger than self, products
    ("aclnnGather", OK, (t([3, 4]), 1, t([3, 2], "INT64"), t([3, 2])), A2),
    ("aclnnGather", INVALID, (t([3, 4]), 2, t([3, 2], "INT64"), t([3, 2])), A2),
    ("aclnnGather", INVALID, (t([3, 4]), 1, t([3], "INT64"), t([3])), A2),
    ("aclnnGather", INVALID, (t([3, 4]), 1, t([5, 2], "INT64"), t([5, 2])), A2),
    ("aclnnGather", INVALID, (t([3, 4]), 1, t([3, 2], "FLOAT"), t([3, 2])), A2),
    ("aclnnGather", INVALID, (t([3, 4], "BF16"), 1, t([3, 2], "INT64"), t([3, 2], "BF16")), OLD),
    ("aclnnGatherV2", OK, (t([3, 4]), -1, t([2, 2], "INT64"), t([3, 2, 2])), A2),
    ("aclnnGatherV2", INVALID, (t([3, 4]), -3, t([2], "INT64"), t([2, 4])), A2),
    ("aclnnGatherNd", OK, (t([3, 4]), t([5, 1], "INT64"), False, t([5, 4])), A2),
    ("aclnnGatherNd", INVALID, (t([3, 4]), t([5, 3], "INT64"), False, t([5])), A2),
    ("aclnnIndexSelect", INVALID, (t([3, 4]), 0, t([2, 2], "INT64"), t([2, 2, 4])), A2),
    ("aclnnIndex", OK, (t([3, 4]), [t([2], "INT64"), t([2], "INT64")], t([2])), A2),
    ("aclnnIndex", INVALID, (t([3, 4]), [t([2], "FLOAT")], t([2, 4])), A2),
    ("aclnnIndex", INVALID, (t([3, 4]), [t([1] * 8, "INT64")], t([2, 4])), A2),
    ("aclnnIndex", NULL, (t([3, 4]), [None, t([2], "INT64")], t([3, 2])), A2),
    ("aclnnTake", INVALID, (t([3, 4]), t([2], "INT64"), t([3])), A2),
    # scatter
    ("aclnnScatter", OK, (t([3, 4]), 0, t([1, 4], "INT64"), t([2, 4]), 0, t([3, 4])), A2),
    ("aclnnScatter", INVALID, (t([3, 4]), 0, t([3, 4], "INT64"), t([2, 4]), 0, t([3, 4])), A2),
    ("aclnnScatter", INVALID, (t([3, 4]), 0, t([1, 4], "INT64"), t([2, 4], "INT8"), 0, t([3, 4])), A2),
    ("aclnnScatter", INVALID, (t([3, 4]), 0, t([1, 4], "INT64"), t([2, 4]), 0, t([3, 5])), A2),
    ("aclnnInplaceScatterValue", INVALID, (t([3, 4]), 4, t([1, 4], "INT64"), _VALUE, 0), A2),
    ("aclnnInplaceScatterValue", NULL, (t([3, 4]), 0, t([1, 4], "INT64"), None, 0), A2),
    ("aclnnScatterAdd", INVALID, (t([3, 4]), 0, t([1], "INT64"), t([1, 4]), t([3, 4])), A2),
    ("aclnnIndexAdd", OK, (t([3, 4]), 0, _IDS, t([5, 4]), _VALUE, t([3, 4])), A2),
    ("aclnnIndexAdd", INVALID, (t([3, 4]), 0, _IDS, t([6, 4]), _VALUE, t([3, 4])), A2),
    ("aclnnIndexPutImpl", OK, (t([3, 4]), [t([2], "INT64")], t([2, 4]), True, False), A2),
    ("aclnnIndexPutImpl", INVALID, (t([3, 4]), [t([2], "INT64")], t([2, 4], "INT8"), True, False), A2),
    ("aclnnScatterNdUpdate", OK, (t([3, 4]), t([2, 1], "INT64"), t([2, 4])), A2),
    ("aclnnScatterNdUpdate", INVALID, (t([3, 4]), t([2, 1], "FLOAT"), t([2, 4])), A2),
    ("aclnnScatterNd", INVALID, (t([3, 4]), t([2, 1], "INT64"), t([2, 3]), t([3, 4])), A2),
    ("aclnnInplaceMaskedScatter", OK, (t([3, 4]), t([4], "BOOL"), t([12])), A2),
    ("aclnnInplaceMaskedScatter", INVALID, (t([3, 4]), t([5], "BOOL"), t([12])), A2),
    # choices along an axis
    ("aclnnTopk", OK, (t([3, 4]), 2, -1, True, True, t([3, 2]), t([3, 2], "INT64")), A2),
    ("aclnnTopk", INVALID, (t([3, 4]), 5, -1, True, True, t([3, 5]), t([3, 5], "INT64")), A2),
    ("aclnnTopk", INVALID, (t([3, 4]), 2, -1, True, True, t([3, 2]), t([3, 2], "INT32")), A2),
    ("aclnnTopk", INVALID, (t([3, 4]), -1, -1, True, True, t([3, 2]), t([3, 2], "INT64")), A2),
    ("aclnnKthvalue", INVALID, (t([3, 4]), 0, 1, False, t([3]), t([3], "INT64")), A2),
    ("aclnnMedianDim", INVALID, (t([3, 4]), 2, False, t([3]), t([3], "INT64")), A2),
    ("aclnnMedian", INVALID, (t([3, 4], "BF16"), t([], "BF16")), OLD),
    ("aclnnFlip", INVALID, (t([3, 4]), (0, 0), t([3, 4])), A2),
    ("aclnnFlip", INVALID, (t([3, 4]), (2,), t([3, 4])), A2),
    ("aclnnRepeatInterleaveInt", INVALID, (t([3]), 2, 6, t([7])), A2),
    ("aclnnInverse", INVALID, (t([3, 4]), t([3, 4])), A2),
    ("aclnnUnique2", INVALID, (t([5]), True, False, True, t([5]), t([4], "INT64"), _IDS), A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


INFERRED: list[tuple[str, tuple[Any, ...], list[tuple[Any, str]]]] = [
    ("aclnnEmbedding", (t([9, 4], "BF16"), t([2, 3], "INT32")), [((2, 3, 4), "BF16")]),
    (
        "aclnnEmbeddingBag",
        (t([9, 4]), _IDS, t([3], "INT64"), False, 2, False, None, False, -1),
        [((3, 4), "FLOAT"), ((5,), "INT64"), ((3,), "INT64"), ((3, 4), "INT64")],
    ),
    ("aclnnGather", (t([3, 4], "INT8"), 1, t([3, 2], "INT32")), [((3, 2), "INT8")]),
    ("aclnnGatherV2", (t([3, 4, 5]), 1, t([2, 2], "INT64")), [((3, 2, 2, 5), "FLOAT")]),
    ("aclnnGatherV2", (t([3, 4]), 0, t([], "INT64")), [((1, 4), "FLOAT")]),
    ("aclnnGatherV3", (t([3, 4]), 0, t([], "INT64"), 0, 1), [((4,), "FLOAT")]),
    ("aclnnGatherNd", (t([3, 4, 5]), t([7, 2], "INT64"), False), [((7, 5), "FLOAT")]),
    ("aclnnIndex", (t([3, 4, 5]), [t([0], "INT64"), t([2, 1], "INT64"), t([6], "INT64")]), [((3, 2, 6), "FLOAT")]),
    ("aclnnIndexSelect", (t([3, 4]), -1, t([7], "INT64")), [((3, 7), "FLOAT")]),
    ("aclnnTake", (t([3, 4], "BF16"), t([2, 5], "INT64")), [((2, 5), "BF16")]),
    ("aclnnScatterAdd", (t([3, 4], "INT32"), 0, t([1, 4], "INT64"), t([1, 4], "INT32")), [((3, 4), "INT32")]),
    ("aclnnTopk", (t([3, 4], "FLOAT16"), 2, 0, True, True), [((2, 4), "FLOAT16"), ((2, 4), "INT64")]),
    ("aclnnTopk", (t([]), 1, 0, True, True), [((), "FLOAT"), ((), "INT64")]),
    ("aclnnKthvalue", (t([3, 4]), 2, 1, True), [((3, 1), "FLOAT"), ((3, 1), "INT64")]),
    ("aclnnMedianDim", (t([3, 4]), 0, False), [((4,), "FLOAT"), ((4,), "INT64")]),
    ("aclnnMedian", (t([3, 4]),), [((), "FLOAT")]),
    ("aclnnBucketize", (t([2, 3]), t([4]), True, False), [((2, 3), "INT32")]),
    ("aclnnNonzero", (t([2, 3]),), [((6, 2), "INT64")]),  # the most there can be
    ("aclnnNonzeroV2", (t([2, 3]),), [((2, 6), "INT64")]),
    ("aclnnUnique2", (t([2, 3]), True, True, False), [((6,), "FLOAT"), ((2, 3), "INT64"), ((6,), "INT64")]),
    ("aclnnRepeatInterleaveIntWithDim", (t([2, 3]), 4, 1, 12), [((2, 12), "FLOAT")]),
    ("aclnnRepeatInterleaveTensor", (_IDS, 9), [((9,), "INT64")]),
    ("aclnnMaxUnpool2d", (t([1, 2, 3, 3]), t([1, 2, 3, 3], "INT64"), (6, 6)), [((1, 2, 6, 6), "FLOAT")]),
]


@pytest.mark.parametrize(("name", "values", "expected"), INFERRED, ids=[f"{i}-{c[0]}" for i, c in enumerate(INFERRED)])
def test_what_is_allocated(name: str, values: tuple[Any, ...], expected: list[tuple[Any, str]]) -> None:
    assert inferred(name, *values) == expected
    assert accepted(name, *values) in (OK, 561000), "its own outputs are refused"  # 561000: kernels of another product


def test_batch_axes_of_gather_on_ascend_950() -> None:
    values = (t([2, 3, 4]), 2, t([2, 5], "INT64"), 1, 0)
    assert inferred("aclnnGatherV3", *values, soc=NEW_950) == [((2, 3, 5), "FLOAT")]
    assert accepted("aclnnGatherV3", *values, soc=NEW_950) == OK
    assert status("aclnnGatherV3", *values, t([2, 3, 2, 5])) == INVALID  # only there


def test_chips_differ() -> None:
    wide = (t([3, 4], "BF16"), 0, t([2], "INT64"), t([2, 4], "BF16"))
    assert [status("aclnnIndexSelect", *wide, soc=soc) for soc in (A2, NEW_950, OLD, OLD_310P)] == [
        OK,
        OK,
        INVALID,
        INVALID,
    ]


def test_refusals_name_what_is_wrong() -> None:
    assert detail("aclnnGather", t([3, 4]), 5, t([3, 2], "INT64"), t([3, 2])).startswith("dim is 5")
    assert "[-2, 1]" in detail("aclnnIndexSelect", t([3, 4]), 2, t([2], "INT64"), t([2, 4]))
