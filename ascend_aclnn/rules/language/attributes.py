"""Words about attributes: numbers, axes, arrays."""

from __future__ import annotations

from typing import Any

from ascend_aclnn.rules.language.call import Call, Check
from ascend_aclnn.rules.language.shapes import normalise_axes


def in_range(name: str, least: float, most: float) -> Check:
    """An attribute lies in a closed range."""

    def check(call: Call) -> None:
        value = call[name]
        if value is not None and not least <= value <= most:
            call.refuse(name, f"is {value}; it must be in [{least}, {most}]")

    return check


def valid_axis(name: str, tensor: str) -> Check:
    """An integer attribute is an axis of a tensor (negative ones count from the end; a 0-d tensor has 0 and -1)."""

    def check(call: Call) -> None:
        if call.is_present(tensor):
            normalise_axes(call, name, (call[name],), len(call.shape(tensor)))

    return check


def valid_axes(name: str, tensor: str) -> Check:
    """The items of an aclIntArray are different axes of a tensor; an absent array passes."""

    def check(call: Call) -> None:
        normalise_axes(call, name, call[name] or (), len(call.shape(tensor)))

    return check


def one_of(name: str, *allowed: Any) -> Check:
    """An attribute has one of the values."""

    def check(call: Call) -> None:
        if call[name] is not None and call[name] not in allowed:
            call.refuse(name, f"is {call[name]!r}; it must be {' or '.join(repr(a) for a in allowed)}")

    return check


def array_length(name: str, *allowed: int) -> Check:
    """An aclIntArray (or other array, or list) has one of the lengths; an absent one passes."""

    def check(call: Call) -> None:
        value = call[name]
        if value is not None and len(value) not in allowed:
            call.refuse(name, f"has {len(value)} items; it must have {' or '.join(map(str, allowed))}")

    return check
