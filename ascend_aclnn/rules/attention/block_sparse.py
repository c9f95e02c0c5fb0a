"""Rules of attention to blocks of keys that masks of blocks choose, and of the operator that chooses them."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.attention._layouts import by_tokens
from ascend_aclnn.rules.language import *

_SCALES = ("qDequantScaleOptional", "kDequantScaleOptional", "vDequantScaleOptional")


# Each head of keys serves as many heads of queries; a mask has a number for each pair of blocks of each head of queries.
_HEADS = (
    define(
        heads="query[2] if qInputLayout == 'BSND' else query[1]",
        key_heads="key[2] if qInputLayout == 'BSND' else key[1]",
    ),
    require("key_heads > 0", "heads % key_heads == 0", argument="key"),
    when("qInputLayout != 'TND'", require("key[0] == query[0]"), word="padded"),
)
_MASK = (
    define(
        sequences="len(actualSeqLengthsOptional) if qInputLayout == 'TND' else query[0]",
        tokens="query[1] if qInputLayout == 'BSND' else query[2]",
        longest="max((0, *actualSeqLengthsOptional)) if qInputLayout == 'TND' else tokens",
    ),
    rank(4, "blockSparseMaskOptional"),
    require("blockSparseMaskOptional[:2] == (sequences, heads)"),
    require("blockSparseMaskOptional[2] >= ceil_div(longest, blockShapeOptional[0])"),
)


def _layouts(*allowed: str) -> Check:
    text = ", ".join(repr(name) for name in allowed)
    return require(f"qInputLayout in ({text})", f"kvInputLayout in ({text})", "kvInputLayout == qInputLayout")


rule(
    "aclnnBlockSparseAttention aclnnBlockSparseAttentionV2 aclnnBlockSparseAttentionV3",
    on_operators("aclnnBlockSparseAttention", dtypes(HALVES, "query")),
    on_operators("aclnnBlockSparseAttentionV2", dtypes(HALVES + " FLOAT8_E4M3FN", "query")),
    on_operators("aclnnBlockSparseAttentionV3", dtypes(HALVES + " FLOAT8_E4M3FN FLOAT4_E2M1", "query")),
    same_dtype("query", "key", "value"),
    # Mode 0 is not quantised, 1 takes FLOAT8_E4M3FN, 2 and 3 take FLOAT4_E2M1; the scales go with it.
    on_operators(
        "aclnnBlockSparseAttentionV3",
        one_of("quantMode", 0, 1, 2, 3),
        when("quantMode == 0", dtypes(HALVES, "query"), absent(*_SCALES, why="with quant_mode 0")),
        when("quantMode == 1", dtypes("FLOAT8_E4M3FN", "query"), required(*_SCALES, status=PARAM_INVALID)),
        when("quantMode == 1", dtypes("FLOAT", *_SCALES)),
        when("quantMode >= 2", dtypes("FLOAT4_E2M1", "query"), required(*_SCALES, status=PARAM_INVALID)),
        when("quantMode >= 2", dtypes("FLOAT8_E8M0", *_SCALES)),
    ),
    _layouts("TND", "BNSD", "BSND"),
    require("len(blockShapeOptional) == 2", "all(n > 0 for n in blockShapeOptional)"),
    one_of("innerPrecise", 0, 1, 4),
    # Limits of 4-bit attention.
    on_operators(
        "aclnnBlockSparseAttentionV3",
        when("quantMode == 3", require("dstTypeMax == 0 or 6 <= dstTypeMax <= 12")),
        when(
            "quantMode >= 2",
            one_of("innerPrecise", 4),
            one_of("softmaxLseFlag", 0),
            absent("attenMaskOptional", "blockTableOptional", why="with numbers of four bits"),
            require(*(f"len({name}) == (4 if qInputLayout == 'TND' else 5)" for name in _SCALES)),
        ),
    ),
    documented_products,
    tiling(
        require(*(f"len({name}) == (3 if qInputLayout == 'TND' else 4)" for name in ("query", "key", "value"))),
        require("key[-1] == query[-1]"),
        has_shape(value="key"),
        require(*(f"{name}.size > 0" for name in _SCALES)),
        rank(2, "blockTableOptional"),
        *_HEADS,
        *_MASK,
        # Of 8-bit numbers, one scale for each block that the mask has.
        when(
            "quantMode is None or quantMode == 1",
            has_shape(
                qDequantScaleOptional="(sequences, heads, blockSparseMaskOptional[2], 1)",
                kDequantScaleOptional="(sequences, key_heads, blockSparseMaskOptional[3], 1)",
                vDequantScaleOptional="(sequences, key_heads, blockSparseMaskOptional[3], 1)",
            ),
        ),
    ),
    infer_shape(attentionOut="query", softmaxLseOptional="(*query[:-1], 1) if softmaxLseFlag else None"),
    output_dtype(attentionOut="query.dtype if query.dtype in HALVES else BF16", softmaxLseOptional="FLOAT"),
)
rule(
    "aclnnRainFusionAttention",
    required("blockShape", status=PARAM_NULLPTR),
    same_dtype("query", "key", "value", among=HALVES),
    _layouts("TND", "BNSD"),
    require("len(blockShape) >= 2", "blockShape[0] > 0", "blockShape[1] > 0"),
    one_of("innerPrecise", 0, 1),
    documented_products,
    tiling(
        require(*(f"len({name}) == (3 if qInputLayout == 'TND' else 4)" for name in ("query", "key", "value"))),
        require("key[-1] == query[-1]"),
        has_shape(value="key"),
        *_HEADS,
        # Rows for the blocks of queries of all sequences.
        define(
            lengths="actualSeqLengthsOptional if actualSeqLengthsOptional is not None and len(actualSeqLengthsOptional)"
            " else (query[0],) if qInputLayout == 'TND' else tuple(query[2] for _ in range(query[0]))",
            blocks="sum(ceil_div(n, blockShape[0]) for n in lengths)",
        ),
        require("selectIdx.size > 0", "selectNumIdx.size > 0"),
        rank(3, "selectIdx"),
        require("selectIdx[0] >= blocks", "selectIdx[1] == heads"),
        has_shape(selectNumIdx="selectIdx[:2]"),
    ),
    infer_shape(attentionOut="query", softmaxLseOptional="(*query[:-1], 1)"),
    output_dtype(softmaxLseOptional="FLOAT"),
)

_OTHERS = ("key", "value", "attentionOut", "dout", "softmaxLse", "dq", "dk", "dv")
rule(
    "aclnnBlockSparseAttentionGrad",
    same_dtype("query", "key", "value", "attentionOut", "dout", among=HALVES),
    dtypes("FLOAT", "softmaxLse"),
    dtypes("BOOL UINT8", "blockSparseMaskOptional"),
    same_dtype("query", "dq", "dk", "dv"),
    # Widths (and batches, but for TND) agree; no mask of tokens, no band.
    when("qInputLayout != 'TND'", require(*(f"len({name}) == len(query)" for name in _OTHERS)), word="padded"),
    when("qInputLayout != 'TND'", require(*(f"{name}[:1] == query[:1]" for name in _OTHERS)), word="padded"),
    require("key[-1] == query[-1]", "dq[-1] == query[-1]", "dk[-1] == query[-1]"),
    when("qInputLayout == 'TND'", require(*(f"{n}[-1] == query[-1]" for n in ("value", "attentionOut", "dout", "dv")))),
    when(
        "qInputLayout != 'TND'",
        require(*(f"{n}[-1] == value[-1]" for n in ("attentionOut", "dout", "dv"))),
        word="padded",
    ),
    absent("attenMaskOptional"),
    one_of("maskType", 0),
    one_of("preTokens", 2147483647),
    one_of("nextTokens", 2147483647),
    when("qInputLayout == 'TND'", require("actualSeqLengthsOptional is not None")),
    when("kvInputLayout == 'TND'", require("actualSeqLengthsKvOptional is not None")),
    require("(kvInputLayout == 'BNSD') == (qInputLayout == 'BNSD')"),
    required("blockShapeOptional", status=PARAM_NULLPTR),
    require("len(blockShapeOptional) >= 2", "blockShapeOptional[0] > 0", "blockShapeOptional[1] > 0"),
    documented_products,
    tiling(
        when("qInputLayout == 'TND'", require(*(f"len({name}) == 3" for name in ("query", "key")))),
        has_shape(value="(*key[:-1], value[-1])", attentionOut="(*query[:-1], value[-1])", dout="attentionOut"),
        require("softmaxLse[: len(query) - 1] == query[:-1]", word="rows"),
        require("softmaxLse.size == prod(query[:-1])", word="size"),
        *_HEADS,
        *_MASK,
    ),
    infer_shape(dq="query", dk="key", dv="value"),
    required="blockSparseMaskOptional",
)


@refuses("range/positive", "blockShape")
def _blocks(call: Call) -> Shape:
    """One number for each block of queries and of keys; (64, 64) tokens or what blockShape says."""
    queries, keys = ((call["blockShape"] or (64, 64)) + (0, 0))[:2]
    call.require(
        min(queries, keys) > 0,
        "blockShape",
        f"is {call['blockShape']}; it must be two positive sizes",
        check="range/positive",
    )
    if (call["qInputLayout"] or "BNSD") == "TND":
        lengths = call["actualSeqLengths"] or (call.size("query", 0),)
        lengths_keys = call["actualSeqLengthsKV"] or (call.size("key", 0),)
        batch, longest, longest_keys = len(lengths), max(lengths), max(lengths_keys)
    else:
        batch, longest, longest_keys = call.size("query", 0), call.size("query", 2), call.size("key", 2)
    return batch, call.size("query", 1), -(-longest // queries), -(-longest_keys // keys)


rule(
    "aclnnBSASelectBlockMask",
    documented_products,
    documented_dtypes(),
    rank(3, 4, "query", "key"),
    tiling(
        by_tokens("qInputLayout", "query"),
        by_tokens("kvInputLayout", "key"),
        one_of("qInputLayout", "TND", "BNSD"),
        one_of("kvInputLayout", "TND", "BNSD"),
        require("kvInputLayout == qInputLayout", "key[-1] == query[-1]", "key[1] == query[1]"),
        when("qInputLayout == 'BNSD'", require("key[0] == query[0]")),
    ),
    infer_shape(blockSparseMaskOut=_blocks),
)

# --------------------------------------------------------------------------------------------------- chosen in a paged cache

# One block of 128 keys is a page; each query has a list of blocks for each head of keys.
_CHOICE = (
    one_of("isPackedGQA", 1),
    one_of("layoutQ", "TND"),
    one_of("layoutKv", "PA_BBND"),
    one_of("maskType", 1),
    require("blockShape == (1, 128)"),
    one_of("winLeft", -1),
    one_of("winRight", -1),
    on_products("950", one_of("quantType", 0, 5), one_of("softmaxPrecision", 1)),
    on_products("A2 A3", one_of("quantType", 0), one_of("softmaxPrecision", 0, 1)),
    dtypes("INT32", "sparseBlockIdx", "sparseBlockCount", "sequsedQOptional", "sequsedKvOptional"),
    dtypes("INT64", "cuSeqLengthsQOptional", "cuSeqLengthsKvOptional"),
    required("cuSeqLengthsQOptional", "cuSeqLengthsKvOptional", status=PARAM_INVALID),
    rank(1, "cuSeqLengthsQOptional"),
    require("cuSeqLengthsQOptional[0] >= 2"),
    define(batch="cuSeqLengthsQOptional[0] - 1"),
    has_shape(
        cuSeqLengthsKvOptional="cuSeqLengthsQOptional", sequsedQOptional="(batch,)", sequsedKvOptional="(batch,)"
    ),
    rank(3, "sparseBlockIdx"),
    require("1 <= sparseBlockIdx[-1] <= 256"),
    has_shape(sparseBlockCount="sparseBlockIdx[:2]"),
)
rule(
    "aclnnGenericBlockSparseAttention",
    documented_products,
    *_CHOICE,
    with_status(INNER_NULLPTR, required("metadataOptional", "blockTableOptional", status=INNER_NULLPTR)),
    absent(
        "attenMaskOptional",
        "qDequantScaleOptional",
        "kDequantScaleOptional",
        "vDequantScaleOptional",
        "pQuantScaleOptional",
    ),
    one_of("returnSoftmaxlse", 0),
    absent("softmaxLseOptional"),
    require("dstTypeMax == 0"),
    when("quantType == 0", same_dtype("query", "key", "value", "attentionOut", among=HALVES)),
    when(
        "quantType == 5",
        dtypes("FLOAT8_E4M3FN", "query"),
        same_dtype("query", "key", "value"),
        dtypes(HALVES, "attentionOut"),
    ),
    on_products("A2 A3", when("query.dtype == BF16", one_of("softmaxPrecision", 0))),
    shape_patterns(query="t n d", key="p s m d", value="p s m d", where="n % m == 0"),
    require("d == 128", argument="query"),
    require("s == 128", argument="key"),
    require("sparseBlockIdx[0] == m"),
    rank(2, "blockTableOptional"),
    require("blockTableOptional[0] == batch"),
    dtypes("INT32", "metadataOptional", "blockTableOptional"),
    has_shape(metadataOptional="(1024,)"),
    not_empty("query", "key", "sparseBlockIdx", "blockTableOptional"),
    output_shape(attentionOut="query", softmaxLseOptional="None"),
    output_dtype(attentionOut="query.dtype if quantType == 0 else FLOAT16"),
)
rule(
    "aclnnGenericBlockSparseAttentionMetadata",
    documented_products,
    *_CHOICE,
    positive("maxQSeqLen", "maxKvSeqLen", "numQHeads", "numKvHeads"),
    one_of("headDim", 128),
    require("numQHeads % numKvHeads == 0", "numQHeads // numKvHeads <= 128", "sparseBlockIdx[0] == numKvHeads"),
    output_shape(metadataOptional="(1024,)"),
    output_dtype(metadataOptional="INT32"),
    null_status=PARAM_INVALID,
)
