"""Rules of the gradients of convolutions."""

from __future__ import annotations

from typing import Optional

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.conv.core import axes_of, by_rank, pads_of, tbc_bias, three_axes, windows
from ascend_aclnn.rules.language import *

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
            by_rank(name, also="ND" if len(call.shape(name)) == 3 else "")(call)
    if not call["transposed"] and call.product in ("A2", "A3", "950"):
        formats("ND", "gradBias")(call)


def _backward_attributes(call: Call) -> None:
    positive("stride", "dilation")(call)
    not_negative("padding")(call)
    extra = call["outputPadding"]
    if call["transposed"]:
        not_negative("outputPadding")(call)
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
    return axes_of(call, image)[1], axes_of(call, made)[1]


def _backward_shapes(call: Call) -> None:
    x, y, weight = call.shape("input"), call.shape("gradOutput"), call.shape("weight")
    call.require(len(y) == len(x), "gradOutput", f"has rank {len(y)}; it must be {len(x)}, as input")
    call.require(len(weight) == len(x), "weight", f"has rank {len(weight)}; it must be {len(x)}, as input")
    call.require(0 not in y, "gradOutput", f"has shape {y}; it must not be empty")
    same_shape("input", "gradInput")(call)
    same_shape("weight", "gradWeight")(call)
    if call.is_present("gradBias"):
        made = axes_of(call, "gradOutput")[1]
        text = f"has shape {call.shape('gradBias')}; it must be ({made},), the channels of grad_output"
        call.require(call.shape("gradBias") == (made,), "gradBias", text)
    _arrays(call)
    image, made = _channels(call)
    rows, columns_, _ = axes_of(call, "weight")
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
    sizes, came = (axes_of(call, name)[2] for name in names)
    kernel, pads = axes_of(call, "weight")[2], pads_of(call, "padding", len(sizes))
    room = all(n + p - d * (k - 1) - 1 >= 0 for n, p, d, k in zip(sizes, pads, call["dilation"], kernel))
    call.require(
        room, names[0], f"has sizes {sizes}; padded by {pads} they are smaller than the dilated kernel {kernel}"
    )
    wanted = windows(sizes, kernel, pads, call["dilation"], call["stride"])
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
    rows, columns_, kernel = axes_of(call, "weight")
    groups = call["groups"]
    call.require(rows % groups == 0, "weight", f"has shape {weight}; its first axis must be a multiple of {groups}")
    if (image or columns_) and not (call["transposed"] and x[0] == 0):
        fits = columns_ != 0 and image % columns_ == 0 and image // columns_ == groups
        call.require(fits, "weight", f"has shape {weight}; its second axis must be {image} / {groups}")
    if call["transposed"]:
        call.require(rows > 0 and rows == x[1], "weight", f"has shape {weight}; its first axis must be {x[1]}")
    else:
        for n, k, p, d in zip(x[2:], kernel, pads_of(call, "padding", len(kernel)), call["dilation"]):
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
        return (axes_of(call, "gradOutput")[1],) if position == 2 else call.shape(like)

    return infer_shape(**{name: shape_})


rule(
    "aclnnConvolutionBackward",
    _wanted_grads,
    dtypes(_BACKWARD, "gradOutput", "input", "weight", "gradInput", "gradWeight", "gradBias"),
    on_products("950", same_dtype("input", "gradInput"), same_dtype("gradOutput", "gradBias")),
    _backward_formats,
    _backward_attributes,
    *cube_math_type("gradOutput", "input", "weight", most=3),
    _backward_sizes,
    tiling(unless_empty("input weight", _backward_windows)),
    *(_masked(i, like) for i, (_, like) in enumerate(_GRADS)),
    output_dtype(gradInput=dtype_of("input"), gradWeight=dtype_of("weight"), gradBias=dtype_of("gradOutput")),
    nullable="biasSizes gradInput gradWeight gradBias",
)


def _tbc_grad(call: Call) -> Shape:
    time, batch, channels = three_axes(call, "input")
    length, columns_, made = three_axes(call, "weight")
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
    tbc_bias,
    output_shape(self=_tbc_grad, gradInput=shape_of("input"), gradWeight=shape_of("weight"), gradBias=shape_of("bias")),
    *cube_math_type("self", "input", "weight", most=3),
    on_products(
        "950", same_dtype("input", "gradInput"), same_dtype("weight", "gradWeight"), same_dtype("bias", "gradBias")
    ),
    output_dtype(gradInput=dtype_of("input"), gradWeight=dtype_of("weight"), gradBias=dtype_of("bias")),
)
