"""Programs: the steps of captured graphs, bound to their addresses and run one after the other."""

from __future__ import annotations

import functools
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ascend_aclnn.backends.numpy.placed import Memory
from ascend_aclnn.emulator.process.plans import Bound, Plan
from ascend_aclnn.emulator.protocol import Step


class ProgramStep(NamedTuple):
    """One step, ready to run."""

    name: str
    run: Callable[[], Any]


class Program(Plan):
    """What the device process runs for one launch of a captured graph. It is launched as a plan without addresses."""

    once = False
    addresses = 0

    def __init__(self, steps: list[ProgramStep]) -> None:
        self._runs = [step.run for step in steps]
        self._names = [step.name for step in steps]
        self._failed = self._name(0)
        self.bound: dict[bytes, Bound] = {}
        self._bind()

    def _bind(self) -> None:
        self.bound[b""] = self._runs[0] if len(self._runs) == 1 else self._run

    def _name(self, at: int) -> str:
        return f"{self._names[at]} (step {at} of a graph)"

    @property
    def name(self) -> str:
        """The name of the step that has failed."""
        return self._failed

    def _run(self) -> None:
        at = -1
        try:
            for run in self._runs:
                at += 1
                run()
        except Exception:
            self._failed = self._name(at)
            raise

    def run_timed(self, correlation: int, times: list[tuple[int, int, int]]) -> None:
        """Runs the steps, and notes of each a number, from ``correlation`` on, when it began and when it ended."""
        at = -1
        try:
            for run in self._runs:
                at += 1
                begin = time.monotonic_ns()
                run()
                times.append((correlation + at, begin, time.monotonic_ns()))
        except Exception:
            self._failed = self._name(at)
            raise

    def replace(self, at: int, step: ProgramStep) -> None:
        """Exchanges one step, also while the program runs: a step that is still to come is the new one."""
        self._names[at] = step.name
        self._runs[at] = step.run
        self._failed = self._name(0)
        self._bind()


def _nothing() -> None:
    pass


def read_steps(
    payload: bytes, start: int, memory: Memory, plans: dict[int, Plan], bind: Callable[[Plan, bytes], Bound]
) -> Iterator[ProgramStep]:
    """The steps in a request, as csrc/ascendcl/model/model.c writes them: of each its length in words, and the words."""
    while start < len(payload):
        count = int.from_bytes(payload[start : start + 8], "little")
        start += 8
        words = payload[start : start + 8 * count]
        start += 8 * count
        kind = Step(int.from_bytes(words[:8], "little"))
        if kind is Step.LAUNCH:
            number = int.from_bytes(words[8:16], "little")
            plan = plans.pop(number) if plans[number].once else plans[number]
            yield ProgramStep(plan.name, bind(plan, words[16 : 16 + 8 * plan.addresses]))
            continue
        if kind is Step.SKIP:
            yield ProgramStep("a disabled task", _nothing)
            continue
        target, size, operand = struct.unpack_from("<3Q", words, 8)
        written = memory[target : target + size]
        if kind is Step.COPY:
            yield ProgramStep("a copy", functools.partial(np.copyto, written, memory[operand : operand + size]))
        else:
            yield ProgramStep("a fill", functools.partial(written.fill, operand))


__all__ = ["Program", "ProgramStep", "read_steps"]
