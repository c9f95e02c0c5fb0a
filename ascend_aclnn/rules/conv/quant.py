"""Rules of convolutions of 8-bit operands."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.conv.core import axes_of, by_rank, convolved
from ascend_aclnn.rules.language import *

_QUANT_ROWS = ("INT8 INT8 BF16 FLOAT", "INT8 INT8 BF16 BF16", "INT8 INT8 FLOAT16 FLOAT", "INT8 INT8 FLOAT16 FLOAT16")
_QUANT_950 = (
    "INT8 INT8 FLOAT16 INT32",
    *(f"{x} {x} {y} FLOAT" for x in ("HIFLOAT8", "FLOAT8_E4M3FN") for y in ("FLOAT", "FLOAT16", "BF16", x)),
)


def _shapes(call: Call) -> None:
    _, channels, _ = axes_of(call, "input")
    kernels, columns, _ = axes_of(call, "weight")
    groups = call["groups"]
    if call.product == "950":
        text = f"is {groups}; it must divide {kernels}, the kernels"
        call.require(groups > 0 and kernels % groups == 0, "groups", text)
    text = f"has shape {call.shape('weight')}; its second axis must be {channels} / {groups} (channels / groups)"
    call.require(columns * groups == channels, "weight", text)


def _quant_mode(call: Call) -> None:
    out, mode = call.dtype("output"), call["roundMode"]
    wanted = {DataType.INT8: "rint", DataType.FLOAT8_E4M3FN: "rint", DataType.HIFLOAT8: "round"}.get(out)
    call.require(wanted in (None, mode), "roundMode", f"is {mode!r}; for {out.name} it must be {wanted!r}")


def _quant_convolution(nz: bool) -> tuple[Check, ...]:
    return (
        on_products("A2 A3 310P 910 310 310B", required("bias")),
        dtypes({"950": "INT64 UINT64 FLOAT", "": "FLOAT"}, "scale"),
        dtype_table("input weight output bias", *_QUANT_ROWS, products="A2 A3 310P 910 310 310B"),
        dtype_table("input weight output bias", *_QUANT_ROWS, *_QUANT_950, products="950"),
        rank(1, 1, "scale", "bias"),
        when("product == '950'", rank(4, 5, "input", "weight", "output")),
        when("product != '950'", rank(5, 5, "input", "weight", "output")),
        formats("ND", "bias", "scale"),
        by_rank("input", "output"),
        formats("FRACTAL_Z_3D", "weight") if nz else by_rank("weight"),
        not_empty("input", "weight"),
        has_shape(bias="(weight[0],)", scale="(weight[0],)"),
        positive("stride", "dilation"),
        not_negative("padding"),
        when("product != '950'", one_of("groups", 1)),
        _shapes,
        on_products("950", _quant_mode, in_range("offsetx", -128, 127)),
        output_shape(output=convolved),
        not_empty("output"),
        only_products("A2 A3 950"),
        output_dtype(output="FLOAT16"),
    )


def _z_storage(call: Call) -> None:
    """The weight lies in blocks of 16 kernels by 32 channels."""
    rows, columns_, kernel = axes_of(call, "weight")
    wanted = (math.prod(kernel) * -(-columns_ // 32), -(-rows // 16), 16, 32)
    came = call["weight"].storage_shape
    call.require(came == wanted, "weight", f"has a storage shape {came}; in FRACTAL_Z_3D it must be {wanted}")


rule("aclnnQuantConvolution", *_quant_convolution(False), nullable="bias")
rule("aclnnQuantConvolutionWeightNz", *_quant_convolution(True), _z_storage, nullable="bias")
