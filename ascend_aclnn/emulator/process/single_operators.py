"""Single operators, run by their type names (``aclopCompileAndExecute``): which aclnn operator does the same, on which views.

A type with its inputs, outputs and attributes becomes an aclnn operator with its arguments, so that the same rules and
references answer: by its entry in the catalog (``catalog/single.py``), or by a function here. What is not taken is
``NotTranslated``, and the client gets a refusal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn import catalog
from ascend_aclnn.catalog import single
from ascend_aclnn.catalog.single import Argument, NotEmulated, SingleOperator
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.layouts import (
    channel_blocks,
    from_channel_blocks,
    from_kernel_blocks,
    from_nz,
    kernel_blocks,
    matrix_blocks,
    to_channel_blocks,
    to_kernel_blocks,
    to_nz,
)
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.spec import TensorSpec, contiguous_strides

Attribute = Union[bool, int, float, str, list[Any]]


class NotTranslated(ValueError):
    """A type, or arguments of one, that no aclnn operator stands for here."""


class Blocks(NamedTuple):
    """How memory holds a tensor in blocks (NC1HWC0, FRACTAL_Z, ...), which operators see in row-major order."""

    spec: TensorSpec  # the client's
    is_output: bool

    def unpack(self, memory: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """The values in memory."""
        dtype = self.spec.dtype.numpy
        assert dtype is not None, "whoever makes blocks refuses others"
        stored = memory[: int(np.prod(self.spec.storage_shape)) * dtype.itemsize].view(dtype)
        unpack = _BLOCKS[self.spec.format][2]
        return np.ascontiguousarray(unpack(stored.reshape(self.spec.storage_shape), self.spec.shape))

    def pack(self, values: npt.NDArray[Any], memory: npt.NDArray[np.uint8]) -> None:
        """Puts values into memory."""
        raw = _BLOCKS[self.spec.format][1](values, self.spec.storage_shape).reshape(-1).view(np.uint8)
        memory[: len(raw)] = raw


class Item(NamedTuple):
    """An input or output: its spec, and its number among the tensors in device memory, or its values."""

    spec: TensorSpec
    number: Optional[int] = None
    values: Optional[npt.NDArray[Any]] = None
    blocks: Optional[Blocks] = None

    def view(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> Item:
        """The same memory seen in another way."""
        return self._replace(spec=TensorSpec(tuple(shape), self.spec.dtype, tuple(strides), offset, self.spec.format))

    def integers(self, what: str) -> list[int]:
        """The values of an input that is known at the call."""
        if self.values is None:
            raise NotTranslated(f"{what} is in device memory; the emulator needs it as a constant")
        return [int(value) for value in self.values.reshape(-1)]


class SingleCall(NamedTuple):
    """An operator with its arguments: Items and other values, in C order."""

    operator: catalog.Operator
    arguments: list[Any]


Inputs = Sequence[Optional[Item]]
Outputs = Sequence[Item]
Attributes = dict[str, Attribute]
Translation = Callable[[Inputs, Outputs, Attributes], SingleCall]

_TRANSLATIONS: dict[str, Translation] = {}  # of the types whose entries have no arguments


def _single(*types: str) -> Callable[[Translation], Translation]:
    def declare(translation: Translation) -> Translation:
        _TRANSLATIONS.update(dict.fromkeys(types, translation))
        return translation

    return declare


def functions() -> list[str]:
    """The types that a function translates."""
    return sorted(_TRANSLATIONS)


def translate(name: str, inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    """The call that does the work of a type; NotTranslated where none does."""
    entry = single.find(name)
    if entry is None:
        raise NotTranslated(f"no aclnn operator stands for {name}")
    if entry.unsupported is not None:
        raise NotTranslated(entry.unsupported)
    also = () if name in _CHANGE_FORMATS else (Format.FRACTAL_NZ,)
    inputs = [None if item is None else _in_rows(item, False, also) for item in inputs]
    outputs = [_in_rows(item, True, also) for item in outputs]
    try:
        if entry.arguments is None:
            return _TRANSLATIONS[name](inputs, outputs, attributes)
        client = _Client(entry, inputs, outputs, attributes)
        for refusal in entry.refused:
            client.check(refusal)
        return SingleCall(entry.operator, [client.value(argument) for argument in entry.arguments.values()])
    except IndexError:
        raise NotTranslated(f"{len(inputs)} inputs and {len(outputs)} outputs are not what {name} has") from None


# Formats in blocks: the shape of the blocks of a shape and of a last axis, what packs, what unpacks.
_BLOCKS: dict[Format, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    Format.NC1HWC0: (channel_blocks, to_channel_blocks, from_channel_blocks),
    Format.NDC1HWC0: (channel_blocks, to_channel_blocks, from_channel_blocks),
    Format.FRACTAL_Z: (kernel_blocks, to_kernel_blocks, from_kernel_blocks),
    Format.FRACTAL_Z_3D: (kernel_blocks, to_kernel_blocks, from_kernel_blocks),
    Format.FRACTAL_NZ: (matrix_blocks, to_nz, from_nz),
}
_ROWS = {Format.NC1HWC0: Format.NCHW, Format.FRACTAL_Z: Format.NCHW}
_ROWS.update({Format.NDC1HWC0: Format.NCDHW, Format.FRACTAL_Z_3D: Format.NCDHW})


def _in_rows(item: Item, is_output: bool, also: Sequence[Format]) -> Item:
    """An item in blocks as the operators take it: the plan unpacks it, and packs an output."""
    spec = item.spec
    if spec.format not in _ROWS and spec.format not in also:
        return item
    shape, blocks = spec.shape, spec.storage_shape
    rank = {Format.NCHW: 4, Format.NCDHW: 5}.get(_ROWS.get(spec.format, Format.ND), max(len(shape), 2))
    if spec.dtype.numpy is None or spec.dtype.bits < 8 or item.number is None:
        raise NotTranslated(f"{spec.dtype.name} in format {spec.format.name}")
    if len(shape) != rank or len(blocks) < 4 or tuple(blocks) != tuple(_BLOCKS[spec.format][0](shape, blocks[-1])):
        raise NotTranslated(f"{blocks} are not the blocks of shape {shape} in format {spec.format.name}")
    rows = TensorSpec(shape, spec.dtype, format=_ROWS.get(spec.format, Format.ND))
    return item._replace(spec=rows, blocks=Blocks(spec, is_output))


def _call(operator: str, arguments: list[Any]) -> SingleCall:
    return SingleCall(catalog.get(operator), arguments)


def _present(inputs: Inputs, index: int) -> Item:
    item = inputs[index]
    if item is None:
        raise NotTranslated(f"input {index} is absent")
    return item


# -------------------------------------------------------------------------------------------- by the entry in the catalog


class _Client:
    """What a client passes, by the names of the type's prototype."""

    def __init__(self, entry: SingleOperator, inputs: Inputs, outputs: Outputs, attributes: Attributes) -> None:
        self._entry = entry
        self._inputs, self._outputs, self._attributes = inputs, outputs, attributes

    def input(self, name: str) -> Optional[Item]:
        at = list(self._entry.inputs).index(name)
        if at >= len(self._inputs) and self._entry.inputs[name] == "optional tensor":
            return None
        return self._inputs[at]

    def attribute(self, name: str) -> Any:
        value = self._attributes.get(name, self._entry.attributes[name].default)
        if value is catalog.REQUIRED:
            raise NotTranslated(f"attribute {name} is absent")
        return value

    def check(self, refusal: NotEmulated) -> None:
        """NotTranslated where the client passes what is refused."""
        name = refusal.name
        if refusal.what == "attribute":
            value = self.attribute(name)
            if value != refusal.unless:
                raise NotTranslated(f"{name} is {value!r}; the emulator takes {refusal.unless!r}")
        elif (self.input(name) is None) is (refusal.what == "without"):
            raise NotTranslated(f"input {name} is {'absent' if refusal.what == 'without' else 'there'}")

    def value(self, argument: Argument) -> Any:
        """What a parameter gets."""
        name, form = argument.value, argument.form
        if argument.source == "constant":
            return tuple(name) if isinstance(name, list) else _OF_ATTRIBUTE[form](name, "")
        if argument.source == "attribute":
            value = self.attribute(name)
            if not argument.choices:
                return _OF_ATTRIBUTE[form](value, name)
            if value not in argument.choices:
                raise NotTranslated(f"{name} is {value!r}; allowed: {', '.join(argument.choices)}")
            return argument.choices.index(value)
        if form == "list of tensors":
            return list(self._inputs[list(self._entry.inputs).index(name) :])
        item = self._outputs[self._entry.outputs.index(name)] if argument.source == "output" else self.input(name)
        if form == "tensor":
            return item
        if item is None:
            raise NotTranslated(f"input {name} is absent")
        return _OF_TENSOR[form](item) if form in _OF_TENSOR else _OF_CONSTANT[form](item, _values(item, name))


def _values(item: Item, name: str) -> npt.NDArray[Any]:
    """The values of an input that is known at the call."""
    if item.values is None:
        raise NotTranslated(f"input {name} is in device memory; the emulator needs it as a constant")
    return item.values.reshape(-1)


def _number(value: Attribute, name: str) -> Union[int, float]:
    if not isinstance(value, (int, float)):
        raise NotTranslated(f"attribute {name} is {value!r}; a number is needed")
    return value


def _numbers(value: Attribute, name: str) -> list[Any]:
    if not isinstance(value, list):
        return [_number(value, name)]
    return value


def _one_integer(value: Attribute, name: str) -> int:
    """The only one of several integers."""
    numbers = _numbers(value, name)
    if len(numbers) != 1:
        raise NotTranslated(f"{name} are {numbers}; one is needed")
    return int(numbers[0])


def _raw(item: Item) -> Item:
    """The storage of a private layout, as words of 16 bits."""
    spec = item.spec if item.blocks is None else item.blocks.spec
    return item._replace(spec=TensorSpec((int(np.prod(spec.storage_shape)),), DataType.UINT16), blocks=None)


def _axes(item: Item, axes: Sequence[int]) -> Item:
    """Some axes, in an order; the others have length 1."""
    spec = item.spec
    return item.view([spec.shape[axis] for axis in axes], [spec.strides[axis] for axis in axes], spec.offset)


def _channels_first(item: Item) -> Item:
    """An image, whose channels lie behind in NHWC, with its axes in the order of NCHW."""
    return _channels_first_from_nhwc(item) if item.spec.format is Format.NHWC else item


def _channels_first_from_nhwc(item: Item) -> Item:
    spec = item.spec
    if spec.format is not Format.NHWC or len(spec.shape) != 4:
        raise NotTranslated(
            f"an image has format {spec.format.name} and shape {spec.shape}; it must be NHWC with 4 axes"
        )
    moved = _axes(item, (0, 3, 1, 2)).spec
    return item._replace(spec=TensorSpec(moved.shape, moved.dtype, moved.strides, moved.offset))


# The forms of ``single.Argument``: of inputs and outputs, of the values of inputs, of attributes and constants.
_OF_TENSOR: dict[str, Callable[[Item], Any]] = {
    "shape": lambda item: item.spec.shape,
    "spatial shape": lambda item: item.spec.shape[2:],  # after batch and channels
    "number of elements": lambda item: item.spec.size,
    "data type": lambda item: int(item.spec.dtype),
    "tensor without axes": lambda item: item.view((), (), 0) if item.spec.size == 1 else item,
    "16-bit words": _raw,
    "number of 16-bit words": lambda item: _raw(item).spec.size,
    "channels first": _channels_first,
    "channels first from NHWC": _channels_first_from_nhwc,
}
_OF_CONSTANT: dict[str, Callable[[Item, npt.NDArray[Any]], Any]] = {
    "integer": lambda item, values: int(values[0]),
    "last integer": lambda item, values: int(values[-1]),
    "integers": lambda item, values: tuple(map(int, values)),
    "complement": lambda item, values: 1.0 - float(values[0]),  # of a probability
    "scalar": lambda item, values: Scalar(values[0].item(), item.spec.dtype),
}
_OF_ATTRIBUTE: dict[str, Callable[[Attribute, str], Any]] = {
    "number": lambda value, name: float(_number(value, name)),
    "integer": lambda value, name: int(_number(value, name)),
    "bool": lambda value, name: bool(_number(value, name)),
    "string": lambda value, name: str(value),
    "numbers": lambda value, name: tuple(map(float, _numbers(value, name))),
    "integers": lambda value, name: tuple(map(int, _numbers(value, name))),
    "middle integers": lambda value, name: tuple(map(int, _numbers(value, name)[1:-1])),
    "one integer": _one_integer,
    "FLOAT scalar": lambda value, name: Scalar(float(_number(value, name)), DataType.FLOAT),
    "INT64 scalar": lambda value, name: Scalar(int(_number(value, name)), DataType.INT64),
}


# ---------------------------------------------------------------------------------------------------------------- copies

_ROW_MAJOR = (Format.ND, Format.NCHW, Format.NCL, Format.NCDHW)  # the order of their axes is the tensor's


def _flat(item: Item) -> Item:
    """All elements in storage order."""
    return item.view((item.spec.size,), (1,), item.spec.offset)


_CHANGE_FORMATS = ("Identity", "TransData", "TensorMove")


@_single(*_CHANGE_FORMATS)
def _identity(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    source, target = _present(inputs, 0), outputs[0]
    here, there = source.spec.format, target.spec.format
    if here == there or (here in _ROW_MAJOR and there in _ROW_MAJOR):
        if source.spec.storage_shape != source.spec.shape or here not in _ROW_MAJOR:
            size = int(np.prod(source.spec.storage_shape))
            source, target = (i.view((size,), (1,), 0)._replace(number=i.number) for i in (source, target))
            plain = [item._replace(spec=TensorSpec(item.spec.shape, item.spec.dtype)) for item in (source, target)]
            return _call("aclnnInplaceCopy", [plain[1], plain[0]])
        return _call("aclnnInplaceCopy", [_flat(target), _flat(source)])
    if Format.FRACTAL_NZ in (here, there) and {here, there} - {Format.FRACTAL_NZ} <= set(_ROW_MAJOR):
        if source.spec.shape == target.spec.shape:  # on every product, where the aclnn operator is on some
            return _call("aclnnInplaceCopy", [target, source])
        return _call("aclnnNpuFormatCast", [source, target])
    raise NotTranslated(f"from format {here.name} to {there.name}")


@_single("Transpose")
def _transpose(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    source, order = _present(inputs, 0), _present(inputs, 1).integers("perm")
    return _call("aclnnInplaceCopy", [outputs[0], _axes(source, order)])


@_single("Slice")
def _slice(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    source, begin = _present(inputs, 0), _present(inputs, 1).integers("offsets")
    size = _present(inputs, 2).integers("size")
    spec = source.spec
    lengths = [spec.shape[a] - b if n == -1 else n for a, (b, n) in enumerate(zip(begin, size))]
    if not all(b >= 0 and n >= 0 and b + n <= whole for b, n, whole in zip(begin, lengths, spec.shape)):
        raise NotTranslated(f"offsets {begin} with size {size} reach outside shape {spec.shape}")
    offset = spec.offset + sum(b * step for b, step in zip(begin, spec.strides))
    target = outputs[0].view(lengths, contiguous_strides(tuple(lengths)), outputs[0].spec.offset)  # may have fewer axes
    return _call("aclnnInplaceCopy", [target, source.view(lengths, spec.strides, offset)])


_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


@_single("StridedSlice")
def _strided_slice(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    source, begin, end = _present(inputs, 0), _present(inputs, 1).integers("begin"), _present(inputs, 2).integers("end")
    steps = _present(inputs, 3).integers("strides") if len(inputs) > 3 else [1] * len(begin)
    masks = {name: int(_number(attributes.get(f"{name}_mask", 0), f"{name}_mask")) for name in _MASKS}
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
    return _call("aclnnInplaceCopy", [outputs[0], source.view(shape, strides, offset)])


@_single("Fill")
def _fill(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    value = _present(inputs, 1)
    if value.values is not None:
        return _call(
            "aclnnInplaceFillScalar", [outputs[0], Scalar(value.values.reshape(-1)[0].item(), value.spec.dtype)]
        )
    return _call("aclnnInplaceFillTensor", [outputs[0], value])


@_single("AsStrided")
def _as_strided(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    return _call("aclnnInplaceCopy", [outputs[0], _view_of(inputs, 0)])


@_single("ViewCopy")
def _view_copy(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    target = _view_of(inputs, 0)
    return _call("aclnnInplaceCopy", [outputs[0]._replace(spec=target.spec), _view_of(inputs, 4)])


def _view_of(inputs: Inputs, first: int) -> Item:
    """An input seen with the sizes, strides and offset that the next three inputs give."""
    size, stride = (_present(inputs, first + k).integers(name) for k, name in ((1, "size"), (2, "stride")))
    offset = _present(inputs, first + 3).integers("offset")[0] if len(inputs) > first + 3 else 0
    return _present(inputs, first).view(size, stride, offset)


@_single("BroadcastTo")
def _broadcast_to(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    source, shape = _present(inputs, 0), _present(inputs, 1).integers("shape")
    spec = source.spec
    lead = len(shape) - len(spec.shape)
    if lead < 0 or any(n not in (1, wanted) for n, wanted in zip(spec.shape, shape[lead:])):
        raise NotTranslated(f"shape {spec.shape} does not broadcast to {tuple(shape)}")
    strides = [0] * lead + [0 if n == 1 else step for n, step in zip(spec.shape, spec.strides)]
    return _call("aclnnInplaceCopy", [outputs[0], source.view(shape, strides, spec.offset)])


@_single("Pad")
def _pad(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    pairs = np.reshape(_present(inputs, 1).integers("paddings"), (-1, 2))[::-1]  # aclnn begins with the last axis
    return _call(
        "aclnnConstantPadNd", [inputs[0], tuple(pairs.reshape(-1).tolist()), Scalar(0, DataType.FLOAT), outputs[0]]
    )


# ------------------------------------------------------------------------------------------------- products


def _turned(item: Item, turn: Any) -> Item:
    """With the last two axes the other way round, if asked for."""
    if not turn:
        return item
    shape, strides = item.spec.shape, item.spec.strides
    return item.view((*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2]), item.spec.offset)


@_single("BatchMatMul", "BatchMatMulV2")
def _batch_matmul(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    if any(item is not None for item in inputs[2:]):
        raise NotTranslated("a bias")
    sides = [_turned(_present(inputs, at), attributes.get(f"adj_x{at + 1}")) for at in (0, 1)]
    return _call("aclnnBatchMatMul", [*sides, outputs[0], 1])


@_single("MatMul", "MatMulV2")
def _matmul(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    sides = [_turned(_present(inputs, at), attributes.get(f"transpose_x{at + 1}")) for at in (0, 1)]
    bias = inputs[2] if len(inputs) > 2 else None
    if any(item is not None for item in inputs[3:]):
        raise NotTranslated("an offset")
    if bias is None:
        return _call("aclnnMm", [*sides, outputs[0], 1])
    one = Scalar(1, DataType.FLOAT)
    return _call("aclnnAddmm", [bias, *sides, one, one, outputs[0], 1])


# ------------------------------------------------------------------------------------------------------------- convolutions


def _last(attributes: Attributes, name: str, axes: int, otherwise: int) -> tuple[int, ...]:
    """Numbers for the axes after the channels; some clients give others before them."""
    numbers = attributes.get(name)
    return tuple(numbers[-axes:]) if isinstance(numbers, list) else (otherwise,) * axes


def _settings(item: Item, attributes: Attributes) -> tuple[list[Any], int]:
    """Stride, padding and dilation of a convolution, and the groups."""
    if attributes.get("data_format") in ("NHWC", "NDHWC"):
        raise NotTranslated("channels last")
    axes = len(item.spec.shape) - 2
    pads = _last(attributes, "pads", 2 * axes, 0)
    if pads[::2] != pads[1::2]:
        raise NotTranslated(f"pads are {pads}; both sides of an axis must be alike")
    settings = [_last(attributes, "strides", axes, 1), pads[::2], _last(attributes, "dilations", axes, 1)]
    return settings, int(_number(attributes.get("groups", 1), "groups"))


def _by_rank(item: Optional[Item]) -> Optional[Item]:
    """An image or kernel of format ND with the format of its axes, which others of the call may have."""
    rows = {4: Format.NCHW, 5: Format.NCDHW}
    if item is None or item.spec.format is not Format.ND or len(item.spec.shape) not in rows:
        return item
    spec = item.spec
    return item._replace(spec=TensorSpec(spec.shape, spec.dtype, spec.strides, spec.offset, rows[len(spec.shape)]))


def _convolve(inputs: Inputs, outputs: Outputs, attributes: Attributes, transposed: bool) -> SingleCall:
    x, weight = _by_rank(inputs[0]), _by_rank(inputs[1])
    bias = inputs[2] if len(inputs) > 2 else None
    settings, groups = _settings(outputs[0], attributes)
    extra = _last(attributes, "output_padding", len(settings[0]), 0)
    return _call("aclnnConvolution", [x, weight, bias, *settings, transposed, extra, groups, _by_rank(outputs[0]), 0])


@_single("Conv2D", "Conv3D")
def _conv(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    return _convolve(inputs, outputs, attributes, False)


@_single("Conv2DTranspose", "Conv3DTranspose")
def _conv_transpose(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    return _convolve(inputs[1:], outputs, attributes, True)


def _slope(call_for: int, dy: Any, x: Any, weight: Any, output: Item, attributes: Attributes) -> SingleCall:
    """The gradient of the input (0) or of the weight (1) of a convolution."""
    settings, groups = _settings(output, attributes)
    nothing = (0,) * len(settings[0])
    asked = call_for == 0, call_for == 1, False
    gradients = [output if wanted else None for wanted in asked]
    return _call(
        "aclnnConvolutionBackward", [dy, x, weight, (), *settings, False, nothing, groups, asked, 0, *gradients]
    )


@_single("Conv2DBackpropInput", "Conv3DBackpropInput")
def _conv_input(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    return _slope(0, inputs[2], outputs[0], inputs[1], outputs[0], attributes)


@_single("Conv2DBackpropFilter", "Conv3DBackpropFilter")
def _conv_filter(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    return _slope(1, inputs[2], inputs[0], outputs[0], outputs[0], attributes)


def _by_channel(item: Item, channels: int) -> tuple[Item, Attributes]:
    """A depthwise filter (1, channels, ...) as an ordinary one (channels, 1, ...), and its groups."""
    shape, strides = item.spec.shape, item.spec.strides
    if shape[0] == 1 and shape[1] != 1:
        item = item.view((shape[1], 1, *shape[2:]), (strides[1], strides[0], *strides[2:]), item.spec.offset)
    return item, {"groups": channels}


@_single("DepthwiseConv2D")
def _depthwise(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    weight, groups = _by_channel(_present(inputs, 1), _present(inputs, 0).spec.shape[1])
    return _convolve([inputs[0], weight, *inputs[2:]], outputs, {**attributes, **groups}, False)


@_single("DepthwiseConv2DBackpropInput")
def _depthwise_input(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    weight, groups = _by_channel(_present(inputs, 1), outputs[0].spec.shape[1])
    return _slope(0, inputs[2], outputs[0], weight, outputs[0], {**attributes, **groups})


@_single("DepthwiseConv2DBackpropFilter")
def _depthwise_filter(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    weight, groups = _by_channel(outputs[0], _present(inputs, 0).spec.shape[1])
    return _slope(1, inputs[2], inputs[0], weight, weight, {**attributes, **groups})


@_single("Col2im")
def _col2im(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    """The places in a window have an axis of their own, after the channels."""
    item = _present(inputs, 0)
    batch, channels, places, windows = item.spec.shape
    joined = item.view((batch, channels * places, windows), (channels * places * windows, windows, 1), item.spec.offset)
    names = ("kernel_size", "dilation", "padding", "stride")
    settings = [tuple(_present(inputs, 1).integers("output_size")), *(_last(attributes, name, 2, 0) for name in names)]
    return _call("aclnnIm2colBackward", [joined, *settings, outputs[0]])


# ------------------------------------------------------------------------------------------------------------------ pooling


def _pool(attributes: Attributes, axes: int) -> list[Any]:
    """Kernel, stride, padding, whether sizes are rounded up, whether padding counts, and the divisor, 0 for none."""
    if attributes.get("global_pooling") or attributes.get("padding_mode", "CALCULATED") != "CALCULATED":
        raise NotTranslated("a padding mode or pooling of the whole")
    pads = _last(attributes, "pads", 2 * axes, 0)
    counted = not attributes.get("exclusive", True) if "exclusive" in attributes or axes == 2 else None
    if counted is None:
        counted = bool(attributes.get("count_include_pad", True))
    sizes = [_last(attributes, "ksize", axes, 1), _last(attributes, "strides", axes, 1), pads[::2]]
    return [
        *sizes,
        bool(attributes.get("ceil_mode", False)),
        counted,
        int(_number(attributes.get("divisor_override", 0), "divisor_override")),
    ]


@_single("AvgPoolV2")
def _avg_pool(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    return _call("aclnnAvgPool2d", [inputs[0], *_pool(attributes, 2), 0, outputs[0]])


@_single("AvgPoolV2Grad")
def _avg_pool_grad(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    return _call("aclnnAvgPool2dBackward", [inputs[1], outputs[0], *_pool(attributes, 2), 0, outputs[0]])


@_single("AvgPool3D")
def _avg_pool_3d(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    return _call("aclnnAvgPool3d", [inputs[0], *_pool(attributes, 3), outputs[0]])


@_single("AvgPool3DGrad")
def _avg_pool_3d_grad(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    return _call("aclnnAvgPool3dBackward", [inputs[1], outputs[0], *_pool(attributes, 3), outputs[0]])


@_single("ResizeD")
def _resize(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    """Cubic, and linear along W, where H is 1 and may be missing in the output."""
    source, output = _present(inputs, 0), outputs[0]
    mode, way = attributes.get("mode"), attributes.get("coordinate_transformation_mode")
    corners = way == "align_corners"
    if mode == "cubic" and way in ("align_corners", "pytorch_half_pixel", "half_pixel"):
        return _call("aclnnUpsampleBicubic2d", [source, output.spec.shape[2:], corners, 0.0, 0.0, output])
    if mode != "linear" or way not in ("align_corners", "half_pixel"):
        raise NotTranslated(f"mode {mode!r} with {way!r}")
    if len(source.spec.shape) != 4 or source.spec.shape[2] != 1:
        raise NotTranslated(f"mode 'linear' with shape {source.spec.shape}; 4 axes with height 1 are needed")
    source, output = (_axes(item, (0, 1, 3)) if len(item.spec.shape) == 4 else item for item in (source, output))
    scales = attributes.get("scales")
    scale = float(scales[0]) if isinstance(scales, list) and scales else 0.0  # 0: from the sizes
    return _call("aclnnUpsampleLinear1d", [source, output.spec.shape[2:], corners, scale, output])


@_single("ResizeGradD")
def _resize_grad(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    """Cubic, for which op-plugin gives the gradient as HWNC, and linear along W, where H is 1 and may be missing behind."""
    grad, spec = _present(inputs, 0), _present(inputs, 0).spec
    mode, way = attributes.get("mode"), attributes.get("coordinate_transformation_mode", "half_pixel")
    layout, scales = attributes.get("data_format", "NCHW"), attributes.get("scales")
    if way not in ("align_corners", "half_pixel") or (mode, layout) not in (("cubic", "HWNC"), ("linear", "NCHW")):
        raise NotTranslated(f"mode {mode!r} with {way!r} and data_format {layout!r}")
    if attributes.get("cubic_coeff_a", -0.75) != -0.75 or attributes.get("exclude_outside"):
        raise NotTranslated("cubic_coeff_a other than -0.75, or exclude_outside")
    axes = 2 if mode == "cubic" else 1
    if len(spec.shape) != 4 or not isinstance(scales, list) or len(scales) < axes:
        raise NotTranslated(f"shape {spec.shape} with scales {scales!r}; 4 axes and {axes} scales are needed")
    corners = way == "align_corners"
    order = (2, 3, 0, 1) if mode == "cubic" else (0, 1, 3)
    if mode == "linear" and spec.shape[2] != 1:
        raise NotTranslated(f"mode 'linear' with height {spec.shape[2]}; it must be 1")
    grad, output = _axes(grad, order), outputs[0]
    if mode == "linear" and len(output.spec.shape) == 4:
        output = _axes(output, order)
    output_size, input_size = grad.spec.shape[2:], output.spec.shape
    name = "aclnnUpsampleBicubic2dBackward" if mode == "cubic" else "aclnnUpsampleLinear1dBackward"
    return _call(name, [grad, output_size, input_size, corners, *map(float, scales[:axes]), output])


# ------------------------------------------------------------------------------------------------------------------ indices


_EVERY = Item(TensorSpec((0,), DataType.INT64), None, np.zeros(0, np.int64))  # indices of an axis that is taken whole


def _by_axis(masks: Item, indices: Inputs) -> list[Item]:
    """The indices at the axes that the masks name."""
    remaining = [index for index in indices if index is not None]
    return [remaining.pop(0) if mask else _EVERY for mask in masks.integers("indexed_sizes")]


@_single("NonZero")
def _non_zero(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    return _call("aclnnNonzeroV2" if attributes.get("transpose") else "aclnnNonzero", [inputs[0], outputs[0]])


@_single("Index")
def _index(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    return _call("aclnnIndex", [inputs[0], _by_axis(_present(inputs, 1), inputs[3:]), outputs[0]])


@_single("IndexPutV2")
def _index_put(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    indices = _by_axis(_present(inputs, 2), inputs[4:])
    return _call("aclnnIndexPutImpl", [outputs[0], indices, inputs[1], bool(attributes.get("accumulate")), True])


@_single("LogAddExp")
def _log_add_exp(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    base, scale, shift = (
        attributes.get(name, usual) for name, usual in (("base", -1.0), ("scale", 1.0), ("shift", 0.0))
    )
    if base not in (-1, 2) or scale != 1 or shift != 0:
        raise NotTranslated(f"base {base} with scale {scale} and shift {shift}")
    return _call("aclnnLogAddExp" if base == -1 else "aclnnLogAddExp2", [inputs[0], inputs[1], outputs[0]])


@_single("CTCLossV2")
def _ctc_loss(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    """op-plugin adds the longest target, in terms of the symbols, to the blank."""
    blank = int(_number(attributes.get("blank", 0), "blank")) % _present(inputs, 0).spec.shape[-1]
    lengths = [tuple(_present(inputs, at).integers("a length")) for at in (2, 3)]
    settings = [blank, bool(attributes.get("zero_infinity", False))]
    return _call("aclnnCtcLoss", [inputs[0], inputs[1], *lengths, *settings, *outputs])


@_single("NPUClearFloatStatusV2", "NPUClearFloatDebugStatus")
def _nothing(inputs: Inputs, outputs: Outputs, attributes: Attributes) -> SingleCall:
    """No overflow is kept that could be forgotten."""
    return _call("aclnnInplaceZero", [Item(TensorSpec((1,), DataType.FLOAT), None, np.zeros(1, np.float32))])


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
        number: float = struct.unpack_from("<d", self._payload, self._at - 8)[0]
        return number

    def raw(self) -> bytes:
        size = self.integer()
        self._at += -(-size // 8) * 8
        start = self._at - -(-size // 8) * 8
        return self._payload[start : start + size]

    def text(self) -> str:
        return self.raw().decode("utf-8", "replace")

    def list(self, read: Callable[[], Any]) -> list[Any]:
        return [read() for _ in range(self.integer())]

    def attributes(self) -> Attributes:
        attributes: Attributes = {}
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
            attributes[name] = reading[kind]()
        return attributes
