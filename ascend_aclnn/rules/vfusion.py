"""Rules of ops-nn/vfusion: modulation, masked softmax, deformable attention."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- Modulate

rule(
    "aclnnModulate",
    dtypes({"A2 A3 950": FLOATS, "": ""}, "self", "out", "scaleOptional", "shiftOptional"),
    same_dtype("self", "scaleOptional", "shiftOptional", "out"),
    # scale and shift have one row for every sample of self (B, L, D): (B, D) or (B, 1, D).
    require("scaleOptional is not None", "shiftOptional is not None"),
    rank(3, "self"),
    require("not self.empty or scaleOptional.empty", argument="scaleOptional"),
    require("scaleOptional in ((self[0], self[2]), (self[0], 1, self[2]))"),
    require("not self.empty or shiftOptional.empty", argument="shiftOptional"),
    require("shiftOptional in ((self[0], self[2]), (self[0], 1, self[2]))"),
    output_shape(out="self"),
)
rule(
    "aclnnModulateBackward",
    dtypes(FLOATS, "grad_output", "input", "scale", "shift", "grad_scale", "grad_shift", "grad_input"),
    rank(3, "grad_output", "input"),
    same_shape("grad_output", "input"),
    require("not (grad_output.empty or input.empty) or scale.empty", argument="scale"),
    require("scale == (grad_output[0], grad_output[2])"),
    require("not (grad_output.empty or input.empty) or shift.empty", argument="shift"),
    require("shift == (grad_output[0], grad_output[2])"),
    infer_shape(grad_input="input", grad_scale="scale", grad_shift="shift"),
    output_dtype(grad_input="input", grad_scale="scale", grad_shift="shift"),
)

# ------------------------------------------------------------------------------------------------- ScaledMaskedSoftmax


def _masked(values: str, least: int) -> tuple[Check, ...]:
    """The mask covers the last two axes and broadcasts over the first two; rows are not too long."""
    return require(
        f"mask[2:] == {values}[2:]",
        f"{least} <= {values}[3] <= (8192 if product == '950' else 4096)",
    ), require(f"all(m in (1, n) for m, n in zip(mask[:2], {values}[:2]))", word="broadcast")


rule(
    "aclnnScaledMaskedSoftmax",
    dtypes(FLOATS, "x", "y"),
    dtypes("BOOL", "mask"),
    same_dtype("x", "y"),
    rank(4, "x", "mask", "y"),
    *_masked("x", 1),
    one_of("fixedTriuMask", False),
    infer_shape(y="x"),
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnScaledMaskedSoftmaxBackward",
    dtypes(FLOATS, "gradOutput", "y", "out"),
    dtypes("BOOL", "mask"),
    on_products(
        PRODUCTS_BEFORE_950, require(*(f"{name}.format != FRACTAL_NZ" for name in ("gradOutput", "y", "out", "mask")))
    ),
    rank(4, "gradOutput", "mask"),
    same_shape("gradOutput", "y"),
    *_masked("gradOutput", 0),
    like(out="gradOutput"),
    one_of("fixTriuMask", False),
)

# ------------------------------------------------------------------------------------------------- deformable attention

_TENSORS = ("value", "spatialShape", "levelStartIndex", "location", "attnWeight")
_ATTENTION = (
    dtypes(FLOATS, "value", "location", "attnWeight"),
    dtypes(INDICES, "spatialShape", "levelStartIndex"),
)
# Of channels, heads, levels and points.
_LIMITS = (
    require("value[3] % 8 == 0", "value[3] <= 256"),
    require("location[2] <= 16", "location[3] <= 16", "location[4] <= 16"),
)

rule(
    "aclnnMultiScaleDeformableAttnFunction",
    *_ATTENTION,
    same_dtype("value", "location", "attnWeight", "output"),
    on_products("310P", dtypes(FLOATS_WITHOUT_BF16, "value")),
    rank(3, "output"),
    rank(4, "value"),
    rank(1, "levelStartIndex"),
    rank(6, "location"),
    rank(5, "attnWeight"),
    require("location[5] == 2", "location[1] >= 32"),
    *_LIMITS,
    has_shape(spatialShape="(location[3], 2)"),
    require("attnWeight[3] == location[3]"),
    tiling(
        require("attnWeight == location[:-1]", "location[0] == value[0]", "location[2] == value[2]"),
        has_shape(levelStartIndex="(location[3],)"),
    ),
    infer_shape(output="(value[0], location[1], value[2] * value[3])"),
)
rule(
    "aclnnMultiScaleDeformableAttentionGrad",
    *_ATTENTION,
    dtypes(FLOATS, "gradOutput", "gradValue", "gradLocation", "gradAttnWeight"),
    require(*(f"{name}.format != FRACTAL_NZ" for name in (*_TENSORS, "gradOutput"))),
    shape_patterns(
        value="b keys heads c",
        spatialShape="levels 2",
        location="b queries heads levels points 2",
        attnWeight="b queries heads levels points",
        levelStartIndex="levels",
        gradOutput="b queries heads*c",
        where="queries < 500000",
    ),
    *_LIMITS,
    like(gradValue="value", gradLocation="location", gradAttnWeight="attnWeight"),
)
