"""What reading and writing at indices share: checked indices, coordinates along an axis, many values for one place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._rows import check_range, stable_order


def places(argument: str, indices: Array, size: int, negative: bool = False) -> Array:
    """Indices as integers from 0 to size - 1; where ``negative`` ones are allowed they count from the end."""
    check_range(argument, indices, -size if negative else 0, size)
    wide = indices.astype(np.int64, copy=False)
    return np.where(wide < 0, wide + size, wide) if negative else wide


def along(index: Array, axis: int) -> tuple[Array, ...]:
    """Coordinates of the elements that ``index`` names on an axis, their own on all other axes."""
    grid = [np.arange(n).reshape([-1 if i == j else 1 for j in range(index.ndim)]) for i, n in enumerate(index.shape)]
    grid[axis] = index
    return tuple(grid)


def flat(at: tuple[Array, ...], shape: tuple[int, ...]) -> Array:
    """Places in the flattened tensor of elements given by their coordinates."""
    total: Any = 0
    for on_axis, size in zip(at, shape):
        total = total * size + on_axis
    return np.asarray(total)


def vectors(x: Array, axis: int) -> tuple[Array, int]:
    """A tensor with at least one axis, and an axis of it from 0 on."""
    x = x.reshape(1) if x.ndim == 0 else x
    return x, axis % x.ndim


def coordinates(argument: str, shape: tuple[int, ...], indices: Array, negative: bool = False) -> tuple[Array, ...]:
    """The coordinates on the last axis of ``indices``, an array for each of the first axes of a tensor."""
    axes = []
    for axis in range(indices.shape[-1]):
        try:
            axes.append(places(argument, indices[..., axis], shape[axis], negative))
        except DataError as error:
            raise DataError(argument, f"[..., {axis}] {error.detail}") from None
    return tuple(axes)


def rows_of(x: Array, depth: int) -> Array:
    """A tensor flattened to two axes, the first ``depth`` of its axes being one."""
    return x.reshape(math.prod(x.shape[:depth]), math.prod(x.shape[depth:]))


def combine(function: np.ufunc, target: Array, rows: Array, values: Array, fresh: bool = False) -> None:
    """target[r] = function(target[r], all values whose row is r), in their order; ``fresh`` leaves the old target[r] out.

    Values of one row are brought together by a stable sort, so the result does not depend on threads or blocks.
    """
    if rows.size == 0:
        return
    if rows.ndim == target.ndim == 1 and function is np.add and not fresh:
        np.add.at(target, rows, values.astype(target.dtype, copy=False))
        return
    order = stable_order(rows)
    ordered = rows[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    if function is np.add and not fresh and native.add_runs(target, values, order, starts, ordered[starts]):
        return
    values = values.astype(target.dtype, copy=False)
    reduced = function.reduceat(values[order], starts, axis=0, dtype=target.dtype)
    hit = ordered[starts]
    target[hit] = reduced if fresh else function(target[hit], reduced)
