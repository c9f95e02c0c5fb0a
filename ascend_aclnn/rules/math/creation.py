"""Rules of ops-math/math: tensors made from numbers, repeated, expanded, counted and packed."""

from __future__ import annotations

import math
from typing import Any, Callable

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    ShapeRule,
    can_cast,
    copied_output_shape,
    dtype_attribute,
    dtype_of,
    dtypes,
    formats,
    has_dtype,
    infer_shape,
    is_complex,
    is_floating,
    is_integral,
    max_rank,
    no_private_format,
    only_products,
    output_dtype,
    output_shape,
    plus_bf16,
    promote,
    rank,
    rule,
    same_dtype,
    same_format,
    same_shape,
    shape_from,
    unless_empty,
    when,
)

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


def _steps_fill_out(call: Call) -> None:
    call.require(call["steps"] >= 0, "steps", f"is {call['steps']}; it must not be negative")
    text = f"has {call['out'].size} elements; it must have {call['steps']} (steps)"
    call.require(call["out"].size == call["steps"], "out", text)


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
    _steps_fill_out,
    infer_shape(out=shape_from("steps")),
    output_dtype(out="FLOAT"),
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnLogSpace",
    dtypes("FLOAT FLOAT16 BF16", "result"),
    lambda call: call.require(call["steps"] >= 0, "steps", f"is {call['steps']}; it must not be negative"),
    copied_output_shape(result=shape_from("steps")),
    output_dtype(result="FLOAT"),
    null_status=INNER_NULLPTR,
)


def _sizes_not_negative(call: Call) -> None:
    for name in ("n", "m"):
        call.require(call[name] >= 0, name, f"is {call[name]}; it must not be negative")


_EYE = "FLOAT INT32 FLOAT16 INT8 INT16 UINT8 INT64 BOOL"
rule(
    "aclnnEye",
    dtypes({"310B 310P 910": _EYE, "": _EYE + " BF16"}, "out"),
    rank(2, 2, "out"),
    _sizes_not_negative,
    output_shape(out=shape_from("n", "m")),
    output_dtype(out="FLOAT"),
)

# ------------------------------------------------------------------------------------------------- repetition


def _class_count(call: Call) -> None:
    count, least = call["numClasses"], 1 if call["self"].size == 0 else 0
    call.require(count >= least, "numClasses", f"is {count}; it must be at least {least}")


def _class_axis(call: Call) -> None:
    ndim = len(call.shape("self"))
    call.require(-1 <= call["axis"] <= ndim, "axis", f"is {call['axis']}; it must be in [-1, {ndim}]")


def _one_hot_shape(call: Call) -> Shape:
    sizes, axis = call.shape("self"), call["axis"]
    position = len(sizes) if axis == -1 else axis
    return (*sizes[:position], call["numClasses"], *sizes[position:])


_ONE_HOT = {"950": "FLOAT16 FLOAT INT32 INT64 INT8 UINT8", "": "FLOAT16 FLOAT INT32 INT64"}


def _one_hot_rank(call: Call) -> None:
    most, ndim = 7 if call.product == "950" else 8, len(call.shape("self"))
    call.require(ndim <= most, "self", f"has rank {ndim}; it must be at most {most}")


def _some_values(call: Call) -> None:
    for name in ("onValue", "offValue"):
        call.require(not call.is_empty(name), name, f"has shape {call.shape(name)}; it must hold a number")


rule(
    "aclnnOneHot",
    dtypes({"950": "INT32 INT64 UINT8", "": "INT32 INT64"}, "self"),
    dtypes(_ONE_HOT, "out", "onValue", "offValue"),
    same_dtype("out", "onValue", "offValue"),
    _one_hot_rank,
    max_rank(8, "onValue", "offValue", "out"),
    _class_count,
    _class_axis,
    _some_values,
    output_shape(out=_one_hot_shape),
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


def _repeats(call: Call) -> None:
    sizes, repeats = call.shape("self"), call["repeats"]
    text = f"has {len(repeats)} items; it must have at least {len(sizes)}, the rank of self"
    call.require(len(sizes) <= len(repeats), "repeats", text)
    call.require(all(n >= 0 for n in repeats), "repeats", f"is {repeats}; no item may be negative")
    call.require(len(repeats) <= 8, "repeats", f"has {len(repeats)} items; at most 8 are supported")


def _repeated(call: Call) -> Shape:
    sizes, repeats = call.shape("self"), call["repeats"]
    return tuple(n * k for n, k in zip((1,) * (len(repeats) - len(sizes)) + sizes, repeats))


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
    _repeats,
    max_rank(8, "self"),
    when(lambda call: 0 not in call["repeats"], unless_empty("self out", output_shape(out=_repeated))),
    infer_shape(out=_repeated),
)


def _grid_shape(call: Call) -> Shape:
    size, theta = call["size"], call.shape("theta")
    call.require(len(size) in (4, 5), "size", f"has {len(size)} items; it must have 4 or 5")
    axes = len(size) - 2
    text = f"has shape {theta}; with a size of {len(size)} items it must be ({size[0]}, {axes}, {axes + 1})"
    call.require(theta == (size[0], axes, axes + 1), "theta", text)
    return (size[0], *size[2:], axes)


rule(
    "aclnnAffineGrid",
    dtypes(plus_bf16("FLOAT FLOAT16"), "theta"),
    same_dtype("theta", "out"),
    lambda call: call.require(call["theta"].size > 0, "theta", "is empty; it must not be"),
    output_shape(out=_grid_shape),
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


def _counts_cast(call: Call) -> None:
    text = f"has dtype {call.dtype('self').name}; out's {call.dtype('out').name} cannot be cast to it"
    call.require(can_cast(call.dtype("out"), call.dtype("self")), "self", text)


rule(
    "aclnnHistc",
    dtypes(_COUNTED, "self", "out"),
    _finite_range,
    _counts_cast,
    max_rank(8, "self"),
    output_shape(out=shape_from("bins")),
    output_dtype(out=dtype_of("self")),
)


def _bin_count(call: Call) -> None:
    """CANN counts into max(out's items, minlength) bins and copies them to out."""
    if call["self"].size == 0:
        return
    items = call.shape("out")[0] if call.shape("out") else 0
    call.require(max(items, call["minlength"]) < 2**31, "minlength", f"is {call['minlength']}; it must be below 2**31")
    text = f"has {items} items; it must have at least {call['minlength']} (minlength)"
    call.require(call["minlength"] <= items, "out", text, INNER_NULLPTR)


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
    _bin_count,
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
    output_shape(out=lambda call: ()),
    output_dtype(out="BOOL"),
)

# ------------------------------------------------------------------------------------------------- sign bits


def _no_negative_axis(call: Call) -> None:
    call.require(call["size"] > 0, "size", f"is {call['size']}; it must be positive")
    for name in ("out", "self"):
        sizes = call.shape(name)
        call.require(all(n >= 0 for n in sizes), name, f"has shape {sizes}; no axis may be negative")


def _rows(call: Call, count: int) -> Shape:
    """``count`` items in ``size`` rows."""
    size = call["size"]
    call.require(size > 0 and count % size == 0, "size", f"is {size}; it must divide the {count} items")
    return size, count // size


def _packed_shape(call: Call) -> Shape:
    return _rows(call, (math.prod(call.shape("self")) + 7) // 8)


def _unpacked_shape(call: Call) -> Shape:
    return _rows(call, math.prod(call.shape("self")) * 8)


def _row_count(shape_: ShapeRule) -> Check:
    """The items can be laid out in as many rows as the attribute asks for and the output has."""

    def check(call: Call) -> None:
        shape_(call)
        sizes, rows = call.shape("out"), call["size"]
        call.require(sizes[:1] == (rows,), "out", f"has shape {sizes}; its first axis must be {rows} (size)")

    return check


rule(
    "aclnnSignBitsPack",
    only_products("A2 A3 310P 950"),
    dtypes("FLOAT FLOAT16", "self"),
    dtypes("UINT8", "out"),
    formats("ND", "self", "out"),
    _no_negative_axis,
    rank(1, 1, "self"),
    rank(2, 2, "out"),
    _row_count(_packed_shape),
    unless_empty("self out", copied_output_shape(out=_packed_shape)),
)
rule(
    "aclnnSignBitsUnpack",
    only_products("A2 A3 310P 950"),
    dtypes("UINT8", "self"),
    dtypes("FLOAT FLOAT16", "out"),
    has_dtype("out", dtype_attribute("dtype")),
    formats("ND", "self", "out"),
    _no_negative_axis,
    rank(1, 1, "self"),
    rank(2, 2, "out"),
    _row_count(_unpacked_shape),
    unless_empty("self out", copied_output_shape(out=_unpacked_shape)),
    output_dtype(out=dtype_attribute("dtype")),
)
