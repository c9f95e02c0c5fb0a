"""``ascend-aclnn verify``: every operator of a device against its NumPy reference, and what every program does with it."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Callable, Optional

from ascend_aclnn import catalog
from ascend_aclnn.backends.npu import library
from ascend_aclnn.catalog import life
from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.cli.host_checks import device_nodes
from ascend_aclnn.core import files
from ascend_aclnn.core.socs import soc as find_soc
from ascend_aclnn.emulator.build import CompilerError, build
from ascend_aclnn.verify import history, suite
from ascend_aclnn.verify.batches import SOC, Batches, NoDevice, Outcome
from ascend_aclnn.verify.checks import CHECKS
from ascend_aclnn.verify.ranks import WORKS
from ascend_aclnn.verify.report import CASES, PAGE, RESULT, Report, family, title

ROOT = Path("/")  # of the host
DEVICES = "ASCEND_EMULATOR_DEVICES"
SAMPLE_MINUTES = 10.0  # that a sampled run takes at most


def add_commands(subparsers: Any) -> None:
    """Adds ``verify`` to the command line."""
    parser = subparsers.add_parser("verify", help="try every operator of the device against its NumPy reference")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--family",
        nargs="+",
        metavar="F",
        help='only these: "norm", "ops-nn/norm", "ops-nn", or "checks" (streams, threads, memory, collectives)',
    )
    parser.add_argument(
        "--all", action="store_true", help="every case of the conformance suite, not only the usual ones"
    )
    parser.add_argument(
        "--sample", type=int, metavar="N", help="N cases of each operator, chosen by --seed; ends after ten minutes"
    )
    parser.add_argument("--case", nargs="+", metavar="ID", help="these cases of the suite: aclnnRmsNorm/0003")
    parser.add_argument(
        "--on",
        choices=("auto", "card", "emulated", "numpy"),
        default="auto",
        help="numpy: the references themselves, against what the suite expects of them (default: the card if there is one)",
    )
    parser.add_argument(
        "--timeout", type=float, default=60, metavar="SECONDS", help="what a case may take (default: 60)"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="DIR",
        help=f"write DIR/{PAGE}, DIR/{RESULT} and a recording of each failure, DIR/{CASES}/NAME.aclnn; "
        "a report that --time, or anything else, ended early goes on",
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help=f"an older {RESULT}: what became wrong (exit status 1), was mended, is left out now, became slower",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random numbers (default: 0)")
    parser.add_argument("--time", type=float, metavar="MINUTES", help="stop after these, and say what is left")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.seed < 0:
        raise ValueError(f"verify: --seed is {options.seed}; it must not be negative")
    if options.time is not None and not options.time > 0:
        raise ValueError(f"verify: --time is {options.time:g}; it must be positive")
    if options.sample is not None and options.sample < 1:
        raise ValueError(f"verify: --sample is {options.sample}; it must be positive")
    numbers = _numbers(options.case or ())
    names = list(numbers) if options.case else _units(options.family)
    minutes = SAMPLE_MINUTES if options.sample and options.time is None else options.time
    older = None if options.against is None else history.read(options.against)
    begin = time.monotonic()
    batches, device, note = _device(options, numbers)
    exported = set(device.pop("exported"))
    if options.on == "numpy":
        names = [unit for unit in names if unit not in CHECKS]
    units = [unit for unit in names if unit in CHECKS or unit in exported]
    if device["emulated"] or options.on == "numpy":
        batches.special = _special(units, device)
    if options.sample:
        random.Random(options.seed).shuffle(units)
    if note:
        _say(note)
    _say(f"{title(device)}: {len(units)} operators and checks")
    report = Report(device, [], 0, seed=options.seed, thorough=options.all, sample=options.sample or 0)
    if options.report is not None:
        report.outcomes = _begun(options.report, report, units)
    done, seconds = {outcome.unit for outcome in report.outcomes}, report.seconds
    report.outcomes += [Outcome(unit, left_out="not in this CANN") for unit in names if unit not in units]
    report.left = [unit for unit in units if unit not in done]
    status = 0

    def save() -> None:
        report.seconds = seconds + time.monotonic() - begin
        if options.report is not None:
            report.save(options.report)

    try:
        with _interruptible():
            _verify(report, batches, minutes, save)
    except _Interruption as interruption:
        status = 128 + interruption.number
        report.stopped = f"interrupted; {len(report.left)} were not tried"
    finally:  # what was found is kept, whatever ended it
        report.seconds = seconds + time.monotonic() - begin
        if options.report is not None:
            report.write(options.report)
    result = report.to_json()
    compared = None if older is None else history.compare(older, result)
    if options.json:
        print(json.dumps(result if compared is None else {**result, "against": compared.to_json()}, indent=2))
    else:
        print(report)
        if options.report is not None:
            print(f"report      {options.report / PAGE}, {options.report / RESULT}{_replay(report, options.report)}")
        if compared is not None:
            print(f"\nagainst {options.against}\n{compared}")
    if status:
        return status
    if compared is not None:
        return 0 if compared.ok and report.stopped is None and report.tried else 1
    return 0 if report.ok else 1


class _Interruption(Exception):
    """SIGINT or SIGTERM: the verification ends, with a report."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Makes SIGINT and SIGTERM an ``_Interruption``, once; a second one ends the program as ever."""

    def interrupt(number: int, frame: Any) -> None:
        restore()
        raise _Interruption(number)

    def restore() -> None:
        for which, handler in before.items():
            signal.signal(which, handler)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        restore()


def _verify(report: Report, batches: Batches, minutes: Optional[float], save: Callable[[], None]) -> None:
    """Tries the units that are left, until the time is up. Saves what there is, so that one that is killed goes on, too."""
    end = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    due = 0.0
    with (
        _progress(len(report.left), report.sample > 0) as step,
        contextlib.closing(batches.outcomes(list(report.left))) as outcomes,
    ):
        try:
            for outcome in outcomes:
                report.outcomes.append(outcome)
                report.left.remove(outcome.unit)
                step(outcome)
                start = time.monotonic()
                if start > end:
                    break
                if start > due:  # a result of thousands of cases takes a while: a tenth of the time at most
                    save()
                    due = time.monotonic() + 9 * (time.monotonic() - start)
        except NoDevice as error:
            report.stopped = f"{len(report.left)} were not tried: {error}"
            report.left = []


def _begun(directory: Path, report: Report, units: list[str]) -> list[Outcome]:
    """The outcomes of a report that ended early, of the same device, seed and cases; else none, and no old recordings."""
    (directory / CASES).mkdir(parents=True, exist_ok=True)
    try:
        old = history.read(directory / RESULT)
    except (FileNotFoundError, ValueError):
        old = {"left": []}
    now = report.to_json()
    alike = all(old.get(name) == now[name] for name in ("device", "seed", "all", "sample"))
    if old.get("left") and alike:
        names = {field.name for field in dataclasses.fields(Outcome)}
        outcomes = [Outcome(**{name: unit[name] for name in names}) for unit in old["units"] if unit["unit"] in units]
        report.seconds = old["seconds"]
        _say(f"{directory} goes on: {len(outcomes)} of {len(units)} have been tried")
        return outcomes
    for file in (directory / CASES).iterdir():
        if file.suffix in (".aclnn", ".svg"):
            files.discard(file)
    return []


def _replay(report: Report, directory: Path) -> str:
    """How to run the first failure again; "" where nothing was recorded."""
    recorded = (fault["recording"] for outcome in report.failed for fault in outcome.faults if fault["recording"])
    first = next(recorded, None)
    return "" if first is None else f"\nreplay      ascend-aclnn replay {directory / first} --compare"


def _numbers(identifiers: Sequence[str]) -> dict[str, list[int]]:
    """The numbers of cases by operator."""
    found: dict[str, list[int]] = {}
    for identifier in identifiers:
        name, slash, number = identifier.partition("/")
        if name not in catalog.names():
            raise ValueError(f"verify: {catalog.unknown_name(name)}")
        if not (slash and number.isdigit()):
            raise ValueError(f"verify: {identifier!r} is no case; write aclnnRmsNorm/0003")
        found.setdefault(name, []).append(int(number))
    return found


def _special(units: list[str], device: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Variables of the units that need another emulated device: another product's rules, more devices, a later CANN."""
    special: dict[str, dict[str, str]] = {}
    chosen = bool(os.environ.get(SOC))  # the rules that the user wants
    for unit in units:
        if unit in CHECKS:
            continue
        variables: dict[str, str] = {}
        wanted, work = suite.wanted_soc(catalog.get(unit)), WORKS.get(unit)
        if work is not None and device["emulated"]:
            if work.ranks > device["devices"]:
                variables[DEVICES] = str(work.ranks)
            if work.cann is not None and life.order(device["cann"])[:2] < life.order(work.cann)[:2]:
                variables.update(environment(build(cann=work.cann)))
        if wanted is not None and not chosen and find_soc(wanted).product != find_soc(device["soc"]).product:
            variables[SOC] = wanted
        if variables:
            special[unit] = variables
    return special


def _units(families: Optional[list[str]]) -> list[str]:
    """The checks and the operators of some families (None: of all), in the order of families."""
    units = sorted([*catalog.names(), *CHECKS], key=lambda unit: (unit not in CHECKS, family(unit)))
    if families is None:
        return units
    for wanted in families:
        if not any(_is_of(unit, wanted) for unit in units):
            names = sorted({family(unit).rpartition("/")[2] for unit in units})
            raise ValueError(f"verify: there is no family {wanted!r}; families are {', '.join(names)}")
    return [unit for unit in units if any(_is_of(unit, wanted) for wanted in families)]


def _is_of(unit: str, wanted: str) -> bool:
    name = family(unit)
    return wanted in (name, name.rpartition("/")[2]) or name.startswith(f"{wanted}/")


def _device(options: argparse.Namespace, numbers: dict[str, list[int]]) -> tuple[Batches, dict[str, Any], str]:
    """The device that is meant, what it is, and what to say of it: this host's, or the emulated one where there is none."""

    def prepared(variables: dict[str, str]) -> Batches:
        return Batches(
            variables,
            options.timeout,
            options.all,
            options.seed,
            options.report,
            options.sample or 0,
            numbers,
            options.on == "numpy",
        )

    if options.on == "numpy":
        batches = prepared(dict(os.environ))
        return batches, batches.device(), ""
    search = library.search(os.environ)
    reason = "no libascendcl found"
    if search.runtime is not None and options.on != "emulated":
        batches = prepared(dict(os.environ))
        try:
            return batches, batches.device(), ""
        except NoDevice as error:
            reason = str(error).splitlines()[0]
    if options.on == "card":
        raise ValueError(f"verify: no card ({reason}); ascend-aclnn doctor says what to do")
    if options.on != "emulated" and device_nodes(ROOT):  # it is the card that is meant
        raise ValueError(f"verify: the card cannot be used ({reason}); ascend-aclnn doctor says what to do")
    try:
        directory = build()
    except CompilerError as error:
        raise ValueError(f"verify: no Ascend device ({reason}), and no emulated device: {error}") from None
    batches = prepared(environment(directory))
    note = "" if options.on == "emulated" else f"no Ascend device ({reason}): the emulated device is verified"
    try:
        return batches, batches.device(), note
    except NoDevice as error:
        raise ValueError(f"verify: no Ascend device ({reason}), and the emulated one does not start: {error}") from None


# ------------------------------------------------------------------------------------------------------- progress


@contextlib.contextmanager
def _progress(total: int, mixed: bool) -> Iterator[Callable[[Outcome], None]]:
    """Shows outcomes as they come: a bar on a terminal, where tqdm is installed, else a line for each family."""
    bar = None
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

            bar = tqdm(total=total, unit="operator", file=sys.stderr)
        except ImportError:
            pass
    lines = _Lines(mixed)

    def step(outcome: Outcome) -> None:
        if bar is None:
            lines.add(outcome)
            return
        bar.set_postfix_str(outcome.unit, refresh=False)
        bar.update()
        if outcome.faults:
            bar.write(f"{outcome.unit} fails: {outcome.faults[0]['text'].splitlines()[0]}", file=sys.stderr)

    try:
        yield step
    finally:
        if bar is None:
            lines.flush()
        else:
            bar.close()


class _Lines:
    """A line for each family, when it is done; where families are mixed, for each hundred."""

    def __init__(self, mixed: bool) -> None:
        self._mixed = mixed
        self._of: list[Outcome] = []
        self._begin = time.monotonic()

    def add(self, outcome: Outcome) -> None:
        done = len(self._of) == 100 if self._mixed else family((self._of or [outcome])[0].unit) != family(outcome.unit)
        if done:
            self.flush()
        self._of.append(outcome)

    def flush(self) -> None:
        if not self._of:
            return
        failed = [outcome.unit for outcome in self._of if outcome.faults]
        fails = f"; {len(failed)} fail: {', '.join(failed)}" if failed else ""
        left_out = sum(outcome.left_out is not None for outcome in self._of)
        text = f"{len(self._of) - left_out} tried, {left_out} left out, {time.monotonic() - self._begin:.1f} s{fails}"
        title = "sample" if self._mixed else family(self._of[0].unit)
        _say(f"{title:<32} {text}")
        self._of, self._begin = [], time.monotonic()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
