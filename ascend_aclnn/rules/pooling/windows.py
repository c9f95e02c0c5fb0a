"""What all pooling rules share: windows, ranks and formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.rules.language import *

INT32_MAX = 2**31 - 1


class Window(NamedTuple):
    """How windows lie on one spatial axis."""

    kernel: int
    stride: int
    before: int  # padding
    after: int
    dilation: int = 1

    def places(self, size: int, ceil_mode: bool, *, truncate: bool = False) -> int:
        """Windows on an axis, -1 where there is no stride; a last one that starts in the padding behind does not count.

        Some operators divide as C does (``truncate``), which differs where the kernel is larger than the padded axis.
        """
        if self.stride <= 0:
            return -1
        room = size + self.before + self.after - self.dilation * (self.kernel - 1) - 1
        if ceil_mode:
            room += self.stride - 1
        steps = -(-room // self.stride) if truncate and room < 0 else room // self.stride
        total = steps + 1
        if ceil_mode and (total - 1) * self.stride >= size + self.before:
            total -= 1
        return total


def spread(call: Call, name: str, axes: int, default: Sequence[int] = ()) -> list[int]:
    """One number for every spatial axis: an empty (or absent) array is the default, a single number stands for all."""
    chosen = list(call[name] or ()) or list(default)
    if len(chosen) not in (1, axes):
        call.refuse(name, f"has {len(chosen)} items; it must have 1 or {axes}")
    return chosen * axes if len(chosen) == 1 else chosen


def items_at_least(name: str, values: Sequence[int], least: int = 1) -> Check:
    def check(call: Call) -> None:
        call.require(all(v >= least for v in values), name, f"is {tuple(values)}; items must be at least {least}")

    return check


def plane_rank(call: Call, spatial: int, *names: str) -> None:
    """Tensors are (C, spatial axes) or (N, C, spatial axes)."""
    for name in names:
        came = len(call.shape(name))
        text = f"has rank {came} (shape {call.shape(name)}); it must be {spatial + 1} or {spatial + 2}"
        call.require(came in (spatial + 1, spatial + 2), name, text)


def rank_like(call: Call, first: str, *others: str) -> None:
    wanted = len(call.shape(first))
    for name in others:
        came = len(call.shape(name))
        call.require(came == wanted, name, f"has rank {came}; it must be {wanted}, as {call.python_name(first)}")


def format_by_rank(*names: str) -> Check:
    """NCL for 3-d tensors, NCHW for 4-d ones, nothing else."""

    def check(call: Call) -> None:
        for name in names:
            tensor = call[name]
            wanted = {3: Format.NCL, 4: Format.NCHW}.get(tensor.ndim)
            allowed = wanted.name if wanted else "NCL or NCHW"
            text = f"has format {tensor.format.name}; with rank {tensor.ndim} it must be {allowed}"
            call.require(tensor.format is wanted, name, text)

    return check


def plane_fits_int32(spatial: int) -> Check:
    """Positions in a plane are INT32 except on Ascend 950."""

    def check(call: Call) -> None:
        total = 1
        for n in call.shape("self")[-spatial:]:
            total *= n
        text = f"has {total} positions in a plane; on {call.soc.name} it must have at most {INT32_MAX}"
        call.require(call.product == "950" or total <= INT32_MAX, "self", text)

    return check
