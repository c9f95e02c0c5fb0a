"""Identifiers of conditions: "shape/last-multiple-of-numHeads" from the condition itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.rules.language.expressions import Expression

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
        if is_multiple(node):
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


def is_multiple(node: ast.Compare) -> bool:
    """Whether a comparison is ``a % b == 0``."""
    zero = node.comparators[0]
    divides = isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Mod) and isinstance(node.ops[0], ast.Eq)
    return divides and isinstance(zero, ast.Constant) and zero.value == 0
