"""What a shared library exports, read from its ELF file (64 bit, little-endian)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC, _DYNSYM = 6, 11  # sh_type
_FILTER = 0x7FFFFFFF  # d_tag DT_FILTER
_FUNCTIONS = (2, 10)  # st_info: STT_FUNC, STT_GNU_IFUNC
_DEFINED_BINDINGS = (1, 2, 10)  # global, weak, unique


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Library(NamedTuple):
    """What a library says of itself."""

    functions: frozenset[str]  # the names of those that it exports
    filtee: str  # the library that answers for a filter, which has nothing but names; "" for any other library


def read_library(path: Path) -> Library:
    """ValueError for a file that is no such library."""
    try:
        return _read(path.read_bytes())
    except (struct.error, IndexError, ValueError) as error:
        raise ValueError(f"{path} is no shared library that can be read: {error}") from None


def _read(data: bytes) -> Library:
    if data[:6] != b"\x7fELF\x02\x01":
        raise IndexError("it is not an ELF file of 64 bits")
    (start,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [_Section._make(_SECTION.unpack_from(data, start + at * entry_size)) for at in range(count)]
    names, filtee = set(), ""

    def string(section: _Section, at: int) -> str:
        begin = sections[section.link].offset + at
        return data[begin : data.index(b"\0", begin)].decode("utf-8", "replace")

    for section in sections:
        places = range(section.offset, section.offset + section.size, section.entry_size or 1)
        if section.type == _DYNSYM:
            for at in places:
                name, info, _, index, _, _ = _SYMBOL.unpack_from(data, at)
                if index and info & 15 in _FUNCTIONS and info >> 4 in _DEFINED_BINDINGS:
                    names.add(string(section, name))
        elif section.type == _DYNAMIC:
            for at in places:
                tag, value = struct.unpack_from("<qQ", data, at)
                filtee = string(section, value) if tag == _FILTER else filtee
    return Library(frozenset(names), filtee)
