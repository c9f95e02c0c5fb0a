"""Rules of ops-math/conversion: slices, windows and selections."""

from __future__ import annotations

import math

from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Shape,
    array_length,
    broadcast_shape,
    dtype_of,
    dtype_table,
    dtypes,
    infer_shape,
    max_rank,
    normalise_axes,
    only_products,
    output_dtype,
    output_shape,
    output_shape_relaxed,
    plus_bf16,
    rank,
    rule,
    same_dtype,
    shape_from,
    tiling,
    unless_empty,
    valid_axes,
    valid_axis,
)

_SLICED = plus_bf16("FLOAT FLOAT16 INT64 INT8 INT32 UINT8 BOOL")


def slice_length(size: int, start: int, end: int, step: int) -> int:
    """Elements of start:end:step on an axis; negative bounds count from the end and all bounds are clipped."""
    start = min(max(start + size if start < 0 else start, 0), size)
    end = min(max(end + size if end < 0 else end, start), size)
    return -(-(end - start) // step)


def _positive_step(call: Call) -> None:
    call.require(call["step"] > 0, "step", f"is {call['step']}; it must be positive")


def _slice_shape(call: Call) -> Shape:
    sizes = list(call.shape("self"))
    (axis,) = normalise_axes(call, "dim", (call["dim"],), len(sizes))
    _positive_step(call)
    sizes[axis] = slice_length(call.size("self", axis), call["start"], call["end"], call["step"])
    return tuple(sizes)


rule(
    "aclnnSlice",
    same_dtype("self", "out"),
    dtypes(_SLICED, "self"),
    rank(1, 8, "self"),
    valid_axis("dim", "self"),
    _positive_step,
    output_shape(out=_slice_shape),
)


def _one_item_per_axis(call: Call) -> None:
    count = len(call["axes"])
    for name in ("starts", "ends"):
        call.require(len(call[name]) == count, name, f"has {len(call[name])} items; it must have {count}, as axes")
    call.require(len(call["steps"]) <= count, "steps", f"has {len(call['steps'])} items; axes has {count}")
    call.require(all(step > 0 for step in call["steps"]), "steps", f"is {call['steps']}; all items must be positive")


def _slices_shape(call: Call) -> Shape:
    sizes = list(call.shape("self"))
    axes = normalise_axes(call, "axes", call["axes"], len(sizes))
    _one_item_per_axis(call)
    for axis, start, end, step in zip(axes, call["starts"], call["ends"], call["steps"]):
        sizes[axis] = slice_length(sizes[axis], start, end, step)
    return tuple(sizes)


rule(
    "aclnnSliceV2",
    same_dtype("self", "out"),
    dtypes(_SLICED, "self"),
    max_rank(8, "self"),
    valid_axes("axes", "self"),
    _one_item_per_axis,
    output_shape(out=_slices_shape),
)


def _strides(call: Call) -> None:
    begin, end, strides = (call[name] for name in ("begin", "end", "strides"))
    text = f"has {len(end)} items; begin, end and strides must have the same number"
    call.require(len(begin) == len(end) == len(strides), "end", text)
    call.require(0 not in strides, "strides", f"is {strides}; no item may be 0")
    mask = call["ellipsisMask"]
    call.require(mask & (mask - 1) == 0, "ellipsisMask", f"is {mask}; at most one bit may be set")
    for i, stride in enumerate(strides):
        text = f"is {strides}; where shrink_axis_mask drops an axis it must be positive"
        call.require(stride > 0 or not call["shrinkAxisMask"] >> i & 1, "strides", text)


def strided_slices(call: Call) -> list[slice | int | None]:
    """The index that masks, begins, ends and strides mean, as NumPy takes it: slices, numbers, None for new axes."""
    begin, end, strides = (call[name] for name in ("begin", "end", "strides"))
    bits = {name: call[name] for name in ("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask")}
    return strided_index(len(call.shape("self")), begin, end, strides, *bits.values())


def strided_index(
    ndim: int,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    strides: tuple[int, ...],
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> list[slice | int | None]:
    """An ellipsis stands for the axes that nothing else names; a new axis hides the other bits of its item."""
    consumed = sum(not (ellipsis_mask >> i & 1 or new_axis_mask >> i & 1) for i in range(len(begin)))
    index: list[slice | int | None] = []
    for i, (first, last, stride) in enumerate(zip(begin, end, strides)):
        if ellipsis_mask >> i & 1:
            index.extend([slice(None)] * (ndim - consumed))
        elif new_axis_mask >> i & 1:
            index.append(None)
        elif shrink_axis_mask >> i & 1:
            index.append(first)
        else:
            start = None if begin_mask >> i & 1 else first
            stop = None if end_mask >> i & 1 else last
            index.append(slice(start, stop, stride))
    return index


def _strided_shape(call: Call) -> Shape:
    _strides(call)
    left = list(call.shape("self"))
    sizes: list[int] = []
    for item in strided_slices(call):
        if item is None:
            sizes.append(1)
            continue
        call.require(bool(left), "begin", f"names more axes than self {call.shape('self')} has")
        size = left.pop(0)
        if isinstance(item, slice):
            sizes.append(len(range(*item.indices(size))))
    return (*sizes, *left)


_STRIDED = (
    "FLOAT16 FLOAT INT32 UINT8 BOOL INT8 INT16 INT64 UINT16 UINT32 UINT64 BF16 COMPLEX32 COMPLEX64 HIFLOAT8 "
    "FLOAT8_E5M2 FLOAT8_E4M3FN"
)
rule(
    "aclnnStridedSlice",
    only_products("950"),
    dtypes(_STRIDED, "self", "out"),
    same_dtype("self", "out"),
    max_rank(8, "self"),
    _strides,
    unless_empty("self", output_shape_relaxed(out=_strided_shape)),
)


def _assigned_shape(call: Call) -> Shape:
    """The shape of the part of varRef that inputValue replaces."""
    sizes = list(call.shape("varRef"))
    axes = call["axesOptional"]
    chosen = range(len(sizes)) if axes is None else normalise_axes(call, "axesOptional", axes, len(sizes))
    items = [call[name] for name in ("begin", "end", "strides")]
    call.require(all(len(item) == len(chosen) for item in items), "begin", f"must have {len(chosen)} items")
    steps = dict(zip(chosen, items[2]))
    text = f"is {items[2]}; items must be positive, the last axis's 1"
    call.require(all(n > 0 for n in items[2]) and steps.get(len(sizes) - 1, 1) == 1, "strides", text)
    for axis, start, end, step in zip(chosen, *items):
        sizes[axis] = slice_length(sizes[axis], start, end, step)
    return tuple(sizes)


def _no_empty_axis(call: Call) -> None:
    sizes = call.shape("varRef")
    call.require(all(n > 0 for n in sizes), "varRef", f"has shape {sizes}; no axis may be empty")


_ASSIGNED = ("FLOAT16", "FLOAT", "BF16", "INT32", "INT64", "DOUBLE", "INT8")
rule(
    "aclnnStridedSliceAssignV2",
    only_products("A2 A3 950"),
    dtype_table("varRef inputValue", *(f"{name} {name}" for name in _ASSIGNED)),
    tiling(rank(1, 8, "varRef"), _no_empty_axis, output_shape(inputValue=_assigned_shape)),
)

# ------------------------------------------------------------------------------------------------- windows


def _image(call: Call) -> None:
    sizes = call.shape("self")
    call.require(len(sizes) in (3, 4), "self", f"has rank {len(sizes)}; it must be 3 or 4")
    call.require(all(n > 0 for n in sizes[-3:]), "self", f"has shape {sizes}; only the batch axis may be empty")


def _window_attributes(call: Call) -> None:
    for name, least in (("kernelSize", 1), ("stride", 1), ("dilation", 1), ("padding", 0)):
        call.require(min(call[name]) >= least, name, f"is {call[name]}; items must be at least {least}")


_PAIRS = tuple(array_length(name, 2) for name in ("kernelSize", "dilation", "padding", "stride"))


def _columns_shape(call: Call) -> Shape:
    for word in (_image, *_PAIRS, _window_attributes):
        word(call)
    *lead, height, width = call.shape("self", least=2)
    kernel, dilation, padding, stride = (call[n] for n in ("kernelSize", "dilation", "padding", "stride"))
    spots = [
        (size + 2 * pad - (gap * (k - 1) + 1)) // step + 1
        for size, k, gap, pad, step in zip((height, width), kernel, dilation, padding, stride)
    ]
    call.require(min(spots) >= 1, "kernelSize", f"is {kernel}; its windows do not fit into self {call.shape('self')}")
    return (*lead[:-1], lead[-1] * kernel[0] * kernel[1], spots[0] * spots[1])


_WINDOWED = "FLOAT FLOAT16 BF16"
_WINDOWED_950 = "INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64 DOUBLE BOOL COMPLEX32 COMPLEX64"
rule(
    "aclnnIm2col",
    dtypes({"950": f"{_WINDOWED} {_WINDOWED_950}", "": _WINDOWED}, "self"),
    output_shape(out=_columns_shape),
    output_dtype(out=dtype_of("self")),
)


def _unfolded(call: Call) -> None:
    ndim, dim = len(call.shape("gradOut")), call["dim"]
    call.require(0 <= dim < ndim - 1, "dim", f"is {dim}; it must be in [0, {ndim - 2}]")
    for name in ("size", "step"):
        call.require(call[name] > 0, name, f"is {call[name]}; it must be positive")
    came, sizes = call.shape("gradOut"), tuple(call["inputSizes"])
    windows = (sizes[dim] - call["size"]) // call["step"] + 1
    wanted = (*sizes[:dim], windows, *sizes[dim + 1 :], call["size"])
    call.require(came == wanted, "gradOut", f"has shape {came}; with these input_sizes it must be {wanted}")


def _input_sizes(call: Call) -> None:
    ndim, sizes = len(call.shape("gradOut")), call["inputSizes"]
    call.require(len(sizes) == ndim - 1, "inputSizes", f"has {len(sizes)} items; it must have {ndim - 1}")


def _not_nz(call: Call) -> None:
    call.require(call["gradOut"].format.name != "FRACTAL_NZ", "gradOut", "has the private format FRACTAL_NZ")


rule(
    "aclnnUnfoldGrad",
    dtypes("FLOAT FLOAT16 BF16", "gradOut", "gradIn"),
    rank(1, 8, "gradOut", "gradIn"),
    _input_sizes,
    output_shape(gradIn=lambda call: tuple(call["inputSizes"])),
    _unfolded,
    _not_nz,
    output_dtype(gradIn=dtype_of("gradOut")),
    null_status=INNER_NULLPTR,
)

# ------------------------------------------------------------------------------------------------- selection

_SELECTED = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE BOOL"
_SELECTED_SET = {"950": _SELECTED + " BF16 UINT32 UINT64 UINT16", "A2 A3": _SELECTED + " BF16", "": _SELECTED}
rule(
    # As many elements as the mask has true ones, which only the device knows: the output has room for all.
    "aclnnMaskedSelect",
    dtypes(_SELECTED_SET, "self"),
    dtypes("UINT8 BOOL", "mask"),
    dtypes(_SELECTED_SET, "out"),
    max_rank(8, "self", "mask"),
    output_shape(out=shape_from(lambda call: math.prod(broadcast_shape("self", "mask")(call)))),
    output_dtype(out=dtype_of("self")),
)

_COALESCED = [
    f"{unique} {unique} {index} {value} {index} {value}"
    for unique in ("INT64", "INT32")
    for index in ("INT64", "INT32")
    for value in ("FLOAT", "INT32", "FLOAT16")
]
rule(
    "aclnnCoalesceSparse",
    only_products("A2 A3 950"),
    dtype_table("uniqueLen uniqueIndices indices values newIndicesOut newValuesOut", *_COALESCED),
    infer_shape(
        newIndicesOut=shape_from(("uniqueLen", 0), ("indices", 1)),
        newValuesOut=lambda call: call.shape("uniqueLen")[:1] + call.shape("values")[1:],
    ),
    output_dtype(newIndicesOut=dtype_of("indices"), newValuesOut=dtype_of("values")),
)
