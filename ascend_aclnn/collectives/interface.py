"""What communicators have in common on every transport: the interface of a group, root info, failures.

A root info is 4108 bytes, as HCCL's: a secret, and the address of rank 0 if the ranks are on several hosts. That is so
where HCCL_IF_IP, HCCL's own variable, has this host's address.
"""

from __future__ import annotations

import abc
import collections
import contextlib
import hashlib
import json
import os
import secrets
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.hccl import (
    PORTS,
    ROOT_INFO_ADDRESS_BYTES,
    ROOT_INFO_BYTES,
    ROOT_INFO_MAGIC,
    ROOT_INFO_SECRET_BYTES,
)

_HIGHEST, _YEAR = 1 << 31, 366 * 86400.0
# Seconds that the others still wait after a rank has ended: after a regular end its last messages are on their way.
GRACE_SECONDS = 2.0

MAGIC = ROOT_INFO_MAGIC
COLLECTIVE, POINT_TO_POINT, LINK = range(3)  # channels: three connections between each pair of ranks
CHANNELS = 3
# Segments: inputs of collectives, their results, what is sent to one rank, small inputs, HCCL's own buffer, and where windows
# lie: the memory of an emulated device, or what stands for it.
SCRATCH, RESULTS, POINTS, KEPT, BUFFER, DEVICE = range(6)
# Inputs up to this size are copied to KEPT: cheaper than waiting until all ranks have read the originals.
KEPT_BYTES = 1 << 18
_REFUSAL = b"refused: "

Array = npt.NDArray[Any]
Reads = Callable[[int, int], tuple[int, int]]  # (reader, source) -> start and count of the elements that are read


def _setting(name: str, default: int, lowest: int) -> int:
    """A number of the environment. ValueError that names the variable."""
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or not lowest <= int(text) <= _HIGHEST:
        raise ValueError(f"{name} is {text!r}; it must be a number in [{lowest}, {_HIGHEST}]")
    return int(text)


def connect_timeout() -> float:
    """Seconds that ranks wait for each other when they meet: HCCL_CONNECT_TIMEOUT."""
    return _setting("HCCL_CONNECT_TIMEOUT", 120, 1)


def execute_timeout() -> float:
    """Seconds that a collective waits for the other ranks: HCCL_EXEC_TIMEOUT, where 0 is without end."""
    return _setting("HCCL_EXEC_TIMEOUT", 1836, 0) or _YEAR


def buffer_bytes() -> int:
    """The size of HCCL's own buffer: HCCL_BUFFSIZE, in MB."""
    return _setting("HCCL_BUFFSIZE", 200, 1) << 20


class CommunicationError(RuntimeError):
    """A communicator cannot go on: a rank is lost, late, or does something else than the others."""


class TimedOut(CommunicationError):
    """The other ranks did not answer in time."""


class RootInfo(NamedTuple):
    """What identifies a job: a secret that its ranks share."""

    secret: bytes
    address: str  # "ip:port" of rank 0, "" if all ranks are on one host

    @classmethod
    def new(cls) -> RootInfo:
        ip = os.environ.get("HCCL_IF_IP", "")
        return cls(secrets.token_bytes(ROOT_INFO_SECRET_BYTES), f"{ip}:{_reserved_port(ip)}" if ip else "")

    @classmethod
    def of(cls, secret: bytes, address: str = "") -> RootInfo:
        """The root info of a job whose ranks derive its secret by themselves."""
        return cls(hashlib.sha256(secret).digest(), address)

    @classmethod
    def parse(cls, info: bytes) -> RootInfo:
        if len(info) != ROOT_INFO_BYTES or not info.startswith(MAGIC):
            raise ValueError("root info is not one of this package's: it must come from get_root_info() of one rank")
        secret, rest = info[len(MAGIC) :][:ROOT_INFO_SECRET_BYTES], info[len(MAGIC) + ROOT_INFO_SECRET_BYTES :]
        return cls(secret, rest[:ROOT_INFO_ADDRESS_BYTES].rstrip(b"\0").decode())

    def pack(self) -> bytes:
        info = MAGIC + self.secret + self.address.encode().ljust(ROOT_INFO_ADDRESS_BYTES, b"\0")
        return info.ljust(ROOT_INFO_BYTES, b"\0")


def rank_table_info(path: Path) -> tuple[RootInfo, int]:
    """The root info of a rank table (HCCL's cluster information file), and the number of its ranks.

    Its text stands for the secret, so it must not be public. On several hosts rank 0 is on the first server, at
    HCCL_IF_BASE_PORT (60000).
    """
    text = path.read_bytes()
    servers = json.loads(text).get("server_list", [])
    ranks = sum(len(server.get("device", ())) for server in servers)
    address = ""
    if os.environ.get("HCCL_IF_IP") and servers:
        address = f"{servers[0]['server_id']}:{os.environ.get('HCCL_IF_BASE_PORT', '60000')}"
    return RootInfo.of(text, address), ranks


def bound_socket(ip: str) -> socket.socket:
    """A socket at a free port of this host: one of HCCL's sixteen where HCCL_IF_BASE_PORT names the first."""
    base = _setting("HCCL_IF_BASE_PORT", 0, 0)
    for port in range(base, base + PORTS) if base else [0]:
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            bound.bind((ip, port))
        except OSError:
            bound.close()
        else:
            return bound
    raise CommunicationError(f"no port of {ip} from HCCL_IF_BASE_PORT {base} on is free")


_reserved: collections.deque[int] = collections.deque()  # sockets at the ports of the latest root infos


def _reserved_port(ip: str) -> int:
    """A port of this host for rank 0 of a job that begins later.

    A socket stays bound to one that the system chose, so that it gives the port to nobody else. Rank 0 may listen there
    nevertheless, for both allow it (SO_REUSEADDR) and this one never listens.
    """
    bound = bound_socket(ip)
    port = int(bound.getsockname()[1])
    if _setting("HCCL_IF_BASE_PORT", 0, 0):
        bound.close()
        return port
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _reserved.append(bound.detach())
    if len(_reserved) > PORTS:
        os.close(_reserved.popleft())
    return port


def refusal(text: str) -> bytes:
    """The message of a rank that fails."""
    return _REFUSAL + text.encode()


def refusal_text(message: bytes) -> Optional[str]:
    """Why a peer fails, where a message says so (``refusal``)."""
    return message[len(_REFUSAL) :].decode(errors="replace") if message.startswith(_REFUSAL) else None


class Location(NamedTuple):
    """Bytes in a rank's memory that its peers can read: the segment, and where in it."""

    segment: int
    offset: int


class Group(abc.ABC):
    """The connections of one rank to all ranks of a communicator."""

    def __init__(self, rank: int, size: int) -> None:
        if not 0 <= rank < size:
            raise ValueError(f"rank is {rank}; it must be in [0, {size - 1}]")
        self.rank, self.size = rank, size
        self.lock = threading.Lock()  # one collective at a time,
        self.peer_locks = [threading.Lock() for _ in range(size)]  # and one batch of sends and receives with each rank
        self.processes: dict[int, int] = {}  # of other ranks on this host, where they are known
        self.failure: Optional[str] = None

    # ---------------------------------------------------------------------------------------- messages
    @abc.abstractmethod
    def exchange(self, message: bytes, timeout: Optional[float] = None, channel: int = COLLECTIVE) -> list[bytes]:
        """Sends a message to all ranks and returns those of all, this rank's included: a barrier. Default: HCCL_EXEC_TIMEOUT."""

    @abc.abstractmethod
    def send(self, peer: int, channel: int, message: bytes) -> None:
        """Sends a message to a rank."""

    @abc.abstractmethod
    def receive(self, peer: int, channel: int, deadline: float) -> bytes:
        """The next message of a rank."""

    def refuse(self, peer: int, text: str) -> None:
        """Lets a rank that this one is in a batch with know why this one fails, before it does."""
        with contextlib.suppress(CommunicationError):  # the peer is lost and needs no reason
            self.send(peer, POINT_TO_POINT, refusal(text))

    # ---------------------------------------------------------------------------------------- data of collectives
    @abc.abstractmethod
    def publish(self, array: Array) -> Location:
        """Puts an array where ``fetch`` finds it until the collective ends; in KEPT, until the next one has ended too."""

    @abc.abstractmethod
    def results(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Memory of this rank that ``fetch`` finds at the start of RESULTS, until the next collective has begun."""

    @abc.abstractmethod
    def fetch(self, array: Array, places: Sequence[Location], dtype: np.dtype[Any], reads: Reads) -> list[Array]:
        """What this rank reads of each rank's array, by its place; ``array`` is this rank's. All ranks call it."""

    # ---------------------------------------------------------------------------------------- data from rank to rank
    def batch(self) -> contextlib.AbstractContextManager[None]:
        """A batch of sends. The memory that ``place`` took is free once no batch is under way."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def place(self, array: Array) -> Location:
        """Puts an array where one rank's ``take`` finds it, until the batch ends."""

    @abc.abstractmethod
    def give(self, peer: int, array: Array) -> None:
        """Lets a rank take an array; it must not change until the batch ends."""

    @abc.abstractmethod
    def take(self, peer: int, place: Location, dtype: np.dtype[Any], count: int) -> Array:
        """The elements that a rank gives."""

    # ---------------------------------------------------------------------------------------- windows
    @abc.abstractmethod
    def room(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Memory of this rank at the start of DEVICE, if that is not an emulated device's; zeros at first."""

    def check_rank(self, rank: int) -> None:
        """CommunicationError once the group has failed, or that rank has left."""
        self.check()

    @abc.abstractmethod
    def memory(self, rank: int, place: Location, nbytes: int) -> npt.NDArray[np.uint8]:
        """Bytes in any rank's memory, to read and to write; CommunicationError where ranks share none."""

    # ---------------------------------------------------------------------------------------- the end
    def check(self) -> None:
        """CommunicationError once the group has failed."""
        if self.failure is not None:
            raise CommunicationError(self.failure)

    def fail(self, reason: Union[str, CommunicationError]) -> CommunicationError:
        """Ends the communicator for this rank, and for the others as they notice. Returns the first error, to be raised."""
        error = CommunicationError(reason) if isinstance(reason, str) else reason
        if self.failure is None:
            self.failure = str(error)
        self._disconnect()
        return error

    def close(self) -> None:
        """Leaves; idempotent. The others notice at their next message."""
        if self.failure is None:
            self.failure = "the communicator is closed"
        self._release()

    @abc.abstractmethod
    def _disconnect(self) -> None:
        """Closes the connections, which the others notice; idempotent."""

    @abc.abstractmethod
    def _release(self) -> None:
        """Frees the connections and everything else that is held; idempotent."""
