"""Ports for servers that a test's processes start later."""

from __future__ import annotations

import itertools
import os
import socket

_EACH = 100  # ports of a worker of pytest-xdist, whose numbers of processes are near each other
_FIRST, _WORKERS = 10_240, 200
_numbers = itertools.count()


def free_port(address: str = "127.0.0.1") -> int:
    """A port of this worker, which no other program takes meanwhile: it is not among those that the system gives away."""
    for number in itertools.islice(_numbers, _EACH):
        port = _FIRST + os.getpid() % _WORKERS * _EACH + number % _EACH
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue  # of an earlier test, whose connections have ended a moment ago
        return port
    raise AssertionError(f"none of {_EACH} ports is free")
