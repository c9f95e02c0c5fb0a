"""Rules of ops-transformer/gmm: products of groups, one for each expert."""

from __future__ import annotations

from ascend_aclnn.rules.gmm import activation, finalize, grouped, single

__all__ = ["activation", "finalize", "grouped", "single"]
