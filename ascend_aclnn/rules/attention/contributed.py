"""Rules of contributed attention over blocks of keys that are chosen beforehand, and of what chooses them."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_PROMPT = (
    define(
        layouts="known(inputLayout, 'BSH', 'BNSD', 'BSND')",
        q="by_letter(query, layouts, numHeads)",
        keyHeads="numKeyValueHeads or numHeads",
        k="by_letter(key, layouts, keyHeads)",
        rows="128 if blockShape is None else blockShape[0]",
        columns="128 if blockShape is None else blockShape[1]",
    ),
)
rule(
    "aclnnBlitzSparseAttention",
    only_products("A2 A3 310P"),
    same_dtype("query", "key", "value", "attentionOut", among=HALVES),
    dtypes("UINT16", "sabi"),
    dtypes("INT8 UINT8 BOOL", "attenMask"),
    dtypes("FLOAT", "softmaxLse"),
    require("numHeads > 0"),
    absent("deqScale1", "quantScale1", "deqScale2", "quantScale2", "quantOffset2"),
    *_PROMPT,
    tiling(
        require("numHeads % keyHeads == 0", argument="numKeyValueHeads"),
        require(
            "q.N == numHeads", "k.N == keyHeads", "len(key) == len(query)", "k.D == q.D", "k.B == q.B", "value == key"
        ),
        array_length("blockShape", 2),
        require("rows in (128, 256, 512, 1024)", "columns in (128, 256, 512, 1024)", argument="blockShape"),
        has_shape(sabi="(q.B, numHeads, ceil_div(q.S, rows), ceil_div(k.S, columns))"),
    ),
    output_shape(attentionOut="query"),
    infer_shape(softmaxLse="(q.B, numHeads, q.S) if softmaxLseFlag else (0,)"),
    output_dtype(softmaxLse="FLOAT"),
)
rule(
    "aclnnMinimaxSparseAttentionSplitKv",
    only_products("950"),
    dtypes("BF16", "query", "key", "value", "attentionOut"),
    dtypes(
        "INT32", "blockTable", "k2qRowPtr", "k2qQIndices", "k2qSlotIndices", "actualSeqLengths", "actualSeqLengthsKv"
    ),
    tiling(
        rank(3, "query"),
        rank(4, "key", "value"),
        rank(2, "blockTable", "k2qRowPtr", "k2qQIndices", "k2qSlotIndices"),
        same_shape("key", "value"),
        require("key[1] == blockSize", "key[2] > 0", "key[3] == query[2]", "query[1] % key[2] == 0"),
        require("numKeyValueHeads in (0, key[2])", "topK > 0"),
        require("k2qRowPtr[0] == key[2]", "k2qQIndices[0] == key[2]", "k2qSlotIndices == k2qQIndices"),
        has_shape(actualSeqLengths="(blockTable[0],)", actualSeqLengthsKv="(blockTable[0],)"),
    ),
    output_shape(attentionOut="query"),
)
rule(
    "aclnnStemIndexer",
    only_products("950"),
    dtypes("BF16", "qflat", "kflat"),
    dtypes("FLOAT", "vbias"),
    dtypes("INT32", "qSeqLens", "kvSeqLens", "numPromptTokensOptional", "metadataOptional"),
    dtypes("INT32", "sparseIndicesOut", "sparseSeqLenOut"),
    tiling(
        rank(4, "qflat", "kflat"),
        required("metadataOptional"),
        not_empty("qflat", "kflat", "metadataOptional"),
        require("qflat[1] in (32, 64)", "kflat[1] in (2, 4, 8)", "qflat[3] == 2048", "kflat[3] == 2048"),
        require("kflat[0] == qflat[0]", "qflat[0] <= 65536"),
        has_shape(vbias="kflat[:3]", qSeqLens="(qflat[0],)", kvSeqLens="(qflat[0],)"),
        has_shape(numPromptTokensOptional="(qflat[0],)"),
        rank(1, "metadataOptional"),
        require("stemBlockSize == 128", "stemStride == 16", "initialBlocks == 4", "windowSize == 4", "0 < alpha <= 1"),
        require("kBlockNumBiasMedium == 30", "kBlockNumBiasLarge == 30"),
        require("abs(kBlockNumRateMedium - 0.2) < 1e-6", "abs(kBlockNumRateLarge - 0.1) < 1e-6"),
        one_of("topkScorePrecision", 1, 2),
    ),
    output_shape(sparseIndicesOut="(*qflat[:3], kflat[2])", sparseSeqLenOut="qflat[:3]"),
    output_dtype(sparseIndicesOut="INT32", sparseSeqLenOut="INT32"),
)
rule(
    "aclnnQuantBlockSparseAttn",
    only_products("950"),
    dtypes("FLOAT8_E4M3FN", "query", "key", "value"),
    dtypes("INT32", "sparseIndices", "sparseSeqLen", "cuSeqlensQOptional", "sequsedKvOptional", "blockTableOptional"),
    dtypes("INT32", "metadataOptional"),
    dtypes("UINT8", "attenMaskOptional"),
    dtypes("BF16", "attentionOutOut"),
    dtypes("FLOAT", "softmaxLseOut"),
    define(grouped="quantMode == 2", turned="layoutQ == 'NTD'"),
    tiling(
        one_of("quantMode", 1, 2),
        one_of("maskMode", 0, 3),
        require("layoutKv == 'PA_BNBD'", "layoutSparseIndices == 'B_N_Qb_Kb'", "layoutOut == 'TND'"),
        require("layoutQ == 'TND' or turned and not grouped", argument="layoutQ"),
        require("0 < softmaxScale <= 1"),
        required("cuSeqlensQOptional", "sequsedKvOptional", "blockTableOptional", "metadataOptional"),
        absent("cuSeqlensKvOptional", "sequsedQOptional"),
        when(
            "maskMode == 3", required("attenMaskOptional"), has_shape(attenMaskOptional="(2048, 2048)"), word="causal"
        ),
        rank(1, "cuSeqlensQOptional", "sequsedKvOptional"),
        rank(3, "query", "sparseSeqLen"),
        rank(4, "key", "value", "sparseIndices"),
        rank(2, "blockTableOptional"),
        define(tokens="query[1] if turned else query[0]", heads="query[0] if turned else query[1]"),
        require("query[2] == 128", "key[3] == 128", "value[:3] == key[:3]", "key[1] > 0", "heads % key[1] == 0"),
        dtypes("FLOAT8_E8M0 FLOAT", "qDescale", "kDescale", "vDescale", "pScaleOptional"),
        when(
            "not grouped",
            dtypes("FLOAT", "qDescale", "kDescale", "vDescale", "pScaleOptional"),
            require("sparseQBlockSize == 128", "sparseKvBlockSize == 128", "key[2] == 128"),
            has_shape(qDescale="query[:2]", kDescale="(*key[:3], 1)", vDescale="(key[1],)"),
            word="fp8",
        ),
        when(
            "grouped",
            dtypes("FLOAT8_E8M0", "qDescale", "kDescale", "vDescale", "pScaleOptional"),
            one_of("sparseQBlockSize", 64, 128),
            require("sparseKvBlockSize == sparseQBlockSize", "key[2] % sparseKvBlockSize == 0", "key[2] <= 1024"),
            has_shape(
                qDescale="(*query[:2], query[2] // 64, 2)",
                kDescale="(*key[:3], key[3] // 64, 2)",
                vDescale="(*key[:2], key[2] // 64, value[3], 2)",
            ),
            word="mxfp8",
        ),
        require("pScaleOptional.size in (0, 1)"),
        require("sparseIndices[1] == heads", "sparseSeqLen == sparseIndices[:3]"),
        require("blockTableOptional[0] == sparseIndices[0]", "sequsedKvOptional.size == sparseIndices[0]"),
        require("cuSeqlensQOptional.size == sparseIndices[0] + 1"),
    ),
    output_shape(attentionOutOut="(tokens, heads, value[3])"),
    infer_shape(
        softmaxLseOut="((tokens, heads) if grouped else (heads, tokens)) if returnSoftmaxLse else (0,)",
    ),
    output_dtype(attentionOutOut="BF16", softmaxLseOut="FLOAT"),
)
