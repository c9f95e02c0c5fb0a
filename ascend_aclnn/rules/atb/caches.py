"""Rules of ATB's operations that write and read caches of pages."""

from __future__ import annotations

from ascend_aclnn.rules.atb._statuses import of_dtypes, of_parameters, of_ranks, of_shapes, operation
from ascend_aclnn.rules.language import *

# Pages are (tokens, heads, width); fractal ones (heads * width / 16, tokens, 16), or 32 elements of 8 bits.
_PLAIN = of_shapes(
    shape_patterns(
        key="tokens heads width",
        value="tokens heads valueWidth",
        keyCache="pages size heads width",
        valueCache="pages size heads valueWidth",
        slotMapping="tokens",
    )
)
_FRACTAL = of_shapes(
    shape_patterns(key="tokens heads width", value="tokens heads valueWidth", slotMapping="tokens"),
    require(
        "keyCache[1] * keyCache[3] == key[1] * key[2]",
        "valueCache[1] * valueCache[3] == value[1] * value[2]",
        "keyCache[3] == (32 if key.dtype == INT8 else 16)",
        "valueCache[3] == (32 if value.dtype == INT8 else 16)",
        "valueCache[2] == keyCache[2]",
        "keyCache[2] % 16 == 0",
    ),
)
_SAME_DESCRIPTION = of_shapes(has_shape(keyCacheOut="keyCache", valueCacheOut="valueCache"))

# kvCacheCfg 1 has a cache of keys alone, 2 fractal caches.
operation(
    "ReshapeAndCache",
    of_parameters(
        one_of("compressType", 0, 1, 2),
        one_of("kvCacheCfg", 0, 1, 2),
        when("kvCacheCfg != 0", one_of("compressType", 0)),
        when("product not in ('A2', 'A3')", one_of("compressType", 0)),
        when("product not in ('A2', 'A3', '950')", require("kvCacheCfg != 1")),
    ),
    when("kvCacheCfg != 1", required("value", "valueCache", "valueCacheOut")),
    of_dtypes(
        dtypes("INT32", "slotMapping"),
        when(
            "kvCacheCfg == 2",
            dtypes("FLOAT16 INT8 BF16", "key"),
            dtypes("FLOAT16 BF16", "value"),
            same_dtype("key", "keyCache", "keyCacheOut"),
            same_dtype("value", "valueCache", "valueCacheOut"),
        ),
        when(
            "kvCacheCfg != 2",
            dtypes("FLOAT16 INT8 BF16", "key"),
            same_dtype("key", "value", "keyCache", "valueCache", "keyCacheOut", "valueCacheOut"),
        ),
    ),
    of_ranks(rank(3, "key", "value"), rank(4, "keyCache", "valueCache"), rank(1, "slotMapping")),
    when("kvCacheCfg != 2 and product in ('A2', 'A3', '950')", _PLAIN),
    when("kvCacheCfg == 2 or product not in ('A2', 'A3', '950')", _FRACTAL),
    _SAME_DESCRIPTION,
    inputs="key keyCache slotMapping keyCacheOut",
)

# kvCacheCfg 0 has fractal caches, whose tokens come out as rows; 1 plain ones. Lengths are running totals with a leading 0, or
# not.
operation(
    "PagedCacheLoad",
    of_parameters(one_of("kvCacheCfg", 0, 1), require("product in ('A2', 'A3')", argument="kvCacheCfg")),
    when("hasSeqStarts", required("seqStarts")),
    of_dtypes(
        dtypes("FLOAT16 INT8 BF16", "keyCache", "valueCache"),
        same_dtype("keyCache", "key", "keyOut"),
        same_dtype("valueCache", "value", "valueOut"),
        dtypes("INT32", "blockTables", "contextLens", "seqStarts"),
    ),
    of_ranks(rank(4, "keyCache", "valueCache"), rank(2, "blockTables"), rank(1, "contextLens", "seqStarts")),
    of_shapes(
        require("valueCache[0] == keyCache[0]"),
        when(
            "kvCacheCfg == 0",
            require("valueCache[2] == keyCache[2]"),
            has_shape(
                keyOut="(keyOut[0], keyCache[1] * keyCache[3])", valueOut="(keyOut[0], valueCache[1] * valueCache[3])"
            ),
        ),
        when(
            "kvCacheCfg == 1",
            require("valueCache[1] == keyCache[1]"),
            has_shape(keyOut="(keyOut[0], *keyCache[2:])", valueOut="(keyOut[0], *valueCache[2:])"),
        ),
        has_shape(key="keyOut", value="valueOut"),
    ),
    inputs="keyCache valueCache blockTables contextLens key value keyOut valueOut",
)
