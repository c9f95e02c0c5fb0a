"""acl.mdl: models and captured graphs (aclmdl...). See the package's docstring."""

from __future__ import annotations

from typing import Any

from ascend_aclnn.pyacl.binding import Functions

_functions = Functions("acl.mdl", "aclmdl")


def __getattr__(name: str) -> Any:
    return _functions.get(name)


def __dir__() -> list[str]:
    return _functions.names()
