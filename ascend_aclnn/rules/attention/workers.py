"""Rules of attention ranks whose experts are on other ranks."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnAttentionWorkerCombine",
    documented_products,
    documented_dtypes(),
    tiling(
        rank(2, "expertScales"),
        require("expertScales[0] > 0", "0 < expertScales[1] <= 64", "hiddenSize > 0"),
        one_of("tokenDtype", 0, 1),
    ),
    infer_shape(y="(expertScales[0], hiddenSize)", nextLayerId="layerId"),
    output_dtype(y="BF16 if tokenDtype == 1 else FLOAT16", nextLayerId="INT32"),
)
rule(
    "aclnnInplaceAttentionWorkerScheduler",
    not_empty("scheduleContextRef"),
    rank(1, "scheduleContextRef"),
    documented_products,
    documented_dtypes(),
)
