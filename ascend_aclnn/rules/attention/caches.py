"""Rules of what stands around attention: caches of keys and values, their compression, results that are put together."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

# --------------------------------------------------------------------------------------------------- partial results


def _update_dtypes(call: Call) -> None:
    dtypes("FLOAT", "lse")(call)
    dtypes("FLOAT FLOAT16 BF16", "localOut", "out")(call)
    if call.product == "950":
        same_dtype("out", "localOut")(call)
        dtypes("FLOAT", "lseOut")(call)


def _update_shapes(call: Call) -> None:
    """One result and one logarithm of sums for each part of the sequence; heads of a multiple of 8, at most 512."""
    sums, parts = ([tensor.shape for tensor in call.tensors(name)] for name in ("lse", "localOut"))
    most = 16 if call.product == "950" else 128
    call.require(0 < len(sums) <= most, "lse", f"has {len(sums)} tensors; there must be 1 to {most}")
    call.require(len(parts) == len(sums), "localOut", f"has {len(parts)} tensors; it must have {len(sums)}, as lse")
    for name, shapes, wanted in (("lse", sums, 1), ("localOut", parts, 2)):
        call.require(len(shapes[0]) == wanted, name, f"has shape {shapes[0]}; its rank must be {wanted}")
        other = next((s for s in shapes if s != shapes[0]), None)
        call.require(other is None, name, f"has tensors of the shapes {shapes[0]} and {other}; they must be the same")
    rows, width = parts[0]
    fits = width > 0 and width % 8 == 0 and width <= 512
    call.require(fits, "localOut", f"has heads {width} wide; they must be a multiple of 8, at most 512")
    call.require(sums[0] == (rows,), "lse", f"has shape {sums[0]}; it must be ({rows},)")
    for name, wanted_shape in (("out", (rows, width)), ("lseOut", (rows,))):
        got = call.shape(name)
        fits = not call.is_present(name) or got == wanted_shape
        call.require(fits, name, f"has shape {got}; it must be {wanted_shape}")


def _sums_wanted(call: Call) -> None:
    kind = call["updateType"]
    one_of("updateType", 0, 1)(call)
    wanted = kind == 1
    text = "is required with update_type 1" if wanted else "must be None with update_type 0"
    call.require(call.is_present("lseOut") is wanted, "lseOut", text)


def _first(name: str) -> ShapeRule:
    """The shape of a list's first tensor."""

    def made(call: Call) -> Shape:
        tensors = call.tensors(name)
        call.require(bool(tensors), name, "is empty; one tensor at least is needed")
        return tensors[0].shape

    return made


rule(
    "aclnnAttentionUpdate",
    _sums_wanted,
    _update_dtypes,
    _update_shapes,
    documented_products,
    infer_shape(out=_first("localOut"), lseOut=lambda call: _first("lse")(call) if call["updateType"] == 1 else None),
    output_dtype(out=lambda call: call.dtype("localOut"), lseOut="FLOAT"),
    nullable="lseOut",
)

_STATISTICS = ("prevSoftmaxMax", "prevSoftmaxSum", "curSoftmaxMax", "curSoftmaxSum")


def _ring(call: Call) -> None:
    """Layout SBH has statistics of rank 4, TND of rank 3; each stands there eight times."""
    for name in ("prevAttnOut", "curAttnOut", *_STATISTICS):
        call.require(not call.is_empty(name), name, "is empty")
    layout = call["inputLayoutOptional"]
    one_of("inputLayoutOptional", "SBH", "TND")(call)
    wanted = 3 if layout == "TND" else 4
    rank(wanted, wanted, *_STATISTICS)(call)
    for name in _STATISTICS:
        call.require(call.size(name, -1) == 8, name, f"has shape {call.shape(name)}; its last axis must be 8")
    rank(3, 3, "prevAttnOut", "curAttnOut")(call)
    if layout == "TND":
        heads, width = call.shape("prevAttnOut", least=3)[1:]
        call.require(heads <= 256, "prevAttnOut", f"has {heads} heads; there must be at most 256")
        call.require(width <= 768, "prevAttnOut", f"has heads {width} wide; they must be at most 768")
        there = call.is_present("actualSeqQlenOptional")
        call.require(there, "actualSeqQlenOptional", "is None; in layout TND it is required", PARAM_NULLPTR)


for _name in ("aclnnRingAttentionUpdate", "aclnnRingAttentionUpdateV2"):
    rule(
        _name,
        same_dtype("prevAttnOut", "curAttnOut", "attnOutOut"),
        dtypes("FLOAT FLOAT16 BF16", "prevAttnOut"),
        dtypes("FLOAT", *_STATISTICS, "softmaxMaxOut", "softmaxSumOut"),
        _ring,
        no_private_format("prevAttnOut", "curAttnOut", *_STATISTICS, "attnOutOut", "softmaxMaxOut", "softmaxSumOut"),
        documented_products,
        infer_shape(
            attnOutOut=shape_of("prevAttnOut"),
            softmaxMaxOut=shape_of("prevSoftmaxMax"),
            softmaxSumOut=shape_of("prevSoftmaxSum"),
        ),
    )


def _token_dtype(call: Call) -> DataType:
    return DataType.BF16 if call["tokenDtype"] == 1 else DataType.FLOAT16


rule(
    "aclnnAttentionWorkerCombine",
    documented_products,
    documented_dtypes(),
    infer_shape(y=shape_from(("expertScales", 0), "hiddenSize"), nextLayerId=shape_of("layerId")),
    output_dtype(y=_token_dtype, nextLayerId="INT32"),
)


def _filled(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            call.require(not call.is_empty(name), name, "is empty")

    return check


rule(
    "aclnnInplaceAttentionWorkerScheduler",
    _filled("scheduleContextRef"),
    rank(1, 1, "scheduleContextRef"),
    documented_products,
    documented_dtypes(),
)
rule("aclnnSwinAttentionScoreQuant", documented_products, documented_dtypes(), infer_shape(out=shape_of("query")))

# --------------------------------------------------------------------------------------------------- caches

_PLAIN = "FLOAT16 FLOAT BF16 INT8 UINT8 INT16 UINT16 INT32 UINT32"
_SMALL = "HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN"
_INDEX = "INT32 INT64"


def _like_slots(call: Call) -> None:
    same_dtype("slotMapping", "compressLensOptional", "compressSeqOffsetOptional", "seqLensOptional")(call)


rule(
    "aclnnGatherPaKvCache",
    unless_empty(
        "keyCache valueCache keyRef valueRef",
        rank(4, 4, "keyCache", "valueCache"),
        rank(2, 2, "blockTables"),
        rank(1, 1, "seqLens"),
        rank(2, 3, "keyRef", "valueRef"),
        dtypes({"950": f"{_PLAIN} {_SMALL}", "": _PLAIN}, "keyCache", "valueCache"),
        dtypes(_INDEX, "blockTables", "seqLens"),
        same_dtype("keyCache", "keyRef"),
        same_dtype("valueCache", "valueRef"),
        same_dtype("blockTables", "seqLens"),
        dtypes(_INDEX, "seqOffsetOptional"),
        same_dtype("blockTables", "seqOffsetOptional"),
        documented_products,
    ),
    nullable="cacheMode",
)


def _values_with_cache(call: Call) -> None:
    there = not call.is_present("value") or call.is_present("valueCacheRef")
    call.require(there, "valueCacheRef", "is None (a null pointer); with value it is required", INNER_NULLPTR)


def _value_rank(call: Call) -> None:
    sizes = call.shape("value")
    call.require(len(sizes) in (0, 3, 4), "value", f"has shape {sizes}; its rank must be 3 or 4 (or 0)")


def _value_dtypes(call: Call) -> None:
    """Keys and values are of one type, but for the fractal cache."""
    same_dtype("key", "keyCacheRef")(call)
    same_dtype("value", "valueCacheRef")(call)
    if call["cacheModeOptional"] != "PA_NZ":
        same_dtype("key", "value")(call)


def _something(*checks: Check) -> Check:
    """Success at once where neither keys nor values are to be stored."""

    def check(call: Call) -> None:
        keys = not call.is_empty("key") and not call.is_empty("keyCacheRef")
        values = call.is_present("value") and not call.is_empty("value") and not call.is_empty("valueCacheRef")
        if keys or values:
            for word in checks:
                word(call)

    return check


_STORED = {"950": f"{_PLAIN} {_SMALL} FLOAT4_E1M2 FLOAT4_E2M1", "": "FLOAT16 BF16 INT8"}
rule(
    "aclnnScatterPaKvCache",
    _values_with_cache,
    _something(
        rank(3, 4, "key"),
        _value_rank,
        dtypes(_STORED, "key", "keyCacheRef"),
        dtypes(_INDEX, "slotMapping"),
        dtypes(_STORED, "value", "valueCacheRef"),
        _value_dtypes,
        _like_slots,
        documented_products,
    ),
    nullable="valueCacheRef",
    null_status=INNER_NULLPTR,
)


def _scaled_keys(call: Call) -> None:
    pairs = (("key", "keyCacheRef"), ("value", "valueCacheRef"), ("keyScale", "keyScaleCacheRef"))
    nothing = all(call.is_empty(a) or call.is_empty(b) for a, b in pairs)
    if nothing or call.is_empty("slotMapping"):
        return
    rank(3, 3, "key", "value")(call)
    rank(1, 1, "slotMapping")(call)
    rank(4, 4, "keyCacheRef", "valueCacheRef", "keyScaleCacheRef")(call)
    rank(2, 2, "keyScale")(call)
    for name in ("key", "value", "keyCacheRef", "valueCacheRef"):
        call.require(call.size(name, -1) > 0, name, f"has shape {call.shape(name)}; its last axis must not be 0")
    dtypes("FLOAT8_E5M2 FLOAT8_E4M3FN", "key", "value", "keyCacheRef", "valueCacheRef")(call)
    dtypes(_INDEX, "slotMapping")(call)
    dtypes("FLOAT", "keyScale", "keyScaleCacheRef")(call)
    same_dtype("key", "keyCacheRef", "value", "valueCacheRef")(call)
    documented_products(call)


rule("aclnnScatterPaKvCacheWithKScale", _scaled_keys)
rule("aclnnScatterPaCache", documented_products, documented_dtypes(), _like_slots)
rule("aclnnIndexerQuantCache", _filled("cacheRef", "x", "slotMapping"), documented_products, documented_dtypes())
rule("aclnnKvCompressEpilog", _filled("cacheRef", "x", "slotMapping"), documented_products, documented_dtypes())

# --------------------------------------------------------------------------------------------------- compression


def _groups(call: Call) -> tuple[Shape, int]:
    """How many compressed tokens there may be, by batch or (packed sequences) in all, and how wide they are."""
    ratio, streams = call["cmpRatio"], call["coff"]
    call.require(ratio > 0, "cmpRatio", f"is {ratio}; it must be positive")
    call.require(streams > 0, "coff", f"is {streams}; it must be positive")
    width = call.size("wkv", 0) // streams
    sizes = call.shape("x")
    if len(sizes) == 3:
        return (sizes[0], -(-sizes[1] // ratio)), width
    ends = "cuSeqlensOptional"
    call.require(call.is_present(ends), ends, "is None; for packed sequences it is required")
    tokens = call.size("x", 0)
    return (min(tokens, tokens // ratio + call.size(ends, 0) - 1),), width


def _compressed(call: Call) -> Shape:
    groups, width = _groups(call)
    return (*groups, width)


def _kept(call: Call) -> Shape:
    """What the gradient needs: a row for each token of a group."""
    groups, width = _groups(call)
    return (*groups, call["coff"] * call["cmpRatio"], width)


rule(
    "aclnnCompressor",
    documented_products,
    documented_dtypes(),
    infer_shape(cmpKvOut=_compressed, softmaxScoreOut=_kept, kvOut=_kept),
)
rule("aclnnQuantCompressor", documented_products, documented_dtypes(), infer_shape(cmpKvOut=_compressed))
rule(
    "aclnnCompressorGrad",
    documented_products,
    documented_dtypes(),
    infer_shape(
        dXOut=shape_of("x"),
        dWkvOut=shape_of("wkv"),
        dWgateOut=shape_of("wgate"),
        dApeOut=shape_from("cmpRatio", ("wkv", 0)),
    ),
)
