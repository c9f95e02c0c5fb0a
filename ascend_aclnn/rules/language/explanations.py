"""Messages: what came and what is allowed, in sentences, from the condition that failed."""

from __future__ import annotations

import ast
from typing import Any, Callable, Optional

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.rules.language.call import ArgumentItems, ArgumentShape, Call, count_text, dims_text
from ascend_aclnn.rules.language.expressions import Expression, definition, expression, is_global, value_of
from ascend_aclnn.rules.language.identifiers import is_multiple

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
    if is_multiple(node) and isinstance(left_node, ast.BinOp):
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
    constant = not any(isinstance(n, ast.Name) and not is_global(n.id) for n in ast.walk(node))
    return shown if constant or text in ("", shown) else f"{shown} ({text})"


def describe(call: Call, node: ast.expr, argument: str = "") -> tuple[str, str]:
    """The argument's value ("has shape (2, 3)"), and the part of it that a condition is about ("its last axis")."""
    if argument and Expression(ast.unparse(node)).blamed(call) != argument:
        return _first(call, node, argument), f"{_values_text(call, node)}; it"
    if isinstance(node, ast.Name):
        value = value_of(call, node.id) if not is_global(node.id) else None
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
        if is_multiple(node) and isinstance(node.left, ast.BinOp):
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
