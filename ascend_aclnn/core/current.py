"""The backend in use and the streams that are entered: the defaults of a call without ``stream=``.

This module knows no backend. ``ascend_aclnn.selection`` names them and registers how the default one is found.
"""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Callable, Optional

if TYPE_CHECKING:
    from ascend_aclnn.core.interface import Backend
    from ascend_aclnn.core.streams import Stream

chosen: contextvars.ContextVar[Optional[Backend]] = contextvars.ContextVar("ascend_aclnn_backend", default=None)

_default: Optional[Backend] = None
_find_default: Optional[Callable[[], Backend]] = None


def set_default_finder(find: Callable[[], Backend]) -> None:
    """Registers the function that finds the backend of a process that has chosen none."""
    global _find_default
    _find_default = find


def current_backend() -> Backend:
    """The backend in use; the first call chooses it (``ASCEND_ACLNN_BACKEND``: numpy, npu or auto, the default)."""
    backend = chosen.get()
    if backend is not None:
        return backend
    global _default
    if _default is None:
        if _find_default is None:
            raise RuntimeError("no backend can be found before ascend_aclnn is imported as a whole")
        _default = _find_default()
    return _default


class _EnteredStreams(threading.local):
    def __init__(self) -> None:
        self.stack: list[Stream] = []


_entered = _EnteredStreams()


def entered_streams() -> list[Stream]:
    """The streams of this thread's ``with stream:`` blocks, innermost last."""
    return _entered.stack


__all__ = ["chosen", "current_backend", "entered_streams", "set_default_finder"]
