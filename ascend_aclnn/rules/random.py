"""Rules of ops-math/random: random tensors, and dropout with its bit masks."""

from __future__ import annotations

import math
from typing import Callable

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    ShapeRule,
    broadcast_shape,
    broadcastable,
    castable,
    dtype_attribute,
    dtypes,
    in_range,
    infer_shape,
    max_rank,
    no_private_format,
    on_products,
    only_products,
    output_dtype,
    output_shape,
    plus_bf16,
    promoted,
    rank,
    rule,
    same_dtype,
    shape_from,
    tiling,
    unless_empty,
    when,
)
from ascend_aclnn.rules.pointwise import present

# ------------------------------------------------------------------------------------------------- dropout


def mask_bytes(elements: int) -> int:
    """Bytes of a dropout mask: a bit for each element, in blocks of 128 bits."""
    return -(-elements // 128) * 16


def _mask(name: str, elements: Callable[[Call], int], *, exact: bool) -> Check:
    """A mask has room for all elements; where it is an output, no more."""

    def check(call: Call) -> None:
        came, wanted = math.prod(call.shape(name)), mask_bytes(elements(call))
        text = f"has {came} items; it must have {'' if exact else 'at least '}{wanted}"
        call.require(came == wanted if exact else came >= wanted, name, text)

    return check


def _size_of(name: str) -> Callable[[Call], int]:
    return lambda call: math.prod(call.shape(name))


def _mask_shape(elements: Callable[[Call], int]) -> ShapeRule:
    return shape_from(lambda call: mask_bytes(elements(call)))


def _kept(call: Call) -> None:
    """scale is 1 / (1 - p)."""
    scale = call["scale"]
    dropped = 1.0 if abs(scale) <= 2.0**-52 else 1 - 1 / scale
    call.require(0 <= dropped <= 1, "scale", f"is {scale}; it must be at least 1")


def _is_null(name: str) -> Check:
    return lambda call: call.require(not call.is_present(name), name, "is given; it must be None")


_FLOATS = plus_bf16("FLOAT FLOAT16")
_OLD_FLOATS = {"A2 A3": "FLOAT FLOAT16 BF16", "": "FLOAT FLOAT16"}
rule(
    "aclnnDropout",
    castable("input", "out"),
    dtypes(_OLD_FLOATS, "input"),
    dtypes("UINT8", "maskOut"),
    in_range("p", 0, 1),
    max_rank(8, "input"),
    output_shape(out="input"),
    _mask("maskOut", _size_of("input"), exact=True),
    infer_shape(maskOut=_mask_shape(_size_of("input"))),
    output_dtype(out="input", maskOut="UINT8"),
)
rule(
    "aclnnDropoutV3",
    castable("input", "out"),
    dtypes(_FLOATS, "input"),
    dtypes("UINT8", "maskOut"),
    _is_null("optionalNoiseShape"),
    in_range("p", 0, 1),
    max_rank(8, "input"),
    output_shape(out="input"),
    _mask("maskOut", _size_of("input"), exact=True),
    infer_shape(maskOut=_mask_shape(_size_of("input"))),
    output_dtype(out="input", maskOut="UINT8"),
)
rule(
    "aclnnDropoutBackward",
    castable("gradOutput", "out"),
    dtypes(_FLOATS, "gradOutput"),
    dtypes("UINT8", "mask"),
    _kept,
    max_rank(8, "gradOutput"),
    output_shape(out="gradOutput"),
    _mask("mask", _size_of("gradOutput"), exact=True),
    output_dtype(out="gradOutput"),
)
rule(
    "aclnnDropoutV3Grad",
    only_products("950"),
    present(PARAM_NULLPTR, "gradY", "mask", "gradX"),
    castable("gradY", "gradX"),
    dtypes("FLOAT FLOAT16 BF16", "gradY"),
    dtypes("UINT8", "mask"),
    max_rank(8, "gradY"),
    output_shape(gradX="gradY"),
    _mask("mask", _size_of("gradY"), exact=True),
    output_dtype(gradX="gradY"),
    nullable="gradY mask gradX",  # the chip is looked at first
)
rule(
    "aclnnDropoutDoMask",
    castable("self", "out"),
    dtypes(_FLOATS, "self"),
    dtypes("UINT8", "mask"),
    in_range("prob", 0, 1),
    max_rank(8, "self"),
    output_shape(out="self"),
    _mask("mask", _size_of("self"), exact=False),
    output_dtype(out="self"),
)


def _named_size(call: Call) -> int:
    return math.prod(call["shape"])


def _mask_type(call: Call) -> None:
    """The probability's type must be one that the generator takes, where it is used at all."""
    known = call["probDataType"] in (DataType.FLOAT, DataType.FLOAT16, DataType.BF16)
    used = call["prob"] not in (0, 1) and call["out"].size > 0 and call.product in ("A2", "A3")
    text = f"is {call['probDataType']}; it must be FLOAT, FLOAT16 or BF16"
    call.require(known or not used, "probDataType", text, INNER_NULLPTR)


def _some_seed(call: Call) -> None:
    """The seed and the offset are the first elements of tensors, which need one."""
    for name in ("seedTensor", "offsetTensor"):
        call.require(not call.is_empty(name), name, f"has shape {call.shape(name)}; it must hold one number")


_GENERATED = (
    dtypes("UINT8", "out"),
    in_range("prob", 0, 1),
    _mask("out", _named_size, exact=True),
    infer_shape(out=_mask_shape(_named_size)),
)
rule("aclnnDropoutGenMask", *_GENERATED)
rule("aclnnDropoutGenMaskV2", *_GENERATED, _mask_type)
rule("aclnnDropoutGenMaskV2Tensor", *_GENERATED, _mask_type, unless_empty("out", _some_seed))

# ------------------------------------------------------------------------------------------------- bernoulli

_DRAWN = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE BOOL"
_BERNOULLI = {"910": _DRAWN, "A2 A3": _DRAWN + " BF16", "950": _DRAWN + " UINT16 UINT32 UINT64 BF16", "": ""}
_PROBABILITY = {"910": "FLOAT FLOAT16 DOUBLE", "A2 A3 950": "FLOAT FLOAT16 DOUBLE BF16", "": ""}


def _probability(call: Call) -> None:
    value = call["prob"].value
    call.require(0 <= value <= 1, "prob", f"is {value}; it must be in [0, 1]")


def _probabilities(name: str) -> Check:
    """One probability for all elements, or one for each."""

    def check(call: Call) -> None:
        if call["prob"].size != 1:
            broadcastable("prob", name)(call)

    return check


_TO_OUT = (same_dtype("self", "out"), output_shape(out="self"))
for _name, _inputs, _prefix in (("self", _TO_OUT, "aclnn"), ("selfRef", (), "aclnnInplace")):
    rule(
        f"{_prefix}Bernoulli",
        dtypes(_BERNOULLI, _name),
        dtypes(_PROBABILITY, "prob"),
        _probability,
        max_rank(8, _name),
        *_inputs,
        no_private_format(_name),
    )
    rule(
        f"{_prefix}BernoulliTensor",
        dtypes(_BERNOULLI, _name),
        dtypes(_PROBABILITY, "prob"),
        max_rank(8, _name, "prob"),
        unless_empty(_name, _probabilities(_name)),
        *_inputs,
        no_private_format(_name, "prob"),
    )


_INTEGERS = "INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64"
rule(
    "aclnnStatelessBernoulli",
    only_products("950"),
    dtypes("FLOAT16 FLOAT BF16", "prob"),
    dtypes(_INTEGERS + " BOOL FLOAT16 FLOAT BF16", "out"),
    output_shape(out=lambda call: tuple(call["shape"])),
    output_dtype(out=dtype_attribute("dtype")),
)

# ------------------------------------------------------------------------------------------------- in place


def _not_negative(name: str) -> Check:
    return lambda call: call.require(not call[name] < 0, name, f"is {call[name]}; it must not be negative")


def _one_int64(*names: str) -> Check:
    """Seed and offset lie on the device as one INT64 each."""

    def check(call: Call) -> None:
        dtypes("INT64", *names)(call)
        for name in names:
            sizes = call.shape(name)
            call.require(sizes == (1,), name, f"has shape {sizes}; it must be (1,)")

    return check


def _ordered(strict: bool) -> Check:
    def check(call: Call) -> None:
        low, high = call["from"], call["to"]
        text = f"is {high}; it must be {'above' if strict else 'at least'} {low} (from)"
        call.require(low < high if strict else not low > high, "to", text)

    return check


_NORMAL = (
    _not_negative("std"),
    dtypes(plus_bf16("FLOAT16 FLOAT DOUBLE INT16 INT32 INT64 INT8 UINT8 BOOL"), "selfRef"),
    max_rank(8, "selfRef"),
)
rule("aclnnInplaceNormal", *_NORMAL)
rule("aclnnInplaceNormalTensor", *_NORMAL, _one_int64("seedTensor", "offsetTensor"))

_ANY_NUMBER = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 BOOL DOUBLE BF16"
_RANDOM = (
    dtypes({"950": _ANY_NUMBER, "": _ANY_NUMBER + " COMPLEX64 COMPLEX128"}, "selfRef"),
    max_rank(8, "selfRef"),
)


def _seeds_int64(call: Call) -> None:
    call.status = INNER_NULLPTR
    try:
        dtypes("INT64", "seedTensor", "offsetTensor")(call)
    finally:
        call.status = PARAM_INVALID


rule("aclnnInplaceRandom", *_RANDOM, _ordered(strict=True))
rule(
    "aclnnInplaceRandomTensor",
    *_RANDOM,
    _ordered(strict=True),
    unless_empty("selfRef", _some_seed),
    on_products("950", unless_empty("selfRef", _seeds_int64)),
)
rule("aclnnInplaceRandomWithoutFromTo", *_RANDOM)
rule(
    "aclnnInplaceRandomWithoutFromToTensor",
    *_RANDOM,
    unless_empty("selfRef", dtypes("INT64", "seedTensor", "offsetTensor"), _some_seed),
)
_UNIFORM = (
    dtypes(plus_bf16("FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE"), "selfRef"),
    max_rank(8, "selfRef"),
    _ordered(strict=False),
)
rule("aclnnInplaceUniform", *_UNIFORM)
rule(
    "aclnnInplaceUniformTensor",
    *_UNIFORM,
    when(
        lambda call: call.product not in ("A2", "A3"),
        unless_empty("selfRef", dtypes("UINT64 INT64", "seedTensor", "offsetTensor")),
    ),
    unless_empty("selfRef", _some_seed),
)


def _exponential(call: Call) -> None:
    count, size = call["count"], call["selfRef"].size
    call.require(0 <= count == size, "count", f"is {count}; it must be {size}, the number of elements")
    call.require(call["lambda"] != 0, "lambda", "is 0")


rule(
    "aclnnSimThreadExponential",
    only_products("A2 A3 950"),
    dtypes("BF16 FLOAT16 FLOAT", "selfRef"),
    tiling(_exponential),
)

# ------------------------------------------------------------------------------------------------- normal

_NORMAL_OUT = "BF16 FLOAT16 FLOAT DOUBLE"


def _deviations_fill_out(call: Call) -> None:
    std, out = call["std"], call["out"]
    call.require(std.size > 0, "std", f"has shape {std.shape}; it must not be empty")
    fits = out.shape == std.shape or (out.size == 0 and std.size == 1)
    call.require(fits, "out", f"has shape {out.shape}; it must be {std.shape}, as std")


rule(
    "aclnnNormalTensorTensor",
    max_rank(8, "mean", "std"),
    output_shape(out=broadcast_shape("mean", "std")),
    dtypes(_NORMAL_OUT, "mean", "std", "out"),
    unless_empty("mean std", castable(promoted("mean", "std"), "out")),
    output_dtype(out=promoted("mean", "std")),
)
rule(
    "aclnnNormalTensorFloat",
    max_rank(8, "mean", "out"),
    broadcastable("mean", "out"),
    dtypes(_NORMAL_OUT, "mean", "out"),
    infer_shape(out="mean"),
    output_dtype(out="mean"),
)
rule(
    "aclnnNormalFloatTensor",
    _deviations_fill_out,
    max_rank(8, "std"),
    dtypes(_NORMAL_OUT, "std", "out"),
    infer_shape(out="std"),
    output_dtype(out="std"),
)
# NormalFloatFloat takes its shape from the output, which must be given.
rule("aclnnNormalFloatFloat", dtypes(_NORMAL_OUT, "out"), max_rank(8, "out"))

# ------------------------------------------------------------------------------------------------- choices

rule(
    "aclnnRandperm",
    dtypes(plus_bf16("FLOAT FLOAT16 INT32 DOUBLE INT64 INT8 UINT8 INT16"), "out"),
    _not_negative("n"),
    output_shape(out="(n,)"),
    output_dtype(out="INT64"),
    null_status=INNER_NULLPTR,
)


def _samples(call: Call) -> None:
    categories, count = call.shape("self")[-1], call["numsamples"]
    call.require(count > 0, "numsamples", f"is {count}; it must be positive")
    text = f"is {count}; without replacement it must be at most {categories}"
    call.require(call["replacement"] or count <= categories, "numsamples", text)
    call.require(categories <= 2**24, "self", f"has {categories} categories; at most {2**24} are supported")


def _sampled(call: Call) -> Shape:
    rank(1, 2, "self")(call)
    _samples(call)
    return (*call.shape("self")[:-1], call["numsamples"])


_CHOSEN = (output_shape(out=_sampled),)
_WEIGHTS = plus_bf16("FLOAT FLOAT16 DOUBLE")
rule("aclnnMultinomial", dtypes(_WEIGHTS, "self"), dtypes("INT64", "out"), *_CHOSEN, output_dtype(out="INT64"))


def _few_weights(call: Call) -> bool:
    """These are drawn on the host's side of the chip, which reads INT64 seeds alone."""
    return call["self"].size > 0 and (call.product not in ("A2", "A3", "950") or call["self"].size <= 5000)


rule(
    "aclnnMultinomialTensor",
    dtypes(_WEIGHTS, "self"),
    when(_few_weights, dtypes("INT64", "seedTensor", "offsetTensor")),
    unless_empty("out", _some_seed),
    dtypes("INT64", "out"),
    *_CHOSEN,
    output_dtype(out="INT64"),
)
