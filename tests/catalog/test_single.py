"""Single operators by type name: their entries fit the operators that do the work, and no listing of aclnn operators has them."""

from __future__ import annotations

import inspect
import json

import pytest

from ascend_aclnn import catalog, ops, reference, registry
from ascend_aclnn.catalog import Kind, atb, single
from ascend_aclnn.catalog.single import SingleOperator
from ascend_aclnn.reference.declare import REFERENCES

ENTRIES = [entry for entry in map(single.find, single.names()) if entry is not None]
BY_DATA = [entry for entry in ENTRIES if entry.arguments is not None]

# The kinds of parameters that a form may be passed to.
KINDS = {
    "tensor": (Kind.TENSOR,),
    "tensor without axes": (Kind.TENSOR,),
    "16-bit words": (Kind.TENSOR,),
    "channels first": (Kind.TENSOR,),
    "channels first from NHWC": (Kind.TENSOR,),
    "list of tensors": (Kind.TENSOR_LIST,),
    "scalar": (Kind.SCALAR,),
    "FLOAT scalar": (Kind.SCALAR,),
    "INT64 scalar": (Kind.SCALAR,),
    "integers": (Kind.INT_ARRAY,),
    "middle integers": (Kind.INT_ARRAY,),
    "shape": (Kind.INT_ARRAY,),
    "spatial shape": (Kind.INT_ARRAY,),
    "numbers": (Kind.FLOAT_ARRAY,),
    "bools": (Kind.BOOL_ARRAY,),
    "number": (Kind.FLOAT, Kind.DOUBLE),
    "complement": (Kind.FLOAT, Kind.DOUBLE),
    "bool": (Kind.BOOL,),
    "string": (Kind.STRING,),
    "data type": (Kind.DATA_TYPE,),
    "integer": (
        Kind.INT8,
        Kind.INT32,
        Kind.INT64,
        Kind.UINT64,
        Kind.FLOAT,
        Kind.DOUBLE,
        Kind.BOOL,
    ),  # constants 0 and 1
    "last integer": (Kind.INT64, Kind.UINT64),
    "one integer": (Kind.INT64,),
    "position": (Kind.INT64, Kind.BOOL, Kind.DOUBLE),
    "number of elements": (Kind.INT64,),
    "number of 16-bit words": (Kind.INT64,),
}
ATTRIBUTES = {"integer", "number", "bool", "string", "integers", "numbers", "bools", "data type", "lists of integers"}
OPERATORS = set(catalog.names())


def test_an_entry_read_alone_is_the_entry_of_the_file() -> None:
    entries = json.loads((catalog.DATA / "single.json").read_text(encoding="utf-8"))
    assert tuple(entries) == single.names() == tuple(sorted(entries))
    assert all(set(entries[entry.name]["inputs"]) == set(entry.inputs) for entry in ENTRIES)
    assert single.find("NoSuchType") is None


def test_entries_are_well_formed() -> None:
    for entry in ENTRIES:
        assert set(entry.inputs.values()) <= {"tensor", "optional tensor", "list of tensors"}, entry.name
        assert {attribute.type for attribute in entry.attributes.values()} <= ATTRIBUTES, entry.name
        assert all(operator in OPERATORS for operator in entry.operators), entry.name
        for refusal in entry.refused:
            names = entry.attributes if refusal.what == "attribute" else entry.inputs
            assert refusal.what in ("input", "without", "attribute") and refusal.name in names, entry.name
        by_function = entry.arguments is None and bool(entry.operators)
        assert (entry.unsupported is not None) + (entry.arguments is not None) + by_function == 1, entry.name


def test_arguments_fit_the_parameters_of_the_operator() -> None:
    assert [fault for entry in BY_DATA for fault in misfits(entry)] == []


def misfits(entry: SingleOperator) -> list[str]:
    """What is wrong with the arguments of an entry."""
    parameters = {parameter.name: parameter for parameter in entry.operator.parameters}
    if entry.arguments is None or list(entry.arguments) != list(parameters):
        return [f"{entry.name}: it has {entry.arguments and list(entry.arguments)}, the operator {list(parameters)}"]
    faults = []
    for name, argument in entry.arguments.items():
        if parameters[name].kind not in KINDS[argument.form]:
            faults.append(f"{entry.name}, {name}: {entry.words(argument)} to {parameters[name].ctype}")
        if parameters[name].direction == "out" and argument.source != "output":
            faults.append(f"{entry.name}, {name}: an output that {argument.source} gives")
    return faults


def test_types_without_an_aclnn_operator_have_a_reference_of_their_name() -> None:
    alone = {entry.name for entry in BY_DATA if not entry.operators}
    registry.load_all("ascend_aclnn.reference.single")
    others = {name for name in REFERENCES if not name.startswith("acl") and atb.find_operator(name) is None}
    assert others == alone
    for entry in BY_DATA:
        if entry.name in alone:
            found = reference.find(entry.operator)
            assert found is not None
            inspect.signature(found.function).bind(*entry.operator.inputs, **({"out": ()} if found.raw else {}))


def test_no_listing_of_aclnn_operators_has_single_operators() -> None:
    assert not OPERATORS & set(single.names())
    assert len(OPERATORS) == 1381
    assert not [name for name in dir(ops) if name in single.names()]
    with pytest.raises(KeyError):
        catalog.get("MaxPool3D")


def test_types_that_are_not_run_say_why() -> None:
    unsupported = {entry.name: entry.unsupported for entry in ENTRIES if entry.unsupported is not None}
    assert "RotatedNMS" in unsupported
    assert all(len(reason.split()) > 5 for reason in unsupported.values())


def test_a_prototype_of_a_type_with_a_reference() -> None:
    entry = single.find("MaxPool3D")
    assert entry is not None and entry.operator.family == "single"
    assert [(p.name, p.ctype, p.direction) for p in entry.operator.parameters] == [
        ("x", "const aclTensor*", "in"),
        ("ksize", "const aclIntArray*", "in"),
        ("strides", "const aclIntArray*", "in"),
        ("pads", "const aclIntArray*", "in"),
        ("dilation", "const aclIntArray*", "in"),
        ("y_shape", "const aclIntArray*", "in"),
        ("y", "aclTensor*", "out"),
    ]
    assert entry.attributes["ksize"].default is catalog.REQUIRED
    assert entry.attributes["pads"].words == "integers = [0, 0, 0, 0, 0, 0]"
    assert [refusal.words for refusal in entry.refused] == [
        "padding other than 'CALCULATED'",
        "data_format other than 'NCDHW'",
    ]
    weights = single.find("ApplyAdamV2")
    assert weights is not None and not weights.operator.parameters[10].optional, "the emulated device needs it"
