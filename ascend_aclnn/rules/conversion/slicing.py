"""Rules of ops-math/conversion: slices, windows and selections."""

from __future__ import annotations

import math

from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

_SLICED = plus_bf16("FLOAT FLOAT16 INT64 INT8 INT32 UINT8 BOOL")


def slice_length(size: int, start: int, end: int, step: int) -> int:
    """Elements of start:end:step on an axis; negative bounds count from the end and all bounds are clipped."""
    start = min(max(start + size if start < 0 else start, 0), size)
    end = min(max(end + size if end < 0 else end, start), size)
    return -(-(end - start) // step)


def _slice_shape(call: Call) -> Shape:
    sizes = list(call.shape("self"))
    (axis,) = normalise_axes(call, "dim", (call["dim"],), len(sizes))
    positive("step")(call)
    sizes[axis] = slice_length(call.size("self", axis), call["start"], call["end"], call["step"])
    return tuple(sizes)


rule(
    "aclnnSlice",
    same_dtype("self", "out"),
    dtypes(_SLICED, "self"),
    rank(1, 8, "self"),
    valid_axis("dim", "self"),
    positive("step"),
    output_shape(out=_slice_shape),
)


_ONE_ITEM_PER_AXIS = (
    require("len(starts) == len(axes)", "len(ends) == len(axes)", "len(steps) <= len(axes)"),
    positive("steps"),
)


def _slices_shape(call: Call) -> Shape:
    sizes = list(call.shape("self"))
    axes = normalise_axes(call, "axes", call["axes"], len(sizes))
    for check in _ONE_ITEM_PER_AXIS:
        check(call)
    for axis, start, end, step in zip(axes, call["starts"], call["ends"], call["steps"]):
        sizes[axis] = slice_length(sizes[axis], start, end, step)
    return tuple(sizes)


rule(
    "aclnnSliceV2",
    same_dtype("self", "out"),
    dtypes(_SLICED, "self"),
    max_rank(8, "self"),
    valid_axes("axes", "self"),
    *_ONE_ITEM_PER_AXIS,
    output_shape(out=_slices_shape),
)


_STRIDES = (
    require("len(begin) == len(end)", "len(end) == len(strides)", argument="end"),
    require("0 not in strides"),
    require("ellipsisMask & (ellipsisMask - 1) == 0", why="at most one bit may be set"),
    require(
        "all(n > 0 or not shrinkAxisMask >> i & 1 for i, n in enumerate(strides))",
        argument="strides",
        why="where shrink_axis_mask drops an axis the stride must be positive",
    ),
)


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
    for check in _STRIDES:
        check(call)
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
    *_STRIDES,
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


rule(
    "aclnnStridedSliceAssignV2",
    only_products("A2 A3 950"),
    dtype_table("varRef inputValue", "T T", T=f"{FLOATS} INT32 INT64 DOUBLE INT8"),
    tiling(rank(1, 8, "varRef"), require("0 not in varRef"), output_shape(inputValue=_assigned_shape)),
)

# ------------------------------------------------------------------------------------------------- windows


_COLUMNS = (
    rank(3, 4, "self"),
    require("0 not in self[-3:]", why="only the batch axis may be empty"),
    *(array_length(name, 2) for name in ("kernelSize", "dilation", "padding", "stride")),
    positive("kernelSize", "stride", "dilation"),
    not_negative("padding"),
    define(
        spots="tuple((n + 2 * pad - gap * (k - 1) - 1) // step + 1 "
        "for n, k, gap, pad, step in zip(self[-2:], kernelSize, dilation, padding, stride))",
    ),
    require("min(spots) >= 1", argument="kernelSize", why="its windows do not fit into self"),
    output_shape(out="(*self[:-3], self[-3] * prod(kernelSize), prod(spots))"),
)
_WINDOWED_950 = "INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64 DOUBLE BOOL COMPLEX32 COMPLEX64"
rule(
    "aclnnIm2col",
    dtypes({"950": f"{FLOATS} {_WINDOWED_950}", "": FLOATS}, "self"),
    *_COLUMNS,
    output_dtype(out=dtype_of("self")),
)


rule(
    "aclnnUnfoldGrad",
    dtypes(FLOATS, "gradOut", "gradIn"),
    rank(1, 8, "gradOut", "gradIn"),
    require("len(inputSizes) == len(gradOut) - 1"),
    output_shape(gradIn="inputSizes"),
    require("0 <= dim < len(gradOut) - 1"),
    positive("size", "step"),
    define(windows="(inputSizes[dim] - size) // step + 1"),
    has_shape(gradOut="(*inputSizes[:dim], windows, *inputSizes[dim + 1 :], size)"),
    not_nz("gradOut"),
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
)

rule(
    "aclnnCoalesceSparse",
    only_products("A2 A3 950"),
    dtype_table(
        "uniqueLen uniqueIndices indices values newIndicesOut newValuesOut",
        "U U I V I V",
        U=INDICES,
        I=INDICES,
        V="FLOAT INT32 FLOAT16",
    ),
    infer_shape(newIndicesOut="(uniqueLen[0], indices[1])", newValuesOut="(uniqueLen[0], *values[1:])"),
    output_dtype(newIndicesOut=dtype_of("indices"), newValuesOut=dtype_of("values")),
)
