"""The frame of a recording: a file of chunks, each with its type, a CRC and its length. docs/recording.md describes it.

A file is only ever appended to. The type of a chunk is written last, so that a file whose writer was killed ends with
the last whole chunk: behind it come zeros, a torn chunk or nothing.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Union

MAGIC = b"ACLNNREC"
VERSION = 3  # 2 has other brief records, 1 has none; all are read
PREFIX = struct.Struct("<8sII")  # magic, version, reserved
HEADER = struct.Struct("<4sIQ")  # type, CRC-32 of length and payload, length of the payload
LENGTH = struct.Struct("<Q")
ALIGNMENT = 8  # of every chunk; the gap is zeros

HEAD = b"HEAD"
OPERATOR = b"PROT"
TENSOR = b"TENS"
SITE = b"SITE"
LAUNCH = b"OPER"
RETURN = b"RETN"
CALL = b"CALL"
NOTE = b"NOTE"
DATA = b"DATA"
END = b"DONE"
BRIEF = b"LAUN"  # what OPER and RETN say where there are neither data nor errors, in words of 64 bits
OLD_LAUNCH = b"LNCH"  # the same in version 2, in LEB128
OLD_RETURN = b"LRET"
TYPES = frozenset((HEAD, OPERATOR, TENSOR, SITE, LAUNCH, RETURN, CALL, NOTE, DATA, END, BRIEF, OLD_LAUNCH, OLD_RETURN))

DATA_HEADER = struct.Struct("<16sIIQ")  # BLAKE2b-128 of the bytes, codec, reserved, number of bytes
RAW, ZLIB = 0, 1  # codecs

MOST_JSON = 1 << 24  # bytes of a chunk of JSON
_BLOCK = 1 << 20  # bytes that are read at once
_WORD = 8  # bytes
_CHECK_FACTOR = 0x9E3779B97F4A7C15
_MOST_DIGITS = 25  # of a number in JSON: 64-bit integers have 20, a double in full has 24


class RecordingError(ValueError):
    """A file is no recording, or one that this version refuses: which, where in the file, and why."""


class Chunk(NamedTuple):
    """A chunk's type, and where its payload lies in the file."""

    type: bytes
    start: int
    length: int


class ChunkFile:
    """A recording that is open for reading. ``end`` is behind the last whole chunk, ``cut`` says why the file ends there."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = Path(path)
        self.cut = ""
        self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        try:
            prefix = self.read(0, PREFIX.size)
            magic, version, _ = PREFIX.unpack(prefix) if len(prefix) == PREFIX.size else (b"", 0, 0)
            if magic != MAGIC:
                raise RecordingError(f"{self.path} is no recording: it does not begin with {MAGIC.decode()}")
            if not 1 <= version <= VERSION:
                raise RecordingError(
                    f"{self.path} is a recording of version {version}; this ascend_aclnn reads versions up to {VERSION}"
                )
        except BaseException:
            self.close()
            raise
        self.end = PREFIX.size

    def close(self) -> None:
        self._file.close()

    def read(self, start: int, length: int) -> bytes:
        """Bytes of the file; fewer where it ends before."""
        parts = []
        while length > 0:
            part = os.pread(self._file.fileno(), min(length, 1 << 30), start)
            if not part:
                break
            parts.append(part)
            start, length = start + len(part), length - len(part)
        return b"".join(parts)

    def scan(self) -> Iterator[tuple[Chunk, bytes]]:
        """The chunks behind ``end`` with their payloads (of data: the head alone), as far as they are whole; moves ``end``.

        It may be called again when the file has grown. RecordingError for what no writer leaves behind.
        """
        size = os.fstat(self._file.fileno()).st_size
        block, base = b"", self.end
        self.cut = ""
        while True:
            at = self.end - base
            if at > len(block) or len(block) - at < HEADER.size:
                block, base, at = self.read(self.end, _BLOCK), self.end, 0
            header = block[at : at + HEADER.size]
            if not header.rstrip(b"\0"):
                return  # the end of the file, or of what was written into space that was reserved
            if len(header) < HEADER.size:
                self.cut = f"byte {self.end}: the head of a chunk is cut off"
                return
            kind, crc, length = HEADER.unpack(header)
            if kind not in TYPES:
                if kind == b"\0\0\0\0":
                    self.cut = f"byte {self.end}: a chunk that was not finished"
                    return
                raise self.error(self.end, f"{kind!r} is no type of a chunk")
            start = self.end + HEADER.size
            if kind != DATA and length > MOST_JSON:
                raise self.error(self.end, f"a chunk {kind.decode()} of {length} bytes; at most {MOST_JSON} are read")
            if length > size - start:
                self.cut = (
                    f"byte {self.end}: {length} bytes of a chunk {kind.decode()}, of which {size - start} are there"
                )
                return
            wanted = length if kind != DATA else min(length, DATA_HEADER.size)
            at = start - base
            if len(block) - at < wanted:
                block, base, at = self.read(start, max(wanted, _BLOCK)), start, 0
            payload = block[at : at + wanted]
            if kind != DATA and checksum(kind, payload) != crc:
                raise self.error(self.end, f"the CRC of a chunk {kind.decode()} is wrong")
            self.end = start + length + -length % ALIGNMENT
            yield Chunk(kind, start, length), payload

    def payload(self, chunk: Chunk) -> bytes:
        """The payload of a chunk, its CRC checked."""
        head = self.read(chunk.start - HEADER.size, HEADER.size + chunk.length)
        payload = head[HEADER.size :]
        if len(payload) < chunk.length or checksum(chunk.type, payload) != HEADER.unpack_from(head)[1]:
            raise self.error(chunk.start - HEADER.size, f"the CRC of a chunk {chunk.type.decode()} is wrong")
        return payload

    def error(self, at: int, text: str) -> RecordingError:
        return RecordingError(f"{self.path}, byte {at}: {text}")


def checksum(kind: bytes, payload: bytes) -> int:
    """What the head of a chunk says of its payload: CRC-32 of the length and the payload, as zlib computes it.

    Of a brief record the upper half of a polynomial of its words but the first, which is filled in later: the layer computes
    that from registers, and does not read what it has just written.
    """
    if kind != BRIEF:
        return zlib.crc32(payload, zlib.crc32(LENGTH.pack(len(payload))))
    total = 0
    for word in words(payload)[1:]:
        total = (total + word) * _CHECK_FACTOR & 0xFFFFFFFFFFFFFFFF
    return total >> 32


def words(payload: bytes) -> tuple[int, ...]:
    """The words of a payload; zeros fill the last one."""
    count = -(-len(payload) // _WORD)
    return struct.unpack(f"<{count}Q", payload.ljust(count * _WORD, b"\0"))


def chunk(kind: bytes, payload: bytes) -> bytes:
    """A chunk as it lies in the file."""
    return HEADER.pack(kind, checksum(kind, payload), len(payload)) + payload + b"\0" * (-len(payload) % ALIGNMENT)


def to_json(record: Any) -> bytes:
    """A record as a payload; NaN and infinity, which JSON lacks, must be strings by then."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")


def from_json(payload: bytes) -> Any:
    """The record of a payload; ValueError for anything but JSON with numbers of a sensible length."""
    try:
        return json.loads(payload, parse_int=_integer, parse_float=_float, parse_constant=_constant)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _float(text: str) -> float:
    if len(text) > 2 * _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return float(text)


def _constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")
