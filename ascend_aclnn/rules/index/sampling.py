"""Rules of the sampling operators, and of the generated wrappers beside them."""

from __future__ import annotations

from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    dtype_of,
    dtype_table,
    dtypes,
    formats,
    infer_shape,
    only_products,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    shape_from,
    shape_of,
    tiling,
    valid_axis,
)


def _one_per_row(*names: str) -> Check:
    """Vectors with one item for every row of logits."""

    def check(call: Call) -> None:
        rows = call.size("logits", 0)
        for name in names:
            if call.is_present(name):
                came = call.shape(name)
                call.require(
                    came == (rows,), name, f"has shape {came}; it must be ({rows},), one for every row of logits"
                )

    return check


rule(
    "aclnnApplyTopKTopP",
    dtypes("FLOAT FLOAT16 BF16", "logits", "p"),
    dtypes("INT32", "k"),
    same_dtype("logits", "p", "out"),
    rank(2, 2, "logits"),
    output_shape(out=shape_of("logits")),
    rank(1, 1, "p", "k"),
    _one_per_row("p", "k"),
    formats("ND", "logits", "p", "k", "out"),
    output_dtype(out=dtype_of("logits")),
)


def _sample_inputs(call: Call) -> None:
    rank(2, 2, "logits")(call)
    call.require(call.size("logits", 1) > 0, "logits", f"has shape {call.shape('logits')}; it must have columns")
    _one_per_row("topK", "topP")(call)
    if call.is_present("q"):
        came, wanted = call.shape("q"), call.shape("logits")
        call.require(came == wanted, "q", f"has shape {came}; it must be that of logits, {wanted}")


rule(
    "aclnnTopKTopPSample",
    only_products("A2 A3"),
    dtype_table(
        "logits topK topP q logitsSelectIdx logitsTopKPSelect",
        "FLOAT16 INT32 FLOAT16 FLOAT INT64 FLOAT",
        "BF16 INT32 BF16 FLOAT INT64 FLOAT",
    ),
    tiling(_sample_inputs, output_shape(logitsTopKPSelect=shape_of("logits"), logitsSelectIdx=shape_of("topK"))),
)
rule(
    "aclnnTopKTopPSampleV2",
    only_products("A2 A3 950"),
    dtype_table(
        "logits topK topP q minPs logitsSelectIdx logitsTopKPSelect logitsIdx logitsSortMasked",
        "FLOAT16 INT32 FLOAT16 FLOAT FLOAT16 INT64 FLOAT INT64 FLOAT",
        "BF16 INT32 BF16 FLOAT BF16 INT64 FLOAT INT64 FLOAT",
        "FLOAT INT32 FLOAT FLOAT FLOAT INT64 FLOAT INT64 FLOAT",
    ),
    tiling(
        _sample_inputs,
        _one_per_row("minPs"),
        output_shape(
            logitsTopKPSelect=shape_of("logits"),
            logitsSelectIdx=shape_of("topK"),
            logitsIdx=shape_of("logits"),
            logitsSortMasked=shape_of("logits"),
        ),
    ),
)


def _offsets(call: Call) -> None:
    rank(1, 1, "permute", "inputOffset", "outputOffset")(call)
    wanted = call.size("permute", 0) + 1
    for name in ("inputOffset", "outputOffset"):
        came = call.size(name, 0)
        call.require(came == wanted, name, f"has {came} items; it must have {wanted}, one more than permute")


rule(
    "aclnnExpandIntoJaggedPermute",
    only_products("A2 A3"),
    dtype_table("permute inputOffset outputOffset outputPermuteOut", "INT32 INT32 INT32 INT32"),
    tiling(_offsets),
    infer_shape(outputPermuteOut=shape_from("outputSize")),
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
    dtypes("FLOAT FLOAT16 BF16", "yGrad"),
    dtypes("INT32 INT64", "repeats"),
    same_dtype("yGrad", "out"),
    tiling(rank(0, 1, "repeats"), valid_axis("axis", "yGrad")),
    infer_shape(out=_summed),
    output_dtype(out=dtype_of("yGrad")),
)
