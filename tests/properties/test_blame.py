"""A refused call blames an argument of the call, never an output that it did not pass.

The call of every operator's example is tried with each argument in turn changed: its data type, its rank, its shape, its
value, and None.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from typing import Any, Optional

import ml_dtypes
import numpy as np
import pytest
from long_tests import LONG
from operator_arguments import shapes
from rule_tools import CODE

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import catalog, rules
from ascend_aclnn.backends.interface import current_backend
from ascend_aclnn.call.arguments import Invocation
from ascend_aclnn.call.outputs import bind_outputs, blame_inputs
from ascend_aclnn.call.plan import plan
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.core.socs import soc

OPERATORS = [operator for operator in map(catalog.get, catalog.names()) if operator.example is not None]
FAMILIES = sorted({operator.family for operator in OPERATORS})
SAMPLE = 1 if LONG else 5  # one in so many of the changes of an argument
DTYPES = (np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.bool_, ml_dtypes.bfloat16)


def of_another_dtype(array: Any) -> Iterator[Any]:
    for dtype in DTYPES:
        if array.dtype != dtype:
            yield np.empty(array.shape, dtype)


def of_another_shape(array: Any) -> Iterator[Any]:
    """Arrays of which nothing is written: what they hold does not matter, and their memory is never touched."""
    shape = array.shape
    shapes = [(1, *shape), (*shape, 1), (1,) * 9]
    if shape:
        shapes += [(array.size,), (0, *shape[1:])]
    for axis, size in enumerate(shape):
        sizes = (2 * size, size - 1) if size > 1 else (2 * size,)
        shapes += [(*shape[:axis], n, *shape[axis + 1 :]) for n in sizes]
    yield from (np.empty(other, array.dtype) for other in shapes)


def variants(value: Any) -> Iterator[Any]:
    """An argument that is changed in one respect."""
    if isinstance(value, np.ndarray):
        yield from of_another_dtype(value)
        yield from of_another_shape(value)
    elif isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        yield []
        yield value[:-1]
        for part in variants(value[-1]):
            yield [*value[:-1], part]
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield from (-1, 0, 1, 2**31 - 1)
    elif isinstance(value, (list, tuple)):
        yield from ([], [*value, 1], [-1] * len(value))
    if value is not None:
        yield None


def refusal(operator: Operator, arguments: list[Any]) -> Optional[AclError]:
    """The error of phase one, None where it accepts the arguments or Python's side refuses them before."""
    backend = current_backend()
    invocation = Invocation(backend, plan(operator), False)
    try:
        invocation.allocate = lambda spec: spec  # no memory: some attributes ask for much
        invocation.bind_inputs(arguments)
        bind_outputs(invocation, None)
    except AclError as error:
        return error
    except (TypeError, ValueError) as error:
        assert str(error).startswith((operator.name + ":", operator.python_name + "()")), error
        return None
    violation = rules.check(operator, invocation.values, soc(backend.soc))
    return None if violation is None else blame_inputs(invocation, rules.error(operator, violation))


@pytest.mark.parametrize("family", FAMILIES)
def test_an_error_names_an_argument_of_the_call(family: str) -> None:
    wrong: dict[str, str] = {}
    for operator in OPERATORS:
        if operator.family != family:
            continue
        inputs = {parameter.python_name for parameter in operator.inputs}
        with aclnn.use_backend("numpy", soc=samples.soc(operator)):
            arguments = samples.call(operator).arguments
            for position, value in enumerate(arguments):
                chosen = zlib.crc32(f"{operator.name} {position}".encode())  # another part for each argument
                for variant in itertools.islice(variants(value), chosen % SAMPLE, None, SAMPLE):
                    mutated = [*arguments[:position], variant, *arguments[position + 1 :]]
                    error = refusal(operator, mutated)
                    if error is not None and error.argument not in inputs:
                        wrong.setdefault(f"{operator.name}: {error.argument}", f"{shapes(mutated)}: {error}")
                    if error is not None and CODE.search(error.detail):
                        wrong.setdefault(f"{operator.name}: {error.rule}", f"{shapes(mutated)}: {error}")
    assert not wrong, "\n".join(f"{blamed} {text}" for blamed, text in wrong.items())
