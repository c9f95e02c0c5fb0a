"""Rules of convolutions of 8-bit operands."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.conv.core import PLAIN_FORMATS, convolution
from ascend_aclnn.rules.language import *

_NAMES = "input weight output bias"
_ROWS = ("INT8 INT8 BF16 FLOAT/BF16", "INT8 INT8 FLOAT16 FLOAT/FLOAT16")
_ROWS_950 = (
    "INT8 INT8 FLOAT16 INT32",
    *(f"{x} {x} FLOAT/FLOAT16/BF16/{x} FLOAT" for x in ("HIFLOAT8", "FLOAT8_E4M3FN")),
)

rule(
    "aclnnQuantConvolution aclnnQuantConvolutionWeightNz",
    when("product != '950'", required("bias"), dtypes("FLOAT", "scale"), dtype_table(_NAMES, *_ROWS)),
    on_products("950", dtypes("INT64 UINT64 FLOAT", "scale"), dtype_table(_NAMES, *_ROWS, *_ROWS_950)),
    rank(1, "scale", "bias"),
    rank(4, 5, "input", "weight", "output"),
    when("product != '950'", rank(5, "input", "weight", "output")),
    formats("ND", "bias", "scale"),
    formats_by_rank(PLAIN_FORMATS, "input", "output"),
    on_operators("aclnnQuantConvolution", formats_by_rank(PLAIN_FORMATS, "weight")),
    on_operators("aclnnQuantConvolutionWeightNz", formats("FRACTAL_Z_3D", "weight")),
    not_empty("input", "weight"),
    has_shape(bias="(weight[0],)", scale="(weight[0],)"),
    not_negative("padding"),
    *convolution("input"),
    when("product != '950'", one_of("groups", 1)),
    on_products("950", positive("groups"), require("kernels % groups == 0", argument="groups")),
    require("depth * groups == channels", argument="weight"),
    when("spatial == 3", require("len(padding) == spatial")),
    on_products(
        "950",
        when(
            "output.dtype in (INT8, FLOAT8_E4M3FN)",
            required("roundMode", status=PARAM_INVALID),
            one_of("roundMode", "rint"),
        ),
        when("output.dtype == HIFLOAT8", required("roundMode", status=PARAM_INVALID), one_of("roundMode", "round")),
        in_range("offsetx", -128, 127),
    ),
    when("transposed", required("outputPadding", status=PARAM_INVALID), require("len(outputPadding) == spatial")),
    output_shape(output="convolved"),
    not_empty("output"),
    only_products(PRODUCTS_WITH_BF16),
    # The weight lies in blocks of 16 kernels by 32 channels.
    on_operators(
        "aclnnQuantConvolutionWeightNz",
        require("weight.storage == (prod(kernel) * ceil_div(depth, 32), ceil_div(kernels, 16), 16, 32)"),
    ),
    output_dtype(output="FLOAT16"),
    nullable="bias",
)
