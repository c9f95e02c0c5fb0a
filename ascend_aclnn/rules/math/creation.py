"""Rules of ops-math/math: tensors made from numbers, repeated, expanded, counted and packed."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- sequences

_ENDS = ("start", "end", "step")


def _length(closed: bool) -> Check:
    """How many steps lead from start to end; a function, as it looks at data types of scalars and rounds their quotient."""

    @refuses("value", *_ENDS)
    def count(call: Call) -> int:
        start, end, step = (call[name].value for name in _ENDS)
        for name, value in zip(_ENDS, (start, end, step)):
            if isinstance(value, complex) or not math.isfinite(value) or (name == "step" and value == 0):
                call.refuse(name, f"is {value}; it must be finite and real, and step not 0", check="value")
        span = (end - start) / step
        return int(max(0, math.floor(span) + 1 if closed else math.ceil(span)))

    return infer_shape(out=shape_from(count))


def _sequence_type(call: Call) -> DataType:
    """Integers give integers, as in torch; anything else gives FLOAT."""
    whole = all(is_integral(call.dtype(name), with_bool=True) for name in _ENDS)
    return DataType.INT64 if whole else DataType.FLOAT


_SEQUENCE = (dtypes(plus_bf16(REAL), *_ENDS), dtypes(plus_bf16(f"{FLOATS_AND_DOUBLE} {INDICES}"), "out"))
# The step leads from start to end; CANN compares in the output's type.
_STEP_FITS = (
    define(whole="out.dtype in INDICES"),
    when("whole", require(*(f"isfinite({name})" for name in _ENDS))),
    define(first="int(start) if whole else start", last="int(end) if whole else end"),
    define(stride="int(step) if whole else step"),
    require("stride > 0 or stride < 0"),
    require("not (stride > 0 and first > last)", "not (stride < 0 and first < last)", argument="step"),
)
rule("aclnnArange", *_SEQUENCE, *_STEP_FITS, _length(closed=False), output_dtype(out=_sequence_type))
rule(
    "aclnnRange",
    *_SEQUENCE,
    rank(1, 99, "out"),
    *_STEP_FITS,
    _length(closed=True),
    output_dtype(out=_sequence_type),
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnLinspace",
    not_complex("start", "end"),
    dtypes(
        {
            PRODUCTS_WITH_BF16: f"{NUMBERS} BF16",
            "910 310P": f"{FLOATS_AND_DOUBLE} INT32 INT8 UINT8",
            "": "",
        },
        "out",
    ),
    not_negative("steps"),
    require("out.size == steps"),
    infer_shape(out="(steps,)"),
    output_dtype(out="FLOAT"),
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnLogSpace",
    dtypes(FLOATS, "result"),
    not_negative("steps"),
    copied_output_shape(result="(steps,)"),
    output_dtype(result="FLOAT"),
    null_status=INNER_NULLPTR,
)
_EYE = "FLOAT INT32 FLOAT16 INT8 INT16 UINT8 INT64 BOOL"
rule(
    "aclnnEye",
    dtypes({"310B 310P 910": _EYE, "": _EYE + " BF16"}, "out"),
    rank(2, "out"),
    not_negative("n", "m"),
    output_shape(out="(n, m)"),
    output_dtype(out="FLOAT"),
)

# ------------------------------------------------------------------------------------------------- repetition

_ONE_HOT = {"950": "FLOAT16 FLOAT INT32 INT64 INT8 UINT8", "": "FLOAT16 FLOAT INT32 INT64"}
rule(
    "aclnnOneHot",
    dtypes({"950": "INT32 INT64 UINT8", "": "INT32 INT64"}, "self"),
    dtypes(_ONE_HOT, "out", "onValue", "offValue"),
    same_dtype("onValue", "out", "offValue"),
    on_products("950", max_rank(7, "self")),
    max_rank(8, "self"),
    max_rank(8, "onValue", "offValue", "out"),
    require("numClasses >= (1 if self.size == 0 else 0)"),
    require("-1 <= axis <= len(self)"),
    not_empty("onValue", "offValue"),
    define(place="len(self) if axis == -1 else axis"),
    output_shape(out="(*self[:place], numClasses, *self[place:])"),
)
rule(
    "aclnnExpand",
    same_dtype("self", "out", among=plus_bf16("FLOAT16 FLOAT UINT8 INT8 INT32 INT64 BOOL")),
    require("len(size) >= len(self)"),
    # -1 (keep the axis) is refused too: CANN compares the output with the -1 itself.
    require("all(n == m or n == 1 and m >= 0 for n, m in zip(self[::-1], size[::-1]))", argument="size"),
    output_shape(out="size"),
    max_rank(8, "self", "out"),
)
_REPEATED_SHAPE = "tuple(n * k for n, k in zip((*(1,) * (len(repeats) - len(self)), *self), repeats))"
_REPEATED = f"{REAL_AND_COMPLEX} BF16 UINT32 UINT64"
rule(
    "aclnnRepeat",
    dtypes(
        {
            "A2 A3 310P": f"{_REPEATED} UINT16",
            "950": f"{_REPEATED} UINT16 {FLOAT8S}",
            "": _REPEATED,
        },
        "self",
    ),
    same_dtype("self", "out"),
    require("len(repeats) >= len(self)"),
    not_negative("repeats"),
    require("len(repeats) <= 8"),
    max_rank(8, "self"),
    when("0 not in repeats", unless_empty("self out", output_shape(out=_REPEATED_SHAPE))),
    infer_shape(out=_REPEATED_SHAPE),
)
rule(
    "aclnnAffineGrid",
    same_dtype("theta", "out", among=FLOATS_OF_PRODUCT),
    not_empty("theta"),
    array_length("size", 4, 5),
    has_shape(theta="(size[0], len(size) - 2, len(size) - 1)"),
    output_shape(out="(size[0], *size[2:], len(size) - 2)"),
)

# ------------------------------------------------------------------------------------------------- counts

_COUNTED = "FLOAT FLOAT16 INT64 INT32 INT16 INT8 UINT8"
rule(
    "aclnnHistc",
    dtypes(_COUNTED, "self", "out"),
    not_complex("min", "max"),
    # Both ends are finite, or the same infinity; of integers only the whole part counts.
    require("isfinite(low) and isfinite(high) or low == high", argument="high"),
    positive("bins"),
    define(whole="self.dtype in INTEGERS and isfinite(low)"),
    require("(int(low) if whole else low) <= (int(high) if whole else high)", argument="high"),
    castable("out", "self"),
    max_rank(8, "self"),
    output_shape(out="(bins,)"),
    aliases={"low": "min", "high": "max"},
)
rule(
    # The number of bins depends on the data: out must be given.
    "aclnnBincount",
    dtypes("INT8 INT16 INT32 INT64 UINT8", "self"),
    dtypes("FLOAT DOUBLE INT32 INT64", "out"),
    dtypes("FLOAT FLOAT16 DOUBLE INT8 INT16 INT32 INT64 UINT8 BOOL", "weights"),
    no_private_format("self", "out"),
    rank(1, "self"),
    same_format("self", "weights"),
    same_shape("self", "weights"),
    # CANN counts into max(out's items, minlength) bins and copies them to out.
    unless_empty(
        "self",
        define(items="out[0] if len(out) > 0 else 0"),
        require("max(items, minlength) < 2**31", argument="minlength"),
        with_status(INNER_NULLPTR, require("items >= minlength", argument="out")),
    ),
)

_MEMBERS = plus_bf16(NUMBERS)


rule(
    "aclnnIsInScalarTensor",
    dtypes(_MEMBERS, "element", "testElements"),
    dtypes("BOOL", "out"),
    max_rank(8, "testElements"),
    output_shape(out="()"),
)

# ------------------------------------------------------------------------------------------------- sign bits

# size rows: they hold all items, and are the output's.
_PACKED, _UNPACKED = "(prod(self) + 7) // 8", "prod(self) * 8"


def _rows(count: str) -> tuple[Check, ...]:
    return (
        positive("size"),
        rank(1, "self"),
        rank(2, "out"),
        require(f"({count}) % size == 0", argument="size"),
        require("out[0] == size", argument="out"),
        unless_empty("self out", copied_output_shape(out=f"(size, {count} // size)")),
    )


rule(
    "aclnnSignBitsPack",
    only_products(f"{PRODUCTS_WITH_BF16} 310P"),
    dtypes(FLOATS_WITHOUT_BF16, "self"),
    dtypes("UINT8", "out"),
    formats("ND", "self", "out"),
    *_rows(_PACKED),
)
rule(
    "aclnnSignBitsUnpack",
    only_products(f"{PRODUCTS_WITH_BF16} 310P"),
    dtypes("UINT8", "self"),
    dtypes(FLOATS_WITHOUT_BF16, "out"),
    has_dtype("out", dtype_attribute("dtype")),
    formats("ND", "self", "out"),
    *_rows(_UNPACKED),
)
