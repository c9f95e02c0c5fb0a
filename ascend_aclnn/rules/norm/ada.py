"""Rules of the adaptive layer norms: a layer norm whose scale and shift come with every sample."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

# x is (B..., S, H); scale and shift are (B..., 1, H) or (B..., H), weight and bias (H).
_MODULATION = (
    rank(2, 8, "x"),
    require("x.size > 0"),
    require(
        "scale in ((*x[:-2], 1, x[-1]), (*x[:-2], x[-1]))",
        "shift in ((*x[:-2], 1, x[-1]), (*x[:-2], x[-1]))",
    ),
)
_AFFINE = has_shape(weightOptional="x[-1:]", biasOptional="x[-1:]", smoothScalesOptional="x[-1:]")

rule(
    "aclnnAdaLayerNorm aclnnAdaLayerNormV2",
    dtypes(FLOATS, "x"),
    same_dtype("x", "scale", "shift", "out", "meanOutOptional", "rstdOutOptional"),
    on_operators("aclnnAdaLayerNorm", same_dtype("x", "weightOptional", "biasOptional")),
    dtype_table("x weightOptional biasOptional", "T T T", "T FLOAT FLOAT", T=FLOATS),
    *_MODULATION,
    _AFFINE,
    output_shape(out="x", meanOutOptional="(*x[:-1], 1)", rstdOutOptional="(*x[:-1], 1)"),
)
rule(
    "aclnnAdaLayerNormQuant",
    dtypes(HALVES, "x"),
    same_dtype("x", "scale", "shift", "weightOptional", "biasOptional", "smoothScalesOptional"),
    dtypes({"950": f"INT8 {FLOAT8S}", "": "INT8"}, "out"),
    dtypes("FLOAT", "quantScale"),
    absent("quantOffsetOptional"),
    *_MODULATION,
    _AFFINE,
    output_shape(out="x", quantScale="x[:-1]"),
    one_of("quantMode", "dynamic"),
    infer_shape(quantOffsetOptional="None"),
    output_dtype(out="INT8"),
    nullable="quantMode",
)

_GRADS = ("gradInputOut", "gradScaleOut", "gradShiftOut", "gradWeightOut", "gradBiasOut")
_AFFINE_DTYPE = "weightOptional if weightOptional is not None else biasOptional if biasOptional is not None else x"
rule(
    "aclnnAdaLayerNormBackward",
    dtypes(FLOATS, "gradOut"),
    same_dtype("gradOut", "x", "rstd", "mean", "scale", "shift"),
    # Those of weight and bias are FLOAT, or as x.
    dtype_table("x weightOptional biasOptional gradWeightOut", "T T T T", "T FLOAT FLOAT FLOAT", T=FLOATS),
    dtype_table("x weightOptional biasOptional gradBiasOut", "T T T T", "T FLOAT FLOAT FLOAT", T=FLOATS),
    same_dtype("x", "gradInputOut", "gradScaleOut", "gradShiftOut"),
    max_rank(8, "gradOut", "x", "mean", "rstd", "scale", "shift", *_GRADS),
    same_shape("x", "gradOut"),
    same_shape("rstd", "mean"),
    array_length("normalizedShape", 1),
    rank(2, 8, "x"),
    require("normalizedShape[0] == x[-1]"),
    has_shape(weightOptional="x[-1:]", biasOptional="x[-1:]"),
    *_MODULATION,
    has_shape(mean="(*x[:-1], 1)", gradInputOut="x", gradScaleOut="scale", gradShiftOut="shift"),
    require("gradWeightOut.size == x[-1]", "gradBiasOut.size == x[-1]"),
    infer_shape(
        gradInputOut="x", gradScaleOut="scale", gradShiftOut="shift", gradWeightOut="x[-1:]", gradBiasOut="x[-1:]"
    ),
    output_dtype(gradWeightOut=_AFFINE_DTYPE, gradBiasOut=_AFFINE_DTYPE),
    aliases={"x": "input"},
)
