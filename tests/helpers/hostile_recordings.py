"""Recordings as a stranger may send them: whole chunks with right checksums, whose content is not what a recorder writes."""

from __future__ import annotations

import json
import random
import struct
import zlib
from pathlib import Path
from typing import Any

from recordings import HEADER, description, record_an_addition

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.recording import (
    Call,
    Launch,
    Prototype,
    Recording,
    RecordingError,
    TensorValue,
    Value,
    Writer,
    chunks,
)
from ascend_aclnn.replay import export, replay, trim
from ascend_aclnn.replay.summary import call_line, header_lines, launch_line, launch_lines

LIMIT = 1 << 22  # bytes of a tensor, of the readers here
_NUMBERS = (-1, 0, 1, 7, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, -(1 << 63), 1 << 70, 0.5, None, True)
_TEXTS = (
    "",
    "../../../etc/passwd",
    "/etc/passwd",
    "a" * 70_000,
    '"""\nimport os\n"""',
    "\x1b]0;x\x07",
    "aclnnMm",
    "0" * 32,
    "\0",
)
_OTHERS: tuple[Any, ...] = ([], {}, [[]] * 3, [0] * 70, {"tensor": 0, "address": 0}, {"integers": [1 << 62] * 9})


def original(path: Path) -> Path:
    """A recording with chunks of every type."""
    record_an_addition(path, launches=2)
    brief = ((chunks.OLD_LAUNCH, old_launch()), (chunks.OLD_RETURN, bytes([2, 5, 9])), (chunks.BRIEF, words_launch()))
    with open(path, "ab") as file:
        for kind, payload in brief:
            file.write(chunks.chunk(kind, payload))
    return path


def words_launch(index: int = 3, returned: tuple[int, int] = (2, 9), **changed: int) -> bytes:
    """A launch of the addition as words: null, two tensors, an integer. ``changed`` has words by their names."""
    words = {
        "returned": returned[0] | returned[1] << 32,
        "op": index << 32,
        "begin": 10,
        "duration": 3 | 70 << 32,
        "thread": 71 | 1 << 32 | (1 | 2 | 4) << 48,
        "stream": 5,
        "workspace": 64,
        "workspace_address": 4096,
        "site": 0,
        "other": 128,
        "alpha": (1 << 64) - 3,
        "far_id": 0,
        "far_address": 1 << 60,
        "kinds": 0x07020100,
        **changed,
    }
    return struct.pack(f"<{len(words)}Q", *words.values())


def old_launch(index: int = 2) -> bytes:
    """A launch of the addition in version 2: null, two tensors, an integer."""
    return bytes([index, 0, 0, 0, 0, 5, 0, 1, 1, 10, 3, 1]) + bytes([0, 1, 0, 0x80, 1, 2, 6, 1, 0, 9])


def parts(path: Path) -> list[tuple[bytes, bytes]]:
    """The chunks of a file: types and payloads."""
    whole, at, found = path.read_bytes(), chunks.PREFIX.size, []
    while at < len(whole):
        kind, _, length = chunks.HEADER.unpack_from(whole, at)
        start = at + chunks.HEADER.size
        found.append((kind, whole[start : start + length]))
        at = start + length + -length % chunks.ALIGNMENT
    return found


def put_together(path: Path, listed: list[tuple[bytes, bytes]]) -> Path:
    prefix = chunks.PREFIX.pack(chunks.MAGIC, chunks.VERSION, 0)
    path.write_bytes(prefix + b"".join(chunks.chunk(kind, payload) for kind, payload in listed))
    return path


def mutated(listed: list[tuple[bytes, bytes]], draw: random.Random) -> list[tuple[bytes, bytes]]:
    """The chunks with one of them changed, doubled, left out or moved."""
    listed = list(listed)
    at = draw.randrange(1, len(listed))
    kind, payload = listed[at]
    way = draw.randrange(8)
    if way == 0:
        del listed[at]
    elif way == 1:
        listed.insert(draw.randrange(1, len(listed)), listed[at])
    elif way == 2:
        listed[at] = (draw.choice(sorted(chunks.TYPES)), payload)
    elif kind in (chunks.DATA, chunks.BRIEF, chunks.OLD_LAUNCH, chunks.OLD_RETURN):
        listed[at] = (kind, _bytes(payload, draw))
    else:
        try:
            record = json.loads(payload)
        except ValueError:  # a type was changed before
            return listed
        if isinstance(record, (dict, list)):
            _change(record, draw)
        listed[at] = (kind, json.dumps(record).encode())
    return listed


def _bytes(payload: bytes, draw: random.Random) -> bytes:
    changed = bytearray(payload or b"\0")
    for _ in range(draw.randrange(1, 4)):
        changed[draw.randrange(len(changed))] = draw.choice((0, 1, 2, 0x7F, 0x80, 0xFF, draw.randrange(256)))
    return bytes(changed[: draw.choice((None, draw.randrange(len(changed))))])


def _change(record: Any, draw: random.Random) -> None:
    """Puts another value somewhere into a record."""
    while True:
        places: list[Any] = list(record) if isinstance(record, dict) else list(range(len(record)))
        if not places:
            return
        place = draw.choice(places)
        if not isinstance(record[place], (dict, list)) or not record[place] or draw.random() < 0.3:
            break
        record = record[place]
    if isinstance(record, dict) and draw.random() < 0.15:
        del record[place]
    else:
        record[place] = draw.choice(draw.choice((_NUMBERS, _TEXTS, _OTHERS)))


def use(path: Path, folder: Path) -> bool:
    """Does with a recording what the command line does; False where it is refused. Any other exception leaves."""
    try:
        with Recording(path, limit=LIMIT) as recording:
            list(header_lines(recording))
            for event in recording.events():
                if isinstance(event, Launch):
                    launch_line(event)
                    list(launch_lines(recording, event))
                elif isinstance(event, Call):
                    call_line(recording, event)
            for outcome in replay(recording):
                str(outcome)
            for index in range(len(recording.launches)):
                for name, function in (("test.py", export), ("part.aclnn", lambda r, i, p: trim(r, [i], p))):
                    target = folder / f"{index}-{name}"
                    target.unlink(missing_ok=True)
                    function(recording, index, target)
    except RecordingError as error:
        assert str(path) in str(error), error
        return False
    return True


def bomb(path: Path, nbytes: int) -> Path:
    """A few bytes that are ``nbytes`` zeros, as the input of an absolute value."""
    shape = description((nbytes,), DataType.INT8)
    with Writer(path, HEADER) as writer:
        head = chunks.DATA_HEADER.pack(bytes(16), chunks.ZLIB, 0, nbytes)
        writer._append(chunks.DATA, head + zlib.compress(bytes(nbytes), 9))
        tensors = [TensorValue(shape, 1 << 20, before="0" * 32), TensorValue(shape, 1 << 40)]
        writer.launch(Prototype("aclnnAbs", ("self", "out"), ("in", "out")), [Value("tensor", t) for t in tensors])
    return path


__all__ = ["bomb", "mutated", "old_launch", "original", "parts", "put_together", "use", "words_launch"]
