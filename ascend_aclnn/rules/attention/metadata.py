"""Rules of the operators that plan the work of others: INT32, of a fixed size."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_CHECKED = (documented_products, documented_dtypes())
_LENGTHS = tiling(
    rank(1, "cuSeqlensQOptional", "cuSeqlensKOptional", "sequsedQOptional", "sequsedKOptional"),
    rank(1, "cuSeqLensQOptional", "cuSeqLensKOptional", "seqUsedQOptional", "seqUsedKOptional"),
    rank(1, "cuSeqlensOriKvOptional", "cuSeqlensCmpKvOptional", "sequsedOriKvOptional", "sequsedCmpKvOptional"),
)

rule(
    "aclnnDenseLightningIndexerSoftmaxLseV2Metadata aclnnDenseLightningIndexerKLLossGradMetadata"
    " aclnnSparseLightningIndexerKLLossGradMetadata aclnnSparseFlashMlaSoftmaxL1NormMetadata",
    *_CHECKED,
    shape_patterns(metadata="64"),
    _LENGTHS,
)
rule(
    "aclnnLightningIndexerV2Metadata aclnnQuantLightningIndexerV2Metadata",
    *_CHECKED,
    shape_patterns(metadata="1024"),
    _LENGTHS,
)
rule(
    "aclnnSparseFlashMlaMetadata aclnnSparseFlashMlaGradMetadata aclnnQuantSparseFlashMlaMetadata"
    " aclnnMixedQuantSparseFlashMlaMetadata",
    *_CHECKED,
    shape_patterns(metaData="1024"),
    _LENGTHS,
)
# A head, and 16 numbers for each of 36 and of 72 cores (flash_attn_metadata.h), of one section; callers may have room for more.
rule(
    "aclnnFlashAttnMetadata aclnnQuantFlashAttnMetadata",
    documented_products,
    infer_shape(metaData="(16 * (1 + 36 + 72),)"),
    output_dtype(metaData="INT32"),
)

# --------------------------------------------------------------------------------------------------- contributed

_heads_of_shared_kv = (
    dtypes("INT32", "cuSeqLensQOptional", "cuSeqLensOriKvOptional", "cuSeqLensCmpKvOptional"),
    dtypes("INT32", "sequsedQOptional", "sequsedKvOptional", "metadata"),
    not_negative("batchSize", "maxSeqlenQ"),
    require("numHeadsKv == 1", "oriWinLeft == 127"),
    one_of("oriMaskMode", 0, 3, 4),
    when("hasCmpKv", one_of("cmpRatio", 4, 128), one_of("cmpTopK", 0, 512, 1024)),
    require("layoutQOptional in ('TND', 'BSND')", "layoutKvOptional in ('PA_ND', 'TND', 'BSND')"),
    when("layoutQOptional == 'TND'", required("cuSeqLensQOptional"), word="packed"),
    when("layoutKvOptional == 'PA_ND'", required("sequsedKvOptional"), word="paged"),
    rank(1, "cuSeqLensQOptional", "cuSeqLensOriKvOptional", "cuSeqLensCmpKvOptional"),
    rank(1, "sequsedQOptional", "sequsedKvOptional"),
    shape_patterns(metadata="1024"),
    output_dtype(metadata="INT32"),
)
rule("aclnnSparseAttnSharedkvMetadata", only_products("A3"), *_heads_of_shared_kv)
rule(
    "aclnnKvQuantSparseAttnSharedkvMetadata",
    only_products("950"),
    one_of("numHeadsQ", 64, 128),
    *_heads_of_shared_kv,
)
rule(
    "aclnnQuantLightningIndexerMetadata",
    only_products("A2 A3 950"),
    dtypes("INT32", "actualSeqLengthsQueryOptional", "actualSeqLengthsKeyOptional", "metadata"),
    rank(1, "actualSeqLengthsQueryOptional", "actualSeqLengthsKeyOptional"),
    shape_patterns(metadata="1024"),
    output_dtype(metadata="INT32"),
)
rule(
    "aclnnQuantSalsIndexerMetadata",
    only_products("A2 A3"),
    dtypes("INT32", "actualSeqLengthsKvOptional", "metaData"),
    has_shape(actualSeqLengthsKvOptional="(batchSize,)"),
    shape_patterns(metaData="1024"),
    output_dtype(metaData="INT32"),
)
rule(
    "aclnnKvQuantSparseFlashAttentionMetadata",
    only_products("A2 A3"),
    dtypes("INT32", "actualSeqLengthsQueryOptional", "actualSeqLengthsKvOptional", "sparseSeqLengthsKvOptional"),
    dtypes("INT32", "metaData"),
    *(
        has_shape(**{f"{name}Optional": "(batchSize,)"})
        for name in ("actualSeqLengthsQuery", "actualSeqLengthsKv", "sparseSeqLengthsKv")
    ),
    require("layoutQueryOptional in ('BSND', 'TND')"),
    require("layoutKvOptional in ('BSND', 'TND', 'PA_BSND', 'PA_BNSD', 'PA_NZ')"),
    one_of("sparseMode", 0, 3),
    one_of("attentionMode", 0, 1, 2),
    shape_patterns(metaData="1024"),
    output_dtype(metaData="INT32"),
)
# Room for a section of each head of keys of a sequence, in whole 16 KiB.
rule(
    "aclnnStemIndexerMetadata",
    only_products("950"),
    dtypes("INT32", "qSeqLens", "kvSeqLens", "metadata"),
    rank(1, "qSeqLens", "kvSeqLens", "metadata"),
    require("qSeqLens[0] > 0", "kvSeqLens[0] == qSeqLens[0]"),
    positive("qHeads", "kvHeads", "dimQkflat"),
    require("stemBlockSize == 128"),
    not_negative("windowSize"),
    define(room="ceil_div(16 + qSeqLens[0] * kvHeads * (36 + 72) * 16, 4096) * 4096"),
    require("metadata[0] >= room"),
    infer_shape(metadata="(room,)"),
    output_dtype(metadata="INT32"),
)
rule(
    "aclnnQuantBlockSparseAttnMetadata",
    only_products("950"),
    not_negative("batchSize", "numHeadsQ", "numHeadsKv", "headDim"),
    one_of("maskMode", 0, 3),
    one_of("quantMode", 1, 2),
    when("quantMode == 1", require("sparseBlockSizeQ == 128", "sparseBlockSizeK == 128"), word="fp8"),
    when("quantMode == 2", one_of("sparseBlockSizeQ", 64, 128), one_of("sparseBlockSizeK", 64, 128), word="mxfp8"),
    require("layoutSparseIndicesOptional == 'B_N_Qb_Kb'"),
    dtypes("INT32", "sparseSeqLen", "metadata"),
    rank(2, 3, "sparseSeqLen"),
    rank(1, "metadata"),
    define(room="8 + batchSize * numHeadsQ * 36 * 8 + 72 * 8"),
    require("metadata[0] >= room"),
    require("numHeadsKv == 0 or numHeadsQ % numHeadsKv == 0"),
    infer_shape(metadata="(room,)"),
    output_dtype(metadata="INT32"),
)
