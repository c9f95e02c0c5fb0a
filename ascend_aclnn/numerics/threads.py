"""Blocks of work on several threads, and memory that a thread keeps from block to block."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import os
import threading
from queue import SimpleQueue
from typing import Any, Callable, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.numerics.floating_errors import ignored

Array = npt.NDArray[Any]

_NAME = "ascend-aclnn-compute"


class _Share:
    """Work offered to other threads until its owner withdraws it."""

    __slots__ = ("_begun", "_done", "_failure", "_work")

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Optional[Callable[[], None]] = work
        self._failure: Optional[BaseException] = None
        self._begun, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()

    def take(self) -> None:
        work = self._work
        if work is None or not self._begun.acquire(blocking=False):
            return
        try:
            work()
        except BaseException as failure:  # raised where the work was offered
            self._failure = failure
        finally:
            self._work = None
            self._done.release()

    def finish(self) -> Optional[BaseException]:
        """Withdraws the work if no thread has begun it, else waits for its end. Returns its exception, or what ended the wait."""
        if self._begun.acquire(blocking=False):
            self._work = None  # the entry stays in the queue without its arrays
            return None
        interruption: Optional[BaseException] = None
        while True:
            try:
                self._done.acquire()
                return interruption or self._failure
            except BaseException as error:  # Ctrl-C: the other thread still uses the caller's arrays
                interruption = error


class _Helpers:
    """Worker threads. They are daemons: the thread that offers work waits for it, so none is lost at exit."""

    def __init__(self) -> None:
        self._offers: SimpleQueue[_Share] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0

    def offer(self, work: Callable[[], None], count: int) -> list[_Share]:
        if self._count < count:
            with self._lock:
                while self._count < count:
                    try:
                        threading.Thread(target=self._help, name=f"{_NAME}_{self._count}", daemon=True).start()
                    except RuntimeError:  # the interpreter is shutting down: the caller does the work alone
                        return []
                    self._count += 1
        shares = [_Share(work) for _ in range(count)]
        for share in shares:
            self._offers.put(share)
        return shares

    def _help(self) -> None:
        while True:
            self._offers.get().take()


_helpers = _Helpers()


def _forget_helpers() -> None:
    """A forked child has none of its parent's threads."""
    global _helpers
    _helpers = _Helpers()


os.register_at_fork(after_in_child=_forget_helpers)


def thread_count() -> int:
    """Threads for a computation: ``ASCEND_ACLNN_THREADS``, at most (and by default) the cores that the process may use."""
    cores = len(os.sched_getaffinity(0))
    wanted = os.environ.get("ASCEND_ACLNN_THREADS", "").strip()
    if not wanted:
        return cores
    if not wanted.isdigit() or int(wanted) < 1:
        raise ValueError(f"ASCEND_ACLNN_THREADS is {wanted!r}; allowed: a whole number from 1 on")
    return min(int(wanted), cores)


_SHARES = 16  # few: each costs some microseconds


def share(n: int) -> int:
    """The size of a block of ``range(n)`` for work that is cut only to share it among threads; n where there is one thread."""
    return n if thread_count() == 1 else -(-n // _SHARES)


@functools.cache
def _keep_freed_memory() -> None:
    """Makes malloc reuse the memory of freed blocks instead of returning it to the system.

    glibc raises its mmap threshold to the size of a large block that is freed (M_MMAP_THRESHOLD in mallopt(3)). Freeing one
    of 30 MiB, never touched, halves the time of work in blocks: their temporaries need no fresh pages any more.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.free(libc.malloc(30 << 20))


def side_by_side(work: Callable[[], None], threads: int) -> None:
    """Calls ``work`` on this thread and on up to ``threads - 1`` others, if they start before this thread has finished.

    Returns when all calls that have begun are done, and raises the first exception. Within a block of ``for_blocks`` only
    this thread works: the others are busy, and queued work would keep its arrays alive.
    """
    shares: list[_Share] = []
    failures: list[Optional[BaseException]] = []
    try:
        if threads > 1 and not getattr(_local, "within", False):
            _keep_freed_memory()
            shares = _helpers.offer(work, threads - 1)
        work()
    finally:
        failures += [share.finish() for share in shares]
    for failure in failures:
        if failure is not None:
            raise failure


def for_blocks(n: int, block: int, fn: Callable[[int, int], None]) -> None:
    """Calls ``fn(lo, hi)`` for each block of ``range(n)``, on several threads where there is more than one block.

    Blocks run in any order, so they must not depend on each other. The first exception stops the rest and is raised
    here. Floating-point warnings are off inside, as on the device. Called from within a block, it stays on that thread.
    """
    block = max(1, block)
    if n <= block:
        if n > 0:
            with ignored():
                fn(0, n)
        return
    _keep_freed_memory()
    blocks = -(-n // block)
    numbers = itertools.count()
    guard = threading.Lock()
    failures: list[BaseException] = []

    def work() -> None:
        within, _local.within = getattr(_local, "within", False), True
        try:
            with ignored():
                while not failures:
                    with guard:
                        lo = next(numbers) * block
                    if lo >= n:
                        return
                    try:
                        fn(lo, min(lo + block, n))
                    except BaseException as failure:  # raised in the caller below
                        failures.append(failure)
        finally:
            _local.within = within

    side_by_side(work, min(thread_count(), blocks))
    if failures:
        raise failures[0]


_local = threading.local()
KEPT = 1 << 22


_MOST_VIEWS = 256


def scratch(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Uninitialised memory of the calling thread, by name; valid until the thread asks for that name again."""
    views: dict[Any, Array] = _local.__dict__.setdefault("views", {})
    key = (name, shape, dtype)
    view = views.get(key)
    if view is not None:
        return view
    kind = np.dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    memories: dict[str, npt.NDArray[np.uint8]] = _local.__dict__.setdefault("scratch", {})
    memory = memories.get(name)
    if memory is None or memory.nbytes < nbytes:
        memory = np.empty(nbytes, np.uint8)
        if nbytes > KEPT:  # scratch for a giant row is not kept
            return memory.view(kind).reshape(shape)
        memories[name] = memory
        views.clear()  # they would keep the memory that this one replaces
    elif len(views) >= _MOST_VIEWS:
        views.clear()
    views[key] = memory[:nbytes].view(kind).reshape(shape)
    return views[key]
