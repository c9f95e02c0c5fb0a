"""Rules of the embedding operators."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import (
    Call,
    copied_output_shape,
    dtype_of,
    dtypes,
    infer_shape,
    max_rank,
    no_private_format,
    only_products,
    output_dtype,
    output_shape,
    plus_bf16,
    rank,
    rule,
    same_dtype,
    shape_from,
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
    only_products("A2 A3 910 950"),
    dtypes({"910": "FLOAT FLOAT16", "": "FLOAT FLOAT16 BF16"}, "grad", "out"),
    dtypes("FLOAT FLOAT16 DOUBLE INT8 UINT8 INT16 INT32 INT64 BOOL", "indices"),
    max_rank(8, "grad", "indices", "out"),
    _one_row_per_index,
    output_shape(out=shape_from("numWeights", ("grad", -1))),
    no_private_format("grad", "indices", "out"),
    output_dtype(out=dtype_of("grad")),
)


def _rows_like_indices(call: Call) -> None:
    out, indices = call.shape("out"), call.shape("indices")
    fits = len(out) == len(indices) + 1 and out[:-1] == indices
    call.require(fits, "out", f"has shape {out}; it must be that of indices, {indices}, and one axis more")


_WEIGHT = "DOUBLE FLOAT FLOAT16 INT64 INT32 INT16 INT8 UINT8 BOOL COMPLEX128 COMPLEX64"
rule(
    "aclnnEmbedding",
    dtypes(plus_bf16(_WEIGHT), "weight"),
    same_dtype("weight", "out"),
    dtypes("INT32 INT64", "indices"),
    max_rank(8, "weight", "indices", "out"),
    _rows_like_indices,
    copied_output_shape(out=lambda call: call.shape("indices") + call.shape("weight")[1:]),
    output_dtype(out=dtype_of("weight")),
)

# EmbeddingBag's modes.
SUM, MEAN, MAX = 0, 1, 2


def _bag_mode(call: Call) -> int:
    return call["mode"] if call["mode"] in (SUM, MEAN) else MAX


def _bags(call: Call) -> int:
    return math.prod(call.shape("offsets")) - int(call["includeLastOffset"])


def _bag_indices(call: Call) -> None:
    known = {call.dtype("indices"), call.dtype("offsets")} & {DataType.INT32, DataType.INT64}
    call.require(bool(known), "indices", "and offsets have narrow dtypes; one of them must be INT32 or INT64")


def _bag_ranks(call: Call) -> None:
    wide = 2 if call.product == "950" else 1
    rank(2, 2, "weight")(call)
    rank(0, wide, "indices")(call)
    rank(0, 1, "offsets")(call)
    rank(1, wide, "perSampleWeights")(call)
    rank(2, 2, "output")(call)
    rank(0, 1, "offset2bag", "bagSize")(call)
    if call.product == "950":
        rank(0, 2, "maxIndices")(call)
    elif _bag_mode(call) == MAX:
        rank(2, 2, "maxIndices")(call)
    else:
        rank(0, 1, "maxIndices")(call)


def _bag_shapes(call: Call) -> None:
    old = call.product != "950"
    indices, bags = math.prod(call.shape("indices")), _bags(call)
    if call.is_present("perSampleWeights"):
        text = "is given; weights need the mode sum (0)"
        call.require(not old or _bag_mode(call) == SUM, "perSampleWeights", text)
        weights = math.prod(call.shape("perSampleWeights"))
        text = f"has {weights} items; indices has {indices}"
        call.require(weights == indices, "perSampleWeights", text)
    wanted = (bags, call.size("weight", 1))
    output = call.shape("output")
    call.require(output == wanted, "output", f"has shape {output}; it must be {wanted}")
    owners = math.prod(call.shape("offset2bag"))
    call.require(owners in (0, indices), "offset2bag", f"has {owners} items; it must have 0 or {indices}")
    sizes, expected = math.prod(call.shape("bagSize")), bags if old else call.size("offsets", 0)
    call.require(sizes == expected, "bagSize", f"has {sizes} items; it must have {expected}")
    largest = call.shape("maxIndices")
    if _bag_mode(call) == MAX:
        call.require(largest == wanted, "maxIndices", f"has shape {largest}; with the mode max it must be {wanted}")
    elif old:
        text = f"has {math.prod(largest)} items; it must have {bags}"
        call.require(math.prod(largest) == bags, "maxIndices", text)


def _bag_list(call: Call) -> DataType:
    """Indices and offsets come together as the wider of the two; the lists of bags are of that type."""
    return DataType.INT64 if DataType.INT64 in (call.dtype("indices"), call.dtype("offsets")) else DataType.INT32


rule(
    "aclnnEmbeddingBag",
    dtypes({"310P 910": "FLOAT FLOAT16", "": "FLOAT FLOAT16 BF16"}, "weight"),
    dtypes("INT64 INT32 INT16 INT8 UINT8", "indices", "offsets"),
    _bag_indices,
    same_dtype("weight", "perSampleWeights", "output"),
    dtypes("INT64 INT32", "offset2bag", "bagSize", "maxIndices"),
    _bag_ranks,
    _bag_shapes,
    infer_shape(
        output=shape_from(_bags, ("weight", 1)),
        offset2bag=shape_from(lambda call: math.prod(call.shape("indices"))),
        bagSize=shape_from(lambda call: _bags(call) if call.product != "950" else call.size("offsets", 0)),
        maxIndices=lambda call: (_bags(call), call.size("weight", 1)) if _bag_mode(call) == MAX else (_bags(call),),
    ),
    output_dtype(output=dtype_of("weight"), offset2bag=_bag_list, bagSize=_bag_list, maxIndices=_bag_list),
)
