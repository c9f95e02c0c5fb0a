"""Rules of ops-math/random: random tensors, and dropout with its bit masks."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- dropout

# A bit for each element, in blocks of 128 bits.
_MASK = "(ceil_div({}, 128) * 16,)"


def _fills(mask: str, elements: str, relation: str = "==") -> Check:
    """A mask of any rank has room for all elements; where it is an output, no more."""
    return require(f"{mask}.size {relation} ceil_div({elements}, 128) * 16")


rule(
    "aclnnDropout aclnnDropoutV3",
    castable("input", "out"),
    on_operators("aclnnDropout", dtypes({"A2 A3": FLOATS, "": FLOATS_WITHOUT_BF16}, "input")),
    on_operators("aclnnDropoutV3", dtypes(FLOATS_OF_PRODUCT, "input"), absent("optionalNoiseShape")),
    dtypes("UINT8", "maskOut"),
    in_range("p", 0, 1),
    max_rank(8, "input"),
    like(out="input"),
    _fills("maskOut", "input.size"),
    infer_shape(maskOut=_MASK.format("input.size")),
)
rule(
    "aclnnDropoutBackward",
    castable("gradOutput", "out"),
    dtypes(FLOATS_OF_PRODUCT, "gradOutput"),
    dtypes("UINT8", "mask"),
    # scale is 1 / (1 - p).
    require("abs(scale) <= 2.0**-52 or 0 <= 1 - 1 / scale <= 1", argument="scale"),
    max_rank(8, "gradOutput"),
    like(out="gradOutput"),
    _fills("mask", "gradOutput.size"),
)
rule(
    "aclnnDropoutV3Grad",
    only_products("950"),
    required("gradY", "mask", "gradX"),
    castable("gradY", "gradX"),
    dtypes(FLOATS, "gradY"),
    dtypes("UINT8", "mask"),
    max_rank(8, "gradY"),
    like(gradX="gradY"),
    _fills("mask", "gradY.size"),
    nullable="gradY mask gradX",  # the product is looked at first
)
rule(
    "aclnnDropoutDoMask",
    castable("self", "out"),
    dtypes(FLOATS_OF_PRODUCT, "self"),
    dtypes("UINT8", "mask"),
    in_range("prob", 0, 1),
    max_rank(8, "self"),
    like(out="self"),
    _fills("mask", "self.size", ">="),
)

# The seed and the offset are the first elements of tensors, which need one.
_SOME_SEED = not_empty("seedTensor", "offsetTensor")

rule(
    "aclnnDropoutGenMask aclnnDropoutGenMaskV2 aclnnDropoutGenMaskV2Tensor",
    dtypes("UINT8", "out"),
    in_range("prob", 0, 1),
    _fills("out", "prod(shape)"),
    infer_shape(out=_MASK.format("prod(shape)")),
    unless_empty(
        "out",
        # The probability's type must be one that the generator takes, where it is used at all.
        on_products(
            "A2 A3",
            with_status(INNER_NULLPTR, require("prob in (0, 1) or probDataType in FLOATS", argument="probDataType")),
        ),
        _SOME_SEED,
    ),
)

# ------------------------------------------------------------------------------------------------- bernoulli

_DRAWN = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE BOOL"
_BERNOULLI = {"910": _DRAWN, "A2 A3": _DRAWN + " BF16", "950": f"{_DRAWN} {UNSIGNED} BF16", "": ""}
_PROBABILITY = {"910": FLOATS_AND_DOUBLE, "A2 A3 950": f"{FLOATS_AND_DOUBLE} BF16", "": ""}

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

rule(
    "aclnnStatelessBernoulli",
    only_products("950"),
    dtypes(FLOATS, "prob"),
    dtypes(f"{INTEGERS} {UNSIGNED} BOOL {FLOATS}", "out"),
    tiling(require("prob.size in (1, prod(shape))")),
    output_shape(out="shape"),
    output_dtype(out="dtype"),
)

# ------------------------------------------------------------------------------------------------- in place


_BOUNDS = {"low": "from"}

_NORMAL = (
    require("not std < 0"),
    dtypes(plus_bf16("FLOAT16 FLOAT DOUBLE INT16 INT32 INT64 INT8 UINT8 BOOL"), "selfRef"),
    max_rank(8, "selfRef"),
)
rule(
    "aclnnInplaceNormal aclnnInplaceNormalTensor",
    *_NORMAL,
    dtypes("INT64", "seedTensor", "offsetTensor"),
    require("seedTensor == (1,)", "offsetTensor == (1,)"),
)

_ANY_NUMBER = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 BOOL DOUBLE BF16"
_RANDOM = (
    dtypes({"950": _ANY_NUMBER, "": _ANY_NUMBER + " COMPLEX64 COMPLEX128"}, "selfRef"),
    max_rank(8, "selfRef"),
)

rule(
    "aclnnInplaceRandom aclnnInplaceRandomTensor",
    *_RANDOM,
    require("to > low"),
    unless_empty(
        "selfRef",
        _SOME_SEED,
        on_products("950", with_status(INNER_NULLPTR, dtypes("INT64", "seedTensor", "offsetTensor"))),
    ),
    aliases=_BOUNDS,
)
rule(
    "aclnnInplaceRandomWithoutFromTo aclnnInplaceRandomWithoutFromToTensor",
    *_RANDOM,
    unless_empty("selfRef", dtypes("INT64", "seedTensor", "offsetTensor"), _SOME_SEED),
)
rule(
    "aclnnInplaceUniform aclnnInplaceUniformTensor",
    dtypes(plus_bf16("FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE"), "selfRef"),
    max_rank(8, "selfRef"),
    require("not to < low"),
    unless_empty(
        "selfRef",
        when("product not in ('A2', 'A3')", dtypes("UINT64 INT64", "seedTensor", "offsetTensor")),
        _SOME_SEED,
    ),
    aliases=_BOUNDS,
)

rule(
    "aclnnSimThreadExponential",
    only_products("A2 A3 950"),
    dtypes(FLOATS, "selfRef"),
    tiling(not_negative("count"), require("count == selfRef.size", "rate != 0")),
    aliases={"rate": "lambda"},
)

# ------------------------------------------------------------------------------------------------- normal

_NORMAL_OUT = f"{FLOATS} DOUBLE"

rule(
    "aclnnNormalTensorTensor",
    max_rank(8, "mean", "std"),
    output_shape(out="broadcast(mean, std)"),
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


@carries(*_SAMPLES)
def _sampled(call: Call) -> Shape:
    for check in _SAMPLES:  # before memory is reserved for so many
        check(call)
    return (*call.shape("self")[:-1], call["numsamples"])


rule(
    "aclnnMultinomial aclnnMultinomialTensor",
    dtypes(plus_bf16(FLOATS_AND_DOUBLE), "self"),
    # Few weights are drawn on the host, which reads INT64 seeds alone.
    when(
        "self.size > 0 and (product not in ('A2', 'A3', '950') or self.size <= 5000)",
        dtypes("INT64", "seedTensor", "offsetTensor"),
    ),
    unless_empty("out", _SOME_SEED),
    dtypes("INT64", "out"),
    output_shape(out=_sampled),
)
