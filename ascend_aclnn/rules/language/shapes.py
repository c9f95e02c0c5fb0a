"""Words about shapes."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Callable, Optional, Union

from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.rules.language.call import Call, Check, Shape, ShapeRule, Word, dims_text


class _OutputShapes(Word):
    """Shapes of outputs: told, and checked unless only inferred."""

    def __init__(self, rules: dict[str, ShapeRule], checks: bool) -> None:
        super().__init__()
        self.rules = rules
        self.checks = checks
        self.shapes = {name: [(None, rule)] for name, rule in rules.items()}

    def __call__(self, call: Call) -> None:
        for name, rule in self.rules.items():
            if not self.checks or name not in call.operator.positions:
                continue
            required = rule(call)
            if required is None or not call.is_present(name):
                continue
            tensors = call.tensors(name)
            shapes = required if isinstance(required, list) else [required]
            if len(tensors) != len(shapes):
                call.refuse(name, f"has {len(tensors)} tensors; it must have {len(shapes)}")
            for tensor, shape in zip(tensors, shapes):
                if tensor.shape != tuple(shape) and not self.admits(tensor, shape):
                    call.refuse(name, f"has shape {dims_text(tensor.shape)}; it must be {dims_text(shape)}")

    def admits(self, tensor: TensorSpec, shape: Shape) -> bool:
        """Whether a tensor of another shape will do."""
        return False


class _RelaxedShapes(_OutputShapes):
    """Shapes of outputs; a tensor of one element will do for any shape of one element."""

    def admits(self, tensor: TensorSpec, shape: Shape) -> bool:
        return tensor.size == 1 and math.prod(shape) == 1


class _CopiedShapes(_RelaxedShapes):
    """Shapes of outputs into which CANN copies; an empty input ends phase one before the copy."""

    def __call__(self, call: Call) -> None:
        inputs = [t for p in call.operator.inputs if "Tensor" in p.ctype for t in call.tensors(p.name)]
        if any(t.size == 0 for t in inputs):
            return
        before, call.status = call.status, INNER_NULLPTR
        try:
            super().__call__(call)
        finally:
            call.status = before


def output_shape(**rules: ShapeRule) -> Check:
    """Outputs have exactly these shapes: checked, and told."""
    return _OutputShapes(rules, checks=True)


def output_shape_relaxed(**rules: ShapeRule) -> Check:
    """Like ``output_shape``, but a tensor of one element will do for any shape of one element."""
    return _RelaxedShapes(rules, checks=True)


def infer_shape(**rules: ShapeRule) -> Check:
    """The shapes of outputs, where phase one does not compare them: told only. None is a null pointer."""
    return _OutputShapes(rules, checks=False)


def copied_output_shape(**rules: ShapeRule) -> Check:
    """Outputs into which CANN copies its result: another shape fails the graph (561103), unless an input is empty."""
    return _CopiedShapes(rules, checks=True)


def shape_of(name: str) -> Callable[[Call], Shape]:
    """The shape of a tensor."""
    return lambda call: call.shape(name)


def shape_from(*items: Union[int, str, tuple[str, int], Callable[[Call], int]]) -> Callable[[Call], Shape]:
    """A shape from parts: a number, an integer attribute's name, ("tensor", axis), or a function of the call."""

    def part(call: Call, item: Any) -> int:
        if isinstance(item, str):
            return int(call[item])
        if isinstance(item, tuple):
            return call.size(*item)
        return item(call) if callable(item) else int(item)

    return lambda call: tuple(part(call, item) for item in items)


def broadcast_shape(*names: str) -> Callable[[Call], Shape]:
    """The shape to which tensors broadcast; RuleViolation where they do not. Absent ones do not count."""

    def shape_(call: Call) -> Shape:
        total: Shape = ()
        for name in names:
            if not call.is_present(name):
                continue
            both = broadcast_shapes(total, call.shape(name))
            if both is None:
                call.refuse(
                    name, f"has shape {dims_text(call.shape(name))}, which does not broadcast with {dims_text(total)}"
                )
            total = both
        return total

    return shape_


def broadcast_shapes(a: Sequence[int], b: Sequence[int]) -> Optional[Shape]:
    """The common shape of two, None if there is none."""
    long, short = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(long) - len(short)
    total = list(long)
    for i, n in enumerate(short):
        m = long[lead + i]
        if m != n and 1 not in (m, n):
            return None
        total[lead + i] = n if m == 1 else m
    return tuple(total)


def reduced_shape(name: str, axes: str, keep_dims: Union[str, bool] = False) -> Callable[[Call], Shape]:
    """A shape after reducing over the axes of an attribute (int or aclIntArray; empty or None: all of them).

    Axes outside the rank, or named twice, are refused.
    """

    def shape_(call: Call) -> Shape:
        sizes: Shape = call.shape(name)
        given = call[axes]
        chosen = normalise_axes(call, axes, (given,) if isinstance(given, int) else given or (), len(sizes))
        keep = call[keep_dims] if isinstance(keep_dims, str) else keep_dims
        every = not chosen
        out = [(1 if keep else -1) if every or i in chosen else n for i, n in enumerate(sizes)]
        return tuple(out) if keep else tuple(n for i, n in enumerate(sizes) if not every and i not in chosen)

    return shape_


def normalise_axes(call: Call, argument: str, axes: Iterable[int], ndim: int) -> list[int]:
    """Axes as non-negative numbers; refuses those out of range and repeated ones. A 0-d tensor has the axes 0 and -1."""
    found: list[int] = []
    extent = max(ndim, 1)
    for axis in axes:
        if not -extent <= axis < extent:
            call.refuse(argument, f"is {axis}; it must be in [{-extent}, {extent - 1}]")
        positive = axis % extent
        if positive in found:
            call.refuse(argument, f"names axis {axis} twice")
        found.append(positive)
    return found


def same_shape(first: str, *others: str) -> Check:
    """The others have the first's shape; absent ones pass."""

    def check(call: Call) -> None:
        if not call.is_present(first):
            return
        wanted = call.shape(first)
        for name in others:
            for tensor in call.tensors(name):
                if tensor.shape != wanted:
                    text = f"has shape {dims_text(tensor.shape)}; it must be {dims_text(wanted)}, as {call.python_name(first)}"
                    call.refuse(name, text)

    return check


def broadcastable(name: str, target: str) -> Check:
    """A tensor broadcasts to another's shape without enlarging it."""

    def check(call: Call) -> None:
        if call.is_present(name) and call.is_present(target):
            both = broadcast_shapes(call.shape(name), call.shape(target))
            if both != call.shape(target):
                text = f"has shape {dims_text(call.shape(name))}, which does not broadcast to {dims_text(call.shape(target))}"
                call.refuse(name, text)

    return check


class _ShapePatterns(_OutputShapes):
    """Sizes by name, bound by the first tensor that has them."""

    def __init__(self, leading: tuple[int, int], patterns: dict[str, str]) -> None:
        super().__init__({name: functools.partial(self.made, name) for name in patterns}, checks=True)
        self.leading = leading
        self.patterns = {name: text.split() for name, text in patterns.items()}

    def __call__(self, call: Call) -> None:
        bound: dict[str, Shape] = {}
        for name, pattern in self.patterns.items():
            if name in call.operator.positions and call.is_present(name):
                self.match(call, name, pattern, bound)

    def match(self, call: Call, name: str, pattern: list[str], bound: dict[str, Shape]) -> None:
        sizes: Shape = call.shape(name)
        rest = len(sizes) - len(pattern)
        text = f"has shape {dims_text(sizes)}; it must be ({', '.join(pattern)})"
        if pattern[0] == "*":
            low, high = self.leading
            rest += 1
            call.require("*" in bound or low <= rest <= high, name, f"{text} with {low} to {high} leading axes")
            lead = bound.setdefault("*", sizes[: max(rest, 0)])
            known = f", where * is {dims_text(lead)}"
            call.require(rest == len(lead) and sizes[:rest] == lead, name, text + known)
            sizes, pattern = sizes[rest:], pattern[1:]
        else:
            call.require(rest == 0, name, text)
        for size, part in zip(sizes, pattern):
            if part.isidentifier() and part not in bound and part not in call.operator.positions:
                bound[part] = (size,)
            wanted = self.value(call, part, bound)
            call.require(size == wanted, name, f"{text}, where {part} is {wanted}")

    def value(self, call: Call, part: str, bound: dict[str, Shape]) -> int:
        """Of a sum of products of numbers, bound sizes and integer attributes."""

        def factor(word: str) -> int:
            if word.isdigit():
                return int(word)
            return bound[word][0] if word in bound else int(call[word])

        return sum(math.prod(factor(word) for word in term.split("*")) for term in part.split("+"))

    def made(self, name: str, call: Call) -> Shape:
        """The shape of one tensor, from those of the inputs."""
        bound: dict[str, Shape] = {}
        inputs = {p.name for p in call.operator.inputs}
        for other, pattern in self.patterns.items():
            if other in inputs and call.is_present(other):
                self.match(call, other, pattern, bound)
        sizes: list[int] = []
        for part in self.patterns[name]:
            sizes += bound.get("*", ()) if part == "*" else (self.value(call, part, bound),)
        return tuple(sizes)


def shape_patterns(leading: tuple[int, int] = (0, 99), **patterns: str) -> Check:
    """Tensors fit patterns of named sizes: ``shape_patterns(x="* n d", phi="n*n+2*n n*d", out="* d")``.

    A size is bound where it first stands alone, then compared; sums of products of sizes, numbers and integer attributes
    are computed. ``*`` at the front is any leading axes (between ``leading`` many), the same for all. Outputs are inferred.
    """
    return _ShapePatterns(leading, patterns)
