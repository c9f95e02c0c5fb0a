"""Rules of the scores by which block-sparse attention chooses blocks of keys, and of the inputs of these scores."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.language import *

rule(
    "aclnnMsaIndexScore",
    documented_products,
    documented_dtypes(),
    define(packed="layoutKeyOptional == 'TND'"),
    tiling(
        require("len(query) == 3", "len(key) == (3 if packed else 4)"),
        define(heads="key[1] if layoutKeyOptional == 'BNBD' else key[-2]"),
        define(tokens="key[2] if layoutKeyOptional == 'BNBD' else key[1]"),
        require("key[-1] == query[-1]", "heads > 0", "query[1] % heads == 0"),
        when("packed", require("blockTableOptional is None")),
        when("not packed", require("blockTableOptional is not None", "tokens == 128"), rank(2, "blockTableOptional")),
        rank(1, "actualSeqQlenOptional", "actualSeqKlenOptional", "startLoc"),
        require(
            "initBlocks >= 0", "localBlocks >= 0", "sparseMode in (0, 3)", "scaleOptional.size == key.size // key[-1]"
        ),
    ),
    # A score for each block of 128 keys of the longest sequence (of all, where their lengths are on the device).
    define(blocks="ceil_div(key[0], 128) if packed else blockTableOptional[1]"),
    infer_shape(score="(query[1], query[0], ceil_div(blocks, 16) * 16)"),
)

_CACHES = ("kCache", "vCache", "kScaleCacheOptional")
rule(
    "aclnnStemOamPrepPagedKv",
    one_of("kvLayout", "BBND", "BNBD"),
    not_empty("kCache", "vCache", "kvIndices", "kScaleCacheOptional", "vScaleOptional"),
    dtypes("FLOAT8_E4M3FN", "kCache", "vCache"),
    dtypes("FLOAT", "kScaleCacheOptional", "vScaleOptional"),
    # (blocks, tokens, heads, width), tokens and heads changed over in layout BNBD; scales without the width.
    rank(4, *_CACHES),
    require("kScaleCacheOptional[:3] == kCache[:3]", "kScaleCacheOptional[3] == 1", "vCache[:] == kCache[:]"),
    define(
        tokens="kCache[1] if kvLayout == 'BBND' else kCache[2]", heads="kCache[2] if kvLayout == 'BBND' else kCache[1]"
    ),
    require("len(kvSeqLens) == kvIndices[0]", "heads <= 8", "kvIndices[0] <= 16", "tokens in (64, 128)"),
    has_shape(vScaleOptional="(heads,)"),
    require("stemBlockSize > 0", "stemBlockSize % 32 == 0", "stemBlockSize <= 256"),
    require("stemStride > 0", "stemStride % 16 == 0", "stemStride <= 64", "stemStride <= stemBlockSize"),
    require("stemBlockSize % stemStride == 0", "0 <= lambdaMag <= 1"),
    documented_products,
    define(blocks="ceil_div(max((0, *kvSeqLens)), stemBlockSize)"),
    infer_shape(kFlat="(kvIndices[0], heads, blocks, stemStride * kCache[3])", vBias="(kvIndices[0], heads, blocks)"),
    required="kScaleCacheOptional vScaleOptional",
)
rule(
    "aclnnStemOamPrepVarlenQ",
    one_of("stemBlockSize", 128),
    one_of("stemStride", 16),
    when(
        "q.size and len(qSeqLens)",
        rank(3, "q"),
        require("q[2] == 128", "len(qSeqLens) <= 1024", "len(cuSeqLensQ) == len(qSeqLens) + 1"),
        require(
            "cuSeqLensQ[0] == 0", "cuSeqLensQ[-1] == q[0]", "all(b >= a for a, b in zip(cuSeqLensQ, cuSeqLensQ[1:]))"
        ),
        rank(2, "qScale"),
        rank(4, "qFlat"),
        dtypes("FLOAT8_E4M3FN", "q"),
        required("qScale", status=PARAM_INVALID),
        dtypes("FLOAT", "qScale"),
        dtypes("BF16", "qFlat"),
        documented_products,
        has_shape(qScale="q[:2]"),
    ),
    define(blocks="ceil_div(max((0, *qSeqLens)), stemBlockSize)"),
    infer_shape(qFlat="(len(qSeqLens), q[1], blocks, stemStride * 128)"),
)
