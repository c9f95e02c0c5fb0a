"""Rules of the operators that read at indices."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import *

# A 0-d tensor counts as 1-d.
_AXIS = define(axis="dim % max(len(self), 1)")

# ------------------------------------------------------------------------------------------------- Gather

_GATHER = f"{NUMBERS} {UNSIGNED} BOOL"
rule(
    "aclnnGather",
    dtypes(
        {"A2 A3": f"{_GATHER} BF16", "950": f"{_GATHER} BF16 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0", "": _GATHER},
        "self",
    ),
    unless_empty("index", dtypes(INDICES, "index")),
    same_dtype("self", "out"),
    require("max(len(index), 1) == max(len(self), 1)"),
    max_rank(8, "self", "index", "out"),
    output_shape(out="index"),
    valid_axis("dim", "self"),
    _AXIS,
    unless_empty(
        "index",
        require("all(i == axis or n <= m for i, (n, m) in enumerate(zip(index, self)))"),
        require("len(self) == 0 or self[axis] > 0"),
    ),
)
_GATHER_ND = "FLOAT INT32 INT64 FLOAT16 INT8 UINT8 BOOL"
rule(
    "aclnnGatherNd",
    same_dtype("self", "out"),
    dtypes(
        {
            "A2 A3": f"{_GATHER_ND} BF16",
            "950": f"{_GATHER_ND} BF16 DOUBLE INT16 {UNSIGNED}",
            "310P 910": _GATHER_ND,
            "": "",
        },
        "self",
    ),
    dtypes(INDICES, "indices"),
    rank(1, 8, "self", "indices"),
    require("1 <= indices[-1] <= len(self)"),
    output_shape(out="(*indices[:-1], *self[indices[-1] :])"),
)


# self with the axis replaced by the shape of index, 0-d index counting as one item.
_ALONG = "(*self[:axis], *(index or (1,)), *self[axis + 1 :]) if len(self) > 0 else ()"
_GATHER_V2 = REAL_AND_COMPLEX
rule(
    "aclnnGatherV2",
    same_dtype("self", "out"),
    dtypes({"950": f"{_GATHER_V2} BF16 UINT16", "A2 A3": f"{_GATHER_V2} BF16", "": _GATHER_V2}, "self"),
    dtypes(INDICES, "index"),
    max_rank(8, "self", "index"),
    valid_axis("dim", "self"),
    _AXIS,
    output_shape(out=_ALONG),
)
rule(
    "aclnnGatherV3",
    same_dtype("self", "out", among=f"{_GATHER_V2} BF16"),
    dtypes(INDICES, "index"),
    max_rank(8, "self", "index"),
    valid_axis("dim", "self"),
    # As GatherV2, but a 0-d index drops the axis, and Ascend 950 leaves out the batch axes of index.
    _AXIS,
    define(rank="max(len(index), 1)", batch="batchDims + rank if batchDims < 0 else batchDims"),
    define(skipped="max(batchDims, 0) if product == '950' else 0"),
    output_shape(out="(*self[:axis], *index[skipped:], *self[axis + 1 :]) if len(self) > 0 else ()"),
    when("product != '950'", require("dim == 0", "batchDims == 0", "mode == 1")),
    when(
        "product == '950' and batchDims != 0",
        require("-rank <= batchDims <= rank"),
        require("batch < max(len(self), 1)", "batch <= axis", argument="batchDims"),
        require("self[:batch] == index[:batch]", argument="index"),
    ),
)


# ------------------------------------------------------------------------------------------------- IndexSelect, Take

_SELECT = f"{NUMBERS} {UNSIGNED} BOOL {COMPLEX}"
rule(
    "aclnnIndexSelect",
    same_dtype("self", "out", among=plus_bf16(_SELECT)),
    dtypes(INDICES, "index"),
    no_private_format("self", "index", "out"),
    max_rank(8, "self"),
    valid_axis("dim", "self"),
    max_rank(1, "index"),
    _AXIS,
    when("len(self) == 0 or self.size > 0 and index.size > 0", output_shape(out=_ALONG)),
    infer_shape(out=_ALONG),
)
rule(
    "aclnnTake",
    same_dtype("self", "out", among=plus_bf16(_SELECT)),
    dtypes(INDICES, "index"),
    max_rank(8, "index"),
    output_shape(out="index"),
    require("self.size > 0 or index.size == 0"),
    no_private_format("self", "index", "out"),
)


# ------------------------------------------------------------------------------------------------- Index (x[i, j, ...])

NO_NULL_INDEX = no_null_item("indices")
INDEX_DTYPES = require("all(index.empty or index.dtype in (INT32, INT64, BOOL) for index in indices)")


@carries([Refusal("indices", check) for check in ("length/axes", "dtype/mask", "shape/broadcast")])
def _indexed_shape(call: Call) -> Shape:
    """As NumPy has it: indexed axes stay in place when they are neighbours, else come first. Empty means a full slice."""
    sizes, indices = call.shape("self"), call["indices"]
    call.require(
        len(indices) <= len(sizes),
        "indices",
        f"has {len(indices)} items; self has rank {len(sizes)}",
        check="length/axes",
    )
    used = [i for i, t in enumerate(call.items("indices", 0)) if t.size]
    common: Shape = ()
    for i in used:
        text = f"[{i}] is BOOL: the output's size depends on its values; pass out="
        call.require(indices[i].dtype is not DataType.BOOL, "indices", text, check="dtype/mask")
        both = broadcast_shapes(common, indices[i].shape)
        call.require(
            both is not None,
            "indices",
            f"[{i}] has shape {indices[i].shape}, which does not broadcast with {common}",
            check="shape/broadcast",
        )
        common = both or ()
    if not used:
        return sizes
    place = used[0] if used == list(range(used[0], used[-1] + 1)) else 0
    unindexed = [n for i, n in enumerate(sizes) if i not in used]
    return (*unindexed[:place], *common, *unindexed[place:])


rule(
    "aclnnIndex",
    NO_NULL_INDEX,
    on_products("910", dtypes(REAL, "self")),
    same_dtype("self", "out"),
    dtypes({"950": f"{REAL} BF16 COMPLEX64", "": f"{REAL} BF16"}, "self"),
    INDEX_DTYPES,
    no_private_format("self", "out", "indices"),
    max_rank(8, "self", "indices"),
    unless_empty(
        "self out",
        define(used="tuple(index for index in indices if not index.empty)"),
        require("(len(used[0]) if used else 0) + len(self) - len(used) <= 8", argument="indices"),
    ),
    infer_shape(out=_indexed_shape),
)


# ------------------------------------------------------------------------------------------------- Flip, Inverse

_FLIP = REAL_AND_COMPLEX
rule(
    "aclnnFlip",
    same_dtype("self", "out"),
    dtypes({"A2 A3": f"{_FLIP} BF16", "950": f"{_FLIP} BF16 {UNSIGNED}", "": _FLIP}, "self"),
    output_shape(out="self"),
    max_rank(8, "self"),
    valid_axes("dims", "self"),
)

# ------------------------------------------------------------------------------------------------- RepeatInterleave
