"""Rules of the group norms, and of the fused SiLU / Swish forms."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.language import *

_GROUPS_OF_CHANNELS = (require("group > 0"), require("C % group == 0", argument="group"))

rule(
    "aclnnGroupNorm",
    dtypes(FLOATS_OF_PRODUCT, "self"),
    same_dtype("self", "gamma", "beta", "out", "meanOut", "rstdOut"),
    *_GROUPS_OF_CHANNELS,
    positive("eps"),
    rank(2, 8, "self"),
    output_shape(out="self", meanOut="(N, group)", rstdOut="(N, group)"),
    require("N == self[0]", "C == self[1]", "HxW == prod(self[2:])"),
    has_shape(gamma="(C,)", beta="(C,)"),
    same_format("self", "out"),
    no_private_format("self"),
    require("self.format not in (NHWC, HWCN, NDHWC)"),
    nullable="gamma beta",
)

_GRADS = ("gradInput", "gradGammaOut", "gradBetaOut")
_AFFINE_SHAPE, _AFFINE_DTYPE = "gamma if gamma is not None else (C,)", "gamma if gamma is not None else mean"

rule(
    "aclnnGroupNormBackward",
    # A null mask, or a null output that it asks for, is an invalid argument here, not a null pointer.
    required("outputMask", status=PARAM_INVALID),
    array_length("outputMask", 3),
    conditional_outputs(
        PARAM_INVALID, gradInput="outputMask[0]", gradGammaOut="outputMask[1]", gradBetaOut="outputMask[2]"
    ),
    dtypes(FLOATS_OF_PRODUCT, "gradOut"),
    on_products(PRODUCTS_BEFORE_950, same_dtype("gradOut", "input", "mean", "rstd", "gamma", *_GRADS)),
    on_products(
        "950",
        same_dtype("gradOut", "input", "gradInput"),
        dtype_table("gradOut mean", "T T", "T FLOAT", T=FLOATS),
        same_dtype("mean", "rstd", "gamma", "gradGammaOut", "gradBetaOut"),
    ),
    *_GROUPS_OF_CHANNELS,
    on_products("A2 A3", require("C // group <= 8000", argument="group"), require("C <= 240000")),
    max_rank(8, "gradOut"),
    require(
        "gradOut.size == N * C * HxW",
        "input.size == N * C * HxW",
        "mean.size == N * group",
        "rstd.size == N * group",
        "gamma.size == C",
    ),
    like(gradInput="input"),
    output_shape(gradGammaOut=_AFFINE_SHAPE, gradBetaOut=_AFFINE_SHAPE),
    output_dtype(gradGammaOut=_AFFINE_DTYPE, gradBetaOut=_AFFINE_DTYPE),
    nullable="outputMask",
)

# ------------------------------------------------------------------------------------------------- with SiLU

_SILU = (
    rank(2, 8, "self"),
    output_shape(out="self", meanOut="(self[0], group)", rstdOut="(self[0], group)"),
    has_shape(gamma="(self[1],)", beta="(self[1],)"),
)
_SILU_ATTRIBUTES = (
    positive("group"),
    on_products(PRODUCTS_BEFORE_950, require("self[0] > 0", "self[1] > 0")),
    positive("eps"),
    require("self[1] % group == 0", argument="group"),
)
# On Ascend 950 mean and rstd are as wide as gamma.
_STATISTICS_DTYPE = "gamma if product == '950' and gamma is not None else self"

rule(
    "aclnnGroupNormSilu aclnnGroupNormSiluV2",
    dtypes(FLOATS_OF_PRODUCT, "self", "gamma", "beta"),
    when(
        "gamma is not None and beta is not None",
        dtype_table("self gamma beta", "T T T", "T FLOAT FLOAT", T=FLOATS),
    ),
    same_dtype("self", "out"),
    on_products(
        PRODUCTS_BEFORE_950,
        same_dtype("self", "meanOut", "rstdOut"),
        when("self.dtype == FLOAT", dtypes("FLOAT", "gamma", "beta")),
    ),
    on_products(
        "950",
        when("gamma.dtype != self.dtype", dtypes("FLOAT", "gamma", "meanOut", "rstdOut")),
        when("beta.dtype != self.dtype", dtypes("FLOAT", "beta", "meanOut", "rstdOut")),
    ),
    *_SILU,
    *_SILU_ATTRIBUTES,
    output_dtype(meanOut=_STATISTICS_DTYPE, rstdOut=_STATISTICS_DTYPE),
)
rule(
    "aclnnGroupNormSiluQuant",
    dtypes(HALVES, "self", "gamma", "beta"),
    dtypes("FLOAT", "quantScale"),
    when("gamma is not None and beta is not None", same_dtype("self", "gamma", "beta")),
    dtypes("INT8", "out"),
    same_dtype("self", "meanOut", "rstdOut"),
    *_SILU,
    require("quantScale in ((1,), (self[1],))"),
    *_SILU_ATTRIBUTES,
    one_of("activateSilu", True),
)

# ------------------------------------------------------------------------------------------------- with Swish

_SWISH = (
    rank(2, 8, "x"),
    positive("numGroups"),
    require("x[1] % numGroups == 0", argument="numGroups"),
    has_shape(gamma="(x[1],)", beta="(x[1],)"),
)
rule(
    "aclnnGroupNormSwish",
    only_products("A2 A3 950"),
    dtype_table("x gamma beta yOut meanOut rstdOut", "T T T T T T", "H FLOAT FLOAT H FLOAT FLOAT", T=FLOATS, H=HALVES),
    tiling(*_SWISH, output_shape(yOut="x", meanOut="(x[0], numGroups)", rstdOut="(x[0], numGroups)")),
)
rule(
    "aclnnGroupNormSwishGrad",
    only_products("A2 A3 950"),
    dtype_table("dy mean rstd x gamma beta dxOut dgammaOut dbetaOut", "T T T T T T T T T", T=FLOATS),
    tiling(
        *_SWISH,
        same_shape("x", "dy"),
        has_shape(mean="(x[0], numGroups)", rstd="(x[0], numGroups)"),
        output_shape(dxOut="x"),
    ),
    infer_shape(dgammaOut="gamma", dbetaOut="beta"),
)
