"""Rules of attention within windows of images (part of ops-transformer/attention)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule("aclnnSwinAttentionScoreQuant", documented_products, documented_dtypes(), infer_shape(out="query"))
