"""HansEncode and HansDecode: tensors without loss in fewer bytes, as the kernels of ops-math have the stream.

The highest byte of each element, which holds most of the exponent, is coded by its rank among the bytes that the
distribution says are common; the other bytes (the mantissas) are kept as they are. Each core has a part of the elements and of
``fixed``. It works through tiles of 64 rows by 64 elements and has a state for each of the 64 x 64 places: a row's states take as
many bits as its largest rank needs, and rows that have more than 16 bits give their lowest 16 away. A tile's words, then the 64
numbers of bits, are appended to the core's part; its states and what bits they hold come last, so decoding goes backwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference.declare import DataError, reference

_ROW, _ROWS = 64, 64
_TILE = _ROW * _ROWS
_TAIL = 2 * _TILE + 4 * _ROWS  # bytes of states and of their numbers of bits
_HEADER = 512  # bytes: a mark, cores, rows in all, coded, and left; from word 8 on bytes of each core, from 64 on elements left
_MARK = 12138  # added up by the cores
_SIZES, _LEFT = 8, 64
_LEAST = 32768  # elements of a core
_CORES = 48  # that take part at most, on Atlas A2 and A3 with all vector cores


def _ranks(pdf: Array) -> tuple[Array, Array]:
    """The bytes by falling frequency (those alike in their order), and the rank of each."""
    order = np.argsort(-pdf.reshape(-1).astype(np.int64), kind="stable")
    rank = np.empty(256, np.int64)
    rank[order] = np.arange(256)
    return order, rank


def _bits(ranks: Array) -> Array:
    """How many bits each row's largest rank needs, one at least."""
    most = ranks.max(-1, initial=0)
    return np.asarray(np.maximum(np.ceil(np.log2(most + 1)).astype(np.int64), 1))


class _Coder:
    """One core's stream while it is written."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.states, self.held = np.zeros((_ROWS, _ROW), np.int64), np.zeros(_ROWS, np.int64)
        self.words: list[Array] = []
        self.size = 0

    def fits(self, bits: Array) -> bool:
        """False if the words of such a row, and the states after them, would be more than the room."""
        if self.size + _TAIL <= self.room - _TAIL:
            return True
        emitted = int((self.held + bits > 16).sum())
        return self.size + 4 * _ROWS + 2 * _ROW * emitted <= self.room - _TAIL

    def add(self, ranks: Array) -> bool:
        """Codes a tile of ranks (rows, 64); False where it does not fit."""
        bits = np.zeros(_ROWS, np.int64)
        bits[: len(ranks)] = _bits(ranks)
        if not self.fits(bits):
            return False
        rows = slice(len(ranks))
        self.states[rows] = (self.states[rows] << bits[rows, None]) + ranks
        self.held += bits
        full = self.held > 16
        self.words += [self.states[full].reshape(-1) & 0xFFFF, bits]
        self.states[full] >>= 16
        self.held[full] -= 16
        self.size += 2 * (_ROW * int(full.sum()) + _ROWS)
        return True

    def bytes(self) -> Array:
        self.size += _TAIL
        words = np.concatenate([*self.words, self.states.reshape(-1)]).astype("<u2")
        return np.concatenate([words.view(np.uint8), self.held.astype("<i4").view(np.uint8)])


def _parts(count: int, cores: int) -> Iterator[slice]:
    """The elements of each core, in whole rows; the last one has the rest."""
    each = count // _ROW // cores * _ROW
    return (slice(core * each, count if core == cores - 1 else (core + 1) * each) for core in range(cores))


def _bytes(x: Array) -> Array:
    """The bytes of each element, the highest one last: (elements, width)."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(np.uint8).reshape(flat.size, x.dtype.itemsize)


def _fill(out: Array, data: Array) -> None:
    """Bytes into an output of any data type, zeros after them."""
    stored = np.zeros(out.size * out.dtype.itemsize, np.uint8)
    stored[: data.size] = data
    np.copyto(out, stored.view(out.dtype).reshape(out.shape))


@reference("aclnnHansEncode", raw=True)
def hans_encode(x: Array, pdf: Array, statistic: bool, reshuff: bool, *, out: Sequence[Array]) -> None:
    """``statistic`` counts the distribution first; ``reshuff`` lays the cores' streams side by side.

    Without it a core that has no room left puts the highest bytes of its other elements into varOut, as they are.
    """
    pdf_out, mantissa, fixed, rest = out
    parts = _bytes(x)
    high = parts[:, -1]
    counts = np.bincount(high, minlength=256).astype(np.int32) if statistic else pdf.reshape(-1)
    _, rank = _ranks(counts)
    cores = min(high.size // _LEAST, _CORES)
    size = fixed.size * fixed.dtype.itemsize
    if reshuff:  # as much room as the worst case takes
        size = high.size + high.size // _ROW + _TAIL * cores + _HEADER
    each = (size - _HEADER) // cores
    header = np.zeros(_HEADER // 4, np.int32)
    streams, left = [], []
    for core, part in enumerate(_parts(high.size, cores)):
        room = size - _HEADER - each * (cores - 1) if core == cores - 1 else each
        coder, ranks, done = _Coder(room), rank[high[part]], 0
        if room >= _TAIL:
            while done < ranks.size and coder.add(ranks[done : done + _TILE].reshape(-1, _ROW)):
                done = min(done + _TILE, ranks.size)
            streams.append(coder.bytes())
        else:
            streams.append(np.empty(0, np.uint8))
        left.append(high[part][done:])
        header[:5] += (_MARK, 1, ranks.size // _ROW, done // _ROW, (ranks.size - done) // _ROW)
        header[_SIZES + core] = streams[-1].size
        header[_LEFT + core] = left[-1].size
    stored = np.zeros(size, np.uint8)
    stored[:_HEADER] = header.view(np.uint8)
    start = _HEADER
    for core, stream in enumerate(streams):
        at = start if reshuff else _HEADER + core * each
        stored[at : at + stream.size] = stream
        start += stream.size
    _fill(fixed, stored[: fixed.size * fixed.dtype.itemsize])
    _fill(mantissa, parts[:, :-1].reshape(-1))
    _fill(rest, np.concatenate(left))
    np.copyto(pdf_out, counts.reshape(pdf_out.shape))


class _Stream(NamedTuple):
    """A core's stream, and where its elements lie."""

    data: Array
    coded: int  # elements
    elements: slice

    def ranks(self) -> Array:
        """The coded ranks, tile by tile from the last one."""
        words = self.data[: self.data.size - 4 * _ROWS].view("<u2")
        held = self.data[self.data.size - 4 * _ROWS :].view("<i4").astype(np.int64)
        end = words.size - _TILE
        states = words[end:].astype(np.int64).reshape(_ROWS, _ROW)
        ranks = np.empty((self.coded // _ROW, _ROW), np.int64)
        for tile in reversed(range(-(-self.coded // _TILE))):
            rows = ranks[tile * _ROWS : (tile + 1) * _ROWS]
            bits = words[end - _ROWS : end].astype(np.int64)
            held = held - bits
            refilled = (held <= 0) & (tile > 0)  # rows that gave 16 bits away after this tile
            end -= _ROWS + _ROW * int(refilled.sum())
            if end < 0:
                raise DataError("fixed", "ends before all elements are decoded: HansEncode has not written it")
            low = words[end : end + _ROW * int(refilled.sum())].reshape(-1, _ROW)
            states[refilled] = states[refilled] << 16 | low
            held[refilled] += 16
            rows[...] = states[: len(rows)] & ((1 << bits[: len(rows), None]) - 1)
            states >>= bits[:, None]
        return ranks.reshape(-1)


def _streams(fixed: Array, count: int, reshuff: bool) -> Iterator[_Stream]:
    data = _bytes(fixed).reshape(-1)
    header = data[:_HEADER].view("<i4")
    cores = int(header[1])
    if not 0 < cores <= _LEFT - _SIZES or header[0] != _MARK * cores or header[2] * _ROW != count:
        raise DataError("fixed", f"has no header of HansEncode for {count} elements")
    each, start = (data.size - _HEADER) // cores, _HEADER
    for core, part in enumerate(_parts(count, cores)):
        size, left = int(header[_SIZES + core]), int(header[_LEFT + core])
        at = start if reshuff else _HEADER + core * each
        start += size
        coded = part.stop - part.start - left
        if size < 0 or at + size > data.size or left < 0 or coded < 0 or (coded and size < _TAIL):
            raise DataError("fixed", f"has a header that gives core {core} {size} bytes for {coded} elements")
        yield _Stream(np.array(data[at : at + size]), coded, part)


@reference("aclnnHansDecode", raw=True)
def hans_decode(mantissa: Array, fixed: Array, rest: Array, pdf: Array, reshuff: bool, *, out: tuple[Array]) -> None:
    """The inverse of HansEncode; how many cores took part is in the header of ``fixed``."""
    width = out[0].dtype.itemsize
    parts = np.empty((out[0].size, width), np.uint8)
    parts[:, :-1] = _bytes(mantissa).reshape(-1)[: parts.shape[0] * (width - 1)].reshape(-1, width - 1)
    order, _ = _ranks(pdf)
    others, taken = _bytes(rest).reshape(-1), 0
    for stream in _streams(fixed, len(parts), reshuff):
        high = parts[stream.elements, -1]
        if stream.coded:
            ranks = stream.ranks()
            if ranks.max() > 255:
                raise DataError("fixed", "holds ranks beyond 255: HansEncode has not written it")
            high[: stream.coded] = order[ranks]
        left = high.size - stream.coded
        if taken + left > others.size:
            raise DataError("var", f"has {others.size} bytes; the header of fixed says {taken + left} are in use")
        high[stream.coded :] = others[taken : taken + left]
        taken += left
    np.copyto(out[0], parts.reshape(-1).view(out[0].dtype).reshape(out[0].shape))
