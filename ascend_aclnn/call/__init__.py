"""Calling an operator from Python: bind the arguments, infer or take the outputs, run, return the results.

Only ndarrays in: ndarrays out, synchronous. Any Tensor, a Tensor ``out=`` or ``stream=``: Tensors out, asynchronous on
the stream. Every operator goes through ``call``; what differs between them is data of the catalog and the rules.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Callable, Optional, Protocol

import numpy as np

from ascend_aclnn.backends.interface import Backend, current_backend
from ascend_aclnn.call.arguments import Invocation, holds_tensor
from ascend_aclnn.call.invoke import invoke
from ascend_aclnn.call.outputs import host_results, output_items
from ascend_aclnn.call.plan import CallPlan, plan
from ascend_aclnn.call.replay import find_on_device, remember, remember_on_device, signature
from ascend_aclnn.call.torch_call import call_with_torch, first_torch_tensor
from ascend_aclnn.call.values import describe
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core.streams import Stream, check_stream
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.core.torch_interop import is_torch_tensor


class Observer(Protocol):
    """Sees the calls of operators, and replays of graphs: ``profiling.Profile``."""

    def busy(self) -> bool:
        """Whether this thread is inside of a call that is observed."""

    def observe(self, name: str, args: Sequence[Any], stream: Optional[Stream], perform: Callable[[], Any]) -> Any:
        """Makes a call of an operator, or a replay, by ``perform``; its results. ``args`` of a replay are the graph's nodes."""


observer: Optional[Observer] = None


def call(plan: CallPlan, args: Sequence[Any], out: Any, stream: Optional[Stream]) -> Any:
    """One call of an operator; ``args`` has one item for each parameter of the Python function."""
    if observer is not None and not observer.busy():
        return observer.observe(plan.operator.name, args, stream, lambda: call(plan, args, out, stream))
    backend = current_backend()
    if stream is not None:
        check_stream(stream, backend)
    arguments = (*args, *(plan.no_outputs if out is None else output_items(plan, out)))
    torch_tensor = None  # which has a signature of its own
    if args and type(args[0]) is not Tensor and type(args[0]) is not np.ndarray and is_torch_tensor(args[0]):
        torch_tensor = args[0]
    key = None if torch_tensor is not None else signature(arguments, (backend, stream is None, out is None))
    if backend.captures:  # a call that is recorded is made in full
        key = None
    elif not backend.wraps_host_memory:
        remembered = None if key is None else find_on_device(plan, key)
        again = None if remembered is None else remembered.run(arguments, stream)
        if again is not None:
            return plan.result(again)
    else:
        replay = None if key is None else plan.replays.get(key)
        if replay is not None and replay.runner.valid:
            again = replay.run(backend, arguments)
            if again is not None:
                return plan.result(again)
    if key is None and "torch" in sys.modules:
        if torch_tensor is None:
            torch_tensor = first_torch_tensor((*args, out))
        if torch_tensor is not None:
            return call_with_torch(backend, plan, args, out, stream, torch_tensor, call)
    on_device = stream is not None or not backend.has_values or holds_tensor(args) or holds_tensor((out,))
    invocation = Invocation(backend, plan, on_device)
    runner = invoke(invocation, args, out, stream)
    results = [invocation.values[i] for i in plan.results] if on_device else host_results(invocation)
    if key is not None:
        if runner is not None:
            remember(invocation, key, arguments, runner)
        elif not backend.wraps_host_memory:
            remember_on_device(invocation, key, arguments)
    return plan.result(results)


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
