"""Formulas that only select and change signs, on the bits of 16-bit floats: nothing is widened, nothing is rounded.

The largest and least of values, limits, choices by comparisons with numbers, negation and magnitude give one of their
operands up to its sign. They are done on int16 that are ordered as the floats are. A number among the operands may be
rounded first, for rounding keeps the order. NaN, which has no place in it, is left to float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics.convert import rounded_to
from ascend_aclnn.numerics.threads import Array, scratch
from ascend_aclnn.numerics.tracing import BOOL, Node, Number

_INT16 = np.dtype(np.int16)
_FLOATS = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_LEAST, _MOST = np.array(-0x8000, np.int16), np.array(0x7FFF, np.int16)
_SIGN_SHIFT = np.array(15, np.int16)
_COMPARED: dict[str, Callable[..., Any]] = {"less": np.less, "less_equal": np.less_equal}
_JOINED: dict[str, Callable[..., Any]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
}
_ORDERED: dict[str, Callable[..., Any]] = {"maximum": np.maximum, "minimum": np.minimum}
_largest: Any = np.maximum.reduce
_least: Any = np.minimum.reduce


def _exchange(values: Array, out: Array) -> Array:
    """Bits of floats as int16 in the order of the floats, and back; -0 is next below 0."""
    np.right_shift(values, _SIGN_SHIFT, out)
    np.bitwise_and(out, _MOST, out)
    return np.bitwise_xor(out, values, out)


class Selection:
    """A formula that only selects, ready to be run on blocks (``run``)."""

    def __init__(
        self, nodes: Sequence[Node], needed: Sequence[int], results: Sequence[tuple[int, int]], kind: Any
    ) -> None:
        """``needed``: the nodes in use, ascending; ``results``: outputs and their nodes; ``kind``: the type of all floats."""
        self._nodes, self._needed, self._results = nodes, needed, results
        # Only comparisons need the order where no values are largest or least.
        self._ordered = any(nodes[number].what in (*_ORDERED, "clip") for number in needed)
        self._limit = _key(np.inf, kind)
        self._numbers = {
            (number, place): self._number(nodes[number], place, argument, kind)
            for number in needed
            for place, argument in enumerate(nodes[number].arguments)
            if isinstance(argument, Number)
        }
        self._without_minus_zero = {_shows_minus_zero(nodes[number]) for number in needed}

    def _number(self, node: Node, place: int, argument: Number, kind: Any) -> Array:
        """A number among operands, in their form; a zero to compare with, so that both zeros are on one side of it."""
        value = _value(argument)
        if node.what in _COMPARED and value == 0:
            return np.array(-1 if (place == 1) == (node.what == "less") else 0, _INT16)
        key = _key(value, kind)
        return key if self._ordered or node.what in _COMPARED else _exchange(key, np.empty((), _INT16))

    def run(self, elements: dict[Any, Array], outputs: Sequence[Any], sizes: tuple[int, ...]) -> bool:
        """Computes one block; False, with nothing written, where an input has NaN, or a zero whose sign would matter."""
        values: dict[int, Array] = {}
        for number in self._needed:
            node = self._nodes[number]
            if node.kind == "input":
                value = self._input(number, elements[node.what].view(_INT16))
                if value is None:
                    return False
                values[number] = value
                continue
            operands = [
                self._numbers[number, place] if isinstance(argument, Number) else values[argument]
                for place, argument in enumerate(node.arguments)
            ]
            shape = np.broadcast_shapes(*(operand.shape for operand in operands))
            kind = BOOL if node.dtype == BOOL else _INT16
            values[number] = self._apply(node, operands, scratch(f"selections.{number}", shape, kind))
        for output, number in self._results:
            value = np.broadcast_to(values[number], sizes)
            if value.dtype == BOOL:
                np.copyto(outputs[output], value)
            elif self._ordered:
                _exchange(value, outputs[output].view(_INT16))
            else:
                np.copyto(outputs[output].view(_INT16), value)
        return True

    def _input(self, number: int, bits: Array) -> Optional[Array]:
        """An input's values, ordered where that is needed; None with NaN among them, or a -0 that would show."""
        if not self._ordered:
            negative = _largest(bits.view(np.uint16), None)
            return None if _largest(bits, None) > self._limit or negative > 0x8000 + int(self._limit) else bits
        key = _exchange(bits, scratch(f"selections.{number}", bits.shape, _INT16))
        if _largest(key, None) > self._limit or _least(key, None) < ~self._limit:
            return None
        if number in self._without_minus_zero:
            zeros = np.equal(key, -1, scratch("selections.zeros", key.shape, BOOL))
            return None if np.count_nonzero(zeros) else key
        return key

    def _apply(self, node: Node, operands: list[Array], out: Array) -> Array:
        what, first = node.what, operands[0]
        if what == "negative":
            return np.invert(first, out) if self._ordered else np.bitwise_xor(first, _LEAST, out)
        if what == "absolute" and not self._ordered:
            return np.bitwise_and(first, _MOST, out)
        if what == "absolute":
            np.right_shift(first, _SIGN_SHIFT, out)
            return np.bitwise_xor(out, first, out)
        if what == "select":
            return _chosen(first, operands[1], operands[2], out)
        if what in _COMPARED and not self._ordered:
            operands = [
                _exchange(value, scratch("selections.key", value.shape, _INT16)) if value.ndim else value
                for value in operands
            ]
        if what == "clip":
            return first.clip(operands[1], operands[2], out)
        if what in _ORDERED and not operands[1].ndim:  # clip is vectorised with a number, these are not
            low, high = (operands[1], _MOST) if what == "maximum" else (_LEAST, operands[1])
            return first.clip(low, high, out)
        function: Any = _ORDERED.get(what) or _COMPARED.get(what) or _JOINED[what]
        result: Array = function(*operands, out=out)
        return result


def _value(argument: Number) -> Any:
    return np.frombuffer(argument.value, np.float32)[0]


def _shows_minus_zero(node: Node) -> Any:
    """The operand in which a -0 would show, or None.

    In the order of int16 -0 is less than 0. NumPy holds them equal: of the two, maximum and minimum give the second operand, and
    clip with a lower limit of 0 keeps a -0.
    """
    if node.what == "clip" and isinstance(node.arguments[1], Number) and _is_zero(_value(node.arguments[1]), False):
        return node.arguments[0]
    if node.what not in _ORDERED or isinstance(node.arguments[1], Number):
        return None
    return node.arguments[1 if node.what == "maximum" else 0]


def _is_zero(value: Any, negative: bool) -> bool:
    return bool(value == 0 and np.signbit(value) == negative)


def _key(value: Any, kind: Any) -> Array:
    """A number, rounded, in the order of int16."""
    return _exchange(rounded_to(np.float32(value), kind).view(_INT16), np.empty((), _INT16))


def _chosen(condition: Array, a: Array, b: Array, out: Array) -> Array:
    mask = scratch("selections.mask", condition.shape, _INT16)
    np.copyto(mask, condition)
    np.negative(mask, mask)
    if not b.ndim and not b:
        return np.bitwise_and(a, mask, out)
    np.bitwise_xor(a, b, out)
    np.bitwise_and(out, mask, out)
    return np.bitwise_xor(out, b, out)


def selection(
    nodes: Sequence[Node],
    needed: Iterable[int],
    results: Sequence[tuple[int, int]],
    inputs: Sequence[Any],
    outputs: Sequence[Optional[np.dtype[Any]]],
) -> Optional[Selection]:
    """A formula as a selection; None where it does anything else, or not on 16-bit floats of one type alone."""
    numbers = sorted(needed)
    if any(nodes[node].kind == "input" for _, node in results):
        return None
    kinds = {inputs[nodes[number].what[0]].dtype for number in numbers if nodes[number].kind == "input"}
    kinds |= {outputs[output] for output, node in results if nodes[node].dtype != BOOL}
    if len(kinds) != 1 or not kinds <= {*_FLOATS}:
        return None
    kind = kinds.pop()
    for number in numbers:
        if nodes[number].kind != "input" and not _selects(nodes, nodes[number], kind):
            return None
    return Selection(nodes, numbers, results, kind)


def _selects(nodes: Sequence[Node], node: Node, kind: Any) -> bool:
    numbers = [_value(argument) for argument in node.arguments if isinstance(argument, Number)]
    shown = _shows_minus_zero(node)
    if node.kind != "tile" or any(np.isnan(numbers)):
        return False
    if shown is not None and (isinstance(shown, Number) or nodes[shown].kind != "input"):
        return False
    if node.what in _COMPARED:  # a number that rounding changes may be on the other side of a value
        of_inputs = all(isinstance(a, Number) or nodes[a].kind == "input" for a in node.arguments)
        return of_inputs and len(numbers) == 1 and rounded_to(numbers, kind).astype(np.float32)[0] == numbers[0]
    if node.what == "clip":
        return len(numbers) == 2 and bool(numbers[0] <= numbers[1]) and not _is_zero(numbers[1], True)
    if node.what in _ORDERED and numbers:  # of the two zeros NumPy takes the number
        return not isinstance(node.arguments[0], Number) and not _is_zero(numbers[0], node.what == "maximum")
    return node.what in ("negative", "absolute", "select", *_ORDERED, *_JOINED)


__all__ = ["Selection", "selection"]
