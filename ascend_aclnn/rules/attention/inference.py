"""Rules of attention for inference: prompts, single tokens, both (FusedInfer), and the preparation of latent heads (Mla)."""

from __future__ import annotations

from ascend_aclnn.core.errors import RUNTIME_ERROR
from ascend_aclnn.rules.language import *


def _runs_on(products: str) -> Check:
    """Elsewhere the operator's kernel is missing."""
    return with_status(RUNTIME_ERROR, only_products(products))


def _sizes(layout: str, *allowed: str) -> Check:
    """The query's sizes by letter. A layout "BNSD_BSND" names those of the query and of the result."""
    return define(
        layouts=f"known({layout}, *{allowed})",
        layout="layouts.partition('_')[0]",
        resultLayout="layouts.partition('_')[2] or layout",
        q="by_letter(query, layout, numHeads)",
        # 0 key heads mean as many as there are of the query.
        keyHeads="numKeyValueHeads or numHeads",
    )


# Heads without width are as wide as the query's.
_RESULT = define(result="arranged(resultLayout, q, width if width != 0 and q.D != 0 else q.D)")


# A scale for the result makes it INT8; else it is as the query, or as the rotated part beside an 8-bit query.
_OTHERWISE = "INT8 if quantScale2 is not None else query.dtype if query.dtype in FLOATS else "
_SCALE_ALIAS = {"quantScale2": "quantScale2Optional", "blockTable": "blockTableOptional"}

# --------------------------------------------------------------------------------------------------- prompts

rule(
    "aclnnPromptFlashAttention aclnnPromptFlashAttentionV2 aclnnPromptFlashAttentionV3",
    _sizes("inputLayout", "SH", "BSH", "NSD", "BNSD", "BSND", "BNSD_BSND", "TND", "NTD"),
    define(width="by_letter(value, layout, keyHeads).D"),
    _RESULT,
    unless_empty(
        "attentionOut",
        _runs_on("A2 A3 310P"),
        same_dtype("query", "key", "value", among=f"{HALVES} INT8"),
        # The first version does not pass the shift on.
        on_operators(
            "aclnnPromptFlashAttentionV2 aclnnPromptFlashAttentionV3",
            has_dtype("pseShift", "BF16 if query.dtype == BF16 else FLOAT16"),
        ),
        dtype_table("query attentionOut", "T T", "INT8 FLOAT16", "FLOAT16/BF16 INT8", T=f"{HALVES} INT8"),
        dtypes("FLOAT16 INT8 UINT8 BOOL", "attenMask"),
        require("query.dtype != INT8 or attenMask.dtype != FLOAT16", argument="attenMask"),
        require("numHeads > 0"),
        require("len(key) == len(layout)"),
        require("q.D <= 512", "width <= 512"),
        tiling(
            require("by_letter(key, layout, keyHeads).D == q.D", "value[:-1] == key[:-1]"),
            when("'B' in layout", require("by_letter(key, layout).B == q.B", argument="key")),
        ),
        require("q.D <= width or attentionOut.dtype != INT8", argument="attentionOut"),
        when(
            "q.D % (32 if INT8 in (query.dtype, attentionOut.dtype) else 16) != 0 or q.D > width",
            no_private_format("query", "key", "value", "attentionOut"),
        ),
        output_shape(attentionOut="result"),
    ),
    output_dtype(attentionOut=_OTHERWISE + "FLOAT16"),
    aliases=_SCALE_ALIAS,
)

# Queries divide into their heads; keys and values, unless they are paged, lie in the same layout. INT32 packs eight numbers.
_KEYS_FIT = (
    require("q.H % numHeads == 0"),
    *(
        when(
            "blockTable is not None",
            require(f"all(len(x) in (3, 4, 5) for x in {name})"),
            require(f"all(len(x) > 3 or x[-1] * 8 % max(keyHeads, 1) == 0 for x in {name})"),
        )
        for name in ("key", "value")
    ),
    *(
        when(
            "blockTable is None",
            require(f"all(len(x) == len(layout) for x in {name})"),
            when(
                "'H' in layout",
                require(f"all(x[-1] * (8 if x.dtype == INT32 else 1) % max(keyHeads, 1) == 0 for x in {name})"),
            ),
        )
        for name in ("key", "value")
    ),
    when(
        "blockTable is None",
        define(keyWidths="tuple(by_letter(x, layout, keyHeads).D * (8 if x.dtype == INT32 else 1) for x in key)"),
        require("all(width == q.D for width in keyWidths)", argument="key"),
        require("all(v[:-1] == k[:-1] for v, k in zip(value, key))"),
    ),
)

# --------------------------------------------------------------------------------------------------- single tokens

rule(
    "aclnnIncreFlashAttention aclnnIncreFlashAttentionV2 aclnnIncreFlashAttentionV3 aclnnIncreFlashAttentionV4",
    _sizes("inputLayout", "SH", "BSH", "NSD", "BNSD", "BSND"),
    _runs_on("A2 A3 310P"),
    dtypes(HALVES, "query"),
    dtypes(f"{HALVES} INT8", "key", "value", "attentionOut"),
    tiling(
        require("len(query) == len(layout)"),
        rank(4, "pseShift"),
        require("numHeads > 0", "numKeyValueHeads >= 0"),
        require("numKeyValueHeads == 0 or numHeads % numKeyValueHeads == 0"),
        *_KEYS_FIT,
        require("len(value) == len(key)", "all(v == k for v, k in zip(value, key))"),
        # ProcessPageAttentionFlag of CANN's tiling, which a shortened path (innerPrecise 2) does without.
        when(
            "blockTable is not None and layout != 'BNSD' and innerPrecise != 2",
            require("all(len(x) == 3 for x in key)", "all(len(x) == 3 for x in value)"),
        ),
        output_shape(attentionOut="query"),
    ),
    output_dtype(attentionOut=_OTHERWISE + "FLOAT16"),
    nullable="attenMask actualSeqLengths",
    aliases={"blockTable": "blocktable"},
)

# --------------------------------------------------------------------------------------------------- both

rule(
    "aclnnFusedInferAttentionScore aclnnFusedInferAttentionScoreV2 aclnnFusedInferAttentionScoreV3"
    " aclnnFusedInferAttentionScoreV4 aclnnFusedInferAttentionScoreV5",
    _sizes(
        "inputLayout or 'BSH'",
        *("BSH", "BSND", "BNSD", "TND", "NTD", "NSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "NTD_TND", "BSH_NBSD"),
        *("BSND_NBSD", "BNSD_NBSD", "TND_NTD"),
    ),
    _RESULT,
    # Values are paged (with a block table) or in the query's layout.
    define(
        paged="'BSH' if len(value[0]) == 3 else 'BNSD' if len(value[0]) == 4 else 'BNDSC'",
        v="by_letter(value[0], layout if blockTable is None else paged, keyHeads)",
        width="v.D * (v.C if len(value[0]) == 5 else 1) * (8 if value[0].dtype == INT32 else 1)",
        rows="(q.T, q.N, 1) if 'T' in layout else (q.B if 'B' in layout else 1, q.N, q.S, 1)",
    ),
    unless_empty(
        "attentionOut",
        on_operators("aclnnFusedInferAttentionScoreV5", _runs_on("950"), tiling(one_of("pseType", 0))),
        when(lambda call: call.operator.name != "aclnnFusedInferAttentionScoreV5", _runs_on("A2 A3")),
        documented_dtypes("query", "key", "value"),
        tiling(
            require("numHeads > 0", "len(value) == len(key)"),
            *_KEYS_FIT,
            output_shape(attentionOut="result", softmaxLse="rows if softmaxLseFlag else None"),
        ),
    ),
    output_dtype(
        attentionOut=_OTHERWISE + "queryRopeOptional.dtype if queryRopeOptional is not None else FLOAT16",
        softmaxLse="FLOAT",
    ),
    nullable="softmaxLse",
    required="inputLayout",
    aliases=_SCALE_ALIAS,
)


# --------------------------------------------------------------------------------------------------- latent heads
