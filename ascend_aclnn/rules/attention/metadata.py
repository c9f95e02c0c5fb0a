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
