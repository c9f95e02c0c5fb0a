"""Rules of causal convolutions along sequences (part of ops-transformer/attention)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule("aclnnFusedCausalConv1d", documented_products, documented_dtypes(), infer_shape(y="x"))

rule("aclnnInplaceFusedCausalConv1d", documented_products, documented_dtypes())

rule("aclnnMaskedCausalConv1d", documented_products, documented_dtypes(), infer_shape(out="x"))

rule(
    "aclnnMaskedCausalConv1dBackward",
    documented_products,
    documented_dtypes(),
    infer_shape(gradXOut="x", gradWeightOut="weight"),
)
