"""ascend_aclnn/ops.pyi: the signatures of all operators for editors and type checkers, from the catalog and the rules.

Every function has overloads for the kinds of call: arrays in, arrays out; a Tensor or a stream in, Tensors out; torch
tensors in, torch tensors out (Any). No call fits two of them, for a type checker would answer Any where arrays of Any
dtype do. A Tensor after arrays is known as such in the second place only. Where a required parameter stands after
an optional one, each overload has two forms: all of them by position, or the later required ones by keyword.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ascend_aclnn import catalog, rules
from ascend_aclnn.catalog import REQUIRED, Kind, Operator, Parameter, life
from ascend_aclnn.catalog.signature import (
    PythonParameter,
    ResultField,
    is_required,
    meaning,
    python_parameters,
    result_fields,
    result_type_name,
)

FOLDER = None
STUB = Path(__file__).resolve().parents[2] / "ascend_aclnn" / "ops.pyi"

HEAD = """\
# Made by scripts/generate.py from the catalog and the rules; do not edit.

import builtins
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Optional, Protocol, SupportsFloat, SupportsIndex, TypeVar, Union, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import deprecated

from ascend_aclnn.core.dtypes import DTypeLike
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor

class _Torch(Protocol):
    def requires_grad_(self, requires_grad: bool = ...) -> Any: ...

class _Sequence(Protocol):  # what a list, a tuple and a range are, and a str is not
    def __contains__(self, value: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def index(self, value: Any, /) -> int: ...
    def count(self, value: Any, /) -> int: ...

_T = TypeVar("_T")
_N = npt.NDArray[Any]
_A = Union[npt.NDArray[Any], _Sequence, builtins.complex]  # arrays, and lists and numbers that become arrays
_B = Union[Tensor, npt.NDArray[Any], _Sequence, builtins.complex]
_C = Union[_Torch, npt.NDArray[Any], _Sequence, builtins.complex]
_Scalar = Union[Scalar, builtins.complex, np.number[Any], np.bool_]
_Int = SupportsIndex
_Ints = Union[SupportsIndex, Sequence[SupportsIndex], npt.NDArray[Any]]
_Float = SupportsFloat
_Floats = Union[SupportsFloat, Sequence[SupportsFloat], npt.NDArray[Any]]
_Bool = Union[bool, np.bool_]
_Bools = Union[bool, Sequence[bool], npt.NDArray[Any]]
_O = Union[Tensor, npt.NDArray[Any]]
_OutA = Optional[Union[_N, Sequence[_N], tuple[Optional[Union[_N, Sequence[_N]]], ...]]]
_OutB = Optional[Union[_O, Sequence[_O], tuple[Optional[Union[_O, Sequence[_O]]], ...]]]
_S = Optional[Stream]
"""

TYPES = {
    Kind.SCALAR: "_Scalar",
    Kind.SCALAR_LIST: "Sequence[_Scalar]",
    Kind.INT_ARRAY: "_Ints",
    Kind.FLOAT_ARRAY: "_Floats",
    Kind.BOOL_ARRAY: "_Bools",
    Kind.STRING: "str",
    Kind.DATA_TYPE: "DTypeLike",
    Kind.FLOAT: "_Float",
    Kind.DOUBLE: "_Float",
    Kind.BOOL: "_Bool",
}


class Variant(NamedTuple):
    """One kind of call: types of the first two tensors that must be given, of the others, of a result; the last parameters."""

    types: tuple[str, str, str]
    returned: str
    tail: str


ARRAYS = Variant(("_A", "_A", "_A"), "_N", "out: _OutA = None, stream: None = None")
FIRST_TENSOR = Variant(("Tensor", "_B", "_B"), "Tensor", "out: _OutB = None, stream: _S = None")
SECOND_TENSOR = Variant(("_A", "Tensor", "_B"), "Tensor", "out: _OutB = None, stream: _S = None")
ON_STREAM = Variant(("_A", "_A", "_B"), "Tensor", "out: _OutB = None, stream: Stream")
TORCH = Variant(("_Torch", "_C", "_C"), "Any", "out: Any = None, stream: None = None")
OPTIONAL_TENSORS = Variant(("_B", "_B", "_B"), "Any", "out: _OutB = None, stream: _S = None")


def must_be_given(row: PythonParameter) -> bool:
    return row.parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST) and not row.parameter.optional


def variants(rows: list[PythonParameter]) -> list[Variant]:
    """The kinds of call that a function has."""
    count = sum(map(must_be_given, rows))
    if count == 0:
        tensors = any(row.parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST) for row in rows)
        return [OPTIONAL_TENSORS] if tensors else [ARRAYS, ON_STREAM]
    return [ARRAYS, FIRST_TENSOR, *([SECOND_TENSOR] if count > 1 else []), TORCH, ON_STREAM]


def accepts_none(operator: Operator, parameter: Parameter) -> bool:
    """By its default, name or document (the catalog), or where the operator's rule accepts a null pointer."""
    if parameter.default is None:
        return True
    rule = rules.find(operator)
    nullable = parameter.optional or (rule is not None and rule.accepts_null(operator, parameter))
    return nullable and parameter.kind.pointer


def parameter_annotations(operator: Operator, rows: list[PythonParameter], variant: Variant) -> Iterator[str]:
    first_types = iter(variant.types[:2])
    for row in rows:
        kind = row.parameter.kind
        text = TYPES.get(kind, "_Int")
        if kind in (Kind.TENSOR, Kind.TENSOR_LIST):
            text = next(first_types, variant.types[2]) if must_be_given(row) else variant.types[2]
        # What tells a kind of call from the others is no None.
        optional = text not in ("Tensor", "_Torch") and accepts_none(operator, row.parameter)
        text = f"Sequence[{text}]" if kind is Kind.TENSOR_LIST else text
        yield f"{row.name}: Optional[{text}]" if optional else f"{row.name}: {text}"


def default_text(default: object) -> str:
    return json.dumps(default) if isinstance(default, str) else repr(default)


def heads(operator: Operator, rows: list[PythonParameter], variant: Variant) -> Iterator[list[str]]:
    """The parameters: as they are, or, where required ones stand after optional ones, in the two honest forms."""
    late = [row.default is REQUIRED for row in rows]
    texts = list(parameter_annotations(operator, rows, variant))
    if not any(late):
        yield [t if is_required(row) else f"{t} = {default_text(row.default)}" for t, row in zip(texts, rows)] + ["*"]
        return
    last = len(late) - late[::-1].index(True)
    yield [t if i < last else f"{t} = {default_text(row.default)}" for i, (t, row) in enumerate(zip(texts, rows))] + [
        "*"
    ]
    first = late.index(True)
    words = [t if is_required(row) else f"{t} = {default_text(row.default)}" for t, row in zip(texts, rows)]
    yield [*words[:first], "*", *words[first:]]


def returned(operator: Operator, fields: list[ResultField], variant: Variant) -> str:
    if not fields:
        return "None"
    if len(fields) == 1:
        return f"list[{variant.returned}]" if fields[0].parameter.kind is Kind.TENSOR_LIST else variant.returned
    return f"{result_type_name(operator)}[{variant.returned}]"


def documentation(operator: Operator) -> str:
    """The docstring: the summary, and what the parameters and results mean."""
    rows = [f"    {p.python_name}: {words}" for p in operator.parameters if (words := meaning(operator, p))]
    return "\n".join([operator.summary, "", *rows, "    "]) if rows else operator.summary


def operator_text(operator: Operator) -> str:
    """The stub of one operator: its named tuple, if it has several results, and its function."""
    fields = result_fields(operator)
    rows = python_parameters(operator)
    lines = []
    if len(fields) > 1:
        lines.append(f"class {result_type_name(operator)}(NamedTuple, Generic[_T]):")
        lists = [field.parameter.kind is Kind.TENSOR_LIST for field in fields]
        lines += [f"    {field.name}: {'list[_T]' if many else '_T'}" for field, many in zip(fields, lists)]
    signatures = [
        f"def {operator.python_name}({', '.join([*head, variant.tail])}) -> {returned(operator, fields, variant)}:"
        for variant in variants(rows)
        for head in heads(operator, rows, variant)
    ]
    end = life.end_words(life.of(operator.name))
    for i, signature in enumerate(signatures):
        if len(signatures) > 1:
            lines.append("@overload")
        if end:
            lines.append(f"@deprecated({json.dumps(end)})")
        lines.append(f"{signature} ..." if i else f'{signature}\n    """{documentation(operator)}"""')
    return "\n".join(lines)


def files() -> dict[Path, str]:
    operators = sorted(map(catalog.get, catalog.names()), key=lambda operator: operator.python_name)
    return {STUB: HEAD + "\n" + "\n".join(map(operator_text, operators)).lstrip() + "\n"}
