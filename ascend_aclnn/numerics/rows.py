"""Rows added to rows that indices name."""

from __future__ import annotations

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics.convert import BLOCK, codes, move, round_into, rows_per_block, widen
from ascend_aclnn.numerics.threads import Array, for_blocks


def add_rows(out: Array, x: Array, order: Array, rows: Array, values: Array) -> None:
    """out = x with values[order[i]] added to row rows[i]; rows ascend. Contiguous matrices of float32 or 16-bit floats.

    The values of one row are added up in float64 in their order, then to the row, and rounded once.
    """
    move(out, x)
    starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    hit = rows[starts]
    columns = x.shape[1]
    # A block has the runs that begin in a range of places.
    cuts = np.searchsorted(starts, np.arange(0, len(rows), rows_per_block(columns, BLOCK)))
    cuts = np.append(cuts, len(starts))
    ends = np.append(starts, len(rows))[cuts]

    def add(block: int, _: int) -> None:
        here = slice(cuts[block], cuts[block + 1])
        if here.start == here.stop:
            return
        first, last = ends[block], ends[block + 1]
        selected, runs, targets = order[first:last], starts[here] - first, hit[here]
        if native.add_rows(out, x, values, selected, runs, targets):
            return
        terms = widen(np.take(codes(values), selected, 0).view(values.dtype))
        sums = sums_of_runs(terms, runs) if len(runs) < len(selected) else terms
        base = widen(np.take(codes(x), targets, 0).view(x.dtype))
        rounded = np.empty(base.shape, out.dtype)
        round_into(rounded, np.add(base, sums, dtype=np.float64))
        codes(out)[targets] = codes(rounded)

    for_blocks(len(cuts) - 1, 1, add)


_SEVERAL = 8  # runs from which a place of all of them is added at a time; of the last runs each by itself


def sums_of_runs(terms: Array, starts: Array) -> Array:
    """Float64 sums of the rows of a matrix from each start to the next, in their order, as the compiled helper adds them up.

    All first rows of runs, then all second ones: np.add.reduceat takes one element at a time, ten times as long, and adds
    eight rows and more in another order.
    """
    ends = np.append(starts[1:], len(terms))
    sums = terms[starts].astype(np.float64)
    place = 1
    longer = np.flatnonzero(ends - starts > place)
    while len(longer) >= _SEVERAL:
        sums[longer] += terms[starts[longer] + place]
        place += 1
        longer = longer[ends[longer] - starts[longer] > place]
    for run in longer:
        rest = terms[starts[run] + place : ends[run]]
        sums[run] = np.add.accumulate(np.concatenate((sums[run][None], rest)), 0)[-1]
    return sums


__all__ = ["add_rows", "sums_of_runs"]
