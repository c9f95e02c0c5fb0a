"""Rules of sending rows to experts and bringing them back."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_NULLPTR, TILING_ERROR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.mc2.common import communicator, optional_communicator

# --------------------------------------------------------------------------------------------------- there and back

# ``local``: the experts of this rank.
_LOCAL = define(
    moe_ranks="epWorldSize - sharedExpertRankNum",
    is_shared="epRankId < sharedExpertRankNum",
    local="1 if is_shared else moeExpertNum // moe_ranks if moe_ranks > 0 else 0",
)
# Room for the rows that may come at most: those of shared experts are divided between the ranks that have copies. Each of
# the ``parts`` of a tensor group gets the rows of all.
_ROOM = (
    _LOCAL,
    define(
        tokens="globalBs if globalBs > 0 else x[0] * epWorldSize",
        room="tokens * max(sharedExpertNum, 1) // sharedExpertRankNum if is_shared else tokens * min(local, expertIds[1])",
        rows="room * parts",
        scale_rows="(rows, 2 * ceil_div(x[1], 64)) if quantMode == 4 else (rows, ceil_div(x[1], 128)) if quantMode == 3 "
        "else (rows,)",
        scale_type="FLOAT8_E8M0 if quantMode == 4 else FLOAT",
        sent="FLOAT8_E4M3FN if quantMode in (3, 4) else INT8 if quantMode in (1, 2) else x.dtype",
    ),
    infer_shape(
        expandXOut="(rows, x[1])",
        dynamicScalesOut="scale_rows",
        expandIdx="(expertIds[0] * expertIds[1],)",
        assistInfoForCombineOut="(room * 128,)",
        expertTokenNumsOut="(local,)",
        epRecvCountsOut="(epWorldSize * local * parts,)",
        tpRecvCountsOut="(parts,) if parts > 1 else None",
        expandScalesOut="(room,)",
    ),
    output_dtype(
        expandXOut="sent",
        dynamicScalesOut="scale_type",
        expandIdx="INT32",
        assistInfoForCombineOut="INT32",
        expertTokenNumsOut="INT64",
        epRecvCountsOut="INT32",
        tpRecvCountsOut="INT32",
        expandScalesOut="FLOAT",
    ),
)
# The first version calls its results expandX, dynamicScales, ...
_RESULTS = {
    f"{name}Out": name
    for name in ("expandX", "dynamicScales", "expertTokenNums", "epRecvCounts", "tpRecvCounts", "expandScales")
}
# Two ranks that hold parts of one expert: Atlas A3 alone has had them, from CANN 8.1 (tpWorldSize 0 to 2 in the documents
# and in moe_distribute_dispatch_tiling.cpp and moe_distribute_combine_tiling.cpp, public sources of 2025-11). The tilings of
# 2026-08 refuse 2 there too, and in all versions.
_TENSOR_GROUPS = on_products("A2 950", tiling(require("tpWorldSize < 2")))
# The data that returns to the tokens of this rank; only their weights may be empty.
_BACK = with_status(
    TILING_ERROR,
    require("expandX.size > 0", "expertIds.size > 0", "epSendCounts.size > 0", "assistInfoForCombine.size > 0"),
)
_SECOND = "aclnnMoeDistributeDispatchV2 aclnnMoeDistributeDispatchV3 aclnnMoeDistributeDispatchV4"

# Scales of what is quantised come out; from version 2 on, an INT32 x (packed) brings its own.
rule(
    f"aclnnMoeDistributeDispatch {_SECOND}",
    *communicator("groupEp", long=PARAM_NULLPTR),
    when("quantMode == 2", required("dynamicScalesOut")),
    on_operators(_SECOND, when("x.dtype == INT32", required("dynamicScalesOut", "scalesOptional"))),
    optional_communicator("groupTp", long=PARAM_NULLPTR),
    documented_dtypes(),
    tiling(rank(2, "x", "expertIds"), require("expertIds[0] == x[0]", "x.size > 0", "expertIds[1] > 0")),
    _TENSOR_GROUPS,
    define(parts="max(tpWorldSize, 1)"),
    *_ROOM,
    nullable="groupEp groupTp dynamicScales dynamicScalesOut expandScales expandScalesOut tpRecvCounts tpRecvCountsOut",
    aliases=_RESULTS,
)

# As many rows as there are lists of experts, of the width of what comes back.
_TOKENS = "(expertIds[0], expandX[1])"
_RETURNED = (
    _LOCAL,
    tiling(
        rank(2, "expandX", "expertIds"),
        rank(1, "assistInfoForCombine", "epSendCounts"),
        has_shape(expandIdx="(prod(expertIds),)"),
        # Ascend 950 only adds up the rows where there are no weights.
        when("product != '950' or not expertScales.empty", has_shape(expertScales="expertIds")),
        require("epSendCounts[0] >= epWorldSize * local", "assistInfoForCombine[0] >= 3 * expandX[0]"),
    ),
)
rule(
    "aclnnMoeDistributeCombine aclnnMoeDistributeCombineV2 aclnnMoeDistributeCombineV3 aclnnMoeDistributeCombineV4",
    *communicator("groupEp"),
    optional_communicator("groupTp"),
    documented_dtypes(),
    _TENSOR_GROUPS,
    *_RETURNED,
    _BACK,
    infer_shape(x=_TOKENS, xOut=_TOKENS),
    nullable="groupEp groupTp",
)
rule(
    "aclnnMoeDistributeCombineAddRmsNorm aclnnMoeDistributeCombineAddRmsNormV2",
    *communicator("groupEp"),
    only_products("A3 950"),
    optional_communicator("groupTp"),
    documented_dtypes(),
    _TENSOR_GROUPS,
    *_RETURNED,
    _BACK,
    tiling(rank(3, "residualX")),
    with_status(TILING_ERROR, require("residualX == (expertIds[0], 1, expandX[1])", "gamma == expandX[1:]")),
    infer_shape(yOut="residualX", rstdOut="(*residualX[:-1], 1)", xOut="residualX"),
    output_dtype(rstdOut="FLOAT"),
    nullable="groupEp groupTp yOut rstdOut residualX gamma",
)
rule("aclnnMoeDistributeDispatchSetup", *communicator("groupEp"), documented_dtypes(), nullable="groupEp")
rule(
    "aclnnMoeDistributeDispatchTeardown",
    only_products("950"),
    *communicator("groupEp", long=PARAM_NULLPTR),
    documented_dtypes(),
    define(parts="1"),
    *_ROOM,
    nullable="groupEp",
)
rule(
    "aclnnMoeDistributeCombineSetup",
    only_products("950"),
    *communicator("groupEp"),
    not_empty("expandX", "expertIds", "assistInfoForCombine", "quantExpandXOut", "commCmdInfoOut"),
    documented_dtypes(),
    nullable="groupEp",
)
rule(
    "aclnnMoeDistributeCombineTeardown",
    only_products("950"),
    *communicator("groupEp"),
    documented_dtypes(),
    infer_shape(xOut=_TOKENS),
    nullable="groupEp",
)

# --------------------------------------------------------------------------------------------------- other devices

_BUFFERS = (
    require("epWorldSize > 1", "0 <= epRankId < epWorldSize", "numExperts % epWorldSize == 0"),
    positive("numMaxTokensPerRank", "cclBufferSize"),
    one_of("topoType", 0, 1),
    positive("rankNumPerServer"),
    require("epWorldSize % rankNumPerServer == 0"),
)
rule("aclnnMoeEpCombine aclnnMoeEpDispatchEpilogue", *_BUFFERS, documented_dtypes())
rule(
    "aclnnMoeEpDispatch",
    *_BUFFERS,
    require("cachedDstSlotIdx is None or not doCpuSync", argument="doCpuSync"),
    together("cachedRouteCount", "cachedRouteDstScaleout", "cachedRouteScaleoutSlot"),
    when(
        "cachedDstSlotIdx is not None and topoType == 1 and epWorldSize // rankNumPerServer > 1",
        require("cachedRouteCount is not None", argument="cachedRouteCount"),
        word="hybrid",
    ),
    documented_dtypes(),
)
rule("aclnnMegaMoe", positive("moeExpertNum", "epWorldSize"), not_negative("maxRecvTokenNum"), documented_dtypes())
# As the fourth versions, with the addresses of all ranks' buffers in place of names of communicators.
rule(
    "aclnnMoeDistributeDispatchV5",
    documented_dtypes(),
    tiling(rank(2, "x", "expertIds"), require("expertIds[0] == x[0]", "x.size > 0", "expertIds[1] > 0")),
    tiling(require("tpWorldSize < 2")),
    define(parts="max(tpWorldSize, 1)"),
    *_ROOM,
    nullable="dynamicScalesOut expandScalesOut tpRecvCountsOut",
    aliases=_RESULTS,
)
rule(
    "aclnnMoeDistributeCombineV5",
    documented_dtypes(),
    tiling(require("tpWorldSize < 2")),
    *_RETURNED,
    _BACK,
    infer_shape(xOut=_TOKENS),
)

# --------------------------------------------------------------------------------------------------- stored rows

rule("aclnnEngramFetch aclnnEngramFetchGrad aclnnEngramFetchWait", documented_dtypes())
