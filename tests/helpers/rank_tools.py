"""Ranks for tests: processes that wait for work, so that many operators can be tried on the same communicators."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, ops

# Ranks are forked from a process that has imported the package and nothing else: importing it takes longer than most ranks do.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["ascend_aclnn", "ascend_aclnn.ops", "pytest"])
MARK = "ASCEND_ACLNN_TEST_CREW"
GROUP = "<group>"  # stands for the communicator's name in an operator's arguments


def rank_process(body: Callable[..., None], *arguments: Any, **variables: str) -> Any:
    """A process, not yet started, that has this one's environment as it is now, and the variables."""
    return FORKS.Process(target=_begin, args=({**os.environ, **variables}, body, arguments), daemon=True)


def _begin(variables: dict[str, str], body: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.environ.clear()
    os.environ.update(variables)
    body(*arguments)


def _serve(connection: Any, info: bytes, rank: int, size: int, backend: str, soc: str) -> None:
    Path("/proc/self/comm").write_text(os.environ[MARK])  # the environment of /proc is that of before the fork
    options = {"soc": soc} if soc and backend == "numpy" else {}
    with aclnn.use_backend(backend, **options), Communicator.from_root_info(info, rank, size) as comm:
        for body, arguments in iter(connection.recv, None):
            try:
                connection.send(body(comm, *arguments))
            except BaseException as error:
                connection.send(error)


def _call(comm: Communicator, calls: list[tuple[str, list[Any], Any]]) -> list[Any]:
    """Operators one after the other; an argument that is ``Earlier`` is a result of an earlier one."""
    results: list[Any] = []
    for name, arguments, out in calls:
        made = [_value(comm, argument, results) for argument in arguments]
        actual = getattr(ops, name)(*made, out=out)
        results.append(list(actual) if isinstance(actual, tuple) else [actual])
    return results


class Earlier:
    """A result of an earlier operator of the same program: its number, and the output's; ``then`` changes it."""

    def __init__(self, call: int, output: int, then: Callable[..., Any] | None = None, *arguments: Any) -> None:
        self.call, self.output, self.then, self.arguments = call, output, then, arguments


def _value(comm: Communicator, argument: Any, results: list[Any]) -> Any:
    if isinstance(argument, Earlier):
        value = results[argument.call][argument.output]
        return value if argument.then is None else argument.then(value, *argument.arguments)
    return comm.name if isinstance(argument, str) and argument == GROUP else argument


def processes(mark: str) -> dict[int, str]:
    """Processes that still run with a mark in their environment or for their name, and their command lines."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (path / "environ").read_bytes() or (path / "comm").read_text().strip() == mark:
                state = (path / "stat").read_text().rpartition(")")[2].split()[0]
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if state != "Z" and "resource_tracker" not in command:
                    found[int(path.name)] = command
    return found


class Crew:
    """Some ranks on a backend."""

    def __init__(self, size: int, backend: str = "numpy", soc: str = "", home: str = "", **variables: str) -> None:
        with aclnn.use_backend("numpy"):
            info = Communicator.root_info()
        self.size = size
        self.mark = secrets.token_hex(7)  # Linux keeps 15 characters of a process's name
        if home:
            variables["ASCEND_HOME_PATH"] = home
        if soc:
            variables["ASCEND_ACLNN_SOC"] = soc
        self._connections: list[Any] = []
        self.children: list[Any] = []
        for rank in range(size):
            mine, theirs = FORKS.Pipe()
            child = rank_process(_serve, theirs, info, rank, size, backend, soc, **variables, **{MARK: self.mark})
            child.start()
            theirs.close()
            self._connections.append(mine)
            self.children.append(child)

    def run(self, body: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What a function of a module gives for (communicator, *arguments) on each rank; exceptions are returned."""
        return self.run_each(body, [arguments] * self.size)

    def run_each(self, body: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> list[Any]:
        for connection, own in zip(self._connections, arguments):
            connection.send((body, own))
        found = []
        for rank, connection in enumerate(self._connections):
            assert connection.poll(600), f"rank {rank} does not answer"
            found.append(connection.recv())
        return found

    def run_on(self, ranks: list[int], body: Callable[..., Any], *arguments: Any) -> list[Any]:
        """As ``run``, on some ranks only."""
        for rank in ranks:
            self._connections[rank].send((body, arguments))
        found = []
        for rank in ranks:
            assert self._connections[rank].poll(600), f"rank {rank} does not answer"
            found.append(self._connections[rank].recv())
        return found

    @contextlib.contextmanager
    def answers(self, body: Callable[..., Any], *arguments: Any) -> Iterator[Callable[[int, float], Any]]:
        """Starts a function on all ranks; what is given waits for one rank's answer."""
        for connection in self._connections:
            connection.send((body, arguments))

        def answer(rank: int, seconds: float) -> Any:
            assert self._connections[rank].poll(seconds), f"rank {rank} hangs"
            found = self._connections[rank].recv()
            assert not isinstance(found, BaseException), found
            return found

        yield answer

    def call(self, programs: list[list[tuple[str, list[Any], Any]]]) -> list[Any]:
        """The results of each rank's operators: (name, arguments, out) each. The first exception is raised."""
        found = self.run_each(_call, [(program,) for program in programs])
        for item in found:
            if isinstance(item, BaseException):
                raise item
        return found

    def close(self) -> None:
        for connection, child in zip(self._connections, self.children):
            with contextlib.suppress(OSError):
                connection.send(None)
            child.join(20)
            if child.is_alive():
                child.kill()
                child.join()
