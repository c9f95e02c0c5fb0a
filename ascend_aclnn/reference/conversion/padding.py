"""References of ops-math/conversion: padding by reflection, replication, wrapping and constants, and its gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import BLOCK, Array, for_blocks, rows_per_block, sum_type
from ascend_aclnn.reference._arrays import cast_into, converted
from ascend_aclnn.reference._rows import codes
from ascend_aclnn.reference.declare import reference


def pairs(padding: tuple[int, ...], ndim: int) -> list[tuple[int, int]]:
    """(before, after) for every axis of a tensor, first axis first."""
    innermost_last = list(zip(padding[::2], padding[1::2]))[::-1]
    return [(0, 0)] * (ndim - len(innermost_last)) + innermost_last


# From which element of an axis each position of the padded axis comes; positions before the axis are negative.
_Source = Callable[[Array, int], Any]
_SOURCES: dict[str, _Source] = {
    "Reflection": lambda position, n: (n - 1) - np.abs((n - 1) - np.abs(position)),
    "Replication": lambda position, n: np.clip(position, 0, n - 1),
    "Circular": lambda position, n: position % n,
}


def _pad(source: _Source) -> Callable[..., None]:
    def pad(x: Array, padding: Sequence[int], *, out: tuple[Array]) -> None:
        if x.size == 0:
            return
        padded = codes(x)
        for axis, (before, after) in enumerate(pairs(tuple(padding), x.ndim)):
            if before or after:
                n = x.shape[axis]
                padded = padded.take(source(np.arange(-before, n + after), n), axis)
        cast_into(codes(out[0]), padded)

    return pad


def _gather(grad: Array, axis: int, before: int, n: int, source: _Source) -> Array:
    """The gradient of an axis: that of its own positions, and line by line what was copied from them added to it."""
    lines = np.moveaxis(grad, axis, 0)
    positions = np.arange(-before, len(lines) - before)
    inside = (positions >= 0) & (positions < n)
    total = np.zeros((n, *lines.shape[1:]), lines.dtype)
    total[positions[inside]] = lines[inside]
    for line in np.flatnonzero(~inside).tolist():
        total[source(positions[line], n)] += lines[line]
    return np.moveaxis(total, 0, axis)


def _pad_backward(source: _Source) -> Callable[..., Any]:
    def backward(grad: Array, x: Array, padding: Sequence[int]) -> Any:
        if grad.size == 0 or x.size == 0:
            return None  # CANN leaves the result alone
        total = grad.astype(sum_type(grad.dtype))
        for axis, (before, after) in enumerate(pairs(tuple(padding), x.ndim)):
            if before or after:
                total = _gather(total, axis, before, x.shape[axis], source)
        return total

    return backward


for _kind, _source in _SOURCES.items():
    for _axes in ("1d", "2d", "3d") if _kind != "Circular" else ("2d", "3d"):
        reference(f"aclnn{_kind}Pad{_axes}", raw=True)(_pad(_source))
        reference(f"aclnn{_kind}Pad{_axes}Backward")(_pad_backward(_source))


@reference("aclnnConstantPadNd", raw=True)
def constant_pad_nd(x: Array, padding: Sequence[int], value: Any, *, out: tuple[Array]) -> None:
    """A number around the tensor; negative padding cuts."""
    dst, src, number = codes(out[0]), codes(x), codes(converted(value, x.dtype))
    around = pairs(tuple(padding), x.ndim)
    lead = next((axis for axis, pair in enumerate(around) if pair != (0, 0)), x.ndim)  # axes that stay as they are
    target: list[Any] = []
    source: list[Any] = []
    for n, (before, after) in zip(x.shape[lead:], around[lead:]):
        source.append(slice(max(0, -before), n - max(0, -after)))
        target.append(slice(max(0, before), n + before + min(0, after)))
    if not lead or not dst.flags.c_contiguous or not src.flags.c_contiguous:
        dst[...] = number
        dst[(..., *target)] = src[(..., *source)]
        return
    planes = math.prod(x.shape[:lead])
    dst, src = dst.reshape(planes, *dst.shape[lead:]), src.reshape(planes, *x.shape[lead:])

    def pad(low: int, high: int) -> None:
        if not native.pad(src[low:high], dst[low:high], number, around[lead:]):
            dst[low:high] = number
            dst[(slice(low, high), *target)] = src[(slice(low, high), *source)]

    block = 8 * BLOCK if native.runs_programs() else 2 * BLOCK  # one call of the helper takes less than waking a thread
    for_blocks(planes, rows_per_block(dst.size // max(1, planes), block), pad)
