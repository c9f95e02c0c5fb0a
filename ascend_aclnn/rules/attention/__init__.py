"""Rules of ops-transformer/attention: training (flash), inference, chosen tokens (sparse), linear ones, caches."""

from __future__ import annotations

from ascend_aclnn.rules.attention import caches, flash, inference, linear, sparse

__all__ = ["caches", "flash", "inference", "linear", "sparse"]
