"""Rules of the experimental operators of ops-math/conversion."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_MOVED = "INT64 UINT64 INT32 UINT32 FLOAT FLOAT16 INT8 UINT8 BF16 INT16 UINT16 BOOL"
rule(
    "aclnnAsStrided",
    only_products("A2"),
    same_dtype("x", "out", among=f"{_MOVED} COMPLEX32 COMPLEX64 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN"),
    require("1 <= len(size) <= 8", "len(stride) == len(size)", "len(storageOffset) == 1"),
    not_negative("size", "stride", "storageOffset"),
    define(last="storageOffset[0] + sum((n - 1) * step for n, step in zip(size, stride))"),
    require("0 in size or last < x.size", argument="stride", why="x counts as stored without gaps"),
    output_shape(out="size"),
)
rule(
    "aclnnTensorMove",
    only_products("A2"),
    same_dtype("x", "y", among=f"{_MOVED} DOUBLE"),
    output_shape(y="x"),
)
rule(
    "aclnnFillV2",
    only_products("A2"),
    same_dtype("xRef", "fillValue", among=f"{FLOATS_WITHOUT_BF16} INT16 INT32 BF16"),
    require("fillValue.size == 1"),
)
rule(
    "aclnnOnehot",
    only_products("A2"),
    dtypes("INT32", "x", "out"),
    max_rank(7, "x"),
    positive("depth"),
    output_shape(out="(*x, depth)"),
)
rule(
    "aclnnPackV2",
    only_products("A2"),
    same_dtype("x", "y", "out", among=f"{FLOATS_WITHOUT_BF16} INT32 INT16"),
    same_shape("x", "y"),
    require("-len(x) - 1 <= d <= len(x)"),
    define(axis="d % (len(x) + 1)"),
    output_shape(out="(*x[:axis], 2, *x[axis:])"),
)
rule(
    "aclnnSliceV3",
    only_products("A2"),
    same_dtype("x", "out", among=_MOVED),
    max_rank(8, "x"),
    require("len(begin) == len(x)", "len(size) == len(x)"),
    not_negative("begin", "size"),
    require("all(b + n <= m for b, n, m in zip(begin, size, x))", argument="size"),
    output_shape(out="size"),
)


# The order of the axes is data, so the shape of the result is that of out=.
rule(
    "aclnnTransposev",
    only_products("A2"),
    dtypes(_MOVED, "x"),
    dtypes("INT32 INT64", "perm"),
    same_dtype("x", "out"),
    rank(1, "perm"),
    require("perm[0] == len(x)", "len(out) == len(x)", "out.size == x.size"),
)
rule(
    "aclnnIm2Col",
    only_products("A2"),
    same_dtype("x", "out", among=FLOATS_WITHOUT_BF16),
    rank(3, 4, "x"),
    positive("kernelH", "kernelW", "strideH", "strideW", "dilationH", "dilationW"),
    not_negative("padH", "padW"),
    define(rows="(x[-2] + 2 * padH - dilationH * (kernelH - 1) - 1) // strideH + 1"),
    define(columns="(x[-1] + 2 * padW - dilationW * (kernelW - 1) - 1) // strideW + 1"),
    require("rows > 0", "columns > 0", argument="x"),
    output_shape(out="(*x[:-3], x[-3] * kernelH * kernelW, rows * columns)"),
)
rule(
    "aclnnCol2Im",
    only_products("A2"),
    same_dtype("col", "out", among=FLOATS_WITHOUT_BF16),
    rank(2, 3, "col"),
    positive("outputH", "outputW", "kernelH", "kernelW", "strideVal", "dilationVal"),
    not_negative("paddingVal"),
    require("col[-2] % (kernelH * kernelW) == 0"),
    define(rows="(outputH + 2 * paddingVal - dilationVal * (kernelH - 1) - 1) // strideVal + 1"),
    define(columns="(outputW + 2 * paddingVal - dilationVal * (kernelW - 1) - 1) // strideVal + 1"),
    require("rows > 0", "columns > 0", argument="col"),
    require("col[-1] == rows * columns"),
    output_shape(out="(*col[:-2], col[-2] // (kernelH * kernelW), outputH, outputW)"),
)

rule(
    "aclnnConcatV2",
    only_products("A2"),
    same_dtype("x1", "x2", "out", among=f"{FLOATS_WITHOUT_BF16} INT32 INT16"),
    require("len(x2) == len(x1)", "0 <= d < len(x1)"),
    require("x2[:d] == x1[:d]", "x2[d + 1:] == x1[d + 1:]"),
    output_shape(out="(*x1[:d], x1[d] + x2[d], *x1[d + 1:])"),
)
# pad0 and pad1 are about the first axis, pad2 and pad3 about the second: so many elements before and behind.
rule(
    "aclnnPadV2",
    only_products("A2"),
    same_dtype("x", "out", among=f"{FLOATS_WITHOUT_BF16} INT32 INT16"),
    rank(1, 4, "x"),
    not_negative(*(f"pad{number}" for number in range(8))),
    define(pads="((pad0, pad1), (pad2, pad3), (pad4, pad5), (pad6, pad7))"),
    output_shape(out="tuple(n + sum(pads[axis]) for axis, n in enumerate(x))"),
)
rule(
    "aclnnSplit",
    only_products("A2"),
    same_dtype("x", "out", among="FLOAT INT32"),
    require("-len(x) <= axis < len(x)", "1 <= len(indicesOrSections) <= 10", "0 not in indicesOrSections"),
    define(
        length="x[axis]",
        ends="indicesOrSections if len(indicesOrSections) > 1 else "
        "tuple(length * part // indicesOrSections[0] for part in range(1, indicesOrSections[0]))",
    ),
    when(
        "len(indicesOrSections) == 1",
        require("length % indicesOrSections[0] == 0", argument="indicesOrSections"),
        word="equal",
    ),
    when(
        "len(indicesOrSections) > 1",
        require("all(a <= b for a, b in zip((0, *ends), (*ends, length)))", argument="indicesOrSections"),
        word="places",
    ),
    output_shape(
        out="[(*x[:axis % len(x)], b - a, *x[axis % len(x) + 1:]) for a, b in zip((0, *ends), (*ends, length))]"
    ),
)

rule(
    "aclnnBroadcastV2",
    only_products("A2"),
    same_dtype("x", "out", among=FLOATS_WITHOUT_BF16),
    tiling(rank(1, 2, "x"), require("dim == len(x)", "0 <= axis < len(x)", "num > 0")),
    output_shape(out="tuple(n * num if i == axis else n for i, n in enumerate(x))"),
)
_VIEW = ("size", "stride", "storage_offset")
rule(
    "aclnnViewCopy",
    only_products("A2"),
    same_dtype("dst", "src", "dst_out", among=_MOVED.replace("UINT64 ", "")),
    same_dtype(*(f"{side}_{part}" for part in _VIEW for side in ("dst", "src")), among="INT32 INT64"),
    max_rank(8, "dst", "dst_out"),
    require("1 <= dst_size.size <= 8"),
    *(require(f"{name}.size == dst_size.size") for name in ("dst_stride", "src_size", "src_stride")),
    require("dst_storage_offset.size == 1", "src_storage_offset.size == 1"),
    output_shape(dst_out="dst"),
)
