"""Faults that the emulated device makes on purpose, for tests of what is meant to find them.

``ASCEND_EMULATOR_FAULT`` holds rules, separated by semicolons: a name, and what goes wrong with it, separated by colons.

    aclnnAdd:wrong-element;aclnnMul:after=2:stale

The name is that of an operator. What goes wrong is one of ``KINDS``; ``after=N`` lets the first N launches of the operator
pass. Whatever is wrong is wrong in device memory, or in the status that the client gets.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import catalog
from ascend_aclnn.core.errors import AclError

if TYPE_CHECKING:
    from ascend_aclnn.emulator.process.plans import Bound, Plan, PlannedTensor

VARIABLE = "ASCEND_EMULATOR_FAULT"
KINDS = {
    "wrong-element": "one element of each output is wrong",
    "wrong-rounding": "results are cut off instead of rounded: half of the elements are one step nearer to zero",
    "low-precision": "results are as precise as if they had been summed in a type of half the width",
    "tail": "the last element of each output is not written",
    "stale": "nothing is computed, and outputs stay as they were; the status says success",
    "swallow": "errors of both phases are answered with success",
    "hang": "the launch never ends",
    "die": "the device ends at the launch",
}
_DROPPED = {
    "float16": 6,
    "bfloat16": 4,
    "float32": 14,
    "float64": 36,
}  # bits of the mantissa that "low-precision" loses
Array = npt.NDArray[Any]


class Fault(NamedTuple):
    """A rule of the variable."""

    name: str
    kind: str
    after: int = 0  # launches that pass before

    @classmethod
    def parse(cls, rule: str) -> Fault:
        name, *items = rule.strip().split(":")
        kind, after = "", 0
        for item in items:
            key, equals, value = item.partition("=")
            if not equals and not kind and key in KINDS:
                kind = key
            elif key == "after" and value.isdigit():
                after = int(value)
            else:
                raise ValueError(f"{VARIABLE}: {item!r} in {rule!r} is neither after=N nor one of {', '.join(KINDS)}")
        if not kind:
            raise ValueError(f"{VARIABLE}: {rule!r} does not say what goes wrong: one of {', '.join(KINDS)}")
        if name not in catalog.names():
            raise ValueError(f"{VARIABLE}: {catalog.unknown_name(name)}")
        return cls(name, kind, after)


class IdlePlan:
    """Stands for a plan that phase one should have refused."""

    once = False
    addresses = 0

    def __init__(self, operator: catalog.Operator) -> None:
        self.operator = operator
        self.bound: dict[bytes, Bound] = {}

    def bind(self, *_: Any) -> Bound:
        return lambda: None


class Faults:
    """The rules in force in the device process, by operator."""

    def __init__(self, text: str) -> None:
        rules = [Fault.parse(rule) for rule in text.split(";") if rule.strip()]
        self._faults = {fault.name: fault for fault in rules}
        self._launches = dict.fromkeys(self._faults, 0)

    def idle(self, name: str) -> Any:
        """What to run instead of a plan that phase one refuses; None where the refusal is answered."""
        fault = self._faults.get(name)
        return IdlePlan(catalog.get(name)) if fault is not None and fault.kind == "swallow" else None

    def around(self, plan: Plan, memory: Array, addresses: bytes, bound: Bound) -> Bound:
        """A bound plan with its operator's fault, if it has one."""
        fault = self._faults.get(plan.operator.name)
        if fault is None or isinstance(plan, IdlePlan):
            return bound
        views = list(_outputs(plan, memory, addresses))

        def run() -> Optional[bytes]:
            self._launches[fault.name] += 1
            return bound() if self._launches[fault.name] <= fault.after else _wrongly(fault.kind, bound, views)

        return run


def _wrongly(kind: str, bound: Bound, views: list[Array]) -> Optional[bytes]:
    if kind == "stale":
        return None
    if kind == "die":
        os._exit(1)
    while kind == "hang":
        time.sleep(1)
    if kind == "swallow":
        try:
            return bound()
        except AclError:
            return None
    last = [view[_last(view)].copy() for view in views]
    changed = bound()
    for view, before in zip(views, last):
        _spoil(kind, view, before)
    return changed


def _last(view: Array) -> Any:
    return (-1,) * view.ndim


def _spoil(kind: str, view: Array, before: Any) -> None:
    """Makes a result wrong in place."""
    bits = _bits(view)
    if kind == "tail":
        view[_last(view)] = before
    elif kind == "wrong-element":
        at = tuple(n // 2 for n in view.shape)
        value = view[at]
        with np.errstate(all="ignore"):
            view[at] = ~value if view.dtype == bool else (value + value + 3 if np.isfinite(value) else 0)
    elif kind == "wrong-rounding":
        chosen = np.random.default_rng(1).random(view.shape) < 0.5
        if bits is not None:
            bits[chosen & (view != 0) & np.isfinite(view)] -= 1  # magnitude and sign: one step nearer to zero
        elif view.dtype.kind in "iu":
            view[chosen] -= np.sign(view[chosen])
    elif kind == "low-precision" and bits is not None:
        bits &= bits.dtype.type(-1 << _DROPPED[view.dtype.name])


def _bits(view: Array) -> Optional[Array]:
    """The bits of floating-point elements as integers in the same memory; None for other types."""
    return view.view(f"i{view.dtype.itemsize}") if view.dtype.name in _DROPPED else None


def _outputs(plan: Plan, memory: Array, addresses: bytes) -> Iterator[Array]:
    """The elements of a plan's outputs in device memory."""
    offsets = struct.unpack(f"<{plan.addresses}q", addresses)
    for parameter, value in zip(plan.operator.parameters, plan.arguments):
        if parameter.direction == "in" or not hasattr(value, "numbers"):
            continue
        for number in value.numbers:
            planned = plan.tensors[number]
            if planned is not None and planned.spec.size > 0 and planned.extent > 0:
                yield _view(planned, memory[offsets[number] : offsets[number] + planned.extent])


def _view(planned: PlannedTensor, memory: Array) -> Array:
    spec = planned.spec
    if spec.dtype.numpy is None or spec.dtype.bits % 8 or spec.format.private:
        return memory
    width = spec.dtype.numpy.itemsize
    strides = [width * stride for stride in spec.strides]
    return np.ndarray(spec.shape, spec.dtype.numpy, memory, width * spec.offset, strides)
