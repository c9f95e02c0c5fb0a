"""Rules of products on Ascend 950: of operands with shared exponents, and permuted ones."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.matmul.common import TRANSPOSES, mx_operands, not_given, product_of, product_shape_of
from ascend_aclnn.rules.matmul.fused import permuted_product


def _permuted_quant_out(call: Call) -> Shape:
    batch, rows, _, wide = permuted_product(call)
    return rows, batch, wide


_PERMUTED_QUANT = (
    only_products("950"),
    documented_dtypes(),
    rank(3, 3, "x1", "x2"),
    array_length("permX1", 3),
    array_length("permX2", 3),
    array_length("permY", 3),
    not_given("bias"),
    one_of("batchSplitFactor", 1),
    output_shape(out=_permuted_quant_out),
    when(
        "x2Scale.dtype == FLOAT8_E8M0",
        required("x1Scale", status=PARAM_INVALID),
        dtypes("FLOAT8_E8M0", "x1Scale"),
        define(
            pairs="ceil_div(x1[permX1[2]], 64)",
            left="tuple(x1[axis] for axis in permX1)",
            right="tuple(x2[axis] for axis in permX2)",
        ),
        rank(4, 4, "x1Scale", "x2Scale"),
        require(
            "tuple(x1Scale[axis] for axis in permX1) == (*left[:2], pairs)",
            "tuple(x2Scale[axis] for axis in permX2) == (right[0], pairs, right[2])",
            "x1Scale[3] == 2",
            "x2Scale[3] == 2",
        ),
    ),
    when(
        "x2Scale.dtype != FLOAT8_E8M0",
        require("x1Scale in ((x1[permX1[1]],), (1,))", "x2Scale == (x2[permX2[2]],)"),
    ),
    output_dtype(out=lambda call: DataType(call["dtype"]) if call["dtype"] in (0, 1, 27) else DataType.FLOAT16),
)
rule("aclnnTransposeQuantBatchMatMul", *_PERMUTED_QUANT)
rule("aclnnTransposeQuantBatchMatMulWeightNz", *_PERMUTED_QUANT, formats("FRACTAL_NZ", "x2"))

rule(
    "aclnnQuantBatchMatmulInplaceAdd",
    only_products("950"),
    documented_dtypes(),
    rank(2, 2, "x1", "x2", "yRef"),
    output_shape(yRef=product_shape_of("x1", "x2", *TRANSPOSES)),
    when("x2Scale.dtype == FLOAT8_E8M0", *mx_operands("x1ScaleOptional", "x2Scale")),
)
rule(
    "aclnnDualLevelQuantMatmulWeightNz",
    only_products("950"),
    documented_dtypes(),
    one_of("transposeX1", False),
    one_of("level0GroupSize", 512),
    one_of("level1GroupSize", 32),
    rank(2, 2, "x1", "x2", "out"),
    one_of("transposeX2", True),
    output_shape(out=product_shape_of("x1", "x2", *TRANSPOSES)),
    has_shape(
        x1Level0Scale="(x1[0], ceil_div(x1[1], 512))",
        x2Level0Scale="(ceil_div(x1[1], 512), x2[0])",
        x1Level1Scale="(x1[0], ceil_div(x1[1], 64), 2)",
        x2Level1Scale="(x2[0], ceil_div(x1[1], 64), 2)",
        optionalBias="(x2[0],)",
    ),
    output_dtype(out="BF16"),
)


def _activated_scale(call: Call) -> Shape:
    *batch, n = product_of(call, "x1", "x2", *TRANSPOSES).shape
    return (*batch, -(-n // 64), 2)


rule(
    "aclnnQuantMatmulActivationQuantWeightNz",
    only_products("950"),
    documented_dtypes(),
    output_shape(yOut=product_shape_of("x1", "x2", *TRANSPOSES)),
    infer_shape(yScaleOut=_activated_scale),
    *mx_operands("x1ScaleOptional", "x2Scale"),
    require("biasOptional in ((columns,), (1, columns), (*yOut[:-2], 1, columns))"),
    require("yScaleOut == (*yOut[:-1], ceil_div(columns, 64), 2)"),
    output_dtype(yOut=dtype_of("x1"), yScaleOut="FLOAT8_E8M0"),
)
