"""pyACL's functions over the runtime that this package binds: CANN's, or the emulated device's.

    from ascend_aclnn import pyacl as acl
    pointer, status = acl.rt.malloc(1 << 20, 2)

The names are those of CANN's document "pyACL API": ``aclrtMallocHost`` is ``acl.rt.malloc_host``. A function returns what its
C function gives through pointers, in C order, and then the status: one value bare, several as a tuple. Handles and
addresses are integers. Under ``ascend-aclnn emulator run`` the module can be imported as ``acl``; it is never installed as that.
"""

from __future__ import annotations

from typing import Any

from ascend_aclnn.pyacl import mdl, op, prof, rt, util
from ascend_aclnn.pyacl.binding import Functions

_functions = Functions("acl", "acl", {"get_soc_name": "aclrtGetSocName", "get_version": "aclrtGetVersion"})


def __getattr__(name: str) -> Any:
    return _functions.get(name)


def __dir__() -> list[str]:
    return [*_functions.names(), "mdl", "op", "prof", "rt", "util"]


__all__ = ["mdl", "op", "prof", "rt", "util"]
