"""Faults of operators and kernels that the device process makes on purpose: the rules of ``emulator/faults.py`` that concern it.

Whatever is wrong is wrong in device memory, in the status that the client gets, or in the time that a launch takes.
"""

from __future__ import annotations

import fnmatch
import os
import struct
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import catalog
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.emulator.faults import KERNEL_FAULT, VARIABLE, Fault, parse
from ascend_aclnn.emulator.process.plans import KernelPlan

if TYPE_CHECKING:
    from ascend_aclnn.emulator.process.plans import Bound, Plan, PlannedTensor

_DROPPED = {
    "float16": 6,
    "bfloat16": 4,
    "float32": 14,
    "float64": 36,
}  # bits of the mantissa that "low-precision" loses
Array = npt.NDArray[Any]
# Runs what is bound; its answer, and each output with what its last element held before.
Observed = Callable[["Bound"], tuple[Optional[bytes], list[tuple[Array, Any]]]]


class IdlePlan:
    """Stands for a plan that phase one should have refused."""

    once = False
    direct = None
    addresses = 0

    def __init__(self, operator: catalog.Operator) -> None:
        self.operator = operator
        self.bound: dict[bytes, Bound] = {}

    def bind(self, *_: Any) -> Bound:
        return lambda: None


class Faults:
    """The rules in force in the device process."""

    def __init__(self, text: str) -> None:
        self._rules = [fault for fault in parse(text) if fault.of_device]
        self._passed = [0] * len(self._rules)  # launches that a rule has seen

    def _of(self, name: str) -> list[int]:
        return [i for i, fault in enumerate(self._rules) if fnmatch.fnmatchcase(name, fault.name)]

    def idle(self, name: str) -> Any:
        """What to run instead of a plan that phase one refuses; None where the refusal is answered."""
        swallowed = any(self._rules[i].kind == "swallow" for i in self._of(name))
        return IdlePlan(catalog.get(name)) if swallowed else None

    def around(self, plan: Plan, memory: Array, addresses: bytes, bound: Bound) -> Bound:
        """A bound plan with its operator's faults, if it has any."""
        numbers = [] if isinstance(plan, IdlePlan) else self._of(plan.name)
        if not numbers:
            return bound
        if isinstance(plan, KernelPlan):
            bound, observed = _watched(plan, bound)
        else:
            observed = _observed(list(_outputs(plan, memory, addresses)))
        for number in numbers:
            bound = self._with(number, plan.name, bound, observed)
        return bound

    def _with(self, number: int, name: str, bound: Bound, observed: Observed) -> Bound:
        fault = self._rules[number]

        def run() -> Optional[bytes]:
            self._passed[number] += 1
            nth = self._passed[number] - fault.after
            affected = nth > 0 and (fault.times is None or nth <= fault.times)
            return _wrongly(fault, name, bound, observed) if affected else bound()

        return run


def _observed(views: list[Array]) -> Observed:
    """For an operator, whose outputs are known before it runs."""

    def observed(bound: Bound) -> tuple[Optional[bytes], list[tuple[Array, Any]]]:
        results = [(view, view[_last(view)].copy()) for view in views]
        return bound(), results

    return observed


def _watched(plan: KernelPlan, bound: Bound) -> tuple[Bound, Observed]:
    """For a kernel, whose outputs are the arrays that it has changed."""
    arrays: list[tuple[Array, Array]] = []
    plan.watched = arrays

    def run() -> Optional[bytes]:
        arrays.clear()
        return bound()

    def observed(bound: Bound) -> tuple[Optional[bytes], list[tuple[Array, Any]]]:
        changed = bound()
        return changed, [(view, was[_last(was)]) for view, was in arrays if view.tobytes() != was.tobytes()]

    return run, observed


def _wrongly(fault: Fault, name: str, bound: Bound, observed: Observed) -> Optional[bytes]:
    kind = fault.kind
    if kind == "stale":
        return None
    if kind == "die":
        os._exit(1)
    if kind == "fail":
        status = fault.value or KERNEL_FAULT
        raise AclError(status, name, f"EMULATOR_INJECTED: the kernel was made to fail with {status} by {VARIABLE}")
    if kind == "slow":
        time.sleep(fault.value / 1000)
        return bound()
    while kind == "hang":
        time.sleep(1)
    if kind == "swallow":
        try:
            return bound()
        except AclError:
            return None
    changed, results = observed(bound)
    for view, before in results:
        spoil(kind, view, before)
    return changed


def _last(view: Array) -> Any:
    return (-1,) * view.ndim


def spoil(kind: str, view: Array, before: Any) -> None:
    """Makes a result wrong in place; ``before`` is what its last element held before the launch."""
    bits = _bits(view)
    if kind == "tail":
        view[_last(view)] = before
    elif kind == "wrong-element":
        at = tuple(n // 2 for n in view.shape)
        value = view[at]
        with np.errstate(all="ignore"):
            view[at] = ~value if view.dtype == bool else (value + value + 3 if np.isfinite(value) else 0)
    elif kind == "nan" and view.dtype.kind not in "iub":
        view[tuple(n // 2 for n in view.shape)] = np.nan
    elif kind == "axes-swapped" and view.ndim:
        swapped = view.swapaxes(-1, -2) if view.ndim > 1 else view[::-1]
        view[...] = swapped.reshape(view.shape).copy()
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
