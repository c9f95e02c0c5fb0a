"""Expressions: conditions, sizes and shapes of a rule in Python's own notation, as text.

    require("numHeads > 0", "x[-1] % numHeads == 0", "len(x) in (3, 4)")
    infer_shape(out="(*x[:-1], weight[0])")
    when("transposed and product != '950'", ...)

The names are C names of parameters. A tensor stands for its shape (``x[-1]``, ``len(x)``; ``x.dtype``, ``x.format``,
``x.size``, ``x.transposed`` and the other properties of ``ArgumentShape``), a list of tensors for a tuple of shapes, an
aclScalar for its value, everything else for itself, a null pointer for None. Further names: those that ``define`` and
``shape_patterns`` bind, ``product``, members of DataType and Format (``x.dtype == INT8``), families of data types
(``x.dtype in HALVES``), and the functions below.

A condition that fails is explained in a sentence: what came, and what is allowed. An axis or item that does not exist, and a
division by zero, are violations as well.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import PARAM_INVALID, RuleViolation
from ascend_aclnn.rules.language.call import (
    ArgumentItems,
    ArgumentShape,
    Call,
    Check,
    DtypeRule,
    Refusal,
    Word,
    count_text,
    dims_text,
)
from ascend_aclnn.rules.language.dtype_families import FAMILIES

__all__ = ["ceil_div", "define", "require"]


def ceil_div(count: int, size: int) -> int:
    """How many parts of a size hold a count."""
    return -(-count // size)


def exact_div(count: int, size: int) -> int:
    """How many parts of a size make a count; a remainder is refused."""
    if count % size:
        raise DoesNotFit(f"{count} is not a multiple of {size}")
    return count // size


def with_size(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    """A shape with another size on one axis."""
    position = axis % len(shape)
    return (*shape[:position], size, *shape[position + 1 :])


def slice_length(size: int, start: int, end: int, step: int) -> int:
    """How many items start:end:step has on an axis; negative bounds count from the end, and all are clipped."""
    if step == 0:
        raise DoesNotFit("the step is 0")
    return len(range(*slice(start, end, step).indices(size)))


class NotAllowed(Exception):
    """A value in an expression is none of those that are known."""


def known(value: Any, *allowed: Any) -> Any:
    """A value that is one of those allowed: for definitions, which inference uses before anything is checked."""
    if value not in allowed:
        raise NotAllowed(f"is {value!r}; it must be {' or '.join(map(repr, allowed))}")
    return value


class Letters(dict[str, int]):
    """Sizes by the letters of a layout: ``q.B``, ``q.S``; 0 for a letter that the layout does not have."""

    def __getattr__(self, letter: str) -> int:
        return self.get(letter, 0)


def by_letter(tensor: ArgumentShape, layout: str, heads: int = 0) -> Letters:
    """The sizes of a tensor by the letters of its layout ("BSND"); H (all heads side by side) gives N and D, too."""
    if len(tensor) != len(layout):
        detail = f"has shape {dims_text(tensor)}; in layout {layout} its rank must be {len(layout)}"
        text, check = f"{tensor.parameter.python_name} {detail}", f"{tensor.argument}/layout-rank"
        raise RuleViolation(PARAM_INVALID, tensor.argument, text, check=check)
    sizes = Letters(zip(layout, tensor))
    if "H" in sizes:
        sizes.update(N=heads, D=sizes.H // heads if heads else 0)
    return sizes


def arranged(layout: str, sizes: Letters, width: int) -> tuple[int, ...]:
    """A shape in a layout: sizes by letter, with heads of another width."""
    size_of = {**sizes, "D": width, "H": sizes.N * width}
    for letter in layout:
        if letter not in size_of:
            raise NotAllowed(f"has no axis {letter} of layout {layout}")
    return tuple(size_of[letter] for letter in layout)


class DoesNotFit(Exception):
    """A function of an expression has no value: shapes do not broadcast, a size is no multiple."""


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which shapes broadcast."""
    total: list[int] = []
    for shape in shapes:
        missing = len(shape) - len(total)
        total, sizes = [1] * missing + total, [1] * -missing + list(shape)
        if any(a != b and 1 not in (a, b) for a, b in zip(total, sizes)):
            raise DoesNotFit(f"{' and '.join(map(dims_text, shapes))} do not broadcast")
        total = [b if a == 1 else a for a, b in zip(total, sizes)]
    return tuple(total)


def broadcasts(*shapes: Sequence[int]) -> bool:
    """Whether shapes broadcast."""
    try:
        broadcast(*shapes)
    except DoesNotFit:
        return False
    return True


def spread(items: tuple[int, ...], count: int) -> tuple[int, ...]:
    """An array with an item for each of ``count`` axes; a single one stands for all of them."""
    return items * count if len(items) == 1 else items


def window_count(
    size: int,
    kernel: int,
    stride: int,
    before: int,
    after: int,
    dilation: int = 1,
    ceil_mode: bool = False,
    towards_zero: bool = False,
) -> int:
    """How many windows fit on an axis, padded before and after; -1 where there is no stride.

    A last one that begins in the padding behind does not count. Some operators divide as C does (``towards_zero``),
    which differs where the kernel is larger than the padded axis.
    """
    if stride <= 0:
        return -1
    room = size + before + after - dilation * (kernel - 1) - 1
    if ceil_mode:
        room += stride - 1
    steps = -(-room // stride) if towards_zero and room < 0 else room // stride
    return steps if ceil_mode and steps * stride >= size + before else steps + 1


def packed_shape(shape: Sequence[int], dtype: int) -> Sequence[int]:
    """The shape in which items are stored: eight 4-bit numbers of the last axis in an INT32, two INT4 in a byte."""
    if dtype == DataType.INT32:
        return with_size(shape, -1, exact_div(shape[-1], 8))
    if dtype == DataType.INT4:
        exact_div(shape[-1], 2)
    return shape


FUNCTIONS: dict[str, Any] = {
    "abs": abs,
    "all": all,
    "any": any,
    "arranged": arranged,
    "broadcast": broadcast,
    "broadcasts": broadcasts,
    "by_letter": by_letter,
    "ceil_div": ceil_div,
    "enumerate": enumerate,
    "exact_div": exact_div,
    "int": int,
    "is_tensor": lambda value: isinstance(value, ArgumentShape),
    "isfinite": math.isfinite,
    "known": known,
    "len": len,
    "max": max,
    "min": min,
    "packed_shape": packed_shape,
    "prod": math.prod,
    "range": range,
    "slice_length": slice_length,
    "sorted": sorted,
    "spread": spread,
    "sum": sum,
    "tuple": tuple,
    "with_size": with_size,
    "window_count": window_count,
    "zip": zip,
}


class Absent(Exception):
    """An expression needs the value of a name that is None."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Expression:
    """A Python expression over the arguments of a call, compiled when it is first used."""

    def __init__(self, text: str, word: str = "") -> None:
        self.text = text
        self.word = word  # stands for it in identifiers

    @functools.cached_property
    def tree(self) -> ast.expr:
        return ast.parse(self.text.strip(), mode="eval").body

    @functools.cached_property
    def names(self) -> list[str]:
        """The names that a call gives values, in order of appearance; of a comprehension, what it runs over comes first."""
        nodes = list(ast.walk(self.tree))
        loaded = [node for node in nodes if isinstance(node, ast.Name)]
        local = {node.id for node in loaded if isinstance(node.ctx, ast.Store)}
        over = {id(n) for node in nodes if isinstance(node, ast.comprehension) for n in ast.walk(node.iter)}
        loaded.sort(key=lambda node: (id(node) not in over, node.lineno, node.col_offset))
        return list(dict.fromkeys(n.id for n in loaded if n.id not in local and n.id not in _globals()))

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        """A function of the values of ``names``."""
        return self._compile(f"lambda {', '.join(self.names)}: ({self.text.strip()})")

    @functools.cached_property
    def lazy_function(self) -> Callable[..., Any]:
        """A function of two functions that give the value of a name: one that may be None, and one that is needed."""
        tree = _Lazy(frozenset(self.names)).visit(ast.parse(self.text.strip(), mode="eval").body)
        return self._compile(f"lambda _any, _needed: ({ast.unparse(tree)})")

    @functools.cached_property
    def branching(self) -> bool:
        """Whether some names are needed only in some calls."""
        kinds = (ast.IfExp, ast.BoolOp, ast.Is, ast.IsNot)
        return any(isinstance(node, kinds) for node in ast.walk(self.tree))

    def _compile(self, source: str) -> Callable[..., Any]:
        function: Callable[..., Any] = eval(compile(source, f"<{self.text}>", "eval"), _globals())
        return function

    def value(self, call: Call) -> Any:
        """RuleViolation where a needed argument is a null pointer, an axis is missing, or it divides by zero."""
        try:
            return self.compute(call)
        except Absent as absent:
            call.refuse(
                expression(absent.name).blamed(call), "is None (a null pointer); it is required", check="needed"
            )

    def compute(self, call: Call) -> Any:
        """As ``value``, but raises Absent where a needed argument is a null pointer."""

        try:
            if self.branching:
                return self.lazy_function(functools.partial(value_of, call), functools.partial(_needed, call))
            return self.function(*[_needed(call, name) for name in self.names])
        except ZeroDivisionError:
            call.refuse(self.blamed(call), "makes a divisor zero", check="division")
        except DoesNotFit as reason:
            call.refuse(self.blamed(call), f"does not fit: {reason}", check="fit")
        except NotAllowed as detail:
            call.refuse(self.blamed(call), str(detail), check="known")
        except IndexError:  # of something that was computed from arguments
            call.refuse(self.blamed(call), "has too few items or axes", check="item-missing")
        except (TypeError, AttributeError):
            self._refuse_unfit(call)
            raise
        except RuleViolation as violation:  # of a missing axis or item, which does not know the status
            violation.status = call.status
            raise

    def _refuse_unfit(self, call: Call) -> None:
        """Null pointers among items, and complex numbers, of which an expression makes no sense."""
        for name in self.names:
            value = value_of(call, name)
            if isinstance(value, complex):
                call.refuse(name, f"is {value}; it must be real", check="real")
            if isinstance(value, ArgumentItems) and None in value:
                call.refuse(name, f"[{value.index(None)}] is None (a null pointer); it is required", check="needed")

    def subject(self, positions: Mapping[str, int], definitions: Mapping[str, Any]) -> str:
        """The first parameter that the expression names, itself or through a definition; "" if none."""
        for name in self.names:
            if name in positions:
                return name
            for _, defined in definitions.get(name, ())[:1]:
                argument: str = defined.subject(positions, definitions)
                if argument:
                    return argument
        return ""

    def blamed(self, call: Call) -> Optional[str]:
        """The first argument present that the expression names, itself or through a definition; else the first one."""
        arguments = [name for name in (self._parameter(call, name) for name in self.names) if name is not None]
        return next((name for name in arguments if call.is_present(name)), arguments[0] if arguments else None)

    def _parameter(self, call: Call, name: str) -> Optional[str]:
        if name in call.positions:
            return name
        defined = definition(call, name)
        return None if defined is None else defined.blamed(call)


class _Lazy(ast.NodeTransformer):
    """Replaces the names of values by calls, so that a branch that is not taken needs none."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)) and isinstance(node.left, ast.Name):
            node.left = self._call("_any", node.left)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._call("_needed", node)

    def _call(self, function: str, name: ast.Name) -> ast.expr:
        if name.id not in self.names:
            return name
        return ast.Call(ast.Name(function, ast.Load()), [ast.Constant(name.id)], [])


@functools.cache
def _globals() -> dict[str, Any]:
    members = {m.name: m for kind in (Format, DataType) for m in kind}
    return {"__builtins__": {}, **members, **FAMILIES, **FUNCTIONS}


@functools.cache
def expression(text: str) -> Expression:
    return Expression(text)


def definition(call: Call, name: str) -> Optional[Expression]:
    """What a name is defined as by the first word of the rule that defines it and applies to the call."""
    for where, defined in call.definitions.get(name, ()):
        if where is None or where(call):
            expression: Expression = defined
            return expression
    return None


def _needed(call: Call, name: str) -> Any:
    value = value_of(call, name)
    if value is None:
        raise Absent(name)
    return value


@functools.cache
def _has_parameter(versions: tuple[str, ...], name: str) -> bool:
    return any(name in catalog.get(version).positions for version in versions)


def value_of(call: Call, name: str) -> Any:
    """The value of a name: a parameter's, else a definition's (None where that names an absent argument)."""
    if name in call.positions:
        return call.argument(name)
    if name in call.defined:
        return call.defined[name]
    defined = definition(call, name)
    if defined is not None:
        try:
            value = defined.compute(call)
        except Absent:
            value = None
        call.defined[name] = value
        return value
    if name == "product":
        return call.product
    if _has_parameter(tuple(version for version in call.versions if version != call.operator.name), name):
        return None  # a parameter that this version of the operator does not have
    raise LookupError(f"{call.operator.name} has no parameter {name}, and no word of its rule defines it")


class Conditional:
    """A condition of ``when`` from text: false where it names a null pointer, unless it asks for None."""

    def __init__(self, text: str, word: str = "") -> None:
        self.expression = Expression(text, word)

    def __call__(self, call: Call) -> bool:
        try:
            return bool(self.expression.compute(call))
        except Absent:
            return False


class _Require(Word):
    """Conditions that must hold."""

    def __init__(self, conditions: Sequence[str], why: str, argument: str, word: str) -> None:
        super().__init__()
        self.expressions = [Expression(part) for text in conditions for part in conjuncts(text)]
        self.why = why and f", {why}"
        self.argument, self.word = argument, word
        self.refusals = [Refusal(argument, word, condition=part) for part in self.expressions]

    def __call__(self, call: Call) -> None:
        for part in self.expressions:
            try:
                holds = part.compute(call)
            except Absent:
                continue
            if not holds:
                subject = self.argument or part.subject(call.positions, call.definitions)
                text = explain(call, part.tree, self.argument) + self.why
                check = condition_check(call.operator, call.positions, subject, part.tree, self.word)
                call.refuse(self.argument or part.blamed(call), text, check=check, of=subject)


def require(*conditions: str, why: str = "", argument: str = "", word: str = "") -> Check:
    """Conditions that must hold; one that names an absent argument passes (unless it asks ``is None``).

    ``argument`` is the parameter to blame, by default the first one named; ``why`` is added to the message.
    ``word`` is the last part of the identifier, by default made from the condition.
    """
    return _Require(conditions, why, argument, word)


def conjuncts(text: str) -> list[str]:
    """Conditions joined by ``and`` as separate ones, so that each is explained by itself."""
    if " and " not in text:
        return [text]
    tree = ast.parse(text.strip(), mode="eval").body
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        return [ast.unparse(part) for part in tree.values]
    return [text]


class _Definitions(Word):
    checks = False

    def __init__(self, definitions: dict[str, Expression]) -> None:
        super().__init__()
        clashes = definitions.keys() & _globals().keys()
        if clashes:
            raise ValueError(f"{', '.join(sorted(clashes))}: a function or a member of that name exists")
        self.definitions = {name: [(None, defined)] for name, defined in definitions.items()}
        self.expressions = list(definitions.values())


def define(**definitions: str) -> Check:
    """Names for values that expressions of the rule need more than once: ``define(k="x1[-2] if transposeX1 else x1[-1]")``."""
    return _Definitions({name: Expression(text) for name, text in definitions.items()})


_DTYPE_NUMBERS = frozenset(map(int, DataType))


def dtype_rule(source: Union[DtypeRule, str]) -> DtypeRule:
    """A data type from its name, from the name of a tensor or attribute that has it, or from an expression."""
    if not isinstance(source, str):
        return source
    member = DataType.__members__.get(source)
    if member is not None:
        return lambda call: member
    parsed = Expression(source)

    def dtype(call: Call) -> DataType:
        value = call[source] if source in call.positions else parsed.value(call)
        if isinstance(value, int):  # a DataType too
            return DataType(value) if value in _DTYPE_NUMBERS else DataType.DT_UNDEFINED
        return call.dtype(source if source in call.positions else value.argument)

    return dtype


# ------------------------------------------------------------------------------------------------- identifiers

_KINDS = {
    "dtype": "dtype",
    "format": "format",
    "nz": "format",
    "storage": "format",
    "contiguous": "layout",
    "transposed": "layout",
}
_SIGNS: dict[type, str] = {
    ast.Eq: "is",
    ast.NotEq: "is not",
    ast.Gt: "above",
    ast.GtE: "from",
    ast.Lt: "below",
    ast.LtE: "to",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.Add: "plus",
    ast.Sub: "minus",
    ast.Mult: "times",
    ast.Div: "by",
    ast.FloorDiv: "by",
    ast.Mod: "modulo",
    ast.Pow: "power",
    ast.BitAnd: "with",
    ast.BitOr: "or",
    ast.LShift: "shifted by",
    ast.RShift: "shifted by",
    ast.USub: "minus",
    ast.Not: "not",
    ast.And: "and",
    ast.Or: "or",
}


def condition_check(
    operator: Operator, positions: Mapping[str, int], subject: str, tree: ast.expr, word: str = ""
) -> str:
    """The kind of a condition on a parameter, and its words: "shape/last-multiple-of-numHeads"."""
    attributes = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _names(node.value, subject)
    }
    kinds = [kind for attribute, kind in _KINDS.items() if attribute in attributes]
    if isinstance(tree, ast.Compare) and isinstance(tree.ops[0], (ast.Is, ast.IsNot)):
        kind = "null"
    elif kinds:
        kind = kinds[0]
    else:
        position = positions.get(subject)
        tensors = (Kind.TENSOR, Kind.TENSOR_LIST)
        kind = "shape" if position is not None and operator.parameters[position].kind in tensors else "value"
    return f"{kind}/{word or slug(tree).removeprefix(f'{subject}-')}"


def _names(node: ast.expr, name: str) -> bool:
    """Whether a node is a name, or an item of it."""
    return (isinstance(node, ast.Name) and node.id == name) or (
        isinstance(node, ast.Subscript) and _names(node.value, name)
    )


def slug(tree: ast.expr, longest: int = 40, most_names: int = 4) -> str:
    """A condition in words for an identifier; of one of more characters the names that are in it."""
    words = re.sub("[^A-Za-z0-9]+", "-", _spelled(tree)).strip("-")
    return words if len(words) <= longest else "-".join(Expression(ast.unparse(tree)).names[:most_names])


def _spelled(node: ast.AST) -> str:
    if isinstance(node, ast.Compare):
        if _is_multiple(node):
            inner = node.left
            assert isinstance(inner, ast.BinOp)
            return f"{_spelled(inner.left)} multiple of {_spelled(inner.right)}"
        parts = [word for op, right in zip(node.ops, node.comparators) for word in (_SIGNS[type(op)], _spelled(right))]
        return " ".join([_spelled(node.left), *parts])
    if isinstance(node, ast.BinOp):
        return f"{_spelled(node.left)} {_SIGNS[type(node.op)]} {_spelled(node.right)}"
    if isinstance(node, ast.UnaryOp):
        return f"{_SIGNS[type(node.op)]} {_spelled(node.operand)}"
    if isinstance(node, ast.BoolOp):
        return f" {_SIGNS[type(node.op)]} ".join(map(_spelled, node.values))
    if isinstance(node, ast.IfExp):
        return f"{_spelled(node.body)} if {_spelled(node.test)} else {_spelled(node.orelse)}"
    if isinstance(node, ast.Subscript):
        index = "last" if ast.unparse(node.slice) == "-1" else _spelled(node.slice)
        return f"{_spelled(node.value)} {index}"
    if isinstance(node, ast.Slice):
        return f"{_spelled(node.lower) if node.lower else ''} until {_spelled(node.upper) if node.upper else 'end'}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        function = {"len": "length", "prod": "product", "all": "each"}.get(node.func.id, node.func.id)
        return " ".join([function, *map(_spelled, node.args)])
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        return _spelled(node.elt)
    if isinstance(node, ast.Attribute):
        return f"{_spelled(node.value)} {node.attr}"
    if isinstance(node, (ast.Name, ast.Constant)):
        return node.id if isinstance(node, ast.Name) else repr(node.value)
    return " ".join(map(_spelled, ast.iter_child_nodes(node)))


def _is_multiple(node: ast.Compare) -> bool:
    """Whether a comparison is ``a % b == 0``."""
    zero = node.comparators[0]
    divides = isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Mod) and isinstance(node.ops[0], ast.Eq)
    return divides and isinstance(zero, ast.Constant) and zero.value == 0


# ------------------------------------------------------------------------------------------------- explanations

_RELATIONS: dict[type, str] = {
    ast.Eq: "be {}",
    ast.NotEq: "not be {}",
    ast.Gt: "be more than {}",
    ast.GtE: "be at least {}",
    ast.Lt: "be less than {}",
    ast.LtE: "be at most {}",
    ast.In: "be {}",
    ast.NotIn: "not be {}",
}

_OPPOSITES: dict[type, Callable[[], ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
}


_PROPERTIES = {"contiguous": "contiguous", "transposed": "stored transposed", "empty": "empty", "nz": "in FRACTAL_NZ"}


def explain(call: Call, node: ast.expr, argument: str = "") -> str:
    """What came and what is allowed, to follow the name of the argument that a failing condition is about.

    ``argument``: the argument to blame where it is not the first that the condition names.
    """
    if isinstance(node, ast.Compare):
        return _explain_comparison(call, node, argument)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = node.operand
        if isinstance(inner, ast.Compare) and len(inner.ops) == 1 and type(inner.ops[0]) in _OPPOSITES:
            opposite = _OPPOSITES[type(inner.ops[0])]()
            return _explain_comparison(call, ast.Compare(inner.left, [opposite], inner.comparators), argument)
        if isinstance(inner, ast.Attribute) and inner.attr in _PROPERTIES:
            return f"{_layout(call, inner, argument)} must not be {_PROPERTIES[inner.attr]}"
        came, subject = describe(call, node.operand, argument)
        return f"{came}; {subject} must be False"
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        spoken = [text for part in node.values[1:] if (text := render(call, part, ""))]
        others = f", unless {' or '.join(spoken)}" if spoken else ""
        return f"{explain(call, node.values[0], argument)}{others}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "all":
        return _explain_items(call, node.args[0], argument)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "broadcasts":
        if isinstance(node.args[0], ast.Starred):
            return f"{_first(call, node, argument)}; the shapes must broadcast"
        came, subject = describe(call, node.args[0], argument)
        others = " and ".join(_limit(call, part) for part in node.args[1:])
        return f"{came}; {subject} must broadcast with {others}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isfinite":
        came, subject = describe(call, node.args[0], argument)
        return f"{came}; {subject} must be finite"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
        came, subject = describe(call, node.func.value, argument)
        starts = _evaluate(call, node.args[0])
        return f"{came}; {subject} must begin with {' or '.join(map(repr, starts if isinstance(starts, tuple) else [starts]))}"
    if isinstance(node, ast.Attribute) and node.attr in _PROPERTIES:
        return f"{_layout(call, node, argument)} must be {_PROPERTIES[node.attr]}"
    if isinstance(node, (ast.Name, ast.Attribute)):
        came, subject = describe(call, node, argument)
        return f"{came}; {subject} must be True"
    condition = render(call, node, "")
    return f"{_first(call, node, argument)}; {f'it must hold that {condition}' if condition else 'it does not fit'}"


def _layout(call: Call, node: ast.Attribute, argument: str) -> str:
    """The property of a tensor that a condition is about: "has shape (2, 3) and strides (3, 1); it"."""
    tensor = _evaluate(call, node.value)
    came = f"has shape {dims_text(tensor)}"
    if node.attr in ("contiguous", "transposed"):
        came += f" and strides {dims_text(tensor.tensor.strides)}"
    elif node.attr == "nz":
        came = f"has format {tensor.format.name}"
    name = render(call, node.value, "what is compared")
    blamed = argument or Expression(ast.unparse(node)).blamed(call)
    about = blamed is not None and name == call.python_name(blamed)
    return f"{came}; it" if about else f"{_first(call, node, argument)}; {name} {came}; it"


def _is_about_items(generator: ast.GeneratorExp) -> bool:
    """True for one comparison of the items of one thing with a bound that does not change from item to item."""
    comparison, target = generator.elt, generator.generators[0].target
    if not isinstance(comparison, ast.Compare) or len(comparison.ops) != 1 or not isinstance(target, ast.Name):
        return False
    bound = ast.walk(comparison.comparators[0])
    return not any(isinstance(node, ast.Name) and node.id == target.id for node in bound)


def _explain_items(call: Call, node: ast.expr, argument: str) -> str:
    """The first item of a list or array for which a condition of ``all`` does not hold."""
    assert isinstance(node, ast.GeneratorExp)

    def of_each(part: ast.expr) -> list[Any]:
        return list(_evaluate(call, ast.ListComp(part, node.generators)))

    position = of_each(node.elt).index(False)
    blamed = argument or Expression(ast.unparse(node)).blamed(call)
    whole = None if blamed is None else call.argument(blamed)
    items = whole if isinstance(whole, ArgumentItems) and len(whole) == len(of_each(node.elt)) else None
    came = _came(whole) if items is None else f"[{position}] {_came(items[position])}"
    bounded = _as_interval(node.elt)
    if bounded is not None:
        low, value, high = (_shown(of_each(part)[position]) for part in (bounded.left, *bounded.comparators))
        name = render(call, bounded.comparators[0], "what is compared")
        return f"{came}; {name} is {value}; it must be in {_interval(bounded, low, high)}"
    if not isinstance(node.elt, ast.Compare) or len(node.elt.ops) != 1:
        return f"{came}; it does not fit"
    left, right = of_each(node.elt.left)[position], of_each(node.elt.comparators[0])[position]
    over, iterates = node.generators[0].iter, isinstance(node.elt.left, ast.Name)
    if isinstance(over, ast.Name) and iterates and items is not None:
        subject = "it"
    elif isinstance(over, (ast.Name, ast.Subscript)) and iterates:
        subject = (
            "each"
            if isinstance(over, ast.Name) and over.id == blamed
            else f"each number in {render(call, over, 'its parts')}"
        )
    else:
        subject = f"{render(call, node.elt.left, 'what is compared')} is {_shown(left)}; it"
    return f"{came}; {subject} must {_requirement(call, node.elt.ops[0], ast.Constant(right))}"


def _as_interval(node: ast.expr) -> Optional[ast.Compare]:
    """A comparison with a lower and an upper bound."""
    bounds = (ast.Lt, ast.LtE)
    fits = isinstance(node, ast.Compare) and len(node.ops) == 2 and all(isinstance(op, bounds) for op in node.ops)
    return node if fits and isinstance(node, ast.Compare) else None


def _interval(node: ast.Compare, low: str, high: str) -> str:
    left = "[" if isinstance(node.ops[0], ast.LtE) else "("
    right = "]" if isinstance(node.ops[1], ast.LtE) else ")"
    return f"{left}{low}, {high}{right}"


def _explain_comparison(call: Call, node: ast.Compare, argument: str) -> str:
    if _as_interval(node) is not None:
        low, high = (_limit(call, part) for part in (node.left, node.comparators[1]))
        came, subject = describe(call, node.comparators[0], argument)
        return f"{came}; {subject} must be in {_interval(node, low, high)}"
    op, right_node = node.ops[0], node.comparators[0]
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(node.left, ast.Constant):
        contain = "contain" if isinstance(op, ast.In) else "not contain"
        whole = isinstance(right_node, ast.Name) and right_node.id == (
            argument or Expression(ast.unparse(node)).blamed(call)
        )
        subject = "it" if whole else render(call, right_node, "what is compared")
        return f"{_first(call, node, argument)}; {subject} must {contain} {_shown(node.left.value)}"
    if isinstance(op, (ast.Is, ast.IsNot)):
        return "is None (a null pointer); it is required" if isinstance(op, ast.IsNot) else "is given; it must be None"
    left_node: ast.expr = node.left
    if _is_multiple(node) and isinstance(left_node, ast.BinOp):
        came, subject = describe(call, left_node.left, argument)
        return f"{came}; {subject} must be a multiple of {_limit(call, left_node.right)}"
    came, subject = describe(call, left_node, argument)
    return f"{came}; {subject} must {_requirement(call, op, right_node)}"


def _requirement(call: Call, op: ast.cmpop, right: ast.expr) -> str:
    if isinstance(right, ast.Constant) and right.value == 0:
        if isinstance(op, ast.Gt):
            return "be positive"
        if isinstance(op, ast.GtE):
            return "not be negative"
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.Tuple, ast.List)):
        parts = [_limit(call, part) for part in right.elts]
        listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"
        return _RELATIONS[type(op)].format(listed)
    return _RELATIONS.get(type(op), "be related to {}").format(_limit(call, right))


def _limit(call: Call, node: ast.expr) -> str:
    """A bound: its value, and where it comes from."""
    if isinstance(node, ast.Constant):
        return _shown(node.value)
    text = render(call, node, "")
    value = _evaluate(call, node)
    shown = _shown(value)
    if isinstance(value, frozenset):
        return shown
    constant = not any(isinstance(n, ast.Name) and n.id not in _globals() for n in ast.walk(node))
    return shown if constant or text in ("", shown) else f"{shown} ({text})"


def describe(call: Call, node: ast.expr, argument: str = "") -> tuple[str, str]:
    """The argument's value ("has shape (2, 3)"), and the part of it that a condition is about ("its last axis")."""
    if argument and Expression(ast.unparse(node)).blamed(call) != argument:
        return _first(call, node, argument), f"{_values_text(call, node)}; it"
    if isinstance(node, ast.Name):
        value = value_of(call, node.id) if node.id not in _globals() else None
        defined = None if node.id in call.positions else definition(call, node.id)
        if defined is not None:
            meaning = render(call, defined.tree, "")
            name = f"{node.id} ({meaning})" if 0 < len(meaning) <= 60 else node.id
            return _first(call, node), f"{name} is {_shown(value)}; it"
        return _came(value), "it"
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and not isinstance(node.slice, ast.Slice):
        value = value_of(call, node.value.id)
        noun = "axis" if isinstance(value, ArgumentShape) else "item"
        return _came(value), _part(call, node.slice, noun)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        value = _evaluate(call, node.args[0])
        if isinstance(node.args[0], ast.Attribute):
            return f"has {node.args[0].attr} {_shown(value)}", "its rank"
        if isinstance(value, ArgumentShape):
            return _came(value), "its rank"
        return f"has {len(value)} {'characters' if isinstance(value, str) else 'items'}", "their number"
    if isinstance(node, ast.Attribute) and node.attr == "real":
        return describe(call, node.value, argument)
    if isinstance(node, ast.Attribute):
        value = _evaluate(call, node)
        if node.attr in ("dtype", "format"):
            return f"has {node.attr} {_shown(value)}", "it"
        if node.attr == "size":
            return f"has {count_text(value, 'element')}", "their number"
        if node.attr.isupper():
            return _first(call, node), f"{_values_text(call, node)}; it"
    return _first(call, node), f"{_values_text(call, node)}; it"


def _values_text(call: Call, node: ast.expr) -> str:
    """A value that was computed from arguments: "the product of x is 6"; the bare value where there are no words."""
    text, value = render(call, node, ""), _shown(_evaluate(call, node))
    return f"{text} is {value}" if text else f"that makes {value}"


def _part(call: Call, index: ast.expr, noun: str) -> str:
    try:
        number = ast.literal_eval(index)
    except ValueError:
        text, value = render(call, index, ""), _shown(_evaluate(call, index))
        return f"its {noun} {value} ({text})" if text not in ("", value) else f"its {noun} {value}"
    return {0: f"its first {noun}", -1: f"its last {noun}"}.get(number, f"its {noun} {number}")


def _first(call: Call, node: ast.expr, argument: str = "") -> str:
    """What the argument to blame is: by default the first of an expression."""
    blamed = argument or Expression(ast.unparse(node)).blamed(call)
    return "is not allowed" if blamed is None else _came(call.argument(blamed))


def _came(value: Any) -> str:
    return f"has shape {dims_text(value)}" if isinstance(value, ArgumentShape) else f"is {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, (DataType, Format)):
        return value.name
    if isinstance(value, (set, frozenset)):
        return " or ".join(sorted(getattr(member, "name", repr(member)) for member in value))
    if isinstance(value, tuple) and all(isinstance(item, int) for item in value):
        return dims_text(value)
    return repr(value)


def _evaluate(call: Call, node: ast.expr) -> Any:
    return expression(ast.unparse(node)).value(call)


def render(call: Call, node: ast.expr, otherwise: str) -> str:
    """An expression in words, with Python's names of the parameters; ``otherwise`` for one that has none."""
    try:
        return _words(call, node)
    except (_Unspoken, LookupError):  # or it names an item of a comprehension
        return otherwise


def state(call: Call, condition: Expression) -> str:
    """A condition as a statement."""
    try:
        return _state(call, condition.tree)
    except (_Unspoken, LookupError):
        return "the rule of the operator asks for it"


class _Unspoken(Exception):
    """There are no words for an expression."""


_ARITHMETIC: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_STATES: dict[type, str] = {
    ast.Eq: "is {}",
    ast.NotEq: "is not {}",
    ast.Gt: "is more than {}",
    ast.GtE: "is at least {}",
    ast.Lt: "is less than {}",
    ast.LtE: "is at most {}",
    ast.In: "is among {}",
    ast.NotIn: "is not among {}",
    ast.Is: "is {}",
    ast.IsNot: "is not {}",
}
_ATTRIBUTES = {
    "dtype": "the dtype of",
    "format": "the format of",
    "size": "the number of elements of",
    "rank": "the rank of",
}
_CALLS = {
    "prod": "the product of {}",
    "sum": "the sum of {}",
    "min": "the least of {}",
    "max": "the largest of {}",
    "abs": "the absolute value of {}",
    "ceil_div": "the quotient, rounded up, of {}",
    "exact_div": "the quotient of {}",
}


def _words(call: Call, node: ast.expr) -> str:
    """Raises _Unspoken where there are none."""
    if isinstance(node, ast.Name):
        return call.python_name(node.id)
    if isinstance(node, ast.Constant):
        return _shown(node.value)
    if isinstance(node, (ast.Tuple, ast.List)):
        return f"({', '.join(_words(call, item) for item in node.elts)})"
    if isinstance(node, ast.Starred):
        return f"the axes of {_words(call, node.value)}"
    if isinstance(node, ast.Attribute):
        whole = _words(call, node.value)
        return f"{_ATTRIBUTES[node.attr]} {whole}" if node.attr in _ATTRIBUTES else f"{whole}.{node.attr}"
    if isinstance(node, ast.Subscript):
        return _part_words(call, node)
    if isinstance(node, ast.IfExp):
        return _words(call, node.body if _evaluate(call, node.test) else node.orelse)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"-{_words(call, node.operand)}"
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        sides = (_operand(call, node.left, node), _operand(call, node.right, node, right=True))
        return f" {_ARITHMETIC[type(node.op)]} ".join(sides)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "len":
            value = _evaluate(call, node.args[0])
            return f"the {'rank' if isinstance(value, ArgumentShape) else 'length'} of {_words(call, node.args[0])}"
        if node.func.id in _CALLS:
            return _CALLS[node.func.id].format(" and ".join(_words(call, part) for part in node.args))
    if isinstance(node, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        return _state(call, node)
    raise _Unspoken


def _state(call: Call, node: ast.expr) -> str:
    """A condition as a statement: "x is 3", "transposed is set"."""
    if isinstance(node, ast.BoolOp):
        return (" and " if isinstance(node.op, ast.And) else " or ").join(_state(call, part) for part in node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        if isinstance(node.operand, (ast.Name, ast.Attribute)):
            return f"{_words(call, node.operand)} is not set"
        return f"it does not hold that {_state(call, node.operand)}"
    if isinstance(node, ast.Compare):
        if _is_multiple(node) and isinstance(node.left, ast.BinOp):
            return f"{_words(call, node.left.left)} is a multiple of {_words(call, node.left.right)}"
        text = _words(call, node.left)
        for op, right in zip(node.ops, node.comparators):
            text += " " + _STATES[type(op)].format(_words(call, right))
        return text
    return (
        f"{_words(call, node)} is set"
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
        else _words(call, node)
    )


def _operand(call: Call, node: ast.expr, outer: ast.BinOp, right: bool = False) -> str:
    text = _words(call, node)
    sums = (ast.Add, ast.Sub)
    looser = isinstance(node, ast.BinOp) and (right or (isinstance(node.op, sums) and not isinstance(outer.op, sums)))
    return f"({text})" if looser else text


def _part_words(call: Call, node: ast.Subscript) -> str:
    """An axis, an item, or several: "the last axis of x", "the axes of x before the last 2"."""
    whole, value = _words(call, node.value), _evaluate(call, node.value)
    noun = "axis" if isinstance(value, ArgumentShape) else "item"
    index = node.slice
    if not isinstance(index, ast.Slice):
        position = _evaluate(call, index)
        names = {0: f"the first {noun}", -1: f"the last {noun}", -2: f"the second last {noun}"}
        return f"{names.get(position, f'{noun} {_shown(position)}')} of {whole}"
    start = 0 if index.lower is None else _evaluate(call, index.lower)
    stop = None if index.upper is None else _evaluate(call, index.upper)
    part = "the shape" if noun == "axis" else "the part"
    if index.step is not None or (start and stop is not None):
        return f"{part} of the inner {noun.replace('axis', 'axes')} of {whole}"
    if stop is not None and stop >= 0:
        return f"{part} of {_ends('first', stop, noun)} of {whole}"
    if stop is not None:
        return f"{part} of {whole} without {_ends('last', -stop, noun)}"
    return (
        f"{part} of {_ends('last', -start, noun)} of {whole}"
        if start < 0
        else f"{part} of {whole} without {_ends('first', start, noun)}"
    )


def _ends(which: str, count: int, noun: str) -> str:
    """ "the last axis", "the first 2 items"."""
    return f"the {which} {noun}" if count == 1 else f"the {which} {count} {'axes' if noun == 'axis' else noun + 's'}"
