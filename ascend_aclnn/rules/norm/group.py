"""Rules of the group norms, and of the fused SiLU / Swish forms."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.norm.layer import if_wanted, wanted_outputs

MOST_CHANNELS, MOST_PER_GROUP = 240000, 8000  # of the backward kernel on Atlas A2 and A3


def _groups_divide(channels: int, call: Call, name: str = "group") -> None:
    groups = call[name]
    text = f"is {groups}; it must be positive and divide the {channels} channels"
    call.require(groups > 0 and channels % groups == 0, name, text)


def _positive_eps(call: Call) -> None:
    call.require(call["eps"] > 0, "eps", f"is {call['eps']}; it must be positive")


def _attributes(call: Call) -> None:
    _groups_divide(call["C"], call)
    _positive_eps(call)


def _per_channel(call: Call, channels: int, *names: str) -> None:
    for name in names:
        if call.is_present(name):
            came = call.shape(name)
            call.require(
                came == (channels,), name, f"has shape {came}; it must be ({channels},), one for every channel"
            )


def _statistics(call: Call) -> Shape:
    return call["N"], call["group"]


def _shapes(call: Call) -> None:
    rank(2, 8, "self")(call)
    sizes = call.shape("self")
    for name, came in (("N", sizes[0]), ("C", sizes[1]), ("HxW", math.prod(sizes[2:]))):
        call.require(call[name] == came, name, f"is {call[name]}; self {sizes} has {came}")
    _per_channel(call, call["C"], "gamma", "beta")


def _plain_format(call: Call) -> None:
    same_format("self", "out")(call)
    no_private_format("self")(call)
    came = call["self"].format
    last = (Format.NHWC, Format.HWCN, Format.NDHWC)
    call.require(came not in last, "self", f"has format {came.name}; channels must be the second axis")


rule(
    "aclnnGroupNorm",
    dtypes(FLOATS_OF_PRODUCT, "self"),
    same_dtype("self", "gamma", "beta", "out", "meanOut", "rstdOut"),
    _attributes,
    rank(2, 8, "self"),
    output_shape(out=shape_of("self"), meanOut=_statistics, rstdOut=_statistics),
    _shapes,
    _plain_format,
    output_dtype(out=dtype_of("self"), meanOut=dtype_of("self"), rstdOut=dtype_of("self")),
    nullable="gamma beta",
)

# ------------------------------------------------------------------------------------------------- gradient

_GRADS = ("gradInput", "gradGammaOut", "gradBetaOut")


def _mask(call: Call) -> None:
    """A null mask or a null output that it asks for is an invalid argument here, not a null pointer."""
    mask = call["outputMask"]
    call.require(mask is not None and len(mask) == 3, "outputMask", "must have 3 items")
    for name in wanted_outputs(call, _GRADS):
        call.require(call.is_present(name), name, "is None, but output_mask asks for it")


def _backward_dtypes(call: Call) -> None:
    wanted = wanted_outputs(call, _GRADS)
    affine = [name for name in _GRADS[1:] if name in wanted]
    dtypes(FLOATS_OF_PRODUCT, "gradOut")(call)
    if call.product != "950":
        same_dtype("gradOut", "input", "mean", "rstd", "gamma", *wanted)(call)
        return
    dtypes(FLOATS_OF_PRODUCT, "mean")(call)
    same_dtype("gradOut", "input", *(name for name in wanted if name == "gradInput"))(call)
    if call.dtype("mean") is not DataType.FLOAT:
        same_dtype("gradOut", "mean")(call)
    same_dtype("mean", "rstd", "gamma", *affine)(call)


def _backward_groups(call: Call) -> None:
    channels = call["C"]
    _groups_divide(channels, call)
    if call.product in ("A2", "A3"):
        per_group = channels // call["group"]
        call.require(
            per_group <= MOST_PER_GROUP, "group", f"makes groups of {per_group} channels; at most {MOST_PER_GROUP}"
        )
        call.require(channels <= MOST_CHANNELS, "C", f"is {channels}; it must be at most {MOST_CHANNELS}")


def _affine_shape(call: Call) -> Shape:
    return call.shape("gamma") if call.is_present("gamma") else (call["C"],)


def _backward_shapes(call: Call) -> None:
    max_rank(8, "gradOut")(call)
    total, groups = call["N"] * call["C"] * call["HxW"], call["N"] * call["group"]
    for name, wanted in (
        ("gradOut", total),
        ("input", total),
        ("mean", groups),
        ("rstd", groups),
        ("gamma", call["C"]),
    ):
        if call.is_present(name):
            came = math.prod(call.shape(name))
            call.require(came == wanted, name, f"has {came} items; N, C, HxW and group make {wanted}")
    shapes = (call.shape("input"), _affine_shape(call), _affine_shape(call))
    for name, size in zip(_GRADS, shapes):
        if name in wanted_outputs(call, _GRADS):
            came_shape = call.shape(name)
            call.require(came_shape == size, name, f"has shape {came_shape}; it must be {size}")


def _affine_dtype(call: Call) -> DataType:
    return call.dtype("gamma") if call.is_present("gamma") else call.dtype("mean")


rule(
    "aclnnGroupNormBackward",
    _mask,
    _backward_dtypes,
    _backward_groups,
    _backward_shapes,
    infer_shape(
        gradInput=if_wanted("gradInput", _GRADS, shape_of("input")),
        gradGammaOut=if_wanted("gradGammaOut", _GRADS, _affine_shape),
        gradBetaOut=if_wanted("gradBetaOut", _GRADS, _affine_shape),
    ),
    output_dtype(gradInput=dtype_of("input"), gradGammaOut=_affine_dtype, gradBetaOut=_affine_dtype),
    nullable="outputMask",
)

# ------------------------------------------------------------------------------------------------- with SiLU


def _silu_dtypes(call: Call) -> None:
    dtypes(FLOATS_OF_PRODUCT, "self", "gamma", "beta")(call)
    if call.is_present("gamma") and call.is_present("beta"):
        same_dtype("beta", "gamma")(call)
        if call.dtype("gamma") is not DataType.FLOAT:
            same_dtype("self", "gamma")(call)
    same_dtype("self", "out")(call)
    if call.product != "950":
        same_dtype("self", "meanOut", "rstdOut")(call)
        if call.dtype("self") is DataType.FLOAT:
            same_dtype("self", "gamma", "beta")(call)
        return
    for name in ("gamma", "beta"):
        if call.is_present(name) and call.dtype(name) is not call.dtype("self"):
            dtypes("FLOAT", name)(call)
            same_dtype(name, "meanOut", "rstdOut")(call)


def _silu_statistics(call: Call) -> Shape:
    return call.size("self", 0), call["group"]


def _silu_attributes(call: Call) -> None:
    sizes = call.shape("self")
    call.require(call["group"] > 0, "group", f"is {call['group']}; it must be positive")
    filled = call.product == "950" or (sizes[0] > 0 and sizes[1] > 0)
    call.require(filled, "self", f"has shape {sizes}; batch and channels must not be empty")
    _positive_eps(call)
    _groups_divide(sizes[1], call)


def _silu_affine(call: Call) -> None:
    _per_channel(call, call.size("self", 1), "gamma", "beta")


def _statistics_dtype(call: Call) -> DataType:
    """On Ascend 950 mean and rstd are as wide as gamma."""
    return call.dtype("gamma") if call.product == "950" and call.is_present("gamma") else call.dtype("self")


rule(
    "aclnnGroupNormSilu aclnnGroupNormSiluV2",
    _silu_dtypes,
    rank(2, 8, "self"),
    output_shape(out=shape_of("self"), meanOut=_silu_statistics, rstdOut=_silu_statistics),
    _silu_affine,
    _silu_attributes,
    output_dtype(out=dtype_of("self"), meanOut=_statistics_dtype, rstdOut=_statistics_dtype),
)


def _silu_quant_dtypes(call: Call) -> None:
    dtypes("FLOAT16 BF16", "self", "gamma", "beta")(call)
    dtypes("FLOAT", "quantScale")(call)
    if call.is_present("gamma") and call.is_present("beta"):
        same_dtype("self", "gamma", "beta")(call)
    dtypes("INT8", "out")(call)
    same_dtype("self", "meanOut", "rstdOut")(call)


def _silu_quant_scale(call: Call) -> None:
    channels = call.size("self", 1)
    came = call.shape("quantScale")
    call.require(came in ((1,), (channels,)), "quantScale", f"has shape {came}; it must be (1,) or ({channels},)")


def _silu_active(call: Call) -> None:
    call.require(call["activateSilu"], "activateSilu", "is False; it must be True")


rule(
    "aclnnGroupNormSiluQuant",
    _silu_quant_dtypes,
    rank(2, 8, "self"),
    output_shape(out=shape_of("self"), meanOut=_silu_statistics, rstdOut=_silu_statistics),
    _silu_affine,
    _silu_quant_scale,
    _silu_attributes,
    _silu_active,
    output_dtype(out="INT8", meanOut=dtype_of("self"), rstdOut=dtype_of("self")),
)

# ------------------------------------------------------------------------------------------------- with Swish


def _swish(call: Call) -> None:
    rank(2, 8, "x")(call)
    channels = call.size("x", 1)
    _groups_divide(channels, call, "numGroups")
    _per_channel(call, channels, "gamma", "beta")


def _swish_statistics(call: Call) -> Shape:
    return call.size("x", 0), call["numGroups"]


rule(
    "aclnnGroupNormSwish",
    only_products("A2 A3 950"),
    dtype_table(
        "x gamma beta yOut meanOut rstdOut",
        "FLOAT16 FLOAT16 FLOAT16 FLOAT16 FLOAT16 FLOAT16",
        "FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT",
        "BF16 BF16 BF16 BF16 BF16 BF16",
        "FLOAT16 FLOAT FLOAT FLOAT16 FLOAT FLOAT",
        "BF16 FLOAT FLOAT BF16 FLOAT FLOAT",
    ),
    tiling(_swish, output_shape(yOut=shape_of("x"), meanOut=_swish_statistics, rstdOut=_swish_statistics)),
    output_dtype(yOut=dtype_of("x"), meanOut=dtype_of("gamma"), rstdOut=dtype_of("gamma")),
)

_SWISH_GRAD = "dy mean rstd x gamma beta dxOut dgammaOut dbetaOut"


def _swish_grad(call: Call) -> None:
    _swish(call)
    same_shape("x", "dy")(call)


rule(
    "aclnnGroupNormSwishGrad",
    only_products("A2 A3 950"),
    dtype_table(_SWISH_GRAD, *(" ".join([dtype] * 9) for dtype in ("FLOAT", "FLOAT16", "BF16"))),
    tiling(_swish_grad, output_shape(dxOut=shape_of("x"))),
    infer_shape(dgammaOut=shape_of("gamma"), dbetaOut=shape_of("beta")),
    output_dtype(dxOut=dtype_of("x"), dgammaOut=dtype_of("x"), dbetaOut=dtype_of("x")),
)
