"""The choice of experts from gating scores."""

from __future__ import annotations

from typing import Optional

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Shape,
    documented_products,
    dtype_of,
    dtype_table,
    dtypes,
    infer_shape,
    one_of,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    same_shape,
    shape_from,
    shape_of,
    tiling,
    unless_empty,
    when,
)

_FLOATS = "FLOAT16 BF16 FLOAT"
MAX_EXPERTS = 2048  # of GatingTopK: scores of one token lie in one buffer
MAX_K = 1024  # of GatingTopKSoftmax
MAX_FUSED_EXPERTS, MAX_FUSED_GROUPS, MAX_COPIES = 1024, 256, 128


def _topk_shape(call: Call) -> Shape:
    return (*call.shape("x")[:-1], int(call["k"]))


# ------------------------------------------------------------------------------------------------ grouped top k


def _groups(call: Call) -> None:
    experts = call.size("x", 1)
    k, k_group, groups = call["k"], call["kGroup"], call["groupCount"]
    call.require(0 < k <= experts, "k", f"is {k}; it must be in [1, {experts}], the experts of x")
    call.require(experts <= MAX_EXPERTS, "x", f"has {experts} columns; at most {MAX_EXPERTS} experts are supported")
    call.require(groups > 0, "groupCount", f"is {groups}; it must be positive")
    call.require(0 < k_group <= groups, "kGroup", f"is {k_group}; it must be in [1, {groups}], the group_count")
    call.require(experts % groups == 0, "groupCount", f"is {groups}; the {experts} experts must divide by it")
    in_group = experts // groups
    if call["groupSelectMode"] == 1:
        text = f"is {groups}; its {experts} experts make groups of one, but the mode sums two"
        call.require(in_group >= 2, "groupCount", text)
    call.require(k <= k_group * in_group, "k", f"is {k}; the chosen groups have {k_group * in_group} experts")


def _bias(call: Call) -> None:
    if call.is_present("biasOptional"):
        rank(1, 1, "biasOptional")(call)
        text = f"has {call.size('biasOptional', 0)} items; x has {call.size('x', 1)} columns"
        call.require(call.size("biasOptional", 0) == call.size("x", 1), "biasOptional", text)


_GATED = (
    dtypes(_FLOATS, "x", "biasOptional", "yOut"),
    same_dtype("x", "biasOptional", "yOut"),
    dtypes("INT32", "expertIdxOut"),
    dtypes(_FLOATS, "outOut"),
)
_GATED_TILING = tiling(
    rank(2, 2, "x"),
    _bias,
    one_of("normType", 0, 1),
    one_of("groupSelectMode", 0, 1),
    one_of("renorm", 0, 1),
    _groups,
    output_shape(yOut=_topk_shape, expertIdxOut=_topk_shape),
    when(lambda call: call["outFlag"], dtypes("FLOAT", "outOut"), output_shape(outOut=shape_of("x"))),
    infer_shape(outOut=shape_of("x")),
)
_GATED_RESULT = output_dtype(yOut=dtype_of("x"), expertIdxOut="INT32", outOut="FLOAT")

rule("aclnnMoeGatingTopK", *_GATED, documented_products, _GATED_TILING, _GATED_RESULT)
rule(
    "aclnnMoeGatingTopKV2",
    *_GATED,
    dtypes("INT32 INT64", "inputIdsOptional", "tid2eidOptional"),
    documented_products,
    _GATED_TILING,
    tiling(rank(1, 1, "inputIdsOptional"), rank(2, 2, "tid2eidOptional")),
    _GATED_RESULT,
)

rule(
    "aclnnMoeGatingTopKBackward",
    dtypes("FLOAT", "xNorm"),
    dtypes(_FLOATS, "gradY", "out"),
    same_dtype("gradY", "out"),
    dtypes("INT32", "expertIdx"),
    documented_products,
    rank(2, 2, "xNorm", "gradY", "expertIdx", "out"),
    same_shape("gradY", "expertIdx"),
    lambda call: call.require(
        call.size("xNorm", 0) == call.size("gradY", 0),
        "gradY",
        f"has {call.size('gradY', 0)} rows; x_norm has {call.size('xNorm', 0)}",
    ),
    tiling(one_of("normType", 0, 1), one_of("renorm", 0, 1)),
    output_shape(out=shape_of("xNorm")),
    output_dtype(out=dtype_of("gradY")),
)

# ------------------------------------------------------------------------------------------------ softmax top k


def _softmax_k(call: Call) -> None:
    most = min(call.size("x", -1), MAX_K)
    call.require(0 < call["k"] <= most, "k", f"is {call['k']}; it must be in [1, {most}]")
    call.require(not call.is_empty("x"), "x", f"has shape {call.shape('x')}; it must not be empty")


def _finished(call: Call) -> None:
    if call.is_present("finishedOptional"):
        rows = call.shape("x")[:-1]
        text = f"has shape {call.shape('finishedOptional')}; it must be {rows}, as x without its last axis"
        call.require(call.shape("finishedOptional") == rows, "finishedOptional", text)


def _softmax(rest: str) -> list[str]:
    """Rows of dtypes: x, finished, y, then the ``rest``."""
    return [f"{x} BOOL {x} {rest}" for x in ("FLOAT16", "FLOAT", "BF16")]


rule(
    "aclnnMoeGatingTopKSoftmax",
    dtype_table("x finishedOptional yOut expertIdxOut rowIdxOut", "FLOAT16 BOOL FLOAT16 INT32 INT32", products="310P"),
    dtype_table("x finishedOptional yOut expertIdxOut rowIdxOut", *_softmax("INT32 INT32"), products="A2 A3 950"),
    documented_products,
    tiling(
        rank(2, 3, "x"),
        _softmax_k,
        _finished,
        output_shape(yOut=_topk_shape, expertIdxOut=_topk_shape, rowIdxOut=_topk_shape),
    ),
    output_dtype(yOut=dtype_of("x"), expertIdxOut="INT32", rowIdxOut="INT32"),
)


def _kept_softmax(call: Call) -> Optional[Shape]:
    return call.shape("x") if call["outputSoftmaxResultFlag"] else None


rule(
    "aclnnMoeGatingTopKSoftmaxV2",
    dtype_table("x finishedOptional yOut expertIdxOut softmaxResultOutOptional", *_softmax("INT32 FLOAT")),
    documented_products,
    tiling(
        rank(2, 3, "x"),
        one_of("renorm", 0, 1),
        _softmax_k,
        _finished,
        output_shape(yOut=_topk_shape, expertIdxOut=_topk_shape),
    ),
    # The softmax is written only where no second normalisation follows.
    when(
        lambda call: call["renorm"] == 0,
        tiling(
            lambda call: call.require(
                call.is_present("softmaxResultOutOptional") or not call["outputSoftmaxResultFlag"],
                "softmaxResultOutOptional",
                "is None, but output_softmax_result_flag is True",
            ),
            output_shape(softmaxResultOutOptional=_kept_softmax),
        ),
    ),
    output_dtype(yOut=dtype_of("x"), expertIdxOut="INT32", softmaxResultOutOptional="FLOAT"),
)

# ------------------------------------------------------------------------------------------------ fused top k


def _fused_shapes(call: Call) -> None:
    for name in ("groupNum", "groupTopk", "topN", "topK"):
        call.require(call[name] > 0, name, f"is {call[name]}; it must be positive")
    groups = call["groupNum"]
    call.require(groups <= MAX_FUSED_GROUPS, "groupNum", f"is {groups}; at most {MAX_FUSED_GROUPS} are supported")
    rank(2, 2, "x")(call)
    rank(1, 1, "addNum")(call)
    experts = call.size("x", 1)
    call.require(
        call.size("addNum", 0) == experts, "addNum", f"has {call.size('addNum', 0)} items, x {experts} columns"
    )
    rank(2, 2, "y", "indices")(call)
    same_shape("y", "indices")(call)
    wanted = (call.size("x", 0), int(call["topK"]))
    call.require(call.shape("y") == wanted, "y", f"has shape {call.shape('y')}; it must be {wanted}")
    call.require(experts % groups == 0, "groupNum", f"is {groups}; the {experts} experts must divide by it")
    call.require(call["groupTopk"] <= groups, "groupTopk", f"is {call['groupTopk']}; group_num is {groups}")
    call.require(call["topK"] <= experts, "topK", f"is {call['topK']}; there are {experts} experts")
    call.require(
        call["topN"] <= experts // groups, "topN", f"is {call['topN']}; a group has {experts // groups} experts"
    )
    call.require(experts <= MAX_FUSED_EXPERTS, "x", f"has {experts} columns; at most {MAX_FUSED_EXPERTS} experts")
    if call["enableExpertMapping"]:
        rank(2, 2, "mappingTable")(call)
        rank(1, 1, "mappingNum")(call)
        for name in ("mappingTable", "mappingNum"):
            text = f"has {call.size(name, 0)} rows; there are {experts} experts"
            call.require(call.size(name, 0) == experts, name, text)
        few = call.size("mappingTable", 1) <= MAX_COPIES
        call.require(few, "mappingTable", f"has more than {MAX_COPIES} columns, copies of an expert")


def _mapping_given(call: Call) -> None:
    if call["enableExpertMapping"]:
        for name in ("mappingNum", "mappingTable"):
            call.require(call.is_present(name), name, "is None, but enable_expert_mapping is True", PARAM_NULLPTR)


rule(
    "aclnnMoeFusedTopk",
    _mapping_given,
    dtypes(_FLOATS, "x"),
    same_dtype("x", "addNum"),
    when(lambda call: call["enableExpertMapping"], dtypes("INT32", "mappingNum", "mappingTable")),
    dtypes("INT32", "indices"),
    dtypes("FLOAT", "y"),
    unless_empty("x", _fused_shapes),
    infer_shape(y=shape_from(("x", 0), "topK"), indices=shape_from(("x", 0), "topK")),
    output_dtype(y="FLOAT", indices="INT32"),
    nullable="mappingNum mappingTable",
)
