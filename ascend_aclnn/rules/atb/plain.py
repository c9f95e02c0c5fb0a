"""Rules of ATB's operations on rows: rotary positions, groups of experts, products, normalisation and quantisation."""

from __future__ import annotations

from ascend_aclnn.rules.atb._statuses import of_dtypes, of_parameters, of_ranks, of_shapes, operation
from ascend_aclnn.rules.language import *

operation(
    "Rope",
    of_parameters(one_of("cosFormat", 0, 1), require("rotaryCoeff > 0", "rotaryCoeff % 2 == 0")),
    of_dtypes(
        same_dtype("query", "key", "queryOut", "keyOut", among="FLOAT16 BF16"),
        same_dtype("cos", "sin"),
        require("cos.dtype == query.dtype or query.dtype == FLOAT16 and cos.dtype == FLOAT", argument="cos"),
        dtypes("INT32 UINT32", "seqLen"),
    ),
    of_shapes(
        require("len(query) in (2, 4)", "len(key) in (2, 4)", "len(cos) == 2", "len(seqLen) == 1"),
        has_shape(sin="cos"),
        define(
            tokens="query[0] if len(query) == 2 else query[0] * query[1]",
            keyTokens="key[0] if len(key) == 2 else key[0] * key[1]",
            width="query[1] if len(query) == 2 else query[2] * query[3]",
            keyWidth="key[1] if len(key) == 2 else key[2] * key[3]",
        ),
        require("keyTokens == tokens", argument="key"),
        require("cos[0] == tokens", "cos[1] >= 16", "cos[1] <= 4096"),
        require("keyWidth > 0", "keyWidth % cos[1] == 0", "width % keyWidth == 0", argument="key"),
    ),
    of_parameters(require("rotaryCoeff in (2, 4, cos[1])", "cos[1] % rotaryCoeff == 0", argument="rotaryCoeff")),
    of_shapes(like(queryOut="query", keyOut="key")),
    inputs="query key cos sin seqLen queryOut keyOut",
)

operation(
    "GroupTopk",
    of_parameters(
        require("product in ('A2', 'A3')", argument="groupNum"),
        require("groupNum >= 1", "k >= 1", "k <= groupNum"),
        one_of("groupMultiFlag", 0, 1),
        when("groupMultiFlag == 1", require("n >= 1")),
    ),
    of_dtypes(same_dtype("self", "out", among="FLOAT16 BF16"), dtypes("INT32", "idxArr")),
    of_ranks(rank(2, "self"), rank(1, "idxArr")),
    of_parameters(
        require("groupNum <= self[1]", "self[1] % groupNum == 0", argument="groupNum"),
        when("groupMultiFlag == 1", require("n <= self[1] // groupNum")),
    ),
    of_shapes(require("self[1] <= 1024"), has_shape(idxArr="(1024,)"), like(out="self")),
    inputs="self idxArr out",
)

operation(
    "FusedAddTopkDiv",
    of_parameters(
        one_of("activationType", 8),
        require("groupNum > 0", "groupTopk > 0", "n > 0", "k > 0", "groupTopk <= groupNum"),
        require("product in ('A2', 'A3')", argument="groupNum"),
    ),
    when("enableExpertMapping", required("mappingNum", "mappingTable")),
    of_dtypes(
        same_dtype("x", "addNum", among="FLOAT16 BF16 FLOAT"),
        dtypes("INT32", "mappingNum", "mappingTable", "indices"),
        dtypes("FLOAT", "y"),
    ),
    of_ranks(rank(2, "x", "mappingTable"), rank(1, "addNum", "mappingNum")),
    of_parameters(
        require("x[1] % groupNum == 0", argument="groupNum"),
        require("n <= x[1] // groupNum", "k <= x[1]", "groupTopk * (x[1] // groupNum) >= k"),
    ),
    of_shapes(
        has_shape(addNum="(x[1],)", mappingNum="(x[1],)", mappingTable="(x[1], mappingTable[1])"),
        output_shape(y="(x[0], k)", indices="(x[0], k)"),
    ),
    inputs="x addNum y indices",
)

operation(
    "Linear",
    of_parameters(
        when("enAccum", one_of("hasBias", False), require("product in ('A2', 'A3')", argument="enAccum")),
        one_of("quantMode", 0, 1, 2),
    ),
    when("hasBias", required("bias")),
    when("enAccum", required("accum")),
    of_dtypes(
        same_dtype("x", "weight", among="FLOAT16 BF16"),
        when("enAccum", dtypes("FLOAT", "accum", "out")),
        when("not enAccum", same_dtype("x", "out")),
        dtypes("FLOAT16 FLOAT", "bias"),
    ),
    of_ranks(rank(2, 3, "x", "weight")),
    of_shapes(
        define(
            rows="x[-1] if transposeA else x[-2]",
            inner="x[-2] if transposeA else x[-1]",
            columns="weight[-2] if transposeB else weight[-1]",
        ),
        require("(weight[-1] if transposeB else weight[-2]) == inner"),
        define(result="(*x[:-2], rows, columns)"),
        has_shape(accum="result"),
        output_shape(out="result"),
    ),
    inputs="x weight out",
)

operation(
    "Elewise",
    of_parameters(in_range("elewiseType", 1, 20)),
    of_dtypes(
        dtypes("FLOAT16 BF16", "x"),
        same_dtype("x", "scale"),
        dtypes("INT8", "offset", "y"),
    ),
    of_shapes(
        require("scale.size in (1, x[-1])"),
        require("offset.size in (0, scale.size)"),
        output_shape(y="x"),
    ),
    inputs="x scale y",
)

# layerType 1 is the plain norm; quantType 2 is INT8.
operation(
    "RmsNorm",
    of_parameters(
        in_range("layerType", 1, 3),
        require("normEpsilon > 2e-38", "preNormEpsilon > 2e-38", "postNormEpsilon > 2e-38"),
        one_of("normQuantType", 0, 2),
    ),
    when("normQuantType == 2", required("beta", "scale", "offset")),
    of_dtypes(
        when("normQuantType == 2", dtypes("FLOAT16 BF16", "x"), dtypes("INT8", "offset", "y")),
        when("normQuantType == 0", dtypes("FLOAT16 BF16 FLOAT", "x"), same_dtype("x", "y")),
        same_dtype("x", "gamma", "beta", "scale"),
    ),
    of_shapes(
        require("gamma[-1] == x[-1]", "gamma.size == x[-1]", "beta.size == x[-1]"),
        require("x[-1] % (8 if x.dtype == FLOAT else 16) == 0"),
        require("scale.size == 1", "offset.size == 1"),
        output_shape(y="x"),
    ),
    inputs="x gamma y",
)
