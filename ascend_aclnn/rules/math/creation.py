"""Rules of ops-math/math: tensors made from numbers, repeated, expanded, counted and packed."""

from __future__ import annotations

import math
from typing import Any, Callable

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- sequences

_WHOLE = (DataType.INT32, DataType.INT64)


def _finite(call: Call) -> None:
    for name in ("start", "end", "step"):
        value = call[name].value
        finite = not isinstance(value, complex) and math.isfinite(value)
        call.require(finite, name, f"is {value}; it must be finite and real")


def _step_fits(call: Call) -> None:
    """The step leads from start to end. CANN compares in the output's type."""
    kind: Callable[[Any], float] = float
    if call.dtype("out") in _WHOLE:
        _finite(call)
        kind = int
    start, end, step = (kind(call[name].value) for name in ("start", "end", "step"))
    call.require(step > 0 or step < 0, "step", f"is {step}; it must not be 0")
    text = f"is {step}, which does not lead from {start} to {end}"
    call.require(not (step > 0 and start > end) and not (step < 0 and start < end), "step", text)


def _sequence_type(call: Call) -> DataType:
    """Integers give integers, as in torch; anything else gives FLOAT."""
    whole = all(is_integral(call.dtype(name), with_bool=True) for name in ("start", "end", "step"))
    return DataType.INT64 if whole else DataType.FLOAT


def _length(closed: bool) -> Check:
    def count(call: Call) -> int:
        start, end, step = (call[name].value for name in ("start", "end", "step"))
        if not step:
            call.refuse("step", "is 0")
        _finite(call)
        span = (end - start) / step
        return int(max(0, math.floor(span) + 1 if closed else math.ceil(span)))

    return infer_shape(out=shape_from(count))


_SCALARS = plus_bf16("FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE BOOL")
_SEQUENCE = (
    dtypes(_SCALARS, "start", "end", "step"),
    dtypes(plus_bf16("FLOAT16 FLOAT DOUBLE INT64 INT32"), "out"),
)
rule("aclnnArange", *_SEQUENCE, _step_fits, _length(closed=False), output_dtype(out=_sequence_type))
rule(
    "aclnnRange",
    *_SEQUENCE,
    rank(1, 99, "out"),
    _step_fits,
    _length(closed=True),
    output_dtype(out=_sequence_type),
    null_status=INNER_NULLPTR,
)


def _real_scalars(call: Call) -> None:
    for name in ("start", "end"):
        text = f"has dtype {call.dtype(name).name}; it must not be complex"
        call.require(not is_complex(call.dtype(name)), name, text)


rule(
    "aclnnLinspace",
    _real_scalars,
    dtypes(
        {
            "A2 A3 950": "FLOAT FLOAT16 BF16 INT32 INT16 INT8 UINT8 INT64 DOUBLE",
            "910 310P": "FLOAT FLOAT16 INT32 INT8 UINT8 DOUBLE",
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
    dtypes("FLOAT FLOAT16 BF16", "result"),
    not_negative("steps"),
    copied_output_shape(result="(steps,)"),
    output_dtype(result="FLOAT"),
    null_status=INNER_NULLPTR,
)


_EYE = "FLOAT INT32 FLOAT16 INT8 INT16 UINT8 INT64 BOOL"
rule(
    "aclnnEye",
    dtypes({"310B 310P 910": _EYE, "": _EYE + " BF16"}, "out"),
    rank(2, 2, "out"),
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
    same_dtype("out", "onValue", "offValue"),
    on_products("950", max_rank(7, "self")),
    max_rank(8, "self"),
    max_rank(8, "onValue", "offValue", "out"),
    require("numClasses >= (1 if self.size == 0 else 0)"),
    require("-1 <= axis <= len(self)"),
    not_empty("onValue", "offValue"),
    define(place="len(self) if axis == -1 else axis"),
    output_shape(out="(*self[:place], numClasses, *self[place:])"),
    output_dtype(out=dtype_of("onValue")),
)


def _expanded(call: Call) -> Shape:
    sizes, wanted = call.shape("self"), tuple(call["size"])
    text = f"is {wanted}; it must name at least the {len(sizes)} axes of self {sizes}"
    call.require(len(wanted) >= len(sizes), "size", text)
    for had, want in zip(sizes, wanted[len(wanted) - len(sizes) :]):
        # -1 (keep the axis) is refused too: CANN compares the output with the -1 itself.
        call.require(had == want or (had == 1 and want >= 0), "size", f"is {wanted}, to which {sizes} does not expand")
    return wanted


rule(
    "aclnnExpand",
    same_dtype("self", "out"),
    dtypes(plus_bf16("FLOAT16 FLOAT UINT8 INT8 INT32 INT64 BOOL"), "self"),
    output_shape(out=_expanded),
    max_rank(8, "self", "out"),
)


_REPEATED_SHAPE = "tuple(n * k for n, k in zip((*(1,) * (len(repeats) - len(self)), *self), repeats))"
_REPEATED = "FLOAT FLOAT16 DOUBLE COMPLEX64 COMPLEX128 UINT8 INT8 INT16 INT32 INT64 BOOL BF16 UINT32 UINT64"
rule(
    "aclnnRepeat",
    dtypes(
        {
            "A2 A3 310P": _REPEATED + " UINT16",
            "950": _REPEATED + " UINT16 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN",
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
    dtypes(FLOATS_OF_PRODUCT, "theta"),
    same_dtype("theta", "out"),
    not_empty("theta"),
    array_length("size", 4, 5),
    has_shape(theta="(size[0], len(size) - 2, len(size) - 1)"),
    output_shape(out="(size[0], *size[2:], len(size) - 2)"),
)

# ------------------------------------------------------------------------------------------------- counts

_COUNTED = "FLOAT FLOAT16 INT64 INT32 INT16 INT8 UINT8"


def _finite_range(call: Call) -> None:
    for name in ("min", "max"):
        call.require(not is_complex(call.dtype(name)), name, f"has dtype {call.dtype(name).name}; it must be real")
    low, high = float(call["min"].value), float(call["max"].value)
    finite = math.isfinite(low) and math.isfinite(high)
    text = f"is {high} and min is {low}; both must be finite, or the same infinity"
    call.require(finite or (math.isinf(low) and low == high), "max", text)
    call.require(call["bins"] > 0, "bins", f"is {call['bins']}; it must be positive")
    if is_integral(call.dtype("self")) and finite:
        low, high = int(low), int(high)
    call.require(low <= high, "max", f"is {high}; it must be at least min, {low}")


rule(
    "aclnnHistc",
    dtypes(_COUNTED, "self", "out"),
    _finite_range,
    castable("out", "self"),
    max_rank(8, "self"),
    output_shape(out="(bins,)"),
    output_dtype(out=dtype_of("self")),
)


rule(
    # The number of bins depends on the data: out must be given.
    "aclnnBincount",
    dtypes("INT8 INT16 INT32 INT64 UINT8", "self"),
    dtypes("FLOAT DOUBLE INT32 INT64", "out"),
    dtypes("FLOAT FLOAT16 DOUBLE INT8 INT16 INT32 INT64 UINT8 BOOL", "weights"),
    no_private_format("self", "out"),
    rank(1, 1, "self"),
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

_MEMBERS = plus_bf16("FLOAT FLOAT16 INT8 INT32 INT64 UINT8 DOUBLE INT16")


def _compared_type(call: Call) -> DataType:
    """The type of the comparison: the tensor's, unless it is long or the element floating."""
    element, tensor = call.dtype("element"), call.dtype("testElements")
    if call["testElements"].size >= 10:
        return promote(tensor, element)
    if is_floating(tensor):
        return tensor
    return promote(tensor, element) if is_floating(element) else tensor


def _element_casts(call: Call) -> None:
    compared = _compared_type(call)
    for name in ("element", "testElements"):
        text = f"has dtype {call.dtype(name).name}, which cannot be cast to {compared.name}"
        call.require(compared is not DataType.DT_UNDEFINED and can_cast(call.dtype(name), compared), name, text)


rule(
    "aclnnIsInScalarTensor",
    dtypes(_MEMBERS, "element", "testElements"),
    dtypes("BOOL", "out"),
    _element_casts,
    max_rank(8, "testElements"),
    output_shape(out="()"),
)

# ------------------------------------------------------------------------------------------------- sign bits


# size rows: they hold all items, and are the output's.
_PACKED, _UNPACKED = "(prod(self) + 7) // 8", "prod(self) * 8"


def _rows(count: str) -> tuple[Check, ...]:
    return (
        positive("size"),
        rank(1, 1, "self"),
        rank(2, 2, "out"),
        require(f"({count}) % size == 0", argument="size"),
        require("out[0] == size", argument="out"),
        unless_empty("self out", copied_output_shape(out=f"(size, {count} // size)")),
    )


rule(
    "aclnnSignBitsPack",
    only_products("A2 A3 310P 950"),
    dtypes("FLOAT FLOAT16", "self"),
    dtypes("UINT8", "out"),
    formats("ND", "self", "out"),
    *_rows(_PACKED),
)
rule(
    "aclnnSignBitsUnpack",
    only_products("A2 A3 310P 950"),
    dtypes("UINT8", "self"),
    dtypes("FLOAT FLOAT16", "out"),
    has_dtype("out", dtype_attribute("dtype")),
    formats("ND", "self", "out"),
    *_rows(_UNPACKED),
)
