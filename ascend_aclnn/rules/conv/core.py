"""Rules of convolutions, and what those of ops-nn/conv share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *

_FLOATS: DtypeSet = {"A2 A3": "FLOAT FLOAT16 BF16", "950": "FLOAT FLOAT16 BF16 HIFLOAT8", "": "FLOAT FLOAT16"}
_LAST = (Format.NHWC, Format.NDHWC)


def _divided(a: int, b: int) -> int:
    """Integer division as C++ does it: towards zero."""
    return a // b if a >= 0 else -(-a // b)


def axes_of(call: Call, name: str) -> tuple[int, int, Shape]:
    """First axis, channels and spatial sizes of an image or a kernel."""
    sizes = call.shape(name)
    call.require(3 <= len(sizes) <= 5, name, f"has rank {len(sizes)} (shape {sizes}); it must be 3, 4 or 5")
    last = call[name].format in _LAST
    return (sizes[0], sizes[-1], sizes[1:-1]) if last else (sizes[0], sizes[1], sizes[2:])


def pads_of(call: Call, name: str, spatial: int) -> Shape:
    """Padding of both sides together, along each spatial axis: an array names it for each axis, or for each side."""
    given = call[name]
    if len(given) == spatial:
        return tuple(2 * n for n in given)
    call.require(len(given) == 2 * spatial, name, f"has {len(given)} items; it must have {spatial} or {2 * spatial}")
    return tuple(a + b for a, b in zip(given[::2], given[1::2]))


def windows(sizes: Shape, kernel: Shape, pads: Shape, dilation: Sequence[int], stride: Sequence[int]) -> Shape:
    """How many positions a kernel takes along each axis."""
    rows = zip(sizes, kernel, pads, dilation, stride)
    return tuple(_divided(n + p - d * (k - 1) - 1, s) + 1 for n, k, p, d, s in rows)


_PLAIN = {3: "NCL", 4: "NCHW", 5: "NCDHW"}


def by_rank(*names: str, also: str = "") -> Check:
    """Tensors have the plain format of their rank, or another that is named."""

    def check(call: Call) -> None:
        for name in names:
            formats(f"{_PLAIN[len(call.shape(name))]} {also}", name)(call)

    return check


# --------------------------------------------------------------------------------------------------- convolution


def convolved(call: Call, x: str = "input") -> Shape:
    """Shape of the output of a convolution, or of a transposed one."""
    n, _, sizes = axes_of(call, x)
    rows, columns_, kernel = axes_of(call, "weight")
    spatial = len(sizes)
    call.require(len(kernel) == spatial, "weight", f"has rank {len(kernel) + 2}; it must be {spatial + 2}, as {x}")
    for name in ("stride", "dilation"):
        array_length(name, spatial)(call)
    positive("stride", "dilation")(call)
    transposed = "transposed" in call.operator.positions and call["transposed"]
    if spatial == 3 or (transposed and spatial == 1):
        array_length("padding", spatial)(call)
    pads, stride, dilation = pads_of(call, "padding", spatial), call["stride"], call["dilation"]
    if transposed:
        call.require(call.is_present("outputPadding"), "outputPadding", "is None; a transposed convolution requires it")
        array_length("outputPadding", spatial)(call)
        wide = tuple(
            (size - 1) * s - p + d * (k - 1) + extra + 1
            for size, k, p, d, s, extra in zip(sizes, kernel, pads, dilation, stride, call["outputPadding"])
        )
        made = columns_ * call["groups"]
    else:
        wide, made = windows(sizes, kernel, pads, dilation, stride), rows
    return (n, *wide, made) if call[x].format in _LAST else (n, made, *wide)


def _bias(call: Call) -> None:
    if call.is_present("bias"):
        out = axes_of(call, "weight")
        items = out[1] * call["groups"] if call["transposed"] else out[0]
        text = f"has shape {call.shape('bias')}; it must be ({items},)"
        call.require(call.shape("bias") == (items,), "bias", text)


def _conv_formats(call: Call) -> None:
    same_format("input", "output")(call)
    formats("NCL NCHW NCDHW ND", "bias")(call)
    spatial = len(call.shape("input")) - 2
    old = call.product != "950"
    by_rank("input", "output", also="NDHWC" if spatial == 3 and old else "")(call)
    weight = "NDHWC" if spatial == 3 else "FRACTAL_Z" if spatial == 2 and not call["transposed"] else ""
    by_rank("weight", also=weight if old else "")(call)


def _conv_values(call: Call) -> None:
    """Sizes, kernel and groups of a convolution."""
    n, channels, sizes = axes_of(call, "input")
    rows, columns_, kernel = axes_of(call, "weight")
    groups, transposed = call["groups"], call["transposed"]
    empty = 0 in call.shape("input")
    call.require(min((n, channels, *sizes)) >= 0, "input", f"has shape {call.shape('input')}; sizes are not negative")
    fits = min(rows, columns_) >= 0 and (min(kernel) > 0 or (call.product == "950" and transposed))
    call.require(fits, "weight", f"has shape {call.shape('weight')}; its kernel must not be empty")
    positive("stride", "dilation")(call)
    if not transposed and not empty:
        pads = pads_of(call, "padding", len(sizes))
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
    dtypes(_FLOATS, "input", "weight", "output"),
    rank(3, 5, "input", "weight", "output"),
    _bias,
    _conv_formats,
    _conv_values,
    output_shape(output=convolved),
    _empty_output("input", "output"),
    *cube_math_type("input", "weight"),
    _chips,
    output_dtype(output=promoted("input", "weight")),
    nullable="outputPadding",
)


def _depthwise_values(call: Call) -> None:
    n, channels, sizes = axes_of(call, "self")
    rows, columns_, kernel = axes_of(call, "weight")
    for name in ("stride", "dilation", "padding", "kernelSize"):
        array_length(name, 2)(call)
    call.require(min(n, channels, *sizes, rows, columns_) >= 0, "self", "has negative sizes")
    call.require(min(kernel) > 0, "weight", f"has shape {call.shape('weight')}; its kernel must not be empty")
    positive("stride", "dilation")(call)
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
    dtypes(_FLOATS, "self"),
    same_dtype("self", "weight", "out"),
    rank(4, 4, "self", "weight", "out"),
    rank(1, 1, "bias"),
    formats("NCHW", "self", "weight", "out"),
    _depthwise_values,
    output_shape(out=lambda call: convolved(call, "self")),
    _empty_output("self", "out"),
    *cube_math_type("self", "weight"),
    only_products("A2 A3 950 910 310P 310B"),
    output_dtype(out=dtype_of("self")),
)


def _tbc_shape(call: Call) -> Shape:
    """Of (time, batch, channels) with a weight (kernel, channels, out channels)."""
    time, batch, channels = three_axes(call, "self")
    length, columns_, made = three_axes(call, "weight")
    call.require(length > 0, "weight", f"has shape {call.shape('weight')}; its kernel must not be empty")
    text = f"has shape {call.shape('weight')}; its second axis must be {channels}, the channels of self"
    call.require(columns_ == channels, "weight", text)
    empty = 0 in call.shape("self")
    text = f"has shape {call.shape('self')}; padded by {call['pad']} it is shorter than the kernel, {length}"
    call.require(empty or time + call["pad"] - length >= 0, "self", text)
    return time + 2 * call["pad"] - length + 1, batch, made


def three_axes(call: Call, name: str) -> tuple[int, int, int]:
    sizes = call.shape(name)
    call.require(len(sizes) == 3, name, f"has rank {len(sizes)} (shape {sizes}); it must be 3")
    return sizes[0], sizes[1], sizes[2]


def tbc_bias(call: Call) -> None:
    rank(1, 1, "bias")(call)
    made = three_axes(call, "weight")[2]
    call.require(call.shape("bias") == (made,), "bias", f"has shape {call.shape('bias')}; it must be ({made},)")


rule(
    "aclnnConvTbc",
    dtypes({"310P": "FLOAT FLOAT16", "": "FLOAT FLOAT16 BF16"}, "bias"),
    dtypes(_FLOATS, "self"),
    same_dtype("self", "weight", "output"),
    rank(3, 3, "self", "weight", "output"),
    tbc_bias,
    formats("ND NCL", "self", "weight", "output"),
    output_shape(output=_tbc_shape),
    *cube_math_type("self", "weight"),
    only_products("A2 A3 950 910 310P"),
    output_dtype(output=dtype_of("self")),
    required="bias",
)
