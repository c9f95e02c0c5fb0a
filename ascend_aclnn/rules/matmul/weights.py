"""Rules of products with packed, quantised, sparse and compressed weights, and of making such weights."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.matmul.quant import PRODUCT

# --------------------------------------------------------------------------------------------------- first version


def _items(name: str, axis: str = "-1") -> Check:
    """One item, or one for each column; a number counts as absent."""
    return when(f"len({name}) > 0", require(f"{name}[{axis}] in (1, n)"))


rule(
    "aclnnWeightQuantBatchMatmul",
    dtypes("FLOAT16", "x1"),
    dtypes("INT8", "x2"),
    dtypes("FLOAT", "bias"),
    dtypes("FLOAT16", "out"),
    rank(2, 8, "x1", "x2"),
    *PRODUCT,
    # Up to 64 rows the kernel dequantises on its own way and needs the fixpipe's parameters.
    when(
        "m <= 64",
        required("diagonalMatrix", "deqOffset", "deqScale", status=PARAM_INVALID),
        dtype_table("diagonalMatrix deqOffset deqScale", "INT8 INT32 UINT64"),
        has_shape(diagonalMatrix="(32, 32)"),
        _items("deqOffset"),
        _items("deqScale"),
    ),
    when(
        "m > 64",
        dtypes("FLOAT16", "addOffset", "mulScale"),
        _items("addOffset", axis="-2 if transposeX2 and len(addOffset) > 1 else -1"),
        _items("mulScale", axis="-2 if transposeX2 and len(mulScale) > 1 else -1"),
    ),
    _items("bias"),
    output_shape(out="(*batch, m, n)"),
    null_status=PARAM_INVALID,
)

# --------------------------------------------------------------------------------------------------- quantised weights

_WEIGHTS = {"A2 A3": "INT8 INT4 INT32", "310P": "INT8", "": "INT8 INT4 INT32 FLOAT8_E4M3FN HIFLOAT8 FLOAT4_E2M1 FLOAT"}
_SCALES = {"A2 A3": "FLOAT16 BF16 UINT64 INT64", "310P": "FLOAT16", "": "FLOAT16 BF16 FLOAT8_E8M0"}

rule(
    "aclnnWeightQuantBatchMatmulV2 aclnnWeightQuantBatchMatmulV3 aclnnWeightQuantBatchMatmulNz",
    only_products("A2 A3 310P 950"),
    dtypes({"310P": "FLOAT16", "": HALVES}, "x"),
    dtypes(_WEIGHTS, "weight"),
    dtypes(_SCALES, "antiquantScale"),
    dtypes({"A2 A3": "FLOAT16 BF16 INT8", "310P": "FLOAT16", "": HALVES}, "y"),
    when("quantScaleOptional is None", same_dtype("x", "y")),
    when("quantScaleOptional is not None", dtypes("INT8", "y")),
    on_products("310P", rank(2, 6, "x", "weight", "y")),
    when("product != '310P'", rank(2, "x", "weight", "y")),
    *matrix_product("x.unpacked", "weight.unpacked_weight"),
    require("m > 0", "k > 0", "n > 0"),
    on_products("A2 A3", require("k <= 65535", "n <= 65535", argument="weight")),
    when(
        "antiquantGroupSize > 0",
        require("32 <= antiquantGroupSize < k", "antiquantGroupSize % 32 == 0"),
        define(parts="ceil_div(k, antiquantGroupSize)"),
        require("antiquantScale in ((parts, n), (n, parts))"),
        word="groups",
    ),
    when("antiquantGroupSize <= 0", require("antiquantScale in ((n,), (1,), (1, 1), (1, n), (n, 1))")),
    same_shape("antiquantScale", "antiquantOffsetOptional"),
    require("biasOptional in ((n,), (1, n))"),
    output_shape(y="(*batch, m, n)"),
    on_operators("aclnnWeightQuantBatchMatmulV3", one_of("innerPrecise", 0, 1)),
)

# --------------------------------------------------------------------------------------------------- packed weights


# Eight 4-bit numbers lie in each 32-bit element.
rule(
    "aclnnConvertWeightToINT4Pack",
    contiguous("weight", "weightInt4Pack"),
    dtype_table("weight weightInt4Pack", "INT32 INT32/INT4", "FLOAT FLOAT/FLOAT4_E2M1"),
    formats("ND", "weight"),
    formats("ND FRACTAL_NZ", "weightInt4Pack"),
    rank(2, 3, "weight", "weightInt4Pack"),
    define(packs="8 if weightInt4Pack.dtype in (INT32, FLOAT) else 1"),
    require("weight[-1] % max(packs, 2) == 0", "weightInt4Pack[-2:] == (weight[-2], weight[-1] // packs)"),
    when(
        "weightInt4Pack.format == FRACTAL_NZ",
        define(
            blocks="weightInt4Pack.storage",
            width="(2 if product == '950' else 8) if packs == 8 else blocks[-1] if product == '950' else 64",
        ),
        require("len(weightInt4Pack.storage) in (4, 5)"),
        when(
            "weightInt4Pack.dtype in (INT4, INT32)",
            require(
                "weightInt4Pack.storage[-4:] == "
                "(ceil_div(weightInt4Pack[-1], max(width, 1)), ceil_div(weightInt4Pack[-2], 16), 16, width)"
            ),
        ),
    ),
    infer_shape(weightInt4Pack="(*weight[:-1], weight[-1] // 8)"),
)

# --------------------------------------------------------------------------------------------------- compressed weights

rule(
    "aclnnMatmulCompress",
    dtypes("FLOAT16", "x", "out"),
    dtypes("INT8", "weight", "compressIndex"),
    dtypes("FLOAT", "bias"),
    # The graph is not built for other ranks.
    with_status(
        INNER_NULLPTR,
        rank(2, "x", "out"),
        rank(1, "weight", "bias", "compressIndex"),
        require("out[1] == bias[0]"),
    ),
    infer_shape(out="(x[0], bias[0])"),
)
# compressInfo holds tiles of rows, tiles of columns, rows, columns and the tiling's size.
rule(
    "aclnnMatmulCompressDequant",
    dtypes("INT8", "x1", "x2", "compressIndex"),
    dtypes("INT32", "bias"),
    dtypes("UINT64", "deqScale"),
    dtypes("FLOAT16", "out"),
    rank(2, "x1"),
    rank(1, "x2"),
    require("compressInfo[2] == x1[1]"),
    infer_shape(out="(x1[0], compressInfo[3])"),
)
rule(
    "aclnnSparse4to2QuantMatmulWeightNz",
    only_products("A2 A3"),
    rank(2, "sparseWeight"),
    define(n="sparseWeight[0]", k="sparseWeight[1]"),
    require("sparseWeight.storage == (ceil_div(k, 32), ceil_div(n, 16), 16, 32)"),
    rank(2, "x", "index", "out"),
    rank(1, "biasOptional", "xScale", "sparseWeightScale"),
    dtype_table(
        "x sparseWeight index biasOptional xScale sparseWeightScale out", "INT8 INT8 UINT8 BF16 FLOAT FLOAT BF16"
    ),
    formats("ND", "x", "index", "xScale", "sparseWeightScale", "biasOptional", "out"),
    # Two of four weights are kept, so the weight has half the columns of x.
    require("2 * k == ceil_div(x[1], 8) * 8", argument="sparseWeight"),
    require("x[1] <= 65535", "sparseWeight[1] <= 65535"),
    has_shape(biasOptional="(n,)", sparseWeightScale="(n,)", xScale="(x[0],)"),
    output_shape(out="(x[0], n)"),
    not_empty("x", "sparseWeight"),
)
