"""Rules of the sampling operators, and of the generated wrappers beside them."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnApplyTopKTopP",
    dtypes(FLOATS, "logits", "p"),
    dtypes("INT32", "k"),
    same_dtype("logits", "p", "out"),
    rank(2, 2, "logits"),
    output_shape(out="logits"),
    rank(1, 1, "p", "k"),
    require("p == (logits[0],)", "k == (logits[0],)"),
    formats("ND", "logits", "p", "k", "out"),
)
_SAMPLED = (
    rank(2, 2, "logits"),
    require("logits[1] > 0"),
    require("topK == (logits[0],)", "topP == (logits[0],)", "q == logits"),
)
rule(
    "aclnnTopKTopPSample",
    only_products("A2 A3"),
    dtype_table("logits topK topP q logitsSelectIdx logitsTopKPSelect", "T INT32 T FLOAT INT64 FLOAT", T=HALVES),
    tiling(*_SAMPLED, output_shape(logitsTopKPSelect="logits", logitsSelectIdx="topK")),
)
rule(
    "aclnnTopKTopPSampleV2",
    only_products("A2 A3 950"),
    dtype_table(
        "logits topK topP q minPs logitsSelectIdx logitsTopKPSelect logitsIdx logitsSortMasked",
        "T INT32 T FLOAT T INT64 FLOAT INT64 FLOAT",
        T=FLOATS,
    ),
    tiling(
        *_SAMPLED,
        require("minPs == (logits[0],)"),
        output_shape(
            logitsTopKPSelect="logits",
            logitsSelectIdx="topK",
            logitsIdx="logits",
            logitsSortMasked="logits",
        ),
    ),
)
rule(
    "aclnnExpandIntoJaggedPermute",
    only_products("A2 A3"),
    dtype_table("permute inputOffset outputOffset outputPermuteOut", "INT32 INT32 INT32 INT32"),
    tiling(
        rank(1, 1, "permute", "inputOffset", "outputOffset"),
        require("inputOffset[0] == permute[0] + 1", "outputOffset[0] == permute[0] + 1"),
    ),
    infer_shape(outputPermuteOut="(outputSize,)"),
)


def _summed(call: Call) -> Shape:
    """yGrad with the axis as long as repeats; a single repeat divides it, which only its value tells."""
    sizes, counts = call.shape("yGrad"), call.shape("repeats")
    axis = call["axis"] % max(len(sizes), 1)
    text = "is one number for all items: the output's size depends on its value; pass out="
    call.require(len(counts) == 1 and counts[0] > 1, "repeats", text)
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
