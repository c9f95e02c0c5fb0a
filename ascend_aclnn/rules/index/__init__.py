"""Rules of ops-nn/index: gathering, scattering, choosing (sort-like and data-dependent), unpooling, embeddings."""

from __future__ import annotations

from ascend_aclnn.rules.index import choose, embedding, gather, sampling, scatter, unpool

__all__ = ["choose", "embedding", "gather", "sampling", "scatter", "unpool"]
