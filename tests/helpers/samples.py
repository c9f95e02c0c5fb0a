"""The calls of the catalog's examples, as values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Optional

import ml_dtypes
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, ops
from ascend_aclnn.catalog import Operator
from ascend_aclnn.verify.calls import comm, root_info
from ascend_aclnn.verify.calls import example as call
from ascend_aclnn.verify.samples import ExampleCall

__all__ = ["ExampleCall", "call", "comm", "comm_on_device", "run", "soc"]


@contextlib.contextmanager
def comm_on_device() -> Iterator[None]:
    """The same on the backend in use, under the same name: names come from the root info."""
    with Communicator.from_root_info(root_info(), 0, 1) as twin:
        assert twin.name == comm().name
        yield


def run(operator: Operator) -> Any:
    """What the example of an operator prints, as a value."""
    assert operator.example is not None
    with aclnn.use_backend("numpy", soc=operator.example.soc):
        return eval(
            operator.example.text, {"aclnn": aclnn, "comm": comm(), "ml_dtypes": ml_dtypes, "np": np, "ops": ops}
        )


def soc(operator: Operator) -> Optional[str]:
    """The one whose rules an operator's example needs; None for the default."""
    return None if operator.example is None else operator.example.soc
