"""Call: what a rule sees of one call, and what a rule is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, NoReturn, Optional, SupportsIndex, Union, overload

from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_INVALID, RuleViolation
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import Soc
from ascend_aclnn.core.spec import TensorSpec

Shape = tuple[int, ...]
Shapes = Union[Shape, list[Shape], None]  # of an output: a tensor, a list of tensors, or none (a null pointer)


class ArgumentShape(tuple[int, ...]):
    """The shape of an argument: an axis that it does not have is a RuleViolation, not an IndexError."""

    argument: str
    python_name: str

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int: ...

    @overload
    def __getitem__(self, index: slice, /) -> Shape: ...

    def __getitem__(self, index: Union[SupportsIndex, slice], /) -> Union[int, Shape]:
        try:
            return tuple.__getitem__(self, index)
        except IndexError:
            detail = f"has shape {dims_text(self)}; it must have an axis {index}"
            raise RuleViolation(PARAM_INVALID, self.argument, f"{self.python_name} {detail}") from None


class Call:
    """What a rule sees of one call: values by C name, the operator, the SoC."""

    __slots__ = ("_shapes", "operator", "soc", "status", "values")

    def __init__(self, operator: Operator, values: Sequence[Any], soc: Soc) -> None:
        self.operator = operator
        self.values = values
        self.soc = soc
        self.status = PARAM_INVALID  # of the checks that run now
        self._shapes: dict[str, ArgumentShape] = {}

    def __getitem__(self, name: str) -> Any:
        """The value of a C parameter: TensorSpec, list, Scalar, tuple, str, number or None."""
        return self.values[self.operator.positions[name]]

    def is_present(self, name: str) -> bool:
        """False for a null pointer."""
        return self[name] is not None

    def shape(self, name: str, least: int = 0) -> ArgumentShape:
        """The shape of a tensor, () for a null pointer; RuleViolation where it has fewer than ``least`` axes."""
        shape = self._shapes.get(name)
        if shape is None:
            tensor = self[name]
            shape = ArgumentShape(tensor.shape if isinstance(tensor, TensorSpec) else ())
            shape.argument, shape.python_name = name, self.python_name(name)
            self._shapes[name] = shape
        if len(shape) < least:
            self.refuse(name, f"has shape {dims_text(shape)}; its rank must be at least {least}")
        return shape

    def sizes(self, name: str, rank: int) -> ArgumentShape:
        """The shape of a tensor, to unpack; RuleViolation where it has another rank."""
        shape = self.shape(name)
        if len(shape) != rank:
            self.refuse(name, f"has shape {dims_text(shape)}; its rank must be {rank}")
        return shape

    def size(self, name: str, axis: int) -> int:
        """The size of one axis of a tensor; RuleViolation where it has no such axis."""
        shape = self.shape(name)
        if not -len(shape) <= axis < len(shape):
            self.refuse(name, f"has shape {dims_text(shape)}; it must have an axis {axis}")
        return shape[axis]

    def is_empty(self, name: str) -> bool:
        """True for a tensor without elements; a null pointer is none."""
        return any(tensor.size == 0 for tensor in self.tensors(name))

    def dtype(self, name: str) -> DataType:
        """Data type of a tensor or scalar, or of the first tensor of a list."""
        value = self[name]
        if isinstance(value, list):
            value = value[0] if value else None
        return value.dtype if isinstance(value, (TensorSpec, Scalar)) else DataType.DT_UNDEFINED

    def tensors(self, name: str) -> list[TensorSpec]:
        """The tensors of a parameter: one, those of a list, or none for a null pointer."""
        value = self[name]
        if value is None:
            return []
        return [t for t in value if t is not None] if isinstance(value, list) else [value]

    @property
    def product(self) -> str:
        """The family of the SoC: A2, A3, 310P, 910, 310B or 950."""
        return self.soc.product

    def items(self, name: str, least: int = 1) -> list[TensorSpec]:
        """The tensors of a list; RuleViolation where it has fewer than ``least``, or a null pointer."""
        value = self[name]
        items = [value] if isinstance(value, TensorSpec) else value or []
        if len(items) < least:
            self.refuse(name, f"has {count_text(len(items), 'tensor')}; it must have at least {least}")
        for position, item in enumerate(items):
            if item is None:
                self.refuse(name, f"[{position}] is None (a null pointer); it is required")
        return list(items)

    def shapes(self, name: str, least_rank: int = 0) -> list[Shape]:
        """The shapes of the tensors of a list; RuleViolation where one has fewer than ``least_rank`` axes."""
        shapes = [tensor.shape for tensor in self.items(name)]
        for position, shape in enumerate(shapes):
            if len(shape) < least_rank:
                text = f"[{position}] has shape {dims_text(shape)}; its rank must be at least {least_rank}"
                self.refuse(name, text)
        return shapes

    def refuse(self, argument: Optional[str], detail: str, status: Optional[int] = None) -> NoReturn:
        """Fails phase one. ``detail`` follows the argument's name: "has dtype X; it must be Y"."""
        gap = "" if detail.startswith("[") else " "
        text = f"{self.python_name(argument)}{gap}{detail}" if argument else detail
        raise RuleViolation(self.status if status is None else status, argument, text)

    def require(self, condition: bool, argument: Optional[str], detail: str, status: Optional[int] = None) -> None:
        """Fails phase one unless the condition holds."""
        if not condition:
            self.refuse(argument, detail, status)

    def python_name(self, argument: str) -> str:
        position = self.operator.positions.get(argument)
        return argument if position is None else self.operator.parameters[position].python_name


Condition = Callable[[Call], bool]
Check = Callable[[Call], None]  # raises RuleViolation through call.refuse or call.require
ShapeRule = Callable[[Call], Shapes]
DtypeRule = Callable[[Call], DataType]


class Word:
    """One statement of a rule: what it checks (by being called) and what it tells about outputs.

    ``shapes`` and ``dtypes`` are what it tells, by C name of an output, each with the condition under which it holds
    (None: always). ``checks`` is False where it only tells.
    """

    checks = True

    def __init__(self) -> None:
        self.shapes: dict[str, list[tuple[Optional[Condition], ShapeRule]]] = {}
        self.dtypes: dict[str, list[tuple[Optional[Condition], DtypeRule]]] = {}

    def __call__(self, call: Call) -> None:
        """RuleViolation where the call breaks the statement."""


def dims_text(sizes: Sequence[int]) -> str:
    """A shape as messages have it: (2, 3), (4,)."""
    return "(" + ", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "") + ")"


def count_text(count: int, noun: str) -> str:
    """A number of things: 1 tensor, 2 tensors."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
