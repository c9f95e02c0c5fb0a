"""Rules of ops-math/math: sorting, searching, and running sums, products and extremes."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import (
    Call,
    dtype_attribute,
    dtype_in,
    dtype_of,
    dtypes,
    has_dtype,
    max_rank,
    no_private_format,
    normalise_axes,
    output_dtype,
    output_shape,
    output_shape_relaxed,
    plus_bf16,
    promoted,
    rule,
    same_dtype,
    same_shape,
    shape_from,
    shape_of,
    valid_axis,
)

# ------------------------------------------------------------------------------------------------- order

_ORDERED = "FLOAT16 FLOAT UINT8 INT8 INT16 INT32 INT64"
_ORDERED_950 = _ORDERED + " BF16 UINT16 UINT32 UINT64"


def _stable_is_supported(call: Call) -> None:
    text = f"is True; {call.soc.name} does not sort stably"
    call.require(not (call["stable"] and call.product == "310"), "stable", text)


rule(
    "aclnnSort",
    _stable_is_supported,
    dtypes({"950": _ORDERED_950 + " BOOL", "": _ORDERED + " BF16 BOOL"}, "self"),
    dtypes({"950": _ORDERED_950 + " BOOL", "": _ORDERED + " BF16 BOOL DOUBLE"}, "valuesOut"),
    dtypes("INT64", "indicesOut"),
    valid_axis("dim", "self"),
    output_shape(valuesOut=shape_of("self"), indicesOut=shape_of("self")),
    output_dtype(valuesOut=dtype_of("self"), indicesOut="INT64"),
)


def _bf16_axis(call: Call) -> None:
    sizes = call.shape("self")
    if sizes and sizes[call["dim"]] == 1 and call.product != "950" and call.dtype("self") is DataType.BF16:
        call.refuse("self", f"has one BF16 element along axis {call['dim']}, which {call.soc.name} does not sort")


rule(
    "aclnnArgsort",
    valid_axis("dim", "self"),
    _bf16_axis,
    dtypes({"950": _ORDERED_950, "A2 A3": _ORDERED + " BF16", "": _ORDERED}, "self"),
    dtypes("INT64", "out"),
    no_private_format("self", "out"),
    max_rank(8, "self", "out"),
    output_shape(out=shape_of("self")),
)

# ------------------------------------------------------------------------------------------------- search

_SEARCHED = "FLOAT16 FLOAT INT16 INT8 UINT8 INT32 INT64 DOUBLE"


def _position_type(call: Call) -> DataType:
    return DataType.INT32 if call["outInt32"] else DataType.INT64


def _rows_match(call: Call) -> None:
    """A sequence of one axis serves all values; otherwise there is one sequence for each row of values."""
    sequence, values = call.shape("sortedSequence"), call.shape("self")
    call.require(bool(sequence), "sortedSequence", "has no axes; it must have at least one")
    if len(sequence) == 1:
        return
    text = f"has shape {values}; with a sorted_sequence of shape {sequence} all axes but the last must agree"
    call.require(values != (1,) and len(sequence) == len(values) and sequence[:-1] == values[:-1], "self", text)


rule(
    "aclnnSearchSorted",
    dtypes(_SEARCHED, "sortedSequence", "self"),
    has_dtype("out", _position_type),
    dtypes("INT64", "sorter"),
    max_rank(8, "sortedSequence", "self"),
    output_shape(out=shape_of("self")),
    same_shape("sortedSequence", "sorter"),
    _rows_match,
    dtype_in(promoted("sortedSequence", "self"), _SEARCHED, "self"),
    output_dtype(out=_position_type),
)


def _one_sequence(call: Call) -> None:
    sizes = call.shape("sortedSequence")
    call.require(len(sizes) == 1, "sortedSequence", f"has shape {sizes}; its rank must be 1 to search a scalar in it")


def _not_empty(call: Call) -> None:
    call.require(call["out"].size > 0, "out", f"has shape {call.shape('out')}; it must be (1,)")


rule(
    "aclnnSearchSorteds",
    _not_empty,
    dtypes(_SEARCHED, "sortedSequence"),
    has_dtype("out", _position_type),
    dtypes("INT64", "sorter"),
    same_shape("sortedSequence", "sorter"),
    _one_sequence,
    output_shape_relaxed(out=shape_from(1)),  # CANN sets the view shape to (1,)
    output_dtype(out=_position_type),
)

# ------------------------------------------------------------------------------------------------- running

_EXTREMES = "FLOAT FLOAT16 DOUBLE INT8 INT16 INT32 INT64 UINT8 BOOL"
_SAME_AS_SELF = (max_rank(8, "self"), output_shape(valuesOut=shape_of("self"), indicesOut=shape_of("self")))
_VALUES = output_dtype(valuesOut=dtype_of("self"), indicesOut="INT64")


def _has_axes(call: Call) -> None:
    call.require(bool(call.shape("self")), "self", "has no axes; it needs one")


rule(
    "aclnnCummax",
    _has_axes,
    valid_axis("dim", "self"),
    dtypes(plus_bf16(_EXTREMES), "self", "valuesOut"),
    dtypes("INT32 INT64", "indicesOut"),
    *_SAME_AS_SELF,
    _VALUES,
)
rule(
    "aclnnCummin",
    valid_axis("dim", "self"),
    dtypes(_EXTREMES + " BF16", "self", "valuesOut"),
    dtypes("INT32 INT64", "indicesOut"),
    *_SAME_AS_SELF,
    _VALUES,
)

_SUMMED = "FLOAT FLOAT16 INT32 DOUBLE UINT8 INT8 INT16 INT64 COMPLEX64 COMPLEX128"
_CUMSUM = {"310P 910 310B": _SUMMED, "A2 A3 950": _SUMMED + " BF16", "": ""}
_ALONG = (output_shape(out=shape_of("self")), max_rank(8, "self"), valid_axis("dim", "self"))
rule(
    "aclnnCumsum",
    dtypes(_CUMSUM, "out"),
    has_dtype("out", dtype_attribute("dtype")),
    *_ALONG,
    output_dtype(out=dtype_attribute("dtype")),
)
rule("aclnnCumsumV2", dtypes(_CUMSUM, "self", "out"), same_dtype("self", "out"), *_ALONG)

_MULTIPLIED = "FLOAT FLOAT16 BF16 DOUBLE INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64"


def _product_type(call: Call) -> DataType:
    named = dtype_attribute("dtype")(call)
    return call.dtype("out") if named is DataType.DT_UNDEFINED and call.is_present("out") else named


def _scalar_axis(call: Call) -> None:
    normalise_axes(call, "dim", (int(call["dim"].value),), len(call.shape("input")))


rule(
    "aclnnCumprod",
    dtypes(_MULTIPLIED, "input", "out"),
    dtypes("INT32 INT64", "dim"),
    _scalar_axis,
    output_shape(out=shape_of("input")),
    # CANN leaves its executor unset, and reports success, where the two differ.
    has_dtype("out", _product_type),
    output_dtype(out=dtype_attribute("dtype")),
)
rule("aclnnInplaceCumprod", dtypes(_MULTIPLIED, "input"), dtypes("INT32 INT64", "dim"), _scalar_axis)
