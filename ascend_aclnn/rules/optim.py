"""Rules of ops-nn/optim: optimiser steps, which change their parameters in place."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.language import *


def _one_number(*names: str) -> Check:
    return require(*(f"{name}.size == 1" for name in names))


_ADAM_NUMBERS = ("beta1Power", "beta2Power", "lr", "weightDecay", "beta1", "beta2", "eps")
rule(
    "aclnnApplyAdamW",
    when("amsgrad", required("maxGradNormOptional")),
    dtypes({"910": FLOATS_WITHOUT_BF16, "": FLOATS}, "varRef"),
    same_dtype("varRef", "mRef", "vRef", *_ADAM_NUMBERS, "grad", "maxGradNormOptional"),
    same_shape("varRef", "mRef", "vRef", "maxGradNormOptional", "grad"),
    _one_number(*_ADAM_NUMBERS),
)
rule(
    "aclnnApplyAdamWV2",
    when("amsgrad", required("maxGradNormOptionalRef")),
    dtypes(FLOATS_OF_PRODUCT, "varRef", "mRef", "vRef", "maxGradNormOptionalRef", "grad"),
    dtypes("FLOAT INT64", "step"),
    same_shape("varRef", "mRef", "vRef", "maxGradNormOptionalRef", "grad"),
    _one_number("step"),
)


rule(
    "aclnnApplyAdam",
    only_products("950"),
    dtype_table(
        "varRef m v grad beta1Power beta2Power lr beta1 beta2 epsilon",
        "T T T T FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT",
        T=FLOATS,
    ),
    tiling(
        same_shape("varRef", "m", "v", "grad"),
        _one_number("beta1Power", "beta2Power", "lr", "beta1", "beta2", "epsilon"),
    ),
)
rule(
    "aclnnApplyKerasMomentum",
    only_products("950"),
    dtype_table("varRef accum grad lr momentum", "T T T FLOAT FLOAT", T=FLOATS),
    tiling(same_shape("varRef", "accum", "grad"), _one_number("lr", "momentum")),
)


rule(
    "aclnnApplyFusedEmaAdam",
    only_products("A2 A3 950"),
    documented_dtypes("varRef", "step"),
    same_dtype("varRef", "grad", "mRef", "vRef", "sRef"),
    tiling(same_shape("varRef", "grad", "mRef", "vRef", "sRef"), not_empty("step"), one_of("mode", 0, 1)),
)

rule(
    "aclnnApplyAdamWQuant",
    only_products("A2 A3 950"),
    dtype_table(
        "varRef grad mRef vRef qmapM qmapV absmaxMRef absmaxVRef step",
        "T T UINT8 UINT8 FLOAT FLOAT FLOAT FLOAT INT64",
        T=FLOATS,
    ),
    tiling(
        same_shape("varRef", "grad", "mRef", "vRef"),
        # 256 elements share a scale of the quantised moments; their code book has 256 entries.
        one_of("blockSize", 256),
        require("qmapM.size == 256", "qmapV.size == 256"),
        require("absmaxMRef.size == ceil_div(varRef.size, 256)", "absmaxVRef.size == ceil_div(varRef.size, 256)"),
        _one_number("step"),
    ),
)


_STEP = ("inputTokens", "sampledTokenIds", "inputPositions", "seqLens", "slotMapping", "blockTables")
_SPECULATIVE = "specToken is not None and acceptedNum is not None"
_PLAIN_STEP = (
    require("numSeqs > numQueries", "numSeqs < 200000000"),
    require(*(f"{name}[0] == numSeqs" for name in _STEP if name != "sampledTokenIds")),
    require("sampledTokenIds[0] == numQueries", "sampledTokenIds[1] == 1"),
)
rule(
    "aclnnAdvanceStep aclnnAdvanceStepV2",
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
            word="speculative",
        ),
        when(f"not ({_SPECULATIVE})", *_PLAIN_STEP, word="plain"),
    ),
)

# ------------------------------------------------------------------------------------------------- tensor lists

_ADAMW = ("grads", "expAvgsRef", "expAvgSqsRef")
rule(
    "aclnnFusedAdamw",
    not_negative("lr", "beta1", "beta2", "weightDecay"),
    when("amsgrad", required("maxExpAvgSqsRef", status=PARAM_INVALID)),
    no_null_item("paramsRef", *_ADAMW, "stateSteps", "maxExpAvgSqsRef"),
    require("len(paramsRef) > 0"),
    require(*(f"len({name}) == len(paramsRef)" for name in (*_ADAMW, "stateSteps", "maxExpAvgSqsRef"))),
    dtypes(FLOATS, "paramsRef"),
    same_dtype("paramsRef", "paramsRef", *_ADAMW, "maxExpAvgSqsRef"),
    dtypes("FLOAT INT64", "stateSteps"),
    same_dtype("stateSteps", "stateSteps"),
    has_shape(**dict.fromkeys(_ADAMW, "paramsRef")),
    tiling(require("all(prod(step) == 1 for step in stateSteps)")),
)
rule(
    "aclnnFusedSgd",
    not_negative("weightDecay", "momentum", "lr"),
    # Below 1e-6 a float counts as zero; an empty list of buffers counts as none.
    when("nesterov", require("momentum > 0", "abs(dampening) < 1e-06")),
    define(buffers="momentumBufferListOptionalRef is not None and len(momentumBufferListOptionalRef) > 0"),
    require("buffers == (abs(momentum) >= 1e-06)", argument="momentum"),
    no_null_item("paramsRef", "gradsRef", "momentumBufferListOptionalRef"),
    require("len(paramsRef) > 0", "len(gradsRef) == len(paramsRef)"),
    when("buffers", require("len(momentumBufferListOptionalRef) == len(paramsRef)")),
    dtypes(FLOATS_OF_PRODUCT, "paramsRef"),
    same_dtype("paramsRef", "paramsRef", "gradsRef", "momentumBufferListOptionalRef"),
    max_rank(8, "paramsRef"),
    has_shape(gradsRef="paramsRef"),
    when("buffers", has_shape(momentumBufferListOptionalRef="paramsRef")),
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
        output_shape(**dict.fromkeys(results, first)),
    )


_step("aclnnApplyAdadelta", "950", FLOATS_WITHOUT_BF16, "var accum accumUpdate grad", "varOut accumOut accumUpdateOut")
_step("aclnnApplyAdamax", "950", FLOATS_WITHOUT_BF16, "var m v grad", "varOut mOut vOut")
_step("aclnnApplyRmsProp", "950", FLOATS, "var ms mom grad", "varOutOut msOutOut momOutOut")
_POWERS = ("beta1Power", "beta2Power", "lr", "beta1", "beta2", "epsilon")
_step(
    "aclnnApplyAdamD",
    "A2",
    FLOATS,
    "var m v grad",
    "varOut mOut vOut",
    same_dtype("var", *_POWERS),
    _one_number(*_POWERS),
)
rule(
    "aclnnApplyFtrl",
    only_products("A2"),
    dtypes(FLOATS, "varRef"),
    same_dtype("varRef", "accumRef", "linearRef", "grad", "lr", "l1", "l2", "lrPower"),
    same_shape("varRef", "accumRef", "linearRef", "grad"),
    _one_number("lr", "l1", "l2", "lrPower"),
    max_rank(8, "varRef"),
)
rule(
    "aclnnApplyGradientDescent",
    only_products("A2"),
    dtypes(FLOATS, "var"),
    same_dtype("var", "alpha", "delta"),
    same_shape("var", "delta"),
    _one_number("alpha"),
    rank(1, 8, "var"),
)

_step(
    "aclnnApplyCenteredRMSProp",
    "950",
    FLOATS_WITHOUT_BF16,
    "var mg ms mom grad",
    "varOutOut mgOutOut msOutOut momOutOut",
    same_dtype("var", "lr", "rho", "momentum", "epsilon"),
    _one_number("lr", "rho", "momentum", "epsilon"),
)
_step(
    "aclnnApplyProximalAdagrad",
    "950",
    "FLOAT",
    "var accum grad",
    "varOutOut accumOutOut",
    dtypes("FLOAT", "lr", "l1", "l2"),
    _one_number("lr", "l1", "l2"),
)
_ADAM = "input0 input1 input2 input3 input4 mul0X mul1X mul2X mul3X"
_step("aclnnAdamApplyOne", "A2", FLOATS, f"{_ADAM} add2Y", "output0Out output1Out output2Out")
for _name in ("aclnnAdamApplyOneWithDecay", "aclnnAdamApplyOneWithDecayAssign"):
    _step(_name, "A2", FLOATS, f"{_ADAM} mul4X add2Y", "output0Out output1Out output2Out")
rule(
    "aclnnApplyAdagradD",
    only_products("A2"),
    dtypes(FLOATS, "varRef"),
    same_dtype("varRef", "accumRef", "grad", "lr"),
    same_shape("varRef", "accumRef", "grad"),
    _one_number("lr"),
    max_rank(8, "varRef"),
)

rule(
    "aclnnOptimizedTransducer",
    only_products("A2"),
    same_dtype("logits", "lossOut", "gradOut", among=FLOATS_WITHOUT_BF16),
    dtypes("INT32", "targets", "logitLengths", "targetLengths"),
    rank(4, "logits"),
    require("logits[2] > 0", "logits[3] > 0", "-logits[3] <= blank < logits[3]"),
    has_shape(targets="(logits[0], logits[2] - 1)", logitLengths="(logits[0],)", targetLengths="(logits[0],)"),
    output_shape(lossOut="(logits[0],)", gradOut="logits"),
)
