"""Rules of rotary embeddings that write keys and values into caches."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnDequantRopeQuantKvcache",
    documented_products,
    documented_dtypes(),
    define(
        width="kCacheRef[3]",
        queries="(*x[:-1], sizeSplits[0] // width if width else 0, width)",
        keys="(*x[:-1], kCacheRef[2], width) if kvOutput else (0,)",
    ),
    tiling(
        rank(2, 3, "x"),
        rank(4, "kCacheRef"),
        array_length("sizeSplits", 3),
        not_negative("sizeSplits"),
        require("sizeSplits[1] == sizeSplits[2]", "x[-1] == sum(sizeSplits)", "sizeSplits[0] % kCacheRef[3] == 0"),
        require("kCacheRef[2] * kCacheRef[3] == sizeSplits[1]", "kCacheRef[3] % 16 == 0"),
        define(paged="cacheModeOptional is not None and cacheModeOptional.lower() == 'page'", tokens="prod(x[:-1])"),
        has_shape(
            cos="(*x[:-1], 1, width) if len(x) == 3 else (x[0], width)",
            sin="(*x[:-1], 1, width) if len(x) == 3 else (x[0], width)",
            vCacheRef="kCacheRef",
            indices="(tokens,) if paged else (x[0],)",
        ),
        when("not paged", require("vCacheRef[0] >= x[0]")),
        # A factor for each element of a token's keys or values, in any shape.
        require(
            *(f"{name}.size == sizeSplits[1]" for name in ("scaleK", "scaleV", "offsetKOptional", "offsetVOptional"))
        ),
        require("weightScaleOptional.size == x[-1]", "biasOptional.size == x[-1]"),
        require("activationScaleOptional.size == tokens"),
        output_shape(qOut="queries", kOut="keys", vOut="keys"),
    ),
    output_dtype(qOut="cos", kOut="cos", vOut="cos"),
)

# A joined kv is the latent, as wide as gamma, and the rotated part; with values of its own kv is as wide as gamma.
rule(
    "aclnnKvRmsNormRopeCache aclnnKvRmsNormRopeCacheV2",
    documented_products,
    documented_dtypes(),
    define(
        key_rope="kv if vOptional is not None else (*kv[:-1], cos[-1])",
        latent="vOptional if vOptional is not None else (*kv[:-1], gamma[-1])",
    ),
    tiling(
        rank(4, "kv", "cos", "sin", "kCacheRef", "ckvCacheRef", "vOptional"),
        when("isOutputKv", output_shape(kRopeOut="key_rope", cKvOut="latent")),
        one_of("cacheModeOptional", "Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ", ""),
        rank(1, "gamma"),
        same_shape("cos", "sin"),
        require("cos[-1] % 2 == 0", "cos[-1] <= kv[-1]", "cos[2] == kv[2]"),
        require("cos[0] == 1 or cos[0] == kv[0]", "cos[1] == 1 or cos[1] == kv[1]"),
        when("vOptional is None", require("kv[1] == 1", "kv[-1] == gamma[0] + cos[-1]")),
        when("vOptional is not None", require("kv[-1] == gamma[0]", "vOptional[:-1] == kv[:-1]")),
        # (batch, heads, tokens, width), where batches and heads may be cut otherwise; or pages (pages, tokens, heads, width).
        when(
            "cacheModeOptional is None or cacheModeOptional in ('', 'Norm')",
            require(*(f"{name}[0] * {name}[1] >= kv[0] * kv[1]" for name in ("kCacheRef", "ckvCacheRef"))),
            require("ckvCacheRef[2] == kCacheRef[2]", "index.size == kv[0] * kv[2]"),
        ),
        when(
            "cacheModeOptional is not None and cacheModeOptional.startswith('PA')",
            require("kCacheRef[2] == kv[1]", "ckvCacheRef[2] == kv[1]"),
            # A slot for each token, or for each page of a sequence.
            when("'BLK' not in cacheModeOptional", require("index.size == kv[0] * kv[2]"), word="rows"),
            when("'BLK' in cacheModeOptional", require("index.size == kv[0] * ceil_div(kv[2], kCacheRef[1])")),
        ),
        require("kCacheRef[-1] == key_rope[-1]", "ckvCacheRef[-1] == latent[-1]"),
        *(
            require(f"{name} in ((kv[1], {width}), (1, {width}), ({width},), (1,))", argument=name)
            for kind in ("Scale", "Offset")
            for name, width in ((f"kRope{kind}Optional", "key_rope[-1]"), (f"cKv{kind}Optional", "latent[-1]"))
        ),
    ),
    infer_shape(kRopeOut="key_rope", cKvOut="latent"),
)
rule(
    "aclnnQkvRmsNormRopeCache",
    documented_products,
    documented_dtypes(),
    array_length("headNums", 3),
    define(width="qkv[-1] // max(sum(headNums), 1)"),
    tiling(
        require("len(qkv) == 2", "all(n > 0 for n in headNums)", "qkv[-1] == width * sum(headNums)", "width % 2 == 0"),
        has_shape(
            qGamma="(width,)",
            kGamma="(width,)",
            cos="(qkv[0], width)",
            sin="(qkv[0], width)",
            index="(qkv[0],)",
            qOut="(qkv[0], headNums[0] * width)",
            kScaleOptional="(headNums[1], width)",
            vScaleOptional="(headNums[2], width)",
            kOffsetOptional="(headNums[1], width)",
            vOffsetOptional="(headNums[2], width)",
        ),
        rank(4, "kCache", "vCache"),
        require("kCache[1] * kCache[3] == headNums[1] * width", "vCache[1] * vCache[3] == headNums[2] * width"),
    ),
    infer_shape(qOutBeforeQuant="None", kOutBeforeQuant="None", vOutBeforeQuant="None"),
)
# Queries are quantised for each token and head unless the mode says otherwise.
rule(
    "aclnnQkvRmsNormRopeCacheWithKScale",
    not_empty("qkv", "qGamma", "kGamma", "cosSin", "slotMapping", "kCacheRef", "vCacheRef", "kScaleCacheRef"),
    not_empty(
        "queryStartLocOptional", "seqLensOptional", "rotationOptional", "vScaleOptional", "mropePositionOptional"
    ),
    one_of("qQuantMode", "PerTokenPerHead", "NoQuant", ""),
    one_of("layoutQkv", "TND", "NTD", ""),
    one_of("layoutQOut", "TND", "NTD", ""),
    array_length("headNums", 3),
    documented_dtypes(),
    documented_products,
    tiling(rank(2, 3, "qkv")),
    define(
        plain="qQuantMode is not None and qQuantMode == 'NoQuant'",
        heads_first="len(qkv) == 3 and layoutQkv is not None and layoutQkv == 'NTD'",
        tokens="qkv[1] if heads_first else qkv[0]",
        width="qkv[1] // max(sum(headNums), 1) if len(qkv) == 2 else qkv[2]",
        queries="(headNums[0], tokens, width) if layoutQOut is not None and layoutQOut == 'NTD' "
        "else (tokens, headNums[0], width)",
    ),
    tiling(
        require("len(qkv) == 3", "all(n > 0 for n in headNums)"),
        has_shape(
            qkv="(sum(headNums), tokens, width) if heads_first else (tokens, sum(headNums), width)",
            qGamma="(width,)",
            kGamma="(width,)",
            cosSin="(cosSin[0], width)",
            slotMapping="(tokens,)",
            rotationOptional="(width, width)",
        ),
        require("width % 2 == 0"),
        rank(1, "queryStartLocOptional", "seqLensOptional"),
        require("seqLensOptional[0] == queryStartLocOptional[0] - 1"),
        rank(4, "kCacheRef"),
        has_shape(
            kCacheRef="(kCacheRef[0], headNums[1], kCacheRef[2], width)",
            vCacheRef="(kCacheRef[0], headNums[2], kCacheRef[2], width)",
            kScaleCacheRef="(kCacheRef[0], headNums[1], kCacheRef[2], 1)",
            mropePositionOptional="(tokens, 3)",
            vScaleOptional="(headNums[2],) if mropePositionOptional is None else (headNums[2], width)",
        ),
    ),
    infer_shape(qOut="queries", qScaleOptional="None if plain else queries[:-1]"),
    output_dtype(qOut="qkv.dtype if plain else kCacheRef.dtype", qScaleOptional="FLOAT"),
    nullable="layoutQkv layoutQOut qQuantMode",
)
rule(
    "aclnnUndGenQkvRmsNormRopeCache",
    when("genQkvOptional is not None", required("genWeightsQOptional", "genWeightsKOptional")),
    not_empty(
        "undQkv", "undWeightsQ", "undWeightsK", "cosSinCache", "kCacheRef", "vCacheRef", "slotMapping", "positions"
    ),
    contiguous("kCacheRef", "vCacheRef"),
    documented_dtypes(),
    documented_products,
    tiling(
        rank(3, "undQkv"),
        rank(4, "kCacheRef"),
        define(width="undQkv[2]", tokens="undQkv[0] + (genQkvOptional[0] if genQkvOptional is not None else 0)"),
        positive("numHeadsQ", "numHeadsK", "numHeadsV"),
        require("undQkv[1] == numHeadsQ + numHeadsK + numHeadsV", "width % 2 == 0"),
        has_shape(
            undWeightsQ="(width,)",
            undWeightsK="(width,)",
            genQkvOptional="(genQkvOptional[0], *undQkv[1:])",
            genWeightsQOptional="(width,)",
            genWeightsKOptional="(width,)",
            cosSinCache="(cosSinCache[0], width)",
            kCacheRef="(*kCacheRef[:2], numHeadsK, width)",
            vCacheRef="(*kCacheRef[:2], numHeadsV, width)",
            slotMapping="(tokens,)",
            positions="(3, tokens)",
            catIndicesOptional="(tokens,)",
        ),
    ),
    infer_shape(
        qOut="(undQkv[0] + (genQkvOptional[0] if genQkvOptional is not None else 0), numHeadsQ, undQkv[-1])",
    ),
)
