"""Rules of quantising with given scales, and back."""

from __future__ import annotations

import math
from typing import Callable

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Check,
    DtypeSet,
    Shape,
    broadcastable,
    castable,
    documented_dtypes,
    documented_products,
    dtype_attribute,
    dtypes,
    formats,
    has_dtype,
    infer_shape,
    max_rank,
    no_private_format,
    one_of,
    output_dtype,
    output_shape,
    promoted,
    rank,
    rule,
    same_dtype,
    same_shape,
    shape_of,
    tiling,
    when,
)

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


def _scale_as_x(call: Call) -> None:
    """Scales of a 16-bit x have its dtype."""
    x = call.dtype("x")
    if x is not DataType.FLOAT and call.dtype("scale") is not x:
        call.refuse("scale", f"has dtype {call.dtype('scale').name}; with {x.name} x it must be {x.name}")


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


def _last_axis_scales(call: Call) -> None:
    """Scale and offset have one element, or one for each item of the last axis."""
    last = call.shape("x")[-1] if call.shape("x") else 1
    for name in ("scale", "offset"):
        if call.is_present(name):
            sizes = call.shape(name)
            allowed = (last, 1) if name == "scale" else (call.shape("scale")[-1],)
            text = f"has shape {sizes}; it must have {' or '.join(map(str, allowed))} on its last axis and 1 elsewhere"
            call.require(len(sizes) > 0 and sizes[-1] in allowed and math.prod(sizes[:-1]) == 1, name, text)
            broadcastable(name, "x")(call)


def _quant_axis(call: Call) -> None:
    axis, ndim = call["axis"], len(call.shape("x"))
    last_two = [a for a in range(-ndim, ndim) if a % ndim >= ndim - (1 if call.product == "310P" else 2)]
    call.require(axis in last_two, "axis", f"is {axis}; on {call.soc.name} it must be one of {last_two}")


def _axis_scales(call: Call) -> None:
    """Scale (and offset) has one element, or one for each item of the axis; it has one axis or those of x."""
    sizes, x = call.shape("scale"), call.shape("x")
    same_shape("scale", "offset")(call)
    axis = call["axis"] % len(x)
    count = sizes[0 if len(sizes) == 1 else axis] if len(sizes) in (1, len(x)) else -1
    text = f"has shape {sizes}; it must have rank 1 or {len(x)}, and 1 or {x[axis]} elements"
    call.require(count in (1, x[axis]) and math.prod(sizes) == count, "scale", text)


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
    _scale_as_x,
    has_dtype("y", dtype_attribute("dstType")),
    output_dtype(y=dtype_attribute("dstType")),
)
rule(
    "aclnnAscendQuant",
    dtypes({"A2 A3": "FLOAT FLOAT16 BF16", "310P": "FLOAT FLOAT16"}, "x"),
    *_QUANT,
    output_shape(y=packed("x", "y")),
    max_rank(8, "x"),
    _last_axis_scales,
    _round_mode("roundMode"),
    nullable="roundMode",
)
rule(
    "aclnnAscendQuantV3",
    rank(1, 99, "x"),
    dtypes(_FLOATS, "x"),
    *_QUANT,
    _quant_axis,
    output_shape(y=packed("x", "y")),
    max_rank(8, "x"),
    _axis_scales,
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


def _anti_scales(call: Call) -> None:
    """One scale, or one for each item of the last axis; Ascend 950 also takes scales of blocks (INT32: of rows)."""
    last = _unpacked(call)[-1:]
    sizes = call.shape("scale")
    if call.product != "950":
        rank(1, 1, "scale", "offset")(call)
        same_shape("scale", "offset")(call)
        text = f"has shape {sizes}; it must have 1 element or {last[0] if last else 1}"
        call.require(sizes[0] == 1 or sizes == last, "scale", text)
        return
    same_shape("scale", "offset")(call)
    call.require(len(_unpacked(call)) > 0, "x", "has rank 0; it must be at least 1")
    call.require(math.prod(sizes) > 0, "scale", "is empty")
    if call.dtype("x") is DataType.INT32 and call.shape("x"):
        allowed = {1, last[0]} | ({call.shape("x")[-2]} if len(sizes) == 1 and len(call.shape("x")) > 1 else set())
        count = sizes[-1] if sizes else 0
        text = f"has shape {sizes}; its last axis must be {' or '.join(map(str, sorted(allowed)))}"
        call.require(count in allowed, "scale", text)


def _anti_small_floats(call: Call) -> None:
    if call.dtype("x") in SMALL_FLOATS:
        dtypes("FLOAT", "scale")(call)
        call.require(not call["sqrtMode"], "sqrtMode", f"is True; with {call.dtype('x').name} x it must be False")


def _whole_int4(call: Call) -> None:
    if call.dtype("x") is DataType.INT4 and call["x"].size and not call["x"].is_contiguous:
        call.refuse("x", f"is not contiguous (shape {call.shape('x')}, strides {call['x'].strides})")


rule(
    "aclnnAscendAntiQuant",
    dtypes(
        {"A2 A3": "INT4 INT8 INT32", "950": "INT4 INT8 INT32 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN", "310P": "INT8"}, "x"
    ),
    dtypes({"A2 A3 950": "FLOAT16 BF16", "310P": "FLOAT16"}, "y"),
    dtypes({"A2 A3 950": "FLOAT BF16", "310P": "FLOAT"}, "scale", "offset"),
    same_dtype("scale", "offset"),
    has_dtype("y", dtype_attribute("dstType")),
    _anti_small_floats,
    output_shape(y=_unpacked),
    max_rank(8, "x"),
    _anti_scales,
    _whole_int4,
    output_dtype(y=dtype_attribute("dstType")),
)

# --------------------------------------------------------------------------------------------------- Quantize


def _axis_parameters(call: Call) -> None:
    rank(1, 1, "scales")(call)
    rank(1, 1, "zeroPoints")(call)
    same_shape("scales", "zeroPoints")(call)
    count = call.shape("scales")[0]
    if count != 1:
        axis, ndim = call["axis"], len(call.shape("x"))
        call.require(-ndim <= axis < ndim, "axis", f"is {axis}; it must be an axis of x, of rank {ndim}")
        wanted = call.shape("x")[axis]
        call.require(
            count == wanted, "scales", f"has {count} elements; it must have 1 or {wanted}, as x on axis {axis}"
        )


def _all_bf16(call: Call) -> None:
    """BF16 scales or zero points come with all of them BF16."""
    if DataType.BF16 in (call.dtype("scales"), call.dtype("zeroPoints")):
        dtypes("BF16", "x", "scales", "zeroPoints")(call)


rule(
    "aclnnQuantize",
    max_rank(8, "x"),
    output_shape(out=shape_of("x")),
    _axis_parameters,
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
    _all_bf16,
    no_private_format("x", "scales", "zeroPoints", "out"),
    output_dtype(out=dtype_attribute("dtype")),
)

# --------------------------------------------------------------------------------------------------- GroupQuant


def _groups(call: Call) -> None:
    rank(2, 2, "x", "scale")(call)
    rank(1, 1, "groupIndex")(call)
    wanted = (call.shape("groupIndex")[0], call.shape("x")[1])
    call.require(call.shape("scale") == wanted, "scale", f"has shape {call.shape('scale')}; it must be {wanted}")
    if call.is_present("offsetOptional"):
        call.require(call["offsetOptional"].size == 1, "offsetOptional", "must have one element")


rule(
    "aclnnGroupQuant",
    dtypes({"A2 A3 950": "FLOAT16 FLOAT BF16"}, "x", "scale", "offsetOptional"),
    dtypes("INT32 INT64", "groupIndex"),
    dtypes("INT8 INT32 INT4", "y"),
    same_dtype("scale", "offsetOptional"),
    has_dtype("y", dtype_attribute("dstType")),
    _groups,
    output_shape(y=packed("x", "y")),
    output_dtype(y=dtype_attribute("dstType")),
)

# --------------------------------------------------------------------------------------------------- fake quantising


def _one_parameter_each(call: Call) -> None:
    for name in ("scale", "zeroPoint"):
        call.require(call[name].size == 1, name, f"has shape {call.shape(name)}; it must have one element")


def _axis_parameters_of_self(call: Call) -> None:
    rank(1, 1, "scale", "zeroPoint")(call)
    axis, ndim = call["axis"], len(call.shape("self"))
    call.require(-ndim <= axis < ndim, "axis", f"is {axis}; it must be an axis of self, of rank {ndim}")
    for name in ("scale", "zeroPoint"):
        wanted = (call.shape("self")[axis],)
        call.require(call.shape(name) == wanted, name, f"has shape {call.shape(name)}; it must be {wanted}")


def _quant_range(call: Call) -> None:
    least, most = call["quantMin"], call["quantMax"]
    call.require(least <= most, "quantMin", f"is {least}; it must be at most quant_max, {most}")


for _name, _zero_points, _parameters in (
    ("aclnnFakeQuantPerChannelAffineCachemask", "INT32 FLOAT16 FLOAT", _axis_parameters_of_self),
    ("aclnnFakeQuantPerTensorAffineCachemask", "INT32", _one_parameter_each),
):
    rule(
        _name,
        dtypes("FLOAT16 FLOAT", "self", "scale"),
        dtypes(_zero_points, "zeroPoint"),
        castable(promoted("self", "scale"), "out"),
        dtypes("BOOL", "mask"),
        output_shape(out=shape_of("self"), mask=shape_of("self")),
        _parameters,
        _quant_range,
        output_dtype(mask="BOOL"),
        null_status=INNER_NULLPTR,
    )

# --------------------------------------------------------------------------------------------------- FlatQuant


def _flat_sizes(call: Call) -> None:
    rank(3, 3, "x")(call)
    rank(2, 2, "kroneckerP1")(call)
    rows, m, n = call.shape("x")
    fits = 0 < rows <= 262144 and 0 < m <= 256 and 0 < n <= 256
    call.require(fits, "x", f"has shape {call.shape('x')}; it must be from (1, 1, 1) to (262144, 256, 256)")
    call.require(call.shape("kroneckerP1") == (m, m), "kroneckerP1", f"must have shape {(m, m)}")
    if not _flat_fp4(call):
        call.require(call.shape("kroneckerP2") == (n, n), "kroneckerP2", f"must have shape {(n, n)}")
    parts = 8 if call.dtype("out") is DataType.INT32 else 2
    call.require(n % parts == 0, "x", f"has shape {call.shape('x')}; its last axis must be a multiple of {parts}")


def _flat_fp4(call: Call) -> bool:
    return call.is_present("out") and call.dtype("out") is DataType.FLOAT4_E2M1


def _flat_outputs(call: Call) -> None:
    if _flat_fp4(call):
        rank(2, 2, "out")(call)
        rank(3, 3, "quantScale")(call)
        rows = call.shape("x")[0]
        call.require(call.shape("quantScale")[0] == rows, "quantScale", f"must have {rows} on axis 0")
    else:
        output_shape(out=_flat_out, quantScale=_flat_scale)(call)


def _flat_out(call: Call) -> Shape:
    """INT32 and INT4 are packed; Ascend 950's blocks of FLOAT4_E2M1 have one row for each of x."""
    sizes = call.shape("x")
    if _flat_fp4(call) and len(sizes) == 3:
        return sizes[0], sizes[1] * sizes[2]
    return packed("x", "out", "out")(call) if call.is_present("out") else sizes


def _flat_scale(call: Call) -> Shape:
    return call.shape("x")[:1]


def _flat_groups(call: Call) -> None:
    kind, name = call["groupListType"], "groupListOptional"
    if not call.is_present(name):
        return
    call.require(call.product != "950", name, f"is given; on {call.soc.name} it must be None")
    one_of("groupListType", 0, 1, 2)(call)
    dtypes("INT64", name)(call)
    sizes = call.shape(name)
    if kind == 2:
        call.require(len(sizes) == 2 and sizes[1] == 2, name, f"has shape {sizes}; it must be (n, 2)")
    else:
        call.require(len(sizes) == 1, name, f"has shape {sizes}; it must be (n,)")
    call.require(sizes[0] <= 1024, name, f"has {sizes[0]} groups; it must have at most 1024")


def _not_nz(call: Call) -> None:
    for name in ("x", "out", "quantScale"):
        call.require(call[name].format is not Format.FRACTAL_NZ, name, "has format FRACTAL_NZ; it must be ND")


def _clip_ratio(call: Call) -> None:
    call.require(0 < call["clipRatio"] <= 1, "clipRatio", f"is {call['clipRatio']}; it must be in (0, 1]")


def _type_max(call: Call) -> None:
    most = call["dstTypeMax"]
    call.require(most == 0 or 6 <= most <= 12, "dstTypeMax", f"is {most}; it must be 0, or in [6, 12]")


for _name, _more in (
    ("aclnnFlatQuant", ()),
    ("aclnnFlatQuantV2", (_type_max,)),
    ("aclnnFlatQuantV3", (_type_max, _flat_groups)),
):
    rule(
        _name,
        dtypes({"A2 A3 950": "FLOAT16 BF16"}, "x", "kroneckerP1", "kroneckerP2"),
        dtypes({"A2 A3": "INT32 INT4", "950": "INT32 INT4 FLOAT4_E2M1"}, "out"),
        dtypes({"A2 A3": "FLOAT", "950": "FLOAT FLOAT8_E8M0"}, "quantScale"),
        same_dtype("x", "kroneckerP1", "kroneckerP2"),
        _flat_sizes,
        _flat_outputs,
        _not_nz,
        _clip_ratio,
        *_more,
        infer_shape(out=_flat_out, quantScale=_flat_scale),
        output_dtype(out="INT4", quantScale="FLOAT"),
    )

# --------------------------------------------------------------------------------------------------- parameters of the fixpipe


def _parameter_shapes(call: Call) -> None:
    """A vector or one row (on Ascend 950 scale may have several)."""
    for name in ("scale", "offset"):
        if call.is_present(name):
            sizes = call.shape(name)
            rows = 1 if len(sizes) == 1 or (name == "scale" and call.product == "950") else sizes[0] if sizes else 0
            fine = len(sizes) in (1, 2) and rows == 1 and math.prod(sizes) > 0
            call.require(fine, name, f"has shape {sizes}; it must be (n,) or (1, n)")
    if call.is_present("offset"):
        here, there = call.shape("scale")[-1], call["offset"].size
        if here > 1 and there > 1 and here != there:
            call.refuse("offset", f"has {there} elements; it must have 1 or {here}, as scale")


def _parameters_out(call: Call) -> Shape:
    """The longer of scale and offset."""
    scale, offset = call.shape("scale"), call.shape("offset")
    return offset if call.is_present("offset") and math.prod(offset) > math.prod(scale) else scale


for _name, _modes in (("aclnnTransQuantParamV2", ()), ("aclnnTransQuantParamV3", (0, 1))):
    rule(
        _name,
        dtypes("FLOAT", "scale", "offset"),
        dtypes("UINT64 INT64", "out"),
        formats("ND", "scale", "offset", "out"),
        _parameter_shapes,
        *(one_of("roundMode", *_modes) for _ in _modes[:1]),
        infer_shape(out=_parameters_out),
        output_dtype(out="UINT64"),
    )

# --------------------------------------------------------------------------------------------------- to small floats


def _float8(call: Call) -> None:
    target = dtype_attribute("dstType")(call)
    call.require(target in SMALL_FLOATS, "dstType", f"is {call['dstType']}; it must be 34, 35 or 36 (8-bit floats)")


def _one_scale(call: Call) -> None:
    call.require(call.shape("scale") == (1,), "scale", f"has shape {call.shape('scale')}; it must be (1,)")


def _group_scales(call: Call) -> None:
    dtypes("INT64", "groupList")(call)
    for name in ("scale", "groupList"):
        call.require(call[name].size > 0, name, "is empty")


for _name, _ranks, _scales, _amax in (
    ("aclnnQuantMax", 1, _one_scale, output_shape(amax=lambda call: (1,))),
    ("aclnnGroupedQuantMax", 2, _group_scales, infer_shape(amax=shape_of("groupList"))),
):
    rule(
        _name,
        dtypes("FLOAT FLOAT16 BF16", "x"),
        rank(_ranks, 8, "x"),
        dtypes("FLOAT", "scale"),
        _scales,
        _float8,
        _round_mode("roundMode", "rint"),
        has_dtype("y", dtype_attribute("dstType")),
        output_shape(y=shape_of("x")),
        same_dtype("x", "amax"),
        _amax,
        when(lambda call: call["x"].size > 0, documented_products),
        output_dtype(y=dtype_attribute("dstType")),
        nullable="roundMode",
    )

# --------------------------------------------------------------------------------------------------- dequantising


def _two_axes(call: Call) -> Shape:
    rank(2, 2, "x")(call)
    return call.shape("x")


def _bias_dequant(call: Call) -> None:
    n = call.size("x", 1)
    for name, size in (("weightScale", n), ("activateScaleOptional", call.size("x", 0)), ("biasOptional", n)):
        if call.is_present(name):
            call.require(call.shape(name) == (size,), name, f"has shape {call.shape(name)}; it must be {(size,)}")


rule(
    "aclnnDequantBias",
    documented_products,
    documented_dtypes(),
    tiling(
        output_shape(out=_two_axes),
        _bias_dequant,
        one_of("outputDtype", int(DataType.FLOAT16), int(DataType.BF16)),
        has_dtype("out", dtype_attribute("outputDtype")),
    ),
    output_dtype(out=dtype_attribute("outputDtype")),
)
