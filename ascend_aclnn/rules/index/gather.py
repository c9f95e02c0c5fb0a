"""Rules of the operators that read at indices."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *

INDEX = "INT32 INT64"
_NUMBERS = f"FLOAT FLOAT16 DOUBLE {INTEGERS}"

# A 0-d tensor counts as 1-d.
_AXIS = "dim % max(len(self), 1)"


def wrapped_axis(call: Call, attribute: str, tensor: str) -> int:
    """An axis attribute as a non-negative number; a 0-d tensor counts as 1-d."""
    return int(call[attribute]) % max(len(call.shape(tensor)), 1)


# ------------------------------------------------------------------------------------------------- Gather


def no_axis_exceeds(call: Call, part: str, whole: str, axis: int = -1) -> None:
    """Every axis of ``part`` but one is at most as long as that of ``whole``."""
    small, large = call.shape(part), call.shape(whole)
    fits = all(i == axis or a <= b for i, (a, b) in enumerate(zip(small, large)))
    but = f" except on axis {axis}" if axis >= 0 else ""
    call.require(fits, part, f"has shape {small}; no axis may be longer than in {call.python_name(whole)} {large}{but}")


def same_rank(first: str, *others: str) -> Check:
    """The others have the first's rank, 0-d counting as 1-d."""

    def check(call: Call) -> None:
        wanted = max(len(call.shape(first)), 1)
        for name in others:
            came = len(call.shape(name))
            call.require(
                max(came, 1) == wanted, name, f"has rank {came}; it must be {wanted}, as {call.python_name(first)}"
            )

    return check


_GATHER = f"{_NUMBERS} {UNSIGNED} BOOL"
rule(
    "aclnnGather",
    dtypes(
        {"A2 A3": f"{_GATHER} BF16", "950": f"{_GATHER} BF16 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0", "": _GATHER},
        "self",
    ),
    unless_empty("index", dtypes(INDEX, "index")),
    same_dtype("self", "out"),
    same_rank("self", "index"),
    max_rank(8, "self", "index", "out"),
    output_shape(out=shape_of("index")),
    valid_axis("dim", "self"),
    define(axis=_AXIS),
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
    dtypes(INDEX, "indices"),
    rank(1, 8, "self", "indices"),
    require("1 <= indices[-1] <= len(self)"),
    output_shape(out="(*indices[:-1], *self[indices[-1] :])"),
)


# self with the axis replaced by the shape of index, 0-d index counting as one item.
_ALONG = "(*self[:axis], *(index or (1,)), *self[axis + 1 :]) if len(self) > 0 else ()"
_GATHER_V2 = f"{_NUMBERS} BOOL {COMPLEX}"
rule(
    "aclnnGatherV2",
    same_dtype("self", "out"),
    dtypes({"950": f"{_GATHER_V2} BF16 UINT16", "A2 A3": f"{_GATHER_V2} BF16", "": _GATHER_V2}, "self"),
    dtypes(INDEX, "index"),
    max_rank(8, "self", "index"),
    valid_axis("dim", "self"),
    define(axis=_AXIS),
    output_shape(out=_ALONG),
)


rule(
    "aclnnGatherV3",
    same_dtype("self", "out"),
    dtypes(f"{_GATHER_V2} BF16", "self"),
    dtypes(INDEX, "index"),
    max_rank(8, "self", "index"),
    valid_axis("dim", "self"),
    # As GatherV2, but a 0-d index drops the axis, and Ascend 950 leaves out the batch axes of index.
    define(axis=_AXIS, rank="max(len(index), 1)", batch="batchDims + rank if batchDims < 0 else batchDims"),
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


_SELECT = f"{_NUMBERS} {UNSIGNED} BOOL {COMPLEX}"
rule(
    "aclnnIndexSelect",
    dtypes(plus_bf16(_SELECT), "self"),
    same_dtype("self", "out"),
    dtypes(INDEX, "index"),
    no_private_format("self", "index", "out"),
    max_rank(8, "self"),
    valid_axis("dim", "self"),
    max_rank(1, "index"),
    define(axis=_AXIS),
    when("len(self) == 0 or self.size > 0 and index.size > 0", output_shape(out=_ALONG)),
    infer_shape(out=_ALONG),
)


rule(
    "aclnnTake",
    dtypes(plus_bf16(_SELECT), "self"),
    same_dtype("self", "out"),
    dtypes(INDEX, "index"),
    max_rank(8, "index"),
    output_shape(out=shape_of("index")),
    require("self.size > 0 or index.size == 0"),
    no_private_format("self", "index", "out"),
)


# ------------------------------------------------------------------------------------------------- Index (x[i, j, ...])


def no_null_items(name: str) -> Check:
    """Every tensor of a list is there."""

    def check(call: Call) -> None:
        for position, tensor in enumerate(call[name]):
            call.require(
                tensor is not None, name, f"[{position}] is None; pass an empty tensor for a full slice", PARAM_NULLPTR
            )

    return check


def index_dtypes(call: Call) -> None:
    """Indices that are not empty are INT32, INT64 or BOOL."""
    for position, tensor in enumerate(call["indices"]):
        known = tensor.size == 0 or tensor.dtype in (DataType.INT64, DataType.INT32, DataType.BOOL)
        call.require(known, "indices", f"[{position}] has dtype {tensor.dtype.name}; it must be INT32, INT64 or BOOL")


def _indexed_rank(call: Call) -> None:
    if call.is_empty("self") or call.is_empty("out"):
        return
    used = [t for t in call["indices"] if t.size]
    total = (used[0].ndim if used else 0) + len(call.shape("self")) - len(used)
    call.require(total <= 8, "indices", f"would give an output of rank {total}; at most 8 is supported")


def _indexed_shape(call: Call) -> Shape:
    """As NumPy has it: indexed axes stay in place when they are neighbours, else come first. Empty means a full slice."""
    sizes, indices = call.shape("self"), call["indices"]
    call.require(len(indices) <= len(sizes), "indices", f"has {len(indices)} items; self has rank {len(sizes)}")
    used = [i for i, t in enumerate(call.items("indices", 0)) if t.size]
    common: Shape = ()
    for i in used:
        text = f"[{i}] is BOOL: the output's size depends on its values; pass out="
        call.require(indices[i].dtype is not DataType.BOOL, "indices", text)
        both = broadcast_shapes(common, indices[i].shape)
        call.require(
            both is not None, "indices", f"[{i}] has shape {indices[i].shape}, which does not broadcast with {common}"
        )
        common = both or ()
    if not used:
        return sizes
    place = used[0] if used == list(range(used[0], used[-1] + 1)) else 0
    kept = [n for i, n in enumerate(sizes) if i not in used]
    return (*kept[:place], *common, *kept[place:])


rule(
    "aclnnIndex",
    no_null_items("indices"),
    on_products("910", dtypes(f"{_NUMBERS} BOOL", "self")),
    same_dtype("self", "out"),
    dtypes({"950": f"{_NUMBERS} BOOL BF16 COMPLEX64", "": f"{_NUMBERS} BOOL BF16"}, "self"),
    index_dtypes,
    no_private_format("self", "out", "indices"),
    max_rank(8, "self", "indices"),
    _indexed_rank,
    infer_shape(out=_indexed_shape),
)


# ------------------------------------------------------------------------------------------------- Flip, Inverse

_FLIP = f"{_NUMBERS} BOOL {COMPLEX}"
rule(
    "aclnnFlip",
    same_dtype("self", "out"),
    dtypes({"A2 A3": f"{_FLIP} BF16", "950": f"{_FLIP} BF16 {UNSIGNED}", "": _FLIP}, "self"),
    output_shape(out=shape_of("self")),
    max_rank(8, "self"),
    valid_axes("dims", "self"),
)


rule(
    "aclnnInverse",
    dtypes("FLOAT DOUBLE COMPLEX64 COMPLEX128 FLOAT16", "self"),
    castable("self", "out"),
    output_shape(out=shape_of("self")),
    max_rank(8, "self"),
    unless_empty("self", require("len(self) >= 2", "self[-1] == self[-2]")),
)

# ------------------------------------------------------------------------------------------------- RepeatInterleave

_REPEAT = "UINT8 INT8 INT16 INT32 INT64 BOOL FLOAT16 FLOAT"
_REPEAT_SET = {"950": f"{_REPEAT} BF16 {UNSIGNED}", "A2 A3": f"{_REPEAT} BF16", "": _REPEAT}


_NOT_NEGATIVE = not_negative("repeats")
_REAL_AXIS = (require("len(self) > 0"), valid_axis("dim", "self"))
# repeats is one number for all items, or one for each item of the axis (of everything without an axis).
_SOME_REPEATS = require("repeats.size > 0")
_REPEATED = "(*self[:dim], outputSize, *self[dim % len(self) + 1 :]) if len(self) > 0 else ()"

# The size of the output is what the caller says; repeats is data.
rule(
    "aclnnRepeatInterleave",
    dtypes(_REPEAT_SET, "self"),
    dtypes(INDEX, "repeats"),
    same_dtype("self", "out"),
    max_rank(1, "repeats"),
    require("len(repeats) == 0 or repeats[0] in (1, self.size)"),
    max_rank(8, "self"),
    require("self.size > 0 or repeats.size == 0 or repeats in ((), (1,))", argument="repeats"),
    unless_empty("self out", _SOME_REPEATS, output_shape(out="(outputSize,)")),
    infer_shape(out="(outputSize,)"),
)

rule(
    "aclnnRepeatInterleaveWithDim",
    dtypes(_REPEAT_SET, "self"),
    dtypes(INDEX, "repeats"),
    same_dtype("self", "out"),
    max_rank(1, "repeats"),
    *_REAL_AXIS,
    require("len(repeats) == 0 or repeats[0] in (1, self[dim])"),
    max_rank(8, "self"),
    when(
        "self.size > 0 and outputSize != 0",
        _SOME_REPEATS,
        output_shape(out=_REPEATED),
    ),
    infer_shape(out=_REPEATED),
)

rule(
    "aclnnRepeatInterleaveInt",
    dtypes(_REPEAT_SET, "self"),
    same_dtype("self", "out"),
    _NOT_NEGATIVE,
    max_rank(8, "self"),
    when(
        "self.size > 0 and out.size > 0 and repeats != 1",
        output_shape(out="(outputSize,)"),
    ),
    infer_shape(out="(outputSize,)"),
)

rule(
    "aclnnRepeatInterleaveIntWithDim",
    dtypes(_REPEAT_SET, "self"),
    same_dtype("self", "out"),
    _NOT_NEGATIVE,
    *_REAL_AXIS,
    max_rank(8, "self"),
    when(
        "self.size > 0 and outputSize != 0 and repeats != 1",
        output_shape(out=_REPEATED),
    ),
    infer_shape(out=_REPEATED),
)


rule(
    "aclnnRepeatInterleaveTensor",
    dtypes(INDEX, "repeats"),
    same_dtype("repeats", "out"),
    require("repeats.size == 0 or len(repeats) == 1"),
    unless_empty("repeats out", output_shape(out="(outputSize,)")),
    infer_shape(out="(outputSize,)"),
)
