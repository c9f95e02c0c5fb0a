"""Rules of the experimental losses."""

from __future__ import annotations

from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    ShapeRule,
    dtype_of,
    dtypes,
    in_range,
    max_rank,
    one_of,
    only_products,
    output_dtype,
    output_shape,
    output_shape_relaxed,
    rule,
    same_dtype,
    same_shape,
    shape_of,
    shape_patterns,
)
from ascend_aclnn.rules.pointwise import elementwise

_HALVES = "FLOAT FLOAT16"
_FLOATS = "FLOAT FLOAT16 BF16"

elementwise("BinaryCrossEntropyV2", "A2", _HALVES, "x y", "out")
elementwise("HingeLoss", "A2", _FLOATS, "predict target", "loss")
elementwise("HingeLossGrad", "A2", _FLOATS, "predict target gradOutput", "gradInput")
elementwise("HuberLoss", "A2", _FLOATS, "predictions targets", "loss", in_range("delta", 0, float("inf")))
elementwise("HuberLossGrad", "A2", _FLOATS, "predictions targets", "out")
elementwise("SoftmaxGrad", "A2", _FLOATS, "y dy", "dx")

_NONE = "none"


def _reduced(first: str, name: str) -> ShapeRule:
    def shape(call: Call) -> Shape:
        return call.shape(first) if call[name] == _NONE else ()

    return shape


def _one_gradient(grad: str, first: str, name: str) -> Check:
    """One number for a reduced loss, else one for every element."""

    def check(call: Call) -> None:
        came, sizes = call[grad], call.shape(first)
        if call[name] == _NONE:
            call.require(came.shape == sizes, grad, f"has shape {came.shape}; it must be {sizes}")
        else:
            call.require(came.size == 1, grad, f"has shape {came.shape}; it must hold one number")

    return check


def _broadcast_target(call: Call) -> None:
    """target has input's shape, or 1 on a single axis where input has more; var may lack the last axis, or be one number."""
    sizes, target, var = call.shape("input"), call.shape("target"), call["var"]
    spread = sum(n != m for n, m in zip(target, sizes))
    fits = len(target) == len(sizes) and spread <= 1 and all(n in (1, m) for n, m in zip(target, sizes))
    call.require(fits, "target", f"has shape {target}; it must be {sizes}, or 1 on one of its axes")
    fits = var.shape in (sizes, sizes[:-1], (*sizes[:-1], 1)) or var.size == 1
    call.require(
        fits, "var", f"has shape {var.shape}; it must be {sizes}, with the last axis 1 or missing, or one number"
    )


_GAUSSIAN = (
    only_products("A2"),
    dtypes(_FLOATS, "input"),
    same_dtype("input", "target", "var"),
    _broadcast_target,
    lambda call: call.require(call["eps"] > 0, "eps", f"is {call['eps']}; it must be positive"),
)
rule(
    "aclnnGaussianNllLoss",
    *_GAUSSIAN,
    one_of("reductionOptional", "none", "mean", "sum"),
    same_dtype("input", "out"),
    output_shape_relaxed(out=_reduced("input", "reductionOptional")),
)
rule(
    "aclnnGaussianNllLossGrad",
    *_GAUSSIAN,
    one_of("reduction", "none", "mean", "sum"),
    same_dtype("input", "gradOutput", "gradInput", "gradVar"),
    _one_gradient("gradOutput", "input", "reduction"),
    output_shape(gradInput=shape_of("input"), gradVar=shape_of("var")),
    output_dtype(gradInput=dtype_of("input"), gradVar=dtype_of("var")),
)
rule(
    "aclnnHingeEmbeddingLoss",
    only_products("A2"),
    dtypes(_FLOATS, "input"),
    same_dtype("input", "target", "loss"),
    same_shape("input", "target"),
    one_of("reduction", "none", "mean", "sum"),
    output_shape_relaxed(loss=_reduced("input", "reduction")),
)
rule(
    "aclnnLpLoss",
    only_products("A2"),
    dtypes(_FLOATS, "predict"),
    same_dtype("predict", "label", "out"),
    same_shape("predict", "label"),
    one_of("p", 1),
    one_of("reduction", "none", "mean", "sum"),
    output_shape_relaxed(out=_reduced("predict", "reduction")),
)
rule(
    "aclnnMseLossGrad",
    only_products("A2"),
    dtypes(_FLOATS, "self"),
    same_dtype("self", "gradOutput", "target", "out"),
    same_shape("self", "target"),
    lambda call: call.require(
        call["gradOutput"].size in (1, call["self"].size),
        "gradOutput",
        "must hold one number, or one for every element",
    ),
    one_of("reduction", "none", "mean", "sum"),
    output_shape(out=shape_of("self")),
    output_dtype(out=dtype_of("self")),
)


def _gradients(call: Call) -> None:
    came, sizes = call["grad"], call.shape("logits")
    wanted = f"{sizes}" if call["reduction"] == 0 else "one number"
    fits = came.shape == sizes if call["reduction"] == 0 else came.size == 1
    call.require(fits, "grad", f"has shape {came.shape}; with reduction {call['reduction']} it must be {wanted}")


rule(
    "aclnnBinaryCrossEntropyGradV2",
    only_products("A2"),
    dtypes(f"{_HALVES} INT32 INT16", "logits"),
    same_dtype("logits", "grad", "labels", "weight", "out"),
    one_of("reduction", 0, 1, 2),
    same_shape("logits", "labels", "weight"),
    _gradients,
    output_shape(out=shape_of("logits")),
    output_dtype(out=dtype_of("logits")),
)
rule(
    "aclnnCrossEntropyGrad",
    only_products("A2"),
    dtypes(_FLOATS, "logits"),
    dtypes("INT32", "target"),
    same_dtype("logits", "out"),
    max_rank(8, "logits"),
    shape_patterns(logits="* c", target="*", out="* c"),
    output_dtype(out=dtype_of("logits")),
)
