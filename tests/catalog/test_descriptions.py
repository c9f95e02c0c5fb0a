"""Summaries and formulas: there for every operator, in the names of its function, and true where they can be computed."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import catalog, ops, reference
from ascend_aclnn.catalog import REQUIRED, Kind, Operator
from ascend_aclnn.catalog.signature import KIND_WORDS, in_scope, meaning

OPERATORS = [catalog.get(name) for name in catalog.names()]
FUNCTIONS: dict[str, Any] = {
    "abs": np.abs, "arccos": np.arccos, "arccosh": np.arccosh, "arcsin": np.arcsin, "arcsinh": np.arcsinh,
    "arctan": np.arctan, "arctanh": np.arctanh, "atan2": np.arctan2, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh,
    "e": np.e, "exp": np.exp, "floor": np.floor, "ln": np.log, "log10": np.log10, "log2": np.log2, "max": np.maximum,
    "min": np.minimum, "outer": np.outer, "pi": np.pi, "round": np.rint, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": np.sign, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
}  # fmt: skip
ELEMENTWISE = ("ops-math/math", "ops-math/conversion", "ops-nn/activation", "ops-nn/loss")
# Formulas that the evaluation below cannot follow.
LEFT_OUT = {
    "aclnnHardSigmoid": "for Ascend 950 only, which the catalog does not know",
    "aclnnMax": "a reduction, not the larger one of two",
    "aclnnMin": "a reduction, not the smaller one of two",
    "aclnnMaskedSelect": "an index expression",
    "aclnnLogSigmoidForward": "the function has two results",
    "aclnnPrelu": "weight is a vector of channels",
    "aclnnInplaceFillTensor": "value must have one element",
}


def test_every_operator_has_a_summary() -> None:
    for operator in OPERATORS:
        assert re.fullmatch(r"[A-Z].*[.?]", operator.summary), operator.name
        assert len(operator.summary) <= 160, (operator.name, operator.summary)


def test_rows_belong_to_operators_of_the_family() -> None:
    for path in (catalog.FOLDER / "descriptions").glob("*.json"):
        rows = json.loads(path.read_text(encoding="utf-8"))
        for name, row in rows.items():
            assert catalog.get(name).family.replace("/", ".") == path.stem, name
            assert set(row) <= {"summary", "formula"} and row["summary"], name


def parameter_keys(operator: Operator) -> set[str]:
    """The keys of meanings.json under which the meanings of an operator's parameters can stand."""
    keys = {f"{p.python_name}:{KIND_WORDS.get(p.kind, 'int')}" for p in operator.parameters}
    return keys | {f"{p.python_name}:{KIND_WORDS.get(p.kind, 'int')}:{p.direction}" for p in operator.parameters}


def test_meanings_are_of_parameters() -> None:
    """Each key is of a parameter, and each scope of it holds an operator that has the parameter."""
    rows = json.loads((catalog.FOLDER / "meanings.json").read_text(encoding="utf-8"))
    by_key: dict[str, list[Operator]] = {}
    for operator in OPERATORS:
        for key in parameter_keys(operator):
            by_key.setdefault(key, []).append(operator)
    assert set(rows) <= set(by_key), set(rows) - set(by_key)
    scopes = [(key, scope) for key, row in rows.items() if isinstance(row, dict) for scope in row]
    unused = [(key, scope) for key, scope in scopes if not any(in_scope(operator, scope) for operator in by_key[key])]
    assert unused == []


def test_urls_follow_one_pattern() -> None:
    for operator in OPERATORS:
        if operator.document is None:
            assert operator.url is None
        else:
            assert operator.url is not None
            assert re.fullmatch(r"https://gitcode\.com/cann/ops-\w+/blob/\w+/[\w./&()+-]+\.md", operator.url), (
                operator.url
            )


def computable(operator: Operator) -> Any:
    """The formula as compiled Python, None where it says more than one expression of parameters."""
    if operator.family not in ELEMENTWISE or operator.name in LEFT_OUT or "@" in operator.formula:
        return None
    match = re.fullmatch(r"(?:\w+) = ([^;=,~]+|(?:max|min|atan2|outer)\([^;=~]+)", operator.formula)
    if match is None or any(
        p.kind not in (Kind.TENSOR, Kind.SCALAR) and p.default is REQUIRED for p in operator.inputs
    ):
        return None
    text = re.sub(r"\|(.+?)\|", r"abs(\1)", match.group(1))
    if "Bitwise" not in operator.name:
        text = text.replace("^", "**")
    try:
        code = compile(text, operator.name, "eval")
    except SyntaxError:
        return None
    known = FUNCTIONS.keys() | {p.python_name for p in operator.inputs}
    return code if set(code.co_names) <= known else None


@pytest.mark.parametrize(
    "operator",
    [o for o in OPERATORS if reference.find(o) is not None and computable(o) is not None],
    ids=lambda operator: operator.python_name,
)
def test_a_formula_is_what_the_reference_computes(operator: Operator) -> None:
    numbers = np.random.default_rng(1)
    above_one = operator.name.endswith("Acosh")
    arguments: dict[str, Any] = {}
    for parameter in operator.inputs:
        if parameter.kind is Kind.TENSOR:
            known = operator.dtypes(parameter, "A2") or ()
            names = [d.name for d in known]
            if names and "FLOAT" not in names:
                values: Any = numbers.integers(0, 2, 12) if "INT32" not in names else numbers.integers(1, 9, 12)
                arguments[parameter.python_name] = values.astype(np.int32 if "INT32" in names else known[0].numpy)
            else:
                arguments[parameter.python_name] = (numbers.random(12) * 0.8 + 0.1 + above_one).astype(np.float32)
        elif parameter.kind is Kind.SCALAR:
            tensors = [a for a in arguments.values() if isinstance(a, np.ndarray)]
            arguments[parameter.python_name] = 0.75 if tensors and tensors[0].dtype.kind == "f" else 3
    defaults = {p.python_name: p.default for p in operator.inputs if p.default is not REQUIRED}
    with np.errstate(all="ignore"):
        wanted = eval(computable(operator), FUNCTIONS, {**defaults, **arguments})
    soc = "Ascend910B1" if "A2" in (operator.products or ("A2",)) else "Ascend950PR_9599"
    with aclnn.use_backend("numpy", soc=soc):
        got = getattr(ops, operator.python_name)(**{k: np.copy(v) if np.ndim(v) else v for k, v in arguments.items()})
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(wanted, np.float64), rtol=2e-5, atol=1e-6)


def test_many_formulas_are_computed() -> None:
    assert sum(computable(o) is not None for o in OPERATORS if reference.find(o) is not None) > 120


# New operators may come without meanings or a sentence in Chinese, which are added later. scripts/site lists such gaps.
FEW_CELLS, FEW_OPERATORS = 150, 60


def test_parameters_of_operators_with_a_reference_have_meanings() -> None:
    missing = [
        f"{operator.name}.{parameter.python_name}"
        for operator in OPERATORS
        if reference.find(operator) is not None
        for parameter in operator.parameters
        if not meaning(operator, parameter)
    ]
    assert len(missing) <= FEW_CELLS, missing


@pytest.mark.parametrize(
    ("name", "parameter", "words"),
    [
        ("aclnnRmsNorm", "gamma", "scale after the normalisation"),
        ("aclnnRmsNormGrad", "x", "input of the forward operator"),
        ("aclnnRmsNormGrad", "dgamma", "gradient of gamma"),
        ("aclnnAdd", "other", "right operand"),
        ("aclnnAdds", "other", "a number"),
        ("aclnnAddmm", "self", "tensor that the product is added to"),
        ("aclnnConvTbcBackward", "self", "gradient of the output"),
        ("aclnnLightningIndexerV2Metadata", "topk", "keys that are chosen"),
        ("aclnnMoeGatingTopK", "k", "how many"),
        ("aclnnGelu", "out", "of the input's shape"),
        ("aclnnGeScalar", "out", "truth of each element"),
    ],
)
def test_meanings_of_some(name: str, parameter: str, words: str) -> None:
    """Where a name means different things in different operators."""
    operator = catalog.get(name)
    row = next(p for p in operator.parameters if p.python_name == parameter)
    assert words in meaning(operator, row)


def test_meanings_are_short_and_plain() -> None:
    rows = json.loads((catalog.FOLDER / "meanings.json").read_text(encoding="utf-8"))
    texts = [text for row in rows.values() for text in (row.values() if isinstance(row, dict) else [row])]
    assert [text for text in texts if len(text) > 120 or text.endswith(".") or not text] == []


def chinese_summaries() -> dict[str, str]:
    rows: dict[str, str] = json.loads((catalog.FOLDER / "chinese.json").read_text(encoding="utf-8"))
    return rows


def test_chinese_summaries_are_of_operators_and_differ_from_english() -> None:
    rows = chinese_summaries()
    assert list(rows) == sorted(rows)
    assert set(rows) <= set(catalog.names())
    for name, text in rows.items():
        assert re.search("[\u4e00-\u9fff]", text) and text.endswith("。") and len(text) <= 80, name
        assert not re.search("[\u4e00-\u9fff] *[,;:!?()]|[,;:!?()] *[\u4e00-\u9fff]", text), (name, text)
        assert not re.search("[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]", text), (name, text)


def test_operators_without_a_chinese_summary_are_few() -> None:
    missing = [operator.name for operator in OPERATORS if not operator.chinese_summary]
    assert len(missing) <= FEW_OPERATORS, missing


def test_names_in_chinese_summaries_are_those_of_the_english_ones() -> None:
    """Operators and parameters that a sentence names are real ones."""
    operators = {name[5:] for name in catalog.names()}
    for name, text in chinese_summaries().items():
        for word in re.findall(r"[A-Z][a-z]+[A-Z]\w{4,}", text):  # shorter ones are ReLU, SwiGLU and the like
            assert word in operators or word in catalog.get(name).summary, (name, word)


def test_chinese_words_find_operators() -> None:
    from ascend_aclnn.cli.catalog import matching

    assert {"aclnnRmsNorm", "aclnnLayerNorm", "aclnnBatchNorm"} <= set(matching("归一化"))
