"""Weighted sums of the experts' rows, per token."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnMoeFinalizeRouting",
    dtype_table(
        "expandedX x1 x2Optional bias scales expandedRowIdx expandedExpertIdx out",
        "T T T T T INT32 INT32 T",
        T=FLOATS,
    ),
    documented_products,
    tiling(
        shape_patterns(
            x1="n h",
            scales="n k",
            expandedExpertIdx="n k",
            out="n h",
            x2Optional="n h",
            expandedX="r h",
            bias="e h",
            expandedRowIdx="n*k",
        ),
        require("bias[0] > 0", "scales[1] > 0", "r == n * k"),
    ),
)

# Beside the tokens: those of copied and of constant experts.
_LIKE_X = [
    "x1Optional",
    "x2Optional",
    "biasOptional",
    "xOptional",
    "a1Optional",
    "a2Optional",
    "vOptional",
]  # copied, constant experts
_LIKE_OUT = ("x1Optional", "x2Optional", "xOptional")
_MATRICES = (*_LIKE_X, "scalesOptional", "expertIdxOptional", "out")
_TYPES = {"310P": "FLOAT16 FLOAT", "": FLOATS}

rule(
    "aclnnMoeFinalizeRoutingV2 aclnnMoeFinalizeRoutingV3 aclnnMoeFinalizeRoutingV4",
    dtypes(_TYPES, "expandedX", *_LIKE_X, "scalesOptional", "out"),
    dtypes("INT32", "expandedRowIdx", "expertIdxOptional"),
    same_dtype("expandedX", *_LIKE_X, "out"),
    when("len(expandedX) == 3", formats("ND NCL", "expandedX")),
    when("len(expandedX) != 3", formats("ND", "expandedX")),
    formats("ND", *_LIKE_X, "scalesOptional", "expandedRowIdx", "expertIdxOptional", "out"),
    # In the padded modes every expert has its own block of rows.
    unless_empty("expandedX", require("len(expandedX) == (3 if dropPadMode in (1, 3) else 2)")),
    unless_empty("expandedRowIdx", rank(1, "expandedRowIdx")),
    *(unless_empty(name, rank(2, name)) for name in _MATRICES),
    documented_products,
    # A row of scales for each token; without them each token went to one expert (or, from version 4 on, to k).
    define(
        copies_of_token="scalesOptional[1] if scalesOptional is not None else k if k is not None and k > 0 else 1",
        tokens="expandedRowIdx[0] // copies_of_token if scalesOptional is None else scalesOptional[0]",
    ),
    tiling(
        one_of("dropPadMode", 0, 1, 2, 3),
        rank(2, "scalesOptional", "biasOptional"),
        require("scalesOptional[1] > 0"),
        require("expandedRowIdx[0] == tokens * copies_of_token"),
        output_shape(out="(tokens, expandedX[-1])"),
        has_shape(**dict.fromkeys(_LIKE_OUT, "(tokens, expandedX[-1])"), expertIdxOptional="(tokens, copies_of_token)"),
        when("x2Optional is not None", require("x1Optional is not None")),
        when(
            "biasOptional is not None",
            require("expertIdxOptional is not None", "biasOptional[1] == expandedX[-1]"),
            require("biasOptional[0] >= copies_of_token"),
            when("dropPadMode in (1, 3)", require("biasOptional[0] == expandedX[0]")),
            word="bias",
        ),
        has_shape(a2Optional="a1Optional", vOptional="a1Optional"),
        require("a1Optional[1] == expandedX[-1]"),
        when(
            "constantExpertRange is not None and a1Optional is not None",
            require(
                "len(constantExpertRange) == 2", "a1Optional[0] == constantExpertRange[1] - constantExpertRange[0]"
            ),
            word="constants",
        ),
        *(
            when(f"{name} is not None", require(f"len({name}) in (0, 2)"))
            for name in ("zeroExpertRange", "copyExpertRange")
        ),
    ),
)

_GRADIENT = (
    "gradY expandedRowIdx expandedXOptional scalesOptional expertIdxOptional biasOptional "
    "gradExpandedXOut gradScalesOut"
)
rule(
    "aclnnMoeFinalizeRoutingV2Grad",
    dtype_table(_GRADIENT, "T INT32 T T INT32 T T T", T=FLOATS, products="A2 A3"),
    dtype_table(_GRADIENT, "T INT32 T S INT32 T T S", T=FLOATS, S=FLOATS, products="950"),
    documented_products,
    define(
        rows="expandedRowIdx[0] if activeNum <= 0 else min(expandedRowIdx[0], activeNum)",
        padded="(expertNum, expertCapacity, gradY[-1])",
    ),
    tiling(
        one_of("dropPadMode", 0, 1),
        when("dropPadMode == 1", positive("expertNum", "expertCapacity")),
        rank(2, "gradY"),
        rank(1, "expandedRowIdx"),
        rank(2, "scalesOptional"),
        when("dropPadMode == 0", rank(2, "expandedXOptional")),
        when("scalesOptional is None", require("expandedRowIdx[0] == gradY[0]")),
        when(
            "scalesOptional is not None",
            require(
                "expandedXOptional is not None",
                "scalesOptional[0] == gradY[0]",
                "expandedXOptional[-1] == gradY[1]",
                "scalesOptional.size == expandedRowIdx[0]",
                "expandedXOptional.size > 0 or gradY.empty",
            ),
            when(
                "biasOptional is not None",
                require(
                    "expertIdxOptional is not None", "expertIdxOptional[0] == gradY[0]", "biasOptional[1] == gradY[1]"
                ),
                word="bias",
            ),
            word="scales",
        ),
        output_shape(gradExpandedXOut="padded if dropPadMode == 1 else (rows, gradY[-1])"),
        has_shape(gradScalesOut="scalesOptional"),
    ),
    infer_shape(gradScalesOut="(gradY[0], 1) if scalesOptional is None else scalesOptional"),
    output_dtype(
        gradExpandedXOut="gradY", gradScalesOut="gradY.dtype if scalesOptional is None else scalesOptional.dtype"
    ),
)
