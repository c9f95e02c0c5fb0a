"""Rules of the operators that write at indices."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.index.gather import INDEX, index_dtypes, no_null_items
from ascend_aclnn.rules.language import *

_COMPLEX = "COMPLEX64 COMPLEX128"


# ------------------------------------------------------------------------------------------------- IndexAdd, IndexCopy


# source is self with the axis as long as index; 0-d index and source count as one item.
_ADDED_ROWS = (
    valid_axis("dim", "self"),
    on_operators("aclnnIndexAddV2", require("len(self) > 0 or dim == 0", argument="dim")),
    define(rows="source or (1,)", items="index or (1,)", axis="dim % max(len(self), 1)"),
    require("len(self) == 0 or len(rows) == len(self)", argument="source"),
    require("all(i == axis or n == m for i, (n, m) in enumerate(zip(self, rows)))", argument="source"),
    require("len(items) == 1", "items[0] == rows[axis]", argument="index"),
)
_ADD = "FLOAT INT32 FLOAT16 DOUBLE INT16 INT8 UINT8 INT64 BOOL"
rule(
    "aclnnIndexAdd",
    dtypes({"A2 A3 950": f"{_ADD} BF16", "": _ADD}, "self"),
    dtypes(INDEX, "index"),
    same_dtype("self", "source", "out"),
    max_rank(8, "self", "source"),
    *_ADDED_ROWS,
    output_shape(out=shape_of("self")),
)
rule(
    "aclnnIndexAddV2",
    dtypes(f"{_ADD} BF16", "self"),
    dtypes(INDEX, "index"),
    same_dtype("self", "source"),
    castable("alpha", "self"),
    same_dtype("self", "out"),
    max_rank(8, "self", "source"),
    *_ADDED_ROWS,
    output_shape(out=shape_of("self")),
)


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
        require("len(source) > 0 or index.size == 1", argument="index"),
        require("len(source) == len(selfRef) or 0 in (len(selfRef), len(source))", argument="source"),
        valid_axis("dim", "selfRef"),
        define(axis="dim % max(len(selfRef), 1)"),
        require(
            "all(i == axis or (n,) == source[i : i + 1] for i, n in enumerate(selfRef))",
            argument="source",
            why="source differs from self on axis dim only",
        ),
        when("len(source) > 0", require("index.size == source[dim % len(source)]")),
        same_format("selfRef", *out),
    )


_index_copy("aclnnIndexCopy", "outRef")
_index_copy("aclnnInplaceIndexCopy")

# ------------------------------------------------------------------------------------------------- IndexFill

_FILL = "INT32 FLOAT16 FLOAT INT64 BOOL"
_FILL_NEW = {"A2 A3": f"{_FILL} BF16", "950": f"{_FILL} BF16 INT8 UINT8 INT16 DOUBLE"}


def _real_value(call: Call) -> None:
    complex_ = call.dtype("value") in (DataType.COMPLEX64, DataType.COMPLEX128)
    call.require(not complex_, "value", f"has dtype {call.dtype('value').name}; it must be real")


def _index_fill(suffix: str, allowed: DtypeSet, *checks: Check) -> None:
    """IndexFill<suffix> and its in-place twin; a 0-d tensor counts as one item."""
    for name, target, out in (
        (f"aclnnIndexFill{suffix}", "self", "out"),
        (f"aclnnInplaceIndexFill{suffix}", "selfRef", ""),
    ):
        kept = (same_dtype(target, out),) if out else ()
        fits = (same_shape(target, out),) if out else ()
        length = f"(({target} or (1,))[dim % max(len({target}), 1)])"
        places = (require(f"all(-{length} <= i < {length} for i in index)", argument="index"),) if suffix else ()
        rule(
            name,
            dtypes(allowed, target),
            *kept,
            *(() if suffix else checks),
            unless_empty(target, *fits, max_rank(8, target), valid_axis("dim", target), *places),
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


_PUT_IMPL = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE BOOL"
rule(
    "aclnnIndexPutImpl",
    no_null_items("indices"),
    dtypes({"910": _PUT_IMPL, "": f"{_PUT_IMPL} BF16"}, "selfRef", "values"),
    index_dtypes,
    same_dtype("selfRef", "values"),
    max_rank(8, "selfRef"),
    require("len(indices) <= len(selfRef)"),
    _mask_axes_match,
    unless_empty("selfRef values", _indices_broadcast),
)

_PUT = f"FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE {_COMPLEX} BOOL"


rule(
    "aclnnInplacePut",
    when("not accumulate", dtypes({"A2 A3 950": f"{_PUT} BF16", "": _PUT}, "selfRef")),
    when("accumulate", dtypes(_PUT, "selfRef")),
    dtypes(INDEX, "index"),
    same_dtype("selfRef", "source"),
    max_rank(8, "selfRef", "index"),
    require("source.size == index.size"),
    require("index.empty or not selfRef.empty", argument="selfRef", why="there is nowhere to put values"),
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
        unless_empty("index", dtypes(INDEX, "index")),
    )


def _scatter_shapes(target: str, source: str, out: str) -> Check:
    """What is checked unless index is empty, when the input is only copied."""
    others = [name for name in ("index", source) if name]
    ranks = [require(f"len({name}) == len({target})") for name in others]
    from_0_d = [require(f"max(len({name}), 1) == max(len({target}), 1)") for name in others]
    within = "all({} n <= m for i, (n, m) in enumerate(zip(index, {})))"
    return unless_empty(
        "index",
        on_products("950", *from_0_d),
        when("product != '950'", *ranks),
        *([when(f"len({out}) > 0", same_shape(target, out))] if out else []),
        *([require(within.format("", source), argument="index")] if source else []),
        # An axis that does not exist is the first or the last one here, and refused below.
        define(axis=f"max(dim + len({target}), 0) if dim < 0 else min(dim, max(len({target}) - 1, 0))"),
        require(within.format("i == axis or", target), argument="index"),
        max_rank(8, target),
        valid_axis("dim", target),
    )


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


_KNOWN_REDUCTION = require(
    f"{REDUCE_NONE} <= reduce <= {REDUCE_MEAN}", why="none, add, mul, max, min and mean are numbered from 0"
)


def _reduces_on_chip(target: str) -> Check:
    """Atlas A2 and A3 reduce FLOAT by adding onto self, and nothing else."""
    return on_products("A2 A3", dtypes("FLOAT", target), require(f"reduce == {REDUCE_ADD}", "includeSelf"))


def _complex_needs_complex(target: str) -> Check:
    return when(f"{target}.dtype not in (COMPLEX64, COMPLEX128)", _real_value)


_scatter("aclnnScatter")
_scatter("aclnnInplaceScatter")
_scatter("aclnnScatterAdd")
_scatter("aclnnScatterReduce", _reduces_on_chip("self"), _KNOWN_REDUCTION)
_scatter("aclnnInplaceScatterReduce", _reduces_on_chip("selfRef"), _KNOWN_REDUCTION)
_scatter("aclnnScatterValue", _complex_needs_complex("self"), value=True)
_scatter("aclnnInplaceScatterValue", _complex_needs_complex("selfRef"), value=True)

# ------------------------------------------------------------------------------------------------- ScatterNd


def _nd_updates(target: str) -> tuple[Check, Check]:
    """Updates at coordinates, which the last axis of indices holds: elements or slices of a tensor."""
    return (
        define(depth="indices[-1]"),
        require(f"depth <= len({target})", f"updates == indices[:-1] + {target}[depth:]", argument="indices"),
    )


rule(
    "aclnnScatterNd",
    dtypes({"A2 A3 950": "FLOAT16 FLOAT BOOL BF16", "": "FLOAT16 FLOAT BOOL"}, "data"),
    dtypes(INDEX, "indices"),
    same_dtype("data", "updates", "out"),
    rank(1, 8, "data", "indices", "updates"),
    output_shape(out=shape_of("data")),
    *_nd_updates("data"),
)


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
    tiling(rank(1, 8, "indices"), *_nd_updates("varRef")),
)


# Updates of whole rows, one for every index.
_ROW_UPDATES = (
    "len(varRef) in range(1, 9) and len(indices) in range(1, 9) and len(updates) in range(1, 9)"
    " and (varRef[0] > 0 or indices.empty) and updates == indices + varRef[1:]"
)

rule(
    "aclnnTfScatterAdd",
    dtypes({"A2 A3 910 950": "FLOAT FLOAT16 BF16 INT32 INT8 UINT8", "": ""}, "varRef"),
    dtypes(INDEX, "indices"),
    same_dtype("varRef", "updates"),
    when(f"not ({_ROW_UPDATES})", require("len(indices) > 0"), *_nd_updates("varRef")),
)


rule(
    "aclnnScatterDiv aclnnScatterMax aclnnScatterMin aclnnScatterMul",
    only_products("950"),
    documented_dtypes("varRef", "indices"),
    same_dtype("varRef", "updates"),
    tiling(rank(1, 8, "varRef"), require("updates == indices + varRef[1:]")),
)


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
    # One update for each variable of the list, as the document of Ascend 950 puts it; other chips check the same.
    tiling(
        require("len(varRef) > 0", "all(v is not None for v in varRef)", "all(v == varRef[0] for v in varRef)"),
        require("len(varRef[0]) >= 1", argument="varRef"),
        require("len(updates) == len(varRef[0]) + 1", "updates[0] == len(varRef)"),
        define(place="axis + len(updates) if axis < 0 else axis"),
        require("0 < place < len(updates)", argument="axis", why="the first axis of updates is that of the list"),
        require(
            "all(n <= m if i == place else n == m for i, (n, m) in enumerate(zip(updates[1:], varRef[0]), 1))",
            argument="updates",
        ),
        require("indice in ((len(varRef),), (len(varRef), 2))"),
        require("maskOptional == (len(varRef),)"),
    ),
)

# ------------------------------------------------------------------------------------------------- update, quantised


def _stretches(target: str) -> tuple[Check, ...]:
    """updates is the target with a stretch of one axis (not the first), for as many of its entries as there are indices."""
    return (
        rank(2, 8, target),
        valid_axis("axis", target),
        require(f"axis % len({target}) != 0", argument="axis", why="the first axis is that of the indices"),
        require("indices in ((updates[0],), (updates[0], 2)) or (len(indices) == 0 and updates[0] == 1)"),
        require(
            f"all(n <= m if i in (0, axis % len({target})) else n == m for i, (n, m) in enumerate(zip(updates, {target})))",
            argument="updates",
        ),
    )


_UPDATE = "INT8 FLOAT16 FLOAT INT32"
rule(
    "aclnnInplaceScatterUpdate",
    dtypes(
        {"A2 A3": f"{_UPDATE} BF16", "950": f"{_UPDATE} BF16 UINT8 FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8", "": _UPDATE},
        "data",
    ),
    dtypes(INDEX, "indices"),
    same_dtype("data", "updates"),
    not_empty("data", "updates", "indices"),
    require("len(updates) == len(data)"),
    require("len(indices) > 0 or updates[0] == 1", argument="updates"),
    max_rank(2, "indices"),
    tiling(*_stretches("data")),
)

_QUANT_ROWS = dtype_table("updates quantScales quantZeroPoints", "FLOAT16 FLOAT INT32", "BF16 BF16 BF16")


# One scale and one zero point for every entry of the last axis, the only one that is quantised along.
_QUANT_SHAPES = unless_empty(
    "selfRef indices updates quantScales",
    tiling(
        *_stretches("selfRef"),
        require("quantAxis in (-1, len(updates) - 1)"),
        require("quantScales.size == updates[-1]", "quantZeroPoints.size == updates[-1]"),
    ),
)
rule(
    "aclnnInplaceQuantScatter",
    dtypes("INT8", "selfRef"),
    dtypes(INDEX, "indices"),
    _QUANT_ROWS,
    require("len(updates) == len(selfRef)"),
    _QUANT_SHAPES,
)


rule(
    "aclnnInplaceQuantScatterV2",
    only_products("950"),
    dtypes("INT8 FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8", "selfRef"),
    dtypes(INDEX, "indices"),
    _QUANT_ROWS,
    require("len(updates) == len(selfRef)"),
    when("selfRef.dtype == HIFLOAT8", one_of("roundMode", "round", "hybrid")),
    when("selfRef.dtype != HIFLOAT8", one_of("roundMode", "rint")),
    _QUANT_SHAPES,
)
