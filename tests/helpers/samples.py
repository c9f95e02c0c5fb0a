"""The arguments of the catalog's examples, as values."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Optional

import ml_dtypes
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, ops
from ascend_aclnn.catalog import Operator


@functools.cache
def comm() -> Communicator:
    """The communicator of one rank that examples of operators that communicate name."""
    with aclnn.use_backend("numpy"):
        return Communicator.from_root_info(_root_info(), 0, 1)


@functools.cache
def _root_info() -> bytes:
    return Communicator.root_info()


@contextlib.contextmanager
def comm_on_device() -> Iterator[None]:
    """The same on the backend in use, under the same name: names come from the root info."""
    with Communicator.from_root_info(_root_info(), 0, 1) as twin:
        assert twin.name == comm().name
        yield


def run(operator: Operator) -> Any:
    """What the example of an operator prints, as a value."""
    assert operator.example is not None
    with aclnn.use_backend("numpy", soc=operator.example.soc):
        return eval(
            operator.example.text, {"aclnn": aclnn, "comm": comm(), "ml_dtypes": ml_dtypes, "np": np, "ops": ops}
        )


def arguments(operator: Operator) -> Optional[list[Any]]:
    """The arguments of an operator's example, in the order of its parameters; None where it has none."""
    if operator.example is None:
        return None
    signature = inspect.signature(getattr(ops, operator.python_name))

    def collect(*args: Any, **kwargs: Any) -> list[Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return list(bound.args)

    names = {
        "aclnn": aclnn,
        "comm": comm(),
        "ml_dtypes": ml_dtypes,
        "np": np,
        "ops": SimpleNamespace(**{operator.python_name: collect}),
    }
    with aclnn.use_backend("numpy", soc=operator.example.soc):
        values: list[Any] = eval(operator.example.call, names)
    return values


def arrays_only(operator: Operator) -> Optional[list[Any]]:
    """The arguments of an example that is plain: no Tensor among them, and every output inferred."""
    example = operator.example
    if example is None or "aclnn.asarray" in example.call or "aclnn.empty" in example.call or "out=" in example.call:
        return None
    return arguments(operator)


def soc(operator: Operator) -> Optional[str]:
    """The one whose rules an operator's example needs; None for the default."""
    return None if operator.example is None else operator.example.soc
