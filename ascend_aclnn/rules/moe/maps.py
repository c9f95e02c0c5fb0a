"""Permute and unpermute by a routing map: a table of tokens by experts that is true where a token goes to an expert."""

from __future__ import annotations

import math
from typing import Optional

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Shape,
    columns,
    copied,
    dims,
    dtype_is,
    dtype_of,
    dtypes,
    infer,
    rank,
    result,
    rule,
    same,
    same_dtype,
    supported,
    tiling,
    unless_empty,
)
from ascend_aclnn.rules.moe.permute import MAX_SORT_ROWS, MAX_TOPK

_FLOATS = "FLOAT16 FLOAT BF16"
_MAP = "INT8 BOOL"


def _kept(call: Call) -> int:
    """numOutTokens rounded down to whole tokens, or to whole experts where each has its capacity."""
    unit = max(call.size("routingMap", 1 if call["dropAndPad"] else 0), 1)
    return int(call["numOutTokens"] // unit * unit)


def _permute_shapes(call: Call) -> None:
    tokens, experts = call.shape("routingMap")
    wanted = call["numOutTokens"]
    text = f"is {wanted}; it must be in [0, {tokens * experts}], the items of routing_map"
    call.require(0 <= wanted <= tokens * experts, "numOutTokens", text)
    for count in (tokens, experts):
        call.require(count < MAX_SORT_ROWS, "routingMap", f"has {count} rows or columns; at most {MAX_SORT_ROWS - 1}")
    for name in ("permuteTokensOut", "permuteProbsOutOptional"):
        if call.given(name):
            rows = call.size(name, 0)
            call.require(rows == _kept(call), name, f"has {rows} rows; it must have {_kept(call)}")


def _probs_out(call: Call) -> Optional[Shape]:
    return (_kept(call),) if call.given("probsOptional") else None


rule(
    "aclnnMoeTokenPermuteWithRoutingMap",
    lambda call: call.require(
        call.given("permuteProbsOutOptional") or not call.given("probsOptional"),
        "permuteProbsOutOptional",
        "is None (a null pointer), but probs_optional is given",
        PARAM_NULLPTR,
    ),
    dtypes(_FLOATS, "tokens", "permuteTokensOut"),
    dtypes(_MAP, "routingMap"),
    same_dtype("tokens", "permuteTokensOut"),
    dtypes("INT32", "sortedIndicesOut"),
    same_dtype("tokens", "probsOptional"),
    dtypes(_FLOATS, "permuteProbsOutOptional"),
    same_dtype("probsOptional", "permuteProbsOutOptional"),
    rank(2, 2, "routingMap", "probsOptional"),
    _permute_shapes,
    unless_empty(
        "routingMap permuteTokensOut",
        supported,
        copied(
            permuteTokensOut=dims(_kept, ("tokens", 1)),
            permuteProbsOutOptional=_probs_out,
            sortedIndicesOut=dims(_kept),
        ),
    ),
    result(
        permuteTokensOut=dtype_of("tokens"), permuteProbsOutOptional=dtype_of("probsOptional"), sortedIndicesOut="INT32"
    ),
)


def _positive(call: Call) -> None:
    for name in ("numExperts", "tokensNum"):
        call.require(call[name] > 0, name, f"is {call[name]}; it must be positive")


def _probs_grad(call: Call) -> Optional[Shape]:
    given = call.given("permutedProbsOutputGradOptional")
    return (int(call["tokensNum"]), int(call["numExperts"])) if given else None


def _map_given(call: Call) -> None:
    missing = call.given("permutedProbsOutputGradOptional") and not call.given("routingMapOptional")
    text = "is None (a null pointer), but permuted_probs_output_grad_optional is given"
    call.require(not missing, "routingMapOptional", text, PARAM_NULLPTR)


rule(
    "aclnnMoeTokenPermuteWithRoutingMapGrad",
    _positive,
    _map_given,
    dtypes(_FLOATS, "permutedTokenOutputGrad", "permutedProbsOutputGradOptional"),
    same_dtype("permutedTokenOutputGrad", "permutedProbsOutputGradOptional"),
    dtypes(_MAP, "routingMapOptional"),
    dtypes("INT32", "sortedIndices"),
    rank(2, 2, "permutedTokenOutputGrad", "routingMapOptional"),
    rank(1, 1, "permutedProbsOutputGradOptional"),
    unless_empty(
        "permutedTokenOutputGrad tokensGradOut",
        supported,
        copied(tokensGradOut=dims("tokensNum", ("permutedTokenOutputGrad", 1)), probsGradOutOptional=_probs_grad),
    ),
    result(
        tokensGradOut=dtype_of("permutedTokenOutputGrad"),
        probsGradOutOptional=dtype_of("permutedProbsOutputGradOptional"),
    ),
)


def _restored(call: Call) -> Shape:
    """Tokens by hidden size: the shape before the permutation."""
    hidden = call.size("permutedTokens", 1)
    if call.given("restoreShapeOptional"):
        return tuple(int(n) for n in call["restoreShapeOptional"])
    return call.size("probsOptional", 0), hidden


def _permuted_probs(call: Call) -> Optional[Shape]:
    return call.shape("sortedIndices") if call.given("probsOptional") else None


rule(
    "aclnnMoeTokenUnpermuteWithRoutingMap",
    lambda call: call.require(
        call.given("probsOptional") or call.given("restoreShapeOptional"),
        "restoreShapeOptional",
        "is None (a null pointer), as probs_optional is",
        PARAM_NULLPTR,
    ),
    dtypes(_FLOATS, "permutedTokens"),
    dtypes("INT32", "sortedIndices"),
    dtypes(_FLOATS, "probsOptional"),
    same_dtype("probsOptional", "permuteProbs"),
    same_dtype("permutedTokens", "unpermutedTokens"),
    same_dtype("sortedIndices", "outIndex", "permuteTokenId"),
    rank(2, 2, "permutedTokens"),
    rank(1, 1, "sortedIndices"),
    rank(2, 2, "unpermutedTokens"),
    unless_empty(
        "permutedTokens sortedIndices",
        supported,
        copied(
            unpermutedTokens=_restored,
            outIndex=same("sortedIndices"),
            permuteTokenId=same("sortedIndices"),
            permuteProbs=_permuted_probs,
        ),
    ),
    result(
        unpermutedTokens=dtype_of("permutedTokens"),
        outIndex="INT32",
        permuteTokenId="INT32",
        permuteProbs=dtype_of("probsOptional"),
    ),
)


def _grad_inputs(call: Call) -> None:
    rank(2, 2, "unpermutedTokensGrad")(call)
    rank(1, 1, "outIndex", "permuteTokenId")(call)
    rows, ids = call.size("outIndex", 0), call.size("permuteTokenId", 0)
    call.require(rows == ids, "permuteTokenId", f"has {ids} items; out_index has {rows}")
    tokens = call.size("unpermutedTokensGrad", 0)
    call.require(tokens > 0, "unpermutedTokensGrad", "has no rows")
    if not call.given("probsOptional"):
        return
    for name in ("routingMapOptional", "permutedTokensOptional"):
        call.require(call.given(name), name, "is None; probs_optional needs it")
    rank(2, 2, "routingMapOptional", "permutedTokensOptional", "probsOptional")(call)
    experts = call.size("probsOptional", 1)
    if call["dropAndPad"]:
        capacity = rows // experts if experts else 0
        text = f"has {rows} items: {capacity} for each expert, more than the {tokens} tokens"
        call.require(capacity <= tokens, "outIndex", text)
    else:
        topk = rows // tokens
        most = min(MAX_TOPK, experts)
        call.require(topk <= most, "outIndex", f"has {rows} items: {topk} for each token, at most {most} are supported")


def _grad_rows(call: Call) -> int:
    return math.prod(call.shape("outIndex"))


_GRAD_COLUMNS = "unpermutedTokensGrad permutedTokensOptional probsOptional permutedTokensGradOut probsGradOutOptional"

rule(
    "aclnnMoeTokenUnpermuteWithRoutingMapGrad",
    columns(
        _GRAD_COLUMNS,
        "BF16 BF16 BF16 BF16 BF16",
        "BF16 BF16 FLOAT BF16 FLOAT",
        "FLOAT16 FLOAT16 FLOAT16 FLOAT16 FLOAT16",
        "FLOAT FLOAT FLOAT FLOAT FLOAT",
    ),
    dtypes("INT32", "outIndex", "permuteTokenId"),
    dtypes(_MAP, "routingMapOptional"),
    supported,
    tiling(_grad_inputs),
    infer(
        permutedTokensGradOut=dims(_grad_rows, ("unpermutedTokensGrad", 1)),
        probsGradOutOptional=lambda call: call.shape("probsOptional") if call.given("probsOptional") else None,
    ),
    result(
        permutedTokensGradOut=dtype_of("unpermutedTokensGrad"),
        probsGradOutOptional=lambda call: (
            call.dtype("probsOptional") if call.given("probsOptional") else dtype_is("FLOAT")(call)
        ),
    ),
)
