"""Rules of quantising with given scales, and back."""

from __future__ import annotations

import math
from typing import Callable

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

SMALL_FLOATS = (DataType.HIFLOAT8, DataType.FLOAT8_E5M2, DataType.FLOAT8_E4M3FN)
_FLOATS: DtypeSet = {"A2 A3 950": "FLOAT FLOAT16 BF16", "310P": "FLOAT FLOAT16"}


def packed(x: str, y: str, dst_type: str = "dstType") -> Callable[[Call], Shape]:
    """The shape of quantised x: an INT32 holds eight 4-bit numbers of the last axis, an INT4 is half a byte."""

    def rule_(call: Call) -> Shape:
        sizes = call.shape(x)
        dtype = call.dtype(y) if call.is_present(y) else dtype_attribute(dst_type)(call)
        parts = {DataType.INT32: 8, DataType.INT4: 2}.get(dtype, 1)
        last = sizes[-1] if sizes else 1
        text = f"has shape {sizes}; with {dtype.name} its last axis must be a multiple of {parts}"
        call.require(last % parts == 0, x, text)
        return (*sizes[:-1], last // 8) if dtype is DataType.INT32 else sizes

    return rule_


def _round_mode(name: str, small_float: str = "round") -> Check:
    """How results are rounded; a null pointer is refused as a value. HIFLOAT8 also knows "hybrid"."""

    def check(call: Call) -> None:
        mode, target = call[name], dtype_attribute("dstType")(call)
        if target is DataType.HIFLOAT8:
            allowed: tuple[str, ...] = ("round", "hybrid")
        elif target in SMALL_FLOATS:
            allowed = (small_float,)
        else:
            allowed = ("round", "floor", "ceil", "trunc")
        call.require(mode in allowed, name, f"is {mode!r}; it must be {' or '.join(map(repr, allowed))}")

    return check


# --------------------------------------------------------------------------------------------------- AscendQuant


_QUANT = (
    dtypes(
        {
            "310P": "INT8",
            "950": "INT8 INT32 INT4 FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8",
            "": "INT8 INT32 INT4",
        },
        "y",
    ),
    dtypes(_FLOATS, "scale", "offset"),
    same_dtype("scale", "offset"),
    require("x.dtype in (FLOAT, scale.dtype)", argument="scale", why="scales of a 16-bit x have its dtype"),
    has_dtype("y", dtype_attribute("dstType")),
    output_dtype(y=dtype_attribute("dstType")),
)
rule(
    "aclnnAscendQuant",
    dtypes({"A2 A3": "FLOAT FLOAT16 BF16", "310P": "FLOAT FLOAT16"}, "x"),
    *_QUANT,
    output_shape(y=packed("x", "y")),
    max_rank(8, "x"),
    # One element, or one for each item of the last axis.
    require("len(scale) > 0", "scale[-1] in (1, x[-1] if len(x) else 1)", "prod(scale[:-1]) == 1"),
    broadcastable("scale", "x"),
    require("len(offset) > 0", "offset[-1] == scale[-1]", "prod(offset[:-1]) == 1"),
    broadcastable("offset", "x"),
    _round_mode("roundMode"),
    nullable="roundMode",
)
rule(
    "aclnnAscendQuantV3",
    rank(1, 99, "x"),
    dtypes(_FLOATS, "x"),
    *_QUANT,
    valid_axis("axis", "x"),
    # One of the last two axes; on 310P the last one.
    require("axis % len(x) >= len(x) - (1 if product == '310P' else 2)"),
    output_shape(y=packed("x", "y")),
    max_rank(8, "x"),
    same_shape("scale", "offset"),
    # One element, or one for each item of the axis; of one axis, or of those of x.
    define(count="scale[0 if len(scale) == 1 else axis]"),
    require("len(scale) in (1, len(x))", "count in (1, x[axis])", "prod(scale) == count", argument="scale"),
    _round_mode("roundMode"),
    nullable="roundMode",
)

# --------------------------------------------------------------------------------------------------- AscendAntiQuant


def _unpacked(call: Call) -> Shape:
    sizes = call.shape("x")
    if call.dtype("x") is DataType.INT4:
        even = len(sizes) > 0 and sizes[-1] % 2 == 0
        call.require(even, "x", f"has shape {sizes}; with INT4 its last axis must be even")
    if call.dtype("x") is DataType.INT32:
        return (*sizes[:-1], sizes[-1] * 8) if sizes else (8,)
    return sizes


rule(
    "aclnnAscendAntiQuant",
    dtypes(
        {"A2 A3": "INT4 INT8 INT32", "950": "INT4 INT8 INT32 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN", "310P": "INT8"}, "x"
    ),
    dtypes({"A2 A3 950": "FLOAT16 BF16", "310P": "FLOAT16"}, "y"),
    dtypes({"A2 A3 950": "FLOAT BF16", "310P": "FLOAT"}, "scale", "offset"),
    same_dtype("scale", "offset"),
    has_dtype("y", dtype_attribute("dstType")),
    when("x.dtype in FLOAT8S", dtypes("FLOAT", "scale"), one_of("sqrtMode", False)),
    output_shape(y=_unpacked),
    max_rank(8, "x"),
    same_shape("scale", "offset"),
    when("product != '950'", rank(1, 1, "scale", "offset"), require("scale[0] == 1 or scale == y[-1:]")),
    # Ascend 950 also takes scales of blocks (of an INT32 x of rows).
    when(
        "product == '950'",
        require("len(y) > 0", argument="x"),
        require("prod(scale) > 0"),
        when(
            "x.dtype == INT32 and len(x) > 0",
            require("len(scale) > 0", "scale[-1] in (1, y[-1]) or (len(scale) == 1 < len(x) and scale[-1] == x[-2])"),
        ),
    ),
    when("x.dtype == INT4 and x.size > 0", contiguous("x")),
    output_dtype(y=dtype_attribute("dstType")),
)

# --------------------------------------------------------------------------------------------------- Quantize


rule(
    "aclnnQuantize",
    max_rank(8, "x"),
    output_shape(out=shape_of("x")),
    rank(1, 1, "scales"),
    rank(1, 1, "zeroPoints"),
    same_shape("scales", "zeroPoints"),
    when("scales[0] != 1", valid_axis("axis", "x"), require("scales[0] == x[axis]")),
    dtypes({"A2 A3 950": "FLOAT FLOAT16 BF16", "310P 910": "FLOAT FLOAT16"}, "x", "scales"),
    dtypes(
        {
            "A2 A3": "INT8 UINT8 INT32 BF16",
            "950": "INT8 UINT8 INT32 FLOAT BF16",
            "310P 910": "INT8 UINT8 INT32",
        },
        "zeroPoints",
    ),
    dtypes(
        {
            "A2 A3 310P 910": "INT8 UINT8 INT32",
            "950": "INT8 UINT8 INT32 HIFLOAT8 FLOAT8_E4M3FN FLOAT8_E5M2",
        },
        "out",
    ),
    has_dtype("out", dtype_attribute("dtype")),
    # BF16 scales or zero points come with all of them BF16.
    when("BF16 in (scales.dtype, zeroPoints.dtype)", dtypes("BF16", "x", "scales", "zeroPoints")),
    no_private_format("x", "scales", "zeroPoints", "out"),
    output_dtype(out=dtype_attribute("dtype")),
)

# --------------------------------------------------------------------------------------------------- GroupQuant


rule(
    "aclnnGroupQuant",
    dtypes({"A2 A3 950": "FLOAT16 FLOAT BF16"}, "x", "scale", "offsetOptional"),
    dtypes("INT32 INT64", "groupIndex"),
    dtypes("INT8 INT32 INT4", "y"),
    same_dtype("scale", "offsetOptional"),
    has_dtype("y", dtype_attribute("dstType")),
    rank(2, 2, "x", "scale"),
    rank(1, 1, "groupIndex"),
    has_shape(scale="(groupIndex[0], x[1])"),
    require("offsetOptional.size == 1"),
    output_shape(y=packed("x", "y")),
    output_dtype(y=dtype_attribute("dstType")),
)

# --------------------------------------------------------------------------------------------------- fake quantising


for _name, _zero_points, _parameters in (
    (
        "aclnnFakeQuantPerChannelAffineCachemask",
        "INT32 FLOAT16 FLOAT",
        (
            rank(1, 1, "scale", "zeroPoint"),
            valid_axis("axis", "self"),
            require("len(self) > 0"),
            has_shape(scale="(self[axis],)", zeroPoint="(self[axis],)"),
        ),
    ),
    ("aclnnFakeQuantPerTensorAffineCachemask", "INT32", (require("scale.size == 1", "zeroPoint.size == 1"),)),
):
    rule(
        _name,
        dtypes("FLOAT16 FLOAT", "self", "scale"),
        dtypes(_zero_points, "zeroPoint"),
        castable(promoted("self", "scale"), "out"),
        dtypes("BOOL", "mask"),
        output_shape(out=shape_of("self"), mask=shape_of("self")),
        *_parameters,
        require("quantMin <= quantMax"),
        output_dtype(mask="BOOL"),
        null_status=INNER_NULLPTR,
    )

# --------------------------------------------------------------------------------------------------- FlatQuant


_FLAT_FP4 = "out is not None and out.dtype == FLOAT4_E2M1"


def _flat_fp4(call: Call) -> bool:
    return call.is_present("out") and call.dtype("out") is DataType.FLOAT4_E2M1


def _flat_out(call: Call) -> Shape:
    """INT32 and INT4 are packed; Ascend 950's blocks of FLOAT4_E2M1 have one row for each of x."""
    sizes = call.shape("x")
    if _flat_fp4(call) and len(sizes) == 3:
        return sizes[0], sizes[1] * sizes[2]
    return packed("x", "out", "out")(call) if call.is_present("out") else sizes


def _flat_scale(call: Call) -> Shape:
    return call.shape("x")[:1]


rule(
    "aclnnFlatQuant aclnnFlatQuantV2 aclnnFlatQuantV3",
    dtypes({"A2 A3 950": "FLOAT16 BF16"}, "x", "kroneckerP1", "kroneckerP2"),
    dtypes({"A2 A3": "INT32 INT4", "950": "INT32 INT4 FLOAT4_E2M1"}, "out"),
    dtypes({"A2 A3": "FLOAT", "950": "FLOAT FLOAT8_E8M0"}, "quantScale"),
    same_dtype("x", "kroneckerP1", "kroneckerP2"),
    rank(3, 3, "x"),
    rank(2, 2, "kroneckerP1"),
    require("0 < x[0] <= 262144", "0 < x[1] <= 256", "0 < x[2] <= 256"),
    has_shape(kroneckerP1="(x[1], x[1])"),
    when(f"not ({_FLAT_FP4})", has_shape(kroneckerP2="(x[2], x[2])")),
    require("x[2] % (8 if out.dtype == INT32 else 2) == 0"),
    when(_FLAT_FP4, rank(2, 2, "out"), rank(3, 3, "quantScale"), require("quantScale[0] == x[0]")),
    when(f"not ({_FLAT_FP4})", output_shape(out=_flat_out, quantScale=_flat_scale)),
    not_nz("x", "out", "quantScale"),
    require("0 < clipRatio <= 1"),
    on_operators("aclnnFlatQuantV2 aclnnFlatQuantV3", require("dstTypeMax == 0 or 6 <= dstTypeMax <= 12")),
    on_operators(
        "aclnnFlatQuantV3",
        when(
            "groupListOptional is not None",
            on_products("950", absent("groupListOptional")),
            one_of("groupListType", 0, 1, 2),
            dtypes("INT64", "groupListOptional"),
            when("groupListType == 2", rank(2, 2, "groupListOptional"), require("groupListOptional[1] == 2")),
            when("groupListType != 2", rank(1, 1, "groupListOptional")),
            require("groupListOptional[0] <= 1024"),
        ),
    ),
    infer_shape(out=_flat_out, quantScale=_flat_scale),
    output_dtype(out="INT4", quantScale="FLOAT"),
)

# --------------------------------------------------------------------------------------------------- parameters of the fixpipe


def _parameters_out(call: Call) -> Shape:
    """The longer of scale and offset."""
    scale, offset = call.shape("scale"), call.shape("offset")
    return offset if call.is_present("offset") and math.prod(offset) > math.prod(scale) else scale


rule(
    "aclnnTransQuantParamV2 aclnnTransQuantParamV3",
    dtypes("FLOAT", "scale", "offset"),
    dtypes("UINT64 INT64", "out"),
    formats("ND", "scale", "offset", "out"),
    rank(1, 2, "scale", "offset"),
    # A vector or one row (on Ascend 950 scale may have several).
    require("scale.size > 0", "len(scale) == 1 or scale[0] == 1 or product == '950'"),
    require("offset.size > 0", "len(offset) == 1 or offset[0] == 1"),
    require("offset.size in (1, scale[-1]) or scale[-1] == 1"),
    one_of("roundMode", 0, 1),
    infer_shape(out=_parameters_out),
    output_dtype(out="UINT64"),
)

# --------------------------------------------------------------------------------------------------- to small floats


for _name, _ranks, _scales, _amax in (
    ("aclnnQuantMax", 1, (has_shape(scale="(1,)"),), output_shape(amax="(1,)")),
    (
        "aclnnGroupedQuantMax",
        2,
        (dtypes("INT64", "groupList"), not_empty("scale", "groupList")),
        infer_shape(amax=shape_of("groupList")),
    ),
):
    rule(
        _name,
        dtypes("FLOAT FLOAT16 BF16", "x"),
        rank(_ranks, 8, "x"),
        dtypes("FLOAT", "scale"),
        *_scales,
        one_of("dstType", *map(int, SMALL_FLOATS)),
        _round_mode("roundMode", "rint"),
        has_dtype("y", dtype_attribute("dstType")),
        output_shape(y=shape_of("x")),
        same_dtype("x", "amax"),
        _amax,
        when("x.size > 0", documented_products),
        output_dtype(y=dtype_attribute("dstType")),
        nullable="roundMode",
    )

# --------------------------------------------------------------------------------------------------- dequantising


rule(
    "aclnnDequantBias",
    documented_products,
    documented_dtypes(),
    tiling(
        rank(2, 2, "x"),
        output_shape(out=shape_of("x")),
        has_shape(weightScale="(x[1],)", activateScaleOptional="(x[0],)", biasOptional="(x[1],)"),
        one_of("outputDtype", int(DataType.FLOAT16), int(DataType.BF16)),
        has_dtype("out", dtype_attribute("outputDtype")),
    ),
    output_dtype(out=dtype_attribute("outputDtype")),
)
