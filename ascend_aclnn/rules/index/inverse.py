"""Rules of the inverse of matrices (part of ops-nn/index)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnInverse",
    dtypes(f"{FLOATS_AND_DOUBLE} {COMPLEX}", "self"),
    castable("self", "out"),
    output_shape(out="self"),
    max_rank(8, "self"),
    unless_empty("self", require("len(self) >= 2", "self[-1] == self[-2]")),
)
