"""Two recordings of one program beside each other: which launch differs first, and in what."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import catalog
from ascend_aclnn.recording import Launch, Recording, RecordingError, TensorValue, Value
from ascend_aclnn.replay.launches import described
from ascend_aclnn.replay.summary import ending, tensor_words, value_words
from ascend_aclnn.testing.compare import Deviation, compare

Array = npt.NDArray[Any]
_MOST_PAIRS = 10_000_000  # beyond these the rest behind the first other operator is not paired


class Difference(NamedTuple):
    """A launch that differs. ``kind``: "launch" (one has it), "argument", "input", "status" or "output".

    A launch with the same inputs and another output is where a difference begins; one with other inputs has inherited it.
    """

    kind: str
    first: Optional[Launch]
    second: Optional[Launch]
    text: str

    @property
    def is_origin(self) -> bool:
        return self.kind in ("output", "status", "argument")

    def __str__(self) -> str:
        launch = self.first or self.second
        assert launch is not None
        number = f"#{launch.index}"
        if self.first is not None and self.second is not None and self.first.index != self.second.index:
            number = f"#{self.first.index} (#{self.second.index})"
        return f"{number} {launch.operator.name}: {self.text}"


def differences(first: Recording, second: Recording) -> Iterator[Difference]:
    """The launches that differ, in order. Results within the operator's accuracy standard do not differ."""
    for one, other in _pairs(first, second):
        if one is None or other is None:
            missing = "second" if other is None else "first"
            yield Difference("launch", one, other, f"the {missing} recording has no such launch here")
            continue
        difference = _difference(first, one, second, other)
        if difference is not None:
            yield Difference(difference[0], one, other, difference[1])


def _pairs(first: Recording, second: Recording) -> Iterator[tuple[Optional[Launch], Optional[Launch]]]:
    """Launches of both, paired by the order of their operators."""
    names = [[launch.operator.name for launch in recording.launches] for recording in (first, second)]
    shorter = min(map(len, names))
    same = next((i for i in range(shorter) if names[0][i] != names[1][i]), shorter)
    for index in range(same):
        yield first.launches[index], second.launches[index]
    rest = [listed[same:] for listed in names]
    blocks: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(rest[0]), 0, len(rest[1]))]
    if len(rest[0]) * len(rest[1]) <= _MOST_PAIRS:
        blocks = difflib.SequenceMatcher(None, rest[0], rest[1], autojunk=False).get_opcodes()
    for kind, start, stop, other_start, other_stop in blocks:
        if kind == "equal":
            for step in range(stop - start):
                yield first.launches[same + start + step], second.launches[same + other_start + step]
            continue
        for index in range(start, stop):
            yield first.launches[same + index], None
        for index in range(other_start, other_stop):
            yield None, second.launches[same + index]


def _difference(first: Recording, one: Launch, second: Recording, other: Launch) -> Optional[tuple[str, str]]:
    """In what two launches of an operator differ first: the kind and a text."""
    if one.operator != other.operator:
        return "argument", "its prototypes differ"
    directions = dict(zip(one.operator.parameters, one.operator.directions))
    for name, value in one.named.items():
        text = _argument_difference(value, other.named[name])
        if text:
            return "argument", f"{name} is {text}"
    inherited = ""
    for name, pair in _tensors(one, other):
        if directions[name.partition("[")[0]] == "out":
            continue
        text = _data_difference(one, (first, second), pair, "before")
        if text:
            inherited = inherited or f"its input {name} differs already: {text}"
    if ending(one) != ending(other):
        return "status", f"{ending(one)} and {ending(other)}. {one.error or other.error}".rstrip(". ")
    for name, pair in _tensors(one, other):
        text = _data_difference(one, (first, second), pair, "after")
        if text:
            if inherited:
                return "input", f"{inherited}; {name} then differs: {text}"
            return "output", f"same inputs; {name} differs: {text}"
    return ("input", inherited) if inherited else None


def _argument_difference(value: Value, other: Value) -> str:
    """In what two values differ but for addresses and data; "" where they do not."""
    if value.kind != other.kind:
        return f"{value_words(value)} and {value_words(other)}"
    tensors, others = list(value.tensors()), list(other.tensors())
    if value.kind in ("tensor", "tensors"):
        alike = len(tensors) == len(others) and all(a.description == b.description for a, b in zip(tensors, others))
        return "" if alike else f"{_tensors_words(tensors)} and {_tensors_words(others)}"
    if value.kind == "unknown" or value.content == other.content:
        return ""
    return f"{value_words(value)} and {value_words(other)}"


def _tensors_words(tensors: list[TensorValue]) -> str:
    return ", ".join(tensor_words(tensor.description) for tensor in tensors) or "no tensors"


def _tensors(one: Launch, other: Launch) -> Iterator[tuple[str, tuple[TensorValue, TensorValue]]]:
    for name, value in one.named.items():
        pairs = list(zip(value.tensors(), other.named[name].tensors()))
        for at, pair in enumerate(pairs):
            yield (name if value.kind == "tensor" else f"{name}[{at}]"), pair


def _data_difference(
    launch: Launch, recordings: tuple[Recording, Recording], pair: tuple[TensorValue, TensorValue], when: str
) -> str:
    """How recorded data differ, beyond the operator's standard; "" where they do not, or one was not recorded."""
    keys = [tensor.before if when == "before" else tensor.after for tensor in pair]
    if None in keys or keys[0] == keys[1]:
        return ""
    try:
        arrays = [recording.array(tensor, when) for recording, tensor in zip(recordings, pair)]
    except TypeError:  # no values on the host
        return "its bytes differ"
    except RecordingError as error:
        return str(error)
    if when == "before":
        count = int(np.count_nonzero(_bits(arrays[0]) != _bits(arrays[1])))
        return f"{count} of {arrays[0].size} elements" if count else ""
    operator = launch.operator.name if launch.operator.name in catalog.names() else None
    comparison = compare(arrays[1], arrays[0], operator=operator)
    return "" if comparison.accurate else _with_ulp(described(comparison), comparison.worst)


def _bits(array: Array) -> Array:
    """The elements as bytes, so that NaNs and zeros are compared as they are stored."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.dtype(f"V{flat.dtype.itemsize}")) if flat.size else flat


def _with_ulp(text: str, worst: list[Deviation]) -> str:
    if worst and worst[0].ulp == worst[0].ulp:
        return f"{text} ({worst[0].ulp:.4g} ULP)"
    return text
