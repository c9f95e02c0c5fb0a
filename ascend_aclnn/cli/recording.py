"""``ascend-aclnn replay`` and ``ascend-aclnn recording``: what a program launched, run again, shown, compared, cut."""

from __future__ import annotations

import argparse
import contextlib
import html
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Optional

from ascend_aclnn import emulator, selection
from ascend_aclnn.cli.operators import add_operators, load_operators
from ascend_aclnn.cli.sizes import size
from ascend_aclnn.core.progress import Progress
from ascend_aclnn.core.socs import DEFAULT_SOC, relative_of
from ascend_aclnn.recording import Call, Event, Launch, Recording
from ascend_aclnn.replay import Outcome, Replay, differences, export, replay, trim
from ascend_aclnn.replay.collectives import Exchange, exchanges
from ascend_aclnn.replay.export import default_name
from ascend_aclnn.replay.failures import Failures
from ascend_aclnn.replay.summary import call_line, header_lines, launch_line, launch_lines
from ascend_aclnn.testing import pictures
from ascend_aclnn.testing.failures import DIRECTORY

BACKENDS = ("numpy", "emulator", "npu")
_SHOWN = 20  # launches that a report lists


def add_commands(subparsers: Any) -> None:
    """Adds ``replay`` and ``recording`` to the command line."""
    command = subparsers.add_parser("replay", help="run the launches of a recording again")
    command.add_argument(
        "file",
        nargs="+",
        help="a recording that ascend-aclnn layer run --record has written; those of all ranks: with --compare their "
        "collectives, too",
    )
    command.add_argument(
        "--backend", choices=BACKENDS, default="numpy", help="what runs them (default: the NumPy references)"
    )
    _add_range(command)
    command.add_argument("--compare", action="store_true", help="compare results with the recorded ones")
    command.add_argument("--json", action="store_true", help="for programs")
    command.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures of what differs")
    add_failures(command)
    add_bounds(command)
    add_operators(command)
    command.set_defaults(run=run_replay)

    parser = subparsers.add_parser("recording", help="show, compare and cut recordings")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("show", help="what ran where, and the launches; with --op all about one")
    command.add_argument("file")
    _add_range(command)
    command.add_argument(
        "--calls", action="store_true", help="other functions, too: memory, copies, events, collectives"
    )
    command.set_defaults(run=_show)

    command = commands.add_parser("diff", help="the first launch that differs between two recordings of a program")
    command.add_argument("first")
    command.add_argument("second")
    command.add_argument("--all", action="store_true", help="list every launch that differs")
    command.set_defaults(run=_diff)

    command = commands.add_parser("trim", help="write some launches into a new recording")
    command.add_argument("file")
    _add_range(command)
    command.add_argument("output", help="the new recording")
    command.set_defaults(run=_trim)

    command = commands.add_parser("export", help="write a launch as a pytest case that stands by itself")
    command.add_argument("file")
    command.add_argument("--op", type=int, required=True, metavar="N", help="the launch's number")
    command.add_argument("--to", type=Path, metavar="FILE", help="the test (default: test_OPERATOR_N.py)")
    command.set_defaults(run=_export)


def add_failures(command: argparse.ArgumentParser) -> None:
    """The option that says where inputs, results and goldens of what is wrong are written."""
    command.add_argument(
        "--failures",
        default=DIRECTORY,
        metavar="DIR",
        help=f"where launches that are wrong are recorded with their goldens, or off (default: {DIRECTORY})",
    )


def add_bounds(command: argparse.ArgumentParser) -> None:
    """The options that bound what a launch costs the reference."""
    command.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="launches whose tensors are larger run by blocks of rows, or not (default: 4G, with --check 1G)",
    )
    command.add_argument(
        "--seconds", type=float, metavar="S", help="of a launch that runs by blocks; the rest is left out"
    )


def _add_range(command: argparse.ArgumentParser) -> None:
    command.add_argument("--op", type=int, metavar="N", help="this launch only")
    command.add_argument("--from", type=int, dest="first", metavar="N", help="the first launch (default: 0)")
    command.add_argument("--to", type=int, dest="last", metavar="M", help="the last launch (default: the last one)")


def _range(options: argparse.Namespace, recording: Recording) -> range:
    """The launches that the options choose; ValueError where the recording has no such launch."""
    count = len(recording.launches)
    first, last = options.first or 0, count - 1 if options.last is None else options.last
    if options.op is not None:
        if options.first is not None or options.last is not None:
            raise ValueError("--op names one launch; --from and --to name a range of launches")
        first = last = options.op
    for number in {first, last} if count else set():
        if not 0 <= number < count:
            raise ValueError(f"{recording.path} has no launch {number}; it has {count}, numbered from 0")
    return range(first, last + 1)


def _say(text: object) -> None:
    """Prints; what a file says must not steer the terminal."""
    print("".join(c if c.isprintable() or c in "\n\t" else "?" for c in str(text)))


# ----------------------------------------------------------------------------------------------- replay


def run_replay(options: argparse.Namespace) -> int:
    sections: list[str] = []
    reports: list[dict[str, Any]] = []
    lines: list[str] = []
    load_operators(options)
    kept = Failures(options.failures)
    alike, ran, where = True, False, ""
    for path in options.file:
        result, where = _replayed(options, path, kept, sections)
        alike, ran = alike and result.first is None, ran or any(not outcome.left_out for outcome in result.outcomes)
        reports.append(_replay_json(result, where))
        lines += [f"{path}:"] if len(options.file) > 1 else []
        lines.append(_replay_text(result, where, options.compare))
    if options.compare and len(options.file) > 1:
        compared = _collectives(options.file, options.failures)
        alike = alike and not any(exchange.difference for exchange in compared)
        ran = ran or any(not exchange.left_out for exchange in compared)
        reports.append({"collectives": [exchange.to_json() for exchange in compared]})
        lines += _collective_lines(compared)
        sections += [exchange._repr_html_() for exchange in compared if exchange.difference][:_SHOWN]
    if options.html is not None:
        title = f"<h1>{html.escape(' '.join(map(str, options.file)))} on {html.escape(where)}</h1>"
        options.html.write_text(pictures.page("replay", [title, *(sections or ["<p>nothing differs</p>"])]), "utf-8")
    if options.json:
        _say(json.dumps(reports[0] if len(reports) == 1 else reports, indent=2))
    else:
        _say("\n".join(lines))
    return 0 if alike and ran else 1


def _replayed(options: argparse.Namespace, path: str, kept: Failures, sections: list[str]) -> tuple[Replay, str]:
    """The outcomes of a file's launches, and what ran them; sections of a page are added for those that differ."""
    with Recording(path) as recording, contextlib.ExitStack() as stack:
        chosen = _range(options, recording)
        soc = _soc(recording)
        if options.backend == "emulator":
            emulator.activate(soc=soc)
        name = "numpy" if options.backend == "numpy" else "npu"
        backend = stack.enter_context(selection.use_backend(name, soc=soc if name == "numpy" else None))
        progress = stack.enter_context(Progress("replaying", total=len(chosen)))
        outcomes: list[Outcome] = []
        drawn = False
        for outcome in replay(recording, chosen, options.compare, options.memory, options.seconds):
            if outcome.difference:
                outcome.recorded = kept.write(recording, outcome)
                if len(sections) < _SHOWN:
                    sections.append(outcome.to_html())
                if drawn:  # the first one is drawn below
                    outcome.forget_arrays()
                drawn = True
            outcomes.append(outcome)
            progress.step()
        where = f"the emulated device ({backend.soc})" if backend.emulated else f"{backend.name} ({backend.soc})"
        return Replay(outcomes), where


def _collectives(paths: list[str], directory: str) -> list[Exchange]:
    """The collectives among recordings, compared; the first ones that are wrong are recorded."""
    with contextlib.ExitStack() as stack:
        compared = list(exchanges([stack.enter_context(Recording(path)) for path in paths]))
    for exchange in [exchange for exchange in compared if exchange.difference][:_SHOWN]:
        exchange.recorded = exchange.write(directory)
    return compared


def _collective_lines(compared: list[Exchange]) -> list[str]:
    wrong = [exchange for exchange in compared if exchange.difference]
    left_out = Counter(f"{exchange.name}: {exchange.left_out}" for exchange in compared if exchange.left_out)
    lines = [line for exchange in wrong[:_SHOWN] for line in (*exchange.lines(), *exchange.recorded)]
    right = len(compared) - len(wrong) - sum(left_out.values())
    lines.append(f"collectives: {right} right, {len(wrong)} different, {sum(left_out.values())} left out")
    return [*lines, *(f"  {count:>6} left out: {reason}" for reason, count in left_out.most_common(_SHOWN))]


def _soc(recording: Recording) -> Optional[str]:
    """The SoC whose rules a replay applies: the recorded one, or one of the same product."""
    recorded = recording.header.soc
    soc = relative_of(recorded)
    if recorded and soc != recorded:
        print(
            f"ascend-aclnn: SoC {recorded!r} is not known; the rules of {soc or DEFAULT_SOC} are applied",
            file=sys.stderr,
        )
    return soc


def _replay_json(result: Replay, where: str) -> dict[str, Any]:
    first = result.first
    return {
        "backend": where,
        "ok": result.ok,
        "first": None if first is None else first.launch.index,
        "launches": [outcome.to_json() for outcome in result.outcomes],
    }


def _replay_text(result: Replay, where: str, comparing: bool) -> str:
    different = [outcome for outcome in result.outcomes if outcome.difference]
    left_out = Counter(outcome.kind or outcome.left_out for outcome in result.outcomes if outcome.left_out)
    lines = []
    if result.first is not None:
        lines.append(f"first difference: {result.first}")
        lines += [f"  {line}" for line in (*result.first.picture(), *result.first.recorded)]
        lines += [str(outcome) for outcome in different[1:_SHOWN]]
        if len(different) > _SHOWN:
            lines.append(f"... {len(different) - _SHOWN} more differ; --json lists all")
    alike = len(result.outcomes) - len(different) - sum(left_out.values())
    partly = sum(bool(outcome.partly) for outcome in result.outcomes)
    verb = "as recorded" if comparing else "with the recorded status"
    lines.append(f"on {where}: {alike} launches {verb}, {len(different)} different, {sum(left_out.values())} left out")
    lines += [f"  {partly:>6} only in part: --seconds was up"] if partly else []
    lines += [f"  {count:>6} left out: {reason}" for reason, count in left_out.most_common(_SHOWN)]
    return "\n".join(lines)


# -------------------------------------------------------------------------------------------- recording


def _show(options: argparse.Namespace) -> int:
    with Recording(options.file) as recording:
        chosen = _range(options, recording)
        if options.op is not None:
            _say("\n".join(launch_lines(recording, recording.launches[options.op])))
            return 0
        _say("\n".join(header_lines(recording)))
        if not options.calls:
            for index in chosen:
                _say(launch_line(recording.launches[index]))
            return 0
        inside = chosen.start == 0
        for event in recording.events():
            if isinstance(event, Launch):
                inside = event.index in chosen
            if inside:
                _say(_event_line(recording, event))
    return 0


def _event_line(recording: Recording, event: Event) -> str:
    if isinstance(event, Launch):
        return launch_line(event)
    return call_line(recording, event) if isinstance(event, Call) else f"        note: {event.text}"


def _diff(options: argparse.Namespace) -> int:
    with Recording(options.first) as first, Recording(options.second) as second:
        count = inherited = 0
        origin = False
        for difference in differences(first, second):
            count += 1
            inherited += not difference.is_origin
            if count == 1 or options.all or (difference.is_origin and not origin):
                _say(f"first difference: {difference}" if count == 1 else difference)
            origin = origin or difference.is_origin
        shorter = min(len(first.launches), len(second.launches))
        if count:
            _say(f"{count} launches differ, {inherited} of them in what they were called with")
        else:
            _say(f"{shorter} launches are alike")
    return 1 if count else 0


def _trim(options: argparse.Namespace) -> int:
    with Recording(options.file) as recording:
        chosen = _range(options, recording)
        trim(recording, chosen, options.output)
    _say(f"{options.output}: {len(chosen)} launches, {Path(options.output).stat().st_size} bytes")
    return 0


def _export(options: argparse.Namespace) -> int:
    with Recording(options.file) as recording:
        options.first = options.last = None
        _range(options, recording)
        path = options.to or Path(default_name(recording, options.op))
        export(recording, options.op, path)
    _say(f"{path}: run it with pytest")
    return 0
