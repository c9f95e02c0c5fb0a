"""The collectives on a Group. Sums run in rank order, in float32 for the 16-bit types and rounded once: always the same bits.

Every collective begins with an exchange of what each rank is about to do, so that ranks that disagree get an error
instead of waiting for ever. It ends with another exchange, after which buffers may be reused, unless all ranks read copies.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional, TypeVar

import numpy as np
import numpy.typing as npt

from ascend_aclnn.collectives.interface import (
    BUFFER,
    KEPT,
    KEPT_BYTES,
    LINK,
    POINT_TO_POINT,
    RESULTS,
    CommunicationError,
    Group,
    Location,
    Reads,
    RootInfo,
    buffer_bytes,
    connect_timeout,
    execute_timeout,
    refusal_text,
)
from ascend_aclnn.collectives.network import NetworkGroup
from ascend_aclnn.collectives.shared_memory import HostGroup
from ascend_aclnn.core.dtypes import DataType, as_datatype
from ascend_aclnn.core.hccl import REDUCTIONS, match_items
from ascend_aclnn.numerics import round_into, widen

_FUNCTIONS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
_BLOCK = 1 << 18  # elements that are reduced at a time
_REMEMBERED = 256  # announcements: a program makes the same ones again and again

_HEAD = struct.Struct("<16siiiIq")  # operation, dtype, reduction, root, segment, offset
_FIELDS = ("the operation", "the data type", "the reduction", "the root", "the counts")

Array = npt.NDArray[Any]
Item = TypeVar("Item")


class Buffer(NamedTuple):
    """This rank's elements, and where its peers find them (None: they are copied to scratch memory first)."""

    array: Array
    location: Optional[Location] = None


Parts = tuple[Sequence[int], Sequence[int]]  # where each rank's elements start, and how many they are


class CollectiveCall(NamedTuple):
    """A collective as one rank calls it, by its name in ``Collectives``; None stands for equal parts."""

    operation: str
    dtype: DataType
    send: Buffer
    receive: Array
    reduction: str = ""
    root: int = -1
    send_parts: Optional[Parts] = None
    receive_parts: Optional[Parts] = None


class _Announcement(NamedTuple):
    operation: str
    dtype: int
    reduction: int
    root: int
    counts: tuple[int, ...]
    location: Location


class Collectives:
    """What one rank can do together with the others. Arrays are 1-D and of equal data types on all ranks."""

    def __init__(self, group: Group, timeout: Optional[float] = None) -> None:
        self.group = group
        self.timeout = execute_timeout() if timeout is None else timeout
        # Meets some of the ranks again, by a salt.
        self._meet: Optional[Callable[[bytes, int, int, Optional[Mapping[int, int]]], Group]] = None
        self._resumed = 0
        self._windows: dict[int, tuple[Location, int]] = {}  # of the ranks that have shared a window: location and size

    @classmethod
    def join(
        cls,
        root_info: bytes,
        rank: int,
        size: int,
        device_memory: Optional[int] = None,
        timeout: Optional[float] = None,
        processes: Optional[Mapping[int, int]] = None,
    ) -> Collectives:
        """Meets the ranks of a job: on this host, or on several where the root info has an address.

        ``device_memory`` is a descriptor of memory in which this rank's buffers lie, for its peers on this host;
        ``timeout`` that of collectives; ``processes`` those of ranks that were met before (see ``processes``).
        """
        first = RootInfo.parse(root_info)

        def meet(info: RootInfo, rank: int, size: int, processes: Optional[Mapping[int, int]]) -> Group:
            if info.address:
                return NetworkGroup(info, rank, size, processes=processes)
            return HostGroup(info, rank, size, device_memory, processes=processes)

        collectives = cls(meet(first, rank, size, processes), timeout)
        collectives._meet = lambda salt, rank, size, processes: meet(
            RootInfo.of(hmac.digest(first.secret, salt, "sha256"), first.address), rank, size, processes
        )
        return collectives

    def processes(self, members: Sequence[int]) -> dict[int, int]:
        """The known processes of some ranks, by their numbers among ``members``."""
        by_rank = self.group.processes
        return {number: by_rank[rank] for number, rank in enumerate(members) if rank in by_rank}

    def resume(self) -> None:
        """Meets the other ranks again after a failure or an abort; all ranks call it equally often."""
        if self._meet is None:
            raise CommunicationError("the communicator was not made by join and cannot meet its ranks again")
        self.group.close()
        self._resumed += 1
        self._windows.clear()
        self.group = self._meet(b"resumed %d" % self._resumed, self.group.rank, self.group.size, None)

    def among(self, members: Sequence[int]) -> Collectives:
        """Some of the ranks as a separate group, which its members make together; the other ranks may be lost."""
        if self._meet is None:
            raise CommunicationError("the communicator was not made by join and cannot be divided")
        salt = f"{list(members)} after {self._resumed}".encode()
        position = list(members).index(self.group.rank)
        return Collectives(self._meet(salt, position, len(members), self.processes(members)), self.timeout)

    def run(self, call: CollectiveCall) -> None:
        """Runs the collective that a call names."""
        send, receive, dtype, root = call.send, call.receive, call.dtype, call.root
        size, is_root = self.group.size, self.group.rank == root
        if call.operation == "barrier":
            self.barrier()
        elif call.operation == "all_reduce":
            self.all_reduce(send, receive, dtype, call.reduction)
        elif call.operation == "reduce":
            self.reduce(send, receive if is_root else None, dtype, root, call.reduction)
        elif call.operation == "broadcast":
            self.broadcast(send, dtype, root)
        elif call.operation == "scatter":
            self.scatter(send if is_root else None, receive, dtype, root)
        elif call.operation == "reduce_scatter":
            starts, counts = _parts(call.send_parts, size, send.array)
            self.reduce_scatter(send, receive, dtype, counts, call.reduction, starts)
        elif call.operation == "all_gather":
            starts, counts = _parts(call.receive_parts, size, receive)
            self.all_gather(send, [receive[s : s + n] for s, n in zip(starts, counts)], dtype, counts)
        else:
            targets = [receive[s : s + n] for s, n in zip(*_parts(call.receive_parts, size, receive))]
            self.all_to_all(send, *_parts(call.send_parts, size, send.array), targets, dtype)

    def link(self, kind: str, peers: Sequence[int] = ()) -> None:
        """Waits until peers (none: all ranks) are about to do the same: HCCL makes the links for it then."""
        group, message = self.group, kind.encode()
        if not peers:
            messages = group.exchange(message, connect_timeout(), LINK)
        else:
            deadline = _deadline(connect_timeout())
            for peer in peers:
                group.send(peer, LINK, message)
            messages = [message] * group.size
            for peer in peers:
                messages[peer] = group.receive(peer, LINK, deadline)
        difference = check_equal([(theirs.decode(),) for theirs in messages], _FIELDS[:1])
        if difference is not None:
            raise group.fail(f"{kind}: {difference}")

    # ---------------------------------------------------------------------------------------- one for all
    def barrier(self, timeout: Optional[float] = None) -> None:
        with self.group.lock:
            self._announce("barrier", DataType.DT_UNDEFINED, (), Location(KEPT, 0), timeout=timeout)

    def all_reduce(self, send: Buffer, receive: Array, dtype: DataType, reduction: str = "sum") -> None:
        """``receive`` gets the reduction of all ranks' ``send``; both may be the same memory."""
        group, count = self.group, send.array.size
        with group.lock:
            peers = self._announce_buffer("all_reduce", dtype, send, (count,), reduction)
            if send.array.nbytes <= KEPT_BYTES:  # each rank computes everything, from copies
                _reduce(self._fetch(peers, send, dtype, lambda reader, source: (0, count)), receive, reduction)
                return
            chunks = [_chunk(count, rank, group.size) for rank in range(group.size)]
            part = group.results(chunks[group.rank][1] * _element(dtype)).view(send.array.dtype)
            _reduce(self._fetch(peers, send, dtype, lambda reader, source: chunks[reader]), part, reduction)
            self._done(peers)  # the results stay until the next collective is announced by all
            places = [Location(RESULTS, 0)] * group.size
            results = group.fetch(part, places, _numpy(dtype), lambda reader, source: (0, chunks[source][1]))
            for (low, length), result in zip(chunks, results):
                receive[low : low + length] = result

    def reduce(
        self, send: Buffer, receive: Optional[Array], dtype: DataType, root: int, reduction: str = "sum"
    ) -> None:
        """Like ``all_reduce``, for the root only."""
        with self.group.lock:
            peers = self._announce_buffer("reduce", dtype, send, (send.array.size,), reduction, root)
            reduced, count = None, send.array.size
            sources = self._fetch(peers, send, dtype, lambda reader, source: (0, count if reader == root else 0))
            if self.group.rank == root and receive is not None:
                reduced = np.empty_like(receive) if send.location is not None else receive
                _reduce(sources, reduced, reduction)
            self._done(peers)
            if reduced is not None and reduced is not receive and receive is not None:
                receive[...] = reduced

    def reduce_scatter(
        self,
        send: Buffer,
        receive: Array,
        dtype: DataType,
        counts: Sequence[int],
        reduction: str = "sum",
        starts: Optional[Sequence[int]] = None,
    ) -> None:
        """This rank's part of the reduction; ``counts`` are the parts' sizes, which follow each other unless ``starts``."""
        starts = _starts(counts) if starts is None else starts
        with self.group.lock:
            peers = self._announce_buffer("reduce_scatter", dtype, send, tuple(counts), reduction)
            reduced = np.empty(counts[self.group.rank], receive.dtype)
            sources = self._fetch(peers, send, dtype, lambda reader, source: (starts[reader], counts[reader]))
            _reduce(sources, reduced, reduction)
            self._done(peers)
            receive[...] = reduced  # only now: the others may have been reading this memory

    def all_gather(self, send: Buffer, receive: Sequence[Array], dtype: DataType, counts: Sequence[int]) -> None:
        """``receive[r]`` gets rank r's elements; ``counts`` are their sizes."""
        with self.group.lock:
            peers = self._announce_buffer("all_gather", dtype, send, tuple(counts))
            sources = self._fetch(peers, send, dtype, lambda reader, source: (0, counts[source]))
            for rank, source in enumerate(sources):
                if rank != self.group.rank or not np.may_share_memory(source, receive[rank]):
                    receive[rank][...] = source
            self._done(peers)

    def broadcast(self, buffer: Buffer, dtype: DataType, root: int) -> None:
        """Every rank's buffer gets the root's elements."""
        with self.group.lock:
            count = buffer.array.size
            peers = self._announce_buffer(
                "broadcast", dtype, buffer, (count,), root=root, publish=self.group.rank == root
            )
            sources = self._fetch(peers, buffer, dtype, lambda reader, source: (0, count if source == root else 0))
            if self.group.rank != root:
                buffer.array[...] = sources[root]
            self._done(peers)

    def scatter(self, send: Optional[Buffer], receive: Array, dtype: DataType, root: int) -> None:
        """``receive`` gets this rank's part of the root's elements."""
        with self.group.lock:
            count, is_root = receive.size, self.group.rank == root
            buffer = send if is_root and send is not None else Buffer(receive)
            peers = self._announce_buffer("scatter", dtype, buffer, (count,), root=root, publish=is_root)
            sources = self._fetch(
                peers, buffer, dtype, lambda reader, source: (reader * count, count) if source == root else (0, 0)
            )
            receive[...] = sources[root].copy()
            self._done(peers)

    # ---------------------------------------------------------------------------------------- all to all
    def all_to_all(
        self, send: Buffer, starts: Sequence[int], counts: Sequence[int], receive: Sequence[Array], dtype: DataType
    ) -> None:
        """``receive[r]`` gets the part of rank r's elements that is meant for this rank."""
        self._all_to_all(send, starts, counts, [part.size for part in receive], dtype, receive)

    def exchange_parts(self, send: Buffer, counts: Sequence[int], dtype: DataType) -> list[Array]:
        """As ``all_to_all`` with parts that follow each other, where a rank learns how much it receives only by receiving."""
        return self._all_to_all(send, _starts(counts), counts, (), dtype)

    def _all_to_all(
        self,
        send: Buffer,
        starts: Sequence[int],
        counts: Sequence[int],
        expected: Sequence[int],
        dtype: DataType,
        receive: Sequence[Array] = (),
    ) -> list[Array]:
        size, this_rank = self.group.size, self.group.rank
        with self.group.lock:
            location = self._publish(send, True)
            peers = self._announce("all_to_all", dtype, (*starts, *counts, *expected), location, compared=4)
            sent = [peer.counts[size + this_rank] for peer in peers]
            for rank, wanted in enumerate(expected):
                if sent[rank] != wanted:
                    text = f"all_to_all: rank {rank} sends {sent[rank]} elements to rank {this_rank}, which expects {wanted}"
                    raise self.group.fail(text)
            sources = self._fetch(
                peers,
                send,
                dtype,
                lambda reader, source: (peers[source].counts[reader], peers[source].counts[size + reader]),
            )
            parts = [source.copy() for source in sources]
            self._done(peers)
        for part, target in zip(parts, receive):
            target[...] = part
        return parts

    # ---------------------------------------------------------------------------------------- two ranks
    def send_receive(self, sends: Sequence[tuple[int, Buffer]], receives: Sequence[tuple[int, Array]]) -> None:
        """A batch of sends and receives, in order for each pair of ranks; returns when all are done.

        What this rank sends to itself goes to the first receive from itself of the same count and data type, as in HCCL.
        """
        group = self.group
        to_itself, sends = _divide(sends, group.rank)
        from_itself, receives = _divide(receives, group.rank)
        pairs = match_items(
            [(buffer.array.size, as_datatype(buffer.array.dtype)) for buffer in to_itself],
            [(target.size, as_datatype(target.dtype)) for target in from_itself],
            group.rank,
        )
        copies = [(place, to_itself[number].array.reshape(-1).copy()) for number, place in pairs]
        for place, copy in copies:
            from_itself[place][...] = copy
        with contextlib.ExitStack() as locks:
            locks.enter_context(group.batch())
            for peer in sorted({peer for peer, _ in (*sends, *receives)}):
                locks.enter_context(group.peer_locks[peer])
            for peer, buffer in sends:
                array = np.ascontiguousarray(buffer.array).reshape(-1)
                location = buffer.location or group.place(array)
                group.send(
                    peer, POINT_TO_POINT, _pack("send", as_datatype(array.dtype), -1, -1, (array.size,), location)
                )
                group.give(peer, array)
            for peer, target in receives:
                dtype = as_datatype(target.dtype)
                message = _unpack(self._receive(peer))
                if message.dtype != dtype or message.counts != (target.size,):
                    text = (
                        f"rank {peer} sends {message.counts[0]} elements of {DataType(message.dtype).name}; "
                        f"rank {group.rank} receives {target.size} of {dtype.name}"
                    )
                    group.refuse(peer, text)
                    raise group.fail(text)
                target[...] = group.take(peer, message.location, target.dtype, target.size)
            for peer, _ in receives:
                group.send(peer, POINT_TO_POINT, b"done")
            for peer, _ in sends:
                if self._receive(peer) != b"done":
                    raise group.fail(f"rank {peer} sends to rank {group.rank}, which waits for it to receive")

    def _receive(self, peer: int) -> bytes:
        """The next message of a batch; CommunicationError with the peer's words where it refuses what was sent."""
        message = self.group.receive(peer, POINT_TO_POINT, _deadline(self.timeout))
        refusal = refusal_text(message)
        if refusal is not None:
            raise self.group.fail(refusal)
        return message

    # ---------------------------------------------------------------------------------------- windows
    def share_window(self, place: Location, nbytes: int, peers: Sequence[int]) -> None:
        """Lets peers write to memory of this rank, and this rank to theirs: all of them call it with each other."""
        group, others = self.group, sorted(set(peers) - {self.group.rank})
        announcement = _pack("window", DataType.UINT8, -1, -1, (nbytes,), place)
        with contextlib.ExitStack() as locks:
            for peer in others:
                locks.enter_context(group.peer_locks[peer])
            for peer in others:
                group.send(peer, POINT_TO_POINT, announcement)
            for peer in others:
                message = _unpack(self._receive(peer))
                if message.operation != "window":
                    text = f"rank {peer} sends to rank {group.rank}, which waits for its window"
                    raise group.fail(text)
                self._windows[peer] = message.location, message.counts[0]
        self._windows[group.rank] = place, nbytes

    def window(self, rank: int) -> npt.NDArray[np.uint8]:
        """A rank's window to write to: the one that it has shared with this rank, else HCCL's own buffer."""
        return self.group.memory(rank, *self._windows.get(rank, (Location(BUFFER, 0), buffer_bytes())))

    # ---------------------------------------------------------------------------------------- shared steps
    def _announce_buffer(
        self,
        operation: str,
        dtype: DataType,
        buffer: Buffer,
        counts: tuple[int, ...],
        reduction: str = "",
        root: int = -1,
        publish: bool = True,
    ) -> list[_Announcement]:
        return self._announce(operation, dtype, counts, self._publish(buffer, publish), reduction, root)

    def _publish(self, buffer: Buffer, wanted: bool) -> Location:
        """The location where peers find a buffer or its copy."""
        if not wanted:
            return Location(KEPT, 0)
        if buffer.location is not None and buffer.array.nbytes > KEPT_BYTES:
            return buffer.location
        return self.group.publish(np.ascontiguousarray(buffer.array).reshape(-1))

    def _announce(
        self,
        operation: str,
        dtype: DataType,
        counts: tuple[int, ...],
        location: Location,
        reduction: str = "",
        root: int = -1,
        compared: int = 5,
        timeout: Optional[float] = None,
    ) -> list[_Announcement]:
        number = REDUCTIONS.index(reduction) if reduction else -1
        message = _pack(operation, dtype, number, root, counts, location)
        messages = self.group.exchange(message, self.timeout if timeout is None else timeout)
        if all(theirs == message for theirs in messages):
            return [_unpack(message)] * len(messages)
        peers = [_unpack(theirs) for theirs in messages]
        if all(peer[:compared] == peers[0][:compared] for peer in peers):
            return peers
        rows = [(p.operation, DataType(p.dtype).name, _reduction(p.reduction), p.root, p.counts) for p in peers]
        difference = check_equal(rows, _FIELDS[:compared])
        if difference is not None:
            raise self.group.fail(f"{operation}: {difference}")
        return peers

    def _done(self, peers: Sequence[_Announcement]) -> None:
        """Waits until all ranks have read the announced buffers, if these may change afterwards."""
        if any(peer.location.segment != KEPT for peer in peers):
            self.group.exchange(b"done", self.timeout)

    def _fetch(self, peers: Sequence[_Announcement], buffer: Buffer, dtype: DataType, reads: Reads) -> list[Array]:
        """What this rank reads of each rank's announced buffer."""
        places = [peer.location for peer in peers]
        return self.group.fetch(np.ascontiguousarray(buffer.array).reshape(-1), places, _numpy(dtype), reads)


def _divide(items: Sequence[tuple[int, Item]], rank: int) -> tuple[list[Item], list[tuple[int, Item]]]:
    """Those with this rank itself, and those with others."""
    return [item for peer, item in items if peer == rank], [(peer, item) for peer, item in items if peer != rank]


def _deadline(timeout: float) -> float:
    return time.monotonic() + timeout


@functools.lru_cache(_REMEMBERED)
def _pack(operation: str, dtype: int, reduction: int, root: int, counts: tuple[int, ...], location: Location) -> bytes:
    head = _HEAD.pack(operation.encode(), int(dtype), reduction, root, location.segment, location.offset)
    return head + struct.pack(f"<{len(counts)}q", *counts)


@functools.lru_cache(_REMEMBERED)
def _unpack(message: bytes) -> _Announcement:
    if len(message) < _HEAD.size:
        raise CommunicationError("a rank is in the middle of another collective")
    operation, dtype, reduction, root, segment, offset = _HEAD.unpack_from(message)
    counts = struct.unpack_from(f"<{(len(message) - _HEAD.size) // 8}q", message, _HEAD.size)
    return _Announcement(operation.rstrip(b"\0").decode(), dtype, reduction, root, counts, Location(segment, offset))


def _reduction(number: int) -> str:
    return REDUCTIONS[number] if 0 <= number < len(REDUCTIONS) else "none"


def _numpy(dtype: DataType) -> np.dtype[Any]:
    if dtype.numpy is None:
        raise TypeError(f"{dtype.name} has no host type to compute with")
    return dtype.numpy


def _element(dtype: DataType) -> int:
    return _numpy(dtype).itemsize


def _chunk(count: int, rank: int, size: int) -> tuple[int, int]:
    """Start and length of the elements that a rank reduces for all: whole cache lines."""
    step = -(-count // size)
    if step > 64:
        step = (step + 63) & ~63
    low = min(rank * step, count)
    return low, min(step, count - low)


def _parts(parts: Optional[Parts], size: int, array: Array) -> Parts:
    if parts is not None:
        return parts
    part = array.size // size
    return [part * rank for rank in range(size)], [part] * size


def parts_of(counts: Sequence[int]) -> Optional[Parts]:
    """Consecutive parts; None without counts."""
    return (_starts(counts), list(counts)) if counts else None


def _starts(counts: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(counts)[:-1].tolist()]


def _blocks(count: int) -> Iterator[tuple[int, int]]:
    for low in range(0, count, _BLOCK):
        yield low, min(low + _BLOCK, count)


def _reduce(sources: Sequence[Array], target: Array, reduction: str) -> None:
    """Into the target, in rank order."""
    function = _FUNCTIONS[reduction]
    for low, high in _blocks(target.size):
        total, own = widen(sources[0][low:high]), None  # memory that is no rank's
        for source in sources[1:]:
            total = own = function(total, widen(source[low:high]), out=own)
        round_into(target[low:high], total)


def check_equal(messages: Sequence[tuple[object, ...]], names: Sequence[str]) -> Optional[str]:
    """A message about the ranks that announce something else than rank 0; None where all agree."""
    for position, name in enumerate(names):
        by_value: dict[object, list[int]] = {}
        for rank, message in enumerate(messages):
            by_value.setdefault(message[position], []).append(rank)
        if len(by_value) > 1:
            parts = (
                f"{value} on rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
                for value, ranks in by_value.items()
            )
            return f"the ranks differ in {name}: {'; '.join(parts)}"
    return None
