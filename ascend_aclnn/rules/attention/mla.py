"""Rules of what comes before multi-head latent attention (part of ops-transformer/attention)."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

# weightDq (model, latent of queries), weightUqQr (that, heads * both parts), weightDkvKr (model, latent and rotated part).
_WEIGHTS = tiling(
    require("len(tokenX) in (2, 3)", "len(weightUk) == 3", "len(weightDq) == 2", "len(weightUqQr) == 2"),
    require("len(weightDkvKr) == 2", "len(kvCacheRef) in (3, 4)", "len(krCacheRef) in (1, 3, 4)"),
    require("weightDq[0] == tokenX[-1]", "weightUqQr[0] == weightDq[1]", "weightDkvKr[0] == tokenX[-1]"),
    require("weightDkvKr[1] > weightUk[2]", "weightUk[0] > 0"),
    define(rotated="weightDkvKr[1] - weightUk[2]"),
    require("weightUqQr[1] == weightUk[0] * (weightUk[1] + rotated)"),
    has_shape(rmsnormGammaCq="(weightDq[1],)", rmsnormGammaCkv="(weightUk[2],)"),
    require("ropeSin.size == tokenX.size // tokenX[-1] * rotated", "ropeCos.size == ropeSin.size", "rotated % 2 == 0"),
)

# One factor for each column of a product or a row of the cache; of everything in 8 bits, for each token too.
_COLUMNS = {
    "dequantScaleWDqOptional": "weightDq",
    "dequantScaleWUqQrOptional": "weightUqQr",
    "dequantScaleWDkvKrOptional": "weightDkvKr",
}
_SCALES = (
    require("dequantScaleXOptional.size == tokens"),
    require(*(f"{scale}.size == {weight}[1]" for scale, weight in _COLUMNS.items())),
)
# MXFP8 has a factor for each 32 numbers.
_SCALES_OF_32 = require(
    "dequantScaleXOptional.size * 32 == tokenX.size",
    *(f"{scale}.size * 32 == {weight}[0] * {weight}[1]" for scale, weight in _COLUMNS.items()),
)
_CACHE_SCALES = require(
    "quantScaleCkvOptional.size in (1, weightUk[2])",
    "quantScaleCkrOptional.size == rotated",
    "smoothScalesCqOptional.size == weightDq[1]",
)

# The query, absorbed or rotated: tokens, heads, width. Without tables nothing is rotated; then the width is what
# weightDkvKr has beside the latent.
_QUERIES = (
    define(
        rotatedWidth="ropeSin[-1] if ropeSin is not None and ropeSin.size > 0 else"
        " (weightDkvKr[0] * weightDkvKr[3] if len(weightDkvKr) == 4 else weightDkvKr[1]) - weightUk[2]",
        tokens="prod(tokenX[:-1])",
    ),
    infer_shape(
        queryOut="(*tokenX[:-1], weightUk[0], weightUk[2])", queryRopeOut="(*tokenX[:-1], weightUk[0], rotatedWidth)"
    ),
)

# The query is quantised where everything is, the cache by tensor: one factor for each head of each token.
_QUANTISED = define(quantised="weightQuantMode >= 2 and kvCacheQuantMode == 1")

_NOPE_SCALE = "(tokens, weightUk[0], 1) if quantised else None"

_QUERY_DTYPES = output_dtype(
    queryOut="tokenX.dtype if quantised else BF16",
    queryRopeOut="BF16",
    dequantScaleQNopeOut="FLOAT",
    dequantScaleQNopeOutOptional="FLOAT",
)

_QUANT_MODES = (
    on_products("950", in_range("weightQuantMode", 0, 5)),
    when("product != '950'", in_range("weightQuantMode", 0, 2)),
    when("weightQuantMode == 0", one_of("kvCacheQuantMode", 0)),
    when("weightQuantMode == 1", one_of("kvCacheQuantMode", 0, 2, 3)),
    when("weightQuantMode >= 2", one_of("kvCacheQuantMode", 0, 1, 3)),
    one_of("queryQuantMode", 0, 1),
)

# A slot of the cache for each token, unless batches are stored whole or page by page.
_INDEX = {"cacheIndex": "cacheIndexOptional"}
_SLOTS = when(
    "cacheModeOptional is None or cacheModeOptional in ('', 'PA_BSND', 'PA_NZ')",
    tiling(require("cacheIndex is not None", "cacheIndex.size == tokens")),
)
_MODES = tiling(one_of("cacheModeOptional", "", "PA_BSND", "PA_NZ", "PA_BLK_BSND", "PA_BLK_NZ", "BSND", "TND"))

# Scales of the tokens have a row for each.
_ROWS = tiling(require("dequantScaleXOptional[0] == prod(tokenX[:-1])", "dequantScaleXOptional[-1] > 0"))
_DOCUMENTED = (documented_products, documented_dtypes(), _WEIGHTS, _ROWS)

rule("aclnnMlaProlog", *_DOCUMENTED, *_QUERIES, _SLOTS, output_dtype(queryOut="BF16", queryRopeOut="BF16"))

rule(
    "aclnnMlaPrologV2 aclnnMlaPrologV2WeightNz",
    *_DOCUMENTED,
    *_QUERIES,
    define(quantised="tokenX.dtype == INT8 and kvCacheRef.dtype == INT8"),
    tiling(
        when(
            "weightDq.dtype == INT8",
            require("dequantScaleXOptional is not None", *(f"{scale} is not None" for scale in _COLUMNS)),
            word="int8",
        ),
        *_SCALES,
        _CACHE_SCALES,
    ),
    _SLOTS,
    infer_shape(dequantScaleQNopeOutOptional=_NOPE_SCALE),
    _QUERY_DTYPES,
    aliases=_INDEX,
)
_SCALES_BY_MODE = tiling(
    when("weightQuantMode >= 1", require("dequantScaleWUqQrOptional is not None")),
    when(
        "weightQuantMode >= 2",
        require("dequantScaleXOptional is not None", *(f"{scale} is not None" for scale in _COLUMNS)),
    ),
    when("weightQuantMode in (1, 2)", *_SCALES),
    when("weightQuantMode == 3", _SCALES_OF_32),
    _CACHE_SCALES,
)

rule(
    "aclnnMlaPrologV3",
    *_QUANT_MODES,
    *_DOCUMENTED,
    *_QUERIES,
    _QUANTISED,
    _SCALES_BY_MODE,
    _SLOTS,
    _MODES,
    # The normalised query is put out if its flag asks for it.
    infer_shape(
        dequantScaleQNopeOut=_NOPE_SCALE,
        queryNormOut="(*tokenX[:-1], weightDq[1]) if queryNormFlag else None",
        dequantScaleQNormOut="(tokens, weightDq[1] // 32 if weightQuantMode == 3 else 1)"
        " if queryNormFlag and weightQuantMode != 0 else None",
    ),
    _QUERY_DTYPES,
    output_dtype(queryNormOut="BF16 if weightQuantMode == 0 else weightUqQr.dtype", dequantScaleQNormOut="FLOAT"),
    nullable="dequantScaleQNopeOut queryNormOut dequantScaleQNormOut",
    aliases=_INDEX,
)

rule(
    "aclnnMlaPrologV3WeightNz aclnnMlaPrologV4WeightNz",
    on_operators("aclnnMlaPrologV3WeightNz", required("ropeSin", "ropeCos")),
    *_QUANT_MODES,
    _QUANTISED,
    on_operators(
        "aclnnMlaPrologV4WeightNz",
        when("doRope", required("ropeSin", "ropeCos", status=PARAM_INVALID), not_empty("ropeSin", "ropeCos")),
        when("not doRope", absent_or_empty("ropeSin", "ropeCos", why="without do_rope")),
    ),
    present_if("quantised", "dequantScaleQNopeOutOptional"),
    present_if("queryNormOutOptional is not None and weightQuantMode != 0", "dequantScaleQNormOutOptional"),
    *_DOCUMENTED,
    *_QUERIES,
    _SCALES_BY_MODE,
    _SLOTS,
    _MODES,
    # A tensor passed for the normalised query requests it: the tensor itself is the flag.
    infer_shape(
        dequantScaleQNopeOutOptional=_NOPE_SCALE, queryNormOutOptional="None", dequantScaleQNormOutOptional="None"
    ),
    _QUERY_DTYPES,
    nullable="ropeSin ropeCos",
    aliases=_INDEX,
)

# The latent and the rotated part are in one tensor with cache mode 0, in two with the others.
rule(
    "aclnnMlaPreprocess aclnnMlaPreprocessV2",
    together("cos", "sin", status=PARAM_NULLPTR),
    documented_products,
    documented_dtypes(),
    tiling(
        require(
            "len(input) == 2", "len(wuk) == 3", "len(kvCache) == 4", "kvCacheRope is None or len(kvCacheRope) == 4"
        ),
        has_shape(gamma0="(input[1],)", beta0="(input[1],)", slotMapping="(input[0],)", gamma2="(wuk[2],)"),
        define(latent="gamma1[0]", both="wuk[2] + (kRopeDim or 64) + latent", heads="wuk[0]"),
        rank(1, "gamma1"),
        has_shape(beta1="gamma1"),
        require("wuk[1] > 0"),
        require("wdqkv.size == both * input[1]", "descale0.size == both", "wuq.size % (heads * latent) == 0"),
        require(
            "latent > 0",
            "heads > 0",
            "wuq.size == heads * (wuk[1] + (qRopeDim or 64)) * latent",
            "descale1.size == wuq.size // latent",
        ),
        require("bias0.size in (0, both)", "bias1.size in (0, descale1.size)"),
        require("cos.size == input[0] * (kRopeDim or 64)", "sin.size == cos.size", "cacheMode in (0, 1, 2, 3)"),
        require("quantScale0.size > 0", "quantOffset0.size > 0", "quantScale1.size > 0", "quantOffset1.size > 0"),
    ),
    infer_shape(
        qOutOut="(input[0], wuk[0], 512 if cacheMode else 576)",
        kvCacheOutOut="kvCache",
        qRopeOutOut="(input[0], wuk[0], 64) if cacheMode else (0,)",
        krCacheOutOut="kvCacheRope if cacheMode else (0,)",
        qDownOutOut="(input[0], gamma1[0]) if qDownOutFlag else (0,)",
    ),
    output_dtype(qOutOut="kvCache", kvCacheOutOut="kvCache"),
)
