"""Rules of convolutions and of their gradients."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

_FLOATS: DtypeSet = {"A2 A3": FLOATS, "950": FLOATS + " HIFLOAT8", "": FLOATS_WITHOUT_BF16}
_PRODUCTS = "A2 A3 950 910 310P 310B"
PLAIN_FORMATS = {3: "NCL", 4: "NCHW", 5: "NCDHW"}

# --------------------------------------------------------------------------------------------------- convolution

# Padding of both sides together, along each spatial axis: an array names it for each axis, or for each side.
_PADS = (
    "tuple(2 * n for n in padding) if len(padding) == spatial else "
    "tuple(a + b for a, b in zip(padding[::2], padding[1::2]))"
)


def convolution(x: str) -> tuple[Check, ...]:
    """Sizes of an image and its kernels, with channels first or last, and ``convolved``, the shape of what they make."""
    return (
        define(
            spatial=f"len({x}) - 2",
            last=f"{x}.format in (NHWC, NDHWC)",
            channels=f"{x}[-1] if last else {x}[1]",
            sizes=f"{x}[1:-1] if last else {x}[2:]",
            kernels="weight[0]",
            weight_last="weight.format in (NHWC, NDHWC)",
            depth="weight[-1] if weight_last else weight[1]",
            kernel="weight[1:-1] if weight_last else weight[2:]",
            pads=_PADS,
            windows="tuple(window_count(n, k, s, p, 0, d, False, True) for n, k, s, p, d in "
            "zip(sizes, kernel, stride, pads, dilation))",
            widened="tuple((n - 1) * s - p + d * (k - 1) + extra + 1 for n, k, s, p, d, extra in "
            "zip(sizes, kernel, stride, pads, dilation, outputPadding))",
            wide="widened if transposed else windows",
            cout="depth * groups if transposed else kernels",
            convolved=f"({x}[0], *wide, cout) if last else ({x}[0], cout, *wide)",
        ),
        require(f"len(weight) == len({x})", "len(stride) == spatial", "len(dilation) == spatial"),
        positive("stride", "dilation"),
        require("len(padding) in (spatial, 2 * spatial)"),
    )


def _kernel_fits(x: str) -> Check:
    """The dilated kernel is not larger than the padded image, where there is one."""
    fits = "all(n + p - d * (k - 1) - 1 >= 0 for n, k, p, d in zip(sizes, kernel, pads, dilation))"
    return when(f"0 not in {x}", require(fits, argument=x))


def _empty_output(x: str, out: str) -> Check:
    return when(f"0 in {x} or 0 in weight", require(f"0 in {out}", f"min({out}) >= 0"))


rule(
    "aclnnConvolution",
    when("transposed", required("outputPadding")),
    dtypes(FLOATS, "bias"),
    dtypes(_FLOATS, "input", "weight", "output"),
    rank(3, 5, "input", "weight", "output"),
    *convolution("input"),
    when("spatial == 3 or (transposed and spatial == 1)", require("len(padding) == spatial")),
    has_shape(bias="(cout,)"),
    same_format("input", "output"),
    formats("NCL NCHW NCDHW ND", "bias"),
    on_products("950", formats_by_rank(PLAIN_FORMATS, "input", "output", "weight")),
    when(
        "product != '950'",
        formats_by_rank({**PLAIN_FORMATS, 5: "NCDHW NDHWC"}, "input", "output"),
        formats_by_rank({3: "NCL", 4: "NCHW FRACTAL_Z", 5: "NCDHW NDHWC"}, "weight"),
        when("transposed", require("weight.format != FRACTAL_Z")),
    ),
    require("min(input) >= 0", "min(weight) >= 0"),
    when("product != '950' or not transposed", require("min(kernel) > 0")),
    positive("groups"),
    when("not transposed", _kernel_fits("input"), require("depth * groups == channels", argument="weight")),
    when(
        "transposed",
        require("len(outputPadding) == spatial"),
        require("kernels == channels", argument="weight"),
        require("all(0 <= n < max(s, d) for n, s, d in zip(outputPadding, stride, dilation))"),
        require("channels != 0"),
        # The kernels that turn a convolution round pad by at most 255.
        when(
            "product != '950' and 0 not in input and 0 not in weight and 0 not in output",
            define(
                fronts="padding if len(padding) == spatial else padding[::2]",
                reach="tuple((k - 1) * d - p for k, d, p in zip(kernel, dilation, fronts))",
            ),
            when("spatial < 3", require("all(r <= 255 for r in reach)", argument="padding")),
            when("spatial == 3", require("all(0 <= r <= 255 for r in reach[1:])", argument="padding")),
            word="not-empty",
        ),
    ),
    require("kernels % groups == 0", argument="weight"),
    output_shape(output="convolved"),
    _empty_output("input", "output"),
    *cube_math_type("input", "weight"),
    only_products(_PRODUCTS),
    on_products("310B", require("not transposed", "len(input) == 4", argument="input")),
    output_dtype(output=promoted("input", "weight")),
    nullable="outputPadding",
)

rule(
    "aclnnConvDepthwise2d",
    dtypes({"310P": FLOATS_WITHOUT_BF16, "": FLOATS}, "bias"),
    when("self.dtype != HIFLOAT8", same_dtype("self", "bias")),
    dtypes(_FLOATS, "self"),
    same_dtype("self", "weight", "out"),
    rank(4, "self", "weight", "out"),
    rank(1, "bias"),
    formats("NCHW", "self", "weight", "out"),
    define(transposed="False", outputPadding="(0, 0)", groups="channels"),
    *convolution("self"),
    array_length("padding", 2),
    array_length("kernelSize", 2),
    require("min(self) >= 0", "min(kernel) > 0"),
    _kernel_fits("self"),
    require("weight[1] in (0, 1)"),
    when("channels > 0", require("weight[0] % channels == 0")),
    has_shape(bias="(kernels,)"),
    require("kernelSize == kernel"),
    output_shape(out="convolved"),
    _empty_output("self", "out"),
    *cube_math_type("self", "weight"),
    only_products(_PRODUCTS),
)

# --------------------------------------------------------------------------------------------------- gradients

_BACKWARD: DtypeSet = {
    "A2 A3": FLOATS,
    "950": FLOATS + " HIFLOAT8 FLOAT8_E4M3FN",
    "": FLOATS_WITHOUT_BF16,
}
_TENSORS = ("gradOutput", "input", "weight", "gradInput", "gradWeight")
_LENGTHS = require(
    "len(stride) == spatial",
    "len(dilation) == spatial",
    "len(padding) == spatial or len(padding) == 4 == 2 * spatial",
    "len(outputPadding) == spatial or len(outputPadding) == 4 == 2 * spatial",
)
_CHANNELS = require("weight[1] != 0", "weight[1] * groups == channels")
# gradOutput (for a transposed convolution the input) has as many positions as the kernel takes on the other.
_WINDOWS = (
    require("all(n + p - d * (k - 1) - 1 >= 0 for n, k, p, d in axes)", argument="input"),
    require("windows == became", argument="gradOutput"),
)
_GRADIENT_SHAPES = (
    require("len(gradOutput) == len(input)", "len(weight) == len(input)", "0 not in gradOutput"),
    same_shape("input", "gradInput"),
    same_shape("weight", "gradWeight"),
    has_shape(gradBias="(gradOutput[1],)"),
    _LENGTHS,
    require("weight[0] == cout"),
    _CHANNELS,
    when(
        "channels == groups and product != '950'",
        require("cout >= groups", "cout % groups == 0", argument="weight"),
    ),
    when("spatial == 3", *_WINDOWS),
)
# An empty input needs an empty batch or no channels.
_EMPTY_OPERANDS = (
    when(
        "outputMask[2]",
        required("biasSizes", status=PARAM_INVALID),
        require("biasSizes == (weight[1] * groups if transposed else gradOutput[1],)"),
    ),
    when("outputMask[0]", require("0 in input[:2]")),
    on_products(
        PRODUCTS_WITH_BF16,
        _LENGTHS,
        require("weight[0] % groups == 0"),
        when("(channels > 0 or weight[1] > 0) and not (transposed and input[0] == 0)", _CHANNELS, word="channels"),
        when("transposed", require("weight[0] > 0", "weight[0] == input[1]")),
        when("not transposed", _WINDOWS[0]),
    ),
)

rule(
    "aclnnConvolutionBackward",
    with_status(PARAM_NULLPTR, array_length("outputMask", 3)),
    when("outputMask[0]", required("gradInput")),
    when("outputMask[1]", required("gradWeight")),
    when("outputMask[2]", required("gradBias")),
    dtypes(_BACKWARD, *_TENSORS, "gradBias"),
    on_products("950", same_dtype("input", "gradInput"), same_dtype("gradOutput", "gradBias")),
    rank(3, 5, *_TENSORS),
    formats_by_rank({**PLAIN_FORMATS, 3: "NCL ND"}, *_TENSORS),
    on_products(PRODUCTS_WITH_BF16, when("not transposed", formats("ND", "gradBias"))),
    positive("stride", "dilation"),
    not_negative("padding"),
    when(
        "transposed",
        not_negative("outputPadding"),
        when("len(input) == 5", require("all(n < s for n, s in zip(outputPadding, stride))")),
    ),
    when("not transposed", require("all(n == 0 for n in outputPadding)")),
    positive("groups"),
    *cube_math_type("gradOutput", "input", "weight", most=3),
    define(
        spatial="len(input) - 2",
        channels="gradOutput[1] if transposed else input[1]",
        cout="input[1] if transposed else gradOutput[1]",
        image="gradOutput[2:] if transposed else input[2:]",
        became="input[2:] if transposed else gradOutput[2:]",
        pads=_PADS,
        axes="tuple(zip(image, weight[2:], pads, dilation))",
        windows="tuple(window_count(n, k, s, p, 0, d, False, True) for (n, k, p, d), s in zip(axes, stride))",
        emptied="0 in input or 0 in weight",
    ),
    when("not emptied or product not in ('A2', 'A3', '950')", *_GRADIENT_SHAPES),
    when("emptied", *_EMPTY_OPERANDS),
    tiling(unless_empty("input weight", *_WINDOWS)),
    infer_shape(
        gradInput="input if outputMask[0] else None",
        gradWeight="weight if outputMask[1] else None",
        gradBias="gradOutput[1:2] if outputMask[2] else None",
    ),
    output_dtype(gradInput="input", gradWeight="weight", gradBias="gradOutput"),
    nullable="biasSizes gradInput gradWeight gradBias",
)

# --------------------------------------------------------------------------------------------------- (time, batch, channels)

rule(
    "aclnnConvTbc",
    dtypes({"310P": FLOATS_WITHOUT_BF16, "": FLOATS}, "bias"),
    dtypes(_FLOATS, "self"),
    same_dtype("self", "weight", "output"),
    rank(3, "self", "weight", "output"),
    formats("ND NCL", "self", "weight", "output"),
    shape_patterns(
        self="time batch channels",
        weight="length channels cout",
        bias="cout",
        output="time+2*pad-length+1 batch cout",
    ),
    require("weight[0] > 0"),
    unless_empty("self", require("time + pad - length >= 0")),
    *cube_math_type("self", "weight"),
    only_products("A2 A3 950 910 310P"),
    required="bias",
)
rule(
    "aclnnConvTbcBackward",
    dtypes(FLOATS_OF_PRODUCT, "self", "input", "weight"),
    dtypes(FLOATS, "bias"),
    dtypes(FLOATS_OF_PRODUCT, "gradInput", "gradWeight", "gradBias"),
    formats("ND NCL", "self", "input", "weight", "gradInput", "gradWeight"),
    formats("ND", "bias", "gradBias"),
    not_empty("self"),
    not_negative("pad"),
    shape_patterns(
        input="time batch channels",
        weight="length channels cout",
        bias="cout",
        self="time+2*pad+1-length batch cout",
        gradInput="time batch channels",
        gradWeight="length channels cout",
        gradBias="cout",
    ),
    require("time + 2 * pad + 1 - length >= 0"),
    *cube_math_type("self", "input", "weight", most=3),
    on_products(
        "950", same_dtype("input", "gradInput"), same_dtype("weight", "gradWeight"), same_dtype("bias", "gradBias")
    ),
    output_dtype(gradInput="input", gradWeight="weight", gradBias="bias"),
)
