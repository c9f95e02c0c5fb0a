"""Rules of the sampling operators, and of the generated wrappers beside them."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnApplyTopKTopP",
    dtypes(FLOATS, "logits", "p"),
    dtypes("INT32", "k"),
    same_dtype("logits", "p", "out"),
    rank(2, "logits"),
    output_shape(out="logits"),
    rank(1, "p", "k"),
    require("p == (logits[0],)", "k == (logits[0],)"),
    formats("ND", "logits", "p", "k", "out"),
    # The null pointers of both are only logged; the kernel, which rows of one number do not need, refuses them.
    tiling(when("logits.size > 0 and logits[1] != 1", require("p is not None or k is not None", argument="k"))),
)
_SAMPLED = (
    rank(2, "logits"),
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
