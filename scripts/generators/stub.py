"""ascend_aclnn/ops.pyi: the signatures of all operators for editors and type checkers, from the catalog."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

from ascend_aclnn import catalog
from ascend_aclnn.catalog import REQUIRED, Kind, Operator
from ascend_aclnn.catalog.signature import PythonParameter, python_parameters, result_fields, result_type_name

FOLDER = None
STUB = Path(__file__).resolve().parents[2] / "ascend_aclnn" / "ops.pyi"
LINE = 120

HEAD = """\
# Made by scripts/generate.py from the catalog; do not edit.

import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional, SupportsFloat, SupportsIndex, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.dtypes import DTypeLike
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor

_Tensor = Union[Tensor, npt.NDArray[Any], Sequence[Any]]
_Scalar = Union[Scalar, builtins.complex, np.number[Any], np.bool_]
_Ints = Union[SupportsIndex, Sequence[SupportsIndex], npt.NDArray[Any]]
_Floats = Union[SupportsFloat, Sequence[SupportsFloat], npt.NDArray[Any]]
_Bools = Union[bool, Sequence[bool], npt.NDArray[Any]]
_Bool = Union[bool, np.bool_]
_One = Union[Tensor, npt.NDArray[Any], Sequence[Union[Tensor, npt.NDArray[Any]]]]
_Out = Optional[Union[_One, tuple[Optional[_One], ...]]]

# Results are ndarrays when only ndarrays came in, else Tensors: Any here.
"""

TYPES = {
    Kind.TENSOR: "_Tensor",
    Kind.TENSOR_LIST: "Sequence[_Tensor]",
    Kind.SCALAR: "_Scalar",
    Kind.SCALAR_LIST: "Sequence[_Scalar]",
    Kind.INT_ARRAY: "_Ints",
    Kind.FLOAT_ARRAY: "_Floats",
    Kind.BOOL_ARRAY: "_Bools",
    Kind.STRING: "str",
    Kind.DATA_TYPE: "DTypeLike",
    Kind.FLOAT: "SupportsFloat",
    Kind.DOUBLE: "SupportsFloat",
    Kind.BOOL: "_Bool",
}


def parameter_text(row: PythonParameter) -> str:
    annotation = TYPES.get(row.parameter.kind, "SupportsIndex")
    if row.parameter.optional and row.parameter.kind.pointer:
        annotation = f"Optional[{annotation}]"
    text = f"{row.name}: {annotation}"
    if row.default is inspect.Parameter.empty:
        return text
    default = row.default
    if default is REQUIRED:
        return f"{text} = ..."
    return f"{text} = {json.dumps(default) if isinstance(default, str) else repr(default)}"


def operator_text(operator: Operator) -> str:
    """The stub of one operator: its named tuple, if it has several results, and its function."""
    fields = result_fields(operator)
    lines = []
    returned = "None" if not fields else "Any"
    if len(fields) > 1:
        returned = result_type_name(operator)
        lines += ["", f"class {returned}(NamedTuple):", *(f"    {field.name}: Any" for field in fields), ""]
    words = [parameter_text(row) for row in python_parameters(operator)]
    words += ["*", "out: _Out = None", "stream: Optional[Stream] = None"]
    line = f"def {operator.python_name}({', '.join(words)}) -> {returned}: ..."
    if len(line) <= LINE:
        lines.append(line)
    else:
        lines += [f"def {operator.python_name}(", *(f"    {word}," for word in words), f") -> {returned}: ..."]
    return "\n".join(lines)


def files() -> dict[Path, str]:
    operators = sorted(map(catalog.get, catalog.names()), key=lambda operator: operator.python_name)
    return {STUB: HEAD + "\n" + "\n".join(map(operator_text, operators)).lstrip() + "\n"}
