"""Recordings that tests write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ascend_aclnn.core.dtypes import DataType
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
