"""Groups by name: how an operator finds the ranks that its argument ``group`` means, and what it does with them.

A backend that makes a communicator enters it here under its name, on the NumPy backend in the caller's process and on
the emulated device in the device process. References call ``find`` and exchange NumPy arrays with the other ranks.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any, Callable, Optional, TypeVar

import numpy as np
import numpy.typing as npt

from ascend_aclnn.collectives.algorithms import Buffer, Collectives
from ascend_aclnn.collectives.interface import CommunicationError, TimedOut
from ascend_aclnn.core.dtypes import as_datatype
from ascend_aclnn.core.errors import RUNTIME_ERROR, AclError

REMOTE_ERROR = 507057  # how a card's stream reports that another rank failed
KERNEL_ERROR = 507035  # how it reports that a kernel on vector cores stopped at an assertion

Array = npt.NDArray[Any]
Method = TypeVar("Method", bound=Callable[..., Any])


def _reported(method: Method) -> Method:
    """A failed exchange is the stream's error, as a card reports one of a remote rank."""

    @functools.wraps(method)
    def run(self: Ranks, *arguments: Any, **options: Any) -> Any:
        try:
            return method(self, *arguments, **options)
        except CommunicationError as error:
            raise AclError(REMOTE_ERROR, method.__name__, f"group {self.name}: {error}") from None

    return run  # type: ignore[return-value]


class Ranks:
    """The ranks of a group, seen from one of them. All ranks call the same methods in the same order."""

    def __init__(self, name: str, collectives: Collectives) -> None:
        self.name = name
        self.rank, self.size = collectives.group.rank, collectives.group.size
        self.state: dict[str, Array] = {}  # what an operator stores in the group's memory for a later one
        self._collectives = collectives
        self._thread = threading.get_ident()
        self._divided: dict[tuple[int, ...], Ranks] = {}

    @property
    def is_of_this_thread(self) -> bool:
        return self._thread == threading.get_ident()

    @_reported
    def among(self, members: Sequence[int]) -> Ranks:
        """Some of the ranks, this one included, as a separate group: all of them call it; the others need not be alive."""
        key = tuple(members)
        if key not in self._divided:
            self._divided[key] = Ranks(self.name, self._collectives.among(key))
        return self._divided[key]

    def close_divided(self) -> None:
        for ranks in self._divided.values():
            ranks._collectives.group.close()
        self._divided.clear()

    @_reported
    def barrier(self, timeout: Optional[float] = None) -> None:
        """Returns when all ranks have come; AclError 507035 if they have not within ``timeout`` seconds."""
        try:
            self._collectives.barrier(timeout)
        except TimedOut as error:
            if timeout is None:
                raise
            raise AclError(KERNEL_ERROR, "barrier", f"group {self.name}: {error}") from None

    @_reported
    def all_gather(self, x: Array) -> Array:
        """The arrays of all ranks, which are alike in shape: (size, *shape)."""
        gathered = np.empty((self.size, *x.shape), x.dtype)
        targets = [part.reshape(-1) for part in gathered]
        self._collectives.all_gather(_buffer(x), targets, as_datatype(x.dtype), [x.size] * self.size)
        return gathered

    @_reported
    def all_reduce(self, x: Array) -> Array:
        """The sum over all ranks: in rank order, 16-bit types in float32, rounded once."""
        total = np.empty(x.shape, x.dtype)
        self._collectives.all_reduce(_buffer(x), total.reshape(-1), as_datatype(x.dtype))
        return total

    @_reported
    def reduce_scatter(self, x: Array) -> Array:
        """This rank's share of the rows of the sum; the number of rows is a multiple of the number of ranks."""
        part = np.empty((len(x) // self.size, *x.shape[1:]), x.dtype)
        self._collectives.reduce_scatter(_buffer(x), part.reshape(-1), as_datatype(x.dtype), [part.size] * self.size)
        return part

    @_reported
    def all_to_all(self, parts: Sequence[Array]) -> list[Array]:
        """Sends ``parts[r]`` to rank r; returns what each rank sent to this one. Arrays differ in their first axis only."""
        sent = np.concatenate([np.asarray(part) for part in parts])
        received = self._collectives.exchange_parts(
            _buffer(sent), [part.size for part in parts], as_datatype(sent.dtype)
        )
        return [
            part.reshape(-1, *sent.shape[1:]) if part.size else part.reshape(0, *sent.shape[1:]) for part in received
        ]

    @_reported
    def window(self, rank: int) -> Array:
        """The memory that a rank lets this one write to, as bytes; AclError where the rank has left."""
        self._collectives.group.check_rank(rank)
        return self._collectives.window(rank)


def _buffer(x: Array) -> Buffer:
    return Buffer(np.ascontiguousarray(x).reshape(-1))


_groups: dict[str, list[Ranks]] = {}
_lock = threading.Lock()


def enter(name: str, collectives: Collectives) -> Ranks:
    """Makes a communicator known by its name; the thread that calls is the rank's, where a process has several."""
    ranks = Ranks(name, collectives)
    with _lock:
        _groups.setdefault(name, []).append(ranks)
    return ranks


def leave(ranks: Ranks) -> None:
    """Removes a communicator; idempotent."""
    ranks.close_divided()
    with _lock:
        remaining = [other for other in _groups.get(ranks.name, ()) if other is not ranks]
        if remaining:
            _groups[ranks.name] = remaining
        else:
            _groups.pop(ranks.name, None)


def exists(name: str) -> bool:
    return name in _groups


def find(name: Optional[str]) -> Ranks:
    """The group of a name. AclError 361001 where there is none, as CANN's phase one returns."""
    members = _groups.get(name or "", [])
    if len(members) > 1:  # ranks that are threads of one process
        members = [ranks for ranks in members if ranks.is_of_this_thread]
    if len(members) != 1:
        raise AclError(RUNTIME_ERROR, "HcomGetCommHandleByGroup", f"the group {missing(name)}")
    return members[0]


def missing(name: Optional[str]) -> str:
    return f"is {name!r}; it must be the name of a communicator of this process"
