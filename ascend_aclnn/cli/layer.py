"""``ascend-aclnn layer run``: a program with a layer in front of CANN's libraries."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from ascend_aclnn.cli import emulator
from ascend_aclnn.cli.operators import add_operators, load_operators
from ascend_aclnn.cli.recording import add_bounds, add_failures
from ascend_aclnn.cli.sizes import size
from ascend_aclnn.core import files
from ascend_aclnn.emulator import validation
from ascend_aclnn.emulator.build import build
from ascend_aclnn.layer import run as layer_run

_INTERVAL = 0.05  # seconds between looks at a recording that grows
_GRACE = 5.0  # seconds that a program has to end by itself when it is stopped
_PRINTED = 10  # findings of one operator that are printed
_REASONS = 10  # why launches were not compared: how many reasons a summary lists


def add_commands(subparsers: Any) -> None:
    """Adds ``layer run`` to the command line."""
    parser = subparsers.add_parser("layer", help="record what a program asks of CANN, and check it")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    command = commands.add_parser("run", help="run a program under the layer: layer run --record FILE -- PROGRAM ARGS")
    command.add_argument("--record", metavar="FILE", type=Path, help="the recording; it must not exist yet")
    command.add_argument(
        "--data",
        default="",
        metavar="WHAT",
        help="record inputs and outputs, too: all, first=N launches, sample=P (a share), or operators' names (aclnnAdd,Mm)",
    )
    command.add_argument(
        "--check",
        nargs="?",
        const="all",
        metavar="WHAT",
        help="compare launches with their NumPy references as the program runs; WHAT as for --data (default: all)",
    )
    emulator.add_validation(command, "when the program has ended: name launches that no order protects")
    command.add_argument("--stop", action="store_true", help="with --check: end the program at the first wrong launch")
    command.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="print what the program used (operators, data types, references, products whose rules it would break, what is "
        "deprecated), and write it as JSON, with --check beside the findings",
    )
    command.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="print operators by their time, and write a trace for Perfetto: launches, streams, memory",
    )
    add_failures(command)
    add_bounds(command)
    add_operators(command)
    command.add_argument(
        "--stacks",
        action="store_true",
        help="record the call site of each launch and call; --data, --check and --validate do",
    )
    command.add_argument("--tensor-limit", type=size, metavar="SIZE", help="data of larger tensors are left out (1G)")
    command.add_argument("--file-limit", type=size, metavar="SIZE", help="no data beyond this size of the file (16G)")
    command.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM ARGS")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    program = options.program[1:] if options.program[:1] == ["--"] else options.program
    wanted = (options.record, options.check, options.report, options.profile, options.validate)
    if not program or all(option is None for option in wanted):
        what = "no program given" if not program else "nothing to do"
        print(
            f"ascend-aclnn: layer run: {what}; write: ascend-aclnn layer run --record FILE -- PROGRAM ARGS "
            "(or --check, --validate, --report, --profile)",
            file=sys.stderr,
        )
        return 2
    if options.validate is not None:
        if not set(options.validate.split(",")) <= set(validation.USUAL):
            raise ValueError(f"--validate={options.validate}: the layer sees {' and '.join(validation.USUAL)} only")
        return _validated(options, program)
    if options.check is None and options.report is None and options.profile is None:
        variables = _variables(options, options.record, options.data)
        sys.stdout.flush()
        return os.execve(_executable(program, variables), program, variables)  # which never returns
    if options.check is not None and options.data and options.data != options.check:
        raise ValueError("--check WHAT and --data WHAT differ; the launches that are checked are those with data")
    run = _surveyed if options.check is None else _checked
    with _recorded(options) as record:
        return run(options, program, record)


@contextlib.contextmanager
def _recorded(options: argparse.Namespace) -> Iterator[Path]:
    """Where the recording goes: the file of --record, which stays, or one that goes with the command."""
    if options.record is not None:
        yield options.record
        return
    folder = Path(tempfile.mkdtemp(prefix="ascend-aclnn-layer-"))
    try:
        yield folder / "run.aclnn"
    finally:
        files.remove_tree(folder)


def _variables(options: argparse.Namespace, record: Path, data: str) -> dict[str, str]:
    taken = existing(record)
    if taken:
        raise FileExistsError(f"{taken[0]} is there already; remove it, or give another name")
    stacks = options.stacks or bool(data) or options.validate is not None
    settings = layer_run.Options(
        record, data, stacks, options.tensor_limit, options.file_limit, options.profile is not None
    )
    try:
        return layer_run.environment(settings, os.environ)
    except LookupError:
        print("ascend-aclnn: this host has no CANN; the program runs on the emulated device", file=sys.stderr)
        return layer_run.environment(settings, emulator.environment(build()))


def _executable(program: list[str], variables: dict[str, str]) -> str:
    executable = shutil.which(program[0], path=variables.get("PATH"))
    if executable is None:
        raise ValueError(f"layer run: {program[0]} was not found, or may not be run")
    return executable


def existing(record: Path) -> list[Path]:
    """The files that a recording of this name would be mixed up with: it, and those of ranks and further processes."""
    pattern = re.compile(rf"{re.escape(record.stem)}(\.rank\d+)?(\.\d+)?{re.escape(record.suffix)}")
    if not record.parent.is_dir():
        raise FileNotFoundError(f"{record.parent} is no directory")
    return sorted(path for path in record.parent.iterdir() if pattern.fullmatch(path.name))


# ------------------------------------------------------------------------------------------------- checking


def _checked(options: argparse.Namespace, program: list[str], record: Path) -> int:
    """Runs a program and checks its launches meanwhile; its exit status, or 1 where a launch was wrong."""
    variables = _variables(options, record, options.check)
    load_operators(options)  # what is built for CANN is none of theirs
    process = subprocess.Popen(program, executable=_executable(program, variables), env=variables)
    watch = _Watch(record, options)
    try:
        while process.poll() is None:
            wrong = watch.advance(ended=False)
            if wrong and options.stop:
                print("ascend-aclnn: stopping the program (--stop)", file=sys.stderr)
                _stop(process)
            if not watch.busy:
                time.sleep(_INTERVAL)
    except KeyboardInterrupt:  # the program has got it, too
        process.wait()
    watch.advance(ended=True)
    watch.compare_ranks()
    print("\n".join(watch.summary()), flush=True)
    _survey(options, record, watch.to_json())
    return _status(process) or (1 if watch.wrong or watch.wrong_exchanges else 0)


def _surveyed(options: argparse.Namespace, program: list[str], record: Path) -> int:
    """Runs a program, and tells what it used and where its time went; its exit status."""
    variables = _variables(options, record, options.data)
    process = subprocess.Popen(program, executable=_executable(program, variables), env=variables)
    try:
        process.wait()
    except KeyboardInterrupt:  # the program has got it, too
        process.wait()
    _survey(options, record, {})
    return _status(process)


def _status(process: subprocess.Popen[bytes]) -> int:
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _survey(options: argparse.Namespace, record: Path, findings: dict[str, dict[str, Any]]) -> None:
    """Prints and writes what --report and --profile ask for, of each process of the program."""
    from ascend_aclnn.recording import Recording
    from ascend_aclnn.replay import timeline, usage

    report: dict[str, dict[str, Any]] = {}
    events: list[dict[str, Any]] = []
    for path in existing(record):
        with Recording(path) as recording:
            title = f"{path.name}: " if len(existing(record)) > 1 else ""
            if options.report is not None:
                uses = usage.usage(recording.launches)
                if options.check is None:  # what is wrong comes first, and last
                    print(title + "\n".join(usage.lines(uses)), flush=True)
                report[path.name] = {**findings.get(path.name, {}), "operators": [use.to_json() for use in uses]}
            if options.profile is not None:
                profile = timeline.Timeline(recording)
                print(title + "\n".join(profile.lines()), flush=True)
                events += profile.events()
    if options.report is not None:
        options.report.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if options.profile is not None:
        trace = {"traceEvents": events, "displayTimeUnit": "ns"}
        options.profile.write_text(json.dumps(trace), encoding="utf-8")


def _validated(options: argparse.Namespace, program: list[str]) -> int:
    """Runs a program, and looks at its recordings; 1 where something was found that is no warning, else its exit status."""
    if (options.check, options.report, options.profile) != (None, None, None):
        raise ValueError("--validate is a run of its own, without --check, --report and --profile")
    with _recorded(options) as record:
        return _look(options, program, record)


def _look(options: argparse.Namespace, program: list[str], record: Path) -> int:
    from ascend_aclnn.layer.validate import Validator, summary
    from ascend_aclnn.recording import Recording

    patterns = [] if options.validate_suppress is None else validation.suppressions(options.validate_suppress)
    variables = _variables(options, record, options.data)
    process = subprocess.Popen(program, executable=_executable(program, variables), env=variables)
    try:
        process.wait()
    except KeyboardInterrupt:  # the program has got it, too
        process.wait()
    validators, found = {}, []
    for path in existing(record):
        validators[path.name] = Validator(options.validate)
        with Recording(path) as recording:
            findings = validators[path.name].run(recording)
        shown = [f for f in findings if not validation.is_suppressed(patterns, f.identifier, f.text)]
        for finding in shown:
            mark = "warning: " if finding.severity == "warning" else ""
            often = f" ({finding.times} times)" if finding.times > 1 else ""
            print(f"ascend-aclnn validate: {mark}{finding.identifier}: {finding.text}{often}", file=sys.stderr)
        found += shown
    print(f"ascend-aclnn validate: {summary(iter(validators.values()))}", file=sys.stderr, flush=True)
    if options.validate_json is not None:
        json_findings = [finding.to_json() for finding in found]
        report = {"version": 1, "program": program, "status": process.returncode, "findings": json_findings}
        options.validate_json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if any(finding.severity == "error" for finding in found):
        return validation.FOUND
    return _status(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Watch:
    """The recordings of a program that runs, and what is found in them."""

    def __init__(self, record: Path, options: argparse.Namespace) -> None:
        from ascend_aclnn.layer.check import MEMORY, Checker
        from ascend_aclnn.replay.failures import Failures

        self._checker = Checker
        self._record = record
        self._failures = Failures(options.failures)
        self._directory = options.failures
        self._bounds = MEMORY if options.memory is None else options.memory, options.seconds
        self.checkers: dict[Path, Any] = {}
        self.busy = False  # the last advance had something to do
        self.exchanges: list[Any] = []  # collectives, once all ranks have ended
        self._printed = Counter[str]()  # findings, by operator

    def advance(self, ended: bool) -> bool:
        """Checks what is new, and prints what is found; whether a launch is wrong."""
        from ascend_aclnn.core.socs import known_soc
        from ascend_aclnn.recording import Recording, RecordingError
        from ascend_aclnn.selection import use_backend

        before = sum(checker.checked for checker in self.checkers.values())
        for path in existing(self._record):
            if path not in self.checkers:
                try:
                    recording = Recording(path)
                except RecordingError:
                    continue  # its first bytes are being written
                if not recording.header.clock:
                    recording.close()
                    continue
                self.checkers[path] = self._checker(recording, self._failures, *self._bounds)
        for path, checker in self.checkers.items():
            try:
                soc: Optional[str] = known_soc(checker.recording.header.soc)
            except ValueError:
                soc = None
            with use_backend("numpy", soc=soc):
                for finding in checker.advance(ended):
                    self._print(finding, f"{path.name}: " if len(self.checkers) > 1 else "")
        self.busy = before != sum(checker.checked for checker in self.checkers.values())
        return bool(self.wrong)

    def compare_ranks(self) -> None:
        """Compares what the ranks got in collectives with what they sent."""
        from ascend_aclnn.replay.collectives import exchanges

        for exchange in exchanges([checker.recording for checker in self.checkers.values()]):
            self.exchanges.append(exchange)
            if exchange.difference and len(self.wrong_exchanges) <= _PRINTED:
                lines = [*exchange.lines(), *exchange.write(self._directory)]
                print("ascend-aclnn check: " + "\n".join(lines), file=sys.stderr, flush=True)

    @property
    def wrong_exchanges(self) -> list[Any]:
        return [exchange for exchange in self.exchanges if exchange.difference]

    def _print(self, finding: Any, where: str) -> None:
        """Prints a finding; of an operator that is wrong again and again the first ones."""
        name = finding.launch.operator.name
        self._printed[name] += 1
        if self._printed[name] <= _PRINTED:
            print(f"ascend-aclnn check: {where}{finding}", file=sys.stderr, flush=True)
        elif self._printed[name] == _PRINTED + 1:
            print(f"ascend-aclnn check: more launches of {name} are counted only", file=sys.stderr, flush=True)

    @property
    def wrong(self) -> list[Any]:
        """The findings that are faults."""
        return [f for checker in self.checkers.values() for f in checker.findings if f.is_fault]

    def summary(self) -> list[str]:
        checked = sum(checker.checked for checker in self.checkers.values())
        left_out = sum((Counter(checker.left_out) for checker in self.checkers.values()), Counter[str]())
        lines = []
        if self.wrong:
            first = self.wrong[0]
            lines.append(f"first wrong launch: {first.title}: {first.text}")
        lines.append(f"checked {checked} launches: {len(self.wrong)} wrong; {sum(left_out.values())} not compared")
        compared = [exchange for exchange in self.exchanges if not exchange.left_out]
        if self.wrong_exchanges:
            lines.insert(
                0, f"first wrong collective: {self.wrong_exchanges[0].title}: {self.wrong_exchanges[0].difference}"
            )
        if self.exchanges:
            left_out += Counter(f"{one.name}: {one.left_out}" for one in self.exchanges if one.left_out)
            lines.append(f"checked {len(compared)} collectives, sends and receives: {len(self.wrong_exchanges)} wrong")
        partly = sum(checker.partly for checker in self.checkers.values())
        lines += [f"  {partly:>6} compared in part: --seconds was up"] if partly else []
        lines += [f"  {count:>6} not compared: {reason}" for reason, count in left_out.most_common(_REASONS)]
        notes = [note for checker in self.checkers.values() for note in checker.recording.notes()]
        return [*lines, *(f"  note: {note.splitlines()[0]}" for note in notes[:_REASONS])]

    def to_json(self) -> dict[str, Any]:
        wrong = [exchange.to_json() for exchange in self.wrong_exchanges]
        return {
            path.name: {
                **({"collectives": wrong} if self.exchanges else {}),
                "checked": checker.checked,
                "left_out": checker.left_out,
                "findings": [finding.to_json() for finding in checker.findings],
            }
            for path, checker in self.checkers.items()
        }
