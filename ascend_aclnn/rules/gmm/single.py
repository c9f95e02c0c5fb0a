"""Rules of grouped products with single tensors: added to what is there, or dequantised."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

# --------------------------------------------------------------------------------------------------- added

rule(
    "aclnnGroupedMatmulAdd aclnnGroupedMatmulAddV2",
    formats("ND", "x", "weight", "groupList"),
    formats("ND NCL", "yRef"),
    rank(2, "x", "weight"),
    rank(1, "groupList"),
    require("weight[0] == x[0]", "yRef.size == x[1] * weight[1] * groupList[0]"),
    on_products("950", has_shape(yRef="(groupList[0], x[1], weight[1])")),
    dtypes("FLOAT", "yRef"),
    dtypes("INT64", "groupList"),
    dtypes(HALVES, "x"),
    same_dtype("x", "weight"),
    on_operators("aclnnGroupedMatmulAddV2", one_of("groupListType", 0, 1)),
    one_of("groupType", 2),
    one_of("transposeX", True),
    one_of("transposeWeight", False),
)


rule(
    "aclnnQuantGroupedMatmulInplaceAdd",
    required("x1", "x2"),
    required("scale2", "groupList", "yRef", "scale1Optional", status=PARAM_INVALID),
    unless_empty(
        "yRef",
        only_products("950"),
        one_of("groupListType", 0, 1),
        one_of("groupSize", 0),
        formats("ND", "x1", "x2", "groupList"),
        formats("ND NCL", "scale1Optional", "scale2", "yRef"),
        rank(2, "x1", "x2"),
        rank(1, "groupList"),
        require("x2[0] == x1[1]"),
        has_shape(yRef="(groupList[0], x1[0], x2[1])"),
        dtypes("FLOAT", "yRef"),
        dtypes("INT64", "groupList"),
        when("x1.dtype == HIFLOAT8 or x2.dtype == HIFLOAT8", dtypes("HIFLOAT8", "x1", "x2")),
        dtypes("FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8", "x1", "x2"),
        when(
            "x1.dtype != HIFLOAT8",
            dtypes("FLOAT8_E8M0", "scale1Optional", "scale2"),
            # A group has a pair of exponents for each 64 of its part of the inner axis, begun ones included.
            has_shape(
                scale1Optional="(x1[0], x1[1] // 64 + groupList[0], 2)", scale2="(x1[1] // 64 + groupList[0], x2[1], 2)"
            ),
        ),
        require("x1.transposed"),
        not_transposed("x2"),
    ),
    nullable="x1 x2 scale1Optional scale2 groupList yRef",
)

# --------------------------------------------------------------------------------------------------- dequantised

rule(
    "aclnnQuantGroupedMatmulDequant aclnnQuantGroupedMatmulDequantWeightNZ",
    on_operators("aclnnQuantGroupedMatmulDequantWeightNZ", require("len(weight.storage) == 5")),
    one_of("transposeWeight", True),
    with_status(PARAM_NULLPTR, absent("biasOptional", "xOffsetOptional")),
    only_products("310P"),
    same_dtype("x", "out"),
    dtype_table(
        "x weight weightScale groupList xScaleOptional smoothScaleOptional",
        "FLOAT16 INT8 FLOAT INT64 FLOAT FLOAT16",
        "FLOAT16 INT8 INT64 INT64 FLOAT16 FLOAT16",
    ),
    unless_empty(
        "x weight weightScale groupList",
        contiguous("weight", "out"),
        on_operators(
            "aclnnQuantGroupedMatmulDequant",
            when("weight.format == FRACTAL_NZ", require("len(weight.storage) == 5")),
            when("weight.format != FRACTAL_NZ", formats("ND NCL", "weight"), rank(3, "weight")),
        ),
    ),
    tiling(
        rank(2, "x", "weightScale"),
        has_shape(groupList="weightScale[:1]"),
        when("len(weight) == 3", require("weight[2] == x[1]", "weight[:2] == weightScale")),
    ),
    infer_shape(out="(x[0], weightScale[1])"),
)
