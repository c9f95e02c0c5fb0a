"""Results do not depend on what memory held before: not that of outputs, nor that in which references compute."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from long_tests import LONG

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import catalog
from ascend_aclnn.catalog import Operator

EMPTY, EMPTY_LIKE = np.empty, np.empty_like
OPERATORS = [operator for operator in map(catalog.get, catalog.names()) if operator.example is not None]
# The operators of which outputs have been found unwritten, and a sample of the others, or all of them.
KNOWN = [
    f"aclnn{name}"
    for name in [
        "AddRmsNormDynamicQuant",
        "AddRmsNormDynamicQuantV2",
        "AddRmsNormQuant",
        "AddRmsNormQuantV2",
        "DequantSwigluQuant",
        "Dropout",
        "MoeInitRoutingV3",
        "MoeInitRoutingV4",
        "MoeReRoutingV2",
        "SwigluGroupQuant",
    ]
]
CHOSEN = OPERATORS if LONG else [*map(catalog.get, KNOWN), *OPERATORS[::25]]


class Poison:
    """Memory that NumPy leaves as it is has a byte in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.byte = 0
        monkeypatch.setattr(np, "empty", lambda *args, **kwargs: self.poisoned(EMPTY(*args, **kwargs)))
        monkeypatch.setattr(np, "empty_like", lambda *args, **kwargs: self.poisoned(EMPTY_LIKE(*args, **kwargs)))

    def poisoned(self, array: Any) -> Any:
        if array.dtype.kind != "O" and (array.flags.c_contiguous or array.flags.f_contiguous):
            ctypes.memset(array.ctypes.data, self.byte, array.nbytes)
        return array


def content(value: Any) -> Any:
    """A result, with the bytes in place of arrays."""
    if isinstance(value, (list, tuple)):
        return [content(item) for item in value]
    array = value.numpy() if isinstance(value, aclnn.Tensor) else value
    return (array.dtype, array.shape, array.tobytes()) if isinstance(array, np.ndarray) else array


def results(operator: Operator) -> list[Any]:
    """Of the example, the first time and when the call is remembered."""
    with aclnn.use_backend("numpy", soc=samples.soc(operator)), np.errstate(all="ignore"):
        function = getattr(aclnn.ops, operator.python_name)
        found = []
        for _ in range(3):
            call = samples.call(operator)
            result = function(*call.arguments, **call.options)
            written = [value for value, p in zip(call.arguments, operator.inputs) if p.direction == "inout"]
            found.append(content([result, written]))
        return found


def test_results_do_not_depend_on_old_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    poison = Poison(monkeypatch)
    found = []
    for operator in CHOSEN:
        runs = []
        for poison.byte in (0x3C, 0x3C, 0xA5):
            runs.append(results(operator))
        if runs[0] == runs[1] != runs[2]:
            found.append(operator.name)
    assert not found
