"""How the ranks of a launcher meet: two jobs in every interleaving, strangers, ranks that come twice, keys."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import resource
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ports import free_port

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator
from ascend_aclnn.collectives import handshake, meeting

FORK = multiprocessing.get_context("fork")
KEY = "a key for tests, long enough"
VARIABLES = {
    *(*meeting.RANK, *meeting.SIZE, *meeting._LOCAL_RANK, *meeting._LOCAL_SIZE, *meeting._NODES, *meeting._PORTS),
    *itertools.chain(*meeting._NAMES.values()),
    *("MASTER_ADDR", "ASCEND_ACLNN_JOB", "ASCEND_ACLNN_KEY", "ASCEND_ACLNN_KEY_FILE", "HCCL_IF_IP"),
}


def set_environment(variables: dict[str, str]) -> None:
    for name in VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(variables)


def tell_when_it_comes(value: int, results: Any) -> None:
    """A rank tells when it has bound the lobby's address, or has connected to it, or could not."""

    def telling(original: Any) -> Any:
        def call(*arguments: Any) -> Any:
            try:
                return original(*arguments)
            finally:
                results.put((value, "came"))

        return call

    for name in ("listen", "connect"):
        setattr(meeting._JobPlace, name, telling(getattr(meeting._JobPlace, name)))


def rank_body(variables: dict[str, str], value: int, timeout: float, go: Any, goes_on: Any, results: Any) -> None:
    """A rank: waits to be started, meets, waits until all are started, and sums."""
    set_environment(variables)
    go.wait(600)
    try:
        with aclnn.use_backend("numpy"), Communicator.from_env(timeout=timeout) as comm:
            results.put((value, "met"))
            goes_on.wait(600)
            results.put((value, comm.all_reduce(np.array([value], np.int64)).tolist()[0]))
            comm.barrier()
    except BaseException as error:
        results.put((value, f"{type(error).__name__}: {error}"))


class Jobs:
    """Ranks with environments, each started by the process of its job when the test says so."""

    def __init__(self, jobs: dict[str, list[dict[str, str]]], timeout: float = 30) -> None:
        self.results, self.goes_on = FORK.Queue(), FORK.Event()
        self.go = {(job, rank): FORK.Event() for job, ranks in jobs.items() for rank in range(len(ranks))}
        self.values = {
            (job, rank): 10 ** (2 * n) + rank for n, job in enumerate(jobs) for rank in range(len(jobs[job]))
        }
        self.found: dict[int, Any] = {}
        self.came: set[int] = set()
        self.met: set[int] = set()
        self.launchers = [FORK.Process(target=self._launch, args=(job, ranks, timeout)) for job, ranks in jobs.items()]
        for launcher in self.launchers:
            launcher.start()

    def _launch(self, job: str, ranks: list[dict[str, str]], timeout: float) -> None:
        children = []
        for rank, variables in enumerate(ranks):
            events = self.go[job, rank], self.goes_on, self.results
            arguments = (variables, self.values[job, rank], timeout, *events)
            children.append(FORK.Process(target=self._rank, args=arguments))
            children[-1].start()
        for child in children:
            child.join()

    @staticmethod
    def _rank(variables: dict[str, str], value: int, timeout: float, go: Any, goes_on: Any, results: Any) -> None:
        tell_when_it_comes(value, results)
        rank_body(variables, value, timeout, go, goes_on, results)

    def start(self, job: str, rank: int) -> None:
        """Until the rank has come to the lobby, or has failed before."""
        value = self.values[job, rank]
        self.go[job, rank].set()
        while value not in self.came and value not in self.found:
            self._take(90)

    def _take(self, seconds: float) -> None:
        value, text = self.results.get(timeout=seconds)
        if text == "met":
            self.met.add(value)
        elif text == "came":
            self.came.add(value)
        else:
            self.found[value] = text

    def end(self) -> dict[tuple[str, int], Any]:
        """All go on; the sum or the error of each rank."""
        self.goes_on.set()
        while len(self.found) < len(self.values):
            self._take(90)
        for launcher in self.launchers:
            launcher.join(60)
        return {key: self.found[value] for key, value in self.values.items()}

    def wait_until_met(self, count: int) -> None:
        while len(self.met) < count:
            self._take(90)

    def wait_until_answered(self) -> None:
        """Until each rank has met or has failed: what rank 0 has not heard yet it cannot refuse."""
        while len(self.met | self.found.keys()) < len(self.values):
            self._take(90)

    def wait_for(self, job: str, rank: int) -> None:
        """Until a rank that does not meet has failed."""
        while self.values[job, rank] not in self.found:
            self._take(90)


# In the names of jobs, so that those of tests that run at the same time, in another process, are others.
PORT = str(20000 + os.getpid() % 40000)


def mpich(job: str, rank: int) -> dict[str, str]:
    return {"PMI_RANK": str(rank), "PMI_SIZE": "2"}


def open_mpi(job: str, rank: int) -> dict[str, str]:
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": f"prterun-{PORT}{job}@1"}


def slurm(job: str, rank: int) -> dict[str, str]:
    names = {"SLURM_JOB_ID": PORT, "SLURM_STEP_ID": str(ord(job)), "SLURM_STEP_NUM_NODES": "1"}
    return {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", **names}


def by_hand(job: str, rank: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": PORT}


# With A first: the jobs are alike.
ORDERS = [o for o in itertools.permutations([("A", 0), ("A", 1), ("B", 0), ("B", 1)]) if o[0][0] == "A"]


@pytest.mark.parametrize("launcher", [mpich, open_mpi, slurm])
def test_two_jobs_of_a_launcher_do_not_meet_in_any_order(launcher: Any) -> None:
    for order in ORDERS if launcher is mpich else ORDERS[::3]:
        jobs = Jobs({job: [launcher(job, rank) for rank in range(2)] for job in "AB"})
        for job, rank in order:
            jobs.start(job, rank)
        jobs.wait_until_met(4)
        assert jobs.end() == {("A", 0): 3, ("A", 1): 3, ("B", 0): 201, ("B", 1): 201}, order


def two_of_one_name(order: Any, timeout: float) -> tuple[dict[tuple[str, int], Any], bool]:
    """What each rank has, and whether some have a sum of both jobs."""
    jobs = Jobs({job: [by_hand(job, rank) for rank in range(2)] for job in "AB"}, timeout)
    for job, rank in order:
        jobs.start(job, rank)
    jobs.wait_until_answered()
    found, right = jobs.end(), {"A": 3, "B": 201}
    return found, any(isinstance(value, int) and value != right[job] for (job, _), value in found.items())


def test_two_jobs_of_one_name_are_told_in_every_order() -> None:
    """With MASTER_PORT set by hand to the same: never a sum of both jobs, and always what to do."""
    right = {"A": 3, "B": 201}
    for order in ORDERS:
        for timeout in (1, 30):
            found, mixed = two_of_one_name(order, timeout)
            is_right = all(value == right[job] for (job, _), value in found.items())  # one job had ended before
            is_told = is_right or any("has come twice: processes" in str(text) for text in found.values())
            if (is_told and not mixed) or not any("TimeoutError" in str(text) for text in found.values()):
                break
            # On a busy host a rank has given up before the others began; nobody can notice that.
        assert is_told and not mixed, (order, found)
        for key, text in found.items():
            assert isinstance(text, int) or "ASCEND_ACLNN_JOB" in text or "rank 0 is lost" in text, (order, key, found)


def test_a_name_of_their_own_lets_both_jobs_run() -> None:
    jobs = Jobs({job: [{**by_hand(job, r), "ASCEND_ACLNN_JOB": job} for r in range(2)] for job in "AB"})
    for job, rank in (("A", 0), ("B", 1), ("A", 1), ("B", 0)):
        jobs.start(job, rank)
    jobs.wait_until_met(4)
    assert set(jobs.end().values()) == {3, 201}


def test_another_number_of_ranks_is_named() -> None:
    ranks = [{**by_hand("A", 0), "WORLD_SIZE": "2"}, {**by_hand("A", 1), "WORLD_SIZE": "3"}]
    jobs = Jobs({"A": ranks})
    for rank in range(2):
        jobs.start("A", rank)
    for text in jobs.end().values():
        assert "CommunicationError: rank 1 (process" in text and "is of 3 ranks, rank 0 (process" in text


def test_a_missing_rank_is_named_with_the_job() -> None:
    jobs = Jobs({"A": [by_hand("A", 0)]}, timeout=0.3)
    jobs.start("A", 0)
    (text,) = jobs.end().values()
    assert "TimeoutError: rank 0 waited 0.3 s in vain for the ranks [1]" in text and f"MASTER_PORT={PORT}" in text
    assert "ASCEND_ACLNN_JOB" in text


# ------------------------------------------------------------------------------------------------- several hosts
@pytest.fixture
def hosts() -> Iterator[tuple[int, list[dict[str, str]]]]:
    """A port of the loopback interface that stands for another host's, and the environments of two ranks."""
    try:
        port = free_port()
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        pytest.skip(f"there is no loopback interface: {error}")
    ranks = []
    for rank in range(2):
        variables = {**by_hand("A", rank), "LOCAL_WORLD_SIZE": "1", "ASCEND_ACLNN_PORT": str(port)}
        ranks.append({**variables, "ASCEND_ACLNN_KEY": KEY})
    yield port, ranks


def connected(port: int) -> socket.socket:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), 60)
        time.sleep(0.01)
    raise AssertionError("nobody listens")


def test_a_stranger_learns_nothing_and_takes_no_place(hosts: tuple[int, list[dict[str, str]]]) -> None:
    port, ranks = hosts
    jobs = Jobs({"A": ranks})
    jobs.start("A", 0)
    with connected(port) as silent, connected(port) as other:
        other.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert other.recv(1 << 16) == b""
        with connected(port) as forger:
            forger.sendall(b"ASCENDH1" + bytes(32))
            assert len(forger.recv(1 << 16)) == 32  # a nonce
            forger.sendall(bytes(meeting._STATEMENT.size + 32))
            with contextlib.suppress(ConnectionResetError):
                assert forger.recv(1 << 16) == b""
        jobs.start("A", 1)
        jobs.wait_until_met(2)
        assert set(jobs.end().values()) == {3}
        silent.setblocking(False)
        with contextlib.suppress(ConnectionResetError):
            assert silent.recv(1 << 16) == b""


def test_another_key_is_refused(hosts: tuple[int, list[dict[str, str]]]) -> None:
    """And takes no rank's place: the one with the key comes afterwards."""
    _, ranks = hosts
    jobs = Jobs({"A": ranks, "B": [{**ranks[1], "ASCEND_ACLNN_KEY": KEY + "!"}]})
    jobs.start("A", 0)
    jobs.start("B", 0)
    jobs.wait_for("B", 0)
    jobs.start("A", 1)
    jobs.wait_until_met(2)
    found = jobs.end()
    assert found["A", 0] == found["A", 1] == 3
    assert "CommunicationError" in found["B", 0] and "has another key (ASCEND_ACLNN_KEY)" in found["B", 0]


def test_a_rank_of_another_job_with_the_same_key_is_told(hosts: tuple[int, list[dict[str, str]]]) -> None:
    _, ranks = hosts
    jobs = Jobs({"A": ranks, "B": [{**ranks[1], "ASCEND_ACLNN_JOB": "other"}]})
    jobs.start("A", 0)
    jobs.start("B", 0)
    jobs.start("A", 1)
    jobs.wait_until_met(2)
    jobs.wait_for("B", 0)  # while rank 0 of A still listens
    found = jobs.end()
    assert found["A", 0] == found["A", 1] == 3
    assert f"is of another job, MASTER_PORT={PORT}" in found["B", 0]


def _meet_twice(variables: dict[str, str], results: Any) -> None:
    set_environment(variables)
    with aclnn.use_backend("numpy"):
        made = [Communicator.from_env(timeout=60) for _ in range(3)]
        results.put([comm.all_reduce(np.ones(1, np.int64)).tolist() for comm in made])


def test_one_meeting_after_the_other(hosts: tuple[int, list[dict[str, str]]]) -> None:
    results = FORK.Queue()
    children = [FORK.Process(target=_meet_twice, args=(variables, results)) for variables in hosts[1]]
    for child in children:
        child.start()
    assert [results.get(timeout=90) for _ in children] == [[[2]] * 3] * 2
    for child in children:
        child.join(60)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1400:
        pytest.skip(f"a thousand connections need 1400 descriptors, of which there are {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1400), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _rank_with_few_descriptors(variables: dict[str, str], go: Any, results: Any) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    rank_body(variables, 1, 30, go, go, results)


@pytest.mark.usefixtures("many_descriptors")
def test_a_thousand_strangers(hosts: tuple[int, list[dict[str, str]]]) -> None:
    port, ranks = hosts
    results, go = FORK.Queue(), [FORK.Event(), FORK.Event()]
    children = [FORK.Process(target=_rank_with_few_descriptors, args=(ranks[r], go[r], results)) for r in range(2)]
    for child in children:
        child.start()
    go[0].set()
    with contextlib.ExitStack() as strangers:
        for _ in range(1000):
            strangers.enter_context(connected(port))
        go[1].set()
        found = [results.get(timeout=90) for _ in range(4)]
    assert sorted(map(str, found)) == ["(1, 'met')", "(1, 'met')", "(1, 2)", "(1, 2)"]
    for child in children:
        child.join(60)


def test_a_stranger_has_only_so_much_time(monkeypatch: pytest.MonkeyPatch, hosts: Any) -> None:
    patience = iter([0.2])  # of the first one; those after it may be ranks

    class Stranger(handshake._Stranger):
        def __init__(self) -> None:
            super().__init__()
            self.deadline = time.monotonic() + next(patience, handshake.PATIENCE)

    monkeypatch.setattr(handshake, "_Stranger", Stranger)
    port, ranks = hosts
    jobs = Jobs({"A": ranks})
    jobs.start("A", 0)
    with connected(port) as silent:
        silent.settimeout(60)
        assert silent.recv(1) == b""
    jobs.start("A", 1)
    jobs.wait_until_met(2)
    jobs.end()


def test_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_to = monkeypatch.setenv
    monkeypatch.delenv("ASCEND_ACLNN_KEY", raising=False)
    path = tmp_path / "key"
    set_to("ASCEND_ACLNN_KEY_FILE", str(path))
    with pytest.raises(ValueError, match=r"there is no key .*No such file or directory"):
        meeting.read_key()
    path.write_text(KEY + "\n")
    path.chmod(0o640)
    with pytest.raises(ValueError, match=r"has mode 640 and user \d+; a key must be in a file with mode 600"):
        meeting.read_key()
    path.chmod(0o600)
    assert meeting.read_key() == KEY.encode()
    set_to("ASCEND_ACLNN_KEY", "short")
    with pytest.raises(ValueError, match="ASCEND_ACLNN_KEY has 5 bytes; it must have 16 or more"):
        meeting.read_key()


def test_what_the_environment_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "1")):
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="nothing in the environment names the job"):
        Communicator.from_env()
    monkeypatch.setenv("ASCEND_ACLNN_JOB", "x")
    monkeypatch.setenv("ASCEND_ACLNN_KEY", KEY)
    with pytest.raises(ValueError, match="MASTER_ADDR is not set"):
        Communicator.from_env()
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(ValueError, match="WORLD_SIZE is 'two'; it must be a number"):
        Communicator.from_env()


def _meetings() -> set[str]:
    """The names of all sockets at which a rank 0 listens on this host."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return {line.split()[-1] for line in lines if "ascend_aclnn.meeting" in line}


def _connect_as_another_user(names: set[str], results: Any) -> None:
    os.setuid(65534)
    found = []
    for name in names:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                connection.connect(b"\0" + name[1:].encode())
            except ConnectionRefusedError:
                continue  # of another test, that has ended
            connection.settimeout(60)
            with contextlib.suppress(OSError):
                connection.sendall(b"ASCENDH1" + bytes(32))
            try:
                found.append(connection.recv(100))
            except ConnectionResetError:
                found.append(b"")
    results.put(found)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_user_is_turned_away() -> None:
    jobs, results = Jobs({"A": [by_hand("A", rank) for rank in range(2)]}), FORK.Queue()
    others = _meetings()
    jobs.start("A", 0)
    deadline = time.monotonic() + 60
    while not _meetings() - others and time.monotonic() < deadline:
        time.sleep(0.01)
    other = FORK.Process(target=_connect_as_another_user, args=(_meetings() - others, results))
    other.start()
    found = results.get(timeout=90)
    assert found and set(found) == {b""}
    jobs.start("A", 1)
    jobs.wait_until_met(2)
    jobs.end()


def test_an_answer_cannot_be_forged() -> None:
    one, other = socket.socketpair()
    with one, other:
        session = handshake.ProvenSession.of(b"key", bytes(64), b"statement")
        sealed = session.seal(b"the root info")
        assert b"root" not in sealed
        one.sendall(sealed)
        assert session.receive(other) == b"the root info"
        one.sendall(sealed[:6] + bytes([sealed[6] ^ 1]) + sealed[7:])
        with pytest.raises(handshake.HandshakeEnded, match="wrong proof"):
            session.receive(other)
        one.sendall(struct.pack("<I", 1 << 30))
        with pytest.raises(handshake.HandshakeEnded, match="too long"):
            session.receive(other)
