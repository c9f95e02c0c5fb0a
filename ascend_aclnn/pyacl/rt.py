"""acl.rt: devices, contexts, streams, events, memory (aclrt...). See the package's docstring."""

from __future__ import annotations

from typing import Any

from ascend_aclnn.pyacl.binding import Functions

_functions = Functions("acl.rt", "aclrt")


def __getattr__(name: str) -> Any:
    return _functions.get(name)


def __dir__() -> list[str]:
    return _functions.names()
