"""Attacks the package for some minutes with scenarios that are chosen at random, and reports what it has found.

    scripts/attack 10                      # ten minutes; prints its seed
    scripts/attack 10 --seed 7             # the same choices again
    scripts/attack 60 --only soak --turn 3600       # one process for an hour
    scripts/attack 1 --only virtual-memory --seed 7 --round 12      # one round of a finding again
    scripts/attack --list

Each turn is a process of its own with a time limit. After it nothing may be left: processes, files in /dev/shm and in the
directory for temporary files. A finding is kept in --keep with its steps and output; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple, Optional

from bench_results import Table, write
from rank_tools import processes

from attacks.scenario import SHARED, Scenario, load, patience, wait_for

MARK = "ASCEND_ACLNN_ATTACK_TURN"
SHARED_MEMORY = Path("/dev/shm")


class Turn(NamedTuple):
    """What came of a turn."""

    rounds: int
    counts: dict[str, int]
    finding: Optional[str]
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float, nargs="?", default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="chosen at random, and printed, without it")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="this scenario, at least one turn; may be given several times"
    )
    parser.add_argument(
        "--turn", type=float, metavar="SECONDS", help="how long a turn is; without it, as its scenario says"
    )
    parser.add_argument("--round", type=int, help="this round of the one scenario, with its --seed")
    parser.add_argument("--keep", type=Path, default=Path("attack-findings"), help="where findings go (%(default)s)")
    parser.add_argument(
        "--grace", type=float, default=2.0, help="seconds in which a turn's processes must end (%(default)s)"
    )
    parser.add_argument("--list", action="store_true", help="print the scenarios")
    parser.add_argument("--write", action="store_true", help="write the table to docs/results/attack.md, too")
    options = parser.parse_args()
    scenarios = load()
    if options.list:
        for one in scenarios.values():
            print(f"{one.name:22} {(one.body.__doc__ or '').splitlines()[0]}")
        return 0
    unknown = sorted(set(options.only or ()) - set(scenarios))
    if unknown:
        parser.error(f"no scenario is called {', '.join(unknown)}; there are {', '.join(scenarios)}")
    if options.round is not None and (options.seed is None or len(options.only or ()) != 1):
        parser.error("--round needs --seed and one --only")
    chosen = [scenarios[name] for name in options.only or scenarios]
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    with tempfile.TemporaryDirectory(prefix="attack-shared-") as place:
        os.environ[SHARED] = place
        return attack(chosen, seed, options)


def attack(chosen: list[Scenario], seed: int, options: argparse.Namespace) -> int:
    """Turns until the time is over; whether there was a finding."""
    seconds, only = options.minutes * 60, options.round
    print(f"attack: seed {seed}, {seconds:.0f} seconds, {len(chosen)} scenarios", flush=True)
    for one in list(chosen):
        missing = [name for name in one.needs if importlib.util.find_spec(name) is None]
        if one.emulator is not None and shutil.which("cc") is None:
            missing.append("a C compiler (cc)")
        if missing:
            print(f"left out: {one.name}, which needs {', '.join(missing)}")
            chosen.remove(one)
    choices, end = random.Random(seed), time.monotonic() + seconds
    turns: dict[str, list[Turn]] = {one.name: [] for one in chosen}
    enough = all if options.only else any
    while chosen and (time.monotonic() < end or not enough(turns.values())):
        # The one that has had the least time, so that all get their share; which of equal ones is random.
        spent = {one.name: sum(turn.seconds for turn in turns[one.name]) for one in chosen}
        one = min(choices.sample(chosen, len(chosen)), key=lambda one: spent[one.name])
        own_seed = seed if only is not None else choices.randrange(1 << 31)
        length = options.turn or one.seconds
        turn = take_turn(one, own_seed, min(length, max(end - time.monotonic(), 0.1)), options)
        turns[one.name].append(turn)
        if turn.finding is not None:
            again = "" if only is not None else f" (seed {own_seed})"
            print(f"FINDING {one.name}{again}: {turn.finding.strip()}", flush=True)
        if only is not None:
            break
    return report(turns, options)


def report(turns: dict[str, list[Turn]], options: argparse.Namespace) -> int:
    """Prints a table of Markdown; 1 if there was a finding."""
    print(f"\n{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    head = ("scenario", "turns", "rounds", "seconds", "findings", "outcomes")
    print(f"| {' | '.join(head)} |\n|---|---|---|---|---|---|")
    rows: list[list[str]] = []
    found = 0
    for name, own in turns.items():
        if not own:
            continue
        counts = sum((Counter(turn.counts) for turn in own), Counter[str]())
        outcomes = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
        findings = sum(turn.finding is not None for turn in own)
        found += findings
        numbers = (len(own), sum(turn.rounds for turn in own), sum(turn.seconds for turn in own), findings)
        rows.append([name, *(f"{number:.0f}" for number in numbers), outcomes])
        print(f"| {' | '.join(rows[-1])} |")
    missed = [name for name, own in turns.items() if not own]
    if missed:
        print(f"no turn of {', '.join(missed)}")
    print(f"\n{found} findings")
    if options.write:
        text = "What random scenarios tried, what came of it, and how many findings there were: [Reliability](../reliability.md)."
        if missed:
            text += f" The time was over before a turn of {', '.join(missed)}."
        write(
            "attack", "The standing attacker", f"scripts/attack {options.minutes:g} --write", text, [Table(head, rows)]
        )
    return int(found > 0)


def take_turn(one: Scenario, seed: int, seconds: float, options: argparse.Namespace) -> Turn:
    """One process of a scenario, and what is left of it."""
    only = options.round
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attack-") as place:
        directory, temporary = Path(place, "turn"), Path(place, "tmp")
        directory.mkdir()
        temporary.mkdir()
        mark = f"{os.getpid()}-{time.monotonic_ns()}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_EMULATOR_", "TASK_QUEUE"))}
        environment |= {**one.environment, MARK: mark, "TMPDIR": str(temporary), "ASCEND_EMULATOR_LEAKS": "0"}
        emulator = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", *(one.emulator or ()), "--"]
        arguments = [one.name, str(seed), str(seconds), str(directory), *([] if only is None else [str(only)])]
        command = [*(emulator if one.emulator is not None else []), sys.executable, "-m", "attacks.child"]
        shared = files(SHARED_MEMORY)
        with (directory / "output.txt").open("wb") as output:
            process = subprocess.Popen(
                [*command, *arguments], env=environment, stdout=output, stderr=output, start_new_session=True
            )
            try:
                status: Optional[int] = process.wait(seconds + patience(one.beyond))
            except subprocess.TimeoutExpired:
                status = None
        result = directory / "result.json"
        found = json.loads(result.read_text()) if result.exists() else {"finding": None, "rounds": 0, "counts": {}}
        problems = [found["finding"]] if found["finding"] else []
        if status is None:
            problems.append(f"hangs: no end after {seconds + patience(one.beyond):.0f} seconds")
        elif not result.exists():
            problems.append(f"ended with {status}: {last_lines(directory / 'output.txt')}")
        problems += leftovers(f"{MARK}={mark}", shared, temporary, options.grace)
        if problems:
            kept = options.keep / f"{one.name}-{seed}"
            shutil.copytree(directory, kept, dirs_exist_ok=True)
            rounds = f" --round {found['rounds'] - 1}" if found["rounds"] else ""
            again = f"scripts/attack 1 --only {one.name} --seed {seed}{rounds}"
            (kept / "finding.txt").write_text("\n".join([*problems, "", f"again: {again}", ""]), encoding="utf-8")
            problems.append(f"kept in {kept}; again: {again}")
    return Turn(found["rounds"], found["counts"], "; ".join(problems) or None, time.monotonic() - start)


def leftovers(mark: str, shared: set[Path], temporary: Path, grace: float) -> list[str]:
    """What a turn has left behind. Its processes are ended."""
    problems = []
    if not wait_for(lambda: not processes(mark), patience(grace)):
        left = processes(mark)
        problems.append(f"processes are left: {left}")
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    # Python's own semaphores ("sem.mp-...") have names for as long as other programs that use multiprocessing start children.
    new = (path for path in files(SHARED_MEMORY) - shared if not path.name.startswith("sem.mp-"))
    more = sorted(str(path) for path in new if not in_use(path) and path.exists())  # others' may go meanwhile
    if more:
        problems.append(f"shared memory is left: {', '.join(more)}")
    rest = sorted(str(path.relative_to(temporary)) for path in temporary.rglob("*"))
    if rest:
        problems.append(f"temporary files are left: {', '.join(rest[:10])}")
    return problems


def files(directory: Path) -> set[Path]:
    """This user's files."""
    return {path for path in directory.glob("*") if path.exists() and path.stat().st_uid == os.getuid()}


def in_use(path: Path) -> bool:
    """Whether a process has a file open or mapped: then another program's, since none of the turn's is left."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(path) in (process / "maps").read_text():
                return True
            if any(os.readlink(link) == str(path) for link in (process / "fd").iterdir()):
                return True
        except OSError:
            continue
    return False


def last_lines(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-15:])


if __name__ == "__main__":
    sys.exit(main())
