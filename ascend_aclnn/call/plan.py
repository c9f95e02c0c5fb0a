"""CallPlan: what is the same in all calls of one operator."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Optional, Union

from ascend_aclnn.call.results import result_type
from ascend_aclnn.catalog import Kind, Operator, Parameter
from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.core.spec import TensorSpec

OutputSpec = Union[TensorSpec, list[TensorSpec], None]  # a tensor, a tensor list, a null pointer

# The format that "auto" becomes where an operator documents it.
_FORMAT_OF_RANK = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW}


class CallPlan:
    """What binding needs of an operator, computed once."""

    def __init__(self, operator: Operator) -> None:
        positions = list(enumerate(operator.parameters))
        self.operator = operator
        self.inputs = [(i, p, p.kind) for i, p in positions if p.direction != "out"]
        self.outputs = [(i, p) for i, p in positions if p.direction == "out"]
        # Of each argument, and then of each item of out=: its position, its kind (None if it holds no tensors), its direction.
        ordered = [*((i, p) for i, p, _ in self.inputs), *self.outputs]
        kinds = (Kind.TENSOR, Kind.TENSOR_LIST)
        self.places = [(i, p.kind if p.kind in kinds else None, p.direction) for i, p in ordered]
        self.no_outputs = (None,) * len(self.outputs)  # the items of out=None
        # in-place parameters: the position, and the index of the Python function's argument
        self.changed = [(i, at) for at, (i, p, _) in enumerate(self.inputs) if p.direction == "inout"]
        self.results = [i for i, p in positions if p.direction != "in"]
        self.formats = {i: _auto_formats(p) for i, p in positions if p.kind in (Kind.TENSOR, Kind.TENSOR_LIST)}
        self.output_specs: dict[Any, dict[str, OutputSpec]] = {}  # by SoC and the specs and values of the inputs
        # calls that have succeeded, by signature, the latest last: see call.replay
        self.replays: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self.result_type: Optional[Any] = result_type(operator) if len(self.results) > 1 else None

    def result(self, values: Sequence[Any]) -> Any:
        """What the Python function returns: one value bare, several as a named tuple."""
        if self.result_type is not None:
            return tuple.__new__(self.result_type, values)  # its own __new__ is a function of Python
        return values[0] if values else None


@functools.cache
def plan(operator: Operator) -> CallPlan:
    return CallPlan(operator)


def _auto_formats(parameter: Parameter) -> dict[int, Format]:
    """What "auto" becomes for each rank: the format of that rank, where the operator documents it."""
    documented = parameter.formats or ()
    return {rank: format for rank, format in _FORMAT_OF_RANK.items() if format.name in documented}
