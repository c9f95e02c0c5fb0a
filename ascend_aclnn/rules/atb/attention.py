"""Rules of ATB's attention: tokens over caches of pages, and sequences of packed tokens."""

from __future__ import annotations

from ascend_aclnn.rules.atb._statuses import of_dtypes, of_parameters, of_ranks, of_shapes, operation
from ascend_aclnn.rules.language import *

_HEADS = (
    require("headNum > 0", "kvHeadNum >= 0"),
    require("kvHeadNum == 0 or headNum % kvHeadNum == 0"),
)
_ON_A2 = "product in ('A2', 'A3')"

# --------------------------------------------------------------------------------------------------- caches of pages

# maskType: 1 norm, 2 alibi, 3 spec (a row for each token), 4 mask free, 5 norm compress. calcType 1: several tokens.
_PAGED_PARAMETERS = of_parameters(
    *_HEADS,
    one_of("maskType", 0, 1, 2, 3, 4, 5),
    one_of("quantType", 0, 1, 2, 3),
    one_of("compressType", 0, 1, 2),
    one_of("calcType", 0, 1),
    one_of("scaleType", 0, 1),
    one_of("inputLayout", 0, 1),
    when("maskType == 5", require("product == '310P'", argument="maskType"), one_of("quantType", 0)),
    when("maskType == 4", require("product == '310P'", argument="maskType")),
    when(
        f"not ({_ON_A2})",
        one_of("batchRunStatusEnable", False),
        one_of("compressType", 0),
        one_of("mlaVHeadSize", 0),
        one_of("quantType", 0),
    ),
    when("compressType == 2", one_of("maskType", 0), one_of("batchRunStatusEnable", False)),
    when(
        "calcType == 1",
        one_of("batchRunStatusEnable", False),
        one_of("compressType", 0),
        when(f"{_ON_A2} and mlaVHeadSize == 0", one_of("maskType", 1, 3)),
        when(f"not ({_ON_A2})", one_of("maskType", 0, 3, 4, 5)),
        one_of("quantType", 0),
        one_of("scaleType", 0),
        one_of("inputLayout", 0),
    ),
    when(
        "quantType in (2, 3)",
        one_of("outDataType", 1, 27),  # FLOAT16, BF16
        one_of("hasQuantOffset", False),
        one_of("compressType", 0),
    ),
    when("scaleType == 1", one_of("quantType", 0), one_of("compressType", 0)),
    when("inputLayout == 1", one_of("compressType", 0), one_of("quantType", 0), one_of("scaleType", 0)),
    when(
        "mlaVHeadSize > 0",
        require("maskType != 2", "quantType != 1", "kvHeadNum == 1", "mlaVHeadSize <= 576"),
        one_of("compressType", 0),
        one_of("scaleType", 0),
        one_of("inputLayout", 0),
    ),
)

operation(
    "PagedAttention",
    _PAGED_PARAMETERS,
    when("mlaVHeadSize == 0", required("valueCache")),
    when("maskType != 0", required("mask")),
    when("quantType != 0", required("keyDescale", "valueDescale")),
    when("calcType == 1", required("qSeqLen")),
    of_dtypes(
        dtypes("INT32", "blockTables"),
        when("quantType == 0", same_dtype("query", "keyCache", "valueCache", "attnOut", among="FLOAT16 BF16")),
        when(
            "quantType == 1",
            dtypes("FLOAT16 BF16", "query"),
            same_dtype("query", "attnOut"),
            dtypes("INT8", "keyCache", "valueCache"),
            dtypes("INT64 FLOAT", "keyDescale", "valueDescale"),
            same_dtype("keyDescale", "valueDescale"),
            dtypes("INT32", "keyOffset", "valueOffset"),
        ),
        same_dtype("query", "mask"),
    ),
    of_ranks(rank(3, "query", "attnOut"), rank(4, "keyCache", "valueCache"), rank(2, "blockTables")),
    define(keyHeads="kvHeadNum or headNum"),
    when(
        "product in ('A2', 'A3', '950')",
        of_shapes(
            define(valueWidth="mlaVHeadSize or valueCache[3]"),
            require("query[1] == headNum", "keyCache[2] == keyHeads", "keyCache[3] == query[2]"),
            has_shape(valueCache="(*keyCache[:3], valueCache[3])", attnOut="(*query[:2], valueWidth)"),
            infer_shape(attnOut="(*query[:2], valueWidth)"),
            require("keyCache[3] <= 576", "valueWidth <= 576", "valueWidth <= keyCache[3] or mlaVHeadSize == 0"),
            when(
                "quantType != 0 or calcType == 1 and mlaVHeadSize == 0",
                require("valueCache[3] == keyCache[3]", "keyCache[3] <= 256", "keyCache[1] * keyCache[3] <= 128 * 128"),
            ),
            when("keyCache[3] > 256 or valueWidth > 256", require("keyCache[1] <= 128 or keyCache[1] == 256")),
        ),
    ),
    when(
        "product not in ('A2', 'A3', '950')",
        of_shapes(
            define(width="keyCache[1] * 16 // keyHeads"),
            require("keyCache[3] == 16", "valueCache[3] == 16", "keyCache[2] == valueCache[2]"),
            require("width % 16 == 0", "width <= 256", "width * keyCache[2] <= 128 * 128", argument="keyCache"),
            require("query[2] == width"),
            has_shape(attnOut="query"),
            infer_shape(attnOut="query"),
            when(
                "maskType == 4",
                require("mask == (1, 8, 128, 16)", "keyCache[2] == 128"),
                when(
                    "calcType == 1",
                    require("all((k - q) % 128 == 0 for k, q in zip(contextLens, qSeqLen))", argument="contextLens"),
                ),
            ),
            when(
                "maskType == 5",
                require("mask in ((1, 128, 2048, 16), (2048, 2048), (1, 2048, 2048), (1, 1, 2048, 2048))"),
            ),
        ),
    ),
    output_dtype(attnOut="query"),
    inputs="query keyCache blockTables contextLens attnOut",
)

# ------------------------------------------------------------------------------------------------ packed tokens

# calcType: 3 packed tokens (PA_ENCODER), 4 packed queries over caches of pages (PREFIX_ENCODER). maskType: 1 norm, 2 alibi, 3
# norm compress, 4 to 6 alibi compress, 7 and 8 sliding windows, 9 causal.
_PACKED_PARAMETERS = of_parameters(
    *_HEADS,
    one_of("kvcacheCfg", 0, 1),
    one_of("quantType", 0, 2, 3),
    one_of("maskType", *range(10)),
    one_of("scaleType", 0, 1),
    one_of("kernelType", 0, 1, 2),
    one_of("inputLayout", 0, 1),
    when("quantType != 0", one_of("outDataType", 1, 27), one_of("calcType", 3), one_of("scaleType", 0)),
    when("calcType == 3", one_of("kvcacheCfg", 0)),
    when("calcType not in (3, 4)", require("maskType not in (4, 5, 6)")),
    when("maskType == 0", require("isTriuMask != 1")),
    when(
        "mlaVHeadSize > 0",
        one_of("calcType", 3),
        require(_ON_A2, argument="mlaVHeadSize"),
        one_of("maskType", 0, 1, 7, 8),
        one_of("scaleType", 0),
        one_of("clampType", 0),
        require("mlaVHeadSize <= 576"),
    ),
    when("windowSize == 0", require("maskType not in (7, 8)"), one_of("cacheType", 0)),
    when("windowSize > 0", one_of("maskType", 7, 8)),
    when(f"not ({_ON_A2})", require("maskType != 6"), one_of("clampType", 0), one_of("quantType", 0)),
    when("kernelType == 2", require("product == '310P'", argument="kernelType")),
    when(
        "calcType == 4",
        require(_ON_A2, argument="calcType"),
        one_of("quantType", 0),
        one_of("outDataType", -1),
        one_of("qScale", 1.0),
        one_of("batchRunStatusEnable", False),
        one_of("isTriuMask", 1),
        one_of("kernelType", 1),
        one_of("clampType", 0),
        one_of("maskType", 3, 4, 5, 9),
        one_of("kvcacheCfg", 0),
        one_of("scaleType", 0),
        one_of("inputLayout", 0),
        one_of("cacheType", 0),
        one_of("mlaVHeadSize", 0),
        one_of("windowSize", 0),
    ),
)

_COMPRESSED = "(512, 512) if product == '950' else (128, 128)"

operation(
    "SelfAttention",
    _PACKED_PARAMETERS,
    when("mlaVHeadSize == 0", required("value")),
    when("maskType not in (0, 9)", required("mask")),
    when("calcType == 4", required("blockTables", "kvSeqLen")),
    of_dtypes(
        same_dtype("query", "key", "value", "attnOut", among="FLOAT16 BF16"),
        same_dtype("query", "mask"),
        dtypes("INT32", "blockTables"),
    ),
    define(keyHeads="kvHeadNum or headNum"),
    of_ranks(rank(2, 4, "mask"), rank(2, "blockTables")),
    when(
        "calcType == 3",
        of_ranks(rank(2, 3, "query"), require("len(key) == len(query)", "len(value) == len(query)")),
        of_shapes(
            require("len(query) == 3 or query[1] % headNum == 0", "len(query) == 2 or query[1] == headNum"),
            require("key[-1] % keyHeads == 0 or len(key) == 3", "len(key) == 2 or key[1] == keyHeads"),
            require("value[:-1] == key[:-1]"),
            define(
                width="query[1] // headNum if len(query) == 2 else query[2]",
                valueWidth="value[1] // keyHeads if len(value) == 2 else value[2]",
            ),
            require("(key[1] // keyHeads if len(key) == 2 else key[2]) == width"),
            define(result="(query[0], headNum * valueWidth) if len(query) == 2 else (*query[:2], valueWidth)"),
            output_shape(attnOut="result"),
        ),
    ),
    when(
        "calcType == 4",
        of_ranks(rank(3, "query"), rank(3, 4, "key", "value")),
        of_shapes(
            require("query[1] == headNum", "value[:-1] == key[:-1]"),
            require("(key[3] if len(key) == 4 else key[2] // keyHeads) == query[2]"),
            require("len(key) == 3 or key[2] == keyHeads"),
            output_shape(attnOut="query"),
        ),
    ),
    when("maskType == 3 and product != '310P'", of_shapes(has_shape(mask=_COMPRESSED))),
    output_dtype(attnOut="query"),
    inputs="query key seqLen attnOut",
)
