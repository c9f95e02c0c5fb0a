"""Rules of products of quantised operands."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID, PARAM_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.language import *

# --------------------------------------------------------------------------------------------------- first versions

rule(
    "aclnnQuantMatmul aclnnQuantMatmulV2",
    dtypes("INT8", "x1", "x2"),
    dtypes("INT32", "bias"),
    on_operators("aclnnQuantMatmulV2", dtypes("UINT64", "deqScale"), not_nz("deqScale"), rank(1, "deqScale")),
    dtypes("FLOAT16", "out"),
    not_nz("x1", "x2", "bias", "out"),
    rank(2, 3, "x1", "x2"),
    require("x2[:-2][:len(x1) - 2] == x1[:-2]"),
    on_operators("aclnnQuantMatmul", *matrix_product("x1", "x2")),
    on_operators("aclnnQuantMatmulV2", *matrix_product("x1", "x2", "adjX1", "adjX2")),
    has_shape(bias="(n,)"),
    output_shape(out="(*batch, m, n)"),
    on_operators("aclnnQuantMatmulV2", has_shape(deqScale="(ceil_div(n, 16) * 16,)")),
    with_status(RUNTIME_ERROR, only_products("A2 A3")),
    null_status=INNER_NULLPTR,
)

# --------------------------------------------------------------------------------------------------- scales per token and channel

# Weights may be packed: eight numbers of 4 bits in 32.
PRODUCT = matrix_product("x1.unpacked", "x2.unpacked_weight", "transposeX1", "transposeX2")


def mx_operands(x1_scale: str, x2_scale: str) -> tuple[Check, ...]:
    """Blocks of 32 with shared exponents: scales lie as their operands do, pairs of them in place of the summed axis."""
    return (
        required(x1_scale, status=PARAM_INVALID),
        dtypes("FLOAT8_E8M0", x1_scale, x2_scale),
        rank(2, 6, "x1", "x2"),
        define(
            pairs="ceil_div(x1[-2] if transposeX1 else x1[-1], 64)",
            rows="x1[-1] if transposeX1 else x1[-2]",
            columns="x2[-2] if transposeX2 else x2[-1]",
        ),
        has_shape(
            **{
                x1_scale: "(*x1[:-2], pairs, rows, 2) if transposeX1 else (*x1[:-2], rows, pairs, 2)",
                x2_scale: "(*x2[:-2], columns, pairs, 2) if transposeX2 else (*x2[:-2], pairs, columns, 2)",
            }
        ),
    )


_INT4 = define(int4="x1.dtype in (INT4, INT32) and x2.dtype in (INT4, INT32)")
_PER_TOKEN = ("BF16 BF16/FLOAT INT32/BF16/FLOAT", "FLOAT16 FLOAT INT32/FLOAT16/FLOAT")
_PER_CHANNEL = (
    "INT32 FLOAT/BF16 INT32",
    "BF16 FLOAT/BF16 INT32/BF16/FLOAT",
    "INT8 UINT64/INT64 INT32",
    "FLOAT16 UINT64/INT64 INT32",
)
# What the cubes of A2, A3 and 310P take; Ascend 950 is checked against the document alone.
_QUANT_DTYPES = (
    with_status(RUNTIME_ERROR, only_products("A2 A3 310P 950")),
    on_products("950", documented_dtypes()),
    when(
        "product != '950'",
        when("product == '310P' or not int4", dtypes("INT8", "x1", "x2")),
        dtypes("FLOAT", "x1Scale"),
        when(
            "int4 and x1Scale is None",
            dtype_table("x2Scale bias out", "UINT64/INT64 INT32 FLOAT16/BF16"),
            word="int4",
        ),
        when(
            "x1Scale is not None",
            on_products("310P", dtype_table("out x2Scale bias", "FLOAT16 FLOAT INT32")),
            on_products("A2 A3", dtype_table("out x2Scale bias", *_PER_TOKEN)),
            word="x1-scale",
        ),
        when(
            "x1Scale is None and not int4",
            dtype_table("out x2Scale bias", *_PER_CHANNEL),
            when("out.dtype in HALVES", absent("offset", why="with an output of FLOAT16 or BF16")),
            when("out.dtype == INT8", dtypes("FLOAT", "offset")),
            word="no-x1-scale",
        ),
    ),
)
# Scales have one item, or one for each row of x1 and each column of x2; bias one for each column.
_QUANT_SHAPES = (
    rank(2, 6, "x1", "out"),
    *PRODUCT,
    when(
        "product != '950'",
        when(
            "x1Scale is None or len(x1Scale) < 2",
            require("len(x2Scale) in (1, len(x2))", "x2Scale[0] in (1, n)", "x1Scale in ((m,), (1,))"),
            rank(1, "offset"),
            require("offset[0] in (1, n)"),
        ),
        when("x1Scale is None or len(x1Scale) < 2", tiling(require("x2Scale.size in (1, n)"))),
        require("bias == (n,) or (len(batch) == 1 and bias == (*batch, 1, n))"),
        when(
            "int4",
            rank(2, "x2"),
            require("k % 2 == 0", "(k if transposeX2 else n) % 2 == 0", "not transposeX1", argument="x2"),
        ),
    ),
    # A 2-D product may also be written as (rows, 1, columns).
    require("out == (*batch, m, n) or (len(x1) == len(x2) == 2 and out == (m, 1, n))"),
)
_QUANT_FORMATS = (
    on_products("310P", formats("FRACTAL_NZ", "x2")),
    when(
        "product != '310P'",
        formats("ND", "x1"),
        formats("ND FRACTAL_NZ", "x2"),
        formats("ND", "x1Scale", "x2Scale", "offset", "bias"),
    ),
)
# Rows of 8 bits by packed weights of 4 bits on A2 and A3, with scales of columns or of 256 of the inner axis.
_WIDE_BY_NARROW = (
    rank(2, "x1", "x2", "out"),
    required("x1Scale", "yOffset", status=PARAM_INVALID),
    absent("yScale", "x1Offset", "offset", "bias"),
    dtypes("FLOAT", "x1Scale", "yOffset"),
    dtypes("UINT64 INT64", "x2Scale"),
    dtypes(HALVES, "out"),
    formats("ND", "x1", "x2", "x1Scale", "x2Scale", "yOffset", "out"),
    one_of("transposeX1", False),
    one_of("transposeX2", False),
    *PRODUCT,
    require("0 < k <= 29576", argument="x1"),
    require("n > 0", argument="x2"),
    rank(1, 2, "x2Scale"),
    when("len(x2Scale) == 1", require("k % 2 == 0", argument="x1"), one_of("groupSize", 0)),
    when("len(x2Scale) == 2", require("k % 256 == 0", argument="x1"), one_of("groupSize", 256)),
    has_shape(
        x1Scale="(m,) if len(x2Scale) == 1 else (m, 1)",
        x2Scale="(n,) if len(x2Scale) == 1 else (k // 256, n)",
        yOffset="(n,)",
        out="(m, n)",
    ),
)
# The storage of x2 holds it in blocks of 16 rows and 32 bytes.
_NZ_WEIGHT = (
    rank(2, 99, "x2"),
    define(
        stored="x2.unpacked[:-2] + x2.unpacked[:-3:-1] if x2.transposed else x2.unpacked",
        width="64 if x2.dtype in (INT4, INT32) else 32",
        tiled="prod(stored[:-2]) * ceil_div(stored[-2], 16) * 16 * ceil_div(stored[-1], width) * width",
    ),
    when("product != '950'", require("prod(x2.storage) * (8 if x2.dtype == INT32 else 1) == tiled")),
    require("1 not in x2[-2:]"),
)

_V5 = "aclnnQuantMatmulV5 aclnnQuantMatmulWeightNz"
rule(
    f"aclnnQuantMatmulV3 aclnnQuantMatmulV4 {_V5}",
    on_operators("aclnnQuantMatmulWeightNz", *_NZ_WEIGHT),
    _INT4,
    on_operators(_V5, define(wide_by_narrow="product in ('A2', 'A3') and x1.dtype == INT8 and x2.dtype == INT32")),
    define(wide_by_narrow="False"),
    when("product != '950' and not wide_by_narrow", absent_or_empty("yScale", "x1Offset", "yOffset")),
    on_operators(_V5, when("wide_by_narrow", *_WIDE_BY_NARROW, word="wide-by-narrow")),
    when(
        "not wide_by_narrow",
        *_QUANT_DTYPES,
        *_QUANT_SHAPES,
        *_QUANT_FORMATS,
        when("product != '950'", not_empty("x1", "x2")),
        word="alike",
    ),
    on_operators(
        _V5,
        when(
            "product == '950' and x2Scale.dtype == FLOAT8_E8M0",
            *mx_operands("x1Scale", "x2Scale"),
            require("bias in ((columns,), (1, columns), (*out[:-2], 1, columns))"),
        ),
    ),
    infer_shape(out="(*batch, m, n)"),
    output_dtype(out="BF16 if x2Scale.dtype in (BF16, FLOAT) else FLOAT16"),
    aliases={"x1Scale": "pertokenScaleOptional", "x2Scale": "scale", "offset": "x2Offset"},
)

# --------------------------------------------------------------------------------------------------- fused

_LATER = ("yScaleOptional", "x1OffsetOptional", "x2OffsetOptional", "yOffsetOptional", "x3Optional")

rule(
    "aclnnFusedQuantMatmul aclnnFusedQuantMatmulWeightNz",
    only_products("A2 A3"),
    on_operators("aclnnFusedQuantMatmulWeightNz", *_NZ_WEIGHT),
    one_of("fusedOpType", "gelu_erf", "gelu_tanh"),
    with_status(PARAM_NULLPTR, absent_or_empty(*_LATER), one_of("groupSizeOptional", 0)),
    rank(2, 6, "x1", "out"),
    rank(1, "x1Scale", "x2Scale"),
    dtype_table("x1 x2", "INT8 INT8", "INT4/INT32 INT4/INT32"),
    *matrix_product("x1.unpacked", "x2.unpacked"),
    has_shape(x1Scale="(m,)"),
    require("x2Scale in ((n,), (1,))"),
    dtypes("FLOAT", "x1Scale"),
    dtype_table("out x2Scale biasOptional", *_PER_TOKEN),
    require("biasOptional[-1] == n"),
    output_shape(out="(*batch, m, n)"),
    not_empty("x1", "x2"),
    output_dtype(out="BF16 if x2Scale.dtype in (BF16, FLOAT) else FLOAT16"),
)

rule(
    "aclnnQuantMatmulDequant",
    one_of("transposeWeight", True),
    with_status(PARAM_NULLPTR, absent_or_empty("biasOptional", "xOffsetOptional")),
    same_dtype("x", "out"),  # the other dtypes are compared, but nothing comes of it
    only_products("310P"),
    unless_empty(
        "x weight weightScale",
        contiguous("out", "weight"),
        formats("ND FRACTAL_NZ", "weight"),
        when("weight.format == ND", rank(2, "weight"), require("weight[0] % 16 == 0", "weight[1] % 16 == 0")),
        when("weight.format == FRACTAL_NZ", rank(4, "weight")),
    ),
    tiling(rank(2, "x"), when("len(weight) == 2", require("weight[1] == x[1]", "weightScale.size == weight[0]"))),
    infer_shape(out="(x[0], weight[0] if len(weight) == 2 else weightScale[0])"),
)
rule(
    "aclnnQuantMatmulReduceSumWeightNz",
    absent_or_empty("yScale", "x1Offset", "x2Offset", "yOffset", "bias"),
    one_of("transposeX1", False),
    one_of("transposeX2", False),
    require("groupSize <= 0"),
    one_of("keepDims", False),
    dtypes("INT8", "x1", "x2"),
    dtypes("FLOAT", "x1Scale"),
    dtypes("BF16", "x2Scale", "out"),
    not_nz("x1", "x1Scale", "x2Scale", "out"),
    formats("FRACTAL_NZ", "x2"),
    shape_patterns(x1="batch m k", x2="batch k n", x2Scale="n", x1Scale="batch m"),
    infer_shape(out="(x1[1], x2[2])"),
)
