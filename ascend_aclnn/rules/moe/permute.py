"""Copies of tokens sorted by expert, and back: permute and unpermute, on one rank or a range of it."""

from __future__ import annotations

from typing import Optional

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import (
    Call,
    Shape,
    documented_dtypes,
    documented_products,
    dtype_of,
    dtype_table,
    dtypes,
    infer_shape,
    only_products,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    same_shape,
    shape_from,
    shape_of,
    tiling,
    when,
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
    only_products("A2 A3 950"),
    dtype_table(
        "permutedOutputGrad sortedIndices out", "BF16 INT32 BF16", "FLOAT16 INT32 FLOAT16", "FLOAT INT32 FLOAT"
    ),
    _no_padded_mode,
    output_shape(out=_permute_grad_shape),
    output_dtype(out=dtype_of("permutedOutputGrad")),
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
    only_products("A2 A3 950"),
    documented_dtypes("tokens", "indices"),
    same_dtype("tokens", "permuteTokensOut"),
    dtype_table("sortedIndicesOut", "INT32"),
    tiling(
        _permute_inputs,
        output_shape(
            permuteTokensOut=lambda call: (permuted_rows(call), *call.shape("tokens")[1:]),
            sortedIndicesOut=shape_from(_copies),
        ),
    ),
    output_dtype(permuteTokensOut=dtype_of("tokens"), sortedIndicesOut="INT32"),
)


def _unpermuted_tokens(call: Call) -> int:
    copies = call.shape("sortedIndices")[0] if call.shape("sortedIndices") else 0
    if not call.is_present("probsOptional"):
        return copies
    probs = call.shape("probsOptional")
    fits = len(probs) == 2 and probs[0] * probs[1] == copies
    text = f"has shape {probs}; it must be (tokens, topk) with tokens * topk = {copies}, the items of sorted_indices"
    call.require(fits, "probsOptional", text)
    return probs[0]


def _unpermute_modes(call: Call) -> None:
    # restoreShapeOptional is of use in padded mode only; torch_npu always passes one, and nothing looks at it.
    call.require(not call["paddedMode"], "paddedMode", "is True; only False is supported")


rule(
    "aclnnMoeTokenUnpermute",
    only_products("A2 A3 950"),
    documented_dtypes("permutedTokens", "sortedIndices", "probsOptional"),
    same_dtype("permutedTokens", "out"),
    _unpermute_modes,
    rank(2, 2, "permutedTokens"),
    rank(1, 1, "sortedIndices"),
    output_shape(out=shape_from(_unpermuted_tokens, ("permutedTokens", 1))),
    output_dtype(out=dtype_of("permutedTokens")),
)

rule(
    "aclnnMoeTokenUnpermuteGrad",
    only_products("A2 A3 950"),
    documented_dtypes("permutedTokens", "unpermutedTokensGrad", "sortedIndices", "probsOptional"),
    same_dtype("permutedTokens", "unpermutedTokensGrad", "permutedTokensGradOut"),
    same_dtype("probsOptional", "probsGradOut"),
    _unpermute_modes,
    rank(2, 2, "permutedTokens"),
    rank(1, 1, "sortedIndices"),
    output_shape(
        unpermutedTokensGrad=shape_from(_unpermuted_tokens, ("permutedTokens", 1)),
        permutedTokensGradOut=shape_of("permutedTokens"),
    ),
    infer_shape(probsGradOut=lambda call: call.shape("probsOptional") if call.is_present("probsOptional") else None),
    same_shape("probsOptional", "probsGradOut"),
    output_dtype(permutedTokensGradOut=dtype_of("permutedTokens"), probsGradOut=dtype_of("probsOptional")),
    nullable="probsGradOut",
)


# ------------------------------------------------------------------------------------------------ V2: quantised copies

# quantMode: data type of the permuted tokens, and of one scale for each block of them. Ascend 950 only.
_MX_MODES = {2: "FLOAT8_E5M2", 3: "FLOAT8_E4M3FN", 9: "FLOAT4_E2M1"}
_PLAIN = {"950": "FLOAT16 BF16 FLOAT INT8", "": "FLOAT16 BF16 FLOAT"}


def _mx_mode(call: Call) -> str:
    """The data type to which V2 quantises, "" where it does not."""
    return _MX_MODES.get(call["quantMode"], "") if call.product == "950" else ""


def _v2_dtypes(call: Call) -> None:
    if call.product != "950":
        documented_dtypes("tokens", "indices")(call)
        same_dtype("tokens", "permuteTokensOut")(call)
        return
    dtypes("INT32 INT64", "indices")(call)
    dtypes("INT32", "sortedIndicesOut")(call)
    made = _mx_mode(call)
    if call["quantMode"] == -1:
        dtypes(_PLAIN, "tokens", "permuteTokensOut")(call)
        same_dtype("tokens", "permuteTokensOut")(call)
        dtypes("FLOAT", "expandedScaleOut")(call)
        return
    dtypes("FLOAT16 BF16", "tokens")(call)
    call.require(bool(made), "quantMode", f"is {call['quantMode']}; it must be -1, 2, 3 or 9")
    dtypes(made, "permuteTokensOut")(call)
    dtypes("FLOAT8_E8M0", "expandedScaleOut")(call)


def _v2_tokens(call: Call) -> Shape:
    hidden = call.size("tokens", 1)
    return permuted_rows(call), hidden // 2 if _mx_mode(call) == "FLOAT4_E2M1" else hidden  # two values in a byte


def _v2_scales(call: Call) -> Shape:
    hidden = call.size("tokens", 1)
    made = _mx_mode(call)
    if not made:
        return (0,)
    pairs = -(-hidden // 64)  # a scale for every 32 values, two side by side
    return (permuted_rows(call), pairs, 2) if made == "FLOAT4_E2M1" else (permuted_rows(call), 2 * pairs)


rule(
    "aclnnMoeTokenPermuteV2",
    rank(2, 2, "tokens"),
    rank(1, 2, "indices"),
    when(
        lambda call: call.product == "950",
        lambda call: call.require(not call["paddedMode"], "paddedMode", "is True; only False is supported"),
    ),
    _v2_dtypes,
    documented_products,
    tiling(_permute_inputs),
    infer_shape(permuteTokensOut=_v2_tokens, sortedIndicesOut=shape_from(_copies), expandedScaleOut=_v2_scales),
    output_dtype(
        permuteTokensOut=lambda call: DataType[_mx_mode(call)] if _mx_mode(call) else call.dtype("tokens"),
        sortedIndicesOut="INT32",
        expandedScaleOut=lambda call: DataType.FLOAT8_E8M0 if _mx_mode(call) else DataType.FLOAT,
    ),
)

# ------------------------------------------------------------------------------------------------ expert parallelism
# rangeOptional [start, end) names the sorted copies that this rank keeps; end - start <= 0 counts from all copies.


def _range(call: Call, otherwise: int) -> tuple[int, int]:
    limits = call["rangeOptional"]
    if limits is None:
        return 0, otherwise
    call.require(len(limits) == 2, "rangeOptional", f"has {len(limits)} items; it must be (start, end)")
    return int(limits[0]), int(limits[1])


def _ep_rows(call: Call) -> int:
    copies = _copies(call)
    start, end = _range(call, call["numOutTokens"])
    kept = end - start
    return int(min(max(kept + copies if kept <= 0 else kept, 0), copies))


def _ep_inputs(call: Call) -> None:
    copies = _copies(call)
    _permute_inputs(call)
    start, end = _range(call, call["numOutTokens"])
    for limit in (start, end):
        call.require(0 <= limit <= copies, "rangeOptional", f"holds {limit}; it must be in [0, {copies}]")
    if call.is_present("probsOptional"):
        same_shape("indices", "probsOptional")(call)


def _ep_probs(call: Call) -> Optional[Shape]:
    return (_ep_rows(call),) if call.is_present("probsOptional") else None


rule(
    "aclnnMoeTokenPermuteWithEp",
    dtype_table(
        "tokens indices probsOptional permuteTokensOut sortedIndicesOut permuteProbsOut",
        *(f"{x} {i} {x} {x} INT32 {x}" for x in ("BF16", "FLOAT16", "FLOAT") for i in ("INT64", "INT32")),
    ),
    documented_products,
    tiling(
        _ep_inputs,
        output_shape(
            permuteTokensOut=lambda call: (_ep_rows(call), *call.shape("tokens")[1:]),
            sortedIndicesOut=shape_from(_copies),
        ),
        when(lambda call: call.is_present("probsOptional"), output_shape(permuteProbsOut=_ep_probs)),
    ),
    output_dtype(permuteTokensOut=dtype_of("tokens"), sortedIndicesOut="INT32", permuteProbsOut=dtype_of("tokens")),
    nullable="permuteProbsOut",
)


def _ep_tokens(call: Call) -> int:
    topk = int(max(call["numTopk"], 1))
    return call.size("sortedIndices", 0) // topk


def _ep_range(call: Call) -> None:
    _range(call, 0)


def _ep_topk(call: Call) -> None:
    call.require(call["numTopk"] >= 1, "numTopk", f"is {call['numTopk']}; it must be at least 1")


rule(
    "aclnnMoeTokenPermuteWithEpGrad",
    dtype_table(
        "permutedTokensOutputGrad sortedIndices permutedProbsOutputGradOptional tokenGradOut probsGradOut",
        "BF16 INT32 BF16 BF16 BF16",
        "FLOAT16 INT32 FLOAT16 FLOAT16 FLOAT16",
        "FLOAT INT32 FLOAT FLOAT FLOAT",
    ),
    documented_products,
    tiling(
        _ep_topk,
        rank(2, 2, "permutedTokensOutputGrad"),
        rank(1, 1, "sortedIndices", "permutedProbsOutputGradOptional"),
        _ep_range,
    ),
    infer_shape(
        tokenGradOut=shape_from(_ep_tokens, ("permutedTokensOutputGrad", 1)),
        probsGradOut=lambda call: (
            (_ep_tokens(call), int(call["numTopk"])) if call.is_present("permutedProbsOutputGradOptional") else None
        ),
    ),
    output_dtype(
        tokenGradOut=dtype_of("permutedTokensOutputGrad"),
        probsGradOut=dtype_of("permutedTokensOutputGrad"),
    ),
    nullable="probsGradOut",
)


def _ep_unpermute(call: Call) -> None:
    rank(2, 2, "permutedTokens", "probsOptional")(call)
    rank(1, 1, "sortedIndices")(call)
    _ep_range(call)
    if call.is_present("probsOptional"):
        tokens, topk = call.sizes("probsOptional", 2)
        copies = call.size("sortedIndices", 0)
        call.require(topk == call["numTopk"], "numTopk", f"is {call['numTopk']}; probs_optional has {topk} columns")
        text = f"has {tokens} * {topk} items; sorted_indices has {copies}"
        call.require(tokens * topk == copies, "probsOptional", text)
        call.require(topk <= MAX_TOPK, "probsOptional", f"has {topk} columns; at most {MAX_TOPK} are supported")


_MIXED = [(x, p) for x in ("BF16", "FLOAT16", "FLOAT") for p in ("BF16", "FLOAT16", "FLOAT")]

rule(
    "aclnnMoeTokenUnpermuteWithEp",
    dtype_table("permutedTokens sortedIndices probsOptional out", *(f"{x} INT32 {p} {x}" for x, p in _MIXED)),
    documented_products,
    tiling(_ep_topk, _ep_unpermute),
    infer_shape(
        out=shape_from(
            lambda call: call.size("probsOptional", 0) if call.is_present("probsOptional") else _ep_tokens(call),
            ("permutedTokens", 1),
        )
    ),
    output_dtype(out=dtype_of("permutedTokens")),
)


def _ep_grad_rows(call: Call) -> int:
    if call.is_present("permutedTokensOptional"):
        return call.size("permutedTokensOptional", 0)
    copies = call.size("sortedIndices", 0)
    start, end = _range(call, -1)
    return end - start if 0 <= start < end else copies


def _ep_unpermute_grad(call: Call) -> None:
    rank(1, 1, "sortedIndices")(call)
    rank(2, 2, "unpermutedTokensGrad", "permutedTokensOptional", "probsOptional")(call)
    start, end = _range(call, -1)
    call.require(call["rangeOptional"] is None or end >= start, "rangeOptional", f"ends at {end}, before {start}")
    topk = call.size("probsOptional", 1) if call.is_present("probsOptional") else call["topkNum"]
    call.require(0 < topk <= MAX_TOPK, "topkNum", f"is {topk}; it must be in [1, {MAX_TOPK}]")
    call.require(not call.is_empty("unpermutedTokensGrad"), "unpermutedTokensGrad", "is empty")
    if call.is_present("probsOptional"):
        call.require(
            call.is_present("permutedTokensOptional"), "permutedTokensOptional", "is None; probs_optional needs it"
        )
        same_dtype("unpermutedTokensGrad", "permutedTokensOptional")(call)


rule(
    "aclnnMoeTokenUnpermuteWithEpGrad",
    dtype_table(
        "unpermutedTokensGrad sortedIndices permutedTokensOptional probsOptional permutedTokensGradOut probsGradOut",
        *(f"{x} INT32 {x} {p} {x} {p}" for x, p in _MIXED),
    ),
    documented_products,
    tiling(_ep_unpermute_grad),
    infer_shape(
        permutedTokensGradOut=shape_from(_ep_grad_rows, ("unpermutedTokensGrad", 1)),
        probsGradOut=lambda call: call.shape("probsOptional") if call.is_present("probsOptional") else None,
    ),
    output_dtype(
        permutedTokensGradOut=dtype_of("unpermutedTokensGrad"),
        probsGradOut=lambda call: call.dtype(
            "probsOptional" if call.is_present("probsOptional") else "unpermutedTokensGrad"
        ),
    ),
    nullable="probsGradOut",
)
