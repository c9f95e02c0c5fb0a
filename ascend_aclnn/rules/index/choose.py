"""Rules of the operators that choose items: top-k, k-th, median, non-zero, unique, bucketize."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_ERROR
from ascend_aclnn.rules.language import *

_SORTABLE = f"FLOAT FLOAT16 {INTEGERS}"
INT32_MAX = 2**31 - 1

# A 0-d tensor has one item.
_LENGTH = define(length="(self or (1,))[dim % max(len(self), 1)]")


def _k_fits(least: int) -> tuple[Check, ...]:
    """k lies between ``least`` and the length of the axis."""
    return _LENGTH, valid_axis("dim", "self"), require(f"{least} <= k <= length")


def _reduced(keep: str) -> Check:
    """values and indices lose the axis dim, or keep it with length 1."""
    sizes = reduced_shape("self", "dim", keep)
    return output_shape_relaxed(valuesOut=sizes, indicesOut=sizes)


rule(
    "aclnnKthvalue",
    *_k_fits(1),
    dtypes({"A2 A3": f"{_SORTABLE} BF16", "950": f"{_SORTABLE} BF16 {UNSIGNED}", "": _SORTABLE}, "self"),
    same_dtype("self", "valuesOut"),
    dtypes("INT64", "indicesOut"),
    max_rank(8, "self"),
    unless_empty("self", _reduced("keepdim")),
)
_TOPK = f"{_SORTABLE} DOUBLE"


_WITHIN = require("0 <= k <= length")


@carries(_WITHIN)
def _top(call: Call) -> Shape:
    _WITHIN(call)  # before memory is reserved for k items
    sizes = call.shape("self")
    return tuple(call["k"] if i == call["dim"] % len(sizes) else n for i, n in enumerate(sizes))


rule(
    "aclnnTopk",
    *_k_fits(0),
    dtypes({"A2 A3": f"{_TOPK} BF16", "950": f"{_TOPK} BF16 {UNSIGNED}", "": _TOPK}, "self"),
    same_dtype("self", "valuesOut"),
    dtypes("INT64", "indicesOut"),
    max_rank(8, "self"),
    unless_empty("self valuesOut indicesOut", output_shape_relaxed(valuesOut=_top, indicesOut=_top)),
)


# ------------------------------------------------------------------------------------------------- medians

_MEDIAN: DtypeSet = {"A2 A3 950": f"{_SORTABLE} BF16", "": _SORTABLE}


def _bf16_axis(axis: str) -> Check:
    return require(f"self.dtype != BF16 or len(self) == 0 or self[{axis}] != 1")


def _all_items(name: str, out: str, *empty: Check) -> None:
    rule(
        name,
        dtypes(_MEDIAN, "self", out),
        same_dtype("self", out),
        max_rank(8, "self", out),
        _bf16_axis("-1"),
        *empty,
        output_dtype(**{out: dtype_of("self")}),
    )


_all_items("aclnnMedian", "valuesOut", unless_empty("self valuesOut", output_shape_relaxed(valuesOut="()")))
_all_items("aclnnNanMedian", "out", unless_empty("self", output_shape_relaxed(out="()")))

_MEDIAN_RANK = "len(self) - (0 if keepDim or len(self) == 0 else 1)"


def _along_axis(name: str, *last: Check) -> None:
    rule(
        name,
        dtypes(_MEDIAN, "self", "valuesOut"),
        same_dtype("self", "valuesOut"),
        dtypes("INT64", "indicesOut"),
        valid_axis("dim", "self"),
        max_rank(8, "self", "valuesOut", "indicesOut"),
        require(f"len(valuesOut) == {_MEDIAN_RANK}", f"len(indicesOut) == {_MEDIAN_RANK}"),
        _bf16_axis("dim"),
        *last,
        unless_empty("self valuesOut indicesOut", _reduced("keepDim")),
        output_dtype(valuesOut="self", indicesOut="INT64"),
    )


_along_axis("aclnnMedianDim")
_along_axis("aclnnNanMedianDim", _LENGTH, require("length > 0", argument="self"))


# ------------------------------------------------------------------------------------------------- Nonzero, Unique


def _nonzero(name: str, allowed: dict[str, str], out: Check) -> None:
    rule(
        name,
        dtypes(allowed, "self"),
        dtypes("INT64", "out"),
        max_rank(8, "self", "out"),
        require(f"all(n <= {INT32_MAX} for n in self)", argument="self"),
        out,
        output_dtype(out="INT64"),
    )


# How many items there are is data: the outputs are allocated for all of them.
_NONZERO = f"{_SORTABLE} DOUBLE BOOL"
_nonzero(
    "aclnnNonzero",
    {"950": f"{_NONZERO} BF16 {UNSIGNED}", "A2 A3": f"{_NONZERO} BF16", "": _NONZERO},
    infer_shape(out="(self.size, len(self))"),
)
_nonzero(
    "aclnnNonzeroV2",
    {"A2 A3 950": f"{_NONZERO} {UNSIGNED} BF16", "": f"{_NONZERO} {UNSIGNED}"},
    infer_shape(out="(len(self), self.size)"),
)

_UNIQUE = f"BOOL {_SORTABLE} DOUBLE {UNSIGNED}"
_UNIQUE_SET = {"A2 A3 950": f"{_UNIQUE} BF16", "": _UNIQUE}
rule(
    "aclnnUnique",
    dtypes(_UNIQUE_SET, "self"),
    dtypes("INT64", "inverseOut"),
    max_rank(8, "self"),
    when("returnInverse", same_shape("self", "inverseOut")),
    infer_shape(valueOut="(self.size,)", inverseOut="self"),
)
rule(
    "aclnnUnique2",
    dtypes(_UNIQUE_SET, "self"),
    dtypes("INT64", "inverseOut", "countsOut"),
    max_rank(8, "self"),
    when("returnInverse or returnCounts", same_shape("self", "inverseOut")),
    when("returnCounts", same_shape("valueOut", "countsOut")),
    infer_shape(valueOut="(self.size,)", inverseOut="self", countsOut="(self.size,)"),
)

_NO_DIM = 1000  # UniqueConsecutive's dim that means none


def _unique_rows(name: str, allowed: DtypeSet, *axis: Check) -> None:
    rows = f"self if dim == {_NO_DIM} or len(self) == 0 else (self[dim % len(self)],)"
    rule(
        name,
        dtypes(allowed, "self"),
        dtypes("INT64", "inverseOut", "countsOut"),
        same_dtype("self", "valueOut"),
        max_rank(8, "self"),
        *axis,
        infer_shape(
            valueOut=f"(self.size,) if dim == {_NO_DIM} else self",
            inverseOut=rows,
            countsOut=f"(self.size,) if dim == {_NO_DIM} else {rows}",
        ),
        output_dtype(valueOut="self", inverseOut="INT64", countsOut="INT64"),
    )


_RUN = f"{_UNIQUE} COMPLEX64 COMPLEX128"
_unique_rows(
    "aclnnUniqueConsecutive",
    {"A2 A3 950": f"{_RUN} BF16", "": _RUN},
    when(f"dim != {_NO_DIM}", valid_axis("dim", "self")),
)
_unique_rows("aclnnUniqueDim", _UNIQUE_SET, valid_axis("dim", "self"))


# ------------------------------------------------------------------------------------------------- Bucketize


_BUCKET = "INT32 if outInt32 else INT64"
rule(
    "aclnnBucketize",
    with_status(INNER_ERROR, only_products("950")),
    dtypes(f"{FLOATS} {INTEGERS}", "self", "boundaries"),
    has_dtype("out", _BUCKET),
    max_rank(8, "self"),
    output_shape(out="self"),
    rank(1, "boundaries"),
)
