"""Rules of the experimental norms."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnBatchNormalizationGrad",
    only_products("A2"),
    dtypes(FLOATS, "input"),
    same_dtype("input", "gradOutput", "weight", "bias", "saveMean", "saveInvstd", "gradInputOut"),
    same_shape("input", "gradOutput"),
    rank(2, 8, "input"),
    has_shape(weight="(input[1],)", bias="(input[1],)", saveMean="(input[1],)", saveInvstd="(input[1],)"),
    output_shape(gradInputOut="input", gradWeightOut="weight", gradBiasOut="weight"),
)
rule(
    "aclnnBnInferGrad",
    only_products("A2"),
    dtypes(FLOATS, "grads"),
    dtypes("FLOAT", "scale", "batchVariance"),
    same_dtype("grads", "out"),
    one_of("formatMode", 0, 1),
    rank(4, "grads"),
    define(channels="grads[1] if formatMode == 0 else grads[-1]"),
    has_shape(scale="(channels,)", batchVariance="(channels,)"),
    output_shape(out="grads"),
)
rule(
    "aclnnFusedAddRmsNorm",
    only_products("A2 A3 950"),
    dtypes(FLOATS, "x1"),
    same_dtype("x1", "x2", "gamma", "yOut", "xOut"),
    dtypes("FLOAT", "rstdOut"),
    same_shape("x1", "x2"),
    require("1 <= len(gamma) <= len(x1)", "gamma == x1[len(x1) - len(gamma) :]"),
    output_shape(yOut="x1", rstdOut="(*x1[: len(x1) - len(gamma)], *(1 for n in gamma))", xOut="x1"),
)
rule(
    "aclnnGroupNormalizationGrad",
    only_products("A2"),
    dtypes(FLOATS, "x"),
    same_dtype("x", "dy", "gamma", "mean", "rstd", "dx"),
    rank(3, "x"),
    same_shape("x", "dy", "gamma"),
    shape_patterns(x="n g m", mean="n g", rstd="n g", dx="n g m"),
)
rule(
    "aclnnLayerNormalizationGrad",
    only_products("A2"),
    dtypes(FLOATS, "dy"),
    same_dtype("dy", "x", "gamma", "mean", "rstd", "dxOut", "dgammaOut", "dbetaOut"),
    shape_patterns(dy="* d", x="* d", gamma="d", mean="*", rstd="*", dxOut="* d", dgammaOut="d", dbetaOut="d"),
)
elementwise(
    "LpNormV3",
    "A2",
    FLOATS_WITHOUT_BF16,
    "x",
    "out",
    rank(2, "x"),
    one_of("axis", 0, 1, 2),
    positive("p"),
)
rule(
    "aclnnSyncBnTrainingUpdateV2",
    only_products("A2"),
    dtypes("FLOAT", "x1", "x2", "x3", "y1Out", "y2Out", "y3Out"),
    rank(4, "x1"),
    has_shape(x2="(x1[1],)", x3="(x1[1],)"),
    output_shape(y1Out="x1", y2Out="x2", y3Out="x3"),
)
