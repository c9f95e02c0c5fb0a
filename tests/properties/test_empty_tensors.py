"""Operators with a reference on tensors without elements: refused in phase one, computed, or listed as unsupported.

The arguments of each example, and a set that ``operator_arguments`` finds, are tried with every axis of their tensors
emptied in turn: of one tensor alone, and of all tensors that have as many elements on that axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest
from operator_arguments import copied, found, listed, shapes

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import AclError, UnsupportedOperator, catalog, ops, reference
from ascend_aclnn.catalog import Operator

OPERATORS = [catalog.get(name) for name in catalog.names()]
FAMILIES = sorted({operator.family for operator in OPERATORS})
LIST = Path(__file__).parent / "empty_gaps.txt"
GAPS = listed(LIST)
UNSUPPORTED = "has no elements"


def emptied(value: Any, axis: int, length: Optional[int]) -> Any:
    """An array, or the arrays of a list, without elements on an axis; with ``length``, where it has as many."""
    if isinstance(value, list):
        return [emptied(item, axis, length) for item in value]
    if not isinstance(value, np.ndarray) or value.ndim <= axis or length not in (None, value.shape[axis]):
        return value
    return value.take([], axis)


def variants(arguments: list[Any]) -> Iterator[list[Any]]:
    """The argument sets with one axis of one tensor, or of all tensors like it, emptied."""
    for position, value in enumerate(arguments):
        first = value[0] if isinstance(value, list) and value else value
        if not isinstance(first, np.ndarray):
            continue
        for axis in range(first.ndim):
            alone = list(arguments)
            alone[position] = emptied(value, axis, None)
            yield alone
            yield [emptied(item, axis, first.shape[axis]) for item in arguments]


def failure(operator: Operator, arguments: list[Any]) -> Optional[str]:
    """What is wrong with an operator's answer: an exception that is no refusal, or a refusal that comes after phase one."""
    try:
        getattr(ops, operator.python_name)(*copied(arguments))
    except UnsupportedOperator as error:
        return UNSUPPORTED if UNSUPPORTED in error.detail else None
    except AclError as error:
        late = error.routine != operator.phase_one and "has shape" in error.detail  # of what elements are, data decide
        return UNSUPPORTED if late else None
    except (TypeError, ValueError) as error:
        return None if str(error).startswith(operator.name + ":") else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def argument_sets(operator: Operator) -> Iterator[list[Any]]:
    """Argument sets that an operator takes; none where the search fails, which test_properties reports."""
    if reference.find(operator) is None:
        return
    if operator.example is not None:
        yield samples.call(operator).arguments
    try:
        yield from found(operator)[:1]
    except Exception:
        return


@pytest.mark.parametrize("family", FAMILIES)
def test_empty_tensors_are_refused_in_phase_one_or_computed(family: str) -> None:
    failures: list[str] = []
    unsupported: set[str] = set()
    for operator in OPERATORS:
        if operator.family != family:
            continue
        with aclnn.use_backend("numpy", soc=samples.soc(operator)):
            for arguments in argument_sets(operator):
                texts = ((shapes(given), failure(operator, given)) for given in variants(arguments))
                found = [(given, text) for given, text in texts if text is not None]
                unsupported |= {operator.name for _, text in found if text == UNSUPPORTED}
                failures += [f"{operator.name}({given}): {text}" for given, text in found if text != UNSUPPORTED][:1]
    assert not failures, "\n".join(failures)
    assert unsupported == {operator.name for operator in OPERATORS if operator.family == family} & GAPS


def test_every_listed_operator_has_a_reason() -> None:
    assert [
        line for line in LIST.read_text().splitlines() if line[0] != "#" and len(line.partition("  # ")[2]) < 20
    ] == []
