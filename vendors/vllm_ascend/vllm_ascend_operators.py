"""vllm-ascend 0.23.0's own operators on the emulated device: prototypes, rules and references, by what its sources say.

ascend-aclnn emulator run --cann 9.0.0 --operators vendors/vllm_ascend/vllm_ascend_operators.py -- PROGRAM
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import ml_dtypes
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.numerics import Array, round_into, widen
from ascend_aclnn.reference import reference
from ascend_aclnn.reference.moe.routing import init_routing_v3
from ascend_aclnn.rules.language import *

aclnn.register_operator("""
aclnnStatus aclnnAddRmsNormBiasGetWorkspaceSize(
    const aclTensor *x1, const aclTensor *x2, const aclTensor *gamma, const aclTensor *betaOptional, double epsilon,
    const aclTensor *yOut, const aclTensor *rstdOut, const aclTensor *xOut, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnAddRmsNormBias",
    only_products("A2 A3"),
    dtypes(FLOATS, "x1"),
    same_dtype("x1", "x2", "gamma", "betaOptional", "yOut", "xOut"),
    dtypes("FLOAT", "rstdOut"),
    tiling(
        rank(1, 8, "x1", "gamma"),
        same_shape("x1", "x2", "yOut", "xOut"),
        require("gamma == x1[len(x1) - len(gamma):]"),
        same_shape("gamma", "betaOptional"),
    ),
    infer_shape(yOut="x1", rstdOut="x1[:len(x1) - len(gamma)] + (1,) * len(gamma)", xOut="x1"),
)


@reference("aclnnAddRmsNormBias", raw=True)
def add_rms_norm_bias(
    x1: Array, x2: Array, gamma: Array, beta: Optional[Array], epsilon: float, *, out: Sequence[Optional[Array]]
) -> None:
    """y = x * rstd * gamma + beta, with x = x1 + x2 and rstd = 1 / sqrt(mean(x^2) + epsilon), over gamma's axes.

    The kernel rounds the sum and x * rstd to 16-bit inputs' type, and FLOAT16 also after the product with gamma.
    """

    def rounded(values: Array, *dtypes: object) -> Array:
        return widen(values.astype(x1.dtype)) if x1.dtype in dtypes else values

    x = rounded(widen(x1) + widen(x2), np.float16, ml_dtypes.bfloat16)
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    rstd = 1 / np.sqrt(np.mean(np.square(x), axis=axes, keepdims=True) + np.float32(epsilon))
    y = rounded(rounded(x * rstd, np.float16, ml_dtypes.bfloat16) * widen(gamma), np.float16)
    if beta is not None:
        y = y + widen(beta)
    for target, values in zip(out, (y, rstd, x)):
        if target is not None:
            round_into(target, values.reshape(target.shape))


# ------------------------------------------------------------------------------------------------- experts

aclnn.register_operator("""
aclnnStatus aclnnMoeInitRoutingCustomGetWorkspaceSize(
    const aclTensor *x, const aclTensor *expertIdx, const aclTensor *scaleOptional, const aclTensor *offsetOptional,
    int64_t activeNum, int64_t expertCapacity, int64_t expertNum, int64_t dropPadMode, int64_t expertTokensNumType,
    bool expertTokensNumFlag, int64_t quantMode, const aclIntArray *activeExpertRangeOptional, int64_t rowIdxType,
    const aclTensor *expandedXOut, const aclTensor *expandedRowIdxOut, const aclTensor *expertTokensCountOrCumsumOut,
    const aclTensor *expandedScaleOut, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnMoeInitRoutingCustom",
    only_products("A2 A3"),
    dtypes(f"{FLOATS} INT8", "x", "expandedXOut"),
    dtypes("INT32", "expertIdx", "expandedRowIdxOut"),
    dtypes("FLOAT", "scaleOptional", "offsetOptional", "expandedScaleOut"),
    dtypes("INT64", "expertTokensCountOrCumsumOut"),
    define(
        copies="expertIdx.size",
        start="0 if activeExpertRangeOptional is None else activeExpertRangeOptional[0]",
        end="expertNum if activeExpertRangeOptional is None else activeExpertRangeOptional[1]",
        active="copies if activeNum <= 0 else min(activeNum, copies)",
        rows="expertNum * expertCapacity if dropPadMode == 1 else active",
    ),
    tiling(
        rank(2, "x", "expertIdx"),
        require("expertIdx[0] == x[0]"),
        array_length("activeExpertRangeOptional", 2),
        require("expertNum > 0"),
        require("0 <= start", "start < end", "end <= expertNum", argument="activeExpertRangeOptional"),
        one_of("quantMode", -1, 0, 1),
        one_of("dropPadMode", 0, 1),
        one_of("expertTokensNumType", 0, 1, 2),
        when("quantMode == 0", require("scaleOptional is not None", "offsetOptional is not None")),
        output_shape(
            expandedXOut="(expertNum, expertCapacity, x[1]) if dropPadMode == 1 else (active, x[1])",
            expandedRowIdxOut="(copies,)",
            expertTokensCountOrCumsumOut="(expertNum, 2) if expertTokensNumType == 2 else (max(end - start, 0),)",
        ),
    ),
    infer_shape(expandedScaleOut="(rows,)"),
    output_dtype(expandedXOut="x.dtype if quantMode == -1 else INT8"),
)


@reference("aclnnMoeInitRoutingCustom", raw=True)
def moe_init_routing_custom(*arguments: Any, out: Sequence[Array]) -> list[Array]:
    """MoeInitRoutingV3 under another name: the sources are a copy of its kernels with other sorts."""
    return init_routing_v3(*arguments, out=out)[1]
