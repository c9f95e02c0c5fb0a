"""What a recording holds, as text and for programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from ascend_aclnn.core import hifloat8
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.recording import Call, Launch, Recording, RecordingError, TensorDescription, TensorValue, Value
from ascend_aclnn.replay.arguments import name_of_status
from ascend_aclnn.testing import failures

_BLOCK = 1 << 22  # elements that are looked at together
_SHOWN = 6  # integers of a list, dimensions are all shown


def header_lines(recording: Recording) -> Iterator[str]:
    """What ran where, what was recorded, and how the file ends."""
    header = recording.header
    device = f"{header.soc or 'unknown SoC'}, CANN {header.cann or 'unknown'}{' (emulated)' if header.emulated else ''}"
    yield f"program    {' '.join(header.program) or 'unknown'}"
    yield f"ran on     {device}, {header.host or 'unknown host'}, {header.started or 'unknown time'}"
    if header.rank >= 0:
        yield f"rank       {header.rank}"
    for name, value in sorted(header.environment.items()):
        yield f"           {name}={value}"
    data = header.data or "not recorded"
    yield f"recorded   {len(recording.launches)} launches; data: {data}"
    if recording.ended is None:
        yield f"           the program did not end in order{f' ({recording.cut})' if recording.cut else ''}"
    elif recording.ended.left_out:
        yield f"           left out: {recording.ended.left_out}"


def launch_line(launch: Launch) -> str:
    """A launch in one line: number, operator, tensors, what became of it."""
    tensors = ", ".join(tensor_words(tensor.description) for value in launch.values for tensor in value.tensors())
    return f"#{launch.index:<6} {launch.operator.name:<36} {ending(launch):<12} {tensors}"


def call_line(recording: Recording, call: Call) -> str:
    """Another function's call in one line: what it was called with, what became of it, which data there are."""
    arguments = " ".join(f"{name}={_number(value)}" for name, value in call.arguments.items())
    ended = f"failed {call.status}" if call.status else "ok"
    data = ", ".join(f"{name}: {len(recording.data(key))} bytes" for name, key in call.data.items())
    rest = "; ".join(part for part in (data, call.left_out, call.error) if part)
    return f"        {call.name:<36} {ended:<12} {arguments}{f'; {rest}' if rest else ''}"


def _number(value: object) -> str:
    """Addresses are long numbers, and shown as such."""
    return f"{value:#x}" if isinstance(value, int) and value >= 1 << 32 else str(value)


def ending(launch: Launch) -> str:
    """What became of a launch."""
    first, second = launch.statuses
    if first:
        return f"refused {first}"
    if second is None:
        return "no return"
    return f"failed {launch.status}" if launch.status else "ok"


def launch_lines(recording: Recording, launch: Launch) -> Iterator[str]:
    """All that was recorded of a launch, with what its data look like."""
    yield f"#{launch.index} {launch.operator.name}"
    for name, status in zip(("phase one", "phase two"), launch.statuses):
        yield f"  {name}  {'never returned' if status is None else f'{status} {name_of_status(launch, status)}'}"
    if launch.late:
        yield f"  stream     ended with {launch.late} {name_of_status(launch, launch.late)} behind it"
    begin, end, begin_two, end_two = launch.times
    times = f"{(end - begin) / 1000:.1f} us" + (f" and {(end_two - begin_two) / 1000:.1f} us" if end_two else "")
    yield f"  host       {times}; workspace {launch.workspace[0]} bytes; stream {launch.stream:#x}; device {launch.device}"
    for direction, (name, value) in zip(launch.operator.directions, launch.named.items()):
        yield f"  {name:<20} {direction:<5} {value_words(value)}"
        for tensor in value.tensors():
            for when, key in (("before", tensor.before), ("after", tensor.after)):
                if key is not None:
                    yield f"  {'':<26} {when}: {data_words(recording, tensor, when)}"
    if launch.operator.name == failures.COMPARE:
        try:
            yield from (f"  {line}" for line in str(failures.compared(recording, launch).comparison).splitlines())
        except (TypeError, ValueError) as error:
            yield f"  {error}"
    for frame in launch.site:
        yield f"  at {frame}"
    if launch.left_out:
        yield f"  left out: {launch.left_out}"
    if launch.error:
        yield f"  {launch.error}"


def tensor_words(tensor: TensorDescription) -> str:
    """A description in a few words: FLOAT16 (2, 3)."""
    dtype = name_of(DataType, tensor.dtype)
    shape = f"({', '.join(map(str, tensor.shape))}{',' if len(tensor.shape) == 1 else ''})"
    format_name = name_of(Format, tensor.format)
    return f"{dtype} {shape}" + ("" if format_name == "ND" else f" {format_name}")


def name_of(enumeration: Any, number: int) -> str:
    """The name of a member of DataType or Format; the number of an unknown one."""
    try:
        return str(enumeration(number).name)
    except ValueError:
        return str(number)


def value_words(value: Value) -> str:
    """A value in one line."""
    if value.kind == "null":
        return "null"
    if value.kind == "tensor":
        return _tensor_line(value.content)
    if value.kind == "tensors":
        members = ["null" if member is None else tensor_words(member.description) for member in value.content]
        return f"[{', '.join(members)}]"
    if value.kind == "scalar":
        return f"{value.content.value} ({name_of(DataType, value.content.dtype)})"
    if value.kind == "unknown":
        return f"an unknown handle {value.content:#x}"
    if isinstance(value.content, tuple):
        listed = [str(getattr(item, "value", item)) for item in value.content]
        more = f", ... {len(listed)} items" if len(listed) > _SHOWN else ""
        return f"[{', '.join(listed[:_SHOWN])}{more}]"
    return repr(value.content)


def _tensor_line(tensor: TensorValue) -> str:
    description = tensor.description
    text = f"{tensor_words(description)} at {tensor.address:#x}"
    try:
        if not description.spec.is_contiguous:
            text += f", strides {description.strides}"
    except ValueError:
        text += f", strides {description.strides}"
    if description.offset:
        text += f", offset {description.offset}"
    if description.storage_shape != description.shape:
        text += f", storage shape {description.storage_shape}"
    return text


def data_words(recording: Recording, tensor: TensorValue, when: str) -> str:
    """The range of a tensor's data, and what in it is not finite."""
    try:
        array = recording.array(tensor, when)
    except (RecordingError, TypeError) as error:
        return str(error)
    if array.size == 0:
        return "no elements"
    low, high, total, count = math.inf, -math.inf, 0.0, Counter[str](NaN=0, infinite=0)
    finite_count = 0
    for block in np.array_split(array.reshape(-1), -(-array.size // _BLOCK)):
        if array.dtype == hifloat8.DTYPE:
            block = hifloat8.decode(block)
        values = np.abs(block) if array.dtype.kind == "c" else np.asarray(block, np.float64)
        finite = values[np.isfinite(values)]
        count.update(NaN=int(np.isnan(values).sum()), infinite=int(np.isinf(values).sum()))
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
            total, finite_count = total + float(finite.sum()), finite_count + finite.size
    parts = []
    if finite_count and array.dtype.kind == "c":
        parts.append(f"magnitude up to {high:.6g}")
    elif finite_count:
        parts.append(f"{low:.6g} to {high:.6g}, mean {total / finite_count:.6g}")
    parts += [f"{number} {name}" for name, number in count.items() if number]
    return ", ".join(parts)
