"""Rules of ops-math/conversion: slices, windows and selections."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

_SLICED = plus_bf16("FLOAT FLOAT16 INT64 INT8 INT32 UINT8 BOOL")
rule(
    "aclnnSlice",
    same_dtype("self", "out", among=_SLICED),
    rank(1, 8, "self"),
    valid_axis("dim", "self"),
    positive("step"),
    output_shape(out="with_size(self, dim, slice_length(self[dim], start, end, step))"),
)


def _sliced(tensor: str, *bounds: str) -> str:
    """An expression for a tensor's shape after slicing the axes in ``places``, with an item of each bound for each of them."""
    bounds_of_axis = ", ".join(f"{bound}[places.index(i)]" for bound in bounds)
    return f"tuple(slice_length(n, {bounds_of_axis}) if i in places else n for i, n in enumerate({tensor}))"


rule(
    "aclnnSliceV2",
    same_dtype("self", "out", among=_SLICED),
    max_rank(8, "self"),
    valid_axes("axes", "self"),
    require("len(starts) == len(axes)", "len(ends) == len(axes)", "len(steps) <= len(axes)"),
    positive("steps"),
    define(places="tuple(axis % len(self) for axis, step in zip(axes, steps))"),
    output_shape(out=_sliced("self", "starts", "ends", "steps")),
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


@refuses("length/axes", "begin")
@carries(*_STRIDES)
def _strided_shape(call: Call) -> Shape:
    for check in _STRIDES:
        check(call)
    remaining = list(call.shape("self"))
    items = (call[name] for name in ("begin", "end", "strides"))
    bits = (call[name] for name in ("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask"))
    sizes: list[int] = []
    for item in strided_index(len(remaining), *items, *bits):
        if item is None:
            sizes.append(1)
            continue
        call.require(
            bool(remaining), "begin", f"names more axes than self {call.shape('self')} has", check="length/axes"
        )
        size = remaining.pop(0)
        if isinstance(item, slice):
            sizes.append(len(range(*item.indices(size))))
    return (*sizes, *remaining)


_STRIDED = f"{FLOATS} {INTEGERS} {UNSIGNED} BOOL COMPLEX32 COMPLEX64 {FLOAT8S}"
rule(
    "aclnnStridedSlice",
    only_products("950"),
    dtypes(_STRIDED, "self", "out"),
    same_dtype("self", "out"),
    max_rank(8, "self"),
    *_STRIDES,
    unless_empty("self", output_shape_relaxed(out=_strided_shape)),
)
rule(
    "aclnnStridedSliceAssignV2",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table("varRef inputValue", "T T", T=f"{FLOATS} INT32 INT64 DOUBLE INT8"),
    define(
        places="tuple(range(len(varRef)) if axesOptional is None else (axis % len(varRef) for axis in axesOptional))"
    ),
    tiling(
        rank(1, 8, "varRef"),
        require("0 not in varRef"),
        valid_axes("axesOptional", "varRef"),
        require(*(f"len({name}) == len(places)" for name in ("begin", "end", "strides"))),
        positive("strides"),
        require("all(step == 1 for axis, step in zip(places, strides) if axis == len(varRef) - 1)", argument="strides"),
        has_shape(inputValue=_sliced("varRef", "begin", "end", "strides")),
    ),
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
_WINDOWED_950 = f"{INTEGERS} {UNSIGNED} DOUBLE BOOL COMPLEX32 COMPLEX64"
rule(
    "aclnnIm2col",
    dtypes({"950": f"{FLOATS} {_WINDOWED_950}", "": FLOATS}, "self"),
    *_COLUMNS,
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

_SELECTED_SET = {"950": f"{REAL} BF16 {UNSIGNED}", "A2 A3": f"{REAL} BF16", "": REAL}
rule(
    # As many elements as the mask has true ones, which only the device knows: the output has room for all.
    "aclnnMaskedSelect",
    dtypes(_SELECTED_SET, "self"),
    dtypes("UINT8 BOOL", "mask"),
    dtypes(_SELECTED_SET, "out"),
    max_rank(8, "self", "mask"),
    output_shape(out="(prod(broadcast(self, mask)),)"),
)

rule(
    "aclnnCoalesceSparse",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table(
        "uniqueLen uniqueIndices indices values newIndicesOut newValuesOut",
        "U U I V I V",
        U=INDICES,
        I=INDICES,
        V="FLOAT INT32 FLOAT16",
    ),
    # As the kernel pairs them.
    tiling(require("uniqueIndices == indices[:1]"), require("values[0] == indices[0]", word="kernel")),
    tiling(
        rank(1, "uniqueLen", "uniqueIndices"),
        rank(2, "indices"),
        require("uniqueIndices[0] == indices[0]", "values[0] == indices[0]"),
    ),
    infer_shape(newIndicesOut="(uniqueLen[0], indices[1])", newValuesOut="(uniqueLen[0], *values[1:])"),
)
