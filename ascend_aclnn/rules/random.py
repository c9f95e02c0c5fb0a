"""Rules of ops-math/random: random tensors, and dropout with its bit masks."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- dropout


def mask_bytes(elements: int) -> int:
    """Bytes of a dropout mask: a bit for each element, in blocks of 128 bits."""
    return -(-elements // 128) * 16


# A bit for each element, in blocks of 128 bits.
_MASK = "(ceil_div({}, 128) * 16,)"


def _fills(mask: str, elements: str, relation: str = "==") -> Check:
    """A mask of any rank has room for all elements; where it is an output, no more."""
    return require(f"{mask}.size {relation} ceil_div({elements}, 128) * 16")


_DROPPED = (
    dtypes("UINT8", "maskOut"),
    in_range("p", 0, 1),
    max_rank(8, "input"),
    output_shape(out="input"),
    _fills("maskOut", "input.size"),
    infer_shape(maskOut=_MASK.format("input.size")),
    output_dtype(out="input", maskOut="UINT8"),
)
rule(
    "aclnnDropout",
    castable("input", "out"),
    dtypes({"A2 A3": FLOATS, "": "FLOAT FLOAT16"}, "input"),
    *_DROPPED,
)
rule(
    "aclnnDropoutV3",
    castable("input", "out"),
    dtypes(FLOATS_OF_PRODUCT, "input"),
    absent("optionalNoiseShape"),
    *_DROPPED,
)
rule(
    "aclnnDropoutBackward",
    castable("gradOutput", "out"),
    dtypes(FLOATS_OF_PRODUCT, "gradOutput"),
    dtypes("UINT8", "mask"),
    # scale is 1 / (1 - p).
    require("abs(scale) <= 2.0**-52 or 0 <= 1 - 1 / scale <= 1", argument="scale"),
    max_rank(8, "gradOutput"),
    output_shape(out="gradOutput"),
    _fills("mask", "gradOutput.size"),
    output_dtype(out="gradOutput"),
)
rule(
    "aclnnDropoutV3Grad",
    only_products("950"),
    present(PARAM_NULLPTR, "gradY", "mask", "gradX"),
    castable("gradY", "gradX"),
    dtypes(FLOATS, "gradY"),
    dtypes("UINT8", "mask"),
    max_rank(8, "gradY"),
    output_shape(gradX="gradY"),
    _fills("mask", "gradY.size"),
    output_dtype(gradX="gradY"),
    nullable="gradY mask gradX",  # the chip is looked at first
)
rule(
    "aclnnDropoutDoMask",
    castable("self", "out"),
    dtypes(FLOATS_OF_PRODUCT, "self"),
    dtypes("UINT8", "mask"),
    in_range("prob", 0, 1),
    max_rank(8, "self"),
    output_shape(out="self"),
    _fills("mask", "self.size", ">="),
    output_dtype(out="self"),
)


# The probability's type must be one that the generator takes, where it is used at all.
_MASK_TYPE = on_products(
    "A2 A3",
    unless_empty(
        "out",
        with_status(
            INNER_NULLPTR, require("prob in (0, 1) or probDataType in (FLOAT, FLOAT16, BF16)", argument="probDataType")
        ),
    ),
)
# The seed and the offset are the first elements of tensors, which need one.
_SOME_SEED = not_empty("seedTensor", "offsetTensor")

_GENERATED = (
    dtypes("UINT8", "out"),
    in_range("prob", 0, 1),
    _fills("out", "prod(shape)"),
    infer_shape(out=_MASK.format("prod(shape)")),
)
rule("aclnnDropoutGenMask", *_GENERATED)
rule("aclnnDropoutGenMaskV2", *_GENERATED, _MASK_TYPE)
rule("aclnnDropoutGenMaskV2Tensor", *_GENERATED, _MASK_TYPE, unless_empty("out", _SOME_SEED))

# ------------------------------------------------------------------------------------------------- bernoulli

_DRAWN = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE BOOL"
_BERNOULLI = {"910": _DRAWN, "A2 A3": _DRAWN + " BF16", "950": _DRAWN + " UINT16 UINT32 UINT64 BF16", "": ""}
_PROBABILITY = {"910": "FLOAT FLOAT16 DOUBLE", "A2 A3 950": "FLOAT FLOAT16 DOUBLE BF16", "": ""}


_TO_OUT = (same_dtype("self", "out"), output_shape(out="self"))
for _name, _inputs, _prefix in (("self", _TO_OUT, "aclnn"), ("selfRef", (), "aclnnInplace")):
    rule(
        f"{_prefix}Bernoulli",
        dtypes(_BERNOULLI, _name),
        dtypes(_PROBABILITY, "prob"),
        require("0 <= prob <= 1"),
        max_rank(8, _name),
        *_inputs,
        no_private_format(_name),
    )
    rule(
        f"{_prefix}BernoulliTensor",
        dtypes(_BERNOULLI, _name),
        dtypes(_PROBABILITY, "prob"),
        max_rank(8, _name, "prob"),
        unless_empty(_name, when("prob.size != 1", broadcastable("prob", _name))),
        *_inputs,
        no_private_format(_name, "prob"),
    )


_INTEGERS = "INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64"
rule(
    "aclnnStatelessBernoulli",
    only_products("950"),
    dtypes("FLOAT16 FLOAT BF16", "prob"),
    dtypes(_INTEGERS + " BOOL FLOAT16 FLOAT BF16", "out"),
    output_shape(out="shape"),
    output_dtype(out=dtype_attribute("dtype")),
)

# ------------------------------------------------------------------------------------------------- in place


def _ordered(strict: bool) -> Check:
    def check(call: Call) -> None:
        low, high = call["from"], call["to"]
        text = f"is {high}; it must be {'above' if strict else 'at least'} {low} (from)"
        call.require(low < high if strict else not low > high, "to", text)

    return check


_NORMAL = (
    require("not std < 0"),
    dtypes(plus_bf16("FLOAT16 FLOAT DOUBLE INT16 INT32 INT64 INT8 UINT8 BOOL"), "selfRef"),
    max_rank(8, "selfRef"),
)
rule("aclnnInplaceNormal", *_NORMAL)
rule(
    "aclnnInplaceNormalTensor",
    *_NORMAL,
    dtypes("INT64", "seedTensor", "offsetTensor"),
    require("seedTensor == (1,)", "offsetTensor == (1,)"),
)

_ANY_NUMBER = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 BOOL DOUBLE BF16"
_RANDOM = (
    dtypes({"950": _ANY_NUMBER, "": _ANY_NUMBER + " COMPLEX64 COMPLEX128"}, "selfRef"),
    max_rank(8, "selfRef"),
)


rule("aclnnInplaceRandom", *_RANDOM, _ordered(strict=True))
rule(
    "aclnnInplaceRandomTensor",
    *_RANDOM,
    _ordered(strict=True),
    unless_empty("selfRef", _SOME_SEED),
    on_products(
        "950", unless_empty("selfRef", with_status(INNER_NULLPTR, dtypes("INT64", "seedTensor", "offsetTensor")))
    ),
)
rule("aclnnInplaceRandomWithoutFromTo", *_RANDOM)
rule(
    "aclnnInplaceRandomWithoutFromToTensor",
    *_RANDOM,
    unless_empty("selfRef", dtypes("INT64", "seedTensor", "offsetTensor"), _SOME_SEED),
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
        "product not in ('A2', 'A3')",
        unless_empty("selfRef", dtypes("UINT64 INT64", "seedTensor", "offsetTensor")),
    ),
    unless_empty("selfRef", _SOME_SEED),
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
    not_empty("std"),
    require("out == std or out.size == 0 and std.size == 1"),
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
    not_negative("n"),
    output_shape(out="(n,)"),
    output_dtype(out="INT64"),
    null_status=INNER_NULLPTR,
)


_SAMPLES = (
    rank(1, 2, "self"),
    positive("numsamples"),
    require("replacement or numsamples <= self[-1]", argument="numsamples"),
    require("self[-1] <= 2**24"),
)


def _sampled(call: Call) -> Shape:
    for check in _SAMPLES:  # before memory is reserved for so many
        check(call)
    return (*call.shape("self")[:-1], call["numsamples"])


_WEIGHTS = plus_bf16("FLOAT FLOAT16 DOUBLE")
rule(
    "aclnnMultinomial",
    dtypes(_WEIGHTS, "self"),
    dtypes("INT64", "out"),
    output_shape(out=_sampled),
    output_dtype(out="INT64"),
)


rule(
    "aclnnMultinomialTensor",
    dtypes(_WEIGHTS, "self"),
    # Few weights are drawn on the host's side of the chip, which reads INT64 seeds alone.
    when(
        "self.size > 0 and (product not in ('A2', 'A3', '950') or self.size <= 5000)",
        dtypes("INT64", "seedTensor", "offsetTensor"),
    ),
    unless_empty("out", _SOME_SEED),
    dtypes("INT64", "out"),
    output_shape(out=_sampled),
    output_dtype(out="INT64"),
)
