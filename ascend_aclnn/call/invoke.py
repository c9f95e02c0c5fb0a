"""An operator's arguments bound and run: the part of a call that is the same for all kinds of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from ascend_aclnn.backends.interface import Backend, HostRunner
from ascend_aclnn.call.arguments import Invocation
from ascend_aclnn.call.outputs import bind_outputs, blame_inputs
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.errors import INNER_ERROR, AclError
from ascend_aclnn.core.streams import Stream, current_stream
from ascend_aclnn.core.tensor import Tensor


def invoke(invocation: Invocation, args: Sequence[Any], out: Any, stream: Optional[Stream]) -> Optional[HostRunner]:
    """Binds the arguments and outputs and runs the operator; returns what Backend.run returns."""
    operator = invocation.plan.operator
    invocation.bind_inputs(args)
    bind_outputs(invocation, out)
    if operator.data_dependent and invocation.backend.captures:
        refuse_captured(invocation.backend, operator, stream)
    try:
        runner = invocation.backend.run(operator, invocation.values, stream)
    except AclError as error:
        raise blame_inputs(invocation, error) from None
    if operator.data_dependent:
        _read_shapes(invocation)
    return runner


def refuse_captured(backend: Backend, operator: Operator, stream: Optional[Stream]) -> None:
    """Raises 561000, as CANN's phase two does, for a data-dependent operator on a stream that is captured."""
    chosen = current_stream() if stream is None else stream
    recorder = backend.captures.get((chosen.device, chosen.handle))
    if recorder is not None and recorder.capturing:
        text = "its outputs have shapes that depend on data, for which the call waits; call it before the capture"
        text = f"{text} ({recorder.describe()})"
        raise AclError(INNER_ERROR, operator.name, text, operator=operator.name, explained=True)


def _read_shapes(invocation: Invocation) -> None:
    """Gives outputs whose shape depends on data their final shape, the front of the allocation. Waits for the operator."""
    for position, _ in invocation.plan.outputs:
        tensor = invocation.values[position]
        if isinstance(tensor, Tensor):
            shape = invocation.backend.view_shape(tensor)
            if shape != tensor.shape:
                tensor.set_shape(shape)
