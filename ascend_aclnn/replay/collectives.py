"""Collectives of a program's ranks: what each rank has got, beside what the others have sent.

The layer names the communicator and the rank of each collective whose data it records (docs/recording.md). A collective can be
checked where the recordings of all ranks of its communicator are at hand.
"""

from __future__ import annotations

import dataclasses
import functools
import html
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.hccl import data_type
from ascend_aclnn.recording import Call, Recording, RecordingError
from ascend_aclnn.replay.launches import described
from ascend_aclnn.testing import failures
from ascend_aclnn.testing.compare import Comparison, compare

Array = npt.NDArray[Any]

_finfo: Any = ml_dtypes.finfo
RECEIVED = "received"  # a record of the layer's own: what a receive has got
_ITEM = np.dtype(
    [("receives", "<i4"), ("", "V4"), ("buffer", "<u8"), ("count", "<u8"), ("dtype", "<i4"), ("peer", "<u4")]
)
_MEMBER = {"group", "rank", "ranks", "stream"}  # what the layer says of a call by a rank, beside its arguments
_PAIRED = ("HcclSend", "HcclRecv", "HcclBatchSendRecv")


@dataclasses.dataclass
class Exchange:
    """A collective of a communicator, or a send with its receive, compared. ``comparisons`` has those that failed, by rank."""

    name: str
    group: str
    number: int  # of the communicator's collectives, or of this pair's sends, from 0
    difference: str = ""
    left_out: str = ""
    comparisons: dict[str, Comparison] = dataclasses.field(default_factory=dict)
    recorded: list[str] = dataclasses.field(default_factory=list)  # lines that name the files of what is wrong

    @property
    def title(self) -> str:
        return f"{self.name}, number {self.number} of {self.group}"

    def __str__(self) -> str:
        if self.left_out:
            return f"{self.title} was not compared: {self.left_out}"
        return f"{self.title} differs: {self.difference}" if self.difference else f"{self.title} is right"

    def lines(self) -> list[str]:
        """The exchange, and of each buffer that is wrong how many elements are, and where they lie."""
        lines = [str(self)]
        for name, one in self.comparisons.items():
            lines += [f"  {name}: {one.summary}", *(f"    {line}" for line in one.picture())]
        return lines

    def _repr_html_(self) -> str:
        """For notebooks."""
        parts = [f"<p>{html.escape(str(self))}</p>"]
        parts += [f"<h3>{html.escape(name)}</h3>{one._repr_html_()}" for name, one in self.comparisons.items()]
        return "\n".join(parts)

    def write(self, directory: Union[str, Path]) -> list[str]:
        """Records what is wrong, beside what should have come; lines that name the files ("off": none)."""
        lines = []
        for name, one in self.comparisons.items():
            lines += failures.written(one, None, directory, failures.file_name(f"{self.title} {name}"))
        return lines

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "group": self.group,
            "number": self.number,
            "difference": self.difference,
            "left_out": self.left_out,
            "buffers": {name: {"reason": one.reason, "wrong": one.wrong} for name, one in self.comparisons.items()},
        }


class _Member(NamedTuple):
    """A rank's call."""

    recording: Recording
    call: Call
    received: Mapping[str, str]  # keys of what was recorded after the call had returned

    def argument(self, name: str) -> int:
        value = self.number(name)
        if value < 0:
            raise _Unknown(f"{self.call.name} was recorded without {name}")
        return value

    def number(self, name: str) -> int:
        """An argument that is a number; -1 where it is none."""
        value = self.call.arguments.get(name)
        return value if isinstance(value, int) else -1

    @property
    def rank(self) -> int:
        return self.number("rank")

    @property
    def dtype(self) -> DataType:
        numbers = [self.call.arguments[name] for name in ("dataType", "sendType") if name in self.call.arguments]
        return _dtype(numbers[0] if numbers else None)

    def values(self, name: str, dtype: DataType) -> Array:
        """The elements of a buffer."""
        key = self.received.get(name) or self.call.data.get(name)
        if key is None:
            reason = f" ({self.call.left_out})" if self.call.left_out else ""
            raise _Unknown(f"{name} of rank {self.rank} was not recorded{reason}")
        data = self.recording.data(key)
        assert dtype.numpy is not None
        if len(data) % dtype.numpy.itemsize:
            raise _Unknown(f"{name} has {len(data)} bytes, which are no elements of {dtype.name}")
        return np.frombuffer(data, dtype.numpy)

    def counts(self, name: str, size: int) -> list[int]:
        values = self.values(name, DataType.UINT64)
        if values.size != size:
            raise _Unknown(f"{name} has {values.size} numbers; {size} are expected")
        return [int(value) for value in values]


class _Unknown(Exception):
    """Why an exchange cannot be compared."""


def _dtype(number: Any) -> DataType:
    dtype = data_type(number) if isinstance(number, int) else None
    if dtype is None or dtype.numpy is None:
        raise _Unknown(f"HCCL's data type {number} has no counterpart on the host")
    return dtype


def exchanges(recordings: Sequence[Recording]) -> Iterator[Exchange]:
    """Compares the collectives, sends and receives in the recordings of a program's ranks, communicator by communicator.

    Moved elements have to be the same bytes. A reduction of floating-point numbers may be summed in any order and be rounded at
    each step: an element is right within ``ranks`` units of its data type's precision of the sum of magnitudes (of the product
    for "prod"). One that was recorded without data is left out.
    """
    collectives: dict[str, dict[int, list[_Member]]] = defaultdict(lambda: defaultdict(list))
    paired: dict[tuple[str, int, int], tuple[list[_Part], list[_Part]]] = defaultdict(lambda: ([], []))
    for recording in recordings:
        for member in _members(recording):
            group, rank = str(member.call.arguments["group"]), member.rank
            if member.call.name not in _PAIRED:
                collectives[group][rank].append(member)
                continue
            for sends, peer, part in _parts(member):
                paired[(group, rank, peer) if sends else (group, peer, rank)][not sends].append(part)
    for group, ranks in collectives.items():
        yield from _compared_group(group, ranks)
    for (group, source, target), (sent, received) in paired.items():
        for number in range(max(len(sent), len(received))):
            exchange = Exchange(f"send from rank {source} to rank {target}", group, number)
            try:
                if number >= min(len(sent), len(received)):
                    side, rank = ("receive", target) if number >= len(received) else ("send", source)
                    raise _Unknown(f"its {side} by rank {rank} is not in the recordings")
                _judge(exchange, f"rank {target}", received[number].values(), sent[number].values(), None)
            except (_Unknown, RecordingError) as reason:
                exchange.left_out = str(reason)
            yield exchange


def _members(recording: Recording) -> Iterator[_Member]:
    """The collectives whose communicator was recorded."""
    calls: list[Call] = []
    received: dict[int, dict[str, str]] = {}
    for event in recording.events():
        if not isinstance(event, Call):
            continue
        if event.name == RECEIVED and isinstance(event.arguments.get("ticket"), int):
            received[int(event.arguments["ticket"])] = event.data
        elif event.name.startswith("Hccl") and event.status == 0 and event.arguments.keys() >= _MEMBER:
            calls.append(event)
    for call in calls:
        ticket = call.arguments.get("ticket")
        yield _Member(recording, call, received.get(ticket, {}) if isinstance(ticket, int) else {})


class _Part(NamedTuple):
    """One side of a send and its receive; ``reason`` says why there are no values."""

    member: _Member
    buffer: str
    dtype: Any
    reason: str = ""

    def values(self) -> Array:
        if self.reason:
            raise _Unknown(self.reason)
        return self.member.values(self.buffer, _dtype(self.dtype))


def _parts(member: _Member) -> Iterator[tuple[bool, int, _Part]]:
    """What a call sends (True) and receives, with the other rank."""
    arguments = member.call.arguments
    if member.call.name == "HcclSend":
        yield True, member.number("destRank"), _Part(member, "sendBuf", arguments.get("dataType"))
    elif member.call.name == "HcclRecv":
        yield False, member.number("srcRank"), _Part(member, "recvBuf", arguments.get("dataType"))
    else:
        key = member.call.data.get("sendRecvInfo")
        if key is None:
            return
        items = np.frombuffer(member.recording.data(key), np.uint8)
        for at, item in enumerate(items[: items.size // _ITEM.itemsize * _ITEM.itemsize].view(_ITEM)):
            yield not item["receives"], int(item["peer"]), _Part(member, f"sendRecvInfo[{at}]", int(item["dtype"]))


def _compared_group(group: str, ranks: Mapping[int, Sequence[_Member]]) -> Iterator[Exchange]:
    for number in range(max(map(len, ranks.values()))):
        members = {rank: calls[number] for rank, calls in sorted(ranks.items()) if number < len(calls)}
        first = next(iter(members.values()))
        exchange = Exchange(first.call.name, group, number)
        try:
            _compare(exchange, first.argument("ranks"), members)
        except (_Unknown, RecordingError) as reason:
            exchange.left_out = str(reason)
        yield exchange


def _compare(exchange: Exchange, size: int, members: Mapping[int, _Member]) -> None:
    if len(members) != size or sorted(members) != list(range(size)):
        raise _Unknown(f"of {size} ranks those recorded are {', '.join(map(str, members))}")
    names = {rank: member.call.name for rank, member in members.items()}
    if len(set(names.values())) > 1:
        exchange.difference = "the ranks called " + ", ".join(f"{name} (rank {rank})" for rank, name in names.items())
        return
    if exchange.name == "HcclBarrier":
        return
    dtype = members[0].dtype
    source, target = ("buf", "buf after") if exchange.name == "HcclBroadcast" else ("sendBuf", "recvBuf")
    read = functools.lru_cache(maxsize=None)(lambda rank: members[rank].values(source, dtype))
    for rank, member in members.items():
        reduced = _reduced(exchange.name, member, rank, size)
        if reduced is not None and reduced[1] > 0:
            start, count = reduced
            sent = np.stack([_slice(read(each), start, count) for each in members])
            golden, bound = _reduce(sent, member.argument("op"))
            received = _slice(member.values(target, dtype), 0, count)
            _judge(exchange, f"rank {rank}", received, golden, bound)
        for origin, start, count, place in _moved(exchange.name, members, rank, size):
            if count == 0:
                continue  # nothing was recorded where nothing is moved
            received = _slice(member.values(target, dtype), place, count)
            golden = _slice(read(origin), start, count)
            _judge(exchange, f"rank {rank} from rank {origin}", received, golden, None)


def _slice(values: Array, start: int, count: int) -> Array:
    if start + count > values.size:
        raise _Unknown(f"{values.size} elements were recorded; {start} to {start + count} are expected")
    return values[start : start + count]


def _reduced(name: str, member: _Member, rank: int, size: int) -> Optional[tuple[int, int]]:
    """Which elements of all ranks' data a rank gets reduced: the first, and how many; None for a collective that only moves."""
    if name == "HcclAllReduce" or (name == "HcclReduce" and member.argument("root") == rank):
        return 0, member.argument("count")
    if name == "HcclReduceScatter":
        return rank * member.argument("recvCount"), member.argument("recvCount")
    if name == "HcclReduceScatterV":
        return member.counts("sendDispls", size)[rank], member.argument("recvCount")
    return None


def _moved(name: str, members: Mapping[int, _Member], rank: int, size: int) -> Iterator[tuple[int, int, int, int]]:
    """What a rank gets moved: from which rank, from which element, how many, to which element."""
    member = members[rank]
    if name == "HcclBroadcast":
        yield member.argument("root"), 0, member.argument("count"), 0
    elif name == "HcclScatter":
        count = member.argument("recvCount")
        yield member.argument("root"), rank * count, count, 0
    elif name in ("HcclAllGather", "HcclAlltoAll"):
        count = member.argument("sendCount")
        for origin in range(size):
            yield origin, rank * count if name == "HcclAlltoAll" else 0, count, origin * count
    elif name == "HcclAllGatherV":
        places = member.counts("recvDispls", size)
        for origin, count in enumerate(member.counts("recvCounts", size)):
            yield origin, 0, count, places[origin]
    elif name == "HcclAlltoAllV":
        places = member.counts("rdispls", size)
        for origin in range(size):
            starts, counts = (members[origin].counts(one, size) for one in ("sdispls", "sendCounts"))
            yield origin, starts[rank], counts[rank], places[origin]
    elif name == "HcclAlltoAllVC":
        matrix = np.reshape(member.counts("sendCountMatrix", size * size), (size, size)).tolist()
        place = 0
        for origin in range(size):
            yield origin, sum(matrix[origin][:rank]), matrix[origin][rank], place
            place += matrix[origin][rank]


def _reduce(sent: Array, op: int) -> tuple[Array, Optional[Array]]:
    """The reduction over ranks, and how far off each element may be; None: not at all."""
    if op not in range(4):
        raise _Unknown(f"reduction {op} is not known")
    function = (np.add, np.multiply, np.maximum, np.minimum)[op]
    with np.errstate(all="ignore"):
        if sent.dtype.kind in "iu" or op >= 2:
            return function.reduce(sent, axis=0, dtype=sent.dtype), None
        wide = sent.astype(np.float64)
        golden = function.reduce(wide, axis=0)
        scale = np.abs(wide).sum(axis=0) if op == 0 else np.abs(golden)
        return golden, len(sent) * float(_finfo(sent.dtype).eps) * scale


def _judge(exchange: Exchange, where: str, received: Array, golden: Array, bound: Optional[Array]) -> None:
    if received.size != golden.size:
        exchange.difference = (
            exchange.difference or f"{where}: {received.size} elements were received, {golden.size} were sent"
        )
        return
    if bound is None:
        within = received.view(np.uint8).reshape(received.size, -1) == golden.view(np.uint8).reshape(received.size, -1)
        right = within.all(axis=1)
    else:
        with np.errstate(all="ignore"):
            wide = received.astype(np.float64)
            same = (wide == golden) | (np.isnan(wide) & np.isnan(golden))
            right = (
                same
                | (np.abs(wide - golden) <= bound)
                | (np.isinf(wide) & (np.abs(golden) + bound >= _largest(received)))
            )
    if right.all():
        return
    comparison = compare(received, np.where(right, received.astype(golden.dtype), golden), rtol=0, atol=0)
    if comparison.accurate:  # bits that stand for the same number
        return
    exchange.comparisons[where] = comparison
    exchange.difference = exchange.difference or f"{where}: {described(comparison)}"


def _largest(values: Array) -> float:
    return float(_finfo(values.dtype).max)


__all__ = ["RECEIVED", "Exchange", "exchanges"]
