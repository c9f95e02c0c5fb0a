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
        *communicator("group"),
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
    tiling(
        rank(2, "gmmX", "mmXOptional", "mmWeightOptional"),
        rank(3, "gmmWeight"),
        require("(gmmWeight[2] if transGmmWeight else gmmWeight[1]) == gmmX[1]"),
        require("(mmWeightOptional[1] if transMmWeight else mmWeightOptional[0]) == mmXOptional[1]"),
    ),
    define(
        received="sum(recvCounts)",
        columns="gmmWeight[1] if transGmmWeight else gmmWeight[2]",
        result="gmmX.dtype if gmmX.dtype in HALVES else FLOAT16",
    ),
    infer_shape(
        gmmY="(received, columns)",
        y="(received, columns)",
        mmYOptional="(mmXOptional[0], mmWeightOptional[0] if transMmWeight else mmWeightOptional[1])",
        permuteOutOptional="(received, gmmX[1]) if permuteOutFlag else None",
    ),
    output_dtype(gmmY="result", y="result", mmYOptional="result", permuteOutOptional="gmmX"),
    nullable="group sendCounts recvCounts commMode",
)
