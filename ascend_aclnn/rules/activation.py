"""Rules of ops-nn/activation."""

from __future__ import annotations

from ascend_aclnn.core.errors import RUNTIME_ERROR
from ascend_aclnn.rules.language import *

# Some operators shut BF16 out on two old products only, and so let it pass on 310B and 310.
_NOT_910_310P: DtypeSet = {"910 310P": FLOATS_WITHOUT_BF16, "": FLOATS}

# Not below 0, which NaN passes; the real part of a complex scalar counts.
_LAMBDA = require("not lambd.real < 0")

# ------------------------------------------------------------------------------------------------------ one input

in_both_forms(
    "Celu", *one_operand(_NOT_910_310P, result_dtype=dtype_of), takes_dtype("FLOAT", "alpha"), require("alpha != 0")
)
in_both_forms(
    "Elu",
    *one_operand(f"{FLOATS_AND_DOUBLE} BF16", result_dtype=dtype_of),
    takes_dtype("FLOAT", "alpha", "scale", "inputScale"),
)
in_both_forms("Erfinv", *one_operand(plus_bf16(f"{FLOATS_WITHOUT_BF16} BOOL {INTEGERS}"), result_dtype=floated))
rule("aclnnFastGelu", *one_operand({PRODUCTS_WITH_BF16: FLOATS, "": ""}), same_format("self", "out"))
rule("aclnnGelu", *one_operand(FLOATS_OF_PRODUCT), no_private_format("self", "out"))
rule("aclnnGeluV2", *one_operand(FLOATS_OF_PRODUCT, most_axes=None), aliases={"self": "x", "out": "y"})
rule("aclnnHardshrink", *one_operand(_NOT_910_310P, _NOT_910_310P))
in_both_forms("Hardsigmoid", *one_operand(plus_bf16(f"{FLOATS_WITHOUT_BF16} INT32")), same_format("self", "out"))
in_both_forms("Hardswish", *one_operand(FLOATS_OF_PRODUCT, FLOATS_OF_PRODUCT, most_axes=None))
in_both_forms("LeakyRelu", *one_operand(plus_bf16(FLOATS_AND_DOUBLE), result_dtype=dtype_of))
rule(
    "aclnnSilu aclnnLogSigmoid aclnnLogSigmoidForward",
    *one_operand(FLOATS_OF_PRODUCT, most_axes=None),
    # The buffer is for other devices: no kernel writes it, and the one of torch_npu is empty.
    infer_shape(buffer="self"),
    output_dtype(buffer="self"),
)
in_both_forms("Mish", *one_operand(FLOATS_OF_PRODUCT))
in_both_forms("Relu", *one_operand(plus_bf16(f"{FLOATS_WITHOUT_BF16} INT8 UINT8 INT32 INT64")))
_SELU = plus_bf16(f"{FLOATS_WITHOUT_BF16} INT32 INT8")
in_both_forms("Selu", *one_operand(_SELU, _SELU, allocated_dtype=dtype_of("self"), most_axes=None))
rule(
    "aclnnShrink",
    *one_operand(FLOATS_WITHOUT_BF16, FLOATS_WITHOUT_BF16, most_axes=None),
    _LAMBDA,
    same_format("self", "out"),
)
in_both_forms(
    "Sigmoid",
    *one_operand(
        plus_bf16(REAL_AND_COMPLEX),
        f"{FLOATS_AND_DOUBLE} {COMPLEX} BF16",
        inplace_dtypes=plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"),
    ),
)
rule("aclnnSoftshrink", *one_operand(FLOATS_OF_PRODUCT, FLOATS_OF_PRODUCT), _LAMBDA)
rule("aclnnSoftplus", *one_operand(FLOATS_OF_PRODUCT, result_dtype=dtype_of), takes_dtype("self", "beta", "threshold"))
rule("aclnnSwish", *one_operand(FLOATS_OF_PRODUCT), takes_dtype("FLOAT", "betaOptional"))
in_both_forms(
    "Threshold",
    dtypes(plus_bf16(f"{FLOATS_WITHOUT_BF16} INT8 UINT8 INT16 INT32 INT64"), "self"),
    on_products(PRODUCTS_BEFORE_950, castable("self", "out")),
    max_rank(8, "self"),
    like(out="self"),
)
in_both_forms(
    "RReluWithNoise",
    dtypes(FLOATS_OF_PRODUCT, "self", "noise", "out"),
    dtypes(f"{FLOATS} DOUBLE", "lower", "upper"),
    same_dtype("self", "noise", "out"),
    output_shape(out="self"),
    when("training", require("noise.size >= self.size")),
    max_rank(32, "self", "noise"),
    same_format("out", "self", "noise"),
)
in_both_forms(
    "AddRelu",
    dtypes(plus_bf16(f"{FLOATS_WITHOUT_BF16} {INTEGERS}"), "self", "other"),
    takes_dtype(promoted("self", "other"), "alpha"),
    castable(promoted("self", "other"), "out"),
    *pair("self", "other", out="out"),
    output_dtype(out=promoted("self", "other")),
)

# These three have no checks of their own in CANN, only what their registry lists.
rule(
    "aclnnHardSigmoid",
    only_products("950"),
    dtype_table("inputX out", "T T", T=f"{FLOATS} INT32"),
    tiling(output_shape(out="inputX")),
)
rule("aclnnHardSwish", only_products("950"), dtype_table("x out", "T T", T=FLOATS), tiling(output_shape(out="x")))
rule(
    "aclnnSquaredRelu",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table("input out", "T T", T=FLOATS),
    tiling(output_shape(out="input")),
)

rule(
    "aclnnHeaviside",
    dtypes(FLOATS, "input", "values", "out"),
    max_rank(8, "input", "values"),
    require("out.size == prod(broadcast(input, values))"),
    infer_shape(out="broadcast(input, values)"),
    output_dtype(out="input"),
)

_CHANNELS = define(channels="self[1] if len(self) > 1 else 1")
rule(
    "aclnnPrelu",
    _CHANNELS,
    dtypes(FLOATS_OF_PRODUCT, "self", "weight", "out"),
    castable(promoted("self", "weight"), "out"),
    max_rank(8, "self", "weight"),
    output_shape(out="self"),
    require("weight.size in (1, channels)"),
    output_dtype(out=promoted("self", "weight")),
)
rule(
    "aclnnPreluBackward",
    _CHANNELS,
    dtypes(FLOATS_OF_PRODUCT, "self"),
    same_dtype("self", "gradOutput", "weight", "gradInput", "gradWeight"),
    max_rank(8, "gradOutput", "self", "weight"),
    when("weight.size != 1", rank(1, 8, "self")),
    require("weight.size in (1, channels)"),
    output_shape(gradInput="self", gradWeight="weight if weight.size == 1 else (channels,)"),
    broadcastable("gradOutput", "self"),
)

# ------------------------------------------------------------------------------------------------------ gradients


def _backward(
    takes: DtypeSet,
    *extra: Check,
    first: str = "gradOutput",
    second: str = "self",
    out: str = "gradInput",
    most: int = 8,
) -> tuple[Check, ...]:
    """A gradient and what it belongs to: one data type, one shape."""
    return (
        dtypes(takes, first, second),
        same_dtype(first, second, out),
        max_rank(most, first, second),
        same_shape(first, second),
        output_shape(**{out: second}),
        *extra,
        output_dtype(**{out: second}),
    )


def _mixed_backward(
    takes: DtypeSet, *extra: Check, out: str = "gradInput", second: str = "self", first: str = "gradOutput"
) -> tuple[Check, ...]:
    """A gradient that broadcasts and promotes with what it belongs to."""
    common = promoted(first, second)
    return (
        dtypes(takes, first, second),
        castable(common, out),
        *extra,
        *pair(first, second, out=out),
        output_dtype(**{out: common}),
    )


_ANY_RANK = 99
_COMMON = promoted("gradOutput", "self")

rule(
    "aclnnEluBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput"),
    same_dtype("gradOutput", "selfOrResult"),
    takes_dtype("FLOAT", "alpha", "scale", "inputScale"),
    castable("gradOutput", "gradInput"),
    max_rank(8, "gradOutput"),
    same_shape("gradOutput", "selfOrResult"),
    like(gradInput="gradOutput"),
    when("isResult", require("not alpha < 0")),
)
rule(
    "aclnnFastGeluBackward",
    *_backward({PRODUCTS_WITH_BF16: FLOATS, "": ""}, same_format("self", "gradOutput", "gradInput")),
)
rule(
    "aclnnGeluBackward",
    dtype_in(_COMMON, FLOATS_OF_PRODUCT, "self"),
    *pair("gradOutput", "self", out="gradInput"),
    output_dtype(gradInput=_COMMON),
)
rule(
    "aclnnGeluBackwardV2",
    dtype_in(_COMMON, FLOATS_OF_PRODUCT, "self"),
    has_dtype("gradInput", _COMMON),
    output_shape(gradInput="broadcast(gradOutput, self)"),
    one_of("approximate", "none", "tanh"),
)
rule(
    "aclnnHardshrinkBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "gradInput"),
    max_rank(8, "gradOutput", "self", "gradInput"),
    castable(_COMMON, "gradInput"),
    unless_empty("gradOutput self", output_shape(gradInput="broadcast(gradOutput, self)")),
    output_dtype(gradInput=_COMMON),
)
rule(
    "aclnnHardsigmoidBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self"),
    castable(_COMMON, "out"),
    max_rank(8, "gradOutput", "self"),
    same_shape("self", "gradOutput"),
    output_shape(out="self"),
    output_dtype(out=_COMMON),
)
rule("aclnnHardswishBackward aclnnHardswishBackwardV2", *_backward(FLOATS_OF_PRODUCT, out="out"))
rule(
    "aclnnHardtanhBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "out"),
    same_dtype("self", "gradOutput"),
    max_rank(8, "gradOutput", "self"),
    same_shape("self", "gradOutput"),
    infer_shape(out="self"),
    output_dtype(out="self"),
)
rule(
    "aclnnLeakyReluBackward",
    dtypes(plus_bf16(f"{FLOATS_AND_DOUBLE} {INTEGERS} BOOL"), "negativeSlope"),
    when("selfIsResult", require("not negativeSlope < 0")),
    *_mixed_backward(plus_bf16(FLOATS_AND_DOUBLE), out="out"),
)
rule("aclnnLogSigmoidBackward", *_backward(FLOATS_OF_PRODUCT, most=_ANY_RANK))
rule(
    "aclnnMishBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "gradInput"),
    *pair("gradOutput", "self", out="gradInput"),
    output_dtype(gradInput=_COMMON),
)
rule("aclnnSeluBackward", *_backward(_SELU, second="result", most=_ANY_RANK))
rule(
    "aclnnSigmoidBackward",
    dtypes(plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"), "gradOutput"),
    dtypes(f"{FLOATS_AND_DOUBLE} {COMPLEX} BF16", "output", "gradInput"),
    *_mixed_backward(f"{FLOATS_AND_DOUBLE} {COMPLEX} BF16", second="output"),
)
rule(
    "aclnnSiluBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "gradInput"),
    define(mixed="product == '950' and gradOutput.dtype != self.dtype"),
    when("mixed", dtypes("FLOAT", "gradInput")),
    when("not mixed", same_dtype("self", "gradOutput", "gradInput")),
    max_rank(8, "gradOutput", "self"),
    on_products(PRODUCTS_BEFORE_950, same_shape("self", "gradOutput")),
    output_shape(gradInput="broadcast(gradOutput, self)"),
    output_dtype(gradInput=_COMMON),
)
rule(
    "aclnnSoftshrinkBackward",
    dtypes(_NOT_910_310P, "gradOutput", "self", "gradInput"),
    *pair("gradOutput", "self", out="gradInput"),
    _LAMBDA,
    output_dtype(gradInput=_COMMON),
    aliases={"lambd": "lambda"},
)
rule(
    "aclnnSoftplusBackward",
    dtypes(plus_bf16(FLOATS_AND_DOUBLE), "gradOutput", "gradInput"),
    dtypes(plus_bf16(f"{FLOATS_AND_DOUBLE} {INTEGERS} BOOL"), "self"),
    max_rank(8, "gradOutput", "self"),
    same_shape("self", "gradOutput"),
    output_shape(gradInput="self"),
    output_dtype(gradInput="gradOutput"),
    nullable="beta threshold",
)
rule("aclnnSwishBackward", *_backward(FLOATS_OF_PRODUCT, takes_dtype("FLOAT", "betaOptional")))

_THRESHOLD = plus_bf16(f"{FLOATS_WITHOUT_BF16} INT32 INT8 UINT8")
rule(
    "aclnnThresholdBackward",
    # CANN's comparison with zero, which picks the kernel of Ascend 950 that also has INT64.
    define(with_int64="product == '950' and abs(threshold) <= 2.0**-23"),
    when("with_int64", dtypes(f"{FLOATS} INT32 INT8 UINT8 INT64", "gradOutput", "self")),
    when("not with_int64", dtypes(_THRESHOLD, "gradOutput", "self")),
    same_dtype("self", "gradOutput", "out"),
    *pair("gradOutput", "self", out="out"),
)
rule(
    "aclnnBinaryCrossEntropyWithLogitsTargetBackward",
    max_rank(8, "gradOutput", "self", "target", "weightOptional", "posWeightOptional", "gradTarget"),
    dtypes(FLOATS, "gradOutput", "self", "target", "weightOptional", "posWeightOptional", "gradTarget"),
    same_dtype("target", "gradTarget"),
    same_format("self", "target", "gradTarget"),
    unless_empty(
        "self",
        same_shape("self", "target"),
        output_shape(gradTarget="self"),
        *(broadcastable(name, "self") for name in ("gradOutput", "weightOptional", "posWeightOptional")),
    ),
    one_of("reduction", 0, 1, 2),
)

# ------------------------------------------------------------------------------------------------------ softmax

_SOFTMAX = (
    dtypes(plus_bf16(FLOATS_AND_DOUBLE), "self", "out"),
    valid_axis("dim", "self"),
    max_rank(8, "self"),
    output_shape(out="self"),
)
rule("aclnnSoftmax", unless_empty("self", *_SOFTMAX), output_dtype(out="self"))
rule("aclnnLogSoftmax", *_SOFTMAX, output_dtype(out="self"))

_SOFTMAX_BACKWARD = (
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "output"),
    same_dtype("gradOutput", "output"),
    valid_axis("dim", "gradOutput"),
    max_rank(8, "gradOutput"),
    same_shape("gradOutput", "output"),
    output_shape(out="gradOutput"),
)
rule(
    "aclnnSoftmaxBackward aclnnLogSoftmaxBackward",
    on_products("950", *_SOFTMAX_BACKWARD),
    on_products(PRODUCTS_BEFORE_950, unless_empty("gradOutput output", *_SOFTMAX_BACKWARD)),
    output_dtype(out="gradOutput"),
)
rule(
    "aclnnSoftmaxCrossEntropyWithLogits",
    dtypes(FLOATS_OF_PRODUCT, "features", "labels", "loss", "backprop"),
    same_dtype("features", "loss", "backprop"),
    rank(2, "features", "labels"),
    max_rank(8, "loss", "backprop"),
    copied_output_shape(loss="broadcast(features, labels)[:1]", backprop="broadcast(features, labels)"),
)

# ------------------------------------------------------------------------------------------------------ gated units


def _halved(x: str, *names: str, axis: str = "dim") -> tuple[Check, ...]:
    """Tensors have half of x along an axis."""
    half = f"with_size({x}, {axis}, exact_div({x}[{axis}], 2))"
    axis_checks = () if axis == "-1" else (valid_axis(axis, x),)
    return (*axis_checks, require(f"{x}[{axis}] % 2 == 0"), output_shape(**dict.fromkeys(names, half)))


_GLU = (rank(1, 8, "x"), *_halved("x", "out"))
_GLU_GRAD = (rank(1, 8, "x"), *_halved("x", "gradY"), output_shape(gradXOut="x"))
_GRAD_ALIASES = {"x": "self", "gradY": "gradOut gradOutput yGrad", "gradXOut": "out gradInput"}

rule("aclnnGlu", dtypes(plus_bf16(FLOATS_AND_DOUBLE), "x", "out"), *_GLU, output_dtype(out="x"), aliases={"x": "self"})
rule(
    "aclnnGluBackward",
    dtypes(plus_bf16(FLOATS_AND_DOUBLE), "x"),
    same_dtype("x", "gradY", "gradXOut"),
    *_GLU_GRAD,
    aliases=_GRAD_ALIASES,
)
rule(
    "aclnnGeGlu aclnnGeGluV3",
    dtypes(FLOATS_OF_PRODUCT, "self", "out", "outGelu"),
    when("self.size > 0 and len(self) > 0", same_dtype("self", "out", "outGelu")),
    max_rank(8, "self", "out", "outGelu"),
    *_halved("self", "out", "outGelu"),
    one_of("approximate", 0, 1),
    output_dtype(out="self", outGelu="self"),
)
rule(
    "aclnnGeGluBackward aclnnGeGluV3Backward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput"),
    same_dtype("gradOutput", "self", "gelu", "gradInput"),
    same_shape("gradOutput", "gelu"),
    *_halved("self", "gradOutput"),
    output_shape(gradInput="self"),
    one_of("approximate", 0, 1),
)

rule(
    "aclnnSwiGlu aclnnSituGlu",
    on_operators("aclnnSwiGlu", only_products(f"{PRODUCTS_WITH_BF16} 310P")),
    on_operators("aclnnSituGlu", only_products(PRODUCTS_WITH_BF16)),
    dtype_table("x out", "T T", T=FLOATS_OF_PRODUCT),
    tiling(*_GLU),
)
rule(
    "aclnnSwiGluGrad aclnnSituGluGrad",
    on_operators("aclnnSwiGluGrad", only_products(f"{PRODUCTS_WITH_BF16} 310P")),
    on_operators("aclnnSituGluGrad", only_products(PRODUCTS_WITH_BF16)),
    dtype_table("gradY x gradXOut", "T T T", T=FLOATS_OF_PRODUCT),
    tiling(*_GLU_GRAD),
    aliases={"gradY": "yGrad", "gradXOut": "out"},
)

# Kernels that take rows of at most 1024 elements, and at most 200,000 of them.
_SHORT_ROWS = (rank(2, 8, "input"), require("0 < input[-1] <= 1024", "prod(input[:-1]) <= 200000"))
rule(
    "aclnnFatreluMul",
    only_products("A2 A3"),
    dtype_table("input threshold out", "T T T", T=FLOATS),
    tiling(*_SHORT_ROWS, require("threshold.size == 1"), *_halved("input", "out", axis="-1")),
)
rule(
    "aclnnGeluMul",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table("input out", "T T", T=FLOATS),
    tiling(one_of("approximateOptional", "none", "tanh"), *_SHORT_ROWS, *_halved("input", "out", axis="-1")),
)
rule(
    "aclnnClippedSwiglu aclnnClippedSwigluV2",
    on_operators("aclnnClippedSwiglu", only_products(PRODUCTS_WITH_BF16)),
    on_operators("aclnnClippedSwigluV2", only_products("950")),
    dtype_table("x out groupIndexOptional", "T T INT64", T=FLOATS),
    tiling(rank(1, "groupIndexOptional"), positive("limit"), one_of("clampMode", 0, 1), *_GLU),
)
rule(
    "aclnnClippedSwigluGrad",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table("gradY x gradXOut groupIndexOptional", "T T T INT64", T=FLOATS),
    tiling(rank(1, "groupIndexOptional"), positive("limit"), *_GLU_GRAD),
)

# Weights of the rows, and how many rows each group has; a clampLimit of -1 does not clamp.
_GROUP = (
    rank(1, 8, "x"),
    require("clampLimit == -1 or clampLimit > 0"),
    require("weightOptional.size == prod(x[:-1])"),
    require("len(groupIndexOptional) == 1", "groupIndexOptional[0] > 0"),
)
rule(
    "aclnnSwigluGroup",
    only_products("950"),
    dtype_table("x out", "T T", T=FLOATS),
    dtypes("FLOAT", "weightOptional"),
    dtypes("INT64", "groupIndexOptional"),
    tiling(*_GROUP, *_halved("x", "out", axis="-1")),
)
rule(
    "aclnnSwigluGroupQuant",
    only_products("950"),
    dtypes(FLOATS, "x"),
    dtypes("FLOAT", "weightOptional", "scaleOptional"),
    dtypes("INT64", "groupIndexOptional"),
    dtypes(f"{FLOAT8S} {FLOAT4S}", "yOut"),
    dtypes("FLOAT FLOAT8_E8M0", "yScaleOut"),
    same_dtype("x", "yOriginOut"),
    tiling(
        *_GROUP,
        # quantMode: 0 blocks of 128, 1 MX, 2 static, 3 a scale for each group.
        one_of("quantMode", 0, 1, 2, 3),
        when(
            "quantMode in (0, 1)",
            dtypes(HALVES, "x"),
            dtypes(f"FLOAT8_E4M3FN FLOAT8_E5M2 {FLOAT4S}", "yOut"),
            require("x[-1] >= 256", "x[-1] % 256 == 0", "not outputOrigin"),
        ),
        when("quantMode == 0", require("yOut.dtype not in FLOAT4S"), one_of("blockSize", 0, 128)),
        when("quantMode == 1", one_of("blockSize", 0, 32), one_of("roundScale", True)),
        *_halved("x", "yOut", axis="-1"),
        define(half="with_size(x, -1, exact_div(x[-1], 2))"),
        output_shape(
            yScaleOut="(*half[:-1], ceil_div(half[-1], 128)) if quantMode == 0"
            " else (*half[:-1], ceil_div(half[-1], 64), 2) if quantMode == 1"
            " else (0,) if quantMode == 2 else (1,) if groupIndexOptional is None else groupIndexOptional[:1]",
        ),
        infer_shape(yOriginOut="half"),
    ),
    output_dtype(yOut=dtype_attribute("dstType"), yScaleOut="FLOAT8_E8M0 if quantMode == 1 else FLOAT"),
    when("quantMode >= 2", output_dtype(yOut="HIFLOAT8")),
)
rule(
    "aclnnSwigluGroupQuantGrad",
    only_products("950"),
    dtypes(FLOATS, "gradY"),
    same_dtype("gradY", "x", "yOriginOptional", "gradXOut"),
    dtypes("FLOAT", "weightOptional", "gradWeightOutOptional"),
    dtypes("INT64", "groupIndexOptional"),
    tiling(
        *_GROUP,
        same_shape("gradY", "yOriginOptional"),
        *_halved("x", "gradY", axis="-1"),
        output_shape(gradXOut="x", gradWeightOutOptional="weightOptional"),
    ),
)

# ------------------------------------------------------------------------------------------------------ quantised

rule(
    "aclnnGeluQuant",
    with_status(RUNTIME_ERROR, only_products("950")),
    require("quantMode.startswith(('dynamic', 'static'))"),
    required("quantMode", "self", "approximate", "roundMode", "y"),
    define(dynamic="quantMode.startswith('dynamic')"),
    when("dynamic", required("outScaleOptional")),
    when("not dynamic", required("inputScaleOptional"), absent("outScaleOptional", why="without a dynamic quant_mode")),
    when("inputScaleOptional is None", absent("inputOffsetOptional", why="without input_scale")),
    dtypes(FLOATS, "inputOffsetOptional"),
    dtypes(f"INT8 {FLOAT8S}", "y"),
    dtype_table("self inputScaleOptional", "T T", "FLOAT FLOAT16/BF16", "FLOAT16/BF16 FLOAT", T=FLOATS),
    same_dtype("inputScaleOptional", "inputOffsetOptional"),
    dtypes("FLOAT", "outScaleOptional"),
    one_of("approximate", "none", "tanh"),
    has_dtype("y", dtype_attribute("dstType")),
    when("dynamic", rank(2, 8, "self"), rank(1, 7, "outScaleOptional")),
    rank(1, "inputScaleOptional", "inputOffsetOptional"),
    same_shape("inputScaleOptional", "inputOffsetOptional"),
    max_rank(8, "self"),
    output_shape(y="self", outScaleOptional="self[:-1] if dynamic else None"),
    when("dstType == HIFLOAT8", one_of("roundMode", "round", "hybrid")),
    when("dstType != HIFLOAT8", one_of("roundMode", "rint")),
    not_empty("self", "inputScaleOptional", "inputOffsetOptional", "y", "outScaleOptional"),
    nullable="self approximate quantMode roundMode y",
)

# ------------------------------------------------------------------------------------------------- experimental

elementwise("CeluV2", "A2", FLOATS_WITHOUT_BF16, "x", "out", require("alpha != 0"))
elementwise("CeluV3", "A2 950", FLOATS, "self", "out", require("alpha != 0"))
elementwise("EluGrad", "A2", FLOATS, "grads activations", "out")
elementwise("EluV2", "A2", FLOATS, "self", "out")
elementwise("FastGeluV2", "950", FLOATS, "x", "out")
elementwise("FusedBiasLeakyRelu", "950", FLOATS_WITHOUT_BF16, "x bias", "out")
elementwise("HardShrink ThresholdV2", "950", FLOATS, "self", "out")
elementwise("HardShrinkGrad", "A2", FLOATS, "gradOutput self", "out")
elementwise("HardSigmoidGradV2", "A2", FLOATS, "gradOutput self", "out")
elementwise("HardtanhGrad", "A2", FLOATS, "result grad", "out", require("minVal <= maxVal"))
elementwise("HardSwishV2", "A2", FLOATS, "x", "out")
elementwise("LeakyReluGradV2", "A2", FLOATS_WITHOUT_BF16, "dy x", "out")
elementwise("LeakyreluV2 LogsigmoidV2 SoftPlusV2", "A2", FLOATS_WITHOUT_BF16, "x", "out")
elementwise("LogSoftmaxV2", "A2", FLOATS, "self", "out", valid_axis("dim", "self"))
elementwise("Relu6", "950", f"{FLOATS} INT32", "x", "out")
elementwise("SoftmaxV2", "A2", FLOATS_WITHOUT_BF16, "x", "out", require("0 <= dim < len(x)"))
elementwise("SiluMul", "A2 A3", FLOATS, "x y", "out")
elementwise("Softsign", "A2 A3 950", FLOATS, "self", "out")
elementwise("SoftsignBackward", "950 A2", FLOATS, "gradients features", "out")
elementwise("TanhGrad", "A2", FLOATS, "y dy", "dx")
elementwise("HardsigmoidV2", "A2", f"{FLOATS} INT32", "self", "out")
rule(
    "aclnnInplaceHardsigmoidV2",
    only_products("A2"),
    dtypes(f"{FLOATS} INT32", "self"),
    max_rank(8, "self"),
)
rule(
    "aclnnReluGradV3",
    only_products("A2"),
    dtypes(f"{FLOATS} INT32 UINT8 INT8", "x"),
    same_dtype("x", "y", "z"),
    require("y.size == 1 or y == x"),
    output_shape(z="x"),
)
rule(
    "aclnnReluGradV4",
    only_products("A2 A3"),
    dtypes(f"{FLOATS} INT8 UINT8 INT32", "gradOutput"),
    same_dtype("gradOutput", "out"),
    dtypes("UINT8", "self"),
    max_rank(8, "gradOutput"),
    same_shape("gradOutput", "self"),
    require("threshold == 0"),
    output_shape(out="gradOutput"),
)
rule(
    "aclnnReluV3",
    only_products("A2"),
    dtypes(f"{FLOATS} INT32 INT8 UINT8", "x"),
    same_dtype("x", "yOut"),
    dtypes("UINT8", "maskOut"),
    require("x[-1] % 8 == 0"),
    output_shape(yOut="x", maskOut="(*x[:-1], x[-1] // 8)"),
)
rule(
    "aclnnSwigluClamp",
    only_products("A2 A3"),
    dtypes(FLOATS, "x"),
    same_dtype("x", "y"),
    positive("limit"),
    require("x[-1] % 2 == 0"),
    output_shape(y="(*x[:-1], x[-1] // 2)"),
)
