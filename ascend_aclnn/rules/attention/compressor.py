"""Rules of compressing keys into groups, and of its gradient (part of ops-transformer/attention)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

# How many compressed tokens there may be, by batch or (packed sequences) in all, and how wide they are.
_GROUPS = (
    tiling(positive("cmpRatio", "coff")),
    define(
        batched="len(x) == 3",
        sequences="cuSeqlensOptional[0] - 1",
        groups="(x[0], ceil_div(x[1], cmpRatio)) if batched else (min(x[0], x[0] // cmpRatio + sequences),)",
        width="wkv[0] // coff",
        kept="(*groups, coff * cmpRatio, width)",
    ),
)

rule(
    "aclnnCompressor",
    documented_products,
    documented_dtypes(),
    *_GROUPS,
    # What the gradient needs: a row for each token of a group.
    infer_shape(cmpKvOut="(*groups, width)", softmaxScoreOut="kept", kvOut="kept"),
)

rule(
    "aclnnQuantCompressor", documented_products, documented_dtypes(), *_GROUPS, infer_shape(cmpKvOut="(*groups, width)")
)

rule(
    "aclnnCompressorGrad",
    documented_products,
    documented_dtypes(),
    infer_shape(dXOut="x", dWkvOut="wkv", dWgateOut="wgate", dApeOut="(cmpRatio, wkv[0])"),
)
