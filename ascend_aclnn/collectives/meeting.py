"""How the ranks that a launcher has started meet: rank 0 gives the others what it has made, once all of them have come.

On one host they meet at an abstract socket whose name is made of the user and of what names the job: the launcher's number of
it, MASTER_PORT, or the process that has started the ranks. On several hosts rank 0 listens at MASTER_ADDR, and all have a key.
Rank 0 keeps listening afterwards: a rank that comes twice belongs to another job of the same name, and both get an error.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import itertools
import os
import selectors
import socket
import stat
import struct
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Optional, Union

from ascend_aclnn.collectives.handshake import HandshakeEnded, ProvenSession, Strangers, prove, user_of
from ascend_aclnn.collectives.interface import CommunicationError

# The variables of launchers: torchrun, Open MPI, MPICH and its derivatives, Slurm.
RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_LOCAL_SIZE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
_NODES = ("SLURM_STEP_NUM_NODES", "SLURM_NNODES")
# What names the job, by the variable that gives the rank: those of an outer launcher name more than one.
_NAMES = {
    "RANK": ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    "OMPI_COMM_WORLD_RANK": ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    "PMI_RANK": ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    "SLURM_PROCID": ("SLURM_JOB_ID", "SLURM_STEP_ID"),
}
_PORTS = ("MASTER_PORT", "ASCEND_ACLNN_PORT")
_FIRST_PORT, _DERIVED_PORTS = 20000, 12000  # below those that systems give to connecting sockets
_KEY_BYTES = 16  # at least

_STATEMENT = struct.Struct("<32sIIIII")  # proof of the job's name, number of the meeting, rank, size, user, process
_INFO, _REFUSAL, _LATER = b"I", b"R", b"L"  # how an answer begins
_PAUSE = 0.02  # seconds until the next try to reach rank 0
_TRIES = 3  # that end after the proof; one may do so where many strangers connect

_meetings = itertools.count(1)  # of this process


class Job(NamedTuple):
    """What the environment says of the job that this process is a rank of."""

    rank: int
    size: int
    local_rank: int
    name: str  # in words, the same on all ranks
    is_on_one_host: bool

    @classmethod
    def of_environment(cls) -> Job:
        """ValueError where rank and size are not there, or nothing names a job on several hosts."""
        rank, size = _variable(RANK), _variable(SIZE)
        if rank is None or size is None:
            raise ValueError(
                f"the rank and the number of ranks are not in the environment ({', '.join(RANK)}; {', '.join(SIZE)}): "
                "start the program with torchrun, mpirun or srun, or use Communicator.from_root_info"
            )
        if size < 1 or not 0 <= rank < size:
            raise ValueError(f"rank is {rank} of {size}; it must be in [0, size - 1]")
        is_on_one_host = size == 1 or _is_on_one_host(size)
        return cls(rank, size, _variable(_LOCAL_RANK) or 0, _job_name(is_on_one_host), is_on_one_host)


def _number(name: str) -> int:
    try:
        return int(os.environ[name])
    except ValueError:
        raise ValueError(f"{name} is {os.environ[name]!r}; it must be a number") from None


def _variable(names: Sequence[str]) -> Optional[int]:
    return next((_number(name) for name in names if name in os.environ), None)


def _is_on_one_host(size: int) -> bool:
    local_size = _variable(_LOCAL_SIZE)
    if local_size is not None:
        return local_size == size
    if "SLURM_PROCID" in os.environ:
        return _variable(_NODES) == 1
    address = os.environ.get("MASTER_ADDR", "localhost")
    is_loopback = address in ("localhost", "::1") or address.startswith("127.")
    return is_loopback and not os.environ.get("HCCL_IF_IP")


def _job_name(is_on_one_host: bool) -> str:
    variables: tuple[str, ...] = ("ASCEND_ACLNN_JOB",)
    if not os.environ.get(variables[0]):
        launcher = next(name for name in RANK if name in os.environ)
        variables = (*_NAMES[launcher], *_PORTS)
        if not os.environ.get("SLURM_STEP_ID"):  # the number of an allocation, in which several jobs may run
            variables = tuple(name for name in variables if name != "SLURM_JOB_ID")
    named = [f"{name}={os.environ[name]}" for name in variables if os.environ.get(name)]
    if named:
        return ", ".join(named)
    if is_on_one_host:
        return f"the ranks that process {os.getppid()} (of {_started(os.getppid())}) has started"
    raise ValueError(
        "nothing in the environment names the job, whose ranks are on several hosts: set ASCEND_ACLNN_JOB, or MASTER_ADDR and "
        "MASTER_PORT, to the same on all ranks"
    )


def _started(process: int) -> str:
    """When a process has started, by the clock of the system: its number may have been another one's before."""
    try:
        return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except OSError:  # of another namespace
        return "?"


def read_key() -> bytes:
    """The key of ranks on several hosts: ASCEND_ACLNN_KEY, or a file that only its user can read. ValueError."""
    text = os.environ.get("ASCEND_ACLNN_KEY", "").encode()
    source = "ASCEND_ACLNN_KEY"
    if not text:
        source = os.environ.get("ASCEND_ACLNN_KEY_FILE") or os.path.expanduser("~/.ascend_aclnn/key")
        text = _read_private(source)
    if len(text) < _KEY_BYTES:
        raise ValueError(f"the key in {source} has {len(text)} bytes; it must have {_KEY_BYTES} or more")
    return text


def _read_private(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ValueError(
            f"the ranks are on several hosts, and there is no key for them to prove that they belong together: {path}: "
            f"{error.strerror}\n  set ASCEND_ACLNN_KEY, or make a file on all hosts, for example: "
            f"(umask 077; mkdir -p ~/.ascend_aclnn; head -c 32 /dev/urandom | base64 > ~/.ascend_aclnn/key)\n"
            "  if all ranks are on this host, set LOCAL_WORLD_SIZE to their number"
        ) from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise ValueError(
                f"{path} has mode {mode:o} and user {status.st_uid}; a key must be in a file with mode 600 of user {os.getuid()}"
            )
        return file.read(1 << 12).strip()


class _Statement(NamedTuple):
    """What a rank says of itself, with a proof."""

    job: bytes
    meeting: int
    rank: int
    size: int
    user: int
    process: int


class _JobPlace:
    """Where the ranks of a job meet, and the key that they prove."""

    def __init__(self, job: Job, number: int) -> None:
        self.job, self.number = job, number
        name = job.name.encode()
        self.address: Union[bytes, tuple[str, int]]
        self.user: Optional[int] = None
        if job.is_on_one_host:
            self.user = os.getuid()
            identity = b"%d %d " % (self.user, number) + name + os.environ.get("ASCEND_ACLNN_KEY", "").encode()
            self.key = hashlib.sha256(b"key" + identity).digest()
            self.address = b"\0ascend_aclnn.meeting." + hashlib.sha256(identity).hexdigest()[:40].encode()
            self.text = "this host"
        else:
            self.key = read_key()
            host = os.environ.get("MASTER_ADDR")
            if not host:
                raise ValueError(
                    "MASTER_ADDR is not set; where ranks are on several hosts it must be the address of rank 0's"
                )
            derived = _FIRST_PORT + int.from_bytes(hashlib.sha256(name).digest()[:4], "little") % _DERIVED_PORTS
            port = _number("ASCEND_ACLNN_PORT") if os.environ.get("ASCEND_ACLNN_PORT") else derived
            if not os.environ.get("ASCEND_ACLNN_PORT") and os.environ.get("MASTER_PORT"):
                port = _number("MASTER_PORT") + 1
            self.address, self.text = (host, port), f"{host}:{port}"
        self.statement = _Statement(
            hmac.digest(self.key, b"job" + name, "sha256"), number, job.rank, job.size, os.getuid(), os.getpid()
        )

    def listen(self) -> socket.socket:
        if isinstance(self.address, tuple):
            return socket.create_server(self.address, backlog=1024)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(self.address)
            listener.listen(1024)
        except BaseException:
            listener.close()
            raise
        return listener

    def connect(self, seconds: float) -> socket.socket:
        if isinstance(self.address, tuple):
            return socket.create_connection(self.address, seconds)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(seconds)
            connection.connect(self.address)
            if user_of(connection) != self.user:
                raise CommunicationError(
                    f"a process of user {user_of(connection)} has taken the address of this job's rank 0"
                )
        except BaseException:
            connection.close()
            raise
        return connection


class Meeting:
    """Rank 0's side: waits until all ranks have come, then watches for ranks of other jobs."""

    def __init__(self, place: _JobPlace, listener: socket.socket, info: bytes) -> None:
        self.conflict: Optional[str] = None  # why the ranks are not of one job
        self.place = place
        self._info = info
        self._come: dict[int, _Statement] = {}
        self._waiting: dict[socket.socket, tuple[ProvenSession, _Statement]] = {}
        self._is_sent = False  # ``info``, to all ranks
        self._is_over = threading.Event()  # all have come, or never will
        self._selector = selectors.DefaultSelector()
        self._strangers = Strangers(self._selector, listener, place.key, _STATEMENT.size, place.user)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="ascend_aclnn meeting", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Until all have come. CommunicationError where another job interferes before, TimeoutError."""
        is_over = self._is_over.wait(seconds)
        if self._is_sent:
            return  # the other ranks continue, and wait for this one
        self.check()
        if not is_over:
            missing = sorted(set(range(1, self.place.job.size)) - set(self._come))
            raise TimeoutError(
                f"rank 0 waited {seconds:g} s in vain for the ranks {missing} at {self.place.text}; {_advice(self.place.job)}"
            )

    def check(self) -> None:
        """CommunicationError once a rank of another job has come."""
        if self.conflict is not None:
            raise CommunicationError(self.conflict)

    def close(self) -> None:
        """Ends the thread and all connections; idempotent."""
        try:
            self._wake.send(b".")
        except OSError:
            return  # it has been closed before
        self._thread.join()
        self._wake.close()

    def _serve(self) -> None:
        try:
            while True:
                for key, _ in self._selector.select(1):
                    connection = key.fileobj
                    if connection is self._woken:
                        return
                    if not isinstance(connection, socket.socket):
                        continue
                    if connection in self._strangers:
                        session = self._strangers.read(connection)
                        if session is not None:
                            self._hear(connection, session)
                    elif connection in self._waiting:
                        self._leave(connection)
                    else:
                        self._strangers.accept()
                self._strangers.expire()
        finally:
            for connection in self._waiting:
                connection.close()
            self._strangers.close()
            self._selector.close()
            self._woken.close()

    def _hear(self, connection: socket.socket, session: ProvenSession) -> None:
        """Of a process that has the key."""
        other, mine = _Statement(*_STATEMENT.unpack(session.statement)), self.place.statement
        if other.job == mine.job and other.meeting <= mine.meeting:
            self.conflict = self.conflict or self._difference(other)
        if other.job != mine.job:
            text = f"the rank 0 at {self.place.text} is of another job, {self.place.job.name}: {_WHAT_TO_DO}"
            _answer(connection, session, _REFUSAL + text.encode())
        elif other.meeting > mine.meeting:
            _answer(connection, session, _LATER)
        elif self.conflict is not None:
            _answer(connection, session, _REFUSAL + self.conflict.encode())
            self._tell_all(_REFUSAL + self.conflict.encode())
        else:
            self._come[other.rank] = other
            self._waiting[connection] = session, other
            self._selector.register(connection, selectors.EVENT_READ)
            if len(self._come) == mine.size - 1:
                self._is_sent = True
                self._tell_all(_INFO + self._info)

    def _difference(self, other: _Statement) -> Optional[str]:
        """Why a process with this job's name is not a rank of it that is missing."""
        mine, job = self.place.statement, self.place.job
        before = mine if other.rank == 0 else self._come.get(other.rank)
        one, first = f"rank {other.rank} (process {other.process})", f"rank 0 (process {mine.process})"
        if other.size != mine.size:
            text = f"{one} is of {other.size} ranks, {first} of {mine.size}"
        elif other.user != mine.user:
            text = f"{one} is of user {other.user}, {first} of user {mine.user}"
        elif other.meeting < mine.meeting:
            text = f"{one} calls from_env for the {other.meeting}. time, {first} for the {mine.meeting}."
        elif before is not None:
            text = f"rank {other.rank} has come twice: processes {before.process} and {other.process}"
        else:
            return None
        return f"{text}; both belong to the job {job.name}: {_WHAT_TO_DO}"

    def _tell_all(self, answer: bytes) -> None:
        for connection, (session, _) in self._waiting.items():
            self._selector.unregister(connection)
            _answer(connection, session, answer)
        self._waiting.clear()
        self._is_over.set()

    def _leave(self, connection: socket.socket) -> None:
        """A rank says nothing while it waits: it has ended, and may come again."""
        self._selector.unregister(connection)
        _, statement = self._waiting.pop(connection)
        del self._come[statement.rank]
        connection.close()


_WHAT_TO_DO = "set ASCEND_ACLNN_JOB to a name that is the same on all ranks of a job and different for each job"


def _advice(job: Job) -> str:
    text = f"the ranks of a job find each other by its name, which is here: {job.name}"
    return f"{text}; if that is not the same on all ranks, {_WHAT_TO_DO}"


def _answer(connection: socket.socket, session: ProvenSession, answer: bytes) -> None:
    """The answer is short: a connection takes it without waiting, or the rank has ended."""
    try:
        connection.sendall(session.seal(answer))
    except OSError:
        pass
    finally:
        connection.close()


_open: dict[tuple[str, int], Meeting] = {}  # by the address, of this process: one meeting after the other has it


def serve(job: Job, info: bytes, timeout: float) -> Meeting:
    """Rank 0's part: gives ``info`` to all ranks once they have come.

    The meeting keeps watching for other jobs until it is closed. CommunicationError, TimeoutError.
    """
    place = _JobPlace(job, next(_meetings))
    if isinstance(place.address, tuple) and place.address in _open:
        _open.pop(place.address).close()
    try:
        listener = place.listen()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise CommunicationError(f"rank 0 cannot listen at {place.text}: {error}") from None
        raise _refused_by_other(place) from None
    meeting = Meeting(place, listener, info)
    try:
        meeting.wait(timeout)
    except BaseException:
        meeting.close()
        raise
    if isinstance(place.address, tuple):
        _open[place.address] = meeting
    return meeting


def _refused_by_other(place: _JobPlace) -> CommunicationError:
    """Why rank 0 cannot listen; the process that does learns of it."""
    try:
        _ask_once(place, 5)
    except CommunicationError as error:
        return error
    except OSError:
        pass
    text = f"another program listens at {place.text}, where rank 0 of the job {place.job.name} should: "
    port = ", or ASCEND_ACLNN_PORT to another port on all ranks" if isinstance(place.address, tuple) else ""
    return CommunicationError(text + _WHAT_TO_DO + port)


def ask(job: Job, timeout: float) -> bytes:
    """What rank 0 gives, of the other ranks. CommunicationError, TimeoutError."""
    place = _JobPlace(job, next(_meetings))
    deadline, ended = time.monotonic() + timeout, 0
    while True:
        try:
            info = _ask_once(place, max(deadline - time.monotonic(), 0.1))
            if info is not None:
                return info
        except HandshakeEnded as error:
            ended += 1
            if ended == _TRIES:
                key = "" if place.job.is_on_one_host else ", or has another key (ASCEND_ACLNN_KEY)"
                raise CommunicationError(
                    f"what listens at {place.text} has ended or is not rank 0{key}: {error}"
                ) from None
        except OSError as error:
            if ended:
                raise CommunicationError(f"rank 0 is lost at {place.text}: {error}") from None
            if time.monotonic() > deadline:
                raise TimeoutError(f"rank 0 does not answer at {place.text}: {error}; {_advice(job)}") from None
        time.sleep(_PAUSE)


def _ask_once(place: _JobPlace, seconds: float) -> Optional[bytes]:
    """None where rank 0 is in an earlier meeting still."""
    with place.connect(seconds) as connection:
        session = prove(connection, place.key, _STATEMENT.pack(*place.statement))
        answer = session.receive(connection)
    if answer.startswith(_REFUSAL):
        raise CommunicationError(answer[1:].decode(errors="replace"))
    return answer[1:] if answer.startswith(_INFO) else None


__all__ = ["Job", "Meeting", "ask", "read_key", "serve"]
