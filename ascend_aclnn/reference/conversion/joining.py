"""References of ops-math/conversion: joining tensors and splitting them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_aclnn.numerics import SMALL, Array
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference.declare import reference


def _part(axis: int, start: int, stop: int) -> tuple[Any, ...]:
    """The index of a range along an axis counted from the front."""
    return (slice(None),) * axis + (slice(start, stop),)


@reference("aclnnCat", raw=True)
def cat(tensors: list[Array], dim: int, *, out: tuple[Array]) -> None:
    """Tensors one after another; 1-D tensors without elements do not count."""
    (dst,) = out
    joined = [x for x in tensors if x.shape != (0,)]
    if sum(x.size for x in joined) == dst.size == 1:  # one element fits an output of any rank
        cast_into(dst, next(x for x in joined if x.size))
        return
    if joined and dst.size <= SMALL and all(x.dtype == dst.dtype for x in joined):
        np.concatenate(joined, dim, out=dst)
        return
    start = 0
    for x in joined:
        axis = dim % x.ndim
        cast_into(dst[_part(axis, start, start + x.shape[axis])], x)
        start += x.shape[axis]


@reference("aclnnStack", raw=True)
def stack(tensors: list[Array], dim: int, *, out: tuple[Array]) -> None:
    """Tensors side by side along a new axis."""
    (dst,) = out
    for i, x in enumerate(tensors if dst.size else []):
        cast_into(dst[(slice(None),) * (dim % dst.ndim) + (i, ...)], x)  # the dots: a view of 0-d items, too


@reference("aclnnChunkCat", raw=True)
def chunk_cat(tensors: list[Array], dim: int, chunks: int, *, out: tuple[Array]) -> None:
    """Each tensor's rows in equal chunks, the last filled up with zeros; the first chunks in one row, and so on."""
    (dst,) = out
    start = 0
    for x in tensors:
        if x.size == 0:
            continue
        rows = -(-len(x) // chunks)
        filled = np.zeros((chunks * rows, *x.shape[1:]), x.dtype)
        filled[: len(x)] = x
        flat = filled.reshape(chunks, -1)
        cast_into(dst[:, start : start + flat.shape[1]], flat)
        start += flat.shape[1]


def _split(x: Array, sizes: Sequence[int], dim: int, targets: list[Array]) -> None:
    axis, start = dim % x.ndim, 0
    for size, target in zip(sizes, targets):
        if x.size:
            cast_into(target, x[_part(axis, start, start + size)])
        start += size


@reference("aclnnSplitTensor", raw=True)
def split(x: Array, section: int, dim: int, *, out: tuple[list[Array]]) -> None:
    """Pieces of equal length; the last one has what is left."""
    length = x.shape[dim]
    _split(x, [min(section, length - start) for start in range(0, length, max(section, 1))], dim, out[0])


@reference("aclnnSplitWithSize", raw=True)
def split_with_size(x: Array, sizes: Sequence[int], dim: int, *, out: tuple[list[Array]]) -> None:
    """Pieces of the given lengths."""
    _split(x, sizes, dim, out[0])
