"""Rules of ops-transformer/moe: generated wrappers, so phase one checks dtypes (161002), the rest is tiling's (561002)."""

from __future__ import annotations

from ascend_aclnn.rules.language import (
    Call,
    columns,
    dims,
    documented,
    dtype_of,
    infer,
    only_on,
    rank,
    result,
    rule,
    same,
    same_dtype,
    same_shape,
    shape,
    tiling,
)

# What the hardware leaves undefined, and the reference refuses: 161002.
MAX_TOPK = 512
MAX_SORT_ROWS = 16777215  # keys and positions are sorted as fp32


def _no_padded_mode(call: Call) -> None:
    call.require(not call["paddedMode"], "paddedMode", "is True; only False is supported")


def _topk_fits(call: Call) -> None:
    topk = call["numTopk"]
    call.require(1 <= topk <= MAX_TOPK, "numTopk", f"is {topk}; it must be in [1, {MAX_TOPK}]")
    rows = call.shape("sortedIndices")[0]
    text = f"has {rows} items; it must be a multiple of num_topk ({topk})"
    call.require(rows % topk == 0, "sortedIndices", text)


def _permute_grad_shape(call: Call) -> tuple[int, ...]:
    grad, indices, topk = call.shape("permutedOutputGrad"), call.shape("sortedIndices"), call["numTopk"]
    call.require(len(grad) == 2, "permutedOutputGrad", f"has rank {len(grad)}; it must be 2")
    call.require(len(indices) == 1, "sortedIndices", f"has rank {len(indices)}; it must be 1")
    _topk_fits(call)
    return indices[0] // topk, grad[1]


rule(
    "aclnnMoeTokenPermuteGrad",
    only_on("A2 A3 950"),
    columns("permutedOutputGrad sortedIndices out", "BF16 INT32 BF16", "FLOAT16 INT32 FLOAT16", "FLOAT INT32 FLOAT"),
    _no_padded_mode,
    shape(out=_permute_grad_shape),
    result(out=dtype_of("permutedOutputGrad")),
)


def _copies(call: Call) -> int:
    """Rows that MoeTokenPermute sorts: tokens times experts per token."""
    total = 1
    for n in call.shape("indices"):
        total *= n
    return total


def permuted_rows(call: Call) -> int:
    """numOutTokens counted: 0 keeps all copies, a negative number drops that many."""
    wanted, copies = call["numOutTokens"], _copies(call)
    return int(min(max(wanted + copies if wanted <= 0 else wanted, 0), copies))


def _permute_inputs(call: Call) -> None:
    indices, tokens = call.shape("indices"), call.shape("tokens")
    call.require(len(indices) in (1, 2), "indices", f"has rank {len(indices)}; it must be 1 or 2")
    call.require(len(tokens) >= 2, "tokens", f"has rank {len(tokens)}; it must be at least 2")
    text = f"has {indices[0]} rows; tokens has {tokens[0]}"
    call.require(indices[0] == tokens[0], "indices", text)
    topk = indices[1] if len(indices) == 2 else 1
    call.require(topk <= MAX_TOPK, "indices", f"names {topk} experts per token; at most {MAX_TOPK} are supported")
    call.require(_copies(call) < MAX_SORT_ROWS, "indices", f"has {_copies(call)} items; at most {MAX_SORT_ROWS - 1}")
    call.require(not call["paddedMode"], "paddedMode", "is True; only False is supported")


rule(
    "aclnnMoeTokenPermute",
    only_on("A2 A3 950"),
    documented("tokens", "indices"),
    same_dtype("tokens", "permuteTokensOut"),
    columns("sortedIndicesOut", "INT32"),
    tiling(
        _permute_inputs,
        shape(
            permuteTokensOut=lambda call: (permuted_rows(call), *call.shape("tokens")[1:]),
            sortedIndicesOut=dims(_copies),
        ),
    ),
    result(permuteTokensOut=dtype_of("tokens"), sortedIndicesOut="INT32"),
)


def _unpermuted_tokens(call: Call) -> int:
    copies = call.shape("sortedIndices")[0] if call.shape("sortedIndices") else 0
    if not call.given("probsOptional"):
        return copies
    probs = call.shape("probsOptional")
    fits = len(probs) == 2 and probs[0] * probs[1] == copies
    text = f"has shape {probs}; it must be (tokens, topk) with tokens * topk = {copies}, the items of sorted_indices"
    call.require(fits, "probsOptional", text)
    return probs[0]


def _unpermute_modes(call: Call) -> None:
    call.require(not call.given("restoreShapeOptional"), "restoreShapeOptional", "is given; it must be None")
    call.require(not call["paddedMode"], "paddedMode", "is True; only False is supported")


rule(
    "aclnnMoeTokenUnpermute",
    only_on("A2 A3 950"),
    documented("permutedTokens", "sortedIndices", "probsOptional"),
    same_dtype("permutedTokens", "out"),
    _unpermute_modes,
    rank(2, 2, "permutedTokens"),
    rank(1, 1, "sortedIndices"),
    shape(out=dims(_unpermuted_tokens, ("permutedTokens", 1))),
    result(out=dtype_of("permutedTokens")),
)

rule(
    "aclnnMoeTokenUnpermuteGrad",
    only_on("A2 A3 950"),
    documented("permutedTokens", "unpermutedTokensGrad", "sortedIndices", "probsOptional"),
    same_dtype("permutedTokens", "unpermutedTokensGrad", "permutedTokensGradOut"),
    same_dtype("probsOptional", "probsGradOut"),
    _unpermute_modes,
    rank(2, 2, "permutedTokens"),
    rank(1, 1, "sortedIndices"),
    shape(
        unpermutedTokensGrad=dims(_unpermuted_tokens, ("permutedTokens", 1)),
        permutedTokensGradOut=same("permutedTokens"),
    ),
    infer(probsGradOut=lambda call: call.shape("probsOptional") if call.given("probsOptional") else None),
    same_shape("probsOptional", "probsGradOut"),
    result(permutedTokensGradOut=dtype_of("permutedTokens"), probsGradOut=dtype_of("probsOptional")),
    nullable="probsGradOut",
)


def _active_rows(call: Call) -> int:
    """Rows of expandedX: activeNum counts tokens."""
    return int(min(call.shape("x")[0], call["activeNum"]) * call.shape("expertIdx")[1])


def _routing_inputs(call: Call) -> None:
    x, experts = call.shape("x"), call.shape("expertIdx")
    text = f"has {experts[0]} rows; x has {x[0]}"
    call.require(experts[0] == x[0], "expertIdx", text)
    call.require(call["activeNum"] >= 0, "activeNum", f"is {call['activeNum']}; it must not be negative")


_ROUTING = tiling(
    rank(2, 2, "x", "rowIdx", "expertIdx"),
    same_shape("expertIdx", "rowIdx"),
    _routing_inputs,
    shape(
        expandedXOut=dims(_active_rows, ("x", 1)),
        expandedRowIdxOut=dims(lambda call: call.shape("expertIdx")[0] * call.shape("expertIdx")[1]),
        expandedExpertIdxOut=dims(lambda call: call.shape("expertIdx")[0] * call.shape("expertIdx")[1]),
    ),
)
_INDEXES = result(expandedRowIdxOut="INT32", expandedExpertIdxOut="INT32")

rule(
    "aclnnMoeInitRouting",
    only_on("A2 A3"),
    columns(
        "x rowIdx expertIdx expandedXOut expandedRowIdxOut expandedExpertIdxOut",
        "FLOAT16 INT32 INT32 FLOAT16 INT32 INT32",
        "BF16 INT32 INT32 BF16 INT32 INT32",
        "FLOAT INT32 INT32 FLOAT INT32 INT32",
    ),
    _ROUTING,
    result(expandedXOut=dtype_of("x")),
    _INDEXES,
)

rule(
    "aclnnMoeInitRoutingQuant",
    only_on("A2 A3"),
    columns(
        "x rowIdx expertIdx expandedXOut expandedRowIdxOut expandedExpertIdxOut",
        "FLOAT16 INT32 INT32 INT8 INT32 INT32",
        "BF16 INT32 INT32 INT8 INT32 INT32",
        "FLOAT INT32 INT32 INT8 INT32 INT32",
    ),
    _ROUTING,
    result(expandedXOut="INT8"),
    _INDEXES,
)
