"""The device path: ctypes over libascendcl, libnnopbase and libopapi.

``library`` finds and opens them, ``prototypes`` says how their functions are called, ``runtime`` keeps devices,
threads, streams and the end in order, ``memory`` allocates, ``handles`` makes aclTensors and the like, ``session`` holds
all these, ``executor`` calls operators, ``remembered`` calls them again, ``backend`` puts it together.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Optional

from ascend_aclnn.core.errors import LibraryNotFound

if TYPE_CHECKING:
    from ascend_aclnn.backends.npu.backend import NpuBackend

_lock = threading.Lock()
_backend: Optional[NpuBackend] = None
_failure: Optional[str] = None


def find_backend(soc: str = "") -> NpuBackend:
    """The backend of this process, made at the first call; LibraryNotFound, with the reason, each time there is none.

    The SoC is the device's own, whatever is asked for.
    """
    global _backend, _failure
    if _backend is not None:
        return _backend
    with _lock:
        if _backend is None and _failure is None:
            from ascend_aclnn.backends.npu.backend import NpuBackend
            from ascend_aclnn.backends.npu.library import Libraries, search

            try:
                _backend = NpuBackend(Libraries.open(os.environ))
            except LibraryNotFound as error:
                _failure = str(error)
                search_result = search(os.environ)
                if search_result.runtime is not None or search_result.refused:  # one that is meant to work and does not
                    logging.getLogger("ascend_aclnn").warning("CANN is installed but cannot be used: %s", _failure)
        if _backend is None:
            raise LibraryNotFound(_failure)
        return _backend
