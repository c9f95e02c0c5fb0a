"""Rules of the layer norms, alone and fused with an addition or a quantisation."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.norm.rms import GAMMA_IS_TAIL, per_row

_LAYER_NORMS = "aclnnLayerNorm aclnnLayerNormWithImplMode"
_TENSORS = ("input", "weightOptional", "biasOptional", "out", "meanOutOptional", "rstdOutOptional")

rule(
    f"{_LAYER_NORMS} aclnnFastLayerNorm",
    dtypes(FLOATS, *_TENSORS),
    on_operators(_LAYER_NORMS, dtypes(FLOATS_OF_PRODUCT, *_TENSORS)),
    dtype_table("input weightOptional biasOptional", "T T T", "T FLOAT FLOAT", T=FLOATS),
    max_rank(8, *_TENSORS),
    require("1 <= len(normalizedShape) <= 8", "normalizedShape == input[len(input) - len(normalizedShape):]"),
    has_shape(weightOptional="normalizedShape", biasOptional="normalizedShape"),
    like(out="input"),
    # One number for every row, with 1 on the normalised axes.
    define(per_row="(*input[:len(input) - len(normalizedShape)], *(1 for n in normalizedShape))"),
    on_operators(
        _LAYER_NORMS,
        on_products(
            "950",
            when("meanOutOptional.size > 0", has_shape(meanOutOptional="per_row")),
            when("rstdOutOptional.size > 0", has_shape(rstdOutOptional="per_row")),
            same_shape("meanOutOptional", "rstdOutOptional"),
        ),
    ),
    # implMode: 0 high precision, 1 high performance, 2 as 1 and FLOAT16 is not widened.
    in_range("implMode", 0, 2),
    when("implMode == 2", dtypes("FLOAT16", "input", "weightOptional", "biasOptional")),
    infer_shape(meanOutOptional="per_row", rstdOutOptional="per_row"),
    output_dtype(meanOutOptional="FLOAT", rstdOutOptional="FLOAT"),
)

_GRADS = ("gradInputOut", "gradWeightOut", "gradBiasOut")
_AFFINE_DTYPE = "weightOptional if weightOptional is not None else input"
rule(
    "aclnnLayerNormBackward",
    array_length("outputMask", 3),
    dtypes(FLOATS, *_GRADS),  # of those left out too
    conditional_outputs(gradInputOut="outputMask[0]", gradWeightOut="outputMask[1]", gradBiasOut="outputMask[2]"),
    dtypes(FLOATS, "gradOut", "input", "mean", "rstd", "weightOptional", "biasOptional"),
    same_dtype("input", "gradOut"),
    dtype_table("input weightOptional", "T T", "T FLOAT", T=FLOATS),
    max_rank(8, "gradOut", "input", "mean", "rstd", *_GRADS),
    require("1 <= len(normalizedShape) <= 8", "len(normalizedShape) <= len(input)"),
    define(first="len(input) - len(normalizedShape)"),
    # CANN starts to compare at the first normalised axis, and so sees only some of the axes where few are normalised.
    require("input[2 * first:] == normalizedShape[first:]"),
    has_shape(weightOptional="normalizedShape", biasOptional="normalizedShape"),
    same_shape("input", "gradOut"),
    same_shape("rstd", "mean"),
    require("mean.size == prod(input[:first])"),
    has_shape(gradInputOut="input"),
    require("gradWeightOut.size == prod(input[first:])", "gradBiasOut.size == prod(input[first:])"),
    infer_shape(gradInputOut="input", gradWeightOut="normalizedShape", gradBiasOut="normalizedShape"),
    output_dtype(gradInputOut="input", gradWeightOut=_AFFINE_DTYPE, gradBiasOut=_AFFINE_DTYPE),
)
rule(
    "aclnnLayerNormQuant",
    when("quantMode == 0", required("zeroPointsOptional")),
    dtypes({"950": FLOATS, "310P": "FLOAT16", "": HALVES}, "x"),
    same_dtype("x", "gammma", "beta", "scale"),
    dtypes("INT8", "zeroPointsOptional", "res"),
    max_rank(8, "x"),
    max_rank(2, "gammma"),
    one_of("quantMode", 0),  # static
    require("gammma[-1] == x[-1]"),
    same_shape("gammma", "beta"),
    has_shape(scale="(1,)"),
    rank(1, "zeroPointsOptional"),
    tiling(unless_empty("x", has_shape(zeroPointsOptional="(1,)"))),
    output_shape(res="x"),
    infer_shape(scaleOut="x[:-1]"),
    output_dtype(scaleOut="FLOAT"),
    nullable="scaleOut",
)

# ------------------------------------------------------------------------------------------------- x1 + x2, then the norm

_SUM_DTYPE = "x1 if x1.dtype == x2.dtype else FLOAT"
rule(
    "aclnnAddLayerNorm",
    only_products("A2 A3 310P 950"),
    dtype_table(
        "x1 x2 gamma beta biasOptional yOut meanOut rstdOut xOut",
        "FLOAT H FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT",
        "H FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT",
        "H H FLOAT FLOAT H H FLOAT FLOAT H",
        "T T T T T T FLOAT FLOAT T",
        H={PRODUCTS_WITH_BF16: HALVES},
        T=FLOATS_OF_PRODUCT,
    ),
    tiling(
        rank(1, 8, "x1", "x2", "gamma", "beta"),
        same_shape("x1", "x2"),
        same_shape("gamma", "beta"),
        require("gamma == x1[len(x1) - len(gamma):]"),
        require("biasOptional in (gamma, x1)"),  # which the document says
        output_shape(yOut="x1", meanOut=per_row("x1"), rstdOut=per_row("x1")),
    ),
    infer_shape(xOut="x1"),
    output_dtype(yOut=_SUM_DTYPE, xOut=_SUM_DTYPE),
)
rule(
    "aclnnAddLayerNormGrad",
    only_products("A2 A3 310P 950"),
    dtype_table(
        "dy x1 x2 rstd mean gamma dsumOptional dxOut dgammaOut dbetaOut",
        "T T T FLOAT FLOAT T T T FLOAT FLOAT",
        T=FLOATS_OF_PRODUCT,
    ),
    tiling(
        rank(1, 8, "dy", "x1", "x2", "gamma"),
        same_shape("dy", "x1", "x2", "dsumOptional"),
        require("gamma == dy[len(dy) - len(gamma):]"),
        has_shape(mean=per_row("dy"), rstd=per_row("dy")),
        output_shape(dxOut="dy", dgammaOut="gamma", dbetaOut="gamma"),
    ),
)
rule(
    "aclnnDeepNorm",
    only_products("A2 A3 310P 950"),
    dtype_table("x gx beta gamma meanOut rstdOut yOut", "T T T T FLOAT FLOAT T", T=FLOATS_OF_PRODUCT),
    tiling(
        rank(2, 8, "x", "gx"),
        same_shape("x", "gx"),
        same_shape("gamma", "beta"),
        GAMMA_IS_TAIL,
        output_shape(meanOut=per_row("x"), rstdOut=per_row("x"), yOut="x"),
    ),
)
rule(
    "aclnnDeepNormGrad",
    only_products("A2 A3 310P 950"),
    dtype_table(
        "dy x gx gamma mean rstd dxOut dgxOut dbetaOut dgammaOut",
        "T T T T FLOAT FLOAT T T FLOAT FLOAT",
        T=FLOATS_OF_PRODUCT,
    ),
    tiling(
        rank(2, 8, "dy", "x", "gx"),
        same_shape("x", "dy", "gx"),
        GAMMA_IS_TAIL,
        has_shape(mean=per_row("x"), rstd=per_row("x")),
        output_shape(dxOut="x", dgxOut="gx", dbetaOut="gamma", dgammaOut="gamma"),
    ),
)

# ------------------------------------------------------------------------------------------------- and quantised

_SECOND = ("scales2Optional", "zeroPoints1Optional", "zeroPoints2Optional")

rule(
    "aclnnAddLayerNormQuant aclnnAddLayerNormQuantV2",
    on_operators("aclnnAddLayerNormQuant", only_products("950")),
    require("quantMode.startswith(('static', 'dynamic') if product == '950' else 'static')"),
    define(dynamic="quantMode.startswith('dynamic')"),
    when("dynamic", dtypes(HALVES, "x1"), same_dtype("x1", "scales1Optional")),
    dtypes(FLOATS, "x1", "scales1Optional"),
    same_dtype("x1", "x2", "gamma", "beta", "biasOptional", "xOut", "layernormRes"),
    dtypes("INT8", "y1Out", "y2Out"),
    dtypes("FLOAT", "outScales1Out", "outScales2Out"),
    same_dtype("scales1Optional", *_SECOND),
    max_rank(8, "x1", "gamma"),
    same_shape("gamma", "beta"),
    # One scale for every token.
    when("dynamic", require("len(x1) >= 2", "outScales1Out == x1[:-1]")),
    same_shape("x1", "x2", "xOut", "layernormRes", "y1Out"),
    when("scales2Optional is not None", same_shape("x1", "y2Out")),
    when("dynamic and scales2Optional is not None", same_shape("outScales1Out", "outScales2Out")),
    require("biasOptional in (gamma, x1)"),
    when("not dynamic", required("scales1Optional", status=PARAM_INVALID)),
    when("dynamic", absent("zeroPoints1Optional", why="with a dynamic quant_mode")),
    on_operators(
        "aclnnAddLayerNormQuant",
        require("gamma == x1[len(x1) - len(gamma):]"),
        when("dynamic", rank(1, "gamma")),
        same_shape("gamma", "scales1Optional", *_SECOND),
        # Each scale has its zero point, or none has; the second scale needs the first.
        when("scales2Optional is None or dynamic", absent("zeroPoints2Optional")),
        when("scales2Optional is not None", required("scales1Optional", status=PARAM_INVALID)),
        when("scales2Optional is not None", together("zeroPoints1Optional", "zeroPoints2Optional")),
    ),
    on_operators(
        "aclnnAddLayerNormQuantV2",
        when(
            "not dynamic",
            require("scales1Optional == gamma or (scales1Optional == (1,) and gamma == (1, *x1[-1:]))"),
        ),
        tiling(require("gamma[-1] == x1[-1]"), when("dynamic", same_shape("gamma", "scales1Optional"))),
        same_shape("scales1Optional", "zeroPoints1Optional"),
        same_shape("scales2Optional", "zeroPoints2Optional"),
        tiling(
            require("gamma in (x1[len(x1) - len(gamma):], (1, *x1[-1:]))"),
            when("dynamic", require("scales1Optional.size == gamma.size", "scales2Optional.size == gamma.size")),
        ),
    ),
    # An output that is not computed has one element, as a placeholder.
    infer_shape(
        y1Out="x1",
        y2Out="x1 if scales2Optional is not None else (1,)",
        xOut="x1",
        layernormRes="x1",
        outScales1Out="x1[:-1] if dynamic else (1,)",
        outScales2Out="x1[:-1] if dynamic and scales2Optional is not None else (1,)",
    ),
)
