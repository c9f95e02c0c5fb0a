"""Ranks on several hosts: messages and data over gloo, which comes with PyTorch.

gloo rather than MPI or UCX: it comes with torch_npu, needs no launcher such as mpiexec, and two-sided messages are enough
for the collectives here. Rank 0 runs PyTorch's TCPStore at the root info's address, where the ranks find each other
under a name derived from the secret. Nothing is encrypted, as with HCCL.

gloo waits for a rank that has ended as long as for a late one. So each process keeps a connection to the host of the
store, which informs the others when one of them breaks (``_Lobby``); ranks check it while they meet.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import functools
import hashlib
import hmac
import os
import re
import secrets
import selectors
import socket
import struct
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.collectives.handshake import HandshakeEnded, Strangers, prove
from ascend_aclnn.collectives.interface import (
    CHANNELS,
    COLLECTIVE,
    GRACE_SECONDS,
    KEPT,
    POINT_TO_POINT,
    POINTS,
    Array,
    CommunicationError,
    Group,
    Location,
    Reads,
    RootInfo,
    TimedOut,
    bound_socket,
    connect_timeout,
    execute_timeout,
)

_LENGTHS, _MESSAGES, _DATA, _GIVEN = range(4)  # kinds of gloo's tags
_KINDS = 4
_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"

_TOKEN = struct.Struct("<Q")
_KEY_BYTES = 32
_ENTER_SECONDS = 20.0  # for the handshake with a lobby
_LOOK_AGAIN = 0.1  # seconds between two checks for ranks that have joined a meeting
_LEFT = 1 << 63 | 0x4C45_4654  # marks a group's number: the host of the lobby has left the group in order


@contextlib.contextmanager
def _without_backends() -> Iterator[None]:
    """torch loads no other packages' backends meanwhile, unless the user has chosen: torch_npu fails where CANN is absent."""
    chosen = _AUTOLOAD in os.environ
    os.environ.setdefault(_AUTOLOAD, "0")
    try:
        yield
    finally:
        if not chosen:
            os.environ.pop(_AUTOLOAD, None)


def _torch() -> Any:
    try:
        with _without_backends():
            import torch
            import torch.distributed
    except ImportError:
        raise CommunicationError("ranks on several hosts (HCCL_IF_IP) need PyTorch, which brings gloo") from None
    return torch


class _Lobby:
    """The processes that use a store, and those of them that have ended. Each process chooses its number at random.

    They prove a key to each other, which the host has made: it is in the store, encrypted for those with a root info.
    """

    def __init__(self, store: Any, ip: str, hosts: bool, info: RootInfo) -> None:
        self.process = secrets.randbits(63)
        self.groups: weakref.WeakValueDictionary[int, NetworkGroup] = weakref.WeakValueDictionary()  # by their numbers
        self._ended: set[int] = set()
        self._hosts = hosts
        self._key = secrets.token_bytes(_KEY_BYTES)
        if hosts:
            listener = bound_socket(ip)
            listener.listen(1024)
            threading.Thread(target=_serve_lobby, args=(listener, self._key), daemon=True).start()
            store.set("lobby", f"{listener.getsockname()[1]} {self.process}")
            self.admit(store, info)
        port, self._host = map(int, store.get("lobby").split())
        if not hosts:
            self._key = _encrypted(bytes.fromhex(store.get(_key_name(info)).decode()), info)
        self._connection = _enter(ip, port, self._key, _TOKEN.pack(self.process))
        threading.Thread(target=self._hear, daemon=True).start()

    def admit(self, store: Any, info: RootInfo) -> None:
        """Lets the ranks of a root info in, on the host."""
        if self._hosts:
            store.set(_key_name(info), _encrypted(self._key, info).hex())

    def _hear(self) -> None:
        number = _read_token(self._connection)
        while number is not None:
            group, group_that_left = self.groups.get(number), self.groups.get(number ^ _LEFT)
            if group is not None:
                group.fail("a rank of this communicator has lost another rank")
            elif group_that_left is not None:
                group_that_left.host_has_left = True
            else:
                self._end(number)
            number = _read_token(self._connection)
        self._end(self._host)
        # Without its host the lobby carries no messages, so every group with that process ends.
        for group in list(self.groups.values()):
            if self._host in group.processes.values() and not group.host_has_left:
                _later(functools.partial(group.end, self._host))

    def _end(self, process: int) -> None:
        """A group that still waits for an ended process a while later gives up."""
        self._ended.add(process)
        for group in list(self.groups.values()):
            if process in group.processes.values():
                _later(functools.partial(group.give_up, tuple(group.exchanges)))

    def give_up(self, group: int) -> None:
        """Makes all ranks of a group leave it, so that none waits for a rank that lives but never sends.

        All processes of the lobby receive the group's number; those outside the group ignore it.
        """
        self._say(group)

    def leave(self, group: int) -> None:
        """Announces a regular end: if this process is the host, the group's other ranks do not give up when it ends."""
        if self._hosts:
            self._say(group ^ _LEFT)

    def _say(self, number: int) -> None:
        with contextlib.suppress(OSError):  # the host is lost, and with it the connection
            self._connection.sendall(_TOKEN.pack(number))

    def check(self, processes: Mapping[int, int]) -> None:
        """CommunicationError if one of these, by rank, has ended."""
        for rank, process in processes.items():
            if process in self._ended:
                raise CommunicationError(f"rank {rank} is lost")

    def check_store(self) -> None:
        """CommunicationError if the store is lost and ranks cannot meet any more."""
        if self._host in self._ended:
            raise CommunicationError("the rank that keeps the store is lost")


def _key_name(info: RootInfo) -> str:
    return f"{_name(info)}/key of the lobby"


def _encrypted(key: bytes, info: RootInfo) -> bytes:
    """The key of a lobby encrypted, or an encrypted one: with what only the ranks of a root info can compute."""
    pad = hmac.digest(info.secret, b"key of the lobby", "sha256")
    return bytes(one ^ other for one, other in zip(key, pad))


def _enter(ip: str, port: int, key: bytes, token: bytes) -> socket.socket:
    """A connection to the lobby, once both sides have proved its key; it is tried again where many strangers connect."""
    for last in (False, False, True):
        connection = socket.create_connection((ip, port), _ENTER_SECONDS)
        try:
            prove(connection, key, token).receive(connection)
        except (HandshakeEnded, socket.timeout):
            connection.close()
            if last:
                raise
        else:
            connection.settimeout(None)
            _probe(connection)
            return connection
    raise AssertionError("the last try returns or raises")


def _later(run: Callable[[], None]) -> None:
    timer = threading.Timer(GRACE_SECONDS, run)
    timer.daemon = True
    timer.start()


def _probe(connection: socket.socket) -> None:
    """Keep-alive probes: a host that has gone without closing its connection is noticed within 20 seconds."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3)):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _read_token(connection: socket.socket) -> Optional[int]:
    try:
        data = connection.recv(_TOKEN.size, socket.MSG_WAITALL)
    except OSError:
        return None
    return _TOKEN.unpack(data)[0] if len(data) == _TOKEN.size else None


def _serve_lobby(listener: socket.socket, key: bytes) -> None:
    """Broadcasts to a lobby the numbers of processes whose connections end, and the messages of its processes."""
    announced = b""
    processes: dict[socket.socket, bytes] = {}  # the number of each, and the beginning of its next message
    with selectors.DefaultSelector() as selector:
        strangers = Strangers(selector, listener, key, _TOKEN.size)
        while True:
            for ready, _ in selector.select(1):
                connection, numbers = ready.fileobj, b""
                assert isinstance(connection, socket.socket)
                if connection is listener:
                    strangers.accept()
                elif connection in strangers:
                    session = strangers.read(connection)
                    if session is not None:
                        connection.setblocking(True)
                        _probe(connection)
                        processes[connection] = session.statement
                        selector.register(connection, selectors.EVENT_READ)
                        _tell(connection, session.seal(b"welcome") + announced)
                else:
                    numbers = _hear_process(connection, processes, selector)
                announced += numbers
                for other in processes if numbers else ():
                    _tell(other, numbers)
            strangers.expire()


def _hear_process(connection: socket.socket, processes: dict[socket.socket, bytes], selector: Any) -> bytes:
    """What all are to hear: the message of a process, or its number where it has ended."""
    try:
        data = connection.recv(_TOKEN.size)
    except OSError:
        data = b""
    heard = processes[connection] + data
    number, message = heard[: _TOKEN.size], heard[_TOKEN.size :]
    if not data:
        selector.unregister(connection)
        connection.close()
        del processes[connection]
        return number
    processes[connection] = heard if len(message) < _TOKEN.size else number
    return message if len(message) == _TOKEN.size else b""


def _tell(connection: socket.socket, numbers: bytes) -> None:
    with contextlib.suppress(OSError):  # it has ended too; the selector reports that next
        connection.sendall(numbers)


class _Place(NamedTuple):
    """Where ranks find each other; split groups use their parents' store."""

    store: Any
    lobby: _Lobby


_places: dict[str, _Place] = {}  # of this process, by address
_lock = threading.Lock()


def _connect(address: str, hosts: bool, timeout: datetime.timedelta) -> Any:
    ip, port = address.rsplit(":", 1)
    return _torch().distributed.TCPStore(ip, int(port), is_master=hosts, timeout=timeout, wait_for_workers=False)


def _place_of(info: RootInfo, hosts: bool, timeout: datetime.timedelta) -> _Place:
    with _lock:
        if info.address not in _places:
            store = _connect(info.address, hosts, timeout)
            _places[info.address] = _Place(store, _Lobby(store, info.address.rsplit(":", 1)[0], hosts, info))
        place = _places[info.address]
        place.lobby.admit(place.store, info)
        return place


def _name(info: RootInfo) -> str:
    """A job's name in the store."""
    return hashlib.sha256(b"store" + info.secret).hexdigest()


class NetworkGroup(Group):
    """The connections of one rank to all ranks of a communicator, by gloo."""

    def __init__(
        self,
        info: RootInfo,
        rank: int,
        size: int,
        timeout: Optional[float] = None,
        processes: Optional[Mapping[int, int]] = None,
    ) -> None:
        """Meets the other ranks. ``processes``: those of ranks met before in another group."""
        super().__init__(rank, size)
        self._torch = _torch()
        timeout = connect_timeout() if timeout is None else timeout
        patience = datetime.timedelta(seconds=timeout)
        try:
            place = _place_of(info, rank == 0, patience)
            self._gloo = self._meet(place, info, patience, dict(processes or {}))
        except (RuntimeError, OSError) as error:
            if isinstance(error, CommunicationError):
                raise
            if re.search("timed? ?out", str(error), re.IGNORECASE):
                raise TimedOut(f"rank {rank} waited in vain for the others at {info.address}: {error}") from None
            text = str(error).partition("\n")[0]  # without a trace of calls
            raise CommunicationError(f"a rank is lost that rank {rank} meets at {info.address}: {text}") from None
        self.exchanges = [0] * CHANNELS  # begun plus ended, by channel: odd while one is under way
        self.host_has_left = False
        self._lobby = place.lobby
        (self._number,) = _TOKEN.unpack(hashlib.sha256(b"number" + info.secret).digest()[: _TOKEN.size])
        self._results: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        # what is being sent, by rank and channel: each channel has a thread of its own
        self._sending: dict[tuple[int, int], list[tuple[Any, Any]]] = collections.defaultdict(list)
        answers = self.exchange(self._proof(info, rank) + _TOKEN.pack(place.lobby.process), timeout)
        for peer, answer in enumerate(answers):
            proof, process = answer[: -_TOKEN.size], answer[-_TOKEN.size :]
            if not hmac.compare_digest(proof, self._proof(info, peer)):
                raise self.fail(f"what connected as rank {peer} does not have the root info")
            self.processes[peer] = _TOKEN.unpack(process)[0]
        place.lobby.groups[self._number] = self

    def _meet(self, place: _Place, info: RootInfo, patience: datetime.timedelta, processes: dict[int, int]) -> Any:
        """gloo's connections to the others. Made on a thread, which is abandoned if gloo waits for a rank that has ended."""
        name = _name(info)
        store = self._torch.distributed.PrefixStore(name, place.store)
        if store.add(f"rank {self.rank}", 1) > 1:
            raise CommunicationError(f"rank {self.rank} of this job has come twice: this process is the second")
        store.set(f"process {self.rank}", f"{place.lobby.process} {self.size}")
        outcome: list[Any] = []
        ended = threading.Event()

        def connect() -> None:
            try:
                gloo = self._torch.distributed.ProcessGroupGloo
                options, host = gloo._Options(), os.environ.get("HCCL_IF_IP") or info.address.rsplit(":", 1)[0]
                options._devices = [gloo.create_device(hostname=host)]
                options._timeout = patience
                connected_store = self._torch.distributed.PrefixStore(name, _connect(info.address, False, patience))
                outcome.append(gloo(connected_store, self.rank, self.size, options))
            except RuntimeError as error:
                outcome.append(error)
            finally:
                ended.set()

        threading.Thread(target=connect, daemon=True).start()
        # of each rank once, those that are known from another group too: it may be of another size
        missing = [rank for rank in range(self.size) if rank != self.rank]
        has_ended = False
        while not has_ended:
            has_ended = ended.wait(_LOOK_AGAIN)  # once more then: gloo connects ranks of different sizes
            for rank in [rank for rank in missing if store.check([f"process {rank}"])]:
                processes[rank], size = map(int, store.get(f"process {rank}").split())
                if size != self.size:
                    raise self._other_size(store, rank, size)
                missing.remove(rank)
            if not has_ended:
                place.lobby.check(processes)
                place.lobby.check_store()
        if not outcome or isinstance(outcome[0], RuntimeError):
            raise outcome[0] if outcome else CommunicationError("gloo ended without a word")
        return outcome[0]

    def _other_size(self, store: Any, rank: int, size: int) -> CommunicationError:
        """The error, once the other rank has seen it, too: the store may end with this process."""
        deadline = time.monotonic() + GRACE_SECONDS
        with contextlib.suppress(RuntimeError):  # the other rank had the store, has seen the error and has ended
            store.set(f"size refused by {self.rank}", "")
            while not store.check([f"size refused by {rank}"]) and time.monotonic() < deadline:
                time.sleep(_LOOK_AGAIN)
        return CommunicationError(f"rank {rank} is of {size} ranks, rank {self.rank} of {self.size}")

    def _proof(self, info: RootInfo, rank: int) -> bytes:
        return hmac.digest(info.secret, b"rank %d of %d" % (rank, self.size), "sha256")

    # ---------------------------------------------------------------------------------------- messages
    def exchange(self, message: bytes, timeout: Optional[float] = None, channel: int = COLLECTIVE) -> list[bytes]:
        others = [peer for peer in range(self.size) if peer != self.rank]
        deadline = time.monotonic() + (execute_timeout() if timeout is None else timeout)
        self.exchanges[channel] += 1
        try:
            self._check_ranks()
            sent = [self._send(peer, channel, message) for peer in others]
            got = {peer: self.receive(peer, channel, deadline) for peer in others}
            for peer, works in zip(others, sent):
                self._finish(peer, works, deadline)
        finally:
            self.exchanges[channel] += 1
        return [got.get(peer, message) for peer in range(self.size)]

    def give_up(self, exchanges: Sequence[int]) -> None:
        """Fails the group for all ranks if the same exchange is still under way after a rank has ended."""
        if any(then % 2 and then == now for then, now in zip(exchanges, self.exchanges)):
            with contextlib.suppress(CommunicationError):
                self._check_ranks()
            self._lobby.give_up(self._number)

    def end(self, process: int) -> None:
        """Fails the group, unless it has ended already: one of its processes has."""
        rank = next(rank for rank, candidate in self.processes.items() if candidate == process)
        if self.failure is None:
            self.fail(f"rank {rank} is lost")

    def _check_ranks(self) -> None:
        try:
            self._lobby.check(self.processes)
        except CommunicationError as error:
            raise self.fail(error) from None

    def send(self, peer: int, channel: int, message: bytes) -> None:
        under_way = [entry for entry in self._sending[peer, channel] if not entry[0].is_completed()]
        self._sending[peer, channel] = [*under_way, *self._send(peer, channel, message)]

    def refuse(self, peer: int, text: str) -> None:
        super().refuse(peer, text)
        with contextlib.suppress(CommunicationError):  # gloo forgets what the peer has not received when it is ended
            self._finish(peer, self._sending[peer, POINT_TO_POINT][-2:], time.monotonic() + GRACE_SECONDS)

    def receive(self, peer: int, channel: int, deadline: float) -> bytes:
        length = np.zeros(1, np.int64)
        self._receive_into(peer, channel * _KINDS + _LENGTHS, length, deadline)
        message = np.empty(int(length[0]), np.uint8)
        self._receive_into(peer, channel * _KINDS + _MESSAGES, message, deadline)
        return message.tobytes()

    def _send(self, peer: int, channel: int, message: bytes) -> list[tuple[Any, Any]]:
        length = np.array([len(message)], np.int64)
        tag = channel * _KINDS
        return [
            self._start(peer, tag + _LENGTHS, length),
            self._start(peer, tag + _MESSAGES, np.frombuffer(message, np.uint8).copy()),
        ]

    # ---------------------------------------------------------------------------------------- gloo
    def _start(self, peer: int, tag: int, array: Array) -> tuple[Any, Any]:
        """Sends bytes without waiting; the tensor is kept until ``_finish``."""
        tensor = self._torch.from_numpy(array.reshape(-1).view(np.uint8))
        return self._guarded(peer, lambda gloo: gloo.send([tensor], peer, tag)), tensor

    def _receive_into(self, peer: int, tag: int, array: Array, deadline: float) -> None:
        tensor = self._torch.from_numpy(array.reshape(-1).view(np.uint8))
        self._finish(peer, [(self._guarded(peer, lambda gloo: gloo.recv([tensor], peer, tag)), tensor)], deadline)

    def _finish(self, peer: int, works: Sequence[tuple[Any, Any]], deadline: float) -> None:
        for work, _ in works:
            remaining = datetime.timedelta(seconds=max(deadline - time.monotonic(), 0.001))
            self._guarded(peer, functools.partial(_wait, work, remaining))

    def _guarded(self, peer: int, run: Callable[[Any], Any]) -> Any:
        """Calls gloo; its errors are failures of the group."""
        gloo = self._gloo  # before the check: another thread that ends the communicator afterwards sets it to None
        self.check()
        try:
            return run(gloo)
        except RuntimeError as error:
            self.check()  # another thread may have ended the communicator
            if "imed out" in str(error):
                raise self.fail(TimedOut(f"rank {peer} did not answer rank {self.rank} in time")) from None
            self._check_ranks()  # the peer may have left only because it knew earlier that another rank is lost
            raise self.fail(CommunicationError(f"rank {peer} is lost")) from None

    # ---------------------------------------------------------------------------------------- data of collectives
    def publish(self, array: Array) -> Location:
        """Nothing to do: ``fetch`` sends the array, and the receivers have copies."""
        return Location(KEPT, 0)

    def results(self, nbytes: int) -> npt.NDArray[np.uint8]:
        self._results = np.empty(nbytes, np.uint8)
        return self._results

    def fetch(self, local: Array, places: Sequence[Location], dtype: np.dtype[Any], reads: Reads) -> list[Array]:
        deadline = time.monotonic() + execute_timeout()
        sent, got = [], []
        for peer in range(self.size):
            start, count = reads(peer, self.rank)
            if peer != self.rank and count:
                sent.append((peer, self._start(peer, _DATA, np.ascontiguousarray(local[start : start + count]))))
        for peer in range(self.size):
            start, count = reads(self.rank, peer)
            if peer == self.rank:
                got.append(local[start : start + count].view(dtype))
                continue
            array = np.empty(count, dtype)
            if count:
                self._receive_into(peer, _DATA, array, deadline)
            got.append(array)
        for peer, work in sent:
            self._finish(peer, [work], deadline)
        return got

    # ---------------------------------------------------------------------------------------- data from rank to rank
    def place(self, array: Array) -> Location:
        return Location(POINTS, 0)

    def give(self, peer: int, array: Array) -> None:
        self._sending[peer, POINT_TO_POINT].append(self._start(peer, _GIVEN, array))

    def take(self, peer: int, place: Location, dtype: np.dtype[Any], count: int) -> Array:
        array = np.empty(count, dtype)
        self._receive_into(peer, _GIVEN, array, time.monotonic() + execute_timeout())
        return array

    # ---------------------------------------------------------------------------------------- windows
    def room(self, nbytes: int) -> npt.NDArray[np.uint8]:
        raise CommunicationError("ranks that meet over the network share no memory, so there are no windows")

    def memory(self, rank: int, place: Location, nbytes: int) -> npt.NDArray[np.uint8]:
        return self.room(nbytes)

    # ---------------------------------------------------------------------------------------- the end
    def _disconnect(self) -> None:
        gloo, self._gloo = self._gloo, None
        if gloo is not None and hasattr(gloo, "abort"):
            gloo.abort()

    def _release(self) -> None:
        if self._gloo is not None:
            self._lobby.leave(self._number)
        self._sending.clear()
        self._gloo = None


def _wait(work: Any, remaining: datetime.timedelta, gloo: Any) -> None:
    work.wait(remaining)
