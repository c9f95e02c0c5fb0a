"""Rules of what stands around attention: caches of keys and values, their compression, results that are put together."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# --------------------------------------------------------------------------------------------------- partial results

_ROWS, _WIDTH = "localOut[0][0]", "localOut[0][1]"
rule(
    "aclnnAttentionUpdate",
    one_of("updateType", 0, 1),
    present_if("updateType == 1", "lseOut"),
    dtypes("FLOAT", "lse"),
    dtypes(FLOATS, "localOut", "out"),
    on_products("950", same_dtype("out", "localOut"), dtypes("FLOAT", "lseOut")),
    # One result and one logarithm of sums for each part of the sequence.
    require("0 < len(lse) <= (16 if product == '950' else 128)", "len(localOut) == len(lse)"),
    require("all(len(x) == 1 for x in lse)", "all(x == lse[0] for x in lse)"),
    require("all(len(x) == 2 for x in localOut)", "all(x == localOut[0] for x in localOut)"),
    require(f"0 < {_WIDTH} <= 512", f"{_WIDTH} % 8 == 0", argument="localOut"),
    require(f"lse[0] == ({_ROWS},)", argument="lse"),
    has_shape(out="localOut[0]", lseOut=f"({_ROWS},)"),
    documented_products,
    infer_shape(out="localOut[0]", lseOut="lse[0] if updateType == 1 else None"),
    output_dtype(out="localOut", lseOut="FLOAT"),
    nullable="lseOut",
)

_STATISTICS = ("prevSoftmaxMax", "prevSoftmaxSum", "curSoftmaxMax", "curSoftmaxSum")
rule(
    "aclnnRingAttentionUpdate aclnnRingAttentionUpdateV2",
    same_dtype("prevAttnOut", "curAttnOut", "attnOutOut", among=FLOATS),
    dtypes("FLOAT", *_STATISTICS, "softmaxMaxOut", "softmaxSumOut"),
    not_empty("prevAttnOut", "curAttnOut", *_STATISTICS),
    # Layout SBH has statistics of rank 4, TND of rank 3; each stands there eight times.
    one_of("inputLayoutOptional", "SBH", "TND"),
    define(packed="inputLayoutOptional is not None and inputLayoutOptional == 'TND'"),
    require(*(f"len({name}) == (3 if packed else 4)" for name in _STATISTICS)),
    require(*(f"{name}[-1] == 8" for name in _STATISTICS)),
    rank(3, "prevAttnOut", "curAttnOut"),
    when(
        "packed",
        require("prevAttnOut[1] <= 256", "prevAttnOut[2] <= 768"),
        required("actualSeqQlenOptional"),
    ),
    no_private_format("prevAttnOut", "curAttnOut", *_STATISTICS, "attnOutOut", "softmaxMaxOut", "softmaxSumOut"),
    documented_products,
    tiling(
        same_shape("prevAttnOut", "curAttnOut"),
        same_shape(*_STATISTICS),
        # (tokens, heads, 8) beside (tokens, heads, width), or (batch, heads, tokens, 8) beside (tokens, batch, heads * width).
        when("packed", require("prevSoftmaxMax[:2] == prevAttnOut[:2]")),
        when(
            "not packed",
            require("prevSoftmaxMax[0] == prevAttnOut[1]", "prevSoftmaxMax[2] == prevAttnOut[0]"),
            require("prevAttnOut[2] % prevSoftmaxMax[1] == 0"),
        ),
    ),
    infer_shape(attnOutOut="prevAttnOut", softmaxMaxOut="prevSoftmaxMax", softmaxSumOut="prevSoftmaxSum"),
)

# --------------------------------------------------------------------------------------------------- caches

_PLAIN = "FLOAT16 FLOAT BF16 INT8 UINT8 INT16 UINT16 INT32 UINT32"
_LIKE_SLOTS = same_dtype("slotMapping", "compressLensOptional", "compressSeqOffsetOptional", "seqLensOptional")
rule(
    "aclnnGatherPaKvCache",
    unless_empty(
        "keyCache valueCache keyRef valueRef",
        rank(4, "keyCache", "valueCache"),
        rank(2, "blockTables"),
        rank(1, "seqLens"),
        rank(2, 3, "keyRef", "valueRef"),
        dtypes({"950": f"{_PLAIN} {FLOAT8S}", "": _PLAIN}, "keyCache", "valueCache"),
        dtypes(INDICES, "blockTables", "seqLens"),
        same_dtype("keyCache", "keyRef"),
        same_dtype("valueCache", "valueRef"),
        same_dtype("blockTables", "seqLens"),
        dtypes(INDICES, "seqOffsetOptional"),
        tiling(require("seqOffsetOptional[0] == blockTables[0]"), rank(1, "seqOffsetOptional")),
        same_dtype("blockTables", "seqOffsetOptional"),
        tiling(require("seqOffsetOptional.size > 0")),
        documented_products,
    ),
    nullable="cacheMode",
)
_STORED = {"950": f"{_PLAIN} {FLOAT8S} {FLOAT4S}", "": "FLOAT16 BF16 INT8"}
rule(
    "aclnnScatterPaKvCache",
    when("value is not None", required("valueCacheRef", status=INNER_NULLPTR)),
    # Success at once where neither keys nor values are to be stored.
    when(
        "key.size and keyCacheRef.size or value is not None and value.size and valueCacheRef.size",
        rank(3, 4, "key"),
        require("len(value) in (0, 3, 4)"),
        dtypes(_STORED, "key", "keyCacheRef"),
        dtypes(INDICES, "slotMapping"),
        dtypes(_STORED, "value", "valueCacheRef"),
        # Keys and values are of one type, but for the fractal cache.
        same_dtype("key", "keyCacheRef"),
        same_dtype("value", "valueCacheRef"),
        when("cacheModeOptional is None or cacheModeOptional != 'PA_NZ'", same_dtype("key", "value")),
        _LIKE_SLOTS,
        documented_products,
    ),
    nullable="valueCacheRef",
    null_status=INNER_NULLPTR,
)
_TENSORS = ("key", "value", "keyCacheRef", "valueCacheRef")
rule(
    "aclnnScatterPaKvCacheWithKScale",
    when(
        "slotMapping.size and"
        " (key.size and keyCacheRef.size or value.size and valueCacheRef.size or keyScale.size and keyScaleCacheRef.size)",
        rank(3, "key", "value"),
        rank(1, "slotMapping"),
        rank(4, "keyCacheRef", "valueCacheRef", "keyScaleCacheRef"),
        rank(2, "keyScale"),
        require(*(f"{name}[-1] > 0" for name in _TENSORS)),
        dtypes("FLOAT8_E5M2 FLOAT8_E4M3FN", *_TENSORS),
        dtypes(INDICES, "slotMapping"),
        dtypes("FLOAT", "keyScale", "keyScaleCacheRef"),
        same_dtype(*_TENSORS),
        documented_products,
        # Pages have their heads before their tokens.
        tiling(
            has_shape(
                value="(*key[:2], value[2])",
                keyCacheRef="(keyCacheRef[0], key[1], *keyCacheRef[2:3], key[2])",
                valueCacheRef="(*keyCacheRef[:3], value[2])",
                slotMapping="key[:1]",
                keyScale="key[:2]",
                keyScaleCacheRef="(*keyCacheRef[:3], 1)",
            )
        ),
    ),
)
rule(
    "aclnnScatterPaCache",
    documented_products,
    documented_dtypes(),
    _LIKE_SLOTS,
    # Tokens (tokens, heads, width) into pages of such, or, compressed, (batch, tokens, heads, width) into pages of single heads.
    when(
        "key.size and keyCacheRef.size",
        tiling(
            rank(3, 4, "key"),
            rank(4, "keyCacheRef"),
            when("len(key) == 3", has_shape(slotMapping="key[:1]", keyCacheRef="(*keyCacheRef[:2], *key[1:])")),
            when(
                "len(key) == 4",
                has_shape(
                    slotMapping="(key[0], key[2])",
                    keyCacheRef="(*keyCacheRef[:2], 1, key[3])",
                    seqLensOptional="key[:1]",
                ),
                require("compressLensOptional.size == key[0] * key[2]"),
                require("compressSeqOffsetOptional.size == key[0] * key[2]"),
            ),
        ),
    ),
)

# --------------------------------------------------------------------------------------------------- compression
