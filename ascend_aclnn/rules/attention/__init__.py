"""Rules of ops-transformer/attention: training (flash), inference, chosen tokens and blocks, linear ones, caches."""

from __future__ import annotations

from ascend_aclnn.rules.attention import (
    block_scores,
    block_sparse,
    caches,
    flash,
    floyd,
    indexer,
    inference,
    linear,
    metadata,
    nsa,
    sparse_flash,
    sparse_mla,
)

__all__ = [
    "block_scores",
    "block_sparse",
    "caches",
    "flash",
    "floyd",
    "indexer",
    "inference",
    "linear",
    "metadata",
    "nsa",
    "sparse_flash",
    "sparse_mla",
]
