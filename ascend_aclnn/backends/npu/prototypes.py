"""C prototypes as ctypes: of the runtime's functions from catalog/data, of operators from their catalog entry.

Every type is looked up; an unknown one is an error, because a guessed width corrupts the call. Pointers are passed as
integer addresses (c_void_p), which is both the widest and the fastest way through ctypes.
"""

from __future__ import annotations

import ctypes
import functools
import json
import re
from typing import Any, NamedTuple, Optional

from ascend_aclnn.catalog import DATA, Kind, Operator

CType = Any  # a ctypes simple type

_SCALARS: dict[str, CType] = {
    "bool": ctypes.c_bool,
    "char *": ctypes.c_char_p,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "int": ctypes.c_int32,
    "int8_t": ctypes.c_int8,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "aclError": ctypes.c_int32,
    "aclnnStatus": ctypes.c_int32,
}
_HANDLES = frozenset(  # typedefs of void *
    {"HcclComm", "aclmdlRI", "aclrtContext", "aclrtEvent", "aclrtStream", "aclrtTaskGrp"}
)

_KINDS: dict[Kind, CType] = {
    Kind.STRING: ctypes.c_char_p,
    Kind.DATA_TYPE: ctypes.c_int32,
    Kind.FLOAT: ctypes.c_float,
    Kind.DOUBLE: ctypes.c_double,
    Kind.BOOL: ctypes.c_bool,
    Kind.INT8: ctypes.c_int8,
    Kind.INT32: ctypes.c_int32,
    Kind.UINT32: ctypes.c_uint32,
    Kind.INT64: ctypes.c_int64,
    Kind.UINT64: ctypes.c_uint64,
}

STATUS = ctypes.c_int32

# Exports of libnnopbase that no public header declares; op-plugin resolves them by name and so do we, where they exist.
_UNDECLARED: dict[str, tuple[CType, ...]] = {
    "InitPTACacheThreadLocal": (),
    "SetPTAHashKey": (ctypes.c_uint64,),
    "UnInitPTACacheThreadLocal": (),
}


class Prototype(NamedTuple):
    """What ctypes needs to call a C function, and where the function is said to be."""

    returns: Optional[CType]
    parameters: tuple[CType, ...]
    library: str
    since: str


@functools.cache
def functions() -> dict[str, Any]:
    """What the data say of each function of the runtime, by its C name."""
    entries: dict[str, Any] = json.loads((DATA / "runtime_functions.json").read_text(encoding="utf-8"))
    return entries


@functools.cache
def enums() -> dict[str, dict[str, int]]:
    """The runtime's enums and constants: enum name -> member -> value."""
    entries: dict[str, dict[str, int]] = json.loads((DATA / "enums.json").read_text(encoding="utf-8"))
    return entries


def constant(enum: str, member: str) -> int:
    """One enum value, by its names in the headers."""
    return enums()[enum][member]


def ctype(text: str) -> CType:
    """The ctypes type of a C type as the runtime's data spells it; TypeError where it is not known."""
    bare = " ".join(re.sub(r"\bconst\b", " ", text).replace("*", " * ").split())
    if bare in _SCALARS:
        return _SCALARS[bare]
    if bare.endswith("*") or bare in _HANDLES:
        return ctypes.c_void_p
    if bare in enums():
        return ctypes.c_int32
    raise TypeError(f"C type {text!r} has no ctypes counterpart")


@functools.cache
def runtime_function(name: str) -> Prototype:
    """The prototype of a runtime or nnopbase function; KeyError where the data does not list it."""
    if name in _UNDECLARED:
        return Prototype(None, _UNDECLARED[name], "libnnopbase.so", "8.1.RC1")
    entry = functions()[name]
    returns = None if entry["returns"] == "void" else ctype(entry["returns"])
    parameters = tuple(ctype(spelled) for _, spelled in entry["params"])
    return Prototype(returns, parameters, entry["library"], entry["since"])


def phase_one(operator: Operator) -> tuple[CType, ...]:
    """Parameter types of an operator's phase one, workspaceSize and executor included."""
    types = (_KINDS.get(p.kind, ctypes.c_void_p) for p in operator.parameters)
    return (*types, ctypes.c_void_p, ctypes.c_void_p)


def phase_two(operator: Operator) -> tuple[CType, ...]:
    """Parameter types of phase two: workspace, its size, executor, what is passed again (rarely anything), stream."""
    kinds = (operator.parameters[operator.positions[name]].kind for _, name in operator.phase_two)
    again = (_KINDS.get(kind, ctypes.c_void_p) for kind in kinds)
    return (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, *again, ctypes.c_void_p)
