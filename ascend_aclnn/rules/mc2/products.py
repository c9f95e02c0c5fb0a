"""Rules of products with a collective before or after them: gather, scatter, all to all."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_ERROR, INNER_NULLPTR, PARAM_INVALID
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.mc2.common import COMM_MODE, communicator, stop_on_failure, whole_or_transposed

# --------------------------------------------------------------------------------------------------- gather, scatter

_INNER_AXIS = (
    rank(2, "x1", "x2"),
    not_transposed("x1"),
    require("x2[0] == x1[1]", "256 <= x1[1] < 65535"),
)
_COLUMNS = require("output[1] == x2[1]")
_GATHERED = unless_empty("gatherOut", require("gatherOut[1] == x1[1]"))
_NAMES = ("x1", "x2", "output", "bias")
_16_BITS = (dtypes(HALVES, *_NAMES), same_dtype(*_NAMES), stop_on_failure, require("x1[1] != 0"))

rule(
    "aclnnAllGatherMatmul",
    *_16_BITS,
    unless_empty("x1", *_INNER_AXIS, _COLUMNS, _GATHERED, whole_or_transposed("x2")),
)
rule("aclnnMatmulReduceScatter", *_16_BITS, unless_empty("x1 x2", *_INNER_AXIS, _COLUMNS, whole_or_transposed("x2")))

_SMALL = f"{HALVES} {FLOAT8S} FLOAT4_E2M1"
# Ascend 950: operands of 16 bits, or small floats with scales.
_SMALL_FLOATS = (
    when("x1.dtype in HALVES", same_dtype("x1", "x2", "output", "bias")),
    when(
        "x1.dtype not in HALVES",
        when("x1.dtype in (HIFLOAT8, FLOAT4_E2M1)", same_dtype("x1", "x2")),
        dtypes("FLOAT", "bias"),
        require("x1Scale is not None", "x2Scale is not None"),
    ),
)
rule(
    "aclnnAllGatherMatmulV2",
    required("commMode", status=INNER_NULLPTR),
    only_products("A2 A3 950"),
    on_products(
        "A2 A3", one_of("commMode", "aiv"), dtypes(HALVES + " INT8 INT4", "x1", "x2"), dtypes(HALVES, "output")
    ),
    on_products("950", dtypes(_SMALL, "x1", "x2"), dtypes(FLOATS, "output", "bias"), *_SMALL_FLOATS),
    stop_on_failure,
    # x2 may be given transposed, as its shape tells.
    define(moved="x1[1] != x2[0] and x1[1] == x2[1]", columns="x2[0] if moved else x2[1]"),
    on_products(
        "A2 A3",
        rank(2, "x1", "x2"),
        not_transposed("x1"),
        require("x1[1] in tuple(x2)", argument="x2"),
        _GATHERED,
        require("output[1] == columns"),
        when("not moved", whole_or_transposed("x2")),
    ),
    on_products(
        "950",
        formats("ND", "x1", "x2", "output", "bias", "gatherOut", "amaxOut"),
        unless_empty("x1", *_INNER_AXIS, _COLUMNS, one_of("commMode", "ai_cpu", "ccu")),
    ),
    nullable="commMode gatherOut",
)
rule(
    "aclnnMatmulReduceScatterV2",
    with_status(INNER_ERROR, only_products("A2 A3 950")),
    on_products("A2 A3", dtypes(HALVES + " INT8", "x1", "x2"), dtypes(HALVES, "output"), dtypes(FLOATS, "bias")),
    on_products("950", dtypes(_SMALL, "x1", "x2"), dtypes(FLOATS, "output", "bias")),
    stop_on_failure,
    on_products("950", required("commMode"), one_of("commMode", "ai_cpu", "ccu")),
    on_products("A2 A3", *_INNER_AXIS, whole_or_transposed("x2")),
    on_products("950", unless_empty("x1 x2", *_INNER_AXIS, *_SMALL_FLOATS)),
    nullable="commMode",
)

# --------------------------------------------------------------------------------------------------- all to all

# x2 is looked at before everything else.
_X2 = (
    required("x2"),
    not_empty("x2"),
    rank(2, "x2"),
    on_products("950", require("not (transposeX2 and x2.transposed)", argument="x2")),
    when("product != '950'", contiguous("x2")),
    define(moved="transposeX2 != x2.transposed", k="x2[1] if moved else x2[0]", n="x2[0] if moved else x2[1]"),
)
_NOT_EMPTY = (
    require("x1[1] > 0", "k > 0", "n > 0", argument="x1"),
    when("product != '950'", require("x1[0] > 0")),
)
_BIAS = (rank(1, "biasOptional"), has_shape(biasOptional="(n,)"))
# Rows are exchanged for columns before the product, so only the communicator knows how long x1's are then.
_SHAPES_AFTER_EXCHANGE = (rank(2, "x1", "x2", "output", "alltoAllOutOptional"), *_BIAS)
_SHAPES_BEFORE_EXCHANGE = (
    rank(2, "x1", "x2", "output"),
    require("k == x1[1]", argument="x2"),
    require("1 <= x1[1] <= 65535"),
    *_BIAS,
)
# x1 has as many elements as x2 has rows times out's.
_EXCHANGED = infer_shape(output="(x1.size // k if k else 0, n)", alltoAllOutOptional="None")


def _exchange(axes: str) -> tuple[Check, ...]:
    return (
        array_length("alltoAllAxesOptional", 2),
        require(f"alltoAllAxesOptional == {axes}"),
        one_of("transposeX1", False),
        *communicator("group", null=PARAM_INVALID),
    )


_BEFORE, _AFTER = _exchange("(-2, -1)"), _exchange("(-1, -2)")
_TENSORS = ("x1", "x2", "output", "alltoAllOutOptional")
rule(
    "aclnnAlltoAllMatmul aclnnAlltoAllMatmulV2",
    *_X2,
    *_NOT_EMPTY,
    *_SHAPES_AFTER_EXCHANGE,
    dtypes(HALVES, *_TENSORS),
    same_dtype(*_TENSORS),
    require("biasOptional.dtype in (FLOAT, x1.dtype)"),
    no_private_format("biasOptional", *_TENSORS),
    *_BEFORE,
    on_operators("aclnnAlltoAllMatmulV2", *COMM_MODE),
    _EXCHANGED,
    nullable="x2 group commMode",
)
rule(
    "aclnnMatmulAlltoAll aclnnMatmulAlltoAllV2",
    *_X2,
    *_NOT_EMPTY,
    *_SHAPES_BEFORE_EXCHANGE,
    dtypes(HALVES, "x1", "x2", "output"),
    same_dtype("x1", "x2", "output"),
    on_products("950", require("biasOptional.dtype in (FLOAT, x1.dtype)")),
    when("product != '950'", has_dtype("biasOptional", "FLOAT16 if x1.dtype == FLOAT16 else FLOAT")),
    no_private_format("x1", "x2", "biasOptional", "output"),
    *_AFTER,
    on_operators("aclnnMatmulAlltoAllV2", *COMM_MODE),
    nullable="x2 group commMode",
)

# Modes of scales: 2 for each column, 3 for each row, 6 for blocks (MX, Ascend 950, x2 transposed), 7 dynamic.
_SCALES = (
    when(
        "x1QuantMode == 6 and x2QuantMode == 6",
        require("transposeX2"),
        rank(3, "x1Scale", "x2Scale"),
        require("x1Scale[2] == 2", "x2Scale[2] == 2"),
    ),
    when("x2QuantMode == 2", rank(1, "x2Scale"), has_shape(x2Scale="(n,)")),
)
rule(
    "aclnnAlltoAllQuantMatmul aclnnAlltoAllQuantMatmulV2",
    *_X2,
    on_products("950", when("x1QuantMode == 6", required("x1Scale"))),
    *_NOT_EMPTY,
    on_products("950", *_SHAPES_AFTER_EXCHANGE, *_SCALES, documented_dtypes()),
    on_products(
        "A2",
        dtypes(HALVES + " INT4 INT32", "x1"),
        dtypes("INT8 INT4 INT32", "x2"),
        dtypes("FLOAT", "x2Scale"),
        dtypes(HALVES, "output"),
        when("x1QuantMode == 7", same_dtype("x1", "x1Scale")),
        when("x1QuantMode == 3", dtypes("FLOAT", "x1Scale")),
        same_dtype("x1", "alltoAllOutOptional"),
        tiling(rank(2, "x1"), *_SCALES),
    ),
    no_private_format("x1", "x2", "biasOptional", "x2Scale", "output", "alltoAllOutOptional"),
    *_BEFORE,
    on_operators("aclnnAlltoAllQuantMatmulV2", *COMM_MODE),
    _EXCHANGED,
    output_dtype(output="FLOAT16"),
    nullable="x2 group commMode",
    aliases={"x1Scale": "x1ScaleOptional"},
)
rule(
    "aclnnQuantMatmulAlltoAll aclnnQuantMatmulAlltoAllV2",
    *_X2,
    on_products("A2", required("biasOptional")),
    *_NOT_EMPTY,
    *_SHAPES_BEFORE_EXCHANGE,
    *_SCALES,
    when("x2QuantMode == 2", has_shape(x1Scale="(x1[0],)")),
    on_products("950", documented_dtypes()),
    when(
        "product != '950'",
        require("x1QuantMode == 3", "x2QuantMode == 2"),
        dtypes("INT8", "x1", "x2"),
        dtypes(HALVES, "output"),
        dtypes("FLOAT", "x1Scale", "x2Scale"),
        has_dtype("biasOptional", "FLOAT if output.dtype == BF16 else output.dtype"),
    ),
    no_private_format("x1", "x2", "biasOptional", "x1Scale", "x2Scale", "output"),
    *_AFTER,
    on_operators("aclnnQuantMatmulAlltoAllV2", *COMM_MODE),
    nullable="x2 group commMode",
)

# --------------------------------------------------------------------------------------------------- batches of experts

_WORLDS = (2, 4, 8, 16, 32)


def _experts(shard: str) -> tuple[Check, ...]:
    """Bias and attributes; ``shard`` is the attribute that says which axis the devices of a tensor group share."""
    return (
        has_dtype("biasOptional", "FLOAT if x.dtype == BF16 else FLOAT16"),
        one_of(shard, 0, 1),
        one_of("actType", 0, 1, 2, 3, 4),
        one_of("epWorldSize", *_WORLDS),
        one_of("tpWorldSize", *_WORLDS),
        rank(3, "x", "weight"),
    )


_SIZES_OF_WEIGHT = require("1 <= weight[0] <= 32", "1 <= weight[2] <= 65535")
rule(
    "aclnnAlltoAllAllGatherBatchMatMul",
    *communicator("groupEp", "groupTp"),
    dtypes(HALVES, "x", "weight", "y1Out", "y2OutOptional", "y3OutOptional"),
    same_dtype("x", "weight", "y1Out", "y2OutOptional", "y3OutOptional"),
    *_experts("xShardType"),
    define(rows="x[1] * epWorldSize * (1 if xShardType == 0 else tpWorldSize)"),
    require("weight[0] * epWorldSize == x[0]", "weight[1] == x[2] * (tpWorldSize if xShardType == 0 else 1)"),
    output_shape(y1Out="(weight[0], rows, weight[2])"),
    require("biasOptional in ((weight[0], weight[2]), (weight[0], 1, weight[2]))"),
    require("2 <= x[0] <= 512", "x[1] > 0", "1 <= weight[1] <= 65535"),
    _SIZES_OF_WEIGHT,
    has_shape(y2OutOptional="(weight[0], rows, weight[1])", y3OutOptional="(weight[0], rows, weight[2])"),
    when("actType == 0", absent("y3OutOptional", why="without an activation")),
    only_products("A2 A3"),
    infer_shape(y2OutOptional="None", y3OutOptional="None"),
    nullable="groupEp groupTp",
)
rule(
    "aclnnBatchMatMulReduceScatterAlltoAll",
    *communicator("groupEp", "groupTp"),
    dtypes(HALVES, "x", "weight", "out"),
    same_dtype("x", "weight", "out"),
    *_experts("yShardType"),
    require("weight[0] == x[0]", "weight[1] == x[2]"),
    define(
        row_parts="epWorldSize * (1 if yShardType == 0 else tpWorldSize)",
        column_parts="tpWorldSize if yShardType == 0 else 1",
    ),
    require("x[1] % row_parts == 0", "weight[2] % column_parts == 0"),
    output_shape(out="(x[0] * epWorldSize, x[1] // row_parts, weight[2] // column_parts)"),
    require("biasOptional in ((weight[0], out[-1]), (weight[0], 1, out[-1]))"),
    require("2 <= out[0] <= 512", "out[1] > 0", "1 <= x[2] <= 65535"),
    _SIZES_OF_WEIGHT,
    only_products("A2 A3"),
    nullable="groupEp groupTp",
)

# ------------------------------------------------------------------------------------------------- the tutorial's sum

rule(
    "aclnnAllGatherAdd",
    documented_dtypes(),
    rank(2, "a", "b"),
    require("a[0] * rankSize == b[0]", "b[1] == a[1]"),
    output_shape(cOut="b", gatherOutOut="b"),
    output_dtype(cOut="a", gatherOutOut="a"),
    *communicator("group"),
    tiling(not_empty("a")),
)
