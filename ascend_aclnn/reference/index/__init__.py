"""References of ops-nn/index, by kind of operator."""

from ascend_aclnn.reference.index import embedding, gather

__all__ = ["embedding", "gather"]
