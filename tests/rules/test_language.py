"""The words of the rules by themselves: what each checks, what it tells about outputs, and what it says when it fails."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import pytest
from rule_tools import A2, NEW_950, t

from ascend_aclnn import catalog, registry, rules
from ascend_aclnn.catalog import Operator
from ascend_aclnn.catalog.headers import operator_from_prototype
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID, PARAM_NULLPTR, TILING_ERROR, RuleViolation
from ascend_aclnn.core.socs import soc as find_soc
from ascend_aclnn.rules.language import (
    RULES,
    Call,
    Check,
    Rule,
    absent,
    absent_or_empty,
    array_length,
    conditional_outputs,
    copied_output_shape,
    define,
    dtype_table,
    dtypes,
    formats_by_rank,
    has_dtype,
    has_shape,
    in_range,
    infer_shape,
    is_complex,
    is_floating,
    is_integral,
    joined_by_scalar,
    like,
    matrix_product,
    max_rank,
    multiple_of,
    not_complex,
    not_empty,
    not_negative,
    not_nz,
    not_transposed,
    on_operators,
    on_products,
    one_of,
    output_dtype,
    output_shape,
    output_shape_relaxed,
    positive,
    present_if,
    rank,
    require,
    required,
    same_dtype,
    shape_patterns,
    tiling,
    together,
    unless_empty,
    when,
    with_status,
)
from ascend_aclnn.rules.language.expressions import Expression, broadcast, window_count

OPERATOR = operator_from_prototype(
    "aclnnStatus aclnnTestWordsGetWorkspaceSize(const aclTensor *x, const aclTensor *weight, const aclTensor *biasOptional,"
    " const aclTensor *scaleOptional, const aclTensorList *partsOptional, const aclIntArray *padsOptional, int64_t numHeads,"
    " double eps, bool transposed, const aclTensor *maskOptional, aclTensor *out, aclTensor *statsOptional,"
    " uint64_t *workspaceSize, aclOpExecutor **executor);",
    optional=("statsOptional",),
)
DEFAULTS = {"x": t([2, 6], "FLOAT16"), "weight": t([6, 4], "FLOAT16"), "numHeads": 3, "eps": 0.5, "transposed": False}


def call_of(soc: str = A2, operator: Operator = OPERATOR, **given: Any) -> Call:
    values = {**DEFAULTS, "out": t([2, 4], "FLOAT16"), **given}
    return Call(operator, [values.get(p.name) for p in operator.parameters], find_soc(soc))


def violation(*words: Check, soc: str = A2, **given: Any) -> Optional[RuleViolation]:
    """What a rule of these words finds wrong."""
    try:
        Rule(OPERATOR.name, words).check(call_of(soc, **given))
    except RuleViolation as found:
        return found
    return None


def message(*words: Check, soc: str = A2, **given: Any) -> str:
    found = violation(*words, soc=soc, **given)
    return "" if found is None else found.detail


def status(*words: Check, soc: str = A2, **given: Any) -> int:
    found = violation(*words, soc=soc, **given)
    return 0 if found is None else found.status


def inferred(*words: Check, soc: str = A2, **given: Any) -> dict[str, Any]:
    """Shape and dtype of the outputs, by C name; None for a null pointer."""
    specs = Rule(OPERATOR.name, words).infer(call_of(soc, **{**given, "out": None, "statsOptional": None}))
    return {name: None if spec is None else (spec.shape, spec.dtype.name) for name, spec in specs.items()}  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------- checks and outputs


def test_a_word_that_only_tells_checks_nothing() -> None:
    for word in (infer_shape(out="(9, 9)"), output_dtype(out="INT8")):
        assert (
            status(word) == status(tiling(word)) == status(when("True", word)) == status(on_products("A2", word)) == 0
        )
        assert status(unless_empty("x", word)) == status(with_status(INNER_NULLPTR, word)) == 0


def test_a_word_that_only_checks_tells_nothing() -> None:
    assert message(has_shape(out="(9, 9)")) == "out has shape (2, 4); it must be (9, 9)"
    assert inferred(has_shape(out="(9, 9)")) == {}


def test_a_word_that_does_both() -> None:
    word = output_shape(out="(x[0], weight[1])")
    assert status(word) == 0 and inferred(word) == {"out": ((2, 4), "FLOAT16")}
    assert message(word, out=t([2, 5])) == "out has shape (2, 5); it must be (2, 4)"


def test_an_output_like_an_input() -> None:
    word = like(out="weight")
    assert inferred(word, weight=t([6, 4], "INT8")) == {"out": ((6, 4), "INT8")}
    assert message(word) == "out has shape (2, 4); it must be (6, 4)"
    assert status(word, out=t([6, 4], "INT8")) == 0  # its data type is not checked


def test_a_single_rank() -> None:
    assert status(rank(2, "x", "weight")) == 0
    assert message(rank(3, "x")) == message(rank(3, 3, "x")) == "x has rank 2 (shape (2, 6)); it must be 3"


def test_checks_of_dtypes_tell_those_of_outputs() -> None:
    shape = infer_shape(out="weight")
    assert inferred(shape, same_dtype("weight", "out"), weight=t([6, 4], "INT8")) == {"out": ((6, 4), "INT8")}
    assert inferred(shape, same_dtype("scaleOptional", "out")) == {"out": ((6, 4), "FLOAT16")}  # it is absent
    assert inferred(shape, has_dtype("out", "INT32")) == {"out": ((6, 4), "INT32")}
    assert inferred(shape, dtypes("INT32", "out")) == {"out": ((6, 4), "INT32")}
    assert inferred(shape, dtypes("INT32 INT64", "out")) == {"out": ((6, 4), "FLOAT16")}  # nothing is told
    table = dtype_table("x weight out", "FLOAT16 INT8 INT32", "FLOAT16 FLOAT16 FLOAT16/FLOAT", products="A2")
    assert inferred(shape, table, weight=t([6, 4], "INT8")) == {"out": ((6, 4), "INT32")}
    assert inferred(shape, table, weight=t([6, 4], "INT8"), soc=NEW_950) == {"out": ((6, 4), "FLOAT16")}
    assert inferred(shape, table, output_dtype(out="FLOAT")) == {"out": ((6, 4), "FLOAT")}  # the table leaves it open
    assert status(table, weight=t([6, 4], "INT8"), out=t([6, 4], "INT8")) == PARAM_INVALID


@pytest.mark.parametrize("group", [tiling, lambda *w: unless_empty("x", *w), lambda *w: with_status(INNER_NULLPTR, *w)])
def test_groups_about_checks_tell_in_any_case(group: Any) -> None:
    words = group(infer_shape(out="(7,)"), output_dtype(out="INT8"))
    assert inferred(words) == {"out": ((7,), "INT8")}
    assert inferred(words, x=t([0, 6])) == {"out": ((7,), "INT8")}


def test_conditions_apply_to_inferred_outputs() -> None:
    words = (
        infer_shape(out="(1,)"),
        output_dtype(out="INT8"),
        when("transposed", infer_shape(out="(2,)"), output_dtype(out="INT16")),
        on_products("950", infer_shape(out="(3,)"), when("numHeads == 3", output_dtype(out="INT32"))),
    )
    assert inferred(*words) == {"out": ((1,), "INT8")}
    assert inferred(*words, transposed=True) == {"out": ((2,), "INT16")}
    assert inferred(*words, soc=NEW_950) == {"out": ((3,), "INT32")}
    assert inferred(*words, soc=NEW_950, numHeads=4, transposed=True) == {"out": ((3,), "INT16")}


def test_an_output_inferred_under_a_condition_is_null_elsewhere_if_it_may_be() -> None:
    words = (when("transposed", infer_shape(out="(2,)", statsOptional="(5,)")),)
    assert inferred(*words, transposed=True) == {"out": ((2,), "FLOAT16"), "statsOptional": ((5,), "FLOAT16")}
    assert inferred(*words) == {"statsOptional": None}


def test_conditions_hold_for_checks() -> None:
    failing = require("numHeads == 4")
    assert status(when("transposed", failing)) == 0 and status(when("transposed", failing), transposed=True)
    assert status(when(lambda call: call["transposed"], failing)) == 0
    assert status(on_products("950 A3", failing)) == 0 and status(on_products("950 A2", failing))
    assert status(unless_empty("x weight", failing), weight=t([0])) == 0 and status(unless_empty("x", failing))
    assert status(on_operators("aclnnOther", failing)) == 0 and status(on_operators("aclnnTestWords", failing))


def test_one_rule_serves_operators_and_products_in_turn() -> None:
    other = operator_from_prototype(
        "aclnnStatus aclnnOtherWordsGetWorkspaceSize(const aclTensor *x, int64_t numHeads, aclTensor *out,"
        " uint64_t *workspaceSize, aclOpExecutor **executor);"
    )
    several = require("numHeads == 4")
    rule = Rule(
        OPERATOR.name, (on_operators("aclnnTest*", when("not transposed", on_products("A2", tiling(several)))),)
    )
    for _ in range(2):
        for operator, chip, refused in ((OPERATOR, A2, True), (OPERATOR, "Ascend310P3", False), (other, A2, False)):
            if not refused:
                rule.check(call_of(chip, operator))
                continue
            with pytest.raises(RuleViolation) as caught:
                rule.check(call_of(chip, operator))
            assert (
                caught.value.check == "numHeads/value/is-4/on-A2/when-not-transposed"
                and caught.value.status == TILING_ERROR
            )
        rule.check(call_of(A2, transposed=True))


def test_statuses() -> None:
    failing = require("numHeads == 4")
    assert status(failing) == PARAM_INVALID
    assert status(tiling(failing)) == TILING_ERROR
    assert status(tiling(failing), out=t([0])) == 0  # nothing is tiled where every output is empty
    assert status(with_status(INNER_NULLPTR, failing)) == INNER_NULLPTR
    assert status(tiling(when("True", with_status(INNER_NULLPTR, require("True")), failing))) == TILING_ERROR
    assert status(tiling(require("x[5] == 1"))) == TILING_ERROR  # a missing axis too
    assert status(copied_output_shape(out="(9,)")) == INNER_NULLPTR
    assert status(copied_output_shape(out="(9,)"), x=t([0])) == 0


def test_null_pointers_come_first() -> None:
    assert message(require("numHeads == 4"), weight=None) == "weight is None (a null pointer); it is required"
    assert status(weight=None) == PARAM_NULLPTR
    assert status(biasOptional=None) == 0


# ------------------------------------------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("numHeads == 4", "num_heads is 3; it must be 4"),
        ("numHeads > 3", "num_heads is 3; it must be more than 3"),
        ("numHeads < 0", "num_heads is 3; it must be less than 0"),
        ("-numHeads >= 0", "num_heads is 3; -num_heads is -3; it must not be negative"),
        ("numHeads in (1, 2, 8)", "num_heads is 3; it must be 1, 2 or 8"),
        ("8 <= numHeads <= 128", "num_heads is 3; it must be in [8, 128]"),
        ("0 < numHeads < len(x)", "num_heads is 3; it must be in (0, 2 (the rank of x))"),
        ("numHeads % 2 == 0", "num_heads is 3; it must be a multiple of 2"),
        ("x[-1] % 4 == 0", "x has shape (2, 6); its last axis must be a multiple of 4"),
        ("x[0] == weight[0]", "x has shape (2, 6); its first axis must be 6 (the first axis of weight)"),
        ("weight[1] == numHeads * 2", "weight has shape (6, 4); its axis 1 must be 6 (num_heads * 2)"),
        ("len(x) in (3, 4)", "x has shape (2, 6); its rank must be 3 or 4"),
        ("x.size <= 8", "x has 12 elements; their number must be at most 8"),
        ("x.dtype == INT8", "x has dtype FLOAT16; it must be INT8"),
        ("x.dtype in INDICES", "x has dtype FLOAT16; it must be INT32 or INT64"),
        ("x.format == FRACTAL_NZ", "x has format ND; it must be FRACTAL_NZ"),
        ("transposed", "transposed is False; it must be True"),
        ("biasOptional is not None", "bias is None (a null pointer); it is required"),
        ("x is None", "x is given; it must be None"),
        ("not x.contiguous", "x has shape (2, 6) and strides (6, 1); it must not be contiguous"),
        (
            "x.transposed or x.empty",
            "x has shape (2, 6) and strides (6, 1); it must be stored transposed, unless x.empty",
        ),
        ("x.nz", "x has format ND; it must be in FRACTAL_NZ"),
        ("numHeads == 4 or transposed", "num_heads is 3; it must be 4, unless transposed"),
        ("all(n > 2 for n in x)", "x has shape (2, 6); each must be more than 2"),
        ("all(n > 3 for n in x[1:] + x[:1])", "x has shape (2, 6); n is 2; it must be more than 3"),
        (
            "all(n > 3 for n in x[:1])",
            "x has shape (2, 6); each number in the shape of the first axis of x must be more than 3",
        ),
        ("all(0 <= n < m for n, m in zip(x, (3, 5)))", "x has shape (2, 6); n is 6; it must be in [0, 5)"),
        ("isfinite(numHeads / 0.0)", "num_heads makes a divisor zero"),
        (
            "x.contiguous and isfinite(eps * 1e308 * 1e308)",
            "eps is 0.5; eps * 1e+308 * 1e+308 is inf; it must be finite",
        ),
        ("6 not in x", "x has shape (2, 6); it must not contain 6"),
        ("1 in x[1:]", "x has shape (2, 6); the shape of x without the first axis must contain 1"),
        ("len(x.storage) == 4", "x has storage (2, 6); its rank must be 4"),
        (
            "all(n <= m for n, m in zip(x, (1, 6)))",
            "x has shape (2, 6); n is 2; it must be at most 1",
        ),
        ("not numHeads < 4", "num_heads is 3; it must be at least 4"),
        ("not numHeads.real < 4", "num_heads is 3; it must be at least 4"),  # of a scalar that may be complex
        ("not transposed == False", "transposed is False; it must not be False"),
        ("weight == with_size(x, -1, 4)", "weight has shape (6, 4); it must be (2, 4)"),
        ("broadcasts(x, weight)", "x has shape (2, 6); it must broadcast with (6, 4) (weight)"),
        (
            "len(broadcast(x, weight)) == 2",
            "x does not fit: (2, 6) and (6, 4) do not broadcast",
        ),
        ("x[2] > 0", "x has shape (2, 6); it must have an axis 2"),
        ("x[numHeads - 2] > 6", "x has shape (2, 6); its axis 1 (num_heads - 2) must be more than 6"),
        (
            "packed_shape(weight, 3) == (6, 4)",
            "weight does not fit: 4 is not a multiple of 8",
        ),
        ("exact_div(x[1], 4) > 0", "x does not fit: 6 is not a multiple of 4"),
        ("(x[1:] + x[:1])[2] > 0", "x has too few items or axes"),
        ("numHeads // (x[0] - 2) == 1", "num_heads makes a divisor zero"),
    ],
)
def test_a_failing_condition_explains_itself(condition: str, expected: str) -> None:
    assert message(require(condition)) == expected


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [(((2, 1), (3,)), (2, 3)), (((), (4,)), (4,)), (((1, 5), (0, 1), (5,)), (0, 5)), (((3,),), (3,))],
)
def test_broadcast(shapes: tuple[tuple[int, ...], ...], expected: tuple[int, ...]) -> None:
    assert broadcast(*shapes) == np.broadcast_shapes(*shapes) == expected


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation"),
    [(7, 3, 2, 1, 1), (10, 2, 3, 0, 2), (5, 5, 1, 2, 1), (8, 3, 3, 0, 1), (8, 3, 3, 1, 1), (9, 2, 2, 1, 3)],
)
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_window_count_is_that_of_torch(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool, torch: Any
) -> None:
    pooled = torch.nn.functional.max_pool1d(torch.zeros(1, 1, size), kernel, stride, padding, dilation, ceil_mode)
    assert window_count(size, kernel, stride, padding, padding, dilation, ceil_mode) == pooled.shape[-1]


def test_a_window_that_does_not_fit() -> None:
    assert window_count(2, 5, 2, 0, 0) == -1
    assert window_count(2, 5, 2, 0, 0, towards_zero=True) == 0
    assert window_count(2, 2, 0, 0, 0) == -1


def test_conditions_are_checked_one_by_one() -> None:
    assert message(require("numHeads == 3 and x[0] == 5")) == "x has shape (2, 6); its first axis must be 5"
    assert message(require("numHeads == 3", "x[0] == 5", why="as ever")).endswith("must be 5, as ever")
    found = violation(require("numHeads == weight[0]", argument="weight"))
    assert found is not None and found.argument == "weight"
    assert found.detail == "weight has shape (6, 4); num_heads is 3; it must be 6 (the first axis of weight)"
    text = message(require("x[1] % numHeads == 0", argument="numHeads"), numHeads=4)
    assert text == "num_heads is 4; axis 1 of x is 6; it must be a multiple of 4 (num_heads)"


def test_a_condition_passes_where_an_argument_is_absent() -> None:
    assert status(require("biasOptional[0] == 4", "len(padsOptional) == 2")) == 0
    assert (
        message(require("biasOptional[0] == 4"), biasOptional=t([3])) == "bias has shape (3,); its first axis must be 4"
    )
    assert message(require("len(padsOptional) == 2"), padsOptional=(1,)) == "pads has 1 items; their number must be 2"
    assert message(require("padsOptional[3] == 2"), padsOptional=(1,)) == "pads has 1 item; it must have an item 3"


def test_only_the_branch_that_is_taken_needs_its_arguments() -> None:
    words = (infer_shape(out="(biasOptional[0],) if scaleOptional is None else scaleOptional"),)
    assert inferred(*words, biasOptional=t([4]))["out"] == ((4,), "FLOAT16")
    assert inferred(*words, scaleOptional=t([5]))["out"] == ((5,), "FLOAT16")
    assert inferred(infer_shape(statsOptional="biasOptional")) == {"statsOptional": None}
    assert message(require("biasOptional is None or biasOptional[0] == 4"), biasOptional=t([3])).startswith(
        "bias is given"
    )
    assert message(require("biasOptional is not None and biasOptional[0] == 4")).endswith("it is required")


def test_lists_of_tensors_are_tuples_of_shapes() -> None:
    parts = [t([2, 3]), t([4, 3])]
    assert status(require("len(partsOptional) == 2", "partsOptional[1][0] == 4"), partsOptional=parts) == 0
    assert status(require("sum(p[0] for p in partsOptional) == 6"), partsOptional=parts) == 0
    assert status(require("all(p[-1] == numHeads for p in partsOptional)"), partsOptional=parts) == 0
    detail = message(require("all(p[1] % 2 == 0 for p in partsOptional)"), partsOptional=parts)
    assert detail == "parts[0] has shape (2, 3); what is compared is 1; it must be 0"
    detail = message(require("all(p == x for p in partsOptional)"), partsOptional=[t([2, 6]), t([3])])
    assert detail == "parts[1] has shape (3,); it must be (2, 6)"
    assert (
        message(require("all(n > 0 for n in padsOptional)"), padsOptional=(1, -1))
        == "pads[1] is -1; it must be positive"
    )
    words = require("sum(p[0] for p in partsOptional) == 6")
    assert message(words, partsOptional=[parts[0], None]) == "parts[1] is None (a null pointer); it is required"


def test_definitions() -> None:
    words = (define(k="weight[1] if transposed else weight[0]"), require("x[1] == k"), infer_shape(out="(k, numHeads)"))
    assert status(*words) == 0 and inferred(*words) == {"out": ((6, 3), "FLOAT16")}
    assert (
        message(*words, transposed=True) == "x has shape (2, 6); its axis 1 must be 4 (k)"
    )  # the name stands for its value in the message
    assert message(define(k="x[1]"), require("k == 7")) == "x has shape (2, 6); k (axis 1 of x) is 6; it must be 7"


def test_a_definition_that_hides_a_function_is_a_bug() -> None:
    with pytest.raises(ValueError, match="ceil_div: a function or a member of that name exists"):
        define(ceil_div="x[0]")


def test_an_unknown_name_is_a_bug() -> None:
    with pytest.raises(LookupError, match="has no parameter heads"):
        message(require("heads == 1"))


# ------------------------------------------------------------------------------------------------- patterns


def test_patterns_bind_compare_and_tell() -> None:
    word = shape_patterns(x="n k", weight="k m", biasOptional="m | 1 m", out="n m", statsOptional="n 2*m+1")
    assert inferred(word) == {"out": ((2, 4), "FLOAT16"), "statsOptional": ((2, 9), "FLOAT16")}
    assert status(word) == status(word, biasOptional=t([4])) == status(word, biasOptional=t([1, 4])) == 0
    assert message(word, biasOptional=t([5])) == "bias has shape (5,); it must be (m,) or (1, m)"
    assert message(word, weight=t([5, 4])) == "weight has shape (5, 4); it must be (k, m), where k is 6"
    assert message(word, weight=t([6])) == "weight has shape (6,); it must be (k, m)"
    assert message(word, out=t([2, 5])) == "out has shape (2, 5); it must be (n, m), where m is 4"


def test_patterns_with_leading_axes() -> None:
    word = shape_patterns((1, 2), x="* d", out="* d//numHeads", where="d % 4 == 0")
    arguments = {"x": t([5, 2, 12]), "out": t([5, 2, 4])}
    assert status(word, **arguments) == 0 and inferred(word, **arguments) == {"out": ((5, 2, 4), "FLOAT")}
    assert (
        message(word, **{**arguments, "x": t([12])}) == "x has shape (12,); it must be (*, d) with 1 to 2 leading axes"
    )
    text = "out has shape (5, 3, 4); it must be (*, d//numHeads), where * is (5, 2)"
    assert message(word, **{**arguments, "out": t([5, 3, 4])}) == text
    assert message(word) == "out has shape (2, 4); it must be (*, d//numHeads), where d//numHeads is 2"
    assert message(word, out=t([2, 2])) == "x has shape (2, 6); d (the last axis of x) is 6; it must be a multiple of 4"


def test_sizes_are_names_for_the_rest_of_the_rule() -> None:
    words = (shape_patterns(x="* d"), infer_shape(out="(*lead, d, d)"), shape_patterns(weight="d m"))
    assert inferred(*words) == {"out": ((2, 6, 6), "FLOAT16")}
    assert message(*words, weight=t([5, 4]), out=None, x=t([2, 6])).startswith("out is None")
    assert message(*words, weight=t([5, 4])) == "weight has shape (5, 4); it must be (d, m), where d is 6"


def test_sizes_of_a_condition_that_does_not_hold_are_not_bound() -> None:
    words = (
        when("transposed", shape_patterns(x="k n")),
        when("not transposed", shape_patterns(x="n k")),
        infer_shape(out="(n, k)"),
    )
    assert inferred(*words) == {"out": ((2, 6), "FLOAT16")}
    assert inferred(*words, transposed=True) == {"out": ((6, 2), "FLOAT16")}


# ------------------------------------------------------------------------------------------------- other words


@pytest.mark.parametrize(
    ("word", "given", "expected"),
    [
        (required("biasOptional"), {}, "bias is None (a null pointer); it is required"),
        (
            absent("biasOptional", why="with mask"),
            {"biasOptional": t([4])},
            "bias is given; it must be None, with mask",
        ),
        (
            together("biasOptional", "scaleOptional"),
            {"biasOptional": t([4])},
            "scale is None; it must be given together with bias",
        ),
        (not_empty("x"), {"x": t([0, 6])}, "x has shape (0, 6); it must not be empty"),
        (not_empty("padsOptional"), {"padsOptional": ()}, "pads is empty; it must not be"),
        (positive("numHeads"), {"numHeads": 0}, "num_heads is 0; it must be positive"),
        (positive("eps"), {"eps": float("nan")}, "eps is nan; it must be positive"),
        (not_negative("padsOptional"), {"padsOptional": (1, -1)}, "pads is (1, -1); each item must not be negative"),
        (multiple_of(8, "numHeads"), {}, "num_heads is 3; it must be a multiple of 8"),
        (in_range("numHeads", 4, 8), {}, "num_heads is 3; it must be in [4, 8]"),
        (one_of("numHeads", 4, 8), {}, "num_heads is 3; it must be 4 or 8"),
        (array_length("padsOptional", 2), {"padsOptional": (1,)}, "pads has 1 items; it must have 2"),
        (dtypes("INT8", "x"), {}, "x has dtype FLOAT16; on Ascend910B1 it must be INT8"),
        (
            has_dtype("out", "INT8 if transposed else x.dtype"),
            {"transposed": True},
            "out has dtype FLOAT16; it must be INT8",
        ),
        (same_dtype("x", "out"), {"out": t([2, 4])}, "out has dtype FLOAT; it must be FLOAT16, as x"),
        (
            dtype_table("x weight", "INT8/INT4 INT8", "FLOAT16 INT8"),
            {},
            "weight has dtype FLOAT16; on Ascend910B1 it must be INT8",
        ),
        (absent_or_empty("biasOptional"), {"biasOptional": t([4])}, "bias is given; it must be None"),
        (
            formats_by_rank({2: "NCHW ND", 3: "NCL"}, "x"),
            {"x": t([1, 2, 3])},
            "x has rank 3 and format ND; it must be NCL",
        ),
        (
            formats_by_rank({2: "NCHW", 3: "NCL"}, "x"),
            {"x": t([1])},
            "x has rank 1 and format ND; it must be of rank 2 or 3",
        ),
        (max_rank(1, "x"), {}, "x has rank 2 (shape (2, 6)); it must be at most 1"),
        (
            not_nz("weight"),
            {"weight": t([6, 4], "INT8", "FRACTAL_NZ")},
            "weight has format FRACTAL_NZ; it must be a plain format",
        ),
        (
            not_transposed("weight"),
            {"weight": t([6, 4], "INT8", strides=(1, 6))},
            "weight is stored transposed (strides (1, 6)); it must not be",
        ),
        (output_shape_relaxed(out="(1, 1)"), {}, "out has shape (2, 4); it must be (1, 1)"),
    ],
)
def test_words_explain_themselves(word: Check, given: dict[str, Any], expected: str) -> None:
    assert message(word, **given) == expected


@pytest.mark.parametrize(
    ("word", "given"),
    [
        (required("biasOptional"), {"biasOptional": t([4])}),
        (absent("biasOptional"), {}),
        (absent_or_empty("biasOptional"), {"biasOptional": t([0])}),
        (formats_by_rank({2: "NCHW ND"}, "x", "biasOptional"), {}),
        (together("biasOptional", "scaleOptional"), {}),
        (together("biasOptional", "scaleOptional"), {"biasOptional": t([4]), "scaleOptional": t([4])}),
        (not_empty("x", "biasOptional", "padsOptional"), {}),
        (positive("numHeads", "eps", "padsOptional"), {"padsOptional": (1, 2)}),
        (not_negative("numHeads"), {"numHeads": 0}),
        (multiple_of(3, "numHeads"), {}),
        (output_shape_relaxed(out="(1, 1)"), {"out": t([])}),
        (dtype_table("x weight", "INT8 INT8", "FLOAT/FLOAT16 FLOAT16"), {}),
        (dtypes("INT8", "ofAnotherVersion"), {}),
        (rules.language.rank(3, 3, "ofAnotherVersion"), {}),
    ],
)
def test_words_let_pass(word: Check, given: dict[str, Any]) -> None:
    assert message(word, **given) == ""


def test_dtypes_of_outputs() -> None:
    shape = infer_shape(out="x")
    assert inferred(shape) == {"out": ((2, 6), "FLOAT16")}  # nothing told: as the first tensor
    for source, expected in (
        ("INT8", "INT8"),
        ("biasOptional", "BF16"),
        ("INT8 if numHeads > 2 else INT4", "INT8"),
        ("numHeads", "INT32"),
    ):
        assert inferred(shape, output_dtype(out=source), biasOptional=t([4], "BF16"))["out"] == ((2, 6), expected)


def test_words_that_compare_dtypes_with_an_output_tell_its_dtype() -> None:
    shape, given = infer_shape(out="x"), {"biasOptional": t([4], "BF16")}
    assert inferred(shape, same_dtype("biasOptional", "out"), **given)["out"] == ((2, 6), "BF16")
    assert inferred(shape, has_dtype("out", "biasOptional"), **given)["out"] == ((2, 6), "BF16")
    assert inferred(shape, tiling(same_dtype("biasOptional", "out")))["out"] == ((2, 6), "FLOAT16")  # none to be like
    # The last one counts.
    assert inferred(shape, same_dtype("x", "out"), output_dtype(out="INT8"))["out"] == ((2, 6), "INT8")
    assert inferred(shape, has_dtype("out", "INT8"), same_dtype("x", "out"))["out"] == ((2, 6), "FLOAT16")


def test_outputs_that_are_computed_under_a_condition() -> None:
    words = (
        conditional_outputs(statsOptional="padsOptional[1]"),
        output_shape(out="x", statsOptional="weight"),
        dtypes("FLOAT16", "statsOptional"),
    )
    same = t([2, 6], "FLOAT16")
    for pads in ((1, 0), (1,), None):  # not asked for, by a mask that is too short, without a mask
        assert status(*words, out=same, padsOptional=pads) == 0
        assert status(*words, out=same, padsOptional=pads, statsOptional=t([9], "INT8")) == 0  # not looked at
        assert inferred(*words, padsOptional=pads)["statsOptional"] is None
    asked = {"out": same, "padsOptional": (0, 1)}
    found = violation(*words, **asked)
    assert found is not None and found.status == PARAM_NULLPTR
    assert found.detail == "stats is None (a null pointer); it is required where item 1 of pads is set"
    assert message(*words, **asked, statsOptional=t([9], "FLOAT16")) == "stats has shape (9,); it must be (6, 4)"
    assert status(*words, **asked, statsOptional=t([6, 4], "FLOAT16")) == 0
    assert inferred(*words, **asked)["statsOptional"] == ((6, 4), "FLOAT16")
    assert status(conditional_outputs(PARAM_INVALID, statsOptional="padsOptional[1]"), **asked) == PARAM_INVALID


def test_families_of_a_table_by_product() -> None:
    word = dtype_table("x weight", "T T", T={"A2": "FLOAT16 BF16", "": "FLOAT"})
    assert status(word) == 0
    assert message(word, soc=NEW_950) == "x has dtype FLOAT16; on Ascend950PR_9599 it must be FLOAT"


def test_the_sizes_of_a_product() -> None:
    words = (*matrix_product("x", "weight", "transposed", "numHeads"), infer_shape(out="(*batch, m, n)"))
    arguments = {"x": t([3, 2, 6]), "weight": t([6, 4]), "numHeads": 0}
    assert inferred(*words, **arguments)["out"][0] == (3, 2, 4)
    assert inferred(*words, x=t([6, 2]), weight=t([3, 4, 6]), transposed=True)["out"][0] == (3, 2, 4)
    assert message(*words, **{**arguments, "weight": t([5, 4])}) == (
        "weight has shape (5, 4); the second last axis of weight is 5; it must be 6 (k)"
    )
    assert message(*words, **{**arguments, "weight": t([2, 6, 4])}) == (
        "x has shape (3, 2, 6); the shape of x without the last 2 axes is (3,); it must broadcast with (2,) "
        "(the shape of weight without the last 2 axes)"
    )


def test_lists_that_hold_nothing_count_as_null_pointers() -> None:
    for value in ([], [None], [t([0])], None):
        call = call_of(partsOptional=value)
        Rule(OPERATOR.name, (require("partsOptional is None"),), empty_lists="partsOptional").check(call)
        assert call["partsOptional"] is None
    with pytest.raises(RuleViolation):
        call = call_of(partsOptional=[t([0]), t([1])])
        Rule(OPERATOR.name, (require("partsOptional is None"),), empty_lists="partsOptional").check(call)


def test_an_empty_list_has_no_shapes() -> None:
    for parts, shapes in (([t([2]), t([3])], [(2,), (3,)]), ([], []), ([None], [])):
        specs = Rule(OPERATOR.name, (infer_shape(out="partsOptional"),)).infer(call_of(partsOptional=parts, out=None))
        assert [spec.shape for spec in specs["out"]] == shapes  # type: ignore[union-attr]


def test_aliases() -> None:
    words = (require("w[0] == 7"), infer_shape(result="w"))
    rule = Rule(OPERATOR.name, words, aliases={"w": "w weight x2", "result": "y out"})
    with pytest.raises(RuleViolation, match=r"^weight has shape \(6, 4\); its first axis must be 7") as caught:
        rule.check(call_of())
    assert caught.value.argument == "weight"
    assert rule.infer(call_of(out=None))["out"].shape == (6, 4)  # type: ignore[union-attr]


def test_one_of_some_dtypes_for_all() -> None:
    word = same_dtype("x", "weight", "out", among="FLOAT16 BF16")
    assert message(word) == ""
    assert message(word, weight=t([6, 4], "BF16")) == "weight has dtype BF16; it must be FLOAT16, as x"
    assert message(word, x=t([2, 6], "INT8")) == "x has dtype INT8; on Ascend910B1 it must be FLOAT16 or BF16"
    assert inferred(infer_shape(out="x"), word, x=t([2, 6], "BF16")) == {"out": ((2, 6), "BF16")}


def test_an_alias_is_none_without_its_parameter_and_gives_way_to_a_parameter() -> None:
    words = (when("absentHere is not None", require("numHeads == 0")), require("x[0] == 2"))
    Rule(OPERATOR.name, words, aliases={"absentHere": "ofAnotherVersion", "x": "weight"}).check(call_of())


def test_both_forms_of_an_operator_share_a_rule() -> None:
    registry.load_all("ascend_aclnn.rules")
    plain, inplace = (catalog.get(f"aclnn{name}") for name in ("Erf", "InplaceErf"))
    x, wrong = t([2, 3]), t([2, 3], "INT64")
    device = find_soc(A2)
    assert rules.check(plain, [x, x], device) is None and rules.check(inplace, [x], device) is None
    assert rules.check(plain, [wrong, x], device) is None  # integers are computed in FLOAT
    found = rules.check(inplace, [wrong], device)  # but cannot hold the result
    assert found is not None and found.argument == inplace.parameters[0].name
    found = rules.check(plain, [x, t([3, 2])], device)
    assert found is not None and found.detail == "out has shape (3, 2); it must be (2, 3)"


def test_presence_by_condition() -> None:
    word = present_if("numHeads > 2", "biasOptional")
    assert (
        message(word) == "bias is None (a null pointer); it is required where num_heads is more than 2"
        and status(word) == PARAM_INVALID
    )
    assert message(word, biasOptional=t([4])) == "" == message(word, numHeads=1)
    assert (
        message(word, biasOptional=t([4]), numHeads=1)
        == "bias is given; it must be None unless num_heads is more than 2"
    )
    assert status(present_if("numHeads > 2", "biasOptional", status=PARAM_NULLPTR)) == PARAM_NULLPTR


def test_sizes_by_the_letters_of_a_layout() -> None:
    sizes = define(layout="known('BSH', 'BSH', 'BNSD')", q="by_letter(scaleOptional, layout, numHeads)")
    arguments = {"scaleOptional": t([2, 5, 12])}
    assert message(sizes, require("q.B == 2", "q.S == 5", "q.N == 3", "q.D == 4", "q.T == 0"), **arguments) == ""
    wide = message(sizes, require("q.D <= 2"), **arguments)
    assert wide == "scale has shape (2, 5, 12); q.D is 4; it must be at most 2"
    flat = message(sizes, require("q.D <= 2"), scaleOptional=t([2, 12]))
    assert flat == "scale has shape (2, 12); in layout BSH its rank must be 3"
    assert inferred(sizes, infer_shape(out="arranged('BNSD', q, 7)"), **arguments) == {"out": ((2, 3, 5, 7), "FLOAT16")}
    with pytest.raises(RuleViolation, match="has no axis T of layout TND"):
        inferred(sizes, infer_shape(out="arranged('TND', q, 7)"), **arguments)
    with pytest.raises(RuleViolation, match="num_heads is 3; it must be 1 or 2"):
        inferred(infer_shape(out="(known(numHeads, 1, 2),)"))


def test_lengths_of_slices() -> None:
    for start, end, step in ((0, 6, 1), (1, -1, 2), (-3, 100, 1), (4, 2, 1), (-100, 3, 2)):
        wanted = len(range(6)[start:end:step])
        assert inferred(infer_shape(out=f"(slice_length(x[1], {start}, {end}, {step}),)")) == {
            "out": ((wanted,), "FLOAT16")
        }
    assert "the step is 0" in message(require("slice_length(x[1], 0, 1, 0) == 1"))


@pytest.mark.parametrize("tensor", ["BOOL", "UINT8", "INT32", "FLOAT16", "FLOAT", "COMPLEX64"])
@pytest.mark.parametrize("scalar", ["BOOL", "INT64", "DOUBLE", "COMPLEX128"])
def test_a_scalar_joins_as_in_torch(tensor: str, scalar: str, torch: Any) -> None:
    """The category (boolean, integer, floating, complex) of torch's result; the precision is CANN's own."""
    call = call_of(x=t([2, 6], tensor), weight=t([6, 4], scalar))
    made = joined_by_scalar("x", "weight")(call)
    of_torch = {"BOOL": torch.bool, "UINT8": torch.uint8, "INT32": torch.int32, "INT64": torch.int64}
    of_torch |= {"FLOAT16": torch.float16, "FLOAT": torch.float32, "DOUBLE": torch.float64}
    of_torch |= {"COMPLEX64": torch.complex64, "COMPLEX128": torch.complex128}
    wanted = torch.result_type(torch.zeros(2, dtype=of_torch[tensor]), torch.zeros((), dtype=of_torch[scalar]))
    categories = (is_complex(made), is_floating(made), is_integral(made))
    assert categories == (
        wanted.is_complex,
        wanted.is_floating_point,
        not wanted.is_complex and not wanted.is_floating_point and wanted != torch.bool,
    )


def test_real_tensors_and_scalars() -> None:
    word = not_complex("x", "biasOptional")
    assert message(word) == ""
    assert message(word, x=t([2], "COMPLEX64")) == "x has dtype COMPLEX64; it must be real"


# ------------------------------------------------------------------------------------------------- accessors


def test_a_missing_axis_names_the_argument() -> None:
    call = call_of(partsOptional=[t([2, 3]), None])
    for wrong in (
        lambda: call.shape("x")[2],
        lambda: call.size("x", -3),
        lambda: call.sizes("x", 3),
        lambda: call.shape("x", least=3),
    ):
        with pytest.raises(RuleViolation, match=r"x has shape \(2, 6\); ") as caught:
            wrong()
        assert caught.value.argument == "x"
    with pytest.raises(RuleViolation, match=r"parts\[1\] is None"):
        call.items("partsOptional")
    with pytest.raises(RuleViolation, match="has 0 tensors; it must have at least 1"):
        call.items("maskOptional")
    assert call.shape("x")[1:] == (6,) and call.shape("biasOptional") == ()


# ------------------------------------------------------------------------------------------------- all rules


def test_expressions_name_parameters_only() -> None:
    """An expression that no test reaches must not fail for a name that nobody knows."""
    registry.load_all("ascend_aclnn.rules")
    known = {"product"}
    for rule in RULES.values():
        if rule.name not in catalog.names():
            continue
        parameters = {name for version in rule.versions for name in catalog.get(version).positions}
        for expression in rule.expressions:
            unknown = set(expression.names) - parameters - set(rule.definitions) - set(rule.aliases) - known
            assert not unknown, f"{rule.name}: {expression.text} names {unknown}"
            assert callable(expression.function)


def test_no_parameter_hides_a_definition() -> None:
    """A parameter's value counts before a definition of its name, which then says nothing."""
    registry.load_all("ascend_aclnn.rules")
    for rule in RULES.values():
        if rule.name in catalog.names():
            defined = {
                name
                for name, found in rule.definitions.items()
                if any(type(value) is Expression and value.text != "None" for _, value in found)  # None: an alias
            }
            hidden = defined & set(catalog.get(rule.name).positions)
            assert not hidden, f"{rule.name} has parameters {hidden}"
