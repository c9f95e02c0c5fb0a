"""Rules of products whose results are summed over the devices."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_ERROR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.mc2.common import COMM_MODE_WITHOUT_AIV, communicator, stop_on_failure, whole_or_transposed

_TYPES = {"310P": "FLOAT16", "": HALVES}
_SUM = (one_of("reduceOp", "sum"), stop_on_failure)
_ALIASES = {"bias": "biasOptional", "x3": "x3Optional", "scale": "dequantScale x2Scale"}
_SKIPPABLE = "bias biasOptional x3 x3Optional"

# x1 (..., k) by x2 (k, n); x2 may be given in tiles, on 310P with its axes swapped.
_SIZES = define(
    tiles="x2.format == FRACTAL_NZ and len(x2) == 4",
    swapped="product == '310P' and x2.format == FRACTAL_NZ",
    k="x2[1] * x2[2] if tiles else x2[1] if swapped else x2[0]",
    n="x2[0] * x2[3] if tiles else x2[0] if swapped else x2[1]",
)
_PRODUCT = (
    rank(2, 3, "x1"),
    when("not tiles", rank(2, "x2")),
    require("k == x1[-1]", argument="x2"),
    output_shape(output="(*x1[:-1], n)"),
)
_EXTRAS = has_shape(bias="(n,)", x3="(*x1[:-1], n)")

rule(
    "aclnnMatmulAllReduce aclnnMatmulAllReduceV2 aclnnMatmulAllReduceV3",
    dtypes(_TYPES, "x1", "x2", "output", "bias", "x3"),
    same_dtype("x1", "x2", "output", "bias", "x3"),
    *_SUM,
    on_products("A2 A3 950 910", when("len(x2.storage) == 4", require("x2.format != FRACTAL_NZ"))),
    _SIZES,
    *_PRODUCT,
    _EXTRAS,
    whole_or_transposed("x2"),
    on_products("310P", absent("x3", why="on 310P")),
    *COMM_MODE_WITHOUT_AIV,
    nullable="bias x3",
)

# --------------------------------------------------------------------------------------------------- quantised operands

_COMM_SCALES = ("commQuantScale1Optional", "commQuantScale2Optional")
_COMM_SCALE_TYPES = when(
    "commQuantScale1Optional is not None and commQuantScale2Optional is not None",
    dtypes(HALVES, *_COMM_SCALES),
    same_dtype("output", *_COMM_SCALES),
    word="comm-scales",
)
_OUTPUT = output_dtype(output="BF16 if scale.dtype == BF16 else FLOAT16")

rule(
    "aclnnQuantMatmulAllReduce aclnnQuantMatmulAllReduceV2 aclnnQuantMatmulAllReduceV3",
    dtypes("INT8", "x1", "x2"),
    dtypes({"310P": "UINT64 INT64", "": "UINT64 INT64 BF16 FLOAT"}, "scale"),
    dtypes(_TYPES, "output", "x3"),
    dtypes("INT32", "bias"),
    same_dtype("output", "x3"),
    when("output.dtype == BF16 or scale.dtype == BF16", same_dtype("output", "scale")),
    dtypes("FLOAT", "pertokenScaleOptional"),
    when("output.dtype == FLOAT16", same_dtype("scale", "pertokenScaleOptional")),
    _COMM_SCALE_TYPES,
    *_SUM,
    _SIZES,
    *_PRODUCT,
    on_operators("aclnnQuantMatmulAllReduce aclnnQuantMatmulAllReduceV2", not_empty("output")),
    _EXTRAS,
    require("scale in ((1,), (n,), (1, n))"),
    has_shape(pertokenScaleOptional="(prod(x1[:-1]),)"),
    together(*_COMM_SCALES),
    require(
        "commQuantScale1Optional in ((n,), (1, n))",
        "commQuantScale2Optional == commQuantScale1Optional",
    ),
    whole_or_transposed("x2"),
    _OUTPUT,
    nullable=_SKIPPABLE,
    aliases=_ALIASES,
)

_SMALL = f"{FLOAT8S} FLOAT4_E2M1"
rule(
    "aclnnQuantMatmulAllReduceV4 aclnnQuantMatmulAllReduceV5",
    dtypes("INT8 " + _SMALL, "x1", "x2"),
    dtypes("UINT64 INT64 BF16 FLOAT FLOAT8_E8M0", "scale"),
    when("x1.dtype == INT8", dtypes(HALVES, "output", "x3")),
    dtypes(FLOATS, "output", "x3"),
    dtypes("INT32 FLOAT", "bias"),
    same_dtype("output", "x3"),
    when("x1.dtype == INT8 and (output.dtype == BF16 or scale.dtype == BF16)", same_dtype("output", "scale")),
    dtypes("FLOAT FLOAT8_E8M0", "x1ScaleOptional"),
    _COMM_SCALE_TYPES,
    *_SUM,
    _SIZES,
    *_PRODUCT,
    not_empty("output"),
    _EXTRAS,
    when(
        "x1.dtype == INT8",
        require("scale in ((1,), (n,), (1, n))", "x1ScaleOptional in ((1,), (prod(x1[:-1]),))"),
    ),
    *COMM_MODE_WITHOUT_AIV,
    _OUTPUT,
    nullable=_SKIPPABLE,
    aliases=_ALIASES,
)


def _stored_as_x2(name: str) -> Check:
    """Scales of blocks are stored transposed exactly where x2 is."""
    return when(f"len({name}) == 2 and 1 not in tuple({name})", require(f"{name}.contiguous != x2.transposed"))


_ANTIQUANT = ("antiquantScale", "antiquantOffset")
rule(
    "aclnnWeightQuantMatmulAllReduce aclnnWeightQuantMatmulAllReduceV2",
    dtypes(_TYPES, "x1", "antiquantScale", "output", "antiquantOffset", "x3", "bias"),
    dtypes({"950": "INT8 INT4 FLOAT8_E4M3FN HIFLOAT8", "": "INT8 INT4"}, "x2"),
    same_dtype("x1", "antiquantScale", "output", "bias", "antiquantOffset", "x3"),
    *_SUM,
    when(
        "x1[-1] != 0 and antiquantGroupSize != 0",
        require("antiquantGroupSize % 32 == 0", "32 <= antiquantGroupSize <= min(x1[-1] - 1, 2**31 - 1)"),
    ),
    _SIZES,
    *_PRODUCT,
    not_empty("output"),
    _EXTRAS,
    when(
        "x1[-1] != 0",
        when("antiquantGroupSize == 0", require("antiquantScale in ((1,), (n,), (1, n))")),
        when("antiquantGroupSize != 0", has_shape(antiquantScale="(ceil_div(x1[-1], antiquantGroupSize), n)")),
        same_shape(*_ANTIQUANT),
        word="not-empty",
    ),
    on_products("A2 950", *map(_stored_as_x2, _ANTIQUANT)),
    whole_or_transposed("x2", *_ANTIQUANT),
    *COMM_MODE_WITHOUT_AIV,
    nullable=_SKIPPABLE,
)

# --------------------------------------------------------------------------------------------------- and normalised

rule(
    "aclnnMatmulAllReduceAddRmsNorm aclnnInplaceMatmulAllReduceAddRmsNorm aclnnQuantMatmulAllReduceAddRmsNorm "
    "aclnnInplaceQuantMatmulAllReduceAddRmsNorm aclnnWeightQuantMatmulAllReduceAddRmsNorm "
    "aclnnInplaceWeightQuantMatmulAllReduceAddRmsNorm",
    rank(1, 99, "x1", "x2", "residual"),
    require("x2[0] == x1[-1]", "residual[-1] == x2[-1]"),
    required("dequantScale", status=INNER_ERROR),
    require("x1[-1] != 0"),
    stop_on_failure,
    tiling(
        rank(3, "residual"),
        require("prod(residual[:-1]) == prod(x1[:-1])", "gamma[0] == residual[-1]"),
        require("dequantScale.size in (1, x2[1])"),
        when("antiquantGroupSize == 0", require("antiquantScale.size in (1, x2[1])")),
        when("antiquantGroupSize > 0", has_shape(antiquantScale="(ceil_div(x1[-1], antiquantGroupSize), x2[1])")),
    ),
    infer_shape(y="residual", normOut="residual"),
    output_dtype(y="residual", normOut="residual"),
    nullable="bias dequantScale y normOut",
)

# --------------------------------------------------------------------------------------------------- of groups

# splitItem: 0 separate x and y, 1 one x, 2 one y, 3 one of each.
rule(
    "aclnnGroupedMatMulAllReduce",
    stop_on_failure,
    one_of("commTurn", 0),
    one_of("reduceOp", "sum"),
    one_of("splitItem", 0, 1, 2, 3),
    define(one_x="splitItem in (1, 3)", one_y="splitItem in (2, 3)"),
    require(
        "1 <= len(weight) <= 64",
        "all(t is not None for t in x)",
        "all(t is not None for t in weight)",
        "all(t is not None for t in y)",
        "len(x) == (1 if one_x else len(weight))",
    ),
    when(
        "one_x",
        require(
            "groupListOptional is not None",
            "len(groupListOptional) == len(weight)",
            "groupListOptional == tuple(sorted(groupListOptional))",
        ),
        rank(2, "x"),
        require("groupListOptional[-1] == x[0][0]"),
    ),
    when("not one_x", require("len(groupListOptional) == 0")),
    require("len(y) == (1 if one_y else len(weight))"),
    when("splitItem == 0", rank(2, 6, "x")),
    when("splitItem != 0", rank(2, "x")),
    rank(2, "weight"),
    when("len(bias) > 0", require("len(bias) == len(weight)"), rank(1, "bias")),
    dtypes(HALVES, "x"),
    same_dtype("x", "x", "weight", "y"),
    when("x[0].dtype == BF16", dtypes("FLOAT", "bias")),
    when("x[0].dtype != BF16", dtypes("FLOAT16", "bias")),
    require("all(w[0] == t[-1] for t, w in zip(x * len(weight) if one_x else x, weight))", argument="weight"),
    when("splitItem == 0", output_shape(y="[(*t[:-1], w[1]) for t, w in zip(x, weight)]")),
    when(
        "splitItem == 1",
        output_shape(
            y="[(b - a, w[1]) for a, b, w in zip((0, *groupListOptional), groupListOptional, weight)]",
        ),
    ),
    when("splitItem == 2", output_shape(y="[(sum(t[0] for t in x), weight[0][1])]")),
    when("splitItem == 3", output_shape(y="[(groupListOptional[-1], weight[0][1])]")),
)

# --------------------------------------------------------------------------------------------------- of quantised values

_FLOAT8 = "FLOAT8_E4M3FN FLOAT8_E5M2"
_VALUES = (
    dtypes("FLOAT FLOAT8_E8M0", "scales"),
    when("scales.dtype == FLOAT8_E8M0", dtypes(_FLOAT8, "x")),
    dtypes(f"INT8 HIFLOAT8 {_FLOAT8}", "x"),
    dtypes(FLOATS, "output"),
)
rule(
    "aclnnQuantAllReduce",
    *_VALUES,
    no_private_format("x", "scales", "output"),
    *communicator("group"),
    tiling(rank(2, 3, "x"), rank(2, 4, "scales"), require("scales[:len(x) - 1] == x[:-1]")),
    infer_shape(output="x"),
    output_dtype(output="FLOAT16"),
)
rule("aclnnQuantReduceScatter", *_VALUES, *communicator("group"))
