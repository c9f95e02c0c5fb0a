"""Caches of keys: tokens written in runs of successive slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.numerics import Array, DataError, round_into, widen
from ascend_aclnn.reference import function_of, reference
from ascend_aclnn.rules import words_of
from ascend_aclnn.rules.language import *

_RUNS = ("groupLen", "groupKeyIdx", "groupKeyCacheIdx")

aclnn.register_operator(
    """
aclnnStatus aclnnStoreKvBlockMetadataGetWorkspaceSize(
    const aclTensor *slotMapping, const aclTensor *groupLen, const aclTensor *groupKeyIdx, const aclTensor *groupKeyCacheIdx,
    int64_t blockSize, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions=dict.fromkeys(_RUNS, "out"),
)

rule(
    "aclnnStoreKvBlockMetadata",
    only_products("A2 A3"),
    positive("blockSize"),
    dtypes("INT32", "slotMapping", *_RUNS),
    tiling(rank(1, "slotMapping", *_RUNS), same_shape(*_RUNS)),
    infer_shape(groupLen="slotMapping", groupKeyIdx="slotMapping", groupKeyCacheIdx="slotMapping"),
    null_status=INNER_NULLPTR,
)


@reference("aclnnStoreKvBlockMetadata", raw=True)
def store_kv_block_metadata(slots: Array, block: int, *, out: Sequence[Array]) -> None:
    """Runs of tokens whose slots follow each other in one block: length, first token, its slot; slots below 0 are left out."""
    tokens = np.flatnonzero(slots >= 0)
    used = slots[tokens].astype(np.int64)
    follows = (np.diff(tokens) == 1) & (np.diff(used) == 1) & (np.diff(used // block) == 0)
    first = np.flatnonzero(np.concatenate([np.ones(min(tokens.size, 1), bool), ~follows]))
    if first.size > out[0].size:
        raise DataError("groupLen", f"has {out[0].size} elements; there are {first.size} runs of slots")
    for target, values in zip(out, (np.diff(first, append=tokens.size), tokens[first], used[first])):
        target[...] = 0
        target[: first.size] = values


aclnn.register_operator(
    """
aclnnStatus aclnnStoreKVBlockGetWorkspaceSize(
    const aclTensor *keyIn, const aclTensor *keyCacheIn, const aclTensor *groupLen, const aclTensor *groupKeyIdx,
    const aclTensor *groupKeyCacheIdx, int64_t blockSize, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"keyCacheIn": "inout"},
)

rule(
    "aclnnStoreKVBlock",
    only_products("A2 A3"),
    dtypes(f"INT8 {HALVES}", "keyIn"),
    same_dtype("keyIn", "keyCacheIn"),
    dtypes("INT32", *_RUNS),
    contiguous("keyCacheIn"),
    tiling(
        rank(2, 7, "keyIn", "keyCacheIn"),
        rank(1, *_RUNS),
        same_shape(*_RUNS),
        positive("blockSize"),
        # Slots are blocks by tokens of the cache, with as much for each as a token of keyIn has.
        require("prod(keyCacheIn[2:]) == prod(keyIn[1:])", argument="keyCacheIn"),
    ),
)


@reference("aclnnStoreKVBlock", raw=True)
def store_kv_block(
    keys: Array, _: Array, lengths: Array, tokens: Array, slots: Array, block: int, *, out: Sequence[Array]
) -> None:
    """Copies runs of tokens to runs of slots of the cache, in place."""
    cache = out[0].reshape(out[0].shape[0] * out[0].shape[1], -1)
    kept = (lengths > 0) & (tokens >= 0) & (slots >= 0)
    lengths, tokens, slots = (runs[kept].astype(np.int64) for runs in (lengths, tokens, slots))
    if lengths.size and ((tokens + lengths).max() > len(keys) or (slots + lengths).max() > len(cache)):
        raise DataError("groupLen", f"leads outside of {len(keys)} tokens or {len(cache)} slots")
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    cache[np.repeat(slots, lengths) + within] = keys.reshape(len(keys), -1)[np.repeat(tokens, lengths) + within]


# ------------------------------------------------------------------------------------------------- compressed keys

_FLAT, _BLOCK_AND_OFFSET = 1, 2  # slotMappingFormat

aclnn.register_operator("""
aclnnStatus aclnnCompressorMetadataGetWorkspaceSize(
    const aclTensor *ropeCos, const aclTensor *ropeSin, const aclTensor *cuSeqlens, const aclTensor *startPos,
    const aclTensor *kvBlockTable, int64_t kvBlockSize, int64_t slotMappingFormat, int64_t cmpRatio, int64_t actualNumReqs,
    const aclTensor *compressCosOut, const aclTensor *compressSinOut, const aclTensor *slotMappingOut,
    uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnCompressorMetadata",
    only_products("A2 A3"),
    dtypes(FLOATS, "ropeCos"),
    same_dtype("ropeCos", "ropeSin", "compressCosOut", "compressSinOut"),
    dtypes("INT32", "cuSeqlens", "startPos", "kvBlockTable", "slotMappingOut"),
    tiling(
        # How many rows there are is for the caller to say, by the outputs.
        rank(2, 8, "compressCosOut"),
        same_shape("compressCosOut", "compressSinOut"),
        rank(2, "ropeCos", "kvBlockTable"),
        rank(1, "startPos", "cuSeqlens"),
        same_shape("ropeCos", "ropeSin"),
        require("compressCosOut[-1] == ropeCos[1]", "compressCosOut.size == compressCosOut[0] * ropeCos[1]"),
        require("cuSeqlens[0] >= 2", "startPos[0] > 0", "kvBlockTable.size > 0"),
        positive("kvBlockSize", "cmpRatio"),
        one_of("slotMappingFormat", _FLAT, _BLOCK_AND_OFFSET),
        has_shape(slotMappingOut=f"compressCosOut[:1] + (() if slotMappingFormat == {_FLAT} else (2,))"),
        require("0 < actualNumReqs < cuSeqlens[0]", "actualNumReqs <= startPos[0]", "actualNumReqs <= kvBlockTable[0]"),
    ),
)


@reference("aclnnCompressorMetadata", raw=True)
def compressor_metadata(
    cos: Array,
    sin: Array,
    starts: Array,
    positions: Array,
    table: Array,
    block: int,
    form: int,
    ratio: int,
    requests: int,
    *,
    out: Sequence[Array],
) -> None:
    """Each group of ``ratio`` tokens that requests complete: the rotation at its first token, and its slot.

    Rows without a group, or without a block or a rotation, have cos 1, sin 0 and slot -1.
    """
    first = positions[:requests].astype(np.int64)
    lengths = np.diff(starts[: requests + 1].astype(np.int64))
    groups = np.where((first >= 0) & (lengths > 0), (first + lengths) // ratio - first // ratio, 0)
    rows = np.repeat(np.arange(requests), groups)[: len(out[0])]
    within = np.arange(groups.sum()) - np.repeat(np.cumsum(groups) - groups, groups)
    place = first[rows] // ratio + within[: rows.size]
    column = place // block
    blocks = np.where(column < table.shape[1], table[rows, np.minimum(column, table.shape[1] - 1)], -1)
    valid = np.flatnonzero((blocks >= 0) & (place * ratio < len(cos)))
    for target, rotation, fill in ((out[0], cos, 1), (out[1], sin, 0)):
        target[...] = fill
        target.reshape(len(target), -1)[valid] = rotation[place[valid] * ratio]
    out[2][...] = -1
    if form == _FLAT:
        out[2][valid] = blocks[valid] * block + place[valid] % block
    else:
        out[2][:, 1] = block - 1
        out[2][valid] = np.stack([blocks[valid], place[valid] % block], 1)


_compress, _compressor_words = function_of("aclnnCompressor"), words_of("aclnnCompressor")

aclnn.register_operator("""
aclnnStatus aclnnCompressorGetWorkspaceSize(
    const aclTensor *x, const aclTensor *wkv, const aclTensor *wgate, aclTensor *stateCacheRef, const aclTensor *ape,
    const aclTensor *normWeight, const aclTensor *ropeSin, const aclTensor *ropeCos, const aclTensor *stateBlockTableOptional,
    const aclTensor *cuSeqlensOptional, const aclTensor *sequsedOptional, const aclTensor *startPosOptional,
    int64_t ropeHeadDim, int64_t cmpRatio, int64_t coff, double normEps, int64_t rotaryMode, int64_t cacheMode,
    int64_t stateCacheStrideDim0, const aclTensor *cmpKvOut, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnCompressor",
    only_products("A2 A3"),
    dtypes(HALVES, "x"),
    same_dtype("x", "wkv", "wgate", "normWeight", "cmpKvOut"),
    dtypes("FLOAT", "stateCacheRef", "ape"),
    dtypes(FLOATS, "ropeSin"),
    same_dtype("ropeSin", "ropeCos"),
    dtypes("INT32", "stateBlockTableOptional", "cuSeqlensOptional", "sequsedOptional", "startPosOptional"),
    _compressor_words,
    tiling(
        rank(2, 3, "ropeSin"),
        same_shape("ropeSin", "ropeCos"),
        has_shape(normWeight="(wkv[0] // coff,)"),
        require("0 < ropeHeadDim <= normWeight[0]", "ropeHeadDim % 2 == 0", "ropeSin[-1] == ropeHeadDim"),
        one_of("rotaryMode", 1, 2),
        output_shape(
            cmpKvOut="(x[0], ceil_div(x[1], cmpRatio), normWeight[0]) if len(x) == 3 else (ropeSin[0], normWeight[0])"
        ),
        require("ropeSin.size == cmpKvOut.size // normWeight[0] * ropeHeadDim", argument="ropeSin", word="size"),
    ),
    replaces=True,
)


@reference("aclnnCompressor", raw=True, replaces=True)
def compressor(
    x: Array,
    wkv: Array,
    wgate: Array,
    _: Array,
    ape: Array,
    norm: Array,
    sin: Array,
    cos: Array,
    table: Optional[Array],
    ends: Optional[Array],
    used: Optional[Array],
    positions: Optional[Array],
    rotated: int,
    ratio: int,
    coff: int,
    eps: float,
    rotation: int,
    mode: int,
    stride: int,
    *,
    out: Sequence[Array],
) -> None:
    """CANN's Compressor, whose rows are normed, and their last channels rotated: halves (mode 1) or neighbours (mode 2)."""
    states, target = out
    many = (
        target.shape[:-1] if x.ndim == 3 else (min(len(x), len(x) // ratio + len(ends) - 1 if ends is not None else 0),)
    )
    rows = np.zeros((*many, norm.size), np.float32)
    arguments = x, wkv, wgate, states, ape, table, ends, used, positions, ratio, coff, mode, stride, False
    _compress(*arguments, out=(states, rows, None, None))
    rows = rows / np.sqrt(np.mean(np.square(rows), -1, keepdims=True) + np.float32(eps)) * widen(norm)
    flat = np.zeros((target.size // norm.size, norm.size), np.float32)
    count = min(len(flat), rows.size // norm.size)
    flat[:count] = rows.reshape(-1, norm.size)[:count]
    tail = flat[:, norm.size - rotated :]
    if rotation == 1:
        turned = np.concatenate([-tail[:, rotated // 2 :], tail[:, : rotated // 2]], 1)
    else:
        turned = np.stack([-tail[:, 1::2], tail[:, ::2]], -1).reshape(tail.shape)
    tail[...] = tail * widen(cos).reshape(-1, rotated) + turned * widen(sin).reshape(-1, rotated)
    round_into(target, flat.reshape(target.shape))


# ------------------------------------------------------------------------------------------------- hashed keys

aclnn.register_operator(
    """
aclnnStatus aclnnReshapeAndCacheBnsdGetWorkspaceSize(
    const aclTensor *keyIn, const aclTensor *keyCacheIn, const aclTensor *slotMapping, const aclTensor *seqLen,
    const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"out": "inout"},
)

rule(
    "aclnnReshapeAndCacheBnsd",
    only_products("A2 A3"),
    dtypes(f"UINT8 {HALVES}", "keyIn"),
    same_dtype("keyIn", "keyCacheIn", "out"),
    dtypes("INT32", "slotMapping", "seqLen"),
    contiguous("out"),
    tiling(
        rank(2, "keyIn"),
        rank(4, "keyCacheIn"),
        rank(1, "slotMapping", "seqLen"),
        same_shape("keyCacheIn", "out"),
        require("keyIn[1] == keyCacheIn[3]", "keyIn[0] == slotMapping[0] * keyCacheIn[1]"),
    ),
)


def _not_bytes(call: Call) -> Optional[str]:
    return (
        None
        if call["keyIn"].dtype.name == "UINT8"
        else "the kernel moves bytes, whatever the data type: UINT8 alone is plain"
    )


@reference("aclnnReshapeAndCacheBnsd", raw=True, unsupported=_not_bytes)
def reshape_and_cache_bnsd(
    keys: Array, _cache: Array, slots: Array, lengths: Array, _out: Array, *, out: Sequence[Array]
) -> None:
    """Keys of each request, as (heads, tokens), at their slots of a cache of (blocks, heads, tokens of a block)."""
    cache = out[0]
    heads, size = cache.shape[1:3]
    ends = np.cumsum(lengths.astype(np.int64))
    if lengths.size and (lengths.min() < 0 or ends[-1] > slots.size):
        raise DataError("seqLen", f"is {lengths.tolist()}; there are {slots.size} tokens")
    if slots.size and not (slots.min() >= 0 and slots.max() < len(cache) * size):
        raise DataError(
            "slotMapping", f"lies between {slots.min()} and {slots.max()}; allowed: 0 to {len(cache) * size - 1}"
        )
    for start, end in zip(ends - lengths, ends):
        of_request = keys[start * heads : end * heads].reshape(heads, end - start, keys.shape[1])
        block, place = np.divmod(slots[start:end], size)
        cache[block, :, place] = of_request.swapaxes(0, 1)


aclnn.register_operator(
    """
aclnnStatus aclnnHammingDistTopKGetWorkspaceSize(
    const aclTensor *query, const aclTensor *keyCompressed, const aclTensor *k, const aclTensor *seqLen,
    const aclTensor *chunkSize, const aclTensor *keyBlockTable, const aclTensor *indicesIn,
    const aclTensor *keyCompressedRopeOptional, const aclTensor *maskOptional, int64_t maxSeqLen, int64_t sink, int64_t recent,
    int64_t supportOffload, const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"out": "inout"},
)

rule(
    "aclnnHammingDistTopK",
    only_products("A2 A3"),
    dtypes("UINT8", "query", "keyCompressed", "keyCompressedRopeOptional"),
    dtypes("INT32", "k", "seqLen", "chunkSize", "keyBlockTable", "indicesIn", "out"),
    dtypes("BOOL", "maskOptional"),
    contiguous("out"),
    tiling(
        rank(4, "query", "keyCompressed"),
        rank(2, "keyBlockTable"),
        rank(2, 3, "indicesIn"),  # callers leave out the axis of one head
        same_shape("indicesIn", "out"),
        require("query[2] == 1", "query[1] % keyCompressed[1] == 0"),
        require("keyCompressed[3] == query[3]", argument="keyCompressed"),
        has_shape(k="query[:1]", seqLen="query[:1]", chunkSize="query[:1]", maskOptional="query[:1]"),
        require("keyBlockTable[0] == query[0]", argument="keyBlockTable"),
        require("indicesIn.size == query[0] * keyCompressed[1] * indicesIn[-1]", argument="indicesIn"),
        not_negative("maxSeqLen", "sink", "recent"),
    ),
)


def _rotated_apart(call: Call) -> Optional[str]:
    return "the reference takes keys in one piece" if call.is_present("keyCompressedRopeOptional") else None


def _signs(packed: Array) -> Array:
    """1 for each bit that is set, -1 for the others, in float32."""
    return np.unpackbits(packed, axis=-1, bitorder="little").astype(np.float32) * 2 - 1


@reference("aclnnHammingDistTopK", raw=True, unsupported=_rotated_apart)
def hamming_dist_top_k(
    query: Array,
    keys: Array,
    wanted: Array,
    lengths: Array,
    chunks: Array,
    table: Array,
    _indices: Array,
    _rope: None,
    mask: Optional[Array],
    longest: int,
    sink: int,
    recent: int,
    offload: int,
    _out: Array,
    *,
    out: Sequence[Array],
) -> None:
    """The k blocks of keys whose nearest key has the most bits in common with the queries of its head, in order of the table.

    The first ``sink`` blocks and the last ``recent`` ones come before all others, earlier blocks before later ones as near.
    A request whose ``mask`` is off gets its whole table. ``offload``: numbers of blocks in the request, the nearest first.
    What lies behind the k stays as it is.
    """
    heads, size = keys.shape[1:3]
    found = out[0].reshape(len(query), heads, -1)
    group = query.shape[1] // heads
    sums = _signs(query).reshape(len(query), heads, group, -1).sum(2)
    if group > 8:  # what queries sum up to has to fit into 4 bits
        sums = sums.astype(np.float16) * np.float16(1 / -(-group // 8))
    codes = np.clip(np.ceil(sums), -8, 7).astype(np.float32)
    for request, (length, chunk) in enumerate(zip(lengths.tolist(), chunks.tolist())):
        blocks, used = table[request], -(-length // size)
        if mask is not None and not mask[request]:
            found[request, :, : blocks.size] = blocks[: found.shape[2]]
            continue
        if chunk != size or size not in (64, 128):
            raise DataError("chunkSize", f"is {chunk}; the reference takes that of a block, {size}, if it is 64 or 128")
        if not 0 <= used <= min(blocks.size, -(-longest // size)):
            limit = min(blocks.size, -(-longest // size)) * size
            raise DataError("seqLen", f"is {length}; there is room for {limit} by max_seq_len and the table")
        if used and not (blocks[:used].min() >= 0 and blocks[:used].max() < len(keys)):
            raise DataError("keyBlockTable", f"names blocks outside of 0 to {len(keys) - 1}")
        common = np.einsum("bhsd,hd->hbs", _signs(keys[blocks[:used]]), codes[request]).astype(np.float16)
        scores = common.max(-1, initial=-np.inf)
        scores[:, :sink] = scores[:, max(used - recent, 0) :] = np.inf
        count = max(min(int(wanted[request]), used, found.shape[2]), 0)
        chosen = np.argsort(-scores, -1, kind="stable")[:, :count]
        found[request, :, :count] = chosen if offload else blocks[np.sort(chosen, -1)]
