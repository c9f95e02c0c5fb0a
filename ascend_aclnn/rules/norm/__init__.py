"""Rules of ops-nn/norm: RMS norms, layer norms, adaptive layer norms, batch norms, group norms, vector norms."""

from __future__ import annotations

from ascend_aclnn.rules.norm import ada, batch, group, layer, rms, vector

__all__ = ["ada", "batch", "group", "layer", "rms", "vector"]
