"""Rules of the losses of labels: negative log likelihood, multi-label margin, CTC."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    castable,
    dtype_of,
    dtypes,
    infer_shape,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    shape_of,
)
from ascend_aclnn.rules.loss.pointwise import FLOATS, NONE, reduction

_CLASSES = "INT64 UINT8 INT32"


def _one_number(name: str, most_rank: int = 8) -> Check:
    def check(call: Call) -> None:
        sizes = call.shape(name)
        fits = len(sizes) <= most_rank and math.prod(sizes) == 1
        call.require(fits, name, f"has shape {sizes}; it must hold one number")

    return check


def _per_sample(name: str) -> Check:
    """One loss for every row of a 2-d self without a reduction, else one number."""

    def check(call: Call) -> None:
        sizes = call.shape("self")
        if call["reduction"] == NONE and len(sizes) == 2:
            came = call.shape(name)
            call.require(
                came == sizes[:1], name, f"has shape {came}; it must be {sizes[:1]}, one for every row of self"
            )
        else:
            _one_number(name, 1)(call)

    return check


def _sample_loss(call: Call) -> Shape:
    sizes = call.shape("self")
    return sizes[:1] if call["reduction"] == NONE and len(sizes) == 2 else ()


def _classes(*, lone_target: bool) -> Check:
    """self is (classes) or (rows, classes), target one class for every row, weight one number for every class."""

    def check(call: Call) -> None:
        sizes, target = call.shape("self"), call.shape("target")
        rank(1, 2, "self")(call)
        rank(0, 1, "target")(call)
        alone = len(sizes) == 1 and not target
        rows = bool(target) and sizes[0] == target[0] and (len(sizes) == 2 or not lone_target)
        call.require(
            alone or rows, "target", f"has shape {target}; it must have one class for every row of self {sizes}"
        )
        weight = call.shape("weight")
        call.require(
            weight == sizes[-1:], "weight", f"has shape {weight}; it must be {sizes[-1:]}, one for every class"
        )

    return check


def _some_class(call: Call) -> None:
    text = f"has shape {call.shape('self')}: no classes, but target has items"
    call.require(call.shape("self")[-1] > 0 or call.is_empty("target"), "self", text)


rule(
    "aclnnNLLLoss",
    same_dtype("self", "weight"),
    castable("self", "out", "totalWeightOut"),
    dtypes(FLOATS, "self"),
    dtypes(_CLASSES, "target"),
    reduction,
    _classes(lone_target=True),
    _per_sample("out"),
    _one_number("totalWeightOut"),
    _some_class,
    infer_shape(out=_sample_loss, totalWeightOut=lambda call: ()),
    output_dtype(out=dtype_of("self"), totalWeightOut=dtype_of("self")),
)
rule(
    "aclnnNLLLossBackward",
    same_dtype("self", "weight", "gradOutput", "totalWeight"),
    castable("self", "out"),
    dtypes(FLOATS, "self"),
    dtypes(_CLASSES, "target"),
    reduction,
    _classes(lone_target=False),
    _one_number("totalWeight"),
    _per_sample("gradOutput"),
    output_shape(out=shape_of("self")),
    output_dtype(out=dtype_of("self")),
)


def _pixels(call: Call) -> None:
    """target holds a class for every pixel of self (N, C, H, W)."""
    rank(4, 4, "self")(call)
    rank(3, 3, "target")(call)
    n, _, h, w = call.sizes("self", 4)
    came = call.shape("target")
    call.require(came == (n, h, w), "target", f"has shape {came}; it must be {(n, h, w)}, one class for every pixel")


def _pixel_loss(call: Call) -> Shape:
    return call.shape("target") if call["reduction"] == NONE else ()


def _pixel_output(call: Call) -> None:
    if call["reduction"] == NONE:
        came, wanted = call.shape("out"), call.shape("target")
        call.require(came == wanted, "out", f"has shape {came}; it must be {wanted}, as target")
    else:
        _one_number("out")(call)


def _weight_of_classes(call: Call) -> None:
    came, classes = call["weight"].size, call.size("self", 1)
    call.require(came == classes, "weight", f"has {came} items; self has {classes} classes")


rule(
    "aclnnNLLLoss2d",
    dtypes(FLOATS, "self"),
    same_dtype("self", "weight"),
    castable("self", "out", "totalWeightOut"),
    dtypes(_CLASSES, "target"),
    reduction,
    rank(4, 4, "self"),
    _weight_of_classes,
    _pixels,
    _pixel_output,
    _one_number("totalWeightOut"),
    infer_shape(out=_pixel_loss, totalWeightOut=lambda call: ()),
    output_dtype(out=dtype_of("self"), totalWeightOut=dtype_of("self")),
)


def _pixel_grad(call: Call) -> None:
    if call["reduction"] == NONE:
        came, wanted = call.shape("gradOutput"), call.shape("target")
        call.require(came == wanted, "gradOutput", f"has shape {came}; it must be {wanted}, as target")
    else:
        _one_number("gradOutput", 1)(call)


rule(
    "aclnnNLLLoss2dBackward",
    dtypes(FLOATS, "self"),
    same_dtype("self", "gradOutput", "weight", "out", "totalWeight"),
    dtypes(_CLASSES, "target"),
    _pixel_grad,
    _pixels,
    _weight_of_classes,
    output_shape(out=shape_of("self")),
    _one_number("totalWeight"),
    reduction,
    output_dtype(out=dtype_of("self")),
)


def _margins(call: Call) -> None:
    """self is a number, (classes) or (rows, classes); target has its shape."""
    sizes, target = call.shape("self"), call.shape("target")
    rank(0, 2, "self")(call)
    call.require(not sizes or sizes[-1] > 0, "self", f"has shape {sizes}; there must be at least one class")
    if len(sizes) == 2:
        call.require(target == sizes, "target", f"has shape {target}; it must be {sizes}, as self")
    else:
        wanted = sizes[0] if sizes else 1
        fits = len(target) <= 1 and math.prod(target) == wanted
        call.require(fits, "target", f"has shape {target}; it must have {wanted} items on at most one axis")


def _is_target(call: Call) -> None:
    sizes, came = call.shape("self"), call.shape("isTarget")
    if len(sizes) == 2 and sizes[0] == 0:
        call.require(len(came) <= 2 and math.prod(came) == 0, "isTarget", f"has shape {came}; it must be empty")
    else:
        wanted = call.shape("target")
        call.require(came == wanted, "isTarget", f"has shape {came}; it must be {wanted}, as target")


rule(
    "aclnnMultilabelMarginLoss",
    dtypes(FLOATS, "self"),
    dtypes("INT64 INT32", "target"),
    same_dtype("self", "out", "isTarget"),
    _margins,
    _per_sample("out"),
    _is_target,
    infer_shape(out=_sample_loss, isTarget=shape_of("target")),
    output_dtype(out=dtype_of("self"), isTarget=dtype_of("self")),
)

# ------------------------------------------------------------------------------------------------- CTC

_LABELS = "INT32 INT64 BOOL FLOAT FLOAT16"
# Where Atlas A2 and A3 take no half-precision probabilities: their AI CPU kernel knows none.
_MOST_SYMBOLS, _MOST_LABELS, _MOST_BATCH = 200000, 1000, 8180


def _ctc_sizes(call: Call) -> tuple[int, int, int]:
    """Steps, samples, symbols of (T, C) or (T, N, C) log probabilities."""
    sizes = call.shape("logProbs")
    call.require(len(sizes) in (2, 3), "logProbs", f"has rank {len(sizes)}; it must be 2 or 3")
    call.require(sizes[0] > 0, "logProbs", f"has shape {sizes}; there must be at least one step")
    return sizes[0], sizes[1] if len(sizes) == 3 else 1, sizes[-1]


def _ctc_targets(call: Call, lengths: str, samples: int) -> None:
    """targets is (N, S), padded, or the labels of all samples in a row."""
    sizes, counts = call.shape("targets"), call[lengths]
    if len(sizes) == 2:
        longest = max(counts, default=0)
        fits = sizes[0] == samples and sizes[1] >= longest
        call.require(fits, "targets", f"has shape {sizes}; it must be ({samples}, {longest} or more)")
    else:
        rank(1, 1, "targets")(call)
        call.require(
            sizes[0] == sum(counts), "targets", f"has {sizes[0]} items; the target lengths add up to {sum(counts)}"
        )


def _ctc_inputs(call: Call) -> None:
    steps, samples, symbols = _ctc_sizes(call)
    call.require(0 <= call["blank"] < symbols, "blank", f"is {call['blank']}; it must be in [0, {symbols - 1}]")
    given = call["inputLengths"]
    fits = len(given) == samples and max(given, default=0) <= steps
    call.require(fits, "inputLengths", f"is {given}; it must have {samples} items of at most {steps}")
    lengths = call["targetlengths"]
    call.require(len(lengths) == samples, "targetlengths", f"has {len(lengths)} items; it must have {samples}")
    _ctc_targets(call, "targetlengths", samples)


def _alpha_shape(call: Call) -> Shape:
    """(N, T, states); the states are padded to a multiple of 8 except on Ascend 950."""
    steps, samples, _ = _ctc_sizes(call)
    states = 2 * max(call["targetlengths"], default=0) + 1
    return samples, steps, states if call.product == "950" else (states + 7) // 8 * 8


def _likelihood_shape(call: Call) -> Shape:
    return call.shape("logProbs")[1:2] if len(call.shape("logProbs")) == 3 else ()


def _ctc_dtypes(alpha: str) -> tuple[Check, ...]:
    def narrow(call: Call) -> None:
        if call.product in ("A2", "A3") and call.dtype("logProbs") in (DataType.BF16, DataType.FLOAT16):
            _, samples, symbols = _ctc_sizes(call)
            labels = (call.size(alpha, 2) - 1) // 2
            fits = symbols <= _MOST_SYMBOLS and samples <= _MOST_BATCH and labels <= _MOST_LABELS
            text = f"has dtype {call.dtype('logProbs').name} and shape {call.shape('logProbs')}; so many need FLOAT or DOUBLE"
            call.require(fits, "logProbs", text)

    return dtypes({"A2 A3 950": "FLOAT FLOAT16 BF16 DOUBLE", "": "FLOAT DOUBLE"}, "logProbs"), narrow


rule(
    "aclnnCtcLoss",
    _ctc_inputs,
    output_shape(negLogLikelihoodOut=_likelihood_shape, logAlphaOut=_alpha_shape),
    *_ctc_dtypes("logAlphaOut"),
    dtypes(_LABELS, "targets"),
    same_dtype("logProbs", "negLogLikelihoodOut", "logAlphaOut"),
    output_dtype(negLogLikelihoodOut=dtype_of("logProbs"), logAlphaOut=dtype_of("logProbs")),
)


def _ctc_backward_shapes(call: Call) -> None:
    steps, samples, symbols = _ctc_sizes(call)
    rank(1, 1, "gradOut", "negLogLikelihood")(call)
    rank(3, 3, "logProbs", "logAlpha", "out")(call)
    rank(1, 2, "targets")(call)
    call.require(0 <= call["blank"] < symbols, "blank", f"is {call['blank']}; it must be in [0, {symbols - 1}]")
    longest, states = max(call["targetLengths"], default=0), call.size("logAlpha", 2)
    call.require(
        longest <= (states - 1) // 2, "targetLengths", f"names {longest} labels; log_alpha has {states} states"
    )
    for name in ("gradOut", "negLogLikelihood", "logAlpha"):
        came = call.size(name, 0)
        call.require(came == samples, name, f"has {came} on its first axis; there are {samples} samples")
    for name in ("inputLengths", "targetLengths"):
        call.require(len(call[name]) == samples, name, f"has {len(call[name])} items; there are {samples} samples")
    came = call.size("logAlpha", 1)
    call.require(came == steps, "logAlpha", f"has {came} steps; log_probs has {steps}")
    most = max(call["inputLengths"], default=0)
    call.require(most <= steps, "inputLengths", f"names {most} steps; log_probs has {steps}")
    _ctc_targets(call, "targetLengths", samples)


rule(
    "aclnnCtcLossBackward",
    _ctc_backward_shapes,
    output_shape(out=shape_of("logProbs")),
    *_ctc_dtypes("logAlpha"),
    same_dtype("logProbs", "gradOut", "negLogLikelihood", "logAlpha", "out"),
    dtypes(_LABELS, "targets"),
    output_dtype(out=dtype_of("logProbs")),
)
