"""Rules of the experimental operators of ops-nn/index."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnDataFormatDimMap",
    only_products("950"),
    same_dtype("x", "y", among="INT32 INT64"),
    max_rank(8, "x"),
    require("1 <= len(srcFormat) <= 5", "len(dstFormat) == len(srcFormat)"),
    require("all(srcFormat.count(c) == 1 == dstFormat.count(c) for c in srcFormat)", argument="dstFormat"),
    output_shape(y="x"),
)
rule(
    "aclnnEmbeddingDenseGrad",
    only_products("310P"),
    dtypes("FLOAT FLOAT16", "grad"),
    dtypes("INT32 INT64", "indices"),
    same_dtype("grad", "y"),
    positive("numWeights"),
    require("-1 <= paddingIdx < numWeights"),
    rank(2, 8, "grad"),
    require("prod(grad[:-1]) == indices.size"),
    output_shape(y="(numWeights, grad[-1])"),
)
rule(
    "aclnnGatherElementsV3",
    only_products("A2"),
    dtypes("BF16 FLOAT16 FLOAT INT32", "x"),
    dtypes("INT32", "index"),
    same_dtype("x", "out"),
    max_rank(8, "x"),
    valid_axis("dim", "x"),
    require("len(index) == len(x)"),
    require("all(n <= m for i, (n, m) in enumerate(zip(index, x)) if i != dim % len(x))", argument="index"),
    output_shape(out="index"),
)

rule(
    "aclnnScatterupdateV2",
    only_products("A2"),
    same_dtype("input", "updates", "out", among="FLOAT INT32 UINT32 INT64 UINT64 FLOAT16 INT16 UINT16 BF16 INT8 UINT8"),
    dtypes("INT32", "indices"),
    require("len(input) >= 1", "len(updates) >= 1", "updates[0] == indices.size", "updates[1:] == input[1:]"),
    output_shape(out="input"),
)
