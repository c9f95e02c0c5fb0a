"""Rules of the losses that compare self with target element by element."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

NONE, MEAN, SUM = 0, 1, 2


reduction = one_of("reduction", NONE, MEAN, SUM)


def loss_shape(call: Call) -> Shape:
    """Of the loss: self and target broadcast, or one number after a reduction."""
    wanted = broadcast_shape("self", "target")(call)
    return wanted if isinstance(wanted, tuple) and call["reduction"] == NONE else ()


def _loss_output(name: str) -> Check:
    """The output has the shape of the loss."""
    return output_shape(**{name: loss_shape})


_PAIR = promoted("self", "target")
_L1 = "FLOAT FLOAT16 INT64"
_REAL = "(FLOAT, FLOAT16, BF16, DOUBLE)"

rule(
    "aclnnL1Loss",
    reduction,
    # What is asked of the data types before they promote: no integers of floats, and no mean of integers.
    when(f"reduction == {NONE} and target.dtype in {_REAL}", require(f"self.dtype in {_REAL}")),
    when(f"reduction == {MEAN} and target.dtype not in {_REAL}", require(f"self.dtype in {_REAL}")),
    dtype_in(_PAIR, {"A2 A3 950": f"{_L1} BF16", "": _L1}, "self"),
    castable(_PAIR, "out"),
    max_rank(8, "self", "target"),
    _loss_output("out"),
    output_dtype(out=_PAIR),
)


def _backward(name: str, grad: str, out: str, *before: Check) -> None:
    """The gradient has the shape to which gradient, self and target broadcast."""
    rule(
        name,
        *before,
        max_rank(8, grad, "self", "target"),
        output_shape(**{out: broadcast_shape(grad, "self", "target")}),
        output_dtype(**{out: promoted(grad, "self", "target")}),
    )


_backward(
    "aclnnL1LossBackward",
    "gradOutput",
    "gradInput",
    reduction,
    castable(promoted("gradOutput", "self", "target"), "gradInput"),
    dtype_in(promoted("gradOutput", "self", "target"), FLOATS_OF_PRODUCT, "gradOutput"),
    max_rank(8, "gradInput"),
)

_MSE = (
    dtype_in(_PAIR, FLOATS_OF_PRODUCT, "self"),
    dtypes(FLOATS_OF_PRODUCT, "self", "target", "out"),
    reduction,
    max_rank(8, "self", "target"),
)
rule("aclnnMseLoss", *_MSE, _loss_output("out"), output_dtype(out=_PAIR))


def _rows_summed(call: Call) -> Shape:
    """MseLossOut reduces over the first axis only."""
    wanted = broadcast_shape("self", "target")(call)
    sizes = wanted if isinstance(wanted, tuple) else ()
    return sizes if call["reduction"] == NONE else sizes[1:]


rule("aclnnMseLossOut", *_MSE, output_shape(out=_rows_summed), output_dtype(out=_PAIR))
_backward(
    "aclnnMseLossBackward",
    "gradOutput",
    "out",
    same_dtype("self", "gradOutput", "target"),
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    reduction,
)

rule(
    "aclnnSoftMarginLoss",
    dtypes(FLOATS_OF_PRODUCT, "self", "target", "out"),
    max_rank(8, "self", "target"),
    _loss_output("out"),
    output_dtype(out=_PAIR),
)
_backward(
    "aclnnSoftMarginLossBackward", "gradOutput", "out", dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "target", "out")
)


def _broadcast_together(call: Call) -> None:
    broadcast_shape("self", "target")(call)


rule(
    "aclnnSmoothL1Loss",
    dtypes(FLOATS_OF_PRODUCT, "self", "target"),
    castable(_PAIR, "result"),
    reduction,
    max_rank(8, "self", "target"),
    _broadcast_together,
    when(f"reduction == {NONE}", output_shape(result=loss_shape)),
    not_negative("beta"),
    infer_shape(result=loss_shape),
    output_dtype(result=_PAIR),
)
rule(
    "aclnnSmoothL1LossBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOut", "self", "target", "gradInput"),
    max_rank(8, "gradOut", "self", "target"),
    reduction,
    not_negative("beta"),
    dtype_in(promoted("gradOut", "self", "target"), FLOATS_OF_PRODUCT, "gradOut"),
    castable(promoted("gradOut", "self", "target"), "gradInput"),
    output_shape(gradInput=broadcast_shape("gradOut", "self", "target")),
    output_dtype(gradInput=promoted("gradOut", "self", "target")),
)


# ------------------------------------------------------------------------------------------------- KL divergence


def _grad_fits_pair(call: Call) -> None:
    """gradOutput broadcasts to what self and target broadcast to."""
    pair = broadcast_shape("self", "target")(call)
    came = call.shape("gradOutput")
    sizes = pair if isinstance(pair, tuple) else ()
    call.require(
        broadcast_shapes(came, sizes) == sizes, "gradOutput", f"has shape {came}, which does not broadcast to {sizes}"
    )


rule(
    "aclnnKlDivBackward",
    castable("self", "out"),
    dtypes(
        {"A2 A3 950": "FLOAT FLOAT16 BF16", "910 310P": "FLOAT FLOAT16", "": ""}, "gradOutput", "self", "target", "out"
    ),
    max_rank(8, "gradOutput", "self", "target", "out"),
    _grad_fits_pair,
    output_shape(out=shape_of("self")),
    output_dtype(out=dtype_of("self")),
)
rule(
    "aclnnKlDivTargetBackward",
    castable("self", "gradTarget"),
    dtypes({"A2 A3 950": "FLOAT FLOAT16 BF16", "": ""}, "gradOutput", "self", "target", "gradTarget"),
    same_dtype("target", "gradTarget"),
    max_rank(8, "gradOutput", "self", "target", "gradTarget"),
    _grad_fits_pair,
    output_shape(gradTarget=shape_of("target")),
    no_private_format("gradOutput", "self", "target", "gradTarget"),
    output_dtype(gradTarget=dtype_of("target")),
)

# ------------------------------------------------------------------------------------------------- generated wrappers

rule(
    "aclnnLogit",
    only_products("A2 A3 950"),
    documented_dtypes("input"),
    same_dtype("input", "out"),
    infer_shape(out=shape_of("input")),
    output_dtype(out=dtype_of("input")),
)
rule(
    "aclnnLogitGrad",
    only_products("A2 A3 950"),
    documented_dtypes("x"),
    same_dtype("x", "dy", "out"),
    tiling(same_shape("x", "dy")),
    infer_shape(out=shape_of("x")),
    output_dtype(out=dtype_of("x")),
)

# CANN checks no shapes here: these are the document's, beyond which the kernel reads what is not its own.
_POINTS = shape_patterns(xyz1="b n 2", xyz2="b m 2", idx1="b n", idx2="b m", gradDist1="b n", gradDist2="b m")

rule(
    "aclnnChamferDistanceBackward",
    dtypes("FLOAT FLOAT16", "xyz1", "xyz2"),
    dtypes("INT32", "idx1", "idx2"),
    dtypes("FLOAT FLOAT16", "gradDist1", "gradDist2", "gradXyz1", "gradXyz2"),
    unless_empty("xyz1 xyz2 idx1 idx2 gradDist1 gradDist2", _POINTS),
    infer_shape(gradXyz1=shape_of("xyz1"), gradXyz2=shape_of("xyz2")),
    output_dtype(gradXyz1=dtype_of("xyz1"), gradXyz2=dtype_of("xyz2")),
)
