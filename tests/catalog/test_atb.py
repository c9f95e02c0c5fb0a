"""ATB's operations as data: well-formed, with rules and references, and no part of the catalog of aclnn operators."""

from __future__ import annotations

import ast
import inspect

import pytest

from ascend_aclnn import catalog, ops, reference, registry, rules
from ascend_aclnn.catalog import atb

OPERATIONS = [atb.get(name) for name in atb.names()]


def names_in(condition: str) -> set[str]:
    nodes = ast.walk(ast.parse(condition or "True", mode="eval"))
    return {node.id for node in nodes if isinstance(node, ast.Name)}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_entries_are_well_formed(operation: atb.Operation) -> None:
    types = {"int", "bool", "float", "double", "int32_t", "uint16_t", "uint32_t", "aclDataType", *atb.shared_enums()}
    types |= {name.partition(":")[0] for name in operation.enums}
    assert {value.type for value in operation.values} <= types
    known = {value.name for value in operation.values} | set(operation.members)
    for slot in (*operation.inputs, *operation.outputs):
        assert names_in(slot.condition) <= known, slot
        assert not slot.in_place or slot.in_place in operation.operator.positions, slot
    for name, allowed in operation.emulated.items():
        assert name in operation.operator.positions
        assert all(isinstance(value, (bool, int)) or value in operation.members for value in allowed), name
    parameters = operation.operator.parameters
    assert len({p.name for p in parameters}) == len(parameters) <= 64
    assert len(operation.inputs) + len(operation.outputs) <= 32


@pytest.mark.parametrize("function", atb.functions(), ids=lambda function: function.name)
def test_functions_give_what_their_operations_take(function: atb.Function) -> None:
    operation = atb.get(function.operation)
    for slot in operation.outputs:
        assert function.parameters[function.outputs.get(slot.name, slot.name)].endswith("aclTensor*"), slot
    for name, ctype in function.parameters.items():
        assert name in operation.operator.positions, name
        assert ("aclTensor" in ctype) == (name not in {value.name for value in operation.values}), name
    assert set(function.set) <= {value.member for value in operation.values}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_operations_have_rules_and_references(operation: atb.Operation) -> None:
    found = reference.find(operation.operator)
    assert found is not None
    inspect.signature(found.function).bind(*operation.operator.inputs, **({"out": ()} if found.raw else {}))
    for operator in (operation.operator, operation.parameter_operator):
        rule = rules.find(operator)
        assert rule is not None
        known = {*operator.positions, *rule.definitions, "product"}
        for expression in rule.expressions:
            assert set(expression.names) <= known, expression.text


def test_no_listing_of_aclnn_operators_has_them() -> None:
    operators = {operator.name for entry in OPERATIONS for operator in (entry.operator, entry.parameter_operator)}
    assert not operators & set(catalog.names()) and not set(atb.names()) & set(dir(ops))
    registry.load_all("ascend_aclnn.rules")
    assert atb.find_operator("NoSuchOperation") is None


def test_a_value_that_is_not_emulated_is_named() -> None:
    operation = atb.get("SelfAttention")
    values = {value.name: 0 for value in operation.values} | {"calcType": 3}
    assert operation.lacks(values) is None
    text = operation.lacks({**values, "calcType": 2})
    assert text == "calcType is 2; the emulated device takes PA_ENCODER (3), PREFIX_ENCODER (4)"
