"""Rules of the embedding operators."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnEmbeddingDenseBackward",
    only_products("A2 A3 910 950"),
    dtypes({"910": "FLOAT FLOAT16", "": FLOATS}, "grad", "out"),
    dtypes("FLOAT FLOAT16 DOUBLE INT8 UINT8 INT16 INT32 INT64 BOOL", "indices"),
    max_rank(8, "grad", "indices", "out"),
    # CANN does not compare the products where rows have no elements.
    require("len(grad) > 0 and grad[-1] == 0 or prod(grad[:-1]) == prod(indices)", argument="grad"),
    output_shape(out="(numWeights, grad[-1])"),
    no_private_format("grad", "indices", "out"),
)
_WEIGHT = "DOUBLE FLOAT FLOAT16 INT64 INT32 INT16 INT8 UINT8 BOOL COMPLEX128 COMPLEX64"
rule(
    "aclnnEmbedding",
    same_dtype("weight", "out", among=plus_bf16(_WEIGHT)),
    dtypes("INT32 INT64", "indices"),
    max_rank(8, "weight", "indices", "out"),
    require("len(out) == len(indices) + 1", "out[:-1] == indices"),
    copied_output_shape(out="(*indices, *weight[1:])"),
)
