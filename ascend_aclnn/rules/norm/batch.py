"""Rules of the batch norms: whole, in the parts that distributed training uses, and quantised; of the instance norm."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

_RUNNING = ("runningMean", "runningVar")
_SAVED = ("saveMean", "saveInvstd")

# Axis 1, or the last one of a channels-last tensor on Ascend 950.
_CHANNELS = define(channels="input[-1] if product == '950' and input.format in (NHWC, NDHWC) else input[1]")


def _per_channel(*names: str) -> Check:
    """Tensors have one item for every channel."""
    return has_shape(**dict.fromkeys(names, "(channels,)"))


_BOXES_OF_950 = on_products("950", when("len(input) == 5", formats("NCDHW NDHWC", "input")))

rule(
    "aclnnBatchNorm",
    _CHANNELS,
    when("training", required(*_SAVED)),
    unless_empty(
        "input",
        dtypes({"A2 A3 950": FLOATS, "910 310P": FLOATS_WITHOUT_BF16, "": ""}, "input", "output"),
        when("training", dtypes(FLOATS_OF_PRODUCT, *_SAVED)),
        dtypes(FLOATS_OF_PRODUCT, "weight", "bias", *_RUNNING),
        same_format("input", "output"),
        _BOXES_OF_950,
        on_products(PRODUCTS_BEFORE_950, when("len(input) == 5", formats("NCDHW", "input"))),
        no_private_format("input"),
        rank(2, 8, "input", "output"),
        output_shape(output="input"),
        _per_channel("weight", "bias", *_RUNNING),
        when("training", _per_channel(*_SAVED)),
    ),
    when("training", infer_shape(saveMean="(channels,)", saveInvstd="(channels,)")),
    output_dtype(output="input", saveMean="FLOAT", saveInvstd="FLOAT"),
)

# ------------------------------------------------------------------------------------------------- gradient

_BACKWARD = "aclnnBatchNormBackward"
_GRADS = ("gradInput", "gradWeight", "gradBias")
_WEIGHT_DTYPE = "weight if weight is not None else FLOAT"

rule(
    f"{_BACKWARD} aclnnFastBatchNormBackward",
    _CHANNELS,
    unless_empty(
        "input gradOut",
        with_status(PARAM_NULLPTR, require("len(outputMask) > 0"), on_products("950", array_length("outputMask", 3))),
        on_operators(_BACKWARD, on_products("950", same_dtype("gradWeight", "gradBias"))),
        conditional_outputs(gradInput="outputMask[0]", gradWeight="outputMask[1]", gradBias="outputMask[2]"),
        dtypes(FLOATS, "gradOut", "input", *_GRADS, "weight", *_RUNNING, *_SAVED),
        on_operators(
            _BACKWARD,
            dtypes(FLOATS_OF_PRODUCT, "gradOut", "input", *_GRADS, "weight", *_RUNNING, *_SAVED),
            # On Ascend 950 the small tensors are FLOAT or of gradOut's type, in pairs alike.
            on_products(
                "950",
                dtype_table("gradOut weight", "T T", "T FLOAT", T=FLOATS),
                dtype_table("gradOut runningMean runningVar", "T T T", "T FLOAT FLOAT", T=FLOATS),
                dtype_table("gradOut saveMean saveInvstd", "T T T", "T FLOAT FLOAT", T=FLOATS),
                dtype_table("weight gradWeight", "T T", "T FLOAT", T=FLOATS),
                dtype_table("weight gradBias", "T T", "T FLOAT", T=FLOATS),
                same_dtype("gradOut", "gradInput"),
            ),
        ),
        same_dtype("gradOut", "input"),
        same_format("gradOut", "input", "gradInput"),
        no_private_format("gradOut", "input"),
        rank(2, 8, "input", "gradOut"),
        same_shape("input", "gradOut", "gradInput"),
        _per_channel("weight", *_RUNNING),
        tiling(when("training", _per_channel(*_SAVED))),
        on_operators(
            _BACKWARD,
            _BOXES_OF_950,
            on_products(
                "950",
                when("training", _per_channel(*_SAVED)),
                when("not training", require(*(f"{name} in ((channels,), (0,))" for name in _SAVED))),
                _per_channel("gradWeight", "gradBias"),
            ),
        ),
    ),
    tiling(same_shape("input", "gradOut")),
    infer_shape(gradInput="input", gradWeight="(channels,)", gradBias="(channels,)"),
    output_dtype(gradInput="input", gradWeight=_WEIGHT_DTYPE, gradBias=_WEIGHT_DTYPE),
)

# ------------------------------------------------------------------------------------------------- elementwise part

rule(
    "aclnnBatchNormElemt",
    _CHANNELS,
    dtypes(FLOATS_OF_PRODUCT, "input", "weight", "bias", "mean", "invstd", "output"),
    same_format("input", "output"),
    no_private_format("input"),
    rank(2, 8, "input", "output"),
    output_shape(output="input"),
    require("input[1] != 0"),
    _per_channel("weight", "bias", "mean", "invstd"),
    null_status=PARAM_INVALID,
)
rule(
    "aclnnBatchNormElemtBackward",
    _CHANNELS,
    dtypes(FLOATS_OF_PRODUCT, "gradOut", "input", "mean", "invstd", "weight", "sumDy", "sumDyXmu", "gradInput"),
    dtypes(f"{FLOATS_WITHOUT_BF16} INT32", "counter"),
    no_private_format("gradOut", "input", "gradInput"),
    rank(2, 8, "input"),
    max_rank(8, "gradOut", "gradInput", "counter"),
    require("input[1] != 0"),
    same_shape("input", "gradOut"),
    output_shape(gradInput="input"),
    _per_channel("mean", "invstd", "weight", "sumDy", "sumDyXmu"),
)

# ------------------------------------------------------------------------------------------------- statistics

_SUMS = ("sumDy", "sumDyXmu", "gradWeight", "gradBias")
rule(
    "aclnnBatchNormReduceBackward",
    conditional_outputs(sumDy="inputG", sumDyXmu="inputG", gradWeight="weightG", gradBias="biasG"),
    dtypes(FLOATS_OF_PRODUCT, "gradOut", "input", "mean", "invstd", *_SUMS),
    same_dtype("gradOut", "input"),
    same_format("gradOut", "input"),
    no_private_format("gradOut", "input", "mean", "invstd", *_SUMS),
    rank(2, 8, "gradOut", "input"),
    require("input[1] != 0"),
    tiling(same_shape("gradOut", "input")),
    output_shape(**dict.fromkeys(_SUMS, "(input[1],)")),
    tiling(require("mean.size == input[1]", "invstd.size == input[1]", "weight.size == input[1]")),
    output_dtype(**dict.fromkeys(_SUMS, "mean")),
    nullable="weight",
)
rule(
    "aclnnBatchNormGatherStatsWithCounts",
    dtypes(FLOATS_OF_PRODUCT, "input", "mean", "invstd", *_RUNNING, "counts", "meanAll", "invstdAll"),
    no_private_format("input", "mean", "invstd", "counts"),
    rank(2, 8, "input"),
    rank(2, "mean", "invstd"),
    # mean and invstd have a row for every process, counts a number for each.
    has_shape(
        mean="(mean[0], input[1])",
        invstd="mean",
        counts="(mean[0],)",
        runningMean="(input[1],)",
        runningVar="(input[1],)",
    ),
    output_shape(meanAll="(input[1],)", invstdAll="(input[1],)"),
    output_dtype(meanAll="mean", invstdAll="mean"),
)
rule(
    "aclnnBatchNormReduce",
    unless_empty(
        "x sum squareSum",
        dtypes(FLOATS, "x"),
        dtypes("FLOAT", "sum", "squareSum"),
        formats("NCHW NHWC", "x"),
        formats("ND", "sum", "squareSum"),
        rank(4, "x"),
        define(channels="x[3] if x.format == NHWC else x[1]"),
        output_shape(sum="(channels,)", squareSum="(channels,)"),
    ),
)

_SYNC: DtypeSet = {"950": FLOATS, "": FLOATS_WITHOUT_BF16}
rule(
    "aclnnSyncBatchNormGatherStats",
    dtypes(_SYNC, "totalSum", "totalSquareSum"),
    dtypes({"950": f"{FLOATS} INT32", "": f"{FLOATS_WITHOUT_BF16} INT32"}, "sampleCount"),
    dtypes(_SYNC, "mean", "variance", "batchMean", "batchInvstd"),
    same_dtype("totalSum", "totalSquareSum", "mean", "variance"),
    same_dtype("batchMean", "batchInvstd"),
    no_private_format("totalSum", "totalSquareSum", "sampleCount", "mean", "variance"),
    shape_patterns(
        totalSum="processes c",
        totalSquareSum="processes c",
        sampleCount="processes",
        batchMean="c",
        batchInvstd="c",
        where="processes > 0",
    ),
    has_shape(mean="(c,)", variance="(c,)"),
)

# ------------------------------------------------------------------------------------------------- quantised, instance

rule(
    "aclnnQuantizedBatchNorm",
    _CHANNELS,
    not_empty("input", "mean", "var", "weight", "bias"),
    dtypes("INT8 UINT8 INT32", "input", "output"),
    same_format("input", "output"),
    no_private_format("input"),
    output_shape(output="input"),
    dtypes("FLOAT", "weight", "bias", "mean", "var"),
    _per_channel("weight", "bias", "mean", "var"),
    dtypes("FLOAT", "inputScale", "outputScale"),
    dtypes("INT32", "inputZeroPoint", "outputZeroPoint"),
    rank(4, "input"),
)
rule(
    "aclnnInstanceNorm",
    require("dataFormat.startswith(('NHWC', 'NCHW'))"),
    define(channels_last="dataFormat.startswith('NHWC')"),
    dtypes(FLOATS_WITHOUT_BF16, "x"),
    same_dtype("x", "gamma", "beta", "y", "mean", "variance"),
    max_rank(8, "x"),
    only_products("310P"),
    rank(4, "x"),
    rank(1, "gamma", "beta"),
    require("gamma[0] == (x[3] if channels_last else x[1])"),
    tiling(same_shape("gamma", "beta")),
    # One number for every image and channel.
    define(per_image="(x[0], 1, 1, x[3]) if channels_last else (x[0], x[1], 1, 1)"),
    infer_shape(y="x", mean="per_image", variance="per_image"),
)
