"""Copies of tokens sorted by expert, and back: permute, unpermute and the first version of routing."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

UNPADDED = require("not paddedMode")

rule(
    "aclnnMoeTokenPermuteGrad",
    only_products("A2 A3 950"),
    dtype_table("permutedOutputGrad sortedIndices out", "T INT32 T", T=FLOATS),
    UNPADDED,
    rank(2, "permutedOutputGrad"),
    rank(1, "sortedIndices"),
    require("1 <= numTopk <= 512", "sortedIndices[0] % numTopk == 0"),
    output_shape(out="(sortedIndices[0] // numTopk, permutedOutputGrad[1])"),
)

# numOutTokens counts the sorted copies that are kept: 0 keeps all, a negative number drops that many.
COPIES = define(
    copies="indices.size",
    kept="min(max(numOutTokens if numOutTokens > 0 else numOutTokens + copies, 0), copies)",
)
PERMUTED = (
    require("len(indices) in (1, 2)", "len(tokens) >= 2", "indices[0] == tokens[0]"),
    # Limits beyond which the hardware's result is undefined: keys and positions are sorted as fp32.
    when("len(indices) == 2", require("indices[1] <= 512")),
    require("indices.size < 16777215"),
    UNPADDED,
)
rule(
    "aclnnMoeTokenPermute",
    only_products("A2 A3 950"),
    documented_dtypes("tokens", "indices"),
    same_dtype("tokens", "permuteTokensOut"),
    dtypes("INT32", "sortedIndicesOut"),
    COPIES,
    tiling(*PERMUTED, output_shape(permuteTokensOut="(kept, *tokens[1:])", sortedIndicesOut="(copies,)")),
)

# restoreShapeOptional is of use in padded mode only; torch_npu always passes one, and nothing looks at it.
_UNPERMUTED = (
    UNPADDED,
    rank(2, "permutedTokens"),
    rank(1, "sortedIndices"),
    rank(2, "probsOptional"),
    require("probsOptional.size == sortedIndices[0]"),
    define(count="sortedIndices[0] if probsOptional is None else probsOptional[0]"),
)
rule(
    "aclnnMoeTokenUnpermute",
    only_products("A2 A3 950"),
    documented_dtypes("permutedTokens", "sortedIndices", "probsOptional"),
    same_dtype("permutedTokens", "out"),
    *_UNPERMUTED,
    output_shape(out="(count, permutedTokens[1])"),
)
rule(
    "aclnnMoeTokenUnpermuteGrad",
    only_products("A2 A3 950"),
    documented_dtypes("permutedTokens", "unpermutedTokensGrad", "sortedIndices", "probsOptional"),
    same_dtype("permutedTokens", "unpermutedTokensGrad", "permutedTokensGradOut"),
    same_dtype("probsOptional", "probsGradOut"),
    *_UNPERMUTED,
    has_shape(unpermutedTokensGrad="(count, permutedTokens[1])"),
    output_shape(permutedTokensGradOut="permutedTokens", probsGradOut="probsOptional"),
    nullable="probsGradOut",
)

# ------------------------------------------------------------------------------------------------ routing

_NAMES = "x rowIdx expertIdx expandedXOut expandedRowIdxOut expandedExpertIdxOut"
_ROUTING = tiling(
    rank(2, "x", "rowIdx", "expertIdx"),
    same_shape("expertIdx", "rowIdx"),
    require("expertIdx[0] == x[0]", "activeNum >= 0"),
    output_shape(
        expandedXOut="(min(x[0], activeNum) * expertIdx[1], x[1])",  # activeNum counts tokens
        expandedRowIdxOut="(expertIdx.size,)",
        expandedExpertIdxOut="(expertIdx.size,)",
    ),
)

rule(
    "aclnnMoeInitRouting",
    only_products("A2 A3 950"),
    dtype_table(_NAMES, "T INT32 INT32 T INT32 INT32", T=FLOATS),
    _ROUTING,
)
rule(
    "aclnnMoeInitRoutingQuant",
    only_products("A2 A3"),
    dtype_table(_NAMES, "T INT32 INT32 INT8 INT32 INT32", T=FLOATS),
    _ROUTING,
)
