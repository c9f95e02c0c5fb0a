"""Rules of products fused with what stands before or behind them, and of those of weights that are split in two."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.matmul.core import cube_math_type_or_fp32_sums

# --------------------------------------------------------------------------------------------------- quantised result

rule(
    "aclnnBatchMatmulQuant",
    dtypes("FLOAT16", "x1", "x2", "bias"),
    dtypes("UINT64", "quantParam"),
    dtypes("INT8", "out"),
    rank(2, 6, "x1", "x2"),
    require("len(x2) == len(x1)"),
    *matrix_product("x1", "x2", "transposeX1", "transposeX2"),
    require("quantParam in ((1,), (ceil_div(n, 16) * 16,))"),
    has_shape(bias="(n,)"),
    require("out[len(x1) - 2:len(x1)] == (m, n)"),
    not_empty("x1", "x2"),
    infer_shape(out="(*batch, m, n)"),
)

# --------------------------------------------------------------------------------------------------- fused epilogues

rule(
    "aclnnFusedMatmul",
    one_of("fusedOpType", "", "16cast32", "add", "mul", "gelu_erf", "gelu_tanh", "relu"),
    when(
        "fusedOpType in ('gelu_erf', 'gelu_tanh')",
        with_status(PARAM_NULLPTR, absent("bias", why="before GELU")),
        rank(2, "x1", "x2"),
    ),
    when("fusedOpType in ('add', 'mul')", required("x3")),
    when("fusedOpType in ('', 'relu')", rank(2, 6, "x1", "x2")),
    when("fusedOpType in ('16cast32', 'add', 'mul')", rank(2, 3, "x1", "x2")),
    shape_patterns((0, 4), x1="* m k", x2="* k n"),
    require("len(y) == len(x1)", "y[:-2] == x1[:-2]"),
    require("x3 == y or (len(y) > 2 and x3[-2:] == y[-2:] and x3[:-2] in ((), (1,), y[:-2]))"),
    when("bias is not None", require("x1[-1] != 0")),
    rank(1, 2, "bias"),
    when("fusedOpType in ('', 'relu', 'add', 'mul')", dtypes(FLOATS, "x1")),
    when("fusedOpType in ('16cast32', 'gelu_erf', 'gelu_tanh')", dtypes(HALVES, "x1")),
    same_dtype("x1", "x2", "x3"),
    when("fusedOpType == '16cast32'", dtypes("FLOAT", "y")),
    when("fusedOpType != '16cast32'", same_dtype("x1", "y")),
    require("bias.dtype in (x1.dtype, FLOAT)"),
    when("x1.dtype == FLOAT", one_of("cubeMathType", 3)),  # HFLOAT32
    not_nz("x1", "x2", "bias", "x3", "y"),
    *cube_math_type("x1", "x2", least=-1),
    copied_output_shape(y="(*broadcast(x1[:-2], x2[:-2]), x1[-2], x2[-1])"),
    nullable="bias x3",
)

# --------------------------------------------------------------------------------------------------- fused losses

_PARTS = ("logitsMaxOptional", "sumExpLogitsOptional")
_LOSS_TENSORS = ("grad", "input", "weight", "targetMask", "maskedTarget", "inputGradOut", "weightGradOut")

rule(
    "aclnnFusedLinearCrossEntropyLossGrad",
    when("softmaxOptional is None", required(*_PARTS)),
    dtypes("FLOAT", "grad"),
    dtypes(HALVES, "input"),
    dtypes("BOOL UINT8", "targetMask"),
    dtypes(INDICES, "maskedTarget"),
    dtypes("FLOAT", "softmaxOptional"),
    when("softmaxOptional is None", dtypes("FLOAT", *_PARTS), formats("ND", *_PARTS), rank(1, *_PARTS)),
    same_dtype("input", "weight", "inputGradOut", "weightGradOut"),
    formats("ND", *_LOSS_TENSORS, "softmaxOptional"),
    one_of("labelSmoothing", 0),
    rank(1, "targetMask"),
    shape_patterns(grad="rows", input="rows width", weight="classes width"),
    when("softmaxOptional is not None", require("weight[0] >= 128")),
    # A bit for each row, or a byte.
    when("targetMask.dtype == BOOL", require("targetMask[0] == rows")),
    when("targetMask.dtype != BOOL", require("8 * targetMask[0] >= rows")),
    has_shape(maskedTarget="(rows,)", softmaxOptional="(rows, classes)"),
    when("softmaxOptional is None", has_shape(logitsMaxOptional="(rows,)", sumExpLogitsOptional="(rows,)")),
    output_shape(inputGradOut="(rows, width)", weightGradOut="(classes, width)"),
    unless_empty("input weight", with_status(RUNTIME_ERROR, only_products("A2 A3"))),
)

_MAX_SUM = ("logitsMaxLocalOut", "sumExpLogitsLocalOut", "predictedLogitsLocalOut")

rule(
    "aclnnFusedLinearOnlineMaxSum",
    dtypes(HALVES, "input"),
    dtypes(INDICES, "target"),
    same_dtype("input", "weight"),
    dtypes("FLOAT", *_MAX_SUM),
    dtypes("UINT8", "targetMaskOut"),
    same_dtype("target", "maskedTargetOut"),
    same_dtype("input", "vocabParallelLogitsOutOptional"),
    rank(2, "input", "weight"),
    require("weight[0] > 0", "input[1] <= 65534"),
    shape_patterns(
        input="rows width",
        weight="classes width",
        target="rows",
        logitsMaxLocalOut="rows",
        sumExpLogitsLocalOut="rows",
        predictedLogitsLocalOut="rows",
        targetMaskOut="ceil_div(rows,8)",
        maskedTargetOut="rows",
        vocabParallelLogitsOutOptional="rows classes",
    ),
    require("0 <= vocabStartIndex <= vocabEndIndex"),
)

# --------------------------------------------------------------------------------------------------- rotation

# The columns of x are rotated in parts, by one matrix or (Ascend 950) one for each part.
rule(
    "aclnnRotateQuant",
    only_products("A2 A3 950"),
    dtypes(HALVES, "x"),
    same_dtype("x", "rotation"),
    dtypes({"950": "FLOAT4_E2M1 FLOAT8_E4M3FN FLOAT8_E5M2", "": "INT32 INT8"}, "yOut"),
    dtypes({"950": "FLOAT8_E8M0", "": "FLOAT"}, "scaleOut"),
    define(part="rotation[-1]", columns="x[-1]"),
    on_products(
        "950",
        rank(1, 7, "x"),
        rank(2, 3, "rotation"),
        require(
            "rotation[-1] in (32, 64, 128)",
            "x[-1] % part == 0",
            "rotation == ((part, part) if len(rotation) == 2 else (columns // part, part, part))",
        ),
        output_shape(yOut="x", scaleOut="(*x[:-1], ceil_div(columns, 64), 2)"),
        dtypes("BF16", "alpha"),
        has_shape(alpha="(1,)"),
        output_dtype(yOut="FLOAT8_E4M3FN", scaleOut="FLOAT8_E8M0"),
    ),
    when(
        "product != '950'",
        rank(2, "x", "rotation", "yOut"),
        require("x[1] % 8 == 0", "rotation[1] > 0", "x[1] % part == 0", "rotation == (part, part)"),
        # An INT32 holds eight 4-bit numbers.
        output_shape(yOut="(x[0], columns // 8) if yOut is not None and yOut.dtype == INT32 else x", scaleOut="x[:1]"),
        absent("alpha", why="with integer outputs"),
        output_dtype(yOut="INT8", scaleOut="FLOAT"),
    ),
    not_nz("x", "rotation", "yOut", "scaleOut"),
    require("axis in (-1, len(x) - 1)"),
    when("yOut.dtype in FLOAT8S", one_of("roundMode", "rint", "")),
    when("yOut.dtype not in FLOAT8S", one_of("roundMode", "rint", "floor", "round", "")),
    require("scaleAlg in ((0, 2) if yOut.dtype == FLOAT4_E2M1 else (0, 1) if product == '950' else (0,))"),
    when("scaleAlg == 2", in_range("dstTypeMax", 6, 12)),
    when("scaleAlg != 2", one_of("dstTypeMax", 0)),
    one_of("trans", False),
)

# --------------------------------------------------------------------------------------------------- permutation

# Operands of batched products in any order of their axes.
PERMUTED_SIZES = (
    rank(3, "x1", "x2"),
    one_of("permX1", (1, 0, 2), (0, 1, 2)),
    one_of("permX2", (0, 1, 2), (0, 2, 1)),
    one_of("permY", (1, 0, 2)),
    define(batch="x1[permX1[0]]", m="x1[permX1[1]]", k="x1[permX1[2]]", n="x2[permX2[2]]"),
    require("x2[permX2[1]] == k"),
    tiling(require("x2[permX2[0]] == batch")),
)

_HALF_OUT = "FLOAT16 BF16 INT8"
rule(
    "aclnnTransposeBatchMatMul aclnnTransposeBatchMatMulWeightNz",
    rank(3, "x1", "x2"),
    *cube_math_type_or_fp32_sums("x1", "x2"),
    not_nz("x1", "out"),
    same_dtype("x1", "x2"),
    define(nz="x2.format == FRACTAL_NZ"),
    when("nz", only_products("A2 A3 950"), dtypes(HALVES, "x1")),
    dtypes(FLOATS, "x1"),
    dtypes("INT64 UINT64", "scale"),
    when("scale is not None", dtypes("FLOAT16", "x1")),
    when("nz", dtypes(_HALF_OUT, "out")),
    dtypes("FLOAT " + _HALF_OUT, "out"),
    on_products("A2 A3", when("nz", same_dtype("x1", "out"))),
    *PERMUTED_SIZES,
    # With scale the batch lies in the columns; batchSplitFactor splits it.
    when("scale is not None", one_of("batchSplitFactor", 1)),
    has_shape(scale="(batch * n,)"),
    # The kernels of the other products address axes with 16 bits, but where x1 is read in blocks.
    define(blocks="permX1 == (1, 0, 2) and scale is None and batchSplitFactor == 1"),
    when(
        "product != '950'",
        require("max(n, batch) < 65536", argument="x2"),
        when("scale is not None", require("batch * n < 65536", argument="x2")),
        when("not blocks", require("k < 65536", argument="x1")),
        when("permX1 == (1, 0, 2) and not blocks", require("batch * k < 65536", argument="x1")),
        when("permX2 == (0, 2, 1)", require("blocks", argument="permX2", why="with this x1, scale and split")),
    ),
    not_empty("x1", "x2"),
    absent("bias"),
    require("batchSplitFactor > 0", "batch % batchSplitFactor == 0", argument="batchSplitFactor"),
    output_shape(
        out="(m, 1, batch * n) if scale is not None else (m, batch, n) if batchSplitFactor == 1 else "
        "(batchSplitFactor, m, batch * n // batchSplitFactor)"
    ),
    on_operators(
        "aclnnTransposeBatchMatMulWeightNz",
        formats("FRACTAL_NZ", "x2"),
        require("1 not in x2[1:]", "len(x2.storage) == 5"),
    ),
    output_dtype(out="x1.dtype if scale is None else INT8"),
)

# --------------------------------------------------------------------------------------------------- split weights

rule(
    "aclnnMatmulEmuSplitWeight",
    dtypes("BF16", "x", "wHigh", "wLow"),
    one_of("yDtype", 0),
    dtypes("FLOAT", "y"),
    formats("ND", "x", "wHigh", "wLow", "y"),
    require("abs(wLowScale - 2.0**-8) <= 1e-7"),
    rank(2, "x", "wHigh", "wLow", "y"),
    not_empty("x", "wHigh"),
    shape_patterns(x="m k", wHigh="k n", wLow="k n", y="m n"),
)

# --------------------------------------------------------------------------------------------------- experimental

rule(
    "aclnnFusedMatmulGelu",
    only_products("A2 A3 950"),
    dtypes(HALVES, "x"),
    same_dtype("x", "weight", "bias", "y"),
    rank(2, 8, "x"),
    rank(2, "weight"),
    require("weight[1] == x[-1]", "weight[0] > 0", "weight[1] > 0"),
    has_shape(bias="(weight[0],)"),
    output_shape(y="(*x[:-1], weight[0])"),
    one_of("approximate", 1),
    nullable="bias",
)
rule(
    "aclnnFusedPatchMlp",
    documented_products,
    documented_dtypes(),
    dtype_table(
        "x weights biases out", "FLOAT16 FLOAT16 FLOAT16 FLOAT16", "BF16 BF16 FLOAT BF16", "FLOAT FLOAT FLOAT FLOAT"
    ),
    tiling(
        positive("numLayers"),
        rank(2, 8, "x"),
        rank(1, "weights", "biases"),
        require("biases[0] > 0", "biases[0] % numLayers == 0"),
        define(hidden="biases[0] // numLayers if numLayers > 0 else 0"),
        require("weights[0] == (x[-1] + (numLayers - 1) * hidden) * hidden"),
        not_empty("x"),
        output_shape(out="(*x[:-1], hidden)"),
    ),
)
rule(
    "aclnnMatmulFp32",
    only_products("A2"),
    dtypes("FLOAT", "x1", "x2", "biasOptional", "out"),
    formats("ND", "x1", "x2", "biasOptional", "out"),
    tiling(
        rank(2, "x1", "x2"),
        define(k="x1[0] if transposeX1 else x1[1]", n="x2[0] if transposeX2 else x2[1]"),
        require("k == (x2[1] if transposeX2 else x2[0])", argument="x2"),
        has_shape(biasOptional="(n,)"),
        output_shape(out="(x1[1] if transposeX1 else x1[0], n)"),
    ),
)
rule(
    "aclnnWeightQuantBatchMatmulExperiment",
    only_products("A2 A3"),
    dtypes("FLOAT16", "x", "antiquantScale", "out"),
    dtypes("INT4", "weight"),
    tiling(
        formats("ND", "x", "weight", "out"),
        rank(2, "x", "weight"),
        require("weight[0] == x[1]", "x[1] % 128 == 0"),
        has_shape(antiquantScale="(x[1] // 128, weight[1])"),
    ),
    output_shape(out="(x[0], weight[1])"),
    output_dtype(out="FLOAT16"),
)
