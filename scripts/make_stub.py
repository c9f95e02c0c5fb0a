#!/usr/bin/env python3
"""Writes ascend_aclnn/ops.pyi, the signatures of all operators for editors and type checkers, from the catalog.

scripts/make_stub.py [--check]
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ascend_aclnn import catalog
from ascend_aclnn.catalog import REQUIRED, Kind, Operator
from ascend_aclnn.catalog.signature import PythonParameter, python_parameters, result_fields, result_type_name

STUB = Path(__file__).resolve().parent.parent / "ascend_aclnn" / "ops.pyi"
LINE = 120

HEAD = """\
# Made by scripts/make_stub.py from the catalog; do not edit.

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


def make() -> str:
    operators = sorted(map(catalog.get, catalog.names()), key=lambda operator: operator.python_name)
    return HEAD + "\n" + "\n".join(map(operator_text, operators)).lstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the committed stub differs")
    arguments = parser.parse_args()
    text = make()
    if arguments.check:
        same = STUB.exists() and STUB.read_text(encoding="utf-8") == text
        print("ops.pyi is up to date" if same else "ops.pyi is not what scripts/make_stub.py makes")
        return 0 if same else 1
    STUB.write_text(text, encoding="utf-8")
    print(f"{len(text.splitlines())} lines in {STUB}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
