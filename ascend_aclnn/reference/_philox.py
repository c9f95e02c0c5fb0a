"""Philox 4x32 of 10 rounds, and the orders in which CANN's kernels give its words to the elements of a tensor.

The generator is that of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011): a key of two
words, the seed, and a counter of four, of which offset and place of an element take one half each.
"""

from __future__ import annotations

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import Array, for_blocks

_FACTORS, _KEY_STEPS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
_WORD, _HALF = np.uint64(2**32 - 1), np.uint64(32)
_CHUNK = 1 << 13  # counters that are worked on at a time
_BLOCK_THREADS, _MOST_BLOCKS = 256, 624  # of the virtual grid of kernels with one element per thread


def _fill(target: Array, key: int, low: Array, high: Array) -> None:
    c0, c1, c2, c3 = low & _WORD, low >> _HALF, high & _WORD, high >> _HALF
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    first, second = map(np.uint64, _FACTORS)
    for _ in range(10):
        p0, p1 = c0 * first, c2 * second
        c0 = p1 >> _HALF
        c0 ^= c1
        c0 ^= np.uint64(k0)
        c2 = p0 >> _HALF
        c2 ^= c3
        c2 ^= np.uint64(k1)
        p0 &= _WORD
        p1 &= _WORD
        c1, c3 = p1, p0
        k0, k1 = (k0 + _KEY_STEPS[0]) & 0xFFFFFFFF, (k1 + _KEY_STEPS[1]) & 0xFFFFFFFF
    for place, word in enumerate((c0, c1, c2, c3)):
        target[:, place] = word


def words(seed: int, low: Array, high: Array) -> Array:
    """The four words of each counter, (n, 4), whose lower and upper 64 bits are given."""
    low, high = np.broadcast_arrays(low.astype(np.uint64, copy=False), high.astype(np.uint64, copy=False))
    drawn = np.empty((len(low), 4), np.uint32)
    key = seed % 2**64

    def work(start: int, stop: int) -> None:
        for at in range(start, stop, _CHUNK):
            part = slice(at, min(at + _CHUNK, stop))
            if not native.philox(key, low[part], high[part], drawn[part]):
                _fill(drawn[part], key, low[part], high[part])

    for_blocks(len(drawn), _CHUNK, work)
    return drawn


def _number(value: int) -> Array:
    return np.array([value % 2**64], np.uint64)


def consecutive(seed: int, offset: int, start: int, count: int) -> Array:
    """Word after word of the counters 0, 1, 2, ... with the offset in the upper half, from a multiple of 4 on."""
    counters = np.arange(start // 4, -(-(start + count) // 4), dtype=np.uint64)
    return words(seed, counters, _number(offset)).reshape(-1)[:count]


def grid(count: int) -> int:
    """Threads in the kernels' virtual grid: 256 for each block of so many elements, 624 blocks at most."""
    return _BLOCK_THREADS * max(min(-(-count // _BLOCK_THREADS), _MOST_BLOCKS), 1)


def by_thread(seed: int, offset: int, count: int, width: int = 1) -> Array:
    """Each thread takes ``4 / width`` elements a grid apart from every counter, ``width`` words for each: (count, width).

    The thread stands in the upper half of the counter. From an offset that is no multiple of 4 threads begin in the
    middle of a counter's words.
    """
    threads, several = grid(count), 4 // width
    first, skipped = divmod(offset % 2**64, 4)
    rounds = max(-(-count // (threads * several)), 1)
    counters = np.arange(first, first + rounds + (skipped > 0), dtype=np.uint64)
    drawn = words(seed, np.repeat(counters, threads), np.tile(np.arange(threads, dtype=np.uint64), len(counters)))
    by_round = drawn.reshape(len(counters), threads, 4)
    if skipped:
        by_round = np.concatenate((by_round[:-1, :, skipped:], by_round[1:, :, :skipped]), 2)
    spread = by_round.reshape(rounds, threads, several, width).transpose(0, 2, 1, 3)
    return spread.reshape(-1, width)[:count]


def in_runs(seed: int, offset: int, count: int, threads: int, run: int) -> Array:
    """Each thread takes ``run`` elements in a row, all threads one after the other, and again; four words a counter."""
    step = min(run, 4)
    group = np.arange(-(-count // step), dtype=np.uint64)
    each = max(run // 4, 1)  # counters of a run
    place = group // np.uint64(each)
    low = place // np.uint64(threads) * np.uint64(each) + group % np.uint64(each) + _number(-(-offset // 4))
    return words(seed, low, place % np.uint64(threads))[:, :step].reshape(-1)[:count]


def up_to_one(drawn: Array) -> Array:
    """Words as float32 above 0, up to 1: word / 2^32 + 2^-33."""
    return drawn.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)


def below_one(drawn: Array, bits: int) -> Array:
    """The lowest bits of words as float32 from 0 up to but not 1: the mantissa of a number in [1, 2), less 1."""
    return (drawn & np.uint32(2**bits - 1)).astype(np.float32) * np.float32(2.0**-bits)
