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
from ascend_aclnn.reference import reference
from ascend_aclnn.reference._rows import as_matrix, check_range, codes, gather, stable_order, take_rows, take_wide

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
    Rows are added in pairs, in an order of our own that is always the same; the hardware's is not fixed.
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

    A block has some sorted rows and the stretch of dst that their names lie in. It zeroes the stretch, and while that is
    in the cache, stores the sums of names that no other block has. Of the others each block leaves a partial sum; these
    are added in order afterwards.
    """
    count, width = len(order), dst.shape[1]
    if count == 0:
        codes(dst)[...] = 0
        return
    step = rows_per_block(width, 4 * BLOCK)
    cuts, ends = _cut_evenly(names, step, len(dst))
    starts = np.flatnonzero(np.diff(names, prepend=-1))
    sizes = np.diff(starts, append=count)
    runs = np.union1d(starts, cuts[:-1])  # a run: the part of a name that lies in one block
    runs = runs[runs < count]
    name_of_run = np.searchsorted(starts, runs, side="right") - 1
    length = np.diff(runs, append=count)
    whole = length == sizes[name_of_run]
    copied = (sizes[name_of_run] == 1) & (rows.dtype == dst.dtype)  # nothing to add, nothing to round
    partial_of_run = np.cumsum(~whole) - 1
    partial = np.empty((np.count_nonzero(~whole), width), np.float32)

    def store(which: Array, sums: Array) -> None:
        sums += np.float32(0)  # a sum that starts from +0 is never -0
        if scale:
            sums *= (np.float32(1) / sizes[which].astype(np.float32))[:, None]
        stored = sums if dst.dtype == np.float32 else scratch("stored", sums.shape, dst.dtype)
        round_into(stored, sums)
        codes(dst)[names[starts[which]]] = codes(stored)

    def copy(which: Array) -> None:
        taken = scratch("copied", (len(which), width), rows.dtype)
        take_rows(rows, order[which], taken)
        _clear_minus_zeros(taken)
        codes(dst)[names[which]] = codes(taken)

    def add(here: Array, lengths: Array) -> None:
        begins = np.cumsum(lengths) - lengths
        picked = np.arange(lengths.sum()) + np.repeat(runs[here] - begins, lengths)
        values = scratch("values", (len(picked), width), np.float32)
        take_wide(rows, order[picked], values)
        _sum_runs(values, begins, lengths)
        done = whole[here]
        partial[partial_of_run[here[~done]]] = values[begins[~done]]
        store(name_of_run[here[done]], values[begins[done]])

    def block(number: int, _: int) -> None:
        codes(dst)[ends[number] : ends[number + 1]] = 0
        here = np.arange(*np.searchsorted(runs, cuts[number : number + 2]))
        copy(runs[here[copied[here]]])
        here = here[~copied[here]]
        add(here, length[here])

    for_blocks(len(cuts) - 1, 1, block)

    names_of_partials = name_of_run[~whole]
    for which in np.unique(names_of_partials):
        first, last = np.searchsorted(names_of_partials, (which, which + 1))
        store(np.array([which]), np.add.reduce(partial[first:last], axis=0, keepdims=True))


def _cut_evenly(names: Array, step: int, end: int) -> tuple[Array, Array]:
    """Cuts sorted names and the range [0, end) they come from into blocks: where each begins in names, and in the range.

    A block has at most ``step`` names, and at most about twice its share of the range, however the names cluster.
    """
    count = len(names)
    by_count = np.arange(0, count, step)
    by_range = np.arange(0, end, min(2 * end * step // count + 1, 16 * step))
    cuts = np.concatenate([by_count, np.searchsorted(names, by_range), [count]])
    ends = np.concatenate([names[by_count], by_range, [end]])
    order = np.lexsort((ends, cuts))
    return cuts[order], ends[order]


def _clear_minus_zeros(values: Array) -> None:
    """Makes -0 +0, which it is in a sum that starts from +0."""
    signed = values.view(np.int16 if values.itemsize == 2 else np.int32)
    least = np.iinfo(signed.dtype).min
    if signed.min(initial=0) == least:
        np.copyto(signed, 0, where=signed == least)


def _sum_runs(values: Array, starts: Array, sizes: Array) -> None:
    """Adds runs of consecutive rows, each into its first row.

    Long runs go row by row; in short ones neighbours are added in pairs, then pairs of those, all runs at a time.
    """
    long = (sizes > 2) & (sizes * values.shape[1] >= _LONG)
    for start, size in zip(starts[long].tolist(), sizes[long].tolist()):
        values[start] = np.add.reduce(values[start : start + size], axis=0)
    left_over = np.repeat(np.where(long, 1, sizes), sizes)
    place = np.arange(len(values)) - np.repeat(starts, sizes)
    reach = 1
    while reach < left_over.max(initial=0):
        left = np.flatnonzero((place % (2 * reach) == 0) & (place + reach < left_over))
        values[left] += values[left + reach]
        reach *= 2
