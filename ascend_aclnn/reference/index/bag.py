"""EmbeddingBag: rows of a table summed, averaged or maximised bag by bag."""

from __future__ import annotations

from typing import Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, round_into, widen
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.index._places import combine, places

# Modes; all others take the largest.
_SUM, _MEAN = 0, 1


@reference("aclnnEmbeddingBag", raw=True)
def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    weights: Optional[Array],
    last_offset: bool,
    padding: int,
    *,
    out: tuple[Array, Array, Array, Array],
) -> None:
    """Bag b is made of weight[indices[offsets[b] : offsets[b + 1]]], without the row ``padding``; an empty one is zero.

    The first bag starts with the first index and the last one ends with the last. offset2bag has the bag of each
    index, bagSize how many rows a bag has, maxIndices which row each maximum is (of equal ones the first). As on Atlas
    A2, bagSize is 0 in the mode sum, and maxIndices is bagSize again in the modes sum and mean.
    """
    output, owners, sizes, largest = out
    rows, starts = places("indices", indices.reshape(-1), len(weight)), offsets.reshape(-1).astype(np.int64)
    check_range("offsets", starts, 0, len(rows) + 1)
    if (np.diff(starts) < 0).any():
        raise DataError("offsets", "do not ascend")
    bags, width = output.shape
    ends = np.append(starts[1:bags], len(rows))
    owner = np.repeat(np.arange(bags), np.diff(ends, prepend=0)) if bags else np.zeros(0, np.int64)
    if owners.size:
        owners[...] = owner.reshape(owners.shape) if bags else 0

    used = np.flatnonzero(rows[: len(owner)] != padding)
    bag, row = owner[used], rows[used]
    count = np.bincount(bag, minlength=bags)
    values = widen(weight)[row]
    if mode in (_SUM, _MEAN):
        values = values.astype(np.float64)
        if weights is not None:
            values *= widen(weights).reshape(-1)[used, None]
        total = np.zeros((bags, width), np.float64)
        combine(np.add, total, bag, values)
        if mode == _MEAN:
            total /= np.maximum(count, 1)[:, None]
        counts = count if mode == _MEAN else np.zeros(bags, np.int64)
        if largest.size:
            largest[...] = counts
    else:
        total, counts = np.zeros((bags, width), values.dtype), count
        combine(np.maximum, total, bag, values, fresh=True)
        first = np.full((bags, width), len(row), np.int64)
        is_largest = (values == total[bag]) | (values != values)
        combine(np.minimum, first, bag, np.where(is_largest, np.arange(len(row))[:, None], len(row)))
        largest[...] = np.append(row, 0)[first]
    round_into(output, total)
    sizes[...] = np.append(counts, 0)[: sizes.size]  # Ascend 950 has one more, for the last offset
