"""Rules of ATB's attention with latent keys (MLA): over caches, and in rings."""

from __future__ import annotations

from ascend_aclnn.rules.atb._statuses import of_dtypes, of_parameters, of_ranks, of_shapes, operation
from ascend_aclnn.rules.language import *

# maskType: 1 spec (a row for each token), 2 mask free, 3 causal, 4 sliding window. calcType: 1 several tokens, 2 with the
# logarithms of the sums, 3 both, 4 prompts. cacheMode: 1 plain, 2 INT8 in fractals, 3 fractals.
operation(
    "MultiLatentAttention",
    of_parameters(
        require("product in ('A2', 'A3')", argument="headNum"),
        require("qkScale > 0", "qkScale <= 1"),
        one_of("maskType", 0, 1, 2, 3, 4),
        one_of("calcType", 0, 1, 2, 3, 4),
        one_of("cacheMode", 0, 1, 2, 3),
        when(
            "calcType != 4",
            one_of("headNum", 8, 16, 32, 64, 128),
            one_of("kvHeadNum", 1),
            require("cacheMode != 0"),
            one_of("maskUseStatusType", 0, 1),
            when("calcType not in (1, 3)", one_of("maskType", 0)),
            when("calcType in (1, 3)", require("maskType != 4")),
            when("maskUseStatusType == 1", one_of("calcType", 3)),
        ),
        when("calcType == 4", in_range("headNum", 1, 128), one_of("maskType", 0, 2, 3, 4), one_of("cacheMode", 1)),
        when("maskType == 4", require("windowSize > 0")),
    ),
    when("maskType in (1, 2, 4)", required("mask")),
    when("calcType in (1, 3)", required("qSeqLen")),
    when("calcType in (2, 3)", required("lse")),
    of_dtypes(
        same_dtype("qNope", "qRope", "ctKV", "kRope", "attenOut", "lse", among="FLOAT16 BF16"),
        same_dtype("qNope", "mask"),
        dtypes("INT32", "blockTables"),
    ),
    of_ranks(rank(3, "qNope", "qRope"), rank(4, "ctKV", "kRope"), rank(2, "blockTables")),
    of_shapes(
        require("qNope[1] == headNum", "qNope[2] == 512", "qRope[2] == 64"),
        has_shape(qRope="(*qNope[:2], 64)"),
        when(
            "cacheMode == 1",
            require("ctKV[2] == 1", "ctKV[3] == 512", "ctKV[1] <= 128"),
            has_shape(kRope="(*ctKV[:3], 64)"),
        ),
        when(
            "cacheMode == 3",
            require("ctKV[1] == 32", "ctKV[3] == 16", "ctKV[2] <= 128"),
            has_shape(kRope="(ctKV[0], 4, ctKV[2], 16)"),
        ),
        output_shape(attenOut="qNope"),
        when("calcType in (2, 3)", output_shape(lse="(*qNope[:2], 1)")),
    ),
    inputs="qNope qRope ctKV kRope blockTables contextLens attenOut",
)

operation(
    "RingMLA",
    of_parameters(
        require("product in ('A2', 'A3')", argument="headNum"),
        one_of("calcType", 0, 1),
        require("headNum > 0", "kvHeadNum >= 0"),
        require("kvHeadNum == 0 or headNum % kvHeadNum == 0"),
        one_of("maskType", 0, 1),
        one_of("inputLayout", 0),
        one_of("kernelType", 1),
    ),
    when("maskType == 1", required("mask")),
    when("calcType == 0", required("prevOut", "prevLse")),
    of_dtypes(
        same_dtype(
            "querySplit1", "querySplit2", "keySplit1", "keySplit2", "value", "prevOut", "output", among="FLOAT16 BF16"
        ),
        dtypes("FLOAT", "prevLse", "softmaxLse"),
    ),
    of_ranks(rank(3, "querySplit1", "querySplit2", "keySplit1", "keySplit2", "value", "prevOut"), rank(2, "prevLse")),
    of_shapes(
        require("querySplit1[1] == headNum", "querySplit1[2] == 128", "keySplit1[2] == 128", "value[2] == 128"),
        require("keySplit1[1] == (kvHeadNum or headNum)"),
        has_shape(
            querySplit2="(*querySplit1[:2], 64)",
            keySplit2="(*keySplit1[:2], 64)",
            value="(*keySplit1[:2], 128)",
            prevOut="(*querySplit1[:2], 128)",
            prevLse="(querySplit1[1], querySplit1[0])",
        ),
        output_shape(output="(*querySplit1[:2], 128)", softmaxLse="(querySplit1[1], querySplit1[0])"),
    ),
    inputs="querySplit1 querySplit2 keySplit1 keySplit2 value seqLen output softmaxLse",
)
