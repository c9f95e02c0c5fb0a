"""Rules of rotary embeddings."""

from __future__ import annotations

from ascend_aclnn.rules.language import *


def _rotary(x: str) -> Check:
    """cos and sin broadcast to x, their last axis is its; half and interleaved rotations need an even one."""
    return tiling(
        on_products("950", one_of("mode", 0, 1, 2, 3), rank(3, 4, x)),
        when("product != '950'", one_of("mode", 0, 1), rank(4, x)),
        same_shape("cos", "sin"),
        broadcastable("cos", x),
        require(f"cos[-1] == {x}[-1]", f"{x}[-1] % (4 if mode == 2 else 2) == 0"),
    )


rule(
    "aclnnRotaryPositionEmbedding aclnnRotaryPositionEmbeddingV2",
    # A matrix instead of the mode.
    when("rotate is not None", require("product in ('A2', 'A3')", argument="rotate")),
    unless_empty(
        "out",
        documented_dtypes("x", "cos", "sin", "out"),
        same_dtype("x", "out"),
        _rotary("x"),
        tiling(output_shape(out="x"), has_shape(rotate="(x[-1], x[-1])")),
    ),
)
rule(
    "aclnnRotaryPositionEmbeddingGrad",
    documented_products,
    documented_dtypes(),
    _rotary("dy"),
    tiling(same_shape("dy", "xOptional"), output_shape(dxOut="dy")),
    infer_shape(dcosOut="cos", dsinOut="sin"),
    output_dtype(dcosOut="cos", dsinOut="sin"),
)
rule(
    "aclnnInterleaveRope",
    documented_products,
    documented_dtypes(),
    tiling(
        same_shape("cos", "sin"),
        rank(4, "x"),
        on_products(  # Ascend 950 computes it as RotaryPositionEmbedding does
            "A2 A3",
            rank(4, "cos"),
            same_dtype("x", "cos", "sin"),
            not_empty("x"),
            require("x[3] == 64", "cos[0] == x[0]", "cos[1] == 1", "cos[2] in (1, x[2])", "cos[3] == 64"),
        ),
        broadcastable("cos", "x"),
        require("cos[-1] == x[-1]", "x[-1] % 2 == 0"),
        output_shape(out="x"),
    ),
)
# One table of cosines, or one for each batch, head or token.
_TABLE_FITS = require(*(f"cos[{axis}] in (1, x[{axis}])" for axis in range(3)))
rule(
    "aclnnInplacePartialRotaryMul aclnnInplacePartialRotaryMulGrad",
    documented_products,
    documented_dtypes(),
    tiling(
        rank(4, "x"),
        same_shape("cos", "sin"),
        array_length("partialSlice", 2),
        require(
            "0 <= partialSlice[0] < partialSlice[1]",
            "partialSlice[1] <= x[-1]",
            "partialSlice[1] - partialSlice[0] == cos[-1]",
            argument="partialSlice",
        ),
        rank(4, "cos"),
        on_operators("aclnnInplacePartialRotaryMul", _TABLE_FITS),
        on_operators("aclnnInplacePartialRotaryMulGrad", unless_empty("x cos sin", _TABLE_FITS)),
    ),
    aliases={"x": "xRef dyRef"},
)
rule(
    "aclnnApplyRotaryPosEmb aclnnApplyRotaryPosEmbV2",
    documented_products,
    documented_dtypes(),
    same_dtype("queryRef", "keyRef"),
    tiling(
        rank(3, 4, "queryRef", "keyRef", "cos", "sin"),
        same_shape("cos", "sin"),
        one_of("layout", 1, 2, 3, 4),
        define(heads="{1: 2, 2: 2, 3: 1, 4: 1}[layout]", tokens="{1: 1, 2: 0, 3: 2, 4: 0}[layout]"),
        require("len(queryRef) == (3 if layout == 4 else 4)", "len(cos) == len(queryRef)"),
        require("len(keyRef) == len(queryRef)", "keyRef[-1] == queryRef[-1]"),
        # Heads apart, keys are as queries; one table serves all heads, and on Ascend 950 all batches.
        require("keyRef[:heads] == queryRef[:heads]", "keyRef[tokens] == queryRef[tokens]"),
        require("cos[heads] == 1", "cos[tokens] == queryRef[tokens]", "cos[-1] <= queryRef[-1]"),
        when("layout != 4", define(batch="1 if layout == 2 else 0"), require("cos[batch] in (1, queryRef[batch])")),
        one_of("rotaryMode", "half", "interleave", "quarter", "interleave-half", ""),
        require("cos[-1] % (4 if rotaryMode is not None and rotaryMode == 'quarter' else 2) == 0"),
    ),
)

_GRADIENTS = ("gradQueryEmbed", "gradKeyEmbed")
rule(
    "aclnnApplyRotaryPosEmbGrad",
    documented_products,
    documented_dtypes(),
    same_dtype(*_GRADIENTS, "cos", "sin", "queryOptional", "keyOptional"),
    together("queryOptional", "keyOptional"),
    one_of("rotaryModeOptional", "half"),
    one_of("layout", 1, 2, 4),
    rank(3, 4, *_GRADIENTS),
    require("len(gradQueryEmbed) == (3 if layout == 4 else 4)"),
    require("len(gradKeyEmbed) == len(gradQueryEmbed)", word="rank"),
    require("gradKeyEmbed[:-2] == gradQueryEmbed[:-2]", "gradKeyEmbed[-1] == gradQueryEmbed[-1]"),
    require("gradQueryEmbed[-1] % 2 == 0", "gradQueryEmbed[-1] <= 1024"),
    not_empty(*_GRADIENTS, "cos", "sin"),
    same_shape("cos", "sin"),
    define(tokens="{1: 1, 2: 0, 4: 0}[layout]", batch="{1: 0, 2: 1, 4: 0}[layout]"),
    require("len(cos) == len(gradQueryEmbed)", "cos[-2] == 1", "cos[-1] == gradQueryEmbed[-1]"),
    require("cos[tokens] == gradQueryEmbed[tokens]"),
    when("layout != 4", require("cos[batch] in (1, gradQueryEmbed[batch])")),
    has_shape(queryOptional="gradQueryEmbed", keyOptional="gradKeyEmbed"),
    output_shape(
        gradQueryOut="gradQueryEmbed",
        gradKeyOut="gradKeyEmbed",
        gradCosOut="None if queryOptional is None else cos",
        gradSinOut="None if queryOptional is None else cos",
    ),
    output_dtype(gradQueryOut="cos", gradKeyOut="cos", gradCosOut="cos", gradSinOut="cos"),
)

# --------------------------------------------------------------------------------------------------- by positions

_SECTIONS = ((16, 24, 24), (8, 12, 12), (24, 20, 20), (11, 11, 10), (16, 16, 16, 16))

# queries and keys (tokens, heads * width), the cache of cosines and sines (positions, rotated width).
rule(
    "aclnnRopeWithSinCosCache aclnnRopeWithSinCosCacheV2",
    one_of("cacheMode", 0, 1),
    on_products(PRODUCTS_WITH_BF16, dtypes("INT64", "positions"), dtypes(FLOATS, "queryIn")),
    same_dtype("queryIn", "keyIn", "cosSinCache", "queryOut", "keyOut"),
    rank(2, "queryIn", "keyIn", "cosSinCache"),
    not_empty("queryIn", "keyIn", "cosSinCache", "positions"),
    require("keyIn[0] == queryIn[0]"),
    rank(1, 2, "positions"),
    output_shape(queryOut="queryIn", keyOut="keyIn"),
    array_length("mropeSection", 3, 4),
    not_negative("mropeSection"),
    when("mropeSection[0] > 0", require("sum(mropeSection) * 2 == cosSinCache[1]", f"mropeSection in {_SECTIONS}")),
    require("headSize != 0", "queryIn[-1] % headSize == 0", "keyIn[-1] % headSize == 0"),
    require("cosSinCache[-1] % 2 == 0", "cosSinCache[-1] <= headSize"),
    # A position for each token; with sections for text, height, width (and time), a row of them for each.
    tiling(
        require("positions[-1] == queryIn[0]"),
        when(
            "mropeSection is not None and len(mropeSection) and sum(mropeSection) > 0",
            has_shape(positions="(len(mropeSection), queryIn[0])"),
        ),
    ),
)
