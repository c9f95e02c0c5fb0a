"""Rules of deformable convolutions: each tap of each window is read at a place of its own."""

from __future__ import annotations

from ascend_aclnn.rules.language import *


def _window(image: str) -> tuple[Check, ...]:
    """The sizes of what is read: ``high`` by ``wide`` windows of kernelSize."""
    return (
        define(
            high=f"int(({image}[2] + sum(padding[:2]) - dilation[2] * (kernelSize[0] - 1) - 1) / stride[2]) + 1",
            wide=f"int(({image}[3] + sum(padding[2:]) - dilation[3] * (kernelSize[1] - 1) - 1) / stride[3]) + 1",
            taps="kernelSize[0] * kernelSize[1]",
            per_group=f"{image}[1] // groups",
        ),
        rank(4, image, "weight"),
        array_length("kernelSize", 2),
        array_length("stride", 4),
        array_length("padding", 4),
        array_length("dilation", 4),
        positive("kernelSize", "stride", "dilation", "groups", "deformableGroups"),
        require("stride[:2] == (1, 1)", "dilation[:2] == (1, 1)", "taps <= 2048", argument="stride"),
        one_of("modulated", True),
        require(f"{image}[1] % deformableGroups == 0", f"{image}[1] % groups == 0", "weight[0] % groups == 0"),
        require(f"{image}[2] * {image}[3] <= 2**31 - 1", f"taps * {image}[1] // groups <= 65535"),
    )


_WEIGHT = "(weight[0], per_group, *kernelSize)"
_OFFSET = "({x}[0], 3 * deformableGroups * taps, high, wide)"
_OUT = "({x}[0], weight[0], high, wide)"
_DEFORMED = "({x}[0], {x}[1], high * kernelSize[0], wide * kernelSize[1])"

rule(
    "aclnnDeformableConv2d",
    dtypes(FLOATS, "x"),
    same_dtype("x", "biasOptional", "deformOutOptional", "offset", "weight", "out"),
    formats("NCHW ND", "x"),
    on_products("950", formats("NCHW", "x")),
    same_format("x", "offset", "weight", "out", "deformOutOptional"),
    formats("ND", "biasOptional"),
    *_window("x"),
    has_shape(weight=_WEIGHT, offset=_OFFSET.format(x="x"), biasOptional="(weight[0],)"),
    output_shape(out=_OUT.format(x="x"), deformOutOptional=_DEFORMED.format(x="x")),
)
rule(
    "aclnnDeformableConv2dBackward",
    only_products("950"),
    dtypes(FLOATS, "input"),
    same_dtype(
        "input", "gradInput", "gradWeight", "gradOffset", "weight", "offsetOut", "offset", "gradOutput", "gradBias"
    ),
    formats("NCHW", "gradOutput", "input"),
    same_format("input", "weight", "offsetOut", "offset", "gradInput", "gradWeight", "gradOffset"),
    formats("ND", "gradBias"),
    not_negative("padding"),
    *_window("input"),
    has_shape(
        weight=_WEIGHT,
        offset=_OFFSET.format(x="input"),
        gradOutput=_OUT.format(x="input"),
        offsetOut=_DEFORMED.format(x="input"),
    ),
    output_shape(
        gradInput=shape_of("input"), gradWeight=shape_of("weight"), gradOffset=shape_of("offset"), gradBias="weight[:1]"
    ),
)
