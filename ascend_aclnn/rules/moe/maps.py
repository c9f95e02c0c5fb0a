"""Permute and unpermute by a routing map: a table of tokens by experts that is true where a token goes to an expert."""

from __future__ import annotations

import math
from typing import Optional

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Shape,
    copied_output_shape,
    documented_products,
    dtype_of,
    dtype_table,
    dtypes,
    fixed_dtype,
    infer_shape,
    output_dtype,
    rank,
    rule,
    same_dtype,
    shape_from,
    shape_of,
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
    tokens, experts = call.sizes("routingMap", 2)
    wanted = call["numOutTokens"]
    text = f"is {wanted}; it must be in [0, {tokens * experts}], the items of routing_map"
    call.require(0 <= wanted <= tokens * experts, "numOutTokens", text)
    for count in (tokens, experts):
        call.require(count < MAX_SORT_ROWS, "routingMap", f"has {count} rows or columns; at most {MAX_SORT_ROWS - 1}")
    for name in ("permuteTokensOut", "permuteProbsOutOptional"):
        if call.is_present(name):
            rows = call.size(name, 0)
            call.require(rows == _kept(call), name, f"has {rows} rows; it must have {_kept(call)}")


def _probs_out(call: Call) -> Optional[Shape]:
    return (_kept(call),) if call.is_present("probsOptional") else None


rule(
    "aclnnMoeTokenPermuteWithRoutingMap",
    lambda call: call.require(
        call.is_present("permuteProbsOutOptional") or not call.is_present("probsOptional"),
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
        documented_products,
        copied_output_shape(
            permuteTokensOut=shape_from(_kept, ("tokens", 1)),
            permuteProbsOutOptional=_probs_out,
            sortedIndicesOut=shape_from(_kept),
        ),
    ),
    output_dtype(
        permuteTokensOut=dtype_of("tokens"), permuteProbsOutOptional=dtype_of("probsOptional"), sortedIndicesOut="INT32"
    ),
)


def _positive(call: Call) -> None:
    for name in ("numExperts", "tokensNum"):
        call.require(call[name] > 0, name, f"is {call[name]}; it must be positive")


def _probs_grad(call: Call) -> Optional[Shape]:
    given = call.is_present("permutedProbsOutputGradOptional")
    return (int(call["tokensNum"]), int(call["numExperts"])) if given else None


def _map_given(call: Call) -> None:
    missing = call.is_present("permutedProbsOutputGradOptional") and not call.is_present("routingMapOptional")
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
        documented_products,
        copied_output_shape(
            tokensGradOut=shape_from("tokensNum", ("permutedTokenOutputGrad", 1)), probsGradOutOptional=_probs_grad
        ),
    ),
    output_dtype(
        tokensGradOut=dtype_of("permutedTokenOutputGrad"),
        probsGradOutOptional=dtype_of("permutedProbsOutputGradOptional"),
    ),
)


def _restored(call: Call) -> Shape:
    """Tokens by hidden size: the shape before the permutation."""
    hidden = call.size("permutedTokens", 1)
    if call.is_present("restoreShapeOptional"):
        return tuple(int(n) for n in call["restoreShapeOptional"])
    return call.size("probsOptional", 0), hidden


def _permuted_probs(call: Call) -> Optional[Shape]:
    return call.shape("sortedIndices") if call.is_present("probsOptional") else None


rule(
    "aclnnMoeTokenUnpermuteWithRoutingMap",
    lambda call: call.require(
        call.is_present("probsOptional") or call.is_present("restoreShapeOptional"),
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
        documented_products,
        copied_output_shape(
            unpermutedTokens=_restored,
            outIndex=shape_of("sortedIndices"),
            permuteTokenId=shape_of("sortedIndices"),
            permuteProbs=_permuted_probs,
        ),
    ),
    output_dtype(
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
    if not call.is_present("probsOptional"):
        return
    for name in ("routingMapOptional", "permutedTokensOptional"):
        call.require(call.is_present(name), name, "is None; probs_optional needs it")
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
    dtype_table(
        _GRAD_COLUMNS,
        "BF16 BF16 BF16 BF16 BF16",
        "BF16 BF16 FLOAT BF16 FLOAT",
        "FLOAT16 FLOAT16 FLOAT16 FLOAT16 FLOAT16",
        "FLOAT FLOAT FLOAT FLOAT FLOAT",
    ),
    dtypes("INT32", "outIndex", "permuteTokenId"),
    dtypes(_MAP, "routingMapOptional"),
    documented_products,
    tiling(_grad_inputs),
    infer_shape(
        permutedTokensGradOut=shape_from(_grad_rows, ("unpermutedTokensGrad", 1)),
        probsGradOutOptional=lambda call: call.shape("probsOptional") if call.is_present("probsOptional") else None,
    ),
    output_dtype(
        permutedTokensGradOut=dtype_of("unpermutedTokensGrad"),
        probsGradOutOptional=lambda call: (
            call.dtype("probsOptional") if call.is_present("probsOptional") else fixed_dtype("FLOAT")(call)
        ),
    ),
)
