"""Operators with a reference on tensors whose shapes do not go together: refused in phase one, or computed.

Each tensor of an operator's example is tried with one element less on an axis, alone and with all tensors of its shape, and
without its first axis. What phase one accepts, the reference must compute: NumPy's own exceptions are faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, Optional

import numpy as np
import pytest
from operator_arguments import changed, copied, shapes

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import AclError, catalog, ops, reference
from ascend_aclnn.catalog import Operator

OPERATORS = [catalog.get(name) for name in catalog.names()]
FAMILIES = sorted({operator.family for operator in OPERATORS})


def shorter(axis: int) -> Callable[[Any], Any]:
    return lambda array: (
        array.take(range(array.shape[axis] - 1), axis) if array.shape[axis : axis + 1] > (1,) else array
    )


def without_first_axis(array: Any) -> Any:
    return array[0, ...] if array.ndim and len(array) else array


def variants(arguments: list[Any]) -> Iterator[list[Any]]:
    """The argument sets with one tensor, or all tensors of its shape, changed."""
    for position, value in enumerate(arguments):
        first = value[0] if isinstance(value, list) and value else value
        if not isinstance(first, np.ndarray):
            continue
        for change in (without_first_axis, *(shorter(axis) for axis in range(first.ndim))):
            alone = list(arguments)
            alone[position] = changed(value, change)
            yield alone
            yield [changed(item, change, first.shape) for item in arguments]


def fault(operator: Operator, arguments: list[Any]) -> Optional[str]:
    """What is wrong with an operator's answer: an exception that is no refusal."""
    try:
        getattr(ops, operator.python_name)(*copied(arguments))
    except AclError:
        return None
    except Exception as error:
        if isinstance(error, (TypeError, ValueError)) and str(error).startswith(operator.name + ":"):
            return None
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("family", FAMILIES)
def test_shapes_that_do_not_go_together_are_refused_in_phase_one_or_computed(family: str) -> None:
    faults: list[str] = []
    for operator in OPERATORS:
        if operator.family != family or operator.example is None or reference.find(operator) is None:
            continue
        with aclnn.use_backend("numpy", soc=samples.soc(operator)):
            for given in variants(samples.call(operator).arguments):
                text = fault(operator, given)
                if text is not None:
                    faults.append(f"{operator.name}({shapes(given)}): {text}")
    assert not faults, "\n".join(faults)
