"""The catalog: complete, readable, regenerable, and named as the contract says."""

from __future__ import annotations

import dataclasses
import inspect
import json
import keyword
from pathlib import Path
from typing import Any

import pytest

from ascend_aclnn import catalog
from ascend_aclnn.catalog import REQUIRED, Kind, Operator, Parameter
from ascend_aclnn.catalog.naming import operator_python_name, parameter_python_name, snake_case
from ascend_aclnn.catalog.signature import (
    c_prototype,
    docstring,
    python_parameters,
    python_signature,
    result_fields,
    result_type_name,
)
from ascend_aclnn.core.dtypes import DataType, Format

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def operators() -> list[Operator]:
    return [catalog.get(name) for name in catalog.names()]


def test_every_operator_is_there(operators: list[Operator]) -> None:
    assert sum(not o.experimental for o in operators) == 1188
    assert sum(o.experimental for o in operators) == 193
    assert sum(o.since == "8.1.RC1" for o in operators) == 771
    assert list(catalog.names()) == sorted(catalog.names())
    assert len(catalog.helpers()) == 11


def test_entries_are_well_formed(operators: list[Operator]) -> None:
    assert sum(len(o.parameters) for o in operators) == 10571
    for operator in operators:
        assert operator.header.startswith("aclnnop/") and operator.header.endswith(".h"), operator.name
        names = [p.name for p in operator.parameters]
        assert len(set(names)) == len(names), operator.name
        for parameter in operator.parameters:
            assert isinstance(parameter.kind, Kind)
            assert parameter.direction in ("in", "out", "inout")
            assert all(n in DataType.__members__ for n in parameter.dtypes or ()), (operator.name, parameter.name)
            assert all(n in Format.__members__ for n in parameter.formats or ()), (operator.name, parameter.name)
            if parameter.direction != "in":
                assert parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST), (operator.name, parameter.name)
        for product in operator.products or ():
            for parameter in operator.parameters:
                operator.dtypes(parameter, product)  # raises on an unknown name


def test_defaults_fit_their_types(operators: list[Operator]) -> None:
    allowed: dict[Kind, Any] = {
        Kind.BOOL: bool,
        Kind.FLOAT: float,
        Kind.DOUBLE: float,
        Kind.STRING: str,
        Kind.SCALAR: (bool, int, float),
        Kind.INT_ARRAY: tuple,
        Kind.FLOAT_ARRAY: tuple,
        Kind.BOOL_ARRAY: tuple,
        Kind.DATA_TYPE: type(None),  # the input's
    }
    count = 0
    for operator in operators:
        for parameter in operator.parameters:
            if parameter.default is REQUIRED:
                continue
            count += 1
            hash(parameter)  # nothing mutable is shared between calls
            where = f"{operator.name}.{parameter.name}"
            assert parameter.direction == "in", where
            if parameter.kind.integer:
                assert type(parameter.default) is int, where
            else:
                assert isinstance(parameter.default, allowed[parameter.kind]), where
    assert count > 1000


def test_no_two_python_names_collide(operators: list[Operator]) -> None:
    names = {operator.python_name for operator in operators}
    assert len(names) == len(operators) == len(catalog.python_names())
    for operator in operators:
        inputs = [name for name, _, _ in python_parameters(operator)]
        fields = [field.name for field in result_fields(operator)]
        assert len(set(inputs)) == len(inputs), operator.name
        assert len(set(fields)) == len(fields), operator.name
        assert not {"out", "stream"} & set(inputs), operator.name
        for name in [operator.python_name, *inputs, *fields]:
            assert name.isidentifier() and not keyword.iskeyword(name), (operator.name, name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aclnnRmsNormGrad", "rms_norm_grad"),
        ("aclRfft1D", "rfft1_d"),
        ("aclnnNLLLoss2d", "nll_loss2d"),
        ("aclnnErfInv", "erf_inv"),
        ("aclnnErfinv", "erfinv"),
        ("aclnnHardShrink", "hard_shrink"),
        ("aclnnHardshrink", "hardshrink"),
        ("aclnnHardSigmoid", "hard_sigmoid"),
        ("aclnnHardSwish", "hard_swish"),
        ("aclnnIm2Col", "im2_col"),
        ("aclnnIm2col", "im2col"),
        ("aclnnOneHot", "one_hot"),
        ("aclnnOnehot", "onehot"),
        ("aclnnFFNV2", "ffnv2"),
        ("aclnnUpsampleBicubic2dAAGrad", "upsample_bicubic2d_aa_grad"),
    ],
)
def test_operator_names(name: str, expected: str) -> None:
    assert operator_python_name(name) == expected
    assert catalog.python_names()[expected] == name


@pytest.mark.parametrize(
    ("name", "direction", "expected"),
    [
        ("probsOptional", "in", "probs"),
        ("selfRef", "inout", "self"),
        ("layoutOptionalOptional", "in", "layout"),
        ("dxOut", "out", "dx"),
        ("dxOut", "in", "dx_out"),
        ("xOutOptional", "out", "x"),
        ("lambda", "in", "lambda_"),
        ("out", "in", "out_"),
        ("out", "out", "out"),
        ("outRef", "inout", "out_"),
        ("stream", "in", "stream_"),
        ("equal_nan", "in", "equal_nan"),
        ("cubeMathType", "in", "cube_math_type"),
    ],
)
def test_parameter_names(name: str, direction: str, expected: str) -> None:
    assert parameter_python_name(name, direction) == expected


def test_snake_case() -> None:
    assert snake_case("NLLLoss") == "nll_loss"
    assert snake_case("numOutTokens") == "num_out_tokens"


@pytest.mark.parametrize(
    "expected",
    [
        "moe_token_permute_grad(permuted_output_grad, sorted_indices, num_topk, padded_mode=False) -> out",
        "moe_token_permute(tokens, indices, num_out_tokens=0, padded_mode=False) -> (permute_tokens, sorted_indices)",
        "moe_token_unpermute(permuted_tokens, sorted_indices, probs=None, padded_mode=False, restore_shape=None) "
        "-> out",
        "moe_token_unpermute_grad(permuted_tokens, unpermuted_tokens_grad, sorted_indices, probs=None, "
        "padded_mode=False, restore_shape=None) -> (permuted_tokens_grad, probs_grad)",
        "rms_norm_grad(dy, x, rstd, gamma) -> (dx, dgamma)",
        "rms_norm(x, gamma, epsilon=1e-06) -> (y, rstd)",
        "embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq=False) -> out",
        "embedding(weight, indices) -> out",
        "moe_init_routing(x, row_idx, expert_idx, active_num) -> (expanded_x, expanded_row_idx, expanded_expert_idx)",
        "mm(self, mat2, cube_math_type=0) -> out",
        "moe_init_routing_quant(x, row_idx, expert_idx, active_num, scale, offset) -> "
        "(expanded_x, expanded_row_idx, expanded_expert_idx)",
    ],
)
def test_signatures_of_the_contract(expected: str) -> None:
    name = expected.split("(")[0]
    operator = catalog.get(catalog.python_names()[name])
    assert python_signature(operator).replace(", *, out=None, stream=None", "") == expected


def test_required_parameters_after_optional_ones_are_marked() -> None:
    rows = python_parameters(catalog.get("aclnnConvolution"))
    defaults = {name: default for name, _, default in rows}
    assert defaults["weight"] is inspect.Parameter.empty
    assert defaults["bias"] is None
    assert defaults["stride"] is REQUIRED
    assert defaults["cube_math_type"] == 0


def test_docstring_starts_with_what_the_operator_computes() -> None:
    text = docstring(catalog.get("aclnnRmsNormGrad"))
    assert text.startswith("Computes the gradients of RmsNorm with respect to input and gamma.\n\n    dx = rstd * ")
    for words in (
        "dy: tensor; FLOAT FLOAT16 BF16; rank 1-8; gradient of the output [310P: not BF16]",
        "dgamma: tensor; FLOAT",
        "A2 A3 310P",
        "161002 ACLNN_ERR_PARAM_INVALID: a dtype is not supported",
    ):
        assert words in text
    url = "https://gitcode.com/cann/ops-nn/blob/master/norm/rms_norm_grad/docs/aclnnRmsNormGrad.md"
    assert text.endswith(url)
    assert "dim: ints; default () (all axes); axes, negative ones count from the end" in docstring(
        catalog.get("aclnnAmax")
    )


def test_every_operator_can_be_described(operators: list[Operator]) -> None:
    for operator in operators:
        assert operator.name in docstring(operator)
        assert python_signature(operator).startswith(operator.python_name + "(")
        assert c_prototype(operator).count(operator.name) == 2
        assert result_type_name(operator).endswith("Result")


def test_functions_have_the_signature_of_the_catalog(operators: list[Operator]) -> None:
    from ascend_aclnn import ops

    assert sorted(dir(ops)) == sorted(catalog.python_names())
    for operator in operators:
        function = getattr(ops, operator.python_name)
        parameters = inspect.signature(function).parameters.values()
        found = [(p.name, p.default) for p in parameters]
        expected = [(name, default) for name, _, default in python_parameters(operator)]
        assert found == [*expected, ("out", None), ("stream", None)], operator.name
        assert function.__doc__ == docstring(operator)


def test_irregular_operators() -> None:
    assert [name for _, name in catalog.get("aclnnGaussianBlur").phase_two][:2] == ["src", "ksize"]
    assert "src" in c_prototype(catalog.get("aclnnGaussianBlur")).splitlines()[1]
    (old,) = (catalog.get("aclnnMlaPrologV3WeightNz").variants or {}).values()
    assert {"name": "queryNormFlag", "ctype": "bool"} in old
    assert result_fields(catalog.get("aclnnSleep")) == []
    dense = catalog.get("aclnnEmbeddingDenseBackward")
    assert [p.kind for p in dense.parameters[2:4]] == [Kind.UINT64, Kind.UINT64]
    grad, indices = dense.parameters[:2]
    assert DataType.BF16 in (dense.dtypes(grad, "A2") or ()) and DataType.BF16 not in (dense.dtypes(grad, "910") or ())
    assert DataType.BF16 not in (dense.dtypes(indices, "A2") or ())


def test_unknown_operator() -> None:
    with pytest.raises(KeyError):
        catalog.get("aclnnNoSuchThing")


def data_files() -> dict[str, dict[str, Any]]:
    """C name -> entry as the sources state it, read the plain way."""
    found: dict[str, dict[str, Any]] = {}
    for path in catalog.DATA.glob("ops-*.json"):
        for name, entry in json.loads(path.read_text(encoding="utf-8")).items():
            assert name not in found and path.stem == entry["family"].replace("/", "."), name
            found[name] = entry
    return found


def test_an_entry_read_alone_is_the_entry_of_its_file() -> None:
    entries = data_files()
    assert sorted(entries) == list(catalog.names())
    for name, entry in entries.items():
        operator = catalog.get(name)
        assert [(p.name, p.ctype) for p in operator.parameters] == [
            (p["name"], p["ctype"]) for p in entry["parameters"]
        ]
        assert operator.header == entry["header"]


def test_corrections_change_what_the_sources_state_and_give_a_reason() -> None:
    entries = data_files()
    for row in json.loads((catalog.FOLDER / "overlay.json").read_text(encoding="utf-8")):
        assert row["reason"]
        entry = entries[row["operator"]]
        rows = {parameter["name"]: parameter for parameter in entry["parameters"]}
        targets = [rows[name] for name in row["parameter"].split()] if "parameter" in row else [entry]
        standard = {"optional": False, "direction": "in"}
        for target in targets:
            for key, value in row["set"].items():
                assert target.get(key, standard.get(key)) != value, f"{row}: the sources state that already"
                assert key in {
                    field.name for field in dataclasses.fields(Parameter if "parameter" in row else Operator)
                }
    matched = catalog.get("aclnnRmsNormGrad")
    assert matched.parameters[0].rank == "1-8" and entries["aclnnRmsNormGrad"]["parameters"][0]["rank"] == "2-8"


def test_defaults_belong_to_parameters_and_have_evidence() -> None:
    rows = json.loads((catalog.FOLDER / "defaults.json").read_text(encoding="utf-8"))
    for name, defaults in rows.items():
        parameters = {p.name: p for p in catalog.get(name).parameters}
        for parameter, default in defaults.items():
            value = default["value"]
            assert parameters[parameter].default == (tuple(value) if isinstance(value, list) else value)
            assert default["evidence"], (name, parameter)


def test_every_source_is_named_with_its_commit(operators: list[Operator]) -> None:
    sources = json.loads((catalog.FOLDER / "sources.json").read_text(encoding="utf-8"))["snapshots"]
    for operator in operators:
        assert operator.since in sources, operator.name
        if operator.document:
            assert any(operator.document.partition("/")[0] in snapshot for snapshot in sources.values())
    for snapshot in ("2025-11", "2026-08"):
        for source in sources[snapshot].values():
            assert len(source["commit"]) == 40 and source["url"].startswith("https://") and source["date"]
