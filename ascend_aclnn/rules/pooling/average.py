"""Rules of average pooling over windows."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.pooling.windows import Window, format_by_rank, items_at_least, plane_rank, rank_like, spread

MOST_DIVISOR = 255
KEEP_DTYPE, ALLOW_FP32_DOWN, USE_FP16, USE_HF32, USE_FP32_ADD = range(5)


def _windows(call: Call, axes: int, kernel: str, stride: str, padding: str) -> list[Window]:
    kernels = spread(call, kernel, axes)
    strides = spread(call, stride, axes, kernels)
    pads = spread(call, padding, axes)
    return [Window(k, s, p, p) for k, s, p in zip(kernels, strides, pads)]


def _pooled(axes: int, kernel: str, stride: str, padding: str) -> ShapeRule:
    """self with as many windows on each spatial axis as fit."""

    def sizes(call: Call) -> Shape:
        own = call.shape("self")
        windows = _windows(call, axes, kernel, stride, padding)
        counts = tuple(w.places(n, bool(call["ceilMode"]), truncate=True) for w, n in zip(windows, own[-axes:]))
        call.require(all(n >= 0 for n in counts), kernel, f"is {call[kernel]}; no window fits on self {own}")
        return own[:-axes] + counts

    return sizes


def _values(call: Call) -> None:
    for name in ("self", "out"):
        sizes = call.shape(name)
        call.require(all(n >= 0 for n in sizes), name, f"has shape {sizes}; axes must not be negative")
    items_at_least("kernelSize", call["kernelSize"])(call)
    items_at_least("strides", call["strides"])(call)
    items_at_least("paddings", call["paddings"], 0)(call)


def _pads_fit(padding: str) -> Check:
    """Padding is at most half the kernel, on both axes."""

    def check(call: Call) -> None:
        pads, kernels = spread(call, padding, 2), spread(call, "kernelSize", 2)
        fits = all(k >= 2 * p for k, p in zip(kernels, pads))
        text = f"is {call[padding]}; it must be at most half of kernel_size {call['kernelSize']}"
        call.require(bool(pads) and fits, padding, text)

    return check


def _plane(call: Call) -> None:
    plane_rank(call, 2, "self")
    rank_like(call, "self", "out")
    sizes = call.shape("self")
    call.require(all(n > 0 for n in sizes[-3:]), "self", f"has shape {sizes}; only the batch axis may be empty")
    kernels = call["kernelSize"]
    call.require(len(kernels) >= 1, "kernelSize", "is empty; it must have 1 or 2 items")
    array_length("paddings", 1, 2)(call)
    array_length("strides", 0, 1, 2)(call)
    _pads_fit("paddings")(call)
    wanted = _pooled(2, "kernelSize", "strides", "paddings")(call)
    some = isinstance(wanted, tuple) and all(n > 0 for n in wanted[-2:])
    call.require(some, "kernelSize", f"is {kernels}; no window fits on self {sizes}")


def _cube_math_type(call: Call) -> None:
    """How matrix products are computed; chips without FP32 products need an FP32 input to be narrowed."""
    value, came = call["cubeMathType"], call.dtype("self")
    call.require(KEEP_DTYPE <= value <= USE_FP32_ADD, "cubeMathType", f"is {value}; it must be in [0, 4]")
    if call.product not in ("A2", "A3", "950"):
        narrowed = value in (ALLOW_FP32_DOWN, USE_FP16)
        wide = came is DataType.BF16 or (came is DataType.FLOAT and not narrowed)
        text = f"is {value}; on {call.soc.name} {came.name} needs 1 (ALLOW_FP32_DOWN_PRECISION) or 2 (USE_FP16)"
        call.require(not wide, "cubeMathType", text)


rule(
    "aclnnAvgPool2d",
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    same_dtype("self", "out"),
    format_by_rank("self", "out"),
    _values,
    _plane,
    output_shape(out=_pooled(2, "kernelSize", "strides", "paddings")),
    _cube_math_type,
    output_dtype(out="self"),
)


_BACKWARD_FORMATS = (
    require("gradOutput.format in (NCHW, NCL)"),
    require("self.format in (NCHW, NCL)"),
    require("gradInput.format in (NCHW, NCL)"),
    when("len(gradOutput) == 4", require("gradOutput.format == NCHW"), require("gradInput.format == NCHW")),
)


def _backward_dims(call: Call) -> None:
    plane_rank(call, 2, "gradOutput")
    rank_like(call, "gradOutput", "gradInput")
    for name in ("gradOutput", "self", "gradInput"):
        sizes = call.shape(name)
        call.require(all(n >= 0 for n in sizes), name, f"has shape {sizes}; axes must not be negative")
    array_length("kernelSize", 1, 2)(call)
    items_at_least("kernelSize", call["kernelSize"])(call)
    if call["stride"] is not None:
        array_length("stride", 0, 1, 2)(call)
        items_at_least("stride", call["stride"])(call)
    array_length("padding", 0, 1, 2)(call)


def _backward_cube_math_type(call: Call) -> None:
    value = call["cubeMathType"]
    call.require(KEEP_DTYPE <= value <= USE_HF32, "cubeMathType", f"is {value}; it must be in [0, 3]")


def _is_global(call: Call) -> bool:
    """One window over the whole plane: computed by a division, without further checks."""
    kernels = spread(call, "kernelSize", 2)
    sizes, grad = call.shape("self"), call.shape("gradOutput")
    return tuple(kernels) == sizes[-2:] and grad[-2:] == (1, 1) and call["divisorOverride"] == 0


def _backward_divisor(call: Call) -> None:
    if call.product in ("A2", "A3", "950") or _is_global(call):
        return
    value = call["divisorOverride"]
    text = f"is {value}; on {call.soc.name} it must be in [-{MOST_DIVISOR}, {MOST_DIVISOR}]"
    call.require(-MOST_DIVISOR <= value <= MOST_DIVISOR, "divisorOverride", text)


rule(
    "aclnnAvgPool2dBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "gradInput"),
    same_dtype("gradOutput", "gradInput"),
    *_BACKWARD_FORMATS,
    _backward_dims,
    _pads_fit("padding"),
    _backward_cube_math_type,
    output_shape(gradInput="self"),
    unless_empty("gradOutput self gradInput", _backward_divisor),
    output_dtype(gradInput="gradOutput"),
)

# ------------------------------------------------------------------------------------------------- 3-d


def _array_lengths(call: Call) -> None:
    array_length("kernelSize", 1, 3)(call)
    array_length("padding", 1, 3)(call)
    array_length("stride", 0, 1, 3)(call)


def _boxes(call: Call) -> None:
    plane_rank(call, 3, "self")
    rank_like(call, "self", "out")
    _array_lengths(call)
    sizes = call.shape("self")
    for window, n in zip(_windows(call, 3, "kernelSize", "stride", "padding"), sizes[-3:]):
        call.require(
            0 < window.kernel <= n, "kernelSize", f"is {call['kernelSize']}; it must be in [1, {n}] on an axis of {n}"
        )
        call.require(window.stride > 0, "stride", f"is {call['stride']}; it must be positive")
        text = f"is {call['padding']}; it must be in [0, {window.kernel // 2}], half of the kernel"
        call.require(0 <= window.before <= window.kernel // 2, "padding", text)


rule(
    "aclnnAvgPool3d",
    dtypes(FLOATS_OF_PRODUCT, "self"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    no_private_format("self"),
    _boxes,
    output_shape(out=_pooled(3, "kernelSize", "stride", "padding")),
    output_dtype(out="self"),
)


def _backward_boxes(call: Call) -> None:
    plane_rank(call, 3, "gradOuput")
    rank_like(call, "gradOuput", "self", "output")
    sizes, out = call.shape("self"), call.shape("output")
    call.require(sizes == out, "output", f"has shape {out}; it must be {sizes}, as self")
    _array_lengths(call)


def _backward_windows(call: Call) -> None:
    for window in _windows(call, 3, "kernelSize", "stride", "padding"):
        call.require(window.kernel > 0, "kernelSize", f"is {call['kernelSize']}; it must be positive")
        call.require(window.stride > 0, "stride", f"is {call['stride']}; it must be positive")
        text = f"is {call['padding']}; it must be in [0, {window.kernel // 2}], half of the kernel"
        call.require(0 <= window.before <= window.kernel // 2, "padding", text)
    wanted, came = _pooled(3, "kernelSize", "stride", "padding")(call), call.shape("gradOuput")
    call.require(came == wanted, "gradOuput", f"has shape {came}; it must be {wanted}")


rule(
    "aclnnAvgPool3dBackward",
    dtypes({"A2 A3 950": "FLOAT FLOAT16 BF16", "": ""}, "gradOuput", "self", "output"),
    _backward_boxes,
    same_format("gradOuput", "output"),
    no_private_format("gradOuput"),
    unless_empty("gradOuput", _backward_windows),
    infer_shape(output="self"),
    output_dtype(output="self"),
)
