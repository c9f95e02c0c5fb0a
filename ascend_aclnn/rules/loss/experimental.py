"""Rules of the experimental losses."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

elementwise("BinaryCrossEntropyV2", "A2", FLOATS_WITHOUT_BF16, "x y", "out")
elementwise("HingeLoss", "A2", FLOATS, "predict target", "loss")
elementwise("HingeLossGrad", "A2", FLOATS, "predict target gradOutput", "gradInput")
elementwise("HuberLoss", "A2", FLOATS, "predictions targets", "loss", in_range("delta", 0, float("inf")))
elementwise("HuberLossGrad", "A2", FLOATS, "predictions targets", "out")
elementwise("SoftmaxGrad", "A2", FLOATS, "y dy", "dx")


_GAUSSIAN = (
    only_products("A2"),
    dtypes(FLOATS, "input"),
    same_dtype("input", "target", "var"),
    # Where it has 1 instead of input's length, target may be broadcast along a single axis.
    require("len(target) == len(input)", "all(n in (1, m) for n, m in zip(target, input))"),
    require("sum(n != m for n, m in zip(target, input)) <= 1", argument="target"),
    require("var.size == 1 or var in (input, input[:-1], (*input[:-1], 1))"),
    positive("eps"),
)
rule(
    "aclnnGaussianNllLoss",
    *_GAUSSIAN,
    one_of("reductionOptional", "none", "mean", "sum"),
    same_dtype("input", "out"),
    output_shape_relaxed(out="input if reductionOptional is not None and reductionOptional == 'none' else ()"),
)
rule(
    "aclnnGaussianNllLossGrad",
    *_GAUSSIAN,
    one_of("reduction", "none", "mean", "sum"),
    same_dtype("input", "gradOutput", "gradInput", "gradVar"),
    when("reduction == 'none'", same_shape("input", "gradOutput")),
    when("reduction is None or reduction != 'none'", require("gradOutput.size == 1")),
    output_shape(gradInput="input", gradVar="var"),
)
rule(
    "aclnnHingeEmbeddingLoss",
    only_products("A2"),
    dtypes(FLOATS, "input"),
    same_dtype("input", "target", "loss"),
    same_shape("input", "target"),
    one_of("reduction", "none", "mean", "sum"),
    output_shape_relaxed(loss="input if reduction is not None and reduction == 'none' else ()"),
)
rule(
    "aclnnLpLoss",
    only_products("A2"),
    dtypes(FLOATS, "predict"),
    same_dtype("predict", "label", "out"),
    same_shape("predict", "label"),
    one_of("p", 1),
    one_of("reduction", "none", "mean", "sum"),
    output_shape_relaxed(out="predict if reduction == 'none' else ()"),
)
rule(
    "aclnnMseLossGrad",
    only_products("A2"),
    dtypes(FLOATS, "self"),
    same_dtype("self", "gradOutput", "target", "out"),
    same_shape("self", "target"),
    require("gradOutput.size in (1, self.size)"),
    one_of("reduction", "none", "mean", "sum"),
    output_shape(out="self"),
)

rule(
    "aclnnBinaryCrossEntropyGradV2",
    only_products("A2"),
    dtypes(f"{FLOATS_WITHOUT_BF16} INT32 INT16", "logits"),
    same_dtype("logits", "grad", "labels", "weight", "out"),
    one_of("reduction", 0, 1, 2),
    same_shape("logits", "labels", "weight"),
    when("reduction == 0", same_shape("logits", "grad")),
    when("reduction != 0", require("grad.size == 1")),
    output_shape(out="logits"),
)
rule(
    "aclnnCrossEntropyGrad",
    only_products("A2"),
    dtypes(FLOATS, "logits"),
    dtypes("INT32", "target"),
    same_dtype("logits", "out"),
    max_rank(8, "logits"),
    shape_patterns(logits="* c", target="*", out="* c"),
)

rule(
    "aclnnL2Loss",
    only_products("A2"),
    dtypes(FLOATS, "x"),
    same_dtype("x", "out"),
    not_empty("x"),
    output_shape(out="()"),
)
