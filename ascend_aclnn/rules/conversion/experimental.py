"""Rules of the experimental operators of ops-math/conversion."""

from __future__ import annotations

from ascend_aclnn.rules.language import (
    Call,
    Shape,
    dtype_of,
    dtypes,
    max_rank,
    normalise_axes,
    only_products,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    same_shape,
    shape_of,
)

_HALVES = "FLOAT FLOAT16"
_MOVED = "INT64 UINT64 INT32 UINT32 FLOAT FLOAT16 INT8 UINT8 BF16 INT16 UINT16 BOOL"


def _strided_shape(call: Call) -> Shape:
    """Every element that size and stride name lies in x, which counts as stored without gaps."""
    size, stride, offset = tuple(call["size"]), tuple(call["stride"]), call["storageOffset"]
    call.require(1 <= len(size) <= 8, "size", f"has {len(size)} items; it must have between 1 and 8")
    call.require(len(stride) == len(size), "stride", f"has {len(stride)} items; it must have {len(size)}, as size")
    call.require(len(offset) == 1, "storageOffset", f"has {len(offset)} items; it must have 1")
    for name in ("size", "stride", "storageOffset"):
        call.require(min(call[name]) >= 0, name, f"is {call[name]}; its items must not be negative")
    last = offset[0] + sum((n - 1) * step for n, step in zip(size, stride))
    text = f"is {stride}; with size {size} from {offset[0]} it reaches element {last} of {call['x'].size}"
    call.require(0 in size or last < call["x"].size, "stride", text)
    return size


rule(
    "aclnnAsStrided",
    only_products("A2"),
    dtypes(f"{_MOVED} COMPLEX32 COMPLEX64 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN", "x"),
    same_dtype("x", "out"),
    output_shape(out=_strided_shape),
)
rule(
    "aclnnTensorMove",
    only_products("A2"),
    dtypes(f"{_MOVED} DOUBLE", "x"),
    same_dtype("x", "y"),
    output_shape(y=shape_of("x")),
)
rule(
    "aclnnFillV2",
    only_products("A2"),
    dtypes(f"{_HALVES} INT16 INT32 BF16", "xRef"),
    same_dtype("xRef", "fillValue"),
    lambda call: call.require(
        call["fillValue"].size == 1, "fillValue", f"has shape {call.shape('fillValue')}; it must hold one number"
    ),
)


def _one_hot(call: Call) -> Shape:
    call.require(call["depth"] > 0, "depth", f"is {call['depth']}; it must be positive")
    return *call.shape("x"), call["depth"]


rule("aclnnOnehot", only_products("A2"), dtypes("INT32", "x", "out"), max_rank(7, "x"), output_shape(out=_one_hot))


def _stacked(call: Call) -> Shape:
    sizes = call.shape("x")
    (axis,) = normalise_axes(call, "d", (call["d"],), len(sizes) + 1)
    return *sizes[:axis], 2, *sizes[axis:]


rule(
    "aclnnPackV2",
    only_products("A2"),
    dtypes(f"{_HALVES} INT32 INT16", "x"),
    same_dtype("x", "y", "out"),
    same_shape("x", "y"),
    output_shape(out=_stacked),
)


def _cut_out(call: Call) -> Shape:
    sizes, begin, size = call.shape("x"), call["begin"], tuple(call["size"])
    for name in ("begin", "size"):
        call.require(len(call[name]) == len(sizes), name, f"has {len(call[name])} items; x has rank {len(sizes)}")
        call.require(min(call[name], default=0) >= 0, name, f"is {call[name]}; its items must not be negative")
    fits = all(b + n <= m for b, n, m in zip(begin, size, sizes))
    call.require(fits, "size", f"is {size}; from {begin} on, x {sizes} has fewer elements")
    return size


rule(
    "aclnnSliceV3",
    only_products("A2"),
    dtypes(_MOVED, "x"),
    same_dtype("x", "out"),
    max_rank(8, "x"),
    output_shape(out=_cut_out),
)


def _as_many_axes(call: Call) -> None:
    rank(1, 1, "perm")(call)
    ndim, count = len(call.shape("x")), call.size("perm", 0)
    call.require(count == ndim, "perm", f"has {count} items; x has rank {ndim}")
    sizes = call.shape("out")
    fits = sorted(sizes) == sorted(call.shape("x"))
    call.require(fits, "out", f"has shape {sizes}; it must have the axes of x {call.shape('x')}")


# The order of the axes is data, so the shape of the result is that of out=.
rule(
    "aclnnTransposev",
    only_products("A2"),
    dtypes(_MOVED, "x"),
    dtypes("INT32 INT64", "perm"),
    same_dtype("x", "out"),
    _as_many_axes,
    output_dtype(out=dtype_of("x")),
)


def _spots(call: Call, length: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _positive(call: Call, least: int, *names: str) -> None:
    for name in names:
        call.require(call[name] >= least, name, f"is {call[name]}; it must be at least {least}")


def _columns(call: Call) -> Shape:
    rank(3, 4, "x")(call)
    _positive(call, 1, "kernelH", "kernelW", "strideH", "strideW", "dilationH", "dilationW")
    _positive(call, 0, "padH", "padW")
    *batch, channels, height, width = call.shape("x")
    spots = [
        _spots(call, length, *(call[f"{name}{axis}"] for name in ("kernel", "stride", "pad", "dilation")))
        for axis, length in (("H", height), ("W", width))
    ]
    call.require(min(spots) > 0, "x", f"has shape {call.shape('x')}, which holds no window")
    return *batch, channels * call["kernelH"] * call["kernelW"], spots[0] * spots[1]


rule(
    "aclnnIm2Col",
    only_products("A2"),
    dtypes(_HALVES, "x"),
    same_dtype("x", "out"),
    output_shape(out=_columns),
)


def _image(call: Call) -> Shape:
    rank(2, 3, "col")(call)
    _positive(call, 1, "outputH", "outputW", "kernelH", "kernelW", "strideVal", "dilationVal")
    _positive(call, 0, "paddingVal")
    *batch, rows, columns = call.shape("col")
    window = call["kernelH"] * call["kernelW"]
    call.require(rows % window == 0, "col", f"has {rows} rows; they must be a multiple of the window's {window}")
    spots = [
        _spots(
            call,
            call[f"output{axis}"],
            call[f"kernel{axis}"],
            call["strideVal"],
            call["paddingVal"],
            call["dilationVal"],
        )
        for axis in "HW"
    ]
    fits = min(spots) > 0 and columns == spots[0] * spots[1]
    call.require(fits, "col", f"has {columns} columns; the image has {spots[0]} x {spots[1]} windows")
    return *batch, rows // window, call["outputH"], call["outputW"]


rule(
    "aclnnCol2Im",
    only_products("A2"),
    dtypes(_HALVES, "col"),
    same_dtype("col", "out"),
    output_shape(out=_image),
)
