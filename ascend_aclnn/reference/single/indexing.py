"""Single operators that choose, fill, sort or repeat elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.index import choose


def _checked(indices: Array, size: int, name: str) -> Array:
    """Whole numbers within an axis."""
    if indices.size and (indices.min() < -size or indices.max() >= size):
        raise DataError(name, f"has {int(indices.min())} to {int(indices.max())}; allowed: {-size} to {size - 1}")
    return indices.astype(np.int64)


# ------------------------------------------------------------------------------------------------------------------- masks


@reference("MaskedFill")
def masked_fill(x: Array, mask: Array, value: Array) -> Array:
    return np.where(mask != 0, value.reshape(-1)[0], x)


@reference("MaskedFillRange")
def masked_fill_range(x: Array, start: Array, end: Array, value: Array, axis: int) -> Array:
    """Each row of starts and ends fills ranges along an axis; of several rows each belongs to one batch."""
    result, axis = x.copy(), axis % x.ndim
    places = np.arange(x.shape[axis])
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    starts, ends = start.reshape(len(value.reshape(-1)), -1), end.reshape(len(value.reshape(-1)), -1)
    for row, filled in enumerate(value.reshape(-1)):
        for batch, (low, high) in enumerate(zip(starts[row], ends[row])):
            inside = ((places >= low) & (places < high)).reshape(shape)
            if starts.shape[1] > 1:
                result[batch] = np.where(inside[0], filled, result[batch])
            else:
                result = np.where(inside, filled, result)
    return result


@reference("MaskedScatter")
def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    chosen, result = np.broadcast_to(mask != 0, x.shape), x.copy()
    count = np.count_nonzero(chosen)
    if count > source.size:
        raise DataError("source", f"has {source.size} elements; the mask chooses {count}")
    result[chosen] = source.reshape(-1)[:count]
    return result


# ----------------------------------------------------------------------------------------------------------------- indices


@reference("ArgMaxGrad")
def arg_max_grad(x: Array, indices: Array, updates: Array, dimension: int) -> Array:
    """The updates at their places along an axis."""
    axis = dimension % x.ndim
    places = np.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    shape = [1 if a == axis else n for a, n in enumerate(x.shape)]
    if indices.size == np.prod(shape):
        indices, updates = indices.reshape(shape), updates.reshape(shape)
    return np.where(indices == places, updates, x)


@reference("ScatterNdAdd")
def scatter_nd_add(x: Array, indices: Array, updates: Array) -> Array:
    result, depth = x.copy(), indices.shape[-1]
    rows = tuple(_checked(indices[..., axis], x.shape[axis], "indices") for axis in range(depth))
    np.add.at(result, rows, updates)
    return result


@reference("ScatterUpdate")
def scatter_update(x: Array, indices: Array, updates: Array) -> Array:
    result = x.copy()
    result[_checked(indices, len(x), "indices")] = updates
    return result


@reference("IndexFillD")
def index_fill_d(x: Array, factors: Array, terms: Array) -> Array:
    """The factors are 0, and the terms the value, where an element is filled."""
    return np.where(factors != 0, x, terms)


@reference("RandomChoiceWithMask")
def random_choice_with_mask(x: Array, count: int, seed: int, seed2: int) -> tuple[Array, Array]:
    """The places of some elements that are true, in any order, and which rows hold one; the device's choice is not public."""
    places = np.random.Generator(np.random.Philox(key=[seed % 2**64, seed2 % 2**64])).permutation(np.argwhere(x))[
        :count
    ]
    coordinates, mask = np.zeros((count, x.ndim), np.int32), np.zeros(count, np.bool_)
    coordinates[: len(places)], mask[: len(places)] = places, True
    return coordinates, mask


@reference("SubSample")
def sub_sample(labels: Array, count: int, fraction: float) -> Array:
    """So many labels stay, positive ones up to a fraction of them and then 0; all others become -1. The choice is not public."""
    random = np.random.Generator(np.random.Philox(key=[0, 0]))
    positive = random.permutation(np.flatnonzero((labels != -1) & (labels != 0)))[: int(count * fraction)]
    negative = random.permutation(np.flatnonzero(labels == 0))[: count - len(positive)]
    sampled = np.full_like(labels, -1)
    sampled[positive], sampled[negative] = labels[positive], 0
    return sampled


# --------------------------------------------------------------------------------------------------------- order, repetition


def _order(x: Array, axis: int, descending: bool) -> Array:
    """A stable order."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    return np.asarray(x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis))


@reference("Sort")
def sort_with_indices(x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    order = _order(x, axis, descending)
    return np.take_along_axis(x, order, axis), order


@reference("TopKV2")
def top_k(x: Array, count: int, axis: int, largest: bool) -> tuple[Array, Array]:
    order = np.take(_order(x, axis, largest), np.arange(count), axis)
    return np.take_along_axis(x, order, axis), order


@reference("SearchSorted")
def search_sorted(sequence: Array, x: Array, right: bool) -> Array:
    side: Any = "right" if right else "left"
    if sequence.ndim == 1:
        return np.searchsorted(sequence, x, side)
    rows = zip(sequence.reshape(-1, sequence.shape[-1]), x.reshape(-1, x.shape[-1]))
    return np.stack([np.searchsorted(row, values, side) for row, values in rows]).reshape(x.shape)


@reference("RepeatInterleave")
def repeat_interleave(x: Array, repeats: Array, axis: int) -> Array:
    counts = repeats.reshape(-1).astype(np.int64)
    return np.repeat(x, counts if counts.size > 1 else int(counts[0]), axis)


# ----------------------------------------------------------------------------------------------------------------- padding


def _pairs(x: Array, paddings: Sequence[int]) -> list[tuple[int, int]]:
    """Two numbers for each axis, the outermost first."""
    return [(paddings[2 * axis], paddings[2 * axis + 1]) for axis in range(x.ndim)]


def _cut(x: Array, pairs: Sequence[tuple[int, int]]) -> tuple[Array, list[tuple[int, int]]]:
    """Without what negative paddings take away."""
    inside = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, pairs))
    return x[inside], [(max(a, 0), max(b, 0)) for a, b in pairs]


@reference("PadV3")
def pad_v3(x: Array, paddings: Sequence[int], value: Array, mode: str) -> Array:
    x, pairs = _cut(x, _pairs(x, paddings))
    if mode == "constant":
        return np.pad(x, pairs, constant_values=value.reshape(-1)[0])
    return np.pad(x, pairs, mode=mode)  # type: ignore[call-overload, no-any-return]


@reference("MirrorPad")
def mirror_pad(x: Array, paddings: Sequence[int], mode: str) -> Array:
    kind: Any = mode.lower()
    return np.pad(x, _pairs(x, paddings), mode=kind)


@reference("PadV3Grad")
def pad_v3_grad(dy: Array, paddings: Sequence[int], mode: str) -> Array:
    """The sums of the gradients that belong to each element of the array before padding."""
    pairs = _pairs(dy, paddings)
    shape = [n - a - b for n, (a, b) in zip(dy.shape, pairs)]
    kind: Any = mode
    sources = np.pad(np.arange(int(np.prod(shape))).reshape(shape), pairs, mode=kind)
    sums = np.zeros(int(np.prod(shape)), np.float64)
    np.add.at(sums, sources.reshape(-1), dy.reshape(-1))
    return sums.reshape(shape)


@reference("UniqueWithCountsExt2")
def unique_with_counts(x: Array, axis: int) -> tuple[Array, ...]:
    """The different slices of an axis, sorted; of each its first place, how often it is there; and which one each place has."""
    values, inverse, counts = choose.on_axis(x, axis, True)
    first = np.unique(inverse, return_index=True)[1]
    return values, first, counts, inverse
