"""Rules of products on Ascend 950: of operands with shared exponents, and permuted ones."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.matmul.fused import PERMUTED_SIZES
from ascend_aclnn.rules.matmul.quant import PRODUCT, mx_operands

_MX = "x2Scale.dtype == FLOAT8_E8M0"

rule(
    "aclnnTransposeQuantBatchMatMul aclnnTransposeQuantBatchMatMulWeightNz",
    only_products("950"),
    documented_dtypes(),
    array_length("permX1", 3),
    array_length("permX2", 3),
    array_length("permY", 3),
    absent_or_empty("bias"),
    one_of("batchSplitFactor", 1),
    *PERMUTED_SIZES,
    output_shape(out="(m, batch, n)"),
    when(
        _MX,
        required("x1Scale", status=PARAM_INVALID),
        dtypes("FLOAT8_E8M0", "x1Scale"),
        define(pairs="ceil_div(k, 64)"),
        rank(4, "x1Scale", "x2Scale"),
        require(
            "tuple(x1Scale[axis] for axis in permX1) == (batch, m, pairs)",
            "tuple(x2Scale[axis] for axis in permX2) == (x2[permX2[0]], pairs, n)",
            "x1Scale[3] == 2",
            "x2Scale[3] == 2",
        ),
    ),
    when(f"not ({_MX})", require("x1Scale in ((m,), (1,))", "x2Scale == (n,)")),
    on_operators("aclnnTransposeQuantBatchMatMulWeightNz", formats("FRACTAL_NZ", "x2")),
    output_dtype(out="FLOAT if dtype == 0 else BF16 if dtype == 27 else FLOAT16"),
)
rule(
    "aclnnQuantBatchMatmulInplaceAdd",
    only_products("950"),
    documented_dtypes(),
    rank(2, "x1", "x2", "yRef"),
    *PRODUCT,
    output_shape(yRef="(m, n)"),
    when(
        "x1.dtype == HIFLOAT8",
        dtypes("HIFLOAT8", "x2"),
        dtypes("FLOAT", "x1ScaleOptional", "x2Scale"),
        require("x1ScaleOptional == (1,)", "x2Scale == (1,)"),
    ),
    when(_MX, *mx_operands("x1ScaleOptional", "x2Scale")),
)
rule(
    "aclnnDualLevelQuantMatmulWeightNz",
    only_products("950"),
    documented_dtypes(),
    one_of("transposeX1", False),
    one_of("level0GroupSize", 512),
    one_of("level1GroupSize", 32),
    rank(2, "x1", "x2", "out"),
    one_of("transposeX2", True),
    *PRODUCT,
    output_shape(out="(m, n)"),
    has_shape(
        x1Level0Scale="(x1[0], ceil_div(x1[1], 512))",
        x2Level0Scale="(ceil_div(x1[1], 512), x2[0])",
        x1Level1Scale="(x1[0], ceil_div(x1[1], 64), 2)",
        x2Level1Scale="(x2[0], ceil_div(x1[1], 64), 2)",
        optionalBias="(x2[0],)",
    ),
    output_dtype(out="BF16"),
)
rule(
    "aclnnQuantMatmulActivationQuantWeightNz",
    only_products("950"),
    documented_dtypes(),
    *PRODUCT,
    output_shape(yOut="(*batch, m, n)"),
    infer_shape(yScaleOut="(*batch, m, ceil_div(n, 64), 2)"),
    *mx_operands("x1ScaleOptional", "x2Scale"),
    require("biasOptional in ((columns,), (1, columns), (*yOut[:-2], 1, columns))"),
    require("yScaleOut == (*yOut[:-1], ceil_div(columns, 64), 2)"),
    output_dtype(yOut="x1", yScaleOut="FLOAT8_E8M0"),
)
