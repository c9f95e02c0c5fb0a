"""Workers in a row: a unit that hangs or dies ends its worker, is named, and a new worker goes on behind it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Optional

import ascend_aclnn

BATCH = 200  # units that share a process, whose start takes seconds on a card
HOST = 300.0  # seconds that a worker may take to start, and to compute golden results
SOC = "ASCEND_ACLNN_SOC"
Event = dict[str, Any]


class NoDevice(Exception):
    """There is no device, or it no longer answers."""


@dataclasses.dataclass
class Outcome:
    """The outcome of a unit: an operator or a check."""

    unit: str
    cases: int = 0
    faults: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # case, number, text, recording
    left_out: Optional[str] = None  # why it was not tried
    figures: dict[str, Any] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    judged: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # for a report: each case with its outputs


class Batches:
    """Runs units in workers. ``timeout`` is for each case, in seconds; ``report`` is the directory of a report.

    ``thorough``, ``sample`` and ``numbers`` choose cases, see ``worker``. ``special`` has the units that an emulated device needs
    other variables for: the rules of another SoC, more devices, another CANN.
    """

    def __init__(
        self,
        environment: dict[str, str],
        timeout: float,
        thorough: bool = False,
        seed: int = 0,
        report: Optional[Path] = None,
        sample: int = 0,
        numbers: Optional[dict[str, list[int]]] = None,
        numpy: bool = False,
    ) -> None:
        package = str(Path(ascend_aclnn.__file__).parents[1])
        paths = [package, *filter(None, [environment.get("PYTHONPATH")])]
        backend = "numpy" if numpy else "npu"
        self.environment = {**environment, "ASCEND_ACLNN_BACKEND": backend, "PYTHONPATH": os.pathsep.join(paths)}
        self.timeout = timeout
        self.task = {
            "thorough": thorough,
            "seed": seed,
            "report": None if report is None else str(report.resolve()),
            "sample": sample,
            "numbers": numbers or {},
            "numpy": numpy,
        }
        self.special: dict[str, dict[str, str]] = {}
        self._again = False  # a worker has ended early

    def device(self) -> Event:
        """The device's description and its libraries' exports; NoDevice where there is none."""
        with self._worker([], describe=True) as worker:
            for event in worker.events(HOST):
                if event["event"] == "device":
                    return event
                if event["event"] == "absent":
                    raise NoDevice(event["text"])
            raise NoDevice(worker.how_it_ended())

    def outcomes(self, units: Sequence[str]) -> Generator[Outcome, None, None]:
        """The outcome of each unit, in order, the special ones at last; NoDevice where a worker ends before its first."""

        def variables(unit: str) -> list[tuple[str, str]]:
            return sorted(self.special.get(unit, {}).items())

        pending = sorted(units, key=variables)
        while pending:
            wanted = variables(pending[0])
            batch = [unit for unit in pending[:BATCH] if variables(unit) == wanted]
            for outcome in self._batch(batch, dict(wanted)):
                pending.remove(outcome.unit)
                yield outcome
            self._again = bool(set(batch) & set(pending[:1]))

    def _batch(self, units: list[str], variables: dict[str, str]) -> Iterator[Outcome]:
        """The outcomes of units until the worker ended."""
        outcome, where, start, done = None, _Where(""), time.monotonic(), False
        with self._worker(units, describe=False, variables=variables) as worker:
            for event in worker.events(self.timeout):
                kind = event.pop("event")
                if kind == "host":
                    continue
                if kind == "begin":
                    if outcome is None:
                        outcome, start = Outcome(event["unit"]), time.monotonic()
                    where = _Where(event["case"], event.get("number"))
                elif kind == "absent":
                    raise NoDevice(event["text"])
                elif kind == "done" or outcome is None:
                    done = kind == "done"
                elif kind == "fault":
                    outcome.faults.append({name: event[name] for name in ("case", "number", "text", "recording")})
                elif kind == "case":
                    outcome.judged.append({name: event[name] for name in ("number", "case", "outputs")})
                elif kind == "end":
                    outcome.cases, outcome.left_out = event.pop("cases"), event.pop("left_out")
                    outcome.figures = {name: value for name, value in event.items() if name != "unit"}
                    outcome.seconds = round(time.monotonic() - start, 2)
                    yield outcome
                    outcome = None
                elif kind == "lost":
                    outcome.faults.append(_lost(where, f"the device no longer answers: {event['text']}"))
                    yield outcome
                    return
            if outcome is not None:
                outcome.faults.append(_lost(where, worker.how_it_ended()))
                yield outcome
            elif not done:
                raise NoDevice(worker.how_it_ended())

    @contextlib.contextmanager
    def _worker(
        self, units: list[str], describe: bool, variables: Optional[dict[str, str]] = None
    ) -> Iterator[_WorkerProcess]:
        task = json.dumps({**self.task, "units": units, "describe": describe, "again": self._again})
        with tempfile.TemporaryFile() as errors:
            worker = _WorkerProcess(task, {**self.environment, **(variables or {})}, errors)
            try:
                yield worker
            finally:
                worker.end()


class _Where(NamedTuple):
    """The case at work."""

    case: str
    number: Optional[int] = None


def _lost(where: _Where, text: str) -> dict[str, Any]:
    """The fault of a case that ended its process."""
    return {**where._asdict(), "text": text, "recording": None}


class _WorkerProcess:
    """A process with a pipe for its events."""

    def __init__(self, task: str, environment: dict[str, str], errors: IO[bytes]) -> None:
        self._errors = errors
        self._hung = 0.0
        self._pipe, write = os.pipe()
        with tempfile.TemporaryFile() as question:
            question.write(task.encode())
            question.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ascend_aclnn.verify.worker", str(write)],
                stdin=question,
                stdout=errors,
                stderr=errors,
                env=environment,
                pass_fds=[write],
                start_new_session=True,  # to end it with all that it has started
            )
        os.close(write)

    def events(self, timeout: float) -> Iterator[Event]:
        """The events until the worker ends, or tells nothing for a time."""
        buffer, limit = b"", HOST
        while True:
            begin = time.monotonic()
            if not select.select([self._pipe], [], [], limit)[0]:
                self._hung = time.monotonic() - begin
                return
            part = os.read(self._pipe, 1 << 16)
            if not part:
                self._process.wait()
                return
            *lines, buffer = (buffer + part).split(b"\n")
            for line in lines:
                event = json.loads(line)
                limit = HOST if event["event"] == "host" else timeout
                yield event

    def how_it_ended(self) -> str:
        """In words, with the last line that it wrote."""
        if self._hung:
            return f"hangs: no answer for {self._hung:.0f} s"
        code = self._process.returncode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"the process ended with {how}{': ' + lines[-1] if lines else ''}"

    def end(self) -> None:
        """Ends the process, whatever it is doing, and what it has started."""
        os.close(self._pipe)
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
