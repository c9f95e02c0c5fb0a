"""Rules of maximum pooling over windows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.pooling.windows import Window, items_at_least, plane_fits_int32, plane_rank, spread

_BLOCK = 16  # items a mask row is rounded up to


def _plane_axes(call: Call, spatial: int) -> tuple[int, slice]:
    """Where self has channels and spatial axes: (N, C, H, W), or (N, H, W, C) by its format."""
    n = len(call.shape("self"))
    last = call["self"].format in (Format.NHWC, Format.NDHWC)
    return (n - 1, slice(n - 1 - spatial, n - 1)) if last else (n - 1 - spatial, slice(n - spatial, n))


def _pooled(call: Call, windows: Sequence[Window]) -> Shape:
    sizes = call.shape("self")
    _, plane = _plane_axes(call, len(windows))
    counts = tuple(w.places(n, bool(call["ceilMode"])) for w, n in zip(windows, sizes[plane]))
    call.require(all(n >= 0 for n in counts), "self", f"has shape {sizes}; no window fits")
    return sizes[: plane.start] + counts + sizes[plane.stop :]


def _some_window(call: Call, windows: Sequence[Window], kernel: str) -> None:
    """Channels and plane are not empty, and at least one window fits."""
    sizes = call.shape("self")
    channels, plane = _plane_axes(call, len(windows))
    call.require(
        sizes[channels] != 0 and all(sizes[plane]), "self", f"has shape {sizes}; only the batch axis may be empty"
    )
    counts = _pooled(call, windows)[plane]
    call.require(all(n > 0 for n in counts), kernel, f"is {call[kernel]}; no window fits on self {sizes}")


# ------------------------------------------------------------------------------------------------- MaxPool


def _max_pool_windows(call: Call) -> list[Window]:
    """An empty stride is 1 here; pads are one number, (H, W) or (top, left, bottom, right)."""
    kernels, strides = spread(call, "kernelShape", 2), spread(call, "strides", 2, (1, 1))
    pads = tuple(call["pads"]) or (0,)
    pads = pads * 4 if len(pads) == 1 else pads * 2 if len(pads) == 2 else pads
    call.require(len(pads) == 4, "pads", f"has {len(pads)} items; it must have 1, 2 or 4")
    return [Window(k, s, pads[i], pads[i + 2]) for i, (k, s) in enumerate(zip(kernels, strides))]


def _max_pool_attributes(call: Call) -> None:
    array_length("kernelShape", 1, 2)(call)
    array_length("strides", 0, 1, 2)(call)
    array_length("pads", 0, 1, 2, 4)(call)
    array_length("dilations", 0, 1, 2, 4)(call)
    call.require(call["autoPad"] == 0, "autoPad", f"is {call['autoPad']}; it must be 0 (NOTSET)")
    call.require(all(d == 1 for d in call["dilations"]), "dilations", f"is {call['dilations']}; it must be 1")
    items_at_least("kernelShape", call["kernelShape"])(call)
    items_at_least("strides", call["strides"])(call)
    windows = _max_pool_windows(call)
    fit = all(w.before + w.after <= w.kernel for w in windows)
    call.require(
        fit, "pads", f"is {call['pads']}; the padding of an axis must not exceed kernel_shape {call['kernelShape']}"
    )
    _some_window(call, windows, "kernelShape")


def _rank(spatial: int, *names: str) -> Check:
    def check(call: Call) -> None:
        plane_rank(call, spatial, *names)

    return check


rule(
    "aclnnMaxPool",
    dtypes(
        {"A2 A3": "FLOAT16 FLOAT", "950": f"{FLOATS} INT32 INT64 UINT8 INT16 INT8 UINT16", "": "FLOAT16"},
        "self",
    ),
    same_dtype("self", "out"),
    same_format("self", "out"),
    no_private_format("self"),
    _rank(2, "self"),
    _max_pool_attributes,
    output_shape(out=lambda call: _pooled(call, _max_pool_windows(call))),
    output_dtype(out="self"),
)


# ------------------------------------------------------------------------------------------------- with indices or mask


def _windows(call: Call, axes: int) -> list[Window]:
    kernels = spread(call, "kernelSize", axes)
    strides = spread(call, "stride", axes, kernels)
    pads, dilations = spread(call, "padding", axes), spread(call, "dilation", axes)
    return [Window(k, s, p, p, d) for k, s, p, d in zip(kernels, strides, pads, dilations)]


def _attributes(axes: int, dilated: str) -> Check:
    """Lengths and values of the window attributes; only the chips in ``dilated`` take a dilation."""

    def check(call: Call) -> None:
        array_length("kernelSize", 1, axes)(call)
        array_length("stride", 0, 1, axes)(call)
        array_length("padding", 1, axes)(call)
        array_length("dilation", 1, axes)(call)
        items_at_least("kernelSize", call["kernelSize"])(call)
        items_at_least("stride", call["stride"])(call)
        windows = _windows(call, axes)
        fit = all(0 <= w.before <= w.kernel // 2 for w in windows)
        text = f"is {call['padding']}; it must be in [0, half of kernel_size {call['kernelSize']}]"
        call.require(fit, "padding", text)
        if call.product in dilated.split():
            items_at_least("dilation", call["dilation"])(call)
        else:
            text = f"is {call['dilation']}; on {call.soc.name} it must be 1"
            call.require(all(w.dilation == 1 for w in windows), "dilation", text)

    return check


def _plane_output(call: Call) -> Shape:
    return _pooled(call, _windows(call, 2))


def _mask_shape(call: Call) -> Shape:
    """Bits of the chosen positions: a row for every place in the kernel, a bit for every window, in blocks."""
    kh, kw = spread(call, "kernelSize", 2)
    lead, counts = _plane_output(call)[:-2], _plane_output(call)[-2:]
    blocks = -(-math.prod(counts) // _BLOCK)
    return (*lead, kh * kw, (blocks + 1) * 2 * _BLOCK)


def _window_exists(axes: int) -> Check:
    def check(call: Call) -> None:
        _some_window(call, _windows(call, axes), "kernelSize")

    return check


def _with_positions(name: str, allowed: DtypeSet, positions: str, kept: ShapeRule, *first: Check) -> None:
    rule(
        name,
        *first,
        dtypes(allowed, "self"),
        same_dtype("self", "out"),
        dtypes(positions, "indices"),
        same_format("self", "out"),
        no_private_format("self"),
        _rank(2, "self"),
        _attributes(2, "950"),
        _window_exists(2),
        output_shape(out=_plane_output, indices=kept),
        output_dtype(out="self", indices=positions.split()[-1]),
    )


_with_positions("aclnnMaxPool2dWithIndices", {"A2 A3 950": FLOATS, "": ""}, "INT64 INT32", _plane_output)
_with_positions(
    "aclnnMaxPool2dWithMask",
    {"A2 A3": FLOATS, "910": "FLOAT16 FLOAT", "310P": "FLOAT", "": ""},
    "INT8",
    _mask_shape,
    array_length("kernelSize", 1, 2),
    only_products("A2 A3 910 310P 310B 310"),
)


def _kernel_length(call: Call) -> None:
    """The mask's backward pass answers a kernel of the wrong length as if it were a null pointer."""
    came = len(call["kernelSize"])
    call.require(came in (1, 2), "kernelSize", f"has {came} items; it must have 1 or 2", PARAM_NULLPTR)


def _pads_fit_dilated(call: Call) -> None:
    for w in _windows(call, 2):
        most = ((w.kernel - 1) * w.dilation + 1) // 2
        call.require(w.before <= most, "padding", f"is {call['padding']}; it must be at most {most}")


def _grad_output(axes: int) -> Check:
    def check(call: Call) -> None:
        wanted, came = _pooled(call, _windows(call, axes)), call.shape("gradOutput")
        call.require(came == wanted, "gradOutput", f"has shape {came}; it must be {wanted}")

    return check


def _backward(name: str, allowed: DtypeSet, positions: DtypeSet, *first: Check) -> None:
    rule(
        name,
        *first,
        dtypes(allowed, "self"),
        same_dtype("self", "gradOutput", "gradInput"),
        dtypes(positions, "indices"),
        same_format("self", "gradOutput", "gradInput"),
        no_private_format("self", "gradInput", "gradOutput", "indices"),
        _rank(2, "self", "gradInput", "gradOutput", "indices"),
        _attributes(2, "950"),
        output_shape(gradInput="self"),
        _window_exists(2),
        _pads_fit_dilated,
        _grad_output(2),
        output_dtype(gradInput="self"),
    )


_backward(
    "aclnnMaxPool2dWithIndicesBackward",
    {"A2 A3": "FLOAT", "950": FLOATS, "": ""},
    {"950": "INT32 INT64", "": "INT32 INT8"},
)
_backward(
    "aclnnMaxPool2dWithMaskBackward",
    {"A2 A3": FLOATS, "910": "FLOAT16 FLOAT", "": ""},
    "INT8",
    only_products("A2 A3 910 310P 310B 310"),
    _kernel_length,
)


# ------------------------------------------------------------------------------------------------- 3-d


def _box_output(call: Call) -> Shape:
    return _pooled(call, _windows(call, 3))


_BOX_FORMATS = (Format.NDHWC, Format.NCDHW, Format.NCHW, Format.ND)


_BOX_FORMAT = (require("self.format in (NDHWC, NCDHW, NCHW, ND)"),)


rule(
    "aclnnMaxPool3dWithArgmax",
    only_products("A2 A3 950"),
    dtypes(FLOATS, "self"),
    dtypes({"950": "INT32 INT64", "": "INT32"}, "indices"),
    same_dtype("self", "out"),
    same_format("self", "out", "indices"),
    _rank(3, "self"),
    on_products("950", *_BOX_FORMAT),
    _attributes(3, "950 310P 310B 310"),
    unless_empty("self out", output_shape_relaxed(out=_box_output, indices=_box_output)),
    output_dtype(out="self", indices="INT32"),
)
rule(
    "aclnnMaxPool3dWithArgmaxBackward",
    dtypes({"A2 A3 950": FLOATS, "": ""}, "self"),
    dtypes({"950": "INT32 INT64", "": "INT32"}, "indices"),
    same_dtype("self", "gradOutput", "gradInput"),
    same_format("self", "gradOutput", "gradInput"),
    no_private_format("self", "gradInput", "gradOutput", "indices"),
    _rank(3, "gradOutput", "gradInput", "indices", "self"),
    _attributes(3, "A2 A3 910 950 310P 310B 310"),
    plane_fits_int32(3),
    same_shape("gradOutput", "indices"),
    output_shape(gradInput="self"),
    output_dtype(gradInput="self"),
)
