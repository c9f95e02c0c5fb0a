"""Ranks on one host: rendezvous by a shared secret, small messages over sockets, bulk data through shared memory.

A job is known by its root info, 4108 random bytes, the size of HCCL's. Every rank derives the (abstract) names of all
ranks' sockets from it, so no addresses are exchanged: a rank connects to those below it and accepts those above it. A peer
must prove the secret and run under the same user. When two ranks meet they pass each other descriptors of memory: a scratch
segment each and, in a device process, the device memory, so that data are read in place.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import mmap
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.collectives.interface import (
    BUFFER,
    CHANNELS,
    COLLECTIVE,
    DEVICE,
    GRACE_SECONDS,
    KEPT,
    KEPT_BYTES,
    MAGIC,
    POINTS,
    RESULTS,
    SCRATCH,
    Array,
    CommunicationError,
    Group,
    Location,
    Reads,
    RootInfo,
    TimedOut,
    buffer_bytes,
    connect_timeout,
    execute_timeout,
    refusal,
    refusal_text,
)

_HELLO = struct.Struct("<8s32sIIII")  # magic, proof, rank, size, channel, descriptors
_HELLO_SECONDS = 10.0  # for a process that connects to identify itself
_LENGTH = struct.Struct("<I")
_AT_ONCE = 1 << 16  # bytes of messages that are read at a time
# In the place of a length: the sender leaves in order, has met all, or has lost one before that. No message is so long.
_LEAVES, _HAS_MET, _GAVE_UP = 0xFFFFFFFD, 0xFFFFFFFE, 0xFFFFFFFF


def _message_end(data: bytes) -> Optional[int]:
    """Where the first message ends; None before its length is known. EOFError where the sender gives up."""
    if len(data) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(data)
    if length == _GAVE_UP:
        raise EOFError
    return int(_LENGTH.size + length)


class SharedSegment:
    """Shared memory of one rank, mapped by that rank or a peer; grows, never shrinks."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._map: Optional[mmap.mmap] = None
        self._view: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    @classmethod
    def create(cls) -> SharedSegment:
        return cls(os.memfd_create("ascend_aclnn_collectives", os.MFD_CLOEXEC))

    def reserve(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """The owner's view, of at least so many bytes."""
        if self._view.nbytes < nbytes:
            size = max(1 << 16, 1 << (nbytes - 1).bit_length())
            os.ftruncate(self.descriptor, size)
            self._remap(size)
        return self._view

    def view(self, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """Some bytes, mapped anew where the segment has grown."""
        if self._view.nbytes < offset + nbytes:
            size = os.fstat(self.descriptor).st_size
            if size < offset + nbytes:
                raise CommunicationError(f"a peer announced bytes up to {offset + nbytes} of a segment of {size}")
            self._remap(size)
        return self._view[offset : offset + nbytes]

    def _remap(self, size: int) -> None:
        self._map = mmap.mmap(self.descriptor, size)  # an older mapping lives as long as views of it do
        self._view = np.frombuffer(self._map, np.uint8)

    def close(self) -> None:
        self._view = np.empty(0, np.uint8)
        self._map = None
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class _OtherSize(CommunicationError):
    """A rank of the same job believes that it has another number of ranks."""


class _MeetingWatch:
    """What a rank watches during a meeting, so that it does not wait for ranks that end or give up."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._processes: dict[int, int] = {}  # by the descriptor of a process: rank
        self._connections: dict[int, tuple[int, socket.socket]] = {}
        self.ready: set[int] = set()  # the ranks that have met all

    def __enter__(self) -> _MeetingWatch:
        return self

    def __exit__(self, *error: object) -> None:
        for descriptor in self._processes:
            os.close(descriptor)

    def watch_process(self, rank: int, process: int) -> None:
        if process <= 0:
            return  # in a PID namespace that this process does not see
        try:
            descriptor = os.pidfd_open(process)
        except ProcessLookupError:
            raise CommunicationError(f"rank {rank} is lost") from None
        except (AttributeError, OSError):
            return  # Linux before 5.3, or no descriptor left: a lost rank is noticed later, by the timeout
        self._processes[descriptor] = rank
        self._poll.register(descriptor, select.POLLIN)

    def watch_connection(self, rank: int, connection: socket.socket) -> None:
        self._connections[connection.fileno()] = rank, connection
        self._poll.register(connection, select.POLLIN)

    def wait(self, seconds: float, listener: Optional[socket.socket] = None) -> bool:
        """Waits for an event, or some seconds. True if a rank connects.

        CommunicationError once a rank is known to be lost.
        """
        if listener is not None:
            self._poll.register(listener, select.POLLIN)
        connects = False
        for descriptor, _ in self._poll.poll(seconds * 1000):
            if descriptor in self._processes:
                raise CommunicationError(f"rank {self._processes[descriptor]} is lost")
            if descriptor in self._connections:
                self._hear(descriptor)
            else:
                connects = True
        return connects

    def _hear(self, descriptor: int) -> None:
        """Reads a rank's message: it has met all, gives up, goes on already, or has left."""
        rank, connection = self._connections[descriptor]
        try:
            word = connection.recv(_LENGTH.size, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            word = b""
        if word == _LENGTH.pack(_GAVE_UP):
            raise CommunicationError(f"rank {rank} has lost another rank")
        if word == _LENGTH.pack(_HAS_MET):
            connection.recv(_LENGTH.size)
            self.ready.add(rank)
        elif rank in self.ready:
            self._poll.unregister(descriptor)
            del self._connections[descriptor]
        else:
            raise CommunicationError(f"rank {rank} is lost")


class HostGroup(Group):
    """The connections of one rank to all ranks of a communicator."""

    def __init__(
        self,
        info: RootInfo,
        rank: int,
        size: int,
        device_memory: Optional[int] = None,
        timeout: Optional[float] = None,
        processes: Optional[Mapping[int, int]] = None,
    ) -> None:
        """Meets the other ranks. ``device_memory``: a descriptor of memory in which this rank's buffers lie.

        ``processes``: those of ranks met before in another group; none of them may end before all have met.
        """
        super().__init__(rank, size)
        self.local_segments: list[SharedSegment] = []
        self.lock_of_points = threading.Lock()
        self.points_used = 0  # bytes of POINTS
        self._batches = 0
        self._kept_half = 0  # which half of KEPT was used last
        self._peers: dict[tuple[int, int], socket.socket] = {}
        self._unread: dict[tuple[int, int], bytes] = {}  # of messages that have not been received whole
        self._segments: dict[tuple[int, int], SharedSegment] = {}
        self._secret = info.secret
        try:
            for _ in (SCRATCH, RESULTS, POINTS, KEPT, BUFFER):
                self.local_segments.append(SharedSegment.create())
            # Sparse: memory is taken as it is written.
            os.ftruncate(self.local_segments[BUFFER].descriptor, buffer_bytes())
            device = SharedSegment.create() if device_memory is None else SharedSegment(os.dup(device_memory))
            self._segments[rank, DEVICE] = device
            self._descriptors = [s.descriptor for s in (*self.local_segments, device)]
            with _MeetingWatch() as meeting:
                for other, process in (processes or {}).items():
                    meeting.watch_process(other, process)
                self._meet(time.monotonic() + (connect_timeout() if timeout is None else timeout), meeting)
        except BaseException:
            for (_, channel), connection in self._peers.items():
                if channel == COLLECTIVE:
                    with contextlib.suppress(OSError):
                        connection.send(_LENGTH.pack(_GAVE_UP), socket.MSG_DONTWAIT)
            self.close()
            raise

    # ---------------------------------------------------------------------------------------- rendezvous
    def _address(self, rank: int) -> bytes:
        return b"\0ascend_aclnn." + hashlib.sha256(self._secret + b"address %d" % rank).hexdigest()[:40].encode()

    def _proof(self, rank: int, size: int, channel: int) -> bytes:
        return hmac.digest(self._secret, b"rank %d of %d channel %d" % (rank, size, channel), "sha256")

    def _meet(self, deadline: float, meeting: _MeetingWatch) -> None:
        above = (self.size - 1 - self.rank) * CHANNELS
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            try:
                listener.bind(self._address(self.rank))  # the last rank, too: one that comes twice is noticed so
            except OSError as error:
                raise CommunicationError(f"rank {self.rank} of this job exists already ({error})") from None
            if above:
                listener.listen(above)
            for rank in range(self.rank):
                for channel in range(CHANNELS):
                    self._greet(self._connect(rank, deadline, meeting), deadline, meeting, (rank, channel))
            while above:
                connects = meeting.wait(max(deadline - time.monotonic(), 0), listener)
                if not connects and time.monotonic() < deadline:
                    continue
                if not connects:
                    missing = sorted(set(range(self.rank + 1, self.size)) - {rank for rank, _ in self._peers})
                    raise TimedOut(f"rank {self.rank} waited in vain for the ranks {missing} to connect")
                connection, _ = listener.accept()
                above -= self._greet(connection, deadline, meeting)
        for (rank, channel), connection in self._peers.items():
            if channel == COLLECTIVE:
                try:
                    connection.sendall(_LENGTH.pack(_HAS_MET))
                except OSError:
                    raise CommunicationError(f"rank {rank} is lost") from None
        while len(meeting.ready) < self.size - 1:  # until then every rank stays, to inform the others of a lost rank
            meeting.wait(max(deadline - time.monotonic(), 0))
            if time.monotonic() >= deadline:
                waiting = sorted(set(range(self.size)) - {self.rank} - meeting.ready)
                raise TimedOut(f"rank {self.rank} waited in vain for the ranks {waiting} to meet all")

    def _connect(self, rank: int, deadline: float, meeting: _MeetingWatch) -> socket.socket:
        pause = 1e-3
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(self._address(rank))
                return connection
            except (ConnectionRefusedError, FileNotFoundError):
                connection.close()
                if time.monotonic() > deadline:
                    raise TimedOut(f"rank {self.rank} waited in vain for rank {rank}") from None
                meeting.wait(pause)
                pause = min(pause * 1.5, 0.05)

    def _greet(
        self,
        connection: socket.socket,
        deadline: float,
        meeting: _MeetingWatch,
        expected: Optional[tuple[int, int]] = None,
    ) -> bool:
        """Proves this rank to a peer and checks the peer's proof. Other processes are refused."""
        seconds = max(deadline - time.monotonic(), 0.001)
        connection.settimeout(seconds if expected is not None else min(seconds, _HELLO_SECONDS))
        try:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            process, user, _ = struct.unpack("3i", credentials)
            if user != os.getuid():
                raise CommunicationError(f"a process of user {user} tried to join")
            if expected is not None:
                self._say_hello(connection, expected[1])
            rank, channel = self._hear_hello(connection)
            if expected is not None and (rank, channel) != expected:
                raise CommunicationError(f"rank {rank} answered in the place of rank {expected[0]}")
            if expected is None:
                if rank <= self.rank or (rank, channel) in self._peers:
                    raise CommunicationError(f"rank {rank} connected twice")
                self._say_hello(connection, channel)
        except (CommunicationError, OSError, struct.error) as error:
            if expected is None and isinstance(error, _OtherSize):
                with contextlib.suppress(OSError):
                    self._say_hello(connection, COLLECTIVE)  # so that it learns this rank's
            connection.close()
            if isinstance(error, _OtherSize):
                raise
            if expected is None:
                return False
            if isinstance(error, CommunicationError):
                raise
            if isinstance(error, socket.timeout):
                raise TimedOut(f"rank {self.rank} waited in vain for rank {expected[0]}") from None
            raise CommunicationError(f"rank {expected[0]} is lost") from None
        connection.settimeout(None)
        self._peers[rank, channel] = connection
        self.processes[rank] = process
        if channel == COLLECTIVE:
            meeting.watch_process(rank, process)
            meeting.watch_connection(rank, connection)
        return True

    def _say_hello(self, connection: socket.socket, channel: int) -> None:
        descriptors = self._descriptors if channel == COLLECTIVE else []
        proof = self._proof(self.rank, self.size, channel)
        hello = _HELLO.pack(MAGIC, proof, self.rank, self.size, channel, len(descriptors))
        socket.send_fds(connection, [hello], descriptors)

    def _hear_hello(self, connection: socket.socket) -> tuple[int, int]:
        data, descriptors, _, _ = socket.recv_fds(connection, _HELLO.size, 8)
        segments = [SharedSegment(d) for d in descriptors]
        try:
            while 0 < len(data) < _HELLO.size:
                more = connection.recv(_HELLO.size - len(data))
                if not more:
                    break
                data += more
            magic, proof, rank, size, channel, count = _HELLO.unpack(data)
            is_expected = magic == MAGIC and rank < size and channel < CHANNELS and count == len(segments)
            if not is_expected or not hmac.compare_digest(proof, self._proof(rank, size, channel)):
                raise CommunicationError("a stranger connected")
            if size != self.size:
                raise _OtherSize(f"rank {rank} is of {size} ranks, rank {self.rank} of {self.size}")
        except BaseException:
            for segment in segments:
                segment.close()
            raise
        for number, segment in enumerate(segments):
            self._segments[rank, number] = segment
        return rank, channel

    # ---------------------------------------------------------------------------------------- messages
    def exchange(self, message: bytes, timeout: Optional[float] = None, channel: int = COLLECTIVE) -> list[bytes]:
        others = [peer for peer in range(self.size) if peer != self.rank]
        for peer in others:
            self.send(peer, channel, message)
        got = self._receive_all(others, channel, time.monotonic() + (execute_timeout() if timeout is None else timeout))
        return [got.get(rank, message) for rank in range(self.size)]

    def send(self, peer: int, channel: int, message: bytes) -> None:
        self.check()
        try:
            self._peers[peer, channel].sendall(_LENGTH.pack(len(message)) + message)
        except OSError:
            self.check()  # another thread may have closed the communicator
            raise self.fail(self._last_words(peer, channel) or f"rank {peer} is lost") from None

    def _read_to_end(self, peer: int, channel: int) -> bytes:
        """All that a rank has sent that has ended its connection. It stays unread."""
        data = self._unread.get((peer, channel), b"")
        with contextlib.suppress(OSError, KeyError):
            while True:
                more = self._peers[peer, channel].recv(_AT_ONCE, socket.MSG_DONTWAIT)
                if not more:
                    break
                data = self._unread[peer, channel] = data + more
        return data

    def _has_left(self, peer: int, channel: int) -> bool:
        """Whether a rank that has ended its connection has left in order."""
        data = self._read_to_end(peer, channel)
        end = _message_end(data)
        while end is not None and end <= len(data):
            data = data[end:]
            end = _message_end(data)
        return data == _LENGTH.pack(_LEAVES)

    def _last_words(self, peer: int, channel: int) -> Optional[str]:
        """Why a rank has failed that has ended its connection, if it has said so before. Its messages stay unread."""
        data = self._read_to_end(peer, channel)
        end = _message_end(data)
        while end is not None and end <= len(data):
            words = refusal_text(data[_LENGTH.size : end])
            if words is not None:
                return words
            data = data[end:]
            end = _message_end(data)
        return None

    def fail(self, reason: Union[str, CommunicationError]) -> CommunicationError:
        """As ``Group.fail``. The others hear the reason, so that they name the rank that is lost, and not this one."""
        if self.failure is None:
            message = refusal(str(reason))
            for connection in self._peers.copy().values():
                with contextlib.suppress(OSError):
                    connection.send(_LENGTH.pack(len(message)) + message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        return super().fail(reason)

    def receive(self, peer: int, channel: int, deadline: float) -> bytes:
        return self._receive_all([peer], channel, deadline)[peer]

    def _receive_all(self, peers: Sequence[int], channel: int, deadline: float) -> dict[int, bytes]:
        """The next message of each of these ranks.

        A lost rank is noticed even while waiting for another one, which may have noticed the loss before, in another group,
        and will never send its message.
        """
        messages: dict[int, bytes] = {}
        missing, gone = list(peers), -1
        left: set[int] = set()  # in order: what they had to do with the missing ones is done
        while True:
            self.check()  # another thread may have aborted the communicator
            for peer in missing:
                try:
                    message = self._next_message(peer, channel)
                except (OSError, EOFError, KeyError):
                    self.check()
                    raise self.fail(CommunicationError(f"rank {peer} is lost")) from None
                words = None if message is None else refusal_text(message)
                if words is not None:
                    raise self.fail(words)
                if message is not None:
                    messages[peer] = message
            missing = [peer for peer in missing if peer not in messages]
            if not missing:
                return messages
            answered = [] if gone >= 0 else [peer for peer in messages if peer not in left]
            ended = self._wait(missing, answered, channel, deadline)
            if time.monotonic() >= deadline:
                text = f"rank {missing[0]} did not answer rank {self.rank} in time"
                if gone < 0:
                    raise self.fail(TimedOut(text))
                raise self.fail(self._last_words(gone, channel) or f"rank {gone} is lost")
            if ended is not None and self._has_left(ended, channel):
                left.add(ended)
            elif ended is not None:
                gone, deadline = ended, min(deadline, time.monotonic() + GRACE_SECONDS)

    def _wait(self, missing: Sequence[int], answered: Sequence[int], channel: int, deadline: float) -> Optional[int]:
        """Waits until a missing rank sends something or a rank that has answered ends; returns that rank."""
        poll = select.poll()
        try:
            ranks = {self._peers[peer, channel].fileno(): peer for peer in answered}
            for peer in missing:
                poll.register(self._peers[peer, channel], select.POLLIN)
            for descriptor in ranks:
                poll.register(descriptor, 0)  # only its end counts
        except (KeyError, ValueError):
            return None  # another thread has closed the connections, and the caller checks for that
        happened = poll.poll(max(deadline - time.monotonic(), 0) * 1000)
        return next((ranks[descriptor] for descriptor, _ in happened if descriptor in ranks), None)

    def _next_message(self, peer: int, channel: int) -> Optional[bytes]:
        """The next message of a rank, if it is there already."""
        data = self._unread.pop((peer, channel), b"")
        end = _message_end(data)
        while end is None or end > len(data):
            try:
                more = self._peers[peer, channel].recv(_AT_ONCE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._unread[peer, channel] = data
                return None
            if not more:
                raise EOFError
            data += more
            end = _message_end(data)
        if end < len(data):
            self._unread[peer, channel] = data[end:]
        return data[_LENGTH.size : end]

    # ---------------------------------------------------------------------------------------- memory
    def _view(self, rank: int, place: Location, dtype: np.dtype[Any], start: int, count: int) -> Array:
        """Elements in any rank's memory."""
        offset, nbytes = place.offset + start * dtype.itemsize, count * dtype.itemsize
        is_own = rank == self.rank and place.segment != DEVICE
        segment = self.local_segments[place.segment] if is_own else self._segments[rank, place.segment]
        return segment.view(offset, nbytes).view(dtype)

    def publish(self, array: Array) -> Location:
        self.check()
        if array.nbytes <= KEPT_BYTES:
            # Others may still read the other half. A rank that takes part in the next exchange has read this one.
            self._kept_half ^= KEPT_BYTES
            self.local_segments[KEPT].reserve(2 * KEPT_BYTES)[self._kept_half :][: array.nbytes] = array.view(np.uint8)
            return Location(KEPT, self._kept_half)
        self.local_segments[SCRATCH].reserve(array.nbytes)[: array.nbytes] = array.view(np.uint8)
        return Location(SCRATCH, 0)

    def results(self, nbytes: int) -> npt.NDArray[np.uint8]:
        return self.local_segments[RESULTS].reserve(nbytes)[:nbytes]

    def fetch(self, array: Array, places: Sequence[Location], dtype: np.dtype[Any], reads: Reads) -> list[Array]:
        return [self._view(rank, place, dtype, *reads(self.rank, rank)) for rank, place in enumerate(places)]

    def place(self, array: Array) -> Location:
        """Batches of other threads may be under way with other ranks, so each takes memory after the last one's."""
        self.check()
        with self.lock_of_points:
            start = self.points_used
            memory = self.local_segments[POINTS].reserve(start + array.nbytes)
            self.points_used += (array.nbytes + 511) & ~511
        memory[start : start + array.nbytes] = array.view(np.uint8)
        return Location(POINTS, start)

    def give(self, peer: int, array: Array) -> None:
        """Nothing to do: the peer reads the array in place."""

    def take(self, peer: int, place: Location, dtype: np.dtype[Any], count: int) -> Array:
        return self._view(peer, place, dtype, 0, count)

    def room(self, nbytes: int) -> npt.NDArray[np.uint8]:
        self.check()
        return self._segments[self.rank, DEVICE].reserve(nbytes)[:nbytes]

    def check_rank(self, rank: int) -> None:
        self.check()
        if rank != self.rank and self._wait((), (rank,), COLLECTIVE, 0) is not None:
            raise self.fail(f"rank {rank} is lost")

    def memory(self, rank: int, place: Location, nbytes: int) -> npt.NDArray[np.uint8]:
        self.check()
        return self._view(rank, place, np.dtype(np.uint8), 0, nbytes)

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        with self.lock_of_points:
            self._batches += 1
        try:
            yield
        finally:
            with self.lock_of_points:
                self._batches -= 1
                if self._batches == 0:
                    self.points_used = 0

    def _disconnect(self) -> None:
        for connection in self._peers.copy().values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for a message

    def close(self) -> None:
        """As ``Group.close``. The others hear whether this rank leaves in order, or what it has begun."""
        if self.failure is None and not any(lock.locked() for lock in (self.lock, *self.peer_locks)):
            for connection in self._peers.values():
                with contextlib.suppress(OSError):
                    connection.send(_LENGTH.pack(_LEAVES), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        super().close()

    def _release(self) -> None:
        self._disconnect()  # what other threads do here ends with an error
        # A descriptor that is closed while another thread uses it may be another file's by then.
        with contextlib.ExitStack() as locks:
            for lock in (self.lock, *self.peer_locks):
                locks.enter_context(lock)
            for connection in self._peers.values():
                connection.close()
            for segment in (*self._segments.values(), *self.local_segments):
                segment.close()
            self._segments.clear()
