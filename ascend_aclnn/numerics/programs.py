"""Formulas of NumPy as programs of the compiled helper: the whole formula on one tile after the other.

A reference is written as a formula of whole arrays. ``trace`` runs it once on stand-ins (``Traced``), which note what is
asked of them, and makes a ``Program`` of the notes. The helper then does all operations on a tile in the first-level cache,
where NumPy would write each operation's result to memory: the same operations, each rounded to float32 as NumPy rounds it, so
the same bits, but for the sign of a NaN made of two. Functions that only NumPy has (log, tanh, sin, ...) cut a program into
phases, between which NumPy's function runs on a block; so do sums and maxima of rows, whose few results NumPy computes with.

What cannot be traced (other data types, control flow on data, functions not listed here) has no program; the formula then
runs on arrays as it is. Nothing here knows any operator.
"""

from __future__ import annotations

import struct
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional, Union

import ml_dtypes
import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics.convert import round_into
from ascend_aclnn.numerics.threads import Array, scratch

_FLOAT32, _FLOAT64, _BOOL = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.bool_)

# As numbered in native/csrc/program.c.
_OPERATIONS = """
    load store add subtract multiply divide multiply_add maximum minimum copysign fmod remainder
    less less_equal equal not_equal and or xor not select clip
    negative absolute sqrt square reciprocal rint floor ceil trunc sign isnan isfinite isinf signbit exp ones row_sum row_max
"""
_NUMBERS = {name: number for number, name in enumerate(_OPERATIONS.split())}
_TYPES = {
    _FLOAT32: 0,
    np.dtype(np.float16): 1,
    np.dtype(ml_dtypes.bfloat16): 2,
    _BOOL: 3,
    np.dtype(ml_dtypes.float8_e4m3fn): 4,
    np.dtype(ml_dtypes.float8_e5m2): 5,
    _FLOAT64: 6,
}
_READ, _WRITTEN = frozenset(list(_TYPES)[:4]), frozenset(list(_TYPES)[:6])
_BINARY = frozenset(_OPERATIONS.split()[2:12])  # under the names of NumPy's functions
_UNARY = frozenset(_OPERATIONS.split()[22:32])
_ORDERED = {"less": "less", "less_equal": "less_equal", "equal": "equal", "not_equal": "not_equal"}
_TURNED = {"greater": "less", "greater_equal": "less_equal"}
_TESTS = frozenset(("isnan", "isfinite", "isinf", "signbit"))
_LOGICAL = {
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
# Functions that NumPy alone computes, of one float32 array.
_OUTER = """
    exp exp2 expm1 log log2 log10 log1p tanh sin cos tan sinh cosh arcsin arccos arctan arcsinh arccosh arctanh cbrt
"""
DIMS = 4


class Untraceable(Exception):
    """A formula is more than programs can do."""


# ------------------------------------------------------------------------------------------------------ notes


class _Node(NamedTuple):
    """One value of a formula.

    ``kind``: "input" (``what``: its position and first column), "tile" (``what``: an operation of the helper), "outer" (a
    function of NumPy on a block), "reduce" (an operation of the helper that gives a number for each row), "row" (a function of
    NumPy on such numbers), "row_input" (a position).
    """

    kind: str
    what: Any
    arguments: tuple[Any, ...] = ()  # numbers of nodes; _Number for constants
    dtype: np.dtype[Any] = _FLOAT32


class _Number(NamedTuple):
    value: Any


class _Notes:
    """What a formula has asked for so far."""

    def __init__(self, axes: int) -> None:
        self.nodes: list[_Node] = []
        self.known: dict[Any, int] = {}
        self.width = 0  # elements in a row
        self.axes = axes  # the last axes, which the formula works along; 0 for one that is element-wise

    def check_width(self, shape: tuple[int, ...]) -> None:
        """All operations are on rows of one length."""
        width = int(np.prod(shape[-self.axes :]))
        if self.width not in (0, width):
            raise Untraceable("rows of two lengths")
        self.width = width

    def add(self, node: _Node, key: Any = None) -> int:
        """The number of a node; equal operations on tiles are one node."""
        if key is None:
            key = node if node.kind == "tile" else None
        if key is not None and key in self.known:
            return self.known[key]
        self.nodes.append(node)
        if key is not None:
            self.known[key] = len(self.nodes) - 1
        return len(self.nodes) - 1


def _constant(value: Any) -> _Number:
    """A number beside a float32 array: what NumPy takes it for."""
    if type(value) in (int, float):
        with np.errstate(all="ignore"):
            value = np.float32(value)
    if type(value) is not np.float32:
        raise Untraceable(f"a number of type {type(value).__name__}")
    return _Number(value.tobytes())


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """Stands for an array of a formula: matrices and masks of elements, or one number for each row."""

    __slots__ = ("_node", "_notes", "_sample", "dtype", "shape")

    def __init__(
        self, notes: _Notes, node: int, shape: Optional[tuple[int, ...]], sample: Optional[Array] = None
    ) -> None:
        self._notes, self._node, self._sample = notes, node, sample
        self.shape: Any = shape
        self.dtype = notes.nodes[node].dtype

    @property
    def ndim(self) -> int:
        return len(self._shape())

    @property
    def size(self) -> int:
        raise Untraceable("the size is asked for")

    def _shape(self) -> tuple[int, ...]:
        if self.shape is None:
            raise Untraceable("an element-wise formula asks for its shape")
        return tuple(self.shape)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise Untraceable("an array is asked for")

    def __bool__(self) -> bool:
        raise Untraceable("a condition is asked for")

    def __len__(self) -> int:
        raise Untraceable("the length is asked for")

    def __iter__(self) -> Any:
        raise Untraceable("elements are asked for")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if method == "reduce":
            return _reduced(ufunc.__name__, *inputs, **options)
        if method != "__call__" or options:
            raise Untraceable(f"{ufunc.__name__}.{method} with {options}")
        made = _apply(self._notes, ufunc, inputs)
        if out is None:
            return made
        target = out[0]
        if (
            not isinstance(target, Traced)
            or target.dtype != made.dtype
            or (target._sample is None) != (made._sample is None)
        ):
            raise Untraceable("a result is stored into another array")
        target._node, target._sample = made._node, made._sample
        return target

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        made = _FUNCTIONS.get(function)
        if made is None:
            raise Untraceable(f"numpy.{function.__name__}")
        return made(*arguments, **options)

    def __getitem__(self, key: Any) -> Traced:
        if not isinstance(key, tuple) or len(key) != 2 or key[0] is not Ellipsis or not isinstance(key[1], slice):
            raise Untraceable("elements are picked")
        node, shape = self._notes.nodes[self._node], self._shape()
        start, stop, step = key[1].indices(shape[-1])
        if node.kind != "input" or step != 1 or self._notes.axes != 1 or stop <= start:
            raise Untraceable("a part of what is no input")
        position, first = node.what
        what = (position, first + start)
        number = self._notes.add(node._replace(what=what), ("input", what))
        return Traced(self._notes, number, (*shape[:-1], stop - start))

    def astype(self, dtype: Any, copy: bool = True) -> Traced:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if self._sample is not None:
            return _row(self._notes, lambda x: x.astype(dtype), (self,))
        if self.dtype == _BOOL and dtype == _FLOAT32:
            return _tile(self._notes, "ones", (self,))
        raise Untraceable(f"{self.dtype} is made {dtype}")

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Traced:
        return _reduced("add", self, axis, dtype, out, keepdims)

    def reshape(self, *shape: Any) -> Traced:
        if self.shape is not None and shape in (tuple(self.shape), (tuple(self.shape),)):
            return self
        raise Untraceable("another shape is asked for")


def _tile(notes: _Notes, operation: str, arguments: Sequence[Any], dtype: np.dtype[Any] = _FLOAT32) -> Traced:
    """An operation of the helper on elements."""
    numbers: list[Union[int, _Number]] = []
    shape = None
    for item in arguments:
        if not isinstance(item, Traced):
            numbers.append(_constant(item))
            continue
        numbers.append(item._node)
        if item._sample is not None:
            if item.dtype != _FLOAT32:
                raise Untraceable("numbers of rows in float64 beside elements in float32")
        elif notes.axes:
            shape = item._shape() if shape is None else _common(shape, item._shape(), notes.axes)
            notes.check_width(shape)
    return Traced(notes, notes.add(_Node("tile", operation, tuple(numbers), dtype)), shape)


def _common(a: tuple[int, ...], b: tuple[int, ...], axes: int) -> tuple[int, ...]:
    if a[-axes:] != b[-axes:]:
        raise Untraceable("rows of two lengths")
    return a if len(a) >= len(b) else b


def _row(notes: _Notes, function: Callable[..., Any], arguments: Sequence[Any]) -> Traced:
    """A function of numbers of rows, which NumPy computes."""
    samples = [item._sample if isinstance(item, Traced) else item for item in arguments]
    with np.errstate(all="ignore"):
        sample = np.asarray(function(*samples))
    numbers = tuple(item._node if isinstance(item, Traced) else _Number(item) for item in arguments)
    return Traced(notes, notes.add(_Node("row", function, numbers, sample.dtype)), sample.shape, sample)


def _apply(notes: _Notes, ufunc: Any, inputs: Sequence[Any]) -> Traced:
    traced = [item for item in inputs if isinstance(item, Traced)]
    if any(isinstance(item, np.ndarray) and item.ndim for item in inputs):
        raise Untraceable("an array that is no input")
    name = ufunc.__name__
    if all(item._sample is not None for item in traced):
        return _row(notes, ufunc, inputs)
    masks = [isinstance(item, Traced) and item.dtype == _BOOL for item in inputs]
    if name in _LOGICAL and all(masks):
        return _tile(notes, _LOGICAL[name], inputs, _BOOL)
    if name in ("logical_not", "invert") and all(masks):
        return _tile(notes, "not", inputs, _BOOL)
    if (
        name in ("equal", "not_equal")
        and masks[0]
        and inputs[1] is not True
        and type(inputs[1]) in (int, bool)
        and not inputs[1]
    ):
        return traced[0] if name == "not_equal" else _tile(notes, "not", traced, _BOOL)
    if any(masks):
        if all(mask or not isinstance(item, Traced) for mask, item in zip(masks, inputs)):
            raise Untraceable(f"{name} of conditions")
        inputs = [_tile(notes, "ones", (item,)) if mask else item for mask, item in zip(masks, inputs)]
    if name in _BINARY or name in _UNARY:
        return _tile(notes, name, inputs)
    if name in _ORDERED:
        return _tile(notes, _ORDERED[name], inputs, _BOOL)
    if name in _TURNED:
        return _tile(notes, _TURNED[name], inputs[::-1], _BOOL)
    if name in _TESTS:
        return _tile(notes, name, inputs, _BOOL)
    if name == "fabs":
        return _tile(notes, "absolute", inputs)
    if name == "positive" or name == "conjugate":
        return traced[0]
    if name == "logical_not":
        return _tile(notes, "equal", (*inputs, 0.0), _BOOL)
    if name == "exp" and native.has_exp():
        return _tile(notes, name, inputs)
    if name in _OUTER.split():
        return Traced(
            notes, notes.add(_Node("outer", ufunc, (traced[0]._node,)), (name, traced[0]._node)), traced[0].shape
        )
    raise Untraceable(f"numpy.{name}")


def _reduced(
    name: str,
    x: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Traced:
    """The float64 sum or the maximum of rows, which keep their axes."""
    notes, shape = x._notes, x._shape()
    axes = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    wanted = {place % len(shape) for place in axes}
    if x._sample is not None or x.dtype != _FLOAT32 or out is not None or (where is not None and where is not True):
        raise Untraceable(f"{name}.reduce of something else than elements")
    if not notes.axes or wanted != set(range(len(shape) - notes.axes, len(shape))):
        raise Untraceable("a sum along other axes")
    kind: np.dtype[Any]
    if name == "add" and dtype is not None and np.dtype(dtype) == _FLOAT64 and initial is None:
        operation, kind = "row_sum", np.dtype(np.float64)
    elif name == "maximum" and dtype is None and (initial is None or initial == -np.inf):
        operation, kind = "row_max", np.dtype(np.float32)
    else:
        raise Untraceable(f"{name}.reduce in {dtype}")
    notes.check_width(shape)
    node = notes.add(_Node("reduce", operation, (x._node,), kind), (operation, x._node))
    made = Traced(notes, node, (1,) * len(shape), np.ones((1,) * len(shape), kind))
    return made if keepdims else _squeezed(made, tuple(range(len(shape) - notes.axes, len(shape))))


def _selected(condition: Any, a: Any, b: Any) -> Traced:
    """numpy.where."""
    traced = [item for item in (condition, a, b) if isinstance(item, Traced)]
    if all(item._sample is not None for item in traced):
        return _row(traced[0]._notes, np.where, (condition, a, b))
    if not isinstance(condition, Traced) or condition._sample is not None or condition.dtype != _BOOL:
        raise Untraceable("numpy.where of no mask")
    notes = condition._notes
    if not any(isinstance(item, Traced) or type(item) is np.float32 for item in (a, b)):
        raise Untraceable("a choice between two numbers")
    if any(isinstance(item, Traced) and item.dtype == _BOOL for item in (a, b)):
        raise Untraceable("a choice between conditions")
    return _tile(notes, "select", (condition, a, b))


def _clipped(x: Any, low: Any = None, high: Any = None) -> Traced:
    if not isinstance(x, Traced) or x._sample is not None or x.dtype != _FLOAT32:
        raise Untraceable("numpy.clip of no elements")
    if low is None or high is None:
        if low is None and high is None:
            return x
        return _tile(x._notes, "minimum" if low is None else "maximum", (x, high if low is None else low))
    return _tile(x._notes, "clip", (x, low, high))


def _moved(x: Traced, source: int, destination: int) -> Traced:
    if source % x.ndim != destination % x.ndim:
        raise Untraceable("axes are exchanged")
    return x


def _squeezed(x: Traced, axis: Any = None) -> Traced:
    if x._sample is None:
        raise Untraceable("numpy.squeeze of elements")
    return _row(x._notes, lambda values: np.squeeze(values, axis), (x,))


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _selected,
    np.clip: _clipped,
    np.moveaxis: _moved,
    np.squeeze: _squeezed,
    np.sum: lambda x, axis=None, dtype=None, out=None, **options: _reduced("add", x, axis, dtype, out, **options),
    np.max: lambda x, axis=None, out=None, **options: _reduced("maximum", x, axis, None, out, **options),
    np.atleast_1d: lambda x: x,
    np.isneginf: lambda x: _tile(x._notes, "equal", (x, -np.inf), _BOOL),
    np.isposinf: lambda x: _tile(x._notes, "equal", (x, np.inf), _BOOL),
}


# ------------------------------------------------------------------------------------------------------ programs


class _Operand(NamedTuple):
    """What an operand of a phase is: an input (from a column on), an output, a block of memory, or numbers of rows."""

    kind: str  # "input", "output", "scratch", "row" (read), "result" (written)
    number: int
    first: int = 0


class _Phase(NamedTuple):
    code: bytes
    instructions: int
    constants: bytes
    constant_count: int
    registers: int
    operands: list[_Operand]
    sums: int


class _Step(NamedTuple):
    """A function of NumPy between two phases."""

    node: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    source: Optional[_Operand]  # of a function of a block
    target: Optional[_Operand]


class Program:
    """A formula, ready to be run on blocks (``run``)."""

    def __init__(
        self,
        notes: _Notes,
        results: Sequence[Any],
        outputs: Sequence[Optional[np.dtype[Any]]],
        float32_inputs: Sequence[int],
    ) -> None:
        """``results``: what the formula returned; ``outputs``: the data types to round it to, None for one not wanted."""
        self._nodes = notes.nodes
        self._float32_inputs = frozenset(float32_inputs)
        self._stored: list[tuple[int, int]] = []  # output, node
        self._row_results: list[tuple[int, int]] = []
        for number, (result, dtype) in enumerate(zip(results, outputs)):
            if dtype is None:
                continue
            if not isinstance(result, Traced):
                raise Untraceable("a result that does not depend on the inputs")
            if result._sample is not None:
                self._row_results.append((number, result._node))
            elif dtype not in _WRITTEN or (dtype == _BOOL) != (result.dtype == _BOOL):
                raise Untraceable(f"{result.dtype} is rounded to {dtype}")
            else:
                self._stored.append((number, result._node))
        self._outputs = outputs
        self._levels = [0] * len(self._nodes)
        self._set_levels()
        self._blocks: dict[int, int] = {}  # the memory that keeps a node's values from phase to phase
        self._direct: dict[int, int] = {}  # outputs that a function of NumPy fills itself
        self._find_direct()
        self.phases: list[Union[_Phase, list[_Step]]] = self._made()
        self.single = len(self.phases) == 1 and not self._row_results
        self._row_inputs = [number for number, node in enumerate(self._nodes) if node.kind == "row_input"]
        self._block_count = 1 + max([-1, *self._blocks.values()])
        self.width = notes.width

    def _set_levels(self) -> None:
        """Helper and NumPy take turns: even phases are the helper's. Each node gets the first one that it can be in."""
        for number, node in enumerate(self._nodes):
            arguments = [a for a in node.arguments if not isinstance(a, _Number)]
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
            if alone and node.kind == "outer" and self._outputs[output] == _FLOAT32:
                self._direct[number] = output

    def _cheap(self, number: int) -> int:
        """The operations that make a value from inputs alone; many where it takes more."""
        node = self._nodes[number]
        if node.kind == "input":
            return 0
        if node.kind != "tile":
            return 99
        return 1 + sum(self._cheap(a) for a in node.arguments if not isinstance(a, _Number))

    def _made(self) -> list[Union[_Phase, list[_Step]]]:
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
        self._kept: dict[int, set[int]] = {}  # of each phase, the values to keep for later ones
        made: list[Union[_Phase, list[_Step]]] = []
        for level in range(end, -1, -1):
            if level % 2:
                made.append(self._steps(level))
            else:
                made.append(self._phase(level, stored if level == last else []))
        made.reverse()
        return [phase for phase in made if (phase.instructions if isinstance(phase, _Phase) else phase)]

    def _keep(self, number: int) -> int:
        """The memory for a node's values; that of its argument where a function of NumPy is the only one to use it."""
        if number not in self._blocks:
            node = self._nodes[number]
            if node.kind == "tile" or node.kind == "input":
                self._kept.setdefault(self._levels[number], set()).add(number)
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
            given = self._nodes[argument]
            if number in self._direct:
                target = _Operand("output", self._direct[number])
            elif number in self._blocks:
                target = _Operand("scratch", self._blocks[number])
            else:
                continue  # nobody uses it
            if given.kind == "input" and given.dtype == _FLOAT32 and self._plain(argument):
                source = _Operand("input", *given.what)
            else:
                alone = self._uses.count(argument) == 1 and given.kind == "tile" and target.kind == "scratch"
                if alone and argument not in self._blocks:  # NumPy's function works in place
                    self._blocks[argument] = target.number
                    self._kept.setdefault(self._levels[argument], set()).add(argument)
                source = _Operand("scratch", self._keep(argument))
            steps.append(_Step(number, node.what, (), source, target))
        return steps[::-1]

    def _plain(self, number: int) -> bool:
        """True for an input whose own memory is float32."""
        return self._nodes[number].what[0] in self._float32_inputs

    def _phase(self, level: int, stored: Sequence[tuple[int, int]]) -> _Phase:
        code: list[
            tuple[str, int, Sequence[int]]
        ] = []  # operation, target, arguments: values by number, operands below 0
        operands: list[_Operand] = []
        values: dict[Any, int] = {}
        constants: dict[bytes, int] = {}
        fixed: set[int] = set()  # values whose register is not given to others

        def operand(what: _Operand) -> int:
            if what not in operands:
                operands.append(what)
            return operands.index(what)

        def load(what: _Operand) -> int:
            value = len(values)
            values["load", what] = value
            fixed.add(value)
            code.append(("load", operand(what), (value,)))
            return value

        def emit(argument: Any) -> int:
            if isinstance(argument, _Number):
                key = ("constant", argument.value)
                if key not in values:
                    values[key] = len(values)
                    constants[argument.value] = values[key]
                return values[key]
            if argument in values:
                return values[argument]
            node = self._nodes[argument]
            if node.kind == "input":
                made = load(_Operand("input", *node.what))
            elif node.kind in ("row", "row_input", "reduce"):
                made = load(_Operand("row", argument))
            elif node.kind == "outer" or (self._levels[argument] < level and self._cheap(argument) > 4):
                made = load(_Operand("scratch", self._keep(argument)))
            else:
                given = [emit(a) for a in node.arguments]
                made = len(values)
                values[argument] = made
                code.append((node.what, made, given))
                return made
            values[argument] = made  # the same value under another name
            return made

        stores = [(emit(node), _Operand("output", output)) for output, node in stored]
        for number in sorted(self._kept.get(level, ())):
            stores.append((emit(number), _Operand("scratch", self._blocks[number])))
        for number, node in enumerate(self._nodes):
            if node.kind == "reduce" and self._levels[number] == level:
                source = emit(node.arguments[0])
                code.append((node.what, operand(_Operand("result", number)), (source,)))
        for value, what in stores:
            code.append(("store", operand(what), (value,)))
        return _encoded(code, constants, operands, fixed)

    def run(
        self, inputs: Sequence[Any], outputs: Sequence[Any], sizes: Sequence[int], lead: Sequence[int] = ()
    ) -> None:
        """Computes one block of ``sizes``, the last axis the innermost; axes along which an array repeats have size 1.

        Of a formula that works along rows the sizes are rows and columns, and ``lead`` is the shape of one number for each row;
        inputs and outputs with one number for each row have that shape.
        """
        memory = [scratch(f"programs.{number}", sizes, np.float32) for number in range(self._block_count)]
        found: dict[int, Array] = {number: inputs[self._nodes[number].what] for number in self._row_inputs}
        for phase in self.phases:
            if isinstance(phase, _Phase):
                self._run_phase(phase, inputs, outputs, sizes, memory, found, lead)
                continue
            for step in phase:
                if step.source is None or step.target is None:
                    given = (a.value if isinstance(a, _Number) else found[a] for a in step.arguments)
                    found[step.node] = np.asarray(step.function(*given))
                    continue
                source = memory[step.source.number] if step.source.kind == "scratch" else inputs[step.source.number]
                target = memory[step.target.number] if step.target.kind == "scratch" else outputs[step.target.number]
                step.function(source, out=target)
        for number, node in self._row_results:
            values, output = found[node], outputs[number]
            same = values.size == output.size
            round_into(output, values.reshape(output.shape) if same else np.broadcast_to(values, output.shape))

    def _run_phase(
        self,
        phase: _Phase,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        sizes: Sequence[int],
        memory: Sequence[Array],
        found: dict[int, Array],
        lead: Sequence[int],
    ) -> None:
        missing = (0,) * (DIMS - len(sizes))
        packed: list[int] = []
        used = []  # what must outlive the call
        for kind, number, first in phase.operands:
            if kind == "scratch":
                array = memory[number]
            elif kind == "input":
                array = inputs[number]
            elif kind == "output":
                array = outputs[number]
            else:
                if kind == "result":
                    array = found[number] = np.empty(lead, self._nodes[number].dtype)
                else:
                    array = np.ascontiguousarray(np.broadcast_to(found[number], lead))
                used.append(array)
                packed += (_address(array), _TYPES[array.dtype], *missing, array.itemsize, 0)
                continue
            steps = (0 if n == 1 else step for n, step in zip(array.shape, array.strides))
            packed += (_address(array) + first * array.strides[-1], _TYPES[array.dtype], *missing, *steps)
        row = scratch("programs.row", (phase.sums, sizes[-1]), np.float32) if phase.sums else None
        native.run_program(
            (phase.code, phase.instructions, phase.constants, phase.constant_count, phase.registers),
            struct.pack(f"{len(packed)}q", *packed),
            len(phase.operands),
            struct.pack("4q", *(1,) * len(missing), *sizes),
            0 if row is None else _address(row),
        )


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _encoded(
    code: Sequence[tuple[str, int, Sequence[int]]],
    constants: dict[bytes, int],
    operands: list[_Operand],
    fixed: set[int],
) -> _Phase:
    """Instructions with registers for values: constants first; a value's register is free after its last use."""
    code = _with_fused_products(code)
    last = {value: place for place, (_, _, values) in enumerate(code) for value in values}
    places = {value: number for number, value in enumerate(constants.values())}
    free: list[int] = []
    count = len(places)
    words: list[int] = []
    sums = 0
    for place, (operation, target, values) in enumerate(code):
        number = _NUMBERS[operation]
        if operation == "load":
            places[values[0]] = count
            words += (number, target, -1, -1, count)
            count += 1
            continue
        registers = [places[value] for value in values]
        done = [
            value
            for value in set(values)
            if last[value] == place and value not in fixed and places[value] >= len(constants)
        ]
        if operation not in ("store", "row_sum", "row_max"):
            late = operation in ("fmod", "remainder")  # which reads its operands after it has written
            if not late:
                free += [places[value] for value in done]
            if free:
                places[target] = free.pop()
            else:
                places[target] = count
                count += 1
            free += [places[value] for value in done] if late else []
            target = places[target]
        else:
            free += [places[value] for value in done]
        if operation == "row_sum":
            registers, sums = [*registers, -2 - sums], sums + 1
        words += (number, target, *registers, *[-1] * (3 - len(registers)))
    if count > _MOST_REGISTERS:
        raise Untraceable("too many values at a time")
    packed = struct.pack(f"{len(words)}i", *words)
    return _Phase(packed, len(code), b"".join(constants), len(constants), count, operands, sums)


def _with_fused_products(
    code: Sequence[tuple[str, int, Sequence[int]]],
) -> list[tuple[str, int, Sequence[int]]]:
    """With one instruction for a product and the sum that alone uses it; it rounds twice, as the two do."""
    uses = [value for _, _, values in code for value in values]
    products = {target: values for operation, target, values in code if operation == "multiply"}
    made: list[tuple[str, int, Sequence[int]]] = []
    dropped = set()
    for operation, target, values in code:
        if operation == "add":
            for value, other in (values, values[::-1]):
                if value in products and uses.count(value) == 1:
                    operation, values = "multiply_add", (*products[value], other)
                    dropped.add(value)
                    break
        made.append((operation, target, values))
    return [item for item in made if item[0] != "multiply" or item[1] not in dropped]


_MOST_REGISTERS = 48  # of 4 KB on the stack

# ------------------------------------------------------------------------------------------------------ made and kept


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
    if not native.runs_programs():
        return None
    key: list[Any] = [row_axes]
    for item in inputs:
        if isinstance(item, np.ndarray):
            if item.dtype not in _READ:
                return None
            key += (item.dtype, item.shape if row_axes else None)
        elif all(type(part) in _PLAIN for part in (item if isinstance(item, (list, tuple)) else (item,))):
            key.append((type(item), repr(item)))
        else:
            return None
    key += [None if output is None else output.dtype for output in outputs]
    found = tuple(key)
    try:
        with _lock:
            kept = _programs.setdefault(function, {})
    except TypeError:  # no weak references to it, such as a ufunc
        kept = _unreferenced.setdefault(id(function), {}) if isinstance(function, np.ufunc) else {}
    if found not in kept:
        if len(kept) >= _MOST_PROGRAMS:
            kept.clear()
        try:
            kept[found] = trace(function, inputs, outputs, row_axes, like)
        except Exception:  # whatever a formula does to a stand-in that it would not do to an array
            kept[found] = None
    return kept[found]


_unreferenced: dict[int, dict[Any, Optional[Program]]] = {}  # of NumPy's own functions, which stay


def trace(
    function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any], row_axes: int = 0, like: Any = None
) -> Program:
    """Runs a formula on stand-ins; Untraceable, or whatever the formula raises, where it has no program."""
    notes = _Notes(row_axes)
    arguments = list(inputs)
    for position, item in enumerate(inputs):
        if not isinstance(item, np.ndarray):
            continue
        dtype = _BOOL if item.dtype == _BOOL else _FLOAT32
        if row_axes and item.ndim == like.ndim and item.shape[-row_axes:] == (1,) * row_axes and item is not like:
            if dtype == _BOOL:
                raise Untraceable("conditions of rows")
            number = notes.add(_Node("row_input", position))
            arguments[position] = Traced(notes, number, (1,) * item.ndim, np.ones((1,) * item.ndim, np.float32))
        else:
            number = notes.add(_Node("input", (position, 0), (), dtype))
            arguments[position] = Traced(notes, number, item.shape if row_axes else None)
    with np.errstate(all="ignore"):
        results = function(*arguments)
    several = results if isinstance(results, tuple) else (results,)
    if len(several) != len(outputs):
        raise Untraceable("another number of results")
    floats = [n for n, item in enumerate(inputs) if isinstance(item, np.ndarray) and item.dtype == _FLOAT32]
    return Program(notes, several, [None if output is None else output.dtype for output in outputs], floats)


__all__ = ["DIMS", "Program", "Traced", "Untraceable", "program", "trace"]
