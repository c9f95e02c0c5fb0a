"""What holds for every operator, whatever it computes: names and signatures, and how results depend on how they are asked for.

Operators with a reference run on the arguments of their examples (tests/catalog/test_examples.py counts them) and on what
``operator_arguments`` finds.
"""

from __future__ import annotations

import functools
import inspect
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest
from live_objects import assert_nothing_left
from operator_arguments import Search, arrays, copied, spread

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import AclError, catalog, ops, reference, rules
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core.dtypes import as_datatype

OPERATORS = [catalog.get(name) for name in catalog.names()]
GAPS = {
    line.split()[0] for line in (Path(__file__).parent / "property_gaps.txt").read_text().splitlines() if line[0] != "#"
}
FAMILIES = sorted({operator.family for operator in OPERATORS})


def of_family(family: str) -> list[Operator]:
    return [operator for operator in OPERATORS if operator.family == family]


@functools.cache
def sets(operator: Operator) -> list[list[Any]]:
    """Two sets of arguments that an operator accepts: those of its example, and what a search finds."""
    if reference.find(operator) is None:
        return []
    declared = samples.arrays_only(operator)
    if samples.soc(operator) is not None:  # the search tries the default's rules
        return [] if declared is None else [declared]
    return Search(operator).find(2) if declared is None else [declared, *Search(operator).find(1)]


def same_bits(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def run(operator: Operator, arguments: list[Any], **options: Any) -> Any:
    return getattr(ops, operator.python_name)(*arguments, **options)


def call_text(operator: Operator, arguments: list[Any]) -> str:
    words = [f"{a.dtype} {a.shape}" if isinstance(a, np.ndarray) else repr(a) for a in arguments]
    return f"{operator.name}({', '.join(words)})"


# ------------------------------------------------------------------------------------------ names and null pointers


@pytest.mark.parametrize("family", FAMILIES)
def test_every_operator_is_a_function_that_refuses_nothing_politely(family: str) -> None:
    for operator in of_family(family):
        function = getattr(ops, operator.python_name)
        parameters = list(inspect.signature(function).parameters)
        assert parameters == [*(p.python_name for p in operator.inputs), "out", "stream"]
        assert operator.name in (function.__doc__ or "")
        plain: dict[Kind, Any] = {Kind.FLOAT: 0.0, Kind.DOUBLE: 0.0, Kind.BOOL: False}
        nulls = [None if p.kind.pointer else plain.get(p.kind, 0) for p in operator.inputs]
        empty: list[Any] = [
            np.zeros(0, np.float32) if p.kind is Kind.TENSOR else [] if p.kind is Kind.TENSOR_LIST else null
            for p, null in zip(operator.inputs, nulls)
        ]
        with aclnn.use_backend("numpy"):
            for arguments in (nulls, empty, [None] * len(nulls)):
                try:
                    function(*arguments)
                except AclError as error:
                    assert error.operator == operator.name and error.name and error.detail
                except (TypeError, ValueError) as error:
                    assert str(error).startswith((operator.name + ":", operator.python_name + "()")), error


def test_a_null_pointer_for_a_required_tensor_is_161001() -> None:
    for operator in OPERATORS:
        required = rules.rule_of(operator)
        first = next((p for p in operator.inputs if p.kind is Kind.TENSOR and not required.may_be_null(p)), None)
        if first is None or any(p.kind.pointer for p in operator.inputs[: operator.inputs.index(first)]):
            continue
        plain: dict[Kind, Any] = {Kind.FLOAT: 0.0, Kind.DOUBLE: 0.0, Kind.BOOL: False}
        nulls = [None if p.kind.pointer else plain.get(p.kind, 0) for p in operator.inputs]
        with aclnn.use_backend("numpy"), pytest.raises((AclError, TypeError)) as caught:
            run(operator, nulls)
        if isinstance(caught.value, AclError) and caught.value.argument == first.python_name:
            assert caught.value.status == required.null_status, operator.name


# ------------------------------------------------------------------------------------------ results


@pytest.mark.parametrize("family", FAMILIES)
def test_results_do_not_depend_on_how_they_are_asked_for(family: str) -> None:
    for operator in of_family(family):
        for arguments in sets(operator) if operator.name not in GAPS else ():
            with aclnn.use_backend("numpy", soc=samples.soc(operator)):
                text = call_text(operator, arguments)
                wanted = arrays(run(operator, copied(arguments)))
                again = arrays(run(operator, copied(arguments)))
                assert all(map(same_bits, again, wanted)), f"{text}: another result the second time"
                strided = results_with_other_strides(operator, arguments)
                assert strided is None or all(map(same_bits, strided, wanted)), f"{text}: other strides, another result"
                check_given_outputs(operator, arguments, wanted, text)


def results_with_other_strides(operator: Operator, arguments: list[Any]) -> Optional[list[Any]]:
    """The results of the same values behind other strides, None where the operator refuses them."""
    try:
        return arrays(run(operator, spread(arguments)))
    except AclError as error:
        assert "contiguous" in error.detail, error
        return None


def check_given_outputs(operator: Operator, arguments: list[Any], wanted: list[Any], text: str) -> None:
    """The caller's own arrays, filled with rubbish before, get what is returned otherwise, and no other bytes change."""
    outputs = [p for p in operator.parameters if p.direction == "out"]
    if not outputs or operator.data_dependent:
        return
    results = run(operator, copied(arguments))
    results = results if len(operator.outputs) > 1 else (results,)
    fields = {p.name: value for p, value in zip(operator.outputs, results)}
    mine = tuple(rubbish(fields[p.name]) for p in outputs)
    got = arrays(run(operator, copied(arguments), out=mine))
    assert all(map(same_bits, got, wanted)), f"{text}: another result in out="
    assert all(any(m is g for g in got) for m in arrays(list(mine)) if m is not None), f"{text}: out= is not returned"


def rubbish(value: Any) -> Any:
    if isinstance(value, list):
        return [rubbish(item) for item in value]
    return None if value is None else np.frombuffer(b"\x01" * value.nbytes, value.dtype).reshape(value.shape).copy()


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_as_the_rules_say(family: str) -> None:
    for operator in of_family(family):
        for arguments in sets(operator):
            with aclnn.use_backend("numpy", soc=samples.soc(operator)) as backend:
                check_inferred_outputs(operator, arguments, backend._soc)  # type: ignore[attr-defined]


def check_inferred_outputs(operator: Operator, arguments: list[Any], soc: Any) -> None:
    """Results have the shapes and dtypes that the rules infer."""
    given = iter(copied(arguments))
    values = [None if p.direction == "out" else as_value(p.kind, next(given)) for p in operator.parameters]
    specs = rules.infer(operator, values, soc)
    results = run(operator, copied(arguments))
    results = results if len(operator.outputs) > 1 else (results,)
    for parameter, result in zip(operator.outputs, results):
        spec = specs.get(parameter.name)
        if parameter.direction != "out" or spec is None or not isinstance(result, np.ndarray):
            continue
        assert result.dtype == spec.dtype.numpy, call_text(operator, arguments)
        if not operator.data_dependent:
            shape = tuple(max(n, 0) for n in spec.shape)  # binding takes a negative size for none
            assert result.shape == shape, call_text(operator, arguments)


def as_value(kind: Kind, argument: Any) -> Any:
    """An argument as rules see it."""
    if argument is None:
        return None
    if kind is Kind.TENSOR:
        return aclnn.asarray(argument)
    if kind is Kind.TENSOR_LIST:
        return [aclnn.asarray(item) for item in argument]
    if kind is Kind.SCALAR:
        return aclnn.Scalar(argument)
    if kind is Kind.SCALAR_LIST:
        return [aclnn.Scalar(item) for item in argument]
    if kind in (Kind.INT_ARRAY, Kind.FLOAT_ARRAY, Kind.BOOL_ARRAY):
        return tuple(np.atleast_1d(argument).tolist())
    if kind is Kind.DATA_TYPE:
        return int(argument if isinstance(argument, int) else as_datatype(argument))
    return argument


@pytest.mark.parametrize("family", FAMILIES)
def test_the_emulated_device_gives_the_same_bits(
    family: str, emulator_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(emulator_home))
    with aclnn.use_backend("npu") as device:
        if not device.emulated:
            pytest.skip("a real device sums in its own order")
        with samples.comm_on_device():
            for operator in of_family(family):
                if samples.soc(operator) is not None:  # the emulated device has the default's rules
                    continue
                for arguments in sets(operator) if operator.name not in GAPS else ():
                    with aclnn.use_backend("numpy"):
                        wanted = arrays(run(operator, copied(arguments)))
                    got = arrays(run(operator, copied(arguments)))
                    assert all(map(same_bits, got, wanted)), call_text(operator, arguments)
        assert_nothing_left()


def test_the_gaps_are_operators() -> None:
    assert {operator.name for operator in OPERATORS} >= GAPS
