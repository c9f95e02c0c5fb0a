"""Rules of ops-nn/index."""

from __future__ import annotations

import math

from ascend_aclnn.rules.language import (
    Call,
    dims,
    documented,
    dtype_of,
    dtypes,
    max_rank,
    not_private,
    only_on,
    result,
    rule,
    same_dtype,
    shape,
)


def _one_row_per_index(call: Call) -> None:
    grad, indices = call.shape("grad"), call.shape("indices")
    if grad and grad[-1] == 0:
        return  # CANN does not compare the products then
    rows, items = math.prod(grad[:-1]), math.prod(indices)
    text = f"has {rows} rows (shape {grad}); indices has {items} items (shape {indices})"
    call.require(rows == items, "grad", text)


rule(
    "aclnnEmbeddingDenseBackward",
    only_on("A2 A3 910 950"),
    dtypes({"910": "FLOAT FLOAT16", "": "FLOAT FLOAT16 BF16"}, "grad", "out"),
    dtypes("FLOAT FLOAT16 DOUBLE INT8 UINT8 INT16 INT32 INT64 BOOL", "indices"),
    max_rank(8, "grad", "indices", "out"),
    _one_row_per_index,
    shape(out=dims("numWeights", ("grad", -1))),
    not_private("grad", "indices", "out"),
    result(out=dtype_of("grad")),
)

rule(
    "aclnnEmbedding",
    documented("weight"),
    dtypes("INT32 INT64", "indices"),
    same_dtype("weight", "out"),
    max_rank(8, "weight", "indices", "out"),
    shape(out=lambda call: call.shape("indices") + call.shape("weight")[1:]),
    result(out=dtype_of("weight")),
)
