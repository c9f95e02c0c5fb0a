"""Rules of bags of embeddings (part of ops-nn/index)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

# Modes are the sum (0), the mean (1), and all others the largest.
_LARGEST = "mode not in (0, 1)"

# Indices and offsets come together as the wider of the two; the lists of bags are of that type.
_LIST = "INT64 if INT64 in (indices.dtype, offsets.dtype) else INT32"

rule(
    "aclnnEmbeddingBag",
    dtypes({"310P 910": "FLOAT FLOAT16", "": FLOATS}, "weight"),
    dtypes("INT64 INT32 INT16 INT8 UINT8", "indices", "offsets"),
    require("indices.dtype in INDICES or offsets.dtype in INDICES"),
    same_dtype("weight", "perSampleWeights", "output"),
    dtypes(INDICES, "offset2bag", "bagSize", "maxIndices"),
    rank(2, "weight"),
    on_products("950", rank(0, 2, "indices"), rank(0, 1, "offsets"), rank(1, 2, "perSampleWeights")),
    when("product != '950'", rank(0, 1, "indices", "offsets"), rank(1, "perSampleWeights")),
    rank(2, "output"),
    rank(0, 1, "offset2bag", "bagSize"),
    on_products("950", rank(0, 2, "maxIndices")),
    when(f"product != '950' and {_LARGEST}", rank(2, "maxIndices")),
    when(f"product != '950' and not {_LARGEST}", rank(0, 1, "maxIndices")),
    define(bags="offsets.size - int(includeLastOffset)"),
    require("product == '950' or perSampleWeights is None or mode == 0", argument="perSampleWeights"),
    require("perSampleWeights.size == indices.size", "output == (bags, weight[1])"),
    require("offset2bag.size in (0, indices.size)"),
    define(sizes="offsets[0] if product == '950' else bags"),
    require("bagSize.size == sizes"),
    when(_LARGEST, require("maxIndices == (bags, weight[1])")),
    when(f"product != '950' and not {_LARGEST}", require("maxIndices.size == bags")),
    infer_shape(
        output="(bags, weight[1])",
        offset2bag="(indices.size,)",
        bagSize="(sizes,)",
        maxIndices=f"(bags, weight[1]) if {_LARGEST} else (bags,)",
    ),
    output_dtype(offset2bag=_LIST, bagSize=_LIST, maxIndices=_LIST),
)
