"""Rules of causal convolutions along sequences (part of ops-transformer/attention)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

# One number for each sequence: packed tokens (tokens, channels) say where each begins.
_BY_SEQUENCE = (
    "initialStateMode",
    "numAcceptedTokens",
    "numComputedTokens",
    "blockIdxFirstScheduledToken",
    "blockIdxLastScheduledToken",
    "initialStateIdx",
)
rule(
    "aclnnFusedCausalConv1d aclnnInplaceFusedCausalConv1d",
    documented_products,
    documented_dtypes(),
    tiling(
        rank(2, 3, "x"),
        rank(2, "weight"),
        rank(3, "convStates"),
        require("weight[0] > 0", "weight[1] == x[-1]", "convStates[2] == x[-1]", "convStates[1] >= weight[0] - 1"),
        rank(1, "queryStartLoc"),
        define(batch="x[0] if len(x) == 3 else queryStartLoc[0] - 1"),
        require("queryStartLoc[0] == batch + 1"),
        rank(1, 2, "cacheIndices"),
        require("cacheIndices[0] == batch"),
        has_shape(**dict.fromkeys(_BY_SEQUENCE, "(batch,)")),
    ),
    infer_shape(y="x"),
)

rule(
    "aclnnMaskedCausalConv1d",
    documented_products,
    documented_dtypes(),
    tiling(shape_patterns(x="s b h", weight="w h", maskOptional="b s")),
    infer_shape(out="x"),
)

rule(
    "aclnnMaskedCausalConv1dBackward",
    documented_products,
    documented_dtypes(),
    tiling(shape_patterns(gradY="s b h", x="s b h", weight="w h", maskOptional="b s")),
    infer_shape(gradXOut="x", gradWeightOut="weight"),
)
