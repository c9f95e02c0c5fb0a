"""Rules of the contributed operators of ops-transformer/moe: a feed-forward layer of experts with weights of 4 bits."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnMoeFFN",
    only_products("A2"),
    same_dtype("x", "weightScale13", "weightScale2", "topkWeightsOptional", "out", among=HALVES),
    dtypes("INT32", "quantizedWeight13", "quantizedWeight2"),
    dtypes("INT32", "expandedExpertIdxOptional", "sortedRowIdxOptional", "expandedRowIdxOptional"),
    dtypes("FLOAT16", "weightOffset13Optional", "weightOffset2Optional"),
    tiling(
        positive("scaleGroupSize", "topk"),
        multiple_of(32, "scaleGroupSize"),
        rank(2, "x"),
        rank(5, "quantizedWeight13", "quantizedWeight2"),
        require("x[1] % scaleGroupSize == 0"),
        required("expandedExpertIdxOptional", "sortedRowIdxOptional", "expandedRowIdxOptional", "topkWeightsOptional"),
        define(experts="quantizedWeight13[0]", wide="quantizedWeight13[2] * 16", inner="quantizedWeight13[2] * 8"),
        has_shape(
            quantizedWeight13="(experts, x[1] // 16, wide // 16, 16, 2)",
            quantizedWeight2="(experts, inner // 16, x[1] // 16, 16, 2)",
            weightScale13="(experts, x[1] // scaleGroupSize, wide)",
            weightScale2="(experts, inner // scaleGroupSize, x[1])",
            weightOffset13Optional="weightScale13",
            weightOffset2Optional="weightScale2",
            expandedExpertIdxOptional="(x[0] * topk,)",
            sortedRowIdxOptional="(x[0] * topk,)",
            expandedRowIdxOptional="(x[0], topk)",
            topkWeightsOptional="(x[0], topk)",
        ),
        require("experts <= 384"),
    ),
    output_shape(out="x"),
)
