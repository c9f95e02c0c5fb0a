"""Memory by address, for operators whose tensors hold addresses instead of data.

A backend registers a finder for its memory. The NumPy backend knows the storages whose address a program has asked for
(some may be freed by now), the device process all of the device memory.
"""

from __future__ import annotations

import threading
import weakref
from typing import Callable, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.interface import Storage

Bytes = npt.NDArray[np.uint8]
Finder = Callable[[int, int], Optional[Bytes]]  # the bytes at an address, None where there are none

_finders: list[Finder] = []
_lock = threading.Lock()
_given_out: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()  # by address


def enter(finder: Finder) -> None:
    """Registers a finder."""
    _finders.append(finder)


def give_out(storage: Storage, address: int) -> int:
    """The address of a storage on the host, from which ``find`` finds it as long as it lives."""
    with _lock:
        _given_out[address] = storage
    return address


def find(address: int, nbytes: int) -> Optional[Bytes]:
    """The bytes at an address, to read and to write; None where no registered memory holds all of them."""
    for finder in (_find_storage, *_finders):
        data = finder(address, nbytes)
        if data is not None:
            return data
    return None


def _find_storage(address: int, nbytes: int) -> Optional[Bytes]:
    with _lock:
        storages = list(_given_out.items())
    for start, storage in storages:
        if start <= address and address + nbytes <= start + storage.nbytes:
            return storage.read(address - start, nbytes)
    return None
