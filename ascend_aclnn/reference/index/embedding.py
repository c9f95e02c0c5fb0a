"""Reading and summing rows by index."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import (
    BLOCK,
    Array,
    DataError,
    for_blocks,
    round_into,
    rows_per_block,
    scratch,
    widen,
)
from ascend_aclnn.reference._rows import as_matrix, check_range, codes, gather, stable_order, take_rows, take_wide
from ascend_aclnn.reference.declare import reference

# Elements of a run of rows that are worth a call of their own.
_LONG = 1 << 14


@reference("aclnnEmbedding", raw=True)
def embedding(weight: Array, indices: Array, *, out: tuple[Array]) -> None:
    """out[i] = weight[indices[i]]."""
    check_range("indices", indices, 0, len(weight))
    with as_matrix(out[0], indices.size, weight.shape[1]) as rows:
        gather(weight, indices.reshape(-1), rows)


@reference("aclnnEmbeddingDenseBackward", raw=True)
def embedding_dense_backward(
    grad: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool, *, out: tuple[Array]
) -> None:
    """out[w] = sum of the rows of grad whose index is w; zero for w = paddingIdx; divided by their number if asked.

    Sums are float32 and start from +0, for every dtype; the quotient is a product with the count's float32 reciprocal.
    Rows are added in pairs, always in the same order; the hardware's order is not fixed.
    """
    (dst,) = out
    width = dst.shape[1]
    if grad.size == 0 or indices.size == 0:
        dst[...] = 0
        return
    wanted = _as_integers(indices)
    check_range("indices", wanted, 0, num_weights)
    wanted = wanted.reshape(-1)
    order = stable_order(wanted)
    if padding_idx < num_weights:
        order = order[wanted[order] != padding_idx]
    with np.errstate(all="ignore"):
        _sum_rows(grad.reshape(-1, width), order, wanted[order], scale_grad_by_freq, dst)


def _as_integers(indices: Array) -> Array:
    """Indices of any accepted dtype: floats lose their fraction, False and True are 0 and 1."""
    values = widen(indices)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise DataError("indices", "there is an infinity or NaN among the indices; allowed: finite numbers")
        with np.errstate(all="ignore"):
            values = np.clip(values, -(2.0**62), 2.0**62)
    return values.astype(np.int64)


def _sum_rows(rows: Array, order: Array, names: Array, scale: bool, dst: Array) -> None:
    """dst[n] = sum of rows[order[i]] over the i with names[i] = n; names ascend, and all other rows become zero.

    A block has some sorted rows and the stretch of dst that their names lie in. It zeroes the stretch, and while that
    is in the cache, stores the sums of names that no other block has. Of the others each block leaves a partial sum;
    these are added in order afterwards.
    """
    count, width = len(order), dst.shape[1]
    if count == 0:
        codes(dst)[...] = 0
        return
    cuts, ends = _cut_evenly(names, rows_per_block(width, 8 * BLOCK), len(dst))
    is_first = np.ones(count, bool)
    np.not_equal(names[1:], names[:-1], out=is_first[1:])
    runs = starts = is_first.nonzero()[0]
    lengths = of_name = sizes = _distances(starts, count)
    if len(cuts) > 2:  # a run is the part of a name that lies in one block
        is_first[cuts[cuts < count]] = True
        runs = is_first.nonzero()[0]
        lengths = _distances(runs, count)
        of_name = sizes[starts.searchsorted(runs, "right") - 1]

    # Where a name has one row, there is nothing to add, nor to round unless the dtypes differ.
    single = of_name == (1 if rows.dtype == dst.dtype else 0)
    several = ~single
    copies, runs, lengths, of_name = runs[single], runs[several], lengths[several], of_name[several]
    copied, copied_to = order[copies], names[copies]

    begins = lengths.cumsum() - lengths
    added = order[np.arange(count - len(copies)) + (runs - begins).repeat(lengths)]
    added_to, whole = names[runs], lengths == of_name
    in_part = ~whole
    partial_of_run = in_part.cumsum() - 1
    partial = np.empty((np.count_nonzero(in_part), width), np.float32)

    first_copy, first_run = copies.searchsorted(cuts), runs.searchsorted(cuts)
    first_added = np.concatenate([begins, [len(added)]])[first_run]

    def copy(which: slice) -> None:
        gathered = scratch("copied", (which.stop - which.start, width), rows.dtype)
        take_rows(rows, copied[which], gathered)
        _clear_minus_zeros(gathered)
        codes(dst)[copied_to[which]] = codes(gathered)

    def add(which: slice, lo: int, hi: int) -> None:
        values = scratch("values", (hi - lo, width), np.float32)
        take_wide(rows, added[lo:hi], values)
        here, done, part = begins[which] - lo, whole[which], in_part[which]
        _sum_runs(values, here, lengths[which])
        if len(partial):
            partial[partial_of_run[which][part]] = values[here[part]]
        store(added_to[which][done], values[here[done]], of_name[which][done])

    def store(targets: Array, sums: Array, counts: Array) -> None:
        sums += np.float32(0)  # a sum that starts from +0 is never -0
        if scale:
            sums *= (np.float32(1) / counts.astype(np.float32))[:, None]
        stored = sums if dst.dtype == np.float32 else scratch("stored", sums.shape, dst.dtype)
        round_into(stored, sums)
        codes(dst)[targets] = codes(stored)

    def block(number: int, _: int) -> None:
        codes(dst)[ends[number] : ends[number + 1]] = 0
        which = slice(*first_copy[number : number + 2].tolist())
        if which.start < which.stop:
            copy(which)
        which = slice(*first_run[number : number + 2].tolist())
        if which.start < which.stop:
            add(which, *first_added[number : number + 2].tolist())

    for_blocks(len(cuts) - 1, 1, block)

    if not len(partial):
        return
    names_of_partials, counts = added_to[in_part], of_name[in_part]
    for name in np.unique(names_of_partials):
        here = slice(*np.searchsorted(names_of_partials, (name, name + 1)).tolist())
        total = np.add.reduce(partial[here], axis=0, keepdims=True)
        store(names_of_partials[here][:1], total, counts[here][:1])


def _distances(starts: Array, end: int) -> Array:
    """From each start to the next, and from the last to the end."""
    distances = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=distances[:-1])
    distances[-1:] = end - starts[-1:]
    return distances


def _cut_evenly(names: Array, step: int, end: int) -> tuple[Array, Array]:
    """Cuts sorted names and the range [0, end) they come from into blocks: where each begins in names and in the range.

    A block has at most ``step`` names, and at most about twice its share of the range, however the names cluster.
    """
    count = len(names)
    if count <= step and end <= 16 * step:
        return np.array([0, count]), np.array([0, end])
    by_count = np.arange(0, count, step)
    by_range = np.arange(0, end, min(2 * end * step // count + 1, 16 * step))
    cuts = np.concatenate([by_count, np.searchsorted(names, by_range), [count]])
    ends = np.concatenate([names[by_count], by_range, [end]])
    order = np.lexsort((ends, cuts))
    return cuts[order], ends[order]


def _clear_minus_zeros(values: Array) -> None:
    """Makes -0 +0, which it is in a sum that starts from +0."""
    signed: Array = values.view(np.int16 if values.itemsize == 2 else np.int32)
    least = -(1 << (8 * signed.itemsize - 1))
    if signed.min(initial=0) == least:
        np.copyto(signed, 0, where=signed == least)


def _sum_runs(values: Array, starts: Array, sizes: Array) -> None:
    """Adds runs of consecutive rows, each into its first row.

    Long runs go row by row; in short ones neighbours are added in pairs, then pairs of those, all runs at a time.
    """
    long = (sizes > 2) & (sizes * values.shape[1] >= _LONG)
    for start, size in zip(starts[long].tolist(), sizes[long].tolist()):
        values[start] = np.add.reduce(values[start : start + size], axis=0)
    left_over = np.where(long, 1, sizes).repeat(sizes)
    receivers = np.arange(len(values))
    place = receivers - starts.repeat(sizes)
    reach = 1
    while True:  # what receives now has received before
        which = ((place % (2 * reach) == 0) & (place + reach < left_over)).nonzero()[0]
        if not len(which):
            break
        receivers, place, left_over = receivers[which], place[which], left_over[which]
        values[receivers] += values[receivers + reach]
        reach *= 2
