"""Rules of quantising into caches (part of ops-transformer/attention)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnIndexerQuantCache aclnnKvCompressEpilog",
    not_empty("cacheRef", "x", "slotMapping"),
    documented_products,
    documented_dtypes(),
)
