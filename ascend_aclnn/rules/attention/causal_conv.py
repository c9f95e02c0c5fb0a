"""Rules of causal convolutions along sequences (part of ops-transformer/attention)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

# One number for each sequence.
_OF_SEQUENCES = (
    *("initialStateMode", "numAcceptedTokens", "numComputedTokens"),
    *("blockIdxFirstScheduledToken", "blockIdxLastScheduledToken", "initialStateIdx"),
)
_SEQUENCES = tiling(require(*(f"{name}[0] == cacheIndices[0]" for name in _OF_SEQUENCES)))
rule("aclnnFusedCausalConv1d", documented_products, documented_dtypes(), _SEQUENCES, infer_shape(y="x"))

rule("aclnnInplaceFusedCausalConv1d", documented_products, documented_dtypes(), _SEQUENCES)

rule("aclnnMaskedCausalConv1d", documented_products, documented_dtypes(), infer_shape(out="x"))

rule(
    "aclnnMaskedCausalConv1dBackward",
    documented_products,
    documented_dtypes(),
    infer_shape(gradXOut="x", gradWeightOut="weight"),
)
