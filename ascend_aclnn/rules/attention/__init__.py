"""Rules of ops-transformer/attention: for training (flash), for inference, sparse, and linear ones."""

from __future__ import annotations

from ascend_aclnn.rules.attention import flash, inference

__all__ = ["flash", "inference"]
