"""Rules of grouped products before an activation, quantised again."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.language import *

# --------------------------------------------------------------------------------------------------- SwiGLU

_V1 = "aclnnGroupedMatmulSwigluQuant aclnnGroupedMatmulSwigluQuantWeightNZ"
_V2 = "aclnnGroupedMatmulSwigluQuantV2 aclnnGroupedMatmulSwigluQuantWeightNzV2"
# The weights of one tensor, or of a list with one for each group (of version 2); in FRACTAL_NZ the tiles may be written out.
_WEIGHTS = define(
    plain="(*batch, k, n)",
    tiles="(*batch, n // inner, k // 16, 16, inner)",
    inner="32 if int8 else 64",
)
_RESULTS = (
    has_shape(xScale="(m,)", output="(m, n // 2)", outputScale="(m,)"),
    require("groupList[0] <= e"),
    require("n <= 10240", argument="weightScale"),
    require("k < (65536 if int8 else 20000)", argument="x"),
)
rule(
    _V1,
    on_operators("aclnnGroupedMatmulSwigluQuantWeightNZ", require("len(weight.storage) == 5")),
    define(
        int8="weight.dtype == INT8",
        stored="weight.format.private and len(weight) == 5",
        m="x[0]",
        k="x[1]",
        e="weight.unpacked[0]",
        n="weightScale[-1]",
        groups="weightScale[1] if len(weightScale) == 3 else 1",
        batch="(e,)",
    ),
    _WEIGHTS,
    when("x.dtype == INT8 and weight.dtype == INT4", required("bias")),
    dtypes("INT8", "x"),
    dtypes("INT8 INT4 INT32", "weight"),
    rank(2, "x", "output"),
    require("len(weight) == (5 if stored else 3)", "len(weightScale) == (2 if int8 else 3)"),
    rank(1, "xScale", "groupList", "outputScale"),
    require("groups > 0", "k % groups == 0", "n % 2 == 0", argument="weightScale"),
    require("weight.unpacked == (tiles if stored else plain)", "weightScale[0] == e"),
    when("not int8", require("bias is not None"), has_shape(bias="(e, n)")),
    *_RESULTS,
    when("int8", dtypes(FLOATS, "weightScale")),
    when("not int8", dtypes("UINT64 INT64", "weightScale"), dtypes("FLOAT", "bias")),
    dtypes(FLOATS, "xScale"),
    dtypes("INT64", "groupList"),
    dtypes("INT8", "output"),
    dtypes("FLOAT", "outputScale"),
    on_operators("aclnnGroupedMatmulSwigluQuant", when("int8", formats("FRACTAL_NZ", "weight"))),
    no_private_format("x", "output"),
    infer_shape(output="(x[0], weightScale[-1] // 2)", outputScale="(x[0],)", outputOffset="None"),
)
rule(
    _V2,
    required_lists("weight", "weightScale"),
    on_operators(
        "aclnnGroupedMatmulSwigluQuantWeightNzV2",
        require("all(len(w.storage) == (5 if len(weight) == 1 and len(weight[0]) in (3, 5) else 4) for w in weight)"),
    ),
    on_products("950", documented_dtypes()),
    # A2 and A3: INT8 by INT8 or INT4, and INT4 by INT4; one weight for all groups or one for each.
    define(
        weights="[w.unpacked for w in weight]",
        int8="weight[0].dtype == INT8",
        single="len(weight) == 1",
        m="x[0]",
        k="x.unpacked[1]",
        e="weights[0][0] if single else len(weight)",
        n="weightScale[0][-1] if len(weightScale[0]) else 1",
        batch="(e,) if single else ()",
        scale_rank="len(batch) + (1 if int8 or not dequantMode else 2)",
    ),
    _WEIGHTS,
    when(
        "product != '950'",
        only_products("A2 A3"),
        dtypes("INT8 INT4 INT32", "x"),
        dtypes("INT8 INT4 INT32", "weight"),
        rank(2, "x", "output"),
        rank(1, "xScale", "groupList", "outputScale"),
        require("len(weightScale) == len(weight)"),
        when("x.dtype == INT8 and not int8", require("weightAssistMatrix is not None")),
        when("x.dtype != INT8", absent("weightAssistMatrix", why="with INT4 by INT4")),
        require("n % 2 == 0", argument="weightScale"),
        require(
            "all(v == (tiles if w.format.private and len(w) in (4, 5) else plain) for v, w in zip(weights, weight))",
            argument="weight",
        ),
        require("all(len(s) == scale_rank for s in weightScale)", "all(s[-1] == n for s in weightScale)"),
        when("single", require("weightScale[0][0] == e")),
        require("all(a == (*batch, n) for a in weightAssistMatrix)"),
        *_RESULTS,
        when("int8", absent("smoothScale", why="with INT8 weights"), dtypes(FLOATS, "weightScale")),
        when("not int8", dtypes("FLOAT", "smoothScale"), require("smoothScale in ((e,), (e, n // 2))")),
        when("not int8", dtypes("UINT64 INT64", "weightScale")),
        dtypes("FLOAT", "xScale", "outputScale", "weightAssistMatrix"),
        dtypes("INT64", "groupList"),
        dtypes("INT8", "output"),
        no_private_format("x", "output"),
    ),
    infer_shape(output="(x[0], weightScale[0][-1] // 2)", outputScale="(x[0],)"),
    output_dtype(output="INT8", outputScale="FLOAT"),
    empty_lists="weightAssistMatrix",
)

# --------------------------------------------------------------------------------------------------- GELU, Ascend 950

rule(
    "aclnnGroupedMatmulActivationQuantWeightNz",
    array_length("weight", 1),
    required_lists("weight"),
    array_length("weightScale", 1),
    required_lists("weightScale"),
    one_of("activationType", "gelu_tanh"),
    one_of("quantMode", "mx", ""),
    when("quantMode == ''", required("xScaleOptional", status=PARAM_INVALID)),
    required("xScaleOptional"),
    one_of("roundMode", "rint", ""),
    one_of("groupListType", 0, 1),
    one_of("scaleAlg", 0, 1),
    one_of("dstTypeMax", 0.0),
    absent("bias"),
    dtypes("FLOAT8_E4M3FN FLOAT8_E5M2", "x", "y"),
    dtypes("FLOAT8_E4M3FN", "weight"),
    dtypes("FLOAT8_E8M0", "xScaleOptional", "weightScale", "yScale"),
    dtypes("INT64", "groupList"),
    no_private_format("x", "xScaleOptional", "groupList", "weightScale", "y", "yScale"),
    rank(2, "x", "y"),
    rank(3, "xScaleOptional", "yScale", "weight"),
    rank(4, "weightScale"),
    rank(1, "groupList"),
    define(
        m="x[0]",
        k="x[1]",
        n="weight[0][-1]",
        e="groupList[0]",
        outer="k if weight[0].transposed else n",
        inner="n if weight[0].transposed else k",
    ),
    require("not x.transposed or k == 1", "groupList[0] <= 1024"),
    require("n % 64 == 0", argument="weight"),
    require(
        "weight[0] == (e, k, n)",
        "weightScale[0] == (e, ceil_div(k, 64), n, 2)",
        "weight[0].storage == (e, ceil_div(outer, 32), ceil_div(inner, 16), 16, 32)",
    ),
    has_shape(xScaleOptional="(m, ceil_div(k, 64), 2)"),
    output_shape(y="(m, n)", yScale="(m, ceil_div(n, 64), 2)"),
    only_products("950"),
    output_dtype(y="FLOAT8_E4M3FN", yScale="FLOAT8_E8M0"),
    empty_lists="bias",
)
