"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.numerics import Array, round_into, rounded_to, widen
from ascend_aclnn.reference import function_of, reference
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
    y_out, rstd_out, x_out = out
    stored = np.empty(x1.shape, x1.dtype) if x_out is None else x_out
    round_into(stored, widen(x1) + widen(x2))
    x = widen(stored)
    mean = np.add.reduce(np.square(x), axis=tuple(range(x.ndim - gamma.ndim, x.ndim)), keepdims=True) / np.float32(
        gamma.size
    )
    rstd = 1 / np.sqrt(mean + np.float32(epsilon))
    y = widen(rounded_to(x * rstd, x1.dtype)) * widen(gamma)
    if beta is not None:
        y = (widen(rounded_to(y, x1.dtype)) if x1.dtype == np.float16 else y) + widen(beta)
    for target, values in ((y_out, y), (rstd_out, rstd)):
        if target is not None:
            round_into(target, values.reshape(target.shape))


# ------------------------------------------------------------------------------------------------- quantised

_add_rms_norm_dynamic_quant = function_of("aclnnAddRmsNormDynamicQuantV2")

aclnn.register_operator("""
aclnnStatus aclnnRmsNormDynamicQuantGetWorkspaceSize(
    const aclTensor *x, const aclTensor *gamma, const aclTensor *smoothScale1Optional, const aclTensor *smoothScale2Optional,
    const aclTensor *betaOptional, double epsilon, const aclBoolArray *outputMaskOptional, int64_t dstType,
    const aclTensor *y1Out, const aclTensor *y2Out, const aclTensor *scale1Out, const aclTensor *scale2Out,
    uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnRmsNormDynamicQuant",
    only_products("A2 A3"),
    dtypes(HALVES, "x"),
    same_dtype("x", "gamma", "smoothScale1Optional", "smoothScale2Optional", "betaOptional"),
    dtypes("INT8 INT4", "y1Out"),
    same_dtype("y1Out", "y2Out"),
    dtypes("FLOAT", "scale1Out", "scale2Out"),
    tiling(
        require("epsilon > 0"),
        rank(1, 8, "x"),
        rank(1, "gamma"),
        require("gamma == x[-1:]"),
        same_shape("gamma", "smoothScale1Optional", "smoothScale2Optional", "betaOptional"),
        array_length("outputMaskOptional", 2),
        when(
            "outputMaskOptional is None and smoothScale1Optional is None",
            absent("smoothScale2Optional", why="as smooth_scale1 is"),
        ),
    ),
    define(
        second="outputMaskOptional[1] if outputMaskOptional is not None else smoothScale2Optional is not None",
    ),
    infer_shape(y1Out="x", y2Out="x if second else (1,)", scale1Out="x[:-1]", scale2Out="x[:-1]"),
    output_dtype(y1Out="INT8", y2Out="INT8"),
    replaces=True,
)


@reference("aclnnRmsNormDynamicQuant", raw=True, replaces=True)
def rms_norm_dynamic_quant(
    x: Array,
    gamma: Array,
    smooth1: Optional[Array],
    smooth2: Optional[Array],
    beta: Optional[Array],
    epsilon: float,
    mask: Optional[Sequence[bool]],
    dst_type: int,
    *,
    out: Sequence[Optional[Array]],
) -> Any:
    """AddRmsNormDynamicQuantV2 of x alone; kernels go by the outputs' data type, not by ``dst_type``."""
    y1, y2, scale1, scale2 = out
    arguments = (x, np.zeros_like(x), gamma, smooth1, smooth2, beta, epsilon, mask)
    return _add_rms_norm_dynamic_quant(*arguments, out=(y1, y2, None, scale1, scale2))
