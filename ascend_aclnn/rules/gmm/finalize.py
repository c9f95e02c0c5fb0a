"""Rules of a grouped product whose rows are weighted and added up (routing of experts, the last step)."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *

_V1, _V2, _V3, _NZ, _NZ_V2 = (
    f"aclnnGroupedMatmulFinalizeRouting{version}" for version in ("", "V2", "V3", "WeightNz", "WeightNzV2")
)
_NAMES = {
    "x": "x1",
    "w": "x2",
    "scale": "scaleOptional",
    "bias": "biasOptional",
    "offset": "offsetOptional",
    "token": "pertokenScaleOptional",
    "groups": "groupList groupListOptional",
    "shared": "sharedInput sharedInputOptional",
    "logit": "logitOptional",
    "row": "rowIndex rowIndexOptional",
    "out": "y",
    "transpose_x": "transposeX1 transposeX",
    "transpose_w": "transposeX2 transposeW",
}

_POINTERS = (
    required("out", "x", "w"),
    on_operators(f"{_V1} {_V2} {_V3} {_NZ}", required("scale", "logit", "groups", "row")),
    on_operators(f"{_V1} {_V2} {_V3}", required("token")),
    on_operators(f"{_V1} {_V2}", required("bias")),
    on_operators(_V3, when("product != '950'", required("bias"))),
    on_operators(
        _NZ_V2,
        when("product != '950'", when("int4", required("token")), required("scale", "logit", "groups", "row")),
    ),
    with_status(PARAM_NULLPTR, absent("antiquantScaleOptional", "antiquantOffsetOptional")),
)

# An INT32 holds eight INT4.
_SIZES = define(
    int4="w.dtype in (INT32, INT4)",
    k="w[-2]",
    n="w[-1] * 8 if w.dtype == INT32 else w[-1]",
    columns="64 if int4 else 32",  # of a tile
    tiled="prod(w[:-2]) * ceil_div(k, 16) * ceil_div(n, columns) * 16 * columns",
)
_ATTRIBUTES = (
    one_of("dtype", 0),
    rank(2, 99, "w"),
    require("not transpose_x"),
    when(
        "product != '950'",
        require("not transpose_w"),
        on_operators(f"{_V1} {_V2} {_V3}", dtypes("INT32", "w")),
        on_operators(
            f"{_NZ} {_NZ_V2}",
            formats("ND", "x"),
            formats("FRACTAL_NZ", "w"),
            require("prod(w.storage) * (8 if w.dtype == INT32 else 1) == tiled"),
        ),
    ),
)
_TENSORS = ("x", "scale", "bias", "token", "groups", "shared", "logit", "row", "out")
_ON_A2 = (
    dtypes("INT8", "x"),
    when(
        "int4",
        dtypes("INT64", "scale", "row"),
        dtypes("FLOAT", "bias", "offset"),
    ),
    on_operators(
        f"{_NZ} {_NZ_V2}",
        when(
            "not int4",
            dtypes("INT8", "w"),
            dtypes("FLOAT INT64 BF16", "scale"),
            dtypes(INDICES, "row"),
            dtypes("BF16", "bias"),
        ),
    ),
    dtypes("FLOAT", "token", "logit", "out"),
    dtypes("INT64", "groups"),
    dtypes("BF16", "shared"),
    rank(2, "x", "out"),
    rank(3, "w"),
    require("x[1] == k"),
    when(
        "int4",
        require("n % 8 == 0", "k % 64 == 0", "n > 64", "k > 128"),
        on_operators(f"{_NZ} {_NZ_V2}", require("n % 64 == 0")),
        has_shape(scale="(w[0], 1, n)", offset="(w[0], 1, n)", bias="(w[0], n)"),
    ),
    on_operators(
        f"{_NZ} {_NZ_V2}",
        when("not int4", require("k % 16 == 0", "n % 32 == 0", "n >= 256"), has_shape(scale="(w[0], n)")),
    ),
    has_shape(token="(x[0],)", groups="(w[0],)", logit="(x[0],)", row="(x[0],)"),
    require("out[0] <= x[0]", "out[1] == n"),
    one_of("groupListType", 0, 1),
    rank(2, "shared"),
    require("shared[0] <= out[0]", "shared[1] == n"),
    require("0 <= sharedInputOffset <= out[0] - (0 if shared is None else shared[0])"),
    formats("ND", *_TENSORS),
    formats("ND FRACTAL_NZ", "w"),
    not_empty("x", "w", "scale", "groups", "token", "shared", "logit", "row"),
    when("len(tuningConfigOptional) > 0", require("0 <= tuningConfigOptional[0] <= x[0]"), word="tuned"),
)
_MX_SIZES = define(k="x1[1]", n="x2[1] if transposeX2 else x2[2]")
_MX_GROUPS = (
    dtypes("FLOAT8_E4M3FN FLOAT8_E5M2 FLOAT4_E2M1", "x1", "x2"),
    require("(x1.dtype in FLOAT4S) == (x2.dtype in FLOAT4S)"),
    dtypes("FLOAT8_E8M0", "scaleOptional", "pertokenScaleOptional"),
    dtypes("BF16", "biasOptional", "sharedInputOptional"),
    dtypes("FLOAT", "logitOptional", "out"),
    dtypes("INT64", "groupListOptional", "rowIndexOptional"),
    absent("offsetOptional"),
    rank(2, "x1", "out"),
    rank(3, "x2"),
    require("0 < x2[0] <= 1024", "x2[2 if transposeX2 else 1] == k", "k > 0", argument="x2"),
    when("x1.dtype in FLOAT4S", require("k % 2 == 0", "k != 2", "transposeX2 or n % 2 == 0", argument="x2")),
    has_shape(
        scaleOptional="(x2[0], n, ceil_div(k, 64), 2) if transposeX2 else (x2[0], ceil_div(k, 64), n, 2)",
        pertokenScaleOptional="(x1[0], ceil_div(k, 64), 2)",
        biasOptional="(x2[0], n)",
        groupListOptional="(x2[0],)",
        logitOptional="(x1[0],)",
        rowIndexOptional="(x1[0],)",
    ),
    require("out[1] == n", "out[0] <= x1[0]", "0 <= sharedInputOffset <= out[0]", "groupListType in (0, 1)"),
    rank(2, "sharedInputOptional"),
    require("sharedInputOptional[1] == n", "sharedInputOptional[0] + sharedInputOffset <= out[0]"),
)

rule(
    f"{_V1} {_V2} {_V3} {_NZ} {_NZ_V2}",
    on_products("950", on_operators(_V3, _MX_SIZES)),
    _SIZES,
    *_POINTERS,
    *_ATTRIBUTES,
    when("product != '950'", *_ON_A2),
    on_products(
        "950",
        on_operators(_V3, *_MX_GROUPS),
        on_operators(f"{_V1} {_V2} {_NZ} {_NZ_V2}", documented_dtypes()),
    ),
    # How many rows are left depends on the row numbers: at most as many as x has.
    infer_shape(out="(x[0], n)"),
    output_dtype(out="FLOAT"),
    nullable="x x1 x2 w scale groupList sharedInput logit rowIndex out y",
    aliases=_NAMES,
)
