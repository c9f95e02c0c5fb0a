"""Rules of the operators that write at indices."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.index.gather import INDEX_DTYPES, NO_NULL_INDEX
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- IndexAdd, IndexCopy

rule(
    "aclnnIndexAdd aclnnIndexAddV2",
    on_operators("aclnnIndexAdd", dtypes(plus_bf16(REAL), "self")),
    on_operators("aclnnIndexAddV2", dtypes(f"{REAL} BF16", "self")),
    dtypes(INDICES, "index"),
    same_dtype("self", "source"),
    on_operators("aclnnIndexAddV2", castable("alpha", "self")),
    same_dtype("self", "out"),
    max_rank(8, "self", "source"),
    # source is self with the axis as long as index; 0-d index and source count as one item.
    valid_axis("dim", "self"),
    on_operators("aclnnIndexAddV2", require("len(self) > 0 or dim == 0", argument="dim")),
    define(rows="source or (1,)", items="index or (1,)", axis="dim % max(len(self), 1)"),
    require("len(self) == 0 or len(rows) == len(self)", argument="source"),
    require("all(i == axis or n == m for i, (n, m) in enumerate(zip(self, rows)))", argument="source"),
    require("len(items) == 1", "items[0] == rows[axis]", argument="index"),
    output_shape(out="self"),
)
rule(
    "aclnnIndexCopy aclnnInplaceIndexCopy",
    dtypes(
        {"A2 A3": f"{REAL_AND_COMPLEX} BF16", "950": f"{REAL_AND_COMPLEX} BF16 UINT32 UINT64", "": REAL_AND_COMPLEX},
        "selfRef",
    ),
    dtypes(INDICES, "index"),
    same_dtype("selfRef", "source", "outRef"),
    max_rank(8, "selfRef", "source"),
    max_rank(1, "index"),
    same_shape("selfRef", "outRef"),
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
    same_format("selfRef", "outRef"),
)

# ------------------------------------------------------------------------------------------------- IndexFill

_FILL = "INT32 FLOAT16 FLOAT INT64 BOOL"
_FILL_NEW = {"A2 A3": f"{_FILL} BF16", "950": f"{_FILL} BF16 INT8 UINT8 INT16 DOUBLE"}
_FILLED = (same_shape("self", "out"), max_rank(8, "self"), valid_axis("dim", "self"))
in_both_forms(
    "IndexFill",
    same_dtype("self", "out", among={**_FILL_NEW, "": ""}),
    dtypes(INDICES, "index"),
    unless_empty("self", *_FILLED),
    infer_shape(out="self"),
)
in_both_forms(
    "IndexFillTensor",
    same_dtype("self", "out", among={**_FILL_NEW, "": _FILL}),
    # A 0-d tensor counts as one item.
    define(length="(self or (1,))[dim % max(len(self), 1)]"),
    unless_empty("self", *_FILLED, require("all(-length <= i < length for i in index)", argument="index")),
    not_complex("value"),
    infer_shape(out="self"),
)

# ------------------------------------------------------------------------------------------------- IndexPut, Put


@carries([Refusal("indices", "shape/mask"), Refusal("indices", "length/axes")])
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
        call.require(tensor.shape == covered, "indices", text, check="shape/mask")
        at += max(tensor.ndim, 1)
    call.require(at <= len(sizes), "indices", f"cover {at} axes; self has rank {len(sizes)}", check="length/axes")


rule(
    "aclnnIndexPutImpl",
    NO_NULL_INDEX,
    dtypes({"910": REAL, "": f"{REAL} BF16"}, "selfRef", "values"),
    INDEX_DTYPES,
    same_dtype("selfRef", "values"),
    max_rank(8, "selfRef"),
    require("len(indices) <= len(selfRef)"),
    _mask_axes_match,
    # Indices without a mask broadcast together; CANN's graph fails where they do not.
    define(used="tuple(index for index in indices if not index.empty)"),
    unless_empty(
        "selfRef values",
        when(
            "all(index.dtype not in (BOOL, UINT8) for index in used)",
            with_status(INNER_NULLPTR, require("broadcasts(*used)", argument="indices")),
        ),
    ),
)
rule(
    "aclnnInplacePut",
    when("not accumulate", dtypes(plus_bf16(REAL_AND_COMPLEX), "selfRef")),
    when("accumulate", dtypes(REAL_AND_COMPLEX, "selfRef")),
    dtypes(INDICES, "index"),
    same_dtype("selfRef", "source"),
    max_rank(8, "selfRef", "index"),
    require("source.size == index.size"),
    require("index.empty or not selfRef.empty", argument="selfRef", why="there is nowhere to put values"),
)
rule(
    "aclnnInplaceMaskedScatter",
    dtypes(plus_bf16(REAL), "selfRef"),
    dtypes("UINT8 BOOL", "mask"),
    same_dtype("selfRef", "source"),
    max_rank(8, "selfRef", "mask", "source"),
    broadcastable("mask", "selfRef"),
)

# ------------------------------------------------------------------------------------------------- Scatter

REDUCE_NONE, REDUCE_ADD, REDUCE_MEAN = 0, 1, 5
_WITHIN = "all({} n <= m for i, (n, m) in enumerate(zip(index, {})))"
# The Value versions scatter an aclScalar and have no src.
rule(
    "aclnnScatter aclnnInplaceScatter aclnnScatterAdd aclnnScatterReduce aclnnInplaceScatterReduce"
    " aclnnScatterValue aclnnInplaceScatterValue",
    on_operators(
        "aclnnScatterReduce aclnnInplaceScatterReduce",
        # Atlas A2 and A3 reduce FLOAT by adding onto self, and nothing else.
        on_products("A2 A3", dtypes("FLOAT", "self"), require(f"reduce == {REDUCE_ADD}", "includeSelf")),
        require(
            f"{REDUCE_NONE} <= reduce <= {REDUCE_MEAN}", why="none, add, mul, max, min and mean are numbered from 0"
        ),
    ),
    on_operators("aclnnScatterValue aclnnInplaceScatterValue", when("self.dtype not in COMPLEX", not_complex("value"))),
    same_dtype("self", "src", "out", among=plus_bf16(REAL_AND_COMPLEX)),
    # Nothing is done but a copy where there are no indices.
    unless_empty(
        "index",
        dtypes(INDICES, "index"),
        on_products(
            "950",
            require("max(len(index), 1) == max(len(self), 1)"),
            require("max(len(src), 1) == max(len(self), 1)"),
        ),
        when("product != '950'", require("len(index) == len(self)", "len(src) == len(self)")),
        when("len(out) > 0", same_shape("self", "out")),
        require(_WITHIN.format("", "src"), argument="index"),
        # An axis that does not exist is the first or the last one here, and refused below.
        define(axis="max(dim + len(self), 0) if dim < 0 else min(dim, max(len(self) - 1, 0))"),
        require(_WITHIN.format("i == axis or", "self"), argument="index"),
        max_rank(8, "self"),
        valid_axis("dim", "self"),
    ),
    infer_shape(out="self"),
    aliases=INPLACE,
)

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
    dtypes(INDICES, "indices"),
    same_dtype("data", "updates", "out"),
    rank(1, 8, "data", "indices", "updates"),
    output_shape(out="data"),
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
    dtypes(INDICES, "indices"),
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
    dtypes(INDICES, "indices"),
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
    dtypes(INDICES, "indice"),
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
    dtypes(INDICES, "indices"),
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
    dtypes(INDICES, "indices"),
    _QUANT_ROWS,
    require("len(updates) == len(selfRef)"),
    _QUANT_SHAPES,
)
rule(
    "aclnnInplaceQuantScatterV2",
    only_products("950"),
    dtypes("INT8 FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8", "selfRef"),
    dtypes(INDICES, "indices"),
    _QUANT_ROWS,
    require("len(updates) == len(selfRef)"),
    when("selfRef.dtype == HIFLOAT8", one_of("roundMode", "round", "hybrid")),
    when("selfRef.dtype != HIFLOAT8", one_of("roundMode", "rint")),
    _QUANT_SHAPES,
)
