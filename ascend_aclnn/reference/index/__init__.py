"""References of ops-nn/index, by kind of operator."""

from ascend_aclnn.reference.index import bag, choose, embedding, gather, inverse, repeat, sampling, scatter, unpool

__all__ = ["bag", "choose", "embedding", "gather", "inverse", "repeat", "sampling", "scatter", "unpool"]
