"""Rules of quantising into caches (part of ops-transformer/attention)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnIndexerQuantCache aclnnKvCompressEpilog",
    not_empty("cacheRef", "x", "slotMapping"),
    documented_products,
    documented_dtypes(),
    # A slot for each row of x; caches (blocks, tokens, 1, width).
    tiling(
        rank(1, 99, "x"),
        has_shape(slotMapping="x[:-1]"),
        rank(4, "cacheRef", "cacheScaleRef"),
        require("cacheRef[2] == 1", "cacheScaleRef[:3] == cacheRef[:3]"),
        on_operators("aclnnIndexerQuantCache", require("x[-1] % 32 == 0")),
        on_operators(
            "aclnnKvCompressEpilog",
            require("x[-1] > 64", "x[-1] % 64 == 0"),
            when("quantMode == 2", require("quantGroupSize in (16, 32, 64)", "(x[-1] - 64) % quantGroupSize == 0")),
        ),
    ),
)
