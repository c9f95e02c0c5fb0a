"""Rules of ops-nn/matmul: plain products, fused ones, and products of quantised operands."""

from __future__ import annotations

from ascend_aclnn.rules.matmul import core, fused, quant

__all__ = ["core", "fused", "quant"]
