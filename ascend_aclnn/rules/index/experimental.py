"""Rules of the experimental operators of ops-nn/index."""

from __future__ import annotations

from ascend_aclnn.rules.language import (
    Call,
    Shape,
    dtype_of,
    dtypes,
    max_rank,
    only_products,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    shape_of,
    valid_axis,
)


def _permuted_letters(call: Call) -> None:
    source, target = call["srcFormat"], call["dstFormat"]
    fits = 1 <= len(source) <= 5 and len(set(source)) == len(source) and sorted(source) == sorted(target)
    call.require(fits, "dstFormat", f"is {target!r}; it must have the letters of {source!r} in another order")


rule(
    "aclnnDataFormatDimMap",
    only_products("950"),
    dtypes("INT32 INT64", "x"),
    same_dtype("x", "y"),
    max_rank(8, "x"),
    _permuted_letters,
    output_shape(y=shape_of("x")),
)


def _table(call: Call) -> Shape:
    weights, padding, rows = call["numWeights"], call["paddingIdx"], call["indices"].size
    call.require(weights > 0, "numWeights", f"is {weights}; it must be positive")
    call.require(-1 <= padding < weights, "paddingIdx", f"is {padding}; it must be in [-1, {weights - 1}]")
    rank(2, 8, "grad")(call)
    came = call["grad"].size // max(call.size("grad", -1), 1)
    call.require(came == rows or not call["grad"].size, "grad", f"has {came} rows; there are {rows} indices")
    return weights, call.size("grad", -1)


rule(
    "aclnnEmbeddingDenseGrad",
    only_products("310P"),
    dtypes("FLOAT FLOAT16", "grad"),
    dtypes("INT32 INT64", "indices"),
    same_dtype("grad", "y"),
    output_shape(y=_table),
)


def _no_axis_exceeds(call: Call) -> None:
    valid_axis("dim", "x")(call)
    sizes, index = call.shape("x"), call.shape("index")
    call.require(len(index) == len(sizes), "index", f"has rank {len(index)}; it must be {len(sizes)}, as x")
    axis = call["dim"] % max(len(sizes), 1)
    fits = all(n <= m for i, (n, m) in enumerate(zip(index, sizes)) if i != axis)
    call.require(fits, "index", f"has shape {index}; but for axis {axis} it must lie within {sizes}")


rule(
    "aclnnGatherElementsV3",
    only_products("A2"),
    dtypes("BF16 FLOAT16 FLOAT INT32", "x"),
    dtypes("INT32", "index"),
    same_dtype("x", "out"),
    max_rank(8, "x"),
    _no_axis_exceeds,
    output_shape(out=shape_of("index")),
    output_dtype(out=dtype_of("x")),
)
