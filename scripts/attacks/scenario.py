"""What a scenario is, and what it gets.

    @scenario(emulator=("--cann", "8.5.0"))
    def forged_keys(run: Run) -> None:
        \"\"\"One line: what is tried, and what must come of it.\"\"\"
        for choice in run.rounds():
            run.step("what is about to be done")
            run.expect(condition, "what is wrong where it does not hold")
            run.count("refused")

A scenario runs in a process of its own. A round depends on the seed and its number alone, so ``--only NAME --seed N --round K``
does it again. Modules of scenarios are named in ``MODULES``.
"""

from __future__ import annotations

import importlib
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Callable, NamedTuple, NoReturn, Optional

MODULES = ("conversions", "handles", "jobs", "memory", "places", "programs", "recordings", "runtime", "training")
SHARED = "ASCEND_ACLNN_ATTACK_SHARED"  # a directory for what turns need not make again
DIED = 5.0  # seconds in which every survivor must have named what died, on a host with a core for each process


class Finding(AssertionError):
    """A defect of the package."""


class Scenario(NamedTuple):
    """``emulator``: options of ``ascend-aclnn emulator run``; None: it starts emulated devices by itself, or needs none."""

    name: str
    body: Callable[[Run], None]
    emulator: Optional[Sequence[str]]
    needs: Sequence[str]  # modules that must be installed
    seconds: float  # of a turn, where there is as much time
    beyond: float  # that a turn may take beyond its time: to import, to end its last round
    environment: dict[str, str]


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    emulator: Optional[Sequence[str]] = None,
    needs: Sequence[str] = (),
    seconds: float = 20,
    beyond: float = 60,
    **environment: str,
) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Registers a function as a scenario, under its name with dashes."""

    def register(body: Callable[[Run], None]) -> Callable[[Run], None]:
        name = body.__name__.replace("_", "-")
        SCENARIOS[name] = Scenario(name, body, emulator, needs, seconds, beyond, environment)
        return body

    return register


def load() -> dict[str, Scenario]:
    """All scenarios, by name; ASCEND_ACLNN_ATTACKS names modules beside these."""
    for module in MODULES:
        importlib.import_module(f"attacks.{module}")
    for module in filter(None, os.environ.get("ASCEND_ACLNN_ATTACKS", "").split(",")):
        importlib.import_module(module)
    return SCENARIOS


class Run:
    """A turn of a scenario: random choices by the round, a list of steps, counts of outcomes."""

    def __init__(self, seed: int, seconds: float, directory: Path, only: Optional[int] = None) -> None:
        self.seed, self.directory, self.only = seed, directory, only
        self.end = time.monotonic() + seconds
        self.round = -1
        self.counts: Counter[str] = Counter()
        self._steps = (directory / "steps.txt").open("w")

    def rounds(self) -> Iterator[random.Random]:
        """Random choices for each round; at least one, and no further one when the time is over."""
        while self.round < 0 or (self.only is None and time.monotonic() < self.end):
            self.round = self.round + 1 if self.only is None else self.only
            self._steps.seek(0)
            self._steps.truncate()
            self.step(f"round {self.round} of seed {self.seed}")
            yield random.Random(f"{self.seed} {self.round}")

    def left(self) -> float:
        """Seconds of this turn."""
        return max(self.end - time.monotonic(), 0)

    def step(self, text: str) -> None:
        """Notes what is about to be done; the steps of the last round are kept with a finding."""
        print(text, file=self._steps, flush=True)

    def count(self, outcome: str, number: int = 1) -> None:
        self.counts[outcome] += number

    def expect(self, condition: object, text: str) -> None:
        if not condition:
            self.fail(text)

    def fail(self, text: str) -> NoReturn:
        raise Finding(f"round {self.round}: {text}")


def patience(seconds: float) -> float:
    """A time limit for a host that is as busy as this one."""
    return seconds * min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), 6)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether a condition holds within so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
