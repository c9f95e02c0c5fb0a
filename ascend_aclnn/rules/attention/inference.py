"""Rules of attention for inference: prompts, single tokens, both (FusedInfer), and the preparation of latent heads (Mla)."""

from __future__ import annotations

import math
from typing import Optional

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.attention.layouts import named
from ascend_aclnn.rules.language import *


def _runs_on(products: str) -> Check:
    """Elsewhere the operator's kernel is missing."""

    def check(call: Call) -> None:
        there = call.product in products.split()
        call.require(there, None, f"the operator is not supported on {call.soc.name}", RUNTIME_ERROR)

    return check


def _key_heads(call: Call) -> int:
    """0 key heads mean as many as there are of the query."""
    heads: int = call["numKeyValueHeads"] or call["numHeads"]
    return heads


def _query_sizes(call: Call, layout: str) -> dict[str, int]:
    """The query's sizes by letter, N and D always among them."""
    q = named(call, "query", layout)
    if "H" in q:
        q["N"] = call["numHeads"]
        q["D"] = q["H"] // q["N"] if q["N"] else 0
    return q


def _arranged(layout: str, q: dict[str, int], width: int) -> Shape:
    """A result in a layout; heads without width are as wide as the query's."""
    width = width if width and q["D"] else q["D"]
    sizes = {**q, "D": width, "H": q["N"] * width}
    return tuple(sizes[letter] for letter in layout)


# --------------------------------------------------------------------------------------------------- prompts

_PROMPT_LAYOUTS = ("SH", "BSH", "NSD", "BNSD", "BSND", "BNSD_BSND", "TND", "NTD")


def _prompt_dtypes(call: Call) -> None:
    query, out = call.dtype("query"), call.dtype("attentionOut")
    same_dtype("query", "key", "value")(call)
    dtypes("FLOAT16 BF16 INT8", "query")(call)
    if call.operator.name != "aclnnPromptFlashAttention":  # the first version does not pass it on
        dtypes("BF16" if query is DataType.BF16 else "FLOAT16", "pseShift")(call)
    quantised = (query, out) in (
        (DataType.INT8, DataType.FLOAT16),
        (DataType.FLOAT16, DataType.INT8),
        (DataType.BF16, DataType.INT8),
    )
    text = f"has dtype {out.name}; it does not go with {query.name} of query"
    call.require(query is out or quantised, "attentionOut", text)
    dtypes("INT8 UINT8 BOOL" if query is DataType.INT8 else "FLOAT16 INT8 UINT8 BOOL", "attenMask")(call)


def _prompt_widths(call: Call) -> tuple[dict[str, int], int, str]:
    """The query's sizes, how wide the heads of the values are, and the layout of the result."""
    both = call["inputLayout"]
    call.require(both in _PROMPT_LAYOUTS, "inputLayout", f"is {both!r}; it must be one of {', '.join(_PROMPT_LAYOUTS)}")
    layout, _, out = both.partition("_")
    q, v = _query_sizes(call, layout), named(call, "value", layout)
    named(call, "key", layout)
    heads = _key_heads(call)
    width = v["D"] if "D" in v else v["H"] // heads if heads else 0
    return q, width, out or layout


def _prompt_sizes(call: Call) -> None:
    heads = call["numHeads"]
    call.require(heads > 0, "numHeads", f"is {heads}; it must be positive")
    q, width, _ = _prompt_widths(call)
    wide = max(q["D"], width)
    call.require(wide <= 512, "query", f"and value have heads {wide} wide; they must be at most 512")
    narrow = q["D"] > width and call.dtype("attentionOut") is DataType.INT8
    call.require(not narrow, "attentionOut", "has dtype INT8; it must not where values are narrower than keys")
    if q["D"] % (32 if DataType.INT8 in (call.dtype("query"), call.dtype("attentionOut")) else 16) or q["D"] > width:
        no_private_format("query", "key", "value", "attentionOut")(call)


def _prompt_result(call: Call) -> Shape:
    q, width, out = _prompt_widths(call)
    return _arranged(out, q, width)


def _unless_nothing(*checks: Check) -> Check:
    """An empty result is success at once."""

    def check(call: Call) -> None:
        if not call.is_empty("attentionOut"):
            for word in checks:
                word(call)

    return check


def _result_dtype(call: Call) -> DataType:
    """A scale for the result makes it INT8; else it is as the query, or as the rotated part beside an 8-bit query."""
    for scale in ("quantScale2", "quantScale2Optional"):
        if scale in call.operator.positions and call.is_present(scale):
            return DataType.INT8
    query = call.dtype("query")
    if query.name in ("FLOAT16", "BF16", "FLOAT"):
        return query
    rope = "queryRopeOptional"
    given = rope in call.operator.positions and call.is_present(rope)
    return call.dtype(rope) if given else DataType.FLOAT16


rule(
    "aclnnPromptFlashAttention aclnnPromptFlashAttentionV2 aclnnPromptFlashAttentionV3",
    _unless_nothing(
        _runs_on("A2 A3 310P"),
        _prompt_dtypes,
        _prompt_sizes,
        output_shape(attentionOut=_prompt_result),
    ),
    infer_shape(attentionOut=_prompt_result),
    output_dtype(attentionOut=_result_dtype),
)


def _keys_fit(call: Call) -> None:
    """Queries divide into their heads; keys and values, unless they are paged, lie in the same layout."""
    layout = (call["inputLayout"] or "BSH").partition("_")[0]
    heads, key_heads = call["numHeads"], _key_heads(call)
    q = named(call, "query", layout)
    call.require(
        q.get("H", 0) % heads == 0,
        "query",
        f"has shape {call.shape('query')}; its last axis must be a multiple of {heads}",
    )
    if call.get("blockTable") is not None or call.get("blockTableOptional") is not None:
        for name in ("key", "value"):
            for tensor in call.tensors(name):
                fits = 3 <= len(tensor.shape) <= 5
                call.require(fits, name, f"has shape {tensor.shape}; the rank of a paged cache must be between 3 and 5")
                fits = len(tensor.shape) > 3 or tensor.shape[-1] * 8 % max(key_heads, 1) == 0
                call.require(fits, name, f"has shape {tensor.shape}; its last axis must be a multiple of {key_heads}")
        return
    for name in ("key", "value"):
        for tensor in call.tensors(name):
            fits = len(tensor.shape) == len(layout)
            call.require(fits, name, f"has shape {tensor.shape}; in layout {layout} its rank must be {len(layout)}")
            width = tensor.shape[-1] * (8 if tensor.dtype is DataType.INT32 else 1)
            fits = "H" not in layout or width % max(key_heads, 1) == 0
            call.require(fits, name, f"has shape {tensor.shape}; its last axis must be a multiple of {key_heads}")


# --------------------------------------------------------------------------------------------------- single tokens

_TOKEN_RANKS = {"SH": 2, "BSH": 3, "NSD": 3, "BNSD": 4, "BSND": 4}


def _token_layout(call: Call) -> None:
    layout = call["inputLayout"]
    call.require(layout in _TOKEN_RANKS, "inputLayout", f"is {layout!r}; it must be one of {', '.join(_TOKEN_RANKS)}")
    named(call, "query", layout)
    heads = call["numHeads"]
    call.require(heads > 0, "numHeads", f"is {heads}; it must be positive")
    keys = call["numKeyValueHeads"]
    fits = keys >= 0 and (keys == 0 or heads % keys == 0)
    call.require(fits, "numKeyValueHeads", f"is {keys}; it must divide the {heads} heads of query")


rule(
    "aclnnIncreFlashAttention aclnnIncreFlashAttentionV2 aclnnIncreFlashAttentionV3 aclnnIncreFlashAttentionV4",
    _runs_on("A2 A3 310P"),
    dtypes("FLOAT16 BF16", "query"),
    dtypes("FLOAT16 BF16 INT8", "key", "value", "attentionOut"),
    tiling(_token_layout, _keys_fit, output_shape(attentionOut=shape_of("query"))),
    output_dtype(attentionOut=_result_dtype),
    nullable="attenMask actualSeqLengths",
)

# --------------------------------------------------------------------------------------------------- both

_FUSED_LAYOUTS = {
    layout: (layout.partition("_")[0], layout.partition("_")[2] or layout)
    for layout in (
        *("BSH", "BSND", "BNSD", "TND", "NTD", "NSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "NTD_TND", "BSH_NBSD"),
        *("BSND_NBSD", "BNSD_NBSD", "TND_NTD"),
    )
}


def _fused_layouts(call: Call) -> tuple[str, str]:
    layout = call["inputLayout"] or "BSH"
    known = ", ".join(_FUSED_LAYOUTS)
    call.require(layout in _FUSED_LAYOUTS, "inputLayout", f"is {layout!r}; it must be one of {known}")
    return _FUSED_LAYOUTS[layout]


def _value_width(call: Call, layout: str) -> int:
    """Of the first tensor of values: paged (with a block table) or in the query's layout; INT32 packs eight numbers."""
    values, heads = call.tensors("value"), _key_heads(call)
    call.require(bool(values), "value", "is empty; one tensor at least is needed")
    sizes = values[0].shape
    packed = 8 if values[0].dtype is DataType.INT32 else 1
    table = next(n for n in ("blockTable", "blockTableOptional") if n in call.operator.positions)
    if call.is_present(table):
        fits = len(sizes) in (3, 4, 5)
        call.require(fits, "value", f"has shape {sizes}; the rank of a paged cache must be between 3 and 5")
        layout = {3: "BSH", 4: "BNSD", 5: "BNDSC"}[len(sizes)]
    call.require(len(sizes) == len(layout), "value", f"has shape {sizes}; its rank must be {len(layout)}")
    v = dict(zip(layout, sizes))
    width = v["H"] // heads if "H" in v and heads else v.get("D", 0) * v.get("C", 1)
    return width * packed


def _fused_result(call: Call) -> Shape:
    layout, out = _fused_layouts(call)
    return _arranged(out, _query_sizes(call, layout), _value_width(call, layout))


def _fused_lse(call: Call) -> Optional[Shape]:
    if not call["softmaxLseFlag"]:
        return None
    layout, _ = _fused_layouts(call)
    q = _query_sizes(call, layout)
    return (q["T"], q["N"], 1) if "T" in q else (q.get("B", 1), q["N"], q["S"], 1)


def _fused_heads(call: Call) -> None:
    heads = call["numHeads"]
    call.require(heads > 0, "numHeads", f"is {heads}; it must be positive")
    keys, values = len(call.tensors("key")), len(call.tensors("value"))
    call.require(keys == values, "value", f"has {values} tensors; it must have {keys}, as key")


for _name in ("", "V2", "V3", "V4", "V5"):
    rule(
        "aclnnFusedInferAttentionScore" + _name,
        _unless_nothing(
            _runs_on("950" if _name == "V5" else "A2 A3"),
            documented_dtypes("query", "key", "value"),
            tiling(_fused_heads, _keys_fit, output_shape(attentionOut=_fused_result, softmaxLse=_fused_lse)),
        ),
        infer_shape(attentionOut=_fused_result, softmaxLse=_fused_lse),
        output_dtype(attentionOut=_result_dtype, softmaxLse="FLOAT"),
        nullable="softmaxLse",
        required="inputLayout",
    )


# Paged caches end as the others do; the fractal one in three axes.
_PAGED = {"PA_NZ": "PNDSC", "PA_ND": "PSND", "PA_BBND": "PSND", "PA_BNBD": "PNSD"}


def _layout(call: Call, name: str, *more: str) -> str:
    layout: str = (call[name] or "BSND").upper()
    allowed = ("BSND", "BNSD", "TND", "NTD", *more)
    call.require(layout in allowed, name, f"is {layout!r}; it must be one of {', '.join(allowed)}")
    return layout


def _unified(call: Call) -> tuple[dict[str, int], int]:
    q = named(call, "q", _layout(call, "layoutQ"))
    layout = _layout(call, "layoutKv", *_PAGED)
    v = named(call, "v", _PAGED.get(layout, layout))
    return q, v["D"] * v.get("C", 1)


def _unified_result(call: Call) -> Shape:
    q, width = _unified(call)
    sizes = {**q, "D": width}
    out = _layout(call, "layoutOut")
    fits = set(out) <= set(sizes)
    call.require(fits, "layoutOut", f"is {out!r}; it does not go with {_layout(call, 'layoutQ')!r} of query")
    return tuple(sizes[letter] for letter in out)


def _unified_lse(call: Call) -> Optional[Shape]:
    if not call["returnSoftmaxLse"]:
        return None
    q, _ = _unified(call)
    if "T" in q:
        return (q["T"], q["N"]) if call.operator.name == "aclnnFlashAttn" else (q["N"], q["T"])
    return q["B"], q["N"], q["S"]


for _name, _out in (("aclnnFlashAttn", "q"), ("aclnnQuantFlashAttn", "")):
    rule(
        _name,
        documented_products,
        *((same_dtype("q", "k", "v"),) if _out else ()),
        tiling(
            output_shape(attnOut=_unified_result),
            rank(1, 1, "cuSeqlensQOptional", "cuSeqlensKvOptional", "sequsedQOptional", "sequsedKvOptional"),
            rank(2, 2, "blockTableOptional"),
        ),
        infer_shape(softmaxLseOptional=_unified_lse),
        output_dtype(attnOut=dtype_of(_out) if _out else "BF16", softmaxLseOptional="FLOAT"),
    )

# --------------------------------------------------------------------------------------------------- latent heads


def _latent(name: str) -> ShapeRule:
    """The query, absorbed (weightUk's last axis) or its rotated part (the tables' last axis): tokens, heads, width.

    Without tables nothing is rotated, and the width is what weightDkvKr has beside the latent.
    """

    def made(call: Call) -> Shape:
        latent = call.size("weightUk", 2)
        if name != "ropeSin":
            width = latent
        elif call.is_present(name) and not call.is_empty(name):
            width = call.size(name, -1)
        else:
            sizes = call.shape("weightDkvKr")
            width = (sizes[0] * sizes[3] if len(sizes) == 4 else call.size("weightDkvKr", 1)) - latent
        return (*call.shape("tokenX")[:-1], call.size("weightUk", 0), width)

    return made


def _tokens(call: Call) -> int:
    return math.prod(call.shape("tokenX")[:-1])


def _nope_scale(call: Call) -> Optional[Shape]:
    """One factor for each head of each token, where everything is quantised, the cache by tensor."""
    if "weightQuantMode" in call.operator.positions:
        whole = call["weightQuantMode"] >= 2 and call["kvCacheQuantMode"] == 1
    else:
        whole = call.dtype("tokenX") is DataType.INT8 and call.dtype("kvCacheRef") is DataType.INT8
    return (_tokens(call), call.size("weightUk", 0), 1) if whole else None


def _latent_dtype(call: Call) -> DataType:
    """Quantised like the tokens where the whole computation is."""
    return call.dtype("tokenX") if _nope_scale(call) is not None else DataType.BF16


_MODES = {0: (0,), 1: (0, 2, 3), 2: (0, 1, 3), 3: (0, 1, 3), 4: (0, 1, 3), 5: (0, 1, 3)}


def _quant_modes(call: Call) -> None:
    weight, cache = call["weightQuantMode"], call["kvCacheQuantMode"]
    modes = _MODES if call.product == "950" else (0, 1, 2)
    fits = weight in modes
    call.require(fits, "weightQuantMode", f"is {weight}; it must be one of {', '.join(map(str, modes))}")
    allowed = ", ".join(map(str, _MODES[weight]))
    call.require(cache in _MODES[weight], "kvCacheQuantMode", f"is {cache}; it must be one of {allowed}")
    one_of("queryQuantMode", 0, 1)(call)


def _nope_given(call: Call) -> None:
    name, wanted = "dequantScaleQNopeOutOptional", _nope_scale(call) is not None
    text = "is required in these modes" if wanted else "must be None in these modes"
    call.require(call.is_present(name) is wanted, name, text)
    norm, scale = "queryNormOutOptional", "dequantScaleQNormOutOptional"
    wanted = call.is_present(norm) and call["weightQuantMode"] != 0
    text = "is required in these modes" if wanted else "must be None in these modes"
    call.require(call.is_present(scale) is wanted, scale, text)


def _rotated(call: Call) -> None:
    for name in ("ropeSin", "ropeCos"):
        there = call.is_present(name) and not call.is_empty(name)
        text = "is required with do_rope" if call["doRope"] else "must be None without do_rope"
        call.require(there is bool(call["doRope"]), name, text)


_QUERIES = infer_shape(queryOut=_latent("weightUk"), queryRopeOut=_latent("ropeSin"))
_QUERY_TYPES = output_dtype(queryOut=_latent_dtype, queryRopeOut="BF16", dequantScaleQNopeOutOptional="FLOAT")

# weightDq (model, latent of queries), weightUqQr (that, heads * both parts), weightDkvKr (model, latent and rotated part).
_WEIGHTS = tiling(
    require("len(tokenX) in (2, 3)", "len(weightUk) == 3", "len(weightDq) == 2", "len(weightUqQr) == 2"),
    require("len(weightDkvKr) == 2", "len(kvCacheRef) in (3, 4)", "len(krCacheRef) in (1, 3, 4)"),
    require("weightDq[0] == tokenX[-1]", "weightUqQr[0] == weightDq[1]", "weightDkvKr[0] == tokenX[-1]"),
    require("weightDkvKr[1] > weightUk[2]", "weightUk[0] > 0"),
    define(rotated="weightDkvKr[1] - weightUk[2]"),
    require("weightUqQr[1] == weightUk[0] * (weightUk[1] + rotated)"),
    has_shape(rmsnormGammaCq="(weightDq[1],)", rmsnormGammaCkv="(weightUk[2],)"),
    require("ropeSin.size == tokenX.size // tokenX[-1] * rotated", "ropeCos.size == ropeSin.size", "rotated % 2 == 0"),
)


rule(
    "aclnnMlaProlog",
    documented_products,
    documented_dtypes(),
    _WEIGHTS,
    _QUERIES,
    output_dtype(queryOut="BF16", queryRopeOut="BF16"),
)
for _name in ("aclnnMlaPrologV2", "aclnnMlaPrologV2WeightNz"):
    rule(
        _name,
        documented_products,
        documented_dtypes(),
        _WEIGHTS,
        _QUERIES,
        infer_shape(dequantScaleQNopeOutOptional=_nope_scale),
        _QUERY_TYPES,
    )


def _norm(call: Call) -> Optional[Shape]:
    """The normalised query, if its flag asks for it."""
    width = call.size("weightDq", 1)
    return (*call.shape("tokenX")[:-1], width) if call["queryNormFlag"] else None


def _norm_scale(call: Call) -> Optional[Shape]:
    mode = call["weightQuantMode"]
    if not call["queryNormFlag"] or mode == 0:
        return None
    return _tokens(call), call.size("weightDq", 1) // 32 if mode == 3 else 1


def _norm_dtype(call: Call) -> DataType:
    return DataType.BF16 if call["weightQuantMode"] == 0 else call.dtype("weightUqQr")


rule(
    "aclnnMlaPrologV3",
    _quant_modes,
    documented_products,
    documented_dtypes(),
    _WEIGHTS,
    _QUERIES,
    infer_shape(dequantScaleQNopeOut=_nope_scale, queryNormOut=_norm, dequantScaleQNormOut=_norm_scale),
    output_dtype(
        queryOut=_latent_dtype,
        queryRopeOut="BF16",
        dequantScaleQNopeOut="FLOAT",
        queryNormOut=_norm_dtype,
        dequantScaleQNormOut="FLOAT",
    ),
    nullable="dequantScaleQNopeOut queryNormOut dequantScaleQNormOut",
)
for _name in ("aclnnMlaPrologV3WeightNz", "aclnnMlaPrologV4WeightNz"):
    rule(
        _name,
        _quant_modes,
        *((_rotated,) if "V4" in _name else ()),
        _nope_given,
        documented_products,
        documented_dtypes(),
        _WEIGHTS,
        _QUERIES,
        # Whoever wants the normalised query gives a tensor for it: that is the flag.
        infer_shape(
            dequantScaleQNopeOutOptional=_nope_scale,
            queryNormOutOptional=lambda call: None,
            dequantScaleQNormOutOptional=lambda call: None,
        ),
        _QUERY_TYPES,
        nullable="ropeSin ropeCos" if "V4" in _name else "",
    )


def _both_tables(call: Call) -> None:
    both = call.is_present("cos") is call.is_present("sin")
    call.require(both, "cos", "and sin are given both, or neither", PARAM_NULLPTR)


def _heads_of(width: int, split_width: int) -> ShapeRule:
    """(tokens, heads, width): the latent and the rotated part in one tensor with cache mode 0, in two with the others."""

    def made(call: Call) -> Shape:
        if width == 0 and call["cacheMode"] == 0:
            return (0,)
        last = split_width if call["cacheMode"] else width
        return call.size("input", 0), call.size("wuk", 0), last

    return made


def _rope_cache(call: Call) -> Shape:
    return call.shape("kvCacheRope") if call["cacheMode"] else (0,)


for _name in ("aclnnMlaPreprocess", "aclnnMlaPreprocessV2"):
    rule(
        _name,
        _both_tables,
        documented_products,
        documented_dtypes(),
        tiling(
            require(
                "len(input) == 2", "len(wuk) == 3", "len(kvCache) == 4", "kvCacheRope is None or len(kvCacheRope) == 4"
            ),
            has_shape(gamma0="(input[1],)", beta0="(input[1],)", slotMapping="(input[0],)", gamma2="(wuk[2],)"),
            define(latent="gamma1[0]", both="wuk[2] + (kRopeDim or 64) + latent", heads="wuk[0]"),
            rank(1, 1, "gamma1", "beta1"),
            require("wdqkv.size == both * input[1]", "descale0.size == both", "wuq.size % (heads * latent) == 0"),
            require(
                "latent > 0", "heads > 0", "wuq.size // latent // heads > wuk[1]", "descale1.size == wuq.size // latent"
            ),
            require("cos.size >= input[0] * (kRopeDim or 64)", "sin.size == cos.size", "cacheMode in (0, 1, 2, 3)"),
            require("quantScale0.size > 0", "quantOffset0.size > 0", "quantScale1.size > 0", "quantOffset1.size > 0"),
        ),
        infer_shape(
            qOutOut=_heads_of(576, 512),
            kvCacheOutOut=shape_of("kvCache"),
            qRopeOutOut=_heads_of(0, 64),
            krCacheOutOut=_rope_cache,
            qDownOutOut=lambda call: (call.size("input", 0), 1536) if call["qDownOutFlag"] else (0,),
        ),
        output_dtype(qOutOut=dtype_of("kvCache"), kvCacheOutOut=dtype_of("kvCache")),
    )
