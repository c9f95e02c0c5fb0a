"""Rules of grouped products around an exchange of rows between experts."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.mc2.common import COMM_MODE_WITHOUT_AIV, communicator

rule(
    "aclnnAlltoAllvGroupedMatMul aclnnAlltoAllvGroupedMatMulV2 aclnnAlltoAllvQuantGroupedMatMul "
    "aclnnAlltoAllvQuantGroupedMatMulV2 aclnnGroupedMatMulAlltoAllv aclnnGroupedMatMulAlltoAllvV2 "
    "aclnnQuantGroupedMatMulAlltoAllv aclnnQuantGroupedMatMulAlltoAllvV2",
    with_status(
        PARAM_NULLPTR,
        absent("sendCountsTensorOptional", "recvCountsTensorOptional"),
        communicator("group"),
        together("mmXOptional", "mmWeightOptional", "mmYOptional"),
        when("permuteOutFlag", required("permuteOutOptional")),
        when("not permuteOutFlag", absent("permuteOutOptional", why="without permute_out_flag")),
    ),
    required("sendCounts"),
    not_empty("sendCounts"),
    required("recvCounts"),
    not_empty("recvCounts"),
    *COMM_MODE_WITHOUT_AIV,
    documented_dtypes(),
    nullable="group sendCounts recvCounts commMode",
)
