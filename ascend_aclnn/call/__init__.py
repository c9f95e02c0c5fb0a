"""Calling an operator from Python: bind the arguments, infer or take the outputs, run, give the results back.

Only ndarrays in: ndarrays out, synchronous. Any Tensor, a Tensor ``out=`` or ``stream=``: Tensors out, asynchronous on
the stream. Every operator goes through ``call``; what differs between them is data of the catalog and the rules.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.call.arguments import Invocation, holds_tensor
from ascend_aclnn.call.outputs import bind_outputs, host_results, output_items
from ascend_aclnn.call.plan import CallPlan, plan
from ascend_aclnn.call.replay import remember, signature
from ascend_aclnn.call.torch_call import Allocate, call_with_torch, holds_torch
from ascend_aclnn.call.values import describe
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core.current import current_backend
from ascend_aclnn.core.interface import Backend
from ascend_aclnn.core.spec import contiguous_strides
from ascend_aclnn.core.streams import Stream, check_stream
from ascend_aclnn.core.tensor import Tensor


def call(
    plan: CallPlan, args: Sequence[Any], out: Any, stream: Optional[Stream], allocate: Optional[Allocate] = None
) -> Any:
    """One call of an operator; ``args`` has one item for each parameter of the Python function.

    ``allocate`` makes the outputs that are not given; by default it is the backend's.
    """
    backend = current_backend()
    if stream is not None:
        check_stream(stream, backend)
    given: tuple[Any, ...] = ()
    key = None
    if backend.wraps_host_memory:
        given = (*args, *output_items(plan, out))
        key = signature(given, (backend, stream is None, out is None))
        replay = None if key is None else plan.replays.get(key)
        if replay is not None and replay.runner.valid:
            again = replay.run(backend, given)
            if again is not None:
                return plan.result(again)
    if key is None and "torch" in sys.modules and holds_torch((*args, out)):
        return call_with_torch(plan, args, out, stream, call)
    on_device = stream is not None or holds_tensor(args) or holds_tensor((out,))
    invocation = Invocation(backend, plan, on_device)
    invocation.allocate = allocate
    invocation.bind_inputs(args)
    bind_outputs(invocation, out)
    runner = backend.run(plan.operator, invocation.values, stream)
    if plan.operator.data_dependent:
        _read_shapes(invocation)
    results = [invocation.values[i] for i in plan.results] if on_device else host_results(invocation)
    if key is not None and runner is not None:
        remember(invocation, key, given, runner)
    return plan.result(results)


def _read_shapes(invocation: Invocation) -> None:
    """Gives outputs whose shape depends on data the shape they got: the front of what was allocated. Waits for it."""
    for position, _ in invocation.plan.outputs:
        tensor = invocation.values[position]
        if isinstance(tensor, Tensor):
            shape = invocation.backend.view_shape(tensor)
            if shape != tensor.shape:
                tensor.shape, tensor.strides = shape, contiguous_strides(shape)


def executor_values(backend: Backend, operator: Operator, args: Sequence[Any]) -> list[Any]:
    """Values for ``Executor``: one argument for every C parameter, in C order, outputs too."""
    if len(args) != len(operator.parameters):
        names = ", ".join(p.name for p in operator.parameters)
        raise TypeError(f"{operator.name} takes {len(operator.parameters)} arguments ({names}); {len(args)} were given")
    invocation = Invocation(backend, plan(operator), False)
    for position, (parameter, arg) in enumerate(zip(operator.parameters, args)):
        if isinstance(arg, np.ndarray) and parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST):
            if not backend.wraps_host_memory:
                text = f"is an ndarray; an Executor on the {backend.name} backend takes Tensors"
                raise TypeError(describe(operator, parameter, text))
            if parameter.direction != "in" and not arg.flags.writeable:
                raise ValueError(describe(operator, parameter, "is read-only; the operator writes to it"))
        invocation.values[position] = invocation.value(position, parameter, parameter.kind, arg)
    return invocation.values


__all__ = ["CallPlan", "call", "executor_values", "plan"]
