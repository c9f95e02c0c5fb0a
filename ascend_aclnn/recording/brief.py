"""Brief records: launches without data and errors in few bytes, as the layer writes them.

They are words of 64 bits; in recordings of version 2 they were numbers in LEB128.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import Optional

from ascend_aclnn.recording import chunks
from ascend_aclnn.recording.records import MOST_ITEMS, Launch, ScalarValue, Tables, TensorValue, Value, at

_MOST_BYTES = 10  # of a number of 64 bits
_MOST_SCALAR = 16
_NUMBER = struct.Struct("<d")
_SIGNED = struct.Struct("<q")
_UNSIGNED = struct.Struct("<Q")
_HALF = 0xFFFFFFFF
_REPEATABLE, _WORKSPACE, _SITE = 1, 2, 4  # flags
_NULL, _TENSOR, _INTEGER, _FLOAT, _SCALAR, _INTEGERS, _BOOLEANS, _FAR_TENSOR = range(8)  # kinds of values
_ADDRESS_BITS = 48  # of a tensor in one word: its address, and its description above


class _Words:
    """The words of a brief record, one behind the other; ValueError names the field that is not there."""

    def __init__(self, payload: bytes) -> None:
        if len(payload) % _UNSIGNED.size:
            raise ValueError(f"{len(payload)} bytes; it must be whole words of {_UNSIGNED.size}")
        self._words = chunks.words(payload)
        self._at = 0

    def word(self, name: str) -> int:
        if self._at >= len(self._words):
            raise ValueError(f"{name} is not there: the record has {len(self._words)} words")
        self._at += 1
        return self._words[self._at - 1]

    def halves(self, name: str) -> tuple[int, int]:
        word = self.word(name)
        return word & _HALF, word >> 32

    def signed(self, name: str) -> int:
        value: int = _SIGNED.unpack(_UNSIGNED.pack(self.word(name)))[0]
        return value

    def number(self, name: str) -> float:
        value: float = _NUMBER.unpack(_UNSIGNED.pack(self.word(name)))[0]
        return value

    def count(self, name: str) -> int:
        count = self.word(name)
        if count > len(self._words):
            raise ValueError(f"{name} has {count} items in a record of {len(self._words)} words")
        return count

    def last(self, name: str, count: int) -> bytes:
        """The bytes of the last words, which are taken away."""
        split = len(self._words) - count
        if split < self._at:
            raise ValueError(f"{name} is not there: the record has {len(self._words)} words")
        taken, self._words = self._words[split:], self._words[:split]
        return struct.pack(f"<{count}Q", *taken)

    def end(self) -> None:
        if self._at != len(self._words):
            raise ValueError(f"{len(self._words) - self._at} words behind the last field")


def launch(tables: Tables, payload: bytes) -> Launch:
    """The launch of a ``LAUN`` record; ValueError or IndexError for one that no recorder writes."""
    words = _Words(payload)
    later, lasted = words.halves("the return")
    operator_id, index = words.halves("op")
    operator = at("op", tables.operators, operator_id)
    begin = words.word("begin")
    duration, first_thread = words.halves("duration")
    second_thread, device = words.halves("thread")
    device, flags = device & 0xFFFF, device >> 16
    if flags & ~(_REPEATABLE | _WORKSPACE | _SITE):
        raise ValueError(f"flags are {flags}; those up to {_REPEATABLE | _WORKSPACE | _SITE} are known")
    stream = words.word("stream")
    workspace = (words.word("workspace"), words.word("workspace address")) if flags & _WORKSPACE else (0, 0)
    frames = at("site", tables.sites, words.word("site")) if flags & _SITE else ()
    kinds = words.last("the kinds of the values", -(-len(operator.parameters) // 8))
    values = tuple(_word_value(name, kind, words, tables) for name, kind in zip(operator.parameters, kinds))
    words.end()
    end = begin + duration
    status: Optional[int] = 0 if lasted else None
    times = (begin, end, end + later, end + later + lasted) if lasted else (begin, end, 0, 0)
    return Launch(
        index,
        operator,
        values,
        (0, status),
        workspace,
        bool(flags & _REPEATABLE),
        stream,
        device,
        (first_thread, second_thread),
        times,
        frames,
        "",
        "",
    )


def _word_value(name: str, kind: int, words: _Words, tables: Tables) -> Value:
    if kind == _NULL:
        return Value("null", None)
    if kind in (_TENSOR, _FAR_TENSOR):
        word = words.word(name)
        number, address = divmod(word, 1 << _ADDRESS_BITS) if kind == _TENSOR else (word, words.word(name))
        return Value("tensor", TensorValue(at(name, tables.tensors, number), address))
    if kind == _INTEGER:
        return Value("integer", words.signed(name))
    if kind == _FLOAT:
        return Value("number", words.number(name))
    if kind == _SCALAR:
        dtype, size = words.halves(name)
        if size > _MOST_SCALAR:
            raise ValueError(f"{name} is a scalar of {size} bytes; at most {_MOST_SCALAR} are read")
        content = b"".join(_UNSIGNED.pack(words.word(name)) for _ in range(2 if size > _UNSIGNED.size else 1))
        return Value("scalar", ScalarValue(dtype - (dtype >> 31 << 32), content[:size]))
    if kind == _INTEGERS:
        return Value("integers", tuple(words.signed(name) for _ in range(words.count(name))))
    if kind == _BOOLEANS:
        return Value("booleans", tuple(bool(words.word(name)) for _ in range(words.count(name))))
    raise ValueError(f"{name} has a value of kind {kind}; 0 to {_FAR_TENSOR} are known")


# ------------------------------------------------------------------------------------------- version 2: LEB128


class _Fields:
    """The fields of a brief record, one behind the other; ValueError names the field that is not there or too large."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    def number(self, name: str) -> int:
        value = 0
        for count, byte in enumerate(self._payload[self._at : self._at + _MOST_BYTES]):
            value |= (byte & 0x7F) << 7 * count
            if byte < 0x80:
                self._at += count + 1
                if value >> 64:
                    raise ValueError(f"{name} has more than 64 bits")
                return value
        raise ValueError(f"{name} does not end")

    def signed(self, name: str) -> int:
        value = self.number(name)
        return value >> 1 ^ -(value & 1)

    def bytes(self, name: str, count: int) -> bytes:
        part = self._payload[self._at : self._at + count]
        if len(part) < count:
            raise ValueError(f"{name} has {len(part)} bytes; it must have {count}")
        self._at += count
        return part

    def count(self, name: str) -> int:
        count = self.number(name)
        if count > min(MOST_ITEMS, len(self._payload)):
            raise ValueError(f"{name} has {count} items in a record of {len(self._payload)} bytes")
        return count

    def end(self) -> None:
        if self._at != len(self._payload):
            raise ValueError(f"{len(self._payload) - self._at} bytes behind the last field")


def old_launch(tables: Tables, payload: bytes) -> Launch:
    """The launch of an ``LNCH`` record; ValueError or IndexError for one that no recorder writes."""
    fields = _Fields(payload)
    index, operator = fields.number("index"), at("op", tables.operators, fields.number("op"))
    repeatable = bool(fields.number("repeatable"))
    workspace = fields.number("workspace"), fields.number("workspace address")
    stream, device = fields.number("stream"), fields.signed("device")
    threads = fields.number("thread"), fields.number("thread")
    begin = fields.number("begin")
    end = begin + fields.number("duration")
    site = fields.signed("site")
    values = tuple(_value(name, fields, tables) for name in operator.parameters)
    fields.end()
    frames = () if site < 0 else at("site", tables.sites, site)
    return Launch(
        index,
        operator,
        values,
        (0, None),
        workspace,
        repeatable,
        stream,
        device,
        threads,
        (begin, end, 0, 0),
        frames,
        "",
        "",
    )


def _value(name: str, fields: _Fields, tables: Tables) -> Value:
    kind = fields.number(name)
    if kind == 0:
        return Value("null", None)
    if kind == 1:
        description = at(name, tables.tensors, fields.number(name))
        return Value("tensor", TensorValue(description, fields.number(name)))
    if kind == 2:
        return Value("integer", fields.signed(name))
    if kind == 3:
        return Value("number", _NUMBER.unpack(fields.bytes(name, _NUMBER.size))[0])
    if kind == 4:
        dtype, size = fields.signed(name), fields.number(name)
        if size > _MOST_SCALAR:
            raise ValueError(f"{name} is a scalar of {size} bytes; at most {_MOST_SCALAR} are read")
        return Value("scalar", ScalarValue(dtype, fields.bytes(name, size)))
    if kind == 5:
        return Value("integers", tuple(fields.signed(name) for _ in range(fields.count(name))))
    if kind == 6:
        return Value("booleans", tuple(bool(fields.number(name)) for _ in range(fields.count(name))))
    raise ValueError(f"{name} has a value of kind {kind}; 0 to 6 are known")


def old_index(payload: bytes) -> int:
    """Which launch an ``LRET`` record is about."""
    return _Fields(payload).number("index")


def old_returned(launch: Launch, payload: bytes) -> Launch:
    """The launch with what an ``LRET`` record says: phase two succeeded."""
    fields = _Fields(payload)
    fields.number("index")
    begin = fields.number("begin")
    end = begin + fields.number("duration")
    fields.end()
    return dataclasses.replace(launch, statuses=(launch.statuses[0], 0), times=(*launch.times[:2], begin, end))


__all__ = ["launch", "old_index", "old_launch", "old_returned"]
