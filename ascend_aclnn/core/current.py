"""The backend in use.

This module knows no backend. ``ascend_aclnn.selection`` names them and registers how the default one is found.
"""

from __future__ import annotations

import contextvars
from typing import Callable, Optional

from ascend_aclnn.core.interface import DeviceInterface

chosen: contextvars.ContextVar[Optional[DeviceInterface]] = contextvars.ContextVar("ascend_aclnn_backend", default=None)

_default: Optional[DeviceInterface] = None
_find_default: Optional[Callable[[], DeviceInterface]] = None


def set_default_finder(find: Callable[[], DeviceInterface]) -> None:
    """Registers the function that finds the backend of a process that has chosen none."""
    global _find_default
    _find_default = find


def current_backend() -> DeviceInterface:
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


__all__ = ["chosen", "current_backend", "set_default_finder"]
