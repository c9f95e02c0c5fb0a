"""Rules of attention to chosen blocks or tokens: masks of blocks, native sparse attention (Nsa), indexers, metadata.

Where the statement is the operator's registration alone, phase one looks for the chip, then at the documented data types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.attention.layouts import named
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    ShapeRule,
    documented_dtypes,
    documented_products,
    dtype_of,
    dtypes,
    infer_shape,
    one_of,
    output_dtype,
    rank,
    rule,
    same_dtype,
    same_shape,
    shape_from,
    shape_of,
    shape_patterns,
    unless_empty,
)

_HALF = "FLOAT16 BF16"


def _null_status(status: int, *names: str) -> Check:
    """Pointers that are refused with another status than 161001."""

    def check(call: Call) -> None:
        for name in names:
            call.require(call.is_present(name), name, "is None (a null pointer); it is required", status)

    return check


def _if_given(name: str) -> ShapeRule:
    """The shape of an optional tensor, none without it."""
    return lambda call: call.shape(name) if call.is_present(name) else None


def _nothing(call: Call) -> None:
    return None


# --------------------------------------------------------------------------------------------------- masks of blocks


def _layouts(*allowed: str) -> Check:
    def check(call: Call) -> None:
        for name in ("qInputLayout", "kvInputLayout"):
            one_of(name, *allowed)(call)
        query, keys = call["qInputLayout"], call["kvInputLayout"]
        call.require(query == keys, "kvInputLayout", f"is {keys!r}; it must be {query!r}, as that of query")

    return check


def _block(name: str, exact: bool) -> Check:
    """Two positive sizes: of a block of queries, and of keys."""

    def check(call: Call) -> None:
        sizes = call[name]
        if sizes is not None:
            fits = len(sizes) == 2 if exact else len(sizes) >= 2
            call.require(fits and min(sizes[:2]) > 0, name, f"is {sizes}; it must be two positive sizes")

    return check


def _quant_mode(call: Call) -> None:
    """Mode 0 is not quantised, 1 takes FLOAT8_E4M3FN, 2 and 3 take FLOAT4_E2M1; the scales go with it."""
    one_of("quantMode", 0, 1, 2, 3)(call)
    mode, scales = call["quantMode"], [f"{x}DequantScaleOptional" for x in "qkv"]
    if mode == 0:
        dtypes(_HALF, "query")(call)
        for name in scales:
            call.require(not call.is_present(name), name, "is given; with quant_mode 0 it must be None")
        return
    dtypes("FLOAT8_E4M3FN" if mode == 1 else "FLOAT4_E2M1", "query")(call)
    _null_status(PARAM_INVALID, *scales)(call)
    dtypes("FLOAT" if mode == 1 else "FLOAT8_E8M0", *scales)(call)


def _small_floats(call: Call) -> None:
    """What 4-bit attention does not do."""
    mode, largest = call["quantMode"], call["dstTypeMax"]
    if mode == 3:
        fits = largest == 0 or 6 <= largest <= 12
        call.require(fits, "dstTypeMax", f"is {largest}; it must be 0 or in [6, 12]")
    if mode not in (2, 3):
        return
    one_of("innerPrecise", 4)(call)
    one_of("softmaxLseFlag", 0)(call)
    for name in ("attenMaskOptional", "blockTableOptional"):
        call.require(not call.is_present(name), name, f"is given; with quant_mode {mode} it must be None")
    rank_ = 4 if call["qInputLayout"] == "TND" else 5
    rank(rank_, rank_, *(f"{x}DequantScaleOptional" for x in "qkv"))(call)


def _one_each(name: str, flag: str = "") -> ShapeRule:
    """One number for each head of each token, if the flag asks for them."""

    def made(call: Call) -> Optional[Shape]:
        return (*call.shape(name)[:-1], 1) if not flag or call[flag] else None

    return made


def _attended_dtype(call: Call) -> DataType:
    query = call.dtype("query")
    return query if query.name in _HALF.split() else DataType.BF16


for _name, _types, _more in (
    ("aclnnBlockSparseAttention", _HALF, ()),
    ("aclnnBlockSparseAttentionV2", _HALF + " FLOAT8_E4M3FN", ()),
    ("aclnnBlockSparseAttentionV3", _HALF + " FLOAT8_E4M3FN FLOAT4_E2M1", (_quant_mode,)),
):
    rule(
        _name,
        dtypes(_types, "query"),
        same_dtype("query", "key", "value"),
        *_more,
        _layouts("TND", "BNSD", "BSND"),
        _block("blockShapeOptional", exact=True),
        one_of("innerPrecise", 0, 1, 4),
        *((_small_floats,) if _more else ()),
        documented_products,
        infer_shape(attentionOut=shape_of("query"), softmaxLseOptional=_one_each("query", "softmaxLseFlag")),
        output_dtype(attentionOut=_attended_dtype, softmaxLseOptional="FLOAT"),
    )

rule(
    "aclnnRainFusionAttention",
    _null_status(PARAM_NULLPTR, "blockShape"),
    dtypes(_HALF, "query"),
    same_dtype("query", "key", "value"),
    _layouts("TND", "BNSD"),
    _block("blockShape", exact=False),
    one_of("innerPrecise", 0, 1),
    documented_products,
    infer_shape(attentionOut=shape_of("query"), softmaxLseOptional=_one_each("query")),
    output_dtype(softmaxLseOptional="FLOAT"),
)


def _block_gradients(call: Call) -> None:
    """Widths (and batches, but for TND) agree; no mask of tokens, no band."""
    tnd = call["qInputLayout"] == "TND"
    query = call.shape("query")
    for name in ("key", "value", "attentionOut", "dout", "softmaxLse", "dq", "dk", "dv"):
        sizes = call.shape(name)
        if not tnd:
            fits = len(sizes) == len(query) and sizes[:1] == query[:1]
            call.require(fits, name, f"has shape {sizes}; its rank and batch must be as those of query {query}")
        if name != "softmaxLse":
            other = "value" if not tnd and name in ("attentionOut", "dout", "dv") else "query"
            if not tnd and name == "value":
                continue
            width = call.size(other, -1)
            text = f"has shape {sizes}; its last axis must be {width}, as that of {other}"
            call.require(call.size(name, -1) == width, name, text)
    call.require(not call.is_present("attenMaskOptional"), "attenMaskOptional", "is given; it must be None")
    one_of("maskType", 0)(call)
    for name in ("preTokens", "nextTokens"):
        one_of(name, 2147483647)(call)
    for layout, name in (("qInputLayout", "actualSeqLengthsOptional"), ("kvInputLayout", "actualSeqLengthsKvOptional")):
        there = call[layout] != "TND" or call.is_present(name)
        call.require(there, name, "is None; in layout TND it is required")
    call.require((call["kvInputLayout"] == "BNSD") is (call["qInputLayout"] == "BNSD"), "kvInputLayout", "differs")


rule(
    "aclnnBlockSparseAttentionGrad",
    dtypes(_HALF, "query"),
    same_dtype("query", "key", "value", "attentionOut", "dout"),
    dtypes("FLOAT", "softmaxLse"),
    dtypes("BOOL UINT8", "blockSparseMaskOptional"),
    same_dtype("query", "dq", "dk", "dv"),
    _block_gradients,
    _null_status(PARAM_NULLPTR, "blockShapeOptional"),
    _block("blockShapeOptional", exact=False),
    documented_products,
    infer_shape(dq=shape_of("query"), dk=shape_of("key"), dv=shape_of("value")),
    output_dtype(dq=dtype_of("query"), dk=dtype_of("query"), dv=dtype_of("query")),
    required="blockSparseMaskOptional",
)


def _blocks(call: Call) -> Shape:
    """One number for each block of queries and of keys; (64, 64) tokens or what blockShape says."""
    _block("blockShape", exact=False)(call)
    queries, keys = (call["blockShape"] or (64, 64))[:2]
    rank(3, 4, "query", "key")(call)
    if (call["qInputLayout"] or "BNSD") == "TND":
        lengths = call["actualSeqLengths"] or (call.size("query", 0),)
        lengths_keys = call["actualSeqLengthsKV"] or (call.size("key", 0),)
        batch, longest, longest_keys = len(lengths), max(lengths), max(lengths_keys)
    else:
        batch, longest, longest_keys = call.size("query", 0), call.size("query", 2), call.size("key", 2)
    return batch, call.size("query", 1), -(-longest // queries), -(-longest_keys // keys)


rule("aclnnBSASelectBlockMask", documented_products, documented_dtypes(), infer_shape(blockSparseMaskOut=_blocks))

# --------------------------------------------------------------------------------------------------- native sparse attention


def _compressed(call: Call) -> Shape:
    """Every sequence gives one block per stride, from those that are whole; the lengths are running totals."""
    size, stride = call["compressBlockSize"], call["compressStride"]
    call.require(stride > 0, "compressStride", f"is {stride}; it must be positive")
    ends: tuple[int, ...] = call["actSeqLenOptional"] or ()
    lengths = [end - start for start, end in zip((0, *ends), ends)]
    blocks = sum((n - size + stride) // stride for n in lengths if n >= size)
    return (blocks, *call.shape("input")[1:])


def _compression(call: Call) -> None:
    x, weight = call.shape("input"), call.shape("weight")
    fits = len(x) >= 3 and min(x[1:3]) > 0
    call.require(fits, "input", f"has shape {x}; it must be (tokens, heads, width), heads and width not 0")
    wanted = (call["compressBlockSize"], x[1])
    call.require(weight[:2] == wanted, "weight", f"has shape {weight}; it must be {wanted}")
    one_of("layoutOptional", "TND")(call)
    call.require(bool(call["actSeqLenOptional"]), "actSeqLenOptional", "is empty; it is required")
    one_of("actSeqLenType", 0)(call)


rule(
    "aclnnNsaCompress",
    same_dtype("input", "weight", "output"),
    _compression,
    documented_products,
    documented_dtypes(),
    infer_shape(output=_compressed),
)
rule(
    "aclnnNsaCompressGrad",
    documented_products,
    documented_dtypes(),
    infer_shape(inputGradOut=shape_of("input"), weightGradOut=shape_of("weight")),
)


def _filled(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            call.require(not call.is_empty(name), name, "is empty")

    return check


# The output is a cache that is there already, of any length: nothing to infer.
rule(
    "aclnnNsaCompressWithCache",
    _filled("input", "weight", "outputCache"),
    dtypes(_HALF, "input", "weight", "outputCache"),
    dtypes("INT32", "slotMapping", "blockTableOptional"),
    same_dtype("input", "weight", "outputCache"),
    documented_products,
    null_status=INNER_NULLPTR,
)


def _tnd(call: Call) -> None:
    one_of("inputLayout", "TND")(call)


def _chosen(call: Call) -> Shape:
    return call.size("query", 0), call.size("key", 1), call["selectBlockCount"]


def _rows(heads: str) -> ShapeRule:
    """Statistics of each head of each token, eight times."""
    return shape_from(("query", 0), heads, 8)


def _wide_as_values(call: Call) -> Shape:
    return (*call.shape("query")[:-1], call.size("value", -1))


def _some_output(*checks: Check, outputs: Iterable[str]) -> Check:
    """Success at once where all of the outputs are empty."""
    names = tuple(outputs)

    def check(call: Call) -> None:
        if not all(call.is_empty(name) for name in names):
            for word in checks:
                word(call)

    return check


_COMPRESSED = ("softmaxMaxOut", "softmaxSumOut", "attentionOutOut", "topkIndicesOut")
rule(
    "aclnnNsaCompressAttention",
    _some_output(_tnd, documented_products, documented_dtypes(), outputs=_COMPRESSED),
    infer_shape(
        softmaxMaxOut=lambda call: (*call.shape("query")[:2], 8),
        softmaxSumOut=lambda call: (*call.shape("query")[:2], 8),
        attentionOutOut=_wide_as_values,
        topkIndicesOut=_chosen,
    ),
    null_status=INNER_NULLPTR,
)


def _paged_result(call: Call) -> Shape:
    heads = call["numKeyValueHeads"]
    call.require(heads > 0, "numKeyValueHeads", f"is {heads}; it must be positive")
    return (*call.shape("query")[:-1], call.size("value", 2) // heads)


def _paged_chosen(call: Call) -> Shape:
    return (*call.shape("query")[:-2], call["numKeyValueHeads"], call["selectBlockCount"])


def _first_axis(call: Call) -> None:
    batch = call.size("query", 0)
    call.require(1 <= batch <= 10000, "query", f"has {batch} entries along axis 0; there must be 1 to 10000")


rule(
    "aclnnNsaCompressAttentionInfer",
    _first_axis,
    dtypes(_HALF, "query"),
    same_dtype("query", "key", "value", "output"),
    dtypes("INT32", "blockTableOptional", "topKOutput"),
    _some_output(one_of("layoutOptional", "TND", "BSND"), documented_products, outputs=("output", "topKOutput")),
    infer_shape(output=_paged_result, topKOutput=_paged_chosen),
    required="blockTableOptional actualCmpKvSeqLenOptional layoutOptional",
)


def _selected(call: Call) -> None:
    _tnd(call)
    q, k, v = (named(call, name, "TND") for name in ("query", "key", "value"))
    call.require(q["D"] == k["D"], "key", f"has heads {k['D']} wide; they must be {q['D']}, as query's")
    call.require(v["D"] <= q["D"], "value", f"has heads {v['D']} wide; they must be at most {q['D']}, as query's")
    call.require(q["D"] <= 768, "query", f"has heads {q['D']} wide; they must be at most 768")
    for name, sizes in (("query", q), ("key", k), ("value", v)):
        call.require(0 not in sizes.values(), name, f"has shape {call.shape(name)}; it must not be empty")
    _few_sequences(call, "actualSeqQLenOptional", "actualSeqKvLenOptional")


def _few_sequences(call: Call, *names: str) -> None:
    lengths: list[Any] = [call[name] for name in names]
    if None not in lengths:
        most = max(map(len, lengths))
        call.require(most <= 3072, names[0], f"has {most} items; there must be at most 3072")


rule(
    "aclnnNsaSelectedAttention",
    _null_status(INNER_NULLPTR, "actualSeqQLenOptional", "actualSeqKvLenOptional"),
    _selected,
    documented_products,
    documented_dtypes(),
    infer_shape(softmaxMaxOut=_rows("headNum"), softmaxSumOut=_rows("headNum"), attentionOut=_wide_as_values),
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnNsaSelectedAttentionGrad",
    dtypes(_HALF, "query"),
    same_dtype("query", "key", "value", "attentionOut", "attentionOutGrad", "dqOut", "dkOut", "dvOut"),
    dtypes("FLOAT", "softmaxMax", "softmaxSum"),
    dtypes("INT32", "topkIndices"),
    unless_empty("query", documented_products),
    infer_shape(dqOut=shape_of("query"), dkOut=shape_of("key"), dvOut=shape_of("value")),
)


def _selected_paged(call: Call) -> None:
    """Heads are 192 wide, those of values 128; keys are paged, (blocks, tokens, heads * width) but for BSND."""
    same_dtype("query", "key", "value")(call)
    dtypes(_HALF, "query")(call)
    dtypes("INT32", "topkIndices")(call)
    layout = call["layoutOptional"]
    one_of("layoutOptional", "BSH", "BSND", "TND")(call)
    q = named(call, "query", layout)
    split = layout == "BSND"
    heads = {"query": call["numHeads"], "key": call["numKeyValueHeads"], "value": call["numKeyValueHeads"]}
    for name, wanted in (("query", 192), ("key", 192), ("value", 128)):
        whole = split or (name == "query" and "D" in q)
        call.require(whole or heads[name] > 0, "numKeyValueHeads", "is 0; it must be positive")
        width = call.size(name, -1) // (1 if whole else heads[name])
        call.require(width == wanted, name, f"has heads {width} wide; they must be {wanted}")
    _few_sequences(call, "actualQSeqLenOptional", "actualKvSeqLenOptional")
    _filled("query", "value")(call)


def _selected_result(call: Call) -> Shape:
    layout, sizes = call["layoutOptional"], call.shape("query")
    if layout == "BSND":
        return (*sizes[:-1], call.size("value", 3))
    return (*sizes[:-1], 128 * call["numHeads"] if layout == "BSH" else 128)


rule(
    "aclnnNsaSelectedAttentionInfer",
    _selected_paged,
    documented_products,
    infer_shape(output=_selected_result),
    null_status=INNER_NULLPTR,
    required="blockTableOptional actualQSeqLenOptional actualKvSeqLenOptional layoutOptional output",
)

# --------------------------------------------------------------------------------------------------- TEMP


def _with(flag: str, made: ShapeRule) -> ShapeRule:
    """An output that is left away unless the flag asks for it."""
    return lambda call: made(call) if call[flag] else None


def _block_scores(call: Call) -> Shape:
    """A score for each block of 128 keys of the longest sequence (of all, where their lengths are on the device)."""
    paged = (call["layoutKeyOptional"] or "BBND") != "TND"
    blocks = call.size("blockTableOptional", 1) if paged else -(-call.size("key", 0) // 128)
    return call.size("query", 1), call.size("query", 0), -(-blocks // 16) * 16


rule("aclnnMsaIndexScore", documented_products, documented_dtypes(), infer_shape(score=_block_scores))

# --------------------------------------------------------------------------------------------------- preparation of scores


def _cache_blocks(call: Call) -> None:
    """Caches of (blocks, tokens, heads, width), tokens and heads changed over in layout BNBD; scales without the width."""
    cache, values, scales = (call.shape(n) for n in ("kCache", "vCache", "kScaleCacheOptional"))
    rank(4, 4, "kCache", "vCache", "kScaleCacheOptional")(call)
    call.require(scales[:3] == cache[:3], "kScaleCacheOptional", f"has shape {scales}; it must begin as {cache}")
    call.require(values == cache, "vCache", f"has shape {values}; it must be {cache}, as k_cache")
    for name in ("kCache", "vCache", "kScaleCacheOptional"):
        dense = not call[name].strides or call[name].strides[-1] == 1
        call.require(dense, name, f"has strides {call[name].strides}; the last must be 1")
    tokens, heads = (cache[1], cache[2]) if call["kvLayout"] == "BBND" else (cache[2], cache[1])
    batch = call.size("kvIndices", 0)
    lengths = len(call["kvSeqLens"])
    call.require(batch == lengths, "kvSeqLens", f"has {lengths} items; it must have {batch}")
    call.require(heads <= 8, "kCache", f"has {heads} heads; there must be at most 8")
    call.require(batch <= 16, "kvIndices", f"has {batch} rows; there must be at most 16")
    call.require(tokens in (64, 128), "kCache", f"has blocks of {tokens} tokens; they must be 64 or 128")
    factors = call.size("vScaleOptional", 0)
    call.require(factors == heads, "vScaleOptional", f"has {factors} items; it must have {heads}")


def _strides(call: Call) -> None:
    block, stride, magnitude = call["stemBlockSize"], call["stemStride"], call["lambdaMag"]
    fits = block % 32 == 0 and block <= 256
    call.require(fits, "stemBlockSize", f"is {block}; it must be a multiple of 32, at most 256")
    fits = stride > 0 and stride % 16 == 0 and stride <= min(64, block) and block % stride == 0
    call.require(fits, "stemStride", f"is {stride}; it must be a multiple of 16, at most 64, that divides {block}")
    call.require(0 <= magnitude <= 1, "lambdaMag", f"is {magnitude}; it must be in [0, 1]")


def _longest_in_blocks(call: Call, lengths: str) -> int:
    size: int = call["stemBlockSize"]
    call.require(size > 0, "stemBlockSize", f"is {size}; it must be positive")
    longest: int = max(call[lengths], default=0)
    return -(-longest // size)


def _cache_biases(call: Call) -> Shape:
    heads = call.size("kCache", 2 if call["kvLayout"] == "BBND" else 1)
    return call.size("kvIndices", 0), heads, _longest_in_blocks(call, "kvSeqLens")


rule(
    "aclnnStemOamPrepPagedKv",
    one_of("kvLayout", "BBND", "BNBD"),
    _filled("kCache", "vCache", "kvIndices", "kScaleCacheOptional", "vScaleOptional"),
    dtypes("FLOAT8_E4M3FN", "kCache", "vCache"),
    dtypes("FLOAT", "kScaleCacheOptional", "vScaleOptional"),
    _cache_blocks,
    _strides,
    documented_products,
    infer_shape(
        kFlat=lambda call: (*_cache_biases(call), call["stemStride"] * call.size("kCache", 3)),
        vBias=_cache_biases,
    ),
    required="kScaleCacheOptional vScaleOptional",
)


def _running_totals(call: Call) -> None:
    rank(3, 3, "q")(call)
    tokens, width = call.size("q", 0), call.size("q", 2)
    call.require(width == 128, "q", f"has heads {width} wide; they must be 128")
    batch, ends = len(call["qSeqLens"]), call["cuSeqLensQ"]
    call.require(batch <= 1024, "qSeqLens", f"has {batch} items; there must be at most 1024")
    fits = len(ends) == batch + 1 and ends[0] == 0 and ends[-1] == tokens and tuple(ends) == tuple(sorted(ends))
    text = f"is {ends}; it must rise from 0 to {tokens} in {batch + 1} items"
    call.require(fits, "cuSeqLensQ", text)
    rank(2, 2, "qScale")(call)
    rank(4, 4, "qFlat")(call)


def _some_queries(call: Call) -> None:
    if not call.is_empty("q") and call["qSeqLens"]:
        _running_totals(call)
        dtypes("FLOAT8_E4M3FN", "q")(call)
        _null_status(PARAM_INVALID, "qScale")(call)
        dtypes("FLOAT", "qScale")(call)
        dtypes("BF16", "qFlat")(call)
        documented_products(call)


rule(
    "aclnnStemOamPrepVarlenQ",
    one_of("stemBlockSize", 128),
    one_of("stemStride", 16),
    _some_queries,
    infer_shape(
        qFlat=lambda call: (
            len(call["qSeqLens"]),
            call.size("q", 1),
            _longest_in_blocks(call, "qSeqLens"),
            call["stemStride"] * 128,
        )
    ),
)
