"""Caches of pages that operators write row by row: plain, fractal, or blocks of whole pages."""

from __future__ import annotations

import math
from typing import Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, codes, round_into
from ascend_aclnn.reference._rows import check_range

_FRACTAL = 32  # bytes of the last axis of a fractal


def fractal(cache: Array, width: int) -> Array:
    """A page's rows of a fractal cache (pages, tokens, heads, width), whose memory is (pages, heads * width / c, tokens, c)."""
    pages, tokens = cache.shape[:2]
    part = _FRACTAL // cache.dtype.itemsize
    return cache.reshape(pages, width // part, tokens, part)


def write_rows(cache: Array, rows: Array, slots: Array, name: str, nz: bool = False, skip: bool = True) -> None:
    """Rows (count, ...) at their slots of a cache (pages, tokens, ...), rounded; slots below 0 are skipped.

    With ``nz`` the memory of each page is fractal. Without ``skip`` a slot below 0 is bad data.
    """
    if cache.size == 0:
        return
    slots = slots.reshape(-1)
    size = cache.shape[1]
    check_range(name, slots, -1 if skip else 0, len(cache) * size)
    width = math.prod(cache.shape[2:])
    if rows.dtype == cache.dtype and cache.flags.c_contiguous and not nz and rows.size == slots.size * width:
        plain, whole = codes(rows).reshape(-1, width), codes(cache).reshape(-1, width)
        written = slots >= 0
        if written.all():
            whole[slots] = plain
        else:
            whole[slots[written]] = plain[written]
        return
    there = np.flatnonzero(slots >= 0)
    page, place = np.divmod(slots[there], size)
    stored = rows.reshape(len(rows), math.prod(rows.shape[1:]))[there]
    target = np.empty((len(there), int(np.prod(cache.shape[2:]))), cache.dtype)
    if stored.shape != target.shape:
        raise DataError(name, f"addresses rows of {target.shape[1]} elements; the results have {stored.shape[1]}")
    round_into(target, np.ascontiguousarray(stored))
    if not nz:
        cache[page, place] = target.reshape(len(there), *cache.shape[2:])
        return
    view = fractal(cache, target.shape[1])
    view[page, :, place] = target.reshape(len(there), view.shape[1], view.shape[3])
    if not np.may_share_memory(view, cache):
        cache[...] = view.reshape(cache.shape)


def slots_of_blocks(index: Array, lengths: list[int], size: int, name: str) -> Array:
    """The slots of all tokens, sequence by sequence, whose pages of ``size`` tokens an index names one by one."""
    flat, slots, start = index.reshape(-1), [], 0
    for length in lengths:
        pages = flat[start : start + -(-length // size)]
        if len(pages) < -(-length // size):
            raise DataError(name, f"has {len(flat)} items; the sequences have more pages")
        start += len(pages)
        place = np.arange(length)
        slots.append(np.where(pages[place // size] < 0, -1, pages[place // size] * size + place % size))
    return np.concatenate(slots) if slots else np.zeros(0, np.int64)


def lengths_of(ends: Optional[Array], lead: tuple[int, ...]) -> list[int]:
    """Of the sequences: by running totals, or a batch (batch, tokens) of them."""
    if ends is not None and ends.size:
        return [int(n) for n in np.diff(np.concatenate([[0], ends.reshape(-1)]))]
    return [lead[-1]] * (lead[0] if len(lead) == 2 else 1)
