"""Attention with a softmax over whole rows, and its gradient: what the references of attention compute with.

The device multiplies probabilities that were rounded to the input's type, block by block; here everything between the
inputs and the outputs is float32, but for scores of attention in halves (``Attention.halves``).
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import Array, DataError, for_blocks, is_low_precision, widen

# Where batch (b), sequence (s), heads (n) and their width (d) stand in each layout; h is n and d in one axis.
_LAYOUTS = ("BSH", "SBH", "BSND", "BNSD")

# How the mask is meant: see the document of each mode.
_DEFAULT, _ALL, _LEFT_UP, _RIGHT_DOWN, _BAND, _PREFIX, _PREFIX_COMPRESSED = range(7)

# How a bias (pse) enters: type 1 before the scaling, 0 after it; 2 and 3 make it from one slope per head.
_BIAS_AFTER, _BIAS_BEFORE, _SLOPES, _ROOT_SLOPES = range(4)
SLOPE_TYPES = (_SLOPES, _ROOT_SLOPES)  # of a bias that is made from one slope per head

_LARGEST_HALF = np.float32(65504)
LEAST = np.finfo(np.float32).min  # of the maxima: the output of a query that sees no key is zero
_SCORES = 1 << 20  # elements of one block of scores
_GRADIENT_SCORES = 1 << 22  # the same for gradients of keys and values, which are added up block by block
_ROWS = 64  # BLAS multiplies blocks of so many rows as it multiplies the whole
_TOGETHER = 1 << 17  # elements of scores up to which heads, and then batches, are computed together
_WIDENED = 1 << 19  # elements of keys that are widened together
COPIES = 8  # softmaxMax and softmaxSum hold each number so many times


def heads_first(tensor: Array, layout: str, heads: int) -> Array:
    """A view with axes batch, head, sequence, width."""
    if layout not in _LAYOUTS:
        raise DataError("inputLayout", f"is {layout!r}; allowed: {', '.join(_LAYOUTS)}")
    if layout == "BNSD":
        return tensor
    if layout == "SBH":
        tensor = tensor.swapaxes(0, 1)
    if layout != "BSND":
        tensor = tensor.reshape(*tensor.shape[:2], heads, tensor.shape[2] // heads)
    view: Array = tensor.swapaxes(1, 2)
    return view


def in_layout(tensor: Array, layout: str) -> Array:
    """The reverse of ``heads_first``."""
    if layout == "BNSD":
        return tensor
    tensor = tensor.swapaxes(1, 2)
    if layout != "BSND":
        tensor = tensor.reshape(*tensor.shape[:2], -1)
    return tensor.swapaxes(0, 1) if layout == "SBH" else tensor


def _grouped(x: Array, heads: int) -> Array:
    """A view with the queries' heads beside the heads of the keys that they share: batch, keys' heads, share, ..."""
    share = x.shape[1] // max(1, heads)
    return x[:, : heads * share].reshape(x.shape[0], heads, share, *x.shape[2:])


class _HeadBlock(NamedTuple):
    """What is computed together: several batches with all heads, or heads of one batch, or query rows of one key head."""

    batches: slice
    heads: slice  # of the keys
    rows: slice


class _Masking(NamedTuple):
    """Which keys a query sees."""

    mask: Optional[Array]  # 1: hidden; (batch, heads, queries, keys), or fewer axes
    mode: int
    before: int
    after: int
    prefix: Optional[tuple[int, ...]]

    def hidden(self, block: _HeadBlock, queries: int, heads: int, keys: int) -> Any:
        """True where a query of the block does not see a key; broadcasts to the scores."""
        if self.mask is None or (self.mode == _RIGHT_DOWN and queries == 1):  # the last query sees all keys
            return None
        i, j = np.arange(queries)[block.rows, None], np.arange(keys)
        late = keys - queries  # offset of the diagonal: the last query sees the last key
        if self.mode == _LEFT_UP:
            return j > i
        if self.mode == _RIGHT_DOWN:
            return j > i + late
        if self.mode == _BAND:
            return (j > i + late + self.after) | (j < i + late - self.before)
        if self.mode == _PREFIX_COMPRESSED:
            if self.prefix is None:
                return j > i + late
            prefix = np.asarray(self.prefix)[block.batches, None, None, None, None]
            return (j > i + late) & (j >= prefix)
        shape = (1,) * (4 - self.mask.ndim) + self.mask.shape
        mask = self.mask.reshape(shape)[block.batches if shape[0] > 1 else slice(None)]
        mask = _grouped(mask, heads)[:, block.heads] if shape[1] > 1 else mask[:, None]
        part: Array = mask[..., block.rows, :] != 0
        return part | (j > i + self.after) | (j < i - self.before) if self.mode == _DEFAULT else part


class _Bias(NamedTuple):
    """What is added to the scores."""

    values: Optional[Array]
    type: int
    starts: tuple[int, int]  # positions of the first query and key, for slopes

    def of(self, block: _HeadBlock, queries: int, heads: int, keys: int) -> Any:
        """The bias of the block; broadcasts to the scores."""
        values = self.values
        if values is None:
            return None
        if self.type in SLOPE_TYPES:
            slopes = _grouped(values if values.ndim == 2 else values[None], heads)
            if len(slopes) > 1:
                slopes = slopes[block.batches]
            i, j = np.arange(queries)[block.rows, None] + self.starts[0], np.arange(keys) + self.starts[1]
            distance = np.abs(i - j).astype(np.float32)
            return -slopes[:, block.heads, :, None, None] * (distance if self.type == _SLOPES else np.sqrt(distance))
        part = _grouped(values[block.batches] if len(values) > 1 else values, heads)[:, block.heads]
        return part[..., block.rows, :] if part.shape[3] == queries else part


def _round_to_halves(scores: Array) -> None:
    np.copyto(scores, np.clip(scores, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16))


class Attention(NamedTuple):
    """One attention: operands with heads first, scaling, mask, bias and dropout.

    Keys and values may be of low precision for ``forward`` alone, which widens one block at a time.
    """

    query: Array
    key: Array
    value: Array
    scale: float
    keep_prob: float
    masking: _Masking
    bias: _Bias
    drop_mask: Optional[Array]  # one bit per score; 1: kept
    halves: bool = False  # products and scaled products are rounded to FLOAT16 (saturated), as the cube's output is

    def blocks(self, most: int = _SCORES) -> list[list[_HeadBlock]]:
        """All scores, in lists of blocks of at most so many, or of ``_ROWS`` queries.

        The blocks of one list share their keys and are computed one after the other.
        """
        batches, queries, heads, keys = len(self.query), self.query.shape[2], self.key.shape[1], self.key.shape[2]
        size = max(1, self.query.shape[1] // max(1, heads) * queries * keys)  # scores of one key head
        together = min(max(1, _TOGETHER // size), max(1, heads))
        several = max(1, _TOGETHER // (size * heads)) if together == heads else 1
        if is_low_precision(self.key.dtype):  # each block widens its keys
            fitting = max(1, _WIDENED // max(1, keys * self.key.shape[3]))
            together, several = min(together, fitting), max(1, min(several, fitting // max(1, heads)))
        step = max(1, min(queries, most * queries // size))
        step = max(_ROWS, step - step % _ROWS) if step < queries else step
        return [
            [
                _HeadBlock(
                    slice(batch, min(batch + several, batches)),
                    slice(head, min(head + together, heads)),
                    slice(row, min(row + step, queries)),
                )
                for row in range(0, queries, step)
            ]
            for batch in range(0, batches, several)
            for head in range(0, heads, together)
        ]

    def scores(self, block: _HeadBlock) -> tuple[Array, Optional[Array]]:
        """Scaled products with bias (batch, key head, share, query, key), and the mask of hidden keys."""
        queries, heads, keys = self.query.shape[2], self.key.shape[1], self.key.shape[2]
        query = _grouped(self.query, heads)[block.batches, block.heads, :, block.rows]
        key = widen(self.key[block.batches, block.heads])[:, :, None]
        scores = np.matmul(query, key.swapaxes(-1, -2))
        if self.halves:
            _round_to_halves(scores)
        bias = self.bias.of(block, queries, heads, keys)
        if bias is not None and self.bias.type == _BIAS_BEFORE:
            scores += bias
        scores *= np.float32(self.scale)
        if self.halves:
            _round_to_halves(scores)
        if bias is not None and self.bias.type != _BIAS_BEFORE:
            scores += bias
        return scores, self.masking.hidden(block, queries, heads, keys)

    def dropout_factors(self, block: _HeadBlock, shape: tuple[int, ...]) -> Optional[Array]:
        """The factors by which dropout multiplies the probabilities of a block: 0 or 1 / keep_prob."""
        if self.drop_mask is None:
            return None
        heads, queries, keys = self.query.shape[1], self.query.shape[2], self.key.shape[2]
        factors = np.empty(shape, np.float32)
        # The bits of a block are contiguous unless it has only some query rows of each head.
        runs = factors.reshape(1 if shape[3] == queries else shape[2], -1)
        head = block.batches.start * heads + block.heads.start * shape[2]
        for number, run in enumerate(runs):
            first = ((head + number) * queries + block.rows.start) * keys
            packed = self.drop_mask[first // 8 : -(-(first + run.size) // 8)]
            run[:] = np.unpackbits(packed, bitorder="little")[first % 8 : first % 8 + run.size]
        factors /= np.float32(self.keep_prob)
        return factors


def attention_of(
    query: Array,
    key: Array,
    value: Array,
    bias: Optional[Array],
    drop_mask: Optional[Array],
    mask: Optional[Array],
    prefix: Optional[tuple[int, ...]],
    starts: tuple[Optional[tuple[int, ...]], Optional[tuple[int, ...]]],
    scale: float,
    keep_prob: float,
    before: int,
    after: int,
    heads: int,
    layout: str,
    mode: int,
    bias_type: Optional[int],
) -> Attention:
    """The attention of these arguments. Versions without ``pseType`` add the bias before the scaling."""
    if mode not in range(7):
        raise DataError("sparseMode", f"is {mode}; allowed: 0 to 6")
    q = heads_first(query, layout, heads)
    shared = key.shape[2] // max(1, q.shape[3]) if layout in ("BSH", "SBH") else 0
    k = heads_first(key, layout, shared)
    v = heads_first(value, layout, shared)
    first = tuple(start[0] if start else 0 for start in starts)
    bias_values = None if bias is None or bias.size == 0 else bias
    return Attention(
        q,
        k,
        v,
        scale,
        keep_prob,
        _Masking(None if mask is None or mask.size == 0 else mask, mode, before, after, prefix),
        _Bias(bias_values, _BIAS_BEFORE if bias_type is None else bias_type, (first[0], first[1])),
        None if drop_mask is None or drop_mask.size == 0 or keep_prob >= 1 else drop_mask.reshape(-1).view(np.uint8),
    )


def exponentials(scores: Array) -> tuple[Array, Array]:
    """Scores become exp(score - the row's largest), in place; the largest ones, at least LEAST, and the rows' sums."""
    found = native.exponentials(scores, LEAST)
    if found is not None:
        return found
    largest = scores.max(-1, keepdims=True, initial=-np.inf)
    np.maximum(largest, LEAST, out=largest)
    scores -= largest
    np.exp(scores, out=scores)
    return largest, scores.sum(-1, keepdims=True)


def forward(attention: Attention, layout: str) -> tuple[Array, Array, None, Array]:
    query, value, heads = attention.query, attention.value, attention.key.shape[1]
    output = np.zeros((*query.shape[:3], value.shape[3]), np.float32)
    row_max = np.zeros((*query.shape[:3], COPIES), np.float32)
    row_sum = np.zeros_like(row_max)
    outputs, row_maxima, row_sums = (_grouped(x, heads) for x in (output, row_max, row_sum))
    blocks = attention.blocks()

    def run(low: int, high: int) -> None:
        for block in itertools.chain(*blocks[low:high]):
            rows = (block.batches, block.heads, slice(None), block.rows)
            scores, hidden = attention.scores(block)
            if hidden is not None:
                np.copyto(scores, -np.inf, where=hidden)
            block_max, exp_sum = exponentials(scores)
            factors = attention.dropout_factors(block, scores.shape)
            if factors is not None:
                scores *= factors
            divisor = np.where(exp_sum == 0, np.float32(1), exp_sum)
            outputs[rows] = np.matmul(scores, widen(value[block.batches, block.heads])[:, :, None]) / divisor
            row_maxima[rows] = block_max
            row_sums[rows] = exp_sum
            del scores, factors  # before the next block's

    for_blocks(len(blocks), 1, run)
    return row_max, row_sum, None, in_layout(output, layout)


def backward(
    attention: Attention,
    grad: Array,
    row_max: Optional[Array],
    row_sum: Optional[Array],
    output: Optional[Array],
    layout: str,
    heads: int,
) -> tuple[Array, Array, Array, Optional[Array]]:
    """Gradients of query, key, value and bias.

    Maxima, sums and output may be those of a longer sequence of keys (ring attention): then every key has its gradient
    of the whole, and ``dq`` is this block's share. What is absent is computed from the keys that are there.
    """
    query, key, value = attention.query, attention.key, attention.value
    shared = key.shape[1]
    dq, dk, dv = (np.zeros(x.shape, np.float32) for x in (query, key, value))
    dbias = None
    if attention.bias.values is not None and attention.bias.type in (_BIAS_BEFORE, _BIAS_AFTER):
        dbias = np.zeros((*query.shape[:3], key.shape[2]), np.float32)
    queries, dqs, dys = (_grouped(x, shared) for x in (query, dq, heads_first(grad, layout, heads)))
    deltas = None
    if output is not None and output.size:
        products = heads_first(grad, layout, heads) * heads_first(output, layout, heads)
        deltas = _grouped(products.sum(-1, keepdims=True), shared)
    blocks = attention.blocks(_GRADIENT_SCORES)

    def run(low: int, high: int) -> None:
        for block in itertools.chain(*blocks[low:high]):
            rows, keys = (block.batches, block.heads, slice(None), block.rows), (block.batches, block.heads)
            probs, hidden = attention.scores(block)
            if hidden is not None:
                np.copyto(probs, -np.inf, where=hidden)
            if row_max is None or row_sum is None or row_max.size == 0:
                _, exp_sum = exponentials(probs)
            else:
                probs -= _grouped(row_max, shared)[rows][..., :1]
                np.exp(probs, out=probs)
                exp_sum = _grouped(row_sum, shared)[rows][..., :1]
            probs /= np.where(exp_sum == 0, np.float32(1), exp_sum)
            dscores = np.matmul(dys[rows], value[keys][:, :, None].swapaxes(-1, -2))
            factors = attention.dropout_factors(block, dscores.shape)
            if factors is not None:
                dscores *= factors
            dropped = probs if factors is None else probs * factors
            dv[keys] += _over_queries(dropped, dys[rows])
            dscores -= (dscores * probs).sum(-1, keepdims=True) if deltas is None else deltas[rows]
            dscores *= probs
            if dbias is not None:
                before = attention.bias.type == _BIAS_BEFORE
                _grouped(dbias, shared)[rows] = dscores * np.float32(attention.scale) if before else dscores
            dscores *= np.float32(attention.scale)
            dqs[rows] = np.matmul(dscores, key[keys][:, :, None])
            dk[keys] += _over_queries(dscores, queries[rows])

    for_blocks(len(blocks), 1, run)
    if dbias is not None and attention.bias.values is not None:
        bias_shape = attention.bias.values.shape
        axes = tuple(axis for axis, size in enumerate(bias_shape) if size == 1 and dbias.shape[axis] != 1)
        dbias = dbias.sum(axes, keepdims=True)
    return in_layout(dq, layout), in_layout(dk, layout), in_layout(dv, layout), dbias


def _over_queries(weights: Array, x: Array) -> Array:
    """The sum over all queries that share a head: of (..., share, query, key) and (..., share, query, width)."""
    weights, x = (a.reshape(*a.shape[:2], a.shape[2] * a.shape[3], a.shape[4]) for a in (weights, x))
    result: Array = np.matmul(x.swapaxes(-1, -2), weights).swapaxes(-1, -2)
    return result


def with_sink(sink: Array, row_max: Array, row_sum: Array, output: Array) -> tuple[Array, Array, Array]:
    """Row maxima, row sums and output with a sink: one more score per head, without a value. Heads lie in axis -2."""
    score = sink[:, None]
    new_max = np.maximum(row_max, score)
    scaled_sum = row_sum * np.exp(row_max - new_max)
    new_sum = scaled_sum + np.exp(score - new_max)
    return new_max, new_sum, output * (scaled_sum / new_sum)[..., :1]


def sink_gradient(sink: Array, row_max: Array, row_sum: Array, grad: Array, output: Array) -> Array:
    """The gradient of the sink. Heads lie in axis -2 of all arguments."""
    share = np.exp(sink - row_max[..., 0]) / row_sum[..., 0]
    dscore = -share * (grad * output).sum(-1)
    return np.asarray(dscore.reshape(-1, len(sink)).sum(0))
