"""Division by zero, overflow and the like give what IEEE 754 says, without NumPy's warnings.

``np.errstate`` takes as long as a small operator, since it works out its value each time. Here the value is worked out once.
A graph and the device process run many operators in one block.
"""

from __future__ import annotations

import threading
from typing import Any, Callable

import numpy as np


def _switches() -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """What turns warnings off on this thread, and what takes its result and turns them on again.

    From NumPy 2 on the state is a context variable, which has no public name; without it ``np.seterr`` does the same.
    """
    try:
        from numpy._core.umath import _extobj_contextvar as variable
    except ImportError:
        return lambda: np.seterr(all="ignore"), lambda before: np.seterr(**before)
    with np.errstate(all="ignore"):
        silent = variable.get()
    return lambda: variable.set(silent), variable.reset


silence, restore = _switches()


class _Thread(threading.local):
    ignored = False  # NumPy's warnings are off on this thread until the block of ``ignored_in_all`` ends


_thread = _Thread()


class ignored:  # a block, like np.errstate
    """A block for one operator."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = silence()

    def __exit__(self, *exception: object) -> None:
        restore(self._before)


def are_ignored() -> bool:
    """Whether this thread is in the block of ``ignored_in_all``. What is prepared there is also run there."""
    return _thread.ignored


class ignored_in_all(ignored):
    """A block for many operators of this thread."""

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        self._outer, _thread.ignored = _thread.ignored, True
        super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        _thread.ignored = self._outer


__all__ = ["are_ignored", "ignored", "ignored_in_all", "restore", "silence"]
