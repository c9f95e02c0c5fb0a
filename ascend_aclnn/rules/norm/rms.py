"""Rules of the RMS norms, alone and fused with an addition, a cast or a quantisation."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *

# (x, gamma): A2 also mixes a 16-bit x with an fp32 gamma.
_RMS_A2 = ("FLOAT16 FLOAT16", "FLOAT16 FLOAT", "BF16 BF16", "BF16 FLOAT", "FLOAT FLOAT")
_RMS_OLD = ("FLOAT16 FLOAT16", "FLOAT FLOAT")


def _rms_columns(names: str, *, grad: bool) -> tuple[Check, ...]:
    """dtype rows for RmsNorm (x gamma y rstd) and RmsNormGrad (dy x rstd gamma dx dgamma)."""

    def rows(pairs: tuple[str, ...]) -> list[str]:
        cells = (pair.split() for pair in pairs)
        return [f"{x} {x} FLOAT {g} {x} FLOAT" if grad else f"{x} {g} {x} FLOAT" for x, g in cells]

    return (
        dtype_table(names, *rows(_RMS_A2), products="A2 A3 950"),
        dtype_table(names, *rows(_RMS_OLD), products="310P 910"),
    )


def _split(call: Call, name: str = "x") -> int:
    """Leading axes of x that are not normalised; gamma must be the trailing ones."""
    x, gamma = call.shape(name), call.shape("gamma")
    n = len(x) - len(gamma)
    fits = n >= 0 and x[n:] == gamma
    call.require(fits, "gamma", f"has shape {gamma}; it must be the trailing axes of {name}, {x}")
    return n


def _grad_shapes(call: Call) -> None:
    x, rstd = call.shape("x"), call.shape("rstd")
    n = _split(call)
    rows = math.prod(x[:n])
    text = f"has shape {rstd}; it must be the leading axes of x, {x[:n]}"
    call.require(all(a == b for a, b in zip(rstd, x[:n])), "rstd", text)
    call.require(all(a == 1 for a in x[len(rstd) : n]) and math.prod(rstd) == rows, "rstd", text)
    call.require(x[-1] > 0 and rows > 0, "x", f"has shape {x}; empty tensors are not supported")
    text = f"normalises {math.prod(x[n:])} elements a row; on {call.soc.name} it must be a multiple of 64"
    call.require(call.product != "910" or math.prod(x[n:]) % 64 == 0, "gamma", text)


rule(
    "aclnnRmsNormGrad",
    only_products("A2 A3 310P 910 950"),
    *_rms_columns("dy x rstd gamma dxOut dgammaOut", grad=True),
    tiling(
        rank(1, 8, "dy", "x", "rstd", "gamma", "dxOut", "dgammaOut"),
        same_shape("x", "dy"),
        output_shape(dxOut=shape_of("x"), dgammaOut=shape_of("gamma")),
        _grad_shapes,
    ),
    output_dtype(dxOut=dtype_of("x"), dgammaOut="FLOAT"),
)


def rows(name: str) -> ShapeRule:
    """One number for every normalised row: the shape of a tensor with 1 on the axes of gamma."""

    def sizes(call: Call) -> Shape:
        n = _split(call, name)
        return call.shape(name)[:n] + (1,) * len(call.shape("gamma"))

    return sizes


def _gamma_of_x(call: Call) -> None:
    """gamma is the trailing axes of x."""
    _split(call, "x")


rule(
    "aclnnRmsNorm",
    only_products("A2 A3 310P 910 950"),
    *_rms_columns("x gamma yOut rstdOut", grad=False),
    tiling(
        rank(1, 8, "x", "gamma", "yOut", "rstdOut"),
        _gamma_of_x,
        output_shape(yOut=shape_of("x")),
        # As CANN's tiling: each axis is that of x or 1; trailing ones may be left out.
        require(
            "len(rstdOut) <= len(x)",
            "all(r in (n, 1) for r, n in zip(rstdOut, x))",
            "rstdOut.size == prod(x[: len(x) - len(gamma)])",
        ),
    ),
    infer_shape(rstdOut=rows("x")),
    output_dtype(yOut=dtype_of("x"), rstdOut="FLOAT"),
)


def _gamma_is_tail(name: str) -> Check:
    def check(call: Call) -> None:
        _split(call, name)

    return check


rule(
    "aclnnGemmaRmsNorm",
    only_products("A2 A3 950"),
    dtype_table(
        "x gamma yOut rstdOut",
        "BF16 BF16 BF16 FLOAT",
        "FLOAT16 FLOAT16 FLOAT16 FLOAT",
        "FLOAT FLOAT FLOAT FLOAT",
        products="A2 A3",
    ),
    dtype_table(
        "x gamma yOut rstdOut",
        "FLOAT16 FLOAT FLOAT16 FLOAT",
        "BF16 FLOAT BF16 FLOAT",
        "FLOAT16 FLOAT16 FLOAT16 FLOAT",
        "FLOAT FLOAT FLOAT FLOAT",
        "BF16 BF16 BF16 FLOAT",
        products="950",
    ),
    tiling(rank(1, 8, "x", "gamma"), output_shape(yOut=shape_of("x"), rstdOut=rows("x"))),
    output_dtype(yOut=dtype_of("x"), rstdOut="FLOAT"),
)

# ------------------------------------------------------------------------------------------------- x1 + x2, then the norm


def _add_outputs(call: Call) -> None:
    """rstd and the sum are both wanted, or the sum alone, or neither."""
    lone = call.is_present("rstdOut") and not call.is_present("xOut")
    call.require(not lone, "xOut", "is None (a null pointer), but rstd_out is given", PARAM_NULLPTR)


def _add_dtypes(call: Call) -> None:
    """Without rstd the kernel is another one, for 16-bit types and gammas of at most two axes."""
    names = "FLOAT FLOAT16 BF16" if call.is_present("rstdOut") else "FLOAT16 BF16"
    if call.product == "310P":
        names = names.replace(" BF16", "")
    dtypes(names, "x1", "x2", "gamma")(call)
    same_dtype("x1", "x2", "gamma", "yOut", "xOut")(call)
    dtypes("FLOAT", "rstdOut")(call)


def _add_shapes(call: Call) -> None:
    rank(1, 8, "x1", "x2", "gamma")(call)
    same_shape("x1", "x2", "yOut")(call)
    if not call.is_present("rstdOut"):
        rank(1, 2, "gamma")(call)
    rank(0, 8, "rstdOut")(call)
    same_shape("x1", "xOut")(call)


rule(
    "aclnnAddRmsNorm",
    _add_outputs,
    _add_dtypes,
    _add_shapes,
    unless_empty("x1 gamma", tiling(_gamma_is_tail("x1"))),
    infer_shape(yOut=shape_of("x1"), rstdOut=rows("x1"), xOut=shape_of("x1")),
    output_dtype(yOut=dtype_of("x1"), rstdOut="FLOAT", xOut=dtype_of("x1")),
)

_ADD_ROWS = ("FLOAT16 FLOAT16 FLOAT16 FLOAT", "FLOAT FLOAT FLOAT FLOAT")
rule(
    "aclnnInplaceAddRmsNorm",
    only_products("A2 A3 310P 950"),
    dtype_table("x1Ref x2Ref gamma rstdOut", *_ADD_ROWS, "BF16 BF16 BF16 FLOAT", products="A2 A3 950"),
    dtype_table("x1Ref x2Ref gamma rstdOut", *_ADD_ROWS, products="310P"),
    tiling(rank(1, 8, "x1Ref", "x2Ref", "gamma"), same_shape("x1Ref", "x2Ref"), output_shape(rstdOut=rows("x1Ref"))),
    output_dtype(rstdOut="FLOAT"),
)
rule(
    "aclnnAddRmsNormCast",
    only_products("A2 A3 950"),
    dtype_table(
        "x1 x2 gamma y1Out y2Out rstdOut xOut",
        "FLOAT16 FLOAT16 FLOAT16 FLOAT FLOAT16 FLOAT FLOAT16",
        "BF16 BF16 BF16 FLOAT BF16 FLOAT BF16",
    ),
    tiling(
        rank(1, 8, "x1", "x2", "gamma"),
        same_shape("x1", "x2"),
        output_shape(y1Out=shape_of("x1"), y2Out=shape_of("x1"), rstdOut=rows("x1"), xOut=shape_of("x1")),
    ),
    output_dtype(y1Out="FLOAT", y2Out=dtype_of("x1"), rstdOut="FLOAT", xOut=dtype_of("x1")),
)

# ------------------------------------------------------------------------------------------------- quantised per token

_HALF = "FLOAT16 BF16"
_QUANTISED = "FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8 INT8"


def _token_scales(name: str) -> ShapeRule:
    """One scale for every token: the leading axes."""
    return lambda call: call.shape(name)[:-1]


def _dynamic_shapes(call: Call) -> None:
    same_shape("x1", "x2")(call)
    rank(1, 1, "gamma")(call)
    last, gamma = call.size("x1", -1), call.shape("gamma")
    call.require(gamma == (last,), "gamma", f"has shape {gamma}; it must be ({last},), the last axis of x1")
    same_shape("gamma", "smoothScale1Optional", "smoothScale2Optional")(call)


rule(
    "aclnnAddRmsNormDynamicQuant",
    dtypes(_HALF, "x1", "x2", "gamma", "smoothScale1Optional", "smoothScale2Optional"),
    dtypes(_QUANTISED, "y1Out", "y2Out"),
    same_dtype("y1Out", "y2Out"),
    dtypes(_HALF, "xOut"),
    dtypes("FLOAT", "scale1Out", "scale2Out"),
    tiling(_dynamic_shapes),
    infer_shape(
        y1Out=shape_of("x1"),
        y2Out=shape_of("x1"),
        xOut=shape_of("x1"),
        scale1Out=_token_scales("x1"),
        scale2Out=_token_scales("x1"),
    ),
    output_dtype(y1Out="INT8", y2Out="INT8", xOut=dtype_of("x1"), scale1Out="FLOAT", scale2Out="FLOAT"),
)


def _wanted(call: Call) -> tuple[bool, bool]:
    """Which of the two quantised outputs AddRmsNormDynamicQuantV2 makes."""
    mask = call["outputMask"]
    if mask is None:
        return True, call.is_present("smoothScale1Optional") and call.is_present("smoothScale2Optional")
    call.require(len(mask) == 2, "outputMask", f"has {len(mask)} items; it must have 2")
    return bool(mask[0]), bool(mask[1])


def _output_mask(call: Call) -> None:
    mask = call["outputMask"]
    if mask is None:
        alone = call.is_present("smoothScale2Optional") and not call.is_present("smoothScale1Optional")
        call.require(not alone, "smoothScale2Optional", "is given without smooth_scale1")
        return
    call.require(len(mask) == 2, "outputMask", f"has {len(mask)} items; it must have 2")
    for wanted, name in zip(mask, ("smoothScale1Optional", "smoothScale2Optional")):
        call.require(wanted or not call.is_present(name), name, "is given, but output_mask does not want its output")
    call.require(any(mask), "outputMask", "wants no output")


def _wanted_given(call: Call) -> None:
    for number, wanted in enumerate(_wanted(call), 1):
        for name in (f"y{number}Out", f"scale{number}Out"):
            call.require(
                not wanted or call.is_present(name), name, "is None (a null pointer); it is required", PARAM_NULLPTR
            )


def _packed_last_axis(call: Call, name: str, source: str) -> None:
    """Eight 4-bit numbers stand in one INT32."""
    came, wanted = call.size(name, -1), call.size(source, -1)
    text = f"has {came} on its last axis; as INT32 it must be an eighth of {call.python_name(source)}'s {wanted}"
    call.require(came * 8 == wanted, name, text)


def _dynamic_outputs(call: Call) -> None:
    names = [f"y{number}Out" for number, wanted in enumerate(_wanted(call), 1) if wanted]
    if len({call.dtype(name) for name in names}) > 1:
        call.refuse("y2Out", f"has dtype {call.dtype('y2Out').name}; it must be that of y1_out")
    for name in names:
        if call.dtype(name) is DataType.INT32:
            _packed_last_axis(call, name, "x1")


def _if_wanted(number: int, wanted: ShapeRule) -> ShapeRule:
    return lambda call: wanted(call) if _wanted(call)[number] else (1,)


rule(
    "aclnnAddRmsNormDynamicQuantV2",
    _output_mask,
    _wanted_given,
    unless_empty("x1 x2 gamma y2Out", _dynamic_outputs, documented_dtypes("x1", "gamma")),
    tiling(
        require("x2 == x1", "gamma == x1[-1:]"),
        same_shape("gamma", "smoothScale1Optional", "smoothScale2Optional", "betaOptional"),
    ),
    infer_shape(
        y1Out=_if_wanted(0, shape_of("x1")),
        y2Out=_if_wanted(1, shape_of("x1")),
        xOut=shape_of("x1"),
        scale1Out=_if_wanted(0, _token_scales("x1")),
        scale2Out=_if_wanted(1, _token_scales("x1")),
    ),
    output_dtype(y1Out="INT8", y2Out="INT8", xOut=dtype_of("x1"), scale1Out="FLOAT", scale2Out="FLOAT"),
    nullable="y1Out y2Out scale1Out scale2Out",
)
rule(
    "aclnnRmsNormDynamicQuant",
    only_products("A2 A3"),
    dtype_table(
        "x gamma smoothScalesOptional betaOptional yOut scaleOut",
        "FLOAT16 FLOAT16 FLOAT16 FLOAT16 INT8 FLOAT",
        "BF16 BF16 BF16 BF16 INT8 FLOAT",
    ),
    tiling(
        _gamma_is_tail("x"),
        same_shape("gamma", "smoothScalesOptional", "betaOptional"),
        output_shape(yOut=shape_of("x")),
    ),
    infer_shape(scaleOut=lambda call: call.shape("x")[: _split(call)]),
    output_dtype(yOut="INT8", scaleOut="FLOAT"),
)

# ------------------------------------------------------------------------------------------------- quantised by scales

_WIDE = "FLOAT FLOAT16 BF16"
_POINTS = "INT32 FLOAT FLOAT16 BF16"
_SCALES = ("scales1", "scales2Optional", "zeroPoints1Optional", "zeroPoints2Optional")

rule(
    "aclnnAddRmsNormQuant",
    dtypes(_WIDE, "x1", "x2", "gamma", "scales1", "scales2Optional"),
    dtypes(_POINTS, "zeroPoints1Optional", "zeroPoints2Optional"),
    dtypes(_QUANTISED, "y1Out", "y2Out"),
    same_dtype("y1Out", "y2Out"),
    dtypes(_WIDE, "xOut"),
    rank(1, 8, "x1", "x2", "gamma", *_SCALES, "y1Out", "y2Out", "xOut"),
    tiling(
        require("x2 == x1", "gamma == x1[len(x1) - len(gamma):]", "scales1 == gamma"),
        same_shape("gamma", "scales2Optional", "zeroPoints1Optional", "zeroPoints2Optional"),
    ),
    infer_shape(y1Out=shape_of("x1"), y2Out=shape_of("x1"), xOut=shape_of("x1")),
    output_dtype(y1Out="INT8", y2Out="INT8", xOut=dtype_of("x1")),
)


def _one_number(call: Call, name: str) -> bool:
    return call.shape(name) == (1,)


def _extended(call: Call) -> bool:
    """Whether AddRmsNormQuantV2 takes the kernel with a bias or an output of the norm; other calls go to the older one."""
    if call.product == "950":
        return True
    if call.product not in ("A2", "A3", "310P") or not call["divMode"]:
        return False
    if call.is_present("zeroPoints2Optional") or call.is_present("scales2Optional"):
        return False
    biased, normed, summed = call.is_present("betaOptional"), call.is_present("rmsNormOut"), call.is_present("xOut")
    last = call.shape("x1")[-1:]
    gamma = call.shape("gamma") in (last, (1, *last)) and not (
        call.shape("gamma") == (1,) and not biased and not normed
    )
    points = call.is_present("zeroPoints1Optional") and _one_number(call, "zeroPoints1Optional")
    outputs = (summed and not normed) if biased else (normed and not summed)
    return gamma and points and _one_number(call, "scales1") and outputs


def _extended_checks(call: Call) -> None:
    new = call.product == "950"
    dtypes(_WIDE if new else _HALF, "x1", "x2", "gamma", "betaOptional")(call)
    dtypes(_WIDE if new else "FLOAT BF16", "scales1")(call)
    dtypes(_POINTS if new else "INT32 BF16", "zeroPoints1Optional")(call)
    if new:
        dtypes(_WIDE, "scales2Optional")(call)
        dtypes(_POINTS, "zeroPoints2Optional")(call)
    same_dtype("x1", "x2", "gamma")(call)
    dtypes(_QUANTISED if new else "INT8", "y1Out", "y2Out")(call)
    dtypes(_WIDE if new else _HALF, "rmsNormOut", "xOut")(call)
    rank(0, 8, "x1", "x2", "gamma", "scales1", "betaOptional", "zeroPoints1Optional", "y1Out")(call)
    same_shape("x1", "y1Out", "y2Out", "rmsNormOut", "xOut")(call)


def _enough_to_normalise(call: Call) -> None:
    _split(call, "x1")
    total = math.prod(call.shape("gamma"))
    text = f"normalises {total} elements a row; on {call.soc.name} it must be at least 32"
    call.require(call.product != "310P" or total >= 32, "gamma", text)


def _plain_checks(call: Call) -> None:
    call.require(call.is_present("xOut"), "xOut", "is None (a null pointer); it is required", PARAM_NULLPTR)
    call.require(
        not call.is_present("rmsNormOut"), "rmsNormOut", "is given; it goes with other arguments", PARAM_NULLPTR
    )
    rank(1, 8, "x1", "x2", "gamma", *_SCALES, "betaOptional", "y1Out", "y2Out", "xOut")(call)
    old = call.product in ("A2", "A3", "310P")
    dtypes("FLOAT BF16" if old else _WIDE, "scales1", "scales2Optional")(call)
    dtypes("INT32 BF16" if old else _POINTS, "zeroPoints1Optional", "zeroPoints2Optional")(call)
    dtypes(_HALF if old else _WIDE, "x1", "x2", "gamma", "betaOptional", "xOut")(call)
    dtypes("INT8", "y1Out", "y2Out")(call)
    same_shape("x1", "x2", "y1Out", "y2Out", "xOut")(call)
    if old:
        same_shape("gamma", *_SCALES)(call)
    same_shape("gamma", "betaOptional")(call)
    _enough_to_normalise(call)


def _quant_v2(call: Call) -> None:
    if any(call.is_empty(name) for name in ("x1", "gamma", "y2Out")):
        return
    if _extended(call):
        _extended_checks(call)
    else:
        _plain_checks(call)


rule(
    "aclnnAddRmsNormQuantV2",
    _quant_v2,
    infer_shape(y1Out=shape_of("x1"), y2Out=shape_of("x1"), xOut=shape_of("x1"), rmsNormOut=lambda call: None),
    output_dtype(y1Out="INT8", y2Out="INT8", xOut=dtype_of("x1")),
    nullable="xOut",
)


def _quant_dtypes(call: Call) -> None:
    """scale and offset go with x on the older chips; Ascend 950 has more pairs of them."""
    if call.product != "950":
        same_dtype("x", "scale")(call)
        dtypes("INT8", "offset")(call)
        return
    dtypes(f"{_POINTS} INT8", "offset")(call)
    x, scale, offset = (call.dtype(name).name for name in ("x", "scale", "offset"))
    if x == "FLOAT":
        allowed = {("FLOAT", "FLOAT")}
    else:
        allowed = {("FLOAT", "FLOAT"), ("FLOAT", "INT32"), (x, x), (x, "INT8")}
    pairs = ", ".join("/".join(pair) for pair in sorted(allowed))
    call.require(
        (scale, offset) in allowed, "scale", f"and offset have dtypes {scale}/{offset}; with x {x} they must be {pairs}"
    )


def _quant_shapes(call: Call) -> None:
    rank(1, 8, "x", "y")(call)
    rank(1, 2, "gamma", "beta")(call)
    sizes, out = call.shape("x"), call.shape("y")
    last = call.size("gamma", -1)
    call.require(last == sizes[-1], "gamma", f"has {last} on its last axis; x has {sizes[-1]}")
    new = call.product == "950"
    if call.dtype("y") is DataType.INT32:
        call.require(not new or out[:-1] == sizes[:-1], "y", f"has shape {out}; its first axes must be {sizes[:-1]}")
        _packed_last_axis(call, "y", "x")
    elif new:
        call.require(out == sizes, "y", f"has shape {out}; it must be {sizes}, as x")
        even = call.dtype("y") is not DataType.INT4 or sizes[-1] % 2 == 0
        call.require(even, "x", f"has {sizes[-1]} on its last axis; as INT4 it must be even")
    else:
        call.require(out[-1] == sizes[-1], "y", f"has {out[-1]} on its last axis; x has {sizes[-1]}")
    same_shape("gamma", "beta")(call)
    same_shape("scale", "offset")(call)


rule(
    "aclnnRmsNormQuant",
    dtypes({"950": _WIDE, "A2 A3": _HALF, "310P 310B": "FLOAT16", "": ""}, "x"),
    same_dtype("x", "gamma", "beta"),
    dtypes({"950": f"{_QUANTISED} INT4 INT32", "A2 A3": "INT8 INT4 INT32", "310P 310B": "INT8", "": ""}, "y"),
    _quant_dtypes,
    _quant_shapes,
    infer_shape(y=shape_of("x")),
    output_dtype(y="INT8"),
)


def _quant_v3_shapes(call: Call) -> None:
    rank(1, 2, "gamma")(call)
    rank(1, 1, "scale")(call)
    if call.dtype("y") is DataType.INT32:
        _packed_last_axis(call, "y", "x")


def _rstd_if_wanted(call: Call) -> None:
    missing = call["outputRstd"] and not call.is_present("rstdOut" if "rstdOut" in call.operator.positions else "rstd")
    call.require(not missing, "outputRstd", "is True, but rstd is None (a null pointer)", PARAM_NULLPTR)


rule(
    "aclnnRmsNormQuantV3",
    _rstd_if_wanted,
    _quant_v3_shapes,
    only_products("950"),
    documented_dtypes(),
    infer_shape(y=shape_of("x"), rstd=rows("x")),
    output_dtype(y="INT8", rstd="FLOAT"),
    nullable="rstd",
)

# ------------------------------------------------------------------------------------------------- microscaled

MX_BLOCK = 32  # elements that share a scale; scales come in pairs


def _mx_scales(name: str) -> ShapeRule:
    def sizes(call: Call) -> Shape:
        own = call.shape(name)
        blocks = -(-call.size(name, -1) // MX_BLOCK)
        return (*own[:-1], -(-blocks // 2), 2)

    return sizes


def _rstd_or_none(name: str) -> ShapeRule:
    return lambda call: rows(name)(call) if call["outputRstd"] else None


rule(
    "aclnnRmsNormDynamicMxQuant",
    _rstd_if_wanted,
    only_products("950"),
    documented_dtypes(),
    tiling(
        _gamma_is_tail("x"), same_shape("gamma", "beta"), output_shape(yOut=shape_of("x"), mxscaleOut=_mx_scales("x"))
    ),
    infer_shape(rstdOut=_rstd_or_none("x")),
    output_dtype(yOut=dtype_attribute("dstType"), mxscaleOut="FLOAT8_E8M0", rstdOut="FLOAT"),
    nullable="rstdOut",
)
rule(
    "aclnnAddRmsNormDynamicMxQuant",
    _rstd_if_wanted,
    only_products("950"),
    documented_dtypes(),
    tiling(
        same_shape("x1", "x2"),
        _gamma_is_tail("x1"),
        same_shape("gamma", "beta"),
        output_shape(yOut=shape_of("x1"), xOut=shape_of("x1"), mxscaleOut=_mx_scales("x1")),
    ),
    infer_shape(rstdOut=_rstd_or_none("x1")),
    output_dtype(yOut=dtype_attribute("dstType"), xOut=dtype_of("x1"), mxscaleOut="FLOAT8_E8M0", rstdOut="FLOAT"),
)
rule(
    "aclnnRmsNormGradQuant",
    only_products("950"),
    documented_dtypes(),
    tiling(_gamma_is_tail("x"), same_shape("x", "dy")),
    infer_shape(dxOut=shape_of("x"), dgammaOut=shape_of("gamma")),
    output_dtype(dxOut="INT8", dgammaOut="FLOAT"),
)
