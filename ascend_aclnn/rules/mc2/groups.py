"""Rules of grouped products around an exchange of rows between experts."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import Call, documented_dtypes, rule
from ascend_aclnn.rules.mc2.common import communicator


def _pointers(call: Call) -> None:
    for name in ("sendCountsTensorOptional", "recvCountsTensorOptional"):
        call.require(not call.is_present(name), name, "is given; it must be None", PARAM_NULLPTR)
    communicator("group")(call)
    given = [call.is_present(name) for name in ("mmXOptional", "mmWeightOptional", "mmYOptional")]
    text = "mm_weight and mm_y are given all, or none"
    call.require(all(given) or not any(given), "mmXOptional", text, PARAM_NULLPTR)
    if "permuteOutOptional" in call.operator.positions:
        fits = call.is_present("permuteOutOptional") is bool(call["permuteOutFlag"])
        call.require(fits, "permuteOutOptional", "is given exactly where permute_out_flag is True", PARAM_NULLPTR)


def _counts(call: Call) -> None:
    for name in ("sendCounts", "recvCounts"):
        call.require(call.is_present(name), name, "is None (a null pointer); it is required", PARAM_NULLPTR)
        call.require(len(call[name]) > 0, name, "is empty")


def _mode(call: Call) -> None:
    if "commMode" in call.operator.positions:
        allowed = ("ai_cpu", "ccu") if call.product == "950" else ("ai_cpu",)
        mode = call["commMode"]
        call.require(mode in allowed, "commMode", f"is {mode!r}; on {call.soc.name} it must be {' or '.join(allowed)}")


for _name in (
    "aclnnAlltoAllvGroupedMatMul",
    "aclnnAlltoAllvGroupedMatMulV2",
    "aclnnAlltoAllvQuantGroupedMatMul",
    "aclnnAlltoAllvQuantGroupedMatMulV2",
    "aclnnGroupedMatMulAlltoAllv",
    "aclnnGroupedMatMulAlltoAllvV2",
    "aclnnQuantGroupedMatMulAlltoAllv",
    "aclnnQuantGroupedMatMulAlltoAllvV2",
):
    rule(_name, _pointers, _counts, _mode, documented_dtypes(), nullable="group sendCounts recvCounts commMode")
