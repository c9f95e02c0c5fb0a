"""Rules of flash attention and its gradients, for sequences of one length (Score) or of several (VarLen, Unpadding)."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

# Keys of layouts with H have as many heads as are as wide as the query's.
_SIZES = define(
    layout="known(inputLayout.upper(), 'BSH', 'SBH', 'BSND', 'BNSD', 'TND')",
    q="by_letter(query, layout, headNum)",
    keyHeads="by_letter(key, layout).N or (by_letter(key, layout).H // q.D if q.D > 0 else 0)",
    keyWidth="by_letter(key, layout, keyHeads).D if keyHeads > 0 or 'D' in layout else q.D",
    valueWidth="by_letter(value, layout, keyHeads).D if keyHeads > 0 or 'D' in layout else q.D",
    attended="(*query[:-1], valueWidth if 'D' in layout else q.N * valueWidth)",
    # A maximum (or sum) for each row of scores, eight times; once where queries are HIFLOAT8 (which come in BSND).
    statistics="(q.T, q.N, 8) if layout == 'TND' else (q.B, q.N, q.S, 1 if query.dtype == HIFLOAT8 else 8)",
)
_WIDTHS = require("keyWidth == q.D", "valueWidth <= q.D")
# Without a mode, and in mode 1, a mask has a number for each pair of tokens; the others take one of a fixed size.
_MASK = when(
    "layout != 'TND' and (sparseMode is None or sparseMode in (0, 1))",
    define(lengths="(q.S, by_letter(key, layout).S)"),
    require("len(attenMaskOptional) in (2, 4)", word="rank"),
    require("attenMaskOptional[-2:] == lengths"),
    require("broadcasts(attenMaskOptional[:-2], (q.B, q.N))", argument="attenMaskOptional"),
    word="whole-mask",
)
_OF_SEVERAL_LENGTHS = when(
    lambda call: "VarLen" in call.operator.name or "Unpadding" in call.operator.name, require("inputLayout == 'TND'")
)

# Parts of the heads that are rotated come beside the others: BF16, TND, masked, nothing dropped.
_ROPE = (
    together("queryRope", "keyRope", status=PARAM_NULLPTR),
    when(
        "queryRope is not None",
        require("queryRope[-1] <= q.D", "keyRope[-1] <= q.D"),
        dtypes("BF16", "query", "key", "value", "queryRope", "keyRope"),
        require("sparseMode != 6", why="with query_rope"),
        required("attenMaskOptional", status=PARAM_NULLPTR),
        absent("realShiftOptional", "pseShiftOptional", "dropMaskOptional", why="with query_rope"),
        require("keepProb >= 1", "layout == 'TND'", why="with query_rope"),
        word="rope",
    ),
)
_VERSIONS = "aclnnFlashAttention{0} aclnnFlashAttention{0}V2 aclnnFlashAttention{0}V3 aclnnFlashAttention{0}V4"

# --------------------------------------------------------------------------------------------------- attention

_OUTPUTS = ("softmaxMaxOut", "softmaxSumOut", "attentionOutOut")
_SOME_OUTPUT = "softmaxMaxOut.size or softmaxSumOut.size or attentionOutOut.size"
# CANN copies its results; where a shape does not fit, it answers as for a null pointer.
_COPIED = (
    require("headNum > 0"),
    _WIDTHS,
    require("q.D <= 768"),
    with_status(
        PARAM_NULLPTR,
        *(
            when(f"not {name}.empty", has_shape(**{name: shape}))
            for name, shape in zip(_OUTPUTS, ("statistics", "statistics", "attended"))
        ),
    ),
)
_ATTENDED = (
    require("value[:2] == key[:2]", "len(value) < 4 or value[2] == key[2]"),
    require("'B' not in layout or by_letter(key, layout).B == q.B", argument="key"),
    require("q.N == headNum", argument="query"),
    require("keyHeads > 0", "q.N % keyHeads == 0", argument="key"),
    require("attenMaskOptional.size > 0"),
    _MASK,
    has_shape(sinkOptional="(headNum,)"),
)
_INFERRED = infer_shape(softmaxMaxOut="statistics", softmaxSumOut="statistics", attentionOutOut="attended")
_RESULT = "BF16 if query.dtype in FLOAT8S else query.dtype"
rule(
    _VERSIONS.format("Score") + " " + _VERSIONS.format("VarLenScore") + " aclnnFlashAttentionVarLenScoreV5",
    _SIZES,
    when(
        _SOME_OUTPUT,
        _OF_SEVERAL_LENGTHS,
        on_operators("aclnnFlashAttentionScoreV4", only_products("950")),
        on_products(
            "A2 A3",
            not_nz("query", "key", "value", "queryRope", "keyRope", "realShiftOptional", "dropMaskOptional"),
            not_nz("paddingMaskOptional", "attenMaskOptional", "sinkOptional", *_OUTPUTS),
        ),
        has_dtype("key", "query"),
        has_dtype("value", "query"),
        on_products("A2 A3", dtypes(FLOATS, "query")),
        # Kinds 2 and 3 make the shift themselves.
        when("pseType in (2, 3)", required("realShiftOptional", status=PARAM_INVALID)),
        when("pseType in (2, 3)", dtypes("FLOAT", "realShiftOptional")),
        when("pseType is None or pseType not in (2, 3)", has_dtype("realShiftOptional", "attentionOutOut")),
        dtypes("FLOAT", "sinkOptional"),
        on_products("A2 A3", when("pseType is not None", has_dtype("attentionOutOut", "query"))),
        *_ROPE,
        *_COPIED,
        documented_products,
        # Queries or keys without elements, and values on Ascend 950's own version, need only a kernel that writes zeros.
        when(
            "not (query.empty or key.empty or (softmaxOutOut is not None and value.empty))",
            tiling(*_ATTENDED),
            word="not-empty",
        ),
        word="outputs",
    ),
    _INFERRED,
    # The scores themselves are not put out; Ascend 950's version wants an (empty) tensor all the same.
    infer_shape(softmaxOutOut="None"),
    on_operators("aclnnFlashAttentionScoreV4", infer_shape(softmaxOutOut="(0,)")),
    output_dtype(softmaxMaxOut="FLOAT", softmaxSumOut="FLOAT", softmaxOutOut=_RESULT, attentionOutOut=_RESULT),
)
rule(
    "aclnnQuantFlashAttentionScore",
    _SIZES,
    when(
        _SOME_OUTPUT,
        only_products("950"),
        dtypes(FLOAT8S, "query", "key", "value"),
        *_COPIED,
        # The cases for which tiling has HIFLOAT8 kernels.
        tiling(
            when(
                "query.dtype == HIFLOAT8",
                require("layout == 'BSND'", argument="inputLayout"),
                require("len(query) == 4", "value == key", "query[2] == headNum"),
                require(
                    "query == (1, 57600, 5, 128) and key == query or"
                    " query == (1, 7200, 40, 128) and key == (1, 512, 40, 128)",
                    argument="query",
                ),
            ),
        ),
        has_shape(
            dScaleQ="(q.B, q.N, ceil_div(q.S, 128), 1)",
            dScaleK="(q.B, keyHeads, ceil_div(key[1], 256), 1)",
            dScaleV="(q.B, keyHeads, ceil_div(value[1], 512), 1)",
        ),
        word="outputs",
    ),
    _INFERRED,
    infer_shape(softmaxOutout="(0,)"),
    output_dtype(softmaxMaxOut="FLOAT", softmaxSumOut="FLOAT", softmaxOutout="BF16", attentionOutOut="BF16"),
)

# --------------------------------------------------------------------------------------------------- gradients

rule(
    _VERSIONS.format("ScoreGrad")
    + " "
    + _VERSIONS.format("UnpaddingScoreGrad")
    + " aclnnFlashAttentionUnpaddingScoreGradV5",
    _SIZES,
    _OF_SEVERAL_LENGTHS,
    on_operators(
        "aclnnFlashAttentionUnpaddingScoreGradV4 aclnnFlashAttentionUnpaddingScoreGradV5",
        require("softmaxInLayout in ('', 'same_as_input')"),
    ),
    when(
        "dqOut.size or dkOut.size or dvOut.size",
        on_operators("aclnnFlashAttentionScoreGradV4", only_products("950")),
        require("headNum > 0"),
        # Gradients are as their tensors; dy and attentionIn are as query, with heads as wide as value's.
        require("value[:-1] == key[:-1]", "dy[:-1] == query[:-1]", "attentionInOptional == dy"),
        require("'B' not in layout or by_letter(key, layout).B == q.B", argument="key"),
        has_shape(dqOut="query", dkOut="key", dvOut="value", dqRopeOut="rotatedQuery", dkRopeOut="rotatedKey"),
        same_dtype("query", "dqOut"),
        same_dtype("key", "dkOut"),
        same_dtype("value", "dvOut"),
        same_dtype("rotatedQuery", "dqRopeOut"),
        same_dtype("rotatedKey", "dkRopeOut"),
        _WIDTHS,
        when(
            "dqOut.size and dkOut.size and dvOut.size",
            tiling(
                has_shape(
                    softmaxMaxOptional="statistics", softmaxSumOptional="statistics", sinkInOptional="(headNum,)"
                ),
                has_shape(dy="attended"),
                require("q.N == headNum", argument="query"),
                require("keyHeads > 0", "q.N % keyHeads == 0", argument="key"),
                _MASK,
            ),
            word="all-outputs",
        ),
        when(
            "sinkInOptional is not None and dsinkOut is not None",
            dtypes("FLOAT", "sinkInOptional", "dsinkOut"),
            when("not dsinkOut.empty", rank(1, "dsinkOut"), has_shape(dsinkOut="sinkInOptional"), word="sink-output"),
            word="sink",
        ),
        when("query.dtype not in FLOAT8S", same_dtype("query", "key", "value", "dy")),
        dtypes({"A2 A3": FLOATS, "": f"{FLOATS} {FLOAT8S}"}, "query"),
        *_ROPE,
        documented_products,
        word="outputs",
    ),
    infer_shape(dqOut="query", dkOut="key", dvOut="value", dpseOut="pseShiftOptional"),
    infer_shape(dqRopeOut="rotatedQuery", dkRopeOut="rotatedKey", dsinkOut="sinkInOptional"),
    output_dtype(dsinkOut="FLOAT"),
    required="attentionInOptional",
    nullable="dpseOut dsinkOut dqRopeOut dkRopeOut",
    aliases={
        "key": "keyIn",
        "keyRope": "keyInRope",
        # The rules about rotated parts are those of sequences of several lengths.
        "rotatedQuery": "queryRope queryRopeOptional",
        "rotatedKey": "keyInRope keyRopeOptional",
    },
)

rule(
    "aclnnQuantFlashAttentionScoreGrad",
    only_products("950"),
    dtypes("HIFLOAT8", "query", "keyIn", "value", "dy"),
    dtypes("FLOAT", "softmaxMax", "softmaxSum", "dScaleQ", "dScaleK", "dScaleV", "dScaleDy", "dsScale", "pScale"),
    same_dtype("dqOut", "dkOut", "dvOut", among=HALVES),
    positive("headNum"),
    tiling(
        require("inputLayout == 'BSND'"),
        one_of("outDtype", 0, 1),
        rank(4, "query", "keyIn", "value"),
        require("query[2] == headNum", "keyIn[2] > 0", "query[2] % keyIn[2] == 0", "keyIn[0] == query[0]"),
        require("keyIn[3] == query[3]", "value[:3] == keyIn[:3]"),
        has_shape(dy="(*query[:3], value[3])", attentionIn="dy", softmaxMax="(query[0], query[2], query[1], 1)"),
        has_shape(
            softmaxSum="softmaxMax", dScaleQ="(query[0], query[2], ceil_div(query[1], 512), 1)", dScaleDy="dScaleQ"
        ),
        has_shape(dScaleK="(keyIn[0], keyIn[2], ceil_div(keyIn[1], 512), 1)", dScaleV="dScaleK"),
        require("dsScale.size == 1", "pScale.size == 1"),
    ),
    output_shape(dqOut="query", dkOut="keyIn", dvOut="value"),
    output_dtype(**dict.fromkeys(("dqOut", "dkOut", "dvOut"), "BF16 if outDtype == 1 else FLOAT16")),
)
