"""Permute and unpermute by a routing map: a table of tokens by experts that is true where a token goes to an expert."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_MAP = "INT8 BOOL"

rule(
    "aclnnMoeTokenPermuteWithRoutingMap",
    when("probsOptional is not None", required("permuteProbsOutOptional"), word="probs"),
    dtypes(FLOATS, "tokens", "permuteTokensOut"),
    dtypes(_MAP, "routingMap"),
    same_dtype("tokens", "permuteTokensOut"),
    dtypes("INT32", "sortedIndicesOut"),
    same_dtype("tokens", "probsOptional"),
    dtypes(FLOATS, "permuteProbsOutOptional"),
    same_dtype("probsOptional", "permuteProbsOutOptional"),
    rank(2, "routingMap", "probsOptional"),
    # numOutTokens is rounded down to whole tokens, or to whole experts where each has its capacity.
    define(
        unit="max(routingMap[1 if dropAndPad else 0], 1)",
        kept="numOutTokens // unit * unit",
    ),
    require(
        "0 <= numOutTokens <= routingMap.size",
        "routingMap[0] < 16777215",  # keys and positions are sorted as fp32
        "routingMap[1] < 16777215",
        "permuteTokensOut[0] == kept",
        "permuteProbsOutOptional[0] == kept",
    ),
    unless_empty(
        "routingMap permuteTokensOut",
        documented_products,
        tiling(rank(2, "tokens"), require("tokens[0] == routingMap[0]"), same_shape("routingMap", "probsOptional")),
        copied_output_shape(
            permuteTokensOut="(kept, tokens[1])",
            permuteProbsOutOptional="None if probsOptional is None else (kept,)",
            sortedIndicesOut="(kept,)",
        ),
    ),
)

rule(
    "aclnnMoeTokenPermuteWithRoutingMapGrad",
    positive("numExperts", "tokensNum"),
    when("permutedProbsOutputGradOptional is not None", required("routingMapOptional")),
    dtypes(FLOATS, "permutedTokenOutputGrad", "permutedProbsOutputGradOptional"),
    same_dtype("permutedTokenOutputGrad", "permutedProbsOutputGradOptional"),
    dtypes(_MAP, "routingMapOptional"),
    dtypes("INT32", "sortedIndices"),
    rank(2, "permutedTokenOutputGrad", "routingMapOptional"),
    rank(1, "permutedProbsOutputGradOptional"),
    unless_empty(
        "permutedTokenOutputGrad tokensGradOut",
        documented_products,
        tiling(
            rank(1, "sortedIndices"),
            when("dropAndPad", require("sortedIndices[0] == permutedTokenOutputGrad[0]")),
            when("not dropAndPad", require("sortedIndices[0] % tokensNum == 0")),
        ),
        copied_output_shape(
            tokensGradOut="(tokensNum, permutedTokenOutputGrad[1])",
            probsGradOutOptional="None if permutedProbsOutputGradOptional is None else (tokensNum, numExperts)",
        ),
    ),
    output_dtype(tokensGradOut="permutedTokenOutputGrad", probsGradOutOptional="permutedProbsOutputGradOptional"),
)

rule(
    "aclnnMoeTokenUnpermuteWithRoutingMap",
    when("probsOptional is None", required("restoreShapeOptional")),
    dtypes(FLOATS, "permutedTokens"),
    dtypes("INT32", "sortedIndices"),
    dtypes(FLOATS, "probsOptional"),
    same_dtype("probsOptional", "permuteProbs"),
    same_dtype("permutedTokens", "unpermutedTokens"),
    same_dtype("sortedIndices", "outIndex", "permuteTokenId"),
    rank(2, "permutedTokens"),
    rank(1, "sortedIndices"),
    rank(2, "unpermutedTokens"),
    unless_empty(
        "permutedTokens sortedIndices",
        documented_products,
        define(count="probsOptional[0] if restoreShapeOptional is None else restoreShapeOptional[0]"),
        tiling(
            array_length("restoreShapeOptional", 2),
            require("restoreShapeOptional[1] == permutedTokens[1]", "count > 0"),
            rank(2, "probsOptional"),
            require("probsOptional[0] == count", "probsOptional[1] > 0"),
            when("paddedMode", require("sortedIndices[0] == permutedTokens[0]")),
            when(
                "not paddedMode",
                require("sortedIndices[0] % count == 0"),
                same_shape("probsOptional", "routingMapOptional"),
                when("probsOptional is not None", require("sortedIndices[0] == permutedTokens[0]"), word="probs"),
            ),
        ),
        copied_output_shape(
            unpermutedTokens=(
                "(probsOptional[0], permutedTokens[1]) if restoreShapeOptional is None else restoreShapeOptional"
            ),
            outIndex="sortedIndices",
            permuteTokenId="sortedIndices",
            permuteProbs="None if probsOptional is None else sortedIndices",
        ),
    ),
)

rule(
    "aclnnMoeTokenUnpermuteWithRoutingMapGrad",
    dtype_table(
        "unpermutedTokensGrad permutedTokensOptional probsOptional permutedTokensGradOut probsGradOutOptional",
        "T T T T T",
        "BF16 BF16 FLOAT BF16 FLOAT",
        T=FLOATS,
    ),
    dtypes("INT32", "outIndex", "permuteTokenId"),
    dtypes(_MAP, "routingMapOptional"),
    documented_products,
    tiling(
        rank(2, "unpermutedTokensGrad"),
        rank(1, "outIndex", "permuteTokenId"),
        require("permuteTokenId[0] == outIndex[0]", "unpermutedTokensGrad[0] > 0"),
        when(
            "probsOptional is not None",
            require("routingMapOptional is not None", "permutedTokensOptional is not None"),
            rank(2, "routingMapOptional", "permutedTokensOptional", "probsOptional"),
            define(experts="probsOptional[1]"),
            when(
                "dropAndPad",
                require(
                    "outIndex[0] // max(experts, 1) <= unpermutedTokensGrad[0]", why="the tokens an expert can have"
                ),
            ),
            when("not dropAndPad", require("outIndex[0] // unpermutedTokensGrad[0] <= min(512, experts)")),
            word="probs",
        ),
    ),
    infer_shape(permutedTokensGradOut="(outIndex.size, unpermutedTokensGrad[1])", probsGradOutOptional="probsOptional"),
    output_dtype(
        permutedTokensGradOut="unpermutedTokensGrad",
        probsGradOutOptional="FLOAT if probsOptional is None else probsOptional.dtype",
    ),
)
