"""``emulator run --validate``: a program is run, and what the emulated libraries find becomes the exit status."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Optional, Union

from ascend_aclnn.emulator import order

USUAL = ("memory", "sync")  # what --validate without a list means
KINDS = (*USUAL, "host")
VARIABLE, REPORT = "ASCEND_EMULATOR_VALIDATE", "ASCEND_EMULATOR_VALIDATE_REPORT"
SUPPRESS, QUIET = "ASCEND_EMULATOR_VALIDATE_SUPPRESS", "ASCEND_EMULATOR_VALIDATE_QUIET"
STOP = "ASCEND_EMULATOR_VALIDATE_STOP"

FOUND = 1  # the exit status when there is a finding

_PASSED_ON = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")
]


def parse(text: str) -> str:
    """The option's value as the libraries read it."""
    words = text.split(",")
    unknown = [word for word in words if word not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{text} is not a list of {', '.join(KINDS[:-1])} and {KINDS[-1]}; write --validate=LIST -- PROGRAM"
        )
    return ",".join(word for word in KINDS if word in words)


class Report(NamedTuple):
    """Where the findings of a program go, and which of them do not count."""

    kinds: str  # as ``parse`` gives them
    suppressions: Optional[Path] = None
    json: Optional[Path] = None
    stop: bool = False  # at the first one


class Reader:
    """What the libraries write into a file while programs run. A finding's ``times`` says how often it was seen."""

    def __init__(self, path: Union[str, Path], patterns: Sequence[tuple[str, str]] = ()) -> None:
        self.processes: set[int] = set()  # those that have loaded the emulated libraries
        self.printed: list[dict[str, Any]] = []  # by the process that has it, at once
        # Between processes, or of one whose tasks another process may have put in order.
        self.compared: list[dict[str, Any]] = []
        self._path, self._patterns, self._read = Path(path), patterns, 0
        self._by_number: dict[tuple[int, int], dict[str, Any]] = {}
        self._order = order.Order()

    def update(self) -> bool:
        """Reads what has come since the last time, without what fits the patterns; whether anything has."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            text, mark, _ = file.read().rpartition(b"\n")
        self._read += len(text) + len(mark)
        records = [json.loads(line) for line in text.decode(errors="replace").splitlines()]
        for record in records:
            if "journal" in record:
                continue
            self.processes.add(record["process"])
            key = record["process"], record.get("finding", 0)
            if "times" in record:
                self._by_number[key]["times"] = record["times"]
            elif "finding" in record:
                self._by_number[key] = {**record, "times": 1}
                self.printed.append(self._by_number[key])
        journal = [record for record in records if "journal" in record]
        if journal:
            self._order.add(journal)
            findings = self._order.findings()
            self.compared = [f for f in findings if not is_suppressed(self._patterns, f["identifier"], f["text"])]
        return bool(records)


def suppressions(path: Path) -> list[tuple[str, str]]:
    """The patterns of a file: of an identifier, and of the text. OSError where it cannot be read."""
    lines = (line.split(None, 1) for line in path.read_text(encoding="utf-8").splitlines())
    return [(words[0], f"*{''.join(words[1:]).strip()}*") for words in lines if words and words[0][0] != "#"]


def is_suppressed(patterns: Sequence[tuple[str, str]], identifier: str, text: str) -> bool:
    """What the libraries decide in the same way."""
    return any(
        fnmatch.fnmatchcase(identifier, first) and fnmatch.fnmatchcase(text, second) for first, second in patterns
    )


def variables(report: Report, path: str) -> dict[str, str]:
    """The environment in which the libraries write findings to a file."""
    suppress = {} if report.suppressions is None else {SUPPRESS: str(report.suppressions.resolve(strict=True))}
    stop = {STOP: "1"} if report.stop else {}
    return {VARIABLE: report.kinds, REPORT: path, **suppress, **stop}


def run(executable: str, program: Sequence[str], environment: Mapping[str, str], report: Report) -> int:
    """Runs a program and waits for it; 1 if it or a process that it started made a finding, else the program's own status.

    The findings are printed by the libraries as they are made, those between processes at the end; warnings do not count.
    Signals are passed on to the program, and a signal that ends it ends this process too. OSError where the file of
    suppressions cannot be read.
    """
    with tempfile.NamedTemporaryFile(prefix="ascend-validate-") as file:
        status = _run(executable, program, {**environment, **variables(report, file.name)})
        reader = Reader(file.name, [] if report.suppressions is None else suppressions(report.suppressions))
        reader.update()
    for finding in reader.compared:
        times = f"; seen {finding['times']} times" if finding["times"] > 1 else ""
        print(f"EMULATOR_VALIDATE: {finding['identifier']}: {finding['text']}{times}", file=sys.stderr)
    if not reader.processes:
        print(
            "EMULATOR_VALIDATE: the program has not loaded the emulated libraries: nothing was compared",
            file=sys.stderr,
        )
    findings = [*reader.printed, *reader.compared]
    if report.json is not None:
        text = json.dumps({"version": 1, "program": list(program), "status": status, "findings": findings}, indent=1)
        report.json.write_text(text + "\n", encoding="utf-8")
    if any(finding["severity"] == "error" for finding in findings):
        return FOUND
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
        return 128 - status  # where the signal is blocked
    return status


def _run(executable: str, program: Sequence[str], variables: Mapping[str, str]) -> int:
    """Runs a program and passes signals on to it, those too that come before it has started."""
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        # A terminal sends the interrupt to the program as well.
        if number in (signal.SIGINT, signal.SIGQUIT) and sys.stdin is not None and sys.stdin.isatty():
            return
        if process is None:
            early.append(number)
        else:
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        process = subprocess.Popen(program, executable=executable, env=variables)
        for number in early:
            process.send_signal(number)
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
