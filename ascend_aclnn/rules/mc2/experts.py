"""Rules of sending rows to experts and bringing them back, and of what keeps the devices in step."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    documented_dtypes,
    in_range,
    infer_shape,
    one_of,
    only_products,
    output_dtype,
    rule,
    shape_of,
)
from ascend_aclnn.rules.mc2.common import communicator, optional_communicator

# --------------------------------------------------------------------------------------------------- there and back


def _quantised(scales: str, required: str) -> Check:
    """Scales of what is quantised come out; an INT32 x (packed) brings its own."""

    def check(call: Call) -> None:
        text = "is None (a null pointer); with quantising it is required"
        packed = required != "" and call.dtype("x") is DataType.INT32
        if call["quantMode"] == 2 or packed:
            call.require(call.is_present(scales), scales, text, PARAM_NULLPTR)
        if packed:
            call.require(call.is_present(required), required, text, PARAM_NULLPTR)

    return check


for _version in ("", "V2", "V3", "V4"):
    _out = "Out" if _version else ""
    rule(
        "aclnnMoeDistributeDispatch" + _version,
        communicator("groupEp", long=PARAM_NULLPTR),
        _quantised("dynamicScales" + _out, "scalesOptional" if _version else ""),
        optional_communicator("groupTp", long=PARAM_NULLPTR),
        documented_dtypes(),
        nullable=f"groupEp groupTp dynamicScales{_out} expandScales{_out} tpRecvCounts{_out}",
    )


def _tokens(call: Call) -> Shape:
    """As many rows as there are lists of experts, of the width of what comes back."""
    return call.size("expertIds", 0), call.size("expandX", 1)


for _version in ("", "V2", "V3", "V4"):
    rule(
        "aclnnMoeDistributeCombine" + _version,
        communicator("groupEp"),
        optional_communicator("groupTp"),
        documented_dtypes(),
        infer_shape(x=_tokens, xOut=_tokens),
        nullable="groupEp groupTp",
    )


def _rows_of_norm(call: Call) -> Shape:
    return (*call.shape("residualX")[:-1], 1)


for _version in ("", "V2"):
    rule(
        "aclnnMoeDistributeCombineAddRmsNorm" + _version,
        communicator("groupEp", long=PARAM_INVALID),
        only_products("A3 950"),
        optional_communicator("groupTp"),
        documented_dtypes(),
        infer_shape(yOut=shape_of("residualX"), rstdOut=_rows_of_norm, xOut=shape_of("residualX")),
        output_dtype(rstdOut="FLOAT"),
        nullable="groupEp groupTp yOut rstdOut residualX gamma",
    )


def _filled(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            call.require(call[name].size > 0, name, "is empty")

    return check


rule(
    "aclnnMoeDistributeDispatchSetup",
    communicator("groupEp"),
    documented_dtypes(),
    nullable="groupEp",
)
rule(
    "aclnnMoeDistributeDispatchTeardown",
    only_products("950"),
    communicator("groupEp", long=PARAM_NULLPTR),
    documented_dtypes(),
    nullable="groupEp",
)
rule(
    "aclnnMoeDistributeCombineSetup",
    only_products("950"),
    communicator("groupEp"),
    _filled("expandX", "expertIds", "assistInfoForCombine", "quantExpandXOut", "commCmdInfoOut"),
    documented_dtypes(),
    nullable="groupEp",
)
rule(
    "aclnnMoeDistributeCombineTeardown",
    only_products("950"),
    communicator("groupEp"),
    documented_dtypes(),
    infer_shape(xOut=_tokens),
    nullable="groupEp",
)

# --------------------------------------------------------------------------------------------------- other devices

for _name in ("aclnnAttentionToFFN", "aclnnFFNToAttention"):
    rule(_name, communicator("group"), documented_dtypes(), nullable="group")
rule("aclnnMoeEpCombine", documented_dtypes())
rule("aclnnMoeEpDispatchEpilogue", documented_dtypes())
rule(
    "aclnnMoeUpdateExpert",
    documented_dtypes(),
    infer_shape(balancedExpertIds=shape_of("expertIds"), balancedActiveMask=shape_of("expertIds")),
    output_dtype(balancedActiveMask="BOOL"),
)

# --------------------------------------------------------------------------------------------------- stored rows

rule("aclnnEngramFetch", documented_dtypes())
rule("aclnnEngramFetchGrad", documented_dtypes())
rule("aclnnEngramFetchWait", documented_dtypes())

# --------------------------------------------------------------------------------------------------- in step

# The barriers only log that a communicator's name is empty or too long, and go on.
rule("aclnnDistributeBarrier aclnnDistributeBarrierV2", documented_dtypes())
rule(
    "aclnnElasticReceivableTest aclnnElasticReceivableInfoCollect",
    communicator("group", null=PARAM_INVALID),
    documented_dtypes(),
)
rule("aclnnMoeDistributeBufferReset", documented_dtypes())
rule(
    "aclnnBandwidthTest",
    communicator("group", long=PARAM_NULLPTR),
    in_range("worldSize", 1, 2**63 - 1),
    in_range("maxBs", 1, 2**63 - 1),
    one_of("mode", 0, 1),
    documented_dtypes(),
    nullable="group",
)
