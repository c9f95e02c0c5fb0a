"""Rules of ops-nn/vfusion: modulation, masked softmax, deformable attention."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- Modulate


# scale and shift have one row for every sample of self (B, L, D): (B, D) or (B, 1, D).
_MODULATION = (
    require("scaleOptional is not None"),
    require("shiftOptional is not None"),
    rank(3, 3, "self"),
    require("not self.empty or scaleOptional.empty", argument="scaleOptional"),
    require("scaleOptional in ((self[0], self[2]), (self[0], 1, self[2]))"),
    require("not self.empty or shiftOptional.empty", argument="shiftOptional"),
    require("shiftOptional in ((self[0], self[2]), (self[0], 1, self[2]))"),
)


rule(
    "aclnnModulate",
    dtypes({"A2 A3 950": FLOATS, "": ""}, "self", "out", "scaleOptional", "shiftOptional"),
    same_dtype("self", "scaleOptional", "shiftOptional", "out"),
    *_MODULATION,
    output_shape(out="self"),
    output_dtype(out="self"),
)


_MODULATION_BACKWARD = (
    rank(3, 3, "grad_output", "input"),
    rank(3, 3, "grad_output"),
    when(
        "scale is not None",
        require("not (grad_output.empty or input.empty) or scale.empty", argument="scale"),
        require("scale == (grad_output[0], grad_output[2])"),
    ),
    when(
        "shift is not None",
        require("not (grad_output.empty or input.empty) or shift.empty", argument="shift"),
        require("shift == (grad_output[0], grad_output[2])"),
    ),
)


def _like_optional(name: str) -> ShapeRule:
    return lambda call: call.shape(name) if call.is_present(name) else None


rule(
    "aclnnModulateBackward",
    dtypes(FLOATS, "grad_output", "input", "scale", "shift", "grad_scale", "grad_shift", "grad_input"),
    *_MODULATION_BACKWARD,
    infer_shape(grad_input="input", grad_scale=_like_optional("scale"), grad_shift=_like_optional("shift")),
    output_dtype(grad_input="input", grad_scale="scale", grad_shift="shift"),
)

# ------------------------------------------------------------------------------------------------- ScaledMaskedSoftmax


def _most_columns(call: Call) -> int:
    return 8192 if call.product == "950" else 4096


def _masked(values: str, least: int) -> Check:
    """The mask covers the last two axes and broadcasts over the first two; rows are not too long."""

    def check(call: Call) -> None:
        sizes, mask = call.shape(values), call.shape("mask")
        fits = mask[2:] == sizes[2:] and all(m in (1, n) for m, n in zip(mask[:2], sizes[:2]))
        call.require(fits, "mask", f"has shape {mask}; it must be {sizes}, with 1 allowed on the first two axes")
        most = _most_columns(call)
        text = f"has shape {sizes}; on {call.soc.name} the last axis must be in [{least}, {most}]"
        call.require(least <= sizes[3] <= most, values, text)

    return check


def _no_fixed_mask(name: str) -> Check:
    def check(call: Call) -> None:
        call.require(not call[name], name, "is True; only False is supported")

    return check


rule(
    "aclnnScaledMaskedSoftmax",
    dtypes(FLOATS, "x"),
    dtypes("BOOL", "mask"),
    dtypes(FLOATS, "y"),
    same_dtype("x", "y"),
    rank(4, 4, "x", "mask", "y"),
    _masked("x", 1),
    _no_fixed_mask("fixedTriuMask"),
    infer_shape(y="x"),
    output_dtype(y="x"),
    null_status=INNER_NULLPTR,
)


def _not_nz(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            came = call[name].format
            call.require(came is not Format.FRACTAL_NZ, name, "has format FRACTAL_NZ; it must be a plain format")

    return check


rule(
    "aclnnScaledMaskedSoftmaxBackward",
    dtypes(FLOATS, "gradOutput", "y"),
    dtypes("BOOL", "mask"),
    dtypes(FLOATS, "out"),
    on_products("A2 A3 910 310P 310B 310", _not_nz("gradOutput", "y", "out", "mask")),
    rank(4, 4, "gradOutput", "mask"),
    same_shape("gradOutput", "y"),
    _masked("gradOutput", 0),
    output_shape(out="gradOutput"),
    _no_fixed_mask("fixTriuMask"),
    output_dtype(out="gradOutput"),
)

# ------------------------------------------------------------------------------------------------- deformable attention

_ATTENTION = ("value", "location", "attnWeight")


def _attention_ranks(call: Call) -> None:
    for name, n in (("value", 4), ("spatialShape", 2), ("levelStartIndex", 1), ("location", 6), ("attnWeight", 5)):
        rank(n, n, name)(call)
    for name, axis in (("spatialShape", 1), ("location", 5)):
        came = call.size(name, axis)
        call.require(came == 2, name, f"has {came} on its last axis; it must have 2 coordinates")


def _attention_limits(call: Call, levels: int, least_queries: int) -> None:
    channels, heads = call.size("value", 3), call.size("value" if least_queries == 0 else "location", 2)
    fits = channels % 8 == 0 and channels <= 256
    call.require(fits, "value", f"has {channels} channels; it must be a multiple of 8, at most 256")
    points = call.size("location", 4)
    for name, came in (("heads", heads), ("levels", levels), ("points", points)):
        call.require(came <= 16, "location", f"stands for {came} {name}; at most 16 are supported")


def _attention(call: Call) -> None:
    _attention_ranks(call)
    queries = call.size("location", 1)
    call.require(queries >= 32, "location", f"has {queries} queries; it must have at least 32")
    levels = call.size("location", 3)
    _attention_limits(call, levels, 32)
    for name, axis in (("spatialShape", 0), ("attnWeight", 3)):
        came = call.size(name, axis)
        call.require(came == levels, name, f"has {came} levels; location has {levels}")


rule(
    "aclnnMultiScaleDeformableAttnFunction",
    dtypes(FLOATS, "value"),
    dtypes("INT32 INT64", "spatialShape", "levelStartIndex"),
    dtypes(FLOATS, "location", "attnWeight", "output"),
    same_dtype("value", "location", "attnWeight", "output"),
    on_products("310P", dtypes("FLOAT FLOAT16", "value")),
    rank(3, 3, "output"),
    _attention,
    infer_shape(
        output=shape_from(("value", 0), ("location", 1), lambda call: call.size("value", 2) * call.size("value", 3))
    ),
    output_dtype(output="value"),
)


def _attention_grad(call: Call) -> None:
    _attention_ranks(call)
    rank(3, 3, "gradOutput")(call)
    levels, queries = call.size("spatialShape", 0), call.size("location", 1)
    call.require(queries < 500000, "location", f"has {queries} queries; it must have fewer than 500000")
    _attention_limits(call, levels, 0)
    b, _, heads, channels = call.sizes("value", 4)
    points = call.size("location", 4)
    for name, wanted in (
        ("location", (b, queries, heads, levels, points, 2)),
        ("attnWeight", (b, queries, heads, levels, points)),
        ("levelStartIndex", (levels,)),
        ("gradOutput", (b, queries, heads * channels)),
    ):
        came = call.shape(name)
        call.require(came == wanted, name, f"has shape {came}; it must be {wanted}")


rule(
    "aclnnMultiScaleDeformableAttentionGrad",
    dtypes(FLOATS, "value"),
    dtypes("INT32 INT64", "spatialShape", "levelStartIndex"),
    dtypes(FLOATS, *_ATTENTION[1:], "gradOutput", "gradValue", "gradLocation", "gradAttnWeight"),
    _not_nz("value", "spatialShape", "levelStartIndex", "location", "attnWeight", "gradOutput"),
    _attention_grad,
    output_shape(gradValue="value", gradLocation="location", gradAttnWeight="attnWeight"),
    output_dtype(gradValue="value", gradLocation="location", gradAttnWeight="attnWeight"),
)
