"""Rules of ops-math/conversion: padding by reflection, replication, wrapping and constants, and its gradients."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

# Padding names pairs (before, after) from the last axis on; the axes that are padded stand behind a channel axis and,
# one rank higher, a batch axis.
_PADDED = {"1d": 1, "2d": 2, "3d": 3}


def _padded(tensor: str, count: str, padding: str = "padding", sign: str = "+") -> str:
    """An expression for a tensor's shape with the padding of its last axes added, or taken away again."""
    unpadded = f"len({tensor}) - {count}"
    added = f"zip({tensor}[{unpadded} :], {padding}[-2::-2], {padding}[::-2])"
    return f"(*{tensor}[: {unpadded}], *(n {sign} a {sign} b for n, a, b in {added}))"


def _fits_padding(count: int, *names: str) -> tuple[Check, ...]:
    """Tensors have self's rank, and the right sizes of the padded axes."""
    ranks = (f"len({name}) == len(self)" for name in names)
    return require(*ranks), require(*(f"{name}[-{count}:] == padded[-{count}:]" for name in names))


def _below_size(count: int) -> Check:
    """A reflection needs more elements than it mirrors."""
    fits = f"all(a < n and b < n for n, a, b in zip(self[-{count}:], padding[-2::-2], padding[::-2]))"
    return require(fits, argument="padding")


def _planes(count: int) -> tuple[Check, ...]:
    return rank(count + 1, count + 2, "self"), array_length("padding", 2 * count)


def _batch_may_be_empty(count: int, *names: str, channels: bool = False) -> Check:
    """Of empty tensors only those pass whose one empty axis is the batch (or, without a batch, the one of channels)."""
    batched = () if channels else (rank(count + 2, count + 2, "self"),)
    return when(" or ".join(f"{name}.empty" for name in names), *batched, require("0 not in self[1:]"))


_ALL_950 = f"{REAL_AND_COMPLEX} BF16 {UNSIGNED} {FLOAT8S} FLOAT8_E8M0"
_MIRRORED = {"A2 A3": f"{REAL_AND_COMPLEX} BF16", "950": _ALL_950, "": REAL}
_REPLICATED = {"950": _ALL_950, "": f"{NUMBERS} {COMPLEX} BF16"}
_LIKE_SELF = (same_dtype("self", "out"), same_format("self", "out"))

for _name, _count in _PADDED.items():
    _sizes = define(padded=_padded("self", str(_count)))
    rule(
        f"aclnnReflectionPad{_name}",
        dtypes(_MIRRORED, "self", "out"),
        *_LIKE_SELF,
        *_planes(_count),
        _below_size(_count),
        _sizes,
        *_fits_padding(_count, "out"),
        _batch_may_be_empty(_count, "self", "out"),
        unless_empty("self out", output_shape_relaxed(out="padded")),
    )
    rule(
        f"aclnnReplicationPad{_name}",
        dtypes(_REPLICATED, "self", "out"),
        *_LIKE_SELF,
        *_planes(_count),
        _sizes,
        output_shape(out="padded"),
        _batch_may_be_empty(_count, "self", "out"),
    )
    if _count > 1:
        rule(
            f"aclnnCircularPad{_name}",
            dtypes(f"{FLOATS} INT32 INT8", "self", "out"),
            no_private_format("self"),
            *_LIKE_SELF,
            *_planes(_count),
            _sizes,
            output_shape(out="padded"),
            _batch_may_be_empty(_count, "self", "out"),
        )

# ------------------------------------------------------------------------------------------------- gradients

# The kernel pads BF16 planes by at most 7, or along their rows only.
_BF16_PADDING = when(
    "gradOutput.dtype == BF16",
    not_negative("padding"),
    require("max(padding) <= 7 or padding[2:] == (0, 0)"),
)
# Some let the channel axis be empty where there is no batch axis.
_EMPTY_CHANNELS = ("ReflectionPad1d", "ReflectionPad2d", "CircularPad2d")
_MIRROR = ("ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "CircularPad3d")
_TENSORS = ("gradOutput", "self", "gradInput")
for _kind, _name in [
    (k, n) for k in ("Reflection", "Replication", "Circular") for n in _PADDED if (k, n) != ("Circular", "1d")
]:
    _operator, _count, _circular = f"{_kind}Pad{_name}", _PADDED[_name], _kind == "Circular"
    rule(
        f"aclnn{_operator}Backward",
        dtypes(FLOATS if _circular else f"{FLOATS_AND_DOUBLE} {COMPLEX} BF16", *_TENSORS),
        same_dtype("self", "gradOutput", "gradInput"),
        no_private_format(*(_TENSORS[:1] if _circular else _TENSORS)),
        same_format(*_TENSORS),
        same_shape("self", "gradInput"),
        *_planes(_count),
        *((_below_size(_count),) if _operator in _MIRROR else ()),
        *((_BF16_PADDING,) if _name == "2d" and not _circular else ()),
        define(padded=_padded("self", str(_count))),
        *_fits_padding(_count, "gradOutput"),
        _batch_may_be_empty(_count, *_TENSORS, channels=_operator in _EMPTY_CHANNELS),
        unless_empty(" ".join(_TENSORS), copied_output_shape(gradInput=_padded("gradOutput", str(_count), sign="-"))),
        output_shape(gradInput="self"),
        null_status=INNER_NULLPTR if _operator == "CircularPad3d" else PARAM_NULLPTR,
    )

# ------------------------------------------------------------------------------------------------- constants

_SMALL_FLOATS = f"{FLOAT8S} {FLOAT4S} FLOAT8_E8M0"
_FILLED = f"{REAL_AND_COMPLEX} {UNSIGNED}"
rule(
    "aclnnConstantPadNd",
    same_dtype("self", "out"),
    dtypes({"A2 A3": f"{_FILLED} BF16", "950": f"{_FILLED} BF16 {_SMALL_FLOATS}", "": _FILLED}, "self"),
    require("self.format in (ND, out.format)", argument="out"),
    max_rank(8, "self", "out"),
    # Padding cuts where it is negative. Nothing may be padded around an axis that it leaves empty.
    require("len(pad) % 2 == 0", "len(pad) <= 2 * len(self)"),
    require("all(n + min(a, b, a + b) >= 0 for n, a, b in zip(self[::-1], pad[::2], pad[1::2]))", argument="pad"),
    define(padded=_padded("self", "len(pad) // 2", "pad")),
    output_shape(out="padded"),
    when("0 in padded[len(self) - len(pad) // 2 :]", require("all(n <= 0 for n in pad)")),
    when("self.dtype in (*FLOAT8S, *FLOAT4S, FLOAT8_E8M0)", not_negative("pad")),
)
