"""Rules of attention within windows of images (part of ops-transformer/attention)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnSwinAttentionScoreQuant",
    documented_products,
    documented_dtypes(),
    tiling(
        rank(4, "query"),
        require("1 <= query[2] <= 1024", "query[3] in (32, 64)"),
        same_shape("query", "key", "value"),
        has_shape(
            paddingMask1Optional="(1, query[1], query[2], query[2])",
            **dict.fromkeys(
                ("scaleQuant", "scaleDequant1", "biasQuantOptional", "biasDequant1Optional"), "(1, query[2])"
            ),
            **dict.fromkeys(("scaleDequant2", "biasDequant2Optional"), "(1, query[3])"),
        ),
    ),
    infer_shape(out="query"),
)
