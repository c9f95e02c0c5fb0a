"""Words about attributes: numbers, axes, arrays, presence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR, RuleViolation
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.rules.language.call import Call, Check, Condition, Refusal, Word, carries, dims_text, refuses
from ascend_aclnn.rules.language.conditions import Conditional
from ascend_aclnn.rules.language.explanations import state
from ascend_aclnn.rules.language.shapes import axis_refusals, normalise_axes

__all__ = [
    "absent",
    "absent_or_empty",
    "array_length",
    "conditional_outputs",
    "in_range",
    "multiple_of",
    "not_empty",
    "not_negative",
    "one_of",
    "positive",
    "present_if",
    "required",
    "required_lists",
    "together",
    "valid_axes",
    "valid_axis",
]


def in_range(name: str, least: float, most: float) -> Check:
    """An attribute lies in a closed range."""

    @refuses("range", name, limits=(least, most))
    def check(call: Call) -> None:
        value = call.get(name)
        if value is not None and not least <= value <= most:
            call.refuse(name, f"is {value}; it must be in [{least}, {most}]", check="range")

    return check


def valid_axis(name: str, tensor: str) -> Check:
    """An integer attribute is an axis of a tensor (negative ones count from the end; a 0-d tensor has 0 and -1)."""

    @refuses("axis", name)
    def check(call: Call) -> None:
        if call.is_present(tensor):
            normalise_axes(call, name, (call[name],), len(call.shape(tensor)))

    return check


def valid_axes(name: str, tensor: str) -> Check:
    """The items of an aclIntArray are different axes of a tensor; an absent array passes."""

    @carries(axis_refusals(name))
    def check(call: Call) -> None:
        normalise_axes(call, name, call[name] or (), len(call.shape(tensor)))

    return check


def one_of(name: str, *allowed: Any) -> Check:
    """An attribute has one of the values."""

    @refuses("value", name, limits=allowed)
    def check(call: Call) -> None:
        if call.get(name) is not None and call[name] not in allowed:
            call.refuse(name, f"is {call[name]!r}; it must be {' or '.join(repr(a) for a in allowed)}", check="value")

    return check


def array_length(name: str, *allowed: int) -> Check:
    """An aclIntArray (or other array, or list) has one of the lengths; an absent one passes."""

    @refuses("length", name, limits=allowed)
    def check(call: Call) -> None:
        value = call.get(name)
        if value is not None and len(value) not in allowed:
            call.refuse(name, f"has {len(value)} items; it must have {' or '.join(map(str, allowed))}", check="length")

    return check


# ------------------------------------------------------------------------------------------------- presence


def required(*names: str, status: int = PARAM_NULLPTR) -> Check:
    """Pointers that must not be null, where the catalog calls them optional (161001 unless said otherwise)."""

    @refuses("null", *names, status=status)
    def check(call: Call) -> None:
        for name in names:
            if name in call.positions and not call.is_present(name):
                call.refuse(name, "is None (a null pointer); it is required", status, check="null")

    return check


def required_lists(*names: str, status: int = PARAM_NULLPTR) -> Check:
    """Tensor lists that must have tensors, none of them null."""

    @refuses("null", *names, status=status)
    def check(call: Call) -> None:
        for name in names:
            if name in call.positions and (not call[name] or any(item is None for item in call[name])):
                call.refuse(name, "is None or empty, or holds None; it must have tensors", status, check="null")

    return check


def absent(*names: str, why: str = "") -> Check:
    """Arguments that must be null pointers."""

    @refuses("absent", *names)
    def check(call: Call) -> None:
        for name in names:
            if call.is_present(name):
                call.refuse(name, "is given; it must be None" + (why and f", {why}"), check="absent")

    return check


def absent_or_empty(*names: str, why: str = "") -> Check:
    """Tensors that must be null pointers, or have no elements."""

    @refuses("absent", *names)
    def check(call: Call) -> None:
        for name in names:
            if call.is_present(name) and call[name].size != 0:
                call.refuse(name, "is given; it must be None" + (why and f", {why}"), check="absent")

    return check


def together(*names: str, status: Optional[int] = None) -> Check:
    """Arguments that are present all, or absent all."""

    @refuses("null/together", *names, status=status)
    def check(call: Call) -> None:
        present = [call.is_present(name) for name in names]
        if any(present) and not all(present):
            missing = names[present.index(False)]
            others = " and ".join(call.python_name(name) for name in names if name != missing)
            call.refuse(missing, f"is None; it must be given together with {others}", status, check="null/together")

    return check


class _PresentIf(Word):
    def __init__(self, condition: str, names: Sequence[str], status: int) -> None:
        super().__init__()
        self.condition, self.names, self.status = Conditional(condition), names, status
        self.expressions = [self.condition.expression]
        checks = ("null/required", "absent/not-required")
        self.refusals = [Refusal(name, check, status=status) for name in names for check in checks]

    def __call__(self, call: Call) -> None:
        wanted = self.condition(call)
        for name in self.names:
            if name not in call.positions or call.is_present(name) is wanted:
                continue
            text = state(call, self.condition.expression)
            if wanted:
                call.refuse(
                    name, f"is None (a null pointer); it is required where {text}", self.status, check="null/required"
                )
            missing = f"is given; it must be None unless {text}"
            call.refuse(name, missing, self.status, check="absent/not-required")


def present_if(condition: str, *names: str, status: int = PARAM_INVALID) -> Check:
    """Arguments that are required where a condition holds, and must be null pointers elsewhere."""
    return _PresentIf(condition, names, status)


class _ConditionalOutputs(Word):
    def __init__(self, conditions: dict[str, str], status: int) -> None:
        super().__init__()
        self.computed = {name: Conditional(text) for name, text in conditions.items()}
        self.status = status
        self.conditional = {name: [(None, self._holds(name))] for name in conditions}
        self.expressions = [condition.expression for condition in self.computed.values()]
        self.refusals = [Refusal(name, "null/computed", status=status) for name in conditions]

    def _holds(self, name: str) -> Condition:
        def holds(call: Call) -> bool:
            try:
                return self.computed[name](call)
            except RuleViolation:  # of a mask that is too short
                return False

        return holds

    def __call__(self, call: Call) -> None:
        for name, condition in self.computed.items():
            if name not in call.positions:
                continue
            if not self._holds(name)(call):
                call.leave_out(name)
            elif not call.is_present(name):
                text = f"is None (a null pointer); it is required where {state(call, condition.expression)}"
                call.refuse(name, text, self.status, check="null/computed")


def conditional_outputs(status: int = PARAM_NULLPTR, **conditions: str) -> Check:
    """Outputs that are computed only where a condition (an expression of attributes) holds.

        conditional_outputs(gradInput="outputMask[0]", rstdOut="outputRstd")

    Where it holds they must be given; elsewhere they count as null pointers for the words that follow, and are allocated as
    such.
    """
    return _ConditionalOutputs(conditions, status)


def not_empty(*names: str) -> Check:
    """Tensors (or lists, or arrays) that must have elements; absent ones pass."""

    @refuses("empty", *names)
    def check(call: Call) -> None:
        for name in names:
            value = call.get(name)
            if isinstance(value, TensorSpec):
                if value.size == 0:
                    call.refuse(name, f"has shape {dims_text(value.shape)}; it must not be empty", check="empty")
            elif value is not None and (len(value) == 0 or (isinstance(value, list) and call.is_empty(name))):
                call.refuse(name, "is empty; it must not be", check="empty")

    return check


# ------------------------------------------------------------------------------------------------- numbers


def positive(*names: str) -> Check:
    """Numbers, or the items of arrays, are more than 0 (NaN is not); absent ones pass."""
    return _numbers(names, "range/positive", lambda value: value > 0, "be positive")


def not_negative(*names: str) -> Check:
    """Numbers, or the items of arrays, are at least 0 (NaN is not); absent ones pass."""
    return _numbers(names, "range/not-negative", lambda value: value >= 0, "not be negative")


def multiple_of(divisor: int, *names: str) -> Check:
    """Numbers, or the items of arrays, are multiples; absent ones pass."""
    needed = f"be a multiple of {divisor}"
    return _numbers(names, "range/multiple", lambda value: value % divisor == 0, needed, divisor)


def _numbers(names: Sequence[str], kind: str, holds: Callable[[Any], bool], needed: str, limit: int = 0) -> Check:
    @refuses(kind, *names, limits=(limit,))
    def check(call: Call) -> None:
        for name in names:
            value = call.get(name)
            if isinstance(value, Scalar):
                value = value.value
            if isinstance(value, tuple):
                if not all(map(holds, value)):
                    call.refuse(name, f"is {value}; each item must {needed}", check=kind)
            elif value is not None and not holds(value):
                call.refuse(name, f"is {value}; it must {needed}", check=kind)

    return check
