"""Formulas of NumPy as programs of the compiled helper: the whole formula on one tile after the other.

A reference is written as a formula of whole arrays. ``trace`` runs it once on stand-ins (``tracing``), which record the
operations, and makes a ``Program`` of the record. The helper then does all operations on a tile in the first-level cache,
where NumPy would write each operation's result to memory: the same operations, each rounded to float32 as NumPy rounds it, so
the same bits, but for the sign of a NaN made of two. A formula along rows goes over one row several times, before the next:
sums and maxima of a row give numbers that the helper computes with too. Functions that only NumPy has (log, tanh, sin, ...)
cut a program into phases, between which NumPy's function runs on a block.

What cannot be traced (other data types, control flow on data, functions not listed there) has no program; the formula then
runs on arrays as it is. This module knows no operator.
"""

from __future__ import annotations

import math
import struct
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics.convert import BLOCK, round_into, widen
from ascend_aclnn.numerics.encoding import READ, TYPES, WRITTEN, Assembly, Code, Operand, Phase, row_function
from ascend_aclnn.numerics.steps import Steps
from ascend_aclnn.numerics.threads import Array, scratch, side_by_side, thread_count
from ascend_aclnn.numerics.tracing import BOOL, FLOAT32, Node, Notes, Number, Traced, Untraceable, wanted

DIMS = 4
_PIECE = 1 << 15  # elements that a thread takes at a time


# In additions; a logistic function's are those of its division, as its other steps stay among the nodes.
_COSTS = {
    "exp": 9,
    "log": 9,
    "normal": 50,
    "logistic": 3,
    "divide": 3,
    "sqrt": 3,
    "reciprocal": 3,
    "fmod": 9,
    "remainder": 9,
}


class _Step(NamedTuple):
    """A function of NumPy between two phases."""

    node: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    source: Optional[Operand]  # of a function of a block
    target: Optional[Operand]


class _Layout(NamedTuple):
    """A phase's view of its arrays apart from their addresses: the same for equal shapes, strides and data types."""

    words: list[int]  # of each operand, the first one counted from the array's address
    work: bytes
    threads: int  # at most


class Placed(NamedTuple):
    """The tensors of an operand: the number of the first item's, and whether each of its elements counts or one for all."""

    number: int
    each: bool


class Program:
    """A formula, ready to be run on blocks (``run``)."""

    def __init__(
        self,
        notes: Notes,
        results: Sequence[Any],
        outputs: Sequence[Optional[np.dtype[Any]]],
        float32_inputs: Sequence[int],
    ) -> None:
        """``results``: what the formula returned; ``outputs``: the data types to round it to, None for one not wanted."""
        self._nodes = notes.nodes
        self._float32_inputs = frozenset(float32_inputs)
        self._stored: list[tuple[int, int]] = []  # output, node
        self._row_results: list[tuple[int, int]] = []
        for number, result, dtype in wanted(results, outputs):
            if result._sample is not None:
                self._row_results.append((number, result._node))
            elif dtype not in WRITTEN or (dtype == BOOL) != (result.dtype == BOOL):
                raise Untraceable(f"{result.dtype} is rounded to {dtype}")
            else:
                self._stored.append((number, result._node))
        self._outputs = outputs
        self._levels = [0] * len(self._nodes)
        self._set_levels()
        self._blocks: dict[int, int] = {}  # the memory that keeps a node's values from phase to phase
        self._direct: dict[int, int] = {}  # outputs that a function of NumPy fills itself
        self._find_direct()
        self.phases: list[Union[Phase, list[_Step]]] = self._phases()
        self.single = len(self.phases) == 1 and isinstance(self.phases[0], Phase)
        self.operations = sum(_COSTS.get(node.what, 1) for node in self._nodes if node.kind == "tile")
        self._row_inputs = [number for number, node in enumerate(self._nodes) if node.kind == "row_input"]
        self._memory = self._memory_sizes()
        self.keeps_blocks = not all(self._memory)  # between phases
        self.width = notes.width

    def _set_levels(self) -> None:
        """Helper and NumPy take turns: even phases are the helper's. Each node gets the first one that it can be in."""
        for number, node in enumerate(self._nodes):
            arguments = [a for a in node.arguments if not isinstance(a, Number)]
            if node.kind in ("input", "row_input"):
                self._levels[number] = 0
            elif node.kind in ("tile", "reduce"):
                self._levels[number] = max([0, *(self._seen_by_helper(a) for a in arguments)])
            else:
                self._levels[number] = max([1, *(self._levels[a] + 1 - self._levels[a] % 2 for a in arguments)])

    def _seen_by_helper(self, number: int) -> int:
        node, level = self._nodes[number], self._levels[number]
        if node.kind in ("outer", "row"):
            return level + 1
        return level + 2 if node.kind == "reduce" else level

    def _find_direct(self) -> None:
        used = [a for node in self._nodes for a in node.arguments]
        stored = [node for _, node in self._stored]
        self._uses = [*used, *stored]
        for output, number in self._stored:
            node = self._nodes[number]
            alone = number not in used and stored.count(number) == 1
            if alone and node.kind == "outer" and self._outputs[output] == FLOAT32:
                self._direct[number] = output

    def _cheap(self, number: int) -> int:
        """The operations that make a value from inputs and numbers of rows; many where it takes more."""
        node = self._nodes[number]
        if node.kind != "tile":
            return 99 if node.kind == "outer" else 0
        return (9 if node.what in ("exp", "log", "logistic", "normal") else 1) + sum(
            self._cheap(a) for a in node.arguments if not isinstance(a, Number)
        )

    def _phases(self) -> list[Union[Phase, list[_Step]]]:
        stored = [(output, node) for output, node in self._stored if node not in self._direct]
        last = max([0, *(self._seen_by_helper(node) for _, node in stored)])
        last = max([last, *(self._levels[n] for n, node in enumerate(self._nodes) if node.kind == "reduce")])
        last += last % 2
        end = max(
            [
                last,
                *(self._levels[node] for node in self._direct),
                *(self._levels[node] for _, node in self._row_results),
            ]
        )
        self._values_for_later: dict[int, set[int]] = {}  # of each phase, the values to keep for later ones
        phases: list[Union[Phase, list[_Step]]] = []
        phase = Assembly()
        for level in range(end, -1, -1):
            if level % 2 == 0:
                self._add_part(phase, level, stored if level == last else [])
                continue
            steps = self._steps(level)
            if all(row_function(self._nodes[step.node], self._nodes, None, step.node) is not None for step in steps):
                for step in reversed(steps):
                    phase.put_first(row_function(self._nodes[step.node], self._nodes, phase, step.node) or [])
            else:
                phases += [phase.encoded(), steps]
                phase = Assembly()
        phases.append(phase.encoded())
        phases.reverse()
        return [phase for phase in phases if (phase.instructions if isinstance(phase, Phase) else phase)]

    def _memory_sizes(self) -> list[bool]:
        """For each scratch memory, whether one row is enough, because only one phase uses it."""
        users: list[list[Any]] = [[] for _ in range(1 + max([-1, *self._blocks.values()]))]
        for phase in self.phases:
            if isinstance(phase, Phase):
                operands: Sequence[Any] = phase.operands
            else:
                operands = [operand for step in phase for operand in (step.source, step.target)]
            for number in {o.number for o in operands if o is not None and o.kind == "scratch"}:
                users[number].append(phase)
        return [len(used_by) == 1 and isinstance(used_by[0], Phase) for used_by in users]

    def _keep(self, number: int) -> int:
        """The memory for a node's values; that of its argument where a function of NumPy is the only one to use it."""
        if number not in self._blocks:
            node = self._nodes[number]
            if node.kind == "tile" or node.kind == "input":
                self._values_for_later.setdefault(self._levels[number], set()).add(number)
            self._blocks[number] = 1 + max([-1, *self._blocks.values()])
        return self._blocks[number]

    def _steps(self, level: int) -> list[_Step]:
        steps = []
        for number, node in reversed(list(enumerate(self._nodes))):
            if node.kind not in ("outer", "row") or self._levels[number] != level:
                continue
            if node.kind == "row":
                steps.append(_Step(number, node.what, node.arguments, None, None))
                continue
            argument = node.arguments[0]
            source_node = self._nodes[argument]
            if number in self._direct:
                target = Operand("output", self._direct[number])
            elif number in self._blocks:
                target = Operand("scratch", self._blocks[number])
            else:
                continue  # unused
            if source_node.kind == "input" and source_node.dtype == FLOAT32 and self._plain(argument):
                source = Operand("input", *source_node.what)
            else:
                alone = self._uses.count(argument) == 1 and source_node.kind == "tile" and target.kind == "scratch"
                if alone and argument not in self._blocks:  # NumPy's function works in place
                    self._blocks[argument] = target.number
                    self._values_for_later.setdefault(self._levels[argument], set()).add(argument)
                source = Operand("scratch", self._keep(argument))
            steps.append(_Step(number, node.what, (), source, target))
        return steps[::-1]

    def _plain(self, number: int) -> bool:
        """True for an input whose own memory is float32."""
        return self._nodes[number].what[0] in self._float32_inputs

    def _add_part(self, phase: Assembly, level: int, stored: Sequence[tuple[int, int]]) -> None:
        """The operations on elements of one level, before the others of the phase."""
        code: Code = []
        values: dict[int, int] = {}
        loaded: dict[Operand, int] = {}

        def load(what: Operand) -> int:
            if what not in loaded:
                loaded[what] = phase.load(code, what)
            return loaded[what]

        def emit(argument: Any) -> int:
            if isinstance(argument, Number):
                return phase.constant(argument.value)
            if argument in values:
                return values[argument]
            node = self._nodes[argument]
            if node.kind == "input":
                value = load(Operand("input", *node.what))
            elif node.kind in ("row", "row_input", "reduce"):
                value = load(Operand("row", argument))
            elif node.kind == "outer" or (self._levels[argument] < level and self._cheap(argument) > 4):
                value = load(Operand("scratch", self._keep(argument)))
            else:
                operand_values = [emit(a) for a in node.arguments]
                value = phase.value()
                values[argument] = value
                code.append((node.what, value, operand_values))
                return value
            values[argument] = value  # the same value under another name
            return value

        stores = [(emit(node), Operand("output", output)) for output, node in stored]
        for number in sorted(self._values_for_later.get(level, ())):
            code.append(("store", phase.operand(Operand("scratch", self._blocks[number])), (emit(number),)))
        for number, node in enumerate(self._nodes):
            if node.kind == "reduce" and self._levels[number] == level:
                source = emit(node.arguments[0])
                code.append((node.what, phase.operand(Operand("row", number)), (source,)))
                phase.computed.append(number)
        for value, what in stores:
            code.append(("store", phase.operand(what), (value,)))
        phase.put_first(code)

    def run(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        sizes: tuple[int, ...],
        lead: Sequence[int] = (),
        layouts: Optional[dict[Any, _Layout]] = None,
    ) -> None:
        """Computes one block of ``sizes``, the last axis the innermost; axes along which an array repeats have size 1.

        A program of one phase (``single``) does so on all cores, which share its pieces without the interpreter; its blocks may
        be of any size. Of a formula that works along rows the sizes are rows and columns, and ``lead`` is the shape of one
        number for each row; inputs and outputs with one number for each row have that shape. ``layouts`` keeps what blocks of
        one size, of arrays of the same strides, have in common.
        """
        row_values: dict[int, Array] = {number: widen(inputs[self._nodes[number].what]) for number in self._row_inputs}
        for place, phase in enumerate(self.phases):
            if isinstance(phase, Phase):
                layout = None if layouts is None else layouts.get((place, sizes))
                if layout is None:
                    layout = self._layout(phase, inputs, outputs, sizes)
                    if layouts is not None:
                        layouts[place, sizes] = layout
                self._run_phase(phase, inputs, outputs, sizes, row_values, lead, layout)
                continue
            memory = self._scratch(sizes)
            for step in phase:
                if step.source is None or step.target is None:
                    operands = (a.value if isinstance(a, Number) else row_values[a] for a in step.arguments)
                    row_values[step.node] = np.asarray(step.function(*operands))
                    continue
                source = memory[step.source.number] if step.source.kind == "scratch" else inputs[step.source.number]
                target = memory[step.target.number] if step.target.kind == "scratch" else outputs[step.target.number]
                step.function(source, out=target)
        for number, node in self._row_results:
            values, output = row_values[node], outputs[number]
            same = values.size == output.size
            round_into(output, values.reshape(output.shape) if same else np.broadcast_to(values, output.shape))

    def layouts(self, inputs: Sequence[Any], outputs: Sequence[Any], sizes: tuple[int, ...]) -> dict[Any, _Layout]:
        """What ``run`` takes as ``layouts``, of these arrays; ``run`` may then take other arrays of the same layout."""
        return {
            (place, sizes): self._layout(phase, inputs, outputs, sizes)
            for place, phase in enumerate(self.phases)
            if isinstance(phase, Phase)
        }

    def direct(
        self, inputs: Sequence[Any], outputs: Sequence[Any], sizes: tuple[int, ...]
    ) -> Optional[Callable[[Sequence[Any], Sequence[Any]], None]]:
        """A fast ``run`` for arrays of these shapes, strides and data types; None if the program needs more than arrays.

        Caches are cold when a large array arrives, so every Python step before its first element counts.
        """
        phase = self.phases[0]
        if not self.single or not isinstance(phase, Phase) or self._memory or self._row_results:
            return None
        if any(operand.kind not in ("input", "output") for operand in phase.operands):
            return None
        layout = self._layout(phase, inputs, outputs, sizes)
        pack = struct.Struct(f"{len(layout.words)}q").pack
        code = (phase.code, phase.instructions, phase.constants, phase.constant_count, phase.registers)
        places = [(at * (2 + DIMS), o.kind == "input", o.number) for at, o in enumerate(phase.operands)]

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            words = layout.words.copy()
            for place, is_input, number in places:
                words[place] += native.address((inputs if is_input else outputs)[number])
            operands, begun = pack(*words), np.zeros(1, np.int64)

            def share(
                arrays: Any = (inputs, outputs),
            ) -> None:  # keeps alive the arrays whose addresses the operands hold
                native.run_program(code, operands, len(places), layout.work, phase.sums, begun)

            if layout.threads > 1:
                side_by_side(share, min(layout.threads, thread_count()))
            else:
                share()

        return run

    def placed(
        self,
        inputs: Sequence[Optional[Placed]],
        output: Placed,
        starts: Sequence[int],
        sizes: Sequence[int],
        memory: Array,
    ) -> Optional[Callable[[bytes], bool]]:
        """``run`` on lists of contiguous float32 tensors in one memory, all of them in one call of the helper.

        Takes the tensors' offsets as packed int64; each begins ``starts`` bytes behind. Item i has ``sizes[i]`` elements. False,
        with nothing written, where items overlap such that their order would show. None if the program needs more than arrays.
        """
        phase = self.phases[0]
        if not self.single or not isinstance(phase, Phase) or self._memory or self._row_results or phase.sums:
            return None
        places = []
        for kind, number, first in phase.operands:
            what = inputs[number] if kind == "input" else output if kind == "output" else None
            if what is None or first:
                return None
            places += [what.number, 4 if what.each else 0, kind == "output"]
        parts: list[Array] = [
            np.frombuffer(phase.code, np.uint8),
            np.frombuffer(phase.constants or bytes(4), np.uint8),
            np.array(places, np.int64),
            np.array(starts, np.int64),
            np.array(sizes, np.int64),
        ]
        code, constants, *lists = map(native.address, parts)
        words = [native.address(memory), code, phase.instructions, constants, phase.constant_count, phase.registers]
        words += [lists[0], len(phase.operands), *lists[1:], len(sizes)]
        record = np.array(words, np.int64)
        function, at = native.placed_function(), native.address(record)

        def run(offsets: bytes, arrays: Any = (record, memory, phase, *parts)) -> bool:  # keeps them alive
            return bool(function(at, offsets))

        return run

    def _layout(self, phase: Phase, inputs: Sequence[Any], outputs: Sequence[Any], sizes: tuple[int, ...]) -> _Layout:
        """A phase's view of its arrays apart from their addresses."""
        missing = (0,) * (DIMS - len(sizes))
        repeated = (0,) * (len(sizes) - 1)
        words: list[int] = []
        for kind, number, first in phase.operands:
            if kind == "number":
                words += (8 * number, TYPES[phase.numbers.dtype], *(0,) * DIMS)
            elif kind == "row":
                dtype = self._nodes[number].dtype
                words += (0, TYPES[dtype], *missing, dtype.itemsize, 0)
            elif kind == "scratch":
                steps = (
                    repeated if self._memory[number] else tuple(4 * math.prod(sizes[k:]) for k in range(1, len(sizes)))
                )
                words += (0, TYPES[FLOAT32], *missing, *steps, 4)
            else:
                array = (inputs if kind == "input" else outputs)[number]
                steps = tuple([0 if n == 1 else step for n, step in zip(array.shape, array.strides)])
                words += (first * array.strides[-1], TYPES[array.dtype], *missing, *steps)
        width, size = sizes[-1], math.prod(sizes)
        whole_rows = self.width > 0 or bool(self._memory)
        piece = max(1, _PIECE // max(1, width)), max(1, width if whole_rows else min(width, _PIECE))
        threads = -(-size // (2 * BLOCK)) if self.single else 1
        return _Layout(words, struct.pack("6q", *(1,) * len(missing), *sizes, *piece), threads)

    def _scratch(self, sizes: Sequence[int]) -> list[Array]:
        """The calling thread's memory for values between phases, or between two passes over a row."""
        one_row = (1,) * (len(sizes) - 1) + tuple(sizes[-1:])
        return [
            scratch(f"programs.{number}", one_row if of_a_row else tuple(sizes), np.float32)
            for number, of_a_row in enumerate(self._memory)
        ]

    def _run_phase(
        self,
        phase: Phase,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        sizes: Sequence[int],
        row_values: dict[int, Array],
        lead: Sequence[int],
        layout: _Layout,
    ) -> None:
        for number in phase.computed:
            row_values[number] = np.empty(lead, self._nodes[number].dtype)
        row_operands = [operand.number for operand in phase.operands if operand.kind == "row"]
        rows = {number: _in_rows(row_values[number], lead, self._nodes[number].dtype) for number in row_operands}
        pieces = np.zeros(1, np.int64)  # the number of pieces that threads have begun
        code = (phase.code, phase.instructions, phase.constants, phase.constant_count, phase.registers)

        def packed() -> bytes:
            memory = self._scratch(sizes) if self._memory else []
            arrays: dict[str, Any] = {"input": inputs, "output": outputs, "row": rows, "scratch": memory}
            words = layout.words.copy()
            for place, (kind, number, _) in enumerate(phase.operands):
                words[place * (2 + DIMS)] += native.address(phase.numbers if kind == "number" else arrays[kind][number])
            return struct.pack(f"{len(words)}q", *words)

        def share() -> None:
            operands = shared or packed()
            native.run_program(code, operands, len(phase.operands), layout.work, phase.sums, pieces)

        threads = min(layout.threads, thread_count()) if layout.threads > 1 else 1
        # With scratch memory each thread packs its own operands.
        shared = b"" if self._memory and threads > 1 else packed()
        side_by_side(share, threads)
        for number in phase.computed:
            row_values[number] = row_values[number].reshape(lead[: self._nodes[number].ndim])


def _in_rows(values: Array, lead: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Numbers of rows as contiguous memory, one for each row."""
    if values.shape != tuple(lead):
        values = values.reshape(lead) if values.size == math.prod(lead) else np.broadcast_to(values, lead)
    return np.ascontiguousarray(values, dtype)


# ------------------------------------------------------------------------------------------------------ cache


_programs: weakref.WeakKeyDictionary[Any, dict[Any, Optional[Program]]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_MOST_PROGRAMS = 64  # of a function
_PLAIN = frozenset((bool, int, float, str, type(None)))


def program(
    function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any], row_axes: int = 0, like: Any = None
) -> Optional[Program]:
    """The program of a formula for arrays of these data types; None where there is none, or no helper.

    ``row_axes``: how many of the last axes of ``like`` the formula works along, 0 for an element-wise one.
    """
    return _traced(_program, function, inputs, outputs, row_axes, like) if native.runs_programs() else None


def steps(
    function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any], row_axes: int = 0, like: Any = None
) -> Optional[Steps]:
    """The formula as calls of NumPy, for where there is no helper; None where it cannot be traced."""
    return None if native.runs_programs() else _traced(_steps, function, inputs, outputs, row_axes, like)


def selects(function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """Whether an element-wise formula runs on the bits of 16-bit floats (``selections``), without the helper."""
    found = steps(function, inputs, outputs)
    return found is not None and found.selection is not None


def operations(function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> float:
    """The operations of an element-wise formula, counted in additions; infinity where it cannot be traced."""
    traced = _traced(_program, function, inputs, outputs)
    return math.inf if traced is None or not traced.single else traced.operations


def _traced(
    make: Callable[..., Any],
    function: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    row_axes: int = 0,
    like: Any = None,
) -> Any:
    if all(item.dtype == BOOL for item in (*inputs, *outputs) if isinstance(item, np.ndarray)):
        return None  # NumPy works on bytes, programs on masks of 32 bits
    key: list[Any] = [make, row_axes]
    for item in inputs:
        if isinstance(item, np.ndarray):
            if item.dtype not in READ:
                return None
            key += (item.dtype, item.shape if row_axes else None)
        elif all(type(part) in _PLAIN for part in (item if isinstance(item, (list, tuple)) else (item,))):
            key.append((type(item), repr(item)))
        else:
            return None
    key += [None if output is None else output.dtype for output in outputs]
    signature = tuple(key)
    try:
        with _lock:
            cached = _programs.setdefault(function, {})
    except TypeError:  # no weak references to it, such as a ufunc
        cached = _unreferenced.setdefault(id(function), {}) if isinstance(function, np.ufunc) else {}
    if signature not in cached:
        if len(cached) >= _MOST_PROGRAMS:
            cached.clear()
        try:
            cached[signature] = make(*_noted(function, inputs, outputs, row_axes, like), inputs, outputs)
        except Exception:  # a formula may fail on a stand-in where it works on arrays
            cached[signature] = None
    return cached[signature]


_unreferenced: dict[int, dict[Any, Optional[Program]]] = {}  # of NumPy's own functions, which stay


def trace(
    function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any], row_axes: int = 0, like: Any = None
) -> Program:
    """Runs a formula on stand-ins; Untraceable, or whatever the formula raises, where it has no program."""
    return _program(*_noted(function, inputs, outputs, row_axes, like), inputs, outputs)


def _noted(
    function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any], row_axes: int, like: Any
) -> tuple[Notes, tuple[Any, ...]]:
    """The operations of a formula, and what it returned."""
    notes = Notes(row_axes)
    arguments = list(inputs)
    for position, item in enumerate(inputs):
        if not isinstance(item, np.ndarray):
            continue
        dtype = BOOL if item.dtype == BOOL else FLOAT32
        if row_axes and item.ndim == like.ndim and item.shape[-row_axes:] == (1,) * row_axes and item is not like:
            if dtype == BOOL:
                raise Untraceable("conditions of rows")
            number = notes.add(Node("row_input", position))
            arguments[position] = Traced(notes, number, (1,) * item.ndim, np.ones((1,) * item.ndim, np.float32))
        else:
            number = notes.add(Node("input", (position, 0), (), dtype))
            arguments[position] = Traced(notes, number, item.shape if row_axes else None)
    with np.errstate(all="ignore"):
        results = function(*arguments)
    several = results if isinstance(results, tuple) else (results,)
    if len(several) != len(outputs):
        raise Untraceable("another number of results")
    return notes, several


def _program(notes: Notes, results: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Program:
    floats = [n for n, item in enumerate(inputs) if isinstance(item, np.ndarray) and item.dtype == FLOAT32]
    return Program(notes, results, _dtypes(outputs), floats)


def _steps(notes: Notes, results: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Steps:
    return Steps(notes, results, inputs, _dtypes(outputs))


def _dtypes(outputs: Sequence[Any]) -> list[Optional[np.dtype[Any]]]:
    return [None if output is None else output.dtype for output in outputs]


__all__ = ["DIMS", "Placed", "Program", "Traced", "Untraceable", "operations", "program", "selects", "steps", "trace"]
