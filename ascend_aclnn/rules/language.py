"""The words in which rules are written.

A rule is a sequence of checks in the order CANN applies them, most of them one word with the C names they are about:

    rule("aclnnAdd",
         dtypes("FLOAT FLOAT16 INT32 ...", "self", "other"),
         castable(promoted("self", "other"), "out"),
         max_rank(8, "self", "other"),
         shape(out=broadcast("self", "other")),
         result(out=promoted("self", "other")))

Null pointers (161001) are checked first and need no word: every pointer that the catalog does not call optional must be
there. ``shape`` both checks an output and tells binding what to allocate; ``infer`` only tells. A check is any function of
a ``Call`` that calls ``call.refuse(...)`` when it finds something wrong; ``tiling(...)`` gives what stands in it CANN's
tiling status (561002), which is never reached when all outputs are empty.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Callable, NoReturn, Optional, Union

from ascend_aclnn.catalog import Kind, Operator, Parameter
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import (
    INNER_NULLPTR,
    PARAM_INVALID,
    PARAM_NULLPTR,
    RUNTIME_ERROR,
    TILING_ERROR,
    RuleViolation,
)
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import Soc
from ascend_aclnn.core.spec import TensorSpec

Shape = tuple[int, ...]
Shapes = Union[Shape, list[Shape], None]  # of an output: a tensor, a list of tensors, or none (a null pointer)


OutputSpecs = Union[TensorSpec, list[TensorSpec], None]  # what binding allocates: a tensor, a list, a null pointer


class Call:
    """What a rule sees of one call: values by C name, the operator, the chip."""

    __slots__ = ("operator", "soc", "status", "values")

    def __init__(self, operator: Operator, values: Sequence[Any], soc: Soc) -> None:
        self.operator = operator
        self.values = values
        self.soc = soc
        self.status = PARAM_INVALID

    def __getitem__(self, name: str) -> Any:
        """The value of a C parameter: TensorSpec, list, Scalar, tuple, str, number or None."""
        return self.values[self.operator.positions[name]]

    def given(self, name: str) -> bool:
        return self[name] is not None

    def shape(self, name: str) -> Shape:
        tensor = self[name]
        return tensor.shape if isinstance(tensor, TensorSpec) else ()

    def size(self, name: str, axis: int) -> int:
        """The size of one axis of a tensor; RuleViolation where it has no such axis."""
        sizes = self.shape(name)
        if not -len(sizes) <= axis < len(sizes):
            self.refuse(name, f"has rank {len(sizes)} (shape {_dims(sizes)}); it needs axis {axis}")
        return sizes[axis]

    def empty(self, name: str) -> bool:
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
        return self.soc.product

    def refuse(self, argument: Optional[str], detail: str, status: Optional[int] = None) -> NoReturn:
        """Fails phase one. ``detail`` goes behind the argument's name: "has dtype X; it must be Y"."""
        text = f"{self.python_name(argument)} {detail}" if argument else detail
        raise RuleViolation(self.status if status is None else status, argument, text)

    def require(self, condition: bool, argument: Optional[str], detail: str, status: Optional[int] = None) -> None:
        if not condition:
            self.refuse(argument, detail, status)

    def python_name(self, argument: str) -> str:
        position = self.operator.positions.get(argument)
        return argument if position is None else self.operator.parameters[position].python_name


Check = Callable[[Call], None]
ShapeRule = Callable[[Call], Shapes]
DtypeRule = Callable[[Call], DataType]
# Data types: names in one string, the same for some products ({"A2 A3": "...", "": "the others"}), or a function.
DtypeSet = Union[str, dict[str, str]]


class Rule:
    """Checks in CANN's order, and what is known of the outputs."""

    def __init__(
        self,
        name: str,
        checks: Sequence[Check],
        nullable: str = "",
        required: str = "",
        null_status: int = PARAM_NULLPTR,
    ) -> None:
        self.name = name
        self.null_status = null_status
        self.checks = tuple(c for c in checks if not isinstance(c, (_Shape, _Result)) or c.is_check)
        self.shapes = {k: v for c in checks if isinstance(c, _Shape) for k, v in c.rules.items()}
        self.dtypes = {k: v for c in checks if isinstance(c, _Result) for k, v in c.rules.items()}
        self.nullable = frozenset(nullable.split())
        self.required = frozenset(required.split())

    def check(self, call: Call) -> None:
        """RuleViolation at the first thing that CANN's phase one would refuse."""
        self._check_null(call, call.operator.parameters)
        for word in self.checks:
            word(call)

    def _check_null(self, call: Call, parameters: Sequence[Parameter]) -> None:
        for parameter in parameters:
            if parameter.kind.pointer and call[parameter.name] is None and not self.may_be_null(parameter):
                call.refuse(parameter.name, "is None (a null pointer); it is required", self.null_status)

    def may_be_null(self, parameter: Parameter) -> bool:
        return (parameter.optional or parameter.name in self.nullable) and parameter.name not in self.required

    def infer(self, call: Call) -> dict[str, OutputSpecs]:
        """Shape and dtype of the outputs that have a shape rule; the rules need not look for null inputs."""
        self._check_null(call, call.operator.inputs)
        return {
            name: _output_specs(rule(call), self.output_dtype(call, name))
            for name, rule in self.shapes.items()
            if name in call.operator.positions
        }

    def output_dtype(self, call: Call, name: str) -> DataType:
        """As stated by ``result``, else the only documented dtype, else the dtype of the first tensor input."""
        stated = self.dtypes.get(name)
        if stated is not None:
            return stated(call)
        parameter = call.operator.parameters[call.operator.positions[name]]
        documented = call.operator.dtypes(parameter, call.product)
        if documented is not None and len(documented) == 1:
            return documented[0]
        for other in call.operator.parameters:
            if (
                other.direction != "out"
                and other.kind in (Kind.TENSOR, Kind.TENSOR_LIST)
                and call[other.name] is not None
            ):
                return call.dtype(other.name)
        return DataType.FLOAT


def _output_specs(shapes: Shapes, dtype: DataType) -> OutputSpecs:
    if isinstance(shapes, list):
        return [TensorSpec(tuple(shape), dtype) for shape in shapes]
    return None if shapes is None else TensorSpec(tuple(shapes), dtype)


declared: dict[str, Rule] = {}  # by C name


def rule(names: str, *checks: Check, nullable: str = "", required: str = "", null_status: int = PARAM_NULLPTR) -> None:
    """Declares the rule of one or more operators (C names, separated by blanks).

    ``nullable`` / ``required`` correct the catalog's word on which pointers may be null; a few operators answer a null
    pointer with another ``null_status`` (INNER_NULLPTR).
    """
    for name in names.split():
        if name in declared:
            raise ValueError(f"{name} has two rules")
        declared[name] = Rule(name, checks, nullable, required, null_status)


# --------------------------------------------------------------------------------------------------- data types


@functools.cache
def parse_dtypes(names: str) -> frozenset[DataType]:
    return frozenset(DataType[name] for name in names.split())


def dtype_set(call: Call, allowed: DtypeSet) -> frozenset[DataType]:
    """The data types that a DtypeSet means on the call's chip."""
    if isinstance(allowed, str):
        return parse_dtypes(allowed)
    for products, names in allowed.items():
        if call.product in products.split():
            return parse_dtypes(names)
    return parse_dtypes(allowed.get("", ""))


def plus_bf16(names: str) -> DtypeSet:
    """The named data types, and BF16 on Atlas A2 and the later products."""
    return {"A2 A3 950": names + " BF16", "": names}


def dtypes(allowed: DtypeSet, *names: str) -> Check:
    """Tensors (or scalars, or every tensor of a list) have one of the data types; absent ones pass."""

    def check(call: Call) -> None:
        members = dtype_set(call, allowed)
        for name in names:
            value = call[name]
            for item in value if isinstance(value, list) else (value,):
                if item is not None and item.dtype not in members:
                    call.refuse(name, f"has dtype {item.dtype.name}; on {call.soc.name} it must be {_listed(members)}")

    return check


def documented(*names: str) -> Check:
    """Tensors have a dtype that the operator's document lists for the chip's product (all tensors if none are named)."""

    def check(call: Call) -> None:
        for parameter in call.operator.parameters:
            if names and parameter.name not in names:
                continue
            if parameter.kind not in (Kind.TENSOR, Kind.TENSOR_LIST):
                continue
            allowed = call.operator.dtypes(parameter, call.product)
            if not allowed:
                continue
            for tensor in call.tensors(parameter.name):
                if tensor.dtype not in allowed:
                    text = f"has dtype {tensor.dtype.name}; on {call.soc.name} it must be {_listed(allowed)}"
                    call.refuse(parameter.name, text)

    return check


def columns(names: str, *rows: str, products: str = "") -> Check:
    """The dtypes of the named tensors together are one of the rows; absent tensors fit any row.

    With ``products`` the check applies on those products only.
    """
    keys = names.split()
    table = [tuple(DataType[cell] for cell in row.split()) for row in rows]

    def check(call: Call) -> None:
        if products and call.product not in products.split():
            return
        left = table
        for position, key in enumerate(keys):
            if not call.given(key):
                continue
            came = call.dtype(key)
            fitting = [row for row in left if row[position] is came]
            if not fitting:
                allowed = {row[position] for row in left}
                so_far = ", ".join(
                    f"{call.python_name(k)} {call.dtype(k).name}" for k in keys[:position] if call.given(k)
                )
                given = f" with {so_far}" if so_far and len(allowed) < len({row[position] for row in table}) else ""
                call.refuse(key, f"has dtype {came.name}; on {call.soc.name}{given} it must be {_listed(allowed)}")
            left = fitting

    return check


def same_dtype(first: str, *others: str) -> Check:
    """The others have the first's data type; absent ones pass."""

    def check(call: Call) -> None:
        if not call.given(first):
            return
        wanted = call.dtype(first)
        for name in others:
            for tensor in call.tensors(name):
                if tensor.dtype is not wanted:
                    text = f"has dtype {tensor.dtype.name}; it must be {wanted.name}, as {call.python_name(first)}"
                    call.refuse(name, text)

    return check


def has_dtype(name: str, wanted: DtypeRule) -> Check:
    """A tensor has exactly the data type of a rule (an attribute's, a promoted one); an absent one passes."""

    def check(call: Call) -> None:
        if call.given(name) and call.dtype(name) is not wanted(call):
            call.refuse(name, f"has dtype {call.dtype(name).name}; it must be {wanted(call).name}")

    return check


def dtype_in(source: DtypeRule, allowed: DtypeSet, name: str) -> Check:
    """The data type of a rule (an attribute's, a promoted one) is one of a set; ``name`` is the parameter to blame."""

    def check(call: Call) -> None:
        came, members = source(call), dtype_set(call, allowed)
        if came not in members:
            call.refuse(name, f"makes the data type {came.name}; on {call.soc.name} it must be {_listed(members)}")

    return check


def dtype_of(name: str) -> DtypeRule:
    return lambda call: call.dtype(name)


def dtype_is(name: str) -> DtypeRule:
    member = DataType[name]
    return lambda call: member


def dtype_attr(name: str) -> DtypeRule:
    """The data type that an aclDataType (or int) attribute names; DT_UNDEFINED for a number CANN does not have."""

    def dtype(call: Call) -> DataType:
        try:
            return DataType(call[name])
        except ValueError:
            return DataType.DT_UNDEFINED

    return dtype


def promoted(*names: str) -> DtypeRule:
    """The data type to which tensors promote, by CANN's table; RuleViolation where they do not."""

    def dtype(call: Call) -> DataType:
        result: Optional[DataType] = None
        for name in names:
            if not call.given(name):
                continue
            came = call.dtype(name)
            both = came if result is None else promote(result, came)
            if both is DataType.DT_UNDEFINED:
                call.refuse(name, f"has dtype {came.name}, which does not promote with {result.name if result else ''}")
            result = both
        return DataType.DT_UNDEFINED if result is None else result

    return dtype


def castable(source: Union[DtypeRule, str], *names: str) -> Check:
    """A value of the source's data type (a C name or a DtypeRule) can be cast to each named tensor."""
    rule_ = dtype_of(source) if isinstance(source, str) else source

    def check(call: Call) -> None:
        come = rule_(call)
        for name in names:
            for tensor in call.tensors(name):
                if not can_cast(come, tensor.dtype):
                    call.refuse(name, f"has dtype {tensor.dtype.name}; a {come.name} result cannot be cast to it")

    return check


_COMPLEX = (DataType.COMPLEX32, DataType.COMPLEX64, DataType.COMPLEX128)
_SIGNED = (DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64)
_UNSIGNED = (DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64)
_WIDE_UNSIGNED = (DataType.UINT16, DataType.UINT32, DataType.UINT64)
_FLOATS = (DataType.FLOAT16, DataType.BF16, DataType.FLOAT, DataType.DOUBLE)
_SMALL_FLOATS = (
    DataType.HIFLOAT8,
    DataType.FLOAT8_E5M2,
    DataType.FLOAT8_E4M3FN,
    DataType.FLOAT8_E8M0,
    DataType.FLOAT6_E3M2,
    DataType.FLOAT6_E2M3,
    DataType.FLOAT4_E2M1,
    DataType.FLOAT4_E1M2,
)


def is_complex(dtype: DataType) -> bool:
    return dtype in _COMPLEX


def is_floating(dtype: DataType) -> bool:
    return dtype in _FLOATS or dtype in _SMALL_FLOATS


def is_integral(dtype: DataType, with_bool: bool = False) -> bool:
    return dtype in _SIGNED or dtype in _UNSIGNED or (with_bool and dtype is DataType.BOOL)


@functools.cache
def promote(a: DataType, b: DataType) -> DataType:
    """The common type of two tensors, as CANN's promotion table has it; DT_UNDEFINED where there is none.

    Two equal types promote to themselves. UINT16 / 32 / 64 promote with complex types only, and only from the left;
    small floats and packed types never do.
    """
    none = DataType.DT_UNDEFINED
    if a is b:
        return a
    if a in _WIDE_UNSIGNED and b in (DataType.COMPLEX64, DataType.COMPLEX128):
        return DataType.COMPLEX128 if a is DataType.UINT64 else b
    known = (DataType.BOOL, DataType.UINT8, *_SIGNED, *_FLOATS, *_COMPLEX)
    if a not in known or b not in known:
        return none
    if is_complex(a) or is_complex(b):
        width = max(_complex_width(a), _complex_width(b))
        return _COMPLEX[width]
    if is_floating(a) or is_floating(b):
        floats = {t for t in (a, b) if is_floating(t)}
        if floats == {DataType.FLOAT16, DataType.BF16}:
            return DataType.FLOAT
        return max(floats, key=_FLOATS.index)
    if DataType.BOOL in (a, b):
        return b if a is DataType.BOOL else a
    if DataType.UINT8 in (a, b):
        other = b if a is DataType.UINT8 else a
        return DataType.INT16 if other is DataType.INT8 else other
    return max((a, b), key=_SIGNED.index)


def _complex_width(dtype: DataType) -> int:
    """Index into _COMPLEX of the narrowest complex type that holds a type."""
    if is_complex(dtype):
        return _COMPLEX.index(dtype)
    return {DataType.FLOAT: 1, DataType.BF16: 1, DataType.DOUBLE: 2}.get(dtype, 0)


def can_cast(source: DataType, target: DataType) -> bool:
    """CANN's CanCast: not complex to real, not floating to integer, nothing but bool to bool."""
    if is_complex(source) and not is_complex(target):
        return False
    if is_floating(source) and is_integral(target):
        return False
    return source is DataType.BOOL or target is not DataType.BOOL


# --------------------------------------------------------------------------------------------------- ranks, formats


def max_rank(most: int, *names: str) -> Check:
    return rank(0, most, *names)


def rank(least: int, most: int, *names: str) -> Check:
    """Tensors have between ``least`` and ``most`` dimensions; absent ones pass."""
    wanted = str(least) if least == most else f"at most {most}" if least == 0 else f"between {least} and {most}"

    def check(call: Call) -> None:
        for name in names:
            for tensor in call.tensors(name):
                if not least <= tensor.ndim <= most:
                    call.refuse(name, f"has rank {tensor.ndim} (shape {_dims(tensor.shape)}); it must be {wanted}")

    return check


def not_private(*names: str) -> Check:
    """Tensors have no blocked storage format (NC1HWC0, FRACTAL_NZ, ...)."""

    def check(call: Call) -> None:
        for name in names:
            for tensor in call.tensors(name):
                if tensor.format.private:
                    call.refuse(name, f"has the private format {tensor.format.name}; it must be ND or a plain layout")

    return check


def formats(allowed: str, *names: str) -> Check:
    """Tensors have one of the formats (names in one string)."""
    members = frozenset(Format[name] for name in allowed.split())

    def check(call: Call) -> None:
        for name in names:
            for tensor in call.tensors(name):
                if tensor.format not in members:
                    wanted = ", ".join(m.name for m in sorted(members))
                    call.refuse(name, f"has format {tensor.format.name}; it must be {wanted}")

    return check


def contiguous(*names: str) -> Check:
    """Tensors are stored without gaps, in order."""

    def check(call: Call) -> None:
        for name in names:
            for tensor in call.tensors(name):
                if not tensor.is_contiguous:
                    call.refuse(name, f"is not contiguous (shape {_dims(tensor.shape)}, strides {tensor.strides})")

    return check


def same_format(first: str, *others: str) -> Check:
    def check(call: Call) -> None:
        if not call.given(first):
            return
        wanted = call[first].format
        for name in others:
            for tensor in call.tensors(name):
                if tensor.format is not wanted:
                    text = f"has format {tensor.format.name}; it must be {wanted.name}, as {call.python_name(first)}"
                    call.refuse(name, text)

    return check


# --------------------------------------------------------------------------------------------------- shapes


class _Shape:
    """Shape rules of outputs: told to binding, and checked unless only inferred."""

    def __init__(self, rules: dict[str, ShapeRule], is_check: bool) -> None:
        self.rules = rules
        self.is_check = is_check

    def __call__(self, call: Call) -> None:
        for name, rule_ in self.rules.items():
            if name not in call.operator.positions:
                continue
            wanted = rule_(call)
            if wanted is None or not call.given(name):
                continue
            tensors = call.tensors(name)
            shapes = wanted if isinstance(wanted, list) else [wanted]
            if len(tensors) != len(shapes):
                call.refuse(name, f"has {len(tensors)} tensors; it must have {len(shapes)}")
            for tensor, sizes in zip(tensors, shapes):
                if tensor.shape != tuple(sizes):
                    call.refuse(name, f"has shape {_dims(tensor.shape)}; it must be {_dims(sizes)}")


class _Fits(_Shape):
    """Shape rules that a tensor of one element meets whenever the rule's shape has one element too."""

    def __call__(self, call: Call) -> None:
        for name, rule_ in self.rules.items():
            wanted = rule_(call)
            if isinstance(wanted, tuple):
                for tensor in call.tensors(name):
                    if tensor.shape != wanted and not (tensor.size == 1 and math.prod(wanted) == 1):
                        call.refuse(name, f"has shape {_dims(tensor.shape)}; it must be {_dims(wanted)}")


class _Result:
    """Data types of outputs that binding allocates; never a check."""

    is_check = False

    def __init__(self, rules: dict[str, DtypeRule]) -> None:
        self.rules = rules

    def __call__(self, call: Call) -> None:
        return None


def shape(**rules: ShapeRule) -> Check:
    """Outputs (or any tensors) have exactly these shapes; also what binding allocates."""
    return _Shape(rules, is_check=True)


def fits(**rules: ShapeRule) -> Check:
    """Like ``shape``, but any shape of one element will do where the rule's shape has one element."""
    return _Fits(rules, is_check=True)


def infer(**rules: ShapeRule) -> Check:
    """What binding allocates, where phase one does not compare the shape."""
    return _Shape(rules, is_check=False)


def copied(**rules: ShapeRule) -> Check:
    """Outputs into which CANN copies its result: another shape fails the graph (561103), unless an input is empty."""
    made = _Fits(rules, is_check=True)  # the copy takes one element in any shape

    def check(call: Call) -> None:
        inputs = [t for p in call.operator.inputs if "Tensor" in p.ctype for t in call.tensors(p.name)]
        if not any(t.size == 0 for t in inputs):
            call.status = INNER_NULLPTR
            try:
                made(call)
            finally:
                call.status = PARAM_INVALID

    return _Staged(check, made.rules)


def result(**rules: Union[DtypeRule, str]) -> Check:
    """Data types of the outputs that binding allocates: a DtypeRule or a DataType's name."""
    return _Result({k: dtype_is(v) if isinstance(v, str) else v for k, v in rules.items()})


def same(name: str) -> Callable[[Call], Shape]:
    """The shape of a tensor."""
    return lambda call: call.shape(name)


def dims(*items: Union[int, str, tuple[str, int], Callable[[Call], int]]) -> Callable[[Call], Shape]:
    """A shape from parts: a number, an integer attribute's name, ("tensor", axis), or a function of the call."""

    def part(call: Call, item: Any) -> int:
        if isinstance(item, str):
            return int(call[item])
        if isinstance(item, tuple):
            return call.size(*item)
        return item(call) if callable(item) else int(item)

    return lambda call: tuple(part(call, item) for item in items)


def broadcast(*names: str) -> Callable[[Call], Shape]:
    """The shape to which tensors broadcast; RuleViolation where they do not. Absent ones do not count."""

    def shape_(call: Call) -> Shape:
        total: Shape = ()
        for name in names:
            if not call.given(name):
                continue
            both = broadcast_shapes(total, call.shape(name))
            if both is None:
                call.refuse(name, f"has shape {_dims(call.shape(name))}, which does not broadcast with {_dims(total)}")
            total = both
        return total

    return shape_


def broadcast_shapes(a: Sequence[int], b: Sequence[int]) -> Optional[Shape]:
    """The common shape of two, None if there is none."""
    long, short = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(long) - len(short)
    total = list(long)
    for i, n in enumerate(short):
        m = long[lead + i]
        if m != n and 1 not in (m, n):
            return None
        total[lead + i] = n if m == 1 else m
    return tuple(total)


def reduced(name: str, axes: str, keep_dims: Union[str, bool] = False) -> Callable[[Call], Shape]:
    """A shape after reducing over the axes of an attribute (int or aclIntArray; empty or None: all of them).

    Axes outside the rank, or named twice, are refused.
    """

    def shape_(call: Call) -> Shape:
        sizes = call.shape(name)
        given = call[axes]
        chosen = normalise_axes(call, axes, (given,) if isinstance(given, int) else given or (), len(sizes))
        keep = call[keep_dims] if isinstance(keep_dims, str) else keep_dims
        every = not chosen
        out = [(1 if keep else -1) if every or i in chosen else n for i, n in enumerate(sizes)]
        return tuple(out) if keep else tuple(n for i, n in enumerate(sizes) if not every and i not in chosen)

    return shape_


def normalise_axes(call: Call, argument: str, axes: Iterable[int], ndim: int) -> list[int]:
    """Axes as non-negative numbers; refuses those out of range and repeated ones. A 0-d tensor has the axes 0 and -1."""
    result_: list[int] = []
    extent = max(ndim, 1)
    for axis in axes:
        if not -extent <= axis < extent:
            call.refuse(argument, f"is {axis}; it must be in [{-extent}, {extent - 1}]")
        positive = axis % extent
        if positive in result_:
            call.refuse(argument, f"names axis {axis} twice")
        result_.append(positive)
    return result_


def same_shape(first: str, *others: str) -> Check:
    """The others have the first's shape; absent ones pass."""

    def check(call: Call) -> None:
        if not call.given(first):
            return
        wanted = call.shape(first)
        for name in others:
            for tensor in call.tensors(name):
                if tensor.shape != wanted:
                    text = f"has shape {_dims(tensor.shape)}; it must be {_dims(wanted)}, as {call.python_name(first)}"
                    call.refuse(name, text)

    return check


def broadcastable(name: str, target: str) -> Check:
    """A tensor broadcasts to another's shape without enlarging it."""

    def check(call: Call) -> None:
        if call.given(name) and call.given(target):
            both = broadcast_shapes(call.shape(name), call.shape(target))
            if both != call.shape(target):
                text = f"has shape {_dims(call.shape(name))}, which does not broadcast to {_dims(call.shape(target))}"
                call.refuse(name, text)

    return check


class _Fit(_Shape):
    """Sizes by name, bound by the first tensor that has them."""

    def __init__(self, leading: tuple[int, int], patterns: dict[str, str]) -> None:
        super().__init__({name: functools.partial(self.made, name) for name in patterns}, is_check=True)
        self.leading = leading
        self.patterns = {name: text.split() for name, text in patterns.items()}

    def __call__(self, call: Call) -> None:
        bound: dict[str, Shape] = {}
        for name, pattern in self.patterns.items():
            if name in call.operator.positions and call.given(name):
                self.match(call, name, pattern, bound)

    def match(self, call: Call, name: str, pattern: list[str], bound: dict[str, Shape]) -> None:
        sizes = call.shape(name)
        rest = len(sizes) - len(pattern)
        text = f"has shape {_dims(sizes)}; it must be ({', '.join(pattern)})"
        if pattern[0] == "*":
            low, high = self.leading
            rest += 1
            call.require("*" in bound or low <= rest <= high, name, f"{text} with {low} to {high} leading axes")
            lead = bound.setdefault("*", sizes[: max(rest, 0)])
            known = f", where * is {_dims(lead)}"
            call.require(rest == len(lead) and sizes[:rest] == lead, name, text + known)
            sizes, pattern = sizes[rest:], pattern[1:]
        else:
            call.require(rest == 0, name, text)
        for size, part in zip(sizes, pattern):
            if part.isidentifier() and part not in bound and part not in call.operator.positions:
                bound[part] = (size,)
            wanted = self.value(call, part, bound)
            call.require(size == wanted, name, f"{text}, where {part} is {wanted}")

    def value(self, call: Call, part: str, bound: dict[str, Shape]) -> int:
        """Of a sum of products of numbers, bound sizes and integer attributes."""

        def factor(word: str) -> int:
            if word.isdigit():
                return int(word)
            return bound[word][0] if word in bound else int(call[word])

        return sum(math.prod(factor(word) for word in term.split("*")) for term in part.split("+"))

    def made(self, name: str, call: Call) -> Shape:
        """The shape of one tensor, from those of the inputs."""
        bound: dict[str, Shape] = {}
        inputs = {p.name for p in call.operator.inputs}
        for other, pattern in self.patterns.items():
            if other in inputs and call.given(other):
                self.match(call, other, pattern, bound)
        sizes: list[int] = []
        for part in self.patterns[name]:
            sizes += bound.get("*", ()) if part == "*" else (self.value(call, part, bound),)
        return tuple(sizes)


def fit(leading: tuple[int, int] = (0, 99), **patterns: str) -> Check:
    """Tensors fit patterns of named sizes: ``fit(x="* n d", phi="n*n+2*n n*d", out="* d")``.

    A size is bound where it first stands alone, then compared; sums of products of sizes, numbers and integer attributes
    are computed. ``*`` at the front is any leading axes (between ``leading`` many), the same for all. Outputs are inferred.
    """
    return _Fit(leading, patterns)


# --------------------------------------------------------------------------------------------------- attributes


def between(name: str, least: float, most: float) -> Check:
    """An attribute lies in a closed range."""

    def check(call: Call) -> None:
        value = call[name]
        if value is not None and not least <= value <= most:
            call.refuse(name, f"is {value}; it must be in [{least}, {most}]")

    return check


def axis_of(name: str, tensor: str) -> Check:
    """An integer attribute is an axis of a tensor (negative ones count from the end; a 0-d tensor has 0 and -1)."""

    def check(call: Call) -> None:
        if call.given(tensor):
            normalise_axes(call, name, (call[name],), len(call.shape(tensor)))

    return check


def axes_of(name: str, tensor: str) -> Check:
    """The items of an aclIntArray are different axes of a tensor; an absent array passes."""

    def check(call: Call) -> None:
        normalise_axes(call, name, call[name] or (), len(call.shape(tensor)))

    return check


def one_of(name: str, *allowed: Any) -> Check:
    """An attribute has one of the values."""

    def check(call: Call) -> None:
        if call[name] is not None and call[name] not in allowed:
            call.refuse(name, f"is {call[name]!r}; it must be {' or '.join(repr(a) for a in allowed)}")

    return check


def array_length(name: str, *allowed: int) -> Check:
    """An aclIntArray (or other array, or list) has one of the lengths; an absent one passes."""

    def check(call: Call) -> None:
        value = call[name]
        if value is not None and len(value) not in allowed:
            call.refuse(name, f"has {len(value)} items; it must have {' or '.join(map(str, allowed))}")

    return check


# --------------------------------------------------------------------------------------------------- structure


def tiling(*checks: Check) -> Check:
    """Checks that CANN makes when it tiles the kernel: status 561002, skipped when every output is empty."""

    def check(call: Call) -> None:
        outputs = [t for p in call.operator.outputs for t in call.tensors(p.name)]
        if outputs and all(t.size == 0 for t in outputs):
            return
        call.status = TILING_ERROR
        try:
            for word in checks:
                word(call)
        finally:
            call.status = PARAM_INVALID

    # Shape words inside still tell binding what to allocate.
    shapes = {k: v for c in checks if isinstance(c, _Shape) for k, v in c.rules.items()}
    return _Staged(check, shapes) if shapes else check


class _Staged(_Shape):
    """A group of checks that contains shape rules."""

    def __init__(self, check: Check, rules: dict[str, ShapeRule]) -> None:
        super().__init__(rules, is_check=True)
        self._check = check

    def __call__(self, call: Call) -> None:
        self._check(call)


def unless_empty(names: str, *checks: Check) -> Check:
    """Checks that CANN skips, with success, where one of the named tensors is empty."""
    keys = names.split()

    def check(call: Call) -> None:
        if not any(t.size == 0 for key in keys for t in call.tensors(key)):
            for word in checks:
                if not isinstance(word, (_Shape, _Result)) or word.is_check:
                    word(call)

    return _Staged(check, {k: v for c in checks if isinstance(c, _Shape) for k, v in c.rules.items()})


def when(condition: Callable[[Call], bool], *checks: Check) -> Check:
    """Checks that apply under a condition only."""

    def check(call: Call) -> None:
        if condition(call):
            for word in checks:
                word(call)

    shapes = {k: v for c in checks if isinstance(c, _Shape) for k, v in c.rules.items()}
    return _Staged(check, shapes) if shapes else check


def on(products: str, *checks: Check) -> Check:
    """Checks that apply on some products only ("A2 A3")."""
    chosen = products.split()
    return when(lambda call: call.product in chosen, *checks)


def only_on(products: str) -> Check:
    """The operator exists on some products only."""

    def check(call: Call) -> None:
        if call.product not in products.split():
            call.refuse(None, f"the operator is not supported on {call.soc.name}; it is on {products}")

    return check


def supported(call: Call) -> None:
    """The operator's document names the chip's product; the runtime looks for a kernel in vain elsewhere (361001)."""
    products = call.operator.products
    if products and call.product not in products:
        text = f"the operator is not supported on {call.soc.name}; it is on {' '.join(products)}"
        call.refuse(None, text, RUNTIME_ERROR)


@functools.cache
def documented_rule(operator: Operator) -> Rule:
    """What the document alone says: dtypes by product, rank where it is a plain range."""

    def ranks(call: Call) -> None:
        for parameter in operator.parameters:
            limits = documented_rank(parameter.rank)
            if limits is not None and parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST):
                rank(limits[0], limits[1], parameter.name)(call)

    return Rule(operator.name, (documented(), ranks))


def documented_rank(text: Optional[str]) -> Optional[tuple[int, int]]:
    """("2", "1-8", "<=8") -> least and most dimensions; None where the text says something else."""
    if text is None:
        return None
    if text.isdigit():
        return int(text), int(text)
    if text.startswith("<=") and text[2:].isdigit():
        return 0, int(text[2:])
    low, dash, high = text.partition("-")
    return (int(low), int(high)) if dash and low.isdigit() and high.isdigit() else None


def _listed(members: Iterable[DataType]) -> str:
    names = [m.name for m in sorted(members)]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" or {names[-1]}" if names else "(none)"


def _dims(sizes: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "") + ")"
