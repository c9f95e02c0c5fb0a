"""Rules of the experimental norms."""

from __future__ import annotations

from ascend_aclnn.rules.language import (
    Call,
    Shape,
    dtype_of,
    dtypes,
    one_of,
    only_products,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    same_shape,
    shape_of,
    shape_patterns,
)
from ascend_aclnn.rules.pointwise import elementwise

_HALVES = "FLOAT FLOAT16"
_FLOATS = "FLOAT FLOAT16 BF16"


def _of_channels(call: Call) -> None:
    rank(2, 8, "input")(call)
    wanted = (call.size("input", 1),)
    for name in ("weight", "bias", "saveMean", "saveInvstd"):
        came = call.shape(name)
        call.require(came == wanted, name, f"has shape {came}; it must be {wanted}, one for every channel")


rule(
    "aclnnBatchNormalizationGrad",
    only_products("A2"),
    dtypes(_FLOATS, "input"),
    same_dtype("input", "gradOutput", "weight", "bias", "saveMean", "saveInvstd", "gradInputOut"),
    same_shape("input", "gradOutput"),
    _of_channels,
    output_shape(gradInputOut=shape_of("input"), gradWeightOut=shape_of("weight"), gradBiasOut=shape_of("weight")),
    output_dtype(**dict.fromkeys(("gradInputOut", "gradWeightOut", "gradBiasOut"), dtype_of("input"))),
)


def _channel_numbers(call: Call) -> None:
    rank(4, 4, "grads")(call)
    wanted = (call.size("grads", 1 if call["formatMode"] == 0 else -1),)
    for name in ("scale", "batchVariance"):
        came = call.shape(name)
        call.require(came == wanted, name, f"has shape {came}; it must be {wanted}, one for every channel")


rule(
    "aclnnBnInferGrad",
    only_products("A2"),
    dtypes(_FLOATS, "grads"),
    dtypes("FLOAT", "scale", "batchVariance"),
    same_dtype("grads", "out"),
    one_of("formatMode", 0, 1),
    _channel_numbers,
    output_shape(out=shape_of("grads")),
)


def _last_axes(call: Call) -> None:
    sizes, gamma = call.shape("x1"), call.shape("gamma")
    fits = 1 <= len(gamma) <= len(sizes) and gamma == sizes[len(sizes) - len(gamma) :]
    call.require(fits, "gamma", f"has shape {gamma}; it must be the last axes of x1 {sizes}")


def _reciprocals(call: Call) -> Shape:
    sizes, inner = call.shape("x1"), len(call.shape("gamma"))
    return *sizes[: len(sizes) - inner], *(1,) * inner


rule(
    "aclnnFusedAddRmsNorm",
    only_products("A2 A3 950"),
    dtypes(_FLOATS, "x1"),
    same_dtype("x1", "x2", "gamma", "yOut", "xOut"),
    dtypes("FLOAT", "rstdOut"),
    same_shape("x1", "x2"),
    _last_axes,
    output_shape(yOut=shape_of("x1"), rstdOut=_reciprocals, xOut=shape_of("x1")),
    output_dtype(yOut=dtype_of("x1"), rstdOut="FLOAT", xOut=dtype_of("x1")),
)
rule(
    "aclnnGroupNormalizationGrad",
    only_products("A2"),
    dtypes(_FLOATS, "x"),
    same_dtype("x", "dy", "gamma", "mean", "rstd", "dx"),
    rank(3, 3, "x"),
    same_shape("x", "dy", "gamma"),
    shape_patterns(x="n g m", mean="n g", rstd="n g", dx="n g m"),
    output_dtype(dx=dtype_of("x")),
)
rule(
    "aclnnLayerNormalizationGrad",
    only_products("A2"),
    dtypes(_FLOATS, "dy"),
    same_dtype("dy", "x", "gamma", "mean", "rstd", "dxOut", "dgammaOut", "dbetaOut"),
    shape_patterns(dy="* d", x="* d", gamma="d", mean="*", rstd="*", dxOut="* d", dgammaOut="d", dbetaOut="d"),
    output_dtype(**dict.fromkeys(("dxOut", "dgammaOut", "dbetaOut"), dtype_of("dy"))),
)
elementwise(
    "LpNormV3",
    "A2",
    _HALVES,
    "x",
    "out",
    rank(2, 2, "x"),
    one_of("axis", 0, 1, 2),
    lambda call: call.require(call["p"] > 0, "p", f"is {call['p']}; it must be positive"),
)
