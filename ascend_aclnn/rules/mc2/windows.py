"""Rules of attention and FFN ranks that are apart, and write into each other's windows."""

from __future__ import annotations

from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.mc2.common import communicator

_RANKS = in_range("worldSize", 2, 768)
_HIDDEN = "1024 <= x[-1] and x[-1] <= 8192"

rule(
    "aclnnAttentionToFFN",
    *communicator("group"),
    documented_dtypes(),
    tiling(
        _RANKS,
        in_range("moeExpertNum", 1, 1024),
        one_of("quantMode", 0, 2),
        one_of("syncFlag", 0, 1),
        require("0 <= ffnStartRankId and ffnStartRankId < worldSize"),
        when("quantMode == 0", absent("scales")),
        # Sessions, micro batches and numbers; these, tokens, experts of a token and elements; and without the sessions.
        array_length("ffnTokenInfoTableShape", 3),
        array_length("ffnTokenDataShape", 5),
        array_length("attnTokenInfoTableShape", 3),
        rank(3, "x", "expertIds", "expertRankTable", "scales"),
        rank(1, "sessionId", "microBatchId", "layerId"),
        rank(2, "activeMask"),
        require("x[0] == 1", "0 < x[1] and x[1] <= 512", _HIDDEN),
        require(*(f"{name}[0] == 1" for name in ("sessionId", "microBatchId", "layerId", "expertRankTable"))),
        require("expertIds[:2] == x[:2]", "0 < expertIds[2] and expertIds[2] <= min(16, moeExpertNum)"),
        define(shared="expertRankTable[1] - moeExpertNum"),
        require("0 <= shared and shared <= 4", argument="expertRankTable"),
        require("scales == (1, expertRankTable[1], x[2])", "activeMask == x[:2]"),
        require("ffnTokenDataShape[:2] == ffnTokenInfoTableShape[:2]", "ffnTokenDataShape[2] == x[1]"),
        require("0 < ffnTokenDataShape[0] and ffnTokenDataShape[0] < worldSize"),
        require("attnTokenInfoTableShape == ffnTokenDataShape[1:4]"),
    ),
    nullable="group",
)
rule(
    "aclnnFFNToAttention",
    *communicator("group"),
    documented_dtypes(),
    tiling(
        _RANKS,
        # Micro batches, tokens and experts of a token; these, and elements.
        array_length("tokenInfoTableShape", 3),
        array_length("tokenDataShape", 4),
        require("tokenDataShape[:3] == tokenInfoTableShape", "tokenInfoTableShape[0] == 1"),
        require("0 < tokenDataShape[1] and tokenDataShape[1] <= 512"),
        require("1024 <= tokenDataShape[3] and tokenDataShape[3] <= 8192 + 128"),
        rank(2, "x"),
        rank(1, "sessionIds", "microBatchIds", "tokenIds", "expertOffsets", "actualTokenNum", "attnRankTable"),
        require(
            _HIDDEN, *(f"{name}[0] == x[0]" for name in ("sessionIds", "microBatchIds", "tokenIds", "expertOffsets"))
        ),
        require("actualTokenNum[0] == 1", "attnRankTable[0] < worldSize"),
    ),
    nullable="group",
)
