"""What is computed of weights, once as long as their bytes stay the same.

Operators, copies and the client itself write device memory, and not every write can be observed. So each use compares the
weights with a copy, which takes a fraction of the time of restoring them.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Hashable
from typing import Callable, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array

LEAST = 1 << 16  # elements of the first array: what is smaller is computed each time
LIMIT = 256 << 20  # bytes of copies and results together
IDLE = 60.0  # seconds after which a result makes room for another one

Function = Callable[..., Array]


class _Result(NamedTuple):
    arrays: list[Optional[Array]]
    value: Array

    @property
    def nbytes(self) -> int:
        return self.value.nbytes + _bytes(self.arrays)


_compare = ctypes.CDLL(None).memcmp
_compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

_results: dict[Hashable, _Result] = {}
_used: dict[Hashable, float] = {}
_lock = threading.Lock()


def of_unchanged(function: Function, arrays: list[Optional[Array]], *options: Hashable) -> Array:
    """``function(*arrays, *options)``, to be read only: an earlier result where all bytes of the arrays are those of then."""
    first = arrays[0]
    if first is None or first.size < LEAST:
        return function(*arrays, *options)
    key = (function, options, *map(_description, arrays))
    with _lock:
        known = _results.get(key)
        if known is not None:
            _used[key] = time.monotonic()
    if known is not None and all(map(_same, arrays, known.arrays)):
        return known.value
    with _lock:
        _results.pop(key, None)
        _used.pop(key, None)
        fits = _make_room(_bytes(arrays))
    # Of the copies, which no other thread writes: the result is theirs. What does not fit is not copied.
    copies = [None if array is None else array.copy(order="K") for array in arrays] if fits else arrays
    value = np.ascontiguousarray(function(*copies, *options))
    value.flags.writeable = False
    with _lock:
        if fits and _make_room(_Result(copies, value).nbytes):
            _results[key], _used[key] = _Result(copies, value), time.monotonic()
    return value


def _bytes(arrays: list[Optional[Array]]) -> int:
    return sum(array.nbytes for array in arrays if array is not None)


def _make_room(nbytes: int) -> bool:
    """Forgets results that were not used for a while, the longest unused first, until so many bytes fit; False if they do not.

    A result in use stays: weights that are used in turn and do not fit would push each other out, every time.
    """
    held = sum(result.nbytes for result in _results.values())
    before = time.monotonic() - IDLE
    for key in sorted(_results, key=_used.__getitem__):
        if held + nbytes <= LIMIT or _used[key] > before:
            break
        held -= _results.pop(key).nbytes
        del _used[key]
    return held + nbytes <= LIMIT


def _codes(array: Array) -> Array:
    return array.view(np.dtype(f"u{array.itemsize}"))


def _description(array: Optional[Array]) -> Hashable:
    """What tells weights of one shape apart: some of their bytes."""
    if array is None:
        return None
    sample = array[tuple(slice(None, None, max(size // 8, 1)) for size in array.shape)]
    return array.shape, array.dtype, _codes(sample).tobytes()


def _same(array: Optional[Array], copy: Optional[Array]) -> bool:
    if array is None or copy is None:
        return array is copy
    ordered = array.flags.c_contiguous and copy.flags.c_contiguous
    if ordered or (array.flags.f_contiguous and copy.flags.f_contiguous):  # NumPy takes twice as long
        at, kept = (x.__array_interface__["data"][0] for x in (array, copy))
        return not _compare(at, kept, array.nbytes)
    return bool((_codes(array) == _codes(copy)).all())
