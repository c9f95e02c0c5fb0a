"""References of ops-nn/loss: losses of each element, cross entropies, losses of labels."""

from ascend_aclnn.reference.loss import entropy, labels, pointwise

__all__ = ["entropy", "labels", "pointwise"]
