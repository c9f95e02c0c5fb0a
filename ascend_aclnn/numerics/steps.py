"""Formulas as NumPy calls that write into kept memory, for where the compiled helper is not used.

A formula of arrays takes fresh memory for each of its operations, and its result is copied to the output at the end. Here the
operations that ``tracing`` has recorded are done one after the other in few arrays that a thread keeps: the same functions of
NumPy on the same values, so the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics.convert import is_low_precision, round_block, round_into, widen, widen_block
from ascend_aclnn.numerics.selections import selection
from ascend_aclnn.numerics.sums import sum_of_squares, sum_over
from ascend_aclnn.numerics.threads import Array, scratch
from ascend_aclnn.numerics.tracing import BOOL, FLOAT32, Notes, Number, Untraceable, wanted

# Elements in a block: a call of NumPy on it lasts long enough, some fifty microseconds, that two threads seldom wait for the
# interpreter lock, which costs them as much as such a call. Third-level caches hold the arrays of all threads.
_BLOCK, _FEW_SLOTS = 1 << 19, 2
_LARGE = 1 << 12
_largest: Any = np.maximum.reduce
_least: Any = np.minimum.reduce
_INT8, _INT32 = np.dtype(np.int8), np.dtype(np.int32)


def _ones(x: Array, out: Array) -> None:
    np.copyto(out, x)


def _clip(x: Array, low: Any, high: Any, out: Array) -> None:
    x.clip(low, high, out)


# Operations whose result may take the memory of an operand: they have the same bits there. Of others, of which NumPy has
# several loops, it might choose another one.
_IN_PLACE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negative": np.negative,
    "absolute": np.absolute,
    "sqrt": np.sqrt,
    "square": np.square,
    "reciprocal": np.reciprocal,
    "rint": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "clip": _clip,
}
_APART: dict[str, Callable[..., Any]] = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "copysign": np.copysign,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "less": np.less,
    "less_equal": np.less_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "sign": np.sign,
    "isnan": np.isnan,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "signbit": np.signbit,
    "ones": _ones,
}


def _remainder(x: Array, divisor: Any, out: Array) -> None:
    """np.remainder of float32 by one number, exact through float64: its own loop divides bit by bit, one element at a time.

    A quotient of two float32 below 2^28, rounded to float64, is cut off to the same integer as without rounding: another integer
    is 2^-52 of it away or more. Its product with the divisor and the rest are exact. What has the other sign than the
    divisor gets the divisor added in float32, as in NumPy.
    """
    most = float(divisor) * 2.0**28
    if not (x.size and np.isfinite(divisor) and divisor > 0 and _largest(x, None) < most and _least(x, None) > -most):
        np.remainder(x, divisor, out=out)
        return
    wide, quotient = scratch("steps.wide", x.shape, np.float64), scratch("steps.quotient", x.shape, np.float64)
    np.copyto(wide, x)
    np.divide(wide, float(divisor), out=quotient)
    np.trunc(quotient, out=quotient)
    np.multiply(quotient, float(divisor), out=quotient)
    np.subtract(wide, quotient, out=wide)
    np.copyto(out, wide, casting="same_kind")
    added = wide.reshape(-1).view(np.float32)[: x.size].reshape(x.shape)
    np.copyto(added, np.less(out, 0, out=scratch("steps.negative", x.shape, np.bool_)))
    np.multiply(added, divisor, out=added)
    np.add(out, added, out=out)


_KNOWN = {*_IN_PLACE, *_APART, "select", "logistic"}
_INFINITE = {"maximum": np.array(np.inf, np.float32), "minimum": np.array(-np.inf, np.float32)}
_MINUS_ONE, _ONE = np.array(-1, np.int8), np.array(1, np.float32)


class _Call(NamedTuple):
    """A call of NumPy: a function of arrays and constants into an array; ``bits``: all seen as integers."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    target: Any
    bits: bool = False


class _Slot(NamedTuple):
    """Memory for one value of each element."""

    number: int
    dtype: np.dtype[Any]


class _Input(NamedTuple):
    position: int
    first: int
    is_row: bool = False


class _Output(NamedTuple):
    number: int


class _Row(NamedTuple):
    """Numbers of rows, by node."""

    node: int


class _Store(NamedTuple):
    """A value that is rounded to an output; ``spare``: memory that is not needed then."""

    output: int
    value: Any
    spare: tuple[_Slot, ...]


class _Plan(NamedTuple):
    calls: list[_Call]
    stores: list[_Store]


class Steps:
    """A formula, ready to be run on blocks (``run``)."""

    def __init__(
        self, notes: Notes, results: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Optional[np.dtype[Any]]]
    ) -> None:
        self._nodes, self._width = notes.nodes, notes.width if notes.axes == 1 else 0
        self._outputs = outputs
        self._axes = tuple(range(-notes.axes, 0))
        self._low = [isinstance(item, np.ndarray) and is_low_precision(item.dtype) for item in inputs]
        self._results = [(number, result._node) for number, result, _ in wanted(results, outputs)]
        self._needed = self._uses()
        self._summed = self._only_summed(inputs)
        lacking = {self._nodes[n].what for n in self._needed if self._nodes[n].kind == "tile"} - _KNOWN
        if lacking:
            raise Untraceable(f"{lacking} of the compiled helper")
        self.selection = None if notes.axes else selection(notes.nodes, self._needed, self._results, inputs, outputs)
        self._plans: dict[Any, _Plan] = {}
        everything = dict.fromkeys((node.what for node in self._nodes if node.kind == "input"), True)
        slots = _Planner(self, everything, [True] * len(self._results), True).slots
        slots += 4 * any(self._nodes[number].what == "remainder" for number in self._needed)  # in float64
        self.block = _BLOCK if slots <= _FEW_SLOTS else _BLOCK // 2  # elements

    def _uses(self) -> dict[int, int]:
        """The values that the results need, with how often each is used."""
        uses: dict[int, int] = {}
        for _, number in self._results:
            uses[number] = uses.get(number, 0) + 1
        for number in range(len(self._nodes) - 1, -1, -1):
            if number in uses:
                for argument in self._nodes[number].arguments:
                    if not isinstance(argument, Number):
                        uses[argument] = uses.get(argument, 0) + 1
        return uses

    def _only_summed(self, inputs: Sequence[Any]) -> set[int]:
        """Inputs of bfloat16 that are added up and nothing else: they go to float64 at once."""
        stored = {number for _, number in self._results}
        others: set[int] = set()
        for number in self._needed:
            if self._nodes[number].what != "row_sum":
                others.update(a for a in self._nodes[number].arguments if not isinstance(a, Number))
        found = set()
        for number in {*self._needed} - others - stored:
            node = self._nodes[number]
            if node.kind == "input" and inputs[node.what[0]].dtype == ml_dtypes.bfloat16:
                found.add(number)
        return found

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any], apart: bool) -> None:
        """Computes one block; ``apart``: no output has memory of an input."""
        elements: dict[Any, Array] = {}
        shapes = []
        for number in self._needed:
            node = self._nodes[number]
            if node.kind == "input":
                position, first = node.what
                item = inputs[position]
                if self._width and item.shape[-1] != self._width:
                    item = item[..., first : first + self._width]
                elements[node.what] = item
                shapes.append(item.shape)
        sizes = np.broadcast_shapes(*shapes)
        if self.selection is not None and self.selection.run(elements, outputs, sizes):
            return
        whole = tuple([item.shape == sizes for item in elements.values()])
        fits = tuple([outputs[n] is not None and outputs[n].shape == sizes for n, _ in self._results])
        contiguous = all(outputs[n] is None or outputs[n].flags.c_contiguous for n, _ in self._results)
        key = (whole, fits, apart and contiguous)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _Planner(self, dict(zip(elements, whole)), fits, key[2]).plan
        rows: dict[int, Any] = {}

        slots: dict[Any, Array] = {}

        def array(what: Any) -> Any:
            kind = type(what)
            if kind is _Slot:
                if what not in slots:
                    slots[what] = scratch(f"steps.{what.number}", sizes, what.dtype)
                return slots[what]
            if kind is _Input:
                return inputs[what.position] if what.is_row else elements[what.position, what.first]
            if kind is _Output:
                return outputs[what.number]
            return rows[what.node] if kind is _Row else what

        for function, arguments, target, bits in plan.calls:
            operands = [array(argument) for argument in arguments]
            if type(target) is _Row:
                rows[target.node] = function(*operands)
                continue
            out = array(target)
            if bits:
                operands = [_as_bits(operand) for operand in operands]
                out = _as_bits(out)
            function(*operands, out=out)
        for number, value, spare in plan.stores:
            values, output = array(value), outputs[number]
            if type(value) is _Row:
                same = values.size == output.size
                values = values.reshape(output.shape) if same else np.broadcast_to(values, output.shape)
            if values.shape == output.shape:
                round_block(output, values, [array(slot) for slot in spare])
            else:
                round_into(output, values)


def _as_bits(array: Array) -> Array:
    return array.view(_INT8 if array.dtype.itemsize == 1 else _INT32)


def _to_be_summed(x: Array) -> Array:
    """Large contiguous bfloat16 as it is: ``sum_over`` converts it to float64 at once."""
    return x if x.dtype == FLOAT32 or (x.flags.c_contiguous and x.size > _LARGE) else widen(x)


def _widen_to(x: Array, out: Array) -> None:
    widen_block(out, x)


class _Planner:
    """Makes a plan for arrays of which it is known whether they repeat."""

    def __init__(self, steps: Steps, whole: dict[Any, bool], fits: Sequence[bool], apart: bool) -> None:
        self._steps, self._nodes, self._whole, self._apart = steps, steps._nodes, whole, apart
        self._left = dict(steps._needed)  # uses of each value that are still to come
        self._places: dict[int, Any] = {}
        self._free: list[int] = []
        self.slots = 0
        self.plan = _Plan([], [])
        for number in sorted(steps._needed):
            self._compute(number, fits)
        last_stored = {}
        for output, number in steps._results:
            if type(self._places[number]) is not _Output or self._places[number].number != output:
                last_stored[number] = output
        for output, number in steps._results:
            place = self._places[number]
            if type(place) is _Output and place.number == output:
                continue
            spare: tuple[_Slot, ...] = ()
            if last_stored[number] == output and type(place) is _Slot and place.dtype == FLOAT32:
                spare = (place, *(_Slot(free, FLOAT32) for free in self._free[:1]))
            self.plan.stores.append(_Store(output, place, spare))

    def _call(self, function: Any, arguments: Sequence[Any], target: Any, bits: bool = False) -> None:
        self.plan.calls.append(_Call(function, tuple(arguments), target, bits))

    def _slot(self, dtype: np.dtype[Any]) -> _Slot:
        if self._free:
            return _Slot(self._free.pop(), dtype)
        self.slots += 1
        return _Slot(self.slots - 1, dtype)

    def _release(self, slot: _Slot) -> None:
        self._free.append(slot.number)

    def _take(self, arguments: Sequence[Any]) -> tuple[list[Any], list[_Slot]]:
        """The places of arguments, and of those the slots that are not needed after this use."""
        places, dying = [], []
        for argument in arguments:
            if isinstance(argument, Number):
                places.append(np.frombuffer(argument.value, FLOAT32)[0].reshape(()))
                continue
            place = self._places[argument]
            places.append(place)
            self._left[argument] -= 1
            if type(place) is _Slot and not self._left[argument]:
                dying.append(place)
        return places, dying

    def _direct(self, number: int, fits: Sequence[bool]) -> Optional[_Output]:
        """The output that a value can be computed into: all that comes after it must not read what it overwrites."""
        if number != max(self._steps._needed) and not self._apart:
            return None
        for (output, node), fit in zip(self._steps._results, fits):
            if node == number and fit and self._steps._outputs[output] == self._nodes[number].dtype:
                return _Output(output)
        return None

    def _compute(self, number: int, fits: Sequence[bool]) -> None:
        node = self._nodes[number]
        if node.kind in ("row", "row_input", "reduce"):
            self._compute_rows(number)
            return
        if node.kind == "input":
            position, first = node.what
            place: Any = _Input(position, first)
            if number in self._steps._summed:
                self._places[number] = place
            elif self._steps._low[position] and self._whole[node.what]:
                self._places[number] = self._slot(FLOAT32)
                self._call(_widen_to, (place,), self._places[number])
            elif self._steps._low[position]:
                self._places[number] = _Row(number)
                self._call(widen, (place,), self._places[number])
            else:
                self._places[number] = place
            return
        direct = self._direct(number, fits)
        if node.what == "select":
            self._places[number] = self._select(node.arguments, direct)
            return
        arguments, dying = self._take(node.arguments)
        if node.what == "logistic":
            slot = dying[0] if dying else self._slot(FLOAT32)
            self._call(np.negative, arguments, slot)
            inner = self._slot(FLOAT32)
            self._call(np.exp, (slot,), inner)
            self._call(np.add, (_ONE, inner), inner)
            target = direct if direct is not None and self._apart else inner
            self._call(np.divide, (_ONE, inner), target)
            self._release(slot)
            if target is not inner:
                self._release(inner)
            self._places[number] = target
            return
        what, numbers = node.what, [isinstance(item, Number) for item in node.arguments]
        if what in ("maximum", "minimum") and numbers == [False, True] and abs(float(arguments[1])) > 0:
            # With a number these are not vectorised, and clip is. Of two zeros they differ, and of NaN as a limit.
            arguments.insert(1 if what == "minimum" else 2, _INFINITE[what])
            what = "clip"
        in_place = node.kind == "tile" and what in _IN_PLACE
        function = what if node.kind == "outer" else _IN_PLACE.get(what) or _APART[what]
        if what == "remainder" and numbers == [False, True]:
            function = _remainder
        fitting = [slot for slot in dying if slot.dtype == node.dtype] if in_place else []
        if direct is not None and (in_place or self._apart):
            target = direct
        elif fitting:
            target = fitting[0]
            dying.remove(target)
        else:
            target = self._slot(node.dtype)
        self._call(function, arguments, target)
        for slot in set(dying):
            if slot != target:
                self._release(slot)
        self._places[number] = target

    def _compute_rows(self, number: int) -> None:
        node, target = self._nodes[number], _Row(number)
        self._places[number] = target
        if node.kind == "row_input":
            self._call(widen, (_Input(node.what, 0, True),), target)
        elif node.kind == "row":
            self._call(
                lambda *values, function=node.what: np.asarray(function(*values)),
                [a.value if isinstance(a, Number) else _Row(a) for a in node.arguments],
                target,
            )
        else:
            axes = self._steps._axes
            function: Any = {
                "row_sum": lambda x: sum_over(_to_be_summed(x), axes, True),
                "row_squares": lambda x: sum_of_squares(x, axes, True),
                "row_max": lambda x: _largest(x, axes, None, None, True, -np.inf),
            }[node.what]
            arguments, dying = self._take(node.arguments)
            self._call(function, arguments, target)
            for slot in dying:
                self._release(slot)

    def _select(self, arguments: Sequence[Any], direct: Optional[_Output]) -> Any:
        """where(condition, a, b) by a mask of bits, as in ``choose.where``."""
        (condition, a, b), dying = self._take(arguments)
        byte = condition if type(condition) is _Slot and condition in dying else self._slot(BOOL)
        zero = [isinstance(item, np.ndarray) and not item.view(_INT32) for item in (a, b)]
        if zero[0] and not zero[1]:
            self._call(np.add, (condition, _MINUS_ONE), byte, True)
        else:
            self._call(np.negative, (condition,), byte, True)
        mask = self._slot(FLOAT32)
        self._call(_copy_bits, (byte,), mask, True)
        self._release(byte)
        if zero[0] or zero[1]:
            target: Any = direct or mask
            self._call(np.bitwise_and, (mask, a if zero[1] else b), target, True)
            rest = [slot for slot in dying if slot != byte]
        else:
            same = type(a) is type(b) is _Slot and a == b
            takes = a if type(a) is _Slot and a in dying and not same else None
            chosen = takes or self._slot(FLOAT32)
            self._call(np.bitwise_xor, (a, b), chosen, True)
            self._call(np.bitwise_and, (chosen, mask), chosen, True)
            target = direct or chosen
            self._call(np.bitwise_xor, (chosen, b), target, True)
            self._release(mask)
            if target is not chosen and takes is None:
                self._release(chosen)
            rest = [slot for slot in dying if slot not in (byte, target)]
        if target is not mask and (zero[0] or zero[1]):
            self._release(mask)
        for slot in dict.fromkeys(rest):
            self._release(slot)
        return target


def _copy_bits(x: Array, out: Array) -> None:
    np.copyto(out, x)


__all__ = ["Steps"]
