"""Rules of the RMS norms with a gamma that is added to 1, and fused with an addition, a cast or a quantisation."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.norm.rms import GAMMA_IS_TAIL, per_row

_GAMMA_IS_TAIL_OF_SUM = require("gamma == x1[len(x1) - len(gamma):]")

rule(
    "aclnnGemmaRmsNorm",
    only_products("A2 A3 950"),
    dtype_table("x gamma yOut rstdOut", "T T T FLOAT", "H FLOAT H FLOAT", T=FLOATS, H={"950": HALVES}),
    tiling(rank(1, 8, "x", "gamma"), GAMMA_IS_TAIL, output_shape(yOut="x", rstdOut=per_row("x"))),
)

# ------------------------------------------------------------------------------------------------- x1 + x2, then the norm

_RSTD = "rstdOut is not None"
rule(
    "aclnnAddRmsNorm",
    # rstd and the sum are both computed, or the sum alone, or neither.
    when(_RSTD, required("xOut")),
    # Without rstd the kernel is another one, for 16-bit types and gammas of at most two axes.
    when(_RSTD, dtypes({"310P": FLOATS_WITHOUT_BF16, "": FLOATS}, "x1", "x2", "gamma")),
    when(f"not ({_RSTD})", dtypes({"310P": "FLOAT16", "": HALVES}, "x1", "x2", "gamma")),
    same_dtype("x1", "x2", "gamma", "yOut", "xOut"),
    dtypes("FLOAT", "rstdOut"),
    rank(1, 8, "x1", "x2", "gamma"),
    same_shape("x1", "x2", "yOut"),
    when(f"not ({_RSTD})", rank(1, 2, "gamma")),
    max_rank(8, "rstdOut"),
    same_shape("x1", "xOut"),
    unless_empty("x1 gamma", tiling(_GAMMA_IS_TAIL_OF_SUM)),
    infer_shape(yOut="x1", rstdOut=per_row("x1"), xOut="x1"),
)
rule(
    "aclnnInplaceAddRmsNorm",
    only_products("A2 A3 310P 950"),
    dtype_table("x1Ref x2Ref gamma rstdOut", "T T T FLOAT", T=FLOATS_OF_PRODUCT),
    tiling(
        rank(1, 8, "x1Ref", "x2Ref", "gamma"),
        same_shape("x1Ref", "x2Ref"),
        require("gamma == x1Ref[len(x1Ref) - len(gamma):]"),
        output_shape(rstdOut=per_row("x1Ref")),
    ),
)
rule(
    "aclnnAddRmsNormCast",
    only_products("A2 A3 950"),
    dtype_table("x1 x2 gamma y1Out y2Out rstdOut xOut", "T T T FLOAT T FLOAT T", T=HALVES),
    tiling(
        rank(1, 8, "x1", "x2", "gamma"),
        same_shape("x1", "x2"),
        _GAMMA_IS_TAIL_OF_SUM,
        output_shape(y1Out="x1", y2Out="x1", rstdOut=per_row("x1"), xOut="x1"),
    ),
)

# ------------------------------------------------------------------------------------------------- quantised per token

_QUANTISED = f"INT8 {FLOAT8S}"
_INT8_OUTPUTS = output_dtype(y1Out="INT8", y2Out="INT8", xOut="x1")

rule(
    "aclnnAddRmsNormDynamicQuant",
    dtypes(HALVES, "x1", "x2", "gamma", "smoothScale1Optional", "smoothScale2Optional"),
    dtypes(_QUANTISED, "y1Out", "y2Out"),
    same_dtype("y1Out", "y2Out"),
    dtypes(HALVES, "xOut"),
    dtypes("FLOAT", "scale1Out", "scale2Out"),
    tiling(
        same_shape("x1", "x2"),
        rank(1, "gamma"),
        require("gamma == x1[-1:]"),
        same_shape("gamma", "smoothScale1Optional", "smoothScale2Optional"),
    ),
    infer_shape(y1Out="x1", y2Out="x1", xOut="x1", scale1Out="x1[:-1]", scale2Out="x1[:-1]"),
    _INT8_OUTPUTS,
)
rule(
    "aclnnAddRmsNormDynamicQuantV2",
    when(
        "outputMask is None and smoothScale1Optional is None",
        absent("smoothScale2Optional", why="as smooth_scale1 is"),
    ),
    array_length("outputMask", 2),
    when("not outputMask[0]", absent("smoothScale1Optional", why="as output_mask leaves out its output")),
    when("not outputMask[1]", absent("smoothScale2Optional", why="as output_mask leaves out its output")),
    require("any(outputMask)"),
    # Which of the two quantised outputs are computed.
    define(
        first="outputMask is None or outputMask[0]",
        second="smoothScale1Optional is not None and smoothScale2Optional is not None if outputMask is None "
        "else outputMask[1]",
    ),
    when("first", required("y1Out", "scale1Out")),
    when("second", required("y2Out", "scale2Out")),
    unless_empty(
        "x1 x2 gamma y2Out",
        when("first and second", same_dtype("y1Out", "y2Out")),
        # Eight 4-bit numbers stand in one INT32.
        when("first and y1Out.dtype == INT32", require("y1Out[-1] * 8 == x1[-1]")),
        when("second and y2Out.dtype == INT32", require("y2Out[-1] * 8 == x1[-1]")),
        documented_dtypes("x1", "gamma"),
    ),
    tiling(
        rank(1, 8, "x1"),
        require("x2 == x1", "gamma == x1[-1:]"),
        same_shape("gamma", "smoothScale1Optional", "smoothScale2Optional", "betaOptional"),
    ),
    infer_shape(
        y1Out="x1 if first else (1,)",
        y2Out="x1 if second else (1,)",
        xOut="x1",
        scale1Out="x1[:-1] if first else (1,)",
        scale2Out="x1[:-1] if second else (1,)",
    ),
    _INT8_OUTPUTS,
    nullable="y1Out y2Out scale1Out scale2Out",
)
rule(
    "aclnnRmsNormDynamicQuant",
    only_products("A2 A3"),
    dtype_table("x gamma smoothScalesOptional betaOptional yOut scaleOut", "T T T T INT8 FLOAT", T=HALVES),
    tiling(
        rank(1, 8, "x", "gamma"),
        GAMMA_IS_TAIL,
        same_shape("gamma", "smoothScalesOptional", "betaOptional"),
        output_shape(yOut="x"),
    ),
    infer_shape(scaleOut="x[:len(x) - len(gamma)]"),
)

# ------------------------------------------------------------------------------------------------- quantised by scales

_POINTS = f"INT32 {FLOATS}"
_SCALES = ("scales1", "scales2Optional", "zeroPoints1Optional", "zeroPoints2Optional")

rule(
    "aclnnAddRmsNormQuant",
    dtypes(FLOATS, "x1", "x2", "gamma", "scales1", "scales2Optional"),
    dtypes(_POINTS, "zeroPoints1Optional", "zeroPoints2Optional"),
    dtypes(_QUANTISED, "y1Out", "y2Out"),
    same_dtype("y1Out", "y2Out"),
    dtypes(FLOATS, "xOut"),
    rank(1, 8, "x1", "x2", "gamma", *_SCALES, "y1Out", "y2Out", "xOut"),
    tiling(
        require("x2 == x1"),
        _GAMMA_IS_TAIL_OF_SUM,
        same_shape("gamma", "scales1", "scales2Optional", "zeroPoints1Optional", "zeroPoints2Optional"),
    ),
    infer_shape(y1Out="x1", y2Out="x1", xOut="x1"),
    _INT8_OUTPUTS,
)

# Whether AddRmsNormQuantV2 takes the kernel with a bias or an output of the norm; other calls go to the older one.
_EXTENDED = (
    "product == '950' or (product in ('A2', 'A3', '310P') and divMode"
    " and zeroPoints2Optional is None and scales2Optional is None"
    " and gamma in (x1[-1:], (1, *x1[-1:]))"
    " and not (gamma == (1,) and betaOptional is None and rmsNormOut is None)"
    " and zeroPoints1Optional is not None and zeroPoints1Optional == (1,) and scales1 == (1,)"
    " and (rmsNormOut is not None and xOut is None if betaOptional is None else xOut is not None and rmsNormOut is None))"
)
_OLD_KERNELS = "A2 A3 310P"
_V2_VALUES: DtypeSet = {_OLD_KERNELS: HALVES, "": FLOATS}

rule(
    "aclnnAddRmsNormQuantV2",
    define(extended=_EXTENDED),
    unless_empty(
        "x1 gamma y2Out",
        when(
            "not extended",
            required("xOut"),
            with_status(PARAM_NULLPTR, absent("rmsNormOut", why="beside these other arguments")),
            rank(1, 8, "x1", "x2", "gamma", *_SCALES, "betaOptional", "y1Out", "y2Out", "xOut"),
        ),
        dtypes(_V2_VALUES, "x1", "x2", "gamma", "betaOptional", "rmsNormOut", "xOut"),
        dtypes({_OLD_KERNELS: "FLOAT BF16", "": FLOATS}, "scales1", "scales2Optional"),
        dtypes({_OLD_KERNELS: "INT32 BF16", "": _POINTS}, "zeroPoints1Optional", "zeroPoints2Optional"),
        dtypes({"950": _QUANTISED, "": "INT8"}, "y1Out", "y2Out"),
        when(
            "extended",
            same_dtype("x1", "x2", "gamma"),
            max_rank(8, "x1", "x2", "gamma", "scales1", "betaOptional", "zeroPoints1Optional", "y1Out"),
        ),
        same_shape("x1", "y1Out", "y2Out", "rmsNormOut", "xOut"),
        when(
            "not extended",
            same_shape("x1", "x2"),
            on_products(_OLD_KERNELS, same_shape("gamma", *_SCALES)),
            same_shape("gamma", "betaOptional"),
            _GAMMA_IS_TAIL_OF_SUM,
            on_products("310P", require("gamma.size >= 32")),
        ),
    ),
    infer_shape(y1Out="x1", y2Out="x1", xOut="x1", rmsNormOut="None"),
    _INT8_OUTPUTS,
    nullable="xOut",
)
rule(
    "aclnnRmsNormQuant",
    dtypes({"950": FLOATS, "A2 A3": HALVES, "310P 310B": "FLOAT16", "": ""}, "x"),
    same_dtype("x", "gamma", "beta"),
    dtypes({"950": f"{_QUANTISED} INT4 INT32", "A2 A3": "INT8 INT4 INT32", "310P 310B": "INT8", "": ""}, "y"),
    on_products(PRODUCTS_BEFORE_950, same_dtype("x", "scale"), dtypes("INT8", "offset")),
    dtype_table(
        "x scale offset",
        "FLOAT FLOAT FLOAT",
        "H FLOAT FLOAT/INT32",
        "H H H",
        "H H INT8",
        H=HALVES,
        products="950",
    ),
    rank(1, 8, "x", "y"),
    rank(1, 2, "gamma", "beta"),
    require("gamma[-1] == x[-1]"),
    when("y.dtype == INT32", require("y[-1] * 8 == x[-1]")),
    when("y.dtype != INT32", require("y[-1] == x[-1]")),
    on_products("950", require("y[:-1] == x[:-1]"), when("y.dtype == INT4", require("x[-1] % 2 == 0"))),
    same_shape("gamma", "beta"),
    same_shape("scale", "offset"),
    tiling(require("gamma in (x[-1:], (1, *x[-1:]))", "scale.size in (1, x[-1])")),
    infer_shape(y="x"),
    output_dtype(y="INT8"),
)
rule(
    "aclnnRmsNormQuantV3",
    when("outputRstd", required("rstd")),
    rank(1, 2, "gamma"),
    rank(1, "scale"),
    when("y.dtype == INT32", require("y[-1] * 8 == x[-1]")),
    only_products("950"),
    documented_dtypes(),
    tiling(GAMMA_IS_TAIL, same_shape("gamma", "beta"), require("scale.size in (1, gamma.size)")),
    infer_shape(y="x", rstd=per_row("x")),
    output_dtype(y="INT8", rstd="FLOAT"),
    nullable="rstd",
)

# ------------------------------------------------------------------------------------------------- microscaled

# Blocks of 32 elements share a scale, and scales come in pairs.
_MX_SCALES = "(*{0}[:-1], ceil_div({0}[-1], 64), 2)"
_MX_DTYPES = output_dtype(yOut=dtype_attribute("dstType"), mxscaleOut="FLOAT8_E8M0", rstdOut="FLOAT")

rule(
    "aclnnRmsNormDynamicMxQuant",
    when("outputRstd", required("rstdOut")),
    only_products("950"),
    documented_dtypes(),
    tiling(GAMMA_IS_TAIL, same_shape("gamma", "beta"), output_shape(yOut="x", mxscaleOut=_MX_SCALES.format("x"))),
    when("outputRstd", infer_shape(rstdOut=per_row("x"))),
    _MX_DTYPES,
    nullable="rstdOut",
)
rule(
    "aclnnAddRmsNormDynamicMxQuant",
    when("outputRstd", required("rstdOut")),
    only_products("950"),
    documented_dtypes(),
    tiling(
        same_shape("x1", "x2"),
        _GAMMA_IS_TAIL_OF_SUM,
        same_shape("gamma", "beta"),
        output_shape(yOut="x1", xOut="x1", mxscaleOut=_MX_SCALES.format("x1")),
    ),
    when("outputRstd", infer_shape(rstdOut=per_row("x1"))),
    _MX_DTYPES,
    output_dtype(xOut="x1"),
)
rule(
    "aclnnRmsNormGradQuant",
    only_products("950"),
    documented_dtypes(),
    tiling(
        GAMMA_IS_TAIL,
        same_shape("x", "dy"),
        require("rstd.size == prod(x[: len(x) - len(gamma)])"),
        has_shape(scalesX="(1,)", offsetXOptional="(1,)"),
    ),
    infer_shape(dxOut="x", dgammaOut="gamma"),
    output_dtype(dxOut="INT8", dgammaOut="FLOAT"),
)
