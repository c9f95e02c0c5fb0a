"""What a client's libraries ask of CANN and the emulated one lacks."""

from __future__ import annotations

import importlib.util
import os
import re
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from ascend_aclnn import catalog
from ascend_aclnn.core import elf

# What an extension module finds in the interpreter, and in a torch that may be of another version here.
_OF_OTHERS = re.compile("_?Py[A-Z_]|_ZN?K?[RO]?(3c10|2at|5torch|9torch_npu|6caffe2)")
# Where CANN finds the parts of a vendor's operators. It loads them, to launch kernels for the card; the emulated one does not.
_PARTS_OF_OPERATORS = {"op_api", "op_impl", "op_proto"}
_PACKAGES = ("torch", "torch_npu", "mindspore")  # with libraries that clients link, in their directory lib
_SYSTEM = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")


class Lacks(NamedTuple):
    """What a library needs and does not find: libraries, symbols, and operators that it looks up by name."""

    path: Path
    libraries: tuple[str, ...]
    symbols: tuple[str, ...]
    operators: tuple[str, ...]
    kernels: tuple[str, ...] = ()  # operators whose kernels are binaries, and which no other library offers

    def __bool__(self) -> bool:
        return bool(self.libraries or self.symbols)


def check(paths: Sequence[str], libraries: Path, operators: Iterable[str] = ()) -> Iterator[Lacks]:
    """What each library lacks beside the emulated CANN in ``libraries``; ValueError for what is no library.

    A library finds what the others of ``paths`` and the whole of CANN export, as in the process of a client that loads them.
    ``operators`` are those that modules declare beside CANN's. Parts of a vendor's operators (below ``op_api``, ``op_impl`` or
    ``op_proto``) are asked for nothing but the operators that they offer.
    """
    scope = _Scope([libraries, *_places()])
    emulated = [scope.read(path) for path in sorted(libraries.glob("lib*.so"))]
    everything = [scope.read(Path(path)) for path in paths]
    clients = [library for library in everything if _PARTS_OF_OPERATORS.isdisjoint(library.path.resolve().parts)]
    offered = set(operators).union(*(library.exports for library in (*emulated, *clients)))
    missing = {}
    for library in everything:
        if library not in clients:
            yield Lacks(library.path, (), (), (), tuple(sorted(_offered_by(library) - offered)))
    for library in clients:
        exports, missing[library.path] = scope.closure(library)
        offered |= exports
    for library in clients:
        wanted = (name for name in library.imports - offered if _OF_OTHERS.match(name) is None)
        yield Lacks(
            library.path,
            tuple(sorted(missing[library.path])),
            tuple(sorted(wanted)),
            tuple(sorted(_looked_up(library.path) - offered)),
        )


def _offered_by(library: elf.Library) -> set[str]:
    """The operators of which a library has both phases."""
    ones = (name.removesuffix(catalog.PHASE_ONE) for name in library.exports if name.endswith(catalog.PHASE_ONE))
    return {name for name in ones if name.startswith("aclnn") and name in library.exports}


def _looked_up(path: Path) -> set[str]:
    """The operators whose names a library holds as text, for dlsym; ATB's are known by their phase one."""
    names = elf.strings(path, f"aclnn[A-Z][A-Za-z0-9]*|Atb[A-Z][A-Za-z0-9]*{catalog.PHASE_ONE}")
    return {name.removesuffix(catalog.PHASE_ONE) for name in names}


class _Scope:
    """Where libraries are looked for, and what was read of them."""

    def __init__(self, places: list[Path]) -> None:
        self._places = places
        self._read: dict[Path, elf.Library] = {}

    def read(self, path: Path) -> elf.Library:
        key = path.resolve()
        if key not in self._read:
            self._read[key] = elf.read(path)
        return self._read[key]

    def closure(self, library: elf.Library) -> tuple[set[str], set[str]]:
        """What a library and all that it needs export; which libraries it needs itself and cannot be found."""
        exports, missing = set(library.exports), set[str]()
        seen, queue = {library.path.resolve()}, [library]
        while queue:
            current = queue.pop()
            for name in current.needed:
                path = self._find(name, current, library)
                if path is None:
                    if current is library:
                        missing.add(name)
                    continue
                if path.resolve() not in seen:
                    seen.add(path.resolve())
                    needed = self.read(path)
                    exports |= needed.exports
                    queue.append(needed)
        return exports, missing

    def _find(self, name: str, *libraries: elf.Library) -> Optional[Path]:
        beside = [place for library in libraries for place in (*map(Path, library.search_path), library.path.parent)]
        for place in (*beside, *self._places):
            path = place / name
            if path.is_file() and _is_library(path):
                return path
        return None


def _is_library(path: Path) -> bool:
    """Whether a file is no linker's script."""
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def _places() -> Iterator[Path]:
    """The dynamic linker's places, and those of the packages whose libraries clients link."""
    for place in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        yield Path(place)
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin).parent / "lib"
    triplet = sysconfig.get_config_var("MULTIARCH")
    for place in _SYSTEM:
        if triplet:
            yield Path(place) / str(triplet)
        yield Path(place)
