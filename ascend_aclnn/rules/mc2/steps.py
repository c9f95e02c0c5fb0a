"""Rules of what keeps the devices in step, and of what tells them where experts are."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.mc2.common import communicator

# The barriers only log that a communicator's name is empty or too long, and go on.
rule("aclnnDistributeBarrier aclnnDistributeBarrierV2 aclnnMoeDistributeBufferReset", documented_dtypes())
rule(
    "aclnnElasticReceivableTest aclnnElasticReceivableInfoCollect",
    *communicator("group", null=PARAM_INVALID),
    documented_dtypes(),
    tiling(require("dstRank.size > 0")),
    infer_shape(y="(worldSize, worldSize)"),
    output_dtype(y="INT32"),
)
rule(
    "aclnnBandwidthTest",
    *communicator("group", long=PARAM_NULLPTR),
    positive("worldSize", "maxBs"),
    one_of("mode", 0, 1),
    documented_dtypes(),
    nullable="group",
)
rule(
    "aclnnMoeUpdateExpert",
    documented_dtypes(),
    tiling(
        rank(2, "expertIds", "eplbTable", "expertScalesOptional"),
        require("eplbTable[1] >= 2"),
        has_shape(expertScalesOptional="expertIds", activeMaskOptional="(expertIds[0],)"),
        require("pruningThresholdOptional in ((expertIds[1],), (1, expertIds[1]))"),
        one_of("balanceMode", 0, 1),
        when("balanceMode == 0", require("worldSize >= 2", "0 <= localRankId < worldSize")),
    ),
    infer_shape(balancedExpertIds="expertIds", balancedActiveMask="expertIds"),
    output_dtype(balancedActiveMask="BOOL"),
)
