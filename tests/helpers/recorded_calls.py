"""Calls that tests make, as text: what the search of refusals begins with, beside the examples.

A call is a line of JSON: operator, SoC, and a value for each C parameter. A tensor is a string, "FLOAT16 2 3" with its data
type and shape, then what is not as usual of "strides 1 2", "format FRACTAL_NZ" and "storage 1 1 16 16"; a scalar is
{"BF16": 1.0}, a list of numbers an array.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Kind
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.spec import TensorSpec, contiguous_strides

FILE = Path(__file__).parents[1] / "properties" / "recorded_calls.jsonl"
ARRAYS = (Kind.INT_ARRAY, Kind.FLOAT_ARRAY, Kind.BOOL_ARRAY)


class RecordedCall(NamedTuple):
    operator: str
    soc: str
    values: list[Any]  # tensors are TensorSpecs


def write(calls: Iterable[RecordedCall]) -> None:
    FILE.write_text("\n".join(map(text, calls)) + "\n", encoding="utf-8")


def text(call: RecordedCall) -> str:
    return json.dumps([call.operator, call.soc, *map(_text, call.values)])


@functools.cache
def read() -> dict[str, list[RecordedCall]]:
    """All calls, by operator."""
    calls: dict[str, list[RecordedCall]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        name, chip, *texts = json.loads(line)
        kinds = [parameter.kind for parameter in catalog.get(name).parameters]
        calls.setdefault(name, []).append(RecordedCall(name, chip, [_value(x, k) for x, k in zip(texts, kinds)]))
    return calls


def _text(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_text(item) for item in value]
    if isinstance(value, Scalar):
        number = value.value
        return {value.dtype.name: [number.real, number.imag] if isinstance(number, complex) else number}
    if not isinstance(value, TensorSpec):
        return int(value) if isinstance(value, DataType) else value
    words = [value.dtype.name, *value.shape]
    if tuple(value.strides) != contiguous_strides(value.shape):
        words += ["strides", *value.strides]
    if value.format is not Format.ND:
        words += ["format", value.format.name]
    if value.storage_shape != TensorSpec(value.shape, value.dtype, value.strides, 0, value.format).storage_shape:
        words += ["storage", *value.storage_shape]
    return " ".join(map(str, words))


def _value(text: Any, kind: Kind) -> Any:
    if kind is Kind.TENSOR and text is not None:
        return _tensor(text)
    if kind is Kind.SCALAR and text is not None:
        return _scalar(text)
    if kind is Kind.TENSOR_LIST and text is not None:
        return [_value(item, Kind.TENSOR) for item in text]
    if kind is Kind.SCALAR_LIST and text is not None:
        return [_value(item, Kind.SCALAR) for item in text]
    return tuple(text) if kind in ARRAYS and text is not None else text


def _scalar(entry: dict[str, Any]) -> Scalar:
    ((dtype, number),) = entry.items()
    scalar = Scalar(complex(*number) if isinstance(number, list) else number)
    scalar.dtype = DataType[dtype]
    return scalar


def _tensor(text: str) -> TensorSpec:
    dtype, *words = text.split()
    parts: dict[str, list[str]] = {"shape": []}
    key = "shape"
    for word in words:
        if word in ("strides", "format", "storage"):
            key = word
            parts[key] = []
        else:
            parts[key].append(word)

    def sizes(key: str) -> Optional[tuple[int, ...]]:
        return tuple(map(int, parts[key])) if key in parts else None

    format_ = Format[parts["format"][0]] if "format" in parts else Format.ND
    return TensorSpec(sizes("shape") or (), DataType[dtype], sizes("strides"), 0, format_, sizes("storage"))
