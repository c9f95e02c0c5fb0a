"""Rules of ops-math/conversion: operators that write values into a tensor, limit them, or keep a part of them."""

from __future__ import annotations

import math

import numpy as np

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- limits

_LIMITED = plus_bf16(NUMBERS)


def _limited_by(*limits: str) -> DtypeRule:
    """The data type in which self is compared with scalar limits on Ascend 950."""

    def dtype(call: Call) -> DataType:
        scalars = [scalar_default(call.dtype(name)) for name in limits if call.is_present(name)]
        return combine(call.dtype("self"), scalars[0] if len(scalars) == 1 else promote(*scalars))

    return dtype


# Of two limits one may be missing.
_BOTH = ("clipValueMin", "clipValueMax")
_EITHER = (when("clipValueMin is None and clipValueMax is None", required("clipValueMin")),)
for _names, _limits in (
    ("aclnnClamp", _BOTH),
    ("aclnnClampMin", ("clipValueMin",)),
    ("aclnnClampMax aclnnInplaceClampMax", ("clipValueMax",)),
):
    _common = _limited_by(*_limits)
    rule(
        _names,
        *(_EITHER if _limits == _BOTH else ()),
        dtypes(_LIMITED, "self", "out"),
        like(out="self"),
        max_rank(8, "self"),
        # Elsewhere than on Ascend 950 the limits take the output's data type.
        unless_empty(
            "self",
            on_products("950", castable(_common, "out"), dtype_in(_common, _LIMITED, _limits[0])),
            when("product != '950'", castable("self", "out")),
        ),
        nullable=" ".join(_limits) if _limits == _BOTH else "",
        aliases=INPLACE,
    )
for _names, _limits in (
    ("aclnnClampTensor", _BOTH),
    ("aclnnClampMinTensor aclnnInplaceClampMinTensor", ("clipValueMin",)),
    ("aclnnClampMaxTensor aclnnInplaceClampMaxTensor", ("max_",)),
):
    # Limits that are tensors: all promote, and broadcast, together.
    _common = promoted("self", *_limits)
    rule(
        _names,
        *(_EITHER if _limits == _BOTH else ()),
        dtypes(_LIMITED, "self", "out"),
        max_rank(8, "self", "out", *_limits),
        unless_empty(
            " ".join(("self", *_limits)),
            castable(_common, "out"),
            dtype_in(_common, _LIMITED, _limits[-1]),
            output_shape(out=broadcast_shape("self", *_limits)),
        ),
        output_dtype(out=_common),
        nullable=" ".join(_limits) if _limits == _BOTH else "",
        aliases={**INPLACE, "max_": "max"},
    )


def _whole(call: Call) -> bool:
    return is_integral(call.dtype("clipValueMin"))


# Beside an integer only the whole part of the other limit counts.
_ORDERED_LIMITS = (
    define(most="int(clipValueMax) if isfinite(clipValueMax) else clipValueMax"),
    when(_whole, require("not most < clipValueMin")),
    when(lambda call: not _whole(call), require("not clipValueMax < clipValueMin")),
)
in_both_forms(
    "Hardtanh",
    dtypes(_LIMITED, "self", "clipValueMin", "clipValueMax"),
    same_dtype("self", "out"),
    max_rank(8, "self"),
    output_shape(out="self"),
    *_ORDERED_LIMITS,
)

# ------------------------------------------------------------------------------------------------- values

rule(
    "aclnnInplaceFillScalar",
    dtypes({PRODUCTS_WITH_BF16: f"{REAL_AND_COMPLEX} BF16 {UNSIGNED}", "": REAL_AND_COMPLEX}, "selfRef"),
    has_common(promoted("selfRef", "value"), "value"),
    max_rank(8, "selfRef"),
)
rule(
    "aclnnInplaceFillTensor",
    dtypes(plus_bf16(REAL_AND_COMPLEX), "selfRef"),
    max_rank(8, "selfRef"),
    require("value in ((), (1,))"),
)
_MASKED = plus_bf16("FLOAT INT32 INT64 FLOAT16 INT8 BOOL")
rule(
    "aclnnInplaceMaskedFillScalar aclnnInplaceMaskedFillTensor",
    dtypes(_MASKED, "selfRef"),
    on_operators(
        "aclnnInplaceMaskedFillTensor",
        dtypes("FLOAT INT32 INT64 FLOAT16 INT8 BOOL BF16", "value"),
        rank(0, "value"),
    ),
    dtypes("BOOL", "mask"),
    max_rank(8, "selfRef", "mask"),
    broadcastable("mask", "selfRef"),
)
rule(
    "aclnnInplaceCopy",
    dtypes(f"{REAL_AND_COMPLEX} {UNSIGNED} BF16 {FLOAT8S} FLOAT8_E8M0", "selfRef", "src"),
    max_rank(8, "selfRef", "src"),
    broadcastable("src", "selfRef"),
)


@refuses("range", "fillValue")
def _value_fits(call: Call) -> None:
    """A function, as it asks NumPy for the limits of the data type; CANN looks at none for BF16 and BOOL."""
    dtype, number = call.dtype("selfRef"), call["fillValue"].value
    if is_integral(dtype):
        limits = np.iinfo(dtype.numpy)
        inside = math.isfinite(number) and limits.min <= int(number) <= limits.max
    else:
        inside = not math.isfinite(number) or abs(number) <= float(np.finfo(dtype.numpy).max)
    call.require(inside, "fillValue", f"is {number}, which {dtype.name} cannot hold", check="range")


rule(
    "aclnnInplaceFillDiagonal",
    dtypes(plus_bf16(REAL), "selfRef"),
    rank(2, 8, "selfRef"),
    require("len(selfRef) == 2 or min(selfRef) == max(selfRef)", why="beyond two axes all sizes must be equal"),
    not_complex("fillValue"),
    when("selfRef.dtype not in (BF16, BOOL)", _value_fits),
)

# ------------------------------------------------------------------------------------------------- triangles

_TRIANGLE = f"{REAL} {UNSIGNED}"
_TRIANGLES = {"A2 A3": f"{_TRIANGLE} BF16", "950": f"{_TRIANGLE} BF16 COMPLEX64 COMPLEX32", "": _TRIANGLE}
_LIKE_SELF = (same_dtype("self", "out"), same_format("self", "out"), output_shape(out="self"))
in_both_forms("Tril", dtypes(_TRIANGLES, "self", "out"), *_LIKE_SELF, rank(2, 8, "self"))
in_both_forms(
    "Triu",
    dtypes(_TRIANGLES, "self"),
    *_LIKE_SELF,
    no_private_format("self"),
    # Empty tensors may have any rank.
    max_rank(8, "self"),
    unless_empty("self", rank(2, 8, "self")),
)

# ------------------------------------------------------------------------------------------------- diagonals

_DIAGONAL = plus_bf16(f"{REAL} COMPLEX64")


# A vector becomes the diagonal of a square matrix; a matrix gives its diagonal.
_SIDE = define(side="self.size + abs(diagonal)")
_DIAGONAL_SHAPE = (
    "(side, side) if len(self) < 2 else (max(0, min(self[0] + min(diagonal, 0), self[1] - max(diagonal, 0))),)"
)
# CANN does nothing for the diagonal just outside a matrix.
_BEYOND_LAST = "(len(self) == 2 and (diagonal > 0 and self[1] == diagonal or diagonal < 0 and self[0] == -diagonal))"
rule(
    "aclnnDiag",
    same_dtype("self", "out", among=_DIAGONAL),
    max_rank(2, "self"),
    when(
        f"self.size == 0 and diagonal != 0 and not {_BEYOND_LAST}",
        dtypes(f"{REAL} BF16", "out"),
    ),
    _SIDE,
    when(f"self.size > 0 and not {_BEYOND_LAST}", output_shape_relaxed(out=_DIAGONAL_SHAPE)),
    infer_shape(out=_DIAGONAL_SHAPE),
)
rule(
    "aclnnDiagFlat",
    dtypes(_DIAGONAL, "self", "out"),
    max_rank(8, "self", "out"),
    _SIDE,
    copied_output_shape(out="(side, side)"),
    output_dtype(out="self"),
    null_status=INNER_NULLPTR,
)
