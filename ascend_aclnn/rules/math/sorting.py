"""Rules of ops-math/math: sorting, searching, and running sums, products and extremes."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- order

_ORDERED = "FLOAT16 FLOAT UINT8 INT8 INT16 INT32 INT64"
_ORDERED_950 = _ORDERED + " BF16 UINT16 UINT32 UINT64"
rule(
    "aclnnSort",
    on_products("310", require("not stable")),
    dtypes({"950": _ORDERED_950 + " BOOL", "": _ORDERED + " BF16 BOOL"}, "self"),
    dtypes({"950": _ORDERED_950 + " BOOL", "": _ORDERED + " BF16 BOOL DOUBLE"}, "valuesOut"),
    dtypes("INT64", "indicesOut"),
    valid_axis("dim", "self"),
    output_shape(valuesOut="self", indicesOut="self"),
)
rule(
    "aclnnArgsort",
    valid_axis("dim", "self"),
    when("product != '950'", require("self.dtype != BF16 or len(self) == 0 or self[dim] != 1")),
    dtypes({"950": _ORDERED_950, "A2 A3": _ORDERED + " BF16", "": _ORDERED}, "self"),
    dtypes("INT64", "out"),
    no_private_format("self", "out"),
    max_rank(8, "self", "out"),
    output_shape(out="self"),
)

# ------------------------------------------------------------------------------------------------- search

_SEARCHED = "FLOAT16 FLOAT INT16 INT8 UINT8 INT32 INT64 DOUBLE"
_POSITION = "INT32 if outInt32 else INT64"
rule(
    "aclnnSearchSorted",
    dtypes(_SEARCHED, "sortedSequence", "self"),
    has_dtype("out", _POSITION),
    dtypes("INT64", "sorter"),
    max_rank(8, "sortedSequence", "self"),
    output_shape(out="self"),
    same_shape("sortedSequence", "sorter"),
    # A sequence of one axis serves all values; otherwise there is one sequence for each row of values.
    require("len(sortedSequence) > 0"),
    when(
        "len(sortedSequence) > 1",
        require("self != (1,)", "len(self) == len(sortedSequence)", "self[:-1] == sortedSequence[:-1]"),
    ),
)
rule(
    "aclnnSearchSorteds",
    not_empty("out"),
    dtypes(_SEARCHED, "sortedSequence"),
    has_dtype("out", _POSITION),
    dtypes("INT64", "sorter"),
    same_shape("sortedSequence", "sorter"),
    rank(1, "sortedSequence"),
    output_shape_relaxed(out="(1,)"),  # CANN sets the view shape to (1,)
)

# ------------------------------------------------------------------------------------------------- running

_EXTREMES = "FLOAT FLOAT16 DOUBLE INT8 INT16 INT32 INT64 UINT8 BOOL"
_SAME_AS_SELF = (max_rank(8, "self"), output_shape(valuesOut="self", indicesOut="self"))
_VALUES = output_dtype(valuesOut="self", indicesOut="INT64")
rule(
    "aclnnCummax",
    require("len(self) > 0"),
    valid_axis("dim", "self"),
    dtypes(plus_bf16(_EXTREMES), "self", "valuesOut"),
    dtypes(INDICES, "indicesOut"),
    *_SAME_AS_SELF,
    _VALUES,
)
rule(
    "aclnnCummin",
    valid_axis("dim", "self"),
    dtypes(_EXTREMES + " BF16", "self", "valuesOut"),
    dtypes(INDICES, "indicesOut"),
    *_SAME_AS_SELF,
    _VALUES,
)

_SUMMED = "FLOAT FLOAT16 INT32 DOUBLE UINT8 INT8 INT16 INT64 COMPLEX64 COMPLEX128"
_CUMSUM = {"310P 910 310B": _SUMMED, "A2 A3 950": _SUMMED + " BF16", "": ""}
_ALONG = (output_shape(out="self"), max_rank(8, "self"), valid_axis("dim", "self"))
rule(
    "aclnnCumsum",
    dtypes(_CUMSUM, "out"),
    has_dtype("out", dtype_attribute("dtype")),
    *_ALONG,
)
rule("aclnnCumsumV2", dtypes(_CUMSUM, "self", "out"), same_dtype("self", "out"), *_ALONG)

_MULTIPLIED = "FLOAT FLOAT16 BF16 DOUBLE INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64"


def _product_type(call: Call) -> DataType:
    named = dtype_attribute("dtype")(call)
    return call.dtype("out") if named is DataType.DT_UNDEFINED and call.is_present("out") else named


_SCALAR_AXIS = require("-max(len(input), 1) <= int(dim) < max(len(input), 1)", argument="dim")
rule(
    "aclnnCumprod",
    dtypes(_MULTIPLIED, "input", "out"),
    dtypes(INDICES, "dim"),
    _SCALAR_AXIS,
    output_shape(out="input"),
    # CANN leaves its executor unset, and reports success, where the two differ.
    has_dtype("out", _product_type),
    output_dtype(out=dtype_attribute("dtype")),
)
rule("aclnnInplaceCumprod", dtypes(_MULTIPLIED, "input"), dtypes(INDICES, "dim"), _SCALAR_AXIS)
