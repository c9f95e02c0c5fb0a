"""The calls of the catalog's examples, as values."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, Optional

import ml_dtypes
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, ops
from ascend_aclnn.catalog import Operator


class Call(NamedTuple):
    """The arguments of an operator in the order of its parameters, and the outputs that an example passes."""

    arguments: list[Any]
    options: dict[str, Any]


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


def call(operator: Operator) -> Call:
    """The call of an operator's example: new arrays each time, and Tensors of the current backend."""
    assert operator.example is not None
    signature = inspect.signature(getattr(ops, operator.python_name))

    def collect(*args: Any, out: Any = None, **kwargs: Any) -> Call:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return Call(list(bound.args), {} if out is None else {"out": out})

    names = {
        "aclnn": aclnn,
        "comm": comm(),
        "ml_dtypes": ml_dtypes,
        "np": np,
        "ops": SimpleNamespace(**{operator.python_name: collect}),
    }
    found: Call = eval(operator.example.call, names)
    return found


def soc(operator: Operator) -> Optional[str]:
    """The one whose rules an operator's example needs; None for the default."""
    return None if operator.example is None else operator.example.soc
