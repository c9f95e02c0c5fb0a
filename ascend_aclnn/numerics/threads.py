"""Blocks of work on several threads, and memory that a thread keeps from block to block."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Array = npt.NDArray[Any]

_NAME = "ascend-aclnn-compute"
_lock = threading.Lock()
_pool: Optional[ThreadPoolExecutor] = None
_pool_size = 0


def _forget_pool() -> None:
    """A forked child has none of its parent's threads."""
    global _pool, _pool_size, _lock
    _lock = threading.Lock()
    _pool, _pool_size = None, 0


os.register_at_fork(after_in_child=_forget_pool)


def thread_count() -> int:
    """Threads for a computation: ``ASCEND_ACLNN_THREADS``, at most (and by default) the cores we may run on."""
    cores = len(os.sched_getaffinity(0))
    wanted = os.environ.get("ASCEND_ACLNN_THREADS", "").strip()
    if not wanted:
        return cores
    if not wanted.isdigit() or int(wanted) < 1:
        raise ValueError(f"ASCEND_ACLNN_THREADS is {wanted!r}; allowed: a whole number from 1 on")
    return min(int(wanted), cores)


def _start_helpers(work: Callable[[], None], count: int) -> list[Future[None]]:
    global _pool, _pool_size
    futures: list[Future[None]] = []
    try:
        from concurrent.futures import ThreadPoolExecutor
    except RuntimeError:  # the interpreter is shutting down
        return futures
    with _lock:
        if _pool_size < count:
            if _pool is not None:
                _pool.shutdown(wait=False)  # what was submitted still runs
            _pool, _pool_size = ThreadPoolExecutor(count, thread_name_prefix=_NAME), count
        while _pool is not None and len(futures) < count:
            try:
                futures.append(_pool.submit(work))
            except RuntimeError:  # the interpreter is shutting down: the caller does the work alone
                break
    return futures


@functools.cache
def _keep_freed_memory() -> None:
    """Lets malloc hand out the memory of a freed block again, where it would give it back to the system and ask anew.

    glibc takes the size of a large allocation that is freed for the one to expect (M_MMAP_THRESHOLD in mallopt(3)). One of
    30 MiB, which nobody touches, halves the time of work in blocks: their temporaries meet no fresh pages any more.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.free(libc.malloc(30 << 20))


def for_blocks(n: int, block: int, fn: Callable[[int, int], None]) -> None:
    """Calls ``fn(lo, hi)`` for each block of ``range(n)``, on several threads where there is more than one block.

    Blocks run in any order, so they must not depend on each other. The first exception stops the rest and is raised
    here. Floating-point warnings are off inside, as on the device. Called from within a block, it stays on that thread.
    """
    block = max(1, block)
    if n <= block:
        if n > 0:
            with np.errstate(all="ignore"):
                fn(0, n)
        return
    _keep_freed_memory()
    blocks = -(-n // block)
    numbers = itertools.count()
    guard = threading.Lock()
    failures: list[BaseException] = []
    within = getattr(_local, "within", False)

    def work() -> None:
        _local.within = True
        try:
            with np.errstate(all="ignore"):
                while not failures:
                    with guard:
                        lo = next(numbers) * block
                    if lo >= n:
                        return
                    try:
                        fn(lo, min(lo + block, n))
                    except BaseException as failure:  # handed to the caller below
                        failures.append(failure)
        finally:
            _local.within = within

    futures: list[Future[None]] = []
    if not within:  # else the other threads are busy, and what waits for them would keep its arrays
        futures = _start_helpers(work, min(thread_count(), blocks) - 1)
    work()
    for future in futures:
        if not future.cancel():  # one that has not started has nothing left to do
            future.result()
    if failures:
        raise failures[0]


_local = threading.local()
KEPT = 1 << 22


def scratch(name: str, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """Uninitialised memory that the calling thread gets again under the same name: valid until that next time."""
    dtype = np.dtype(dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    kept: dict[str, npt.NDArray[np.uint8]] = _local.__dict__.setdefault("kept", {})
    memory = kept.get(name)
    if memory is None or memory.nbytes < nbytes:
        memory = np.empty(nbytes, np.uint8)
        if nbytes <= KEPT:  # a giant row's scratch is not worth holding on to
            kept[name] = memory
    return memory[:nbytes].view(dtype).reshape(shape)
