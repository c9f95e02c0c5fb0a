"""Rules of the operators that write at indices."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.index.gather import INDEX, index_dtypes, no_axis_exceeds, no_null_items, same_rank, wrapped_axis
from ascend_aclnn.rules.language import (
    Call,
    Check,
    DtypeSet,
    Shape,
    broadcast_shapes,
    broadcastable,
    castable,
    documented_dtypes,
    dtype_of,
    dtype_table,
    dtypes,
    infer_shape,
    max_rank,
    normalise_axes,
    only_products,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    same_format,
    same_shape,
    shape_of,
    tiling,
    unless_empty,
    when,
)

_COMPLEX = "COMPLEX64 COMPLEX128"


# ------------------------------------------------------------------------------------------------- IndexAdd, IndexCopy


def _added_rows(call: Call) -> None:
    """source is self with the axis as long as index; 0-d index and source count as one item."""
    axis_in_range(call, zero_d_minus_one=call.operator.name == "aclnnIndexAdd")
    sizes, source, index = call.shape("self"), call.shape("source") or (1,), call.shape("index") or (1,)
    text = f"has rank {len(source)}; it must be {len(sizes)}, as self"
    call.require(not sizes or len(sizes) == len(source), "source", text)
    axis = wrapped_axis(call, "dim", "self")
    fits = all(i == axis or n == m for i, (n, m) in enumerate(zip(sizes, source)))
    call.require(fits, "source", f"has shape {source}; it must be self's {sizes} except on axis {axis}")
    call.require(len(index) == 1, "index", f"has rank {len(index)}; it must be at most 1")
    text = f"has {index[0]} items; source has {source[axis]} on axis {axis}"
    call.require(index[0] == source[axis], "index", text)


def axis_in_range(call: Call, zero_d_minus_one: bool = True, tensor: str = "self") -> None:
    """dim is an axis of a tensor; some operators do not take -1 for a 0-d one."""
    n, axis = len(call.shape(tensor)), call["dim"]
    allowed = range(-n, n) if n else (-1, 0) if zero_d_minus_one else (0,)
    call.require(axis in allowed, "dim", f"is {axis}; it must be in [{min(allowed)}, {max(allowed)}]")


_ADD = "FLOAT INT32 FLOAT16 DOUBLE INT16 INT8 UINT8 INT64 BOOL"
rule(
    "aclnnIndexAdd",
    dtypes({"A2 A3 950": f"{_ADD} BF16", "": _ADD}, "self"),
    dtypes(INDEX, "index"),
    same_dtype("self", "source", "out"),
    max_rank(8, "self", "source"),
    _added_rows,
    output_shape(out=shape_of("self")),
    output_dtype(out=dtype_of("self")),
)
rule(
    "aclnnIndexAddV2",
    dtypes(f"{_ADD} BF16", "self"),
    dtypes(INDEX, "index"),
    same_dtype("self", "source"),
    castable("alpha", "self"),
    same_dtype("self", "out"),
    max_rank(8, "self", "source"),
    _added_rows,
    output_shape(out=shape_of("self")),
    output_dtype(out=dtype_of("self")),
)


def _copied_rows(call: Call) -> None:
    sizes, source = call.shape("selfRef"), call.shape("source")
    items = call["index"].size
    call.require(bool(source) or items == 1, "index", f"has {items} items; with a 0-d source it must have 1")
    text = f"has rank {len(source)}; it must be {len(sizes)}, as self"
    call.require(len(sizes) == len(source) or not sizes or not source, "source", text)
    axis_in_range(call, tensor="selfRef")
    axis = wrapped_axis(call, "dim", "selfRef")
    padded = source + (-1,) * (len(sizes) - len(source))
    fits = all(i == axis or n == m for i, (n, m) in enumerate(zip(sizes, padded)))
    call.require(fits, "source", f"has shape {source}; it must be self's {sizes} except on axis {axis}")


def _one_index_per_row(call: Call) -> None:
    source = call.shape("source")
    if source:
        rows, items = source[wrapped_axis(call, "dim", "source")], call["index"].size
        call.require(items == rows, "index", f"has {items} items; source has {rows} on the axis")


_COPY = f"INT64 DOUBLE INT16 INT8 UINT8 {_COMPLEX} BOOL FLOAT FLOAT16 INT32"
_COPY_SET: DtypeSet = {"A2 A3": f"{_COPY} BF16", "950": f"{_COPY} BF16 UINT32 UINT64", "": _COPY}


def _index_copy(name: str, *out: str) -> None:
    rule(
        name,
        dtypes(_COPY_SET, "selfRef"),
        dtypes(INDEX, "index"),
        same_dtype("selfRef", "source", *out),
        max_rank(8, "selfRef", "source"),
        max_rank(1, "index"),
        same_shape("selfRef", *out),
        _copied_rows,
        _one_index_per_row,
        same_format("selfRef", *out),
    )


_index_copy("aclnnIndexCopy", "outRef")
_index_copy("aclnnInplaceIndexCopy")

# ------------------------------------------------------------------------------------------------- IndexFill

_FILL = "INT32 FLOAT16 FLOAT INT64 BOOL"
_FILL_NEW = {"A2 A3": f"{_FILL} BF16", "950": f"{_FILL} BF16 INT8 UINT8 INT16 DOUBLE"}


def _fill_axis(target: str) -> Check:
    def check(call: Call) -> None:
        axis_in_range(call, tensor=target)

    return check


def _fill_positions(target: str) -> Check:
    def check(call: Call) -> None:
        sizes = call.shape(target) or (1,)
        n = sizes[wrapped_axis(call, "dim", target)]
        wrong = [i for i in call["index"] if not -n <= i < n]
        call.require(not wrong, "index", f"names {wrong[:1]}; items must be in [{-n}, {n - 1}]")

    return check


def _real_value(call: Call) -> None:
    complex_ = call.dtype("value") in (DataType.COMPLEX64, DataType.COMPLEX128)
    call.require(not complex_, "value", f"has dtype {call.dtype('value').name}; it must be real")


def _index_fill(suffix: str, allowed: DtypeSet, *checks: Check) -> None:
    """IndexFill<suffix> and its in-place twin."""
    for name, target, out in (
        (f"aclnnIndexFill{suffix}", "self", "out"),
        (f"aclnnInplaceIndexFill{suffix}", "selfRef", ""),
    ):
        kept = (same_dtype(target, out),) if out else ()
        fits = (same_shape(target, out),) if out else ()
        places = (_fill_positions(target),) if suffix else ()
        rule(
            name,
            dtypes(allowed, target),
            *kept,
            *(() if suffix else checks),
            unless_empty(target, *fits, max_rank(8, target), _fill_axis(target), *places),
            *(checks if suffix else ()),
            infer_shape(out=shape_of(target)),
            output_dtype(out=dtype_of(target)),
        )


_index_fill("", {**_FILL_NEW, "": ""}, dtypes(INDEX, "index"))
_index_fill("Tensor", {**_FILL_NEW, "": _FILL}, _real_value)


# ------------------------------------------------------------------------------------------------- IndexPut, Put


def _mask_axes_match(call: Call) -> None:
    """With a boolean mask among the indices, every index covers axes of self of its own shape."""
    used = [t for t in call["indices"] if t.size]
    if not any(t.dtype is DataType.BOOL for t in used):
        return
    sizes, at = call.shape("selfRef"), 0
    for position, tensor in enumerate(call["indices"]):
        if not tensor.size:
            at += 1
            continue
        covered = sizes[at : at + tensor.ndim]
        text = f"[{position}] has shape {tensor.shape}; beside a mask it must be that of the axes it covers, {covered}"
        call.require(tensor.shape == covered, "indices", text)
        at += max(tensor.ndim, 1)
    call.require(at <= len(sizes), "indices", f"cover {at} axes; self has rank {len(sizes)}")


def _indices_broadcast(call: Call) -> None:
    """Indices without a mask broadcast together; CANN's graph fails where they do not."""
    used = [t for t in call["indices"] if t.size]
    if any(t.dtype in (DataType.BOOL, DataType.UINT8) for t in used):
        return
    total: Shape = ()
    for tensor in used:
        both = broadcast_shapes(total, tensor.shape)
        if both is None:
            text = f"has a tensor of shape {tensor.shape}, which does not broadcast with {total}"
            call.refuse("indices", text, INNER_NULLPTR)
        total = both


def _no_more_indices_than_axes(call: Call) -> None:
    n = len(call.shape("selfRef"))
    call.require(len(call["indices"]) <= n, "indices", f"has {len(call['indices'])} items; self has rank {n}")


_PUT_IMPL = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE BOOL"
rule(
    "aclnnIndexPutImpl",
    no_null_items("indices"),
    dtypes({"910": _PUT_IMPL, "": f"{_PUT_IMPL} BF16"}, "selfRef", "values"),
    index_dtypes,
    same_dtype("selfRef", "values"),
    max_rank(8, "selfRef"),
    _no_more_indices_than_axes,
    _mask_axes_match,
    unless_empty("selfRef values", _indices_broadcast),
)

_PUT = f"FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE {_COMPLEX} BOOL"


def _one_value_per_index(call: Call) -> None:
    items, values = call["index"].size, call["source"].size
    call.require(items == values, "source", f"has {values} items; index has {items}")


def _somewhere_to_put(call: Call) -> None:
    call.require(
        call.is_empty("index") or not call.is_empty("selfRef"), "selfRef", "is empty; there is nowhere to put values"
    )


rule(
    "aclnnInplacePut",
    when(lambda call: not call["accumulate"], dtypes({"A2 A3 950": f"{_PUT} BF16", "": _PUT}, "selfRef")),
    when(lambda call: bool(call["accumulate"]), dtypes(_PUT, "selfRef")),
    dtypes(INDEX, "index"),
    same_dtype("selfRef", "source"),
    max_rank(8, "selfRef", "index"),
    _one_value_per_index,
    _somewhere_to_put,
)

_MASKED = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE BOOL"
rule(
    "aclnnInplaceMaskedScatter",
    dtypes({"A2 A3 950": f"{_MASKED} BF16", "": _MASKED}, "selfRef"),
    dtypes("UINT8 BOOL", "mask"),
    same_dtype("selfRef", "source"),
    max_rank(8, "selfRef", "mask", "source"),
    broadcastable("mask", "selfRef"),
)

# ------------------------------------------------------------------------------------------------- Scatter

_SCATTER = f"UINT8 INT8 INT16 INT32 INT64 BOOL FLOAT16 FLOAT DOUBLE {_COMPLEX}"
_SCATTER_SET: DtypeSet = {"A2 A3 950": f"{_SCATTER} BF16", "": _SCATTER}
REDUCE_NONE, REDUCE_ADD, REDUCE_MEAN = 0, 1, 5


def _scatter_dtypes(target: str, *others: str) -> tuple[Check, ...]:
    return (
        dtypes(_SCATTER_SET, target),
        same_dtype(target, *others),
        when(lambda call: not call.is_empty("index"), dtypes(INDEX, "index")),
    )


def _scatter_shapes(target: str, source: str, out: str) -> Check:
    """What is checked unless index is empty, when the input is only copied."""

    def check(call: Call) -> None:
        sizes, others = call.shape(target), [name for name in ("index", source) if name]
        if call.product == "950":
            same_rank(target, *others)(call)
        else:
            for name in others:
                came = len(call.shape(name))
                call.require(came == len(sizes), name, f"has rank {came}; it must be {len(sizes)}, as self")
        if out and call.shape(out):
            same_shape(target, out)(call)
        n = len(sizes)
        axis = call["dim"]
        if source:
            no_axis_exceeds(call, "index", source)
        no_axis_exceeds(call, "index", target, max(axis + n, 0) if axis < 0 else min(axis, max(n - 1, 0)))
        max_rank(8, target)(call)
        axis_in_range(call, tensor=target)

    return unless_empty("index", check)


def _scatter(name: str, *first: Check, value: bool = False) -> None:
    """An operator of the scatter family: Inplace ones change selfRef, the Value ones scatter an aclScalar."""
    inplace = name.startswith("aclnnInplace")
    target, out, source = "selfRef" if inplace else "self", "" if inplace else "out", "" if value else "src"
    others = [t for t in (source, out) if t]
    rule(
        name,
        *first,
        *_scatter_dtypes(target, *others),
        _scatter_shapes(target, source, out),
        infer_shape(out=shape_of(target)),
        output_dtype(out=dtype_of(target)),
    )


def _known_reduction(call: Call) -> None:
    value = call["reduce"]
    text = f"is {value}; it must be 0 (none), 1 (add), 2 (mul), 3 (max), 4 (min) or 5 (mean)"
    call.require(REDUCE_NONE <= value <= REDUCE_MEAN, "reduce", text)


def _reduces_on_chip(target: str) -> Check:
    """Atlas A2 and A3 reduce FLOAT by adding onto self, and nothing else."""

    def check(call: Call) -> None:
        if call.product not in ("A2", "A3"):
            return
        came = call.dtype(target)
        call.require(came is DataType.FLOAT, target, f"has dtype {came.name}; on {call.soc.name} it must be FLOAT")
        call.require(
            call["reduce"] == REDUCE_ADD, "reduce", f"is {call['reduce']}; on {call.soc.name} it must be 1 (add)"
        )
        call.require(call["includeSelf"], "includeSelf", f"is False; on {call.soc.name} it must be True")

    return check


def _complex_needs_complex(target: str) -> Check:
    complex_ = (DataType.COMPLEX64, DataType.COMPLEX128)

    def check(call: Call) -> None:
        fits = call.dtype(target) in complex_ or call.dtype("value") not in complex_
        call.require(fits, "value", f"has dtype {call.dtype('value').name}; self is real ({call.dtype(target).name})")

    return check


_scatter("aclnnScatter")
_scatter("aclnnInplaceScatter")
_scatter("aclnnScatterAdd")
_scatter("aclnnScatterReduce", _reduces_on_chip("self"), _known_reduction)
_scatter("aclnnInplaceScatterReduce", _reduces_on_chip("selfRef"), _known_reduction)
_scatter("aclnnScatterValue", _complex_needs_complex("self"), value=True)
_scatter("aclnnInplaceScatterValue", _complex_needs_complex("selfRef"), value=True)

# ------------------------------------------------------------------------------------------------- ScatterNd


def nd_updates_fit(call: Call, target: str) -> str:
    """What is wrong with updates of coordinates (the last axis of indices); nothing: ""."""
    sizes, indices, updates = call.shape(target), call.shape("indices"), call.shape("updates")
    depth = indices[-1]
    if depth > len(sizes):
        return f"names {depth} coordinates; {call.python_name(target)} has rank {len(sizes)}"
    wanted = indices[:-1] + sizes[depth:]
    return "" if updates == wanted else f"needs updates of shape {wanted}, which has {updates}"


def _nd_shapes(call: Call) -> None:
    wrong = nd_updates_fit(call, "data")
    call.require(not wrong, "indices", wrong)


rule(
    "aclnnScatterNd",
    dtypes({"A2 A3 950": "FLOAT16 FLOAT BOOL BF16", "": "FLOAT16 FLOAT BOOL"}, "data"),
    dtypes(INDEX, "indices"),
    same_dtype("data", "updates", "out"),
    rank(1, 8, "data", "indices", "updates"),
    output_shape(out=shape_of("data")),
    _nd_shapes,
    output_dtype(out=dtype_of("data")),
)


def _nd_update_shapes(call: Call) -> None:
    wrong = nd_updates_fit(call, "varRef")
    call.require(not wrong, "indices", wrong)


rule(
    "aclnnScatterNdUpdate",
    dtypes(
        {
            "A2 A3": "FLOAT FLOAT16 BOOL INT16 BF16 INT64 INT8 INT32",
            "950": "FLOAT FLOAT16 BOOL BF16 INT64 INT8 FLOAT8_E5M2 FLOAT8_E4M3FN HIFLOAT8 UINT8",
            "": "FLOAT FLOAT16 BOOL",
        },
        "varRef",
    ),
    dtypes(INDEX, "indices"),
    same_dtype("varRef", "updates"),
    tiling(rank(1, 8, "indices"), _nd_update_shapes),
)


def _row_updates_fit(call: Call) -> bool:
    """Updates of whole rows: one for every index."""
    sizes, indices, updates = call.shape("varRef"), call.shape("indices"), call.shape("updates")
    ranks = (sizes, indices, updates)
    if any(not 1 <= len(r) <= 8 for r in ranks) or (sizes[0] == 0 and not call.is_empty("indices")):
        return False
    return updates == indices + sizes[1:]


def _add_shapes(call: Call) -> None:
    if _row_updates_fit(call):
        return
    indices = call.shape("indices")
    call.require(len(indices) > 0, "indices", "is 0-d; it must have at least one axis")
    wrong = nd_updates_fit(call, "varRef")
    call.require(not wrong, "indices", wrong)


rule(
    "aclnnTfScatterAdd",
    dtypes({"A2 A3 910 950": "FLOAT FLOAT16 BF16 INT32 INT8 UINT8", "": ""}, "varRef"),
    dtypes(INDEX, "indices"),
    same_dtype("varRef", "updates"),
    _add_shapes,
)


def _row_updates(call: Call) -> None:
    sizes, indices, updates = call.shape("varRef"), call.shape("indices"), call.shape("updates")
    wanted = indices + sizes[1:]
    call.require(
        updates == wanted, "updates", f"has shape {updates}; it must be {wanted}, those of indices and of a row"
    )


rule(
    "aclnnScatterDiv aclnnScatterMax aclnnScatterMin aclnnScatterMul",
    only_products("950"),
    documented_dtypes("varRef", "indices"),
    same_dtype("varRef", "updates"),
    tiling(rank(1, 8, "varRef"), _row_updates),
)


def _list_shapes(call: Call) -> None:
    """One update for each variable of the list, as the document of Ascend 950 puts it; other chips check the same."""
    variables, updates, indice = call["varRef"], call.shape("updates"), call.shape("indice")
    call.require(bool(variables), "varRef", "is an empty list")
    call.require(all(t is not None for t in variables), "varRef", "has None (a null pointer) among its tensors")
    first = variables[0].shape
    call.require(all(t.shape == first for t in variables), "varRef", "holds tensors of different shapes")
    text = f"has rank {len(updates)}; it must be {len(first) + 1}: an axis for the list, then the axes of a variable"
    call.require(len(first) >= 1 and len(updates) == len(first) + 1, "updates", text)
    count = len(variables)
    call.require(updates[0] == count, "updates", f"has {updates[0]} on its first axis; varRef has {count} tensors")
    axis = call["axis"] + len(updates) if call["axis"] < 0 else call["axis"]
    call.require(
        0 < axis < len(updates), "axis", f"is {call['axis']}; it must name an axis of updates other than the first"
    )
    pairs = list(enumerate(zip(updates[1:], first), 1))
    fits = all(a <= b if i == axis else a == b for i, (a, b) in pairs)
    call.require(fits, "updates", f"has shape {updates}; it must be the variables' {first} except on axis {axis}")
    text = f"has shape {indice}; it must be ({count},) or ({count}, 2)"
    call.require(indice in ((count,), (count, 2)), "indice", text)
    if call.is_present("maskOptional"):
        mask = call.shape("maskOptional")
        call.require(mask == (count,), "maskOptional", f"has shape {mask}; it must be ({count},)")


rule(
    "aclnnScatterList",
    only_products("A2 A3 310P 950"),
    dtypes(
        {
            "310P": "INT8 INT16 INT32 UINT8 UINT16 UINT32 FLOAT16 FLOAT",
            "": "INT8 INT16 INT32 UINT8 UINT16 UINT32 FLOAT16 BF16 FLOAT",
        },
        "varRef",
    ),
    dtypes(INDEX, "indice"),
    same_dtype("varRef", "updates"),
    dtype_table("maskOptional", "UINT8"),
    tiling(_list_shapes),
)

# ------------------------------------------------------------------------------------------------- update, quantised


def _update_shapes(call: Call) -> None:
    for name in ("data", "updates", "indices"):
        call.require(not call.is_empty(name), name, "is empty")
    sizes, updates, indices = call.shape("data"), call.shape("updates"), call.shape("indices")
    call.require(len(sizes) == len(updates), "updates", f"has rank {len(updates)}; it must be {len(sizes)}, as data")
    text = f"has {updates[:1]} on its first axis; with a 0-d indices it must have 1"
    call.require(bool(indices) or updates[:1] == (1,), "updates", text)
    call.require(len(indices) <= 2, "indices", f"has rank {len(indices)}; it must be at most 2")


def _stretches(target: str) -> Check:
    """updates is the target with a stretch of one axis (not the first), for as many of its entries as there are indices."""

    def check(call: Call) -> None:
        sizes, updates, indices = call.shape(target), call.shape("updates"), call.shape("indices")
        rank(2, 8, target)(call)
        (axis,) = normalise_axes(call, "axis", (call["axis"],), len(sizes))
        call.require(axis != 0, "axis", f"is {call['axis']}; it must be an axis other than the first")
        text = (
            f"has shape {indices}; it must be ({updates[0]},) or ({updates[0]}, 2), one item for every entry of updates"
        )
        call.require(indices in ((updates[0],), (updates[0], 2)) or (updates[0] == 1 and not indices), "indices", text)
        pairs = list(enumerate(zip(updates, sizes)))
        fits = all(n <= m if i in (0, axis) else n == m for i, (n, m) in pairs)
        text = f"has shape {updates}; it must be {sizes} ({call.python_name(target)}), at most as long on axes 0 and {axis}"
        call.require(fits, "updates", text)

    return check


_UPDATE = "INT8 FLOAT16 FLOAT INT32"
rule(
    "aclnnInplaceScatterUpdate",
    dtypes(
        {"A2 A3": f"{_UPDATE} BF16", "950": f"{_UPDATE} BF16 UINT8 FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8", "": _UPDATE},
        "data",
    ),
    dtypes(INDEX, "indices"),
    same_dtype("data", "updates"),
    _update_shapes,
    tiling(_stretches("data")),
)

_QUANT_ROWS = dtype_table("updates quantScales quantZeroPoints", "FLOAT16 FLOAT INT32", "BF16 BF16 BF16")


def _updates_rank(call: Call) -> None:
    wanted, came = len(call.shape("selfRef")), len(call.shape("updates"))
    call.require(wanted == came, "updates", f"has rank {came}; it must be {wanted}, as selfRef")


def _scales_of_columns(call: Call) -> None:
    """One scale and one zero point for every entry of the last axis, the only one that is quantised along."""
    ndim = len(call.shape("updates"))
    call.require(
        call["quantAxis"] in (-1, ndim - 1), "quantAxis", f"is {call['quantAxis']}; it must be -1 or {ndim - 1}"
    )
    columns_ = call.size("updates", -1)
    for name in ("quantScales", "quantZeroPoints"):
        for tensor in call.tensors(name):
            text = f"has {tensor.size} elements; it must have {columns_}, as the last axis of updates"
            call.require(tensor.size == columns_, name, text)


_QUANT_SHAPES = unless_empty("selfRef indices updates quantScales", tiling(_stretches("selfRef"), _scales_of_columns))
rule(
    "aclnnInplaceQuantScatter",
    dtypes("INT8", "selfRef"),
    dtypes(INDEX, "indices"),
    _QUANT_ROWS,
    _updates_rank,
    _QUANT_SHAPES,
)


def _round_mode(call: Call) -> None:
    allowed = ("round", "hybrid") if call.dtype("selfRef") is DataType.HIFLOAT8 else ("rint",)
    call.require(
        call["roundMode"] in allowed, "roundMode", f"is {call['roundMode']!r}; it must be {' or '.join(allowed)}"
    )


rule(
    "aclnnInplaceQuantScatterV2",
    only_products("950"),
    dtypes("INT8 FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8", "selfRef"),
    dtypes(INDEX, "indices"),
    _QUANT_ROWS,
    _updates_rank,
    _round_mode,
    _QUANT_SHAPES,
)
