"""acl.op: single operators by type name (aclop...). See the package's docstring."""

from __future__ import annotations

from typing import Any

from ascend_aclnn.pyacl.binding import Functions

_functions = Functions("acl.op", "aclop")


def __getattr__(name: str) -> Any:
    return _functions.get(name)


def __dir__() -> list[str]:
    return _functions.names()
