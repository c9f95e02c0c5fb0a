"""Rules of ops-math/math: operators of training and inference frameworks that fit no other group."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- segment sums

rule(
    "aclnnExpSegsum",
    same_dtype("self", "out", among=FLOATS),
    rank(3, 4, "self"),
    output_shape(out="(*self, self[-1])"),
    formats("ND", "self", "out"),
)
rule(
    "aclnnExpSegsumBackward",
    dtypes(FLOATS, "gradOutput", "gradSelf"),
    same_dtype("gradOutput", "gradInput"),
    rank(4, 5, "gradOutput"),
    require("gradOutput[-1] == gradOutput[-2]"),
    same_shape("gradOutput", "gradSelf"),
    output_shape(gradInput="gradOutput[:-1]"),
    formats("ND", "gradOutput", "gradSelf", "gradInput"),
)

# ------------------------------------------------------------------------------------------------- bias gradients
_BIAS_GRAD = (
    dtypes(FLOATS, "gradY", "out"),
    same_dtype("gradY", "out"),
    dtypes("INT32 INT64", "groupIdxOptional"),
    require("len(gradY) == (3 if groupIdxOptional is None else 2)"),
    when("groupIdxOptional is not None", rank(1, "groupIdxOptional"), require("groupIdxOptional[0] <= 2048")),
    output_shape(out="(gradY[0] if groupIdxOptional is None else groupIdxOptional[0], gradY[-1])"),
)
rule("aclnnGroupedBiasAddGrad", *_BIAS_GRAD)
rule("aclnnGroupedBiasAddGradV2", *_BIAS_GRAD, one_of("groupIdxType", 0, 1))

# ------------------------------------------------------------------------------------------------- silent errors

rule(
    "aclnnSilentCheck",
    dtypes(FLOATS, "val", "inputGradRef"),
    dtypes("FLOAT", "sfdaRef"),
    dtypes("INT64", "stepRef"),
    rank(0, "val"),
    output_shape(sfdaRef="(3,)", stepRef="(1,)"),
    infer_shape(result="(1,)"),
    output_dtype(result="INT32"),
)
rule(
    "aclnnSilentCheckV2",
    dtypes(FLOATS, "val", "max", "avgRef", "inputGradRef"),
    dtypes("INT64", "stepRef"),
    rank(1, "val", "max", "avgRef", "stepRef"),
    require("cThreshL1 > cThreshL2"),
    in_range("beta1", 0, 1),
    infer_shape(result="(1,)"),
    output_dtype(result="INT32"),
)
rule(
    "aclnnSinkhorn",
    dtypes(FLOATS_OF_PRODUCT, "cost", "p"),
    rank(2, "cost"),
    output_shape(p="cost"),
    require("cost[1] <= 4096"),
    nullable="tol",
)

# ------------------------------------------------------------------------------------------------- generated wrappers
rule(
    "aclnnAddLora",
    only_products("A2 310P"),
    dtypes("FLOAT16", "y", "x", "weightB", "weightAOptional", "out"),
    dtypes("INT32", "indices"),
    tiling(
        rank(2, "y", "x"),
        rank(4, "weightB", "weightAOptional"),
        rank(1, "indices"),
        require("x[0] == y[0]", "weightB[2] <= y[1]", "indices == (y[0],)"),
        require("weightAOptional == (*weightB[:2], weightB[3], x[1])"),
        require("0 <= layerIdx < weightB[1]", "0 <= yOffset < y[1]", "-1 <= ySliceSize <= weightB[2]"),
        require("yOffset + weightB[2] <= y[1]", argument="yOffset"),
        require("weightB[3] % 16 == 0"),
        output_shape(out="y"),
    ),
)
_HEADS = (
    rank(3, "qkv"),
    positive("numHeads"),
    require("qkv[2] % (3 * numHeads) == 0", "qkvBias == qkv[2:]"),
)
_HEAD_SHAPE = "(qkv[0], numHeads, qkv[1], qkv[2] // 3 // numHeads)"
rule(
    "aclnnTransformBiasRescaleQkv",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table("qkv qkvBias qOut kOut vOut", "T T T T T", T=FLOATS),
    tiling(*_HEADS, output_shape(qOut=_HEAD_SHAPE, kOut=_HEAD_SHAPE, vOut=_HEAD_SHAPE)),
)
