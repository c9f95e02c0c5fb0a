"""Rules of sparse latent attention: two kinds of keys that are values too, original ones and compressed ones."""

from __future__ import annotations

from ascend_aclnn.rules.attention._layouts import by_tokens
from ascend_aclnn.rules.language import *

_LENGTHS = (
    rank(1, "cuSeqlensQOptional", "cuSeqlensOriKvOptional", "cuSeqlensCmpKvOptional"),
    rank(1, "sequsedQOptional", "sequsedOriKvOptional", "sequsedCmpKvOptional", "cmpResidualKvOptional"),
    rank(2, "oriBlockTableOptional", "cmpBlockTableOptional"),
)
# The heads of keys: the original ones', or without them the compressed ones'.
_KEYS = define(kvHeads="cmpKvOptional[-2] if oriKvOptional is None else oriKvOptional[-2]")
# Batches are those of the queries; caches have a row of pages for each.
_OF_BATCH = (
    when("layoutKvOptional == 'BSND'", require("oriKvOptional[0] == q[0]", "cmpKvOptional[0] == q[0]")),
    require("oriBlockTableOptional[0] == q[0]", "cmpBlockTableOptional[0] == q[0]"),
)
_EITHER = when("cmpKvOptional is None", require("oriKvOptional is not None"))

rule(
    "aclnnSparseFlashMla aclnnQuantSparseFlashMla aclnnMixedQuantSparseFlashMla",
    documented_products,
    documented_dtypes(),
    _EITHER,
    _KEYS,
    tiling(
        by_tokens("layoutQOptional", "q"),
        by_tokens("layoutKvOptional", "oriKvOptional", "cmpKvOptional"),
        require("kvHeads == 1", "cmpKvOptional[-2] == kvHeads", "cmpRatio > 0"),
        require("oriSparseIndicesOptional[:-2] == q[:-2]", "cmpSparseIndicesOptional[:-2] == q[:-2]"),
        require("oriSparseIndicesOptional[-2] == kvHeads", "cmpSparseIndicesOptional[-2] == kvHeads"),
        require("oriTopkLengthOptional[:-1] == q[:-2]", "cmpTopkLengthOptional[:-1] == q[:-2]"),
        has_shape(sinksOptional="(q[-2],)"),
        *_LENGTHS,
        when("layoutQOptional == 'BSND'", *_OF_BATCH, word="padded"),
        # Nothing else than 448 elements of 8 bits and 64 rotated ones; the keys are packed, with their scales.
        on_operators("aclnnMixedQuantSparseFlashMla", require("q[-1] == 512", "0 <= ropeHeadDim < q[-1]")),
        on_operators(
            "aclnnSparseFlashMla aclnnQuantSparseFlashMla",
            require("oriKvOptional[-1] == q[-1]", "cmpKvOptional[-1] == q[-1]"),
        ),
        on_operators(
            "aclnnQuantSparseFlashMla",
            required("oriKvOptional", "qDescaleOptional", "oriKvDescaleOptional"),
            when("cmpKvOptional is not None", required("cmpKvDescaleOptional")),
            has_shape(qDescaleOptional="(1,)", oriKvDescaleOptional="(1,)", cmpKvDescaleOptional="(1,)"),
            not_empty("q", "oriKvOptional", "cmpKvOptional"),
        ),
    ),
    infer_shape(
        attnOutOut="q",
        softmaxLseOutOptional="(*q[:-3], kvHeads, q[-3], q[-2] // kvHeads) if returnSoftmaxLse else None",
    ),
)
rule(
    "aclnnSparseFlashMlaGrad",
    documented_products,
    documented_dtypes(),
    _EITHER,
    _KEYS,
    tiling(
        by_tokens("layoutQOptional", "query"),
        by_tokens("layoutKvOptional", "oriKvOptional", "cmpKvOptional"),
        require("kvHeads == 1", "cmpKvOptional[-2] == kvHeads", "cmpRatio > 0"),
        require("oriKvOptional[-1] == query[-1]", "cmpKvOptional[-1] == query[-1]"),
        has_shape(dOut="query", out="query", lse="(*query[:-3], kvHeads, query[-3], query[-2] // kvHeads)"),
        require("oriSparseIndicesOptional[:-2] == query[:-2]", "cmpSparseIndicesOptional[:-2] == query[:-2]"),
        require("oriTopkLengthOptional[:-1] == query[:-2]", "cmpTopkLengthOptional[:-1] == query[:-2]"),
        has_shape(sinksOptional="(query[-2],)"),
        require("cmpResidualKvOptional[0] == (query[0] if len(query) == 4 else cuSeqlensQOptional[0] - 1)"),
        *_LENGTHS,
    ),
    infer_shape(
        dQueryOut="query",
        dOriKvOutOptional="oriKvOptional",
        dCmpKvOutOptional="cmpKvOptional",
        dSinksOutOptional="sinksOptional",
        oriSoftmaxL1NormOptional="oriSparseIndicesOptional",
        cmpSoftmaxL1NormOptional="cmpSparseIndicesOptional",
    ),
)
rule(
    "aclnnSparseFlashMlaSoftmaxL1Norm",
    documented_products,
    documented_dtypes(),
    tiling(
        by_tokens("layoutQOptional", "q"),
        by_tokens("layoutKOptional", "k"),
        require("k[-2] == 1", "k[-1] == q[-1]", "cmpRatio > 0"),
        has_shape(softmaxLse="(*q[:-3], k[-2], q[-3], q[-2] // k[-2])"),
        require("sparseIndicesOptional[:-2] == q[:-2]"),
        require("cmpResidualKOptional[0] == (q[0] if len(q) == 4 else cuSeqlensQOptional[0] - 1)"),
        rank(
            1,
            "cuSeqlensQOptional",
            "cuSeqlensKOptional",
            "sequsedQOptional",
            "sequsedKOptional",
            "cmpResidualKOptional",
        ),
    ),
    # For each head of keys of each query one number for every key, or for every chosen one.
    define(
        chosen="sparseIndicesOptional is not None and sparseIndicesOptional.size > 0",
        last="sparseIndicesOptional[-1] if chosen else (maxSeqlenK if layoutQOptional == 'TND' else k[1])",
    ),
    infer_shape(out="(*q[:-2], k[-2], last)"),
    output_dtype(out="FLOAT"),
)

_shared_kv = (
    dtypes("INT32", "cmpSparseIndicesOptional", "oriBlockTableOptional", "cmpBlockTableOptional"),
    dtypes("INT32", "cuSeqlensQOptional", "sequsedKvOptional", "metadataOptional"),
    dtypes("FLOAT", "sinksOptional", "softmaxLseOut"),
    tiling(
        required("oriKvOptional", "sinksOptional", "metadataOptional"),
        absent("oriSparseIndicesOptional"),
        require("layoutQOptional in ('BSND', 'TND')"),
        by_tokens("layoutQOptional", "q"),
        require("len(oriKvOptional) == 4", "len(cmpKvOptional) == 4"),
        require("oriKvOptional[-2] == 1", "cmpKvOptional[-2] == 1"),
        require("oriMaskMode == 4", "cmpMaskMode == 3"),
        when("cmpSparseIndicesOptional is not None", required("cmpKvOptional"), word="chosen"),
        when("cmpKvOptional is not None", require("cmpRatio > 0"), word="compressed"),
        when("layoutQOptional == 'TND'", required("cuSeqlensQOptional"), word="packed"),
        when(
            "layoutKvOptional == 'PA_ND'",
            required("oriBlockTableOptional", "sequsedKvOptional"),
            when("cmpKvOptional is not None", required("cmpBlockTableOptional"), word="compressed"),
            word="paged",
        ),
        rank(2, "oriBlockTableOptional", "cmpBlockTableOptional"),
        rank(1, "cuSeqlensQOptional", "sequsedKvOptional"),
        require("cmpSparseIndicesOptional[:-2] == q[:-2]", "cmpSparseIndicesOptional[-2] == 1"),
        has_shape(sinksOptional="(q[-2],)", metadataOptional="(1024,)"),
    ),
    output_shape(attnOutOut="q"),
    infer_shape(softmaxLseOut="(0,)"),
    output_dtype(attnOutOut="q", softmaxLseOut="FLOAT"),
)
# What is returned with returnSoftmaxLse is not valid yet, as the documents say: it is refused.
rule(
    "aclnnSparseAttnSharedkv",
    only_products("A3"),
    same_dtype("q", "oriKvOptional", "cmpKvOptional", "attnOutOut", among=HALVES),
    tiling(
        require("layoutKvOptional in ('PA_ND', 'BSND')", "not returnSoftmaxLse"),
        require("oriKvOptional[-1] == q[-1]", "cmpKvOptional[-1] == q[-1]"),
        one_of("cmpRatio", 1, 4, 128),
    ),
    *_shared_kv,
)
rule(
    "aclnnKvQuantSparseAttnSharedkv",
    only_products("950"),
    dtypes("BF16", "q", "attnOutOut"),
    same_dtype("oriKvOptional", "cmpKvOptional", among="FLOAT8_E4M3FN HIFLOAT8"),
    tiling(
        require("layoutKvOptional == 'PA_ND'", "not returnSoftmaxLse"),
        require("kvQuantMode == 1", "tileSize == 64", "ropeHeadDim == 64"),
        require("q[-2] in (64, 128)", "q[-1] == 512", "oriKvOptional[-1] == 640", "cmpKvOptional[-1] == 640"),
        require("0 < oriKvOptional[1] <= 1024", "oriKvOptional[1] % 16 == 0"),
        require("0 < cmpKvOptional[1] <= 1024", "cmpKvOptional[1] % 16 == 0"),
        absent("cuSeqlensOriKvOptional", "cuSeqlensCmpKvOptional"),
        require("cmpSparseIndicesOptional[-1] in (512, 1024)"),
    ),
    *_shared_kv,
)
