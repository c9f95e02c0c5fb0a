"""Rules of the losses that compare self with target element by element."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

NONE, MEAN, SUM = 0, 1, 2

reduction = one_of("reduction", NONE, MEAN, SUM)

_BROADCAST = require("broadcasts(target, self)")
_LOSS = f"broadcast(self, target) if reduction == {NONE} else ()"
_PAIR = promoted("self", "target")
_L1 = "FLOAT FLOAT16 INT64"
_REAL = "(FLOAT, FLOAT16, BF16, DOUBLE)"

rule(
    "aclnnL1Loss",
    reduction,
    # Limits of the data types before promotion: no integers of floats, and no mean of integers.
    when(f"reduction == {NONE} and target.dtype in {_REAL}", require(f"self.dtype in {_REAL}", word="of-float-target")),
    when(f"reduction == {MEAN} and target.dtype not in {_REAL}", require(f"self.dtype in {_REAL}", word="for-mean")),
    dtype_in(_PAIR, {"A2 A3 950": f"{_L1} BF16", "": _L1}, "self"),
    castable(_PAIR, "out"),
    max_rank(8, "self", "target"),
    _BROADCAST,
    output_shape(out=_LOSS),
    output_dtype(out=_PAIR),
)


# The gradient has the shape to which gradient, self and target broadcast.
_COMMON = promoted("grad", "self", "target")
_GRADIENT = (
    max_rank(8, "grad", "self", "target"),
    output_shape(out="broadcast(grad, self, target)"),
    output_dtype(out=_COMMON),
)
_ALIASES = {"grad": "gradOutput gradOut", "out": "gradInput"}
rule(
    "aclnnL1LossBackward aclnnSmoothL1LossBackward",
    on_operators("aclnnSmoothL1LossBackward", dtypes(FLOATS_OF_PRODUCT, "grad", "self", "target", "out")),
    reduction,
    not_negative("beta"),
    castable(_COMMON, "out"),
    dtype_in(_COMMON, FLOATS_OF_PRODUCT, "grad"),
    on_operators("aclnnL1LossBackward", max_rank(8, "out")),
    *_GRADIENT,
    aliases=_ALIASES,
)

_MSE = (
    dtype_in(_PAIR, FLOATS_OF_PRODUCT, "self"),
    dtypes(FLOATS_OF_PRODUCT, "self", "target", "out"),
    reduction,
    max_rank(8, "self", "target"),
)
rule(
    "aclnnMseLoss aclnnMseLossOut",
    *_MSE,
    _BROADCAST,
    on_operators("aclnnMseLoss", output_shape(out=_LOSS)),
    # MseLossOut reduces over the first axis only.
    on_operators("aclnnMseLossOut", output_shape(out=f"broadcast(self, target)[0 if reduction == {NONE} else 1:]")),
    output_dtype(out=_PAIR),
)
rule(
    "aclnnMseLossBackward",
    same_dtype("self", "grad", "target"),
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    reduction,
    *_GRADIENT,
    aliases={"grad": "gradOutput"},
)

rule(
    "aclnnSoftMarginLoss",
    dtypes(FLOATS_OF_PRODUCT, "self", "target", "out"),
    max_rank(8, "self", "target"),
    _BROADCAST,
    output_shape(out=_LOSS),
    output_dtype(out=_PAIR),
)
rule(
    "aclnnSoftMarginLossBackward",
    dtypes(FLOATS_OF_PRODUCT, "grad", "self", "target", "out"),
    *_GRADIENT,
    aliases={"grad": "gradOutput"},
)

rule(
    "aclnnSmoothL1Loss",
    dtypes(FLOATS_OF_PRODUCT, "self", "target"),
    castable(_PAIR, "result"),
    reduction,
    max_rank(8, "self", "target"),
    _BROADCAST,
    when(f"reduction == {NONE}", has_shape(result=_LOSS)),
    not_negative("beta"),
    infer_shape(result=_LOSS),
    output_dtype(result=_PAIR),
)


# ------------------------------------------------------------------------------------------------- KL divergence


# gradOutput broadcasts to what self and target broadcast to.
_GRAD_FITS_PAIR = (_BROADCAST, require("broadcast(gradOutput, self, target) == broadcast(self, target)"))

rule(
    "aclnnKlDivBackward",
    castable("self", "out"),
    dtypes({"A2 A3 950": FLOATS, "910 310P": FLOATS_WITHOUT_BF16, "": ""}, "gradOutput", "self", "target", "out"),
    max_rank(8, "gradOutput", "self", "target", "out"),
    *_GRAD_FITS_PAIR,
    like(out="self"),
)
rule(
    "aclnnKlDivTargetBackward",
    castable("self", "gradTarget"),
    dtypes({"A2 A3 950": FLOATS, "": ""}, "gradOutput", "self", "target", "gradTarget"),
    same_dtype("target", "gradTarget"),
    max_rank(8, "gradOutput", "self", "target", "gradTarget"),
    *_GRAD_FITS_PAIR,
    output_shape(gradTarget="target"),
    no_private_format("gradOutput", "self", "target", "gradTarget"),
)

# ------------------------------------------------------------------------------------------------- generated wrappers

rule(
    "aclnnLogit",
    only_products("A2 A3 950"),
    documented_dtypes("input"),
    same_dtype("input", "out"),
    infer_shape(out="input"),
)
rule(
    "aclnnLogitGrad",
    only_products("A2 A3 950"),
    documented_dtypes("x"),
    same_dtype("x", "dy", "out"),
    tiling(same_shape("x", "dy")),
    infer_shape(out="x"),
)

# CANN checks no shapes here: these are the document's. With other shapes the kernel reads out of bounds.
_POINTS = shape_patterns(xyz1="b n 2", xyz2="b m 2", idx1="b n", idx2="b m", gradDist1="b n", gradDist2="b m")

rule(
    "aclnnChamferDistanceBackward",
    dtypes(FLOATS_WITHOUT_BF16, "xyz1", "xyz2"),
    dtypes("INT32", "idx1", "idx2"),
    dtypes(FLOATS_WITHOUT_BF16, "gradDist1", "gradDist2", "gradXyz1", "gradXyz2"),
    unless_empty("xyz1 xyz2 idx1 idx2 gradDist1 gradDist2", _POINTS),
    infer_shape(gradXyz1="xyz1", gradXyz2="xyz2"),
    output_dtype(gradXyz1="xyz1", gradXyz2="xyz2"),
)

_SELF_OR_ONE = f"self if reduction == {NONE} else ()"

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
    output_dtype(out="self"),
    null_status=INNER_NULLPTR,
)

rule(
    "aclnnBinaryCrossEntropyBackward",
    max_rank(8, "gradOutput", "self", "target", "weightOptional", "out"),
    dtypes(FLOATS_OF_PRODUCT, "self", "gradOutput", "target", "out", "weightOptional"),
    same_format("self", "target", "weightOptional"),
    unless_empty(
        "self",
        output_shape(out="self"),
        broadcastable("target", "self"),
        broadcastable("weightOptional", "self"),
        broadcastable("gradOutput", "self"),
    ),
    reduction,
    output_dtype(out="self"),
)

rule(
    "aclnnBinaryCrossEntropyWithLogits",
    dtypes(FLOATS_OF_PRODUCT, "self", "target", "out"),
    same_dtype("target", "out"),
    reduction,
    max_rank(8, "self", "target", "weightOptional", "posWeightOptional"),
    same_shape("self", "target"),
    # The weights and target broadcast to some shape; which one is not checked.
    unless_empty("target", require("broadcasts(weightOptional, target)", "broadcasts(posWeightOptional, target)")),
    unless_empty(
        "self",
        tiling(broadcastable("weightOptional", "self"), broadcastable("posWeightOptional", "self")),
        when(f"reduction == {NONE}", same_shape("self", "out")),
    ),
    infer_shape(out=_SELF_OR_ONE),
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
        output_shape(out="self"),
        broadcastable("gradOutput", "self"),
        broadcastable("weightOptional", "self"),
        broadcastable("posWeightOptional", "self"),
    ),
    reduction,
)
