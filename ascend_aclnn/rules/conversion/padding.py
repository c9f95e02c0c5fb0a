"""Rules of ops-math/conversion: padding by reflection, replication, wrapping and constants, and its gradients."""

from __future__ import annotations

from typing import Callable

from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

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


# The padding from the first axis that is padded on, as (before, after).
_PAIRS = "zip(padding[-2::-2], padding[::-2])"


def _below_size(count: int) -> Check:
    """A reflection needs more elements than it mirrors."""
    fits = f"all(a < n and b < n for n, (a, b) in zip(self[-{count}:], {_PAIRS}))"
    return require(fits, argument="padding")


def _batch_may_be_empty(count: int, *names: str) -> Check:
    """Of empty tensors only those pass whose one empty axis is the batch."""
    some_empty = " or ".join(f"{name}.size == 0" for name in names)
    return when(some_empty, rank(count + 2, count + 2, "self"), require("0 not in self[1:]"))


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


# The kernel pads BF16 planes by at most 7, or along their rows only.
_BF16_PADDING = when(
    "gradOutput.dtype == BF16",
    not_negative("padding"),
    require("max(padding) <= 7 or padding[2:] == (0, 0)"),
)


def _only_empty_batch(count: int, *, plain_channels: bool) -> Check:
    """As above; without a batch axis some gradients let the channel axis be empty."""
    batched = () if plain_channels else (rank(count + 2, count + 2, "self"),)
    return when("0 in (gradOutput.size, self.size, gradInput.size)", *batched, require("0 not in self[1:]"))


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
        *((_BF16_PADDING,) if name == "2d" and kind != "Circular" else ()),
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
_gradient("Circular", "2d", plain_channels=True, allowed=FLOATS, mirror=False, null_status=PARAM_NULLPTR)
_gradient("Circular", "3d", plain_channels=False, allowed=FLOATS, mirror=True, null_status=INNER_NULLPTR)

# ------------------------------------------------------------------------------------------------- constants

_SMALL_FLOATS = f"{FLOAT8S} {FLOAT4S} FLOAT8_E8M0"
_FILLED = "FLOAT INT32 FLOAT16 INT8 DOUBLE INT16 INT64 UINT64 UINT32 UINT16 UINT8 BOOL COMPLEX64 COMPLEX128"


def _nothing_around_nothing(call: Call) -> None:
    sizes, padding = padded("self", "pad")(call), call["pad"]
    emptied = 0 in sizes[len(sizes) - len(padding) // 2 :]
    text = f"is {padding}, which leaves an axis without elements ({sizes}) and pads another"
    call.require(not (emptied and any(n > 0 for n in padding)), "pad", text)


rule(
    "aclnnConstantPadNd",
    same_dtype("self", "out"),
    dtypes({"A2 A3": _FILLED + " BF16", "950": f"{_FILLED} BF16 {_SMALL_FLOATS}", "": _FILLED}, "self"),
    require("self.format in (ND, out.format)", argument="out"),
    max_rank(8, "self", "out"),
    # Padding cuts where it is negative. Nothing may be padded around an axis that it leaves empty.
    require("len(pad) % 2 == 0", "len(pad) <= 2 * len(self)"),
    require("all(n + min(a, b, a + b) >= 0 for n, a, b in zip(self[::-1], pad[::2], pad[1::2]))", argument="pad"),
    output_shape(out=padded("self", "pad")),
    _nothing_around_nothing,
    require("all(n >= 0 for n in pad) or not self.dtype in (*FLOAT8S, *FLOAT4S, FLOAT8_E8M0)", argument="pad"),
)
