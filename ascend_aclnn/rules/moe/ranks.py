"""Copies of tokens that are quantised, or of a range of those that are kept on this rank, and back."""

from __future__ import annotations

from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.moe.tokens import COPIES, PERMUTED, UNPADDED

# ------------------------------------------------------------------------------------------------ V2: quantised copies

rule(
    "aclnnMoeTokenPermuteV2",
    rank(2, "tokens"),
    rank(1, 2, "indices"),
    on_products("950", UNPADDED),
    when("product != '950'", documented_dtypes("tokens", "indices"), same_dtype("tokens", "permuteTokensOut")),
    on_products(
        "950",
        dtypes(INDICES, "indices"),
        dtypes("INT32", "sortedIndicesOut"),
        when(
            "quantMode == -1",
            dtypes(FLOATS + " INT8", "tokens", "permuteTokensOut"),
            same_dtype("tokens", "permuteTokensOut"),
            dtypes("FLOAT", "expandedScaleOut"),
        ),
        when(
            "quantMode != -1",
            dtypes(HALVES, "tokens"),
            require("quantMode in (-1, 2, 3, 9)"),
            require("permuteTokensOut.dtype == quantised"),
            dtypes("FLOAT8_E8M0", "expandedScaleOut"),
        ),
    ),
    COPIES,
    # Blocks of 32 values share a scale; two scales lie side by side.
    define(
        mode="quantMode if product == '950' and quantMode in (2, 3, 9) else -1",
        quantised="FLOAT8_E5M2 if mode == 2 else FLOAT8_E4M3FN if mode == 3 else FLOAT4_E2M1 if mode == 9 else tokens.dtype",
        pairs="ceil_div(tokens[1], 64)",
    ),
    documented_products,
    tiling(*PERMUTED),
    infer_shape(
        permuteTokensOut="(kept, tokens[1] // 2 if mode == 9 else tokens[1])",  # two values in a byte
        sortedIndicesOut="(copies,)",
        expandedScaleOut="(0,) if mode == -1 else (kept, pairs, 2) if mode == 9 else (kept, 2 * pairs)",
    ),
    output_dtype(
        permuteTokensOut="quantised", sortedIndicesOut="INT32", expandedScaleOut="FLOAT if mode == -1 else FLOAT8_E8M0"
    ),
)

# ------------------------------------------------------------------------------------------------ expert parallelism
# rangeOptional [start, end) names the sorted copies that this rank keeps; end - start <= 0 counts from all copies.

_RANGE = array_length("rangeOptional", 2)

rule(
    "aclnnMoeTokenPermuteWithEp",
    dtype_table(
        "tokens indices probsOptional permuteTokensOut sortedIndicesOut permuteProbsOut",
        "T INT64/INT32 T T INT32 T",
        T=FLOATS,
    ),
    documented_products,
    define(
        copies="indices.size",
        start="0 if rangeOptional is None else rangeOptional[0]",
        end="numOutTokens if rangeOptional is None else rangeOptional[1]",
        kept="min(max(end - start if end > start else end - start + copies, 0), copies)",
    ),
    tiling(
        *PERMUTED,
        _RANGE,
        require("0 <= start <= copies", "0 <= end <= copies", argument="rangeOptional"),
        same_shape("indices", "probsOptional"),
        output_shape(
            permuteTokensOut="(kept, *tokens[1:])",
            sortedIndicesOut="(copies,)",
            permuteProbsOut="None if probsOptional is None else (kept,)",
        ),
    ),
    nullable="permuteProbsOut",
)

rule(
    "aclnnMoeTokenPermuteWithEpGrad",
    dtype_table(
        "permutedTokensOutputGrad sortedIndices permutedProbsOutputGradOptional tokenGradOut probsGradOut",
        "T INT32 T T T",
        T=FLOATS,
    ),
    documented_products,
    tiling(
        require("numTopk >= 1"),
        rank(2, "permutedTokensOutputGrad"),
        rank(1, "sortedIndices", "permutedProbsOutputGradOptional"),
        require("sortedIndices[0] % numTopk == 0"),
        require("permutedProbsOutputGradOptional[0] == permutedTokensOutputGrad[0]"),
        _RANGE,
    ),
    define(count="sortedIndices[0] // max(numTopk, 1)"),
    infer_shape(
        tokenGradOut="(count, permutedTokensOutputGrad[1])",
        probsGradOut="None if permutedProbsOutputGradOptional is None else (count, numTopk)",
    ),
    nullable="probsGradOut",
)

rule(
    "aclnnMoeTokenUnpermuteWithEp",
    dtype_table("permutedTokens sortedIndices probsOptional out", "T INT32 S T", T=FLOATS, S=FLOATS),
    documented_products,
    tiling(
        require("numTopk >= 1"),
        rank(2, "permutedTokens", "probsOptional"),
        rank(1, "sortedIndices"),
        _RANGE,
        require("numTopk == probsOptional[1]", "probsOptional.size == sortedIndices[0]", "probsOptional[1] <= 512"),
    ),
    infer_shape(
        out="(sortedIndices[0] // max(numTopk, 1) if probsOptional is None else probsOptional[0], permutedTokens[1])"
    ),
)

rule(
    "aclnnMoeTokenUnpermuteWithEpGrad",
    dtype_table(
        "unpermutedTokensGrad sortedIndices permutedTokensOptional probsOptional permutedTokensGradOut probsGradOut",
        "T INT32 T S T S",
        T=FLOATS,
        S=FLOATS,
    ),
    documented_products,
    tiling(
        rank(1, "sortedIndices"),
        rank(2, "unpermutedTokensGrad", "permutedTokensOptional", "probsOptional"),
        _RANGE,
        require("rangeOptional[1] >= rangeOptional[0]"),
        when(
            "probsOptional is None",
            require("0 < topkNum <= 512", "sortedIndices[0] == unpermutedTokensGrad[0] * topkNum"),
        ),
        require("probsOptional[0] == unpermutedTokensGrad[0]", "sortedIndices[0] == probsOptional.size"),
        require("0 < probsOptional[1] <= 512"),
        not_empty("unpermutedTokensGrad"),
        when(
            "probsOptional is not None",
            require("permutedTokensOptional is not None"),
            same_dtype("unpermutedTokensGrad", "permutedTokensOptional"),
            word="probs",
        ),
    ),
    define(
        kept="-1 if rangeOptional is None or rangeOptional[0] < 0 else rangeOptional[1] - rangeOptional[0]",
        rows="permutedTokensOptional[0] if permutedTokensOptional is not None else kept if kept > 0 else sortedIndices[0]",
    ),
    infer_shape(permutedTokensGradOut="(rows, unpermutedTokensGrad[1])", probsGradOut="probsOptional"),
    output_dtype(probsGradOut="unpermutedTokensGrad.dtype if probsOptional is None else probsOptional.dtype"),
    nullable="probsGradOut",
)
