"""Shapes of outputs in torch's symbolic sizes (SymInt), for graphs that torch compiles or exports for any size.

A call is checked, and its outputs inferred, with the sizes that torch traces with, as numbers. Then the rule infers the
shapes once more from the sizes as they are: what it computes becomes an expression of them, and what it compares becomes a
guard of torch's. Where that gives other shapes, or a rule needs a number, sizes become numbers: torch compiles again for
other ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from ascend_aclnn import rules
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.call.arguments import Invocation
from ascend_aclnn.call.plan import CallPlan, OutputSpec
from ascend_aclnn.core import torch_interop
from ascend_aclnn.core.socs import soc
from ascend_aclnn.core.spec import TensorSpec

_ANY_SIZE = 64  # stands for a size that depends on data, where rules are checked


def has_symbols(values: Sequence[Any]) -> bool:
    """Whether torch traces a size among arguments without fixing its number."""
    return any(_is_symbol(size) for size in _sizes(values))


def numbers(value: Any) -> Any:
    """An argument with the numbers that torch traces with: tensors on the meta device."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        shape, strides = ([_number(n) for n in sizes] for sizes in (value.shape, value.stride()))
        reach = 1 + _number(value.storage_offset()) + sum((n - 1) * s for n, s in zip(shape, strides) if n > 0)
        memory = torch.empty(reach, dtype=value.dtype, device="meta")
        return memory.as_strided(shape, strides, _number(value.storage_offset()))
    if isinstance(value, (list, tuple)):
        return [numbers(item) for item in value]
    return _number(value) if _is_symbol(value) else value


def infer_symbolic(
    backend: Backend, plan: CallPlan, args: Sequence[Any], invocation: Invocation
) -> Optional[dict[str, OutputSpec]]:
    """The outputs of a call in symbolic sizes, by C name; None where the rule needs numbers.

    ``invocation`` is the same call with ``numbers``, which has passed.
    """
    values = list(invocation.values)
    for position, _ in plan.outputs:
        values[position] = None
    for (position, _, _), arg in zip(plan.inputs, args):
        values[position] = _symbolic(values[position], arg)
    try:
        specs = rules.infer(plan.operator, values, soc(backend.soc))
        same = all(_as_inferred(specs.get(p.name), invocation.values[i]) for i, p in plan.outputs)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ):  # a rule that needs numbers
        return None
    return specs if same else None


def _symbolic(bound: Any, arg: Any) -> Any:
    """The bound value of an argument, with its sizes as they are."""
    if isinstance(bound, TensorSpec):
        torch = sys.modules["torch"]
        if not isinstance(arg, torch.Tensor):
            return bound
        return TensorSpec(tuple(arg.shape), bound.dtype, tuple(arg.stride()), arg.storage_offset(), bound._format)
    if isinstance(bound, list) and isinstance(arg, (list, tuple)):
        return [_symbolic(part, item) for part, item in zip(bound, arg)]
    if isinstance(bound, tuple) and isinstance(arg, (list, tuple)):
        return tuple(item if _is_symbol(item) else part for part, item in zip(bound, arg))
    return arg if _is_symbol(arg) else bound


def _as_inferred(spec: OutputSpec, output: Any) -> bool:
    """Whether an output in symbolic sizes is, in numbers, the one that was inferred in numbers."""
    if isinstance(spec, list):
        return isinstance(output, list) and len(spec) == len(output) and all(map(_as_inferred, spec, output))
    if spec is None or output is None:
        return spec is None and output is None
    return tuple(map(_number, spec.shape)) == output.shape and spec.dtype is output.dtype


def empty(spec: OutputSpec, device: Any) -> Any:
    """torch tensors without values for an output."""
    if isinstance(spec, list):
        return [empty(part, device) for part in spec]
    return None if spec is None else torch_interop.empty_like_spec(spec, device)


def _sizes(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, sys.modules["torch"].Tensor):
            yield from value.shape
            yield from value.stride()
            yield value.storage_offset()
        elif isinstance(value, (list, tuple)):
            yield from _sizes(value)
        else:
            yield value


def _is_symbol(value: Any) -> bool:
    """Whether a value is a SymInt whose number is open."""
    return isinstance(value, sys.modules["torch"].SymInt) and value.node.maybe_as_int() is None


def _number(size: Any) -> int:
    """The number that torch traces with, without a guard; any number for a size that depends on data."""
    if not _is_symbol(size):
        return int(size)
    if size.node.has_hint():
        return int(size.node.hint)
    from torch.fx.experimental.symbolic_shapes import optimization_hint

    return int(optimization_hint(size, _ANY_SIZE))
