"""Rules of the layer norms, alone and fused with an addition or a quantisation."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.norm.rms import rows

_AFFINE = ("weightOptional", "biasOptional")
HIGH_PRECISION, HIGH_PERFORMANCE, KEEP_FP16 = range(3)


def _affine_dtypes(allowed: DtypeSet) -> Check:
    """weight and bias are FLOAT or as input, and agree."""

    def check(call: Call) -> None:
        for name in _AFFINE:
            dtypes(allowed, name)(call)
            if call.is_present(name) and call.dtype(name) is not DataType.FLOAT:
                same_dtype("input", name)(call)
        same_dtype("weightOptional", "biasOptional")(call)

    return check


def _normalised_axes(call: Call) -> None:
    """normalizedShape is the trailing axes of input; weight and bias have exactly these axes."""
    axes, sizes = tuple(call["normalizedShape"]), call.shape("input")
    max_rank(8, "input", "out", *_AFFINE, "meanOutOptional", "rstdOutOptional")(call)
    call.require(1 <= len(axes) <= 8, "normalizedShape", f"is {axes}; it must have 1 to 8 items")
    text = f"is {axes}; it must be the last axes of input, {sizes}"
    call.require(len(axes) <= len(sizes), "normalizedShape", text)
    rank(len(axes), len(axes), *_AFFINE)(call)
    call.require(sizes[len(sizes) - len(axes) :] == axes, "normalizedShape", text)
    for name in _AFFINE:
        if call.is_present(name):
            came = call.shape(name)
            call.require(came == axes, name, f"has shape {came}; it must be {axes}, the normalised axes")


def _row_shape(call: Call) -> Shape:
    """Of mean and rstd: input with 1 on the normalised axes."""
    sizes, n = call.shape("input"), len(call["normalizedShape"])
    return sizes[: max(len(sizes) - n, 0)] + (1,) * n


def _row_outputs(call: Call) -> None:
    wanted = _row_shape(call)
    for name in ("meanOutOptional", "rstdOutOptional"):
        if call.is_present(name) and not call.is_empty(name):
            came = call.shape(name)
            call.require(came == wanted, name, f"has shape {came}; it must be {wanted}")
    if call.is_present("meanOutOptional"):
        same_shape("meanOutOptional", "rstdOutOptional")(call)


def _impl_mode(call: Call) -> None:
    mode = call["implMode"]
    call.require(HIGH_PRECISION <= mode <= KEEP_FP16, "implMode", f"is {mode}; it must be in [0, 2]")
    if mode == KEEP_FP16:
        dtypes("FLOAT16", "input", *_AFFINE)(call)


def _layer_norm(name: str, allowed: DtypeSet, *last: Check) -> None:
    rule(
        name,
        dtypes(allowed, "input"),
        _affine_dtypes(allowed),
        dtypes(allowed, "out", "meanOutOptional", "rstdOutOptional"),
        _normalised_axes,
        output_shape(out=shape_of("input")),
        *last,
        infer_shape(meanOutOptional=_row_shape, rstdOutOptional=_row_shape),
        output_dtype(out=dtype_of("input"), meanOutOptional="FLOAT", rstdOutOptional="FLOAT"),
    )


_layer_norm("aclnnLayerNorm", FLOATS_OF_PRODUCT, on_products("950", _row_outputs))
_layer_norm("aclnnLayerNormWithImplMode", FLOATS_OF_PRODUCT, on_products("950", _row_outputs), _impl_mode)
_layer_norm("aclnnFastLayerNorm", FLOATS)


# ------------------------------------------------------------------------------------------------- LayerNormBackward

_GRADS = ("gradInputOut", "gradWeightOut", "gradBiasOut")


def wanted_outputs(call: Call, names: tuple[str, ...]) -> list[str]:
    """The outputs that outputMask asks for."""
    mask = call["outputMask"] or ()
    return [name for name, wanted in zip(names, mask) if wanted]


def mask_and_outputs(names: tuple[str, ...]) -> Check:
    """outputMask has an item for each output; those it asks for are given."""

    def check(call: Call) -> None:
        mask = call["outputMask"]
        call.require(len(mask) == len(names), "outputMask", f"has {len(mask)} items; it must have {len(names)}")
        for name in wanted_outputs(call, names):
            call.require(
                call.is_present(name), name, "is None (a null pointer), but output_mask asks for it", PARAM_NULLPTR
            )

    return check


def if_wanted(name: str, names: tuple[str, ...], wanted: ShapeRule) -> ShapeRule:
    """The shape of an output that outputMask asks for, else none."""
    return lambda call: wanted(call) if name in wanted_outputs(call, names) else None


def _backward_dtypes(call: Call) -> None:
    dtypes(FLOATS, "gradOut", "input", "mean", "rstd")(call)
    same_dtype("input", "gradOut")(call)
    dtypes(FLOATS, "weightOptional")(call)
    if call.is_present("weightOptional") and call.dtype("weightOptional") is not DataType.FLOAT:
        same_dtype("input", "weightOptional")(call)
    dtypes(FLOATS, "biasOptional", *_GRADS)(call)


def _axes_equal(call: Call, name: str, axes: Shape) -> None:
    """As CANN compares them: it starts at the first normalised axis, so only some are looked at where few are normalised."""
    sizes = call.shape(name)
    first = len(sizes) - len(axes)
    pairs = [(axes[i], sizes[i + first] if i + first < len(sizes) else None) for i in range(first, len(axes))]
    fits = all(a == b for a, b in pairs)
    call.require(fits, name, f"has shape {sizes}; its last axes must be normalized_shape {axes}")


def _backward_shapes(call: Call) -> None:
    axes, sizes = tuple(call["normalizedShape"]), call.shape("input")
    max_rank(8, "gradOut", "input", "mean", "rstd", *wanted_outputs(call, _GRADS))(call)
    call.require(1 <= len(axes) <= 8, "normalizedShape", f"is {axes}; it must have 1 to 8 items")
    text = f"is {axes}; it must be the last axes of input, {sizes}"
    call.require(len(axes) <= len(sizes), "normalizedShape", text)
    _axes_equal(call, "input", axes)
    for name in _AFFINE:
        if call.is_present(name):
            rank(len(axes), len(axes), name)(call)
            _axes_equal(call, name, axes)
    same_shape("input", "gradOut")(call)
    same_shape("rstd", "mean")(call)
    first = len(sizes) - len(axes)
    count, width = math.prod(sizes[:first]), math.prod(sizes[first:])
    came = call["mean"].size
    call.require(came == count, "mean", f"has {came} items; it must have {count}, one for every row")
    wanted = wanted_outputs(call, _GRADS)
    if "gradInputOut" in wanted:
        same_shape("input", "gradInputOut")(call)
    for name in _GRADS[1:]:
        if name in wanted:
            came = call[name].size
            call.require(came == width, name, f"has {came} items; it must have {width}, those of a row")


def _affine_grad(call: Call) -> Shape:
    return tuple(call["normalizedShape"])


def _affine_grad_dtype(call: Call) -> DataType:
    return call.dtype("weightOptional") if call.is_present("weightOptional") else call.dtype("input")


rule(
    "aclnnLayerNormBackward",
    mask_and_outputs(_GRADS),
    _backward_dtypes,
    _backward_shapes,
    infer_shape(
        gradInputOut=if_wanted("gradInputOut", _GRADS, shape_of("input")),
        gradWeightOut=if_wanted("gradWeightOut", _GRADS, _affine_grad),
        gradBiasOut=if_wanted("gradBiasOut", _GRADS, _affine_grad),
    ),
    output_dtype(gradInputOut=dtype_of("input"), gradWeightOut=_affine_grad_dtype, gradBiasOut=_affine_grad_dtype),
)


# ------------------------------------------------------------------------------------------------- LayerNormQuant


def _zero_points_of_static(call: Call) -> None:
    missing = call["quantMode"] == 0 and not call.is_present("zeroPointsOptional")
    call.require(
        not missing, "zeroPointsOptional", "is None (a null pointer); with quant_mode 0 it is required", PARAM_NULLPTR
    )


def _static_shapes(call: Call) -> None:
    max_rank(8, "x")(call)
    max_rank(2, "gammma")(call)
    call.require(call["quantMode"] == 0, "quantMode", f"is {call['quantMode']}; it must be 0 (static)")
    last, own = call.size("gammma", -1), call.size("x", -1)
    call.require(last == own, "gammma", f"has {last} on its last axis; x has {own}")
    same_shape("gammma", "beta")(call)
    came = call.shape("scale")
    call.require(came == (1,), "scale", f"has shape {came}; it must be (1,)")
    rank(1, 1, "zeroPointsOptional")(call)


rule(
    "aclnnLayerNormQuant",
    _zero_points_of_static,
    dtypes({"950": FLOATS, "310P": "FLOAT16", "": "FLOAT16 BF16"}, "x"),
    same_dtype("x", "gammma", "beta", "scale"),
    dtypes("INT8", "zeroPointsOptional", "res"),
    _static_shapes,
    output_shape(res=shape_of("x")),
    infer_shape(scaleOut=lambda call: call.shape("x")[:-1]),
    output_dtype(res="INT8", scaleOut="FLOAT"),
    nullable="scaleOut",
)

# ------------------------------------------------------------------------------------------------- x1 + x2, then the norm

_ADD = "x1 x2 gamma beta biasOptional yOut meanOut rstdOut xOut"
_PLAIN = ("FLOAT16", "FLOAT")


def _uniform(dtype: str) -> str:
    return f"{dtype} {dtype} {dtype} {dtype} {dtype} {dtype} FLOAT FLOAT {dtype}"


rule(
    "aclnnAddLayerNorm",
    only_products("A2 A3 310P 950"),
    dtype_table(
        _ADD,
        "FLOAT FLOAT16 FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT",
        "FLOAT BF16 FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT",
        "FLOAT16 FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT",
        "BF16 FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT",
        "FLOAT16 FLOAT16 FLOAT FLOAT FLOAT16 FLOAT16 FLOAT FLOAT FLOAT16",
        "BF16 BF16 FLOAT FLOAT BF16 BF16 FLOAT FLOAT BF16",
        *map(_uniform, (*_PLAIN, "BF16")),
        products="A2 A3 950",
    ),
    dtype_table(_ADD, *map(_uniform, _PLAIN), products="310P"),
    tiling(
        rank(1, 8, "x1", "x2", "gamma", "beta"),
        same_shape("x1", "x2"),
        same_shape("gamma", "beta"),
        output_shape(yOut=shape_of("x1"), meanOut=rows("x1"), rstdOut=rows("x1")),
    ),
    infer_shape(xOut=shape_of("x1")),
    output_dtype(
        yOut=lambda call: _wider(call.dtype("x1"), call.dtype("x2")),
        meanOut="FLOAT",
        rstdOut="FLOAT",
        xOut=lambda call: _wider(call.dtype("x1"), call.dtype("x2")),
    ),
)


def _wider(a: DataType, b: DataType) -> DataType:
    return a if a is b else DataType.FLOAT


_GRAD = "dy x1 x2 rstd mean gamma dsumOptional dxOut dgammaOut dbetaOut"


def _grad_row(dtype: str) -> str:
    return f"{dtype} {dtype} {dtype} FLOAT FLOAT {dtype} {dtype} {dtype} FLOAT FLOAT"


rule(
    "aclnnAddLayerNormGrad",
    only_products("A2 A3 310P 950"),
    dtype_table(_GRAD, *map(_grad_row, (*_PLAIN, "BF16")), products="A2 A3 950"),
    dtype_table(_GRAD, *map(_grad_row, _PLAIN), products="310P"),
    tiling(
        rank(1, 8, "dy", "x1", "x2", "gamma"),
        same_shape("dy", "x1", "x2", "dsumOptional"),
        require("gamma == dy[len(dy) - len(gamma):]"),
        has_shape(
            mean="(*dy[:len(dy) - len(gamma)], *((1,) * len(gamma)))",
            rstd="(*dy[:len(dy) - len(gamma)], *((1,) * len(gamma)))",
        ),
        output_shape(dxOut=shape_of("dy"), dgammaOut=shape_of("gamma"), dbetaOut=shape_of("gamma")),
    ),
    output_dtype(dxOut=dtype_of("dy"), dgammaOut="FLOAT", dbetaOut="FLOAT"),
)

_DEEP, _DEEP_GRAD = "x gx beta gamma meanOut rstdOut yOut", "dy x gx gamma mean rstd dxOut dgxOut dbetaOut dgammaOut"


def _deep_row(dtype: str) -> str:
    return f"{dtype} {dtype} {dtype} {dtype} FLOAT FLOAT {dtype}"


def _deep_grad_row(dtype: str) -> str:
    return f"{dtype} {dtype} {dtype} {dtype} FLOAT FLOAT {dtype} {dtype} FLOAT FLOAT"


rule(
    "aclnnDeepNorm",
    only_products("A2 A3 310P 950"),
    dtype_table(_DEEP, *map(_deep_row, (*_PLAIN, "BF16")), products="A2 A3 950"),
    dtype_table(_DEEP, *map(_deep_row, _PLAIN), products="310P"),
    tiling(
        rank(2, 8, "x", "gx"),
        same_shape("x", "gx"),
        same_shape("gamma", "beta"),
        output_shape(meanOut=rows("x"), rstdOut=rows("x"), yOut=shape_of("x")),
    ),
    output_dtype(meanOut="FLOAT", rstdOut="FLOAT", yOut=dtype_of("x")),
)
rule(
    "aclnnDeepNormGrad",
    only_products("A2 A3 310P 950"),
    dtype_table(_DEEP_GRAD, *map(_deep_grad_row, (*_PLAIN, "BF16")), products="A2 A3 950"),
    dtype_table(_DEEP_GRAD, *map(_deep_grad_row, _PLAIN), products="310P"),
    tiling(
        rank(2, 8, "dy", "x", "gx"),
        same_shape("x", "dy", "gx"),
        require("gamma == dy[len(dy) - len(gamma):]"),
        has_shape(
            mean="(*dy[:len(dy) - len(gamma)], *((1,) * len(gamma)))",
            rstd="(*dy[:len(dy) - len(gamma)], *((1,) * len(gamma)))",
        ),
        output_shape(
            dxOut=shape_of("x"), dgxOut=shape_of("gx"), dbetaOut=shape_of("gamma"), dgammaOut=shape_of("gamma")
        ),
    ),
    output_dtype(dxOut=dtype_of("x"), dgxOut=dtype_of("x"), dbetaOut="FLOAT", dgammaOut="FLOAT"),
)


# ------------------------------------------------------------------------------------------------- and quantised

_SCALES = ("scales1Optional", "scales2Optional", "zeroPoints1Optional", "zeroPoints2Optional")


def _is_dynamic(call: Call) -> bool:
    return str(call["quantMode"]).startswith("dynamic")


def _quant_mode(dynamic_on: str) -> Check:
    """static anywhere; dynamic on some products."""

    def check(call: Call) -> None:
        mode = str(call["quantMode"])
        allowed = ("static", "dynamic") if call.product in dynamic_on.split() else ("static",)
        text = f"is {mode!r}; on {call.soc.name} it must be {' or '.join(allowed)}"
        call.require(mode.startswith(allowed), "quantMode", text)

    return check


def _quant_dtypes(*sums: str) -> Check:
    def check(call: Call) -> None:
        dynamic = _is_dynamic(call)
        dtypes("FLOAT16 BF16" if dynamic else FLOATS, "x1")(call)
        same_dtype("x1", "x2", "gamma", "beta", "biasOptional")(call)
        dtypes("INT8", "y1Out", "y2Out")(call)
        same_dtype("x1", *sums)(call)
        dtypes("FLOAT", "outScales1Out", "outScales2Out")(call)
        if call.is_present("scales1Optional"):
            dtypes("FLOAT16 BF16" if dynamic else FLOATS, "scales1Optional")(call)
            if dynamic:
                same_dtype("x1", "scales1Optional")(call)
            same_dtype("scales1Optional", *_SCALES[1:])(call)

    return check


def _token_scales(call: Call) -> None:
    """Dynamic: one scale for every token."""
    sizes, came = call.shape("x1"), call.shape("outScales1Out")
    call.require(len(sizes) >= 2 and came == sizes[:-1], "outScales1Out", f"has shape {came}; it must be {sizes[:-1]}")


def _bias_shape(call: Call) -> None:
    if call.is_present("biasOptional"):
        came, allowed = call.shape("biasOptional"), (call.shape("gamma"), call.shape("x1"))
        text = f"has shape {came}; it must be that of gamma {allowed[0]} or x1 {allowed[1]}"
        call.require(came in allowed, "biasOptional", text)


def _two_outputs(call: Call, *sums: str) -> None:
    same_shape("x1", "x2", *sums, "y1Out")(call)
    if call.is_present("scales2Optional"):
        same_shape("x1", "y2Out")(call)
        if _is_dynamic(call):
            same_shape("outScales1Out", "outScales2Out")(call)


def _combination(call: Call, allowed: tuple[str, ...]) -> None:
    """Which of scales1, scales2, zeroPoints1, zeroPoints2 are given, as a word of their numbers."""
    came = "".join(letter for letter, name in zip("sSzZ", _SCALES) if call.is_present(name))
    text = (
        "scales and zero points do not go together: scales2 needs scales1, zero points their scales, dynamic has none"
    )
    call.require(came in allowed, "scales1Optional", f"and its like: {text}")


def _quant_shapes(call: Call) -> None:
    max_rank(8, "x1", "gamma")(call)
    sizes, gamma = call.shape("x1"), call.shape("gamma")
    tail = len(sizes) >= len(gamma) and sizes[len(sizes) - len(gamma) :] == gamma
    call.require(tail, "gamma", f"has shape {gamma}; it must be the last axes of x1, {sizes}")
    if _is_dynamic(call):
        rank(1, 1, "gamma")(call)
        _token_scales(call)
    _two_outputs(call, "xOut")
    same_shape("gamma", "beta", *_SCALES)(call)
    _bias_shape(call)
    _combination(call, ("sS", "s", "") if _is_dynamic(call) else ("sSzZ", "sS", "sz", "s"))


def _quant_v2_shapes(call: Call) -> None:
    max_rank(8, "x1", "gamma")(call)
    same_shape("gamma", "beta")(call)
    sizes, gamma = call.shape("x1"), call.shape("gamma")
    if _is_dynamic(call):
        _token_scales(call)
    else:
        given = call.is_present("scales1Optional")
        scales = call.shape("scales1Optional")
        per_tensor = given and gamma == (1, *sizes[-1:]) and scales == (1,)
        text = f"has shape {scales}; it must be that of gamma {gamma}, or (1,) with a gamma (1, {sizes[-1:]})"
        call.require(per_tensor or (given and scales == gamma), "scales1Optional", text)
    _two_outputs(call, "xOut", "layernormRes")
    same_shape("scales1Optional", "zeroPoints1Optional")(call)
    same_shape("scales2Optional", "zeroPoints2Optional")(call)
    _bias_shape(call)
    if _is_dynamic(call):
        call.require(
            not call.is_present("zeroPoints1Optional"), "zeroPoints1Optional", "is given; dynamic quantisation has none"
        )


def _out_scales(name: str) -> ShapeRule:
    """One scale a token in dynamic mode; a stand-in where nothing is written."""

    def sizes(call: Call) -> Shape:
        second = name.endswith("2Out") and not call.is_present("scales2Optional")
        return call.shape("x1")[:-1] if _is_dynamic(call) and not second else (1,)

    return sizes


def _second(call: Call) -> Shape:
    return call.shape("x1") if call.is_present("scales2Optional") else (1,)


_OUTPUTS: dict[str, ShapeRule] = {
    "y1Out": shape_of("x1"),
    "y2Out": _second,
    "xOut": shape_of("x1"),
    "layernormRes": shape_of("x1"),
    "outScales1Out": _out_scales("outScales1Out"),
    "outScales2Out": _out_scales("outScales2Out"),
}
_OUTPUT_DTYPES = output_dtype(
    y1Out="INT8",
    y2Out="INT8",
    xOut=dtype_of("x1"),
    layernormRes=dtype_of("x1"),
    outScales1Out="FLOAT",
    outScales2Out="FLOAT",
)

rule(
    "aclnnAddLayerNormQuant",
    only_products("950"),
    _quant_mode("950"),
    _quant_dtypes("xOut"),
    _quant_shapes,
    infer_shape(**_OUTPUTS),
    _OUTPUT_DTYPES,
)
rule(
    "aclnnAddLayerNormQuantV2",
    _quant_mode("950"),
    _quant_dtypes("xOut", "layernormRes"),
    _quant_v2_shapes,
    infer_shape(**_OUTPUTS),
    _OUTPUT_DTYPES,
)
