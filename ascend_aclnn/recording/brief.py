"""Brief records: launches without data and errors in few bytes, as the layer writes them. Numbers are LEB128."""

from __future__ import annotations

import dataclasses
import struct

from ascend_aclnn.recording.records import MOST_ITEMS, Launch, ScalarValue, Tables, TensorValue, Value, at

_MOST_BYTES = 10  # of a number of 64 bits
_MOST_SCALAR = 16
_NUMBER = struct.Struct("<d")


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


def launch(payload: bytes, tables: Tables) -> Launch:
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


def index(payload: bytes) -> int:
    """Which launch an ``LRET`` record is about."""
    return _Fields(payload).number("index")


def returned(launch: Launch, payload: bytes) -> Launch:
    """The launch with what an ``LRET`` record says: phase two succeeded."""
    fields = _Fields(payload)
    fields.number("index")
    begin = fields.number("begin")
    end = begin + fields.number("duration")
    fields.end()
    return dataclasses.replace(launch, statuses=(launch.statuses[0], 0), times=(*launch.times[:2], begin, end))


__all__ = ["index", "launch", "returned"]
