"""References of ops-nn/index, by kind of operator."""

from ascend_aclnn.reference.index import choose, embedding, gather, scatter

__all__ = ["choose", "embedding", "gather", "scatter"]
