"""Rules of the elementwise operators of ops-math/math: promotion, casts, products, statuses, inference."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD, OLD_310P, detail, each_case, inferred, s, status, t

from ascend_aclnn import catalog, rules

OK, NULL, INVALID, INNER_NULL = 0, 161001, 161002, 561103

CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    # one operand
    ("aclnnExp", OK, (t([2, 3], "INT64"), t([2, 3], "FLOAT16")), A2),
    ("aclnnExp", INVALID, (t([2, 3], "INT32"), t([2, 3])), A2),
    ("aclnnExp", INVALID, (t([2, 3], "COMPLEX64"), t([2, 3])), A2),
    ("aclnnExp", INVALID, (t([2, 3]), t([3, 2])), A2),
    ("aclnnExp", INVALID, (t([1] * 9), t([1] * 9)), A2),
    ("aclnnExp", OK, (t([2], "BF16"), t([2], "BF16")), A2),
    ("aclnnExp", INVALID, (t([2], "BF16"), t([2], "BF16")), OLD),
    ("aclnnExp", NULL, (None, t([2])), A2),
    ("aclnnInplaceExp", INVALID, (t([2], "BOOL"),), A2),
    ("aclnnAbs", OK, (t([2], "COMPLEX64"), t([2])), A2),
    ("aclnnAbs", INVALID, (t([2], "COMPLEX64"), t([2], "COMPLEX64")), A2),
    ("aclnnAbs", INVALID, (t([2, 2], "FLOAT", "FRACTAL_NZ"), t([2, 2], "FLOAT", "FRACTAL_NZ")), A2),
    ("aclnnLog10", INVALID, (t([2], "INT8"), t([2], "FLOAT16")), A2),
    ("aclnnSign", OK, (t([2], "UINT16"), t([2], "FLOAT")), OLD_310P),
    ("aclnnSign", INVALID, (t([2], "UINT16"), t([2], "UINT16")), A2),
    ("aclnnBitwiseNot", INNER_NULL, (None, t([2], "INT32")), A2),
    ("aclnnLogicalNot", OK, (t([1] * 9), t([1] * 9, "BOOL")), A2),
    ("aclnnLogicalNot", INVALID, (t([2] * 9, strides=[0] * 9), t([2] * 9, "BOOL")), A2),
    ("aclnnSquare", INVALID, (t([2]), t([2])), A2),
    ("aclnnSquare", OK, (t([2]), t([2])), NEW_950),
    ("aclnnInplaceZero", OK, (t([1] * 9, "COMPLEX128"),), A2),
    ("aclnnCast", INVALID, (t([2]), 10**6, t([2])), A2),
    ("aclnnCast", OK, (t([2]), 3, t([2], "INT32")), A2),
    # arithmetic
    ("aclnnAdd", OK, (t([4, 1], "INT32"), t([3], "FLOAT16"), s(1, "INT64"), t([4, 3], "FLOAT16")), A2),
    ("aclnnAdd", INVALID, (t([4], "INT32"), t([4]), s(1, "INT64"), t([4], "INT32")), A2),
    ("aclnnAdd", INVALID, (t([4], "INT32"), t([4], "INT32"), s(1.5, "FLOAT"), t([4], "INT32")), A2),
    ("aclnnAdd", INVALID, (t([4], "BOOL"), t([4], "BOOL"), s(1.5, "DOUBLE"), t([4], "BOOL")), A2),
    ("aclnnAdd", INVALID, (t([4]), t([3]), s(1, "INT64"), t([4])), A2),
    ("aclnnInplaceAdd", INVALID, (t([3]), t([4, 3]), s(1, "INT64")), A2),
    ("aclnnInplaceAdd", NULL, (t([3]), t([3]), None), A2),
    ("aclnnAdds", OK, (t([4], "INT32"), s(2.5, "DOUBLE"), s(1, "INT64"), t([4])), A2),
    ("aclnnAdds", INVALID, (t([4], "INT32"), s(2.5, "DOUBLE"), s(1, "INT64"), t([4], "INT32")), A2),
    ("aclnnMuls", OK, (t([1] * 9), s(2.5, "DOUBLE"), t([1] * 9)), A2),
    ("aclnnMul", INVALID, (t([1] * 9), t([1]), t([1] * 9)), A2),
    ("aclnnDivMod", INVALID, (t([4], "COMPLEX64"), t([4], "COMPLEX64"), 1, t([4], "COMPLEX64")), A2),
    ("aclnnDivMod", INVALID, (t([4]), t([4]), 3, t([4])), A2),
    ("aclnnRemainderTensorTensor", OK, (t([]), t([1]), t([])), A2),
    ("aclnnRemainderTensorTensor", INVALID, (t([]), t([1]), t([])), NEW_950),
    ("aclnnRemainderScalarTensor", INNER_NULL, (None, t([2]), t([2])), A2),
    ("aclnnFmodScalar", INNER_NULL, (t([2]), None, t([2])), A2),
    ("aclnnFmodScalar", NULL, (t([2]), s(1, "INT64"), None), A2),
    ("aclnnPowTensorTensor", INVALID, (t([2], "BOOL"), t([2], "BOOL"), t([2], "BOOL")), A2),
    ("aclnnPowTensorScalar", INVALID, (t([2], "INT32"), s(-1, "INT64"), t([2], "INT32")), NEW_950),
    ("aclnnPowTensorScalar", OK, (t([2], "INT32"), s(-1, "INT64"), t([2], "INT32")), A2),
    ("aclnnPowTensorScalar", INVALID, (t([2], "FLOAT16"), s(1e9, "DOUBLE"), t([2], "FLOAT16")), NEW_950),
    ("aclnnLogAddExp", INVALID, (t([2], "DOUBLE"), t([2]), t([2], "DOUBLE")), A2),
    ("aclnnGcd", INVALID, (t([2], "BOOL"), t([2], "BOOL"), t([2], "INT32")), A2),
    ("aclnnComplex", OK, (t([0]), t([3], "INT8"), t([7])), A2),
    ("aclnnComplex", INVALID, (t([3]), t([3]), t([3], "COMPLEX128")), A2),
    # comparison, logic, bits
    ("aclnnEqTensor", OK, (t([2]), t([2], "INT64"), t([2], "BOOL")), A2),
    ("aclnnEqTensor", INVALID, (t([2], "UINT16"), t([2], "UINT16"), t([2], "BOOL")), A2),
    ("aclnnNeTensor", OK, (t([0], "UINT16"), t([5, 7]), t([1])), A2),
    ("aclnnLtScalar", INNER_NULL, (None, s(1, "INT64"), t([2], "BOOL")), A2),
    ("aclnnLtScalar", NULL, (None, s(1, "INT64"), t([2], "BOOL")), NEW_950),
    ("aclnnGtScalar", OK, (t([2], "FLOAT16"), s(0.1, "DOUBLE"), t([2], "BOOL")), A2),
    ("aclnnBitwiseOrScalar", OK, (t([2], "INT8"), s(7, "INT64"), t([2], "INT8")), A2),
    ("aclnnBitwiseOrScalar", INVALID, (t([2]), s(7, "INT64"), t([2])), A2),
    ("aclnnBitwiseXorTensor", INVALID, (t([2], "UINT16"), t([2], "UINT16"), t([2], "UINT16")), A2),
    ("aclnnBitwiseXorTensor", OK, (t([2], "UINT16"), t([2], "UINT16"), t([2], "UINT16")), NEW_950),
    ("aclnnLogicalXor", INVALID, (t([1] * 8, "COMPLEX64"), t([1]), t([1] * 8, "BOOL")), A2),
    ("aclnnLeftShift", INVALID, (t([2], "INT64"), t([2], "UINT64"), t([2], "INT64")), A2),
    # three operands and lists
    ("aclnnAddcmul", OK, (t([2, 1]), t([1, 3], "FLOAT16"), t([3]), s(2, "INT64"), t([2, 3])), A2),
    ("aclnnAddcmul", INVALID, (t([2], "INT16"), t([2]), t([2]), s(2, "INT64"), t([2])), A2),
    ("aclnnLerp", OK, (t([1] * 9), t([1] * 9), t([1]), t([1] * 9)), A2),
    ("aclnnLerp", INVALID, (t([2]), t([2], "FLOAT16"), t([2]), t([2])), A2),
    ("aclnnSWhere", INVALID, (t([2], "INT32"), t([2]), t([2]), t([2])), A2),
    ("aclnnScale", OK, (t([2, 3, 4]), t([3]), None, 1, 1, True, t([2, 3, 4])), A2),
    ("aclnnScale", INVALID, (t([2, 3, 4]), t([4]), None, 1, 1, True, t([2, 3, 4])), A2),
    ("aclnnSum", NULL, ([t([2]), None], t([2])), A2),
    ("aclnnMaxN", INVALID, ([t([2]), t([3])], t([3])), A2),
    ("aclnnAddN", INVALID, ([t([2]), t([1])], t([2])), A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


@pytest.mark.parametrize(
    ("name", "values", "outputs"),
    [
        ("aclnnExp", (t([2, 3], "INT64"),), [((2, 3), "FLOAT")]),
        ("aclnnCeil", (t([2], "BF16"),), [((2,), "BF16")]),
        ("aclnnAbs", (t([2], "COMPLEX64"),), [((2,), "FLOAT")]),
        ("aclnnIsFinite", (t([], "INT8"),), [((), "BOOL")]),
        ("aclnnCast", (t([4]), 9), [((4,), "INT64")]),
        ("aclnnAdd", (t([4, 1], "INT32"), t([3], "BF16"), s(1, "INT64")), [((4, 3), "BF16")]),
        ("aclnnAdd", (t([2], "FLOAT16"), t([2], "BF16"), s(1, "INT64")), [((2,), "FLOAT")]),
        ("aclnnAdds", (t([4], "INT32"), s(2.5, "DOUBLE"), s(1, "INT64")), [((4,), "FLOAT")]),
        ("aclnnMuls", (t([4], "FLOAT16"), s(2.5, "DOUBLE")), [((4,), "FLOAT16")]),
        ("aclnnDiv", (t([4], "INT32"), t([4], "INT32")), [((4,), "FLOAT")]),
        ("aclnnDivMod", (t([4], "INT32"), t([4], "INT32"), 2), [((4,), "INT32")]),
        ("aclnnPowScalarTensor", (s(2, "INT64"), t([5], "FLOAT16")), [((5,), "FLOAT16")]),
        ("aclnnGtTensor", (t([2, 1]), t([3])), [((2, 3), "BOOL")]),
        ("aclnnSWhere", (t([2, 1], "BOOL"), t([3], "INT8"), t([1], "INT64")), [((2, 3), "INT64")]),
        ("aclnnComplex", (t([2]), t([1])), [((2,), "COMPLEX64")]),
        ("aclnnMaxN", ([t([2, 1]), t([3])],), [((2, 3), "FLOAT")]),
        ("aclnnAmpUpdateScale", (t([1]), t([1], "INT32"), t([1]), 2.0, 0.5, 1), [((1,), "FLOAT"), ((1,), "INT32")]),
    ],
)
def test_inference(name: str, values: tuple[Any, ...], outputs: list[Any]) -> None:
    assert inferred(name, *values) == outputs


def test_what_is_inferred_is_accepted() -> None:
    """Binding's own choice of outputs must pass the checks: an integer tensor and a float scalar, on old and new products."""
    for soc in (A2, OLD, NEW_950):
        for name in ("aclnnAdds", "aclnnSubs", "aclnnRsubs"):
            values = (t([3], "INT32"), s(2.5, "DOUBLE"), s(1, "INT64"))
            ((shape, dtype),) = inferred(name, *values, soc=soc)
            assert status(name, *values, t(shape, dtype), soc=soc) == 0, (name, soc)


def test_a_message_names_what_came_and_what_is_allowed() -> None:
    text = detail("aclnnAdd", t([4], "INT32"), t([4]), s(1, "INT64"), t([4], "INT32"))
    assert "out has dtype INT32" in text and "FLOAT" in text
    text = detail("aclnnIsNegInf", t([2]), t([2], "BOOL"), soc=OLD)
    assert "Ascend910A" in text and "310P" in text


def test_every_output_is_inferred() -> None:
    """The operators with an in-place form, and those above, tell the shape of each output."""
    names = set(catalog.names())
    paired = {name for name in names if name.replace("aclnn", "aclnnInplace") in names}
    for name in sorted(paired | {case[0] for case in CASES}):
        operator = catalog.get(name)
        if operator.family == "ops-math/math" and not operator.experimental:
            found = rules.find(operator)
            assert found is not None, name
            outputs = {p.name for p in operator.parameters if p.direction == "out"}
            assert outputs <= set(found.shapes), name
