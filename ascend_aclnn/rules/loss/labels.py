"""Rules of the losses of labels: negative log likelihood, multi-label margin, CTC."""

from __future__ import annotations

from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.loss.pointwise import NONE, reduction

_CLASSES = "INT64 UINT8 INT32"

# One loss for every row of a 2-d self without a reduction, else one number.
_BY_ROW = f"reduction == {NONE} and len(self) == 2"
_SAMPLE_LOSS = f"self[:1] if {_BY_ROW} else ()"


def _per_sample(name: str) -> tuple[Check, ...]:
    return (
        when(_BY_ROW, has_shape(**{name: "self[:1]"})),
        when(f"not ({_BY_ROW})", require(f"len({name}) <= 1", f"{name}.size == 1")),
    )


# self is (classes) or (rows, classes), target one class for every row, weight one number for every class.
_ROWS = (rank(1, 2, "self"), rank(0, 1, "target"))
_WEIGHTS = has_shape(weight="self[-1:]")

rule(
    "aclnnNLLLoss",
    same_dtype("self", "weight"),
    castable("self", "out", "totalWeightOut"),
    dtypes(FLOATS_OF_PRODUCT, "self"),
    dtypes(_CLASSES, "target"),
    reduction,
    *_ROWS,
    require("len(target) == len(self) - 1", "target == self[:-1]"),
    _WEIGHTS,
    *_per_sample("out"),
    require("totalWeightOut.size == 1"),
    require("self[-1] > 0 or target.empty"),
    infer_shape(out=_SAMPLE_LOSS, totalWeightOut="()"),
    output_dtype(out="self", totalWeightOut="self"),
)
rule(
    "aclnnNLLLossBackward",
    same_dtype("self", "weight", "gradOutput", "totalWeight"),
    castable("self", "out"),
    dtypes(FLOATS_OF_PRODUCT, "self"),
    dtypes(_CLASSES, "target"),
    reduction,
    *_ROWS,
    require("(len(self) == 1 and len(target) == 0) or target == self[:1]", argument="target"),
    _WEIGHTS,
    require("totalWeight.size == 1"),
    *_per_sample("gradOutput"),
    like(out="self"),
)

# target holds a class for every pixel of self.
_PIXELS = shape_patterns(self="n c h w", target="n h w")
_WEIGHT_OF_CLASSES = require("weight.size == self[1]")

rule(
    "aclnnNLLLoss2d",
    dtypes(FLOATS_OF_PRODUCT, "self"),
    same_dtype("self", "weight"),
    castable("self", "out", "totalWeightOut"),
    dtypes(_CLASSES, "target"),
    reduction,
    rank(4, "self"),
    _WEIGHT_OF_CLASSES,
    _PIXELS,
    when(f"reduction == {NONE}", same_shape("target", "out")),
    when(f"reduction != {NONE}", require("out.size == 1")),
    require("totalWeightOut.size == 1"),
    infer_shape(out=f"target if reduction == {NONE} else ()", totalWeightOut="()"),
    output_dtype(out="self", totalWeightOut="self"),
)

rule(
    "aclnnNLLLoss2dBackward",
    dtypes(FLOATS_OF_PRODUCT, "self"),
    same_dtype("self", "gradOutput", "weight", "out", "totalWeight"),
    dtypes(_CLASSES, "target"),
    when(f"reduction == {NONE}", same_shape("target", "gradOutput")),
    when(f"reduction != {NONE}", require("len(gradOutput) <= 1", "gradOutput.size == 1")),
    _PIXELS,
    _WEIGHT_OF_CLASSES,
    output_shape(out="self"),
    require("totalWeight.size == 1"),
    reduction,
)

rule(
    "aclnnMultilabelMarginLoss",
    dtypes(FLOATS_OF_PRODUCT, "self"),
    dtypes("INT64 INT32", "target"),
    same_dtype("self", "out", "isTarget"),
    # self is a number, (classes) or (rows, classes); target has its shape.
    rank(0, 2, "self"),
    require("len(self) == 0 or self[-1] > 0"),
    when("len(self) == 2", same_shape("self", "target")),
    when("len(self) < 2", require("len(target) <= 1", "target.size == self.size")),
    *_per_sample("out"),
    when("len(self) == 2 and self[0] == 0", require("len(isTarget) <= 2", "isTarget.size == 0")),
    when("not (len(self) == 2 and self[0] == 0)", same_shape("target", "isTarget")),
    infer_shape(out=_SAMPLE_LOSS, isTarget="target"),
)

# ------------------------------------------------------------------------------------------------- CTC

_LABELS = "INT32 INT64 BOOL FLOAT FLOAT16"
# Where Atlas A2 and A3 take no half-precision probabilities: their AI CPU kernel knows none.
_MOST_SYMBOLS, _MOST_LABELS, _MOST_BATCH = 200000, 1000, 8180


# Log probabilities are (T, C) or (T, N, C); targets is (N, S), padded, or the labels of all samples in a row.
_CTC = (
    rank(2, 3, "logProbs"),
    require("logProbs[0] > 0"),
    define(
        steps="logProbs[0]",
        samples="logProbs[1] if len(logProbs) == 3 else 1",
        symbols="logProbs[-1]",
        most_steps="max((0, *inputLengths))",
        most_labels="max((0, *lengths))",
    ),
    require("0 <= blank < symbols"),
    require("len(inputLengths) == samples", "len(lengths) == samples"),
    require("most_steps <= steps", argument="inputLengths"),
    rank(1, 2, "targets"),
    when("len(targets) == 2", require("targets[0] == samples", "targets[1] >= most_labels")),
    when("len(targets) == 1", require("targets[0] == sum(lengths)")),
)


def _ctc_dtypes(alpha: str) -> tuple[Check, ...]:
    few = (f"symbols <= {_MOST_SYMBOLS}", f"samples <= {_MOST_BATCH}", f"({alpha}[2] - 1) // 2 <= {_MOST_LABELS}")
    return (
        dtypes({"A2 A3 950": f"{FLOATS} DOUBLE", "": "FLOAT DOUBLE"}, "logProbs"),
        on_products("A2 A3", when("logProbs.dtype in (BF16, FLOAT16)", require(*few, why="for FLOAT16 and BF16"))),
    )


rule(
    "aclnnCtcLoss",
    define(lengths="targetlengths"),
    *_CTC,
    # The states are padded to a multiple of 8 except on Ascend 950.
    define(states="2 * most_labels + 1"),
    output_shape(
        negLogLikelihoodOut="logProbs[1:2] if len(logProbs) == 3 else ()",
        logAlphaOut="(samples, steps, states if product == '950' else ceil_div(states, 8) * 8)",
    ),
    *_ctc_dtypes("logAlphaOut"),
    dtypes(_LABELS, "targets"),
    same_dtype("logProbs", "negLogLikelihoodOut", "logAlphaOut"),
)

rule(
    "aclnnCtcLossBackward",
    define(lengths="targetLengths"),
    rank(1, "gradOut", "negLogLikelihood"),
    rank(3, "logProbs", "logAlpha", "out"),
    *_CTC,
    require("most_labels <= (logAlpha[2] - 1) // 2", argument="targetLengths"),
    require("gradOut[0] == samples", "negLogLikelihood[0] == samples", "logAlpha[:2] == (samples, steps)"),
    output_shape(out="logProbs"),
    *_ctc_dtypes("logAlpha"),
    same_dtype("logProbs", "gradOut", "negLogLikelihood", "logAlpha", "out"),
    dtypes(_LABELS, "targets"),
)
