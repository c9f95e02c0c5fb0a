"""Traces a formula of NumPy: it runs on stand-ins (``Traced``), which record its operations.

Each stand-in has the number of a ``Node``: an input, an operation on elements, a sum or maximum of rows, a function of such
numbers. Operations that programs lack raise ``Untraceable``. This module knows no operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics.threads import Array

FLOAT32, FLOAT64, BOOL = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.bool_)

# Operations on elements, which have the names of NumPy's functions.
_BINARY = frozenset(["add", "subtract", "multiply", "divide", "maximum", "minimum", "copysign", "fmod", "remainder"])
_UNARY = frozenset(["negative", "absolute", "sqrt", "square", "reciprocal", "rint", "floor", "ceil", "trunc", "sign"])
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


class Untraceable(Exception):
    """A formula does something that programs cannot do."""


class Node(NamedTuple):
    """One value of a formula.

    ``kind``: "input" (``what``: its position and first column), "tile" (``what``: an operation of the helper), "outer" (a
    function of NumPy on a block), "reduce" (an operation of the helper that gives a number for each row), "row" (a function of
    NumPy on such numbers), "row_input" (a position).
    """

    kind: str
    what: Any
    arguments: tuple[Any, ...] = ()  # numbers of nodes; Number for constants
    dtype: np.dtype[Any] = FLOAT32
    ndim: int = 0  # of numbers of rows: without the axes that were worked along, or with them


class Number(NamedTuple):
    value: Any


class Notes:
    """The operations of a formula so far."""

    def __init__(self, axes: int) -> None:
        self.nodes: list[Node] = []
        self.node_by_key: dict[Any, int] = {}
        self.width = 0  # elements in a row
        self.axes = axes  # the last axes, which the formula works along; 0 for one that is element-wise

    def check_width(self, shape: tuple[int, ...]) -> None:
        """All operations are on rows of one length."""
        width = int(np.prod(shape[-self.axes :]))
        if self.width not in (0, width):
            raise Untraceable("rows of two lengths")
        self.width = width

    def add(self, node: Node, key: Any = None) -> int:
        """The number of a node; equal operations on tiles are one node."""
        if key is None:
            key = node if node.kind == "tile" else None
        if key is not None and key in self.node_by_key:
            return self.node_by_key[key]
        self.nodes.append(node)
        if key is not None:
            self.node_by_key[key] = len(self.nodes) - 1
        return len(self.nodes) - 1


def _constant(value: Any) -> Number:
    """A number beside a float32 array, as NumPy converts it."""
    if type(value) in (int, float):
        with np.errstate(all="ignore"):
            value = np.float32(value)
    elif type(value) is np.ndarray and not value.ndim:
        value = value[()]
    if type(value) is not np.float32:
        raise Untraceable(f"a number of type {type(value).__name__}")
    return Number(value.tobytes())


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """Stands for an array of a formula: matrices and masks of elements, or one number for each row."""

    __slots__ = ("_node", "_notes", "_sample", "dtype", "shape")

    def __init__(
        self, notes: Notes, node: int, shape: Optional[tuple[int, ...]], sample: Optional[Array] = None
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
            if ufunc is not np.maximum or out is not None:
                raise Untraceable(f"{ufunc.__name__}.reduce, of which numerics.sum_over is the one for sums")
            return _largest(*inputs, **options)
        if method != "__call__" or options:
            raise Untraceable(f"{ufunc.__name__}.{method} with {options}")
        traced = _apply(self._notes, ufunc, inputs)
        if out is None:
            return traced
        target = out[0]
        if (
            not isinstance(target, Traced)
            or target.dtype != traced.dtype
            or (target._sample is None) != (traced._sample is None)
        ):
            raise Untraceable("a result is stored into another array")
        target._node, target._sample = traced._node, traced._sample
        return target

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        traced_function = _FUNCTIONS.get(function)
        if traced_function is None:
            raise Untraceable(f"numpy.{function.__name__}")
        return traced_function(*arguments, **options)

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
            return _row(self._notes, as_type, (self, dtype))
        if self.dtype == BOOL and dtype == FLOAT32:
            return _tile(self._notes, "ones", (self,))
        raise Untraceable(f"{self.dtype} is made {dtype}")

    def row_sum(self, axes: Optional[Sequence[int]], keepdims: bool, squared: bool = False) -> Traced:
        """The float64 sums of rows, or of their squares: ``numerics.sum_over`` and ``sum_of_squares``."""
        return _of_rows("row_squares" if squared else "row_sum", self, axes, keepdims)

    def normal_distribution(self) -> Traced:
        """The helper's operation for what ``reference._special`` computes step by step."""
        return _tile(self._notes, "normal", (self,))

    def reshape(self, *shape: Any) -> Traced:
        if self.shape is not None and shape in (tuple(self.shape), (tuple(self.shape),)):
            return self
        raise Untraceable("another shape is asked for")


def _tile(notes: Notes, operation: str, arguments: Sequence[Any], dtype: np.dtype[Any] = FLOAT32) -> Traced:
    """An operation of the helper on elements."""
    numbers: list[Union[int, Number]] = []
    shape = None
    for item in arguments:
        if not isinstance(item, Traced):
            numbers.append(_constant(item))
            continue
        numbers.append(item._node)
        if item._sample is not None:
            if item.dtype != FLOAT32:
                raise Untraceable("numbers of rows in float64 beside elements in float32")
        elif notes.axes:
            shape = item._shape() if shape is None else _common(shape, item._shape(), notes.axes)
            notes.check_width(shape)
    logistic = _logistic_argument(notes, operation, numbers)
    if logistic is not None:
        operation, numbers = "logistic", [logistic]
    return Traced(notes, notes.add(Node("tile", operation, tuple(numbers), dtype)), shape)


_ONE = Number(np.float32(1).tobytes())


def _logistic_argument(notes: Notes, operation: str, arguments: Sequence[Any]) -> Optional[int]:
    """x where the quotient is 1 / (1 + exp(-x)), which the helper computes without storing intermediate values."""
    for name in ("divide", "add", "exp", "negative"):
        others = [a for a in arguments if a != _ONE]
        wanted = 2 if name in ("divide", "add") else 1
        if operation != name or len(arguments) != wanted or len(others) != 1 or isinstance(others[0], Number):
            return None
        if name == "divide" and arguments[0] != _ONE:
            return None
        number: int = others[0]
        operation, arguments = notes.nodes[number].what, notes.nodes[number].arguments
    return number


def _common(a: tuple[int, ...], b: tuple[int, ...], axes: int) -> tuple[int, ...]:
    if a[-axes:] != b[-axes:]:
        raise Untraceable("rows of two lengths")
    return a if len(a) >= len(b) else b


def _row(notes: Notes, function: Callable[..., Any], arguments: Sequence[Any]) -> Traced:
    """A function of numbers of rows, which NumPy computes."""
    samples = [item._sample if isinstance(item, Traced) else item for item in arguments]
    with np.errstate(all="ignore"):
        sample = np.asarray(function(*samples))
    numbers = tuple(item._node if isinstance(item, Traced) else Number(item) for item in arguments)
    number = notes.add(Node("row", function, numbers, sample.dtype, sample.ndim))
    return Traced(notes, number, sample.shape, sample)


def _apply(notes: Notes, ufunc: Any, inputs: Sequence[Any]) -> Traced:
    traced = [item for item in inputs if isinstance(item, Traced)]
    if any(isinstance(item, np.ndarray) and item.ndim for item in inputs):
        raise Untraceable("an array that is no input")
    name = ufunc.__name__
    if all(item._sample is not None for item in traced):
        return _row(notes, ufunc, inputs)
    masks = [isinstance(item, Traced) and item.dtype == BOOL for item in inputs]
    if name in _LOGICAL and all(masks):
        return _tile(notes, _LOGICAL[name], inputs, BOOL)
    if name in ("logical_not", "invert") and all(masks):
        return _tile(notes, "not", inputs, BOOL)
    if (
        name in ("equal", "not_equal")
        and masks[0]
        and inputs[1] is not True
        and type(inputs[1]) in (int, bool)
        and not inputs[1]
    ):
        return traced[0] if name == "not_equal" else _tile(notes, "not", traced, BOOL)
    if any(masks):
        if all(mask or not isinstance(item, Traced) for mask, item in zip(masks, inputs)):
            raise Untraceable(f"{name} of conditions")
        inputs = [_tile(notes, "ones", (item,)) if mask else item for mask, item in zip(masks, inputs)]
    if name in _BINARY or name in _UNARY:
        return _tile(notes, name, inputs)
    if name in _ORDERED:
        return _tile(notes, _ORDERED[name], inputs, BOOL)
    if name in _TURNED:
        return _tile(notes, _TURNED[name], inputs[::-1], BOOL)
    if name in _TESTS:
        return _tile(notes, name, inputs, BOOL)
    if name == "fabs":
        return _tile(notes, "absolute", inputs)
    if name == "positive" or name == "conjugate":
        return traced[0]
    if name == "logical_not":
        return _tile(notes, "equal", (*inputs, 0.0), BOOL)
    if name in ("exp", "log") and native.has(name):
        return _tile(notes, name, inputs)
    if name in _OUTER.split():
        return Traced(
            notes, notes.add(Node("outer", ufunc, (traced[0]._node,)), (name, traced[0]._node)), traced[0].shape
        )
    raise Untraceable(f"numpy.{name}")


def _largest(x: Traced, axis: Any = 0, keepdims: bool = False, **options: Any) -> Traced:
    """numpy.max, of nothing -infinity."""
    if any(value is not None and (name, value) not in _HARMLESS for name, value in options.items()):
        raise Untraceable(f"maximum.reduce with {options}")
    return _of_rows("row_max", x, axis, keepdims)


_HARMLESS = (("initial", -np.inf), ("where", True))


def _of_rows(operation: str, x: Traced, axis: Any, keepdims: bool) -> Traced:
    """An operation that makes one number of each row."""
    notes, shape = x._notes, x._shape()
    axes = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    rows = range(len(shape) - notes.axes, len(shape))
    if x._sample is not None or x.dtype != FLOAT32:
        raise Untraceable(f"{operation} of something else than elements")
    if not notes.axes or {place % len(shape) for place in axes} != set(rows):
        raise Untraceable(f"{operation} along other axes")
    notes.check_width(shape)
    kind = FLOAT32 if operation == "row_max" else FLOAT64
    if kind == FLOAT64 and notes.width > native.LONG_ROW and not native.adds_long_rows():
        raise Untraceable("rows that this NumPy adds up in parts")
    number = notes.add(Node("reduce", operation, (x._node,), kind, len(shape)), (operation, x._node))
    traced = Traced(notes, number, (1,) * len(shape), np.ones((1,) * len(shape), kind))
    return traced if keepdims else _squeezed(traced, tuple(rows))


def as_type(x: Any, dtype: Any) -> Any:
    """Numbers of rows in another data type."""
    return x.astype(dtype)


def _selected(condition: Any, a: Any, b: Any) -> Traced:
    """numpy.where."""
    traced = [item for item in (condition, a, b) if isinstance(item, Traced)]
    if all(item._sample is not None for item in traced):
        return _row(traced[0]._notes, np.where, (condition, a, b))
    if not isinstance(condition, Traced) or condition._sample is not None or condition.dtype != BOOL:
        raise Untraceable("numpy.where of no mask")
    notes = condition._notes
    if not any(isinstance(item, Traced) or type(item) is np.float32 for item in (a, b)):
        raise Untraceable("a choice between two numbers")
    if any(isinstance(item, Traced) and item.dtype == BOOL for item in (a, b)):
        raise Untraceable("a choice between conditions")
    return _tile(notes, "select", (condition, a, b))


def _clipped(x: Any, low: Any = None, high: Any = None) -> Traced:
    if not isinstance(x, Traced) or x._sample is not None or x.dtype != FLOAT32:
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
    named = {place % x.ndim for place in ((axis,) if isinstance(axis, int) else axis or ())}
    if named == set(range(x.ndim - x._notes.axes, x.ndim)):
        return _row(x._notes, np.squeeze, (x, tuple(named)))
    return _row(x._notes, lambda values: np.squeeze(values, axis), (x,))


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _selected,
    np.clip: _clipped,
    np.moveaxis: _moved,
    np.squeeze: _squeezed,
    np.max: lambda x, axis=None, out=None, **options: _largest(x, axis, out=out, **options),
    np.atleast_1d: lambda x: x,
    np.isneginf: lambda x: _tile(x._notes, "equal", (x, -np.inf), BOOL),
    np.isposinf: lambda x: _tile(x._notes, "equal", (x, np.inf), BOOL),
}


def wanted(
    results: Sequence[Any], outputs: Sequence[Optional[np.dtype[Any]]]
) -> Iterator[tuple[int, Traced, np.dtype[Any]]]:
    """Of each result that has an output: its number, the result, and the data type of the output."""
    for number, (result, dtype) in enumerate(zip(results, outputs)):
        if dtype is None:
            continue
        if not isinstance(result, Traced):
            raise Untraceable("a result that does not depend on the inputs")
        yield number, result, dtype


__all__ = ["BOOL", "FLOAT32", "FLOAT64", "Node", "Notes", "Number", "Traced", "Untraceable", "as_type", "wanted"]
