"""Rules of ops-transformer/mhc: residual streams (n of them) that are mixed by learnt matrices.

* d is the width of a stream; the leading axes are one (tokens) or two (batch, sequence).
"""

from __future__ import annotations

import math

from ascend_aclnn.core.errors import PARAM_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    documented_products,
    dtypes,
    in_range,
    infer_shape,
    no_private_format,
    on_products,
    one_of,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    same_format,
    shape_of,
    shape_patterns,
    unless_empty,
)

_16 = "FLOAT16 BF16"


def _filled(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            call.require(not call.is_empty(name), name, "is empty")

    return check


def _streams(*allowed: int, axis: int = -2, multiple: int = 1) -> Check:
    """How many streams there are, and of what their width is a multiple."""

    def check(call: Call) -> None:
        n, d = call.size("x", axis), call.size("x", -1)
        fits = n in allowed and d > 0 and d % multiple == 0
        text = (
            f"has {n} streams of width {d}; {' or '.join(map(str, allowed))}, and a multiple of {multiple} are needed"
        )
        call.require(fits, "x", text)

    return check


# --------------------------------------------------------------------------------------------------- behind the layer


def _mixing_matrix(call: Call) -> None:
    """Without a matrix the streams stay as they are: on Ascend 950 only."""
    there = call.is_present("hRes") or call.product == "950"
    call.require(there, "hRes", f"is None; on {call.soc.name} it is required", RUNTIME_ERROR)


rule(
    "aclnnMhcPost",
    _mixing_matrix,
    no_private_format("x", "out"),
    dtypes(_16, "x"),
    dtypes("FLOAT", "hRes", "hPost"),
    same_dtype("x", "hOut", "out"),
    shape_patterns((1, 2), x="* n d", hRes="* n n", hOut="* d", hPost="* n", out="* n d"),
)


def _matrix_pointer(call: Call) -> None:
    there = call.is_present("hRes") or call.product == "950"
    call.require(there, "hRes", "is None (a null pointer); it is required", PARAM_NULLPTR)


rule(
    "aclnnMhcPostBackward",
    _matrix_pointer,
    _filled("gradOutput", "x", "hOut", "hPost", "hRes"),
    no_private_format("gradOutput", "x", "hRes", "hOut", "hPost"),
    dtypes(_16, "gradOutput", "x", "hOut"),
    dtypes("FLOAT", "hRes", "hPost", "gradHRes", "gradHPost"),
    same_dtype("x", "gradX"),
    same_dtype("hOut", "gradHOut"),
    shape_patterns(
        (1, 2),
        x="* n d",
        gradOutput="* n d",
        hRes="* n n",
        hOut="* d",
        hPost="* n",
        gradX="* n d",
        gradHRes="* n n",
        gradHOut="* d",
        gradHPost="* n",
    ),
    on_products("950", _streams(4, 6, 8)),
    on_products("A2 A3", _streams(4, multiple=128)),
    output_dtype(gradHRes="FLOAT", gradHPost="FLOAT"),
)

# --------------------------------------------------------------------------------------------------- before the layer


def _gates(call: Call) -> None:
    """alpha has 3 items, or 2 where the streams are not mixed."""
    rank(1, 1, "alpha")(call)
    call.require(call.shape("alpha")[0] in (2, 3), "alpha", f"has {call.shape('alpha')[0]} items; it must have 2 or 3")
    if call.shape("alpha")[0] == 3:
        call.require(call.is_present("hRes"), "hRes", "is None (a null pointer); it is required", PARAM_NULLPTR)


def _all_or_none(call: Call) -> None:
    given = [call.is_present(name) for name in ("invRmsOptional", "hMixOptional", "hPreOptional")]
    call.require(all(given) or not any(given), "invRmsOptional", "h_mix and h_pre are given all, or none")


def _mixed(call: Call) -> bool:
    return call.shape("alpha") != (2,)


def _pre_shapes(call: Call) -> None:
    if _mixed(call):
        shape_patterns(
            (1, 2),
            x="* n d",
            phi="n*n+2*n n*d",
            bias="n*n+2*n",
            gammaOptional="n d",
            hIn="* d",
            hPost="* n",
            hRes="* n n",
            invRmsOptional="*",
            hMixOptional="* n*n+2*n",
            hPreOptional="* n",
        )(call)
    else:
        shape_patterns(
            (1, 2),
            x="* n d",
            phi="2*n n*d",
            bias="2*n",
            gammaOptional="n d",
            hIn="* d",
            hPost="* n",
            invRmsOptional="*",
            hMixOptional="* 2*n",
            hPreOptional="* n",
        )(call)


for _name, _modes in (("aclnnMhcPre", ()), ("aclnnMhcPreV2", (0, 1))):
    rule(
        _name,
        _filled("x", "phi", "alpha", "bias"),
        rank(3, 4, "x"),
        _gates,
        _all_or_none,
        _streams(4, 6, 8, multiple=16),
        _pre_shapes,
        dtypes(_16, "x"),
        dtypes("FLOAT", "phi", "alpha", "bias", "gammaOptional", "hPost", "hRes"),
        dtypes("FLOAT", "invRmsOptional", "hMixOptional", "hPreOptional"),
        same_dtype("x", "hIn"),
        *(one_of("opImplMode", *_modes) for _ in _modes[:1]),
        documented_products,
        infer_shape(
            hIn=lambda call: (*call.shape("x")[:-2], call.size("x", -1)),
            hPost=lambda call: call.shape("x")[:-1],
            hRes=lambda call: (*call.shape("x")[:-1], call.size("x", -2)) if _mixed(call) else None,
            invRmsOptional=lambda call: None,
            hMixOptional=lambda call: None,
            hPreOptional=lambda call: None,
        ),
        output_dtype(hPost="FLOAT", hRes="FLOAT"),
        nullable="hRes",
    )

rule(
    "aclnnMhcPreBackward",
    _filled("x", "phi", "alpha", "gradHIn", "gradHPost", "gradHRes", "invRms", "hMix", "hPre", "hPost"),
    shape_patterns(
        (1, 2),
        x="* n d",
        gradHIn="* d",
        gradHPost="* n",
        gradHRes="* n n",
        invRms="*",
        hMix="* n*n+2*n",
        hPre="* n",
        hPost="* n",
        phi="n*n+2*n n*d",
        alpha="3",
        gamma="n d",
        gradXPostOptional="* n d",
        gradX="* n d",
        gradPhi="n*n+2*n n*d",
        gradAlpha="3",
        gradBias="n*n+2*n",
    ),
    dtypes(_16, "x", "gradHIn"),
    dtypes("FLOAT", "phi", "alpha", "gamma", "invRms", "hMix", "hPre", "hPost", "gradHPost", "gradHRes"),
    same_dtype("gradHIn", "gradX"),
    dtypes("FLOAT", "gradPhi", "gradAlpha", "gradBias", "gradGamma"),
    documented_products,
    infer_shape(gradGamma=lambda call: call.shape("gamma") if call.is_present("gamma") else None),
    output_dtype(gradPhi="FLOAT", gradAlpha="FLOAT", gradBias="FLOAT", gradGamma="FLOAT"),
)

# --------------------------------------------------------------------------------------------------- doubly stochastic


def _iterations(call: Call) -> None:
    one_of("hcMult", 4)(call)
    one_of("numIters", 20)(call)
    rank(4, 4, "x")(call)
    n = call.shape("x")[2]
    call.require(n == 4, "x", f"has {n} streams; it must have 4, as hc_mult")


_SAVED = ("hPre", "hcBeforeNorm", "invRms", "sumOut", "normOut")


def _saved(call: Call) -> None:
    """What the gradients need."""
    if call["needBackward"]:
        for name in _SAVED:
            call.require(
                call.is_present(name),
                name,
                "is None (a null pointer); with need_backward it is required",
                PARAM_NULLPTR,
            )
        dtypes("FLOAT", *_SAVED)(call)
        no_private_format(*_SAVED)(call)
        _saved_shapes(call)


_saved_shapes = shape_patterns(
    (2, 2),
    x="* n d",
    hPre="* n",
    hcBeforeNorm="* n*n+2*n",
    invRms="* 1",
)


def _steps(call: Call, *tail: int) -> Shape:
    return (2 * call["numIters"], *call.shape("x")[:2], *tail)


def _saved_sums(call: Call) -> None:
    if call["needBackward"]:
        n = call.shape("x")[2]
        output_shape(sumOut=lambda c: _steps(c, n), normOut=lambda c: _steps(c, n, n))(call)


rule(
    "aclnnMhcPreSinkhorn",
    dtypes(_16, "x", "hin"),
    dtypes("FLOAT", "phi", "alpha", "bias", "hPost", "hRes"),
    _iterations,
    shape_patterns(
        (2, 2),
        x="* n d",
        hin="* d",
        phi="n*n+2*n n*d",
        alpha="3",
        bias="n*n+2*n",
        hPost="* n",
        hRes="* n*n",
    ),
    no_private_format("x", "phi", "alpha", "bias", "hin", "hPost", "hRes"),
    _saved,
    _saved_sums,
    infer_shape(
        hPre=lambda call: call.shape("x")[:3] if call["needBackward"] else (0,),
        hcBeforeNorm=lambda call: (*call.shape("x")[:2], 24) if call["needBackward"] else (0,),
        invRms=lambda call: (*call.shape("x")[:2], 1) if call["needBackward"] else (0,),
        sumOut=lambda call: _steps(call, 4) if call["needBackward"] else (0,),
        normOut=lambda call: _steps(call, 4, 4) if call["needBackward"] else (0,),
    ),
    output_dtype(
        hPost="FLOAT", hRes="FLOAT", hPre="FLOAT", hcBeforeNorm="FLOAT", invRms="FLOAT", sumOut="FLOAT", normOut="FLOAT"
    ),
    nullable=" ".join(_SAVED),
)


def _mixing_gradient(call: Call) -> None:
    """A matrix for each token, or its items in one row."""
    *lead, n, _d = call.shape("x", least=2)
    got, name = call.shape("gradHRes"), "gradHRes"
    call.require(got in ((*lead, n, n), (*lead, n * n)), name, f"has shape {got}; it must be {(*lead, n, n)}")


def _step_shapes(call: Call) -> None:
    *lead, n, _d = call.shape("x", least=2)
    for name, tail in (("sumOut", (*lead, n)), ("normOut", (*lead, n, n))):
        got = call.shape(name)
        call.require(got[1:] == tail, name, f"has shape {got}; behind its first axis it must be {tail}")


rule(
    "aclnnMhcPreSinkhornBackward",
    shape_patterns(
        (1, 2),
        x="* n d",
        gradHin="* d",
        gradHPost="* n",
        phi="m n*d",
        alpha="3",
        bias="m",
        hPre="* n",
        hcBeforeNorm="* m",
        invRms="* 1",
        gradX="* n d",
        gradPhi="m n*d",
        gradAlpha="3",
        gradBias="m",
    ),
    _mixing_gradient,
    _step_shapes,
    dtypes(_16, "x", "gradHin", "gradX"),
    dtypes(
        "FLOAT", "phi", "alpha", "bias", "gradHPost", "gradHRes", "hPre", "hcBeforeNorm", "invRms", "sumOut", "normOut"
    ),
    dtypes("FLOAT", "gradPhi", "gradAlpha", "gradBias"),
    output_dtype(gradX=lambda call: call.dtype("x"), gradPhi="FLOAT", gradAlpha="FLOAT", gradBias="FLOAT"),
)


def _square(name: str) -> Check:
    def check(call: Call) -> None:
        rank(3, 4, name)(call)
        m, n = call.shape(name, least=2)[-2:]
        call.require(
            m == n and n in (4, 6, 8), name, f"has shape {call.shape(name)}; its matrices must be 4, 6 or 8 square"
        )

    return check


def _steps_of_sinkhorn(call: Call) -> None:
    """Both are kept, or neither (a single item stands for none); of two steps for each iteration, rows padded to 8."""
    sizes = [call[name].size if call.is_present(name) else 1 for name in ("normOut", "sumOut")]
    if sizes != [1, 1]:
        call.require(1 not in sizes, "normOut", "and sum_out are given both, or neither")
        *lead, n, _n = call.shape("x", least=2)
        tokens = 2 * call["numIters"] * math.prod(lead)
        for name, wanted in (("normOut", tokens * n * 8), ("sumOut", tokens * 8)):
            dtypes("FLOAT", name)(call)
            got = call.shape(name)
            call.require(got == (wanted,), name, f"has shape {got}; it must be {(wanted,)}")


rule(
    "aclnnMhcSinkhorn",
    dtypes("FLOAT", "x", "output"),
    output_shape(output=shape_of("x")),
    in_range("numIters", 1, 100),
    _square("x"),
    _steps_of_sinkhorn,
    same_format("x", "output"),
    _filled("x"),
    documented_products,
    infer_shape(normOut=lambda call: None, sumOut=lambda call: None),
    output_dtype(output="FLOAT"),
)
rule(
    "aclnnMhcSinkhornBackward",
    dtypes("FLOAT", "gradOutput", "normOut", "sumOut", "out"),
    output_shape(out=shape_of("gradOutput")),
    _square("gradOutput"),
    rank(1, 1, "normOut", "sumOut"),
    same_format("gradOutput", "out"),
    unless_empty("gradOutput", documented_products),
    output_dtype(out="FLOAT"),
)
