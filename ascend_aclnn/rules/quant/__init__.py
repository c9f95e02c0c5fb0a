"""Rules of ops-nn/quant: quantising to integers, to small floats, in blocks of shared scales."""

from __future__ import annotations

from ascend_aclnn.rules.quant import blocks, dynamic, static

__all__ = ["blocks", "dynamic", "static"]
