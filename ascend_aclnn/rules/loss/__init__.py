"""Rules of ops-nn/loss: losses of each element, cross entropies, losses of labels."""

from __future__ import annotations

from ascend_aclnn.rules.loss import entropy, labels, pointwise

__all__ = ["entropy", "labels", "pointwise"]
