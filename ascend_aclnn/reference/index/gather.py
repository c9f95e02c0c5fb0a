"""Reading at indices. Only bits are moved, so data of any type go through as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array, DataError, for_blocks, rows_per_block
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference._rows import codes
from ascend_aclnn.reference._rows import gather as gather_rows
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.index._places import along, coordinates, places, vectors


def _store(out: Array, gathered: Array) -> None:
    cast_into(out, gathered.reshape(out.shape))


@reference("aclnnGather", raw=True)
def gather(x: Array, dim: int, index: Array, *, out: tuple[Array]) -> None:
    """out[i][j][k] = x[i][index[i][j][k]][k] for dim 1."""
    if index.size == 0:
        return
    (x, axis), (index, _) = vectors(x, dim), vectors(index, dim)
    target = out[0].reshape(index.shape)
    chosen = places("index", index, x.shape[axis])
    elements = np.ascontiguousarray(codes(x)).reshape(-1)
    # Places in the flattened tensor: those of the index, and where each of its rows begins.
    steps = [math.prod(x.shape[i + 1 :]) for i in range(x.ndim)]
    grid = along(chosen, axis)
    starts: Any = sum(grid[i] * steps[i] for i in range(1, x.ndim) if i != axis)

    def block(lo: int, hi: int) -> None:
        at = chosen[lo:hi] * steps[axis] + starts
        if axis:
            at += grid[0][lo:hi] * steps[0]
        np.take(elements, at, out=codes(target)[lo:hi], mode="clip")  # clip, because "raise" buffers the whole result

    for_blocks(len(chosen), rows_per_block(chosen[:1].size), block)
    if not np.may_share_memory(target, out[0]):  # its strides allow no such view
        _store(out[0], target)


def _select(x: Array, dim: int, index: Array, out: Array, negative: bool = False) -> None:
    """Replaces an axis by the shape of ``index``; negative indices count from the end where they are allowed."""
    if out.size == 0:
        return
    x, axis = vectors(x, dim)
    chosen = places("index", index, x.shape[axis], negative).reshape(-1)
    lead, rest = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    source = codes(x).reshape(lead, x.shape[axis], rest)
    target = out.reshape(lead, chosen.size, rest)
    if lead == 1:
        gather_rows(source[0], chosen, target[0])
    else:
        target_codes = codes(target)

        def block(lo: int, hi: int) -> None:
            np.take(source[lo:hi], chosen, 1, out=target_codes[lo:hi], mode="clip")  # "raise" buffers the whole result

        for_blocks(lead, rows_per_block(chosen.size * rest), block)
    if not np.may_share_memory(target, out):  # its strides allow no such view
        _store(out, target)


@reference("aclnnIndexSelect", raw=True)
def index_select(x: Array, dim: int, index: Array, *, out: tuple[Array]) -> None:
    """Entries of an axis, in the order of ``index``."""
    _select(x, dim, index, out[0])


@reference("aclnnGatherV2", raw=True)
def gather_v2(x: Array, dim: int, index: Array, *, out: tuple[Array]) -> None:
    """The same, with negative indices (its op_api asks the kernel for them)."""
    _select(x, dim, index, out[0], True)


@reference("aclnnGatherV3", raw=True)
def gather_v3(x: Array, dim: int, index: Array, batch_dims: int, mode: int, *, out: tuple[Array]) -> None:
    """As index_select, for each entry of the first ``batch_dims`` axes by itself. ``mode`` is a matter of speed."""
    if batch_dims < 0:  # phase one counts them from the end, but then expects an output without index's axes
        raise DataError("batchDims", f"is {batch_dims}; allowed: 0 to {dim % max(x.ndim, 1)}")
    batch = batch_dims
    if batch == 0 or out[0].size == 0:
        _select(x, dim, index, out[0])
        return
    axis = dim % x.ndim
    rows, inner = index.reshape(-1, *index.shape[batch:]), x.reshape(-1, *x.shape[batch:])
    at = places("index", rows, x.shape[axis]).reshape(len(rows), -1)
    lines = np.moveaxis(codes(inner), axis - batch + 1, 1)  # (batch, axis, what is before it, what is after it)
    gathered = np.moveaxis(lines[np.arange(len(rows))[:, None], at], 1, axis - batch + 1)
    _store(out[0], np.ascontiguousarray(gathered).view(x.dtype))


@reference("aclnnTake", raw=True)
def take(x: Array, index: Array, *, out: tuple[Array]) -> None:
    """Elements of the flattened tensor; negative indices count from the end."""
    _store(out[0], codes(x).reshape(-1)[places("index", index, x.size, True)].view(x.dtype))


@reference("aclnnGatherNd", raw=True)
def gather_nd(x: Array, indices: Array, negative: bool, *, out: tuple[Array]) -> None:
    """Elements or slices whose coordinates are on the last axis of ``indices``."""
    if out[0].size == 0:
        return
    _store(out[0], codes(x)[coordinates("indices", x.shape, indices, negative)].view(x.dtype))


def subscripts(x: Array, indices: Sequence[Array]) -> tuple[Any, ...]:
    """What NumPy takes between brackets; an empty tensor stands for a full slice and a mask for all its axes."""
    result: list[Any] = []
    axis = 0
    for number, index in enumerate(indices):
        if index.size == 0:
            result.append(slice(None))
            axis += 1
        elif index.dtype == np.bool_:
            covered = x.shape[axis : axis + index.ndim]
            if index.shape != covered:
                raise DataError("indices", f"[{number}] is a mask of shape {index.shape}; its axes have {covered}")
            result.append(index)
            axis += index.ndim
        else:
            try:
                if axis >= x.ndim:
                    raise DataError("indices", f"is beyond the {x.ndim} axes")
                result.append(places("indices", index, x.shape[axis], negative=True))
            except DataError as error:
                raise DataError("indices", f"[{number}] {error.detail}") from None
            axis += 1
    used = [
        item.shape if item.dtype != np.bool_ else (np.count_nonzero(item),)
        for item in result
        if not isinstance(item, slice)
    ]
    try:
        np.broadcast_shapes(*used)
    except ValueError:
        raise DataError("indices", f"name places in shapes that do not broadcast: {used}") from None
    return tuple(result)


def _in_rows(x: Array, rows: Array, out: Array) -> bool:
    """Gathers whole rows into the output; False, with nothing written, where it has another size or layout."""
    width = x.size // len(x)
    fits = out.size == rows.size * width and out.dtype == x.dtype and out.flags.c_contiguous and x.flags.c_contiguous
    if fits:
        gather_rows(x.reshape(len(x), width), rows.reshape(-1), out.reshape(rows.size, width))
    return fits


@reference("aclnnIndex", raw=True)
def index(x: Array, indices: Sequence[Array], *, out: tuple[Array]) -> None:
    """x[i, j, ...] as NumPy has it."""
    if x.size == 0 or out[0].size == 0:
        return
    x = x.reshape(1) if x.ndim == 0 else x
    at = subscripts(x, indices)
    rows = at[0]
    if len(at) == 1 and not isinstance(rows, slice) and rows.dtype != np.bool_ and _in_rows(x, rows, out[0]):
        return
    gathered = codes(x)[at]
    if gathered.size != out[0].size:
        raise DataError("indices", f"name an output of shape {gathered.shape}; out has {out[0].shape}")
    _store(out[0], np.ascontiguousarray(gathered).view(x.dtype))


@reference("aclnnFlip", raw=True)
def flip(x: Array, dims: Sequence[int], *, out: tuple[Array]) -> None:
    """Turns axes around."""
    cast_into(out[0], np.flip(x, tuple(dims)) if x.ndim else x)
