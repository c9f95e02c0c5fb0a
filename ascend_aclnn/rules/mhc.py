"""Rules of ops-transformer/mhc: residual streams (n of them) that are mixed by learnt matrices.

d is the width of a stream; the leading axes are one (tokens) or two (batch, sequence).
"""

from __future__ import annotations

from ascend_aclnn.core.errors import RUNTIME_ERROR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- after the layer

rule(
    "aclnnMhcPost",
    # Without a matrix the streams stay as they are.
    on_products("A2 A3 310P 310B 310 910", required("hRes", status=RUNTIME_ERROR)),
    no_private_format("x", "out"),
    dtypes(HALVES, "x"),
    dtypes("FLOAT", "hRes", "hPost"),
    same_dtype("x", "hOut", "out"),
    shape_patterns((1, 2), x="* n d", hRes="* n n", hOut="* d", hPost="* n", out="* n d"),
)
rule(
    "aclnnMhcPostBackward",
    on_products("A2 A3 310P 310B 310 910", required("hRes")),
    not_empty("gradOutput", "x", "hOut", "hPost", "hRes"),
    no_private_format("gradOutput", "x", "hRes", "hOut", "hPost"),
    dtypes(HALVES, "gradOutput", "x", "hOut"),
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
    on_products("950", require("n in (4, 6, 8)", "d > 0")),
    on_products("A2 A3", require("n == 4", "d > 0", "d % 128 == 0")),
    output_dtype(gradHRes="FLOAT", gradHPost="FLOAT"),
)

# ------------------------------------------------------------------------------------------------- before the layer

_PRE = (
    not_empty("x", "phi", "alpha", "bias"),
    rank(3, 4, "x"),
    # alpha has a gate for each of hPre, hPost and hRes; without the last one the streams are not mixed.
    rank(1, "alpha"),
    require("alpha[0] in (2, 3)"),
    when("alpha[0] == 3", required("hRes")),
    together("invRmsOptional", "hMixOptional", "hPreOptional"),
    require("x[-2] in (4, 6, 8)", "x[-1] > 0", "x[-1] % 16 == 0"),
    define(rows="n*n + 2*n if alpha[0] == 3 else 2*n"),
    shape_patterns(
        (1, 2),
        x="* n d",
        phi="rows n*d",
        bias="rows",
        gammaOptional="n d",
        hIn="* d",
        hPost="* n",
        hRes="* n n",
        invRmsOptional="*",
        hMixOptional="* rows",
        hPreOptional="* n",
    ),
    dtypes(HALVES, "x"),
    dtypes("FLOAT", "phi", "alpha", "bias", "gammaOptional", "hPost", "hRes"),
    dtypes("FLOAT", "invRmsOptional", "hMixOptional", "hPreOptional"),
    same_dtype("x", "hIn"),
    one_of("opImplMode", 0, 1),
    documented_products,
    infer_shape(
        hRes="(*lead, n, n) if alpha[0] == 3 else None", invRmsOptional="None", hMixOptional="None", hPreOptional="None"
    ),
    output_dtype(hPost="FLOAT", hRes="FLOAT"),
)
rule("aclnnMhcPre aclnnMhcPreV2", *_PRE, nullable="hRes")

rule(
    "aclnnMhcPreBackward",
    not_empty("x", "phi", "alpha", "gradHIn", "gradHPost", "gradHRes", "invRms", "hMix", "hPre", "hPost"),
    define(rows="n*n + 2*n"),
    shape_patterns(
        (1, 2),
        x="* n d",
        gradHIn="* d",
        gradHPost="* n",
        gradHRes="* n n",
        invRms="*",
        hMix="* rows",
        hPre="* n",
        hPost="* n",
        phi="rows n*d",
        alpha="3",
        gamma="n d",
        gradXPostOptional="* n d",
        gradX="* n d",
        gradPhi="rows n*d",
        gradAlpha="3",
        gradBias="rows",
    ),
    dtypes(HALVES, "x", "gradHIn"),
    dtypes("FLOAT", "phi", "alpha", "gamma", "invRms", "hMix", "hPre", "hPost", "gradHPost", "gradHRes"),
    same_dtype("gradHIn", "gradX"),
    dtypes("FLOAT", "gradPhi", "gradAlpha", "gradBias", "gradGamma"),
    documented_products,
    infer_shape(gradGamma="gamma"),
    output_dtype(gradPhi="FLOAT", gradAlpha="FLOAT", gradBias="FLOAT", gradGamma="FLOAT"),
)

# ------------------------------------------------------------------------------------------------- doubly stochastic

_SAVED = ("hPre", "hcBeforeNorm", "invRms", "sumOut", "normOut")

rule(
    "aclnnMhcPreSinkhorn",
    dtypes(HALVES, "x", "hin"),
    dtypes("FLOAT", "phi", "alpha", "bias", "hPost", "hRes"),
    one_of("hcMult", 4),
    one_of("numIters", 20),
    rank(4, "x"),
    require("x[2] == 4"),
    define(rows="n*n + 2*n", steps="2 * numIters"),
    shape_patterns((2, 2), x="* n d", hin="* d", phi="rows n*d", alpha="3", bias="rows", hPost="* n", hRes="* n*n"),
    no_private_format("x", "phi", "alpha", "bias", "hin", "hPost", "hRes"),
    # Outputs for the gradients.
    when(
        "needBackward",
        required(*_SAVED),
        dtypes("FLOAT", *_SAVED),
        no_private_format(*_SAVED),
        output_shape(
            hPre="(*lead, n)",
            hcBeforeNorm="(*lead, rows)",
            invRms="(*lead, 1)",
            sumOut="(steps, *lead, n)",
            normOut="(steps, *lead, n, n)",
        ),
    ),
    when("not needBackward", infer_shape(**dict.fromkeys(_SAVED, "(0,)"))),
    output_dtype(hPost="FLOAT", hRes="FLOAT", **dict.fromkeys(_SAVED, "FLOAT")),
    nullable=" ".join(_SAVED),
)
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
    shape_patterns((1, 2), gradHRes="* n n | * n*n"),
    has_shape(sumOut="(sumOut[0], *lead, n)", normOut="(sumOut[0], *lead, n, n)"),
    tiling(require("sumOut[0] % 2 == 0")),
    dtypes(HALVES, "x", "gradHin", "gradX"),
    dtypes("FLOAT", "phi", "alpha", "bias", "gradHPost", "gradHRes"),
    dtypes("FLOAT", "hPre", "hcBeforeNorm", "invRms", "sumOut", "normOut", "gradPhi", "gradAlpha", "gradBias"),
    output_dtype(gradX="x", gradPhi="FLOAT", gradAlpha="FLOAT", gradBias="FLOAT"),
)

_MATRICES = "n in (4, 6, 8)"
# Both are kept, or neither (a single item stands for none); of two steps for each iteration, rows padded to 8.
_KEPT = (
    define(keeps="normOut is not None and normOut.size != 1 or sumOut is not None and sumOut.size != 1"),
    when(
        "keeps",
        require("normOut is not None", "sumOut is not None", "normOut.size != 1", "sumOut.size != 1"),
        dtypes("FLOAT", "normOut", "sumOut"),
        define(tokens="2 * numIters * prod(lead)"),
        has_shape(normOut="(tokens * n * 8,)", sumOut="(tokens * 8,)"),
    ),
)
rule(
    "aclnnMhcSinkhorn",
    dtypes("FLOAT", "x", "output"),
    output_shape(output="x"),
    in_range("numIters", 1, 100),
    shape_patterns((1, 2), x="* n n", where=_MATRICES),
    *_KEPT,
    same_format("x", "output"),
    not_empty("x"),
    documented_products,
    infer_shape(normOut="None", sumOut="None"),
    output_dtype(output="FLOAT"),
)
rule(
    "aclnnMhcSinkhornBackward",
    dtypes("FLOAT", "gradOutput", "normOut", "sumOut", "out"),
    output_shape(out="gradOutput"),
    shape_patterns((1, 2), gradOutput="* n n", where=_MATRICES),
    rank(1, "normOut", "sumOut"),
    tiling(require("normOut[0] == sumOut[0] * n", "normOut[0] % (2 * prod(gradOutput)) == 0")),
    same_format("gradOutput", "out"),
    unless_empty("gradOutput", documented_products),
    output_dtype(out="FLOAT"),
)
