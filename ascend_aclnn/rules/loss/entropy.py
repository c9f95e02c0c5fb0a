"""Rules of the cross entropies."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.loss.pointwise import NONE, reduction

_SELF_OR_ONE = f"self if reduction == {NONE} else ()"

# ------------------------------------------------------------------------------------------------- binary

rule(
    "aclnnBinaryCrossEntropy",
    dtypes(FLOATS_OF_PRODUCT, "self", "target", "out", "weight"),
    when("weight is not None", same_dtype("self", "target", "weight", "out")),
    same_shape("self", "target"),
    reduction,
    unless_empty(
        "self",
        tiling(broadcastable("weight", "self")),
        output_shape_relaxed(out=_SELF_OR_ONE),
    ),
    output_dtype(out=dtype_of("self")),
    null_status=INNER_NULLPTR,
)


rule(
    "aclnnBinaryCrossEntropyBackward",
    max_rank(8, "gradOutput", "self", "target", "weightOptional", "out"),
    dtypes(FLOATS_OF_PRODUCT, "self", "gradOutput", "target", "out", "weightOptional"),
    same_format("self", "target", "weightOptional"),
    unless_empty(
        "self",
        output_shape(out=shape_of("self")),
        broadcastable("target", "self"),
        broadcastable("weightOptional", "self"),
        broadcastable("gradOutput", "self"),
    ),
    reduction,
    castable(promoted("self", "target", "gradOutput", "weightOptional"), "out"),
    output_dtype(out=dtype_of("self")),
)


def _weights_broadcast(call: Call) -> None:
    """The weights and target broadcast to some shape; which one is not checked."""
    broadcast_shape("target", "weightOptional")(call)
    broadcast_shape("target", "posWeightOptional")(call)


rule(
    "aclnnBinaryCrossEntropyWithLogits",
    dtypes(FLOATS_OF_PRODUCT, "self", "target", "out"),
    same_dtype("target", "out"),
    reduction,
    max_rank(8, "self", "target", "weightOptional", "posWeightOptional"),
    same_shape("self", "target"),
    unless_empty("target", _weights_broadcast),
    unless_empty("self", tiling(broadcastable("weightOptional", "self"), broadcastable("posWeightOptional", "self"))),
    unless_empty("self", when(f"reduction == {NONE}", same_shape("self", "out"))),
    infer_shape(out=_SELF_OR_ONE),
    output_dtype(out=dtype_of("target")),
)
rule(
    "aclnnBinaryCrossEntropyWithLogitsBackward",
    max_rank(8, "gradOutput", "self", "target", "weightOptional", "posWeightOptional", "out"),
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "target", "weightOptional", "posWeightOptional", "out"),
    same_dtype("target", "out"),
    same_format("self", "target", "out"),
    unless_empty(
        "self",
        same_shape("self", "target"),
        output_shape(out=shape_of("self")),
        broadcastable("gradOutput", "self"),
        broadcastable("weightOptional", "self"),
        broadcastable("posWeightOptional", "self"),
    ),
    reduction,
    unless_empty(
        "self", castable(promoted("self", "target", "gradOutput", "weightOptional", "posWeightOptional"), "out")
    ),
    output_dtype(out=dtype_of("target")),
)

# ------------------------------------------------------------------------------------------------- of classes


def _target_columns(names: str, *rows: str) -> tuple[Check, Check]:
    """Rows with an INT64 target; Ascend 950 takes INT32 as well."""
    position = names.split().index("target")
    narrow = tuple(" ".join("INT32" if i == position else c for i, c in enumerate(row.split())) for row in rows)
    return dtype_table(names, *rows, products="A2 A3"), dtype_table(names, *rows, *narrow, products="950")


_REDUCTION = one_of("reductionOptional", "mean", "sum", "none")
_EACH_ROW = "(reductionOptional is not None and reductionOptional == 'none')"


def _class_weights(logits: str) -> tuple[Check, ...]:
    """target has one class for every row of the logits, weight one number for every class."""
    return (
        rank(2, 2, logits),
        rank(1, 1, "target", "weightOptional"),
        has_shape(target=f"({logits}[0],)", weightOptional=f"({logits}[1],)"),
    )


rule(
    "aclnnCrossEntropyLoss",
    only_products("A2 A3 950"),
    *_target_columns(
        "input target weightOptional lossOut logProbOut zlossOut lseForZlossOut",
        "FLOAT16 INT64 FLOAT FLOAT16 FLOAT16 FLOAT16 FLOAT16",
        "FLOAT INT64 FLOAT FLOAT FLOAT FLOAT FLOAT",
        "BF16 INT64 FLOAT BF16 BF16 BF16 BF16",
    ),
    tiling(_REDUCTION, require("0 <= labelSmoothing < 1"), *_class_weights("input")),
    infer_shape(
        lossOut=f"(input[0],) if {_EACH_ROW} else (1,)",
        logProbOut=shape_of("input"),
        zlossOut="(1,)",
        lseForZlossOut=shape_from(("input", 0)),
    ),
    output_dtype(**dict.fromkeys(("lossOut", "logProbOut", "zlossOut", "lseForZlossOut"), dtype_of("input"))),
)


rule(
    "aclnnCrossEntropyLossGrad",
    only_products("A2 A3 950"),
    *_target_columns(
        "gradLoss logProb target weightOptional gradZlossOptional lseForZlossOptional out",
        "BF16 BF16 INT64 FLOAT BF16 BF16 BF16",
        "FLOAT16 FLOAT16 INT64 FLOAT FLOAT16 FLOAT16 FLOAT16",
        "FLOAT FLOAT INT64 FLOAT FLOAT FLOAT FLOAT",
    ),
    tiling(
        _REDUCTION,
        *_class_weights("logProb"),
        require(f"gradLoss.size == (logProb[0] if {_EACH_ROW} else 1)"),
    ),
    infer_shape(out=shape_of("logProb")),
    output_dtype(out=dtype_of("logProb")),
)
rule(
    "aclnnCrossEntropySumExpAndIndexLogit",
    only_products("950"),
    dtype_table(
        "vocabParallelLogits target globalLogitsMax "
        "predictedLogitsOut sumExpLogitsOut expLogitsOut targetOffsetOut targetMaskOut",
        "FLOAT INT32 FLOAT FLOAT FLOAT FLOAT INT32 INT32",
        "BF16 INT32 BF16 FLOAT FLOAT FLOAT INT32 INT32",
    ),
    infer_shape(
        predictedLogitsOut=shape_of("target"),
        sumExpLogitsOut=shape_of("target"),
        expLogitsOut=shape_of("vocabParallelLogits"),
        targetOffsetOut=shape_of("target"),
        targetMaskOut=shape_of("target"),
    ),
)


rule(
    "aclnnFusedCrossEntropyLossWithMaxSum",
    dtypes("FLOAT", "logitsMax", "sumExpLogits", "predictedLogits", "lossOut"),
    when(
        "vocabParallelLogitsOptional is not None",
        dtypes("FLOAT FLOAT16 BF16", "vocabParallelLogitsOptional"),
        dtypes("FLOAT", "softMaxOutOptional"),
    ),
    rank(1, 1, "logitsMax"),
    same_shape("logitsMax", "sumExpLogits", "predictedLogits"),
    output_shape(lossOut=shape_of("logitsMax")),
    rank(2, 2, "vocabParallelLogitsOptional"),
    same_shape("vocabParallelLogitsOptional", "softMaxOutOptional"),
    require("labelSmoothing == 0"),
    infer_shape(softMaxOutOptional="vocabParallelLogitsOptional"),
    output_dtype(softMaxOutOptional="FLOAT", lossOut="FLOAT"),
)
