"""Expressions: conditions, sizes and shapes of a rule in Python's own notation, as text.

    require("numHeads > 0", "x[-1] % numHeads == 0", "len(x) in (3, 4)")
    infer_shape(out="(*x[:-1], weight[0])")
    when("transposed and product != '950'", ...)

The names are C names of parameters. A tensor stands for its shape (``x[-1]``, ``len(x)``; ``x.dtype``, ``x.format``,
``x.size``, ``x.transposed`` and the other properties of ``ArgumentShape``), a list of tensors for a tuple of shapes, an
aclScalar for its value, everything else for itself, a null pointer for None. Further names: those that ``define`` and
``shape_patterns`` bind, ``product``, members of DataType and Format (``x.dtype == INT8``), families of data types
(``x.dtype in HALVES``), and the functions below.

An axis or item that does not exist, and a division by zero, are violations. ``conditions`` has the words ``require`` and
``when``, ``explanations`` the message about a condition that fails, ``identifiers`` its identifier.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

from ascend_aclnn import catalog
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import PARAM_INVALID, RuleViolation
from ascend_aclnn.rules.language.call import (
    ArgumentItems,
    ArgumentShape,
    Call,
    Check,
    DtypeRule,
    Word,
    dims_text,
)
from ascend_aclnn.rules.language.dtype_families import FAMILIES

__all__ = ["ceil_div", "define"]


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

    @property
    def name(self) -> str:
        name: str = self.args[0]
        return name


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
            known, values = call.known, []
            for name in self.names:  # most are known already
                value = known.get(name)
                if value is None:
                    if self.branching:
                        return self.lazy_function(functools.partial(value_of, call), functools.partial(_needed, call))
                    value = value_of(call, name)
                    if value is None:
                        raise Absent(name)
                values.append(value)
            return self.function(*values)
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


def is_global(name: str) -> bool:
    """Whether a name is a function, a member or a family, which no call gives a value."""
    return name in _globals()


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
    value = call.known.get(name)
    if value is None:
        value = value_of(call, name)
        if value is None:
            raise Absent(name)
    return value


@functools.cache
def _has_parameter(versions: tuple[str, ...], name: str) -> bool:
    return any(name in catalog.get(version).positions for version in versions)


def value_of(call: Call, name: str) -> Any:
    """The value of a name: a parameter's, else a definition's (None where that names an absent argument)."""
    if name in call.known:
        return call.known[name]
    if name in call.positions:
        return call.argument(name)
    defined = definition(call, name)
    if defined is not None:
        try:
            value = defined.compute(call)
        except Absent:
            value = None
        call.known[name] = value
        return value
    if name == "product":
        return call.product
    if _has_parameter(tuple(version for version in call.versions if version != call.operator.name), name):
        return None  # a parameter that this version of the operator does not have
    raise LookupError(f"{call.operator.name} has no parameter {name}, and no word of its rule defines it")


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
