"""Rules of ops-nn/activation: dtypes by product, attribute values, halved axes, statuses of the stages, inference."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD, OLD_310P, detail, each_case, inferred, s, status, t

from ascend_aclnn import catalog, rules

OK, NULL, INVALID, RUNTIME, TILING = 0, 161001, 161002, 361001, 561002

CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    ("aclnnRelu", OK, (t([2], "UINT8"), t([2], "UINT8")), A2),
    ("aclnnRelu", INVALID, (t([2]), t([2], "FLOAT16")), A2),
    ("aclnnRelu", INVALID, (t([2], "BF16"), t([2], "BF16")), OLD),
    ("aclnnSilu", OK, (t([1] * 9), t([1] * 9)), A2),
    ("aclnnSwish", INVALID, (t([1] * 9), None, t([1] * 9)), A2),
    ("aclnnSwish", INVALID, (t([2]), s(1j, "COMPLEX64"), t([2])), A2),
    ("aclnnCelu", INVALID, (t([2]), s(0, "INT64"), t([2])), A2),
    ("aclnnCelu", OK, (t([2]), s(-1, "INT64"), t([2], "COMPLEX64")), A2),
    ("aclnnElu", OK, (t([2], "BF16"), *[s(1, "INT64")] * 3, t([2], "BF16")), OLD),
    ("aclnnShrink", INVALID, (t([2]), s(-0.5, "FLOAT"), s(0, "FLOAT"), t([2])), A2),
    ("aclnnFastGelu", INVALID, (t([2]), t([2])), OLD_310P),
    ("aclnnGelu", INVALID, (t([2, 2], "FLOAT", "FRACTAL_NZ"), t([2, 2])), A2),
    ("aclnnSoftplus", INVALID, (t([2]), s(1, "COMPLEX64"), s(1, "INT64"), t([2])), A2),
    ("aclnnThreshold", OK, (t([2], "INT16"), s(1, "INT64"), s(1, "INT64"), t([2])), A2),
    ("aclnnThreshold", INVALID, (t([2]), s(1, "INT64"), s(1, "INT64"), t([2], "INT16")), A2),
    ("aclnnThreshold", OK, (t([2]), s(1, "INT64"), s(1, "INT64"), t([2], "INT16")), NEW_950),
    ("aclnnThresholdBackward", OK, (t([2], "INT64"), t([2], "INT64"), s(0, "INT64"), t([2], "INT64")), NEW_950),
    ("aclnnThresholdBackward", INVALID, (t([2], "INT64"), t([2], "INT64"), s(1, "INT64"), t([2], "INT64")), NEW_950),
    ("aclnnGeluBackward", OK, (t([2, 1]), t([3], "FLOAT16"), t([2, 3], "FLOAT16")), A2),
    ("aclnnGeluBackwardV2", INVALID, (t([2, 1]), t([3], "FLOAT16"), "tanh", t([2, 3], "FLOAT16")), A2),
    ("aclnnGeluBackwardV2", INVALID, (t([3]), t([3]), "erf", t([3])), A2),
    ("aclnnGeluBackwardV2", NULL, (t([3]), t([3]), None, t([3])), A2),
    ("aclnnSiluBackward", INVALID, (t([2]), t([2], "FLOAT16"), t([2])), A2),
    ("aclnnSiluBackward", OK, (t([2, 1]), t([3], "FLOAT16"), t([2, 3])), NEW_950),
    ("aclnnEluBackward", INVALID, (t([2]), s(-1, "INT64"), *[s(1, "INT64")] * 2, True, t([2]), t([2])), A2),
    ("aclnnEluBackward", OK, (t([2]), s(-1, "INT64"), *[s(1, "INT64")] * 2, False, t([2]), t([2])), A2),
    ("aclnnSoftmax", OK, (t([0, 3], "INT8"), 9, t([1])), A2),
    ("aclnnSoftmax", INVALID, (t([2, 3]), 2, t([2, 3])), A2),
    ("aclnnSoftmax", OK, (t([]), -1, t([])), A2),
    ("aclnnLogSoftmax", INVALID, (t([0, 3]), 9, t([0, 3])), A2),
    ("aclnnSoftmaxBackward", OK, (t([0, 3]), t([0, 3]), 9, t([0, 3])), A2),
    ("aclnnSoftmaxBackward", INVALID, (t([0, 3]), t([0, 3]), 9, t([0, 3])), NEW_950),
    ("aclnnGlu", INVALID, (t([2, 3]), -1, t([2, 1])), A2),
    ("aclnnGlu", INVALID, (t([]), 0, t([])), A2),
    ("aclnnGlu", OK, (t([2, 6], "DOUBLE"), 1, t([2, 3])), A2),
    ("aclnnGeGluV3", INVALID, (t([2, 4]), -1, 2, False, t([2, 2]), t([2, 2])), A2),
    ("aclnnSwiGlu", TILING, (t([2, 5]), -1, t([2, 2])), A2),
    ("aclnnSwiGlu", INVALID, (t([2, 4]), -1, t([2, 2], "FLOAT16")), A2),
    ("aclnnSwiGlu", INVALID, (t([2, 4], "BF16"), -1, t([2, 2], "BF16")), OLD_310P),
    ("aclnnClippedSwiglu", TILING, (t([2, 4]), None, -1, 1.7, 0.0, 1.0, True, t([2, 2])), A2),
    ("aclnnFatreluMul", TILING, (t([2, 2048]), t([1]), t([2, 1024])), A2),
    ("aclnnPrelu", INVALID, (t([2, 3]), t([2]), t([2, 3])), A2),
    ("aclnnPrelu", OK, (t([2, 3]), t([3]), t([2, 3])), A2),
    ("aclnnPreluBackward", INVALID, (t([2, 3]), t([2, 3]), t([3]), t([2, 3]), t([3, 1])), A2),
    ("aclnnSoftmaxCrossEntropyWithLogits", INVALID, (t([3]), t([3]), t([3]), t([3])), A2),
    ("aclnnGeluQuant", RUNTIME, (None, None, None, None, None, None, 2, None, None), A2),
    (
        "aclnnGeluQuant",
        OK,
        (t([4, 8]), None, None, "none", "dynamic", "rint", 2, t([4, 8], "INT8"), t([4])),
        NEW_950,
    ),
    (
        "aclnnGeluQuant",
        NULL,
        (t([4, 8]), None, None, "none", "static", "rint", 2, t([4, 8], "INT8"), None),
        NEW_950,
    ),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


@pytest.mark.parametrize(
    ("name", "values", "outputs"),
    [
        ("aclnnGelu", (t([2, 3], "BF16"),), [((2, 3), "BF16")]),
        ("aclnnSigmoid", (t([2], "INT32"),), [((2,), "FLOAT")]),
        ("aclnnGeluBackward", (t([2, 1]), t([3], "FLOAT16")), [((2, 3), "FLOAT")]),
        ("aclnnGeGlu", (t([2, 6]), -1, 0), [((2, 3), "FLOAT"), ((2, 3), "FLOAT")]),
        ("aclnnSwiGlu", (t([4, 6], "BF16"), 0), [((2, 6), "BF16")]),
        ("aclnnLogSigmoidForward", (t([2], "FLOAT16"),), [((2,), "FLOAT16"), ((2,), "FLOAT16")]),
        ("aclnnPreluBackward", (t([2, 3, 4]), t([2, 3, 4]), t([3])), [((2, 3, 4), "FLOAT"), ((3,), "FLOAT")]),
        ("aclnnSoftmaxCrossEntropyWithLogits", (t([2, 5]), t([2, 5])), [((2,), "FLOAT"), ((2, 5), "FLOAT")]),
    ],
)
def test_inference(name: str, values: tuple[Any, ...], outputs: list[Any]) -> None:
    assert inferred(name, *values) == outputs


def test_a_halved_axis_is_refused_by_name() -> None:
    assert "dim" in detail("aclnnGlu", t([2, 4]), 3, t([2, 2]))
    assert "its axis 1 (dim) must be a multiple of 2" in detail("aclnnGlu", t([2, 3]), 1, t([2, 1]))


def test_every_output_is_inferred() -> None:
    for name in catalog.names():
        operator = catalog.get(name)
        if operator.family == "ops-nn/activation" and not operator.experimental:
            found = rules.find(operator)
            assert found is not None, name
            assert all(found.infers(p) for p in operator.parameters if p.direction == "out"), name
