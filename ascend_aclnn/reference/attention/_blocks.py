"""What the references of sparse and latent attention share: softmax, sequences, pages, choices of keys.

Everything works on float32 arrays of one sequence, tokens first; a hidden score is the smallest float32, as in CANN's
kernels, so that a row that sees nothing spreads its weight evenly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._rows import check_range

HIDDEN = np.float32(np.finfo(np.float32).min)


class Softmax(NamedTuple):
    """Probabilities along the last axis, and what they were made with: (..., keys), (..., 1), (..., 1)."""

    probabilities: Array
    row_max: Array
    row_sum: Array

    @property
    def log_sum_exp(self) -> Array:
        return np.asarray(self.row_max + np.log(self.row_sum))


def softmax(scores: Array, hidden: Optional[Array] = None, sink: Optional[Array] = None) -> Softmax:
    """Softmax of the last axis, without the hidden keys; ``sink`` is one more score of each row, without a value."""
    if hidden is not None:
        scores = np.where(hidden, HIDDEN, scores)
    row_max = scores.max(-1, keepdims=True, initial=HIDDEN)
    if sink is not None:
        row_max = np.maximum(row_max, sink)
    weights = np.exp(scores - row_max)
    row_sum = weights.sum(-1, keepdims=True)
    if sink is not None:
        row_sum = row_sum + np.exp(sink - row_max)
    return Softmax(weights / np.where(row_sum == 0, np.float32(1), row_sum), row_max, row_sum)


def softmax_or_zero(scores: Array, hidden: Array, sink: Optional[Array] = None) -> Softmax:
    """Softmax whose hidden keys have no weight even where a row sees nothing: such a row is zeros."""
    scores = np.where(hidden, -np.inf, scores)
    row_max = scores.max(-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        row_max = np.maximum(row_max, sink)
    weights = np.exp(scores - np.maximum(row_max, HIDDEN))
    row_sum = weights.sum(-1, keepdims=True)
    if sink is not None:
        row_sum = row_sum + np.exp(sink - np.maximum(row_max, HIDDEN))
    return Softmax(weights / np.where(row_sum == 0, np.float32(1), row_sum), row_max, row_sum)


def softmax_derivative(probabilities: Array, derivative: Array, total: Optional[Array] = None) -> Array:
    """Of the scores, from that of the probabilities; ``total``: the sums of both, if they are known otherwise."""
    total = (probabilities * derivative).sum(-1, keepdims=True) if total is None else total
    return np.asarray(probabilities * (derivative - total))


def spans(ends: Optional[Sequence[int]], name: str, tokens: int) -> list[slice]:
    """The sequences of packed tokens, by their running totals."""
    if ends is None or len(ends) == 0:
        raise DataError(name, "is empty; in layout TND it is required")
    points = [0, *(int(end) for end in ends)]
    if any(b < a for a, b in zip(points, points[1:])) or points[-1] > tokens:
        raise DataError(name, f"is {tuple(points[1:])}; it must not decrease, nor exceed the {tokens} tokens")
    return [slice(a, b) for a, b in zip(points, points[1:])]


def paired(a: Sequence[Any], b: Sequence[Any], name: str) -> Iterator[tuple[Any, Any]]:
    """Pairs of both sequences; DataError where their lengths differ."""
    if len(a) != len(b):
        raise DataError(name, f"has {len(b)} items; it must have {len(a)}")
    return zip(a, b)


def paged(cache: Array, table: Array, length: int, name: str = "blockTableOptional") -> Array:
    """The first tokens of one sequence, whose pages (pages, tokens, ...) a row of the block table names."""
    size = cache.shape[1]
    count = -(-length // size) if size else 0
    if count > len(table):
        raise DataError(name, f"has {len(table)} pages for a sequence; {length} tokens need {count} of {size}")
    pages = table[:count]
    check_range(name, pages, 0, len(cache))
    return np.asarray(cache[pages].reshape(-1, *cache.shape[2:])[:length])


def page_of(slots: Array, size: int) -> tuple[Array, Array]:
    """Where slots lie in pages of a size: pages, and places in them."""
    page, place = np.divmod(slots, max(size, 1))
    return page, place


def largest(scores: Array, count: int) -> Array:
    """Indices of the largest scores of the last axis, in descending order; of equal ones the first."""
    order = np.argsort(-scores, axis=-1, kind="stable")
    return np.asarray(order[..., :count])


def tokens_of_blocks(blocks: Array, size: int, length: int) -> Array:
    """The tokens of the named blocks of one row, in order; blocks below 0 are none, the last one may be short."""
    named = blocks[blocks >= 0].astype(np.int64)
    tokens = (named[:, None] * size + np.arange(size)).reshape(-1)
    return np.asarray(tokens[tokens < length])


# --------------------------------------------------------------------------------------------------- batches of sequences


class Side(NamedTuple):
    """Where the sequences of a batch lie in tensors of a layout: BSND, TND, or pages (PA_...) of a block table."""

    layout: str
    starts: list[int]
    lengths: list[int]
    table: Optional[Array] = None

    def __len__(self) -> int:
        return len(self.lengths)

    def at(self, number: int) -> Any:
        """The index of one sequence's tokens, not for pages."""
        if self.layout == "TND":
            return slice(self.starts[number], self.starts[number] + self.lengths[number])
        return number, slice(0, self.lengths[number])

    def take(self, x: Array, number: int) -> Array:
        """The tokens of one sequence."""
        if self.table is not None:
            return paged(x, self.table[number], self.lengths[number])
        return np.asarray(x[self.at(number)])


def _list(values: Optional[Sequence[int]]) -> Optional[list[int]]:
    return None if values is None or len(values) == 0 else [int(v) for v in values]


def side(
    x: Array,
    layout: Optional[str],
    names: tuple[str, str],
    totals: Optional[Sequence[int]],
    used: Optional[Sequence[int]] = None,
    table: Optional[Array] = None,
) -> Side:
    """The sequences of a tensor: ``totals`` are running totals from 0 on (TND), ``used`` how many tokens count.

    ``names`` are those of the two arguments, for messages.
    """
    layout = layout or "BSND"
    ends, counts = _list(totals), _list(used)
    if layout.startswith("PA"):
        if table is None or counts is None:
            raise DataError(names[1], f"and the block table are required in layout {layout}")
        if len(table) < len(counts):
            raise DataError(names[1], f"has {len(counts)} items; the block table has {len(table)} rows")
        _check_lengths(names[1], counts, [table.shape[1] * x.shape[1]] * len(counts))
        return Side(layout, [0] * len(counts), counts, table)
    if layout == "TND":
        if ends is None:
            raise DataError(names[0], "is None; in layout TND it is required")
        if any(b < a for a, b in zip(ends, ends[1:])) or ends[0] < 0 or ends[-1] > len(x):
            raise DataError(names[0], f"is {tuple(ends)}; it must not decrease, nor exceed the {len(x)} tokens")
        there = [b - a for a, b in zip(ends, ends[1:])]
        starts = ends[:-1]
    else:
        there = [x.shape[1]] * len(x)
        starts = [0] * len(x)
    if counts is not None:
        _check_lengths(names[1], counts, there)
    return Side(layout, starts, counts or there, None)


def _check_lengths(name: str, counts: Sequence[int], most: Sequence[int]) -> None:
    if len(counts) != len(most):
        raise DataError(name, f"has {len(counts)} items; it must have {len(most)}")
    for number, (count, limit) in enumerate(zip(counts, most)):
        if not 0 <= count <= limit:
            raise DataError(name, f"element [{number}] is {count}; allowed: 0 to {limit}")


def from_zero(ends: Optional[Sequence[int]]) -> Optional[list[int]]:
    """Running totals with a leading 0, which older operators leave out."""
    totals = _list(ends)
    return None if totals is None else [0, *totals]


def seen_keys(queries: int, keys: int, ratio: int = 1, residual: int = 0, causal: bool = True) -> Array:
    """How many of the (compressed) keys each query sees, if its tokens are the last of the sequence.

    A compressed key stands for ``ratio`` tokens, and is seen with the last of them; ``residual`` tokens are left over.
    """
    if not causal:
        return np.full(queries, keys)
    position = keys * ratio + residual - queries + np.arange(queries) + 1
    return np.clip(position // ratio, 0, keys)


def joined(x: Array, rope: Optional[Array]) -> Array:
    """The part that is rotated beside the other one."""
    return x if rope is None or rope.size == 0 else np.concatenate([x, rope], -1)


def packed_parts(packed: Array, *parts: tuple[int, Any]) -> list[Array]:
    """The parts that lie side by side, byte by byte, in the last axis: (count, dtype) of each, count -1 for the rest."""
    raw = np.ascontiguousarray(packed)
    memory = raw.view(np.uint8).reshape(*raw.shape[:-1], raw.shape[-1] * raw.itemsize)
    views, start = [], 0
    for count, dtype in parts:
        dtype = np.dtype(dtype)
        if count < 0:
            count = (memory.shape[-1] - start) // dtype.itemsize
        end = start + count * dtype.itemsize
        if end > memory.shape[-1]:
            raise DataError("key", f"has {memory.shape[-1]} bytes in its last axis; at least {end} are needed")
        views.append(np.ascontiguousarray(memory[..., start:end]).view(dtype))
        start = end
    return views
