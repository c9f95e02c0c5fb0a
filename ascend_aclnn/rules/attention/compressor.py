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

_SEQUENCES = tiling(
    rank(1, "cuSeqlensOptional", "sequsedOptional", "startPosOptional"),
    define(batch="x[0] if batched else sequences"),
    require("sequsedOptional[0] == batch", "startPosOptional[0] == batch"),
)
rule(
    "aclnnCompressor",
    documented_products,
    documented_dtypes(),
    *_GROUPS,
    _SEQUENCES,
    tiling(
        rank(2, 3, "x"),
        rank(3, "stateCacheRef"),
        rank(1, 2, "stateBlockTableOptional"),
        require("x[-1] > 0", "wkv[0] % coff == 0"),
        has_shape(
            wkv="(wkv[0], x[-1])",
            wgate="(wkv[0], x[-1])",
            stateCacheRef="(*stateCacheRef[:2], 2 * wkv[0])",
            ape="(cmpRatio, wkv[0])",
        ),
        require("stateBlockTableOptional[0] == batch"),
    ),
    # Outputs for the gradient: a row for each token of a group.
    infer_shape(cmpKvOut="(*groups, width)", softmaxScoreOut="kept", kvOut="kept"),
)

rule(
    "aclnnQuantCompressor",
    documented_products,
    documented_dtypes(),
    *_GROUPS,
    tiling(
        required("xDescaleOptional", "wkvDescaleOptional", "wgateDescaleOptional", "stateBlockTableOptional"),
        rank(2, 3, "x"),
        rank(2, "wkv", "wgate", "ape"),
        rank(3, "stateCacheRef"),
        rank(1, "xDescaleOptional", "wkvDescaleOptional", "wgateDescaleOptional"),
        rank(1, "cuSeqlensOptional", "sequsedOptional", "startPosOptional"),
        require("(len(x) == 2) == (cuSeqlensOptional is not None)", why="packed tokens need their ends"),
        one_of("quantMode", 1),
        one_of("coff", 1, 2),
        one_of("cacheMode", 1, 2),
        require("2 <= cmpRatio <= 128", "x[-1] % 512 == 0", "1024 <= x[-1] <= 10240"),
        require("width in (128, 512)", argument="wkv"),
        require("1 <= stateCacheRef[1] <= 1024", "stateCacheRef[-1] == 2 * wkv[0]"),
        require("wkv[1] == x[-1]", "wgate == wkv", "ape == (cmpRatio, wkv[0])"),
        has_shape(xDescaleOptional="(1,)", wkvDescaleOptional="(wkv[0],)", wgateDescaleOptional="(wkv[0],)"),
        define(batch="x[0] if batched else sequences"),
        has_shape(sequsedOptional="(batch,)", startPosOptional="(batch,)"),
        require("len(stateBlockTableOptional) == 3 - cacheMode", "stateBlockTableOptional[0] == batch"),
        when("cacheMode == 2", require("stateCacheRef[0] >= batch")),
    ),
    infer_shape(cmpKvOut="(*groups, width)"),
)

rule(
    "aclnnCompressorGrad",
    documented_products,
    documented_dtypes(),
    *_GROUPS,
    _SEQUENCES,
    tiling(
        rank(2, 3, "x"),
        require("wkv[0] % coff == 0"),
        has_shape(
            wkv="(wkv[0], x[-1])",
            wgate="(wkv[0], x[-1])",
            dCmpKv="(*groups, width)",
            softmaxScore="kept",
            kv="kept",
        ),
    ),
    infer_shape(dXOut="x", dWkvOut="wkv", dWgateOut="wgate", dApeOut="(cmpRatio, wkv[0])"),
)
