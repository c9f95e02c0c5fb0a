"""Rules of quantising in blocks of rows and columns that share a scale."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_GROUPED = "aclnnGroupedDynamicBlockQuant aclnnGroupedDynamicBlockQuantV2"
_PLAIN = "aclnnDynamicBlockQuant aclnnDynamicBlockQuantV2"

rule(
    f"{_PLAIN} {_GROUPED}",
    documented_products,
    documented_dtypes(),
    tiling(
        rank(2, 3, "x"),
        positive("rowBlockSize", "colBlockSize"),
        output_shape(yOut="x"),
        on_operators(
            _PLAIN,
            output_shape(
                scaleOut="(*x[:-2], ceil_div(x[-2], max(rowBlockSize, 1)), ceil_div(x[-1], max(colBlockSize, 1)))"
            ),
        ),
        # Each of the groups may leave a part of a block.
        on_operators(
            _GROUPED,
            rank(1, "groupList"),
            output_shape(
                scaleOut="(*x[:-2], x[-2] // max(rowBlockSize, 1) + groupList[0], ceil_div(x[-1], max(colBlockSize, 1)))",
            ),
        ),
        has_dtype("yOut", "dstType"),
        on_operators(
            _GROUPED,
            one_of("groupListType", 0),
            one_of("rowBlockSize", 1, 128, 256, 512),
            one_of("colBlockSize", 64, 128, 192, 256),
            not_negative("minScale"),
            not_empty("groupList"),
        ),
    ),
    output_dtype(scaleOut="FLOAT"),
)

# Two bytes of the norm follow the packed halves, and zeros fill the slot up to a multiple of 64 bytes.
rule(
    "aclnnTurboQuantCompressLatent",
    only_products("A2 A3"),
    dtypes("FLOAT", "latent", "centroids"),
    dtypes("UINT8", "out"),
    formats("ND", "latent", "centroids", "out"),
    rank(2, "latent"),
    require("latent[1] == 512", "centroids.size == 16"),
    output_shape(out="(latent[0], ceil_div(latent[1] // 2 + 2, 64) * 64)"),
    output_dtype(out="UINT8"),
)
