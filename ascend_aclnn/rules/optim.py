"""Rules of ops-nn/optim: optimiser steps, which change their parameters in place."""

from __future__ import annotations

import math

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *


def _one_number(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            came = call.shape(name)
            call.require(math.prod(came) == 1, name, f"has shape {came}; it must hold one number")

    return check


def _needed_by_amsgrad(name: str) -> Check:
    def check(call: Call) -> None:
        missing = call["amsgrad"] and not call.is_present(name)
        call.require(not missing, name, "is None (a null pointer); amsgrad needs it", PARAM_NULLPTR)

    return check


_ADAM_NUMBERS = ("beta1Power", "beta2Power", "lr", "weightDecay", "beta1", "beta2", "eps")
rule(
    "aclnnApplyAdamW",
    _needed_by_amsgrad("maxGradNormOptional"),
    dtypes({"910": "FLOAT FLOAT16", "": FLOATS}, "varRef"),
    same_dtype("varRef", "mRef", "vRef", *_ADAM_NUMBERS, "grad", "maxGradNormOptional"),
    same_shape("varRef", "mRef", "vRef", "maxGradNormOptional", "grad"),
    _one_number(*_ADAM_NUMBERS),
)
rule(
    "aclnnApplyAdamWV2",
    _needed_by_amsgrad("maxGradNormOptionalRef"),
    dtypes(FLOATS_OF_PRODUCT, "varRef", "mRef", "vRef", "maxGradNormOptionalRef", "grad"),
    dtypes("FLOAT INT64", "step"),
    same_shape("varRef", "mRef", "vRef", "maxGradNormOptionalRef", "grad"),
    _one_number("step"),
)


def _same_for_all(names: str, *numbers: str) -> tuple[str, ...]:
    """Rows of columns whose first names have one data type and the others FLOAT."""
    count = len(names.split())
    return tuple(" ".join([dtype] * count + ["FLOAT"] * len(numbers)) for dtype in ("FLOAT", "FLOAT16", "BF16"))


rule(
    "aclnnApplyAdam",
    only_products("950"),
    dtype_table(
        "varRef m v grad beta1Power beta2Power lr beta1 beta2 epsilon",
        *_same_for_all("varRef m v grad", "beta1Power", "beta2Power", "lr", "beta1", "beta2", "epsilon"),
    ),
    tiling(
        same_shape("varRef", "m", "v", "grad"),
        _one_number("beta1Power", "beta2Power", "lr", "beta1", "beta2", "epsilon"),
    ),
)
rule(
    "aclnnApplyKerasMomentum",
    only_products("950"),
    dtype_table("varRef accum grad lr momentum", *_same_for_all("varRef accum grad", "lr", "momentum")),
    tiling(same_shape("varRef", "accum", "grad"), _one_number("lr", "momentum")),
)


def _ema_mode(call: Call) -> None:
    call.require(call["mode"] in (0, 1), "mode", f"is {call['mode']}; it must be 0 or 1")


rule(
    "aclnnApplyFusedEmaAdam",
    only_products("A2 A3 950"),
    documented_dtypes("varRef", "step"),
    same_dtype("varRef", "grad", "mRef", "vRef", "sRef"),
    tiling(same_shape("varRef", "grad", "mRef", "vRef", "sRef"), not_empty("step"), _ema_mode),
)

# Elements that share a scale of the quantised moments, and entries of their code book.
_BLOCK, _CODES = 256, 256


def _quantised_moments(call: Call) -> None:
    call.require(call["blockSize"] == _BLOCK, "blockSize", f"is {call['blockSize']}; it must be {_BLOCK}")
    blocks = -(-math.prod(call.shape("varRef")) // _BLOCK)
    for name, wanted in (("qmapM", _CODES), ("qmapV", _CODES), ("absmaxMRef", blocks), ("absmaxVRef", blocks)):
        came = math.prod(call.shape(name))
        call.require(came == wanted, name, f"has {came} items; it must have {wanted}")


rule(
    "aclnnApplyAdamWQuant",
    only_products("A2 A3 950"),
    dtype_table(
        "varRef grad mRef vRef qmapM qmapV absmaxMRef absmaxVRef step",
        "FLOAT FLOAT UINT8 UINT8 FLOAT FLOAT FLOAT FLOAT INT64",
        "FLOAT16 FLOAT16 UINT8 UINT8 FLOAT FLOAT FLOAT FLOAT INT64",
        "BF16 BF16 UINT8 UINT8 FLOAT FLOAT FLOAT FLOAT INT64",
    ),
    tiling(same_shape("varRef", "grad", "mRef", "vRef"), _quantised_moments, _one_number("step")),
)


_STEP = ("inputTokens", "sampledTokenIds", "inputPositions", "seqLens", "slotMapping", "blockTables")
_SPECULATIVE = "specToken is not None and acceptedNum is not None"
_PLAIN_STEP = (
    require("numSeqs > numQueries", "numSeqs < 200000000"),
    require(*(f"{name}[0] == numSeqs" for name in _STEP if name != "sampledTokenIds")),
    require("sampledTokenIds[0] == numQueries", "sampledTokenIds[1] == 1"),
)
rule(
    "aclnnAdvanceStep",
    only_products("A2 A3 950"),
    dtypes("INT64", *_STEP),
    tiling(positive("numSeqs", "numQueries", "blockSize"), *_PLAIN_STEP),
)
rule(
    "aclnnAdvanceStepV2",
    only_products("A2 A3 950"),
    dtypes("INT64", *_STEP, "specToken", "acceptedNum"),
    tiling(
        positive("numSeqs", "numQueries", "blockSize"),
        when(
            _SPECULATIVE,
            require("len(specToken) == 2", "specToken[0] == numSeqs"),
            define(width="specToken[1] + 1"),
            has_shape(
                acceptedNum="(numSeqs,)",
                inputTokens="(numSeqs * width,)",
                sampledTokenIds="(numSeqs, width)",
                inputPositions="inputTokens",
                seqLens="inputTokens",
                slotMapping="inputTokens",
            ),
            require("len(blockTables) == 2", "blockTables[0] == numSeqs"),
        ),
        when(f"not ({_SPECULATIVE})", *_PLAIN_STEP),
    ),
)


# ------------------------------------------------------------------------------------------------- tensor lists


def _items_given(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            for position, tensor in enumerate(call[name] or ()):
                call.require(tensor is not None, name, f"[{position}] is None (a null pointer)", PARAM_NULLPTR)

    return check


def _as_many(first: str, *names: str) -> Check:
    """The lists are as long as the first, which is not empty."""

    def check(call: Call) -> None:
        wanted = len(call[first])
        call.require(wanted > 0, first, "is an empty list")
        for name in names:
            # FusedSgd takes an empty list of buffers as none.
            if call[name] or (call.is_present(name) and name != "momentumBufferListOptionalRef"):
                came = len(call[name])
                call.require(
                    came == wanted, name, f"has {came} tensors; it must have {wanted}, as {call.python_name(first)}"
                )

    return check


def _item_shapes(first: str, *names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            for position, (tensor, like) in enumerate(zip(call[name] or (), call[first])):
                text = f"[{position}] has shape {tensor.shape}; it must be {like.shape}, as {call.python_name(first)}"
                call.require(tensor.shape == like.shape, name, text)

    return check


def _uniform(allowed: DtypeSet, first: str, *names: str) -> tuple[Check, Check]:
    """All tensors of the lists have the first one's data type, which is one of the set."""
    return dtypes(allowed, first), same_dtype(first, first, *names)


def _not_negative(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            call.require(call[name] >= 0, name, f"is {call[name]}; it must not be negative")

    return check


def _amsgrad_list(call: Call) -> None:
    missing = call["amsgrad"] and not call.is_present("maxExpAvgSqsRef")
    call.require(not missing, "maxExpAvgSqsRef", "is None; amsgrad needs it")


rule(
    "aclnnFusedAdamw",
    _not_negative("lr", "beta1", "beta2", "weightDecay"),
    _amsgrad_list,
    _items_given("paramsRef", "grads", "expAvgsRef", "expAvgSqsRef", "stateSteps", "maxExpAvgSqsRef"),
    _as_many("paramsRef", "grads", "expAvgsRef", "expAvgSqsRef", "stateSteps", "maxExpAvgSqsRef"),
    *_uniform(FLOATS, "paramsRef", "grads", "expAvgsRef", "expAvgSqsRef", "maxExpAvgSqsRef"),
    *_uniform("FLOAT INT64", "stateSteps"),
    _item_shapes("paramsRef", "grads", "expAvgsRef", "expAvgSqsRef"),
)

_TINY = 1e-6  # below it a float counts as zero


def _momentum(call: Call) -> None:
    momentum, buffers = call["momentum"], bool(call["momentumBufferListOptionalRef"])
    if call["nesterov"]:
        text = f"is True; it needs a momentum (not {momentum}) and no dampening (not {call['dampening']})"
        call.require(momentum > 0 and abs(call["dampening"]) < _TINY, "nesterov", text)
    text = f"is {momentum}; momentum and momentum buffers go together"
    call.require(buffers == (abs(momentum) >= _TINY), "momentum", text)


rule(
    "aclnnFusedSgd",
    _not_negative("weightDecay", "momentum", "lr"),
    _momentum,
    _items_given("paramsRef", "gradsRef", "momentumBufferListOptionalRef"),
    _as_many("paramsRef", "gradsRef", "momentumBufferListOptionalRef"),
    *_uniform(FLOATS_OF_PRODUCT, "paramsRef", "gradsRef", "momentumBufferListOptionalRef"),
    max_rank(8, "paramsRef"),
    _item_shapes("paramsRef", "gradsRef", "momentumBufferListOptionalRef"),
)

# ------------------------------------------------------------------------------------------------- experimental


def _step(name: str, products: str, takes: str, inputs: str, outputs: str, *checks: Check) -> None:
    """One step on tensors of one data type and shape, each of which has its new value in an output of its own."""
    first, *others = inputs.split()
    results = outputs.split()
    rule(
        name,
        only_products(products),
        dtypes(takes, first),
        same_dtype(first, *others, *results),
        same_shape(first, *others),
        *checks,
        output_shape(**dict.fromkeys(results, shape_of(first))),
        output_dtype(**dict.fromkeys(results, dtype_of(first))),
    )


_step("aclnnApplyAdadelta", "950", "FLOAT FLOAT16", "var accum accumUpdate grad", "varOut accumOut accumUpdateOut")
_step("aclnnApplyAdamax", "950", "FLOAT FLOAT16", "var m v grad", "varOut mOut vOut")
_step("aclnnApplyRmsProp", "950", "FLOAT FLOAT16 BF16", "var ms mom grad", "varOutOut msOutOut momOutOut")
_POWERS = ("beta1Power", "beta2Power", "lr", "beta1", "beta2", "epsilon")
_step(
    "aclnnApplyAdamD",
    "A2",
    "FLOAT FLOAT16 BF16",
    "var m v grad",
    "varOut mOut vOut",
    same_dtype("var", *_POWERS),
    _one_number(*_POWERS),
)
rule(
    "aclnnApplyFtrl",
    only_products("A2"),
    dtypes("FLOAT FLOAT16 BF16", "varRef"),
    same_dtype("varRef", "accumRef", "linearRef", "grad", "lr", "l1", "l2", "lrPower"),
    same_shape("varRef", "accumRef", "linearRef", "grad"),
    _one_number("lr", "l1", "l2", "lrPower"),
    max_rank(8, "varRef"),
)
rule(
    "aclnnApplyGradientDescent",
    only_products("A2"),
    dtypes("FLOAT FLOAT16 BF16", "var"),
    same_dtype("var", "alpha", "delta"),
    same_shape("var", "delta"),
    _one_number("alpha"),
    rank(1, 8, "var"),
)
