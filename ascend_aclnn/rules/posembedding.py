"""Rules of ops-transformer/posembedding: rotary embeddings, alone and with norms, caches and quantising around them."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import *

# --------------------------------------------------------------------------------------------------- rotary embeddings


def _rotary(x: str, mode: str) -> Check:
    """cos and sin broadcast to x, their last axis is its; half and interleaved rotations need an even one."""

    def check(call: Call) -> None:
        one_of(mode, *((0, 1, 2, 3) if call.product == "950" else (0, 1)))(call)
        rank(3 if call.product == "950" else 4, 4, x)(call)
        same_shape("cos", "sin")(call)
        broadcastable("cos", x)(call)
        width = call.shape(x)[-1]
        call.require(
            call.shape("cos")[-1:] == (width,), "cos", f"has shape {call.shape('cos')}; its last axis must be {width}"
        )
        parts = 4 if call[mode] == 2 else 2
        call.require(width % parts == 0, x, f"has shape {call.shape(x)}; its last axis must be a multiple of {parts}")

    return check


# A matrix instead of the mode.
_ROTATION = (when("rotate is not None", require("product in ('A2', 'A3')", argument="rotate")),)


for _name, _more in (("aclnnRotaryPositionEmbedding", ()), ("aclnnRotaryPositionEmbeddingV2", (*_ROTATION,))):
    rule(
        _name,
        *_more,
        unless_empty(
            "out",
            documented_dtypes("x", "cos", "sin", "out"),
            same_dtype("x", "out"),
            tiling(_rotary("x", "mode"), output_shape(out="x")),
            *(tiling(has_shape(rotate="(x[-1], x[-1])")) for _ in _more),
        ),
    )


rule(
    "aclnnRotaryPositionEmbeddingGrad",
    documented_products,
    documented_dtypes(),
    tiling(_rotary("dy", "mode"), same_shape("dy", "xOptional"), output_shape(dxOut="dy")),
    infer_shape(dcosOut="cos", dsinOut="sin"),
    output_dtype(dcosOut=lambda call: call.dtype("cos"), dsinOut=lambda call: call.dtype("sin")),
)
rule(
    "aclnnInterleaveRope",
    documented_products,
    documented_dtypes(),
    tiling(
        same_shape("cos", "sin"),
        rank(4, 4, "x"),
        on_products(  # Ascend 950 computes it as RotaryPositionEmbedding does
            "A2 A3",
            rank(4, 4, "cos"),
            same_dtype("x", "cos", "sin"),
            not_empty("x"),
            require("x[3] == 64", "cos[0] == x[0]", "cos[1] == 1", "cos[2] in (1, x[2])", "cos[3] == 64"),
        ),
        output_shape(out="x"),
    ),
)


def _partial(x: str) -> Check:
    def check(call: Call) -> None:
        rank(4, 4, x)(call)
        same_shape("cos", "sin")(call)
        ends = call["partialSlice"]
        if ends is not None:
            array_length("partialSlice", 2)(call)
            width = call.shape("cos")[-1]
            fits = 0 <= ends[0] < ends[1] <= call.shape(x)[-1] and ends[1] - ends[0] == width
            call.require(fits, "partialSlice", f"is {ends}; it must cut {width} items from x's last axis")

    return check


rule("aclnnInplacePartialRotaryMul", documented_products, documented_dtypes(), tiling(_partial("xRef")))
rule("aclnnInplacePartialRotaryMulGrad", documented_products, documented_dtypes(), tiling(_partial("dyRef")))


_QUERY_AND_KEY = (
    rank(3, 4, "queryRef", "keyRef", "cos", "sin"),
    same_shape("cos", "sin"),
    one_of("layout", 1, 2, 3, 4),
    require("len(queryRef) == len(keyRef) and queryRef[-1] == keyRef[-1]", argument="keyRef"),
)


for _name, _modes in (
    ("aclnnApplyRotaryPosEmb", ()),
    ("aclnnApplyRotaryPosEmbV2", ("half", "interleave", "quarter", "interleave-half", "")),
):
    rule(
        _name,
        documented_products,
        documented_dtypes(),
        same_dtype("queryRef", "keyRef"),
        tiling(*_QUERY_AND_KEY, *(one_of("rotaryMode", *_modes) for _ in _modes[:1])),
    )

# --------------------------------------------------------------------------------------------------- by positions

_SECTIONS = ((16, 24, 24), (8, 12, 12), (24, 20, 20), (11, 11, 10), (16, 16, 16, 16))


# queries and keys (tokens, heads * width), the cache of cosines and sines (positions, rotated width).
_POSITIONS = (
    rank(2, 2, "queryIn", "keyIn", "cosSinCache"),
    not_empty("queryIn", "keyIn", "cosSinCache", "positions"),
    require("keyIn[0] == queryIn[0]"),
)


_SECTION = (
    when(
        "mropeSection is not None",
        array_length("mropeSection", 3, 4),
        require("min(mropeSection) >= 0"),
        when(
            "mropeSection[0] > 0",
            require("sum(mropeSection) * 2 == cosSinCache[1]", f"mropeSection in {_SECTIONS}"),
        ),
    ),
)


for _name, _modes_of_cache in (("aclnnRopeWithSinCosCache", ()), ("aclnnRopeWithSinCosCacheV2", (0, 1))):
    rule(
        _name,
        *(one_of("cacheMode", *_modes_of_cache) for _ in _modes_of_cache[:1]),
        when(
            lambda call: call.product in ("A2", "A3", "950"),
            dtypes("INT64", "positions"),
            dtypes("FLOAT16 BF16 FLOAT", "queryIn"),
        ),
        same_dtype("queryIn", "keyIn", "cosSinCache", "queryOut", "keyOut"),
        *_POSITIONS,
        output_shape(queryOut="queryIn", keyOut="keyIn"),
        *_SECTION,
        require("headSize != 0", "queryIn[-1] % headSize == 0", "keyIn[-1] % headSize == 0"),
        require("cosSinCache[-1] % 2 == 0", "cosSinCache[-1] <= headSize"),
        output_dtype(queryOut=lambda call: call.dtype("queryIn"), keyOut=lambda call: call.dtype("keyIn")),
    )

# --------------------------------------------------------------------------------------------------- into caches


def _split(call: Call) -> tuple[Shape, int, int]:
    """Leading axes, heads of keys, width of a head."""
    rank(2, 3, "x")(call)
    rank(4, 4, "kCacheRef")(call)
    return call.shape("x")[:-1], call.shape("kCacheRef")[2], call.shape("kCacheRef")[3]


def _queries(call: Call) -> Shape:
    lead, _heads, width = _split(call)
    sizes = call["sizeSplits"]
    call.require(len(sizes) == 3, "sizeSplits", f"is {sizes}; it must have 3 items")
    return (*lead, sizes[0] // width if width else 0, width)


def _keys(call: Call) -> Shape:
    lead, heads, width = _split(call)
    return (*lead, heads, width) if call["kvOutput"] else (0,)


def _dtype_of_cos(call: Call) -> DataType:
    return call.dtype("cos")


rule(
    "aclnnDequantRopeQuantKvcache",
    documented_products,
    documented_dtypes(),
    tiling(output_shape(qOut=_queries, kOut=_keys, vOut=_keys)),
    output_dtype(qOut=_dtype_of_cos, kOut=_dtype_of_cos, vOut=_dtype_of_cos),
)


def _own_values(call: Call) -> bool:
    """Whether keys and values come in tensors of their own."""
    return "vOptional" in call.operator.positions and call.is_present("vOptional")


def _key_rope(call: Call) -> Shape:
    rank(4, 4, "kv")(call)
    return call.shape("kv") if _own_values(call) else (*call.shape("kv")[:-1], call.size("cos", -1))


def _compressed(call: Call) -> Shape:
    rank(4, 4, "kv")(call)
    return call.shape("vOptional") if _own_values(call) else (*call.shape("kv")[:-1], call.size("gamma", -1))


def _widths(call: Call) -> None:
    """A joined kv is the latent, as wide as gamma, and the rotated part; with values of its own kv is as wide as gamma."""
    width = call.size("gamma", 0) + (0 if _own_values(call) else call.size("cos", -1))
    one = _own_values(call) or call.size("kv", 1) == 1
    call.require(one, "kv", f"has shape {call.shape('kv')}; without v it must have one head")
    call.require(call.size("kv", -1) == width, "kv", f"has shape {call.shape('kv')}; its last axis must be {width}")


for _name in ("aclnnKvRmsNormRopeCache", "aclnnKvRmsNormRopeCacheV2"):
    rule(
        _name,
        documented_products,
        documented_dtypes(),
        tiling(
            when(lambda call: bool(call["isOutputKv"]), output_shape(kRopeOut=_key_rope, cKvOut=_compressed)),
            one_of("cacheModeOptional", "Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ", ""),
            rank(4, 4, "kv", "cos", "sin", "kCacheRef", "ckvCacheRef", "vOptional"),
            rank(1, 1, "gamma"),
            same_shape("cos", "sin"),
            require("cos[-1] % 2 == 0", "cos[-1] <= kv[-1]", "cos[2] == kv[2]"),
            require("cos[0] == 1 or cos[0] == kv[0]", "cos[1] == 1 or cos[1] == kv[1]"),
            when("cacheModeOptional in (None, '', 'Norm')", require("index.size == kv[0] * kv[2]")),
            _widths,
        ),
        infer_shape(kRopeOut=_key_rope, cKvOut=_compressed),
    )


rule(
    "aclnnQkvRmsNormRopeCache",
    documented_products,
    documented_dtypes(),
    array_length("headNums", 3),
    define(width="qkv[-1] // max(sum(headNums), 1)"),
    tiling(
        require("len(qkv) == 2", "all(n > 0 for n in headNums)", "qkv[-1] == width * sum(headNums)", "width % 2 == 0"),
        has_shape(
            qGamma="(width,)", kGamma="(width,)", cos="(qkv[0], width)", sin="(qkv[0], width)", index="(qkv[0],)"
        ),
        has_shape(qOut="(qkv[0], headNums[0] * width)"),
        has_shape(kScaleOptional="(headNums[1], width)", vScaleOptional="(headNums[2], width)"),
        has_shape(kOffsetOptional="(headNums[1], width)", vOffsetOptional="(headNums[2], width)"),
        rank(4, 4, "kCache", "vCache"),
        require("kCache[1] * kCache[3] == headNums[1] * width", "vCache[1] * vCache[3] == headNums[2] * width"),
    ),
    infer_shape(
        qOutBeforeQuant=lambda call: None, kOutBeforeQuant=lambda call: None, vOutBeforeQuant=lambda call: None
    ),
)


# Queries are quantised for each token and head unless the mode says otherwise.
_PAGED = (
    one_of("qQuantMode", "PerTokenPerHead", "NoQuant", ""),
    one_of("layoutQkv", "TND", "NTD", ""),
    one_of("layoutQOut", "TND", "NTD", ""),
    array_length("headNums", 3),
)


def _tokens_and_width(call: Call) -> tuple[int, int, int]:
    heads = call["headNums"]
    array_length("headNums", 3)(call)
    rank(2, 3, "qkv")(call)
    sizes = call.shape("qkv")
    if len(sizes) == 2:
        return sizes[0], heads[0], sizes[1] // max(sum(heads), 1)
    tokens = sizes[1] if call["layoutQkv"] == "NTD" else sizes[0]
    return tokens, heads[0], sizes[2]


def _paged_queries(call: Call) -> Shape:
    tokens, heads, width = _tokens_and_width(call)
    return (heads, tokens, width) if call["layoutQOut"] == "NTD" else (tokens, heads, width)


rule(
    "aclnnQkvRmsNormRopeCacheWithKScale",
    *_PAGED,
    documented_dtypes(),
    documented_products,
    infer_shape(
        qOut=_paged_queries,
        qScaleOptional=lambda call: None if call["qQuantMode"] == "NoQuant" else _paged_queries(call)[:-1],
    ),
    output_dtype(
        qOut=lambda call: call.dtype("qkv") if call["qQuantMode"] == "NoQuant" else call.dtype("kCacheRef"),
        qScaleOptional="FLOAT",
    ),
    nullable="layoutQkv layoutQOut qQuantMode",
)


_PAIRS = (when("genQkvOptional is not None", required("genWeightsQOptional"), required("genWeightsKOptional")),)


_UND_GEN_QUERIES = "(undQkv[0] + (genQkvOptional[0] if genQkvOptional is not None else 0), numHeadsQ, undQkv[-1])"


rule(
    "aclnnUndGenQkvRmsNormRopeCache",
    *_PAIRS,
    contiguous("kCacheRef", "vCacheRef"),
    documented_dtypes(),
    documented_products,
    infer_shape(qOut=_UND_GEN_QUERIES),
)

# --------------------------------------------------------------------------------------------------- norm, rotate, join

_NORMED = ("query", "key", "value")
_ENCODED = ("encoderQuery", "encoderKey", "encoderValue")


def _joined(plain: str, encoder: str) -> Check:
    """(batch, sequence, heads, width), joined along the sequence, heads moved before it."""

    def made(call: Call) -> Shape:
        rank(4, 4, plain)(call)
        batch, tokens, heads, width = call.sizes(plain, 4)
        if call.is_present(encoder):
            tokens += call.size(encoder, 1)
        return batch, heads, tokens, width

    return output_shape(**{plain + "Output": made})


def _statistic(name: str, source: str, kind: str) -> Check:
    """Means and reciprocal deviations of each head, where the gradients of a layer norm need them."""

    def made(call: Call) -> Shape:
        wanted = call["isTraining"] and call[kind] in (1, 2)
        return (*call.shape(source)[:-1], 1) if wanted and call.is_present(source) else (0,)

    return infer_shape(**{f"{name}Mean": made, f"{name}Rstd": made})


_STATISTICS = {
    f"{name}{part}": "FLOAT"
    for name in ("normQuery", "normKey", "normAddedQuery", "normAddedKey")
    for part in ("Mean", "Rstd")
}
_FORWARD_OPTIONAL = (
    "encoderQuery encoderKey encoderValue normQueryWeight normQueryBias normKeyWeight normKeyBias normAddedQueryWeight "
    "normAddedQueryBias normAddedKeyWeight normAddedKeyBias ropeSin ropeCos"
)
_TABLES = require(
    "len(ropeCos) == 2",
    "ropeSin == ropeCos",
    "ropeCos[-1] == query[-1]",
    "ropeCos[-1] == key[-1]",
    "query[-1] % 2 == 0",
)
rule(
    "aclnnNormRopeConcat",
    documented_products,
    documented_dtypes(),
    tiling(*(_joined(plain, encoder) for plain, encoder in zip(_NORMED, _ENCODED))),
    tiling(
        rank(4, 4, *_NORMED, *_ENCODED),
        require("encoderQuery[2:] == query[2:]", "encoderKey[2:] == key[2:]", "encoderValue[2:] == value[2:]"),
        require("encoderQuery[0] == query[0]", "encoderKey[0] == key[0]", "encoderValue[0] == value[0]"),
        _TABLES,
        has_shape(normQueryWeight="(query[-1],)", normQueryBias="(query[-1],)", normKeyWeight="(key[-1],)"),
        has_shape(normKeyBias="(key[-1],)", normAddedQueryWeight="(query[-1],)", normAddedQueryBias="(query[-1],)"),
        has_shape(normAddedKeyWeight="(key[-1],)", normAddedKeyBias="(key[-1],)"),
    ),
    _statistic("normQuery", "query", "normType"),
    _statistic("normKey", "key", "normType"),
    _statistic("normAddedQuery", "encoderQuery", "normAddedType"),
    _statistic("normAddedKey", "encoderKey", "normAddedType"),
    output_dtype(**_STATISTICS),
    nullable=_FORWARD_OPTIONAL,
)


_PARTS = (("Query", "query"), ("Key", "key"), ("AddedQuery", "encoderQuery"), ("AddedKey", "encoderKey"))


def _one_dtype(call: Call) -> None:
    """Everything but the statistics has the dtype of the gradient; those are FLOAT."""
    dtypes("FLOAT FLOAT16 BF16", "gradQueryOutput")(call)
    names = [p.name for p in call.operator.parameters if "Tensor" in p.ctype]
    same_dtype("gradQueryOutput", *(n for n in names if n not in _STATISTICS))(call)
    dtypes("FLOAT", *_STATISTICS)(call)


def _value_gradient(call: Call) -> Shape:
    """As long as the key, which is joined with as many rows of the encoder."""
    rank(4, 4, "gradValueOutput", "key")(call)
    batch, heads, _tokens, width = call.sizes("gradValueOutput", 4)
    return batch, call.shape("key")[1], heads, width


def _encoder_value_gradient(call: Call) -> Shape:
    batch, heads, tokens, width = call.sizes("gradValueOutput", 4)
    return batch, tokens - call.size("key", 1), heads, width


rule(
    "aclnnNormRopeConcatBackward",
    _one_dtype,
    documented_products,
    tiling(
        rank(4, 4, "query", "key", "encoderQuery", "encoderKey", "gradQueryOutput", "gradKeyOutput", "gradValueOutput"),
        _TABLES,
        *(
            require(
                f"grad{name}Output[0] == {own}[0]",
                f"grad{name}Output[1] == {own}[2]",
                f"grad{name}Output[-1] == {own}[-1]",
                f"grad{name}Output[2] == {own}[1] + (0 if encoder{name} is None else encoder{name}[1])",
                f"encoder{name}[2:] == {own}[2:]",
                f"encoder{name}[0] == {own}[0]",
            )
            for name, own in (("Query", "query"), ("Key", "key"))
        ),
        require("gradValueOutput[2] >= key[1]"),
        *(
            has_shape(**{f"norm{part}Weight": f"({own}[-1],)", f"norm{part}Mean": f"(*{own}[:-1], 1)"})
            for part, own in _PARTS
        ),
        *(has_shape(**{f"norm{part}Rstd": f"(*{own}[:-1], 1)"}) for part, own in _PARTS),
    ),
    infer_shape(
        gradQuery="query",
        gradKey="key",
        gradValue=_value_gradient,
        gradEncoderQuery=lambda call: call.shape("encoderQuery") if call.is_present("encoderQuery") else None,
        gradEncoderKey=lambda call: call.shape("encoderKey") if call.is_present("encoderKey") else None,
        gradEncoderValue=lambda call: _encoder_value_gradient(call) if call.is_present("encoderKey") else None,
        **{
            f"gradNorm{part}{kind}": lambda call, weight=f"norm{part}Weight": (
                call.shape(weight) if call.is_present(weight) else None
            )
            for part in ("Query", "Key", "AddedQuery", "AddedKey")
            for kind in ("Weight", "Bias")
        },
    ),
)
