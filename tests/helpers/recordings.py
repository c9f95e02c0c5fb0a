"""Recordings that tests write."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np

from ascend_aclnn import Executor, catalog, use_backend
from ascend_aclnn.core.dtypes import DataType, Format, as_datatype
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.recording import (
    Call,
    Frame,
    Header,
    Prototype,
    ScalarValue,
    TensorDescription,
    TensorValue,
    Value,
    Writer,
)

ADD = Prototype("aclnnAdd", ("self", "other", "alpha", "out"), ("in", "in", "in", "out"))
HEADER = Header(
    "0.1", "8.1.RC1", "Ascend910B1", True, ("python", "a.py"), {"RANK": "0"}, 7, "host", "2026", "ns", "all", 0
)


def description(shape: tuple[int, ...], dtype: DataType = DataType.FLOAT, **more: Any) -> TensorDescription:
    return TensorDescription.of(TensorSpec.of(shape, dtype, **more))


def record_an_addition(path: Path, launches: int = 1) -> np.ndarray[Any, Any]:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    shape = description((2, 3))
    with Writer(path, HEADER) as writer:
        for _ in range(launches):
            key, out = writer.tensor(x, shape), writer.tensor(x + x, shape)
            values = [
                Value("tensor", TensorValue(shape, 1 << 40, before=key)),
                Value("tensor", TensorValue(shape, 1 << 41, before=key)),
                Value("scalar", ScalarValue(int(DataType.FLOAT), np.float32(1).tobytes())),
                Value("tensor", TensorValue(shape, (1 << 64) - 64, after=out)),
            ]
            writer.launch(ADD, values, site=(Frame("a.py", 3, "main"),), times=(1, 2, 3, 4), threads=(5, 6))
        writer.call(Call("aclrtMalloc", {"size": 64, "devPtr": 1 << 40}, 0, 0, 5, (1, 2), {}, ""))
        writer.note("one of two")
    return x


FORMATS = {3: Format.NCL}  # of the tensors of a convolution


def record_call(writer: Writer, name: str, *arguments: Any, wrong: Any = None, status: int = 0) -> int:
    """Records an operator as its reference computes it on the NumPy backend; its index.

    ``arguments`` are those of ``Executor``, ndarrays for tensors. ``wrong`` is called with the results before they are recorded.
    """
    operator = catalog.get(name)
    prototype = Prototype(
        name, tuple(p.name for p in operator.parameters), tuple(p.direction for p in operator.parameters)
    )
    before = copy.deepcopy(arguments)
    if not status:
        with use_backend("numpy"), Executor(name, *arguments) as executor:
            executor.run()
    if wrong is not None:
        wrong(*(a for a, p in zip(arguments, operator.parameters) if p.direction != "in"))
    values = [
        _value(writer, parameter, old, new, 0x1000_0000 * (i + 1), "Conv" in name)
        for i, (parameter, old, new) in enumerate(zip(operator.parameters, before, arguments))
    ]
    return writer.launch(
        prototype, values, statuses=(status, None if status else 0), site=(Frame("train.py", 31, "step"),)
    )


def _value(
    writer: Writer, parameter: Any, before: Any, after: Any, address: int, is_convolution: bool = False
) -> Value:
    if before is None:
        return Value("null", None)
    if isinstance(before, list) and parameter.kind.value == "aclTensorList*":
        pairs = enumerate(zip(before, after))
        members = [_value(writer, parameter, *pair, address + 0x10_0000 * i) for i, pair in pairs]
        return Value("tensors", tuple(member.content for member in members))
    if parameter.kind.value == "aclScalarList*":
        scalars = [Scalar(number, np.float32) for number in before]
        return Value("scalars", tuple(ScalarValue(int(scalar.dtype), scalar.tobytes()) for scalar in scalars))
    if isinstance(before, np.ndarray):
        format = FORMATS.get(before.ndim, Format.ND) if is_convolution else Format.ND
        shape = description(before.shape, as_datatype(before.dtype), format=format)
        keys = [
            None if parameter.direction == skip else writer.tensor(a, shape)
            for a, skip in ((before, "out"), (after, "in"))
        ]
        return Value("tensor", TensorValue(shape, address, *keys))
    if isinstance(before, bool):
        return Value("integer", int(before))
    if parameter.kind.value == "aclScalar*":
        scalar = Scalar(before, np.float32)
        return Value("scalar", ScalarValue(int(scalar.dtype), scalar.tobytes()))
    kinds = {"aclIntArray*": "integers", "float": "number", "double": "number", "char*": "string"}
    return Value(kinds.get(parameter.kind.value, "integer"), tuple(before) if isinstance(before, list) else before)
