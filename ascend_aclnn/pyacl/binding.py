"""C functions of the runtime as Python functions with pyACL's conventions, made from their prototypes."""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Mapping
from typing import Any, Callable, Optional

from ascend_aclnn.backends.npu import library, prototypes
from ascend_aclnn.core.errors import LibraryNotFound

# Libraries whose functions pyACL does not have: descriptions and executors of aclnn operators, collectives.
_OTHERS = ("libnnopbase.so", "libhccl.so", "libhcomm.so", "libplatform.so")


class Functions:
    """The functions of one module: those whose C names begin with a prefix, and some by other names."""

    def __init__(self, module: str, prefix: str, others: Optional[Mapping[str, str]] = None) -> None:
        self._module, self._prefix, self._others = module, prefix, dict(others or {})
        self._made: dict[str, Callable[..., Any]] = {}

    def names(self) -> list[str]:
        return sorted(self._c_names())

    def get(self, name: str) -> Callable[..., Any]:
        """The function; AttributeError for a name that no C function has, or that this CANN lacks."""
        function = self._made.get(name)
        if function is None:
            c_name = self._c_names().get(name)
            if c_name is None:
                raise AttributeError(f"module {self._module!r} has no function {name!r}")
            function = self._made[name] = _bind(f"{self._module}.{name}", c_name)
        return function

    @functools.cache  # noqa: B019 - one for each module, which live as long as the process
    def _c_names(self) -> dict[str, str]:
        runtime = (name for name, entry in prototypes.functions().items() if entry["library"] not in _OTHERS)
        matching = (name for name in runtime if re.match(f"{self._prefix}[A-Z]", name))
        return {**{_snake_case(name[len(self._prefix) :]): name for name in matching}, **self._others}


@functools.cache
def _library() -> ctypes.CDLL:
    """The runtime's library: the one in the process, else the one of the environment."""
    loaded = library.already_loaded("libascendcl.so")
    if loaded is not None:
        return loaded
    path = library.search(os.environ).runtime
    if path is None:
        raise LibraryNotFound("pyacl: no libascendcl found; ascend-aclnn doctor says where it was looked for")
    return library.open_library(path)


def _bind(python_name: str, c_name: str) -> Callable[..., Any]:
    entry = prototypes.functions()[c_name]
    try:
        function = _library()[c_name]
    except AttributeError:
        raise AttributeError(f"{python_name}: this CANN has no {c_name}") from None
    parameters = [(name, spelled, _gives(spelled)) for name, spelled in entry["params"]]
    returns = entry["returns"]
    function.restype = ctypes.c_char_p if returns == "const char *" else prototypes.runtime_function(c_name).returns
    function.argtypes = prototypes.runtime_function(c_name).parameters
    inputs = [name for name, _, gives in parameters if gives is None]
    last_is_path = bool(inputs) and parameters[-1][1] == "const char *"  # of acl.init, which may be left out

    def call(*args: Any) -> Any:
        if last_is_path and len(args) == len(inputs) - 1:
            args = (*args, None)
        if len(args) != len(inputs):
            raise TypeError(
                f"{python_name} takes {len(inputs)} arguments ({', '.join(inputs)}); {len(args)} were passed"
            )
        remaining = iter(args)
        values: list[Any] = []
        outputs: list[Any] = []
        for _, spelled, gives in parameters:
            if gives is None:
                values.append(_argument(spelled, next(remaining)))
            else:
                outputs.append(gives())
                values.append(ctypes.addressof(outputs[-1]))
        result = function(*values)
        results = [_value(item.value) for item in outputs]
        if returns != "void":
            results.append(result.decode(errors="replace") if isinstance(result, bytes) else _value(result))
        return results[0] if len(results) == 1 else tuple(results) if results else None

    call.__name__ = python_name.rpartition(".")[2]
    call.__qualname__ = python_name
    call.__doc__ = f"{c_name}({', '.join(f'{spelled} {name}' for name, spelled in entry['params'])})"
    return call


def _gives(spelled: str) -> Any:
    """The ctypes type of what a parameter gives through a pointer; None for one that takes a value or an address."""
    if spelled.startswith("const ") or not spelled.endswith("*"):
        return None
    base = spelled[:-1].strip()
    if base in ("void", "char", "uint8_t", "float"):  # memory of the caller's
        return None
    if base.endswith(("*", "Handle")):
        return ctypes.c_void_p
    try:
        return prototypes.ctype(base)
    except TypeError:  # a structure, by its address
        return None


def _argument(spelled: str, value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return value


def _value(value: Any) -> Any:
    return 0 if value is None else value


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
