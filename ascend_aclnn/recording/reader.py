"""Reads a recording. Nothing in the file is believed before it is checked: it may come from a stranger."""

from __future__ import annotations

import hashlib
import math
import os
import zlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union, overload

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.interface import Storage, StreamHandle
from ascend_aclnn.core.stored import StoredTensor
from ascend_aclnn.recording import brief, chunks, records
from ascend_aclnn.recording.chunks import Chunk, ChunkFile, RecordingError
from ascend_aclnn.recording.records import Call, End, Header, Launch, TensorDescription, TensorValue

LIMIT = 4 << 30  # bytes of one tensor
_MOST_EXPANSION = 1100  # zlib makes at most 1032 bytes of one
T = TypeVar("T")


class Note(NamedTuple):
    """A remark of the recorder."""

    text: str


Event = Union[Launch, Call, Note]


class Recording:
    """An open recording.

    ``limit`` is the most bytes that one tensor may have. RecordingError for a file that is no recording or is damaged; one
    that ends early, because its program was killed, is read up to there, and ``cut`` says where.
    """

    def __init__(self, path: Union[str, os.PathLike[str]], limit: int = LIMIT) -> None:
        self._file = ChunkFile(path)
        self.path = self._file.path
        self.limit = limit
        self.header = Header("", "", "", False, (), {}, 0, "", "", "", "", -1)
        self.ended: Optional[End] = None  # None: the program did not end in order, or is still running
        self._tables = records.Tables()
        self._starts, self._lengths, self._kinds = array("Q"), array("Q"), bytearray()
        self._launches = array("Q")  # positions in the lists above
        self._returns: dict[int, Chunk] = {}  # what phase two returned, by the launch's index
        self._data: dict[str, Chunk] = {}
        self._has_header = False
        self._current = Chunk(b"", 0, 0)  # the one that is being read
        try:
            self.refresh()
        except BaseException:
            self.close()
            raise
        self.launches = Launches(self)

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def cut(self) -> str:
        """Where the file ends in the middle of a chunk; "" where it does not."""
        return self._file.cut

    def refresh(self) -> int:
        """Reads what has been appended since; the number of events (launches, calls, notes) that are new."""
        before = len(self._kinds)
        for chunk, payload in self._file.scan():
            if not self._has_header and chunk.type != chunks.HEAD:
                raise self._file.error(chunk.start, "the first chunk is no header")
            if chunk.type == chunks.DATA:
                self._note_data(chunk, payload)
            elif chunk.type in _EVENTS:
                if chunk.type in _LAUNCHES:
                    self._launches.append(len(self._kinds))
                self._kinds.append(_EVENTS.index(chunk.type))
                self._starts.append(chunk.start)
                self._lengths.append(chunk.length)
            else:
                self._current = chunk
                self._parse(chunk, payload, self._table)
        return len(self._kinds) - before

    def events(self, start: int = 0) -> Iterator[Event]:
        """Launches, calls and notes in the order in which they were recorded, from an event's number on."""
        position = start
        while position < len(self._kinds):
            yield self._event(position)
            position += 1

    def notes(self) -> list[str]:
        """The recorder's remarks."""
        kind = _EVENTS.index(chunks.NOTE)
        notes = (self._event(position) for position, one in enumerate(self._kinds) if one == kind)
        return [note.text for note in notes if isinstance(note, Note)]

    def data(self, key: str) -> bytes:
        """Recorded bytes; RecordingError where they are absent, damaged or larger than the limit."""
        chunk = self._data.get(key)
        if chunk is None:
            raise RecordingError(f"{self.path}: the data {key} were not recorded")
        size = chunks.DATA_HEADER.unpack(self._file.read(chunk.start, chunks.DATA_HEADER.size))[3]
        if max(size, chunk.length) > self.limit + chunks.DATA_HEADER.size:
            raise self._file.error(chunk.start, f"data of {size} bytes; the limit is {self.limit}")
        payload = self._file.payload(chunk)
        digest, codec, _, size = chunks.DATA_HEADER.unpack_from(payload)
        data = payload[chunks.DATA_HEADER.size :]
        if codec == chunks.ZLIB:
            data = self._inflated(chunk, data, size)
        elif codec != chunks.RAW:
            raise self._file.error(chunk.start, f"codec {codec}; {chunks.RAW} and {chunks.ZLIB} are known")
        if len(data) != size or hashlib.blake2b(data, digest_size=16).digest() != digest:
            raise self._file.error(chunk.start, "the data are not what their key says")
        return data

    def array(self, tensor: TensorValue, when: str = "before") -> npt.NDArray[Any]:
        """The elements of a recorded tensor, "before" or "after" the launch, in its shape and its host dtype.

        RecordingError where they were not recorded; TypeError for a data type that NumPy has no counterpart of.
        """
        key = tensor.before if when == "before" else tensor.after
        if key is None:
            raise RecordingError(f"{self.path}: the data {when} the launch were not recorded")
        data = self.data(key)
        try:
            return elements(tensor.description, data, self.limit)
        except (ValueError, OverflowError) as error:
            raise RecordingError(f"{self.path}: {error}") from None

    # ---------------------------------------------------------------------------------------------- inside
    def _event(self, position: int) -> Event:
        kind = _EVENTS[self._kinds[position]]
        chunk = Chunk(kind, self._starts[position], self._lengths[position])
        return self._parse(chunk, self._file.payload(chunk), self._read_event)

    def _launch(self, number: int) -> Launch:
        position = self._launches[number]
        launch = self._event(position)
        assert isinstance(launch, Launch)
        if launch.index != number:
            raise self._file.error(self._starts[position], f"launch {number} says that it is number {launch.index}")
        return launch

    def _parse(self, chunk: Chunk, payload: bytes, use: Callable[[bytes, Any], T]) -> T:
        try:
            return use(chunk.type, payload if chunk.type in _BRIEF else chunks.from_json(payload))
        except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
            raise self._file.error(chunk.start, f"the record {chunk.type.decode()} is refused: {error}") from None

    def _read_event(self, kind: bytes, record: Any) -> Event:
        if kind in _LAUNCHES:
            launch = _LAUNCHES[kind](self._tables, record)
            chunk = self._returns.get(launch.index)
            if chunk is None:
                return launch
            payload = self._file.payload(chunk)
            if chunk.type == chunks.OLD_RETURN:
                return brief.old_returned(launch, payload)
            return self._tables.returned(launch, chunks.from_json(payload))
        if kind == chunks.CALL:
            return self._tables.call(record)
        return Note(records.Fields(record).string("text"))

    def _table(self, kind: bytes, record: Any) -> None:
        tables = self._tables
        if kind == chunks.TENSOR:
            tables.add(tables.tensors, record, records.tensor(record))
        elif kind == chunks.OPERATOR:
            tables.add(tables.operators, record, records.prototype(record))
        elif kind == chunks.SITE:
            tables.add(tables.sites, record, tables.site(record))
        elif kind in (chunks.RETURN, chunks.OLD_RETURN):
            index = records.Fields(record).integer("index", low=0) if kind == chunks.RETURN else brief.old_index(record)
            if index >= len(self._launches) or index in self._returns:
                raise ValueError(f"index is {index}; there is no launch of that number, or it has returned before")
            self._returns[index] = self._current
        elif kind == chunks.END:
            self.ended = records.end(record)
        elif self._has_header:
            raise ValueError("a second header")
        else:
            self.header, self._has_header = records.header(record), True

    def _note_data(self, chunk: Chunk, head: bytes) -> None:
        if len(head) < chunks.DATA_HEADER.size:
            raise self._file.error(chunk.start, f"a chunk of data of {chunk.length} bytes has no head")
        self._data.setdefault(chunks.DATA_HEADER.unpack(head)[0].hex(), chunk)

    def _inflated(self, chunk: Chunk, data: bytes, size: int) -> bytes:
        if size > _MOST_EXPANSION * len(data):
            raise self._file.error(chunk.start, f"{len(data)} compressed bytes claim to be {size}")
        machine = zlib.decompressobj()
        try:
            inflated = machine.decompress(data, size + 1)
        except zlib.error as error:
            raise self._file.error(chunk.start, f"the compressed data are damaged ({error})") from None
        if not machine.eof or machine.unused_data:
            raise self._file.error(chunk.start, "the compressed data do not end with the chunk")
        return inflated


class Launches(Sequence[Launch]):
    """The launches of a recording by their index; each is read when it is asked for."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __len__(self) -> int:
        return len(self._recording._launches)

    @overload
    def __getitem__(self, index: int) -> Launch: ...
    @overload
    def __getitem__(self, index: slice) -> list[Launch]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Launch, list[Launch]]:
        if isinstance(index, slice):
            return [self._recording._launch(number) for number in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"launch {index} of {len(self)}")
        return self._recording._launch(number)


_LAUNCHES: dict[bytes, Callable[[records.Tables, Any], Launch]] = {
    chunks.LAUNCH: records.Tables.launch,
    chunks.BRIEF: brief.launch,
    chunks.OLD_LAUNCH: brief.old_launch,
}
_EVENTS = (*_LAUNCHES, chunks.CALL, chunks.NOTE)
_BRIEF = (chunks.BRIEF, chunks.OLD_LAUNCH, chunks.OLD_RETURN)


def elements(description: TensorDescription, data: bytes, limit: int = LIMIT) -> npt.NDArray[Any]:
    """The elements of a tensor of which ``data`` holds the bytes of ``byte_range``. ValueError where they do not fit."""
    spec = description.spec
    start, stop = description.byte_range
    size = math.prod(max(n, 0) for n in description.shape) * (spec.dtype.bits + 7) // 8
    if start < 0 or stop - start != len(data) or size > limit:
        raise ValueError(
            f"{len(data)} bytes for shape {description.shape} of {spec.dtype.name}, which reaches bytes {start} to {stop}; "
            f"the limit is {limit}"
        )
    return StoredTensor.on(_Bytes(data, start), spec).numpy()


class _Bytes(Storage):
    """Bytes of a file as the storage of a tensor."""

    def __init__(self, data: bytes, start: int) -> None:
        self._bytes = np.frombuffer(data, np.uint8)
        self._start = start
        self.nbytes = start + len(data)

    @property
    def address(self) -> int:
        return 0

    @property
    def has_memory(self) -> bool:
        return True

    def read(self, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
        first = offset - self._start
        if first < 0 or first + nbytes > self._bytes.size:
            raise ValueError(f"bytes {offset} to {offset + nbytes} were not recorded")
        return self._bytes[first : first + nbytes]

    def write(self, offset: int, data: npt.NDArray[np.uint8]) -> None:
        raise TypeError("recorded data cannot be written")

    def record_stream(self, stream: StreamHandle) -> None:
        return


__all__ = ["LIMIT", "Event", "Launches", "Note", "Recording", "elements"]
