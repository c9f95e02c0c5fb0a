"""Rules of ops-nn/pooling: adaptive, average and maximum pooling."""

from __future__ import annotations

from ascend_aclnn.rules.pooling import adaptive, average, maximum

__all__ = ["adaptive", "average", "maximum"]
