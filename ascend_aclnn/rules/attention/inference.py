"""Rules of attention for inference: prompts, single tokens, both (FusedInfer), and the preparation of latent heads (Mla)."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR, RUNTIME_ERROR
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
        require("numHeads > 0", "numKeyValueHeads >= 0"),
        require("numKeyValueHeads == 0 or numHeads % numKeyValueHeads == 0"),
        *_KEYS_FIT,
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
        on_operators("aclnnFusedInferAttentionScoreV5", _runs_on("950")),
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


def _layout(name: str, *paged: str) -> str:
    """An expression for a layout: in letters of any case, BSND where there is none."""
    upper = f"({name} or 'BSND').upper() if {name} is not None else 'BSND'"
    return f"known({upper}, *{('BSND', 'BNSD', 'TND', 'NTD', *paged)})"


# Paged caches end as the others do; the fractal one in three axes.
_PAGED = {"PA_NZ": "PNDSC", "PA_ND": "PSND", "PA_BBND": "PSND", "PA_BNBD": "PNSD"}
_LSE = "(queries.B, queries.N, queries.S) if 'B' in queries else "
rule(
    "aclnnFlashAttn aclnnQuantFlashAttn",
    define(
        queries=f"by_letter(q, {_layout('layoutQ')})",
        kvLayout=_layout("layoutKv", *_PAGED),
        values=f"by_letter(v, {_PAGED}.get(kvLayout, kvLayout))",
        width="values.D * (values.C if 'C' in values else 1)",
        result=f"arranged({_layout('layoutOut')}, queries, width)",
    ),
    documented_products,
    on_operators("aclnnFlashAttn", same_dtype("q", "k", "v")),
    tiling(
        output_shape(attnOut="result"),
        rank(1, 1, "cuSeqlensQOptional", "cuSeqlensKvOptional", "sequsedQOptional", "sequsedKvOptional"),
        rank(2, 2, "blockTableOptional"),
    ),
    when(
        "returnSoftmaxLse",
        on_operators("aclnnFlashAttn", infer_shape(softmaxLseOptional=_LSE + "(queries.T, queries.N)")),
        on_operators("aclnnQuantFlashAttn", infer_shape(softmaxLseOptional=_LSE + "(queries.N, queries.T)")),
    ),
    output_dtype(attnOut="BF16", softmaxLseOptional="FLOAT"),
    on_operators("aclnnFlashAttn", output_dtype(attnOut="q")),
)

# --------------------------------------------------------------------------------------------------- latent heads

# weightDq (model, latent of queries), weightUqQr (that, heads * both parts), weightDkvKr (model, latent and rotated part).
_WEIGHTS = tiling(
    require("len(tokenX) in (2, 3)", "len(weightUk) == 3", "len(weightDq) == 2", "len(weightUqQr) == 2"),
    require("len(weightDkvKr) == 2", "len(kvCacheRef) in (3, 4)", "len(krCacheRef) in (1, 3, 4)"),
    require("weightDq[0] == tokenX[-1]", "weightUqQr[0] == weightDq[1]", "weightDkvKr[0] == tokenX[-1]"),
    require("weightDkvKr[1] > weightUk[2]", "weightUk[0] > 0"),
    define(rotated="weightDkvKr[1] - weightUk[2]"),
    require("weightUqQr[1] == weightUk[0] * (weightUk[1] + rotated)"),
    has_shape(rmsnormGammaCq="(weightDq[1],)", rmsnormGammaCkv="(weightUk[2],)"),
    require("ropeSin.size == tokenX.size // tokenX[-1] * rotated", "ropeCos.size == ropeSin.size", "rotated % 2 == 0"),
)

# The query, absorbed or rotated: tokens, heads, width. Without tables nothing is rotated; then the width is what
# weightDkvKr has beside the latent.
_QUERIES = (
    define(
        rotatedWidth="ropeSin[-1] if ropeSin is not None and ropeSin.size > 0 else"
        " (weightDkvKr[0] * weightDkvKr[3] if len(weightDkvKr) == 4 else weightDkvKr[1]) - weightUk[2]",
        tokens="prod(tokenX[:-1])",
    ),
    infer_shape(
        queryOut="(*tokenX[:-1], weightUk[0], weightUk[2])", queryRopeOut="(*tokenX[:-1], weightUk[0], rotatedWidth)"
    ),
)
# The query is quantised where everything is, the cache by tensor: one factor for each head of each token.
_QUANTISED = define(quantised="weightQuantMode >= 2 and kvCacheQuantMode == 1")
_NOPE_SCALE = "(tokens, weightUk[0], 1) if quantised else None"
_QUERY_DTYPES = output_dtype(
    queryOut="tokenX.dtype if quantised else BF16",
    queryRopeOut="BF16",
    dequantScaleQNopeOut="FLOAT",
    dequantScaleQNopeOutOptional="FLOAT",
)
_QUANT_MODES = (
    on_products("950", in_range("weightQuantMode", 0, 5)),
    when("product != '950'", in_range("weightQuantMode", 0, 2)),
    when("weightQuantMode == 0", one_of("kvCacheQuantMode", 0)),
    when("weightQuantMode == 1", one_of("kvCacheQuantMode", 0, 2, 3)),
    when("weightQuantMode >= 2", one_of("kvCacheQuantMode", 0, 1, 3)),
    one_of("queryQuantMode", 0, 1),
)
_DOCUMENTED = (documented_products, documented_dtypes(), _WEIGHTS)

rule("aclnnMlaProlog", *_DOCUMENTED, *_QUERIES, output_dtype(queryOut="BF16", queryRopeOut="BF16"))
rule(
    "aclnnMlaPrologV2 aclnnMlaPrologV2WeightNz",
    *_DOCUMENTED,
    *_QUERIES,
    define(quantised="tokenX.dtype == INT8 and kvCacheRef.dtype == INT8"),
    infer_shape(dequantScaleQNopeOutOptional=_NOPE_SCALE),
    _QUERY_DTYPES,
)
rule(
    "aclnnMlaPrologV3",
    *_QUANT_MODES,
    *_DOCUMENTED,
    *_QUERIES,
    _QUANTISED,
    # The normalised query is put out if its flag asks for it.
    infer_shape(
        dequantScaleQNopeOut=_NOPE_SCALE,
        queryNormOut="(*tokenX[:-1], weightDq[1]) if queryNormFlag else None",
        dequantScaleQNormOut="(tokens, weightDq[1] // 32 if weightQuantMode == 3 else 1)"
        " if queryNormFlag and weightQuantMode != 0 else None",
    ),
    _QUERY_DTYPES,
    output_dtype(queryNormOut="BF16 if weightQuantMode == 0 else weightUqQr.dtype", dequantScaleQNormOut="FLOAT"),
    nullable="dequantScaleQNopeOut queryNormOut dequantScaleQNormOut",
)
rule(
    "aclnnMlaPrologV3WeightNz aclnnMlaPrologV4WeightNz",
    on_operators("aclnnMlaPrologV3WeightNz", required("ropeSin", "ropeCos")),
    *_QUANT_MODES,
    _QUANTISED,
    on_operators(
        "aclnnMlaPrologV4WeightNz",
        when("doRope", required("ropeSin", "ropeCos", status=PARAM_INVALID), not_empty("ropeSin", "ropeCos")),
        when("not doRope", absent_or_empty("ropeSin", "ropeCos", why="without do_rope")),
    ),
    present_if("quantised", "dequantScaleQNopeOutOptional"),
    present_if("queryNormOutOptional is not None and weightQuantMode != 0", "dequantScaleQNormOutOptional"),
    *_DOCUMENTED,
    *_QUERIES,
    # Whoever wants the normalised query gives a tensor for it: that is the flag.
    infer_shape(
        dequantScaleQNopeOutOptional=_NOPE_SCALE, queryNormOutOptional="None", dequantScaleQNormOutOptional="None"
    ),
    _QUERY_DTYPES,
    nullable="ropeSin ropeCos",
)

# The latent and the rotated part are in one tensor with cache mode 0, in two with the others.
rule(
    "aclnnMlaPreprocess aclnnMlaPreprocessV2",
    together("cos", "sin", status=PARAM_NULLPTR),
    documented_products,
    documented_dtypes(),
    tiling(
        require(
            "len(input) == 2", "len(wuk) == 3", "len(kvCache) == 4", "kvCacheRope is None or len(kvCacheRope) == 4"
        ),
        has_shape(gamma0="(input[1],)", beta0="(input[1],)", slotMapping="(input[0],)", gamma2="(wuk[2],)"),
        define(latent="gamma1[0]", both="wuk[2] + (kRopeDim or 64) + latent", heads="wuk[0]"),
        rank(1, 1, "gamma1", "beta1"),
        require("wdqkv.size == both * input[1]", "descale0.size == both", "wuq.size % (heads * latent) == 0"),
        require(
            "latent > 0", "heads > 0", "wuq.size // latent // heads > wuk[1]", "descale1.size == wuq.size // latent"
        ),
        require("cos.size >= input[0] * (kRopeDim or 64)", "sin.size == cos.size", "cacheMode in (0, 1, 2, 3)"),
        require("quantScale0.size > 0", "quantOffset0.size > 0", "quantScale1.size > 0", "quantOffset1.size > 0"),
    ),
    infer_shape(
        qOutOut="(input[0], wuk[0], 512 if cacheMode else 576)",
        kvCacheOutOut="kvCache",
        qRopeOutOut="(input[0], wuk[0], 64) if cacheMode else (0,)",
        krCacheOutOut="kvCacheRope if cacheMode else (0,)",
        qDownOutOut="(input[0], 1536) if qDownOutFlag else (0,)",
    ),
    output_dtype(qOutOut="kvCache", kvCacheOutOut="kvCache"),
)
