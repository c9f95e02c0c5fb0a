"""A case that failed as a recording, which ``ascend-aclnn replay FILE --compare`` runs again: inputs before, results after."""

from __future__ import annotations

import datetime
import math
import os
import platform
from pathlib import Path
from typing import Any, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.backends.interface import current_backend
from ascend_aclnn.call import plan
from ascend_aclnn.call.arguments import Invocation
from ascend_aclnn.call.outputs import bind_outputs
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core import files
from ascend_aclnn.core.dtypes import as_datatype
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.recording import (
    Header,
    Prototype,
    ScalarValue,
    TensorDescription,
    TensorValue,
    Value,
    Writer,
)
from ascend_aclnn.verify.cases import Case, build, golden
from ascend_aclnn.verify.judge import filled_outputs, upload, uploaded
from ascend_aclnn.version import __version__

_ALIGNMENT = 512  # of the addresses that a recording tells; they only keep its tensors apart
_KINDS = {
    Kind.INT_ARRAY: "integers",
    Kind.FLOAT_ARRAY: "floats",
    Kind.BOOL_ARRAY: "booleans",
    Kind.STRING: "string",
    Kind.FLOAT: "number",
    Kind.DOUBLE: "number",
}


def record(
    path: Path,
    device: dict[str, Any],
    operator: Operator,
    case: Case,
    *,
    results: Optional[list[Any]] = None,
    absent: Optional[int] = None,
    statuses: tuple[int, Optional[int]] = (0, 0),
    error: str = "",
) -> None:
    """Writes a recording of one launch; one that is there is replaced.

    ``device`` has "soc", "cann" and "emulated". ``results`` are the device's, in the order of the outputs; without them the
    launch has none. ``absent`` is the position of an input that was a null pointer. ``statuses`` and ``error`` are how both
    phases ended.
    """
    files.discard(path)
    names = tuple(p.name for p in operator.parameters)
    prototype = Prototype(operator.name, names, tuple(p.direction for p in operator.parameters))
    with aclnn.use_backend("numpy", soc=device["soc"]), Writer(path, _header(device)) as writer:
        out = upload(filled_outputs(operator, golden(operator, build(operator, case), device["soc"])))
        call = uploaded(operator, build(operator, case))
        if absent is not None:
            call.arguments[absent] = None
        invocation = Invocation(current_backend(), plan(operator), True)
        invocation.bind_inputs(call.arguments)
        bind_outputs(invocation, call.options.get("out") if out is None else out)
        wrote = iter(results or ())
        values, address = [], _ALIGNMENT
        for parameter, value in zip(operator.parameters, invocation.values):
            result = next(wrote, None) if parameter.direction != "in" else None
            recorded, address = _value(writer, parameter, value, result, address)
            values.append(recorded)
        writer.launch(prototype, values, statuses=statuses, error=error)
        writer.note(f"ascend-aclnn verify: {operator.name} [{case.label}], seed {case.seed}")


def _header(device: dict[str, Any]) -> Header:
    chosen = (name for name in os.environ if name.startswith(("ASCEND_", "HCCL_")) and not name.endswith("_KEY"))
    variables = {name: os.environ[name] for name in chosen}
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    program = ("ascend-aclnn", "verify")
    cann = device["cann"] or ""
    return Header(
        __version__, cann, device["soc"], device["emulated"], program, variables, os.getpid(), platform.node(),
        started, "ns", "all", -1,
    )  # fmt: skip


def _value(writer: Writer, parameter: Any, value: Any, result: Any, address: int) -> tuple[Value, int]:
    """A recorded value, and the first address behind it. The tensors of ``value`` take the results."""
    if value is None:
        return Value("null", None), address
    if isinstance(value, Tensor):
        tensor, address = _tensor(writer, parameter, value, result, address)
        return Value("tensor", tensor), address
    if parameter.kind is Kind.TENSOR_LIST:
        members: list[Optional[TensorValue]] = []
        for at, member in enumerate(value):
            part = result[at] if isinstance(result, (list, tuple)) and at < len(result) else None
            recorded = None
            if member is not None:
                recorded, address = _tensor(writer, parameter, member, part, address)
            members.append(recorded)
        return Value("tensors", tuple(members)), address
    if parameter.kind is Kind.SCALAR:
        return Value("scalar", _scalar(value)), address
    if parameter.kind is Kind.SCALAR_LIST:
        return Value("scalars", tuple(map(_scalar, value))), address
    kind = _KINDS.get(parameter.kind, "integer")
    content = int(value) if kind == "integer" else value
    return Value(kind, content), address


def _scalar(scalar: Scalar) -> ScalarValue:
    return ScalarValue(int(scalar.dtype), scalar.tobytes())


def _tensor(writer: Writer, parameter: Any, tensor: Tensor, result: Any, address: int) -> tuple[TensorValue, int]:
    description = TensorDescription.of(tensor)
    start, stop = description.byte_range
    before = after = None
    if stop > start:
        if parameter.direction != "out":
            before = writer.data(tensor.storage.read(start, stop - start))
        if result is not None and as_datatype(np.asarray(result).dtype) is tensor.dtype:
            _assign(tensor, np.asarray(result))
            after = writer.data(tensor.storage.read(start, stop - start))
    following = address + max(stop, 1) + _ALIGNMENT
    return TensorValue(description, address, before, after), following - following % _ALIGNMENT


def _assign(tensor: Tensor, result: Any) -> None:
    """Puts a result into the tensor; one whose shape data tell comes to the front of what was allocated."""
    if result.shape == tensor.shape:
        tensor.assign(result)
    elif result.size <= math.prod(tensor.shape):
        tensor.storage.write(0, np.ascontiguousarray(result).reshape(-1).view(np.uint8))


__all__ = ["record"]
