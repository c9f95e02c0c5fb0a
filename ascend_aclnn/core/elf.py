"""What a shared library asks for and offers: the dynamic section of an ELF file of 64 bits."""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Union

_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")  # behind e_ident
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<QQ")
_DYNAMIC_SECTION, _SYMBOLS_SECTION = 6, 11  # SHT_DYNAMIC, SHT_DYNSYM
_NEEDED, _SONAME, _RPATH, _RUNPATH = 1, 14, 15, 29
_LOCAL, _WEAK = 0, 2  # bindings
_HIDDEN = (1, 2)  # STV_INTERNAL, STV_HIDDEN


class Library(NamedTuple):
    """The names in the dynamic section of a library."""

    path: Path
    soname: str
    needed: tuple[str, ...]  # libraries
    search_path: tuple[str, ...]  # RUNPATH or RPATH, $ORIGIN replaced
    exports: frozenset[str]
    imports: frozenset[str]  # symbols that must be found; weak ones are not among them


def read(path: Union[str, os.PathLike[str]]) -> Library:
    """The dynamic section of a library; ValueError for a file that is no ELF file of 64 bits, or a damaged one."""
    path = Path(path)
    with open(path, "rb") as file:
        if file.read(6) != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no shared library (an ELF file of 64 bits, little-endian)")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _read(path, data)
            except (struct.error, IndexError, OverflowError, ValueError) as error:
                raise ValueError(f"{path} is a damaged ELF file ({error})") from None


def strings(path: Union[str, os.PathLike[str]], pattern: str) -> list[str]:
    """The names in a file that match a pattern and stand between zeros: what a library looks up while it runs."""
    matches = re.findall(rb"(?<=\0)(" + pattern.encode() + rb")(?=\0)", Path(path).read_bytes())
    return sorted({name.decode("ascii", "replace") for name in matches})


def _read(path: Path, data: mmap.mmap) -> Library:
    header = _HEADER.unpack_from(data)
    offset, size, count = header[5], header[10], header[11]
    sections = [_SECTION.unpack_from(data, offset + i * size) for i in range(count)]
    needed: list[str] = []
    soname, search_path = "", ""
    exports, imports = set(), set()
    for _, kind, _, _, start, length, link, _, _, _ in sections:
        if kind == _DYNAMIC_SECTION:
            names = sections[link][4]
            for tag, value in _entries(data, start, length):
                if tag == _NEEDED:
                    needed.append(_string(data, names + value))
                elif tag == _SONAME:
                    soname = _string(data, names + value)
                elif tag in (_RPATH, _RUNPATH):
                    search_path = _string(data, names + value)
        elif kind == _SYMBOLS_SECTION:
            names = sections[link][4]
            for at in range(start, start + length, _SYMBOL.size):
                name, info, other, section, _, _ = _SYMBOL.unpack_from(data, at)
                if info >> 4 == _LOCAL or name == 0:
                    continue
                if section != 0 and other & 3 not in _HIDDEN:
                    exports.add(_string(data, names + name))
                elif section == 0 and info >> 4 != _WEAK:
                    imports.add(_string(data, names + name))
    origin = str(path.resolve().parent)
    places = tuple(p.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for p in search_path.split(":") if p)
    return Library(path, soname, tuple(needed), places, frozenset(exports), frozenset(imports))


def _entries(data: mmap.mmap, start: int, length: int) -> Iterator[tuple[int, int]]:
    for at in range(start, start + length, _DYNAMIC.size):
        tag, value = _DYNAMIC.unpack_from(data, at)
        if tag == 0:
            return
        yield tag, value


def _string(data: mmap.mmap, at: int) -> str:
    end = data.find(b"\0", at)
    if end < 0:
        raise ValueError("a name without an end")
    return data[at:end].decode()
