"""Rules of ops-transformer/ffn: two products with an activation between them, for one expert or several."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_PLAIN, _GATED = "('fastgelu', 'relu', 'silu', 'gelu')", "('geglu', 'swiglu', 'reglu')"
_QUANT = ("scale", "offset", "deqScale1", "deqScale2")
_ANTIQUANT = ("antiquantScale1", "antiquantScale2", "antiquantOffset1", "antiquantOffset2")
_WHY = "with these dtypes"

# Where the experts' rows end, or how many rows each takes: together all of them.
_TOKENS = when(
    "not is_tensor(expertTokens) and len(expertTokens) > 0",
    define(counts="tuple(b - a for a, b in zip((0, *expertTokens), expertTokens)) if ends else expertTokens"),
    require("min(counts) >= 0", argument="expertTokens"),
    require("sum(counts) == prod(x[:-1])", argument="expertTokens", word="all-rows"),
)
_SHAPES = (
    require("len(y) == len(x)"),
    rank(2, 8, "x"),
    define(least="2 if experts is None else 3", each="() if experts is None else (experts,)"),
    require("len(weight1) == least", "len(weight2) == least"),
    require("weight1[-2] <= 65535", "weight2[-2] <= 65535", "weight1[-2] == x[-1]"),
    # A gate halves the columns of the first product.
    require("weight1[-1] % (2 if gated else 1) == 0", "weight2[-2] == weight1[-1] // (2 if gated else 1)"),
    require("weight2[-1] == weight1[-2]", "weight1[0] == experts", "weight2[0] == experts"),
    has_shape(bias1="(*each, weight1[-1])", bias2="(*each, weight2[-1])"),
)


def _antiquantised(part: str) -> tuple[Check, ...]:
    """Weights of INT8 or INT4, dequantised by column (INT4 also by groups of rows)."""
    scale, weight = f"antiquantScale{part}", f"weight{part}"
    return (
        require(f"len({scale}) in (least - 1, least)"),
        same_shape(scale, f"antiquantOffset{part}"),
        require(f"{scale}[-1] == {weight}[-1]", word="columns"),
        require(f"{scale}[0] == experts"),
        when(f"{weight}.dtype == INT4", require(f"{weight}[-1] % 2 == 0"), word="int4"),
        when(
            f"len({scale}) == least",
            require(f"{weight}.dtype == INT4", argument=scale, word="int4"),
            require(f"{scale}[-2] > 0", word="rows"),
            require(f"{weight}[-2] % {scale}[-2] == 0", argument=scale, word="multiple"),
            word="parts",
        ),
    )


_INT8 = (
    dtypes("INT8", "weight1"),
    dtypes("INT32", "bias1", "bias2"),
    dtypes(HALVES, "y"),
    required(*_QUANT),
    when("y.dtype == BF16", dtypes("BF16", "deqScale1")),
    when("y.dtype != BF16", dtypes("UINT64 INT64 FLOAT", "deqScale1")),
    same_dtype("deqScale1", "deqScale2"),
    dtypes("FLOAT", "scale", "offset"),
    absent(*_ANTIQUANT, why=_WHY),
    define(count="1 if experts is None else experts"),
    has_shape(deqScale1="(*each, weight1[-1])", deqScale2="(*each, weight2[-1])", offset="(count,)"),
    require("scale in ((count,), (*each, weight1[-1]))"),
    # By column.
    when(
        "scale == (*each, weight1[-1]) and (experts is not None or weight1[-1] != 1)",
        dtypes("UINT64 INT64 BF16", "deqScale1"),
    ),
)
_HALVES = (
    same_dtype("x", "y"),
    define(antiquantised="weight1.dtype in (INT8, INT4)"),
    when(
        "antiquantised",
        required(*_ANTIQUANT),
        same_dtype("x", *_ANTIQUANT),
        absent(*_QUANT, why=_WHY),
        word="antiquantised",
    ),
    when("x.dtype == BF16", dtypes("FLOAT", "bias1", "bias2")),
    when("x.dtype != BF16", dtypes("FLOAT16", "bias1", "bias2")),
    when("antiquantised", *_antiquantised("1"), *_antiquantised("2"), word="antiquantised"),
    when(
        "not antiquantised",
        same_dtype("x", "weight1"),
        when("x.dtype == BF16", one_of("innerPrecise", 0)),
        absent(*_QUANT, *_ANTIQUANT, why=_WHY),
    ),
)

rule(
    "aclnnFFN aclnnFFNV2 aclnnFFNV3",
    on_operators("aclnnFFN", only_products("A2 A3 950 910 310B 310")),
    required("activation"),
    require(f"activation.lower() in {_PLAIN} + {_GATED}"),
    required("x", "weight1", "weight2", "y"),
    define(
        gated=f"activation.lower() in {_GATED}",
        experts="(len(expertTokens) and expertTokens[0] if is_tensor(expertTokens) else len(expertTokens)) or None",
        ends="tokensIndexFlag is not None and tokensIndexFlag",
    ),
    _TOKENS,
    require(
        *(
            f"not {name}.format.private or (product == '310P' and {name}.format == FRACTAL_NZ)"
            for name in ("x", "weight1", "weight2", "y")
        )
    ),
    *_SHAPES,
    on_operators(
        "aclnnFFNV2 aclnnFFNV3",
        on_products(
            "310P",
            rank(2, "x"),
            one_of("innerPrecise", 1),
            require("not gated", "experts is None", why="on 310P"),
            dtypes("FLOAT16", "x", "y", "weight1", "weight2", "bias1", "bias2"),
            absent(*_QUANT, *_ANTIQUANT, why="on 310P"),
        ),
    ),
    when(
        "product != '310P'",
        dtypes(f"{HALVES} INT8", "x"),
        same_dtype("weight1", "weight2"),
        dtypes(f"{HALVES} INT8 INT4", "weight1"),
        when(
            "gated",
            dtypes("FLOAT16", "x", "weight1"),
            one_of("innerPrecise", 1),
            require("experts is None", why="with a gated activation"),
            dtypes("FLOAT16", "bias1", "bias2"),
        ),
        when("not gated and x.dtype == INT8", *_INT8, word="int8"),
        when("not gated and x.dtype != INT8", *_HALVES, word="half"),
    ),
    infer_shape(y="x"),
    output_dtype(y="x if x.dtype != INT8 else BF16 if deqScale1 is not None and deqScale1.dtype == BF16 else FLOAT16"),
    nullable="x weight1 weight2 y activation",
    aliases={name: f"{name}Optional" for name in ("expertTokens", "bias1", "bias2", *_QUANT, *_ANTIQUANT)},
)

# --------------------------------------------------------------------------------------------------- other devices

_EACH_ROW = ("sessionIds", "microBatchIds", "tokenIds", "expertOffsets")
rule(
    "aclnnFfnWorkerBatching",
    documented_products,
    documented_dtypes(),
    # Sessions, micro batches, tokens and columns of the largest output.
    tiling(
        array_length("maxOutShape", 4),
        in_range("expertNum", 1, 8192),
        positive("maxOutShape"),
        require("maxOutShape[0] <= 1024", "maxOutShape[2] <= 64"),
        one_of("tokenDtype", 0, 1, 2),
        one_of("needSchedule", 0, 1),
        require("0 <= layerNum and layerNum <= expertNum"),
        rank(1, "scheduleContext"),
    ),
    define(rows="(prod(maxOutShape[:3]),)"),
    infer_shape(
        y="(*rows, maxOutShape[3])",
        groupList="(expertNum, 2)",
        **dict.fromkeys((*_EACH_ROW, "dynamicScale"), "rows"),
        actualTokenNum="(1,)",
    ),
    output_dtype(
        y="FLOAT16 if tokenDtype == 0 else BF16 if tokenDtype == 1 else INT8",
        groupList="INT64",
        **dict.fromkeys(_EACH_ROW, "INT32"),
        dynamicScale="FLOAT",
        actualTokenNum="INT64",
    ),
)
rule(
    "aclnnInplaceFfnWorkerScheduler",
    rank(1, "scheduleContextRef"),
    one_of("executeMode", 0),
    not_empty("scheduleContextRef"),
    documented_products,
    documented_dtypes(),
)
rule(
    "aclnnSwinTransformerLnQkvQuant",
    documented_products,
    documented_dtypes(),
    # (windows, heads, items of a window, width of a head)
    define(
        window="hWinSize * wWinSize",
        windows="exact_div(x.size, max(headNum * seqLength * window, 0))",
        heads="(windows, headNum, window, seqLength)",
    ),
    tiling(
        rank(3, "x"),
        has_shape(
            weight="(3 * x[2], x[2])",
            **dict.fromkeys(("gamma", "beta", "quantScale", "quantOffset"), "(x[2],)"),
            **dict.fromkeys(("bias", "dequantScale"), "(3 * x[2],)"),
        ),
    ),
    infer_shape(queryOutputOut="heads", keyOutputOut="heads", valueOutputOut="heads"),
)


# --------------------------------------------------------------------------------------------------- experimental, A2 and A3

rule(
    "aclnnMatmulSwiglu",
    documented_products,
    documented_dtypes(),
    required("bias"),  # a null pointer is refused by the generated interface
    same_dtype("x", "weight", "out"),
    tiling(
        rank(2, 8, "x"),
        rank(2, "weight"),
        define(k="weight[1] if transposeWeight else weight[0]", doubled="weight[0] if transposeWeight else weight[1]"),
        require("doubled % 2 == 0", "k == x[-1]", argument="weight"),
        has_shape(bias="(doubled,)"),
        output_shape(out="(*x[:-1], doubled // 2)"),
    ),
)
rule(
    "aclnnSwigluGatedMlp",
    documented_products,
    dtypes(FLOATS, "x"),
    same_dtype("x", "gateUpWeight", "downWeight", "y"),
    rank(2, 8, "x"),
    rank(2, "gateUpWeight", "downWeight"),
    require("x[-1] > 0", "gateUpWeight[0] > 0", "gateUpWeight[1] > 0", "downWeight[0] > 0", "downWeight[1] > 0"),
    require("gateUpWeight[0] == x[-1]", "gateUpWeight[1] % 2 == 0", "downWeight[0] == gateUpWeight[1] // 2"),
    output_shape(y="(*x[:-1], downWeight[1])"),
    one_of("cubeMathType", 0, 1),
)
