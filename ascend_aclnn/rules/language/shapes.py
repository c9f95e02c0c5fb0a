"""Words about shapes."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Callable, Optional, Union

from ascend_aclnn.catalog import Kind
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.core.spec import TensorSpec, as_size
from ascend_aclnn.rules.language.call import (
    ArgumentItems,
    Call,
    Check,
    Refusal,
    Shape,
    ShapeRule,
    Shapes,
    Word,
    carries,
    count_text,
    dims_text,
    refusals_of,
    refuses,
)
from ascend_aclnn.rules.language.conditions import require
from ascend_aclnn.rules.language.expressions import (
    Absent,
    Expression,
    definition,
    dtype_rule,
    expression,
    value_of,
)

__all__ = [
    "broadcast_shape",
    "broadcast_shapes",
    "broadcastable",
    "copied_output_shape",
    "has_shape",
    "infer_shape",
    "like",
    "normalise_axes",
    "output_shape",
    "output_shape_relaxed",
    "reduced_shape",
    "same_shape",
    "shape_from",
    "shape_of",
    "shape_patterns",
]


class _OutputShapes(Word):
    """Shapes of outputs: inferred, and checked unless only inferred."""

    def __init__(self, rules: dict[str, ShapeRule], checks: bool) -> None:
        super().__init__()
        self.rules = rules
        self.checks = checks
        self.shapes = {name: [(None, rule)] for name, rule in rules.items()}
        self.expressions = [rule.expression for rule in rules.values() if isinstance(rule, _ShapeExpression)]
        self.refusals = [
            Refusal(name, check, other=rule.expression.text if isinstance(rule, _ShapeExpression) else "")
            for name, rule in rules.items()
            for check in ("length/list", "shape")
            if checks
        ]
        self.refusals += [refusal for rule in rules.values() for refusal in refusals_of(rule)]

    def __call__(self, call: Call) -> None:
        for name, rule in self.rules.items():
            if not self.checks or name not in call.positions:
                continue
            try:
                required = rule(call)
            except Absent:
                continue
            if required is None or not call.is_present(name):
                continue
            tensors = call.tensors(name)
            shapes = required if isinstance(required, list) else [required]
            if len(tensors) != len(shapes):
                call.refuse(
                    name, f"has {count_text(len(tensors), 'tensor')}; it must have {len(shapes)}", check="length/list"
                )
            for tensor, shape in zip(tensors, shapes):
                if tensor.shape != tuple(shape) and not self.admits(tensor, shape):
                    text = f"has shape {dims_text(tensor.shape)}; it must be {dims_text(shape)}"
                    call.refuse(
                        name, text, cause=("shape", {"came": tensor.shape, "allowed": tuple(shape)}), check="shape"
                    )

    def admits(self, tensor: TensorSpec, shape: Shape) -> bool:
        """Whether a tensor of another shape will do."""
        return False


class _RelaxedShapes(_OutputShapes):
    """Shapes of outputs; a tensor of one element will do for any shape of one element."""

    def admits(self, tensor: TensorSpec, shape: Shape) -> bool:
        return tensor.size == 1 and math.prod(shape) == 1


class _CopiedShapes(_RelaxedShapes):
    """Shapes of outputs into which CANN copies; an empty input ends phase one before the copy."""

    def __init__(self, rules: dict[str, ShapeRule]) -> None:
        super().__init__(rules, checks=True)
        self.refusals = [refusal._replace(status=INNER_NULLPTR) for refusal in self.refusals]

    def __call__(self, call: Call) -> None:
        inputs = [t for p in call.operator.inputs if "Tensor" in p.ctype for t in call.tensors(p.name)]
        if any(t.size == 0 for t in inputs):
            return
        before, call.status = call.status, INNER_NULLPTR
        try:
            super().__call__(call)
        finally:
            call.status = before


def output_shape(**rules: Union[ShapeRule, str]) -> Check:
    """Outputs have exactly these shapes: checked, and inferred.

    A shape is an expression (a parameter's name is its shape; one that names an absent tensor gives none), or a function.
    """
    return _OutputShapes(_shape_rules(rules), checks=True)


def like(**sources: str) -> Check:
    """Outputs have the shape of an input, checked and inferred, and are allocated with its data type: ``like(gradX="x")``."""
    word = _OutputShapes(_shape_rules(dict(sources)), checks=True)
    word.dtypes = {name: [(None, dtype_rule(source))] for name, source in sources.items()}
    return word


def output_shape_relaxed(**rules: Union[ShapeRule, str]) -> Check:
    """Like ``output_shape``, but a tensor of one element will do for any shape of one element."""
    return _RelaxedShapes(_shape_rules(rules), checks=True)


def infer_shape(**rules: Union[ShapeRule, str]) -> Check:
    """The shapes of outputs, where phase one does not compare them: inferred only. None is a null pointer."""
    return _OutputShapes(_shape_rules(rules), checks=False)


def copied_output_shape(**rules: Union[ShapeRule, str]) -> Check:
    """Outputs into which CANN copies its result: another shape fails the graph (561103), unless an input is empty."""
    return _CopiedShapes(_shape_rules(rules))


def has_shape(**rules: Union[ShapeRule, str]) -> Check:
    """Tensors have exactly these shapes: checked only. Absent tensors pass, and expressions that name one."""
    word = _OutputShapes(_shape_rules(rules), checks=True)
    word.shapes = {}
    return word


def _shape_rules(rules: dict[str, Union[ShapeRule, str]]) -> dict[str, ShapeRule]:
    return {name: _ShapeExpression(rule) if isinstance(rule, str) else rule for name, rule in rules.items()}


class _ShapeExpression:
    """The shape, or the shapes of a list, that an expression gives."""

    def __init__(self, text: str) -> None:
        self.expression = Expression(text)

    def __call__(self, call: Call) -> Shapes:
        """Raises Absent where it needs an absent argument."""
        value = self.expression.compute(call)
        if isinstance(value, ArgumentItems) and value.parameter.kind is Kind.TENSOR_LIST:
            return [tuple(item) for item in value if item is not None]
        if isinstance(value, ArgumentItems) and None in value:
            raise Absent(self.expression.names[0])
        return value if value is None or isinstance(value, list) else tuple(map(as_size, value))


def shape_of(name: str) -> Callable[[Call], Shape]:
    """The shape of a tensor."""
    return lambda call: call.shape(name)


def shape_from(*items: Union[int, str, tuple[str, int], Callable[[Call], int]]) -> Callable[[Call], Shape]:
    """A shape from parts: a number, an integer attribute's name, ("tensor", axis), or a function of the call."""

    def part(call: Call, item: Any) -> int:
        if isinstance(item, str):
            return as_size(call[item])
        if isinstance(item, tuple):
            return call.size(*item)
        return item(call) if callable(item) else as_size(item)

    return lambda call: tuple(part(call, item) for item in items)


def broadcast_shape(*names: str) -> Callable[[Call], Shape]:
    """The shape to which tensors broadcast; RuleViolation where they do not. Absent ones do not count."""

    @refuses("shape/broadcast", *names[1:])
    def shape_(call: Call) -> Shape:
        total: Shape = ()
        for name in names:
            if not call.is_present(name):
                continue
            both = broadcast_shapes(total, call.shape(name))
            if both is None:
                text = f"has shape {dims_text(call.shape(name))}, which does not broadcast with {dims_text(total)}"
                first = next(other for other in names if call.is_present(other))
                values = {"other": call.c_name(first), "came": call.shape(name), "allowed": total}
                call.refuse(name, text, cause=("broadcast", values), check="shape/broadcast")
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

    @carries(axis_refusals(axes))
    def shape_(call: Call) -> Shape:
        sizes: Shape = call.shape(name)
        axis_or_axes = call[axes]
        chosen = normalise_axes(
            call, axes, (axis_or_axes,) if isinstance(axis_or_axes, int) else axis_or_axes or (), len(sizes)
        )
        keep = call[keep_dims] if isinstance(keep_dims, str) else keep_dims
        every = not chosen
        out = [(1 if keep else -1) if every or i in chosen else n for i, n in enumerate(sizes)]
        return tuple(out) if keep else tuple(n for i, n in enumerate(sizes) if not every and i not in chosen)

    return shape_


def axis_refusals(name: str) -> list[Refusal]:
    """Those of ``normalise_axes``."""
    return [Refusal(name, "axis"), Refusal(name, "axis/twice")]


def normalise_axes(call: Call, argument: str, axes: Iterable[int], ndim: int) -> list[int]:
    """Axes as non-negative numbers; refuses those out of range and repeated ones. A 0-d tensor has the axes 0 and -1."""
    normalised: list[int] = []
    extent = max(ndim, 1)
    for axis in axes:
        if not -extent <= axis < extent:
            call.refuse(argument, f"is {axis}; it must be in [{-extent}, {extent - 1}]", check="axis")
        positive = axis % extent
        if positive in normalised:
            call.refuse(argument, f"names axis {axis} twice", check="axis/twice")
        normalised.append(positive)
    return normalised


def same_shape(first: str, *others: str) -> Check:
    """The others have the first's shape; absent ones pass."""

    @refuses(f"shape/as-{first}", *others, other=first)
    def check(call: Call) -> None:
        if not call.is_present(first):
            return
        wanted = call.shape(first)
        for name in others:
            for tensor in call.tensors(name):
                if tensor.shape != wanted:
                    text = f"has shape {dims_text(tensor.shape)}; it must be {dims_text(wanted)}, as {call.python_name(first)}"
                    values = {"other": call.c_name(first), "came": tensor.shape, "allowed": wanted}
                    call.refuse(name, text, cause=("same shape", values), check=f"shape/as-{first}")

    return check


def broadcastable(name: str, target: str) -> Check:
    """A tensor broadcasts to another's shape without enlarging it."""

    @refuses(f"shape/broadcast-{target}", name)
    def check(call: Call) -> None:
        if call.is_present(name) and call.is_present(target):
            both = broadcast_shapes(call.shape(name), call.shape(target))
            if both != call.shape(target):
                text = f"has shape {dims_text(call.shape(name))}, which does not broadcast to {dims_text(call.shape(target))}"
                values = {"other": call.c_name(target), "came": call.shape(name), "allowed": call.shape(target)}
                call.refuse(name, text, cause=("broadcast", values), check=f"shape/broadcast-{target}")

    return check


class _Size(Expression):
    """A size by name: that of the first tensor present among those whose pattern binds it."""

    def __init__(self, places: list[str]) -> None:
        super().__init__(places[0])
        self.places = [expression(text) for text in places]

    def compute(self, call: Call) -> Any:
        for place in self.places:
            if call.is_present(place.names[0]):
                return place.compute(call)
        raise Absent(self.places[0].names[0])


class _ShapePatterns(_OutputShapes):
    """Tensors whose shapes fit patterns of named sizes."""

    def __init__(self, leading: tuple[int, int], where: str, patterns: dict[str, str]) -> None:
        super().__init__({name: functools.partial(self.joined, name) for name in patterns}, checks=True)
        self.leading = leading
        self.where = require(where) if where else None
        self.patterns = {name: [part.split() for part in text.split("|")] for name, text in patterns.items()}
        places: dict[str, list[str]] = {}
        for name, alternatives in self.patterns.items():
            pattern = alternatives[0]
            starred = pattern[:1] == ["*"]
            for position, part in enumerate(pattern if len(alternatives) == 1 else ()):
                if part == "*":
                    places.setdefault("lead", []).append(f"{name}[:{1 - len(pattern)}]" if pattern[1:] else name)
                elif part.isidentifier():
                    places.setdefault(part, []).append(f"{name}[{position - len(pattern) if starred else position}]")
        self.size_expressions = {size: _Size(sources) for size, sources in places.items()}
        self.definitions = {size: [(None, expression)] for size, expression in self.size_expressions.items()}
        self.expressions = list(self.where.expressions) if isinstance(self.where, Word) else []
        self.refusals += refusals_of(self.where)

    def __call__(self, call: Call) -> None:
        bound: dict[str, Any] = {}
        for name in self.patterns:
            if call.is_present(name):
                self.match(call, name, bound)
        if self.where is not None:
            self.where(call)

    def match(self, call: Call, name: str, bound: dict[str, Any]) -> None:
        """Compares one tensor with its patterns, and binds the sizes that are new."""
        shape = call.shape(name)
        for pattern in self.patterns[name]:
            mismatch = self.mismatch(call, shape, pattern, bound)
            if mismatch is None:
                return
        allowed = " or ".join(f"({', '.join(p)}{',' * (len(p) == 1)})" for p in self.patterns[name])
        call.refuse(name, f"has shape {dims_text(shape)}; it must be {allowed}{mismatch}", check="shape")

    def mismatch(self, call: Call, shape: Shape, pattern: list[str], bound: dict[str, Any]) -> Optional[str]:
        """What to add to the message where a shape does not fit a pattern; None where it fits."""
        sizes, parts = tuple(shape), pattern
        if pattern[0] == "*":
            parts = pattern[1:]
            count = len(sizes) - len(parts)
            low, high = self.leading
            if "lead" not in bound and not self.binds(call, "lead"):
                bound["lead"] = value_of(call, "lead")
            if "lead" not in bound:
                if not low <= count <= high:
                    return f" with {low} to {high} leading axes"
                bound["lead"] = sizes[:count]
            if count != len(bound["lead"]) or sizes[:count] != bound["lead"]:
                return f", where * is {dims_text(bound['lead'])}"
            sizes = sizes[count:]
        elif len(sizes) != len(parts):
            return ""
        for size, part in zip(sizes, parts):
            if part.isidentifier() and part not in bound and self.binds(call, part):
                bound[part] = size
            required = self.size(call, part, bound)
            if size != required:
                return f", where {part} is {required}"
        return None

    def binds(self, call: Call, part: str) -> bool:
        """Whether a name is a size that this word binds, and neither an attribute nor defined by another word."""
        if part in call.positions:
            return False
        defined = definition(call, part)
        return defined is None or defined is self.size_expressions.get(part)

    def size(self, call: Call, part: str, bound: dict[str, Any]) -> int:
        parsed = expression(part)
        values = [bound[n] if n in bound else value_of(call, n) for n in parsed.names]
        if None in values:
            raise Absent(parsed.names[values.index(None)])
        return as_size(parsed.function(*values))

    def joined(self, name: str, call: Call) -> Shape:
        """The shape of one tensor, from those of the inputs."""
        bound: dict[str, Any] = {}
        for parameter in call.operator.inputs:
            if parameter.name in self.patterns and call.is_present(parameter.name):
                self.match(call, parameter.name, bound)
        sizes: list[int] = []
        for part in self.patterns[name][0]:
            sizes += bound.get("lead", ()) if part == "*" else (self.size(call, part, bound),)
        return tuple(sizes)


def shape_patterns(leading: tuple[int, int] = (0, 99), where: str = "", **patterns: str) -> Check:
    """Tensors fit patterns of named sizes: checked, and inferred for outputs.

        shape_patterns(x="* n d", phi="n*n+2*n n*d", gamma="n d | d", out="* d", where="n in (4, 6, 8) and d % 16 == 0")

    A size is bound where it first stands alone, then compared; other parts are expressions (without blanks) of sizes and
    attributes. ``*`` at the front is any leading axes (between ``leading`` many), the same for all. ``|`` separates
    alternatives; an output is allocated with the first. ``where`` holds conditions on the sizes (see ``require``). The sizes,
    and ``lead`` for the leading axes, are names for all expressions of the rule. Absent tensors pass.
    """
    return _ShapePatterns(leading, where, patterns)
