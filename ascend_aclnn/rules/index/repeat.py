"""Rules of repeating elements (part of ops-nn/index)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_REPEATED = "UINT8 INT8 INT16 INT32 INT64 BOOL FLOAT16 FLOAT"

_SELF = (
    dtypes({"950": f"{_REPEATED} BF16 {UNSIGNED}", "A2 A3": f"{_REPEATED} BF16", "": _REPEATED}, "self"),
    dtypes(INDICES, "repeats"),
    same_dtype("self", "out"),
    max_rank(8, "self"),
)

# The caller sets the size of the output. repeats is data: one number for all items, or one for each item of the axis
# (of everything without an axis).
_SOME_REPEATS = require("repeats.size > 0")

_ALL_REPEATED = "(outputSize,)"

_AXIS_REPEATED = "(*self[:dim], outputSize, *self[dim % len(self) + 1 :]) if len(self) > 0 else ()"

_REAL_AXIS = (require("len(self) > 0"), valid_axis("dim", "self"))

rule(
    "aclnnRepeatInterleave",
    *_SELF,
    max_rank(1, "repeats"),
    require("len(repeats) == 0 or repeats[0] in (1, self.size)"),
    require("self.size > 0 or repeats.size == 0 or repeats in ((), (1,))", argument="repeats"),
    unless_empty("self out", _SOME_REPEATS, output_shape(out=_ALL_REPEATED)),
)

rule(
    "aclnnRepeatInterleaveWithDim",
    *_SELF,
    max_rank(1, "repeats"),
    *_REAL_AXIS,
    require("len(repeats) == 0 or repeats[0] in (1, self[dim])"),
    infer_shape(out=_AXIS_REPEATED),
    when("self.size > 0 and outputSize != 0", _SOME_REPEATS, output_shape(out=_AXIS_REPEATED)),
)

_SELF_ONCE = (_SELF[0], *_SELF[2:], not_negative("repeats"))  # repeats is a number

rule(
    "aclnnRepeatInterleaveInt",
    *_SELF_ONCE,
    infer_shape(out=_ALL_REPEATED),
    when("self.size > 0 and out.size > 0 and repeats != 1", output_shape(out=_ALL_REPEATED)),
)

rule(
    "aclnnRepeatInterleaveIntWithDim",
    *_SELF_ONCE,
    *_REAL_AXIS,
    infer_shape(out=_AXIS_REPEATED),
    when("self.size > 0 and outputSize != 0 and repeats != 1", output_shape(out=_AXIS_REPEATED)),
)

rule(
    "aclnnRepeatInterleaveTensor",
    same_dtype("repeats", "out", among=INDICES),
    require("repeats.size == 0 or len(repeats) == 1"),
    unless_empty("repeats out", output_shape(out=_ALL_REPEATED)),
)

rule(
    "aclnnExpandIntoJaggedPermute",
    only_products("A2 A3"),
    dtype_table("permute inputOffset outputOffset outputPermuteOut", "INT32 INT32 INT32 INT32"),
    tiling(
        rank(1, "permute", "inputOffset", "outputOffset"),
        require("inputOffset[0] == permute[0] + 1", "outputOffset[0] == permute[0] + 1"),
    ),
    infer_shape(outputPermuteOut="(outputSize,)"),
)


@refuses("value/data-dependent", "repeats")
def _summed(call: Call) -> Shape:
    """yGrad with the axis as long as repeats; a single repeat divides it, which only its value tells."""
    sizes, counts = call.shape("yGrad"), call.shape("repeats")
    axis = call["axis"] % max(len(sizes), 1)
    text = "is one number for all items: the output's size depends on its value; pass out="
    call.require(len(counts) == 1 and counts[0] > 1, "repeats", text, check="value/data-dependent")
    return sizes[:axis] + counts + sizes[axis + 1 :]


rule(
    "aclnnRepeatInterleaveGrad",
    only_products("A2 A3 950"),
    dtypes(FLOATS, "yGrad"),
    dtypes(INDICES, "repeats"),
    same_dtype("yGrad", "out"),
    tiling(rank(0, 1, "repeats"), valid_axis("axis", "yGrad")),
    infer_shape(out=_summed),
)
