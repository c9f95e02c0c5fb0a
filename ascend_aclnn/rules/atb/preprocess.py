"""Rules of ATB's preparation of tokens for attention with latent keys (MLA)."""

from __future__ import annotations

from ascend_aclnn.rules.atb._statuses import of_dtypes, of_parameters, of_ranks, of_shapes, operation
from ascend_aclnn.rules.language import *

# cacheMode: 0 one cache, 1 two, 2 two in fractals, of which one is INT8, 3 two in fractals. quantMode: 0 one scale and offset,
# 1 a scale for each token. Weights that are not INT8, and rows of another size, are left to an aclnn operator by ATB.
operation(
    "MlaPreprocess",
    of_parameters(
        require("product in ('A2', 'A3')", argument="cacheMode"), in_range("cacheMode", 0, 3), one_of("quantMode", 0, 1)
    ),
    when("quantMode == 0", required("quantScale0", "quantOffset0", "bias0", "quantScale1", "quantOffset1", "bias1")),
    when("cacheMode != 0", required("kvCacheRope", "qOut1", "kvCacheOut1")),
    when("cacheMode == 2", required("ctkvScale", "qNopeScale")),
    of_dtypes(
        same_dtype("input", "gamma0", "beta0", "gamma1", "beta1", "gamma2", "cos", "sin", "wuk", among="FLOAT16 BF16"),
        dtypes("INT8", "wdqkv", "wuq"),
        when(
            "quantMode == 0",
            same_dtype("input", "quantScale0", "quantScale1"),
            dtypes("INT8", "quantOffset0", "quantOffset1"),
            dtypes("INT32", "bias0", "bias1"),
        ),
        when(
            "quantMode == 0 and input.dtype == FLOAT16",
            dtypes("INT64", "descale0", "descale1"),
        ),
        when("quantMode == 1 or input.dtype == BF16", dtypes("FLOAT", "descale0", "descale1")),
        when("cacheMode == 2", dtypes("INT8", "kvCache", "kvCacheOut0", "qOut0")),
        when("cacheMode != 2", same_dtype("input", "kvCache", "kvCacheOut0", "qOut0")),
        when("cacheMode != 0", same_dtype("input", "kvCacheRope", "qOut1", "kvCacheOut1")),
        dtypes("INT32", "slotMapping"),
    ),
    of_ranks(rank(2, "input", "cos", "sin"), rank(4, "kvCache"), rank(1, "slotMapping")),
    of_shapes(
        require("input[0] > 0", "input[0] <= 1024", "input[1] == 7168"),
        require("wuk[0] > 0", "wuk.size == wuk[0] * 128 * 512"),
        has_shape(
            gamma0="(7168,)",
            beta0="(7168,)",
            descale0="(2112,)",
            gamma1="(1536,)",
            beta1="(1536,)",
            descale1="(wuk[0] * 192,)",
            gamma2="(512,)",
            cos="(input[0], 64)",
            sin="(input[0], 64)",
            slotMapping="(input[0],)",
        ),
        require("wdqkv.size == 2112 * 7168", "wuq.size == wuk[0] * 192 * 1536"),
        when(
            "quantMode == 0",
            has_shape(quantScale0="(1,)", quantOffset0="(1,)", quantScale1="(1,)", quantOffset1="(1,)"),
            require("bias0.size == 2112", "bias1.size == wuk[0] * 192"),
        ),
        when(
            "cacheMode in (0, 1)",
            require("kvCache[1] > 0", "kvCache[1] <= 128 or kvCache[1] == 256", "kvCache[2] == 1"),
            require("kvCache[3] == (576 if cacheMode == 0 else 512)"),
        ),
        when("cacheMode == 1", has_shape(kvCacheRope="(*kvCache[:3], 64)")),
        when("cacheMode == 2", require("kvCache[1:] == (16, 128, 32)"), require("qNopeScale.size == wuk[0]")),
        when("cacheMode == 3", require("kvCache[1:] == (32, 128, 16)")),
        when("cacheMode in (2, 3)", has_shape(kvCacheRope="(kvCache[0], 4, 128, 16)")),
        output_shape(
            qOut0="(input[0], wuk[0], 512 if cacheMode else 576)",
            qOut1="(input[0], wuk[0], 64)",
            kvCacheOut0="kvCache",
            kvCacheOut1="kvCacheRope",
        ),
    ),
    inputs="input gamma0 beta0 wdqkv descale0 gamma1 beta1 wuq descale1 gamma2 cos sin wuk kvCache slotMapping"
    " qOut0 kvCacheOut0",
)
