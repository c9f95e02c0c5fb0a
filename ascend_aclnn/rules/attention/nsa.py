"""Rules of native sparse attention (Nsa): compression of keys, attention to compressed blocks, and to the chosen ones."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# --------------------------------------------------------------------------------------------------- compression

rule(
    "aclnnNsaCompress",
    same_dtype("input", "weight", "output"),
    require("len(input) >= 3", "input[1] > 0", "input[2] > 0", "weight[:2] == (compressBlockSize, input[1])"),
    one_of("layoutOptional", "TND"),
    require("actSeqLenOptional is not None", "len(actSeqLenOptional) > 0"),
    one_of("actSeqLenType", 0),
    positive("compressStride"),
    documented_products,
    documented_dtypes(),
    # Every sequence gives one block per stride, from those that are whole; the lengths are running totals.
    define(
        ends="() if actSeqLenOptional is None else actSeqLenOptional",
        rest="tuple(b - a - compressBlockSize for a, b in zip((0, *ends), ends))",
        blocks="sum(n // compressStride + 1 for n in rest if n >= 0)",
    ),
    infer_shape(output="(blocks, *input[1:])"),
)
rule(
    "aclnnNsaCompressGrad",
    documented_products,
    documented_dtypes(),
    tiling(
        require("len(input) == 3", "len(outputGrad) == 3", "outputGrad[1:] == input[1:]"),
        has_shape(weight="(compressBlockSize, input[1])"),
        positive("compressStride"),
    ),
    infer_shape(inputGradOut="input", weightGradOut="weight"),
)
# The output is a cache that is there already, of any length: nothing to infer.
rule(
    "aclnnNsaCompressWithCache",
    not_empty("input", "weight", "outputCache"),
    dtypes(HALVES, "input", "weight", "outputCache"),
    dtypes("INT32", "slotMapping", "blockTableOptional"),
    same_dtype("input", "weight", "outputCache"),
    documented_products,
    tiling(positive("compressStride")),
    null_status=INNER_NULLPTR,
)

# --------------------------------------------------------------------------------------------------- compressed keys


def _longest(ends: str) -> str:
    """Of sequences whose lengths are running totals."""
    return f"max((0, *(b - a for a, b in zip((0, *{ends}), {ends}))))"


_MASKS = ("attenMaskOptional", "topkMaskOptional")
rule(
    "aclnnNsaCompressAttention aclnnNsaCompressAttentionVarLenScore",
    when(
        "softmaxMaxOut.size or softmaxSumOut.size or attentionOutOut.size or topkIndicesOut.size",
        one_of("inputLayout", "TND"),
        rank(3, "query", "key", "value"),
        not_empty("query"),
        require("key[0] > 0", "key[1] > 0", "value[2] > 0"),
        documented_products,
        documented_dtypes(),
        tiling(
            require("key[2] == query[2]", "value[:2] == key[:2]", "value[2] <= key[2]"),
            require("query[1] == headNum", "query[1] % key[1] == 0", "attenMaskOptional.size > 0"),
            positive("compressStride"),
            # Masks serve all sequences: each reads the first rows and columns.
            rank(2, *_MASKS),
            define(
                longestQuery=_longest("actualSeqQLenOptional"),
                longestKey=_longest("actualCmpSeqKvLenOptional"),
                longestChoice=_longest("actualSelSeqKvLenOptional"),
            ),
            require(*(f"{mask}[0] >= longestQuery" for mask in _MASKS)),
            require("attenMaskOptional[1] >= longestKey", "topkMaskOptional[1] >= longestChoice"),
        ),
        word="outputs",
    ),
    infer_shape(
        softmaxMaxOut="(*query[:2], 8)",
        softmaxSumOut="(*query[:2], 8)",
        attentionOutOut="(*query[:-1], value[-1])",
        topkIndicesOut="(query[0], key[1], selectBlockCount)",
    ),
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnNsaCompressAttentionInfer",
    require("1 <= query[0] <= 10000"),
    same_dtype("query", "key", "value", "output", among=HALVES),
    dtypes("INT32", "blockTableOptional", "topKOutput"),
    when(
        "output.size or topKOutput.size", one_of("layoutOptional", "TND", "BSND"), documented_products, word="outputs"
    ),
    positive("numKeyValueHeads"),
    tiling(require("query.size > 0", "key.size > 0", "value.size > 0"), positive("compressBlockStride")),
    # Keys are paged: (blocks, tokens, heads * width). Packed queries are one for each sequence unless their lengths say more.
    when(
        "output.size or topKOutput.size",
        tiling(
            require("len(query) == len(layoutOptional)", "query[-2] == numHeads", "numHeads % numKeyValueHeads == 0"),
            rank(3, "key", "value"),
            require("key[1] == pageBlockSize", "key[2] == numKeyValueHeads * query[-1]"),
            require("value[:2] == key[:2]", "value[2] % numKeyValueHeads == 0"),
            rank(2, "blockTableOptional"),
            require("blockTableOptional[0] == len(actualCmpKvSeqLenOptional)"),
            when("layoutOptional == 'BSND'", require("query[0] == blockTableOptional[0]")),
            when("layoutOptional == 'TND'", require("query[0] >= blockTableOptional[0]")),
        ),
        word="outputs",
    ),
    infer_shape(
        output="(*query[:-1], value[2] // numKeyValueHeads)",
        topKOutput="(*query[:-2], numKeyValueHeads, selectBlockCount)",
    ),
    required="blockTableOptional actualCmpKvSeqLenOptional layoutOptional",
)

# --------------------------------------------------------------------------------------------------- chosen blocks


def _few_sequences(*names: str) -> Check:
    return require(*(f"len({name}) <= 3072" for name in names))


rule(
    "aclnnNsaSelectedAttention",
    required("actualSeqQLenOptional", "actualSeqKvLenOptional", status=INNER_NULLPTR),
    one_of("inputLayout", "TND"),
    require("len(query) == 3", "len(key) == 3", "len(value) == 3"),
    require("key[-1] == query[-1]", "value[-1] <= query[-1]", "query[-1] <= 768"),
    not_empty("query", "key", "value"),
    _few_sequences("actualSeqQLenOptional", "actualSeqKvLenOptional"),
    documented_products,
    documented_dtypes(),
    tiling(
        require("value[:2] == key[:2]", "query[1] == headNum", "query[1] % key[1] == 0"),
        has_shape(topkIndices="(query[0], key[1], selectedBlockCount)"),
    ),
    infer_shape(
        softmaxMaxOut="(query[0], headNum, 8)",
        softmaxSumOut="(query[0], headNum, 8)",
        attentionOut="(*query[:-1], value[-1])",
    ),
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnNsaSelectedAttentionGrad",
    same_dtype("query", "key", "value", "attentionOut", "attentionOutGrad", "dqOut", "dkOut", "dvOut", among=HALVES),
    dtypes("FLOAT", "softmaxMax", "softmaxSum"),
    dtypes("INT32", "topkIndices"),
    unless_empty(
        "query",
        documented_products,
        tiling(
            one_of("inputLayout", "TND"),
            require("len(query) == 3", "len(key) == 3", "len(value) == 3", "key[1] > 0", "query[1] % key[1] == 0"),
            require("key[-1] == query[-1]", "value[:-1] == key[:-1]", "selectedBlockSize > 0"),
            has_shape(attentionOut="(*query[:-1], value[-1])", attentionOutGrad="(*query[:-1], value[-1])"),
            has_shape(softmaxMax="(*query[:-1], 8)", softmaxSum="(*query[:-1], 8)"),
            has_shape(topkIndices="(query[0], key[1], selectedBlockCount)"),
        ),
    ),
    infer_shape(dqOut="query", dkOut="key", dvOut="value"),
)


# Heads are 192 wide, those of values 128; keys are paged, (blocks, tokens, heads * width) but for BSND.
_PAGED = (
    require("len(query) == len(layoutOptional)"),
    when("layoutOptional == 'BSH'", positive("numHeads")),
    when("layoutOptional != 'BSND'", positive("numKeyValueHeads")),
    define(keyHeads="1 if layoutOptional == 'BSND' else numKeyValueHeads"),
    require("query[-1] // (numHeads if layoutOptional == 'BSH' else 1) == 192"),
    require("key[-1] // keyHeads == 192", "value[-1] // keyHeads == 128"),
)
rule(
    "aclnnNsaSelectedAttentionInfer",
    same_dtype("query", "key", "value", among=HALVES),
    dtypes("INT32", "topkIndices"),
    one_of("layoutOptional", "BSH", "BSND", "TND"),
    *_PAGED,
    _few_sequences("actualQSeqLenOptional", "actualKvSeqLenOptional"),
    not_empty("query", "value"),
    tiling(require("key.size > 0")),
    documented_products,
    tiling(
        define(
            heads="numHeads if layoutOptional == 'BSH' else query[-2]",
            tokens="query[:2] if layoutOptional[0] == 'B' else query[:1]",
        ),
        require(*(f"len({name}) == (4 if layoutOptional == 'BSND' else 3)" for name in ("key", "value"))),
        require("value[:2] == key[:2]", "heads == numHeads", "heads % numKeyValueHeads == 0"),
        when("layoutOptional == 'BSND'", require("key[2] == numKeyValueHeads", "value[2] == key[2]")),
        has_shape(topkIndices="(*tokens, numKeyValueHeads, topkIndices[-1])"),
        rank(2, "blockTableOptional"),
        require("blockTableOptional[0] == len(actualKvSeqLenOptional)"),
    ),
    infer_shape(
        output="(*query[:-1], value[3] if layoutOptional == 'BSND' else 128 * numHeads if layoutOptional == 'BSH' else 128)"
    ),
    null_status=INNER_NULLPTR,
    required="blockTableOptional actualQSeqLenOptional actualKvSeqLenOptional layoutOptional output",
)
