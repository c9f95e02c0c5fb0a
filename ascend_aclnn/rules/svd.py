"""Rules of ops-transformer/experimental/svd: factors of tall and of flat matrices."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnTsqr",
    only_products("A2 950"),
    dtypes("FLOAT", "a", "qOut", "rOut"),
    formats("ND", "a"),
    tiling(
        require("len(a) >= 2"),
        define(
            m="a[-2]",
            n="a[-1]",
            rows="blockSize or (1024 if m // 4 > 1024 else max(16, 2 * n))",
            blocks="m // rows if rows > 0 else 0",
        ),
        require("128 <= m <= 8 * 2**20", "16 <= n <= 160", "n % 8 == 0", "m >= 8 * n", argument="a"),
        require("2 * n <= rows <= m // 4", "m % rows == 0", "blocks & (blocks - 1) == 0", argument="blockSize"),
    ),
    output_shape(qOut="a", rOut="(*a[:-2], a[-1], a[-1])"),
)
rule(
    "aclnnJacobi",
    only_products("A2 950"),
    dtypes("FLOAT", "a", "uOut", "sOut", "vOut"),
    formats("ND", "a"),
    tiling(require("len(a) >= 2", "2 <= a[-2] <= a[-1]"), positive("numIterations")),
    output_shape(uOut="(*a[:-2], a[-2], a[-2])", sOut="a[:-1]", vOut="a"),
)
