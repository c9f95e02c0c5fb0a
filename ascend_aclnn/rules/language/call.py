"""Call: what a rule sees of one call, and what a rule is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, NamedTuple, NoReturn, Optional, SupportsIndex, TypeVar, Union, overload

from ascend_aclnn.catalog import Operator, Parameter
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import PARAM_INVALID, Cause, RuleViolation
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import Soc
from ascend_aclnn.core.spec import TensorSpec

__all__ = [
    "GUARDS",
    "NZ",
    "Call",
    "Check",
    "Condition",
    "DtypeRule",
    "Refusal",
    "Shape",
    "ShapeRule",
    "Shapes",
    "Word",
    "carries",
    "dims_text",
    "is_transposed",
    "refusals_of",
    "refuses",
]

NZ = (Format.FRACTAL_NZ, Format.FRACTAL_NZ_C0_16, Format.FRACTAL_NZ_C0_32)

Shape = tuple[int, ...]
Shapes = Union[Shape, list[Shape], None]  # of an output: a tensor, a list of tensors, or none (a null pointer)


class ArgumentShape(tuple[int, ...]):
    """The shape of an argument: an axis that it does not have is a RuleViolation, not an IndexError."""

    parameter: Parameter
    tensor: TensorSpec

    @property
    def argument(self) -> str:
        return self.parameter.name

    @property
    def dtype(self) -> DataType:
        return self.tensor.dtype

    @property
    def format(self) -> Format:
        return self.tensor.format

    @property
    def rank(self) -> int:
        return len(self)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.tensor.size

    @property
    def empty(self) -> bool:
        return self.tensor.size == 0

    @property
    def contiguous(self) -> bool:
        return self.tensor.is_contiguous

    @property
    def transposed(self) -> bool:
        """The last two axes are stored in the other order."""
        return is_transposed(self.tensor)

    @property
    def unpacked(self) -> ArgumentShape:
        """The shape in elements: an INT32 counts as eight INT4, along the axis that is stored last."""
        return self._of_eights(DataType.INT4) if self.tensor.dtype is DataType.INT32 else self

    @property
    def unpacked_weight(self) -> ArgumentShape:
        """As ``unpacked``; a FLOAT, too, counts as eight FLOAT4."""
        return self._of_eights(DataType.FLOAT4_E2M1) if self.tensor.dtype is DataType.FLOAT else self.unpacked

    def _of_eights(self, dtype: DataType) -> ArgumentShape:
        axis = len(self) - (2 if self.transposed else 1)
        shape = ArgumentShape(n * 8 if i == axis else n for i, n in enumerate(self))
        shape.parameter, shape.tensor = self.parameter, TensorSpec(shape, dtype)
        return shape

    @property
    def nz(self) -> bool:
        """The tensor is stored in tiles, FRACTAL_NZ."""
        return self.tensor.format in NZ

    @property
    def storage(self) -> Shape:
        """The shape of the storage."""
        return self.tensor.storage_shape

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int: ...

    @overload
    def __getitem__(self, index: slice, /) -> Shape: ...

    def __getitem__(self, index: Union[SupportsIndex, slice], /) -> Union[int, Shape]:
        try:
            return tuple.__getitem__(self, index)
        except IndexError:
            detail = f"has shape {dims_text(self)}; it must have an axis {index}"
            text = f"{self.parameter.python_name} {detail}"
            raise RuleViolation(PARAM_INVALID, self.argument, text, check=f"{self.argument}/axis-missing") from None


class ArgumentItems(tuple[Any, ...]):
    """An array, or the shapes of a list of tensors: an item that it does not have is a RuleViolation."""

    parameter: Parameter

    @property
    def argument(self) -> str:
        return self.parameter.name

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Any: ...

    @overload
    def __getitem__(self, index: slice, /) -> tuple[Any, ...]: ...

    def __getitem__(self, index: Union[SupportsIndex, slice], /) -> Any:
        try:
            return tuple.__getitem__(self, index)
        except IndexError:
            detail = f"has {count_text(len(self), 'item')}; it must have an item {index}"
            text = f"{self.parameter.python_name} {detail}"
            raise RuleViolation(PARAM_INVALID, self.argument, text, check=f"{self.argument}/item-missing") from None


class Call:
    """What a rule sees of one call: values by C name, the operator, the SoC."""

    __slots__ = (
        "_shapes",
        "definitions",
        "known",
        "not_passed",
        "operator",
        "positions",
        "soc",
        "status",
        "values",
        "versions",
    )

    def __init__(self, operator: Operator, values: Sequence[Any], soc: Soc) -> None:
        self.operator = operator
        self.positions: Mapping[str, int] = operator.positions  # and those of the rule's aliases
        self.values: Any = values
        self.soc = soc
        self.status = PARAM_INVALID  # of the checks that run now
        self.definitions: Mapping[str, list[Any]] = {}  # the names that words of the rule define (see Word)
        self.known: dict[str, Any] = {}  # values of names in expressions, once one has asked for them
        self.versions: tuple[str, ...] = (operator.name,)  # the operators that share the rule
        self.not_passed: frozenset[str] = (
            frozenset()
        )  # outputs that are still to be inferred: nothing is checked of them
        self._shapes: dict[str, ArgumentShape] = {}

    def __getitem__(self, name: str) -> Any:
        """The value of a C parameter: TensorSpec, list, Scalar, tuple, str, number or None."""
        return self.values[self.positions[name]]

    def get(self, name: str) -> Any:
        """As ``call[name]``, None also where this version of the operator has no such parameter."""
        position = self.positions.get(name)
        return None if position is None else self.values[position]

    def is_present(self, name: str) -> bool:
        """False for a null pointer, and for a parameter that this version of the operator does not have."""
        position = self.positions.get(name)
        return position is not None and self.values[position] is not None

    def leave_out(self, name: str) -> None:
        """Lets an argument count as a null pointer from here on."""
        self.values = list(self.values)
        self.values[self.positions[name]] = None
        self._shapes.pop(name, None)
        self.known.pop(name, None)

    def shape(self, name: str, least: int = 0) -> ArgumentShape:
        """The shape of a tensor, () for a null pointer; RuleViolation where it has fewer than ``least`` axes."""
        shape = self._shapes.get(name)
        if shape is None:
            shape = self._shapes[name] = self._shape_of(name, self.values[self.positions[name]])
        if len(shape) < least:
            self.refuse(name, f"has shape {dims_text(shape)}; its rank must be at least {least}", check="rank-missing")
        return shape

    def _shape_of(self, name: str, tensor: Any) -> ArgumentShape:
        shape = ArgumentShape(tensor.shape if isinstance(tensor, TensorSpec) else ())
        shape.parameter, shape.tensor = self.operator.parameters[self.positions[name]], tensor
        return shape

    def argument(self, name: str) -> Any:
        """What a parameter stands for in an expression."""
        if name not in self.known:
            self.known[name] = self._argument(name, self[name])
        return self.known[name]

    def _argument(self, name: str, value: Any) -> Any:
        if isinstance(value, TensorSpec):
            return self.shape(name)
        if isinstance(value, Scalar):
            return value.value
        if isinstance(value, (tuple, list)):
            parts = [self._shape_of(name, part) if isinstance(part, TensorSpec) else part for part in value]
            items = ArgumentItems(part.value if isinstance(part, Scalar) else part for part in parts)
            items.parameter = self.operator.parameters[self.positions[name]]
            return items
        return value

    def sizes(self, name: str, rank: int) -> ArgumentShape:
        """The shape of a tensor, to unpack; RuleViolation where it has another rank."""
        shape = self.shape(name)
        if len(shape) != rank:
            self.refuse(name, f"has shape {dims_text(shape)}; its rank must be {rank}", check="rank-missing")
        return shape

    def size(self, name: str, axis: int) -> int:
        """The size of one axis of a tensor; RuleViolation where it has no such axis."""
        shape = self.shape(name)
        if not -len(shape) <= axis < len(shape):
            self.refuse(name, f"has shape {dims_text(shape)}; it must have an axis {axis}", check="axis-missing")
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
        position = self.positions.get(name)
        value = None if position is None else self.values[position]
        if isinstance(value, TensorSpec):
            return [value]
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
            self.refuse(
                name, f"has {count_text(len(items), 'tensor')}; it must have at least {least}", check="item-missing"
            )
        for position, item in enumerate(items):
            if item is None:
                self.refuse(name, f"[{position}] is None (a null pointer); it is required", check="needed")
        return list(items)

    def shapes(self, name: str, least_rank: int = 0) -> list[Shape]:
        """The shapes of the tensors of a list; RuleViolation where one has fewer than ``least_rank`` axes."""
        shapes = [tensor.shape for tensor in self.items(name)]
        for position, shape in enumerate(shapes):
            if len(shape) < least_rank:
                text = f"[{position}] has shape {dims_text(shape)}; its rank must be at least {least_rank}"
                self.refuse(name, text, check="rank-missing")
        return shapes

    def refuse(
        self,
        argument: Optional[str],
        detail: str,
        status: Optional[int] = None,
        cause: Optional[Cause] = None,
        *,
        check: str = "",
        of: Optional[str] = None,
    ) -> NoReturn:
        """Fails phase one. ``detail`` follows the argument's name: "has dtype X; it must be Y".

        ``check`` is the kind of check, and a word for the condition where several share it (see ``Refusal``); ``of`` the
        argument in its identifier, where that is not the one to blame. Without ``check`` the refusal has no identifier.
        """
        gap = "" if detail.startswith("[") else " "
        text = f"{self.python_name(argument)}{gap}{detail}" if argument else detail
        name = self.c_name(argument) if argument else argument
        checked = of or argument
        identifier = f"{self.c_name(checked)}/{check}" if check and checked else check
        raise RuleViolation(self.status if status is None else status, name, text, cause, identifier)

    def require(
        self, condition: bool, argument: Optional[str], detail: str, status: Optional[int] = None, *, check: str = ""
    ) -> None:
        """Fails phase one unless the condition holds."""
        if not condition:
            self.refuse(argument, detail, status, check=check)

    def c_name(self, argument: str) -> str:
        position = self.positions.get(argument)
        return argument if position is None else self.operator.parameters[position].name

    def python_name(self, argument: str) -> str:
        position = self.positions.get(argument)
        return argument if position is None else self.operator.parameters[position].python_name


Condition = Callable[[Call], bool]
Check = Callable[[Call], None]  # raises RuleViolation through call.refuse or call.require
ShapeRule = Callable[[Call], Shapes]
DtypeRule = Callable[[Call], DataType]


class Refusal(NamedTuple):
    """One reason for which a rule refuses a call: "aclnnMm/mat2/shape/inner" without the operator.

    ``check`` is the kind of check, and words that tell checks of a kind apart. ``argument`` is a name of the rule; "" for
    the operator itself, "*" for each tensor of which its document says something.
    """

    argument: str
    check: str
    source: str = ""  # where the check comes from, if not the operator's document
    status: int = 0  # that of the group it stands in, 0 for the usual one
    applies: Optional[Callable[[Operator], bool]] = None  # to which of the operators that share the rule
    condition: Any = None  # the Expression of a condition, which says the kind, and the words unless ``check`` does
    places: tuple[Any, ...] = ()  # the groups it stands in, from the inside: a word, or the Expression of a condition
    limits: tuple[Any, ...] = ()  # the numbers, or other values, with which it compares: of ranges, ranks, lengths
    other: str = ""  # the argument with which it compares


# What any expression may find missing in an argument. Such refusals have identifiers, and no list names them.
GUARDS = frozenset(
    {"axis-missing", "item-missing", "rank-missing", "needed", "division", "fit", "known", "layout-rank", "real"}
)

_Marked = TypeVar("_Marked", bound=Callable[..., Any])


def refusals_of(source: Any) -> list[Refusal]:
    """The refusals of a word, or of what infers a shape or data type."""
    refusals: list[Refusal] = getattr(source, "refusals", [])
    return refusals


def refuses(
    check: str,
    *names: str,
    status: Optional[int] = None,
    carry: Iterable[Any] = (),
    limits: Iterable[Any] = (),
    other: str = "",
) -> Callable[[_Marked], _Marked]:
    """Marks a function with its refusals: a check of the named arguments, and those of what it calls (``carry``)."""
    refusals = [Refusal(name, check, status=status or 0, limits=tuple(limits), other=other) for name in names]
    return carries(refusals, *carry)


def carries(*sources: Any) -> Callable[[_Marked], _Marked]:
    """Marks a function with the refusals of what it calls, or with lists of them."""

    def mark(function: _Marked) -> _Marked:
        listed = [source if isinstance(source, list) else refusals_of(source) for source in sources]
        function.__dict__["refusals"] = [*refusals_of(function), *(refusal for some in listed for refusal in some)]
        return function

    return mark


class Word:
    """One statement of a rule: what it checks (by being called) and what it infers about outputs.

    ``shapes`` and ``dtypes`` are what it infers, by C name of an output, each with the condition under which it holds
    (None: always). ``checks`` is False where it only infers; ``definitions`` are names that
    expressions of the rule may use, with their Expressions.
    """

    checks = True
    shapes: dict[str, list[tuple[Optional[Condition], ShapeRule]]]
    dtypes: dict[str, list[tuple[Optional[Condition], DtypeRule]]]
    definitions: dict[str, list[tuple[Optional[Condition], Any]]]
    conditional: dict[
        str, list[tuple[Optional[Condition], Condition]]
    ]  # when outputs are computed, see conditional_outputs
    expressions: list[Any]  # all of the word's, for tools that read rules
    refusals: list[Refusal]

    def __init__(self) -> None:
        self.refusals = []
        self.shapes, self.dtypes, self.definitions, self.conditional, self.expressions = {}, {}, {}, {}, []

    def __call__(self, call: Call) -> None:
        """RuleViolation where the call breaks the statement."""

    def settled(self, operator: Operator, product: str) -> Sequence[Check]:
        """The checks that are left of the word for calls of an operator on a product."""
        return (self,)


def settled(words: Iterable[Check], operator: Operator, product: str) -> list[Check]:
    """Checks without what an operator and a product rule out, and without groups that always apply."""
    return [c for w in words for c in (w.settled(operator, product) if isinstance(w, Word) else (w,))]


def make_checks(words: Iterable[Check], call: Call) -> None:
    """Makes checks in their order, without those that are about outputs that the call does not pass."""
    for word in words:
        try:
            word(call)
        except RuleViolation as violation:
            if violation.argument not in call.not_passed:
                raise


def dims_text(sizes: Sequence[int]) -> str:
    """A shape as messages have it: (2, 3), (4,)."""
    return "(" + ", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "") + ")"


def count_text(count: int, noun: str) -> str:
    """A number of things: 1 tensor, 2 tensors."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def is_transposed(tensor: TensorSpec) -> bool:
    """The last two axes are stored in the other order (and are not both of size 1)."""
    if tensor.ndim < 2:
        return False
    m, n = tensor.shape[-2:]
    if (tensor.strides[-2], tensor.strides[-1]) != (1, m) or (m, n) == (1, 1):
        return False
    step = m * n
    for size, stride in zip(tensor.shape[-3::-1], tensor.strides[-3::-1]):
        if stride != step:
            return False
        step *= size
    return True
