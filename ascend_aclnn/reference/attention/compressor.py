"""Compression of keys: each group of ``ratio`` tokens becomes one row, weighed channel by channel by a softmax.

With coff 2 a group's row also takes the first halves of the group before it, which hold another projection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ascend_aclnn.numerics import Array, DataError, widen
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.attention._blocks import softmax, softmax_derivative


def _wide(x: Array) -> Array:
    return widen(x).astype(np.float32)


class _Piece(NamedTuple):
    """The tokens of one sequence that a call brings: where they lie, the position of the first."""

    number: int
    rows: slice  # of x, its lead axes flattened
    start: int

    @property
    def tokens(self) -> int:
        return int(self.rows.stop - self.rows.start)


def _pieces(args: NamedArguments) -> Iterator[_Piece]:
    lead, ends = args["x"].shape[:-1], args["cuSeqlens"]
    if len(lead) == 2:
        bounds = np.arange(lead[0] + 1) * lead[1]
    elif ends is None or not ends.size:
        raise DataError("cuSeqlensOptional", "is None; packed tokens need it")
    else:
        bounds = ends.reshape(-1)
    if (np.diff(bounds) < 0).any() or bounds[0] < 0 or bounds[-1] > np.prod(lead):
        raise DataError("cuSeqlensOptional", f"is {bounds}; it must rise to at most {np.prod(lead)}")
    used, starts = args["seqused"], args["startPos"]
    for number, (first, last) in enumerate(zip(bounds, bounds[1:])):
        for name, values in (("sequsedOptional", used), ("startPosOptional", starts)):
            if values is not None and values.size and (number >= values.size or values[number] < 0):
                raise DataError(name, f"is {values}; it must have a number from 0 on for each sequence")
        count = int(used[number]) if used is not None and used.size else int(last - first)
        if count > last - first:
            raise DataError("sequsedOptional", f"has {count} for sequence {number}, which has {last - first} tokens")
        start = int(starts[number]) if starts is not None and starts.size else 0
        yield _Piece(number, slice(int(first), int(first) + count), start)


def _grouped(x: Array, first: int, last: int, ratio: int, coff: int, empty: float) -> Array:
    """Of the groups from first to last (excluded) all rows that take part: groups, coff * ratio, width.

    x (positions, coff * width) begins at the group before the first if coff is 2, where there is one.
    """
    width = x.shape[1] // coff
    count = last - first
    current = (
        x[-count * ratio :].reshape(count, ratio, -1)[..., (coff - 1) * width :]
        if count
        else np.zeros((0, ratio, width))
    )
    if coff == 1:
        return np.asarray(current)
    previous = x[:, :width]
    if first == 0:
        previous = np.concatenate([np.full((ratio, width), empty, x.dtype), previous])
    return np.concatenate([previous[: count * ratio].reshape(count, ratio, width), current], 1)


class _State:
    """The projections of tokens, kept in pages (blocks, tokens, 2 * coff * width): keys, then scores with the bias."""

    def __init__(self, args: NamedArguments) -> None:
        self.cache, self.table, self.cyclic = args["stateCacheRef"], args["stateBlockTable"], args["cacheMode"] == 2
        if self.table is None:
            raise DataError("stateBlockTableOptional", "is None; the cache cannot be addressed without it")

    def _places(self, number: int, positions: Array) -> tuple[Array, Array]:
        table, size = np.atleast_1d(self.table), self.cache.shape[1]
        check_range("stateBlockTableOptional", np.array([number]), 0, len(table))
        if self.cyclic:
            pages = np.repeat(table.reshape(len(table), -1)[number, :1], len(positions))
        else:
            row = table[number].reshape(-1)
            check_range("stateBlockTableOptional", positions // size, 0, len(row))
            pages = row[positions // size]
        check_range("stateBlockTableOptional", pages, 0, len(self.cache))
        return pages, positions % size

    def read(self, number: int, positions: Array) -> Array:
        return np.asarray(self.cache[self._places(number, positions)])

    def write(self, number: int, positions: Array, rows: Array) -> None:
        """Page 0 is reserved: rows that would go there are not written."""
        pages, places = self._places(number, positions)
        there = pages != 0
        self.cache[pages[there], places[there]] = rows[there]


def _compress(args: NamedArguments, x: Array, wkv: Array, wgate: Array) -> dict[str, Any]:
    ratio, coff = args["cmpRatio"], args["coff"]
    tokens = x.reshape(-1, x.shape[-1])
    ape, state = args["ape"].astype(np.float32), _State(args)
    wide = len(wkv)
    compressed: list[tuple[int, Array, Array, Array]] = []
    for piece in _pieces(args):
        total = piece.start + piece.tokens
        positions = np.arange(piece.start, total)
        new_tokens = tokens[piece.rows]
        rows = np.concatenate([new_tokens @ wkv.T, new_tokens @ wgate.T + ape[positions % ratio]], 1)
        first, last = piece.start // ratio, total // ratio
        if last > first:
            begin = max(first - (coff - 1), 0) * ratio
            earlier = state.read(piece.number, np.arange(begin, piece.start))
            seen = np.concatenate([earlier, rows[: last * ratio - piece.start]])
            keys = _grouped(seen[:, :wide], first, last, ratio, coff, 0.0)
            weights = softmax(_grouped(seen[:, wide:], first, last, ratio, coff, -np.inf).swapaxes(1, 2)).probabilities
            weights = weights.swapaxes(1, 2)
            compressed.append((piece.number, (keys * weights).sum(1), weights, keys))
        first_cached = total - total % ratio - (coff - 1) * ratio if state.cyclic else 0
        there = positions >= first_cached
        state.write(piece.number, positions[there], rows[there])
    results: dict[str, Any] = {"stateCacheRef": args["stateCacheRef"]}
    return results | _laid_out(args, compressed, ratio, coff, wide // coff)


def _laid_out(args: NamedArguments, compressed: list[Any], ratio: int, coff: int, width: int) -> dict[str, Any]:
    """Group by group, in a batch or packed, the rest zero."""
    lead = args["x"].shape[:-1]
    if len(lead) == 2:
        groups: tuple[int, ...] = (lead[0], -(-lead[1] // ratio))
    else:
        groups = (min(lead[0], lead[0] // ratio + args["cuSeqlens"].size - 1),)
    shapes = (width,), (coff * ratio, width), (coff * ratio, width)
    outputs = [np.zeros((*groups, *shape), np.float32) for shape in shapes]
    done = 0
    for number, *parts in compressed:
        for target, part in zip(outputs, parts):
            if len(groups) == 2:
                target[number, : len(part)] = part
            else:
                target[done : done + len(part)] = part
        done += len(parts[0])
    return {"cmpKvOut": outputs[0], "softmaxScoreOut": outputs[1], "kvOut": outputs[2]}


@reference_by_name("aclnnCompressor", raw=True)
def compressor(args: NamedArguments) -> dict[str, Any]:
    """Sum over a group's tokens of keys * softmax(scores + ape), both projections of x; unfinished groups wait in the cache.

    kvOut is what the gradient needs, the keys of each group (the README calls it their product, for which the
    gradient's formulas would not hold).
    """
    results = _compress(args, *(_wide(args[name]) for name in ("x", "wkv", "wgate")))
    if not args["gradEnabled"]:
        results |= {"softmaxScoreOut": None, "kvOut": None}
    return results


@reference_by_name("aclnnQuantCompressor", raw=True)
def quant_compressor(args: NamedArguments) -> dict[str, Any]:
    """The same of operands that are numbers of 8 bits times their scales."""
    x, wkv, wgate = (_wide(args[name]) for name in ("x", "wkv", "wgate"))
    scales = [args[f"{name}Descale"] for name in ("x", "wkv", "wgate")]
    x, wkv, wgate = (
        part if scale is None else part * scale.reshape(-1, 1) for part, scale in zip((x, wkv, wgate), scales)
    )
    return _compress(args, x, wkv, wgate)


@reference_by_name("aclnnCompressorGrad", raw=True)
def compressor_grad(args: NamedArguments) -> dict[str, Any]:
    """Of the compression's operands: dKv = dC * S, dScore = S * (dC * kv - sum(S * dC * kv)), and their products."""
    ratio, coff = args["cmpRatio"], args["coff"]
    x, wkv, wgate, by_row = (_wide(args[name]) for name in ("x", "wkv", "wgate", "dCmpKv"))
    weights, keys = args["softmaxScore"], args["kv"]
    tokens, wide = x.reshape(-1, x.shape[-1]), len(wkv)
    width = wide // coff
    derivative = np.zeros((2, len(tokens), wide), np.float32)
    by_ape = np.zeros((ratio, wide), np.float32)
    done = 0
    for piece in _pieces(args):
        first, last = piece.start // ratio, (piece.start + piece.tokens) // ratio
        count = last - first
        pick: Any = (piece.number, slice(0, count)) if x.ndim == 3 else slice(done, done + count)
        done += count
        d, s, k = by_row[pick][:, None], weights[pick], keys[pick]
        if len(d) != count:
            raise DataError("dCmpKv", f"has fewer rows than the {done} groups of the sequences")
        by_score = softmax_derivative(s.swapaxes(1, 2), (d * k).swapaxes(1, 2)).swapaxes(1, 2)
        for number, part in enumerate((d * s, by_score)):
            for half in range(coff):
                begin = (first - (coff - 1) + half) * ratio  # the position of the first of these rows
                rows = part[:, half * ratio : (half + 1) * ratio].reshape(-1, width)
                positions = np.arange(begin, begin + len(rows))
                column = slice(half * width, (half + 1) * width)
                if number == 1:
                    there = positions >= 0
                    np.add.at(by_ape[:, column], positions[there] % ratio, rows[there])
                there = positions >= piece.start
                derivative[number, piece.rows.start + positions[there] - piece.start, column] += rows[there]
    return {
        "dXOut": (derivative[0] @ wkv + derivative[1] @ wgate).reshape(x.shape),
        "dWkvOut": derivative[0].T @ tokens,
        "dWgateOut": derivative[1].T @ tokens,
        "dApeOut": by_ape,
    }
