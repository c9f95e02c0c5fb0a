"""Rules of ops-math/conversion: joining tensors and splitting them."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- joining


@refuses("dtype/promotion", "tensors")
def _promoted_list(call: Call) -> DataType:
    """The data type to which the tensors promote, the later ones first. Cat does not look at those of shape (0,)."""
    skipped = (0,) if call.operator.name == "aclnnCat" else None
    items = [t for t in call["tensors"] or () if t is not None and t.shape != skipped]
    common = items[0].dtype if items else DataType.FLOAT
    for item in items[1:]:
        common = promote(item.dtype, common)
        if common is DataType.DT_UNDEFINED:
            call.refuse(
                "tensors",
                f"have dtypes that do not promote: {', '.join(t.dtype.name for t in items)}",
                check="dtype/promotion",
            )
    return common


_JOINED = require("out == whole or out.size == prod(whole) == 1")
_CAT = f"{REAL} COMPLEX64"
_CAT_950 = f"{_CAT} BF16 {UNSIGNED} {FLOAT8S} FLOAT8_E8M0 {FLOAT4S}"
rule(
    "aclnnCat",
    no_null_item("tensors"),
    define(
        joined="tuple(x for x in tensors if x is not None and x != (0,))",
        axis="dim % len(joined[0])",
        whole="with_size(joined[0], axis, sum(x[axis] for x in joined)) if joined else (0,)",
        others="with_size(joined[0], axis, 0)",
        filled="sum(x.size > 0 for x in joined)",
    ),
    when(
        "joined",
        dtypes({"310P 910": _CAT, "A2 A3 310B": f"{_CAT} BF16", "950": _CAT_950, "": ""}, "tensors", "out"),
        castable(_promoted_list, "out"),
        dtype_in(_promoted_list, _CAT_950, "tensors"),  # COMPLEX64 and DOUBLE promote to COMPLEX128
        require("not joined[0].format.private", argument="tensors"),
        require("all(x.format == joined[0].format for x in joined)", argument="tensors"),
        require("out.format == joined[0].format"),
        require("len(joined[0]) <= 8", argument="tensors"),
        require("len(joined[0]) > 0", "-len(joined[0]) <= dim < len(joined[0])", argument="dim"),
        require("all(with_size(x, axis, 0) == others for x in joined)", argument="tensors"),
        # Two tensors with elements are joined and compared; one is only copied.
        when("filled == 1", with_status(INNER_NULLPTR, _JOINED)),
        when("filled > 1", _JOINED),
    ),
    infer_shape(out="whole"),
    output_dtype(out=_promoted_list),
)
rule(
    "aclnnStack",
    no_null_item("tensors"),
    dtypes(plus_bf16(f"{REAL_AND_COMPLEX} {UNSIGNED}"), "tensors", "out"),
    castable(_promoted_list, "out"),
    define(
        rank="len(tensors[0])", axis="dim % (rank + 1)", whole="(*tensors[0][:axis], len(tensors), *tensors[0][axis:])"
    ),
    require("rank <= 8"),
    require("-rank - 1 <= dim <= rank", argument="dim"),
    require("all(x == tensors[0] for x in tensors)"),
    infer_shape(out="whole"),
    when("any(x.size for x in tensors)", output_shape_relaxed(out="whole")),
    output_dtype(out=_promoted_list),
    null_status=INNER_NULLPTR,
)
# Every tensor is cut into rows of chunks, the last one filled up with zeros; a row joins them.
_CHUNKED = {PRODUCTS_WITH_BF16: FLOATS, "": ""}
rule(
    "aclnnChunkCat",
    one_of("dim", 0),
    required("tensors"),
    define(width="sum(ceil_div(x[0], numChunks) * prod(x[1:]) for x in tensors if x.size)"),
    infer_shape(out="(numChunks, width)"),
    when(
        "tensors",
        required("out"),
        no_null_item("tensors"),
        same_dtype("tensors", "tensors", among=_CHUNKED),
        dtypes(_CHUNKED, "out"),
        require("out.dtype == FLOAT or tensors[0].dtype != FLOAT"),
        no_private_format("tensors", "out"),
        rank(1, 8, "tensors"),
        when("any(x.size for x in tensors)", positive("numChunks"), output_shape_relaxed(out="(numChunks, width)")),
    ),
    output_dtype(out="tensors[0].dtype"),
    nullable="tensors out",
)

# ------------------------------------------------------------------------------------------------- splitting

_SPLIT = f"{REAL_AND_COMPLEX} BF16"
_SPLIT_TYPES = dtypes({"950": f"{_SPLIT} {UNSIGNED}", "": _SPLIT}, "self", "out")
_PIECES = define(pieces="[with_size(self, dim, n) for n in sizes]")
_FITS = require("all(x == piece or x.size == prod(piece) == 1 for x, piece in zip(out, pieces))", argument="out")
# A single piece is only copied, which fails the graph.
_PIECES_FIT = when(
    "self.size > 0",
    when("len(pieces) == 1", with_status(INNER_NULLPTR, _FITS)),
    when("len(pieces) != 1", _FITS),
)
rule(
    "aclnnSplitTensor",
    no_null_item("out"),
    _SPLIT_TYPES,
    same_dtype("out", "out"),
    rank(1, 8, "self"),
    max_rank(8, "out"),
    valid_axis("dim", "self"),
    not_negative("splitSections"),
    require("(splitSections == 0) == (self[dim] == 0)", argument="splitSections"),
    define(
        count="max(ceil_div(self[dim], splitSections), 1) if self[dim] > 0 else 1",
        sizes="tuple(min(splitSections, self[dim] - i * splitSections) for i in range(count))",
    ),
    _PIECES,
    when("self.size > 0", require("len(out) >= count", argument="out")),
    _PIECES_FIT,
    # Beyond that number an absurd size would take all memory before a check could refuse it.
    when("count <= 2**20", infer_shape(out="pieces")),
)
rule(
    "aclnnSplitWithSize",
    no_null_item("out"),
    _SPLIT_TYPES,
    rank(1, 8, "self"),
    max_rank(8, "out"),
    valid_axis("dim", "self"),
    require("sum(splitSize) == self[dim]", argument="splitSize"),
    require("len(out) == len(splitSize)"),
    define(sizes="splitSize"),
    _PIECES,
    _PIECES_FIT,
    infer_shape(out="pieces"),
)
