"""Words about ranks and formats."""

from __future__ import annotations

from typing import Union

from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.rules.language.call import NZ, Call, Check, dims_text, is_transposed, refuses

__all__ = [
    "contiguous",
    "formats",
    "formats_by_rank",
    "max_rank",
    "no_private_format",
    "not_nz",
    "not_transposed",
    "rank",
    "same_format",
]


def max_rank(most: int, *names: str) -> Check:
    return rank(0, most, *names)


def rank(least: int, most: Union[int, str], *names: str) -> Check:
    """Tensors have between ``least`` and ``most`` dimensions, or just so many: ``rank(2, "x", "y")``; absent ones pass."""
    if isinstance(most, str):
        return rank(least, least, most, *names)
    wanted = str(least) if least == most else f"at most {most}" if least == 0 else f"between {least} and {most}"

    @refuses("rank", *names, limits=(least, most))
    def check(call: Call) -> None:
        for name in names:
            for tensor in call.tensors(name):
                if not least <= tensor.ndim <= most:
                    text = f"has rank {tensor.ndim} (shape {dims_text(tensor.shape)}); it must be {wanted}"
                    kind = "rank" if least == most else "most axes" if tensor.ndim > most else "least axes"
                    limit = most if tensor.ndim > most else least
                    call.refuse(name, text, cause=(kind, {"count": limit, "came": tensor.shape}), check="rank")

    return check


def no_private_format(*names: str) -> Check:
    """Tensors have no blocked storage format (NC1HWC0, FRACTAL_NZ, ...)."""

    @refuses("format/private", *names)
    def check(call: Call) -> None:
        for name in names:
            for tensor in call.tensors(name):
                if tensor.format.private:
                    call.refuse(
                        name,
                        f"has the private format {tensor.format.name}; it must be ND or a plain layout",
                        check="format/private",
                    )

    return check


def formats(allowed: str, *names: str) -> Check:
    """Tensors have one of the formats (names in one string)."""
    members = frozenset(Format[name] for name in allowed.split())

    @refuses("format", *names)
    def check(call: Call) -> None:
        for name in names:
            for tensor in call.tensors(name):
                if tensor.format not in members:
                    wanted = ", ".join(m.name for m in sorted(members))
                    call.refuse(name, f"has format {tensor.format.name}; it must be {wanted}", check="format")

    return check


def formats_by_rank(allowed: dict[int, str], *names: str) -> Check:
    """Tensors have one of the formats for their rank (names in one string), and no other rank; absent ones pass."""
    members = {rank: frozenset(Format[name] for name in formats.split()) for rank, formats in allowed.items()}

    @refuses("format/rank", *names, limits=members)
    def check(call: Call) -> None:
        for name in names:
            for tensor in call.tensors(name):
                formats_of_rank = members.get(tensor.ndim, frozenset())
                if tensor.format not in formats_of_rank:
                    named = " or ".join(allowed.get(tensor.ndim, "").split())
                    wanted = named or f"of rank {' or '.join(map(str, allowed))}"
                    call.refuse(
                        name,
                        f"has rank {tensor.ndim} and format {tensor.format.name}; it must be {wanted}",
                        check="format/rank",
                    )

    return check


def contiguous(*names: str) -> Check:
    """Tensors are stored without gaps, in order."""

    @refuses("layout/contiguous", *names)
    def check(call: Call) -> None:
        for name in names:
            for tensor in call.tensors(name):
                if not tensor.is_contiguous:
                    call.refuse(
                        name,
                        f"is not contiguous (shape {dims_text(tensor.shape)}, strides {tensor.strides})",
                        check="layout/contiguous",
                    )

    return check


def same_format(first: str, *others: str) -> Check:
    @refuses(f"format/as-{first}", *others, other=first)
    def check(call: Call) -> None:
        if not call.is_present(first):
            return
        wanted = call[first].format
        for name in others:
            for tensor in call.tensors(name):
                if tensor.format is not wanted:
                    text = f"has format {tensor.format.name}; it must be {wanted.name}, as {call.python_name(first)}"
                    call.refuse(name, text, check=f"format/as-{first}")

    return check


def not_nz(*names: str) -> Check:
    """Tensors are not stored in tiles (FRACTAL_NZ)."""

    @refuses("format/nz", *names)
    def check(call: Call) -> None:
        for name in names:
            for tensor in call.tensors(name):
                if tensor.format in NZ:
                    call.refuse(name, f"has format {tensor.format.name}; it must be a plain format", check="format/nz")

    return check


def not_transposed(*names: str) -> Check:
    """The last two axes of tensors are not stored in the other order."""

    @refuses("layout/transposed", *names)
    def check(call: Call) -> None:
        for name in names:
            for tensor in call.tensors(name):
                if is_transposed(tensor):
                    call.refuse(
                        name,
                        f"is stored transposed (strides {tensor.strides}); it must not be",
                        check="layout/transposed",
                    )

    return check
