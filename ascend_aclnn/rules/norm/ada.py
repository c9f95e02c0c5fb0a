"""Rules of the adaptive layer norms: a layer norm whose scale and shift come with every sample."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import *


def _modulation(call: Call, x: str, *names: str) -> None:
    """Tensors (B..., 1, H) or (B..., H) beside x (B..., S, H), of which no axis may be empty."""
    sizes = call.shape(x)
    text = f"has shape {sizes}; it must have two axes at least, and none may be empty"
    call.require(len(sizes) >= 2 and math.prod(sizes[:-2]) > 0 and sizes[-2] > 0 and sizes[-1] > 0, x, text)
    allowed = ((*sizes[:-2], 1, sizes[-1]), (*sizes[:-2], sizes[-1]))
    for name in names:
        came = call.shape(name)
        call.require(came in allowed, name, f"has shape {came}; it must be {allowed[0]} or {allowed[1]}")


def _last_axis(call: Call, x: str, *names: str) -> None:
    wanted = call.shape(x)[-1:]
    for name in names:
        if call.is_present(name):
            came = call.shape(name)
            call.require(came == wanted, name, f"has shape {came}; it must be {wanted}, the last axis of {x}")


def _row_statistics(call: Call) -> Shape:
    return (*call.shape("x")[:-1], 1)


def _affine_dtypes(*, wide: bool) -> Check:
    """weight and bias agree with each other, and with x; the second version also takes FLOAT."""

    def check(call: Call) -> None:
        if call.is_present("weightOptional"):
            same_dtype("weightOptional", "biasOptional")(call)
        for name in ("weightOptional", "biasOptional"):
            if not (wide and call.is_present(name) and call.dtype(name) is DataType.FLOAT):
                same_dtype("x", name)(call)

    return check


def _inputs(*extra: str) -> Check:
    def check(call: Call) -> None:
        rank(2, 8, "x")(call)
        _modulation(call, "x", "scale", "shift")
        _last_axis(call, "x", "weightOptional", "biasOptional", *extra)

    return check


rule(
    "aclnnAdaLayerNorm",
    dtypes(FLOATS, "x"),
    same_dtype("x", "scale", "shift"),
    _affine_dtypes(wide=False),
    same_dtype("x", "out"),
    _inputs(),
    output_shape(out=shape_of("x")),
    output_dtype(out=dtype_of("x")),
)
rule(
    "aclnnAdaLayerNormV2",
    dtypes(FLOATS, "x"),
    same_dtype("x", "scale", "shift"),
    _affine_dtypes(wide=True),
    same_dtype("x", "out", "meanOutOptional", "rstdOutOptional"),
    _inputs(),
    output_shape(out=shape_of("x"), meanOutOptional=_row_statistics, rstdOutOptional=_row_statistics),
    output_dtype(out=dtype_of("x"), meanOutOptional=dtype_of("x"), rstdOutOptional=dtype_of("x")),
)


def _no_offset(call: Call) -> None:
    call.require(not call.is_present("quantOffsetOptional"), "quantOffsetOptional", "is given; it must be None")


def _dynamic(call: Call) -> None:
    mode = call["quantMode"]
    call.require(mode in (None, "dynamic"), "quantMode", f"is {mode!r}; it must be 'dynamic'")


rule(
    "aclnnAdaLayerNormQuant",
    dtypes("FLOAT16 BF16", "x"),
    same_dtype("x", "scale", "shift", "weightOptional", "biasOptional", "smoothScalesOptional"),
    dtypes({"950": "INT8 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN", "": "INT8"}, "out"),
    dtypes("FLOAT", "quantScale"),
    _no_offset,
    _inputs("smoothScalesOptional"),
    output_shape(out=shape_of("x"), quantScale=lambda call: call.shape("x")[:-1]),
    _dynamic,
    infer_shape(quantOffsetOptional=lambda call: None),
    output_dtype(out="INT8", quantScale="FLOAT"),
    nullable="quantMode",
)


# ------------------------------------------------------------------------------------------------- gradient

_GRADS = ("gradInputOut", "gradScaleOut", "gradShiftOut", "gradWeightOut", "gradBiasOut")


def _backward_dtypes(call: Call) -> None:
    dtypes("FLOAT16 FLOAT BF16", "gradOut")(call)
    same_dtype("gradOut", "input", "rstd", "mean", "scale", "shift")(call)
    for name in ("weightOptional", "biasOptional"):
        dtypes("FLOAT16 FLOAT BF16", name)(call)
        if call.is_present(name) and call.dtype(name) is not DataType.FLOAT:
            same_dtype("input", name)(call)
    same_dtype("weightOptional", "biasOptional")(call)
    same_dtype("input", "gradInputOut")(call)
    same_dtype("scale", "gradScaleOut")(call)
    same_dtype("shift", "gradShiftOut")(call)
    given = next((name for name in ("weightOptional", "biasOptional") if call.is_present(name)), None)
    for name in ("gradWeightOut", "gradBiasOut"):
        if given:
            same_dtype(given, name)(call)
        elif call.is_present(name) and call.dtype(name) is not DataType.FLOAT:
            same_dtype("input", name)(call)


def _backward_shapes(call: Call) -> None:
    max_rank(8, "gradOut", "input", "mean", "rstd", "scale", "shift", *_GRADS)(call)
    same_shape("input", "gradOut")(call)
    same_shape("rstd", "mean")(call)
    sizes, normalised = call.shape("input"), call["normalizedShape"]
    call.require(len(normalised) == 1, "normalizedShape", f"is {normalised}; it must have one item")
    rank(2, 8, "input")(call)
    text = f"is {normalised}; it must be ({sizes[-1]},), the last axis of input"
    call.require(normalised[0] == sizes[-1], "normalizedShape", text)
    rank(1, 1, "weightOptional", "biasOptional")(call)
    _modulation(call, "input", "scale", "shift")
    wanted, came = (*sizes[:-1], 1), call.shape("mean")
    call.require(came == wanted, "mean", f"has shape {came}; it must be {wanted}")
    for name, source in zip(_GRADS, ("input", "scale", "shift")):
        same_shape(source, name)(call)
    for name in _GRADS[3:]:
        if call.is_present(name):
            came = call.shape(name)
            call.require(math.prod(came) == sizes[-1], name, f"has shape {came}; it must have {sizes[-1]} items")


def _affine_grad(call: Call) -> Shape:
    return call.shape("input")[-1:]


def _affine_dtype(call: Call) -> DataType:
    for name in ("weightOptional", "biasOptional"):
        if call.is_present(name):
            return call.dtype(name)
    return call.dtype("input")


_LIKE: dict[str, ShapeRule] = {
    "gradInputOut": shape_of("input"),
    "gradScaleOut": shape_of("scale"),
    "gradShiftOut": shape_of("shift"),
}
rule(
    "aclnnAdaLayerNormBackward",
    _backward_dtypes,
    _backward_shapes,
    infer_shape(**_LIKE, gradWeightOut=_affine_grad, gradBiasOut=_affine_grad),
    output_dtype(
        gradInputOut=dtype_of("input"),
        gradScaleOut=dtype_of("scale"),
        gradShiftOut=dtype_of("shift"),
        gradWeightOut=_affine_dtype,
        gradBiasOut=_affine_dtype,
    ),
)
