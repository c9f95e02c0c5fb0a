"""Rules of ops-nn/conv."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Check,
    DtypeSet,
    Shape,
    array_length,
    dtype_of,
    dtype_table,
    dtypes,
    formats,
    infer_shape,
    on_products,
    one_of,
    only_products,
    output_dtype,
    output_shape,
    promoted,
    rank,
    rule,
    same_dtype,
    same_format,
    same_shape,
    shape_of,
    tiling,
    unless_empty,
    when,
)

FLOATS: DtypeSet = {"A2 A3": "FLOAT FLOAT16 BF16", "950": "FLOAT FLOAT16 BF16 HIFLOAT8", "": "FLOAT FLOAT16"}
_LAST = (Format.NHWC, Format.NDHWC)


def _divided(a: int, b: int) -> int:
    """Integer division as C++ does it: towards zero."""
    return a // b if a >= 0 else -(-a // b)


def _axes(call: Call, name: str) -> tuple[int, int, Shape]:
    """First axis, channels and spatial sizes of an image or a kernel."""
    sizes = call.shape(name)
    call.require(3 <= len(sizes) <= 5, name, f"has rank {len(sizes)} (shape {sizes}); it must be 3, 4 or 5")
    last = call[name].format in _LAST
    return (sizes[0], sizes[-1], sizes[1:-1]) if last else (sizes[0], sizes[1], sizes[2:])


def _pads(call: Call, name: str, spatial: int) -> Shape:
    """Padding of both sides together, along each spatial axis: an array names it for each axis, or for each side."""
    given = call[name]
    if len(given) == spatial:
        return tuple(2 * n for n in given)
    call.require(len(given) == 2 * spatial, name, f"has {len(given)} items; it must have {spatial} or {2 * spatial}")
    return tuple(a + b for a, b in zip(given[::2], given[1::2]))


def _windows(sizes: Shape, kernel: Shape, pads: Shape, dilation: Sequence[int], stride: Sequence[int]) -> Shape:
    """How many positions a kernel takes along each axis."""
    rows = zip(sizes, kernel, pads, dilation, stride)
    return tuple(_divided(n + p - d * (k - 1) - 1, s) + 1 for n, k, p, d, s in rows)


def cube_math_type(*operands: str, most: int = 4) -> Check:
    """cubeMathType is known; the cubes of old chips multiply no float32."""

    def check(call: Call) -> None:
        value = call["cubeMathType"]
        call.require(0 <= value <= most, "cubeMathType", f"is {value}; it must be in [0, {most}]")
        wide = {DataType.FLOAT, DataType.BF16} & set(map(call.dtype, operands))
        if call.product not in ("A2", "A3", "950") and wide:
            text = f"is {value}; on {call.soc.name} FLOAT operands are multiplied as FLOAT16, so it must be 1 or 2"
            call.require(value in (1, 2), "cubeMathType", text)

    return check


def _positive(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            call.require(all(n > 0 for n in call[name]), name, f"is {call[name]}; its items must be positive")

    return check


def _not_negative(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            values = call[name] or ()
            call.require(all(n >= 0 for n in values), name, f"is {values}; its items must not be negative")

    return check


_PLAIN = {3: "NCL", 4: "NCHW", 5: "NCDHW"}


def _by_rank(*names: str, also: str = "") -> Check:
    """Tensors have the plain format of their rank, or another that is named."""

    def check(call: Call) -> None:
        for name in names:
            formats(f"{_PLAIN[len(call.shape(name))]} {also}", name)(call)

    return check


# --------------------------------------------------------------------------------------------------- convolution


def _convolved(call: Call, x: str = "input") -> Shape:
    """Shape of the output of a convolution, or of a transposed one."""
    n, _, sizes = _axes(call, x)
    rows, columns_, kernel = _axes(call, "weight")
    spatial = len(sizes)
    call.require(len(kernel) == spatial, "weight", f"has rank {len(kernel) + 2}; it must be {spatial + 2}, as {x}")
    for name in ("stride", "dilation"):
        array_length(name, spatial)(call)
    _positive("stride", "dilation")(call)
    transposed = "transposed" in call.operator.positions and call["transposed"]
    if spatial == 3 or (transposed and spatial == 1):
        array_length("padding", spatial)(call)
    pads, stride, dilation = _pads(call, "padding", spatial), call["stride"], call["dilation"]
    if transposed:
        call.require(call.is_present("outputPadding"), "outputPadding", "is None; a transposed convolution requires it")
        array_length("outputPadding", spatial)(call)
        wide = tuple(
            (size - 1) * s - p + d * (k - 1) + extra + 1
            for size, k, p, d, s, extra in zip(sizes, kernel, pads, dilation, stride, call["outputPadding"])
        )
        made = columns_ * call["groups"]
    else:
        wide, made = _windows(sizes, kernel, pads, dilation, stride), rows
    return (n, *wide, made) if call[x].format in _LAST else (n, made, *wide)


def _bias(call: Call) -> None:
    if call.is_present("bias"):
        out = _axes(call, "weight")
        items = out[1] * call["groups"] if call["transposed"] else out[0]
        text = f"has shape {call.shape('bias')}; it must be ({items},)"
        call.require(call.shape("bias") == (items,), "bias", text)


def _conv_formats(call: Call) -> None:
    same_format("input", "output")(call)
    formats("NCL NCHW NCDHW ND", "bias")(call)
    spatial = len(call.shape("input")) - 2
    old = call.product != "950"
    _by_rank("input", "output", also="NDHWC" if spatial == 3 and old else "")(call)
    weight = "NDHWC" if spatial == 3 else "FRACTAL_Z" if spatial == 2 and not call["transposed"] else ""
    _by_rank("weight", also=weight if old else "")(call)


def _conv_values(call: Call) -> None:
    """Sizes, kernel and groups of a convolution."""
    n, channels, sizes = _axes(call, "input")
    rows, columns_, kernel = _axes(call, "weight")
    groups, transposed = call["groups"], call["transposed"]
    empty = 0 in call.shape("input")
    call.require(min((n, channels, *sizes)) >= 0, "input", f"has shape {call.shape('input')}; sizes are not negative")
    fits = min(rows, columns_) >= 0 and (min(kernel) > 0 or (call.product == "950" and transposed))
    call.require(fits, "weight", f"has shape {call.shape('weight')}; its kernel must not be empty")
    _positive("stride", "dilation")(call)
    if not transposed and not empty:
        pads = _pads(call, "padding", len(sizes))
        for size, k, p, d in zip(sizes, kernel, pads, call["dilation"]):
            text = f"has shape {call.shape('input')}; padded by {pads} it is smaller than the dilated kernel {kernel}"
            call.require(size + p - d * (k - 1) - 1 >= 0, "input", text)
    call.require(groups > 0, "groups", f"is {groups}; it must be positive")
    if transposed:
        text = f"has shape {call.shape('weight')}; its first axis must be {channels}, the channels of input"
        call.require(rows == channels, "weight", text)
        for extra, s, d in zip(call["outputPadding"], call["stride"], call["dilation"]):
            text = f"is {call['outputPadding']}; its items must be less than stride or dilation"
            call.require(extra >= 0 and (extra < s or extra < d), "outputPadding", text)
        call.require(channels != 0, "input", f"has shape {call.shape('input')}; it has no channels")
        if call.product != "950" and 0 not in call.shape("input") + call.shape("weight") + call.shape("output"):
            _kernel_reach(call, kernel)
    else:
        text = f"has shape {call.shape('weight')}; its second axis must be {channels} / {groups} (channels / groups)"
        call.require(columns_ * groups == channels, "weight", text)
    text = f"has shape {call.shape('weight')}; its first axis must be a multiple of groups, {groups}"
    call.require(rows % groups == 0, "weight", text)


def _kernel_reach(call: Call, kernel: Shape) -> None:
    """The kernels that turn a convolution round pad by at most 255."""
    given = call["padding"]
    fronts = given if len(given) == len(kernel) else given[::2]
    for axis, (k, d, p) in enumerate(zip(kernel, call["dilation"], fronts)):
        reach = (k - 1) * d - p
        least = 0 if len(kernel) == 3 and axis > 0 else -math.inf
        text = f"is {given}; dilation * (kernel - 1) - padding is {reach}, which must be at most 255"
        call.require(least <= reach <= 255 or (len(kernel) == 3 and axis == 0), "padding", text)


def _empty_output(x: str, out: str) -> Check:
    def check(call: Call) -> None:
        if 0 in call.shape(x) + call.shape("weight"):
            text = f"has shape {call.shape(out)}; of an empty operand it must be empty"
            call.require(0 in call.shape(out) and min(call.shape(out)) >= 0, out, text)

    return check


def _needs_output_padding(call: Call) -> None:
    given = call.is_present("outputPadding") or not call["transposed"]
    call.require(given, "outputPadding", "is None (a null pointer); a transposed convolution needs it", PARAM_NULLPTR)


def _chips(call: Call) -> None:
    only_products("A2 A3 950 910 310P 310B")(call)
    plain = call.product != "310B" or (not call["transposed"] and len(call.shape("input")) == 4)
    call.require(plain, "input", f"on {call.soc.name} only 2-D convolutions that are not transposed are supported")


rule(
    "aclnnConvolution",
    _needs_output_padding,
    dtypes("FLOAT FLOAT16 BF16", "bias"),
    dtypes(FLOATS, "input", "weight", "output"),
    rank(3, 5, "input", "weight", "output"),
    _bias,
    _conv_formats,
    _conv_values,
    output_shape(output=_convolved),
    _empty_output("input", "output"),
    cube_math_type("input", "weight"),
    _chips,
    output_dtype(output=promoted("input", "weight")),
    nullable="outputPadding",
)


def _depthwise_values(call: Call) -> None:
    n, channels, sizes = _axes(call, "self")
    rows, columns_, kernel = _axes(call, "weight")
    for name in ("stride", "dilation", "padding", "kernelSize"):
        array_length(name, 2)(call)
    call.require(min(n, channels, *sizes, rows, columns_) >= 0, "self", "has negative sizes")
    call.require(min(kernel) > 0, "weight", f"has shape {call.shape('weight')}; its kernel must not be empty")
    _positive("stride", "dilation")(call)
    for size, k, p, d in zip(sizes, kernel, call["padding"], call["dilation"]):
        text = f"has shape {call.shape('self')}; padded it is smaller than the dilated kernel {kernel}"
        call.require(0 in call.shape("self") or size + 2 * p - d * (k - 1) - 1 >= 0, "self", text)
    call.require(columns_ in (0, 1), "weight", f"has shape {call.shape('weight')}; its second axis must be 1")
    text = f"has shape {call.shape('weight')}; its first axis must be a multiple of {channels}, the channels of self"
    call.require(channels == 0 or rows % channels == 0, "weight", text)
    if call.is_present("bias"):
        call.require(call.shape("bias") == (rows,), "bias", f"has shape {call.shape('bias')}; it must be ({rows},)")
    text = f"is {call['kernelSize']}; it must be {kernel}, as the last axes of weight"
    call.require(tuple(call["kernelSize"]) == kernel, "kernelSize", text)


rule(
    "aclnnConvDepthwise2d",
    dtypes({"310P": "FLOAT FLOAT16", "": "FLOAT FLOAT16 BF16"}, "bias"),
    lambda call: same_dtype("self", "bias")(call) if call.dtype("self") is not DataType.HIFLOAT8 else None,
    dtypes(FLOATS, "self"),
    same_dtype("self", "weight", "out"),
    rank(4, 4, "self", "weight", "out"),
    rank(1, 1, "bias"),
    formats("NCHW", "self", "weight", "out"),
    _depthwise_values,
    output_shape(out=lambda call: _convolved(call, "self")),
    _empty_output("self", "out"),
    cube_math_type("self", "weight"),
    only_products("A2 A3 950 910 310P 310B"),
    output_dtype(out=dtype_of("self")),
)


def _tbc_shape(call: Call) -> Shape:
    """Of (time, batch, channels) with a weight (kernel, channels, out channels)."""
    time, batch, channels = _three(call, "self")
    length, columns_, made = _three(call, "weight")
    call.require(length > 0, "weight", f"has shape {call.shape('weight')}; its kernel must not be empty")
    text = f"has shape {call.shape('weight')}; its second axis must be {channels}, the channels of self"
    call.require(columns_ == channels, "weight", text)
    empty = 0 in call.shape("self")
    text = f"has shape {call.shape('self')}; padded by {call['pad']} it is shorter than the kernel, {length}"
    call.require(empty or time + call["pad"] - length >= 0, "self", text)
    return time + 2 * call["pad"] - length + 1, batch, made


def _three(call: Call, name: str) -> tuple[int, int, int]:
    sizes = call.shape(name)
    call.require(len(sizes) == 3, name, f"has rank {len(sizes)} (shape {sizes}); it must be 3")
    return sizes[0], sizes[1], sizes[2]


def _tbc_bias(call: Call) -> None:
    rank(1, 1, "bias")(call)
    made = _three(call, "weight")[2]
    call.require(call.shape("bias") == (made,), "bias", f"has shape {call.shape('bias')}; it must be ({made},)")


rule(
    "aclnnConvTbc",
    dtypes({"310P": "FLOAT FLOAT16", "": "FLOAT FLOAT16 BF16"}, "bias"),
    dtypes(FLOATS, "self"),
    same_dtype("self", "weight", "output"),
    rank(3, 3, "self", "weight", "output"),
    _tbc_bias,
    formats("ND NCL", "self", "weight", "output"),
    output_shape(output=_tbc_shape),
    cube_math_type("self", "weight"),
    only_products("A2 A3 950 910 310P"),
    output_dtype(output=dtype_of("self")),
    required="bias",
)

# --------------------------------------------------------------------------------------------------- gradients

_GRADS = (("gradInput", "input"), ("gradWeight", "weight"), ("gradBias", "gradOutput"))
_BACKWARD: DtypeSet = {
    "A2 A3": "FLOAT FLOAT16 BF16",
    "950": "FLOAT FLOAT16 BF16 HIFLOAT8 FLOAT8_E4M3FN",
    "": "FLOAT FLOAT16",
}


def _wanted_grads(call: Call) -> None:
    mask = call["outputMask"]
    call.require(len(mask) == 3, "outputMask", f"has {len(mask)} items; it must have 3", PARAM_NULLPTR)
    for wanted, (name, _) in zip(mask, _GRADS):
        text = "is None (a null pointer); output_mask asks for it"
        call.require(call.is_present(name) or not wanted, name, text, PARAM_NULLPTR)


def _backward_formats(call: Call) -> None:
    for name in ("gradOutput", "input", "weight", "gradInput", "gradWeight"):
        if call.is_present(name):
            rank(3, 5, name)(call)
            _by_rank(name, also="ND" if len(call.shape(name)) == 3 else "")(call)
    if not call["transposed"] and call.product in ("A2", "A3", "950"):
        formats("ND", "gradBias")(call)


def _backward_attributes(call: Call) -> None:
    _positive("stride", "dilation")(call)
    _not_negative("padding")(call)
    extra = call["outputPadding"]
    if call["transposed"]:
        _not_negative("outputPadding")(call)
        less = len(call.shape("input")) != 5 or all(a < b for a, b in zip(extra, call["stride"]))
        call.require(
            less, "outputPadding", f"is {extra}; its items must be less than those of stride, {call['stride']}"
        )
    else:
        call.require(not any(extra), "outputPadding", f"is {extra}; it is for transposed convolutions and must be 0")
    call.require(call["groups"] >= 1, "groups", f"is {call['groups']}; it must be at least 1")


def _arrays(call: Call) -> None:
    spatial = len(call.shape("input")) - 2
    lengths = (spatial, 4) if spatial == 2 else (spatial,)
    for name in ("stride", "dilation", "padding", "outputPadding"):
        array_length(name, *(lengths if "adding" in name else (spatial,)))(call)


def _channels(call: Call) -> tuple[int, int]:
    """Channels of the image and of what it becomes: for a transposed convolution the other way round."""
    image, made = ("gradOutput", "input") if call["transposed"] else ("input", "gradOutput")
    return _axes(call, image)[1], _axes(call, made)[1]


def _backward_shapes(call: Call) -> None:
    x, y, weight = call.shape("input"), call.shape("gradOutput"), call.shape("weight")
    call.require(len(y) == len(x), "gradOutput", f"has rank {len(y)}; it must be {len(x)}, as input")
    call.require(len(weight) == len(x), "weight", f"has rank {len(weight)}; it must be {len(x)}, as input")
    call.require(0 not in y, "gradOutput", f"has shape {y}; it must not be empty")
    same_shape("input", "gradInput")(call)
    same_shape("weight", "gradWeight")(call)
    if call.is_present("gradBias"):
        made = _axes(call, "gradOutput")[1]
        text = f"has shape {call.shape('gradBias')}; it must be ({made},), the channels of grad_output"
        call.require(call.shape("gradBias") == (made,), "gradBias", text)
    _arrays(call)
    image, made = _channels(call)
    rows, columns_, _ = _axes(call, "weight")
    groups = call["groups"]
    call.require(made == rows, "weight", f"has shape {weight}; its first axis must be {made}")
    fits = columns_ != 0 and image % columns_ == 0 and image // columns_ == groups
    call.require(fits, "weight", f"has shape {weight}; its second axis must be {image} / {groups} (channels / groups)")
    if image == groups and call.product != "950":
        call.require(made >= groups and made % groups == 0, "weight", f"has shape {weight}; it must have whole groups")
    if len(x) == 5:
        _backward_windows(call)


def _backward_windows(call: Call) -> None:
    """grad_output has as many positions as the kernel takes on the input."""
    names = ("gradOutput", "input") if call["transposed"] else ("input", "gradOutput")
    sizes, came = (_axes(call, name)[2] for name in names)
    kernel, pads = _axes(call, "weight")[2], _pads(call, "padding", len(sizes))
    room = all(n + p - d * (k - 1) - 1 >= 0 for n, p, d, k in zip(sizes, pads, call["dilation"], kernel))
    call.require(
        room, names[0], f"has sizes {sizes}; padded by {pads} they are smaller than the dilated kernel {kernel}"
    )
    wanted = _windows(sizes, kernel, pads, call["dilation"], call["stride"])
    call.require(came == wanted, names[1], f"has sizes {came}; the kernel takes {wanted} positions")


def _backward_empty(call: Call) -> None:
    """An empty input needs an empty batch or no channels."""
    mask, x, weight = call["outputMask"], call.shape("input"), call.shape("weight")
    if mask[2]:
        items = call["biasSizes"]
        made = weight[1] * call["groups"] if call["transposed"] else call.shape("gradOutput")[1]
        call.require(items is not None and tuple(items) == (made,), "biasSizes", f"is {items}; it must be ({made},)")
    if mask[0]:
        call.require(
            len(x) > 2 and 0 in x[:2], "input", f"has shape {x}; of an image only batch and channels may be empty"
        )
    if call.product not in ("A2", "A3", "950"):
        return
    _arrays(call)
    image, made = _channels(call)
    rows, columns_, kernel = _axes(call, "weight")
    groups = call["groups"]
    call.require(rows % groups == 0, "weight", f"has shape {weight}; its first axis must be a multiple of {groups}")
    if (image or columns_) and not (call["transposed"] and x[0] == 0):
        fits = columns_ != 0 and image % columns_ == 0 and image // columns_ == groups
        call.require(fits, "weight", f"has shape {weight}; its second axis must be {image} / {groups}")
    if call["transposed"]:
        call.require(rows > 0 and rows == x[1], "weight", f"has shape {weight}; its first axis must be {x[1]}")
    else:
        for n, k, p, d in zip(x[2:], kernel, _pads(call, "padding", len(kernel)), call["dilation"]):
            call.require(n + p - d * (k - 1) - 1 >= 0, "input", f"has shape {x}, smaller than the kernel {kernel}")


def _backward_sizes(call: Call) -> None:
    if 0 in call.shape("input") + call.shape("weight") and call.product in ("A2", "A3", "950"):
        _backward_empty(call)
    else:
        _backward_shapes(call)
        if 0 in call.shape("input") + call.shape("weight"):
            _backward_empty(call)


def _masked(position: int, like: str) -> Check:
    """Shape of a gradient, None where outputMask does not ask for it."""
    name = _GRADS[position][0]

    def shape_(call: Call) -> Optional[Shape]:
        mask = call["outputMask"] or ()
        if len(mask) != 3 or not mask[position]:
            return None
        return (_axes(call, "gradOutput")[1],) if position == 2 else call.shape(like)

    return infer_shape(**{name: shape_})


rule(
    "aclnnConvolutionBackward",
    _wanted_grads,
    dtypes(_BACKWARD, "gradOutput", "input", "weight", "gradInput", "gradWeight", "gradBias"),
    on_products("950", same_dtype("input", "gradInput"), same_dtype("gradOutput", "gradBias")),
    _backward_formats,
    _backward_attributes,
    cube_math_type("gradOutput", "input", "weight", most=3),
    _backward_sizes,
    tiling(unless_empty("input weight", _backward_windows)),
    *(_masked(i, like) for i, (_, like) in enumerate(_GRADS)),
    output_dtype(gradInput=dtype_of("input"), gradWeight=dtype_of("weight"), gradBias=dtype_of("gradOutput")),
    nullable="biasSizes gradInput gradWeight gradBias",
)


def _tbc_grad(call: Call) -> Shape:
    time, batch, channels = _three(call, "input")
    length, columns_, made = _three(call, "weight")
    text = f"has shape {call.shape('weight')}; its second axis must be {channels}, the channels of input"
    call.require(columns_ == channels, "weight", text)
    call.require(call["pad"] >= 0, "pad", f"is {call['pad']}; it must not be negative")
    windows = time + 2 * call["pad"] + 1 - length
    call.require(
        windows >= 0, "input", f"has shape {call.shape('input')}; padded it is shorter than the kernel {length}"
    )
    return windows, batch, made


rule(
    "aclnnConvTbcBackward",
    dtypes({"A2 A3 950": "FLOAT FLOAT16 BF16", "": "FLOAT FLOAT16"}, "self", "input", "weight"),
    dtypes("FLOAT FLOAT16 BF16", "bias"),
    dtypes({"A2 A3 950": "FLOAT FLOAT16 BF16", "": "FLOAT FLOAT16"}, "gradInput", "gradWeight", "gradBias"),
    formats("ND NCL", "self", "input", "weight", "gradInput", "gradWeight"),
    formats("ND", "bias", "gradBias"),
    lambda call: call.require(call["self"].size != 0, "self", f"has shape {call.shape('self')}; it must not be empty"),
    rank(3, 3, "self", "input", "weight"),
    _tbc_bias,
    output_shape(self=_tbc_grad, gradInput=shape_of("input"), gradWeight=shape_of("weight"), gradBias=shape_of("bias")),
    cube_math_type("self", "input", "weight", most=3),
    on_products(
        "950", same_dtype("input", "gradInput"), same_dtype("weight", "gradWeight"), same_dtype("bias", "gradBias")
    ),
    output_dtype(gradInput=dtype_of("input"), gradWeight=dtype_of("weight"), gradBias=dtype_of("bias")),
)

# --------------------------------------------------------------------------------------------------- deformable

_HALVES = "FLOAT FLOAT16 BF16"


def _deformed(call: Call, x: str) -> tuple[Shape, Shape, Shape, Shape]:
    """Shapes of weight, offset, output and of the deformed image."""
    sizes, weight = call.shape(x), call.shape("weight")
    for name in (x, "weight"):
        call.require(len(call.shape(name)) == 4, name, f"has rank {len(call.shape(name))}; it must be 4")
    for name, length in (("kernelSize", 2), ("stride", 4), ("padding", 4), ("dilation", 4)):
        array_length(name, length)(call)
    kernel, stride, dilation = call["kernelSize"], call["stride"], call["dilation"]
    for name in ("stride", "dilation"):
        fits = call[name][:2] == (1, 1) and min(call[name]) > 0
        call.require(fits, name, f"is {call[name]}; it must be (1, 1) and two positive numbers")
    call.require(
        min(kernel) > 0 and math.prod(kernel) <= 2048, "kernelSize", f"is {kernel}; it may cover 1 to 2048 pixels"
    )
    groups, deformable = call["groups"], call["deformableGroups"]
    for name in ("groups", "deformableGroups"):
        call.require(call[name] > 0, name, f"is {call[name]}; it must be positive")
    one_of("modulated", True)(call)
    batch, channels, height, width = sizes
    whole = channels % deformable == 0 and channels % groups == 0 and weight[0] % groups == 0
    call.require(
        whole, x, f"has {channels} channels; they must be multiples of both groups, and those of weight of groups"
    )
    call.require(height * width <= 2**31 - 1, x, f"has shape {sizes}; it has too many pixels")
    top, bottom, left, right = call["padding"]
    high, wide = _windows((height, width), kernel, (top + bottom, left + right), dilation[2:], stride[2:])
    summed = kernel[0] * kernel[1] * channels // groups
    call.require(summed <= 65535, "kernelSize", f"is {kernel}; kernel * channels / groups is {summed}, at most 65535")
    return (
        (weight[0], channels // groups, *kernel),
        (batch, 3 * deformable * kernel[0] * kernel[1], high, wide),
        (batch, weight[0], high, wide),
        (batch, channels, high * kernel[0], wide * kernel[1]),
    )


def _deformable_bias(name: str) -> Check:
    def check(call: Call) -> None:
        made = (call.shape("weight")[0],)
        if call.is_present(name):
            call.require(call.shape(name) == made, name, f"has shape {call.shape(name)}; it must be {made}")

    return check


rule(
    "aclnnDeformableConv2d",
    dtypes(_HALVES, "x"),
    same_dtype("x", "biasOptional", "deformOutOptional", "offset", "weight", "out"),
    formats("NCHW ND", "x"),
    on_products("950", formats("NCHW", "x")),
    same_format("x", "offset", "weight", "out", "deformOutOptional"),
    formats("ND", "biasOptional"),
    output_shape(weight=lambda call: _deformed(call, "x")[0], offset=lambda call: _deformed(call, "x")[1]),
    _deformable_bias("biasOptional"),
    output_shape(out=lambda call: _deformed(call, "x")[2], deformOutOptional=lambda call: _deformed(call, "x")[3]),
    output_dtype(out=dtype_of("x"), deformOutOptional=dtype_of("x")),
)
rule(
    "aclnnDeformableConv2dBackward",
    only_products("950"),
    dtypes(_HALVES, "input"),
    same_dtype(
        "input", "gradInput", "gradWeight", "gradOffset", "weight", "offsetOut", "offset", "gradOutput", "gradBias"
    ),
    formats("NCHW", "gradOutput", "input"),
    same_format("input", "weight", "offsetOut", "offset", "gradInput", "gradWeight", "gradOffset"),
    formats("ND", "gradBias"),
    _not_negative("padding"),
    output_shape(
        weight=lambda call: _deformed(call, "input")[0],
        offset=lambda call: _deformed(call, "input")[1],
        gradOutput=lambda call: _deformed(call, "input")[2],
        offsetOut=lambda call: _deformed(call, "input")[3],
        gradInput=shape_of("input"),
        gradWeight=shape_of("weight"),
        gradOffset=shape_of("offset"),
        gradBias=lambda call: call.shape("weight")[:1],
    ),
)

# --------------------------------------------------------------------------------------------------- quantised

_QUANT_ROWS = ("INT8 INT8 BF16 FLOAT", "INT8 INT8 BF16 BF16", "INT8 INT8 FLOAT16 FLOAT", "INT8 INT8 FLOAT16 FLOAT16")
_QUANT_950 = (
    "INT8 INT8 FLOAT16 INT32",
    *(f"{x} {x} {y} FLOAT" for x in ("HIFLOAT8", "FLOAT8_E4M3FN") for y in ("FLOAT", "FLOAT16", "BF16", x)),
)


def _quant_bias(call: Call) -> None:
    given = call.is_present("bias") or call.product == "950"
    call.require(given, "bias", f"is None (a null pointer); on {call.soc.name} it is required", PARAM_NULLPTR)


def _quant_values(call: Call) -> None:
    for name in ("input", "weight"):
        call.require(min(call.shape(name)) > 0, name, f"has shape {call.shape(name)}; it must not be empty")
    _, channels, _ = _axes(call, "input")
    rows, columns_, _ = _axes(call, "weight")
    for name in ("bias", "scale"):
        if call.is_present(name):
            call.require(call.shape(name) == (rows,), name, f"has shape {call.shape(name)}; it must be ({rows},)")
    _positive("stride", "dilation")(call)
    _not_negative("padding")(call)
    groups = call["groups"]
    if call.product == "950":
        call.require(groups > 0 and rows % groups == 0, "groups", f"is {groups}; it must divide {rows}, the kernels")
    else:
        call.require(groups == 1, "groups", f"is {groups}; it must be 1")
    text = f"has shape {call.shape('weight')}; its second axis must be {channels} / {groups} (channels / groups)"
    call.require(columns_ * groups == channels, "weight", text)


def _quant_mode(call: Call) -> None:
    out, mode = call.dtype("output"), call["roundMode"]
    wanted = {DataType.INT8: "rint", DataType.FLOAT8_E4M3FN: "rint", DataType.HIFLOAT8: "round"}.get(out)
    call.require(wanted in (None, mode), "roundMode", f"is {mode!r}; for {out.name} it must be {wanted!r}")
    call.require(-128 <= call["offsetx"] <= 127, "offsetx", f"is {call['offsetx']}; it must be in [-128, 127]")


def _quant_convolution(nz: bool) -> tuple[Check, ...]:
    return (
        _quant_bias,
        dtypes({"950": "INT64 UINT64 FLOAT", "": "FLOAT"}, "scale"),
        dtype_table("input weight output bias", *_QUANT_ROWS, products="A2 A3 310P 910 310 310B"),
        dtype_table("input weight output bias", *_QUANT_ROWS, *_QUANT_950, products="950"),
        rank(1, 1, "scale", "bias"),
        when(lambda call: call.product == "950", rank(4, 5, "input", "weight", "output")),
        when(lambda call: call.product != "950", rank(5, 5, "input", "weight", "output")),
        formats("ND", "bias", "scale"),
        _by_rank("input", "output"),
        formats("FRACTAL_Z_3D", "weight") if nz else _by_rank("weight"),
        _quant_values,
        on_products("950", _quant_mode),
        output_shape(output=_convolved),
        lambda call: call.require(0 not in call.shape("output"), "output", "is empty"),
        only_products("A2 A3 950"),
        output_dtype(output="FLOAT16"),
    )


def _z_storage(call: Call) -> None:
    """The weight lies in blocks of 16 kernels by 32 channels."""
    rows, columns_, kernel = _axes(call, "weight")
    wanted = (math.prod(kernel) * -(-columns_ // 32), -(-rows // 16), 16, 32)
    came = call["weight"].storage_shape
    call.require(came == wanted, "weight", f"has a storage shape {came}; in FRACTAL_Z_3D it must be {wanted}")


rule("aclnnQuantConvolution", *_quant_convolution(False), nullable="bias")
rule("aclnnQuantConvolutionWeightNz", *_quant_convolution(True), _z_storage, nullable="bias")
