"""Single operators, run by their type names (``aclopCompileAndExecute``): which aclnn operator does the same, on which views.

A type is a function from its inputs, outputs and attributes to an aclnn operator and its arguments, so that the same rules
and references answer. What it does not take is ``NotTranslated``, and the client gets a refusal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.spec import TensorSpec

Attribute = Union[bool, int, float, str, list[Any]]


class NotTranslated(ValueError):
    """A type, or arguments of one, that no aclnn operator stands for here."""


class Item(NamedTuple):
    """An input or output: its spec, and its number among the tensors in device memory, or its values."""

    spec: TensorSpec
    number: Optional[int] = None
    values: Optional[npt.NDArray[Any]] = None

    def view(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> Item:
        """The same memory seen in another way."""
        return self._replace(spec=TensorSpec(tuple(shape), self.spec.dtype, tuple(strides), offset, self.spec.format))

    def integers(self, what: str) -> list[int]:
        """The values of an input that is known at the call."""
        if self.values is None:
            raise NotTranslated(f"{what} is in device memory; the emulator needs it as a constant")
        return [int(value) for value in self.values.reshape(-1)]


class Call(NamedTuple):
    """An aclnn operator with its arguments: Items and other values, in C order."""

    operator: str
    arguments: list[Any]


Inputs = Sequence[Optional[Item]]
Translation = Callable[[Inputs, Sequence[Item], dict[str, Attribute]], Call]

_TRANSLATIONS: dict[str, Translation] = {}


def _single(*types: str) -> Callable[[Translation], Translation]:
    def declare(translate: Translation) -> Translation:
        _TRANSLATIONS.update(dict.fromkeys(types, translate))
        return translate

    return declare


def types() -> list[str]:
    """The type names that can be run."""
    return sorted(_TRANSLATIONS)


def translate(name: str, inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    found = _TRANSLATIONS.get(name)
    if found is None:
        raise NotTranslated(f"no aclnn operator stands for {name}")
    try:
        return found(inputs, outputs, attributes)
    except IndexError:
        raise NotTranslated(f"{len(inputs)} inputs and {len(outputs)} outputs are not what {name} has") from None


def _given(inputs: Inputs, index: int) -> Item:
    found = inputs[index]
    if found is None:
        raise NotTranslated(f"input {index} is absent")
    return found


# ---------------------------------------------------------------------------------------------------------------- copies

_ROW_MAJOR = (Format.ND, Format.NCHW, Format.NCL, Format.NCDHW)  # the order of their axes is the tensor's


def _flat(item: Item) -> Item:
    """All elements in storage order."""
    return item.view((item.spec.size,), (1,), item.spec.offset)


@_single("Identity", "TransData", "TensorMove")
def _identity(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    source, target = _given(inputs, 0), outputs[0]
    here, there = source.spec.format, target.spec.format
    if here == there or (here in _ROW_MAJOR and there in _ROW_MAJOR):
        if source.spec.storage_shape != source.spec.shape or here not in _ROW_MAJOR:
            size = int(np.prod(source.spec.storage_shape))
            source, target = (i.view((size,), (1,), 0)._replace(number=i.number) for i in (source, target))
            plain = [item._replace(spec=TensorSpec(item.spec.shape, item.spec.dtype)) for item in (source, target)]
            return Call("aclnnInplaceCopy", [plain[1], plain[0]])
        return Call("aclnnInplaceCopy", [_flat(target), _flat(source)])
    if Format.FRACTAL_NZ in (here, there) and {here, there} - {Format.FRACTAL_NZ} <= set(_ROW_MAJOR):
        return Call("aclnnNpuFormatCast", [source, target])
    raise NotTranslated(f"from format {here.name} to {there.name}")


@_single("Transpose")
def _transpose(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    source, order = _given(inputs, 0), _given(inputs, 1).integers("perm")
    spec = source.spec
    view = source.view([spec.shape[a] for a in order], [spec.strides[a] for a in order], spec.offset)
    return Call("aclnnInplaceCopy", [outputs[0], view])


@_single("Slice")
def _slice(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    source, begin = _given(inputs, 0), _given(inputs, 1).integers("offsets")
    size = _given(inputs, 2).integers("size")
    spec = source.spec
    lengths = [spec.shape[a] - b if n == -1 else n for a, (b, n) in enumerate(zip(begin, size))]
    if not all(b >= 0 and n >= 0 and b + n <= whole for b, n, whole in zip(begin, lengths, spec.shape)):
        raise NotTranslated(f"offsets {begin} with size {size} reach outside shape {spec.shape}")
    offset = spec.offset + sum(b * step for b, step in zip(begin, spec.strides))
    return Call("aclnnInplaceCopy", [outputs[0], source.view(lengths, spec.strides, offset)])


_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def _number(attributes: dict[str, Attribute], name: str, otherwise: Any) -> Any:
    found = attributes.get(name, otherwise)
    if not isinstance(found, (int, float)):
        raise NotTranslated(f"attribute {name} is {found!r}; a number is needed")
    return found


@_single("StridedSlice")
def _strided_slice(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    source, begin, end = _given(inputs, 0), _given(inputs, 1).integers("begin"), _given(inputs, 2).integers("end")
    steps = _given(inputs, 3).integers("strides") if len(inputs) > 3 else [1] * len(begin)
    masks = {name: _number(attributes, f"{name}_mask", 0) for name in _MASKS}
    if masks["ellipsis"] or masks["new_axis"] or min(steps, default=1) < 1:
        raise NotTranslated("an ellipsis, a new axis or a negative stride")
    spec = source.spec
    shape, strides, offset = [], [], spec.offset
    for axis, length in enumerate(spec.shape):
        if axis >= len(begin):
            shape.append(length)
            strides.append(spec.strides[axis])
            continue
        bit = 1 << axis
        first = None if masks["begin"] & bit else begin[axis]
        last = None if masks["end"] & bit else end[axis]
        if masks["shrink_axis"] & bit:
            start = begin[axis] + (length if begin[axis] < 0 else 0)
            offset += start * spec.strides[axis]
            continue
        start, stop, step = slice(first, last, steps[axis]).indices(length)
        shape.append(len(range(start, stop, step)))
        strides.append(spec.strides[axis] * step)
        offset += start * spec.strides[axis]
    return Call("aclnnInplaceCopy", [outputs[0], source.view(shape, strides, offset)])


@_single("Fill")
def _fill(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    value = _given(inputs, 1)
    if value.values is not None:
        return Call(
            "aclnnInplaceFillScalar", [outputs[0], Scalar(value.values.reshape(-1)[0].item(), value.spec.dtype)]
        )
    return Call("aclnnInplaceFillTensor", [outputs[0], value])


# ---------------------------------------------------------------------------------------------------------- elementwise


def _same_arguments(operator: str) -> Translation:
    """A type whose inputs and outputs are the aclnn operator's, in its order."""
    return lambda inputs, outputs, attributes: Call(operator, [*inputs, *outputs])


_TRANSLATIONS.update(
    (name, _same_arguments(operator))
    for name, operator in {
        "Abs": "aclnnAbs",
        "Ceil": "aclnnCeil",
        "Cos": "aclnnCos",
        "Erf": "aclnnErf",
        "Exp": "aclnnExp",
        "Floor": "aclnnFloor",
        "Log": "aclnnLog",
        "Maximum": "aclnnMaximum",
        "Minimum": "aclnnMinimum",
        "Mul": "aclnnMul",
        "Neg": "aclnnNeg",
        "RealDiv": "aclnnDiv",
        "Reciprocal": "aclnnReciprocal",
        "Relu": "aclnnRelu",
        "Rsqrt": "aclnnRsqrt",
        "Sigmoid": "aclnnSigmoid",
        "Sign": "aclnnSign",
        "Sin": "aclnnSin",
        "Sqrt": "aclnnSqrt",
        "Tanh": "aclnnTanh",
    }.items()
)


@_single("Add")
def _add(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnAdd", [*inputs, Scalar(1, DataType.INT64), *outputs])


@_single("Sub")
def _sub(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnSub", [*inputs, Scalar(1, DataType.INT64), *outputs])


@_single("Swish")
def _swish(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnSwish", [inputs[0], Scalar(float(_number(attributes, "scale", 1)), DataType.FLOAT), outputs[0]])


@_single("SwishGrad")
def _swish_grad(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    scale = Scalar(float(_number(attributes, "scale", 1)), DataType.FLOAT)
    return Call("aclnnSwishBackward", [inputs[0], inputs[1], scale, outputs[0]])


def _one_axis(attributes: dict[str, Attribute]) -> int:
    axes = attributes.get("axes", [-1])
    if not isinstance(axes, list) or len(axes) != 1:
        raise NotTranslated(f"axes are {axes}; one is needed")
    return int(axes[0])


@_single("SoftmaxV2")
def _softmax(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnSoftmax", [inputs[0], _one_axis(attributes), outputs[0]])


@_single("LogSoftmaxV2")
def _log_softmax(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnLogSoftmax", [inputs[0], _one_axis(attributes), outputs[0]])


@_single("Cast")
def _cast(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnCast", [inputs[0], int(outputs[0].spec.dtype), outputs[0]])


@_single("MatMul", "MatMulV2")
def _matmul(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    if any(item is not None for item in inputs[2:]):
        raise NotTranslated("a bias")
    sides = []
    for item, flag in ((_given(inputs, 0), "transpose_x1"), (_given(inputs, 1), "transpose_x2")):
        turned = attributes.get(flag, False)
        spec = item.spec
        sides.append(item.view(spec.shape[::-1], spec.strides[::-1], spec.offset) if turned else item)
    return Call("aclnnMm", [*sides, outputs[0], 1])


# ------------------------------------------------------------------------------------------------ reading csrc/op.c's words


class Reader:
    """The words of a request: integers, and texts as their length and bytes filled up to a word."""

    def __init__(self, payload: bytes) -> None:
        self._payload, self._at = payload, 0

    def integer(self) -> int:
        self._at += 8
        number: int = struct.unpack_from("<q", self._payload, self._at - 8)[0]
        return number

    def integers(self) -> list[int]:
        return [self.integer() for _ in range(self.integer())]

    def number(self) -> float:
        self._at += 8
        found: float = struct.unpack_from("<d", self._payload, self._at - 8)[0]
        return found

    def raw(self) -> bytes:
        size = self.integer()
        self._at += -(-size // 8) * 8
        start = self._at - -(-size // 8) * 8
        return self._payload[start : start + size]

    def text(self) -> str:
        return self.raw().decode("utf-8", "replace")

    def list(self, read: Callable[[], Any]) -> list[Any]:
        return [read() for _ in range(self.integer())]

    def attributes(self) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        for _ in range(self.integer()):
            name, kind = self.text(), chr(self.integer())
            reading: dict[str, Callable[[], Any]] = {
                "b": lambda: bool(self.integer()),
                "i": self.integer,
                "f": self.number,
                "s": self.text,
                "B": lambda: self.list(lambda: bool(self.integer())),
                "I": lambda: self.list(self.integer),
                "F": lambda: self.list(self.number),
                "S": lambda: self.list(self.text),
                "L": lambda: self.list(self.integers),
            }
            found[name] = reading[kind]()
        return found
