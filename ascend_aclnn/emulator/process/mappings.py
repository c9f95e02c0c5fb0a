"""Parts of the device memory at which other memory is mapped: physical memory, and memory of other processes.

A rank's peers map its device memory as the file has it, without these parts, so what lies there is found elsewhere in the
file, or nowhere.
"""

from __future__ import annotations

import threading
from typing import NamedTuple, Optional


class _MappedPart(NamedTuple):
    start: int
    end: int
    home: Optional[int]  # where in the device's own file its bytes are; None: in another one


class Mappings:
    """What is mapped where, in offsets in the device memory."""

    def __init__(self) -> None:
        self._parts: list[_MappedPart] = []
        self._lock = threading.Lock()

    def add(self, start: int, nbytes: int, home: Optional[int]) -> None:
        with self._lock:
            self._remove(start, start + nbytes)
            self._parts.append(_MappedPart(start, start + nbytes, home))

    def remove(self, start: int, nbytes: int) -> None:
        """The device's own memory is there again."""
        with self._lock:
            self._remove(start, start + nbytes)

    def locate(self, start: int, nbytes: int) -> Optional[int]:
        """Where in the device's file some bytes of the device memory lie; None if not there, or not one after another."""
        with self._lock:
            parts = [part for part in self._parts if part.start < start + nbytes and start < part.end]
        if not parts:
            return start
        part = parts[0]
        if len(parts) > 1 or part.home is None or start < part.start or part.end < start + nbytes:
            return None
        return part.home + start - part.start

    def _remove(self, start: int, end: int) -> None:
        remaining: list[_MappedPart] = []
        for part in self._parts:
            if part.end <= start or end <= part.start:
                remaining.append(part)
                continue
            if part.start < start:
                remaining.append(part._replace(end=start))
            if end < part.end:
                remaining.append(
                    _MappedPart(end, part.end, None if part.home is None else part.home + end - part.start)
                )
        self._parts = remaining
