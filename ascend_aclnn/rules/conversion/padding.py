"""Rules of ops-math/conversion: padding by reflection, replication, wrapping and constants, and its gradients."""

from __future__ import annotations

from typing import Callable

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Check,
    DtypeSet,
    Shape,
    array_length,
    copied_output_shape,
    dtypes,
    max_rank,
    no_private_format,
    output_shape,
    output_shape_relaxed,
    rank,
    rule,
    same_dtype,
    same_format,
    same_shape,
    shape_of,
    unless_empty,
)

# Padding names pairs (before, after) from the last axis on; the axes that are padded stand behind a channel axis and,
# one rank higher, a batch axis.
_PADDED = {"1d": 1, "2d": 2, "3d": 3}


def pairs(padding: tuple[int, ...], ndim: int) -> list[tuple[int, int]]:
    """(before, after) for every axis of a tensor, first axis first."""
    given = list(zip(padding[::2], padding[1::2]))[::-1]
    return [(0, 0)] * (ndim - len(given)) + given


def padded(name: str, padding: str, sign: int = 1) -> Callable[[Call], Shape]:
    """A tensor's shape with the padding added, or taken away again."""

    def shape_(call: Call) -> Shape:
        sizes = call.shape(name)
        added = pairs(call[padding], len(sizes))
        return tuple(n + sign * (before + after) for n, (before, after) in zip(sizes, added))

    return shape_


def _agree_on_last_axes(name: str, wanted: Callable[[Call], Shape], count: int, other: str) -> Check:
    """A tensor has another's rank, and the padded axes have the right sizes."""

    def check(call: Call) -> None:
        sizes, right = call.shape(name), wanted(call)
        text = f"has shape {sizes}; it must have rank {len(right)}, as {call.python_name(other)}"
        call.require(len(sizes) == len(right), name, text)
        text = f"has shape {sizes}; its last axes must be {right[-count:]}"
        call.require(sizes[-count:] == right[-count:], name, text)

    return check


def _below_size(count: int) -> Check:
    """A reflection needs more elements than it mirrors."""

    def check(call: Call) -> None:
        sizes = call.shape("self")
        for (before, after), n in zip(pairs(call["padding"], count), sizes[-count:]):
            text = f"is {call['padding']}; along an axis of {n} elements it must be below {n}"
            call.require(before < n and after < n, "padding", text)

    return check


def _batch_may_be_empty(count: int, *names: str) -> Check:
    """Of empty tensors only those pass whose one empty axis is the batch."""

    def check(call: Call) -> None:
        if all(call[name].size for name in names):
            return
        sizes = call.shape("self")
        text = f"has shape {sizes}; only a batch axis may be empty"
        call.require(len(sizes) == count + 2 and all(n != 0 for n in sizes[1:]), "self", text)

    return check


_MIRRORED = {
    "A2 A3": "FLOAT INT32 INT64 FLOAT16 INT16 DOUBLE INT8 UINT8 BOOL BF16 COMPLEX64 COMPLEX128",
    "950": "FLOAT INT32 FLOAT16 INT8 DOUBLE INT16 INT64 UINT64 UINT32 UINT16 UINT8 BOOL COMPLEX64 COMPLEX128 BF16 "
    "HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0",
    "": "FLOAT INT32 INT64 FLOAT16 INT16 DOUBLE INT8 UINT8 BOOL",
}
_REPLICATED = {
    "950": _MIRRORED["950"],
    "": "FLOAT INT32 INT64 FLOAT16 INT16 DOUBLE INT8 UINT8 COMPLEX64 COMPLEX128 BF16",
}
_GRADIENTS = "FLOAT FLOAT16 BF16 DOUBLE COMPLEX64 COMPLEX128"


def _one_type(allowed: DtypeSet, first: str, *others: str) -> tuple[Check, ...]:
    return dtypes(allowed, first, *others), same_dtype(first, *others)


for _name, _count in _PADDED.items():
    _out = padded("self", "padding")
    rule(
        f"aclnnReflectionPad{_name}",
        *_one_type(_MIRRORED, "self", "out"),
        same_format("self", "out"),
        rank(_count + 1, _count + 2, "self"),
        array_length("padding", 2 * _count),
        _below_size(_count),
        _agree_on_last_axes("out", _out, _count, "self"),
        _batch_may_be_empty(_count, "self", "out"),
        unless_empty("self out", output_shape_relaxed(out=_out)),
    )
    rule(
        f"aclnnReplicationPad{_name}",
        *_one_type(_REPLICATED, "self", "out"),
        same_format("self", "out"),
        rank(_count + 1, _count + 2, "self"),
        array_length("padding", 2 * _count),
        output_shape(out=_out),
        _batch_may_be_empty(_count, "self", "out"),
    )
for _name in ("2d", "3d"):
    _count = _PADDED[_name]
    rule(
        f"aclnnCircularPad{_name}",
        *_one_type("FLOAT BF16 FLOAT16 INT32 INT8", "self", "out"),
        no_private_format("self"),
        same_format("self", "out"),
        rank(_count + 1, _count + 2, "self"),
        array_length("padding", 2 * _count),
        output_shape(out=padded("self", "padding")),
        _batch_may_be_empty(_count, "self", "out"),
    )

# ------------------------------------------------------------------------------------------------- gradients


def _bf16_padding(call: Call) -> None:
    """The kernel pads BF16 planes by at most 7, or along their rows only."""
    left, right, top, bottom = call["padding"]
    if call.dtype("gradOutput") is DataType.BF16:
        small = max(left, right, top, bottom) <= 7 or top == bottom == 0
        text = f"is {call['padding']}; for BF16 no item may be negative, nor above 7 unless rows alone are padded"
        call.require(small and min(left, right, top, bottom) >= 0, "padding", text)


def _only_empty_batch(count: int, *, plain_channels: bool) -> Check:
    """As above; without a batch axis some gradients let the channel axis be empty."""

    def check(call: Call) -> None:
        if all(call[name].size for name in ("gradOutput", "self", "gradInput")):
            return
        sizes = call.shape("self")
        inner = sizes[1:] if len(sizes) == count + 2 or plain_channels else (0,)
        call.require(all(n != 0 for n in inner), "self", f"has shape {sizes}; only its first axis may be empty")

    return check


_SAME_FORMAT = (no_private_format("gradOutput", "self", "gradInput"), same_format("gradOutput", "self", "gradInput"))


def _gradient(kind: str, name: str, *, plain_channels: bool, allowed: str, mirror: bool, null_status: int) -> None:
    count = _PADDED[name]
    rule(
        f"aclnn{kind}Pad{name}Backward",
        *_one_type(allowed, "self", "gradOutput", "gradInput"),
        *(_SAME_FORMAT if kind != "Circular" else (no_private_format("gradOutput"), _SAME_FORMAT[1])),
        same_shape("self", "gradInput"),
        rank(count + 1, count + 2, "self"),
        array_length("padding", 2 * count),
        *((_below_size(count),) if mirror else ()),
        *((_bf16_padding,) if name == "2d" and kind != "Circular" else ()),
        _agree_on_last_axes("gradOutput", padded("self", "padding"), count, "self"),
        _only_empty_batch(count, plain_channels=plain_channels),
        unless_empty("gradOutput self gradInput", copied_output_shape(gradInput=padded("gradOutput", "padding", -1))),
        output_shape(gradInput=shape_of("self")),
        null_status=null_status,
    )


_gradient("Reflection", "1d", plain_channels=True, allowed=_GRADIENTS, mirror=True, null_status=PARAM_NULLPTR)
_gradient("Reflection", "2d", plain_channels=True, allowed=_GRADIENTS, mirror=True, null_status=PARAM_NULLPTR)
_gradient("Reflection", "3d", plain_channels=False, allowed=_GRADIENTS, mirror=True, null_status=PARAM_NULLPTR)
_gradient("Replication", "1d", plain_channels=False, allowed=_GRADIENTS, mirror=False, null_status=PARAM_NULLPTR)
_gradient("Replication", "2d", plain_channels=False, allowed=_GRADIENTS, mirror=False, null_status=PARAM_NULLPTR)
_gradient("Replication", "3d", plain_channels=False, allowed=_GRADIENTS, mirror=False, null_status=PARAM_NULLPTR)
_WRAPPED = "FLOAT FLOAT16 BF16"
_gradient("Circular", "2d", plain_channels=True, allowed=_WRAPPED, mirror=False, null_status=PARAM_NULLPTR)
_gradient("Circular", "3d", plain_channels=False, allowed=_WRAPPED, mirror=True, null_status=INNER_NULLPTR)

# ------------------------------------------------------------------------------------------------- constants

_SMALL_FLOATS = "HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0 FLOAT4_E2M1 FLOAT4_E1M2"
_FILLED = "FLOAT INT32 FLOAT16 INT8 DOUBLE INT16 INT64 UINT64 UINT32 UINT16 UINT8 BOOL COMPLEX64 COMPLEX128"


def _plain_or_same_format(call: Call) -> None:
    came, wanted = call["out"].format, call["self"].format
    text = f"has format {came.name}; it must be {wanted.name}, as self"
    call.require(came is wanted or wanted is Format.ND, "out", text)


def _constant_padding(call: Call) -> None:
    """Padding cuts where it is negative. Nothing may be padded around an axis that it leaves empty."""
    sizes, padding = call.shape("self"), call["pad"]
    text = f"has {len(padding)} items; it must have pairs, for at most {len(sizes)} axes"
    call.require(len(padding) % 2 == 0 and len(padding) <= 2 * len(sizes), "pad", text)
    for n, (before, after) in zip(sizes, pairs(padding, len(sizes))):
        least = min(before, after, before + after)
        call.require(n + least >= 0, "pad", f"is {padding}; it cuts more than the {n} elements of an axis")


def _nothing_around_nothing(call: Call) -> None:
    sizes, padding = padded("self", "pad")(call), call["pad"]
    emptied = 0 in sizes[len(sizes) - len(padding) // 2 :]
    text = f"is {padding}, which leaves an axis without elements ({sizes}) and pads another"
    call.require(not (emptied and any(n > 0 for n in padding)), "pad", text)
    small = call.dtype("self").name in _SMALL_FLOATS.split()
    call.require(not (small and any(n < 0 for n in padding)), "pad", f"is {padding}; it must not cut 8-bit floats")


rule(
    "aclnnConstantPadNd",
    same_dtype("self", "out"),
    dtypes({"A2 A3": _FILLED + " BF16", "950": f"{_FILLED} BF16 {_SMALL_FLOATS}", "": _FILLED}, "self"),
    _plain_or_same_format,
    max_rank(8, "self", "out"),
    _constant_padding,
    output_shape(out=padded("self", "pad")),
    _nothing_around_nothing,
)
