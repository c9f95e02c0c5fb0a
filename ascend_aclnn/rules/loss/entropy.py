"""Rules of the cross entropies."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- binary


# ------------------------------------------------------------------------------------------------- of classes


_TARGET: DtypeSet = {"950": INDICES, "": "INT64"}
_REDUCTION = one_of("reductionOptional", "mean", "sum", "none")
_EACH_ROW = "(reductionOptional is not None and reductionOptional == 'none')"


def _class_weights(logits: str) -> tuple[Check, ...]:
    """target has one class for every row of the logits, weight one number for every class."""
    return (
        rank(2, logits),
        rank(1, "target", "weightOptional"),
        has_shape(target=f"({logits}[0],)", weightOptional=f"({logits}[1],)"),
    )


rule(
    "aclnnCrossEntropyLoss",
    only_products("A2 A3 950"),
    dtype_table(
        "input target weightOptional lossOut logProbOut zlossOut lseForZlossOut",
        "T I FLOAT T T T T",
        T=FLOATS,
        I=_TARGET,
    ),
    tiling(_REDUCTION, require("0 <= labelSmoothing < 1"), *_class_weights("input")),
    infer_shape(
        lossOut=f"(input[0],) if {_EACH_ROW} else (1,)",
        logProbOut="input",
        zlossOut="(1,)",
        lseForZlossOut="input[:1]",
    ),
)

rule(
    "aclnnCrossEntropyLossGrad",
    only_products("A2 A3 950"),
    dtype_table(
        "gradLoss logProb target weightOptional gradZlossOptional lseForZlossOptional out",
        "T T I FLOAT T T T",
        T=FLOATS,
        I=_TARGET,
    ),
    tiling(
        _REDUCTION,
        *_class_weights("logProb"),
        require(f"gradLoss.size == (logProb[0] if {_EACH_ROW} else 1)"),
    ),
    infer_shape(out="logProb"),
)
rule(
    "aclnnCrossEntropySumExpAndIndexLogit",
    only_products("950"),
    dtype_table(
        "vocabParallelLogits target globalLogitsMax "
        "predictedLogitsOut sumExpLogitsOut expLogitsOut targetOffsetOut targetMaskOut",
        "T INT32 T FLOAT FLOAT FLOAT INT32 INT32",
        T="FLOAT BF16",
    ),
    tiling(
        shape_patterns(vocabParallelLogits="n v", target="n", globalLogitsMax="n"),
        require("vocabParallelLogits[1] == vocabEndIndex - vocabStartIndex"),
    ),
    infer_shape(
        predictedLogitsOut="target",
        sumExpLogitsOut="target",
        expLogitsOut="vocabParallelLogits",
        targetOffsetOut="target",
        targetMaskOut="target",
    ),
)

rule(
    "aclnnFusedCrossEntropyLossWithMaxSum",
    dtypes("FLOAT", "logitsMax", "sumExpLogits", "predictedLogits", "lossOut"),
    when(
        "vocabParallelLogitsOptional is not None",
        dtypes(FLOATS, "vocabParallelLogitsOptional"),
        dtypes("FLOAT", "softMaxOutOptional"),
    ),
    rank(1, "logitsMax"),
    same_shape("logitsMax", "sumExpLogits", "predictedLogits"),
    output_shape(lossOut="logitsMax"),
    rank(2, "vocabParallelLogitsOptional"),
    same_shape("vocabParallelLogitsOptional", "softMaxOutOptional"),
    require("labelSmoothing == 0"),
    infer_shape(softMaxOutOptional="vocabParallelLogitsOptional"),
)
