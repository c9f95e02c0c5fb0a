"""Rules of the operators that read at indices."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    broadcast_shapes,
    castable,
    dtype_of,
    dtypes,
    infer_shape,
    max_rank,
    no_private_format,
    output_dtype,
    output_shape,
    plus_bf16,
    rank,
    rule,
    same_dtype,
    shape_of,
    valid_axes,
    valid_axis,
    when,
)

INDEX = "INT32 INT64"
_COMPLEX = "COMPLEX64 COMPLEX128"
_UNSIGNED = "UINT16 UINT32 UINT64"
_NUMBERS = "FLOAT FLOAT16 DOUBLE INT8 INT16 INT32 INT64 UINT8"


def wrapped_axis(call: Call, attribute: str, tensor: str) -> int:
    """An axis attribute as a non-negative number; a 0-d tensor counts as 1-d."""
    return int(call[attribute]) % max(len(call.shape(tensor)), 1)


def _replaced(sizes: Shape, axis: int, middle: Shape) -> Shape:
    return sizes[:axis] + middle + sizes[axis + 1 :]


# ------------------------------------------------------------------------------------------------- Gather


def no_axis_exceeds(call: Call, part: str, whole: str, axis: int = -1) -> None:
    """Every axis of ``part`` but one is at most as long as that of ``whole``."""
    small, large = call.shape(part), call.shape(whole)
    fits = all(i == axis or a <= b for i, (a, b) in enumerate(zip(small, large)))
    but = f" except on axis {axis}" if axis >= 0 else ""
    call.require(fits, part, f"has shape {small}; no axis may be longer than in {call.python_name(whole)} {large}{but}")


def _gather_index(call: Call) -> None:
    if call.is_empty("index"):
        return
    axis = wrapped_axis(call, "dim", "self")
    no_axis_exceeds(call, "index", "self", axis)
    sizes = call.shape("self")
    call.require(not sizes or sizes[axis] > 0, "self", f"has shape {sizes}; there is nothing to gather on axis {axis}")


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


_GATHER = f"{_NUMBERS} {_UNSIGNED} BOOL"
rule(
    "aclnnGather",
    dtypes(
        {"A2 A3": f"{_GATHER} BF16", "950": f"{_GATHER} BF16 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0", "": _GATHER},
        "self",
    ),
    when(lambda call: not call.is_empty("index"), dtypes(INDEX, "index")),
    same_dtype("self", "out"),
    same_rank("self", "index"),
    max_rank(8, "self", "index", "out"),
    output_shape(out=shape_of("index")),
    valid_axis("dim", "self"),
    _gather_index,
    output_dtype(out=dtype_of("self")),
)


def _gather_nd_shape(call: Call) -> Shape:
    depth = call.size("indices", -1)
    sizes = call.shape("self")
    text = f"has {depth} coordinates on its last axis; they must be between 1 and {len(sizes)}, the rank of self"
    call.require(1 <= depth <= len(sizes), "indices", text)
    return call.shape("indices")[:-1] + sizes[depth:]


_GATHER_ND = "FLOAT INT32 INT64 FLOAT16 INT8 UINT8 BOOL"
rule(
    "aclnnGatherNd",
    same_dtype("self", "out"),
    dtypes(
        {
            "A2 A3": f"{_GATHER_ND} BF16",
            "950": f"{_GATHER_ND} BF16 DOUBLE INT16 {_UNSIGNED}",
            "310P 910": _GATHER_ND,
            "": "",
        },
        "self",
    ),
    dtypes(INDEX, "indices"),
    rank(1, 8, "self", "indices"),
    output_shape(out=_gather_nd_shape),
    output_dtype(out=dtype_of("self")),
)


def _along_axis(call: Call) -> Shape:
    """self with the axis replaced by the shape of index, 0-d index counting as one item."""
    sizes = call.shape("self")
    axis = wrapped_axis(call, "dim", "self")
    return _replaced(sizes, axis, call.shape("index") or (1,)) if sizes else ()


_GATHER_V2 = f"{_NUMBERS} BOOL {_COMPLEX}"
rule(
    "aclnnGatherV2",
    same_dtype("self", "out"),
    dtypes({"950": f"{_GATHER_V2} BF16 UINT16", "A2 A3": f"{_GATHER_V2} BF16", "": _GATHER_V2}, "self"),
    dtypes(INDEX, "index"),
    max_rank(8, "self", "index"),
    valid_axis("dim", "self"),
    output_shape(out=_along_axis),
    output_dtype(out=dtype_of("self")),
)


def _gather_v3_shape(call: Call) -> Shape:
    """As GatherV2's, but a 0-d index drops the axis; Ascend 950 leaves out the batch axes of index."""
    sizes, axis = call.shape("self"), wrapped_axis(call, "dim", "self")
    batch = call["batchDims"] if call.product == "950" else 0
    return _replaced(sizes, axis, call.shape("index")[max(batch, 0) :]) if sizes else ()


def _gather_v3_batches(call: Call) -> None:
    batch, axis = call["batchDims"], wrapped_axis(call, "dim", "self")
    if call.product != "950":
        for name, wanted in (("dim", 0), ("batchDims", 0), ("mode", 1)):
            call.require(call[name] == wanted, name, f"is {call[name]}; on {call.soc.name} it must be {wanted}")
        return
    if batch == 0:
        return
    sizes, index = call.shape("self"), call.shape("index")
    extent = max(len(index), 1)
    call.require(-extent <= batch <= extent, "batchDims", f"is {batch}; it must be in [{-extent}, {extent}]")
    batch = batch + extent if batch < 0 else batch
    call.require(
        batch < max(len(sizes), 1) and batch <= axis, "batchDims", f"is {batch}; it must be at most dim ({axis})"
    )
    call.require(
        sizes[:batch] == index[:batch], "index", f"has shape {index}; its first {batch} axes must be self's {sizes}"
    )


rule(
    "aclnnGatherV3",
    same_dtype("self", "out"),
    dtypes(f"{_GATHER_V2} BF16", "self"),
    dtypes(INDEX, "index"),
    max_rank(8, "self", "index"),
    valid_axis("dim", "self"),
    output_shape(out=_gather_v3_shape),
    _gather_v3_batches,
    output_dtype(out=dtype_of("self")),
)


# ------------------------------------------------------------------------------------------------- IndexSelect, Take


def _select_shape(call: Call) -> Shape:
    sizes = call.shape("self")
    index = call.shape("index")
    call.require(len(index) <= 1, "index", f"has rank {len(index)}; it must be at most 1")
    return _replaced(sizes, wrapped_axis(call, "dim", "self"), index or (1,)) if sizes else ()


def _select_output(call: Call) -> None:
    wanted, out = _select_shape(call), call.shape("out")
    free = call.shape("self") and (call.is_empty("self") or call.is_empty("index"))
    call.require(bool(free) or out == wanted, "out", f"has shape {out}; it must be {wanted}")


_SELECT = f"{_NUMBERS} {_UNSIGNED} BOOL {_COMPLEX}"
rule(
    "aclnnIndexSelect",
    dtypes(plus_bf16(_SELECT), "self"),
    same_dtype("self", "out"),
    dtypes(INDEX, "index"),
    no_private_format("self", "index", "out"),
    max_rank(8, "self"),
    valid_axis("dim", "self"),
    _select_output,
    infer_shape(out=_select_shape),
    output_dtype(out=dtype_of("self")),
)


def _something_to_take(call: Call) -> None:
    call.require(not call.is_empty("self") or call.is_empty("index"), "self", "is empty; there is nothing to take")


rule(
    "aclnnTake",
    dtypes(plus_bf16(_SELECT), "self"),
    same_dtype("self", "out"),
    dtypes(INDEX, "index"),
    max_rank(8, "index"),
    output_shape(out=shape_of("index")),
    _something_to_take,
    no_private_format("self", "index", "out"),
    output_dtype(out=dtype_of("self")),
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
    when(
        lambda call: call.product == "910",
        dtypes("FLOAT FLOAT16 INT64 INT32 BOOL INT8 UINT8 DOUBLE INT16", "self"),
    ),
    same_dtype("self", "out"),
    dtypes(
        {
            "950": "FLOAT FLOAT16 INT64 INT32 BOOL INT8 UINT8 BF16 DOUBLE INT16 COMPLEX64",
            "": "FLOAT FLOAT16 INT64 INT32 BOOL INT8 UINT8 BF16 DOUBLE INT16",
        },
        "self",
    ),
    index_dtypes,
    no_private_format("self", "out", "indices"),
    max_rank(8, "self", "indices"),
    _indexed_rank,
    infer_shape(out=_indexed_shape),
    output_dtype(out=dtype_of("self")),
)


# ------------------------------------------------------------------------------------------------- Flip, Inverse

_FLIP = f"{_NUMBERS} BOOL {_COMPLEX}"
rule(
    "aclnnFlip",
    same_dtype("self", "out"),
    dtypes({"A2 A3": f"{_FLIP} BF16", "950": f"{_FLIP} BF16 {_UNSIGNED}", "": _FLIP}, "self"),
    output_shape(out=shape_of("self")),
    max_rank(8, "self"),
    valid_axes("dims", "self"),
    output_dtype(out=dtype_of("self")),
)


def _square(call: Call) -> None:
    sizes = call.shape("self")
    if not call.is_empty("self"):
        call.require(
            len(sizes) >= 2 and sizes[-1] == sizes[-2], "self", f"has shape {sizes}; it must hold square matrices"
        )


rule(
    "aclnnInverse",
    dtypes("FLOAT DOUBLE COMPLEX64 COMPLEX128 FLOAT16", "self"),
    castable("self", "out"),
    output_shape(out=shape_of("self")),
    max_rank(8, "self"),
    _square,
    output_dtype(out=dtype_of("self")),
)

# ------------------------------------------------------------------------------------------------- RepeatInterleave

_REPEAT = "UINT8 INT8 INT16 INT32 INT64 BOOL FLOAT16 FLOAT"
_REPEAT_SET = {"950": f"{_REPEAT} BF16 {_UNSIGNED}", "A2 A3": f"{_REPEAT} BF16", "": _REPEAT}


def _flat_size(sizes: Shape) -> int:
    total = 1
    for n in sizes:
        total *= n
    return total


def _repeats_per(*, flat: bool) -> Check:
    """repeats is one number for all items, or one for each item of the axis (of everything when flat)."""

    def check(call: Call) -> None:
        counts, sizes = call.shape("repeats"), call.shape("self")
        if not counts:
            return
        items = _flat_size(sizes) if flat else sizes[wrapped_axis(call, "dim", "self")]
        call.require(counts[0] in (1, items), "repeats", f"has {counts[0]} items; it must have 1 or {items}")

    return check


def _real_axis(call: Call) -> None:
    call.require(len(call.shape("self")) > 0, "self", "is 0-d; it has no axis to repeat along")
    valid_axis("dim", "self")(call)


def _not_negative(call: Call) -> None:
    call.require(call["repeats"] >= 0, "repeats", f"is {call['repeats']}; it must not be negative")


def _no_repeats_of_something(call: Call) -> None:
    call.require(call.is_empty("self") or not call.is_empty("repeats"), "repeats", "is empty, but self is not")


def _repeated(call: Call) -> Shape:
    sizes = call.shape("self")
    return _replaced(sizes, wrapped_axis(call, "dim", "self"), (call["outputSize"],)) if sizes else sizes


def _repeated_flat(call: Call) -> Shape:
    return (call["outputSize"],)


def _empty_goes_with_one(call: Call) -> None:
    counts = call.shape("repeats")
    fits = not call.is_empty("self") or call.is_empty("repeats") or counts in ((), (1,))
    call.require(fits, "repeats", f"has shape {counts}; with an empty self it must be empty or hold one number")


# The size of the output is what the caller says; repeats is data.
rule(
    "aclnnRepeatInterleave",
    dtypes(_REPEAT_SET, "self"),
    dtypes(INDEX, "repeats"),
    same_dtype("self", "out"),
    max_rank(1, "repeats"),
    _repeats_per(flat=True),
    max_rank(8, "self"),
    _empty_goes_with_one,
    when(lambda call: not call.is_empty("self") and not call.is_empty("out"), _no_repeats_of_something),
    when(lambda call: not call.is_empty("self") and not call.is_empty("out"), output_shape(out=_repeated_flat)),
    infer_shape(out=_repeated_flat),
    output_dtype(out=dtype_of("self")),
)

rule(
    "aclnnRepeatInterleaveWithDim",
    dtypes(_REPEAT_SET, "self"),
    dtypes(INDEX, "repeats"),
    same_dtype("self", "out"),
    max_rank(1, "repeats"),
    _real_axis,
    _repeats_per(flat=False),
    max_rank(8, "self"),
    when(
        lambda call: not call.is_empty("self") and call["outputSize"] != 0,
        _no_repeats_of_something,
        output_shape(out=_repeated),
    ),
    infer_shape(out=_repeated),
    output_dtype(out=dtype_of("self")),
)

rule(
    "aclnnRepeatInterleaveInt",
    dtypes(_REPEAT_SET, "self"),
    same_dtype("self", "out"),
    _not_negative,
    max_rank(8, "self"),
    when(
        lambda call: not call.is_empty("self") and not call.is_empty("out") and call["repeats"] != 1,
        output_shape(out=_repeated_flat),
    ),
    infer_shape(out=_repeated_flat),
    output_dtype(out=dtype_of("self")),
)

rule(
    "aclnnRepeatInterleaveIntWithDim",
    dtypes(_REPEAT_SET, "self"),
    same_dtype("self", "out"),
    _not_negative,
    _real_axis,
    max_rank(8, "self"),
    when(
        lambda call: not call.is_empty("self") and call["outputSize"] != 0 and call["repeats"] != 1,
        output_shape(out=_repeated),
    ),
    infer_shape(out=_repeated),
    output_dtype(out=dtype_of("self")),
)


def _one_axis_of_counts(call: Call) -> None:
    counts = call.shape("repeats")
    call.require(call.is_empty("repeats") or len(counts) == 1, "repeats", f"has rank {len(counts)}; it must be 1")


rule(
    "aclnnRepeatInterleaveTensor",
    dtypes(INDEX, "repeats"),
    same_dtype("repeats", "out"),
    _one_axis_of_counts,
    when(lambda call: not call.is_empty("repeats") and not call.is_empty("out"), output_shape(out=_repeated_flat)),
    infer_shape(out=_repeated_flat),
    output_dtype(out=dtype_of("repeats")),
)
