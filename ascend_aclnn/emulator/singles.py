"""Single operators, run by their type names (``aclopCompileAndExecute``): which aclnn operator does the same, on which views.

A type is a function from its inputs, outputs and attributes to an aclnn operator and its arguments, so that the same rules
and references answer; most are rows of ``single_types.py``. What it does not take is ``NotTranslated``, and the client gets a
refusal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.spec import TensorSpec, contiguous_strides
from ascend_aclnn.emulator import single_types

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
        raise NotTranslated(single_types.REFUSED.get(name, f"no aclnn operator stands for {name}"))
    try:
        call = found(inputs, outputs, attributes)
        if call.operator.startswith("aclnnSingle"):
            from ascend_aclnn.emulator import single_references  # noqa: F401  registers them
        return call
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
    return Call("aclnnInplaceCopy", [outputs[0], _axes(source, order)])


@_single("Slice")
def _slice(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    source, begin = _given(inputs, 0), _given(inputs, 1).integers("offsets")
    size = _given(inputs, 2).integers("size")
    spec = source.spec
    lengths = [spec.shape[a] - b if n == -1 else n for a, (b, n) in enumerate(zip(begin, size))]
    if not all(b >= 0 and n >= 0 and b + n <= whole for b, n, whole in zip(begin, lengths, spec.shape)):
        raise NotTranslated(f"offsets {begin} with size {size} reach outside shape {spec.shape}")
    offset = spec.offset + sum(b * step for b, step in zip(begin, spec.strides))
    target = outputs[0].view(lengths, contiguous_strides(tuple(lengths)), outputs[0].spec.offset)  # may have fewer axes
    return Call("aclnnInplaceCopy", [target, source.view(lengths, spec.strides, offset)])


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


@_single("AsStrided")
def _as_strided(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnInplaceCopy", [outputs[0], _view_of(inputs, 0)])


@_single("ViewCopy")
def _view_copy(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    target = _view_of(inputs, 0)
    return Call("aclnnInplaceCopy", [outputs[0]._replace(spec=target.spec), _view_of(inputs, 4)])


def _view_of(inputs: Inputs, first: int) -> Item:
    """An input seen with the sizes, strides and offset that the next three inputs give."""
    size, stride = (_given(inputs, first + k).integers(name) for k, name in ((1, "size"), (2, "stride")))
    offset = _given(inputs, first + 3).integers("offset")[0] if len(inputs) > first + 3 else 0
    return _given(inputs, first).view(size, stride, offset)


@_single("BroadcastTo")
def _broadcast_to(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    source, shape = _given(inputs, 0), _given(inputs, 1).integers("shape")
    spec = source.spec
    lead = len(shape) - len(spec.shape)
    if lead < 0 or any(n not in (1, wanted) for n, wanted in zip(spec.shape, shape[lead:])):
        raise NotTranslated(f"shape {spec.shape} does not broadcast to {tuple(shape)}")
    strides = [0] * lead + [0 if n == 1 else step for n, step in zip(spec.shape, spec.strides)]
    return Call("aclnnInplaceCopy", [outputs[0], source.view(shape, strides, spec.offset)])


@_single("Pad")
def _pad(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    pairs = np.reshape(_given(inputs, 1).integers("paddings"), (-1, 2))[::-1]  # aclnn begins with the last axis
    return Call(
        "aclnnConstantPadNd", [inputs[0], tuple(pairs.reshape(-1).tolist()), Scalar(0, DataType.FLOAT), outputs[0]]
    )


# ------------------------------------------------------------------------------------------------------- rows of the table

_Value = Callable[[Inputs, Sequence[Item], dict[str, Attribute]], Any]


def _constant(item: Item, kind: str, name: str) -> Any:
    """The value of an input that is known at the call."""
    if item.values is None:
        raise NotTranslated(f"{name} is in device memory; the emulator needs it as a constant")
    values = item.values.reshape(-1)
    if kind == "I":
        return tuple(int(value) for value in values)
    value = values[0].item()
    if kind == "F":
        return Scalar(value, item.spec.dtype)
    if kind == "last":
        return int(values[-1])
    return int(value) if kind == "i" else 1.0 - float(value)


def _attribute(given: Attribute, kind: str, name: str) -> Any:
    """The value of an attribute, given or by default."""
    if kind in ("M", "I", "1"):
        numbers = given.split(",") if isinstance(given, str) and given else given if isinstance(given, list) else []
        if kind == "M":
            return tuple(given[1:-1]) if isinstance(given, list) else tuple(map(int, numbers))
        if isinstance(given, (int, float)):
            numbers = [given]
        if kind == "1" and len(numbers) != 1:
            raise NotTranslated(f"{name} are {numbers}; one is needed")
        integers = tuple(int(number) for number in numbers)
        return integers[0] if kind == "1" else integers
    if kind == "L":
        return tuple(
            map(float, given.split(",") if isinstance(given, str) else given if isinstance(given, list) else [given])
        )
    if kind == "s":
        return str(given)
    if "|" in kind:
        if given not in kind.split("|"):
            raise NotTranslated(f"{name} is {given!r}; allowed: {kind.replace('|', ', ')}")
        return kind.split("|").index(str(given))
    if isinstance(given, list):
        raise NotTranslated(f"{name} is {given!r}; a number is needed")
    number = float(given)
    return {
        "f": number,
        "i": int(number),
        "b": bool(number),
        "F": Scalar(number, DataType.FLOAT),
        "N": Scalar(number, DataType.INT64),
    }[kind]


def _raw(item: Item) -> Item:
    """The storage of a private layout, as words of 16 bits."""
    return item._replace(spec=TensorSpec((int(np.prod(item.spec.storage_shape)),), DataType.UINT16))


def _axes(item: Item, axes: Sequence[int]) -> Item:
    """Some axes, in an order; the others have length 1."""
    spec = item.spec
    return item.view([spec.shape[axis] for axis in axes], [spec.strides[axis] for axis in axes], spec.offset)


def _channels_first(item: Item, kind: str) -> Item:
    """An image, whose channels lie behind in NHWC, with its axes in the order of NCHW; "nhwc": of no other format."""
    spec = item.spec
    if spec.format is not Format.NHWC and kind == "first":
        return item
    if spec.format is not Format.NHWC or len(spec.shape) != 4:
        raise NotTranslated(
            f"an image has format {spec.format.name} and shape {spec.shape}; it must be NHWC with 4 axes"
        )
    moved = _axes(item, (0, 3, 1, 2)).spec
    return item._replace(spec=TensorSpec(moved.shape, moved.dtype, moved.strides, moved.offset))


def _value(token: str) -> _Value:
    """What one word of a row stands for."""
    name, _, rest = token.partition(":")
    number = name.rstrip("?")[1:]
    if token == "x*":
        return lambda inputs, outputs, attributes: list(inputs)
    if token.startswith("="):
        numbers = tuple(map(int, token[1:].split(",")))
        fixed: Any = tuple(map(bool, numbers)) if len(numbers) > 1 else numbers[0]
        return lambda inputs, outputs, attributes: fixed
    if name[0] == "y" and number.isdigit():
        at = int(number)
        if rest == "dtype":
            return lambda inputs, outputs, attributes: int(outputs[at].spec.dtype)
        if rest == "number":
            return lambda inputs, outputs, attributes: (
                outputs[at].view((), (), 0) if outputs[at].spec.size == 1 else outputs[at]
            )
        if rest == "raw":
            return lambda inputs, outputs, attributes: _raw(outputs[at])
        if rest == "words":
            return lambda inputs, outputs, attributes: _raw(outputs[at]).spec.size
        if rest == "count":
            return lambda inputs, outputs, attributes: outputs[at].spec.size
        if rest == "shape":
            return lambda inputs, outputs, attributes: outputs[at].spec.shape
        if rest in single_types.IMAGES:
            return lambda inputs, outputs, attributes: _channels_first(outputs[at], rest)
        return lambda inputs, outputs, attributes: outputs[at]
    if name[0] == "x" and number.isdigit():
        at = int(number)
        if rest == "shape":
            return lambda inputs, outputs, attributes: _given(inputs, at).spec.shape
        if rest == "raw":
            return lambda inputs, outputs, attributes: _raw(_given(inputs, at))
        if rest in single_types.IMAGES:
            return lambda inputs, outputs, attributes: _channels_first(_given(inputs, at), rest)
        if rest == "spatial":
            return lambda inputs, outputs, attributes: _given(inputs, at).spec.shape[2:]
        if rest:
            return lambda inputs, outputs, attributes: _constant(_given(inputs, at), rest, f"input {at}")
        if name.endswith("?"):
            return lambda inputs, outputs, attributes: inputs[at] if at < len(inputs) else None
        return lambda inputs, outputs, attributes: inputs[at]
    kind, _, default = rest.partition("=")
    return lambda inputs, outputs, attributes: _attribute(attributes.get(name, default), kind, name)


def _row(text: str) -> Translation:
    operator, *tokens = text.split()
    values = [_value(token) for token in tokens if token[0] != "!"]
    kept = [token[1:].partition("=") for token in tokens if token[0] == "!"]

    def translate(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
        for name, equal, value in kept:
            if not equal and int(name[1:]) < len(inputs) and inputs[int(name[1:])] is not None:
                raise NotTranslated(f"input {name[1:]} is given")
            given = attributes.get(name, value)
            if equal and (str(int(given)) if isinstance(given, (int, float)) else given) != value:
                raise NotTranslated(f"{name} is {given!r}; the emulator takes {value}")
        return Call(operator, [value(inputs, outputs, attributes) for value in values])

    return translate


def _same_arguments(operator: str) -> Translation:
    """A type whose inputs and outputs are the aclnn operator's, in its order."""
    return lambda inputs, outputs, attributes: Call(operator, [*inputs, *outputs])


_TRANSLATIONS.update((name, _same_arguments(f"aclnn{name}")) for name in single_types.SAME_NAMES.split())
_TRANSLATIONS.update((name, _same_arguments(operator)) for name, operator in single_types.SAME_ARGUMENTS.items())
_TRANSLATIONS.update((name, _row(text)) for name, text in single_types.ARGUMENTS.items())


# ------------------------------------------------------------------------------------------------- products


def _turned(item: Item, turn: Any) -> Item:
    """With the last two axes the other way round, if asked for."""
    if not turn:
        return item
    shape, strides = item.spec.shape, item.spec.strides
    return item.view((*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2]), item.spec.offset)


@_single("BatchMatMul", "BatchMatMulV2")
def _batch_matmul(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    if any(item is not None for item in inputs[2:]):
        raise NotTranslated("a bias")
    sides = [_turned(_given(inputs, at), attributes.get(f"adj_x{at + 1}")) for at in (0, 1)]
    return Call("aclnnBatchMatMul", [*sides, outputs[0], 1])


@_single("MatMul", "MatMulV2")
def _matmul(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    sides = [_turned(_given(inputs, at), attributes.get(f"transpose_x{at + 1}")) for at in (0, 1)]
    bias = inputs[2] if len(inputs) > 2 else None
    if any(item is not None for item in inputs[3:]):
        raise NotTranslated("an offset")
    if bias is None:
        return Call("aclnnMm", [*sides, outputs[0], 1])
    one = Scalar(1, DataType.FLOAT)
    return Call("aclnnAddmm", [bias, *sides, one, one, outputs[0], 1])


# ------------------------------------------------------------------------------------------------------------- convolutions


def _last(attributes: dict[str, Attribute], name: str, axes: int, otherwise: int) -> tuple[int, ...]:
    """Numbers for the axes after the channels; some clients give others before them."""
    given = attributes.get(name)
    return tuple(given[-axes:]) if isinstance(given, list) else (otherwise,) * axes


def _settings(item: Item, attributes: dict[str, Attribute]) -> tuple[list[Any], int]:
    """Stride, padding and dilation of a convolution, and the groups."""
    if attributes.get("data_format") in ("NHWC", "NDHWC"):
        raise NotTranslated("channels last")
    axes = len(item.spec.shape) - 2
    pads = _last(attributes, "pads", 2 * axes, 0)
    if pads[::2] != pads[1::2]:
        raise NotTranslated(f"pads are {pads}; both sides of an axis must be alike")
    settings = [_last(attributes, "strides", axes, 1), pads[::2], _last(attributes, "dilations", axes, 1)]
    return settings, int(_number(attributes, "groups", 1))


def _convolve(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute], transposed: bool) -> Call:
    x, weight = inputs[0], inputs[1]
    bias = inputs[2] if len(inputs) > 2 else None
    settings, groups = _settings(outputs[0], attributes)
    extra = _last(attributes, "output_padding", len(settings[0]), 0)
    return Call("aclnnConvolution", [x, weight, bias, *settings, transposed, extra, groups, outputs[0], 0])


@_single("Conv2D", "Conv3D")
def _conv(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return _convolve(inputs, outputs, attributes, False)


@_single("Conv2DTranspose", "Conv3DTranspose")
def _conv_transpose(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return _convolve(inputs[1:], outputs, attributes, True)


def _slope(call_for: int, dy: Any, x: Any, weight: Any, output: Item, attributes: dict[str, Attribute]) -> Call:
    """The gradient of the input (0) or of the weight (1) of a convolution."""
    settings, groups = _settings(output, attributes)
    nothing = (0,) * len(settings[0])
    asked = call_for == 0, call_for == 1, False
    made = [output if wanted else None for wanted in asked]
    return Call("aclnnConvolutionBackward", [dy, x, weight, (), *settings, False, nothing, groups, asked, 0, *made])


@_single("Conv2DBackpropInput", "Conv3DBackpropInput")
def _conv_input(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return _slope(0, inputs[2], outputs[0], inputs[1], outputs[0], attributes)


@_single("Conv2DBackpropFilter", "Conv3DBackpropFilter")
def _conv_filter(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return _slope(1, inputs[2], inputs[0], outputs[0], outputs[0], attributes)


def _by_channel(item: Item, channels: int) -> tuple[Item, dict[str, Attribute]]:
    """A depthwise filter (1, channels, ...) as an ordinary one (channels, 1, ...), and its groups."""
    shape, strides = item.spec.shape, item.spec.strides
    if shape[0] == 1 and shape[1] != 1:
        item = item.view((shape[1], 1, *shape[2:]), (strides[1], strides[0], *strides[2:]), item.spec.offset)
    return item, {"groups": channels}


@_single("DepthwiseConv2D")
def _depthwise(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    weight, groups = _by_channel(_given(inputs, 1), _given(inputs, 0).spec.shape[1])
    return _convolve([inputs[0], weight, *inputs[2:]], outputs, {**attributes, **groups}, False)


@_single("DepthwiseConv2DBackpropInput")
def _depthwise_input(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    weight, groups = _by_channel(_given(inputs, 1), outputs[0].spec.shape[1])
    return _slope(0, inputs[2], outputs[0], weight, outputs[0], {**attributes, **groups})


@_single("DepthwiseConv2DBackpropFilter")
def _depthwise_filter(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    weight, groups = _by_channel(outputs[0], _given(inputs, 0).spec.shape[1])
    return _slope(1, inputs[2], inputs[0], weight, weight, {**attributes, **groups})


@_single("Col2im")
def _col2im(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    """The places in a window have an axis of their own, after the channels."""
    item = _given(inputs, 0)
    batch, channels, places, windows = item.spec.shape
    joined = item.view((batch, channels * places, windows), (channels * places * windows, windows, 1), item.spec.offset)
    names = ("kernel_size", "dilation", "padding", "stride")
    settings = [tuple(_given(inputs, 1).integers("output_size")), *(_last(attributes, name, 2, 0) for name in names)]
    return Call("aclnnIm2colBackward", [joined, *settings, outputs[0]])


# ------------------------------------------------------------------------------------------------------------------ pooling


def _pool(attributes: dict[str, Attribute], axes: int) -> list[Any]:
    """Kernel, stride, padding, whether sizes are rounded up, whether padding counts, and the divisor, 0 for none."""
    if attributes.get("global_pooling") or attributes.get("padding_mode", "CALCULATED") != "CALCULATED":
        raise NotTranslated("a padding mode or pooling of the whole")
    pads = _last(attributes, "pads", 2 * axes, 0)
    counted = not attributes.get("exclusive", True) if "exclusive" in attributes or axes == 2 else None
    if counted is None:
        counted = bool(attributes.get("count_include_pad", True))
    sizes = [_last(attributes, "ksize", axes, 1), _last(attributes, "strides", axes, 1), pads[::2]]
    return [*sizes, bool(attributes.get("ceil_mode", False)), counted, int(_number(attributes, "divisor_override", 0))]


@_single("AvgPoolV2")
def _avg_pool(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnAvgPool2d", [inputs[0], *_pool(attributes, 2), 0, outputs[0]])


@_single("AvgPoolV2Grad")
def _avg_pool_grad(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnAvgPool2dBackward", [inputs[1], outputs[0], *_pool(attributes, 2), 0, outputs[0]])


@_single("AvgPool3D")
def _avg_pool_3d(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnAvgPool3d", [inputs[0], *_pool(attributes, 3), outputs[0]])


@_single("AvgPool3DGrad")
def _avg_pool_3d_grad(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnAvgPool3dBackward", [inputs[1], outputs[0], *_pool(attributes, 3), outputs[0]])


@_single("ResizeD")
def _resize(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    """Cubic, and linear along W, where H is 1 and may be missing in the output."""
    source, output = _given(inputs, 0), outputs[0]
    mode, way = attributes.get("mode"), attributes.get("coordinate_transformation_mode")
    corners = way == "align_corners"
    if mode == "cubic" and way in ("align_corners", "pytorch_half_pixel", "half_pixel"):
        return Call("aclnnUpsampleBicubic2d", [source, output.spec.shape[2:], corners, 0.0, 0.0, output])
    if mode != "linear" or way not in ("align_corners", "half_pixel"):
        raise NotTranslated(f"mode {mode!r} with {way!r}")
    if len(source.spec.shape) != 4 or source.spec.shape[2] != 1:
        raise NotTranslated(f"mode 'linear' with shape {source.spec.shape}; 4 axes with height 1 are needed")
    source, output = (_axes(item, (0, 1, 3)) if len(item.spec.shape) == 4 else item for item in (source, output))
    scales = attributes.get("scales")
    scale = float(scales[0]) if isinstance(scales, list) and scales else 0.0  # 0: from the sizes
    return Call("aclnnUpsampleLinear1d", [source, output.spec.shape[2:], corners, scale, output])


@_single("ResizeGradD")
def _resize_grad(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    """Cubic, for which op-plugin gives the gradient as HWNC, and linear along W, where H is 1 and may be missing behind."""
    grad, spec = _given(inputs, 0), _given(inputs, 0).spec
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
    kept = (2, 3, 0, 1) if mode == "cubic" else (0, 1, 3)
    if mode == "linear" and spec.shape[2] != 1:
        raise NotTranslated(f"mode 'linear' with height {spec.shape[2]}; it must be 1")
    grad, output = _axes(grad, kept), outputs[0]
    if mode == "linear" and len(output.spec.shape) == 4:
        output = _axes(output, kept)
    made, sizes = grad.spec.shape[2:], output.spec.shape
    name = "aclnnUpsampleBicubic2dBackward" if mode == "cubic" else "aclnnUpsampleLinear1dBackward"
    return Call(name, [grad, made, sizes, corners, *map(float, scales[:axes]), output])


# ------------------------------------------------------------------------------------------------------------------ indices


_EVERY = Item(TensorSpec((0,), DataType.INT64), None, np.zeros(0, np.int64))  # indices of an axis that is taken whole


def _by_axis(masks: Item, indices: Inputs) -> list[Item]:
    """The indices at the axes that the masks name."""
    left = [index for index in indices if index is not None]
    return [left.pop(0) if mask else _EVERY for mask in masks.integers("indexed_sizes")]


@_single("NonZero")
def _non_zero(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnNonzeroV2" if attributes.get("transpose") else "aclnnNonzero", [inputs[0], outputs[0]])


@_single("Index")
def _index(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    return Call("aclnnIndex", [inputs[0], _by_axis(_given(inputs, 1), inputs[3:]), outputs[0]])


@_single("IndexPutV2")
def _index_put(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    indices = _by_axis(_given(inputs, 2), inputs[4:])
    return Call("aclnnIndexPutImpl", [outputs[0], indices, inputs[1], bool(attributes.get("accumulate")), True])


@_single("CTCLossV2")
def _ctc_loss(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    """op-plugin adds the longest target, in terms of the symbols, to the blank."""
    blank = int(_number(attributes, "blank", 0)) % _given(inputs, 0).spec.shape[-1]
    lengths = [tuple(_given(inputs, at).integers("a length")) for at in (2, 3)]
    settings = [blank, bool(attributes.get("zero_infinity", False))]
    return Call("aclnnCtcLoss", [inputs[0], inputs[1], *lengths, *settings, *outputs])


@_single("NPUClearFloatStatusV2", "NPUClearFloatDebugStatus")
def _nothing(inputs: Inputs, outputs: Sequence[Item], attributes: dict[str, Attribute]) -> Call:
    """No overflow is kept that could be forgotten."""
    return Call("aclnnInplaceZero", [Item(TensorSpec((1,), DataType.FLOAT), None, np.zeros(1, np.float32))])


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
