"""What holds for every operator, whatever it computes: names and signatures, and how results depend on how they are asked for.

Operators with a reference run on the call of their example and on what ``operator_arguments`` finds.
"""

from __future__ import annotations

import inspect
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest
from live_objects import assert_nothing_left
from operator_arguments import arrays, copied, found, spread

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import AclError, catalog, ops, reference, rules
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core.dtypes import as_datatype

OPERATORS = [catalog.get(name) for name in catalog.names()]
GAPS, WITHOUT_EXAMPLE = (
    {line.split()[0] for line in (Path(__file__).parent / name).read_text().splitlines() if line[0] != "#"}
    for name in ("property_gaps.txt", "example_gaps.txt")
)
FAMILIES = sorted({operator.family for operator in OPERATORS})


def of_family(family: str) -> list[Operator]:
    return [operator for operator in OPERATORS if operator.family == family]


def calls(operator: Operator) -> Iterator[samples.ExampleCall]:
    """Calls that an operator accepts: that of its example, with new arrays, and with what a search finds."""
    if operator.example is not None and reference.find(operator) is not None:
        yield samples.call(operator)
    for arguments in found(operator):
        yield samples.ExampleCall(copied(arguments), {})


def again(operator: Operator, number: int) -> samples.ExampleCall:
    """One of the calls, with new arrays."""
    return next(itertools.islice(calls(operator), number, None))


def results(operator: Operator, call: samples.ExampleCall) -> list[Any]:
    """What a call returns, in one flat list of arrays; None for what is not there."""
    return [host(x) for x in arrays(getattr(ops, operator.python_name)(*call.arguments, **call.options))]


def host(value: Any) -> Any:
    return value.numpy() if isinstance(value, aclnn.Tensor) else value


def same_bits(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


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
            getattr(ops, operator.python_name)(*nulls)
        if isinstance(caught.value, AclError) and caught.value.argument == first.python_name:
            assert caught.value.status == required.null_status, operator.name


# ------------------------------------------------------------------------------------------ results


def test_every_reference_is_reached() -> None:
    """Each test below runs on the example of every operator that has a reference, or there is a reason in the gaps."""
    known = {operator.name for operator in OPERATORS if reference.find(operator) is not None}
    assert known - {operator.name for operator in OPERATORS if operator.example is not None} == WITHOUT_EXAMPLE
    assert known >= GAPS


@pytest.mark.parametrize("family", FAMILIES)
def test_results_do_not_depend_on_how_they_are_asked_for(family: str) -> None:
    for operator in of_family(family):
        with aclnn.use_backend("numpy", soc=samples.soc(operator)):
            for number, call in enumerate(calls(operator)) if operator.name not in GAPS else ():
                text = call_text(operator, call.arguments)
                wanted = results(operator, call)
                assert all(map(same_bits, results(operator, again(operator, number)), wanted)), f"{text}: second run"
                strided = results_with_other_strides(operator, again(operator, number))
                assert strided is None or all(map(same_bits, strided, wanted)), f"{text}: other strides, another result"
                check_given_outputs(operator, number, wanted, text)


def results_with_other_strides(operator: Operator, call: samples.ExampleCall) -> Optional[list[Any]]:
    """The results of the same values behind other strides, None where the operator refuses them."""
    try:
        return results(operator, samples.ExampleCall(spread(call.arguments), call.options))
    except AclError as error:
        assert "contiguous" in error.detail or "stored" in error.detail or "transposed" in error.detail, error
        return None


def check_given_outputs(operator: Operator, number: int, wanted: list[Any], text: str) -> None:
    """The caller's own arrays, filled with rubbish before, get what is returned otherwise, and no other bytes change."""
    outputs = [p for p in operator.parameters if p.direction == "out"]
    call = again(operator, number)
    if not outputs or operator.data_dependent or call.options:
        return
    made = getattr(ops, operator.python_name)(*call.arguments)
    made = made if len(operator.outputs) > 1 else (made,)
    fields = {p.name: value for p, value in zip(operator.outputs, made)}
    mine = tuple(rubbish(fields[p.name]) for p in outputs)
    got = arrays(getattr(ops, operator.python_name)(*again(operator, number).arguments, out=mine))
    assert all(map(same_bits, map(host, got), wanted)), f"{text}: another result in out="
    assert all(any(m is g for g in got) for m in arrays(list(mine)) if m is not None), f"{text}: out= is not returned"


def rubbish(value: Any) -> Any:
    if isinstance(value, list):
        return [rubbish(item) for item in value]
    if isinstance(value, aclnn.Tensor):
        return aclnn.asarray(rubbish(value.numpy()), format=value.format)
    return None if value is None else np.frombuffer(b"\x01" * value.nbytes, value.dtype).reshape(value.shape).copy()


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_as_the_rules_say(family: str) -> None:
    for operator in of_family(family):
        with aclnn.use_backend("numpy", soc=samples.soc(operator)) as backend:
            for number, call in enumerate(calls(operator)):
                check_inferred_outputs(operator, call, again(operator, number), backend._soc)  # type: ignore[attr-defined]


def check_inferred_outputs(operator: Operator, call: samples.ExampleCall, same: samples.ExampleCall, soc: Any) -> None:
    """Results have the shapes and dtypes that the rules infer."""
    given = iter(call.arguments)
    values = [None if p.direction == "out" else as_value(p.kind, next(given)) for p in operator.parameters]
    specs = rules.infer(operator, values, soc)
    made = getattr(ops, operator.python_name)(*same.arguments, **same.options)
    made = made if len(operator.outputs) > 1 else (made,)
    for parameter, result in zip(operator.outputs, made):
        spec = specs.get(parameter.name)
        result = host(result)
        if parameter.direction != "out" or spec is None or not isinstance(result, np.ndarray) or "out" in same.options:
            continue
        assert result.dtype == spec.dtype.numpy, call_text(operator, call.arguments)
        if not operator.data_dependent:
            shape = tuple(max(n, 0) for n in spec.shape)  # binding takes a negative size for none
            assert result.shape == shape, call_text(operator, call.arguments)


def as_value(kind: Kind, argument: Any) -> Any:
    """An argument as rules see it."""
    if argument is None or isinstance(argument, aclnn.Tensor):
        return argument
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
                if samples.soc(operator) is None and operator.name not in GAPS:
                    compare_with_device(operator, None)
        assert_nothing_left()


@pytest.mark.parametrize("soc", sorted({soc for operator in OPERATORS if (soc := samples.soc(operator)) is not None}))
def test_the_emulated_device_of_another_soc_gives_the_same_bits(soc: str, emulator_home: Path) -> None:
    """The examples that need its rules, in a process whose device is one."""
    paths = {"ASCEND_HOME_PATH": str(emulator_home), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment = {**os.environ, **paths, "ASCEND_ACLNN_SOC": soc}
    done = subprocess.run([sys.executable, __file__, soc], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(of_soc(soc))} operators" in done.stdout


def of_soc(soc: str) -> list[Operator]:
    """The operators whose examples need a SoC's rules."""
    return [o for o in OPERATORS if samples.soc(o) == soc and reference.find(o) is not None and o.name not in GAPS]


def compare_with_device(operator: Operator, soc: Optional[str]) -> None:
    """The calls of an operator on both backends; the device is the current one."""
    with aclnn.use_backend("numpy", soc=soc):
        wanted = [(call_text(operator, call.arguments), results(operator, call)) for call in calls(operator)]
    for (text, expected), call in zip(wanted, calls(operator)):
        assert all(map(same_bits, results(operator, call), expected)), text


def test_the_gaps_are_operators() -> None:
    assert {operator.name for operator in OPERATORS} >= GAPS


if __name__ == "__main__":
    with aclnn.use_backend("npu"), samples.comm_on_device():
        for compared in of_soc(sys.argv[1]):
            compare_with_device(compared, sys.argv[1])
        print(len(of_soc(sys.argv[1])), "operators")
