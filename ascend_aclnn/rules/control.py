"""Rules of ops-nn/control."""

from __future__ import annotations

from ascend_aclnn.rules.language import *


@refuses("range/positive", "cycles")
def _positive(call: Call) -> None:
    call.require(call["cycles"][0] > 0, "cycles", f"is {call['cycles']}; it must be positive", check="range/positive")


rule("aclnnSleep", only_products("950"), tiling(array_length("cycles", 1), _positive))
