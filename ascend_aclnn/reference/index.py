"""Reading and summing rows by index."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import (
    Array,
    DataError,
    for_blocks,
    round_into,
    rows_per_block,
    scratch,
    widen,
)
from ascend_aclnn.reference import reference
from ascend_aclnn.reference._rows import as_matrix, check_range, gather, stable_order

# Rows of this many columns and more are added one by one: the call costs less than the row. Narrower ones go by blocks.
_WIDE = 256
# Rows of one index that are added up before the sum joins the total: sums of long runs stay accurate.
_RUN = 32


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
    Rows are added in the order of grad, 32 at a time; the hardware's order is not fixed.
    """
    (dst,) = out
    width = dst.shape[1]
    if grad.size == 0 or indices.size == 0:
        dst[...] = 0
        return
    rows = grad.reshape(-1, width)
    wanted = _as_integers(indices).reshape(-1)
    check_range("indices", wanted, 0, num_weights)

    order = stable_order(wanted)
    order = order[wanted[order] != padding_idx] if padding_idx < num_weights else order
    names, starts = np.unique(wanted[order], return_index=True)
    bounds = np.append(starts, len(order))
    add = _add_wide if width >= _WIDE else _add_narrow
    _zero(dst)
    with np.errstate(all="ignore"):
        add(rows, order, names, bounds, scale_grad_by_freq, dst)


def _as_integers(indices: Array) -> Array:
    """Indices of any accepted dtype: floats lose their fraction, False and True are 0 and 1."""
    values = widen(indices)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise DataError("indices", "there is an infinity or NaN among the indices; allowed: finite numbers")
        with np.errstate(all="ignore"):
            values = np.clip(values, -(2.0**62), 2.0**62)
    return values.astype(np.int64)


def _zero(dst: Array) -> None:
    def block(lo: int, hi: int) -> None:
        dst[lo:hi] = 0

    for_blocks(len(dst), rows_per_block(dst.shape[1], 1 << 18), block)


def _add_wide(rows: Array, order: Array, names: Array, bounds: Array, scale: bool, dst: Array) -> None:
    """One index after the other, row by row."""
    total, part = scratch("total", (rows.shape[1],), np.float32), scratch("part", (rows.shape[1],), np.float32)
    for name, lo, hi in zip(names.tolist(), bounds[:-1].tolist(), bounds[1:].tolist()):
        total[:] = 0
        for start in range(lo, hi, _RUN):
            run = order[start : min(start + _RUN, hi)]
            part[:] = 0
            for row in run.tolist():
                np.add(part, rows[row], out=part, casting="unsafe", dtype=np.float32)
            total += part
        if scale:
            total *= np.float32(1) / np.float32(hi - lo)
        round_into(dst[name], total)


def _add_narrow(rows: Array, order: Array, names: Array, bounds: Array, scale: bool, dst: Array) -> None:
    """Blocks of sorted rows, summed index by index; an index that goes on in the next block carries its sum there."""
    width = rows.shape[1]
    counts = np.diff(bounds)
    group = np.repeat(np.arange(len(names)), counts)
    step = rows_per_block(width)
    carry = np.zeros(width, np.float32)
    for lo in range(0, len(order), step):
        hi = min(lo + step, len(order))
        block = np.add(widen(rows[order[lo:hi]]), np.float32(0))
        sums = _sum_groups(block, group[lo:hi])
        first, last = int(group[lo]), int(group[hi - 1])
        if bounds[first] < lo:
            sums[0] += carry
        if bounds[last + 1] > hi:
            carry = sums[-1].copy()
            sums, last = sums[:-1], last - 1
        if scale:
            sums *= (np.float32(1) / counts[first : last + 1].astype(np.float32))[:, None]
        stored = np.empty(sums.shape, dst.dtype)
        round_into(stored, sums)
        dst[names[first : last + 1]] = stored


def _sum_groups(values: Array, group: Array) -> Array:
    """Sums of runs of rows with the same group number: neighbours are added in pairs until each run has one row."""
    while True:
        starts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
        if len(starts) == len(group):
            return values
        place = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
        left = np.flatnonzero(place % 2 == 0)
        paired = np.zeros(len(left), np.bool_)
        paired[:-1] = place[left[:-1] + 1] == place[left[:-1]] + 1
        paired[-1] = left[-1] + 1 < len(group)
        sums = values[left]
        sums[paired] += values[left[paired] + 1]
        values, group = sums, group[left]
