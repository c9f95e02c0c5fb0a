"""Division by zero, overflow and the like give what IEEE 754 says, without NumPy's warnings.

``np.errstate`` takes as long as a small operator. Who runs many operators, a graph or the device process, enters it once.
"""

from __future__ import annotations

import contextlib
import threading
from contextlib import AbstractContextManager

import numpy as np


class _Thread(threading.local):
    ignored = False  # NumPy's warnings are off on this thread until the block of ``ignored_in_all`` ends


_thread = _Thread()
_ALREADY = contextlib.nullcontext()


def ignored() -> AbstractContextManager[object]:
    """A block for one operator."""
    return _ALREADY if _thread.ignored else np.errstate(all="ignore")


def are_ignored() -> bool:
    """Whether this thread is in the block of ``ignored_in_all``. What is prepared there is also run there."""
    return _thread.ignored


class ignored_in_all:  # a block, like np.errstate
    """A block for many operators of this thread."""

    __slots__ = ("_before", "_errstate")

    def __enter__(self) -> None:
        self._before, self._errstate = _thread.ignored, np.errstate(all="ignore")
        self._errstate.__enter__()
        _thread.ignored = True

    def __exit__(self, *exception: object) -> None:
        _thread.ignored = self._before
        self._errstate.__exit__(None, None, None)


__all__ = ["are_ignored", "ignored", "ignored_in_all"]
