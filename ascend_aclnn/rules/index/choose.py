"""Rules of the operators that choose items: top-k, k-th, median, non-zero, unique, bucketize."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_ERROR
from ascend_aclnn.rules.index.gather import wrapped_axis
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    dtype_of,
    dtypes,
    infer_shape,
    max_rank,
    output_dtype,
    output_shape,
    output_shape_relaxed,
    rank,
    rule,
    same_dtype,
    same_shape,
    shape_of,
    unless_empty,
    valid_axis,
    when,
)

_SORTABLE = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8"
_UNSIGNED = "UINT16 UINT32 UINT64"
INT32_MAX = 2**31 - 1


def _int64(name: str) -> Check:
    return dtypes("INT64", name)


def _k_fits(least: int) -> Check:
    """k lies between ``least`` and the length of the axis; a 0-d tensor has one item."""

    def check(call: Call) -> None:
        valid_axis("dim", "self")(call)
        n = (call.shape("self") or (1,))[wrapped_axis(call, "dim", "self")]
        call.require(
            least <= call["k"] <= n, "k", f"is {call['k']}; it must be in [{least}, {n}], the length of the axis"
        )

    return check


def _reduced(keep: str) -> Check:
    """values and indices lose the axis dim, or keep it with length 1."""

    def sizes(call: Call) -> Shape:
        valid_axis("dim", "self")(call)
        axis = wrapped_axis(call, "dim", "self")
        return tuple(1 if i == axis else n for i, n in enumerate(call.shape("self")) if i != axis or call[keep])

    return output_shape_relaxed(valuesOut=sizes, indicesOut=sizes)


rule(
    "aclnnKthvalue",
    _k_fits(1),
    dtypes({"A2 A3": f"{_SORTABLE} BF16", "950": f"{_SORTABLE} BF16 {_UNSIGNED}", "": _SORTABLE}, "self"),
    same_dtype("self", "valuesOut"),
    _int64("indicesOut"),
    max_rank(8, "self"),
    unless_empty("self", _reduced("keepdim")),
    output_dtype(valuesOut=dtype_of("self"), indicesOut="INT64"),
)


def _top_shape(call: Call) -> Shape:
    _k_fits(0)(call)
    axis = wrapped_axis(call, "dim", "self")
    return tuple(call["k"] if i == axis else n for i, n in enumerate(call.shape("self")))


_TOPK = f"{_SORTABLE} DOUBLE"
rule(
    "aclnnTopk",
    _k_fits(0),
    dtypes({"A2 A3": f"{_TOPK} BF16", "950": f"{_TOPK} BF16 {_UNSIGNED}", "": _TOPK}, "self"),
    same_dtype("self", "valuesOut"),
    _int64("indicesOut"),
    max_rank(8, "self"),
    unless_empty("self valuesOut indicesOut", output_shape_relaxed(valuesOut=_top_shape, indicesOut=_top_shape)),
    output_dtype(valuesOut=dtype_of("self"), indicesOut="INT64"),
)


# ------------------------------------------------------------------------------------------------- medians

_MEDIAN = {
    "A2 A3 950": "FLOAT FLOAT16 BF16 UINT8 INT8 INT16 INT32 INT64",
    "": "FLOAT FLOAT16 UINT8 INT8 INT16 INT32 INT64",
}


def _bf16_axis(call: Call, axis: int) -> None:
    sizes = call.shape("self")
    one = bool(sizes) and call.dtype("self") is DataType.BF16 and sizes[axis] == 1
    call.require(not one, "self", f"has shape {sizes}; a BF16 axis of length 1 is not supported")


def _bf16_last_axis(call: Call) -> None:
    _bf16_axis(call, -1)


def _bf16_median_axis(call: Call) -> None:
    _bf16_axis(call, wrapped_axis(call, "dim", "self"))


def _all_items(name: str, out: str, *, empty: Check) -> None:
    rule(
        name,
        dtypes(_MEDIAN, "self", out),
        same_dtype("self", out),
        max_rank(8, "self", out),
        _bf16_last_axis,
        empty,
        output_dtype(**{out: dtype_of("self")}),
    )


_all_items(
    "aclnnMedian", "valuesOut", empty=unless_empty("self valuesOut", output_shape_relaxed(valuesOut=lambda call: ()))
)
_all_items("aclnnNanMedian", "out", empty=unless_empty("self", output_shape_relaxed(out=lambda call: ())))


def _median_ranks(call: Call) -> None:
    n = len(call.shape("self"))
    kept = n if call["keepDim"] or n == 0 else n - 1
    rank(kept, kept, "valuesOut", "indicesOut")(call)


def _something_on_axis(call: Call) -> None:
    sizes = call.shape("self")
    n = sizes[wrapped_axis(call, "dim", "self")] if sizes else 1
    call.require(n > 0, "self", f"has shape {sizes}; the axis dim must not be empty")


def _along_axis(name: str, *last: Check) -> None:
    rule(
        name,
        dtypes(_MEDIAN, "self", "valuesOut"),
        same_dtype("self", "valuesOut"),
        _int64("indicesOut"),
        valid_axis("dim", "self"),
        max_rank(8, "self", "valuesOut", "indicesOut"),
        _median_ranks,
        _bf16_median_axis,
        *last,
        unless_empty("self valuesOut indicesOut", _reduced("keepDim")),
        output_dtype(valuesOut=dtype_of("self"), indicesOut="INT64"),
    )


_along_axis("aclnnMedianDim")
_along_axis("aclnnNanMedianDim", _something_on_axis)


# ------------------------------------------------------------------------------------------------- Nonzero, Unique


def _indexable_axes(call: Call) -> None:
    sizes = call.shape("self")
    call.require(
        all(n <= INT32_MAX for n in sizes), "self", f"has shape {sizes}; no axis may be longer than {INT32_MAX}"
    )


def _nonzero(name: str, allowed: dict[str, str], out: Check) -> None:
    rule(
        name,
        dtypes(allowed, "self"),
        _int64("out"),
        max_rank(8, "self", "out"),
        _indexable_axes,
        out,
        output_dtype(out="INT64"),
    )


# How many items there are is data: the outputs are allocated for all of them.
_NONZERO = f"{_SORTABLE} DOUBLE BOOL"
_nonzero(
    "aclnnNonzero",
    {"950": f"{_NONZERO} BF16 {_UNSIGNED}", "A2 A3": f"{_NONZERO} BF16", "": _NONZERO},
    infer_shape(out=lambda call: (call["self"].size, len(call.shape("self")))),
)
_nonzero(
    "aclnnNonzeroV2",
    {"A2 A3 950": f"{_NONZERO} {_UNSIGNED} BF16", "": f"{_NONZERO} {_UNSIGNED}"},
    infer_shape(out=lambda call: (len(call.shape("self")), call["self"].size)),
)

_UNIQUE = f"BOOL {_SORTABLE} DOUBLE {_UNSIGNED}"
_UNIQUE_SET = {"A2 A3 950": f"{_UNIQUE} BF16", "": _UNIQUE}


def _flat(call: Call) -> Shape:
    return (call["self"].size,)


def _unique_axis(call: Call) -> None:
    n, axis = len(call.shape("self")), call["dim"]
    allowed = range(-n, n) if n else (-1, 0)
    call.require(axis in allowed, "dim", f"is {axis}; it must be in [{min(allowed)}, {max(allowed)}]")


rule(
    "aclnnUnique",
    dtypes(_UNIQUE_SET, "self"),
    _int64("inverseOut"),
    max_rank(8, "self"),
    when(lambda call: bool(call["returnInverse"]), same_shape("self", "inverseOut")),
    infer_shape(valueOut=_flat, inverseOut=shape_of("self")),
    output_dtype(valueOut=dtype_of("self"), inverseOut="INT64"),
)
rule(
    "aclnnUnique2",
    dtypes(_UNIQUE_SET, "self"),
    _int64("inverseOut"),
    _int64("countsOut"),
    max_rank(8, "self"),
    when(lambda call: bool(call["returnInverse"] or call["returnCounts"]), same_shape("self", "inverseOut")),
    when(lambda call: bool(call["returnCounts"]), same_shape("valueOut", "countsOut")),
    infer_shape(valueOut=_flat, inverseOut=shape_of("self"), countsOut=_flat),
    output_dtype(valueOut=dtype_of("self"), inverseOut="INT64", countsOut="INT64"),
)

FLATTENED = 1000  # UniqueConsecutive's dim that means none


def _runs(call: Call) -> Shape:
    return _flat(call) if call["dim"] == FLATTENED else call.shape("self")


def _run_inverse(call: Call) -> Shape:
    sizes = call.shape("self")
    return sizes if call["dim"] == FLATTENED or not sizes else (sizes[wrapped_axis(call, "dim", "self")],)


def _run_counts(call: Call) -> Shape:
    return _flat(call) if call["dim"] == FLATTENED else _run_inverse(call)


def _unique_rows(name: str, allowed: dict[str, str], axis: Check) -> None:
    rule(
        name,
        dtypes(allowed, "self"),
        _int64("inverseOut"),
        _int64("countsOut"),
        same_dtype("self", "valueOut"),
        max_rank(8, "self"),
        axis,
        infer_shape(valueOut=_runs, inverseOut=_run_inverse, countsOut=_run_counts),
        output_dtype(valueOut=dtype_of("self"), inverseOut="INT64", countsOut="INT64"),
    )


_RUN = f"{_UNIQUE} COMPLEX64 COMPLEX128"
_unique_rows(
    "aclnnUniqueConsecutive",
    {"A2 A3 950": f"{_RUN} BF16", "": _RUN},
    when(lambda call: call["dim"] != FLATTENED, _unique_axis),
)
_unique_rows("aclnnUniqueDim", _UNIQUE_SET, _unique_axis)


# ------------------------------------------------------------------------------------------------- Bucketize


def _regbase_only(call: Call) -> None:
    call.require(
        call.product == "950", None, f"the operator is not supported on {call.soc.name}; it is on 950", INNER_ERROR
    )


def _bucket_dtype(call: Call) -> DataType:
    return DataType.INT32 if call["outInt32"] else DataType.INT64


def _bucket_out(call: Call) -> None:
    came, wanted = call.dtype("out"), _bucket_dtype(call)
    call.require(
        came is wanted, "out", f"has dtype {came.name}; with out_int32 {call['outInt32']} it must be {wanted.name}"
    )


rule(
    "aclnnBucketize",
    _regbase_only,
    dtypes("FLOAT FLOAT16 INT32 INT16 BF16 INT8 UINT8 INT64", "self", "boundaries"),
    _bucket_out,
    max_rank(8, "self"),
    output_shape(out=shape_of("self")),
    rank(1, 1, "boundaries"),
    output_dtype(out=_bucket_dtype),
)
